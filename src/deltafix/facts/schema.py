"""The shape of a relation's rows, and the check every row passes on its way in.

Three nouns: a `Column` (name and base type), a `Schema` (a relation's columns in order), a `Row`
(a tuple of Python values). Invariant: what leaves `Schema.check_rows` is a list of tuples of
exactly `int`, `float` (one zero, one NaN) or `str`, of the right width and inside the type's range,
so nothing further in checks again. Arrow and numpy have their own doors in `facts.arrow`. Nothing
here stores, interns or sorts rows, and nothing here imports numpy or pyarrow.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from types import EllipsisType
from typing import Any, TypeAlias, cast

from deltafix.diagnostics import did_you_mean, plural
from deltafix.errors import FactError, TypeMismatchError, UnknownRelationError
from deltafix.facts.logical import Logical
from deltafix.facts.logical_types import LogicalType, only_optional
from deltafix.facts.shapes import Shape, Types
from deltafix.facts.values import (
    CONSTRUCTED,
    OPTIONAL,
    RANGES,
    WORD,
    BaseType,
    Value,
    encodable,
    fitting,
    show_value,
    shown,
    valid_values,
)

Pattern: TypeAlias = tuple[Value | EllipsisType, ...]
"""What rows are asked for: a value, or `...` for any."""

Row: TypeAlias = tuple[Value, ...]
"""One fact without its relation; the empty tuple is the one row of a nullary relation."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name (unique in its relation), base type, and the shape of a record.

    `bits` is the word size of integers in it; `logical` is what users have for its values, if that
    is not what the engine has. `of` is the logical type that the values of rows have: the base type
    is then the engine's alone.
    """

    name: str
    type: BaseType
    shape: Shape | None = field(default=None, compare=False, repr=False)
    bits: int = field(default=WORD, compare=False, repr=False)
    logical: Logical | None = field(default=None, compare=False, repr=False)
    of: LogicalType | None = field(default=None, compare=False, repr=False)

    @property
    def nullable(self) -> bool:
        """Whether its users have NULLs in it."""
        return any(kind is not None and kind.nullable for kind in (self.logical, self.of))

    @property
    def takes(self) -> str:
        """What fits the column, as error messages say it."""
        if self.of is not None:
            return f"{self.of.name} takes {self.of.takes}"
        return f"{self.type} takes {valid_values(self.type, self.bits)}"

    def refuses(self, value: object) -> str:
        """What fits the column, for a value that does not."""
        return self.takes + (only_optional(self.type) if value is None else "")

    @property
    def physical(self) -> Column:
        """The column as the engine has it, which knows nothing of logical types."""
        if self.of is None:
            return self
        shape = None
        if self.type in OPTIONAL:
            only: Types = {self.type: {"": (("value", OPTIONAL[self.type]),)}}
            shape = Shape(only, self.type, self.bits)
        return replace(self, of=None, shape=shape)

    @property
    def range(self) -> tuple[int, int] | None:
        """The smallest and largest value, if it is of an integer type."""
        return RANGES[self.bits].get(self.type)


@dataclass(frozen=True, slots=True)
class Schema:
    """A relation's name and columns, in order; no columns for a nullary relation.

    `types` are the columns' base types, `logical` the places and types of those whose values are
    of logical ones.
    """

    relation: str
    columns: tuple[Column, ...] = ()
    types: tuple[BaseType, ...] = field(init=False, compare=False, repr=False)
    logical: tuple[tuple[int, LogicalType], ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        logical = tuple(
            (n, column.of) for n, column in enumerate(self.columns) if column.of is not None
        )
        object.__setattr__(self, "logical", logical)
        object.__setattr__(self, "types", tuple(column.type for column in self.columns))

    @classmethod
    def of(
        cls,
        relation: str,
        names: Sequence[str],
        types: Sequence[BaseType],
        logical: Sequence[Logical | None] = (),
    ) -> Schema:
        """Build from parallel sequences. Raises ValueError if their lengths differ."""
        columns = zip(names, types, logical or [None] * len(types), strict=True)
        return cls(relation, tuple(Column(n, base, logical=kind) for n, base, kind in columns))

    @classmethod
    def infer(cls, relation: str, rows: Iterable[Row]) -> Schema:
        """Guess from rows: columns `c0, c1, …`, typed by the first row (unsigned above 2^63 - 1).

        For deltas written down by hand; a program's relations have declared schemas.
        """
        seen = list(rows)
        types: list[BaseType] = []
        for column in zip(*seen, strict=True):
            if isinstance(column[0], str):
                types.append("symbol")
            elif isinstance(column[0], float):
                types.append("float")
            else:
                types.append("number" if max(column) < 2**63 else "unsigned")
        return cls.of(relation, [f"c{i}" for i in range(len(types))], types)

    @property
    def physical(self) -> Schema:
        """The schema of the same rows as the engine has them: `encoded` gives these."""
        if not self.has_logical:
            return self
        return Schema(self.relation, tuple(column.physical for column in self.columns))

    @property
    def arity(self) -> int:
        """Number of columns."""
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names, in order."""
        return tuple(column.name for column in self.columns)

    def places(self, names: Iterable[str]) -> list[int]:
        """Where columns of these names stand. Raises FactError, naming the first that is not."""
        known = self.names
        indices = []
        for name in names:
            if name not in known:
                hint = did_you_mean(name, known, "", "'")
                message = f"no column {name!r}{hint and f' ({hint})'} in {self.show()}"
                raise FactError(message, relation=self.relation, column=name)
            indices.append(known.index(name))
        return indices

    def show(self) -> str:
        """The schema as a declaration spells it: `edge(x: symbol, y: number)`."""
        inside = ", ".join(f"{column.name}: {_type_name(column)}" for column in self.columns)
        return f"{self.relation}({inside})"

    def check_rows(self, rows: Iterable[object]) -> list[Row]:
        """Check rows at the door; O(cells), about 0.1 µs a cell when all is well.

        Args:
            rows: tuples (or lists, or what `as_row` takes) of Python values, one per column; numpy
                integers and floats are taken as the int or float they stand for. bool is not a
                number.

        Returns:
            The rows in the order given, duplicates kept, as tuples of int, float and str.

        Raises:
            FactError: a row that is not a tuple, or of the wrong width.
            TypeMismatchError: a value outside its column's type; names the relation, the
                column, the row index from 0, the value, and what would be valid.
        """
        try:
            batch: list[Row] = list(cast("Iterable[Row]", rows))
        except TypeError:
            raise self._not_rows(rows) from None
        if not set(map(type, batch)) <= {tuple}:
            batch = [self.as_row(row, index) for index, row in enumerate(batch)]
        if not batch:
            return batch
        if set(map(len, batch)) != {self.arity}:
            raise self._wrong_width(batch)
        given = list(zip(*batch, strict=True))
        checked = [self._check_column(*pair) for pair in zip(self.columns, given, strict=True)]
        if all(new is old for new, old in zip(checked, given, strict=True)):
            return batch
        return list(zip(*checked, strict=True))

    def check_value(self, column: Column, row: int, value: object) -> Value:
        """Check one value, naming its row on failure; returns it as its type holds it."""
        if column.of is not None:
            try:
                return column.of.decode(column.of.encode(value))  # type: ignore[no-any-return]
            except ValueError as error:
                raise self.mismatch(column, row, value, str(error)) from None
        if column.shape is not None:
            try:
                return column.shape.check(value)
            except ValueError as error:
                raise self.mismatch(column, row, value, str(error)) from None
        fit = fitting(column.type, value, column.bits)
        if fit is not None:
            return fit
        raise self.mismatch(column, row, value)

    def mismatch(self, column: Column, row: int, value: object, why: str = "") -> TypeMismatchError:
        """The error for a value that does not fit its column; `why` says it of a part."""
        message = (
            f"{self.relation}: column {column.name!r} of row {row} is {shown(value)} "
            f"({type(value).__name__}), but {why or column.refuses(value)}"
        )
        return TypeMismatchError(
            message, relation=self.relation, column=column.name, row=row, value=value
        )

    def _check_column(self, column: Column, values: tuple[Value, ...]) -> tuple[Value, ...]:
        # The usual case is decided per column by C loops (set, map, min, max); only a column
        # that fails it is walked value by value, to normalise or to name the offender.
        kinds = set(map(type, values))
        if column.of is not None:
            pass
        elif column.type == "symbol":
            texts = cast("tuple[str, ...]", values)
            if kinds == {str} and (all(map(str.isascii, texts)) or encodable("".join(texts))):
                return values
        elif column.type == "float":
            reals = cast("tuple[float, ...]", values)
            if kinds == {float} and 0.0 not in reals and not any(map(operator.ne, reals, reals)):
                return values  # no zero that may have a sign, no NaN
        elif kinds == {int} and column.range is not None:
            low, high = column.range
            whole = cast("tuple[int, ...]", values)
            if low <= min(whole) and max(whole) <= high:
                return values
        return tuple(self.check_value(column, row, value) for row, value in enumerate(values))

    @property
    def has_logical(self) -> bool:
        """Whether rows have values of logical types."""
        return bool(self.logical)

    def encoded(self, rows: Iterable[Row]) -> list[Row]:
        """Rows with the engine's values of logical types. O(cells).

        Raises ValueError for a value that is none of its column's.
        """
        return _changed(rows, [(index, kind.encode) for index, kind in self.logical])

    def decoded(self, rows: Iterable[Row]) -> list[Row]:
        """The inverse of `encoded`."""
        return _changed(rows, [(index, kind.decode) for index, kind in self.logical])

    def as_row(self, row: object, index: int | None = None) -> Row:
        """The tuple that a row is: as it is, of a list, or of a dataclass with these columns.

        Its values are not checked. Raises FactError for what is none; `index` is its place among
        others.
        """
        if isinstance(row, tuple | list):
            return tuple(row)
        if is_dataclass(row) and tuple(field.name for field in fields(row)) == self.names:
            return tuple(getattr(row, name) for name in self.names)
        example = self._example()
        subject = "the row" if index is None else f"row {index}"
        message = (
            f"{self.relation}: {subject} is {shown(row)} ({type(row).__name__}), but rows are "
            f"tuples like {example}, or objects of a dataclass with the fields "
            f"({', '.join(self.names)})"
        )
        if index is not None:
            message += f"; one row alone goes in a list: [{example}]"
        raise FactError(message, relation=self.relation, row=index, value=row)

    def _not_rows(self, rows: object) -> FactError:
        message = (
            f"{self.relation}: rows are given as an iterable of tuples, an Arrow table or a "
            f"numpy array, not as {type(rows).__name__}"
        )
        return FactError(message, relation=self.relation, value=rows)

    def _wrong_width(self, batch: list[Row]) -> FactError:
        row, values = next(pair for pair in enumerate(batch) if len(pair[1]) != self.arity)
        message = (
            f"{self.relation}: row {row} has {plural(len(values), 'value')}: {shown(values)}, but "
            f"{self.show()} has {plural(self.arity, 'column')}"
        )
        return FactError(message, relation=self.relation, row=row, value=values)

    def _example(self) -> str:
        samples = {
            "number": "1",
            "unsigned": "1",
            "float": "1.0",
            "symbol": '"a"',
            **dict.fromkeys(CONSTRUCTED, "(1,)"),
        }
        inside = ", ".join(samples.get(base, "1") for base in self.types)
        return f"({inside},)" if self.arity == 1 else f"({inside})"


def _changed(rows: Iterable[Row], changes: Sequence[tuple[int, Callable[[Any], Any]]]) -> list[Row]:
    """Rows with the values at some places changed."""
    changed = [*rows]
    if changes:
        for number, row in enumerate(changed):
            values = list(row)
            for index, change in changes:
                values[index] = change(values[index])
            changed[number] = tuple(values)
    return changed


def _type_name(column: Column) -> str:
    """A column's type as its users know it."""
    if column.of is not None:
        return column.of.name
    return str(column.logical or column.type)


def show_row(relation: str, row: Row) -> str:
    """A fact as program text spells it, without the final point: `edge("a", 1)`."""
    return f"{relation}({', '.join(map(show_value, row))})"


def unknown_relation(name: str, known: Collection[str]) -> UnknownRelationError:
    """The error for a relation that is not among those known, with what would be."""
    hint = did_you_mean(name, known, f"there is {', '.join(known) or 'none'}", "'")
    return UnknownRelationError(f"no relation {name!r}; {hint}", relation=name, known=[*known])
