"""The Prolog reader: what is read, how it is written back, where errors point."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltafix.errors import PrologSyntaxError
from deltafix.tabling.lexer import Source, tokenize
from deltafix.tabling.operators import STANDARD
from deltafix.tabling.reader import read_clauses, read_term
from deltafix.tabling.terms import (
    Int,
    Struct,
    atom,
    floating,
    integer,
    list_items,
    list_of,
    string,
    struct,
    var,
)
from deltafix.tabling.writer import quoted, show

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


NAMES = [
    "a",
    "+",
    "-",
    "\\+",
    "is",
    "dynamic",
    "=",
    ":-",
    "[]",
    "{}",
    "hello world",
    "|",
    ";",
    "*-",
]
LEAVES = st.one_of(
    st.sampled_from(NAMES).map(atom),
    st.integers(-3, 3).map(integer),
    st.sampled_from([0.5, -1e22, 1e-9]).map(floating),
    st.sampled_from(["", 'a "b"', "\\\n"]).map(string),
    st.integers(0, 2).map(var),
)


def _larger(parts):
    wide = st.lists(parts, min_size=1, max_size=3)
    return st.one_of(
        st.builds(struct, st.sampled_from([*NAMES, ","]), wide),
        st.builds(list_of, st.lists(parts, max_size=3), parts),
    )


TERMS = st.recursive(LEAVES, _larger, max_leaves=8)


def with_quotes(text):
    """The same text with every name between quotes; the sign of a number is none."""
    tokens = [*tokenize(Source(text)), None]
    out, end = [], 0
    for token, following in pairwise(tokens):
        out.append(text[end : token.start])
        sign = token.value == "-" and following is not None and following.kind == "number"
        sign = sign and not following.spaced
        quote = token.kind == "name" and not sign
        out.append(quoted(token.value, "'") if quote else text[token.start : token.end])
        end = token.end
    return "".join(out)


@settings(max_examples=400)
@given(TERMS)
def test_law_what_is_written_is_read_back_quoted_or_not(term):
    # variables are numbered by first occurrence
    first = read_term(show(term), STANDARD).term
    text = show(first)
    assert read_term(text, STANDARD).term is first
    assert read_term(with_quotes(text), STANDARD).term is first
    if term.ground:
        assert first is term


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("X '=' 1 '+' 2", "X = 1 + 2"),
        ("a ':-' b ',' c", "a :- b, c"),
        ("'\\\\+' p", "\\+ p"),
        ("'-' 1", "-(1)"),
        ("'-'1", "-(1)"),
        ("- '=' x", "- = x"),
        ("'dynamic' p / 1", "dynamic p/1"),
        ("[a '-' b, '-']", "[a - b, (-)]"),
        ("f('=', '-')", "f((=), (-))"),
    ],
)
def test_quotes_make_no_difference_to_an_operator(text, same):
    assert read_term(text, STANDARD).term is read_term(same, STANDARD).term


@pytest.mark.parametrize("text", ["", " % nothing", "a. b", "a :- b. c."])
def test_a_term_is_one_term(text):
    with pytest.raises(PrologSyntaxError, match="term"):
        read_term(text, STANDARD)


def test_escapes():
    assert read_term("f('\\x41\\', '\\101\\', '\\'')", STANDARD).term is struct(
        "f", (atom("A"), atom("A"), atom("'"))
    )
    assert read_term('"\\x41\\\\101\\\\n\\\n\\\\"', STANDARD).term is string("AA\n\\")


KINDS = {"before": ("fy", "fx"), "between": ("xfx", "xfy", "yfx"), "after": ("xf", "yf")}
OPERATORS = st.lists(
    st.sampled_from([(place, kind) for place, kinds in KINDS.items() for kind in kinds]),
    min_size=1,
    max_size=5,
)


def _trees(tokens, table):
    """Every way to read tokens as one term, with its priority: ISO 6.3.4, by trying all."""
    if len(tokens) == 1:
        return [(atom(tokens[0]), 0)] if tokens[0] in "abcdef" else []
    found = []
    first = table.prefix.get(tokens[0])
    if first:
        below = _trees(tokens[1:], table)
        found += [(struct(first.name, (t,)), first.priority) for t, p in below if p <= first.right]
    for at, token in enumerate(tokens[1:], 1):
        here = table.infix.get(token)
        if here is None:
            continue
        lefts = [t for t, p in _trees(tokens[:at], table) if p <= here.left]
        if here.right:
            rights = [t for t, p in _trees(tokens[at + 1 :], table) if p <= here.right]
            made = [struct(token, (left, right)) for left in lefts for right in rights]
        else:
            made = [struct(token, (left,)) for left in lefts] if at == len(tokens) - 1 else []
        found += [(term, here.priority) for term in made]
    return found


@settings(max_examples=300)
@given(OPERATORS, st.data())
def test_law_operators_bind_as_priorities_and_kinds_allow(kinds, data):
    table = STANDARD.copy()
    tokens, names = ["a"], iter("bcdef")
    for number, (place, kind) in enumerate(kinds):
        name = f"op{number}"
        table.add(data.draw(st.sampled_from([200, 300, 400])), kind, name)
        if place == "before":
            at = data.draw(st.sampled_from([i for i, t in enumerate(tokens) if t in "abcdef"]))
            tokens.insert(at, name)
        else:
            tokens += [name] if place == "after" else [name, next(names)]
    allowed = {term for term, _ in _trees(tokens, table)}
    try:
        term = read_term(" ".join(tokens), table).term
    except PrologSyntaxError as error:
        assert "priorities" in str(error)
        assert len(allowed) != 1
    else:
        assert term in allowed
        # What is written with the operators is read with them.
        assert read_term(show(term, operators=table), table).term is term


@pytest.mark.parametrize(
    ("text", "value"),
    [("0'a", 97), ("0'''", 39), ("0x1F", 31), ("0o17", 15), ("0b101", 5), ("1_000", 1000),
     ("-7", -7), ("0'\\n", 10), ("0'\\x41\\", 65), ("0'\\101\\", 65)],
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
        ("p.\n . q.", 2, 2, "ends before it starts"),
        ("p :- `q.", 1, 6, "no token starts"),
        ("p('\\x110000\\').", 1, 4, "escape"),
        (f"p({'1' * 5000}).", 1, 3, "digits"),
        (":- a :- b.", 1, 6, "priorities"),
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
