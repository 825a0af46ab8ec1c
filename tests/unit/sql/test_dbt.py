"""dbt projects: compiled by dbt itself, judged by DuckDB and by dbt's own builds."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from deltafix.cli.main import main
from deltafix.errors import DbtError, SqlIntegrityError
from deltafix.sql.dbt import Project, open_project

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "dbt"
DBT = ROOT / "build" / "dbt" / "bin" / "python"
COMMANDS = """
import sys
from dbt.cli.main import dbtRunner
for line in sys.argv[1:]:
    ran = dbtRunner().invoke(["--quiet", *line.split(), "--profiles-dir", "."])
    assert ran.success, (line, ran.exception, ran.result)
"""
EDITS = 40


def dbt(folder: Path, *commands: str) -> None:
    """Run commands of dbt in a project, by one process: to begin takes it 3 s of processor."""
    environment = {**os.environ, "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    subprocess.run([DBT, "-c", COMMANDS, *commands], cwd=folder, env=environment, check=True)


def copied(folder: Path) -> Path:
    """The example, to be built by dbt; without one the test is skipped."""
    if not DBT.is_file():
        assert "CI" not in os.environ, "make build/dbt/.ready"
        pytest.skip("no dbt: make build/dbt/.ready")
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("target", "logs", "*.duckdb"))
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built and compiled by dbt as its page says."""
    folder = copied(tmp_path_factory.mktemp("dbt") / "shop")
    dbt(folder, "build", "compile --full-refresh", "docs generate --no-compile")
    return folder


def rows(db: Any, name: str) -> Counter[tuple[Any, ...]]:
    return Counter(map(tuple, db.execute(f"SELECT * FROM {name}").fetchall()))


def models(project: Project) -> list[str]:
    return [one.name for one in project.of("model", "test", state="maintained")]


class Judge:
    """DuckDB with what dbt built, in which models are made again from what dbt compiled."""

    def __init__(self, folder: Path) -> None:
        self.db = duckdb.connect(str(folder / "dev.duckdb"))
        manifest = json.loads((folder / "target" / "manifest.json").read_text())
        self.texts = {
            node["name"]: node["compiled_code"]
            for node in manifest["nodes"].values()
            if node["resource_type"] in ("model", "test")
        }
        for name in ("stg_orders", "stg_customers"):  # views, which are tables from here on
            self.db.execute(f"DROP VIEW {name}")

    def build(self, project: Project) -> None:
        for one in project.of("model", "test", state="maintained"):
            self.db.execute(f"CREATE OR REPLACE TABLE {one.name} AS {self.texts[one.name]}")

    def load(self, project: Project) -> None:
        for one in project.of("source", "seed"):
            project.load(one.name, self.db.execute(f"SELECT * FROM {one.name}").fetchall())


def an_order(rng: Random, number: int) -> tuple[Any, ...]:
    status = rng.choice(["placed", "shipped", "returned", "lost", "lost", None])
    amount = rng.choice([None, Decimal(rng.randrange(100_000)) / 100])
    return number, rng.choice([1, 2, 3, 4, None]), status, amount, date(2026, 1, rng.randint(1, 9))


def edit(rng: Random, db: Any, number: int) -> None:
    """One random change of the sources, duplicates and orders of nobody included."""
    kind = rng.randrange(4)
    if kind == 0:
        db.execute("INSERT INTO raw_orders VALUES (?, ?, ?, ?, ?)", an_order(rng, number))
    elif kind == 1:
        db.execute("INSERT INTO raw_orders SELECT * FROM raw_orders USING SAMPLE 1")
    elif kind == 2:
        db.execute("DELETE FROM raw_orders WHERE id = ?", [rng.randrange(1, number + 1)])
    else:
        country = rng.choice(["de", "fr", "xx", None])
        db.execute(
            "UPDATE raw_customers SET country = ? WHERE id = ?", [country, rng.randint(1, 3)]
        )


