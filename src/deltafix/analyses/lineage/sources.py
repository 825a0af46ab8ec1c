"""The FROM clause: what a block's sources are, and how joins tie them.

Invariant: every entry of FROM becomes one source of the block: a mentioned table, a block of its
own (a derived table, a CTE, VALUES), or a table function, whose columns all come from its
arguments. Alias lists `AS d(a, b)` are a block around, matched by place.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from deltafix.analyses.lineage.blocks import Block, Seen
from deltafix.analyses.lineage.facts import FUNCTION, ROWS

Query = Callable[[exp.Expr, str, Seen], None]
"""States a query as the block of an id, given what it sees."""

_APART = {"SEMI", "ANTI"}


def add_sources(block: Block, node: exp.Expr, query: Query) -> None:
    """Add the sources of FROM, JOIN and LATERAL VIEW of a select, update or merge."""
    start = node.args.get("from_")
    if start is not None:
        _add(block, start.this, query)
    for join in node.args.get("joins") or ():
        _join(block, join, query)
    for lateral in node.args.get("laterals") or ():
        _add(block, lateral, query)


def put_list(block: Block, inner: str, columns: list[str], wrapper: str) -> None:
    """State `wrapper` as the block whose columns are the list, matched by place with a source."""
    facts = block.facts
    facts.add("block", wrapper, block.given.statement)
    for index, name in enumerate(columns):
        facts.add("output", wrapper, name, name)
        facts.add("slot", wrapper, str(index), name)
    facts.add("length", wrapper, str(len(columns)))
    facts.add("aligned", wrapper, inner)


def _join(block: Block, join: exp.Join, query: Query) -> None:
    before = list(dict.fromkeys(block.sources.values()))
    _add(block, join.this, query)
    added = [s for s in dict.fromkeys(block.sources.values()) if s not in before]
    if join.side in _APART or join.kind in _APART:
        block.hidden.update(added)
    block.read(join.args.get("on"), ROWS, "join")
    for name in map(block.names.fold, join.args.get("using") or ()):
        block.merged = True
        for source in added if len(before) > 1 else before + added:
            block.facts.add("using", block.id, name, source)
        block.facts.add("asks", block.id, ROWS, name, "join")
    if join.method == "NATURAL":
        block.merged = True
        for left in before:
            for right in added:
                block.facts.add("natural", block.id, left, right)


def _add(block: Block, node: exp.Expr, query: Query) -> None:
    """One entry of FROM, and the joins written inside its parentheses."""
    alias = block.names.fold(node.args["alias"].this) if _alias(node) is not None else ""
    if isinstance(node, exp.Subquery) and isinstance(node.this, (exp.Table, exp.Subquery)):
        if not alias or node.this.args.get("joins"):
            _add(block, node.this, query)
        else:
            _place(block, node, alias, query)
    else:
        _place(block, node, alias, query)
    for join in node.args.get("joins") or ():
        _join(block, join, query)


def _alias(node: exp.Expr) -> exp.Expr | None:
    alias = node.args.get("alias")
    return alias.this if isinstance(alias, exp.TableAlias) else None


def _place(block: Block, node: exp.Expr, alias: str, query: Query) -> None:
    facts = block.facts
    dotted: list[str] = []
    columns = _columns(block, node)
    if isinstance(node, exp.Table) and _is_name(block, node):
        parts = block.names.parts(node)
        source = _fresh(block, alias or parts[-1])
        if len(parts) == 1 and parts[0] in block.ctes:
            facts.add("block_at", source, block.ctes[parts[0]])
        else:
            block.reads_table(source, node)
        if not alias:
            alias = parts[-1]
            dotted = [".".join(parts[i:]) for i in range(len(parts) - 1)]
    else:
        source = _fresh(block, alias)
        inner = f"{source}>"
        lateral = isinstance(node, exp.Lateral)
        derived = node.this if lateral else node
        if isinstance(derived, (exp.Query, exp.Values)):
            query(derived, inner, block.seen(lateral=lateral))
        else:
            _function(block, derived, inner, columns)
            columns = []
        facts.add("block_at", source, inner)
    for pivot in node.args.get("pivots") or ():
        source, alias = _pivot(block, pivot, source, alias)
    if columns:
        listed = f"{source}()"
        put_list(block, source, columns, listed)
        source = f"{source}."
        facts.add("block_at", source, listed)
    block.holds(alias, source, dotted)


def _columns(block: Block, node: exp.Expr) -> list[str]:
    """The names in `AS alias(a, b)`."""
    alias = node.args.get("alias")
    listed = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
    return [block.names.fold(column) for column in listed or ()]


def _fresh(block: Block, name: str) -> str:
    """A source id that this block does not have yet."""
    wanted = block.below(name)
    return block.below() if wanted in block.sources.values() else wanted


def _is_name(block: Block, node: exp.Table) -> bool:
    """Whether this is a table's name, and not a function or the array of another source."""
    if not isinstance(node.this, exp.Identifier):
        return False
    return not (node.db and block.names.fold(node.args["db"]) in block.sources)


def _function(block: Block, node: exp.Expr, id_: str, columns: list[str]) -> None:
    """A table function: it sees the sources before it, and all its columns come from that."""
    inside = Block(id_, block.seen(lateral=True))
    block.facts.add("function", id_)
    for name in columns:
        block.facts.add("output", id_, name, name)
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        parts = block.names.parts(node)  # FROM t, t.items
        block.facts.add("uses", id_, FUNCTION, block.sources[parts[-2]], parts[-1], "value")
    else:
        inside.read(node.this if isinstance(node, exp.Table) else node, FUNCTION, "value")
    block.nested += inside.nested


def _pivot(block: Block, pivot: exp.Expr, source: str, alias: str) -> tuple[str, str]:
    """A pivoted source: any column of it may come from any of what is pivoted."""
    around = f"{source}^"
    id_ = f"{around}>"
    block.facts.add("block", id_, block.given.statement)
    block.facts.add("function", id_)
    block.facts.add("absorbs", id_, FUNCTION, source, "value")
    block.facts.add("block_at", around, id_)
    named = _alias(pivot)
    return around, block.names.fold(named) if named is not None else alias
