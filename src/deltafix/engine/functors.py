"""Functors that Python computes, asked for by the kernel in the middle of a join.

The kernel keeps a memo per functor and argument types; what it lacks it asks for, one argument
tuple at a time (`kernel.maintain`, ASK). Invariant: a functor is a function: the same arguments
have the same value for as long as the database lives. Values are never forgotten, so that deletes
find the derivations that inserts made. User functors run inside the epoch; one that raises rolls
it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from deltafix.engine.codes import Codes
from deltafix.engine.link import Linked
from deltafix.engine.tables import Memo
from deltafix.errors import FunctorError
from deltafix.facts.values import WORD, BaseType, Value, fitting, shown
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena
from deltafix.kernel.entries import answer, lookup
from deltafix.rules.autoinc import AUTOINC
from deltafix.rules.values import NO_VALUE, comparison, constructor, function, reinterpret


class Functors:
    """The functors of a linked program; `reply` answers what a paused run asked."""

    def __init__(
        self, arena: Arena, linked: Linked, codes: Codes, users: Mapping[str, Callable[..., Any]]
    ) -> None:
        self._arena = arena
        self._codes = codes
        self._calls = {n: (memo, functor(memo, codes, users)) for n, memo in linked.memos.items()}
        self._fields = dict(_fields(linked.memos))

    def reply(self) -> None:
        """Compute the value that was asked for and enter it. Raises FunctorError."""
        arena, codes = self._arena, self._codes
        asked = int(arena.cells[at.ASKED])
        memo, compute = self._calls[asked]
        arguments = arena.words[at.KEY : at.KEY + len(memo.types)].copy()
        value = compute(*map(codes.value, memo.types, arguments.tolist()))
        if value is NO_VALUE:
            answer(arena.words, arena.cells, arguments, 0, 0)
            return
        code = codes.code(memo.result, value)
        answer(arena.words, arena.cells, arguments, code, 1)
        for number, place in self._fields.get(asked, ()):
            # A row that is read next: SQL makes a nullable value and opens it in the next rule.
            made = np.array([code], dtype=np.int32)
            if lookup(arena.words, arena.cells, made, number, 0, 0) < 0:
                arena.cells[at.ASKED] = number
                answer(arena.words, arena.cells, made, int(arguments[place]), 1)


def _fields(memos: Mapping[int, Memo]) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """By the memo of what makes a value: those that read a field of it, and which."""
    numbers = {memo.functor: number for number, memo in memos.items()}
    for name, number in numbers.items():
        if name[0] in "[$":
            read = [(numbers.get(f"{name}.{n}"), n) for n in range(len(memos[number].types))]
            found = [(other, place) for other, place in read if other is not None]
            if found:
                yield number, found


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
