"""The text door: characters in, a checked program or every diagnostic out.

Invariant: `analyse` never raises for a bad program and never opens a file outside the program's
folder. Names and types are checked only when the text could be read, so one slip does not
produce a second, misleading error.

A `TypeDecl` that leaves here has one base type; unknown parents, parents of different bases and
types defined by themselves are reported (DF106, DF111).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from deltafix.collector import held_back
from deltafix.datalog.components.instantiate import instantiate
from deltafix.datalog.parser import Parser, Syntax
from deltafix.datalog.preprocess import (
    DOMAIN_SIZE,
    NOTHING_GIVEN,
    Given,
    Preprocessed,
    preprocess,
)
from deltafix.datalog.source import Source, decode
from deltafix.datalog.types import Types, TypeSyntax
from deltafix.diagnostics import Diagnostic, did_you_mean, render_all
from deltafix.errors import ProgramError, SourceError
from deltafix.facts.logical_types import logical_type
from deltafix.facts.values import BaseType
from deltafix.rules.ast import Program, TypeDecl
from deltafix.rules.check import looked_at
from deltafix.rules.infer import Typed


@dataclass(frozen=True, slots=True)
class Analysis:
    """What one text turned out to be.

    `program` is what could be read, also when there are errors. `diagnostics` are errors and
    warnings in text order; `sources` holds every text read, by path, for carets; `missing` are
    the files that it includes and that could not be read; `known` is what its rules were found to
    be, without errors.
    """

    program: Program
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str | None, str]
    missing: tuple[Path, ...] = ()
    known: tuple[Typed, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that decide what the program says: those read, and those that are missing."""
        return (*(Path(path) for path in self.sources if path is not None), *self.missing)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that refuse the program."""
        return tuple(
            diagnostic for diagnostic in self.diagnostics if diagnostic.severity == "error"
        )

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that do not."""
        return tuple(
            diagnostic for diagnostic in self.diagnostics if diagnostic.severity != "error"
        )

    def render(self) -> str:
        """All diagnostics as text, with source lines and carets."""
        return render_all(self.diagnostics, self.sources)

    def raise_for_errors(self) -> None:
        """Raise ProgramError with every error found, if there is one."""
        if self.errors:
            raise ProgramError(render_all(self.errors, self.sources), self.errors)


@held_back()  # what is read stays
def analyse(
    text: str | bytes,
    path: str | None = None,
    given: Given = NOTHING_GIVEN,
    *,
    whole: bool = True,
) -> Analysis:
    """Read, lower and check a program text. `path` names it and fences its `#include`s.

    `given` is what it is read with: folders and macros of the user's, and a word size that goes
    before the program's own. Of a text that is not the `whole` program, names and types are not
    checked.

    Linear in the text but for the strata (linear in the dependency graph) and for macros, which
    are bounded. Works for any characters and any bytes.
    """
    source, wrong_bytes = decode(text, path)
    tokens, parser, parsed = _parsed(source, path, given)
    asks_for = dict(parsed.pragmas).get("word-size")
    if (
        given.word_size is None
        and asks_for == "32"
        and any(DOMAIN_SIZE in text for text in tokens.sources.values())
    ):
        # The text says itself how large a number is, after it may have asked.
        tokens, parser, parsed = _parsed(source, path, replace(given, word_size=32))
    if given.word_size is not None:
        others = [pair for pair in parsed.pragmas if pair[0] != "word-size"]
        parsed.pragmas = [*others, ("word-size", str(given.word_size))]
    syntax, wrong_components = instantiate(parsed)
    types, wrong_types = lower_types(syntax)
    program = Program(
        tuple(syntax.relations),
        tuple(syntax.rules),
        tuple(syntax.directives),
        types,
        source.text,
        path,
        tuple(syntax.pragmas),
        tuple(syntax.orders),
        tuple(syntax.functors),
        tuple(syntax.lattices),
    )
    known: tuple[Typed, ...] = ()
    diagnostics = [
        *wrong_bytes,
        *tokens.diagnostics,
        *parser.diagnostics,
        *wrong_components,
        *wrong_types,
    ]
    if whole and all(item.severity != "error" for item in diagnostics):
        more, known = looked_at(program)
        diagnostics.extend(more)
    order = list(tokens.sources)
    diagnostics.sort(key=lambda item: _position(item, order))
    if parsed.components:
        # Every instance repeats what is wrong with its component, under other names.
        diagnostics = list(
            {(item.code, item.span): item for item in reversed(diagnostics)}.values()
        )
        diagnostics.reverse()
    missing = tuple(tokens.missing)
    return Analysis(program, tuple(diagnostics), tokens.sources, missing, known)


