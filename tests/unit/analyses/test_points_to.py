"""Points-to: objects by the place that makes them, fields by object, calls by what is held."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from textwrap import dedent
from types import FrameType
from typing import Any

import pytest

from deltafix.analyses.call_graph import CALL_GRAPH
from deltafix.analyses.job import Job
from deltafix.analyses.points_to import POINTS_TO

SHOP = """
class Cat:
    def speak(self): return purr()
class Dog:
    def speak(self): return bark()
def purr(): ...
def bark(): ...
class Box:
    def __init__(self, inside): self.inside = inside
    def open(self): return self.inside
def go():
    one = Box(Cat())
    two = Box(Dog())
    pet = one.inside
    pet.speak()
    action = two.inside.speak
    action()
    run(two.open)
    return pet
def run(f): return f()
"""


@pytest.fixture(scope="module")
def live() -> Iterator[Job]:
    with Job(POINTS_TO) as job:
        yield job


@pytest.fixture
def job(live: Job) -> Iterator[Job]:
    yield live
    live.update([], list(live.fragments))


def say(job: Job, **files: str) -> None:
    told = [POINTS_TO.extract(f"{n}.py", dedent(t).encode(), "") for n, t in files.items()]
    job.update(told)
    assert not job.errors


def objects(job: Job, variable: str) -> set[str]:
    return {str(o) for v, o in job.rows("points_to") if v == variable}


def test_each_place_that_makes_an_object_makes_its_own(job: Job) -> None:
    say(job, m=SHOP)
    one, two = objects(job, "m:go.<locals>.one"), objects(job, "m:go.<locals>.two")
    assert len(one) == len(two) == 1
    assert not one & two
    cat = objects(job, "m:go.<locals>.one->inside")
    # One set for the parameter `inside`, whoever calls __init__: context is ignored.
    assert cat == {o for _, n, o in job.rows("field") if n == "inside"}
    assert {str(o) for o in cat} <= {"m:go$1", "m:go$2", "m:go$3", "m:go$4"}


def test_only_what_is_defined_points_to_itself(job: Job) -> None:
    """In the rules every object holds itself; a row says so of names alone."""
    say(job, m=SHOP)
    itself = {variable for variable, target in job.rows("points_to") if variable == target}
    assert (
        {"m", "m:Box", "m:Box.open", "m:purr"} <= itself <= {name for name, _ in job.rows("symbol")}
    )


def test_a_method_is_called_on_what_its_object_may_be(job: Job) -> None:
    text = SHOP.replace("two = Box(Dog())", "two = Box(Cat())")
    say(job, m=text)
    calls = {(str(a), str(b)) for a, b in job.rows("calls")}
    assert ("m:go", "m:Cat.speak") in calls
    assert ("m:go", "m:Dog.speak") not in calls
    assert ("m:run", "m:Box.open") in calls  # a bound method that was handed on
    with Job(CALL_GRAPH) as graph:
        graph.update([CALL_GRAPH.extract("m.py", text.encode(), "")])
        by_name = {(str(a), str(b)) for a, b in graph.rows("calls")}
    assert ("m:go", "m:Dog.speak") in by_name  # the call graph goes by the method's name


def test_containers_closures_and_classes_are_objects(job: Job) -> None:
    say(
        job,
        m="""
        class A: pass
        def f(kind=A):
            x = [A(), {'k': kind()}]
            def g(): return x
            y = g()[0]
            z = kind
            return lambda: y
        w = f()()
        """,
    )
    assert objects(job, "m:f.<locals>.z") == {"m:A"}
    assert objects(job, "m:f.<locals>.y") == objects(job, "m:w")
    made = objects(job, "m:f.<locals>.x")
    assert len(made) == 1
    inside = {str(v) for o, n, v in job.rows("field") if o in made and n == "[]"}
    assert len(inside) == 2
    assert "m:A" not in inside


def test_a_store_through_one_name_is_read_through_the_other(job: Job) -> None:
    say(
        job,
        m="""
        class A: pass
        def f():
            a = A()
            b = a
            c = A()
            b.x = 'text'
            c.x = 1
            return a.x
        """,
    )
    assert objects(job, "m:f$return") == {"str()"}


def test_edits_tell_the_calls_that_came_and_went(job: Job) -> None:
    say(job, m=SHOP, n="from m import *\nBox(1).open()\n")
    changed = job.update([POINTS_TO.extract("n.py", b"from m import *\nBox(1)\n", "")])
    assert changed.went["calls"] == (("n", "m:Box.open"),)
    assert changed.came["calls"] == ()
    job.check_invariants()
    broken = job.update([POINTS_TO.extract("n.py", b"def (", "")])
    assert dict(broken.unreadable) == {"n.py": "line 1: invalid syntax"}
    assert not any(broken.came.values())
    job.update([], ["n.py"])


def test_special_methods_behind_builtins_and_formats_are_called(job: Job) -> None:
    say(
        job,
        m="""
        class Sized:
            def __len__(self): return 1
            def __str__(self): return ''
            def __iter__(self): return self
            def __next__(self): return 1
            def __hash__(self): return 1
        class Shown:
            def __repr__(self): return ''
        class Styled:
            def __format__(self, how): return ''
        class Made:
            def __init__(self, x): made(x)
        def made(x): ...
        def by_len(): return len(Sized())
        def by_str(): return str(Sized()), f"{Shown()}"
        def by_format(): return f"{Styled()}{Sized()!r}{Shown()!r}"
        def by_next(): return next(Sized())
        def by_iter(): return sum(x for x in [1]), list(Sized())
        def by_map(): return map(Made, [1])
        def shadowed(len): return len(Sized())
        """,
    )
    found: dict[str, set[str]] = {}
    for caller, callee in job.rows("calls"):
        found.setdefault(str(caller).removeprefix("m:"), set()).add(str(callee).removeprefix("m:"))
    assert found == {
        "by_len": {"Sized.__len__"},
        "by_str": {"Sized.__str__", "Shown.__repr__"},
        "by_format": {"Styled.__format__", "Shown.__repr__"},
        "by_next": {"Sized.__next__"},
        "by_iter": {"Sized.__iter__", "Sized.__next__"},
        "by_map": {"Made.__init__"},
        "Made.__init__": {"made"},
    }


DECIDES = {
    "if_": "if x: pass",
    "elif_": "if 0: pass\n    elif x: pass",
    "while_": "while x: break",
    "assert_": "assert x or 1, 'text'",
    "if_expression": "y = 1 if x else 2",
    "not_": "y = not x",
    "and_": "y = x and 1",
    "or_": "y = 0 or x or 1",
    "comprehension": "y = [1 for _ in (1,) if x]",
    "guard": "match 1:\n        case _ if x: pass",
    "bool_": "y = bool(x)",
    "any_": "y = any([x])",
    "all_": "y = all(z for z in [x])",
    "filter_": "y = list(filter(None, [x]))",
    "in_": "y = 1 in Held(x)",
    "unequal": "y = Held(x) != 1",
    "chain": "y = 0 < Held(x) < 2",
    "walrus": "if y := x: pass",
    "last": "y = 1 and x",  # nobody asks
    "is_": "y = x is None or x == 1",
}
TRUTHS = """
class Truth:
    def __bool__(self): return True
    def __len__(self): return 1
