"""What a text says about components, before any of it is instantiated.

Invariant: data only. Names stay as they were written; `instantiate` gives them their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltafix.datalog.lexer import Token
from deltafix.diagnostics import Span

if TYPE_CHECKING:
    from deltafix.datalog.parser import Syntax


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
