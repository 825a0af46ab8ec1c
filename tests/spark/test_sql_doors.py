"""Every type of SQL through Spark's door: DataFrames in, what `maintain` keeps of them out."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.generators.sql_values import VALUES, sent, told

import deltafix.sql
from deltafix.spark import maintain

pytestmark = pytest.mark.spark

SQL = "".join(
    f"CREATE TABLE t{place} (id INTEGER PRIMARY KEY, v {kind});"
    f"CREATE VIEW w{place} AS SELECT id, v FROM t{place};\n"
    for place, kind in enumerate(VALUES)
)


@pytest.mark.parametrize("executor", ["driver", "shards"])
def test_a_type_goes_through_dataframes(executor: Any, spark: SparkSession, tmp_path: Path) -> None:
    frames, before = {}, spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        for place, (kind, values) in enumerate(VALUES.items()):
            with closing(deltafix.sql.connect()) as db:
                db.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, v {kind})")
                db.insert("t", list(enumerate(values)))
                table = db.execute("SELECT * FROM t").to_arrow()
            if "TIME" in kind.replace("TIMESTAMP", ""):  # which Spark has not
                texts = pa.array(map(sent, values))
                table = table.set_column(1, "v", texts)
            # createDataFrame would give moments without a zone one.
            pq.write_table(table, tmp_path / f"t{place}.parquet")
            frames[f"t{place}"] = spark.read.parquet(str(tmp_path / f"t{place}.parquet"))
        views = [f"w{place}" for place in range(len(VALUES))]
        kept_by: dict[str, Any] = {"executor": executor}
        if executor == "shards":
            kept_by["shards"] = 2
        with maintain(
            sql=SQL,
            inputs=frames,
            state=tmp_path / "state",
            views=views,
            **kept_by,
        ) as kept:
            for place, (kind, values) in enumerate(VALUES.items()):
                given, found = frames[f"t{place}"].schema["v"], kept[f"w{place}"]
                assert found.schema["v"].dataType == given.dataType, kind
                rows = sorted(found.select("id", "v").toArrow().to_pylist(), key=lambda r: r["id"])
                assert [told(row["v"]) for row in rows] == [told(sent(one)) for one in values], kind
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
