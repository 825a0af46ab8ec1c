"""SWI-Prolog: tabled predicates over incremental or monotonic dynamic facts.

A program is generated, run by `swipl`, and times itself: an edit is the assert or retract and one
call of every output predicate, which brings its tables up to date; answers are not enumerated
inside the clock. Answers go to a file and are hashed here.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.outcome import Outcome
from bench.peers.base import Peer, build_folder, call
from bench.workload import Workload, answer

__all__ = ["make"]

_DRIVER = """
update(-1, Fact) :- retract(Fact).
update(1, Fact) :- assertz(Fact).

timed(Goal, Seconds) :-
    get_time(Start), call(Goal), get_time(End), Seconds is End - Start.

refresh :- forall(output(Goal), (call(Goal) -> true ; true)).

epochs(Deadline, Out) :-
    last_epoch(Last),
    forall(between(1, Last, Epoch),
           ( get_time(Now),
             ( Now > Deadline
             -> true
             ;  findall(Sign-Fact, edit(Epoch, Sign, Fact), Edits),
                timed((forall(member(Sign-Fact, Edits), update(Sign, Fact)), refresh), Seconds),
                format(Out, "epoch ~d ~9f~n", [Epoch, Seconds])
             ) )).

dump(Path) :-
    open(Path, write, Out),
    forall(output(Goal),
           forall(call(Goal),
                  ( Goal =.. [Name|Args],
                    atomic_list_concat([Name|Args], '\\t', Line), writeln(Out, Line) ))),
    close(Out).

main(Deadline) :-
    set_prolog_flag(stack_limit, 16_000_000_000),
    set_prolog_flag(table_space, 16_000_000_000),
    set_prolog_flag(shared_table_space, 16_000_000_000),
    open('times.txt', write, Out),
    timed((load_files('facts.pl', [silent(true)]), refresh), Load),
    format(Out, "load ~9f~n", [Load]),
    dump('answers-0.tsv'),
    epochs(Deadline, Out),
    dump('answers-last.tsv'),
    close(Out).
"""


class _Swipl(Peer):
    def __init__(self, variant: str) -> None:
        self._kind = variant

    def missing(self) -> str | None:
        if shutil.which("swipl"):
            return None
        return "swipl is not on PATH (apt-get install swi-prolog-nox)"

    def version(self) -> str:
        return call(["swipl", "--version"], Path.cwd(), time.monotonic() + 30).split()[2]

    def cannot(self, workload: Workload) -> str | None:
        if sum(map(len, workload.inputs.values())) > 1_000_000:
            return "over a million given rows: loading alone goes over the time limit"
        return None

    def _write(self, workload: Workload, home: Path) -> None:
        rules = workload.ruleset
        names = tuple(workload.inputs)
        tabled = ", ".join(f"{n}/{rules.arity[n]}" for n in rules.derived)
        given = ", ".join(f"given_{n}/{rules.arity[n]}" for n in names)
        lines = [f":- table ({tabled}) as {self._kind}.", f":- dynamic(({given}) as {self._kind})."]
        lines += [":- discontiguous edit/3, output/1.", ":- dynamic edit/3."]
        lines.append(rules.prolog())
        for name in workload.outputs:
            free = ", ".join("_" for _ in range(rules.arity[name]))
            lines.append(f"output({name}({free})).")
        for epoch, sign, number, *columns in workload.edits.tolist():
            row = ", ".join(map(str, columns[: rules.arity[names[number]]]))
            lines.append(f"edit({epoch}, {sign}, given_{names[number]}({row})).")
        lines.append(f"last_epoch({workload.epochs}).")
        (home / "program.pl").write_text("\n".join(lines) + _DRIVER)
        facts = [f":- dynamic(({given}) as {self._kind})."]
        for name, rows in workload.inputs.items():
            facts += [f"given_{name}({','.join(map(str, row))})." for row in rows.tolist()]
        (home / "facts.pl").write_text("\n".join(facts) + "\n")

    def run(self, workload: Workload, folder: Path, outcome: Outcome, deadline: float) -> Outcome:
        home = build_folder("swipl") / f"{folder.name}-{self._kind}"
        home.mkdir(exist_ok=True)
        self._write(workload, home)
        left = deadline - time.monotonic()
        stop = time.time() + 0.8 * left  # the rest is for the answers
        call(["swipl", "-g", f"main({stop:.0f})", "-t", "halt", "program.pl"], home, deadline)
        for line in (home / "times.txt").read_text().splitlines():
            kind, *values = line.split()
            if kind == "load":
                outcome.load_seconds = float(values[0])
            else:
                outcome.timed.append(int(values[0]))
                outcome.epochs.append(float(values[1]))
        outcome.answers["0"] = self._answers(workload, home / "answers-0.tsv")
        if len(outcome.epochs) < workload.epochs:
            outcome.notes.append(f"stopped by the time limit after {len(outcome.epochs)} epochs")
        elif workload.epochs:
            last = self._answers(workload, home / "answers-last.tsv")
            outcome.answers[str(workload.epochs)] = last
        return outcome

    @staticmethod
    def _answers(workload: Workload, path: Path) -> dict[str, list[Any]]:
        rows: dict[str, list[list[int]]] = {name: [] for name in workload.outputs}
        with path.open() as lines:
            for line in lines:
                name, *columns = line.split()
                rows[name].append([int(c) for c in columns])
        return {
            n: list(answer(np.array(r, np.int64).reshape(-1, workload.ruleset.arity[n])))
            for n, r in rows.items()
        }


def make(variant: str) -> Peer:
    """The adapter; `variant` is `incremental` or `monotonic` tabling."""
    return _Swipl(variant)
