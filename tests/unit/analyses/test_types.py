"""Types: small programs with their answers, edits, annotations that disagree, bad input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import dedent
from typing import TypeAlias

import pytest

from deltafix.analyses.job import Job
from deltafix.analyses.types import TYPES
from deltafix.analyses.value_flow.listing import listing
from deltafix.analyses.value_flow.tables import table_facts

Answers: TypeAlias = Callable[..., dict[str, set[str]]]


@pytest.fixture(scope="module")
def live() -> Iterator[Job]:
    with Job(TYPES) as job:
        yield job


@pytest.fixture
def answers(live: Job) -> Iterator[Answers]:
    """A function: sources to name -> types, of the variables in module m or of another view."""
    paths: list[str] = []

    def ask(*texts: str, view: str = "variable", **files: str) -> dict[str, set[str]]:
        sources = {"m": "\n".join(map(dedent, texts)), **files}
        told = [TYPES.extract(f"{n}.py", dedent(t).encode(), "") for n, t in sources.items()]
        paths.extend(one.path for one in told)
        live.update(told)
        assert not live.errors
        found: dict[str, set[str]] = {}
        for owner, *name, kind in live.rows(view):
            key = ".".join([str(owner), *map(str, name)])
            found.setdefault(key, set()).add(str(kind))
        return found

    yield ask
    live.update([], paths)
    assert not live.fragments


@pytest.fixture
def types(answers: Answers) -> Answers:
    """A function: the body of a function to its locals and their types."""

    def ask(body: str, before: str = "", **files: str) -> dict[str, set[str]]:
        inside = "\n".join("    " + line for line in dedent(body).strip().splitlines())
        found = answers(before, f"def f():\n{inside}\n", **files)
        start = "m:f."
        return {k.removeprefix(start): v for k, v in found.items() if k.startswith(start)}

    return ask


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1", "int"), ("'a'", "str"), ("f'{1}'", "str"), ("None", "NoneType"), ("b''", "bytes"),
        ("[1]", "list"), ("{1: 2}", "dict"), ("{1}", "set"), ("(1, 2)", "tuple"),
        ("1 + 2", "int"), ("1 + 2.0", "float"), ("7 / 2", "float"), ("'a' + 'b'", "str"),
        ("'a' * 3", "str"), ("'%s' % 1", "str"), ("[1] + ['a']", "list"), ("1 < 2", "bool"),
        ("not 1", "bool"), ("-1", "int"), ("1 if f else 'a'", "int str"),
        ("None or 'a'", "str"), ("f() or None", "NoneType"), ("None and 'a'", "NoneType str"),
        ("{1: 'a'}.get(1) or b''", "str bytes"), ("{1: 'a'}.get(1, 2)", "str int"),
        ("len('a')", "int"), ("'a b'.split()", "list"),
        ("'a b'.split()[0]", "str"), ("[1, 'a'][0]", "int str"), ("(1, 'a')[1]", "str"),
        ("{'k': 2.0}['k']", "float"), ("list({'k': 2.0})[0]", "str"),
        ("[x for x in ('a', 'b')][0]", "str"), ("{k: v for k, v in [(1, 'a')]}[1]", "str"),
        ("sorted({'a'})[0]", "str"), ("dict(a=1)['a']", "int"), ("max([1.5])", "float"),
        ("[i for i, c in enumerate('ab')][0]", "int"), ("list(zip([1], ['a']))[0][1]", "str"),
        ("[v for k, v in {1: 'a'}.items()][0]", "str"), ("{1: 'a'}.get(2)", "NoneType str"),
        ("list(map(str, [1]))[0]", "str"), ("(lambda x: x)(1)", "int"), ("f", "function"),
        ("int", "type"), ("unknown_thing()", "unknown"), ("open('x').read()", "str unknown"),
        ("[*[1], *['a']][0]", "int str"), ("{**{1: 'a'}}[1]", "str"), ("range(3)[0]", "int"),
        ("(y := 'a')", "str"), ("'a'.join", "builtin_function_or_method"), ("'ab'[0:1]", "str"),
        ("bytearray(b'ab')[0:1]", "bytearray"), ("bytearray(b'ab').strip()", "bytearray"),
    ],
)  # fmt: skip
def test_expressions(expression: str, expected: str, types: Answers) -> None:
    assert types(f"x = {expression}")["x"] == set(expected.split())


def test_assignment_in_all_its_forms(types: Answers) -> None:
    found = types(
        """
        a = b = 1
        c, (d, *e) = 'a', (2.0, None, b'')
        e0 = e[0]
        for g, h in [(1, 'a')]:
            pass
        with open('x') as i:
            pass
        j: float = 1
        k = []
        k.append('a')
        l = k.pop()
        m = {}
        m['a'] = 1
        n = m['b']
        o = 1
        o += 1.5
        try:
            raise KeyError
        except (KeyError, ValueError) as p:
            q = p
        """
    )
    expected = {
        "a": "int", "b": "int", "c": "str", "d": "float", "e": "list", "e0": "NoneType bytes float",
        "g": "int", "h": "str", "i": "TextIOWrapper unknown", "j": "float int", "k": "list",
        "l": "str", "m": "dict", "n": "int", "o": "float int", "q": "KeyError ValueError",
    }  # fmt: skip
    assert {name: found[name] for name in expected} == {
        name: set(kinds.split()) for name, kinds in expected.items()
    }


CLASSES = """
from dataclasses import dataclass, field
from enum import Enum
import functools
from collections import deque
from typing import Generic, TypeVar
T = TypeVar("T")
def listed(f):
    def wrapper(self, *more): return [f(self)]
    return wrapper
