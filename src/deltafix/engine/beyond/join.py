"""Clause variants as chains of closures: from one changed row to the heads it makes or breaks.

A variant belongs to a clause and a trigger, the literal whose row changes. Literals of the
trigger's relation that stand before it see the state without that row, those after it the state
with it, so every derivation is found exactly once (see `plan.derive`). Their order is that of
`plan.order`, fixed when rules are compiled; no statistics. Each step of the chain
binds variables in one shared list and calls the next; the highest rank among the body's facts
travels as the argument. Invariant: while a chain runs nothing may change tables or indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from deltafix.engine.beyond.checks import Meaning, check_step, same_value
from deltafix.engine.beyond.facts import Table
from deltafix.engine.beyond.rows import Rows
from deltafix.facts.schema import Row
from deltafix.plan.clause import Absent, Argument, Clause, Code, Literal
from deltafix.plan.depend import Layer
from deltafix.plan.ir import Sees, Variant, Way
from deltafix.plan.order import Indexes, variant

Sources: TypeAlias = Mapping[str, Table | Rows]
"""What each relation name stands for."""

Next: TypeAlias = Callable[[int], None]
"""The rest of a chain; takes the highest rank so far."""

Start: TypeAlias = Callable[[Row, int], None]
"""A variant: takes the changed row and its rank."""


class Frame:
    """The variables and constants of one variant, in one list; cell 0 is the changed row."""

    __slots__ = ("cells", "numbers")

    def __init__(self) -> None:
        self.cells: list[Any] = [()]
        self.numbers: dict[Argument, int] = {}

    def cell(self, arg: Argument) -> int:
        """The number of the cell that has an argument's value."""
        number = self.numbers.get(arg)
        if number is None:
            number = self.numbers[arg] = len(self.cells)
            self.cells.append(arg.value if isinstance(arg, Code) else None)
        return number

    def maker(self, args: Sequence[Argument]) -> Callable[[list[Any]], Row]:
        """A function from the cells to the row of these arguments."""
        numbers = [self.cell(arg) for arg in args]
        if len(numbers) > 1:
            return itemgetter(*numbers)
        if numbers:
            (only,) = numbers
            return lambda cells: (cells[only],)
        return lambda _: ()


Finish: TypeAlias = Callable[[Frame], Next]
"""Makes the end of a chain: what happens when the body holds."""


def compile_variants(
    body: Sequence[Literal],
    trigger: int | None,
    sources: Sources,
    meaning: Meaning,
    finishes: Sequence[Finish],
    *,
    left_out: frozenset[int] = frozenset(),
) -> list[Start]:
    """The chains of a body from its literal `trigger` (None: from nothing, for bodies of tests).

    There is one for each of `finishes`. `left_out` are positions that these deal with themselves.
    """
    kept = [n for n in range(len(body)) if n == trigger or n not in left_out]
    clause = Clause("", (), tuple(body[n] for n in kept), -1)
    start = None if trigger is None else kept.index(trigger)
    own = tuple(name for name, source in sources.items() if not isinstance(source, Table))
    planned = variant(Layer(own, (), recursive=True), clause, start, Indexes(), free=0)
    return [_chain(planned, sources, meaning, finish) for finish in finishes]


def _chain(planned: Variant, sources: Sources, meaning: Meaning, finish: Finish) -> Start:
    frame = Frame()
    chain = finish(frame)
    for node in reversed(planned.nodes):
        for step in node.candidates:  # one, or none behind all others
            name = step.way.match.relation
            side = _side(name, step.sees, planned.relation)
            chain = _probe(frame, step.way, sources[name], side, chain)
        for check in reversed(node.checks):
            if isinstance(check.literal, Absent):
                name = check.literal.relation
                side = _side(name, check.sees, planned.relation)
                chain = _absent(frame, check.literal, sources[name], side, chain)
            else:
                chain = check_step(frame, check, meaning, chain)
    if planned.trigger is None:
        return lambda _row, rank: chain(rank)
    return _start(frame, planned.binds, chain)


def _side(relation: str, sees: Sees, changed: str | None) -> int:
    """-1: the literal sees its relation without the trigger's row; 1: with it; 0: it is another."""
    if relation != changed:
        return 0
    return -1 if sees in (Sees.LOWER_BEFORE, Sees.SAME_BEFORE) else 1


