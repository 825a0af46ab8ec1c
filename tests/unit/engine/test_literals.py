"""The shell's facts and queries: the language's own atoms, checked against the program."""

from __future__ import annotations

import pytest

import deltafix
from deltafix.engine.literals import Query, read_facts, read_ground, read_query
from deltafix.errors import ProgramError, TypeMismatchError, UnknownRelationError
from deltafix.facts.schema import Schema, show_row

SCHEMAS = {
    schema.relation: schema
    for schema in (
        Schema.of("edge", ["x", "y"], ["symbol", "symbol"]),
        Schema.of("at", ["x", "n"], ["symbol", "number"]),
        Schema.of("size", ["u", "f"], ["unsigned", "float"]),
        Schema("flag"),
    )
}
SCHEMAS |= deltafix.connect("""
    .type Loc = [file: symbol, line: number]
    .type Kind = Net {} | Own { of: symbol }
    .decl seen(at: Loc, kind: Kind, n: number)
""").schemas


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ('edge("a", "b")', [("edge", ("a", "b"))]),
        ('edge("a", "b"), edge("b", "c").', [("edge", ("a", "b")), ("edge", ("b", "c"))]),
        ('at("say \\"hi\\"", -3)', [("at", ('say "hi"', -3))]),
        ("size(3, 2)", [("size", (3, 2.0))]),
        ("size(3, -0.5)", [("size", (3, -0.5))]),
        ("flag()", [("flag", ())]),
    ],
)
def test_facts(text, facts):
    assert read_facts(text, SCHEMAS) == facts


@pytest.mark.parametrize(
    ("text", "kind", "wanted"),
    [
        ('edge("a" "b")', ProgramError, "1:10: error"),
        ('edge("a", X)', ProgramError, "expected a constant"),
        ('edge("a", "b") :- edge("b", "a")', ProgramError, "expected facts only"),
        ('edge("a", "b"). at("a", 1)', ProgramError, "expected facts only"),
        ('edgy("a", "b")', UnknownRelationError, "did you mean 'edge'"),
        ('edge("a")', ProgramError, "`edge` has 2 columns, 1 given"),
        (
            'seen(["a"], $Net, 1)',
            TypeMismatchError,
            r"but Loc takes \[file: symbol, line: number\] or nil$",
        ),
        ('seen(["a", "b"], $Net, 1)', TypeMismatchError, "but Loc takes"),
        (
            "seen(nil, $Nat, 1)",
            TypeMismatchError,
            r"'kind' is \$Nat, but Kind takes \$Net or \$Own\(of",
        ),
        ("seen(nil, $Own, 1)", TypeMismatchError, "takes"),
        (
            'seen(nil, $Net, "x")',
            TypeMismatchError,
            "'n' is \"x\", but number takes values like 3$",
        ),
        ('edge("a", 1)', TypeMismatchError, "column 'y'"),
        ("size(-1, 1)", TypeMismatchError, "column 'u'"),
        ("", ProgramError, "expected"),
    ],
)
def test_facts_that_do_not_fit_are_refused(text, kind, wanted):
    with pytest.raises(kind, match=wanted):
        read_facts(text, SCHEMAS)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ('edge("a", X)', Query("edge", ("a", ...))),
        ("edge(_, _)", Query("edge", (..., ...))),
        ('edge(_, "b").', Query("edge", (..., "b"))),
        ("at(X, -1)", Query("at", (..., -1))),
        ("edge(X, X)", Query("edge", (..., ...), ((0, 1),))),
        ("flag()", Query("flag", ())),
    ],
)
def test_queries_are_patterns_and_groups_of_equal_columns(text, query):
    assert read_query(text, SCHEMAS) == query


def test_equal_variables_keep_rows_with_equal_values():
    rows = [("a", "a"), ("a", "b"), ("b", "a")]
    assert read_query("edge(X, X)", SCHEMAS).keep_equal(rows) == [("a", "a")]
    assert read_query("edge(X, Y)", SCHEMAS).keep_equal(rows) == rows


