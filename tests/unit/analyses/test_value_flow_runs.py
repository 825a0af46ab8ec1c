"""Types and points-to against what happens: deltafix's parser, pluggy, random programs.

Known to be missed: that a TypedDict runs as a dict.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pluggy
import pytest
from bench.analyses.traced import Observed, fits, observe

import deltafix
from deltafix.analyses.analysis import Analysis
from deltafix.analyses.facts import Fragment
from deltafix.analyses.job import Job
from deltafix.analyses.points_to import POINTS_TO
from deltafix.analyses.types import TYPES
from deltafix.datalog.program import Program
from deltafix.errors import DeltafixError

SOURCE = Path(deltafix.__file__).parent
FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture(scope="module")
def live() -> Iterator[tuple[Job, Job]]:
    with Job(TYPES) as types, Job(POINTS_TO) as objects:
        yield types, objects


@pytest.fixture
def types(live: tuple[Job, Job]) -> Iterator[Job]:
    yield live[0]
    live[0].update([], list(live[0].fragments))


@pytest.fixture
def objects(live: tuple[Job, Job]) -> Iterator[Job]:
    yield live[1]
    live[1].update([], list(live[1].fragments))


def fragments(analysis: Analysis, folder: Path, paths: list[Path], prefix: str) -> list[Fragment]:
    return [
        analysis.extract(path.relative_to(folder).as_posix(), path.read_bytes(), prefix)
        for path in paths
    ]


def compared(job: Job, seen: Observed) -> tuple[int, int, list[tuple[str, str, type]]]:
    """(observed types within the inferred, not decided, outside), over functions of the job."""
    inferred: dict[tuple[str, str], set[str]] = {}
    for function, name, kind in job.rows("parameter"):
        inferred.setdefault((str(function), str(name)), set()).add(str(kind))
    for function, kind in job.rows("returns"):
        inferred.setdefault((str(function), "return"), set()).add(str(kind))
    read = {str(row[0]) for row in job.rows("function")}
    within = unknown = 0
    outside = []
    for (function, name), kinds in sorted(seen.values.items()):
        for kind in kinds if function in read else ():
            found = inferred.get((function, name), set())
            if "unknown" in found:
                unknown += 1
            elif fits(kind, found):
                within += 1
            else:
                outside.append((function, name, kind))
    return within, unknown, outside


def calls_of(job: Job, seen: Observed) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """(observed calls between functions of the job, those of them that it does not have)."""
    read = {str(row[0]) for row in job.rows("function")}
    really = {call for call in seen.calls if read.issuperset(call)}
    return really, really - {(str(a), str(b)) for a, b in job.rows("calls")}


def test_deltafix_parser_takes_and_gives_what_is_inferred(types: Job, objects: Job) -> None:
    folders = ("rules", "datalog")
    paths = [path for one in folders for path in sorted((SOURCE / one).rglob("*.py"))]
    paths += [SOURCE / "errors.py", SOURCE / "diagnostics.py"]

    def run() -> None:
        for path in sorted(FIXTURES.rglob("*.dl"))[:40]:
            try:
                assert str(Program.from_file(str(path)))
            except DeltafixError as error:
                assert str(error)

    seen = observe(run, SOURCE)
    told = fragments(TYPES, SOURCE, paths, "deltafix")
    types.update(told)
    within, unknown, outside = compared(types, seen)
    assert outside == []
    assert within > 600
    assert unknown < within / 10
    objects.update(told)
    really, missed = calls_of(objects, seen)
    assert len(really) > 400
    assert missed == set()
    one = told[0].path
    text = (SOURCE / one).read_bytes()
    for job, analysis in ((types, TYPES), (objects, POINTS_TO)):
        first = job.last_work.touched
        edited = text + b"\n\ndef _new(x: int) -> str:\n    return str(x)\n\n\n_new(3)\n"
        change = job.update([analysis.extract(one, edited, "deltafix")])
        assert any(change.came.values())
        assert change.work.touched < first / 500
        back = job.update([analysis.extract(one, text, "deltafix")])
        assert back.work.touched < first / 500
        assert {view: rows for view, rows in back.went.items() if rows} == {
            view: rows for view, rows in change.came.items() if rows
        }


def test_pluggy_takes_and_gives_what_is_inferred(types: Job, objects: Job) -> None:
    folder = Path(pluggy.__file__).parent

    class Spec:
        @pluggy.HookspecMarker("shop")
        def price(self, item: str) -> float: ...

    class Plugin:
        @pluggy.HookimplMarker("shop")
        def price(self, item: str) -> float:
            return len(item) * 1.5

    def run() -> None:
        manager = pluggy.PluginManager("shop")
        manager.add_hookspecs(Spec)
        plugin = Plugin()
        assert manager.register(plugin)
        assert manager.hook.price(item="pen") == [4.5]
        assert manager.get_plugins() == {plugin}
        manager.check_pending()
        manager.unregister(plugin)

    seen = observe(run, folder)
    told = fragments(TYPES, folder, sorted(folder.glob("*.py")), "pluggy")
    types.update(told)
    within, unknown, outside = compared(types, seen)
    # What is declared a TypedDict is a dict when it runs.
    assert {kind for _, _, kind in outside} <= {dict}
    assert len(outside) < within / 10
    assert within + unknown > 40
    assert within > 20
    objects.update(told)
    really, missed = calls_of(objects, seen)
    assert len(really) > 10
    assert len(missed) <= len(really) * 0.25, missed


def random_program(rng: random.Random) -> str:
    """Classes, functions and calls at random; what fails at run time is passed over."""
    count = rng.randint(2, 4)
    names = ["a", "b", "c"]

    def expression(depth: int = 0) -> str:
        forms = ["(1)", "'s'", "(2.5)", "None", "True", *names]
        if depth < 3:
            one, two = expression(depth + 1), expression(depth + 1)
            forms += [
                f"[{one}, {two}]", f"({one}, {two})", f"{{'k': {one}}}", f"{one} + {two}",
                f"C{rng.randrange(count)}({one})", f"f{rng.randrange(count)}({one}, {two})",
                f"{one}.x", f"{one}.m({two})", f"{one}[0]", f"{one}['k']", f"(lambda q: q)({one})",
                f"[y for y in {one}]", f"({one} if {two} else {one})", f"str({one})",
                f"({one} or {two})", f"list({one})", f"{one}.p", f"f{rng.randrange(count)}",
                f"{one}({two}, {one})", f"sorted({one})", f"{one}.m",
                f"C{rng.randrange(count)}.s({one})", f"C{rng.randrange(count)}({one}).p",
                f"C{rng.randrange(count)}.k({one})", f"f{rng.randrange(count)}(b={one}, a={two})",
                f"f{rng.randrange(count)}(*{one})", f"list({one}.items())", f"len({one})",
                f"(not {one})", f"({one} and {two})", f"any([{one}])", f"({one} in {two})",
                f"[y for y in {one} if y]", f"({one} != {two})", f"({one} < {two} < {one})",
            ]  # fmt: skip
        return rng.choice(forms)

    def statement() -> str:
        name = rng.choice(names)
        forms = [
            f"{name} = {expression()}", f"{name}.x = {expression()}", f"a, b = {expression()}",
            f"{name}.append({expression()})", f"{name} += {expression()}",
            f"for {name} in {expression()}: pass", f"{name}['k'] = {expression()}",
            f"c = {expression()} if isinstance({name}, C0) else {name}",
            f"if {expression()}: {name} = {expression()}", f"assert {expression()}, {name}",
        ]  # fmt: skip
        return rng.choice(forms)

    def body(indent: str) -> list[str]:
        lines = []
        for _ in range(rng.randint(1, 4)):
            lines += [
                f"{indent}try: ",
                f"{indent}    {statement()}",
                f"{indent}except Exception: pass",
            ]
        return [*lines, f"{indent}return {rng.choice(names)}"]

    lines = []
    for number in range(count):
        base = f"(C{rng.randrange(number)})" if number and rng.random() < 0.5 else ""
        lines += [f"class C{number}{base}:", "    def __init__(self, x=None): self.x = x"]
        lines += ["    def m(self, a, b=None, c=None):", *body(" " * 8)]
        for special in rng.sample(["__bool__(self)", "__len__(self)", "__lt__(self, a)"], 2):
            lines += [f"    def {special}: return {rng.choice(('1', 'self.x', 'True'))}"]
        lines += ["    @property", "    def p(self): return self.x"]
        if number % 2:
            lines[-2:] = ["    def _p(self): return self.x", "    p = property(_p)"]
        lines += ["    @staticmethod", "    def s(a, b=0.5, c=None):", *body(" " * 8)]
        lines += ["    @classmethod", "    def k(cls, x): return cls(x)"]
    for number in range(count):
        lines += [f"def f{number}(a, b=None, c=None):", *body("    ")]
    lines += ["a, b, c = 1, 's', None"]
    for _ in range(8):
        lines += ["try:", f"    {statement()}", "except Exception: pass"]
    return "\n".join(lines) + "\n"


def test_random_programs_run_within_what_is_inferred(
    types: Job, objects: Job, tmp_path: Path
) -> None:
    """Each program replaces the last one: an edit of everything."""
    rng = random.Random(9)
    within = calls = 0
    limit = sys.getrecursionlimit()
    for number in range(40):
        text = random_program(rng)
        path = tmp_path / f"program{number}.py"
        path.write_text(text)
        made = importlib.util.spec_from_file_location("program", path)
        assert made is not None
        assert made.loader is not None
        module = importlib.util.module_from_spec(made)
        loader = made.loader
        sys.setrecursionlimit(150 + _depth())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about programs like `1()`
                seen = observe(
                    lambda loader=loader, module=module: loader.exec_module(module), path
                )
        finally:
            sys.setrecursionlimit(limit)
        told = TYPES.extract("program.py", text.encode(), "")
        types.update([told])
        found, _, outside = compared(types, seen)
        assert outside == [], text
        within += found
        objects.update([told])
        really, missed = calls_of(objects, seen)
        assert missed == set(), text
        calls += len(really)
    assert within > 120
    assert calls > 20


def _depth() -> int:
    depth, frame = 0, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    return depth
