"""Rules taken out and put back, one at a time, against building the database again.

    python -m bench.rule_edits [--programs access,dead-code,points-to,galen] [--whole]

Programs: access rights, dead code in Python (of this repository's own files), points-to of C,
and a slice of the galen ontology; with `--whole` all of the last two (24 million rows, twice). Work
is what `EpochReport` counts: derivations found and rows looked at. *A rebuild* is connecting, and
the first epoch over the same rows: the larger of that with the rule and that without, as a rule
that goes takes its rows with it. Seconds are the processor's, planning included. After every edit
all relations are held against those of the rebuild, and exit code 1 says that some differ. Prints
Markdown. Not here: edits of rows (`bench.workloads`).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import deltafix
from bench.report import number, seconds, table
from bench.workloads import WORKLOADS, SetupError
from deltafix.analyses.reading import read_fragments
from deltafix.analyses.registry import find_analysis
from deltafix.events import EpochReport
from deltafix.facts.source import read_input
from deltafix.rules.ast import Program
from deltafix.rules.show import show_rule

__all__ = ["main"]

ROOT = Path(__file__).parent.parent


class Case(NamedTuple):
    """A program, and the rows given to it."""

    name: str
    program: Program
    rows: Mapping[str, Any]


class Edit(NamedTuple):
    """One rule taken out, or put back: the epoch, what it took, and what a rebuild takes."""

    epoch: EpochReport
    seconds: float
    rebuild: int
    rebuild_seconds: float

    @property
    def share(self) -> float:
        """The edit's work for each unit of a rebuild's."""
        return _work(self.epoch) / max(self.rebuild, 1)


def _work(report: EpochReport) -> int:
    return report.derivations + report.probed


def _access() -> Case:
    folder = ROOT / "examples" / "access-rights"
    program = deltafix.Program.from_file(folder / "program.dl")
    with deltafix.connect(program) as db:
        schemas = dict(db.schemas)
    rows = {
        one.relation: read_input(schemas[one.relation], one.parameters, folder / "facts", None)
        for one in program.directives
        if one.kind == "input"
    }
    return Case("access rights", program, rows)


def _dead_code(folder: Path) -> Case:
    analysis = find_analysis("dead-code")
    tree = analysis.tree(folder)
    fragments = read_fragments(tree, list(tree.scan().files), analysis.extract)
    rows: dict[str, set[Any]] = {}
    for relation, row in (*analysis.tables, *(f for one in fragments for f in one.facts)):
        rows.setdefault(relation, set()).add(row)
    program = analysis.load_program()
    return Case("dead code", program, {name: sorted(found) for name, found in rows.items()})


def _workload(name: str, whole: bool) -> Case:
    """A workload of `bench.run`, whose relations are declared by what is read and derived."""
    found = WORKLOADS[name](name, not whole)
    said = name if whole else f"{name} (a slice)"
    return Case(said, deltafix.Program.parse(found.ruleset.datalog()), found.inputs)


def _loaded(program: Program, rows: Mapping[str, Any]) -> deltafix.Database:
    db = deltafix.connect(program)
    with db.transaction() as tx:
        for name, given in rows.items():
            tx.insert(name, given)
    return db


def _edits(case: Case) -> tuple[list[Edit], int]:
    """Every rule taken out and put back; how many rows were wrong."""
    edits, wrong = [], 0
    clock = time.process_time
    begun = clock()
    with _loaded(case.program, case.rows) as db:
        before = (_work(db.last_epoch), clock() - begun)
        inline = {one.name for one in case.program.relations if "inline" in one.qualifiers}
        for rule in case.program.rules:
            if rule.is_fact or rule.heads[0].relation in inline:
                continue
            for adds in (False, True):
                begun = clock()
                with db.transaction() as tx:
                    (tx.add_rule if adds else tx.remove_rule)(show_rule(rule))
                report, done = db.last_epoch, clock()
                with _loaded(db.program, case.rows) as rebuilt:
                    now = (_work(rebuilt.last_epoch), clock() - done)
                    edits.append(Edit(report, done - begun, *map(max, now, before)))
                    before = now
                    wrong += sum(_differing(db, rebuilt, name) for name in rebuilt.schemas)
    return edits, wrong


def _differing(db: deltafix.Database, rebuilt: deltafix.Database, name: str) -> int:
    """How many rows of a relation only one of the two has. As columns: there may be millions."""
    one, two = (of.to_arrow(name) for of in (db, rebuilt))
    by = [(column, "ascending") for column in one.column_names]
    if not by:
        return abs(one.num_rows - two.num_rows)
    if one.sort_by(by).equals(two.sort_by(by)):
        return 0
    left, right = (set(zip(*of.to_pydict().values(), strict=True)) for of in (one, two))
    return len(left ^ right)


def _row(case: Case, edits: list[Edit]) -> list[str]:
    alone = [one for one in edits if not one.epoch.recomputed]
    touched = [one.epoch.touched / one.epoch.changed for one in alone if one.epoch.changed]
    return [
        case.name,
        number(len(edits)),
        f"{1 - len(alone) / len(edits):.0%}",
        f"{median(one.share for one in edits):.2%}",
        f"{max(one.share for one in edits):.0%}",
        f"{median(touched):.1f}" if touched else "–",
        seconds(median(one.seconds for one in edits)),
        seconds(max(one.seconds for one in edits)),
        seconds(median(one.rebuild_seconds for one in edits)),
        seconds(max(one.rebuild_seconds for one in edits)),
    ]


def main() -> int:
    """Measure, print, and say by the exit code whether every row was right."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "src" / "deltafix" / "rules")
    parser.add_argument("--programs", default="access,dead-code,points-to,galen")
    parser.add_argument("--whole", action="store_true")
    given = parser.parse_args()
    began = time.perf_counter()
    cases, left_out = [], []
    for name in given.programs.split(","):
        try:
            if name == "access":
                cases.append(_access())
            elif name == "dead-code":
                cases.append(_dead_code(given.folder))
            else:
                cases.append(_workload(name, given.whole))
        except SetupError as missing:
            left_out.append(f"{name}: {missing}")
    head = [
        "program", "edits", "with a stratum anew", "work of a rebuild: median", "most",
        "touched per changed", "edit: median", "most", "rebuild: median", "most",
    ]  # fmt: skip
    lines, differing = [], 0
    for case in cases:
        edits, wrong = _edits(case)
        lines.append(_row(case, edits))
        differing += wrong
    print(table(head, lines))
    print(f"\nLoad {os.getloadavg()[0]:.1f}; {seconds(time.perf_counter() - began)} in all.")
    for one in left_out:
        print(f"Left out, {one}.")
    if differing:
        print(f"{differing} rows differ from a rebuild's", file=sys.stderr)
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
