"""Rules over dates, decimals, booleans, bytes, UUIDs and missing values, against plain Python.

Each part of a random program says twice what it derives: as a rule, and as a function of rows of
Python's values. After every transaction each relation, its delta and its Arrow table are compared;
the second route is the same program on a database that has rows as the engine does (`physical`),
and, at the end, one that is opened from what the first one kept. The third are the same rules as
views over tables of SQL.

In half of the programs values lie near the ends of their types, too. What is computed of them may
be no value of its type: then the function raises OverflowError, and every route has to refuse the
transaction, and to be as before.
"""

from __future__ import annotations

import decimal
import random
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from tests.generators.sql_values import in_arrow

import deltafix
import deltafix.sql
from deltafix.engine.literals import read_facts
from deltafix.errors import FunctorError, SqlDataError
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
    ends: list[Any] = field(default_factory=list)
    casts: dict[str, Callable[[Any], Any]] = field(default_factory=dict)

    def drawn(self, rng: random.Random, *, near: bool) -> Any:
        """One of the values; of those at the ends of the type, too, if it is to be `near` them."""
        if near and rng.random() < 0.5:
            return rng.choice(self.ends)
        return rng.choice(self.values)


def _day(n: int) -> date:
    return date(2026, 1, 1) + timedelta(days=n)


def _moment(n: int, zone: Any = None) -> datetime:
    return datetime(2026, 1, 1, 12, tzinfo=zone) + timedelta(microseconds=n)


EXACT = decimal.Context(prec=100, traps=[decimal.Inexact])


def _decimal(value: Fraction | int, digits: int, scale: int) -> Decimal:
    """A number as a decimal of a type. Raises OverflowError where it has more digits."""
    units = Fraction(value) * 10**scale
    if units.denominator != 1 or abs(units) >= 10**digits:
        raise OverflowError(value)
    return EXACT.scaleb(EXACT.create_decimal(int(units)), -scale)


