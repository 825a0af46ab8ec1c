"""Checking a reducer against its laws before it costs anybody money.

`check_reducer` tries the laws below on small multisets of the values it is given, all of them in
order of size, so that the first counter-example found is a smallest one; then on random larger
multisets and deltas, whose failures are shrunk. Each law says what it is in its docstring, and a
broken one comes as a sentence.

Invariant: a reducer passes only if every law held on everything tried; that is testing, not proof.
Accumulators are compared with `Reducer.same`. Sources: Skip reduce paper, Definitions 2, 6 and 7,
Remark 1, Theorem 2 (a reducer is well-formed iff updating equals recomputing), Lemma 1.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any, TypeAlias

from deltafix.errors import ReducerError
from deltafix.reactive.changes import Counts
from deltafix.reactive.reducer import Partial, Reducer

__all__ = ["LAWS", "CounterExample", "LawReport", "check_reducer"]

_Reducer: TypeAlias = Reducer[Any, Any, Any]
_Values: TypeAlias = tuple[Any, ...]

# All multisets of up to this many out of this many values: 330 of them, tried in full.
_SMALL_SIZE = 4
_SMALL_VALUES = 7


@dataclass(frozen=True, slots=True)
class CounterExample:
    """A smallest known way to break a law: the values that were added first, and what happened."""

    law: str
    added: _Values
    sentence: str

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True)
class LawReport:
    """What `check_reducer` found. True if every law held."""

    reducer: str
    kind: str
    cases: int
    recomputations: int
    broken: tuple[CounterExample, ...] = field(default=())

    def __bool__(self) -> bool:
        return not self.broken

    def __str__(self) -> str:
        if not self.broken:
            held = f"{self.reducer}: {self.kind}, {len(LAWS)} laws hold on {self.cases} cases"
            asked = f", {self.recomputations} recomputations asked for"
            return held + asked * bool(self.recomputations)
        lines = [f"{self.reducer}: declared {self.kind}, but"]
        lines += [f"  {example.law}: {example.sentence}" for example in self.broken]
        return "\n".join(lines)

    def require(self) -> LawReport:
        """This report, or ReducerError with the counter-examples if a law is broken."""
        if self.broken:
            raise ReducerError(str(self))
        return self


class _LawError(Exception):
    """A law does not hold; carries the sentence."""


@dataclass(slots=True)
class _Trial:
    """A reducer under test, with what it asked for counted."""

    reducer: _Reducer
    recomputations: int = 0

    def fold(self, values: Iterable[Any]) -> Any:
        # A copy: a reducer that changes accumulators in place must not spoil the next trial.
        acc = _copied(self.reducer.initial)
        for value in values:
            acc = self.reducer.add(acc, value)
        return acc

    def remove(self, acc: Any, value: Any, rest: Iterable[Any]) -> Any:
        """As the runtime does it: None is answered by a recomputation from the rest."""
        removed = self.reducer.remove(acc, value)
        if removed is None:
            if not isinstance(self.reducer, Partial):
                raise _LawError(
                    f"removing {value!r} returns None, which only a Partial reducer may do"
                )
            self.recomputations += 1
            return self.fold(rest)
        return removed

    def expect(self, got: Any, wanted: Any, sentence: Callable[[str, str], str]) -> None:
        if not self.reducer.same(got, wanted):
            raise _LawError(sentence(_shown(got), _shown(wanted)))


def _copied(acc: Any) -> Any:
    """A deep copy; what cannot be copied is taken as it is, and not compared with its past."""
    try:
        return deepcopy(acc)
    except Exception:
        return acc


def _shown(acc: Any) -> str:
    text = repr(acc)
    return text if len(text) <= 200 else text[:197] + "..."


def _and(values: Sequence[Any]) -> str:
    shown = [repr(value) for value in values]
    if not shown:
        return "nothing"
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]


def _added(values: Sequence[Any]) -> str:
    return f"after adding {_and(values)}, " if values else "from the start, "


def keeps_accumulators(trial: _Trial, values: _Values) -> None:
    """Neither `add` nor `remove` changes the accumulator it is given (rolling back needs it)."""
    *before, last = values
    for name, acc, call in (
        ("adding", trial.fold(before), trial.reducer.add),
        ("removing", trial.fold(values), trial.reducer.remove),
    ):
        copy = _copied(acc)
        call(acc, last)
        added = before if name == "adding" else values
        trial.expect(
            acc,
            copy,
            lambda got, old, name=name, added=added: (  # type: ignore[misc]  # bound per turn
                f"{_added(added)}{name} {last!r} changes the accumulator {old} in place, to {got}"
            ),
        )


def add_commutes(trial: _Trial, values: _Values) -> None:
    """(a ⊕ v) ⊕ w = (a ⊕ w) ⊕ v (Definition 2)."""
    *before, one, two = values
    acc = trial.fold(before)
    add = trial.reducer.add
    trial.expect(
        add(add(acc, one), two),
        add(add(acc, two), one),
        lambda got, other: (
            f"{_added(before)}adding {one!r} and then {two!r} gives {got}; "
            f"adding {two!r} and then {one!r} gives {other}"
        ),
    )


def remove_commutes(trial: _Trial, values: _Values) -> None:
    """(a ⊖ v) ⊖ w = (a ⊖ w) ⊖ v on what additions reach (Definition 6)."""
    *before, one, two = values
    acc = trial.fold(values)
    first = trial.remove(trial.remove(acc, one, (*before, two)), two, before)
    second = trial.remove(trial.remove(acc, two, (*before, one)), one, before)
    trial.expect(
        first,
        second,
        lambda got, other: (
            f"{_added(values)}removing {one!r} and then {two!r} leaves {got}; "
            f"removing {two!r} and then {one!r} leaves {other}"
        ),
    )


def remove_undoes_add(trial: _Trial, values: _Values) -> None:
    """(a ⊕ v) ⊖ v = a for every reachable a (Definition 7).

    By commutation: removing any value equals never having added it.
    """
    acc = trial.fold(values)
    for place, value in enumerate(values):
        rest = values[:place] + values[place + 1 :]
        trial.expect(
            trial.remove(acc, value, rest),
            trial.fold(rest),
            lambda got, wanted, value=value: (  # type: ignore[misc]  # bound per turn
                f"{_added(values)}removing {value!r} leaves {got}; recomputing gives {wanted}"
            ),
        )


def remove_commutes_with_add(trial: _Trial, values: _Values) -> None:
    """(a ⊖ v) ⊕ w = (a ⊕ w) ⊖ v (Remark 1)."""
    *before, one, two = values
    acc = trial.fold((*before, one))
    first = trial.reducer.add(trial.remove(acc, one, before), two)
    second = trial.remove(trial.reducer.add(acc, two), one, (*before, two))
    trial.expect(
        first,
        second,
        lambda got, other: (
            f"{_added((*before, one))}removing {one!r} and then adding {two!r} gives {got}; "
            f"adding {two!r} and then removing {one!r} gives {other}"
        ),
    )


def splitting_changes_nothing(trial: _Trial, values: _Values) -> None:
    """A net change applied at once equals its values one by one (Lemma 1).

    So `apply`, if overridden, agrees with `add` and `remove`.
    """
    half = len(values) // 2
    old, new = values[:half], values[half:]
    start = trial.fold(old)
    change: Counts = {}
    for value in old:
        change[value] = change.get(value, 0) - 1
    for value in new:
        change[value] = change.get(value, 0) + 1
    net = {value: count for value, count in change.items() if count}
    at_once = trial.reducer.apply(start, net)
    wanted = trial.fold(new)
    if at_once is None:
        trial.recomputations += 1
        return
    if len(values) == 2:  # one value in the place of another has a way of its own
        swapped = trial.reducer.swap(start, old[0], new[0])
        if swapped is not None:
            trial.expect(
                swapped,
                wanted,
                lambda got, right: (
                    f"{_added(old)}putting {new[0]!r} in its place gives {got}; "
                    f"recomputing gives {right}"
                ),
            )
    trial.expect(
        at_once,
        wanted,
        lambda got, right: (
            f"{_added(old)}replacing them by {_and(new)} at once gives {got}; "
            f"recomputing gives {right}"
        ),
    )


LAWS: tuple[tuple[str, int, Callable[[_Trial, _Values], None]], ...] = (
    ("accumulators are values", 1, keeps_accumulators),
    ("add commutes", 2, add_commutes),
    ("remove undoes add", 1, remove_undoes_add),
    ("remove commutes", 2, remove_commutes),
    ("remove and add commute", 2, remove_commutes_with_add),
    ("splitting changes nothing", 1, splitting_changes_nothing),
)
"""Name, least number of values, check. `updates_equal_recomputation` runs beside them."""


def _updates_equal_recomputation(
    trial: _Trial, start: _Values, steps: Sequence[tuple[str, Any]]
) -> None:
    """Theorem 2's other side: a script of additions and removals ends where recomputing does."""
    held = list(start)
    acc = trial.fold(held)
    for step, value in steps:
        if step == "add":
            held.append(value)
            acc = trial.reducer.add(acc, value)
        else:
            held.remove(value)
            acc = trial.remove(acc, value, held)
    trial.expect(
        acc,
        trial.fold(held),
        lambda got, wanted: (
            f"{_added(start)}{', '.join(f'{_GERUND[step]} {value!r}' for step, value in steps)} "
            f"leaves {got}; recomputing gives {wanted}"
        ),
    )


