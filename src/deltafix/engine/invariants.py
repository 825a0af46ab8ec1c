"""The contract, checked on a whole state: for tests and for people who doubt it.

Invariant checked: between epochs NOW == WAS and no working flag is set; the key table and every
index hold exactly the rows that are true; every fact of a recursive stratum is given or has a
support; counts agree with the rows, and those of all derivations with each other. Whether they
equal the derivations is checked against recomputation in tests/agree. Counts and sums are those of
the rows that are there, added up in Python. Buckets lie apart, also free ones. Each symbol is found
by one slot, and no free block has its text.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np

from deltafix.changes.exact import Total, divide, extend, total_value
from deltafix.engine.codes import VALUE_TYPES
from deltafix.engine.link import Linked
from deltafix.engine.store import cells_of, codes_where, records_of, relation_cell, total_of
from deltafix.errors import InternalError
from deltafix.facts.values import OPTIONAL, BaseType
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Cells
from deltafix.kernel.extremes import order_key
from deltafix.kernel.values import NIL, WIDE_BASE, as_float, canonical
from deltafix.plan.clause import Fold

_LOOKED_AT = 1 << 20
"""Words of a free block that are looked at: most of a large one was never touched."""


def check_invariants(arena: Arena, linked: Linked) -> None:
    """Raise InternalError for the first row or table that breaks the contract."""
    _check_blocks(arena, linked)
    _check_symbols(arena)
    for relation in linked.plan.relations:
        number = linked.ids[relation.name]
        alive = _check_rows(arena, relation.name, number)
        _check_keys(arena, relation.name, number, alive)
        first = relation_cell(arena, number, at.R_IDX)
        count = relation_cell(arena, number, at.R_NIDX)
        planned = len(linked.plan.indexes[relation.name])
        _require(count == planned, relation.name, f"{count} indexes, planned are {planned}")
        for index in range(first, first + count):
            _check_index(arena, relation.name, index, alive)
    _check_buckets(arena)
    for fold in linked.folds.values():
        _check_fold(arena, linked, fold)


def _check_blocks(arena: Arena, linked: Linked) -> None:
    """Blocks lie apart and begin at cache lines, and what is free is zero where it says so."""
    cells = arena.cells
    blocks: dict[str, tuple[int, int]] = {}
    lists = (at.Q, at.WAITING, at.CREATED, at.J, at.HEAP, at.DELTA, at.OPEN, at.TALLIES)
    piles = range(at.ASIDE, at.ASIDE_HEADS + 1, at.PILE)
    for cell in (*lists, *piles, at.FOLDED, at.ASKS, at.WIDE):
        blocks[f"the vector at cell {cell}"] = (2 * int(cells[cell]), 2 * int(cells[cell + 2]))
    blocks["the buckets"] = (int(cells[at.BUCKETS]), 4 * int(cells[at.BUCKET_CAP]))
    for name, number in linked.ids.items():
        rb = int(cells[at.RELS]) + number * at.RSZ
        rows, room = int(cells[rb + at.R_ROWS]), int(cells[rb + at.R_CAP])
        blocks[f"rows of {name}"] = (rows, room * int(cells[rb + at.R_STRIDE]))
        blocks[f"keys of {name}"] = (2 * int(cells[rb + at.R_PK]), 2 * int(cells[rb + at.R_PKROOM]))
        for index in range(
            int(cells[rb + at.R_IDX]), int(cells[rb + at.R_IDX : rb + at.R_NIDX + 1].sum())
        ):
            xb = int(cells[at.IDXS]) + index * at.XSZ
            slots, positions = (int(cells[xb + part]) for part in (at.X_SLOTS, at.X_POS))
            blocks[f"index {index}"] = (2 * slots, 4 * int(cells[xb + at.X_CAP]))
            blocks[f"positions of index {index}"] = (positions, int(cells[xb + at.X_POSCAP]))
    first, count = int(cells[at.FREE]), int(cells[at.FREE + 1])
    for number, (start, words, dirty) in enumerate(
        cells[first : first + 3 * count].reshape(count, 3).tolist()
    ):
        blocks[f"free block {number}"] = (start, words)
        zeros = arena.words[start + dirty : start + min(words, _LOOKED_AT)]
        _require(not zeros.any(), f"free block {number}", "is not zero")
    ordered = sorted(
        (start, start + words, what) for what, (start, words) in blocks.items() if words
    )
    for (start, end, what), (after, _, other) in pairwise(
        [*ordered, (int(cells[at.BUMP]), 0, "new ones")]
    ):
        _require(start % 16 == 0, what, f"begins at word {start}")
        _require(end <= after, what, f"ends at word {end}, behind the start of {other}, {after}")


def _require(holds: bool, stage: str, message: str) -> None:
    if not holds:
        raise InternalError(f"{stage}: {message}")


def _check_symbols(arena: Arena) -> None:
    cells = arena.cells
    texts = arena.take(at.SYM)
    ends = texts + 1 + (arena.words[texts] + 3) // 4
    table = int(cells[at.SYM_SLOTS])
    slots = cells[table + 1 : table + 1 + int(cells[table])]
    taken = np.flatnonzero(slots)
    codes = (slots[taken] & 0xFFFFFFFF) - 1
    is_complete = np.array_equal(np.sort(codes), np.arange(len(texts)))
    _require(is_complete, "symbols", "their table has not each of them once")
    first, count = int(cells[at.FREE]), int(cells[at.FREE + 1])
    free = cells[first : first + 3 * count].reshape(count, 3)[:, :2].tolist()
    blocks = [(start, start + words) for start, words in free]
    for start, end in [*blocks, (int(cells[at.BUMP]), int(cells[at.LIMIT]))]:
        inside = np.flatnonzero((texts < end) & (ends > start))
        _require(not len(inside), "symbols", f"words {start} to {end} are free, and have {inside}")


def _check_rows(arena: Arena, name: str, number: int) -> set[int]:
    start = relation_cell(arena, number, at.R_ROWS)
    stride = relation_cell(arena, number, at.R_STRIDE)
    ruled = relation_cell(arena, number, at.R_RULES)
    all_word = relation_cell(arena, number, at.R_ALL)
    alive, derivations = set(), 0
    for row in range(relation_cell(arena, number, at.R_N)):
        word = int(arena.cells[(start + row * stride) // 2])
        support = int(arena.words[start + row * stride + at.SUPPORT])
        if not word & at.USED:
            continue
        flags = word & at.FLAGS
        wanted = at.NOW | at.WAS | at.USED | at.INDEXED
        _require(flags & ~at.GIVEN == wanted, name, f"row {row} has flags {flags:#x}")
        _require(bool(flags & at.GIVEN) or support > 0, name, f"row {row} has no support")
        _require(bool(ruled) or support == 0, name, f"input row {row} has support {support}")
        alive.add(row)
        if all_word:
            derived = int(arena.words[start + row * stride + all_word])
            derivations += derived
            _require(derived >= support, name, f"row {row} has {support} supports of {derived}")
    if all_word:
        held = relation_cell(arena, number, at.R_DERIVATIONS)
        _require(derivations == held, name, f"{derivations} derivations of rows, {held} in all")
    for field, what in ((at.R_NOW, "NOW"), (at.R_WAS, "WAS")):
        count = relation_cell(arena, number, field)
        _require(count == len(alive), name, f"{what} count {count}, rows {len(alive)}")
    return alive


def _check_keys(arena: Arena, name: str, number: int, alive: set[int]) -> None:
    base = relation_cell(arena, number, at.R_PK)
    slots = arena.cells[base : base + relation_cell(arena, number, at.R_PKCAP)]
    held = sorted((slots[slots != 0] & 0xFFFFFFFF) - 1)
    _require(held == sorted(alive), name, "the key table differs from the rows")
    taken = np.flatnonzero(slots)
    homes = ((slots[taken] >> 32) * len(slots)) >> at.HASH_BITS
    # Free slots before each, twice around: a search from a row's home must not meet one.
    free = np.concatenate(([0], np.cumsum(np.tile(slots == 0, 2))))
    taken_at = np.where(taken < homes, taken + len(slots), taken)
    _require(bool((free[homes] == free[taken_at]).all()), name, "a row's search ends before it")


def _check_index(arena: Arena, name: str, index: int, alive: set[int]) -> None:
    cells = arena.cells
    xb = int(cells[at.IDXS]) + index * at.XSZ
    start = int(cells[xb + at.X_SLOTS])
    held: list[int] = []
    late = int(cells[xb + at.X_LATE])
    if late:
        alive = {row for row in alive if row < late - at.PART}
    for slot in range(int(cells[xb + at.X_CAP])):
        head, tail = int(cells[start + 2 * slot]), int(cells[start + 2 * slot + 1])
        if head == 0:
            continue
        _require(_is_filtered(cells, xb, head >> 32), name, f"index {index} slot {slot}: no bit")
        ref, size, count = (head & 0xFFFFFFFF) - 1, tail >> 32, tail & 0xFFFFFFFF
        bucket = [ref]
        if size:
            first = int(cells[at.BUCKETS]) + ref * 4
            bucket = arena.words[first : first + count].tolist()
        _require(len(bucket) == count > 0, name, f"index {index} slot {slot} counts {count}")
        for position, row in enumerate(bucket):
            kept = int(arena.words[int(cells[xb + at.X_POS]) + row])
            _require(kept == position, name, f"row {row} is at {position}, not {kept}")
        held += bucket
    _require(sorted(held) == sorted(alive), name, f"index {index} differs from the rows")


def free_buckets(arena: Arena) -> list[tuple[int, int]]:
    """The first unit of each free bucket, and how many it has. O(free buckets)."""
    cells, free = arena.cells, list[tuple[int, int]]()
    for size in range(1, 32):
        ref = int(cells[at.BUCKET_FREE + size])
        while ref:
            free.append((ref - 1, (2 << size) // 4))
            _require(len(free) <= cells[at.BUCKET_TOP], "the buckets", "a free one is listed twice")
            ref = int(arena.words[int(cells[at.BUCKETS]) + (ref - 1) * 4])
    return free


def _check_buckets(arena: Arena) -> None:
    """Buckets of keys and free ones lie apart."""
    cells, buckets = arena.cells, free_buckets(arena)
    start, count = int(cells[at.RELS]), int(cells[at.N_RELS])
    relations = cells[start : start + count * at.RSZ].reshape(count, at.RSZ)
    for index in range(int((relations[:, at.R_IDX] + relations[:, at.R_NIDX]).max(initial=0))):
        xb = int(cells[at.IDXS]) + index * at.XSZ
        start, count = int(cells[xb + at.X_SLOTS]), int(cells[xb + at.X_CAP])
        for head, tail in cells[start : start + 2 * count].reshape(count, 2).tolist():
            if tail >> 32:
                buckets.append(((head & 0xFFFFFFFF) - 1, (2 << (tail >> 32)) // 4))
    last = (int(cells[at.BUCKET_TOP]), 0)
    for (ref, units), (after, _) in pairwise([*sorted(buckets), last]):
        _require(ref + units <= after, "the buckets", f"that at {ref} reaches into that at {after}")


def _is_filtered(cells: Cells, xb: int, key: int) -> bool:
    """Whether the index's filter, if it has one, has its bit for the hash of a key."""
    number = int(cells[xb + at.X_FILTER])
    if number == 0:
        return True
    fb = int(cells[at.FILTERS]) + (number - 1) * at.FILTER_SIZE
    start, cap = int(cells[fb + at.FILTER_CELLS]), int(cells[fb + at.FILTER_CAP])
    return bool(cells[start + (key * cap >> at.HASH_BITS)] & cells[xb + at.X_BIT])


