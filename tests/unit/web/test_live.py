"""The live door: real HTTP against the real server, and its JavaScript client under node.

The oracle is the database: after random edits, over lost connections and places that are gone, what
a client holds is what a SELECT shows.
"""

from __future__ import annotations

import gzip
import http.client
import json
import random
import re
import shutil
import socket
import subprocess
import threading
from collections import Counter
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.servers.served import Door, events

import deltafix
import deltafix.sql
from deltafix.web import sources
from deltafix.web.feed import Limits
from deltafix.web.json_values import write_sql
from deltafix.web.server import Server

NODE = shutil.which("node")
CLIENT = Path(sources.__file__).parent / "static" / "deltafix.js"

SCRIPT = """
CREATE TABLE city (name TEXT PRIMARY KEY, founded DATE, area DECIMAL(12, 2));
CREATE TABLE road (a TEXT NOT NULL REFERENCES city, b TEXT NOT NULL REFERENCES city, km BIGINT,
                   CHECK (km >= 0));
CREATE MATERIALIZED VIEW reach AS
    WITH RECURSIVE r (a, b) AS (
        SELECT a, b FROM road UNION SELECT r.a, road.b FROM r JOIN road ON r.b = road.a)
    SELECT a, b FROM r;
CREATE MATERIALIZED VIEW ends AS SELECT b, km FROM road;
CREATE MATERIALIZED VIEW areas AS
    SELECT founded, SUM(area) AS area, COUNT(*) AS n FROM city GROUP BY founded;
"""
VIEWS = ("city", "road", "reach", "ends", "areas")


@contextmanager
def running(db, *, writable=True, limits=None, folder=None, port=0):
    server = Server(db, port=port, writable=writable, title="t", limits=limits or Limits())
    thread = threading.Thread(target=server.run, args=(folder, 0.02))
    thread.start()
    try:
        yield server, Door(server)
    finally:
        server.stop()
        thread.join()


@pytest.fixture
def db(warm_kernel):
    with deltafix.sql.connect() as db:
        db.execute(SCRIPT)
        db.insert(
            "city", [(name, date(1200 + n, 1, 1), Decimal(n)) for n, name in enumerate("abc")]
        )
        yield db


@pytest.fixture
def door(db):
    with running(db) as (_, door):
        yield door


def selected(db, view):
    """What a SELECT shows, by column, each row as often as it is there."""
    cursor = db.execute(f"SELECT * FROM {view}")
    names = [column[0] for column in cursor.description]
    return bag(dict(zip(names, map(write_sql, row), strict=True)) for row in cursor.fetchall())


def bag(rows):
    return Counter(json.dumps(row) for row in rows)


def road(verb, a, b, km=None):
    return {verb: "road", "row": {"a": a, "b": b, "km": km}}


def test_rows_are_read_by_pages_as_of_one_epoch(db, door):
    door.edit(*(road("insert", "a", "b", n) for n in range(5)))
    status, first = door("GET", "live/rows/road?limit=2")
    assert (status, first["size"], len(first["rows"])) == (200, 5, 2)
    door.edit({"delete": "road", "row": {"km": 3}}, road("insert", "b", "c", 9))
    rest = []
    after = first["next"]
    while after is not None:
        page = door("GET", f"live/rows/road?limit=2&after={after}")[1]
        assert page["epoch"] == first["epoch"]
        rest, after = [*rest, *page["rows"]], page["next"]
    assert [row["km"] for row in first["rows"] + rest] == [0, 1, 2, 3, 4]
    found, _ = door.rows("road", 2)
    assert bag(found) == selected(db, "road")
    status, gone = door("GET", "live/rows/road?after=ffffffff.3-2")
    assert (status, gone["code"]) == (410, "DF691")
    for wrong in ("after=x", "after=1.2-", "after=1.x-2", "limit=-1", "limit=0", "limit=x"):
        name, value = wrong.split("=")
        takes = "takes `next` of the page" if name == "after" else "a page has 1 row to 10,000"
        status, said = door("GET", f"live/rows/road?{wrong}")
        assert status == 400
        assert said["error"].startswith(f"{name} is {value!r}, and {takes}"), wrong


