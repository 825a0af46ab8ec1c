"""The kernel as one object file, by numba: all marked functions, optimised together.

Numba infers types and writes LLVM code, function by function, into one library. Only the entry
points stay visible, so LLVM sees a whole program: it compiles each function once, inlines what is
called from one place, and drops the rest. (A library for each function, numba's way for functions
that compile on call, holds all that it calls again: 33 s of processor time for 18 on the same busy
machine, and 7 MB for 0.2.)

Invariant: nothing here runs where an object is on disk already; the object refers to libm, to
`wrappers.NEEDS` and to nothing of numba's.

Python calls what is compiled through built-in functions in LLVM's language. A wrapper takes what
METH_FASTCALL passes (`self` is the type `numpy.ndarray`), checks the arguments, lets go of the
interpreter's lock, calls, and turns the outcome into an int, None or an exception: an array is of
one dimension, contiguous, aligned, writeable and of the signature's type, or there is a TypeError
and nothing has run. The layout of such an object is numpy's binary interface, which every compiled
extension relies on.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, compiler, typed_passes, types, untyped_passes
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager
from numba.core.cpu import CPUContext
from numba.core.registry import cpu_target
from numba.core.typing.templates import make_concrete_template
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from deltafix.kernel import jit
from deltafix.kernel.jit import BOUNDS_CHECKED


@intrinsic
def _hint(typingctx: Any, array: Any, index: Any) -> Any:
    """The prefetch instruction for reading, kept in every cache."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        view = context.make_array(sig.args[0])(context, builder, args[0])
        pointer = builder.bitcast(builder.gep(view.data, [args[1]]), cgutils.voidptr_t)
        i32 = ir.IntType(32)
        hint = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, i32, i32, i32]),
            "llvm.prefetch.p0i8",
        )
        builder.call(hint, [pointer, i32(0), i32(3), i32(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@contextmanager
def _inferring_once(typing: Any) -> Iterator[None]:
    """Have numba infer what a call returns once for the same function and types of arguments.

    Of the kernel's 28,000 calls, nearly all of them operators, 3,000 differ: 5 s of the processor
    instead of 16, on a busy machine.
    """
    resolve = typing.resolve_function_type
    signatures: dict[Any, Any] = {}

    def resolve_once(func: Any, args: Any, kws: Any) -> Any:
        key = func, tuple(args), tuple(dict(kws).items())
        signature = signatures.get(key)
        if signature is None:
            signature = signatures[key] = resolve(func, args, kws)
        return signature

    typing.resolve_function_type = resolve_once
    try:
        yield
    finally:
        del typing.resolve_function_type


class _Passes(compiler.CompilerBase):  # type: ignore[misc]  # numba has no types
    """Numba's passes but for those that find nothing in the kernel: closures, array expressions.

    The object is the same, byte by byte.
    """

    def define_pipelines(self) -> list[PassManager]:
        passes = PassManager("kernel")
        for each in (
            untyped_passes.TranslateByteCode,
            untyped_passes.FixupArgs,
            untyped_passes.IRProcessing,
            untyped_passes.GenericRewrites,
            untyped_passes.ReconstructSSA,
            untyped_passes.DeadBranchPrune,
            typed_passes.NopythonTypeInference,
            typed_passes.PreLowerStripPhis,
            typed_passes.IRLegalization,
            typed_passes.NativeLowering,
            typed_passes.NoPythonBackend,
        ):
            passes.add_pass(each, each.__name__)
        passes.finalize()
        return [passes]


class _Context(CPUContext):  # type: ignore[misc]  # numba has no types
    """Numba's way to LLVM code, but for subscripts of arrays: the kernel's are never negative.

    Numba has negative ones count from the end: four instructions more for each subscript, and the
    arrays' lengths passed wherever a function is called.
    """

    def get_function(self, fn: Any, sig: Any, _firstcall: bool = True) -> Any:
        key = fn.get_impl_key(sig) if isinstance(fn, types.Callable) else fn
        if key not in (operator.getitem, operator.setitem) or sig.args[0] not in _ARRAYS:
            return super().get_function(fn, sig, _firstcall)

        def generate(builder: Any, args: Any, loc: Any = None) -> Any:
            view = self.make_array(sig.args[0])(self, builder, args[0])
            index = self.cast(builder, args[1], sig.args[1], types.intp)
            if self.enable_boundscheck:
                cgutils.do_boundscheck(self, builder, index, builder.extract_value(view.shape, 0))
            cell = builder.gep(view.data, [index], inbounds=True)
            if len(args) == 2:
                return builder.load(cell)
            return builder.store(self.cast(builder, args[2], sig.args[2], sig.args[0].dtype), cell)

        return generate


@global_compiler_lock
def compile_kernel(
    entries: dict[str, Callable[..., Any]],
    cpu: str,
    progress: Callable[[int, int], None] | None = None,
) -> bytes:
    """Compile all marked functions for a processor that LLVM knows by this name, or "host".

    Args:
        entries: the functions that Python calls, by the symbols they get.
        cpu: say "x86-64-v3".
        progress: told how much is done, and of how much, after each function and at the end.

    Returns an object file of this platform's format.
    """
    typing = cpu_target.typing_context
    context = cpu_target.target_context.with_aot_codegen("deltafix", cpu_name=cpu)
    typing.refresh()
    context.refresh()
    context.__class__ = _Context
    typing.insert_global(jit.prefetch, typing.resolve_value_type(_hint))
    flags = compiler.Flags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"  # the value functions check divisions themselves
    flags.boundscheck = jit.BOUNDS_CHECKED
    library = context.codegen().create_library("deltafix")
    compiled = {}
    steps = len(jit.MARKED) * 4 // 3  # a quarter of the time is optimising them all
    with _inferring_once(typing):
        for done, (function, signature) in enumerate(jit.MARKED.items(), 1):
            result, _, arguments = signature.partition(":")
            compilation = compiler.compile_extra(
                typing,
                context,
                function,
                tuple(TYPES[letter] for letter in arguments),
                TYPES[result],
                flags,
                locals={},
                library=library,
                pipeline_class=_Passes,
            )
            # What calls it from here on finds it by the Python function.
            template = make_concrete_template(function.__name__, function, [compilation.signature])
            typing.insert_user_function(function, template)
            context.insert_user_function(function, compilation.fndesc)
            compiled[function] = compilation.fndesc
            if progress is not None:
                progress(done, steps)
    module = library.create_ir_module("entries")
    for name, function in entries.items():
        add_wrapper(module, context, name, jit.MARKED[function], compiled[function])
    library.add_ir_module(module)
    for defined in library._final_module.functions:
        if not defined.is_declaration and defined.name not in entries:
            defined.linkage = "internal"
    library.finalize()
    code = bytes(library.emit_native_object())
    if progress is not None:
        progress(steps, steps)
    return code


TYPES = {
    "A": types.int32[::1], "P": types.int32[::1], "L": types.int64[::1], "i": types.int64,
    "b": types.boolean, "f": types.float64, "v": types.void,
}  # fmt: skip

_ARRAYS = (TYPES["A"], TYPES["L"])
_INT, _LONG, _OBJECT = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()

# Bytes into a PyArrayObject_fields, and into a PyArray_Descr, behind the header of every object.
_HEADER = object.__basicsize__
_TYPE = _HEADER - 8
_DATA, _NDIM, _SHAPE, _DESCR, _FLAGS = (_HEADER + offset for offset in (0, 8, 16, 40, 48))
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
        address = builder.gep(base, [_LONG(offset)])
        return builder.load(builder.bitcast(address, kind.as_pointer()))

    def array(pointer: Any, letter: str) -> Any:
        described = read(pointer, _DESCR, _OBJECT)
        kind = TYPES[letter]
        number = np.dtype(str(kind.dtype)).num
        checks = (
            (read(pointer, _NDIM, _INT), 1),
            (builder.and_(read(pointer, _FLAGS, _INT), _INT(_USABLE)), _USABLE),
            (read(described, _TYPE_NUMBER, _INT), number),
            (read(described, _BYTE_ORDER, ir.IntType(8)), ord("=")),
        )
        fits = [
            builder.icmp_unsigned("==", actual, actual.type(expected))
            for actual, expected in checks
        ]
        with cgutils.if_unlikely(builder, builder.not_(reduce(builder.and_, fits))):
            fail("PyExc_TypeError", f"{name}: an argument is no usable array of {kind.dtype}")
        view = context.make_array(kind)(context, builder)
        size = builder.load(read(pointer, _SHAPE, _LONG.as_pointer()))
        width = _LONG(kind.dtype.bitwidth // 8)
        data = builder.bitcast(read(pointer, _DATA, _OBJECT), view.data.type)
        populate_array(view, data, [size], [width], width, meminfo=None)
        return view._getvalue()

    def number(pointer: Any) -> Any:
        value = call("PyLong_AsLongLong", _LONG, pointer)
        with cgutils.if_unlikely(builder, builder.icmp_signed("==", value, _LONG(-1))):
            raised = call("PyErr_Occurred", _OBJECT)
            with cgutils.if_unlikely(builder, cgutils.is_not_null(builder, raised)):
                builder.ret(_OBJECT(None))
        return value

    with cgutils.if_unlikely(builder, builder.icmp_signed("!=", count, _LONG(len(letters)))):
        fail("PyExc_TypeError", f"{name} takes {len(letters)} arguments")
    arguments = []
    for position, letter in enumerate(letters):
        argument = builder.load(builder.gep(given, [_LONG(position)]))
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
