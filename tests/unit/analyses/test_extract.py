"""One file's facts, exactly: what the extractor says of small sources."""

from __future__ import annotations

import textwrap

import pytest

from deltafix.analyses.dead_code import DEAD_CODE
from deltafix.analyses.dead_code.extract import extract
from deltafix.analyses.dead_code.modules import module_of
from deltafix.analyses.facts import (
    FRAGMENT_SCHEMA,
    Fragment,
    Place,
    from_arrow,
    to_arrow,
)

GUARD = 'if __name__ == "__main__"'


def facts_of(source: str, *relations: str, path: str = "m.py", prefix: str = "") -> list[tuple]:
    """The rows of some relations as (relation, *row), sorted."""
    fragment = extract(path, textwrap.dedent(source).encode(), prefix)
    assert fragment.error is None, fragment.error
    return [(name, *row) for name, row in fragment.facts if name in relations]


def test_every_fact_of_a_three_line_module() -> None:
    fragment = extract("m.py", b"def f():\n    return g\nLIMIT = f\n")
    assert fragment.show().splitlines() == [
        'alias("m", "LIMIT").',
        'canonical("m", "m").',
        'named("m:LIMIT", "m", "LIMIT").',
        'named("m:f", "m", "f").',
        'names("m:LIMIT", "m", "f").',
        'names("m:f", "m", "g").',
        'open_name("m", "LIMIT").',
        'open_name("m", "f").',
        'public_module("m").',
        'scope("m:LIMIT", "m").',
        'scope("m:f", "m").',
        'spelled("LIMIT", "limit").',
        'spelled("f", "f").',
        'spelled("m", "m").',
        'stands("m", "m.py").',
        'suffix("m", "m", "").',
        'symbol("m", "module").',
        'symbol("m:LIMIT", "name").',
        'symbol("m:f", "function").',
    ]
    assert fragment.places == (
        Place("m", "module", 1),
        Place("m:LIMIT", "name", 3),
        Place("m:f", "function", 1, 5),
    )


def test_moving_code_down_changes_places_and_no_fact() -> None:
    source = b"def f():\n    pass\n"
    before, after = extract("m.py", source), extract("m.py", b"\n\n" + source)
    assert before.facts == after.facts
    assert before.places != after.places


@pytest.mark.parametrize(
    ("path", "prefix", "name", "package"),
    [
        ("a/b.py", "", "a.b", False),
        ("a/__init__.py", "", "a", True),
        ("src/a/b.py", "", "a.b", False),
        ("src/a/b.py", "top", "top.src.a.b", False),
        ("__init__.py", "top", "top", True),
        ("src.py", "", "src", False),
    ],
)
def test_module_names_follow_paths(path: str, prefix: str, name: str, package: bool) -> None:
    module = module_of(path, prefix)
    assert (module.canonical, module.is_package) == (name, package)


@pytest.mark.parametrize(
    ("path", "level", "target", "name"),
    [
        ("a/b/c.py", 1, "d", "a.b.d"),
        ("a/b/c.py", 2, None, "a"),
        ("a/b/__init__.py", 1, "d", "a.b.d"),
        ("a/b/__init__.py", 2, "d", "a.d"),
        ("a/b/c.py", 0, "x.y", "x.y"),
        ("c.py", 3, "d", "d"),
    ],
)
def test_relative_imports_resolve_from_the_package(
    path: str, level: int, target: str | None, name: str
) -> None:
    assert module_of(path).resolve(level, target) == name


def test_a_module_may_be_importable_from_any_folder_that_is_no_package() -> None:
    assert facts_of("", "suffix", "around", path="a/b/c.py") == [
        ("around", "a", ""),
        ("around", "a", "<none>"),
        ("around", "a.b", ""),
        ("around", "a.b", "<none>"),
        ("around", "b", "a"),
        ("suffix", "a.b.c", "a.b.c", ""),
        ("suffix", "b.c", "a.b.c", "a"),
        ("suffix", "c", "a.b.c", "a/b"),
    ]


