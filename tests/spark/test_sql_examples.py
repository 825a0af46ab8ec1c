"""examples/sql/on_spark.py: of each script, what Spark's side keeps is what a connection has."""

from __future__ import annotations

import importlib.util
from collections import Counter
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

import deltafix.sql

pytestmark = pytest.mark.spark

FOLDER = Path(__file__).parents[2] / "examples" / "sql"
NAMES = sorted(path.name.removesuffix("-edit.sql") for path in FOLDER.glob("*-edit.sql"))


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("on_spark", FOLDER / "on_spark.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_is_an_example_of_each_kind() -> None:
    assert NAMES == ["chart", "lineage", "parts", "rights", "valid", "ways"]


@pytest.mark.parametrize("name", NAMES)
def test_views_of_dataframes_change_as_those_of_a_connection(
    name: str, example: ModuleType, spark: SparkSession, tmp_path: Path
) -> None:
    found = [Counter(batch) for batch in example.followed(name, str(tmp_path / "state"))]
    with closing(deltafix.sql.connect()) as db:
        wanted = []
        for script in (f"{name}.sql", f"{name}-edit.sql"):
            before = {
                view: db.execute(f"SELECT * FROM {view}").fetchall() for view in db.catalog.views
            }
            db.execute((FOLDER / script).read_text())
            changes = Counter()
            for view in db.catalog.views:
                rows = Counter(db.execute(f"SELECT * FROM {view}").fetchall())
                rows.subtract(before.get(view, ()))
                changes += Counter({(view, sign, *row): 1 for row, sign in rows.items() if sign})
            wanted.append(changes)
    assert found == wanted
    assert all(wanted)
