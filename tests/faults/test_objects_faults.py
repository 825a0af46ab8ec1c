"""What can happen to a state in an object store: stops, errors, late answers, a second writer.

The script is that of `test_state_faults`: epoch `n` applies `edits(n)`. Invariant asserted after
every fault: the state opened again is that of the last acknowledged epoch or of the one at work,
and of two writers one is told; what was acknowledged to either is there.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from random import Random
from typing import Any

import pytest
from tests.faults.test_pipeline_faults import prepare
from tests.faults.test_state_faults import COMPACT_AFTER, EPOCHS, check, commit, connect, edits
from tests.servers.s3 import Cut, Server, Stopped
from tests.support import pipelines
from tests.support.amount import cases
from tests.support.pipelines import Job
from tests.targets.job import job_at, replayed

import deltafix
from deltafix.engine.state import objects as state_objects
from deltafix.errors import DeltafixError, StateError, StateInUseError
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.pipeline.config import read_config
from deltafix.pipeline.replay import replay
from deltafix.pipeline.runner import Pipeline
from deltafix.pipeline.status import status
from deltafix.spark.shards import resident
from deltafix.spark.shards.past import around
from deltafix.store import objects
from deltafix.store.folder import folder_at

KILLS, ATTEMPTS = cases(6, fuzz=60), cases(30, fuzz=60)
"""How often a pipeline is stopped, and how often one is to go on beside a server that fails."""


def run_script(url: str, acknowledged: list[int]) -> None:
    """Open, commit every epoch, edits of rules among them, compact once, close."""
    with connect(url) as db:
        acknowledged.append(0)
        while db.epoch < EPOCHS:
            commit(db, rules=True)
            acknowledged.append(db.epoch)
            if db.epoch == COMPACT_AFTER:
                db.compact()


@pytest.fixture(params=["inline", "objects"])
def records(request, monkeypatch) -> None:
    """Records in the log itself, or each in an object of its own."""
    monkeypatch.setattr(state_objects, "INLINE", {"inline": 1 << 18, "objects": 400}[request.param])


def steps_of_the_script(store: Server, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    with monkeypatch.context() as patch:
        counter = Cut(1 << 60)
        patch.setattr(objects, "obstore", counter)
        run_script(store.url(), [])
    return counter.seen


def test_a_small_epoch_is_one_request(store, monkeypatch) -> None:
    counter = Cut(1 << 60)
    with connect(store.url()) as db:
        monkeypatch.setattr(objects, "obstore", counter)
        for number in range(1, 4):
            commit(db)
            assert counter.seen == ["put"] * number


def test_a_state_opens_with_what_was_committed(store, records) -> None:
    url = store.url()
    run_script(url, [])
    with connect(url) as db:
        assert (db.epoch, db.recovered, db.name) == (EPOCHS, (), db.name)
        check(db, rules=True)
        with db.transaction() as tx:
            tx.mark("read", {"file": 7})
    with connect(url) as db:
        assert dict(db.marks) == {"read": {"file": 7}}


@pytest.mark.parametrize("mode", ["before", "behind"])
def test_a_stop_at_any_request_leaves_the_last_epoch_or_the_one_at_work(
    mode, store, records, monkeypatch
) -> None:
    steps = steps_of_the_script(store, monkeypatch)
    for at in range(0, len(steps), 7 if JIT_DISABLED else 1):
        url = store.url()
        acknowledged: list[int] = [-1]
        with monkeypatch.context() as patch:
            patch.setattr(objects, "obstore", Cut(at, mode))
            with pytest.raises(Stopped):
                run_script(url, acknowledged)
        with connect(url) as db:
            assert db.epoch in (max(acknowledged[-1], 0), acknowledged[-1] + 1), (at, steps[at])
            check(db, rules=True)
            commit(db, rules=True)
            check(db, rules=True)
            left = [name for name in db._state._folder.names() if name != "log"]
            content = db._state._log.content
            db._state._sweep()
            assert set(left) >= {content.snapshot, *content.records}


@pytest.mark.parametrize("what", ["not", "done", "late"])
def test_an_error_at_any_put_rolls_back_and_the_database_goes_on(
    what, store, records, monkeypatch
) -> None:
    monkeypatch.setattr(objects, "RETRIES", 0)
    for many in (1, 2):  # one request, or the one that takes it back too
        url = store.url()
        with connect(url) as db:
            while db.epoch < EPOCHS:
                before = db.epoch
                count = itertools.count()
                store.fault = lambda method, path, count=count, many=many: (
                    what if method == "PUT" and next(count) < many else ""
                )
                with pytest.raises(StateError, match="500"):
                    commit(db)
                store.fault = lambda method, path: ""
                assert db.epoch == before
                check(db)
                if before % 2:
                    store.settle()
                commit(db)
                check(db)
                store.settle()
        with connect(url) as db:
            assert db.epoch == EPOCHS
            check(db)


def test_the_newest_opener_has_the_state_and_the_other_is_told(store, records) -> None:
    url = store.url()
    first = connect(url)
    commit(first)
    second = connect(url)
    with pytest.raises(StateInUseError, match=r"process \d+ on .* newest"):
        commit(first)
    assert first.epoch == 1
    check(first)
    commit(second)
    # What it would have written for the same epoch is gone with a compaction, and still no hole.
    second.compact()
    for _ in range(2):
        with pytest.raises(StateInUseError):
            commit(first)
    with pytest.raises(StateError):
        first.compact()
    commit(second)
    assert second.epoch == 3
    check(second)
    first.close()
    second.close()
    with connect(url) as third:
        assert third.epoch == 3
        check(third)


def test_writers_that_race_for_the_state_lose_nothing_acknowledged(store) -> None:
    url = store.url()
    acknowledged: list[int] = []
    fenced: list[StateInUseError] = []
    edits(40)  # the script's rows are made by one thread
    met = threading.Barrier(3)

    def write(seed: int) -> None:
        rng = Random(seed)
        for turn in range(3):
            try:
                with connect(url) as db:
                    if not turn:
                        met.wait(60)
                    for _ in range(rng.randrange(1, 5)):
                        commit(db)
                        acknowledged.append(db.epoch)
            except StateInUseError as error:
                fenced.append(error)

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fenced) >= 2, "those that opened first are fenced off"
    assert len(set(acknowledged)) == len(acknowledged), "two were told of the same epoch"
    with connect(url) as db:
        assert db.epoch == max(acknowledged) == len(acknowledged)
        check(db)


def test_what_is_not_a_state_or_damaged_is_refused(store) -> None:
    url = store.url()
    run_script(url, [])
    with connect(url) as db:
        folder, snapshot = db._state._folder, db._state._log.content.snapshot
    data, whole = folder.read("log"), folder.read(snapshot)
    for place in (3, 20, len(data) // 2, len(data) - 1):
        flipped = bytearray(data)
        flipped[place] ^= 4
        folder.write("log", [bytes(flipped)])
        with pytest.raises(StateError, match=r"damaged|format|not a log"):
            connect(url)
    folder.write("log", [data])
    folder.write(snapshot, [whole[:-3]])
    with pytest.raises(StateError, match="damaged"):
        connect(url)
    folder.remove(snapshot)
    with pytest.raises(StateError, match="gone"):
        connect(url)
    other = store.url()
    folder_at(other).write("letter.txt", [b"hello"])
    with pytest.raises(StateError, match="holds other files and no state"):
        connect(other)
    with pytest.raises(StateError, match="another program"):
        folder.write(snapshot, [whole])
        deltafix.connect(".decl edge(x: symbol)\n.input edge", url)


# --- pipelines -----------------------------------------------------------------------------------


@pytest.fixture(params=["driver", "shards"])
def keeper(request, monkeypatch) -> str:
    """Who keeps the rows; shards, whose folder is in the store too, run in this process."""
    monkeypatch.setattr(pipelines, "KEEPER", request.param)
    return request.param


def on_store(job: Job, url: str) -> Job:
    """The job with its state and its outputs in the store."""
    text = job.toml.read_text().replace('state = "state"', f'state = "{url}/state"')
    for name in ("can", "stands"):
        text = text.replace(f'path = "out/{name}"', f'path = "{url}/{name}"')
    job.toml.write_text(text)
    job.places = {name: f"{url}/{name}" for name in job.places}
    return job


def drain(job: Job) -> None:
    with job.open() as pipeline:
        for epoch in pipeline.drain():
            if epoch.epoch == 3:
                pipeline.compact()


def finish(job: Job) -> None:
    drain(job)
    with job.open() as pipeline:
        assert list(pipeline.drain()) == []
        job.check(pipeline)
        assert pipeline.maintainer.quarantine.counts() == {"grant": 3}
        lines = [json.loads(one)["epoch"] for one in pipeline.maintainer.journal._lines.backwards()]
        assert lines == [*range(pipeline.maintainer.epoch, 0, -1)]


def newest_goes_on(job: Job) -> None:
    """Whoever opened the job's pipeline first is told, and the other's answer is right."""
    first: Pipeline = job.open()
    first.step()
    second = job.open()
    second.step()
    second.compact()
    for _ in ("a worker that holds shards", "that reads them, where their files were removed"):
        with pytest.raises(StateInUseError):
            first.step()
        resident.forget(f"{read_config(job.toml).state}/shards")
    first.close()
    second.close()
    finish(job)


def go_on_behind_errors(
    job: Job, server: Any, rng: Random, kinds: Sequence[str], share: float
) -> None:
    """A job whose server fails, or is late with, a share of the requests of some kinds."""
    failed = 0
    for _ in range(200):
        server.fault = lambda kind, path: (
            rng.choice(["not", "done", "late"]) if kind in kinds and rng.random() < share else ""
        )
        try:
            with job.open() as pipeline:
                while pipeline.step() is not None:
                    if rng.random() < 0.3:
                        server.settle()
            break
        except DeltafixError as error:
            assert "500" in str(error)
            failed += 1
    server.fault = lambda kind, path: ""
    server.settle()
    assert failed > 3
    finish(job)


def test_a_pipeline_that_is_stopped_at_any_request_loses_nothing(
    keeper, tmp_path, store, monkeypatch
) -> None:
    counter = Cut(1 << 60)
    job = on_store(prepare(tmp_path / "count"), store.url())
    with monkeypatch.context() as patch:
        patch.setattr(objects, "obstore", counter)
        drain(job)
    finish(job)
    kept = folder_at(read_config(job.toml).state)
    assert (kept / "shards").exists("manifest.json") == (keeper == "shards") != kept.exists("log")
    rng = Random("stops")
    kills = 3 if JIT_DISABLED else KILLS
    for number in range(kills):
        at = (number * len(counter.seen)) // kills + rng.randrange(len(counter.seen) // kills)
        job = on_store(prepare(tmp_path / f"{number}"), store.url())
        for place in (at, rng.randrange(20))[: 1 + number % 2]:
            with monkeypatch.context() as patch:
                patch.setattr(objects, "obstore", Cut(place, rng.choice(["before", "behind"])))
                with pytest.raises(Stopped):
                    drain(job)
        finish(job)


def test_a_pipeline_goes_on_behind_errors_of_the_store(
    keeper, tmp_path, store, monkeypatch
) -> None:
    monkeypatch.setattr(objects, "RETRIES", 0)
    job = on_store(prepare(tmp_path / "job"), store.url())
    go_on_behind_errors(job, store, Random("errors"), ["PUT"], 0.2)


def test_an_attempt_that_failed_writes_over_nothing_of_the_next(
    keeper, tmp_path, store, monkeypatch
) -> None:
    """With each attempt there is more to say, by one writer or another; late puts come between."""
    monkeypatch.setattr(objects, "RETRIES", 0)
    job = on_store(Job(tmp_path / "job", pipeline='bad_rows = "quarantine"'), store.url())
    rng = Random("attempts")
    bad: list[int] = []
    failed = 0
    with ExitStack() as stack:
        pipeline = stack.enter_context(job.open())
        for number in range(ATTEMPTS):
            job.say("member", ("+", (f"{number}", rng.choice("abcd"))))
            job.say("grant", ("+", (rng.choice("abcd"), number)))
            if rng.random() < 0.5:
                job.write("grant", [("?", ("a", number))])
                bad.append(number)
            store.fault = lambda method, path: (
                rng.choice(["not", "done", "late"] if method == "PUT" else ["not"])
                if rng.random() < (0.2 if method == "PUT" else 0.05)
                else ""
            )
            try:
                pipeline.step()
            except DeltafixError as error:
                assert "500" in str(error)
                failed += 1
            store.fault = lambda method, path: ""
            if rng.random() < 0.2:
                pipeline.close()
                pipeline = stack.enter_context(job.open())
            if rng.random() < 0.3:
                store.settle()
        list(pipeline.drain())
        store.settle()
        assert failed > ATTEMPTS // 10
        job.check(pipeline)
        aside = pipeline.maintainer.quarantine.rows("grant")
        assert sorted(int(one["row"]["doc"]) for one in aside) == bad


def test_of_two_pipelines_the_newest_goes_on(keeper, tmp_path, store) -> None:
    newest_goes_on(on_store(prepare(tmp_path / "job"), store.url()))


def test_a_state_in_the_store_stays_with_who_keeps_it_and_is_told_of(
    tmp_path, store, monkeypatch
) -> None:
    jobs = {}
    for keeper in ("driver", "shards"):
        monkeypatch.setattr(pipelines, "KEEPER", keeper)
        jobs[keeper] = job = on_store(Job(tmp_path / keeper), store.url())
        job.say("member", ("+", ("ada", "core")))
        job.say("grant", ("+", ("core", 1)))
        job.run()
    with pytest.raises(StateError, match="begun with the other executor"):
        jobs["driver"].open()
    config = read_config(jobs["shards"].toml)
    assert replay(config, 1, around=around).agrees
    assert any("shards: asked for" in line for line in status(config))
    monkeypatch.setattr(pipelines, "KEEPER", "auto")
    for keeper, job in jobs.items():
        job.say("member", ("+", ("eve", "core")))
        with job.open() as pipeline:
            list(pipeline.drain())
            job.check(pipeline)
            assert pipeline.maintainer.keeper.why.startswith(keeper)
    monkeypatch.setattr(pipelines, "KEEPER", "driver")
    with pytest.raises(StateError, match="is kept in shards, and rows do not come back"):
        jobs["shards"].open()


@pytest.mark.parametrize("first", ["driver", "shards"])
def test_of_two_keepers_that_begin_a_state_at_once_one_has_it(
    first, tmp_path, store, monkeypatch
) -> None:
    second = "shards" if first == "driver" else "driver"
    opened: list[Pipeline] = []
    refused: list[StateError] = []

    def begin(keeper: str, job: Job) -> None:
        monkeypatch.setattr(pipelines, "KEEPER", keeper)
        try:
            opened.append(job.open())
        except StateError as error:
            refused.append(error)

    asked = 0
    for at in itertools.count(1):
        job = on_store(prepare(tmp_path / str(at)), store.url())
        asked = 0

        def meanwhile(method: str, path: str, at: int = at, job: Job = job) -> str:
            nonlocal asked
            asked += 1
            if asked == at:
                store.fault = lambda method, path: ""
                begin(second, job)
            return ""

        store.fault = meanwhile
        begin(first, job)
        store.fault = lambda method, path: ""
        if asked < at:  # the first was there before the second began
            break
        assert len(refused) == 1, at
        winner = opened.pop()
        winner.close()
        assert opened == []
        begin(winner.maintainer.keeper.why.partition(":")[0], job)
        opened.pop().close()
        refused.clear()
    opened.pop().close()
    assert at > 5


def test_an_epoch_of_a_pipeline_is_few_requests(tmp_path, store, monkeypatch) -> None:
    job = on_store(Job(tmp_path / "job"), store.url())
    job.say("member", ("+", ("ada", "core")))
    with job.open() as pipeline:
        list(pipeline.drain())
        job.say("grant", ("+", ("core", 1)))
        counter = Cut(1 << 60)
        with monkeypatch.context() as patch:
            patch.setattr(objects, "obstore", counter)
            assert pipeline.step() is not None
        # The record; rows of `can`; two manifests; the journal's line, read and put.
        assert counter.seen == ["put"] * 4 + ["get", "put"]
        job.check(pipeline)


def test_a_target_behind_a_log_in_the_store_gets_every_epoch(tmp_path, store, monkeypatch) -> None:
    monkeypatch.setenv("DELTAFIX_TOLD", str(tmp_path))
    rng = Random("targets")

    def job_named(name: str) -> Job:
        section = f'sink = "foreach_epoch"\nfunction = "tests.targets.told:{name}"'
        return on_store(job_at(tmp_path / name, section), store.url())

    counter = Cut(1 << 60)
    job = job_named("counted")
    with monkeypatch.context() as patch:
        patch.setattr(objects, "obstore", counter)
        drain(job)
    for number in range(1 if JIT_DISABLED else 6):
        job = job_named(f"stopped{number}")
        for at in (rng.randrange(len(counter.seen)), rng.randrange(25)):
            with monkeypatch.context() as patch, suppress(Stopped):
                patch.setattr(objects, "obstore", Cut(at, rng.choice(["before", "behind"])))
                drain(job)
        drain(job)
        with job.open() as pipeline:
            view = set(pipeline.maintainer.db.rows("can"))
        told: dict[int, list[dict[str, Any]]] = {}
        for line in (tmp_path / f"stopped{number}.jsonl").read_text().splitlines():
            one = json.loads(line)
            assert told.setdefault(one["epoch"], one["rows"]) == one["rows"]
        rows = [row for epoch in told.values() for row in epoch]
        assert (
            replayed((row["sign"], (row["who"], row["doc"]), row["epoch"]) for row in rows) == view
        )
        assert [*told] == sorted(told)
