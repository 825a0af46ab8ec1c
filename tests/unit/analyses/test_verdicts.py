"""The classes of mistakes that the hand-checked verdicts showed, each on a few lines of our own.

The verdicts are in tests/fixtures/dead_code/verdicts.csv; `python -m bench.dead_code` holds both
tools against them on the packages themselves. Here: the file's shape, and that no class comes back.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from bench.dead_code import PACKAGES, Answer, Verdict, precision, read_verdicts, vulture_found
from tests.judges.dead_code_oracle import PROGRAM, evaluate

from deltafix.analyses.dead_code import DEAD_CODE
from deltafix.analyses.dead_code.job import DeadCode
from deltafix.analyses.watch import Watcher

MAIN = 'if __name__ == "__main__": '


def dead(tree: dict[str, str], *policies: str) -> list[str]:
    tree = {path: dedent(text) for path, text in tree.items()}
    found = evaluate(tree, policies or ("tests",))["dead"]
    return sorted(row[0] for row in found)


# -- the fixture -----------------------------------------------------------------------------------


def test_a_verdict_is_given_once_with_a_reason_for_a_pinned_package() -> None:
    verdicts = read_verdicts()
    assert len({(one.package, one.symbol) for one in verdicts}) == len(verdicts) >= 400
    assert {one.verdict for one in verdicts} == {"dead", "alive"}
    assert {one.sample for one in verdicts} == {
        "first", "rest", "second", "third", "fourth",
        "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth",
        "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth",
        "nineteenth", "twentieth",
    }  # fmt: skip
    assert sum(one.sample == "first" for one in verdicts) == 300
    assert {(one.package, one.version) for one in verdicts} <= set(PACKAGES.items())
    assert len({one.package for one in verdicts if one.sample == "first"}) == 12
    for one in verdicts:
        assert one.reason
        assert one.symbol.strip(":.") == one.symbol


def test_a_verdict_is_a_row_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.csv"
    path.write_text("package,version,symbol,verdict,sample,reason\np,1,m:f,dead,first,no use\n")
    assert read_verdicts(path) == [Verdict("p", "1", "m:f", "dead", "first", "no use")]


def test_what_vulture_prints_is_held_against_a_symbol_by_file_and_name() -> None:
    told = vulture_found(
        "./p/m.py:3: unused function 'f' (60% confidence)\n"
        "p/m.py:1: unused import 'g' (90% confidence)\nbroken.py:1: invalid syntax\n"
    )
    assert told == [("p/m.py", "f")]
    places = {"p.m:f": ("p/m.py", "f"), "p.m:g": ("p/m.py", "g")}
    answer = Answer(0, frozenset(), frozenset(), places, told)
    assert [name for name in (*places, "gone") if answer.vulture_names(name)] == ["p.m:f"]


def test_precision_is_the_share_of_the_dead() -> None:
    one = Verdict("p", "1", "m:f", "dead", "first", "no use")
    assert precision([one, one, one, one._replace(verdict="alive")]) == "3 of 4, 75.0%"
    assert precision([]) == "–"


# -- what stands beside the code -------------------------------------------------------------------


def test_what_no_test_imports_is_data_or_run_by_hand() -> None:
    tree = {
        "tests/test_it.py": "from tests.helper import used\ndef test_it(): used()\n",
        "tests/helper.py": "def used(): ...\ndef unused(): ...\n",
        "tests/data/case.py": "def a(): b\nX = 1\n",
        "tests/data/two_test.py": "class Käse: ...\n",  # named as a test, and has none
        "docs/conf.py": "project = 'p'\n",
        "examples/one.py": "def shown(): ...\n",
        "pkg/tests/data.py": "Y = 1\n",
        "noxfile.py": "def session(): ...\n",
        "hook-it.py": "hidden = []\n",  # cannot be imported
        "app.py": f"def lost(): ...\n{MAIN}pass\n",
    }
    assert dead(tree) == ["app:lost", "tests.helper:unused"]


def test_a_test_finds_its_neighbour_and_nothing_further_down() -> None:
    tree = {
        "tests/test_it.py": "import collections, near\ndef test_it(): near.used()\n",
        "tests/near.py": "def used(): ...\ndef unused(): ...\n",
        "tests/data/collections.py": "nested = 1\n",
    }
    assert dead(tree) == ["tests.near:unused"]


def test_a_module_named_in_a_string_is_loaded_by_name() -> None:
    tree = {
        "tests/test_it.py": "def test_it(): run('tests.app.factory')\n",
        "tests/app/factory.py": "def no_app(): ...\n",
    }
    assert dead(tree) == []


@pytest.mark.parametrize("name", ["TestIt", "ItTest"])
def test_a_class_of_a_test_file_is_collected_by_its_ancestors(name: str) -> None:
    tree = {
        "test_base.py": "import unittest\nclass Base(unittest.TestCase): ...\ndef test(): Base\n",
        "test_it.py": f"from test_base import Base\nclass {name}(Base):\n  def test(self): f()\n"
        "def f(): ...\ndef g(): ...\n",
    }
    assert dead(tree) == ["test_it:g"]


def test_a_folder_of_tests_has_some_in_its_init() -> None:
    tree = {"tests/test_it/__init__.py": "def test_one(): ...\ndef lost(): ...\n"}
    assert dead(tree) == ["tests.test_it:lost"]


def test_a_fixture_may_be_made_by_a_call() -> None:
    tree = {
        "conftest.py": "from pytest_tools import container\nimport logging\n"
        "worker = container('x')\ndef f(): ...\nalso = f\nlog = logging.getLogger()\nSIZE = 3\n"
    }
    assert dead(tree) == ["conftest:SIZE", "conftest:log"]


def test_a_file_that_starts_as_a_script_is_run() -> None:
    tree = {"utils/__init__.py": "", "utils/run.py": "#!/usr/bin/env python3\ndef f(): ...\n"}
    assert dead(tree) == ["utils.run:f"]


# -- libraries -------------------------------------------------------------------------------------


def test_a_typed_package_is_there_for_importers(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("")
    (tmp_path / "shop" / "__main__.py").write_text("import shop.cart\n")
    (tmp_path / "shop" / "cart.py").write_text("def api(): ...\ndef _lost(): ...\n")
    with DeadCode(confidence="likely") as job:
        watcher = Watcher(DEAD_CODE.tree(tmp_path), job, DEAD_CODE.extract)
        watcher.poll()
        assert [one.symbol for one in job.dead()] == ["shop.cart:api", "shop.cart:_lost"]
        (tmp_path / "shop" / "py.typed").touch()
        change = watcher.poll()
        assert change is not None
        assert [one.symbol for one in change.became_alive] == ["shop.cart:api"]


def test_a_setup_file_says_that_what_is_here_gets_installed() -> None:
    tree = {
        "shop/__init__.py": "def api(): ...\n",
        "run.py": f"import shop\n{MAIN}pass\n",
    }
    assert dead(tree, "recognise") == ["shop:api"]
    assert dead({**tree, "setup.py": "setup()"}, "recognise") == []


def test_a_star_import_offers_what_it_brings() -> None:
    tree = {
        "shop/__init__.py": "from ._a import *\nfrom ._b import *\n",
        "shop/_a.py": "def api(): ...\ndef _own(): ...\n",
        "shop/_b.py": "__all__ = ['listed']\ndef listed(): ...\ndef unlisted(): ...\n",
    }
    assert dead(tree, "public") == ["shop._a:_own", "shop._b:unlisted"]


def test_names_that_all_leaves_out_may_be_old_names_for_importers() -> None:
    tree = {
        "m.py": '''
            """What it does, and `LIMIT`."""
            import warnings
            from functools import partial
            __all__ = ["new"]
            def new(x): ...
            OldName = new
            half = partial(new, 1)
            LIMIT = 2
            COLOUR = "red"
            def old():
                warnings.warn("use new", DeprecationWarning)
            def other(): ...
            '''
    }
    assert dead(tree, "public") == ["m:COLOUR", "m:other"]


def test_a_module_of_imports_hands_them_on() -> None:
    lexers = "from _real import Old\n__all__ = []\n"
    tree = {"lexers.py": lexers, "_real.py": "__all__ = []\nclass Old: ...\nclass Lost: ...\n"}
    assert dead(tree, "public") == ["_real:Lost"]
    assert dead({**tree, "lexers.py": f"{lexers}x = 1\n"}, "public") == ["_real:Lost", "_real:Old"]


# -- names that are written elsewhere --------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("vars(C).get('_TEST')", ["m:C._OTHER"]),
        ("C.__dict__['_TEST']", ["m:C._OTHER"]),
        ("table = ['_TEST']\nfor name in table: getattr(C, name)", ["m:C._OTHER"]),
        ("table = {'k': ('m', '_TEST')}\nhasattr(C, table['k'][1])", ["m:C._OTHER"]),
        ("table = ['_TEST']", ["m:C._OTHER", "m:C._TEST"]),
        ("getattr(C, n), f'_TEST{n}'", ["m:C._OTHER", "m:C._TEST"]),
        ("getattr(C, n), '_TEST' + n", ["m:C._OTHER", "m:C._TEST"]),
        ("getattr(C, n), ['_TEST'] + n", ["m:C._OTHER"]),
        ("name = '_TE' + n\ngetattr(C, name)", ["m:C._OTHER", "m:C._TEST"]),
    ],
)
def test_strings_are_names_where_names_are_looked_up(use: str, expected: list[str]) -> None:
    source = f"class C:\n    _TEST = 1\n    _OTHER = 2\nn = 'x'\nC, n\n{use}\n{MAIN}pass\n"
    found = dead({"m.py": source})
    assert [one for one in found if one.startswith("m:C")] == expected


def test_a_prefix_ends_where_a_word_does() -> None:
    tree = {
        "m.py": f"""
        class C:
            def _algo1(self): ...
            def doGet(self): ...
            def done(self): ...
            def build_pdf(self): ...
            def run(self, n):
                name = "build_" + n
                return getattr(self, f"_algo{{n}}"), getattr(self, "do" + n), getattr(self, name)
        {MAIN}C().run(1)
        """
    }
    assert dead(tree) == ["m:C.done"]


def test_a_private_name_is_read_by_its_mangled_name() -> None:
    tree = {
        "m.py": f"""
        class C:
            def __used(self): ...
            def __lost(self): ...
        {MAIN}C()._C__used()
        """
    }
    assert dead(tree) == ["m:C.__lost"]


@pytest.mark.parametrize(
    ("call", "lost"),
    [
        ('getattr(x, "_C__used")()', ["m:C.__lost"]),
        ('name = "_C__used"\n    getattr(x, name)()', ["m:C.__lost"]),
        ('[getattr(x, name)() for name in ("_C__used",)]', ["m:C.__lost"]),
        ('getattr(x, f"_C__{x}")()', []),
        ('getattr(x, "_C__us" + x)()', []),  # as of any name, its start up to a `_`, too
    ],
)
def test_a_private_name_is_read_by_its_mangled_name_in_a_text(call: str, lost: list[str]) -> None:
    text = "class C:\n    def __used(self): ...\n    def __lost(self): ...\n"
    assert dead({"m.py": f"{text}def f(x):\n    {call}\n{MAIN}f(C())\n"}) == lost


def test_a_lambda_does_what_it_does_when_it_is_called() -> None:
    tree = {
        "m.py": f"""
        def f(): ...
        def g(): ...
        def h(): ...
        _x = lambda: f()
        y = lambda a=g(): h()
        {MAIN}print(y)
        """
    }
    assert dead(tree) == ["m:_x", "m:f"]


def test_a_relative_module_in_a_string() -> None:
    tree = {
        "p/__init__.py": "from p.compat import through\nthrough(__name__, '._old')\n",
        "p/_old.py": "def old(): ...\n",
        "p/sub.py": "from p.compat import through\nthrough(__name__, '.._older')\n",
        "p/_older.py": "def older(): ...\n",
        "p/compat.py": "def through(name, child): ...\n",
        "main.py": f"import p.sub\n{MAIN}pass\n",
    }
    assert dead(tree) == []


def test_settings_are_read_from_a_class_or_this_module() -> None:
    tree = {
        "m.py": f"""
        KEY = 1
        def load(app):
            class Local:
                KEY = 2
            app.config.from_object(__name__)
            app.config_from_object(Local())
            app.append(Other)
        class Other:
            KEY = 3
        {MAIN}load(1)
        """
    }
    assert dead(tree) == ["m:Other.KEY"]


def test_a_forward_reference_in_any_subscript() -> None:
    tree = {"m.py": f"import t\n{MAIN}t.Unpack['X']\nclass X: ...\nclass Y: ...\n"}
    assert dead(tree) == ["m:Y"]


def test_an_ancestor_may_notice_a_class_in_a_function() -> None:
    tree = {
        "m.py": f"""
        import outside
        class Task(metaclass=outside.Register): ...
        def f(given):
            class Base(Task): ...
            class Noticed(Base): ...
            class Maybe(given): ...
            class Also(outside.Task): ...
            class Plain: ...
            class Heir(Plain): ...
        {MAIN}f(1)
        """
    }
    assert dead(tree) == ["m:f.<locals>.Heir", "m:f.<locals>.Plain"]


def test_a_build_backend_reads_the_version(tmp_path: Path) -> None:
    (tmp_path / "version.py").write_text(f"_version = '1'\n_lost = 2\n{MAIN}pass\n")
    (tmp_path / "pyproject.toml").write_text(
        "[tool.hatch.version]\npath = 'version.py'\npattern = \"_version = '(?P<version>.+)'\"\n"
    )
    with DeadCode(confidence="likely") as job:
        Watcher(DEAD_CODE.tree(tmp_path), job, DEAD_CODE.extract).poll()
        assert [one.symbol for one in job.dead()] == ["version:_lost"]


def test_a_name_below_this_module_is_named_from_it() -> None:
    tree = {"m.py": f"x = 1\ny = 2\n{MAIN}find(__name__ + '.x', f'{{__name__}}.{{y}}')\n"}
    assert dead(tree) == []
    assert dead({"m.py": tree["m.py"].replace("{y}", "z")}) == ["m:y"]


def test_a_method_that_looks_up_any_name_of_its_object() -> None:
    tree = {
        "m.py": f"""
        class Base:
            def handle(self, node):
                getattr(self, type(node).__name__.upper())(node)
            def CALL(self, node): self._helper()
            def _helper(self): ...
            def _lost(self): ...
        class Heir(Base):
            def NAME(self, node): ...
        class Other:
            def STORE(self, node): ...
        {MAIN}Heir().handle(1), Other()
        """
    }
    assert dead(tree) == ["m:Base._lost", "m:Other.STORE"]


def test_strings_may_be_code_where_code_is_compiled_and_in_tests() -> None:
    source = "class C:\n  def _f(self): ...\n  def _g(self): ...\nCODE = 'C()._f()'\n"
    compiled = f"{source}import ast\n{MAIN}ast.parse(CODE), C\n"
    assert dead({"m.py": compiled}) == ["m:C._g"]
    assert dead({"m.py": compiled.replace("ast.parse", "re.compile")}) == ["m:C._f", "m:C._g"]
    assert dead({"test_m.py": f"{source}def test_it(): C, CODE\n"}) == ["test_m:C._g"]


def test_a_distribution_of_one_module_is_a_library_too() -> None:
    tree = {"m.py": f"class C:\n  def api(self): ...\n  def _own(self): ...\n{MAIN}pass\n"}
    assert dead(tree, "recognise") == ["m:C", "m:C._own", "m:C.api"]
    assert dead({**tree, "setup.py": "setup()"}, "recognise") == ["m:C._own"]


def test_a_class_that_a_metaclass_makes_anew_notices_its_heirs() -> None:
    tree = {
        "m.py": f"""
        class Meta(type): ...
        class Setting: ...
        Setting = Meta("Setting", (Setting,), {{}})
        class Workers(Setting): ...
        class Plain: ...
        class Heir(Plain): ...
        {MAIN}Plain
        """
    }
    assert dead(tree) == ["m:Heir"]


def test_an_object_given_to_what_stands_outside_may_be_called() -> None:
    tree = {
        "m.py": f"""
        import outside, inner
        class Base:
            def apply_default(self): ...
        class Given(Base):
            def check(self): ...
            def _own(self): ...
        class Kept:
            def check(self): ...
        {MAIN}outside.Map("name", Given()), inner.f(Kept())
        """,
        "inner.py": "def f(x): ...\n",
    }
    assert dead(tree) == ["m:Given._own", "m:Kept.check"]


def test_an_empty_init_has_nothing_to_remove() -> None:
    tree = {"p/__init__.py": "", "q/__init__.py": "x = 1\n", "m.py": f"{MAIN}pass\n"}
    assert dead(tree) == ["q", "q:x"]


def test_a_prefix_of_methods_in_a_string() -> None:
    tree = {
        "m.py": f"""
        class C:
            def size_all(self): ...
            def other(self): ...
            def run(self, start): return [n for n in dir(self) if n.startswith(start)]
        {MAIN}C().run("size_")
        """
    }
    assert dead(tree) == ["m:C.other"]


def test_a_module_that_checks_itself_does_not_make_a_distribution_an_application() -> None:
    tree = {
        "p/__init__.py": "",
        "p/m.py": f"def api(): ...\ndef _own(): ...\n{MAIN}pass\n",
    }
    assert dead(tree, "recognise") == ["p.m:_own", "p.m:api"]
    built = {**tree, "pyproject.toml": "[build-system]\nrequires = []\n"}
    assert dead(built, "recognise") == ["p.m:_own"]
    run = {**built, "p/__main__.py": "import p.m\n"}
    assert dead(run, "recognise") == ["p.m:_own", "p.m:api"]


@pytest.mark.parametrize(
    "given",
    [
        "setup(entry_points={'console_scripts': ['x = p.m:run [extra]', 'broken']})",
        "setuptools.setup(entry_points={'console_scripts': 'x = p.m:run'})",
        "setup(entry_points='[console_scripts]\\nx = p.m:run\\n[more]\\ny = p.n\\n')",
        "scripts = {'console_scripts': ['x = p.m:run']}\nsetup(entry_points=scripts)",
        "setup(**kept, entry_points={**kept, 'console_scripts': ['x=p.m:run', *kept]})",
    ],
)
def test_scripts_that_setup_py_names_are_entry_points(given: str) -> None:
    tree = {"p/__init__.py": "", "p/m.py": "def run(): ...\ndef other(): ...\n", "setup.py": given}
    assert dead(tree, "recognise") == ["p.m:other"]
    assert dead(tree) == ["p.m:other"]


def test_folders_named_as_tests_stand_beside_the_code() -> None:
    """What behave loads by its place, imported from its own folder."""
    tree = {
        "shop_test/__init__.py": "",
        "shop_test/features/__init__.py": "",
        "shop_test/features/environment.py": "import help\ndef before_all(context): help.f()\n",
        "shop_test/features/help.py": "def f(): ...\n",
        "shop_test/unit/test_m.py": "from shop_test.tools import used\ndef test_m(): used()\n",
        "shop_test/tools.py": "def used(): ...\ndef unused(): ...\n",
        "m.py": f"{MAIN}pass\n",
    }
    assert dead(tree) == ["shop_test.tools:unused"]
    renamed = {path.replace("shop_test", "latest"): text for path, text in tree.items()}
    assert "latest.features.environment:before_all" in dead(renamed)


@pytest.mark.parametrize(
    "raises", ["pytest.raises(E)", "self.assertRaises(E)", "warnings.catch_warnings()"]
)
def test_what_is_defined_to_see_what_that_raises_is_used(raises: str) -> None:
    tree = {
        "test_m.py": f"""
        import pytest
        def test_it(self=None):
            def check(f): return f
            with {raises}:
                class Wrong:
                    @check
                    def m(self): ...
                    def unused(self): ...
                def also(): ...
            with open("x"):
                class Lost: ...
        """
    }
    assert dead(tree) == ["test_m:test_it.<locals>.Lost"]


@pytest.mark.parametrize(
    "name", ['f"_{kind}"', '"_" + kind', '"_%s" % kind', '"_{}".format(kind)', "reader"]
)
def test_private_members_may_be_looked_up_where_only_their_underscore_is_written(name: str) -> None:
    tree = {
        "m.py": f"""
        class Reader:
            def read(self, kind):
                reader = "_" + kind
                return getattr(self, {name}, None)
            def _number(self): ...
            def _text(self): ...
            def unused(self): ...
        class Wide(Reader):
            def _list(self): ...
        class Other:
            def _number_too(self): ...
        {MAIN}Wide().read("x"), Other
        """
    }
    assert dead(tree) == ["m:Other._number_too", "m:Reader.unused"]


def test_what_a_doctest_names_is_used() -> None:
    tree = {
        "m.py": f"""
        from other import f as g
        _SMALL, _LARGE = b"", b"x"
        def _shown(): ...
        def run():
            \'\'\'Runs.

            >>> run(_SMALL) == _shown()
            >>> this is no Python
            >>> C()._other
            <C with _LARGE>
            \'\'\'
        class C:
            _other = 1
        {MAIN}run(), C()
        """
    }
    assert dead(tree) == ["m:_LARGE"]
    unused = {"m.py": tree["m.py"].replace("run(), C()", "C()")}
    assert dead(unused) == ["m:C._other", "m:_LARGE", "m:_SMALL", "m:_shown", "m:run"]


def test_an_object_given_to_a_method_that_the_tree_does_not_have_may_be_called() -> None:
    tree = {
        "m.py": f"""
        class Remote:
            def rows(self): ...
            def _own(self): ...
        class Listed:
            def rows_too(self): ...
        class Known:
            def rows_three(self): ...
        class Book:
            def enter(self, what): ...
        def main(server, many):
            server.register_instance(Remote())
            many.append(Listed())
            server.enter(Known())
        {MAIN}main(1, []), Book()
        """
    }
    assert dead(tree) == ["m:Known.rows_three", "m:Listed.rows_too", "m:Remote._own"]


def test_an_object_that_a_name_or_a_field_holds_may_be_given_away() -> None:
    tree = {
        "m.py": f"""
        import outside
        class Listener:
            def add_service(self): ...
            def _own(self): ...
        class Handler(Listener):
            def on_close(self): ...
        class Kept:
            def on_close_never(self): ...
        class Server:
            def __init__(self):
                self.listener = Listener()
                self.kept = Kept()
                self.browser = outside.Browser("x", self.listener)
        def main():
            handler: Handler = Handler()
            kept = Kept()
            outside.run(on=handler)
            return kept
        {MAIN}Server(), main()
        """
    }
    assert dead(tree) == ["m:Kept.on_close_never", "m:Listener._own"]


@pytest.mark.parametrize(
    "where",
    [
        "Path(__file__).parent.joinpath('rules')",
        "Path(__file__).resolve().parent / 'rules'",
        "os.path.join(os.path.dirname(__file__), 'rules')",
        "os.path.join(HERE, 'rules')",
        "HERE / 'rules'",
        "os.path.join(os.path.dirname(os.path.realpath(__file__)), '..', 'p', 'rules')",
    ],
)
def test_modules_in_a_folder_that_is_found_beside_the_file_may_be_loaded(where: str) -> None:
    tree = {
        "p/__init__.py": "",
        "p/load.py": f"""
            import os
            from pathlib import Path
            HERE = os.path.dirname(__file__)
            def run(): return HERE, {where}
        """,
        "p/rules/__init__.py": "",
        "p/rules/one.py": "def match(): ...\n",
        "p/other/__init__.py": "X = 1\n",
        "p/other/two.py": "def match(): ...\n",
        "docs/conf.py": "import os\nos.path.join(os.path.dirname(__file__), '..', 'p', 'other')\n",
        "main.py": f"from p.load import run\n{MAIN}run().match\n",
    }
    other = ["p.other", "p.other.two", "p.other.two:match", "p.other:X"]
    assert dead(tree) == other
    alone = {**tree, "p/load.py": tree["p/load.py"].replace("'rules'", "'rules', 'data.txt'")}
    assert "p.rules.one" in dead(alone) or "/" in where
    unused = {**tree, "main.py": f"import p.load\n{MAIN}p\n"}
    assert "p.rules.one" in dead(unused)


def test_a_module_that_acts_and_is_in_no_package_is_a_script() -> None:
    tree = {
        "drive.py": "from lib import f\nprint(f())\n",
        "loop.py": "from lib import g\nfor n in range(3): g(n)\n",
        "lib.py": "def f(): ...\ndef g(n): ...\ndef h(): ...\n",
        "orphan.py": "import lib\n\nTABLE = {1: 2}\nif TABLE: import os\n",
        "unused.py": "import helper\n",
        "helper.py": "print(1)\n",
        "p/__init__.py": "",
        "p/plugin.py": "print(2)\n",
        "main.py": f"import p\n{MAIN}p\n",
    }
    assert dead(tree) == ["helper", "lib:h", "orphan", "orphan:TABLE", "p.plugin", "unused"]


@pytest.mark.parametrize(
    "end",
    [
        "main()", "sys.exit(main())", "for one in (1, 2):\n  main()", "Run().now()",
        "try:\n  main()\nfinally: pass", "if sys.argv[1:]:\n  main()",
        'if __name__ == "__main__":\n  main()',
    ],
)  # fmt: skip
def test_a_file_that_calls_its_own_functions_is_an_application(end: str) -> None:
    own = "import sys\ndef main(): Run\ndef unused(): ...\nclass Run:\n  def now(self): main()\n"
    tree = {"tool.py": f"{own}{end}\n"}
    assert "tool:unused" in dead(tree, "recognise")
    assert "tool" not in dead(tree, "recognise")
    installed = {**tree, "setup.py": "setup()"}
    assert dead(installed, "recognise") == []


@pytest.mark.parametrize(
    "files",
    [
        {"lib.py": "import logging\ndef api(): ...\nlogging.getLogger('lib').addHandler(None)\n"},
        {"lib.py": "def api(): ...\ndef _fill(): ...\n_fill()\n", "use.py": "import lib\n"},
        {"p/lib.py": "def api(): ...\ndef _fill(): ...\n_fill()\n", "p/__init__.py": ""},
    ],
)
def test_calls_of_others_or_in_what_is_imported_make_no_application(files: dict[str, str]) -> None:
    assert dead(files, "recognise") == []


def test_a_file_that_a_tool_looks_for_by_name_stays_alive_when_it_is_imported() -> None:
    tree = {
        "docs/conf.py": "project = 'p'\nextensions = []\n",
        "docs/other.py": "used = 1\nunused = 2\n",
        "release.py": f"from docs.conf import project\nfrom docs.other import used\n{MAIN}used\n",
    }
    assert dead(tree) == ["docs.other:unused"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("setup.cfg", "[entry_points]\nshop.checks =\n  a = p.m:run\n"),
        ("pyproject.toml", "[tool.flit.entrypoints.checks]\na = 'p.m:run'\n"),
        ("pyproject.toml", "[tool.flit.scripts]\na = 'p.m:run'\n"),
    ],
)
def test_entry_points_of_other_build_tools(path: str, text: str) -> None:
    tree = {"p/__init__.py": "", "p/m.py": "def run(): ...\ndef other(): ...\n", path: text}
    assert dead(tree) == ["p.m:other"]


def test_an_application_that_takes_plugins_offers_its_names_to_them() -> None:
    tree = {
        "p/__init__.py": "",
        "p/__main__.py": "import p.load, p.api\n",
        "p/load.py": "from importlib import metadata\n_found = metadata.version('p')\n",
        "p/api.py": "class Context:\n  def text(self): ...\n  def _own(self): ...\n",
    }
    alone = ["p.api:Context", "p.api:Context._own", "p.api:Context.text", "p.load:_found"]
    assert dead(tree, "recognise") == [*alone[:3], alone[3]]
    hosts = tree["p/load.py"].replace("version('p')", "entry_points(group='p.checks')")
    assert dead({**tree, "p/load.py": hosts}, "recognise") == [alone[1], alone[3]]
    star = {**tree, "p/__init__.py": "from p.api import *\n"}
    assert dead(star, "recognise") == [alone[1], alone[3]]


def test_a_name_is_given_to_what_looks_it_up() -> None:
    tree = {
        "dispatch.py": """
            def call(name, module): return getattr(module, name)()
            def call_all(modules, name): return [call(name, module) for module in modules]
            def show(name): return name
            class Caller:
                def __init__(self, name, x): self.f = getattr(x, name)
            """,
        "m.py": f"""
            from dispatch import call_all, show, Caller
            class Hook:
                def ready(self): ...
                def stopped(self): ...
                def shown(self): ...
            {MAIN}call_all([Hook], "ready"), show("shown"), Caller("stopped", 1)
            """,
    }
    assert dead(tree) == ["m:Hook.shown"]


def test_classes_that_subclasses_finds() -> None:
    tree = {
        "m.py": f"""
        class Base: ...
        class Found(Base): ...
        class Other: ...
        class Lost(Other): ...
        {MAIN}Base.__subclasses__(), Other
        """
    }
    assert dead(tree) == ["m:Lost"]
    unknown = {"m.py": tree["m.py"], "n.py": f"def f(c): return c.__subclasses__()\n{MAIN}f(1)\n"}
    assert dead(unknown) == []


@pytest.mark.parametrize("mark", ["skipif", "xfail"])
def test_pytest_evaluates_the_text_of_a_condition(mark: str) -> None:
    tree = {
        "test_m.py": f"""
        import pytest
        driver, other = None, None
        @pytest.mark.{mark}("driver is None")
        def test_it(): ...
        """
    }
    assert dead(tree) == ["test_m:other"]


def test_statements_in_a_text_that_is_run() -> None:
    tree = {
        "m.py": f"""
        import cProfile, timeit
        from timeit import repeat
        def looped(): ...
        def timed(): ...
        def repeated(): ...
        def printed(): ...
        {MAIN}cProfile.run("looped()"), timeit.timeit("x()", setup="from m import timed as x")
        {MAIN}repeat("repeated()"), print("printed()")
        """
    }
    assert dead(tree) == ["m:printed"]


@pytest.mark.parametrize("use", ["{C}.__dict__.items()", "getattr({C}, name)", "vars({C})"])
@pytest.mark.parametrize("start", ["from events import Types\n", "import events\nTypes = 1\n"])
def test_any_member_of_a_class_that_is_looked_into(use: str, start: str) -> None:
    held = "Types" if "from" in start else "events.Types"
    tree = {
        "events.py": "class Types:\n  START = 1\n  _own = 2\nclass Other:\n  STOP = 1\n",
        "m.py": f"{start}import sys\nname = sys.argv[1]\nfrom events import Other\n"
        f"{MAIN}{use.format(C=held)}, Other\n",
    }
    assert dead(tree)[:2] == ["events:Other.STOP", "events:Types._own"]
    given = "name = input()\n"
    here = {
        "events.py": f"{tree['events.py']}{given}\n{MAIN}name, {use.format(C='Types')}, Other\n"
    }
    assert dead(here) == ["events:Other.STOP", "events:Types._own"]


def test_a_format_reads_attributes() -> None:
    tree = {
        "m.py": f"""
        class Order:
            def total(self): ...
            def tax(self): ...
            def rest(self): ...
        {MAIN}print("{{o.total}} of {{0[1].tax!r:>4}}, x.rest".format(1, o=1)), Order
        """
    }
    assert dead(tree) == ["m:Order.rest"]


def test_what_notices_or_registers_a_class_may_read_its_fields() -> None:
    tree = {
        "m.py": f"""
        from outside import register
        class Meta(type): ...
        class Model(metaclass=Meta): ...
        class Shop(Model):
            name = 1
        @register
        class Item:
            price = 1
            _seen = 2
            def m(self): ...
        class Plain:
            lost = 1
        {MAIN}Plain
        """
    }
    assert dead(tree) == ["m:Item._seen", "m:Item.m", "m:Plain.lost"]


def test_what_a_protocol_asks_for_is_needed_in_those_who_have_it() -> None:
    tree = {
        "m.py": f"""
        from typing import Protocol
        class Sized(Protocol):
            def size(self): ...
        class Box:
            def size(self): ...
            def other(self): ...
        def f(x: Sized): ...
        {MAIN}f(Box())
        """
    }
    assert dead(tree) == ["m:Box.other"]


def test_a_dotted_text_of_a_test_may_be_a_member() -> None:
    tree = {"test_m.py": "class C:\n  def _f(self): ...\ndef test_it(): C, 'core._f'\n"}
    assert dead(tree) == []


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("docs/use.rst", "Use it::\n\n    >>> from p.m import one\n    >>> one(1)\n", "one"),
        ("README.md", "```python\nfrom p.m import *\ntwo()\n```\n", "two"),
        ("README.md", "```python\nimport p.m as m\nif m.two(): ...\n```\n", "two"),
        ("README.md", "```text\nfrom p.m import one\n```\nfrom p.m import two\n", ""),
        ("p/templates/a.html", "<p>{{ cart.three }}</p> cart.one", "C.three"),
        ("p/templates/a.jinja2", "{% if cart.three() %}", "C.three"),
        ("p/a.mako", "${cart.three} ${x", "C.three"),
        ("app.yaml", "logging:\n  class: p.m.one\n  also: two\n", "one"),
        (
            "README.rst",
            "So::\n\n.. code:: python\n\n   from p.m import one\n\nBut p.m.two.\n",
            "one",
        ),
        ("a.rst", " .. code-block:: py\n    :caption: x\n\n    import p.m\n    p.m.two\n", "two"),
        ("a.rst", ".. code:: console\n\n   $ python -m unittest p.m.one p.m.C\n", "one"),
        ("a.rst", "In python code, p.m.one and p.m.two are private.\n", ""),
        ("Makefile", "check:\n\t$(RUN) p.m.two\n", "two"),
        ("build.sh", "python -c 'import p.m; p.m.one()'\n", "one"),
        ("app.ini", "run = p.m:two\n", "two"),
        ("app.ini", "run = call:p.m:two\n", "two"),
        ("app.ini", "run = p.m:two.x\n", "two"),
        ("app.toml", "[broken p.m:one", "one"),
    ],
)
def test_names_in_files_that_are_not_python(path: str, text: str, expected: str) -> None:
    tree = {
        "p/__init__.py": "",
        "p/m.py": "def one(): ...\ndef two(): ...\nclass C:\n  def three(self): ...\n",
        "main.py": f"from p.m import C\n{MAIN}C\n",
        path: text,
    }
    everything = ["p.m:C.three", "p.m:one", "p.m:two"]
    assert dead(tree) == [one for one in everything if one != f"p.m:{expected}"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("Makefile", "all:\n\tpython -W error p/tool.py\n"),
        ("docs/use.md", "Run `python3 p/tool.py --now` by hand.\n"),
        ("ci.yml", "run: python ./p/tool.py\n"),
    ],
)
def test_a_file_that_a_command_runs(path: str, text: str) -> None:
    tree = {"p/__init__.py": "", "p/tool.py": "X = 1\n", "main.py": f"{MAIN}0\n", path: text}
    assert dead(tree) == ["p.tool:X"]
    assert dead({**tree, path: "omit: p/tool.py\n"}) == ["p", "p.tool", "p.tool:X"]


def test_a_test_settings_file_that_configuration_names_is_alive() -> None:
    tree = {
        "tests/__init__.py": "",
        "tests/settings.py": "DEBUG = True\n",
        "tox.ini": "setenv = DJANGO_SETTINGS_MODULE=tests.settings\n",
        "tests/test_m.py": "import tests.settings\ndef test_m(): ...\n",
    }
    assert dead(tree) == []


def test_a_base_that_a_star_import_brings() -> None:
    tree = {
        "core.py": "class Meta(type): ...\nclass Component(metaclass=Meta): ...\n"
        "class Plain: ...\n",
        "m.py": f"from core import *\nclass Found(Component): ...\nclass Lost(Plain): ...\n"
        f"class Error(Exception):\n  def lost(self): ...\n{MAIN}Error\n",
    }
    assert dead(tree) == ["core:Plain", "m:Error.lost", "m:Lost"]


@pytest.mark.parametrize(
    "said",
    [
        "# kept for backward compatibility\n# until 2.0\ndef _old(): ...",
        "def _old(): ...  # legacy",
        "def _old(\n  a,\n):\n  # Nothing any more;\n  # retained for compatibility\n  return a",
        'def _old():\n  """Deprecated: use new."""',
        'def _old():\n  """As in\n\n    import m; m._old(1)\n  """',
        "def new(): ...\n_old = new",
        "def _test_old():\n  '''Nothing but a test:\n\n  >>> 1\n  1\n  '''",
        "import warnings\ndef _old():\n  warnings.warn('_old is obsolete')\n  return 1",
        "# Deprecate, remove.\n_old, one = pair()",
        "# Run this one manually, it takes an hour.\ndef _old(): ...",
        "# Remove underscore, or run the test directly:\ndef _old(): ...",
    ],
)
def test_what_is_said_to_be_there_for_others_is_alive(said: str) -> None:
    tree = {"m.py": f"import x  # compatible\n\ndef _lost(): ...\n{said}\n"}
    assert dead(tree, "public") == ["m:_lost"]


def test_what_the_text_of_a_module_calls() -> None:
    text = "Use `go(1)`, not stop."
    tree = {
        "_m.py": f'"""{text}"""\ndef go(): ...\ndef stop(): ...\n',
        "n.py": f"{MAIN}0\nimport _m\n",
    }
    assert dead(tree) == ["_m:stop"]


@pytest.mark.parametrize("use", ["@override(URLS=__name__)", "settings.URLS = __name__"])
def test_settings_may_name_this_module(use: str) -> None:
    tail = "\ndef test_it(): ..." if "@" in use else "\n\ndef test_it(): ..."
    tree = {"test_m.py": f"from django import override, settings\nurlpatterns = []\n{use}{tail}\n"}
    assert dead(tree) == []
    assert dead({"test_m.py": tree["test_m.py"].replace("__name__", "name")}) == [
        "test_m:urlpatterns"
    ]


def test_a_script_may_name_itself() -> None:
    tree = {"m.py": f"import x\ndef _a(): ...\ndef _b(): ...\n{MAIN}x.run('__main__._a()')\n"}
    assert dead(tree) == ["m:_b"]


def test_an_object_is_handed_on_to_what_stands_outside() -> None:
    tree = {
        "handlers.py": """
            class Remote:
                def rows(self): ...
                def _own(self): ...
            class Kept:
                def rows_two(self): ...
            class Logged:
                def rows_three(self): ...
            class Built:
                def rows_four(self): ...
            """,
        "server.py": """
            class Server:
                def add(self, handler): self.pass_on(handler)
                def pass_on(self, one): self.manager.add_object(one)
                def keep(self, handler): self.all.append(handler)
                def log(self, handler): self.logger.info("%s", handler)
            class Other:
                def __init__(self, handler): handler.owner.attach(handler)
            """,
        "m.py": f"""
            import handlers
            from handlers import Kept, Logged, Remote
            from server import Other, Server
            {MAIN}Server().add(Remote()), Server().keep(Kept()), Server().log(Logged())
            {MAIN}Other(handlers.Built())
            """,
    }
    assert dead(tree) == [
        "handlers:Kept.rows_two",
        "handlers:Logged.rows_three",
        "handlers:Remote._own",
    ]


def test_an_object_that_gives_itself_away_may_be_called() -> None:
    tree = {
        "m.py": f"""
        import outside
        class Listener:
            def __init__(self): outside.listen(self)
            def on_add(self): ...
            def _own(self): ...
        {MAIN}Listener()
        """
    }
    assert dead(tree) == ["m:Listener._own"]


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("os.path.join(home(), 'p', 'ways')", ["p.other"]),
        ("os.path.join(home(), 'ways')", ["p.other", "p.ways.one", "p.ways.one:run"]),
        ("os.path.join(home(), 'p', 'other.py')", ["p.ways.one", "p.ways.one:run"]),
        ("run('python p/other.py')", ["p.other", "p.ways.one", "p.ways.one:run"]),
        ("run('p/other.py')", ["p.ways.one", "p.ways.one:run"]),
        ("load('p.ways.%s' % home())", ["p.other"]),
        ("load(f'p.ways.{home()}')", ["p.other"]),
    ],
)
def test_modules_that_somebody_finds_by_their_paths(use: str, expected: list[str]) -> None:
    tree = {
        "p/__init__.py": "",
        "p/other.py": "",
        "p/ways/one.py": "def run(): ...\n",
        "main.py": f"import os\nimport p\nfrom outside import home, load, run\n{MAIN}{use}\n",
    }
    assert dead(tree) == expected


@pytest.mark.parametrize("here", ["os.path.dirname(__file__)", "Path(__file__).resolve().parent"])
def test_a_folder_that_is_given_away_may_be_searched(here: str) -> None:
    tree = {
        "p/__init__.py": "",
        "p/base.py": f"import os\nfrom pathlib import Path\ndef all(): load({here})\n"
        "def load(folder): return os.listdir(folder)\n",
        "p/time.py": "class Time: ...\n_own = 1\n",
        "main.py": f"from p.base import all\n{MAIN}all()\n",
    }
    assert dead(tree) == ["p.time:_own"]
    kept = {**tree, "p/base.py": tree["p/base.py"].replace("load(", "str(", 1)}
    assert "p.time" in dead(kept)


def test_a_module_of_imports_is_for_others_even_in_an_application() -> None:
    tree = {
        "p/__init__.py": "",
        "p/public.py": "from p.parts import one\n",
        "p/parts.py": "def one(): ...\ndef two(): ...\n",
        "p/old/__init__.py": "from p.parts import two as other\n",
        "p/lost/__init__.py": "from p.lost import three\n",
        "p/lost/three.py": "",
        "main.py": f"{MAIN}0\n",
    }
    assert dead(tree) == ["p.lost", "p.lost.three"]


def test_an_ancestor_outside_reads_a_class_inside() -> None:
    tree = {
        "m.py": f"""
        from outside import Schema
        class Book(Schema):
            class Meta:
                unknown = 1
        class Plain:
            class Meta:
                lost = 1
        {MAIN}Book, Plain.Meta
        """
    }
    assert dead(tree) == ["m:Plain.Meta.lost"]


def test_helpers_for_tests_in_a_package_that_users_get() -> None:
    tree = {
        "p/__init__.py": "",
        "p/tests/__init__.py": "class Base: ...\ndef _own(): ...\n",
        "p/tests/test_m.py": "import p.tests\ndef test_m(): ...\ndef helper(): ...\n",
        "tests/__init__.py": "def helper(): ...\n",
        "tests/test_m.py": "import tests\nimport p.tests\ndef test_m(): ...\n",
    }
    assert dead(tree, "public", "tests") == [
        "p.tests.test_m:helper",
        "p.tests:_own",
        "tests:helper",
    ]


def test_helpers_for_tests_that_the_package_itself_imports() -> None:
    tree = {
        "p/__init__.py": "",
        "p/plugin.py": "from .test_utils import _make\n_make()\n",
        "p/test_utils.py": "class TestB(B): ...\ndef _make(): ...\ndef own(): ...\ndef _own(): ...",
        "p/test_m.py": "def test_m(): ...\ndef helper(): ...\n",
    }
    assert dead(tree, "public", "tests") == ["p.test_m:helper", "p.test_utils:_own"]


def test_the_body_of_a_class_hands_on() -> None:
    tree = {
        "m.py": f"""
        def run(register):
            def f(): ...
            def g(): ...
            class Noticed:
                name = register(f)
            class Lost:
                name = property(g)
        {MAIN}run(1)
        """
    }
    assert dead(tree) == ["m:run.<locals>.Lost", "m:run.<locals>.Lost.name", "m:run.<locals>.g"]


def test_an_object_that_registers_a_method_keeps_its_class() -> None:
    tree = {
        "m.py": f"""
        from outside import Service, shared
        import tools
        def main():
            service = Service()
            class Here:
                @service.get()
                def view(self): ...
            class There:
                @shared.get
                def view(self): ...
            class Not:
                @tools.cached
                def view(self): ...
                @property
                def size(self): ...
                @size.setter
                def size(self, x): ...
        {MAIN}main()
        """
    }
    found = [one for one in dead(tree) if one.count(".") == 2]
    assert found == ["m:main.<locals>.Not"]


def test_names_that_a_list_hushes_a_linter_about() -> None:
    tree = {
        "m.py": f"""
        import json
        from outside import a, b
        own = 1
        _hush = [a, json]
        _also = b
        _lost = [own]
        {MAIN}0
        """
    }
    assert dead(tree) == ["m:_lost", "m:own"]


def test_a_test_case_is_known_by_an_ancestor_in_another_file() -> None:
    tree = {
        "test_m.py": """
        from helpers import Base
        class Flow(Base):
            def test_it(self): ...
        class Lost:
            def test_it(self): ...
        def test_other(): ...
        """,
        "helpers.py": "import unittest\nclass Base(unittest.TestCase): ...\n",
    }
    assert dead(tree) == ["test_m:Lost", "test_m:Lost.test_it"]


def test_a_module_whose_name_is_given_away() -> None:
    tree = {
        "p/__init__.py": "",
        "p/api.py": "__all__ = ['one']\ndef one(): ...\ndef includeme(): ...\ndef _own(): ...\n",
        "main.py": f"import p\nfrom outside import include\n{MAIN}include('p.api')\n",
    }
    assert dead(tree) == ["p.api:_own"]


def test_code_that_is_put_together_and_a_file_beside() -> None:
    tree = {
        "p/__init__.py": "",
        "p/m.py": """
            class Record:
                def _build(self): return "return self._prepare({"
                def _prepare(self): ...
                def _lost(self): ...
            def version(): return Record()._build(), "_static.py", "other.txt"
            """,
        "p/_static.py": "version = 1\n",
        "p/other.py": "",
        "main.py": f"from p.m import version\n{MAIN}version()\n",
    }
    assert dead(tree) == ["p.m:Record._lost", "p.other"]


def test_examples_of_a_test_file_are_tests() -> None:
    tree = {
        "test_m.py": """
            def example(): '>>> 1'
            def check():
                '''
                In [1]: 1 + 1
                '''
            class Shown: '>>> Shown()'
            def helper(): 'see >>>'
            """,
        "m.py": f"def unused(): '>>> 1'\n{MAIN}0\n",
    }
    assert dead(tree) == ["m:unused", "test_m:helper"]


def test_a_fixture_that_a_function_of_the_file_makes() -> None:
    tree = {
        "test_m.py": """
            import pytest
            def shop_of(size):
                @pytest.fixture
                def inner(): return size
                return inner
            small = shop_of(2)
            also = small
            large = shop_of(9)
            LIMIT = 3
            def test_it(also, LIMIT): ...
            """
    }
    assert dead(tree) == ["test_m:LIMIT", "test_m:large"]


def test_types_in_comments_are_annotations() -> None:
    tree = {
        "m.py": f"""
        from kinds import _Size, _Lost
        import kinds
        class _Shop:
            def f(self, x,  # type: _Size
                  ):
                # type: (...) -> kinds._Price
                return x  # type: ignore[_Lost]
        class _Alone:
            def g(self): pass  # type: (_Alone) -> None, if it is
        {MAIN}
            shops = []  # type: list[_Shop]
            shops[0].f(1)
        """,
        "kinds.py": "_Size = int\n_Price = int\n_Lost = int\n",
    }
    assert dead(tree) == ["kinds:_Lost", "m:_Alone", "m:_Alone.g"]


@pytest.mark.parametrize(
    "imports",
    [
        "if sys.platform == 'win32': from p._a import f\nelif x: ...\nelse: from p._b import f\n",
        "try: from p._a import f\nexcept ImportError: from p._b import f\n",
    ],
)
def test_what_two_branches_import_is_for_importers(imports: str) -> None:
    tree = {
        "p/__init__.py": "",
        "p/m.py": f"import sys\nfrom p._a import g\n{imports}def own(): ...\n",
        "p/_a.py": "def f(): ...\ndef g(): ...\n",
        "p/_b.py": "def f(): ...\n",
    }
    assert dead(tree, "public") == ["p._a:g"]


@pytest.mark.parametrize(
    "project",
    [
        {"setup.py": "setup(packages=['p'], py_modules=['shop', 'tool'])\n"},
        {"setup.cfg": "[metadata]\nname = a\n[options]\npy_modules =\n  shop\n  tool\n"},
        {"pyproject.toml": "[build-system]\n[tool.setuptools]\npy-modules = ['shop', 'tool']\n"},
    ],
)
def test_a_module_that_gets_installed_beside_a_package_offers_names(
    project: dict[str, str],
) -> None:
    script = {
        "bin.cfg": "",
        "entry/setup.cfg": "[options.entry_points]\nconsole_scripts = x = tool:go\n",
    }
    tree = {
        "p/__init__.py": "",
        "shop.py": "def api(): ...\ndef _own(): ...\n",
        "tool.py": "def go(): ...\n",
        **script,
        **project,
    }
    assert dead(tree, "recognise") == ["shop:_own"]
    tools_alone = {path: text.replace("shop", "tool") for path, text in project.items()}
    assert "shop:api" in dead({**tree, **tools_alone}, "recognise")


def test_of_names_that_get_one_value_each_may_be_for_importers() -> None:
    tree = {
        "m.py": """
            __all__ = ["STARTED"]
            STARTED = START = 1
            STOPPED = 2
            _also = _own = 3
            _, _height, WIDTH = size()
            _a, _b = 1, 2
            """
    }
    assert dead(tree, "public") == ["m:STOPPED", "m:WIDTH", "m:_a", "m:_also", "m:_b", "m:_own"]


def test_what_stands_among_the_data_of_tests_is_not_judged() -> None:
    tree = {
        "tests/test_m.py": "import tests.testdata.a.m\nimport tests.m\ndef test_m(): tests\n",
        "tests/testdata/a/m.py": "def data(): ...\n",
        "tests/m.py": "def helper(): ...\n",
        "tests/__init__.py": "",
    }
    assert dead(tree) == ["tests.m:helper"]


def test_a_type_as_text_within_a_type() -> None:
    tree = {
        "m.py": f"""
        from typing import Union
        _Maker = _Other = int
        class _Shop: ...
        class _Lost: ...
        Any = Union[int, "list[_Shop]", "_Maker", "_Lost or not"]
        {MAIN}Any
        """
    }
    assert dead(tree) == ["m:_Lost", "m:_Other"]


@pytest.mark.parametrize("body", ["assert f() == 1", "f()", "x = 1\n    assert x"])
def test_a_class_whose_body_checks_something_is_used_by_that(body: str) -> None:
    tree = "def f(): ...\ndef main():\n  class One:\n    {}\n  f\n" + f"{MAIN}main()\n"
    assert "m:main.<locals>.One" not in dead({"m.py": tree.format(body)})
    assert dead({"m.py": tree.format("x = f")}) == [
        "m:main.<locals>.One", "m:main.<locals>.One.x",
    ]  # fmt: skip


def test_a_class_within_a_test_shows_what_is_tested() -> None:
    source = """
        def test_it():
            class View:
                def get(self): ...
            class Lost:
                def get(self): ...
            return View
        class Helper:
            def get(self): ...
        Helper
        """
    lost = ["test_it.<locals>.Lost", "test_it.<locals>.Lost.get"]
    assert dead({"test_m.py": source}) == ["test_m:Helper.get", *(f"test_m:{one}" for one in lost)]


def test_a_test_class_that_a_call_makes() -> None:
    tree = {
        "test_m.py": "def make(n): ...\nTestOne = make(1)\nOne = make(2)\ndef test_m(): ...\n",
    }
    assert dead(tree) == ["test_m:One"]


@pytest.mark.parametrize("name", ["p/management/commands/run.py", "p/templatetags/run.py"])
def test_modules_that_django_looks_for_by_their_files(name: str) -> None:
    folder = name.rpartition("/")[0]
    tree = {
        "p/__init__.py": "",
        "p/management/__init__.py": "",
        f"{folder}/__init__.py": "",
        name: "class Command: ...\nclass Other: ...\n",
        "p/run.py": "X = 1\n",
        "main.py": f"import p\n{MAIN}p\n",
    }
    module = name.removesuffix(".py").replace("/", ".")
    unused = {"p.run", "p.run:X", f"{module}:Other"}
    assert set(dead(tree)) - {"p.management"} == unused


def test_names_in_a_list_with_a_name_of_its_own_kind() -> None:
    tree = {
        "m.py": f"""
        __patched__ = ["_lock"]
        __patched__ += ("_event",)
        _names = ["_lost"]
        def _lock(): ...
        def _event(): ...
        def _lost(): ...
        {MAIN}__patched__, _names
        """
    }
    assert dead(tree) == ["m:_lost"]


def test_a_method_that_code_in_a_text_calls() -> None:
    tree = {
        "m.py": f"""
        class Parser:
            def _load(self): ...
            def _dump(self): ...
        {MAIN}
            print("p = Parser._load(DATA)", "Parser._dump is slow", Parser)
        """
    }
    assert dead(tree) == ["m:Parser._dump"]


def test_a_name_in_the_bytes_of_a_test() -> None:
    source = "def sent(): ...\ndef lost(): ...\ndef test_it(): assert b'sent' in b'x'\n"
    assert dead({"test_m.py": source}) == ["test_m:lost"]


def test_a_method_that_a_class_looks_up_in_its_dict() -> None:
    tree = {
        "m.py": f"""
        class Pump:
            def send(self, name):
                private = f"_{{name}}"
                for cls in type(self).__mro__:
                    cls.__dict__.get(private)
        class App(Pump):
            def _on_key(self): ...
            def on_key(self): ...
        class Other:
            def _on_key(self): ...
        {MAIN}App().send(input()), Other
        """
    }
    assert dead(tree) == ["m:App.on_key", "m:Other._on_key"]


def test_what_an_interface_asks_for() -> None:
    tree = {
        "m.py": f"""
        from zope.interface import implementer
        @implementer(object)
        class Parser:
            def parse(self): ...
            def _own(self): ...
        {MAIN}Parser
        """
    }
    assert dead(tree) == ["m:Parser._own"]


def test_types_that_a_type_checker_looks_at() -> None:
    tree = {
        "p/__init__.py": "",
        "p/_tests/types/check.py": "x: int = 1\n",
        "p/_tests/test_m.py": "def test_m(): ...\n",
        "main.py": f"import p\n{MAIN}p\n",
    }
    assert dead(tree) == []


def test_names_of_all_in_a_text_that_is_split() -> None:
    tree = {"m.py": "__all__ = tuple('''one\n  two'''.split())\none = two = 1\nthree = 3\n"}
    assert dead(tree) == ["m:three"]


def test_code_in_the_texts_of_a_test() -> None:
    tree = {
        "p/__init__.py": "",
        "p/_testing.py": "def order(): ...\ndef lost(): ...\n",
        "tests/test_m.py": """
            def alpha(x): ...
            def beta(x): ...
            def test_it(): run("alpha(1) + beta", '"p._testing.order"')
            """,
        "main.py": f"import p\n{MAIN}p\n",
    }
    assert dead(tree) == ["p._testing:lost", "tests.test_m:beta"]


def test_what_runners_of_tests_look_for() -> None:
    tree = {
        "test_m.py": "def setup(): ...\ndef teardown(): ...\nsuite = load()\nother = load()\n"
        "def test_it(): ...\n"
    }
    assert dead(tree) == ["test_m:other"]


def test_the_program_still_reads_without_a_warning() -> None:
    assert PROGRAM.warnings == ()
