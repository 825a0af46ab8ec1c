"""Soufflé, where on PATH: recomputes from fact files, interpreted or compiled, one thread.

Timed is Soufflé's whole run on fact files that are already written (its start, reading, rules and
writing); compiling the program is done before, once, and not timed.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.outcome import Outcome
from bench.peers.base import Peer, build_folder, call, write_facts
from bench.workload import Workload, answer

__all__ = ["make"]


class _Souffle(Peer):
    mode = "recompute"

    def __init__(self, variant: str) -> None:
        self._compiled = variant == "compiled"

    def missing(self) -> str | None:
        return None if shutil.which("souffle") else "souffle is not on PATH"

    def version(self) -> str:
        words = call(["souffle", "--version"], Path.cwd(), time.monotonic() + 30).split()
        return next((w for w in words if w[:1].isdigit()), "unknown")

    def cannot(self, workload: Workload) -> str | None:
        return None

    def run(self, workload: Workload, folder: Path, outcome: Outcome, deadline: float) -> Outcome:
        home = build_folder("souffle") / f"{folder.name}-{self._compiled}"
        home.mkdir(exist_ok=True)
        facts, out = home / "facts", home / "out"
        out.mkdir(exist_ok=True)
        (home / "program.dl").write_text(workload.ruleset.datalog())
        places = ["-F", str(facts), "-D", str(out), "-j", "1"]
        command = ["souffle", *places, "program.dl"]
        if self._compiled:
            call(["souffle", "-j", "1", "-o", "program", "program.dl"], home, deadline)
            command = [str(home / "program"), *places]
        state = {n: set(map(tuple, r.tolist())) for n, r in workload.inputs.items()}

        def evaluate() -> float:
            start = time.perf_counter()
            call(command, home, deadline)
            return time.perf_counter() - start

        write_facts(workload, facts)
        outcome.load_seconds = evaluate()
        outcome.answers["0"] = self._answers(workload, out)
        for epoch, changes in enumerate(workload.script(), 1):
            for name, (deleted, inserted) in changes.items():
                state[name].difference_update(map(tuple, deleted.tolist()))
                state[name].update(map(tuple, inserted.tolist()))
            if epoch in workload.samples:
                for name, rows in state.items():
                    table = np.array(sorted(rows), np.int64)
                    table = table.reshape(-1, workload.inputs[name].shape[1])
                    np.savetxt(facts / f"{name}.facts", table, fmt="%d", delimiter="\t")
                outcome.timed.append(epoch)
                outcome.epochs.append(evaluate())
        if workload.epochs:
            outcome.answers[str(workload.epochs)] = self._answers(workload, out)
        return outcome

    @staticmethod
    def _answers(workload: Workload, out: Path) -> dict[str, list[Any]]:
        found = {}
        for name in workload.outputs:
            text = (out / f"{name}.csv").read_text()
            rows = np.fromstring(text, np.int64, sep="\t") if text else np.empty(0, np.int64)
            found[name] = list(answer(rows.reshape(-1, workload.ruleset.arity[name])))
        return found


def make(variant: str) -> Peer:
    """The adapter; `variant` is `compiled` or `interpreted`."""
    return _Souffle(variant)
