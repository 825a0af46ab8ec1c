"""Atoms that only what is computed of their columns joins to the rest, found by that value.

    r(x, y) :- p(x, a), q(b, y), b = a + 1.     =>     r(x, y) :- ~1(x, b), q(b, y).
                                                       ~1(x, b) :- p(x, a), b = a + 1.

A row of `q` that comes or goes looks up the rows of `p` that it meets by an index of the hidden
relation; it looked at each row of `p`, and so did each search for another derivation in a
recursion. The atom goes there with what computes the value and what tests no more than these; of
its columns those stay that the rest asks for.

Left as they are: atoms that are found by a column; values of several atoms; calls of SQL that may
raise, which are made for the rows that they were made for; what the head's own recursion negates,
joins or drops. Invariant: a clause is folded, so it derives the rows that it derived, whichever
atoms are chosen here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from deltafix.plan.binding import Equal, is_construction
from deltafix.plan.cache import Cache, numbered
from deltafix.plan.clause import (
    Absent,
    Apply,
    Clause,
    Compare,
    Literal,
    Match,
    Relation,
    Slot,
    slots_of,
)
from deltafix.rules.autoinc import AUTOINC

if TYPE_CHECKING:
    from deltafix.facts.values import BaseType
    from deltafix.plan.flatten import Draft


class Strata(NamedTuple):
    """By relation, its stratum; by those whose stratum negates, joins or drops rows of its own, it.

    A relation that is in no recursion is a stratum of its own.
    """

    home: Mapping[str, Set[str]]
    closed: Mapping[str, Set[str]]


def find_by_value(draft: Draft, strata: Callable[[Draft], Strata], cache: Cache) -> None:
    """Set such atoms of all clauses apart. Near linear in the clauses."""
    candidates = [number for number, clause in enumerate(draft.clauses) if _is_candidate(clause)]
    if not candidates:
        return
    home, closed = strata(draft)
    single = {fold.relation for fold in draft.folds if not fold.group}
    known = {relation.name: relation for relation in draft.relations}
    for number in candidates:
        clause = draft.clauses[number]
        own = home[clause.head]
        kept = single.union(closed.get(clause.head, ()))
        read = {literal.relation for literal in clause.body if isinstance(literal, Match)}
        given = tuple(
            (known[name], known[name].key, name in kept, name in own) for name in sorted(read)
        )
        rewrite = partial(_rewritten, clause, kept, own, known, draft)
        rewritten, apart = cache.read("computed", clause, given, rewrite)
        draft.clauses[number] = numbered(rewritten, clause)
        for relation, definition in apart:
            if relation.name not in known:
                known[relation.name] = relation
                draft.relations.append(relation)
                draft.clauses.append(numbered(definition, clause))


def _is_candidate(clause: Clause) -> bool:
    """Whether it has several atoms, and computes: most clauses do not."""
    return len(clause.atoms) > 1 and any(map(_is_total, clause.body))


def _is_total(literal: Literal) -> TypeGuard[Apply]:
    """Whether it computes one value, whatever it is given, and the same each time."""
    return (
        isinstance(literal, Apply)
        and not (literal.partial or is_construction(literal))
        and not literal.functor.startswith(AUTOINC)
    )


def _rewritten(
    clause: Clause, kept: Set[str], own: Set[str], known: Mapping[str, Relation], draft: Draft
) -> tuple[Clause, list[tuple[Relation, Clause]]]:
    """The clause with hidden relations in position of such atoms, and these with their clauses.

    One at a time: the other atom is found by a value that is a column of its own.
    """
    apart: list[tuple[Relation, Clause]] = []
    kept = {*kept}
    while (first := _first(clause, kept)) is not None:
        position, taken = first
        atom = clause.body[position]
        assert isinstance(atom, Match)  # noqa: S101  the kind that was asked for
        gone = {*map(id, (atom, *taken))}
        left = [literal for literal in clause.body if id(literal) not in gone]
        needed = {*clause.args}.union(*map(slots_of, left))
        if atom.relation in own:  # another derivation of its rows is looked for by these
            needed |= {*slots_of(atom)}
        slots = tuple(slot for slot in dict.fromkeys(_slots((atom, *taken))) if slot in needed)
        relation = _relation(draft.next_name(), atom, slots, taken, known)
        apart.append((relation, Clause(relation.name, slots, (atom, *taken), clause.rule)))
        kept |= {relation.name}  # which has all values of its atom that joined it to others
        before = [literal for literal in clause.body[:position] if id(literal) not in gone]
        body = (*before, Match(relation.name, slots), *left[len(before) :])
        clause = replace(clause, body=body)
    return clause, apart


def _relation(
    name: str,
    atom: Match,
    slots: tuple[Slot, ...],
    taken: Iterable[Literal],
    known: Mapping[str, Relation],
) -> Relation:
    """The hidden relation of these columns; a key of the atom's rows is one of its own."""
    types = _types((atom, *taken), known)
    key = [atom.args[column] for column in known[atom.relation].key]
    is_unique = {*slots} >= {*key}
    return Relation(
        name,
        tuple(map(types.__getitem__, slots)),
        hidden=True,
        key=tuple(n for n, slot in enumerate(slots) if slot in key) if is_unique else (),
    )


def _first(clause: Clause, kept: Set[str]) -> tuple[int, list[Literal]] | None:
    """The position of an atom that is to be set apart, and what goes with it."""
    body = clause.body
    for position, calls in _computed(body, kept).items():
        atom = body[position]
        assert isinstance(atom, Match)  # noqa: S101  the kind that was asked for
        if position >= clause.asks and (taken := _taken(clause, atom, calls)):
            return position, taken
    return None


