"""Questions to the call graph and the imports: by hand, on random programs, on a real package.

The judges are rustworkx, over edges that the generator knows because it wrote them, and Python
itself: what a real package imports when it is imported.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest
import rustworkx as rx

from deltafix.analyses.call_graph import CALL_GRAPH
from deltafix.analyses.call_graph.facts import extract_calls
from deltafix.analyses.call_graph.questions import Affected, Chain, Questions
from deltafix.analyses.dead_code.policy import is_test_file
from deltafix.analyses.dead_code.symbols import UnknownSymbolError
from deltafix.analyses.facts import Fragment
from deltafix.analyses.job import Job
from deltafix.analyses.reading import read_fragments
from deltafix.errors import SourceError

Edges = set[tuple[str, str]]
Tree = dict[str, str]

SHOP = {
    "shop/__init__.py": "from shop.cart import Cart\n",
    "shop/cart.py": "from shop import tax\nclass Cart:\n    def total(self): return self.sum()\n"
    "    def sum(self): return tax.rate()\n",
    "shop/tax.py": "LOW = 2\ndef rate(): return table(3)\ndef table(n): return table(n - 1)\n",
    "shop/log.py": "def log(): ...\n",
    "main.py": "from shop import Cart\ndef go(): return Cart().total()\ngo()\n",
    "tests/conftest.py": "import pytest\nfrom shop import log\n@pytest.fixture\ndef box(): ...\n",
    "tests/helpers.py": "import pytest\n@pytest.fixture\ndef till(): ...\n",
    "tests/unit/test_cart.py": "from shop.cart import Cart\ndef test_it(box): Cart().total()\n",
    "tests/unit/test_till.py": "def test_till(till): ...\n",
    "other/test_tax.py": "def test_tax():\n    import shop.tax as t\n    t.rate()\n",
}


@pytest.fixture
def job(warm_kernel: None) -> Iterator[Job]:
    with Job(CALL_GRAPH) as made:
        yield made


def fragments(tree: Tree) -> list[Fragment]:
    return [extract_calls(path, text.encode()) for path, text in tree.items()]


def steps(chains: list[Chain] | list[Affected]) -> list[str]:
    return [" ".join(one.steps) for one in chains]


# -- by hand -----------------------------------------------------------------------------------


def test_callers_reaches_and_path(job: Job) -> None:
    job.update(fragments(SHOP))
    ask = Questions(job)
    rate = "shop.tax:rate"
    cart = "shop.cart:Cart"
    assert steps(ask.callers("rate")) == [f"other.test_tax:test_tax {rate}", f"{cart}.sum {rate}"]
    assert ask.callers("rate")[1].places == (("shop/cart.py", 4), ("shop/tax.py", 2))
    table = "shop.tax:table"
    assert steps(ask.callers("table")) == [f"{rate} {table}", f"{table} {table}"]
    # A class without __init__ is called too.
    made = [f"main:go {cart}", f"tests.unit.test_cart:test_it {cart}"]
    assert steps(ask.callers("Cart")) == made
    assert steps(ask.reaches("rate")) == [
        f"other.test_tax:test_tax {rate}",
        f"{cart}.sum {rate}",
        f"{cart}.total {cart}.sum {rate}",
        f"main:go {cart}.total {cart}.sum {rate}",
        f"tests.unit.test_cart:test_it {cart}.total {cart}.sum {rate}",
        f"main main:go {cart}.total {cart}.sum {rate}",
    ]
    way = ask.path("main", "rate")
    assert way is not None
    assert steps([way]) == [f"main main:go {cart}.total {cart}.sum {rate}"]
    again = ask.path("table", "table")
    assert again is not None
    assert again.steps == (table, table)
    assert ask.path("rate", "main:go") is None
    assert ask.path("rate", "rate") is None


def test_impact_follows_imports_fixtures_and_conftest(job: Job) -> None:
    job.update(fragments(SHOP))
    ask = Questions(job)
    cart, tax = "shop/cart.py", "shop/tax.py"
    assert steps(ask.impact([tax])) == [
        f"other/test_tax.py {tax}",
        f"tests/unit/test_cart.py {cart} {tax}",
        "tests/unit/test_till.py tests/conftest.py shop/__init__.py shop/cart.py shop/tax.py",
        f"{cart} {tax}",
        f"shop/__init__.py {cart} {tax}",
        *(f"{one} shop/__init__.py {cart} {tax}" for one in ("main.py", "shop/log.py",
                                                            "tests/conftest.py")),
    ]  # fmt: skip
    assert [one.path for one in ask.impact([tax]) if one.test] == [
        "other/test_tax.py", "tests/unit/test_cart.py", "tests/unit/test_till.py",
    ]  # fmt: skip
    assert steps(ask.impact(["tests/helpers.py"])) == ["tests/unit/test_till.py tests/helpers.py"]
    # A test that changed must be run again, and a conftest is none.
    till = "tests/unit/test_till.py"
    assert steps(ask.impact([till, "main.py"])) == [till]
    assert {one.path for one in ask.impact(["tests/conftest.py"])} == {
        "tests/unit/test_cart.py", till,
    }  # fmt: skip


def test_what_counts_as_an_import(job: Job) -> None:
    job.update(
        fragments({
            "app/__init__.py": "",
            "app/plug_one.py": "",
            "app/base.py": "",
            "computed.py": "import importlib\ndef f(x): importlib.import_module(f'app.plug_{x}')\n",
            "text.py": "PLUGINS = ['app.plug_one']\n",
            "app/types.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
            "    from . import plug_one\n",
            "app/relative.py": "def f():\n    from .plug_one import x\n",
            "star.py": "from app.plug_one import *\n",
            "test_a.py": "import pytest, app.base\n@pytest.fixture\ndef box(): ...\n",
            "test_b.py": "import pytest\n@pytest.fixture\ndef box(): ...\ndef test_b(box): ...\n",
        })
    )  # fmt: skip
    ask = Questions(job)
    assert [one.path for one in ask.impact(["app/plug_one.py"])] == [
        "app/relative.py", "app/types.py", "computed.py", "star.py", "text.py",
    ]  # fmt: skip
    # A fixture of that name in another test file is not the one that is asked for.
    assert [one.path for one in ask.impact(["app/base.py"])] == ["test_a.py"]
    assert [one.path for one in ask.impact(["test_a.py"])] == ["test_a.py"]


def test_of_ways_as_short_and_places_of_one_symbol_the_first(job: Job) -> None:
    both = "def a(): b(); c()\ndef b(): d()\ndef c(): d()\n"
    job.update(fragments({"m.py": f"{both}if 1:\n    def d(): ...\nelse:\n    def d(): ...\n"}))
    way = Questions(job).path("a", "d")
    assert way is not None
    assert way.steps == ("m:a", "m:b", "m:d")
    assert way.places == (("m.py", 1), ("m.py", 2), ("m.py", 5))


def test_what_cannot_be_asked_says_what_can(job: Job) -> None:
    job.update(fragments(SHOP | {"bad.py": "def f(:"}))
    ask = Questions(job)
    for text, said in {
        "rates": "there is no symbol 'rates'; did you mean 'rate'?",
        "Cart.totals": "there is no symbol 'Cart.totals'; did you mean 'Cart.total'?",
        "shop.tax:taable": "there is no symbol 'shop.tax:taable'; did you mean 'shop.tax:table'?",
        "shop.main:rate": r"there is no symbol 'shop.main:rate'; rate is 'shop.tax:rate'$",
        "Cart.rate": r"there is no symbol 'Cart.rate'; rate is 'shop.tax:rate'$",
        "shop.tax": "shop.tax is a module, .* ask for the impact of its file",
        "shop.tax:LOW": "shop.tax:LOW is a name, and calls go to functions, methods and classes",
    }.items():
        with pytest.raises(UnknownSymbolError, match=said):
            ask.callers(text)
    with pytest.raises(UnknownSymbolError, match="there is no symbol 'nobody'"):
        ask.path("nobody", "rate")
    with pytest.raises(SourceError, match=r"nope\.py is no Python file of the tree"):
        ask.impact(["main.py", "nope.py"])
    with pytest.raises(SourceError, match=r"tree; did you mean shop/cart\.py\?$"):
        ask.impact(["cart.py"])
    with pytest.raises(SourceError, match=r"bad\.py could not be read: line 1"):
        ask.impact(["bad.py"])


# -- random programs ---------------------------------------------------------------------------


def random_tree(random: Random) -> tuple[Tree, Edges, Edges]:
    """Files, the calls and the imports between them, as they were meant.

    Names are unique in the tree, so that no call is ambiguous. A call goes by a name of the module,
    an imported name, a module's attribute, an alias, or an import inside of the function.
    """
    packages = ("pkg/", "pkg/sub/")
    folders = ["", "pkg/", "pkg/sub/", "tests/", "tests/deep/"]
    paths = {"pkg/__init__.py", "pkg/sub/__init__.py"}
    paths |= {f"{random.choice(folders[:3])}m{i}.py" for i in range(random.randint(2, 6))}
    paths |= {f"{random.choice(folders)}test_m{i}.py" for i in range(random.randint(0, 3))}
    paths |= {f"{one}conftest.py" for one in folders[3:] if random.random() < 0.4}
    modules = {path: path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
               for path in paths}  # fmt: skip
    ordered = sorted(paths)
    functions = [
        (path, f"f{i}_{j}") for i, path in enumerate(ordered) for j in range(random.randint(0, 3))
    ]
    calls: Edges = set()
    imports: Edges = set()

    def needs(path: str, other: str) -> None:
        imports.add((path, other))

    tree: Tree = {}
    for path in ordered:
        above: list[str] = []
        bodies: list[str] = []
        users = [name for where, name in functions if where == path]
        for user in [*users, ""]:
            lines: list[str] = []
            for _ in range(random.randint(0, 2)):
                if not functions:
                    break
                where, called = random.choice(functions)
                module = modules[where]
                way = random.randrange(5)
                if where == path:
                    lines.append(f"{called}()")
                elif way == 0:
                    above.append(f"from {module} import {called}")
                    lines.append(f"{called}()")
                elif way == 1:
                    above.append(f"import {module}")
                    lines.append(f"{module}.{called}()")
                    for package in packages:
                        if where.startswith(package):  # its name is part of what is written
                            needs(path, f"{package}__init__.py")
                elif way == 2:
                    above.append(f"import {module} as a_{called}")
                    lines.append(f"a_{called}.{called}()")
                else:
                    if way == 3:
                        lines.append(f"from {module} import {called} as here")
                    else:
                        lines.append(f"import {module} as it")
                    lines.append("here()" if way == 3 else f"it.{called}()")
                caller = f"{modules[path]}:{user}" if user else modules[path]
                calls.add((caller, f"{module}:{called}"))
                needs(path, where)
            if user:
                bodies.append(f"def {user}():\n" + "".join(f"    {x}\n" for x in [*lines, "pass"]))
            else:
                bodies.append("".join(f"{line}\n" for line in lines))
        if random.random() < 0.3:
            other = random.choice(ordered)
            above.append(f"import {modules[other]}")
            needs(path, other)
        tree[path] = "".join(f"{line}\n" for line in above) + "".join(bodies)
        is_package = path.endswith("__init__.py")
        folder = path.rpartition("/")[0].removesuffix("/sub" if is_package else "")
        if f"{folder}/" in packages:  # the package that it is in, or that its package is in
            needs(path, f"{folder}/__init__.py")
        for folder in folders[3:]:
            conftest = f"{folder}conftest.py"
            if path.startswith(folder) and is_test_file(path) and conftest in paths:
                needs(path, conftest)
    return tree, calls, {edge for edge in imports if edge[0] != edge[1]}


class Judge:
    """Another library's graph of the same edges."""

    def __init__(self, edges: Edges) -> None:
        self.graph = rx.PyDiGraph()
        self.edges = edges
        self.at = {one: self.graph.add_node(one) for one in sorted({n for e in edges for n in e})}
        self.graph.add_edges_from([(self.at[a], self.at[b], 1) for a, b in sorted(edges)])

    def steps_to(self, goals: set[str]) -> dict[str, int]:
        """Who reaches a goal, and in how many steps at least: one or more."""
        found: dict[str, int] = {}
        against = self.graph.copy()
        against.reverse()
        for goal in goals & self.at.keys():
            far = dict(rx.dijkstra_shortest_path_lengths(against, self.at[goal], lambda _: 1.0))
            after = [far.get(one, 0) for one in self.graph.successor_indices(self.at[goal])
                     if one in far or one == self.at[goal]]  # fmt: skip
            if after:
                far[self.at[goal]] = 1 + min(after)
            for at, steps in far.items():
                name = self.graph[at]
                found[name] = min(found.get(name, int(steps)), int(steps))
        return found

    def check(self, found: list[Chain] | list[Affected]) -> None:
        for one in found:
            assert set(zip(one.steps, one.steps[1:], strict=False)) <= self.edges


