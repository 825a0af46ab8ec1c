"""Rules as a view: CREATE VIEW reach (a, b) AS RULES $$ ... $$.

    text -> `Program` (`deltafix.datalog`) -> types of SQL -> checks (`deltafix.rules`) -> `Builder`

Tables and views are relations there, under their names, with the columns that SELECT * shows. Rules
are about sets: a row that is there twice is one row. What they say under the view's name are its
rows; any other relation that they define is the view's own, a part of it as those that a query is
cut into are. A column has the type of SQL of the columns that its values come from, if that is one;
what rules compute is a plain number, float or text, which the view can be declared to have as
another type. Invariants: no variable stands for values that the engine holds alike and SQL tells
apart (days and whole numbers, say); a value of the view is one of its column's type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from deltafix.datalog.load import analyse
from deltafix.diagnostics import Diagnostic, Span, did_you_mean, render_all
from deltafix.errors import SqlError, SqlProgrammingError, SqlRefusedError
from deltafix.facts.values import Value
from deltafix.rules.apart import apart
from deltafix.rules.ast import (
    Atom,
    Attribute,
    Comparison,
    Formula,
    Not,
    Program,
    RelationDecl,
    Rule,
    conjunction,
)
from deltafix.rules.check import by_fields, check
from deltafix.rules.infer import infer
from deltafix.rules.logical import called
from deltafix.rules.schemas import schemas_of
from deltafix.rules.strata import dependencies, unstratified
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var, Wildcard
from deltafix.rules.walk import Leaf, body_of, map_rule, subterms, terms_of, uses
from deltafix.sql.builder import Builder, Operand, Relation
from deltafix.sql.literals import Scalar
from deltafix.sql.rule_types import DECLARED, Kind, RuleTypes, declared_kind, opened
from deltafix.sql.text import Rules, Statement, exp, normal_name
from deltafix.sql.types import (
    INTERVAL,
    NULL,
    Column,
    SqlType,
    as_sql,
    logical_name,
    written_type,
)

__all__ = ["rules_as_relation", "wrong"]


def rules_as_relation(
    builder: Builder, node: Rules, name: str, heads: Sequence[exp.Expr]
) -> Relation:
    """Rules as a view of this name, whose columns are said in its CREATE if there are `heads`.

    Raises SqlProgrammingError, SqlRefusedError.
    """
    return _View(builder, node, name, heads).build()


def wrong(statement: Statement, node: Rules, diagnostics: Iterable[Diagnostic]) -> SqlError:
    """What checks of rules say of those of a view, as the error of its statement."""
    whole, (_, _, left_out) = statement.span(node), _excerpt(statement, node)

    def placed(span: Span | None) -> Span:
        if span is None:
            return whole
        start, end = span.start + left_out, span.end + left_out
        return replace(span, start=start, end=end, path=whole.path)

    moved = [
        replace(diagnostic, span=placed(diagnostic.span))
        for diagnostic in dict.fromkeys(diagnostics)
    ]
    is_refused = all(diagnostic.code == SqlRefusedError.code for diagnostic in moved)
    kind = SqlRefusedError if is_refused else SqlProgrammingError
    return kind(render_all(moved, {whole.path: statement.text}), moved)


def _excerpt(statement: Statement, node: Rules) -> tuple[str, str, int]:
    """The text of rules, what has it in its line and column, and how much longer its text is.

    Raises SqlProgrammingError where what is written is not what is meant.
    """
    rules_text, text = node.this.name, statement.text
    end = statement.start + node.meta["end"] + 1
    start = text.find(rules_text, statement.start + node.meta["start"], end)
    if start < 0:
        way_out = 'write $$...$$ around them; texts in rules are in double quotes: "a"'
        raise statement.wrong("rules in quotes with quotes in them", node, way_out)
    lines, column = text.count("\n", 0, start), start - (text.rfind("\n", 0, start) + 1)
    before = "\n" * lines + " " * column
    return rules_text, before, start - len(before)


_ORDERED: Final = ("DF164", "DF166")
"""Warnings of rules whose rows follow the order in which something was declared or came."""


@dataclass
class _View:
    """The rules of a view on their way to a builder."""

    builder: Builder
    node: Rules
    name: str
    heads: Sequence[exp.Expr]
    diagnostics: list[Diagnostic] = field(default_factory=list)
    columns: dict[str, list[Kind | None]] = field(default_factory=dict)
    """What those of the relations hold that the rules define."""
    as_sets: dict[str, Relation] = field(default_factory=dict)
    """Tables and views with duplicates, without them."""

    def build(self) -> Relation:
        """The view."""
        declared = {head.name: self._declared(head) for head in self.heads}
        program = self._read()
        own = self._own(program)
        # Records of other widths are compared field by field: beside what other views need there
        # may be a type of such records.
        rules = [
            by_fields(apart(replace(rule, heads=(head,), name="")), {1})
            for rule in program.rules
            for head in rule.heads
        ]
        types = RuleTypes(self.builder.tables, self.columns)
        types.solve(rules)
        self.columns = kinds = types.columns
        shown = {
            name: [
                replace(attribute, type=_attribute_type(kind))
                if _is_known(attribute)
                else attribute
                for attribute, kind in zip(attributes, kinds[name], strict=True)
            ]
            for name, attributes in own.items()
        }
        read = (uses(conjunction((*rule.heads, rule.body))) for rule in rules)
        reads = {atom.relation for atoms in read for atom, _ in atoms} - own.keys()
        tables = {name: self.builder.tables[name] for name in sorted(reads)}
        checked = self._check(tables, shown, rules)
        for name, attributes in own.items():
            for attribute, kind in zip(attributes, kinds[name], strict=True):
                if kind is None:
                    message = f"no rule says what column `{attribute.name}` of `{name}` holds"
                    hint = f"declare it: `.decl {name}({attribute.name}: number, ...)`"
                    self._wrong("DF120", message, self._head_of(rules, name), hint)
                elif kind.type is NULL:
                    message = f"column `{attribute.name}` of `{name}` is `nil` in every rule"
                    self._wrong("DF120", message, self._head_of(rules, name), "leave it out")
        self._require_none()
        self.builder.used.update(table.renamed or name for name, table in tables.items())
        relations: dict[str, Relation] = {}
        wanted = self._wanted(declared, own[self.name])
        for name, attributes in own.items():
            columns = [
                Column(attribute.name, kind.type, kind.nullable)
                for attribute, kind in zip(attributes, kinds[name], strict=True)
                if kind is not None
            ]
            is_view = name == self.name and wanted is None
            part = name if is_view else f"{self.builder.prefix}{self.builder.between}{name}"
            relations[name] = self._relation(part, columns, is_part=not is_view)
        for rule in checked:
            (head,) = rule.heads
            body = self._renamed(rule.body, relations, tables, inside=False)
            args = tuple(self._term(arg, relations, tables) for arg in head.args)
            heads = (replace(head, relation=relations[head.relation].name, args=args),)
            self.builder.rules.append(replace(rule, heads=heads, body=body))
        if wanted is None:
            return relations[self.name]
        return self._converted(relations[self.name], wanted)

    # --- reading -------------------------------------------------------------------------------

    def _read(self) -> Program:
        """The program of the text; its places are those of the whole text."""
        statement = self.builder.statement
        text, before, _ = _excerpt(statement, self.node)
        analysis = analyse(f"{before}{text}", whole=False)
        self.diagnostics += analysis.errors
        program = analysis.program
        for directive in program.directives:
            way_out = "leave it out: what a view reads are tables and views, its rows are its own"
            self._refused(f".{directive.kind}", directive.span, way_out)
        for order in program.orders:
            self._refused("subsumption", order.span, "say in SQL which rows are kept")
        for kind in program.types:
            way_out = f"columns are {', '.join(DECLARED)}, and with NULLs `number?`"
            self._refused(f".type {kind.name}", kind.span, way_out)
        for functor in program.functors:
            way_out = "create_function gives SQL functions of Python: call them in a view"
            self._refused(f".functor {functor.name}", functor.span, way_out)
        for lattice in program.lattices:
            self._refused(f".lattice {lattice.type}", lattice.span, "write an aggregate")
        for key, value in program.pragmas:
            self._refused(f".pragma {key} {value}", None, "leave it out")
        for relation in program.relations:
            if relation.qualifiers or relation.choices or relation.joined:
                message = "a qualifier, a choice or a lattice of a relation"
                self._refused(
                    message, relation.span, f"declare the columns of `{relation.name}` only"
                )
            if relation.name in self._others():
                message = f"`{relation.name}` is a table or view: its columns are known"
                self._wrong("DF111", message, relation.span, "leave its .decl out")
        self._require_none()
        return program

    def _others(self) -> set[str]:
        """The tables and views beside this one, which is there already where it is explained."""
        return self.builder.tables.keys() - {self.name}

    def _own(self, program: Program) -> dict[str, list[Attribute]]:
        """What the rules define, with columns whose types are not known yet where none is said."""
        statement = self.builder.statement
        declared = {relation.name: relation for relation in program.relations}
        own: dict[str, list[Attribute]] = {}
        tables = self._others()
        own |= {name: [*relation.attributes] for name, relation in declared.items()}
        for head in (head for rule in program.rules for head in rule.heads):
            if head.relation in tables:
                message = f"`{head.relation}` is a table or view: rules of {self.name} add no rows"
                hint = f"a rule says rows of {self.name}, or of a relation that is called otherwise"
                self._wrong("DF111", message, head.span, hint)
            elif head.relation not in own:
                own[head.relation] = [Attribute(n, "") for n in _names(head, statement.dialect)]
        if self.name not in own:
            message = f"no rule says rows of {self.name!r}"
            raise statement.wrong(message, self.node, f"write {self.name}(x, ...) :- ... in them")
        if self.heads:
            mine, names = own[self.name], [head.name for head in self.heads]
            if len(names) != len(mine):
                message = f"{len(names)} names for {len(mine)} columns"
                raise statement.wrong(message, self.heads[0], "give each column one name")
            own[self.name] = [replace(a, name=n) for a, n in zip(mine, names, strict=True)]
        seen: set[str] = set()
        for attribute in own[self.name]:
            if attribute.name in seen:
                message = f"two columns are called {attribute.name!r}"
                way_out = f"name them: CREATE VIEW {self.name} (a, b, ...)"
                raise statement.wrong(message, self.heads[0] if self.heads else self.node, way_out)
            seen.add(attribute.name)
        if not own[self.name]:
            raise statement.wrong(f"{self.name} has no columns", self.node, "give it one")
        known = [*own, *self.builder.tables]
        for rule in program.rules:
            for atom, _ in uses(conjunction((*rule.heads, rule.body))):
                if atom.relation not in own and atom.relation not in self.builder.tables:
                    message = f"there is no table, view or rule called `{atom.relation}`"
                    there = ", ".join(sorted(known)[:20])
                    hint = did_you_mean(atom.relation, known, f"there is: {there}")
                    self._wrong("DF110", message, atom.span, hint)
        self._require_none()
        for name, attributes in own.items():
            self.columns[name] = [declared_kind(a.type) for a in attributes]
        return own

    # --- types -----------------------------------------------------------------------------------

    def _wanted(
        self, declared: Mapping[str, SqlType | None], mine: Sequence[Attribute]
    ) -> list[SqlType] | None:
        """The types that the view is declared to have; None where it has those anyway."""
        wanted: list[SqlType] = []
        kinds = [kind for kind in self.columns[self.name] if kind is not None]
        for head, attribute, kind in zip(
            self.heads or [self.node] * len(mine), mine, kinds, strict=True
        ):
            kind_said = declared.get(attribute.name) or kind.type
            fits = kind_said.base == kind.type.base and not kind_said.is_nested
            fits = fits and kind_said is not INTERVAL
            if kind_said is not kind.type and not (
                fits and (kind.plain or kind_said.code == kind.type.code)
            ):
                message = f"column {attribute.name!r} is {kind.type.name} by its rules"
                way_out = f"leave {kind_said.name} out, and CAST in a view that reads {self.name}"
                raise self.builder.statement.wrong(message, head, way_out)
            wanted.append(kind_said)
        return None if wanted == [kind.type for kind in kinds] else wanted

    def _declared(self, head: exp.Expr) -> SqlType | None:
        """The type that CREATE gives a column."""
        if not isinstance(head, exp.ColumnDef):
            return None
        if head.args.get("constraints"):
            way_out = "name it and its type only: what rules say has no constraints"
            raise self.builder.refused("a constraint of a view's column", head, way_out)
        kind = head.args.get("kind")
        return written_type(self.builder.statement, kind, head)

    # --- checks --------------------------------------------------------------------------------

    def _check(
        self,
        tables: Mapping[str, Relation],
        own: Mapping[str, Sequence[Attribute]],
        rules: Sequence[Rule],
    ) -> list[Rule]:
        """The rules as the engine has them, over what SQL shows of tables and views.

        Raises SqlProgrammingError, SqlRefusedError with what the checks of rules say.
        """
        shown = {
            name: tuple(
                Attribute(f"c{n}", logical_name(column.type, nullable=column.nullable))
                for n, column in enumerate(table.columns)
            )
            for name, table in tables.items()
        }
        relations = (
            *(RelationDecl(name, attributes) for name, attributes in shown.items()),
            *(RelationDecl(name, tuple(attributes)) for name, attributes in own.items()),
        )
        program = Program(relations, tuple(rules))
        self.diagnostics += (
            replace(diagnostic, severity="error") if diagnostic.code in _ORDERED else diagnostic
            for diagnostic in check(program)
            if diagnostic.severity == "error" or diagnostic.code in _ORDERED
        )
        if not self.diagnostics:
            self.diagnostics += unstratified(program, dependencies(program), aggregates=True)
        self._require_none()
        schemas = schemas_of(program)
        erased = [_erased(rule, infer(program, schemas, rule)[0].rule) for rule in rules]
        self.builder.native |= called(erased).keys()
        return erased

    def _wrong(self, code: str, message: str, span: Span | None, hint: str) -> None:
        self.diagnostics.append(Diagnostic(code, message, span, hint))

    def _refused(self, what: str, span: Span | None, way_out: str) -> None:
        self._wrong(
            SqlRefusedError.code, f"{what} in the rules of a view is not maintained", span, way_out
        )

    def _require_none(self) -> None:
        """Raises SqlProgrammingError, SqlRefusedError with all that was found wrong."""
        if not self.diagnostics:
            return
        raise wrong(self.builder.statement, self.node, self.diagnostics)

    # --- the builder's -------------------------------------------------------------------------

    def _relation(self, name: str, columns: Sequence[Column], *, is_part: bool) -> Relation:
        key = tuple(range(len(columns)))
        relation = Relation(name, tuple(columns), (), key, of=self.name if is_part else "")
        self.builder.relations.append(relation)
        return relation

    def _renamed(
        self,
        formula: Formula,
        relations: Mapping[str, Relation],
        tables: Mapping[str, Relation],
        *,
        inside: bool,
    ) -> Formula:
        """A formula over the engine's relations; `inside` an aggregate rows are told apart."""
        if isinstance(formula, Atom):
            args = [self._term(arg, relations, tables) for arg in formula.args]
            relation = relations.get(formula.relation)
            if relation is None:
                relation = tables[formula.relation]
                if inside and relation.hidden:
                    relation = self._as_set(formula.relation, relation)
                args += [Wildcard()] * len(relation.hidden)
            return replace(formula, relation=relation.name, args=tuple(args))
        if isinstance(formula, Comparison):
            left = self._term(formula.left, relations, tables)
            return replace(formula, left=left, right=self._term(formula.right, relations, tables))
        if isinstance(formula, Not):
            return replace(
                formula, body=self._renamed(formula.body, relations, tables, inside=inside)
            )
        parts = (self._renamed(part, relations, tables, inside=inside) for part in formula.parts)
        return replace(formula, parts=tuple(parts))

    def _term(
        self, term: Term, relations: Mapping[str, Relation], tables: Mapping[str, Relation]
    ) -> Term:
        """A term, with the bodies of its aggregates over the engine's relations."""
        if isinstance(term, Call):
            return replace(
                term, args=tuple(self._term(arg, relations, tables) for arg in term.args)
            )
        if isinstance(term, Aggregate):
            target = None if term.target is None else self._term(term.target, relations, tables)
            body = self._renamed(body_of(term), relations, tables, inside=True)
            return replace(term, target=target, body=body)
        return term

    def _as_set(self, name: str, relation: Relation) -> Relation:
        """The rows of a table or view, each once: an aggregate counts what tells them apart."""
        as_set = self.as_sets.get(name)
        if as_set is None:
            as_set = self.builder.relation(relation.columns)
            atom, operands = self.builder.bind(relation)
            terms = [operand.term for operand in operands]
            self.builder.rule(as_set, terms[: len(relation.columns)], [atom])
            self.as_sets[name] = as_set
        return as_set

    def _converted(self, inner: Relation, wanted: Sequence[SqlType]) -> Relation:
        """The view of what rules computed, as values of the types that it was declared to have."""
        columns = [
            replace(column, type=kind) for column, kind in zip(inner.columns, wanted, strict=True)
        ]
        view = self._relation(self.name, columns, is_part=False)
        atom, operands = self.builder.bind(inner)
        body: list[Formula] = [atom]
        shown = [
            operand
            if operand.type is kind
            else self.builder.apply(_as(operand, kind), [operand], body)
            for operand, kind in zip(operands, wanted, strict=True)
        ]
        self.builder.head(view, shown, body)
        return view

    def _head_of(self, rules: Sequence[Rule], name: str) -> Span | None:
        return next((rule.heads[0].span for rule in rules if rule.heads[0].relation == name), None)


