"""Watchers: told once, in order, after the commit."""

from __future__ import annotations

import asyncio
import threading
from typing import NamedTuple

import pytest

import deltafix
from deltafix.errors import SubscriberError, TransactionError, UnknownRelationError

PROGRAM = """
.decl edge(x: symbol, y: symbol)
.decl path(x: symbol, y: symbol)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


class Path(NamedTuple):
    """A row of `path`."""

    x: str
    y: str


@pytest.fixture
def db():
    with deltafix.connect(PROGRAM) as db:
        yield db


def add(db, *edges):
    with db.transaction() as tx:
        tx.insert("edge", list(edges))


def test_a_callback_hears_each_epoch_once_with_the_net_delta(db):
    heard = []
    with db.watch("path", lambda delta: heard.append((db.epoch, delta.added, delta.removed))):
        add(db, ("a", "b"), ("b", "c"))
        add(db, ("a", "b"))  # changes nothing
        with db.transaction() as tx:
            tx.delete("edge", [("a", "b")])
            tx.insert("edge", [("a", "b"), ("c", "d")])
    add(db, ("x", "y"))
    assert heard == [
        (1, [("a", "b"), ("a", "c"), ("b", "c")], []),
        (3, [("a", "d"), ("b", "d"), ("c", "d")], []),
    ]


def test_without_a_relation_the_whole_delta_is_told(db):
    heard = []
    db.watch(callback=heard.append)
    add(db, ("a", "b"))
    assert [list(delta) for delta in heard] == [["edge", "path"]]
    assert heard[0].why('path("a", "b")').changes == ((1, "edge", ("a", "b")),)


def test_a_rolled_back_transaction_is_not_told(db):
    heard = []
    db.watch("path", heard.append)
    db_tx = db.transaction()
    db_tx.insert("edge", [("a", "b")])
    db_tx.rollback()
    assert heard == []


def test_a_callback_may_commit_and_order_is_kept(db):
    heard = []

    def close_cycle(delta):
        heard.append(("first", delta.epoch))
        if db.epoch < 2:
            add(db, ("b", "a"))

    db.watch(callback=close_cycle)
    db.watch(callback=lambda delta: heard.append(("second", delta.epoch)))
    add(db, ("a", "b"))
    assert heard == [("first", 1), ("second", 1), ("first", 2), ("second", 2)]


def test_what_a_callback_raises_comes_after_the_others_were_told(db):
    heard = []
    db.watch("path", lambda delta: 1 / 0)
    db.watch("path", heard.append)
    with pytest.raises(SubscriberError, match="of path raised ZeroDivisionError") as caught:
        add(db, ("a", "b"))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert len(heard) == 1
    assert db.contains("path", ("a", "b"))


def test_an_asynchronous_loop_gets_every_delta_and_ends_with_the_database(db):
    async def collect():
        watch = db.watch("path")
        worker = threading.Thread(target=lambda: [add(db, (f"n{i}", "m")) for i in range(20)])
        worker.start()
        found = []
        async for delta in watch:
            found += delta.added
            if len(found) == 20:
                db.close()
        worker.join()
        return found

    assert asyncio.run(collect()) == [(f"n{i}", "m") for i in range(20)]


def test_threads_are_heard_in_the_order_of_their_epochs(db):
    heard = []
    db.watch(callback=lambda delta: heard.append(delta.epoch))
    workers = [
        threading.Thread(target=lambda n=n: [add(db, (f"{n}", f"{i}")) for i in range(20)])
        for n in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert heard == list(range(1, 61))


def test_out_of_place(db):
    with pytest.raises(UnknownRelationError, match="did you mean 'path'"):
        db.watch("pth")

    async def iterate():
        async for _ in db.watch("path", print):
            pass

    with pytest.raises(TransactionError, match="has a callback"):
        asyncio.run(iterate())
    db.close()
    with pytest.raises(TransactionError, match="closed"):
        db.watch("path")


def test_a_relation_that_goes_with_its_rules_takes_its_rows_along():
    """When it came again its rows were told anew, to those who had them."""
    shown = f".output path\n{PROGRAM}"
    hidden = ".decl edge(x: symbol, y: symbol)\n.input edge"
    with deltafix.connect(f".input edge\n{shown}") as db:
        add(db, ("a", "b"))
        wholes, parts, objects = [], [], []
        db.watch(callback=wholes.append)
        db.watch("path", parts.append)
        db.watch(db.relation("path", Path), objects.append)
        with db.transaction() as tx:
            tx.insert("edge", [("b", "c")])
            tx.change_program(hidden)
            early = []
            tx.prepared = early.append
        assert tx.delta["path"].removed == [("a", "b")]
        assert tx.delta.show() == early[0].show() == '+edge("b", "c")\n-path("a", "b")'
        (rule,) = tx.delta.why("path", ("a", "b")).rules
        assert rule == (-1, "path(x, y) :- edge(x, y).")
        with pytest.raises(UnknownRelationError):
            db.rows("path")
        with db.transaction() as tx:
            tx.change_program(f".input edge\n{shown}")
        assert [part.removed for part in parts] == [[("a", "b")], []]
        assert [part.added for part in parts] == [[], [("a", "b"), ("a", "c"), ("b", "c")]]
        assert objects[0].removed == [Path("a", "b")]
        assert [list(delta) for delta in wholes] == [["edge", "path"], ["path"]]
        db.check_invariants()
