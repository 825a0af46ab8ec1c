"""Watching a database: a call, or an item of an asynchronous loop, for each epoch that changes it.

Life of a `Watch`: made by `Database.watch`, told after each commit, closed. Invariants: a watcher
is told of the epochs from its beginning on, in their order, each once, after the commit; a
relation's watcher hears of epochs that changed the relation. What a callback raises comes to the
committer as SubscriberError, when the epoch stands and the others were told; an interrupt passes
when all were told, and a call that it ended is not made again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from deltafix.closing import Closing
from deltafix.errors import SubscriberError, TransactionError
from deltafix.facts.delta import Delta

if TYPE_CHECKING:
    import asyncio

    from deltafix.engine.relation import RelationView
    from deltafix.engine.transaction import Transaction

C = TypeVar("C")
"""What is told: a Delta, or a relation's RelationDelta."""


class Watch(Closing, Generic[C]):
    """One watcher. A context manager, and an asynchronous iterator while the database is open.

    Attributes:
        relation: the relation watched; None for all of them.
    """

    def __init__(
        self,
        watchers: Watchers,
        view: RelationView[Any] | None,
        callback: Callable[[C], object] | None,
        heard: int,
    ) -> None:
        self.relation = None if view is None else view.name
        self._view = view
        self._watchers = watchers
        self._callback = callback
        self._heard = heard  # the epoch up to which it was told
        self._queue: deque[C | None] = deque()
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def close(self) -> None:
        """Hear no more; an asynchronous loop over it ends. Idempotent."""
        self._watchers.forget(self)
        self._queue.append(None)
        self._wake()

    def __repr__(self) -> str:
        return f"<Watch of {self.relation or 'all relations'}>"

    async def __aiter__(self) -> AsyncIterator[C]:
        """The deltas since the watch began, then each new one; of a database of any thread."""
        if self._callback is not None:
            raise TransactionError("this watch has a callback; watch again to iterate")
        import asyncio  # noqa: PLC0415  30 modules that few need

        event = asyncio.Event()
        self._waiting = (asyncio.get_running_loop(), event)
        while True:
            while self._queue:
                delta = self._queue.popleft()
                if delta is None:
                    return
                yield delta
            event.clear()
            if not self._queue:  # nothing came between the last look and the clearing
                await event.wait()

    def tell(self, delta: Delta) -> None:
        """Pass an epoch's changes on, if they are of interest and were not passed on before."""
        if self.relation is not None and self.relation not in delta:
            return
        assert delta.epoch is not None  # noqa: S101  a transaction made it
        if delta.epoch > self._heard:
            self._pass(delta if self._view is None else self._view.delta(delta), delta.epoch)
        self._wake()

    def _pass(self, change: Any, epoch: int) -> None:
        self._heard = epoch  # no interrupt comes between this line and the next
        (self._queue.append if self._callback is None else self._callback)(change)

    def _wake(self) -> None:
        if self._waiting is not None:
            loop, event = self._waiting
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(event.set)


class Watchers:
    """The watchers of one database (`all`), and the epochs they are still to be told of."""

    def __init__(self) -> None:
        self.all: list[Watch[Any]] = []
        self._pending: deque[Delta] = deque()
        self._telling = False

    def add(self, watch: Watch[Any]) -> None:
        """Begin to tell a watcher."""
        self.all.append(watch)

    def forget(self, watch: Watch[Any]) -> None:
        """Stop telling a watcher."""
        if watch in self.all:
            self.all.remove(watch)

    def close(self) -> None:
        """End every watch."""
        for watch in tuple(self.all):
            watch.close()

    def committed(self, transaction: Transaction) -> None:
        """Tell everyone of a committed epoch. The caller holds the writer's lock.

        A callback may commit: that epoch's turn comes when this one has been told to all. Doing
        this twice, since an interrupt has come, is doing it once.
        """
        delta = transaction.delta
        if not delta:
            return
        if all(pending is not delta for pending in self._pending):
            self._pending.append(delta)
        if self._telling:
            return
        failures: list[tuple[Watch[Any], Exception]] = []
        try:
            self._telling = True
            while self._pending:
                for watch in tuple(self.all):
                    try:
                        watch.tell(self._pending[0])
                    except Exception as error:  # others must hear of the epoch all the same
                        failures.append((watch, error))
                self._pending.popleft()
        finally:
            self._telling = False
        if failures:
            first, reason = failures[0]
            of = "the database" if first.relation is None else first.relation
            raise SubscriberError(of, reason, f"epoch {delta.epoch}") from reason
