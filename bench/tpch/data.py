"""TPC-H's tables and transactions over them.

Tables come from the package `tpchgen-cli`, by scale factor, as Arrow tables. A `Script` makes
transactions that follow one another: the specification's refresh functions (RF1 inserts orders with
their lineitems, RF2 deletes such), and edits of single rows of every table. Invariant: the script
knows which rows there are, so each of its statements is valid, and both engines are given the same.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from pyarrow import parquet

__all__ = ["QUERIES", "TABLES", "Edit", "Script", "decided", "generated", "schema"]

HOME = Path(__file__).parent
TABLES = (
    *("region", "nation", "supplier", "customer", "part", "partsupp", "orders"),
    "lineitem",
)
KEYS = {"partsupp": (0, 1), "lineitem": (0, 3)}
"""Positions of the primary keys that are not the first column alone."""
QUERIES = {path.stem: path.read_text() for path in sorted(HOME.glob("q*.sql"))}
"""The queries by name."""
MANY = 10
"""Rows from which on an edit is one statement, or a frame."""
Row = tuple[Any, ...]


def schema() -> str:
    """The CREATE TABLE statements."""
    return (HOME / "tables.sql").read_text()


def decided(query: str, names: list[str]) -> str:
    """A query whose LIMIT leaves nothing open: rows that ORDER BY leaves equal are sorted too."""
    return re.sub(r"\nLIMIT (\d+)\s*\Z", rf", {', '.join(names)}\nLIMIT \1", query)


def generated(scale: float, folder: Path) -> dict[str, pa.Table]:
    """The tables of a scale factor, made in a folder.

    Below 0.01 the generator gives keys of `partsupp` twice; the first row of each is kept.
    """
    program = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    command = [str(program), "parquet", "--scale-factor", f"{scale:g}", "--output-dir", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"tpchgen-cli: {done.stderr.strip()}")
    found = {name: _read(folder / f"{name}.parquet") for name in TABLES}
    supplied = found["partsupp"]
    keys = zip(*(supplied.column(place).to_pylist() for place in KEYS["partsupp"]), strict=True)
    first = {key: place for place, key in reversed(list(enumerate(keys)))}
    found["partsupp"] = supplied.take(sorted(first.values()))
    return found


def _read(path: Path) -> pa.Table:
    """A table of a file; its texts as Arrow's functions take them."""
    table = parquet.read_table(path)
    texts = [
        pa.field(f.name, pa.string()) if f.type == pa.string_view() else f for f in table.schema
    ]
    return table.cast(pa.schema(texts))


@dataclass(frozen=True, slots=True)
class Edit:
    """Rows that leave a table, and rows that come."""

    table: str
    removed: list[Row]
    added: list[Row]

    def statements(self, names: list[str]) -> Iterator[tuple[str, list[Any]]]:
        """SQL with parameters for any engine, by the names of the table's columns."""
        places = KEYS.get(self.table, (0,))
        if len(self.removed) >= MANY:  # the keys of half a table: one after another
            ends = [f(row[0] for row in self.removed) for f in (min, max)]
            yield f"DELETE FROM {self.table} WHERE {names[0]} BETWEEN ? AND ?", ends
            return
        where = " AND ".join(f"{names[place]} = ?" for place in places)
        coming = {key_of(self.table, row): row for row in self.added}
        for row in self.removed:
            key = key_of(self.table, row)
            new = coming.pop(key, None)
            if new is None:
                yield f"DELETE FROM {self.table} WHERE {where}", [*key]
                continue
            sets = {names[n]: new[n] for n in range(len(row)) if row[n] != new[n]}
            written = ", ".join(f"{name} = ?" for name in sets)
            if sets:
                yield f"UPDATE {self.table} SET {written} WHERE {where}", [*sets.values(), *key]
        for row in coming.values():
            yield f"INSERT INTO {self.table} VALUES ({', '.join('?' * len(row))})", [*row]


def key_of(table: str, row: Row) -> Row:
    """The primary key of a row."""
    return tuple(row[place] for place in KEYS.get(table, (0,)))


