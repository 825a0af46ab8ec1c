"""Facts and queries as text: the program language's own atoms, for the shell and for `db.query`.

Invariant: text goes through the program parser, so what a program accepts as a fact is accepted
here too, with the same errors and carets. Nothing here evaluates rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import TYPE_CHECKING, Final

from deltafix.datalog.clauses import ClauseParser
from deltafix.datalog.cursor import SyntaxFault
from deltafix.datalog.preprocess import preprocess
from deltafix.datalog.source import Source
from deltafix.diagnostics import Diagnostic, plural, render
from deltafix.errors import ProgramError, TypeMismatchError
from deltafix.facts.logical_types import constant_of
from deltafix.facts.schema import (
    Column,
    Pattern,
    Row,
    Schema,
    unknown_relation,
)
from deltafix.facts.values import Value, show_value
from deltafix.rules.ast import BASES, Atom, Dominates, Rule
from deltafix.rules.kinds import EXAMPLES
from deltafix.rules.terms import Call, Const, Term, Var, Wildcard, constant

if TYPE_CHECKING:
    from deltafix.engine.database import Database


@dataclass(frozen=True, slots=True)
class Query:
    """An atom with constants, variables and `_`.

    Attributes:
        relation: its name.
        pattern: per column the constant it must have, `...` for a variable or `_`.
        equal: groups of columns that must have equal values, from repeated variables.
    """

    relation: str
    pattern: Pattern
    equal: tuple[tuple[int, ...], ...] = ()

    def keep_equal(self, rows: Iterable[Row]) -> list[Row]:
        """Of the rows that fit the pattern, those with equal values for equal variables."""
        return [
            row
            for row in rows
            if all(row[first] == row[other] for first, *rest in self.equal for other in rest)
        ]


def read_facts(text: str, schemas: Mapping[str, Schema]) -> list[tuple[str, Row]]:
    """Ground atoms separated by commas: `edge("a", "b"), edge("b", "c")`.

    Raises:
        ProgramError: text that is no list of ground atoms, or an atom with more or fewer values
            than its relation has columns; drawn with a caret.
        UnknownRelationError, TypeMismatchError: an atom that does not fit the program.
    """
    facts: list[tuple[str, Row]] = []
    for atom in _atoms(text):
        schema = _schema_of(atom, text, schemas)
        cells = _cells(schema, atom)
        row = tuple(_fitting(column, _said(column, term), text, schema) for column, term in cells)
        facts.append((atom.relation, row))
    return facts


def followed(db: Database, text: str) -> list[tuple[str, Row]]:
    """What follows at once from facts, as text: see `Database.step_from_delta`. Raises as both."""
    given: dict[str, list[Row]] = {}
    for relation, row in read_facts(text, db.schemas):
        given.setdefault(relation, []).append(row)
    return [(name, row) for name, rows in given.items() for row in db.step_from_delta(name, rows)]


def read_query(text: str, schemas: Mapping[str, Schema]) -> Query:
    """One atom: `path("a", X)`. Raises as `read_facts` does.

    In a column of floats `inf` and `nan` are values, as rows show them, and no variables.
    """
    atom, schema = _atom(text, schemas)
    pattern: list[Value | EllipsisType] = []
    variables: dict[str, list[int]] = {}
    for position, (column, term) in enumerate(_cells(schema, atom)):
        value: Value | EllipsisType = ...
        term = _spelt(term) if column.type == "float" else term  # noqa: PLW2901
        if isinstance(term, Var):
            variables.setdefault(term.name, []).append(position)
        elif not isinstance(term, Wildcard):
            value = _fitting(column, term, text, schema)
        pattern.append(value)
    equal = tuple(tuple(same) for same in variables.values() if len(same) > 1)
    return Query(atom.relation, tuple(pattern), equal)


def read_ground(text: str, schemas: Mapping[str, Schema]) -> tuple[str, Row]:
    """One fact: `path("a", "c")`. Raises as `read_query` does, and for a variable or `_`."""
    atom, schema = _atom(text, schemas)
    row = []
    for column, written in _cells(schema, atom):
        term = _said(column, written)
        if isinstance(term, Var | Wildcard):
            message = f"column `{column.name}` has no value: one row is asked about, not several"
            asked = f"`? {text.strip()}` in `deltafix shell` lists the rows"
            hint = f"give every column a constant; {asked}"
            if isinstance(term, Var) and column.type == "symbol":
                message += f"; `{term.name}` is a variable"
                hint = f'a text stands in quotes: "{term.name}"; {asked}'
            raise _wrong(text, term, message, hint)
        row.append(_fitting(column, term, text, schema))
    return atom.relation, tuple(row)


def _atom(text: str, schemas: Mapping[str, Schema]) -> tuple[Atom, Schema]:
    """The one atom of a text, and its relation."""
    atoms = _atoms(text)
    if len(atoms) > 1:
        raise _wrong(text, atoms[1], "a query is one atom", "name the join in a rule and ask that")
    return atoms[0], _schema_of(atoms[0], text, schemas)


_FLOATS: Final = frozenset({"inf", "nan"})
"""Floats that a program computes and has no literal for, as rows show them."""


def _said(column: Column, term: Term) -> Term:
    """A term as a column takes it: names of floats where there may be floats."""
    return term if column.type in {"symbol", "number", "unsigned"} else _spelt(term)


def _spelt(term: Term) -> Term:
    """A term in which the names of those floats, in records, too, are their values."""
    if isinstance(term, Var) and term.name in _FLOATS:
        return Const(float(term.name), "float", term.span)
    if isinstance(term, Call) and (term.functor == "neg" or term.functor[0] in "[$"):
        return replace(term, args=tuple(map(_spelt, term.args)))
    return term


def schema_named(name: str, schemas: Mapping[str, Schema]) -> Schema:
    """The schema of a relation. Raises UnknownRelationError with a suggestion."""
    if name in schemas:
        return schemas[name]
    raise unknown_relation(name, schemas)


def _atoms(text: str) -> tuple[Atom, ...]:
    ended = text if text.rstrip().endswith(".") else f"{text}."
    source = Source(ended)
    tokens = preprocess(source, None)
    parser = ClauseParser(tokens.tokens, source)
    diagnostics: list[Diagnostic] = list(tokens.diagnostics)
    rule: Rule | Dominates | None = None
    if not diagnostics:
        try:
            rule = parser.clause()
            fact = isinstance(rule, Rule) and rule.is_fact
            if parser.peek(0).text or not fact:
                span = rule.span if fact else getattr(rule.body, "span", None)
                diagnostics.append(Diagnostic("DF103", "expected facts only", span))
        except SyntaxFault as fault:
            wrong = fault.diagnostic
            if ended != text and wrong.span is not None and wrong.span.start >= len(text):
                # The dot is ours.
                message = wrong.message.replace("found `.`", "found the end of the text")
                wrong = replace(wrong, message=message)
            diagnostics.append(wrong)
    if not isinstance(rule, Rule) or diagnostics:
        raise ProgramError("\n".join(render(item, text) for item in diagnostics), diagnostics)
    return rule.heads


def _schema_of(atom: Atom, text: str, schemas: Mapping[str, Schema]) -> Schema:
    """The schema of an atom that has as many columns."""
    schema = schema_named(atom.relation, schemas)
    if len(atom.args) != schema.arity:
        message = f"`{atom.relation}` has {plural(schema.arity, 'column')}, {len(atom.args)} given"
        raise _wrong(text, atom, message, schema.show())
    return schema


def _cells(schema: Schema, atom: Atom) -> Iterator[tuple[Column, Term]]:
    return zip(schema.columns, atom.args, strict=True)


def _fitting(column: Column, term: Term, text: str, schema: Schema) -> Value:
    """What a term says, as its column holds it."""
    try:
        value = constant(term)
    except ValueError:
        hint = 'a fact is like edge("a", 1)'
        if isinstance(term, Var) and column.type == "symbol":
            hint = f'a text stands in quotes: "{term.name}"'
        raise _wrong(text, term, "expected a constant", hint) from None
    try:
        return schema.check_value(column, 0, _of_literal(column, value))
    except TypeMismatchError:
        name = schema.relation
        problem = f"{show_value(value)}, but {_takes(column, value)}"
        raise TypeMismatchError(
            f"{name}: column {column.name!r} is {problem}",
            relation=name,
            column=column.name,
            value=value,
        ) from None


def _of_literal(column: Column, value: Value) -> Value:
    """A constant as its column has it: of logical types a text or number, or one in a record."""
    kind = column.of
    if kind is None or value is None:
        return value
    if isinstance(value, tuple) and kind.nullable and len(value) == 1:
        (value,) = value
    constant = None if kind.inner in BASES else constant_of(kind.inner, value)
    return value if constant is None else kind.read(constant)


def _takes(column: Column, value: Value) -> str:
    """What a column takes, as programs spell it."""
    if column.of is not None:
        return column.of.written(column.of.spelled)
    if column.shape is not None:
        return f"{column.shape.kind} takes {column.shape.spelled}"
    if column.range is not None and isinstance(value, int):
        return f"{column.type} takes numbers from {column.range[0]} to {column.range[1]}"
    return f"{column.type} takes values like {EXAMPLES[column.type]}"


def _wrong(text: str, part: Term | Atom, message: str, hint: str) -> ProgramError:
    diagnostic = Diagnostic("DF103", message, part.span, hint)
    return ProgramError(render(diagnostic, text), [diagnostic])
