"""Derivatives: how a function's result changes when its argument does.

One noun, `Derivative`: a function together with a rule that turns a change of the argument into
a change of the result. Invariant (the derivative law, `laws.derivative_law`):
`f(a ⊕ d) = f(a) ⊕ f'(a, d)`. Derivatives are values: `compose` is the chain rule, `pair` and
`from_partials` build them over products, `minus_derivative` exists for every function into a
complete action. What is cheap is another matter: the minus derivatives recompute the function;
the symbolic ones in `formula` do not.

Source: Fixing incremental computation, sections 2.2, 2.3, 3.1 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from deltafix.changes.action import ChangeAction
from deltafix.changes.combined import Tagged, disjoint_union, product
from deltafix.changes.sets import SetChange, minus_greatest, minus_least, minus_precise
from deltafix.errors import IncompleteActionError

__all__ = [
    "Derivative",
    "between",
    "cases",
    "compose",
    "constant",
    "derivative",
    "evaluation_first",
    "evaluation_second",
    "from_partials",
    "greatest_derivative",
    "identity",
    "injection",
    "least_derivative",
    "minus_derivative",
    "pair",
    "partial_first",
    "partial_second",
    "precise_derivative",
    "projection",
]

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)  # no slots: `Derivative[…](…)` fails with both on 3.11
class Derivative(Generic[A, D, B, E]):
    """A function `function: A -> B` and its rule `rule: (a, da) -> db`.

    Law: `function(a ⊕ da) = function(a) ⊕ rule(a, da)`. Calling the derivative calls its rule.
    """

    function: Callable[[A], B]
    rule: Callable[[A, D], E]
    source: ChangeAction[A, D]
    target: ChangeAction[B, E]
    name: str = "f"

    def __call__(self, value: A, change: D) -> E:
        """The change of the result when `value` changes by `change`."""
        return self.rule(value, change)

    def updated(self, result: B, value: A, change: D) -> B:
        """`function(value ⊕ change)`, from `result = function(value)` and the rule alone."""
        return self.target.apply(result, self.rule(value, change))

    def then(self, outer: Derivative[B, E, C, F]) -> Derivative[A, D, C, F]:
        """First this function, then `outer`, with the chain rule."""
        return compose(outer, self)


def derivative(
    function: Callable[[A], B],
    source: ChangeAction[A, D],
    target: ChangeAction[B, E],
    rule: Callable[[A, D], E] | None = None,
    name: str = "f",
) -> Derivative[A, D, B, E]:
    """A function as a differentiable one; without a rule, with its minus derivative.

    Raises:
        IncompleteActionError: No rule is given and `target` has no minus operator.
    """
    if rule is None:
        return minus_derivative(function, source, target, name)
    return Derivative(function, rule, source, target, name)


def minus_derivative(
    function: Callable[[A], B],
    source: ChangeAction[A, D],
    target: ChangeAction[B, E],
    name: str = "f",
) -> Derivative[A, D, B, E]:
    """`f'(a, da) = f(a ⊕ da) ⊖ f(a)`: always a derivative, never cheaper than recomputing.

    Raises:
        IncompleteActionError: `target` has no minus operator.
    """
    minus = target.minus
    if minus is None:
        raise IncompleteActionError(
            f"{target.name} has no minus operator, so {name} has no minus derivative; give its "
            "rule, or use a complete action for the results"
        )
    return _difference(minus, function, source, target, name)


def _difference(
    minus: Callable[[B, B], E],
    function: Callable[[A], B],
    source: ChangeAction[A, D],
    target: ChangeAction[B, E],
    name: str,
) -> Derivative[A, D, B, E]:
    """`f'(a, da) = f(a ⊕ da) ⊖ f(a)`, by this minus operator."""
    return Derivative(
        function,
        lambda a, d: minus(function(source.apply(a, d)), function(a)),
        source,
        target,
        name,
    )


def compose(outer: Derivative[B, E, C, F], inner: Derivative[A, D, B, E]) -> Derivative[A, D, C, F]:
    """The chain rule: `(g ∘ f)'(a, da) = g'(f(a), f'(a, da))`."""
    return Derivative(
        lambda a: outer.function(inner.function(a)),
        lambda a, d: outer.rule(inner.function(a), inner.rule(a, d)),
        inner.source,
        outer.target,
        f"{outer.name} ∘ {inner.name}",
    )


def pair(*parts: Derivative[A, D, Any, Any]) -> Derivative[A, D, tuple[Any, ...], tuple[Any, ...]]:
    """⟨f₁, …, fₙ⟩ into the product of the targets; all parts share the source of the first."""
    return Derivative(
        lambda a: tuple(part.function(a) for part in parts),
        lambda a, d: tuple(part.rule(a, d) for part in parts),
        parts[0].source,
        product(*(part.target for part in parts)),
        f"⟨{', '.join(part.name for part in parts)}⟩",
    )


def from_partials(
    function: Callable[[tuple[A, B]], C],
    first: Callable[[A, D, B], F],
    second: Callable[[A, B, E], F],
    *,
    sources: tuple[ChangeAction[A, D], ChangeAction[B, E]],
    target: ChangeAction[C, F],
    name: str = "f",
) -> Derivative[tuple[Any, ...], tuple[Any, ...], C, F]:
    """A derivative on a product from the two partial ones.

    Args:
        function: f, called with a pair.
        first: `∂₁f(a, da, b)`, with b held.
        second: `∂₂f(a, b, db)`, with a held.
        sources: The actions on a and on b.
        target: The action on results.
        name: What messages call f.

    The rule moves one coordinate after the other:
    `f'((a, b), (da, db)) = ∂₁f(a, da, b) + ∂₂f(a ⊕ da, b, db)`.
    """
    left = sources[0]

    def rule(value: tuple[Any, ...], change: tuple[Any, ...]) -> F:
        (a, b), (da, db) = value, change
        return target.combine(first(a, da, b), second(left.apply(a, da), b, db))

    return Derivative(
        lambda value: function((value[0], value[1])), rule, product(*sources), target, name
    )


def partial_first(
    whole: Derivative[tuple[Any, ...], tuple[Any, ...], C, F],
    sources: tuple[ChangeAction[A, D], ChangeAction[B, E]],
    second: B,
) -> Derivative[A, D, C, F]:
    """∂₁f at a fixed second argument: `(a, da) -> f'((a, b), (da, 0))`."""
    return Derivative(
        lambda a: whole.function((a, second)),
        lambda a, d: whole.rule((a, second), (d, sources[1].zero)),
        sources[0],
        whole.target,
        f"∂₁{whole.name}",
    )


def partial_second(
    whole: Derivative[tuple[Any, ...], tuple[Any, ...], C, F],
    sources: tuple[ChangeAction[A, D], ChangeAction[B, E]],
    first: A,
) -> Derivative[B, E, C, F]:
    """∂₂f at a fixed first argument: `(b, db) -> f'((a, b), (0, db))`."""
    return Derivative(
        lambda b: whole.function((first, b)),
        lambda b, d: whole.rule((first, b), (sources[0].zero, d)),
        sources[1],
        whole.target,
        f"∂₂{whole.name}",
    )


def identity(action: ChangeAction[A, D]) -> Derivative[A, D, A, D]:
    """The identity; its derivative hands the change on."""
    return Derivative(lambda a: a, lambda _, d: d, action, action, "identity")


def constant(
    value: B, source: ChangeAction[A, D], target: ChangeAction[B, E]
) -> Derivative[A, D, B, E]:
    """The constant function; its derivative is the zero change."""
    return Derivative(lambda _: value, lambda _a, _d: target.zero, source, target, "constant")


def projection(
    index: int, *parts: ChangeAction[Any, Any]
) -> Derivative[tuple[Any, ...], tuple[Any, ...], Any, Any]:
    """π of a product: hands on one component of the change."""
    return Derivative(
        lambda a: a[index], lambda _, d: d[index], product(*parts), parts[index], f"π{index + 1}"
    )


def injection(
    side: int, left: ChangeAction[A, D], right: ChangeAction[B, E]
) -> Derivative[Any, Any, Tagged, tuple[D, E]]:
    """ι of a disjoint union: the other summand's change is zero."""
    parts: tuple[ChangeAction[Any, Any], ChangeAction[Any, Any]] = (left, right)

    def rule(_: Any, change: Any) -> tuple[D, E]:
        return (change, right.zero) if side == 0 else (left.zero, change)

    return Derivative(
        lambda a: Tagged(side, a), rule, parts[side], disjoint_union(left, right), f"ι{side + 1}"
    )


