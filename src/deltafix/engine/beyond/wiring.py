"""From a stratum's clauses to variants on the relations that start them.

Every literal that can change gives its clause two variants, one that makes derivations and one
that breaks them. Which of them runs when a row comes and which when it goes depends on whether
the literal is negated. Invariant: every derivation of every clause is found by exactly one
variant, at the last of its changes; clauses without a positive literal are found by `constants`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from deltafix.engine.beyond.blocked import UndominatedRows
from deltafix.engine.beyond.checks import Meaning
from deltafix.engine.beyond.facts import Table
from deltafix.engine.beyond.falling import FallingRows, refuted_by
from deltafix.engine.beyond.join import Finish, Frame, Next, Start, compile_variants
from deltafix.engine.beyond.rows import Rows
from deltafix.facts.schema import Row
from deltafix.plan.clause import Absent, Clause, Code, Dominance, Literal, Match, Slot
from deltafix.plan.derive import changes_with, pivots


class Lower(Table):
    """A relation of a lower stratum, and the variants that its changes start."""

    __slots__ = ("comes", "goes")

    def __init__(self) -> None:
        super().__init__()
        self.comes: list[Start] = []
        self.goes: list[Start] = []

    def insert(self, row: Row) -> None:
        """A row comes: variants run with it in place."""
        self.add(row)
        for start in self.comes:
            start(row, 0)

    def delete(self, row: Row) -> None:
        """A row goes: variants run with it still in place."""
        for start in self.goes:
            start(row, 0)
        self.discard(row)


class Wiring:
    """The relations of a stratum and of those below, connected by the clauses' variants."""

    def __init__(
        self, relations: dict[str, Rows], lower: dict[str, Lower], meaning: Meaning
    ) -> None:
        self.relations = relations
        self.lower = lower
        self.meaning = meaning
        self.sources: dict[str, Table | Rows] = {**lower, **relations}
        self.constants: list[Start] = []

    def clause(self, clause: Clause) -> None:
        """Connect a clause to everything that its body reads."""
        head = self.relations[clause.head]
        for position, literal in pivots(clause.body):
            makes, breaks = self._pair(clause, head, position)
            self._connect(literal, makes, breaks)
        if not any(isinstance(literal, Match) for literal in clause.body):
            self.constants.append(self._pair(clause, head, None)[0])

    def sink(
        self, clause: Clause, makes: Callable[[Row, int], None], breaks: Callable[[Row, int], None]
    ) -> None:
        """Connect a clause over lower relations whose head is no relation."""
        for position, literal in pivots(clause.body):
            self._connect(literal, *self.rising(clause, position, makes, breaks))
        if not any(isinstance(literal, Match) for literal in clause.body):
            self.constants += self.rising(clause, None, makes)

    def order(self, rows: UndominatedRows, dominance: Dominance) -> None:
        """Connect a dominance clause: from a row to those above and those below it."""
        less, more = (Match(rows.name, args) for args in (dominance.less, dominance.more))
        body = (less, more, *dominance.body)
        for trigger, wanted, variants in ((0, more, rows.above), (1, less, rows.below)):
            finish = _emit(wanted, rows.collect)
            # The changed row may be live or not: neither atom is left without it.
            variants.extend(compile_variants(body, trigger, self.sources, self.meaning, [finish]))

    def _pair(self, clause: Clause, head: Rows, trigger: int | None) -> list[Start]:
        """The variants that make and break derivations (open and close instances)."""
        if isinstance(head, FallingRows):
            return self.falling(clause, trigger, head.opened, head.closed)
        return self.rising(clause, trigger, head.gain, head.lose)

    def rising(
        self, clause: Clause, trigger: int | None, *sinks: Callable[[Row, int], None]
    ) -> list[Start]:
        """The variants that hand heads and body ranks to each of `sinks`."""
        finishes = [_emit(clause, sink) for sink in sinks]
        return compile_variants(clause.body, trigger, self.sources, self.meaning, finishes)

    def falling(
        self, clause: Clause, trigger: int | None, *sinks: Callable[[Row, int | None], None]
    ) -> list[Start]:
        """The variants that hand heads of instances and their lowest refuting ranks to `sinks`."""
        ends = [refuted_by(clause, trigger, self.relations, sink) for sink in sinks]
        finishes = [finish for finish, _ in ends]
        left_out = ends[0][1]
        return compile_variants(
            clause.body, trigger, self.sources, self.meaning, finishes, left_out=left_out
        )

    def _connect(self, literal: Match | Absent, makes: Start, breaks: Start) -> None:
        negated = changes_with(literal) < 0
        table = self.lower.get(literal.relation)
        if table is not None:
            table.comes.append(breaks if negated else makes)
            table.goes.append(makes if negated else breaks)
            return
        rows = self.relations[literal.relation]
        # A negated row refutes instances; an absence of a falling row is itself the fact.
        refutes = negated and not isinstance(rows, FallingRows)
        rows.ups.append(breaks if refutes else makes)
        rows.downs.append(makes if refutes else breaks)


def derivations(wiring: Wiring, clause: Clause) -> list[tuple[Row, int]]:
    """All derivations of a clause on the present state, with body ranks; for checking.

    For a falling head, its instances: each with the lowest rank that refutes it, or -1.
    """
    derived: list[tuple[Row, int]] = []
    with _unchanged(wiring):
        if isinstance(wiring.relations.get(clause.head), FallingRows):
            (start,) = wiring.falling(
                clause,
                None,
                lambda row, lowest: derived.append((row, -1 if lowest is None else lowest)),
            )
        else:
            (start,) = wiring.rising(clause, None, lambda row, rank: derived.append((row, rank)))
        start((), 0)
    return derived


def premises(wiring: Wiring, clause: Clause) -> list[tuple[Row, int, tuple[tuple[str, Row], ...]]]:
    """All derivations of a clause on the present state: heads, body ranks, rows of the stratum."""
    body: list[Literal] = []
    own: list[tuple[str, tuple[Slot | Code, ...]]] = []
    for index, literal in enumerate(clause.body):
        if isinstance(literal, Match) and literal.relation in wiring.relations:
            args = tuple(arg or Slot(f"{index}.{n}") for n, arg in enumerate(literal.args))
            own.append((literal.relation, args))
            body.append(Match(literal.relation, args))
        else:
            body.append(literal)
    derived: list[tuple[Row, int, tuple[tuple[str, Row], ...]]] = []

    def finish(frame: Frame) -> Next:
        make, parts = frame.maker(clause.args), [(name, frame.maker(args)) for name, args in own]
        cells = frame.cells
        return lambda rank: derived.append(
            (make(cells), rank, tuple((name, part(cells)) for name, part in parts))
        )

    with _unchanged(wiring):
        (start,) = compile_variants(body, None, wiring.sources, wiring.meaning, [finish])
        start((), 0)
    return derived


@contextmanager
def _unchanged(wiring: Wiring) -> Iterator[None]:
    """Take back the indexes that are made inside, which nothing else asks for."""
    kept = [(source, set(_indexes(source))) for source in wiring.sources.values()]
    yield
    for source, before in kept:
        for columns in set(_indexes(source)) - before:
            del _indexes(source)[columns]


def _indexes(source: Table | Rows) -> dict[tuple[int, ...], Any]:
    return source.indexes if isinstance(source, Table) else source.facts.indexes


def _emit(head: Clause | Match, sink: Callable[[Row, int], None]) -> Finish:
    args = [arg for arg in head.args if arg is not None]

    def finish(frame: Frame) -> Next:
        make = frame.maker(args)
        cells = frame.cells
        return lambda rank: sink(make(cells), rank)

    return finish
