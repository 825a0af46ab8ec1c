"""What an epoch of a pipeline did: one value, shown on a terminal and logged as a JSON line.

Invariant: the figures are counts and clocks read anyway; durations are of a clock that never goes
backwards, only `time` and `lag` are of the wall clock, and a lag is never negative.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True)
class Epoch:
    """One committed epoch.

    Attributes:
        epoch: its number.
        read: rows read, by input, bad ones included.
        given: rows of the inputs that came to hold and that ceased to.
        bad: rows that went to the quarantine, by input.
        out: rows added and removed, by output.
        touched: facts that the engine took up.
        seconds: by stage: `read`, `net` (on Spark's executors), `edit`, `engine`, `write`,
            `publish`.
        lag: seconds between the oldest change in it being written and its commit, if known.
        more: whether inputs have more to say right now.
        time: when it was committed, in seconds since 1970.
        batch: (query id, batch id) it belongs to, if it came from a Spark query.
        replayed: whether it had been committed before, and this is what it said then.
    """

    epoch: int
    read: Mapping[str, int] = field(default_factory=dict)
    given: tuple[int, int] = (0, 0)
    bad: Mapping[str, int] = field(default_factory=dict)
    out: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    touched: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    lag: float | None = None
    more: bool = False
    time: float = 0.0
    batch: tuple[str, int] | None = None
    replayed: bool = False

    def json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), separators=(", ", ": "))

    def show(self) -> str:
        """One line for people."""
        out = ", ".join(f"{name} +{new:,} -{old:,}" for name, (new, old) in self.out.items())
        parts = [
            f"in {sum(self.read.values()):,}",
            f"out {out or 'nothing'}",
            f"touched {self.touched:,}",
            " ".join(f"{stage} {value:.3f}" for stage, value in self.seconds.items()) + " s",
        ]
        if self.lag is not None:
            parts.append(f"lag {self.lag:.1f} s")
        if any(self.bad.values()):
            parts.append(f"quarantined {sum(self.bad.values()):,}")
        if self.more:
            parts.append("more waiting")
        return f"epoch {self.epoch}: " + " | ".join(parts)
