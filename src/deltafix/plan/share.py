"""Hidden relations that say the same are one, and so are folds of the same rows.

    o(x, n, m) :- p(x), n = count : { q(x, y), y > 1 }, (m = 1 ; r(x, m)).

has two clauses, and each had a hidden relation of its own for what it counts. Alternatives of a
rule multiply, and so did these: one rule of two means, as SQL writes them, had 18 folds over 50
hidden relations, and has 2 over 2. Invariants: visible relations have the same rows; a hidden one
is shared within a rule, so that its variables are shown as this rule has them. Nothing is
recognised through a recursion of hidden relations.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from deltafix.plan.clause import Absent, Clause, Fold, Match, Slot, Subsumption
from deltafix.plan.depend import needs
from deltafix.plan.normalize import Core
from deltafix.plan.recognise import spelled_without_name, with_names
from deltafix.rules.strata import components

__all__ = ["share"]


def share(core: Core) -> Core:
    """The core with one hidden relation for all that say the same. O(clauses), for each nesting."""
    while names := _doubles(core):
        kept = {one.name: one.name for one in core.relations}
        known = with_names(core, (kept | names).__getitem__)
        core = replace(
            known,
            relations=tuple(
                one
                for was, one in zip(core.relations, known.relations, strict=True)
                if was.name not in names
            ),
            clauses=tuple(
                one
                for was, one in zip(core.clauses, known.clauses, strict=True)
                if was.head not in names
            ),
            folds=tuple(
                one
                for was, one in zip(core.folds, known.folds, strict=True)
                if was.relation not in names
            ),
        )
    return _with_groups(core)


def _with_groups(core: Core) -> Core:
    """The groups of a view's part are read off an aggregate of theirs, not off the rows once more.

    TPC-H's query 1 counts 6 M rows for each of its four groups otherwise. Only parts of views: how
    often their rows are derived is nobody's to ask.
    """
    parts = {one.name for one in core.relations if one.of}
    known = {(one.source, one.group): one.present for one in core.folds if one.present}
    if not parts or not known:
        return core
    home = {name: number for number, names in enumerate(components(needs(core))) for name in names}
    heads = Counter(one.head for one in core.clauses)

    def read(clause: Clause) -> Clause:
        if clause.head not in parts or heads[clause.head] > 1:
            return clause
        found = _projection(clause)
        present = known.get(found) if found is not None else None
        if found is None or present is None or home[clause.head] == home[found[0]]:
            return clause
        return replace(clause, body=(Match(present, clause.args),))

    return replace(core, clauses=tuple(map(read, core.clauses)))


def _projection(clause: Clause) -> tuple[str, tuple[int, ...]] | None:
    """The relation of which a clause has some columns, and which; None: it says more."""
    literal = clause.body[0] if len(clause.body) == 1 else None
    if not isinstance(literal, Match):
        return None
    slots = [arg for arg in literal.args if arg is not None]
    if len({*slots}) < len(slots) or not all(isinstance(arg, Slot) for arg in slots):
        return None
    if len({*clause.args}) < len(clause.args) or not {*clause.args} <= {*slots}:
        return None
    return literal.relation, tuple(literal.args.index(arg) for arg in clause.args)


def _doubles(core: Core) -> dict[str, str]:
    """The names of relations that another one, by name, stands for."""
    named = {*core.demands, *core.apart.values(), *(one.entry for one in core.relations)}
    merges = (one.merge for one in core.relations if isinstance(one.merge, Subsumption))
    for order in (order for merge in merges for order in merge.orders):
        named.update(one.relation for one in order.body if isinstance(one, Match | Absent))
    free = {
        one.name: one.types
        for one in core.relations
        if one.hidden and not (one.is_range or one.is_domain or one.merge) and one.name not in named
    }
    said: dict[str, list[object]] = {}
    for clause in core.clauses:
        if clause.head in free:
            said.setdefault(clause.head, []).append(
                (clause.rule, clause.asks, spelled_without_name(clause))
            )
    first: dict[object, str] = {}
    doubles: dict[str, str] = {}
    for name, clauses in said.items():
        other = first.setdefault((free[name], tuple(clauses)), name)
        if other != name:
            doubles[name] = other
    folds: dict[object, Fold] = {}
    for fold in core.folds:
        if not free.keys() >= {*fold.made}:
            continue
        types = tuple(free[name] for name in fold.made)
        of = folds.setdefault((types, fold.source, fold.group, fold.value, fold.op), fold)
        if of is not fold:
            doubles.update(zip(fold.made, of.made, strict=True))
    _keep_apart(core, doubles)
    return doubles


def _keep_apart(core: Core, doubles: dict[str, str]) -> None:
    """Strike those that would make one literal of two in a clause: each has a row in its proof."""
    for clause in core.clauses:
        found = [one for one in clause.body if isinstance(one, Match)]
        if doubles.keys().isdisjoint(one.relation for one in found):
            continue
        seen: set[tuple[str, object]] = set()
        for one in found:
            literal = doubles.get(one.relation, one.relation), one.args
            if literal in seen:
                doubles.pop(one.relation, None)
            seen.add(literal)
    for fold in core.folds:  # it goes whole or not at all
        if not doubles.keys() >= {*fold.made}:
            for name in fold.made:
                doubles.pop(name, None)
