"""The page's data over HTTP: one function a question, JSON in and out.

Invariant: what is asked wrongly is an answer with status 400 and the error's code and text; only
`edit` changes anything, and it exists only where the page is writable. Answers are bounded: rows
by the page, graphs by nodes. Who may ask is `guard`'s business.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from deltafix.engine.literals import read_facts, read_ground, schema_named
from deltafix.errors import DeltafixError, NoSuchFactError
from deltafix.facts.schema import show_row, show_value
from deltafix.web.graph import graph
from deltafix.web.guard import Guard
from deltafix.web.live import Live
from deltafix.web.table import FORMATS, Tables, View

if TYPE_CHECKING:
    from deltafix.engine.database import Database

__all__ = ["make_app"]

_STATIC: Final = Path(__file__).parent / "static"
_FILES: Final = frozenset(path.name for path in _STATIC.iterdir())
_PAGE: Final = 200
_DEPTH: Final = 6
"""Edges from a node to the last ones around it, at most."""


def make_app(db: Database, *, token: str, port: int, writable: bool, title: str) -> Guard:
    """The guarded application over a database, which it watches until `db` is closed."""
    page = _Page(db, writable, title)
    routes = [
        Route("/", page.index),
        Route("/static/{name}", page.static),
        Route("/api/state", page.state),
        Route("/api/rows", page.rows),
        Route("/api/export", page.export),
        Route("/api/graph", page.graph),
        Route("/api/why", page.why),
        Route("/api/cause", page.cause),
        Route("/api/plan", page.plan),
        Route("/api/profile", page.profile),
        Route("/api/events", page.events),
    ]
    if writable:
        routes.append(Route("/api/edit", page.edit, methods=["POST"]))
    app = Starlette(routes=routes, exception_handlers={DeltafixError: _refused})
    return Guard(app, token, port)


def _refused(_: Request, error: Exception) -> Response:
    code = error.code if isinstance(error, DeltafixError) else ""
    return JSONResponse({"error": str(error), "code": code}, 400)


class _Page:
    """The handlers; those that compute are plain functions, which starlette runs in threads."""

    def __init__(self, db: Database, writable: bool, title: str) -> None:
        self.db = db
        self.writable = writable
        self.title = title
        self.live = Live(db)
        self.tables = Tables(db)

    def index(self, _: Request) -> Response:
        return FileResponse(_STATIC / "index.html")

    def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _FILES:
            return Response("not found", 404)
        return FileResponse(_STATIC / name)

    def state(self, _: Request) -> Response:
        db = self.db
        relations = [
            {
                "name": name,
                "columns": [f"{column.name}: {column.type}" for column in schema.columns],
                "size": db.count(name),
                "is_graph": schema.arity == 2,
                "is_input": name not in db._ruled,
            }
            for name, schema in db.schemas.items()
        ]
        found = {"title": self.title, "epoch": db.epoch, "writable": self.writable}
        return JSONResponse({**found, "relations": relations, "changed": self.live.changed})

    def rows(self, request: Request) -> Response:
        view = self._view(request)
        page = self.tables.page(view, request.query_params.get("after", ""), _PAGE)
        page["rows"] = [
            {"fact": show_row(view.relation, row), "cells": [show_value(value) for value in row]}
            for row in page["rows"]
        ]
        return JSONResponse(page)

    def export(self, request: Request) -> Response:
        view, form = self._view(request), request.query_params.get("format", "csv")
        lines = self.tables.export(view, form)
        name = f"attachment; filename*=UTF-8''{quote(f'{view.relation}.{form}', safe='')}"
        return StreamingResponse(
            lines, media_type=FORMATS[form], headers={"content-disposition": name}
        )

    def _view(self, request: Request) -> View:
        asked = request.query_params
        relation = asked.get("relation", "")
        arity = self.db.relation(relation).schema.arity
        conditions = {place: asked.get(f"where{place}", "").strip() for place in range(arity)}
        sort = _whole(request, "sort", arity)
        return View(
            relation,
            asked.get("search", "").strip(),
            tuple((place, text) for place, text in conditions.items() if text),
            sort if sort < arity else None,
            asked.get("order") == "descending",
        )

    def graph(self, request: Request) -> Response:
        asked = request.query_params
        depth = min(_whole(request, "depth", 1), _DEPTH)
        focus = asked.get("focus", "").strip()
        return JSONResponse(graph(self.db, asked.get("relation", ""), focus, depth))

    def why(self, request: Request) -> Response:
        relation, row = read_ground(self._fact(request), self.db.schemas)
        try:
            proof = self.db.why(relation, row)
        except NoSuchFactError:
            absent = self.db.why_not(relation, row)
            return JSONResponse({"holds": False, "text": str(absent), **absent.to_dict()})
        return JSONResponse({"holds": True, "text": str(proof), **proof.to_dict()})

    def _fact(self, request: Request) -> str:
        """The fact that is asked about: as text, or a relation and the values of its columns."""
        asked = request.query_params
        relation = asked.get("relation")
        if relation is None:
            return asked.get("fact", "")
        kinds = schema_named(relation, self.db.schemas).types
        values = [
            show_value(text) if kind == "symbol" else text.strip()
            for kind, text in zip_longest(kinds, asked.getlist("value"), fillvalue="")
        ]
        return f"{relation}({', '.join(values)})"

    def cause(self, request: Request) -> Response:
        """Why the last epoch made a row come or go."""
        fact = request.query_params.get("fact", "")
        delta = self.live.delta
        if delta is None:
            return JSONResponse({"error": "no epoch has changed anything yet"}, 400)
        found = delta.why(fact)
        return JSONResponse({"text": str(found), **found.to_dict()})

    def plan(self, _: Request) -> Response:
        return JSONResponse({"text": self.db.plan.show(), "program": self.db.program.source})

    def profile(self, _: Request) -> Response:
        from deltafix.provenance.words import Words  # noqa: PLC0415  needs the plan

        rules = Words.of(self.db).rules
        return JSONResponse({"epochs": list(self.live.epochs), "rules": rules})

    async def events(self, _: Request) -> Response:
        return StreamingResponse(self.live.stream(), media_type="text/event-stream")

    async def edit(self, request: Request) -> Response:
        try:
            body = await request.json()
        except (ValueError, RecursionError):
            body = None  # no JSON, no UTF-8, or nested without end
        body = body if isinstance(body, dict) else {}
        sign, text = body.get("sign"), body.get("facts")
        if sign not in ("+", "-") or not isinstance(text, str):
            return JSONResponse({"error": 'send {"sign": "+" or "-", "facts": "…"}'}, 400)
        from starlette.concurrency import run_in_threadpool  # noqa: PLC0415  only where written

        return await run_in_threadpool(self._edit, sign, text)

    def _edit(self, sign: str, text: str) -> Response:
        facts = read_facts(text, self.db.schemas)
        with self.db.transaction() as tx:
            act: Callable[[str, Any], int] = tx.insert if sign == "+" else tx.delete
            for relation, row in facts:
                act(schema_named(relation, self.db.schemas).relation, [row])
        return JSONResponse({"epoch": self.db.epoch, "changed": tx.delta.show()})


def _whole(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else default
