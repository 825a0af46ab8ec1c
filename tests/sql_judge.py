"""SQL judged by other engines: DuckDB and SQLite evaluate the same views on the same tables.

`play` runs a case and compares, after every transaction, each view and each delta. Invariant: a
view that SQLite cannot say (its parser refuses it) is judged by DuckDB alone; how many, is counted.
Where SQLite alone differs, the view is disputed: SQLite 3.40 loses rows of chained FULL joins.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

import deltafix.sql
from random_sql import Case

__all__ = ["DifferenceError", "Judged", "play"]

_IN_ORDER = re.compile(r" ORDER BY [^()]*\Z")
"""The end of a view that is read in an order; all that is shown is sorted by."""

_NEW = re.compile(r"DATE|TIMESTAMP|DECIMAL|BLOB|\[|ARRAY_AGG|STRUCT")
"""Types that SQLite has not: it takes the tables and the edits, and says nothing of the views."""

_INSERT = re.compile(r"INSERT INTO (?P<table>\w+) VALUES (?P<rows>.*)", re.DOTALL)

_IN_PARENS = r"\((?:[^()]|\([^()]*\))*\)"
"""Parentheses, and one more level inside."""

Bag = Counter[tuple[Any, ...]]


class DifferenceError(AssertionError):
    """A view or a delta that is not what another engine says."""


@dataclass
class Judged:
    """What was compared."""

    transactions: int = 0
    views: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    disputed: list[str] = field(default_factory=list)
    changed: int = 0
    ordered: int = 0
    framed: int = 0
    parametrised: int = 0
    arrays: int = 0


def plain(value: Any) -> Any:
    """A value as all three engines show it."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float | Decimal):
        number = float(value)
        return "nan" if math.isnan(number) else float(f"{number:.9g}") + 0.0
    if isinstance(value, dict):
        value = tuple(value.values())
    return tuple(map(plain, value)) if isinstance(value, list | tuple) else value


def flat(statement: str) -> str:
    """An edit for SQLite: arrays and structs are texts, which are equal where they are."""

    def text(found: re.Match[str]) -> str:
        return "'" + found[0].replace("'", "''") + "'"

    return re.sub(r"\[(?:[^][]|\[[^][]*\])*\]|\{(?:[^{}]|\{[^{}]*\})*\}", text, statement)


def bag(rows: Iterable[Iterable[Any]]) -> Bag:
    return Counter(tuple(map(plain, row)) for row in rows)


def framed(duck: duckdb.DuckDBPyConnection, statement: str) -> tuple[str, Any] | None:
    """The table and the rows of an INSERT of values as a frame of the table's types, by DuckDB."""
    found = _INSERT.fullmatch(statement)
    if found is None:
        return None
    duck.execute(f"CREATE TEMP TABLE framed AS FROM {found['table']} LIMIT 0")
    duck.execute(f"INSERT INTO framed VALUES {found['rows']}")
    table = duck.sql("FROM framed").to_arrow_table()
    duck.execute("DROP TABLE framed")
    return found["table"], table


_VALUE = re.compile(
    r"(?P<said>(?:DATE|TIMESTAMP|TIMESTAMPTZ|INTERVAL) ?'[^']*'|DECIMAL\([^)]*\)|'(?:[^']|'')*':)"
    r"|(?P<text>'(?:[^']|'')*')|(?<![\w.])(?P<number>\d+(?:\.\d+)?)(?![\w.])"
    r"|\b(?P<word>NULL|TRUE|FALSE)\b(?!S)(?<!IS NULL)(?<!NOT NULL)"
)
"""Values, and (`said`) what looks like one: of a typed literal, of a type, the name of a field."""

_WORDS = {"NULL": None, "TRUE": True, "FALSE": False}


def parametrised(statement: str) -> tuple[str, list[Any]]:
    """A statement whose values are parameters, and these."""
    values: list[Any] = []

    def place(found: re.Match[str]) -> str:
        if found["said"] is not None:
            return found[0]
        if found["text"] is not None:
            values.append(found["text"][1:-1].replace("''", "'"))
        elif found["number"] is not None:
            kind = Decimal if "." in found["number"] else int
            values.append(kind(found["number"]))
        else:
            values.append(_WORDS[found["word"]])
        return "?"

    return _VALUE.sub(place, statement), values


def play(case: Case, state: Path | None = None) -> Judged:
    """Run a case. Raises DifferenceError, and whatever an engine raises unasked.

    In a `state` folder, if one is given, which is closed and opened between any two transactions.
    """
    judged = Judged()
    with ExitStack() as stack:

        def opened() -> deltafix.sql.Connection:
            stack.close()
            return stack.enter_context(
                closing(deltafix.sql.connect(state or ":memory:", timeout=30))
            )

        duck = duckdb.connect(config={"threads": 1})
        lite = sqlite3.connect(":memory:", isolation_level=None)
        try:
            _play(case, opened, (duck, lite), judged, reopens=state is not None)
        except duckdb.InternalException as error:  # a fault of its own: it has no answer
            judged.disputed.append(str(error).split("\n", 1)[0])
        finally:
            duck.close()
            lite.close()
    return judged


