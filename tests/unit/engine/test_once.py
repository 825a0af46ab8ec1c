"""What is made once: of a rule, of a program, of what nodes share. Asserts the work done."""

from __future__ import annotations

from dataclasses import replace

import pytest

import deltafix
from deltafix import Program
from deltafix.analyses.dead_code import DEAD_CODE
from deltafix.engine import link
from deltafix.kernel import layout as at
from deltafix.rules.check import typed

TEXT = """
.decl a(x: number, s: symbol)
.decl b(x: number, s: symbol)
.decl c(x: number, s: symbol)
.decl both(x: number, s: symbol)
.decl one(x: number)
.input a
.input b
.input c
both(x, s) :- a(x, s), b(x, s), c(_, s), s != "gone".
one(1000000000000) :- both(_, "there").
"""


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[link.Writer]:
    """Who wrote a program, each time that one was written."""
    writers: list[link.Writer] = []
    write = link.Writer.written

    def noted(self: link.Writer) -> object:
        writers.append(self)
        return write(self)

    monkeypatch.setattr(link.Writer, "written", noted)
    return writers


def rows_of(program: Program, **options: str) -> list[tuple]:
    with deltafix.connect(program, **options) as db:
        with db.transaction() as tx:
            tx.insert("a", [(1, "there"), (2, "gone"), (3, "new")])
            tx.insert("b", [(1, "there"), (2, "gone")])
            tx.insert("c", [(7, "there"), (7, "gone")])
        db.check_invariants()
        return [*db.rows("both"), *db.rows("one")]


def test_databases_of_one_program_have_it_written_once(written: list[link.Writer]) -> None:
    program = Program.parse(TEXT)
    first = rows_of(program)
    assert first == [(1, "there"), (1000000000000,)]
    assert rows_of(program, strategy="recompute") == first  # the first one is closed
    assert len(written) == 1
    assert rows_of(Program.parse(TEXT)) == first
    assert len(written) == 2


def test_where_constants_have_other_codes_a_program_is_written_anew(
    written: list[link.Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program.parse(TEXT)
    first = rows_of(program)
    lay_out = link.Tables.lay_out

    def after_others(self: link.Tables, plan: object) -> None:
        lay_out(self, plan)
        monkeypatch.setattr(link.Tables, "lay_out", lay_out)
        self.numbers["another"] = len(self.numbers)

    with deltafix.connect(program) as db:
        with db.transaction() as tx:
            tx.insert("a", [(1, "a text before the constants")])
        again = link.link(db.plan, db.instance.linked.tables, db.instance.codes, begun=db._prepared)
        assert again.ids == db.instance.linked.ids
        monkeypatch.setattr(link.Tables, "lay_out", after_others)
        link.link(db.plan, db.instance.linked.tables, db.instance.codes, begun=db._prepared)
    assert len(written) == 2
    assert rows_of(program) == first


def test_an_analysis_reads_its_rules_once() -> None:
    assert DEAD_CODE.load_program() is DEAD_CODE.load_program()


def test_a_rule_is_looked_at_once_where_the_same_is_said_of_what_it_names() -> None:
    program = Program.parse(TEXT)
    before = typed(program)
    more = program.relations[0]
    wider = replace(program, relations=(*program.relations, replace(more, name="more")))
    after = typed(wider)
    assert [*map(id, after.rules)] == [*map(id, before.rules)]
    (x, s) = more.attributes
    other = replace(more, attributes=(replace(x, type="float"), s))
    floats = tuple(
        replace(other, name=one.name) if one.arity == 2 else one for one in program.relations
    )
    both, one = typed(replace(program, relations=floats)).rules
    assert both is not before.rules[0]
    assert (both.variables["x"], before.rules[0].variables["x"]) == ("float", "number")
    assert one is not before.rules[1]  # `both` has other columns now
    assert one.rule == before.rules[1].rule


def test_a_rule_that_makes_records_is_looked_at_again_beside_other_types() -> None:
    program = Program.parse(
        ".type P = [a: number]\n.decl p(x: P)\n.decl q(x: number)\n.input q\np([x]) :- q(x)."
    )
    before = typed(program)
    assert typed(replace(program)).rules[0] is before.rules[0]
    other = Program.parse(".type R = [a: number]\n.decl r(x: R)").types
    assert typed(replace(program, types=(*program.types, *other))).rules[0] is not before.rules[0]


def test_what_nodes_of_a_body_say_alike_is_written_once() -> None:
    names = "abcdef"
    decls = "".join(f".decl {n}(x: number, y: number)\n.input {n}\n" for n in names)
    body = ", ".join(f"{n}(x, y{n})" for n in names)
    with deltafix.connect(f"{decls}.decl h(x: number)\nh(x) :- {body}.") as db:
        plan, program = db.plan, db.instance.linked.program
    ((number, stage),) = ((n, one) for n, one in enumerate(plan.stages) if one.lower)
    variant = stage.lower[0]
    candidates = sum(len(node.candidates) for node in variant.nodes)
    assert candidates > 60
    start = int(program[int(program[1]) + number])
    record = int(program[int(program[start + at.T_LOWER]) + 1])
    node = int(program[record + at.V_NODE])
    keys, matches = set(), set()
    for number in range(len(variant.nodes)):
        count, first = (int(n) for n in program[node + 4 * number + 2 : node + 4 * number + 4])
        for place in program[first : first + count].tolist():
            keys.add(int(program[place + at.K_KEYS]))
            matches.add(int(program[place + at.K_MATCH]))
    assert len(keys) == len(matches) == len(names) - 1


def test_what_reading_a_program_found_of_its_rules_is_not_looked_for_again() -> None:
    program = Program.parse(TEXT)
    assert [*map(id, typed(program).rules)] == [*map(id, program._known)]
    with Program() as written:
        a, b = written.relation("a", x=int), written.relation("b", x=int)
        _ = b(1) <= a(1)
    assert [*map(id, typed(written).rules)] == [*map(id, written._known)]
    assert (len(program._known), len(written._known)) == (2, 1)
