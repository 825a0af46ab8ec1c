"""Clauses and hidden relations recognised in another plan: what they say counts, not how.

A clause is the same up to its rule's number, the names of its variables and the order of its
literals (`edits`), and so is a rule (`same_rule`). A hidden relation is the same when its clauses
are, whatever number its name has (`renamed`). Invariants: clauses of equal form have the same
derivations; given rows of one relation never lie where those of another one lay. Not seeing that
two are the same costs work and no more, so these look no further than is quick.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

from deltafix.plan.cache import Cache, identity
from deltafix.plan.clause import (
    Absent,
    Argument,
    Clause,
    Compare,
    Literal,
    Match,
    Merge,
    Relation,
    Slot,
    Subsumption,
)
from deltafix.plan.depend import Layer
from deltafix.plan.normalize import Core
from deltafix.rules.apart import apart
from deltafix.rules.ast import And, Atom, Dominates, Formula, Rule, conjunction
from deltafix.rules.terms import Term, Var
from deltafix.rules.walk import Leaf, map_formula

_NUMBERED = re.compile(r"~\d")
"""Hidden relations that are named by their place in the program."""

_RELATIONAL = ("Head", "Match", "Absent")
_DEPTH = 4
"""How far the clauses of a hidden relation are followed into others."""

Part: TypeAlias = tuple[tuple[object, ...], tuple[Argument | None, ...]]
"""A literal: what it is, and its arguments."""


def edits(
    before: Iterable[Clause], after: Iterable[Clause]
) -> tuple[tuple[Clause, ...], tuple[Clause, ...]]:
    """The clauses that are gone, and those that came. Near linear where little changed."""
    gone, came = _difference(list(before), list(after), identity)
    gone, came = _difference(gone, came, _spelled)
    # a form is costly, SQL makes clauses of hundreds of variables, and of those that come or go
    # most have nothing like them on the other side
    shared = {*map(_outline, gone)} & {*map(_outline, came)}

    def form(clause: Clause) -> object:
        outline = _outline(clause)
        return outline, outline in shared and _form(clause)

    gone, came = _difference(gone, came, form)
    return tuple(gone), tuple(came)


def same_layer(layer: Layer, other: Layer) -> bool:
    """Whether two strata say the same of the same relations."""

    def plain(layer: Layer) -> Layer:
        merges = tuple((name, _unplaced(merge)) for name, merge in layer.merges)
        return replace(layer, clauses=(), merges=merges)

    return plain(layer) == plain(other) and edits(layer.clauses, other.clauses) == ((), ())


def renamed(core: Core, before: Core, cache: Cache) -> Core:
    """The core with hidden relations named as in an earlier one, where they say the same.

    The cache is the one that the core was made with, and has the digests of both after that.
    """
    known = cache.words if cache.core is before else _said(before, Cache())
    digests = _said(core, cache)
    names = _named_alike(core, digests, before, known, cache)
    named = with_names(core, names.__getitem__, cache)
    cache.core, cache.words = named, {names[name]: words for name, words in digests.items()}
    return named


def named_alike(core: Core, before: Core) -> dict[str, str]:
    """What each relation is called, by its name: as in an earlier core, where it says the same.

    Those that are new are named by what they say, so that they have this name whenever they come
    back. Linear in the clauses of hidden relations.
    """
    return _named_alike(core, _said(core, Cache()), before, _said(before, Cache()), Cache())


def _named_alike(
    core: Core, digests: Mapping[str, str], before: Core, known: Mapping[str, str], cache: Cache
) -> dict[str, str]:
    names = {relation.name: relation.name for relation in core.relations if not relation.hidden}
    twice = {
        words
        for words_of in (digests, known)
        for words, n in Counter(words_of.values()).items()
        if n > 1
    }
    mine = _said_and_read(core, digests, twice, cache)
    theirs = _said_and_read(before, known, twice, cache)
    for new, old in ((mine, theirs), (digests, known)):
        taken = set(names.values())
        same = (name for name, words in new.items() if old.get(name) == words)
        names |= {name: name for name in same if name not in names and name not in taken}
        taken.update(names.values())
        free: dict[str, list[str]] = {}
        for name, words in old.items():
            if name not in taken:
                free.setdefault(words, []).append(name)
        for name, words in new.items():
            if name not in names and free.get(words):
                names[name] = free[words].pop(0)
    taken = set(names.values())
    for name, words in digests.items():
        if name not in names:
            candidate = f"~{words}" if _NUMBERED.match(name) else name
            while candidate in taken:
                candidate += "'"
            names[name] = candidate
            taken.add(candidate)
    return names


def _said_and_read(
    core: Core, digests: Mapping[str, str], twice: Set[str], cache: Cache
) -> Mapping[str, str]:
    """What each hidden relation says; where that is said twice, with the clauses that read it.

    Or two would change places, and a rule that reads one of them were another.
    """
    twins = {name for name, words in digests.items() if words in twice}
    if not twins:
        return digests
    readers: dict[str, list[str]] = {name: [] for name in twins}
    for fold in core.folds:
        if fold.source in twins:
            readers[fold.source].append(repr((digests.get(fold.relation, fold.relation), fold.op)))
    for clause in core.clauses:
        read = [atom.relation for atom in clause.atoms]
        for name in twins.intersection(read):
            called = tuple(
                ["*" if one == name else digests.get(one, one) for one in (clause.head, *read)]
            )
            spelled = cache.read("reads", clause, called, partial(_read_as, clause, called))
            readers[name].append(spelled)
    return {
        name: f"{words} {_digest(sorted(readers[name]))}" if name in twins else words
        for name, words in digests.items()
    }


def _read_as(clause: Clause, called: Iterable[str]) -> str:
    """A clause in an order that does not depend on its own, with its relations so called."""
    names = iter(called)
    parts: list[Part] = [
        ((kind, next(names)) if kind in _RELATIONAL else (kind, *rest), args)
        for (kind, *rest), args in _parts(clause)
    ]
    return repr(_arranged(parts[:1], parts[1:]))


def same_rule(rule: Rule | Dominates, other: Rule | Dominates) -> bool:
    """Whether two rules differ in their name, names of variables and order of the body at most."""
    if rule == other:
        return True
    (heads, body), (others, rest) = _conjuncts(rule), _conjuncts(other)
    near = [h.relation for h in heads] == [h.relation for h in others] and len(body) == len(rest)
    return near and _rule_form(rule) == _rule_form(other)


def _conjuncts(rule: Rule | Dominates) -> tuple[tuple[Atom, ...], tuple[Formula, ...]]:
    heads = rule.heads if isinstance(rule, Rule) else (rule.less, rule.more)
    return heads, rule.body.parts if isinstance(rule.body, And) else (rule.body,)


def _rule_form(rule: Rule | Dominates) -> object:
    """A rule as `_form` has a clause; what stands in a group or aggregate keeps its order."""
    heads, body = _conjuncts(rule)
    separated = apart(Rule(heads, conjunction(body)))

    def part(formula: Formula) -> Part:
        slots: list[Slot] = []

        def leaf(term: Leaf) -> Term:
            if not isinstance(term, Var):
                return term
            slots.append(Slot(term.name))
            return replace(term, name="")

        return (repr(map_formula(formula, leaf)),), tuple(slots)

    heads, body = _conjuncts(separated)
    return _arranged(list(map(part, heads)), list(map(part, body)))


def _difference(
    before: list[Clause], after: list[Clause], form: Callable[[Clause], object]
) -> tuple[list[Clause], list[Clause]]:
    """What is left of two lists when clauses of equal form are struck from both."""
    shown = list(map(form, after))
    left = Counter(shown)
    gone = []
    for clause in before:
        spelled = form(clause)
        if left[spelled]:
            left[spelled] -= 1
        else:
            gone.append(clause)
    came = []
    for clause, spelled in zip(after, shown, strict=True):
        if left[spelled]:
            left[spelled] -= 1
            came.append(clause)
    return gone, came


def _part(literal: Literal) -> Part:
    if isinstance(literal, (Match, Absent)):
        return (type(literal).__name__, literal.relation), literal.args
    if isinstance(literal, Compare):
        return ("Compare", literal.op, literal.type), (literal.left, literal.right)
    form = ("Apply", literal.functor, literal.types, literal.result)
    return form, (literal.target, *literal.args)


def _parts(clause: Clause) -> list[Part]:
    return [(("Head", clause.head), clause.args), *map(_part, clause.body)]


def _numbered(parts: Iterable[Part]) -> tuple[object, ...]:
    """Literals with their variables numbered as they come."""
    slots: dict[Slot, int] = {}

    def shown(arg: Argument | None) -> object:
        if isinstance(arg, Slot):
            return slots.setdefault(arg, len(slots))
        return None if arg is None else (arg.type, repr(arg.value))

    return tuple((form, tuple(map(shown, args))) for form, args in parts)


def _spelled(clause: Clause) -> object:
    return _numbered(_parts(clause))


def spelled_without_name(clause: Clause) -> tuple[Any, ...]:
    """A clause but for its head's name and rule, with its variables numbered as they come."""
    return _numbered([(("Head",), clause.args), *map(_part, clause.body)])


