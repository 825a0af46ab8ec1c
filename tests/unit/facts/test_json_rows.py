"""Relations as JSON: what is written is read back, and what is wrong names file, row and column."""

from __future__ import annotations

import json
import math
from io import StringIO

import pytest

from deltafix.datalog.program import Program
from deltafix.errors import FactError, TypeMismatchError
from deltafix.facts.carets import with_caret
from deltafix.facts.json_rows import read_json
from deltafix.facts.schema import Schema, show_row
from deltafix.facts.sink import write_output
from deltafix.facts.source import read_input
from deltafix.facts.values import Branch
from deltafix.rules.schemas import row_schemas

SCHEMAS = row_schemas(
    Program.parse(
        ".type List = [head: number, tail: List] .type Pair = [a: float, b: symbol] "
        ".type Tree = Leaf {v: Pair} | Node {l: Tree, r: Tree} "
        ".decl plain(x: number, y: unsigned, z: float, s: symbol) .decl held() "
        ".decl lists(l: List, p: Pair) .decl trees(t: Tree)"
    )
)
DEEP = None
for number in range(3000):
    DEEP = (number, DEEP)
ROWS = {
    "plain": [
        (-(2**63), 2**64 - 1, 1.5, 'a"\\\té\n'),
        (0, 0, math.inf, ""),
        (1, 1, -math.inf, "nil"),
        (2, 2, 5e-324, "[1]"),
    ],
    "held": [()],
    "lists": [(None, None), ((1, (2, None)), (math.inf, "x")), (DEEP, (1.0, "nil"))],
    "trees": [
        (Branch("Leaf", ((0.5, "a,b"),)),),
        (Branch("Node", (Branch("Leaf", (None,)),) * 2),),
    ],
}


def shown(rows: list) -> list[str]:
    """Rows as text: deep ones compare as such."""
    return [show_row("r", row) for row in rows]


@pytest.mark.parametrize("form", ["list", "object"])
@pytest.mark.parametrize("relation", ROWS)
def test_what_is_written_is_read_back(tmp_path, monkeypatch, relation, form):
    schema = SCHEMAS[relation]
    parameters = {"IO": "jsonfile", "format": form}
    path = write_output(schema, parameters, ROWS[relation], tmp_path, StringIO())
    assert path == tmp_path / f"{relation}.json"
    assert len(json.loads(path.read_text())) == len(ROWS[relation])
    assert shown(read_input(schema, {"IO": "jsonfile"}, tmp_path)) == shown(ROWS[relation])

    stdout = StringIO()
    assert (
        write_output(schema, {**parameters, "IO": "json"}, ROWS[relation], tmp_path, stdout) is None
    )
    assert stdout.getvalue() == path.read_text()

    class Stdin:
        buffer = __import__("io").BytesIO(stdout.getvalue().encode())

    monkeypatch.setattr("sys.stdin", Stdin)
    assert shown(read_input(schema, {"IO": "json"}, tmp_path)) == shown(ROWS[relation])


def test_nan_is_written_as_text():
    schema = Schema.of("f", ["x"], ["float"])
    stdout = StringIO()
    write_output(schema, {"IO": "json"}, [(math.nan,)], None, stdout)
    assert stdout.getvalue() == '[["nan"]]\n'
    assert math.isnan(read_json(stdout.getvalue().encode(), schema, "f.json")[0][0])


def test_rows_are_arrays_or_objects():
    data = b'[[1, "nil"], {"p": null, "l": {"head": 2, "tail": [3, null]}}]'
    assert read_json(b"[" + data[12:], SCHEMAS["lists"], "l.json") == [((2, (3, None)), None)]


@pytest.mark.parametrize(
    ("relation", "data", "error", "words"),
    [
        ("plain", b"[", FactError, "p.json: this is not JSON"),
        ("plain", b"\xff", FactError, "p.json: this is not JSON"),
        ("plain", b"[[NaN]]", FactError, "NaN is no JSON value"),
        ("plain", b"[" * 100_000, FactError, "p.json: this is not JSON"),
        ("plain", b"{}", FactError, "array of rows"),
        ("plain", b'[[1, 2, 3.0, "a"], [1]]', FactError, "p.json: row 2 is"),
        ("plain", b'[{"x": 1}]', FactError, "row 1 has the keys"),
        ("plain", b'[[1, -2, 3.0, "a"]]', TypeMismatchError, "row 1: column 'y' is -2"),
        ("plain", b'[[1.5, 2, 3.0, "a"]]', TypeMismatchError, "column 'x' is 1.5"),
        ("plain", b'[[true, 2, 3.0, "a"]]', TypeMismatchError, "column 'x' is True"),
        ("plain", b'[[1, 2, "b", "a"]]', TypeMismatchError, "column 'z' is 'b'"),
        (
            "plain",
            b"[[" + b"9" * 5000 + b', 2, 3.0, "a"]]',
            TypeMismatchError,
            "column 'x' is an int",
        ),
        ("lists", b"[[[1], null]]", TypeMismatchError, "column 'l' is"),
        ("lists", b'[[{"head": 1}, null]]', TypeMismatchError, "fields head, tail"),
        ("trees", b'[["$Lear(nil)"]]', TypeMismatchError, "column 't' is"),
    ],
)
def test_what_is_wrong_says_where(relation, data, error, words):
    with pytest.raises(error, match=words):
        read_json(data, SCHEMAS[relation], "p.json")


@pytest.mark.parametrize(
    ("text", "line", "under"),
    [
        ('[\n[1, 2, 3.0, "a"],\n\n [1, -2, 3.0, "b"]]', 4, ' [1, -2, 3.0, "b"]]'),
        ('[[1, 2,\n 3.0, "a"], [1]]', 2, ' 3.0, "a"], [1]]'),
        ('\n[[1, 2, "b", "a"]\n]', 2, "b"),
        ("[[1]\n[2]]", 2, "[2]]"),
    ],
)
def test_an_error_is_drawn_in_its_line(tmp_path, text, line, under):
    path = tmp_path / "plain.json"
    path.write_text(text)
    with pytest.raises((FactError, TypeMismatchError)) as raised:
        read_json(path.read_bytes(), SCHEMAS["plain"], str(path))
    assert raised.value.values["line"] == line
    shown, drawn, caret = with_caret(raised.value).split("\n")[:3]
    assert shown.startswith(f"{path}:{line}:")
    assert drawn.removeprefix(f"{line} | ")[caret.index("^") - len(f"{line} | ") :].startswith(
        under[: caret.count("^")]
    )
    assert caret.count("^") == len(under)
