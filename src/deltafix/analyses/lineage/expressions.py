"""What an expression refers to, and how: the walk over one expression inside one block.

`how` is the part a reference plays for the expression's column: value (it may become part of the
value), condition (it chooses between values: CASE, IF, FILTER), window (it orders or partitions
a window). In a clause that decides rows it is the clause: filter, join, group, order.
Invariant: the walk does not enter nested queries, it hands them over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp


@dataclass(frozen=True, slots=True)
class Reference:
    """A column that an expression names."""

    column: exp.Column
    how: str


@dataclass(frozen=True, slots=True)
class Nested:
    """A query inside an expression; `tested` if only its being empty counts (EXISTS)."""

    query: exp.Expr
    how: str
    tested: bool


def walk(
    expression: exp.Expr, how: str, windows: Mapping[str, exp.Expr]
) -> Iterator[Reference | Nested]:
    """Every reference and nested query of an expression. O(nodes), without recursion.

    `windows` are the block's named windows, by name.
    """
    stack: list[tuple[exp.Expr, str]] = [(expression, how)]
    while stack:
        node, how = stack.pop()
        if isinstance(node, exp.Column):
            if isinstance(node.this, (exp.Identifier, exp.Star)):
                yield Reference(node, how)
            else:  # a pseudo-column such as a parameter
                stack += _children(node, how)
        elif isinstance(node, exp.Exists) and isinstance(node.this, exp.Query):
            yield Nested(node.this, how, tested=True)
        elif isinstance(node, exp.Query):
            yield Nested(node, how, tested=False)
        else:
            stack += _children(node, how)
            if isinstance(node, exp.Window):
                named = windows.get(node.alias.lower())
                if named is not None and named is not node:
                    stack += [(part, _weaker(how, "window")) for part in _of(named, _WINDOW)]


_WINDOW = ("partition_by", "order")
_INDIRECT: Mapping[type[exp.Expr], tuple[tuple[str, ...], str]] = {
    exp.Window: (_WINDOW, "window"),
    exp.Case: (("this",), "condition"),  # its WHENs are Ifs
    exp.If: (("this",), "condition"),
    exp.Filter: (("expression",), "condition"),
}
"""Of some nodes: the parts that are not values, and what they are."""


def _children(node: exp.Expr, how: str) -> list[tuple[exp.Expr, str]]:
    """The parts of a node, each with the part it plays."""
    names, other = _INDIRECT.get(type(node), ((), ""))
    apart = {id(part) for part in _of(node, names)}
    return [
        (part, _weaker(how, other) if id(part) in apart else how)
        for part in node.iter_expressions()
    ]


def _of(node: exp.Expr, names: Iterable[str]) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for name in names:
        value = node.args.get(name)
        found += value if isinstance(value, list) else [value] if value is not None else []
    return [part for part in found if isinstance(part, exp.Expr)]


def _weaker(how: str, other: str) -> str:
    return other if how == "value" else how
