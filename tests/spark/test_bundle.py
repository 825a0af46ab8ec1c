"""The example of an asset bundle: its files name each other, its job and its flows run.

Sees: a path, a variable or a key of a cluster that is not there; a declarative pipeline that does
not get a view's epochs once, or not its rows. Not here: Databricks, which nobody can start here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest
import yaml

from deltafix.pipeline.config import read_config
from deltafix.pipeline.runner import Pipeline
from deltafix.spark.java import find_java, wrap_java

BUNDLE = Path(__file__).resolve().parents[2] / "examples" / "bundle"
INPUTS = """
[pipeline]
program = "access.dl"
state = "state"
{runner}
[input.member]
source = "files"
path = "in/member"
[input.grant]
source = "files"
path = "in/grant"
[output.can_read]
path = "can_read"
"""


def test_what_the_bundle_names_is_there() -> None:
    text = (BUNDLE / "databricks.yml").read_text()
    found = yaml.safe_load(text)
    assert found.keys() == {"bundle", "variables", "resources", "targets"}
    jobs, pipelines = (found["resources"][kind] for kind in ("jobs", "pipelines"))
    known = {f"var.{name}" for name in found["variables"]}
    known |= {f"resources.pipelines.{name}.id" for name in pipelines}
    named = set(re.findall(r"\$\{([^}]*)\}", text))
    assert named <= known
    assert known - named == set(), "all of it is used"
    (job,) = jobs.values()
    clusters = {one["job_cluster_key"] for one in job["job_clusters"]}
    tasks = {one["task_key"]: one for one in job["tasks"]}
    for task in tasks.values():
        assert {one["task_key"] for one in task.get("depends_on", [])} <= tasks.keys() - {
            task["task_key"]
        }
        assert task.get("job_cluster_key", *clusters) in clusters
    python = tasks["maintain"]["spark_python_task"]
    assert (BUNDLE / python["python_file"]).is_file()
    config = read_config(BUNDLE / python["parameters"][0])
    (log,) = (one.path for one in config.outputs)
    assert str(log) == found["variables"]["log"]["default"]
    local = yaml.safe_load((BUNDLE / "spark-pipeline.yml").read_text())
    page = (BUNDLE.parents[1] / "docs" / "guides" / "bundle.md").read_text()
    shown = re.findall(r'^```\w+ title="([^"]*)"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL)
    assert shown == [(name, (BUNDLE / name).read_text()) for name, _ in shown]
    assert len(shown) == 5
    globs = [*pipelines["access_changes"]["libraries"], *local["libraries"]]
    for one in globs:
        assert list(BUNDLE.glob(f"{one['glob']['include']}/*.py")), one
    assert local["configuration"].keys() == pipelines["access_changes"]["configuration"].keys()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.shows(
    "Declarative pipelines (`spark-pipelines`): flows that read the source `deltafix`"
)
def test_a_declarative_pipeline_follows_what_the_job_maintains(tmp_path: Path) -> None:
    if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 1):
        pytest.skip("declarative pipelines came with Spark 4.1")
    if "CI" not in os.environ:
        pytest.importorskip("grpc_status", reason="no Spark Connect: see the test group")
    folder = tmp_path / "bundle"
    shutil.copytree(BUNDLE, folder)
    spec = folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/data/access", str(folder)))
    say(folder, "member", "+,ada,core", "+,core,all")
    say(folder, "grant", "+,all,plan")
    (folder / "pipeline.toml").write_text(INPUTS.format(runner=""))
    run(tmp_path, [sys.executable, "maintain.py", "pipeline.toml"])
    # Tables that the next run finds need a catalog that is kept.
    follow = [str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines"), "run"]
    follow += ["--conf", "spark.sql.catalogImplementation=hive", "--spec", spec.name]
    run(tmp_path, follow)
    first = {("ada", "plan", 1, 2), ("core", "plan", 1, 2)}
    assert held(folder, "can_read_changes") == first
    assert held(folder, "can_read") == {("ada", "plan"), ("core", "plan")}

    say(folder, "member", "-,ada,core", "+,bob,all")
    (folder / "pipeline.toml").write_text(INPUTS.format(runner='runner = "local"'))
    with Pipeline(read_config(folder / "pipeline.toml")) as pipeline:
        assert [one.epoch for one in pipeline.drain()] == [3]
    run(tmp_path, follow)
    later = {("ada", "plan", -1, 3), ("bob", "plan", 1, 3)}
    assert held(folder, "can_read_changes") == first | later
    assert held(folder, "can_read") == {("bob", "plan"), ("core", "plan")}


def say(folder: Path, relation: str, *lines: str) -> None:
    columns = {"member": "who,group", "grant": "group,doc"}[relation]
    place = folder / "in" / relation
    place.mkdir(parents=True, exist_ok=True)
    text = "\n".join([f"sign,{columns}", *lines])
    (place / f"{len(list(place.iterdir()))}.csv").write_text(text + "\n")


def run(folder: Path, command: list[str]) -> None:
    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(wrap_java(find_java(), folder / "java")),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        command, cwd=folder / "bundle", env=environment, capture_output=True, text=True,
        timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-4000:])


def held(folder: Path, table: str) -> set[tuple[Any, ...]]:
    rows = pq.read_table(folder / "spark-warehouse" / table).to_pylist()
    assert len({tuple(row.values()) for row in rows}) == len(rows), "each once"
    return {tuple(row.values()) for row in rows}
