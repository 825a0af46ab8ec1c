"""The application: its routes, over the page and the live door, behind the guard.

Invariant: what is asked wrongly is an answer with status 400 and the error's code and text; only
edits change anything, and they exist only where the server is writable. Who may ask is `guard`'s
business, what is answered that of `page`, `sql_page` and `doors`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from deltafix.errors import DeltafixError
from deltafix.web.body import cut_off
from deltafix.web.doors import door_routes
from deltafix.web.guard import Guard
from deltafix.web.page import Page, RulePage
from deltafix.web.sources import RuleSource

if TYPE_CHECKING:
    from deltafix.web.feed import Feed


def make_app(
    feed: Feed,
    *,
    token: str,
    port: int,
    writable: bool,
    title: str,
    origins: Collection[str] = (),
) -> Guard:
    """The guarded application over what a feed is of."""
    source = feed.source
    page: Page
    if isinstance(source, RuleSource):
        page = RulePage(source, feed, writable, title)
    else:
        from deltafix.web.sql_page import SqlPage  # noqa: PLC0415  an extra

        page = SqlPage(source, feed, writable, title)
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
        *door_routes(feed, writable=writable),
    ]
    if writable:
        routes.append(Route("/api/edit", page.edit, methods=["POST"]))
    app = Starlette(
        routes=routes, exception_handlers={DeltafixError: _refused, ClientDisconnect: cut_off}
    )
    return Guard(app, token, port, origins)


def _refused(_: Request, error: Exception) -> Response:
    code = error.code if isinstance(error, DeltafixError) else ""
    return JSONResponse({"error": str(error), "code": code}, 400)
