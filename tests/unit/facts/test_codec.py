"""Fact files: both reading routes agree, writing reads back, errors name file and line."""

from __future__ import annotations

from io import StringIO

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltafix.errors import DeltafixError, FactError, TypeMismatchError
from deltafix.facts import codec
from deltafix.facts.arrow import rows_from_table
from deltafix.facts.codec import FactFormat, read_facts, write_facts
from deltafix.facts.schema import Schema

TAB = FactFormat()
CSV = FactFormat(",", rfc4180=True)
S = Schema.of("s", ["x"], ["symbol"])
SS = Schema.of("ss", ["x", "y"], ["symbol", "symbol"])
SN = Schema.of("sn", ["x", "n"], ["symbol", "number"])
N = Schema.of("n", ["n"], ["number"])
MIXED = Schema.of("m", ["n", "u", "f", "s"], ["number", "unsigned", "float", "symbol"])


def read(data, schema, form=TAB):
    found = read_facts(data, schema, form, "r.facts")
    return rows_from_table(found) if isinstance(found, pa.Table) else found


def written(rows, schema, form=TAB):
    stream = StringIO(newline="")
    write_facts(rows, schema, form, stream, "r.csv")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "schema", "rows"),
    [
        (b"", SN, []),
        (b"a\t1\nb\t2\n", SN, [("a", 1), ("b", 2)]),
        (b"a\t1\nb\t2", SN, [("a", 1), ("b", 2)]),
        (b"a\t1\r\nb\t2\r\n", SN, [("a", 1), ("b", 2)]),
        (b"\xef\xbb\xbfa\t1\n", SN, [("a", 1)]),
        (b'say "hi", NA\t\n', SS, [('say "hi", NA', "")]),
        (b"a\rb\tc\n", SS, [("a\rb", "c")]),
        (b"\n\n", S, [("",), ("",)]),
        (b"\t\n", SS, [("", "")]),
        (b"0x1f\n0b11\n+5\n-0x1\n007\n 9 \n", N, [(31,), (3,), (5,), (-1,), (7,), (9,)]),
        (b"-1\t18446744073709551615\t1e3\tz\n", MIXED, [(-1, 2**64 - 1, 1000.0, "z")]),
        (b"()\n", Schema("flag"), [()]),
        (b"", Schema("flag"), []),
    ],
)
def test_tab_separated_files(data, schema, rows):
    assert read(data, schema) == rows


def test_a_symbol_longer_than_the_readers_block_is_read():
    long = "b" * 3_000_000
    assert read(f"a\t{long}\nc\td\n".encode(), SS) == [("a", long), ("c", "d")]


def test_quotes_delimiters_and_line_breaks_under_rfc4180():
    data = b'"a,""b""",1\n"c\r\nd",2\n'
    assert read(data, SN, CSV) == [('a,"b"', 1), ("c\r\nd", 2)]


def test_headers_are_skipped_and_written():
    form = FactFormat(headers=True)
    assert read(b"x\tn\na\t1\n", SN, form) == [("a", 1)]
    assert written([("a", 1)], SN, form) == "x\tn\na\t1\n"


def test_a_delimiter_may_have_several_characters():
    form = FactFormat("::")
    assert read(b"a:b::1\n", SN, form) == [("a:b", 1)]
    assert written([("a:b", 1)], SN, form) == "a:b::1\n"


@pytest.mark.parametrize(
    ("data", "schema", "line", "wanted"),
    [
        (b"a\t1\nb\n", SN, 2, r"expected 2 values for sn\(x: symbol, n: number\), found 1"),
        (b"a\t1\tz\n", SN, 1, "found 3 value"),
        (b"a;1\n", SN, 1, r"found 1 value.*if \";\" stands between values.*sn\(delimiter=\";\"\)$"),
        (b"a,1\n", SN, 1, r"say \.input sn\(delimiter=\",\"\)$"),
        (b"a\tb\n\nc\td\n", SS, 2, "found an empty line"),
        (b"a\t1\nb\tx1\n", SN, 2, "column 'n' is 'x1', but number takes"),
        (b"a\t\n", SN, 1, "column 'n' is ''"),
        (b"9223372036854775808\n", N, 1, "9223372036854775807"),
        (b"0xffffffffffffffff\n", N, 1, "0xffffffffffffffff"),
        (b"1_0\n", N, 1, "1_0"),
        (b"1\t-1\t0\ta\n", MIXED, 1, "column 'u' is '-1'"),
        (b"1\t1\t1_0\ta\n", MIXED, 1, "column 'f' is '1_0'"),
        (b"a\nb\xff\n", S, 2, "byte 0xff is not UTF-8"),
        (b"\xef\xbb\xbfa\nb\xff\n", S, 2, "byte 0xff is not UTF-8"),
        (b"()\nyes\n", Schema("flag"), 2, r"expected the line \(\)"),
    ],
)
def test_a_line_that_does_not_fit_is_refused_with_file_and_line(data, schema, line, wanted):
    with pytest.raises(FactError, match=wanted) as caught:
        read(data, schema)
    assert str(caught.value).startswith(f"r.facts:{line}: ")
    assert caught.value.values["line"] == line


def test_a_bad_value_is_a_type_mismatch_and_a_bad_width_is_not():
    with pytest.raises(TypeMismatchError):
        read(b"a\tb\n", SN)
    with pytest.raises(FactError) as caught:
        read(b"a\n", SN)
    assert not isinstance(caught.value, TypeMismatchError)


def test_broken_quoting_is_refused_with_its_line():
    with pytest.raises(FactError, match=r"r.facts:2: not RFC 4180"):
        read(b'a,1\n"b,2\n', SN, CSV)


