"""Ready queue, delay queue and budget: which event is next, and when it is too much.

Events are `consume_answer`, `mark`, `rederive` and `may_rederive`, as in the paper's section 3.
Lowest component first; inside it `mark` and `consume_answer` by ascending ordinal (`mark` first
among equals), then `rederive`, then `may_rederive`. Invariant: an event is in one of three states,
ready, delayed or done; a delayed one waits for its answer or its consumer to be unmarked.
Fresh evaluation has nothing to mark: there, events go through a plain first-in-first-out queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from time import monotonic
from typing import TYPE_CHECKING, Final, cast

from deltafix.errors import BudgetError
from deltafix.tabling.table import LEVEL, Answer, Consumer, rank_of

if TYPE_CHECKING:
    from deltafix.tabling.callgraph import Component
    from deltafix.tabling.table import Premise
    from deltafix.tabling.trace import Trace

MARK, CONSUME, REDERIVE, MAY_REDERIVE = 0, 1, 2, 3
NAMES: Final = ("mark", "consume_answer", "rederive", "may_rederive")
READY, DELAYED, DONE = 0, 1, 2


class Event:
    """One operation on the forest. `key` orders it among the events of its component."""

    __slots__ = ("consumer", "key", "kind", "premise", "state")

    def __init__(
        self, kind: int, ordinal: int, number: int, premise: Premise, consumer: Consumer | None
    ) -> None:
        self.kind = kind
        self.key = (max(kind, CONSUME), ordinal, kind, number)
        self.premise = premise
        self.consumer = consumer
        self.state = READY

    @property
    def ordinal(self) -> int:
        """The paper's ordinal of the event."""
        return self.key[1]


@dataclass(slots=True)
class Budget:
    """Limits of one run; `None` is no limit.

    `max_answers` counts new answers and new calls: a runaway may make either without the other.
    """

    max_answers: int | None = None
    timeout: float | None = None
    deadline: float | None = None
    answers: int = 0
    steps: int = 0

    def start(self) -> None:
        """Begin to count."""
        self.answers = self.steps = 0
        self.deadline = None if self.timeout is None else monotonic() + self.timeout

    def entry(self) -> None:
        """Account for a new answer or call.

        Raises:
            BudgetError: it is one too many.
        """
        self.answers += 1
        if self.max_answers is not None and self.answers > self.max_answers:
            limit = f"max_answers={self.max_answers}"
            msg = f"more than {limit} answers and calls; the tables are as before"
            raise BudgetError(msg, max_answers=self.max_answers)

    def tick(self) -> None:
        """Look at the clock, one step in 64.

        Raises:
            BudgetError: the time is over.
        """
        self.steps += 1
        if self.deadline is not None and not self.steps & 63 and monotonic() > self.deadline:
            msg = f"longer than timeout={self.timeout} s; the tables are as before"
            raise BudgetError(msg, timeout=self.timeout)