def test_models_are_what_dbt_builds_and_stay_so_as_sources_change(built: Path) -> None:
    rng = Random(7)
    with open_project(built) as project:
        with duckdb.connect(str(built / "dev.duckdb")) as db:
            for one in project.of("source", "seed"):
                project.load(one.name, db.execute(f"SELECT * FROM {one.name}").fetchall())
            for name in ("stg_orders", "stg_customers", "customers", "latest", "top_customers"):
                assert rows(project.connection, name) == rows(db, name), name
        judge = Judge(built)
        seen: set[str] = set()
        for number in range(4, 4 + EDITS):
            edit(rng, judge.db, number)
            judge.load(project)
            judge.build(project)
            for name in models(project):
                found = rows(project.connection, name)
                assert found == rows(judge.db, name), (number, name)
                if found:
                    seen.add(name)
        # Each test of orders failed at some time.
        assert {name for name in models(project) if "stg_orders" in name} <= seen | {
            "not_null_stg_orders_order_id"
        }
        judge.db.close()


def test_what_is_not_taken_says_why_and_whom_it_keeps_waiting(built: Path) -> None:
    with open_project(built / "target") as project:
        state = {one.shown: one for one in project.relations}
    assert state["overdue"].state == "refused"
    assert "DF722" in state["overdue"].why
    assert "overdue.sql:1:" in state["overdue"].why
    assert (state["reminders"].state, state["reminders"].why) == ("waits", "overdue")
    assert state["orders_snapshot"].why.startswith("a snapshot is what dbt saw")
    assert {one.state for one in state.values()} == {"table", "maintained", "refused", "waits"}


def run(*words: str) -> int:
    """A command line to its end; the exit code."""
    with pytest.raises(SystemExit) as end:
        main(["dbt", *words])
    return int(str(end.value.code or 0))


def test_the_command_line_says_what_became_of_each_and_what_changes(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    shutil.copytree(EXAMPLE / "data", data)
    looks = iter(
        [
            lambda: None,
            lambda: (data / "raw_orders.csv").rename(tmp_path / "away.csv"),
            lambda: None,
            lambda: (data / "raw_orders.csv").write_text(
                (EXAMPLE / "data" / "raw_orders.csv").read_text() + "4,3,placed,2.00,2026-01-05\n"
            ),
        ]
    )
    monkeypatch.setattr("deltafix.cli.dbt.sleep", lambda _: next(looks)())
    words = [str(built), "-F", str(data), "-D", str(tmp_path / "out")]
    assert run(*words, "--watch", "--changes", "1") == 0
    printed = capsys.readouterr()
    assert printed.err.count("raw.orders is gone (no raw_orders.parquet and no") == 1
    page = (EXAMPLE / "README.md").read_text()
    before, after = printed.out.split("+", 1)[0], "+" + printed.out.split("+", 1)[1]
    for line in before.splitlines():
        assert line.rstrip() in page, line
    assert after.splitlines()[0].split("\t")[0] in ("+stg_orders", "+customers")
    assert "-customers\t3\tchen\tNULL\t0\tNULL\tNULL" in printed.out
    assert "+customers\t3\tchen\tNULL\t1\t2.00\t2026-01-05" in printed.out
    assert (tmp_path / "out" / "customers.csv").read_text().startswith('"customer_id"')
    assert run(*words, "--strict", "--format", "json") == 1
    told = json.loads(capsys.readouterr().out)["relations"]
    assert {one["shown"]: one["rows"] for one in told}["customers"] == 3


# --- manifests that dbt did not write ------------------------------------------------------------


def node(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {
        "resource_type": kind, "name": name, "alias": name, "database": "d", "schema": "s",
        "original_file_path": f"{name}.sql", "depends_on": {"nodes": []}, "config": {},
    } | more  # fmt: skip


def written(folder: Path, *nodes: dict[str, Any], adapter: str = "duckdb") -> Path:
    (folder / "target").mkdir()
    manifest = {
        "metadata": {"adapter_type": adapter},
        "nodes": {f"{one['resource_type']}.{one['name']}": one for one in nodes},
    }
    (folder / "target" / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_strict_minds_a_table_without_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = {"id": {"data_type": "integer"}}
    seed = node("seed", "orders", columns=columns, original_file_path="orders.csv")
    folder = written(tmp_path, seed, node("model", "m", compiled_code="SELECT id FROM orders"))
    (folder / "orders.csv").write_text("id\n1\n")
    assert run(str(folder), "--strict") == 0
    (folder / "orders.csv").unlink()
    assert run(str(folder)) == 0
    assert run(str(folder), "--strict") == 1
    assert "orders has no rows: no " in capsys.readouterr().err


ORDERS = node("seed", "orders", columns={"id": {"data_type": "integer"}})


def test_a_folder_without_a_manifest_says_what_to_run(tmp_path: Path) -> None:
    said = re.escape(f"run `dbt compile` first; neither {tmp_path} nor {tmp_path / 'target'} has")
    with pytest.raises(DbtError, match=said):
        open_project(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "\x00"])
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DbtError, match=r"manifest\.json"):
        open_project(tmp_path)


def test_an_adapter_whose_sql_is_not_known_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DbtError, match="'snowflake' is not known here; databricks, duckdb"):
        open_project(written(tmp_path, adapter="snowflake"))