def _slots(literals: Iterable[Literal]) -> Iterator[Slot]:
    return (slot for literal in literals for slot in slots_of(literal))


def _computed(body: Sequence[Literal], kept: Set[str]) -> dict[int, list[Apply]]:
    """The positions of atoms that only values join to others, with the calls that compute these."""
    equal = Equal(body)
    component = _components(equal.atoms)
    if len({*component.values()}) < 2 and not any(isinstance(one, Absent) for one in body):
        return {}
    values = [{*map(equal.root, slots_of(literal))} for literal in body]
    readers = {value: {*positions} for value, positions in equal.atoms.items()}
    for position, literal in enumerate(body):
        if isinstance(literal, Absent):
            for value in values[position]:
                readers.setdefault(value, set()).add(position)
    computed: dict[int, list[Apply]] = {}
    for value, calls in equal.makers.items():
        for position in calls:
            call, behind = body[position], {*equal.behind(position)}
            if not _is_total(call) or not behind or value in behind:
                continue
            holders = set.intersection(*(equal.atoms[source] for source in behind))
            free = [n for n in sorted(holders) if _relation_of(body[n]) not in kept]
            if not free:
                continue
            others = (
                source for other in calls if other != position for source in equal.behind(other)
            )
            partners = readers.get(value, set()).union(*(equal.atoms[source] for source in others))
            near = (
                {component[atom] for source in values[n] for atom in equal.atoms.get(source, ())}
                for n in partners
            )
            if any(component[free[0]] not in joined for joined in near):
                narrow = min(free, key=lambda n: len(values[n]))
                computed.setdefault(narrow, []).append(call)
    return computed


def _relation_of(literal: Literal) -> str:
    return literal.relation if isinstance(literal, Match) else ""


def _components(atoms: Mapping[Slot, Set[int]]) -> dict[int, int]:
    """By the position of an atom the first of those that columns join it to, directly or not."""
    home: dict[int, int] = {}

    def root(position: int) -> int:
        while (above := home.setdefault(position, position)) != position:
            home[position] = position = home[above]
        return position

    for positions in atoms.values():
        first, *others = sorted(positions)
        for other in others:
            low, high = sorted((root(first), root(other)))
            home[high] = low
        root(first)
    return {position: root(position) for position in home}


def _taken(clause: Clause, atom: Match, calls: Iterable[Apply]) -> list[Literal]:
    """What goes with an atom: the calls and what they need, and what tests no more than that.

    Nothing where what computes the calls' arguments may raise.
    """
    others = (
        literal
        for literal in clause.body
        if isinstance(literal, (Match, Absent)) and literal is not atom
    )
    known = {*slots_of(atom)}
    foreign = {*_slots(others)} - known
    waiting = [
        literal
        for literal in clause.body[clause.asks :]
        if (isinstance(literal, Compare) or is_construction(literal) or _is_total(literal))
        and foreign.isdisjoint(slots_of(literal))
    ]
    makers: dict[Slot, Literal] = {}
    tests: list[Literal] = []
    size = 0
    while size != len(waiting):
        size, rest = len(waiting), []
        for literal in waiting:
            new = _gives(literal, known)
            if new is None:
                rest.append(literal)
                continue
            makers |= dict.fromkeys(new, literal)
            known.update(new)
            if not new or _opens(literal, new):
                tests.append(literal)
        waiting = rest
    needed: list[Literal] = [call for call in calls if known.issuperset(slots_of(call)[1:])]
    if not needed:
        return []
    needed += tests
    taken: set[int] = set()
    while needed:
        literal = needed.pop()
        if id(literal) not in taken:
            taken.add(id(literal))
            needed += (makers[slot] for slot in slots_of(literal) if slot in makers)
    return [literal for literal in clause.body if id(literal) in taken]


def _gives(literal: Literal, known: Set[Slot]) -> tuple[Slot, ...] | None:
    """The variables that a literal gives a value where these have one; None: it cannot run yet."""
    new = tuple(dict.fromkeys(slot for slot in slots_of(literal) if slot not in known))
    if isinstance(literal, Compare):
        is_given = literal.op == "=" and len(new) == 1 and literal.left != literal.right
        return new if not new or is_given else None
    is_ready = isinstance(literal, Apply) and new in {(), (literal.target,)}
    return new if is_ready or _opens(literal, new) else None


def _opens(literal: Literal, new: Sequence[Slot]) -> bool:
    """Whether it gives fields of a record that is known, which `nil` has not."""
    if not isinstance(literal, Apply) or not is_construction(literal):
        return False
    return new == (literal.target,) if literal.fields else literal.target not in new


def _types(body: Iterable[Literal], known: Mapping[str, Relation]) -> dict[Slot, BaseType]:
    """The types of the variables of some literals."""
    types: dict[Slot, BaseType] = {}
    for literal in body:
        if isinstance(literal, Compare):
            types |= dict.fromkeys(slots_of(literal), literal.type)
            continue
        columns = literal.types if isinstance(literal, Apply) else known[literal.relation].types
        pairs = zip(literal.args, columns, strict=True)
        types |= {slot: kind for slot, kind in pairs if isinstance(slot, Slot)}
        if isinstance(literal, Apply):
            types[literal.target] = literal.result
    return types
