"""The constraints of a CREATE TABLE by their names, which ALTER TABLE takes away by these.

Invariant: a constraint that was written without a name has the one that PostgreSQL would give it,
of the table's name as it is now, so each has one. What they mean is `sql.catalog`'s to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from deltafix.sql.text import exp

__all__ = [
    "Named", "about", "default", "named", "own", "references", "renamed", "require", "without",
]  # fmt: skip


class Named(NamedTuple):
    """A constraint: its name, and the node that says it, in a column's definition or beside it."""

    name: str
    node: exp.Expr
    rule: Any


def own(rule: Any) -> list[Any]:
    """The names of the table's own columns in a constraint, as nodes."""
    if isinstance(rule, exp.CheckColumnConstraint):
        columns = [*rule.find_all(exp.Column)]
        fields = [column.args["table"] for column in columns if column.table]
        return [*(column.this for column in columns), *fields]
    if isinstance(rule, exp.UniqueColumnConstraint):
        return list(rule.this.expressions) if isinstance(rule.this, exp.Schema) else []
    return list(rule.expressions) if isinstance(rule, exp.PrimaryKey | exp.ForeignKey) else []


def references(node: exp.Expr) -> Iterator[tuple[exp.Reference, exp.Expr, list[Any]]]:
    """What a statement refers to: tables, and the columns that are named."""
    for reference in node.find_all(exp.Reference):
        has_names = isinstance(reference.this, exp.Schema)
        yield (
            reference,
            reference.this.this if has_names else reference.this,
            (reference.this.expressions if has_names else []),
        )


def named(schema: exp.Schema) -> list[Named]:
    """The constraints of a table that can be dropped, in the order they are written."""
    constraints: list[Named] = []
    for part in schema.expressions:
        if isinstance(part, exp.ColumnDef):
            for constraint in part.args.get("constraints") or ():
                rule = constraint.args["kind"]
                columns = [part.name]
                if isinstance(rule, exp.CheckColumnConstraint):
                    columns = list(dict.fromkeys(name.name for name in rule.find_all(exp.Column)))
                _note(constraints, schema, constraint, rule, columns)
        else:
            rule = part.expressions[0] if isinstance(part, exp.Constraint) else part
            columns = list(dict.fromkeys(column.name for column in own(rule)))
            _note(constraints, schema, part, rule, columns)
    return constraints


def about(schema: exp.Schema, constraint: Named) -> list[str]:
    """The columns of a key or of a foreign key."""
    if isinstance(constraint.node, exp.ColumnConstraint):
        parts = [part for part in schema.expressions if isinstance(part, exp.ColumnDef)]
        return [
            part.name
            for part in parts
            if any(constraint.node is node for node in part.args.get("constraints") or ())
        ]
    return [name.name for name in own(constraint.rule)]


def _note(
    constraints: list[Named], schema: exp.Schema, node: exp.Expr, rule: exp.Expr, columns: list[str]
) -> None:
    kinds: dict[type, str] = {
        exp.PrimaryKey: "pkey",
        exp.PrimaryKeyColumnConstraint: "pkey",
        exp.UniqueColumnConstraint: "key",
        exp.ForeignKey: "fkey",
        exp.Reference: "fkey",
        exp.CheckColumnConstraint: "check",
    }
    kind = kinds.get(type(rule))
    if kind is None:
        return
    name = node.name if isinstance(node, exp.Constraint | exp.ColumnConstraint) else ""
    if not name:
        of = [] if kind == "pkey" or (kind == "check" and len(columns) != 1) else columns
        plain = "_".join((schema.this.name, *of, kind))
        taken = {constraint.name for constraint in constraints}
        names = (plain, *(f"{plain}{number}" for number in range(1, len(constraints) + 1)))
        name = next(candidate for candidate in names if candidate not in taken)
    constraints.append(Named(name, node, rule))


def without(schema: exp.Schema, gone: Named) -> None:
    """Take a constraint out; the columns of a primary key stay NOT NULL, as in PostgreSQL."""
    kept = (
        {column.name for column in own(gone.rule)}
        if isinstance(gone.rule, exp.PrimaryKey)
        else set()
    )
    for part in schema.expressions:
        if isinstance(part, exp.ColumnDef):
            rules = part.args.get("constraints") or []
            if any(rule is gone.node for rule in rules):
                part.set("constraints", [rule for rule in rules if rule is not gone.node])
                if isinstance(gone.rule, exp.PrimaryKeyColumnConstraint):
                    kept.add(part.name)
    schema.set("expressions", [part for part in schema.expressions if part is not gone.node])
    for part in schema.expressions:
        if isinstance(part, exp.ColumnDef) and part.name in kept:
            require(part)


def require(column: exp.ColumnDef, *, nullable: bool = False) -> None:
    """Have a column NOT NULL, or without that."""
    rules = column.args.get("constraints") or []
    others = [
        rule for rule in rules if not isinstance(rule.args["kind"], exp.NotNullColumnConstraint)
    ]
    if not nullable:
        others.append(exp.ColumnConstraint(kind=exp.NotNullColumnConstraint()))
    column.set("constraints", others)


def default(column: exp.ColumnDef, value: exp.Expr | None) -> None:
    """Give a column another DEFAULT, or none."""
    rules = column.args.get("constraints") or []
    others = [
        rule for rule in rules if not isinstance(rule.args["kind"], exp.DefaultColumnConstraint)
    ]
    if value is not None:
        kind = exp.DefaultColumnConstraint(this=value.copy())
        others.append(exp.ColumnConstraint(kind=kind))
    column.set("constraints", others)


def renamed(nodes: Iterable[Any], name: str, to: exp.Expr) -> None:
    """Have the identifiers of a name, among some nodes, another one."""
    for node in nodes:
        identifier = node if isinstance(node, exp.Identifier) else node.find(exp.Identifier)
        if identifier is not None and identifier.name == name:
            identifier.set("this", to.name)
            identifier.set("quoted", bool(to.this.args.get("quoted")))
