"""Batches in parts, again, and beside those of others: one answer, and each epoch handed out once.

The judge sums the signs of each row in a batch, which has no order, and takes the sums one by one
(`oracle_inputs`). Batches are delivered as Spark does it: again after a kill, again though
they were taken, to a state that was opened anew, compacted, or given other rules. A consumer
applies what each batch hands out and must then have the view.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from tests.faults.killing import Halted, halting
from tests.judges.oracle_inputs import Judged, Message, Options
from tests.support.amount import cases
from tests.support.pipelines import signed

import deltafix
from deltafix.errors import PipelineError
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.pipeline.augment import Additions
from deltafix.pipeline.batches import Batches, Name, Rows
from deltafix.pipeline.columns import fit
from deltafix.pipeline.config import OutputConfig
from deltafix.pipeline.maintainer import Maintainer
from deltafix.pipeline.manifest import read_deltas
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.portion import difference_with
from deltafix.pipeline.signed import SIGN, net_sums

EXAMPLES = 3 if JIT_DISABLED else cases(8)

TEXT = """
.decl edge(x: symbol, n: number)
.decl node(x: symbol)
.input edge, node
.decl known(x: symbol, n: number)
known(x, n) :- edge(x, n), node(x).
"""
MORE = "known(x, 0) :- node(x).\n"
ROWS = {"edge": [(x, n) for x in "ab" for n in range(3)], "node": [("a",), ("b",)]}
KINDS = {"x": pa.string(), "n": pa.int64(), "sign": pa.int8()}
NAMES = {"edge": ["x", "n"], "node": ["x"]}

Said = dict[str, tuple[bool, list[tuple[int, tuple]]]]


def draw_batch(rng: Random) -> Said:
    """By relation: whether it is all of it, and signed rows."""
    said: Said = {}
    for name, rows in ROWS.items():
        if rng.random() < 0.8:
            whole = rng.random() < 0.25
            signs = [1] if whole else [1, 1, -1]
            many = rng.randrange(7)
            said[name] = (whole, [(rng.choice(signs), rng.choice(rows)) for _ in range(many)])
    return said


def table_of(name: str, said: list[tuple[int, tuple]], *, whole: bool) -> pa.Table:
    names = [*NAMES[name], *([] if whole else ["sign"])]
    columns = [[*row, sign] for sign, row in said]
    return pa.table({one: pa.array([row[at] for row in columns], KINDS[one])
                     for at, one in enumerate(names)})  # fmt: skip


def take(judged: dict[str, Judged], said: Said, options: Options) -> None:
    """The judge's account of a batch."""
    for name, (whole, changes) in said.items():
        sums = Counter()
        for sign, row in changes:
            sums[row] += sign
        if options.duplicates == "ignore":
            sums = Counter({row: max(-1, min(1, count)) for row, count in sums.items()})
        if whole:
            sums = Counter(dict.fromkeys(sums, 1)) if options.duplicates != "count" else sums
            sums.subtract(judged[name].times)
        for row, count in sums.items():
            for _ in range(abs(count)):
                judged[name].take(Message(((1 if count > 0 else -1, row),)), options)


class Consumer:
    """A state with batches, and someone who applies what they hand out."""

    def __init__(self, folder: Path, options: Options, rng: Random) -> None:
        self.folder = folder
        self.options = options
        self.text = TEXT
        self.view: set = set()
        self.got = 0
        self._rng = rng
        self._limit = rng.choice([1, 2, 4, 1000])
        self.maintainer = self._open()

    def _open(self) -> Maintainer:
        return Maintainer(
            deltafix.Program.parse(self.text),
            self.folder / "state",
            [OutputConfig("known", self.folder / "out", "delta+snapshot")],
            additions=Additions(counted=NAMES if self.options.duplicates == "count" else ()),
            on_change=lambda _: "rebuild",
        )

    def reopen(self) -> None:
        self.maintainer.close()
        self.maintainer = self._open()

    def batches(self, query: str) -> Batches:
        policy = Policy("apply", self.options.duplicates, self.options.missing, 0, quarantine=True)
        return Batches(
            self.maintainer, query, policies=defaultdict(lambda: policy), limit=self._limit
        )

    def rows(self, said: Said) -> dict[str, Rows]:
        """What a batch says, net, as it comes from executors."""
        found = {}
        for name, (whole, one) in said.items():
            schema = self.maintainer.db.schemas[name]
            table = table_of(name, self._shuffled(one), whole=whole)
            signed = fit(schema, table, schema.names, name, sign=1 if whole else "sign")
            if whole:
                policy = Policy(duplicates=self.options.duplicates)
                signed.table = difference_with(self.maintainer.db, signed, policy)
            else:
                signed.table = net_sums(signed.table, schema.names, SIGN)
            found[name] = Rows(signed, whole)
        return found

    def deliver(self, query: str, number: int, said: Said) -> None:
        """Once, or again and again."""
        rows = self.rows(said)
        name = Name("run", f"{query} {number}")
        while self._rng.random() < 0.3:
            mode = self._rng.choice(["die", "tear", "late"])
            with suppress(Halted), halting(self._rng.randrange(25), mode):
                self.batches(query).apply(number, rows, name)
            self.reopen()
            rows = self.rows(said)
        epochs = self.batches(query).apply(number, rows, name)
        assert epochs
        first, last = self.batches(query).find(number, name)
        assert first == self.got + 1  # each epoch is handed out once
        assert last == self.maintainer.epoch
        for sign, row, _ in signed(read_deltas(self.folder / "out", first, last)):
            assert (row in self.view) == (sign < 0)
            (self.view.remove if sign < 0 else self.view.add)(row)
        self.got = last
        again = self.batches(query).apply(number, {}, name)
        assert [one.epoch for one in again] == list(range(first, last + 1))
        assert all(one.replayed for one in again)
        assert self.maintainer.epoch == last

    def _shuffled(self, said: list) -> list:
        return self._rng.sample(said, len(said))

    def disturb(self) -> None:
        what = self._rng.randrange(3)
        if what == 0:
            self.reopen()
        elif what == 1:
            self.maintainer.compact()
        else:
            self.text = TEXT if self.text != TEXT else TEXT + MORE
            self.reopen()


