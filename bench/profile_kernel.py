"""`python -m bench.profile_kernel WORKLOAD`: where a workload's time goes, in cache misses.

Lives here: a run of one deltafix workload under `perf stat` (cycles, instructions, cache and TLB
misses, per phase: loading, edits), or under valgrind's cachegrind where counters are not
to be had, which is forty times slower and wants `--quick`.
Invariant: what is counted is the difference of two runs, with and without the phase, so that
start-up and the reading of input fall out. Prints a table; what is worth keeping goes into
`bench/notes/<workload>.md` by hand.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from bench.peers.deltafix import open_session
from bench.workload import load
from bench.workloads import WORKLOADS, SetupError, prepare

__all__ = ["EVENTS", "count", "main", "play"]

EVENTS = ("cycles", "instructions", "cache-references", "cache-misses", "dTLB-load-misses")
PHASES = ("start", "load", "edits")
_ROOT = Path(__file__).resolve().parents[1]


def play(folder: Path, strategy: str, phase: str) -> int:
    """Run the workload as far as `phase`; the number of epochs or rows that phase works on."""
    workload = load(folder)
    if workload is None:
        raise SetupError(f"no workload in {folder.name}")
    session = open_session(workload, strategy)
    epochs = list(workload.script())
    if phase == "start":
        return 0
    session.load()
    if phase == "load":
        return sum(map(len, workload.inputs.values()))
    for changes in epochs:
        session.apply(changes, True)
    return len(epochs)


def _perf(command: list[str]) -> dict[str, int]:
    with tempfile.NamedTemporaryFile("r", suffix=".csv") as out:
        perf = ["perf", "stat", "-x", ",", "-o", out.name, "-e", ",".join(EVENTS)]
        subprocess.run([*perf, *command], cwd=_ROOT, check=True, stdout=subprocess.DEVNULL)
        found = {}
        for line in out.read().splitlines():
            cells = line.split(",")
            if len(cells) > 2 and cells[0].isdigit():
                found[cells[2].split(":")[0]] = int(cells[0])
    return found


def _cachegrind(command: list[str]) -> dict[str, int]:
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]
    done = subprocess.run([*tool, *command], cwd=_ROOT, check=True, capture_output=True, text=True)
    wanted = {"I refs": "instructions", "D refs": "cache-references", "LL misses": "cache-misses"}
    found = {}
    for line in done.stderr.splitlines():
        matched = re.match(r"==\d+==\s+(.*?)\s*:\s+([\d,]+)", line)
        if matched and re.sub(r"\s+", " ", matched[1]) in wanted:
            name = wanted[re.sub(r"\s+", " ", matched[1])]
            found[name] = int(matched[2].replace(",", ""))
    return found


def count(folder: Path, strategy: str) -> dict[str, dict[str, int]]:
    """Phase to event to count, start-up taken away. Raises SetupError without a counting tool."""
    if shutil.which("perf"):
        counter = _perf
    elif shutil.which("valgrind"):
        counter = _cachegrind
    else:
        raise SetupError("neither perf nor valgrind is on PATH")
    command = [sys.executable, "-m", "bench.profile_kernel", "--play", str(folder), strategy]
    runs = {phase: counter([*command, phase]) for phase in PHASES}
    if not runs["start"]:
        raise SetupError("the counters of this machine cannot be read (perf_event_paranoid?)")
    found = {}
    for before, phase in pairwise(PHASES):
        found[phase] = {e: runs[phase][e] - runs[before].get(e, 0) for e in runs[phase]}
    return found


def main(arguments: list[str] | None = None) -> int:
    """Count and print; exit code 0, or 2 with a reason."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["--play"]:
        play(Path(given[1]), given[2], given[3])
        return 0
    parser = argparse.ArgumentParser(
        prog="python -m bench.profile_kernel", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("workload", choices=list(WORKLOADS))
    parser.add_argument("--strategy", default="wavefront")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args(given)
    try:
        folder = prepare(args.workload, args.quick)
        found = count(folder, args.strategy)
    except SetupError as reason:
        print(reason, file=sys.stderr)
        return 2
    workload = load(folder)
    assert workload is not None
    units = {"load": sum(map(len, workload.inputs.values())), "edits": max(1, workload.epochs)}
    print(f"{args.workload}, {args.strategy}, {os.cpu_count()} cores")
    for phase, events in found.items():
        each = "given row" if phase == "load" else "epoch"
        for event, total in events.items():
            print(f"  {phase:6} {event:18} {total:>16,}  {total / units[phase]:>12,.1f} per {each}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
