"""Bodies of clauses over the rows of a state, literal by literal, on Python values.

For questions about what does not hold, where the kernel's joins have nothing to say (they give
whole bindings only), and for strata that the kernel does not run: `LiveRows` sees the rows that
such a stratum holds live, also those that nobody sees any more. Columns are sorted when first
looked up, once for each state. Invariant: a literal means what it means to the kernel;
`rules.values` has the functors and comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from deltafix.engine.beyond import BeyondStratum
from deltafix.engine.beyond.checks import same_value
from deltafix.engine.beyond.facts import Fact as Record
from deltafix.engine.store import codes_where
from deltafix.engine.tables import Memo
from deltafix.facts.schema import Pattern, Row
from deltafix.facts.values import Branch, Value
from deltafix.kernel.arena import Words as Codes
from deltafix.plan.clause import Absent, Apply, Argument, Code, Compare, Literal, Match, Slot
from deltafix.provenance.state import State
from deltafix.provenance.words import Words
from deltafix.rules.values import NO_VALUE, comparison

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
        """Whether a row, hidden relations' rows included, holds. O(1) where it is kept."""
        if relation in self.words.pipelined:
            return any(True for _ in self._derived(relation, row))
        return self.state.fact(relation, row) is not None

    def fitting(self, relation: str, pattern: Pattern) -> Iterator[Row]:
        """Rows with the given values (`...`: any). O(log rows) to the first, once sorted."""
        row = tuple(value for value in pattern if value is not ...)
        if len(row) == len(pattern):
            if self.holds(relation, row):
                self.looked_at += 1
                yield row
            return
        if relation in self.words.pipelined:
            yield from self._derived(relation, pattern)
            return
        table = self._slice(relation, pattern)
        for start in range(0, len(table), _CHUNK):
            for codes in table[start : start + _CHUNK]:
                self.looked_at += 1
                yield self.words.row(relation, codes)

    def _derived(self, relation: str, pattern: Pattern) -> Iterator[Row]:
        """The rows of a relation that is not kept, by its clauses: each has one derivation."""
        for clause in self.words.clauses[relation]:
            pairs = zip(clause.args, pattern, strict=True)
            args = tuple(None if value is ... else arg for arg, value in pairs)
            env = unify(args, pattern, {})  # type: ignore[arg-type]  # `...` stands for no value
            for binding, _ in () if env is None else self.solutions(clause.body, env):
                yield values_of(clause.args, binding)

    def extend(self, literal: Literal, env: Bindings) -> Iterator[Bindings]:
        """Every extension of `env` under which a literal that is ready holds."""
        if isinstance(literal, Match):
            yield from (extended for _, extended in self.matching(literal, env))
            return
        self.looked_at += 1
        if isinstance(literal, Absent):
            if not self.holds(literal.relation, values_of(literal.args, env)):
                yield env
        elif isinstance(literal, Compare):
            yield from _compared(literal, env)
        else:
            value = self._compute(literal)(*values_of(literal.args, env))
            if value is not NO_VALUE and same_value(env.get(literal.target, value), value):
                yield {**env, literal.target: value}

    def matching(self, literal: Match, env: Bindings) -> Iterator[tuple[Row, Bindings]]:
        """The rows that fit a literal, each with what it binds."""
        for row in self.fitting(literal.relation, _pattern(literal, env)):
            extended = unify(literal.args, row, env)
            if extended is not None:
                yield row, extended

    def next_asked(self, body: Sequence[Literal], env: Bindings) -> int | None:
        """The first literal in the text that is ready; of relations on demand, if it is asked for.

        What nobody asks for is not there, and says nothing.
        """
        later: list[int] = []
        left = list(body)
        while (index := next_ready(left, env)) is not None:
            literal = left[index]
            if not isinstance(literal, Match) or self._is_asked(literal, env):
                return body.index(literal)
            later.append(body.index(literal))
            del left[index]
        return later[0] if later else None

    def _is_asked(self, literal: Match, env: Bindings) -> bool:
        demand = f"?{literal.relation}"
        if demand not in self.words.demands:
            return True
        marks = literal.relation.rsplit("{", 1)[1].removesuffix("}")
        args = [a for a, mark in zip(literal.args, marks, strict=True) if mark == "b" and a]
        if not all(_has(arg, env) for arg in args):
            return False
        return self.holds(demand, values_of(tuple(args), env))

    def solutions(
        self, body: Sequence[Literal], env: Bindings
    ) -> Iterator[tuple[Bindings, dict[int, Row]]]:
        """Every binding under which a whole body holds, with the row of each positive literal."""
        yield from self._solve(body, list(range(len(body))), env, {})

    def _solve(
        self, body: Sequence[Literal], left: list[int], env: Bindings, rows: dict[int, Row]
    ) -> Iterator[tuple[Bindings, dict[int, Row]]]:
        at = self._next([(at, body[at]) for at in left], env)
        if at is None:
            if not left:
                yield env, rows
            return
        literal, rest = body[at], [other for other in left if other != at]
        if isinstance(literal, Match):
            for row, extended in self.matching(literal, env):
                yield from self._solve(body, rest, extended, {**rows, at: row})
        else:
            for extended in self.extend(literal, env):
                yield from self._solve(body, rest, extended, rows)

    def _next(self, left: list[tuple[int, Literal]], env: Bindings) -> int | None:
        """The place of what to look at next: tests, then the literal that fewest rows may fit."""
        index = tests_first([literal for _, literal in left], env)
        if index is None or not isinstance(left[index][1], Match):
            return None if index is None else left[index][0]
        matches = [(at, literal) for at, literal in left if isinstance(literal, Match)]
        return min(matches, key=lambda match: self._most(match[1], env))[0]

    def _most(self, literal: Match, env: Bindings) -> int:
        return self.most(literal.relation, _pattern(literal, env))

    def most(self, relation: str, pattern: Pattern) -> int:
        """How many rows `fitting` may look at; O(log rows) once sorted."""
        if ... not in pattern:
            return 1
        ranges = self._ranges(relation, pattern)
        if ranges is None:
            return 0
        return min((high - low for _, _, low, high in ranges), default=len(self._table(relation)))

    def _compute(self, literal: Apply) -> Callable[..., Any]:
        memo = Memo(literal.functor, literal.types, literal.result)
        return self.state.db.instance.functors.of(memo)

    def _slice(self, relation: str, pattern: Pattern) -> Codes:
        """The codes of the rows that fit, by the column that leaves fewest."""
        table = self._table(relation)
        ranges = self._ranges(relation, pattern)
        if ranges is None:
            return table[:0]
        if ranges:
            column, _, low, high = min(ranges, key=lambda span: span[3] - span[2])
            table = table[self._order(relation, column)[0][low:high]]
        for column, code, _, _ in ranges:
            table = table[table[:, column] == code]
        return table

    def _ranges(self, relation: str, pattern: Pattern) -> list[tuple[int, int, int, int]] | None:
        """For each column that is known: it, its code, and where that lies among the sorted rows.

        None where a value has no code, so no row has it.
        """
        ranges = []
        for column, value in enumerate(pattern):
            if value is not ...:
                code = self.state.db.instance.codes.known(self.words.types[relation][column], value)
                if code is None:
                    return None
                keys = self._order(relation, column)[1]
                low, high = np.searchsorted(keys, [code, code + 1]).tolist()
                ranges.append((column, code, low, high))
        return ranges

    def _table(self, relation: str) -> Codes:
        table = self._tables.get(relation)
        if table is None:
            instance = self.state.db.instance
            table = codes_where(instance.arena, instance.linked.ids[relation], self.state.mask)
            self._tables[relation] = table
        return table

    def _order(self, relation: str, column: int) -> Any:
        """Row places by a column's code, and the codes in that order."""
        sorted_column = self._orders.get((relation, column))
        if sorted_column is None:
            codes = self._table(relation)[:, column]
            order = np.argsort(codes, kind="stable")
            sorted_column = self._orders[relation, column] = (order, codes[order].astype(np.int64))
        return sorted_column


