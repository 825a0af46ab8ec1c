"""`maintain(sql=...)`: views in SQL of DataFrames, judged by DuckDB, columns in their types."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import pyarrow.compute as pc
import pytest

from deltafix.errors import ConfigError, DriftError, SqlError
from deltafix.pipeline.manifest import read_deltas, read_view
from deltafix.spark import maintain

pytestmark = pytest.mark.spark

TABLE = """
CREATE TABLE sale (
  id BIGINT PRIMARY KEY, shop TEXT, day DATE, amount DECIMAL(9, 2), vip BOOLEAN, moment TIMESTAMP,
  seen TIMESTAMPTZ, weight DOUBLE, n INTEGER, tags TEXT[], days DATE[],
  spot STRUCT(x INTEGER, seen TIMESTAMPTZ), mark BLOB
);
"""
VIEWS = {
    "per_shop": "SELECT shop, SUM(amount) AS s, COUNT(*) AS c, MAX(day) AS d, MIN(seen) AS f, "
    "BOOL_OR(vip) AS v, MAX(moment) AS a, SUM(n) AS t FROM sale GROUP BY shop",
    "days": "SELECT day, vip FROM sale WHERE weight > 0.5 OR weight IS NULL",
    "tags": "SELECT tag, ARRAY_AGG(id ORDER BY id) AS ids, MAX(days) AS days "
    "FROM sale, UNNEST(tags) AS u (tag) GROUP BY tag",
    "places": "SELECT spot.x, MAX(spot) AS m, COUNT(spot.seen) AS c FROM sale GROUP BY spot.x",
    "marks": "SELECT mark, MAX(mark) AS m, COUNT(*) AS n FROM sale GROUP BY mark",
    "next_days": "SELECT s.id, t.id AS other FROM sale s JOIN sale t ON t.day = s.day + 1",
}
SQL = TABLE + "".join(f"CREATE VIEW {name} AS {query};\n" for name, query in VIEWS.items())
WORDS = (
    "id long, shop string, day date, amount decimal(9,2), vip boolean, moment timestamp_ntz, "
    "seen timestamp, weight double, n int, tags array<string>, days array<date>, "
    "spot struct<x: int, seen: timestamp>, mark binary, sign int"
)

Row = tuple[Any, ...]


def draw(rng: Random, number: int) -> Row:
    def maybe(*values: Any) -> Any:
        return rng.choice((None, *values))

    at = datetime(2026, 1, rng.randrange(1, 4), 12, 30, 0, 500)
    return (
        number, maybe("a", "b", ""), maybe(date(2026, 1, 31), date(2026, 2, 1)),
        maybe(Decimal("12.50"), Decimal("-0.05")), maybe(True, False), maybe(at),
        maybe(at.replace(tzinfo=UTC)), maybe(0.1, 2.5), maybe(-1, 7),
        maybe((), ("a", None), ("b", "a")), maybe((date(2026, 1, 31), None)),
        maybe({"x": 1, "seen": at.replace(tzinfo=UTC)}, {"x": None, "seen": None}),
        maybe(b"", b"\x00\xff"),
    )  # fmt: skip


def bag(rows: Any) -> Counter[Row]:
    """Rows, their moments with a zone in UTC, their arrays as tuples."""

    def same(one: Any) -> Any:
        if isinstance(one, datetime) and one.tzinfo is not None:
            return one.astimezone(UTC)
        one = list(one.values()) if isinstance(one, dict) else one
        return tuple(map(same, one)) if isinstance(one, list) else one

    return Counter(tuple(map(same, row)) for row in rows)


@pytest.mark.shows("`maintain(sql=...)`, batches")
def test_oracle_views_of_frames_are_duckdbs(spark, tmp_path) -> None:
    rng = Random("sales")
    duck = duckdb.connect(config={"threads": 1})
    duck.execute("SET TimeZone = 'UTC'")
    duck.execute(SQL)
    there: dict[int, Row] = {}
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        for batch in range(2):
            changes = []
            for number in rng.sample(range(12), 8):
                old = there.pop(number, None)
                changes += [] if old is None else [(*old, -1)]
                if old is None or rng.random() < 0.5:
                    there[number] = draw(rng, number)
                    changes.append((*there[number], 1))
            duck.execute("DELETE FROM sale")
            marks = ", ".join("?" * 13)
            duck.executemany(f"INSERT INTO sale VALUES ({marks})", [*there.values()])
            frame = spark.createDataFrame(changes, WORDS)
            if batch:  # SQL compares names without capitals
                named = dict(zip(("id", "shop", "spot"), ("ID", "Shop", "sPot"), strict=True))
                frame = frame.withColumnsRenamed(named)
            with maintain(
                sql=SQL, inputs={"sale": frame}, state=tmp_path / "s", views=[*VIEWS],
                counted=["days"], batch=batch, executor="driver",
            ) as kept:  # fmt: skip
                for name, query in VIEWS.items():
                    rows = duck.execute(
                        f"SELECT *, COUNT(*) FROM ({query}) GROUP BY ALL"
                    ).fetchall()
                    wanted = bag(row if name == "days" else row[:-1] for row in rows)
                    _, table = read_view(kept.log(name))
                    columns = [] if table is None else [one.to_pylist() for one in table.columns]
                    assert bag(zip(*columns, strict=True)) == wanted, name
                    source = spark.read.format("deltafix").option("view", "rows")
                    shown = source.load(str(tmp_path / "s" / "views" / name)).toArrow()
                    columns = [one.to_pylist() for one in shown.columns]
                    assert bag(zip(*columns, strict=True)) == wanted, name
                    shown = kept[name].toArrow().drop(["sign", "epoch"])
                    if table is not None:
                        assert shown.cast(table.schema).schema == table.schema, name
        shown = kept["per_shop"]
        kinds = [one.dataType.simpleString() for one in shown.schema]
        assert kinds[:7] == [
            "string", "decimal(18,2)", "bigint", "date", "timestamp", "boolean", "timestamp_ntz",
        ]  # fmt: skip
        found = shown.where("sign > 0").toArrow().select(range(8))
        deltas = read_deltas(kept.log("per_shop"), kept.maintainer.epoch)
        added = deltas.filter(pc.field("sign") > 0).select(range(8)).cast(found.schema)
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, added.to_pylist()))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.parametrize(
    ("words", "kind", "said"),
    [
        ({"views": ["days"]}, ConfigError, r"counted = \['days'\]"),
        ({"inputs": ["days"]}, ConfigError, "is a view"),
        ({"sql": SQL.replace(" PRIMARY KEY", "")}, ConfigError, "no PRIMARY KEY"),
        ({"sql": None}, ConfigError, "rules or sql"),
        ({"sql": "SELECT 1"}, SqlError, "SELECT"),
        ({"drop": "day"}, DriftError, "lacks 'day'"),
    ],
)
def test_refusals(spark, tmp_path, words, kind, said) -> None:
    frame = spark.createDataFrame([(*draw(Random(1), 1), 1)], WORDS)
    if "drop" in words:
        frame = frame.drop(words.pop("drop"))
    inputs = dict.fromkeys(words.pop("inputs", ["sale"]), frame)
    given = {"sql": SQL, "views": ["per_shop"], **words}
    with pytest.raises(kind, match=said):
        maintain(inputs=inputs, state=tmp_path / "s", executor="driver", **given)
