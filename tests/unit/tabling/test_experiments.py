"""The paper's experiments in small: what is counted, not how long it took."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from bench.tabling import functional, parsing, reaching, swi
from bench.tabling.cflow import flow_of
from bench.tabling.measure import Edit, run_kernel, run_strategy

from deltafix.tabling import Tables

CORPUS = Path(__file__).parent / "corpus"


@pytest.fixture(scope="module")
def statements():
    flow = flow_of([(CORPUS / "words.c").read_text()])
    return reaching.experiment("words", flow, 12)


def test_flow_graphs_of_c_have_loops_branches_and_jumps():
    text = "int f(int a) { int b = 1; while (a) { if (b) break; b = 2; a--; } return b; }"
    flow = flow_of([text])
    names = {name.partition("/")[2] for name in flow.assigns.values()}
    assert names == {"a", "b"}
    targets = [target for _, target in flow.edges]
    assert max(targets.count(t) for t in targets) >= 2  # the loop's head, and the way out
    assert len(flow.exits) == 1


def test_reaching_definitions_local_touches_only_what_changes(statements):
    local = run_strategy(statements, "local")
    deletes_first = run_strategy(statements, "deletes_first")
    assert local.answers == deletes_first.answers
    assert local.counters["marked"] == local.counters["answers_deleted"]
    assert local.counters["answers_inserted"] == local.counters["answers_deleted"]
    assert deletes_first.touched >= 2 * local.touched


def test_parsing_works_in_proportion_to_the_edit():
    touched = {}
    for tokens in (120, 480):
        experiment = parsing.experiment(tokens, 6)
        record = run_strategy(experiment, "local")
        touched[tokens] = record.counters["events"] / record.edits
    assert touched[480] <= 2 * touched[120]


def test_parsing_a_changed_operator_never_reaches_the_next_line():
    tables = Tables(parsing.PROGRAM)
    kinds = ["num", "+", "id", ";", "num", "*", "id", ";", "id", "-", "num", ";"]
    tables.update(insert=[("token", i, kind, i + 1) for i, kind in enumerate(kinds)])
    assert tables.holds("program(0, 12)")
    assert not tables.replace("token(1, '+', 2)", "token(1, '-', 2)")
    assert tables.last.marked == 0
    assert tables.last.events <= 4


def test_the_interpreter_visits_the_applications_adaptive_evaluation_would():
    experiment = functional.experiment(32, 12)
    record = run_strategy(experiment, "local")
    assert record.visited["apply/3"] == functional.adaptive(experiment)
    fresh = Tables(experiment.program)
    facts = {fact[1]: fact for fact in experiment.facts}
    for edit in experiment.edits:
        facts[edit.insert[0][1]] = edit.insert[0]
    fresh.update(insert=list(facts.values()))
    (solution,) = fresh.query(experiment.goals[0])
    assert solution["V"] == sum(max(fact[2], 0) for fact in facts.values())


def test_the_kernel_route_parses_alike():
    experiment = parsing.experiment(60, 4)
    assert run_kernel(experiment).answers == run_strategy(experiment, "local").answers


def test_the_peer_s_program_says_what_ours_says(statements):
    text = swi._text(statements, 1)
    assert ":- table (in/2, out/2) as incremental." in text
    assert ":- dynamic([flow/2, sets/2, plain/1], [incremental(true)])." in text
    assert text.count("goal(in(") == len(statements.goals)
    assert isinstance(statements.edits[0], Edit)
