"""Types and calls of Python beside mypy's and those of a run, as Markdown.

    python -m bench.judged [--differences]

What is compared, and how it is counted: `bench.analyses.judged`. `--differences` prints each of
them, after the tables.
"""

from __future__ import annotations

import argparse
import sys

from bench.analyses.judged import judge

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Print the section. Raises NoProjectError where mypy or a package is not installed."""
    parser = argparse.ArgumentParser(prog="python -m bench.judged")
    parser.add_argument("--differences", action="store_true", help="each one, after the tables")
    print("\n".join(judge(differences=parser.parse_args(arguments).differences)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