def _check_fold(arena: Arena, linked: Linked, fold: Fold) -> None:
    """Fold the rows of the source in Python and compare. O(source).

    Of sums of floats whose rows are not kept, the number of rows alone.
    """
    types = {relation.name: relation.types for relation in linked.plan.relations}
    wide = arena.take(at.WIDE).tolist()

    def whole(code: int, kind: BaseType) -> int | None:
        if kind in OPTIONAL and code == NIL:
            return None
        pattern: int = code if code < WIDE_BASE else wide[code - WIDE_BASE]
        return pattern % (1 << 64) if OPTIONAL.get(kind, kind) == "unsigned" else pattern

    value = fold.value
    taken: BaseType = "number" if value is None else types[fold.source][value]
    is_kept = fold.source not in linked.plan.pipelined
    keys: dict[tuple[int, ...], Counter[int]] = {}
    sums: dict[tuple[int, ...], Total] = {}
    wanted: dict[tuple[int, ...], tuple[int, int]] = {(): (0, 0)} if fold.is_always_there else {}
    for row in codes_where(arena, linked.ids[fold.source], at.WAS).tolist():
        key = tuple(row[column] for column in fold.group)
        count, total = wanted.get(key, (0, 0))
        summand = None
        if value is not None and not (taken in OPTIONAL and row[value] == NIL):
            count += (taken in OPTIONAL) << 32
            if fold.is_extreme:
                keys.setdefault(key, Counter())[row[value]] += 1
            elif fold.is_real:
                sums[key] = extend(sums.get(key, 0), as_float(whole(row[value], taken)), 1)
            elif fold.way != "count":
                summand = whole(row[value], taken)
        wanted[key] = count + 1, total + (summand or 0)
    groups, alive, held = linked.groups(fold), set(), {}
    best: dict[tuple[int, ...], int] = {}
    for number, record in enumerate(records_of(arena, groups).tolist()):
        if record[0] & at.USED:
            flags = record[0] & at.FLAGS
            _require(flags == at.USED, str(fold), f"group {number} has flags {flags:#x}")
            _require(record[at.SUPPORT] == 1, str(fold), f"group {number} is not shown")
            key = tuple(record[at.COLS : at.COLS + len(fold.group)])
            held[key] = total_of(arena, groups, number)
            alive.add(number)
            if fold.is_real:
                cells = cells_of(arena, groups, number)
                held[key] = cells[0], 0
                if is_kept:
                    _check_real(arena, fold, cells, sums.get(key, 0))
            if fold.is_extreme:
                cells = cells_of(arena, groups, number)
                held[key] = cells[0], 0
                has = key in keys
                best[key] = _check_best(arena, fold, taken, cells, keys[key]) if has else NIL
    if not is_kept:  # then what there is to hold it against is how many rows have come
        wanted = held
        rows = relation_cell(arena, linked.ids[fold.source], at.R_DERIVATIONS)
        came = sum(count & (1 << 32) - 1 for count, _ in held.values())
        _require(came == rows, str(fold), f"{came} rows in groups, of {rows} that came")
        empty = any(key and not count for key, (count, _) in held.items())
        _require(not empty, str(fold), "there is a group without rows")
    _require(held == wanted, str(fold), "the groups differ from those of all rows")
    _check_keys(arena, str(fold), groups, alive)
    kind = types[fold.relation][-1]
    shown: dict[tuple[int, ...], int | None] = {}
    for *key, code in codes_where(arena, linked.ids[fold.relation], at.WAS).tolist():
        shown[tuple(key)] = code if fold.is_extreme else whole(code, kind)
    if fold.is_real and not is_kept:
        return
    values: dict[tuple[int, ...], int | None] = {**best} or {
        key: _total(fold, kind, count >> 32 if taken in OPTIONAL else count, sums.get(key, total))
        for key, (count, total) in wanted.items()
    }
    _require(shown == values, str(fold), "the values differ from those of all rows")
    if fold.present is not None:
        shown_groups = {*map(tuple, codes_where(arena, linked.ids[fold.present], at.WAS).tolist())}
        _require(shown_groups == wanted.keys(), str(fold), f"{fold.present} has other groups")


