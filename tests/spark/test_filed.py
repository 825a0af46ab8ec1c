"""Net rows as files: what is taken is what was netted, only counts pass the driver."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support import pipelines
from tests.support.pipelines import Job

from deltafix.errors import StateError
from deltafix.facts.schema import Schema
from deltafix.pipeline.signed import SIGN, Signed
from deltafix.spark import net
from deltafix.spark.filed import Filed, Filing, NetFolder
from deltafix.spark.sent import Output, Rows
from deltafix.spark.shards import ShardedDatabase
from deltafix.spark.shards.step import First
from deltafix.store.folder import folder_at

SCHEMA = Schema.of("edge", ["x", "y"], ["symbol", "number"])
OTHER = Schema.of("root", ["x"], ["float"])
ROWS = {"edge": [("b", 2), ("a", 1), ("c", 3)], "root": [(0.5,)]}


def filed(folder: NetFolder) -> list[Filed]:
    """What two tasks have left: rows of two relations, and notes."""
    looks = [net.Look(SCHEMA, "said"), net.Look(OTHER, "said")]

    def rows(look: int, *columns: list[object]) -> Rows:
        arrays = [pa.array(values) for values in columns]
        return Rows(look, pa.Table.from_arrays(arrays, schema=looks[look].columns))

    tasks: list[list[Output]] = [
        [rows(0, ["b", "a", "c"], [2, 1, 3], [1, -1, 2], [5, 4, 6])],
        [rows(1, [0.5], [1], [9]), [{"at": [0], "look": 0, "bad": ["odd", "here", {"x": 1}]}]],
    ]
    filing = Filing(2, str(folder.folder))
    nets = net.read_nets(
        pa.Table.from_batches([batch for task in tasks for batch in filing(iter(task))]), looks
    )
    return [Filed(one.checked().signed, folder, one.files) for one in nets]


def test_rows_come_out_of_the_files_as_they_went_in_in_order_or_some_of_them(tmp_path) -> None:
    edge, root = filed(NetFolder(folder_at(tmp_path)))
    assert edge.table.column_names == ["x", "y", SIGN]
    assert edge.table.to_pydict() == {"x": ["a", "b", "c"], "y": [1, 2, 3], SIGN: [-1, 1, 2]}
    assert root.table.to_pydict() == {"x": [0.5], SIGN: [1]}
    assert (edge.good, edge.rows, len(edge.bad), root.rows) == (3, 4, 1, 1)
    some = edge.head(2)
    assert (some.good, some.table.column("x").to_pylist()) == (2, ["a", "b"])
    copied = edge.copy()
    copied.bad.clear()
    assert (edge.rows, copied.rows) == (4, 3)


def test_files_go_with_who_holds_them_and_a_stop_leaves_none(tmp_path) -> None:
    folder = NetFolder(folder_at(tmp_path))
    found = filed(folder)
    found[0].remove()
    found[1].remove()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StateError, match="net rows of the epoch cannot be read"):
        found[0].table  # noqa: B018
    held: list[Signed] = list(filed(NetFolder(folder_at(tmp_path))))
    assert len(list(tmp_path.glob("net-*/*.arrow"))) == 2
    held.clear()
    gc.collect()
    assert list(tmp_path.iterdir()) == []
    for generation in (1, 2, 3):
        (tmp_path / f"net-{generation}-of-a-process-that-was-killed").mkdir()
    NetFolder.sweep(folder_at(tmp_path), 2)
    assert [path.name[:6] for path in tmp_path.iterdir()] == ["net-3-"]


def test_a_folder_that_is_not_common_a_torn_file_and_no_room_are_named(tmp_path) -> None:
    folder = NetFolder(folder_at(tmp_path))
    (file,) = filed(folder)[0].files
    path = Path(file.folder, file.name)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(StateError, match="the folder of the state must be one folder"):
        Filed(Signed(SCHEMA, pa.table({})), folder, [file])
    torn = Filed(Signed(SCHEMA, pa.table({})), folder, [file._replace(size=path.stat().st_size)])
    path.write_bytes(b"else")
    with pytest.raises(StateError, match="net rows of the epoch cannot be read"):
        torn.table  # noqa: B018
    (tmp_path / "a file").write_text("")
    with pytest.raises(StateError, match=r"net rows could not be written: .*a file"):
        filed(NetFolder(folder_at(tmp_path / "a file")))


@pytest.mark.spark
@pytest.mark.slow
def test_of_net_rows_only_counts_pass_the_driver(tmp_path, common, spark, monkeypatch) -> None:
    for name, value in {"RUNNER": "spark", "KEEPER": "shards", "SHARDS": 2}.items():
        monkeypatch.setattr(pipelines, name, value)
    came: list[pa.Table] = []
    sent: list[int] = []
    read, to_judges = net.read_nets, ShardedDatabase.to_judges

    def brought(filed: Filed) -> None:
        raise AssertionError(f"{filed.good} rows in the driver")

    monkeypatch.setattr(Filed, "table", property(brought))

    def noted(table: pa.Table, looks: Sequence[net.Look]) -> list[net.Net]:
        came.append(table)
        return read(table, looks)

    def told(db: ShardedDatabase, *args: Any, **kwargs: Any) -> First:
        first = to_judges(db, *args, **kwargs)
        sent.append(len(first.here))
        return first

    monkeypatch.setattr(net, "read_nets", noted)
    monkeypatch.setattr(ShardedDatabase, "to_judges", told)
    job = Job(tmp_path)
    job.toml.write_text(job.toml.read_text().replace('state = "state"', f'state = "{common}"'))
    with job.open() as pipeline:
        for first, count in ((0, 10), (1000, 3000)):
            job.say("grant", *(("+", (f"t{n % 7}", n)) for n in range(first, first + count)))
            job.say("member", ("+", (f"u{first}", "t1")))
            assert [epoch.given for epoch in pipeline.drain()][-1] == (count + 1, 0)
            there = (folder_at(common) / "shards").folders()
            assert all(name.startswith("epoch-") for name in there), "net rows are removed"
        job.check(pipeline)
    small, large = came
    assert small.num_rows == large.num_rows
    assert large.column("note").null_count == 0
    assert large.nbytes < small.nbytes + 100
    assert set(sent) == {0}