def test_a_packed_request_is_told_to_be_unpacked(door):
    packed = gzip.compress(json.dumps(road("insert", "a", "b")).encode())
    status, said = door("POST", "live/edits", packed, {"Content-Encoding": "gzip"})
    assert (status, said["error"]) == (415, "a request is plain text; send it unpacked")
    assert door.rows("road")[0] == []


def test_a_stream_tells_changes_and_goes_on_where_it_was(door):
    with door.follow("reach") as stream:
        assert next(stream)[0] == "ready"
        door.edit(road("insert", "a", "b"))
        kind, place, told = next(stream)
        assert (kind, told["added"], told["removed"]) == ("delta", [{"a": "a", "b": "b"}], [])
        assert place.endswith(f".{told['epoch']}")
    door.edit(road("insert", "b", "c"))
    door.edit({"insert": "city", "row": {"name": "d"}})  # nothing that reach has
    door.edit(road("delete", "a", "b"))
    with door.follow("reach", place) as stream:
        assert next(stream)[:2] == ("ready", place)
        assert bag(next(stream)[2]["added"]) == bag([{"a": "a", "b": "c"}, {"a": "b", "b": "c"}])
        assert bag(next(stream)[2]["removed"]) == bag([{"a": "a", "b": "b"}, {"a": "a", "b": "c"}])


def test_of_rows_and_changes_those_that_are_wanted_are_told(db):
    """Beside what a SELECT shows: pages as of an epoch before, and streams that go on."""
    rng = random.Random(11)
    wheres = [
        *({"b": b} for b in "ab"),
        *({"b": "c", "km": km} for km in (None, str(2**60), "1")),
        {"km": None},
        {},
    ]
    with running(db, limits=Limits(heartbeat=0.02)) as (_, door), ExitStack() as stack:
        streams = [stack.enter_context(door.follow("ends", where=where)) for where in wheres]
        told = [Counter() for _ in wheres]
        assert all(next(stream)[0] == "ready" for stream in streams)
        rows = []
        for _ in range(12):
            door.edit(*random_edits(rng, rows))
        door.edit(*(road("insert", "a", b, km) for b in "abc" for km in (None, 1, 2**60)))
        everything, place = door.rows("ends")
        for where, stream, seen in zip(wheres, streams, told, strict=True):
            asked = {name: int(value) if value == "1" else value for name, value in where.items()}
            wanted = [
                row for row in everything if all(row[name] == one for name, one in asked.items())
            ]
            assert wanted
            assert bag(door.rows("ends", 2, where)[0]) == bag(wanted)
            while +seen != bag(wanted):
                _, _, delta = next(stream)
                assert delta["added"] or delta["removed"]
                seen.update(bag(delta["added"]))
                seen.subtract(bag(delta["removed"]))
        with door.follow("ends", place, {"b": "a"}) as stream:
            next(stream)
            first = door.edit(road("insert", "a", "b", 5))[1]["epoch"]
            last = door.edit(road("insert", "a", "a", 6))[1]["epoch"]
            kind, at, delta = next(stream)
            assert (kind, delta["epoch"], delta["added"]) == ("delta", last, [{"b": "a", "km": 6}])
            assert at.endswith(f".{last}")
            assert first < last


def test_a_stream_without_wanted_rows_tells_how_far_it_is(db):
    with running(db, limits=Limits(epochs=1, heartbeat=0.02)) as (_, door):
        _, place = door.rows("city", where={"name": "a"})
        asked = quote(json.dumps({"name": "a"}))
        line, answer = door.open("GET", f"live/changes/city?where={asked}")
        for name in "xyz":
            end = door.edit({"insert": "city", "row": {"name": name}})[1]["epoch"]
            wanted = f"id: {place.rpartition('.')[0]}.{end}"
            # before the next edit: a stream that is two epochs behind ends, as one of them is kept
            assert any(one.decode().strip() == wanted for one in iter(answer.readline, b""))
        line.sock.close()
        answer.close()
        door.edit({"delete": "city", "row": {"name": "x"}})
        with door.follow("city", wanted.removeprefix("id: "), {"name": "a"}) as stream:
            assert next(stream)[0] == "ready"  # of one that is older changes are gone


