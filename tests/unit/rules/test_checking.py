from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.generators.strategies import programs

from deltafix.datalog.load import analyse
from deltafix.datalog.program import Program
from deltafix.errors import ProgramError
from deltafix.rules import scope
from deltafix.rules.ast import Program as Data
from deltafix.rules.ast import RelationDecl
from deltafix.rules.check import check, typed
from deltafix.rules.infer import term_type
from deltafix.rules.strata import Stratum
from deltafix.rules.terms import Const
from deltafix.rules.walk import subterms, terms_of

DECLS = """
.decl n(x: number) .decl u(x: unsigned) .decl f(x: float) .decl s(x: symbol)
.decl e(x: number, y: number)
"""


def codes(rules: str) -> list[str]:
    return [item.code for item in analyse(DECLS + rules).errors]


@pytest.mark.parametrize(
    "rule",
    [
        "n(x) :- e(x, y), !e(y, x).",
        "n(x) :- e(x, _), !e(_, x).",
        "n(z) :- z = y * 2, y = x + 1, n(x).",
        "n(x) :- e(x, x + 1).",
        "n(x) :- x = 3.",
        "n(x) :- 3 = x.",
        "u(1) :- n(x), !( e(x, y), !n(y) ).",
        "n(x) :- n(x), !( e(x, y), y = z, z < 3 ).",
        "n(c) :- c = count : { e(_, _) }.",
        "n(c) :- n(x), c = sum y : { e(x, y) }.",
        "n(c) :- c = max x + y : { e(x, y), !s(\"a\") }.",
        "n(z) :- lo = min x : { e(x, _) }, hi = max x : { e(_, x) }, z = lo + hi.",
        "f(m) :- m = mean x : { n(x) }.",
        "f(1). f(-2). u(3). u(3u). f(x) :- f(x), x < 3.",
        "u(x) :- u(x), x = 3 + 4.",
        "s(x) :- s(y), x = cat(y, to_string(1), to_string(2.5)).",
        "u(x) :- n(y), x = as(y, unsigned).",
        "n(x) :- n(x), (s(\"a\") ; s(\"b\")).",
        "n(x) :- (e(x, y), y > 1 ; e(y, x), y < 1).",
    ],
)  # fmt: skip
def test_sound_rules_pass(rule: str) -> None:
    assert codes(rule) == []


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("n(x) :- !e(x, _).", ["DF130"]),
        ("n(x) :- x < 3.", ["DF130"]),
        ("n(x) :- n(y), x = x + y.", ["DF130"]),
        ("n(x) :- n(x), s(y) ; u(_).", ["DF130"]),
        ("n(x) :- n(x), e(z, x + y), z > 1.", ["DF130"]),
        ("n(c) :- c = count : { e(x, y), z < x }.", ["DF130"]),
        ("n(c) :- c = sum z : { e(_, _) }.", ["DF130"]),
        ("n(y) :- c = count : { e(c, y) }.", ["DF130"]),
        ("n(x) :- n(x), !( e(x, y), z < y ), s(_).", ["DF130"]),
        ("n(x) :- u(x).", ["DF120"]),
        ("n(x) :- n(x), f(y), x < y.", ["DF120"]),
        ("f(x) :- n(y), x = y + 1.", ["DF120"]),
        ("f(x) :- f(y), x = y % 2.", ["DF120"]),
        ("s(x) :- s(x), x = 1.", ["DF120"]),
        ("n(c) :- c = sum x : { s(x) }.", ["DF120"]),
        ("n(x) :- s(y), x = as(y, number).", ["DF120"]),
        ("u(18446744073709551615). n(18446744073709551615).", ["DF121"]),
        ("n(x) :- e(x).", ["DF112"]),
        ("n(x) :- m(x).", ["DF110"]),
        ("n(x) :- n(x), y = nosuch(x), n(y).", ["DF115"]),
    ],
)
def test_unsound_rules_are_refused(rule: str, expected: list[str]) -> None:
    assert codes(rule) == expected


def test_a_variable_used_once_is_a_warning_unless_it_says_so() -> None:
    found = analyse(DECLS + "n(x) :- e(x, y).\nn(x) :- e(x, _y).\nn(x) :- e(x, _).").diagnostics
    assert [(item.code, item.severity) for item in found] == [("DF160", "warning")]


