"""Every peer that is installed here agrees on tiny workloads; the others say what is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bench.graphs import edge_edits, pick_roots, reach_edits, rmat
from bench.outcome import Outcome
from bench.peers import PEERS, find
from bench.worker import measure
from bench.workload import Workload, answer, save
from bench.workloads import CLOSURE, REACH

# Not here: peers that build or start for seconds (Rust, Pathway); `make bench` checks those.
QUICK = tuple(p for p in PEERS if p not in ("differential", "dbsp", "flowlog", "pathway"))


def _closure(edges: set[tuple[int, int]]) -> np.ndarray:
    pairs = set(edges)
    while True:
        more = {(a, d) for a, b in pairs for c, d in edges if b == c} - pairs
        if not more:
            return np.array(sorted(pairs), np.int64).reshape(-1, 2)
        pairs |= more


def _reached(edges: set[tuple[int, int]], roots: list[int]) -> np.ndarray:
    found = set(roots)
    while True:
        more = {b for a, b in edges if a in found} - found
        if not more:
            return np.array(sorted(found), np.int64).reshape(-1, 1)
        found |= more


def _tiny(kind: str) -> tuple[Workload, dict[str, dict[str, list]]]:
    """A workload of a few edges, and its answers by a search that shares nothing with peers."""
    edges = rmat(24, 48, seed=12)
    roots = pick_roots(24, edges, 2, seed=1, least_degree=2)
    script = (
        reach_edits(24, edges, roots, 4, 20) if kind == "reach" else edge_edits(24, edges, 4, 20)
    )
    m = len(script)
    layout = [np.arange(1, m + 1), script[:, 0], np.zeros(m), script[:, 1:]]
    inputs = {"edge": edges, "root": roots.reshape(-1, 1)} if kind == "reach" else {"edge": edges}
    output = "reach" if kind == "reach" else "path"
    rules = REACH if kind == "reach" else CLOSURE
    edits = np.column_stack(layout).astype(np.int64)
    workload = Workload("tiny", "tiny", kind, rules, inputs, (output,), edits, samples=(7, m))
    present = {tuple(e) for e in edges.tolist()}
    answers = {}
    for epoch in (0, m):
        if epoch:
            for sign, *edge in script.tolist():
                (present.add if sign > 0 else present.discard)(tuple(edge))
        rows = _reached(present, roots.tolist()) if kind == "reach" else _closure(present)
        answers[str(epoch)] = {output: list(answer(rows))}
    return workload, answers


@pytest.mark.parametrize("kind", ["reach", "tc"])
@pytest.mark.parametrize("peer", QUICK)
def test_agree_peer_and_plain_search(
    peer: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DELTAFIX_BENCH_CACHE", str(tmp_path / "cache"))
    workload, answers = _tiny(kind)
    save(workload, tmp_path / "tiny")
    outcome = measure(tmp_path / "tiny", peer, 60)
    if outcome.skipped:
        reason = find(peer).missing() or find(peer).cannot(workload)
        assert outcome.skipped == reason  # a failure is not a reason
        assert outcome.answers == {}
        return
    assert {e: {n: list(a) for n, a in found.items()} for e, found in outcome.answers.items()} == (
        answers
    )
    expected = 2 if outcome.mode == "recompute" else workload.epochs
    assert len(outcome.epochs) == expected
    assert outcome.load_seconds is not None


def test_an_outcome_survives_json() -> None:
    outcome = Outcome(mode="recompute", load_seconds=1.5, answers={"0": {"p": [1, "ff"]}})
    assert Outcome(**outcome.to_json()) == outcome
