"""The rules of the dead-code program on small trees whose dead symbols were found by hand."""

from __future__ import annotations

from textwrap import dedent

import pytest
from tests.judges.dead_code_oracle import PROGRAM, dead, evaluate

from deltafix.analyses.dead_code import DEAD_CODE
from deltafix.analyses.dead_code.why import Explainer

MAIN = 'if __name__ == "__main__": '


def test_the_program_declares_the_inputs_that_the_extractor_fills() -> None:
    assert PROGRAM.warnings == ()
    assert set(PROGRAM.names("input")) == set(DEAD_CODE.inputs)
    for name, columns in DEAD_CODE.inputs.items():
        assert tuple(a.name for a in PROGRAM.relation(name).attributes) == columns


def check(expected: list[str], tree: dict[str, str], *policies: str) -> None:
    tree = {path: dedent(text) for path, text in tree.items()}
    assert dead(tree, policies or ("tests",)) == sorted(expected)


def test_symbols_used_only_by_dead_code_are_dead() -> None:
    check(
        ["m:_table", "m:dead", "m:helper"],
        {
            "m.py": f"""
            def alive(): return 1
            def dead(): return helper()
            def helper(): return _table
            _table = {{"k": helper}}
            {MAIN}alive()
            """
        },
    )


def test_a_cycle_of_dead_functions_does_not_keep_itself_alive() -> None:
    check(["m:a", "m:b"], {"m.py": "def a(): b()\ndef b(): a()\n" + MAIN + "pass"})
    check([], {"m.py": "def a(): b()\ndef b(): a()\n" + MAIN + "a()"})


def test_a_method_needs_its_class_and_its_name() -> None:
    check(
        ["m:A.unnamed", "m:B", "m:B.__len__", "m:B.used"],
        {
            "m.py": f"""
            class A:
                def used(self): ...
                def unnamed(self): ...
                def __len__(self): return 0
            class B:
                def used(self): ...
                def __len__(self): return 0
            {MAIN}A().used()
            """
        },
    )


def test_attribute_names_reach_living_modules_only() -> None:
    check(
        ["orphan", "orphan:run", "lib:other"],
        {
            "lib.py": "def run(): ...\ndef other(): ...",
            "orphan.py": "def run(): ...",
            "main.py": "import lib\nx = [lib]\n" + MAIN + "x[0].run()",
        },
    )


@pytest.mark.parametrize(
    "use",
    [
        "from pkg import f; f()",
        "import pkg; pkg.f()",
        "import pkg.impl as i; i.f()",
        "import pkg.impl; pkg.impl.f()",
        "from pkg import impl; impl.f()",
        "from pkg.star import f as g; g()",
        "from pkg import star; star.f()",
        'import importlib; importlib.import_module("pkg.impl").f()',
        'load("pkg.impl:f")',
        'load("pkg.impl.f")',
    ],
)
def test_every_way_to_name_a_function_of_another_module(use: str) -> None:
    tree = {
        "pkg/__init__.py": "from .impl import f",
        "pkg/impl.py": "def f(): g()\ndef g(): ...\ndef h(): ...",
        "pkg/star.py": "from .impl import *",
        "main.py": MAIN + use,
    }
    found = dead(tree)
    assert "pkg.impl:h" in found
    assert not {"pkg.impl:f", "pkg.impl:g", "pkg.impl", "pkg"}.intersection(found)


def test_attributes_of_other_distributions_are_not_ours() -> None:
    check(
        ["m:array"],
        {"m.py": f"import numpy as np\ndef array(): ...\n{MAIN}np.array([1])"},
    )
    check([], {"m.py": f"import numpy as np\ndef array(): ...\n{MAIN}np.x().array([1])"})


def test_the_name_of_a_namespace_folder_is_in_the_tree() -> None:
    check(
        ["ns.a:C.g"],
        {
            "ns/a.py": "class C:\n    def f(self): ...\n    def g(self): ...",
            "main.py": f"from ns import a\n{MAIN}a.C.f(1)",
        },
    )


def test_a_script_folder_is_on_the_path_of_its_scripts() -> None:
    check(
        ["tools.helper:g"],
        {
            "tools/helper.py": "def f(): ...\ndef g(): ...",
            "tools/run.py": f"import helper\n{MAIN}helper.f()",
        },
    )


def test_in_a_package_the_short_name_is_somebody_else() -> None:
    check(
        ["p.json:dumps", "p.json"],
        {
            "p/__init__.py": "",
            "p/json.py": "def dumps(): ...",
            "p/main.py": f"import json\n{MAIN}json.dumps(1)",
        },
    )