def test_names_are_looked_up_as_python_does() -> None:
    source = """
        X = 1
        class C:
            Y = 2
            Z = Y
            def m(self, a: Y):
                Y
                a
                def inner():
                    inner2
                    a
                def inner2(): pass
                inner()
                X = 3
                X
            def n(self):
                global X
                return X, [a for a in C]
    """
    assert facts_of(source, "refers", "names") == [
        ("names", "m:C.m", "m", "Y"),  # the body does not see the class …
        ("names", "m:C.n", "m", "C"),
        ("names", "m:C.n", "m", "X"),
        ("refers", "m:C.Z", "m:C.Y"),
        ("refers", "m:C.m", "m:C.Y"),  # … its annotations do
        ("refers", "m:C.m", "m:C.m.<locals>.inner"),
        ("refers", "m:C.m.<locals>.inner", "m:C.m.<locals>.inner2"),
    ]


def test_imports_are_followed_along_attribute_chains() -> None:
    source = """
        import a.b
        import c.d as e
        from f import g, h as i
        def use():
            a.b.x.y
            e.z
            g.w
            i
    """
    assert facts_of(source, "uses", "attribute") == [
        ("uses", "m:use", "a", "b", "a.b"),
        ("uses", "m:use", "a.b", "x", "a.b"),
        ("uses", "m:use", "a.b.x", "y", "a.b"),
        ("uses", "m:use", "c.d", "z", "c.d"),
        ("uses", "m:use", "f", "g", "f"),
        ("uses", "m:use", "f", "h", "f"),
        ("uses", "m:use", "f.g", "w", "f"),
    ]


def test_a_name_with_two_meanings_keeps_both() -> None:
    source = """
        try:
            import fast as impl
        except ImportError:
            impl = None
        def use():
            return impl.run()
    """
    assert facts_of(source, "uses", "attribute", "names") == [
        ("attribute", "m:use", "run"),
        ("names", "m", "m", "ImportError"),
        ("names", "m:use", "m", "impl"),
        ("uses", "m:use", "fast", "run", "fast"),
    ]


def test_imports_give_names_to_others_but_do_not_use_what_they_import() -> None:
    source = "from .impl import f, g as g\nfrom . import impl\nfrom .more import *\n"
    relations = ("reexports", "binds", "stars", "uses", "imports")
    assert facts_of(source, *relations, path="p/__init__.py") == [
        ("binds", "p", "f", "p.impl.f"),
        ("binds", "p", "g", "p.impl.g"),
        ("binds", "p", "impl", "p.impl"),
        ("imports", "p", "p"),
        ("imports", "p", "p.impl"),
        ("imports", "p", "p.impl.f"),
        ("imports", "p", "p.impl.g"),
        ("imports", "p", "p.more"),
        ("reexports", "p", "f", "p.impl", "f"),
        ("reexports", "p", "g", "p.impl", "g"),
        ("reexports", "p", "impl", "p", "impl"),
        ("stars", "p", "p.more"),
        ("uses", "p", "p.impl", "g", "p.impl"),  # "g as g" is a re-export on purpose
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('getattr(x, "name")', [("attribute", "m", "name")]),
        ('setattr(x, "name", 1)', [("attribute", "m", "name")]),
        ('getattr(x, f"visit_{n}")', [("attribute", "m", "__dict__"), ("prefix", "m", "visit_")]),
        ('getattr(x, "do_" + n)', [("attribute", "m", "__dict__"), ("prefix", "m", "do_")]),
        (
            'getattr(x, "_do_{}".format(n))',
            [("attribute", "m", "__dict__"), ("prefix", "m", "_do_")],
        ),
        ('getattr(x, "do_%s" % n)', [("attribute", "m", "__dict__"), ("prefix", "m", "do_")]),
        (
            'getattr(x, "on_" + n + "_end")',
            [("attribute", "m", "__dict__"), ("prefix", "m", "on_")],
        ),
        (
            'getattr(x, f"on_a{n}")',
            [("attribute", "m", "__dict__"), ("prefix", "m", "on_"), ("prefix", "m", "on_a")],
        ),
        ('getattr(x, f"__{n}")', [("attribute", "m", "__dict__")]),
        ("x.a.b", [("attribute", "m", "a"), ("attribute", "m", "b")]),
        ("f().a", [("attribute", "m", "a")]),
        ("globals()[n]", [("dynamic", "m", "m")]),
        ("eval(n)", [("dynamic", "m", "m")]),
        ("match v:\n    case P(x=0): pass", [("attribute", "m", "x")]),
        ('patch.object(x, "name")', [("attribute", "m", "name"), ("attribute", "m", "object")]),
    ],
)
def test_symbols_reached_by_name(source: str, expected: list[tuple]) -> None:
    found = facts_of(source, "attribute", "prefix", "dynamic")
    assert found == expected


