"""Dead code in packages of the registry, held against verdicts given by hand, beside vulture.

    python -m bench.dead_code [--folder FOLDER] [PACKAGE ...]

Each package's source distribution is fetched through pip at the version its verdicts name and
unpacked (into FOLDER, where it stays, or a folder of its own that goes); nothing in it is run
but its build backend, by pip. Both tools look at the whole distribution with default options. The
verdicts are of findings of deltafix, at some stage of its rules: their precision is deltafix's, and
of vulture they say how it does on the same symbols. Those from the fifteenth sample on are of
findings that were sure. Not here: how the verdicts were found, and a judgement of what only vulture
reports.
"""

from __future__ import annotations

import argparse
import csv
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from bench.report import table
from deltafix.analyses.dead_code import DEAD_CODE
from deltafix.analyses.dead_code.findings import short_name
from deltafix.analyses.dead_code.job import DeadCode
from deltafix.analyses.watch import Watcher

__all__ = [
    "PACKAGES",
    "VERDICTS",
    "Answer",
    "Verdict",
    "main",
    "precision",
    "read_verdicts",
    "vulture_found",
]

VERDICTS = Path(__file__).parent.parent / "tests" / "fixtures" / "dead_code" / "verdicts.csv"
_VULTURE = re.compile(r"(?P<path>.+?):\d+: unused \w+ '(?P<name>\w+)'")


class Verdict(NamedTuple):
    """What somebody who read the package says of one symbol."""

    package: str
    version: str
    symbol: str
    verdict: str  # "dead" or "alive"
    sample: str  # "first"; "rest": what the mended rules found beside it; "second" and so on
    reason: str


def read_verdicts(path: Path = VERDICTS) -> list[Verdict]:
    """All verdicts, in the order of the file."""
    with path.open(newline="", encoding="utf-8") as rows:
        return [Verdict(**row) for row in csv.DictReader(rows)]


PACKAGES: Mapping[str, str] = {one.package: one.version for one in read_verdicts()}
"""Package to version."""


class Answer(NamedTuple):
    """What both tools say of one package."""

    findings: int  # what deltafix shows: outermost ones
    dead: frozenset[str]
    sure: frozenset[str]  # those of them that are
    places: Mapping[str, tuple[str, str]]  # symbol -> path and short name
    vulture: Sequence[tuple[str, str]]  # path and name

    def vulture_names(self, symbol: str) -> bool:
        """Whether vulture reports a name like that of `symbol` in its file."""
        return self.places.get(symbol) in self.vulture


def fetch(package: str, folder: Path) -> Path:
    """The unpacked source distribution."""
    version = PACKAGES[package]
    home = folder / f"{package}-{version}"
    if not home.exists():
        with tempfile.TemporaryDirectory() as name:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", name]
            subprocess.run([*pip, "--no-binary", package, f"{package}=={version}"], check=True)
            with tarfile.open(next(Path(name).glob("*.tar.gz"))) as archive:
                archive.extractall(folder, filter="data")
    return home


def ask(home: Path) -> Answer:
    """Both tools, with default options, on one folder."""
    with DeadCode(confidence="likely") as job:
        Watcher(DEAD_CODE.tree(home), job, DEAD_CODE.extract).poll()
        places = {
            place.symbol: (path, short_name(place.symbol))
            for path in job.paths
            for place in job.places(path)
        }
        findings = job.dead()
    told = subprocess.run(
        [sys.executable, "-m", "vulture", "."],
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )  # its exit code says that it found something
    return Answer(
        findings=sum(one.inside is None for one in findings),
        dead=frozenset(one.symbol for one in findings),
        sure=frozenset(one.symbol for one in findings if one.confidence == "sure"),
        places=places,
        vulture=vulture_found(told.stdout),
    )


def vulture_found(printed: str) -> list[tuple[str, str]]:
    """Path and name of what vulture reports, but for imports, which have no verdicts."""
    matches = (_VULTURE.match(line) for line in printed.splitlines() if "unused import" not in line)
    return [(one["path"].removeprefix("./"), one["name"]) for one in matches if one]


def precision(judged: Sequence[Verdict]) -> str:
    """The share of true findings among those reported, with the counts."""
    true = sum(one.verdict == "dead" for one in judged)
    return f"{true} of {len(judged)}, {true / len(judged):.1%}" if judged else "–"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.dead_code", description=__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="instead of all")
    parser.add_argument("--folder", type=Path, help="where packages are unpacked and stay")
    options = parser.parse_args(arguments)
    verdicts = read_verdicts()
    if find_spec("vulture") is None:
        parser.error("vulture is not installed: pip install vulture==2.16")
    with tempfile.TemporaryDirectory(prefix="deltafix-bench-") as name:
        folder = options.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        names = options.packages or list(PACKAGES)
        answers = {name: ask(fetch(name, folder)) for name in names}
    verdicts = [one for one in verdicts if one.package in answers]
    ours = [one for one in verdicts if one.symbol in answers[one.package].dead]
    sure = [one for one in ours if one.symbol in answers[one.package].sure]
    theirs = [one for one in verdicts if answers[one.package].vulture_names(one.symbol)]
    rows = []
    for sample in sorted({one.sample for one in verdicts}):
        parts = [
            [one for one in some if one.sample == sample] for some in (verdicts, sure, ours, theirs)
        ]
        dead = sum(one.verdict == "dead" for one in parts[0])
        found = [sum(one.verdict == "dead" for one in part) for part in parts[1:3]]
        recalls = [f"{count} of {dead}" for count in found]
        rows.append([sample, str(len(parts[0])), *map(precision, parts[1:]), *recalls])
    head = ["sample", "verdicts", "true of those sure", "true of all", "true of vulture's"]
    head += ["dead ones that are sure", "dead ones found"]
    print(table(head, rows))
    rows = []
    for package, answer in answers.items():
        counts = [
            str(len([one for one in some if one.package == package and one.verdict == verdict]))
            for some, verdict in (
                (ours, "dead"),
                (ours, "alive"),
                (theirs, "dead"),
                (theirs, "alive"),
            )
        ]
        rows.append(
            [
                f"{package} {PACKAGES[package]}",
                str(answer.findings),
                str(len(answer.vulture)),
                *counts,
            ]
        )
    head = ["package", "deltafix reports", "vulture reports", "true", "false"]
    print(table([*head, "vulture true", "vulture false"], rows))
    for one in ours:
        if one.verdict == "alive":
            print(f"false: {one.package} {one.symbol}: {one.reason}")
    missed = [one for one in verdicts if one.verdict == "dead" and one not in ours]
    for one in missed:
        print(f"not found: {one.package} {one.symbol}: {one.reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
