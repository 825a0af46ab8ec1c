"""Deltas: per relation, the rows added and the rows removed.

Three nouns: a `Side` (rows as tuples, as an Arrow table, or as a loader not yet called), a
`RelationDelta` (two sides of one relation), a `Delta` (the relations that changed in one epoch).
Invariant: a delta is net and disjoint: no row is on both sides, none is listed twice. Sides
load at most once and never change; tuples and tables are made only when asked for, so a large
delta that leaves as Arrow never becomes Python objects. Nothing here knows the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from deltafix.diagnostics import suggest
from deltafix.errors import (
    ExplanationError,
    FactError,
    MissingDependencyError,
    UnknownRelationError,
)
from deltafix.facts.schema import Row, Schema, show_row, show_value
from deltafix.facts.values import sorted_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from deltafix.provenance.cause import Cause

__all__ = ["Delta", "RelationDelta", "Rows"]

Rows: TypeAlias = "Iterable[Row] | pa.Table | Callable[[], Iterable[Row] | pa.Table]"
"""Where a side's rows come from: tuples, a checked Arrow table, or a loader that returns one."""

Ask: TypeAlias = "Callable[..., Any]"
"""Answers `Delta.why`: called with the delta and the arguments."""

_SHOWN: Final = 20
"""Rows a repr prints before it says how many more there are."""


