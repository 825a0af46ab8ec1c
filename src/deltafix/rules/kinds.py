"""Sets of possible types of a rule's terms, merged, and calls with several signatures left.

A `Node` is what is known of one variable, constant or result; `Nodes` merges them where two stand
in one place, and reports where nothing is left. Which signature a functor of logical types
(`rules.logical`) has is settled when the types that are left for its arguments and its result leave
one (`OpenCalls`). Invariant: a set only gets smaller, but where an error was reported. Which terms
a rule has, and what they want, is `rules.infer`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from deltafix.diagnostics import Diagnostic, Span
from deltafix.facts.logical_types import NARROW_DIGITS, logical_type
from deltafix.facts.values import BaseType
from deltafix.rules.ast import BASES, Program
from deltafix.rules.terms import Call

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


def advice(program: Program, left: Node, right: Node) -> str:
    """What would be valid: another constant, or a conversion."""
    left_kinds, right_kinds = left.root().allowed, right.root().allowed
    logical = [
        kind for kind in map(program.logical, sorted(left_kinds | right_kinds)) if kind is not None
    ]
    if logical:
        likes = (
            kind.written(f"[{kind.spelled}] or nil" if kind.nullable else kind.spelled)
            for kind in logical
        )
        return "; ".join(likes) + "; `as` casts"
    if (left_kinds | right_kinds).difference(BASES):
        return "values of a constructed type fit that type only"
    for constant, other in ((left, right), (right, left)):
        if constant.root().reason.startswith("constant "):
            base = next(base for base in BASES if base in other.root().allowed)
            return f"a {base} is written like {EXAMPLES[base]}"
    return "convert one side with to_number, to_unsigned, to_float or to_string"


def summed(target: Node, op: str) -> str:
    """What to add up in place of decimals of more digits than a sum has."""
    kinds = [logical_type(name) for name in target.root().allowed]
    if op not in ("sum", "mean") or not any(kind is not None and kind.is_decimal for kind in kinds):
        return ""
    (kind,) = kinds if len(kinds) == 1 else (None,)
    if op == "mean" or kind is None:
        return f"`{op} to_float(x) : ..` takes decimals"
    room = f"decimal({NARROW_DIGITS}, {min(kind.scale, NARROW_DIGITS)})"
    return (
        f"a sum of decimals has {NARROW_DIGITS} digits at most: `sum as(x, {room}) : ..`, or "
        "`sum to_float(x) : ..`, which is near"
    )


class Nodes:
    """What is known of the types of one rule.

    Attributes:
        any: all types that there are.
        diagnostics: what was found wrong.
    """

    def __init__(self, program: Program, span: Span | None, every: frozenset[str]) -> None:
        self.program = program
        self.span = span
        self.any = every
        self.diagnostics: list[Diagnostic] = []

    def chosen(self, node: Node) -> str:
        """The kind of a node: a number if that is open, nothing if it could be any record."""
        allowed = node.root().allowed
        base = next((base for base in BASES if base in allowed), "")
        return base or (next(iter(allowed)) if len(allowed) == 1 else "")

    def base(self, node: Node) -> BaseType:
        """The base type of a node: the one that all its types have, where several are left."""
        kind = self.chosen(node)
        if kind:
            return self.program.base_type(kind)
        bases = set(map(self.program.base_type, node.root().allowed))
        return bases.pop() if len(bases) == 1 else "number"

    def report(self, code: str, message: str, span: Span | None, hint: str | None = None) -> None:
        """Note what is wrong; without a place of its own, at the rule."""
        self.diagnostics.append(Diagnostic(code, message, span or self.span, hint))

    def unify(self, left: Node, right: Node, span: Span | None, way_out: str = "") -> Node:
        """Merge two nodes (DF120 if nothing fits both, with a way out); the merged node."""
        kept, merged = left.root(), right.root()
        if kept is merged:
            return kept
        common = kept.allowed & merged.allowed
        if not common:
            what = left.what if left.what.isidentifier() or not right.what else right.what
            self.diagnostics.append(
                Diagnostic(
                    "DF120",
                    f"`{what}` cannot be both {any_of(kept.allowed)} ({kept.reason}) "
                    f"and {any_of(merged.allowed)} ({merged.reason})",
                    span or self.span,
                    way_out or advice(self.program, left, right),
                )
            )
            # From here on this value fits anything: one slip, one error.
            merged.parent = kept
            kept.allowed = self.any
            return kept
        reason = kept.reason if len(kept.allowed) <= len(merged.allowed) else merged.reason
        merged.parent = kept
        kept.allowed, kept.reason = common, reason
        return kept


@dataclass(frozen=True, slots=True)
class _OpenCall:
    """A call that takes and gives one of several lists of kinds, the result's last."""

    term: Call
    kinds: Sequence[tuple[str, ...]]
    nodes: tuple[Node, ...]


_WAYS: Final = {
    "+": "days are added to a date, microseconds to a moment, decimals to ones of their type",
    "-": "days are taken from a date, microseconds from a moment, decimals from ones of their type",
    "*": "a decimal is multiplied by a number",
    "as": "cast it to a number, or by way of a text: `as(to_string(x), type)`",
}
"""What would be valid for a functor of logical types."""


class OpenCalls:
    """The calls of a rule whose signature is not settled yet, and the nodes of all that were."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._open: list[_OpenCall] = []
        self._known: dict[int, tuple[Node, ...]] = {}

    @property
    def are_known(self) -> bool:
        """Whether there was any."""
        return bool(self._known)

    def add(
        self, term: Call, kinds: Sequence[tuple[str, ...]], args: Sequence[Node], result: Node
    ) -> None:
        """A call that takes and gives one of several lists of kinds."""
        nodes = (*args, result)
        result.allowed = frozenset(signature[-1] for signature in kinds)
        self._known[id(term)] = nodes
        self._open.append(_OpenCall(term, kinds, nodes))

    def kinds(self, term: Call) -> tuple[str, ...]:
        """The signature that was settled; empty for any other call."""
        return tuple(map(self._nodes.chosen, self._known.get(id(term), ())))

    def settle(self, *, last: bool = False) -> None:
        """Narrow the arguments and results of calls to the lists of types that are left for them.

        The `last` time those of which several are left are of the first.
        """
        before = -1
        while before != len(self._open):
            before = len(self._open)
            for call in [*self._open]:
                left = [
                    kinds
                    for kinds in call.kinds
                    if all(k in n.root().allowed for k, n in zip(kinds, call.nodes, strict=True))
                ]
                if len(left) == 1 or (last and left):
                    self._open.remove(call)
                    self._chosen_kinds(call, left[0])
                    before = -1
                elif not left:
                    self._open.remove(call)
                    self._no_kinds(call)

    def _chosen_kinds(self, call: _OpenCall, kinds: tuple[str, ...]) -> None:
        for kind, node in zip(kinds, call.nodes, strict=True):
            self._nodes.unify(
                node, Node("", frozenset((kind,)), f"what `{call.term.functor}` takes"), None
            )

    def _no_kinds(self, call: _OpenCall) -> None:
        *given, result = (any_of(node.root().allowed) for node in call.nodes)
        functor = call.term.functor
        if functor == "as":
            message = f"no {given[0]} is cast to {result}"
        else:
            message = f"`{functor}` takes no {' and '.join(given)}"
        self._nodes.report("DF120", message, call.term.span, _WAYS.get(functor))
        for node in call.nodes:
            node.root().allowed = self._nodes.any
