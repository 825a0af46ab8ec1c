"""Sets of possible kinds that are merged when two terms must be of one kind.

Invariant: merging intersects; an empty intersection is reported once, and the value fits anything
from then on, so that one slip is one error.
"""

from __future__ import annotations

from typing import Final

from deltafix.diagnostics import Diagnostic, Span
from deltafix.rules.ast import BASES, Program
from deltafix.rules.schemas import Schemas

CLASSES: Final[dict[str, frozenset[str]]] = {
    "numeric": frozenset(("number", "unsigned", "float")),
    "integral": frozenset(("number", "unsigned")),
    "addable": frozenset(BASES),
    "same": frozenset(BASES),
    "any": frozenset(BASES),
    **{base: frozenset((base,)) for base in BASES},
}

EXAMPLES: Final = {"number": "3", "unsigned": "3u", "float": "3.0", "symbol": '"abc"'}


class Node:
    """A set of possible types, why it is no larger, and the node it was merged into."""

    __slots__ = ("allowed", "parent", "reason", "what")

    def __init__(self, what: str, allowed: frozenset[str], reason: str) -> None:
        self.what, self.allowed, self.reason = what, allowed, reason
        self.parent: Node | None = None

    def root(self) -> Node:
        """The node this one was merged into, itself if into none."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node


def any_of(types: frozenset[str]) -> str:
    """Types as an error names them."""
    return " or ".join((*(b for b in BASES if b in types), *sorted(types.difference(BASES))))


def advice(left: Node, right: Node) -> str:
    """What would be valid: another constant, or a conversion."""
    one, two = left.root().allowed, right.root().allowed
    if (one | two).difference(BASES):
        return "values of a constructed type fit that type only"
    for constant, other in ((left, right), (right, left)):
        if constant.root().reason.startswith("constant "):
            base = next(base for base in BASES if base in other.root().allowed)
            return f"a {base} is written like {EXAMPLES[base]}"
    return "convert one side with to_number, to_unsigned, to_float or to_string"


class Unifier:
    """Nodes of one rule, and what was found wrong with them."""

    def __init__(self, program: Program, schemas: Schemas, place: Span | None) -> None:
        self.program = program
        self.schemas = schemas
        self.place = place
        self.any = CLASSES["any"].union(schemas.constructed)
        self.found: list[Diagnostic] = []

    def chosen(self, node: Node) -> str:
        """The kind of a node: a number if that is open, nothing if it could be any record."""
        allowed = node.root().allowed
        base = next((base for base in BASES if base in allowed), "")
        return base or (next(iter(allowed)) if len(allowed) == 1 else "")

    def report(self, code: str, message: str, span: Span | None, hint: str | None = None) -> None:
        """Note what is wrong; without a place of its own, at the rule."""
        self.found.append(Diagnostic(code, message, span or self.place, hint))

    def unify(self, left: Node, right: Node, span: Span | None) -> Node:
        """Merge two nodes (DF120 if nothing fits both); the merged node."""
        one, two = left.root(), right.root()
        if one is two:
            return one
        common = one.allowed & two.allowed
        if not common:
            what = left.what if left.what.isidentifier() or not right.what else right.what
            self.found.append(
                Diagnostic(
                    "DF120",
                    f"`{what}` cannot be both {any_of(one.allowed)} ({one.reason}) "
                    f"and {any_of(two.allowed)} ({two.reason})",
                    span or self.place,
                    advice(left, right),
                )
            )
            # From here on this value fits anything: one slip, one error.
            two.parent = one
            one.allowed = self.any
            return one
        reason = one.reason if len(one.allowed) <= len(two.allowed) else two.reason
        two.parent = one
        one.allowed, one.reason = common, reason
        return one

    def class_of(self, kind: str) -> frozenset[str]:
        """The kinds that a class of a signature, or one kind's name, stands for."""
        return CLASSES.get(kind) or frozenset((kind,))
