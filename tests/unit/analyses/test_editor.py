"""The view behind an editor: what is said of a name, where it is used, and what a fix leaves.

Fixes are held against the analysis itself: after one, the symbol is gone or alive, nothing else has
become dead or unreadable, and no import names what is not there.
"""

from __future__ import annotations

import ast
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deltafix.analyses.dead_code.editor import EditorView, Fix
from deltafix.analyses.dead_code.edits import EditError, edited
from deltafix.analyses.dead_code.findings import Also
from deltafix.analyses.dead_code.job import DeadCode
from deltafix.analyses.dead_code.source import Source

MAIN = 'if __name__ == "__main__": '
ALL: tuple[Also, ...] = ("imports", "locals", "arguments", "attributes")
HERE = Path(__file__).parents[3]

SHOP = {
    "shop/__init__.py": "",
    "shop/cart.py": (
        "from shop.price import tax, old_tax as before\n\n\n"
        "class Cart:\n    def total(self):\n        return tax(1)\n\n"
        "    def _left(self): ...\n\n\n"
        "def _idle(): return before(2)\n"
    ),
    "shop/price.py": (
        "RATE = 2\n\n\n"
        "def tax(x):\n    return x * RATE\n\n\n"
        "# what it was\ndef old_tax(x):\n    return x\n"
    ),
    "run.py": f"from shop.cart import Cart\n{MAIN}print(Cart().total())\n",
}


@contextmanager
def viewed(
    root: Path,
    files: dict[str, str] | None = None,
    *,
    also: tuple[Also, ...] = (),
    roots: tuple[str, ...] = ("entry-points",),
) -> Iterator[EditorView]:
    for path, text in (files or {}).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    with DeadCode(roots=roots, confidence="likely", also=also) as job:
        view = EditorView(job.analysis.tree(root), job)
        view.load()
        yield view


def at(view: EditorView, path: str, words: str, name: str) -> int:
    """The offset of `name` in the first place of these words in a file."""
    text = view.on_disk(path)
    return text.index(words) + words.index(name)


def said(view: EditorView, places: list[tuple[str, tuple[int, int]]]) -> list[str]:
    """`path:line:text` of each place."""
    found = []
    for path, (start, end) in places:
        text = view.on_disk(path)
        found.append(f"{path}:{text[:start].count(chr(10)) + 1}:{text[start:end]}")
    return found


def carry_out(view: EditorView, fix: Fix) -> list[str]:
    """Make a fix on the disk; the paths that it changed."""
    edits = view.edits(fix)
    for path, of_text in edits.texts.items():
        (view.tree.root / path).write_text(edited(view.on_disk(path), of_text))
    for path in edits.deleted:
        (view.tree.root / path).unlink()
    return [*edits.texts, *edits.deleted]


def test_a_name_says_why_it_is_alive_or_dead(tmp_path: Path, warm_kernel: None) -> None:
    with viewed(tmp_path, SHOP) as view:

        def hover(path: str, words: str, name: str) -> str | None:
            found = view.hover(path, at(view, path, words, name))
            if found is None:
                return None
            (start, end), text = found
            assert view.on_disk(path)[start:end] == name
            return text

        alive = hover("shop/price.py", "def tax", "tax")
        assert alive is not None
        assert alive.splitlines()[:2] == [
            "shop.price:tax is alive:",
            '  run is a root (if __name__ == "__main__")',
        ]
        assert alive.splitlines()[-1] == "  shop.cart:Cart.total refers to shop.price:tax"
        assert hover("shop/cart.py", "tax(1)", "tax") == alive  # where it is used, and imported
        assert hover("shop/cart.py", "import tax", "tax") == alive
        assert hover("shop/price.py", "* RATE", "RATE") == hover("shop/price.py", "RATE =", "RATE")
        dead = "shop.price:old_tax is dead: only dead code refers to it\n  shop.cart:_idle\n"
        assert (hover("shop/cart.py", "before(2)", "before") or "").startswith(dead)
        assert (hover("shop/cart.py", "_idle", "_idle") or "").splitlines() == [
            "shop.cart:_idle is dead: nothing refers to it",
            "sure: nothing speaks against it",
        ]
        assert "likely: " in (hover("shop/cart.py", "old_tax", "old_tax") or "")
        assert "mentions .total" in (hover("run.py", ".total", "total") or "")
        assert hover("shop/price.py", "(x)", "x") is None  # a parameter
        assert hover("shop/price.py", "# what it was", "was") is None
        assert hover("run.py", "print", "print") is None  # a builtin
        assert view.hover("nothing.py", 0) is None
        (tmp_path / "shop" / "price.py").write_text("def (")
        view.saved(["shop/price.py"])
        assert view.hover("shop/price.py", 5) is None


