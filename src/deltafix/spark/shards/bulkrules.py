"""Rules over columns: what a batch of rows derives, by joins of whole columns.

A first load finds every derivation once and takes none back, so it needs no counts in the meantime
and can work on columns; `load` says when each rule runs. Here: which layouts can be loaded so
(numbers only, no aggregates, no functor but the `max` of two ranks), and the evaluation of one
rule. Invariant: for a batch of new rows of one relation, `derive` gives the rows that rules derive
from at least one of them, and from nothing that came later. Changes are not its business: those
are the engine's, which is given all that a load found.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from deltafix.plan.clause import Absent, Apply, Argument, Clause, Code, Compare, Match, Slot
from deltafix.plan.depend import layers
from deltafix.spark.shards.columns import Columns, Ints, Run, distinct
from deltafix.spark.shards.layout import Layout

Runs: TypeAlias = Mapping[str, Sequence[Run]]
"""The rows of each local relation, in runs; the last run may be the newest batch."""

_Bound: TypeAlias = dict[str, Ints]
_MET = Slot("")
_TESTS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Join:
    """A literal to join (or, `lacks`, to be absent). `old`: the newest run is not to be read."""

    relation: str
    args: tuple[Argument | None, ...]
    old: bool
    lacks: bool


@dataclass(frozen=True, slots=True)
class _Way:
    """A clause from one literal on: the order of the others, what is still needed after each."""

    clause: Clause
    start: Match
    steps: tuple[_Join | Compare | Apply, ...]
    needed: tuple[frozenset[str], ...]


class Rules:
    """The rules that derive votes, by head's stratum and by the relation that drives them."""

    def __init__(self, layout: Layout, clauses: Sequence[Clause]) -> None:
        outs = {made.part("out"): made for made in layout.derived.values()}
        self._base: dict[int, list[_Way]] = {}
        self._driven: dict[str, list[_Way]] = {}
        for clause in clauses:
            if clause.head not in outs:
                continue  # what holds, given votes, is `load`'s business
            stratum = outs[clause.head].stratum
            own = {
                name
                for made in layout.derived.values()
                if made.ranked and made.stratum == stratum
                for name in (made.part("now"), *(copy.name for copy in made.within))
            }
            places = [
                n for n, lit in enumerate(clause.body)
                if isinstance(lit, Match) and lit.relation in own
            ]  # fmt: skip
            for place in places:
                literal = clause.body[place]
                assert isinstance(literal, Match)  # noqa: S101  chosen so
                self._driven.setdefault(literal.relation, []).append(_way(clause, place, own))
            if not places:
                first = next(n for n, lit in enumerate(clause.body) if isinstance(lit, Match))
                self._base.setdefault(stratum, []).append(_way(clause, first, own))

    def base(self, stratum: int, runs: Runs) -> Iterator[tuple[str, Columns]]:
        """What the rules of a stratum derive from other strata: heads and their rows."""
        for way in self._base.get(stratum, ()):
            yield from _heads(way, runs.get(way.start.relation, ()), runs)

    def derive(self, relation: str, runs: Runs) -> Iterator[tuple[str, Columns]]:
        """What the newest run of a relation derives within its own stratum."""
        for way in self._driven.get(relation, ()):
            yield from _heads(way, runs[relation][-1:], runs)


def bulk_rules(layout: Layout) -> Rules | None:
    """The rules of a layout whose first load can work on columns, else None."""
    if not layout.shuffles or any(set(kinds) != {"number"} for kinds in layout.types.values()):
        return None
    core = layout.core
    literals = [literal for clause in core.clauses for literal in clause.body]
    functors = {literal.functor for literal in literals if isinstance(literal, Apply)}
    pinned = not all(layer.plain for layer in layers(core))
    if pinned or core.folds or functors - {"max"}:
        return None
    return Rules(layout, core.clauses)


# --- the order of a rule's literals ------------------------------------------------------------


def _names(args: Sequence[object]) -> set[str]:
    return {arg.name for arg in args if isinstance(arg, Slot)}


def _way(clause: Clause, place: int, own: set[str]) -> _Way:
    """Literals one after another: tests as soon as they can run, then the most bound join."""
    start = clause.body[place]
    assert isinstance(start, Match)  # noqa: S101  the callers choose a match
    bound = _names(start.args)
    todo = [(n, literal) for n, literal in enumerate(clause.body) if n != place]
    steps: list[_Join | Compare | Apply] = []
    while todo:
        chosen = max(todo, key=lambda item: _ease(item[1], bound))
        todo.remove(chosen)
        number, literal = chosen
        if isinstance(literal, Match | Absent):
            old = literal.relation == start.relation and literal.relation in own and number > place
            steps.append(_Join(literal.relation, literal.args, old, isinstance(literal, Absent)))
            bound |= _names(literal.args)
        else:
            steps.append(literal)
            bound |= _names((literal.left, literal.right)) if isinstance(literal, Compare) else {
                literal.target.name
            }  # fmt: skip
    needed = _names(clause.args)
    after: list[frozenset[str]] = []
    for step in reversed(steps):
        after.append(frozenset(needed))
        needed |= _read(step)
    after.append(frozenset(needed))
    return _Way(clause, start, tuple(steps), tuple(reversed(after)))


def _read(step: _Join | Compare | Apply) -> set[str]:
    if isinstance(step, Compare):
        return _names((step.left, step.right))
    return _names(step.args) | (_names((step.target,)) if isinstance(step, Apply) else set())


