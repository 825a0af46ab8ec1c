"""EXPLAIN WHY and WHY NOT over random views: proofs and advice that hold when they are tried.

A proof's rows are there, and alone they give the row in DuckDB; what WHY NOT says is there, absent,
or in the way is so in DuckDB, too; after the statements of an advice the row is there.
"""

from __future__ import annotations

import contextlib
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from itertools import islice
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp
from tests.generators.random_sql import Case, case_of
from tests.judges.sql_judge import made, plain
from tests.support.amount import cases, some

import deltafix.sql
from deltafix.sql.parameters import written
from deltafix.sql.why import Reason

CASES, ROWS = cases(26, per=10), 3
LARGE = 300
"""Rows of a view that is not compared."""


def has_nan(row: tuple[Any, ...]) -> bool:
    return any(isinstance(value, float) and math.isnan(value) for value in row)


def opened(case: Case) -> deltafix.sql.Connection:
    """A connection with a case's tables and views, and the rows of its transactions."""
    db = deltafix.sql.connect(timeout=30)
    for table in case.tables:
        db.execute(table)
    for name, query in case.views:
        with contextlib.suppress(deltafix.sql.ProgrammingError, deltafix.sql.NotSupportedError):
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    for statements in case.transactions:
        with contextlib.suppress(deltafix.sql.Error):
            for one in ("BEGIN", *statements, "COMMIT"):
                db.execute(one)
        db.rollback()
    return db


