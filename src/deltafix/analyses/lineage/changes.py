"""UPDATE and MERGE as blocks: their sources are the target and what it is changed from.

Invariant: the block's outputs are the columns that are set or inserted, under their names, so that
the target takes them by name. Conditions count as filters and joins of the target's rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from deltafix.analyses.lineage.blocks import Block, Seen
from deltafix.analyses.lineage.facts import ROWS
from deltafix.analyses.lineage.queries import add_ctes, finish, query
from deltafix.analyses.lineage.sources import add_sources


def update(node: exp.Update, id_: str, seen: Seen) -> None:
    """UPDATE target SET column = expression FROM sources WHERE condition."""
    block = Block(id_, seen)
    add_ctes(block, node)
    add_sources(block, exp.Select(from_=exp.From(this=node.this.copy())), query)
    add_sources(block, node, query)
    _assign(block, node.expressions)
    block.read(node.args.get("where"), ROWS, "filter")
    finish(block)


def merge(node: exp.Merge, id_: str, seen: Seen) -> None:
    """MERGE INTO target USING source ON condition WHEN .. THEN UPDATE, INSERT."""
    block = Block(id_, seen)
    add_ctes(block, node)
    for table in (node.this, node.args["using"]):
        add_sources(block, exp.Select(from_=exp.From(this=table.copy())), query)
    given = list(block.sources.values())[-1:]
    block.read(node.args.get("on"), ROWS, "join")
    whens = node.args["whens"].expressions if node.args.get("whens") else ()
    for index, when in enumerate(whens):
        block.read(when.args.get("condition"), ROWS, "filter")
        then = when.args.get("then")
        if isinstance(then, exp.Update) and not isinstance(then.expressions, exp.Star):
            _assign(block, then.expressions)
        elif isinstance(then, exp.Insert) and isinstance(then.this, exp.Tuple):
            values = then.expression.expressions if then.expression is not None else ()
            for column, value in zip(then.this.expressions, values, strict=False):
                _set(block, column, value)
        if isinstance(then, (exp.Update, exp.Insert)) and then.find(exp.Star):
            for source in given:  # UPDATE SET *, INSERT *
                block.facts.add("star", block.id, str(index), source)
    finish(block)


def _assign(block: Block, assignments: Iterable[exp.Expr]) -> None:
    for one in assignments:
        if isinstance(one, exp.EQ):
            left = one.this.expressions if isinstance(one.this, exp.Tuple) else [one.this]
            for column in left:
                _set(block, column, one.expression)


def _set(block: Block, column: exp.Expr, value: exp.Expr) -> None:
    name = block.names.fold(column.this if isinstance(column, exp.Column) else column)
    block.facts.add("output", block.id, name, name)
    block.read(value, name, "value")
