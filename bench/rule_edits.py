"""Rules taken out and put back, one at a time, against building the database again.

    python -m bench.rule_edits [--folder src/deltafix/rules] [--galen]

Programs: access rights and dead code in Python (of this repository's own files), and with `--galen`
a slice of the ontology. Work is what `EpochReport` counts: derivations found and rows looked at;
*a rebuild* is the first epoch over the same rows. After every edit all relations are held against
those of the rebuild, and exit code 1 says that some differ. Prints Markdown. Not here: edits of
rows (`bench.workloads`).
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
from bench.workloads import GALEN, WORKLOADS
from deltafix.analyses.reading import read_fragments
from deltafix.analyses.registry import find_analysis
from deltafix.events import EpochReport
from deltafix.facts.source import read_input
from deltafix.rules.ast import Program
from deltafix.rules.show import show_rule

__all__ = ["main"]

ROOT = Path(__file__).parent.parent
_COLUMNS = {"p": 2, "q": 3, "c": 3, "r": 3, "s": 2, "u": 3}


class Case(NamedTuple):
    """A program, and the rows given to it."""

    name: str
    program: Program
    rows: Mapping[str, Any]


class Edit(NamedTuple):
    """One rule taken out, or put back: the epoch, and that of a rebuild."""

    epoch: EpochReport
    rebuild: EpochReport

    @property
    def share(self) -> float:
        """The edit's work for each unit of the rebuild's."""
        return _work(self.epoch) / max(_work(self.rebuild), 1)


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


def _galen() -> Case:
    found = WORKLOADS["galen"]("galen", True)
    columns = {n: ", ".join(f"c{i}: number" for i in range(width)) for n, width in _COLUMNS.items()}
    declared = "".join(f".decl {n}({said})\n.input {n}\n" for n, said in columns.items())
    return Case("galen (a slice)", deltafix.Program.parse(declared + GALEN), found.inputs)


def _loaded(program: Program, rows: Mapping[str, Any]) -> deltafix.Database:
    db = deltafix.connect(program)
    with db.transaction() as tx:
        for name, given in rows.items():
            tx.insert(name, given)
    return db


def _edits(case: Case) -> tuple[list[Edit], int]:
    """Every rule taken out and put back; how many rows were wrong."""
    edits, wrong = [], 0
    with _loaded(case.program, case.rows) as db:
        inline = {one.name for one in case.program.relations if "inline" in one.qualifiers}
        for rule in case.program.rules:
            if rule.is_fact or rule.heads[0].relation in inline:
                continue
            for adds in (False, True):
                with db.transaction() as tx:
                    (tx.add_rule if adds else tx.remove_rule)(show_rule(rule))
                report = db.last_epoch
                with _loaded(db.program, case.rows) as rebuilt:
                    edits.append(Edit(report, rebuilt.last_epoch))
                    for name in rebuilt.schemas:
                        wrong += len(set(db.rows(name)) ^ set(rebuilt.rows(name)))
    return edits, wrong


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
        seconds(median(one.epoch.seconds for one in edits)),
        seconds(median(one.rebuild.seconds for one in edits)),
    ]


def main() -> int:
    """Measure, print, and say by the exit code whether every row was right."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "src" / "deltafix" / "rules")
    parser.add_argument("--galen", action="store_true")
    given = parser.parse_args()
    began = time.perf_counter()
    cases = [_access(), _dead_code(given.folder), *([_galen()] if given.galen else [])]
    head = [
        "program", "edits", "with a stratum anew", "work of a rebuild: median", "most",
        "touched per changed", "edit", "rebuild",
    ]  # fmt: skip
    lines, differing = [], 0
    for case in cases:
        edits, wrong = _edits(case)
        lines.append(_row(case, edits))
        differing += wrong
    print(table(head, lines))
    print(f"\nLoad {os.getloadavg()[0]:.1f}; {seconds(time.perf_counter() - began)} in all.")
    if differing:
        print(f"{differing} rows differ from a rebuild's", file=sys.stderr)
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