def test_decorators_register_unless_they_are_known_not_to() -> None:
    check(
        ["m:C.lazy", "m:cached", "m:outer.<locals>.inner_pure"],
        {
            "m.py": f"""
            import functools, flask
            app = flask.Flask("x")
            @app.route("/")
            def page(): used()
            def used(): ...
            @functools.lru_cache
            def cached(): ...
            class C:
                @property
                def lazy(self): ...
                @app.before
                def hook(self): ...
            def outer():
                @app.route("/2")
                def inner(): ...
                @functools.wraps(outer)
                def inner_pure(): ...
            {MAIN}print(C, outer)
            """
        },
    )


def test_all_makes_roots_also_along_star_and_plus() -> None:
    check(
        ["p.a:hidden", "p.b"],
        {
            "p/__init__.py": "from . import a\nfrom .a import *\n__all__ = a.__all__ + []",
            "p/a.py": '__all__ = ["shown"]\ndef shown(): ...\ndef hidden(): ...',
            "p/b.py": "",
        },
    )


def test_members_that_an_ancestor_outside_the_tree_may_call_are_kept() -> None:
    check(
        ["m:Err.extra", "m:Thread.__secret", "m:Plain.run", "m:_make"],
        {
            "m.py": f"""
            import threading
            class Thread(threading.Thread):
                def run(self): ...
                def __secret(self): ...
            class Child(Thread):
                def also(self): ...
            class Plain:
                def run(self): ...
            class Err(ValueError):
                def extra(self): ...
            def _make(): ...
            {MAIN}Child().start(); Plain(); raise Err
            """
        },
    )


def test_data_classes_keep_their_fields_and_not_their_methods() -> None:
    check(
        ["m:Color.shout", "m:Point.norm", "m:Plain.x"],
        {
            "m.py": f"""
            import dataclasses, enum
            @dataclasses.dataclass
            class Point:
                x: int
                y: int = 0
                def norm(self): ...
            class Base(enum.Enum):
                pass
            class Color(Base):
                RED = 1
                def shout(self): ...
            class Plain:
                x = 1
            {MAIN}print(Point, Color, Plain)
            """
        },
    )


def test_subclasses_enlisted_by_an_ancestor_live_with_their_module() -> None:
    check(
        ["m:Other"],
        {
            "m.py": f"""
            class Plugin:
                def __init_subclass__(cls): ...
            class A(Plugin): ...
            class B(A): ...
            class Other: ...
            {MAIN}print(Plugin)
            """
        },
    )


def test_computed_access() -> None:
    source = """
        class V:
            def visit_a(self): ...
            def visit_b_c(self): ...
            def other(self): ...
        {use}
        """
    tree = {"m.py": dedent(source).format(use=MAIN + 'getattr(V(), f"visit_{n}")()')}
    check(["m:V.other"], tree)
    check([], {"m.py": "def f(): ...\ndef g(): ...\n" + MAIN + "globals()[n]()"})
    check([], {"a.py": "def f(): ...", "m.py": f"import a\n{MAIN}getattr(a, n)()"})


def test_locals_reaches_what_the_block_defines() -> None:
    source = "def f():\n    def g(): ...\n    return {}\ndef h(): ...\n" + MAIN + "f()"
    check(["m:f.<locals>.g", "m:h"], {"m.py": source.format("{}")})
    check(["m:h"], {"m.py": source.format("locals()")})


def test_tests_are_roots_unless_switched_off() -> None:
    tree = {
        "lib.py": "def only_tested(): ...",
        "test_lib.py": "import lib\ndef test_it(): lib.only_tested()\ndef helper(): ...",
    }
    check(["test_lib:helper"], tree)
    assert dead(tree, ["public-is-not-on"]) == [
        "lib",
        "lib:only_tested",
        "test_lib",
        "test_lib:helper",
        "test_lib:test_it",
    ]


BASES = """
    class Base:
        wanted = 1
        spare = 2
        def setUp(self): ...
        def test_all(self): return self.wanted
        def helper(self): ...
    class Alone:
        def test_none(self): ...
    """


@pytest.mark.parametrize(
    "heir",
    [
        "class TestIt(Base): ...",
        "import unittest\nclass It(Base, unittest.TestCase): ...",
        "class Middle(Base): ...\nclass TestIt(Middle): ...",
    ],
)
def test_what_a_runner_calls_of_a_tests_ancestor_is_alive(heir: str) -> None:
    tree = {
        "shop_tests/bases.py": BASES,
        "shop_tests/test_it.py": f"from shop_tests.bases import Base\n{heir}\ndef test(): ...",
        "shop_tests/__init__.py": "",
    }
    spare = ["Alone", "Alone.test_none", "Base.helper", "Base.spare"]
    check([f"shop_tests.bases:{one}" for one in spare], tree)
    tree["shop_tests/test_it.py"] = tree["shop_tests/test_it.py"].replace("TestIt", "It")
    if "unittest" not in heir:
        assert "shop_tests.bases:Base.test_all" in dead({k: dedent(t) for k, t in tree.items()})


