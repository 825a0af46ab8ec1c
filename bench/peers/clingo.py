"""clingo: facts and rules are grounded again; grounding a positive program evaluates it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.outcome import Changes, Outcome, drive
from bench.peers.base import Peer, installed
from bench.workload import Workload, answer

__all__ = ["make"]


class _Session:
    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._rules = workload.ruleset.asp()
        self._rows = {n: set(map(tuple, r.tolist())) for n, r in workload.inputs.items()}
        self._control: Any = None

    def load(self) -> None:
        import clingo

        facts = [
            f"{name}({','.join(map(str, row))})."
            for name, rows in self._rows.items()
            for row in rows
        ]
        self._control = clingo.Control(message_limit=0)
        self._control.add("base", [], "\n".join(facts))
        self._control.add("base", [], self._rules)
        self._control.ground([("base", [])])

    def apply(self, changes: Changes, evaluate: bool) -> None:
        for name, (deleted, inserted) in changes.items():
            self._rows[name].difference_update(map(tuple, deleted.tolist()))
            self._rows[name].update(map(tuple, inserted.tolist()))
        if evaluate:
            self.load()

    def answers(self) -> dict[str, list[Any]]:
        found = {}
        for name in self._workload.outputs:
            arity = self._workload.ruleset.arity[name]
            atoms = self._control.symbolic_atoms.by_signature(name, arity)
            rows = [[a.number for a in atom.symbol.arguments] for atom in atoms]
            found[name] = list(answer(np.array(rows, np.int64).reshape(-1, arity)))
        return found

    def counters(self) -> tuple[int, int] | None:
        return None


class _Clingo(Peer):
    mode = "recompute"

    def missing(self) -> str | None:
        return None if installed("clingo") else "not installed (pip install clingo)"

    def version(self) -> str:
        return installed("clingo") or ""

    def cannot(self, workload: Workload) -> str | None:
        return None

    def run(self, workload: Workload, folder: Path, outcome: Outcome, deadline: float) -> Outcome:
        return drive(_Session(workload), workload, outcome, deadline)


def make(variant: str) -> Peer:
    """The adapter; there is one variant."""
    return _Clingo()
