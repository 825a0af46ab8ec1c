"""Requests into a pipeline: lines of JSON by POST, each request one epoch.

    GET  /inputs                      the inputs that take requests, and the epoch
    POST /inputs/NAME[?changes=A,B]   lines of JSON; `Idempotency-Key` names the request

Invariant: the answer comes after the commit. A request that was cut off, refused or turned away
changes nothing, and one that comes again under its key is answered by the epoch that has it. One
request at a time is taken, beside a bounded number that wait. Who may ask is `guard`'s business,
what a request is in the state `pipeline.sources.http`'s.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from deltafix import errors
from deltafix.facts.values import shown
from deltafix.pipeline.manifest import read_deltas
from deltafix.pipeline.sources.http import HttpInput
from deltafix.pipeline.targets.target import json_text
from deltafix.web.body import Refusal, cut_off, read_body

if TYPE_CHECKING:
    from collections.abc import Callable

    from deltafix.pipeline.epoch import Epoch
    from deltafix.pipeline.runner import Pipeline

_WAITING: Final = 64
"""So many requests may wait for the one that is taken; more are turned away."""

_SHOWN: Final = 10_000
"""Rows of each side of a view that an answer has; the counts are whole."""

_KEY: Final = re.compile(r"[\x21-\x7e]{1,200}")

_STATUS: Final = (
    (errors.UnknownRelationError, 404),
    (errors.RepeatedRequestError, 422),
    (errors.KeyBreachError, 409),
    (errors.BadRowError, 400),
    (errors.DriftError, 400),
    (errors.LiveError, 400),
    ((errors.SinkError, errors.StateError), 503),
    (errors.PipelineError, 400),
)


class Inlet:
    """The application over an open pipeline.

    Args:
        pipeline: one whose rows this process keeps.
        on_epoch: hears each epoch.

    Attributes:
        lock: whoever holds it has the pipeline to itself.
    """

    def __init__(self, pipeline: Pipeline, on_epoch: Callable[[Epoch], object]) -> None:
        self._pipeline = pipeline
        self._on_epoch = on_epoch
        self._inputs = {
            source.name: source for source in pipeline.sources if isinstance(source, HttpInput)
        }
        self._outputs = {output.relation: output for output in pipeline.config.outputs}
        self.lock = threading.Lock()
        self._waiting = 0
        routes = [
            Route("/inputs", self._list),
            Route("/inputs/{name}", self._post, methods=["POST"]),
        ]
        self.app = Starlette(
            routes=routes,
            exception_handlers={errors.DeltafixError: _refused, ClientDisconnect: cut_off},
        )

    def look(self, on_stop: Callable[[errors.PipelineError], object]) -> None:
        """Take what the other inputs have to say, an epoch at a time; `on_stop` hears of failures.

        Raises what fails an epoch.
        """
        self._pipeline.stopped.clear()
        while True:
            with self.lock:
                epoch = self._pipeline.step()
            if epoch is None:
                break
            self._on_epoch(epoch)
        for error in self._pipeline.stopped.values():
            on_stop(error)

    # --- inside --------------------------------------------------------------------------------

    def _list(self, _: Request) -> Response:
        with self.lock:
            epoch = self._pipeline.maintainer.epoch
        inputs = [
            {
                "name": name, "relation": source.schema.show(), "bytes": source.values["bytes"],
                "columns": list(source.values["columns"] or source.schema.names),
                "envelope": source.values["envelope"], "sign": source.values["sign"],
            }
            for name, source in self._inputs.items()
        ]  # fmt: skip
        return JSONResponse({"epoch": epoch, "inputs": inputs})

    async def _post(self, request: Request) -> Response:
        source = self._source(request.path_params["name"])
        key, views = self._key(request), self._views(request)
        limit = int(source.values["bytes"])
        way_out = f"send several, or say bytes = N in the section of {source.name}"
        body = await read_body(request, limit, way_out)
        if isinstance(body, Refusal):
            return _refused(request, *body)
        if self._waiting >= _WAITING:
            message = f"{_WAITING} requests wait already; come again"
            return _refused(request, errors.LiveError(message), 503)
        self._waiting += 1
        try:
            return await run_in_threadpool(self._take, source, key, body, views)
        finally:
            self._waiting -= 1

    def _take(self, source: HttpInput, key: str, body: bytes, views: list[str]) -> Response:
        maintainer = self._pipeline.maintainer
        with self.lock:
            state = maintainer.db
            before = source.find(state, key, body) if key else None
            answer: dict[str, Any]
            if before is not None:
                answer = {"epoch": before, "replayed": True}
            else:
                portion = source.take(state, maintainer.epoch + 1, key, body)
                answer = {"epoch": maintainer.epoch, "replayed": False, "read": 0}
                if portion:
                    epoch = maintainer.commit([portion])
                    self._on_epoch(epoch)
                    new, old = epoch.given
                    answer |= {
                        "epoch": epoch.epoch, "read": epoch.read[source.name],
                        "bad": epoch.bad.get(source.name, 0), "given": new, "taken": old,
                    }  # fmt: skip
            if views:
                answer["changes"] = {name: self._changes(name, answer["epoch"]) for name in views}
        return Response(json_text(answer), media_type="application/json")

    def _changes(self, name: str, epoch: int) -> dict[str, Any] | None:
        """What an epoch changed in a view, by its log; None if that has let go of it."""
        try:
            table = read_deltas(self._outputs[name].path, epoch, epoch)
        except errors.SourceError:
            return None
        sides: tuple[list[Any], list[Any]] = ([], [])
        counts = [0, 0]
        names = [] if table is None else table.column_names[:-2]
        for values in [] if table is None else table.to_pylist():
            *row, sign, _ = values.values()
            side = int(sign < 0)
            counts[side] += abs(sign)
            room = max(0, _SHOWN - len(sides[side]))
            sides[side].extend([dict(zip(names, row, strict=True))] * min(abs(sign), room))
        return {"added": sides[0], "removed": sides[1], "counts": counts}

    def _source(self, name: str) -> HttpInput:
        source = self._inputs.get(name)
        if source is None:
            known = ", ".join(self._inputs) or "none"
            message = (
                f'no input {shown(name)} takes requests (source = "http"); those that do: {known}'
            )
            raise errors.UnknownRelationError(message, relation=name)
        return source

    def _views(self, request: Request) -> list[str]:
        """The views whose changes are asked for. Raises UnknownRelationError, LiveError."""
        names = request.query_params.get("changes")
        if names is None:
            return []
        views = [*self._outputs] if names == "*" else names.split(",")
        for name in views:
            if name not in self._outputs:
                known = ", ".join(self._outputs) or "none"
                message = f"{shown(name)} is no output of this pipeline; those are: {known}"
                raise errors.UnknownRelationError(message, relation=name)
        return views

    def _key(self, request: Request) -> str:
        key: str | None = request.headers.get("idempotency-key")
        if key is not None and _KEY.fullmatch(key) is None:
            message = "Idempotency-Key is 1 to 200 printable characters of ASCII, without spaces"
            raise errors.LiveError(message, value=key[:200])
        return key or ""


def _refused(_: Request, error: Exception, status: int | None = None) -> Response:
    assert isinstance(error, errors.DeltafixError)  # noqa: S101  what the handler is for
    if status is None:
        status = next((number for kind, number in _STATUS if isinstance(error, kind)), 500)
    answer: dict[str, Any] = {"error": str(error), "code": error.code}
    for name in ("line", "column", "drawn"):
        if name in error.values:
            answer[name] = error.values[name]
    headers = {"retry-after": "1"} if status == 503 else {}
    return JSONResponse(answer, status, headers)
