"""Many rows into an index at once, in the order of their keys' hashes, or key by key.

A slot grows with the hash, so rows sorted by hash fill an index from front to back: no cache line
is visited twice, a key's bucket gets its final size at once, and how much room all of them need is
known before anything is written. A job is one index and the rows that it takes: `entering` opens
it, `count_rows` counts these, `make_list_room` makes room for a cell a row, `list_rows` lists them
there, `sort_keys` sorts them, `make_index_room` makes room in the index, `enter_keys` writes,
`end_entering` ends it; `close_jobs` closes those that do not come to their end. Jobs of different
indexes share nothing while they count, list, sort and write. Nor do the parts of one, a thread
each: they count and list a part of the rows each, then sort and write a range of hashes, so of
slots.

Where an empty index gets many rows of few keys, nothing is sorted: a job counts the rows of each
key in a table that stays in cache (its tally), then each row goes into its bucket as it comes.

Invariant: the index is what entering row by row (`index.idx_add`) gives, up to the order inside
buckets and slots; until `make_index_room` has come back nothing has changed. Measured:
docs/kernel.md, "Loading", "Lanes", "Pages of a load".
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.filters import note_key, note_keys
from deltafix.kernel.index import (
    bucket_give,
    bucket_start,
    grow_buckets,
    idx_add,
    idx_glance,
    make_positions,
    slot_has,
)
from deltafix.kernel.jit import kernel, prefetch
from deltafix.kernel.keys import hash_words
from deltafix.kernel.memory import block, discard, recycle, scratch

_MASK = 0xFFFFFFFF
_AHEAD = 24
"""Rows between asking for a row and reading it; from 12 to 48 makes no difference."""
_BUCKET_AHEAD = 16
_FIRST_AHEAD = 8
_PARTS = 3
"""The first part of a late index is of its rows by two to the power of this."""
_TALLY = 1 << 16
"""Slots of a tally, two cells each; with a key for more than half of them it is given up."""

RANGE = at.HASH_BITS - 8
"""A hash shifted by so many bits is the number of its range."""

# --- a job's cells -------------------------------------------------------------------------------
_INDEX = 0
_FIRST = 1  # its rows are the relation's among these places of the queue; below 0: those of the
_LAST = 2  # numbers from -1 - _FIRST to _LAST that are in the other indexes
_ROWS = 3  # how many there are: of the rows that it counts, then of those that it sorts
_KEYS = 4  # keys that the index has not
_REF = 6  # the next of the buckets that it has behind all others
_LEFT = 7  # the last of the rows left over, counted from 1: each names the one before it where its
# position will be
_LIST = 8  # hash << 32 | row of each row that it sorts
_LISTED = 9  # of the last part: the cells of all parts' lists, and the spare ones behind them
_NEXT = 10  # the next open job
_PART = 11  # which part it is, and how many there are
_OF = 12
_KNOWN = 13  # the tally: hash << 32 | first row + 1, and how many rows; then bucket + 1 << 32 | how
# many are in it. 0: there is none
_TALLIED = 14  # 1: it has all of the job's keys
_SPARE = 15  # what it sorts with
_TOP = 16  # of the last part: the first cell of all parts' lists
_FREED = 17  # for each class the last of the buckets outgrown, counted from 1, which begins with
_FREED_FIRST = 49  # the one before it, and the first of them
_BUCKETS = 81  # for each class how many buckets its keys need; then, counted from 1, the first of
# those that it has from the free ones, which begins with the next
_COUNTS = 128  # of rows by the upper 8 bits of their hash, and cells to sort with
_SORT = _COUNTS + 256
_KEY = _SORT + 256
_CELLS = _KEY + (at.MAX_ARITY + 1) // 2


@kernel("v:Liiii")
def sort_by_hash(L, cells, spare, n, counts):
    """Sort `n` cells `hash << 32 | number` by their upper half: four passes of 8 bits at most.

    `counts`: 256 cells to count in. They stay in the first-level cache; 2,048 (three passes of 11
    bits) did not.
    """
    source = cells
    target = spare
    for p in range(4):
        shift = 32 + p * 8
        for k in range(256):
            L[counts + k] = 0
        for k in range(n):
            L[counts + ((L[source + k] >> shift) & 255)] += 1
        if n == 0 or L[counts + ((L[source] >> shift) & 255)] == n:
            continue
        total = np.int64(0)
        for k in range(256):
            c = L[counts + k]
            L[counts + k] = total
            total += c
        for k in range(n):
            v = L[source + k]
            d = counts + ((v >> shift) & 255)
            L[target + L[d]] = v
            L[d] += 1
        source, target = target, source
    if source != cells:
        for k in range(n):
            L[cells + k] = L[source + k]


@kernel("i:Lii")
def spare_cells(L, n, largest):
    """How many spare cells sorting `n` takes, of which the largest range has so many."""
    return largest if n >= L[at.SPLIT_FROM] else n


@kernel("v:Liiiii")
def sort_ranges(L, cells, n, ends, spare, counts):
    """Sort `n` cells that lie in the ranges of their hashes, of which each ends where `ends` says.

    `spare`: as many as `spare_cells` says; `counts` as in `sort_by_hash`. Few are one range.
    """
    if n < L[at.SPLIT_FROM]:
        sort_by_hash(L, cells, spare, n, counts)
        return
    begin = cells
    k = np.int64(0)
    while begin < cells + n:
        end = L[ends + k]
        sort_by_hash(L, begin, spare, end - begin, counts)
        begin = end
        k += 1


@kernel("i:Liiiii")
def entering(L, x, first, last, part, parts):
    """Open a job for index `x`, or a part of one: for rows of the queue from `first` to `last`.

    Those that are in the indexes already are not among them. A `first` below 0: for the rows with
    the numbers from `-1 - first` to `last` that are. All parts are open together, and get their
    room in order.
    """
    xb = L[at.IDXS] + x * at.XSZ
    job = scratch(L, np.int64(_CELLS * 2), np.int64(_CELLS * 2)) // 2
    L[job + _INDEX] = x
    L[job + _FIRST] = first
    L[job + _LAST] = last
    L[job + _PART] = part
    L[job + _OF] = parts
    L[job + _NEXT] = L[at.JOBS]
    L[at.JOBS] = job
    if first < 0 and last + 1 + first >= L[at.TALLY_FROM] and L[xb + at.X_USED] == 0:
        L[job + _KNOWN] = scratch(L, np.int64(_TALLY * 4), np.int64(_TALLY * 4)) // 2
        L[job + _TALLIED] = 1
    return job


@kernel("v:Li")
def _drop_tally(L, job):
    """A job has no tally, or none any more."""
    if L[job + _KNOWN] != 0:
        recycle(L, L[job + _KNOWN] * 2, np.int64(_TALLY * 4))
    L[job + _KNOWN] = 0


@kernel("i:ALiii")
def _key_of(A, L, xb, offset, o):
    """Gather the key columns of the row at word `offset` at word `o`; returns their hash."""
    cols = L[xb + at.X_COLS]
    for k in range(L[xb + at.X_NKEY]):
        A[o + k] = A[offset + at.COLS + L[cols + k]]
    return hash_words(A, o, L[xb + at.X_NKEY])


@kernel("i:ALiii")
def _tallied(A, L, job, h, row):
    """Cell of the tally for the key of a row, which has hash `h`; -1: it has too many keys."""
    xb = L[at.IDXS] + L[job + _INDEX] * at.XSZ
    rb = L[at.RELS] + L[xb + at.X_REL] * at.RSZ
    cols = L[xb + at.X_COLS]
    s = h & (_TALLY - 1)
    while True:
        cell = L[job + _KNOWN] + 2 * s
        v = L[cell]
        if v == 0:
            if L[job + _KEYS] * 2 >= _TALLY:
                L[job + _TALLIED] = 0
                L[job + _KEYS] = 0
                return np.int64(-1)
            L[cell] = (h << 32) | (row + 1)
            L[job + _KEYS] += 1
            return cell
        if (v >> 32) == h:
            offset = L[rb + at.R_ROWS] + ((v & _MASK) - 1) * L[rb + at.R_STRIDE] + at.COLS
            same = True
            for k in range(L[xb + at.X_NKEY]):
                if A[offset + L[cols + k]] != A[(job + _KEY) * 2 + k]:
                    same = False
                    break
            if same:
                return cell
        s = (s + 1) & (_TALLY - 1)


@kernel("i:Lii")
def _row_at(L, job, place):
    """The row at a place of those that a job is for; -1: it is none of them."""
    rb = L[at.RELS] + L[L[at.IDXS] + L[job + _INDEX] * at.XSZ + at.X_REL] * at.RSZ
    row = place
    if L[job + _FIRST] >= 0:
        value = L[L[at.Q] + place]
        if (value >> 32) != L[L[at.IDXS] + L[job + _INDEX] * at.XSZ + at.X_REL]:
            return np.int64(-1)
        row = value & _MASK
    is_in = (L[(L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1] & at.INDEXED) != 0
    return row if is_in == (L[job + _FIRST] < 0) else np.int64(-1)


@kernel("i:Lii")
def _place_of(L, job, part):
    """The first place of those that a part of the job's index counts and lists."""
    first = L[job + _FIRST] if L[job + _FIRST] >= 0 else -1 - L[job + _FIRST]
    return first + (L[job + _LAST] - first) * part // L[job + _OF]


