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

__all__ = ["Nested", "Reference", "walk"]


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


def _children(node: exp.Expr, how: str) -> Iterable[tuple[exp.Expr, str]]:
    """The parts of a node, each with the part it plays."""
    indirect: list[exp.Expr] = []
    other = ""
    if isinstance(node, exp.Window):
        indirect, other = _of(node, _WINDOW), "window"
    elif isinstance(node, exp.Case):
        indirect = [*_of(node, ("this",)), *(branch.this for branch in node.args["ifs"])]
        other = "condition"
        values = [branch.args["true"] for branch in node.args["ifs"]]
        values += _of(node, ("default",))
        return [(v, how) for v in values] + [(c, _weaker(how, other)) for c in indirect]
    elif isinstance(node, exp.If):
        indirect, other = _of(node, ("this",)), "condition"
    elif isinstance(node, exp.Filter):
        indirect, other = _of(node, ("expression",)), "condition"
    apart = {id(part) for part in indirect}
    direct = [(part, how) for part in node.iter_expressions() if id(part) not in apart]
    return direct + [(part, _weaker(how, other)) for part in indirect]


def _of(node: exp.Expr, names: Iterable[str]) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for name in names:
        value = node.args.get(name)
        found += value if isinstance(value, list) else [value] if value is not None else []
    return [part for part in found if isinstance(part, exp.Expr)]


def _weaker(how: str, other: str) -> str:
    return other if how == "value" else how
