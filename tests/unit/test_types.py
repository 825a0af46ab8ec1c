"""What types say of our interfaces to those who use them: mypy is asked, once, of all snippets."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What mypy has to say: (snippet, line) -> message."""
    pytest.importorskip("mypy", reason="mypy is installed for `make lint`")
    folder = tmp_path_factory.mktemp("typed")
    snippets = {"reducers": REDUCERS, "rows": ROWS, "sets": SETS}
    for name, text in snippets.items():
        (folder / f"{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = re.findall(r"(\w+)\.py:(\d+): error: (.*)", done.stdout)
    assert errors, done.stdout + done.stderr
    return {(name, int(line)): message for name, line, message in errors}


def wrong(name, text):
    return {(name, n) for n, line in enumerate(text.splitlines(), 1) if "# wrong" in line}


def test_composing_well_formed_reducers_is_well_formed_to_mypy_and_partial_ones_are_not(found):
    of = {place: message for place, message in found.items() if place[0] == "reducers"}
    assert of.keys() == wrong("reducers", REDUCERS), of
    assert all('"Partial[Any, Any, Any]"' in message for message in of.values())


def test_rows_deltas_and_watches_are_of_the_class_that_was_named_to_mypy(found):
    of = {place: message for place, message in found.items() if place[0] == "rows"}
    assert of.keys() == wrong("rows", ROWS), of


def test_const_takes_columns_for_a_collection_alone_to_mypy(found):
    of = {place: message for place, message in found.items() if place[0] == "sets"}
    assert of.keys() == wrong("sets", SETS), of
