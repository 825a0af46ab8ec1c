"""Lanes: the rows of one phase of a large evaluation, evaluated by several threads side by side.

A lane is a thread with a header of its own. Headers lie one after another at the arena's front, so
the arena seen from a lane's header on is one in which the kernel runs as it is: its descriptors are
copies whose pointers count from there. Lanes read tables and write none; the heads that they find
wait in batches of their own (`batch`). When a batch is full all stop, and the heads are counted by
zone, a range of hashes and so of slots of the key table: a thread each, too.

A round: `open_round` says which rows are at hand (the queue's, which `take_up` makes true, or those
of the relation that a rule is evaluated from), `lend` makes each lane's header, `maintain` runs
lanes over parts of the rows.
Whenever they stop: key tables grow (`grow_keys`), `begin_counting`, then `count_zone` for all
zones, `place_heads`, `place_zone` for all zones, `end_counting`, until that says that nothing
waits; then lanes go on. `close_round`.
Calls that have a lane or a zone are one thread's each, the others between them (`engine.lanes`).

Invariant: rows of a round are all true from its start, and one sees those of lower rank alone, so
a derivation with several of them is found once, from the last; what is counted is what one row
after another would give, for ranks in another order. Only phases in which nothing is lost are
shared (`batch`), of strata that make no values and ask for none (`T_SHARED`).
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.batch import PARTS, TEMPORARY, ask_row, count_known, entry_width
from deltafix.kernel.blocks import next_item
from deltafix.kernel.emit import gain
from deltafix.kernel.frames import vector_cells
from deltafix.kernel.index import index_row
from deltafix.kernel.jit import kernel, prefetch
from deltafix.kernel.keys import key_find, key_reserve, open_growth
from deltafix.kernel.memory import recycle, room, row_room, scratch
from deltafix.kernel.phases import next_in_part
from deltafix.kernel.runs import note_created, push_rows

_TAKE = 7  # `maintain`'s phase
_GROWS = 2
_FOR_EACH_ROW = 4
_LEAST_ROOM = 64
_NEW = 1 << 18
"""Heads a zone may find new before their rows are made: three cells each."""
_PUT_OFF = 1 << 16
_SAMPLE = 64
_LEAST_NEW = 4096
_SLOT_AHEAD = 32
_ENTRY_AHEAD = 12
_RING = 8
"""Heads between asking for a row and counting its derivation; a power of two."""

# --- a zone's cells ------------------------------------------------------------------------------
_Z_NEW = 0  # heads found new
_Z_PUT_OFF = 1  # heads that one thread must count
_Z_REL = 2  # where it stands: relation of the stratum, partition, batch, entry
_Z_PART = 3
_Z_BATCH = 4
_Z_ENTRY = 5
_Z_RING = 6  # for the heads that come next, the slot to begin with
_Z_RELS = _Z_RING + _RING  # for each relation: its first new head, and that one's row and rank
_Z_REL_CELLS = 3


@kernel("i:LPi")
def rows_left(L, P, t):
    """Rows that the rule at hand is still to be evaluated from, in phase FULL."""
    first = np.int64(P[t + at.T_NCONST])
    if L[at.S_ITEM] < first or L[at.S_ITEM] - first >= P[t + at.T_NFULL]:
        return np.int64(0)
    r = np.int64(P[P[L[at.S_START]] + at.V_TRIGGER])
    return L[L[at.RELS] + r * at.RSZ + at.R_N] - L[at.S_ROW]


@kernel("i:LPii")
def is_shared(L, P, t, rows):
    """Whether lanes go on with the phase at hand, of which so many rows are left."""
    return np.int64(
        L[at.LANES] > 0
        and rows >= L[at.SHARE_FROM]
        and L[at.BATCH] != 0
        and L[at.PIPE] == 0
        and P[t + at.T_SHARED] != 0
    )


# --- what lanes and zones work in ---------------------------------------------------------------


@kernel("i:L")
def _indexes(L):
    """How many index descriptors there are."""
    n = np.int64(0)
    for r in range(L[at.N_RELS]):
        rb = L[at.RELS] + r * at.RSZ
        n = max(n, L[rb + at.R_IDX] + L[rb + at.R_NIDX])
    return n


@kernel("i:L")
def _lane_cells(L):
    """Cells of a lane behind its header: descriptors, variables, join levels, counters, vectors."""
    cells = L[at.N_RELS] * at.RSZ + _indexes(L) * at.XSZ + L[at.N_FILTERS] * at.FILTER_SIZE
    cells += vector_cells(L[at.N_VARS])
    return cells + L[at.N_VARS] * 2 + L[at.N_LEVELS] * at.LEVEL + L[at.N_RULES] + 8


@kernel("i:LPi")
def _zone_cells(L, P, t):
    """Cells of a zone."""
    rels = (P[t + at.T_NRELS] + 1) * _Z_REL_CELLS
    return np.int64(_Z_RELS + rels + 3 * _NEW + 2 * _PUT_OFF)


@kernel("i:LPi")
def _table_cells(L, P, t):
    """Cells of the table of batches: for each relation of the stratum and lane, where, how large.

    That of the arena's own header comes first.
    """
    return np.int64(P[t + at.T_NRELS] * (L[at.LANES] + 1) * 2)


@kernel("i:Li")
def _lane_room(L, rb):
    """Entries of a partition of one lane's batch: all lanes' together some four times its rows.

    Each time one is full all stop, which takes 0.2 ms.
    """
    most = L[at.BATCH_CELLS] // (PARTS * entry_width(L, rb))
    wanted = max(_FOR_EACH_ROW * L[rb + at.R_N] // PARTS, _LEAST_ROOM)
    return max(min(most, wanted) // L[at.LANES], 4)


@kernel("i:LPi")
def _wanted(L, P, t):
    """Cells that lanes and zones of stratum `t` would like."""
    cells = _table_cells(L, P, t) + L[at.LANES] * (_lane_cells(L) + _zone_cells(L, P, t))
    for k in range(P[t + at.T_NRELS]):
        rb = L[at.RELS] + P[P[t + at.T_RELS] + k] * at.RSZ
        entries = PARTS * _lane_room(L, rb) * entry_width(L, rb)
        cells += L[at.LANES] * (PARTS + entries)
    return cells


@kernel("v:LPi")
def _settle_in(L, P, t):
    """Have a block for what lanes and zones need, and the table of batches filled in."""
    wanted = _wanted(L, P, t)
    if L[at.SHARED] == 0 or wanted * 2 > L[at.SHARED_WORDS] * _GROWS:
        if L[at.SHARED] != 0:
            recycle(L, L[at.SHARED] * 2, L[at.SHARED_WORDS])
            L[at.SHARED] = 0
        cell = _table_cells(L, P, t) + L[at.LANES] * _lane_cells(L)
        L[at.SHARED] = scratch(L, wanted * 2, cell * 2) // 2  # zones and batches set what they read
        L[at.SHARED_WORDS] = wanted * 2
        cell += L[at.SHARED] + L[at.LANES] * _zone_cells(L, P, t)
        for k in range(P[t + at.T_NRELS]):
            rb = L[at.RELS] + P[P[t + at.T_RELS] + k] * at.RSZ
            entries = _lane_room(L, rb)
            for lane in range(1, L[at.LANES] + 1):
                entry = L[at.SHARED] + (k * (L[at.LANES] + 1) + lane) * 2
                L[entry] = cell
                L[entry + 1] = entries
                for p in range(PARTS):
                    L[cell + p] = 0
                cell += PARTS + PARTS * entries * entry_width(L, rb)
    for k in range(P[t + at.T_NRELS]):
        rb = L[at.RELS] + P[P[t + at.T_RELS] + k] * at.RSZ
        entry = L[at.SHARED] + k * (L[at.LANES] + 1) * 2
        L[entry] = L[rb + at.R_BATCH]
        L[entry + 1] = L[rb + at.R_BATCH_ROOM]


@kernel("i:LPii")
def _zone(L, P, t, z):
    """The first cell of zone `z`."""
    first = L[at.SHARED] + _table_cells(L, P, t) + L[at.LANES] * _lane_cells(L)
    return first + z * _zone_cells(L, P, t)


# --- lanes ----------------------------------------------------------------------------------------


@kernel("i:ALP")
def open_round(A, L, P):
    """Which rows of the phase are at hand: of the queue, or of a rule's relation, up to `S_END`.

    Returns how many; those of the queue are to be entered into indexes, then taken up.
    """
    t = np.int64(P[P[1] + L[at.S_STRATUM]])
    _settle_in(L, P, t)
    if L[at.S_PHASE] % 16 != _TAKE:
        n = rows_left(L, P, t)
        L[at.S_END] = L[at.S_ROW] + n
        return n
    while L[at.S_HEAD] < L[at.Q + 1]:
        value = L[L[at.Q] + L[at.S_HEAD]]
        rb = L[at.RELS] + (value >> 32) * at.RSZ
        if L[(L[rb + at.R_ROWS] + (value & 0xFFFFFFFF) * L[rb + at.R_STRIDE]) >> 1] & at.PENDING:
            break
        L[at.S_HEAD] += 1
    end = L[at.S_HEAD]
    while end < L[at.Q + 1]:
        value = L[L[at.Q] + end]
        rb = L[at.RELS] + (value >> 32) * at.RSZ
        cell = (L[rb + at.R_ROWS] + (value & 0xFFFFFFFF) * L[rb + at.R_STRIDE]) >> 1
        if not (L[cell] & at.PENDING):
            break
        end += 1
    L[at.S_END] = end
    return end - L[at.S_HEAD]


@kernel("v:ALi")
def take_up(A, L, entered):
    """The rows of the queue at hand become true; if not `entered`, into indexes they go, too."""
    for position in range(L[at.S_HEAD], L[at.S_END]):
        value = L[L[at.Q] + position]
        rb = L[at.RELS] + (value >> 32) * at.RSZ
        cell = (L[rb + at.R_ROWS] + (value & 0xFFFFFFFF) * L[rb + at.R_STRIDE]) >> 1
        if not entered:
            index_row(A, L, value >> 32, value & 0xFFFFFFFF)
        L[cell] = (L[cell] & ~(at.PENDING | at.MOVED)) | at.NOW | at.INDEXED
        L[rb + at.R_NOW] += 1
    L[at.C_TAKEN] += L[at.S_END] - L[at.S_HEAD]
    if 0 < L[at.MAX_ROUNDS] < L[at.C_TAKEN]:
        L[at.ERROR] = at.ERR_ROUNDS


@kernel("v:LPiii")
def _collect(L, P, t, h, s):
    """Add what the lane with header `h`, `s` cells from the arena's, has counted, and clear it."""
    for c in range(at.C_DERIVATIONS, at.C_PROBED + 1):
        L[c] += L[h + c]
        L[h + c] = 0
    L[at.C_TRIED] += L[h + at.C_TRIED]
    L[h + at.C_TRIED] = 0
    for k in range(P[t + at.T_NRELS]):
        r = np.int64(P[P[t + at.T_RELS] + k])
        cell = L[h + at.RELS] + s + r * at.RSZ + at.R_DERIVATIONS
        L[L[at.RELS] + r * at.RSZ + at.R_DERIVATIONS] += L[cell]
        L[cell] = 0
    for rule in range(L[at.N_RULES]):
        cell = L[h + at.RULE_COUNTS] + s + rule
        L[L[at.RULE_COUNTS] + rule] += L[cell]
        L[cell] = 0