def _start(frame: Frame, binds: Sequence[tuple[int, Argument, bool]], chain: Next) -> Start:
    cells = frame.cells
    new = [(column, frame.cell(arg)) for column, arg, is_new in binds if is_new]
    tests = [(column, frame.cell(arg)) for column, arg, is_new in binds if not is_new]

    def begin(row: Row, rank: int) -> None:
        cells[0] = row
        for column, cell in new:
            cells[cell] = row[column]
        for column, cell in tests:
            if not same_value(row[column], cells[cell]):
                return
        chain(rank)

    return begin


def _probe(frame: Frame, way: Way, source: Table | Rows, side: int, chain: Next) -> Next:
    """The step of an atom. `side`: -1 before the trigger in its relation, 1 after it, else 0."""
    cells = frame.cells
    if len(way.keys) == len(way.match.args):
        return _member(frame, way, source, side, chain)
    members: Callable[[], Any]
    table = source if isinstance(source, Table) else source.facts
    if way.keys:
        buckets = table.index(way.by).buckets
        key = itemgetter(*map(frame.cell, way.keys))

        def members() -> Any:
            return buckets.get(key(cells), ())
    else:

        def members() -> Any:
            return table.members

    binds = tuple((column, frame.cell(arg)) for column, arg, is_new in way.binds if is_new)
    repeats = tuple((column, frame.cell(arg)) for column, arg, is_new in way.binds if not is_new)
    if repeats or side < 0 or len(binds) != 1:
        return _general(
            cells,
            members,
            binds,
            repeats,
            chain,
            is_lower=isinstance(source, Table),
            skips_trigger=side < 0,
        )
    ((column, cell),) = binds
    if isinstance(source, Table):

        def lower(rank: int) -> None:
            for row in members():
                cells[cell] = row[column]
                chain(rank)

        return lower

    def same(rank: int) -> None:
        for fact in members():
            cells[cell] = fact.row[column]
            chain(fact.rank if fact.rank > rank else rank)

    return same


def _general(
    cells: list[Any],
    members: Callable[[], Any],
    binds: tuple[tuple[int, int], ...],
    repeats: tuple[tuple[int, int], ...],
    chain: Next,
    *,
    is_lower: bool,
    skips_trigger: bool,
) -> Next:
    def step(rank: int) -> None:
        for member in members():
            row = member if is_lower else member.row
            if skips_trigger and row == cells[0]:
                continue
            for column, cell in binds:
                cells[cell] = row[column]
            for column, cell in repeats:
                if not same_value(row[column], cells[cell]):
                    break
            else:
                chain(rank if is_lower or member.rank < rank else member.rank)

    return step


def _member(frame: Frame, way: Way, source: Table | Rows, side: int, chain: Next) -> Next:
    """An atom with all columns known: is the row there?"""
    cells = frame.cells
    make = frame.maker(way.keys)
    if isinstance(source, Table):
        rows = source.members

        def lower(rank: int) -> None:
            row = make(cells)
            if row in rows and not (side < 0 and row == cells[0]):
                chain(rank)

        return lower
    by_row = source.facts.by_row

    def same(rank: int) -> None:
        fact = by_row.get(make(cells))
        if fact is not None and fact.rank and not (side < 0 and fact.row == cells[0]):
            chain(fact.rank if fact.rank > rank else rank)

    return same


def _absent(frame: Frame, literal: Absent, source: Table | Rows, side: int, chain: Next) -> Next:
    """A negated row: of a lower relation, or of a falling one of the stratum."""
    cells = frame.cells
    make = frame.maker(literal.args)
    if isinstance(source, Table):
        rows = source.members

        def lower(rank: int) -> None:
            row = make(cells)
            if side and row == cells[0]:
                if side < 0:
                    chain(rank)
            elif row not in rows:
                chain(rank)

        return lower
    by_row = source.facts.by_row

    def same(rank: int) -> None:
        row = make(cells)
        fact = by_row.get(row)
        if fact is None:
            chain(rank)
        elif (side < 0) if side and row == cells[0] else not fact.visible:
            chain(fact.rank if fact.rank > rank else rank)

    return same
