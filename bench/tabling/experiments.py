"""All experiments by all ways of running them, as records for a report.

Invariant: within one experiment, records over the same number of edits carry one answers hash; one
that does not says WRONG in its note. Slow ways get fewer edits; times are compared per edit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench.csources import SetupError, preprocessed
from bench.tabling import functional, parsing, swi
from bench.tabling.measure import Experiment, Record, run_kernel, run_strategy
from deltafix.errors import PrologError

__all__ = ["NAMES", "run_all", "table"]

REACHING = ("bzip2", "zlib", "less")
"""Packages whose first 60 functions, in the order of their files, are analysed."""
NAMES = (*(f"reaching-{name}" for name in REACHING), "pointers", "parsing", "functional")
STRATEGIES = ("local", "deletes_first", "inserts_first", "dred")


def _sources(cache: Path, package: str) -> list[tuple[str, Path]]:
    found = [(name, path) for name, path in preprocessed(cache) if name.startswith(f"{package}/")]
    if not found:
        raise SetupError(f"no preprocessed C of {package}")
    return found


def _reaching(package: str, cache: Path, quick: bool) -> Experiment:
    from bench.tabling import cflow, reaching

    texts = [path.read_text() for _, path in _sources(cache, package)]
    flow = cflow.flow_of(texts, 8 if quick else 60)
    return reaching.experiment(package, flow, 10 if quick else 250)


def _pointers(cache: Path, quick: bool) -> Experiment:
    from bench.tabling import pointers

    units = sorted(_sources(cache, "bzip2"), key=lambda unit: unit[1].stat().st_size)
    return pointers.experiment(units[: 7 if quick else 8], 3 if quick else 50)


def _parsing(cache: Path, quick: bool) -> Experiment:
    return parsing.experiment(500 if quick else 10_000, 10 if quick else 200)


def _functional(cache: Path, quick: bool) -> Experiment:
    return functional.experiment(64 if quick else 1024, 10 if quick else 200)


MAKERS: dict[str, Callable[[Path, bool], Experiment]] = {
    **{f"reaching-{name}": partial(_reaching, name) for name in REACHING},
    "pointers": _pointers, "parsing": _parsing, "functional": _functional,
}  # fmt: skip


def run_all(
    cache: Path, *, quick: bool = False, only: tuple[str, ...] = NAMES,
    ways: tuple[str, ...] = (*STRATEGIES, "kernel", "swipl"),
) -> Iterator[Record]:  # fmt: skip
    """Run experiments, one record per way, as they come.

    Raises:
        SetupError: the C sources cannot be had here.
    """
    for name in only:
        experiment = MAKERS[name](cache, quick)
        count = len(experiment.edits)
        seen: dict[int, str] = {}
        for way in ways:
            # DRed touches everything an edit reaches: a tenth of the edits says as much
            edits = max(2, count // 10) // 2 * 2 if way == "dred" else count
            record = _run(experiment, way, edits)
            if record is None:
                continue
            if record.answers and seen.setdefault(edits, record.answers) != record.answers:
                record.note = "WRONG: other answers than the first way"
            if name == "functional":
                record.note = record.note or f"adaptive: {functional.adaptive(experiment)} calls"
            yield record


def _run(experiment: Experiment, way: str, edits: int) -> Record | None:
    if way == "kernel":
        try:
            return run_kernel(experiment, edits)
        except PrologError:
            return None  # terms: the kernel route does not apply
    if way == "swipl":
        return swi.run_swi(experiment, edits) if swi.available() else None
    return run_strategy(experiment, way, edits)


def table(records: list[Record]) -> str:
    """The records as a Markdown table; times per edit in milliseconds."""
    lines = [
        "| experiment | size | how | scratch s | ms/edit | touched/edit | calls/edit | note |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for r in records:
        each = max(1, r.edits)
        touched = f"{r.touched / each:.1f}" if r.counters else ""
        calls = f"{r.counters['calls_visited'] / each:.1f}" if r.counters else ""
        lines.append(
            f"| {r.experiment} | {r.size} | {r.how} | {r.scratch_seconds:.2f} "
            f"| {1000 * r.update_seconds / each:.2f} | {touched} | {calls} | {r.note} |"
        )
    return "\n".join(lines)