class Base:
    shared = 'a'
    def __init__(self, n): self.n = n
    @property
    def twice(self): return self.n * 2
    @twice.setter
    def twice(self, value): self.set_to = value
    @classmethod
    def make(cls): return cls(3)
    @staticmethod
    def text(): return b''
    def _get(self): return self.n
    def _set(self, value): self.put = value
    thrice = property(_get, fset=_set, doc='three times')
    whole = property(lambda self: self)
    @property
    @listed
    def listing(self): return self.n
    def __add__(self, other): return other
    def __radd__(self, other): return [other]
    def __getitem__(self, key): return key
    def __iter__(self):
        yield self.n
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def __eq__(self, other): return 1.0
class Heir(Base):
    def __init__(self, n):
        super().__init__(n)
        self.own = None
    def __call__(self, x): return x
class Color(Enum):
    RED = 1
@dataclass
class Point:
    x: int
    tags: list = field(default_factory=list)
@dataclass
class Deep(Point):
    z: object = 0.0
class Countdown:
    def __iter__(self): return self
    def __next__(self): return 1.5
    def __abs__(self): return b''
class Shelf(Generic[T]):
    def top(self): return 'a'
class Alone:
    def __new__(cls): return super().__new__(cls)
"""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("Heir(1)", "m:Heir"), ("Heir(1).n", "int"), ("Heir(1).own", "NoneType"),
        ("Heir(1).shared", "str"), ("Base(1).twice", "int"), ("Base.make()", "m:Base m:Heir"),
        ("Heir(1).text()", "bytes"), ("Heir(1)('a')", "str"), ("Base(1) + 'a'", "str"),
        ("'a' + Base(1)", "list"), ("('a' + Base(1))[0]", "str"), ("Base(1)['k']", "str"),
        ("[y for y in Base(1)][0]", "int"), ("Color.RED", "m:Color"), ("Color.RED.name", "str"),
        ("Base(1).thrice", "int"), ("Heir('a').whole.thrice", "int str"),
        ("Base(1).whole", "m:Base m:Heir"), ("Base(1).listing", "list"),
        ("Base(1).listing[0]", "int"),
        ("Point(1).x", "int"), ("Deep(1, [], 'a').z", "float str unknown"),
        ("Point(1).tags", "list"),
        ("Base(1) == 2", "bool float"), ("Base(1).make", "method"), ("type(Heir(1))", "type"),
        ("type(Heir(1))(1)", "m:Heir"), ("Heir(1).__class__", "type"), ("Alone()", "m:Alone"),
        ("(Heir(1), 2)[0].n", "int"), ("Point", "type"), ("Shelf[int]()", "m:Shelf"),
        ("Shelf[int]().top()", "str"), ("Shelf[int]", "type"), ("Color['RED']", "m:Color"),
        ("next(Countdown())", "float"), ("next(iter(Countdown()))", "float"),
        ("list(Countdown())[0]", "float"), ("abs(Countdown())", "bytes m:Countdown"),
        ("[b for a, b in enumerate(Countdown())][0]", "float"), ("max(Countdown())", "float"),
        ("list(zip('a', Countdown()))[0][1]", "float"), ("deque([Heir(1)]).popleft()", "m:Heir"),
        ("list(map(Heir, ['a']))[0].n", "int str"),
    ],
)  # fmt: skip
def test_classes(expression: str, expected: str, types: Answers) -> None:
    assert types(f"x = {expression}", CLASSES)["x"] == set(expected.split())


def test_setters_managers_closures_and_patterns(types: Answers) -> None:
    found = types(
        """
        h = Heir(1)
        h.twice = 'a'
        a = h.set_to
        h.thrice = 1.5
        o = h.put
        with h as b:
            pass
        count = 0
        def inner(x=None, *rest, key='k', **named):
            nonlocal count
            count = x
            return rest[0], named['q'], key
        c, d, e = inner(1.5, b'', q=[])
        match h:
            case Heir(n=g):
                i = g
            case [j, *k]:
                l = k
            case str() as m:
                n = m
        """,
        CLASSES,
    )
    told = {"a": "str", "b": "m:Base m:Heir", "count": "float int NoneType", "c": "bytes",
            "o": "float", "d": "list", "e": "str", "i": "int", "g": "int", "l": "list"}  # fmt: skip
    assert {name: found[name] for name in told} == {n: set(k.split()) for n, k in told.items()}
    assert "n" not in found  # h is never text


def test_generators_coroutines_and_decorators(answers: Answers) -> None:
    found = answers(
        """
        import functools
        from contextlib import contextmanager
        from outside import strange
        def numbers():
            yield 1
            yield from ['a']
        async def later(): return 1.5
        async def use():
            x = await later()
            return x
        def boxed(f):
            @functools.wraps(f)
            def inner(*a, **k): return [f(*a, **k)]
            return inner
        @boxed
        def one(v): return v
        @contextmanager
        def manager(): yield b''
        @strange
        def odd(): return 1
        def f():
            n = list(numbers())[0]
            o = one('s')
            p = o[0]
            q = odd()
            with manager() as r: pass
        """
    )
    told = {"m:f.n": "int str", "m:use.x": "float", "m:f.o": "list", "m:f.p": "str",
            "m:f.r": "bytes", "m:f.q": "int unknown"}  # fmt: skip
    assert {name: found[name] for name in told} == {n: set(k.split()) for n, k in told.items()}


def test_a_test_of_the_class_narrows_where_the_name_is_not_assigned(types: Answers) -> None:
    before = "class A: pass\nclass B: pass\ndef g(x): return x\ng(A())\ng(B())\ng(None)\n"
    found = types(
        """
        u = g(1)
        if isinstance(u, A):
            a = u
        if isinstance(u, (B, int)):
            u = 'x'
            b = u
        if u is not None:
            c = u
        d = isinstance(u, A) and u
        if not isinstance(u, B):
            return
        e = u
        """,
        before,
    )
    assert found["u"] == {"m:A", "m:B", "NoneType", "int", "str"}
    assert (found["a"], found["d"], found["e"]) == ({"m:A"}, {"m:A", "bool"}, {"m:B"})
    assert found["b"] == found["u"]  # assigned in the branch: not narrowed
    assert found["c"] == found["u"] - {"NoneType"}


def test_annotations_seed_parameters_and_returns_and_keep_the_unknown_out(answers: Answers) -> None:
    text = """
        from outside import thing
        from typing import Optional
        class A: pass
        class B(A): pass
        def f(a: "A | None", b: list[int], c: dict[str, A], d, *e: int) -> Optional[str]:
            x = b[0]
            for k, v in c.items():
                y, z = k, v
            w = e[0]
            return thing()
        f(thing(), thing(), thing(), thing())
        f(B(), [1], {}, 1)
        """
    found = answers(text)
    told = {"m:f.x": {"int"}, "m:f.y": {"str"}, "m:f.z": {"m:A"}, "m:f.w": {"int"}}
    assert {name: found[name] for name in told} == told
    parameters = answers(text, view="parameter")
    assert parameters["m:f.a"] == {"m:A", "m:B", "NoneType"}
    assert parameters["m:f.d"] == {"int", "unknown"}
    assert answers(text, view="returns")["m:f"] == {"str", "NoneType"}


def test_an_annotation_lets_in_what_it_allows_and_nothing_else(answers: Answers) -> None:
    text = """
        from __future__ import annotations
        import functools, typing
        from collections.abc import Callable, Iterable, MutableMapping, Set
        from typing import Any, Protocol, Type, TypedDict
        from outside import Strange
        class A: pass
        class B(A): pass
        class C: pass
        class Odd(Strange): pass
        class Walk:
            def __iter__(self): return iter([1])
            def __setitem__(self, key, value): ...
        class Runs:
            def __call__(self): ...
        class Has(Protocol):
            def m(self): ...
        class Meant(Has):
            def m(self): ...
        class Row(TypedDict):
            k: int
        def each(a: A, number: float, walk: Iterable[int], has: Has, row: Row,
                 call: Callable[[], int], kind: Type["A"], most: Any, table: MutableMapping,
                 some: Set, own: typing.Set[int], late: int = None, meant: Meant = None): ...
        def call(x):
            each(x, x, x, x, x, x, x, x, x, x, x, x, x)
        for one in [A(), B(), C(), Odd(), Walk(), 1, 's', None, {}, {1}, frozenset(), call, A, C]:
            call(one)
        for other in [Runs(), Runs().__call__, len, 's'.join, functools.partial(call), 1]:
            each(call=other)
        def gives(x) -> A: return x
        def yields(x) -> Iterable[A]: yield x
        async def waits(x) -> A: return x
        def same(x: C) -> "C | None":
            y: A = x
            return y
        gives(A()), gives(1), yields(B()), yields(1), waits(1), same(C())
        """
    found = answers(text, view="parameter")
    told = {
        "a": "m:A m:B m:Odd",
        "number": "float int m:Odd",
        "walk": "Iterable m:Walk dict set frozenset str m:Odd",
        "has": "m:Has m:A m:B m:C m:Odd m:Walk NoneType dict frozenset function int set str type",
        "row": "m:Row dict m:Odd",
        "kind": "type m:Odd",
        "meant": "m:Meant NoneType m:Odd",
        "table": "MutableMapping dict m:Walk m:Odd",
        "some": "Set set frozenset m:Odd",
        "own": "set m:Odd",
        "late": "int NoneType m:Odd",
    }
    assert {name: found[f"m:each.{name}"] for name in told} == {
        name: set(kinds.split()) for name, kinds in told.items()
    }
    assert {"unknown", "function", "type", "int", "m:C"} <= found["m:each.most"]
    called = "Callable function method builtin_function_or_method partial type m:Runs m:Odd"
    assert found["m:each.call"] == set(called.split())
    returns = answers(text, view="returns")
    told = {"gives": "m:A", "yields": "generator", "waits": "coroutine", "same": "m:C NoneType"}
    assert {name: returns[f"m:{name}"] for name in told} == {
        name: set(kinds.split()) for name, kinds in told.items()
    }
    assert answers(text)["m:same.y"] == {"m:A"}


def test_an_annotated_generator_and_coroutine_give_what_they_say(types: Answers) -> None:
    before = """
