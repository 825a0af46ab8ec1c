"""The live door: relations, rows by pages, changes as they come, edits as lines.

For applications, and the page's own stream of what changed in all relations.

Invariant: what is asked wrongly changes nothing, and is an answer with the error's code, text and
line; edits of one request are one transaction. `guard` says who may ask, `feed` what is kept.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from deltafix.errors import (
    DeltafixError,
    GoneError,
    LiveError,
    ProgramError,
    UnknownRelationError,
)
from deltafix.facts.json_rows import json_object, json_whole
from deltafix.facts.values import shown
from deltafix.web.body import Refusal, read_body
from deltafix.web.feed import Feed, Where

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Send

_PAGE: Final = 1000
_MOST: Final = 10_000
"""Rows of a page: unless asked otherwise, and at most."""

_VERBS: Final = ("insert", "update", "delete")
_LINE: Final = " or ".join(f'{{"{verb}": "table", "row": {{...}}}}' for verb in _VERBS)


def door_routes(feed: Feed, *, writable: bool) -> list[Route]:
    """The routes of the door over a feed."""
    door = _Door(feed, writable)
    return [
        Route("/api/events", door.changes),
        Route("/live/relations", door.relations),
        Route("/live/rows/{name}", door.rows),
        Route("/live/changes/{name}", door.changes),
        Route("/live/edits", door.edits, methods=["POST"]),
    ]


class _Door:
    """The handlers; those that read are plain functions, which starlette runs in threads."""

    def __init__(self, feed: Feed, writable: bool) -> None:
        self.source = feed.source
        self.feed = feed
        self.writable = writable

    def relations(self, request: Request) -> Response:
        try:
            _require_known(request)
        except LiveError as error:
            return _refused(error)
        with self.source.lock:
            relations = [relation.to_dict() for relation in self.source.relations().values()]
            return JSONResponse(
                {"epoch": self.source.epoch, "writable": self.writable, "relations": relations}
            )

    def rows(self, request: Request) -> Response:
        """A page of rows, all pages as of one epoch: `after` is the `next` of the page before."""
        name, query = request.path_params["name"], request.query_params
        try:
            _require_known(request, "limit", "after", "where")
            limit, after = query.get("limit", str(_PAGE)), query.get("after")
            if not (_is_number(limit) and int(limit)):
                message = f"limit is {shown(limit)}, and a page has 1 row to {_MOST:,}"
                raise LiveError(message, value=limit)
            epoch, offset = None, 0
            if after is not None:
                event_id, _, rest = after.partition("-")
                if not (_is_number(event_id.rpartition(".")[2]) and _is_number(rest)):
                    message = f"after is {shown(after)}, and takes `next` of the page before"
                    raise LiveError(message, value=after)
                epoch, offset = self.feed.start(name, event_id), int(rest)
            snapshot = self.feed.snapshot(name, epoch, self._where(request))
        except DeltafixError as error:
            return _refused(error)
        end = offset + min(int(limit), _MOST)
        event_id = self.feed.event_id(snapshot.epoch)
        following = f"{event_id}-{end}" if end < len(snapshot.rows) else None
        head = {
            "epoch": snapshot.epoch,
            "id": event_id,
            "size": len(snapshot.rows),
            "next": following,
        }
        text = f'{json.dumps(head)[:-1]}, "rows": [{",".join(snapshot.rows[offset:end])}]}}'
        return Response(text, media_type="application/json")

    async def changes(self, request: Request) -> Response:
        """Server-sent events of one relation, or of all where the path names none.

        They go on after the event of `Last-Event-ID`, or from now.
        """
        name = request.path_params.get("name")
        event_id = request.headers.get("last-event-id") or request.query_params.get("after")
        try:
            _require_known(request, "after", *(() if name is None else ("where",)))
            where = await run_in_threadpool(self._where, request)
            await run_in_threadpool(self.feed.start, name, event_id)
        except GoneError:
            pass  # told as an event: a browser's EventSource does not read bodies of errors
        except DeltafixError as error:
            return _refused(error)
        if self.feed.is_full:
            limit = self.feed.limits.streams
            message = f"{limit} readers follow already; close one, or come again later"
            return _refused(LiveError(message, streams=limit), 503)
        return _Stream(self.feed.follow(name, event_id, where), self.feed.limits.stall)

    def _where(self, request: Request) -> Where | None:
        """The values that rows are to have. Raises LiveError, FactError, UnknownRelationError."""
        text = request.query_params.get("where")
        if text is None:
            return None
        try:
            given = _json_of(text)
        except (ValueError, RecursionError) as error:
            message = (
                f'where is {shown(text)}, which is not JSON: {error}; it is {{"column": value}}'
            )
            raise LiveError(message, value=text) from None
        if not isinstance(given, dict):
            message = f'where is {shown(text)}; it is {{"column": value}}, of any columns'
            raise LiveError(message, value=text)
        with self.source.lock:
            return self.source.wanted(request.path_params["name"], given)

    async def edits(self, request: Request) -> Response:
        """Lines of JSON, an edit each, as one transaction."""
        if not self.writable:
            message = "this server is read only; start it with --write to take edits"
            return _refused(LiveError(message), 403)
        body = await read_body(request, self.feed.limits.body, "send several")
        if isinstance(body, Refusal):
            return _refused(*body)
        return await run_in_threadpool(self._edit, body)

    def _edit(self, body: bytes) -> Response:
        counts = dict.fromkeys(_VERBS, 0)
        line = 0
        try:
            with self.source.lock:
                with self.source.editing() as tx:
                    for number, text in enumerate(body.split(b"\n"), 1):
                        if not text.strip():
                            continue
                        line = number
                        verb, name, row = _edit_of(text)
                        acts = {"insert": tx.insert, "update": tx.update, "delete": tx.delete}
                        counts[verb] += acts[verb](name, row)
                    line = 0  # what a commit refuses is of no line
                epoch = self.source.epoch
        except DeltafixError as error:
            return _refused(error, line=line)
        done = {f"{verb.removesuffix('e')}ed": count for verb, count in counts.items()}
        return JSONResponse({"epoch": epoch, **done})


def _edit_of(text: bytes) -> tuple[str, str, Any]:
    """The verb, the relation and the row of a line. Raises LiveError."""
    try:
        edit = _json_of(text)
    except (ValueError, RecursionError) as error:
        raise LiveError(f"this is not JSON: {error}; a line is {_LINE}") from None
    if isinstance(edit, dict):
        for verb in _VERBS:
            name = edit.get(verb)
            if edit.keys() == {verb, "row"} and isinstance(name, str):
                return verb, name, edit["row"]
    raise LiveError(f"{shown(edit)} is no edit; a line is {_LINE}", value=edit)


def _json_of(text: bytes | str) -> Any:
    """What a JSON text says. Raises ValueError, RecursionError."""
    return json.loads(
        text, parse_int=json_whole, parse_constant=_no_constant, object_pairs_hook=json_object
    )


def _require_known(request: Request, *names: str) -> None:
    """Raise LiveError for a parameter that would do nothing, or is there twice."""
    for name in request.query_params:
        if name not in names:
            takes = ", ".join(names) or "none"
            message = f"there is no parameter {shown(name)} here; it takes {takes}"
            raise LiveError(message, value=name)
        if len(request.query_params.getlist(name)) > 1:
            raise LiveError(f"the parameter {name} is there twice; give one", value=name)


def _no_constant(name: str) -> None:
    raise ValueError(f'{name} is no JSON value; write "{name}"')


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


def _refused(error: DeltafixError, status: int | None = None, *, line: int = 0) -> Response:
    if status is None:
        kinds = {GoneError: 410, UnknownRelationError: 404}
        status = (
            400 if line else next((n for kind, n in kinds.items() if isinstance(error, kind)), 400)
        )
    text = str(error)
    if isinstance(error, ProgramError) and error.diagnostics:
        diagnostic = error.diagnostics[0]  # without the text of a statement that nobody wrote
        text = (
            diagnostic.message
            if not diagnostic.help
            else f"{diagnostic.message}; {diagnostic.help}"
        )
    answer: dict[str, Any] = {"error": f"line {line}: {text}" if line else text, "code": error.code}
    if line:
        answer["line"] = line
    return JSONResponse(answer, status)


class _Stream(StreamingResponse):
    """Events for one reader, who is dropped if it takes nothing for so many seconds."""

    media_type = "text/event-stream"

    def __init__(self, events: Any, stall: float) -> None:
        super().__init__(events)
        self._stall = stall

    async def stream_response(self, send: Send) -> None:
        """Send what there is, each event in time; without it the server closes the connection."""

        async def in_time(message: Any) -> None:
            async with asyncio.timeout(self._stall):
                await send(message)

        with suppress(TimeoutError):
            await super().stream_response(in_time)
