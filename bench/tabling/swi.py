"""SWI-Prolog with incremental tabling as the peer: same program, same edits, same goals.

After every edit all goals are asked again, as its incremental tabling is lazy. Invariant: the
answers come back as text and are hashed as ours are.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from bench.tabling.measure import Experiment, Record, answers_hash

__all__ = ["available", "run_swi"]

_DRIVER = """
edits(N) :- forall(between(1, N, I), (edit(I, Plus, Minus),
    forall(member(F, Minus), retract(F)), forall(member(F, Plus), assertz(F)), ask)).
ask :- forall((goal(G), call(G)), true).
main :- statistics(process_cputime, A), ask, statistics(process_cputime, B),
    count(N), edits(N), statistics(process_cputime, C),
    S is B - A, U is C - B, format("seconds ~w ~w~n", [S, U]),
    forall((goal(G), call(G)), (write_canonical(G), nl)).
:- initialization((main, halt)).
"""


def available() -> bool:
    """Whether swipl is on PATH."""
    return shutil.which("swipl") is not None


def _term(fact: tuple[Any, ...]) -> str:
    args = [str(a) if isinstance(a, int) else f"'{a}'" for a in fact[1:]]
    return f"{fact[0]}({', '.join(args)})"


def _text(experiment: Experiment, edits: int) -> str:
    program = re.sub(
        r":- table ([^.]*)\.", lambda m: f":- table {_each(m[1], ' as incremental')}.",
        experiment.program,
    )  # fmt: skip
    program = re.sub(
        r":- dynamic ([^.]*)\.", lambda m: f":- dynamic([{m[1]}], [incremental(true)]).", program
    )
    lines = [":- set_prolog_flag(stack_limit, 8_000_000_000).", program]
    lines += [":- discontiguous goal/1, edit/3."]
    lines += [f"{_term(fact)}." for fact in experiment.facts]
    lines += [f"goal({goal})." for goal in experiment.goals]
    for number, edit in enumerate(experiment.edits[:edits], 1):
        plus, minus = (", ".join(map(_term, part)) for part in (edit.insert, edit.delete))
        lines.append(f"edit({number}, [{plus}], [{minus}]).")
    return "\n".join([*lines, f"count({len(experiment.edits[:edits])}).", _DRIVER])


def _each(predicates: str, suffix: str) -> str:
    return "(" + predicates + ")" + suffix


def run_swi(experiment: Experiment, edits: int, seconds: int = 600) -> Record:
    """Run the first `edits` edits. A failed or overlong run is a record with a note, no figures."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "experiment.pl"
        path.write_text(_text(experiment, edits))
        try:
            done = subprocess.run(
                ["swipl", "-q", str(path)], capture_output=True, text=True, timeout=seconds,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Record(
                experiment.name, experiment.size, "swipl", 0, 0, edits, "",
                note=f"not done in {seconds} s",
            )  # fmt: skip
    lines = done.stdout.splitlines()
    figures = next((line.split() for line in lines if line.startswith("seconds ")), None)
    if figures is None:
        reason = (done.stderr.strip() or "no output").splitlines()[0]
        return Record(experiment.name, experiment.size, "swipl", 0, 0, edits, "", note=reason)
    answers = [line for line in lines if not line.startswith("seconds ")]
    return Record(
        experiment.name, experiment.size, "swipl", float(figures[1]), float(figures[2]), edits,
        answers_hash(answers),
    )  # fmt: skip