def test_models_in_a_circle_are_refused(tmp_path: Path) -> None:
    first = node("model", "a", depends_on={"nodes": ["model.b"]}, compiled_code="select 1 as x")
    second = node("model", "b", depends_on={"nodes": ["model.a"]}, compiled_code="select 1 as x")
    with pytest.raises(DbtError, match=r"in a circle: .*model\.a"):
        open_project(written(tmp_path, first, second))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"language": "python"}, "in Python"),
        ({"compiled_code": "select * from d.s.broken"}, "dbt compile --full-refresh"),
        ({"compiled_code": None}, "not compiled"),
        ({"compiled_code": "select id from"}, "DF721"),
        ({"compiled_code": "select nothing from d.s.orders"}, "nothing"),
        ({"compiled_code": "select 1 as a; drop table d.s.orders"}, "one query"),
    ],
)
def test_a_model_that_cannot_be_a_view_is_refused_alone(
    tmp_path: Path, more: dict[str, Any], why: str
) -> None:
    reads = {"nodes": ["seed.orders"]}
    broken = node("model", "broken", depends_on=reads, **more)
    good = node("model", "good", depends_on=reads, compiled_code="select id from d.s.orders")
    with open_project(written(tmp_path, ORDERS, broken, good)) as project:
        state = {one.name: one for one in project.relations}
        assert state["broken"].state == "refused"
        assert why in state["broken"].why
        project.load("orders", [(1,), (1,)])
        assert rows(project.connection, "good") == {(1,): 2}


def test_columns_that_nobody_knows_are_asked_for(tmp_path: Path) -> None:
    unknown = node("seed", "orders", columns={"id": {}})
    with open_project(written(tmp_path, unknown)) as project:
        (found,) = project.relations
    assert found.state == "refused"
    assert "dbt docs generate" in found.why


def a_file(name: str, written_as: str, **types: str) -> dict[str, Any]:
    """A source with an `external_location`, as the adapter for DuckDB leaves it."""
    return node(
        "source", name, source_name="raw", relation_name=written_as,
        config={"meta": {"external_location": "..."}},
        columns={column: {"data_type": kind} for column, kind in types.items()},
    )  # fmt: skip