@pytest.mark.parametrize(
    "where",
    [
        {"d": "1.5"},
        {"d": "1.50"},
        {"e": 2, "f": 0},
        {"f": "-0.0", "ok": True},
        {"z": "2026-01-02T04:04:05+01:00"},
        {"s": {"a": 1, "b": "2.5"}, "n": [1, None]},
        {"i": str(2**60), "b": "\\x00", "no": None},
    ],
)
def test_a_value_is_wanted_however_it_is_written(warm_kernel, where):
    with deltafix.sql.connect() as db:
        db.execute(r"""
            CREATE TABLE t (d DECIMAL(9, 2), e DECIMAL(4, 1), z TIMESTAMPTZ, f DOUBLE, b BLOB,
                n INTEGER[], s STRUCT(a INTEGER, b DECIMAL(5, 2)), ok BOOLEAN, i BIGINT, no TEXT);
            INSERT INTO t VALUES (1.5, 2, TIMESTAMPTZ '2026-01-02 03:04:05+00', 0.0, '\x00'::BLOB,
                [1, NULL], {'a': 1, 'b': 2.5}, TRUE, 1152921504606846976, NULL), (1.51, 2.1, NULL,
                0.1, NULL, NULL, NULL, NULL, NULL, 'a')""")
        with running(db) as (_, door):
            (row,) = door.rows("t", where=where)[0]
            assert row["d"] == "1.50"


@pytest.mark.parametrize(
    ("path", "code", "says"),
    [
        ("rows/city?name=a", "DF690", "'name'"),
        ("rows/city?limit=1&limit=2", "DF690", "limit is there twice"),
        ("relations?x=", "DF690", "it takes none"),
        ("changes/city?limit=2", "DF690", "after, where"),
        ("rows/city?where=x", "DF690", "is not JSON"),
        ('rows/city?where={"name":"a","name":"b"}', "DF690", "two values"),
        ("rows/city?where=[1]", "DF690", "of any columns"),
        ('changes/city?where={"nam":"a"}', "DF200", "there is no column 'nam'"),
        ('rows/city?where={"founded":"x"}', "DF202", "ISO days"),
        ('rows/city?where={"area":0.1}', "DF202", "a text of digits"),
        ('rows/nothing?where={"name":"a"}', "DF201", "'nothing'"),
    ],
)
def test_a_parameter_that_would_do_nothing_is_refused(door, path, code, says):
    base, _, query = path.partition("?")
    status, answer = door("GET", f"live/{base}?{quote(query, safe='=&')}")
    assert status == (404 if code == "DF201" else 400)
    assert answer["code"] == code
    assert says in answer["error"]


def test_a_place_that_is_not_kept_is_told_to_be_gone(db):
    with running(db, limits=Limits(epochs=3)) as (_, door):
        _, place = door.rows("road")
        with door.follow("road") as slow:
            next(slow)
            for n in range(6):
                door.edit(road("insert", "a", "b", n))
            with door.follow("road", place) as stream:
                kind, _, told = next(stream)
                assert (kind, told["code"]) == ("gone", "DF691")
                assert "read the rows again" in told["reason"]
                assert next(stream, None) is None
        other = place.partition(".")[2]
        with door.follow("road", f"00000000.{other}") as stream:  # of a server before
            assert next(stream)[0] == "gone"
        assert door("GET", "live/changes/road", headers={"Last-Event-ID": "x"})[0] == 400


def test_a_view_that_is_made_anew_is_read_again(db):
    with running(db) as (server, door):
        _, place = door.rows("ends")
        with server.lock:
            db.execute("DROP VIEW ends; CREATE MATERIALIZED VIEW ends AS SELECT a, km FROM road")
        with door.follow("ends", place) as stream:
            assert next(stream)[0] == "gone"


def test_a_transaction_larger_than_the_history_is_not_kept(db):
    with running(db, limits=Limits(rows=10)) as (_, door), door.follow("road") as stream:
        next(stream)
        door.edit(*(road("insert", "a", "b", n) for n in range(20)))
        assert next(stream)[0] == "gone"