_GERUND = {"add": "adding", "remove": "removing"}


def check_reducer(
    reducer: _Reducer, values: Iterable[Any], *, cases: int = 200, seed: int = 0
) -> LawReport:
    """Test a reducer's laws; the report is true if all held.

    Args:
        reducer: the reducer; what it is declared to be (`WellFormed`, `Partial`) is what is tested.
        values: values to build multisets from, at least one; order does not matter. Give those
            that could go wrong: equal ones, extremes, 0.1 and 1e16.
        cases: how many random multisets and scripts to try beyond the small ones.
        seed: of those; the same seed tries the same cases.

    Returns:
        A report with one smallest counter-example per broken law: «after adding 3 and 5, removing
        3 leaves 3; recomputing gives 5».

    >>> from deltafix.reactive import Sum
    >>> bool(check_reducer(Sum(), [3, 5]))
    True
    """
    if not isinstance(reducer, Reducer):
        raise ReducerError(f"check_reducer takes a reducer, not {reducer!r}")
    pool = list(values)
    if not pool:
        raise ReducerError("check_reducer needs at least one value to build multisets from")
    trial = _Trial(reducer)
    broken: list[CounterExample] = []
    tried = 0
    for law, least, check in LAWS:
        for multiset in _multisets(pool, least, cases, seed):
            tried += 1
            sentence = _try(lambda check=check, multiset=multiset: check(trial, multiset))  # type: ignore[misc]
            if sentence is not None:
                smallest, sentence = _shrink(trial, check, multiset, least, sentence)
                broken.append(CounterExample(law, smallest, sentence))
                break
    script = _broken_script(trial, pool, cases, seed)
    tried += cases
    # A reducer that breaks a law on one multiset fails scripts too: the law says it better.
    if script is not None and not broken:
        broken.append(script)
    kind = "partial" if isinstance(reducer, Partial) else "well-formed"
    return LawReport(reducer.name, kind, tried, trial.recomputations, tuple(broken))


