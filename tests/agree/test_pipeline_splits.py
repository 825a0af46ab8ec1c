"""However the same messages are cut into files, looks and epochs, a pipeline gives one answer.

The judge (`judges/oracle_inputs.py`) takes the messages one by one. A `Split` writes them as files
of some format, a few at a time, and lets a pipeline look in between; it is also killed at a random
step of a commit, opened again, compacted, copied with new times of files, and given another program
to follow or to rebuild for. Asserted at the end: rows, quarantine, outputs and journal are what the
judge says.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.faults.killing import Halted, halting
from tests.judges.oracle_inputs import ABSENT, JUNK, THERE, Message, Options, judge
from tests.support import pipelines
from tests.support.amount import cases
from tests.support.pipelines import open_pipeline, rows_of, signed

from deltafix.engine.database import Database
from deltafix.errors import BadRowError
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.pipeline.keeper import EXECUTOR, peek_marks, shards_head
from deltafix.pipeline.manifest import read_deltas, read_view
from deltafix.pipeline.runner import Pipeline
from deltafix.spark import keeping
from deltafix.spark.shards import carry, database

EXAMPLES = 2 if JIT_DISABLED else max(6, cases(6))  # fewer follow no row

PROGRAM = """
.decl edge(x: symbol, n: number)
.input edge
.decl twice(x: symbol, n: number)
twice(x, n + n) :- edge(x, n).
.decl named(x: symbol)
named(x) :- edge(x, _).
"""
MORE = "twice(x, 0) :- edge(x, _).\n"
FORMATS = ("csv", "bare csv", "csv.gz", "json", "parquet", "debezium")


def draw_messages(rng: Random, form: str) -> list[Message]:
    """Messages about few rows, so that they meet."""
    rows = [(x, n) for x in "ab" for n in range(rng.randrange(1, 4))]
    messages = []
    version = 50
    for _ in range(rng.randrange(4, 28)):
        version += rng.choice([-6, -3, -1, 0, 0, 1, 1, 2, 5])
        if rng.random() < 0.07:
            junk = rng.choice(["sign", "value"] if form == "parquet" else ["sign", "value", "torn"])
            messages.append(Message(version=version, junk=junk))
            continue
        images = [(rng.choice([1, 1, -1]), rng.choice(rows))]
        if form == "debezium" and rng.random() < 0.4:
            images = [(-1, rng.choice(rows)), (1, rng.choice(rows))]
        messages.append(Message(tuple(images), version))
    return messages


def draw_options(rng: Random) -> Options:
    return Options(
        missing=rng.choice(["bad", "ignore"]),
        duplicates=rng.choice(["ignore", "count", "bad"]),
        late=rng.choice(["apply", "ignore", "bad"]),
        lateness=rng.randrange(6),
    )


def write(path: Path, form: str, messages: Sequence[Message]) -> None:
    """A change file."""
    if form == "debezium":
        path.write_text("".join(_envelope(one) + "\n" for one in messages))
        return
    records = []
    for one in messages:
        sign, row = one.images[0] if one.images else (1, ("a", 0))
        x, n = row
        record = {"op": "+" if sign > 0 else "-", "at": one.version, "x": x, "n": str(n)}
        if one.junk:
            record |= {"sign": {"op": "?"}, "value": {"n": "two"}, "torn": {"x": None}}[one.junk]
        records.append(record)
    if form == "parquet":
        names = ("op", "at", "x", "n")
        kinds = (pa.string(), pa.int64(), pa.string(), pa.string())
        columns = [pa.array([one[name] for one in records], kind)
                   for name, kind in zip(names, kinds, strict=True)]  # fmt: skip
        pq.write_table(pa.table(columns, names=names), path)
    elif form == "json":
        lines = [json.dumps(one) if one["x"] is not None else "{oh" for one in records]
        path.write_text("".join(f"{line}\n" for line in lines))
    else:
        lines = [] if form == "bare csv" else ["op,at,x,n"]
        lines += [f"{one['op']},{one['at']},{one['x']},{one['n']}" if one["x"] is not None
                  else "+,1" for one in records]  # fmt: skip
        data = "".join(f"{line}\n" for line in lines).encode()
        path.write_bytes(gzip.compress(data) if form == "csv.gz" else data)


def _envelope(message: Message) -> str:
    if message.junk == "torn":
        return "{oh"
    images = {sign: {"x": row[0], "n": row[1], "other": 1} for sign, row in message.images}
    op = {(1,): "c", (-1,): "d", (-1, 1): "u"}.get(tuple(sorted(images)), "u")
    source = {"at": message.version}
    if message.junk:
        good = {"x": "a", "n": 0, "other": 1}
        images = {-1: good, 1: {**good, "n": "two"}}  # none of its rows may be taken
        op = "z" if message.junk == "sign" else "u"
    envelope = {"op": op, "before": images.get(-1), "after": images.get(1), "source": source}
    return json.dumps({"payload": envelope} if message.version % 2 else envelope)


class Split:
    """One way to cut the messages, below a folder."""

    def __init__(self, folder: Path, form: str, options: Any, rng: Random, aside: str) -> None:
        self.folder = folder
        self._rng = rng
        self._form = form
        self._files = 0
        self._program = PROGRAM
        self.ways: set[str] = set()
        self._options = options
        (folder / "in").mkdir(parents=True)
        (folder / "p.dl").write_text(PROGRAM)
        kind = form.split(".", maxsplit=1)[0].rsplit(maxsplit=1)[-1]
        section = [f'format = "{"json" if kind == "debezium" else kind}"', f'bad_rows = "{aside}"']
        if kind == "debezium":
            section += ['envelope = "debezium"', 'columns = ["x", "n"]']
        else:
            section += ['sign = "op"']
        if form == "bare csv":
            section.append("header = false")
        section += self.section()
        self._limit = rng.choice([1, 2, 3, 5, 1000])
        (folder / "p.toml").write_text(
            '[pipeline]\nprogram = "p.dl"\nstate = "state"\non_change = "rebuild"\n'
            f'rows_per_epoch = {self._limit}\n[input.edge]\nsource = "files"\npath = "in"\n'
            + "\n".join(section)
            + '\n[output.twice]\npath = "out/twice"\n'
            '[output.named]\npath = "out/named"\nmode = "delta"\n'
        )

    def section(self) -> list[str]:
        """The lines of the input that say how its rows are judged."""
        options = self._options
        named = [f'{name} = "{getattr(options, name)}"'
                 for name in ("missing", "duplicates", "late")]  # fmt: skip
        return [*named, 'version = "at"', f"lateness = {options.lateness}"]

    def run(self, messages: Sequence[Any]) -> None:
        """Write and look, until all is in."""
        rng = self._rng
        rest = list(messages)
        while rest:
            for _ in range(rng.randrange(1, 4)):
                many = rng.choice([0, 1, 1, 2, 3, 8, 99])
                self._write(rest[:many])
                del rest[:many]
            if rng.random() < 0.7:
                self._look()
            if rng.random() < 0.4:
                self._disturb()
        self._look(whole=True)

    def _write(self, messages: Sequence[Any]) -> None:
        ending = {"bare csv": "csv", "debezium": "json"}.get(self._form, self._form)
        self.write(self.folder / "in" / f"{self._files:04d}.{ending}", messages)
        self._files += 1

    def write(self, path: Path, messages: Sequence[Any]) -> None:
        """A change file."""
        write(path, self._form, messages)

    def open(self) -> Pipeline:
        return open_pipeline(self.folder / "p.toml")

    def _look(self, *, whole: bool = False) -> None:
        rng = self._rng
        if not whole and rng.random() < 0.4:
            with halting(rng.randrange(40), rng.choice(["die", "tear", "late"])):
                try:
                    with self.open() as pipeline:
                        list(pipeline.drain())
                except Halted:
                    pass
            return
        with self.open() as pipeline:
            for epoch in pipeline.drain():
                if not whole and rng.random() < 0.1 and epoch.more:
                    break
                if rng.random() < 0.1:
                    pipeline.compact()

    def _disturb(self) -> None:
        what = self._rng.randrange(4)
        if what == 0:
            for path in (self.folder / "in").iterdir():
                os.utime(path, ns=(1, self._rng.randrange(10**12)))
        elif what == 1:
            there = self.folder.with_name(self.folder.name + "+")
            shutil.copytree(self.folder, there, copy_function=shutil.copyfile)
            self.folder = there
        else:
            self._program = PROGRAM if self._program != PROGRAM else PROGRAM + MORE
            (self.folder / "p.dl").write_text(self._program)
            way = self._rng.choice(["maintain", "rebuild"])
            if pipelines.KEEPER != "driver":
                way = "rebuild"  # shards cannot follow
            self.ways.add(way)
            toml = self.folder / "p.toml"
            toml.write_text(
                re.sub('on_change = "[a-z]+"', f'on_change = "{way}"', toml.read_text())
            )

    def check_state(self, db: Database, wanted: Any) -> None:
        """What is kept beside the rows."""
        if "edge__times" in db.schemas:
            held = dict.fromkeys(db.rows("edge"), 1)
            held |= {row[:-1]: row[-1] for row in db.rows("edge__times")}
            assert held == dict(wanted.times)

    def check(self, wanted: Any) -> int:
        """Rows, quarantine, outputs, journal. Returns the epochs that it took."""
        with self.open() as pipeline:
            assert list(pipeline.drain()) == []
            db = pipeline.maintainer.db
            if isinstance(db, Database):
                db.check_invariants()
            assert set(db.rows("edge")) == wanted.rows
            self.check_state(db, wanted)
            rows = pipeline.maintainer.quarantine.rows("edge")
            assert Counter(map(_shown, rows)) == wanted.aside
            last = db.epoch
        twice = {(x, 2 * n) for x, n in wanted.rows}
        if self._program != PROGRAM:
            twice |= {(x, 0) for x, _ in wanted.rows}
        for name, view in (("twice", twice), ("named", {(x,) for x, _ in wanted.rows})):
            found: set = set()
            for sign, row, _ in signed(read_deltas(self.folder / "out" / name)):
                assert (row in found) == (sign < 0)
                (found.remove if sign < 0 else found.add)(row)
            assert found == view
            at, table = read_view(self.folder / "out" / name)
            assert (at, rows_of(table)) == (last, view)
        lines = (self.folder / "state" / "epochs.jsonl").read_text().splitlines()
        told = [json.loads(line) for line in lines]
        assert [line["epoch"] for line in told] == list(range(1, last + 1))
        new, old = (sum(line["given"][side] for line in told) for side in (0, 1))
        assert new - old == len(wanted.rows)
        if "maintain" not in self.ways:
            assert not any(line["touched"] for line in told if not line["read"])
        return int(last)


def _shown(found: dict) -> tuple:
    reason = found["reason"]
    if reason in (ABSENT, THERE) or reason.startswith("late"):
        return reason, tuple(map(found["row"].get, "xn"))
    return JUNK, ()


@pytest.mark.parametrize("keeper", ["driver", "shards"])
@pytest.mark.parametrize("form", FORMATS)
def test_agree_any_split_of_the_same_messages_gives_one_answer(
    form, keeper, memory, judged, monkeypatch
) -> None:
    monkeypatch.setattr(pipelines, "KEEPER", keeper)
    followed = 0
    for seed in range(EXAMPLES):
        rng = Random(f"{form} {seed}")
        messages, options = draw_messages(rng, form), draw_options(rng)
        wanted = judge(messages, options)
        for number in range(2):
            split = Split(memory / f"{seed} {number}", form, options, rng, "quarantine")
            split.run(messages)
            judged["epochs of pipelines"] += split.check(wanted)
            judged["splits of pipelines"] += 1
            followed += "maintain" in split.ways
    assert followed or keeper != "driver" or EXAMPLES < 6


@pytest.mark.parametrize("form", FORMATS)
def test_agree_a_state_that_moves_to_shards_on_the_way_gives_that_answer(
    form, memory, judged, monkeypatch
) -> None:
    monkeypatch.setattr(pipelines, "KEEPER", "auto")
    moved = []

    def adopted(*given):
        found = carry.adopted(*given)
        moved.append(0 if found is None else found.epoch)
        return found

    monkeypatch.setattr(database, "adopted", adopted)
    for seed in range(EXAMPLES):
        rng = Random(f"auto {form} {seed}")
        room = rng.choice([4_000, 8_000, 12_000, 16_000])
        monkeypatch.setattr(keeping, "room_for_state", lambda room=room: room)
        messages, options = draw_messages(rng, form), draw_options(rng)
        split = Split(memory / str(seed), form, options, rng, "quarantine")
        split.run(messages)
        judged["epochs of pipelines"] += split.check(judge(messages, options))
        why = peek_marks(split.folder / "state")[EXECUTOR]
        there = shards_head(split.folder / "state") is not None
        assert why.startswith("shards: the state needs" if there else "driver: the state fits")
    assert max(moved) > 1, moved


@pytest.mark.spark
@pytest.mark.parametrize("form", FORMATS)
def test_agree_any_split_on_spark_gives_that_answer(
    form, spark, memory, judged, monkeypatch
) -> None:
    monkeypatch.setattr(pipelines, "RUNNER", "spark")
    monkeypatch.setattr(pipelines, "SHARDS", 2)
    for seed in range(-(-EXAMPLES // 10)):
        rng = Random(f"spark {form} {seed}")
        monkeypatch.setattr(pipelines, "KEEPER", ("driver", "shards")[FORMATS.index(form) % 2])
        messages, options = draw_messages(rng, form), draw_options(rng)
        split = Split(memory / str(seed), form, options, rng, "quarantine")
        split.run(messages)
        judged["epochs of pipelines"] += split.check(judge(messages, options))


@pytest.mark.parametrize("keeper", ["driver", "shards"])
def test_agree_without_quarantine_what_is_in_is_a_beginning_without_bad_rows(
    keeper, memory, judged, monkeypatch
) -> None:
    monkeypatch.setattr(pipelines, "KEEPER", keeper)
    failed = 0
    for seed in range(4 * EXAMPLES):
        rng = Random(f"fail {seed}")
        form = rng.choice(FORMATS)
        messages, options = draw_messages(rng, form), draw_options(rng)
        if seed % 4 == 3:  # nothing that could be bad
            options = Options(missing="ignore")
            messages = [one for one in messages if not one.junk]
        wanted = judge(messages, options)
        split = Split(memory / str(seed), form, options, rng, "fail")
        try:
            split.run(messages)
        except BadRowError:
            assert wanted.aside
            failed += 1
            with split.open() as pipeline:
                rows = frozenset(pipeline.maintainer.db.rows("edge"))
            one_by_one = [
                Message(images, one.version, one.junk)
                for one in messages
                for images in [(image,) for image in one.images] or [()]
            ]
            beginnings = [judge(one_by_one[:count], options) for count in range(len(one_by_one))]
            assert rows in {frozenset(one.rows) for one in beginnings if not one.aside}
        else:
            assert not wanted.aside
            judged["epochs of pipelines"] += split.check(wanted)
        judged["splits of pipelines"] += 1
    assert 0 < failed < 4 * EXAMPLES
