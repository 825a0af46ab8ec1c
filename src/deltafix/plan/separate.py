"""Bodies whose parts share nothing: a part without a variable of the head is a test.

    o(x) :- a(x), b(_, _), c(y), d(y).     =>     o(x) :- a(x), ~1(), ~2().
                                                  ~1() :- b(_, _).    ~2() :- c(y), d(y).

so that `o` has a derivation per row of `a`, not one per row of the product. A literal that the
body repeats goes once. Invariant: the clauses have the same rows; a part is left where it is when
it has at most one row, and when it reads its own recursion where that negates, joins or drops rows
(such a stratum takes no further member).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from deltafix.plan.clause import Absent, Clause, Literal, Match, Slot, slots_of
from deltafix.plan.flatten import Made
from deltafix.rules.strata import components


def separate(made: Made) -> None:
    """Set the parts of all clauses apart. Near linear in the clauses."""
    clauses = [replace(one, body=tuple(dict.fromkeys(one.body))) for one in made.clauses]
    found = [_tests(clause) for clause in clauses]
    made.clauses[:] = clauses
    if not any(found):
        return
    closed = _closed(made)
    names: dict[tuple[Literal, ...], str] = {}
    for number, (clause, parts) in enumerate(zip(clauses, found, strict=True)):
        for part in parts:
            if closed.get(clause.head, frozenset()) & {_read(literal) for literal in part}:
                continue
            if part not in names:
                names[part] = made.hide(())
                made.clauses.append(Clause(names[part], (), part, clause.rule))
            now = made.clauses[number]
            # In the place of its first literal: proofs name premises in the order of the body.
            body = tuple(
                Match(names[part], ()) if literal == part[0] else literal
                for literal in now.body
                if literal not in part[1:]
            )
            made.clauses[number] = replace(now, body=body)


def _tests(clause: Clause) -> list[tuple[Literal, ...]]:
    """The parts of a body that share no variable with the head or each other, and multiply."""
    home: dict[Slot, Slot] = {}

    def root(slot: Slot) -> Slot:
        while (above := home.setdefault(slot, slot)) != slot:
            home[slot] = home[above]
            slot = above
        return slot

    def join(slots: Iterable[Slot]) -> None:
        first, *others = (root(slot) for slot in slots)
        for other in others:
            home[root(other)] = root(first)

    for literal in clause.body:
        if slots := slots_of(literal):
            join(slots)
    heads = {root(arg) for arg in clause.args if isinstance(arg, Slot)}
    parts: dict[object, list[Literal]] = {}
    for place, literal in enumerate(clause.body):
        slots = slots_of(literal)
        key: object = root(slots[0]) if slots else place
        if key not in heads:
            parts.setdefault(key, []).append(literal)
    found = [tuple(part) for part in parts.values() if any(map(_multiplies, part))]
    near = any(_multiplies(one) for one in clause.body if not any(one in part for part in found))
    return found if len(found) + near > 1 else []


def _multiplies(literal: Literal) -> bool:
    """Whether more than one row may fit, before anything is known."""
    return isinstance(literal, Match) and any(
        arg is None or isinstance(arg, Slot) for arg in literal.args
    )


def _read(literal: Literal) -> str:
    return literal.relation if isinstance(literal, Match | Absent) else ""


def _closed(made: Made) -> dict[str, frozenset[str]]:
    """By relation, its stratum, where that negates, joins or drops rows of its own."""
    needed: dict[str, dict[str, None]] = {relation.name: {} for relation in made.relations}
    for clause in made.clauses:
        for literal in clause.body:
            if isinstance(literal, Match | Absent):
                needed[clause.head][literal.relation] = None
    for fold in made.folds:
        for name in fold.made:
            needed[name][fold.source] = None
    home = {name: frozenset(members) for members in components(needed) for name in members}
    special = {relation.name for relation in made.relations if relation.merge is not None}
    for clause in made.clauses:
        if home[clause.head] & {one.relation for one in clause.body if isinstance(one, Absent)}:
            special.add(clause.head)
    special.update(fold.relation for fold in made.folds if fold.source in home[fold.relation])
    return {name: home[one] for one in special for name in home[one]}