@pytest.mark.parametrize(
    ("body", "mentions"),
    [
        ("[].a; {}.a.b; ','.a(x); f'{x}'.a; dict(x).a; [x.c for x in y].a", {"c"}),
        ("x = []\nx.a", set()),
        ("x = ()\nx = dict()\nlambda: x.a", set()),
        ("x: list = []\n[x.a for y in z]", set()),
        ("x = []\nx += y\nx.a", {"a"}),
        ("x = []\nfor x in y: pass\nx.a", {"a"}),
        ("x = y = []\ny.a", {"a"}),
        ("x = []\nx, z = y\nx.a", {"a"}),
        ("x = z\nx = []\nx.a", {"a"}),
        ("x = []\n[x.a for x in y]", {"a"}),
        ("x = []\nwith y as x: x.a", {"a"}),
        ("x = []\ntry: pass\nexcept E as x: x.a", {"a"}),
        ("x = []\nimport x\nx.a", {"a", "x"}),
        ("x = []\ndef x(): pass\nx.a", {"a"}),
        ("x = []\ndef g():\n    nonlocal x\n    x = y\nx.a", {"a"}),
        ("global x\nx = []\nx.a", {"a"}),
        ("p = []\np.a", {"a"}),
        ("list = y\nx = list()\nx.a", {"a"}),
        ("x = Box()\nx.a", {"a"}),
        ("x = x\nx.a", {"a"}),
        ("class C:\n    x = []\n    x.a", {"a"}),
    ],
)
def test_what_a_builtin_object_is_asked_for_is_none_of_the_tree(
    body: str, mentions: set[str]
) -> None:
    inside = "\n".join("    " + line for line in body.splitlines())
    found = {row[2] for row in facts_of(f"def f(p):\n{inside}\n", "attribute", "uses")}
    assert found == mentions
    module = {row[2] for row in facts_of("x = []\nx.a\n", "attribute")}
    assert module == {"a"}  # others may put something else there


def test_getattr_on_an_imported_module_reaches_all_of_it() -> None:
    source = "import a.b as b\ngetattr(b, n)\nvars(b)\n"
    assert facts_of(source, "uses") == [("uses", "m", "a.b", "__dict__", "a.b")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b", [("uses", "m", "a", "b", "a")]),
        ("a:b.c", [("uses", "m", "a", "b", "a"), ("uses", "m", "a.b", "c", "a")]),
        ("a sentence. with dots", []),
        ("plain", []),
    ],
)
def test_strings_that_are_dotted_paths_name_what_they_say(text: str, expected: list) -> None:
    assert facts_of(f"PATH = print({text!r})", "uses") == expected


def test_annotations_in_strings_are_expressions() -> None:
    source = """
        def f(x: "A", y: list["B | None"]) -> "C": pass
        z: "D" = 1
        cast("E", z)
        def g(x: Literal["not code"]): pass
    """
    names = {row[3] for row in facts_of(source, "names")}
    assert names >= {"A", "B", "C", "D", "E"}
    assert "not code" not in names


