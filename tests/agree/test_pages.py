"""agree_*: what a page shows of random tables, and the same searched, filtered and sorted here.

Sees: rows that a condition or an order puts elsewhere than the language does (NULL, NaN, zeros,
decimals, days, records, arrays), rows that paging by key misses or shows twice, files that do not
give back what was written. Of rules and of SQL; conditions and orders are Python's, over values.
"""

from __future__ import annotations

import csv
import io
import json
import math
import operator
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import pytest
from tests.support.amount import cases
from tests.unit.web.test_app import BASE, client

import deltafix
import deltafix.sql
from deltafix.facts.values import show_value, write_value
from deltafix.web import page, sql_page

SEEDS = cases(2, per=20)
TEXTS = ["", "a", "A", "ä", "Straße", "STRASSE", "𝒳𐐷", "x\x00y", 'q"uo,te', "l\r\nine", "NULL", " "]
FLOATS = [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 1e300, 5e-324, 0.1]
COMPARED = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def placed(value: Any) -> Any:
    """Where a value stands among those of its column: NaN above all, and then NULL in arrays."""
    if value is None:
        return (2, 0.0)
    if isinstance(value, list | dict):
        return (0, [*map(placed, value if isinstance(value, list) else value.values())])
    return (1, 0.0) if isinstance(value, float) and math.isnan(value) else (0, value)


def said(rows: Any) -> list[str]:
    return sorted(map(repr, rows))