def _try(check: Callable[[], None]) -> str | None:
    """The sentence of what goes wrong, None if nothing does."""
    try:
        check()
    except _LawError as broken:
        return str(broken)
    except Exception as error:  # a reducer that raises on values of its own breaks its contract
        return f"it raises {type(error).__name__}: {error}"
    return None


def _multisets(pool: list[Any], least: int, cases: int, seed: int) -> Iterator[_Values]:
    small = _plainest(pool)[:_SMALL_VALUES]
    for size in range(least, _SMALL_SIZE + 1):
        yield from combinations_with_replacement(small, size)
    chance = random.Random(seed)  # noqa: S311  test cases, no secrets
    for _ in range(cases):
        yield tuple(chance.choices(pool, k=chance.randint(least, 12)))


def _plainest(pool: list[Any]) -> list[Any]:
    """Distinct values, those that are shortest to print first: counter-examples use them."""
    distinct: list[Any] = []
    for value in sorted(pool, key=lambda item: (len(repr(item)), repr(item))):
        if not any(value is other or value == other for other in distinct):
            distinct.append(value)
    return distinct


def _shrink(
    trial: _Trial,
    check: Callable[[_Trial, _Values], None],
    values: _Values,
    least: int,
    sentence: str,
) -> tuple[_Values, str]:
    """Leave values out for as long as the law stays broken."""
    place = 0
    while place < len(values) and len(values) > least:
        fewer = values[:place] + values[place + 1 :]
        again = _try(lambda fewer=fewer: check(trial, fewer))  # type: ignore[misc]
        if again is None:
            place += 1
        else:
            values, sentence, place = fewer, again, 0
    return values, sentence


def _broken_script(trial: _Trial, pool: list[Any], cases: int, seed: int) -> CounterExample | None:
    chance = random.Random(seed + 1)  # noqa: S311  test cases, no secrets
    smallest: tuple[int, _Values, str] | None = None
    for _ in range(cases):
        start = tuple(chance.choices(pool, k=chance.randint(0, 6)))
        held = list(start)
        steps: list[tuple[str, Any]] = []
        for _ in range(chance.randint(1, 8)):
            if held and chance.random() < 0.5:
                steps.append(("remove", held.pop(chance.randrange(len(held)))))
            else:
                held.append(chance.choice(pool))
                steps.append(("add", held[-1]))
        sentence = _try(
            lambda start=start, steps=steps: _updates_equal_recomputation(  # type: ignore[misc]
                trial, start, steps
            )
        )
        if sentence is not None and (smallest is None or len(start) + len(steps) < smallest[0]):
            smallest = (len(start) + len(steps), start, sentence)
    if smallest is None:
        return None
    return CounterExample("updates equal recomputation", smallest[1], smallest[2])