def test_a_reader_that_takes_nothing_is_dropped(db, capfd):
    limits = Limits(stall=0.1, rows=10_000_000, streams=1)
    with running(db, limits=limits) as (server, door):
        line, answer = door.open("GET", "live/changes/city")
        answer.readline()
        text = "x" * 100_000
        with server.lock:
            for n in range(200):  # more than the buffers of a connection
                db.insert("city", [(f"{n}{text}", None, None)])
        for _ in range(1000):  # its place is free once it is dropped
            other, found = door.open("GET", "live/changes/road")
            if found.status == 200:
                break
            found.read()
            other.close()
            threading.Event().wait(0.01)
        assert found.status == 200
        found.close()
        answer.close()
        for one in (line, other):
            one.close()
    assert "Traceback" not in capfd.readouterr().err


def test_only_so_many_may_follow(db):
    with running(db, limits=Limits(streams=1)) as (_, door), door.follow("road") as stream:
        next(stream)
        status, refused = door("GET", "live/changes/road")
        assert (status, refused["code"]) == (503, "DF690")


def test_the_token_is_in_the_header_or_in_the_address(door):
    assert door("GET", "live/relations")[0] == 200
    assert door("GET", "live/relations", token="wrong")[0] == 404  # noqa: S106
    for method, path in (("GET", "live/rows/road"), ("POST", "live/edits")):
        assert door(method, path, "", token=door.token[:-1])[0] == 404
    line = http.client.HTTPConnection("127.0.0.1", door.port)
    line.request("GET", f"/{door.token}/live/relations")
    found = json.loads(line.getresponse().read())
    assert [one["name"] for one in found["relations"]] == list(VIEWS)
    assert found["relations"][0]["columns"][2] == {
        "name": "area", "type": "DECIMAL(12, 2)", "nullable": True,
    }  # fmt: skip
    assert found["relations"][2]["kind"] == "view"
    line.close()


def test_values_of_every_type_come_back_as_they_were(warm_kernel):
    types = """i INTEGER, l BIGINT, f DOUBLE, x DECIMAL(18, 3), t TEXT, b BOOLEAN, d DATE,
        m TIMESTAMP, z TIMESTAMPTZ, o BLOB, n INTEGER[], s STRUCT(a INTEGER, b DATE)"""
    rows = [
        (1, 2**53 + 1, 0.1, Decimal("-1.250"), 'é"\n', True, date(1, 1, 1),
         datetime(2026, 11, 27, 8, 30, 0, 5), datetime(2026, 11, 27, 8, 30, tzinfo=UTC),
         b"\x00\xff", [1, None], {"a": None, "b": date(2000, 2, 29)}),
        (None,) * 12,
        (-1, -(2**63), float("inf"), Decimal(0), "", False, date(9999, 12, 31),
         datetime(1, 1, 1), datetime(1970, 1, 1, tzinfo=UTC), b"", [], {"a": 1, "b": None}),
    ]  # fmt: skip
    with deltafix.sql.connect() as db:
        db.execute(f"CREATE TABLE t ({types}); CREATE TABLE u ({types})")
        db.insert("t", rows)
        with running(db) as (_, door):
            found, _ = door.rows("t")
            first = next(row for row in found if row["i"] == 1)
            assert (first["l"], first["x"], first["d"]) == (
                "9007199254740993",
                "-1.250",
                "0001-01-01",
            )
            assert (first["o"], first["n"], first["m"]) == (
                "\\x00ff", [1, None], "2026-11-27T08:30:00.000005",
            )  # fmt: skip
            assert door.edit(*({"insert": "u", "row": row} for row in found))[0] == 200
            same = db.execute("SELECT * FROM t EXCEPT ALL SELECT * FROM u").fetchall()
            assert same == []
            assert len(db.execute("SELECT * FROM u").fetchall()) == 3
            removed = door.edit(*({"delete": "u", "row": row} for row in found))
            assert removed[1]["deleted"] == 3


