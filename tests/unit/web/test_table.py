"""Rows and graphs as they are looked at, against lists and sets of Python over random rows."""

from __future__ import annotations

import math
import random
from datetime import date
from decimal import Decimal

import pytest

import deltafix
from deltafix.errors import FactError, GoneError
from deltafix.facts.values import show_value, sorted_rows, write_value
from deltafix.web.graph import graph
from deltafix.web.table import Tables, View

PROGRAM = """
.decl t(a: number, b: symbol, c: float, d: unsigned)
.input t
.decl edge(x: number, y: number)
.input edge
.decl owns(x: symbol, y: number)
.input owns
"""
FLOATS = (0.0, -1.5, 2.5, float("nan"), float("inf"), -float("inf"), 1e300)
COMPARED = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b, "=": lambda a, b: a == b, "!=": lambda a, b: a != b,
}  # fmt: skip


@pytest.fixture(scope="module")
def db(warm_kernel):
    with deltafix.connect(PROGRAM) as db:
        yield db


def rows_of(rng, count):
    words = ["Ärger", "a", "A b", "", "ab", "ß", "zz"]
    numbers = (-(1 << 60), -3, 0, 7, 12, 1 << 40)
    return {
        (rng.choice(numbers), rng.choice(words), rng.choice(FLOATS), rng.choice((0, 5, 2**63)))
        for _ in range(count)
    }


def placed(value):
    """Where a value stands in its column: NaN above all, and equal to itself."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return (is_nan, 0 if is_nan else value)


def all_pages(tables, view, limit):
    found, after = [], ""
    while after is not None:
        page = tables.page(view, after, limit)
        assert page["offset"] == len(found)
        found += page["rows"]
        after = page["next"]
    assert len(found) == page["matched"]
    return found


def shown(rows):
    return [tuple(map(show_value, row)) for row in rows]


@pytest.mark.parametrize("seed", range(8))
def test_oracle_pages_of_a_view_are_the_rows_that_fit_in_order(db, seed):
    rng = random.Random(seed)
    tables = Tables(db)
    kinds = db.schemas["t"].types
    for _ in range(6):
        with db.transaction() as tx:
            held = set(db.relation("t").rows())
            tx.delete("t", [row for row in held if rng.random() < 0.5])
            tx.insert("t", rows_of(rng, 60))
        rows = db.relation("t").rows()
        sign = rng.choice(list(COMPARED))
        place, bound = rng.choice([(0, 7), (1, "a"), (2, 2.5), (3, 5)])
        text = bound if isinstance(bound, str) else show_value(bound)
        where = ((place, f"{sign} {text}"), (1, rng.choice(["a", "ä", "SS", "b"])))
        search = rng.choice(["", "1", "e", "inf", "-3"])
        sort, down = rng.choice([None, 0, 1, 2, 3]), rng.random() < 0.5
        view = View("t", search, where, sort, down)
        wanted = [
            row for row in rows
            if COMPARED[sign](placed(row[place]), placed(bound))
            and where[1][1].casefold() in row[1].casefold()
            and (not search or any(search in write_value(one).casefold() for one in row))
        ]  # fmt: skip
        found = all_pages(tables, view, rng.choice([1, 3, 50]))
        assert sorted(shown(found)) == sorted(shown(wanted))
        if sort is not None:
            column = sorted_rows([kinds[sort]], [(row[sort],) for row in wanted])
            assert shown((row[sort],) for row in found) == shown(column[:: -1 if down else 1])
        assert len("".join(tables.export(view, "jsonl")).splitlines()) == len(wanted)


@pytest.mark.parametrize("sort", [0, 1])
@pytest.mark.parametrize("code", [-1, -(10**11), 10**7, 10**11, 10**30])
def test_a_key_of_no_value_is_refused(sort, code):
    """Keys come from strangers: the kernel looks at no text that is not there."""
    with deltafix.connect(".decl p(x: symbol, y: symbol)\n.input p") as db:
        with db.transaction() as tx:
            tx.insert("p", [("a", "b")])
        with pytest.raises(FactError, match="is no key of a row"):
            Tables(db).page(View("p", sort=sort), f"{code},{code}", 10)


@pytest.mark.parametrize("sort", [None, 0, 1, 2])
@pytest.mark.parametrize("down", [False, True])
def test_a_page_goes_on_after_its_key_whatever_comes_and_goes(db, sort, down):
    rng = random.Random(7)
    tables, view = Tables(db), View("t", sort=sort, is_descending=down)
    stays = rows_of(rng, 80)
    seen, after = [], ""
    with db.transaction() as tx:
        tx.delete("t", db.relation("t").rows())
        tx.insert("t", stays)
    while after is not None:
        page = tables.page(view, after, 7)
        seen += page["rows"]
        after = page["next"]
        with db.transaction() as tx:  # the very row that is the key goes, too
            gone = page["rows"][-1:]
            tx.delete("t", gone)
            tx.insert("t", rows_of(rng, 5))
    assert len(set(shown(seen))) == len(seen)
    assert set(shown(stays)) <= set(shown(seen))


def test_a_number_is_not_compared_with_a_word(db):
    with pytest.raises(FactError, match="column `a` is compared with a number, not with 'x'"):
        Tables(db).page(View("t", where=((0, "> x"),)), "", 10)


@pytest.mark.parametrize("seed", range(6))
def test_oracle_a_node_and_what_is_around_it(db, seed):
    rng = random.Random(seed)
    edges = {(rng.randrange(30), rng.randrange(30)) for _ in range(35)}
    with db.transaction() as tx:
        tx.delete("edge", db.relation("edge").rows())
        tx.insert("edge", edges)
    focus, depth = rng.choice(sorted(edges))[0], rng.randrange(4)
    near = {focus}
    for _ in range(depth):
        near |= {end for edge in edges if set(edge) & near for end in edge}
    found = graph(db, "edge", str(focus), depth)
    names = [node["label"] for node in found["nodes"]]
    assert names[0] == str(focus)
    assert set(names) == set(map(str, near))
    assert [names[place] for place in found["focus"]] == [str(focus)]
    assert sorted(edge["fact"] for edge in found["edges"]) == sorted(
        f"edge({a}, {b})" for a, b in edges if {a, b} <= near
    )
    assert found["is_whole"]


def test_values_of_two_types_are_two_nodes(db):
    with db.transaction() as tx:
        tx.insert("owns", [("1", 1), ("ann", -2), ("bob", -(1 << 40))])
    found = graph(db, "owns", "1", 1)
    assert [node["label"] for node in found["nodes"]] == ["1", "1"]
    assert len({node["key"] for node in found["nodes"]}) == 2
    found = graph(db, "owns", "AN", 1)  # a part of a name, if no node has it as its own
    assert [node["label"] for node in found["nodes"]] == ["ann", "-2"]
    assert {node["label"] for node in graph(db, "owns")["nodes"]} == {
        "1", "ann", "-2", "bob", str(-(1 << 40)),
    }  # fmt: skip


@pytest.mark.parametrize("sort", [None, 0])
def test_a_page_is_the_same_after_a_compact(sort):
    """It counts no epoch, and gives other codes to what is left."""
    with deltafix.connect(".decl p(x: symbol)\n.input p") as db:
        with db.transaction() as tx:
            tx.insert("p", [("a",), ("b",), ("c",)])
        with db.transaction() as tx:
            tx.delete("p", [("a",)])
        tables, view = Tables(db), View("p", sort=sort)
        before = tables.page(view, "", 1)
        db.compact()
        found = before["rows"] + tables.page(view, before["next"], 9)["rows"]
        assert found == tables.page(view, "", 9)["rows"] == [("b",), ("c",)]


def test_the_key_of_a_page_before_a_compact_is_refused():
    """Its codes were other rows' by then: the next page passed over some."""
    with deltafix.connect(".decl p(x: symbol)\n.input p") as db:
        with db.transaction() as tx:
            tx.insert("p", [("a",), ("b",), ("c",)])
        with db.transaction() as tx:
            tx.delete("p", [("a",)])
        tables = Tables(db)
        key = tables.page(View("p"), "", 1)["next"]
        db.compact()
        with db.transaction() as tx:  # the pages that are kept are of the epoch before
            tx.insert("p", [("d",)])
        with pytest.raises(GoneError, match="compacted"):
            tables.page(View("p"), key, 1)


