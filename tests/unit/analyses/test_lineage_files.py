"""What counts as a statement, a model, a file that can be read: text in, fragment out."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from importlib import import_module

import pytest
from tests.generators.lineage_views import TABLES, Trees

from deltafix.analyses.job import Job
from deltafix.analyses.lineage import LINEAGE
from deltafix.analyses.lineage.extract import UNKNOWN_FORM
from deltafix.analyses.lineage.facts import INPUTS
from deltafix.errors import MissingDependencyError

TREE = {
    "raw.sql": "CREATE TABLE raw.orders (id INT, who INT, cents INT, note TEXT);"
    "CREATE TABLE raw.people (id INT, name TEXT);",
    "staging.sql": "CREATE VIEW orders AS SELECT *, cents / 100 AS euros FROM raw.orders",
    "mart.sql": "CREATE TABLE spent AS SELECT p.name, SUM(euros) AS total FROM orders o"
    " JOIN raw.people p ON p.id = o.who GROUP BY p.name",
}


@pytest.fixture(scope="module")
def trees() -> Iterator[Trees]:
    with Job(LINEAGE) as job:
        yield Trees(job)
        job.check_invariants()


def test_dbt_models_are_named_by_their_files(trees: Trees) -> None:
    tree = {
        "models/staging/stg_orders.sql": "{# raw #}{{ config(materialized='view') }}\n"
        "select id, amount / 100 as euros from {{ source('shop', 'orders') }}",
        "models/marts/totals.sql": "{{- config() -}} with o as"
        " (select * from {{ ref('stg_orders') }}) select sum(euros) as total from o\n"
        "{% if is_incremental() %} where id > (select max(id) from {{ this }}) {% endif %}",
        "models/plain.sql": "select total from totals",
    }
    assert trees.rows("origin", tree) == [
        "plain total shop.orders amount",
        "stg_orders euros shop.orders amount",
        "stg_orders id shop.orders id",
        "totals total shop.orders amount",
    ]
    assert trees.rows("feeds", tree) == [
        "shop.orders stg_orders", "stg_orders totals", "totals plain",
    ]  # fmt: skip


def test_queries_that_make_nothing_are_named_by_file_and_number(trees: Trees) -> None:
    assert trees.rows("flows", {"q/top.sql": TABLES + "SELECT a FROM r; SELECT d FROM s"}) == [
        "q/top.sql#1 a r a value",
        "q/top.sql#2 d s d value",
    ]


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("SELEC a FROM t", "SELECT"),
        ("SELEC a", "SELECT"),
        ("INSRT INTO u SELECT a FROM t", "INSERT"),
    ],
)
def test_a_slip_in_the_first_word_is_told(trees: Trees, slip: str, meant: str) -> None:
    text = f"CREATE TABLE t (a INT);\n{slip};\nOPTIMIZE t; VACUUM t; LIST @stage; PRINT 'x'"
    (row,) = trees.rows("unparsed", text)
    first = slip.split(maxsplit=1)[0]
    assert row == f"x.sql 2 no statement begins with {first}: did you mean {meant}?"


def test_statements_that_cannot_be_read_cost_themselves_only(trees: Trees) -> None:
    text = (
        "CREATE TABLE t (a INT);\nCREATE VIEW broken AS SELECT FROM WHERE;\nGRANT ALL ON t TO me;"
    )
    text += "\n\nCREATE VIEW v AS SELECT a FROM t"
    assert trees.rows("flows", text) == ["v a t a value"]
    (row,) = trees.rows("unparsed", text)
    assert row.startswith("x.sql 2 ")
    fragment = LINEAGE.extract("x.sql", text.encode(), "")
    assert [(place.symbol, place.kind, place.line) for place in fragment.places] == [
        ("t", "table", 1),
        ("v", "view", 5),
        ("x.sql#2", "unparsed", 2),
    ]
    moved = LINEAGE.extract("x.sql", b"\n\n" + text.encode(), "")
    assert moved.facts == fragment.facts


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00\x01\x02", "a binary file"),
        (b"SELECT '\xff'", "not UTF-8 at byte 8"),
        (b"\xef\xbb\xbfSELECT '\xff'", "not UTF-8 at byte 11"),
        (b"-- deltafix: dialect=klingon\nSELECT 1", "Unknown dialect 'klingon'."),
        (b"SELECT {{ var('x') }}", "Jinja other than ref, source, this and config: {{ var('x') }}"),
        (b"{% for x in y %}", "Jinja other than ref, source, this and config: {% for x in y %}"),
        (b"SELECT {{ ref('x')", "a Jinja tag that does not end"),
    ],
)
def test_a_file_that_cannot_be_read_is_skipped_with_a_reason(data: bytes, reason: str) -> None:
    fragment = LINEAGE.extract("x.sql", data, "")
    assert fragment.error == reason
    assert {relation for relation, _ in fragment.facts} <= {
        "skipped", "may_name", "may_name_any", "calls_macro", "defines_macro",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "macros"),
    [
        ("{{ total('a') }} {{ pack.star(ref('a')) }}", {"total", "star"}),
        ("{% if var('day') | lower() == env_var('x')|upper() %} {% endif %}", {"var", "env_var"}),
        ("{% for x in range(3) if (x) %} {{ config(a=1) }} {{ source('r', 'o') }} sum(x)", set()),
        ("{% macro total(of) %} {{ other(of) }} {% endmacro %}", {"other", "total"}),
    ],
)
def test_what_jinja_calls_is_told_from_what_sql_calls(text: str, macros: set[str]) -> None:
    facts = LINEAGE.extract("models/x.sql", f"select {text} {{{{ broken() }}}}".encode(), "").facts
    assert {row[1] for relation, row in facts if relation == "calls_macro"} == macros | {"broken"}
    assert (("defines_macro", ("total",)) in facts) == ("macro total" in text)
    macro = LINEAGE.extract("macros/x.sql", f"{{% x %}} {text}".encode(), "").facts
    assert not [row for relation, row in macro if relation == "calls_macro"]


def test_what_dbt_compiled_is_not_in_doubt_and_macros_are_for_what_it_did_not() -> None:
    models = {
        "models/stg.sql": "select id, amount from {{ source('raw', 'orders') }}",
        "models/mart.sql": "select {{ total('stg') }} as all_of_it",
        "models/fine.sql": "select id from {{ ref('stg') }}",
    }
    macro = {"macros/total.sql": "{% macro total(of) %} sum(fine.id) {% endmacro %}"}
    compiled = {"target/compiled/p/models/mart.sql": "select sum(amount) as all_of_it from stg"}
    amount, id_ = ("stg", "amount", "models/mart.sql"), ("fine", "id", "macros/total.sql")
    for tree, unread, maybe in (
        (models, [], [("fine", "id", "models/mart.sql"), amount]),  # total may read anything
        (models | macro, [], [id_, amount]),
        (models | macro | compiled, [("fine", "id"), ("mart", "all_of_it")], []),
    ):
        with Job(LINEAGE) as job:
            job.update([LINEAGE.extract(path, text.encode(), "") for path, text in tree.items()])
            assert (job.rows("unread"), job.rows("maybe_read")) == (unread, maybe)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";;;",
        "-- only words",
        "SELECT 'open",
        "/* open",
        "SELECT " + "(" * 2000 + "1" + ")" * 2000,
        "SELECT " + "+".join(["1"] * 3000),
        "SELECT a FROM " + "(SELECT a FROM " * 300 + "t" + ") AS q" * 300,
        " UNION ALL ".join(["SELECT a FROM t"] * 1000),
        "INSERT INTO t",
        "MERGE INTO t USING s ON TRUE",
        "UPDATE t SET",
        "CREATE VIEW v AS",
        "WITH q AS (SELECT 1) DELETE FROM t",
        "CREATE TABLE",
        "SELECT * FROM LATERAL x",
        "COPY t FROM 'x'; DELETE FROM t; TRUNCATE t; DROP TABLE t",
    ],
)
def test_odd_text_never_raises(text: str) -> None:
    fragment = LINEAGE.extract("x.sql", text.encode(), "")
    assert fragment == LINEAGE.extract("x.sql", text.encode(), "")
    for relation, row in fragment.facts:
        assert len(row) == len(INPUTS[relation])


def test_the_same_content_again_changes_nothing_and_a_broken_save_keeps_what_was(
    trees: Trees,
) -> None:
    trees.load(TREE)
    job = trees.job
    assert job.last_work.touched > 0
    before = job.answer()
    again = job.update([LINEAGE.extract(path, text.encode(), "") for path, text in TREE.items()])
    assert not any(again.came.values())
    assert not any(again.went.values())
    assert again.work.touched == 0
    broken = job.update([LINEAGE.extract("mart.sql", b"\xff", "")])
    assert broken.unreadable == {"mart.sql": "not UTF-8 at byte 0"}
    assert job.answer() == before


def test_without_sqlglot_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "deltafix.analyses.lineage")
    with pytest.raises(MissingDependencyError, match=r"pip install 'deltafix\[sql\]'"):
        import_module("deltafix.analyses.lineage")


def test_mangled_statements_are_read_or_told_unread_and_no_form_is_unknown() -> None:
    chance = random.Random(11)
    words = re.split(r"(\W)", " ".join([*MANGLED, *TREE.values()]))
    dialects = ["", "bigquery", "clickhouse", "mysql", "oracle", "postgres", "snowflake", "tsql"]
    failed = 0
    for _ in range(400):
        start = chance.randrange(len(words) - 60)
        text = words[start : start + 60]
        for _ in range(chance.randrange(5)):
            text[chance.randrange(60)] = chance.choice(words)
        dialect = chance.choice(dialects)
        head = f"-- deltafix: dialect={dialect}\n" if dialect else ""
        fragment = LINEAGE.extract("x.sql", (head + "".join(text)).encode(), "")
        reasons = [row[2] for relation, row in fragment.facts if relation == "failed"]
        assert UNKNOWN_FORM not in reasons, "".join(text)
        failed += bool(reasons)
    assert 40 < failed < 360


MANGLED = (
    "WITH RECURSIVE q(n) AS (SELECT a FROM r UNION ALL SELECT n + 1 FROM q) SELECT * FROM q;",
    "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b WHEN NOT MATCHED"
    " THEN INSERT (a, b) VALUES (s.a, s.b); UPDATE t SET (a, b) = (SELECT x, y FROM u) FROM v;",
    "CREATE TABLE k LIKE t; CREATE TABLE c CLONE t; ALTER TABLE t RENAME COLUMN a TO b;",
    "SELECT * EXCLUDE (a) REPLACE (b AS c) FROM t PIVOT (SUM(a) FOR b IN ('x')) AS p;",
    "SELECT a INTO z FROM t, LATERAL (SELECT t.a) AS l NATURAL JOIN u CROSS JOIN UNNEST(t.b) AS x;",
    "INSERT INTO t (a) VALUES ((SELECT MAX(b) FROM u)); INSERT INTO t TABLE u; USE db.schema;",
    "SELECT SUM(a) OVER w, CASE b WHEN 1 THEN c END FROM t WINDOW w AS (PARTITION BY d) QUALIFY 1;",
)