def _outline(clause: Clause) -> object:
    """What clauses of one form have in common, told quickly: their literals without arguments."""
    return clause.head, tuple(sorted(repr(form) for form, _ in _parts(clause)))


def _form(clause: Clause) -> object:
    """The clause with its literals in an order that does not depend on the one they have."""
    head, *body = _parts(clause)
    return _arranged([head], body)


def _arranged(heads: list[Part], body: list[Part]) -> object:
    """Parts in their order, and others in one that does not depend on the one they have.

    Variables are told apart by where they stand, again and again; of those that nothing tells
    apart the first is told apart by decree.
    """
    args = (arg for _, part_args in (*heads, *body) for arg in part_args)
    slots = dict.fromkeys(arg for arg in args if isinstance(arg, Slot))
    colors = dict.fromkeys(slots, 0)

    def colored(part: Part) -> str:
        form, args = part
        shown = [colors[a] if isinstance(a, Slot) else a and (a.type, repr(a.value)) for a in args]
        return repr((form, shown))

    def refine() -> None:
        while True:
            seen: dict[Slot, list[str]] = {slot: [str(colors[slot])] for slot in slots}
            for part in (*heads, *body):
                spelled = colored(part)
                for position, arg in enumerate(part[1]):
                    if isinstance(arg, Slot):
                        seen[arg].append(f"{position} {spelled}")
            signs = {
                slot: repr((occurrences[0], sorted(occurrences[1:])))
                for slot, occurrences in seen.items()
            }
            ranks = {sign: rank for rank, sign in enumerate(sorted(set(signs.values())))}
            if len(ranks) == len(set(colors.values())):
                return
            colors.update({slot: ranks[sign] for slot, sign in signs.items()})

    refine()
    while len(set(colors.values())) < len(slots):
        counts = Counter(colors.values())
        twin = next(s for s in sorted(slots, key=colors.__getitem__) if counts[colors[s]] > 1)
        colors[twin] = max(colors.values()) + 1
        refine()
    return _numbered([*heads, *sorted(body, key=colored)])


