"""The call graph: by hand, against the naive evaluator, and against calls that really happened."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from inspect import CO_GENERATOR, CO_OPTIMIZED
from pathlib import Path
from types import FrameType

import pytest
from tests.judges import oracle

from deltafix.analyses.call_graph import CALL_GRAPH
from deltafix.analyses.call_graph.facts import CALL_INPUTS, extract_calls
from deltafix.analyses.call_graph.questions import Questions
from deltafix.analyses.dead_code import DEAD_CODE
from deltafix.analyses.dead_code.extract import extract
from deltafix.analyses.dead_code.formats import github, sarif
from deltafix.analyses.dead_code.job import DeadCode
from deltafix.analyses.facts import Fragment
from deltafix.analyses.job import Job

OWN = Path(__file__).parents[3] / "src" / "deltafix" / "analyses"
PROGRAM = CALL_GRAPH.load_program()

Call = tuple[object, ...]


@pytest.fixture
def graph() -> Iterator[Job]:
    with Job(CALL_GRAPH) as made:
        yield made


def fragments(tree: dict[str, str]) -> list[Fragment]:
    return [extract_calls(path, text.encode()) for path, text in tree.items()]


def calls_of(graph: Job) -> set[Call]:
    return set(graph.rows("calls"))


def short(calls: set[Call] | tuple[Call, ...]) -> list[str]:
    return sorted(f"{caller} {callee}" for caller, callee in calls)


def judged(tree: dict[str, str]) -> set[Call]:
    """The calls by the naive evaluator."""
    facts: dict[str, set[tuple[str, ...]]] = {}
    for one in fragments(tree):
        for relation, row in one.facts:
            facts.setdefault(relation, set()).add(row)
    return {(row[0], row[1]) for row in oracle.evaluate(PROGRAM, facts)["calls"]}


SHOP = {
    "shop/__init__.py": "from shop.cart import Cart\n",
    "shop/cart.py": "from shop import tax as t\nclass Base:\n    def __init__(self): self.hook()\n"
    "    def hook(self): ...\nclass Cart(Base):\n    def hook(self): super().hook()\n"
    "    def total(self): return t.rate() + helper(len)\n    @classmethod\n"
    "    def new(cls): return cls.make()\n    @staticmethod\n    def make(): return Cart()\n"
    "def helper(f): return f(1)\n",
    "shop/tax.py": "def rate():\n    def inner(): ...\n    return inner()\nclass Else:\n"
    "    def total(self): ...\n    def hook(self): ...\n",
    "main.py": "import shop\nfrom shop.tax import rate as r\ncart = shop.Cart()\ncart.total()\n"
    "def go(): r(); table[0]()\n",
}


def test_names_are_exact_and_methods_of_unknown_objects_go_by_name(graph: Job) -> None:
    graph.update(fragments(SHOP))
    assert short(calls_of(graph)) == [
        "main shop.cart:Base.__init__",  # Cart's own is its ancestor's
        "main shop.cart:Cart.total",
        "main shop.tax:Else.total",  # cart's class is not known
        "main:go shop.tax:rate",
        "shop.cart:Base.__init__ shop.cart:Base.hook",
        "shop.cart:Base.__init__ shop.cart:Cart.hook",  # self may be an heir; never Else's
        "shop.cart:Cart.hook shop.cart:Base.hook",
        "shop.cart:Cart.make shop.cart:Base.__init__",
        "shop.cart:Cart.new shop.cart:Cart.make",
        "shop.cart:Cart.total shop.cart:helper",
        "shop.cart:Cart.total shop.tax:rate",
        "shop.tax:rate shop.tax:rate.<locals>.inner",
    ]


def test_a_receiver_of_a_builtin_class_has_no_callee_in_the_tree(graph: Job) -> None:
    text = "class Log:\n    def append(self, x): ...\n    def join(self, xs): ...\n"
    text += "def go(given):\n    found = []\n    found.append(1)\n    ','.join(found)\n"
    text += "def other(given):\n    given.append(1)\n"
    graph.update(fragments({"m.py": text}))
    assert short(calls_of(graph)) == ["m:other m:Log.append"]


def test_a_lambda_with_a_name_is_called_as_a_function_is(graph: Job) -> None:
    text = "def f(): ...\nx = lambda a=f: f()\ny: object = lambda: x()\n"
    text += "class C:\n    z = lambda self: y()\n    def go(self): self.z()\n"
    text += "def g():\n    local = lambda: x()\n    return local()\n"
    tree = {"m.py": text, "n.py": "import m\nm.x()\n"}
    graph.update(fragments(tree))
    assert short(calls_of(graph)) == [
        "m:C.go m:C.z", "m:C.z m:y", "m:g m:x", "m:x m:f", "m:y m:x", "n m:x",
    ]  # fmt: skip
    assert judged(tree) == calls_of(graph)
    assert [one.symbol for one in Questions(graph).callers("m:x")] == ["m:g", "m:y", "n"]


def test_super_is_what_comes_next_in_some_heir(graph: Job) -> None:
    text = "class A:\n    def m(self): ...\nclass Other:\n    def m(self): ...\n"
    text += "class B(A):\n    def m(self): super().m()\nclass C(A):\n    def m(self): super().m()\n"
    text += "class D(B, C):\n    def m(self): super().m()\n"
    graph.update(fragments({"m.py": text}))
    assert short(calls_of(graph)) == [
        "m:B.m m:A.m", "m:B.m m:C.m", "m:C.m m:A.m", "m:C.m m:B.m",
        "m:D.m m:A.m", "m:D.m m:B.m", "m:D.m m:C.m",
    ]  # fmt: skip


def test_a_method_called_on_a_class_is_its_own_or_the_nearest(graph: Job) -> None:
    tree = {
        "lib/__init__.py": "",
        "lib/base.py": "class A:\n    def m(self): ...\n    def n(self): ...\nthing = A()\n",
        "m.py": "import lib.base\nfrom lib import base\nfrom lib.base import A, thing\n"
        "class B(A):\n    def m(self): A.m(self)\nclass Else:\n    def m(self): ...\n"
        "    def n(self): ...\nown = B()\n"
        "def one(x): B.m(x)\ndef two(x): B.n(x)\ndef three(x): base.A.n(x)\n"
        "def four(x): lib.base.A.m(x)\ndef five(): own.m()\ndef six(): thing.n()\n"
        "def seven(): B.strange()\n",
    }
    graph.update(fragments(tree))
    every = {name: {f"lib.base:A.{name}", f"m:Else.{name}"} for name in "mn"}
    told: dict[str, set[str]] = {}
    for caller, callee in calls_of(graph):
        told.setdefault(caller.removeprefix("m:"), set()).add(callee)
    assert told == {
        "B.m": {"lib.base:A.m"}, "one": {"m:B.m"}, "two": {"lib.base:A.n"},
        "three": {"lib.base:A.n"}, "four": {"lib.base:A.m"},
        "five": {*every["m"], "m:B.m"}, "six": every["n"],  # what a name holds is not known
    }  # fmt: skip
    assert judged(tree) == calls_of(graph)


def test_a_class_is_made_by_its_own_init_or_the_nearest(graph: Job) -> None:
    text = "class A:\n    def __init__(self): ...\nclass B(A): ...\nclass C(B):\n"
    text += (
        "    def __init__(self): ...\nclass D(C): ...\ndef b(): B()\ndef c(): C()\ndef d(): D()\n"
    )
    graph.update(fragments({"m.py": text}))
    assert short(calls_of(graph)) == [
        "m:b m:A.__init__", "m:c m:C.__init__", "m:d m:C.__init__",
    ]  # fmt: skip


def test_edits_give_the_calls_that_came_and_went(graph: Job) -> None:
    first = graph.update(fragments(SHOP))
    assert len(first.came["calls"]) == 12
    now = dict(SHOP)
    text = SHOP["shop/cart.py"]
    for step in (
        {"shop/cart.py": text.replace("t.rate() + ", "")},
        {"shop/tax.py": "def rate(): ...\n"},
        {"shop/cart.py": text.replace("class Cart(Base)", "class Cart")},
        {"main.py": "def broken(:"},
        {"shop/cart.py": text},
    ):
        before = calls_of(graph)
        change = graph.update(fragments(step))
        after = calls_of(graph)
        assert (set(change.came["calls"]), set(change.went["calls"])) == (
            after - before,
            before - after,
        )
        assert change.work.touched < first.work.touched / 2
        if "main.py" in step:
            assert (dict(change.unreadable), after) == (
                {"main.py": "line 1: invalid syntax"},
                before,
            )
        else:
            now.update(step)
            assert after == judged(now)
    gone = graph.update([], ["main.py", "not/there.py"])
    assert {str(caller).partition(":")[0] for caller, _ in gone.went["calls"]} == {"main"}


def test_the_program_declares_the_inputs_that_the_extractor_fills() -> None:
    assert PROGRAM.warnings == ()
    assert set(PROGRAM.names("input")) == set(CALL_INPUTS)


def own() -> list[Fragment]:
    tree = DEAD_CODE.tree(OWN)
    return [extract_calls(path, tree.read(path), tree.prefix) for path in tree.scan().files]


def test_one_edit_of_this_repositorys_source_costs_what_it_changes(graph: Job) -> None:
    first = graph.update(own())
    caller = "deltafix.analyses.dead_code.report:Report.text"
    findings = "deltafix.analyses.dead_code.report:_findings"
    assert (caller, findings) in calls_of(graph)
    source = (OWN / "dead_code" / "report.py").read_bytes()
    line = b"        every_line = list(_findings(self.findings))\n"
    assert source.count(line) == 1  # it is this file's own text: a test of nothing otherwise
    edited = source.replace(line, b"        _new()\n" + line) + b"\n\ndef _new() -> None: ...\n"
    prefix = DEAD_CODE.tree(OWN).prefix
    change = graph.update([extract_calls("dead_code/report.py", edited, prefix)])
    new = "deltafix.analyses.dead_code.report:_new"
    assert (change.came["calls"], change.went["calls"]) == (((caller, new),), ())
    assert change.work.touched < first.work.touched / 100
    back = graph.update([extract_calls("dead_code/report.py", source, prefix)])
    assert (back.came["calls"], back.went["calls"]) == ((), ((caller, new),))
    assert back.work.touched < first.work.touched / 100


def traced(run: Callable[[], object], folder: Path = OWN) -> set[Call]:
    """Calls between functions of a folder that happen while `run` runs."""
    seen: set[Call] = set()

    def symbol(frame: FrameType | None) -> str | None:
        if frame is None or not frame.f_code.co_filename.startswith(str(folder)):
            return None
        name = frame.f_code.co_qualname
        while name.endswith(">"):  # a comprehension or lambda belongs to its function
            name = name.removesuffix(".<locals>").rpartition(".")[0].removesuffix(".<locals>")
        module = frame.f_globals["__name__"]
        return f"{module}:{name}" if name else module

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            caller, callee = symbol(frame.f_back), symbol(frame)
            resumed = frame.f_code.co_flags & CO_GENERATOR  # by whoever takes the next value
            is_body = not frame.f_code.co_flags & CO_OPTIMIZED  # of a class
            is_other = caller is not None and callee is not None and caller != callee
            if is_other and not resumed and not is_body:
                seen.add((caller, callee))

    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    return seen


def test_calls_that_really_happen_are_in_the_graph(graph: Job) -> None:
    """Calls that Python makes without a call being written are not: properties, iteration."""
    graph.update(own())

    def run() -> None:
        with DeadCode(roots=["public"], frameworks=["django"]) as job:
            tree = DEAD_CODE.tree(OWN)
            for path in ("dead_code/report.py", "files.py", "history.py"):
                job.update([extract(path, tree.read(path), tree.prefix)])
            from deltafix.analyses.dead_code.report import Report

            report = Report(".", 1, 2, 3, tuple(job.dead()), job.last_work)
            assert sarif(report)
            assert github(report)

    really = traced(run)
    assert len(really) > 60
    unseen = {call for call in really - calls_of(graph) if ".<locals>." not in str(call[1])}
    written = {str(callee).rpartition(":")[2] for _, callee in unseen}
    # Properties, and a class chosen by an expression: the documented limits.
    limits = {
        "Imported.dotted",
        "DeadCode._judged",
        "DeadCode._shown",
        "DeadCode.fact_count",
        "Definitions.__init__",
        "Job.database",
        "Report.findings",
    }
    assert written <= limits


NESTED = """
class Mixin:
    class Tool:
        def __init__(self): ...
        @classmethod
        def new(cls): return cls()
    class Bare:
        class Deep:
            def __init__(self): ...