def test_sources_that_are_files_are_read_by_models_and_tests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    function = "read_csv('data/pay.csv', header = true)"
    sources = (
        a_file("People", "'data/people.csv'", who="text", age="integer"),
        a_file("pay", function, who="text", amount="bigint"),
        a_file("whole", "'data/pay.csv'", who="text", amount="bigint"),  # a part of what pay is
    )
    reads = {"nodes": [f"source.{one['name']}" for one in sources]}
    text = (
        "select 'data/people.csv' as said, p.who, age, sum(x.amount) as paid, count(w.who) as n\n"
        f"from 'data/people.csv' as p left join {function} x using (who)\n"
        "left join 'data/pay.csv' w on w.who = p.who group by all"
    )
    total = node("model", "total", depends_on=reads, compiled_code=text)
    test = node(
        "test", "aged", depends_on={"nodes": ["source.People"]},
        compiled_code="\n\nselect who from 'data/people.csv' where age is null\n",
    )  # fmt: skip
    folder = written(tmp_path, *sources, total, test)
    with open_project(folder) as project:
        assert {one.state for one in project.relations} == {"table", "maintained"}
        assert {one.name: one.file for one in project.of("source")} == {
            "people": "data/people.csv", "pay": "", "whole": "data/pay.csv",
        }  # fmt: skip
        project.load("people", [("ada", 9), ("bo", None)])
        project.load("pay", [("ada", 3), ("ada", 4)])
        project.load("whole", [("ada", 5)])
        said = "data/people.csv"
        assert rows(project.connection, "total") == {
            (said, "ada", 9, 7, 2): 1, (said, "bo", None, None, 0): 1,
        }  # fmt: skip
        assert rows(project.connection, "aged") == {("bo",): 1}
    # The command reads such a file where dbt does, unless the folder of -F has one.
    (folder / "data").mkdir()
    (folder / "data" / "people.csv").write_text("who,age\nada,9\n")
    (folder / "data" / "pay.csv").write_text("who,amount\nada,1\nada,2\n")
    other = tmp_path / "other"
    other.mkdir()
    (other / "People.csv").write_text("who,age\nada,\nbo,\nchen,\n")
    for given, many, unaged in ((folder, 1, 0), (other, 3, 3)):
        assert run(str(folder), "-F", str(given), "--format", "json") == 0
        told = json.loads(capsys.readouterr().out)["relations"]
        assert {one["shown"]: one["rows"] for one in told} == {
            "raw.People": many, "raw.pay": 0, "raw.whole": 2, "total": many, "aged": unaged,
        }  # fmt: skip


@pytest.mark.parametrize("place", ["'../secret.csv'", "'/etc/secret.csv'", "'s3://b/secret.csv'"])
def test_a_file_outside_its_project_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "secret.csv").write_text("who\nada\n")
    folder = written(tmp_path / "project", a_file("secret", place, who="text"))
    assert run(str(folder), "-F", str(folder)) == 0
    printed = capsys.readouterr()
    assert "table, 0 rows" in printed.out
    assert "raw.secret has no rows: no secret.parquet and no secret.csv in" in printed.err


def test_of_a_file_whose_columns_are_not_known_no_catalog_is_asked_for(tmp_path: Path) -> None:
    source = a_file("people", "'data/people.csv'", who="text", age="")
    with open_project(written(tmp_path, source)) as project:
        (found,) = project.relations
    assert found.state == "refused"
    assert "of age not the type" in found.why
    assert "dbt docs generate" not in found.why


@pytest.mark.parametrize(
    ("text", "place", "drawn"),
    [
        ("select nothing from d.s.orders", "1:8", "1 | select nothing from d.s.orders"),
        ("select o.id\nfrom d.s.orders as o, d.s.orders as p where o.no = 1",
         "2:45", "2 | from d.s.orders as o, d.s.orders as p where o.no = 1"),
        ('select id from "d"."s"."orders" where id > current_date',
         "1:44", '1 | select id from "d"."s"."orders" where id > current_date'),
        ("select id from nowhere", "1:16", "1 | select id from nowhere"),
        ("select id from (", "1:16", "1 | select id from ("),
    ],
)  # fmt: skip
def test_an_error_is_about_the_text_that_dbt_compiled(
    tmp_path: Path, text: str, place: str, drawn: str
) -> None:
    broken = node("model", "broken", depends_on={"nodes": ["seed.orders"]}, compiled_code=text)
    with open_project(written(tmp_path, ORDERS, broken)) as project:
        why = {one.name: one.why for one in project.relations}["broken"]
    head, line, caret = why.splitlines()[:3]
    assert head.startswith(f"broken.sql:{place}: error[")
    assert line == drawn
    assert caret.index("^") == int(place.split(":")[1]) + len("1 | ") - 1


def test_one_name_in_two_schemas_is_told_apart(tmp_path: Path) -> None:
    other = {
        **node("seed", "other"),
        "alias": "orders",
        "schema": "t",
        "columns": ORDERS["columns"],
    }
    text = "select a.id from d.s.orders a join d.t.orders b on a.id = b.id"
    reads = {"nodes": ["seed.orders", "seed.other"]}
    both = node("model", "both", depends_on=reads, compiled_code=text)
    with open_project(written(tmp_path, ORDERS, other, both)) as project:
        assert {one.name for one in project.of("seed")} == {"s__orders", "t__orders"}
        project.load("s__orders", [(1,), (2,)])
        project.load("t__orders", [(2,)])
        assert rows(project.connection, "both") == {(2,): 1}