from outside import thing
from typing import AsyncIterator, Iterator
def numbers() -> Iterator[int]:
    yield thing()
    yield 's'
async def later() -> "float": return thing()
async def ticks() -> AsyncIterator[bytes]: yield 1
"""
    found = types("a = next(numbers())\nb = [x for x in numbers()][0]", before)
    assert (found["a"], found["b"]) == ({"int"}, {"int"})
    found = types(
        "a = [x for x in numbers()][0]", before.replace("Iterator[int]", "'Iterator[int]'")
    )
    assert found["a"] == {"int"}


def test_attributes_by_a_name_that_is_partly_written(types: Answers) -> None:
    before = """
import outside, m
class Tree:
    size = b''
    def visit_a(self): return 1
    def visit_b(self): return 's'
    def leave(self): return 1.5
    def visit(self, kind): return getattr(self, f"visit_{kind}")()
    def named(self, kind):
        name = "visit_" + kind
        found = getattr(self, name, None)
        return found and found()
    def any(self, name): return getattr(self, name)()
class More(Tree):
    def visit_c(self): return 2j
class Odd(outside.Thing):
    def visit_a(self): return 1
def visit_all(): return [1]
"""
    body = """
        a = Tree().visit(x)
        b = Tree().named(x)
        c = getattr(Tree(), "size")
        d = getattr(Tree(), "leave", None)()
        e = getattr(Tree(), "none", 1)
        g = getattr(Odd(), "visit_%s" % x)()
        h = Tree().any('leave')
        i = getattr(m, f"visit_{x}")()
        j = getattr(Tree, f"lea{x}")(1)
    """
    told = {"a": "int str complex", "b": "int str complex NoneType method", "c": "bytes",
            "d": "float", "e": "int", "g": "int unknown", "h": "unknown", "i": "list",
            "j": "float"}  # fmt: skip
    found = types(body, before)
    assert {name: found[name] for name in told} == {n: set(k.split()) for n, k in told.items()}


def test_a_decorator_that_hands_back_does_not_mix_what_it_decorates(types: Answers) -> None:
    before = """
