"""Lineage of PostgreSQL's own views: its two files of view definitions over its catalog tables.

The files come with the package `pgserver`; what the views depend on was read off their text.
The catalog's tables are not SQL there: their CREATE TABLE is made of the server's bootstrap script.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from deltafix.analyses.job import Job
from deltafix.analyses.lineage import LINEAGE

_SPEC = find_spec("pgserver")
pytestmark = pytest.mark.skipif(_SPEC is None, reason="pgserver has no wheel for this system")
DIALECT = "-- deltafix: dialect=postgres\n"
VIEWS = {"information_schema.sql": "", "system_views.sql": "SET search_path TO pg_catalog;\n"}
# Not read by sqlglot: WITH (security_barrier), and columns of an unnest taken apart by (x).n
UNREAD = {
    "pg_catalog.pg_stats", "pg_catalog.pg_stats_ext", "pg_catalog.pg_stats_ext_exprs",
    "information_schema.parameters", "information_schema.element_types",
}  # fmt: skip


def share() -> Path:
    assert _SPEC is not None
    assert _SPEC.origin is not None
    return Path(_SPEC.origin).parent / "pginstall" / "share" / "postgresql"


def catalog() -> dict[str, list[str]]:
    """The catalog's tables and their columns, from the bootstrap script."""
    text = (share() / "postgres.bki").read_text()
    found = re.findall(r"^create (\w+) .*\n \(\n((?: .*\n)*?) \)$", text, re.MULTILINE)
    return {table: re.findall(r"^ (\w+) = ", body, re.MULTILINE) for table, body in found}


def source(name: str) -> str:
    return DIALECT + VIEWS[name] + (share() / name).read_text()


def tree() -> dict[str, str]:
    tables = [
        f"CREATE TABLE pg_catalog.{table} ({', '.join(f'{column} INT' for column in columns)});\n"
        for table, columns in catalog().items()
    ]
    return {"catalog.sql": "".join(tables)} | {name: source(name) for name in VIEWS}


@pytest.fixture(scope="module", name="job")
def loaded() -> Iterator[Job]:
    with Job(LINEAGE) as made:
        change = made.update([LINEAGE.extract(p, text.encode(), "") for p, text in tree().items()])
        assert change.unreadable == {}
        yield made


def into(job: Job, table: str) -> list[str]:
    found = [row for row in job.rows("flows") if row[0] == table]
    return [f"{c} {str(s).partition('.')[2]}.{d} {how}" for _, c, s, d, how in found]


def test_every_view_is_read_or_told_unread(job: Job) -> None:
    written = set()
    for name, schema in (
        ("information_schema.sql", "information_schema"),
        ("system_views.sql", "pg_catalog"),
    ):
        names = re.findall(r"^CREATE VIEW (\w+)", source(name), re.MULTILINE)
        written |= {f"{schema}.{view}" for view in names}
    read = {table for table, kind in job.rows("table") if kind == "view"}
    assert len(written) > 130
    assert written - read == UNREAD
    assert read <= written
    assert len(job.rows("unparsed")) == len(UNREAD)


def test_every_column_is_resolved_but_the_system_column(job: Job) -> None:
    assert {row[1] for row in job.rows("unknown_column")} == {"tableoid"}
    assert job.rows("ambiguous") == job.rows("ambiguous_table") == []
    assert job.rows("unknown_table") == [("information_schema.data_type_privileges", "parameters")]
    tables = catalog()
    bases = [row for row in job.rows("origin") if str(row[2]).removeprefix("pg_catalog.") in tables]
    assert len(bases) > 500
    for view, column, table, base in bases:
        assert base in [*tables[str(table).removeprefix("pg_catalog.")], "tableoid"], (view, column)


def test_views_read_by_hand(job: Job) -> None:
    assert into(job, "information_schema.schemata") == [
        "(rows) pg_authid.oid filter",
        "(rows) pg_namespace.nspowner filter",
        "(rows) pg_namespace.oid filter",
        "schema_name pg_namespace.nspname value",
        "schema_owner pg_authid.rolname value",
    ]
    assert into(job, "pg_catalog.pg_tables") == [
        "(rows) pg_class.relkind filter",
        "(rows) pg_class.relnamespace join",
        "(rows) pg_class.reltablespace join",
        "(rows) pg_namespace.oid join",
        "(rows) pg_tablespace.oid join",
        "hasindexes pg_class.relhasindex value",
        "hasrules pg_class.relhasrules value",
        "hastriggers pg_class.relhastriggers value",
        "rowsecurity pg_class.relrowsecurity value",
        "schemaname pg_namespace.nspname value",
        "tablename pg_class.relname value",
        "tableowner pg_class.relowner value",
        "tablespace pg_tablespace.spcname value",
    ]
    # a derived table with a UNION, joined twice to one table; CASE
    assert into(job, "information_schema.applicable_roles") == [
        "(rows) pg_auth_members.member join",
        "(rows) pg_auth_members.roleid join",
        "(rows) pg_authid.oid filter",
        "(rows) pg_authid.oid join",
        "(rows) pg_authid.rolname filter",
        "(rows) pg_database.datdba join",
        "(rows) pg_database.datname filter",
        "grantee pg_authid.rolname value",
        "is_grantable pg_auth_members.admin_option condition",
        "role_name pg_authid.rolname value",
    ]


def test_a_star_over_a_view_over_a_catalog(job: Job) -> None:
    users = [row for row in job.rows("origin") if row[0] == "pg_catalog.pg_stat_user_tables"]
    assert ("pg_catalog.pg_stat_user_tables", "relname", "pg_catalog.pg_class", "relname") in users
    reached = {
        row[2] for row in job.rows("impact") if row[:2] == ("pg_catalog.pg_class", "relname")
    }
    assert {"pg_catalog.pg_stat_user_tables", "pg_catalog.pg_statio_user_tables"} <= reached
    assert "pg_catalog.pg_user" not in reached


def test_one_edited_view_costs_what_it_changes(job: Job) -> None:
    first = job.load_seconds
    assert first is not None
    text = source("system_views.sql")
    edited = text.replace(
        "C.relname AS tablename,\n        pg_get_userbyid",
        "C.relkind AS tablename,\n        pg_get_userbyid",
        1,
    )
    assert edited != text
    change = job.update([LINEAGE.extract("system_views.sql", edited.encode(), "")])
    moved = "pg_catalog.pg_tables", "tablename", "pg_catalog.pg_class"
    assert change.came["flows"] == ((*moved, "relkind", "value"),)
    assert change.went["flows"] == ((*moved, "relname", "value"),)
    assert change.work.touched < job.fact_count / 50
    back = job.update([LINEAGE.extract("system_views.sql", text.encode(), "")])
    assert back.came["flows"] == change.went["flows"]
    dropped = tree()["catalog.sql"].replace("relhasindex INT, ", "", 1)
    change = job.update([LINEAGE.extract("catalog.sql", dropped.encode(), "")])
    assert {row[1:] for row in change.came["unknown_column"]} == {
        ("relhasindex", "pg_catalog.pg_class")
    }
    assert {row[0] for row in change.came["unknown_column"]} == {
        "pg_catalog.pg_tables", "pg_catalog.pg_matviews",
    }  # fmt: skip
