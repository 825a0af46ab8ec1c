"""What types say to those who use us: mypy and pyright are asked, once each, of all snippets."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYRIGHT = ROOT / "build/pyright/node_modules/pyright/index.js"
REDUCERS = """
from typing import Any, assert_type

from deltafix.reactive import (
    Min, Partial, Sum, WellFormed, contramap, enriched, group_of, product, reducer, scaled, where
)

Whole = WellFormed[Any, Any, Any]
Part = Partial[Any, Any, Any]

one: Whole = product(Sum(), Min())
two: Whole = where(group_of(enriched(Sum(), str), len), bool)
three: Part = product(Sum(), Min(partial=True))
four: Part = scaled(contramap(Min(partial=True), len), len)
five: Whole = reducer(0, lambda a, v: a + v, lambda a, v: a - v)
assert_type(reducer(0, max, lambda a, v: None, partial=True), Partial[int, int, Any])

not_whole: Whole = product(Sum(), Min(partial=True))  # wrong
not_whole_either: Whole = enriched(Min(partial=True), str)  # wrong
"""
ROWS = """
from dataclasses import dataclass
from typing import NamedTuple, assert_type

from deltafix import Delta, RelationDelta, connect
from deltafix.facts.schema import Row

class Edge(NamedTuple):
    x: str
    y: str

@dataclass
class Path:
    x: str
    y: str

db = connect(".decl edge(x: symbol, y: symbol)")
edges, paths, plain = db.relation("edge", Edge), db.relation("path", Path), db.relation("edge")
assert_type(edges.rows(), list[Edge])
assert_type(paths.select(x="a"), list[Path])
assert_type(plain.page(0, 1), list[Row])
for edge in edges:
    assert_type(edge, Edge)
with db.transaction() as tx:
    tx.insert(edges, [Edge("a", "b")])
    tx.insert("edge", [("a", "b")])
    tx.delete(edges, [Path("a", "b")])  # wrong
delta: RelationDelta = tx.delta["edge"]
assert_type(delta.added, list[Row])
assert_type(edges.delta(tx.delta).added, list[Edge])
assert_type(paths.delta(tx.delta).inverse().removed, list[Path])

def told(delta: RelationDelta[Edge]) -> None: ...
def told_all(delta: Delta) -> None: ...

db.watch(edges, told)
db.watch(callback=told_all)
db.watch(paths, told)  # wrong

async def follow() -> None:
    async for delta in db.watch(paths):
        assert_type(delta, RelationDelta[Path])

length: int = edges.rows()[0].x  # wrong
"""
SETS = """
from typing import assert_type

import deltafix
from deltafix.reactive import fixpoint
from deltafix.rules.comprehension import Rows
from deltafix.rules.operators import const, lfp

calls = deltafix.Collection.input(value=tuple)
with deltafix.Program() as program:
    assert_type(const(calls, "edge", source=str, target=str), Rows)
    assert_type(const(calls.distinct(), source=str), Rows)
    assert_type(const([("a", 1)]), Rows)
    lfp(lambda _: const(calls, source=str, target=str), name="seen")
    const([("a", 1)], a=str)  # wrong
    const(calls, "edge", source=3)  # wrong
assert_type(fixpoint(program)["seen"], deltafix.Collection)
"""


@pytest.fixture(scope="module", params=["mypy", "pyright"])
def found(request, tmp_path_factory):
    """What one of them has to say: (snippet, line) -> message."""
    folder = tmp_path_factory.mktemp("typed")
    snippets = {"reducers": REDUCERS, "rows": ROWS, "sets": SETS}
    for name, text in snippets.items():
        (folder / f"{name}.py").write_text(text)
    return (of_mypy if request.param == "mypy" else of_pyright)(folder)


def of_mypy(folder):
    pytest.importorskip("mypy", reason="mypy is installed for `make lint`")
    done = asked(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", folder], ROOT
    )
    errors = re.findall(r"(\w+)\.py:(\d+): error: (.*)", done.stdout)
    assert errors, done.stdout + done.stderr
    return {(name, int(line)): message for name, line, message in errors}


def of_pyright(folder):
    if not PYRIGHT.exists() or shutil.which("node") is None:
        pytest.skip("no pyright: make build/pyright/.ready")
    (folder / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(ROOT / "src")]}))
    done = asked(["node", PYRIGHT, "--outputjson", "--pythonpath", sys.executable], folder)
    errors = json.loads(done.stdout)["generalDiagnostics"]
    assert errors, done.stdout + done.stderr
    return {
        (Path(one["file"]).stem, one["range"]["start"]["line"] + 1): one["message"]
        for one in errors
    }


def asked(command, folder):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def wrong(name, text):
    return {(name, n) for n, line in enumerate(text.splitlines(), 1) if "# wrong" in line}


def test_composing_well_formed_reducers_is_well_formed_and_partial_ones_are_not(found):
    of = {place: message for place, message in found.items() if place[0] == "reducers"}
    assert of.keys() == wrong("reducers", REDUCERS), of
    assert all('"Partial[Any, Any, Any]"' in message for message in of.values()), of


def test_rows_deltas_and_watches_are_of_the_class_that_was_named(found):
    of = {place: message for place, message in found.items() if place[0] == "rows"}
    assert of.keys() == wrong("rows", ROWS), of


def test_const_takes_columns_for_a_collection_alone(found):
    of = {place: message for place, message in found.items() if place[0] == "sets"}
    assert of.keys() == wrong("sets", SETS), of