def _word(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise OverflowError(value)
    return value


def _decimals(digits: int, scale: int) -> Kind:
    def of(means: Callable[[Fraction], Fraction], *kind: int) -> Callable[[Decimal], Decimal]:
        return lambda p: _decimal(means(Fraction(p)), *(kind or (digits, scale)))

    last = Fraction(1, 10**scale)
    most = 10 ** (digits - scale) - last
    return Kind(
        f"decimal({digits}, {scale})",
        [_decimal(Fraction(n, 100), digits, scale) for n in (-250, -1, 0, 1, 99, 100, 12345)],
        {
            "0.99": Decimal("0.99"),
            "1": Decimal(1),
            '"123.45"': Decimal("123.45"),
            "-2.5": Decimal("-2.5"),
        },
        {
            "{} + 0.01": of(lambda p: p + Fraction(1, 100)),
            "{} * 3": of(lambda p: p * 3),
            "2 * {}": of(lambda p: p * 2),
            "-{}": of(lambda p: -p),
            "{0} - {0}": of(lambda p: p - p),
            f'{{}} + "{float(last):.{scale}f}"': of(lambda p: p + last),
        },
        [_decimal(n, digits, scale) for n in (most, -most, last, -last, (most + last) / 2)],
        {
            "decimal(5, 2)": of(lambda p: p, 5, 2),
            "decimal(18, 2)": of(lambda p: p, 18, 2),
            "decimal(38, 30)": of(lambda p: p, 38, 30),
        },
    )


def _days(n: int) -> Callable[[date], date]:
    return lambda d: d + timedelta(n)


def _micros(n: int) -> Callable[[datetime], datetime]:
    return lambda t: t + timedelta(microseconds=n)


KINDS = [
    Kind(
        "date",
        [_day(n) for n in range(-3, 4)],
        {'"2026-01-01"': _day(0), 'as("2025-12-30", date)': _day(-2), "as(20456, date)": _day(2)},
        {"{} + 1": _days(1), "{} - 2": _days(-2)},
        [date.min, date.min + timedelta(1), date.max],
    ),
    Kind(
        "timestamp",
        [_moment(n) for n in (-1, 0, 1, 86_400_000_000)],
        {'"2026-01-01 12:00:00"': _moment(0), '"2026-01-01T12:00:00.000001"': _moment(1)},
        {"{} + 1": _micros(1), "{} - 86400000000": _micros(-86_400_000_000)},
        [datetime.min, datetime.max, datetime.max - timedelta(microseconds=1)],
    ),
    Kind(
        "timestamptz",
        [_moment(n, UTC) for n in (-1, 0, 1)],
        {'"2026-01-01 13:00:00+01:00"': _moment(0, UTC)},
        {"1 + {}": _micros(1), "{} - 1": _micros(-1)},
        [one.replace(tzinfo=UTC) for one in (datetime.min, datetime.max)],
    ),
    _decimals(6, 2),
    _decimals(18, 2),
    _decimals(30, 4),
    _decimals(38, 2),
    Kind(
        "number",
        [-1, 0, 7, 2**32],
        {"0": 0, "-1": -1},
        {"{} band 1": lambda n: n & 1},
        [-(2**63), 2**63 - 1, *(date.min.toordinal() - 719_163 - n for n in (0, 1))],
        {
            "date": lambda n: date(1970, 1, 1) + timedelta(n),
            "timestamp": lambda n: datetime(1970, 1, 1) + timedelta(microseconds=n),
            "decimal(20, 1)": lambda n: _decimal(n, 20, 1),
        },
    ),
    Kind(
        "time",
        [time(), time(12, 30), time(12, 30, 0, 1), time(23, 59, 59, 999_999)],
        {'"12:30:00"': time(12, 30), '"12:30:00.000001"': time(12, 30, 0, 1)},
    ),
    Kind("float", [-1.5, 0.0, 2.5, 1e300], {"0.0": 0.0, "2.5": 2.5}),
    Kind("symbol", ["", "a", "nil", "Ä", '"'], {'"a"': "a", '"nil"': "nil"}),
    Kind("boolean", [False, True], {'"true"': True, '"false"': False}),
    Kind(
        "uuid",
        [UUID(int=n << 64) for n in (0, 1, 2**63 - 1, 2**63, 2**64 - 1)],
        {
            '"80000000-0000-0000-0000-000000000000"': UUID(int=2**127),
            '"{8000000000000000FFFFFFFFFFFFFFFF}"': UUID(int=2**127 + 2**64 - 1),
        },
    ),
    Kind("blob", [b"", b"\x00", b"\xff\x00", b"a"], {'"ff00"': b"\xff\x00", '"\\\\x61"': b"a"}),
]


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value.hex() if isinstance(value, bytes) else str(value)


@dataclass
class Case:
    """A program and what it means."""

    kind: Kind
    lines: list[str]
    views: dict[str, Callable[[Facts], Rows]]
    near: bool


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
    kind = rng.choice([*KINDS, *(one for one in KINDS if one.name.startswith("decimal"))])
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
    for number, (wanted, means) in enumerate(kind.casts.items()):
        rule(
            f"cast{number}",
            f"k: symbol, v: {wanted}",
            f"cast{number}(k, as(v, {wanted})) :- a(k, v).",
            lambda f, means=means: {(k, means(v)) for k, v in f["a"]},
        )
    sizes = re.fullmatch(r"decimal\((\d+), (\d+)\)", kind.name)
    if sizes is not None:
        digits, scale = map(int, sizes.groups())
        rule(
            "whole",
            "k: symbol, n: number",
            "whole(k, to_number(v)) :- a(k, v).",
            lambda f: {(k, _word(int(v))) for k, v in f["a"]},
        )
        if digits <= 18:
            rule(
                "total",
                pair,
                "total(k, x) :- b(k, _), x = sum v : { a(k, v) }.",
                lambda f: _totals(f, digits, scale),
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
        rule(
            "clocks",
            "c: time",
            "clocks(as(v, time)) :- a(_, v).",
            lambda f: {(v.time(),) for _, v in f["a"]},
        )
    chosen = rng.sample([*views], rng.randint(4, len(views)))
    near = bool(kind.ends) and rng.random() < 0.5
    if near:  # what is refused for one rule is not seen of another
        own = [name for name in views if name.startswith(("added", "cast"))]
        others = [name for name in views if name not in {*own, "total", "whole"}]
        own += ["total"] * len(own) * ("total" in views)
        chosen = [*rng.sample(others, 3), rng.choice(own)]
    if "again" in chosen:
        chosen.append("text")
    kept = [line for name in views for line in _lines(lines, name) if name in chosen]
    views = {name: views[name] for name in views if name in chosen}
    return Case(kind, lines[:3] + kept, views, near)


def _totals(facts: Facts, digits: int, scale: int) -> Rows:
    """Each key of b with the sum of its values in a. Sums are computed of all groups."""
    found = {
        key: _decimal(sum(map(Fraction, values)), digits, scale)
        for key, values in _grouped(facts["a"]).items()
    }
    return {(k, found.get(k, Decimal(0))) for k, _ in facts["b"]}


def _expected(case: Case, facts: Facts) -> dict[str, Rows] | None:
    """What each relation holds; None where something that is derived is no value of its type."""
    try:
        return {name: set(means(facts)) for name, means in case.views.items()}
    except OverflowError:
        return None


def _lines(lines: list[str], name: str) -> list[str]:
    place = next(n for n, line in enumerate(lines) if line.startswith(f".decl {name}("))
    return lines[place : place + 2]


def _row(rng: random.Random, relation: str, case: Case) -> tuple[Any, ...]:
    value = case.kind.drawn(rng, near=case.near)
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
            many = 2 if case.near else 4
            edits = []
            after = {name: set(rows) for name, rows in facts.items()}
            for name in facts:
                for row in [_row(rng, name, case) for _ in range(rng.randint(0, many))]:
                    edits.append((row in after[name], (name, row)))
                    after[name] ^= {row}
            expected = _expected(case, after)
            if expected is None:
                for one in (db, second):
                    with pytest.raises(FunctorError) as caught, one.transaction() as tx:
                        _edit(rng, tx, edits, db, case.kind if one is db else None)
                    assert caught.value.code == "DF430"
            else:
                with second.transaction() as tx:
                    _edit(rng, tx, edits, db, None)
                with db.transaction() as tx:
                    _edit(rng, tx, edits, db, case.kind)
                for name, rows in expected.items():
                    assert set(tx.delta[name].added) == rows - before[name]
                    assert set(tx.delta[name].removed) == before[name] - rows
                facts, before = after, expected
            for name, rows in before.items():
                assert set(db.rows(name)) == rows, (name, text)
                assert set(second.rows(name)) == _held(db, name, rows), (name, text)
                table = db.to_arrow(name)
                arrows = {tuple(in_arrow(row)) for row in rows}
                assert {tuple(row.values()) for row in table.to_pylist()} == arrows
                for row in rows:
                    assert db.select(name, row) == [row]
        db.check_invariants()
        for name, rows in before.items():
            for row in sorted(rows, key=str)[:2]:
                assert db.why(name, row).goal.row == row
    with deltafix.connect(text, tmp_path / "state") as again:
        for name, rows in {**before, **facts}.items():
            assert set(again.rows(name)) == rows


def _edit(
    rng: random.Random,
    tx: deltafix.Transaction,
    edits: list[tuple[bool, Said]],
    db: deltafix.Database,
    kind: Kind | None,
) -> None:
    """Put rows in, or take out those that are there: by any door, or as the engine has them."""
    for is_there, (name, row) in edits:
        held = row if kind is not None else next(iter(_held(db, name, {row})))
        if is_there:
            tx.delete(name, [held])
        elif kind is None:
            tx.insert(name, [held])
        else:
            _insert(rng.choice(DOORS), tx, db.schemas, (name, row), kind)


def _insert(
    way: str, tx: deltafix.Transaction, schemas: Mapping[str, Schema], said: Said, kind: Kind
) -> None:
    """By one of the doors."""
    name, row = said
    if way == "rows":
        tx.insert(name, [row])
    elif way == "arrow":
        values = pa.array(in_arrow([row[1]]), _arrow(kind))
        tx.insert(name, pa.table({"k": [row[0]], "v": values}))
    else:
        for relation, read in read_facts(f"{show_row(name, row)}.", schemas):
            tx.insert(relation, [read])


def _arrow(kind: Kind) -> pa.DataType:
    return {
        "date": pa.date32(),
        "time": pa.time64("us"),
        "timestamp": pa.timestamp("us"),
        "timestamptz": pa.timestamp("us", "Europe/Berlin"),
        "decimal(6, 2)": pa.decimal128(20, 2),
        "decimal(18, 2)": pa.decimal128(18, 2),
        "decimal(30, 4)": pa.decimal128(38, 4),
        "decimal(38, 2)": pa.decimal128(38, 2),
        "boolean": pa.bool_(),
        "blob": pa.large_binary(),
        "uuid": pa.large_string(),
        "number": pa.int64(),
        "float": pa.float64(),
        "symbol": pa.large_string(),
    }[kind.name]


@pytest.mark.parametrize("seed", range(24))
def test_rules_as_views_mean_the_same(seed: int, warm_kernel: None) -> None:
    rng = random.Random(f"logical views {seed}")
    case = case_of(rng)
    case.views.pop("best", None)  # SQL has no lattices
    views = [*case.views]
    rules = {name: _lines(case.lines, name)[1] for name in views}
    kind = SQL.get(case.kind.name, case.kind.name.upper())
    facts: Facts = {"a": set(), "b": set(), "m": set()}
    before: Facts = {name: set() for name in views}
    with closing(deltafix.sql.connect()) as db:
        for name in facts:
            null = "" if name == "m" else "NOT NULL"
            db.execute(f"CREATE TABLE {name} (k TEXT NOT NULL, v {kind} {null})")
        for name in views:
            declared = _lines(case.lines, name)[0] if rng.random() < 0.3 else ""
            db.execute(f"CREATE VIEW {name} AS RULES $$ {declared} {rules[name]} $$")
        for _ in range(6):
            for name in facts:
                for row in [_row(rng, name, case) for _ in range(rng.randint(0, 3))]:
                    after = {**facts, name: facts[name] ^ {row}}
                    expected = _expected(case, after)
                    said: tuple[str, tuple[Any, ...]] = (f"INSERT INTO {name} VALUES (?, ?)", row)
                    if row in facts[name]:
                        same = "v IS NULL" if row[1] is None else "v = ?"
                        values = row if row[1] is not None else row[:1]
                        said = f"DELETE FROM {name} WHERE k = ? AND {same}", values
                    if expected is None:
                        with pytest.raises(SqlDataError) as caught:
                            db.execute(*said)
                        assert caught.value.code == "DF724"
                    else:
                        db.execute(*said)
                        facts, before = after, expected
            for name in views:
                found = db.execute(f"SELECT * FROM {name}").fetchall()
                assert len(found) == len(set(found))
                assert set(found) == before[name], (name, rules[name])
