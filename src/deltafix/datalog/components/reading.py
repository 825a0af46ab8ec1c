"""`.comp`, `.init` and `.override`, read from tokens.

Invariant: what stands between a component's braces is read by the same methods as the rest of the
program, into a `Syntax` of its own; an error inside costs one clause of the component, no more.
Names stay as they were written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltafix.datalog.clauses import ClauseParser
from deltafix.datalog.lexer import Token
from deltafix.diagnostics import Span

if TYPE_CHECKING:
    from deltafix.datalog.parser import Syntax


MAX_DEPTH = 32
"""Components inside components, in the text and in instances."""


class ComponentParser(ClauseParser):
    """Reads the directives of components; `items` and `out` are the program parser's."""

    out: Syntax
    components = 0
    """Components that are open at the token at hand."""

    def items(self) -> None:
        """Read items up to the end, or to the brace that closes the component at hand."""
        raise NotImplementedError

    def new_syntax(self) -> Syntax:
        """An empty part of the program that shares the list of starts."""
        raise NotImplementedError

    def reference(self, what: str) -> Reference:
        """`Name` or `Name<A, B>`."""
        name = self.expect_name(what)
        arguments: list[Token] = []
        if self.accept("<"):
            while not self.at(">"):
                arguments.append(self.dotted_name("a type or a component"))
                if not self.accept(",") and not self.at(">"):
                    self.fail(f"expected `,` or `>` after an argument, found {self.token.shown}")
            self.take()
        return Reference(name, tuple(arguments))

    def _read_comp(self, start: Token) -> None:
        if self.components >= MAX_DEPTH:
            self.fail(f"components are nested more than {MAX_DEPTH} deep", start)
        head = self.reference("a component's name")
        bases: list[Reference] = []
        if self.accept(":"):
            bases.append(self.reference("the component it inherits from"))
            while self.accept(","):
                bases.append(self.reference("another component it inherits from"))
        span = self.since(start)
        self.expect("{", f"before what the component `{head.name.text}` holds")
        outer, body = self.out, self.new_syntax()
        self.out = body
        self.components += 1
        self.items()
        self.components -= 1
        self.out = outer
        if self.at("}"):
            outer.starts.append(self.take())
        else:
            self.fail(f"the component `{head.name.text}` is never closed", start, "add `}`")
        outer.components.append(
            ComponentSyntax(
                head.name.text, head.arguments, tuple(bases), body, tuple(body.overrides), span
            )
        )

    def _read_init(self, start: Token) -> None:
        name = self.expect_name("a name for the instance")
        self.expect("=", f"between the instance `{name.text}` and its component")
        component = self.reference("a component")
        self.out.instances.append(InstanceSyntax(name.text, component, self.since(start)))

    def _read_override(self, start: Token) -> None:
        if not self.components:
            self.fail("`.override` stands inside a component", start)
        self.out.overrides.append(self.expect_name("a relation's name"))
        while self.accept(","):
            self.out.overrides.append(self.expect_name("a relation's name"))


@dataclass(frozen=True, slots=True)
class Reference:
    """`Name<A, B>`: a component and what its parameters shall be."""

    name: Token
    arguments: tuple[Token, ...]

    def __str__(self) -> str:
        shown = ", ".join(token.text for token in self.arguments)
        return f"{self.name.text}<{shown}>" if shown else self.name.text


@dataclass(frozen=True, slots=True)
class ComponentSyntax:
    """`.comp name<parameters> : bases { body }`; `overrides` are the body's `.override` names."""

    name: str
    parameters: tuple[Token, ...]
    bases: tuple[Reference, ...]
    body: Syntax
    overrides: tuple[Token, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class InstanceSyntax:
    """`.init name = component<arguments>`."""

    name: str
    component: Reference
    span: Span
