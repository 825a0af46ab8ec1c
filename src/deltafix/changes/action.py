"""Change actions: a set of values, a monoid of changes, and what a change does to a value.

One noun lives here, `ChangeAction`, and its three operations: `apply` (⊕), `combine` (+) and the
optional `minus` (⊖). Invariant: an action is data, a frozen record of functions, so that actions
are built from actions (`products`, `maps`, …) and every law of `laws` can be asked of any of them.
This module checks nothing: whether an action keeps the laws is `laws`' and `check`'s business.

Source: Fixing incremental computation, section 2 (definitions of change action and minus operator).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from deltafix.errors import IncompleteActionError

A = TypeVar("A")
D = TypeVar("D")


def _anything(_: object) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)  # no slots: `ChangeAction[…](…)` fails with both on 3.11
class ChangeAction(Generic[A, D]):
    """The triple (A, ΔA, ⊕): values of type `A`, changes of type `D`.

    Laws (each a predicate in `deltafix.changes.laws`), for all values a, b and changes d, e, f:

    - `a ⊕ 0 = a` and `a ⊕ (d + e) = (a ⊕ d) ⊕ e` (the monoid acts);
    - `0 + d = d = d + 0` and `(d + e) + f = d + (e + f)` (changes are a monoid);
    - `a ⊕ (b ⊖ a) = b` where there is a minus operator (the action is complete);
    - where there are orders, `⊕` and `+` are monotone, and `d ⊑ e` implies `a ⊕ d ≤ a ⊕ e`.

    Attributes:
        name: What messages call this action, e.g. `sets`.
        zero: The change that changes nothing.
        combine: `combine(d, e)`, the change "first d, then e".
        apply: `apply(a, d)`, the value a after change d.
        minus: `minus(to, frm)`, a change that turns `frm` into `to`; None if not complete.
        leq: The order on values, or None where there is none.
        change_leq: The order on changes, or None.
        equal: Equality of values; differs from `==` for functions.
        equal_change: Equality of changes.
        is_value: Whether an object is a value of this action (checked by `check`, never inside).
        is_change: Whether an object is a change of this action.
    """

    name: str
    zero: D
    combine: Callable[[D, D], D]
    apply: Callable[[A, D], A]
    minus: Callable[[A, A], D] | None = None
    leq: Callable[[A, A], bool] | None = None
    change_leq: Callable[[D, D], bool] | None = None
    equal: Callable[[A, A], bool] = operator.eq
    equal_change: Callable[[D, D], bool] = operator.eq
    is_value: Callable[[object], bool] = _anything
    is_change: Callable[[object], bool] = _anything

    @property
    def complete(self) -> bool:
        """Whether any value can be changed into any other, i.e. there is a minus operator."""
        return self.minus is not None

    def difference(self, to: A, frm: A) -> D:
        """A change that turns `frm` into `to`.

        Raises:
            IncompleteActionError: This action has no minus operator.
        """
        if self.minus is None:
            raise IncompleteActionError(
                f"{self.name} has no minus operator, so there need not be a change from {frm!r} "
                f"to {to!r}; use a complete change action, or give the derivative's rule"
            )
        return self.minus(to, frm)

    def changes_action(self) -> ChangeAction[D, D]:
        """The action (ΔA, ΔA, +): changes to changes are changes (section 2.1)."""
        return ChangeAction(
            name=f"changes of {self.name}",
            zero=self.zero,
            combine=self.combine,
            apply=self.combine,
            leq=self.change_leq,
            change_leq=self.change_leq,
            equal=self.equal_change,
            equal_change=self.equal_change,
            is_value=self.is_change,
            is_change=self.is_change,
        )
