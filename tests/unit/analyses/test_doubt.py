"""What makes a dead symbol only likely to be dead: each doubt on a few lines, and what is none."""

from __future__ import annotations

from textwrap import dedent

import pytest
from tests.judges.dead_code_oracle import evaluate

MAIN = 'if __name__ == "__main__": '
INSTALLED = {"pyproject.toml": "[build-system]\nrequires = []\n"}


def told(tree: dict[str, str], *policies: str) -> tuple[list[str], dict[str, set[str]]]:
    """The symbols that are sure to be dead, and the reasons of the others."""
    views = evaluate(
        {path: dedent(text) for path, text in tree.items()}, policies or ("recognise", "tests")
    )
    why: dict[str, set[str]] = {}
    for symbol, reason in views["doubt"]:
        why.setdefault(symbol, set()).add(reason)
    assert {*why} <= {one for (one,) in views["dead"]} - {one for (one,) in views["sure"]}
    return sorted(one for (one,) in views["sure"]), why


SHOP = """
    class Cart:
        def _count_all(self): ...
        def _sort(self): ...
    def _helper(): _second()
    def _second(): ...
    """
DEAD = [
    "shop.cart:Cart._count_all", "shop.cart:Cart._sort", "shop.cart:_helper", "shop.cart:_second",
]  # fmt: skip


def shop(main: str = "", **more: str) -> dict[str, str]:
    """An application; `main` is what its main module says beside using a Cart."""
    return {
        "shop/__init__.py": "",
        "shop/cart.py": SHOP,
        "main.py": f"from shop.cart import Cart\n{MAIN}Cart()\n{main}",
        **more,
    }


def test_what_gets_installed_names_nothing_of_a_test() -> None:
    tree = {
        "shop/__init__.py": "TABLE = {'AMOUNT': 1}\nprint(TABLE)",
        "tests/test_cart.py": "AMOUNT = 3\ndef test(): ...",
        "main.py": f"import shop\n{MAIN}print(shop.TABLE)",
    }
    assert told(tree)[0] == ["tests.test_cart:AMOUNT"]
    tree["notes.ini"] = "AMOUNT = 1"
    assert told(tree)[1] == {"tests.test_cart:AMOUNT": {"its name is written in notes.ini"}}


def test_what_nobody_names_is_sure() -> None:
    assert told(shop()) == (DEAD, {})


@pytest.mark.parametrize(
    "said",
    [
        "print('_count_all')",
        "print('call _count_all')",
        "# calls _count_all",
        "f(_count_all=1)",
        "def g(_count_all): ...\ng(1)",
        "from elsewhere import _count_all",
        "print('''Longer.\n\nWith `_count_all` in it.\n''')",
        "print(f'_count_{y}')",
        "print('_count_%s' % y)",
        "print('_count_' + y)",
        "print(y + '_all')",
        "y.startswith('_count')",
        "y.endswith('all')",
    ],
)
def test_a_name_that_a_text_or_an_argument_has(said: str) -> None:
    sure, why = told(shop(said))
    assert sure == [one for one in DEAD if "_count_all" not in one]
    assert all("main" in reason for reason in why["shop.cart:Cart._count_all"])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("README.md", "Use `_count_all` or not."),
        ("README", "Use _count_all or not."),
        ("docs/a.rst", "Code::\n\n    x._count_all\n"),
        ("shop/cart.pyi", "class Cart:\n    def _count_all(self): ...\n"),
        ("shop/fast.c", 'PyObject_CallMethod(cart, "_count_all", NULL);'),
        ("page.js", "cart._count_all()"),
        ("data.json", '["_count-all"]'),
        ("setup.cfg", "[tool]\nx = _countAll\n"),
    ],
)
def test_a_name_that_a_file_of_another_kind_has(path: str, text: str) -> None:
    sure, why = told(shop(**{path: text}))
    assert sure == [one for one in DEAD if "_count_all" not in one]
    assert why["shop.cart:Cart._count_all"] == {f"its name is written in {path}"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("README.md", "Nothing can sort or count all."),
        ("known.json", '{\n "version": 1,\n "dead": [\n  "_sort"\n ]\n}'),
        ("page.min.js", "_sort()"),
        ("image", "\0_sort"),
        ("large.json", f'["_sort", "{"x" * (1 << 20)}"]'),
    ],
)
def test_what_says_nothing(path: str, text: str) -> None:
    assert told(shop(**{path: text})) == (DEAD, {})


def test_what_doubtful_code_refers_to_is_doubtful_and_dead_code_says_nothing() -> None:
    sure, why = told(shop("print('_helper')"))
    assert sure == DEAD[:2]
    assert [*why] == ["shop.cart:_helper"]
    tree = shop()
    tree["shop/cart.py"] += "def _third(): return '_sort', '_third'\n    "
    assert told(tree)[0] == sorted([*DEAD, "shop.cart:_third"])
    sure, why = told({**tree, "a.txt": "`_third`"})
    assert sure == [one for one in DEAD if "_sort" not in one]
    assert [*why] == ["shop.cart:_third"]


