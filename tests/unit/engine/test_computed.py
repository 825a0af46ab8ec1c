"""Joins by what is computed of a column: the rows that an edit meets are looked up, not looked for.

`probed` counts the rows that an epoch looks at while it joins.
"""

from __future__ import annotations

import pytest

import deltafix
from deltafix import Program
from deltafix.plan.build import lower
from deltafix.rules.check import typed

TABLES = """
.decl t(x: number, a: number)
.decl u(b: number, y: number)
.decl w(x: number, c: number)
.decl p(x: number, y: number)
.decl s(x: symbol)
.decl n(b: number)
.decl k(b: symbol, y: number)
.input t
.input u
.input w
.input s
.input n
.input k
.output p
"""
JOINS = {
    "of one side": "p(x, y) :- t(x, a), u(b, y), b = a + 1.",
    "of both sides": "p(x, y) :- t(x, a), u(b, y), b * 2 = a * 2 + 2.",
    "of texts": 'p(0, y) :- s(x), k(b, y), b = cat(x, "!").',
    "two values": "p(x, y) :- t(x, a), u(a % 7, b), u(a + 1, y), b = y.",
    "through another": "p(x, z) :- t(x, a), u(a + 1, y), w(y * 2, z).",
    "that is negated": "p(x, a) :- t(x, a), !n(a + 1).",
    "in a recursion": "p(x, x) :- t(x, a), a % 10 = 0.\np(y, z) :- p(x, z), u(x / 2, y).",
    "of few columns": "p(x, 0) :- t(x, a), a % 10 = 0.\np(y, 0) :- p(x, _), u(x / 2, y).",
}


def core_of(rules: str) -> list[str]:
    return [str(one) for one in lower(typed(Program.parse(TABLES + rules))).clauses]


def filled(rules: str, count: int) -> deltafix.Database:
    db = deltafix.connect(TABLES + rules)
    with db.transaction() as tx:
        tx.insert("t", [(n, n) for n in range(count)])
        tx.insert("n", [(n,) for n in range(0, count, 3)])
        tx.insert("u", [(n, n) for n in range(0, count, 2)])
        tx.insert("w", [(n, n) for n in range(count)])
        tx.insert("s", [(f"s{n}",) for n in range(count)])
        tx.insert("k", [(f"s{n}!", n) for n in range(0, count, 2)])
    return db


@pytest.mark.parametrize("kind", JOINS)
def test_an_edit_looks_at_as_many_rows_however_large_the_relations_are(kind: str) -> None:
    probed = []
    for count in (100, 1_000):
        with filled(JOINS[kind], count) as db:
            edits = (("u", (31, 31)), ("u", (30, 30)), ("t", (50, 50)), ("w", (62, 62)))
            looked = []
            for name, row in (*edits, ("n", (51,)), ("k", ("s40!", 40)), ("s", ("s40",))):
                for edit in ("delete", "insert") if row != (31, 31) else ("insert", "delete"):
                    with db.transaction() as tx:
                        getattr(tx, edit)(name, [row])
                    looked.append(db.last_epoch.probed)
            probed.append(looked)
    # of recursions more rows change where there are more
    assert probed[0] == probed[1] or "p(x, z)" in JOINS[kind] or "p(x, _)" in JOINS[kind]
    assert 0 < max(map(max, probed)) < 20


@pytest.mark.parametrize("kind", JOINS)
def test_rows_are_those_of_a_load_after_edits_of_each_side(kind: str) -> None:
    with filled(JOINS[kind], 60) as db, deltafix.connect(TABLES + JOINS[kind]) as fresh:
        with db.transaction() as tx:
            tx.delete("t", [(n, n) for n in range(3, 60, 3)])
            tx.delete("u", [(n, n) for n in range(0, 60, 4)])
            tx.insert("u", [(n, 2 * n) for n in range(-5, 5)])
            tx.insert("t", [(n, -n) for n in range(3, 60, 5)])
            tx.delete("k", [(f"s{n}!", n) for n in range(0, 60, 6)])
        with fresh.transaction() as tx:
            for name in ("t", "u", "w", "n", "s", "k"):
                tx.insert(name, db.rows(name))
        assert sorted(db.rows("p")) == sorted(fresh.rows("p")) != []
        db.check_invariants()


@pytest.mark.parametrize(
    "rule",
    [
        "p(x, y) :- t(x, a), u(a, y), y = x + 1.",  # found by a column
        "p(x, y) :- t(x, a), y = a + 1.",
        "p(x, y) :- t(x, a), w(x, c), u(c, y), y = a + 1.",  # by one of another atom's
        "p(x, y) :- t(x, a), w(c, y), u(b, _), b = a + c.",  # of several atoms
        "p(x, y) :- t(x, a), u(b, y), a < b + 1.",  # no equality
    ],
)
def test_other_clauses_stay_as_they_are(rule: str) -> None:
    assert len(core_of(rule)) == 1 or all(":- t(" in one or "b" in one for one in core_of(rule))
    assert not any("~" in one.split(":-")[0] for one in core_of(rule))


def test_what_goes_with_an_atom_is_its_value_and_its_tests() -> None:
    rule = "p(x, y) :- t(x, a), a > 3, z = a * 5, z > x, u(b, y), b = a + 1, c = a * 7, y != c."
    assert core_of(rule) == [
        "p(x, y) :- ~1(x, a, b), u(b, y), c = *(a, 7), y != c.",
        "~1(x, a, b) :- t(x, a), a > 3, z = *(a, 5), z > x, b = +(a, 1).",
    ]


def test_alternatives_share_what_is_computed() -> None:
    rule = "p(x, y) :- t(x, a), (u(a + 1, y) ; w(y, a + 1), x > 3)."
    heads = [one.split(":-")[0] for one in core_of(rule)]
    assert sum("~" in one for one in heads) == 2
    same = "p(x, y) :- t(x, a), u(a + 1, y), (x > 3 ; y > 3)."
    assert [one.split(" :- ")[1].split(",")[0] for one in core_of(same)][:2] == ["~1(x", "~2(x"]
