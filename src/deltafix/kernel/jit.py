"""All compile policy in one place: flags, the on-disk cache, the one intrinsic.

Invariant: every kernel function is compiled through `kernel`, with an explicit signature, so
that importing never triggers type inference twice and a warm cache loads in milliseconds.
With NUMBA_DISABLE_JIT=1 the very same functions are plain Python.

`nogil` lets readers run while a writer works; `boundscheck` follows NUMBA_BOUNDSCHECK;
`error_model="numpy"` drops the division checks that the value functions make themselves.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["JIT_DISABLED", "cache_folder", "is_warm", "kernel", "prefetch", "sources_digest"]

JIT_DISABLED = bool(numba.config.DISABLE_JIT)
_SHORT = {"A": "int32[::1]", "L": "int64[::1]", "P": "int32[::1]", "i": "int64", "b": "boolean"}


def kernel(
    signature: str, *, door: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a kernel function eagerly. `signature` is one letter an argument: `"i:ALPii"`.

    Letters: A arena as int32, L arena as int64, P program, i int64, b boolean, v (result) void.
    A `door` is called from Python and gets a wrapper for that; wrappers for all would double
    the compile time (docs/kernel.md, "Compile time").
    """
    result, _, arguments = signature.partition(":")
    spelled = ", ".join(_SHORT[letter] for letter in arguments)
    flags = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cpython_wrapper": not door}
    full = f"{'void' if result == 'v' else _SHORT[result]}({spelled})"

    def compile_it(function: Callable[..., Any]) -> Callable[..., Any]:
        outside = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(cache_folder())
        try:
            compiled: Callable[..., Any] = njit(full, cache=True, no_cfunc_wrapper=True, **flags)(
                function
            )
        finally:
            numba.config.CACHE_DIR = outside
        return compiled

    return compile_it


if JIT_DISABLED:
    # Wrap-around is the kernel's arithmetic; numpy's scalars would warn about each.
    np.seterr(over="ignore", divide="ignore", invalid="ignore")

    def prefetch(array: Any, index: int) -> None:
        """Plain-Python stand-in: a hint has no effect on results."""

else:

    @intrinsic
    def prefetch(typingctx: Any, array: Any, index: Any) -> Any:
        """Ask for the cache line of `array[index]`; a hint, never a fault, no result.

        Measured: see docs/kernel.md, "Prefetch".
        """
        signature = types.void(array, types.int64)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            from llvmlite import ir  # noqa: PLC0415  only at compile time

            view = context.make_array(sig.args[0])(context, builder, args[0])
            address = builder.gep(view.data, [args[1]])
            pointer = builder.bitcast(address, cgutils.voidptr_t)
            i32 = ir.IntType(32)
            hint = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, i32, i32, i32]),
                "llvm.prefetch.p0i8",
            )
            builder.call(hint, [pointer, i32(0), i32(3), i32(1)])
            return context.get_dummy_value()

        return signature, generate


@cache
def sources_digest() -> str:
    """SHA-256 of all kernel sources, and of whether bounds are checked, in hex."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    digest.update(str(numba.config.BOUNDSCHECK).encode())
    return digest.hexdigest()


@cache
def cache_folder() -> Path:
    """Where the compiled kernel lies: one folder per state of the kernel's sources.

    Numba checks only a function's own file, but a cached function contains what it calls: a
    change in `heap` would leave the old heap inside a cached `join` (it did, once). So the folder
    is named by a hash over all kernel sources (and
    whether bounds are checked), and folders of other hashes are removed. It lies
    under NUMBA_CACHE_DIR, else beside the sources, else (not writable) in the user's cache.
    """
    here = Path(__file__).parent
    name = f"kernel-{sources_digest()[:16]}"
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    base = Path(chosen) if chosen else here / "__pycache__"
    if not chosen and not os.access(here, os.W_OK):
        base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "deltafix"
    folder = base / name
    if not folder.exists():
        for other in base.glob("kernel-*"):
            shutil.rmtree(other, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def is_warm() -> bool:
    """Whether the compiled kernel lies on disk: if not, the first import compiles it."""
    return JIT_DISABLED or any(cache_folder().rglob("maintain.maintain-*.nbc"))