def _play(
    case: Case,
    opened: Callable[[], deltafix.sql.Connection],
    others: tuple[duckdb.DuckDBPyConnection, sqlite3.Connection],
    judged: Judged,
    *,
    reopens: bool,
) -> None:
    db = opened()
    duck, lite = others
    lite.execute("PRAGMA case_sensitive_like = ON")
    for table in case.tables:
        db.execute(table)
        duck.execute(re.sub(r", PRIMARY KEY \([^)]*\)", "", table))
        lite.execute(re.sub(rf"STRUCT{_IN_PARENS}(\[\])*|\w+(\[\])+", "TEXT", table))
    kept: dict[str, list[str]] = {}
    for name, query in case.views:
        # DuckDB itself has no meaning for some; it does not look at what an unused WITH reads
        gone = [one for one, _ in case.views if one not in kept and f"FROM {one} " in query]
        if gone or not made(duck, name, query):
            continue
        try:
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        except deltafix.sql.NotSupportedError as error:
            judged.refused.append(str(error))
            duck.execute(f"DROP VIEW {name}")
            continue
        kept[name] = ["duckdb"]
        judged.arrays += "UNNEST(" in query or "ARRAY_AGG(" in query
        if not _NEW.search(" ".join((*case.tables, query))) and made(lite, name, query):
            kept[name].append("sqlite")
    engines = {"duckdb": duck, "sqlite": lite}
    before = {name: _bag(duck, name) for name in kept}
    told = {name: db.subscribe(name) for name in kept}
    for number, statements in enumerate(case.transactions):
        if reopens:
            db = opened()
            told = {name: db.subscribe(name) for name in kept}
        undo = number % 5 == 4
        done = []
        db.execute("BEGIN")
        lite.execute("BEGIN")
        for place, statement in enumerate(statements):
            frame = framed(duck, statement) if (number + place) % 2 else None
            try:
                if frame is None and (number + place) % 4:
                    db.execute(*parametrised(statement))
                    judged.parametrised += 1
                elif frame is None:
                    db.execute(statement)
                else:
                    db.insert(*frame)
                    judged.framed += 1
                accepted = True
            except deltafix.sql.IntegrityError:
                accepted = False
            try:
                lite.execute(flat(statement))
                if not accepted:
                    raise DifferenceError(f"refused, but SQLite takes it: {statement}")
            except sqlite3.IntegrityError:
                if accepted:
                    message = f"taken, but SQLite refuses it: {statement}"
                    raise DifferenceError(message) from None
            if accepted:
                done.append(statement)
            if number % 3 == 2:  # what a transaction did is there for the next statement
                for name in kept:
                    db.execute(f"SELECT * FROM {name}")
        end = "ROLLBACK" if undo else "COMMIT"
        db.execute(end)
        lite.execute(end)
        for statement in () if undo else done:
            duck.execute(statement)
        judged.transactions += 1
        for name, by in kept.items():
            rows = db.execute(f"SELECT * FROM {name}").fetchall()
            found = bag(rows)
            wanted = {engine: _bag(engines[engine], name) for engine in by}
            judged.views.update(by)
            if _IN_ORDER.search(dict(case.views)[name]):
                right = duck.execute(f"SELECT * FROM {name}").fetchall()
                judged.ordered += len(right) > 1
                if [tuple(map(plain, row)) for row in rows] != [
                    tuple(map(plain, row)) for row in right
                ]:
                    shown = f"{name}: {rows}, wanted {right}"
                    raise DifferenceError(f"order: {dict(case.views)[name]}\n{shown}")
            if found != wanted["duckdb"]:
                missing, extra = wanted["duckdb"] - found, found - wanted["duckdb"]
                raise DifferenceError(_shown(case, number, name, (missing, extra)))
            if found != wanted.get("sqlite", found):
                judged.disputed.append(dict(case.views)[name])
            change = bag(()), bag(())
            for delta in told[name]:
                change[0].update(bag(delta.added))
                change[1].update(bag(delta.removed))
            if change != (found - before[name], before[name] - found):
                sides = (found - before[name], before[name] - found)
                raise DifferenceError(f"delta: {_shown(case, number, name, sides)}\ngot {change}")
            judged.changed += sum(map(len, change))
            before[name] = found
        if kept and number % 3 == 1:
            # A view that goes and comes back has all of its rows, and no delta.
            name, query = next((one, q) for one, q in reversed(case.views) if one in kept)
            db.execute(f"DROP VIEW {name}")
            other = "SELECT 1 AS other, 2 AS columns" if number % 2 else query
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {other}")
            if other != query:
                db.execute(f"DROP VIEW {name}")
                db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            told[name] = db.subscribe(name)
        db.engine.check_invariants()


def made(engine: Any, name: str, query: str) -> bool:
    try:
        engine.execute(f"CREATE VIEW {name} AS {query}")
        engine.execute(f"SELECT * FROM {name}").fetchall()
    except (sqlite3.Error, duckdb.Error):
        engine.execute(f"DROP VIEW IF EXISTS {name}")
        return False
    return True


def _bag(engine: Any, name: str) -> Bag:
    return bag(engine.execute(f"SELECT * FROM {name}").fetchall())


def _shown(case: Case, number: int, name: str, sides: tuple[Bag, Bag]) -> str:
    query = dict(case.views)[name]
    return (
        f"after transaction {number} {name} differs:\n  {query}\n"
        f"  wanted {dict(sides[0])}\n  not wanted {dict(sides[1])}"
    )
