"""The kernel's machine code: an object file, found on disk or made, and loaded by llvmlite.

An object is for one state of the kernel's sources and one kind of processor, and needs no numba:
a process imports numba only to make the object that is missing. A wheel may carry objects
(`objects/`, beside this file); others are compiled once and kept in `cache_folder`.

Invariant: an object is code: what somebody else could have written is never loaded (who may write
the sources may write it too), nor what is not whole. Not here: how functions are compiled
(`compiler`).
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import llvmlite
import numpy as np
from llvmlite import binding

from deltafix.kernel.jit import JIT_DISABLED, sources_digest

ENTRIES = {
    "answer": "edit", "delete_rows": "edit", "find_slot": "edit", "insert_rows": "edit",
    "lookup": "edit", "settle_rows": "edit",
    "drop_index": "index", "fill_index": "enter", "note_keys": "filters",
    "maintain": "maintain",
    "close_jobs": "enter", "end_entering": "enter", "enter_keys": "enter", "entering": "enter",
    "count_rows": "enter", "list_rows": "enter", "make_index_room": "enter",
    "make_list_room": "enter", "sort_keys": "enter",
    "begin_counting": "lanes", "close_round": "lanes", "count_zone": "lanes",
    "end_counting": "lanes", "forget_heads": "lanes", "grow_keys": "lanes", "lend": "lanes",
    "next_stretch": "keys", "open_round": "lanes", "spread_part": "keys",
    "place_heads": "lanes", "place_zone": "lanes", "take_up": "lanes",
    "discard": "memory", "encode": "values", "find_wide": "values",
    "copy_symbols": "symbols", "enter_symbol": "symbols", "enter_symbols": "symbols",
    "find_symbol": "symbols", "read_symbol": "symbols",
    "commit": "end", "read_changes": "end", "rollback": "end",
    "begin": "cone", "chain_rows": "cone", "expand_one": "cone", "search": "cone",
}  # fmt: skip
"""What Python calls, and which module of the kernel defines it."""

_HERE = Path(__file__).parent
Progress: TypeAlias = Callable[[int, int], None]
_T = TypeVar("_T")

_MAGIC = b"deltafix kernel 1\n"

# What the levels of x86-64 ask for beyond the one before (the System V ABI), as LLVM names it.
_V2 = {"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"}
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}

_PYTHON = (
    "PyErr_Occurred", "PyErr_SetString", "PyEval_RestoreThread", "PyEval_SaveThread",
    "PyExc_IndexError", "PyExc_MemoryError", "PyExc_TypeError", "PyLong_AsLongLong",
    "PyLong_FromLongLong", "Py_IncRef", "_Py_NoneStruct",
)  # fmt: skip
"""What its wrappers call. LLVM would end the process over a name that it cannot resolve."""


@cache
def cpu() -> str:
    """The processor to compile for: a level of x86-64, else this very processor ("host").

    Levels, so that an object serves more machines than the one that compiled it: a container, a
    home shared by many. The kernel waits for memory; what is newer than v3 it does not use.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        return "host"
    has = {name for name, there in binding.get_host_cpu_features().items() if there}
    return "x86-64-v3" if has >= _V3 else "x86-64-v2" if has >= _V2 else "host"