@pytest.mark.parametrize(
    ("text", "kind", "wanted"),
    [
        ('edge("a")', ProgramError, r"has 2 columns, 1 given"),
        ('edge("a", 1)', TypeMismatchError, "column 'y'"),
        ("edge(X, Y), edge(Y, Z)", ProgramError, "a query is one atom"),
        ('edge("a", 1', ProgramError, "found the end of the text"),
        ('edge("a" 1', ProgramError, "found `1`"),
        ("at(X, Y + 1)", ProgramError, "expected a constant"),
        ("edgy(X, Y)", UnknownRelationError, "did you mean 'edge'"),
    ],
)
def test_queries_that_do_not_fit_are_refused(text, kind, wanted):
    with pytest.raises(kind, match=wanted):
        read_query(text, SCHEMAS)


def test_of_a_constructed_value_it_is_said_what_does_not_fit() -> None:
    db = deltafix.connect("""
        .type Kind = Network {} | Own { of: symbol, by: symbol }
        .decl seen(kind: Kind)
    """)
    for value, said in {
        deltafix.Branch("Net"): "Kind has no branch `Net`: did you mean `Network`?",
        deltafix.Branch("Zork"): "Kind has no branch `Zork`: it has $Network $Own",
        deltafix.Branch("Network", ("x",)): "$Network has 0 fields, 1 given",
        "Network": "Kind takes a Branch, one of $Network $Own, not Network",
    }.items():
        with pytest.raises(TypeMismatchError) as told, db.transaction() as tx:
            tx.insert("seen", [(value,)])
        assert str(told.value).endswith(said)
    assert db.rows("seen") == []


@pytest.mark.parametrize(
    ("asked", "place", "said"),
    [
        ('path(a, "c")', 6, 'not several; `a` is a variable(.|\n)*in quotes: "a"; `. path'),
        ('path("a", c)', 11, 'column `y` has no value(.|\n)*a text stands in quotes: "c"'),
        ('path("a", nan)', 11, '`nan` is a variable(.|\n)*in quotes: "nan"'),
        ("n(k, 1.0)", 3, "column `k` has no value: one row is asked about"),
        ("n(1, _)", 6, "column `f` has no value"),
    ],
)
def test_a_text_without_quotes_is_said_to_be_a_variable(asked, place, said) -> None:
    with deltafix.connect(
        ".decl path(x: symbol, y: symbol)\n.output path\n.decl n(k: number, f: float)\n.output n\n"
    ) as db:
        with pytest.raises(ProgramError, match=said) as caught:
            db.why(asked)
        assert caught.value.diagnostics[0].span.column == place
        with pytest.raises(ProgramError, match='a text stands in quotes: "a"'):
            read_facts('path("x", a)', db.schemas)


def test_floats_without_a_literal_are_asked_for_as_rows_show_them() -> None:
    text = """
        .type Pair = [a: float, n: number]
        .decl r(x: float)
        .output r
        r(1.0 / 0.0). r(-1.0 / 0.0). r(0.0 / 0.0). r(2.5).
        .decl p(x: Pair)
        .output p
        p([x, 1]) :- r(x).
    """
    with deltafix.connect(text) as db:
        for row in db.rows("r"):
            for shown in (show_row("r", row), show_row("p", ((row[0], 1),))):
                assert str(db.why(shown)).startswith(shown)
                assert [*map(str, dict(read_facts(shown, db.schemas)).values())] == [
                    str(read_ground(shown, db.schemas)[1])
                ]
        assert db.query("r(inf)") == [(float("inf"),)]
        assert db.query("r(-inf)") == [(float("-inf"),)]
        assert str(db.query("r(nan)")) == "[(nan,)]"
        assert len(db.query("r(infinite)")) == 4
