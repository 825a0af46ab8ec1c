"""What one derivation says, in words: its rule, what is absent, what was compared and computed.

Values come from the codes that the search wrote down. Invariant: nothing that planning made is
named: a hidden relation (a negated group, see `plan.normalize`) is shown by its clauses with the
values put in, a copy made for demand by its relation, a rule as it was written.

A rule is given back as it was written, where inlining and demand have rewritten it to run: over the
program's relations, and saying what the rule that runs says, its guard aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from deltafix.facts.logical_types import LogicalType, logical_type
from deltafix.facts.schema import Row, Schema, show_row
from deltafix.facts.values import (
    BaseType,
    Value,
    show_value,
)
from deltafix.plan.clause import (
    Absent,
    Apply,
    Argument,
    Clause,
    Code,
    Compare,
    Fold,
    Literal,
    Match,
    Merge,
    Slot,
)
from deltafix.plan.narrow import KINDS, NARROW, cut_reads, cut_value
from deltafix.provenance.program import clauses_of
from deltafix.rules.apart import plain_name
from deltafix.rules.ast import And, Atom, Formula, Program, Rule, conjunction
from deltafix.rules.check import typed
from deltafix.rules.functors import CONSTRAINTS, INFIX
from deltafix.rules.logical import functor_kinds, in_user_terms
from deltafix.rules.passes.magic import executable
from deltafix.rules.schemas import row_schemas
from deltafix.rules.show import show_formula, show_rule, show_term
from deltafix.rules.terms import Term, Var
from deltafix.rules.walk import Leaf, map_rule, occurrences

if TYPE_CHECKING:
    from deltafix.engine.codes import Codes
    from deltafix.engine.database import Database
    from deltafix.plan.ir import Plan
    from deltafix.provenance.search import Derivation
    from deltafix.rules.ast import Program


T = TypeVar("T")

_WORDS: WeakKeyDictionary[Database, Words] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Truth:
    """A test that is written as a call, `contains(part, text)`, and whether it is to hold."""

    call: Apply
    holds: bool


@dataclass(frozen=True, slots=True)
class _Said:
    """In the place of a value that nobody computed: the call that gives it."""

    text: str


class Words:
    """What there is to know of one program's relations, and the words for its rules.

    Attributes:
        names: of each relation of the plan, what the program calls it.
        hidden: relations made while planning.
        given: for a hidden relation of rows given to another (or derived for it), that relation.
        entries: for relations that choose, join or close rows in clauses, where those rows lie.
        keeps: what a relation does with its rows (`Program.keeps`), for those that do.
        folds: the aggregate behind a relation.
        ranges, demands: relations of the numbers of ranges, of magic sets.
        copies: the copies of a relation that is computed on demand.
        merges: for relations that an executor merges, how.
        clauses: those with a relation as their head.
        strata, falling: relations of strata beyond plain recursion.
        pipelined: relations that are not kept.
        plain: relations that rest on none of all these.
        run: the program that runs, which may not be the one that was written.
        rules: the text of its rules, as they were written.
    """

    def __init__(
        self, program: Program, plan: Plan, codes: Codes, schemas: Mapping[str, Schema]
    ) -> None:
        self.plan = plan
        checked = typed(program)
        run = executable(checked).program
        self.schemas = schemas
        self.types = {relation.name: relation.types for relation in plan.relations}
        self.hidden = {relation.name for relation in plan.relations if relation.hidden}
        # Rows given to a relation that keeps some of them only lie in a hidden one.
        self.given = {hidden: name for name, hidden in plan.given.items()}
        self.demands = {name for name in self.types if name.startswith("?")}
        self.names = {name: self.given.get(name, as_written(name)) for name in self.types}
        self.copies: dict[str, tuple[str, ...]] = {}
        for name, written in self.names.items():
            if name != written and name not in self.hidden | self.demands:
                self.copies[written] = (*self.copies.get(written, ()), name)
        self.keeps = {relation.name: run.keeps(relation.name) for relation in run.relations}
        self.keeps = {name: kind for name, kind in self.keeps.items() if kind}
        self.entries = {
            relation.name: relation.entry for relation in plan.relations if relation.entry
        }
        self.ranges = {relation.name for relation in plan.relations if relation.is_range}
        self.domains = {relation.name for relation in plan.relations if relation.is_domain}
        self.merges: dict[str, Merge] = {
            relation.name: relation.merge
            for relation in plan.relations
            if relation.merge is not None
        }
        # Without inlining and demand the rules that run are the program's, one by one.
        self.rules = written_rules(checked.program, run)
        if checked.program is not program:  # without logical types, which users have
            if run is checked.program:
                self.rules = [show_rule(rule) for rule in program.rules]
            else:
                self.rules = [
                    _as_written(in_user_terms(rule, self._written_columns)) for rule in run.rules
                ]
        self.strata: dict[str, int] = {}
        self.folds: dict[str, Fold] = {}
        self.falling: set[str] = set()
        self.founded: set[str] = set()
        self.pipelined = plan.pipelined
        self.clauses: dict[str, list[Clause]] = {name: [] for name in self.types}
        for number, stage in enumerate(plan.stages):
            for clause in clauses_of(stage):
                self.clauses[clause.head].append(clause)
            if stage.outside is None:
                continue
            fold = stage.outside.layer.fold
            if fold is not None:
                self.folds.update(dict.fromkeys(fold.outputs, fold))
            else:
                self.strata.update(dict.fromkeys(stage.relations, number))
                self.falling |= stage.outside.layer.falling
                folds = stage.outside.layer.folds
                self.folds.update((name, inner) for inner in folds for name in inner.outputs)
                self.founded.update(stage.relations if folds else ())
        self.plain = self._plain()
        self.run = run
        self._codes = codes
        self._slots: dict[int, dict[Slot, BaseType]] = {}
        self._logical: dict[int, dict[Slot, LogicalType]] = {}
        self._columns: dict[str, Sequence[LogicalType | None]] = {}

    @classmethod
    def of(cls, db: Database) -> Words:
        """The words of a database's program; made once a program, and again by `compact`.

        That keeps the plan and makes the codes anew: a proof would name values of before.
        """
        words, instance = _WORDS.get(db), db.instance
        plan, codes = instance.plan, instance.codes
        if words is None or words.plan is not plan or words._codes is not codes:
            schemas = {} if instance.physical else row_schemas(instance.program)
            words = _WORDS[db] = cls(instance.program, plan, codes, schemas)
        return words

    def _plain(self) -> frozenset[str]:
        """The relations that rest on visible relations of plain strata alone."""
        special = self.hidden | self.demands | set(self.strata) | set(self.folds)
        special |= {name for name, written in self.names.items() if name != written}
        users: dict[str, list[str]] = {}
        for name, clauses in self.clauses.items():
            for clause in clauses:
                for part in clause.body:
                    if isinstance(part, Match):
                        users.setdefault(part.relation, []).append(name)
        pending = list(special)
        while pending:
            for user in users.get(pending.pop(), ()):
                if user not in special:
                    special.add(user)
                    pending.append(user)
        return frozenset(set(self.types) - special)

    def rule(self, clause: Clause) -> str:
        """The rule as program text."""
        return self.rules[clause.rule]

    def is_intake(self, clause: Clause) -> bool:
        """Whether a clause only takes in the rows given to its relation (see `given`)."""
        return clause.rule < 0

    def is_pattern(self, literal: Literal | Truth) -> bool:
        """Whether a literal only makes a record or a branch, or takes one apart."""
        return isinstance(literal, Apply) and literal.functor[0] in "[$"

    def rules_for(self, relation: str) -> list[Clause]:
        """The clauses of rules that derive rows for a relation."""
        heads = self.copies.get(self.names[relation], (self.entries.get(relation, relation),))
        return [c for head in heads for c in self.clauses[head] if not self.is_intake(c)]

    def is_guard(self, literal: Literal) -> bool:
        """Whether a literal only says that the rule's rows are asked for."""
        return isinstance(literal, Match) and literal.relation in self.demands | self.domains

    def says_more(self, clause: Clause) -> bool:
        """Whether a clause has a body, of more than guards: a fact of the text may have these."""
        return any(not self.is_guard(part) for part in clause.body)

    def row(self, relation: str, codes: npt.NDArray[np.int32]) -> Row:
        """A row's values from its codes."""
        return tuple(
            self._codes.value(kind, int(code))
            for kind, code in zip(self.types[relation], codes, strict=True)
        )

    def decoded(self, relation: str, row: Row) -> Row:
        """A row of a relation of the plan as users have it."""
        kinds = self.columns(relation)
        if not kinds:
            return row
        pairs = zip(row, kinds, strict=True)
        return tuple(value if kind is None else kind.decode(value) for value, kind in pairs)

    def show_row(self, relation: str, row: Row) -> str:
        """A row as program text."""
        return show_row(relation, self.decoded(relation, row))

    def columns(self, relation: str) -> Sequence[LogicalType | None]:
        """The logical types of a relation's columns; of one that planning made, by its clauses.

        Empty where there are none. Kept.
        """
        kinds = self._columns.get(relation)
        if kinds is None:
            self._columns[relation] = ()  # of one that is made of itself
            kinds = self._columns[relation] = self._typed_columns(relation)
        return kinds

    def _typed_columns(self, relation: str) -> Sequence[LogicalType | None]:
        if not any(schema.has_logical for schema in self.schemas.values()):
            return ()
        schema = self.schemas.get(self.names.get(relation, relation))
        types = self.types.get(relation)  # none of one that is computed on demand
        if schema is not None and (types is None or len(schema.columns) == len(types)):
            return [column.of for column in schema.columns]
        fold = self.folds.get(relation)
        if fold is not None:
            source = self.columns(fold.source)
            group = (
                [source[column] for column in fold.group] if source else [None] * len(fold.group)
            )
            is_value = fold.is_extreme or fold.op == "sum"
            value = source[fold.value] if source and is_value and fold.value is not None else None
            return [*group, value][: len(self.types[relation])]
        for clause in self.clauses[relation]:
            kinds = self._logical_types(clause)
            return [kinds.get(arg) if isinstance(arg, Slot) else None for arg in clause.args]
        return ()

    def _written_columns(self, relation: str) -> Sequence[LogicalType | None]:
        """The logical types of a relation's columns, by its name in the program that runs."""
        schema = self.schemas.get(as_written(relation))
        return () if schema is None else [column.of for column in schema.columns]

    def values(self, derivation: Derivation) -> dict[Slot, Value]:
        """The value of each variable of a derivation."""
        kinds = self.slot_types(derivation.clause)
        return {
            slot: self._codes.value(kinds[slot], code)
            for slot, code in derivation.codes.items()
            if slot in kinds
        }

    def absent(self, clause: Clause, values: dict[Slot, Value]) -> tuple[str, ...]:
        """What does not hold, one phrase for each negative literal."""
        decoded = self._decoded_values(clause, values)
        return tuple(
            self._not_there(self._decoded_literal(clause, literal), decoded)
            for literal in clause.said
            if isinstance(literal, Absent)
        )

    def held(
        self, clause: Clause, literals: Iterable[Literal], values: dict[Slot, Value]
    ) -> list[str]:
        """Literals of a clause that hold, but for those that only name a value or make one."""
        reads, decoded = self.reads(clause), self._decoded_values(clause, values)
        return [
            self._literal(shown, decoded)
            for literal in literals
            if (read := reads.get(literal, literal)) is not None
            and not self.is_pattern(shown := self._decoded_literal(clause, read))
            and not (isinstance(shown, Compare) and _is_move(shown, decoded))
        ]

    def _decoded_values(
        self, clause: Clause, values: Mapping[Slot, Value]
    ) -> dict[Slot, Value | _Said]:
        """The values of variables as users have them."""
        kinds = self._logical_types(clause)
        return {
            slot: value if slot not in kinds else kinds[slot].decode(value)
            for slot, value in values.items()
        }

    def _decoded_literal(self, clause: Clause, literal: T) -> T:
        """A literal with its constants as users have them."""
        kinds = self._logical_types(clause)
        if not kinds:
            return literal
        decoded: Any = literal
        if isinstance(literal, Match | Absent):
            columns = self.columns(literal.relation)
            if columns:
                decoded = replace(literal, args=tuple(map(_decoded, literal.args, columns)))
        elif isinstance(literal, Compare):
            sides = literal.left, literal.right
            of = next(
                (kinds[side] for side in sides if isinstance(side, Slot) and side in kinds), None
            )
            decoded = replace(literal, left=_decoded(sides[0], of), right=_decoded(sides[1], of))
        elif isinstance(literal, Apply):
            signature = functor_kinds(literal.functor)
            if signature is not None:
                functor, (*given, result) = signature
                args = tuple(map(_decoded, literal.args, map(logical_type, given)))
                target = _decoded(literal.target, logical_type(result))
                decoded = replace(literal, functor=functor, args=args, target=target)
        return decoded  # type: ignore[no-any-return]

    def _logical_types(self, clause: Clause) -> dict[Slot, LogicalType]:
        """The logical types of a clause's variables, by columns and functors. Kept."""
        types = self._logical.get(id(clause))
        if types is not None:
            return types
        types = self._logical[id(clause)] = {}

        def note(args: Iterable[Argument | None], kinds: Iterable[LogicalType | None]) -> None:
            for arg, kind in zip(args, kinds, strict=False):
                if isinstance(arg, Slot) and kind is not None:
                    types.setdefault(arg, kind)

        note(clause.args, self.columns(clause.head))
        for literal in clause.body:
            if isinstance(literal, Match | Absent):
                note(literal.args, self.columns(literal.relation))
            elif isinstance(literal, Apply):
                signature = functor_kinds(literal.functor)
                if signature is not None:
                    note((*literal.args, literal.target), map(logical_type, signature[1]))
        for literal in clause.body:  # `[x]` opens what may be missing
            if isinstance(literal, Apply) and literal.functor.startswith("[") and literal.args:
                whole = literal.args[0]
                kind = types.get(whole) if isinstance(whole, Slot) else None
                if kind is not None and kind.nullable:
                    note((literal.target,), (logical_type(kind.inner),))
        return types

    def reads(self, clause: Clause) -> dict[Literal, Apply | Match | Truth | None]:
        """How literals read that planning made of others; None for those that say nothing.

        They cut values to 32 bits (`plan.narrow`), or compute whether a test holds, and compare.
        """
        readings: dict[Literal, Apply | Match | Truth | None] = {}
        readings.update(cut_reads(clause.body) if self.run.word_size == NARROW else {})
        calls: dict[Argument, Apply] = {
            part.target: part
            for part in clause.body
            if isinstance(part, Apply) and part.functor in CONSTRAINTS
        }
        for part in clause.body:
            if isinstance(part, Compare) and part.left in calls and isinstance(part.right, Code):
                call = calls[part.left]
                readings[call], readings[part] = None, Truth(call, part.right.value == 1)
        return readings

    def folded(self, relation: str, row: Row) -> Row:
        """The values in a row of an aggregate, as its rule has them: cut to 32 bits there."""
        values = self.decoded(relation, row)[len(self.folds[relation].group) :]
        (*_, kind) = self.types[relation]
        if self.run.word_size == NARROW and kind in KINDS:
            return tuple(cut_value(one, kind) if isinstance(one, int) else one for one in values)
        return values

    def tests(self, clause: Clause, values: dict[Slot, Value]) -> tuple[str, ...]:
        """Comparisons and computed values, one phrase each; moves of a value are left out.

        Nor is the value of an aggregate there, which stands with the rows that went in.
        """
        reads = self.reads(clause)
        said = [
            literal
            for literal in clause.said
            if (isinstance(literal, Apply | Compare) and not isinstance(reads.get(literal), Match))
            or (isinstance(literal, Match) and literal.relation in self.ranges)
        ]
        return tuple(self.held(clause, said, values))

    def literal(
        self, clause: Clause, literal: Literal | Truth, values: Mapping[Slot, Value]
    ) -> str:
        """A literal of a clause with the values put in; variables without a value stay."""
        decoded = self._decoded_values(clause, values)
        return self._literal(self._decoded_literal(clause, literal), decoded)

    def _literal(self, literal: Literal | Truth, values: Mapping[Slot, Value | _Said]) -> str:
        if isinstance(literal, Match):
            return self._match(literal, values)
        if isinstance(literal, Absent):
            return self._not_there(literal, values)
        if isinstance(literal, Compare):
            left, right = _shown(literal.left, values), _shown(literal.right, values)
            return f"{left} {literal.op} {right}"
        if isinstance(literal, Truth):
            return f"{'' if literal.holds else '!'}{self._call(literal.call, values)}"
        return f"{self._call(literal, values)} = {_shown(literal.target, values)}"

    def _call(self, literal: Apply, values: Mapping[Slot, Value | _Said]) -> str:
        args = [_shown(arg, values) for arg in literal.args]
        if literal.functor in INFIX:
            return f" {literal.functor} ".join(args)
        if literal.functor == "neg":
            return f"-({args[0]})"
        if literal.functor[0] in "[$":
            return _construction(literal.functor, args)
        return f"{literal.functor}({', '.join(args)})"

    def _match(self, literal: Match, values: Mapping[Slot, Value | _Said]) -> str:
        args = ["_" if arg is None else _shown(arg, values) for arg in literal.args]
        if literal.relation in self.folds:
            fold = self.folds[literal.relation]
            aggregated = args[len(fold.group) :]
            value = aggregated[0] if len(aggregated) == 1 else f"[{', '.join(aggregated)}]"
            return f"{fold.op} over its rows = {value}"
        if literal.relation in self.ranges:
            start, end, step, target = args
            return f"{target} = range({start}, {end}{'' if step == '_' else f', {step}'})"
        if literal.relation in self.hidden and literal.relation not in self.given:
            inside = self._behind_it(literal, values)
            return f"({inside})" if " ; " in inside else inside
        return f"{self.names[literal.relation]}({', '.join(args)})"

    def joined(self, relation: str) -> tuple[int, ...]:
        """The columns of a relation whose values are joined."""
        return self.run.relation(relation).joined

    def slot_types(self, clause: Clause) -> dict[Slot, BaseType]:
        """The base type of each variable of a clause. Linear in the clause, kept."""
        types = self._slots.get(id(clause))
        if types is None:
            types = self._slots[id(clause)] = self._infer(clause)
        return types

    def _infer(self, clause: Clause) -> dict[Slot, BaseType]:
        types: dict[Slot, BaseType] = {}

        def note(arg: Argument | None, kind: BaseType) -> None:
            if isinstance(arg, Slot):
                types.setdefault(arg, kind)

        for relation, args in (
            (clause.head, clause.args),
            *((b.relation, b.args) for b in clause.body if isinstance(b, Match | Absent)),
        ):
            for arg, kind in zip(args, self.types[relation], strict=True):
                note(arg, kind)
        for literal in clause.body:
            if isinstance(literal, Compare):
                note(literal.left, literal.type)
                note(literal.right, literal.type)
            elif isinstance(literal, Apply):
                for arg, kind in zip(literal.args, literal.types, strict=True):
                    note(arg, kind)
                note(literal.target, literal.result)
        return types

    def _not_there(self, literal: Absent, values: Mapping[Slot, Value | _Said]) -> str:
        if literal.relation not in self.hidden or literal.relation in self.given:
            inside = ", ".join(_shown(arg, values) for arg in literal.args)
            return f"{self.names[literal.relation]}({inside}) is absent"
        if literal.relation in self.folds:
            return "no row goes into the aggregate"
        return f"nothing fits {self._behind_it(literal, values)}"

    def _behind_it(self, literal: Match | Absent, values: Mapping[Slot, Value | _Said]) -> str:
        """The bodies of a hidden relation's clauses, with the values of the literal put in."""
        groups = []
        for clause in self.clauses[literal.relation]:
            inner: dict[Slot, Value | _Said] = {
                slot: arg.value if isinstance(arg, Code) else values[arg]
                for slot, arg in zip(clause.args, literal.args, strict=True)
                if isinstance(slot, Slot) and arg is not None
                if isinstance(arg, Code) or arg in values
            }
            reads, phrases = self.reads(clause), []
            for part in clause.said:
                shown = reads.get(part, part)
                if isinstance(part, Apply) and part.target not in inner and _is_made(part.target):
                    call = self._call(self._decoded_literal(clause, part), inner)
                    inner[part.target] = _Said(f"({call})" if part.functor in INFIX else call)
                elif shown is not None and not self.is_guard(part):
                    phrases.append(self._literal(self._decoded_literal(clause, shown), inner))
            groups.append(", ".join(phrases))
        return " ; ".join(groups)


