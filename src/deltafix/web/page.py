"""The page's data over HTTP: one function a question, JSON in and out.

Lives here: what the page asks of anything served, and of rules. Invariant: only `edit` changes
anything; answers are bounded, rows by the page, graphs by nodes.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse

from deltafix.engine.literals import read_facts, read_ground, schema_named
from deltafix.errors import NoSuchFactError, UnknownRelationError
from deltafix.facts.schema import Column, show_row
from deltafix.facts.values import show_value
from deltafix.web.body import Refusal, read_body
from deltafix.web.graph import graph
from deltafix.web.table import FORMATS, Tables, View

if TYPE_CHECKING:
    from deltafix.engine.database import Database
    from deltafix.web.feed import Feed
    from deltafix.web.sources import RuleSource, Source

_STATIC: Final = Path(__file__).parent / "static"
_FILES: Final = frozenset(path.name for path in _STATIC.iterdir())
PAGE: Final = 200
"""Rows that are shown at once."""
_DEPTH: Final = 6
"""Edges from a node to the last ones around it, at most."""


def _literal(column: Column | None, text: str) -> str:
    """What somebody wrote for a column's value, as a literal of the language."""
    kind = None if column is None else column.of
    if kind is not None and kind.nullable and text.strip() == "nil":
        return "nil"
    if kind is not None and kind.inner not in ("number", "float"):
        return show_value(text if kind.inner == "symbol" else text.strip())
    is_text = kind is None and column is not None and column.type == "symbol"
    return show_value(text) if is_text else text.strip()


class Page(ABC):
    """The handlers; those that compute are plain functions, which starlette runs in threads."""

    wanted = 'send {"sign": "+" or "-", "facts": "…"}'
    signs: tuple[str, ...] = ("+", "-")

    def __init__(self, source: Source, feed: Feed, writable: bool, title: str) -> None:
        self.source = source
        self.feed = feed
        self.writable = writable
        self.title = title

    @property
    def db(self) -> Database:
        """The engine's database."""
        return self.source.engine

    def index(self, _: Request) -> Response:
        """The page itself."""
        return FileResponse(_STATIC / "index.html")

    def static(self, request: Request) -> Response:
        """One of its files."""
        name = request.path_params["name"]
        if name not in _FILES:
            return Response("not found", 404)
        return FileResponse(_STATIC / name)

    def state(self, _: Request) -> Response:
        """What there is, and what the last epoch changed."""
        source = self.source
        with source.reading:
            relations = []
            for name, relation in source.relations().items():
                with suppress(UnknownRelationError):  # an edit of rules has just taken it away
                    relations.append(
                        {
                            "name": name,
                            "columns": [
                                f"{column}: {kind}" for column, kind, _ in relation.columns
                            ],
                            "size": source.count(name),
                            "is_graph": relation.is_graph,
                            "is_input": relation.kind in ("input", "table"),
                        }
                    )
            epoch = source.epoch
        head = {"title": self.title, "epoch": epoch, "writable": self.writable}
        last = self.feed.last
        changed = {} if last is None else last.changes
        body = {"language": source.language, "relations": relations, "changed": changed}
        return JSONResponse({**head, **body})

    @abstractmethod
    def rows(self, request: Request) -> Response:
        """A page of a relation's rows."""

    @abstractmethod
    def export(self, request: Request) -> Response:
        """All rows as a file."""

    @abstractmethod
    def graph(self, request: Request) -> Response:
        """A relation of two columns as nodes and edges."""

    @abstractmethod
    def why(self, request: Request) -> Response:
        """Why a row is there, or why not."""

    @abstractmethod
    def cause(self, request: Request) -> Response:
        """Why the last epoch made a row come or go."""

    @abstractmethod
    def program(self) -> str:
        """The program's text."""

    @abstractmethod
    def edited(self, sign: str, text: str) -> Response:
        """Make an edit, as one transaction."""

    def plan(self, _: Request) -> Response:
        """How the program is run."""
        with self.source.reading:
            return JSONResponse({"text": self.db.plan.show(), "program": self.program()})

    def profile(self, _: Request) -> Response:
        """The work of the last epochs, by rule."""
        from deltafix.provenance.words import Words  # noqa: PLC0415  needs the plan

        with self.source.reading:
            rules = Words.of(self.db).rules
        return JSONResponse({"epochs": self.feed.reports(), "rules": rules})

    async def edit(self, request: Request) -> Response:
        """An edit, by a sign and a text."""
        taken = await read_body(request, self.feed.limits.body, "make several edits")
        if isinstance(taken, Refusal):
            return JSONResponse({"error": str(taken.error), "code": taken.error.code}, taken.status)
        try:
            body = json.loads(taken)
        except (ValueError, RecursionError):
            body = None  # no JSON, no UTF-8, or nested without end
        body = body if isinstance(body, dict) else {}
        sign, text = body.get("sign"), body.get("facts")
        if sign not in self.signs or not isinstance(text, str):
            return JSONResponse({"error": self.wanted}, 400)
        return await run_in_threadpool(self.edited, sign, text)


