"""Rows of SQL's types, NULLs in any column, epoch by epoch, through each kind of table."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from tests.targets.test_values import EPOCHS, output

from deltafix.facts.logical import from_logical, logical_schema, to_logical
from deltafix.facts.schema import Schema
from deltafix.pipeline.config import OutputConfig
from deltafix.pipeline.targets.iceberg import FEW
from deltafix.pipeline.targets.kafka import KafkaTarget
from deltafix.pipeline.targets.registry import make_target
from deltafix.pipeline.targets.target import EpochRows
from deltafix.sql.logical import SqlLogical
from deltafix.sql.types import type_called

KINDS = (
    *("INTEGER", "BIGINT", "DOUBLE", "TEXT", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMPTZ"),
    *("DECIMAL(9, 2)", "SMALLINT"),
)
NAMES = [f"c{n}" for n in range(len(KINDS))]
AT = datetime(2026, 1, 31, 23, 59, 59, 999999)
VALUES: dict[str, tuple[Any, ...]] = {
    "INTEGER": (0, -(1 << 31)),
    "BIGINT": (1, (1 << 63) - 1),
    "DOUBLE": (0.5, -1e308),
    "TEXT": ("", "nil", "[1]", 'q"\\'),
    "BOOLEAN": (True, False),
    "DATE": (date(1969, 12, 31), date(2026, 1, 31)),
    "TIMESTAMP": (AT, datetime(1969, 12, 31)),
    "TIMESTAMPTZ": (AT.replace(tzinfo=UTC), datetime(1971, 1, 1, tzinfo=UTC)),
    "DECIMAL(9, 2)": (Decimal("0.01"), Decimal("-9999999.99")),
    "SMALLINT": (-1, 32767),
}

Row = tuple[Any, ...]


def schema_of(required: int) -> Schema:
    """A view with all types, of which the first `required` columns are NOT NULL."""
    logical = [SqlLogical(kind, nullable=n >= required) for n, kind in enumerate(KINDS)]
    types = ["record" if one.nullable else type_called(one.kind).base for one in logical]
    return Schema.of("view", NAMES, types, logical)  # type: ignore[arg-type]


def random_row(rng: Random, required: int) -> Row:
    return tuple(
        None if n >= required and rng.random() < 0.3 else rng.choice(VALUES[kind])
        for n, kind in enumerate(KINDS)
    )


def table_of(schema: Schema, rows: Any) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [() for _ in NAMES]
    fields = logical_schema(schema)
    arrays = [pa.array(one, field.type) for one, field in zip(columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=fields)


@pytest.mark.parametrize("required", [0, 2])
def test_values_come_back_from_the_engine_as_they_went(required: int) -> None:
    """`decode` is the inverse of `encode`, and equal values are equal inside."""
    rng = Random(required)
    schema = schema_of(required)
    rows = [random_row(rng, required) for _ in range(200)]
    table = table_of(schema, rows)
    inside = from_logical(schema, table)
    assert to_logical(schema, inside).equals(table)
    assert len(set(zip(*(c.to_pylist() for c in inside.columns), strict=True))) == len(set(rows))


@pytest.fixture(params=["delta", "iceberg", "postgres", "sqlite"])
def kind(request) -> str:
    return request.param


def same(row: Any) -> Row:
    """A row as tables give it: SQLite has text for decimals and times without a zone."""
    found = list(row)
    for n, (value, name) in enumerate(zip(row, KINDS, strict=True)):
        if value is not None and name.startswith("DECIMAL"):
            found[n] = Decimal(value)
        if value is not None and name == "TIMESTAMPTZ":
            found[n] = value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC)
    return tuple(found)


def output_of(kind: str, mode: str, tmp_path, request) -> tuple[OutputConfig, Any]:
    if kind != "sqlite":
        return output(kind, mode, tmp_path, request)
    import sqlalchemy as sa

    url = f"sqlite:///{tmp_path}/v.db"
    values = {"mode": mode, "key": None, "table": "v", "url": url, "options": {}}

    def read() -> list[dict[str, Any]]:
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        table = sa.Table("v", sa.MetaData(), autoload_with=engine)
        with engine.connect() as db:
            found = [dict(row._mapping) for row in db.execute(sa.select(table))]
        engine.dispose()
        return found

    return OutputConfig("view", tmp_path / "log", sink="sql", values=values), read


@pytest.mark.parametrize("mode", ["merge", "append"])
@pytest.mark.parametrize("required", [0, 2])
def test_agree_with_the_view_after_every_epoch(kind, mode, required, tmp_path, request) -> None:
    rng = Random(f"{kind} {mode} {required}")
    schema = schema_of(required)
    config, read = output_of(kind, mode, tmp_path, request)
    target = make_target(config, schema, uuid4().hex)
    assert target is not None
    view: set[Row] = set()
    for epoch in range(1, EPOCHS // 2 + 1):
        many = FEW + 20 if epoch == 4 else 6
        removed = rng.sample(sorted(view, key=repr), min(len(view), rng.randrange(many)))
        view -= set(removed)
        added = {random_row(rng, required) for _ in range(many)} - view - set(removed)
        if epoch == 3:  # enough for an epoch that takes more rows away than Iceberg names
            added |= {random_row(rng, required) for _ in range(FEW)} - view - set(removed)
        view |= added
        target.apply(EpochRows(schema, epoch, table_of(schema, added), table_of(schema, removed)))
        assert target.epoch() == epoch
        found = read()
        if mode == "merge":
            assert {same(list(row.values())) for row in found} == view
            assert len(found) == len(view)
        else:
            sums: dict[Row, int] = {}
            for row in found:
                *values, sign, _ = row.values()
                sums[same(values)] = sums.get(same(values), 0) + sign
            assert {row for row, count in sums.items() if count} == view
    target.close()


def test_messages_of_kafka_have_texts_for_what_json_has_not() -> None:
    schema = schema_of(2)
    target = KafkaTarget(
        schema, "nobody:1", "t", "n", envelope="debezium", key=["c0"], timeout=1, options={}
    )
    row = tuple(VALUES[kind][0] for kind in KINDS)
    rows = EpochRows(schema, 1, table_of(schema, [row]), table_of(schema, []))
    ((_, message),) = target._messages(rows)
    assert '"c5": "1969-12-31"' in message
    assert '"c8": "0.01"' in message