def test_a_value_that_may_act_belongs_to_the_module_and_one_that_may_not_to_its_name() -> None:
    source = """
        HANDLERS = {"a": f, "b": g.h}
        APP = make(k)
        a, b = p, q
    """
    assert facts_of(source, "names") == [
        ("names", "m", "m", "k"),
        ("names", "m", "m", "make"),
        ("names", "m:HANDLERS", "m", "f"),
        ("names", "m:HANDLERS", "m", "g"),
        ("names", "m:a", "m", "p"),
        ("names", "m:a", "m", "q"),
        ("names", "m:b", "m", "p"),
        ("names", "m:b", "m", "q"),
    ]


def test_decorators_are_named_by_what_they_resolve_to() -> None:
    source = """
        from functools import lru_cache as memo
        import click as c
        app = c.Group()
        @memo(1)
        def f(): pass
        @c.command()
        def g(): pass
        @app.route("/")
        def h(): pass
        class K:
            @property
            def p(self): pass
            @p.setter
            def p(self, v): pass
            @(lambda f: f)
            def q(self): pass
    """
    assert facts_of(source, "decorated") == [
        ("decorated", "m:K.p", "m:K", "*.setter"),
        ("decorated", "m:K.p", "m:K", "property"),
        ("decorated", "m:K.q", "m:K", "<computed>"),
        ("decorated", "m:f", "m", "functools.lru_cache"),
        ("decorated", "m:g", "m", "click.command"),
        ("decorated", "m:h", "m", "m.app.route"),
    ]


def test_bases_are_named_by_what_they_resolve_to() -> None:
    source = """
        import threading
        from typing import Generic
        from collections import namedtuple
        class A(threading.Thread): pass
        class B(A, Generic[T]): pass
        class C(make_base()): pass
        class D(namedtuple("D", "x y")): pass
        class E(ValueError, metaclass=Meta): pass
        class F:
            def __init_subclass__(cls): pass
    """
    assert facts_of(source, "base", "enlists") == [
        ("base", "m:A", "threading", "Thread", "threading.Thread"),
        ("base", "m:B", "m", "A", "m.A"),
        ("base", "m:B", "typing", "Generic", "typing.Generic"),
        ("base", "m:C", "", "<computed>", "<computed>"),
        ("base", "m:D", "collections", "namedtuple", "collections.namedtuple"),
        ("base", "m:E", "", "ValueError", "ValueError"),
        ("enlists", "m:E"),
        ("enlists", "m:F"),
    ]


def test_all_in_every_form_people_write() -> None:
    source = """
        from . import other
        __all__ = ["a", "b"]
        __all__ += ["c"]
        __all__.extend(["d"])
        __all__.append("e")
        if True:
            __all__ += other.__all__
    """
    assert facts_of(source, "all_name", "all_from", path="p/m.py") == [
        ("all_from", "p.m", "p.other"),
        *(("all_name", "p.m", name) for name in "abcde"),
    ]


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("m.py", GUARD + ":\n    f()", [("given_root", "m", GUARD)]),
        ("p/__main__.py", "", [("given_root", "p.__main__", "entry point __main__.py")]),
        ("setup.py", "", [("given_root", "setup", "entry point setup.py")]),
        ("m.py", "def f(): ...  # deltafix: keep", [("given_root", "m:f", "marked in the source")]),
        ("m.py", "x = 1  # noqa: dead", [("given_root", "m:x", "marked in the source")]),
        ("m.py", "@d  # noqa: dead, E501\ndef f():\n    pass",
         [("given_root", "m:f", "marked in the source")]),
        ("m.py", "def f(): pass  # noqa: E501", []),
        ("m.py", "def f():\n    return g()  # noqa: dead", []),
        ("test_m.py", "def test_a(): pass\ndef helper(): pass\nclass TestB: pass",
         [("test", "test_m"), ("test", "test_m:TestB"), ("test", "test_m:test_a")]),
        ("m_test.py", "from unittest import TestCase\nclass Odd(TestCase): pass",
         [("test", "m_test"), ("test", "m_test:Odd")]),
        ("test_m.py", "pytestmark = 1\nx = 2\ndef test(): pass",
         [("test", "test_m"), ("test", "test_m:pytestmark"), ("test", "test_m:test")]),
        ("test_m.py", "x = 2\ndef f(): pass", []),
        ("conftest.py", "def pytest_configure(): pass",
         [("test", "conftest"), ("test", "conftest:pytest_configure")]),
    ],
)  # fmt: skip
def test_roots_of_one_file(path: str, source: str, expected: list[tuple]) -> None:
    assert facts_of(source, "given_root", "test", path=path) == expected