def _ease(literal: object, bound: set[str]) -> tuple[int, int]:
    """How soon a literal should run: tests that can, absences that can, joins by bound columns."""
    if isinstance(literal, Compare):
        free = [not _names((side,)) <= bound for side in (literal.left, literal.right)]
        return (3, 0) if sum(free) <= (literal.op == "=") else (-1, 0)
    if isinstance(literal, Apply):
        return (3, 0) if _names(literal.args) <= bound else (-1, 0)
    if isinstance(literal, Absent):
        return (2, 0) if _names(literal.args) <= bound else (-1, 0)
    assert isinstance(literal, Match)  # noqa: S101  the last of the four kinds
    return (1, sum(isinstance(a, Code) or bool(_names((a,)) & bound) for a in literal.args))


# --- evaluation --------------------------------------------------------------------------------


def _heads(way: _Way, news: Sequence[Run], runs: Runs) -> Iterator[tuple[str, Columns]]:
    """The rows of the head, by the newest run's blocks; each once in a block."""
    for run in news:
        size, bound = _fit(way.start.args, run.columns, len(run), way.needed[0])
        for count, values in _run(way, 0, size, bound, runs):
            columns = tuple(_column(arg, values, count) for arg in way.clause.args)
            yield way.clause.head, distinct(columns)


def _column(arg: Argument, bound: _Bound, size: int) -> Ints:
    return bound[arg.name] if isinstance(arg, Slot) else np.full(size, arg.value, np.int64)


def _fit(
    args: Sequence[Argument | None],
    columns: Columns | Mapping[int, Ints],
    size: int,
    needed: frozenset[str],
) -> tuple[int, _Bound]:
    """Rows as bindings: those that fit constants and repeated variables."""
    first: dict[str, int] = {}
    fits: Any = None
    for place, arg in enumerate(args):
        if isinstance(arg, Code):
            test = columns[place] == arg.value
        elif arg is not None and arg.name in first:
            test = columns[place] == columns[first[arg.name]]
        else:
            if arg is not None:
                first[arg.name] = place
            continue
        fits = test if fits is None else fits & test
    bound = {name: columns[place] for name, place in first.items() if name in needed}
    if fits is None:
        return size, bound
    return int(np.count_nonzero(fits)), {name: column[fits] for name, column in bound.items()}


def _run(
    way: _Way, number: int, size: int, bound: _Bound, runs: Runs
) -> Iterator[tuple[int, _Bound]]:
    """The bindings that all literals from `number` on leave, in blocks."""
    if not size:
        return
    if number == len(way.steps):
        yield size, bound
        return
    step = way.steps[number]
    needed = way.needed[number + 1]
    if isinstance(step, _Join):
        blocks = (_lack if step.lacks else _join)(step, size, bound, runs, needed)
    else:
        blocks = iter([_test(step, size, bound)])
    for count, values in blocks:
        yield from _run(way, number + 1, count, values, runs)


def _test(step: Compare | Apply, size: int, bound: _Bound) -> tuple[int, _Bound]:
    """A comparison that holds or binds; `max` of two ranks."""
    if isinstance(step, Apply):
        left, right = (_column(arg, bound, size) for arg in step.args)
        return size, {**bound, step.target.name: np.maximum(left, right)}
    for here, other in ((step.left, step.right), (step.right, step.left)):
        if isinstance(here, Slot) and here.name not in bound:
            return size, {**bound, here.name: _column(other, bound, size)}
    holds = _TESTS[step.op](_column(step.left, bound, size), _column(step.right, bound, size))
    return int(np.count_nonzero(holds)), {name: column[holds] for name, column in bound.items()}


def _key(step: _Join, size: int, bound: _Bound) -> tuple[tuple[int, ...], Columns]:
    """The columns of a literal whose values are known, and the values."""
    known = [
        (place, _column(arg, bound, size))
        for place, arg in enumerate(step.args)
        if isinstance(arg, Code) or (arg is not None and arg.name in bound)
    ]
    return tuple(place for place, _ in known), tuple(values for _, values in known)


def _read_runs(step: _Join, runs: Runs) -> Sequence[Run]:
    found = runs.get(step.relation, ())
    return found[:-1] if step.old else found


def _lack(
    step: _Join, size: int, bound: _Bound, runs: Runs, needed: frozenset[str]
) -> Iterator[tuple[int, _Bound]]:
    key, probes = _key(step, size, bound)
    holds = np.ones(size, np.bool_)
    for run in _read_runs(step, runs):
        holds &= ~run.has(key, probes, size)
    yield int(np.count_nonzero(holds)), {n: c[holds] for n, c in bound.items() if n in needed}


def _join(
    step: _Join, size: int, bound: _Bound, runs: Runs, needed: frozenset[str]
) -> Iterator[tuple[int, _Bound]]:
    key, probes = _key(step, size, bound)
    kept = {name: column for name, column in bound.items() if name in needed}
    # The bindings that a row met are one more column of it: a new variable may stand twice.
    fresh = (*(None if n in key else arg for n, arg in enumerate(step.args)), _MET)
    places = [n for n, arg in enumerate(fresh) if isinstance(arg, Slot) and arg is not _MET]
    for run in _read_runs(step, runs):
        for which, rows in run.meet(key, probes, size, places):
            rows[len(step.args)] = which
            count, new = _fit(fresh, rows, len(which), needed | {_MET.name})
            met = new.pop(_MET.name)
            yield count, {**{name: column[met] for name, column in kept.items()}, **new}
