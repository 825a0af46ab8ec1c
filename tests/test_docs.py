"""What the documentation shows is what happens: its files, commands and Python run here.

In a page, a fenced block with a `title` is a file; `console` blocks are `deltafix` commands with
their output; `python` blocks are doctests that share names down the page. All of them run in one
folder: a scratch one for pages, whose path is left out of what commands print, the example's own
for an example's README. A new page is run without being listed anywhere.
"""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from pkgutil import resolve_name
from typing import NamedTuple

import pytest

import deltafix
from deltafix.cli.main import main

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    kind: str
    title: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(found[1], found[2] or "", found[3], text.count("\n", 0, found.start()) + 2)
        for found in FENCE.finditer(text)
    ]


def commands(block: Block) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        yield command, expected


def run_command(command, monkeypatch, capsys):
    words = shlex.split(command)
    assert words[0] == "deltafix", command
    if "<" in words:
        at = words.index("<")
        monkeypatch.setattr("sys.stdin", StringIO(Path(words[at + 1]).read_text()))
        del words[at : at + 2]
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(words[1:])
    captured = capsys.readouterr()
    return captured.out + captured.err


def run_python(block: Block, names: dict, page: Path) -> None:
    test = doctest.DocTestParser().get_doctest(block.text, names, page.name, str(page), block.line)
    assert test.examples, f"{page.name}:{block.line}: no line begins with >>>, so nothing runs"
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    result = runner.run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    assert result.failed == 0, "".join(report)


pytestmark = pytest.mark.usefixtures("warm_kernel")

SHOWN_ONLY = {
    "docs/guides/spark.md": "needs streams and frames of its own: tests/spark/test_maintain.py",
    "docs/guides/bundle.md": "shows files of examples/bundle: tests/spark/test_bundle.py",
    "docs/guides/dead-code.md": "prints how long it took: tests/unit/analyses/test_report.py",
}
"""Pages whose code is not run here, with the tests that run the like of it."""

RUN = {"python", "console"}
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if str(page.relative_to(ROOT)) not in SHOWN_ONLY
    and any(block.kind in RUN for block in blocks(page))
]
DEMOS = {
    "access-control": "tests/unit/examples/test_pipeline_examples.py",
    "bundle": "tests/spark/test_bundle.py",
    "cluster": "tests/unit/examples/test_cluster.py",
    "dbt": "tests/unit/sql/test_dbt.py",
    "dead-code": "tests/unit/analyses/test_demo.py",
    "gallery": "tests/unit/reactive/test_gallery.py",
    "package-dependencies": "tests/unit/examples/test_pipeline_examples.py",
    "sql-pipeline": "tests/unit/examples/test_pipeline_examples.py",
}
"""Examples that commands of this page cannot run, with the tests that run them."""
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/README.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_shows_what_happens(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        if block.title:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.text)
    names: dict = {}
    ran = 0
    for block in blocks(page):
        if block.kind == "python":
            run_python(block, names, page)
            ran += 1
        elif block.kind == "console":
            for command, expected in commands(block):
                shown = run_command(command, monkeypatch, capsys)
                assert shown == expected, command
                ran += 1
    assert ran > 0


def test_pages_that_are_not_run_exist_and_say_what_runs_instead():
    for page, reason in SHOWN_ONLY.items():
        shown = [block for block in blocks(ROOT / page) if block.kind in RUN]
        assert shown, page
        for block in shown:
            if block.kind == "python":
                compile(block.text, f"{page}:{block.line}", "exec")  # a SyntaxError fails the test
        assert (ROOT / reason.rpartition(" ")[2]).exists(), reason


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r"[\w/-]+\.md$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert pages == listed


@pytest.mark.parametrize(
    "folder", [f for f in EXAMPLES if f.name not in DEMOS], ids=lambda folder: folder.name
)
def test_an_example_prints_what_its_readme_says(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    ran = 0
    for block in blocks(folder / "README.md"):
        if block.kind == "console":
            for command, expected in commands(block):
                assert run_command(command, monkeypatch, capsys) == expected, command
                ran += 1
    assert ran > 0


@pytest.mark.parametrize("name", DEMOS)
def test_an_example_with_a_program_of_its_own_is_run_by_a_test(name):
    assert not any(b.kind in RUN for b in blocks(ROOT / "examples" / name / "README.md"))
    assert name in (ROOT / DEMOS[name]).read_text()


def test_there_are_examples_and_each_has_a_program():
    assert {"access-rights", "reachability"} <= {folder.name for folder in EXAMPLES}
    for folder in EXAMPLES:
        kinds = ("dl", "fga", "py", "sql")
        programs = [one for kind in kinds for one in folder.rglob(f"*.{kind}")]
        assert programs, folder


LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


@pytest.mark.parametrize(
    "page",
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*/README.md")],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_links_between_pages_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


REFERENCE = [ROOT / "docs" / "reference.md", *(ROOT / "docs" / "reference").glob("*.md")]
SHOWN = re.findall(r"^::: ([\w.]+)$", "\n".join(p.read_text() for p in REFERENCE), re.MULTILINE)


@pytest.mark.parametrize("name", SHOWN)
def test_what_the_reference_shows_exists_and_has_a_docstring(name):
    if find_spec("pyspark") is None and name.startswith("deltafix.spark."):
        pytest.skip("pyspark is not installed")
    shown = resolve_name(name)
    assert shown.__doc__, name


def test_every_public_name_is_in_the_reference():
    for name in deltafix.__all__:
        home = getattr(deltafix, name).__module__
        assert {home, f"{home}.{name}"} & set(SHOWN), f"{home}.{name}"


def test_every_package_is_in_the_architecture_page():
    tree = (ROOT / "docs" / "architecture.md").read_text()
    source = ROOT / "src" / "deltafix"
    for package in source.rglob("*/__init__.py"):
        room = f"`{package.parent.relative_to(source)}/"
        assert room in tree, room


TOLD = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
PLACES = {
    (page, found[1])
    for page in TOLD
    for found in re.finditer(r"`(\w(?:[\w.-]*/)+[\w.-]*)`", FENCE.sub("", page.read_text()))
    if re.search(r"/$|\.(dl|md|py|sh|toml|txt|v)$", found[1])
    and (page.name == "architecture.md" or "/" in found[1][:-1])  # a user's `models/` is not ours
}
NAMES = {
    (page, *found)
    for page in TOLD
    for found in re.findall(r"`([\w/]+\.py)` `(\w+)`", page.read_text())
}


def lies(place: str, page: Path) -> Path | None:
    """Where a file or a folder lies that a page names: beside it, or in a room of the tree."""
    package = ROOT / "src" / "deltafix"
    rooms = (page.parent, ROOT, package, package / "analyses", ROOT / "docs", ROOT / "tests")
    return next((room / place for room in rooms if (room / place).exists()), None)


def test_files_that_pages_name_are_there():
    assert len(PLACES) > 100
    missing = [(page.name, place) for page, place in PLACES if lies(place, page) is None]
    assert missing == []


def test_functions_that_pages_name_with_their_file_are_there():
    assert len(NAMES) >= 15
    for page, place, name in NAMES:
        file = lies(place, page)
        assert file is not None, (page.name, place)
        assert re.search(rf"^ *def {name}\(|^{name} = ", file.read_text(), re.M), (place, name)