def judge_calls(ask: Questions, judge: Judge, symbols: list[str], starts: list[str]) -> int:
    """Compare every question about these symbols; how many answers that were."""
    count = 0
    for symbol in symbols:
        callers = ask.callers(symbol)
        assert {one.symbol for one in callers} == {a for a, b in judge.edges if b == symbol}
        reached = ask.reaches(symbol)
        judge.check([*callers, *reached])
        expected = judge.steps_to({symbol})
        assert {one.symbol: len(one.steps) - 1 for one in reached} == expected
        assert [len(one.steps) for one in reached] == sorted(len(one.steps) for one in reached)
        for start in starts:
            way = ask.path(start, symbol)
            assert (way is None) == (start not in expected)
            if way is not None:
                judge.check([way])
                assert (way.steps[0], way.steps[-1]) == (start, symbol)
                assert len(way.steps) - 1 == expected[start]
        count += len(reached)
    return count


def judge_imports(ask: Questions, judge: Judge, changed: set[str]) -> int:
    found = ask.impact(changed)
    judge.check(found)
    expected = {p: n for p, n in judge.steps_to(changed).items() if p not in changed}
    tests = {one for one in changed if is_test_file(one) and not one.endswith("conftest.py")}
    assert {one.path: len(one.steps) - 1 for one in found} == expected | dict.fromkeys(tests, 0)
    assert [one.test for one in found] == sorted((one.test for one in found), reverse=True)
    return len(found)


