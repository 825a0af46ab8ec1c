"""What a rule says twice is said once: hidden relations, folds, the groups of a fold.

    o(x, n, m) :- p(x), n = count : { q(x, y), y > 1 }, (m = 1 ; r(x, m)).

has two clauses, and each had a hidden relation of its own for what it counts. Alternatives of a
rule multiply, and so did these: one rule of two means, as SQL writes them, had 18 folds over 50
hidden relations, and has 2 over 2. Invariants: visible relations have the same rows; a hidden one
is shared within a rule, so that its variables are shown as this rule has them. Nothing is
recognised through a recursion of hidden relations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import TypeAlias

from deltafix.plan.cache import Cache, numbered
from deltafix.plan.clause import (
    Absent,
    Argument,
    Clause,
    Code,
    Compare,
    Fold,
    Literal,
    Match,
    Slot,
    Subsumption,
    slots_of,
)
from deltafix.plan.depend import needs
from deltafix.plan.normalize import Core
from deltafix.plan.once import once
from deltafix.plan.recognise import spelled_without_name, with_names
from deltafix.rules.strata import components

__all__ = ["share"]


def share(core: Core, cache: Cache | None = None) -> Core:
    """The core with one hidden relation for all that say the same. O(clauses), for each nesting."""
    cache = Cache() if cache is None else cache
    core = once(core, cache)
    while names := _doubles(core, cache):
        kept = {relation.name: relation.name for relation in core.relations}
        known = with_names(core, (kept | names).__getitem__, cache)
        core = replace(
            known,
            relations=tuple(
                relation
                for was, relation in zip(core.relations, known.relations, strict=True)
                if was.name not in names
            ),
            clauses=tuple(
                clause
                for was, clause in zip(core.clauses, known.clauses, strict=True)
                if was.head not in names
            ),
            folds=tuple(
                fold
                for was, fold in zip(core.folds, known.folds, strict=True)
                if was.relation not in names
            ),
        )
    if not core.folds:
        return core
    home = {name: number for number, names in enumerate(components(needs(core))) for name in names}
    return _with_groups(_without_implied(core, home, cache), home, cache)


def _without_implied(core: Core, home: Mapping[str, int], cache: Cache) -> Core:
    """What an aggregate of a clause says of its group is not asked of the group's rows again.

        total(s, n) :- sale(s, _, _), n = sum a : { sale(s, _, a) }.

    has a derivation for each row of a group otherwise, all of which an edit of one row breaks and
    makes again. A group that has a value has a row; one that has none (`!~j(s)`) has no row, so
    the alternative that gives it 0 comes to nothing beside `sale(s, _, _)`. A hidden relation or a
    part of a view that has the groups alone (`some(s) :- sale(s, _, _)`) says the same.
    """
    folds = {name: fold for fold in core.folds for name in fold.outputs if fold.group}
    groups_of = _projections(core, {fold.source for fold in folds.values()})

    def simplified(clause: Clause) -> Clause | None:
        """The clause, if it has any rows; what its folds are is all else that counts."""
        read = [(name, folds[name]) for name in _relations(clause) if name in folds]
        if not read:
            return clause
        own = tuple(home[clause.head] == home[fold.source] for _, fold in read)
        given = (
            clause.asks, own, *((name, fold.source, fold.group) for name, fold in read),
            *((name, groups_of.get(name)) for name in _relations(clause)),
        )  # fmt: skip
        reduced = cache.read("implied", clause, given, partial(without, clause))
        return reduced and numbered(reduced, clause)

    def without(clause: Clause) -> Clause | None:
        groups: set[tuple[str, tuple[tuple[int, Argument], ...]]] = set()
        used = Counter(slot for literal in clause.body for slot in slots_of(literal))
        used.update(arg for arg in clause.args if isinstance(arg, Slot))
        for literal in clause.body:
            if not isinstance(literal, (Match, Absent)) or literal.relation not in folds:
                continue
            fold = folds[literal.relation]
            if home[clause.head] == home[fold.source]:
                continue
            pairs = zip(fold.group, literal.args, strict=False)
            group = tuple(
                sorted(((c, arg) for c, arg in pairs if arg is not None), key=itemgetter(0))
            )
            if isinstance(literal, Match):
                groups.add((fold.source, group))
            elif any(_includes(other, fold.source, group, groups_of) for other in clause.body):
                return None
        body = [
            literal
            for position, literal in enumerate(clause.body)
            if not isinstance(literal, Match)
            or position < clause.asks
            or _said(literal, used, groups_of) not in groups
        ]
        return clause if len(body) == len(clause.body) else replace(clause, body=tuple(body))

    clauses = [clause for clause in map(simplified, core.clauses) if clause is not None]
    unread = {*groups_of, *(fold.present for fold in core.folds)} & _read(core.clauses)
    unread -= {*_read(clauses), *core.demands, *core.apart.values(), *core.indexes}
    return replace(
        core,
        relations=tuple(relation for relation in core.relations if relation.name not in unread),
        clauses=tuple(clause for clause in clauses if clause.head not in unread),
        folds=tuple(
            replace(fold, present=None) if fold.present in unread else fold for fold in core.folds
        ),
    )


def _read(clauses: Iterable[Clause]) -> set[str]:
    return {atom.relation for clause in clauses for atom in clause.atoms}


def _relations(clause: Clause) -> Iterator[str]:
    return (atom.relation for atom in clause.atoms)


def _projections(core: Core, sources: Set[str]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Hidden relations and parts of views that are some columns of one of the sources, and which.

    Rows are given to none of them.
    """
    heads = Counter(clause.head for clause in core.clauses)
    own = {
        relation.name
        for relation in core.relations
        if (relation.of or relation.hidden) and not relation.merge
    }
    projections = {}
    for clause in core.clauses:
        if heads[clause.head] == 1 and clause.head in own and clause.head not in sources:
            projection = _projection(clause)
            if projection is not None and projection[0] in sources:
                projections[clause.head] = projection
    return projections


