"""`python -m bench.tabling.fuzz --epochs 5000`: random tabled programs under random edits.

Each seed is played in every mode (function-free, over terms, with negation, with games below
layers of rules, closures of graphs); after every epoch the tables must agree with fresh ones, the
ground alternating fixpoint and the oracle, the deltas must be exact and the invariants hold; an
epoch that is stopped must leave no trace. It is played on the kernel route as well: same answers
and deltas as the term route. Exit code 0: no difference, 1: at least one (its seed is printed and
repeats it: `--seed N --epochs 1`), 2: a wrong command line.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import Any

import deltafix

__all__ = ["main"]

MODES = ("flat", "terms", "negation", "layered", "graphs", "kernel")


def _programs() -> Any:
    """The generators and judges of the tests."""
    path = Path(__file__).resolve().parents[2] / "tests" / "agree" / "tabling_programs.py"
    spec = importlib.util.spec_from_file_location("tabling_programs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main(argv: list[str] | None = None) -> int:
    """Play seeds until enough epochs were compared."""
    parser = argparse.ArgumentParser(prog="bench.tabling.fuzz", description=__doc__)
    parser.add_argument("--epochs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    options = parser.parse_args(argv)
    programs = _programs()
    seed, failures = options.seed, 0
    counts = dict.fromkeys(MODES, 0)
    while sum(counts.values()) < options.epochs:
        for mode in MODES:
            try:
                if mode == "kernel":
                    counts[mode] += programs.play_routes(seed, deltafix.connect).total()
                else:
                    epochs = programs.play(seed, mode, oracle_too=True)
                    counts[mode] += epochs["compared"] + epochs["stopped"]
            except Exception as error:
                failures += 1
                print(f"seed {seed} {mode}: {type(error).__name__}: {error}", flush=True)
        seed += 1
    shares = ", ".join(f"{count} {mode}" for mode, count in counts.items())
    print(
        f"{sum(counts.values())} epochs ({shares}), seeds {options.seed} to {seed - 1}, "
        f"{failures} failures"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