def cases(
    left: Derivative[A, D, C, F], right: Derivative[B, E, C, F]
) -> Derivative[Tagged, tuple[D, E], C, F]:
    """[f, g] out of a disjoint union: the summand decides which function and rule are used."""
    parts: tuple[Derivative[Any, Any, C, F], ...] = (left, right)
    return Derivative(
        lambda a: parts[a.side].function(a.value),
        lambda a, d: parts[a.side].rule(a.value, d[a.side]),
        disjoint_union(left.source, right.source),
        left.target,
        f"[{left.name}, {right.name}]",
    )


def evaluation_first(
    of: Derivative[A, D, B, E], value: A, function_change: Callable[[A], E], change: D
) -> E:
    """ev'₁((f, a), (δf, da)) = f'(a, da) + δf(a ⊕ da): the old function's derivative is known."""
    return of.target.combine(
        of.rule(value, change), function_change(of.source.apply(value, change))
    )


def evaluation_second(
    of_changed: Derivative[A, D, B, E], value: A, function_change: Callable[[A], E], change: D
) -> E:
    """ev'₂((f, a), (δf, da)) = δf(a) + (f ⊕ δf)'(a, da): the new function's one is known."""
    return of_changed.target.combine(function_change(value), of_changed.rule(value, change))


def precise_derivative(
    function: Callable[[A], frozenset[T]],
    source: ChangeAction[A, D],
    target: ChangeAction[frozenset[T], SetChange[T]],
) -> Derivative[A, D, frozenset[T], SetChange[T]]:
    """f'_K: exactly what comes and goes; least in the kernel order."""
    return _difference(minus_precise, function, source, target, "precise")