class RelationDelta:
    """What changed in one relation: rows added, rows removed, disjoint and net.

    `len()` counts changed rows, `bool()` asks whether there are any.

    Args:
        schema: the relation's schema; the rows must already fit it.
        added: rows that hold now and did not before, each once.
        removed: rows that held before and do not now, each once.
        counts: (added, removed), if known: then `len` and `bool` load nothing.
    """

    __slots__ = ("_added", "_ask", "_removed", "schema")

    def __init__(
        self,
        schema: Schema,
        added: Rows = (),
        removed: Rows = (),
        *,
        counts: tuple[int, int] | None = None,
    ) -> None:
        self.schema = schema
        known = counts if counts is not None else (None, None)
        self._added = _Side(schema, added, known[0])
        self._removed = _Side(schema, removed, known[1])
        self._ask: Ask | None = None

    @property
    def added(self) -> list[Row]:
        """Rows that hold now and did not before; sorted, made on first use, do not modify."""
        return self._added.rows

    @property
    def removed(self) -> list[Row]:
        """Rows that held before and do not now; sorted, made on first use, do not modify."""
        return self._removed.rows

    def signed(self) -> Iterator[tuple[int, Row]]:
        """Every change as (sign, row): removed rows (-1) first, then added rows (+1)."""
        for row in self.removed:
            yield -1, row
        for row in self.added:
            yield 1, row

    def why(self, row: Row, *, max_trials: int = 200) -> Cause:
        """Which input changes made a row of this relation appear or vanish: see `Delta.why`."""
        if self._ask is None:
            raise _nobody_to_ask()
        found: Cause = self._ask(self.schema.relation, row, max_trials=max_trials)
        return found

    def inverse(self) -> RelationDelta:
        """The delta that undoes this one. O(1): the sides are shared."""
        swapped = RelationDelta(self.schema)
        swapped._added, swapped._removed = self._removed, self._added
        return swapped

    def compose(self, then: RelationDelta) -> RelationDelta:
        """The net delta of this one followed by `then`. O(rows of both)."""
        added, removed = set(self.added), set(self.removed)
        later_added, later_removed = set(then.added), set(then.removed)
        return RelationDelta(
            self.schema,
            (added - later_removed) | (later_added - removed),
            (removed - later_added) | (later_removed - added),
        )

    @property
    def sign_column(self) -> str:
        """Name of the sign column in Arrow form: `sign`, with `_` appended while it is taken."""
        name = "sign"
        while name in self.schema.names:
            name += "_"
        return name

    def to_arrow(self) -> pa.Table:
        """The relation's columns and, last, `sign` (int8): 1 for added, -1 for removed rows.

        Removed rows come first; inside one sign no order is promised.
        """
        import numpy as np  # noqa: PLC0415  only when a table is asked for
        import pyarrow as pa  # noqa: PLC0415

        counts = (len(self._removed), len(self._added))
        signs = pa.array(np.repeat(np.array([-1, 1], np.int8), counts))
        field = pa.field(self.sign_column, pa.int8(), nullable=False)
        if not self.schema.columns:
            return pa.Table.from_arrays([signs], schema=pa.schema([field]))
        rows = pa.concat_tables([self._removed.table, self._added.table])
        return rows.append_column(field, signs)

    def to_pandas(self) -> Any:
        """The form of `to_arrow` as a pandas DataFrame. Needs the extra `pandas`."""
        with _extra("pandas"):
            import pandas as pd  # noqa: F401, PLC0415  only to say clearly that it is missing
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The form of `to_arrow` as a polars DataFrame. Needs the extra `polars`."""
        with _extra("polars"):
            import polars as pl  # noqa: PLC0415  an optional extra
        return pl.from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(self._added) + len(self._removed)

    def __bool__(self) -> bool:
        return bool(len(self._added) or len(self._removed))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RelationDelta):
            return NotImplemented
        return (
            self.schema.relation == other.schema.relation
            and set(self.added) == set(other.added)
            and set(self.removed) == set(other.removed)
        )

    __hash__ = None  # type: ignore[assignment]  # equal by content, which is made lazily

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.schema.show()}: {len(self._added)} added, {len(self._removed)} removed"
        cells = [["", *self.schema.names], *self._cells()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for line in cells:
            padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            yield ("  " + "  ".join(padded)).rstrip()
        if len(self) > _SHOWN:
            yield f"  … {len(self) - _SHOWN} more"

    def _cells(self) -> list[list[str]]:
        shown = zip(range(_SHOWN), self.signed(), strict=False)
        return [["+" if sign > 0 else "-", *map(show_value, row)] for _, (sign, row) in shown]

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in ("", *self.schema.names))
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>"
            for line in self._cells()
        )
        more = f"<p>… {len(self) - _SHOWN} more</p>" if len(self) > _SHOWN else ""
        caption = f"{self.schema.show()}: {len(self._added)} added, {len(self._removed)} removed"
        return (
            f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>{more}"
        )


class Delta(Mapping[str, RelationDelta]):
    """What one epoch changed, by relation.

    As a mapping it holds the relations that changed, in declaration order. Asking for a known
    relation that did not change gives its empty `RelationDelta`, so `delta["path"].added` is
    always safe; an unknown name raises UnknownRelationError (a KeyError).

    Args:
        changes: one RelationDelta per changed relation; empty ones are dropped.
        schemas: every relation the program declares, in declaration order; those of `changes`
            when omitted.
        epoch: the number of the transaction that made it, if it was one.
    """

    __slots__ = ("_ask", "_changes", "epoch", "schemas")

    def __init__(
        self,
        changes: Iterable[RelationDelta] = (),
        schemas: Iterable[Schema] | None = None,
        *,
        epoch: int | None = None,
    ) -> None:
        given = {change.schema.relation: change for change in changes}
        known = [change.schema for change in given.values()] if schemas is None else schemas
        self.schemas: Mapping[str, Schema] = MappingProxyType(
            {schema.relation: schema for schema in known}
        )
        self._changes = {name: given[name] for name in self.schemas if given.get(name)}
        self.epoch = epoch
        self._ask: Ask | None = None

    @classmethod
    def of(
        cls,
        changes: Mapping[str, tuple[Iterable[Row], Iterable[Row]]],
        schemas: Iterable[Schema] | None = None,
    ) -> Delta:
        """Write a delta down: `Delta.of({"edge": (added, removed)})`.

        Schemas are inferred from the rows when not given (see `Schema.infer`); rows listed
        twice count once.

        Raises:
            FactError: a row both added and removed, or one that does not fit its schema.
        """
        declared = None if schemas is None else {schema.relation: schema for schema in schemas}
        parts = []
        for name, (added, removed) in changes.items():
            sides = [list(added), list(removed)]
            if declared is None:
                schema = Schema.infer(name, sides[0] + sides[1])
            elif name in declared:
                schema = declared[name]
            else:
                raise _unknown(name, list(declared))
            gained, lost = (set(schema.check_rows(side)) for side in sides)
            if gained & lost:
                row = min(gained & lost)
                message = f"{show_row(name, row)} is both added and removed; a delta is net"
                raise FactError(message, relation=name, value=row)
            parts.append(RelationDelta(schema, gained, lost))
        return cls(parts, None if declared is None else declared.values())

    def compose(self, then: Delta) -> Delta:
        """The net delta of this one followed by `then`. O(rows of both)."""
        schemas = {**self.schemas, **then.schemas}
        parts: list[RelationDelta] = []
        for name in schemas:
            first, second = self._changes.get(name), then._changes.get(name)
            if first is None or second is None:
                parts.extend(part for part in (first, second) if part is not None)
            else:
                parts.append(first.compose(second))
        return Delta(parts, schemas.values())

    def inverse(self) -> Delta:
        """The delta that undoes this one: `d.compose(d.inverse())` is empty."""
        return Delta((part.inverse() for part in self.values()), self.schemas.values())

    def why(self, fact: str, row: Row | None = None, *, max_trials: int = 200) -> Cause:
        """Which input changes made a row appear or vanish, and by which proof.

        `delta.why('path("a", "c")')` or `delta.why("path", ("a", "c"))`. The changes alone, on the
        state before the epoch, have this effect, and no part of them has; found by undoing parts
        of the epoch on trial, each at the cost of an epoch.

        Args:
            fact: one row as program text, or the name of its relation.
            row: its values, where `fact` is a name.
            max_trials: bound on the trials; beyond, the answer's `is_smallest` is False.

        Raises:
            NoSuchFactError: the row did not change.
            ExplanationError: the delta is not that of a database's last epoch.
            TransactionError: this thread has a transaction open.
        """
        if self._ask is None:
            raise _nobody_to_ask()
        found: Cause = self._ask(self, fact, row, max_trials=max_trials)
        return found

    def ask(self, of: Ask) -> None:
        """Say who answers `why`: the database, which made the delta."""
        self._ask = of
        for part in self._changes.values():
            part._ask = self.why

    def show(self) -> str:
        """Every change on its own line, in a stable order: `-edge("a", "b")`, `+path("a", "c")`.

        Relations in declaration order; inside one, removed rows before added ones, each sorted.
        """
        return "\n".join(
            f"{'+' if sign > 0 else '-'}{show_row(name, row)}"
            for name, part in self._changes.items()
            for sign, row in part.signed()
        )

    def __getitem__(self, relation: str) -> RelationDelta:
        found = self._changes.get(relation)
        if found is not None:
            return found
        if relation in self.schemas:
            return RelationDelta(self.schemas[relation])
        raise _unknown(relation, list(self.schemas))

    def __contains__(self, relation: object) -> bool:
        return relation in self._changes

    def __iter__(self) -> Iterator[str]:
        return iter(self._changes)

    def __len__(self) -> int:
        return len(self._changes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Delta):
            return NotImplemented
        return self._changes == other._changes

    __hash__ = None  # type: ignore[assignment]  # equal by content, which is made lazily

    def __repr__(self) -> str:
        if not self._changes:
            return "Delta: no change"
        return "\n".join(map(repr, self._changes.values()))

    def _repr_html_(self) -> str:
        parts = [part._repr_html_() for part in self._changes.values()]
        return "".join(parts) or "<p>Delta: no change</p>"


class _Side:
    """One side of a RelationDelta. Life: given -> loaded (once) -> rows and/or table cached."""

    __slots__ = ("_count", "_given", "_rows", "_schema", "_table")

    def __init__(self, schema: Schema, given: Rows, count: int | None) -> None:
        self._schema = schema
        self._given: Rows | None = given
        self._count = count
        self._rows: list[Row] | None = None
        self._table: pa.Table | None = None

    def _load(self) -> None:
        if self._given is None:
            return
        given: Any = self._given() if callable(self._given) else self._given
        if hasattr(given, "num_columns"):
            self._table = given
            self._count = given.num_rows
        else:
            self._rows = sorted_rows(self._schema.types, given)
            self._count = len(self._rows)
        self._given = None

    @property
    def rows(self) -> list[Row]:
        self._load()
        if self._rows is None:
            from deltafix.facts.arrow import rows_from_table  # noqa: PLC0415  pyarrow is slow

            found = rows_from_table(self._table, self._schema)
            self._rows = sorted_rows(self._schema.types, found)
        return self._rows

    @property
    def table(self) -> pa.Table:
        self._load()
        if self._table is None:
            from deltafix.facts.arrow import table_from_rows  # noqa: PLC0415  pyarrow is slow

            self._table = table_from_rows(self._schema, self.rows)
        return self._table

    def __len__(self) -> int:
        if self._count is None:
            self._load()
        return self._count or 0


class _extra:  # noqa: N801  reads as a statement: with _extra("polars")
    """Turns a missing optional package into an error that says how to install it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, ImportError):
            message = f"this needs {self.name}: pip install 'deltafix[{self.name}]'"
            raise MissingDependencyError(message, extra=self.name)


def _nobody_to_ask() -> ExplanationError:
    return ExplanationError(
        "this delta was not made by a transaction, so nothing is known of its cause"
    )


def _unknown(name: str, known: list[str]) -> UnknownRelationError:
    close = suggest(name, known)
    hint = f"; did you mean {close!r}?" if close else f"; there is {', '.join(known) or 'none'}"
    return UnknownRelationError(f"no relation {name!r}{hint}", relation=name, known=known)
