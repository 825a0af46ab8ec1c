"""A text is the same value of a logical type, or none, at every door: one function reads it.

The doors are fact files, read cell by cell and by column, JSON, the columns of a pipeline, and
casts in rules.
"""

from __future__ import annotations

import json
from datetime import time
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pytest

import deltafix
from deltafix.errors import DeltafixError
from deltafix.facts.codec import FactFormat, read_facts, read_value
from deltafix.facts.json_rows import read_json
from deltafix.facts.logical import logical_rows
from deltafix.facts.logical_types import logical_type
from deltafix.facts.schema import Schema
from deltafix.pipeline.columns import fit
from deltafix.pipeline.config import schemas_of

KINDS: Final = (
    "boolean", "date", "time", "timestamp", "timestamptz", "decimal(6, 2)", "decimal(20, 2)",
    "blob", "uuid",
)  # fmt: skip
TEXTS: Final = (
    "true", "false", "True", "yes", "t", "1", "0", " true",
    "2026-01-31", "2026-02-30", "2026-1-31", " 2026-01-31", "20260131", "0001-01-01", "0000-01-01",
    "2026-01-31 12:30", "2026-01-31T12", "2026-01-31T12:30:00.5", "2026-01-31 12:30:00.1234567",
    "2026-01-31 12:30:00Z", "2026-01-31 12:30+01", "2026-01-31 12:30:00+0100",
    "9999-12-31 23:59:59-01:00", "0001-01-01 00:00:00+01:00", "2026-01-31 25:00:00",
    "12:30", "12:30:00.5", "24:00:00", "12:60", "1:30", " 12:30", "12:30Z", "12:30:00.1234567",
    "-12.5", "12.505", "1e3", "1E-3", ".5", "5.", "1_000", "9999.99", "10000", "nan", " 1",
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC999C0B4EF8BB6D6BB9BD380A11",
    "{a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11}", "a-0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "00ff", "00F", r"\x00ff", r"\X00", "0x00", "zz", "abc", "nil", "NULL",
)  # fmt: skip
"""None is empty: that is a missing value in a pipeline, and no bytes in a fact file."""


_NONE: Final = "none of the type"


def _read(schema: Schema, piped: Schema, text: str) -> dict[str, Any]:
    """By door, the value of a text."""
    found: dict[str, Any] = {}
    for door, read in (
        ("cell", lambda: read_value(text, schema.columns[0], "here", 1)),
        ("JSON", lambda: read_json(json.dumps([[text]]).encode(), schema, "here")[0][0]),
        ("column", lambda: _of_column(schema, text)),
        ("cast", lambda: _cast(schema, text)),
    ):
        try:
            found[door] = read()
        except DeltafixError:
            found[door] = _NONE
    table = pa.table({"v": [text]})
    signed = fit(piped, table, ["v"], "here", sign=1)
    assert len(signed.bad) + signed.table.num_rows == 1
    rows = logical_rows(piped, _bare(signed.table))
    found["pipeline"] = rows[0][0] if rows else _NONE
    if rows and schema.columns[0].of is logical_type("time"):  # outputs have its text
        found["pipeline"] = time.fromisoformat(rows[0][0])
    if schema.columns[0].of is logical_type("uuid"):  # Arrow has its text, and outputs
        for door in ("column", "pipeline"):
            found[door] = found[door] if found[door] == _NONE else UUID(found[door])
    return found


def _bare(table: pa.Table) -> list[tuple[Any, ...]]:
    return [(one,) for one in table.column("v").to_pylist()]


def _of_column(schema: Schema, text: str) -> Any:
    data = f"{text}\n".encode() * 70
    return read_facts(data, schema, FactFormat(), "here").column(0)[0].as_py()


def _cast(schema: Schema, text: str) -> Any:
    kind = schema.columns[0].of
    assert kind is not None
    rules = f".decl t(t: symbol) .decl v(v: {kind.name}) v(as(t, {kind.name})) :- t(t)."
    with deltafix.connect(rules) as db:
        with db.transaction() as tx:
            tx.insert("t", [(text,)])
        return db.rows("v")[0][0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_is_one_value_at_every_door(kind: str, warm_kernel: None) -> None:
    program = deltafix.Program.parse(f".decl t(v: {kind})")
    with deltafix.connect(program) as db:
        schema = db.schemas["t"]
    piped = schemas_of(program)["t"]
    taken = 0
    for text in TEXTS:
        found = _read(schema, piped, text)
        assert len({(type(one), one) for one in found.values()}) == 1, (text, found)
        taken += found["cell"] != _NONE
    assert taken > 1


def test_what_a_pipeline_refuses_is_told_as_it_is_written() -> None:
    program = deltafix.Program.parse(".decl t(b: blob, d: date, p: decimal(6, 2), o: date?)")
    schema = schemas_of(program)["t"]
    given = {"b": ["zz", "", "0a"], "d": ["x", None, "2026-01-31"], "p": ["1.505", "1", "1"]}
    given["o"] = ["nil", "", None]
    signed = fit(schema, pa.table(given), [*given], "here", sign=1)
    assert signed.table.num_rows == 1
    assert [one.reason for one in signed.bad] == [
        r"b = 'zz' is no blob, which is written like \x00ff",
        "d is missing",
    ]
    for column, says in (
        ("d", "d = 'x' is no date, which is written like 2026-01-31"),
        ("p", "p = '1.505' is no decimal(6, 2), which is written like 1.55"),
        ("o", "o = 'nil' is no date?, which is written like 2026-01-31"),
    ):
        own = Schema("t", (schema.columns[schema.names.index(column)],))
        signed = fit(own, pa.table({column: given[column]}), [column], "here", sign=1)
        assert signed.bad[0].reason == says