def test_an_update_sets_columns_of_the_row_with_a_primary_key(warm_kernel):
    """A delete and an insert in its place would take along what refers to the row."""
    script = """
        CREATE TABLE task ("the name" TEXT, part INTEGER, done BOOLEAN, due DATE,
                           PRIMARY KEY ("the name", part));
        CREATE TABLE note (task TEXT, part INTEGER, text TEXT,
            FOREIGN KEY (task, part) REFERENCES task ON DELETE CASCADE);
        CREATE VIEW open AS SELECT "the name" FROM task WHERE NOT done;
        INSERT INTO task VALUES ('a', 1, FALSE, '2026-12-01'), ('a', 2, FALSE, NULL);
        INSERT INTO note VALUES ('a', 1, 'first');"""
    with deltafix.sql.connect() as db:
        db.execute(script)
        with running(db) as (_, door):
            done = door.edit(
                {"update": "task", "row": {"part": 1, "the name": "a", "done": True, "due": None}},
                {"update": "task", "row": {"the name": "b", "part": 1, "done": True}},
                {"insert": "note", "row": {"task": "a", "part": 2, "text": "second"}},
            )
            assert done[0] == 200
            assert {name: done[1][name] for name in ("inserted", "updated", "deleted")} == {
                "inserted": 1, "updated": 1, "deleted": 0,
            }  # fmt: skip
            assert door.rows("open")[0] == [{"the name": "a"}]
            assert len(door.rows("note")[0]) == 2
        rows = db.execute("SELECT * FROM task ORDER BY part").fetchall()
        assert rows == [("a", 1, True, None), ("a", 2, False, None)]


def test_a_server_that_ends_ends_those_who_follow_and_says_nothing(db, capfd):
    with running(db) as (server, door):
        line, answer = door.open("GET", "live/changes/road")
        assert next(events(answer))[0] == "ready"
        server.stop()
        assert list(events(answer)) == []
        line.close()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("end", ["zz\r\n", "-1\r\n", "5\r\nabcde\r\n0\r\nno line\r\n\r\n"])
def test_what_is_no_http_is_answered_and_not_a_word_in_the_log(db, capfd, end):
    """A traceback each time, which anybody could have, without the key."""
    with running(db) as (_, door):
        for method, path in (
            ("GET", f"{door.token}/live/relations"),
            ("GET", f"{door.token}/live/nothing"),
            ("GET", "nothing"),
            ("POST", f"{door.token}/live/edits"),
        ):
            head = f"{method} /{path} HTTP/1.1\r\nHost: 127.0.0.1:{door.port}\r\n"
            with socket.create_connection(("127.0.0.1", door.port)) as line:
                line.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n{end}".encode())
                line.shutdown(socket.SHUT_WR)
                answer = b""
                while part := line.recv(1 << 16):
                    answer += part
            assert answer.startswith(b"HTTP/1.1 ")
        assert door("GET", "live/relations")[0] == 200
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("{", "DF690", "this is not JSON"),
        ("[1]", "DF690", '{"insert": "table"'),
        ('{"insert": "road"}', "DF690", '"row"'),
        ('{"insert": "rod", "row": {}}', "DF201", "tables are: city, road"),
        ('{"insert": "reach", "row": {}}', "DF201", "a view follows from tables"),
        ('{"insert": "road", "row": {"c": 1}}', "DF200", "a TEXT, b TEXT, km BIGINT"),
        ('{"insert": "road", "row": {"a": 1}}', "DF202", "it takes text"),
        ('{"insert": "road", "row": {"a": "a", "b": "b", "km": 1.5}}', "DF202", "whole numbers"),
        ('{"insert": "city", "row": {"name": "x", "founded": "x"}}', "DF202", "2026-11-27"),
        ('{"insert": "city", "row": {"name": "x", "area": 1.5}}', "DF202", '"1.00"'),
        ('{"insert": "city", "row": {"name": "a"}}', "DF723", "name"),
        ('{"insert": "road", "row": {"a": "a", "b": "zz"}}', "DF723", "city"),
        ('{"insert": "road", "row": {"a": "a", "b": "b", "km": -1}}', "DF723", "CHECK"),
        ('{"insert": "road", "row": {"a": "a"}}', "DF723", "'b'"),
        ('{"delete": "city", "row": {"name": "a"}}', "DF723", "road"),
        ('{"update": "road", "row": {"a": "a", "km": 1}}', "DF200", "has no PRIMARY KEY"),
        ('{"update": "city", "row": {"name": "a"}}', "DF200", "its key (name), and columns"),
        ('{"update": "city", "row": {"area": "1.00"}}', "DF200", "its key (name), and columns"),
        ('{"update": "reach", "row": {"a": "a"}}', "DF201", "a view follows from tables"),
        ('{"delete": "road", "row": {}}', "DF200", "every row"),
        ('{"insert": "road", "row": {"a": NaN}}', "DF690", "NaN"),
        ("[" * 100_000, "DF690", "not JSON"),
        ('{"insert": "road", "row": {"km": ' + "9" * 5000 + "}}", "DF202", "64 bits"),
        ('{"insert": "road", "row": {"km": ' + "9" * 5000 + "}}", "DF202", "about 5000 digits"),
        ('{"insert": "road", "row": {"km": 1, "km": 2}}', "DF690", "two values for 'km'"),
        ('{"insert": "city", "row": {"name": "x", "area": "1_0"}}', "DF202", "area"),
        ('{"insert": "city", "row": {"name": "x", "founded": "20260101"}}', "DF202", "founded"),
    ],
)  # fmt: skip
def test_a_bad_line_is_refused_by_its_number_and_nothing_is_applied(db, door, line, code, says):
    door.edit(road("insert", "a", "b", 1))
    before = [selected(db, view) for view in VIEWS]
    good = json.dumps(road("insert", "b", "c", 2))
    status, answer = door("POST", "live/edits", f"{good}\n\n{line}\n{good}\n")
    assert (status, answer["line"], answer["code"]) == (400, 3, code), answer
    assert says in answer["error"], answer
    assert answer["error"].startswith("line 3: ")
    assert [selected(db, view) for view in VIEWS] == before
    assert door.edit(road("insert", "b", "c", 2))[0] == 200