class Agenda:
    """The open components by label, and the events due, by what they speak of."""

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, Component]] = []
        self.number = 0
        self.updating = False
        self.trace: Trace | None = None
        self.pending: dict[Answer | Consumer, list[Event]] = {}
        self.due: tuple[dict[Answer, Event], ...] = ({}, {}, {}, {})
        """Scheduled mark, rederive and may_rederive events by answer (index: the kind)."""

    # -- components -----------------------------------------------------------------------------

    def open(self, component: Component) -> None:
        """See to it that the component is run and swept."""
        if not component.open:
            component.open = True
            self.reopen(component)

    def reopen(self, component: Component) -> None:
        """The component's label changed while it was open."""
        self.number += 1
        heappush(self.heap, (component.label, self.number, component))

    def lowest(self) -> Component | None:
        """The open component with the lowest label."""
        while self.heap:
            label, _, component = self.heap[0]
            if component.open and component.label == label and component.members:
                return component
            heappop(self.heap)
        return None

    def forget(self) -> None:
        """Drop everything: after a run, or a failed one."""
        self.heap.clear()
        self.pending.clear()
        for due in self.due:
            due.clear()

    # -- consume_answer -------------------------------------------------------------------------

    def consume(self, premise: Premise, consumer: Consumer, *, existed: bool = False) -> None:
        """Schedule `consume_answer(premise, consumer)`, delayed if either is marked.

        `existed` says that the answer was there before this update (it may yet be marked).
        """
        component = consumer.generator.component
        if not component.open:
            self.open(component)
        if not self.updating:
            component.fifo.append((premise, consumer))
            return
        ordinal = rank_of(consumer) // LEVEL
        answer = premise if type(premise) is Answer else None
        local = answer is not None and answer.generator.component is component
        if local and existed and answer is not None:
            ordinal = max(ordinal, answer.rank // LEVEL)
        self.number += 1
        event = Event(CONSUME, ordinal, self.number, premise, consumer)
        self._await(event)
        if consumer.marks or (local and answer is not None and answer.marked):
            event.state = DELAYED
        else:
            heappush(component.heap, (event.key, event))
        if self.trace is not None:
            self.trace.scheduled(event, component)

    def _await(self, event: Event) -> None:
        """Note an event under both that it speaks of: they may come to be of one component."""
        for subject in (event.consumer, event.premise):
            if isinstance(subject, Answer | Consumer):
                self.pending.setdefault(subject, []).append(event)

    def delay(self, subject: Answer | Consumer) -> None:
        """Move the ready `consume_answer` events of an answer or consumer to the delay queue.

        Those of an answer stay that a consumer of another component is to consume: that waits for
        the whole component of the answer.
        """
        home = subject.generator.component
        for event in self.pending.get(subject, ()):
            consumer = cast("Consumer", event.consumer)
            if event.state == READY and consumer.generator.component is home:
                event.state = DELAYED  # its heap entry is skipped when met
                if self.trace is not None:
                    self.trace.moved(event, "delay")

    def wake(self, subject: Answer | Consumer) -> None:
        """Move delayed events back to the ready queue, as far as nothing else is marked."""
        for event in self.pending.get(subject, ()):
            if event.state != DELAYED or event.consumer is None:
                continue
            premise, consumer = event.premise, event.consumer
            if consumer.marks or consumer.dead:
                continue
            if type(premise) is Answer and (premise.marked or premise.dead):
                continue
            event.state = DONE
            self.number += 1
            again = Event(CONSUME, event.ordinal, self.number, premise, consumer)
            self._await(again)
            component = consumer.generator.component
            heappush(component.heap, (again.key, again))
            self.open(component)
            if self.trace is not None:
                self.trace.moved(event, "ready", again)

    # -- mark, rederive, may_rederive -----------------------------------------------------------

    def schedule(self, kind: int, answer: Answer) -> None:
        """Schedule an event about an answer, unless it is."""
        due = self.due[kind]
        if answer in due:
            return
        component = answer.generator.component
        self.number += 1
        event = Event(kind, answer.rank // LEVEL, self.number, answer, None)
        due[answer] = event
        heappush(component.heap, (event.key, event))
        self.open(component)
        if self.trace is not None:
            self.trace.scheduled(event, component)

    def cancel(self, kind: int, answer: Answer) -> None:
        """Take a scheduled event about an answer back."""
        event = self.due[kind].pop(answer, None)
        if event is not None:
            event.state = DONE
            if self.trace is not None:
                self.trace.moved(event, "cancel")

    def next_event(self, component: Component) -> Event | None:
        """The first ready event of a component."""
        heap = component.heap
        while heap:
            event = heappop(heap)[1]
            if event.state == READY:
                event.state = DONE
                if event.kind != CONSUME:
                    self.due[event.kind].pop(cast("Answer", event.premise), None)
                return event
        return None

    def waiting(self, component: Component) -> Iterator[Event]:
        """The ready events of a component, in order; for the trace and for tests."""
        yield from (e for _, e in sorted(component.heap) if e.state == READY)


def gather(keeper: Component, parts: list[Component]) -> None:
    """Move the events and marked answers of merged components to the one that stays."""
    for part in parts:
        if part is not keeper:
            keeper.heap.extend(part.heap)
            keeper.fifo.extend(part.fifo)
            keeper.marked.update(part.marked)
            keeper.fresh.update(part.fresh)
            part.heap, part.marked = [], {}
            part.fifo.clear()
            part.open = False
    heapify(keeper.heap)
