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
from deltafix.sql.types import SqlValue, told

__all__ = ["described"]


def described(catalog: Catalog) -> dict[str, tuple[str, list[str]]]:
    """By name: "table" or "view", its columns in order, and what else it has. O(their texts)."""
    found = {}
    for name, table in catalog.tables.items():
        columns = _columns(table.relation, table.defaults)
        found[name] = ("table", [*columns, *sorted({*_constraints(catalog, table)})])
    for name, view in catalog.views.items():
        definition = catalog.definitions[name]
        query = read_statement(definition).node.args["expression"]
        parts = [*_columns(view.relation), f"AS {query.sql(definition.dialect)}"]
        found[name] = ("view", [*parts, *_seen(catalog, definition.seen, query)])
    return found


def _seen(catalog: Catalog, seen: Mapping[str, Seen], query: exp.Expr) -> Iterator[str]:
    """What a query sees of tables that ALTER TABLE has changed since, where that is not all."""
    stars = any(not isinstance(one.parent, exp.Count) for one in query.find_all(exp.Star))
    all_matter = stars or any(one.args.get("method") for one in query.find_all(exp.Join))
    for of, (table, names) in seen.items():
        now = [column.name for column in catalog.tables[table].relation.columns]
        there = now if all_matter else now[: len(names)]
        if of != table or there != [*names]:
            yield f"of {table} as it was, {of} ({', '.join(names)})"


def _columns(
    relation: Relation, defaults: Mapping[int, SqlValue] = MappingProxyType({})
) -> Iterator[str]:
    for place, column in enumerate(relation.columns):
        sure = "" if column.nullable else " NOT NULL"
        default = f" DEFAULT {told(defaults[place])}" if place in defaults else ""
        yield f"column {column.name} {column.type.name}{sure}{default}"


def _constraints(catalog: Catalog, table: Table) -> Iterator[str]:
    def listed(of: Table, places: Iterable[int]) -> str:
        return f"({', '.join(of.relation.columns[place].name for place in places)})"

    for key in table.keys:
        yield f"{key.kind} {listed(table, key.places)}"
    for check in table.checks:
        yield f"CHECK ({check.text})"
    for one in table.foreign:
        target = f"{one.table} {listed(catalog.tables[one.table], one.key.places)}"
        said = f"FOREIGN KEY {listed(table, one.places)} REFERENCES {target}"
        for event, action in (("DELETE", one.on_delete), ("UPDATE", one.on_update)):
            said += f" ON {event} {action}" if action else ""
        yield said
