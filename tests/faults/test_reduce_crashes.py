"""A streaming reduction whose driver is killed (-9) at random steps ends where a batch one does."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltafix.reactive import Min, Sum, product
from deltafix.spark.reduce import StreamReduce

CRASHES = int(os.environ.get("DELTAFIX_CRASHES", "2"))
BATCHES = 2 * CRASHES + 1
# Four renames and the sink's write are passed in a batch, each from two sides: no crash is further
# than two batches from the start.
STEPS = 20
DRIVER = Path(__file__).with_name("reduce_driver.py")


def _batches(folder, chance):
    """Write the source files; what they add up to, as (key, value) pairs."""
    folder.mkdir()
    held = []
    for number in range(BATCHES):
        rows = []
        for _ in range(8):
            if held and chance.random() < 0.4:
                rows.append((*held.pop(chance.randrange(len(held))), -1))
            else:
                held.append((chance.choice("abc"), chance.randint(0, 9)))
                rows.append((*held[-1], 1))
        kinds = {"key": pa.string(), "value": pa.int64(), "sign": pa.int8()}
        columns = zip(*rows, strict=True)
        table = {name: pa.array(next(columns), kind) for name, kind in kinds.items()}
        path = folder / f"{number:03d}.parquet"
        pq.write_table(pa.table(table), path)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    return held


def _run(folder, steps, dies):
    """Run the driver in a group of its own; its exit code, and what it said."""
    with (folder / "said").open("w+") as said:
        driver = subprocess.Popen(
            [sys.executable, str(DRIVER), str(folder), str(steps), dies],
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        try:
            code = driver.wait(timeout=240)
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
        said.seek(0)
        return code, said.read()[-2000:]


@pytest.mark.spark
@pytest.mark.slow
def test_oracle_a_driver_killed_at_random_steps_and_started_again_counts_each_row_once(tmp_path):
    chance = random.Random(os.environ.get("DELTAFIX_CRASHES", "2"))
    held = _batches(tmp_path / "in", chance)
    (tmp_path / "out").mkdir()
    for crash in range(CRASHES):
        code, said = _run(tmp_path, chance.randint(1, STEPS), chance.choice(["driver", "machine"]))
        assert code == -signal.SIGKILL, said
        assert len(list((tmp_path / "out").glob("*.json"))) <= 2 * (crash + 1)
    code, said = _run(tmp_path, 0, "driver")
    assert code == 0, said
    values = {key: [v for k, v in held if k == key] for key, _ in held}
    totals = {key: (sum(of), min(of)) for key, of in values.items()}
    reduce = StreamReduce(product(Sum(), Min()), tmp_path / "state")
    assert (reduce.last_batch, reduce.results()) == (BATCHES - 1, totals)
    followed = {}
    outputs = sorted((tmp_path / "out").glob("*.json"))
    assert len(outputs) == BATCHES
    for path in outputs:
        for key, value, sign in json.loads(path.read_text()):
            pair = (key, tuple(value.values()) if isinstance(value, dict) else tuple(value))
            followed[pair] = followed.get(pair, 0) + sign
    assert {pair for pair, count in followed.items() if count} == set(totals.items())
