"""Points-to: objects by the place that makes them, fields by object, calls by what is held."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import dedent

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
