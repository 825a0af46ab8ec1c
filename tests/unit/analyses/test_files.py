"""The analysed folder: what belongs to it, what changed, and what a look costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltafix.analyses.dead_code import DEAD_CODE
from deltafix.analyses.facts import from_arrow
from deltafix.analyses.files import Scan, Stamp, Tree, changes
from deltafix.analyses.reading import extract_batch, paths_table, read_fragments
from deltafix.errors import SourceError


def write(root: Path, *paths: str, text: str = "") -> None:
    """Files below `root`, all with the same text."""
    for name in paths:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_a_scan_lists_source_and_project_files_and_leaves_out_what_is_not_ours(
    tmp_path: Path,
) -> None:
    write(tmp_path, "a.py", "pkg/b.py", "pyproject.toml", "gen/keep.py")
    write(tmp_path, "build/lib/c.py", "pkg/__pycache__/x.py", "node_modules/x.py", "gen/made.py")
    write(tmp_path, "env/pyvenv.cfg", "env/lib/y.py", ".hidden/z.py", "notes.log")
    scan = DEAD_CODE.tree(tmp_path, ["gen/made*"]).scan()
    assert list(scan.files) == ["a.py", "gen/keep.py", "pkg/b.py", "pyproject.toml"]
    assert scan.skipped == {}


def test_files_without_an_ending_are_source_where_they_are_asked_for(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "bin/run", "bin/.run", "x.y/z.bin")
    assert list(DEAD_CODE.tree(tmp_path).scan().files) == ["a.py", "bin/run"]
    plain = Tree.at(tmp_path, suffixes=(".py",))
    assert list(plain.scan().files) == ["a.py"]
    assert not plain.holds("bin/run")


def test_links_out_of_the_folder_are_skipped_with_a_reason(tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("secret = 1")
    root = tmp_path / "root"
    write(root, "a.py")
    (root / "link.py").symlink_to(outside)
    (root / "inner.py").symlink_to(root / "a.py")
    (root / "folder").symlink_to(tmp_path)
    scan = DEAD_CODE.tree(root).scan()
    assert list(scan.files) == ["a.py", "inner.py"]
    assert scan.skipped == {"link.py": "a link out of the folder"}


def test_a_folder_within_packages_knows_their_names(tmp_path: Path) -> None:
    write(tmp_path, "top/__init__.py", "top/sub/__init__.py", "top/sub/m.py")
    assert DEAD_CODE.tree(tmp_path / "top" / "sub").prefix == "top.sub"
    assert DEAD_CODE.tree(tmp_path).prefix == ""


def test_a_single_file_and_the_project_file_above(tmp_path: Path) -> None:
    project = tmp_path / "project"
    write(project, "src/shop/a.py", "src/shop/b.py", "pyproject.toml")
    assert list(DEAD_CODE.tree(project / "src").scan().files) == [
        "../pyproject.toml",
        "shop/a.py",
        "shop/b.py",
    ]
    one = DEAD_CODE.tree(project / "src" / "shop" / "a.py")
    assert list(one.scan().files) == ["../../pyproject.toml", "a.py"]
    write(project, "setup.py", "setup.cfg", "src/pyproject.toml")
    (project / "pyproject.toml").unlink()
    assert "../pyproject.toml" in DEAD_CODE.tree(project / "src" / "shop").scan().files
    (project / "src" / "pyproject.toml").unlink()
    above = ["../../setup.cfg", "../../setup.py"]  # all of the nearest folder that has any
    assert list(DEAD_CODE.tree(project / "src" / "shop").scan().files)[:2] == above
    (project / "src" / ".git").mkdir()
    assert list(DEAD_CODE.tree(project / "src").scan().files) == ["shop/a.py", "shop/b.py"]


def test_what_is_neither_folder_nor_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="neither a folder nor a file"):
        DEAD_CODE.tree(tmp_path / "nowhere")


def test_changes_are_new_changed_and_gone_files() -> None:
    def stamp(size: int) -> Stamp:
        return Stamp(1, size, 1)

    before = Scan({"a": stamp(1), "b": stamp(1), "c": stamp(1)}, {})
    after = Scan({"a": stamp(1), "b": stamp(2), "d": stamp(1)}, {})
    assert changes(before, after) == (["b", "d"], ["c"])
    assert changes(after, after) == ([], [])


def test_reading_fragments_reports_progress_and_survives_a_file_that_vanished(
    tmp_path: Path,
) -> None:
    write(tmp_path, "a.py", text="def f(): ...")
    steps: list[tuple[int, int]] = []
    tree = DEAD_CODE.tree(tmp_path)
    found = list(
        read_fragments(tree, ["a.py", "b.py"], DEAD_CODE.extract, lambda *step: steps.append(step))
    )
    assert [(one.path, one.error) for one in found] == [
        ("a.py", None),
        ("b.py", "No such file or directory"),
    ]
    assert steps == [(1, 2), (2, 2)]


def test_agree_a_batch_of_paths_gives_the_fragments_of_reading_them(tmp_path: Path) -> None:
    write(tmp_path, "a.py", text="def f(): ...")
    write(tmp_path, "b.py", text="class C: x = 1")
    write(tmp_path, "c.py", text="broken(")
    tree, paths = DEAD_CODE.tree(tmp_path), ["a.py", "b.py", "c.py"]
    batch = paths_table(paths).to_batches()[0]
    assert from_arrow(extract_batch(tree, DEAD_CODE.extract, batch)) == list(
        read_fragments(tree, paths, DEAD_CODE.extract)
    )
