"""Steps that test or compute: comparisons and functors, with the meaning of `rules.values`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from deltafix.facts.values import BaseType
from deltafix.plan.clause import Apply, Compare
from deltafix.plan.ir import Check
from deltafix.rules.values import NO_VALUE, comparison, function, numbers

if TYPE_CHECKING:
    from deltafix.engine.beyond.join import Frame, Next

Meaning: TypeAlias = Callable[[str, tuple[BaseType, ...], BaseType], Callable[..., Any]]
"""From a functor's name, argument types and result type to its function on values."""


def intrinsic(functor: str, types: tuple[BaseType, ...], result: BaseType) -> Callable[..., Any]:
    """The meaning of functors that need neither a database nor a user. Raises KeyError."""
    del result
    return function(functor, types[0])


def same_value(x: object, y: object) -> bool:
    """Whether two values of one type are equal; NaN, one object, equals itself."""
    return x is y or x == y


def check_step(frame: Frame, step: Check, meaning: Meaning, chain: Next) -> Next:
    """The step of a comparison or a functor."""
    if isinstance(step.literal, Compare):
        return _compare(frame, step, step.literal, chain)
    assert isinstance(step.literal, Apply)  # noqa: S101  negation is the join's
    literal = step.literal
    args = [frame.cell(arg) for arg in literal.args]
    target = frame.cell(literal.target)
    if literal.functor == "range":
        return _range(frame.cells, literal, (*args, target), chain, binds=step.binds is not None)
    call = meaning(literal.functor, literal.types, literal.result)
    if step.binds is None:
        return _tested(frame.cells, _applied(call, args), target, chain)
    return _computed(frame.cells, call, args, target, chain)


def _compare(frame: Frame, step: Check, literal: Compare, chain: Next) -> Next:
    cells = frame.cells
    left, right = frame.cell(literal.left), frame.cell(literal.right)
    if step.binds is not None:
        target = frame.cell(step.binds)
        source = left if target == right else right

        def move(rank: int) -> None:
            cells[target] = cells[source]
            chain(rank)

        return move
    test = comparison(literal.op, literal.type)

    def check(rank: int) -> None:
        if test(cells[left], cells[right]):
            chain(rank)

    return check


def _applied(call: Callable[..., Any], args: Sequence[int]) -> Callable[[list[Any]], Any]:
    return lambda cells: call(*[cells[cell] for cell in args])


def _computed(
    cells: list[Any], call: Callable[..., Any], args: Sequence[int], target: int, chain: Next
) -> Next:
    if len(args) == 2:  # arithmetic, nearly always
        left, right = args

        def binary(rank: int) -> None:
            value = call(cells[left], cells[right])
            if value is not NO_VALUE:
                cells[target] = value
                chain(rank)

        return binary
    apply = _applied(call, args)

    def compute(rank: int) -> None:
        value = apply(cells)
        if value is not NO_VALUE:
            cells[target] = value
            chain(rank)

    return compute


def _tested(cells: list[Any], apply: Callable[[list[Any]], Any], target: int, chain: Next) -> Next:
    def test(rank: int) -> None:
        value = apply(cells)
        if value is not NO_VALUE and same_value(value, cells[target]):
            chain(rank)

    return test


def _range(
    cells: list[Any], literal: Apply, indices: Sequence[int], chain: Next, *, binds: bool
) -> Next:
    *args, target = indices

    def each(rank: int) -> None:
        wanted = cells[target]
        for value in numbers(literal.result, *[cells[cell] for cell in args]):
            if binds:
                cells[target] = value
                chain(rank)
            elif same_value(value, wanted):
                chain(rank)

    return each
