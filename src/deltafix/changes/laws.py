"""Every law of the algebra of change, each a named predicate with a sentence for its failure.

Two nouns: a `Verdict` (true, or false with a sentence) and a `Law` (a predicate, its name, its
statement and what it is quantified over). Invariant: a predicate is asked at one point and answers
for that point alone; `check` decides which points. A value is always shown the same way (sets
sorted, no ids), so a sentence can be pinned in a test. Groups: `action_laws` (action, monoid,
minus, order), `derivative_laws` (derivative, regularity, sandwich), and the fixpoint laws.

Source: Fixing incremental computation, sections 2 to 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from deltafix.changes.action import ChangeAction
from deltafix.changes.combined import Tagged
from deltafix.changes.derivative import Derivative, between
from deltafix.changes.fixpoint import lfp
from deltafix.changes.sets import SetChange

A = TypeVar("A")
B = TypeVar("B")
D = TypeVar("D")
E = TypeVar("E")

Kind: TypeAlias = Literal["value", "change"]
"""What a law is quantified over, per argument."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a law holds at a point; if not, `sentence` says what differs, with the values."""

    holds: bool
    sentence: str = ""

    def __bool__(self) -> bool:
        return self.holds


HOLDS = Verdict(True)


@dataclass(frozen=True, slots=True)
class Law:
    """A law bound to an action or a derivative: call `holds` with one argument per kind."""

    name: str
    statement: str
    kinds: tuple[Kind, ...]
    holds: Callable[..., Verdict]


def _unless(broken: bool, sentence: Callable[[], str]) -> Verdict:
    return Verdict(False, sentence()) if broken else HOLDS


# --- the action and its monoid --------------------------------------------------------------


def action_identity(action: ChangeAction[A, D], a: A) -> Verdict:
    """`a ⊕ 0 = a`."""
    after = action.apply(a, action.zero)
    return _unless(
        not action.equal(after, a),
        lambda: f"the zero change turns {show(a)} into {show(after)}; it must change nothing",
    )


def action_composes(action: ChangeAction[A, D], a: A, d: D, e: D) -> Verdict:
    """`a ⊕ (d + e) = (a ⊕ d) ⊕ e`."""
    together = action.apply(a, action.combine(d, e))
    one_by_one = action.apply(action.apply(a, d), e)
    return _unless(
        not action.equal(together, one_by_one),
        lambda: (
            f"from {show(a)}, the change ({show(d)}) and then ({show(e)}) lead to "
            f"{show(one_by_one)}, but the two combined into ({show(action.combine(d, e))}) "
            f"lead to {show(together)}"
        ),
    )


def monoid_left_identity(action: ChangeAction[A, D], d: D) -> Verdict:
    """`0 + d = d`."""
    got = action.combine(action.zero, d)
    return _unless(
        not action.equal_change(got, d),
        lambda: f"the zero change, then ({show(d)}), combine into ({show(got)})",
    )


def monoid_right_identity(action: ChangeAction[A, D], d: D) -> Verdict:
    """`d + 0 = d`."""
    got = action.combine(d, action.zero)
    return _unless(
        not action.equal_change(got, d),
        lambda: f"({show(d)}), then the zero change, combine into ({show(got)})",
    )


def monoid_associative(action: ChangeAction[A, D], d: D, e: D, f: D) -> Verdict:
    """`(d + e) + f = d + (e + f)`."""
    left = action.combine(action.combine(d, e), f)
    right = action.combine(d, action.combine(e, f))
    return _unless(
        not action.equal_change(left, right),
        lambda: (
            f"combining ({show(d)}), ({show(e)}) and ({show(f)}) gives ({show(left)}) or "
            f"({show(right)}), depending on which two are combined first"
        ),
    )


def values_closed(action: ChangeAction[A, D], a: A, d: D) -> Verdict:
    """`a ⊕ d` is a value again."""
    after = action.apply(a, d)
    return _unless(
        not action.is_value(after),
        lambda: f"({show(d)}) turns {show(a)} into {show(after)}, not a value of {action.name}",
    )


def changes_closed(action: ChangeAction[A, D], d: D, e: D) -> Verdict:
    """`d + e` is a change again."""
    both = action.combine(d, e)
    return _unless(
        not action.is_change(both),
        lambda: (
            f"({show(d)}) and ({show(e)}) combine into ({show(both)}), "
            f"not a change of {action.name}"
        ),
    )