class Base:
    class Inner:
        def __init__(self): self.part = self.Part()
        class Part:
            def __init__(self): ...
    class Heir(Inner):
        def __init__(self): super().__init__()
    class Plain(Inner): ...
class Outer(Base, Mixin):
    class Tool(Mixin.Tool): ...
    class Made(Base.Plain): ...
    def own(self): {calls_own}
    @classmethod
    def of_class(cls): {calls_class}
    def above(self): super().Inner(), super().Tool(), super().Heir()
    def kind(self): type(self).Inner(), self.__class__.Plain()
class Else:
    class Inner:
        def __init__(self): ...
def go():
    outer = Outer()
    outer.own(), Outer.of_class(), outer.above(), outer.kind()
    {calls_outer}
def local():
    class Here:
        class Inner:
            def __init__(self): ...
    Here.Inner()
def both(): go(), local()
"""
ELSEWHERE = """
import lib.nested
from lib import nested as other
from lib.nested import Outer as Known
class Heir(Known):
    class Inner(Known.Inner):
        def __init__(self): super().__init__()
    def own(self): self.Inner(), self.Plain(), self.Tool()
def run():
    Heir().own(), Heir.Inner(), Heir.Plain(), other.both()
    {calls_path}
    {calls_module}
    {calls_name}
