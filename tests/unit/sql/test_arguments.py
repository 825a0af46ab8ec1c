"""Nothing that a statement says is passed over: each argument of a node is read, or refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deltafix.sql
from deltafix.errors import DeltafixError
from deltafix.sql import again, functions, parsing, regexes
from deltafix.sql.arguments import READ, unread
from deltafix.sql.text import exp

SOURCES = Path(deltafix.sql.__file__).parent

REFUSED = {
    exp.Command, exp.CurrentDate, exp.CurrentDatetime, exp.CurrentTime, exp.CurrentTimestamp,
    exp.ExplodingGenerateSeries, exp.GeneratedAsIdentityColumnConstraint, exp.Localtime,
    exp.Localtimestamp, exp.Rand,
    exp.SetOperation, exp.Uuid,
}  # fmt: skip
"""Classes that the sources name to refuse them, to replace them, or for their subclasses."""

OF_FUNCTIONS = {
    *functions.FUNCTIONS, *(kind for kind, _ in functions.OWN), *regexes.NODES,
    exp.Concat, exp.Initcap, exp.Pad, exp.Trim,
}  # fmt: skip
"""Those whose arguments a function of a dialect lists; it refuses others."""


def _optional(kind: Any) -> list[str]:
    return [key for key, is_required in kind.arg_types.items() if not is_required]


def test_every_class_that_the_sources_name_has_its_arguments_listed() -> None:
    names = {
        name
        for path in SOURCES.glob("*.py")
        for name in re.findall(r"\bexp\.([A-Z]\w+)", path.read_text())
    }
    kinds: set[Any] = {getattr(exp, name) for name in names}
    kinds = {one for one in kinds if isinstance(one, type) and issubclass(one, exp.Expr)}
    assert len(kinds) > 300
    missing = {one for one in kinds - REFUSED - OF_FUNCTIONS - READ.keys() if _optional(one)}
    assert {one.__name__ for one in missing} == set()


def test_every_argument_that_is_not_listed_is_refused() -> None:
    tried = 0
    for kind, read in READ.items():
        assert read <= kind.arg_types.keys() | {"pivots"}, kind
        for key in kind.arg_types.keys() - read:
            node: Any = kind(**{key: [exp.to_identifier("x")]})
            found = unread(exp.Paren(this=node))
            assert found is not None
            assert (found.node, found.key) == (node, key)
            assert found.word
            assert found.way_out
            tried += 1
    assert tried > 150


# --- each argument that is listed says something -------------------------------------------------

MADE = """
    CREATE TABLE t (a INTEGER, b TEXT, d TIMESTAMP, n INTEGER[]);
    CREATE TABLE k (a INTEGER PRIMARY KEY, b TEXT DEFAULT 'x', c INTEGER UNIQUE);
    CREATE TABLE w (a INTEGER, c INTEGER);
    CREATE VIEW v AS SELECT a FROM k;
    INSERT INTO t VALUES (1, 'x', TIMESTAMP '2024-02-05 10:20:30', [3, 1]),
        (2, 'Y', TIMESTAMP '2023-01-31 01:02:03', [2, NULL]), (2, 'x', NULL, NULL),
        (NULL, NULL, TIMESTAMP '2024-12-31 23:00:00', []);
    INSERT INTO k VALUES (1, 'x', 10), (2, 'y', NULL);
    INSERT INTO w VALUES (1, 1), (2, 2), (3, 3)"""

SPEAKING = {
    "duckdb": (
        "WITH RECURSIVE p (x, d) USING KEY (x, MIN(d)) AS (SELECT 1, 2 UNION SELECT 1, 0 "
        "UNION SELECT x, d FROM p) SELECT * FROM p",
        # statements
        "SET nothing = 1",
        "ALTER TABLE IF EXISTS gone ADD COLUMN z INTEGER",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS a INTEGER",
        "ALTER TABLE t ALTER COLUMN a TYPE TEXT USING a || 'x'",
        "ALTER TABLE k ALTER COLUMN b SET DEFAULT 'q'; INSERT INTO k (a) VALUES (7)",
        "ALTER TABLE k ALTER COLUMN b DROP DEFAULT; INSERT INTO k (a) VALUES (7)",
        "CREATE TABLE u (a INTEGER NOT NULL); ALTER TABLE u ALTER COLUMN a DROP NOT NULL;"
        " INSERT INTO u VALUES (NULL)",
        "ALTER TABLE k ADD CONSTRAINT one CHECK (a < 3); ALTER TABLE k DROP CONSTRAINT one",
        "ALTER TABLE t DROP COLUMN IF EXISTS z",
        "ALTER TABLE k DROP COLUMN a CASCADE",
        "CREATE TABLE IF NOT EXISTS t (a INTEGER)",
        "CREATE OR REPLACE VIEW v AS SELECT b FROM k",
        "CREATE TEMPORARY TABLE u (a INTEGER)",
        "CREATE VIEW u (p) AS SELECT a FROM t",
        "DROP VIEW IF EXISTS gone",
        "DROP TABLE t",
        "DELETE FROM w WHERE a = 1 RETURNING a",
        "DELETE FROM w USING k WHERE w.a = k.a",
        "INSERT INTO k (a) VALUES (7) RETURNING b",
        "INSERT INTO k BY NAME SELECT 7 AS c, 8 AS a",
        "INSERT INTO k VALUES (1, 'z', NULL) ON CONFLICT (a) DO UPDATE SET b = 'q' RETURNING b",
        "INSERT OR IGNORE INTO k (a) VALUES (1)",
        "INSERT INTO k VALUES (1, 'z', 3) ON CONFLICT (a) DO UPDATE SET b = excluded.b"
        " WHERE k.c > 50",
        "INSERT INTO k VALUES (5, 'z', 10) ON CONFLICT (c) DO NOTHING",
        "INSERT INTO k VALUES (1, 'z', 3) ON CONFLICT DO NOTHING",
        "MERGE INTO k USING w ON k.a = w.a AND k.a = 1 WHEN MATCHED AND w.c > 0 THEN DELETE"
        " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET b = 'm'",
        "MERGE INTO k USING w ON k.a = w.a WHEN NOT MATCHED AND w.a > 9 THEN INSERT (a) VALUES (7)",
        "MERGE INTO k USING w USING (a) WHEN MATCHED THEN DELETE",
        "CREATE TABLE u (a INTEGER REFERENCES k (a)); TRUNCATE k CASCADE",
        "UPDATE k SET c = w.c FROM w WHERE k.a = w.a AND w.a = 1 RETURNING c",
        # columns and constraints
        "CREATE TABLE u (a INTEGER NOT NULL); INSERT INTO u VALUES (NULL)",
        "CREATE TABLE u (a INTEGER NULL); INSERT INTO u VALUES (NULL)",
        "CREATE TABLE u (a INTEGER CONSTRAINT q CHECK (a > 1)); ALTER TABLE u DROP CONSTRAINT q",
        "CREATE TABLE u (a DECIMAL(5, 2), b INTEGER[], UNIQUE (a));"
        " INSERT INTO u VALUES (1.234, [1])",
        "CREATE TABLE u (a INTEGER, FOREIGN KEY (a) REFERENCES k (a) ON DELETE CASCADE);"
        " INSERT INTO u VALUES (1); DELETE FROM k",
        "CREATE TABLE u (a INTEGER[3])",
        # queries
        "SELECT a AS z FROM t",
        "WITH c (p) AS (SELECT a FROM w) SELECT p FROM c",
        "WITH RECURSIVE c AS (SELECT 1 AS x UNION SELECT w.c + 1 FROM c JOIN w ON w.a = c.x)"
        " SELECT * FROM c",
        "SELECT DISTINCT b FROM t",
        "SELECT DISTINCT ON (b) b, a FROM t ORDER BY a DESC NULLS LAST",
        "SELECT b FROM t EXCEPT SELECT b FROM t WHERE a = 1",
        "SELECT b FROM t EXCEPT ALL SELECT b FROM t WHERE a = 1 ORDER BY b DESC LIMIT 1 OFFSET 1",
        "SELECT a FROM t INTERSECT ALL (SELECT a FROM t) ORDER BY a DESC NULLS LAST"
        " LIMIT 2 OFFSET 1",
        "SELECT b FROM t INTERSECT SELECT b FROM t",
        "WITH c AS (SELECT 2 AS x) SELECT a FROM t INTERSECT SELECT x FROM c",
        "WITH c AS (SELECT 2 AS x) SELECT a FROM t EXCEPT SELECT x FROM c",
        "WITH c AS (SELECT 2 AS x) SELECT a FROM t UNION SELECT x FROM c ORDER BY 1 DESC NULLS LAST"
        " LIMIT 1 OFFSET 1",
        "SELECT a FROM t UNION BY NAME SELECT b, a FROM t",
        "SELECT a FROM w ORDER BY a OFFSET 1 ROWS FETCH NEXT 1 ROWS ONLY",
        "SELECT b, COUNT(*) FROM t GROUP BY b",
        "SELECT b, COUNT(*) FROM t GROUP BY ALL",
        "SELECT a, b, COUNT(*) FROM t GROUP BY GROUPING SETS ((a), (b))",
        "SELECT a, b, COUNT(*) FROM t GROUP BY CUBE (a, b)",
        "SELECT a, b, COUNT(*) FROM t GROUP BY ROLLUP (a, b)",
        "SELECT * FROM t LEFT JOIN w ON t.a = w.a AND w.a = 1",
        "SELECT * FROM t RIGHT JOIN w USING (a)",
        "SELECT * FROM t NATURAL JOIN w",
        "SELECT * FROM t SEMI JOIN w ON t.a = w.a",
        "SELECT * FROM w CROSS JOIN LATERAL (SELECT w.a + 1 AS y) AS l (z)",
        "SELECT * FROM w, LATERAL (SELECT w.a + 1 AS y) AS l",
        "SELECT a FROM t ORDER BY a DESC NULLS FIRST LIMIT 2",
        "SELECT * FROM t AS x (p, q)",
        "SELECT x.a FROM t AS x",
        "SELECT * EXCLUDE (a) FROM w",
        "SELECT * REPLACE (a + 1 AS a) FROM w",
        "SELECT * RENAME (a AS z) FROM w",
        "SELECT COLUMNS('a|b') FROM t",
        "SELECT (SELECT MAX(a) FROM w) AS m, s.p FROM (SELECT a FROM w) AS s (p)",
        "SELECT x, o FROM UNNEST([5, 6]) WITH ORDINALITY AS u (x, o)",
        "SELECT * FROM (VALUES (1, 2), (3, 4)) AS s (p, q)",
        "SELECT a FROM w WHERE a > 1 QUALIFY ROW_NUMBER() OVER z > 1 WINDOW z AS (ORDER BY a DESC)",
        "SELECT b FROM t GROUP BY b HAVING COUNT(*) > 1",
        "PIVOT w ON a IN (1, 2) USING SUM(c) AS s GROUP BY c",
        "SELECT * FROM w PIVOT (SUM(c) FOR a IN (1 AS one, 2))",
        "SELECT * FROM w PIVOT (SUM(c) AS s FOR a IN (1, 2)) AS p",
        "SELECT p.v, p.n FROM w UNPIVOT (v FOR n IN (a AS x, c)) AS p",
        "SELECT * FROM (SELECT a, c FROM k) UNPIVOT INCLUDE NULLS (v FOR n IN (a, c))",
        "SELECT * FROM k JOIN w ON w.a = k.a PIVOT (SUM(w.c) FOR b IN ('x'))",
        "SELECT * FROM (t JOIN w ON t.a = w.a)",
        "SELECT * FROM ((SELECT 1 AS x) AS p JOIN w ON p.x = w.a)",
        "SELECT * FROM t JOIN k JOIN w ON k.a = w.a ON t.a = k.a",
        "UNPIVOT w ON a, c INTO NAME n VALUE v",
        "WITH q AS (SELECT * FROM w WHERE a = 1) PIVOT q ON a IN (1, 2) USING SUM(c)",
        # aggregates and windows
        "SELECT ARG_MAX(a, b), ARG_MIN(a, b), LIST(a ORDER BY a), COUNT(a), COUNT(*) FROM t",
        "SELECT STRING_AGG(b, '-' ORDER BY b DESC) FROM t",
        "SELECT QUANTILE_CONT(a, 0.9), QUANTILE_DISC(a, 0.9), MODE(a) FROM w",
        "SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY a) FROM w",
        "SELECT REGR_COUNT(a, c), REGR_SLOPE(a, c), REGR_R2(a, c), REGR_INTERCEPT(a, c) FROM w",
        "SELECT a, b, GROUPING_ID(b) FROM t GROUP BY CUBE (a, b)",
        "SELECT LAG(a, 2, 9) OVER (ORDER BY a), LEAD(a, 2, 9) OVER (ORDER BY a) FROM w",
        "SELECT NTH_VALUE(a, 2) OVER (ORDER BY a), NTILE(2) OVER (ORDER BY a) FROM w",
        "SELECT SUM(a) OVER (PARTITION BY b ORDER BY a) FROM t",
        "SELECT SUM(a) OVER z FROM w WINDOW z AS (ORDER BY a)",
        "SELECT SUM(a) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM w",
        "SELECT SUM(a) OVER (ORDER BY a ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) FROM w",
        "SELECT SUM(a) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"
        " EXCLUDE CURRENT ROW) FROM w",
        # expressions
        "SELECT [a, 2], n[1], n[1:1], n[:1], {'x': a} FROM t",
        "SELECT LIST_CONCAT(n, [1]), LIST_INTERSECT(n, [1]), LIST_SORT(n, 'DESC', 'NULLS FIRST')"
        " FROM t",
        "SELECT LIST_SLICE(n, 1, 1), n[2:] FROM t",
        "SELECT CASE a WHEN 1 THEN 'one' ELSE 'more' END, IF(a = 1, 2, 3) FROM t",
        "SELECT [x + i FOR x, i IN n IF x > 1] FROM t",
        "SELECT DATE_DIFF('day', d, TIMESTAMP '2024-01-01') FROM t",
        "SELECT MAKE_DATE(2024, 2, 3)",
        "SELECT DATE_TRUNC('month', d), d + INTERVAL '3' DAY FROM t",
        "SELECT TIME_BUCKET(INTERVAL '3' DAY, d), DATE(d), FORMAT('{} {}', d, id) FROM t",
        "SELECT GENERATE_SERIES(1, 10, 3), RANGE(1, 10, 3)", "SELECT COUNT(DISTINCT a) FROM t",
        "SELECT a FROM t WHERE a IN (1, 3) OR a IN (SELECT a FROM w WHERE a = 2)",
        "SELECT '{\"a\": [5]}' -> '$.a', JSON_EXTRACT_STRING('{\"a\": 5}', '$.a')",
        "SELECT JSON_EXTRACT('{\"a\": 5}', '$.a', '$.b')",
        "SELECT JSON_EXTRACT_STRING('{\"a\": 5}', '$.a', '$.b')",
        "SELECT LIST_REDUCE(n, (x, y) -> x + y, 7) FROM t",
        "SELECT STRFTIME(d, '%Y'), EPOCH_MS(d), 1 / a, \"a\" FROM t",
        "SELECT LIST_POSITION(n, 1), ABS(a) FROM t",
        "SELECT t.a, w.a FROM t, w",
        "SELECT GCD(a, 2) FROM w",
        "SELECT (ROW(a, c)) = (ROW(1, 1)) FROM w",
    ),
    "postgres": (
        "SELECT '{\"a\": 5}'::json -> 'a' AS x, '{\"a\": 5}'::jsonb ->> 'a' AS y",
        "SELECT 5 / a FROM w", "SELECT '[5, 6]'::json -> '0' AS x, '[5, 6]'::json ->> '0' AS y",
        "INSERT INTO k DEFAULT VALUES", "SELECT GENERATE_SERIES(1, 7, 2)",
    ),
    "spark": (
        "SELECT SORT_ARRAY(n, FALSE), ARRAY(1, 2), SLICE(ARRAY(1, 2, 3), 2, 1) FROM t",
        "SELECT ARRAY_SORT(n, (x, y) -> x - y) FROM t", "SELECT a / 0 FROM w",
        "SELECT a, c, COUNT(*) FROM w GROUP BY a, c WITH CUBE",
        "SELECT a, c, COUNT(*) FROM w GROUP BY a, c WITH ROLLUP",
        "SELECT TO_DATE('01.02.2024', 'dd.MM.yyyy') FROM w",
        "SELECT /*+ BROADCAST(w) */ a FROM w",
        "SELECT AGGREGATE(n, 0, (x, y) -> x + 1, x -> x * 2) FROM t",
        "SELECT NVL2(a, 1, 2) FROM t", "SELECT COLLECT_LIST(a) FROM t",
        "SELECT TO_DATE(b, 'yyyy-MM-dd'), DATE_FORMAT(d, 'yyyy') FROM t WHERE b IS NULL",
        "SELECT x FROM w LATERAL VIEW OUTER EXPLODE(ARRAY(a, c)) u AS x",
    ),
}  # fmt: skip
"""Statements of which each argument says something somewhere."""

SAYS_NOTHING = {
    "a spelling of what is so anyway": (
        "Alter.only", "AlterColumn.drop", "Drop.materialized", "Drop.restrict", "Fetch.direction",
        "Fetch.limit_options", "Limit.limit_options", "LimitOptions.rows", "OnConflict.action",
        "PrimaryKeyColumnConstraint.desc",
    ),
    "how it is to be computed, or how exactly": (
        "ApproxDistinct.accuracy", "ApproxQuantile.accuracy", "CTE.materialized", "Select.hint",
    ),
    "what sqlglot notes for other dialects": (
        "Array.bracket_notation", "ArrayAppend.null_propagation", "ArrayConcat.null_propagation",
        "ArrayPrepend.null_propagation", "ArrayRemove.null_propagation", "ArraySlice.is_length",
        "ByteString.is_bytes", "Count.big_int",
        "DateDiff.date_part_boundary", "Identifier.quoted", "Interval.fraction_in_string",
        "Pivot.columns", "Pivot.identify_pivot_strings", "Pivot.pivot_column_naming",
        "Pivot.prefixed_pivot_columns", "Pivot.value_columns_first", "PrimaryKey.include",
        "PrimaryKeyColumnConstraint.include", "StrToUnix.format", "TryCast.safe",
        "UniqueColumnConstraint.include", "Window.over",
    ),
    "of what is refused either way": (
        "DataType.kind", "JSONExtractScalar.expressions", "StrToDate.format", "StrToUnix.this",
        "TsOrDsAdd.unit", "Bracket.safe",
        "TsOrDsToDate.safe",
    ),
    "parameters, which are not here": ("Placeholder.jdbc", "Placeholder.this"),
}  # fmt: skip
"""Arguments that change no outcome, by what they say."""


def _made(dialect: str) -> deltafix.sql.Connection:
    db = deltafix.sql.connect(dialect=dialect)
    made = MADE.replace("INTEGER[]", "ARRAY<INT>") if dialect == "spark" else MADE
    brackets = {"duckdb": r"[\1]", "postgres": r"ARRAY[\1]", "spark": r"ARRAY(\1)"}
    db.execute(re.sub(r"(?<=, )\[([^\]]*)\]", brackets[dialect], made))
    return db


def _outcome(db: deltafix.sql.Connection, statement: str) -> list[str]:
    """All that a script shows, is told, and leaves."""
    db.asked.clear()  # of the same text
    try:
        cursor = db.execute(statement)
        found = [repr((cursor.description, cursor.fetchall() if cursor.description else 0))]
    except DeltafixError as error:
        found = [str(error).split("\n", 1)[0]]
    if not _asks(statement):
        for name, relation in db.catalog.relations.items():
            rows = db.execute(f"SELECT * FROM {name}").fetchall()
            found.append(repr((name, relation.columns, sorted(map(repr, rows)))))
    return found


def _asks(statement: str) -> bool:
    return statement.startswith(("SELECT", "WITH", "PIVOT", "UNPIVOT"))


def _set(tree: exp.Expr) -> Iterator[tuple[Any, str]]:
    """The arguments of a statement that need not be there, by class and name."""
    for node in tree.walk():
        kind: Any = type(node)
        for key, value in node.args.items():
            if value and kind in READ and not kind.arg_types.get(key, False):
                yield kind, key


def test_every_argument_that_is_listed_says_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, a statement shows, leaves or is told something else."""
    parsed = parsing._parsed
    there, gone = list[exp.Expr](), set[tuple[Any, str]]()

    def without(*args: Any, **named: Any) -> exp.Expr:
        tree = parsed(*args, **named)
        there.append(tree)
        for node in tree.walk():
            for kind, key in gone:
                if type(node) is kind:
                    node.args.pop(key, None)
        return tree

    def outcome(statement: str) -> list[str]:
        again._form.cache_clear()
        db = shared if _asks(statement) else _made(dialect)
        with monkeypatch.context() as patch:
            patch.setattr(parsing, "_parsed", without)
            try:
                return _outcome(db, statement)
            except Exception as error:
                if not gone:
                    raise
                return [repr(error)]  # a node that lacks what no text leaves out

    left = {
        (kind, key) for kind, read in READ.items() for key in read if not kind.arg_types.get(key)
    }
    for dialect, statements in SPEAKING.items():
        shared = _made(dialect)
        for statement in statements:
            there.clear()
            right = outcome(statement)
            asked = {one for tree in there for one in _set(tree)}
            for one in asked & left:
                gone = {one}
                left -= gone if outcome(statement) != right else set()
                gone = set()
        shared.close()
    found = {f"{kind.__name__}.{key}" for kind, key in left}
    assert found == {one for names in SAYS_NOTHING.values() for one in names}


