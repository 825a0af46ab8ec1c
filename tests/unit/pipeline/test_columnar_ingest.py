"""Signed batches through columns and codes agree with taking their rows one by one.

The judge (`judges/oracle_inputs.py`) takes rows one by one, in order. Columns are chosen so that
rows fit one integer in one machine word, only with a second sort, or not at all.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from tests.judges.oracle_inputs import ABSENT, Judged, Message, Options

import deltafix
from deltafix.errors import FactError
from deltafix.facts import groups
from deltafix.facts.groups import RowCodes, code_rows, dictionary_of, group_rows
from deltafix.facts.schema import Row, Schema
from deltafix.pipeline.columns import fit
from deltafix.pipeline.policy import Policy, RecheckError, apply
from deltafix.pipeline.signed import Bad, Signed, join
from deltafix.pipeline.times import COUNTS, Times

DRAW = {
    "symbol": lambda rng: rng.choice(["", "a", "b", "ä", "aa", "b c"]),
    "number": lambda rng: rng.randrange(-3, 4),
    "far": lambda rng: rng.choice([-(2**63), 0, 2**63 - 1]),
    "unsigned": lambda rng: rng.choice([0, 1, 2**64 - 1]),
    "float": lambda rng: rng.choice([0.5, -1.0, 1e300]),
}
KINDS = [
    ("symbol",),
    ("symbol", "symbol"),
    ("number", "symbol", "number"),
    ("far", "far"),
    ("far", "symbol"),
    ("unsigned", "float", "number"),
]


def schema_of(kinds: tuple[str, ...]) -> Schema:
    names = [f"c{place}" for place in range(len(kinds))]
    return Schema.of("r", names, ["number" if kind == "far" else kind for kind in kinds])


def program_of(schema: Schema) -> str:
    return f".decl {schema.show()}\n.input r\n"


def signed_of(schema: Schema, changes: list[tuple[int, Row]], pieces: int) -> Signed:
    """As a source gives it: the table in pieces, text as text."""
    columns = [
        pa.array([row[place] for _, row in changes], kind)
        for place, kind in enumerate(map(_arrow, schema.types))
    ]
    signs = pa.array([sign for sign, _ in changes], pa.int8())
    table = pa.table([*columns, signs], names=[*schema.names, "sign"])
    size = max(1, -(-len(changes) // pieces))
    table = pa.concat_tables(table.slice(at, size) for at in range(0, len(changes), size))
    return fit(schema, table, schema.names, "test", sign="sign")


def _arrow(kind: str) -> pa.DataType:
    return {
        "symbol": pa.string(),
        "number": pa.int64(),
        "unsigned": pa.uint64(),
        "float": pa.float64(),
    }[kind]


def take(
    db: deltafix.Database, signed: Signed, policy: Policy, times: Times | None = None
) -> tuple[tuple[int, int], list[Bad], int]:
    """Apply as an epoch does: quickly first, carefully if a row is missing; how often it was."""
    for careful in (False, True):
        part = join([signed])
        try:
            with db.transaction(missing="ignore") as tx:
                moved = apply(tx, part, policy, times, careful=careful)
        except RecheckError:
            assert not careful
            continue
        if times is not None:
            times.settle(committed=True)
        return moved, part.bad, int(careful)
    raise AssertionError("unreachable")


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
@pytest.mark.parametrize("duplicates", ["ignore", "bad", "count"])
@pytest.mark.parametrize("missing", ["bad", "ignore"])
def test_oracle_random_batches_are_rows_taken_one_by_one(kinds, duplicates, missing) -> None:
    rng = Random(f"{kinds} {missing}")
    schema = schema_of(kinds)
    columns = ", ".join(f"{one.name}: {one.type}" for one in schema.columns)
    db = deltafix.connect(f"{program_of(schema)}.decl r{COUNTS}({columns}, n: number)\n")
    options = Options(missing, duplicates)
    judged = Judged()
    times = Times([]) if duplicates == "count" else None
    rechecked = 0
    for _ in range(30):
        pool = [tuple(DRAW[kind](rng) for kind in kinds) for _ in range(rng.randrange(1, 12))]
        drawn = [*pool, *judged.rows]
        mood = rng.choice([(1,), (-1,), (1, -1), (1, -1)])
        changes = [(rng.choice(mood), rng.choice(drawn)) for _ in range(rng.randrange(0, 40))]
        if mood == (-1,) and rng.random() < 0.5:
            changes = [(-1, row) for row in {row for _, row in changes} if row in judged.rows]
        if not changes:
            continue
        before = judged.rows
        judged.aside.clear()
        for change in changes:
            judged.take(Message((change,)), options)
        signed = signed_of(schema, changes, rng.randrange(1, 4))
        policy = Policy(duplicates=duplicates, missing=missing)
        (given, taken), bad, again = take(db, signed, policy, times)
        rechecked += again
        assert set(db.rows("r")) == judged.rows
        assert (given, taken) == (len(judged.rows - before), len(before - judged.rows))
        assert Counter((one.reason, tuple(one.row.values())) for one in bad) == judged.aside
        assert signed.bad == []
        # Only where nothing else makes it look at every row is the count of deleted rows asked.
        assert not again or any(reason == ABSENT for reason, _ in judged.aside)
        more = {row: n for row, n in judged.times.items() if n > 1 and duplicates == "count"}
        assert {row[:-1]: row[-1] for row in db.rows(f"r{COUNTS}")} == more
        db.check_invariants()
    assert (rechecked > 0) == (missing == "bad" and duplicates == "ignore")


def test_an_error_behind_a_batch_leaves_the_state_as_it_was() -> None:
    schema = schema_of(("symbol", "number"))
    db = deltafix.connect(program_of(schema))
    take(db, signed_of(schema, [(1, ("a", 1)), (1, ("b", 2))], 1), Policy())
    batch = signed_of(schema, [(-1, ("a", 1)), (1, ("new", 3)), (1, ("c", 4)), (-1, ("c", 4))], 2)
    with pytest.raises(ZeroDivisionError), db.transaction(missing="ignore") as tx:
        assert apply(tx, batch, Policy(), None, careful=False) == (1, 1)
        raise ZeroDivisionError
    assert set(db.rows("r")) == {("a", 1), ("b", 2)}
    assert take(db, batch, Policy()) == ((1, 1), [], 0)
    assert set(db.rows("r")) == {("b", 2), ("new", 3)}


def test_coded_rows_are_the_rows_and_belong_to_one_relation_of_one_database() -> None:
    text = ".decl r(a: symbol, b: number)\n.decl s(a: symbol, b: number)\n.input r, s\n"
    db, other = deltafix.connect(text), deltafix.connect(text)
    table = pa.table({"a": ["x", "y", "x"], "b": [1, 2, 3]})
    encoded = pa.table({"a": table.column("a").dictionary_encode(), "b": table.column("b")})
    with db.transaction() as tx:
        rows = tx.coded("r", encoded)
        assert len(rows) == 3
        assert tx.insert("r", rows.where(np.array([True, False, True]))) == 2
        assert tx.given("r", rows).tolist() == [True, False, True]
        assert tx.delete("r", rows.where(np.array([False, False, True]))) == 1
        with pytest.raises(FactError, match=r"s: the rows were coded for r; code them"):
            tx.insert("s", rows)
    assert db.rows("r") == [("x", 1)]
    with (
        other.transaction() as tx,
        pytest.raises(FactError, match="coded for r of another database"),
    ):
        tx.insert("r", rows)
    assert other.rows("r") == []


@pytest.mark.parametrize("ordered", [False, True])
def test_symbols_of_a_column_are_entered_once_and_found_again(ordered) -> None:
    rule = "s(a) :- r(a, b), a < b.\n" if ordered else "s(a) :- r(a, _).\n"
    text = ".decl r(a: symbol, b: symbol)\n.decl s(a: symbol)\n.input r\n" + rule
    rng = Random(f"symbols {ordered}")
    db = deltafix.connect(text)
    rows: set[Row] = set()
    for _ in range(5):
        names = [f"n{rng.randrange(60)}" for _ in range(80)]
        pairs = list(zip(names[:40], names[40:], strict=True))
        rows |= set(pairs)
        first, second = zip(*pairs, strict=True)
        # A dictionary may hold a value twice, and values that no row has.
        values = [*dict.fromkeys(first), first[0], "unused"]
        last = {value: place for place, value in enumerate(values)}
        places = pa.array([last[name] for name in first], pa.int32())
        coded = pa.DictionaryArray.from_arrays(places, pa.array(values))
        with db.transaction() as tx:
            tx.insert("r", pa.table({"a": coded, "b": list(second)}))
        assert set(db.rows("r")) == rows
        assert set(db.rows("s")) == {(a,) for a, b in rows if not ordered or a < b}
        assert sorted(zip(*db.to_arrow("r").to_pydict().values(), strict=True)) == sorted(rows)
    with db.transaction() as tx:  # a part of a long column knows only its own values
        tx.insert("r", pa.table({"a": coded, "b": list(second)}).slice(0, 2))
    assert set(db.rows("r")) == rows


def test_groups_bring_equal_rows_together_whatever_fits() -> None:
    rng = np.random.default_rng(3)
    for bound in (1, 5, 1 << 40, 1 << 62):
        for size in (1, 2, 300):
            drawn = rng.integers(0, bound, max(1, size // 3))
            codes = rng.choice(drawn, size)
            places, starts = group_rows(RowCodes(codes, bound))
            assert sorted(places.tolist()) == list(range(size))
            runs = [codes[part] for part in np.split(places, starts[1:])]
            assert [set(run.tolist()) for run in runs] == [{one} for one in sorted({*codes})]


def test_rows_that_fit_no_integer_have_no_codes() -> None:
    far = pa.chunked_array([pa.array([-(2**62), 2**62])])
    near = pa.chunked_array([pa.array([1, 2]), pa.array([1], pa.int64())])
    text = pa.chunked_array([["x", "y"], ["x"]]).cast(pa.dictionary(pa.int8(), pa.string()))
    assert code_rows([far]) is None
    assert code_rows([]) is None
    assert code_rows([pa.chunked_array([pa.array([1, None])])]) is None
    coded = code_rows([near, text])
    assert coded is not None
    assert (coded.codes.tolist(), coded.bound) == ([0, 3, 0], 4)
    assert dictionary_of(text).to_pylist() == ["x", "y", "x"]
    assert groups.code_rows([near.slice(3)]) is None