def _decoded(arg: Any, kind: LogicalType | None) -> Any:
    """A constant as users have it; a variable as it is."""
    if not isinstance(arg, Code) or kind is None:
        return arg
    return replace(arg, value=kind.decode(arg.value))


def _is_made(slot: Slot) -> bool:
    """Whether it is of an intermediate value, which no variable has."""
    return slot.name.startswith("$")


def _shown(arg: Argument, values: Mapping[Slot, Value | _Said]) -> str:
    if isinstance(arg, Code):
        return show_value(arg.value)
    if arg in values:
        value = values[arg]
        return value.text if isinstance(value, _Said) else show_value(value)
    return "_" if arg.name.startswith(("$", "_")) else plain_name(arg.name)


def _construction(functor: str, args: list[str]) -> str:
    """`[Pair]` and `$Leaf` make a value, `[Pair].0` and `$Leaf.0` read its first field."""
    name, _, field = functor.partition(".") if functor[0] == "$" else functor.partition("].")
    if functor.endswith(f".{field}") and field.isdigit():
        return f"field {int(field) + 1} of {args[0]}"
    inside = ", ".join(args)
    return f"[{inside}]" if functor[0] == "[" else f"{name}({inside})" if args else name


def _is_move(literal: Compare, values: Mapping[Slot, Value | _Said]) -> bool:
    """Whether an equality only names a value: both sides are the same thing said twice."""
    return literal.op == "=" and _shown(literal.left, values) == _shown(literal.right, values)