class LiveRows(Rows):
    """The same, but of one stratum beyond plain recursion the rows that it holds live.

    Rules of other strata see what everybody sees. `like` has the same state: its tables are used.
    """

    def __init__(
        self, state: State, words: Words, stratum: int | None, like: Rows | None = None
    ) -> None:
        super().__init__(state, words)
        if like is not None:
            self._tables, self._orders = like._tables, like._orders
        self._stratum = stratum
        self._columns: dict[tuple[str, int], dict[Value, list[Row]]] = {}

    def sees_live(self, relation: str) -> bool:
        """Whether a relation is one of the stratum."""
        return self._stratum is not None and self.words.strata.get(relation) == self._stratum

    def records(self, relation: str) -> Mapping[Row, Record]:
        """What the stratum knows of the rows of one of its relations."""
        stratum = self.state.db.instance.strata.of(self.words.strata[relation])
        assert isinstance(stratum, BeyondStratum)  # noqa: S101  the only kind with records
        return stratum.facts(relation)

    def holds(self, relation: str, row: Row) -> bool:
        """Whether a row is live. O(1)."""
        if not self.sees_live(relation):
            return super().holds(relation, row)
        record = self.records(relation).get(row)
        return record is not None and self._is_live(record)

    def fitting(self, relation: str, pattern: Pattern) -> Iterator[Row]:
        """Live rows with the given values. O(fitting), once a column is in its table."""
        if not self.sees_live(relation):
            yield from super().fitting(relation, pattern)
            return
        wanted = [(column, value) for column, value in enumerate(pattern) if value is not ...]
        tables = [self._column(relation, column).get(value, []) for column, value in wanted]
        for row in min(tables, key=len) if tables else self._live(relation):
            self.looked_at += 1
            if all(same_value(row[column], value) for column, value in wanted):
                yield row

    def most(self, relation: str, pattern: Pattern) -> int:
        """How many rows `fitting` may look at. O(columns)."""
        if not self.sees_live(relation) or ... not in pattern:
            return super().most(relation, pattern)
        wanted = [(column, value) for column, value in enumerate(pattern) if value is not ...]
        tables = (self._column(relation, column).get(value, ()) for column, value in wanted)
        return min(map(len, tables), default=len(self.records(relation)))

    def _live(self, relation: str) -> list[Row]:
        return [row for row, record in self.records(relation).items() if self._is_live(record)]

    def _column(self, relation: str, column: int) -> dict[Value, list[Row]]:
        rows_by_value = self._columns.get((relation, column))
        if rows_by_value is None:
            rows_by_value = self._columns[relation, column] = {}
            for row in self._live(relation):
                rows_by_value.setdefault(row[column], []).append(row)
        return rows_by_value

    def _is_live(self, record: Record) -> bool:
        # The rank of a falling relation's record is its absence's.
        return record.visible if record.home.name in self.words.falling else record.rank > 0