def test_names_with_capitals_are_those_of_the_adapter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for adapter, kept in (("duckdb", "orders"), ("postgres", "Orders")):
        folder = tmp_path / adapter
        folder.mkdir()
        seed = node("seed", "Orders", schema="Raw", columns=ORDERS["columns"])
        seed["original_file_path"] = "Orders.csv"
        (folder / "Orders.csv").write_text("id\n1\n2\n")
        model = node(
            "model", "Big", depends_on={"nodes": ["seed.Orders"]},
            compiled_code='select id from "d"."Raw"."Orders" where id > 1',
        )  # fmt: skip
        written(folder, seed, model, adapter=adapter)
        with open_project(folder) as project:
            assert [one.name for one in project.of("seed")] == [kept]
        assert run(str(folder), "--format", "json") == 0
        told = json.loads(capsys.readouterr().out)["relations"]
        assert {one["shown"]: one["rows"] for one in told} == {"Orders": 2, "Big": 1}, adapter


def test_a_seed_outside_its_project_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    away = {**ORDERS, "original_file_path": "../../etc/passwd"}
    assert run(str(written(tmp_path, away))) == 2
    assert "is not in" in capsys.readouterr().err


def test_a_seed_without_its_file_is_told_by_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = {**ORDERS, "original_file_path": "seeds/lost.csv"}
    assert run(str(written(tmp_path, lost))) == 0
    told = capsys.readouterr().err
    assert f"has no rows: no {tmp_path.resolve() / 'seeds' / 'lost.csv'}" in told
    assert "parquet" not in told


def test_rows_that_do_not_fit_leave_a_source_as_it_was(tmp_path: Path) -> None:
    with open_project(written(tmp_path, ORDERS)) as project:
        assert project.load("orders", [(1,), (2,)]) == 2
        assert project.load("orders", [(2,), (3,), (3,)]) == 3
        with pytest.raises(Exception, match="column 'id'"):
            project.load("orders", [(4,), ("x",)])
        assert rows(project.connection, "orders") == {(2,): 1, (3,): 2}


# --- what dbt does beside queries ----------------------------------------------------------------


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with hooks, and seeds of another delimiter with types of its own, compiled.

    DuckDB reads the file of `odd`, agate that of `slow`, which is the same.
    """
    folder = copied(tmp_path_factory.mktemp("hooked") / "shop")
    labels = [
        "null",
        "",
        '"a;b"',
        '"a\nb"',
        '""',
        '"NULL"',
        " x ",
        " Null ",
        '"  "',
        "n/a",
        '"""x"""',
    ]
    lines = [f"{number};{label};{number}.25\n" for number, label in enumerate(labels)]
    for name in ("odd", "slow"):
        empty = ';;\n;"";""\n' + (";x;null\n" if name == "slow" else "")
        (folder / "seeds" / f"{name}.csv").write_text("id;label;amount\n" + "".join(lines) + empty)
    (folder / "seeds" / "odd.yml").write_text(
        """
seeds:
  - name: odd
    config: {delimiter: ";", column_types: {id: bigint, label: varchar, amount: "decimal(8, 2)"}}
    columns:
      - name: id
        data_tests: [unique, not_null]
      - name: label
        data_tests:
          - not_null: {config: {severity: warn}}
          - unique: {config: {where: "id > 1"}}
  - name: slow
    config:
      delimiter: ";"
      fast: false
      column_types: {id: bigint, label: varchar, amount: "decimal(8, 2)"}
"""
    )
    (folder / "models" / "marts" / "read_slow.sql").write_text("select * from {{ ref('slow') }}")
    (folder / "models" / "marts" / "after.sql").write_text(
        """{{ config(materialized="incremental", unique_key="id", pre_hook="select   1",
            post_hook=["select 2", "vacuum"]) }}
