"""The page over tables and views of SQL: values, questions and edits are SQL's.

Invariant: what is shown is what SELECT gives, each row as often as it is there. Rows are searched,
filtered and sorted as values, a whole view at a time. Not told: what caused a change, and graphs.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse, Response

from deltafix.errors import ExplanationError, FactError, LiveError
from deltafix.facts.logical import as_json, logical_order
from deltafix.facts.values import plain_text
from deltafix.sql.parameters import equalities
from deltafix.sql.parsing import statements
from deltafix.sql.text import shown_name
from deltafix.sql.types import TEXT, Column
from deltafix.web.json_values import read_text
from deltafix.web.page import PAGE, Page, file_of, view_of
from deltafix.web.table import COMPARED, FORMATS, OPERATION, View

if TYPE_CHECKING:
    from starlette.requests import Request

    from deltafix.sql import Connection
    from deltafix.sql.why import Reason
    from deltafix.web.sources import SqlSource

_EDITS: Final = ("insert", "update", "delete", "truncatetable", "merge")
_NAMED: Final = re.compile(r'(\w+|"(?:[^"]|"")+"|`(?:[^`]|``)+`): (.+)', re.DOTALL)


class SqlPage(Page):
    """The handlers; the connection is one thread's at a time, under its source's lock."""

    source: SqlSource
    wanted = 'send {"sign": "sql", "facts": "INSERT INTO …"}'
    signs = ("sql",)

    def rows(self, request: Request) -> Response:
        """A page of rows, with the values as SQL writes them."""
        with self.source.reading:
            view = view_of(request, self.source)
            rows = self._rows(view)
            after = request.query_params.get("after", "")
            if after and not (after.isascii() and after.isdigit() and len(after) < 16):
                raise FactError(f"{after!r} is no place: a page tells the next one as `next`")
            start = int(after or 0)
            page_rows = [
                {"fact": self.source.fact(view.relation, row), "cells": list(map(_cell, row))}
                for row in rows[start : start + PAGE]
            ]
            size = self.source.count(view.relation)
        end = start + len(page_rows)
        following = str(end) if end < len(rows) else None
        page = {"rows": page_rows, "offset": start, "matched": len(rows), "size": size}
        return JSONResponse({**page, "next": following})

    def export(self, request: Request) -> Response:
        """All rows as a file: CSV, or lines of JSON as the live door has them."""
        form = request.query_params.get("format", "csv")
        if form not in FORMATS:
            raise FactError(f"rows are written as {' or '.join(FORMATS)}, not as {form!r}")
        with self.source.reading:
            view = view_of(request, self.source)
            name, rows = view.relation, self._rows(view)
            if form == "csv":
                lines = [_csv([column.name for column in self._columns(name)])]
                lines += [_csv(["" if v is None else _cell(v) for v in row]) for row in rows]
            else:
                objects = map(self.source.writer(name), rows)
                lines = [json.dumps(object_, ensure_ascii=False) + "\n" for object_ in objects]
        return file_of(view, form, iter(lines))

    def _columns(self, name: str) -> tuple[Column, ...]:
        return self.source.connection.catalog.relations[name].columns

    def _rows(self, view: View) -> list[tuple[Any, ...]]:
        """The rows of a view that are looked at, in their order. O(rows log rows)."""
        rows = self.source.rows(view.relation)
        columns = self._columns(view.relation)
        for column, text in view.where:
            holds = _condition(columns[column], text)
            rows = [row for row in rows if holds(row[column])]
        wanted = view.search.casefold()
        if wanted:
            rows = [row for row in rows if any(wanted in _cell(v).casefold() for v in row)]
        sort = view.sort
        if sort is not None:
            nothing = [row for row in rows if row[sort] is None]
            present = [row for row in rows if row[sort] is not None]
            present.sort(key=lambda row: _order(row[sort]), reverse=view.is_descending)
            rows = present + nothing
        return rows

    def graph(self, request: Request) -> Response:
        """Raises ExplanationError: graphs are drawn of rules."""
        raise ExplanationError("graphs are drawn of relations of rules; of SQL look at the rows")

    def why(self, request: Request) -> Response:
        """A proof of a row named as the page names it, or by a SELECT * with its values."""
        db = self.source.connection
        with self.source.reading:
            query = self._query(request)
            _require(db, query, ("select",), "a question is one SELECT * of a table or view")
            reasons = db.why(query)
            if reasons:
                steps = _steps(self.source, reasons[0])
                return JSONResponse({"holds": True, "text": str(reasons[0]), "steps": steps})
            lines = db.execute(f"EXPLAIN WHY NOT {query}").fetchall()
        return JSONResponse({"holds": False, "text": "\n".join(str(line) for (line,) in lines)})

    def _query(self, request: Request) -> str:
        """`edge: a = 1 AND b IS NULL`, or a relation and values, as a query; a query as it is.

        An empty value is any.
        """
        query = request.query_params
        relation = query.get("relation")
        if relation is None:
            text = query.get("fact", "")
            match = _NAMED.fullmatch(text)
            return f"SELECT * FROM {match[1]} WHERE {match[2]}" if match else text  # noqa: S608
        self.source.relation(relation)
        columns, dialect = self._columns(relation), self.source.connection.dialect
        given = zip(columns, query.getlist("value"), strict=False)
        row = {column.name: _typed(text, column) for column, text in given if text}
        name = shown_name(relation, dialect)
        where = f" WHERE {equalities(row, dialect)}" if row else ""
        return f"SELECT * FROM {name}{where}"  # noqa: S608

    def cause(self, request: Request) -> Response:
        """Raises ExplanationError: what made a row come is not kept for SQL."""
        raise ExplanationError(
            "what caused a change is told of rules; of SQL click a row, for why it is there"
        )

    def program(self) -> str:
        """The statements that made the tables and views."""
        definitions = self.source.connection.catalog.definitions.values()
        return "".join(f"{definition.sql};\n" for definition in definitions)

    def edited(self, sign: str, text: str) -> Response:
        """Run statements that edit, as one transaction."""
        db = self.source.connection
        with self.source.lock:
            _require(db, text, _EDITS, "the page takes INSERT, UPDATE, DELETE, TRUNCATE and MERGE")
            with self.source.editing():
                for _ in db.run(text, (), "page"):
                    pass
            return JSONResponse({"epoch": self.source.epoch, "changed": ""})


def _require(db: Connection, text: str, kinds: tuple[str, ...], valid: str) -> None:
    """Raises LiveError for a text with another statement than these. Nothing is run."""
    keys = [statement.node.key for statement in statements(text, db.dialect)]
    others = [key.upper() for key in keys if key not in kinds]
    if others or not keys or (kinds == ("select",) and len(keys) != 1):
        what = others[0] if others else f"{len(keys)} statements"
        raise LiveError(f"{valid}, not {what}", value=text)


def _typed(text: str, column: Column) -> Any:
    """What a field of the page says: NULL, and `''` for the text without characters."""
    if text == "NULL":
        return None
    return "" if text == "''" and column.type is TEXT else read_text(text, column)


def _steps(source: SqlSource, reason: Reason) -> list[dict[str, Any]]:
    """A proof of SQL as the page draws it: each row once, with places of what it follows from."""
    steps: list[dict[str, Any]] = []
    numbers, pending = {id(reason): 0}, [reason]
    for step in pending:
        for part in step.because:
            if id(part) not in numbers:
                numbers[id(part)] = len(pending)
                pending.append(part)
        steps.append(
            {
                "fact": source.fact(step.relation, tuple(step.row.values())),
                "given": source.relation(step.relation).kind == "table",
                "text": "",
                "premises": [numbers[id(part)] for part in step.because],
                "absent": list(step.notes),
            }
        )
    return steps


def _condition(column: Column, text: str) -> Callable[[Any], bool]:
    """A text that a value contains, or a comparison, which NULL does not pass."""
    match = OPERATION.fullmatch(text)
    if match is None:
        wanted = text.casefold()
        return lambda value: wanted in _cell(value).casefold()
    compare, other = COMPARED[match[1]], _order(read_text(match[2].strip(), column))
    return lambda value: value is not None and compare(_order(value), other)


def _order(value: Any) -> tuple[Any, ...]:
    """What a value, as callers have it, is compared by: NULLs are last, and NaN above infinity."""
    return logical_order((_as_tuples(value),))


def _as_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        value = [*value.values()]
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _csv(cells: list[str]) -> str:
    stream = io.StringIO()
    csv.writer(stream).writerow(cells)
    return stream.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return as_json(value)
    return plain_text(value)
