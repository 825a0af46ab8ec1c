"""What a search reads: committed tuples in codes, and contextual ones beside them.

Tuples with conditions are read through a `Conditional`, which leaves out those that do not hold; to
a search they are tuples like others. Invariant: a reader sees one state, with the same contextual
tuples and in the same context, for as long as it is used; names that no committed row has get codes
of their own below -1, so they can be asked about.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from deltafix.engine.query import Probe
from deltafix.rights.conditions import Judge
from deltafix.rights.graph import Source
from deltafix.rights.tuples import AnyTuple, Placed, shown


class Unmet(NamedTuple):
    """A tuple whose condition does not hold.

    Attributes:
        tuple: the tuple, with its own values.
        expression: that of the condition.
        context: the question's values for parameters that the tuple has none for.
    """

    tuple: AnyTuple
    expression: str
    context: Mapping[str, Any]

    def __str__(self) -> str:
        given = json.dumps(self.context, ensure_ascii=False)
        return f"{self.tuple} does not hold in the context {given}: {self.expression.strip()}"


class Reader(Protocol):
    """Rows of input relations and views, by code."""

    def code(self, symbol: str) -> int:
        """The code of a name."""

    def symbol(self, code: int) -> str:
        """The name of a code."""

    def has(self, relation: str, *codes: int) -> bool:
        """Whether the row is there."""

    def others(self, relation: str, column: int, code: int) -> list[int]:
        """The other column of the rows with `code` in one of two columns."""

    def column(self, relation: str, column: int) -> list[int]:
        """One column of all rows."""


class Plain:
    """Committed rows."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._own: list[str] = []
        self.others = probe.others
        self.column = probe.column
        self.has = probe.has
        self.rows = probe.rows

    def code(self, symbol: str) -> int:
        """See `Reader`."""
        known = self._probe.code(symbol)
        if known is None:
            if symbol not in self._own:
                self._own.append(symbol)
            return -2 - self._own.index(symbol)
        return known

    def symbol(self, code: int) -> str:
        """See `Reader`."""
        return self._own[-2 - code] if code < 0 else self._probe.symbol(code)


class Contextual(Plain):
    """Committed rows and some more; `wide` are the input relations whose tuples have conditions."""

    def __init__(self, probe: Probe, more: Iterable[Placed], wide: Container[str]) -> None:
        super().__init__(probe)
        self._rows: set[tuple[str, tuple[int, ...]]] = set()
        self._by: dict[tuple[str, int, int], list[int]] = {}
        self._columns: dict[tuple[str, int], list[int]] = {}
        self._wide: dict[str, list[list[int]]] = {}
        for source, row in more:
            codes = tuple(map(self.code, row))
            if (source, codes) in self._rows:
                continue
            self._rows.add((source, codes))
            if source in wide:  # one that is there too does no harm: sets are made of these
                self._wide.setdefault(source, []).append(list(codes))
                continue
            if probe.has(source, *codes):
                continue
            for column, code in enumerate(codes):
                self._columns.setdefault((source, column), []).append(code)
                if len(codes) > 1:
                    self._by.setdefault((source, column, code), []).append(codes[1 - column])
        self.has = self._has
        self.others = self._others
        self.column = self._column
        self.rows = self._rows_of

    def _rows_of(self, relation: str, columns: tuple[int, ...], *codes: int) -> list[list[int]]:
        more = [
            row
            for row in self._wide.get(relation, [])
            if all(row[column] == code for column, code in zip(columns, codes, strict=True))
        ]
        return self._probe.rows(relation, columns, *codes) + more

    def _has(self, relation: str, *codes: int) -> bool:
        return (relation, codes) in self._rows or self._probe.has(relation, *codes)

    def _others(self, relation: str, column: int, code: int) -> list[int]:
        more = self._by.get((relation, column, code), [])
        return self._probe.others(relation, column, code) + more

    def _column(self, relation: str, column: int) -> list[int]:
        more = self._columns.get((relation, column), [])
        return self._probe.column(relation, column) + more


class Conditional:
    """Rows of a reader, of tuples with conditions those that hold, and as if they had none.

    Args:
        wide: the input relations whose tuples have conditions.
        hopeful: whether a tuple holds whose condition is open.
    """

    def __init__(
        self, reader: Plain, wide: Mapping[str, Source], judge: Judge, *, hopeful: bool
    ) -> None:
        self._reader, self._wide, self._judge, self._hopeful = reader, wide, judge, hopeful
        self.code = reader.code
        self.symbol = reader.symbol

    def holding(self, relation: str, *codes: int) -> list[str]:
        """The contexts with which a tuple holds. O(its contexts)."""
        columns = tuple(range(len(codes)))
        rows = self._reader.rows(relation, columns, *codes)
        return [self.symbol(row[-1]) for row in rows if self._holds(relation, row)]

    def has(self, relation: str, *codes: int) -> bool:
        """See `Reader`."""
        if relation not in self._wide:
            return self._reader.has(relation, *codes)
        return bool(self.holding(relation, *codes))

    def others(self, relation: str, column: int, code: int) -> list[int]:
        """See `Reader`."""
        if relation not in self._wide:
            return self._reader.others(relation, column, code)
        rows = self._reader.rows(relation, (column,), code)
        return list(dict.fromkeys(row[1 - column] for row in rows if self._holds(relation, row)))

    def column(self, relation: str, column: int) -> list[int]:
        """See `Reader`."""
        if relation not in self._wide:
            return self._reader.column(relation, column)
        rows = self._reader.rows(relation, ())
        return list(dict.fromkeys(row[column] for row in rows if self._holds(relation, row)))

    def unmet(self, relation: str, columns: tuple[int, ...], *codes: int) -> list[Unmet]:
        """The tuples with these codes whose condition does not hold. O(those with these codes)."""
        source = self._wide[relation]
        unmet = []
        for row in self._reader.rows(relation, columns, *codes):
            if not self._holds(relation, row):
                tuple_ = shown(source, tuple(map(self.symbol, row)))
                because = self._judge.because(source.users.condition, self.symbol(row[-1]))
                unmet.append(Unmet(tuple_, *because))
        return sorted(unmet, key=lambda tuple_: tuple_.tuple)

    def _holds(self, relation: str, row: list[int]) -> bool:
        condition = self._wide[relation].users.condition
        verdict = self._judge.verdict(condition, self.symbol(row[-1]))
        return self._hopeful if verdict is None else verdict
