"""Imports, locals, arguments and attributes that living code never reads."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.judges import dead_code_oracle

from deltafix.analyses.dead_code import DEAD_CODE, UNUSED
from deltafix.analyses.dead_code.findings import UNUSED_KINDS, Also, Finding
from deltafix.analyses.dead_code.job import DeadCode
from deltafix.analyses.reading import read_fragments

ALL: tuple[Also, ...] = ("imports", "locals", "arguments", "attributes")
MAIN = 'if __name__ == "__main__": '


def found(sources: dict[str, str], *also: Also, confidence: str = "sure") -> list[str]:
    """`kind id`, sorted, of what a tree of path -> source never reads."""
    with DeadCode(
        roots=["entry-points"],
        confidence="likely" if confidence == "likely" else "sure",
        also=also or ALL,
    ) as job:
        job.update(UNUSED.extract(path, text.encode(), "") for path, text in sources.items())
        assert job.errors == {}
        job.check_invariants()
        return sorted(f"{one.kind} {one.symbol}" for one in job.unused() or ())


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.getcwd()",
        "import os.path\nos.getcwd()",
        "from __future__ import annotations",
        "import os as os",
        "from json import loads as loads",
        "import os  # noqa",
        "import os  # NOQA",
        "import os  # noqa: F401",
        "# ruff: noqa: F401\nimport os",
        "# flake8: noqa\nimport os",
        "if x:\n    import os\nelse:\n    import ntpath as os  # noqa: F401",
        "__all__ = ['os']\nimport os",
        "try:\n    import json\nexcept ImportError:\n    ok = False",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import os\nx: os.PathLike",
        "from typing import TYPE_CHECKING as T\nif T:\n    import os\nx: 'list[os.PathLike]'",
        "from typing import Any, TypeAlias\nX: TypeAlias = 'dict[str, Any]'\nprint(X)",
        "from typing import Any, cast\ncast('Any', 1)",
        "from typing import Any, List\nx = List['Any | None']\nprint(x)",
        "from typing import Any, NamedTuple\nP = NamedTuple('P', [('x', 'Any')])\nprint(P)",
        "from typing import List\nx = []  # type: List[int]\nprint(x)",
        "import os\ndef f(x=os): return x\nf()",
        "import os\n[os for os in os.listdir()]",
        "import os\nclass C:\n    os = os\nC()",
        "import os\ndel os",
        "import os\nprint(globals())",
        "def f():\n    global os\n    import os\nf()",
        "def f():\n    import os\n    return lambda: os\nf()",
        "class C:\n    import os\nC()",
        "import os\nos = 1",
        '"""\n>>> os.getcwd()\n"""\nimport os',
    ],
)
def test_imports_that_something_may_read_are_not_told(text: str) -> None:
    assert found({"m.py": f"{text}\n{MAIN}print()"}, "imports", confidence="likely") == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import os", "os"),
        ("import os.path", "os"),
        ("import numpy as np", "np"),
        ("from a.b import c", "c"),
        ("from json import loads as d", "d"),
        ("import os\n[os for os in (1,)]", "os"),
        ("import os\ndef f(os): return os\nf(1)", "os"),
        ("import os\nx.os", "os"),
        ("if x:\n    import os", "os"),
        ("try:\n    import os\nfinally:\n    pass", "os"),
        ("import os  # noqa: E501", "os"),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import os", "os"),
    ],
)
def test_imports_that_nothing_reads_are_told(text: str, name: str) -> None:
    assert found({"m.py": f"{text}\n{MAIN}print()"}) == [f"import m:{name}"]


def test_an_import_inside_a_function_is_its_own() -> None:
    body = "    import os\n    from json import loads\n    os.getcwd()"
    text = f"import os\ndef f():\n{body}\n{MAIN}f()"
    assert found({"m.py": text}) == ["import m:f.<locals>.loads", "import m:os"]


def test_what_another_file_takes_is_read() -> None:
    both = {
        "a.py": "import os, re, json, ast\nprint()",
        "m.py": f"import a\nprint(a.os)\n{MAIN}print()",
    }
    assert found(both) == ["import a:ast", "import a:json", "import a:re"]
    both["n.py"] = f"from a import re\n{MAIN}re.sub()"
    both["o.py"] = f"from unittest import mock\nmock.patch('a.json')\n{MAIN}print()"
    assert found(both) == ["import a:ast"]
    both["p.py"] = f"from a import *\n{MAIN}print()"
    assert found(both) == []


def test_imports_for_what_they_do_are_only_likely() -> None:
    tree = {
        "p/__init__.py": "from . import a, m",
        "p/a.py": "",
        "p/m.py": "import handlers\nfrom . import a\nimport readline\nX = 'json'\n"
        f"import json\n{MAIN}print()",
    }
    assert found(tree) == []
    likely = ["import p.m:a", "import p.m:handlers", "import p.m:json", "import p.m:readline"]
    assert found(tree, confidence="likely") == likely


def test_a_pytest_fixture_is_read_by_the_parameter_that_asks_for_it() -> None:
    test = "from a import shop\ndef test_it(shop): assert 1"
    fixture = "import pytest\n@pytest.fixture\ndef shop(): return 1"
    assert found({"test_m.py": test, "a.py": fixture}) == []
    assert found({"test_m.py": test.replace("(shop)", "(x)"), "a.py": fixture}) == [
        "import test_m:shop"
    ]


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("x = 1", ["x"]),
        ("x: int = 1", ["x"]),
        ("x: int\n    x = 1", ["x"]),
        ("x = y = 1", ["x", "y"]),
        ("x = 1\n    x = 2", ["x"]),
        ("if a:\n        x = 1\n    else:\n        x = 2", ["x"]),
        ("try: g()\n    except ValueError as e: pass", ["e"]),
        ("x = 1\n    [x for x in ()]", ["x"]),
        ("x = 1\n    lambda x: x", ["x"]),
        ("x = 1\n    def h(): x = 2; return x\n    h()", ["x"]),
        ("x = 1  # noqa: E501", ["x"]),
        ("x = 1\n    return x", []),
        ("x: int", []),
        ("_ = _x = 1", []),
        ("x, y = 1, 2", []),
        ("x = 1\n    x += 1", []),
        ("x = 1\n    del x", []),
        ("x = 1\n    return [x for x in x]", []),
        ("x = 1\n    return lambda: x", []),
        ("x = 1\n    def h():\n        nonlocal x\n        x = 2\n    h()", ["x"]),
        ("x = 1\n    def h():\n        nonlocal x\n        x += 2\n    h()", []),
        ("global x\n    x = 1", []),
        ("for x in (): pass", []),
        ("x = 1\n    for x in (): pass", []),
        ("with a as x: pass", []),
        ("(x := 1)", []),
        ("match a:\n        case [x]: pass", []),
        ("x = 1\n    match a:\n        case {**x}: pass", []),
        ("x = 1\n    return locals()", []),
        ("x = 1\n    return eval('x')", []),
        ("x = 1\n    exec('print(x)')", []),
        ("x = 1  # noqa: F841", []),
        ("x = 1  # deltafix: keep", []),
        ("x = 1\n    y: 'x' = 2\n    return y", []),
        ("x = 1\n    class K:\n        y = x\n    K()", []),
    ],
)
def test_locals(body: str, names: list[str]) -> None:
    text = f"def f():\n    {body}\n{MAIN}f()"
    assert found({"m.py": text}, "locals") == [f"local m:f.<locals>.{one}" for one in names]


def test_what_is_in_dead_code_is_told_with_it_alone() -> None:
    text = f"def f():\n    import os\n    x = 1\ndef g(a): return 1\n{MAIN}print()"
    assert found({"m.py": text}, confidence="likely") == []
    assert found({"m.py": f"{text}; f()"}) == ["import m:f.<locals>.os", "local m:f.<locals>.x"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(a, b): return a\nf(1, 2)", ["f.<locals>.b"]),
        ("def f(a, *, b=1): return a\nf(1)", ["f.<locals>.b"]),
        ("class C:\n    def f(self, a): return 1\nC().f(1)", ["C.f.<locals>.a"]),
        ("class C:\n    def __init__(self, a): self.g()\n    def g(self): ...\nC(1)",
         ["C.__init__.<locals>.a"]),
        ("class C:\n    @staticmethod\n    def f(a): return k()\nC.f(1)",
         ["C.f.<locals>.a"]),
        ("def f(_a, *b, **c): return k()\nf(1)", []),
        ("def f(a): pass\nf(1)", []),
        ("def f(a): ...\nf(1)", []),
        ("def f(a): raise NotImplementedError\nf(1)", []),
        ("def f(a):\n    'Text.'\n    return None\nf(1)", []),
        ("def f(a): return k(locals())\nf(1)", []),
        ("def f(a): return k()\nx = map(f, ())\nf(1)", []),
        ("def f(a): return k()\nx = m.f\nf(1)", []),
        ("@hook\ndef f(a): return k()\nf(1)", []),
        ("def f(a): return k()  # noqa: ARG001\nf(1)", []),
        ("class B:\n    def f(self, a): return a\nclass C(B):\n    def f(self, a): return k()\n"
         "C().f(1); B()", []),
        ("class B:\n    def f(self, a): return k()\nclass C(B):\n    def f(self, a): return a\n"
         "C().f(1); B()", []),
        ("class B:\n    def f(self, a): return k()\nclass C:\n    def f(self, a): return a\n"
         "C().f(1); B()", []),
        ("from lib import B\nclass C(B):\n    def f(self, a): return k()\nC().f(1)", []),
        ("class C:\n    def f(self, a): return k()\ngetattr(C(), 'f')(1)", []),
        ("class C:\n    def f_x(self, a): return k()\ngetattr(C(), 'f_' + y)(1)", []),
        ("class C:\n    def __call__(self, a): return k()\nC()(1)", []),
    ],
)  # fmt: skip
def test_arguments(text: str, told: list[str]) -> None:
    text = text.replace("return 1", "return k()")
    tree = {"m.py": f"from x import k\n{text}\n{MAIN}print()"}
    assert found(tree, "arguments") == []  # never sure: somebody passes them
    names = [f"argument m:{one}" for one in told]
    assert found(tree, "arguments", confidence="likely") == names


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("self.x = 1", ["x"]),
        ("self.x: int = 1", ["x"]),
        ("self.x += 1", ["x"]),
        ("self.x = self.y = 1\n        print(self.y)", ["x"]),
        ("self.x = 1\n        self.x.y = 2", []),
        ("self.x = 1\n        print(a.b.x.c)", []),
        ("self.x = 1\n        a.x()", []),
        ("self.x = 1\n        print('x')", []),
        ("self.x = 1\n        '{0.x}'.format(self)", []),
        ("self.x = 1\n        getattr(self, y)", []),
        ("self.x = 1\n        match a:\n            case C(x=1): pass", []),
        ("self.__x__ = 1", []),
        ("x.x = 1", []),
    ],
)
def test_attributes(text: str, told: list[str]) -> None:
    tree = {"m.py": f"class C:\n    def f(self):\n        {text}\n{MAIN}C().f()"}
    assert found(tree, "attributes") == []
    names = [f"attribute m:C.{one}" for one in told]
    assert found(tree, "attributes", confidence="likely") == names


def test_attributes_of_classes_that_others_read() -> None:
    body = "    def f(self): self.x = 1"
    for start in ("from lib import B\nclass C(B):", "from lib import d\n@d\nclass C:"):
        tree = {"m.py": f"{start}\n{body}\n{MAIN}C().f()"}
        assert found(tree, "attributes", confidence="likely") == []
    slots = f"class C:\n    x = 0\n{body}\n{MAIN}C().f()"
    assert found({"m.py": slots}, "attributes", confidence="likely") == []


def test_only_what_is_asked_for_is_told_and_nothing_is_stated_without() -> None:
    text = f"import os\ndef f(a):\n    x = 1\n    return g()\ndef g(): ...\n{MAIN}f(1)"
    tree = {"m.py": text}
    for also in ALL:
        kinds = {one.split()[0] for one in found(tree, also, confidence="likely")}
        assert kinds <= {also.removesuffix("s")}
    plain = DEAD_CODE.extract("m.py", text.encode(), "")
    assert {place.kind for place in plain.places}.isdisjoint(UNUSED_KINDS)
    assert {relation for relation, _ in plain.facts} <= set(DEAD_CODE.inputs)
    with DeadCode() as job:
        job.update([plain])
        assert job.unused() is None
    with_unused = UNUSED.extract("m.py", text.encode(), "")
    assert set(plain.facts) < set(with_unused.facts)


def test_a_pattern_of_roots_keeps_what_it_fits() -> None:
    text = f"import os, re\n{MAIN}print()"
    with DeadCode(roots=["m:o*"], also=["imports"]) as job:
        job.update([UNUSED.extract("m.py", text.encode(), "")])
        assert [one.symbol for one in job.unused() or ()] == ["m:re"]


def test_an_edit_tells_what_became_unused_and_what_is_no_longer() -> None:
    with DeadCode(roots=["entry-points"], also=ALL) as job:

        def save(text: str) -> tuple[list[tuple[str, int]], tuple[str, ...]]:
            change = job.update([UNUSED.extract("m.py", text.encode(), "")])
            job.check_invariants()
            return [(one.symbol, one.line) for one in change.became_unused], change.no_longer_unused

        assert save(f"import os\nos.sep\n{MAIN}print()") == ([], ())
        assert save(f"import os\n{MAIN}print()") == ([("m:os", 1)], ())
        assert save(f"\nimport os\n{MAIN}print()") == ([], ())
        assert [(one.symbol, one.line) for one in job.unused() or ()] == [("m:os", 2)]
        assert save(f"\nimport os\nX = 'os'\n{MAIN}print()") == ([], ("m:os",))  # likely now
        assert job.left_out == 1 + len(job.rows("dead"))
        assert save(f"import os, re\n{MAIN}print()") == ([("m:os", 1), ("m:re", 1)], ())
        change = job.update([], ["m.py"])
        assert change.no_longer_unused == ("m:os", "m:re")
        job.check_invariants()


LINES = (
    "import os", "import a", "from b import f, os", "from . import b", "from a import *",
    "import a as b", "def f(x, y=1):\n    z = x\n    import os\n    return f()", "os.sep", "f(1)",
    "def g(x):\n    os = 1\n    return lambda: os", "a.os", "__all__ = ['os']", MAIN + "g(1)",
    "class C:\n    def f(self, x): self.y = self.z = 1", "C().f(1)",
    "class D(C):\n    def f(self, x): x",
    "print('y', a.z)", "x = [f, g]", "def k(): return globals()", "k()", "def broken(:",
    "getattr(a, 'f')", "import_module(x)", "def test_a(os): ...", "X = 'os'",
)  # fmt: skip

FILES = ("a.py", "b.py", "p/__init__.py", "test_c.py")

edits = st.lists(
    st.tuples(
        st.sampled_from(FILES),
        st.none() | st.lists(st.sampled_from(LINES), max_size=5).map("\n".join),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=25)
@given(edits)
@example([("a.py", f"{MAIN}g(1)\nclass D(C):\n    def f(self, x): x"), ("b.py", "D\ndef broken(:")])
def test_oracle_after_random_edits_the_views_equal_recomputation(
    script: list[tuple[str, str | None]],
) -> None:
    tree: dict[str, str] = {}
    words: dict[str, list[Any]] = {}  # of files that could never be parsed
    with DeadCode(also=ALL, confidence="likely") as job:
        for path, text in script:
            before = {(one.symbol, one.kind) for one in job.unused() or ()}
            fragment = UNUSED.extract(path, (text or "").encode(), "")
            if text is None:
                tree.pop(path, None)
                words.pop(path, None)
                change = job.update([], [path])
            else:
                if fragment.error is None:
                    tree[path] = text
                    words.pop(path, None)
                elif path not in tree:
                    words[path] = [*fragment.facts]
                change = job.update([fragment])
            said = [one for some in words.values() for one in some]
            expected = dead_code_oracle.evaluate(
                tree, ("recognise", "tests"), UNUSED_KINDS, more=said
            )
            for view in UNUSED.views:
                assert set(job.rows(view)) == expected[view]
            after = {(one.symbol, one.kind) for one in job.unused() or ()}
            assert after == {row[:2] for row in expected["unused"]}
            assert {(one.symbol, one.kind) for one in change.became_unused} == after - before
        job.check_invariants()


# -- beside a linter -----------------------------------------------------------------------------

RULES = {"F401": "import", "F841": "local", "ARG001": "argument", "ARG002": "argument",
         "ARG003": "argument", "ARG004": "argument", "ARG005": "lambda"}  # fmt: skip


def of_ruff(root: Path) -> set[tuple[str, str, str]]:
    """(kind, path, name) of what ruff finds unused."""
    command = ["check", "--isolated", "--no-cache", "--select", "F401,F841,ARG", "--output-format"]
    ran = subprocess.run(
        [sys.executable, "-m", "ruff", *command, "json", str(root)],
        capture_output=True, check=False,
    )  # fmt: skip
    found = set()
    for one in json.loads(ran.stdout):
        name = one["message"].split("`")[1].rpartition(" as ")[2].rpartition(".")[2]
        path = Path(one["filename"]).relative_to(root.resolve()).as_posix()
        found.add((RULES[one["code"]], path, name))
    return found


def of_us(root: Path) -> Iterable[Finding]:
    """What we find, likely ones too."""
    tree = UNUSED.tree(root)
    with DeadCode(also=ALL, confidence="likely") as job:
        job.update(read_fragments(tree, list(tree.scan().files), UNUSED.extract))
        return job.unused() or ()


def folder_of(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@pytest.mark.parametrize("package", ["deltafix", "numba.core", "werkzeug"])
def test_what_we_find_a_linter_finds_too(package: str) -> None:
    root = folder_of(package)
    theirs = of_ruff(root)
    ours = {
        (one.kind, one.path, one.symbol.rpartition(".")[2].rpartition(":")[2]): one
        for one in of_us(root)
    }
    linted = {key: one for key, one in ours.items() if key[0] != "attribute"}
    more = set(linted) - theirs
    assert more == set()
    # What only the linter tells: another file reads it, a package hands it on, a text or a
    # `globals()` may; an element of a tuple; and above all parameters that others ask for.
    only = {key for key in theirs - set(linted) if key[0] in {"import", "local"}}
    for kind, path, name in only:
        text = (root / path).read_text(encoding="utf-8")
        handed_on = path.endswith("__init__.py") or "globals()" in text or "try:" in text
        taken = any(
            name in one.read_text(encoding="utf-8") for one in root.rglob("*.py")
            if one != root / path
        )  # fmt: skip
        assert kind == "import", (path, name)
        assert handed_on or taken, (path, name)
    assert {key for key in linted if key[0] == "import"} <= theirs
    assert all(
        one.confidence == "likely"
        for key, one in ours.items()
        if key[0] in {"argument", "attribute"}
    )
    if package == "numba.core":
        assert sum(one.kind == "import" for one in linted.values()) >= 20
        assert sum(one.kind == "local" for one in linted.values()) >= 5