class RulePage(Page):
    """The page over a database of rules."""

    def __init__(self, source: RuleSource, feed: Feed, writable: bool, title: str) -> None:
        super().__init__(source, feed, writable, title)
        self.tables = Tables(source.db)

    def rows(self, request: Request) -> Response:
        """A page of rows, each as a fact and its values."""
        view = view_of(request, self.source)
        page = self.tables.page(view, request.query_params.get("after", ""), PAGE)
        page["rows"] = [
            {"fact": show_row(view.relation, row), "cells": [show_value(value) for value in row]}
            for row in page["rows"]
        ]
        return JSONResponse(page)

    def export(self, request: Request) -> Response:
        """All rows that are looked at, as a file."""
        view, form = view_of(request, self.source), request.query_params.get("format", "csv")
        return file_of(view, form, self.tables.export(view, form))

    def graph(self, request: Request) -> Response:
        """What lies around nodes, or the first edges."""
        query = request.query_params
        depth = min(_whole(request, "depth", 1), _DEPTH)
        focus = query.get("focus", "").strip()
        return JSONResponse(graph(self.db, query.get("relation", ""), focus, depth))

    def why(self, request: Request) -> Response:
        """A proof, or why the fact does not hold."""
        relation, row = read_ground(self._fact(request), self.db.schemas)
        try:
            proof = self.db.why(relation, row)
        except NoSuchFactError:
            absent = self.db.why_not(relation, row)
            return JSONResponse({"holds": False, "text": str(absent), **absent.to_dict()})
        return JSONResponse({"holds": True, "text": str(proof), **proof.to_dict()})

    def _fact(self, request: Request) -> str:
        """The fact that is asked about: as text, or a relation and the values of its columns."""
        query = request.query_params
        relation = query.get("relation")
        if relation is None:
            return query.get("fact", "")
        columns = schema_named(relation, self.db.schemas).columns
        given = zip_longest(columns, query.getlist("value"))
        values = [_literal(column, text or "") for column, text in given]
        return f"{relation}({', '.join(values)})"

    def cause(self, request: Request) -> Response:
        """Why the last epoch made a row come or go."""
        fact = request.query_params.get("fact", "")
        delta = self.feed.delta
        if delta is None:
            return JSONResponse({"error": "no epoch has changed anything yet"}, 400)
        cause = delta.why(fact)
        return JSONResponse({"text": str(cause), **cause.to_dict()})

    def program(self) -> str:
        """The program's text."""
        return self.db.program.source or ""

    def edited(self, sign: str, text: str) -> Response:
        """Insert or delete facts, as one transaction."""
        facts = read_facts(text, self.db.schemas)
        with self.db.transaction() as tx:
            act: Callable[[str, Any], int] = tx.insert if sign == "+" else tx.delete
            for relation, row in facts:
                act(schema_named(relation, self.db.schemas).relation, [row])
        return JSONResponse({"epoch": tx.delta.epoch, "changed": tx.delta.show()})


def view_of(request: Request, source: Source) -> View:
    """What of a relation is asked for. Raises UnknownRelationError."""
    query = request.query_params
    relation = query.get("relation", "")
    arity = len(source.relation(relation).columns)
    conditions = {column: query.get(f"where{column}", "").strip() for column in range(arity)}
    sort = _whole(request, "sort", arity)
    return View(
        relation,
        query.get("search", "").strip(),
        tuple((column, text) for column, text in conditions.items() if text),
        sort if sort < arity else None,
        query.get("order") == "descending",
    )


def file_of(view: View, form: str, lines: Iterator[str]) -> Response:
    """Rows as a file to be kept."""
    name = f"attachment; filename*=UTF-8''{quote(f'{view.relation}.{form}', safe='')}"
    return StreamingResponse(lines, media_type=FORMATS[form], headers={"content-disposition": name})


def _whole(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else default