def test_a_module_that_acts_by_itself_may_be_run_by_hand() -> None:
    tree = shop(
        **{"shop/by_hand.py": "def _go(): ...\n_go()\n", "shop/idle.py": "def _go(): ...\n"}
    )
    sure, why = told(tree)
    assert sure == sorted([*DEAD, "shop.idle", "shop.idle:_go"])
    assert why == {"shop.by_hand": {"it acts when it is run, which somebody may do by hand"}}


def test_a_name_that_its_own_assignment_or_text_says() -> None:
    tree = shop()
    tree["shop/cart.py"] += """
    _T = TypeVar("_T")
    def _fourth():
        "As `_fourth` says."  # and _fourth
    # _fifth: a comment above
    def _fifth(): ...
    """
    assert {"shop.cart:_T", "shop.cart:_fourth", "shop.cart:_fifth"} <= {*told(tree)[0]}


def test_public_names_of_what_is_installed_may_be_imported() -> None:
    tree = {
        "shop/__init__.py": "",
        "shop/__main__.py": "from shop import cart, _own\ncart.Cart(), _own\n",
        "shop/cart.py": "class Cart:\n    def total(self): ...\ndef spare(): ...\ndef _a(): ...\n",
        "shop/_own.py": "def spare(): ...\n",
        "shop/lost.py": "",
    }
    assert told(tree)[0] == [
        "shop._own:spare", "shop.cart:Cart.total", "shop.cart:_a", "shop.cart:spare", "shop.lost",
    ]  # fmt: skip
    sure, why = told({**tree, **INSTALLED})
    assert sure == ["shop._own:spare", "shop.cart:_a"]
    assert why["shop.lost"] == why["shop.cart:spare"]
    assert why["shop.cart:spare"] == {"it can be imported by whoever installs this"}
    assert why["shop.cart:Cart.total"] == {"whoever installs this may hold an object of its class"}


@pytest.mark.parametrize(
    "text",
    [
        "import abc\nclass Till(abc.ABC):\n",
        "class TillBase:\n",
        "class Till:\n    def pay(self): raise NotImplementedError\n",
        "class Till:\n    @property\n    def fs(self): raise NotImplementedError('say it')\n",
    ],
)
def test_own_methods_of_a_class_that_others_derive_from(text: str) -> None:
    """dvc calls `_strip_protocol` of the file systems that it derives from dvc-objects'."""
    members = "    def _strip(self): ...\n    def __hide(self): ...\n"
    name = "TillBase" if "Base" in text else "Till"
    tree = {
        "shop/__init__.py": "",
        "shop/till.py": f"{text}{members}class Box:\n{members}",
        "shop/_own.py": f"{text}{members}",
        "main.py": f"import shop.till, shop._own\n{MAIN}shop.till.{name}(), shop._own.{name}()\n",
    }
    here, there = f"shop.till:{name}", f"shop._own:{name}"
    sure, _ = told(tree)  # nobody installs it
    assert {f"{here}._strip", f"{here}.__hide", f"{there}._strip"} <= set(sure)
    sure, why = told({**tree, **INSTALLED})
    assert {one for one in sure if "_strip" in one or "__hide" in one} >= {
        f"{here}.__hide", f"{there}._strip", f"{there}.__hide", "shop.till:Box._strip",
    }  # fmt: skip
    assert f"{here}._strip" not in sure
    assert why[f"{here}._strip"] == {
        "its class is for others to derive from, and to call in what they derive"
    }


def test_a_class_that_raises_not_implemented_is_as_dead_as_others() -> None:
    """Four are among the judged findings, and dead."""
    sure, _ = told(
        {
            "shop/__init__.py": "",
            "shop/_own.py": "class Till:\n    def pay(self): raise NotImplementedError\n",
            "shop/__main__.py": "from shop import _own\n_own\n",
            **INSTALLED,
        }
    )
    assert sure == ["shop._own:Till", "shop._own:Till.pay"]


def test_packages_that_other_distributions_have_parts_of() -> None:
    part = {
        "shop/_own.py": "def spare(): ...\nclass _Shelf: ...\ndef _a(): ...\n",
        "shop/__main__.py": "from shop import _own\n_own\n",
        "shop/__init__.py": "",
    }
    alone = told({**part, **INSTALLED})
    assert alone == (["shop._own:_Shelf", "shop._own:_a", "shop._own:spare"], {})
    below = {
        f"mall/{path}": text.replace("from shop", "from mall.shop") for path, text in part.items()
    }
    extended = {**part, "shop/__init__.py": "from pkgutil import extend_path\nextend_path()\n"}
    for tree in (below, extended):
        sure, why = told({**tree, **INSTALLED})
        assert [one.rpartition(":")[2] for one in sure] == ["_a"]
        assert {reason for one in why.values() for reason in one} == {
            "other distributions have parts of its package, and may import it",
            "other distributions have parts of its package, and may derive from it",
        }


