"""Queries as facts: SELECT, set operations, VALUES, CTEs, and what each refers to.

    query -> block: outputs and stars in order | references | sources | blocks inside it

Invariant: an output's key is its name, or `name~3` where a block has the name again at place 3; an
output without a name is `_col_` and its place from 0, as sqlglot calls it.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from deltafix.analyses.lineage.blocks import Block, Seen
from deltafix.analyses.lineage.facts import ROWS
from deltafix.analyses.lineage.sources import add_sources, put_list

_SELF_NAMING = frozenset({"tsql", "fabric", "oracle", "snowflake", "teradata"})
"""Dialects where a CTE may name itself without the word RECURSIVE."""


def query(node: exp.Expr, id_: str, seen: Seen) -> None:
    """State a query as the block `id_`."""
    block = Block(id_, seen)
    add_ctes(block, node)
    while isinstance(node, (exp.Subquery, exp.Paren)):
        node = node.this
        add_ctes(block, node)
    if isinstance(node, exp.Select):
        _select(block, node)
    elif isinstance(node, exp.SetOperation):
        _set_operation(block, node)
    elif isinstance(node, exp.Values):
        _values(block, node)
    elif isinstance(node, exp.Table):
        _select(block, exp.Select(expressions=[exp.Star()], from_=exp.From(this=node.copy())))
    elif isinstance(node, (exp.Insert, exp.Update, exp.Delete)):
        _returning(block, node)
    finish(block)


def finish(block: Block) -> None:
    """State the queries that were met inside the block's expressions."""
    for id_, node, seen in block.nested:
        query(node, id_, seen)
    block.nested.clear()


def add_ctes(block: Block, node: exp.Expr) -> None:
    """Declare the CTEs of WITH: each sees those before it, a recursive one itself."""
    with_ = node.args.get("with_")
    if with_ is None:
        return
    dialect = type(block.names.dialect).__name__.lower()
    for cte in with_.expressions:
        alias = cte.args["alias"]
        name = block.names.fold(alias.this)
        columns = [block.names.fold(column) for column in alias.args.get("columns") or ()]
        body = block.below(f"with {name}")
        shown = f"{body}()" if columns else body
        alone, block.ctes = block.ctes, {**block.ctes, name: shown}
        sees_itself = with_.args.get("recursive") or (
            dialect in _SELF_NAMING and isinstance(cte.this, exp.SetOperation)
        )
        given = block.seen(lateral=False)
        query(cte.this, body, given if sees_itself else replace(given, ctes=alone))
        if columns:
            source = f"{body}."
            block.facts.add("block_at", source, body)
            put_list(block, source, columns, shown)


def _select(block: Block, node: exp.Select) -> None:
    for window in node.args.get("windows") or ():
        block.windows[window.name.lower()] = window
    add_sources(block, node, query)
    index = 0
    for item in node.expressions:
        index = _item(block, index, item)
    if block.placed:
        block.facts.add("length", block.id, str(index))
    for clause, how in (("where", "filter"), ("having", "filter"), ("qualify", "filter")):
        block.read(node.args.get(clause), ROWS, how)
    for clause, how in (("group", "group"), ("order", "order"), ("distinct", "group")):
        block.read(node.args.get(clause), ROWS, how)
    for clause in ("sort", "cluster", "distribute"):
        block.read(node.args.get(clause), ROWS, "order")
    for clause, how in (("group", "group"), ("order", "order")):
        _by_number(block, node, node.args.get(clause), how)


def _by_number(block: Block, node: exp.Select, clause: exp.Expr | None, how: str) -> None:
    """GROUP BY 2: the second item, unless a star stands before it."""
    for term in clause.expressions if clause is not None else ():
        number = term.this if isinstance(term, exp.Ordered) else term
        if isinstance(number, exp.Literal) and number.is_int:
            position = int(number.name)
            items = node.expressions[:position]
            if 0 < position == len(items) and not any(item.is_star for item in items):
                block.read(items[-1], ROWS, how)


