"""Random trees of SQL files, and what sqlglot's own lineage says of them with the whole schema.

A tree is path -> text: base tables `t0`.. in one file each, views `v0`.. over what comes before.
`expected` is the second route: it has every table's columns at hand, lets sqlglot's optimizer
expand stars and qualify names, and walks the qualified trees. It shares the parser with the
extractor and nothing else.
"""

from __future__ import annotations

import random

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.lineage import lineage
from sqlglot.optimizer.qualify import qualify

Columns = dict[str, list[str]]
Row = tuple[str, str, str, str]


class Tree:
    """A random tree that can be edited; `indirect` allows CASE and windows."""

    def __init__(self, seed: int, indirect: bool, tables: int = 4, views: int = 6) -> None:
        self.random = random.Random(seed)
        self.indirect = indirect
        self.tables: Columns = {}
        self.views: dict[str, str] = {}
        self.count = 0
        for n in range(tables):
            self.tables[f"t{n}"] = [self.fresh() for _ in range(self.random.randint(2, 4))]
            if self.random.random() < 0.7:
                self.tables[f"t{n}"].insert(0, "id")
        for n in range(views):
            self.views[f"v{n}"] = self.body(f"v{n}")

    def fresh(self) -> str:
        self.count += 1
        return f"c{self.count}"

    def files(self) -> dict[str, str]:
        return {
            **{
                f"ddl/{name}.sql": f"CREATE TABLE {name} ({', '.join(f'{c} INT' for c in columns)})"
                for name, columns in self.tables.items()
            },
            **{f"views/{n}.sql": f"CREATE VIEW {n} AS {body}" for n, body in self.views.items()},
        }

    def edit(self) -> None:
        """One change of one file, not always a valid one."""
        kind = self.random.randrange(5)
        table = self.random.choice(list(self.tables))
        columns = self.tables[table]
        if kind == 0:
            columns.insert(self.random.randrange(len(columns) + 1), self.fresh())
        elif kind == 1 and len(columns) > 1:
            columns.remove(self.random.choice(columns))
        elif kind == 2:
            columns.append(columns.pop(0))
        else:
            view = self.random.choice(list(self.views))
            self.views[view] = self.body(view)

    def columns(self, whole: str) -> list[str]:
        if whole in self.tables:
            return list(self.tables[whole])
        try:
            return named(self, self.views[whole])
        except SqlglotError:
            return []

    def body(self, view: str) -> str:
        before = [n for n in [*self.tables, *self.views] if n[0] == "t" or n < view]
        known = {whole: self.columns(whole) for whole in before}
        usable = [whole for whole in before if known[whole]]
        kind = self.random.randrange(8)
        if kind == 0 and self.random.random() < 0.7:
            return self.union(usable, known)
        if kind == 1:
            return f"WITH q AS ({self.select(usable, known)}) SELECT * FROM q"
        if kind == 2:
            return f"SELECT d.* FROM ({self.select(usable, known)}) AS d"
        if kind == 3:
            inner = self.select(usable, known)
            try:
                names = [f"n{i}" for i in range(len(named(self, inner)))]
            except SqlglotError:
                return inner
            return f"WITH q({', '.join(names)}) AS ({inner}) SELECT {', '.join(names)} FROM q"
        return self.select(usable, known)

    def union(self, usable: list[str], known: Columns) -> str:
        left, right = (self.random.choice(usable) for _ in range(2))
        width = min(len(known[left]), len(known[right]))
        if len(known[left]) == len(known[right]):
            return f"SELECT * FROM {left} UNION ALL SELECT * FROM {right}"
        halves = [f"SELECT {', '.join(known[w][:width])} FROM {w}" for w in (left, right)]
        return f"{halves[0]} UNION ALL {halves[1]}"

    def select(self, usable: list[str], known: Columns) -> str:
        left = self.random.choice(usable)
        alias = self.random.choice(["", "a"])
        shown = alias or left
        scope = [(shown, c) for c in known[left]]
        text = f"FROM {left}{f' AS {alias}' if alias else ''}"
        others = [w for w in usable if w not in (left, shown)]
        star = ["*", f"{shown}.*"]
        if others and self.random.random() < 0.5:
            right = self.random.choice(others)
            both = set(known[left]) & set(known[right])
            if both == {"id"} and self.random.random() < 0.6:
                text += f" LEFT JOIN {right} USING (id)"
            else:
                on = f"{shown}.{known[left][0]} = {right}.{known[right][0]}"
                text += f" JOIN {right} ON {on}"
                if both:
                    star = [f"{shown}.*"]
            scope += [(right, c) for c in known[right] if c not in both]
        if self.random.random() < 0.3:
            text += f" WHERE {self.name(scope, known)} > 1"
        if self.random.random() < 0.35:
            extra = f", {self.expression(scope, known, usable)} AS {self.fresh()}"
            return f"SELECT {self.random.choice(star)}{extra if scope else ''} {text}"
        count = self.random.randint(1, 4)
        items = [f"{self.expression(scope, known, usable)} AS {self.fresh()}" for _ in range(count)]
        return f"SELECT {', '.join(items)} {text}"

    def name(self, scope: list[tuple[str, str]], known: Columns) -> str:
        source, column = self.random.choice(scope)
        return column if self.random.random() < 0.5 else f"{source}.{column}"

    def expression(self, scope: list[tuple[str, str]], known: Columns, usable: list[str]) -> str:
        one, two, three = (self.name(scope, known) for _ in range(3))
        kinds = [one, one, f"{one} + {two}", f"COALESCE({one}, {two}, 0)", f"CAST({one} AS TEXT)"]
        inner = self.random.choice(usable)
        kinds.append(f"(SELECT MAX({inner}.{self.random.choice(known[inner])}) FROM {inner})")
        if self.indirect:
            kinds += [
                f"CASE WHEN {one} > 1 THEN {two} ELSE {three} END",
                f"SUM({one}) OVER (PARTITION BY {two} ORDER BY {three})",
            ]
        return self.random.choice(kinds)


def named(tree: Tree, body: str) -> list[str]:
    return qualify(_expanded(tree, body), schema=_schema(tree)).named_selects


def expected(tree: Tree) -> set[Row]:
    """(view, column, base table, base column) by sqlglot; SqlglotError for an invalid tree."""
    rows: set[Row] = set()
    for view, body in tree.views.items():
        names = named(tree, body)
        if len(set(names)) != len(names):
            raise SqlglotError(f"{view} has a column twice")
        for column in names:
            root = lineage(column, _expanded(tree, body), schema=_schema(tree))
            for node in root.walk():
                if isinstance(node.expression, exp.Table):
                    rows.add((view, column, node.expression.name, node.name.rpartition(".")[2]))
    return rows


def _schema(tree: Tree) -> dict[str, dict[str, str]]:
    return {table: dict.fromkeys(columns, "INT") for table, columns in tree.tables.items()}


def _expanded(tree: Tree, body: str) -> exp.Expr:
    """The query with every view put in its place."""
    sources = {name: sqlglot.parse_one(text) for name, text in tree.views.items()}
    return exp.expand(sqlglot.parse_one(body), sources, copy=True)
