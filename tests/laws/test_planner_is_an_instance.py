"""What the engine runs are the rules of `changes`: its delta rules, and what they give.

`plan.derive` makes the delta rules from the entries of `changes.counted`; with a wrong entry the
answers are wrong. And what an epoch changes is ↑ and ↓ of the rule's formula, by `PRECISE`, with
aggregates, which the engine folds.
"""

from __future__ import annotations

from random import Random
from unittest.mock import patch

import pytest
from tests.judges.oracle import evaluate as recomputed

import deltafix
from deltafix import Program
from deltafix.changes import PRECISE, Interpretation, SetChange, conjunction_terms, differentiate
from deltafix.changes.counted import COUNTED, Counting
from deltafix.changes.evaluate import evaluate
from deltafix.changes.formula import Aggregate, And, Exists, Not, Or, Relation, Test
from deltafix.plan.build import plan
from deltafix.plan.clause import Absent, Match
from deltafix.plan.depend import layers
from deltafix.plan.derive import sees, triggers_below, triggers_within
from deltafix.plan.ir import Sees
from deltafix.plan.normalize import normalize
from deltafix.rules.check import typed

PROGRAM = """
.decl a(x: number, y: number)
.decl b(x: number, y: number)
.decl c(x: number)
.decl p(x: number, y: number)
.decl q(x: number)
.decl u(x: number)
.input a
.input b
.input c
.output p
.output q
.output u
p(x, y) :- a(x, y).
p(x, z) :- p(x, y), a(y, z), p(z, z), b(x, z).
q(x) :- a(x, y), !c(y), p(y, x), x < y, b(y, x).
u(x) :- a(x, _), a(_, x).
u(x) :- c(x).
"""
READS = {
    Sees.LOWER_BEFORE: "old",
    Sees.SAME_BEFORE: "old",
    Sees.LOWER_AFTER: "new",
    Sees.SAME_AFTER: "new",
}


def _clauses():
    core = normalize(typed(Program.parse(PROGRAM)))
    return [(layer, clause) for layer in layers(core) for clause in layer.clauses]


@pytest.mark.parametrize(("layer", "clause"), _clauses(), ids=lambda value: str(value)[:40])
def test_every_variant_of_every_clause_is_a_term_of_the_conjunction(layer, clause) -> None:
    changing = [k for k, literal in enumerate(clause.body) if isinstance(literal, Match | Absent)]
    row = Relation("R", ())
    terms = conjunction_terms(
        [Not(row) if isinstance(clause.body[k], Absent) else row for k in changing]
    )
    triggers = sorted([*triggers_below(layer, clause), *triggers_within(layer, clause)])
    assert triggers == changing  # one variant per literal that can change: one per term
    for term, trigger in zip(terms, triggers, strict=True):
        planned = [
            "delta" if k == trigger else READS[sees(layer, clause, trigger, k)] for k in changing
        ]
        assert tuple(planned) == term.reads
        assert term.flips == isinstance(clause.body[trigger], Absent)


def test_the_plan_holds_exactly_these_variants() -> None:
    built = plan(typed(Program.parse(PROGRAM)))
    variants = sum(len(stage.lower) + len(stage.same) for stage in built.stages)
    assert variants == sum(
        sum(isinstance(literal, Match | Absent) for literal in clause.body)
        for _, clause in _clauses()
    )


