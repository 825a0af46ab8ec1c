"""What the project set out to reach, as data: a figure, a bound, and how the figure is read.

Invariant: a goal never runs anything; it reads `Results`, and gives None where the run has no
figure for it. Goals are judged on full sizes only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.results import Results

__all__ = ["GOALS", "Goal"]

Reading = Callable[[Results], float | None]


@dataclass(frozen=True, slots=True)
class Goal:
    """`text` names the figure, `bound` is in `unit`; `at_least` says which side is good."""

    workload: str
    text: str
    bound: float
    unit: str
    read: Reading
    at_least: bool = False

    def met(self, value: float) -> bool:
        """Whether a value of this goal's figure reaches it."""
        return value >= self.bound if self.at_least else value <= self.bound


def _epoch(workload: str, q: float, scale: float) -> Reading:
    def read(results: Results) -> float | None:
        value = results.get(workload).at("deltafix", q)
        return None if value is None else value * scale

    return read


def _touched(workload: str) -> Reading:
    return lambda results: results.get(workload).touched_ratio("deltafix")


def _ratio(workload: str, peer: str, q: float) -> Reading:
    return lambda results: results.get(workload).ratio(peer, q)


def _load_ratio(workload: str, peer: str) -> Reading:
    return lambda results: results.get(workload).load_ratio(peer)


def _load(workload: str) -> Reading:
    return lambda results: results.get(workload).load("deltafix")


def _bytes(workload: str) -> Reading:
    return lambda results: results.get(workload).bytes_per_row("deltafix")


def _peak(workload: str) -> Reading:
    def read(results: Results) -> float | None:
        found = results.get(workload).outcome("deltafix")
        return None if found is None or found.peak_bytes is None else found.peak_bytes / 2**30

    return read


def _growth(results: Results) -> float | None:
    found = [results.get(f"growth-{n}").at("deltafix", 0.5) for n in ("10k", "100k", "1m", "10m")]
    known = [value for value in found if value is not None]
    return max(known) / min(known) if len(known) == len(found) else None


def _batch(label: str) -> Reading:
    def read(results: Results) -> float | None:
        batch = results.get("batch")
        mine = batch.label("deltafix-auto", label)
        again = batch.label("deltafix-recompute", label)
        return None if mine is None or again is None else mine / again

    return read


def _cold(key: str) -> Reading:
    return lambda results: results.cold.get(key)


GOALS = (
    Goal("reach-edit", "p50 of an edit", 10, "µs", _epoch("reach-edit", 0.5, 1e6)),
    Goal("reach-edit", "p99 of an edit", 40, "µs", _epoch("reach-edit", 0.99, 1e6)),
    Goal("reach-edit", "slowest edit", 1, "ms", _epoch("reach-edit", 1, 1e3)),
    Goal("reach-edit", "facts touched per fact changed", 1.2, "", _touched("reach-edit")),
    *(
        Goal(
            "reach-edit-small",
            f"faster than pathway at p{q * 100:.0f}",
            100,
            "x",
            _ratio("reach-edit-small", "pathway", q),
            at_least=True,
        )
        for q in (0.5, 0.99)
    ),
    *(
        Goal("tc-edit", f"faster than {peer} at p50", 10, "x", _ratio("tc-edit", peer, 0.5), True)
        for peer in ("swipl-incremental", "souffle-compiled")
    ),
    Goal("tc-edit", "facts touched per fact changed", 1.2, "", _touched("tc-edit")),
    Goal("tc-bulk-1m", "load", 0.3, "s", _load("tc-bulk-1m")),
    Goal("tc-bulk-10m", "load", 3, "s", _load("tc-bulk-10m")),
    *(
        Goal(name, "DuckDB's time over ours", 1, "x", _load_ratio(name, "duckdb"), at_least=True)
        for name in ("tc-bulk-1m", "tc-bulk-10m")
    ),
    Goal("tc-bulk-100m", "load", 40, "s", _load("tc-bulk-100m")),
    Goal("tc-bulk-100m", "peak memory", 5, "GiB", _peak("tc-bulk-100m")),
    Goal("tc-bulk-100m", "bytes a pair", 48, "B", _bytes("tc-bulk-100m")),
    Goal("galen", "load", 25, "s", _load("galen")),
    Goal("galen", "peak memory", 2, "GiB", _peak("galen")),
    Goal("galen", "p50 of an edit", 100, "µs", _epoch("galen", 0.5, 1e6)),
    Goal("points-to", "p99 of an edit", 100, "ms", _epoch("points-to", 0.99, 1e3)),
    Goal(
        "points-to",
        "faster than recomputation at p50",
        100,
        "x",
        _ratio("points-to", "deltafix-recompute", 0.5),
        at_least=True,
    ),
    Goal("growth", "p50 at 10k to 10M edges, largest over smallest", 2, "x", _growth),
    *(
        Goal("batch", f"{label} of the edges, against recomputation", 1.1, "x", _batch(label))
        for label in ("0.001 %", "0.1 %", "1 %", "10 %", "50 %")
    ),
    Goal("load", "5M edges with two indexes", 0.8, "s", _load("load")),
    Goal("cold", "import to first epoch, warm cache", 0.3, "s", _cold("warm")),
    Goal("cold", "the first ever, from a wheel", 1, "s", _cold("first, with a wheel's object")),
    Goal("cold", "the first ever, compiled there", 20, "s", _cold("compile")),
)
