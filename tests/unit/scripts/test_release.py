"""What `make release` refuses: each check by itself, on a small repository."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

_FILE = Path(__file__).resolve().parents[3] / "scripts" / "release.py"
_SPEC = importlib.util.spec_from_file_location("release", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
release = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(release)


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "deltafix"\nversion = "1.2.3"\n')
    extension = tmp_path / "editors" / "vscode"
    extension.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        (extension / name).write_text('{"version": "1.2.3"}')
    changes(tmp_path, "## [1.2.3] - 2026-02-03\n\n- one\n\n## [1.2.2] - 2026-01-01\n")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(folder, *arguments):
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", "-C", folder, *who, *arguments], check=True)


def commit(folder):
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "all")


def changes(folder, text):
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n{text}")


def test_a_clean_tree_of_one_version_has_no_problems(tree):
    assert release.problems(tree, "1.2.3") == []


def test_what_is_not_committed_is_named(tree):
    (tree / "new.py").write_text("")
    changes(tree, "## [1.2.3] - 2026-02-04\n")
    (problem,) = release.problems(tree, "1.2.3")
    assert "?? new.py" in problem
    assert "M CHANGELOG.md" in problem


def test_another_version_of_the_extension_is_named(tree):
    (tree / "editors" / "vscode" / "package-lock.json").write_text('{"version": "1.2.2"}')
    commit(tree)
    (problem,) = release.problems(tree, "1.2.3")
    assert problem == "editors/vscode/package-lock.json has version 1.2.2, and should have 1.2.3"


def test_another_version_installed_is_named(tree):
    (problem,) = release.problems(tree, "1.2.2")
    assert "1.2.3" in problem
    assert "1.2.2" in problem


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("## [Unreleased]\n\n## [1.2.3] - 2026-02-03\n", "[Unreleased]"),
        ("## [1.2.2] - 2026-02-03\n", "[1.2.2] - 2026-02-03"),
        ("## [1x2.3] - 2026-02-03\n", "[1x2.3] - 2026-02-03"),
        ("## [1.2.3]\n", "[1.2.3],"),
        ("", "no section"),
    ],
)
def test_the_changelog_begins_with_the_version_and_its_day(tree, text, said):
    changes(tree, text)
    commit(tree)
    (problem,) = release.problems(tree, "1.2.3")
    assert said in problem


def test_only_files_of_the_version_are_to_be_uploaded(tree):
    names = ["deltafix-1.2.3.tar.gz", "deltafix-1.2.3-py3-none-any.whl"]
    for name in [*names, "deltafix-1.2.2-py3-none-any.whl", "deltafix-1.2.30-py3-none-any.whl"]:
        (tree / name).write_text("")
    assert [file.name for file in release.built(tree, "1.2.3")] == names
    for name in names:
        (tree / name).rename(tree / "elsewhere")
        with pytest.raises(FileNotFoundError, match="1\\.2\\.3"):
            release.built(tree, "1.2.3")
        (tree / "elsewhere").rename(tree / name)
