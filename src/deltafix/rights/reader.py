"""What a search reads: committed tuples in codes, and contextual ones beside them.

Invariant: a reader sees one state, with the same contextual tuples, for as long as it is used;
names that no committed row has get codes of their own below -1, so they can be asked about.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from deltafix.engine.query import Probe
from deltafix.rights.tuples import Placed


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

    def code(self, symbol: str) -> int:
        """See `Reader`."""
        found = self._probe.code(symbol)
        if found is None:
            if symbol not in self._own:
                self._own.append(symbol)
            return -2 - self._own.index(symbol)
        return found

    def symbol(self, code: int) -> str:
        """See `Reader`."""
        return self._own[-2 - code] if code < 0 else self._probe.symbol(code)


class Contextual(Plain):
    """Committed rows and some more."""

    def __init__(self, probe: Probe, more: Iterable[Placed]) -> None:
        super().__init__(probe)
        self._rows: set[tuple[str, tuple[int, ...]]] = set()
        self._by: dict[tuple[str, int, int], list[int]] = {}
        self._columns: dict[tuple[str, int], list[int]] = {}
        for source, row in more:
            codes = tuple(map(self.code, row))
            if (source, codes) in self._rows or probe.has(source, *codes):
                continue
            self._rows.add((source, codes))
            for column, code in enumerate(codes):
                self._columns.setdefault((source, column), []).append(code)
                if len(codes) > 1:
                    self._by.setdefault((source, column, code), []).append(codes[1 - column])
        self.has = self._has
        self.others = self._others
        self.column = self._column

    def _has(self, relation: str, *codes: int) -> bool:
        return (relation, codes) in self._rows or self._probe.has(relation, *codes)

    def _others(self, relation: str, column: int, code: int) -> list[int]:
        more = self._by.get((relation, column, code), [])
        return self._probe.others(relation, column, code) + more

    def _column(self, relation: str, column: int) -> list[int]:
        more = self._columns.get((relation, column), [])
        return self._probe.column(relation, column) + more