_Groups: TypeAlias = Mapping[str, tuple[str, tuple[int, ...]]]


def _said(
    literal: Match, used: Mapping[Slot, int], groups_of: _Groups
) -> tuple[str, tuple[tuple[int, Argument], ...]]:
    """The relation of a literal, and which of its columns have which values, not just any.

    Of some columns of another relation that one, and its columns.
    """
    relation, columns = groups_of.get(literal.relation, (literal.relation, ()))
    args = (
        (columns[column] if columns else column, arg)
        for column, arg in enumerate(literal.args)
        if arg is not None and not (isinstance(arg, Slot) and used[arg] == 1)
    )
    return relation, tuple(sorted(args, key=itemgetter(0)))


def _includes(
    literal: Literal, source: str, group: tuple[tuple[int, Argument], ...], groups_of: _Groups
) -> bool:
    """Whether a literal says that the source has a row with these values."""
    if not isinstance(literal, Match):
        return False
    relation, columns = groups_of.get(literal.relation, (literal.relation, ()))
    if relation != source:
        return False
    args = dict(zip(columns or range(len(literal.args)), literal.args, strict=True))
    return all(args.get(column) == arg for column, arg in group)


def _with_groups(core: Core, home: Mapping[str, int], cache: Cache) -> Core:
    """The groups of a view's part are read off an aggregate of theirs, not off the rows again.

    TPC-H's query 1 counts 6 M rows for each of its four groups otherwise. Only parts of views, and
    what a rule asks of whether one has a row: how often these are derived is nobody's to ask. A
    subquery's sum stands beside the question whether there is a row; both say the same body.
    """
    parts = {relation.name for relation in core.relations if relation.of}
    # SQL's sums are reducers of their own; a group that a rule of a text negates stays as it is.
    sums = {fold.source for fold in core.folds if fold.op.startswith("@@")}
    hidden = {relation.name for relation in core.relations if relation.hidden}
    known: dict[tuple[str, tuple[int, ...]], tuple[str, list[int | None]]] = {}
    for fold in core.folds:
        if fold.has_value and not fold.is_always_there:
            key = fold.source, tuple(sorted(fold.group))
            if fold.present is not None:
                known[key] = fold.present, [*fold.group]
            else:
                known.setdefault(key, (fold.relation, [*fold.group, None]))
    if not known or not (parts or sums):
        return core
    heads = Counter(clause.head for clause in core.clauses)
    bodies = _bodies(core, heads, cache)

    def reading(clause: Clause, name: str, args: tuple[Argument | None, ...]) -> Clause:
        make = partial(replace, clause, body=(Match(name, args),))
        return cache.clause("groups", clause, (name, args), make)

    def read(clause: Clause) -> Clause:
        if heads[clause.head] > 1 or not (clause.head in parts or clause.head in hidden):
            return clause
        same = bodies.get(_spelled(clause, cache)) if bodies and clause.head in hidden else None
        if same is not None and home[clause.head] != home[same.source]:
            if same.present is not None:
                return reading(clause, same.present, clause.args)
            return reading(clause, same.relation, (*clause.args, None))
        projection = _projection(clause)
        if projection is None or home[clause.head] == home[projection[0]]:
            return clause
        if clause.head not in parts and projection[0] not in sums:
            return clause
        source, columns = projection
        name, group = known.get((source, tuple(sorted(columns))), ("", []))
        if not name:
            return clause
        args = tuple(
            None if column is None else clause.args[columns.index(column)] for column in group
        )
        return reading(clause, name, args)

    return replace(core, clauses=tuple(map(read, core.clauses)))


