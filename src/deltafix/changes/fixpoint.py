"""Least fixpoints by increments, and how they change with their function.

Three functions and their derivatives: `iterate` (fⁿ(⊥)), `lfp` (its limit, reached by adding
increments: semi-naive evaluation is the derivative in n), and `adjust`, whose fixpoint is the
derivative of `lfp` in f. Each run returns its rounds, so that a table of iterations is data.
Invariant: a run ends only at a fixpoint; a bound that is reached is an error, never an answer.

What this module does not do: it walks no graph. The engine's maintenance and level 1 use ranks
instead of `adjust`, for the reason given at `lfp_change`.

Source: Fixing incremental computation, section 5.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from deltafix.changes.action import ChangeAction
from deltafix.changes.derivative import Derivative, evaluation_first
from deltafix.errors import BudgetError, ChangeError

__all__ = [
    "Round",
    "Run",
    "adjust",
    "iterate",
    "iterate_change_in_f",
    "iterate_change_in_n",
    "lfp",
    "lfp_change",
]

A = TypeVar("A")
D = TypeVar("D")


@dataclass(frozen=True)  # no slots: `Round[…](…)` fails with both on 3.11
class Round(Generic[A, D]):
    """One step of a run: the value accumulated so far and the increment found at it."""

    number: int
    value: A
    change: D


@dataclass(frozen=True)  # no slots: `Run[…](…)` fails with both on 3.11
class Run(Generic[A, D]):
    """A finished iteration: its result and every round, the last of which found nothing new."""

    value: A
    rounds: tuple[Round[A, D], ...]


def iterate(function: Callable[[A], A], times: int, bottom: A) -> A:
    """`iter(f, n) = fⁿ(⊥)`: n calls of `function`."""
    value = bottom
    for _ in range(times):
        value = function(value)
    return value


def iterate_change_in_n(of: Derivative[A, D, A, D], times: int, more: int, bottom: A) -> D:
    """∂₂iter(f, n, m): a change from `iter(f, n)` to `iter(f, n + m)`.

    `∂₂iter(f, 0, m) = iter(f, m) ⊖ ⊥`, then one application of f' for each further n.

    Raises:
        IncompleteActionError: The action has no minus operator.
    """
    change = of.target.difference(iterate(of.function, more, bottom), bottom)
    value = bottom
    for _ in range(times):
        value, change = of.function(value), of.rule(value, change)
    return change


def lfp(of: Derivative[A, D, A, D], bottom: A, *, max_rounds: int | None = None) -> Run[A, D]:
    """The least fixpoint of a monotone function, each round adding only what is new.

    Starting from `(⊥, f(⊥) ⊖ ⊥)`, a round goes from (a, da) to `(a ⊕ da, f'(a, da))`. The source
    prints the start as (⊥, ⊥) and so is one round off in the property it states; here round n
    holds `iter(f, n)` and a change to `iter(f, n + 1)`. `f` itself is called once.

    Args:
        of: The function with its derivative; the cheaper the rule, the cheaper the run.
        bottom: The least value.
        max_rounds: Give up beyond so many rounds; None means no bound (finite lattices end).

    Raises:
        BudgetError: `max_rounds` was reached.
        IncompleteActionError: The action has no minus operator.
    """
    action = of.target
    value, change = bottom, action.difference(of.function(bottom), bottom)
    rounds: list[Round[A, D]] = []
    while True:
        rounds.append(Round(len(rounds), value, change))
        grown = action.apply(value, change)
        if action.equal(grown, value):
            return Run(value, tuple(rounds))
        _bound(len(rounds), max_rounds)
        value, change = grown, of.rule(value, change)


def iterate_change_in_f(
    of: Derivative[A, D, A, D],
    function_change: Callable[[A], D],
    times: int,
    bottom: A,
) -> D:
    """∂₁iter(f, δf, n): a change from `iter(f, n)` to `iter(f ⊕ δf, n)`."""
    value, change = bottom, of.source.zero
    for _ in range(times):
        value, change = (
            of.function(value),
            evaluation_first(of, value, function_change, change),
        )
    return change


def adjust(
    of_changed: Derivative[A, D, A, D], old: A, function_change: Callable[[A], D]
) -> Callable[[D], D]:
    """`adjust(f, δf) = λ da. δf(lfp f) + (f ⊕ δf)'(lfp f, da)`, with the first part computed once.

    Args:
        of_changed: The new function, f ⊕ δf, with a derivative.
        old: `lfp f`.
        function_change: δf.
    """
    first = function_change(old)
    combine = of_changed.target.combine
    return lambda change: combine(first, of_changed.rule(old, change))


def lfp_change(
    of_changed: Derivative[A, D, A, D],
    old: A,
    function_change: Callable[[A], D],
    *,
    start: D,
    max_rounds: int | None = None,
) -> Run[D, D]:
    """lfp'(f, δf): a change from `lfp f` to `lfp (f ⊕ δf)`, itself a fixpoint of `adjust`.

    Where the iteration starts decides what it is worth:

    - `start` = the least change of the change order (for sets: remove everything): the theorem,
      right for every monotone function, and no cheaper than recomputing.
    - `start` = the zero change: what the source's worked example prints, and cheap. Where it
      ends, it ends at *a* fixpoint of the new function, the least one if the facts that lost
      support do not support each other. A cycle that is cut off stays, or makes the iteration
      swing between two values for ever (tests keep both counter-examples; the second is refused).
      That gap is what ranks close, in the engine and at level 1.

    Args:
        of_changed: The new function with a derivative that is monotone in its change.
        old: `lfp f`.
        function_change: δf, called once.
        start: Where to start, see above.
        max_rounds: Give up beyond so many rounds.

    Returns:
        A run over changes: `value` of a round is δw so far, `change` is `adjust` of it.

    Raises:
        BudgetError: `max_rounds` was reached before a fixpoint.
        ChangeError: The iteration came back to an earlier value and will never end.
    """
    changes: ChangeAction[D, D] = of_changed.target.changes_action()
    step = adjust(of_changed, old, function_change)
    value = landmark = start
    rounds: list[Round[D, D]] = []
    while True:
        after = step(value)
        rounds.append(Round(len(rounds), value, after))
        if changes.equal(after, value):
            return Run(value, tuple(rounds))
        if changes.equal(after, landmark):
            raise ChangeError(
                f"adjusting comes back to the change of an earlier round after {len(rounds)} "
                "rounds and never ends; start from the least change of the change order, which "
                "is right for every monotone function"
            )
        _bound(len(rounds), max_rounds)
        if len(rounds).bit_count() == 1:  # Brent: a landmark at each power of two finds any cycle
            landmark = after
        value = after


def _bound(rounds: int, max_rounds: int | None) -> None:
    if max_rounds is not None and rounds >= max_rounds:
        raise BudgetError(
            f"no fixpoint after {rounds} rounds; the bound is max_rounds={max_rounds} (None lifts "
            "it, a function that is not monotone need not end)"
        )
