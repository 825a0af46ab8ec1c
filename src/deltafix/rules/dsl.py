"""Rules as Python: the second door to a program.

Three nouns: a *relation* called with terms makes an atom; atoms and comparisons joined with `&`,
`|` and `~` make a body; `head <= body` puts a rule into the program whose `with` block is open.
Invariant: what is written here equals, as data, what the same text would parse to, and goes
through the same checks. Anything Python would read differently from how it looks (`and`, chained
comparisons, a missing parenthesis around `x < y`) is an error at once, never a wrong rule.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from types import EllipsisType, MappingProxyType
from typing import Any, Final, Never, TypeAlias

from deltafix.diagnostics import Span, suggest
from deltafix.errors import ProgramError
from deltafix.rules.ast import (
    And,
    Atom,
    Attribute,
    Comparison,
    Directive,
    Dominates,
    Formula,
    FunctorDecl,
    LatticeDecl,
    Not,
    Program,
    RelationDecl,
    Rule,
    TypeDecl,
    conjunction,
    disjunction,
)
from deltafix.rules.terms import Aggregate, BaseType, Call, Const, Term, Value, Var, Wildcard

__all__ = [
    "AtomExpr",
    "Builder",
    "Column",
    "FormulaExpr",
    "Joined",
    "Operand",
    "Relation",
    "TermExpr",
    "call",
    "close_builder",
    "contains",
    "count",
    "current_builder",
    "match",
    "max_of",
    "mean_of",
    "min_of",
    "open_builder",
    "sum_of",
    "unsigned",
    "variables",
    "vars",
]


@dataclass(frozen=True, slots=True)
class Joined:
    """A column that holds one value per key; made by `Min`, `Max` and `Lattice`."""

    type: type[int] | type[float] | type[str] | str
    join: str


Column: TypeAlias = type[int] | type[float] | type[str] | str | Joined
"""A column's type: `int`, `float`, `str`, a type's name (`"unsigned"`), or a `Joined` of them."""

_COLUMNS: Final[dict[object, BaseType]] = {int: "number", float: "float", str: "symbol"}
_BASES: Final[dict[str, BaseType]] = {
    "number": "number",
    "unsigned": "unsigned",
    "float": "float",
    "symbol": "symbol",
}


def _here() -> Span | None:
    """The place in the user's file: the first frame outside this package's rules."""
    frame = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(_INSIDE):
        back = frame.f_back
        if back is None:
            return None
        frame = back
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    line, last, column, end = positions
    if line is None or column is None or end is None:
        return Span(0, 0, frame.f_lineno, 1, frame.f_code.co_filename)
    width = end - column if last == line else 1
    return Span(column, column + width, line, column + 1, frame.f_code.co_filename)


_INSIDE: Final = ("deltafix.rules.", "deltafix.datalog.")


class TermExpr:
    """A variable, constant or computed value. Compare it to make a literal; compute with it.

    `+ - * / %` and unary `-` are the language's; `**` is its power `^`.
    """

    __slots__ = ("term",)
    __hash__ = None  # type: ignore[assignment]  # `==` makes a literal: no set or dict of terms

    def __init__(self, term: Term) -> None:
        self.term = term

    def __repr__(self) -> str:
        return f"TermExpr({self.term!r})"

    def __bool__(self) -> bool:
        raise TypeError("a term is neither true nor false: compare it, and join literals with &")

    def _call(self, functor: str, left: Operand, right: Operand) -> TermExpr:
        return TermExpr(Call(functor, (term_of(left), term_of(right)), _here()))

    def __add__(self, other: Operand) -> TermExpr:
        return self._call("+", self, other)

    def __radd__(self, other: Operand) -> TermExpr:
        return self._call("+", other, self)

    def __sub__(self, other: Operand) -> TermExpr:
        return self._call("-", self, other)

    def __rsub__(self, other: Operand) -> TermExpr:
        return self._call("-", other, self)

    def __mul__(self, other: Operand) -> TermExpr:
        return self._call("*", self, other)

    def __rmul__(self, other: Operand) -> TermExpr:
        return self._call("*", other, self)

    def __truediv__(self, other: Operand) -> TermExpr:
        return self._call("/", self, other)

    def __rtruediv__(self, other: Operand) -> TermExpr:
        return self._call("/", other, self)

    def __mod__(self, other: Operand) -> TermExpr:
        return self._call("%", self, other)

    def __rmod__(self, other: Operand) -> TermExpr:
        return self._call("%", other, self)

    def __pow__(self, other: Operand) -> TermExpr:
        return self._call("^", self, other)

    def __rpow__(self, other: Operand) -> TermExpr:
        return self._call("^", other, self)

    def __neg__(self) -> TermExpr:
        return TermExpr(Call("neg", (self.term,), _here()))

    def _compare(self, op: str, other: Operand) -> FormulaExpr:
        return FormulaExpr(Comparison(op, self.term, term_of(other), _here()))

    def __eq__(self, other: Operand) -> FormulaExpr:  # type: ignore[override]  # a literal, not a truth
        return self._compare("=", other)

    def __ne__(self, other: Operand) -> FormulaExpr:  # type: ignore[override]  # a literal, not a truth
        return self._compare("!=", other)

    def __lt__(self, other: Operand) -> FormulaExpr:
        return self._compare("<", other)

    def __le__(self, other: Operand) -> FormulaExpr:
        return self._compare("<=", other)

    def __gt__(self, other: Operand) -> FormulaExpr:
        return self._compare(">", other)

    def __ge__(self, other: Operand) -> FormulaExpr:
        return self._compare(">=", other)

    def __and__(self, other: object) -> Never:
        raise TypeError(_PARENTHESES)

    __or__ = __rand__ = __ror__ = __and__


_PARENTHESES: Final = (
    "& and | bind tighter than comparisons in Python: write (x < y) & atom(..) with parentheses"
)

Operand: TypeAlias = TermExpr | int | float | str | EllipsisType | tuple[Any, ...] | None
"""What may stand in an atom or a comparison; `...` is `_`, a tuple a record, None `nil`."""


def term_of(value: object) -> Term:
    """The term for a Python value. Raises TypeError for what is no term."""
    if isinstance(value, TermExpr):
        return value.term
    if value is ...:
        return Wildcard(_here())
    if value is None:
        return Const(None, None, _here())
    if isinstance(value, tuple):
        return Call("[]", tuple(map(term_of, value)), _here())
    if isinstance(value, FormulaExpr):
        raise TypeError("a literal cannot stand inside a term; compare values of columns instead")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError(f"{value!r} is no term: use a variable, int, float, str, or ... for any")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"{value!r} cannot be a constant of a rule: it has no text form")
        return Const(value, "float", _here())
    return Const(value, "symbol" if isinstance(value, str) else None, _here())


class FormulaExpr:
    """A body: join with `&`, choose with `|`, negate with `~`."""

    __slots__ = ("formula",)

    def __init__(self, formula: Formula) -> None:
        self.formula = formula

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.formula!r})"

    def __bool__(self) -> bool:
        raise TypeError(
            "a literal is neither true nor false: use & | ~ instead of and, or, not; "
            "comparisons do not chain, write (1 < x) & (x < 5)"
        )

    def __and__(self, other: FormulaExpr) -> FormulaExpr:
        return FormulaExpr(conjunction((self.formula, _formula(other))))

    def __or__(self, other: FormulaExpr) -> FormulaExpr:
        return FormulaExpr(disjunction((self.formula, _formula(other))))

    def __invert__(self) -> FormulaExpr:
        return FormulaExpr(Not(self.formula, _here()))

    def __ge__(self, heads: tuple[AtomExpr, ...]) -> _Stated:
        # Python asks the body when the left side is a tuple: (a(x), b(x)) <= body.
        if not isinstance(heads, tuple) or not all(isinstance(h, AtomExpr) for h in heads):
            raise TypeError("a rule is written head(..) <= body, or (head(..), head(..)) <= body")
        return _add(heads, self.formula)


def _formula(value: object) -> Formula:
    if isinstance(value, FormulaExpr):
        return value.formula
    if isinstance(value, TermExpr):
        raise TypeError(_PARENTHESES)
    raise TypeError(f"{value!r} is no literal: join atoms and comparisons")


class AtomExpr(FormulaExpr):
    """An atom: a literal of a body, or, left of `<=`, the head of a rule."""

    __slots__ = ("atom", "builder")

    def __init__(self, atom: Atom, builder: Builder | None) -> None:
        super().__init__(atom)
        self.atom = atom
        self.builder = builder

    def __le__(self, body: FormulaExpr | bool) -> _Stated:
        return _add((self,), And(()) if body is True else _formula(body))

    def _misuse(self, other: object) -> Never:
        raise TypeError("a rule is written head(..) <= body; only terms can be compared")

    __lt__ = __gt__ = _misuse


class _Stated:
    """What `head <= body` gives: nothing to compute with, so a chain is noticed."""

    __slots__ = ()

    def __bool__(self) -> bool:
        raise TypeError("rules do not chain: write each head(..) <= body as a statement")


def _add(heads: Sequence[AtomExpr], body: Formula) -> _Stated:
    builder = heads[0].builder if heads else None
    if builder is None or builder.closed:
        raise ProgramError("this program is complete: rules are written inside its `with` block")
    builder.rules.append(Rule(tuple(head.atom for head in heads), body, _here()))
    return _Stated()


@dataclass(frozen=True, slots=True)
class Relation(RelationDecl):
    """A declared relation; call it with terms to make an atom."""

    builder: Builder | None = field(default=None, compare=False, repr=False)

    def __call__(self, *terms: Operand) -> AtomExpr:
        """The atom `name(terms)`. Arity and types are checked when the program is complete."""
        return AtomExpr(Atom(self.name, tuple(map(term_of, terms)), _here()), self.builder)


@dataclass(slots=True)
class Builder:
    """A program being written. `build` gives it as data."""

    relations: list[Relation] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    directives: list[Directive] = field(default_factory=list)
    types: list[TypeDecl] = field(default_factory=list)
    qualifiers: dict[str, list[str]] = field(default_factory=dict)
    choices: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    orders: list[Dominates] = field(default_factory=list)
    functors: list[FunctorDecl] = field(default_factory=list)
    lattices: list[LatticeDecl] = field(default_factory=list)
    closed: bool = False

    def declare(self, name: str, columns: Mapping[str, Column]) -> Relation:
        """`.decl name(columns)`."""
        attributes = self.attributes(name, columns)
        relation = Relation(name, attributes, span=_here(), builder=self)
        self.relations.append(relation)
        return relation

    def attributes(self, name: str, columns: Mapping[str, Column]) -> tuple[Attribute, ...]:
        """Columns or fields with their types."""
        found = []
        for column, kind in columns.items():
            plain, join = (kind.type, kind.join) if isinstance(kind, Joined) else (kind, "")
            found.append(Attribute(column, self._type(name, column, plain), join, _here()))
        return tuple(found)

    def _type(self, relation: str, column: str, kind: object) -> str:
        if isinstance(kind, str):
            return kind
        base = _COLUMNS.get(kind)
        if base is None:
            raise TypeError(
                f"column {column!r} of {relation!r} has type {kind!r}; "
                "valid: int, float, str, or a type's name such as 'unsigned'"
            )
        return base

    def type(self, name: str, base: Column) -> str:
        """`.type name <: base`; gives the name, for use in `relation`."""
        parent = self._type(name, "", base)
        known = {declared.name: declared.base for declared in self.types} | _BASES
        if parent not in known:
            close = suggest(parent, list(known))
            hint = f"; did you mean {close!r}?" if close else ""
            raise ProgramError(f"there is no type {parent!r}{hint}")
        self.types.append(TypeDecl(name, known[parent], (parent,), span=_here()))
        return name

    def direct(
        self, kind: str, relations: Iterable[RelationDecl | str], parameters: Mapping[str, str]
    ) -> None:
        """`.input`, `.output` and their like."""
        for relation in relations:
            name = relation if isinstance(relation, str) else relation.name
            held = MappingProxyType(dict(parameters))
            self.directives.append(Directive(kind, name, held, _here()))

    def qualify(self, word: str, relations: Iterable[RelationDecl | str]) -> None:
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

    def facts(self, relation: RelationDecl, rows: Iterable[Sequence[Value]]) -> None:
        """One fact per row."""
        for row in rows:
            atom = Atom(relation.name, tuple(map(term_of, row)), _here())
            self.rules.append(Rule((atom,), And(()), _here()))

    def build(self) -> Program:
        """The program as data; the builder takes no more rules."""
        self.closed = True
        relations = tuple(
            RelationDecl(
                r.name,
                r.attributes,
                (*r.qualifiers, *self.qualifiers.get(r.name, ())),
                (*r.choices, *self.choices.get(r.name, ())),
                r.span,
            )
            for r in self.relations
        )
        return Program(
            relations,
            tuple(self.rules),
            tuple(self.directives),
            tuple(self.types),
            orders=tuple(self.orders),
            functors=tuple(self.functors),
            lattices=tuple(self.lattices),
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
    found = builder or _open.get()
    if found is None or found.closed:
        raise ProgramError("no program is open: write this inside `with deltafix.Program() as p:`")
    return found


def variables(names: str) -> tuple[TermExpr, ...]:
    """Variables by name, `variables("x y z")`; the name `_` gives the wildcard."""
    split = names.replace(",", " ").split()
    for name in split:
        if not name.isidentifier():
            raise ValueError(f"{name!r} cannot be a variable: use letters, digits and _")
    return tuple(TermExpr(Wildcard() if name == "_" else Var(name)) for name in split)


vars = variables  # noqa: A001  the public spelling: deltafix.vars("x y z")


def unsigned(value: int) -> TermExpr:
    """The unsigned constant that text writes `3u`."""
    return TermExpr(Const(value, "unsigned", _here()))


def call(functor: str, *args: Operand) -> TermExpr:
    """An intrinsic functor by name: `call("cat", x, "!")`, `call("band", x, 1)`."""
    return TermExpr(Call(functor, tuple(map(term_of, args)), _here()))


def match(pattern: Operand, text: Operand) -> FormulaExpr:
    """The whole of `text` matches the regular expression `pattern`."""
    return FormulaExpr(Comparison("match", term_of(pattern), term_of(text), _here()))


def contains(part: Operand, text: Operand) -> FormulaExpr:
    """`part` occurs in `text`."""
    return FormulaExpr(Comparison("contains", term_of(part), term_of(text), _here()))


def count(body: FormulaExpr) -> TermExpr:
    """`count : { body }`."""
    return TermExpr(Aggregate("count", None, _formula(body), _here()))


def sum_of(target: Operand, body: FormulaExpr) -> TermExpr:
    """`sum target : { body }`."""
    return TermExpr(Aggregate("sum", term_of(target), _formula(body), _here()))


def min_of(target: Operand, body: FormulaExpr) -> TermExpr:
    """`min target : { body }`."""
    return TermExpr(Aggregate("min", term_of(target), _formula(body), _here()))


def max_of(target: Operand, body: FormulaExpr) -> TermExpr:
    """`max target : { body }`."""
    return TermExpr(Aggregate("max", term_of(target), _formula(body), _here()))


def mean_of(target: Operand, body: FormulaExpr) -> TermExpr:
    """`mean target : { body }`."""
    return TermExpr(Aggregate("mean", term_of(target), _formula(body), _here()))
