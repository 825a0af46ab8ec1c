"""`python -m bench.thread_fuzz`: one database, several threads, for as long as you like.

Lives here: a loop over seeds of the tests' `threads`, and every fifth time of their `sql_threads`:
a connection of SQL that is served. By turns a play has one writer or two, a random program or one
whose tables grow, and memory or a folder. Nothing is shrunk: threads are woven anew each time, so a
failure is told with all that was wrong, and a seed makes it likely only.

Exit code 0: no difference; 1: at least one; 2: a wrong command line.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.support.sql_threads import SqlPlay
from tests.support.threads import Play

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Play until the plays or the minutes are used up; give the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.thread_fuzz", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--seed", type=int, help="first seed (default: from the clock, printed)")
    parser.add_argument("--plays", type=int, default=1_000_000, help="stop after so many")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--reads", type=int, default=200, help="of each reader in a play")
    args = parser.parse_args(arguments)
    first = int(time.time()) if args.seed is None else args.seed
    stop = time.monotonic() + 60 * args.minutes
    counts: Counter[str] = Counter()
    print(f"seeds from {first}")
    for seed in range(first, first + args.plays):
        if time.monotonic() > stop:
            break
        large = seed % 4 == 3
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "state" if seed % 3 == 2 else None
            play: Play | SqlPlay = SqlPlay(seed, epochs=(4, 1000)[seed % 2], path=path)
            if seed % 5:
                reads = args.reads // (4 if large else 1)
                play = Play(seed, writers=1 + seed % 2, reads=reads, large=large, path=path)
            for failure in play.run():
                print(f"seed {seed}, {failure.door}: {failure.detail}", flush=True)
                counts["failures"] += 1
        counts += play.counts
        counts["plays"] += 1
    for name, number in sorted(counts.items()):
        print(f"{number:9,} {name}")
    return 1 if counts["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