def test_headers_count_as_a_line_in_errors():
    with pytest.raises(FactError, match=r"r\.facts:3: "):
        read(b"x\tn\na\t1\nb\n", SN, FactFormat(headers=True))


@pytest.mark.parametrize("text", ["a\tb", "a\nb", "a\rb"])
def test_a_symbol_that_could_not_be_read_back_is_not_written(text):
    with pytest.raises(FactError, match="rfc4180=true"):
        written([("ok", "ok"), ("ok", text)], SS)
    assert read(written([("ok", text)], SS, CSV).encode(), SS, CSV) == [("ok", text)]


def test_floats_are_written_to_round_trip():
    schema = Schema.of("f", ["x"], ["float"])
    rows = [(0.1,), (1.0,), (1e300,), (float("-inf"),), (5e-324,)]
    assert written(rows, schema).split() == ["0.1", "1.0", "1e+300", "-inf", "5e-324"]
    assert read(written(rows, schema).encode(), schema) == rows


def test_nullary_relations_are_written_as_read():
    assert written([()], Schema("flag")) == "()\n"
    assert written([], Schema("flag")) == ""


@pytest.mark.parametrize(
    ("parameters", "wanted"),
    [
        ({"delimeter": ","}, "did you mean 'delimiter'"),
        ({"xyzzy": ","}, "valid: IO, filename"),
        ({"headers": "yes"}, "takes true or false"),
        ({"delimiter": ""}, "cannot separate"),
        ({"delimiter": "\n"}, "cannot separate"),
        ({"delimiter": "::", "rfc4180": "true"}, "one character"),
    ],
)
def test_parameters_not_understood_are_refused(parameters, wanted):
    with pytest.raises(FactError, match=wanted):
        FactFormat.from_parameters("r", parameters)


def test_parameters_of_a_directive():
    form = FactFormat.from_parameters("r", {"IO": "file", "rfc4180": "true", "headers": "true"})
    assert form == FactFormat(",", headers=True, rfc4180=True)
    assert FactFormat.from_parameters("r", {"delimiter": ";"}).delimiter == ";"


def test_columns_are_chosen_from_wider_lines():
    data = b"7\ta\tx\n8\tb\ty\n"
    chosen = FactFormat.from_parameters("sn", {"columns": "2:0"})
    assert rows_from_table(read_facts(data, SN, chosen, "sn.facts")) == [("x", 7), ("y", 8)]
    with pytest.raises(FactError, match=r"sn.facts:3: expected"):
        read_facts(data + b"9\tc\n", SN, chosen, "sn.facts")
    for wrong in ("2:", "a", "0:1:2", "-1"):
        with pytest.raises(FactError, match="columns="):
            read_facts(data, SN, FactFormat.from_parameters("sn", {"columns": wrong}), "sn.facts")


def test_what_is_passed_over_is_told_once():
    told = []
    data = b"a\t1\tx\nb\t2\nc\t3\ty\tz\n"
    found = read_facts(data, SN, TAB, "sn.facts", told.append)
    assert rows_from_table(found) == [("a", 1), ("b", 2), ("c", 3)]
    assert len(told) == 1
    assert told[0].startswith("sn.facts:1: 2 lines have more values than")
    with pytest.raises(FactError, match=r"sn.facts:2: expected 2"):
        read_facts(b"a\t1\nb\n", SN, TAB, "sn.facts", told.append)


def test_a_line_that_is_cut_inside_of_quotes_says_how_they_are_read():
    told = []
    schema = Schema.of("ss", ["s", "t"], ["symbol", "symbol"])
    plain = FactFormat.from_parameters("ss", {"delimiter": ","})
    found = read_facts(b'a,"b,c"\nd,e\n', schema, plain, "ss.csv", told.append)
    assert rows_from_table(found) == [("a", '"b'), ("d", "e")]
    assert told[0].endswith("; .input ss(rfc4180=true) reads values in quotes")
    quoted = FactFormat.from_parameters("ss", {"rfc4180": "true"})
    found = read_facts(b'a,"b,c"\nd,e\n', schema, quoted, "ss.csv", told.append)
    assert rows_from_table(found) == [("a", "b,c"), ("d", "e")]
    assert len(told) == 1


@pytest.mark.parametrize("data", [b"()\n", b"()", b"\n", b"()\n()\n", b"()\r\n"])
def test_a_relation_without_columns_holds_if_its_file_has_a_line(data):
    nullary = Schema("r")
    assert set(read_facts(data, nullary, TAB, "r.facts")) == {()}
    assert set(read_facts(data, nullary, CSV, "r.facts")) == {()}
    assert read_facts(b"", nullary, TAB, "r.facts") == []


cells = st.text(alphabet="ab01-+. _xX\t\n\r\"',é\0", max_size=4)


@settings(deadline=None, max_examples=150)
@given(st.lists(cells, max_size=8), st.sampled_from([S, SS, N, SN]), st.sampled_from([TAB, CSV]))
def test_agree_both_routes_accept_the_same_files_and_read_the_same_rows(parts, schema, form):
    data = "".join(parts).encode()
    try:
        exact = list(codec._read_lines(data, schema, form, "r.facts", None))
    except DeltafixError:
        assert codec._read_arrow(data, schema, form) is None
        return
    fast = codec._read_arrow(data, schema, form)
    assert fast is None or rows_from_table(fast) == exact


rows = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1),
        st.integers(0, 2**64 - 1),
        st.floats(allow_nan=False),
        st.text(st.characters(codec="utf-8")),
    ),
    max_size=5,
)


@settings(deadline=None, max_examples=100)
@given(rows)
def test_law_what_is_written_reads_back(given_rows):
    text = written(given_rows, MIXED, CSV)
    assert read(text.encode(), MIXED, CSV) == given_rows
