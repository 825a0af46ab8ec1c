"""Rows of SQL's types, NULLs in any column, epoch by epoch, through each kind of table."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.targets.test_values import EPOCHS, output

from deltafix.errors import ConfigError, SinkError
from deltafix.facts.logical import from_logical, logical_schema, to_logical
from deltafix.facts.schema import Schema
from deltafix.pipeline.config import OutputConfig
from deltafix.pipeline.targets.iceberg import FEW
from deltafix.pipeline.targets.kafka import KafkaTarget
from deltafix.pipeline.targets.registry import make_target
from deltafix.pipeline.targets.target import EpochRows
from deltafix.sql.logical import SqlLogical
from deltafix.sql.types import (
    BIGINT,
    BLOB,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    SMALLINT,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    SqlType,
    Struct,
    array_type,
    decimal_type,
    struct_type,
)

FLAT = (
    *(INTEGER, BIGINT, DOUBLE, TEXT, BOOLEAN, DATE, TIMESTAMP, TIMESTAMPTZ),
    *(decimal_type(9, 2), SMALLINT, BLOB, INTERVAL, UUID),
)
PLAIN = (
    *FLAT, *map(array_type, (INTEGER, TEXT, TIMESTAMP, decimal_type(9, 2), INTERVAL, UUID)),
)  # fmt: skip
RECORD = struct_type((("x y", INTEGER), ("b", array_type(TEXT)), ("t", TIMESTAMPTZ)))
KINDS = (*PLAIN, array_type(array_type(TEXT)), RECORD, array_type(RECORD))
TAKEN = {"sqlite": FLAT, "postgres": PLAIN, "delta": KINDS, "iceberg": KINDS[:-1]}
AT = datetime(2026, 1, 31, 23, 59, 59, 999999)
VALUES: dict[SqlType, tuple[Any, ...]] = {
    INTEGER: (0, -(1 << 31)),
    BIGINT: (1, (1 << 63) - 1),
    DOUBLE: (0.5, -1e308),
    TEXT: ("", "nil", "[1]", 'q"\\'),
    BOOLEAN: (True, False),
    DATE: (date(1969, 12, 31), date(2026, 1, 31)),
    TIMESTAMP: (AT, datetime(1969, 12, 31)),
    TIMESTAMPTZ: (AT.replace(tzinfo=UTC), datetime(1971, 1, 1, tzinfo=UTC)),
    decimal_type(9, 2): (Decimal("0.01"), Decimal("-9999999.99")),
    SMALLINT: (-1, 32767),
    BLOB: (b"", b"\x00'\\\xff"),
    UUID: ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"),
    INTERVAL: ("1 month -2 days 03:00:00.5", "30 days", "-1 year -2 months"),  # texts outside
}

Row = tuple[Any, ...]


def schema_of(required: int, kinds: tuple[SqlType, ...] = KINDS) -> Schema:
    """A view with all types, of which the first `required` columns are NOT NULL."""
    logical = [SqlLogical(kind, nullable=n >= required) for n, kind in enumerate(kinds)]
    types = ["record" if one.nullable else one.type.base for one in logical]
    return Schema.of("view", [f"c{n}" for n in range(len(kinds))], types, logical)  # type: ignore[arg-type]


def random_value(rng: Random, kind: SqlType, *, required: bool = False) -> Any:
    if not required and rng.random() < 0.3:
        return None
    if kind.fields:
        return Struct.of(
            tuple(name for name, _ in kind.fields),
            tuple(random_value(rng, one) for _, one in kind.fields),
        )
    if kind.element is None:
        return rng.choice(VALUES[kind])
    return tuple(random_value(rng, kind.element) for _ in range(rng.randrange(4)))


def random_row(rng: Random, schema: Schema) -> Row:
    return tuple(
        random_value(rng, one.logical.type, required=not one.nullable) for one in schema.columns
    )


def table_of(schema: Schema, rows: Any) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [() for _ in schema.columns]
    fields = logical_schema(schema)
    arrays = [
        pa.array([shown(value) for value in one], field.type)
        for one, field in zip(columns, fields, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=fields)


@pytest.mark.parametrize("required", [0, 2])
def test_values_come_back_from_the_engine_as_they_went(required: int) -> None:
    """`decode` is the inverse of `encode`, and equal values are equal inside."""
    rng = Random(required)
    schema = schema_of(required)
    rows = [random_row(rng, schema) for _ in range(200)]
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
    for n, (value, kind) in enumerate(zip(row, KINDS, strict=False)):
        if value is not None and kind.is_decimal:
            found[n] = Decimal(value)
        if value is not None and kind is TIMESTAMPTZ:
            found[n] = value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC)
    return tuple(map(hashed, found))


def hashed(value: Any) -> Any:
    value = (
        str(value) if isinstance(value, uuid.UUID) else value
    )  # PostgreSQL's are none of Arrow's
    value = tuple(value.values()) if isinstance(value, dict) else value
    return tuple(map(hashed, value)) if isinstance(value, list | tuple) else value


def shown(value: Any) -> Any:
    """A value with dicts for structs."""
    if isinstance(value, Struct):
        return dict(zip(value.names, map(shown, value), strict=True))
    return list(map(shown, value)) if isinstance(value, tuple) else value


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
    schema = schema_of(required, TAKEN[kind])
    config, read = output_of(kind, mode, tmp_path, request)
    target = make_target(config, schema, uuid.uuid4().hex)
    assert target is not None
    view: set[Row] = set()
    for epoch in range(1, EPOCHS // 2 + 1):
        many = FEW + 20 if epoch == 4 else 6
        removed = rng.sample(sorted(view, key=repr), min(len(view), rng.randrange(many)))
        view -= set(removed)
        added = {random_row(rng, schema) for _ in range(many)} - view - set(removed)
        if epoch == 3:  # enough for an epoch that takes more rows away than Iceberg names
            added |= {random_row(rng, schema) for _ in range(FEW)} - view - set(removed)
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


@pytest.mark.parametrize("kind", ["postgres", "sqlite"], indirect=True)
@pytest.mark.parametrize("required", [0, 2, len(FLAT)])
def test_rows_of_a_key_replace_each_other_whichever_columns_may_be_null(
    kind, required, tmp_path, request
) -> None:
    rng = Random(f"{kind} {required}")
    schema = schema_of(required, FLAT)
    config, read = output_of(kind, "merge", tmp_path, request)
    config = replace(config, values={**config.values, "key": ["c3", "c1"]})
    target = make_target(config, schema, uuid.uuid4().hex)
    assert target is not None
    view: dict[Row, Row] = {}
    replaced = 0
    for epoch in range(1, EPOCHS + 1):
        before, view = view, dict(view)
        for row in (random_row(rng, schema) for _ in range(5)):
            key = row[3], row[1]
            if rng.random() < 0.3:
                view.pop(key, None)
            else:
                replaced += key in view
                view[key] = row
        added, removed = (
            set(a.values()) - set(b.values()) for a, b in ((view, before), (before, view))
        )
        target.apply(EpochRows(schema, epoch, table_of(schema, added), table_of(schema, removed)))
        found = read()
        assert {same(list(row.values())) for row in found} == set(view.values())
        assert len(found) == len(view)
    assert replaced
    row = next(iter(view.values()))
    other = (*row[:4], not row[4], *row[5:])
    news = [(*row[:3], "new", flag, *row[5:]) for flag in (True, False)]
    for added in ([other], news):
        if kind == "postgres" or required > 3:  # others have no key where it may be NULL
            with pytest.raises(SinkError, match=r"have the key \(c3, c1\)|UNIQUE"):
                target.apply(EpochRows(schema, 99, table_of(schema, added), table_of(schema, [])))
    target.close()


def test_messages_of_kafka_have_texts_for_what_json_has_not() -> None:
    schema = schema_of(2)
    target = KafkaTarget(
        schema, "nobody:1", "t", "n", envelope="debezium", key=["c0"], timeout=1, options={}
    )
    row: Row = tuple(b"a\xff" if kind is BLOB else VALUES[kind][0] for kind in FLAT)
    row += ((1, None), ("a",), (AT,), (), (), (VALUES[UUID][0],), ((), None))
    row += (Struct.of(("x y", "b", "t"), (1, ("q",), None)), ())
    rows = EpochRows(schema, 1, table_of(schema, [row]), table_of(schema, []))
    ((_, message),) = target._messages(rows)
    assert '"c5": "1969-12-31"' in message
    assert '"c8": "0.01"' in message
    assert r'"c10": "\\x61ff"' in message
    assert '"c11": "1 month -2 days 03:00:00.5"' in message
    assert '"c12": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "c13": [1, null]' in message
    assert '"c14": ["a"], "c15": ["2026-01-31 23:59:59.999999"]' in message
    assert '"c18": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]' in message


def test_databases_of_which_some_have_no_arrays_take_none() -> None:
    values = {"mode": "merge", "key": None, "table": "v", "url": "sqlite://", "options": {}}
    config = OutputConfig("view", Path("log"), sink="sql", values=values)
    with pytest.raises(ConfigError, match=r"column 'c13' of view is INTEGER\[\]"):
        make_target(config, schema_of(0), "state")
    config = OutputConfig("view", Path("log"), sink="postgres", values={**values, "dsn": ""})
    with pytest.raises(ConfigError, match=r"column 'c19' of view is TEXT\[\]\[\]"):
        make_target(config, schema_of(0), "state")
    with pytest.raises(ConfigError, match="column 'c0' of view is STRUCT"):
        make_target(config, schema_of(0, (RECORD,)), "state")
    values |= {"catalog": "c"}
    config = OutputConfig("view", Path("log"), sink="iceberg", values=values)
    with pytest.raises(ConfigError, match=r"column 'c21' of view .* pyiceberg writes empty"):
        make_target(config, schema_of(0), "state")
