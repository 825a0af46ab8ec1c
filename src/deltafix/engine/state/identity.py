"""Which program a state belongs to, and whether another one may open it.

Invariant: given rows mean something only under the schema they were given for, so a state's input
relations that have rows must be in the program as they were; rules may change freely, since what
they derive is not in the state. A state keeps the whole text of its program, so edits of rules need
no other record. They go with the program that the state was opened with: whoever opens it with that
one again has the edits, too; whoever brings another program has that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltafix.errors import ProgramError
from deltafix.facts.schema import Schema
from deltafix.rules.ast import Program
from deltafix.rules.show import show


def digest_of(program: Program) -> str:
    """SHA-256 of a program as `rules.show` prints it, in hex."""
    return hashlib.sha256(show(program).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Identity:
    """A program as a state remembers it.

    Attributes:
        text: the program as `rules.show` prints it (layout does not count).
        inputs: declarations by name of the relations with `.input` or without rules.
        base: the digest of the program that the state was opened with, before its rules were
            edited.
    """

    text: str
    inputs: Mapping[str, str]
    base: str = field(default="", compare=False)

    @classmethod
    def of(cls, program: Program, schemas: Mapping[str, Schema], base: str = "") -> Identity:
        """The identity of a checked program, itself the base if no other one is named."""
        ruled = {head.relation for rule in program.rules for head in rule.heads}
        inputs = set(program.names("input")) | (set(schemas) - ruled)
        shown = {name: schema.show() for name, schema in schemas.items() if name in inputs}
        return cls(show(program), shown, base or digest_of(program))

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Identity:
        """Read what `to_json` gave. Raises LookupError, TypeError or ValueError."""
        inputs = {str(n): str(s) for n, s in saved["inputs"].items()}
        return cls(str(saved["program"]), inputs, str(saved["base"]))

    def to_json(self) -> dict[str, Any]:
        """For a file's header."""
        return {"program": self.text, "inputs": dict(self.inputs), "base": self.base}

    @property
    def digest(self) -> str:
        """SHA-256 of the text, in hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def is_edited(self) -> bool:
        """Whether its rules were edited since the state was opened."""
        return self.base != self.digest

    def program(self) -> Program:
        """The program. Raises ValueError for text that this deltafix does not take."""
        from deltafix.datalog.program import Program as Text  # noqa: PLC0415  the parser

        try:
            return Text.parse(self.text)
        except ProgramError as error:
            raise ValueError(f"its program: {error}") from None

    def differences(self, schemas: Mapping[str, Schema], left: Mapping[str, int]) -> list[str]:
        """How a program with these schemas differs in the inputs; empty if it may open it.

        `left` is how many rows of each relation the state has: one without is nobody's.
        """
        differences = []
        for name, saved in self.inputs.items():
            if not left.get(name):
                continue
            if name not in schemas:
                differences.append(f"{saved} of the state is not in the program")
            elif schemas[name].show() != saved:
                differences.append(f"{saved} of the state is {schemas[name].show()} in the program")
        return differences