@pytest.mark.parametrize("seed", range(25))
def test_answers_agree_with_another_graph_library_on_random_programs(seed: int, job: Job) -> None:
    random = Random(seed)
    before: Tree = {}
    answers = 0
    for _ in range(3):  # the second and third are edits of the same job
        tree, calls, imports = random_tree(random)
        job.update(fragments(tree), before.keys() - tree.keys())
        before = tree
        ask = Questions(job)
        symbols = sorted({str(row[0]) for row in job.rows("symbol") if row[1] == "function"})
        modules = sorted({str(row[0]) for row in job.rows("symbol") if row[1] == "module"})
        answers += judge_calls(ask, Judge(calls), symbols, [*symbols[::3], *modules[::3]])
        for path in tree:
            answers += judge_imports(ask, Judge(imports), {path})
        answers += judge_imports(ask, Judge(imports), set(random.sample(sorted(tree), 2)))
    assert answers > 20


# -- a real package ----------------------------------------------------------------------------

IMPORTED = """
import importlib, json, sys
package, names = sys.argv[1], json.loads(sys.argv[2])
found = {}
for name in names:
    for one in [m for m in sys.modules if m == package or m.startswith(package + ".")]:
        del sys.modules[one]
    importlib.import_module(name)
    found[name] = [m for m in sys.modules if m in names]
json.dump(found, sys.stdout)
"""


