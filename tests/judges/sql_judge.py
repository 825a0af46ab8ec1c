"""SQL judged by other engines: DuckDB and SQLite evaluate the same views on the same tables.

`play` runs a case and compares, after every transaction, each view and each delta. Invariant: a
view that SQLite cannot say (its parser refuses it) is judged by DuckDB alone; how many, is counted.
Nor is it asked what SQLite 3.40 is known to answer wrongly (`_OUTER`), and MIN and MAX with FILTER
in a window are written with CASE for it (`by_case`). Where SQLite alone differs in anything else,
the view is disputed.
"""

from __future__ import annotations

import dataclasses
import math
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import sqlglot
from sqlglot import exp
from tests.generators.random_sql import Case

import deltafix.sql

if TYPE_CHECKING:
    import pytest

__all__ = ["DifferenceError", "Judged", "play"]

_ALL = Context(prec=100)
_FAULT = "BindBuiltinScalarFunction"
_IN_ORDER = re.compile(r" ORDER BY [^()]*\Z")
"""The end of a view that is read in an order; all that is shown is sorted by."""

_NEW = re.compile(r"DATE|\bTIME\b|TIMESTAMP|DECIMAL|INTERVAL|BLOB|UUID|\[|ARRAY_AGG|STRUCT")
"""Types that SQLite has not: it takes the tables and the edits, and says nothing of the views."""

_FLOATS = {
    "CAST('nan'::DOUBLE AS DOUBLE)": "'nan'",
    "'nan'::DOUBLE": "'nan'",
    "'inf'::DOUBLE": "9e999",
}
"""What SQLite keeps of NaN, which it has not: a text is above its numbers, and equal to itself."""

_LONG = re.compile(r"(?<![\w.'-])-?\d{16,}(?:\.\d+)?")

_OUTER = re.compile(r"\b(?:RIGHT|FULL) JOIN\b")
"""SQLite 3.40 loses rows where there are two of these, and finds some that the sides of a UNION ALL
do not have where there is one in it."""

_FILTERED = re.compile(r"\bM(?:IN|AX)\(.*FILTER \(WHERE .*\bOVER\b")

_USING = re.compile(r"(DELETE FROM \w+) USING (.*) WHERE (.*)")
_EXISTS = r"\1 WHERE EXISTS (SELECT 1 FROM \2 WHERE \3)"
"""What SQLite has in place of DELETE ... USING."""

_RULE = re.compile(
    r"ALTER TABLE (?P<table>\w+) (?:DROP CONSTRAINT (?P<gone>\w+)"
    r"|ADD CONSTRAINT (?P<name>\w+) (?:(?P<kind>UNIQUE|PRIMARY KEY) \((?P<key>\w+)\)"
    r"|CHECK \((?P<check>.*)\))"
    r"|ALTER COLUMN (?:(?P<column>\w+) SET NOT NULL|\w+ (?:SET DEFAULT .*|DROP DEFAULT)))"
)
"""An ALTER TABLE about a constraint or a default."""

_ACTIONS = re.compile(r", (?=(?:ADD|DROP|ALTER) )")

_CHANGED = re.compile(
    r"ALTER TABLE (?P<table>\w+) ALTER COLUMN (?P<column>\w+) "
    r"(?:DROP NOT NULL|TYPE (?P<type>\w+)(?: USING (?P<value>.*))?)"
)
"""An ALTER TABLE that SQLite has not: its schema is written over."""

_BY_NAME = re.compile(r"INSERT INTO (\w+) BY NAME (SELECT .*)")

_INSERT = re.compile(
    r"INSERT INTO (?P<table>\w+) VALUES (?P<rows>(?:(?! ON CONFLICT | RETURNING ).)*)", re.DOTALL
)

_KEYED = re.compile(r"MERGE INTO (?P<table>\w+)|INSERT OR | ON CONFLICT ")
"""Edits that DuckDB, whose tables have no keys here, is not to follow one by one."""