@kernel("v:LPii")
def lend(L, P, lane, begin):
    """Make, or bring up to date, a lane's header: between rounds of it. O(tables).

    `begin` 1: for a new round. Else it goes on where it stopped, and what it has counted is added.
    """
    t = np.int64(P[P[1] + L[at.S_STRATUM]])
    h = np.int64(lane * at.LANE_CELLS)
    s = h
    own = L[at.SHARED] + _table_cells(L, P, t) + (lane - 1) * _lane_cells(L)
    filters = own + L[at.N_RELS] * at.RSZ + _indexes(L) * at.XSZ
    variables = filters + L[at.N_FILTERS] * at.FILTER_SIZE
    levels = variables + L[at.N_VARS] * 2
    rules = levels + L[at.N_LEVELS] * at.LEVEL
    if begin:
        for c in range(at.HEADER_CELLS):
            L[h + c] = L[c]
        L[h + at.LANE] = lane
        L[h + at.LIMIT] = 0  # it takes no block
        L[h + at.FREE + 1] = 0
        L[h + at.PAUSED] = 0
        L[h + at.P_POS] = 0
        L[h + at.T_LEFT] = 0
        L[h + at.T_THEN] = at.THEN_NEXT
        L[h + at.EMITTED] = 0
        L[h + at.LATE] = 0
        L[h + at.BLOCK_RULES] = 0
        L[h + at.ITEMS] = 0
        L[h + at.ITEM] = 0
        for c in range(at.C_DERIVATIONS, at.C_PROBED + 1):
            L[h + c] = 0
        L[h + at.C_TRIED] = 0
        L[h + at.VARS] = (variables + L[at.N_VARS] - s) * 2  # raw values, then codes
        L[h + at.VECTORS] = rules + L[at.N_RULES] - s
        L[h + at.FRAME] = L[h + at.VECTORS]
        L[h + at.STACK] = levels - s
        L[h + at.RULE_COUNTS] = rules - s
        for rule in range(L[at.N_RULES]):
            L[rules + rule] = 0
    else:
        _collect(L, P, t, h, s)
        L[h + at.LOOK] += 1  # an index that was filled has keys that filters did not have before
    L[h + at.RELS] = own - s
    L[h + at.IDXS] = own + L[at.N_RELS] * at.RSZ - s
    L[h + at.FILTERS] = filters - s
    L[h + at.BUCKETS] = L[at.BUCKETS] - 2 * s
    L[h + at.WIDE] = L[at.WIDE] - s
    L[h + at.WIDE_SLOTS] = L[at.WIDE_SLOTS] - s
    L[h + at.SYM] = L[at.SYM] - s
    L[h + at.Q] = L[at.Q] - s
    for r in range(L[at.N_RELS]):
        rb = own + r * at.RSZ
        for c in range(at.RSZ):
            L[rb + c] = L[L[at.RELS] + r * at.RSZ + c]
        L[rb + at.R_ROWS] -= 2 * s
        L[rb + at.R_PK] -= s
        L[rb + at.R_DERIVATIONS] = 0
        L[rb + at.R_BATCH] = 0
    for k in range(P[t + at.T_NRELS]):
        rb = own + P[P[t + at.T_RELS] + k] * at.RSZ
        entry = L[at.SHARED] + (k * (L[at.LANES] + 1) + lane) * 2
        L[rb + at.R_BATCH] = L[entry] - s
        L[rb + at.R_BATCH_ROOM] = L[entry + 1]
    for x in range(_indexes(L)):
        xb = own + L[at.N_RELS] * at.RSZ + x * at.XSZ
        for c in range(at.XSZ):
            L[xb + c] = L[L[at.IDXS] + x * at.XSZ + c]
        L[xb + at.X_SLOTS] -= s
        L[xb + at.X_COLS] -= s
    for f in range(L[at.N_FILTERS]):
        fb = filters + f * at.FILTER_SIZE
        for c in range(at.FILTER_SIZE):
            L[fb + c] = L[L[at.FILTERS] + f * at.FILTER_SIZE + c]
        L[fb + at.FILTER_CELLS] -= s


