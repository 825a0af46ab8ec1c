"""Rows of one relation as somebody looks at them: searched, filtered, sorted, a page after another.

Invariant: all of it happens on codes, column by column: a condition is asked of each distinct
value once, and the order of the rows that are left is kept until the next epoch. Equal values of
the sorted column are in the order of their rows' codes, so that a page goes on after a row (its
key), not after so many rows: what comes or goes meanwhile moves nothing twice into view or past it.
"""

from __future__ import annotations

import csv
import io
import json
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from deltafix.errors import FactError, GoneError
from deltafix.facts.json_rows import json_values
from deltafix.facts.logical_types import LogicalType
from deltafix.facts.schema import Column, Row, Schema
from deltafix.facts.values import (
    OPTIONAL,
    Value,
    canonical,
    float_order,
    row_order,
    write_value,
)

if TYPE_CHECKING:
    from deltafix.engine.codes import Codes as Values
    from deltafix.engine.database import Database

_KEPT: Final = 8
"""Orders that are kept: those of as many pages, or of one that goes to and fro."""
_CHUNK: Final = 10_000
FORMATS: Final = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl; charset=utf-8"}
COMPARED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
OPERATION: Final = re.compile(r"\s*(<=|>=|!=|=|<|>)\s*(.*)", re.DOTALL)
_READ: Final[dict[str, Callable[[str], Value]]] = {"number": int, "unsigned": int, "float": float}

