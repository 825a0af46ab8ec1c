"""Asking laws of many points: sampled and shrunk by Hypothesis, or all points of a small carrier.

Two doors, `check_change_action` and `check_derivative`, re-exported by `deltafix.testing`.
Invariant: what is found is the smallest counter-example the search reaches, told in one sentence;
nothing found means "no counter-example among these points", a proof only if they are all points.
Hypothesis is imported when strategies are given, never before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from deltafix.changes.action import ChangeAction
from deltafix.changes.derivative import Derivative, derivative
from deltafix.changes.laws import Law, action_laws, derivative_laws, show
from deltafix.errors import ChangeError, LawError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["LawReport", "check_change_action", "check_derivative", "check_laws"]

A = TypeVar("A")
B = TypeVar("B")
D = TypeVar("D")
E = TypeVar("E")

if TYPE_CHECKING:
    Points: TypeAlias = SearchStrategy[Any] | Collection[Any]


@dataclass(frozen=True, slots=True)
class LawReport:
    """Which laws were asked, at how many points, and whether those were all of them."""

    laws: tuple[str, ...]
    points: int
    exhaustive: bool

    def __str__(self) -> str:
        how = "all" if self.exhaustive else "a sample of"
        laws = "1 law holds" if len(self.laws) == 1 else f"{len(self.laws)} laws hold"
        return f"{laws} at {how} {self.points} points"


def check_change_action(
    action: ChangeAction[A, D],
    *,
    values: Points,
    changes: Points,
    max_examples: int = 200,
) -> LawReport:
    """Ask every law an action claims to keep.

    Args:
        action: The action under test.
        values: A Hypothesis strategy for values, or a finite collection of them.
        changes: The same for changes. If both are collections, every point is tried.
        max_examples: How many points Hypothesis tries per law.

    Raises:
        LawError: A law fails; the message is the smallest counter-example found, in words.
    """
    return check_laws(
        action_laws(action),
        about=action.name,
        values=values,
        changes=changes,
        max_examples=max_examples,
    )


def check_derivative(
    function: Derivative[A, D, B, E] | Callable[[A], B],
    rule: Callable[[A, D], E] | None = None,
    *,
    values: Points,
    changes: Points,
    source: ChangeAction[A, D] | None = None,
    target: ChangeAction[B, E] | None = None,
    regular: bool = False,
    max_examples: int = 200,
) -> LawReport:
    """Ask the derivative law of a function and its claimed derivative.

    Args:
        function: A `Derivative`, or a plain function together with `rule`, `source`, `target`.
        rule: The claimed derivative of a plain function.
        values: A strategy or a finite collection for arguments.
        changes: The same for changes of the argument.
        source: The action on arguments, for a plain function.
        target: The action on results, for a plain function.
        regular: Also ask the regularity law.
        max_examples: How many points Hypothesis tries per law.

    Raises:
        LawError: The law fails; the message is the smallest counter-example found, in words.
        ChangeError: A plain function came without its rule or actions.
    """
    if not isinstance(function, Derivative):
        if rule is None or source is None or target is None:
            raise ChangeError(
                "check_derivative needs a Derivative, or a function with its rule, source= and "
                "target="
            )
        name = getattr(function, "__name__", "f")
        function = derivative(
            function, source, target, rule, "the function" if name == "<lambda>" else name
        )
    return check_laws(
        derivative_laws(function, regular=regular),
        about=function.name,
        values=values,
        changes=changes,
        max_examples=max_examples,
    )


def check_laws(
    laws: Sequence[Law],
    *,
    about: str,
    values: Points,
    changes: Points,
    max_examples: int = 200,
) -> LawReport:
    """Ask each law at points made of `values` and `changes`, in order; stop at the first failure.

    Raises:
        LawError: A law fails.
    """
    exhaustive = isinstance(values, Collection) and isinstance(changes, Collection)
    points = 0
    for law in laws:
        pools = [values if kind == "value" else changes for kind in law.kinds]
        if exhaustive:
            tried, bad = _every_point(law, pools)
        else:
            tried, bad = _sampled_points(law, pools, max_examples)
        points += tried
        if bad is not None:
            raise LawError(_sentence(law, about, bad), law=law.name, example=bad)
    return LawReport(tuple(law.name for law in laws), points, exhaustive)


def _every_point(law: Law, pools: Sequence[Any]) -> tuple[int, tuple[object, ...] | None]:
    """All points, those with the shortest descriptions winning as counter-example."""
    tried = 0
    worst: list[tuple[object, ...]] = []
    for point in product(*pools):
        tried += 1
        if not law.holds(*point):
            worst.append(point)
    if not worst:
        return tried, None
    return tried, min(worst, key=lambda point: (sum(len(show(v)) for v in point), show(point)))


def _sampled_points(
    law: Law, pools: Sequence[Any], max_examples: int
) -> tuple[int, tuple[object, ...] | None]:
    from hypothesis import find, settings, strategies  # noqa: PLC0415  a test-time dependency
    from hypothesis.errors import NoSuchExample  # noqa: PLC0415

    drawn = strategies.tuples(
        *(strategies.sampled_from(list(p)) if isinstance(p, Collection) else p for p in pools)
    )
    tried = 0

    def fails(point: tuple[object, ...]) -> bool:
        nonlocal tried
        tried += 1
        return not law.holds(*point)

    quiet = settings(max_examples=max_examples, database=None, deadline=None, derandomize=True)
    try:
        smallest = find(drawn, fails, settings=quiet)
    except NoSuchExample:
        return tried, None
    return tried, smallest


def _sentence(law: Law, about: str, point: tuple[object, ...]) -> str:
    return f"{about} breaks the law {law.name} ({law.statement}): {law.holds(*point).sentence}"