def _as(operand: Operand, kind: SqlType) -> Scalar:
    """What the engine holds for a value of another type of SQL, as one of that type."""
    write = operand.type.write

    def compute(row: Sequence[Any]) -> Any:
        if row[0] is None:
            return None
        held, value = write(row[0]), None
        with suppress(ValueError, ArithmeticError):
            value = held if kind.read is None else kind.read(held)
        if value is None or kind.write(value) != held:
            raise ValueError(f"{as_sql(row[0])} is no {kind.name}")
        return value

    says = ("held as", operand.type.name, kind.name)
    return Scalar(compute, kind, operand.nullable, says, partial=True)


def _is_known(attribute: Attribute) -> bool:
    """Whether a column's type is none that only checks know to be wrong."""
    return attribute.type == "" or declared_kind(attribute.type) is not None


def _attribute_type(kind: Kind | None) -> str:
    """What rules call a column's type; a number, as long as nothing says what it is."""
    if kind is None or kind.type is NULL:
        return "number"
    return logical_name(kind.type, nullable=kind.nullable)


def _erased(rule: Rule, typed: Rule) -> Rule:
    """A rule without values of logical types, as it was written if it has none."""
    if not called([typed]) and _typed(rule) == _typed(typed):
        return rule
    return map_rule(typed, _untyped_nil, _untyped_record)


def _typed(rule: Rule) -> list[Value]:
    """What inference says of a rule's values besides functors: constants, types of sums."""
    parts = (rule.heads[0], rule.body)
    terms = [subterm for part in parts for term in terms_of(part) for subterm in subterms(term)]
    constants = [term.value for term in terms if isinstance(term, Const)]
    return [*constants, *(term.kind for term in terms if isinstance(term, Aggregate))]


def _untyped_nil(leaf: Leaf) -> Term:
    """A leaf for rules in which records of one field have other names."""
    return replace(leaf, type=None) if isinstance(leaf, Const) and leaf.value is None else leaf


def _untyped_record(term: Call | Aggregate) -> Term:
    if isinstance(term, Call) and term.functor.startswith("["):
        return replace(term, functor="[]")
    return term


def _names(head: Atom, dialect: str) -> Iterable[str]:
    """What columns are called where nobody says: as the variables of the first rule."""
    names: list[str] = []
    for position, arg in enumerate(head.args):
        inner = opened(arg) or arg
        name = normal_name(inner.name, dialect) if isinstance(inner, Var) else f"c{position}"
        names.append(f"c{position}" if name in names else name)
    return names