LOST = {
    "duckdb": (
        "SELECT DATE_TRUNC('day', d, 'Europe/Berlin') FROM t",
        "SELECT QUANTILE_CONT(a, 0.5, a) FROM t",
        "SELECT LIST_SLICE(n, 1, 3, 2) FROM t", "SELECT CARDINALITY(n, 2) FROM t",
        "SELECT LIST_TRANSFORM(n, x -> x, 3) FROM t", "SELECT MOD(a, 2, 3) FROM t",
        "SELECT STRFTIME(d, '%Y', 'x') FROM t", "SELECT DATE_DIFF('day', d, d, d) FROM t",
        "SELECT ANY_VALUE(a, b) FROM t", "SELECT XOR(a, 2, 3) FROM t",
        "SELECT REGEXP_REPLACE(b, 'x', 'y', 'g', 'z') FROM t",
    ),
    "postgres": (
        "SELECT TO_CHAR(d, 'YYYY', 'x') FROM t", "SELECT MOD(a, 2, 3) FROM t",
        "SELECT DATE_TRUNC('day', d, 'UTC', 'x') FROM t",
    ),
    "spark": (
        "SELECT PERCENTILE(a, 0.5, 2) FROM t", "SELECT FIRST(a, b) OVER (ORDER BY a) FROM t",
        "SELECT SLICE(n, 1, 2, 3) FROM t", "SELECT DATE_FORMAT(d, 'yyyy', 'x') FROM t",
        "SELECT DATE_TRUNC('day', d, 'UTC') FROM t", "SELECT ELEMENT_AT(n, 1, 2) FROM t",
    ),
}  # fmt: skip
"""Calls with an argument more than the function has, or than sqlglot keeps."""


