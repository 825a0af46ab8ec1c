"""What an update changed, as the user sees it: net, per kept goal.

Invariant: a `TablesDelta` holds only goals that changed; an answer that died and was born again in
one update is in it only if its truth changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deltafix.tabling.goals import visible
from deltafix.tabling.table import Answer, Counters, Forest, Generator
from deltafix.tabling.terms import Term
from deltafix.tabling.trace import answer_term, call_term
from deltafix.tabling.writer import show


@dataclass(frozen=True, slots=True)
class Change:
    """What an update did to one table: answers as terms, in no particular order.

    `revalued` holds answers that stayed and went from true to undefined or back.
    """

    added: tuple[Term, ...] = ()
    removed: tuple[Term, ...] = ()
    revalued: tuple[Term, ...] = ()


class TablesDelta(Mapping[str, Change]):
    """Net changes by kept goal (its text with variables A, B, …); only goals that changed."""

    __slots__ = ("_changes", "counters")

    def __init__(self, changes: dict[str, Change], counters: Counters) -> None:
        self._changes = changes
        self.counters = counters

    def __getitem__(self, goal: str) -> Change:
        return self._changes[goal]

    def __iter__(self) -> Iterator[str]:
        return iter(self._changes)

    def __len__(self) -> int:
        return len(self._changes)

    def __repr__(self) -> str:
        return "\n".join(self.lines()) or "<no change>"

    def lines(self) -> list[str]:
        """`+r(1, 2)` and `-r(1, 3)` per changed goal, sorted: for people and golden tests."""
        out = []
        for goal in sorted(self._changes):
            change = self._changes[goal]
            rows = [f"-{show(t)}" for t in change.removed]
            rows += [f"+{show(t)}" for t in change.added]
            rows += [f"~{show(t)}" for t in change.revalued]
            out += [f"{goal}: {row}" for row in sorted(rows)]
        return out


def contents(forest: Forest) -> dict[str, dict[Term, int]]:
    """The visible answers of every kept goal, with their truth."""
    return {
        show(call_term(g)): {answer_term(a): a.truth for a in g.answers.values() if visible(a)}
        for g in forest.generators
        if g.kept
    }


def compared(forest: Forest, before: dict[str, dict[Term, int]]) -> dict[str, Change]:
    """What changed since `before`, by comparing all answers: for `scratch`."""
    out = {}
    for goal, now in contents(forest).items():
        old = before.get(goal, {})
        change = Change(
            tuple(t for t in now if t not in old),
            tuple(t for t in old if t not in now),
            tuple(t for t, truth in now.items() if old.get(t, truth) != truth),
        )
        if change != Change():
            out[goal] = change
    return out


def net_changes(forest: Forest) -> dict[str, Change]:
    """Net changes of kept tables out of what was born, died and revalued."""
    touched: dict[Generator, dict[Term, list[int]]] = {}

    def note(answer: Answer, at: int, truth: int) -> None:
        generator = answer.generator
        if generator.kept:
            rows = touched.setdefault(generator, {})
            row = rows.setdefault(answer_term(answer), [0, 0])
            row[at] = truth

    for answer in forest.died:
        note(answer, 0, forest.revalued.get(answer, answer.truth))
    for answer, truth in forest.revalued.items():
        if answer not in forest.born and not answer.dead:
            note(answer, 0, truth)
            note(answer, 1, answer.truth)
    for answer in forest.born:
        note(answer, 1, answer.truth)
    out = {}
    for generator, rows in touched.items():
        change = Change(
            tuple(t for t, (old, new) in rows.items() if not old and new),
            tuple(t for t, (old, new) in rows.items() if old and not new),
            tuple(t for t, (old, new) in rows.items() if old and new and old != new),
        )
        if change != Change():
            out[show(call_term(generator))] = change
    return out