KEPT = []
def register(f):
    KEPT.append(f)
    return f
def named(name):
    def inside(f):
        return f
    return inside
def either(f):
    if KEPT: return f
    return one
@register
def one(): return 1
@named('x')
def two(): return 's'
@register
def three(): return b''
@either
def four(): return 1.5
class Registry:
    def add(self, f): return f
    def other(self, f, g=one): return g
@Registry().add
def five(): return 2j
@Registry().other
def six(): return None
def second(f, g=two): return g
@second
def seven(): return None
"""
    found = types(
        "a, b, c, d, e = one(), two(), three(), four(), register(three)()\n"
        "g, h, i = five(), six(), seven()",
        before,
    )
    told = {"a": "int", "b": "str", "c": "bytes", "d": "float int", "e": "int bytes",
            "g": "complex", "h": "int", "i": "str"}  # fmt: skip
    assert {name: found[name] for name in told} == {n: set(k.split()) for n, k in told.items()}


def test_bodies_of_protocols_and_abstract_methods_give_nothing(answers: Answers) -> None:
    found = answers(
        """
        import abc
        import typing as t
        class Has(t.Protocol[T]):
            def one(self): pass
            def two(self):
                "text"
        class Base(abc.ABC):
            @abc.abstractmethod
            def one(self): pass
            def two(self): pass
        class Is(Has):
            def one(self): pass
        """,
        view="returns",
    )
    assert found == {"m:Base.two": {"NoneType"}, "m:Is.one": {"NoneType"}}


def test_named_arguments_do_not_go_where_positions_do(answers: Answers) -> None:
    found = answers(
        """
        def taken(first, second, *, third=None): ...
        def handed(*rest, **named):
            taken(1, **named)
            return named
        handed(second='s', third=b'')
        """,
        view="parameter",
    )
    assert found["m:taken.first"] == {"int"}
    assert found["m:taken.second"] == {"str", "bytes"}
    assert found["m:taken.third"] == {"str", "bytes", "NoneType"}


def test_an_annotation_that_nothing_satisfies_is_told(answers: Answers) -> None:
    found = answers(
        """
        from outside import thing
        class A: pass
        class B(A): pass
        def wrong(x: int, y: str = None) -> str:
            return 1
        def right(x: A, y: float) -> "A | None":
            return B()
        def unsure(x: A): ...
        def left_out(now: float = None, *, then: "int" = None):
            now = now or 2.0
            return now
        left_out()
        wrong('a', 'b')
        right(B(), 1)
        unsure(thing())
        """,
        view="disagrees",
    )
    assert found == {"m:wrong.x.int": {"str"}, "m:wrong.return.str": {"int"}}


def test_a_default_of_none_counts_as_said(answers: Answers) -> None:
    text = "def f(now: float = None):\n    now = now or 2.0\n    return now\nf(1)\n"
    optional = text.replace("float", "float | None")
    for view in ("parameter", "returns", "disagrees"):
        assert answers(text, view=view) == answers(optional, view=view)


def test_names_go_through_modules_stars_and_reexports(types: Answers) -> None:
    found = types(
        "x = helper()\ny = other.value\nz = pkg.lib.helper()",
        "from pkg import *\nimport other\nimport pkg.lib\n",
        **{
            "pkg/__init__": "from pkg.lib import helper\n",
            "pkg/lib": "def helper(): return 'a'\n",
            "other": "value = [1]\n",
        },
    )
    assert found == {"x": {"str"}, "y": {"list"}, "z": {"str"}}


def test_attributes_by_class_and_what_a_class_outside_the_tree_hides(answers: Answers) -> None:
    text = """
        import ast
        class V(ast.NodeVisitor):
            def __init__(self): self.seen = [1]
            def visit_Name(self, node): return node, self.seen, self.hidden
        """
    assert answers(text, view="attribute")["m:V.seen"] == {"list"}
    assert answers(text, view="parameter")["m:V.visit_Name.node"] == {"unknown"}


def test_what_escapes_into_unknown_code_is_called_there(answers: Answers) -> None:
    text = "from outside import run\ndef f(x): return x\ndef g(x): return x\nrun(f)\ng(1)\n"
    assert answers(text, view="parameter") == {"m:f.x": {"unknown"}, "m:g.x": {"int"}}


def test_an_edit_gives_the_types_that_came_and_went() -> None:
    one = "def f(x): return x\n"
    with Job(TYPES) as job:
        files = {"a.py": one, "b.py": "from a import f\ny = f(1)\n"}
        job.update([TYPES.extract(p, t.encode(), "") for p, t in files.items()])
        change = job.update([TYPES.extract("b.py", b"from a import f\ny = f('s')\n", "")])
        assert set(change.came["returns"]) == {("a:f", "str")}
        assert set(change.went["returns"]) == {("a:f", "int")}
        assert set(change.came["variable"]) == {("b", "y", "str")}
        same = job.update(
            [TYPES.extract("b.py", b"\n\nfrom a import f\ny = f('t')  # moved\n", "")]
        )
        assert not any(same.came.values())
        assert (same.work.facts_added, same.work.touched) == (0, 0)
        gone = job.update([], ["b.py"])
        assert set(gone.went["parameter"]) == {("a:f", "x", "str")}
        job.check_invariants()


@pytest.mark.parametrize(
    "data",
    [b"def f(:\n", b"\xff\xfe\x00x", b"x = '\x00'\n", b"(" * 5000, b"x = " + b"-" * 200_000 + b"1"],
)
def test_what_cannot_be_read_is_skipped_with_a_reason(data: bytes) -> None:
    fragment = TYPES.extract("m.py", data, "")
    assert fragment.error
    assert listing(fragment) == f"error: {fragment.error}"
    with Job(TYPES) as job:
        job.update([TYPES.extract("m.py", b"x = 1\n", "")])
        job.update([fragment])
        assert set(job.errors) == {"m.py"}
        assert ("m", "x", "int") in job.rows("variable")  # the file keeps what it stated
    assert TYPES.extract("m.py", b"", "").error is None


def test_the_intermediate_form_can_be_printed() -> None:
    text = listing(
        TYPES.extract("m.py", b"def f(a):\n    x = a.g(1, k='s')\n    return [x][0]\n", "")
    )
    for line in ("m:f$1 = call m:f.<locals>.a.g", "m:f$1 given 0: int()", "m:f$1 given k=str()",
                 "m:f.<locals>.x = m:f$1", "m:f$2[] = m:f.<locals>.x", "m:f$3 = m:f$2[0]",
                 "m:f$return = m:f$3", "m:f returns m:f$return"):  # fmt: skip
        assert line in text.splitlines()


def test_program_inputs_and_tables_are_those_declared() -> None:
    program = TYPES.load_program()
    assert program.warnings == ()
    assert set(program.names("input")) == set(TYPES.inputs)
    for name, columns in TYPES.inputs.items():
        assert tuple(a.name for a in program.relation(name).attributes) == columns
    for name, row in table_facts():
        assert len(row) == len(TYPES.inputs[name]), name
