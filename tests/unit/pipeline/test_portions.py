"""What goes in in parts and comes out in parts: portions of sources, files of a delta log."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.pipelines import Job, signed

from deltafix.errors import PipelineError, StateError
from deltafix.facts.arrow import table_from_rows
from deltafix.facts.schema import Schema
from deltafix.pipeline.config import read_config
from deltafix.pipeline.journal import Journal
from deltafix.pipeline.manifest import read_deltas
from deltafix.pipeline.portion import Portion
from deltafix.pipeline.runner import Pipeline
from deltafix.pipeline.signed import SIGN, Signed
from deltafix.pipeline.sink import ParquetSink
from deltafix.pipeline.sources import registry

SCHEMA = Schema.of("member", ["who", "team"], ["symbol", "symbol"])


def put_in(count: int) -> Signed:
    names = [f"p{number}" for number in range(count)]
    columns = {"who": names, "team": ["core"] * count, SIGN: pa.array([1] * count, pa.int8())}
    return Signed(SCHEMA, pa.table(columns))


@pytest.mark.parametrize("limit", [1, 3, 4, 5])
def test_a_portion_is_cut_where_it_has_more_rows_and_counts_those_it_keeps(limit) -> None:
    portion = Portion("member", signed=[put_in(4)], read=50)
    assert portion.cut(limit) == (limit < 4)
    assert portion.signed[0].rows == min(limit, 4)
    assert portion.rows == (limit if limit < 4 else 50)


def test_a_portion_that_has_nothing_to_say_once_it_is_settled_makes_no_epoch(tmp_path) -> None:
    # As sources on Spark do, whose rows are there when those of all inputs are asked for.
    job = Job(tmp_path, member='bad_rows = "quarantine"')
    job.say("grant", ("+", ("core", 7)))
    settled = []

    class Source:
        def __init__(self, name: str, fails: bool) -> None:
            self.name, self.relations, self.fails = name, (name,), fails

        def poll(self, state, limit) -> Portion | None:
            if settled.count(self.name) == 2:
                return None
            portion = Portion(self.name, signed=[put_in(1)])

            def settle() -> None:
                settled.append(self.name)
                if self.fails:
                    raise PipelineError(f"{self.name} is away")
                portion.signed.clear()

            portion.settle = settle
            return portion

        def close(self) -> None:
            pass

    for fails in (False, True):
        settled.clear()

        def make(config, one, schemas, fails=fails):
            if one.name == "member":
                return Source("member", fails)
            return registry.make_source(config, one, schemas)

        with Pipeline(read_config(job.toml), make_source=make) as pipeline:
            epochs = [epoch.read for epoch in pipeline._epochs() if epoch.read]  # not the opening
            assert list(pipeline.stopped) == (["member"] if fails else [])
            assert pipeline.maintainer.db.rows("member") == []
        assert epochs == ([] if fails else [{"grant": 1}])
        assert settled


@pytest.mark.parametrize("epoch", range(1, 10))
def test_deltas_before_an_epoch_are_dropped_and_files_of_later_ones_stay(epoch, tmp_path) -> None:
    sink = ParquetSink(SCHEMA, tmp_path / "out", "s", keeps_snapshot=False)
    nothing = table_from_rows(SCHEMA, [])
    for number in range(1, 9):
        rows = sink.prepare(number, [table_from_rows(SCHEMA, [(f"p{number}", "core")])], [nothing])
        sink.publish(number, rows)
        if number in (4, 7):  # files of epochs 1 to 4, 5 to 7, and 8
            sink.fold(lambda: [nothing], force=True)
    before = sink.manifest.deltas
    assert [(one.first, one.last) for one in before] == [(1, 4), (5, 7), (8, 8)]
    sink.drop_before(epoch)
    assert signed(read_deltas(tmp_path / "out", epoch)) == [
        (1, (f"p{number}", "core"), number) for number in range(epoch, 9)
    ]
    assert [(one.first, one.last) for one in sink.manifest.deltas] == [
        (max(one.first, epoch), one.last) for one in before if one.last >= epoch
    ]
    files = {one.file for one in sink.manifest.deltas}
    assert {one.file for one in before if one.first >= epoch} <= files  # not written again
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"manifest.json", *files}
    manifest = sink.manifest
    sink.drop_before(epoch)
    assert sink.manifest is manifest  # there is nothing to write


def test_a_journal_that_is_no_file_is_refused(tmp_path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(StateError, match="cannot be read: Not a directory"):
        Journal(tmp_path / "state")
    (tmp_path / "epochs.jsonl").mkdir()
    with pytest.raises(StateError, match="is a link or a folder"):
        Journal(tmp_path)
