"""Functors that Python computes, asked for by the kernel in the middle of a join.

The kernel keeps a memo per functor and argument types; what it lacks it asks for, for as many rows
at a time as it has found (`kernel.ask`). Invariant: a functor is a function: the same arguments
have the same value for as long as the database lives. Values are never forgotten, so that deletes
find the derivations that inserts made. User functors run inside the epoch; one that raises rolls
it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from deltafix.collector import held_back
from deltafix.engine.bind import UserFunctor
from deltafix.engine.codes import Codes
from deltafix.engine.link import Linked
from deltafix.engine.tables import Memo
from deltafix.errors import FunctorError
from deltafix.facts.values import WORD, BaseType, Value, fitting, shown
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Words
from deltafix.kernel.entries import answer
from deltafix.rules.autoinc import AUTOINC
from deltafix.rules.logical import logical_functor
from deltafix.rules.values import NO_VALUE, comparison, constructor, function, reinterpret

_FEW = 64
"""Cells of calls up to which they are answered one by one: arrays cost 80 us, a call 4."""


class Functors:
    """The functors of a linked program; `reply` answers what a paused run asked.

    `users` are the users' functions as `bind.bound` gives them.
    """

    def __init__(
        self, arena: Arena, linked: Linked, codes: Codes, users: Mapping[str, Callable[..., Any]]
    ) -> None:
        self._arena = arena
        self._codes = codes
        self._users = users
        self._known: dict[Memo, Callable[..., Any]] = {}
        self._calls = {number: (memo, self.of(memo)) for number, memo in linked.memos.items()}
        self._fields = dict(_fields(linked.memos))

    def of(self, memo: Memo) -> Callable[..., Any]:
        """A functor as a function of values, which gives a value or `NO_VALUE`."""
        function = self._known.get(memo)
        if function is None:
            function = self._known[memo] = functor(memo, self._codes, self._users)
        return function

    def reply(self) -> None:
        """Compute the values that were asked for and enter them. Raises FunctorError."""
        asked = self._arena.take(at.ASKS)
        self._arena.cells[at.ASKS + 1] = 0
        if len(asked) > _FEW:
            self._answer_all(asked.astype(np.int32))
            return
        few = asked.tolist()
        if len(few) == 1 + len(self._calls[few[0]][0].types):
            self._answer_one(*few)
            return
        calls = dict[tuple[int, ...], None]()  # in the order of asking, each once
        while few:
            width = 1 + len(self._calls[few[0]][0].types)
            calls[tuple(few[:width])] = None
            del few[:width]
        for call in calls:
            self._answer_one(*call)

    def _answer_one(self, number: int, *arguments: int) -> None:
        """As `_answer` of one call."""
        codes, (memo, compute) = self._codes, self._calls[number]
        value = compute(*map(codes.value, memo.types, arguments))
        if value is NO_VALUE:
            self._enter(number, _array(*arguments), _array(0), 0)
            return
        coded = _array(codes.code(memo.result, value))
        self._enter(number, _array(*arguments), coded, 1)
        for field, column in self._fields.get(number, ()):
            self._enter(field, coded, _array(arguments[column]), 1)

    @held_back()
    def _answer_all(self, asked: Words) -> None:
        runs_of: dict[int, list[Words]] = {}
        while len(asked):
            number = int(asked[0])
            width = 1 + len(self._calls[number][0].types)
            calls = asked[: len(asked) // width * width].reshape(-1, width)
            others = np.flatnonzero(calls[:, 0] != number)
            count = int(others[0]) if len(others) else len(calls)
            runs_of.setdefault(number, []).append(calls[:count, 1:])
            asked = asked[count * width :]
        for number, runs in runs_of.items():
            self._answer(number, _distinct(np.concatenate(runs)))

    def _answer(self, number: int, arguments: Words) -> None:
        codes, (memo, compute) = self._codes, self._calls[number]
        columns = [codes.decode(kind, arguments[:, n]) for n, kind in enumerate(memo.types)]
        rows = [*zip(*columns, strict=True)] if columns else [()]
        if isinstance(compute, UserFunctor):
            results = compute.all(rows)
        else:
            results = [compute(*row) for row in rows]
        if NO_VALUE in results:
            known = np.array([value is not NO_VALUE for value in results])
            nothing = arguments[~known]
            self._enter(number, nothing, np.zeros(len(nothing), dtype=np.int32), 0)
            arguments, results = (
                arguments[known],
                [result for result in results if result is not NO_VALUE],
            )
        values = codes.encode(memo.result, results)
        self._enter(number, arguments, values, 1)
        for field, column in self._fields.get(number, ()):
            # What is made here is often opened by the next rule.
            self._enter(field, values, np.ascontiguousarray(arguments[:, column]), 1)

    def _enter(self, number: int, arguments: Words, values: Words, known: int) -> None:
        words, cells = self._arena.words, self._arena.cells
        answer(words, cells, arguments.reshape(-1), values, known, number, len(values))


def _array(*codes: int) -> Words:
    return np.array(codes, dtype=np.int32)


def _distinct(calls: Words) -> Words:
    """Each call once, in the order of asking."""
    if len(calls) == 1 or not calls.shape[1]:
        return calls[:1]
    column = calls[:, 0] if calls.shape[1] == 1 else calls
    first = np.unique(column, axis=0, return_index=True)[1]
    return calls[np.sort(first)]


def _fields(memos: Mapping[int, Memo]) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """By the memo of what makes a value: those that read a field of it, and which.

    200,000 rows that make a record, and a rule that opens it: 0.8 s, and 1.8 s if that asks anew.
    """
    numbers = {memo.functor: number for number, memo in memos.items()}
    for name, number in numbers.items():
        if name[0] in "[$":
            read = [(numbers.get(f"{name}.{n}"), n) for n in range(len(memos[number].types))]
            reads = [(reader, column) for reader, column in read if reader is not None]
            if reads:
                yield number, reads


def functor(
    memo: Memo, codes: Codes, users: Mapping[str, Callable[..., Any]]
) -> Callable[..., Any]:
    """A functor as a function of values. Raises FunctorError for a user's that is missing."""
    name, types = memo.functor, memo.types
    if name.startswith("@"):
        logical = logical_functor(name[1:])
        return users[name[1:]] if logical is None else logical[1]
    if name[0] in "[$":
        return constructor(name)
    if name in ("match", "contains"):
        test = comparison(name, "symbol")
        return lambda left, right: int(test(left, right))
    if name.startswith(AUTOINC):
        return lambda *values: codes.count(name, values)
    if name == "ord":
        return codes.symbols.code
    if name in ("as", "as32"):
        bits = 32 if name == "as32" else WORD
        return lambda value: reinterpret(value, types[0], memo.result, bits)
    return function(name, types[0])


def fitted(value: object, kind: BaseType, source: str) -> Value:
    """A value that a user's function gave, as its type has it. Raises FunctorError."""
    fit = fitting(kind, value)
    if fit is None:
        raise FunctorError(f"{source} gave {shown(value)}, which is no {kind}; rolled back")
    return fit