class Script:
    """Transactions over tables, one after another; it keeps the rows that there are."""

    def __init__(self, tables: dict[str, pa.Table], seed: int) -> None:
        self.random = Random(seed)
        self.schemas = {name: table.schema for name, table in tables.items()}
        self.rows: dict[str, dict[Row, Row]] = {}
        for name, table in tables.items():
            found = zip(*(column.to_pylist() for column in table.columns), strict=True)
            self.rows[name] = {key_of(name, row): row for row in found}
        self.keys = {name: list(rows) for name, rows in self.rows.items()}
        self.lines: dict[int, set[Row]] = {}
        for key in self.rows["lineitem"]:
            self.lines.setdefault(key[0], set()).add(key)
        items = self.rows["lineitem"].values()
        size = Counter[int]()
        for row in items:
            size[row[0]] += row[4]
        self.large = [key for key, _ in size.most_common(5)]
        self.next = 1 + max(key[0] for rows in self.rows.values() for key in rows)
        self.halves = ["customer", "part", "nation", "supplier"]
        self.gone: dict[str, list[Row]] = {}

    def transactions(self, orders: int) -> Iterator[list[Edit]]:
        """Refreshes of so many orders, edits of single rows, updates, and large ones, for ever."""
        small = (self.single, self.updated)
        ways = (self.refreshed_in, self.half, *small, self.refreshed_out, self.half, *small)
        for way in cycle((*ways, self.asked_for)):
            yield [self.done(edit) for edit in way(orders)]

    def frame(self, edit: Edit) -> pa.Table:
        """The rows that come, as an Arrow table."""
        schema = self.schemas[edit.table]
        columns = zip(schema, zip(*edit.added, strict=True), strict=True)
        return pa.table([pa.array(one, field.type) for field, one in columns], schema=schema)

    def refreshed_in(self, count: int) -> list[Edit]:
        """RF1: new orders with their lineitems, each like one that there is or a large one."""
        orders, lines = [], []
        for _ in range(count):
            like = self._row("orders")
            if self.random.random() < 0.5:
                like = self.rows["orders"].get((self.random.choice(self.large),), like)
            customer = self._row("customer")
            orders.append((self.next, customer[0], *like[2:]))
            there = sorted(self.lines.get(like[0], ()))
            lines += [(self.next, *self.rows["lineitem"][key][1:]) for key in there]
            self.next += 1
        return [Edit("orders", [], orders), Edit("lineitem", [], lines)]

    def refreshed_out(self, count: int) -> list[Edit]:
        """RF2: orders leave with their lineitems."""
        orders = list({key_of("orders", row): row for row in self._some("orders", count)}.values())
        keys = [key for order in orders for key in sorted(self.lines.get(order[0], ()))]
        lines = [self.rows["lineitem"][key] for key in keys]
        return [Edit("lineitem", lines, []), Edit("orders", orders, [])]

    def single(self, _: int = 1) -> list[Edit]:
        """One row of any table leaves, comes or changes."""
        # Deletes may have taken all of a small table: there is no row of it to pick then.
        there = [name for name in (*TABLES, "lineitem", "lineitem") if self.rows[name]]
        table = self.random.choice(there)
        old = self._row(table)
        kind = self.random.random()
        if kind < 0.3:
            return [Edit(table, [old], [])]
        if kind < 0.6:
            key = dict.fromkeys(KEYS.get(table, (0,))[-1:], self.next)
            self.next += 1
            return [Edit(table, [], [tuple(key.get(n, one) for n, one in enumerate(old))])]
        return [Edit(table, [old], [self._changed(table, old)])]

    def updated(self, _: int = 1) -> list[Edit]:
        """Some rows of three tables change, in one transaction."""
        edits = []
        for table in self.random.sample(TABLES, 3):
            old = {key_of(table, row): row for row in self._some(table, MANY // 2)}.values()
            edits.append(Edit(table, [*old], [self._changed(table, row) for row in old]))
        return edits

    def asked_for(self, _: int = 1) -> list[Edit]:
        """A part becomes one that query 17 asks for: at scale factor 0.01 there is none."""
        old = self._row("part")
        return [Edit("part", [old], [(*old[:3], "Brand#23", *old[4:6], "MED BOX", *old[7:])])]

    def half(self, _: int = 1) -> list[Edit]:
        """Half of a table's keys leave; four halves later they come back."""
        table = self.halves[0]
        self.halves = [*self.halves[1:], table]
        back = self.gone.pop(table, [])
        if back:
            return [Edit(table, [], back)]
        keys = sorted(self.rows[table])
        half = len(keys) // 2
        low, high = self.random.choice(((keys[0], keys[half]), (keys[half], keys[-1])))
        self.gone[table] = [row for key, row in self.rows[table].items() if low <= key <= high]
        return [Edit(table, self.gone[table], [])]

    def _row(self, table: str) -> Row:
        """Any row that is there."""
        while True:
            found = self.rows[table].get(self.random.choice(self.keys[table]))
            if found is not None:
                return found

    def _changed(self, table: str, row: Row) -> Row:
        """A row with two of its columns as another row has them; its key stays."""
        other, fixed = self._row(table), KEYS.get(table, (0,))
        free = self.random.sample([n for n in range(len(row)) if n not in fixed], 2)
        return tuple(other[n] if n in free else one for n, one in enumerate(row))

    def _some(self, table: str, count: int) -> list[Row]:
        return [self._row(table) for _ in range(count)]

    def done(self, edit: Edit) -> Edit:
        """The edit, noted."""
        rows = self.rows[edit.table]
        for row in edit.removed:
            key = key_of(edit.table, row)
            del rows[key]
            if edit.table == "lineitem":
                self.lines[row[0]].discard(key)
        for row in edit.added:
            key = key_of(edit.table, row)
            rows[key] = row
            self.keys[edit.table].append(key)
            if edit.table == "lineitem":
                self.lines.setdefault(row[0], set()).add(key)
        return edit
