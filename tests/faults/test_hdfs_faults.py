"""What can happen to a state in HDFS: stops at requests, errors and late answers, a second writer.

The scripts are those of states in an object store; a subset of their stops, since each request goes
to a namenode: `make fuzz` makes more of them. Invariant asserted after every fault: nothing
acknowledged is lost, nothing is twice.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.faults.test_objects_faults import (
    drain,
    finish,
    go_on_behind_errors,
    newest_goes_on,
    on_store,
    run_script,
)
from tests.faults.test_pipeline_faults import prepare
from tests.faults.test_state_faults import check, commit, connect
from tests.servers.s3 import Stopped
from tests.support import pipelines
from tests.support.amount import cases

from deltafix.errors import StateInUseError
from deltafix.pipeline.config import read_config
from deltafix.store import hdfs as store_hdfs
from deltafix.store.folder import folder_at

STOPS, RUNS = cases(5, fuzz=60), cases(2, fuzz=30)
"""How often a state is stopped, and a pipeline."""


class Cut:
    """The process ends before the request of number `at` to HDFS, or behind it."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int, mode: str = "before") -> None:
        self.seen = 0
        real = store_hdfs._Namenode.send

        def send(namenode: Any, *args: Any, **options: Any) -> Any:
            number = self.seen
            self.seen += 1
            if number < at:
                return real(namenode, *args, **options)
            if number == at and mode == "behind":
                real(namenode, *args, **options)
            raise Stopped

        patch.setattr(store_hdfs._Namenode, "send", send)


def test_a_stop_at_any_request_leaves_the_last_epoch_or_the_one_at_work(hdfs, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        counter = Cut(patch, 1 << 60)
        run_script(hdfs.url(), [])
    rng = Random("state in HDFS")
    for number in range(STOPS):
        url = hdfs.url()
        acknowledged: list[int] = [-1]
        at = (number * counter.seen + rng.randrange(counter.seen)) // STOPS
        with monkeypatch.context() as patch:
            Cut(patch, at, ("before", "behind")[number % 2])
            with pytest.raises(Stopped):
                run_script(url, acknowledged)
        with connect(url) as db:
            assert db.epoch in (max(acknowledged[-1], 0), acknowledged[-1] + 1), at
            check(db, rules=True)
            commit(db, rules=True)
            check(db, rules=True)


def test_the_newest_opener_has_the_state_and_the_other_is_told(hdfs) -> None:
    url = hdfs.url()
    first = connect(url)
    commit(first)
    second = connect(url)
    with pytest.raises(StateInUseError, match=r"process \d+ on .* newest"):
        commit(first)
    commit(second)
    second.compact()
    with pytest.raises(StateInUseError):
        commit(first)
    first.close()
    second.close()
    with connect(url) as third:
        assert third.epoch == 2
        check(third)


@pytest.fixture(params=["driver", "shards"])
def keeper(request, monkeypatch) -> str:
    """Who keeps the rows; shards, whose folder is in HDFS too, run in this process."""
    monkeypatch.setattr(pipelines, "KEEPER", request.param)
    return request.param


def test_a_pipeline_that_is_stopped_at_any_request_loses_nothing(
    keeper, tmp_path, hdfs, monkeypatch
) -> None:
    job = on_store(prepare(tmp_path / "count"), hdfs.url())
    with monkeypatch.context() as patch:
        counter = Cut(patch, 1 << 60)
        drain(job)
    finish(job)
    kept = folder_at(read_config(job.toml).state)
    assert (kept / "shards").exists("manifest.json") == (keeper == "shards") != kept.exists("log")
    rng = Random("stops in HDFS")
    for number in range(RUNS):
        at = (number * counter.seen + rng.randrange(counter.seen)) // RUNS
        job = on_store(prepare(tmp_path / f"{number}"), hdfs.url())
        for place in (at, rng.randrange(40))[: 1 + number % 2]:
            with monkeypatch.context() as patch:
                Cut(patch, place, rng.choice(["before", "behind"]))
                with pytest.raises(Stopped):
                    drain(job)
        finish(job)


def test_a_pipeline_goes_on_behind_errors_of_the_namenode(keeper, tmp_path, hdfs) -> None:
    job = on_store(prepare(tmp_path / "job"), hdfs.url())
    go_on_behind_errors(job, hdfs, Random("errors in HDFS"), ["RENAME", "CREATE"], 0.1)


def test_of_two_pipelines_the_newest_goes_on(keeper, tmp_path, hdfs) -> None:
    newest_goes_on(on_store(prepare(tmp_path / "job"), hdfs.url()))
