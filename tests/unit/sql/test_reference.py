"""docs/reference/sql.md: each row's example is maintained, or refused, as the row says."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest
from tests.judges.sql_judge import bag

import deltafix.sql

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "sql.md"
TEXT = PAGE.read_text()
ROWS = re.findall(r"^\| (.+?) \| `(SELECT .+?|WITH .+?)` \| (\w+)", TEXT, re.MULTILINE)
PREAMBLE = re.search(r"```sql title=\"preamble.sql\"\n(.*?)```", TEXT, re.DOTALL)
OTHER_ROWS = (
    "several recursive references",
    "`DOUBLE` as text",
    "median of decimals",
    "approximate quantiles",
    "distinct elements",
    "`MODE`",
    "`ANY_VALUE` without",
    "expressions that read each other",
    "a step of a wider type",
    "a negative number beyond its bits",
    "texts backwards",
    "intervals of one length",
)
"""Where DuckDB's answer is another one, as the row says."""
EDITS = (
    "INSERT INTO t VALUES (1, 1, 2, 'a', 1.5, TRUE), (2, NULL, 1, 'ab', NULL, FALSE), "
    "(3, 1, 3, NULL, -2.5, NULL), (4, 3, 3, 'B', 0.5, TRUE)",
    "INSERT INTO u VALUES (1, 1, 'a'), (1, 1, 'a'), (NULL, 2, NULL), (3, NULL, 'b')",
    "INSERT INTO g VALUES (1, 2), (2, 3), (3, 1), (1, 2)",
    "INSERT INTO h VALUES (1, '2026-01-31', '2026-01-31 10:20:30.5', 1.50, 0.125), "
    "(2, '2024-02-29', NULL, -2.25, 2.005), (3, NULL, '2026-12-31', NULL, 10)",
    "INSERT INTO r VALUES (1, ['a', 'b', 'a'], [1, NULL, 2]), (2, NULL, []), "
    "(3, [NULL, ''], NULL), (4, [], [1, 1])",
    r"INSERT INTO z VALUES (1, '\x0A'), (2, NULL), (3, '\xFFa'), (4, '\xFFa')",
    "DELETE FROM u WHERE a = 1",
    "UPDATE h SET d = '2025-02-28', p = 7.125 WHERE id <> 2",
    "UPDATE t SET a = 3, ok = FALSE WHERE id < 3",
    "DELETE FROM g WHERE x = 3",
    "UPDATE r SET tags = ['a', 'c'], ns = [2] WHERE id < 3",
    "DELETE FROM r WHERE tags = [] OR ns IS NULL",
    r"UPDATE z SET b = b || '\x00'::BLOB WHERE id <> 4",
)


def test_the_page_has_its_rows() -> None:
    assert len(ROWS) > 50
    assert {status for _, _, status in ROWS} == {"maintained", "refused", "differs"}


@pytest.mark.parametrize(("construct", "query", "status"), ROWS, ids=[row[0] for row in ROWS])
def test_a_construct_is_what_its_row_says(
    construct: str, query: str, status: str, warm_kernel: None
) -> None:
    assert PREAMBLE is not None
    with deltafix.sql.connect() as db:
        db.execute(PREAMBLE[1])
        if status == "refused":
            with pytest.raises((deltafix.sql.NotSupportedError, deltafix.sql.ProgrammingError)):
                db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
            return
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        duck = duckdb.connect()
        duck.execute(PREAMBLE[1])
        before = bag(db.execute("SELECT * FROM v").fetchall())
        for edit in EDITS:
            db.execute(edit)
            duck.execute(edit)
            found = bag(db.execute("SELECT * FROM v").fetchall())
            if construct not in OTHER_ROWS:
                assert found == bag(duck.execute(query).fetchall()), edit
            delta = db.delta("v")
            assert bag(delta.added) == found - before
            assert bag(delta.removed) == before - found
            assert bag(db.execute(query).fetchall()) == found  # asked once, it is the same
            before = found
        duck.close()