def _is_right(seed: str) -> bool:
    """Whether the engine keeps up with recomputation, over some epochs of edits."""
    rng, program = Random(seed), Program.parse(PROGRAM)
    rows = {name: set() for name in ("a", "b", "c")}
    with deltafix.connect(program) as db:
        for _ in range(12):
            with db.transaction() as tx:
                for name, there in rows.items():
                    width = 1 if name == "c" else 2
                    gone = {row for row in there if rng.random() < 0.4}
                    new = {tuple(rng.choices(range(4), k=width)) for _ in range(6)}
                    tx.delete(name, sorted(gone))
                    tx.insert(name, sorted(new))
                    rows[name] = (there - gone) | new
            wanted = recomputed(program, rows)
            if any(set(db.rows(name)) != wanted[name] for name in ("p", "q", "u")):
                return False
    return True


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (And, Counting(1, "old", "old")),
        (And, Counting(1, "new", "new")),
        (Not, Counting(1)),
        (Not, Counting(0)),
        (Or, Counting(0)),
        (Exists, Counting(-1)),
        (Relation, Counting(0)),
        (Test, Counting(1)),
    ],
    ids=str,
)
def test_with_a_wrong_entry_the_engine_is_wrong(kind, wrong) -> None:
    assert _is_right("entries")
    with patch("deltafix.plan.derive.COUNTED", {**COUNTED, kind: wrong}):
        try:
            assert not _is_right("entries")
        except (AssertionError, deltafix.errors.DeltafixError) as refused:
            assert "assert not True" not in str(refused), refused


RX, SXY, TXY = Relation("r", ("x",)), Relation("s", ("x", "y")), Relation("t", ("x", "y"))
KINDS = {
    "R": (SXY, "h(x, y) :- s(x, y)."),
    "∧": (And(SXY, TXY), "h(x, y) :- s(x, y), t(x, y)."),
    "∨": (Or(SXY, TXY), "h(x, y) :- s(x, y). h(x, y) :- t(x, y)."),
    "¬": (And(SXY, Not(TXY)), "h(x, y) :- s(x, y), !t(x, y)."),
    "test": (And(SXY, Test("<", "x", "y")), "h(x, y) :- s(x, y), x < y."),
    "∃": (Exists("y", And(SXY, TXY)), "h(x) :- s(x, y), t(x, y)."),
    "¬∃": (And(RX, Not(Exists("y", SXY))), "h(x) :- r(x), 0 = count : { s(x, _) }."),
    "max": (
        And(RX, Aggregate("n", "max", "y", (), TXY, SXY)),
        "h(x, n) :- r(x), n = max y : { t(x, y), s(x, y) }.",
    ),
    "count": (
        And(RX, Aggregate("n", "count", "y", (), TXY, SXY)),
        "h(x, n) :- r(x), n = count : { t(x, y), s(x, y) }.",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_changes_what_the_derivative_of_its_formula_says(kind) -> None:
    formula, rules = KINDS[kind]
    schema = rules[rules.index("(") + 1 : rules.index(")")].split(", ")
    columns = ", ".join(f"{name}: number" for name in schema)
    program = Program.parse(
        ".decl r(x: number)\n.decl s(x: number, y: number)\n.decl t(x: number, y: number)\n"
        f".input r\n.input s\n.input t\n.decl h({columns})\n.output h\n{rules}"
    )
    derived = differentiate(formula, rules=PRECISE)
    rng = Random(kind)
    universe = range(4)
    rows: dict[str, frozenset] = {name: frozenset() for name in ("r", "s", "t")}
    ups = downs = 0
    with deltafix.connect(program) as db:
        for _ in range(15):
            changes = {}
            for name, there in rows.items():
                new = {tuple(rng.choices(universe, k=1 if name == "r" else 2)) for _ in range(4)}
                gone = {row for row in there if rng.random() < 0.3} - new
                changes[name] = SetChange.of(new - there, gone)
            at = Interpretation(tuple(universe), rows, changes)
            with db.transaction() as tx:
                for name, change in changes.items():
                    tx.delete(name, sorted(change.removed))
                    tx.insert(name, sorted(change.added))
            up, down = (evaluate(side, schema, at) for side in (derived.up, derived.down))
            assert (set(tx.delta["h"].added), set(tx.delta["h"].removed)) == (up, down)
            ups, downs = ups + len(up), downs + len(down)
            rows = {name: change.apply(rows[name]) for name, change in changes.items()}
    assert ups > 1
    assert downs > 1