def _unplaced(merge: Merge) -> Merge:
    """What a relation keeps of its rows, without the numbers of rules."""
    if not isinstance(merge, Subsumption):
        return merge
    return Subsumption(tuple(replace(order, rule=-1) for order in merge.orders))


def _said(core: Core, cache: Cache) -> dict[str, str]:
    """A digest of what each hidden relation says, by name.

    One in which given rows lie is that of its relation, however much another says the same. What
    says what it did when the cache was asked last, and reads only such, is not read again.
    """
    homes = {relation.entry: relation.name for relation in core.relations}
    homes |= {home: name for name, home in core.apart.items()}
    derives: dict[str, list[Clause]] = {
        relation.name: [] for relation in core.relations if relation.hidden
    }
    for clause in core.clauses:
        if clause.head in derives:
            derives[clause.head].append(clause)
    folds = {
        name: (fold, position) for fold in core.folds for position, name in enumerate(fold.outputs)
    }
    records: dict[str, Said] = {}
    for relation in core.relations:
        if relation.hidden:
            name = relation.name
            fold, position = folds.get(name, (None, 0))
            folded = fold and (fold.source, fold.group, fold.value, fold.fields, fold.op)
            clauses = derives[name]
            ids = tuple([(id(clause.args), id(clause.body)) for clause in clauses])
            sign = (_kind(relation), homes.get(name), folded, position, ids)
            before = cache.said.get(name)
            is_known = before is not None and before.sign == sign
            records[name] = before if is_known and before else Said(sign, clauses, [])
    changed = [name for name, entry in records.items() if not entry.words]
    readers: dict[str, list[str]] = {}
    for name, entry in records.items():
        for read in entry.reads():
            readers.setdefault(read, []).append(name)
    for name in changed:  # which grows
        for reader in readers.get(name, ()):
            if records[reader].words:
                records[reader] = records[reader]._replace(words=[])
                changed.append(reader)
    cache.misses += len(changed)
    cache.said = records
    forms = {name: [*map(spelled_without_name, records[name].clauses)] for name in changed}

    def word(name: str, level: int) -> str:
        return records[name].words[level] if name in records else name

    def inside(form: tuple[Any, ...], level: int) -> object:
        return tuple(
            ((kind, word(rest[0], level), *rest[1:]) if rest else (kind,), args)
            for (kind, *rest), args in form
        )

    for name in changed:
        records[name].words.append(_digest(records[name].sign[:2]))
    for level in range(_DEPTH):
        for name in changed:
            kind, home, folded, position, _ = records[name].sign
            bodies = sorted(repr(inside(form, level)) for form in forms[name])
            of = folded and (word(folded[0], level), *folded[1:])
            records[name].words.append(_digest(((kind, home), bodies, of, position)))
    return {name: entry.words[-1] for name, entry in records.items()}


