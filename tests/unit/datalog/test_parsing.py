from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltafix.datalog.load import analyse
from deltafix.datalog.program import Program
from deltafix.errors import ProgramError, SourceError
from deltafix.rules import ast
from deltafix.rules.ast import And, Atom, Comparison, Not, Or
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var, Wildcard

X, Y = Var("x"), Var("y")


def term(text: str) -> Term:
    """The right side of the one equation, unchecked."""
    found = analyse(f"a(y) :- y = {text}.")
    body = found.program.rules[0].body
    assert isinstance(body, Comparison)
    return body.right


def body(text: str) -> ast.Formula:
    return analyse(f"h(x) :- {text}.").program.rules[0].body


def op(functor: str, *args: object) -> Call:
    terms = tuple(Const(arg) if isinstance(arg, int) else arg for arg in args)
    return Call(functor, terms)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", op("+", 1, op("*", 2, 3))),
        ("(1 + 2) * 3", op("*", op("+", 1, 2), 3)),
        ("1 - 2 - 3", op("-", op("-", 1, 2), 3)),
        ("2 ^ 3 ^ 2", op("^", 2, op("^", 3, 2))),
        ("-2", Const(-2)),
        ("-2 ^ 2", op("neg", op("^", 2, 2))),
        ("(-2) ^ 2", op("^", -2, 2)),
        ("2 ^ -3", op("^", 2, -3)),
        ("-(1)", op("neg", 1)),
        ("--1", op("neg", -1)),
        ("1 - -1", op("-", 1, -1)),
        ("-x * y", op("*", op("neg", X), Y)),
        ("1 bor 2 band 4", op("bor", 1, op("band", 2, 4))),
        ("1 lor 2 land 4", op("lor", 1, op("land", 2, 4))),
        ("1 bshl 2 + 3", op("bshl", 1, op("+", 2, 3))),
        ("bnot x band y", op("band", op("bnot", X), Y)),
        ("3u", Const(3, "unsigned")),
        ("1.5", Const(1.5, "float")),
        ('"a"', Const("a", "symbol")),
        ("max(x, y)", op("max", X, Y)),
        ("cat(x, y, x)", op("cat", X, Y, X)),
        ("as(x, number)", Call("as", (X, Const("number", "symbol")))),
    ],
)
def test_terms(text: str, expected: Term) -> None:
    assert term(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count : { e(x, _) }", Aggregate("count", None, Atom("e", (X, Wildcard())))),
        ("count : e(x, _)", Aggregate("count", None, Atom("e", (X, Wildcard())))),
        ("sum x : { e(x) }", Aggregate("sum", X, Atom("e", (X,)))),
        ("max (x + 1) : { e(x) }", Aggregate("max", op("+", X, 1), Atom("e", (X,)))),
        ("min (x) * 2 : { e(x) }", Aggregate("min", op("*", X, 2), Atom("e", (X,)))),
        ("1 + count : { e(x) }", op("+", 1, Aggregate("count", None, Atom("e", (X,))))),
    ],
)
def test_aggregates(text: str, expected: Term) -> None:
    assert term(text) == expected


A, B, C = Atom("a", (X,)), Atom("b", (X,)), Atom("c", (X,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a(x)", A),
        ("a(x), b(x)", And((A, B))),
        ("a(x), b(x) ; c(x)", Or((And((A, B)), C))),
        ("a(x), (b(x) ; c(x))", And((A, Or((B, C))))),
        ("(a(x), b(x)), c(x)", And((A, B, C))),
        ("((a(x)))", A),
        ("!a(x)", Not(A)),
        ("!!a(x)", Not(Not(A))),
        ("!(a(x), b(x))", Not(And((A, B)))),
        ("!(x = 1)", Not(Comparison("=", X, Const(1)))),
        ("!x = 1", Not(Comparison("=", X, Const(1)))),
        ("(x + 1) = y", Comparison("=", op("+", X, 1), Y)),
        ("(x) < y", Comparison("<", X, Y)),
        ('match("a", x)', Comparison("match", Const("a", "symbol"), X)),
        ("true", And(())),
        ("false", Or(())),
    ],
)
def test_bodies(text: str, expected: ast.Formula) -> None:
    assert body(text) == expected


def test_several_heads_share_a_body() -> None:
    (rule,) = analyse("a(x), b(x) :- c(x).").program.rules
    assert rule == ast.Rule((A, B), C)