def test_definitions_and_uses_are_where_the_code_says_the_name(
    tmp_path: Path, warm_kernel: None
) -> None:
    note = {"notes.md": "```python\nfrom shop.price import tax\ntax(3)\n```\n"}
    more = {"more.py": "import shop.cart\nshop.cart.Cart()\n"}
    with viewed(tmp_path, {**SHOP, **note, **more}) as view:
        start = at(view, "shop/price.py", "def tax", "tax")
        assert said(view, view.references("shop/price.py", start)) == [
            "notes.md:2:tax",
            "notes.md:3:tax",
            "shop/cart.py:1:tax",
            "shop/cart.py:6:tax",
        ]
        assert len(view.references("shop/price.py", start, declared=True)) == 5
        use = at(view, "shop/cart.py", "tax(1)", "tax")
        assert said(view, view.definitions("shop/cart.py", use)) == ["shop/price.py:4:tax"]
        other = at(view, "shop/cart.py", "before(2)", "before")
        assert said(view, view.definitions("shop/cart.py", other)) == ["shop/price.py:9:old_tax"]
        assert said(view, view.references("shop/cart.py", other)) == [
            "shop/cart.py:1:old_tax",
            "shop/cart.py:11:before",
        ]
        module = at(view, "more.py", "shop.cart", "cart")
        assert view.definitions("more.py", module) == [("shop/cart.py", (0, 0))]
        assert said(view, view.references("more.py", module)) == [
            "more.py:1:cart",
            "more.py:2:cart",
        ]
        assert view.references("run.py", at(view, "run.py", "print", "print")) == []


def test_a_dead_symbol_goes_with_its_users_and_every_import_of_it(
    tmp_path: Path, warm_kernel: None
) -> None:
    with viewed(tmp_path, SHOP) as view:
        (delete, keep) = view.fixes("shop/price.py", range(9, 10))
        assert [delete.title, keep.title] == [
            "Delete dead function shop.price:old_tax with what refers to it",
            "Keep function shop.price:old_tax (# deltafix: keep)",
        ]
        assert view.fixes("shop/price.py", range(1, 9)) == []
        assert sorted(carry_out(view, delete)) == ["shop/cart.py", "shop/price.py"]
        assert view.on_disk("shop/price.py").endswith("    return x * RATE\n")
        assert view.on_disk("shop/cart.py").startswith("from shop.price import tax\n")
        assert "_idle" not in view.on_disk("shop/cart.py")
        _, news = view.saved(["shop/price.py", "shop/cart.py"])
        assert news["shop/price.py"] == []