def test_a_librarys_users_hold_no_object_of_a_test() -> None:
    tree = {
        "shop/__init__.py": "class Cart:\n    def total(self): ...\n__all__ = ['Cart']",
        "shop/test/__init__.py": "class Helper:\n    def offered(self): ...",
        "tests/test_cart.py": "class TestCart:\n    def test(self): ...\n    def spare(self): ...",
    }
    check(["tests.test_cart:TestCart.spare"], tree, "public", "tests")


def test_the_hooks_of_a_pytest_plugin_live_with_it() -> None:
    plugin = "def pytest_configure(): used()\ndef used(): ...\ndef _unused(): ..."
    entry = '[project.entry-points.pytest11]\np = "plugin"\n'
    check(["plugin:_unused"], {"pyproject.toml": entry, "plugin.py": plugin})
    check(
        ["m:pytest_configure", "m"],
        {"m.py": "def pytest_configure(): ...", "main.py": MAIN + "pass"},
    )


def test_console_scripts_are_roots() -> None:
    check(
        ["shop.cli:other"],
        {
            "pyproject.toml": '[project.scripts]\nshop = "shop.cli:main"\n',
            "src/shop/__init__.py": "",
            "src/shop/cli.py": "def main(): ...\ndef other(): ...",
        },
    )


def test_public_names_of_a_library_are_roots_on_request() -> None:
    tree = {
        "p/__init__.py": "from ._impl import api, helper as _helper",
        "p/_impl.py": "def api(): ...\ndef helper(): ...\ndef unused(): ...",
        "p/listed.py": '__all__ = ["a"]\ndef a(): ...\ndef b(): ...',
        "p/shapes.py": """
            import json
            class _Base:
                def inherited(self): ...
                def _internal(self): ...
            class Shape(_Base):
                def area(self): return self._area()
                def _area(self): ...
                def _unused(self): ...
            def _private(): ...
            class _Handed:
                def open(self): ...
                def _closed(self): ...
            def make(): return _Handed()
            class _Unused:
                def open(self): ...
            """,
    }
    check(
        [
            "p._impl:helper",
            "p._impl:unused",
            "p.listed:b",
            "p.shapes:Shape._unused",
            "p.shapes:_Handed._closed",
            "p.shapes:_Base._internal",
            "p.shapes:_Unused",
            "p.shapes:_Unused.open",
            "p.shapes:_private",
        ],
        tree,
        "public",
        "tests",
    )


def test_a_property_and_its_setter_are_one_symbol() -> None:
    source = """
        class C:
            @property
            def p(self): ...
            @p.setter
            def p(self, v): used()
        def used(): ...
        """
    check([], {"m.py": dedent(source) + MAIN + "C().p = 1"})
    check(["m:C.p", "m:used"], {"m.py": dedent(source) + MAIN + "C()"})


def test_a_global_definition_in_a_function_belongs_to_the_module() -> None:
    check(
        [],
        {"m.py": f"def install():\n    global hook\n    def hook(): ...\n{MAIN}install(); hook()"},
    )


def test_why_reaches_exactly_what_is_alive_and_gives_the_chain() -> None:
    tree = {
        "p/__init__.py": "from .a import f",
        "p/a.py": "def f(): return g()\ndef g(): ...\nclass K:\n    def run(self): ...\n"
        "def lost(): return lost2()\ndef lost2(): ...",
        "main.py": f"import p.a\n{MAIN}p.f(); p.a.K().run()",
    }
    views = evaluate(tree)
    explainer = Explainer(lambda name: views[name])
    assert {(symbol,) for symbol in explainer.steps} == views["alive"]
    assert explainer.explain("p.a:g") == (
        "p.a:g is alive:\n"
        '  main is a root (if __name__ == "__main__")\n'
        "  main refers to p.a:f\n"
        "  p.a:f refers to p.a:g"
    )
    assert explainer.explain("p.a:K.run").splitlines()[-1] == (
        "  main mentions .run, which may be p.a:K.run"
    )
    assert explainer.explain("p.a:lost2") == (
        "p.a:lost2 is dead: only dead code refers to it\n  p.a:lost"
    )
    assert explainer.explain("p.a:lost") == "p.a:lost is dead: nothing refers to it"


