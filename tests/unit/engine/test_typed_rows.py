"""Rows as objects: read, looked up, changed and watched; a class that does not fit is refused."""

from __future__ import annotations

import asyncio
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple, NewType

import pytest

import deltafix
from deltafix import Branch
from deltafix.errors import FactError, TypeMismatchError

PROGRAM = """
.decl edge(x: symbol, y: symbol, cost: float)
.decl path(x: symbol, y: symbol)
path(x, y) :- edge(x, y, _).
path(x, z) :- path(x, y), edge(y, z, _).
.type List = [head: number, tail: List]
.type Tree = Leaf {} | Node {of: number}
.decl held(list: List, tree: Tree, n: unsigned)
"""

Name = NewType("Name", str)
Items = tuple[int, "Items"] | None


class Path(NamedTuple):
    x: str
    y: Name


@dataclass
class Edge:
    x: str
    y: object
    _: KW_ONLY
    cost: float | None


class Held(NamedTuple):
    list: Items
    tree: Branch
    n: int


EDGES = [Edge("a", "b", cost=1.0), Edge("b", "c", cost=2.5)]


@pytest.fixture
def db():
    with deltafix.connect(PROGRAM) as db:
        with db.transaction() as tx:
            assert tx.insert("edge", EDGES) == 2
        yield db


def test_rows_are_read_as_objects_of_the_class_in_the_order_of_the_tuples(db):
    edges, paths = db.relation("edge", Edge), db.relation("path", Path)
    assert edges.rows() == list(edges) == EDGES
    assert sorted(edges.page(1, 5) + edges.page(0, 1), key=lambda e: e.x) == EDGES
    assert paths.rows() == db.rows("path") == [("a", "b"), ("a", "c"), ("b", "c")]
    assert {type(row) for row in paths} == {Path}
    assert EDGES[0] in edges
    assert Edge("a", "b", cost=2.0) not in edges
    assert ("a", "b", 1.0) in edges
    assert edges.to_arrow().num_rows == 2
    assert db.relation("path").rows() == db.rows("path")


def test_rows_are_looked_up_by_the_names_of_columns(db):
    paths = db.relation("path", Path)
    assert paths.select(x="a") == [Path("a", "b"), Path("a", "c")]
    assert paths.select(y="c", x="b") == [Path("b", "c")]
    assert paths.select() == paths.rows()
    with pytest.raises(FactError, match=r"no column 'z' in path\(x: symbol, y: symbol\)"):
        paths.select(z="a")
    with pytest.raises(TypeMismatchError, match="column 'x' of row 0 is None"):
        paths.select(x=None)


def test_deltas_and_watches_have_objects_and_what_objects_do_to_them_is_as_with_tuples(db):
    edges, paths = db.relation("edge", Edge), db.relation("path", Path)
    heard = []
    db.watch(edges, heard.append)
    watch = db.watch(paths)
    with db.transaction() as tx:
        assert tx.delete(edges, [EDGES[1]]) == 1
        assert tx.insert(edges, [Edge("b", "d", cost=3.0)]) == 1
    change = edges.delta(tx.delta)
    assert change.added == [Edge("b", "d", cost=3.0)]
    assert change.removed == change.inverse().added == [EDGES[1]]
    assert list(change.signed()) == [(-1, EDGES[1]), (1, Edge("b", "d", cost=3.0))]
    assert change == heard[0] == tx.delta["edge"]
    assert not change.compose(change.inverse())
    assert repr(change) == repr(tx.delta["edge"])
    assert change.to_arrow() == tx.delta["edge"].to_arrow()
    assert change.why(Edge("b", "d", cost=3.0)).changes == ((1, "edge", ("b", "d", 3.0)),)
    assert paths.delta(tx.delta).why(Path("b", "d")).changes == ((1, "edge", ("b", "d", 3.0)),)
    watch.close()

    async def told():
        return [delta async for delta in watch]

    (seen,) = asyncio.run(told())
    assert seen.added == [Path("a", "d"), Path("b", "d")]
    assert {type(row) for row in seen.removed} == {Path}


def test_constructed_values_and_wider_types_fit(db):
    with db.transaction() as tx:
        tx.insert("held", [((1, (2, None)), Branch("Leaf"), 7)])
    assert db.relation("held", Held).rows() == [Held((1, (2, None)), Branch("Leaf"), 7)]

    class Loose(NamedTuple):
        list: tuple[Any, ...] | None
        tree: Any
        n: int | str

    assert db.relation("held", Loose).rows()[0].n == 7


def _class(**types):
    return NamedTuple("Wrong", list(types.items()))


@dataclass
class Unset:
    x: str
    y: str = field(init=False)


@dataclass
class Unread:
    x: str
    y: Nowhere  # noqa: F821


@pytest.mark.parametrize(
    ("relation", "cls", "wanted"),
    [
        ("path", tuple, "tuple is no class for rows of path(x: symbol, y: symbol): a row"),
        ("path", "Path", "'Path' is no class"),
        ("path", EDGES[0], "a row's class is a NamedTuple or a dataclass"),
        ("path", _class(y=str, x=str), "its fields are (y, x), not the columns in their order"),
        ("path", _class(x=str), "its fields are (x), not"),
        ("path", _class(x=str, y=int), "field 'y' is int, but column 'y' holds str"),
        ("edge", _class(x=str, y=str, cost=int), "is int, but column 'cost' holds float"),
        ("held", _class(list=tuple, tree=Branch, n=int), "column 'list' holds tuple | None"),
        ("held", _class(list=tuple[str, Any] | None, tree=Branch, n=int), "column 'list'"),
        ("held", _class(list=tuple[int] | None, tree=Branch, n=int), "column 'list'"),
        ("held", _class(list=Items, tree=str, n=int), "column 'tree' holds Branch"),
        ("path", Unset, "field 'y' is not set by its constructor"),
        ("path", Unread, "the types of its fields cannot be read: name 'Nowhere' is not defined"),
    ],
)  # fmt: skip
def test_a_class_that_does_not_fit_is_refused_by_name(db, relation, cls, wanted):
    with pytest.raises(TypeMismatchError) as caught:
        db.relation(relation, cls)
    assert wanted in str(caught.value)


def test_an_object_of_another_dataclass_is_no_row(db):
    with pytest.raises(FactError, match=r"a dataclass with the fields \(x, y\)"), \
            db.transaction() as tx:  # fmt: skip
        tx.insert("path", [EDGES[0]])
    assert len(db.relation("path")) == 3


@pytest.mark.parametrize("wrong", [5, "ab", None, EDGES[0], {"x": 1, "y": 2}])
def test_what_is_no_row_is_not_looked_up(db, wrong):
    for ask in (db.contains, db.select, lambda name, row: row in db.relation(name)):
        with pytest.raises(FactError, match=r"path: the row is .* but rows are tuples like \("):
            ask("path", wrong)


def test_a_row_is_looked_up_as_an_object_of_its_class(db):
    there = db.rows("edge")[0]
    given = db.relation("edge", Edge).rows()[0]
    assert db.contains("edge", given)
    assert db.select("edge", given) == [there]