class Said(NamedTuple):
    """What a hidden relation says: how that is told apart, its clauses, a digest for each depth."""

    sign: tuple[Any, ...]
    clauses: list[Clause]
    words: list[str]

    def reads(self) -> Iterator[str]:
        """The relations that it reads."""
        if self.sign[2]:
            yield self.sign[2][0]
        for clause in self.clauses:
            yield from (atom.relation for atom in clause.atoms)


def _kind(relation: Relation) -> object:
    return relation.types, relation.is_range, relation.is_domain, str(relation.merge)


def _digest(content: object) -> str:
    return blake2b(repr(content).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def with_names(core: Core, name_of: Callable[[str], str], cache: Cache | None = None) -> Core:
    """The core with its relations under other names."""
    changed = {
        relation.name for relation in core.relations if name_of(relation.name) != relation.name
    }
    if not changed:
        return core
    cache = Cache() if cache is None else cache

    def named(clause: Clause) -> Clause:
        read = [atom.relation for atom in clause.atoms]
        if clause.head not in changed and changed.isdisjoint(read):
            return clause
        names = name_of(clause.head), *map(name_of, read)
        return cache.clause(
            "names", clause, names, lambda: replace(clause, head=names[0], body=body(clause.body))
        )

    def body(literals: tuple[Literal, ...]) -> tuple[Literal, ...]:
        return tuple(
            replace(literal, relation=name_of(literal.relation))
            if isinstance(literal, (Match, Absent))
            else literal
            for literal in literals
        )

    def merged(merge: Merge | None) -> Merge | None:
        if not isinstance(merge, Subsumption):
            return merge
        return Subsumption(tuple(replace(order, body=body(order.body)) for order in merge.orders))

    def mapped(names: Mapping[str, Any]) -> dict[str, Any]:
        return {name_of(name): value for name, value in names.items()}

    return replace(
        core,
        relations=tuple(
            replace(
                relation,
                name=name_of(relation.name),
                entry=relation.entry and name_of(relation.entry),
                merge=merged(relation.merge),
            )
            if relation.name in changed or relation.entry or relation.merge
            else relation
            for relation in core.relations
        ),
        clauses=tuple(map(named, core.clauses)),
        folds=tuple(
            replace(
                fold,
                relation=name_of(fold.relation),
                source=name_of(fold.source),
                present=fold.present and name_of(fold.present),
            )
            for fold in core.folds
        ),
        demands=mapped(core.demands),
        apart={name_of(name): name_of(home) for name, home in core.apart.items()},
    )