@kernel("i:ALPi")
def next_in_lane(A, L, P, t):
    """Take a lane's next row and rule as a task: GO. DONE: its part is; YIELD: all must stop."""
    if L[at.QUOTA] < L[at.C_PROBED] + L[at.C_DERIVATIONS]:
        return np.int64(at.YIELD)
    if L[at.S_PHASE] % 16 != _TAKE:
        return np.int64(at.GO if next_in_part(A, L, P) else at.DONE)
    return np.int64(at.GO if next_item(A, L, P, t) else at.DONE)


@kernel("v:LP")
def close_round(L, P):
    """The rows of the round are done, all lanes' headers up to date, and nothing waits."""
    t = np.int64(P[P[1] + L[at.S_STRATUM]])
    for lane in range(1, L[at.LANES] + 1):
        _collect(L, P, t, np.int64(lane * at.LANE_CELLS), np.int64(lane * at.LANE_CELLS))
    if L[at.S_PHASE] % 16 == _TAKE:
        L[at.S_HEAD] = L[at.S_END]
    else:
        L[at.S_ROW] = L[at.S_END]


# --- zones ----------------------------------------------------------------------------------------


@kernel("i:ALPi")
def _estimate(A, L, P, k):
    """How many of the heads of one relation that wait are probably new; at least a few."""
    t = np.int64(P[P[1] + L[at.S_STRATUM]])
    r = np.int64(P[P[t + at.T_RELS] + k])
    rb = L[at.RELS] + r * at.RSZ
    width = entry_width(L, rb)
    total = np.int64(0)
    asked = np.int64(0)
    new = np.int64(0)
    for b in range(L[at.LANES] + 1):
        entry = L[at.SHARED] + (k * (L[at.LANES] + 1) + b) * 2
        if L[entry] == 0:
            continue
        seen = np.int64(0)
        for p in range(PARTS):
            n = L[L[entry] + p]
            total += n
            for e in range(min(n, _SAMPLE - seen)):
                cell = L[entry] + PARTS + (p * L[entry + 1] + e) * width
                new += key_find(A, L, A, r, 2 * cell + 4, L[cell]) < 0
                asked += 1
                seen += 1
    if total == 0:
        return np.int64(0)
    # A zone gets its share of what is free: at least some, or it would never come to an end.
    return min(total, total * new // max(asked, 1) + _LEAST_NEW) + _SAMPLE * L[at.LANES]


@kernel("i:ALPi")
def grow_keys(A, L, P, k):
    """Begin to grow the key table of the stratum's relation `k` for what waits. 0: not by parts."""
    t = np.int64(P[P[1] + L[at.S_STRATUM]])
    return open_growth(L, np.int64(P[P[t + at.T_RELS] + k]), _estimate(A, L, P, k), L[at.LANES])


@kernel("v:ALPi")
def begin_counting(A, L, P, again):
    """Make room in key tables for what waits; unless `again`, zones stand at their first heads."""
    t = np.int64(P[P[1] + L[at.S_STRATUM]])
    for k in range(P[t + at.T_NRELS]):
        key_reserve(L, np.int64(P[P[t + at.T_RELS] + k]), _estimate(A, L, P, k))
    for z in range(L[at.LANES]):
        zb = _zone(L, P, t, z)
        if not again:
            for c in range(_Z_RELS):
                L[zb + c] = 0
            L[zb + _Z_PART] = PARTS * z // L[at.LANES]


@kernel("i:Lii")
def _first_slot(L, rb, p):
    """The slot of a key table at which partition `p` begins."""
    return ((np.int64(p) << (at.HASH_BITS - 8)) * L[rb + at.R_PKCAP]) >> at.HASH_BITS


@kernel("i:ALiiiiiii")
def _count_in_zone(A, L, zb, new, r, e, s, end, most):
    """Count the head of entry `e` in a zone whose slots end at `end`; none before `s` has it.

    1: done. 0: it is one thread's. -1: there are `most` new heads already.
    """
    rb = L[at.RELS] + r * at.RSZ
    base = L[rb + at.R_PK]
    arity = L[rb + at.R_ARITY]
    h = L[e]
    while s < end:
        v = L[base + s]
        if v == 0:
            n = L[zb + _Z_NEW]
            if n >= most:
                return np.int64(-1)
            L[new + 3 * n] = e
            L[new + 3 * n + 1] = base + s
            L[new + 3 * n + 2] = 1
            L[base + s] = (h << 32) | (TEMPORARY + n)
            L[zb + _Z_NEW] = n + 1
            return np.int64(1)
        if (v >> 32) == h:
            low = v & 0xFFFFFFFF
            offset = L[rb + at.R_ROWS] + (low - 1) * L[rb + at.R_STRIDE] + at.COLS
            if low >= TEMPORARY:
                offset = 2 * L[new + 3 * (low - TEMPORARY)] + 4
            same = True
            for k in range(arity):
                if A[offset + k] != A[2 * e + 4 + k]:
                    same = False
                    break
            if same and low < TEMPORARY:
                return count_known(A, L, r, low - 1, L[e + 1])
            if same:
                L[new + 3 * (low - TEMPORARY) + 2] += 1
                return np.int64(1)
        s += 1
    return np.int64(0)


@kernel("v:ALPi")
def count_zone(A, L, P, z):
    """Count the heads that wait in zone `z`, until its list of new ones is full. One thread a zone.

    A new head gets a slot, which names it in the list; its row is made by `place_zone`. A partition
    of all batches comes before the next partition, so slots and rows in cache are met by them all.
    """
    t = np.int64(P[P[1] + L[at.S_STRATUM]])
    nrels = np.int64(P[t + at.T_NRELS])
    zb = _zone(L, P, t, z)
    ring = zb + _Z_RING
    new = zb + _Z_RELS + (nrels + 1) * _Z_REL_CELLS
    put_off = new + 3 * _NEW
    first = np.int64(PARTS * z // L[at.LANES])
    last = np.int64(PARTS * (z + 1) // L[at.LANES])
    L[zb + _Z_NEW] = 0
    L[zb + _Z_PUT_OFF] = 0
    k = L[zb + _Z_REL]
    for before in range(k):
        L[zb + _Z_RELS + before * _Z_REL_CELLS] = 0
    full = np.int64(0)
    while k < nrels:
        L[zb + _Z_RELS + k * _Z_REL_CELLS] = L[zb + _Z_NEW]
        r = np.int64(P[P[t + at.T_RELS] + k])
        rb = L[at.RELS] + r * at.RSZ
        width = entry_width(L, rb)
        end = _first_slot(L, rb, last)
        free = max(L[rb + at.R_PKCAP] * 17 // 20 - L[rb + at.R_PKUSED], 0) // L[at.LANES]
        most = min(L[zb + _Z_NEW] + free, _NEW)
        while L[zb + _Z_PART] < last and not full:
            p = L[zb + _Z_PART]
            while L[zb + _Z_BATCH] <= L[at.LANES] and not full:
                entry = L[at.SHARED] + (k * (L[at.LANES] + 1) + L[zb + _Z_BATCH]) * 2
                batch = L[entry]
                start = batch + PARTS + p * L[entry + 1] * width
                n = L[batch + p] if batch else np.int64(0)
                i = L[zb + _Z_ENTRY]
                for j in range(i, min(i + _RING, n)):
                    L[ring + (j & (_RING - 1))] = ask_row(L, rb, L[start + j * width], end)
                while i < n:
                    e = start + i * width
                    if i + _SLOT_AHEAD < n:
                        h = L[e + _SLOT_AHEAD * width]
                        slot = (h * L[rb + at.R_PKCAP]) >> at.HASH_BITS
                        prefetch(L, L[rb + at.R_PK] + slot)
                    here = ring + (i & (_RING - 1))
                    s = L[here]
                    if i + _RING < n:
                        L[here] = ask_row(L, rb, L[e + _RING * width], end)
                    counted = _count_in_zone(A, L, zb, new, r, e, s, end, most)
                    if counted == 0:
                        if L[zb + _Z_PUT_OFF] == _PUT_OFF:
                            counted = np.int64(-1)
                        else:
                            L[put_off + 2 * L[zb + _Z_PUT_OFF]] = r
                            L[put_off + 2 * L[zb + _Z_PUT_OFF] + 1] = e
                            L[zb + _Z_PUT_OFF] += 1
                    if counted < 0:
                        full = np.int64(1)
                        break
                    i += 1
                L[zb + _Z_ENTRY] = i
                if not full:
                    if n:
                        L[batch + p] = 0
                    L[zb + _Z_ENTRY] = 0
                    L[zb + _Z_BATCH] += 1
            if not full:
                L[zb + _Z_BATCH] = 0
                L[zb + _Z_PART] += 1
        if full:
            break
        L[zb + _Z_PART] = first
        k += 1
    L[zb + _Z_REL] = k
    for behind in range(k + full, nrels + 1):
        L[zb + _Z_RELS + behind * _Z_REL_CELLS] = L[zb + _Z_NEW]


@kernel("v:ALP")
def place_heads(A, L, P):
    """Give the zones' new heads their rows and ranks, and list them.

    MemoryError: `forget_heads` then.
    """
    t = np.int64(P[P[1] + L[at.S_STRATUM]])
    total = np.int64(0)
    for k in range(P[t + at.T_NRELS]):
        n = np.int64(0)
        for z in range(L[at.LANES]):
            own = _zone(L, P, t, z) + _Z_RELS + k * _Z_REL_CELLS
            n += L[own + _Z_REL_CELLS] - L[own]
        row_room(A, L, np.int64(P[P[t + at.T_RELS] + k]), n)
        total += n
    room(L, at.CREATED, np.int64(2 * P[t + at.T_NRELS]))
    room(L, at.WAITING, np.int64(2 * P[t + at.T_NRELS]))
    L[at.S_QUEUED] += total
    for k in range(P[t + at.T_NRELS]):
        r = np.int64(P[P[t + at.T_RELS] + k])
        rb = L[at.RELS] + r * at.RSZ
        for z in range(L[at.LANES]):
            own = _zone(L, P, t, z) + _Z_RELS + k * _Z_REL_CELLS
            n = L[own + _Z_REL_CELLS] - L[own]
            if n > 0:
                note_created(L, (r << 32) | L[rb + at.R_N], n)
                if L[at.RECURSIVE]:
                    push_rows(L, np.int64(at.WAITING), (r << 32) | L[rb + at.R_N], n)
            L[own + 1] = L[rb + at.R_N]
            L[own + 2] = L[at.CLOCK]
            L[rb + at.R_N] += n
            L[rb + at.R_PKUSED] += n
            L[at.CLOCK] += n * at.GAP
            L[at.C_CREATED] += n
    if 0 < L[at.MAX_ROWS] < L[at.C_CREATED]:
        L[at.ERROR] = at.ERR_ROWS


@kernel("v:LP")
def forget_heads(L, P):
    """Take the zones' new heads out of the key tables."""
    t = np.int64(P[P[1] + L[at.S_STRATUM]])
    for z in range(L[at.LANES]):
        zb = _zone(L, P, t, z)
        new = zb + _Z_RELS + (P[t + at.T_NRELS] + 1) * _Z_REL_CELLS
        for n in range(L[zb + _Z_NEW]):
            L[L[new + 3 * n + 1]] = 0


@kernel("v:ALPi")
def place_zone(A, L, P, z):
    """Make the rows of the new heads of zone `z`. One thread a zone."""
    t = np.int64(P[P[1] + L[at.S_STRATUM]])
    zb = _zone(L, P, t, z)
    new = zb + _Z_RELS + (P[t + at.T_NRELS] + 1) * _Z_REL_CELLS
    for k in range(P[t + at.T_NRELS]):
        r = np.int64(P[P[t + at.T_RELS] + k])
        rb = L[at.RELS] + r * at.RSZ
        own = zb + _Z_RELS + k * _Z_REL_CELLS
        arity = L[rb + at.R_ARITY]
        row = L[own + 1]
        rank = L[own + 2]
        for n in range(L[own], L[own + _Z_REL_CELLS]):
            e = L[new + 3 * n]
            slot = L[new + 3 * n + 1]
            if n + _ENTRY_AHEAD < L[own + _Z_REL_CELLS]:
                prefetch(L, L[new + 3 * (n + _ENTRY_AHEAD)])
                prefetch(L, L[new + 3 * (n + _ENTRY_AHEAD) + 1])
            rank += at.GAP
            offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
            L[offset >> 1] = (rank << at.RANK_SHIFT) | at.USED | at.PENDING | at.TOUCHED
            A[offset + at.SUPPORT] = L[new + 3 * n + 2]
            if L[rb + at.R_ALL]:
                A[offset + L[rb + at.R_ALL]] = L[new + 3 * n + 2]
            for c in range(arity):
                A[offset + at.COLS + c] = A[2 * e + 4 + c]
            L[slot] = (L[e] << 32) | (row + 1)
            row += 1


@kernel("i:ALP")
def end_counting(A, L, P):
    """Count what zones have put off. 1: heads still wait, and zones go on where they stand."""
    t = np.int64(P[P[1] + L[at.S_STRATUM]])
    left = np.int64(0)
    for z in range(L[at.LANES]):
        zb = _zone(L, P, t, z)
        put_off = zb + _Z_RELS + (P[t + at.T_NRELS] + 1) * _Z_REL_CELLS + 3 * _NEW
        for n in range(L[zb + _Z_PUT_OFF]):
            e = L[put_off + 2 * n + 1]
            gain(A, L, 2 * e + 4, L[e], L[e + 1], L[put_off + 2 * n], at.MODE_TAKE)
        if L[zb + _Z_REL] < P[t + at.T_NRELS]:
            left = np.int64(1)
    return left