def test_why_does_not_use_a_member_before_its_owner() -> None:
    # `run` is mentioned at once, but Late is alive only through a long way round.
    tree = {
        "m.py": dedent(
            f"""
            class Late:
                def run(self): ...
            def one(): two()
            def two(): return Late
            {MAIN}x.run(one())
            """
        )
    }
    explainer = Explainer(lambda name: evaluate(tree)[name])
    assert [step.symbol for step in explainer.chain("m:Late.run")] == ["m", "m:Late.run"]
    assert [step.symbol for step in explainer.chain("m:Late")] == ["m", "m:one", "m:two", "m:Late"]


def test_a_class_body_reads_the_global_that_it_binds_anew() -> None:
    check(
        ["m:other"],
        {
            "m.py": f"""
            import lib
            def helper(): ...
            def other(): ...
            class Pool(lib.Base):
                helper = helper
                def other(self): ...
            {MAIN}Pool()
            """
        },
    )


@pytest.mark.parametrize(
    ("use", "dead_ones"),
    [
        ('import_module(f"pkg.plug_{x}")', {"pkg.other"}),
        ('import_module("pkg.plug_" + x)', {"pkg.other"}),
        ('import_module("pkg.plug_%s" % x)', {"pkg.other"}),
        ('import_module("pkg.plug_{}".format(x))', {"pkg.other"}),
        ('import_module(f".plug_{x}", "pkg")', {"pkg.other"}),
        ('import_module(".plug_" + x, package=pkg.__name__)', {"pkg.other"}),
        ('import_module(f"{pkg.__name__}.{x}")', set()),
        ('import_module("." + x, "pkg")', set()),
        ('import_module(".plug_one", "pkg")', {"pkg.plug_two", "pkg.other"}),
        ("list(iter_modules(pkg.__path__))", set()),
        ('list(walk_packages(path=pkg.__path__, prefix="pkg."))', set()),
        ("list(iter_modules([dirname(pkg.__file__)]))", set()),
        ("import_module(x)", {"pkg.plug_one", "pkg.plug_two", "pkg.other"}),
    ],
)
def test_a_computed_name_imports_every_module_that_it_may_mean(
    use: str, dead_ones: set[str]
) -> None:
    tree = {
        "pkg/__init__.py": "",
        "pkg/plug_one.py": "",
        "pkg/plug_two/__init__.py": "",
        "pkg/plug_two/inner.py": "",
        "pkg/other.py": "",
        "main.py": "import pkg\nfrom importlib import import_module\n"
        f"from pkgutil import iter_modules, walk_packages\n{MAIN}{use}",
    }
    inner = {"pkg.plug_two.inner"} if "pkg.plug_two" in dead_ones else set()
    assert set(dead(tree)) == dead_ones | inner


@pytest.mark.parametrize(
    "load",
    [
        "import_module(f'.{WAYS[name]}', __name__)",
        "import_module('.' + WAYS[name], __package__)",
        "import_module(f'{__name__}.{WAYS[name]}')",
        "import_module(WAYS[name], __spec__.parent)",
    ],
)
def test_names_looked_up_in_modules_imported_so_are_alive_where_the_name_is_computed(
    load: str,
) -> None:
    tree = {
        "shop/__init__.py": f"""
        from importlib import import_module
        WAYS = {{"Card": "card", "Cash": "cash"}}
        def __getattr__(name):
            return getattr({load}, name)
        """,
        "shop/card.py": "class Card: ...\ndef _idle(): ...",
        "shop/cash.py": "class Cash: ...",
        "main.py": f"import shop\n{MAIN}shop.Card()",
    }
    check(["shop.card:_idle"], tree)
    tree["shop/__init__.py"] = tree["shop/__init__.py"].replace(", name)", ", 'Card')")
    check(["shop.card:_idle", "shop.cash:Cash"], tree)


def test_a_folder_of_plugins_is_alive_only_if_what_lists_it_is() -> None:
    tree = {
        "shop/__init__.py": "",
        "shop/ways/__init__.py": """
        import pkgutil
        def found(): return list(pkgutil.iter_modules(__path__))
        """,
        "shop/ways/card.py": "def pay(): ...\npay()",
        "main.py": f"import shop.ways\n{MAIN}shop.ways.found()",
    }
    check([], tree)
    tree["main.py"] = f"import shop.ways\n{MAIN}pass"
    check(["shop.ways.card", "shop.ways.card:pay", "shop.ways:found"], tree)


def test_the_chain_says_that_a_name_was_computed() -> None:
    tree = {
        "pkg/__init__.py": "",
        "pkg/one.py": "",
        "main.py": f"from importlib import import_module\n{MAIN}import_module(f'pkg.{{x}}')",
    }
    rows = evaluate(tree)
    text = Explainer(lambda name: rows[name]).explain("pkg.one")
    assert text.endswith("main may import by a computed name pkg.one")