def test_an_import_marked_on_purpose_uses_what_it_imports() -> None:
    assert facts_of("from a import b  # noqa: F401", "uses") == [("uses", "m", "a", "b", "a")]
    assert facts_of("from a import b  # noqa: E501\nx = 1", "uses") == []


def test_entry_points_of_a_project_file() -> None:
    source = """
        [project.scripts]
        shop = "shop.cli:main"
        [project.gui-scripts]
        window = "shop.gui:Window.open [gui]"
        [project.entry-points."shop.plugins"]
        plain = "shop.plugin"
        odd = 3
    """
    assert facts_of(
        source, "given_root", "imports", "uses", "attribute", path="pyproject.toml"
    ) == [
        ("attribute", "pyproject.toml", "open"),
        ("given_root", "pyproject.toml", "entry points of the project"),
        ("imports", "pyproject.toml", "shop.cli"),
        ("imports", "pyproject.toml", "shop.gui"),
        ("imports", "pyproject.toml", "shop.plugin"),
        ("uses", "pyproject.toml", "shop.cli", "main", "shop.cli"),
        ("uses", "pyproject.toml", "shop.gui", "Window", "shop.gui"),
    ]
    cfg = "[options.entry_points]\nconsole_scripts =\n    shop = shop.cli:main\n"
    assert facts_of(cfg, "uses", path="setup.cfg") == [
        ("uses", "setup.cfg", "shop.cli", "main", "shop.cli")
    ]


@pytest.mark.parametrize(
    ("path", "data", "why"),
    [
        ("m.py", b"def f(:\n", "line 1: invalid syntax"),
        (
            "m.py",
            b"x = 1\n\xff\xfe",
            "line 2: (unicode error) 'utf-8' codec can't decode byte 0xff:",
        ),
        ("m.py", b"\x00\x01\x02", "null bytes"),
        ("m.py", b"(" * 500 + b")" * 500, "parenthes"),
        ("m.py", b"x = " + b"+".join([b"1"] * 20_000), "nested too deeply"),
        ("pyproject.toml", b"[project\n", "Expected ']'"),
        ("setup.cfg", b"no section\n", "no section headers"),
        ("pyproject.toml", b"\xff", "utf-8"),
    ],
)
def test_a_file_that_cannot_be_read_says_why_and_has_words_alone(
    path: str, data: bytes, why: str
) -> None:
    fragment = extract(path, data)
    assert why.lower() in (fragment.error or "").lower()  # as each Python puts it
    assert ({relation for relation, _ in fragment.facts} - {"says"}, fragment.places) == (set(), ())


def test_nothing_of_the_source_is_run() -> None:
    fragment = extract("m.py", b"raise SystemExit(3)\nimport does_not_exist_anywhere\n")
    assert fragment.error is None


def test_facts_fit_the_relations_and_come_sorted_once() -> None:
    source = "import a\nclass C(a.B):\n    x = 1\n    def f(self): return self.x, self.x\n"
    fragment = extract("p/m.py", source.encode())
    assert list(fragment.facts) == sorted(set(fragment.facts))
    assert all(len(row) == len(DEAD_CODE.inputs[name]) for name, row in fragment.facts)


def test_fragments_survive_arrow() -> None:
    fragments = [
        extract("b.py", b"def f(): pass"),
        extract("a.py", b"def f(:"),
        Fragment("empty.toml"),
    ]
    batch = to_arrow(fragments)
    assert batch.schema == FRAGMENT_SCHEMA
    assert from_arrow(batch) == sorted(fragments, key=lambda fragment: fragment.path)
