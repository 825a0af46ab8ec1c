"""A workload as data, and its place in the cache.

Lives here: `Workload` (rules, given rows, an edit script, what to measure) and its files. Files
are raw little-endian int64, row after row, so that a peer in any language reads them with one
call: `<relation>.i64`, and `edits.i64` with rows `epoch, sign, relation, c0, c1, …` (relations
numbered in the order of `RuleSet.inputs`, columns padded with 0). Invariant: `load(save(w))`
equals `w`. Not here: how rows are made (`graphs`, `points_to`, `workloads`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from bench.graphs import Ints
from bench.program import RuleSet, read_rules

__all__ = ["Edit", "Workload", "answer", "cache_folder", "load", "row_hash", "save"]

Edit = tuple[int, str, tuple[int, ...]]
"""(sign, relation, row); sign is +1 or -1."""

FORMAT = 3  # raise it when a generator or the file layout changes: cached workloads are remade


@dataclass(frozen=True, slots=True)
class Workload:
    """Rules, given rows and an edit script.

    Attributes:
        name: as given to `--only`.
        what: one sentence for the report.
        kind: the family of rules (`reach`, `tc`, `galen`, `points-to`): peers that need a
            program of their own look at it.
        rules: the rules as text; `ruleset` is the same, read.
        inputs: relation to rows, int64 (n, arity).
        outputs: relations whose counts and hashes every peer must agree on.
        edits: int64 (m, 3 + widest arity): epoch from 1, sign, relation number, columns.
        labels: a name per epoch; epochs of one name are summarised together (empty: one group).
        samples: epochs at which peers that recompute do so (always the last one).
        facts: anything worth printing about the data.
    """

    name: str
    what: str
    kind: str
    rules: str
    inputs: dict[str, Ints]
    outputs: tuple[str, ...]
    edits: Ints
    labels: tuple[str, ...] = ()
    samples: tuple[int, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def ruleset(self) -> RuleSet:
        """The rules, read. Parsed at each call: the texts are a few lines."""
        return read_rules(self.rules, tuple(self.inputs), self.outputs)

    @property
    def epochs(self) -> int:
        """Number of epochs after loading."""
        return int(self.edits[-1, 0]) if len(self.edits) else 0

    def script(self) -> Iterator[dict[str, tuple[Ints, Ints]]]:
        """Per epoch: relation to (deleted rows, inserted rows), each int64 (n, arity)."""
        names = tuple(self.inputs)
        bounds = np.searchsorted(self.edits[:, 0], np.arange(1, self.epochs + 2))
        for start, stop in pairwise(bounds.tolist()):
            block = self.edits[start:stop]
            changed: dict[str, tuple[Ints, Ints]] = {}
            for number in np.unique(block[:, 2]).tolist():
                name = names[number]
                rows = block[block[:, 2] == number]
                columns = rows[:, 3 : 3 + self.inputs[name].shape[1]]
                changed[name] = (columns[rows[:, 1] < 0], columns[rows[:, 1] > 0])
            yield changed


def cache_folder() -> Path:
    """Where the bench keeps what it makes: `$DELTAFIX_BENCH_CACHE` or `~/.cache/deltafix-bench`."""
    home = os.environ.get("DELTAFIX_BENCH_CACHE")
    return Path(home) if home else Path.home() / ".cache" / "deltafix-bench"


def save(workload: Workload, folder: Path) -> None:
    """Write the workload's files; `meta.json` last, so its presence means the rest is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in workload.inputs.items():
        rows.astype("<i8").tofile(folder / f"{name}.i64")
    workload.edits.astype("<i8").tofile(folder / "edits.i64")
    meta = {
        "format": FORMAT,
        "name": workload.name,
        "what": workload.what,
        "kind": workload.kind,
        "rules": workload.rules,
        "arity": {name: int(rows.shape[1]) for name, rows in workload.inputs.items()},
        "outputs": workload.outputs,
        "edit_width": int(workload.edits.shape[1]),
        "labels": workload.labels,
        "samples": workload.samples,
        "facts": workload.facts,
    }
    (folder / "meta.json").write_text(json.dumps(meta, indent=1))


def load(folder: Path) -> Workload | None:
    """Read a saved workload; None if there is none of this format."""
    if not (folder / "meta.json").is_file():
        return None
    meta = json.loads((folder / "meta.json").read_text())
    if meta["format"] != FORMAT:
        return None

    def rows(name: str, width: int) -> Ints:
        return np.fromfile(folder / f"{name}.i64", "<i8").reshape(-1, width)

    return Workload(
        name=meta["name"],
        what=meta["what"],
        kind=meta["kind"],
        rules=meta["rules"],
        inputs={name: rows(name, arity) for name, arity in meta["arity"].items()},
        outputs=tuple(meta["outputs"]),
        edits=rows("edits", meta["edit_width"]),
        labels=tuple(meta["labels"]),
        samples=tuple(meta["samples"]),
        facts=meta["facts"],
    )


_MASK = np.uint64(0xFFFFFFFFFFFFFFFF)


def row_hash(rows: Ints) -> int:
    """A hash of a set of rows that does not depend on their order: splitmix64 per row, summed.

    Per row: h = 0; for each column c: h = mix(h + c + 0x9E3779B97F4A7C15), all modulo 2^64.
    """
    with np.errstate(over="ignore"):
        h = np.zeros(len(rows), np.uint64)
        for column in range(rows.shape[1]):
            h = h + rows[:, column].astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
            h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            h = h ^ (h >> np.uint64(31))
        return int(h.sum(dtype=np.uint64) & _MASK)


def answer(rows: Ints) -> tuple[int, str]:
    """(count, hash as hex) of distinct rows."""
    return len(rows), f"{row_hash(rows):016x}"
