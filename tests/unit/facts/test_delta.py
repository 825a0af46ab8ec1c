"""Deltas: net and disjoint, lazy, an algebra, and every exit form."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltafix.errors import FactError, MissingDependencyError, UnknownRelationError
from deltafix.facts.delta import Delta, RelationDelta
from deltafix.facts.schema import Schema
from deltafix.facts.side import Side

EDGE = Schema.of("edge", ["x", "y"], ["symbol", "symbol"])
PATH = Schema.of("path", ["x", "n"], ["symbol", "number"])


def test_show_is_stable_in_declaration_order_with_removed_rows_first():
    delta = Delta.of(
        {"path": ([("b", 2), ("a", 1)], []), "edge": ([("a", "b")], [("z", '"')])}, [EDGE, PATH]
    )
    assert delta.show() == "\n".join(
        ['-edge("z", "\\"")', '+edge("a", "b")', '+path("a", 1)', '+path("b", 2)']
    )


def test_a_mapping_of_changed_relations_that_still_knows_the_others():
    delta = Delta.of({"edge": ([("a", "b")], []), "path": ([], [])}, [EDGE, PATH])
    assert list(delta) == ["edge"]
    assert len(delta) == 1
    assert "path" not in delta
    assert delta["path"].added == []
    assert not delta["path"]


def test_only_some_relations_of_it_are_left_and_all_are_known():
    delta = Delta.of({"edge": ([("a", "b")], [("z", "y")]), "path": ([("a", 1)], [])}, [EDGE, PATH])
    assert delta.only("edge").show() == '-edge("z", "y")\n+edge("a", "b")'
    assert delta.only("edge")["path"].added == []
    assert delta.only("path", "edge") == delta
    assert delta.only() == Delta()
    with pytest.raises(UnknownRelationError, match="did you mean 'edge'"):
        delta.only("edgee")


def test_an_unknown_relation_is_a_key_error_that_suggests():
    delta = Delta.of({"edge": ([("a", "b")], [])})
    with pytest.raises(UnknownRelationError, match="did you mean 'edge'"):
        delta["edgee"]
    with pytest.raises(UnknownRelationError, match="there is edge"):
        Delta.of({"q": ([], [])}, [EDGE])
    with pytest.raises(KeyError):
        delta["q"]


def test_a_row_on_both_sides_is_refused():
    with pytest.raises(FactError, match=r'edge\("a", "b"\) is both added and removed'):
        Delta.of({"edge": ([("a", "b")], [("a", "b")])})


def test_rows_are_checked_against_given_schemas():
    with pytest.raises(FactError, match="column 'n'"):
        Delta.of({"path": ([("a", "b")], [])}, [PATH])


def test_loaders_run_once_and_only_when_rows_are_asked_for():
    calls = []

    def load():
        calls.append(1)
        return [("b", 2), ("a", 1)]

    change = RelationDelta(PATH, load, counts=(2, 0))
    assert (len(change), bool(change), calls) == (2, True, [])
    assert change.added == [("a", 1), ("b", 2)]
    assert change.to_arrow().num_rows == 2
    assert calls == [1]


def test_without_counts_asking_whether_anything_changed_loads():
    assert RelationDelta(PATH, lambda: [("a", 1)])
    assert not RelationDelta(PATH, list)


def test_a_side_given_as_a_table_becomes_rows():
    table = pa.table({"x": ["b", "a"], "n": [2, 1]})
    assert RelationDelta(PATH, (), lambda: table).removed == [("a", 1), ("b", 2)]
    assert len(RelationDelta(PATH, table)) == 2


def test_arrow_form_ends_in_a_sign_column_of_int8():
    table = Delta.of({"path": ([("a", 1)], [("b", 2)])}, [PATH])["path"].to_arrow()
    assert table.schema.names == ["x", "n", "sign"]
    assert table.schema.types == [pa.string(), pa.int64(), pa.int8()]
    assert table.to_pylist() == [
        {"x": "b", "n": 2, "sign": -1},
        {"x": "a", "n": 1, "sign": 1},
    ]


def test_the_sign_column_steps_aside_for_a_column_called_sign():
    schema = Schema.of("r", ["sign", "sign_"], ["number", "number"])
    assert RelationDelta(schema, [(1, 2)]).to_arrow().schema.names == ["sign", "sign_", "sign__"]


def test_a_nullary_relation_has_rows_and_an_arrow_form():
    change = RelationDelta(Schema("flag"), [()])
    assert (change.added, len(change)) == ([()], 1)
    assert change.to_arrow().to_pydict() == {"sign": [1]}


def test_pandas_polars_and_the_c_stream_agree_with_arrow():
    change = Delta.of({"path": ([("a", 1)], [("b", 2)])}, [PATH])["path"]
    rows = change.to_arrow().to_pylist()
    assert change.to_pandas().to_dict("records") == rows
    assert change.to_polars().to_dicts() == rows
    assert pa.table(change).to_pylist() == rows


def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'deltafix\[polars\]'"):
        RelationDelta(PATH).to_polars()


def test_repr_is_a_small_signed_table():
    change = Delta.of({"path": ([("abc", 1)], [("b", 20)])}, [PATH])["path"]
    assert repr(change).splitlines() == [
        "path(x: symbol, n: number): 1 added, 1 removed",
        "     x      n",
        '  -  "b"    20',
        '  +  "abc"  1',
    ]
    assert repr(Delta()) == "Delta: no change"


def test_repr_of_a_large_delta_says_how_much_it_leaves_out():
    change = RelationDelta(PATH, [("a", n) for n in range(50)])
    assert repr(change).splitlines()[-1] == "  … 30 more"
    assert "30 more" in change._repr_html_()


def test_html_form_escapes_values():
    change = RelationDelta(PATH, [("<b>", 1)])
    assert "&lt;b&gt;" in change._repr_html_()
    assert "<b>" not in change._repr_html_()
    assert Delta()._repr_html_() == "<p>Delta: no change</p>"


states = st.fixed_dictionaries(
    {name: st.frozensets(st.tuples(st.integers(0, 3), st.integers(0, 3))) for name in ("r", "s")}
)
SCHEMAS = [Schema.of(name, ["a", "b"], ["number", "number"]) for name in ("r", "s")]


def between(old, new):
    return Delta.of({name: (new[name] - old[name], old[name] - new[name]) for name in old}, SCHEMAS)


@given(states, states, states)
def test_law_composition_of_deltas_is_the_delta_between_the_ends(first, second, third):
    composed = between(first, second).compose(between(second, third))
    assert composed == between(first, third)


@given(states, states)
def test_law_inverse_undoes(old, new):
    delta = between(old, new)
    assert delta.inverse() == between(new, old)
    assert delta.compose(delta.inverse()) == Delta()


def test_a_side_that_another_thread_loads_meanwhile_is_loaded():
    """Two who follow a relation read the same part; the later one found no loader any more."""

    class Loaded(Side):
        """Between two looks at the loader another thread has come to its end."""

        looks = 0

        @property
        def _given(self):
            self.looks += 1
            return (lambda: [(1, 2)]) if self.looks == 1 else None

        @_given.setter
        def _given(self, given):
            pass

    assert Loaded(SCHEMAS[0], list, None).rows == [(1, 2)]
