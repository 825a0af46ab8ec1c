"""Inlining and magic sets: what they make of a program, word for word, and what it saves.

Each `tests/fixtures/passes/<name>.dl` has a sibling `<name>.expected`: the program that runs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import deltafix
from deltafix.datalog.program import Program
from deltafix.errors import ProgramError, UnknownRelationError
from deltafix.rules.check import typed
from deltafix.rules.passes.magic import executable
from deltafix.rules.show import show

FOLDER = Path(__file__).parents[2] / "fixtures" / "passes"
PASSES = sorted(FOLDER.glob("*.dl"))

CLOSURE = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number){hint}
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
.decl reached(y: number)
.output reached
reached(y) :- path(0, y).
"""


@pytest.mark.parametrize("file", PASSES, ids=lambda file: file.stem)
def test_the_program_that_runs(file: Path) -> None:
    found = executable(typed(Program.from_file(file)))
    assert show(found.program) == file.with_suffix(".expected").read_text(encoding="utf-8")


def test_demand_saves_the_work_that_nobody_asked_for() -> None:
    """Two chains of 60: demand derives paths from 0 only, in the first epoch and after."""
    edges = [(i, i + 1) for i in (*range(60), *range(100, 160))]
    work = {}
    for hint in ("", " magic"):
        with deltafix.connect(CLOSURE.format(hint=hint)) as db:
            with db.transaction() as tx:
                tx.insert("edge", edges)
            first = db.last_epoch.derivations
            with db.transaction() as tx:
                tx.insert("edge", [(160, 161)])
                tx.delete("edge", [(59, 60)])
            assert db.rows("reached") == [(i,) for i in range(1, 60)]
            work[hint] = (first, db.last_epoch.derivations)
    assert work[""][0] > 3_600
    assert work[" magic"][0] < 200
    assert work[""][1] > 60
    assert work[" magic"][1] <= 10


def test_demand_with_too_many_patterns_is_left_out() -> None:
    """Swapping and rotating 14 columns reaches every pattern with as many bound ones."""
    names = [f"x{i}" for i in range(14)]
    columns = ", ".join(f"{name}: number" for name in names)
    swapped = [names[1], names[0], *names[2:]]
    rotated = [*names[1:], names[0]]
    text = f".decl e({columns})\n.decl p({columns}) magic\n.decl q()\n.output q\n"
    for body in (f"e({', '.join(names)})", f"p({', '.join(swapped)})", f"p({', '.join(rotated)})"):
        text += f"p({', '.join(names)}) :- {body}.\n"
    asked = [str(i) if i < 7 else "_" for i in range(14)]
    text += f"q() :- p({', '.join(asked)}).\n"
    checked = typed(Program.parse(text))
    assert executable(checked).program.rules == tuple(one.rule for one in checked.rules)


def test_what_is_not_kept_is_in_no_delta_and_cannot_be_read() -> None:
    program = Program.parse(CLOSURE.format(hint=" magic"))
    with deltafix.connect(program) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(0, 1)])
        assert set(tx.delta) == {"edge", "reached"}
        assert set(db.schemas) == {"edge", "reached"}
        assert set(db.memory()) >= {"edge"}
        for read in (db.rows, db.count, db.to_arrow):
            with pytest.raises(UnknownRelationError, match=r"`\.output path` would keep it"):
                read("path")
        with pytest.raises(UnknownRelationError, match="path"):
            db.query("path(0, X)")
        with (
            pytest.raises(UnknownRelationError, match="is not kept as a whole"),
            db.transaction() as tx,
        ):
            tx.insert("path", [(0, 1)])


def test_rules_may_change_while_relations_are_hidden() -> None:
    with deltafix.connect(CLOSURE.format(hint=" magic")) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(0, 1), (5, 6)])
        with db.transaction() as tx:
            tx.add_rule("reached(y) :- path(5, y).")
        assert tx.delta["reached"].added == [(6,)]
        assert set(tx.delta) == {"reached"}


LISTS = """
.type List = [head: number, tail: List]
.type Maybe = [value: symbol]
.decl e(x: number)
.decl list(l: List) HINT
.decl maybe(x: number, m: Maybe) HINT
.decl found(x: number)
.input e
list(nil) :- e(3).
list([x, nil]) :- e(x), x > 0.
list([x, [2, nil]]) :- e(x).
maybe(x, nil) :- e(x), x < 2.
maybe(x, ["a"]) :- e(x), x > 0.
"""


@pytest.mark.parametrize(
    "body",
    [
        "list(nil), x = 1",
        "list([x, nil])",
        "list([x, [_, nil]])",
        "list(l), l != nil, l = [x, _]",
        "list(l), l = nil, x = 1",
        "e(x), !list([x, nil])",
        "e(x), !list([2, nil])",
        "e(x), !list(nil)",
        "maybe(x, nil)",
        "maybe(x, m), m != nil",
        "maybe(x, m), maybe(y, m), x != y",
        "e(x), !maybe(x, nil)",
    ],
)
def test_a_nil_keeps_its_type_where_its_relation_is_written_out(body: str) -> None:
    found = []
    for hint in ("", "inline"):
        text = LISTS.replace("HINT", hint)
        with deltafix.connect(f"{text} found(x) :- {body}.") as db:
            each = []
            for rows in ([(0,), (1,)], [(2,), (3,)]):
                with db.transaction() as tx:
                    tx.insert("e", rows)
                each.append((list(tx.delta["found"].signed()), db.rows("found")))
            found.append(each)
    assert found[0] == found[1]
    assert any(rows for _, rows in found[0])


def test_hints_from_python_are_those_of_the_text() -> None:
    with Program() as p:
        edge = p.relation("edge", x=int, y=int)
        either = p.relation("either", x=int, y=int)
        path = p.relation("path", x=int, y=int)
        out = p.relation("out", y=int)
        x, y, z = deltafix.vars("x y z")
        _ = either(x, y) <= edge(x, y) | edge(y, x)
        _ = path(x, y) <= either(x, y)
        _ = path(x, z) <= path(x, y) & either(y, z)
        _ = out(y) <= path(1, y)
        p.inline(either)
        p.magic(path, "path")
        p.input(edge)
        p.output(out)
    assert p.relation("either").qualifiers == ("inline",)
    assert p.relation("path").qualifiers == ("magic",)
    assert Program.parse(p.show()) == p
    with deltafix.connect(p) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(2, 1), (2, 3)])
        assert db.rows("out") == [(1,), (2,), (3,)]


def test_a_hint_for_a_relation_that_is_not_there() -> None:
    with (
        pytest.raises(ProgramError, match="no relation 'pth' in this program; did you mean 'path'"),
        Program() as p,
    ):
        p.relation("path", x=int)
        p.inline("pth")


def test_pragmas_name_relations() -> None:
    with pytest.raises(ProgramError, match=r"DF114.*undeclared relation `pth`"):
        Program.parse('.pragma "magic-transform" "pth" .decl path(x: number)')
