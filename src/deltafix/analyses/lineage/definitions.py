"""CREATE TABLE and ALTER TABLE as facts: which columns a table has, and in which order.

Invariant: a table created without a column list, a query or a model to copy is `formless`: any
column may be asked of it. Views and CREATE TABLE AS have the columns of their block.
"""

from __future__ import annotations

from sqlglot import exp

from deltafix.analyses.lineage.names import Names


def declare(names: Names, node: exp.Create, table: str) -> None:
    """State the columns of a table created without a query."""
    facts = names.facts
    schema = node.this
    listed = schema.expressions if isinstance(schema, exp.Schema) else []
    columns = [names.fold(one.this) for one in listed if isinstance(one, exp.ColumnDef)]
    for index, name in enumerate(columns):
        facts.add("column", table, str(index), name)
    above = list(node.find_all(exp.LikeProperty, exp.PartitionedOfProperty, exp.InheritsProperty))
    copied = [other for one in above for other in (one.this, *one.expressions)]
    for other in copied:
        if isinstance(other, exp.Table):
            facts.add("like", table, names.mention(other))
    if columns and not copied:
        facts.add("width_of", table, str(len(columns)))
    if not columns and not copied:
        facts.add("formless", table)


def alter(names: Names, node: exp.Alter) -> None:
    """State the columns that ALTER TABLE adds, drops or renames."""
    if not isinstance(node.this, exp.Table) or node.args.get("kind") != "TABLE":
        return
    mention = names.mention(node.this)
    for action in node.args.get("actions") or ():
        if isinstance(action, exp.ColumnDef):
            names.facts.add("added", mention, names.fold(action.this))
        elif isinstance(action, exp.Schema):  # ADD (a INT, b INT)
            for one in action.expressions:
                if isinstance(one, exp.ColumnDef):
                    names.facts.add("added", mention, names.fold(one.this))
        elif isinstance(action, exp.RenameColumn):
            names.facts.add("dropped", mention, names.fold(action.this.this))
            names.facts.add("added", mention, names.fold(action.args["to"].this))
        elif isinstance(action, exp.Drop) and action.args.get("kind") == "COLUMN":
            for column in [action.this, *(action.args.get("tables") or ())]:
                if isinstance(column, exp.Column):
                    names.facts.add("dropped", mention, names.fold(column.this))
