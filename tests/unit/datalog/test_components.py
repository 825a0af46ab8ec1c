"""Components: an instance of a program is that program under other names."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.generators.strategies import FEATURES, FOLDS, random_program, random_script, replay
from tests.judges.oracle import evaluate

from deltafix.datalog.components.instantiate import MAX_ITEMS
from deltafix.datalog.format import format_program
from deltafix.datalog.load import analyse
from deltafix.datalog.program import Program
from deltafix.rules import builder, dsl

NEAT = """\
// graphs
.comp Graph<T> {  // head
    .decl edge(x: T, y: T)
    .decl path(x: T, y: T) overridable
    path(x, y) :- edge(x, y).

    /* block
  two */
    .comp Empty : Other<T>, Third {
    }
#ifdef X
.decl hidden(
#endif
    .init i = Inner<T>
    // the end
}
.comp Other<T> : Graph<T> {
    .override path
}
.init g = Graph<number>
.output g.edge, g.i.r
.comp Inner<T> {
    .decl r(x: T)
}
"""


def wrapped(text: str, rng: Random) -> str:
    """The program as components: its rules dealt to a base and to what inherits from it."""
    lines = text.splitlines()
    base = [line for line in lines if line.startswith(".") or rng.random() < 0.5]
    more = [line for line in lines if line not in base]
    derived = [*rng.sample(more, len(more))]
    inherited = [".comp Derived : Base {", *derived, "}", ".init one = Derived", ".comp Base {"]
    held = [".comp Holder { .init two = Derived }", ".init h = Holder"]
    return "\n".join([*inherited, *base, "}", *held])


@given(st.integers(0, 100_000))
@settings(max_examples=40, deadline=None)
def test_instances_compute_what_the_program_computes(seed: int) -> None:
    rng = Random(seed)
    # The branches of an instance's types carry its name, so their values differ.
    program = random_program(rng, rng.randint(1, 4), FEATURES - {"branches"})
    text = wrapped(program.source or "", rng)
    instances = Program.parse(text)
    assert Program.parse(instances.show()) == instances
    assert Program.parse(format_program(text)) == instances
    script = random_script(rng, program, epochs=2)
    for inputs in replay(program, script):
        expected = evaluate(program, inputs, reducers=FOLDS)
        given_rows = {f"{p}.{n}": rows for n, rows in inputs.items() for p in ("one", "h.two")}
        found = evaluate(instances, given_rows, reducers=FOLDS)
        for name, rows in expected.items():
            assert found[f"one.{name}"] == found[f"h.two.{name}"] == rows


def test_layout_of_components() -> None:
    messy = NEAT.replace("    ", " ").replace(" {", "{").replace("<T>", " < T >")
    assert format_program(messy) == NEAT
    assert format_program(NEAT) == NEAT


def test_components_that_double_at_every_level_are_bounded() -> None:
    levels = "".join(
        f".comp C{n} {{ .init a = C{n - 1} .init b = C{n - 1} }}\n" for n in range(1, 30)
    )
    found = analyse(f".comp C0 {{ .decl r(x: number) }}\n{levels}.init c = C29\n")
    assert [item.code for item in found.errors] == ["DF181"]
    assert f"more than {MAX_ITEMS:,}" in found.errors[0].message


@pytest.mark.parametrize("depth", [31, 33])
def test_components_nest_up_to_a_limit(depth: int) -> None:
    text = ".comp C {" * depth + ".decl r(x: number)" + "}" * depth
    assert bool(analyse(text).errors) == (depth > 32)


def test_an_error_in_a_component_costs_one_clause() -> None:
    found = analyse(".comp A { .decl r(x: number) r(1 r(2). r(3). } .init a = A .decl q(x: number)")
    assert len(found.errors) == 1
    assert [relation.name for relation in found.program.relations] == ["q", "a.r"]
    assert len(found.program.rules) == 1


def test_a_dotted_name_inside_brackets_is_no_end_of_a_clause() -> None:
    program = Program.parse(
        ".comp C { .decl r(x: number) } .init c = C .decl n(x: number)\n"
        "#define R c.r(x)\n"
        "n(x) :- (c.r(x) ; R), !( c.r(y), y > x ), 0 < count : { c.r(x) }."
    )
    assert "!(c.r(y), y > x), 0 < count : { c.r(x) }" in program.show()


def test_a_named_rule_has_the_name_of_its_instance() -> None:
    program = Program.parse(
        ".comp C { .decl r(x: number) .rule big r(x) :- r(y), x = y + 1, y < 9.\n"
        ".rule last r(x) <= r(y) :- x < y. }\n"
        ".init a = C .init b = C .rule big a.r(1)."
    )
    assert list(program.named) == ["big", "a.big", "b.big", "a.last", "b.last"]
    assert Program.parse(program.show()).named == program.named


def test_in_python_a_function_called_twice_is_two_instances() -> None:
    def closure(p: Program, name: str, kind: type) -> tuple[builder.Relation, builder.Relation]:
        one = p.relation(f"{name}.one", x=kind, y=kind)
        many = p.relation(f"{name}.many", x=kind, y=kind)
        x, y, z = dsl.variables("x y z")
        _ = many(x, y) <= one(x, y)
        _ = many(x, z) <= many(x, y) & one(y, z)
        return one, many

    with Program() as p:
        for name, kind in (("roads", int), ("names", str)):
            one, many = closure(p, name, kind)
            p.input(one)
            p.output(many)
    text = """
    .comp Closure<T> {
        .decl one(x: T, y: T)
        .decl many(x: T, y: T)
        .input one
        .output many
        many(x, y) :- one(x, y).
        many(x, z) :- many(x, y), one(y, z).
    }
    .init roads = Closure<number>
    .init names = Closure<symbol>
    """
    assert p == Program.parse(text)
    assert Program.parse(p.show()) == p
