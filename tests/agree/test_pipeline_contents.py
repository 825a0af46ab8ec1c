"""Files that say which rows there are: snapshots, and rows by file, however a pipeline reads them.

The judge knows the last snapshot, or the last content of each file; rows that cannot be read are
set aside once for each content that was taken. In between, the pipeline takes parts, is killed,
opened again and compacted. Snapshots are files, or folders of parts as Spark writes them.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.faults.killing import Halted, halting
from tests.support.amount import cases

from deltafix.errors import PipelineError
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.pipeline.config import read_config
from deltafix.pipeline.manifest import read_view
from deltafix.pipeline.runner import Pipeline

EXAMPLES = 2 if JIT_DISABLED else cases(8)

TEXT = """
.decl edge(x: symbol, n: number)
.input edge
.decl twice(x: symbol, n: number)
twice(x, n + n) :- edge(x, n).
"""
DAYS = ("2026-01-31", "2026-01-31T10:00:00Z")
"""Texts that readers take for moments."""
FORMATS = ("csv", "csv.gz", "json", "json.gz", "parquet")


class Contents:
    """A pipeline of one input `edge`, and the contents it is given."""

    def __init__(self, folder: Path, section: str, form: str, rng: Random) -> None:
        self.folder = folder
        self.inputs = folder / "in"
        self.form = form
        self.aside = 0
        self._rng = rng
        self.inputs.mkdir(parents=True)
        (folder / "p.dl").write_text(TEXT)
        limit = rng.choice([1, 2, 4, 1000])
        (folder / "p.toml").write_text(
            f'[pipeline]\nprogram = "p.dl"\nstate = "state"\nrows_per_epoch = {limit}\n'
            f'bad_rows = "quarantine"\n[input.edge]\n{section}\npath = "in"\n'
            f'format = "{form.split(".", maxsplit=1)[0]}"\n[output.twice]\npath = "out"\n'
        )

    def draw(self) -> tuple[set, int]:
        """Rows, and how many more that are none."""
        rng = self._rng
        some = rng.choice(["ab", DAYS])
        rows = {(rng.choice(some), rng.randrange(4)) for _ in range(rng.randrange(6))}
        return rows, rng.choice([0, 0, 1, 2])

    def write(self, path: Path, rows: set, junk: int) -> None:
        """A file; junk is a text where a number should be."""
        said = [*((x, str(n)) for x, n in sorted(rows)), *([("a", "?")] * junk)]
        if rows and self._rng.random() < 0.5:
            said.append(said[0])  # once more is no more
        if self.form == "parquet":
            columns = [pa.array(one, pa.string()) for one in zip(*said, strict=True)] or [[], []]
            pq.write_table(pa.table(columns, names=["x", "n"]), path)
            return
        if self.form.startswith("json"):
            lines = [json.dumps({"x": x, "n": n}) for x, n in said] or [""]
        else:
            lines = ["x,n", *(f"{x},{n}" for x, n in said)]
        data = ("\n".join(lines) + "\n").encode()
        path.write_bytes(gzip.compress(data) if self.form.endswith("gz") else data)

    def look(self, rows: set) -> None:
        """Perhaps a few times with a kill or a stop; then until all is in."""
        rng = self._rng
        while rng.random() < 0.5:
            with suppress(Halted), halting(rng.randrange(40), rng.choice(["die", "tear", "late"])):
                self._run(rng.randrange(4))
        held = self._run(None)
        assert held == rows

    def _run(self, steps: int | None) -> set:
        with Pipeline(read_config(self.folder / "p.toml")) as pipeline:
            for number, epoch in enumerate(pipeline.drain()):
                if number == steps:
                    return set()
                if self._rng.random() < 0.1 and epoch.more:
                    pipeline.compact()
            db = pipeline.maintainer.db
            rows = set(db.rows("edge"))
            table = read_view(self.folder / "out")[1]
            shown = [] if table is None else zip(*table.to_pydict().values(), strict=True)
            assert set(shown) == {(x, 2 * n) for x, n in rows}
            assert len(pipeline.maintainer.quarantine.rows("edge")) == self.aside
            db.check_invariants()
            return rows


@pytest.mark.parametrize("form", FORMATS)
def test_agree_snapshots_of_any_kind_with_the_last_of_them(form, memory) -> None:
    for seed in range(EXAMPLES):
        rng = Random(f"snapshots {form} {seed}")
        given = Contents(memory / str(seed), 'source = "snapshot"', form, rng)
        number = 0
        last: tuple[Path, bool] | None = None
        for _ in range(6):
            for _ in range(rng.choice([1, 1, 2])):
                rows, junk = given.draw()
                given.aside += junk
                number += 1
                path, parts = given.inputs / f"{number:03d}.{form}", False
                if rng.random() < 0.5:
                    path, parts = given.inputs / f"{number:03d}", True
                _put(given, path, rows, junk, parts=parts)
                last = path, parts
            given.look(rows)
            if rng.random() < 0.4:  # the last one, written anew in its place
                rows, junk = given.draw()
                given.aside += junk
                _put(given, *last[:1], rows, junk, parts=last[1])
                os.utime(last[0] if not last[1] else next(last[0].glob("p*")), ns=(1, number))
                given.look(rows)
            if rng.random() < 0.3:  # the first ones are removed
                for old in sorted(given.inputs.iterdir())[: rng.randrange(3)]:
                    shutil.rmtree(old) if old.is_dir() else old.unlink()
                given.look(rows)


def _put(given: Contents, path: Path, rows: set, junk: int, *, parts: bool) -> None:
    if not parts:
        given.write(path, rows, junk)
        return
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    some = [{row for row in rows if row[1] % 3 == part} for part in range(3)]
    for part, one in enumerate(some):
        given.write(path / f"part-{part:05d}-c000.{given.form}", one, junk if part == 1 else 0)
    (path / "_SUCCESS").touch()
    (path / f".part-00000-c000.{given.form}.crc").write_bytes(b"crc")


@pytest.mark.parametrize("form", FORMATS)
def test_agree_rows_by_file_with_what_the_files_say_last(form, memory) -> None:
    for seed in range(EXAMPLES):
        rng = Random(f"rows {form} {seed}")
        given = Contents(memory / str(seed), 'source = "files"\nmode = "rows"', form, rng)
        held: dict[Path, set] = {}
        for turn in range(8):
            for name in rng.sample(range(4), rng.randrange(4)):
                path = given.inputs / f"{name}.{form}"
                if path in held and rng.random() < 0.3:
                    path.unlink()
                    del held[path]
                    continue
                held[path], junk = given.draw()
                given.aside += junk
                given.write(path, held[path], junk)
                os.utime(path, ns=(turn, turn))
            given.look(set().union(*held.values()) if held else set())


def test_a_folder_that_spark_writes_is_one_snapshot_read_again_when_it_changes(tmp_path) -> None:
    given = Contents(tmp_path, 'source = "snapshot"', "csv", Random(0))
    given.look(set())
    (given.inputs / "_temporary").mkdir()
    given.write(given.inputs / "part-00000.csv", {("a", 1)}, 0)
    given.look(set())  # a job is at work
    given.write(given.inputs / "part-00001.csv", {("b", 2)}, 0)
    (given.inputs / "_temporary").rmdir()
    with pytest.raises(PipelineError, match="it holds part files and no _SUCCESS"):
        given.look(set())
    (given.inputs / "_SUCCESS").touch()
    given.look({("a", 1), ("b", 2)})
    shutil.rmtree(given.inputs)
    given.inputs.mkdir()
    given.look({("a", 1), ("b", 2)})  # a job begins with nothing
    (given.inputs / "part-00000.csv").touch()  # a part without rows
    given.write(given.inputs / "part-00001.csv", {("b", 2)}, 0)
    (given.inputs / "_SUCCESS").touch()
    given.look({("b", 2)})


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("1.csv", "x,n\nb,2\n", "it comes before '2.csv', which was taken"),
        ("2.csv", "", "holds no bytes, as a writer leaves it that was stopped"),
        ("3.csv", "", "holds no bytes"),
        ("part-0000.orc", "x", r"holds part-0000.orc, but files of this format end in .csv, .csv"),
        ("part-0000.parquet", "x", 'say format = "parquet", rename it, or say with pattern'),
        ("3/_SUCCESS", "", "it holds _SUCCESS and no file to read"),
        ("3/part-0000.csv", "x,n\n", "it holds part files and no _SUCCESS"),
    ],
)
def test_no_relation_is_lost_in_silence(name, content, said, tmp_path) -> None:
    given = Contents(tmp_path, 'source = "snapshot"', "csv", Random(0))
    given.write(given.inputs / "2.csv", {("a", 1)}, 0)
    given.look({("a", 1)})
    path = given.inputs / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    with pytest.raises(PipelineError, match=said):
        given.look(set())
    with pytest.raises(PipelineError, match=said):  # and again, from the state as it was
        given.look(set())
    path.unlink()
    given.write(given.inputs / "4.csv", {("a", 1), ("c", 3)}, 0)
    given.look({("a", 1), ("c", 3)})


def test_a_data_file_without_bytes_keeps_what_it_said(tmp_path) -> None:
    given = Contents(tmp_path, 'source = "files"\nmode = "rows"', "csv", Random(0))
    path = given.inputs / "a.csv"
    given.write(path, {("a", 1)}, 0)
    given.look({("a", 1)})
    path.write_text("")
    with pytest.raises(PipelineError, match=r"a.csv holds no bytes"):
        given.look(set())
    path.write_text("x,n\n")
    given.look(set())


def test_a_folder_of_files_of_other_endings_is_refused(tmp_path) -> None:
    given = Contents(tmp_path, 'source = "files"\nmode = "rows"', "csv", Random(0))
    (given.inputs / "a.tsv").write_text("x,n\na,1\n")
    with pytest.raises(PipelineError, match=r'holds a.tsv, .* say with pattern = "..." which'):
        given.look(set())
    (given.inputs / "a.tsv").rename(given.inputs / "a.csv")
    given.look({("a", 1)})
