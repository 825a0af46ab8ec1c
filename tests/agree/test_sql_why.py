"""EXPLAIN WHY and WHY NOT over random views: proofs and advice that hold when they are tried.

A proof's rows are there, and where no rule behind it negates or aggregates, its rows of tables give
the row on their own; after the statements of an advice the row is there.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from datetime import date
from typing import Any

import duckdb
import pytest
from tests.generators.random_sql import Case, case_of

import deltafix.sql
from deltafix.sql.why import Reason

CASES, ROWS = 45, 3


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


def is_plain(db: deltafix.sql.Connection, name: str) -> bool:
    """Whether no rule behind a view negates or aggregates."""
    view = db.catalog.views.get(name)
    if view is None:
        return True
    if any("Not(" in repr(one) or "Aggregate(" in repr(one) for one in view.builder.rules):
        return False
    return all(is_plain(db, one) for one in view.reads)


def derived_alone(db: deltafix.sql.Connection, case: Case, reason: Reason) -> bool:
    """Whether the rows of tables that a reason rests on give its row, with no others there."""
    with deltafix.sql.connect() as other:
        for table in case.tables:
            other.execute(table)
        for name, query in case.views:
            if name in db.catalog.views:
                other.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for one in below(reason):
            if one.relation in db.catalog.tables:
                other.insert(one.relation, [tuple(one.row.values())])
        return bool(
            other.execute(*asked(other, reason.relation, tuple(reason.row.values()))).fetchall()
        )


def test_oracle_proofs_in_sql_hold() -> None:
    counts: Counter[str] = Counter()
    for seed in range(CASES):
        case = case_of(seed, schemas=False)
        with opened(case) as db:
            rows = {n: db.execute(f"SELECT * FROM {n}").fetchall() for n in db.catalog.relations}
            for name in db.catalog.views:
                for row in sorted(rows[name], key=repr)[:ROWS]:
                    if any(value != value for value in row):  # noqa: PLR0124  NaN is not equal
                        continue
                    (reason, *_) = db.why(*asked(db, name, row))
                    assert tuple(reason.row.values()) == row
                    for one in below(reason):
                        assert tuple(one.row.values()) in rows[one.relation], (
                            seed,
                            name,
                            str(reason),
                        )
                        counts["rows"] += 1
                    if is_plain(db, name):
                        assert derived_alone(db, case, reason), (seed, name, str(reason))
                        counts["plain"] += 1
                    counts["notes"] += "no row of" in str(reason)
                    counts["aggregates"] += " over " in str(reason)
    assert counts["rows"] > 250
    assert counts["plain"] > 10
    assert counts["notes"] > 3
    assert counts["aggregates"] > 3


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
    with deltafix.sql.connect() as db:
        db.execute(ACCESS)
        db.insert("member", [(*one, draw.choice(days)) for one in sorted(members)])
        for _ in range(3):
            db.insert("granted", [(draw.choice(GROUPS_OF), draw.choice(DOCS), draw.choice(days))])
            db.insert("denied", [(draw.choice(PEOPLE), draw.choice(DOCS))])
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
                _, found, advice = line.partition("it would have one after: ")
                if found:
                    db.execute(f"BEGIN; {advice}")
                    assert db.execute(query, values).fetchall(), (name, row, advice)
                    db.rollback()
                    counts["advice"] += 1
                    counts["with NULL"] += "INSERT INTO member" in advice and "NULL" in advice
    assert counts["there"] > 3
    assert counts["advice"] > 5
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
