"""Single edits of real source trees under every analysis, as Markdown.

    python -m bench.analyses [--only call-graph lsp] [--edits 50] [--saves 100] [--quick]

Per analysis: the first run, then single-file edits from a fixed seed, each undone: milliseconds to
extract and to update, facts changed, rows touched, and what evaluating everything from scratch
takes. Then the language server: from a client's message to the diagnostics on the pipe, in a tree
of 1,000 files. Exits with 1 if an answer differs from that of a fresh run over the
same files.
"""

from __future__ import annotations

import argparse
import os
import sys

from bench.analyses.editor import show_saves, time_saves
from bench.analyses.measure import Figures, WrongAnswerError, measure, show
from bench.analyses.projects import NoProjectError, large_tree, project_of
from deltafix.analyses.registry import ANALYSES, find_analysis
from deltafix.errors import MissingDependencyError

__all__ = ["main"]

LSP = "lsp"


def main(arguments: list[str] | None = None) -> int:
    """Print the section; 1 if an answer is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.analyses")
    names = [*ANALYSES, LSP]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--edits", type=int, default=50, help="edits, each undone")
    parser.add_argument("--saves", type=int, default=100, help="saves of files in the editor")
    parser.add_argument("--quick", action="store_true", help="few edits, a small tree")
    args = parser.parse_args(arguments)
    edits, saves, files = (5, 6, 40) if args.quick else (args.edits, args.saves, 1_000)
    wrong: list[str] = []
    figures: list[Figures] = []
    skipped: list[str] = []
    load = os.getloadavg()[0]
    for name in args.only:
        if name == LSP:
            continue
        try:
            analysis = find_analysis(name)
            with project_of(analysis) as folder:
                found = measure(analysis, folder, edits=edits)
        except (MissingDependencyError, NoProjectError) as error:
            skipped.append(f"- {name}: skipped: {error}")
        except WrongAnswerError as error:
            wrong.append(f"{name}: {error}")
        else:
            figures.append(found)
            print(f"{name}: done", file=sys.stderr, flush=True)
    print(f"Load when it began: {load:.1f} on {os.cpu_count()} cores.\n")
    print("\n".join([*show(figures), *skipped]))
    if LSP in args.only:
        with large_tree(files) as tree:
            print("\n" + "\n".join(show_saves(time_saves(tree, saves))))
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
