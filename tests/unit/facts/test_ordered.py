"""Rows by column: the order, and the text, that they have as tuples."""

from __future__ import annotations

import io
import math
from random import Random

import numpy as np
import pytest

import deltafix
from deltafix.engine import codes
from deltafix.errors import FactError
from deltafix.facts import codec, side
from deltafix.facts.codec import FactFormat, write_facts
from deltafix.facts.ordered import ordered
from deltafix.facts.values import sorted_rows

TEXT = """
.type pair = [a: number, b: symbol]
.decl r(n: number, u: unsigned, f: float, s: symbol, p: pair)
.input r
.decl wide(a: number, b: number, c: number, d: number)
.input wide
"""
NUMBERS = (0, -1, 7, 2**40, -(2**62), 2**63 - 1)
FLOATS = (0.0, -0.5, 1e300, math.inf, -math.inf, math.nan, 3.25)
SYMBOLS = ("", "a", "é", "zz", 'q"uote', "\U0001f600", "\uff5e", "a,b")


def rows_of(rng: Random, count: int) -> list[tuple[object, ...]]:
    return [
        (
            rng.choice(NUMBERS), rng.choice((0, 1, 2**64 - 1, 2**31)), rng.choice(FLOATS),
            rng.choice(SYMBOLS), (rng.choice(NUMBERS), rng.choice(SYMBOLS)) if n % 3 else None,
        )
        for n in range(count)
    ]  # fmt: skip


def spelled(rows: object, schema: object, form: FactFormat) -> str:
    stream = io.StringIO()
    write_facts(rows, schema, form, stream, "r.csv")
    return stream.getvalue()


@pytest.mark.parametrize("long", [codes._LONG, 2])  # from there on Arrow sorts texts
@pytest.mark.parametrize("count", [0, 1, 40, 3000])
def test_the_order_is_that_of_tuples(
    count: int, long: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codes, "_LONG", long)
    rng = Random(count)
    with deltafix.connect(TEXT) as db:
        with db.transaction() as tx:
            tx.insert("r", rows_of(rng, count))
            tx.insert("wide", [tuple(rng.randrange(2**30) for _ in range(4)) for _ in range(count)])
        for name in ("r", "wide"):
            schema, found = db.schemas[name], db.ordered(name)
            wanted = sorted_rows(
                schema.types, db.instance.codes.rows(schema, db.committed(name)[1])
            )
            assert repr([*found]) == repr(wanted) == repr(db.rows(name))
            if count >= codes.ORDERED_FROM:  # Python sorts none of so many
                monkeypatch.setattr(side, "sorted_rows", None)
            assert repr(tx.delta[name].added) == repr(wanted)
            assert len(found) == len(wanted)
            assert all(repr(found.at(n)) == repr(wanted[n]) for n in range(0, len(found), 97))
            for values in found.values:
                assert len(values) == len({*map(repr, values)})


@pytest.mark.parametrize(
    "form",
    [
        FactFormat(), FactFormat(delimiter="; "), FactFormat(delimiter=",", rfc4180=True),
        FactFormat(headers=True),
    ],
    ids=repr,
)  # fmt: skip
def test_the_text_is_that_of_tuples(form: FactFormat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_LINES", 700)
    monkeypatch.setattr(codec, "_CHUNK", 100)
    with deltafix.connect(TEXT) as db:
        with db.transaction() as tx:
            tx.insert("r", rows_of(Random(3), 2000))
        schema, found = db.schemas["r"], db.ordered("r")
        assert len(found) > 1000
        text = spelled(found, schema, form)
        assert text == spelled([*found], schema, form)
        assert text.count("\n") == len(found) + form.headers


def test_a_symbol_that_cannot_be_read_back_is_told_with_its_row() -> None:
    with deltafix.connect(".decl s(a: number, b: symbol) .input s") as db:
        with db.transaction() as tx:
            tx.insert("s", [(n, "two\tparts" if n in (7, 15_000) else "x") for n in range(20_000)])
        schema, found = db.schemas["s"], db.ordered("s")
        errors = []
        for rows in (found, [*found]):
            with pytest.raises(FactError) as raised:
                spelled(rows, schema, FactFormat())
            errors.append((str(raised.value), raised.value.values["value"]))
        assert errors[0] == errors[1]
        assert errors[0][1] == (7, "two\tparts")


def test_rows_whose_places_do_not_fit_into_one_number_are_sorted_too() -> None:
    rng = np.random.default_rng(4)
    places = [rng.integers(0, 2**22, 500).astype(np.int32) for _ in range(3)]
    values = [range(2**22)] * 3
    found = ordered(values, places, 500)
    assert [*found] == sorted(zip(*(own.tolist() for own in places), strict=True))
