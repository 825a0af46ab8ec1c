"""`python examples/sql/on_spark.py NAME`: the views of NAME.sql, and its edit, over DataFrames.

The script and its edit are run here once, for the rows that they put into tables; these are the
DataFrames. What Spark's side keeps of them is printed as `deltafix sql` prints it.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import deltafix.sql
from deltafix.spark import maintain
from deltafix.spark.session import spark_session

if TYPE_CHECKING:
    import pyarrow as pa

HERE = Path(__file__).parent


def batches(name: str) -> Iterator[dict[str, pa.Table]]:
    """The rows of each table, and then what the edit changes in it, with signs."""
    with closing(deltafix.sql.connect()) as db:
        db.execute((HERE / f"{name}.sql").read_text())
        tables = list(db.catalog.tables)
        yield {table: db.execute(f'SELECT * FROM "{table}"').to_arrow() for table in tables}  # noqa: S608
        db.execute((HERE / f"{name}-edit.sql").read_text())
        yield {table: db.delta(table).to_arrow() for table in tables}


def followed(name: str, state: str) -> Iterator[list[tuple[object, ...]]]:
    """For each batch what it changes in each view: the view, the sign, the row."""
    made = re.findall(
        r"^CREATE .*?;$", (HERE / f"{name}.sql").read_text(), re.MULTILINE | re.DOTALL
    )
    views = re.findall(r"^CREATE MATERIALIZED VIEW (\w+)", "\n".join(made), re.MULTILINE)
    with spark_session() as spark:
        for rows in batches(name):
            frames = {table: spark.createDataFrame(found) for table, found in rows.items()}
            with maintain(
                sql="\n".join(made), inputs=frames, state=state, views=views, duplicates="ignore"
            ) as kept:
                changed = []
                for view in views:
                    found = kept[view].drop("epoch").collect()  # what this batch changed
                    changed += [(view, row["sign"], *row[:-1]) for row in found]
                yield changed


def main(name: str) -> None:
    """Print what each of the two batches changes."""
    with tempfile.TemporaryDirectory() as state:
        for changed in followed(name, state):
            for view, sign, *row in sorted(changed, key=str):
                print("+-"[sign < 0] + view, *row, sep="\t")
            print()


if __name__ == "__main__":
    main(sys.argv[1])