class Sized:
    def __len__(self): return 1
class Heir(Sized):
    pass
class Plain:
    pass
class Held:
    def __init__(self, x): self.x = x
    def __contains__(self, one): return self.x
    def __eq__(self, one): return self.x
    def __gt__(self, one): return self.x
    def __lt__(self, one): return self.x
"""


@pytest.mark.parametrize("kind", ["Truth", "Sized", "Heir", "Plain"])
def test_what_decides_is_asked_for_its_truth_as_it_is_when_it_runs(job: Job, kind: str) -> None:
    functions = (f"def {name}():\n    x = {kind}()\n    {body}" for name, body in DECIDES.items())
    text = TRUTHS + "\n".join(functions)
    module: dict[str, Any] = {"__name__": "m"}
    exec(compile(text, "m.py", "exec"), module)  # noqa: S102
    ran = set[tuple[str, str]]()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name in ("__bool__", "__len__") and frame.f_back:
            caller = frame.f_back.f_code.co_qualname.partition(".<locals>")[0]
            ran.add((f"m:{caller}", f"m:{code.co_qualname}"))

    for name in DECIDES:
        sys.setprofile(note)
        try:
            module[name]()
        finally:
            sys.setprofile(None)
    say(job, m=text)
    calls = {(str(caller), str(callee)) for caller, callee in job.rows("calls")}
    assert {call for call in calls if call[1].endswith(("__bool__", "__len__"))} == ran
    assert len(ran) == (0 if kind == "Plain" else len(DECIDES) - 2)


ANYTHING = """
import typing
from typing import Any
from outside import Handlers
Value = Any
class Cat:
    def speak(self): return 1
