"""Functors that Python computes, asked for by the kernel in the middle of a join.

The kernel keeps a memo per functor and argument types; what it lacks it asks for, one argument
tuple at a time (`kernel.maintain`, ASK). Invariant: a functor is a function: the same arguments
have the same value for as long as the database lives. Values are never forgotten, so that deletes
find the derivations that inserts made. User functors run inside the epoch; one that raises rolls
it back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from deltafix.engine.codes import Codes
from deltafix.engine.link import Linked
from deltafix.engine.tables import Memo
from deltafix.errors import FunctorError
from deltafix.facts.schema import BaseType, Value
from deltafix.facts.values import WORD, fitting, shown
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena
from deltafix.kernel.entries import answer
from deltafix.rules.autoinc import AUTOINC
from deltafix.rules.values import NO_VALUE, comparison, constructor, function, reinterpret

__all__ = ["Functors", "fitted", "functor"]


class Functors:
    """The functors of a linked program; `reply` answers what a paused run asked."""

    def __init__(
        self, arena: Arena, linked: Linked, codes: Codes, users: Mapping[str, Callable[..., Any]]
    ) -> None:
        self._arena = arena
        self._codes = codes
        self._calls = {n: (memo, functor(memo, codes, users)) for n, memo in linked.memos.items()}

    def reply(self) -> None:
        """Compute the value that was asked for and enter it. Raises FunctorError."""
        arena = self._arena
        memo, compute = self._calls[int(arena.cells[at.ASKED])]
        arguments = arena.words[at.KEY : at.KEY + len(memo.types)].copy()
        codes = self._codes
        values = [
            codes.value(kind, code)
            for kind, code in zip(memo.types, arguments.tolist(), strict=True)
        ]
        value = compute(*values)
        known = value is not NO_VALUE
        code = codes.code(memo.result, value) if known else 0
        answer(arena.words, arena.cells, arguments, code, int(known))


def functor(
    memo: Memo, codes: Codes, users: Mapping[str, Callable[..., Any]]
) -> Callable[..., Any]:
    """A functor as a function of values. Raises FunctorError for a user's that is missing."""
    name, types = memo.functor, memo.types
    if name.startswith("@"):
        return users[name[1:]]
    if name[0] in "[$":
        return constructor(name)
    if name in ("match", "contains"):
        test = comparison(name, "symbol")
        return lambda left, right: int(test(left, right))
    if name.startswith(AUTOINC):
        return lambda *values: codes.count(name, values)
    if name == "ord":
        return codes.symbol
    if name in ("as", "as32"):
        bits = 32 if name == "as32" else WORD
        return lambda value: reinterpret(value, types[0], memo.result, bits)
    return function(name, types[0])


def fitted(value: object, kind: BaseType, source: str) -> Value:
    """A value that a user's function gave, as its type has it. Raises FunctorError."""
    found = fitting(kind, value)
    if found is None:
        raise FunctorError(f"{source} gave {shown(value)}, which is no {kind}; rolled back")
    return found
