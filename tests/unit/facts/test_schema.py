"""The door for Python rows: what passes, what is normalised, what is refused and how."""

from __future__ import annotations

import numpy as np
import pytest

from deltafix.errors import FactError, TypeMismatchError
from deltafix.facts.schema import (
    Column,
    Schema,
    show_row,
)
from deltafix.facts.values import show_value

EDGE = Schema.of("edge", ["from", "weight"], ["symbol", "number"])
ALL = Schema.of("all", ["n", "u", "f", "s"], ["number", "unsigned", "float", "symbol"])


def test_good_rows_pass_unchanged_and_uncopied():
    row = (-(2**63), 2**64 - 1, 0.5, "é")
    checked = ALL.check_rows([row])
    assert checked == [row]
    assert checked[0] is row


def test_rows_may_come_from_any_iterable_and_keep_order_and_duplicates():
    assert EDGE.check_rows(iter([("b", 2), ("a", 1), ("b", 2)])) == [("b", 2), ("a", 1), ("b", 2)]


def test_a_nullary_relation_has_the_empty_row():
    assert Schema("flag").check_rows([()]) == [()]


def test_numpy_scalars_lists_and_subclasses_become_plain_values():
    class Name(str):
        __slots__ = ()

    checked = ALL.check_rows([[np.int32(1), np.uint64(2), np.float32(0.5), Name("a")]])
    assert checked == [(1, 2, 0.5, "a")]
    assert [type(value) for value in checked[0]] == [int, int, float, str]


def test_a_float_column_takes_an_int_it_holds_exactly():
    schema = Schema.of("f", ["x"], ["float"])
    assert schema.check_rows([(3,)]) == [(3.0,)]
    with pytest.raises(TypeMismatchError):
        schema.check_rows([(2**53 + 1,)])
    with pytest.raises(TypeMismatchError):
        schema.check_rows([(10**400,)])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("number", True),
        ("number", np.bool_(True)),
        ("number", 1.0),
        ("number", "1"),
        ("number", None),
        ("number", 2**63),
        ("number", -(2**63) - 1),
        ("unsigned", -1),
        ("unsigned", 2**64),
        ("float", "1.0"),
        ("float", True),
        ("symbol", 1),
        ("symbol", b"a"),
        ("symbol", "\ud800"),
    ],
)
def test_a_value_outside_its_type_is_refused_with_its_place(column, value):
    good = {"number": 1, "unsigned": 1, "float": 1.0, "symbol": "a"}[column]
    schema = Schema("r", (Column("x", column),))
    with pytest.raises(TypeMismatchError) as caught:
        schema.check_rows([(good,), (value,)])
    assert caught.value.values == {"relation": "r", "column": "x", "row": 1, "value": value}
    assert column in str(caught.value)


def test_a_row_of_the_wrong_width_is_refused_with_its_place():
    with pytest.raises(FactError, match=r"row 1 .* edge\(from: symbol, weight: number\)") as caught:
        EDGE.check_rows([("a", 1), ("b",)])
    assert caught.value.values == {"relation": "edge", "row": 1, "value": ("b",)}


def test_one_bare_row_is_refused_with_the_list_it_should_be():
    with pytest.raises(FactError) as caught:
        EDGE.check_rows(("a", 1))
    assert '[("a", 1)]' in str(caught.value)


def test_something_that_is_no_rows_at_all_is_refused():
    with pytest.raises(FactError, match="iterable of tuples"):
        EDGE.check_rows(3)


def test_inferred_schemas_follow_the_values():
    rows = [("a", 1, 0.5, 2**63), ("b", 2, 1.5, 0)]
    assert Schema.infer("r", rows).types == ("symbol", "number", "float", "unsigned")
    assert Schema.infer("r", []).arity == 0


def test_values_show_as_program_text():
    assert show_row("r", ('a"\\\n\t', -1, 0.1)) == r'r("a\"\\\n\t", -1, 0.1)'
    assert show_row("flag", ()) == "flag()"
    assert show_value(1e300) == "1e+300"
