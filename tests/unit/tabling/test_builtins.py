"""Built-ins: arithmetic, comparison, order of terms, between, type tests."""

import pytest

from deltafix.errors import EvaluationError
from deltafix.tabling import Tables
from deltafix.tabling.arithmetic import evaluate
from deltafix.tabling.builtins import compare
from deltafix.tabling.operators import STANDARD
from deltafix.tabling.reader import read_term


def term(text: str):
    return read_term(text, STANDARD).term


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7), ("7 // 2", 3), ("-7 // 2", -3), ("-7 mod 2", 1), ("-7 rem 2", -1),
        ("-7 div 2", -4), ("7 / 2", 3.5), ("6 / 2", 3), ("2 ** 10", 1024), ("2 ** -1.0", 0.5),
        ("max(3, 4) - min(1, 2)", 3), ("1 << 5 >> 2", 8), ("5 /\\ 6", 4), ("5 \\/ 6", 7),
        ("5 xor 6", 3), ("\\ 0", -1), ("abs(-3) + sign(-2.5)", 2.0), ("truncate(2.7)", 2),
        ("gcd(12, 18)", 6), ("2 ^ 200", 2**200), ("round(2.5)", 3),
    ],
)  # fmt: skip
def test_arithmetic(text, value):
    result = evaluate(term(text))
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    "text",
    ["1 / 0", "1 mod 0", "a + 1", "foo(1)", "1 << 99999999", "2 ** 99999999", "1.5 // 2",
     "sqrt(-1)", "2 ** -1", "X + 1", "1.0e308 ** 2"],
)  # fmt: skip
def test_what_has_no_value_is_an_error_with_clause_and_literal(text):
    tables = Tables(f"p(V) :- V is {text}.")
    with pytest.raises(EvaluationError, match="V is") as caught:
        list(tables.query("p(V)"))
    assert "p(V) :- V is" in str(caught.value)


def test_deep_expressions_are_evaluated_without_recursion():
    assert evaluate(term("1" + " + 1" * 20_000)) == 20_001


def test_the_standard_order_of_terms():
    texts = ["X", "1.0", "1", "2", '"a"', "a", "b", "f(a)", "f(b)", "g(a)", "f(a, b)"]
    terms = [term(t) for t in texts]
    for i, left in enumerate(terms):
        for j, right in enumerate(terms):
            assert compare(left, right) == (i > j) - (i < j), (texts[i], texts[j])


@pytest.mark.parametrize(
    ("body", "answers"),
    [
        ("between(1, 3, X)", ["1", "2", "3"]),
        ("between(1, 5, X), X mod 2 =:= 1, X > 1", ["3", "5"]),
        ("between(1, 2, 5), X = 1", []),
        ("X = f(Y), Y = 1", ["f(1)"]),
        ("X = a, X \\= b, X \\== b, X == a", ["a"]),
        ("X = a, X @< b, atom(X), atomic(X), \\+ X = b", ["a"]),
        ("X = [1, 2], is_list(X), compound(X), ground(X), nonvar(X)", ["[1, 2]"]),
        ("var(Y), X = 1.5, float(X), number(X)", ["1.5"]),
        ('X = "t", string(X)', ['"t"']),
        ("X = 1, fail", []),
        ("f(X, b) = f(a, Y), callable(Y)", ["a"]),
    ],
)
def test_built_ins_in_bodies(body, answers):
    tables = Tables(f"p(X) :- {body}.")
    assert sorted(str(s)[2:-1] for s in tables.query("p(X)")) == answers


def test_an_unknown_strategy_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="deletes_first"):
        Tables("p.", strategy="fast")
