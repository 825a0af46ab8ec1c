"""The laws of a reducer, each as a check on one multiset of values.

Two nouns: a law is a function that takes a `Trial` (a reducer, with what it asked for counted) and
the values of a multiset, and raises `LawError` with a sentence where it does not hold. Each says
what it is in its docstring. Which multisets are tried is the searcher's (see `check`).

Invariant: a law compares accumulators with `Reducer.same` only, and changes none it compares.
Sources: Skip reduce paper, Definitions 2, 6 and 7, Remark 1, Theorem 2 (a reducer is well-formed
iff updating equals recomputing), Lemma 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from deltafix.reducers.reducer import Mergeable, Partial, Reducer

Values: TypeAlias = tuple[Any, ...]
Law: TypeAlias = "tuple[str, int, Callable[[Trial, Values], None]]"
"""Name, least number of values, check."""


class LawError(Exception):
    """A law does not hold; carries the sentence."""


@dataclass(slots=True)
class Trial:
    """A reducer under test, with what it asked for counted."""

    reducer: Reducer[Any, Any, Any]
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
                raise LawError(
                    f"removing {value!r} returns None, which only a Partial reducer may do"
                )
            self.recomputations += 1
            return self.fold(rest)
        return removed

    def expect(self, got: Any, wanted: Any, sentence: Callable[[str, str], str]) -> None:
        if not self.reducer.same(got, wanted):
            raise LawError(sentence(_shown(got), _shown(wanted)))


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


def keeps_accumulators(trial: Trial, values: Values) -> None:
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


def add_commutes(trial: Trial, values: Values) -> None:
    """(a ⊕ v) ⊕ w = (a ⊕ w) ⊕ v (Definition 2)."""
    *before, v, w = values
    acc = trial.fold(before)
    add = trial.reducer.add
    trial.expect(
        add(add(acc, v), w),
        add(add(acc, w), v),
        lambda got, other: (
            f"{_added(before)}adding {v!r} and then {w!r} gives {got}; "
            f"adding {w!r} and then {v!r} gives {other}"
        ),
    )


def remove_commutes(trial: Trial, values: Values) -> None:
    """(a ⊖ v) ⊖ w = (a ⊖ w) ⊖ v on what additions reach (Definition 6)."""
    *before, v, w = values
    acc = trial.fold(values)
    first = trial.remove(trial.remove(acc, v, (*before, w)), w, before)
    second = trial.remove(trial.remove(acc, w, (*before, v)), v, before)
    trial.expect(
        first,
        second,
        lambda got, other: (
            f"{_added(values)}removing {v!r} and then {w!r} leaves {got}; "
            f"removing {w!r} and then {v!r} leaves {other}"
        ),
    )


def remove_undoes_add(trial: Trial, values: Values) -> None:
    """(a ⊕ v) ⊖ v = a for every reachable a (Definition 7).

    By commutation: removing any value equals never having added it.
    """
    acc = trial.fold(values)
    for index, value in enumerate(values):
        rest = values[:index] + values[index + 1 :]
        trial.expect(
            trial.remove(acc, value, rest),
            trial.fold(rest),
            lambda got, wanted, value=value: (  # type: ignore[misc]  # bound per turn
                f"{_added(values)}removing {value!r} leaves {got}; recomputing gives {wanted}"
            ),
        )


def remove_commutes_with_add(trial: Trial, values: Values) -> None:
    """(a ⊖ v) ⊕ w = (a ⊕ w) ⊖ v (Remark 1)."""
    *before, v, w = values
    acc = trial.fold((*before, v))
    first = trial.reducer.add(trial.remove(acc, v, before), w)
    second = trial.remove(trial.reducer.add(acc, w), v, (*before, w))
    trial.expect(
        first,
        second,
        lambda got, other: (
            f"{_added((*before, v))}removing {v!r} and then adding {w!r} gives {got}; "
            f"adding {w!r} and then removing {v!r} gives {other}"
        ),
    )


def splitting_changes_nothing(trial: Trial, values: Values) -> None:
    """A net change applied at once equals its values one by one (Lemma 1).

    So `apply`, if overridden, agrees with `add` and `remove`.
    """
    half = len(values) // 2
    old, new = values[:half], values[half:]
    start = trial.fold(old)
    change: dict[Any, int] = {}
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


def merging_adds_up(trial: Trial, values: Values) -> None:
    """fold(xs) merged with fold(ys) is fold(xs + ys), for every place to cut."""
    merge = cast("Mergeable[Any, Any, Any]", trial.reducer).merge
    wanted = trial.fold(values)
    for cut in range(len(values) + 1):
        left, right = values[:cut], values[cut:]
        trial.expect(
            merge(trial.fold(left), trial.fold(right)),
            wanted,
            lambda got, right_one, left=left, right=right: (  # type: ignore[misc]  # bound per turn
                f"merging what {_and(left)} gives with what {_and(right)} gives is {got}; "
                f"folding all of them gives {right_one}"
            ),
        )


_LAWS: tuple[Law, ...] = (
    ("accumulators are values", 1, keeps_accumulators),
    ("add commutes", 2, add_commutes),
    ("remove undoes add", 1, remove_undoes_add),
    ("remove commutes", 2, remove_commutes),
    ("remove and add commute", 2, remove_commutes_with_add),
    ("splitting changes nothing", 1, splitting_changes_nothing),
)


def laws_of(reducer: Reducer[Any, Any, Any]) -> tuple[Law, ...]:
    """The laws that a reducer claims. `updates_equal_recomputation` is tried on scripts."""
    if isinstance(reducer, Mergeable):
        return (*_LAWS, ("merging adds up", 1, merging_adds_up))
    return _LAWS


def updates_equal_recomputation(
    trial: Trial, start: Values, steps: Sequence[tuple[str, Any]]
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
