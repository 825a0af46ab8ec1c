"""The examples that run pipelines print what their READMEs say, and the lists' rules are exact."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from deltafix.analyses.debian.extractor import DEBIAN
from deltafix.cli.main import main

ROOT = Path(__file__).resolve().parents[3]
SMALL = ROOT / "examples" / "package-dependencies" / "small"


@pytest.mark.parametrize("name", ["access-control", "package-dependencies", "sql-pipeline"])
def test_an_example_prints_what_its_readme_says(name) -> None:
    folder = ROOT / "examples" / name
    wanted = re.search(r"```text\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    before = sorted(folder.rglob("*"))
    ran = subprocess.run(
        [sys.executable, folder / "demo.py"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == wanted[1]
    assert sorted(folder.rglob("*")) == before  # it can be run again


@pytest.mark.parametrize("name", ["access-control", "package-dependencies", "sql-pipeline"])
def test_their_pipeline_files_are_right(name, warm_kernel, capsys) -> None:
    path = ROOT / "examples" / name / "pipeline.toml"
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", "check", str(path)])
    assert ended.value.code == 0
    assert capsys.readouterr().out.endswith("pipeline.toml: ok\n")


def facts(root: Path) -> set:
    import pyarrow as pa

    paths = pa.record_batch({"path": pa.array(DEBIAN.scan(root), pa.string())})
    found = DEBIAN.extract(root, paths)
    return {(one["relation"], tuple(one["row"])) for one in found.to_pylist()}


def test_package_lists_say_what_is_in_them(tmp_path) -> None:
    found = facts(SMALL)
    assert ("essential", ("base",)) in found
    assert ("automatic", ("libgui",)) in found
    assert ("installed", ("old",)) not in found
    assert ("provides", ("spell", "dictionary")) in found
    group = "depends libgui | libtext"
    assert {row for name, row in found if name == "needs" and row[0] == "editor"} == {
        ("editor", "depends libc", "0", "libc"),
        ("editor", group, "0", "libgui"),
        ("editor", group, "1", "libtext"),
        ("editor", "recommends spell", "0", "spell"),
    }
    assert facts(tmp_path) == set()
    status = tmp_path / "var" / "lib" / "dpkg" / "status"
    status.parent.mkdir(parents=True)
    status.write_bytes(b"\xff")
    ((relation, (reason,)),) = facts(tmp_path)
    assert relation == "<error>"
    assert "can't decode byte 0xff" in reason
