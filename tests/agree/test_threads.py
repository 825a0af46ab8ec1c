"""agree_*: what each thread got of a database that others edit, and an epoch recomputed.

Sees: answers that are of no epoch (rows of two, counts of a commit that is under way, values by
other codes), deltas of another thread's epoch, watchers that miss or hear twice, errors that are no
error's own class, and threads that wait for each other. Of a connection of SQL that is served: a
follower whose deltas do not lead where DuckDB is, or that is told nothing; what a statement sees of
its own transaction, and what is left of one that was rolled back, definitions included.
`bench.thread_fuzz` plays on for minutes.
"""

from __future__ import annotations

import pytest
from tests.support.sql_threads import SqlPlay
from tests.support.threads import Play


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


@pytest.mark.parametrize(("seed", "epochs", "is_kept"), [(1, 1000, False), (2, 4, True)])
def test_agree_followers_of_a_served_connection(
    warm_kernel, tmp_path, seed, epochs, is_kept
) -> None:
    path = tmp_path / "state" if is_kept else None
    play = SqlPlay(f"agree {seed}", commits=25, epochs=epochs, path=path)
    assert play.run() == []
    for what in ("judged", "deltas", "resumed", "COMMIT", "ROLLBACK", "posted", "page 200"):
        assert play.counts[what] > 3, what
