"""Terms of a clause that say the same are computed once, and those of constants here.

    o(x, a) :- p(x, y), a = (x + 1) * (x + 1) * (60 * 60).

asks for `x + 1` once and multiplies by 3600. SQL's arithmetic asks of each operand whether a result
may leave its type, and wrote an operand out each time: a product of three columns had 44 terms, and
has 20. Invariant: a clause has the same rows; variables that an atom binds stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from deltafix.plan.cache import Cache
from deltafix.plan.clause import (
    Absent,
    Apply,
    Argument,
    Clause,
    Code,
    Literal,
    Match,
    Slot,
    slots_of,
)
from deltafix.plan.normalize import Core
from deltafix.rules.values import function

_FOLDED = frozenset(("+", "-", "*"))
"""What is computed here where both arguments are constants: what always has a value."""


def once(core: Core, cache: Cache) -> Core:
    """The core without terms that are there already. O(terms), for each nesting of them."""
    read = (
        cache.clause("once", clause, clause.asks, partial(_once, clause)) for clause in core.clauses
    )
    return replace(core, clauses=tuple(read))


def _once(clause: Clause) -> Clause:
    if not any(isinstance(literal, Apply) for literal in clause.body):
        return clause
    while True:
        bound = {slot for atom in clause.atoms for slot in slots_of(atom)}
        targets = Counter(literal.target for literal in clause.body if isinstance(literal, Apply))
        known: dict[object, Slot] = {}
        instead: dict[Slot, Argument] = {}
        body: list[Literal] = []
        for position, literal in enumerate(clause.body):
            if (
                position >= clause.asks
                and isinstance(literal, Apply)
                and literal.target not in bound
            ):
                target = literal.target
                value = _value(literal)
                same = known.setdefault(_term(literal), target)
                if value is not None and targets[target] == 1:
                    instead[target] = value
                    continue
                # Several terms may say one variable: the next round looks at the others.
                taken = {target, same} & instead.keys() or target in instead.values()
                if same != target and not taken:
                    instead[target] = same
                    continue
            body.append(literal)
        if not instead:
            return clause
        args = tuple(_put(arg, instead) for arg in clause.args)
        clause = replace(clause, args=args, body=tuple(_with(literal, instead) for literal in body))


def _term(literal: Apply) -> object:
    """All of a call but what its value is called."""
    kinds = literal.types, literal.result, literal.fields, literal.partial
    return literal.functor, literal.args, kinds


def _value(literal: Apply) -> Code | None:
    """The value of a term of whole constants."""
    values = [arg.value for arg in literal.args if isinstance(arg, Code)]
    kind = literal.result
    is_whole = kind in ("number", "unsigned") and {*literal.types} == {kind}
    if literal.functor not in _FOLDED or not is_whole or len(values) < len(literal.args):
        return None
    return Code(function(literal.functor, kind)(*values), kind)


def _put(arg: Argument, instead: Mapping[Slot, Argument]) -> Argument:
    return instead.get(arg, arg) if isinstance(arg, Slot) else arg


def _with(literal: Literal, instead: Mapping[Slot, Argument]) -> Literal:
    """A literal with other arguments in place of variables that only terms bind."""
    if isinstance(literal, (Match, Absent)) or instead.keys().isdisjoint(slots_of(literal)):
        return literal
    if isinstance(literal, Apply):
        target = _put(literal.target, instead)
        assert isinstance(target, Slot)  # noqa: S101  one that several terms say is no constant
        args = tuple(_put(arg, instead) for arg in literal.args)
        return replace(literal, target=target, args=args)
    left, right = _put(literal.left, instead), _put(literal.right, instead)
    return replace(literal, left=left, right=right)
