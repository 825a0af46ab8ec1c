"""Connectives of one's own: ∧, ∨ and ¬ with another name, and with rules of its own.

`connective` takes what a connective means and how it changes, as functions of its parts, and
refuses a derivative that is none. A part has four states, `now`, `up`, `down` and `next`.
Invariant: the rules of a `Connective` that it gives are a derivative at every point, imprecise
changes included; as they look at one tuple at a time, that is a finite question, and needs no
prover. In formulae it stands as `Connected`; `deltafix.reactive.Holds` runs its rules in the
engine.

Source: Fixing incremental computation, section 4.2 (what is asked of a formula's derivative).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias, get_args

from deltafix.changes import formula as f
from deltafix.changes.evaluate import Interpretation, Rows, holds
from deltafix.changes.formula_derivative import PRECISE, differentiate
from deltafix.changes.sets import SetChange
from deltafix.changes.simplify import simplify
from deltafix.errors import ChangeError, LawError

__all__ = ["MOST_PARTS", "Part", "connective", "holds_of_nothing", "turns"]

MOST_PARTS = 5
"""Each part has six points (there or not; comes, goes or stays), and all combinations are tried."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a connective, in each of its states."""

    name: str

    @property
    def now(self) -> f.Formula:
        """Before the change."""
        return f.Relation(self.name, ())

    @property
    def up(self) -> f.Formula:
        """Added."""
        return f.Relation(self.name, (), "up")

    @property
    def down(self) -> f.Formula:
        """Removed."""
        return f.Relation(self.name, (), "down")

    @property
    def next(self) -> f.Formula:
        """After the change."""
        return f.Relation(self.name, (), "next")


Says: TypeAlias = Callable[..., f.Formula]


def connective(
    name: str, holds: Says, *, up: Says | None = None, down: Says | None = None
) -> f.Connective:
    """A connective that is known to change as it says.

    Args:
        name: how formulae and messages show it.
        holds: when it holds, of its parts' `now`; the function's parameters name the parts.
        up: what is added, of the parts in all states; without it, what follows from `holds` by
            the rules for ∧, ∨ and ¬.
        down: what is removed, likewise.

    Raises:
        LawError: (↑, ↓) is no derivative, with the smallest case where it fails.
        ChangeError: no parts, or more than `MOST_PARTS`; or a formula of something else.
    """
    parts = [Part(parameter) for parameter in inspect.signature(holds).parameters]
    if not 0 < len(parts) <= MOST_PARTS:
        raise ChangeError(f"{name} has {len(parts)} parts; 1 to {MOST_PARTS} are valid")
    names = tuple(part.name for part in parts)
    means = holds(*parts)
    _require_parts(name, "what holds", means, names, ("now",))
    derived = differentiate(means, rules=PRECISE)
    defined = f.Connective(
        name,
        names,
        means,
        simplify(up(*parts)) if up else derived.up,
        simplify(down(*parts)) if down else derived.down,
    )
    for side, formula in (("↑", defined.up), ("↓", defined.down)):
        _require_parts(name, side, formula, names, get_args(f.State))
    _require_derivative(defined)
    return defined


def _require_parts(
    name: str, side: str, formula: f.Formula, parts: Sequence[str], states: Sequence[str]
) -> None:
    if isinstance(formula, f.Relation):
        if formula.name not in parts or formula.args or formula.state not in states:
            raise ChangeError(
                f"{name}: {side} reads {formula}; it may read the parts {', '.join(parts)}, "
                f"each {' or '.join(states)}"
            )
    elif not isinstance(formula, f.Truth | f.And | f.Or | f.Not):
        raise ChangeError(f"{name}: {side} is {formula}; valid are ∧, ∨, ¬, ⊤ and ⊥ over its parts")
    for part in f.children(formula):
        _require_parts(name, side, part, parts, states)


def turns(operator: f.Connective) -> dict[tuple[int, int], tuple[bool, bool]]:
    """What the rules say where one part comes or goes, as (↑, ↓). O(parts · 2^parts).

    By the parts that were there, as bits, and the number of the part that turns.
    """
    said_of = {}
    for bits, turned in product(
        range(1 << len(operator.parameters)), range(len(operator.parameters))
    ):
        points = {}
        for number, name in enumerate(operator.parameters):
            held = bool(bits >> number & 1)
            points[name] = (held, _STAYS if number != turned else _GOES if held else _COMES)
        said_of[bits, turned] = (_truth(operator.up, points), _truth(operator.down, points))
    return said_of


def holds_of_nothing(operator: f.Connective) -> bool:
    """Whether the connective holds where none of its parts does."""
    return _truth(operator.holds, dict.fromkeys(operator.parameters, (False, _STAYS)))


_Points: TypeAlias = Mapping[str, tuple[bool, SetChange[tuple[Hashable, ...]]]]
"""Each part is there or not, and changes or stays."""

_HERE: Rows = frozenset({()})
_NONE: Rows = frozenset()
_STAYS, _COMES, _GOES = SetChange(_NONE, _NONE), SetChange(_HERE, _NONE), SetChange(_NONE, _HERE)
_SAID = {_STAYS: "stays", _COMES: "comes", _GOES: "goes"}
_SAYS = {
    (False, False): "stays",
    (True, False): "comes",
    (False, True): "goes",
    (True, True): "comes and goes",
}


def _truth(formula: f.Formula, points: _Points) -> bool:
    relations = {name: _HERE if there else _NONE for name, (there, _) in points.items()}
    changes = {name: change for name, (_, change) in points.items()}
    return holds(formula, {}, Interpretation((), relations, changes))


def _require_derivative(operator: f.Connective) -> None:
    each = list(product((False, True), (_STAYS, _COMES, _GOES)))
    everywhere = (
        dict(zip(operator.parameters, points, strict=True))
        for points in product(each, repeat=len(operator.parameters))
    )
    for points in sorted(everywhere, key=_size):
        after = {
            name: (change == _COMES or (held and change != _GOES), _STAYS)
            for name, (held, change) in points.items()
        }
        now, then = _truth(operator.holds, points), _truth(operator.holds, after)
        up, down = _truth(operator.up, points), _truth(operator.down, points)
        by_rules = (now or up) and not down
        if by_rules != then or (up and down):
            where = ", ".join(
                f"{name} {'holds' if held else 'does not hold'} and {_SAID[change]}"
                for name, (held, change) in points.items()
            )
            raise LawError(
                f"{operator.name} breaks the law derivative_law (`f(a ⊕ d) = f(a) ⊕ f'(a, d)`): "
                f"where {where}, it {_SAYS[up, down]}, by its rules, "
                f"but it {_SAYS[then > now, then < now]}",
                law="derivative_law",
                example=(points,),
            )


def _size(points: _Points) -> int:
    """How much of a case there is to read: idle changes last."""
    return sum(
        there + 2 * (change != _STAYS) + 3 * (change == (_COMES if there else _GOES))
        for there, change in points.values()
    )