def test_types_of_variables_and_constants_are_handed_on() -> None:
    program = Program.parse(DECLS + "f(y) :- f(x), y = x * 2 + 1, u(z), z < 7, n(k), k != 3.")
    (rule,) = typed(program).rules
    assert rule.variables == {"x": "float", "y": "float", "z": "unsigned", "k": "number"}
    constants = [
        (part.value, part.type)
        for term in terms_of(rule.rule.body)
        for part in subterms(term)
        if isinstance(part, Const)
    ]
    assert constants == [(2.0, "float"), (1.0, "float"), (7, "unsigned"), (3, "number")]
    kinds = {term_type(term, rule.variables, program) for term in terms_of(rule.rule.body)}
    assert kinds == {"float", "unsigned", "number"}


def test_local_variables_of_two_scopes_are_told_apart() -> None:
    program = Program.parse(
        DECLS + "n(a) :- a = count : { e(x, y), x < y }, b = count : { s(x) }, a > b,"
        " !( e(x, a), x > 1 )."
    )
    (rule,) = typed(program).rules
    kinds = {name: kind for name, kind in rule.variables.items() if name.startswith("x")}
    assert sorted(kinds.values()) == ["number", "number", "symbol"]


def test_strata_come_dependencies_first_and_know_recursion() -> None:
    program = Program.parse("""
        .decl c(x: number) .decl b(x: number) .decl a(x: number) .decl d(x: number)
        c(x) :- b(x), !d(x).
        b(x) :- a(x). a(x) :- b(x). a(1).
        d(x) :- d(x). d(x) :- a(x).
    """)
    assert typed(program).strata == (
        Stratum(("b", "a"), True),
        Stratum(("d",), True),
        Stratum(("c",), False),
    )


def test_a_long_chain_of_relations_needs_no_recursion() -> None:
    lines = [".decl r0(x: number)"]
    for i in range(1, 3000):
        lines.append(f".decl r{i}(x: number) r{i}(x) :- r{i - 1}(x).")
    program = Program.parse("\n".join(lines))
    assert [s.relations[0] for s in typed(program).strata] == [f"r{i}" for i in range(3000)]


def test_the_shortest_negative_cycle_is_told() -> None:
    found = analyse("""
        .decl a(x: number) .decl b(x: number) .decl c(x: number)
        a(x) :- c(x), !b(x).
        b(x) :- c(x), c(x). b(x) :- a(x). c(x) :- a(x), b(x). c(1).
    """).errors
    assert [item.message for item in found] == ["negation inside recursion: a -!-> b -> a"]


def test_a_name_that_is_none_does_not_hide_a_negative_cycle() -> None:
    found = codes("n(x) :- e(x, _), !n(x). n(x) :- ee(x).")
    assert found == ["DF140", "DF110"]


def test_typed_refuses_a_program_built_by_hand() -> None:
    program = Data((RelationDecl("a", ()), RelationDecl("a", ())))
    assert [item.code for item in check(program)] == ["DF111"]
    with pytest.raises(ProgramError, match="declared twice"):
        typed(program)


@given(programs())
@settings(max_examples=60, deadline=None)
def test_random_programs_check_the_same_every_time(program: Program) -> None:
    assert check(program) == check(program) == program.warnings
    checked = typed(program)
    assert len(checked.rules) == len(program.rules)
    assert sorted(name for s in checked.strata for name in s.relations) == sorted(
        relation.name for relation in program.relations
    )


def test_variables_that_wait_for_each_other_are_looked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []
    needs = scope._Scope.needs

    def counted(self: scope._Scope, term: object) -> frozenset[str]:
        asked.append(term)
        return needs(self, term)

    monkeypatch.setattr(scope._Scope, "needs", counted)
    work = []
    for length in (20, 40, 80):
        asked.clear()
        back = ", ".join(f"y{n + 1} = y{n} + 1" for n in reversed(range(length)))
        either = ", ".join(f"(z{n + 1} = z{n} ; z{n + 1} = z{n} + 1)" for n in reversed(range(4)))
        text = ".decl a(x: number) .input a .decl r(x: number, y: number) .output r\n"
        program = Program.parse(
            f"{text}r(y{length}, z4) :- {back}, {either}, z0 = y{length}, a(y0)."
        )
        assert not check(program)
        work.append(len(asked))
    assert work[2] - work[1] == 2 * (work[1] - work[0])
    with pytest.raises(ProgramError, match="DF130"):
        Program.parse(f"{text}r(x, y) :- x = y + 1, y = x - 1, (y = 1 ; x = 2 ; a(_)).")