LOGICAL = """
.decl w(d: date, p: decimal(6, 2)?, o: boolean, t: symbol?)
.input w
.decl next(x: date, y: date)
.input next
"""


def missing_first(value):
    return (value is not None, value if value is not None else 0)


@pytest.mark.parametrize("seed", range(4))
def test_oracle_pages_of_logical_types(seed, warm_kernel):
    rng = random.Random(f"logical {seed}")
    days = [date(2026, 1, n) for n in (1, 2, 30)] + [date(1969, 12, 31), date.min]
    prices = [None, Decimal("-1.50"), Decimal("0.00"), Decimal("10.25"), Decimal("9.00")]
    words = [None, "nil", "a", ""]
    with deltafix.connect(LOGICAL) as db:
        rows = {
            (rng.choice(days), rng.choice(prices), rng.random() < 0.5, rng.choice(words))
            for _ in range(60)
        }
        with db.transaction() as tx:
            tx.insert("w", rows)
        tables = Tables(db)
        for place, bound, text in (
            (0, date(2026, 1, 2), "2026-01-02"),
            (1, Decimal("9.00"), "9"),
            (1, None, "nil"),
            (2, True, "true"),
        ):
            sign = rng.choice(["<", "=", "!=", ">="]) if bound is not None else "="
            sort, down = rng.choice([0, 1, 2]), rng.random() < 0.5
            view = View("w", "", ((place, f"{sign} {text}"),), sort, down)
            found = all_pages(tables, view, rng.choice([1, 7, 50]))
            wanted = [
                row for row in rows
                if (row[place] is None and bound is None)
                or (None not in (row[place], bound) and COMPARED[sign](row[place], bound))
            ]  # fmt: skip
            assert sorted(shown(found)) == sorted(shown(wanted)), (sign, text)
            column = sorted((row[sort] for row in wanted), key=missing_first, reverse=down)
            assert [row[sort] for row in found] == column
        with pytest.raises(
            FactError, match=r"compared with 'x', but date is written like 2026-01-31"
        ):
            tables.page(View("w", "", ((0, "< x"),), None, False), "", 5)


def test_days_are_nodes(warm_kernel):
    with deltafix.connect(LOGICAL) as db:
        with db.transaction() as tx:
            tx.insert("next", [(date(2026, 1, n), date(2026, 1, n + 1)) for n in range(1, 6)])
        found = graph(db, "next", "2026-01-03", 1)
        labels = {node["label"] for node in found["nodes"]}
        assert labels == {"2026-01-02", "2026-01-03", "2026-01-04"}
