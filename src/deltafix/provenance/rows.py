"""Bodies of clauses over the rows of a state, literal by literal, on Python values.

For questions about what does not hold, where the kernel's joins have nothing to say: they give
whole bindings only. Columns are sorted when first looked up, once for each state. Invariant: a
literal means what it means to the kernel; `rules.values` has the functors and comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import EllipsisType
from typing import Any

import numpy as np

from deltafix.engine.functors import functor
from deltafix.engine.link import Memo
from deltafix.engine.store import codes_where
from deltafix.facts.schema import Pattern, Row
from deltafix.kernel.arena import Words as Codes
from deltafix.plan.clause import Absent, Apply, Argument, Code, Compare, Literal, Match, Slot
from deltafix.provenance.state import State
from deltafix.provenance.words import Words
from deltafix.rules.terms import Value
from deltafix.rules.values import NO_VALUE, comparison

__all__ = ["Bindings", "Rows", "ground", "next_ready", "unify", "values_of"]

Bindings = dict[Slot, Value]
_CHUNK = 256
"""Rows decoded at a time: a caller that stops early pays little."""


class Rows:
    """The rows of one state, found by any of their columns."""

    def __init__(self, state: State, words: Words) -> None:
        self.state = state
        self.words = words
        self.looked_at = 0
        self._tables: dict[str, Codes] = {}
        self._orders: dict[tuple[str, int], Any] = {}

    def holds(self, relation: str, row: Row) -> bool:
        """Whether a row, hidden relations' rows included, holds. O(1)."""
        return self.state.fact(relation, row) is not None

    def fitting(self, relation: str, pattern: Pattern) -> Iterator[Row]:
        """Rows with the given values (`...`: any). O(log rows) to the first, once sorted."""
        row = tuple(value for value in pattern if value is not ...)
        if len(row) == len(pattern):
            if self.holds(relation, row):
                self.looked_at += 1
                yield row
            return
        table = self._slice(relation, pattern)
        for start in range(0, len(table), _CHUNK):
            for codes in table[start : start + _CHUNK]:
                self.looked_at += 1
                yield self.words.row(relation, codes)

    def extend(self, literal: Literal, env: Bindings) -> Iterator[Bindings]:
        """Every extension of `env` under which a literal that is ready holds."""
        if isinstance(literal, Match):
            pattern = tuple(... if a is None else _known(a, env) for a in literal.args)
            for row in self.fitting(literal.relation, pattern):
                found = unify(literal.args, row, env)
                if found is not None:
                    yield found
            return
        self.looked_at += 1
        if isinstance(literal, Absent):
            if not self.holds(literal.relation, values_of(literal.args, env)):
                yield env
        elif isinstance(literal, Compare):
            yield from _compared(literal, env)
        else:
            db = self.state.db
            memo = Memo(literal.functor, literal.types, literal.result)
            compute = functor(memo, db._codes, db._users.functors)
            value = compute(*values_of(literal.args, env))
            if value is not NO_VALUE and env.get(literal.target, value) == value:
                yield {**env, literal.target: value}

    def _slice(self, relation: str, pattern: Pattern) -> Codes:
        """The codes of the rows that fit, by the column that leaves fewest."""
        table = self._table(relation)
        wanted = {}
        for column, value in enumerate(pattern):
            if value is not ...:
                kind = self.words.types[relation][column]
                code = self.state.db._codes.known(kind, value)
                if code is None:
                    return table[:0]
                wanted[column] = code
        ranges = []
        for column, code in wanted.items():
            order, keys = self._order(relation, column)
            low, high = np.searchsorted(keys, [code, code + 1]).tolist()
            ranges.append((high - low, column, order[low:high]))
        chosen = table if not ranges else table[min(ranges, key=lambda r: r[0])[2]]
        for column, code in wanted.items():
            chosen = chosen[chosen[:, column] == code]
        return chosen

    def _table(self, relation: str) -> Codes:
        found = self._tables.get(relation)
        if found is None:
            db = self.state.db
            number = db._linked.ids[relation]
            found = self._tables[relation] = codes_where(db._arena, number, self.state.mask)
        return found

    def _order(self, relation: str, column: int) -> Any:
        """Row places by a column's code, and the codes in that order."""
        found = self._orders.get((relation, column))
        if found is None:
            codes = self._table(relation)[:, column]
            order = np.argsort(codes, kind="stable")
            found = self._orders[relation, column] = (order, codes[order].astype(np.int64))
        return found


def next_ready(body: list[Literal], env: Bindings) -> int | None:
    """The first literal, in the order of the text, whose variables are known as it needs them."""
    for place, literal in enumerate(body):
        if isinstance(literal, Match):
            return place
        if isinstance(literal, Absent | Apply):
            if all(isinstance(arg, Code) or arg in env for arg in literal.args):
                return place
        elif any(_has(side, env) for side in (literal.left, literal.right)) and (
            literal.op == "=" or (_has(literal.left, env) and _has(literal.right, env))
        ):
            return place
    return None


def unify(args: tuple[Argument | None, ...], row: Row, env: Bindings) -> Bindings | None:
    """`env` with what matching a row binds; None if the row does not fit."""
    found = dict(env)
    for arg, value in zip(args, row, strict=True):
        if isinstance(arg, Code):
            if arg.value != value:
                return None
        elif arg is not None and found.setdefault(arg, value) != value:
            return None
    return found


def values_of(args: tuple[Argument, ...], env: Bindings) -> Row:
    """The values of arguments that are all known."""
    return tuple(_value(arg, env) for arg in args)


def ground(literal: Match, env: Bindings) -> Row | None:
    """The one row that a literal means, if its arguments are all known."""
    known = [arg for arg in literal.args if arg is not None and _has(arg, env)]
    return values_of(tuple(known), env) if len(known) == len(literal.args) else None


def _has(arg: Argument, env: Bindings) -> bool:
    return isinstance(arg, Code) or arg in env


def _known(arg: Argument, env: Bindings) -> Value | EllipsisType:
    return arg.value if isinstance(arg, Code) else env.get(arg, ...)


def _value(arg: Argument, env: Bindings) -> Value:
    return arg.value if isinstance(arg, Code) else env[arg]


def _compared(literal: Compare, env: Bindings) -> Iterator[Bindings]:
    left, right = literal.left, literal.right
    if isinstance(left, Slot) and left not in env:
        yield {**env, left: _value(right, env)}
    elif isinstance(right, Slot) and right not in env:
        yield {**env, right: _value(left, env)}
    elif comparison(literal.op, literal.type)(_value(left, env), _value(right, env)):
        yield env