def _spelled(clause: Clause, cache: Cache) -> object:
    """How a clause is spelled without its head's name."""
    return cache.read("spelled", clause, (), partial(spelled_without_name, clause))


def _bodies(core: Core, heads: Mapping[str, int], cache: Cache) -> dict[object, Fold]:
    """By the body of what SQL adds up, with its groups as the head: the sum."""
    folds: dict[str, list[Fold]] = {}
    for fold in core.folds:
        if fold.op.startswith("@@") and fold.has_value and heads[fold.source] == 1:
            folds.setdefault(fold.source, []).append(fold)
    bodies: dict[object, Fold] = {}
    for clause in core.clauses if folds else ():
        for fold in folds.get(clause.head, ()):
            group = tuple(clause.args[column] for column in fold.group)
            if not clause.asks:
                shown = partial(_spelled_as, clause, group)
                bodies.setdefault(cache.read("grouped", clause, group, shown), fold)
    return bodies


def _spelled_as(clause: Clause, group: tuple[Argument, ...]) -> object:
    """The same of a clause with other arguments."""
    return spelled_without_name(replace(clause, args=group))


def _projection(clause: Clause) -> tuple[str, tuple[int, ...]] | None:
    """The relation of which a clause has some columns, and which; None: it says more.

    `0 = 0`, by which a negated literal is a group of its own, says nothing, and a new name of a
    column no more than the column.
    """
    body = [
        literal
        for literal in clause.body
        if not (isinstance(literal, Compare) and _is_true(literal))
    ]
    literals = [literal for literal in body if isinstance(literal, Match)]
    if clause.asks or len(literals) != 1:
        return None
    (literal,) = literals
    slots = [arg for arg in literal.args if arg is not None]
    if len({*slots}) < len(slots) or not all(isinstance(arg, Slot) for arg in slots):
        return None
    columns: dict[Argument, Argument] = {slot: slot for slot in slots}
    for other in body:
        if other is literal:
            continue
        if not isinstance(other, Compare) or other.op != "=":
            return None
        new = [side for side in (other.left, other.right) if side not in columns]
        if len(new) != 1 or not isinstance(new[0], Slot):
            return None
        columns[new[0]] = columns[other.right if new[0] == other.left else other.left]
    args = [columns.get(arg) for arg in clause.args]
    if None in args or len({*args}) < len(args):
        return None
    return literal.relation, tuple(literal.args.index(arg) for arg in args)


def _is_true(literal: Compare) -> bool:
    return literal.op == "=" and isinstance(literal.left, Code) and literal.left == literal.right


def _doubles(core: Core, cache: Cache) -> dict[str, str]:
    """The names of relations that another one, by name, stands for."""
    named = {*core.demands, *core.apart.values(), *(relation.entry for relation in core.relations)}
    merges = (
        relation.merge for relation in core.relations if isinstance(relation.merge, Subsumption)
    )
    for order in (order for merge in merges for order in merge.orders):
        named.update(
            literal.relation for literal in order.body if isinstance(literal, (Match, Absent))
        )
    free = {
        relation.name: relation.types
        for relation in core.relations
        if relation.hidden
        and not (relation.is_range or relation.is_domain or relation.merge)
        and relation.name not in named
    }
    clauses_of: dict[str, list[object]] = {}
    for clause in core.clauses:
        if clause.head in free:
            clauses_of.setdefault(clause.head, []).append(
                (clause.rule, clause.asks, _spelled(clause, cache))
            )
    first: dict[object, str] = {}
    doubles: dict[str, str] = {}
    for name, clauses in clauses_of.items():
        other = first.setdefault((free[name], tuple(clauses)), name)
        if other != name:
            doubles[name] = other
    folds: dict[object, Fold] = {}
    for fold in core.folds:
        if not free.keys() >= {*fold.outputs}:
            continue
        types = tuple(free[name] for name in fold.outputs)
        of = folds.setdefault(
            (types, fold.source, fold.group, fold.value, fold.fields, fold.op), fold
        )
        if of is not fold:
            doubles.update(zip(fold.outputs, of.outputs, strict=True))
    _keep_apart(core, doubles)
    return doubles


def _keep_apart(core: Core, doubles: dict[str, str]) -> None:
    """Strike those that would make one literal of two in a clause: each has a row in its proof."""
    for clause in core.clauses:
        matches = [match for match in clause.body if isinstance(match, Match)]
        if doubles.keys().isdisjoint(match.relation for match in matches):
            continue
        seen: set[tuple[str, object]] = set()
        for match in matches:
            literal = doubles.get(match.relation, match.relation), match.args
            if literal in seen:
                doubles.pop(match.relation, None)
            seen.add(literal)
    for fold in core.folds:  # it goes whole or not at all
        if not doubles.keys() >= {*fold.outputs}:
            for name in fold.outputs:
                doubles.pop(name, None)