@pytest.mark.parametrize("target", ["shop._p", "shop._p:Plugin"])
def test_plugins_are_read_by_the_program_that_loads_them(target: str) -> None:
    text = "class Plugin:\n    def load(self): _used()\ndef _used(): ...\ndef _own(): ...\n"
    tree = {"shop/__init__.py": "", "shop/_p.py": text}

    def dead(group: str) -> list[str]:
        entry = {"pyproject.toml": f'[project.{group}]\nx = "{target}"\n'}
        views = evaluate({**tree, **entry}, ("entry-points",))
        return sorted(one.rpartition(":")[2] for (one,) in views["dead"])

    assert dead('entry-points."till"') == ["_own"]
    if ":" in target:  # a script is called, and no more
        assert dead("scripts") == ["Plugin.load", "_own", "_used"]


@pytest.mark.parametrize(
    ("source", "doubted", "why"),
    [
        ("from out import B\nclass _A(B): ...\n", "_A", "an ancestor outside the tree may"),
        ("class _A:\n    x = 1\n_A()\n", "_A.x", "names of a class are often read as data"),
        ("class _A:\n    def write(self): ...\n_A()\n", "_A.write", "Python's own library calls"),
        ("import abc\nclass _A(abc.ABC): ...\n", "_A", "it is for others to derive from"),
        ("class _CartBase: ...\n", "_CartBase", "it is for others to derive from"),
        ("def _f():\n    'Used while testing.'\n", "_f", "it says that tests or somebody"),
        ("def _debug_all(): ...\n", "_debug_all", "it says that tests or somebody"),
        (
            "import out\nclass _A:\n    def _m(self): ...\nout.f(_A())\n",
            "_A._m",
            "objects of its class are given to what stands outside",
        ),
        (
            "class _A:\n    def look(self): ...\ngetattr(x, y), _A()\n",
            "_A.look",
            "attributes are looked up by computed names",
        ),
        (
            "getattr(import_module(x), y)\ndef look(): ...\n",
            "look",
            "modules are imported and searched by computed names",
        ),
        ("import_module(x)\n", None, "modules are imported by computed names"),
    ],
)
def test_a_way_in(source: str, doubted: str | None, why: str) -> None:
    tree = {
        "shop/__init__.py": "",
        "shop/cart.py": f"{source}def _lost(): ...\n",
        "shop/gone.py": "",
        "main.py": f"import shop.cart\n{MAIN}shop.cart\n",
    }
    sure, reasons = told(tree)
    assert "shop.cart:_lost" in sure
    found = reasons["shop.gone" if doubted is None else f"shop.cart:{doubted}"]
    assert any(one.startswith(why) for one in found)


def test_what_is_run_or_read_beside_the_code() -> None:
    sure, why = told(
        {
            "tests/test_m.py": """
                def test_it():
                    def inner(): ...
                def helper(): ...
                """,
            "tool.py": "import sys\n",
            "main.py": f"import shop\n{MAIN}shop\ndef spare(): ...\ndef _own(): ...\n",
            "shop/__init__.py": "def _hook(): ...\n",
        }
    )
    assert sure == ["main:_own", "tests.test_m:helper"]
    reasons = {symbol: min(one).partition(",")[0] for symbol, one in why.items()}
    assert reasons == {
        "main:spare": "nothing imports its module: whoever loads that may read its names",
        "shop:_hook": "it stands in a package's own file",
        "tests.test_m:test_it.<locals>.inner": "it stands in a function of a test",
        "tool": "it stands in the top folder",
    }


def test_a_script_without_an_ending_is_read() -> None:
    script = "#!/usr/bin/env python3\nfrom shop.cart import _helper\n_helper()\n"
    assert told(shop(**{"bin/shoprun": script}))[0] == DEAD[:2]


@pytest.mark.timeout(60)  # a look at each pair of letters takes hours
@pytest.mark.parametrize(
    "one", ["a", "a.", "_", "-", "{", "{a", "<a", "%(", "`a", "aA", "a {", "語"]
)
def test_a_long_text_without_spaces_is_read_in_one_pass(one: str) -> None:
    text = one * (1_000_000 // len(one))
    tree = {
        **shop(),
        "a.json": text,
        "a.txt": text,
        "main.py": f"{shop()['main.py']}print('{text}')",
    }
    assert told(tree) == (DEAD, {})
