"""The Prolog reader: what is read, how it is written back, where errors point."""

import pytest

from deltafix.errors import PrologSyntaxError
from deltafix.tabling.lexer import Source
from deltafix.tabling.operators import STANDARD
from deltafix.tabling.reader import read_clauses, read_term
from deltafix.tabling.terms import Int, Struct, atom, integer, list_items, struct, var
from deltafix.tabling.writer import show

ROUND_TRIPS = [
    "r(X, Y) :- e(X, Z), r(Z, Y)",
    "a :- b ; c",
    "- 1",
    "-1",
    "1 - (-1)",
    "[1, 2 | T]",
    "\\+ p(X)",
    "\\+ (a, b)",
    "'hello world'(x)",
    '"text with \\"quotes\\" and \\n"',
    "f((a :- b), (c, d))",
    "X is 1 + 2 * 3 - 4",
    "- - a",
    "{a, b}",
    "f(-, (+))",
    "a - (b - c)",
    "a ^ b ^ c",
    "[(a, b), [], '[]x']",
    "2.5e10 + 0.1",
]


@pytest.mark.parametrize("text", ROUND_TRIPS)
def test_what_is_written_is_read_back_as_the_same_object(text):
    first = read_term(text, STANDARD)
    assert read_term(show(first.term), STANDARD).term is first.term


@pytest.mark.parametrize(
    ("text", "value"),
    [("0'a", 97), ("0'''", 39), ("0x1F", 31), ("0o17", 15), ("0b101", 5), ("1_000", 1000),
     ("-7", -7), ("0'\\n", 10)],
)  # fmt: skip
def test_numbers(text, value):
    term = read_term(text, STANDARD).term
    assert isinstance(term, Int)
    assert term.value == value


def test_operators_bind_as_the_standard_says():
    term = read_term("a :- b, c ; d", STANDARD).term
    inner = struct(";", (struct(",", (atom("b"), atom("c"))), atom("d")))
    assert term is struct(":-", (atom("a"), inner))
    assert read_term("1 - 2 - 3", STANDARD).term is struct(
        "-", (struct("-", (integer(1), integer(2))), integer(3))
    )


def test_variables_are_numbered_by_first_occurrence_and_underscores_are_apart():
    read = read_term("p(_, X, _, X)", STANDARD)
    assert read.names == ("_", "X", "_")
    assert read.term is struct("p", (var(0), var(1), var(2), var(1)))


def test_comments_and_clause_ends():
    text = "a. % to the end\n/* b. */ c(1.5). 'it''s'. d:-e."
    clauses = [show(c.term) for c in read_clauses(Source(text), STANDARD)]
    assert clauses == ["a", "c(1.5)", "'it\\'s'", "d :- e"]


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("p(1).\nq(2", 2, 4, "inside a clause"),
        ("p :- q r.", 1, 8, "operator"),
        ("p(1]. ", 1, 4, "closes"),
        ("p(.", 1, 2, "never closed"),
        ("p :- X = a = b.", 1, 12, "priorities"),
        ("p('abc.", 1, 3, "never closed"),
        ("p. /* open", 1, 4, "never closed"),
        ("p(,).", 1, 3, "expected"),
        ("p('\\q').", 1, 4, "escape"),
        ("p :- .", 1, 5, "expected"),
        ("p(1)).", 1, 5, "closes nothing"),
    ],
)
def test_syntax_errors_say_where(text, line, column, says):
    with pytest.raises(PrologSyntaxError) as caught:
        list(read_clauses(Source(text, "file.pl"), STANDARD))
    found = caught.value.diagnostics[0]
    assert found.span.line == line
    assert found.span.column == column
    assert says in found.message or says in (found.help or "")
    assert "file.pl" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "[" + ",".join("1" * 20_000) + "]",
        "f(" * 20_000 + "a" + ")" * 20_000,
        "(" * 20_000 + "a" + ")" * 20_000,
        "- " * 20_000 + "a",
        "a" + "+a" * 20_000,
    ],
    ids=["list", "compound", "brackets", "prefix", "infix"],
)
def test_depth_is_bounded_by_memory_only(text):
    term = read_term(text, STANDARD).term
    assert read_term(show(term), STANDARD).term is term


def test_equal_terms_are_one_object_and_die_with_their_last_user():
    from deltafix.tabling.terms import _STRUCTS

    first = read_term("unheard_of(g(1), [2, 3])", STANDARD).term
    again = read_term("unheard_of(g(1), [2,3])", STANDARD).term
    assert first is again
    key = ("unheard_of", first.args)
    assert key in _STRUCTS
    assert isinstance(first, Struct)
    assert len(list_items(first.args[1])[0]) == 2
    del first, again, key
    assert not [k for k in _STRUCTS if k[0] == "unheard_of"]