def tests_first(body: Sequence[Literal], env: Bindings) -> int | None:
    """The literal to look at next: tests, then whole rows, then what is next in the text."""
    for index, literal in enumerate(body):
        if isinstance(literal, Match):
            if ground(literal, env) is not None:
                return index
        elif next_ready([literal], env) is not None:
            return index
    return next_ready(body, env)


def next_ready(body: Sequence[Literal], env: Bindings) -> int | None:
    """The first literal, in the order of the text, whose variables are known as it needs them."""
    for index, literal in enumerate(body):
        if isinstance(literal, Match):
            return index
        if isinstance(literal, Absent | Apply):
            if all(isinstance(arg, Code) or arg in env for arg in literal.args):
                return index
        elif any(_has(side, env) for side in (literal.left, literal.right)) and (
            literal.op == "=" or (_has(literal.left, env) and _has(literal.right, env))
        ):
            return index
    return None


def unify(args: tuple[Argument | None, ...], row: Row, env: Bindings) -> Bindings | None:
    """`env` with what matching a row binds; None if the row does not fit."""
    extended = dict(env)
    for arg, value in zip(args, row, strict=True):
        if isinstance(arg, Code):
            if not same_value(arg.value, value):
                return None
        elif arg is not None and not same_value(extended.setdefault(arg, value), value):
            return None
    return extended


def opened(body: Sequence[Literal], env: Bindings) -> tuple[list[Literal], Bindings] | None:
    """A body without the literals that make values which are known: their parts are known then.

    None where a value was made otherwise.
    """
    left = list(body)
    extended: Bindings | None = env
    for literal in reversed(body):
        if extended is None:
            return None
        if isinstance(literal, Apply) and literal.target in extended and _makes(literal.functor):
            parts = _parts(literal.functor, extended[literal.target])
            if parts is None:
                return None
            extended = unify(literal.args, parts, extended)
            left.remove(literal)
    return None if extended is None else (left, extended)


def _makes(functor: str) -> bool:
    """Whether a functor makes a record or a branch, not reads one."""
    return functor[0] in "[$" and not functor.rpartition(".")[2].isdigit()


def _parts(functor: str, value: Value) -> Row | None:
    """The fields of a value, if this constructor made it."""
    if isinstance(value, Branch):
        return value.fields if functor == f"${value.name}" else None
    return value if isinstance(value, tuple) and functor[0] == "[" else None


def same_key(row: Row, key: Sequence[int]) -> Pattern:
    """The pattern of rows that have some columns of a row."""
    return tuple(value if column in key else ... for column, value in enumerate(row))


def values_of(args: tuple[Argument, ...], env: Bindings) -> Row:
    """The values of arguments that are all known."""
    return tuple(_value(arg, env) for arg in args)


def ground(literal: Match, env: Bindings) -> Row | None:
    """The one row that a literal means, if its arguments are all known."""
    known = [arg for arg in literal.args if arg is not None and _has(arg, env)]
    return values_of(tuple(known), env) if len(known) == len(literal.args) else None


def _has(arg: Argument, env: Bindings) -> bool:
    return isinstance(arg, Code) or arg in env


def _pattern(literal: Match, env: Bindings) -> Pattern:
    """What is known of a row that fits a literal."""
    return tuple(... if arg is None else _known(arg, env) for arg in literal.args)


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
