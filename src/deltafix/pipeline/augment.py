"""Relations a pipeline adds to a program: who said a row, and how often.

    R__file(file, columns)    a row of R as said by one file; R follows from it, so a row is there
                              while some file says it, and a changed file replaces its own rows only
    R__times(columns, n)      a row of R that was put in n > 1 times (`duplicates = "count"`)
    R__key(columns, sequence) the row of each key (`key`); R follows from it
    R__gone(key, sequence)    keys that were deleted last
    R__both(key)              keys in both: none; its rule gives both an index by key
    R__breach0(key)           values of a table's key that several rows have: none, or the epoch
                              fails

Invariant: the program's own relations derive what they would if their rows were given; the added
ones are kept by the engine like any other, so they are as durable and as exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from deltafix.errors import ConfigError
from deltafix.pipeline.keyed import GONE, KEYED, NO_KEY, Keying, sequence_columns
from deltafix.pipeline.times import COUNTS
from deltafix.rules.ast import And, Atom, Attribute, Comparison, Program, RelationDecl, Rule
from deltafix.rules.tables import TableKey, TableProgram
from deltafix.rules.terms import Call, Term, Var, Wildcard

FILE = "__file"
"""Appended to a relation's name: its rows by file; the first column is the file's path."""

_BOTH = "__both"
BREACH = "__breach"


@dataclass(frozen=True, slots=True)
class Additions:
    """What inputs add to a program: relations that come by file, are counted, are keyed.

    `keyable` are relations whose rows could replace each other by key, with where that is said.
    """

    by_file: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    keyed: Mapping[str, Keying] = field(default_factory=dict)
    keyable: Mapping[str, str] = field(default_factory=dict)


NOTHING: Final = Additions()


PLAIN: Final = "row by row"


def kept_as(additions: Additions) -> dict[str, str]:
    """Of each relation whose rows are not kept as they come, how they are, in words."""
    descriptions = dict.fromkeys(additions.by_file, "file by file")
    for name, keying in additions.keyed.items():
        by = f" and sequence_by {', '.join(keying.sequence)}" if keying.sequence else ""
        descriptions[name] = f"by key ({', '.join(keying.key)}){by}"
    return descriptions


def homes_of(name: str) -> tuple[str, ...]:
    """Where the rows of a relation that has an input may be given."""
    return tuple(name + suffix for suffix in ("", FILE, KEYED, GONE))


def augment(program: Program, additions: Additions) -> Program:
    """The program with the relations that its inputs need. Raises ConfigError for a name taken."""
    added: list[tuple[RelationDecl, list[Rule]]] = []
    for name in additions.by_file:
        added.append(_by_file(program.relation(name)))
    for name in additions.counted:
        own = program.relation(name)
        added.append((_decl(own, COUNTS, own.attributes, [f"n{COUNTS}"]), []))
    for name, keying in additions.keyed.items():
        _require_key(program, name, keying)
        added += _keyed(program.relation(name), keying)
    for key, name in key_checks(program, additions).items():
        added.append(_key_check(program.relation(key.table), key, name))
    declared = {relation.name for relation in program.relations}
    for relation, _ in added:
        _require_free(relation.name, declared)
    if not added:
        return program
    return replace(
        program,
        relations=(*program.relations, *(relation for relation, _ in added)),
        rules=(*program.rules, *(rule for _, rules in added for rule in rules)),
        source=None,
    )


def key_checks(program: Program, additions: Additions) -> dict[TableKey, str]:
    """The keys of tables that their inputs do not see to, each with the relation of its breaches.

    An input whose rows replace each other by columns of the key has one row of each anyway.
    """
    if not isinstance(program, TableProgram):
        return {}
    breaches = {}
    for number, key in enumerate(program.keys):
        keying = additions.keyed.get(key.table, NO_KEY)
        is_whole = len(key.columns) == program.relation(key.table).arity
        if not is_whole and not (keying.key and set(keying.key) <= set(key.columns)):
            breaches[key] = f"{key.table}{BREACH}{number}"
    return breaches


def _require_key(program: Program, name: str, keying: Keying) -> None:
    """Raise ConfigError where rows of a table would replace rows of other keys of it."""
    keys = program.keys if isinstance(program, TableProgram) else ()
    mine = [key for key in keys if key.table == name]
    if mine and not any(set(key.columns) <= set(keying.key) for key in mine):
        shown = "; ".join(key.show() for key in mine)
        message = (
            f"the input of {name} says key = ({', '.join(keying.key)}), so a row would replace "
            f"others by the table's own keys: {shown}; name the columns of one of these"
        )
        raise ConfigError(message, value=keying.key)


def _key_check(own: RelationDecl, key: TableKey, name: str) -> tuple[RelationDecl, list[Rule]]:
    """`R__breach(key) :- R(key, v), R(key, w), v != w.`, a rule for each column of the rest."""
    attributes, bodies, heads = [], [], []
    for position, attribute in enumerate(own.attributes):
        variable: Term = Var(f"v{position}")
        if attribute.name in key.columns:
            bare = attribute.type.removeprefix("nullable_")
            attributes.append(Attribute(attribute.name, bare))
            heads.append(variable)
            if bare != attribute.type:  # NULLs are not equal
                variable = Call(f"[{attribute.type}]", (variable,))
        bodies.append(variable)
    rules = []
    for position, attribute in enumerate(own.attributes):
        if attribute.name in key.columns:
            continue
        first, second = [list(bodies) for _ in range(2)]
        for other_position, other_attribute in enumerate(own.attributes):
            if other_attribute.name not in key.columns and other_position != position:
                first[other_position] = second[other_position] = Wildcard()
        second[position] = Var("w")
        body = And((
            Atom(own.name, tuple(first)),
            Atom(own.name, tuple(second)),
            Comparison("!=", bodies[position], Var("w")),
        ))  # fmt: skip
        rules.append(Rule((Atom(name, tuple(heads)),), body))
    return RelationDecl(name, tuple(attributes), of=own.name), rules


def _decl(
    own: RelationDecl, suffix: str, columns: Sequence[Attribute], numbers: Sequence[str]
) -> RelationDecl:
    """What is kept for a relation: some of its columns, and numbers."""
    kept = [Attribute(column.name, column.type) for column in columns]
    kept += [Attribute(number, "number") for number in numbers]
    return RelationDecl(own.name + suffix, tuple(kept), of=own.name)


def _variables(own: RelationDecl) -> list[Term]:
    return [Var(f"v{position}") for position in range(own.arity)]


def _by_file(own: RelationDecl) -> tuple[RelationDecl, list[Rule]]:
    kept = _decl(own, FILE, own.attributes, ())
    kept = replace(kept, attributes=(Attribute(f"file{FILE}", "symbol"), *kept.attributes))
    row = _variables(own)
    source = Atom(kept.name, (Wildcard(), *row))
    return kept, [Rule((Atom(own.name, tuple(row)),), source)]


def _keyed(own: RelationDecl, keying: Keying) -> list[tuple[RelationDecl, list[Rule]]]:
    key = [attribute for attribute in own.attributes if attribute.name in keying.key]
    beside = sequence_columns(keying)
    row = _variables(own)
    chosen = [
        variable
        for variable, attribute in zip(row, own.attributes, strict=True)
        if attribute in key
    ]
    others = [
        variable if attribute in key else Wildcard()
        for variable, attribute in zip(row, own.attributes, strict=True)
    ]
    blanks = [Wildcard() for _ in beside]
    name = own.name
    held = Rule((Atom(name, tuple(row)),), Atom(name + KEYED, (*row, *blanks)))
    both = And((Atom(name + KEYED, (*others, *blanks)), Atom(name + GONE, (*chosen, *blanks))))
    return [
        (_decl(own, KEYED, own.attributes, beside), [held]),
        (_decl(own, GONE, key, beside), []),
        (_decl(own, _BOTH, key, ()), [Rule((Atom(name + _BOTH, tuple(chosen)),), both)]),
    ]


def _require_free(name: str, declared: set[str]) -> None:
    if name in declared:
        message = f"the program declares {name!r}, a name that the pipeline needs; rename it"
        raise ConfigError(message, value=name)