@kernel("v:ALi")
def count_rows(A, L, job):
    """Count a job's rows, by their hashes and, where they may have few keys, by these. O(rows).

    A thread a job.
    """
    xb = L[at.IDXS] + L[job + _INDEX] * at.XSZ
    rb = L[at.RELS] + L[xb + at.X_REL] * at.RSZ
    n = np.int64(0)
    for place in range(_place_of(L, job, L[job + _PART]), _place_of(L, job, L[job + _PART] + 1)):
        row = _row_at(L, job, np.int64(place))
        if row < 0:
            continue
        h = _key_of(A, L, xb, L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE], (job + _KEY) * 2)
        L[job + _COUNTS + (h >> RANGE)] += 1
        n += 1
        if L[job + _TALLIED]:
            cell = _tallied(A, L, job, h, row)
            if cell >= 0:
                L[cell + 1] += 1
    L[job + _ROWS] = n


@kernel("i:Lii")
def _part_of(L, job, part):
    """The job that is a part of the same index."""
    other = L[at.JOBS]
    while L[other + _INDEX] != L[job + _INDEX] or L[other + _PART] != part:
        other = L[other + _NEXT]
    return other


@kernel("i:ALiii")
def _in_first(A, L, first, job, cell):
    """Cell of the first part's tally for a key of another's; -1: there are too many."""
    xb = L[at.IDXS] + L[job + _INDEX] * at.XSZ
    rb = L[at.RELS] + L[xb + at.X_REL] * at.RSZ
    row = (L[cell] & _MASK) - 1
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    h = _key_of(A, L, xb, offset, (first + _KEY) * 2)
    return _tallied(A, L, first, h, row)


