"""The kernel as one object file, by numba: all marked functions, optimised together.

Numba infers types and writes LLVM code, function by function, into one library. Only the entry
points stay visible, so LLVM sees a whole program: it compiles each function once, inlines what is
called from one place, and drops the rest. (A library for each function, numba's way for functions
that compile on call, holds all that it calls again: 33 s of processor time for 18 on the same busy
machine, and 7 MB for 0.2.)

Invariant: nothing here runs where an object is on disk already; the object refers to libm, to
`wrappers.NEEDS` and to nothing of numba's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, compiler, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.typing.templates import make_concrete_template
from numba.extending import intrinsic

from deltafix.kernel import jit
from deltafix.kernel.wrappers import TYPES, add_wrapper


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
    typing.insert_global(jit.prefetch, typing.resolve_value_type(_hint))
    flags = compiler.Flags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"  # the value functions check divisions themselves
    flags.boundscheck = jit.BOUNDS_CHECKED
    library = context.codegen().create_library("deltafix")
    compiled = {}
    steps = len(jit.MARKED) * 4 // 3  # a quarter of the time is optimising them all
    for done, (function, signature) in enumerate(jit.MARKED.items(), 1):
        result, _, arguments = signature.partition(":")
        found = compiler.compile_extra(
            typing,
            context,
            function,
            tuple(TYPES[letter] for letter in arguments),
            TYPES[result],
            flags,
            locals={},
            library=library,
        )
        # What calls it from here on finds it by the Python function.
        template = make_concrete_template(function.__name__, function, [found.signature])
        typing.insert_user_function(function, template)
        context.insert_user_function(function, found.fndesc)
        compiled[function] = found.fndesc
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