def test_a_real_package(job: Job) -> None:
    """What importing a module of click imports is what its files are impacted by, at least."""
    spec = find_spec("click")
    assert spec is not None
    assert spec.origin is not None
    tree = CALL_GRAPH.tree(Path(spec.origin).parent)
    job.update(read_fragments(tree, list(tree.scan().files), CALL_GRAPH.extract))
    ask = Questions(job)
    names = {
        f"click.{path.removesuffix('.py')}".removesuffix(".__init__"): path
        for path in job.fragments
        if path != "_winconsole.py"  # of another system
    }
    run = subprocess.run(
        [sys.executable, "-c", IMPORTED, "click", json.dumps(sorted(names))],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    imported = json.loads(run.stdout)
    assert sum(map(len, imported.values())) > 100
    affects = {path: {one.path for one in ask.impact([path])} for path in job.fragments}
    for name, others in imported.items():
        for other in set(others) - {name}:
            assert names[name] in affects[names[other]]
    classes = {str(row[0]) for row in job.rows("symbol") if row[1] == "class"}
    edges = {(str(a), str(b)) for a, b in job.rows("calls")}
    edges |= {(str(a), str(b)) for a, b in job.rows("means") if b in classes}
    asked = ["click.core:Command.main", "click.utils:echo", "click.types:convert_type"]
    assert judge_calls(ask, Judge(edges), asked, ["click.testing:CliRunner.invoke"]) > 50
