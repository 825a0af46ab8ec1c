"""A URL is never taken for the name of a folder, wherever a path is taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.pipelines import Job

from deltafix.errors import SourceError
from deltafix.facts.sink import whole_file
from deltafix.paths import local_path
from deltafix.pipeline.config import read_config, schemas_of
from deltafix.pipeline.sources.registry import make_source

PROGRAM = ".decl e(x: number)\n.output e\ne(1).\n"
COMMANDS = [
    "run s3://b/p.dl", "run p.dl -F s3://b/in", "run p.dl -D hdfs://b/out", "plan s3://b/p.dl",
    "check p.dl s3://b/p.dl", "fmt s3://b/p.dl", "serve p.dl -F gs://b", "why s3://b/p.dl e(1)",
    "watch p.dl -F s3a://b", "dead-code s3://b/src", "analyse lineage s3://b/sql",
    "ask callers f --in s3://b/src", "ask impact s3://b/f.py",
    "churn https://host/repo HEAD", "pipeline check s3://b/p.toml", "pipeline run s3://b/p.toml",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_refuses_a_url_and_makes_nothing(
    command, deltafix, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.dl").write_text(PROGRAM)
    ran = deltafix(*command.split())
    assert (ran.code, ran.out) == (2, "")
    assert "is a URL, and this takes a path of the local disk" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["p.dl"]


@pytest.mark.parametrize("url", ["s3://b/x", "hdfs://h:9000/x", "abfss://c@a/x", "file://host/x"])
def test_urls_are_told_from_paths_even_without_a_slash(url) -> None:
    for where in (url, Path(url)):
        with pytest.raises(SourceError, match="is a URL"):
            local_path(where)
    with pytest.raises(SourceError, match="is a URL"), whole_file(Path(url)):
        pass
    assert not Path(Path(url).parts[0]).exists()


@pytest.mark.parametrize("path", ["a/b", "/a/b", "C:/a", "a:b", "s3", "./s3:/x", ""])
def test_paths_stay_paths(path) -> None:
    assert local_path(path) == Path(path)
    assert local_path("file:///a/b") == Path("/a/b")


@pytest.mark.parametrize("source", ["files", "snapshot"])
def test_an_input_that_this_process_reads_refuses_a_url(source, tmp_path) -> None:
    job = Job(tmp_path)
    old = 'source = "files"\npath = "in/member"'
    new = f'source = "{source}"\npath = "hdfs://b/x"'
    job.toml.write_text(job.toml.read_text().replace(old, new))
    config = read_config(job.toml)
    with pytest.raises(SourceError, match="hdfs://b/x is a URL"):
        make_source(config, config.inputs[0], schemas_of(config.program))
