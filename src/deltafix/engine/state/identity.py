"""Which program a state belongs to, and whether another one may open it.

Invariant: given rows mean something only under the schema they were given for, so a state's input
relations must be in the program as they were; rules may change freely, since what they derive
is not in the state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltafix.facts.schema import Schema
from deltafix.rules.ast import Program
from deltafix.rules.show import show

__all__ = ["Identity"]


@dataclass(frozen=True, slots=True)
class Identity:
    """A program as a state remembers it.

    Attributes:
        digest: SHA-256 of the program as `rules.show` prints it (layout does not count).
        inputs: declarations by name of the relations with `.input` or without rules.
    """

    digest: str
    inputs: Mapping[str, str]

    @classmethod
    def of(cls, program: Program, schemas: Mapping[str, Schema]) -> Identity:
        """The identity of a checked program."""
        ruled = {head.relation for rule in program.rules for head in rule.heads}
        inputs = set(program.names("input")) | (set(schemas) - ruled)
        return cls(
            hashlib.sha256(show(program).encode()).hexdigest(),
            {name: schema.show() for name, schema in schemas.items() if name in inputs},
        )

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Identity:
        """Read what `to_json` gave. Raises LookupError, TypeError or ValueError."""
        return cls(str(saved["digest"]), {str(n): str(s) for n, s in saved["inputs"].items()})

    def to_json(self) -> dict[str, Any]:
        """For a file's header."""
        return {"digest": self.digest, "inputs": dict(self.inputs)}

    def differences(self, schemas: Mapping[str, Schema]) -> list[str]:
        """How a program with these schemas differs in the inputs; empty if it may open it."""
        found = []
        for name, saved in self.inputs.items():
            if name not in schemas:
                found.append(f"{saved} of the state is not in the program")
            elif schemas[name].show() != saved:
                found.append(f"{saved} of the state is {schemas[name].show()} in the program")
        return found
