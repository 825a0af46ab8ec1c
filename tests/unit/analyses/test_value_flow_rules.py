"""The constraints by the naive evaluator, after random edits of files."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.judges import oracle

from deltafix.analyses.analysis import Analysis
from deltafix.analyses.job import Job
from deltafix.analyses.points_to import POINTS_TO
from deltafix.analyses.types import TYPES

PIECES = (
    "class A:\n    def m(self, x): return [x]\n",
    "class A:\n    def __init__(self, v): self.v = v\n    def m(self, x): return self.v\n",
    "from n import B\nclass A(B):\n    pass\n",
    "def f(y):\n    return A(y).m(y)\n",
    "def f(y: int, *r):\n    return [e for e in y]\n",
    "def f(y):\n    if isinstance(y, A):\n        return y.m(1)\n    return f\n",
    "z = f(1)\n",
    "z = f('s') + 2\nz.w = z\n",
    "z, q = f, A\nq(z).m(z)\n",
    "def reg(h):\n    return h\n@reg\ndef k(w): return w\nz = k(1)\n@reg\ndef l(w): return w\n",
    "def g(a: A, b: 'int' = None, *, c=0, **kw) -> A:\n    return g(a, **kw)\n"
    "z = g(f, b=z, c='s')\n",
    "class D(A):\n    def __iter__(self): return self\n    def __next__(self): return 's'\n"
    "z = list(D[int](1))\nq = next(D(2))\n",
    "class A(B):\n    def m1(self): return 1\n    def m2(self): return getattr(self, f'm{z}')\n"
    "z = A().m2()\nq = z(2), getattr(q, 'm')(1)\n",
    "from typing import Any\nV = Any\ndef u(y: V, x: 'object | int', w: list) -> V:\n"
    "    w.append(y)\n    return [e for e in y], x, next(w)\n"
    "z = u([A], u, [B(2)])\nq = u(z, A(1).m, list(z))\n",
    "def s(y: 'list[int]', x: B):\n    q: A = x\n    yield f'{x!r}{y}'\nz = s(z, A(1))\n",
)
OTHER = ("class B:\n    def m(self, x): return x + 1\n", "from m import f\nB = f\n", "")
KEPT = {
    "int",
    "str",
    "list",
    "object",
    "NoneType",
    "function",
    "type",
    "Iterable",
    "isinstance",
    "next",
    "getattr",
}


def small(analysis: Analysis) -> Analysis:
    """With the few builtins that the pieces mention: the evaluator is slow."""
    kept = [
        (name, row)
        for name, row in analysis.tables
        if {row[0].split(".")[0].removesuffix("()"), row[-1].split(".")[0].removesuffix("()")}
        <= KEPT
        or name in {"position", "special"}
    ]
    return replace(analysis, tables=(*kept, ("holds", ("?", "?"))))


@pytest.mark.parametrize("whole", [TYPES, POINTS_TO], ids=lambda one: one.name)
def test_every_edit_gives_what_the_naive_evaluator_gives(whole: Analysis) -> None:
    analysis = small(whole)
    rng = random.Random(4)
    program = analysis.load_program()
    files: dict[str, bytes] = {}
    with Job(analysis) as job:
        for _ in range(6):
            text = "".join(rng.sample(PIECES, rng.randint(2, 4)))
            files |= {"m.py": text.encode(), "n.py": rng.choice(OTHER).encode()}
            job.update([analysis.extract(path, data, "") for path, data in files.items()])
            facts: dict[str, set[tuple[str, ...]]] = {}
            for one in job.fragments.values():
                for name, row in one.facts:
                    facts.setdefault(name, set()).add(row)
            for name, row in analysis.tables:
                facts.setdefault(name, set()).add(row)
            judged = oracle.evaluate(program, facts)
            for name in ("points", "content", "calls", "below", "element", *analysis.views):
                assert set(job.rows(name)) == judged[name], name
        job.check_invariants()
