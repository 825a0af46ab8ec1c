"""`python -m bench.tabling`: run the experiments, print the table, write the records as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from bench.csources import SetupError
from bench.tabling.experiments import NAMES, STRATEGIES, run_all, table
from bench.workload import cache_folder

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: done; 1: an experiment cannot be set up here."""
    parser = argparse.ArgumentParser(prog="bench.tabling", description=__doc__)
    parser.add_argument("--only", action="append", choices=NAMES)
    parser.add_argument("--way", action="append", choices=[*STRATEGIES, "kernel", "swipl"])
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, seconds instead of minutes"
    )
    parser.add_argument("--json", type=Path, help="write the records here")
    options = parser.parse_args(argv)
    ways = tuple(options.way or (*STRATEGIES, "kernel", "swipl"))
    records = []
    code = 0
    for name in options.only or NAMES:
        try:
            for record in run_all(
                cache_folder() / "csources", quick=options.quick, only=(name,), ways=ways
            ):
                records.append(record)
                print(table([record]).splitlines()[-1], file=sys.stderr, flush=True)
        except SetupError as error:
            print(f"{name}: {error}", file=sys.stderr)
            code = 1
    print(table(records))
    if options.json:
        options.json.write_text(json.dumps([r.as_dict() for r in records], indent=1))
    return code


if __name__ == "__main__":
    sys.exit(main())
