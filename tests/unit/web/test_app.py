"""The page's answers and its guard, through the ASGI test client."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import json
import re
from datetime import date
from pathlib import Path

import pytest
from httpx import ASGITransport, AsyncClient, Response
from tests.generators.proof_programs import KINDS, KINDS_ABSENT, KINDS_FACTS, KINDS_PRESENT
from tests.judges.proof_checker import INTERNAL

import deltafix
import deltafix.sql
from deltafix import web
from deltafix.web.app import make_app
from deltafix.web.feed import Feed, Limits
from deltafix.web.sources import served

STATIC = Path(web.__file__).parent / "static"
PROGRAM = """
.decl edge(x: symbol, y: symbol)
.input edge
.decl path(x: symbol, y: symbol)
.decl lone(x: symbol)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
lone(x) :- edge(x, _), !path(_, x).
"""
TOKEN = "a-token-of-the-test"  # noqa: S105  only of this test
BASE = f"/{TOKEN}"


@pytest.fixture
def db(warm_kernel):
    with deltafix.connect(PROGRAM) as db:
        with db.transaction() as tx:
            tx.insert("edge", [("a", "b"), ("b", "<c>")])
        yield db


class Client:
    """Requests to the application itself, one event loop each."""

    def __init__(self, app, host):
        self.transport = ASGITransport(app, raise_app_exceptions=False)
        self.base = f"http://{host}"

    def request(self, method, path, **options) -> Response:
        async def ask():
            async with AsyncClient(transport=self.transport, base_url=self.base) as client:
                return await client.request(method, path, **options)

        return asyncio.run(ask())

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, **options):
        return self.request("POST", path, **options)


def client(db, *, writable=False, host="127.0.0.1:4000", origins=()):
    feed = Feed(served(db), Limits())
    app = make_app(
        feed, token=TOKEN, port=4000, writable=writable, title="test.dl", origins=origins
    )
    return Client(app, host)


def get(db, path, **parameters):
    answer = client(db).get(f"{BASE}/api/{path}", params=parameters)
    return answer.status_code, answer.json()


def test_the_state_lists_relations_and_sizes(db):
    status, data = get(db, "state")
    assert status == 200
    assert (data["title"], data["epoch"], data["writable"]) == ("test.dl", 1, False)
    sizes = {
        one["name"]: (one["size"], one["is_graph"], one["is_input"]) for one in data["relations"]
    }
    assert sizes == {"edge": (2, True, True), "path": (3, True, False), "lone": (1, False, False)}


def test_rows_come_by_pages(db):
    with db.transaction() as tx:
        tx.insert("edge", [(f"x{i}", f"y{i}") for i in range(300)])
    page = client(db)
    first = page.get(f"{BASE}/api/rows", params={"relation": "edge"}).json()
    asked = {"relation": "edge", "after": first["next"]}
    second = page.get(f"{BASE}/api/rows", params=asked).json()
    assert (len(first["rows"]), len(second["rows"]), second["size"]) == (200, 102, 302)
    assert (second["offset"], second["next"]) == (200, None)
    facts = {row["fact"] for row in first["rows"] + second["rows"]}
    assert len(facts) == 302
    assert first["rows"][0] == {"fact": 'edge("a", "b")', "cells": ['"a"', '"b"']}
    with db.transaction() as tx:  # what comes and goes before a page moves no row of the next one
        tx.delete("edge", [("a", "b"), *((f"x{i}", f"y{i}") for i in range(150, 200))])
    third = page.get(f"{BASE}/api/rows", params=asked).json()
    assert (third["rows"], third["offset"]) == (second["rows"][2:], 151)


def test_the_rows_of_a_question_are_exported(db):
    page = client(db)
    with db.transaction() as tx:
        tx.insert("edge", [('a,"b"', "ü\nx")])
    asked = {"relation": "edge", "sort": 0, "order": "descending", "where0": "a"}
    lines = page.get(f"{BASE}/api/export", params=asked)
    assert lines.headers["content-disposition"] == "attachment; filename*=UTF-8''edge.csv"
    assert list(csv.reader(io.StringIO(lines.text, newline=""))) == [
        ["x", "y"], ['a,"b"', "ü\nx"], ["a", "b"],
    ]  # fmt: skip
    objects = page.get(f"{BASE}/api/export", params={**asked, "format": "jsonl"}).text
    assert [json.loads(line) for line in objects.splitlines()] == [
        {"x": 'a,"b"', "y": "ü\nx"}, {"x": "a", "y": "b"},
    ]  # fmt: skip
    assert page.get(f"{BASE}/api/export", params={**asked, "format": "xls"}).status_code == 400


def test_a_graph_is_bounded(db):
    _, small = get(db, "graph", relation="path")
    assert small["is_whole"]
    names = [node["label"] for node in small["nodes"]]
    assert {(names[e["from"]], names[e["to"]]) for e in small["edges"]} == {
        ("a", "b"), ("b", "<c>"), ("a", "<c>"),
    }  # fmt: skip
    with db.transaction() as tx:
        tx.insert("edge", [(f"x{i}", f"y{i}") for i in range(4000)])
    _, large = get(db, "graph", relation="edge")
    assert (len(large["nodes"]), large["is_whole"], large["size"]) == (2000, False, 4002)
    assert get(db, "graph", relation="lone")[0] == 400


def test_a_fact_is_asked_about_by_its_values(db):
    page = client(db)
    values = {"relation": "path", "value": ["a", "<c>"]}
    assert page.get(f"{BASE}/api/why", params=values).json()["holds"]
    absent = page.get(f"{BASE}/api/why", params={**values, "value": ["<c>", 'say "a"']}).json()
    assert absent["fact"] == 'path("<c>", "say \\"a\\"")'
    refused = page.get(f"{BASE}/api/why", params={**values, "value": ["a", "b", "c"]})
    assert (refused.status_code, refused.json()["code"]) == (400, "DF100")


def test_every_kind_of_relation_is_explained(warm_kernel):
    with deltafix.connect(KINDS) as db:
        page = client(db)
        with db.transaction() as tx:
            tx.insert("e", KINDS_FACTS)
        for fact in (*KINDS_PRESENT, *KINDS_ABSENT):
            found = page.get(f"{BASE}/api/why", params={"fact": fact})
            assert found.status_code == 200, fact
            data = found.json()
            assert data["holds"] == (fact in KINDS_PRESENT), fact
            assert not INTERNAL.search(data["text"]), data["text"]
        for fact in KINDS_PRESENT:
            found = page.get(f"{BASE}/api/cause", params={"fact": fact})
            assert found.status_code == 200, found.text
            assert found.json()["changes"], fact


def test_why_why_not_and_cause(db):
    _, holds = get(db, "why", fact='path("a", "<c>")')
    assert holds["holds"]
    assert holds["steps"][0]["fact"] == 'path("a", "<c>")'
    _, absent = get(db, "why", fact='path("b", "a")')
    assert not absent["holds"]
    assert absent["suggestions"]
    live = client(db)
    with db.transaction() as tx:
        tx.delete("edge", [("a", "b")])
    found = live.get(f"{BASE}/api/cause", params={"fact": 'path("a", "<c>")'}).json()
    assert found["changes"] == ['-edge("a", "b")']
    status = client(db).get(f"{BASE}/api/cause", params={"fact": 'path("a", "b")'}).status_code
    assert status == 400  # a page opened now has seen no epoch


def test_plan_and_profile(db):
    assert "relation edge/2" in get(db, "plan")[1]["text"]
    _, profile = get(db, "profile")
    assert profile["rules"][0] == "path(x, y) :- edge(x, y)."
    assert profile["epochs"][-1]["epoch"] == 1
    assert profile["epochs"][-1]["rules"]["0"] == 2


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("rows?relation=pth", "DF201"),
        ("graph?relation=", "DF201"),
        ("rows?relation=path&after=1,x", "DF200"),
        ("rows?relation=path&sort=1&after=1,99999999", "DF200"),
        ("rows?relation=path&after=1,2,3", "DF200"),
        ("export?relation=pth", "DF201"),
        ("graph?relation=path&focus=nobody", "DF200"),
        ("why?relation=pth&value=a", "DF201"),
        ("why?fact=path(", "DF100"),
        ("why?fact=path(1,2)", "DF202"),
    ],
)
def test_bad_questions_are_answered_with_their_code(db, path, wanted):
    answer = client(db).get(f"{BASE}/api/{path}")
    assert answer.status_code == 400
    assert answer.json()["code"] == wanted


def test_the_page_and_its_files(db):
    page = client(db)
    assert '<script type="module" src="static/main.js">' in page.get(f"{BASE}/").text
    noted = re.findall(
        r"^  (\S+\.min\.js) .* sha256 (\w{64})$", (STATIC / "LICENSES.txt").read_text(), re.M
    )
    there = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in STATIC.glob("*.min.js")
    }
    assert dict(noted) == there  # those of others, unchanged
    for name in ("main.js", "graph.js", "style.css", *there):
        assert page.get(f"{BASE}/static/{name}").status_code == 200
    for name in ("../app.py", "..%2fapp.py", "nothing.js", "%2e%2e/app.py"):
        assert page.get(f"{BASE}/static/{name}").status_code == 404


def test_every_answer_carries_the_strict_headers(db):
    for path in (f"{BASE}/", f"{BASE}/api/state", "/wrong/"):
        headers = client(db).get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_without_the_token_there_is_nothing(db):
    for path in ("/", "/api/state", f"/{TOKEN[:-1]}/api/state", f"/{TOKEN}x/", "/static/main.js"):
        assert client(db).get(path).status_code == 404


@pytest.mark.parametrize(
    "host", ["evil.example:4000", "127.0.0.1:4001", "127.0.0.1", "10.0.0.1:4000"]
)
def test_another_host_is_refused(db, host):
    assert client(db, host=host).get(f"{BASE}/api/state").status_code == 421


def test_another_origin_is_refused(db):
    page = client(db, writable=True)
    body = {"sign": "+", "facts": 'edge("x", "y")'}
    headers = {"origin": "http://evil.example"}
    assert page.post(f"{BASE}/api/edit", json=body, headers=headers).status_code == 403
    assert db.count("edge") == 2


def test_named_origins_may_ask_with_the_key(db):
    page = client(db, writable=True, origins=["https://app.example"])
    body = {"sign": "+", "facts": 'edge("x", "y")'}
    crossing = "cross-origin-resource-policy"
    for origin, wanted, policy in (
        ("https://app.example", 200, "cross-origin"),
        ("http://127.0.0.1:4000", 200, "same-origin"),
        ("https://app.example:444", 403, "same-origin"),
        ("http://app.example", 403, "same-origin"),
        ("null", 403, "same-origin"),
    ):
        answer = page.post(f"{BASE}/api/edit", json=body, headers={"origin": origin})
        is_named = origin == "https://app.example"
        assert (answer.status_code, answer.headers[crossing]) == (wanted, policy), origin
        allowed = answer.headers.get("access-control-allow-origin")
        assert allowed == (origin if is_named else None), origin
        assert "access-control-allow-credentials" not in answer.headers
        assert answer.headers["vary"] == "Origin"
    unkeyed = page.get("/api/state", headers={"origin": "https://app.example"})
    assert unkeyed.status_code == 404
    # The application is to read why it is refused.
    assert unkeyed.headers["access-control-allow-origin"] == "https://app.example"
    assert "access-control-allow-origin" not in page.get(f"{BASE}/api/state").headers


def test_a_preflight_is_answered_without_the_key_to_named_origins_alone(db):
    asked = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    named = {"origin": "https://app.example", **asked}
    page = client(db, writable=True, origins=["https://app.example"])

    def preflight(page, **headers):
        return page.request("OPTIONS", "/live/edits", headers=headers)

    answer = preflight(page, **named, **{"access-control-request-private-network": "true"})
    assert answer.status_code == 200
    for name, wanted in (
        ("origin", "https://app.example"), ("methods", "GET, POST"), ("private-network", "true"),
    ):  # fmt: skip
        assert answer.headers[f"access-control-allow-{name}"] == wanted
    allowed = answer.headers["access-control-allow-headers"].split(", ")
    assert {"authorization", "content-type", "last-event-id"} <= {one.lower() for one in allowed}
    assert preflight(page, **{**named, "access-control-request-method": "PUT"}).status_code == 400
    other = preflight(page, **{**named, "origin": "https://evil.example"})
    assert (other.status_code, "access-control-allow-origin" in other.headers) == (400, False)
    # A name that was pointed at this machine is no way round: the host comes first.
    rebound = client(db, host="evil.example:4000", origins=["https://app.example"])
    refused = preflight(rebound, **named)
    assert (refused.status_code, "access-control-allow-origin" in refused.headers) == (421, False)
    assert preflight(client(db, writable=True), **named).status_code == 404
    assert db.epoch == 1


def test_a_page_is_read_only_unless_writable(db):
    body = {"sign": "+", "facts": 'edge("x", "y")'}
    assert client(db).post(f"{BASE}/api/edit", json=body).status_code == 404
    assert client(db).post(f"{BASE}/api/state", json=body).status_code == 405
    assert db.epoch == 1


def test_a_writable_page_edits(db):
    page = client(db, writable=True)
    body = {"sign": "+", "facts": 'edge("x", "y"), edge("y", "z")'}
    answer = page.post(f"{BASE}/api/edit", json=body)
    assert '+path("x", "z")' in answer.json()["changed"]
    assert db.count("edge") == 4
    refused = page.post(f"{BASE}/api/edit", json={"sign": "-", "facts": 'edge("q", "q")'})
    assert (refused.status_code, refused.json()["code"]) == (400, "DF203")
    assert page.post(f"{BASE}/api/edit", json={"sign": "?", "facts": ""}).status_code == 400
    assert db.count("edge") == 4


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"\xff\xfe", b"null", b"7", b"[]", b'"+"', b'["+", "edge"]', b"[" * 100_000,
        b'{"sign": 1, "facts": ""}', b'{"sign": "+", "facts": null}', b'{"sign": ["+"]}',
        b'{"sign": {}, "facts": ""}',
    ],
)  # fmt: skip
def test_a_malformed_body_is_answered(db, body):
    answer = client(db, writable=True).post(f"{BASE}/api/edit", content=body)
    assert answer.status_code == 400
    assert answer.json() == {"error": 'send {"sign": "+" or "-", "facts": "…"}'}
    long = '{"sign": "+", "facts": "edge(' + "9" * 5_000 + ', 1)"}'
    assert client(db, writable=True).post(f"{BASE}/api/edit", content=long).status_code == 400


def test_questions_and_edits_of_sql(warm_kernel):
    with deltafix.sql.connect() as db:
        db.execute("""CREATE TABLE t (a INTEGER, b TEXT);
            CREATE MATERIALIZED VIEW "my view" AS SELECT a, COUNT(*) AS n FROM t GROUP BY a;
            INSERT INTO t VALUES (1, 'x: y'), (1, NULL), (1, NULL)""")
        page = client(db, writable=True)

        def edited(text):
            return page.post(f"{BASE}/api/edit", json={"sign": "sql", "facts": text})

        rows = page.get(f"{BASE}/api/rows", params={"relation": "t"}).json()
        assert rows["size"] == 3  # rows of SQL are as often there as they are
        for name in ("t", "my view"):
            for row in page.get(f"{BASE}/api/rows", params={"relation": name}).json()["rows"]:
                found = page.get(f"{BASE}/api/why", params={"fact": row["fact"]}).json()
                assert found["holds"], row
                assert found["steps"][0]["fact"] == row["fact"]
        absent = page.get(f"{BASE}/api/why", params={"fact": "t: a = 2 AND b IS NULL"}).json()
        assert (absent["holds"], "INSERT the row" in absent["text"]) == (False, True)
        for relation, values, wanted in (  # what is not given is any
            ("t", ["1", "x: y"], "t: a = 1 AND b = 'x: y'"),
            ("t", ["", "NULL"], "t: a = 1 AND b IS NULL"),
            ("my view", ["1", ""], "my view: a = 1 AND n = 3"),
            ("my view", ["", ""], "my view: a = 1 AND n = 3"),
            ("my view", ["2", ""], "my view has no row with a = 2"),
            ("my view", ["", "1"], "my view has no row with n = 1"),
            ("t", ["1", "''"], "t has no row with a = 1 AND b = ''"),
        ):
            asked = {"relation": relation, "value": values}
            found = page.get(f"{BASE}/api/why", params=asked).json()
            assert wanted in found["text"], (values, found)
        cause = page.get(f"{BASE}/api/cause", params={"fact": rows["rows"][0]["fact"]})
        assert (cause.status_code, cause.json()["code"]) == (400, "DF680")
        for question in (
            "t: a = 1; DROP TABLE t",
            "DELETE FROM t",
            "t: (",
            "",
            "SELECT 1",
            "u: a = 1",
        ):
            asked = page.get(f"{BASE}/api/why", params={"fact": question})
            assert asked.status_code == 400, (question, asked.text)
        for text in (
            "DROP TABLE t",
            "INSERT INTO t VALUES (2, ''); BEGIN",
            "SELECT 1",
            "",
            "INSERT",
        ):
            asked = edited(text)
            assert (asked.status_code, db.execute("SELECT * FROM t").rowcount) == (400, 3), text
        broken = "INSERT INTO t VALUES (2, ''); INSERT INTO t VALUES ('x', 'x')"
        assert edited(broken).status_code == 400
        assert not db.in_transaction
        done = edited("DELETE FROM t WHERE b IS NULL")
        assert done.status_code == 200
        assert page.get(f"{BASE}/api/state").json()["relations"][1]["size"] == 1
        assert page.get(f"{BASE}/api/profile").status_code == 200
        assert page.post(f"{BASE}/api/edit", json={"sign": "+", "facts": ""}).status_code == 400


def test_rows_of_sql_are_searched_filtered_sorted_and_exported(warm_kernel):
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER, x DECIMAL(9, 2), d DATE, b BOOLEAN)")
        values = [(n % 7 or None, n, date(2026, 1, 1 + n % 9), n % 2 == 0) for n in range(450)]
        db.insert("t", [*values, values[0]])
        page = client(db)

        def asked(**question):
            found, after = [], ""
            while after is not None:
                parameters = {"relation": "t", "after": after, **question}
                one = page.get(f"{BASE}/api/rows", params=parameters).json()
                found += [row["cells"] for row in one["rows"]]
                assert one["size"] == 451
                after = one["next"]
            assert len(found) == one["matched"]
            return found

        for condition, question in (
            ("a > 3", {"where0": "> 3"}), ("d = DATE '2026-01-03'", {"where2": "= 2026-01-03"}),
            ("x <= 10.5", {"where1": "<= 10.5"}), ("b = TRUE", {"where3": "=true"}),
            ("a IS NULL AND d >= DATE '2026-01-08'", {"search": "NULL", "where2": ">=2026-01-08"}),
        ):  # fmt: skip
            wanted = db.execute(f"SELECT COUNT(*) FROM t WHERE {condition}").fetchall()
            assert [(len(asked(**question)),)] == wanted, condition
        assert len(asked()) == 451
        descending = [row[1] for row in asked(sort=1, order="descending")]
        assert descending == [f"{n}.00" for n in range(449, -1, -1)] + ["0.00"]
        assert [row[0] for row in asked(sort=0)][-65:] == ["NULL"] * 65
        wrong = page.get(f"{BASE}/api/rows", params={"relation": "t", "where1": "> x"})
        assert (wrong.status_code, wrong.json()["code"]) == (400, "DF202")
        export = {"relation": "t", "where0": "= 3", "where1": "< 9"}
        lines = page.get(f"{BASE}/api/export", params={**export, "format": "jsonl"}).text
        assert json.loads(lines) == {"a": 3, "x": "3.00", "d": "2026-01-04", "b": False}
        text = page.get(f"{BASE}/api/export", params=export).text
        assert text == "a,x,d,b\r\n3,3.00,2026-01-04,false\r\n"
        values = {"relation": "t", "value": ["3", "3.00", "2026-01-04", "false"]}
        assert page.get(f"{BASE}/api/why", params=values).json()["holds"]
        assert page.get(f"{BASE}/api/graph", params={"relation": "t"}).status_code == 400


def test_an_edit_of_the_page_has_a_size_and_the_epoch_that_it_made(db):
    """A body was read to its end, and the epoch was whichever was the last one by then."""
    page = client(db, writable=True)
    with db.watch(callback=lambda delta: delta.epoch == 2 and insert(db, "p", "q")):
        answer = page.post(f"{BASE}/api/edit", json={"sign": "+", "facts": 'edge("x", "y")'})
    assert (answer.json()["epoch"], db.epoch) == (2, 3)
    feed = Feed(served(db), Limits(body=100))
    small = Client(
        make_app(feed, token=TOKEN, port=4000, writable=True, title="t"), "127.0.0.1:4000"
    )
    answer = small.post(f"{BASE}/api/edit", content=b" " * 101)
    assert (answer.status_code, answer.json()["code"]) == (413, "DF690")
    assert db.epoch == 3


def insert(db, *row):
    with db.transaction() as tx:
        tx.insert("edge", [row])