def greatest_derivative(
    function: Callable[[A], frozenset[T]],
    source: ChangeAction[A, D],
    target: ChangeAction[frozenset[T], SetChange[T]],
) -> Derivative[A, D, frozenset[T], SetChange[T]]:
    """f'_⊤: the upper bound of all derivatives in the change order."""
    return _difference(minus_greatest, function, source, target, "greatest")


def least_derivative(
    function: Callable[[A], frozenset[T]],
    source: ChangeAction[A, D],
    target: ChangeAction[frozenset[T], SetChange[T]],
    universe: frozenset[T],
) -> Derivative[A, D, frozenset[T], SetChange[T]]:
    """f'_⊥: the lower bound of all derivatives in the change order, over a finite universe."""
    return _difference(minus_least(universe), function, source, target, "least")


def between(
    low: Derivative[A, D, B, E],
    candidate: Callable[[A, D], E],
    high: Derivative[A, D, B, E],
    value: A,
    change: D,
) -> bool:
    """The sandwich, at one point: `low ⊑ candidate ⊑ high` in the change order.

    If it holds everywhere between two derivatives of one function, `candidate` is a derivative of
    it too; for sets between the least and the greatest one, exactly then (section 3).

    Raises:
        IncompleteActionError: The target action has no change order.
    """
    leq = low.target.change_leq
    if leq is None:
        raise IncompleteActionError(
            f"{low.target.name} has no order on changes, so there is nothing to be between"
        )
    middle = candidate(value, change)
    return leq(low(value, change), middle) and leq(middle, high(value, change))
