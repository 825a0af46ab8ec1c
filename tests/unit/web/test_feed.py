"""The feed that pages and applications follow: what is told, when, and to whom it is gone.

Applications follow it over HTTP in `test_live`.
"""

from __future__ import annotations

import asyncio
import json

import pytest

import deltafix
import deltafix.sql
from deltafix.engine.follow import Problem, ProgramEdit
from deltafix.plan.transition import RuleChange
from deltafix.web.feed import Feed, Limits
from deltafix.web.server import Server
from deltafix.web.sources import RuleSource, served

PROGRAM = """
.decl edge(x: symbol, y: symbol)
.input edge
.decl path(x: symbol, y: symbol)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


@pytest.fixture
def db(warm_kernel):
    with deltafix.connect(PROGRAM) as db:
        with db.transaction() as tx:
            tx.insert("edge", [("a", "b"), ("b", "c")])
        yield db


def told(message):
    """The parts of an event: its name, its id and its data."""
    parts = dict(line.split(": ", 1) for line in message.strip().split("\n"))
    return parts["event"], parts.get("id"), json.loads(parts["data"])


def test_epochs_are_streamed_to_every_open_page(db):
    feed = Feed(RuleSource(db), Limits())

    async def listen():
        streams = [feed.follow(None, None), feed.follow(None, None)]
        for stream in streams:
            assert told(await anext(stream)) == ("ready", feed.event_id(1), {"epoch": 1})
            assert told(await anext(stream)) == ("files", None, {"edit": None, "problems": []})
        with db.transaction() as tx:
            tx.insert("edge", [("c", "d"), *((f"x{i}", "y") for i in range(150))])
        found = [await anext(stream) for stream in streams]
        for stream in streams:
            await stream.aclose()
        return found

    first, second = asyncio.run(listen())
    assert first == second
    name, place, data = told(first)
    assert (name, place, data["epoch"]) == ("epoch", feed.event_id(2), 2)
    assert len(data["changes"]["edge"]["added"]) == 100
    assert data["changes"]["edge"]["counts"] == [151, 0]
    assert data["work"]["epoch"] == 2
    assert feed._waiting == {}


def test_a_page_goes_on_behind_the_last_epoch_that_it_was_told(db):
    feed = Feed(RuleSource(db), Limits(epochs=3))

    async def heard(place, count):
        stream = feed.follow(None, place)
        found = [told(await anext(stream)) for _ in range(count)]
        await stream.aclose()
        return found

    def edit(name):
        with db.transaction() as tx:
            tx.insert("edge", [(name, "z")])
        return feed.event_id(db.epoch)

    first, *rest = (edit(f"e{n}") for n in range(4))
    events = asyncio.run(heard(first, 5))
    assert [event[:2] for event in events] == [
        ("ready", first), ("files", None), *(("epoch", place) for place in rest),
    ]  # fmt: skip
    assert events[2][2]["changes"]["edge"]["added"] == ['edge("e1", "z")']
    for place in (feed.event_id(1), "00000000.2"):  # too old; of another run of the server
        ((kind, _, data),) = asyncio.run(heard(place, 1))
        assert (kind, data["code"]) == ("gone", "DF691")
    # What is not kept of a page's changes is not kept of its figures.
    assert [one["epoch"] for one in feed.reports()] == [1, 2, 3, 4, 5]


def test_a_page_connects_while_an_epoch_is_being_made(db):
    async def heard(feed):
        stream = feed.follow(None, None)
        found = told(await anext(stream))
        await stream.aclose()
        return found

    feed = Feed(RuleSource(db), Limits())
    with db.transaction() as tx:  # other threads wait for it
        tx.insert("edge", [("x", "y")])
        assert asyncio.run(heard(feed)) == ("ready", feed.event_id(1), {"epoch": 1})
    with deltafix.sql.connect() as tables:
        tables.execute("CREATE TABLE t (a INTEGER); BEGIN; INSERT INTO t VALUES (1)")
        feed = Feed(served(tables), Limits())
        assert asyncio.run(heard(feed))[0] == "ready"
        tables.execute("COMMIT")
        assert feed.last.changes["t"]["added"] == ["t: a = 1"]
        tables.execute("ALTER TABLE t ADD COLUMN b INTEGER")
        assert feed.last.changes["t"]["removed"] == ["t: column1 = 1"]
        assert feed.last.changes["t"]["added"] == ["t: a = 1 AND b IS NULL"]


def test_an_epoch_with_more_rows_than_are_kept_is_gone_for_pages_too(db):
    feed = Feed(RuleSource(db), Limits(rows=20))
    with db.transaction() as tx:
        tx.insert("edge", [(f"x{i}", "y") for i in range(30)])

    async def heard():
        return told(await anext(feed.follow(None, feed.event_id(1))))

    assert asyncio.run(heard())[0] == "gone"
    assert feed.last.changes["edge"]["counts"] == [30, 0]


def test_pages_are_told_what_stands_of_the_files_and_only_when_it_is_another(db, tmp_path):
    feed = Feed(RuleSource(db), Limits(heartbeat=0.01))
    bad = Problem(tmp_path / "edge.facts", "edge.facts:1: no", "its rows stay as they were")
    rules = (RuleChange(1, "a(x) :- b(x)."),) * 150
    edit = ProgramEdit(1, (tmp_path / "p.dl",), rules, {"path": (2, 0)})

    async def heard():
        stream = feed.follow(None, None)
        first = [told(await anext(stream)) for _ in range(2)]
        feed.tell_files([bad], None)
        second = told(await anext(stream))
        feed.tell_files([bad], None)
        quiet = await anext(stream)
        feed.tell_files([], edit)
        third = told(await anext(stream))
        await stream.aclose()
        late = feed.follow(None, None)
        assert told(await anext(late))[0] == "ready"
        assert told(await anext(late)) == third
        await late.aclose()
        relation = feed.follow("edge", None)  # an application asks for rows
        await anext(relation)
        assert (await anext(relation)).startswith(":")
        await relation.aclose()
        return first, second, quiet, third

    first, second, quiet, third = asyncio.run(heard())
    assert [kind for kind, _, _ in first] == ["ready", "files"]
    (one,) = second[2]["problems"]
    assert (one["file"], one["text"]) == ("edge.facts", "edge.facts:1: no")
    assert one["kept"] == "its rows stay as they were"
    assert quiet == ": still here\n\n"
    assert third[2]["problems"] == []
    assert third[2]["edit"] == {
        "epoch": 1, "files": ["p.dl"], "rules": ["rule +a(x) :- b(x)."] * 100, "count": 150,
        "changed": {"path": [2, 0]},
    }  # fmt: skip


def test_a_relation_that_goes_and_comes_again_is_told_of(db):
    """Its rows were told as new ones to those who had them."""
    feed = Feed(RuleSource(db), Limits())

    async def listen():
        stream = feed.follow("path", None)
        await anext(stream)
        with db.transaction() as tx:
            tx.change_program(".decl edge(x: symbol, y: symbol)\n.input edge")
        gone = told(await anext(stream))
        with db.transaction() as tx:
            tx.delete("edge", [("b", "c")])
        with db.transaction() as tx:
            tx.change_program(PROGRAM)
        come = told(await anext(stream))
        with db.transaction() as tx:
            tx.change_program(".decl edge(x: symbol, y: symbol)\n.input edge")
        assert told(await anext(stream))[2]["removed"] == [{"x": "a", "y": "b"}]
        feed.tell_files([], ProgramEdit(1, (), (), {}))  # whoever waits looks again
        end = told(await anext(stream))
        await stream.aclose()
        return gone[2], come[2], end

    gone, come, end = asyncio.run(listen())
    assert [sorted(row["x"] + row["y"] for row in gone[side]) for side in ("added", "removed")] == [
        [], ["ab", "ac", "bc"],
    ]  # fmt: skip
    assert (come["added"], come["removed"]) == ([{"x": "a", "y": "b"}], [])
    assert (end[0], end[2]["code"]) == ("gone", "DF691")


def test_a_view_that_is_made_anew_ends_the_streams_of_the_one_before(warm_kernel):
    """They went on with the rows of the other one, beside those of before."""
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (a TEXT, n INTEGER); INSERT INTO t VALUES ('x', 1), ('y', 2)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE n = 1")
        feed = Feed(served(db), Limits())

        async def listen(change):
            stream = feed.follow("v", None)
            await anext(stream)
            db.execute(change)
            found = told(await anext(stream))
            await stream.aclose()
            return found

        assert asyncio.run(listen("INSERT INTO t VALUES ('z', 1)"))[0] == "delta"
        for change in (
            "DROP MATERIALIZED VIEW v; CREATE MATERIALIZED VIEW v AS SELECT n FROM t WHERE n = 2;"
            "INSERT INTO t VALUES ('q', 2)",
            "DROP MATERIALIZED VIEW v; INSERT INTO t VALUES ('r', 2)",
        ):
            kind, _, data = asyncio.run(listen(change))
            assert (kind, data["code"]) == ("gone", "DF691")


class _Broken:
    """A folder whose second look breaks off."""

    problems: tuple = ()
    edit = None

    def __init__(self) -> None:
        self.looks = 0

    def poll(self) -> None:
        self.looks += 1
        if self.looks == 2:
            raise ZeroDivisionError("a bug")


def test_a_server_whose_following_breaks_off_ends_with_the_error(warm_kernel: None) -> None:
    """It went on, and its page showed the rows of before as those of now."""
    with deltafix.connect(".decl e(x: number)  .input e") as db:
        folder = _Broken()
        with pytest.raises(ZeroDivisionError, match="a bug"):
            Server(db, port=0, writable=False, title="t").run(folder, 0.01)
        assert folder.looks == 2
