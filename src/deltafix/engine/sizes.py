"""What a database holds: bytes by relation and structure; rows and keys for `plan.explain`.

Invariant: reads the last committed epoch and changes nothing; bytes are those that structures use,
not what is reserved for them. One sort per index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from deltafix.engine.link import Linked
from deltafix.engine.store import codes_where, relation_cell
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Words
from deltafix.plan.explain import Statistics

if TYPE_CHECKING:
    from deltafix.engine.database import Database


def statistics(db: Database) -> dict[str, Statistics]:
    """Rows and keys of every relation of the plan, hidden ones too. O(rows log rows) an index."""
    by_name = {}
    arena, linked = db.instance.arena, db.instance.linked
    for relation in linked.plan.relations:
        codes = codes_where(arena, linked.ids[relation.name], at.WAS)
        keys = {
            columns: _distinct(codes[:, list(columns)])
            for columns in linked.plan.indexes[relation.name]
        }
        by_name[relation.name] = Statistics(len(codes), keys)
    return by_name


def _distinct(rows: Words) -> int:
    """How many rows differ. `np.unique` sorts rows as bytes: four times as long, under the GIL."""
    if len(rows) < 2 or rows.shape[1] == 0:
        return min(len(rows), 1)
    ordered = rows[np.lexsort(rows.T)]
    return 1 + int((ordered[1:] != ordered[:-1]).any(axis=1).sum())


def memory(arena: Arena, linked: Linked) -> dict[str, dict[str, int]]:
    """Bytes per relation: `rows`, `key`, each index (with its buckets), and their `total`.

    An index is named `index [0, 2]` by its columns, counted from 0; `groups` are those of a count
    or a sum.
    Under `<arena>`: bytes of blocks `taken` (untouched pages of them cost nothing) and `reserved`.
    """
    sizes = {}
    folds = {fold.relation: linked.groups(fold) for fold in linked.folds.values()}
    for name, number in linked.ids.items():
        rows, key = _table_bytes(arena, number)
        first = relation_cell(arena, number, at.R_IDX)
        indexes = {
            f"index {list(columns)}": _index_bytes(arena, first + index)
            for index, columns in enumerate(linked.plan.indexes[name])
        }
        groups = {"groups": sum(_table_bytes(arena, folds[name]))} if name in folds else {}
        parts = {"rows": rows, "key": key, **indexes, **groups}
        sizes[name] = {**parts, "total": sum(parts.values())}
    for number, memo in linked.memos.items():
        rows, key = _table_bytes(arena, number)
        sizes[f"{memo.functor}()"] = {"rows": rows, "key": key, "total": rows + key}
    cells = arena.cells
    sizes["<arena>"] = {
        "taken": (int(cells[at.BUMP]) - at.FIRST_WORD) * 4,
        "reserved": int(cells[at.LIMIT]) * 4,
    }
    return sizes


def _table_bytes(arena: Arena, number: int) -> tuple[int, int]:
    rows = relation_cell(arena, number, at.R_N) * relation_cell(arena, number, at.R_STRIDE) * 4
    return rows, relation_cell(arena, number, at.R_PKCAP) * 8


def _index_bytes(arena: Arena, index: int) -> int:
    cells = arena.cells
    xb = int(cells[at.IDXS]) + index * at.XSZ
    start, capacity = int(cells[xb + at.X_SLOTS]), int(cells[xb + at.X_CAP])
    classes = cells[start + 1 : start + 2 * capacity : 2] >> 32
    buckets = int((2 << classes[classes > 0]).sum()) * 4
    rows = relation_cell(arena, int(cells[xb + at.X_REL]), at.R_N)
    return capacity * 16 + buckets + min(rows, int(cells[xb + at.X_POSCAP])) * 4
