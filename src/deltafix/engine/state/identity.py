"""Which program a state belongs to, and whether another one may open it.

Invariant: given rows mean something only under the schema they were given for, so a state's input
relations must be in the program as they were; rules may change freely, since what they derive
is not in the state. Edits of rules go with the program that the state was opened with: whoever
opens it with that one again has the edits, too; whoever brings another program has that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltafix.facts.schema import Schema
from deltafix.rules.ast import Program
from deltafix.rules.show import show

__all__ = ["Identity", "digest_of"]


def digest_of(program: Program) -> str:
    """SHA-256 of a program as `rules.show` prints it, in hex."""
    return hashlib.sha256(show(program).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Identity:
    """A program as a state remembers it.

    Attributes:
        digest: SHA-256 of the program as `rules.show` prints it (layout does not count).
        inputs: declarations by name of the relations with `.input` or without rules.
        base: the digest of the program that the state was opened with.
        edits: what was added (true) to its rules since, and removed, as text.
    """

    digest: str
    inputs: Mapping[str, str]
    base: str = field(default="", compare=False)
    edits: Sequence[tuple[bool, str]] = field(default=(), compare=False)

    @classmethod
    def of(
        cls,
        program: Program,
        schemas: Mapping[str, Schema],
        base: str = "",
        edits: Sequence[tuple[bool, str]] = (),
    ) -> Identity:
        """The identity of a checked program, itself the base if no other one is named."""
        ruled = {head.relation for rule in program.rules for head in rule.heads}
        inputs = set(program.names("input")) | (set(schemas) - ruled)
        shown = {name: schema.show() for name, schema in schemas.items() if name in inputs}
        digest = digest_of(program)
        return cls(digest, shown, base or digest, edits)

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Identity:
        """Read what `to_json` gave. Raises LookupError, TypeError or ValueError."""
        digest = str(saved["digest"])
        edits = [(bool(adds), str(text)) for adds, text in saved.get("edits", ())]
        inputs = {str(n): str(s) for n, s in saved["inputs"].items()}
        return cls(digest, inputs, str(saved.get("base", digest)), edits)

    def to_json(self) -> dict[str, Any]:
        """For a file's header."""
        found = {"digest": self.digest, "inputs": dict(self.inputs)}
        edited = {"base": self.base, "edits": [list(edit) for edit in self.edits]}
        return found | edited if self.edits else found

    def differences(self, schemas: Mapping[str, Schema]) -> list[str]:
        """How a program with these schemas differs in the inputs; empty if it may open it."""
        found = []
        for name, saved in self.inputs.items():
            if name not in schemas:
                found.append(f"{saved} of the state is not in the program")
            elif schemas[name].show() != saved:
                found.append(f"{saved} of the state is {schemas[name].show()} in the program")
        return found