def _text(arena: Arena, code: int) -> bytes:
    """A symbol's text, whose bytes are in the order of its characters."""
    word = int(arena.cells[int(arena.cells[at.SYM]) + code])
    size = int(arena.words[word])
    return arena.words[word + 1 : word + 1 + (size + 3) // 4].tobytes()[:size]


def _check_best(
    arena: Arena, fold: Fold, taken: BaseType, cells: list[int], codes: Counter[int]
) -> int:
    """Hold a group's best value, and the next ones, against all codes. The code of the best."""
    kind = VALUE_TYPES[OPTIONAL.get(taken, taken)]
    op = at.FOLD_MIN if fold.way == "min" else at.FOLD_MAX
    codes_of = {int(order_key(arena.cells, kind, op, code)): code for code in codes}

    is_reversed = kind == at.T_SYMBOL and fold.way == "max"

    def place(key: int) -> Any:
        return _text(arena, key) if kind == at.T_SYMBOL else key

    ordered = sorted(codes_of, key=place, reverse=is_reversed)
    ref, ties = cells[2] >> 32, cells[2] & ((1 << 31) - 1)
    best = [(cells[1], ties)]
    bound: int | None = cells[1]
    if ref:
        start = (int(arena.cells[at.BUCKETS]) + (ref - 1) * 4) >> 1
        count, room, is_bounded, bound = arena.cells[start : start + 4].tolist()
        _require(count <= room, str(fold), f"{count} keys in a block for {room}")
        block = arena.cells[start + 4 : start + 4 + 2 * count].reshape(count, 2).tolist()
        best += [(key, rows) for key, rows in reversed(block)]
        bound = bound if is_bounded else None
    last = None if bound is None else place(bound)
    wanted = [
        (key, codes[codes_of[key]])
        for key in ordered
        if last is None or (place(key) >= last if is_reversed else place(key) <= last)
    ]
    _require(best == wanted, str(fold), f"the best are {best}, of all rows {wanted}")
    return codes_of[cells[1]]


def _check_real(arena: Arena, fold: Fold, cells: list[int], wanted: Total) -> None:
    """Hold the limbs of a group against the exact sum of its floats."""
    total, counted = 0, [0, 0, 0]
    if cells[2]:
        size = 1 << (cells[2] & 0xFFFFFFFF)
        start = (int(arena.cells[at.BUCKETS]) + ((cells[2] >> 32) - 1) * 4) >> 1
        base, infinities, nans, *limbs = arena.cells[start : start + size].tolist()
        total = sum(limb << (32 * (base + index)) for index, limb in enumerate(limbs))
        counted = [nans, infinities & 0xFFFFFFFF, infinities >> 32]
    exact = (wanted[0], list(wanted[2:])) if isinstance(wanted, tuple) else (0, [0, 0, 0])
    _require((total, counted) == exact, str(fold), f"a sum is {(total, counted)}, not {exact}")


def _total(fold: Fold, kind: BaseType, count: int, total: Total) -> int | None:
    """The value of a group: a whole number, or the pattern of a float; None: it is NIL."""
    if fold.way == "count":
        return count
    if kind in OPTIONAL and not count:
        return None
    if fold.is_real:
        value = float(divide(total, count) if fold.way == "mean" else total_value(total))
        return int(canonical(value))
    if fold.way == "mean":
        value = float(divide(total, count * 10 ** (fold.scale or 0)))
        return int(np.float64(value + 0.0).view(np.int64))
    wrapped = int(total) % (1 << 64)
    is_signed = OPTIONAL.get(kind, kind) != "unsigned"
    return wrapped - (1 << 64) if is_signed and wrapped >> 63 else wrapped