def test_what_is_unused_can_be_deleted_or_kept(tmp_path: Path, warm_kernel: None) -> None:
    text = (
        "import os, re\nimport json  # for later\nfrom lib import a\n\n\ndef f(x, y):\n    z = 1\n"
        "    w = g()\n    try: ...\n    except E as e: pass\n    return re\n\n\n"
        f"class C:\n    def m(self):\n        self.u = 1\n\n\n{MAIN}f(1, 2), C().m()\n"
    )
    with viewed(tmp_path, {"m.py": text}, also=ALL) as view:
        first = {(one.finding.symbol, one.action) for one in view.fixes("m.py", range(1, 99))}
        names = {"os", "json", "a", *(f"f.<locals>.{one}" for one in "xyzwe"), "C.u"}
        assert {name for name, action in first if action == "keep"} == {f"m:{n}" for n in names}
        while fixes := [one for one in view.fixes("m.py", range(1, 99)) if one.action == "delete"]:
            carry_out(view, fixes[-1])
            view.saved(["m.py"])
        assert view.on_disk("m.py").splitlines()[:8] == [
            "import re",
            "",
            "",
            "def f(x, y):",
            "    g()",
            "    try: ...",
            "    except E: pass",
            "    return re",
        ]
        while fixes := view.fixes("m.py", range(1, 99)):
            assert {one.action for one in fixes} == {"keep"}
            carry_out(view, fixes[0])
            view.saved(["m.py"])
        kept = [line for line in view.on_disk("m.py").splitlines() if "keep" in line]
        assert kept == [
            "def f(x, y):  # deltafix: keep",
            "        self.u = 1  # deltafix: keep",
        ]


def test_a_dead_module_goes_as_a_file(tmp_path: Path, warm_kernel: None) -> None:
    files = {**SHOP, "shop/_old.py": "from shop.price import tax\ntax(1)\n"}
    with viewed(tmp_path, files) as view:
        (delete,) = view.fixes("shop/_old.py", range(1, 2))
        assert carry_out(view, delete) == ["shop/_old.py"]
        assert view.saved(["shop/_old.py"])[1] == {"shop/_old.py": []}


def test_a_folder_that_goes_or_comes_stands_for_its_files(
    tmp_path: Path, warm_kernel: None
) -> None:
    root = tmp_path / "tree"
    with viewed(root, SHOP) as view:
        shown = {path for path, found in view.shown.items() if found}
        shutil.move(root / "shop", tmp_path / "shop")
        change, news = view.saved(["shop"])
        assert set(change.deleted) == {path for path in SHOP if path.startswith("shop/")}
        assert {path for path, found in news.items() if found == []} == shown
        shutil.move(tmp_path / "shop", root / "shop")
        (root / "shop" / "node_modules").mkdir()
        (root / "shop" / "node_modules" / "x.py").write_text("def f(): ...\n")
        change, news = view.saved(["shop", "shop/node_modules"])
        assert set(change.changed) == {path for path in SHOP if path.startswith("shop/")}
        assert {path for path, found in news.items() if found} == shown


def test_a_text_that_names_a_symbol_changes_how_sure_it_is(
    tmp_path: Path, warm_kernel: None
) -> None:
    texts = {
        "pyproject.toml": '[project]\nname = "shop"\n',
        "README.md": "see `_idle`\n",
        "setup.cfg": "[shop]\nhook = _idle\n",
        "tool": "#!/usr/bin/env python\nprint('_idle')\n",
        "dist.toml": "x = '_idle'\n",
    }
    for path, text in texts.items():
        root = tmp_path / path
        with viewed(root, SHOP) as view:
            (root / path).write_text(text)
            view.saved([path])
            for shown, found in view.shown.items():
                assert found == view.job.outermost(shown)
            if path != "pyproject.toml":
                (finding,) = [one for one in view.shown["shop/cart.py"] if "_idle" in one.symbol]
                assert finding.confidence == "likely"


def told(job: DeadCode) -> set[str]:
    return {one.symbol for one in job.dead()}


@pytest.mark.parametrize("seed", range(3))
def test_fixes_of_real_code_leave_what_the_analysis_says(
    tmp_path: Path, warm_kernel: None, seed: int
) -> None:
    """This repository's analyses as an application whose entry is one module: much is dead."""
    root = tmp_path / "deltafix"
    shutil.copytree(HERE / "src" / "deltafix" / "analyses", root / "analyses")
    (root / "__init__.py").write_text("")
    chance = random.Random(seed)
    entry = chance.choice(["dead_code.report", "dead_code.texts", "replay", "call_graph.questions"])
    with viewed(root, roots=(f"deltafix.analyses.{entry}:*",)) as view:
        for step in range(12):
            before = told(view.job)
            path = chance.choice([path for path, found in view.shown.items() if found])
            fixes = view.fixes(path, range(1, 9999))
            if not fixes:
                continue  # a package
            fix = chance.choice(fixes)
            try:
                paths = carry_out(view, fix)
            except EditError:
                continue
            change, _ = view.saved(paths)
            assert not change.unreadable, fix
            gone = before - told(view.job)
            assert fix.finding.symbol in gone, (step, fix)
            assert told(view.job) <= before
            if fix.action == "delete":
                assert not change.became_alive
                assert_imports_hold(view, gone)
        assert_runs(root, entry)
        for shown, found in view.shown.items():
            assert found == view.job.outermost(shown)