def test_declarations_directives_types_and_pragmas() -> None:
    program = Program.parse(
        '.pragma "legacy"\n.type T <: number .type U = T | number\n'
        ".decl a, b(x: T, y: U) brie output\n"
        '.input a(IO=file, filename="x.facts", delimiter="\\t"), b\n.limitsize a(n=10)\n'
    )
    assert program.pragmas == (("legacy", ""),)
    assert [(t.name, t.base, t.parents) for t in program.types] == [
        ("T", "number", ("number",)),
        ("U", "number", ("T", "number")),
    ]
    assert [(r.name, r.qualifiers, r.arity) for r in program.relations] == [
        ("a", ("brie",), 2),
        ("b", ("brie",), 2),
    ]
    assert [(d.kind, d.relation, dict(d.parameters)) for d in program.directives] == [
        ("output", "a", {}),
        ("output", "b", {}),
        ("input", "a", {"IO": "file", "filename": "x.facts", "delimiter": "\t"}),
        ("input", "b", {}),
        ("limitsize", "a", {"n": "10"}),
    ]
    assert program.column_types("a") == ("number", "number")


def test_old_type_forms() -> None:
    program = Program.parse(".type A .number_type B .symbol_type C .decl r(a: A, b: B, c: C)")
    assert program.column_types("r") == ("symbol", "number", "symbol")


def test_a_program_is_an_ast_program_and_compares_by_value() -> None:
    one = Program.parse(".decl a(x: number)\na(1).")
    two = Program.parse("// other text\n.decl a(x:number) a(1).", path="elsewhere.dl")
    assert isinstance(one, ast.Program)
    assert one == two
    assert one != Program.parse(".decl a(x: number)\na(2).")


def test_a_file_that_is_not_there(tmp_path) -> None:
    with pytest.raises(SourceError, match=r"none\.dl"):
        Program.from_file(tmp_path / "none.dl")


def test_thousands_of_rules_and_long_bodies_are_read() -> None:
    rules = "\n".join(f"a({i}) :- a({i + 1})." for i in range(2_000))
    wide = "a(x) :- " + ", ".join(["a(x)"] * 2_000) + "."
    program = Program.parse(f".decl a(x: number)\n{rules}\n{wide}")
    assert len(program.rules) == 2_001


WORDS = [
    ".decl", ".input", ".output", ".type", ".comp", ".plan", ".pragma", ".", ",", ";", "(", ")",
    "{", "}", "[", "]", "!", ":-", ":", "=", "<=", "<:", "|", "-", "^", "a", "b", "x", "_", "count",
    "max", "number", "1", "2u", "1.5", '"s"', "//", "/*", "*/", "#define a b(", "#ifdef a",
    "\n#define a(x) x ## b #x\n", "\n#if a < 2\n", "\n#elif defined(a)\n", "\n#else\n", "#endif",
    "\n", "$", "$Leaf", "$Node(", ".type T = [x: number]", ".type U = Leaf {} | Node {x: U}",
    ".decl a(x: number)", ".decl p(x: T)", "p([1])", "p(nil)", "[x, _]", "@@f", "<min>", "<>", "->",
    ".functor f(x: number): number", ".lattice number<> {", "Bottom -> 0", "Lub", "@f(_, _)",
    "a(x) <= a(x)",
    ".comp C {", ".comp C<T> : C<T> {", ".init c = C", ".override", "c.b", "<", ">", "overridable",
    "inline", "magic", '.pragma "magic-transform" "*"', ".output a", "a(x) :- b(x).", "!a(x)",
    "@f", "as", "nil", "range", "true", "eqrel", "choice-domain", "\\", '"', "'",
]  # fmt: skip


def outcome(text: bytes | str) -> Program | ProgramError:
    try:
        return Program.parse(text)
    except ProgramError as error:
        return error


@given(st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join))
@settings(max_examples=400, deadline=None)
def test_any_words_end_in_a_program_or_in_diagnostics(text: str) -> None:
    found = outcome(text)
    if isinstance(found, ProgramError):
        assert found.diagnostics
        assert all(item.code.startswith("DF1") for item in found.diagnostics)
    else:
        assert Program.parse(found.show()) == found


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200)))
@settings(max_examples=300, deadline=None)
def test_any_bytes_and_any_text_end_in_a_program_or_in_diagnostics(text: bytes | str) -> None:
    found = outcome(text)
    assert isinstance(found, Program) or found.diagnostics


@pytest.mark.parametrize("opening", ["(", "{", "[", "!", "-", "a(", "max(", "#ifdef a\n", "!("])
def test_deep_nesting_ends_in_diagnostics(opening: str) -> None:
    for start in ("a(x) :- ", "a(", "a(x) :- x = "):
        with pytest.raises(ProgramError) as caught:
            Program.parse(start + opening * 5_000)
        assert caught.value.diagnostics