def minus_law(action: ChangeAction[A, D], a: A, b: A) -> Verdict:
    """`a ⊕ (b ⊖ a) = b`."""
    change = action.difference(b, a)
    after = action.apply(a, change)
    return _unless(
        not action.equal(after, b),
        lambda: (
            f"the difference from {show(a)} to {show(b)} is given as ({show(change)}), "
            f"but applying it to {show(a)} gives {show(after)}"
        ),
    )


# --- order ----------------------------------------------------------------------------------


def action_monotone(action: ChangeAction[A, D], a: A, b: A, d: D) -> Verdict:
    """`a ≤ b` implies `a ⊕ d ≤ b ⊕ d`; vacuous without an order on values."""
    if action.leq is None or not action.leq(a, b):
        return HOLDS
    low, high = action.apply(a, d), action.apply(b, d)
    return _unless(
        not action.leq(low, high),
        lambda: (
            f"{show(a)} is below {show(b)}, but after ({show(d)}) the first is {show(low)} and "
            f"the second {show(high)}"
        ),
    )


def change_order_sound(action: ChangeAction[A, D], a: A, d: D, e: D) -> Verdict:
    """`d ⊑ e` implies `a ⊕ d ≤ a ⊕ e`; vacuous without both orders."""
    if action.leq is None or action.change_leq is None or not action.change_leq(d, e):
        return HOLDS
    low, high = action.apply(a, d), action.apply(a, e)
    return _unless(
        not action.leq(low, high),
        lambda: (
            f"({show(d)}) counts as below ({show(e)}), but they turn {show(a)} into {show(low)} "
            f"and {show(high)}"
        ),
    )


def combine_monotone(action: ChangeAction[A, D], d: D, e: D, f: D) -> Verdict:
    """`d ⊑ e` implies `d + f ⊑ e + f` and `f + d ⊑ f + e`; vacuous without an order."""
    leq = action.change_leq
    if leq is None or not leq(d, e):
        return HOLDS
    fine = leq(action.combine(d, f), action.combine(e, f)) and leq(
        action.combine(f, d), action.combine(f, e)
    )
    return _unless(
        not fine,
        lambda: f"({show(d)}) is below ({show(e)}), but not any more combined with ({show(f)})",
    )


# --- derivatives ----------------------------------------------------------------------------


def derivative_law(of: Derivative[A, D, B, E], a: A, d: D) -> Verdict:
    """`f(a ⊕ d) = f(a) ⊕ f'(a, d)`."""
    before, change = of.function(a), of.rule(a, d)
    updated = of.target.apply(before, change)
    right = of.function(of.source.apply(a, d))
    return _unless(
        not of.target.equal(updated, right),
        lambda: (
            f"at {show(a)}, {of.name} is {show(before)}; when the argument changes by "
            f"({show(d)}), the derivative says ({show(change)}), which makes {show(updated)}, "
            f"but {of.name} is then {show(right)}"
        ),
    )


def regular_law(of: Derivative[A, D, B, E], a: A, d: D, e: D) -> Verdict:
    """`f'(a, d + e) = f'(a, d) + f'(a ⊕ d, e)` in effect on f(a); natural, but not required."""
    at = of.function(a)
    at_once = of.target.apply(at, of.rule(a, of.source.combine(d, e)))
    step = of.target.combine(of.rule(a, d), of.rule(of.source.apply(a, d), e))
    in_steps = of.target.apply(at, step)
    return _unless(
        not of.target.equal(at_once, in_steps),
        lambda: (
            f"at {show(a)}, changing by ({show(d)}) and ({show(e)}) in one step makes "
            f"{show(at_once)}, in two steps {show(in_steps)}"
        ),
    )


def sandwich_law(
    low: Derivative[A, D, B, E],
    candidate: Derivative[A, D, B, E],
    high: Derivative[A, D, B, E],
    a: A,
    d: D,
) -> Verdict:
    """`low ⊑ candidate ⊑ high` between two derivatives makes `candidate` one (section 3.1)."""
    if not between(low, candidate, high, a, d):
        return HOLDS
    return derivative_law(candidate, a, d)


# --- fixpoints ------------------------------------------------------------------------------


def fixpoint_law(of: Derivative[A, D, A, D], x: A) -> Verdict:
    """`f(x) = x`."""
    after = of.function(x)
    return _unless(
        not of.target.equal(after, x),
        lambda: f"{show(x)} is not a fixpoint of {of.name}: it is mapped to {show(after)}",
    )


