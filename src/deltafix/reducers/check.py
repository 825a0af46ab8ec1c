"""`check_reducer`: the search for a smallest counter-example to a reducer's laws.

The laws (see `laws`) are tried on small multisets of the values given, all of them in order of
size, so that the first counter-example found is a smallest one; then on random larger multisets
and edit scripts, whose failures are shrunk. A broken law comes as a sentence.

Invariant: a reducer passes only if every law held on everything tried; that is testing, not proof.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any

from deltafix.errors import ReducerError
from deltafix.reducers.laws import LawError, Trial, Values, laws_of, updates_equal_recomputation
from deltafix.reducers.reducer import Mergeable, Partial, Reducer

__all__ = ["CounterExample", "LawReport", "check_reducer"]

# All multisets of up to this many out of this many values: 330 of them, tried in full.
_SMALL_SIZE = 4
_SMALL_VALUES = 7


@dataclass(frozen=True, slots=True)
class CounterExample:
    """A smallest known way to break a law: the values that were added first, and what happened."""

    law: str
    added: Values
    sentence: str

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True)
class LawReport:
    """What `check_reducer` found. True if every law held."""

    reducer: str
    kind: str
    laws: int
    cases: int
    recomputations: int
    broken: tuple[CounterExample, ...] = field(default=())

    def __bool__(self) -> bool:
        return not self.broken

    def __str__(self) -> str:
        if not self.broken:
            held = f"{self.reducer}: {self.kind}, {self.laws} laws hold on {self.cases} cases"
            suffix = f", {self.recomputations} recomputations asked for"
            return held + suffix * bool(self.recomputations)
        lines = [f"{self.reducer}: declared {self.kind}, but"]
        lines += [f"  {example.law}: {example.sentence}" for example in self.broken]
        return "\n".join(lines)

    def require(self) -> LawReport:
        """This report, or ReducerError with the counter-examples if a law is broken."""
        if self.broken:
            raise ReducerError(str(self))
        return self


def check_reducer(
    reducer: Reducer[Any, Any, Any], values: Iterable[Any], *, cases: int = 200, seed: int = 0
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
    trial = Trial(reducer)
    laws = laws_of(reducer)
    broken: list[CounterExample] = []
    tried = 0
    for law, least, check in laws:
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
    if isinstance(reducer, Mergeable):
        kind = "mergeable"
    return LawReport(reducer.name, kind, len(laws), tried, trial.recomputations, tuple(broken))


def _try(check: Callable[[], None]) -> str | None:
    """The sentence of what goes wrong, None if nothing does."""
    try:
        check()
    except LawError as broken:
        return str(broken)
    except Exception as error:  # a reducer that raises on values of its own breaks its contract
        return f"it raises {type(error).__name__}: {error}"
    return None


def _multisets(pool: list[Any], least: int, cases: int, seed: int) -> Iterator[Values]:
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
    trial: Trial,
    check: Callable[[Trial, Values], None],
    values: Values,
    least: int,
    sentence: str,
) -> tuple[Values, str]:
    """Leave values out for as long as the law stays broken."""
    index = 0
    while index < len(values) and len(values) > least:
        fewer = values[:index] + values[index + 1 :]
        again = _try(lambda fewer=fewer: check(trial, fewer))  # type: ignore[misc]
        if again is None:
            index += 1
        else:
            values, sentence, index = fewer, again, 0
    return values, sentence


def _broken_script(trial: Trial, pool: list[Any], cases: int, seed: int) -> CounterExample | None:
    chance = random.Random(seed + 1)  # noqa: S311  test cases, no secrets
    smallest: tuple[int, Values, str] | None = None
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
            lambda start=start, steps=steps: updates_equal_recomputation(  # type: ignore[misc]
                trial, start, steps
            )
        )
        if sentence is not None and (smallest is None or len(start) + len(steps) < smallest[0]):
            smallest = (len(start) + len(steps), start, sentence)
    if smallest is None:
        return None
    return CounterExample("updates equal recomputation", smallest[1], smallest[2])