def assert_runs(root: Path, entry: str) -> None:
    """The module that everything was kept for can be imported from the copy."""
    code = f"""
import importlib, deltafix.analyses
deltafix.analyses.__path__ = [{str(root / "analyses")!r}]
importlib.import_module("deltafix.analyses.{entry}")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr


def assert_imports_hold(view: EditorView, gone: set[str]) -> None:
    """No import names a symbol that was taken out, unless its module went as a whole."""
    whole = {symbol for symbol in gone if ":" not in symbol}
    names = {one.replace(":", ".") for one in gone if one.partition(":")[0] not in whole}
    for path in view.job.paths:
        if not path.endswith(".py"):
            continue
        for node in ast.walk(Source.of(view.on_disk(path)).tree):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                taken = {f"{node.module}.{alias.name}" for alias in node.names}
                assert taken.isdisjoint(names), path


def test_every_place_of_a_file_has_an_answer(tmp_path: Path, warm_kernel: None) -> None:
    """Whatever is under the cursor: a name that says it, or nothing, and never a failure."""
    root = tmp_path / "deltafix" / "analyses"
    shutil.copytree(HERE / "src" / "deltafix" / "analyses" / "dead_code", root / "dead_code")
    with viewed(root) as view:
        text = view.on_disk("dead_code/editor.py")
        names: set[str] = set()
        for offset in range(0, len(text), 3):
            found = view.hover("dead_code/editor.py", offset)
            if found is not None:
                (start, end), words = found
                assert start <= offset <= end
                name = text[start:end]
                names.add(name)
                places = view.definitions("dead_code/editor.py", offset)
                said = {view.on_disk(path)[slice(*span)] for path, span in places}
                assert said <= {name, ""}, words
        assert names >= {"EditorView", "saved", "Fix"}
        assert len(names) > 40


def test_positions_of_every_symbol_are_those_of_its_name(warm_kernel: None) -> None:
    """Of this package's own source, the name of each finding's kind."""
    root = HERE / "src" / "deltafix" / "analyses"
    with DeadCode(roots=["public"], also=ALL) as job:
        extract: Callable = job.analysis.extract
        count = 0
        for file in sorted(root.rglob("*.py")):
            text = file.read_text()
            lines = text.split("\n")
            for place in extract(file.relative_to(root).as_posix(), text.encode(), "x").places:
                name = place.symbol.rpartition(":")[2].rpartition(".")[2]
                line = lines[place.line - 1][place.column - 1 :]
                if place.kind == "import":
                    assert name in line.split(",")[0], (file, place)
                elif place.kind != "module":
                    assert line.startswith(name), (file, place)
                count += 1
        assert count > 1500


SAID = "its name is written in "


def test_another_reason_is_shown_where_nothing_was_saved(tmp_path: Path, warm_kernel: None) -> None:
    with viewed(tmp_path, {**SHOP, "one.md": "see `_idle`\n"}) as view:

        def reason() -> str | None:
            (finding,) = [one for one in view.shown["shop/cart.py"] if "_idle" in one.symbol]
            return finding.doubt

        first = reason()
        (tmp_path / "one.md").unlink()
        (tmp_path / "two.py").write_text(f"{MAIN}print('_idle')\n")
        _, news = view.saved(["one.md", "two.py"])
        assert (first, reason()) == (f"{SAID}one.md", f"{SAID}two")
        assert reason() == view.job.outermost("shop/cart.py")[-1].doubt
        assert "shop/cart.py" in news
