"""What the page hears while it is open: each epoch's changes, and the last epochs' work.

Invariant: an epoch is told once to every open page, in order, with at most `SHOWN` rows of each
relation's sides (the counts are whole). Deltas are turned into text in the committing thread.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from deltafix.facts.delta import Delta

if TYPE_CHECKING:
    from deltafix.events import EpochReport
    from deltafix.web.sources import Part, Source

__all__ = ["SHOWN", "Live", "report"]

SHOWN: Final = 100
_EPOCHS: Final = 50
_HEARTBEAT: Final = 15.0
"""Seconds without an epoch after which a comment is sent, so that a page that left is noticed."""


class Live:
    """The open pages and the last epochs of what is served."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pages: dict[asyncio.Queue[str | None], asyncio.AbstractEventLoop] = {}
        self.epochs: deque[dict[str, Any]] = deque([report(source.engine.last_epoch)], _EPOCHS)
        self.changed: dict[str, dict[str, Any]] = {}
        self.delta: Delta | None = None
        self._forget = source.watch(self._tell)

    def close(self) -> None:
        """End the streams of all pages."""
        self._forget()
        self._send(None)

    async def stream(self) -> AsyncIterator[str]:
        """Server-sent events for one page: `epoch`, each with its changes and its work."""
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._pages[queue] = asyncio.get_running_loop()
        try:
            yield "event: live\ndata: \n\n"  # from here on nothing is missed
            while True:
                try:
                    message = await asyncio.wait_for(queue.get(), _HEARTBEAT)
                except TimeoutError:
                    message = ": still here\n\n"
                if message is None:
                    return
                yield message
        finally:
            del self._pages[queue]

    def _tell(self, epoch: int, changes: Mapping[str, Part]) -> None:
        work = report(self._source.engine.last_epoch)
        self.epochs.append(work)
        self.delta = changes if isinstance(changes, Delta) else None
        self.changed = {name: self._sides(name, changes[name]) for name in changes}
        data = {"epoch": epoch, "changes": self.changed, "work": work}
        self._send(f"event: epoch\ndata: {json.dumps(data)}\n\n")

    def _sides(self, name: str, part: Part) -> dict[str, Any]:
        added, removed, fact = part.added, part.removed, self._source.fact
        return {
            "added": [fact(name, row) for row in added[:SHOWN]],
            "removed": [fact(name, row) for row in removed[:SHOWN]],
            "counts": [len(added), len(removed)],
        }

    def _send(self, message: str | None) -> None:
        for queue, loop in tuple(self._pages.items()):
            if not loop.is_closed():
                loop.call_soon_threadsafe(queue.put_nowait, message)


def report(epoch: EpochReport) -> dict[str, Any]:
    """An epoch's work for JSON; rules by number, as text keys."""
    found: dict[str, Any] = {"touched": epoch.touched}
    for field in fields(epoch):
        value = getattr(epoch, field.name)
        is_map = isinstance(value, Mapping)
        found[field.name] = {str(key): n for key, n in value.items()} if is_map else value
    return found