@kernel("i:ALi")
def _join_tallies(A, L, job):
    """Have the first part's tally count the rows of all: 1, or 0: not all have one.

    Those of the others say from which place of its bucket on each key's rows go.
    """
    for p in range(L[job + _OF]):
        if L[_part_of(L, job, np.int64(p)) + _TALLIED] == 0:
            return np.int64(0)
    for p in range(1, L[job + _OF]):
        part = _part_of(L, job, np.int64(p))
        L[part + _KEYS] = 0
        for cell in range(L[part + _KNOWN], L[part + _KNOWN] + 2 * _TALLY, 2):
            if L[cell] != 0:
                own = _in_first(A, L, job, part, np.int64(cell))
                if own < 0:
                    return np.int64(0)
                L[own + 1], L[cell + 1] = L[own + 1] + L[cell + 1], L[own + 1]
    return np.int64(1)


@kernel("v:ALi")
def make_list_room(A, L, job):
    """Make room to list and sort a job's rows, unless tallies have all keys. Raises MemoryError.

    The parts of an index get it together.
    """
    if L[job + _PART] != 0 or _join_tallies(A, L, job):
        return
    parts = L[job + _OF]
    room = np.int64(0)
    for p in range(parts):
        part = _part_of(L, job, np.int64(p))
        L[part + _TALLIED] = 0
        L[part + _KEYS] = 0
        _drop_tally(L, part)
        L[part + _ROWS] = 0
        largest = np.int64(0)
        for k in range(256 * p // parts, 256 * (p + 1) // parts):
            n = np.int64(0)
            for q in range(parts):
                n += L[_part_of(L, job, np.int64(q)) + _COUNTS + k]
            L[part + _ROWS] += n
            largest = max(largest, n)
        L[part + _SPARE] = spare_cells(L, L[part + _ROWS], largest)
        room += L[part + _ROWS] + L[part + _SPARE]
    top = scratch(L, room * 2, np.int64(0)) // 2
    last = _part_of(L, job, parts - 1)  # the last that is closed
    L[last + _LISTED] = room
    L[last + _TOP] = top
    spare = top + room
    for p in range(parts):
        part = _part_of(L, job, np.int64(p))
        spare -= L[part + _SPARE]
        L[part + _SPARE] = spare
        L[part + _LIST] = top
        for k in range(256 * p // parts, 256 * (p + 1) // parts):
            for q in range(parts):
                counts = _part_of(L, job, np.int64(q)) + _COUNTS
                n = L[counts + k]
                L[counts + k] = top
                top += n


@kernel("v:ALi")
def list_rows(A, L, job):
    """List a job's rows, in the ranges of their hashes, unless tallies have all keys. O(rows).

    A thread a job.
    """
    if L[job + _TALLIED]:
        return
    xb = L[at.IDXS] + L[job + _INDEX] * at.XSZ
    rb = L[at.RELS] + L[xb + at.X_REL] * at.RSZ
    for place in range(_place_of(L, job, L[job + _PART]), _place_of(L, job, L[job + _PART] + 1)):
        row = _row_at(L, job, np.int64(place))
        if row >= 0:
            offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
            h = _key_of(A, L, xb, offset, (job + _KEY) * 2)
            end = job + _COUNTS + (h >> RANGE)
            L[L[end]] = (h << 32) | row
            L[end] += 1


@kernel("i:Lii")
def _run_end(L, job, begin):
    """Where the rows end whose keys have the hash of the one at `begin`."""
    cells = L[job + _LIST]
    end = begin + 1
    while end < L[job + _ROWS] and (L[cells + end] >> 32) == (L[cells + begin] >> 32):
        end += 1
    return end


@kernel("v:ALiii")
def _look_ahead(A, L, job, begin, end):
    """Ask for what rows to come touch: themselves, their positions, their key's bucket and row."""
    xb = L[at.IDXS] + L[job + _INDEX] * at.XSZ
    rb = L[at.RELS] + L[xb + at.X_REL] * at.RSZ
    rows = L[rb + at.R_ROWS]
    stride = L[rb + at.R_STRIDE]
    cells = L[job + _LIST]
    n = L[job + _ROWS]
    for k in range(begin, end):
        if k + _AHEAD < n:
            row = L[cells + k + _AHEAD] & _MASK
            prefetch(L, (rows + row * stride) >> 1)
            prefetch(L, (L[xb + at.X_POS] + row) >> 1)
        if L[xb + at.X_USED] == 0:
            continue
        for ahead in (_BUCKET_AHEAD, _FIRST_AHEAD):
            if k + ahead < n:
                h = L[cells + k + ahead] >> 32
                slot = L[xb + at.X_SLOTS] + 2 * ((h * L[xb + at.X_CAP]) >> at.HASH_BITS)
                ref = (L[slot] & _MASK) - 1
                if (L[slot] >> 32) == h:
                    if L[slot + 1] >> 32 and ahead == _BUCKET_AHEAD:
                        prefetch(L, bucket_start(L, ref) >> 1)
                    elif ahead == _FIRST_AHEAD:
                        if L[slot + 1] >> 32:
                            ref = np.int64(A[bucket_start(L, ref)])
                        prefetch(L, (rows + ref * stride) >> 1)


@kernel("i:i")
def _class_for(count):
    """The class of the smallest bucket for so many rows, two at least."""
    c = np.int64(1)
    while (2 << c) < count:
        c += 1
    return c


@kernel("v:ALi")
def sort_keys(A, L, job):
    """Sort a job's rows by their keys, and count what these need. O(rows). A thread a job.

    Keys of one hash count as one: where they are not, some of their rows are left over. Rows of a
    tally stay where they are.
    """
    x = L[job + _INDEX]
    n = L[job + _ROWS]
    if L[job + _TALLIED]:
        if L[job + _PART] == 0:
            for cell in range(L[job + _KNOWN] + 1, L[job + _KNOWN] + 2 * _TALLY, 2):
                if L[cell] > 1:
                    L[job + _BUCKETS + _class_for(L[cell])] += 1
        return
    cells = L[job + _LIST]
    last = _part_of(L, job, L[job + _OF] - 1)  # its rows end each range
    ends = last + _COUNTS + 256 * L[job + _PART] // L[job + _OF]
    sort_ranges(L, cells, n, ends, L[job + _SPARE], job + _SORT)
    begin = np.int64(0)
    while begin < n:
        end = _run_end(L, job, begin)
        slot = idx_glance(L, x, L[cells + begin] >> 32)
        held = np.int64(0)
        size = np.int64(0)
        if slot < 0:
            L[job + _KEYS] += 1
        else:
            held = L[slot + 1] & _MASK
            size = L[slot + 1] >> 32
        if held + end - begin > 1:
            c = _class_for(held + end - begin)
            if c > size:
                L[job + _BUCKETS + c] += 1
        begin = end


@kernel("i:Liiii")
def _free_slot(L, base, cap, h, end):
    """Cell of the first free slot for a hash; -1: none before slot `end`. With 0, it wraps."""
    s = (h * cap) >> at.HASH_BITS
    while L[base + 2 * s] != 0:
        s += 1
        if s == end:
            return np.int64(-1)
        if s == cap:
            s = 0
    return base + 2 * s


@kernel("v:ALi")
def _find_buckets(A, L, job):
    """Give a job the buckets that it needs: free ones, of what rounds before outgrew, then new.

    Where all were new ones, a quarter to a third of the heap was free after a load (galen: 300 MB).
    O(free ones taken). Raises MemoryError.
    """
    units = np.int64(0)
    for c in range(1, 32):
        units += L[job + _BUCKETS + c] * ((2 << c) // 4)
    grow_buckets(L, units)
    units = np.int64(0)
    for c in range(1, 32):
        wanted = L[job + _BUCKETS + c]
        first = L[at.BUCKET_FREE + c]
        L[job + _BUCKETS + c] = 0
        if wanted > 0 and first != 0:
            last = first
            wanted -= 1
            while wanted > 0 and A[bucket_start(L, last - 1)] != 0:
                last = np.int64(A[bucket_start(L, last - 1)])
                wanted -= 1
            L[job + _BUCKETS + c] = first
            L[at.BUCKET_FREE + c] = np.int64(A[bucket_start(L, last - 1)])
            A[bucket_start(L, last - 1)] = 0
        units += wanted * ((2 << c) // 4)
    L[job + _REF] = L[at.BUCKET_TOP]
    L[at.BUCKET_TOP] += units


@kernel("i:ALii")
def _next_bucket(A, L, job, c):
    """The next of a job's buckets of class `c`, as a reference."""
    ref = L[job + _BUCKETS + c] - 1
    if ref >= 0:
        L[job + _BUCKETS + c] = np.int64(A[bucket_start(L, ref)])
        return ref
    ref = L[job + _REF]
    L[job + _REF] += (2 << c) // 4
    return ref


@kernel("v:ALi")
def _enter_tally(A, L, job):
    """Give each key of the tallies its slot and its bucket, which is empty."""
    xb = L[at.IDXS] + L[job + _INDEX] * at.XSZ
    for cell in range(L[job + _KNOWN], L[job + _KNOWN] + 2 * _TALLY, 2):
        if L[cell] != 0:
            h = L[cell] >> 32
            slot = _free_slot(L, L[xb + at.X_SLOTS], L[xb + at.X_CAP], h, np.int64(0))
            count = L[cell + 1]
            L[slot] = L[cell]
            L[slot + 1] = count
            L[cell + 1] = 0
            if count > 1:
                c = _class_for(count)
                ref = _next_bucket(A, L, job, c)
                L[slot] = (h << 32) | (ref + 1)
                L[slot + 1] = (c << 32) | count
                L[cell + 1] = (ref + 1) << 32
    for p in range(1, L[job + _OF]):
        part = _part_of(L, job, np.int64(p))
        for cell in range(L[part + _KNOWN], L[part + _KNOWN] + 2 * _TALLY, 2):
            if L[cell] != 0:
                L[cell + 1] |= L[_in_first(A, L, job, part, np.int64(cell)) + 1]


@kernel("v:ALi")
def make_index_room(A, L, job):
    """Give a job the positions, slots and buckets that it needs. Raises MemoryError.

    O(slots) where these move. The parts of an index get its slots together.
    """
    xb = L[at.IDXS] + L[job + _INDEX] * at.XSZ
    if L[job + _PART] == 0:
        make_positions(A, L, L[job + _INDEX])
        wanted = L[xb + at.X_USED]
        for p in range(L[job + _OF]):
            wanted += L[_part_of(L, job, np.int64(p)) + _KEYS]
        is_more = wanted > L[xb + at.X_USED]
        if is_more and (wanted * 4 > L[xb + at.X_CAP] * 3 or L[xb + at.X_USED] == 0):
            cap = max(wanted * 3 // 2, 32) if L[xb + at.X_USED] == 0 else wanted * 2
            base = block(L, cap * 4) // 2
            old = L[xb + at.X_SLOTS]
            # Behind a free slot: keys of one hash keep their order, also across the table's end, or
            # what `sort_keys` counted for the first would be another's in `enter_keys`.
            first = np.int64(0)
            while first < L[xb + at.X_CAP] and L[old + 2 * first] != 0:
                first += 1
            for k in range(L[xb + at.X_CAP]):
                s = (first + k) % L[xb + at.X_CAP]
                if L[old + 2 * s] != 0:
                    slot = _free_slot(L, base, cap, L[old + 2 * s] >> 32, 0)
                    L[slot] = L[old + 2 * s]
                    L[slot + 1] = L[old + 2 * s + 1]
            discard(L, old * 2, L[xb + at.X_CAP] * 4)
            L[xb + at.X_SLOTS] = base
            L[xb + at.X_CAP] = cap
    _find_buckets(A, L, job)
    if L[job + _TALLIED] and L[job + _PART] == 0:
        _enter_tally(A, L, job)


@kernel("v:ALi")
def _enter_rows(A, L, job):
    """Write a job's rows, as they lie, into the buckets that its tally has for them."""
    xb = L[at.IDXS] + L[job + _INDEX] * at.XSZ
    rb = L[at.RELS] + L[xb + at.X_REL] * at.RSZ
    for place in range(_place_of(L, job, L[job + _PART]), _place_of(L, job, L[job + _PART] + 1)):
        row = _row_at(L, job, np.int64(place))
        if row >= 0:
            offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
            h = _key_of(A, L, xb, offset, (job + _KEY) * 2)
            cell = _tallied(A, L, job, h, row)
            position = L[cell + 1] & _MASK
            if L[cell + 1] >> 32:
                A[bucket_start(L, (L[cell + 1] >> 32) - 1) + position] = row
            A[L[xb + at.X_POS] + row] = position
            L[cell + 1] += 1


@kernel("v:ALi")
def enter_keys(A, L, job):
    """Write a job's rows into its index. O(rows). A thread a job.

    Keys that find no free slot in the part's own range of them are left over.
    """
    if L[job + _TALLIED]:
        _enter_rows(A, L, job)
        return
    x = L[job + _INDEX]
    xb = L[at.IDXS] + x * at.XSZ
    cols = L[xb + at.X_COLS]
    rb = L[at.RELS] + L[xb + at.X_REL] * at.RSZ
    rows = L[rb + at.R_ROWS]
    stride = L[rb + at.R_STRIDE]
    positions = L[xb + at.X_POS]
    base = L[xb + at.X_SLOTS]
    cap = L[xb + at.X_CAP]
    limit = np.int64(0)
    if L[job + _OF] > 1:
        least = 256 * (L[job + _PART] + 1) // L[job + _OF] << RANGE
        limit = (least * cap) >> at.HASH_BITS
    cells = L[job + _LIST]
    keys = np.int64(0)
    begin = np.int64(0)
    while begin < L[job + _ROWS]:
        end = _run_end(L, job, begin)
        _look_ahead(A, L, job, begin, end)
        slot = idx_glance(L, x, L[cells + begin] >> 32)
        offset = rows + (L[cells + begin] & _MASK) * stride
        _key_of(A, L, xb, offset, (job + _KEY) * 2)
        new = np.int64(0)
        if slot < 0:
            new = _free_slot(L, base, cap, L[cells + begin] >> 32, limit)
        is_other = new < 0 or (slot >= 0 and slot_has(A, L, x, slot, (job + _KEY) * 2) == 0)
        count = np.int64(0)  # of rows with the key of the first, which go to the front
        for k in range(begin, end):
            offset = rows + (L[cells + k] & _MASK) * stride + at.COLS
            same = not is_other
            for c in range(L[xb + at.X_NKEY]):
                if A[offset + L[cols + c]] != A[(job + _KEY) * 2 + c]:
                    same = False
                    break
            if same:
                L[cells + begin + count], L[cells + k] = L[cells + k], L[cells + begin + count]
                count += 1
            else:
                A[positions + (L[cells + k] & _MASK)] = L[job + _LEFT]
                L[job + _LEFT] = (L[cells + k] & _MASK) + 1
        if count > 0:
            held = np.int64(0)
            size = np.int64(0)
            own = L[cells + begin] & _MASK  # the bucket, or the one row
            if slot >= 0:
                held = L[slot + 1] & _MASK
                size = L[slot + 1] >> 32
                own = (L[slot] & _MASK) - 1
            if held + count > 1 and _class_for(held + count) > size:
                c = _class_for(held + end - begin)  # as it was counted, with rows left over
                ref = _next_bucket(A, L, job, c)
                if held == 1 and size == 0:
                    A[bucket_start(L, ref)] = own
                if size:
                    for k in range(held):
                        A[bucket_start(L, ref) + k] = A[bucket_start(L, own) + k]
                    if L[job + _FREED + size] == 0:
                        L[job + _FREED_FIRST + size] = own + 1
                    A[bucket_start(L, own)] = L[job + _FREED + size]
                    L[job + _FREED + size] = own + 1
                own = ref
                size = c
            for k in range(count):
                row = L[cells + begin + k] & _MASK
                if size:
                    A[bucket_start(L, own) + held + k] = row
                A[positions + row] = held + k
            head = ((L[cells + begin] >> 32) << 32) | (own + 1)
            if slot < 0:
                slot = new
                keys += 1
            L[slot] = head
            L[slot + 1] = (size << 32) | (held + count)
        begin = end
    L[job + _KEYS] = keys


@kernel("v:ALi")
def _close(A, L, job):
    """Hand back what a job has worked in, and buckets that it has not used."""
    for c in range(1, 32):
        while L[job + _BUCKETS + c] != 0 and L[job + _REF] != 0:
            bucket_give(A, L, _next_bucket(A, L, job, np.int64(c)), np.int64(c))
    before = np.int64(at.JOBS)
    while L[before] != job:
        before = L[before] + _NEXT
    L[before] = L[job + _NEXT]
    _drop_tally(L, job)
    if L[job + _LISTED] > 0:
        recycle(L, L[job + _TOP] * 2, L[job + _LISTED] * 2)
    recycle(L, job * 2, np.int64(_CELLS * 2))


@kernel("v:AL")
def close_jobs(A, L):
    """Close all jobs that were not ended: none has room, or a rollback empties their indexes."""
    while L[at.JOBS] != 0:
        _close(A, L, L[at.JOBS])


@kernel("v:ALi")
def end_entering(A, L, job):
    """Close a job: its index has its new keys, rows left over, and what it outgrew goes."""
    x = L[job + _INDEX]
    xb = L[at.IDXS] + x * at.XSZ
    L[xb + at.X_USED] += L[job + _KEYS]
    L[xb + at.X_LATE] = 0
    if L[job + _TALLIED]:
        if L[job + _PART] == 0:
            note_keys(L, x)
    elif L[xb + at.X_FILTER] != 0:
        cells = L[job + _LIST]
        for k in range(L[job + _ROWS]):
            if k == 0 or (L[cells + k] >> 32) != (L[cells + k - 1] >> 32):
                note_key(L, xb, L[cells + k] >> 32)
    for c in range(32):
        if L[job + _FREED + c] != 0:
            first = bucket_start(L, L[job + _FREED_FIRST + c] - 1)
            A[first] = L[at.BUCKET_FREE + c]
            L[at.BUCKET_FREE + c] = L[job + _FREED + c]
    while L[job + _LEFT] != 0:
        row = L[job + _LEFT] - 1
        L[job + _LEFT] = np.int64(A[L[xb + at.X_POS] + row]) & _MASK
        idx_add(A, L, x, row)
    _close(A, L, job)


@kernel("v:ALii")
def _fill(A, L, x, most):
    """Enter so many more rows into a late index, or what is left. O(rows entered)."""
    xb = L[at.IDXS] + x * at.XSZ
    rows = L[L[at.RELS] + L[xb + at.X_REL] * at.RSZ + at.R_N]
    first = max(L[xb + at.X_LATE] - at.PART, 0)
    last = min(first + most, rows)
    L[xb + at.X_LATE] = 1
    if last > first:
        job = entering(L, x, -1 - first, last, 0, 1)
        count_rows(A, L, job)
        make_list_room(A, L, job)
        list_rows(A, L, job)
        sort_keys(A, L, job)
        make_index_room(A, L, job)
        enter_keys(A, L, job)
        end_entering(A, L, job)
    L[xb + at.X_LATE] = 0 if last >= rows else at.PART + last


@kernel("v:ALi")
def fill_index(A, L, x):
    """Enter the rows that are in the other indexes of its relation into index `x`, a late one.

    O(rows not entered). It is late no more; a MemoryError leaves it late, and a rollback empties
    it.
    """
    _fill(A, L, x, L[L[at.RELS] + L[L[at.IDXS] + x * at.XSZ + at.X_REL] * at.RSZ + at.R_N])


@kernel("i:ALi")
def fill_part(A, L, x):
    """Enter some more rows into late index `x` for a lookup. Returns 1 if it is whole now.

    An eighth, and twice as many each time in an epoch, so that neither one lookup pays for all of
    it nor many look through all rows; of few rows, or where rules are evaluated from nothing, all.
    """
    rows = L[L[at.RELS] + L[L[at.IDXS] + x * at.XSZ + at.X_REL] * at.RSZ + at.R_N]
    if rows < L[at.PARTS_FROM] or L[at.S_FULL]:
        fill_index(A, L, x)
    else:
        _fill(A, L, x, (rows >> max(_PARTS - L[at.SCANS], 0)) + 1)
        L[at.SCANS] += 1
    return np.int64(L[L[at.IDXS] + x * at.XSZ + at.X_LATE] == 0)