def test_edits_are_counted_and_need_a_writable_server(db):
    with running(db) as (_, door):
        row = {"a": "a", "b": "b", "km": 7}
        answer = door.edit(*[{"insert": "road", "row": row}] * 2, road("insert", "b", "c"))
        assert answer[1] == {"epoch": db.engine.epoch, "inserted": 3, "updated": 0, "deleted": 0}
        assert door.edit({"delete": "road", "row": row})[1]["deleted"] == 2  # as DELETE does
        assert door.edit({"delete": "road", "row": row})[1]["deleted"] == 0
    with running(db, writable=False) as (_, door):
        assert door.edit(road("insert", "a", "b"))[0] == 403
    with running(db, limits=Limits(body=10)) as (_, door):
        assert door.edit(road("insert", "a", "b"))[0] == 413


def test_the_door_of_rules(warm_kernel):
    program = """
    .decl edge(x: symbol, n: number)
    .input edge
    .decl twice(x: symbol, n: number)
    twice(x, n + n) :- edge(x, n).
    """
    with deltafix.connect(program) as db, running(db) as (_, door), door.follow("twice") as stream:
        next(stream)
        edits = [
            {"insert": "edge", "row": ["a", str(2**60)]},
            {"insert": "edge", "row": {"x": "b", "n": 1}},
        ]
        assert door.edit(*edits)[1] == {"epoch": 1, "inserted": 2, "updated": 0, "deleted": 0}
        assert bag(next(stream)[2]["added"]) == bag(
            [{"x": "a", "n": str(2**61)}, {"x": "b", "n": 2}]
        )
        with db.transaction() as tx:  # any thread may edit a database of rules
            tx.delete("edge", [("b", 1)])
        assert next(stream)[2] == {"epoch": 2, "added": [], "removed": [{"x": "b", "n": 2}]}
        no_key = door.edit({"update": "edge", "row": ["a", 1]})[1]
        assert (no_key["code"], no_key["line"]) == ("DF690", 1)
        missing = door.edit({"delete": "edge", "row": ["b", 1]})[1]
        assert (missing["code"], missing["line"]) == ("DF203", 1)
        assert door.edit({"insert": "edge", "row": {"x": "b"}})[1]["line"] == 1
        assert door.rows("edge")[0] == [{"x": "a", "n": str(2**60)}]
        assert len(door.rows("edge", where={"x": "a", "n": str(2**60)})[0]) == 1
        assert door.rows("edge", where={"x": "b"})[0] == []
        assert door("GET", "live/rows/nothing")[0] == 404


