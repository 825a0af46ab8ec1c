"""How Python calls the compiled kernel: built-in functions, written in LLVM's language.

A wrapper takes what METH_FASTCALL passes (`self` is the type `numpy.ndarray`), checks the
arguments, lets go of the interpreter's lock, calls, and turns the outcome into an int, None or an
exception. It is what numba makes for calls from Python, but needs no numba when it runs, and is
quicker: no argument's type is looked up.

Invariant: an array argument is a `numpy.ndarray` of one dimension, contiguous, aligned, writeable
and of the type that the signature says, or there is a TypeError and nothing has run. The layout of
such an object is numpy's binary interface, which every compiled extension relies on.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.np.arrayobj import populate_array

from deltafix.kernel.jit import BOUNDS_CHECKED

TYPES = {
    "A": types.int32[::1], "P": types.int32[::1], "L": types.int64[::1], "i": types.int64,
    "b": types.boolean, "f": types.float64, "v": types.void,
}  # fmt: skip

_INT, _LONG, _OBJECT = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()

# Bytes into a PyArrayObject_fields, and into a PyArray_Descr, behind the header of every object.
_HEADER = object.__basicsize__
_TYPE = _HEADER - 8
_DATA, _NDIM, _SHAPE, _DESCR, _FLAGS = (_HEADER + place for place in (0, 8, 16, 40, 48))
_BYTE_ORDER, _TYPE_NUMBER = _HEADER + 10, _HEADER + 12
_USABLE = 0x0001 | 0x0100 | 0x0400  # C_CONTIGUOUS, ALIGNED, WRITEABLE

_FAILED = (
    ("PyExc_IndexError", "the kernel left an array, or the arena's reservation is used up")
    if BOUNDS_CHECKED
    else ("PyExc_MemoryError", "the arena's reservation is used up")
)


def add_wrapper(module: ir.Module, context: Any, name: str, signature: str, compiled: Any) -> None:
    """Add to a module what Python calls as `name`: it calls the function `compiled` describes.

    Letters of the signature: A, P and L arrays, i int.
    """
    result, _, letters = signature.partition(":")
    kind = ir.FunctionType(_OBJECT, [_OBJECT, _OBJECT.as_pointer(), _LONG])
    function = ir.Function(module, kind, name)
    builder = ir.IRBuilder(function.append_basic_block())
    ndarray, given, count = function.args

    def call(what: str, returns: ir.Type, *args: Any) -> Any:
        """Call a function of Python's C interface."""
        kind = ir.FunctionType(returns, [arg.type for arg in args])
        return builder.call(cgutils.get_or_insert_function(module, kind, what), args)

    def variable(what: str, kind: ir.Type) -> Any:
        return module.globals.get(what) or ir.GlobalVariable(module, kind, what)

    def fail(error: str, text: str) -> None:
        message = context.insert_const_string(module, text)
        raised = builder.load(variable(error, _OBJECT))
        call("PyErr_SetString", ir.VoidType(), raised, message)
        builder.ret(_OBJECT(None))

    def read(base: Any, offset: int, kind: ir.Type) -> Any:
        place = builder.gep(base, [_LONG(offset)])
        return builder.load(builder.bitcast(place, kind.as_pointer()))

    def array(place: Any, letter: str) -> Any:
        described = read(place, _DESCR, _OBJECT)
        kind = TYPES[letter]
        number = np.dtype(str(kind.dtype)).num
        checks = (
            (read(place, _NDIM, _INT), 1),
            (builder.and_(read(place, _FLAGS, _INT), _INT(_USABLE)), _USABLE),
            (read(described, _TYPE_NUMBER, _INT), number),
            (read(described, _BYTE_ORDER, ir.IntType(8)), ord("=")),
        )
        fits = [builder.icmp_unsigned("==", found, found.type(want)) for found, want in checks]
        with cgutils.if_unlikely(builder, builder.not_(reduce(builder.and_, fits))):
            fail("PyExc_TypeError", f"{name}: an argument is no usable array of {kind.dtype}")
        made = context.make_array(kind)(context, builder)
        size = builder.load(read(place, _SHAPE, _LONG.as_pointer()))
        width = _LONG(kind.dtype.bitwidth // 8)
        data = builder.bitcast(read(place, _DATA, _OBJECT), made.data.type)
        populate_array(made, data, [size], [width], width, meminfo=None)
        return made._getvalue()

    def number(place: Any) -> Any:
        value = call("PyLong_AsLongLong", _LONG, place)
        with cgutils.if_unlikely(builder, builder.icmp_signed("==", value, _LONG(-1))):
            raised = call("PyErr_Occurred", _OBJECT)
            with cgutils.if_unlikely(builder, cgutils.is_not_null(builder, raised)):
                builder.ret(_OBJECT(None))
        return value

    with cgutils.if_unlikely(builder, builder.icmp_signed("!=", count, _LONG(len(letters)))):
        fail("PyExc_TypeError", f"{name} takes {len(letters)} arguments")
    arguments = []
    for place, letter in enumerate(letters):
        argument = builder.load(builder.gep(given, [_LONG(place)]))
        if letter == "i":
            arguments.append(number(argument))
            continue
        is_array = builder.icmp_unsigned("==", read(argument, _TYPE, _OBJECT), ndarray)
        with cgutils.if_unlikely(builder, builder.not_(is_array)):
            fail("PyExc_TypeError", f"{name}: an argument is no numpy array")
        arguments.append(array(argument, letter))
    callee = context.declare_function(module, compiled)
    thread = call("PyEval_SaveThread", _OBJECT)
    status, value = context.call_conv.call_function(
        builder, callee, compiled.restype, compiled.argtypes, arguments
    )
    call("PyEval_RestoreThread", ir.VoidType(), thread)
    with cgutils.if_unlikely(builder, status.is_error):
        fail(*_FAILED)
    if result == "v":
        none = variable("_Py_NoneStruct", ir.IntType(8))
        call("Py_IncRef", ir.VoidType(), none)
        builder.ret(none)
    else:
        builder.ret(call("PyLong_FromLongLong", _OBJECT, value))
