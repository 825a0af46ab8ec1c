"""Of attempts at an epoch that set rows aside, the last one counts, whatever the others left."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltafix.pipeline.quarantine import Quarantine
from deltafix.pipeline.signed import Bad


@pytest.mark.parametrize("inputs", [(), ("a",), ("b",)])
@pytest.mark.parametrize(
    ("first", "second"),
    [("", ""), ("1-1", "1-2"), ("1-2", "1-10"), ("1-9", "2-1"), ("9-1", "10-1")],
)
def test_of_attempts_at_an_epoch_the_last_counts(
    tmp_path: Path, first: str, second: str, inputs: tuple[str, ...]
) -> None:
    kept = Quarantine(tmp_path)
    kept.write(4, {"a": [Bad("sign", "a", 0)]}, first)
    kept.write(5, {"a": [Bad("sign", "a", 1)], "c": [Bad("sign", "c", 1)]}, first)
    left = {path: path.read_bytes() for path in tmp_path.glob("*-000000000005*")}
    assert len(left) == 2
    if first.partition("-")[0] != second.partition("-")[0]:
        kept = Quarantine(tmp_path)
        kept.tidy(4, first)
    kept.write(5, {name: [Bad("sign", name, 2), Bad("sign", name, 3)] for name in inputs}, second)
    if second:  # the store does late what it answered with an error
        for path, data in left.items():
            path.write_bytes(data)
    found = {name: [row["row"] for row in kept.rows(name, 5)] for name in "abc"}
    assert found == {name: [2, 3] if name in inputs else [] for name in "abc"}
    assert kept.counts() == {"a": 1 + 2 * ("a" in inputs)} | {
        name: 2 for name in inputs if name != "a"
    }
    kept.tidy(4, first)
    assert kept.counts() == {"a": 1}


def test_the_attempt_that_was_committed_counts_whatever_was_tried_after_it(tmp_path: Path) -> None:
    """A commit that the store did late, and a process that ended before it was settled."""
    kept = Quarantine(tmp_path)
    kept.write(5, {"a": [Bad("sign", "a", 1)]}, "1-1")
    kept.write(5, {"b": [Bad("sign", "b", 2)]}, "1-2")
    assert kept.counts() == {"b": 1}
    Quarantine(tmp_path).tidy(5, "1-1")
    assert kept.counts() == {"a": 1}
