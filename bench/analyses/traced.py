"""What really happens while Python runs: types of arguments and results, and who calls whom."""

from __future__ import annotations

import collections.abc as abstract
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_RESUMED = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
_ABSTRACT = {
    name: getattr(abstract, name)
    for name in (
        *("Iterable", "Iterator", "Reversible", "Container", "Collection", "Callable"),
        *("Sequence", "MutableSequence", "Set", "MutableSet", "Mapping", "MutableMapping"),
    )
}


@dataclass
class Observed:
    """(function, parameter or "return") -> runtime types; and (caller, callee) pairs."""

    values: dict[tuple[str, str], set[type]] = field(default_factory=dict)
    calls: set[tuple[str, str]] = field(default_factory=set)


def observe(run: Callable[[], object], folder: Path) -> Observed:
    """Run something and note what functions written below `folder` take and give."""
    seen = Observed()
    names: dict[CodeType, str | None] = {}

    def symbol(frame: FrameType | None) -> str | None:
        if frame is None:
            return None
        code = frame.f_code
        if code not in names:
            inside = code.co_filename.startswith(str(folder))
            plain = not code.co_qualname.endswith(">")
            module = frame.f_globals.get("__name__")
            names[code] = f"{module}:{code.co_qualname}" if inside and plain else None
        return names[code]

    def watch(frame: FrameType, event: str, value: Any) -> None:
        name = symbol(frame)
        if name is None or event not in {"call", "return"}:
            return
        code = frame.f_code
        if event == "return":  # None may also mean that an exception leaves
            if value is not None and not code.co_flags & _RESUMED:
                seen.values.setdefault((name, "return"), set()).add(type(value))
            return
        if code.co_flags & _RESUMED:
            return
        for one in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            if one in frame.f_locals:
                seen.values.setdefault((name, one), set()).add(type(frame.f_locals[one]))
        caller = symbol(frame.f_back)
        if caller is not None:
            seen.calls.add((caller, name))

    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    return seen


def type_name(kind: type) -> str:
    """What the analysis calls a class."""
    if kind.__module__ in {"builtins", "types", "_io"}:
        return kind.__name__
    return f"{kind.__module__}:{kind.__qualname__}"


def fits(kind: type, inferred: set[str]) -> bool:
    """Whether an instance of `kind` is an instance of one of the inferred types."""
    if any(type_name(one) in inferred for one in kind.__mro__[:-1]):
        return True
    outside = {f"{one.__module__}.{one.__qualname__}" for one in kind.__mro__}
    return bool(outside & inferred) or any(
        name in inferred and issubclass(kind, one) for name, one in _ABSTRACT.items()
    )