def as_written(relation: str) -> str:
    """The name of the relation that a copy was made of."""
    return relation.split("{", 1)[0].removeprefix("?")


def written_rules(program: Program, run: Program) -> list[str]:
    """The text of each rule of the program that runs, in its order."""
    if run is program:
        return [show_rule(rule) for rule in program.rules]
    return [_as_written(rule) for rule in run.rules]


def _as_written(rule: Rule) -> str:
    (head, *_), written = rule.heads, _written(rule)
    if not head.relation.startswith("?"):
        return show_rule(written)
    # The columns that are known when rows are asked for; of the others nothing is said.
    known = iter(map(show_term, written.heads[0].args))
    marks = head.relation.rsplit("{", 1)[1].removesuffix("}")
    args = ", ".join(next(known) if mark == "b" else "_" for mark in marks)
    asked = f"demand for {as_written(head.relation)}({args})"
    return f"{asked}." if rule.is_fact else f"{asked} :- {show_formula(written.body)}."


def _written(rule: Rule) -> Rule:
    heads = tuple(map(_atom, rule.heads))
    parts = rule.body.parts if isinstance(rule.body, And) else (rule.body,)
    body = conjunction(tuple(_unguarded(parts)))
    bare = Rule(heads, body, rule.span)
    names = _names(occurrences((*heads, body)))

    def leaf(term: Leaf) -> Term:
        return Var(names[term.name]) if isinstance(term, Var) else term

    return map_rule(bare, leaf)


def _unguarded(parts: Iterable[Formula]) -> Iterable[Formula]:
    for part in parts:
        if not isinstance(part, Atom):
            yield part
        elif not part.relation.startswith("?"):
            yield _atom(part)


def _atom(atom: Atom) -> Atom:
    return replace(atom, relation=as_written(atom.relation))


def _names(variables: Iterable[str]) -> Mapping[str, str]:
    """Names that can be written, different ones for different variables."""
    names: dict[str, str] = {}
    taken = set(variables)
    for name in variables:
        plain = plain_name(name).replace(".", "_")
        short, number = plain, 2
        while "'" in name and (short in taken or short == "_"):
            short, number = f"{plain}{number}", number + 1
        names[name] = short
        taken.add(short)
    return names
