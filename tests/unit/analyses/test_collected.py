"""What pytest's settings make a test: the judge is pytest itself, which collects the same tree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deltafix.analyses.dead_code import DEAD_CODE
from deltafix.analyses.dead_code.collected import Collected
from deltafix.analyses.dead_code.job import DeadCode
from deltafix.analyses.watch import Watcher
from deltafix.errors import SourceError

TESTS = "def test_a(): ...\nclass Check:\n    def check_b(self): ...\ndef check_c(): ...\n"
FILES = ("tests/checks.py", "tests/it_a.py", "tests/deep/it_b.py", "tests/test_c.py", "app/it_d.py",
         "app/core.py", "it_e.py", "checks.py")  # fmt: skip
_ONE = "[pytest]\npython_files = checks.py\n"
SETTINGS: dict[str, dict[str, str]] = {
    "a list": {"pyproject.toml": "[tool.pytest.ini_options]\npython_files = ['checks.py']\n"},
    "a text of globs": {"pyproject.toml": "[tool.pytest.ini_options]\npython_files='it_* c*'\n"},
    "a path": {"tox.ini": "[pytest]\npython_files =\n  tests/it_*.py  # ours\n  'test_c.py'\n"},
    "deeper": {"setup.cfg": "[tool:pytest]\npython_files = deep/*.py\n"},
    "named": {"pytest.ini": "[pytest]\ntestpaths = tests app/core.py it_?.py\n"},
    "own file first": {"pytest.ini": "[pytest]\n", "tox.ini": _ONE},
    "hidden": {".pytest.ini": "[pytest]\npython_files = it_*\n", "pyproject.toml": "[tool.x]\n"},
    "shared in order": {"setup.cfg": "[tool:pytest]\npython_files=it_*\n", "tox.ini": _ONE},
    "nothing said": {"tox.ini": "[tox]\n", "pyproject.toml": "[project]\nname = 'a'\n"},
}


def collecting(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """pytest alone: loading the plugins that are installed here took most of the time."""
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        command, cwd=folder, env=alone, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("case", SETTINGS)
def test_what_pytest_collects_is_a_test(case: str, tmp_path: Path) -> None:
    for path in FILES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(TESTS)
    for path, text in SETTINGS[case].items():
        (tmp_path / path).write_text(text)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider",
               "--import-mode=importlib"]  # fmt: skip
    ran = collecting(command, tmp_path)
    taken = {line.partition("::")[0] for line in ran.stdout.splitlines() if "::" in line}
    assert taken or ran.returncode == 5, ran.stdout
    found = Collected.by_settings(tmp_path)
    said = {path for path in FILES if found.is_test(path)}
    by_name = {path for path in FILES if Collected().is_test(path)}
    if "testpaths" in str(SETTINGS[case]):  # where pytest looks alone, if it is told no path
        assert taken <= said
        assert said == by_name | {"app/core.py", "it_e.py"}
    else:
        assert said == taken | by_name
    below = Collected.by_settings(tmp_path / "tests")
    assert {f"tests/{one}" for one in ("checks.py", "it_a.py", "deep/it_b.py", "test_c.py")
            if below.is_test(one)} == {one for one in said if one.startswith("tests/")}  # fmt: skip


def test_names_of_functions_and_broken_settings(tmp_path: Path) -> None:
    settings = tmp_path / "pytest.ini"
    settings.write_text("[pytest]\npython_functions = check_*\n")
    assert Collected.by_settings(tmp_path).is_renamed("shop/cart.py")
    settings.write_text("[pytest]\npython_files = 'checks.py\n")
    with pytest.raises(SourceError, match=r"pytest\.ini: python_files = .*: write texts or a list"):
        Collected.by_settings(tmp_path)
    settings.write_text("python_files = checks.py\n")
    with pytest.raises(SourceError, match=r"pytest\.ini has no settings .* no section headers"):
        Collected.by_settings(tmp_path)


LAYOUTS = {
    "the folder's": {"pyproject.toml": "[tool.pytest.ini_options]\npython_files = 'it_*.py c*.py'\n"
                                       "python_functions = 'check'\npython_classes = '*Check'\n"},
    "one below": {"app/pytest.ini": "[pytest]\npython_files = it_*.py\npython_functions = check_*\n"
                                    "python_classes = Check\n"},
    "a path": {"setup.cfg": "[tool:pytest]\npython_files = deep/it_[ab].py app/c*\n"
                            "python_functions = c[!x]eck_*\n"},
    "functions alone": {"tox.ini": "[pytest]\npython_functions = check_*\n"},
    "none": {},
}  # fmt: skip
MODULES = ("app/__init__.py", "app/it_d.py", "app/core.py", "app/deep/__init__.py",
           "app/deep/it_b.py", "app/checks.py", "app/test_e.py", "main.py")  # fmt: skip


@pytest.mark.parametrize("case", LAYOUTS)
def test_what_pytest_runs_is_no_dead_code(case: str, tmp_path: Path) -> None:
    """Where pytest's settings name tests otherwise, these are roots, and nothing else is."""
    for path in MODULES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        text = "import app\nprint(app)\n" if path == "main.py" else ""
        (tmp_path / path).write_text(text if "__init__" in path or text else TESTS)
    for path, text in LAYOUTS[case].items():
        (tmp_path / path).write_text(text)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    inner = [path.parent for path in tmp_path.glob("*/pytest.ini")]
    taken: set[str] = set()
    for folder in inner or [tmp_path]:
        ran = collecting(command, folder)
        below = folder.relative_to(tmp_path).as_posix()
        for line in ran.stdout.splitlines():
            if "::" in line:
                path, _, name = line.partition("::")
                path = path if path.startswith(f"{below}/") or below == "." else f"{below}/{path}"
                module = path.removesuffix(".py").replace("/", ".")
                taken.add(f"{module}:{name.replace('::', '.')}")
    assert taken, ran.stdout
    with DeadCode(confidence="likely", roots=["entry-points"]) as job:
        Watcher(DEAD_CODE.tree(tmp_path), job, DEAD_CODE.extract).poll()
        symbols = {str(one) for one, kind in job.rows("symbol") if kind in ("function", "method")}
        live = symbols - {one.symbol for one in job.dead()}
    assert taken <= live
    # What default names would collect there is alive, too; of files that pytest leaves, nothing is.
    assert {one for one in live - taken if not one.startswith("app.test_e:")} <= {
        f"{one.partition(':')[0]}:test_a" for one in taken
    }
    assert ("app.test_e:check_c" in live) == (case != "none")
