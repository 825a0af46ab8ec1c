"""What functions of the C library, and CPython's allocators, do with pointers.

Invariant: facts of this table hold for every tree; a function that the tree defines by one of these
names does both. Positions of arguments and parameters count from "0".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from deltafix.analyses.facts import Fact

LIBRARY_INPUTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "allocates": ("f",),
        "returns": ("f", "position"),
        "moves": ("f", "to", "from"),
        "runs": ("f", "position"),
        "passes": ("f", "position", "parameter", "given"),
    }
)
"""Relations of the table and their columns, all of type symbol."""

_ALLOCATE = (
    *("malloc", "calloc", "realloc", "reallocarray", "aligned_alloc", "memalign", "valloc"),
    *("strdup", "strndup", "fopen", "fdopen", "PyMem_Malloc", "PyMem_Calloc", "PyMem_Realloc"),
    *("PyMem_RawMalloc", "PyMem_RawCalloc", "PyMem_RawRealloc"),
    *("PyObject_Malloc", "PyObject_Calloc", "PyObject_Realloc"),
)
_RETURN_FIRST = (
    *("realloc", "reallocarray", "PyMem_Realloc", "PyMem_RawRealloc", "PyObject_Realloc"),
    *("memcpy", "memmove", "memset", "strcpy", "strncpy", "strcat", "strncat"),
    *("strchr", "strrchr", "strstr", "strpbrk", "memchr", "fgets", "strtok"),
)
_MOVE = ("memcpy", "memmove", "mempcpy")
_RUN = {
    "qsort": ("3", (("0", "0"), ("1", "0"))),
    "bsearch": ("4", (("0", "0"), ("1", "1"))),
    "pthread_create": ("2", (("0", "3"),)),
    "pthread_once": ("1", ()),
    "thrd_create": ("1", (("0", "2"),)),
    "signal": ("1", ()),
    "atexit": ("0", ()),
    "at_quick_exit": ("0", ()),
    "on_exit": ("0", (("1", "1"),)),
}

LIBRARY: tuple[Fact, ...] = (
    *(("allocates", (name,)) for name in _ALLOCATE),
    *(("returns", (name, "0")) for name in _RETURN_FIRST),
    ("returns", ("bsearch", "1")),
    ("returns", ("signal", "1")),
    *(("moves", (name, "0", "1")) for name in _MOVE),
    *(("runs", (name, at)) for name, (at, _) in _RUN.items()),
    *(
        ("passes", (name, at, parameter, given))
        for name, (at, passed) in _RUN.items()
        for parameter, given in passed
    ),
)
"""The table."""