def _parsed(source: Source, path: str | None, given: Given) -> tuple[Preprocessed, Parser, Syntax]:
    tokens = preprocess(source, Path(path).parent if path is not None else None, given)
    parser = Parser(tokens.tokens, source)
    unreadable = [item.span for item in tokens.diagnostics if item.span is not None]
    return tokens, parser, parser.program(unreadable)


def _position(diagnostic: Diagnostic, order: list[str | None]) -> tuple[int, int, str, str]:
    if diagnostic.span is None:
        return (-1, 0, diagnostic.code, diagnostic.message)
    file = order.index(diagnostic.span.path) if diagnostic.span.path in order else len(order)
    return (file, diagnostic.span.start, diagnostic.code, diagnostic.message)


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a program file. Raises SourceError when it cannot be read, or has rows."""
    if Path(path).suffix in (".csv", ".facts", ".parquet"):
        message = f"{str(path)!r} is a file of rows, and no program; -F names the folder of those"
        raise SourceError(message, value=str(path))
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError(f"cannot read program {str(path)!r}: {reason}") from error


BASES: dict[str, BaseType] = {
    "number": "number",
    "unsigned": "unsigned",
    "float": "float",
    "symbol": "symbol",
}


def lower_types(syntax: Types) -> tuple[tuple[TypeDecl, ...], tuple[Diagnostic, ...]]:
    """The type declarations with their base types, and what is wrong with them. Linear."""
    diagnostics: list[Diagnostic] = []
    written: dict[str, TypeSyntax] = {}
    for declared in syntax.types:
        if declared.name in BASES or declared.name in written:
            first = written.get(declared.name)
            where = f"first declared on line {first.span.line}" if first else "it is a base type"
            diagnostics.append(
                Diagnostic(
                    "DF111", f"type `{declared.name}` is declared twice", declared.span, where
                )
            )
        else:
            written[declared.name] = declared
    bases: dict[str, str] = dict(BASES)  # what a type's values are: of a base or a logical type
    wrong: set[str] = set()
    # A type is settled once all its parents are; whatever never settles is in or below a cycle.
    pending = {
        name: [parent.text for parent in item.parents if parent.text in written]
        for name, item in written.items()
    }
    children: dict[str, list[str]] = {}
    for name, parents in pending.items():
        for parent in parents:
            children.setdefault(parent, []).append(name)
    missing = {name: len(parents) for name, parents in pending.items()}
    ready = [name for name, count in missing.items() if count == 0]
    while ready:
        name = ready.pop()
        item = written[name]
        kinds: dict[str, str] = {}
        for token in item.parents:
            logical = None if token.text in written else logical_type(token.text)
            if token.text in bases:
                kinds[token.text] = bases[token.text]
            elif logical is not None and not logical.nullable:
                kinds[token.text] = logical.name
            elif token.text not in wrong:
                hint = did_you_mean(
                    token.text, [*BASES, *written], f"base types: {' '.join(BASES)}"
                )
                diagnostics.append(
                    Diagnostic("DF106", f"there is no type `{token.text}`", token.span, hint)
                )
        if item.branches:
            bases[name] = "record"
        elif "record" in kinds.values() and len(kinds) > 1:
            wrong.add(name)
            message = f"type `{name}` is a union with a constructed type"
            hint = "a branch of an algebraic data type is written `name {field: type}`"
            diagnostics.append(Diagnostic("DF106", message, item.span, hint))
        elif len(set(kinds.values())) == 1 and len(kinds) == len({p.text for p in item.parents}):
            bases[name] = next(iter(kinds.values()))
        else:
            wrong.add(name)
            if len(set(kinds.values())) > 1:
                listed = ", ".join(f"{parent} is {base}" for parent, base in kinds.items())
                diagnostics.append(
                    Diagnostic(
                        "DF106",
                        f"type `{name}` mixes base types: {listed}",
                        item.span,
                        "a union has one base type",
                    )
                )
        for child in children.get(name, ()):
            missing[child] -= 1
            if missing[child] == 0:
                ready.append(child)
    for name, count in missing.items():
        if count > 0:
            message = f"type `{name}` is defined by itself"
            hint = f"base types: {' '.join(BASES)}"
            diagnostics.append(Diagnostic("DF106", message, written[name].span, hint))
    types = tuple(
        TypeDecl(
            name,
            _base_of(bases[name]),
            tuple(parent.text for parent in item.parents),
            item.branches,
            item.span,
            item.subtype,
        )
        for name, item in written.items()
        if name in bases
    )
    return types, tuple(diagnostics)


def _base_of(kind: str) -> BaseType:
    logical = None if kind in BASES else logical_type(kind)
    return cast("BaseType", kind if logical is None else logical.base)
