"""Figures of one run, and the sums the goals and the report ask of them.

Lives here: `Results` (workload to peer to `Outcome`), quantiles, and `disagreements`, which
compares answers. Invariant: a quantile is a measured value (nearest rank), never interpolated,
and is not given when the sample is too small to mean it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.outcome import Outcome

__all__ = ["Measured", "Results", "quantile"]


def quantile(values: list[float], q: float) -> float | None:
    """The value at nearest rank; None if fewer than 1 / (1 - q) values stand behind it."""
    if not values or (q > 0.5 and len(values) * (1 - q) < 1 - 1e-9):
        return None
    return sorted(values)[max(0, math.ceil(q * len(values)) - 1)]


def _short(data: Any) -> Any:
    """The same data, its floats with four digits: they are kept in the repository."""
    if isinstance(data, dict):
        return {key: _short(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_short(value) for value in data]
    return float(f"{data:.4g}") if isinstance(data, float) else data


@dataclass(slots=True)
class Measured:
    """A workload's description and what each peer did with it."""

    name: str
    what: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    given_rows: int = 0
    skipped: str | None = None
    peers: dict[str, Outcome] = field(default_factory=dict)

    def outcome(self, peer: str) -> Outcome | None:
        """The peer's outcome if it ran to some figure."""
        found = self.peers.get(peer)
        return None if found is None or found.skipped else found

    def load(self, peer: str) -> float | None:
        """Seconds to load and evaluate."""
        found = self.outcome(peer)
        return None if found is None else found.load_seconds

    def at(self, peer: str, q: float) -> float | None:
        """Quantile of seconds per epoch; q = 1 is the maximum."""
        found = self.outcome(peer)
        if found is None or not found.epochs:
            return None
        return max(found.epochs) if q == 1 else quantile(found.epochs, q)

    def label(self, peer: str, label: str) -> float | None:
        """Median seconds of the epochs with this label."""
        found = self.outcome(peer)
        if found is None:
            return None
        pairs = zip(found.timed, found.epochs, strict=True)
        return quantile([s for e, s in pairs if self.labels[e - 1] == label], 0.5)

    def touched_ratio(self, peer: str) -> float | None:
        """Facts touched per fact changed, over all epochs."""
        found = self.outcome(peer)
        if found is None or not sum(found.changed):
            return None
        return sum(found.touched) / sum(found.changed)

    def derived(self) -> int | None:
        """Rows of the asked relations after loading, as the first peer with an answer has it."""
        for found in self.peers.values():
            if found.answers.get("0"):
                return sum(int(count) for count, _ in found.answers["0"].values())
        return None

    def bytes_per_row(self, peer: str) -> float | None:
        """State after loading over given and derived rows."""
        found, derived = self.outcome(peer), self.derived()
        if found is None or not found.state_bytes or derived is None:
            return None
        return found.state_bytes / (derived + self.given_rows)

    def ratio(self, peer: str, q: float, base: str = "deltafix") -> float | None:
        """How many times slower than `base` a peer is at this quantile of an epoch."""
        mine, theirs = self.at(base, q), self.at(peer, q)
        return None if mine is None or theirs is None else theirs / mine

    def load_ratio(self, peer: str, base: str = "deltafix") -> float | None:
        """How many times slower than `base` a peer loads."""
        mine, theirs = self.load(base), self.load(peer)
        return None if not mine or theirs is None else theirs / mine

    def disagreements(self) -> list[str]:
        """Answers of one epoch that are not all equal, as sentences."""
        found = []
        epochs = dict.fromkeys(e for o in self.peers.values() for e in o.answers)
        for epoch in epochs:
            by_answer: dict[str, list[str]] = {}
            for peer, outcome in self.peers.items():
                if epoch in outcome.answers:
                    key = json.dumps(outcome.answers[epoch], sort_keys=True)
                    by_answer.setdefault(key, []).append(peer)
            if len(by_answer) > 1:
                sides = "; ".join(f"{', '.join(p)}: {a}" for a, p in by_answer.items())
                found.append(f"{self.name}, epoch {epoch}: {sides}")
        return found


@dataclass(slots=True)
class Results:
    """All measured workloads of a run, by name; `cold` figures; sections of other benches."""

    quick: bool = False
    machine: dict[str, str] = field(default_factory=dict)
    workloads: dict[str, Measured] = field(default_factory=dict)
    cold: dict[str, Any] = field(default_factory=dict)
    extras: dict[str, str] = field(default_factory=dict)
    when: dict[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Measured]:
        return iter(self.workloads.values())

    def get(self, name: str) -> Measured:
        """The workload's figures; an empty record if it was not run."""
        return self.workloads.get(name) or Measured(name)

    def save(self, path: Path) -> None:
        """Keep everything as JSON."""
        data = {
            "quick": self.quick,
            "machine": self.machine,
            "cold": self.cold,
            "extras": self.extras,
            "when": self.when,
            "workloads": {
                m.name: {
                    "what": m.what,
                    "facts": m.facts,
                    "labels": m.labels,
                    "given_rows": m.given_rows,
                    "skipped": m.skipped,
                    "peers": {n: o.to_json() for n, o in m.peers.items()},
                }
                for m in self
            },
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(_short(data), separators=(",", ":"), sort_keys=True)
        path.write_text(f"{text}\n")

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read what `save` wrote."""
        data = json.loads(path.read_text())
        whole = {key: data[key] for key in ("quick", "machine", "cold", "extras", "when")}
        found = cls(**whole)
        for name, kept in data["workloads"].items():
            peers = {n: Outcome(**o) for n, o in kept.pop("peers").items()}
            kept["labels"] = tuple(kept["labels"])
            found.workloads[name] = Measured(name, **kept, peers=peers)
        return found
