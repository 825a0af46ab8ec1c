"""agree_*: floats through every door, in and out: the values that went in come out.

NaN of any kind, both zeros, infinities, subnormals. Sees: a door that tells two NaN or two zeros
apart, that has a text for a value which it does not read back, that refuses or drops a value, a
reducer or an aggregate that orders floats in another way than columns do.
"""

from __future__ import annotations

import json
import math
import struct
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.pipelines import rows_of

import deltafix
from deltafix.facts.schema import Schema
from deltafix.facts.sink import write_output
from deltafix.facts.source import read_input
from deltafix.facts.values import canonical, float_order
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.pipeline.config import read_config
from deltafix.pipeline.manifest import read_view
from deltafix.pipeline.runner import Pipeline
from deltafix.reactive import Collection, Count, Distinct, Last, Max, Mean, Min, Sum, TopK
from deltafix.spark.reduce import StreamReduce

(OTHER_NAN,) = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000123))
POOL = [
    *(math.nan, OTHER_NAN, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 0.1, -2.5, 1.0),
    *(1.7976931348623157e308, 2.0**53 + 2, 1e22, float(np.float32(0.1))),
]
SCHEMA = Schema.of("v", ["id", "x"], ["number", "float"])
PROGRAM = """
.decl v(id: number, x: float)
.input v
.decl all(n: number, lo: float, hi: float, s: float, m: float)
all(n, lo, hi, s, m) :- n = count : { v(_, _) }, lo = min x : { v(_, x) }, hi = max x : { v(_, x) },
    s = sum x : { v(_, x) }, m = mean x : { v(_, x) }.
.decl top(k: number, x: float <max>)
top(1, x) :- v(_, x).
.output v, all, top
"""
EXAMPLES = 2 if JIT_DISABLED else 8


def bits(rows) -> list[tuple]:
    """Rows with their floats by pattern: NaN and zeros are told apart here."""
    return sorted(
        tuple(struct.pack(">d", v).hex() if isinstance(v, float) else v for v in row)
        for row in rows
    )


def columns(rows: list[tuple[int, float]]) -> pa.Table:
    ids, floats = zip(*rows, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "x": pa.array(floats, pa.float64())})


def file_text(rows: list[tuple[int, float]]) -> bytes:
    names = {math.inf: "inf", -math.inf: "-Infinity"}
    return "".join(f"{n}\t{names.get(x, repr(x))}\n" for n, x in rows).encode()


def by_fact_file(rows, folder: Path, parameters: dict[str, str]):
    """What a directive reads of the file that another wrote."""
    (folder / "v.facts").write_bytes(file_text(rows))
    first = read_input(SCHEMA, {}, folder)
    first = (
        first if isinstance(first, list) else list(zip(*first.to_pydict().values(), strict=True))
    )
    form = {"filename": "again.data", **parameters}
    assert write_output(SCHEMA, form, first, folder, StringIO()) is not None
    return read_input(SCHEMA, form, folder)


IN = {
    "tuples": lambda rows, folder: rows,
    "numpy": lambda rows, folder: [(np.int64(n), np.float64(x)) for n, x in rows],
    "arrow": lambda rows, folder: columns(rows),
    "pandas": lambda rows, folder: pd.DataFrame(rows, columns=["id", "x"]),
    "parquet": lambda rows, folder: through_parquet(columns(rows), folder),
    "file": lambda rows, folder: by_fact_file(rows, folder, {}),
    "rfc4180": lambda rows, folder: by_fact_file(rows, folder, {"rfc4180": "true"}),
    "json": lambda rows, folder: by_fact_file(rows, folder, {"IO": "jsonfile"}),
    "objects": lambda rows, folder: by_fact_file(
        rows, folder, {"IO": "jsonfile", "format": "object"}
    ),
    "sqlite": lambda rows, folder: by_fact_file(rows, folder, {"IO": "sqlite"}),
}


def through_parquet(table: pa.Table, folder: Path) -> pa.Table:
    pyarrow.parquet.write_table(table, folder / "v.parquet")
    return pyarrow.parquet.read_table(folder / "v.parquet")