def asked_all(web: Any, asked: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of all pages, and the last page."""
    rows, after = [], ""
    while True:
        answer = web.get(f"{BASE}/api/rows", params={**asked, "after": after})
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert found["offset"] == len(rows)
        rows += found["rows"]
        if found["next"] is None:
            return rows, found
        after = found["next"]


RULES = """
.type Pair = [x: number, y: symbol]
.decl t(s: symbol, n: number, u: unsigned, f: float, p: Pair)
.input t
"""
RULE_VALUES = (
    lambda rng: rng.choice(TEXTS),
    lambda rng: rng.choice([0, 1, -1, 9, 10, -(2**63), 2**63 - 1, 2**30, -(2**31) - 1]),
    lambda rng: rng.choice([0, 1, 9, 10, 2**64 - 1, 2**31]),
    lambda rng: rng.choice(FLOATS) + 0.0,
    lambda rng: rng.choice([None, (1, "a"), (10, "b"), (-(2**40), "ä")]),
)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_agree_pages_of_rules(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = Random(f"pages {seed}")
    monkeypatch.setattr(page, "PAGE", 7)
    with deltafix.connect(RULES) as db:
        with db.transaction() as tx:
            rows = [tuple(value(rng) for value in RULE_VALUES) for _ in range(60)]
            tx.insert("t", rows)
        rows = db.rows("t")
        web, checks = client(db), 0
        for _ in range(25):
            asked: dict[str, Any] = {"relation": "t"}
            left = rows
            for place in rng.sample(range(5), rng.choice((0, 1, 1, 2))):
                row = rng.choice(rows)
                text = write_value(row[place])
                op = rng.choice([*COMPARED, ""])
                if not text.strip() or text != text.strip() or "\n" in text or "<" in text:
                    continue
                asked[f"where{place}"] = f"{op} {text}" if op else text
                if op and place in (1, 2, 3):
                    holds = COMPARED[op]
                    left = [r for r in left if holds(placed(r[place]), placed(row[place]))]
                elif op:
                    left = [r for r in left if COMPARED[op](write_value(r[place]), text)]
                else:
                    wanted = text.casefold()
                    left = [r for r in left if wanted in write_value(r[place]).casefold()]
            if rng.random() < 0.3:
                asked["search"] = rng.choice(["a", "strasse", "1", "𝒳", "nil", "NAN", "\x00"])
                wanted = asked["search"].casefold()
                left = [r for r in left if any(wanted in write_value(v).casefold() for v in r)]
            sort = rng.choice([None, 0, 1, 2, 3])
            if sort is not None:
                asked |= {"sort": sort, "order": rng.choice(["ascending", "descending"])}
            found, last = asked_all(web, asked)
            shown = [[show_value(value) for value in row] for row in left]
            assert said(one["cells"] for one in found) == said(shown), asked
            assert (last["matched"], last["size"]) == (len(left), len(rows))
            if sort is not None:
                order = [row[sort] for row in left]
                order.sort(key=placed, reverse=asked["order"] == "descending")
                assert [one["cells"][sort] for one in found] == [*map(show_value, order)], asked
            lines = web.get(f"{BASE}/api/export", params=asked).text
            written = [*csv.reader(io.StringIO(lines, newline=""))][1:]
            assert said(map(tuple, written)) == said(tuple(map(write_value, r)) for r in left)
            objects = web.get(f"{BASE}/api/export", params={**asked, "format": "jsonl"}).text
            with deltafix.connect(RULES) as other, other.transaction() as tx:
                loaded = [read_json(line) for line in objects.split("\n") if line]
                tx.insert("t", loaded)
                assert said(loaded) == said(left)
            checks += len(left)
        assert checks


def read_json(line: str) -> tuple:
    """A row of the file, by a JSON reader that takes nothing that JSON has not."""
    found = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    s, n, u, f, p = (found[name] for name in "snufp")
    return (s, int(n), int(u), float(f), None if p is None else (p["x"], p["y"]))


SQL = """
CREATE TABLE t (
    s TEXT, n BIGINT, f DOUBLE, d DECIMAL(18, 3), e DATE, m TIMESTAMP, b BOOLEAN, x BLOB, u UUID,
    l DOUBLE[], q STRUCT(a INTEGER, b TEXT)
);
CREATE MATERIALIZED VIEW twice AS SELECT * FROM t UNION ALL SELECT * FROM t;
"""
SQL_VALUES = (
    lambda rng: rng.choice(TEXTS),
    lambda rng: rng.choice([0, 1, -1, 9, 10, -(2**63), 2**63 - 1]),
    lambda rng: rng.choice(FLOATS),
    lambda rng: Decimal(rng.choice([0, 1, -15, 1500, 10**15, 1])) / 1000,
    lambda rng: date(2026, rng.randint(1, 12), 5),
    lambda rng: datetime(2026, 1, 5, rng.randint(0, 23), 7, 0, rng.choice([0, 1])),
    lambda rng: rng.random() < 0.5,
    lambda rng: rng.choice([b"", b"\x00\xff", b"abc"]),
    lambda rng: UUID(int=rng.choice([0, 9, 2**127])),
    lambda rng: rng.choice([[], [1.5], [10.0], [9.0, None], [9.0, 1.0]]),
    lambda rng: {"a": rng.choice([9, 10, None]), "b": rng.choice(["x", None])},
)


def cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return f"\\x{value.hex()}" if isinstance(value, bytes) else str(value)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", ["t", "twice"])
def test_agree_pages_of_sql(monkeypatch: pytest.MonkeyPatch, name: str, seed: int) -> None:
    rng = Random(f"sql pages {seed}")
    monkeypatch.setattr(sql_page, "PAGE", 7)
    with deltafix.sql.connect() as db:
        db.execute(SQL)
        given = [
            tuple(None if rng.random() < 0.1 else value(rng) for value in SQL_VALUES)
            for _ in range(40)
        ]
        db.insert("t", given)
        rows = db.execute(f"SELECT * FROM {name}").fetchall()
        assert len(rows) == len(given) * (1 + (name == "twice"))
        web, checks = client(db), 0
        for _ in range(25):
            asked: dict[str, Any] = {"relation": name}
            left = rows
            for place in rng.sample(range(len(SQL_VALUES)), rng.choice((0, 1, 1, 2))):
                value = rng.choice(rows)[place]
                text, op = cell(value), rng.choice([*COMPARED, ""])
                if value is None or not text.strip() or text != text.strip() or "\n" in text:
                    continue
                asked[f"where{place}"] = f"{op} {text}" if op else text
                if op:
                    holds = COMPARED[op]
                    left = [
                        r for r in left
                        if r[place] is not None and holds(placed(r[place]), placed(value))
                    ]  # fmt: skip
                else:
                    left = [r for r in left if text.casefold() in cell(r[place]).casefold()]
            if rng.random() < 0.3:
                asked["search"] = rng.choice(["a", "strasse", "1", "𝒳", "null", "NAN", "\x00"])
                wanted = asked["search"].casefold()
                left = [r for r in left if any(wanted in cell(v).casefold() for v in r)]
            sort = rng.choice([None, *range(len(SQL_VALUES))])
            if sort is not None:
                asked |= {"sort": sort, "order": rng.choice(["ascending", "descending"])}
            found, last = asked_all(web, asked)
            assert said(one["cells"] for one in found) == said([*map(cell, r)] for r in left), asked
            assert (last["matched"], last["size"]) == (len(left), len(rows))
            if sort is not None:
                order = [row[sort] for row in left if row[sort] is not None]
                order.sort(key=placed, reverse=asked["order"] == "descending")
                order += [None] * (len(left) - len(order))
                assert [one["cells"][sort] for one in found] == [*map(cell, order)], asked
            lines = web.get(f"{BASE}/api/export", params=asked).text
            written = [*csv.reader(io.StringIO(lines, newline=""))][1:]
            assert said(written) == said(["" if v is None else cell(v) for v in r] for r in left)
            objects = web.get(f"{BASE}/api/export", params={**asked, "format": "jsonl"}).text
            with deltafix.sql.connect() as other:
                other.execute(SQL)
                edits = [
                    f'{{"insert": "t", "row": {line}}}' for line in objects.split("\n") if line
                ]
                answer = client(other, writable=True).post(
                    f"{BASE}/live/edits", content="\n".join(edits)
                )
                assert answer.status_code == 200, answer.text
                assert said(other.execute("SELECT * FROM t").fetchall()) == said(left)
            checks += len(left)
        assert checks
