"""Generators depend on their seed alone, and their scripts are valid: work the peers can trust."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bench.graphs import (
    batch_edits,
    bfs_tree,
    closure_size,
    edge_edits,
    pick_roots,
    reach_edits,
    rmat,
)
from bench.points_to import extract
from bench.program import read_rules
from bench.workload import load, row_hash, save
from bench.workloads import CLOSURE, GALEN, REACH, WORKLOADS

MADE_HERE = tuple(n for n in WORKLOADS if n not in ("galen", "points-to"))
C_SOURCE = """
int x; int *g; int **h;
int *pick(int *a) { return a; }
int *(*via)(int *) = pick;
void run(void) { int y; g = &x; h = &g; *h = via(&y); g = *h; }
"""


@pytest.mark.parametrize("name", MADE_HERE)
def test_a_workload_made_twice_is_the_same(name: str) -> None:
    one, two = WORKLOADS[name](name, True), WORKLOADS[name](name, True)
    assert {n: r.tolist() for n, r in one.inputs.items()} == {
        n: r.tolist() for n, r in two.inputs.items()
    }
    assert one.edits.tolist() == two.edits.tolist()


@pytest.mark.parametrize("name", MADE_HERE)
def test_a_script_deletes_what_is_there_and_inserts_what_is_not(name: str) -> None:
    workload = WORKLOADS[name](name, True)
    present = {n: set(map(tuple, r.tolist())) for n, r in workload.inputs.items()}
    epochs = 0
    for changes in workload.script():
        epochs += 1
        for relation, (deleted, inserted) in changes.items():
            gone, new = (set(map(tuple, part.tolist())) for part in (deleted, inserted))
            assert len(gone) == len(deleted)
            assert len(new) == len(inserted)
            assert gone <= present[relation]
            assert not new & (present[relation] - gone)
            present[relation] = (present[relation] - gone) | new
    assert epochs == workload.epochs
    assert not workload.epochs or workload.samples[-1] == workload.epochs


def test_rmat_edges_are_distinct_without_loops_and_in_range() -> None:
    edges = rmat(300, 1500, seed=9)
    assert edges.shape == (1500, 2)
    assert len(np.unique(edges, axis=0)) == 1500
    assert (edges[:, 0] != edges[:, 1]).all()
    assert edges.min() >= 0
    assert edges.max() < 300
    # Skewed, as R-MAT is meant to be: the busiest node has far more than the mean of 5.
    assert np.bincount(edges[:, 0]).max() > 30


def test_reach_edits_have_the_promised_mix() -> None:
    edges = rmat(2000, 10_000, seed=1)
    roots = pick_roots(2000, edges, 10, seed=2)
    script = reach_edits(2000, edges, roots, seed=3)
    deletes = script[script[:, 0] < 0][:, 1:]
    tree = set(map(tuple, bfs_tree(2000, edges, roots).tolist()))
    assert len(script) == 1000
    assert len(deletes) == 500
    assert sum(tuple(edge) in tree for edge in deletes.tolist()) >= 150
    assert np.isin(deletes[:, 0], roots).sum() >= 20


def test_bfs_tree_reaches_what_a_search_reaches() -> None:
    edges = rmat(200, 600, seed=4)
    roots = pick_roots(200, edges, 3, seed=4)
    reached, queue = set(roots.tolist()), roots.tolist()
    while queue:
        node = queue.pop()
        new = set(edges[edges[:, 0] == node, 1].tolist()) - reached
        reached |= new
        queue += new
    tree = bfs_tree(200, edges, roots)
    assert sorted(tree[:, 1].tolist()) == sorted(reached - set(roots.tolist()))


def test_closure_size_counts_pairs() -> None:
    assert closure_size(4, np.array([[0, 1], [1, 2], [2, 0], [2, 3]])) == 12


def test_batches_are_of_the_asked_sizes() -> None:
    edges = rmat(500, 2000, seed=5)
    assert [len(e) for e in batch_edits(500, edges, 6, (2, 20, 1000))] == [2, 20, 1000]


def test_edge_edits_are_half_deletes() -> None:
    script = edge_edits(500, rmat(500, 2000, seed=5), 7, 40)
    assert (script[:, 0] < 0).sum() == 20


def test_row_hash_ignores_order_and_nothing_else() -> None:
    rows = rmat(100, 200, seed=8)
    assert row_hash(rows) == row_hash(rows[::-1])
    assert row_hash(rows) != row_hash(rows[1:])
    assert row_hash(rows) != row_hash(rows[:, ::-1])


def test_a_saved_workload_is_read_back_equal(tmp_path: Path) -> None:
    workload = WORKLOADS["batch"]("batch", True)
    save(workload, tmp_path)
    again = load(tmp_path)
    assert again is not None
    assert again.labels == workload.labels
    assert again.edits.tolist() == workload.edits.tolist()
    assert again.inputs["edge"].tolist() == workload.inputs["edge"].tolist()
    assert again.rules == workload.rules


def test_rules_are_spelled_for_each_family_of_peers() -> None:
    rules = read_rules("p(x, z) :- p(x, y), e(y, z).", ("p", "e"), ("p",))
    assert ".decl p(c0: number, c1: number)" in rules.datalog()
    assert "p(X, Z) :- p(X, Y), given_e(Y, Z)." in rules.prolog()
    assert "p(C0, C1) :- given_p(C0, C1)." in rules.prolog()
    assert "p(X, Z) :- p(X, Y), e(Y, Z)." in rules.asp()
    with pytest.raises(ValueError, match="two arities"):
        read_rules("p(x) :- p(x, x).", (), ())


@pytest.mark.parametrize("text", [REACH, CLOSURE, GALEN])
def test_every_rule_text_is_a_program_deltafix_accepts(text: str) -> None:
    from deltafix import Program

    rules = read_rules(text, ("edge",), ())
    source = "".join(line for line in rules.datalog().splitlines(True) if ".input" not in line)
    assert len(Program.parse(source).names("output")) == 0


def test_points_to_facts_name_every_statement_of_a_small_file(tmp_path: Path) -> None:
    (tmp_path / "a.i").write_text(C_SOURCE)
    rows, read, failed = extract([("a.c", tmp_path / "a.i"), ("b.c", tmp_path / "a.i")])
    assert (read, failed) == (2, 0)
    one = extract([("a.c", tmp_path / "a.i")])[0]
    counts = {name: len(table) for name, table in one.items()}
    # &pick, &x, &g, &y are taken; `*h` is read once and written once; one call, through a pointer.
    assert counts["addr"] == 4
    assert (counts["load"], counts["store"]) == (1, 1)
    assert (counts["icall"], counts["dcall"]) == (1, 0)
    assert (counts["arg"], counts["param"], counts["ret"]) == (1, 1, 1)
    assert all(len(rows[name]) >= counts[name] for name in counts)
