"""`deltafix.Program`: a checked program, from whichever door it came.

Invariant: a `Program` that `parse`, `from_file` or a finished `with` block gives has no errors;
its warnings are kept. It is an `rules.ast.Program` and compares by value, so the text door and the
Python door can be held against each other. A program changes once in its life: when its `with`
block ends.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Mapping, Sequence
from contextvars import Token
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from deltafix.datalog.load import Analysis, analyse, read_bytes
from deltafix.datalog.preprocess import Given
from deltafix.diagnostics import Diagnostic, plural
from deltafix.errors import ProgramError
from deltafix.facts.values import Value
from deltafix.rules import ast, extended
from deltafix.rules.builder import (
    Builder,
    Column,
    Relation,
    close_builder,
    current_builder,
    open_builder,
)
from deltafix.rules.check import looked_at
from deltafix.rules.expressions import AtomExpr, FormulaExpr, Operand
from deltafix.rules.infer import Typed
from deltafix.rules.show import show


@dataclass(frozen=True, slots=True)
class Program(ast.Program):
    """Relations, rules and directives that were checked.

    Examples:
        >>> program = Program.parse(".decl a(x: number) .output a  a(1). a(2).")
        >>> [relation.name for relation in program.relations]
        ['a']

    The same from Python, where `head <= body` is a rule (see `deltafix.rules.dsl`):

        >>> from deltafix.rules.dsl import variables
        >>> with Program() as p:
        ...     edge, path = p.relation("edge", x=int, y=int), p.relation("path", x=int, y=int)
        ...     x, y, z = variables("x y z")
        ...     _ = path(x, y) <= edge(x, y)
        ...     _ = path(x, z) <= path(x, y) & edge(y, z)
        >>> print(p.show())
        .decl edge(x: number, y: number)
        .decl path(x: number, y: number)
        path(x, y) :- edge(x, y).
        path(x, z) :- path(x, y), edge(y, z).
        <BLANKLINE>
    """

    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False, repr=False)
    _known: tuple[Typed, ...] = field(default=(), compare=False, repr=False, kw_only=True)
    _builder: Builder | None = field(default=None, compare=False, repr=False)
    _outer: Token[Builder | None] | None = field(default=None, compare=False, repr=False)

    # The text door ------------------------------------------------------------------------------

    @classmethod
    def parse(cls, text: str | bytes, path: str | None = None) -> Self:
        """The program a text says. `path` names the text in errors and fences `#include`.

        Raises ProgramError with every diagnostic of the text; its `diagnostics` are data.
        """
        return cls._from(analyse(text, path))

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        include: Iterable[str | Path] = (),
        macros: Mapping[str, str] = MappingProxyType({}),
        word_size: int | None = None,
    ) -> Self:
        """The program in a file (UTF-8).

        Args:
            path: the file; it may include those of its folder and of the folders below it.
            include: more folders to include from.
            macros: macros by name, with their text, as `#define` would have them.
            word_size: bits of a number, 32 or 64, whatever the program says itself.

        Raises SourceError and ProgramError.
        """
        if word_size not in (None, 32, 64):
            raise ValueError(f"word_size={word_size!r}; one of 32, 64, None")
        given = Given(tuple(map(Path, include)), macros, word_size)
        return cls._from(analyse(read_bytes(path), str(path), given))

    @classmethod
    def _from(cls, analysis: Analysis) -> Self:
        analysis.raise_for_errors()
        read = analysis.program
        return cls(
            read.relations,
            read.rules,
            read.directives,
            read.types,
            read.source,
            read.path,
            read.pragmas,
            read.orders,
            read.functors,
            read.lattices,
            analysis.warnings,
            _known=analysis.known,
        )

    def show(self) -> str:
        """The program as text; `Program.parse` of it gives an equal program."""
        return show(self)

    def __repr__(self) -> str:
        names = ", ".join(relation.name for relation in self.relations) or "no relations"
        return f"<Program {names}: {plural(len(self.rules), 'rule')}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.show())}</pre>"

    # The Python door ----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self.relations or self._builder is not None:
            raise ProgramError("this program is complete: start another with deltafix.Program()")
        builder = Builder()
        object.__setattr__(self, "_builder", builder)
        object.__setattr__(self, "_outer", open_builder(builder))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        builder, outer = self._builder, self._outer
        if builder is None or outer is None:
            return
        close_builder(outer)
        object.__setattr__(self, "_builder", None)
        object.__setattr__(self, "_outer", None)
        built = builder.build()
        if kind is not None:
            return
        diagnostics, known = looked_at(built)
        paths = {item.span.path for item in diagnostics if item.span is not None}
        sources: dict[str | None, str] = {
            path: "".join(linecache.getlines(path)) for path in paths if path
        }
        Analysis(built, diagnostics, sources).raise_for_errors()
        kept = ("relations", "rules", "directives", "types", "pragmas")
        for name in (*kept, "orders", "functors", "lattices", "fed"):
            object.__setattr__(self, name, getattr(built, name))
        warnings = tuple(item for item in diagnostics if item.severity != "error")
        object.__setattr__(self, "warnings", warnings)
        object.__setattr__(self, "_known", known)

    @property
    def is_open(self) -> bool:
        """Whether its `with` block has not ended: it says nothing yet."""
        return self._builder is not None

    def _writing(self) -> Builder:
        return current_builder(self._builder)

    def relation(self, name: str, /, **columns: Column) -> Relation:
        """Declare a relation, or look one up.

        Inside the `with` block a new name declares (`p.relation("edge", x=int, y=str)`; without
        columns, a nullary relation). Otherwise the relation of that name: KeyError if there is
        none.
        """
        if self._builder is None:
            if columns:
                raise ProgramError("relations are declared inside the program's `with` block")
            relation = ast.Program.relation(self, name)
            return Relation(
                relation.name,
                relation.attributes,
                relation.qualifiers,
                relation.choices,
                relation.indexes,
                relation.span,
            )
        for declared in self._builder.relations:
            if declared.name == name and not columns:
                return declared
        return self._builder.declare(name, columns)

    def type(self, name: str, *bases: Column) -> str:
        """Declare `.type name <: base`, or the union `a | b` of several; gives the name."""
        return self._writing().type(name, bases)

    def pragma(self, key: str, value: str = "") -> None:
        """`.pragma "key" "value"`, such as `p.pragma("word-size", "32")`."""
        self._writing().pragmas.append((key, value))

    def facts(self, relation: ast.RelationDecl, rows: Iterable[Sequence[Value]]) -> None:
        """Facts that belong to the program, one per row."""
        self._writing().facts(relation, rows)

    def input(self, *relations: ast.RelationDecl | str, **parameters: str) -> None:
        """`.input` for each relation, with the directive's parameters."""
        self._writing().direct("input", relations, parameters)

    def output(self, *relations: ast.RelationDecl | str, **parameters: str) -> None:
        """`.output` for each relation, with the directive's parameters."""
        self._writing().direct("output", relations, parameters)

    def inline(self, *relations: ast.RelationDecl | str) -> None:
        """Write these relations out wherever they are used; they are not kept themselves."""
        self._writing().qualify("inline", relations)

    def magic(self, *relations: ast.RelationDecl | str) -> None:
        """Compute these relations only where an output asks for them, by magic sets."""
        self._writing().qualify("magic", relations)

    def printsize(self, *relations: ast.RelationDecl | str) -> None:
        """`.printsize` for each relation."""
        self._writing().direct("printsize", relations, {})

    def limitsize(self, relation: ast.RelationDecl | str, n: int) -> None:
        """`.limitsize relation(n=...)`."""
        self._writing().direct("limitsize", (relation,), {"n": str(n)})

    # Constructed types, functors, and relations that join or drop rows (`rules.extended`) --------

    def record(self, name: str, /, **fields: Column) -> str:
        """Declare `.type name = [fields]`; gives the name for use as a column type."""
        return extended.declare_record(self._writing(), name, fields)

    def union(self, name: str, /, **branches: Mapping[str, Column]) -> str:
        """Declare `.type name = A {..} | B {..}`: each branch with its fields' types."""
        return extended.declare_union(self._writing(), name, branches)

    def functor(self, name: str, /, *, returns: Column, **arguments: Column) -> extended.Functor:
        """Declare `.functor name(arguments): returns`; call the result with terms."""
        return extended.declare_functor(self._writing(), name, arguments, returns)

    def lattice(self, kind: str, *, bottom: Operand, lub: extended.Functor) -> None:
        """Declare the `.lattice` of a type, for columns of `Lattice(kind)`."""
        extended.declare_lattice(self._writing(), kind, bottom, lub)

    def equivalence(self, relation: Relation) -> None:
        """Make a relation of two columns the equivalence that its rows generate (`eqrel`)."""
        extended.equivalence(self._writing(), relation)

    def choose(self, relation: Relation, *domains: str | tuple[str, ...]) -> None:
        """Keep one row for each value of each domain: a column, or a tuple of columns."""
        extended.choose(self._writing(), relation, domains)

    def index(self, relation: Relation, *keys: str | tuple[str, ...]) -> None:
        """Keep an index for each key, a column or a tuple of columns (`index-on`)."""
        extended.index(self._writing(), relation, keys)

    def subsume(self, less: AtomExpr, more: AtomExpr, when: FormulaExpr | None = None) -> None:
        """A row like `less` gives way to a row like `more` where `when` holds."""
        extended.subsume(self._writing(), less, more, when)
