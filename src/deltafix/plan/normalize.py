"""Checked rules to core clauses: alternatives split, terms flattened, negations made ground.

One rule becomes a clause per head and alternative. A term inside an argument or comparison
becomes an intermediate variable with an `Apply`. A negation that ranges over more than one row
(`!p(x, _)`, or a group) becomes a hidden relation of the values it is asked for:

    r(x) :- p(x), !q(x, _).     =>    ~1(x) :- q(x, _).    r(x) :- p(x), !~1(x).

so that the kernel only ever looks up whole rows, and counting makes the hidden relation exact. An
aggregate becomes a `Fold` into a hidden relation (`plan.folds`), a `range` a relation of its
numbers (`plan.ranges`), what a group inside recursion is asked for a relation of its own
(`plan.domains`), what a relation keeps of its rows more clauses (`plan.keep`), a disjunction that
stays whole (`rules.whole`) one of the variables that it shares with the rest, and a part of a body
that shares nothing with the rest a test. Invariant: the clauses have the rules' meaning. The work
on one clause is `plan.flatten`'s.

A part of a body that shares nothing with the rest and has no variable of the head is a test:

    o(x) :- a(x), b(_, _), c(y), d(y).     =>     o(x) :- a(x), ~1(), ~2().
                                                  ~1() :- b(_, _).    ~2() :- c(y), d(y).

so that `o` has a derivation per row of `a`, not one per row of the product. A part is left where it
is when it has at most one row, and when it reads its own recursion where that negates, joins or
drops rows. What only a computed value joins to the rest is set apart, too (`plan.computed`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from deltafix.diagnostics import Diagnostic, render_all
from deltafix.errors import ProgramError
from deltafix.plan.cache import Cache, numbered
from deltafix.plan.clause import (
    Absent,
    Clause,
    Compare,
    Fold,
    Literal,
    Match,
    Relation,
    Slot,
    slots_of,
)
from deltafix.plan.computed import Strata, find_by_value
from deltafix.plan.domains import ask_domains
from deltafix.plan.flatten import Demand, Draft, Flattening
from deltafix.plan.keep import keep
from deltafix.plan.ranges import write_out_ranges
from deltafix.rules.ast import Program, RelationDecl, Rule
from deltafix.rules.autoinc import counts
from deltafix.rules.check import CheckedProgram
from deltafix.rules.infer import Typed
from deltafix.rules.schemas import schemas_of
from deltafix.rules.strata import components
from deltafix.rules.walk import alternatives, occurrences
from deltafix.rules.whole import Recursions, is_marked, written_out


@dataclass(frozen=True, slots=True)
class Core:
    """A program as relations, clauses and folds; a fact of the text is a clause without a body.

    `demands` says of a hidden relation what only its own recursion can ask it for, `apart` where
    the rows given to a relation lie if not in it, `indexes` the columns by which it is to be
    indexed whatever the rules need. `program` is where all this comes from: errors look at it, and
    where there is none, no relation is left out (`plan.pipelined`).
    """

    relations: tuple[Relation, ...]
    clauses: tuple[Clause, ...]
    folds: tuple[Fold, ...] = ()
    demands: Mapping[str, Demand] = field(default_factory=dict, compare=False, repr=False)
    apart: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    indexes: Mapping[str, tuple[tuple[int, ...], ...]] = field(
        default_factory=dict, compare=False, repr=False
    )
    program: Program | None = field(default=None, compare=False, repr=False)

    def refusal(self, diagnostic: Diagnostic) -> ProgramError:
        """The error that refuses the program for a reason that only its core shows."""
        program = self.program
        text = None if program is None else program.source
        sources = {} if program is None or text is None else {program.path: text}
        return ProgramError(render_all([diagnostic], sources), [diagnostic])

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.clauses, *self.folds)))


def normalize(checked: CheckedProgram, cache: Cache | None = None) -> Core:
    """The core of a checked program; rules that are the very ones of before are not read again."""
    program, cache = checked.program, Cache() if cache is None else cache
    draft = Draft(
        schemas_of(program),
        [
            Relation(r.name, program.column_types(r.name), of=r.of, key=r.key, shifts=r.shifts)
            for r in program.relations
        ],
    )
    draft.hidden = cache.hidden
    recursions = Recursions(program, checked.strata)
    recursion = recursions.home
    again = Counter[int]()
    for number, typed in enumerate(checked.rules):
        rule = typed.rule
        kinds = cache.of("kinds", typed, (), partial(_kinds, rule))
        homes = tuple(recursion.get(head.relation, frozenset()) for head in rule.heads)
        multiplies = kinds.is_marked and recursions.multiply(rule)
        read = partial(_rule_draft, program, draft, number, typed, homes, multiplies=multiplies)
        # What `autoinc` gives follows from the calls before it.
        given = (homes, multiplies, again[id(typed)])
        added = read() if kinds.counts else cache.of("flatten", typed, given, read)
        again[id(typed)] += 1  # one rule said twice has hidden relations of its own each time
        _add(draft, added, number)
    ask_domains(draft, frozenset(name for name in recursion if program.keeps(name)))
    keep(checked, draft)
    separate(draft, cache)
    write_out_ranges(draft, program.word_size)
    find_by_value(draft, _strata, cache)
    cache.hidden = draft.hidden
    return Core(
        tuple(draft.relations),
        tuple(draft.clauses),
        tuple(draft.folds),
        draft.demands,
        draft.apart,
        {
            relation.name: tuple(_indexes(relation))
            for relation in program.relations
            if relation.indexes
        },
        program,
    )


class _Kinds(NamedTuple):
    """What a rule has that few have: calls of `autoinc`, disjunctions that stay whole."""

    counts: bool
    is_marked: bool


def _kinds(rule: Rule) -> _Kinds:
    return _Kinds(counts(rule), is_marked(rule.body))


def _rule_draft(
    program: Program,
    draft: Draft,
    number: int,
    typed: Typed,
    homes: tuple[frozenset[str], ...],
    *,
    multiplies: bool,
) -> Draft:
    """What one rule adds; `homes` are the recursions of its heads."""
    rule = typed.rule
    added = Draft(draft.schemas, [], calls=draft.calls, hidden=draft.hidden)
    body = written_out(rule.body) if multiplies else rule.body
    for head, home in zip(rule.heads, homes, strict=True):
        for alternative, case in enumerate(alternatives(body)):
            total = occurrences((*rule.heads, *case))
            flat = Flattening(program, typed, (number, alternative), added, total)
            flat.recursion = home
            flat.clause(head, case)
    draft.hidden = added.hidden
    return added


def _add(draft: Draft, added: Draft, number: int) -> None:
    """Add what a rule says, which is now of this number."""
    first = len(draft.clauses)
    draft.relations += added.relations
    draft.clauses += [
        clause if clause.rule == number else replace(clause, rule=number)
        for clause in added.clauses
    ]
    draft.folds += added.folds
    draft.demands |= added.demands
    draft.asking |= {first + offset: asks for offset, asks in added.asking.items()}


def _indexes(declared: RelationDecl) -> Iterator[tuple[int, ...]]:
    """The positions of the columns of each index; whole rows are found without one."""
    names = [column.name for column in declared.attributes]
    for index in declared.indexes:
        columns = tuple(sorted({names.index(name) for name in index}))
        if len(columns) < len(names):
            yield columns


def separate(draft: Draft, cache: Cache) -> None:
    """Set the parts of all clauses apart. Near linear in the clauses."""
    read = [
        cache.read("separate", clause, (), partial(_read_once, clause)) for clause in draft.clauses
    ]
    clauses = [
        numbered(rest, clause) for (rest, _), clause in zip(read, draft.clauses, strict=True)
    ]
    tests_of = [tests for _, tests in read]
    draft.clauses[:] = clauses
    if not any(tests_of):
        return
    closed = _strata(draft).closed
    names: dict[tuple[Literal, ...], str] = {}
    for number, (clause, parts) in enumerate(zip(clauses, tests_of, strict=True)):
        around = closed.get(clause.head, frozenset())
        apart = [part for part in parts if around.isdisjoint(map(_read, part))]
        for part in apart:
            if part not in names:
                names[part] = cache.of("test", part, (), draft.next_name)
                draft.relations.append(Relation(names[part], (), hidden=True))
                draft.clauses.append(Clause(names[part], (), part, clause.rule))
        if apart:
            given = tuple(map(names.__getitem__, apart))
            draft.clauses[number] = cache.clause(
                "tests", clause, given, partial(_tested, clause, apart, given)
            )


def _tested(clause: Clause, parts: Sequence[tuple[Literal, ...]], names: Sequence[str]) -> Clause:
    """The clause with a test for each part, which is of a name.

    It is in the place of the part's first literal: proofs name premises in the order of the body.
    """
    tests = {part[0]: Match(name, ()) for part, name in zip(parts, names, strict=True)}
    rest = {literal for part in parts for literal in part[1:]}
    body = tuple(tests.get(literal, literal) for literal in clause.body if literal not in rest)
    return replace(clause, body=body)


def _read_once(clause: Clause) -> tuple[Clause, list[tuple[Literal, ...]]]:
    """The clause with each literal once, without names that nobody reads, and its tests."""
    body = _without_names(clause, tuple(dict.fromkeys(clause.body)))
    reduced = clause if len(body) == len(clause.body) else replace(clause, body=body)
    return reduced, _tests(reduced)


def _without_names(clause: Clause, body: tuple[Literal, ...]) -> tuple[Literal, ...]:
    """A body without equations that only give a name, which nothing else has.

    SQL names each column that an outer join may lack, and shows a few.
    """
    names = {
        position
        for position, literal in enumerate(body)
        if position >= clause.asks and isinstance(literal, Compare) and literal.op == "="
    }
    if not names:
        return body
    used = Counter([slot for literal in body for slot in slots_of(literal)])
    used.update([arg for arg in clause.args if isinstance(arg, Slot)])
    kept: list[Literal] = []
    for position in range(len(body) - 1, -1, -1):
        literal = body[position]
        if position in names and any(used[slot] == 1 for slot in slots_of(literal)):
            used.subtract(slots_of(literal))
        else:
            kept.append(literal)
    return tuple(reversed(kept)) if any(isinstance(literal, Match) for literal in kept) else body


def _tests(clause: Clause) -> list[tuple[Literal, ...]]:
    """The parts of a body that share no variable with the head or each other, and multiply."""
    if sum(map(_multiplies, clause.body)) < 2:
        return []
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
    for position, literal in enumerate(clause.body):
        slots = slots_of(literal)
        key: object = root(slots[0]) if slots else position
        if key not in heads:
            parts.setdefault(key, []).append(literal)
    tests = [tuple(part) for part in parts.values() if any(map(_multiplies, part))]
    near = any(
        _multiplies(literal)
        for literal in clause.body
        if not any(literal in part for part in tests)
    )
    return tests if len(tests) + near > 1 else []


def _multiplies(literal: Literal) -> bool:
    """Whether more than one row may fit, before anything is known."""
    return isinstance(literal, Match) and any(
        arg is None or isinstance(arg, Slot) for arg in literal.args
    )


def _read(literal: Literal) -> str:
    return literal.relation if isinstance(literal, (Match, Absent)) else ""


def _strata(draft: Draft) -> Strata:
    """The strata of the clauses. Linear in them."""
    needed: dict[str, dict[str, None]] = {relation.name: {} for relation in draft.relations}
    for clause in draft.clauses:
        for atom in clause.atoms:
            needed[clause.head][atom.relation] = None
    for fold in draft.folds:
        for name in fold.outputs:
            needed[name][fold.source] = None
    home = {name: frozenset(members) for members in components(needed) for name in members}
    special = {relation.name for relation in draft.relations if relation.merge is not None}
    for clause in draft.clauses:
        own = home[clause.head]
        if any(isinstance(atom, Absent) and atom.relation in own for atom in clause.atoms):
            special.add(clause.head)
    special.update(fold.relation for fold in draft.folds if fold.source in home[fold.relation])
    closed = {name: home[marked] for marked in special for name in home[marked]}
    return Strata(home, closed)
