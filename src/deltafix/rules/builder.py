"""A program being written in Python: its declarations, rules and directives, in order.

Three nouns: a *relation*, which is called with terms to make an atom; the *builder*, which holds
what was written; the *open* builder, that of the innermost `with` block. Nothing is checked here:
`build` gives the program as data, and `rules.check` says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from copy import copy
from dataclasses import dataclass, field, fields
from datetime import date, datetime, time
from types import MappingProxyType, NoneType, UnionType
from typing import Final, TypeAlias, get_args
from uuid import UUID

from deltafix.diagnostics import suggest
from deltafix.errors import ProgramError
from deltafix.facts.logical_types import logical_type
from deltafix.facts.values import BaseType, Value
from deltafix.rules import ast
from deltafix.rules.expressions import AtomExpr, Operand, term_of
from deltafix.rules.feed import Feed
from deltafix.rules.place import here


@dataclass(frozen=True, slots=True)
class Joined:
    """A column that holds one value per key; made by `Min`, `Max` and `Lattice`."""

    type: type | UnionType | str
    join: str


Column: TypeAlias = type | UnionType | str | Joined
"""A column's type: a class of `_COLUMNS`, also `date | None`, a type's name (`"unsigned"`,
`"decimal(10, 2)"`), or a `Joined` of them."""

_COLUMNS: Final[dict[type, str]] = {
    int: "number",
    float: "float",
    str: "symbol",
    bool: "boolean",
    date: "date",
    time: "time",
    datetime: "timestamp",
    bytes: "blob",
    UUID: "uuid",
}
_BASES: Final[dict[str, BaseType]] = {
    "number": "number",
    "unsigned": "unsigned",
    "float": "float",
    "symbol": "symbol",
}


@dataclass(frozen=True, slots=True)
class Relation(ast.RelationDecl):
    """A declared relation; call it with terms to make an atom."""

    builder: Builder | None = field(default=None, compare=False, repr=False)

    def __call__(self, *terms: Operand) -> AtomExpr:
        """The atom `name(terms)`. Arity and types are checked when the program is complete."""
        return AtomExpr(ast.Atom(self.name, tuple(map(term_of, terms)), here()), self.builder)


@dataclass(slots=True)
class Builder:
    """A program being written. `build` gives it as data."""

    relations: list[Relation] = field(default_factory=list)
    rules: list[ast.Rule] = field(default_factory=list)
    directives: list[ast.Directive] = field(default_factory=list)
    types: list[ast.TypeDecl] = field(default_factory=list)
    qualifiers: dict[str, list[str]] = field(default_factory=dict)
    choices: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    indexes: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    orders: list[ast.Dominates] = field(default_factory=list)
    functors: list[ast.FunctorDecl] = field(default_factory=list)
    lattices: list[ast.LatticeDecl] = field(default_factory=list)
    pragmas: list[tuple[str, str]] = field(default_factory=list)
    fed: dict[str, Feed] = field(default_factory=dict)
    closed: bool = False

    def declare(self, name: str, columns: Mapping[str, Column]) -> Relation:
        """`.decl name(columns)`."""
        attributes = self.attributes(name, columns)
        relation = Relation(name, attributes, span=here(), builder=self)
        self.relations.append(relation)
        return relation

    def attributes(self, name: str, columns: Mapping[str, Column]) -> tuple[ast.Attribute, ...]:
        """Columns or fields with their types."""
        attributes = []
        for column, kind in columns.items():
            plain, join = (kind.type, kind.join) if isinstance(kind, Joined) else (kind, "")
            attributes.append(ast.Attribute(column, self._type(name, column, plain), join, here()))
        return tuple(attributes)

    def _type(self, relation: str, column: str, kind: object) -> str:
        if isinstance(kind, str):
            logical = logical_type(kind)
            return kind if logical is None else logical.name
        parts = get_args(kind)
        if isinstance(kind, UnionType) and len(parts) == 2 and NoneType in parts:
            (inner,) = (part for part in parts if part is not NoneType)
            return f"{self._type(relation, column, inner)}?"
        base = _COLUMNS.get(kind) if isinstance(kind, type) else None
        if base is None:
            valid = ", ".join(column_type.__name__ for column_type in _COLUMNS)
            raise TypeError(
                f"column {column!r} of {relation!r} has type {kind!r}; valid: {valid}, one of them "
                "| None, or a type's name such as 'unsigned' or 'decimal(10, 2)'"
            )
        return base

    def type(self, name: str, bases: Sequence[Column]) -> str:
        """`.type name <: base`, or the union of several; gives the name, for use in `relation`."""
        if not bases:
            raise ProgramError(f"type {name!r} needs a base type, as in p.type({name!r}, int)")
        parents = tuple(self._type(name, "", base) for base in bases)
        known = {declared.name: declared.base for declared in self.types} | _BASES
        for parent in parents:
            logical = logical_type(parent)
            if logical is not None:
                known.setdefault(parent, logical.base)
            if parent not in known:
                close = suggest(parent, list(known))
                hint = f"; did you mean {close!r}?" if close else ""
                raise ProgramError(f"there is no type {parent!r}{hint}")
        self.types.append(
            ast.TypeDecl(name, known[parents[0]], parents, span=here(), subtype=len(parents) == 1)
        )
        return name

    def direct(
        self, kind: str, relations: Iterable[ast.RelationDecl | str], parameters: Mapping[str, str]
    ) -> None:
        """`.input`, `.output` and their like."""
        for relation in relations:
            name = relation if isinstance(relation, str) else relation.name
            held = MappingProxyType(dict(parameters))
            self.directives.append(ast.Directive(kind, name, held, here()))

    def qualify(self, word: str, relations: Iterable[ast.RelationDecl | str]) -> None:
        """Put a word such as `inline` behind declarations. Raises ProgramError for unknown ones."""
        known = [declared.name for declared in self.relations]
        for relation in relations:
            name = relation if isinstance(relation, str) else relation.name
            if name not in known:
                close = suggest(name, known)
                hint = f"; did you mean {close!r}?" if close else ""
                raise ProgramError(f"there is no relation {name!r} in this program{hint}")
            words = self.qualifiers.setdefault(name, [])
            words.extend([word] if word not in words else [])

    def facts(self, relation: ast.RelationDecl, rows: Iterable[Sequence[Value]]) -> None:
        """One fact per row."""
        may_lack = {
            n for n, attribute in enumerate(relation.attributes) if attribute.type.endswith("?")
        }
        for row in rows:
            terms = (
                (value,) if n in may_lack and value is not None else value
                for n, value in enumerate(row)
            )
            atom = ast.Atom(relation.name, tuple(map(term_of, terms)), here())
            self.rules.append(ast.Rule((atom,), ast.And(()), here()))

    @contextmanager
    def forgotten(self) -> Iterator[None]:
        """What is written inside is taken back at the end."""
        held = {field.name: copy(getattr(self, field.name)) for field in fields(self)}
        try:
            yield
        finally:
            for name, value in held.items():
                setattr(self, name, value)

    def build(self) -> ast.Program:
        """The program as data; the builder takes no more rules."""
        self.closed = True
        relations = tuple(
            ast.RelationDecl(
                r.name,
                r.attributes,
                (*r.qualifiers, *self.qualifiers.get(r.name, ())),
                (*r.choices, *self.choices.get(r.name, ())),
                (*r.indexes, *self.indexes.get(r.name, ())),
                r.span,
            )
            for r in self.relations
        )
        return ast.Program(
            relations,
            tuple(self.rules),
            tuple(self.directives),
            tuple(self.types),
            pragmas=tuple(self.pragmas),
            orders=tuple(self.orders),
            functors=tuple(self.functors),
            lattices=tuple(self.lattices),
            fed=dict(self.fed),
        )


_open: ContextVar[Builder | None] = ContextVar("deltafix_open_program", default=None)


def open_builder(builder: Builder) -> Token[Builder | None]:
    """Make a builder the current one; `close_builder` of the result undoes it."""
    return _open.set(builder)


def close_builder(outer: Token[Builder | None]) -> None:
    """Go back to the builder that was current before."""
    _open.reset(outer)


def current_builder(builder: Builder | None = None) -> Builder:
    """The builder of the open `with` block. Raises ProgramError outside one."""
    opened = builder or _open.get()
    if opened is None or opened.closed:
        raise ProgramError("no program is open: write this inside `with deltafix.Program() as p:`")
    return opened