def expected(rows: list[tuple[int, float]]) -> dict[str, list[tuple]]:
    """What the program says of the rows, by the order of floats and exact sums."""
    clean = [(n, canonical(x)) for n, x in rows]
    values = sorted((x for _, x in clean), key=float_order)
    with deltafix.connect(PROGRAM) as db, db.transaction() as tx:
        for row in clean:  # row by row: the door that all others are held against
            tx.insert("v", [row])
    every = db_rows(db)
    (found,) = every["all"]
    assert bits([found[1:3]]) == bits([(values[0], values[-1])])
    assert bits(every["top"]) == bits([(1, values[-1])])
    assert bits(every["v"]) == bits(clean)
    return every


def db_rows(db: deltafix.Database) -> dict[str, list[tuple]]:
    return {name: db.rows(name) for name in ("v", "all", "top")}


rows_drawn = st.lists(st.sampled_from(POOL), min_size=1, max_size=8).map(
    lambda floats: list(enumerate(floats))
)


@pytest.mark.parametrize("door", IN)
@settings(max_examples=EXAMPLES)
@given(rows=rows_drawn)
def test_agree_floats_go_in_by_any_door_and_come_out(door, rows, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("door")
    wanted = expected(rows)
    state = folder / "state"
    with deltafix.connect(PROGRAM, state) as db:
        with db.transaction() as tx:
            tx.insert("v", IN[door](rows, folder))
        assert {n: bits(db.rows(n)) for n in wanted} == {n: bits(r) for n, r in wanted.items()}
        assert bits(tx.delta["v"].added) == bits(wanted["v"])
        assert bits(rows_of(tx.delta["v"].to_arrow().select(["id", "x"]))) == bits(wanted["v"])
        assert bits(rows_of(db.to_arrow("v"))) == bits(wanted["v"])
        held = db.rows("v")
        assert held == sorted(held, key=lambda row: (row[0], float_order(row[1])))
    with deltafix.connect(PROGRAM, state) as db:
        assert {n: bits(db.rows(n)) for n in wanted} == {n: bits(r) for n, r in wanted.items()}
        with db.transaction() as tx:  # the same rows, whichever zero and NaN they are told by
            tx.delete("v", [(n, -x if x in (0.0, -0.0) else x) for n, x in rows])
        assert db.count("v") == 0
        db.check_invariants()


PIPELINE = """
[pipeline]
program = "p.dl"
state = "state"
runner = "local"
[input.v]
source = "files"
path = "in"
format = "{form}"
sign = "sign"
[output.v]
path = "out/v"
[output.top]
path = "out/top"
"""


def change_file(rows: list[tuple[int, float]], sign: int, form: str, path: Path) -> None:
    """A file of rows; beside them one comes with one zero or NaN, and leaves with another."""
    signs = [sign] * len(rows)
    for passing in ((99, 0.0, -0.0), (98, math.nan, OTHER_NAN)) if sign > 0 else ():
        rows = [*rows, *((passing[0], x) for x in passing[1:])]
        signs += [1, -1]
    table = columns(rows).append_column("sign", pa.array(signs, pa.int64()))
    if form == "parquet":
        pyarrow.parquet.write_table(table, path)
    elif form == "csv":
        lines = [f"{n},{x!r},{s}" for (n, x), s in zip(rows, signs, strict=True)]
        path.write_text("\n".join(["id,x,sign", *lines]) + "\n")
    else:
        odd = {math.inf: "Infinity", -math.inf: "-inf", math.nan: "NaN", OTHER_NAN: "nan"}
        path.write_text(
            "".join(
                json.dumps({"id": n, "x": odd.get(x, x), "sign": s}) + "\n"
                for (n, x), s in zip(rows, signs, strict=True)
            )
        )


@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
@settings(max_examples=max(EXAMPLES // 3, 2))
@given(rows=rows_drawn, split=st.integers(1, 7))
def test_agree_floats_of_a_pipeline(form, rows, split, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("pipeline")
    (folder / "in").mkdir()
    (folder / "p.dl").write_text(PROGRAM)
    (folder / "p.toml").write_text(PIPELINE.format(form=form))
    wanted = expected(rows)
    for number, part in enumerate((rows[:split], rows[split:])):
        if part:
            change_file(part, 1, form, folder / "in" / f"{number}.{form}")
    with Pipeline(read_config(folder / "p.toml")) as pipeline:
        list(pipeline.drain())
        db = pipeline.maintainer.db
        assert {n: bits(db.rows(n)) for n in wanted} == {n: bits(r) for n, r in wanted.items()}
    for name in ("v", "top"):
        assert bits(rows_of(read_view(folder / "out" / name)[1])) == bits(wanted[name])
    change_file([(n, -x if x == 0 else x) for n, x in rows], -1, form, folder / "in" / f"9.{form}")
    with Pipeline(read_config(folder / "p.toml")) as pipeline:
        list(pipeline.drain())
        assert pipeline.maintainer.db.count("v") == 0


def by_rows(source, rows) -> None:
    for n, x in rows:
        source.insert(n % 2, x)


def by_transaction(source, rows) -> None:
    with source.transaction() as tx:
        for n, x in rows:
            tx.insert(n % 2, x)


def by_table(source, rows) -> None:
    source.load(keyed(rows), key="k")


def by_signed_table(source, rows) -> None:
    signs = pa.array([1] * len(rows), pa.int64())
    source.apply_table(keyed(rows).append_column("sign", signs), key="k")


def keyed(rows) -> pa.Table:
    return pa.table(
        {
            "k": pa.array([n % 2 for n, _ in rows], pa.int64()),
            "x": pa.array([x for _, x in rows], pa.float64()),
        }
    )


REDUCERS = [
    *(Count(), Sum(), Mean(), Min(), Max(), Min(partial=True), Max(partial=True), Distinct()),
    *(Last(), TopK(3)),
]


@settings(max_examples=EXAMPLES * 4)
@given(rows=rows_drawn, rng=st.randoms(use_true_random=False))
def test_agree_reducers_over_floats_by_any_door(rows, rng) -> None:
    wanted: dict[int, list[float]] = {}
    for n, x in rows:
        wanted.setdefault(n % 2, []).append(canonical(x))
    door = rng.choice([by_rows, by_transaction, by_table, by_signed_table])
    source = Collection.input()
    made = source.map_values(lambda x: x * 1.0)  # floats made by functions too
    results = [of.reduce(one) for of in (source, made) for one in REDUCERS]
    door(source, rows)
    check(results, wanted)
    for n, x in rng.sample(rows, len(rows)):
        source.delete(n % 2, float(str(-x if x == 0 else x)))
        wanted[n % 2].remove(canonical(x))
        if rng.random() < 0.3:
            check(results, wanted)
    assert not any(one.to_dict() for one in results)


@settings(max_examples=EXAMPLES)
@example(rows=[(0, 0.0), (2, -5e-324)], split=1, form=pa.float64())
@given(rows=rows_drawn, split=st.integers(1, 7), form=st.sampled_from([pa.float64(), pa.float32()]))
def test_agree_reducers_over_floats_of_batches(rows, split, form, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("batches")
    if form == pa.float32():
        rows = [(n, float(np.float32(x))) for n, x in rows if abs(x) < 1e30 or not math.isfinite(x)]
    wanted: dict[int, list[float]] = {0: [], 1: []}
    views: list[dict] = [{} for _ in REDUCERS]

    def apply(batch: int, changes: list[tuple[int, float]], sign: int) -> None:
        for n, x in changes:
            (wanted[n % 2].append if sign > 0 else wanted[n % 2].remove)(canonical(x))
        table = keyed(changes)
        table = table.set_column(1, "x", table.column("x").cast(form))
        signs = pa.array([sign] * len(changes), pa.int64())
        results: list[dict] = []
        for number, one in enumerate(REDUCERS):
            reduce = StreamReduce(one, folder / str(number), key="k", value="x", sign="sign")
            told = reduce.apply(batch, table.append_column("sign", signs)).delta
            said = [told.column(name).to_pylist() for name in ("key", "value", "sign")]
            for key, value, way in zip(*said, strict=True):
                found = tuple(value) if isinstance(value, list) else value
                if way < 0:
                    assert show({key: views[number].pop(key)}) == show({key: found})
                else:
                    views[number][key] = found
            results.append(reduce.results())
            again = StreamReduce(one, folder / str(number), key="k", value="x", sign="sign")
            assert show(again.results()) == show(reduce.results()) == show(views[number])
        check([View(one) for one in results + views], wanted)

    apply(0, rows[:split], 1)
    apply(1, rows[split:], 1)
    apply(2, [(n, -x if x == 0 else x) for n, x in rows[1::2]], -1)
    apply(3, [(n, OTHER_NAN if math.isnan(x) else x) for n, x in rows[::2]], -1)


def show(view: dict) -> list[tuple]:
    flat = ((key, value if isinstance(value, tuple) else (value,)) for key, value in view.items())
    return bits((key, *values) for key, values in flat)


class View(dict):
    """Results by key, as `check` asks for them."""

    def to_dict(self) -> dict:
        return self


def check(results, wanted: dict[int, list[float]]) -> None:
    for key, values in wanted.items():
        if not values:
            assert all(key not in one.to_dict() for one in results)
            continue
        ordered = sorted(values, key=float_order)
        ends = [ordered[0], ordered[-1]] * 2
        top = tuple(ordered[::-1][:3])
        sums = total(values)
        for half in (results[: len(REDUCERS)], results[len(REDUCERS) :]):
            found = [one.get(key) for one in half]
            count, added, mean, *others, distinct, last, best = found
            assert (count, distinct) == (len(values), len(set(map(float_order, values))))
            assert bits([tuple(others), (last,), best]) == bits([tuple(ends), (ordered[-1],), top])
            assert bits([(float(added), float(mean))]) == bits([sums])


def total(values: list[float]) -> tuple[float, float]:
    """Sum and mean as the engine's aggregates have them."""
    with deltafix.connect(PROGRAM) as db:
        with db.transaction() as tx:
            tx.insert("v", list(enumerate(values)))
        ((_, _, _, added, mean),) = db.rows("all")
    return added, mean


def test_rows_of_a_large_delta_are_equal_to_those_read_one_by_one() -> None:
    """A delta of thousands of rows is read out of Arrow, which makes a NaN for each."""
    rows = [(n, POOL[n % len(POOL)]) for n in range(3_000)]
    with deltafix.connect(PROGRAM) as db:
        with db.transaction() as tx:
            tx.insert("v", rows)
        assert sorted(tx.delta["v"].added) == sorted(db.rows("v"))
        assert set(tx.delta["v"].added) == set(db.rows("v"))


def test_texts_that_are_no_float_are_refused(tmp_path) -> None:
    texts = ("nan(1)", "1e", "infin", "0x1p3", "1_000", "--1", "NaN()")
    for text in texts:
        (tmp_path / "v.facts").write_text(f"1\t{text}\n")
        with pytest.raises(deltafix.errors.TypeMismatchError, match=r"v\.facts"):
            read_input(SCHEMA, {}, tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "p.dl").write_text(PROGRAM)
    text = PIPELINE.format(form="csv").replace(
        'sign = "sign"', 'sign = "sign"\nbad_rows = "quarantine"'
    )
    (tmp_path / "p.toml").write_text(text)
    lines = [f"{n},{text},1" for n, text in enumerate(texts)]
    (tmp_path / "in" / "1.csv").write_text(
        "\n".join(["id,x,sign", *lines, "-0x10,-nan,1", "9, 1,1"]) + "\n"
    )
    with Pipeline(read_config(tmp_path / "p.toml")) as pipeline:
        list(pipeline.drain())
        assert pipeline.maintainer.quarantine.counts() == {"v": len(texts)}
        assert bits(pipeline.maintainer.db.rows("v")) == bits([(-16, math.nan), (9, 1.0)])
