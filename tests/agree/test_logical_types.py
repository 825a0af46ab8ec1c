"""Rules over dates, moments, decimals, booleans, bytes and missing values, against plain Python.

Each part of a random program says twice what it derives: as a rule, and as a function of rows of
Python's values. After every transaction each relation, its delta and its Arrow table are compared;
the second route is the same program on a database that has rows as the engine does (`physical`),
and, at the end, one that is opened from what the first one kept. The third are the same rules as
views over tables of SQL.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltafix
import deltafix.sql
from deltafix.engine.literals import read_facts
from deltafix.facts.logical_types import logical_type
from deltafix.facts.schema import Schema, show_row

Rows = set[tuple[Any, ...]]
Facts = dict[str, Rows]

Said = tuple[str, tuple[Any, ...]]

SQL = {"number": "BIGINT", "float": "DOUBLE", "symbol": "TEXT"}
"""What SQL calls the types of the language that are not logical ones."""
KEYS = ("a", "b", "c")
DOORS = ("rows", "arrow", "text")


@dataclass
class Kind:
    """A type, values of it, and constants of rules as text and as Python has them."""

    name: str
    values: list[Any]
    texts: dict[str, Any]
    adds: dict[str, Callable[[Any], Any]] = field(default_factory=dict)


def _day(n: int) -> date:
    return date(2026, 1, 1) + timedelta(days=n)


def _moment(n: int, zone: Any = None) -> datetime:
    return datetime(2026, 1, 1, 12, tzinfo=zone) + timedelta(microseconds=n)


KINDS = [
    Kind(
        "date",
        [_day(n) for n in range(-3, 4)],
        {'"2026-01-01"': _day(0), 'as("2025-12-30", date)': _day(-2), "as(20456, date)": _day(2)},
        {"{} + 1": lambda d: d + timedelta(1), "{} - 2": lambda d: d - timedelta(2)},
    ),
    Kind(
        "timestamp",
        [_moment(n) for n in (-1, 0, 1, 86_400_000_000)],
        {'"2026-01-01 12:00:00"': _moment(0), '"2026-01-01T12:00:00.000001"': _moment(1)},
        {"{} + 1": lambda t: t + timedelta(microseconds=1)},
    ),
    Kind(
        "timestamptz",
        [_moment(n, UTC) for n in (-1, 0, 1)],
        {'"2026-01-01 13:00:00+01:00"': _moment(0, UTC)},
        {"1 + {}": lambda t: t + timedelta(microseconds=1)},
    ),
    Kind(
        "decimal(6, 2)",
        [Decimal(n).scaleb(-2) for n in (-250, -1, 0, 1, 99, 100, 12345)],
        {
            "0.99": Decimal("0.99"),
            "1": Decimal(1),
            '"123.45"': Decimal("123.45"),
            "-2.5": Decimal("-2.5"),
        },
        {
            "{} + 0.01": lambda p: p + Decimal("0.01"),
            "{} * 3": lambda p: p * 3,
            "2 * {}": lambda p: p * 2,
            "-{}": lambda p: -p,
            "{0} - {0}": lambda p: p - p,
        },
    ),
    Kind(
        "number",
        [-(2**63), -1, 0, 7, 2**63 - 1],
        {"0": 0, "-1": -1},
        {"{} band 1": lambda n: n & 1},
    ),
    Kind("float", [-1.5, 0.0, 2.5, 1e300], {"0.0": 0.0, "2.5": 2.5}),
    Kind("symbol", ["", "a", "nil", "Ä", '"'], {'"a"': "a", '"nil"': "nil"}),
    Kind("boolean", [False, True], {'"true"': True, '"false"': False}),
    Kind("blob", [b"", b"\x00", b"\xff\x00", b"a"], {'"ff00"': b"\xff\x00", '"\\\\x61"': b"a"}),
]


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return value.hex() if isinstance(value, bytes) else str(value)


@dataclass
class Case:
    """A program and what it means."""

    kind: Kind
    lines: list[str]
    views: dict[str, Callable[[Facts], Rows]]


TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">": lambda a, b: a > b,
}


def _grouped(rows: Iterable[tuple[Any, ...]]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for key, value in rows:
        found.setdefault(key, []).append(value)
    return found


def _closed(edges: Rows) -> Rows:
    found = set(edges)
    while True:
        more = {(x, w) for x, y in found for z, w in edges if y == z} - found
        if not more:
            return found
        found |= more


def case_of(rng: random.Random) -> Case:
    """A random program over `a(k, v)`, `b(k, v)`, and `m(k, v)`, whose values may be missing."""
    kind = rng.choice(KINDS)
    text, constant = rng.choice([*kind.texts.items()])
    op, test = rng.choice([*TESTS.items()])
    lines = [
        f".decl {name}(k: symbol, v: {kind.name}{mark})"
        for name, mark in (("a", ""), ("b", ""), ("m", "?"))
    ]
    views: dict[str, Callable[[Facts], Rows]] = {}

    def rule(name: str, columns: str, text: str, means: Callable[[Facts], Rows]) -> None:
        lines.extend((f".decl {name}({columns})", text))
        views[name] = means

    pair = f"k: symbol, v: {kind.name}"
    rule(
        "tested",
        pair,
        f"tested(k, v) :- a(k, v), v {op} {text}.",
        lambda f: {r for r in f["a"] if test(r[1], constant)},
    )
    rule(
        "joined",
        f"k: symbol, v: {kind.name}, w: {kind.name}",
        f"joined(k, v, w) :- a(k, v), b(k, w), v {op} w.",
        lambda f: {(k, v, w) for k, v in f["a"] for j, w in f["b"] if j == k and test(v, w)},
    )
    rule(
        "same",
        "v: " + kind.name,
        "same(v) :- a(_, v), b(_, v).",
        lambda f: {(v,) for _, v in f["a"]} & {(v,) for _, v in f["b"]},
    )
    rule("lacks", pair, "lacks(k, v) :- a(k, v), !b(k, v).", lambda f: f["a"] - f["b"])
    rule(
        "opened",
        pair,
        "opened(k, v) :- m(k, [v]).",
        lambda f: {r for r in f["m"] if r[1] is not None},
    )
    rule(
        "missing",
        "k: symbol",
        "missing(k) :- m(k, nil).",
        lambda f: {(k,) for k, v in f["m"] if v is None},
    )
    rule(
        "copied",
        f"k: symbol, v: {kind.name}?",
        "copied(k, v) :- m(k, v). copied(k, [v]) :- a(k, v).",
        lambda f: f["m"] | f["a"],
    )
    rule(
        "least",
        pair,
        "least(k, x) :- a(k, _), x = min v : { a(k, v) }.",
        lambda f: {(k, min(v)) for k, v in _grouped(f["a"]).items()},
    )
    rule(
        "most",
        "v: " + kind.name,
        "most(max v : { a(_, v) }).",
        lambda f: {(max(v for _, v in f["a"]),)} if f["a"] else set(),
    )
    rule(
        "best",
        f"k: symbol, v: {kind.name}<min>",
        "best(k, v) :- a(k, v). best(k, v) :- b(k, v).",
        lambda f: {(k, min(v)) for k, v in _grouped(f["a"] | f["b"]).items()},
    )
    rule(
        "reach",
        f"x: {kind.name}, y: {kind.name}",
        "reach(x, y) :- a(k, x), b(k, y). reach(x, z) :- reach(x, y), reach(y, z).",
        lambda f: _closed({(x, y) for k, x in f["a"] for j, y in f["b"] if j == k}),
    )
    rule(
        "text",
        "k: symbol, t: symbol",
        "text(k, to_string(v)) :- a(k, v).",
        lambda f: {(k, text_of(v)) for k, v in f["a"]},
    )
    if kind.name not in SQL:
        rule("again", pair, f"again(k, as(t, {kind.name})) :- text(k, t).", lambda f: f["a"])
    for number, (term, means) in enumerate(kind.adds.items()):
        rule(
            f"added{number}",
            pair,
            f"added{number}(k, {term.format('v')}) :- a(k, v).",
            lambda f, means=means: {(k, means(v)) for k, v in f["a"]},
        )
    if kind.name.startswith("decimal"):
        rule(
            "total",
            pair,
            "total(k, x) :- b(k, _), x = sum v : { a(k, v) }.",
            lambda f: {(k, sum((v for j, v in f["a"] if j == k), Decimal(0))) for k, _ in f["b"]},
        )
        rule(
            "whole",
            "k: symbol, n: number",
            "whole(k, to_number(v)) :- a(k, v).",
            lambda f: {(k, int(v)) for k, v in f["a"]},
        )
    if kind.name in ("date", "timestamp"):
        unit = timedelta(1) if kind.name == "date" else timedelta(microseconds=1)
        rule(
            "apart",
            "k: symbol, n: number",
            "apart(k, v - w) :- a(k, v), b(k, w).",
            lambda f: {(k, (v - w) // unit) for k, v in f["a"] for j, w in f["b"] if j == k},
        )
    if kind.name == "timestamp":
        rule(
            "days",
            "d: date",
            "days(as(v, date)) :- a(_, v).",
            lambda f: {(v.date(),) for _, v in f["a"]},
        )
    chosen = rng.sample([*views], rng.randint(4, len(views)))
    if "again" in chosen:
        chosen.append("text")
    kept = [line for name in views for line in _lines(lines, name) if name in chosen]
    return Case(kind, lines[:3] + kept, {name: views[name] for name in views if name in chosen})


def _lines(lines: list[str], name: str) -> list[str]:
    place = next(n for n, line in enumerate(lines) if line.startswith(f".decl {name}("))
    return lines[place : place + 2]


def _row(rng: random.Random, relation: str, kind: Kind) -> tuple[Any, ...]:
    value = rng.choice(kind.values)
    if relation == "m" and rng.random() < 0.4:
        value = None
    return rng.choice(KEYS), value


def _held(db: deltafix.Database, name: str, rows: Rows) -> Rows:
    """Rows as the engine has them, by what the types of the columns say, one value at a time."""
    kinds = [logical_type(one.type) for one in db.program.relation(name).attributes]
    return {
        tuple(v if k is None else k.encode(v) for k, v in zip(kinds, row, strict=True))
        for row in rows
    }


@pytest.mark.parametrize("seed", range(48))
def test_rules_over_logical_types_mean_what_python_says(seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"logical {seed}")
    case = case_of(rng)
    text = "\n".join(case.lines)
    facts: Facts = {"a": set(), "b": set(), "m": set()}
    before: Facts = {name: set() for name in case.views}
    with (
        deltafix.connect(text, tmp_path / "state") as db,
        deltafix.connect(text, physical=True) as second,
    ):
        for _ in range(6):
            edits = [(n, _row(rng, n, case.kind)) for n in facts for _ in range(rng.randint(0, 4))]
            with db.transaction() as tx, second.transaction() as other:
                for name, row in edits:
                    if row in facts[name]:
                        tx.delete(name, [row])
                        other.delete(name, [*_held(db, name, {row})])
                        facts[name].remove(row)
                    else:
                        _insert(rng.choice(DOORS), tx, db.schemas, (name, row), case.kind)
                        other.insert(name, [*_held(db, name, {row})])
                        facts[name].add(row)
            for name, means in case.views.items():
                expected = set(means(facts))
                assert set(db.rows(name)) == expected, (name, text)
                assert set(second.rows(name)) == _held(db, name, expected), (name, text)
                table = db.to_arrow(name)
                assert {tuple(row.values()) for row in table.to_pylist()} == expected
                assert set(tx.delta[name].added) == expected - before[name]
                assert set(tx.delta[name].removed) == before[name] - expected
                for row in expected:
                    assert db.select(name, row) == [row]
                before[name] = expected
        db.check_invariants()
        for name, rows in before.items():
            for row in sorted(rows, key=str)[:2]:
                assert db.why(name, row).goal.row == row
    with deltafix.connect(text, tmp_path / "state") as again:
        for name, rows in {**before, **facts}.items():
            assert set(again.rows(name)) == rows


def _insert(
    way: str, tx: deltafix.Transaction, schemas: Mapping[str, Schema], said: Said, kind: Kind
) -> None:
    """By one of the doors."""
    name, row = said
    if way == "rows":
        tx.insert(name, [row])
    elif way == "arrow":
        values = pa.array([row[1]], _arrow(kind))
        tx.insert(name, pa.table({"k": [row[0]], "v": values}))
    else:
        for relation, read in read_facts(f"{show_row(name, row)}.", schemas):
            tx.insert(relation, [read])


def _arrow(kind: Kind) -> pa.DataType:
    return {
        "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
        "timestamptz": pa.timestamp("us", "Europe/Berlin"),
        "decimal(6, 2)": pa.decimal128(20, 2),
        "decimal(30, 4)": pa.decimal128(38, 4),
        "boolean": pa.bool_(),
        "blob": pa.large_binary(),
        "number": pa.int64(),
        "float": pa.float64(),
        "symbol": pa.large_string(),
    }[kind.name]


@pytest.mark.parametrize("seed", range(24))
def test_rules_as_views_mean_the_same(seed: int, warm_kernel: None) -> None:
    rng = random.Random(f"logical views {seed}")
    case = case_of(rng)
    views = [name for name in case.views if name != "best"]  # SQL has no lattices
    rules = {name: _lines(case.lines, name)[1] for name in views}
    kind = SQL.get(case.kind.name, case.kind.name.upper())
    facts: Facts = {"a": set(), "b": set(), "m": set()}
    with closing(deltafix.sql.connect()) as db:
        for name in facts:
            null = "" if name == "m" else "NOT NULL"
            db.execute(f"CREATE TABLE {name} (k TEXT NOT NULL, v {kind} {null})")
        for name in views:
            declared = _lines(case.lines, name)[0] if rng.random() < 0.3 else ""
            db.execute(f"CREATE VIEW {name} AS RULES $$ {declared} {rules[name]} $$")
        for _ in range(6):
            for name in facts:
                for row in [_row(rng, name, case.kind) for _ in range(rng.randint(0, 3))]:
                    if row in facts[name]:
                        same = "v IS NULL" if row[1] is None else "v = ?"
                        values = row if row[1] is not None else row[:1]
                        db.execute(f"DELETE FROM {name} WHERE k = ? AND {same}", values)
                        facts[name].remove(row)
                    else:
                        db.execute(f"INSERT INTO {name} VALUES (?, ?)", row)
                        facts[name].add(row)
            for name in views:
                found = db.execute(f"SELECT * FROM {name}").fetchall()
                assert len(found) == len(set(found))
                assert set(found) == set(case.views[name](facts)), (name, rules[name])