# --- the client --------------------------------------------------------------------------------

HOLD = """
import { createInterface } from "node:readline";
const { connect } = await import(process.argv[2]);
const views = JSON.parse(process.argv[4]);
const log = { snapshots: 0, deltas: 0, errors: [] };
const client = connect(process.argv[3], { retry: 5, pageSize: 3, token: process.argv[5] });
const held = Object.fromEntries(views.map((view) => [view, client.subscribe(view, {
  where: view === "ends" && process.argv[6] ? JSON.parse(process.argv[6]) : undefined,
  onSnapshot: () => log.snapshots++, onDelta: () => log.deltas++,
  onError: (error, again) => log.errors.push([error.message, again]),
})]));
for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  let answer;
  try {
    if (asked.edit) answer = await client.edit(asked.edit);
    else if (asked.update) answer = await client.update("city", asked.update);
    else if (asked.close) { held[asked.close].close(); await held[asked.close].ended; }
    else answer = Object.fromEntries(views.map((view) => [view,
      [...held[view].rows.values()].flatMap(({ row, count }) => Array(count).fill(row))]));
  } catch (error) {
    answer = { refused: error.message, code: error.code, line: error.line, name: error.name };
  }
  console.log(JSON.stringify({ answer, log }));
}
for (const one of Object.values(held)) one.close();
"""


class Held:
    """A process of node whose client follows views."""

    def __init__(self, folder, url, views, token="", ends=""):
        script = folder / "hold.mjs"
        script.write_text(HOLD)
        command = [NODE, script, CLIENT.as_uri(), url, json.dumps(views), token, ends]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question) + "\n")
        line = self.process.stdout.readline()
        assert line, "node has ended"
        return json.loads(line)

    def until(self, wanted, snapshots=0):
        """Ask until the rows are as wanted: what was committed comes a moment later.

        What an edit leaves as it was is as wanted before it is read again: that counts `snapshots`.
        """
        for _ in range(1000):
            found = self.ask()
            if found["log"]["snapshots"] >= snapshots and wanted == {
                name: bag(rows) for name, rows in found["answer"].items()
            }:
                return found["log"]
            threading.Event().wait(0.01)
        raise AssertionError((wanted, found))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(10) == 0
        self.process.stdout.close()


needs_node = pytest.mark.skipif(NODE is None, reason="no node on this machine")


def random_edits(rng, rows):
    """Some edits, of which none is refused, and the roads after them."""
    for _ in range(rng.randint(1, 4)):
        a, b, km = rng.choice("abc"), rng.choice("abc"), rng.choice([None, 1, 2**60])
        if rows and rng.random() < 0.45:
            yield {
                "delete": "road",
                "row": dict(zip(("a", "b", "km"), rng.choice(rows), strict=True)),
            }
        else:
            rows.append((a, b, None if km is None else str(km)))
            yield road("insert", a, b, km)


@needs_node
def test_a_client_holds_what_the_database_has(db, tmp_path):
    rng = random.Random(7)
    limits = Limits(epochs=4)

    def shown():
        """What is held: of `ends` the rows that lead to b."""
        found = {view: selected(db, view) for view in VIEWS}
        found["ends"] = Counter(
            {row: n for row, n in found["ends"].items() if json.loads(row)["b"] == "b"}
        )
        return found

    with (
        running(db, limits=limits) as (server, door),
        Held(tmp_path, server.url, VIEWS, ends='{"b": "b"}') as held,
    ):
        rows = []
        for step in range(25):
            edits = [*random_edits(rng, rows)]
            if step % 2:
                assert "epoch" in held.ask(edit=edits)["answer"]
            else:
                assert door.edit(*edits)[0] == 200
            log = held.until(shown())
        assert log["deltas"] > 25
        assert log["errors"] == []
        wrong = held.ask(edit=[road("insert", "a", "zz")])["answer"]
        assert (wrong["name"], wrong["code"], wrong["line"]) == ("Refused", "DF723", 1)
        for n in range(12):  # more than is kept: whoever is slow reads the rows again
            with server.lock:
                db.insert("road", [("a", "c", n)])
        held.until(shown())


