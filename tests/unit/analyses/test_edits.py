"""Edits that take out what is dead, or keep it: against syntax trees, and as people read them."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from deltafix.analyses.dead_code.edits import Edit, EditError, edited, kept, without
from deltafix.analyses.dead_code.places import lines_of, name_column, name_end
from deltafix.analyses.dead_code.source import Named, Source

HERE = Path(__file__).parents[3]


def named(source: Source, name: str) -> list[Named]:
    """What gives this name in a text, by statements of their own."""
    found: list[Named] = []
    for node in ast.walk(source.tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if node.name == name:
                found.append(node)
            case ast.Name(id=one, ctx=ast.Store()) if one == name:
                found.append(node)
            case ast.alias(name=one, asname=None) | ast.alias(asname=one) if one == name:
                found.append(node)
            case ast.ExceptHandler(name=one) if one == name:
                found.append(node)
    assert found, name
    return found


def left(text: str, *names: str) -> str:
    source = Source(text)
    nodes = [node for name in names for node in named(source, name)]
    return edited(text, without(source, nodes))


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("def f(): ...\n", ""),
        ("def f():\n    return 1\n\n\ndef g(): ...\n", "def g(): ...\n"),
        ("import a\n\n\ndef f(): ...\n\n\ndef g(): ...\n", "import a\n\n\ndef g(): ...\n"),
        ("import a\n\n\ndef f(): ...\n", "import a\n"),
        ("import a\n\n\ndef f(): ...", "import a\n"),
        ("a = 1\n\n# about f,\n# more\n@d\n@e(\n  1)\ndef f():\n  1\n\nb = 2", "a = 1\n\nb = 2"),
        ("#!/usr/bin/env python\n# ours\ndef f(): ...\nb = 1\n", "#!/usr/bin/env python\nb = 1\n"),
        ("# a licence\ndef f(): ...\nb = 1\n", "# a licence\nb = 1\n"),
        ("class C:\n    def f(self): ...\n", "class C:\n    pass\n"),
        ("class C:\n    'text'\n\n    def f(self): ...\n", "class C:\n    'text'\n"),
        ("class C:\n    def f(self): ...\n\n    x = 1\n", "class C:\n    x = 1\n"),
        ("class C:\n    x = 1\n    def f(self): ...\n\n\nC()\n", "class C:\n    x = 1\n\n\nC()\n"),
        ("if a:\n  def f(): ...\nelse:\n  def f(): ...\n", "if a:\n  pass\nelse:\n  pass\n"),
        ("class C: f = 1\n", "class C: pass\n"),
        ("class C: f = 1; b = 2\n", "class C: b = 2\n"),
        ("a = 1; f = 2\n", "a = 1\n"),
        ("a = 1; f = 2; b = 3\n", "a = 1; b = 3\n"),
        ("f = 1  # the only\nb = 2\n", "b = 2\n"),
        ("x = 0\n# both\nf = 1\nb = 2\n", "x = 0\n# both\nb = 2\n"),
        ("f = b = 1\n", "b = 1\n"),
        ("b = f = 1\n", "b = 1\n"),
        ("f: int = 1\n", ""),
        ("f: int\nb = 1\n", "b = 1\n"),
        ("f = print()\n", "print()\n"),
        ("f = (\n    print()\n)\n", "(\n    print()\n)\n"),
        ("f: int = g()\n", "g()\n"),
        ("self.x = f = g()\n", "self.x = g()\n"),
        ("import f\n", ""),
        ("import f, b\n", "import b\n"),
        ("from m import a, f\n", "from m import a\n"),
        ("from m import a, b as f, c\n", "from m import a, c\n"),
        ("from m import (\n  a,\n  f,  # for g\n  c,\n)\n", "from m import (\n  a,\n  c,\n)\n"),
        ("from m import (\n    a,\n    f\n)\n", "from m import (\n    a,\n)\n"),
        ("from m import (a,\n               f)\n", "from m import (a)\n"),
        ("try:\n    from m import f\nexcept E: ...\n", "try:\n    pass\nexcept E: ...\n"),
        ("try: ...\nexcept (A, B) as f:\n    1\n", "try: ...\nexcept (A, B):\n    1\n"),
        ("def ü(): 'ü'; f = 'ü'\n", "def ü(): 'ü'\n"),
        ("a = 1\r\n\r\ndef f():\r\n    1\r\n\r\nb = 2\r\n", "a = 1\r\n\r\nb = 2\r\n"),
    ],
)  # fmt: skip
def test_what_is_left(text: str, after: str) -> None:
    assert left(text, "f") == after


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("from m import a, f, g\n", "from m import a\n"),
        ("from m import f, a, g\n", "from m import a\n"),
        ("from m import f, g\nx\n", "x\n"),
        ("x = 1\n\n\ndef f(): ...\n\n\ndef g(): ...\n\n\ny = 1\n", "x = 1\n\n\ny = 1\n"),
        ("class C:\n    f = 1\n    g = 2\n", "class C:\n    pass\n"),
        ("class C:\n    f = 1\n    g = 2\n\n    h = 3\n", "class C:\n\n    h = 3\n"),
        ("x = 1; f = 2; g = 3\n", "x = 1; \n"),
        ("f, g = 1, 2\n", ""),
        ("def f():\n    def g(): ...\n", ""),
    ],
)
def test_what_is_left_of_several(text: str, after: str) -> None:
    assert left(text, "f", "g") == after


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("f, b = g()\n", "a part of what is unpacked"),
        ("(f) = b = 1\n", "in brackets"),
        ("from m import a, \\\n    f\n", "what is no Python"),
        ("f = 1\ndel f\n", "line 2 says del f"),
        ("import f\ndel f\n", "line 2 says del f"),
        ("def f(): ...\nif x: del f\n", "line 2 says del f"),
    ],
)
def test_what_no_edit_takes_out_is_refused(text: str, why: str) -> None:
    source = Source(text)
    with pytest.raises(EditError, match=why):
        without(source, named(source, "f"))


class Without(ast.NodeTransformer):
    """The oracle: a syntax tree less some statements, each block with something in it."""

    def __init__(self, gone: set[ast.AST]) -> None:
        self.gone = gone

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            node.names = [one for one in node.names if one not in self.gone]
        return node

    def visit(self, node: ast.AST) -> ast.AST | None:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if not isinstance(block, list) or not block:
                continue
            stays = [one for one in block if not self.goes(one)]
            setattr(node, name, stays or ([] if isinstance(node, ast.Module) else [ast.Pass()]))
        return self.generic_visit(node)

    def goes(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.Import | ast.ImportFrom):
            return all(one in self.gone for one in node.names)
        return node in self.gone


def files() -> list[Path]:
    own = sorted((HERE / "src" / "deltafix").rglob("*.py"))
    standard = sorted(Path(ast.__file__).parent.glob("*.py"))
    return random.Random(7).sample(own, 25) + random.Random(8).sample(standard, 25)


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_the_code_that_is_left_is_what_a_syntax_tree_says(path: Path) -> None:
    """Random definitions and imports of real files, some at once; those inside others, too."""
    text = path.read_bytes().decode("utf-8", "replace")
    chance = random.Random(path.name)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.alias)
    for _ in range(6):
        source = Source(text)
        able = [
            node
            for node in ast.walk(source.tree)
            if isinstance(node, kinds) and getattr(node, "name", "") != "*"
        ]
        if not able:
            return
        gone = chance.sample(able, min(len(able), chance.choice([1, 2, 5])))
        try:
            after = edited(text, without(source, gone))
        except EditError:
            # An import that goes on over a line's end, or a name that is deleted somewhere.
            deletes = any(isinstance(node, ast.Delete) for node in ast.walk(source.tree))
            assert "\\\n" in text or deletes
            continue
        expected = Without(set(gone)).visit(source.tree)
        assert ast.dump(ast.parse(after)) == ast.dump(expected)
        assert len(after) < len(text)


def test_a_comment_keeps_and_changes_nothing() -> None:
    text = "def f(\n    a,\n): ...\nx = 1  # one\ny = '''\n'''\nz = \\\n    1\n"
    source = Source(text)
    assert edited(text, [kept(source, 1)]).startswith("def f(  # deltafix: keep\n")
    assert "x = 1  # one  # deltafix: keep\n" in edited(text, [kept(source, 4)])
    for line in (5, 7):
        with pytest.raises(EditError, match=f"line {line} ends inside a text"):
            kept(source, line)


def test_edits_are_made_from_the_end() -> None:
    assert edited("abcdef", [Edit(0, 1), Edit(4, 5, "EE"), Edit(2, 2, "-")]) == "b-cdEEf"


def test_a_name_stands_where_people_see_it() -> None:
    text = "@d\nasync  def é(ü, x): pass\nclass  C: y = 1\né.ñ = 2; é . k = 3\n"
    text += "from m import a as b, c\n"
    lines = lines_of(b"\xef\xbb\xbf" + text.encode())
    found: dict[str, tuple[int, str]] = {}
    for node in ast.walk(ast.parse(text)):
        kinds = (
            ast.AsyncFunctionDef, ast.ClassDef, ast.arg, ast.Attribute, ast.alias,
        )  # fmt: skip
        if isinstance(node, kinds):
            column = name_column(lines, node)
            line = text.split("\n")[node.lineno - 1]
            kind = "import" if isinstance(node, ast.alias) else "name"
            said = line[column - 1 : name_end(line, column, kind) - 1]
            found[said] = (column, type(node).__name__)
    assert found == {
        "é": (12, "AsyncFunctionDef"),
        "C": (8, "ClassDef"),
        "ü": (14, "arg"),
        "x": (17, "arg"),
        "ñ": (3, "Attribute"),
        "k": (14, "Attribute"),
        "a as b": (15, "alias"),
        "c": (23, "alias"),
    }