"""
WAYS = (
    "Inner()",
    "Heir()",
    "Plain()",
    "Tool()",
    "Tool.new()",
    "Made()",
    "Bare.Deep()",
    "Inner.Part()",
)


def test_calls_of_nested_classes_that_really_happen_are_in_the_graph(
    graph: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By self, cls, super() and the class, here and elsewhere, own and inherited, of two levels."""
    receivers = {
        "calls_own": "self", "calls_class": "cls", "calls_outer": "Outer", "calls_name": "Known",
        "calls_path": "lib.nested.Outer", "calls_module": "other.Outer",
    }  # fmt: skip
    written = {place: ", ".join(f"{one}.{way}" for way in WAYS) for place, one in receivers.items()}
    tree = {
        "lib/__init__.py": "",
        "lib/nested.py": NESTED.format_map(written),
        "lib/elsewhere.py": ELSEWHERE.format_map(written),
    }
    (tmp_path / "lib").mkdir()
    for path, text in tree.items():
        (tmp_path / path).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        run = importlib.import_module("lib.elsewhere").run
        really = traced(run, tmp_path)
    finally:
        for name in [one for one in sys.modules if one.partition(".")[0] == "lib"]:
            del sys.modules[name]
    graph.update(fragments(tree))
    inits = {callee for _, callee in really if str(callee).endswith("__init__")}
    assert len(inits) == 7
    assert really - calls_of(graph) == set()
    assert judged(tree) == calls_of(graph)
