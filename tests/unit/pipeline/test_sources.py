"""What each kind of source makes of its files: deltas, and nothing else."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.pipelines import open_pipeline

import deltafix
from deltafix.errors import BadRowError, ConfigError, DriftError, PipelineError

deltalake = None
with suppress(ImportError):
    import deltalake

needs_delta = pytest.mark.skipif(deltalake is None, reason="the package deltalake is not installed")

TEXT = """
.decl edge(x: symbol, n: number)
.input edge
.decl twice(x: symbol, n: number)
twice(x, n + n) :- edge(x, n).
"""


pytestmark = pytest.mark.usefixtures("runner")


class One:
    """A pipeline of one input `edge`."""

    def __init__(self, folder: Path, section: str, head: str = "") -> None:
        self.folder = folder
        (folder / "in").mkdir(parents=True, exist_ok=True)
        (folder / "p.dl").write_text(TEXT)
        text = f'[pipeline]\nprogram = "p.dl"\nstate = "state"\n{head}\n[input.edge]\n{section}\n'
        (folder / "p.toml").write_text(text + '[output.twice]\npath = "out"\n')

    def begin(self) -> None:
        """Run one epoch, and no more."""
        with open_pipeline(self.folder / "p.toml") as pipeline:
            pipeline.step()

    def take(self) -> tuple[int, set]:
        """Run; (rows given or taken away, the rows there are)."""
        with open_pipeline(self.folder / "p.toml") as pipeline:
            moved = sum(sum(epoch.given) for epoch in pipeline.drain())
            db = pipeline.maintainer.db
            assert set(db.rows("twice")) == {(x, 2 * n) for x, n in db.rows("edge")}
            return moved, set(db.rows("edge"))


def test_oracle_rows_by_file_follow_new_changed_and_deleted_files(tmp_path) -> None:
    rng = Random("files")
    one = One(tmp_path, 'source = "files"\nmode = "rows"\npath = "in"', "rows_per_epoch = 3")
    held: dict[str, set] = {}
    begun = ""
    for turn in range(24):
        name = begun or f"{rng.randrange(4)}.csv"
        if name in held and rng.random() < 0.5:
            (tmp_path / "in" / name).unlink()
            del held[name]
        else:
            held[name] = {(rng.choice("ab"), rng.randrange(9)) for _ in range(rng.randrange(9))}
            lines = ["x,n", *(f"{x},{n}" for x, n in sorted(held[name]))]
            path = tmp_path / "in" / name
            path.write_text("\n".join(lines) + "\n")
            os.utime(path, ns=(turn, 10**15 - turn))  # clocks may go backwards
        begun = name if name in held and rng.random() < 0.5 else ""
        if begun:  # in part, it may be: then it changes, or goes
            one.begin()
            continue
        now = set().union(*held.values())
        _, rows = one.take()
        assert rows == now
    now = set().union(*held.values())
    assert one.take()[1] == now
    assert one.take() == (0, now)


def test_a_changed_file_moves_only_what_changed_in_it(tmp_path) -> None:
    one = One(tmp_path, 'source = "files"\nmode = "rows"\npath = "in"')
    (tmp_path / "in" / "a.csv").write_text("x,n\n" + "".join(f"r,{n}\n" for n in range(100)))
    (tmp_path / "in" / "b.csv").write_text("x,n\nr,1\nr,2\n")
    assert one.take()[0] == 102
    (tmp_path / "in" / "a.csv").write_text("x,n\n" + "".join(f"r,{n}\n" for n in range(2, 101)))
    # Two rows leave the file, one of which another file says; one comes.
    moved, rows = one.take()
    assert moved == 3
    assert rows == {("r", n) for n in range(1, 101)}


def test_oracle_each_snapshot_is_diffed_with_the_last(tmp_path) -> None:
    rng = Random("snapshots")
    one = One(
        tmp_path, 'source = "snapshot"\nformat = "parquet"\npath = "in"', "rows_per_epoch = 4"
    )
    before: set = set()
    for turn in range(8):
        now = {(rng.choice("abc"), rng.randrange(4)) for _ in range(6)}
        columns = list(zip(*sorted(now), strict=True))
        pq.write_table(
            pa.table({"x": columns[0], "n": columns[1]}), tmp_path / "in" / f"{turn}.parquet"
        )
        assert one.take() == (len(now ^ before), now)
        before = now
    assert one.take() == (0, before)


def test_a_single_snapshot_file_is_read_whenever_it_changes(tmp_path) -> None:
    one = One(tmp_path, 'source = "snapshot"\npath = "in/all.csv"')
    with pytest.raises(PipelineError, match="no folder and no file"):
        one.take()
    path = tmp_path / "in" / "all.csv"
    for turn, (text, moved) in enumerate([("a,1\nb,2\n", 2), ("a,1\nc,3\n", 2), ("", 2)]):
        path.write_text("x,n\n" + text)
        os.utime(path, ns=(turn, turn))
        assert one.take()[0] == moved
    assert one.take() == (0, set())


@pytest.mark.parametrize("format_", ["json", "parquet", "csv"])
def test_change_files_of_each_format(format_, tmp_path) -> None:
    one = One(tmp_path, f'source = "files"\nformat = "{format_}"\npath = "in"\nsign = "op"')
    told = [[("+", "a", 1), ("+", "b", -5)], [("-", "a", 1), ("+", "ü,\n", 2**40)]]
    for number, rows in enumerate(told):
        path = tmp_path / "in" / f"{number}.{format_}"
        table = pa.table(dict(zip(["op", "x", "n"], zip(*rows, strict=True), strict=True)))
        if format_ == "parquet":
            pq.write_table(table, path)
        elif format_ == "json":
            path.write_text("\n".join(map(json.dumps, table.to_pylist())))
        else:
            text = "".join(f'{op},"{x}",{n}\n' for op, x, n in rows)
            path.write_text("op,x,n\n" + text)
    # One row came and went in the same look: it is no change.
    assert one.take() == (2, {("b", -5), ("ü,\n", 2**40)})


def test_a_json_line_that_is_none_is_bad_and_the_others_are_taken(tmp_path) -> None:
    one = One(tmp_path, 'source = "files"\nformat = "json"\npath = "in"\nbad_rows = "quarantine"')
    lines = ['{"sign": 1, "x": "a", "n": 1}', "{oh", "[1]", '{"sign": "+", "x": "b", "n": "2"}',
             '{"sign": 1, "x": "c", "n": 2.5}', '{"sign": 1, "x": "d"}']  # fmt: skip
    (tmp_path / "in" / "1.jsonl").write_text("\n".join(lines))
    assert one.take()[1] == {("a", 1), ("b", 2)}
    with open_pipeline(tmp_path / "p.toml") as pipeline:
        reasons = [row["reason"] for row in pipeline.maintainer.quarantine.rows("edge")]
    assert len(reasons) == 4
    assert "it is no JSON object" in reasons
    assert "n is missing" in reasons


def envelope(op: str, before=None, after=None, at: int = 0) -> dict:
    return {"payload": {"op": op, "before": before, "after": after, "source": {"lsn": at}}}


def test_debezium_envelopes(tmp_path) -> None:
    section = 'source = "files"\nformat = "json"\nenvelope = "debezium"\npath = "in"'
    one = One(tmp_path, f'{section}\nbad_rows = "quarantine"\nversion = "lsn"\nlate = "bad"')
    a, b, c = ({"x": x, "n": n} for x, n in (("a", 1), ("b", 2), ("b", 3)))
    told = [envelope("r", None, a, 1), envelope("c", None, b, 2), envelope("u", b, c, 3)]
    told += [None, {"op": "m"}, envelope("u", None, b, 4), envelope("t", at=5), {"op": "z"}]
    (tmp_path / "in" / "1.json").write_text("\n".join(map(json.dumps, told)))
    assert one.take() == (2, {("a", 1), ("b", 3)})
    told = [envelope("d", a, None, 6), envelope("c", None, b, 2)]
    (tmp_path / "in" / "2.json").write_text("\n".join(map(json.dumps, told)))
    assert one.take() == (1, {("b", 3)})
    with open_pipeline(tmp_path / "p.toml") as pipeline:
        reasons = [row["reason"] for row in pipeline.maintainer.quarantine.rows("edge")]
    assert reasons == [
        "op u without 'before'; the table must publish whole rows (REPLICA IDENTITY FULL)",
        "op = 't' is not one of c, u, d, r",
        "op = 'z' is not one of c, u, d, r",
        "late: its version is below 6",
    ]
    (tmp_path / "in" / "3.json").write_text(json.dumps(envelope("c", None, {"x": "a"}, 9)))
    with pytest.raises(DriftError, match="lacks 'n'"):
        one.take()


TREE = """
.decl symbol(id: symbol, kind: symbol)
.decl imports(user: symbol, path: symbol)
.input symbol, imports
.decl used(id: symbol)
used(x) :- imports(_, x).
"""


def test_a_tree_of_python_files(tmp_path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "p.dl").write_text(TREE)
    (tmp_path / "p.toml").write_text(
        '[pipeline]\nprogram = "p.dl"\nstate = "state"\nbad_rows = "quarantine"\n'
        '[input.code]\nsource = "tree"\npath = "src"\nextractor = "python"\n'
        'relations = ["symbol", "imports"]\n[output.used]\npath = "out"\n'
    )

    def take() -> tuple[set, set]:
        with open_pipeline(tmp_path / "p.toml") as pipeline:
            list(pipeline.drain())
            db = pipeline.maintainer.db
            return {row[0] for row in db.rows("symbol")}, {row[0] for row in db.rows("used")}

    (tmp_path / "src" / "a.py").write_text("import os\ndef f(): pass\n")
    (tmp_path / "src" / "b.py").write_text("import os, sys\nclass C: pass\n")
    symbols, used = take()
    assert {"a:f", "b:C"} <= symbols
    assert {"os", "sys"} <= used
    (tmp_path / "src" / "b.py").write_text("class D: pass\n")
    symbols, used = take()
    assert "b:D" in symbols
    assert "b:C" not in symbols
    assert "os" in used
    assert "sys" not in used
    (tmp_path / "src" / "a.py").write_text("def (:\n")  # keeps what it said, and is set aside
    assert take() == (symbols, used)
    (tmp_path / "src" / "a.py").unlink()
    assert "os" not in take()[1]


@pytest.mark.parametrize(
    ("extractor", "said"),
    [
        ("rust", 'extractor = "rust" is not known; valid: "python", '),
        ("no.module:X", "cannot be loaded: No module named 'no'"),
    ],
)
def test_an_unknown_extractor_is_refused(extractor, said, tmp_path) -> None:
    one = One(tmp_path, f'source = "tree"\npath = "in"\nextractor = "{extractor}"')
    with pytest.raises(ConfigError, match=said):
        one.take()


def test_a_relation_the_extractor_does_not_give_is_refused(tmp_path) -> None:
    one = One(tmp_path, 'source = "tree"\npath = "in"\nextractor = "python"')
    with pytest.raises(ConfigError, match="is not what the extractor gives: no such relation"):
        one.take()


def write_delta(path: Path, rows: list, **options) -> None:
    columns = list(zip(*rows, strict=True)) or [[], []]
    table = pa.table(
        {"x": pa.array(columns[0], pa.string()), "n": pa.array(columns[1], pa.int64())}
    )
    deltalake.write_deltalake(path, table, **options)


@pytest.mark.parametrize("runner", [pytest.param("spark", marks=pytest.mark.spark)], indirect=True)
@pytest.mark.parametrize("source", ['"delta"\npath = "x"', '"iceberg"\ncatalog = "c"\ntable = "t"'])
def test_spark_without_the_jar_of_a_format_says_which(tmp_path, source) -> None:
    with pytest.raises(PipelineError, match=r"input edge: .*this Spark has no .*jars.packages"):
        One(tmp_path, f"source = {source}").take()


@needs_delta
@pytest.mark.parametrize("runner", ["local", "local shards"], indirect=True)
def test_oracle_a_delta_table_with_a_change_feed(tmp_path) -> None:
    one = One(tmp_path, 'source = "delta"\npath = "lake"', "rows_per_epoch = 3")
    with pytest.raises(PipelineError, match="is no Delta table"):
        one.take()
    lake = tmp_path / "lake"
    feed = {"delta.enableChangeDataFeed": "true"}
    write_delta(lake, [("a", 1), ("b", 2), ("c", 3)], configuration=feed)
    assert one.take() == (3, {("a", 1), ("b", 2), ("c", 3)})
    write_delta(lake, [("d", 4)], mode="append")
    table = deltalake.DeltaTable(lake)
    table.delete("n = 1")
    table.update(predicate="n = 2", updates={"n": "20"})
    assert one.take() == (4, {("b", 20), ("c", 3), ("d", 4)})
    source = pa.table({"x": ["c", "e"], "n": pa.array([3, 5], pa.int64())})
    (
        deltalake.DeltaTable(lake)
        .merge(source, "s.x = t.x", source_alias="s", target_alias="t")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    # The row that the merge wrote again unchanged is no change.
    assert one.take() == (1, {("b", 20), ("c", 3), ("d", 4), ("e", 5)})
    assert one.take()[0] == 0


@needs_delta
@pytest.mark.parametrize("runner", ["local", "local shards"], indirect=True)
@pytest.mark.parametrize("seed", range(4))
def test_oracle_versions_of_a_delta_table_are_cut_into_epochs(tmp_path, seed) -> None:
    """Of many files, which the package reads in another order each time that it is asked."""
    rng, lake = Random(f"versions {seed}"), tmp_path / "lake"
    one = One(tmp_path, 'source = "delta"\npath = "lake"', f"rows_per_epoch = {rng.choice((1, 2))}")
    feed = {"delta.enableChangeDataFeed": "true"}
    held = {(x, 0) for x in "abc"}
    write_delta(lake, sorted(held), configuration=feed)
    for turn in range(1, 4):
        for x in "abcdef":
            write_delta(lake, [(x, turn)], mode="append")
            held.add((x, turn))
        assert one.take()[1] == held
        table = deltalake.DeltaTable(lake)
        if rng.random() < 0.5:
            gone = {row for row in held if rng.random() < 0.6}
            table.delete(" OR ".join(f"(x = '{x}' AND n = {n})" for x, n in gone) or "false")
            held -= gone
        else:
            held = {(x, n) for x, n in held if rng.random() < 0.3} | {("z", turn)}
            write_delta(lake, sorted(held), mode="overwrite")
        assert one.take()[1] == held


def test_bad_rows_of_a_whole_file_fail_its_epoch(tmp_path) -> None:
    one = One(tmp_path, 'source = "files"\nmode = "rows"\npath = "in"')
    (tmp_path / "in" / "a.csv").write_text("x,n\na,1\nb,two\n")
    with pytest.raises(BadRowError, match=r"a.csv, row 2: n = 'two' is no number"):
        one.take()
    with deltafix.connect(TEXT, tmp_path / "other") as db:
        assert db.rows("edge") == []