@needs_node
def test_a_client_goes_on_after_a_server_that_was_killed(db, tmp_path):
    with running(db) as (_, door):
        token, port = door.token, door.port
        held = Held(tmp_path, f"http://127.0.0.1:{port}", VIEWS, token)
        door.edit(road("insert", "a", "b", 1))
        held.until({view: selected(db, view) for view in VIEWS})
    db.insert("road", [("b", "c", 2)])
    again = Server(db, port=port, writable=True, title="t", token=token)
    thread = threading.Thread(target=again.run)
    thread.start()
    try:
        with held:
            now = {view: selected(db, view) for view in VIEWS}
            log = held.until(now, snapshots=2 * len(VIEWS))
            assert log["snapshots"] == 2 * len(VIEWS)  # ids of another run are worth nothing
            assert all(again for _, again in log["errors"])
            assert held.ask(close="road")
            db.insert("road", [("c", "c", 3)])
            left = held.ask()["answer"]["road"]
            assert bag(left) != selected(db, "road")
    finally:
        again.stop()
        thread.join()


@needs_node
def test_a_client_updates_rows_by_their_key(db, tmp_path):
    with running(db) as (server, door), Held(tmp_path, server.url, ["city", "reach"]) as held:
        door.edit(road("insert", "a", "b", 1))
        done = held.ask(update=[{"name": "a", "area": "2.50"}, {"name": "zz", "area": "1.00"}])
        assert done["answer"]["updated"] == 1
        (row,) = db.execute("SELECT area FROM city WHERE name = 'a'").fetchall()
        assert row == (Decimal("2.50"),)
        held.until({view: selected(db, view) for view in ("city", "reach")})
        refused = held.ask(update=[{"name": "a"}])["answer"]
        assert (refused["name"], refused["code"], refused["line"]) == ("Refused", "DF200", 1)


@needs_node
def test_a_client_without_the_key_is_told_once(db, tmp_path):
    with (
        running(db) as (_, door),
        Held(tmp_path, f"http://127.0.0.1:{door.port}", ["road"], "no") as held,
    ):
        for _ in range(200):
            log = held.ask()["log"]
            if log["errors"]:
                break
            threading.Event().wait(0.01)
        assert log["errors"] == [["not found: no such address, or not its key", False]]


def test_rows_of_an_open_transaction_are_not_told(db):
    with running(db) as (_, door):
        db.execute("BEGIN; INSERT INTO road VALUES ('a', 'b', 1)")
        for path in ("live/rows/road", "live/changes/road"):
            status, refused = door("GET", path)
            assert (status, refused["code"]) == (400, "DF690")
        assert door.edit(road("insert", "a", "b"))[1]["code"] == "DF725"
        db.rollback()
        assert door.rows("road")[0] == []


@needs_node
def test_the_guide_runs_under_node(db, tmp_path):
    guide = Path(__file__).parents[3] / "docs" / "guides" / "live.md"
    (text,) = re.findall(r"^```js\n(.*?)^```$", guide.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "app.mjs").write_text(text.replace("./deltafix.js", CLIENT.as_uri()))
    with running(db) as (server, _):
        command = [NODE, tmp_path / "app.mjs", server.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "now: 0 roads lead on",
        "+ a to b",
        "+ a to c",
        "+ b to c",
        "line 1: column 'km' is BIGINT, which 'far' is not; it takes whole numbers of 64 bits, "
        "beyond 2^53 as text",
    ]


def test_edits_that_are_cut_off_change_nothing_and_are_no_traceback(capfd) -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE city (name TEXT PRIMARY KEY)")
        with running(db) as (_, door):
            line = b'{"insert": "city", "row": {"name": "a"}}\n'
            head = f"POST /{door.token}/live/edits HTTP/1.1\r\nHost: 127.0.0.1:{door.port}\r\n"
            with socket.create_connection(("127.0.0.1", door.port)) as raw:
                raw.sendall(f"{head}Content-Length: {2 * len(line)}\r\n\r\n".encode() + line)
                raw.shutdown(socket.SHUT_WR)
                assert raw.recv(1 << 16) == b""
        assert db.execute("SELECT * FROM city").fetchall() == []
    assert "Traceback" not in capfd.readouterr().err
