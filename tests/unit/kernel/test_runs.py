"""Lists of rows in runs: what they say, and that rows side by side cost them nothing.

Sees: a row that a run swallows or says twice, one that goes into a run of a stratum before, and a
load, or a large edit, whose lists take a cell a row, or whose vectors keep what they touched.
"""

from __future__ import annotations

import tracemalloc
from random import Random

import numpy as np
import pytest

import deltafix
from deltafix.engine.instance import Instance
from deltafix.engine.state.edits import Edit
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, in_parts, spelled_out
from deltafix.kernel.end import read_changes
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.kernel.runs import note_created, push_run, run_length

ROWS = 1_000 if JIT_DISABLED else 100_000


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("seed", range(10))
def test_a_list_says_the_rows_that_were_pushed(seed: int, step: int) -> None:
    rng, arena = Random(seed), Arena(1 << 28)
    cell = at.CREATED if step == 1 else at.DELTA
    pushed: list[int] = []
    for _ in range(200):
        value = pushed[-1] + step if pushed and rng.random() < 0.7 else rng.randrange(1 << 40)
        if step == 1 and rng.random() < 0.1:  # a stratum begins
            arena.cells[at.S_CREATED] = arena.cells[at.CREATED + 1]
        if step == 1 and rng.random() < 0.2:
            count = rng.randrange(1, 5)
            note_created(arena.cells, value, count)
            pushed += range(value, value + count)
        else:
            push_run(arena.cells, cell, value, step)
            pushed.append(value)
    assert spelled_out(arena.take(cell), step).tolist() == pushed
    for most in (1, 3, 64, len(pushed) - 1, len(pushed), len(pushed) + 1):
        parts = [part.tolist() for part in in_parts(arena.take(cell), step, most)]
        assert [row for part in parts for row in part] == pushed
        assert {*map(len, parts[:-1])} <= {most}
        assert 0 < len(parts[-1]) <= most
    assert len(arena.take(cell)) < len(pushed) * 2 // 3
    entry, counted = 0, 0
    while entry < arena.cells[cell + 1]:
        rows = int(run_length(arena.cells, cell, entry))
        assert arena.cells[arena.cells[cell] + entry] == pushed[counted]
        entry, counted = entry + 1 + (rows > 1), counted + rows
    assert counted == len(pushed)


def test_no_run_goes_on_in_the_next_stratum() -> None:
    cells = Arena(1 << 28).cells
    note_created(cells, 5, 3)
    cells[at.S_CREATED] = cells[at.CREATED + 1]
    note_created(cells, 8, 2)
    assert cells[cells[at.CREATED] : cells[at.CREATED] + 4].tolist() == [5, -2, 8, -1]


def test_the_lists_of_a_load_cost_nothing_a_row() -> None:
    rows = [(n, n + 1) for n in range(ROWS)]
    with deltafix.connect(
        ".decl e(x: number, y: number)  .input e\n.decl two(x: number, z: number)  .output two\n"
        "two(x, z) :- e(x, y), e(y, z)."
    ) as db:
        cells = db.instance.arena.cells
        with db.transaction() as tx:
            tx.insert("e", rows)
            assert cells[at.CREATED + 1] == 2
        assert cells[at.DELTA + 1] == 4
        assert db.last_epoch.changed == cells[at.N_CHANGED] == 2 * ROWS - 1
        assert len(tx.delta["two"].added) == ROWS - 1
        with db.transaction() as tx:  # a list of what changed, not of how much
            tx.delete("e", rows[::2])
        assert len(tx.delta["e"].removed) == ROWS // 2
        changed = db.instance.linked.ids["e"] * at.RSZ + int(cells[at.RELS]) + at.R_CHANGED
        assert all(cells[cell + 2] <= 1 << 16 for cell in (at.Q, at.J, at.CREATED, changed))
        db.check_invariants()


@pytest.mark.skipif(JIT_DISABLED, reason="half a million rows")
def test_what_was_given_is_found_in_no_memory_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load that edits rows with rules: what it derives is looked through, and not listed."""
    with deltafix.connect(
        ".decl e(x: number, y: number)  .input e\n.decl p(x: number, y: number)  .input p\n"
        ".output p\np(x, z) :- p(x, y), e(y, z).",
        threads=1,
    ) as db:
        instance = db.instance
        peaks: list[int] = []

        def measured() -> list[Edit]:
            tracemalloc.start()
            found = Instance.given_changes(instance)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            return found

        monkeypatch.setattr(instance, "given_changes", measured)
        with db.transaction() as tx:
            for name in ("e", "p"):
                tx.insert(name, [(n, n + 1) for n in range(1_000)])
        assert db.last_epoch.changed == 501_500
        assert max(peaks) < 8_000_000


def test_many_changes_do_not_fit_into_little_room_and_few_do() -> None:
    with deltafix.connect(".decl e(x: number)  .input e") as db:
        arena = db.instance.arena
        with db.transaction() as tx:
            tx.insert("e", [(n,) for n in range(10)])
        for size in (0, 30, 39, 40, 64):
            out = np.full(size, -1, np.int32)
            assert read_changes(arena.words, arena.cells, out) == 40
            said = out.reshape(-1, 4)[:, 3].tolist() if size == 40 else []
            assert said in ([], list(range(10)))
            assert (out[:40] >= 0).all() == (size >= 40 or size == 0)