def _item(block: Block, index: int, item: exp.Expr) -> int:
    """State the output at `index`, or the stars from there; the next index."""
    star = item.this if isinstance(item, exp.Column) else item
    if isinstance(star, exp.Star):
        qualifier = block.names.parts(item)[:-1] if isinstance(item, exp.Column) else ()
        if qualifier:
            source = block.find(qualifier)
            sources = [source] if source else []
            if not source:
                block.facts.add("unknown_alias", block.id, ".".join(qualifier))
        else:
            sources = [s for s in dict.fromkeys(block.sources.values()) if s not in block.hidden]
            block.placed = block.placed and not block.merged
        return _stars(block, index, sources, star)
    if isinstance(item, exp.Aliases):  # explode(m) AS (k, v)
        names = [block.names.fold(alias) for alias in item.aliases]
        value = item.this
    else:
        name = item.args.get("alias") or item.output_name
        if not name or isinstance(item, exp.Literal):
            name = f"_col_{index}"
        names = [block.names.fold(name)]
        value = item.this if isinstance(item, exp.Alias) else item
    if isinstance(item, exp.Column):
        names = [block.names.parts(item)[-1]]  # quoted as written
    for name in names:
        key = name if name not in block.aliases else f"{name}~{index}"
        block.facts.add("output", block.id, key, name)
        block.facts.add("slot", block.id, str(index), key)
        block.read(value, key, "value")
        index += 1
    block.aliases.update(names)
    return index


def _stars(block: Block, index: int, sources: list[str], star: exp.Star) -> int:
    """State one star for each source, with what it leaves out, renames and replaces."""
    fold, facts = block.names.fold, block.facts
    left_out = {fold(c.this if isinstance(c, exp.Column) else c) for c in _list(star, "except_")}
    for alias in _list(star, "replace"):
        name = fold(alias.args["alias"])
        left_out.add(name)
        facts.add("output", block.id, name, name)
        block.read(alias.this, name, "value")
    renamed = {fold(a.this.this): fold(a.args["alias"]) for a in _list(star, "rename")}
    for source in sources:
        facts.add("star", block.id, str(index), source)
        for name in left_out | set(renamed):
            facts.add("except", block.id, str(index), name)
        for old, new in renamed.items():
            facts.add("renamed", block.id, str(index), old, new)
        index += 1
    return index


def _returning(block: Block, node: exp.Expr) -> None:
    """A change inside WITH: its columns are those it returns of its table."""
    table = node.this.this if isinstance(node.this, exp.Schema) else node.this
    returned = node.args.get("returning")
    if isinstance(table, exp.Table) and returned is not None:
        items = [item.copy() for item in returned.expressions]
        _select(block, exp.Select(expressions=items, from_=exp.From(this=table.copy())))


def _list(star: exp.Star, name: str) -> list[exp.Expr]:
    return list(star.args.get(name) or ())


def _set_operation(block: Block, node: exp.SetOperation) -> None:
    """One block for a chain: the first branch names the columns, the others follow by place."""
    branches: list[exp.SetOperation] = []
    first: exp.Expr = node
    while isinstance(first, exp.SetOperation):
        branches.append(first)
        first = first.this
        add_ctes(block, first)
    for index, branch in enumerate(
        [first, *(operand.expression for operand in reversed(branches))]
    ):
        id_ = block.below(str(index))
        query(branch, id_, block.seen(lateral=False))
        operation = None if index == 0 else branches[-index]
        if isinstance(operation, (exp.Intersect, exp.Except)):
            for relation in ("embeds", "embeds_rows"):
                block.facts.add(relation, block.id, ROWS, id_, "filter")
            continue
        block.facts.add("block_at", f"{id_}.", id_)
        if operation is None or operation.args.get("by_name"):
            block.facts.add("star", block.id, str(index), f"{id_}.")
        else:
            block.facts.add("aligned", block.id, f"{id_}.")
    if not any(branch.args.get("by_name") for branch in branches):
        block.facts.add("length", block.id, "1")
    block.sources[""] = f"{block.below('0')}."
    for clause in ("order", "distinct"):
        if isinstance(node.args.get(clause), exp.Expr):
            _by_output(block, node.args[clause])


def _by_output(block: Block, clause: exp.Expr) -> None:
    """ORDER BY of a set operation names the columns of its first branch."""
    for column in clause.find_all(exp.Column):
        source = block.sources[""]
        name = block.names.fold(column.this)
        block.facts.add("uses", block.id, ROWS, source, name, "order")


def _values(block: Block, node: exp.Values) -> None:
    """Rows of expressions; without an alias list their columns are `_col_0` and so on."""
    width = 0
    for row in node.expressions:
        cells = row.expressions if isinstance(row, exp.Tuple) else [row]
        for index, cell in enumerate(cells):
            key = f"_col_{index}"
            block.facts.add("output", block.id, key, key)
            block.facts.add("slot", block.id, str(index), key)
            block.read(cell, key, "value")
        width = max(width, len(cells))
    block.facts.add("length", block.id, str(width))
