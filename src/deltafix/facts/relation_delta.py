"""What changed in one relation: two sides, and the forms in which they leave.

Invariant: the sides are disjoint and net: no row is on both, none is listed twice. Forms (Arrow,
pandas, polars, text, HTML) are made when asked for. Nothing here knows other relations, epochs or
the engine; who can say why a row changed is told by whoever made the delta.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, cast

from deltafix.errors import ExplanationError, MissingDependencyError, TypeMismatchError
from deltafix.facts.schema import Row, Schema
from deltafix.facts.side import Rows, Side
from deltafix.facts.typed import R
from deltafix.facts.values import show_value

if TYPE_CHECKING:
    import pyarrow as pa

    from deltafix.provenance.cause import Cause

S = TypeVar("S")

Ask: TypeAlias = "Callable[..., Cause]"
"""Answers `why`: called with its arguments."""

SHOWN: Final = 20
"""Rows a repr prints before it says how many more there are."""


class Tabular(ABC):
    """What is a table of Arrow, in the other forms that follow from it."""

    __slots__ = ()

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """The table."""

    def to_pandas(self) -> Any:
        """The form of `to_arrow` as a pandas DataFrame, whose columns keep Arrow's types.

        NumPy's have no NULL: beside one a whole number would become a float, and lose digits
        beyond 2**53. Intervals are durations, as in `to_polars`. Needs the extra `pandas`.
        """
        with _extra("pandas"):
            import pandas as pd  # noqa: PLC0415  an optional extra
        return _with_durations(self.to_arrow()).to_pandas(types_mapper=pd.ArrowDtype)

    def to_polars(self) -> Any:
        """The form of `to_arrow` as a polars DataFrame. Needs the extra `polars`.

        Polars has no interval, but durations, in which a day has 24 hours. Raises
        TypeMismatchError for one of months.
        """
        with _extra("polars"):
            import polars as pl  # noqa: PLC0415  an optional extra
        return pl.from_arrow(_with_durations(self.to_arrow()))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def _with_durations(table: pa.Table) -> pa.Table:
    """A table whose intervals are durations. Raises TypeMismatchError for one of months."""
    import pyarrow as pa  # noqa: PLC0415  slow to import

    for index, field in enumerate(table.schema):
        if not pa.types.is_interval(field.type):
            continue
        lengths: list[int | None] = []
        for value in table.column(index).to_pylist():
            if value is not None and value.months:
                message = (
                    f"column {field.name!r}: an interval of {value.months} months is no duration, "
                    "which frames have: CAST(x AS TEXT), or take to_arrow()"
                )
                raise TypeMismatchError(message, column=field.name, value=value)
            lengths.append(value and value.days * _DAY + value.nanoseconds // 1000)
        table = table.set_column(index, field.name, pa.array(lengths, pa.duration("us")))
    return table


_DAY: Final = 86_400_000_000
"""Microseconds."""


def sign_column(names: Collection[str]) -> str:
    """Name of the sign column beside others: `sign`, with `_` appended while it is taken."""
    name = "sign"
    while name in names:
        name += "_"
    return name


class RelationDelta(Tabular, Generic[R]):
    """What changed in one relation: rows added, rows removed, disjoint and net.

    `len()` counts changed rows, `bool()` asks whether there are any. Rows are tuples, or objects
    of the class of the view that was asked (`RelationView.delta`): then made at each use.

    Args:
        schema: the relation's schema; the rows must already fit it.
        added: rows that hold now and did not before, each once.
        removed: rows that held before and do not now, each once.
        counts: (added, removed), if known: then `len` and `bool` load nothing.
    """

    __slots__ = ("_added", "_ask", "_make", "_removed", "schema")

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
        self._added = Side(schema, added, known[0])
        self._removed = Side(schema, removed, known[1])
        self._ask: Ask | None = None
        self._make: Callable[[Row], R] | None = None

    @classmethod
    def of_sides(
        cls, schema: Schema, added: Side, removed: Side, ask: Ask | None = None
    ) -> RelationDelta[Row]:
        """Of two sides as they are; `ask` answers `why`."""
        delta: RelationDelta[Row] = RelationDelta.__new__(RelationDelta)
        delta.schema, delta._added, delta._removed = schema, added, removed
        delta._ask, delta._make = ask, None
        return delta

    def of_class(self, make: Callable[[Row], S]) -> RelationDelta[S]:
        """The same, with rows as objects that `make` makes of tuples. O(1)."""
        typed: Any = self._with(self._added, self._removed)
        typed._ask, typed._make = self._ask, make
        return cast("RelationDelta[S]", typed)

    @property
    def added(self) -> list[R]:
        """Rows that hold now and did not before; sorted, made on first use, do not modify."""
        rows: list[Any] = self._added.rows
        return rows if self._make is None else [*map(self._make, rows)]

    @property
    def removed(self) -> list[R]:
        """Rows that held before and do not now; sorted, made on first use, do not modify."""
        rows: list[Any] = self._removed.rows
        return rows if self._make is None else [*map(self._make, rows)]

    def _with(self, added: Side, removed: Side) -> RelationDelta[R]:
        """Of other sides; nobody to ask."""
        delta = cast("RelationDelta[R]", RelationDelta.of_sides(self.schema, added, removed))
        delta._make = self._make
        return delta

    @property
    def sides(self) -> tuple[Side, Side]:
        """Added rows, removed rows."""
        return self._added, self._removed

    def signed(self) -> Iterator[tuple[int, R]]:
        """Every change as (sign, row): removed rows (-1) first, then added rows (+1)."""
        for row in self.removed:
            yield -1, row
        for row in self.added:
            yield 1, row

    def why(self, row: R, *, max_trials: int = 200) -> Cause:
        """Which input changes made a row of this relation appear or vanish: see `Delta.why`."""
        if self._ask is None:
            raise nobody_to_ask()
        given = row if self._make is None else self.schema.as_row(row)
        return self._ask(self.schema.relation, given, max_trials=max_trials)

    def asking(self, of: Ask) -> RelationDelta[Row]:
        """The same, of tuples, and who answers `why`: that of the delta it is part of. O(1)."""
        return RelationDelta.of_sides(self.schema, self._added, self._removed, of)

    def inverse(self) -> RelationDelta[R]:
        """The delta that undoes this one. O(1): the sides are shared."""
        return self._with(self._removed, self._added)

    def compose(self, then: RelationDelta[Any]) -> RelationDelta[R]:
        """The net delta of this one followed by `then`. O(rows of both)."""
        (added, removed), (later_added, later_removed) = self.sides, then.sides
        return self._with(
            added.without(later_removed).joined(later_added.without(removed)),
            removed.without(later_added).joined(later_removed.without(added)),
        )

    @property
    def sign_column(self) -> str:
        """Name of the sign column in Arrow form: `sign`, with `_` appended while it is taken."""
        return sign_column(self.schema.names)

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

    def __len__(self) -> int:
        return len(self._added) + len(self._removed)

    def __bool__(self) -> bool:
        return bool(len(self._added) or len(self._removed))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RelationDelta):
            return NotImplemented
        return self.schema.relation == other.schema.relation and all(
            set(mine.rows) == set(theirs.rows)
            for mine, theirs in zip(self.sides, other.sides, strict=True)
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
        if len(self) > SHOWN:
            yield f"  … {len(self) - SHOWN} more"

    def _cells(self) -> list[list[str]]:
        removed, added = (("-", self._removed.rows), ("+", self._added.rows))
        shown = ([sign, *map(show_value, row)] for sign, rows in (removed, added) for row in rows)
        return list(islice(shown, SHOWN))

    def _repr_html_(self) -> str:
        caption = f"{self.schema.show()}: {len(self._added)} added, {len(self._removed)} removed"
        return html_table(caption, ("", *self.schema.names), self._cells(), len(self) - SHOWN)


def html_table(
    caption: str, names: Iterable[str], lines: Iterable[Iterable[str]], more: int
) -> str:
    """A table for notebooks and pages; `more` rows, if that is above 0, are not shown."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    cells = ("".join(f"<td>{escape(cell)}</td>" for cell in line) for line in lines)
    body = "".join(f"<tr>{line}</tr>" for line in cells)
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>" + (f"<p>… {more:,} more</p>" if more > 0 else "")
    )


def nobody_to_ask() -> ExplanationError:
    """The error of `why` where no database made the delta."""
    return ExplanationError(
        "this delta was not made by a transaction, so nothing is known of its cause"
    )


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
