"""`python -m bench`: prepare workloads, run every peer in its own process, write RESULTS.md.

    python -m bench --quick                       small sizes, every code path
    python -m bench --only tc-edit --peers deltafix souffle-compiled
    python -m bench --only galen --merge          keep the other figures of the report
    python -m bench --setup                       get what the peers need into the cache

Exit code 0: all answers agree; 1: some differ; 2: a wrong command line. Invariant: one process at
a time, stopped with everything it started when its time limit is over.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import cold
from bench.extras import EXTRAS, run_extra
from bench.machine import describe, when
from bench.outcome import Outcome
from bench.peers import PEERS
from bench.peers.base import installed
from bench.peers.rust import BUILD
from bench.report import seconds, write
from bench.results import Measured, Results
from bench.workload import cache_folder, load
from bench.workloads import GALEN_ANSWER, WORKLOADS, SetupError, prepare

__all__ = ["default_peers", "main", "run_peer"]

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "RESULTS.md"
KEPT = Path(__file__).parent / "results.json"
"""The figures behind the report, in the repository: a part of it can be measured anew anywhere."""
LIMITS = {"galen": 1200.0, "tc-bulk-100m": 1200.0, "reach-edit": 900.0, "growth-10m": 900.0}
"""Seconds a peer may take, where it is not the default of 600 (60 in a quick run)."""

_STRATEGIES = tuple(p for p in PEERS if p.startswith("deltafix-"))
_CUT = ("deltafix-auto", "deltafix-recompute")
_NOT_TRIED = "not tried at this size: too much memory a row"
_TOO_BIG = {
    "tc-bulk-10m": ("clingo", "swipl-incremental", "swipl-monotonic", "pathway"),
    "tc-bulk-100m": (
        *("clingo", "swipl-incremental", "swipl-monotonic", "pathway"),
        *("differential", "dbsp", "flowlog", "duckdb"),
    ),
    "galen": ("clingo", "swipl-incremental", "swipl-monotonic", "flowlog"),
    "growth-10m": ("clingo", "pathway"),
}


def default_peers(workload: str) -> list[str]:
    """All peers, with the other strategies of deltafix only where they are compared."""
    wanted = {"tc-edit": _STRATEGIES, "reach-edit-small": _STRATEGIES}
    mine = wanted.get(workload, _CUT if workload in ("batch", "points-to", "reach-edit") else ())
    return [p for p in PEERS if p not in _STRATEGIES or p in mine]


def _interpreter(peer: str) -> str:
    """This Python, or the one of `peers-venv` for a peer that this one lacks."""
    own = cache_folder() / "peers-venv" / "bin" / "python"
    if peer == "pathway" and installed("pathway") is None and own.is_file():
        return str(own)
    return sys.executable


def run_peer(folder: Path, peer: str, limit: float) -> Outcome:
    """One peer on one prepared workload, in a process group of its own.

    The outcome's `peak_bytes` is the largest resident set among the worker and its children.
    """
    command = [_interpreter(peer), "-m", "bench.worker", str(folder), peer, str(limit)]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        worker = subprocess.Popen(
            command, cwd=REPOSITORY, stdout=out, stderr=err, start_new_session=True
        )
        # Should memory run out, the kernel takes the worker and not a bystander.
        with contextlib.suppress(OSError):
            Path(f"/proc/{worker.pid}/oom_score_adj").write_text("900")
        stop = time.monotonic() + limit * 1.2 + 30
        if peer in ("differential", "dbsp", "flowlog"):
            stop += BUILD  # the first run builds the program, which is not measured
        timed_out = False
        while True:
            pid, status, usage = os.wait4(worker.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > stop or timed_out:
                timed_out = True
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(worker.pid, signal.SIGKILL)
            time.sleep(0.05)
        worker.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        lines = out.read().splitlines()
        err.seek(0)
        last_words = err.read().strip().splitlines()[-1:]
    if timed_out:
        return Outcome(skipped=f"went over the time limit of {limit:.0f} s")
    if worker.returncode != 0 or not lines:
        reason = "was stopped (out of memory?)" if worker.returncode < 0 else " ".join(last_words)
        return Outcome(skipped=f"ended with {worker.returncode}: {reason[:200]}")
    outcome = Outcome(**json.loads(lines[-1]))
    outcome.peak_bytes = usage.ru_maxrss * 1024
    return outcome


def _best_of_two(folder: Path, peer: str, limit: float) -> Outcome:
    """The run with the shorter load of two; of one that takes over a minute there is no second.

    On a virtual machine the same load took 2.8 s and 1.7: its pages are cleared once more where the
    host has taken them back since.
    """
    start = time.monotonic()
    first = run_peer(folder, peer, limit)
    if first.load_seconds is None or time.monotonic() - start > 60:
        return first
    again = run_peer(folder, peer, limit)
    return min(first, again, key=lambda one: one.load_seconds or limit)


def _setup() -> None:
    """Create `peers-venv` with Pathway, and say what only an administrator can install."""
    home = cache_folder() / "peers-venv"
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    subprocess.run([str(home / "bin" / "pip"), "install", "-q", "pathway"], check=True)
    print("ready: pathway. Others, where wanted: apt-get install swi-prolog-nox; souffle; cargo.")


def _measure(name: str, args: argparse.Namespace, results: Results) -> None:
    print(f"{name}: preparing", flush=True)
    measured = results.workloads.setdefault(name, Measured(name))
    try:
        folder = prepare(name, args.quick)
    except SetupError as reason:
        measured.skipped = str(reason)
        print(f"  skipped: {reason}")
        return
    workload = load(folder)
    assert workload is not None
    measured.skipped = None
    measured.what, measured.facts, measured.labels = workload.what, workload.facts, workload.labels
    measured.given_rows = sum(map(len, workload.inputs.values()))
    limit = args.seconds or (60.0 if args.quick else LIMITS.get(name, 600.0))
    for peer in args.peers or default_peers(name):
        if not args.quick and peer in _TOO_BIG.get(name, ()):
            outcome = Outcome(skipped=_NOT_TRIED)
        else:
            outcome = _best_of_two(folder, peer, limit)
        measured.peers[peer] = outcome
        outcome.when = when()
        figures = [("load", outcome.load_seconds)]
        figures += [(f"p{q * 100:g}", measured.at(peer, q)) for q in (0.5, 0.99, 1)]
        line = ", ".join(f"{k} {seconds(v)}" for k, v in figures if v is not None)
        print(f"  {peer}: {outcome.skipped or line}", flush=True)


def _check(results: Results) -> list[str]:
    """Every disagreement between peers, and with answers known from elsewhere."""
    wrong = [sentence for measured in results for sentence in measured.disagreements()]
    galen = results.workloads.get("galen")
    if galen is not None and not results.quick:
        for peer, outcome in galen.peers.items():
            for relation, (count, _) in outcome.answers.get("0", {}).items():
                if count != GALEN_ANSWER[relation]:
                    wrong.append(f"galen: {peer} has {count:,} rows of {relation}")
    return wrong


def main(arguments: list[str] | None = None) -> int:
    """Run the bench as the command line says; give the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.split("\n")[0])
    names = [*WORKLOADS, "cold", *EXTRAS]
    parser.add_argument("--only", nargs="+", metavar="WORKLOAD", choices=names, default=None)
    parser.add_argument("--peers", nargs="+", metavar="PEER", choices=list(PEERS))
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--seconds", type=float, help="time limit of each peer")
    parser.add_argument("--merge", action="store_true", help="keep the report's other figures")
    parser.add_argument("--output", type=Path, help="default: bench/RESULTS.md (not if --quick)")
    parser.add_argument("--setup", action="store_true", help="install what peers need, then stop")
    parser.add_argument("--list", action="store_true", help="print workloads and peers, then stop")
    args = parser.parse_args(arguments)
    # A quick run leaves out the benches that have no small size of their own.
    args.only = args.only or [n for n in names if n not in EXTRAS or not args.quick]
    if args.list:
        print("workloads:", *names, "\npeers:", *PEERS)
        return 0
    if args.setup:
        _setup()
        return 0
    output = args.output or (cache_folder() / "RESULTS-quick.md" if args.quick else RESULTS)
    # Figures stand beside their report: a run for another one leaves those of the repository.
    kept = KEPT if output.resolve() == RESULTS.resolve() else output.with_suffix(".json")
    results = Results.load(kept) if args.merge and kept.is_file() else Results(args.quick)
    results.machine = describe()
    wrong: list[str] = []
    for name in args.only:
        if name in EXTRAS:
            section = run_extra(name, args.seconds or 1200.0)
            results.extras[name], results.when[name] = section.text, when()
            wrong += [] if section.agreed else [f"contenders of {name}"]
            print(f"{name}: done", flush=True)
        elif name == "cold":
            results.cold, results.when[name] = cold.measure(), when()
            print("cold:", results.cold)
        else:
            _measure(name, args, results)
        results.save(kept)
    # Sections stand in the order of the table of contents, however they were measured.
    results.workloads = {n: results.workloads[n] for n in WORKLOADS if n in results.workloads}
    write(results, output)
    print(f"written: {output}")
    wrong += _check(results)
    for sentence in wrong:
        print(f"ANSWERS DIFFER: {sentence}", file=sys.stderr)
    return 1 if wrong else 0