def asked(db: deltafix.sql.Connection, name: str, row: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """A SELECT of one row, and its parameters."""
    columns = [one.name for one in db.catalog.relations[name].columns]
    pairs = list(zip(columns, row, strict=True))
    where = " AND ".join(f'"{c}" IS NULL' if v is None else f'"{c}" = ?' for c, v in pairs)
    return f"SELECT * FROM {name} WHERE {where}", [v for _, v in pairs if v is not None]


def below(reason: Reason) -> list[Reason]:
    """A reason and all it rests on."""
    found: dict[Reason, None] = {reason: None}
    waiting = [reason]
    while waiting:
        for one in waiting.pop().because:
            if one not in found:
                found[one] = None
                waiting.append(one)
    return list(found)


def picks(db: deltafix.sql.Connection, case: Case, name: str) -> bool:
    """Whether rows are picked by their number behind a view: its proof lacks those passed over."""
    view = db.catalog.views.get(name)
    if view is None:
        return False
    text = dict(case.views)[name]
    return bool(re.search(r"\brn\b [<=]|QUALIFY", text)) or any(
        picks(db, case, n) for n in view.reads
    )


def duckdb_of(db: deltafix.sql.Connection, case: Case) -> duckdb.DuckDBPyConnection:
    """DuckDB with the tables, empty and without keys, and the views that both have."""
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    for name, table in db.catalog.tables.items():
        columns = (f'"{one.name}" {one.type.name}' for one in table.relation.columns)
        duck.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
    for name, query in case.views:
        if name in db.catalog.views:
            made(duck, name, query)
    return duck


def fill(
    duck: duckdb.DuckDBPyConnection,
    db: deltafix.sql.Connection,
    rows: Mapping[str, Iterable[tuple[Any, ...]]],
) -> None:
    """Make some rows all of the rows of the tables."""
    for name in db.catalog.tables:
        duck.execute(f"DELETE FROM {name}")
        lines = (
            f"({', '.join(written(value, 'duckdb').sql('duckdb') for value in row)})"
            for row in rows.get(name, ())
        )
        if values := ", ".join(lines):
            duck.execute(f"INSERT INTO {name} VALUES {values}")


def has(duck: duckdb.DuckDBPyConnection, name: str, row: tuple[Any, ...]) -> bool | None:
    """Whether a view of DuckDB's has a row; None where it has no such view, or a large one."""
    try:
        rows = duck.execute(f"SELECT * FROM {name}").fetchmany(LARGE)
    except duckdb.Error:
        return None
    return None if len(rows) == LARGE else plain(row) in map(plain, rows)


def test_oracle_proofs_in_sql_hold() -> None:
    """Their rows are there, and alone in the tables of DuckDB they give the row that is proved."""
    counts: Counter[str] = Counter()
    for seed in range(CASES):
        case = case_of(seed, schemas=False)
        with opened(case) as db, duckdb_of(db, case) as duck:
            rows = {n: db.execute(f"SELECT * FROM {n}").fetchall() for n in db.catalog.relations}
            for name in db.catalog.views:
                for row in sorted(rows[name], key=repr)[:ROWS]:
                    if has_nan(row):  # which is not equal
                        continue
                    (reason, *_) = db.why(*asked(db, name, row))
                    assert tuple(reason.row.values()) == row
                    given: dict[str, list[tuple[Any, ...]]] = {}
                    for one in below(reason):
                        found = tuple(one.row.values())
                        assert found in rows[one.relation], (seed, name, str(reason))
                        given.setdefault(one.relation, []).append(found)
                        counts["rows"] += 1
                    counts["notes"] += "no row of" in str(reason)
                    counts["aggregates"] += " over " in str(reason)
                    if picks(db, case, name):
                        continue
                    fill(duck, db, given)
                    alone = has(duck, name, row)
                    assert alone is not False, (seed, name, str(reason))
                    counts["alone"] += alone is True
                    counts["windows"] += " OVER (" in dict(case.views)[name]
    assert counts["rows"] > 5 * CASES
    assert counts["alone"] > CASES
    assert counts["windows"] > some(3)
    assert counts["notes"] > 3
    assert counts["aggregates"] > 3


SAID = re.compile(
    r"  there is a row of (?P<there>\w+) with (?P<held>.*)"
    r"|  there is no row of (?P<lacking>\w+) with (?P<lacked>.*)"
    r"|  its group has (?P<group>.* = .*)"
    r"|  without (?P<condition>.*) there would be one"
    r"|  (SELECT \d+ of \d+: )?no row of (?P<none>\w+)( AS \w+)? has (?P<has>.*?)(, by .*)?"
    r"|  (SELECT \d+ of \d+: )?(?P<fails>.*) fails with (?P<with>.*)"
    r"|it would have one after: (?P<advice>.*)",
    re.DOTALL,
)


def without(query: str, condition: str) -> Iterator[str]:
    """A query with a condition left out, at each place where it has it."""
    tree = sqlglot.parse_one(query, read="duckdb")
    places = [at for at, node in enumerate(tree.walk()) if node.sql("duckdb") == condition]
    for place in places:
        weaker = tree.copy()
        next(islice(weaker.walk(), place, None)).replace(exp.true())
        yield weaker.sql("duckdb")


def is_true(duck: duckdb.DuckDBPyConnection, name: str, row: Any, query: str, line: str) -> Any:
    """Whether DuckDB finds that a line about a row that is absent is so; None for another line."""
    match = SAID.fullmatch(line)
    said = {} if match is None else match.groupdict()
    if said.get("there"):
        return bool(duck.execute(f"SELECT 1 FROM {said['there']} WHERE {said['held']}").fetchall())
    if said.get("lacking"):
        found = duck.execute(f"SELECT 1 FROM {said['lacking']} WHERE {said['lacked']}").fetchall()
        return not found
    if said.get("group"):
        return bool(duck.execute(f"SELECT 1 FROM {name} WHERE {said['group']}").fetchall())
    if said.get("condition") and "RECURSIVE" not in query:
        weaker = [*without(query, said["condition"])]
        return (
            None
            if not weaker
            else any(plain(row) in map(plain, duck.execute(one).fetchall()) for one in weaker)
        )
    if said.get("none"):
        tables = duck.execute("SELECT DISTINCT table_name FROM duckdb_columns()").fetchall()
        if (said["none"],) not in tables:  # but a name of WITH
            return None
        found = duck.execute(f"SELECT 1 FROM {said['none']} WHERE {plain_names(said['has'])}")
        return not found.fetchall()
    if said.get("fails"):
        return fails(duck, said["fails"], said["with"])
    if said.get("advice"):
        duck.execute(f"BEGIN; {said['advice']}")
        try:
            return has(duck, name, row)
        finally:
            duck.execute("ROLLBACK")
    return None


def plain_names(condition: str) -> str:
    """A condition on one table without its name."""
    tree = sqlglot.parse_one(condition, read="duckdb")
    for column in [*tree.find_all(exp.Column)]:
        column.set("table", None)
    return tree.sql("duckdb")


def fails(duck: duckdb.DuckDBPyConnection, condition: str, values: str) -> bool | None:
    """Whether DuckDB finds a condition not to be true of values of columns; None if it has more."""
    if ", or " in values:
        return None
    all_of = sqlglot.parse_one(values, read="duckdb")
    each = [*all_of.flatten()] if isinstance(all_of, exp.And) else [all_of]
    known = {one.this.sql("duckdb"): one.expression.sql("duckdb") for one in each}
    tree = sqlglot.parse_one(condition, read="duckdb")
    if tree.find(exp.Query):
        return None
    text = tree.transform(
        lambda node: (
            sqlglot.parse_one(f"({known[node.sql('duckdb')]})", read="duckdb")
            if isinstance(node, exp.Expression) and node.sql("duckdb") in known
            else node
        )
    ).sql("duckdb")
    try:
        return duck.execute(f"SELECT ({text}) IS TRUE").fetchone() == (False,)
    except duckdb.Error:  # a value that has lost the type of its column
        return None


def absent(db: deltafix.sql.Connection, name: str, random: random.Random) -> tuple[Any, ...]:
    """A row of values of the tables and views, mostly one of a view with another value."""
    pool: dict[str, list[Any]] = {}
    for relation in db.catalog.relations.values():
        for row in db.execute(f"SELECT * FROM {relation.name}").fetchmany(LARGE):
            for column, value in zip(relation.columns, row, strict=True):
                pool.setdefault(column.type.name, [None]).append(value)
    kinds = [column.type.name for column in db.catalog.relations[name].columns]
    drawn = [random.choice(pool.get(kind, [None])) for kind in kinds]
    rows = db.execute(f"SELECT * FROM {name}").fetchmany(LARGE)
    if rows and random.random() < 0.6:
        place = random.randrange(len(drawn))
        drawn = [*random.choice(rows)[:place], drawn[place], *random.choice(rows)[place + 1 :]]
    return tuple(drawn)


def test_oracle_what_keeps_a_row_out_is_so_in_duckdb() -> None:
    counts: Counter[str] = Counter()
    for seed in range(CASES // 2):
        case, draw = case_of(seed, views=3, transactions=3, schemas=False), random.Random(seed)
        with opened(case) as db, duckdb_of(db, case) as duck:
            fill(duck, db, {n: db.execute(f"SELECT * FROM {n}") for n in db.catalog.tables})
            for name in [one for one in db.catalog.views for _ in range(ROWS)]:
                row = absent(db, name, draw)
                query, values = asked(db, name, row)
                if (
                    has_nan(row)
                    or db.execute(query, values).fetchall()
                    or has(duck, name, row) is None
                ):
                    continue
                lines = db.execute(f"EXPLAIN WHY NOT {query}", values).fetchall()
                assert len(lines) > 1
                for (line,) in lines[1:]:
                    found = is_true(duck, name, row, dict(case.views)[name], line)
                    assert found is not False, (seed, name, row, line)
                    counts[" ".join(line.split()[:3])] += found is True
    assert counts.total() > CASES / 4
    assert len(+counts) > 2  # of what is said


ACCESS = """
CREATE TABLE member (
  person TEXT NOT NULL, grp TEXT NOT NULL, since DATE, PRIMARY KEY (person, grp));
CREATE TABLE granted (grp TEXT NOT NULL, doc INTEGER NOT NULL, until DATE);
CREATE TABLE denied (person TEXT NOT NULL, doc INTEGER NOT NULL);
CREATE MATERIALIZED VIEW within AS
  WITH RECURSIVE w(person, grp) AS (
    SELECT person, grp FROM member
    UNION SELECT w.person, m.grp FROM w JOIN member m ON m.person = w.grp)
  SELECT * FROM w;
CREATE MATERIALIZED VIEW may AS
  SELECT w.person, g.doc, g.until FROM within w JOIN granted g ON g.grp = w.grp
  WHERE NOT EXISTS (SELECT 1 FROM denied d WHERE d.person = w.person AND d.doc = g.doc);
CREATE MATERIALIZED VIEW may_ever AS SELECT DISTINCT person, doc FROM may;
"""
PEOPLE, GROUPS_OF, DOCS = ("ann", "bob", "eng"), ("eng", "all"), (1, 2)


@pytest.mark.parametrize("seed", range(4))
def test_oracle_advice_in_sql_gives_the_row(seed: int) -> None:
    draw = random.Random(seed)
    members = {(draw.choice(PEOPLE), draw.choice(GROUPS_OF)) for _ in range(3)}
    days = (None, date(2026, 1, 1))
    counts: Counter[str] = Counter()
    with deltafix.sql.connect() as db, duckdb.connect() as duck:
        db.execute(ACCESS)
        duck.execute(ACCESS.replace("MATERIALIZED", ""))
        db.insert("member", [(*one, draw.choice(days)) for one in sorted(members)])
        for _ in range(3):
            db.insert("granted", [(draw.choice(GROUPS_OF), draw.choice(DOCS), draw.choice(days))])
            db.insert("denied", [(draw.choice(PEOPLE), draw.choice(DOCS))])
        fill(duck, db, {name: db.execute(f"SELECT * FROM {name}") for name in db.catalog.tables})
        texts = {
            n: v.builder.statement.node.args["expression"] for n, v in db.catalog.views.items()
        }
        absent = [
            *(("within", (p, g)) for p in PEOPLE for g in GROUPS_OF),
            *(("may", (p, d, until)) for p in PEOPLE for d in DOCS for until in days),
            *(("may_ever", (p, d)) for p in PEOPLE for d in DOCS),
        ]
        for name, row in absent:
            query, values = asked(db, name, row)
            if db.execute(query, values).fetchall():
                (reason, *_) = db.why(query, values)
                assert tuple(reason.row.values()) == row
                counts["there"] += 1
                continue
            lines = [line for (line,) in db.execute(f"EXPLAIN WHY NOT {query}", values).fetchall()]
            assert lines[0].startswith(f"{name} has no row with person = ")
            assert len(lines) > 1
            for line in lines:
                so = is_true(duck, name, row, texts[name].sql("duckdb"), line)
                assert so is not False, (name, row, line)
                counts["so in DuckDB"] += so is True
                _, found, advice = line.partition("it would have one after: ")
                if found:
                    db.execute(f"BEGIN; {advice}")
                    assert db.execute(query, values).fetchall(), (name, row, advice)
                    db.rollback()
                    counts["advice"] += 1
                    counts["with NULL"] += "INSERT INTO member" in advice and "NULL" in advice
    assert counts["there"] > 3
    assert counts["advice"] > 5
    assert counts["so in DuckDB"] > counts["advice"]
    assert counts["with NULL"] > 0


HELD = {
    "a BIGINT": ("2", "2.0", "2.00", "'2'", "9223372036854775808", "2.5"),
    "f DOUBLE": ("2", "2.0", "1.5", "1.5e0", "'1.5'", "CAST(1.5 AS DOUBLE)", "9223372036854775808"),
    "p DECIMAL(8, 2)": ("2", "2.000", "1.5", "'1.5'", "1.555"),
    "d DATE": ("'2026-01-02'", "DATE '2026-01-02'", "TIMESTAMP '2026-01-02 00:00:00'",
               "TIMESTAMP '2026-01-02 00:00:01'"),
    "m TIMESTAMP": ("DATE '2026-01-02'", "TIMESTAMP '2026-01-02 00:00:00'", "'2026-01-02'"),
    "z TIMESTAMPTZ": ("DATE '2026-01-02'", "'2026-01-02 00:00:00+00'"),
}  # fmt: skip


@pytest.mark.parametrize("column", HELD)
def test_oracle_a_value_is_the_same_by_key_by_a_pass_and_in_why_not(column: str) -> None:
    """However it is written: as a number of another type, as a day or as its midnight."""
    name, kind = column.split(" ", 1)
    with deltafix.sql.connect() as db:
        db.execute(f"CREATE TABLE k ({column} PRIMARY KEY); CREATE TABLE t ({column})")
        db.execute(f"CREATE VIEW v AS SELECT {name} FROM k")
        for said in HELD[column]:
            if _is_one(db, said, kind):
                query = f"EXPLAIN WHY NOT SELECT * FROM v WHERE {name} = {said}"
                assert "v has no row with" in str(db.execute(query).fetchall())
        for said in HELD[column]:
            for table in "kt":
                if _is_one(db, said, kind):
                    db.execute(
                        f"INSERT INTO {table} SELECT CAST({said} AS {kind})"
                        f" WHERE CAST({said} AS {kind}) NOT IN (SELECT {name} FROM {table})"
                    )
        for said in HELD[column]:
            by_key, by_pass = (
                db.execute(f"SELECT * FROM {table} WHERE {name} = {said}").fetchall()
                for table in "kt"
            )
            assert by_key == by_pass
            assert bool(by_key) == _is_one(db, said, kind), said


def _is_one(db: deltafix.sql.Connection, said: str, kind: str) -> bool:
    """Whether a value is equal to one of a type."""
    if said.startswith("'"):
        return True
    query = f"SELECT TRY_CAST({said} AS {kind}) = {said} AS x"
    return db.execute(query).fetchall() == [(True,)]


PARTS = ('"', "'", " ", "é", "`", ".", ";", "--", "/*", "%", "$", "\\", "A", "b", "1")
PARTS += ("select", "order", "date", "lateral", "qualify")


def test_agree_what_explains_a_row_is_read_by_duckdb_whatever_columns_are_called() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        names: dict[str, str] = {}
        while len(names) < 3:
            name = "".join(rng.choices(PARTS, k=rng.choice((1, 1, 2, 3))))
            names.setdefault(name.lower(), name) if name.strip() else None
        quoted = ['"{}"'.format(name.replace('"', '""')) for name in names.values()]
        db, duck = deltafix.sql.connect(), duckdb.connect()
        for one in (db, duck):
            one.execute(f"CREATE TABLE t ({', '.join(f'{name} INTEGER' for name in quoted)})")
            one.execute(f"CREATE VIEW v AS SELECT * FROM t WHERE {quoted[0]} < 4")
            one.execute("INSERT INTO t VALUES (1, 2, 3), (9, 9, 9)")
        lines = [line for (line,) in db.execute("EXPLAIN WHY SELECT * FROM v").fetchall()]
        assert len(lines) == 2
        for line in lines:
            of, _, row = line.strip().partition(": ")
            assert duck.execute(f"SELECT * FROM {of} WHERE {row}").fetchall() == [(1, 2, 3)]
        asked = " AND ".join(f"{name} = 7" for name in quoted)
        said, *_ = db.execute(f"EXPLAIN WHY NOT SELECT * FROM v WHERE {asked}").fetchall()
        row = said[0].removeprefix("v has no row with ")
        assert duck.execute(f"SELECT COUNT(*) FROM v WHERE {row}").fetchall() == [(0,)]