_TRUNCATE = re.compile(r"TRUNCATE (?:TABLE )?(?P<names>[\w, ]+?)(?: (?P<how>RESTRICT|CASCADE))?")

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
    altered: int = 0
    merged: int = 0
    returned: int = 0
    followed: int = 0
    """Statements that changed more rows than they said: foreign keys acted."""


def plain(value: Any) -> Any:
    """A value as all three engines show it."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, Decimal) and abs(value) >= 10**14:
        return f"{value.normalize(_ALL)}"  # exactly
    if isinstance(value, int | float | Decimal):
        number = float(value)
        return "nan" if math.isnan(number) else float(f"{number:.9g}") + 0.0
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, deltafix.sql.Interval):  # DuckDB's in Python has no months
        return value.rest + timedelta(days=30 * value.months)
    return tuple(map(plain, value)) if isinstance(value, list | tuple) else value


def flat(statement: str) -> str:
    """An edit for SQLite: what it has not is a text, which is equal where that is.

    Arrays, structs, NaN, and numbers of more digits than a float tells apart.
    """

    def text(found: re.Match[str]) -> str:
        return "'" + found[0].replace("'", "''") + "'"

    found = re.sub(r"\[(?:[^][]|\[[^][]*\])*\]|\{(?:[^{}]|\{[^{}]*\})*\}", text, statement)
    for ours, theirs in _FLOATS.items():
        found = found.replace(ours, theirs)
    return _LONG.sub(text, found)


def by_case(query: str) -> str:
    """A view for SQLite, which does not look at FILTER of MIN and MAX in frames that begin late.

    `SELECT MAX('a') FILTER (WHERE 0) OVER (ORDER BY 1 ROWS CURRENT ROW)` is 'a' there.
    """
    if not _FILTERED.search(query):
        return query
    tree = sqlglot.parse_one(query, read="duckdb")
    for window in [*tree.find_all(exp.Window)]:
        found = window.this
        if isinstance(found, exp.Filter) and isinstance(found.this, exp.Min | exp.Max):
            value = exp.If(this=found.expression.this, true=found.this.this)
            found.replace(type(found.this)(this=exp.Case(ifs=[value])))
    return tree.sql("duckdb")


def listed(statement: str) -> str:
    """An INSERT BY NAME for SQLite: its columns by name."""
    found = _BY_NAME.fullmatch(statement)
    if found is None:
        return statement
    query, *_ = found[2].split(" RETURNING ")
    names = re.findall(r" AS (\w+)(?:,|$)", query)
    return f"INSERT INTO {found[1]} ({', '.join(names)}) {found[2]}"


def bag(rows: Iterable[Iterable[Any]]) -> Bag:
    return Counter(tuple(map(plain, row)) for row in rows)


def changes_followed(tables: Iterable[str], query: str, edits: Iterable[str]) -> int:
    """How many edits changed a view, which after each is what DuckDB finds, and so is its delta."""
    changed = 0
    with deltafix.sql.connect() as db, duckdb.connect() as duck:
        for one in tables:
            db.execute(one)
            duck.execute(one)
        db.execute(f"CREATE VIEW v AS {query}")
        before = bag(db.execute("SELECT * FROM v"))
        for edit in edits:
            db.execute(edit)
            duck.execute(edit)
            found = bag(db.execute("SELECT * FROM v"))
            assert found == bag(duck.execute(query).fetchall()), edit
            assert found == bag(db.execute(query)), edit
            delta = db.delta("v")
            assert (bag(delta.added), bag(delta.removed)) == (found - before, before - found), edit
            changed += found != before
            before = found
        db.engine.check_invariants()
    return changed


def views_followed(table: str, queries: Sequence[str], edits: Iterable[str]) -> None:
    """Many views of one table `t`, to the letter what DuckDB finds after each edit; its types."""
    with deltafix.sql.connect() as db, duckdb.connect() as duck:
        db.execute(table)
        duck.execute(table)
        for number, query in enumerate(queries):
            db.execute(f"CREATE VIEW v{number} AS {query}")
        for edit in edits:
            db.execute(edit)
            duck.execute(edit)
            for number, query in enumerate(queries):
                wanted = sorted(map(repr, duck.execute(query).fetchall()))
                assert sorted(map(repr, db.execute(query).fetchall())) == wanted, query
                found = db.execute(f"SELECT * FROM v{number}").fetchall()
                assert sorted(map(repr, found)) == wanted, query
        kinds = [one.type for one in db.execute("SELECT * FROM t").to_arrow().schema]
        assert kinds == [one.type for one in duck.sql("FROM t").to_arrow_table().schema]


def states_during(
    db: deltafix.sql.Connection, statement: str, state: Path, monkeypatch: pytest.MonkeyPatch
) -> list[Path]:
    """Run a statement; copies of the state folder as it was before each of its transactions."""
    kind, copies = type(db.engine), list[Path]()
    begin = kind.transaction

    def copied(self: object) -> object:
        copies.append(state.with_name(f"copy{len(copies)}"))
        shutil.copytree(state, copies[-1])
        return begin(self)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(kind, "transaction", copied)
        db.execute(statement)
    return copies


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
    r"(?P<said>(?:DATE|TIME|TIMESTAMP|TIMESTAMPTZ|INTERVAL) ?'[^']*'|DECIMAL\([^)]*\)"
    r"|'(?:[^']|'')*':)"
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


def portable(statement: str) -> str:
    """A statement about columns for SQLite: without RESTRICT of ours, and TEXT as `flat` has it."""
    kinds = rf"STRUCT{_IN_PARENS}(\[\])*|\w+(\[\])+|DECIMAL\(38, \d+\)"
    found = re.sub(kinds, "TEXT", statement)
    return found.replace("RESTRICT", "NO ACTION")


@dataclass
class Shape:
    """A table as it is now: its name, and its columns, each with the name that views know."""

    name: str
    columns: list[tuple[str, str]]

    def alter(self, statement: str) -> None:
        """Follow an ALTER TABLE of this table."""
        match statement.split()[3:]:
            case ["ADD", _, name, *_]:
                self.columns.append(("", name))
            case ["DROP", _, name, *_]:
                self.columns = [one for one in self.columns if one[1] != name]
            case ["RENAME", "COLUMN", name, _, to]:
                self.columns = [(was, to if now == name else now) for was, now in self.columns]
            case ["RENAME", _, to]:
                self.name = to


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
            _Play(case, opened, (duck, lite), judged).run(reopens=state is not None)
        except duckdb.Error as error:
            if not isinstance(error, duckdb.InternalException) and _FAULT not in str(error):
                raise
            # a fault of its own: it has no answer
            judged.disputed.append(str(error).split("\n", 1)[0])
        finally:
            duck.close()
            lite.close()
    return judged


class _Play:
    """One case in three engines."""

    def __init__(
        self,
        case: Case,
        opened: Callable[[], deltafix.sql.Connection],
        others: tuple[duckdb.DuckDBPyConnection, sqlite3.Connection],
        judged: Judged,
    ) -> None:
        self.case, self.judged, self.opened = case, judged, opened
        self.views = dict(case.views)
        self.db = opened()
        self.duck, self.lite = others
        self.duck.execute("CREATE SCHEMA now")
        self.edits = self.duck.cursor()
        self.edits.execute("SET schema = 'now'")
        self.lite.execute("PRAGMA case_sensitive_like = ON")
        self.lite.execute("PRAGMA foreign_keys = ON")
        self.follows = any("FOREIGN KEY" in table for table in case.tables)
        self.cascades = any("ON DELETE CASCADE" in table for table in case.tables)
        self.is_renamed = False
        self.has_nan = any("'::DOUBLE" in one for edits in case.transactions for one in edits)
        self.constraints: dict[str, tuple[str, ...]] = {}
        self.shapes: dict[str, Shape] = {}
        for table in case.tables:
            self.db.execute(table)
            self.edits.execute(re.sub(r", (PRIMARY|FOREIGN) KEY .*\)", ")", table))
            self.lite.execute(portable(table))
            name = table.split()[2]
            names = [one[0] for one in self.edits.execute(f"DESCRIBE {name}").fetchall()]
            self.shapes[name] = Shape(name, [(one, one) for one in names])
            self.show(name)
        self.kept: dict[str, list[str]] = {}
        for name, query in case.views:
            self.view(name, query)
        self.before = {name: _bag(self.duck, name) for name in self.kept}
        self.told = {name: self.db.subscribe(name) for name in self.kept}

    def show(self, table: str) -> None:
        """Have DuckDB's views read a table by the names that they know."""
        shape = self.shapes[table]
        shown = ", ".join(f"{now} AS {was}" for was, now in shape.columns if was)
        self.duck.execute(
            f"CREATE OR REPLACE VIEW {table} AS SELECT {shown or '1 AS gone'} FROM now.{shape.name}"
        )

    def view(self, name: str, query: str) -> None:
        """Make a view everywhere."""
        # DuckDB itself has no meaning for some; it does not look at what an unused WITH reads
        gone = (one for one in self.views if one not in self.kept)
        if any(re.search(rf"\b{one}\b", query) for one in gone):
            return
        if not made(self.duck, name, query):
            return
        try:
            self.db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        except deltafix.sql.NotSupportedError as error:
            self.judged.refused.append(str(error))
            self.duck.execute(f"DROP VIEW {name}")
            return
        self.kept[name] = ["duckdb"]
        self.judged.arrays += "UNNEST(" in query or "ARRAY_AGG(" in query
        if not (self.has_nan or _NEW.search(" ".join((*self.case.tables, query)))):
            whole = self.whole(query)
            outer = len(_OUTER.findall(whole))
            is_wrong = outer > 1 or (outer and "UNION ALL" in whole)
            if made(self.lite, name, by_case(query)) and not is_wrong:
                self.kept[name].append("sqlite")

    def whole(self, query: str) -> str:
        """A query, and those of the views that it reads, as SQLite puts them together."""
        read = [one for one in self.views if re.search(rf"\b{one}\b", query)]
        return " ".join((query, *(self.whole(self.views[one]) for one in read)))

    def run(self, *, reopens: bool) -> None:
        """All transactions, compared after each."""
        for number, statements in enumerate(self.case.transactions):
            if reopens:
                self.db = self.opened()
                self.told = {name: self.db.subscribe(name) for name in self.kept}
            if number == 3:  # from here on another arena, where each value has another code
                self.db.compact()
            if statements[0].startswith("ALTER TABLE"):
                self.alter(statements[0])
            else:
                self.edit(number, statements)
            self.judged.transactions += 1
            self.compare(number)
            once = 1 + 3 * (len(self.case.views) % 2)  # a definition costs as much as four edits
            if self.kept and number == once and not self.is_renamed:
                self.come_back(number)
            self.db.engine.check_invariants()

    def edit(self, number: int, statements: Sequence[str]) -> None:
        """A transaction of edits."""
        db, lite, judged = self.db, self.lite, self.judged
        undo = number % 5 == 4
        done = []
        db.execute("BEGIN")
        lite.execute("BEGIN")
        for place, statement in enumerate(statements):
            frame = framed(self.edits, statement) if (number + place) % 2 else None
            shown: Any = ()
            try:
                if frame is None and (number + place) % 4:
                    shown = db.execute(*parametrised(statement))
                    judged.parametrised += 1
                elif frame is None:
                    shown = db.execute(statement)
                else:
                    db.insert(*frame)
                    judged.framed += 1
                accepted = True
            except (deltafix.sql.IntegrityError, deltafix.sql.ProgrammingError) as error:
                is_integrity = isinstance(error, deltafix.sql.IntegrityError)
                if is_integrity is statement.startswith("TRUNCATE"):
                    raise
                accepted = False
            if statement.startswith("TRUNCATE"):
                done += self.truncate(statement, accepted=accepted)
                continue
            try:
                if statement.startswith("MERGE"):
                    self.merge(statement)
                count = lite.total_changes
                theirs = flat(_USING.sub(_EXISTS, listed(statement)))
                if statement.startswith("MERGE"):
                    theirs = "SELECT 1"
                cursor = lite.execute(theirs)
                right = cursor.fetchall()
                if " RETURNING " in statement and accepted:
                    judged.returned += 1
                    rows = [*shown]
                    # SQLite says nothing of a row that went before by a cascade of the statement
                    cascades = statement.startswith("DELETE") and self.cascades
                    less = bag(right) - bag(rows)
                    if less if cascades else bag(rows) != bag(right):
                        message = f"returned {rows}, wanted {right}: {statement}"
                        raise DifferenceError(message)
                count += max(cursor.rowcount, 0)
                judged.followed += lite.total_changes > count
                if not accepted:
                    raise DifferenceError(f"refused, but SQLite takes it: {statement}")
            except sqlite3.IntegrityError:
                if accepted:
                    message = f"taken, but SQLite refuses it: {statement}"
                    raise DifferenceError(message) from None
            if accepted:
                done.append(statement)
            if number % 3 == 2:  # what a transaction did is there for the next statement
                for name in self.kept:
                    db.execute(f"SELECT * FROM {name}")
        end = "ROLLBACK" if undo else "COMMIT"
        db.execute(end)
        lite.execute(end)
        if self.follows or any(map(_KEYED.search, done)):
            self.follow()
        else:
            for statement in () if undo else done:
                self.edits.execute(statement)

    def merge(self, statement: str) -> None:
        """Give SQLite the rows that DuckDB has after a MERGE. Raises IntegrityError as that does.

        DuckDB is asked about the rows there are now, and keeps nothing.
        """
        found = _KEYED.match(statement)
        assert found is not None
        table = found["table"]
        self.edits.execute("BEGIN")
        try:
            self.follow()
            self.edits.execute(statement)
            rows = self.edits.execute(f"SELECT * FROM {table}").fetchall()
        except (duckdb.ConstraintException, duckdb.InvalidInputException) as error:
            raise sqlite3.IntegrityError(str(error)) from None
        finally:
            self.edits.execute("ROLLBACK")
        self.judged.merged += 1
        self.lite.execute("SAVEPOINT merge")
        try:
            self.lite.execute(f"DELETE FROM {table}")
            marks = ", ".join("?" for _ in self.shapes_of(table).columns)
            self.lite.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        except sqlite3.IntegrityError:
            self.lite.execute("ROLLBACK TO merge")
            raise
        finally:
            self.lite.execute("RELEASE merge")

    def shapes_of(self, name: str) -> Shape:
        """The table of a name."""
        return next(one for one in self.shapes.values() if one.name == name)

    def truncate(self, statement: str, *, accepted: bool) -> list[str]:
        """What a TRUNCATE is to SQLite, which says which tables refer to which; and to DuckDB."""
        found = _TRUNCATE.fullmatch(statement)
        assert found is not None
        names = found["names"].split(", ")
        for name in names:  # which grows
            for other in (one.name for one in self.shapes.values()):
                keys = self.lite.execute(f"PRAGMA foreign_key_list({other})").fetchall()
                if other not in names and any(key[2] == name for key in keys):
                    names.append(other)
        alone = len(names) == found["names"].count(",") + 1
        if accepted != (alone or found["how"] == "CASCADE"):
            raise DifferenceError(f"{'taken' if accepted else 'refused'}: {statement}, {names}")
        if not accepted:
            return []
        self.lite.execute("PRAGMA defer_foreign_keys = ON")
        for name in names:
            self.lite.execute(f"DELETE FROM {name}")
        self.lite.execute("PRAGMA defer_foreign_keys = OFF")
        return [f"TRUNCATE {name}" for name in names]

    def follow(self) -> None:
        """Give DuckDB the rows that SQLite has."""
        for shape in self.shapes.values():
            rows = self.lite.execute(f"SELECT * FROM {shape.name}").fetchall()
            self.edits.execute(f"DELETE FROM {shape.name}")
            marks = ", ".join("?" for _ in shape.columns)
            if rows:
                self.edits.executemany(f"INSERT INTO {shape.name} VALUES ({marks})", rows)

    def constrain(self, statement: str, table: str, rule: re.Match[str]) -> None:
        """A constraint that comes or goes; SQLite has an index or triggers for it."""
        try:
            self.db.execute(statement)
            accepted = True
        except (deltafix.sql.IntegrityError, deltafix.sql.ProgrammingError):
            accepted = False
        self.judged.altered += 1
        name, column = rule["name"] or f"required_{len(self.constraints)}", rule["column"]
        if rule["gone"]:
            theirs = self.constraints.pop(rule["gone"], None)
            for sql in theirs or ():
                self.lite.execute(sql)
            right = theirs is not None
        elif rule["key"]:
            try:
                self.lite.execute(f"CREATE UNIQUE INDEX {name} ON {table} ({rule['key']})")
                self.constraints[name] = (f"DROP INDEX {name}",)
                right = True
            except sqlite3.IntegrityError:
                right = False
            if right and rule["kind"] == "PRIMARY KEY":  # NOT NULL stays when it goes
                right = self.held(f"{name}_value", table, f"{rule['key']} IS NULL")
                if not right:
                    self.lite.execute(f"DROP INDEX {name}")
                    del self.constraints[name]
        elif rule["check"] or column:
            wrong = f"{column} IS NULL" if column else f"NOT ({rule['check']})"
            right = self.held(name, table, wrong)
        else:
            right = True
        if accepted != right:
            raise DifferenceError(f"{'taken' if accepted else 'refused'}: {statement}")

    def held(self, name: str, table: str, wrong: str) -> bool:
        """Whether no row breaks a constraint, which SQLite then has triggers for."""
        if self.lite.execute(f"SELECT COUNT(*) FROM {table} WHERE {wrong}").fetchone() != (0,):
            return False
        of = re.sub(r"^(NOT .)?", r"\1NEW.", wrong)
        events = [f"{name}_{event}" for event in ("INSERT", "UPDATE")]
        for event in events:
            self.lite.execute(
                f"CREATE TRIGGER {event} BEFORE {event.rsplit('_')[-1]} ON {table} WHEN {of} "
                "BEGIN SELECT RAISE(ABORT, 'constraint'); END"
            )
        self.constraints[name] = tuple(f"DROP TRIGGER {one}" for one in events)
        return True

    def change(self, statement: str, changed: re.Match[str]) -> None:
        """A column of another type, or without NOT NULL: SQLite's schema is written over."""
        self.db.execute(statement)
        self.judged.altered += 1
        self.edits.execute(statement)
        table, column, to = (changed[part] for part in ("table", "column", "type"))
        query = "SELECT sql FROM sqlite_master WHERE name = ?"
        (text,) = self.lite.execute(query, [table]).fetchone()
        pattern, now = rf"\b{column} (\w+)", rf"{column} {to}"
        if to is None:
            pattern, now = rf"(\b{column} [^,]*?) NOT NULL", r"\1"
        text = re.sub(pattern, now, text, count=1)
        (version,) = self.lite.execute("PRAGMA schema_version").fetchone()
        self.lite.execute("PRAGMA writable_schema = ON")
        self.lite.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", [text, table])
        self.lite.execute(f"PRAGMA schema_version = {version + 1}")
        self.lite.execute("PRAGMA writable_schema = OFF")
        if to is not None:
            value = f"CAST({changed['value'] or column} AS {to})"
            self.lite.execute(f"UPDATE {table} SET {column} = {value}")

    def alter(self, statement: str) -> None:
        """An ALTER TABLE; views that it drops are dropped everywhere."""
        rule = _RULE.fullmatch(statement)
        if rule is not None:
            self.constrain(statement, rule["table"], rule)
            return
        changed = _CHANGED.fullmatch(statement)
        if changed is not None:
            self.change(statement, changed)
            return
        self.db.execute(statement)
        self.judged.altered += 1
        first, *more = _ACTIONS.split(statement)
        self.follow_alter(first)
        for action in more:
            self.follow_alter(" ".join((*statement.split()[:3], action)))

    def follow_alter(self, statement: str) -> None:
        """Have the others follow an ALTER TABLE of one action."""
        for name in reversed([one for one in self.kept if one not in self.db.catalog.views]):
            self.duck.execute(f"DROP VIEW {name}")
            self.kept.pop(name)
            self.lite.execute(f"DROP VIEW IF EXISTS {name}")
        old = statement.split()[2]
        table, shape = next((t, s) for t, s in self.shapes.items() if s.name == old)
        before = dataclasses.replace(shape)
        shape.alter(statement)
        self.is_renamed |= " RENAME " in statement
        theirs = flat(portable(statement)).removesuffix(" CASCADE")
        try:
            self.lite.execute(theirs)
        except sqlite3.OperationalError:  # it reads its views again, and not all as it did
            for name, by in self.kept.items():
                self.lite.execute(f"DROP VIEW IF EXISTS {name}")
                if "sqlite" in by:
                    by.remove("sqlite")
            self.lite.execute(theirs)
        if shape.name == before.name and len(shape.columns) < len(before.columns):
            self.show(table)
        self.edits.execute(statement.replace(" NOT NULL", "").removesuffix(" CASCADE"))
        self.show(table)

    def compare(self, number: int) -> None:
        """Each table, each view and its delta."""
        engines = {"duckdb": self.duck, "sqlite": self.lite}
        for shape in self.shapes.values():
            found, right = _bag(self.db, shape.name), _bag(self.edits, shape.name)
            if found != right:
                shown = f"{dict(right - found)}\n  not wanted {dict(found - right)}"
                raise DifferenceError(
                    f"after transaction {number} table {shape.name}:\n  wanted {shown}"
                )
        for name, by in self.kept.items():
            rows = self.db.execute(f"SELECT * FROM {name}").fetchall()
            found = bag(rows)
            wanted = {engine: _bag(engines[engine], name) for engine in by}
            self.judged.views.update(by)
            if _IN_ORDER.search(self.views[name]):
                right = self.duck.execute(f"SELECT * FROM {name}").fetchall()
                self.judged.ordered += len(right) > 1
                if [tuple(map(plain, row)) for row in rows] != [
                    tuple(map(plain, row)) for row in right
                ]:
                    shown = f"{name}: {rows}, wanted {right}"
                    raise DifferenceError(f"order: {self.views[name]}\n{shown}")
            if found != wanted["duckdb"]:
                missing, extra = wanted["duckdb"] - found, found - wanted["duckdb"]
                raise DifferenceError(self.shown(number, name, (missing, extra)))
            if found != wanted.get("sqlite", found):
                self.judged.disputed.append(self.views[name])
            change = bag(()), bag(())
            for delta in self.told[name]:
                change[0].update(bag(delta.added))
                change[1].update(bag(delta.removed))
            was = self.before[name]
            if change != (found - was, was - found):
                shown = self.shown(number, name, (found - was, was - found))
                raise DifferenceError(f"delta: {shown}\ngot {change}")
            self.judged.changed += sum(map(len, change))
            self.before[name] = found

    def come_back(self, number: int) -> None:
        """A view that goes and comes back has all of its rows, and no delta."""
        name, query = next((one, q) for one, q in reversed(self.case.views) if one in self.kept)
        self.db.execute(f"DROP VIEW {name}")
        other = "SELECT 1 AS other, 2 AS columns" if number % 2 else query
        self.db.execute(f"CREATE MATERIALIZED VIEW {name} AS {other}")
        if other != query:
            self.db.execute(f"DROP VIEW {name}")
            self.db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        self.told[name] = self.db.subscribe(name)

    def shown(self, number: int, name: str, sides: tuple[Bag, Bag]) -> str:
        """A view that differs, as an error says it."""
        return (
            f"after transaction {number} {name} differs:\n  {self.views[name]}\n"
            f"  wanted {dict(sides[0])}\n  not wanted {dict(sides[1])}"
        )


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
