"""Drive a stratum through edits and hold it against the judge after each."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.judges.beyond_oracle import Facts, Judge, layer

from deltafix.engine.beyond import Stratum
from deltafix.engine.beyond.checks import intrinsic
from deltafix.engine.beyond.facts import Change
from deltafix.plan.clause import Choice, Merge


class Driver:
    """A stratum, its inputs as sets, and the judge of both."""

    def __init__(
        self,
        text: str,
        merges: dict[str, Merge] | None = None,
        functors: dict[str, Callable] | None = None,
    ) -> None:
        self.text = text
        self.layer, relations = layer(text, merges)
        own = functors or {}

        def meaning(name: str, types: tuple, result: str) -> Callable:
            return own[name] if name in own else intrinsic(name, types, result)

        self.stratum = Stratum(self.layer, relations, meaning)
        self.judge = Judge(self.layer, functors)
        self.below: Facts = {name: set() for name in self.stratum.reads}
        self.given: Facts = {name: set() for name in self.stratum.writes}
        self.seen: Facts = {name: set() for name in self.stratum.writes}
        self.width = {relation.name: len(relation.types) for relation in relations}

    def edit(self, *edits: tuple[str, str, tuple]) -> dict[str, Change]:
        """Apply signed rows, `("+", relation, row)`, in one run; no check."""
        net: dict[str, Change] = {}
        for sign, name, row in edits:
            rows = self.below[name] if name in self.below else self.given[name]
            change = net.setdefault(name, Change([], []))
            if (row in rows) == (sign == "+"):
                continue
            (rows.add if sign == "+" else rows.discard)(row)
            other, mine = (change.removed, change.added)[:: 1 if sign == "+" else -1]
            if row in other:
                other.remove(row)
            else:
                mine.append(row)
        below = {name: change for name, change in net.items() if name in self.below}
        given = {name: change for name, change in net.items() if name in self.given}
        changes = self.stratum.run(below, given)
        for name, change in changes.items():
            assert set(change.added).isdisjoint(self.seen[name])
            assert set(change.removed) <= self.seen[name]
            self.seen[name] = self.seen[name] - set(change.removed) | set(change.added)
        return changes

    def step(self, *edits: tuple[str, str, tuple]) -> dict[str, Change]:
        """Edit, keep, and compare with the judge."""
        before = {name: set(rows) for name, rows in self.seen.items()}
        changes = self.edit(*edits)
        self.stratum.keep()
        self.stratum.check_invariants()
        self.compare(before)
        return changes

    def state(self) -> tuple[Facts, ...]:
        """Inputs and outputs, as copies."""
        kept = (self.below, self.given, self.seen)
        return tuple({name: set(rows) for name, rows in facts.items()} for facts in kept)

    def put_back(self, state: tuple[Facts, ...]) -> None:
        """Let inputs and outputs be as they were; the stratum was undone."""
        self.below, self.given, self.seen = state

    def compare(self, before: Facts | None = None) -> None:
        """The stratum's rows against the judge's, and against the deltas so far."""
        for name in self.stratum.writes:
            assert set(self.stratum.rows(name)) == self.seen[name]
        choices = [name for name, merge in self.layer.merges if isinstance(merge, Choice)]
        for name in choices:
            wrong = self.judge.is_choice(name, self.seen, self.below, self.given)
            assert wrong is None, (self.text, self.below, self.given, wrong)
            if before is not None:
                self.stays(name, before)
        if not choices:
            expected = self.judge.evaluate(self.below, self.given)
            assert self.seen == expected, (self.text, self.below, self.given)

    def stays(self, name: str, before: Facts) -> None:
        """Every former choice that still follows from former choices is still chosen."""
        grown: Facts = {relation: set() for relation in before}
        while True:
            step = self.judge.derive({**self.below, **grown}, self.given)
            after = {r: rows & before[r] if r == name else rows for r, rows in step.items()}
            if after == grown:
                break
            grown = after
        assert grown[name] <= self.seen[name], (self.text, before, self.below)

    def random_edits(
        self, rng: Random, count: int, values: int, names: list[str], weights: range | None = None
    ) -> list[tuple[str, str, tuple]]:
        """Signed rows, about as many out as in; the last column from `weights`, if any."""
        found = []
        for _ in range(count):
            name = rng.choice(names)
            rows = sorted(self.below[name] if name in self.below else self.given[name])
            if rows and rng.random() < 0.5:
                found.append(("-", name, rng.choice(rows)))
                continue
            row = tuple(rng.randrange(values) for _ in range(self.width[name]))
            if weights is not None and len(row) > 1:
                row = (*row[:-1], rng.choice(weights))
            found.append(("+", name, row))
        return found
