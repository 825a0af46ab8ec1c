"""`python -m bench.sql_fuzz`: random SQL against DuckDB and SQLite for as long as you like.

Lives here: a loop over seeds of the tests' `random_sql`, judged by their `sql_judge`. A failure is
shrunk (views, transactions, then statements are dropped while it still fails) and saved under
`tests/fixtures/sql`, where it stays as a test. Invariant: a seed alone decides a case, so
`--seed N --cases 1` repeats a finding.

Exit code 0: no difference; 1: at least one; 2: a wrong command line.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.generators.random_sql import Case, case_of
from tests.judges.sql_judge import play

from deltafix.sql import partitions, scans

__all__ = ["main", "shrink"]

FIXTURES = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "sql"


def failure(case: Case) -> str | None:
    """What goes wrong with a case: the error's class and text; None if nothing does."""
    try:
        play(case)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def shrink(case: Case, kind: str, seconds: float = 60.0) -> Case:
    """A smaller case that still fails with an error of the same class."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for smaller in _smaller(case):
            found = failure(smaller)
            if found is not None and found.split(":")[0] == kind:
                case = smaller
                break
            if time.monotonic() > end:
                return case
        else:
            return case
    return case


def _smaller(case: Case) -> Iterator[Case]:
    for place in range(len(case.views)):
        yield dataclasses.replace(case, views=case.views[:place] + case.views[place + 1 :])
    for place, statements in enumerate(case.transactions):
        rest = case.transactions[:place], case.transactions[place + 1 :]
        yield dataclasses.replace(case, transactions=rest[0] + rest[1])
        for one in range(len(statements)):
            fewer = statements[:one] + statements[one + 1 :]
            yield dataclasses.replace(case, transactions=(*rest[0], fewer, *rest[1]))


def main(arguments: list[str] | None = None) -> int:
    """Play cases; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.sql_fuzz", description=__doc__)
    parser.add_argument("--transactions", type=int, default=2000)
    parser.add_argument("--cases", type=int, help="play so many cases instead")
    parser.add_argument("--seed", type=int, default=100_000)
    parser.add_argument("--failures", type=int, default=10, help="stop after so many")
    parser.add_argument("--seconds", type=float, default=60.0, help="bound on each shrinking")
    given = parser.parse_args(arguments)
    played = views = failures = disputed = cases = 0
    seed = given.seed
    many = scans.MANY
    while failures < given.failures:
        if cases >= given.cases if given.cases is not None else played >= given.transactions:
            break
        case = case_of(seed, computed=seed % 4 > 1)
        scans.MANY = (1, many, 2, 3)[seed % 4]  # few rows are edited as many are
        partitions.SMALL = (64, 1)[seed % 2]  # small partitions as large ones are
        try:
            judged = play(case)
        except Exception as error:
            failures += 1
            kind = type(error).__name__
            print(f"seed {seed}: {kind}: {error}", flush=True)
            smaller = shrink(case, kind, given.seconds)
            path = FIXTURES / f"seed_{seed}.sql"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(smaller.script())
            print(f"  shrunk to {path}", flush=True)
        else:
            played += judged.transactions
            views += judged.views.total()
            disputed += len(judged.disputed)
            for refused in judged.refused:
                print(f"seed {seed}: refused: {refused.splitlines()[0]}", flush=True)
        cases += 1
        seed += 1
    print(
        f"{cases} cases, {played:,} transactions, {views:,} comparisons of views, "
        f"{disputed} where SQLite alone differs, {failures} failures"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
