"""Files in object stores as inputs: what is taken is what the same files on a disk would say.

Each test has its files in a folder too, or says what the rows are; `Job.check` is the judge.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.faults.test_pipeline_faults import prepare
from tests.servers.s3 import Server
from tests.servers.stores import AZURITE, Azurite, Gcs
from tests.support.pipelines import Job

from deltafix.errors import ConfigError, DriftError, PipelineError
from deltafix.pipeline import check
from deltafix.pipeline.config import read_config
from deltafix.store.folder import folder_at


@pytest.fixture(scope="module", params=["s3", "gs", "az"])
def _running(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "az" and not AZURITE.exists():
        pytest.skip("no Azurite: make build/azurite/.ready")
    with {"s3": Server, "gs": Gcs, "az": Azurite}[request.param]() as server:
        yield server


@pytest.fixture
def url(_running: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new, empty place in a store."""
    for name, value in _running.settings.items():
        monkeypatch.setenv(name, value)
    return str(_running.url())


def at(job: Job, url: str, member: str = "", grant: str = "") -> Job:
    """The job with its inputs in the store."""
    text = job.toml.read_text()
    for name, more in (("member", member), ("grant", grant)):
        text = text.replace(f'path = "in/{name}"', f'path = "{url}/{name}"\n{more}')
    job.toml.write_text(text)
    return job


def put(url: str, name: str, data: bytes | str) -> None:
    folder, _, last = name.rpartition("/")
    place = folder_at(f"{url}/{folder}" if folder else url)
    place.write(last, [data.encode() if isinstance(data, str) else data])


def upload(job: Job, url: str) -> None:
    """What the job wrote since the last time."""
    for path in sorted((job.folder / "in").rglob("*")):
        if path.is_file():
            put(url, path.relative_to(job.folder / "in").as_posix(), path.read_bytes())
            path.unlink()


def test_oracle_change_files_over_restarts_and_cuts(url, tmp_path) -> None:
    job = at(prepare(tmp_path), url)
    upload(job, url)
    put(url, "member/_hidden.csv", "not,read\n")
    put(url, "member/late/a.csv.part", "nor this\n")
    put(url, "member/late/b.csv.gz", gzip.compress(b"sign,who,team\n+,zed,a\n"))
    job.rows["member"].add(("zed", "a"))
    with job.open() as pipeline:
        assert pipeline.step() is not None  # the rest is taken by another process
    assert len(job.run()) > 2
    assert job.run() == []
    job.say("member", ("+", ("yan", "zed")))
    upload(job, url)
    assert len(job.run()) == 1
    assert f"input member: files {url}/member to member" in "\n".join(
        check.check(read_config(job.toml))
    )


def test_files_of_rows_come_change_and_go(url, tmp_path) -> None:
    job = at(Job(tmp_path), url, 'mode = "rows"', 'mode = "rows"\nformat = "parquet"')
    put(url, "member/one.csv", "who,team\na,b\nb,c\n")
    put(url, "member/two.csv", "who,team\na,b\n")
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"team": ["b"], "doc": [7]}), sink)
    put(url, "grant/x.parquet", sink.getvalue().to_pybytes())
    job.rows = {"member": {("a", "b"), ("b", "c")}, "grant": {("b", 7)}}
    job.run()
    put(url, "member/one.csv", "who,team\na,c\nb,c\n")  # as many bytes, in the same second
    job.rows["member"] = {("a", "b"), ("a", "c"), ("b", "c")}
    assert len(job.run()) == 1
    folder_at(f"{url}/member").remove("two.csv")
    job.rows["member"] = {("a", "c"), ("b", "c")}
    assert len(job.run()) == 1
    put(url, "member/empty.csv", "")
    with job.open() as pipeline, pytest.raises(PipelineError, match=r"empty\.csv holds no bytes"):
        pipeline.step()


def test_snapshots_and_one_object(url, tmp_path) -> None:
    job = Job(tmp_path)
    text = job.toml.read_text().replace('source = "files"', 'source = "snapshot"')
    text = text.replace('path = "in/member"', f'path = "{url}/member"')
    job.toml.write_text(text.replace('path = "in/grant"', f'path = "{url}/grant.csv"'))
    put(url, "member/1/part-0.csv", "who,team\na,b\n")
    put(url, "member/1/part-1.csv", "who,team\nb,c\n")
    put(url, "grant.csv", "team,doc\nc,1\nc,2\n")
    with job.open() as pipeline, pytest.raises(PipelineError, match="part files and no _SUCCESS"):
        pipeline.step()
    put(url, "member/1/_SUCCESS", "")
    put(url, "member/2/_temporary/part-0.csv", "who,team\nz,z\n")
    job.rows = {"member": {("a", "b"), ("b", "c")}, "grant": {("c", 1), ("c", 2)}}
    job.run()
    put(url, "grant.csv", "team,doc\nc,1\nc,3\n")
    job.rows["grant"] = {("c", 1), ("c", 3)}
    assert len(job.run()) == 1


def test_what_is_wrong_is_told_by_its_url(url, tmp_path) -> None:
    job = at(Job(tmp_path), url)
    with job.open() as pipeline, pytest.raises(PipelineError, match=r"/member is no folder and no"):
        pipeline.step()
    put(url, "member/a.csv", "sign,who\n+,a\n")
    with job.open() as pipeline, pytest.raises(DriftError, match=rf"{url}/member/a\.csv lacks"):
        pipeline.step()
    put(url, "member/a.csv", b"\x28\xb5\x2f")
    folder_at(f"{url}/member").remove("a.csv")
    put(url, "member/b.csv.gz", b"no gzip")
    said = rf"{url}/member/b\.csv\.gz: cannot be read as csv"
    with job.open() as pipeline, pytest.raises(PipelineError, match=said):
        pipeline.step()
    job.toml.write_text(job.toml.read_text().replace("bucket", "nowhere"))
    with job.open() as pipeline, pytest.raises(PipelineError, match="nowhere"):
        pipeline.step()


def test_spark_is_refused_what_its_tasks_do_not_open(tmp_path: Path) -> None:
    from deltafix.spark.sources import on_spark

    job = at(Job(tmp_path), "s3://bucket/x")
    config = read_config(job.toml)
    with pytest.raises(ConfigError, match='read with runner = "local", or by Spark with source'):
        on_spark()(config, config.inputs[0], {"member": None, "grant": None})  # type: ignore[dict-item]
