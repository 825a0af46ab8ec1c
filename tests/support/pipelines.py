"""A pipeline to test with: a program, inputs in a folder, and what must hold after any epoch.

`Job` writes change files and keeps the rows they amount to. Invariant that `check` asserts: the
engine holds what recomputation from those rows gives; each output's deltas, applied in order, give
the view; its snapshot and later deltas do too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.judges.oracle import evaluate

import deltafix
from deltafix.engine.database import Database
from deltafix.pipeline.config import read_config
from deltafix.pipeline.keeper import Keeper
from deltafix.pipeline.manifest import read_deltas, read_manifest, read_view
from deltafix.pipeline.runner import Pipeline

TEXT = """
.decl member(who: symbol, team: symbol)
.decl grant(team: symbol, doc: number)
.input member, grant
.decl stands(who: symbol, team: symbol)
stands(x, y) :- member(x, y).
stands(x, z) :- stands(x, y), member(y, z).
.decl can(who: symbol, doc: number)
can(x, d) :- stands(x, t), grant(t, d).
"""
TOML = """
[pipeline]
program = "access.dl"
state = "state"
runner = "local"
{pipeline}
[input.member]
source = "files"
path = "in/member"
{member}
[input.grant]
source = "files"
path = "in/grant"
[output.can]
path = "out/can"
[output.stands]
path = "out/stands"
mode = "delta"
"""

Row = tuple[object, ...]

RUNNER = "local"
"""Set by the fixture `runner`."""
KEEPER = "driver"
"""Who keeps the rows: `driver`, `shards` in this process or, with `RUNNER`, on Spark, or `auto`."""
SHARDS = 3


def open_pipeline(file: Path, **options: object) -> Pipeline:
    """A pipeline file, opened on the runner and with the keeper that are tested."""
    config = read_config(file)
    if RUNNER == "spark":
        from deltafix.spark.runner import spark_runner

        chosen = {"executor": KEEPER, "shards": SHARDS}
        config = replace(config, values={**config.values, **chosen})
        options |= spark_runner(config)._asdict()
    elif KEEPER == "auto":
        from deltafix.spark.keeping import keeping

        options["keep"] = keeping(lambda: None, "auto", SHARDS)
    elif KEEPER == "shards":
        options["keep"] = shards_here
    return Pipeline(config, **options)  # type: ignore[arg-type]


def shards_here(program: Any, folder: Any, fsync: str, additions: Any) -> Keeper:
    """A keeper whose shards run in this process, by the functions that Spark's tasks call."""
    from deltafix.spark.shards.kept import Shards

    return Shards(program, folder, additions, None, shards=SHARDS, executor="driver")


class Job:
    """A pipeline below a folder, fed with change files by `say`."""

    def __init__(
        self,
        folder: Path,
        *,
        text: str = TEXT,
        pipeline: str = "",
        member: str = "",
        rewrite: bool = True,
    ) -> None:
        self.folder = folder
        for name in ("member", "grant"):
            (folder / "in" / name).mkdir(parents=True, exist_ok=True)
        self.rule(text)
        self.toml = folder / "pipeline.toml"
        if rewrite:
            self.toml.write_text(TOML.format(pipeline=pipeline, member=member))
        self.rows: dict[str, set[Row]] = {"member": set(), "grant": set()}
        self.files = 0
        self.places: dict[str, Path | str] = {
            name: folder / "out" / name for name in ("can", "stands")
        }

    def rule(self, text: str) -> None:
        """Another program, from the next opening on."""
        self.program = deltafix.Program.parse(text)
        (self.folder / "access.dl").write_text(text)

    def write(self, relation: str, changes: Iterable[tuple[str, Row]]) -> Path:
        """A change file, without keeping what it says."""
        self.files += 1
        names = {"member": "who,team", "grant": "team,doc"}[relation]
        lines = [f"sign,{names}"]
        lines += [",".join([sign, *map(str, row)]) for sign, row in changes]
        path = self.folder / "in" / relation / f"{self.files:05d}.csv"
        if not path.exists():  # the job may have been copied with what it was told
            path.write_text("\n".join(lines) + "\n")
        return path

    def say(self, relation: str, *changes: tuple[str, Row]) -> None:
        """A change file, and the rows it leaves."""
        self.write(relation, changes)
        for sign, row in changes:
            (self.rows[relation].add if sign == "+" else self.rows[relation].discard)(row)

    def open(self, **options: object) -> Pipeline:
        """The pipeline, opened."""
        return open_pipeline(self.toml, **options)

    def run(self) -> list[int]:
        """Run until nothing is left; the numbers of the epochs."""
        with self.open() as pipeline:
            epochs = [epoch.epoch for epoch in pipeline.drain()]
            self.check(pipeline)
        return epochs

    def check(self, pipeline: Pipeline) -> None:
        """The state is recomputation, and the outputs are the state."""
        db = pipeline.maintainer.db
        if isinstance(db, Database):
            db.check_invariants()
        wanted = evaluate(self.program, {name: set(rows) for name, rows in self.rows.items()})
        assert {name: set(db.rows(name)) for name in wanted} == wanted
        for name in ("can", "stands"):
            if name in self.places:
                self.check_output(name, wanted[name], db.epoch)

    def check_output(self, name: str, wanted: set[Row], epoch: int) -> None:
        """An output's log and view are the wanted rows at the epoch."""
        folder = self.places[name]
        manifest = read_manifest(folder)
        assert manifest is not None
        assert manifest.epoch == epoch
        view: set[Row] = set()
        for sign, row, _ in signed(read_deltas(folder)):
            # Each delta is net: nothing comes in twice or goes out that is not there.
            assert (row in view) == (sign < 0)
            (view.remove if sign < 0 else view.add)(row)
        assert view == wanted
        at, table = read_view(folder)
        assert (at, rows_of(table)) == (epoch, wanted)


def signed(table: pa.Table | None) -> list[tuple[int, Row, int]]:
    """(sign, row, epoch) of a delta table, in its order."""
    if table is None:
        return []
    columns = [one.to_pylist() for one in table.columns]
    return [(row[-2], row[:-2], row[-1]) for row in zip(*columns, strict=True)]


def rows_of(table: pa.Table | None) -> set[Row]:
    """The rows of a table."""
    if table is None:
        return set()
    return set(zip(*(one.to_pylist() for one in table.columns), strict=True))