@pytest.mark.parametrize("dialect", LOST)
def test_no_argument_of_a_function_is_lost(dialect: str) -> None:
    with _made(dialect) as db:
        for statement in LOST[dialect]:
            with pytest.raises(deltafix.sql.DatabaseError) as caught:
                db.execute(statement)
            assert caught.value.diagnostics[0].span is not None, statement


SAID_AND_NOT_TAKEN = {
    "INSERT INTO other.t (a) VALUES (9)": "a schema's name",
    "DROP TABLE other.t": "a schema's name",
    "CREATE TABLE other.u (a INTEGER)": "a schema's name",
    "UPDATE t AS x (p, q) SET a = 1": "COLUMNS",
    "INSERT INTO t AS x (a) VALUES (1)": "ALIAS",
    "CREATE TABLE u (a INTEGER UNIQUE NULLS NOT DISTINCT)": "NULLS",
    "CREATE TABLE u (a INTEGER, CONSTRAINT q PRIMARY KEY (a) NOT ENFORCED)": "NOT ENFORCED",
    "SELECT a FROM t LIMIT 1 BY b": "more arguments",
    "SELECT UNNEST([[1, 2]], recursive := true) FROM t": "UNNEST",
    "SELECT ROW_NUMBER(ORDER BY a) OVER () FROM t": "ROW_NUMBER with an argument",
    "SELECT LAST_DAY(d, 'week') FROM t": "LAST_DAY with UNIT",
    "SELECT WEEK(d, 1) FROM t": "WEEK with MODE",
    "SELECT a FROM t GROUP BY a WITH TOTALS": "TOTALS",
    "SELECT CAST(b AS TEXT COLLATE NOCASE) FROM t": "COLLATE",
    "SELECT CAST(b AS INTEGER DEFAULT 5 ON CONVERSION ERROR) FROM t": "CAST with DEFAULT",
    "SELECT ARRAY_TO_STRING(['a', NULL], ',', '*')": "with NULL",
    "SELECT COALESCE(*COLUMNS('a|b')) FROM t": "UNPACK",
}


@pytest.mark.parametrize("statement", SAID_AND_NOT_TAKEN)
def test_what_was_passed_over_once_is_refused(statement: str) -> None:
    with _made("duckdb") as db:
        before = [repr(db.execute(f"SELECT * FROM {one}").fetchall()) for one in db.catalog.tables]
        with pytest.raises(deltafix.sql.NotSupportedError) as caught:
            db.execute(statement)
        assert f"{SAID_AND_NOT_TAKEN[statement]}" in str(caught.value).split("\n", 1)[0]
        after = [repr(db.execute(f"SELECT * FROM {one}").fetchall()) for one in db.catalog.tables]
    assert after == before
