"""SQL against DuckDB and SQLite: random views under random transactions, row for row.

A few hundred transactions; `python -m bench.sql_fuzz` plays as many as you like.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.generators.random_sql import Case, case_of
from tests.judges.sql_judge import Judged, play
from tests.support.amount import cases, some

from deltafix.rules import whole
from deltafix.rules.ast import Atom, Formula
from deltafix.rules.whole import MOST
from deltafix.sql import partitions, scans, subqueries
from deltafix.sql.asked import asked
from deltafix.sql.builder import Builder
from deltafix.sql.scans import MANY

FIXTURES = sorted((Path(__file__).parents[1] / "fixtures" / "sql").glob("*.sql"))
GROUPS, CASES = cases(3, per=20), 8


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `_vary` sets ends with the test."""
    monkeypatch.setattr(scans, "MANY", MANY)
    monkeypatch.setattr(partitions, "SMALL", partitions.SMALL)


def _vary(case: int) -> None:
    """In half of the cases all disjunctions stay whole; in others few rows are edited as codes.

    In half of them the partitions of windows are never walked where a part will do.
    """
    partitions.SMALL = (64, 1)[case % 2]
    whole.MOST = (1, MOST)[case % 2]
    scans.MANY = (1, MANY, 2, 3)[case // 2 % 4]


def _judged(many: int, **options: Any) -> Iterator[tuple[Case, Judged]]:
    """So many cases with some options, in CI half of them, played; nothing of them is refused."""
    for seed in range(some(many)):
        _vary(seed)
        case = case_of(seed, schemas=False, **options)
        judged = play(case)
        assert not judged.refused
        yield case, judged


def _played(group: int) -> Judged:
    total = Judged()
    for seed in range((group + 1) * CASES, (group + 2) * CASES):
        _vary(seed)
        judged = play(case_of(seed, arrays=False, schemas=False))
        total.transactions += judged.transactions
        total.changed += judged.changed
        total.ordered += judged.ordered
        total.framed += judged.framed
        total.parametrised += judged.parametrised
        total.merged += judged.merged
        total.returned += judged.returned
        total.views.update(judged.views)
        total.refused += judged.refused
        total.disputed += judged.disputed
    return total


@pytest.mark.parametrize("group", range(GROUPS))
def test_oracle_every_view_and_delta_of_random_sql_is_that_of_duckdb_and_sqlite(group: int) -> None:
    judged = _played(group)
    assert judged.transactions == CASES * 7
    assert judged.ordered > 3
    assert judged.framed > 10  # rows that came by column
    assert judged.parametrised > 15
    assert judged.merged + judged.returned > 5
    assert judged.changed > 25  # deltas were there to be compared
    assert judged.views["duckdb"] > 150
    assert judged.views["sqlite"] > judged.views["duckdb"] / 4  # it lacks SEMI, ANTI, EXCEPT ALL
    assert len(set(judged.disputed)) <= 2  # views; SQLite 3.40 loses rows of chained FULL joins
    assert not judged.refused  # the generator makes what the reference says is maintained


@pytest.mark.parametrize("group", range(some(2)))
def test_oracle_arrays_are_those_of_duckdb(group: int) -> None:
    seeds = range(2000 + 1000 * group, 3000 + 1000 * group)
    cases = (case_of(seed, schemas=False) for seed in seeds)
    unnesting = (case for case in cases if re.search(r"UNNEST\(|ARRAY_AGG\(", case.script()))
    arrays = changed = 0
    for place, case in enumerate(islice(unnesting, 8)):
        _vary(place)
        judged = play(case)
        assert not judged.refused
        arrays += judged.arrays
        changed += judged.changed
    assert arrays > 5
    assert changed > 40


def test_oracle_views_follow_foreign_keys_and_tables_that_change() -> None:
    cases = (case_of(seed) for seed in range(4200, 5000))
    schemas = (case for case in cases if re.search("FOREIGN KEY|ALTER TABLE", case.script()))
    total = Judged()
    for place, case in enumerate(islice(schemas, some(14))):
        _vary(place)
        judged = play(case)
        assert not judged.refused
        total.altered += judged.altered
        total.followed += judged.followed
        total.merged += judged.merged
        total.changed += judged.changed
    assert total.altered > some(8)
    assert total.followed > some(2) - 1
    assert total.merged > 0
    assert total.changed > some(45)


def test_oracle_chains_of_left_joins_are_those_of_duckdb_and_sqlite() -> None:
    """Each join has a choice of two; what the third looks at may be of the first table."""
    joins = changed = 0
    for seed in range(some(8)):
        _vary(seed)
        case = case_of(seed, views=3, transactions=3, chains=True, schemas=False)
        joins += sum(query.count("LEFT JOIN") for _, query in case.views)
        changed += play(case).changed
    assert joins > some(40)
    assert changed > some(20)


def test_oracle_correlated_aggregates_count_a_row_once_whatever_decides_about_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of all groups, or of those that rows around ask for."""
    changed = aggregates = few = 0

    def counted(builder: Builder, *formulas: Iterable[Formula]) -> list[Atom]:
        nonlocal few
        found = asked(builder, *formulas)
        few += bool(found)
        return found

    monkeypatch.setattr(subqueries, "asked", counted)
    for case, judged in _judged(24, views=8, transactions=2, arrays=False, correlated=True):
        aggregates += sum(query.count("(SELECT CAST(") for _, query in case.views)
        changed += judged.changed
    assert aggregates > some(100)
    assert few > some(30)
    assert changed > some(100)


def test_oracle_joins_by_expressions_are_those_of_duckdb_and_sqlite() -> None:
    """Of both sides of any join, of NULLs, in subqueries, and in the steps of recursions."""
    changed = computed = 0
    for case, judged in _judged(16, views=5, transactions=3, arrays=False, computed=True):
        computed += len(re.findall(r"JOIN \w+ AS \w+ ON [^=]*\([^=]* = ", case.script()))
        changed += judged.changed
    assert computed > some(10)
    assert changed > some(60)


def test_oracle_groups_of_one_side_of_a_left_join_are_those_of_duckdb_and_sqlite() -> None:
    """What the planner leaves out of them, rows without a match, is in no aggregate."""
    joins = changed = 0
    for case, judged in _judged(16, views=4, transactions=3, one_sided=True):
        joins += sum("LEFT JOIN" in query for _, query in case.views)
        changed += judged.changed
    assert joins > some(50)
    assert changed > some(50)


def test_oracle_numbers_are_those_that_are_asked_for_whatever_they_are_called() -> None:
    """A number that nobody asks for is not computed: which that is, aliases and joins decide."""
    changed = renamed = nearest = 0
    for case, judged in _judged(16, views=8, transactions=3, arrays=False, numbered=True):
        renamed += len(re.findall(r"\((?:c\d, )*rn, [^()]*\)", case.script()))
        nearest += case.script().count("ASOF")
        changed += judged.changed
    assert renamed > some(10)
    assert nearest > some(3)
    assert changed > some(60)


@pytest.mark.parametrize("group", range(some(3)))
def test_oracle_random_sql_goes_on_from_its_state_folder(group: int, tmp_path: Path) -> None:
    total = Judged()
    for seed in range(group * 4, group * 4 + 4):
        _vary(seed)
        judged = play(case_of(seed + 1000), tmp_path / str(seed))
        total.transactions += judged.transactions
        total.changed += judged.changed
        total.views.update(judged.views)
    assert total.transactions == 28
    assert total.changed > 10
    assert total.views["duckdb"] > 70


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_oracle_what_failed_once_is_right(path: Path) -> None:
    case = Case.read(path.read_text())
    assert play(case).transactions == len(case.transactions)


def test_a_case_is_read_back_from_its_script() -> None:
    for seed in range(20):
        case = case_of(seed)
        assert Case.read(case.script()) == case


def test_the_generator_reaches_every_construct() -> None:
    words = Counter[str]()
    wanted = (
        "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN", "CROSS JOIN", "USING",
        "GROUP BY", "HAVING", "FILTER", "COUNT(DISTINCT", "SUM(DISTINCT", "AVG(", "MIN(", "MAX(",
        "BOOL_AND", "STDDEV(", "VAR_POP(", "MEDIAN(", "PERCENTILE_CONT(", "QUANTILE_DISC(",
        "BIT_", "PRODUCT(", "FIRST(", "LAST(", "ANY_VALUE(",
        "STRING_AGG(", "ARRAY_AGG(", "INTEGER[]", "VARCHAR[]", "JOIN UNNEST(", "ORDINALITY",
        "STRUCT(f DOUBLE", "DOUBLE[]", "'nan'::DOUBLE", ".s.x", ".d = ", ".n) AS ",
        "FROM UNNEST(", "CAST(UNNEST(", "= ANY(", "LIST_CONTAINS(", "LEN(", " LIMIT ", " OFFSET ",
        "LIMIT 1)", "FETCH NEXT", "RANK() OVER",
        "LAG(", "NTH_VALUE(", "QUALIFY", "NTILE(", "1 FOLLOWING", "CURRENT ROW AND",
        "SUM(COUNT(*)) OVER", "ROLLUP", "CUBE", "GROUPING SETS", "DISTINCT ON",
        "STRING_AGG(DISTINCT", "SELECT DISTINCT", "UNION ALL",
        "UNION SELECT", "EXCEPT SELECT", "EXCEPT ALL", "INTERSECT SELECT", "INTERSECT ALL",
        "CROSS JOIN LATERAL", "LEFT JOIN LATERAL", "WITH RECURSIVE", "NOT EXISTS",
        " NOT IN (SELECT", "HAVING COUNT(*) > 1)",
        " IN (SELECT", "(SELECT MAX", "CASE WHEN", "COALESCE", "NULLIF", "IS DISTINCT FROM",
        "BETWEEN", "LIKE", " NOT LIKE", "<> (SELECT",
        "PRIMARY KEY", "UPDATE", "DELETE", "NOT NULL", "NULL", "FOREIGN KEY", "DELETE CASCADE",
        "DELETE SET NULL", "UPDATE CASCADE", "UPDATE SET NULL", "ADD COLUMN", "DROP COLUMN",
        "RENAME COLUMN", "RENAME TO", "TRUNCATE", " BY NAME SELECT", " ANY (SELECT",
        " ALL (SELECT", " SOME (SELECT", "(ROW(", "DROP NOT NULL", " TYPE TEXT", " TYPE DOUBLE",
        "USING LENGTH", " PRIMARY KEY (", ", ADD COLUMN", " PIVOT (", " WHERE c0 ", "HAVING c1 ",
        " AS rn ",
        "MERGE INTO", "NOT MATCHED BY SOURCE", "THEN DO NOTHING", "ON CONFLICT", "DO UPDATE SET",
        "INSERT OR IGNORE", "INSERT OR REPLACE", " RETURNING ",
    )  # fmt: skip
    for seed in range(1000):
        script = case_of(seed).script()
        words.update(word for word in wanted if word in script)
    assert [word for word in wanted if words[word] < 3] == []
