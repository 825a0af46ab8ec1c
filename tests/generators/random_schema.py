"""Random schemas that are more than columns: foreign keys that act, and tables that change.

Lives here: what `random_sql` draws beside columns and rows. Invariant: what is drawn means the same
in SQLite: no two references to one table, of which SQL does not say which acts first, and no column
that is a part of a reference and of a key in one chain, which SQLite changes row by row. Not here:
what SQLite has no other way to say: other types of columns, later foreign keys and primary keys
(`test_sql_constraints`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

__all__ = ["Columns", "Table", "altered", "referring", "truncated"]

Columns = tuple[tuple[str, str], ...]

_ACTIONS = (*("CASCADE",) * 3, *("SET NULL",) * 2, "NO ACTION", "RESTRICT")
_HIDDEN = re.compile(r"PIVOT|\bt\w+ AS \w+ \(")
"""A query whose columns may be under another name: each counts as one that is read."""


@dataclass(frozen=True)
class Table:
    """A table or view that queries may read; `key` are the columns of a primary key.

    `refers` are the columns that refer to a table, itself perhaps; `is_target` says whether some do
    to this one.
    """

    name: str
    columns: Columns
    required: frozenset[str] = frozenset()
    key: tuple[str, ...] = ()
    refers: frozenset[str] = frozenset()
    is_target: bool = False
    ruled: frozenset[str] = frozenset()
    constraints: tuple[str, ...] = ()
    """Columns of constraints that came later, and the names of these."""
    added: frozenset[str] = frozenset()
    """Columns that came later, without a default, so that no view reads them."""


def referring(random: Random, table: Table, others: list[Table]) -> tuple[Table, str]:
    """The table with foreign keys to itself and `others`, which learn of it, and their text."""
    kinds, text = dict(table.columns), ""
    free = [name for name, _ in table.columns]
    random.shuffle(free)
    for other in random.sample([*others, table], len(others) + 1):
        mine, own = list[str](), other.name == table.name
        if not other.key or random.random() < (0.6 if own else 0.15):
            continue
        wanted = dict(other.columns)
        for one in other.key:
            kind = wanted[one]
            fitting = [n for n in free if kinds[n] == kind and n not in mine]
            mine += [n for n in fitting if not own or n not in table.key][:1]
        if len(mine) < len(other.key):
            continue
        free = [name for name in free if name not in mine]
        said = ""
        for event in ("DELETE", "UPDATE"):
            action = random.choice(_ACTIONS)
            if action == "SET NULL" and table.required & {*mine}:
                action = "CASCADE"
            said += f" ON {event} {action}" if random.random() < 0.9 else ""
        table = replace(table, is_target=table.is_target or own)
        others[:] = [replace(o, is_target=o.is_target or o.name == other.name) for o in others]
        keys = ", ".join(other.key)
        text += f", FOREIGN KEY ({', '.join(mine)}) REFERENCES {other.name} ({keys}){said}"
        table = replace(table, refers=table.refers | {*mine})
    return table, text


def truncated(random: Random, tables: Sequence[Table]) -> str:
    """A TRUNCATE of some tables."""
    some = random.sample(tables, random.choice((1, 1, 2)))
    names = ", ".join(one.name for one in some)
    table, how = random.choice(("", "TABLE ")), random.choice(("", " RESTRICT", " CASCADE"))
    return f"TRUNCATE {table}{names}{how}"


def altered(
    random: Random,
    tables: list[Table],
    views: Sequence[str],
    added: tuple[str, str],
    fresh: Callable[[str], str],
) -> str:
    """An ALTER TABLE of one of the tables, which is then as it says; its new names are `fresh`.

    `added` are the type and the default of a column, should it add one.
    """
    place = random.randrange(len(tables))
    table = tables[place]
    column = random.choice(table.columns)[0]
    kinds = ("add", "add", "drop", "drop", "column", "table", "rule", "rule", "required")
    kind = random.choice((*kinds, *["type"] * 4))
    alter = f"ALTER TABLE {table.name}"
    if kind == "type" and any(map(_HIDDEN.search, views)):
        kind = "add"
    if kind in ("type", "required"):
        tables[place], said = _changed(random, table, kind)
        if said:
            return f"{alter} {said}"
        if kind == "type":  # a column for the next time
            added = random.choice(("INTEGER", "TEXT")), "NULL"
        kind = "add"
    if kind == "rule":
        tables[place], said = _ruled(random, table, fresh)
        if said:
            return f"{alter} {said}"
        kind = "add"
    if kind == "drop":
        fixed = {*table.key, *table.refers, *table.ruled}
        free = [n for n, _ in table.columns if n not in fixed]
        if free and len(table.columns) > 1:
            column = random.choice(free)
            columns = tuple(one for one in table.columns if one[0] != column)
            tables[place] = replace(table, columns=columns, required=table.required - {column})
            read = re.compile(rf"\* (?:FROM|EXCLUDE|REPLACE|RENAME)|COLUMNS|\b{column}\b|USING")
            is_read = column.startswith("m")  # under another name
            is_read |= any(read.search(view) or _HIDDEN.search(view) for view in views)
            cascade = " CASCADE" if is_read else ""
            return f"{alter} DROP COLUMN {column}{cascade}"
        kind = "add"
    if kind == "add":
        name, (of, default) = fresh("n"), added
        columns = (*table.columns, (name, of))
        said, required, bare = "", table.required, {name}
        if default != "NULL":
            said, bare = f" DEFAULT {default}", set()
            if random.random() < 0.4:
                said, required = f" NOT NULL{said}", required | {name}
        more = ""
        if random.random() < 0.3:  # several actions at once
            also = fresh("n")
            columns, bare = (*columns, (also, "INTEGER")), {*bare, also}
            more = f", ADD COLUMN {also} INTEGER"
        added = table.added | bare
        tables[place] = replace(table, columns=columns, required=required, added=added)
        return f"{alter} ADD COLUMN {name} {of}{said}{more}"
    if kind == "column":
        to = fresh("m")

        def now(name: str) -> str:
            return to if name == column else name

        tables[place] = replace(
            table,
            columns=tuple((now(n), k) for n, k in table.columns),
            required=frozenset(map(now, table.required)),
            key=tuple(map(now, table.key)),
            refers=frozenset(map(now, table.refers)),
            ruled=frozenset(map(now, table.ruled)),
            added=table.added - {column},
        )
        return f"{alter} RENAME COLUMN {column} TO {to}"
    tables[place] = replace(table, name=fresh("t_"))
    return f"{alter} RENAME TO {tables[place].name}"


def _changed(random: Random, table: Table, kind: str) -> tuple[Table, str]:
    """A column of another type, or that need no longer have a value; nothing where none is fit."""
    fixed = {*table.key, *table.refers, *table.ruled}
    if kind == "required":
        fit = sorted(table.required - fixed)
        if not fit:
            return table, ""
        column = random.choice(fit)
        table = replace(table, required=table.required - {column})
        return table, f"ALTER COLUMN {column} DROP NOT NULL"
    ways = {
        "INTEGER": (("TEXT", ""), ("DOUBLE", "")), "TEXT": (("INTEGER", " USING LENGTH({})"),),
    }  # fmt: skip
    some = [(n, k) for n, k in table.columns if n in table.added - fixed and k in ways]
    if not some:
        return table, ""
    column, of = random.choice(some)
    to, using = random.choice(ways[of])
    columns = tuple((n, to if n == column else k) for n, k in table.columns)
    said = f"ALTER COLUMN {column} TYPE {to}{using.format(column)}"
    return replace(table, columns=columns), said


def _ruled(random: Random, table: Table, fresh: Callable[[str], str]) -> tuple[Table, str]:
    """A constraint that comes or goes, or a default; nothing where no column is fit for one."""
    fit = [(n, k) for n, k in table.columns if k in ("INTEGER", "TEXT") and n not in table.key]
    if not fit or table.refers or table.is_target:
        return table, ""
    column, kind = random.choice(fit)
    value = random.choice(("0", "2")) if kind == "INTEGER" else "'a'"
    ways = ("UNIQUE", "UNIQUE", "CHECK", "CHECK", "NOT NULL", "DEFAULT", "DROP", "PRIMARY KEY")
    way = random.choice(ways)
    if way == "PRIMARY KEY" and table.key:
        way = "UNIQUE"
    if way == "DROP" and table.constraints:
        name = random.choice(table.constraints)
        kept = tuple(one for one in table.constraints if one != name)
        return replace(table, constraints=kept), f"DROP CONSTRAINT {name}"
    if way in ("DEFAULT", "DROP"):
        said = random.choice((f"SET DEFAULT {value}", "DROP DEFAULT"))
        return table, f"ALTER COLUMN {column} {said}"
    table = replace(table, ruled=table.ruled | {column})
    if way == "NOT NULL":
        return table, f"ALTER COLUMN {column} SET NOT NULL"
    name = fresh("k")
    rule = f"CHECK ({column} <> {value})" if way == "CHECK" else f"{way} ({column})"
    return replace(table, constraints=(*table.constraints, name)), f"ADD CONSTRAINT {name} {rule}"