Codes = np.ndarray[Any, np.dtype[np.int32]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class View:
    """What of a relation is looked at.

    Attributes:
        relation: its name.
        search: a text that some column contains; case does not matter.
        where: per column, by place, a text that it contains, or `= < <= > >= !=` and a value.
        sort: the place of the column by which rows are sorted; None: by their codes.
        is_descending: whether the greatest comes first.
    """

    relation: str
    search: str = ""
    where: tuple[tuple[int, str], ...] = ()
    sort: int | None = None
    is_descending: bool = False


@dataclass(frozen=True, slots=True)
class _Ordered:
    schema: Schema
    values: Values
    codes: Codes
    size: int


class Tables:
    """The relations of a database, as pages. Safe for threads."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._kept: dict[tuple[View, int, Schema], _Ordered] = {}

    def page(self, view: View, after: str, limit: int) -> dict[str, Any]:
        """At most `limit` rows after the one with this key (`next` of the page before, or "").

        The first time in an epoch O(rows of the relation), and O(m log m) for the m rows and
        distinct values that are sorted; after that O(limit + log rows).

        Raises:
            UnknownRelationError: no such relation.
            FactError: a condition that its column cannot have, or a key that is none.
            GoneError: the database was compacted since the page that told the key.
        """
        ordered = self._ordered(view)
        start = self._offset(ordered, view, after) if after else 0
        codes = ordered.codes[start : start + limit]
        is_last = start + len(codes) >= len(ordered.codes)
        return {
            "rows": ordered.values.rows(ordered.schema, codes),
            "offset": start,
            "matched": len(ordered.codes),
            "size": ordered.size,
            "next": None if is_last else _key(ordered.values, codes[-1].tolist()),
        }

    def export(self, view: View, form: str) -> Iterator[str]:
        """All rows of a view as `csv` (RFC 4180, with a line of names) or as `jsonl`, in parts.

        O(rows). Raises as `page` does, before the first part; FactError for another format.
        """
        if form not in FORMATS:
            message = f"rows are written as {' or '.join(FORMATS)}, not as {form!r}"
            raise FactError(message, relation=view.relation, value=form)
        ordered = self._ordered(view)
        return self._written(ordered, _csv if form == "csv" else _json_lines, form == "csv")

    def _written(
        self, ordered: _Ordered, write: Callable[[Schema, list[Row]], str], has_head: bool
    ) -> Iterator[str]:
        if has_head:
            yield _csv_lines([list(ordered.schema.names)])
        for start in range(0, len(ordered.codes), _CHUNK):
            rows = ordered.values.rows(ordered.schema, ordered.codes[start : start + _CHUNK])
            yield write(ordered.schema, rows)

    def _ordered(self, view: View) -> _Ordered:
        db = self._db
        schema = db.relation(view.relation).schema
        # Before the rows: later rows under an earlier epoch are never found again.
        key = (view, db.epoch, schema)
        ordered = self._kept.get(key)
        if ordered is None:
            values, codes = db.committed(view.relation)
            left = codes[self._fits(view, schema, values, codes)]
            order = self._order(view, schema, values, left)
            ordered = _Ordered(schema, values, left[order], len(codes))
            for old in list(self._kept):
                if old[1] != key[1] or len(self._kept) >= _KEPT:
                    self._kept.pop(old, None)
            self._kept[key] = ordered
        return ordered

    def _fits(self, view: View, schema: Schema, values: Values, codes: Codes) -> Mask:
        fits = np.ones(len(codes), dtype=np.bool_)
        for column, text in view.where:
            fits &= self._holds(schema, values, codes, column, _condition(schema, column, text))
        if view.search:
            contains = _contains(view.search)
            matches = np.zeros(len(codes), dtype=np.bool_)
            for column in range(schema.arity):
                matches |= self._holds(schema, values, codes, column, contains)
            fits &= matches
        return fits

    def _holds(
        self,
        schema: Schema,
        values: Values,
        codes: Codes,
        column: int,
        test: Callable[[Value], bool],
    ) -> Mask:
        distinct, which = np.unique(codes[:, column], return_inverse=True)
        decoded = values.column(schema.columns[column], distinct)
        return np.fromiter(map(test, decoded), dtype=np.bool_, count=len(decoded))[which]

    def _order(self, view: View, schema: Schema, values: Values, codes: Codes) -> Any:
        keys = [codes[:, column] for column in reversed(range(schema.arity))]
        if view.sort is not None:
            ranks = self._ranks(schema.types[view.sort], values, codes[:, view.sort])
            keys.append(-ranks if view.is_descending else ranks)
        return np.lexsort(keys) if keys else slice(None)

    def _ranks(self, kind: Any, values: Values, column: Any) -> Any:
        """The place of each value of a column among its distinct values."""
        distinct, which = np.unique(column, return_inverse=True)
        if kind in _READ:
            order = np.argsort(values.decode_numbers(kind, distinct), kind="stable")
        else:
            key = _value_order(kind)
            keys = [key(value) for value in values.decode(kind, distinct)]
            order = np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)
        ranks = np.empty(len(distinct), dtype=np.int64)
        ranks[order] = np.arange(len(distinct))
        return ranks[which]

    def _offset(self, ordered: _Ordered, view: View, after: str) -> int:
        """How many rows come before, or are, the one with this key, which may be gone."""
        made_by, _, codes_text = after.partition(".")
        if made_by.isdecimal() and made_by != str(ordered.values.number):
            message = "the database was compacted after that page: begin with the first one"
            raise GoneError(message, relation=view.relation)
        try:
            key = tuple(int(code) for code in codes_text.split(",") if code)
            if len(key) != ordered.schema.arity:
                raise ValueError
            value = self._sorted_by(ordered, view, key)
        except (ValueError, IndexError, OverflowError):
            message = f"{after!r} is no key of a row: a page tells that of the next one as `next`"
            raise FactError(message, relation=view.relation, value=after) from None
        low, high = 0, len(ordered.codes)
        while low < high:
            middle = (low + high) // 2
            codes = tuple(ordered.codes[middle].tolist())
            other = self._sorted_by(ordered, view, codes)
            if other == value:
                is_later = codes > key
            else:
                is_later = (other < value) if view.is_descending else (other > value)
            low, high = (low, middle) if is_later else (middle + 1, high)
        return low

    def _sorted_by(self, ordered: _Ordered, view: View, codes: tuple[int, ...]) -> Any:
        if view.sort is None:
            return None
        kind = ordered.schema.types[view.sort]
        return _value_order(kind)(ordered.values.value(kind, codes[view.sort]))


def _key(values: Values, codes: list[int]) -> str:
    """What names a row to `Tables.page`: its codes, and which database's they are."""
    return f"{values.number}.{','.join(map(str, codes))}"


def labels(column: Column, values: list[Any]) -> list[str]:
    """Values of a column as they are searched and stand at nodes: symbols without quotes."""
    if column.of is not None:
        return [*map(column.of.to_text, values)]
    return values if column.type == "symbol" else [write_value(value) for value in values]


def _value_order(kind: Any) -> Callable[[Value], Any]:
    """The key by which the engine's values of a type are sorted, missing ones first."""
    if kind in OPTIONAL:
        of = _value_order(OPTIONAL[kind])
        return lambda value: (1, of(value[0])) if isinstance(value, tuple) else (0,)
    key = row_order([kind])
    return (lambda value: value) if key is None else (lambda value: key((value,))[0])


def _contains(text: str) -> Callable[[Value], bool]:
    wanted = text.casefold()
    return lambda value: wanted in write_value(value).casefold()


def _condition(schema: Schema, index: int, text: str) -> Callable[[Value], bool]:
    match = OPERATION.fullmatch(text)
    if match is None:
        return _contains(text.strip())
    column = schema.columns[index]
    compare, wanted = COMPARED[match[1]], match[2].strip()
    if column.of is not None:
        return _logical_condition(schema, column.name, column.of, compare, wanted)
    read = _READ.get(schema.types[index])
    if read is None:
        return lambda value: compare(write_value(value), wanted)
    try:
        number: Any = read(wanted)
    except ValueError:
        message = f"column `{column.name}` is compared with a {column.type}, not with {wanted!r}"
        raise FactError(message, relation=schema.relation, value=wanted) from None
    if schema.types[index] == "float":  # NaN is above all others, and equal to itself
        number = float_order(canonical(number))
        return lambda value: compare(float_order(cast(float, value)), number)
    return lambda value: compare(value, number)


def _logical_condition(
    schema: Schema, name: str, kind: LogicalType, compare: Callable[[Any, Any], bool], wanted: str
) -> Callable[[Value], bool]:
    try:
        value = kind.from_text(wanted)
    except ValueError as error:
        message = f"column `{name}` is compared with {wanted!r}, but {error}"
        raise FactError(message, relation=schema.relation, value=wanted) from None
    if value is None:
        return lambda other: compare(other is None, True)
    return lambda other: other is not None and compare(other, value)


def _csv_lines(lines: list[list[str]]) -> str:
    stream = io.StringIO()
    csv.writer(stream).writerows(lines)
    return stream.getvalue()


def _csv(_: Schema, rows: list[Row]) -> str:
    return _csv_lines([list(map(write_value, row)) for row in rows])


def _json_lines(schema: Schema, rows: list[Row]) -> str:
    lines = (
        json.dumps(json_values(row, schema, as_objects=True), ensure_ascii=False) for row in rows
    )
    return "".join(f"{line}\n" for line in lines)
