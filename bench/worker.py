"""One (workload, peer) pair in a process of its own: `python -m bench.worker FOLDER PEER SECONDS`.

Prints one line of JSON, an `Outcome`. A peer that is missing or cannot do the workload gives an
outcome with `skipped`; one that fails gives its error as `skipped` too, so a run goes on.
Needs numpy only, so that a peer's own environment can run it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from bench.outcome import Outcome
from bench.peers import find
from bench.workload import load

__all__ = ["measure"]


def measure(folder: Path, name: str, seconds: float) -> Outcome:
    """Run the peer on the workload in `folder` within `seconds`."""
    deadline = time.monotonic() + seconds
    workload = load(folder)
    if workload is None:
        return Outcome(skipped=f"no workload in {folder.name}")
    peer = find(name)
    outcome = Outcome(mode=peer.mode)
    outcome.skipped = peer.missing()
    if outcome.skipped:
        return outcome
    outcome.version = peer.version()
    outcome.skipped = peer.cannot(workload)
    if outcome.skipped:
        return outcome
    try:
        return peer.run(workload, folder, outcome, deadline)
    except Exception as error:  # the report says what happened to this peer; others go on
        outcome.skipped = f"failed: {type(error).__name__}: {str(error)[:300]}"
        return outcome


def main() -> None:
    """Measure as the command line says; anything peers print goes to standard error."""
    folder, name, seconds = sys.argv[1:4]
    report = os.dup(1)
    os.dup2(2, 1)
    outcome = measure(Path(folder), name, float(seconds))
    with os.fdopen(report, "w") as out:
        out.write(json.dumps(outcome.to_json()) + "\n")


if __name__ == "__main__":
    main()
