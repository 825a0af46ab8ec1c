"""A pipeline over a streaming query, its driver killed (-9) at random steps of its micro-batches.

Each time all of the group is gone, the JVM too, as when a machine stops; then another one goes on.
What it ends with is what the rules give of all rows at once, and its log of changes leads there.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.pipelines import rows_of, signed

import deltafix
from deltafix.pipeline.manifest import read_deltas, read_view

CRASHES = int(os.environ.get("DELTAFIX_CRASHES", "2"))
BATCHES = 3 * CRASHES
STEPS = 24
"""A step is passed a few times a batch: so many are not all batches."""
ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("stream_driver.py")
RULES = """
.decl edge(x: number, y: number)  .input edge
.decl path(x: number, y: number)  .output path
.decl reach(x: number, n: number, far: number)  .output reach
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
reach(x, n, far) :- path(x, _), n = count : { path(x, _) }, far = max y : { path(x, y) }.
"""
PIPELINE = """
[pipeline]
program = "p.dl"
state = "state"
runner = "spark"
[input.edge]
source = "spark"
mode = "stream"
format = "parquet"
path = "in"
schema = "op string, x bigint, y bigint"
options = { maxFilesPerTrigger = 1 }
sign = "op"
[output.path]
path = "out/path"
[output.reach]
path = "out/reach"
"""


def _batches(folder: Path, chance: random.Random) -> set[tuple[int, int]]:
    """Write the source files; the rows that are there behind the last one."""
    folder.mkdir()
    held: list[tuple[int, int]] = []
    for number in range(BATCHES):
        rows = []
        for _ in range(6):
            edge = (chance.randrange(7), chance.randrange(7))
            if held and chance.random() < 0.4:
                rows.append(("delete", *held.pop(chance.randrange(len(held)))))
            elif edge not in held and ("delete", *edge) not in rows:
                held.append(edge)
                rows.append(("insert", *edge))
        columns = zip(*(rows or [("insert", 0, 0)]), strict=True)
        kinds = {"op": pa.string(), "x": pa.int64(), "y": pa.int64()}
        path = folder / f"{number:03d}.parquet"
        pq.write_table(
            pa.table({name: pa.array(next(columns), kind) for name, kind in kinds.items()}), path
        )
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    return set(held)


def _run(folder: Path, step: int, mode: str) -> tuple[int, str]:
    """Run the driver in a group of its own; its exit code, and what it said."""
    places = os.pathsep.join(map(str, (ROOT / "src", ROOT, ROOT / "tests")))
    with (folder / "said").open("w+") as said:
        driver = subprocess.Popen(
            [sys.executable, str(DRIVER), str(folder), str(step), mode],
            stdout=said, stderr=said, start_new_session=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": places},
        )  # fmt: skip
        try:
            code = driver.wait(timeout=300)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
        said.seek(0)
        return code, said.read()[-2000:]


@pytest.mark.spark
@pytest.mark.slow
def test_oracle_a_stream_whose_driver_is_killed_ends_where_all_rows_at_once_do(tmp_path) -> None:
    chance = random.Random(f"stream {CRASHES}")
    held = _batches(tmp_path / "in", chance)
    (tmp_path / "p.dl").write_text(RULES)
    (tmp_path / "p.toml").write_text(PIPELINE)
    for _ in range(CRASHES):
        mode = chance.choice(("die", "tear", "late"))
        code, said = _run(tmp_path, chance.randrange(3, STEPS), mode)
        assert code == -signal.SIGKILL, said
    code, said = _run(tmp_path, 1 << 30, "die")
    assert code == 0, said
    with deltafix.connect(RULES) as right:
        with right.transaction() as tx:
            tx.insert("edge", held)
        for name in ("path", "reach"):
            folder, told = tmp_path / "out" / name, Counter[tuple]()
            for sign, row, _ in signed(read_deltas(folder)):
                told[row] += sign
                assert told[row] in (0, 1)
            assert set(right.rows(name)) == rows_of(read_view(folder)[1]) == {*+told}
