"""Coverage data as roots, reports for other tools, and the hook, through the command line."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path

import coverage
import pytest

from deltafix.analyses.dead_code import DEAD_CODE
from deltafix.analyses.dead_code.coverage import symbols_that_ran
from deltafix.cli import main as command_line
from deltafix.errors import SourceError

SHOP = "def f():\n    return g()\ndef g():\n    return 1\ndef h():\n    return 2\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            options = ["--roots", "entry-points", "--confidence", "likely"]
            command_line.main([*map(str, arguments), *options])
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return call


def report(folder: Path, lines: dict[str, list[int]], name: str = "coverage.json") -> Path:
    path = folder / name
    files = {file: {"executed_lines": executed} for file, executed in lines.items()}
    path.write_text(json.dumps({"meta": {"version": "7"}, "files": files}))
    return path


def test_what_ran_is_alive_with_all_it_uses(tree: Path, run: Callable) -> None:
    # All `def` lines ran at import; of the bodies only f's did, by the data.
    data = report(tree, {"src/shop.py": [1, 2, 3, 5]})
    assert symbols_that_ran(DEAD_CODE.tree(tree / "src"), data).symbols == {"shop:f"}
    code, out, _ = run("dead-code", "src", "--coverage", data)
    assert code == 1
    assert [line.split()[3] for line in out.splitlines()[:-1]] == ["shop:h"]
    why = run("dead-code", "src", "--coverage", data, "--why", "g")[1]
    assert "shop:f is a root (ran under coverage)" in why


def test_the_data_file_says_the_same_as_the_report(tree: Path) -> None:
    data = coverage.CoverageData(basename=str(tree / ".coverage"))
    data.add_lines({str(tree / "src" / "shop.py"): [1, 3, 5, 6]})
    data.write()
    data.close()
    ran = symbols_that_ran(DEAD_CODE.tree(tree / "src"), tree / ".coverage")
    assert (ran.symbols, ran.files) == ({"shop:h"}, 1)


def test_a_file_saved_after_the_run_is_left_out_with_a_reason(tree: Path, run: Callable) -> None:
    data = report(tree, {"src/shop.py": [1, 2]})
    later = data.stat().st_mtime_ns + 10**9
    os.utime(tree / "src" / "shop.py", ns=(later, later))
    code, out, err = run("dead-code", "src", "--coverage", data)
    assert code == 1
    assert "dead module shop (with 3 inside, likely: it stands in the top folder" in out
    assert "coverage of shop.py not used: saved after coverage.json was written" in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not coverage data: JSONDecodeError"),
        (b'{"totals": {}}', "is not coverage data: KeyError: 'files'"),
        (b'{"files": {"other.py": {"executed_lines": [1]}}}', "measured nothing under"),
        (b"SQLite format 3\x00 and no more", "is not coverage data"),
    ],
)
def test_data_that_cannot_be_used_is_an_error(tree: Path, content: bytes, message: str) -> None:
    (tree / "data").write_bytes(content)
    with pytest.raises(SourceError, match=message):
        symbols_that_ran(DEAD_CODE.tree(tree / "src"), tree / "data")
    with pytest.raises(SourceError, match="No such file"):
        symbols_that_ran(DEAD_CODE.tree(tree / "src"), tree / "nothing")


def test_what_was_assumed_is_told_in_every_format(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(*options: str) -> str:
        with pytest.raises(SystemExit):
            command_line.main(["dead-code", "src", "-q", *options])
        return capsys.readouterr().out

    assumed = next(one for one in shown().splitlines() if one.startswith("assumed a library: "))
    assert json.loads(shown("--format", "json"))["assumed"]["kind"] == "library"
    assert f"::notice title=Dead code::{assumed}" in shown("--format", "github").splitlines()
    run = json.loads(shown("--format", "sarif"))["runs"][0]["invocations"][0]
    assert {"level": "note", "message": {"text": assumed}} in run["toolConfigurationNotifications"]
    assert "assumed" not in shown("--format", "github", "--roots", "public")


def test_annotations_name_the_place_from_the_repository(tree: Path, run: Callable) -> None:
    (tree / "src" / "odd,name%.py").write_text("def broken(:")
    code, out, _ = run("dead-code", "src", "-q", "--format", "github")
    lines = out.splitlines()
    assert code == 1
    assert lines[0].startswith(
        "::notice file=src/shop.py,line=1,title=Dead code::dead module shop (likely: it stands in"
    )
    assert lines[1].startswith(
        "::warning file=src/odd%2Cname%25.py,line=1,title=Dead code::not rea"
    )
    (tree / "src" / "main.py").write_text("import shop\nif __name__ == '__main__': shop.f()\n")
    annotated = run("dead-code", "src", "-q", "--format", "github")[1]
    assert "::warning file=src/shop.py,line=5,col=5,title=Dead code::dead function" in annotated
    notices = [line for line in lines[2:-1] if line.startswith("::notice title=Dead code::")]
    assert notices == lines[2:-1]
    assert "::notice title=Dead code::what only an unread file uses may be reported dead" in notices
    assert lines[-1].startswith("4 dead symbols among 4")


def test_a_baseline_knows_what_was_not_read_and_hides_nothing_new(
    tree: Path, run: Callable
) -> None:
    (tree / "src" / "old.py").write_text("def broken(:")
    (tree / "src" / "older.py").write_text("x = (")
    known = tree / "known.json"
    assert run("dead-code", "src", "-q", "--write-baseline", known)[0] == 0

    def annotated() -> list[str]:
        given = run("dead-code", "src", "-q", "--format", "github", "--baseline", known)
        assert given[0] == 0
        return [one for one in given[1].splitlines() if "read" in one]

    uses = "::notice title=Dead code::what only an unread file uses may be reported dead"
    as_known = "::notice title=Dead code::not read, as the baseline has it: {}"
    assert annotated() == [uses, as_known.format("2 files")]
    (tree / "src" / "new.py").write_text("def broken(:")
    (tree / "src" / "old.py").unlink()
    failed, *others = annotated()
    assert failed.startswith("::warning file=src/new.py,line=1,title=Dead code::not read: line 1")
    assert others == [
        uses,
        as_known.format("1 file"),
        "::notice title=Dead code::not read by the baseline, and now read or gone: 1 file; write "
        "the baseline anew",
    ]
    log = json.loads(run("dead-code", "src", "-q", "--format", "json", "--baseline", known)[1])
    assert [*log["unreadable"]] == ["new.py"]


def test_sarif_has_a_rule_a_place_and_a_fingerprint_per_finding(tree: Path, run: Callable) -> None:
    (tree / "src" / "main.py").write_text("import shop\nif __name__ == '__main__': shop.f()\n")
    code, out, _ = run("dead-code", "src", "-q", "--format", "sarif")
    log = json.loads(out)
    assert (code, log["version"], len(log["runs"])) == (1, "2.1.0", 1)
    found = log["runs"][0]
    (result,) = found["results"]
    assert found["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    assert (result["ruleId"], result["level"], result["rank"]) == (
        "dead-function",
        "warning",
        100.0,
    )
    assert result["message"]["text"] == "dead function shop:h"
    place = result["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "src/shop.py"},
        "region": {"startLine": 5, "startColumn": 5},
    }
    assert result["partialFingerprints"] == {"symbol/v1": "shop.py#shop:h"}


def test_csv_has_a_line_for_each_finding_and_a_limit_says_what_is_left(
    tree: Path, run: Callable
) -> None:
    (tree / "src" / "main.py").write_text("import shop\nif __name__ == '__main__': shop.f()\n")
    (tree / "src" / "more.py").write_text("def one(): pass\ndef two():\n    def inner(): pass\n")
    code, out, _ = run("dead-code", "src", "-q", "--format", "csv")
    told = list(csv.DictReader(out.splitlines()))
    assert code == 1
    assert [one["symbol"] for one in told if one["inside"]] == [
        "more:one", "more:two", "more:two.<locals>.inner",
    ]  # fmt: skip
    assert ("shop.py", "5", "shop:h", "function", "sure") in [
        tuple(one.values())[:5] for one in told
    ]
    code, out, _ = run("dead-code", "src", "-q", "--format", "csv", "--limit", "1")
    assert (code, len(out.splitlines())) == (1, 2)
    code, out, _ = run("dead-code", "src", "-q", "--limit", "1")
    lines = out.splitlines()
    assert lines[1] == "1 more (--limit 1)"
    assert lines[-1].startswith(f"{len(told)} dead symbols among")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--watch", "--format", "sarif"), "--format sarif"),
        (("--watch", "--format", "csv"), "--format csv"),
        (("--limit", "2", "--format", "json"), "--limit cannot be combined with --format json"),
    ],
)
def test_formats_for_one_report_refuse_what_they_have_not(
    tree: Path, run: Callable, words: tuple[str, ...], said: str
) -> None:
    code, _, err = run("dead-code", "src", *words)
    assert code == 2
    assert said in err


def test_an_unknown_framework_is_bad_input(tree: Path, run: Callable) -> None:
    code, _, err = run("dead-code", "src", "--framework", "rails")
    assert code == 2
    assert err.startswith("error[DF653]: there is no framework 'rails'; there are click, django")
