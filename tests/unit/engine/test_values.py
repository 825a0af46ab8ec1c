"""Values through the engine: every type's edges, and functors against the oracle's."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from tests.judges.oracle import evaluate

import deltafix
from deltafix.errors import TypeMismatchError

EDGES = {
    "number": [0, 1, -1, 7, -7, 2**30 - 1, 2**30, -(2**31), -(2**31) - 1, 2**63 - 1, -(2**63)],
    "unsigned": [0, 1, 7, 2**30 - 1, 2**30, 2**31, 2**63 - 1, 2**63, 2**64 - 1],
    "float": [0.0, 1.5, -1.5, 1e300, -1e-300, 2.0**53, math.inf, -math.inf],
    "symbol": ["", "a", "b", "ab", "é", "\U0001f600", "a\tb", "Z", "aa"],
}
BINARY = {
    "number": ["+", "-", "*", "/", "%", "band", "bor", "bxor", "land", "lor", "lxor"],
    "unsigned": ["+", "-", "*", "/", "%", "band", "bor", "bxor"],
    "float": ["+", "-", "*"],
}


@pytest.mark.parametrize("kind", EDGES)
def test_values_come_back_as_they_went_in(kind: str) -> None:
    text = f".decl r(x: {kind})\n.decl s(x: {kind})\n.input r\ns(x) :- r(x)."
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("r", [(value,) for value in EDGES[kind]])
        assert db.rows("s") == sorted((value,) for value in EDGES[kind])
        assert sorted(map(tuple, db.to_arrow("s").to_pylist()[0:0])) == []
        assert sorted(row["x"] for row in db.to_arrow("s").to_pylist()) == sorted(EDGES[kind])
        with db.transaction() as tx:
            tx.delete("r", db.to_arrow("r"))
        assert db.count("s") == 0


def test_minus_zero_is_zero_and_nan_is_one_value() -> None:
    with deltafix.connect(".decl r(x: float)\n.input r") as db, db.transaction() as tx:
        assert tx.insert("r", [(0.0,), (-0.0,), (math.nan,), (-math.nan,)]) == 2


@pytest.mark.parametrize("kind", EDGES)
@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">="])
def test_oracle_comparisons(kind: str, op: str) -> None:
    text = f"""
    .decl r(x: {kind})
    .decl s(x: {kind}, y: {kind})
    .input r
    s(x, y) :- r(x), r(y), x {op} y.
    """
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("r", [(value,) for value in EDGES[kind]])
        expected = evaluate(db.program, {"r": {(value,) for value in EDGES[kind]}})
        assert set(db.rows("s")) == expected["s"]


@pytest.mark.parametrize(("kind", "op"), [(k, op) for k, ops in BINARY.items() for op in ops])
def test_oracle_functors_at_the_edges(kind: str, op: str) -> None:
    text = f"""
    .decl r(x: {kind})
    .decl s(x: {kind}, y: {kind}, z: {kind})
    .input r
    s(x, y, x {op} y) :- r(x), r(y).
    """
    finite = [value for value in EDGES[kind] if not isinstance(value, float) or abs(value) < 1e10]
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("r", [(value,) for value in finite])
        expected = evaluate(db.program, {"r": {(value,) for value in finite}})
        assert set(db.rows("s")) == expected["s"]
        with db.transaction() as tx:
            tx.delete("r", [(finite[1],)])
        expected = evaluate(db.program, {"r": {(v,) for v in finite if v != finite[1]}})
        assert set(db.rows("s")) == expected["s"]


def test_goals_are_read_like_programs() -> None:
    text = '.decl r(x: number, y: symbol)\nr(-1, "a"). r(2, "b")' + "."
    with deltafix.connect(text) as db:
        assert db.query("r(X, Y)") == [(-1, "a"), (2, "b")]
        assert db.query('r(_, "b").') == [(2, "b")]
        assert db.query("r(-1, Y)") == [(-1, "a")]
        assert db.query('r(2, "nobody")') == []
        with pytest.raises(deltafix.DeltafixError, match="expected"):
            db.query("r(1,")
        with pytest.raises(deltafix.DeltafixError, match="column"):
            db.query("r(1)")
        with pytest.raises(deltafix.DeltafixError, match="no relation"):
            db.query("q(1)")


def wide(columns: int) -> str:
    names = ", ".join(f"c{i}: number" for i in range(columns))
    args = ", ".join(f"x{i}" for i in range(columns))
    return f".decl r({names})\n.decl s({names})\n.input r\ns({args}) :- r({args})."


def test_rows_may_be_wide_up_to_the_documented_limit() -> None:
    row = tuple(range(1000))
    with deltafix.connect(wide(1000)) as db:
        with db.transaction() as tx:
            tx.insert("r", [row])
        assert tx.delta["s"].added == [row]
        with db.transaction() as tx:
            tx.delete("r", [row])
        assert tx.delta["s"].removed == [row]
    with pytest.raises(deltafix.DeltafixError, match="1001 columns; the limit is 1000"):
        deltafix.connect(wide(1001))


def test_records_of_one_field_come_as_structs_as_text_and_as_tuples() -> None:
    program = """
    .type some_number = [value: number]
    .type some_float = [value: float]
    .type some_symbol = [value: symbol]
    .decl t(a: some_number, b: some_float, c: some_symbol)
    .input t
    .decl bare(a: number, b: float, c: symbol)
    .output bare
    bare(x, y, z) :- t([x], [y], [z]).
    """
    numbers, floats = [7, None, 1 << 40, 7], [0.0, -0.0, float("nan"), None]
    texts = ["nil", None, "[", "nil"]
    structs = [
        pa.StructArray.from_arrays([bare], ["value"], mask=bare.is_null())
        for bare in map(pa.array, (numbers, floats, texts))
    ]
    rows = [
        tuple(None if value is None else (value,) for value in row)
        for row in zip(numbers, floats, texts, strict=True)
    ]
    found = []
    by_all = [(name, "ascending") for name in "abc"]
    for given in (pa.table(structs, ["a", "b", "c"]), rows):
        with deltafix.connect(program) as db:
            with db.transaction() as tx:
                assert tx.insert("t", given) == 4
            table = db.to_arrow("t").sort_by(by_all)
            found.append((table.to_pylist(), repr(sorted(db.rows("bare"), key=repr))))
    assert found[0] == found[1]
    with deltafix.connect(program) as db:  # as text, as files have it
        with db.transaction() as tx:
            tx.insert("t", table)
        assert db.to_arrow("t").sort_by(by_all) == table
        bad = table.set_column(0, "a", [["nil", "[1]", "[x]", "[x]"]])
        with pytest.raises(TypeMismatchError, match="row 2"), db.transaction() as tx:
            tx.insert("t", bad)


def test_an_aggregate_and_a_negation_take_apart_what_they_compute_of_the_outside() -> None:
    """The parts are found inside: what is compared with `[v]` is not made of a `v` from around."""
    program = """
    .type some = [value: number]
    .type both = [left: some, right: some]
    .decl t(id: number, a: some)
    .input t
    .decl highest(id: number, m: number)
    .output highest
    highest(i, m) :- t(i, a), m = max v : { t(_, b), f = @add(b, a), f = [v] }.
    .decl pairs(id: number, m: number)
    .output pairs
    pairs(i, m) :- t(i, a), m = sum w : { t(_, b), f = [b, a], f = [[w], a] }.
    .decl low(id: number)
    .output low
    low(i) :- t(i, a), !(t(_, b), f = @add(b, a), f = [v], v > 8
                         ; t(i, b), g = [b, a], g = [[v], _], v > 4).
    .functor add(x: some, y: some): some
    """

    def add(x: tuple[int] | None, y: tuple[int] | None) -> tuple[int] | None:
        return None if x is None or y is None else (x[0] + y[0],)

    rows = {(1, (2,)), (2, (3,)), (3, None), (4, (5,))}
    with deltafix.connect(program, functors={"add": add}) as db:
        for there in (rows, rows - {(4, (5,))}, {(3, None)}, rows):
            before = set(db.rows("t"))
            with db.transaction() as tx:
                tx.insert("t", there - before)
                tx.delete("t", before - there)
            values = [a[0] for _, a in there if a is not None]
            sums = {i: [a[0] + b for b in values] for i, a in there if a is not None}
            assert set(db.rows("highest")) == {(i, max(found)) for i, found in sums.items()}
            assert set(db.rows("pairs")) == {(i, sum(values)) for i, _ in there}
            own = {i: a[0] for i, a in there if a is not None}
            assert {i for (i,) in db.rows("low")} == {
                i for i, _ in there if max(sums.get(i, [0])) <= 8 and own.get(i, 0) <= 4
            }
            db.check_invariants()