def plain(x): return x
def any_(x: Any): return x
def alias(x: Value): return x
def dotted(x: typing.Any): return x
def either(x: "None | Value"): return x
def whatever(x: object): return x
def strange(x: Handlers): return x
class Box:
    held: object = None
    def __init__(self, inside): self.held = inside
def gives(x) -> Any: return x
def go(f):
    for one in f([Cat()]):
        one.speak()
    f(Cat()).speak()
"""


@pytest.mark.parametrize("name", ["any_", "alias", "dotted", "either", "whatever", "gives"])
def test_where_anything_is_said_a_container_goes_on_by_its_class(job: Job, name: str) -> None:
    say(job, m=f"{ANYTHING}\ngo({name})\nmade = {name}([Cat()])\n")
    cats = objects(job, "m:Cat.speak.<locals>.self")
    assert objects(job, "m:made") - cats - {"NoneType()"} == {"?", "list()"}
    assert {o for o, n, v in job.rows("field") if n == "[]" and v == "?"} >= {"list()"}
    assert {v for o, n, v in job.rows("field") if o == "list()"} == {"?"}
    # What is no container goes through with what it has.
    assert ("m:go", "m:Cat.speak") in set(job.rows("calls"))


@pytest.mark.parametrize("name", ["plain", "strange"])
def test_elsewhere_a_container_keeps_what_is_in_it(job: Job, name: str) -> None:
    say(job, m=f"{ANYTHING}\nmade = {name}([Cat()])\nfor one in made: one.speak()\n")
    (made,) = objects(job, "m:made") - {"?"}
    assert made != "list()"
    assert ("m", "m:Cat.speak") in set(job.rows("calls"))


def test_object_of_ones_own_is_not_pythons(job: Job) -> None:
    say(job, m="class object: pass\ndef f(x: object): return x\nmade = f([1])\n")
    assert objects(job, "m:made") == {"m:object()"}


def test_what_stands_for_all_lists_is_not_filled(job: Job) -> None:
    """Else what one function puts into a list of anybody's would be in that of every other."""
    say(job, m="def f(x: list):\n    x.append(1)\n    return x[0]\ndef g(y: list): return y[0]\n")
    assert objects(job, "m:g$return") == objects(job, "m:f$return") == {"?"}


@pytest.mark.parametrize("said", ["Any", "object"])
def test_places_for_anything_grow_as_the_text_does(said: str) -> None:
    """Containers of containers, handed from each place to every other: rows were the square."""

    def touched(count: int) -> int:
        lines = ["from typing import Any", f"def shown(x: {said}) -> {said}:", "    return x"]
        lines += [f"def f{n}(x):\n    for y in shown((x, [x])): return (y,)" for n in range(count)]
        lines += [f"f{n}(shown(f{(n + 1) % count}(1)))" for n in range(count)]
        with Job(POINTS_TO) as job:
            job.update([POINTS_TO.extract("m.py", "\n".join(lines).encode(), "")])
            return job.last_work.touched

    few, many = touched(20), touched(80)
    assert many < 5 * few