def least_law(of: Derivative[A, D, A, D], x: A, other: A) -> Verdict:
    """`x ≤ other` for every fixpoint `other`; vacuous if it is not one, or without an order."""
    leq = of.target.leq
    if leq is None or not fixpoint_law(of, other):
        return HOLDS
    return _unless(
        not leq(x, other),
        lambda: f"{show(other)} is a fixpoint of {of.name} too, and {show(x)} is not below it",
    )


def lfp_change_law(action: ChangeAction[A, D], old: A, change: D, new: A) -> Verdict:
    """`lfp f ⊕ lfp'(f, δf) = lfp (f ⊕ δf)`."""
    got = action.apply(old, change)
    return _unless(
        not action.equal(got, new),
        lambda: (
            f"the old fixpoint {show(old)} changed by ({show(change)}) is {show(got)}, but the "
            f"new function's least fixpoint is {show(new)}"
        ),
    )


def factoring_law(
    first: Derivative[A, D, A, D],
    second: Callable[[A], Derivative[B, E, B, E]],
    bottoms: tuple[A, B],
) -> Verdict:
    """`lfp (a, b ↦ (f a, g(a, b))) = (lfp f, lfp (g (lfp f)))`: the case of Bekić's lemma.

    `second(a)` is `g(a, ·)`. Both functions are monotone and their iterations end.
    """
    inner = lfp(first, bottoms[0]).value
    apart = (inner, lfp(second(inner), bottoms[1]).value)
    together, before = bottoms, None
    while together != before:
        before = together
        together = (first.function(before[0]), second(before[0]).function(before[1]))
    return _unless(
        together != apart,
        lambda: f"together they are {show(together)}, one after the other {show(apart)}",
    )


# --- the laws as lists ----------------------------------------------------------------------


def action_laws(action: ChangeAction[Any, Any]) -> tuple[Law, ...]:
    """The laws an action claims to keep: minus and order laws only where it has them."""

    def law(predicate: Callable[..., Verdict], *kinds: Kind) -> Law:
        return _bound(predicate, action, kinds)

    laws = [
        law(action_identity, "value"),
        law(action_composes, "value", "change", "change"),
        law(monoid_left_identity, "change"),
        law(monoid_right_identity, "change"),
        law(monoid_associative, "change", "change", "change"),
        law(values_closed, "value", "change"),
        law(changes_closed, "change", "change"),
    ]
    if action.complete:
        laws.append(law(minus_law, "value", "value"))
    if action.leq is not None:
        laws.append(law(action_monotone, "value", "value", "change"))
    if action.leq is not None and action.change_leq is not None:
        laws.append(law(change_order_sound, "value", "change", "change"))
    if action.change_leq is not None:
        laws.append(law(combine_monotone, "change", "change", "change"))
    return tuple(laws)


def derivative_laws(
    of: Derivative[Any, Any, Any, Any], *, regular: bool = False
) -> tuple[Law, ...]:
    """The derivative law, and on request the regularity law (natural, not required)."""
    laws = [_bound(derivative_law, of, ("value", "change"))]
    if regular:
        laws.append(_bound(regular_law, of, ("value", "change", "change")))
    return tuple(laws)


def _bound(predicate: Callable[..., Verdict], subject: object, kinds: Sequence[Kind]) -> Law:
    statement = (predicate.__doc__ or "").strip().splitlines()[0].rstrip(".")
    return Law(
        predicate.__name__,
        statement,
        tuple(kinds),
        lambda *point: predicate(subject, *point),
    )


def show(value: object) -> str:
    """One line of text for a value or a change."""
    match value:
        case frozenset() | set():
            return "{" + ", ".join(sorted(map(show, value))) + "}"
        case SetChange():
            return f"add {show(value.added)}, remove {show(value.removed)}"
        case Mapping():
            entries = sorted(f"{show(k)}: {show(v)}" for k, v in value.items())
            return "{" + ", ".join(entries) + "}"
        case tuple():
            inner = ", ".join(map(show, value))
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        case Tagged():
            return f"{'left' if value.side == 0 else 'right'} {show(value.value)}"
        case _ if callable(value):
            return getattr(value, "__name__", None) or "a function"
        case _:
            return repr(value)
