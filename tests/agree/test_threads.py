"""agree_*: what each thread got of a database that others edit, and an epoch recomputed.

Sees: answers that are of no epoch (rows of two, counts of a commit that is under way, values by
other codes), deltas of another thread's epoch, watchers that miss or hear twice, errors that are no
error's own class, and threads that wait for each other. `bench.thread_fuzz` plays on for minutes.
"""

from __future__ import annotations

import pytest
from tests.threads import Play


@pytest.mark.parametrize(
    ("seed", "writers", "large", "is_kept"),
    [
        (1, 1, False, False),
        (2, 2, False, False),
        (3, 2, False, True),
        (4, 2, False, False),
        (5, 2, True, False),
        (6, 2, True, True),
    ],
)
def test_agree_each_thread_sees_whole_epochs(tmp_path, seed, writers, large, is_kept) -> None:
    play = Play(
        f"agree {seed}",
        writers=writers,
        reads=40 if large else 100,
        commits=8 if large else 25,
        large=large,
        path=tmp_path / "state" if is_kept else None,
    )
    assert play.run() == []
    assert play.counts["reads judged"] >= 40
    assert play.counts["deltas judged"] > 5
    assert play.counts["deltas told"]