select id, label from {{ ref("odd") }}
"""
    )
    with (folder / "dbt_project.yml").open("a") as file:
        file.write("on-run-end: [select 42]\n")
    dbt(folder, "seed", "compile --full-refresh", "docs generate --no-compile --empty-catalog")
    return folder


def test_hooks_and_increments_are_listed_by_model_and_by_run(
    hooked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_project(hooked) as project:
        untaken = {one.name: one.untaken for one in project.relations}
        assert untaken["after"] == (
            "pre-hook is not run: select 1",
            "post-hook is not run: select 2",
            "post-hook is not run: vacuum",
            "materialized as incremental: kept as --full-refresh makes it, without rows that only "
            "earlier runs saw",
        )
        assert untaken["odd"] == untaken["stg_orders"] == ()
        kinds = [one.partition(" is not run: ")[0] for one in project.untaken]
        assert kinds == ["on-run-start", "on-run-start", "on-run-end"]
    run(str(hooked))
    printed = capsys.readouterr()
    assert "         not taken: post-hook is not run: vacuum\n" in printed.out
    assert "note: on-run-end is not run: select 42\n" in printed.err


def test_a_seed_is_read_as_dbt_reads_it(hooked: Path, tmp_path: Path) -> None:
    assert run(str(hooked), "-D", str(tmp_path)) == 0
    with duckdb.connect(str(hooked / "dev.duckdb")) as db:
        for seed, model, columns in (
            ("odd", "after", "id, label"),
            ("slow", "read_slow", "id, label, amount"),
        ):
            wanted = db.execute(f"SELECT {columns} FROM {seed}").fetchall()
            found = db.execute(
                f"SELECT {columns} FROM read_csv(?, quote = '\"', allow_quoted_nulls = false, "
                "columns = {'id': 'BIGINT', 'label': 'VARCHAR'"
                + (", 'amount': 'DECIMAL(8, 2)'})" if "amount" in columns else "})"),
                [str(tmp_path / f"{model}.csv")],
            ).fetchall()
            assert Counter(found) == Counter(wanted), seed
            assert None in {label for _, label, *_ in wanted}


def test_tests_of_tables_are_keys_where_that_is_asked_for(hooked: Path) -> None:
    with open_project(hooked) as project:
        assert all(one.keys == () for one in project.relations)
        hidden = {name: one.hidden for name, one in project.connection.catalog.relations.items()}
        assert hidden["odd"]  # rows have numbers, or equal ones were one
        assert hidden["after"]
        project.load("odd", [(1, "a", None), (1, "b", None)])
        assert rows(project.connection, "unique_odd_id") == {(1, 2): 1}
    with open_project(hooked, keys=True) as project:
        (odd,) = [one for one in project.relations if one.name == "odd"]
        relations = project.connection.catalog.relations
        assert relations["odd"].hidden == relations["after"].hidden == ()
        assert odd.keys == ("UNIQUE (id)", "NOT NULL (id)")  # not those that warn, or of some rows
        project.load("odd", [(1, "a", None), (2, "a", None)])
        for broken in ([(1, "a", None), (1, "b", None)], [(None, "a", None)]):
            with pytest.raises(SqlIntegrityError, match="id"):
                project.load("odd", broken)
        assert rows(project.connection, "after") == {(1, "a"): 1, (2, "a"): 1}


def test_a_combination_that_is_unique_is_a_key_and_an_unknown_materialization_is_told(
    tmp_path: Path,
) -> None:
    kwargs = {"combination_of_columns": ["id", "Line No"]}
    test = node(
        "test", "both", compiled_code="select 1 as x where false",
        depends_on={"nodes": ["seed.orders"]},
        test_metadata={"name": "unique_combination_of_columns", "kwargs": kwargs},
    )  # fmt: skip
    columns = {"id": {"data_type": "integer"}, "Line No": {"data_type": "integer"}}
    seed = node("seed", "orders", columns=columns)
    model = node(
        "model", "own", config={"materialized": "audited"},
        compiled_code="select id from d.s.orders",
        depends_on={"nodes": ["seed.orders"]},
    )  # fmt: skip
    with open_project(written(tmp_path, seed, test, model), keys=True) as project:
        state = {one.name: one for one in project.relations}
        assert state["orders"].keys == ("UNIQUE (id, Line No)",)
        assert "'audited', a macro whose work is not known" in state["own"].untaken[0]
        with pytest.raises(SqlIntegrityError):
            project.load("orders", [(1, 2), (1, 2)])
