"""The columnar doors: tables and arrays in, canonical tables out."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import deltafix
import deltafix.sql
from deltafix.errors import FactError, TypeMismatchError
from deltafix.facts.arrow import (
    arrow_schema,
    check_array,
    check_table,
    is_tabular,
    rows_from_table,
    table_from_rows,
    to_numpy,
)
from deltafix.facts.schema import Schema

MIXED = Schema.of("m", ["n", "u", "f", "s"], ["number", "unsigned", "float", "symbol"])
PAIR = Schema.of("pair", ["x", "n"], ["symbol", "number"])


def test_rows_survive_the_way_through_a_table():
    rows = [(-1, 2**64 - 1, 0.1, "a"), (2, 0, float("inf"), "")]
    table = table_from_rows(MIXED, rows)
    assert table.schema == arrow_schema(MIXED)
    assert rows_from_table(table) == rows
    assert table_from_rows(MIXED, []).schema == arrow_schema(MIXED)


def test_other_widths_and_encodings_are_cast():
    table = pa.table(
        {
            "n": pa.array([1, 2], pa.int8()),
            "u": pa.array([1, 2], pa.int32()),
            "f": pa.array([1, 2], pa.int16()),
            "s": pa.array(["a", "b"], pa.large_string()).dictionary_encode(),
        }
    )
    assert rows_from_table(check_table(MIXED, table)) == [(1, 1, 1.0, "a"), (2, 2, 2.0, "b")]


def test_columns_go_by_name_in_any_order_or_by_position_with_other_names():
    by_name = pa.table({"n": [1], "x": ["a"]})
    by_position = pa.table({"p": ["a"], "q": [1]})
    for table in (by_name, by_position, by_name.to_batches()[0]):
        assert rows_from_table(check_table(PAIR, table)) == [("a", 1)]


def test_half_known_names_are_refused_because_either_reading_could_be_meant():
    with pytest.raises(FactError, match=r"share only \['n'\]"):
        check_table(PAIR, pa.table({"n": [1], "y": [2]}))


def test_a_polars_frame_is_a_table():
    frame = pl.DataFrame({"x": ["a"], "n": [1]})
    assert is_tabular(frame)
    assert rows_from_table(check_table(PAIR, frame)) == [("a", 1)]
    assert not is_tabular([("a", 1)])


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["never", "b", "a"])])
@pytest.mark.parametrize("encoded", [False, True])
def test_categories_of_polars_are_texts(kind, encoded):
    """They are dictionaries of views, from which Arrow cannot take."""
    texts = ["b", "a", "b"]
    frame = pl.DataFrame({"x": pl.Series(texts, dtype=kind), "n": [1, 2, 3]})
    table = check_table(PAIR, frame, encoded=encoded)
    assert table.column("x").cast(pa.large_string()).to_pylist() == texts
    with deltafix.connect(".decl p(x: symbol, n: number)\n.input p") as db:
        with db.transaction() as tx:
            tx.insert("p", frame.slice(1, 1))  # fewer rows than categories
            tx.insert("p", frame)
        assert db.rows("p") == sorted(zip(texts, (1, 2, 3), strict=True))
    with deltafix.sql.connect() as sql:
        sql.execute("CREATE TABLE p (x TEXT, n BIGINT)")
        sql.insert("p", frame)
        assert sorted(sql.execute("SELECT x, n FROM p")) == sorted(
            zip(texts, (1, 2, 3), strict=True)
        )
    with pytest.raises(FactError, match="column 'x' of row 1 is null"):
        check_table(PAIR, pl.DataFrame({"x": pl.Series(["a", None], dtype=kind), "n": [1, 2]}))


@pytest.mark.parametrize(
    ("table", "wanted"),
    [
        (pa.table({"x": ["a"]}), "1 column"),
        (pa.table({"x": ["a", None], "n": [1, 2]}), "column 'x' of row 1 is null"),
        (pa.table({"x": ["a"], "n": [1.0]}), "Arrow type double"),
        (pa.table({"x": ["a"], "n": [True]}), "Arrow type bool"),
        (pa.table({"x": [1], "n": [1]}), "Arrow type int64"),
        (
            pa.table({"x": ["a", "b"], "n": pa.array([1, 2**63], pa.uint64())}),
            "column 'n' of row 1 is 9223372036854775808",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused_with_its_place(table, wanted):
    with pytest.raises(FactError, match=wanted):
        check_table(PAIR, table)


def test_an_integer_too_wide_for_a_float_is_refused():
    schema = Schema.of("f", ["x"], ["float"])
    with pytest.raises(TypeMismatchError, match="row 0 is 9007199254740993"):
        check_table(schema, pa.table({"x": [2**53 + 1]}))


def test_numpy_arrays_of_any_integer_type_and_layout_are_taken():
    schema = Schema.of("e", ["x", "y"], ["number", "number"])
    array = np.array([[1, 2], [3, 4]], np.int32)
    assert rows_from_table(check_array(schema, array)) == [(1, 2), (3, 4)]
    assert rows_from_table(check_array(schema, array.T)) == [(1, 3), (2, 4)]
    assert check_array(schema, np.empty((0, 2), np.int64)).num_rows == 0


def test_arrays_of_another_shape_or_kind_are_refused():
    schema = Schema.of("e", ["x", "y"], ["number", "unsigned"])
    with pytest.raises(FactError, match=r"shape \(3,\)"):
        check_array(schema, np.arange(3))
    with pytest.raises(TypeMismatchError, match="dtype bool"):
        check_array(schema, np.ones((1, 2), np.bool_))
    with pytest.raises(TypeMismatchError, match="column 'y' of row 0 is -1"):
        check_array(schema, np.array([[1, -1]]))


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.float64(), pa.int32()])
def test_columns_become_numpy_arrays_whatever_their_chunks(kind):
    one, none = pa.array([1, 2], kind), pa.array([], kind)
    for chunks in ([], [one], [one, none, one], [one.slice(1)]):
        column = pa.chunked_array(chunks, kind)
        assert to_numpy(column).tolist() == column.to_pylist()
        assert to_numpy(column).dtype == kind.to_pandas_dtype()


@pytest.mark.parametrize("encoded", [False, True])
def test_a_null_in_a_dictionary_is_refused_as_any_null_is(encoded):
    hidden = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    table = pa.table({"x": hidden, "n": [1, 2]})
    with pytest.raises(FactError, match="column 'x' of row 1 is null"):
        check_table(PAIR, table, encoded=encoded)
    unused = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["a", None]))
    checked = check_table(PAIR, pa.table({"x": unused, "n": [1, 2]}), encoded=encoded)
    assert rows_from_table(checked) == [("a", 1), ("a", 2)]


def test_symbols_may_stay_encoded_and_nothing_else_does():
    table = pa.table(
        {"x": pa.array(["a", "b"]).dictionary_encode(), "n": pa.array([1, 2]).dictionary_encode()}
    )
    checked = check_table(PAIR, table, encoded=True)
    assert pa.types.is_dictionary(checked.column("x").type)
    assert checked.column("n").type == pa.int64()
    assert rows_from_table(checked) == [("a", 1), ("b", 2)]
    assert check_table(PAIR, table).schema == arrow_schema(PAIR)
    odd = pa.table({"x": pa.array([1, 2]).dictionary_encode(), "n": [1, 2]})
    with pytest.raises(TypeMismatchError, match="dictionary<values=int64"):
        check_table(PAIR, odd, encoded=True)
