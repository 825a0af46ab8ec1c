"""Declarations of types, functors and lattices, and the columns they share with relations.

Invariant: only the shape is looked at; whether a named type exists, and what its base type is, is
found by `datalog.load` and `rules.check`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from deltafix.datalog.clauses import ClauseParser
from deltafix.datalog.expressions import AGGREGATES
from deltafix.datalog.lexer import END, Token
from deltafix.diagnostics import Span, did_you_mean
from deltafix.rules.ast import Attribute, Constructor, FunctorDecl, LatticeDecl
from deltafix.rules.terms import Term

OPERATIONS: Final = ("Bottom", "Top", "Lub", "Glb", "Leq")
"""What a `.lattice` may say."""


@dataclass(frozen=True, slots=True)
class TypeSyntax:
    """`.type name <: parents` as written, before the base type is known."""

    name: str
    parents: tuple[Token, ...]
    subtype: bool
    span: Span
    branches: tuple[Constructor, ...] = ()


@dataclass(slots=True)
class Types:
    """The types, functors and lattices of a text, in its order."""

    types: list[TypeSyntax] = field(default_factory=list)
    functors: list[FunctorDecl] = field(default_factory=list)
    lattices: list[LatticeDecl] = field(default_factory=list)


class TypeParser(ClauseParser):
    """Reads `.type`, `.functor` and `.lattice`; `out` is where they go."""

    out: Types

    def columns(self, closing: str, what: str) -> tuple[Attribute, ...]:
        """`name: type, …` up to and with `closing`."""
        attributes: list[Attribute] = []
        while not self.at(closing):
            column = self.expect_name(f"a {what}'s name")
            if not self.at(":") and self.token.kind == "ident":
                hint = f"write `{column.text}: {self.token.text}`"
                self.fail(f"expected `:` after the {what} `{column.text}`", help=hint)
            if not self.at(":"):
                where = f"between the {what} `{column.text}` and its type"
                message = f"expected `:` {where}, found {self.token.shown}"
                self.fail(message, help=f"write `{column.text}: symbol`, or another type")
            self.take()
            kind = self.type_name("a type").text
            join = self.join() if what == "column" else ""
            attributes.append(Attribute(column.text, kind, join, self.since(column)))
            if self.accept(","):
                if self.at(closing):
                    self.fail(f"expected a {what}'s name, found `{closing}`")
            elif not self.at(closing):
                self.fail(f"expected `,` or `{closing}` after a {what}, found {self.token.shown}")
        self.take()
        return tuple(attributes)

    def join(self) -> str:
        """`<min>`, `<max>` or `<>` behind a column's type."""
        if self.accept("<>"):
            return "<>"
        if not self.accept("<"):
            return ""
        word = self.token
        if word.text not in ("min", "max"):
            hint = "valid: `<min>`, `<max>`, and `<>` for a type with a .lattice"
            self.fail(f"expected `min` or `max`, found {word.shown}", help=hint)
        self.take()
        self.expect(">", f"after `<{word.text}`")
        return word.text

    # Types ------------------------------------------------------------------------------------

    def _read_type(self, start: Token) -> None:
        name = self.dotted_name("a type's name")
        if self.accept("<:"):
            parent = self.type_name("the type it is a subtype of")
            self.out.types.append(TypeSyntax(name.text, (parent,), True, self.since(start)))
        elif self.accept("="):
            self._type_body(start, name)
        else:
            self._old_type(name, "symbol")

    def _old_type(self, name: Token, base: str) -> None:
        """`.type t` and `.number_type t` of old programs: a subtype of a base type."""
        parent = Token("ident", base, name.source, name.start, name.end)
        self.out.types.append(TypeSyntax(name.text, (parent,), True, name.span))

    def _read_number_type(self, _: Token) -> None:
        self._old_type(self.dotted_name("a type's name"), "number")

    def _read_symbol_type(self, _: Token) -> None:
        self._old_type(self.dotted_name("a type's name"), "symbol")

    def _type_body(self, start: Token, name: Token) -> None:
        opening = self.accept("[")
        if opening:
            fields = self.columns("]", "field")
            record = (Constructor("", fields, self.since(opening)),)
            self.out.types.append(TypeSyntax(name.text, (), False, self.since(start), record))
            return
        parents: list[Token] = []
        branches: list[Constructor] = []
        while True:
            part = self.type_name("a type or a branch")
            if self.accept("{"):
                branches.append(Constructor(part.text, self.columns("}", "field"), part.span))
            else:
                parents.append(part)
            if not self.accept("|"):
                break
        if branches and parents:
            hint = f"a branch without fields is written `{parents[0].text} {{}}`"
            self.fail(f"`{parents[0].text}` is neither a branch nor a union", parents[0], hint)
        self.out.types.append(
            TypeSyntax(name.text, tuple(parents), False, self.since(start), tuple(branches))
        )

    # Functors and lattices --------------------------------------------------------------------

    def _read_functor(self, start: Token) -> None:
        names = [self.dotted_name("a functor's name")]
        while self.accept(","):
            names.append(self.dotted_name("a functor's name"))
        self.expect("(", f"after `{names[-1].text}`")
        if self.token.kind == "ident" and self.peek().text in (",", ")", "("):
            arguments = self._bare_arguments()
        else:
            arguments = self.columns(")", "argument")
        self.expect(":", "before the type of the functor's result")
        result = self.type_name("the type of the functor's result").text
        stateful = self.at("stateful") and self.peek().text not in ("(", ".", ":-")
        if stateful:
            self.take()
        most, scale = self._kept_whole("sum"), self._kept_whole("mean")
        kept = self.token.text if self.token.text in AGGREGATES else ""
        if kept and self.peek().text in ("(", ":-"):  # a fact or a rule of that name
            kept = ""
        if kept:
            self.take()
        span = self.since(start)
        for name in names:
            self.out.functors.append(
                FunctorDecl(name.text, arguments, result, stateful, span, most, scale, kept)
            )

    def _kept_whole(self, word: str) -> int | None:
        """`sum N` or `mean N` behind a reducer that is one; no statement begins so."""
        if not (self.at(word) and self.peek().kind == "number"):
            return None
        self.take()
        number = self.token.value
        if not isinstance(number, int) or number >= 1 << 63:
            self.fail(f"`{word} {self.token.text}`: it is below 2^63")
        self.take()
        return number

    def _bare_arguments(self) -> tuple[Attribute, ...]:
        """`type, type)`, the arguments of a functor without names."""
        attributes: list[Attribute] = []
        while True:
            kind = self.type_name("a type")
            attributes.append(Attribute(f"x{len(attributes)}", kind.text, "", kind.span))
            if not self.accept(","):
                break
        self.expect(")", "after the functor's arguments")
        return tuple(attributes)

    def _read_lattice(self, start: Token) -> None:
        name = self.dotted_name("the type of the lattice")
        self.expect("<>", f"after `{name.text}`")
        self.expect("{", "before the lattice's operations")
        operations: list[tuple[str, Term]] = []
        while not self.at("}"):
            word = self.token
            if word.kind == END or word.text not in OPERATIONS:
                hint = did_you_mean(word.text, OPERATIONS, f"valid: {' '.join(OPERATIONS)}")
                self.fail(f"a lattice has no operation {word.shown}", help=hint)
            self.take()
            if word.text in dict(operations):
                self.fail(f"`{word.text}` is given twice", word, "remove one of them")
            self.expect("->", f"after `{word.text}`")
            operations.append((word.text, self.term()))
            if not self.accept(",") and not self.at("}"):
                self.fail(f"expected `,` or `}}` after an operation, found {self.token.shown}")
        self.take()
        self.out.lattices.append(LatticeDecl(name.text, tuple(operations), self.since(start)))
