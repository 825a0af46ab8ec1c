"""What a catalog has, as texts that can be compared: the same words are the same table or view.

Invariant: two tables with the same words take the same rows and refuse the same; two views with the
same words have the same rows over such tables. How a definition was written (layout, a key beside
its column or behind all of them, ALTER TABLE) is not in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from deltafix.sql.builder import Relation
from deltafix.sql.catalog import Catalog, Seen
from deltafix.sql.durable import read_statement
from deltafix.sql.tables import Table
from deltafix.sql.text import exp
from deltafix.sql.types import SqlValue, as_sql

__all__ = ["described"]


def described(catalog: Catalog) -> dict[str, tuple[str, list[str]]]:
    """By name: "table" or "view", its columns in order, and what else it has. O(their texts)."""
    texts = {}
    for name, table in catalog.tables.items():
        columns = _columns(table.relation, table.defaults)
        texts[name] = ("table", [*columns, *sorted({*_constraints(catalog, table)})])
    for name, view in catalog.views.items():
        definition = catalog.definitions[name]
        query = read_statement(definition).node.args["expression"]
        parts = [*_columns(view.relation), f"AS {query.sql(definition.dialect)}"]
        texts[name] = ("view", [*parts, *_seen(catalog, definition.seen, query)])
    return texts


def _seen(catalog: Catalog, seen: Mapping[str, Seen], query: exp.Expr) -> Iterator[str]:
    """What a query sees of tables that ALTER TABLE has changed since, where that is not all."""
    stars = any(not isinstance(star.parent, exp.Count) for star in query.find_all(exp.Star))
    all_matter = stars or any(join.args.get("method") for join in query.find_all(exp.Join))
    for of, (table, names) in seen.items():
        now = [column.name for column in catalog.tables[table].relation.columns]
        current = now if all_matter else now[: len(names)]
        if of != table or current != [*names]:
            yield f"of {table} as it was, {of} ({', '.join(names)})"


def _columns(
    relation: Relation, defaults: Mapping[int, SqlValue] = MappingProxyType({})
) -> Iterator[str]:
    for position, column in enumerate(relation.columns):
        sure = "" if column.nullable else " NOT NULL"
        default = f" DEFAULT {as_sql(defaults[position])}" if position in defaults else ""
        yield f"column {column.name} {column.type.name}{sure}{default}"


def _constraints(catalog: Catalog, table: Table) -> Iterator[str]:
    def listed(of: Table, positions: Iterable[int]) -> str:
        return f"({', '.join(of.relation.columns[position].name for position in positions)})"

    for key in table.keys:
        yield f"{key.kind} {listed(table, key.positions)}"
    for check in table.checks:
        yield f"CHECK ({check.text})"
    for foreign in table.foreign:
        other = catalog.tables[foreign.table]
        target = f"{foreign.table} {listed(other, foreign.key.positions)}"
        text = f"FOREIGN KEY {listed(table, foreign.positions)} REFERENCES {target}"
        for event, action in (("DELETE", foreign.on_delete), ("UPDATE", foreign.on_update)):
            text += f" ON {event} {action}" if action else ""
        yield text
