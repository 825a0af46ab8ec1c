"""`deltafix ask`: answers as lines and as JSON, limits, what is said when there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deltafix.cli import main as command_line


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path, text in {
        "src/shop/__init__.py": "",
        "src/shop/cart.py": "from shop.tax import rate\ndef total(): return rate()\n",
        "src/shop/tax.py": "def rate(): ...\ndef unused(): ...\n",
        "main.py": "from shop.cart import total\ndef go(): total()\n",
        "tests/test_cart.py": "from shop import cart\ndef test_total(): cart.total()\n",
        "tests/test_none.py": "def test_none(): ...\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_callers_reaches_and_path(tree: Path, deltafix) -> None:
    assert deltafix("ask", "callers", "rate") == (0, "src/shop/cart.py:2: shop.cart:total\n", "")
    assert deltafix("ask", "reaches", "rate", "--limit", 2) == (
        0,
        "src/shop/cart.py:2: shop.cart:total\nmain.py:2: main:go  // via shop.cart:total\n",
        "2 of 3 shown\n",
    )
    assert deltafix("ask", "path", "test_total", "shop.tax:rate") == (
        0,
        "tests/test_cart.py:2: tests.test_cart:test_total\n"
        "src/shop/cart.py:2: shop.cart:total\nsrc/shop/tax.py:1: shop.tax:rate\n",
        "",
    )


def test_impact_is_as_seen_from_here(tree: Path, deltafix, monkeypatch) -> None:
    tax = Path("src/shop/tax.py")
    assert deltafix("ask", "impact", tax) == (
        0,
        "tests/test_cart.py  // via src/shop/cart.py\nsrc/shop/cart.py\n"
        "main.py  // via src/shop/cart.py\n",
        "",
    )
    assert deltafix("ask", "impact", tax, "--tests") == (0, "tests/test_cart.py\n", "")
    inside = deltafix("ask", "impact", "shop/tax.py", "--in", "src")
    assert inside == (0, "src/shop/cart.py\n", "")
    (tree / "shop").mkdir()
    (tree / "shop" / "tax.py").write_text("")  # what is seen from here comes first
    assert deltafix("ask", "impact", "shop/tax.py", "--in", "src").code == 2
    ran = deltafix("ask", "impact", "cart.py", "--in", "src")
    assert ran.err.endswith(": cart.py is no Python file of the tree; did you mean shop/cart.py?\n")
    (tree / "shop" / "tax.py").unlink()
    monkeypatch.chdir(tree / "src")
    ran = deltafix("ask", "impact", "shop/tax.py", "--in", "..", "--tests", "-q")
    assert ran == (0, "../tests/test_cart.py\n", "")


def test_tests_are_those_of_pytests_settings(tree: Path, deltafix) -> None:
    (tree / "tests/checks.py").write_text("from shop import cart\ndef check_it(till): ...\n")
    (tree / "src/shop/tills.py").write_text("import pytest\n@pytest.fixture\ndef till(): ...\n")
    asked = ("ask", "impact", "src/shop/cart.py", "src/shop/tills.py", "--tests")
    assert deltafix(*asked).out == "tests/test_cart.py\n"
    (tree / "pyproject.toml").write_text("[tool.pytest.ini_options]\npython_files='checks.py'\n")
    assert deltafix(*asked).out == "tests/checks.py\ntests/test_cart.py\n"
    of_fixture = deltafix("ask", "impact", "src/shop/tills.py", "--tests")
    assert of_fixture == (0, "tests/checks.py\n", "")


def test_settings_below_the_folder_count_there(tree: Path, deltafix) -> None:
    for folder in ("more", "other"):
        (tree / folder).mkdir()
        (tree / folder / "checks.py").write_text("from shop import cart\n")
    asked = ("ask", "impact", "src/shop/cart.py", "--tests")
    assert deltafix(*asked).out == "tests/test_cart.py\n"
    (tree / "more/pytest.ini").write_text("[pytest]\npython_files = checks.py\n")
    assert deltafix(*asked).out == "more/checks.py\ntests/test_cart.py\n"


_KEPT = "import shop.tax\ndef a(): ...\nhandlers = [a]\n"


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ("callers unused", "nothing in the tree calls shop.tax:unused, or refers to it"),
        ("reaches kept:a",
         "nothing in the tree calls kept:a; without a call refer to it kept:handlers"),
        ("path total unused", "nothing in the tree calls shop.tax:unused, or refers to it"),
        ("path rate total", "shop.tax:rate calls nothing in the tree"),
        ("path kept total", "kept calls nothing in the tree at import; ask for what it defines"),
        ("path total go",
         "shop.cart:total reaches 1 by calls, main:go is reached by 1, and none is among both; "
         "there is a way from main:go"),
        ("path loop total", "main:loop calls nothing in the tree but itself"),
        ("path total total", "no way of calls leads back to shop.cart:total"),
        ("reaches alone", "nothing in the tree calls main:alone, or refers to it"),
        ("impact main.py", "nothing in the tree imports main.py"),
        ("impact kept.py --tests", "nothing in the tree imports kept.py"),
        ("impact kept.py src/shop/late.py --tests",
         "kept.py, src/shop/late.py: 1 file affected, none of which is a test"),
    ],
)  # fmt: skip
def test_of_no_answer_it_is_said_why(tree: Path, deltafix, question: str, why: str) -> None:
    (tree / "kept.py").write_text(_KEPT)
    (tree / "src/shop/late.py").write_text("")
    (tree / "late.py").write_text("import shop.late\n")
    with (tree / "main.py").open("a") as main:
        main.write("def loop(): loop()\ndef alone(): total()\ngo()\n")
    assert deltafix("ask", *question.split()) == (1, "", f"none: {why}\n")
    told = deltafix("ask", *question.split(), "--format", "json", "-q")
    assert (told.code, json.loads(told.out)["none"]) == (1, why)


def test_json(tree: Path, deltafix) -> None:
    def told(*arguments: str) -> dict:
        ran = deltafix("ask", *arguments, "--format", "json", "-q")
        assert (ran.code, ran.err) == (0 if json.loads(ran.out)["total"] else 1, "")
        return json.loads(ran.out)

    cart = {"symbol": "shop.cart:total", "path": "src/shop/cart.py", "line": 2}
    rate = {"symbol": "shop.tax:rate", "path": "src/shop/tax.py", "line": 1}
    head = {"version": 1, "event": "answer", "root": str(tree.resolve())}
    chain = {**cart, "steps": [cart, rate]}
    assert told("callers", "rate") == head | {
        "question": "callers", "asked": ["rate"], "total": 1, "rows": [chain],
    }  # fmt: skip
    found = told("reaches", "rate", "--limit", "1")
    assert (found["total"], found["rows"]) == (3, [chain])
    found = told("path", "total", "rate")
    assert (found["asked"], found["rows"]) == (["total", "rate"], [chain])
    found = told("path", "rate", "total")
    assert (found["total"], found["rows"]) == (0, [])
    found = told("impact", "src/shop/cart.py", "--tests")
    steps = ["tests/test_cart.py", "src/shop/cart.py"]
    assert found["rows"] == [{"path": "tests/test_cart.py", "test": True, "steps": steps}]


def test_errors_say_what_to_write(tree: Path, deltafix) -> None:
    (tree / "broken.py").write_text("def f(:")
    ran = deltafix("ask", "callers", "rates")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "note: broken.py skipped: line 1: invalid syntax\n"
        "error[DF652]: there is no symbol 'rates'; did you mean 'rate'?\n"
    )
    for arguments, said in {
        ("callers", "rate", "--in", "main.py"): "main.py is not a folder: write --in FOLDER",
        ("callers", "rate", "src"): "extra argument src; the folder that is asked is --in FOLDER",
        (
            "path",
            "total",
            "rate",
            "src",
        ): "extra argument src; the folder that is asked is --in FOLDER",
        ("impact", "broken.py"): "broken.py could not be read: line 1: invalid syntax",
        ("impact", "README.md"): "README.md is no Python file of the tree",
        ("impact", "main.py", "--in", "src"): "../main.py is no Python file of the tree",
        ("callers", "rate", "--in", "s3://b/src"): "is a URL",
    }.items():
        ran = deltafix("ask", *arguments, "-q")
        assert (ran.code, ran.out) == (2, "")
        assert said in ran.err
        assert "Traceback" not in ran.err


def test_a_file_that_is_not_there_is_told_before_any_is_read(tree, deltafix, monkeypatch) -> None:
    def read(tree: object, path: str) -> bytes:
        raise AssertionError(path)

    monkeypatch.setattr("deltafix.analyses.files.Tree.read", read)
    ran = deltafix("ask", "impact", "nope.py", "-q")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error[DF300]: nope.py is no Python file of the tree\n"


def test_a_module_that_calls_is_where_it_calls(tree: Path, deltafix) -> None:
    text = "import shop.cart as c\nfrom shop.tax import rate as r\n\nr()\nx = c.total()\n"
    (tree / "calls.py").write_text(
        f"{text}class K: ...\nK()\nclass L:\n    def __init__(self): ...\nL()\n"
    )
    for symbol, line in {
        "rate": 4,
        "total": 5,
        "calls:K": 7,
        "calls:L": 10,
        "L.__init__": 10,
    }.items():
        assert f"calls.py:{line}: calls\n" in deltafix("ask", "callers", symbol).out
    assert deltafix("ask", "path", "calls", "total").out.startswith("calls.py:5: calls\n")


def test_files_can_be_left_out(tree: Path, deltafix) -> None:
    ran = deltafix("ask", "reaches", "rate", "--exclude", "tests")
    assert ran.out.count("\n") == 2
    assert "test_cart" not in ran.out


def test_help_names_the_questions(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line.main(["ask", "--help"])
    shown = capsys.readouterr().out
    assert all(one in shown for one in ("callers", "reaches", "path", "impact"))
