"""Lineage of a dbt project from the manifest that dbt wrote: nodes in, rows out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deltafix.analyses.job import Job
from deltafix.analyses.lineage import LINEAGE


def node(kind: str, name: str, code: str | None = None, **more: Any) -> dict[str, Any]:
    said = {
        "resource_type": kind, "name": name, "database": "dev", "schema": "main",
        "relation_name": f'"dev"."main"."{name}"', "original_file_path": f"{kind}s/{name}.sql",
        "columns": {}, "compiled_code": code, "config": {}, "depends_on": {"nodes": []},
    }  # fmt: skip
    return {f"{kind}.{name}": said | more}


SHOP = {
    **node("model", "stg", 'select id, amount as euros from "dev"."main"."raw_orders"'),
    **node("model", "mart", 'select s.euros, c.name from "dev"."main"."stg" s join'
           ' "dev"."main"."country" c on c.id = s.id'),
    **node("snapshot", "kept", 'select * from "dev"."main"."mart"'),
    **node("seed", "country", columns={"id": {}, "name": {}, "capital": {}}),
    **node("test", "not_null", 'select * from "dev"."main"."stg" where id is null'),
}  # fmt: skip
SOURCES = node("source", "orders", relation_name='"dev"."main"."raw_orders"',
               columns={"id": {}, "amount": {}, "note": {}})  # fmt: skip


def manifest(*more: dict[str, Any], adapter: str = "duckdb") -> bytes:
    nodes = {key: one for part in (SHOP, *more) for key, one in part.items()}
    metadata = {"dbt_schema_version": "v12", "adapter_type": adapter}
    return json.dumps({"metadata": metadata, "nodes": nodes, "sources": SOURCES}).encode()


def asked(data: bytes, view: str) -> list[str]:
    with Job(LINEAGE) as job:
        assert job.update([LINEAGE.extract("target/manifest.json", data, "")]).unreadable == {}
        job.check_invariants()
        return [" ".join(row).replace("dev.main.", "") for row in job.rows(view)]


def test_models_snapshots_seeds_and_sources_have_the_names_of_the_database() -> None:
    assert asked(manifest(), "feeds") == [
        "country mart", "mart kept", "raw_orders stg", "stg mart",
    ]  # fmt: skip
    assert asked(manifest(), "origin") == [
        "kept euros raw_orders amount", "kept name country name",
        "mart euros raw_orders amount", "mart name country name",
        "stg euros raw_orders amount", "stg id raw_orders id",
    ]  # fmt: skip
    assert asked(manifest(), "unread") == [
        "country capital", "kept euros", "kept name", "raw_orders note",
    ]  # fmt: skip
    assert asked(manifest(), "unknown_table") == asked(manifest(), "unknown_column") == []


def test_hooks_and_operations_read_and_fill() -> None:
    hooks = {"pre-hook": [{"sql": "insert into log select id from {{ this }}"}],
             "post-hook": [{"sql": "delete from {{ other('raw_orders') }}"}]}  # fmt: skip
    more = node("model", "stg", SHOP["model.stg"]["compiled_code"], config=hooks)
    start = node("operation", "start", "create table log (id int)", relation_name=None)
    data = manifest(more, start)
    assert "stg log" in asked(data, "feeds")
    assert asked(data, "maybe_read") == ["raw_orders note models/stg.sql"]  # not rendered


def test_what_dbt_has_not_compiled_may_read_what_it_depends_on() -> None:
    above = {"nodes": ["seed.country", "macro.x"]}
    python = node("model", "learned", "def model(dbt, session): ...", language="python",
                  depends_on=above)  # fmt: skip
    raw = node("model", "later", None, depends_on=above)
    wrong = node("model", "broken", "select from where capital")
    for more, file in ((python, "learned"), (raw, "later")):
        assert asked(manifest(more), "maybe_read") == [f"country capital models/{file}.sql"]
        assert "country capital" not in asked(manifest(more), "unread")
    assert asked(manifest(wrong), "unparsed") != []
    assert asked(manifest(wrong), "maybe_read") == []  # it names no table


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", "no manifest of a dbt project"),
        (b"[]", "no manifest of a dbt project"),
        (b'{"name": "an extension of a browser"}', "no manifest of a dbt project"),
        (manifest(adapter="klingon"), "sqlglot has no dialect for dbt's adapter 'klingon'"),
        (manifest({"a": {"resource_type": "model"}}),
         "a manifest (v12) that is not as dbt writes it: 'original_file_path'"),
    ],
)  # fmt: skip
def test_what_is_no_manifest_says_so(data: bytes, reason: str) -> None:
    assert LINEAGE.extract("manifest.json", data, "").error == reason


def test_a_compiled_project_is_read_as_dbt_compiled_it(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mart.sql").write_text("select {{ anything() }}")
    assert list(LINEAGE.tree(tmp_path).scan().files) == ["models/mart.sql"]
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "manifest.json").write_bytes(manifest())
    assert list(LINEAGE.tree(tmp_path).scan().files) == ["models/mart.sql"]  # not compiled
    (tmp_path / "target" / "compiled").mkdir()
    assert list(LINEAGE.tree(tmp_path).scan().files) == ["manifest.json"]
    assert LINEAGE.reads("manifest.json")
    assert not LINEAGE.reads("package.json")
    assert list(LINEAGE.tree(tmp_path / "models").scan().files) == ["mart.sql"]
