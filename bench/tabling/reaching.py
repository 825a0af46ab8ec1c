"""Experiment 1: reaching definitions, flow-sensitive; statements deleted and restored.

Deleting an assignment takes its node out of the flow: its edges go, and every predecessor gets an
edge to every successor. As in the paper (section 4), one such change is one update.
"""

from __future__ import annotations

from random import Random
from typing import Any

from bench.tabling.cflow import Flow
from bench.tabling.measure import Edit, Experiment

__all__ = ["PROGRAM", "experiment"]

PROGRAM = """
:- table in/2, out/2.
:- dynamic flow/2, sets/2, plain/1.
in(N, D) :- flow(M, N), out(M, D).
out(N, N) :- sets(N, _).
out(N, D) :- plain(N), in(N, D).
out(N, D) :- sets(N, V), in(N, D), sets(D, W), V \\= W.
"""


def experiment(package: str, flow: Flow, edits: int, seed: int = 1) -> Experiment:
    """`edits` random assignments deleted and restored, one after the other."""
    facts = flow.facts()
    before: dict[int, list[int]] = {}
    after: dict[int, list[int]] = {}
    for source, target in sorted(flow.edges):
        after.setdefault(source, []).append(target)
        before.setdefault(target, []).append(source)
    inside = [n for n in sorted(flow.assigns) if before.get(n) and after.get(n)]
    rng = Random(seed)
    script: list[Edit] = []
    for node in rng.choices(inside, k=edits):
        gone: list[tuple[Any, ...]] = [("flow", m, node) for m in before[node]]
        gone += [("flow", node, k) for k in after[node] if k != node]
        bridge = {(m, k) for m in before[node] for k in after[node] if node not in (m, k)}
        come = [("flow", m, k) for m, k in sorted(bridge) if (m, k) not in flow.edges]
        script.append(Edit(come, gone))
        script.append(Edit(gone, come))
    goals = [f"in({leave}, D)" for leave in flow.exits]
    size = f"{flow.nodes} nodes, {len(flow.edges)} flow edges, {len(flow.assigns)} assignments"
    return Experiment(f"reaching definitions, {package}", size, PROGRAM, facts, goals, script)
