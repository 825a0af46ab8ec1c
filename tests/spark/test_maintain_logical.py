"""`maintain` of rules over dates, decimals and missing values: by the driver, and in shards."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from tests.generators.sql_values import in_arrow

import deltafix
from deltafix.errors import ProgramError, SinkError, StateError
from deltafix.facts.delta import Delta
from deltafix.pipeline.manifest import read_view
from deltafix.spark import maintain
from deltafix.spark.shards.database import ShardedDatabase

pytestmark = pytest.mark.spark

RULES = """
.decl lease(
    flat: symbol, since: date, ends: date?, rent: decimal(8, 2), paid: boolean, at: timestamptz?,
    who: uuid
)
.input lease
.decl next(a: date, b: date)
next(s, s + 1) :- lease(_, s, _, _, _, _, _).
next(a, c) :- next(a, b), next(b, c).
.decl running(flat: symbol, days: number)
running(f, as("2026-07-01", date) - s) :- lease(f, s, nil, _, _, _, _), s >= "2026-01-01".
.decl income(paid: boolean, total: decimal(8, 2), last: date, at: timestamptz?)
income(p, t, d, z) :- lease(_, _, _, _, p, z, _), t = sum r : { lease(_, _, _, r, p, _, _) },
    d = max s : { lease(_, s, _, _, p, _, _) }.
.decl owner(who: uuid, ends: date?, total: decimal(8, 2))
owner(w, e, r) :- lease(_, _, e, r, _, _, w).
.output next, running, income, owner
"""
VIEWS = ("next", "running", "income", "owner")
WORDS = (
    "flat string, since date, ends date, rent decimal(8,2), paid boolean, at timestamp, "
    "who string, sign int"
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ONE, TWO = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "{A0EEBC999C0B4EF8BB6D6BB9BD380A12}"
BATCHES: list[list[tuple[Any, ...]]] = [
    [
        ("1a", date(2026, 1, 1), None, Decimal("850.50"), True, NOON, ONE, 1),
        ("2b", date(2026, 1, 2), date(2026, 2, 28), Decimal(700), True, None, TWO, 1),
        ("3c", date(2025, 12, 31), None, Decimal("0.01"), False, None, ONE, 1),
    ],
    [
        ("2b", date(2026, 1, 2), date(2026, 2, 28), Decimal(700), True, None, TWO, -1),
        ("4d", date(2026, 1, 5), None, Decimal("99.99"), False, NOON, TWO, 1),
    ],
]


def rows_of(folder: Any, name: str) -> set[tuple[Any, ...]]:
    _, found = read_view(folder / "views" / name)
    rows = [] if found is None else found.to_pylist()
    return {tuple(map(in_utc, row.values())) for row in rows}


def in_utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


@pytest.mark.shows("rules over dates and decimals in `maintain`")
@pytest.mark.parametrize("executor", ["driver", "shards"])
def test_rules_have_the_types_of_frames(spark: Any, executor: str, tmp_path: Any) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    with deltafix.connect(RULES) as db:
        for number, batch in enumerate(BATCHES):
            frame = spark.createDataFrame(batch, WORDS)
            kept = maintain(
                RULES, {"lease": frame}, state=tmp_path / "state", views=VIEWS, batch=number,
                executor=executor, shards=2,
            )  # fmt: skip
            kept.close()
            with db.transaction() as tx:
                for *row, sign in batch:
                    (tx.insert if sign > 0 else tx.delete)("lease", [tuple(row)])
            for name in VIEWS:
                wanted = {tuple(in_arrow(row)) for row in db.rows(name)}
                assert rows_of(tmp_path / "state", name) == wanted, name
                source = spark.read.format("deltafix").option("view", "rows")
                shown = source.load(str(tmp_path / "state" / "views" / name)).toArrow().to_pylist()
                assert {tuple(map(in_utc, row.values())) for row in shown} == wanted, name
        assert db.count("next") > 3
    later = RULES.replace("decimal(8, 2)", "decimal(9, 2)")
    frame = spark.createDataFrame(BATCHES[0], WORDS)
    with pytest.raises((SinkError, StateError), match=r"(?i)decimal\(8, 2\)"):
        maintain(
            later, {"lease": frame}, state=tmp_path / "state", views=VIEWS, batch=2,
            executor=executor, shards=2, on_change="rebuild",
        )  # fmt: skip


def test_shards_of_their_own_have_rows_of_the_engine(tmp_path: Any) -> None:
    text = '.decl a(d: date) .decl b(d: date) b(d) :- a(d), d < "2026-01-01".'
    with pytest.raises(ProgramError, match=r"a\(d: date\) has logical types"):
        ShardedDatabase(text, shards=2, state=tmp_path / "state", executor="driver")
    with ShardedDatabase(
        text, shards=2, state=tmp_path / "state", executor="driver", physical=True
    ) as db:
        db.apply(Delta.of({"a": ([(1,), (10**6,)], [])}, db.schemas.values()))
        assert db.rows("b") == [(1,)]