@pytest.mark.parametrize("duplicates", ["ignore", "count", "bad"])
def test_agree_batches_give_one_answer_and_hand_out_every_epoch(duplicates, memory) -> None:
    for seed in range(EXAMPLES):
        rng = Random(f"batches {duplicates} {seed}")
        options = Options(missing=rng.choice(["bad", "ignore"]), duplicates=duplicates)
        consumer = Consumer(memory / str(seed), options, rng)
        judged = {name: Judged() for name in ROWS}
        numbers = Counter()
        for _ in range(8):
            said = draw_batch(rng)
            query = rng.choice(["q", "q", "r"])
            consumer.deliver(query, numbers[query], said)
            numbers[query] += 1
            take(judged, said, options)
            db = consumer.maintainer.db
            assert {name: set(db.rows(name)) for name in ROWS} == {
                name: one.rows for name, one in judged.items()
            }
            known = {row for row in judged["edge"].rows if (row[0],) in judged["node"].rows}
            if consumer.text != TEXT:
                known |= {(x, 0) for (x,) in judged["node"].rows}
            assert consumer.view == known
            for name, one in judged.items():
                aside = consumer.maintainer.quarantine.rows(name)
                found = Counter((row["reason"], tuple(row["row"].values())) for row in aside)
                assert found == one.aside
            if rng.random() < 0.4:
                consumer.disturb()
        consumer.maintainer.db.check_invariants()
        consumer.maintainer.close()


def test_batches_that_cannot_be_are_refused(tmp_path) -> None:
    consumer = Consumer(tmp_path, Options(), Random("refused"))
    said: Said = {"node": (False, [(1, ("a",))])}
    rows = consumer.rows(said)
    batches = consumer.batches("q")
    with pytest.raises(PipelineError, match="its first batch here is 7: those before are not in"):
        batches.apply(7, rows, Name("run", "7"))
    batches.apply(0, rows, Name("run", "0"))
    batches.apply(1, rows, Name("run", "1"))
    for number, name, said_ in [
        (3, Name("run", "3"), "batch 3 follows batch 1: those between them are not in"),
        (0, Name("new", "0"), "were numbered by another run"),
        (2, Name("new", "2"), "were numbered by another run"),
        (2, Name(), "were numbered by another run"),
        (1, Name("run", "other"), "its sources were elsewhere when it was taken"),
        (0, Name("run", "other"), "its sources were elsewhere when it was taken"),
        (-1, Name("run", ""), "batch -1 was before the last 100"),
    ]:
        with pytest.raises(PipelineError, match=said_):
            batches.apply(number, rows, name)
    for run, last, said_ in [
        ("new", -1, "another run"),
        (None, -1, "another run"),
        ("run", 2, "its run has finished batch 2, but of its batches this state has those up to 1"),
    ]:
        with pytest.raises(PipelineError, match=said_):
            batches.require_run(run, last)
    batches.require_run("run", 0)
    with pytest.raises(PipelineError, match=r"has finished batch 4, .* this state has none"):
        consumer.batches("new").require_run("other", 4)
    assert consumer.maintainer.epoch == batches.handed
    consumer.maintainer.close()


def test_a_batch_with_other_rows_than_those_taken_in_part_is_refused(tmp_path, monkeypatch) -> None:
    consumer = Consumer(tmp_path, Options(), Random(0))
    policy = Policy()
    batches = Batches(consumer.maintainer, "q", policies=defaultdict(lambda: policy), limit=1)
    rows = consumer.rows({name: (False, [(1, row) for row in some]) for name, some in ROWS.items()})
    real = consumer.maintainer.commit

    def commit(portions, **options):
        if consumer.maintainer.epoch == 3:
            raise Halted
        return real(portions, **options)

    with monkeypatch.context() as patch:
        patch.setattr(consumer.maintainer, "commit", commit)
        with pytest.raises(Halted):
            batches.apply(0, rows)
    signed_ = rows["edge"].signed
    other = Rows(replace(signed_, table=signed_.table.slice(1)))
    with pytest.raises(PipelineError, match="was taken in part, and has other rows now"):
        batches.apply(0, {**rows, "edge": other})
    assert len(batches.apply(0, rows)) == len(ROWS["edge"]) + len(ROWS["node"]) - 2
    assert set(consumer.maintainer.db.rows("edge")) == set(ROWS["edge"])
    consumer.maintainer.close()


def test_as_many_batches_are_remembered_as_promised(tmp_path) -> None:
    consumer = Consumer(tmp_path, Options(missing="ignore"), Random(1))
    batches = consumer.batches("q")
    for number in range(130):
        batches.apply(number, consumer.rows({"node": (False, [(1, ("a",))])}))
    assert batches.find(30) is not None
    with pytest.raises(PipelineError, match="batch 29 was before the last 100"):
        batches.find(29)
    marks = [name for name in consumer.maintainer.db.marks if name.startswith("query/")]
    assert len(marks) == 100
    consumer.maintainer.close()