def cache_folder() -> Path:
    """Where objects are kept: NUMBA_CACHE_DIR, else beside the sources, else the user's cache."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if os.access(_HERE, os.W_OK):
        return _HERE / "__pycache__"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "deltafix"


def find() -> bytes | None:
    """The object for this process, if it is on disk."""
    shipped = _read(_HERE / "objects" / _name(cpu()))
    return shipped or _read(cache_folder() / _name(cpu()), llvmlite.__version__)


def is_ready() -> bool:
    """Whether nothing has to be compiled before the kernel can run."""
    return JIT_DISABLED or find() is not None


_compiled: list[bytes] = []  # by this process, which compiles it once even if it cannot keep it


def prepare(progress: Progress | None = None, *, quiet: bool = False) -> bytes:
    """The object for this process; compiled, and kept, where there is none.

    The logger `deltafix` says so, since it takes a while, unless it is to be `quiet`. Warns
    (RuntimeWarning) where it cannot be kept: then every process compiles it anew.
    """
    code = _compiled[0] if _compiled else find()
    if code is None:
        folder = cache_folder()
        if not quiet:
            message = "deltafix: compiling the kernel, once (about a minute); it is kept in %s"
            logging.getLogger("deltafix").warning(message, folder)
        code = make(cpu(), progress)
        _compiled.append(code)
        try:
            keep(code, folder, cpu())
        except OSError as error:
            message = (
                f"deltafix: the compiled kernel cannot be kept in {folder} ({error}), so every "
                "process compiles it anew; NUMBA_CACHE_DIR names another folder"
            )
            warnings.warn(message, RuntimeWarning, stacklevel=2)
    return code


def make(processor: str, progress: Progress | None = None) -> bytes:
    """Compile the kernel for a processor, once a process: some 20 s."""
    functions = {
        name: getattr(import_module(f"deltafix.kernel.{module}"), name)
        for name, module in ENTRIES.items()
    }
    from deltafix.kernel.compiler import compile_kernel  # noqa: PLC0415  numba

    try:
        return compile_kernel(functions, processor, progress)
    except BaseException as error:
        # What LLVM links it frees, and llvmlite notes that afterwards: where an interrupt comes
        # between, it would free it again: 4 of 39 interrupted compilations ended by signal 11.
        _immortal(error.__traceback__)
        raise


def keep(code: bytes, folder: Path, processor: str) -> None:
    """Write an object in one step; those of other sources go. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for other in folder.glob("kernel-*.o"):
        if not other.name.startswith(_name("")):
            other.unlink(missing_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(handle, "wb") as out:
            seal = hashlib.sha256(code).hexdigest()
            out.write(_MAGIC + f"{llvmlite.__version__} {seal}\n".encode() + code)
            os.fchmod(out.fileno(), 0o644)
        os.replace(temporary, folder / _name(processor))
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def load(code: bytes) -> dict[str, Callable[..., Any]]:
    """Load an object into this process: its entry points as built-in functions. O(bytes).

    They let go of the interpreter's lock while they work.
    """
    for name in _PYTHON:
        binding.add_symbol(name, ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, name)))
    binding.add_symbol("pow", _pow())
    engine = _engine()
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return {name: _builtin(name, engine.get_function_address(name)) for name in ENTRIES}


def _pow() -> int:
    """Where libm's `pow` is, the one thing the kernel needs of it."""
    try:
        power = ctypes.CDLL(None).pow
    except AttributeError:  # an interpreter that was not linked with libm
        power = ctypes.CDLL("libm.so.6").pow
    return ctypes.cast(power, ctypes.c_void_p).value or 0


@cache
def _engine() -> Any:
    """LLVM's linker for code in memory, which lives as long as the process."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    return _immortal(binding.create_mcjit_compiler(binding.parse_assembly(""), machine))


class _MethodDef(ctypes.Structure):
    """`PyMethodDef` of Python's stable interface."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_METH_FASTCALL = 0x80


def _immortal(thing: _T) -> _T:
    """Keep what machine code points to until the process is gone.

    While an interpreter ends, modules lose their names in any order, and its collector still visits
    functions then: one whose definition had gone ended the process with signal 11.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing


def _builtin(name: str, address: int) -> Callable[..., Any]:
    defined = _immortal(_MethodDef(name.encode(), address, _METH_FASTCALL, None))
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
    make.restype = ctypes.py_object
    function: Callable[..., Any] = make(ctypes.addressof(defined), np.ndarray, "deltafix.kernel")
    return function


def _name(processor: str) -> str:
    """The file's name says what the code is of; numba and LLVM stand in its first lines."""
    system = f"{sys.platform}-{object.__basicsize__}"
    if processor == "host":
        processor = f"{platform.machine()}-{binding.get_host_cpu_name()}"
    return f"kernel-{sources_digest()[:16]}-{system}-{processor}" + (".o" if processor else "")


def _read(path: Path, compiler: str | None = None) -> bytes | None:
    """The object in a file, if it is whole, by this compiler, and safe."""
    try:
        with open(path, "rb") as source:
            safe = _is_safe(os.fstat(source.fileno()))
            data = source.read()
    except OSError:
        return None
    magic, _, rest = data.partition(b"\n")
    head, _, code = rest.partition(b"\n")
    version, _, seal = head.decode("ascii", "replace").partition(" ")
    whole = magic + b"\n" == _MAGIC and seal == hashlib.sha256(code).hexdigest()
    return code if safe and whole and compiler in (None, version) else None


def _is_safe(about: os.stat_result) -> bool:
    """Whether a file is written by this user, root, or those who may write this very source."""
    own = Path(__file__).stat()
    if about.st_uid not in (0, os.geteuid(), own.st_uid):
        return False
    others = about.st_mode & 0o022
    return not others or (about.st_gid == own.st_gid and not others & ~own.st_mode)
