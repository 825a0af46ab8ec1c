"""One delta rule for one row: find every binding of the rule's body that uses the row.

A variant is a rule seen from one of its literals, the trigger. Its program is a graph of nodes;
a node says which checks have become ready and which literals could come next. Which of them
does is decided here, per binding: the one with the fewest candidate rows (count, propose,
intersect). `S_BEFORE`/`S_AFTER` say which state literals of lower strata see, left and right of
the trigger, so that a derivation with several changed rows is found exactly once.

Invariant: nothing this module reads changes while it runs, apart from rows created by `emit`,
which are not visible. Heads go to the block of emitted heads; `emit.flush` decides.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.ahead import ask_children
from deltafix.kernel.batch import count_batch, note_derivations, open_batch, wait
from deltafix.kernel.checks import fits_row, gather, operand, run_check, state_holds
from deltafix.kernel.emit import flush
from deltafix.kernel.enter import fill_index, fill_part
from deltafix.kernel.fold import pipe
from deltafix.kernel.index import bucket_start, idx_find, idx_glance, slot_has
from deltafix.kernel.jit import kernel, prefetch
from deltafix.kernel.keys import hash_end, hash_more, hash_words, key_find

_ROWS_AHEAD = 8
FEW = 16
"""Rows up to which no index is filled to find fewer."""


@kernel("i:ALPiib")
def _open(A, L, P, s, slot, gathers):
    """Open the join level at `s` with its literal's rows in a slot that has the key's hash.

    The key is in KEY, or it `gathers` it. Returns 0 if no slot has the key.
    """
    c = L[s]
    if gathers:
        gather(A, L, P, P[c + at.K_KEYS], P[c + at.K_NKEYS])
    L[s + 2] = 0
    if slot_has(A, L, np.int64(P[c + at.K_INDEX]), slot, at.KEY) == 0:
        slot = idx_find(A, L, np.int64(P[c + at.K_INDEX]), at.KEY, L[slot] >> 32)
        if slot < 0:
            return np.int64(0)
    L[s + 1] = 0 if (L[slot + 1] >> 32) == 0 else 1
    L[s + 3] = L[slot + 1] & 0xFFFFFFFF
    L[s + 4] = (L[slot] & 0xFFFFFFFF) - 1
    return np.int64(1)


@kernel("i:ALii")
def _has_key(A, L, x, offset):
    """Whether the row at word `offset` has the key at KEY in the columns of index `x`."""
    xb = L[at.IDXS] + x * at.XSZ
    cols = L[xb + at.X_COLS]
    for k in range(L[xb + at.X_NKEY]):
        if A[offset + at.COLS + L[cols + k]] != A[at.KEY + k]:
            return np.int64(0)
    return np.int64(1)


@kernel("i:ALPiii")
def _choose(A, L, P, node, level, scans):
    """Open join level `level` with the candidate literal that has the fewest rows.

    Returns 0 if some literal has none, so that the binding fails at once. Buckets and rows of the
    literals that are not chosen are not touched (galen: two thirds of all cache misses were those).
    A late index is not asked where another literal has few rows, or one by its key. Where a level
    may look through all rows for a key (`scans`), it does until the index is filled, which each
    lookup does in part; else it is filled first. 2: a lane must wait until it is.
    """
    s = L[at.STACK] + level * at.LEVEL
    best = np.int64(-1)
    slot = np.int64(-1)
    late = np.int64(-1)
    literal = np.int64(-1)
    n = P[node + 2]
    L[at.C_TRIED] += n
    k = np.int64(0)
    while k < n:
        c = np.int64(P[P[node + 3] + k])
        k += 1
        r = np.int64(P[c + at.K_REL])
        rb = L[at.RELS] + r * at.RSZ
        method = P[c + at.K_METHOD]
        if method == at.BY_KEY:
            h = gather(A, L, P, P[c + at.K_KEYS], P[c + at.K_NKEYS])
            row = key_find(A, L, A, r, at.KEY, h)
            if row < 0:
                return np.int64(0)
            L[s] = c
            L[s + 1] = 0
            L[s + 2] = 0
            L[s + 3] = 1
            L[s + 4] = row
            return np.int64(1)
        if method == at.BY_INDEX:
            x = np.int64(P[c + at.K_INDEX])
            if L[L[at.IDXS] + x * at.XSZ + at.X_LATE]:
                same = P[c + at.K_CLASS] >= at.SAME_BEFORE  # sees what holds now alone
                if L[rb + at.R_NOW] == 0 and (same or L[rb + at.R_WAS] == 0):
                    return np.int64(0)
                late = x
                literal = c
            else:
                h = gather(A, L, P, P[c + at.K_KEYS], P[c + at.K_NKEYS])
                # How many rows a key has is a guess where hashes collide: it only orders literals.
                hit = idx_glance(L, x, h)
                if hit < 0:
                    return np.int64(0)
                count = L[hit + 1] & 0xFFFFFFFF
                if best < 0 or count < best:
                    best = count
                    slot = hit
                    L[s] = c
        else:
            count = L[rb + at.R_N]
            if count == 0:
                return np.int64(0)
            if best < 0 or count < best:
                best = count
                slot = np.int64(-1)
                L[s] = c
        if k == n and late >= 0 and (best < 0 or best > FEW):
            if L[at.LANE]:  # tables are not its own
                L[at.LATE] = late + 1
                return np.int64(2)
            if scans == 0:
                fill_index(A, L, late)
            elif fill_part(A, L, late) == 0:
                L[s] = literal
                L[s + 1] = 3
                L[s + 2] = 0
                L[s + 3] = L[L[at.RELS] + P[literal + at.K_REL] * at.RSZ + at.R_N]
                L[s + 4] = 0
                return np.int64(1)
            best = np.int64(-1)  # look again
            slot = np.int64(-1)
            late = np.int64(-1)
            k = np.int64(0)
    if slot < 0:
        L[s + 1] = 2
        L[s + 2] = 0
        L[s + 3] = best
        L[s + 4] = 0
        return np.int64(1)
    return _open(A, L, P, s, slot, n > 1)


@kernel("i:ALPiii")
def _next(A, L, P, level, m, mode):
    """Advance a join level to its next fitting row. The body rank so far, or -2 at the end."""
    s = L[at.STACK] + level * at.LEVEL
    c = L[s]
    kind = L[s + 1]
    pos = L[s + 2]
    end = L[s + 3]
    r = np.int64(P[c + at.K_REL])
    rb = L[at.RELS] + r * at.RSZ
    rows = L[rb + at.R_ROWS]
    stride = L[rb + at.R_STRIDE]
    cls = P[c + at.K_CLASS]
    nmatch = np.int64(P[c + at.K_NMATCH])
    match = np.int64(P[c + at.K_MATCH])
    if cls == at.LOWER_BEFORE:
        state = L[at.S_BEFORE]
    elif cls >= at.SAME_BEFORE:
        state = np.int64(at.NOW)
    else:
        state = L[at.S_AFTER]
    bucket = bucket_start(L, L[s + 4])
    x = np.int64(P[c + at.K_INDEX])
    if kind == 3:
        gather(A, L, P, P[c + at.K_KEYS], P[c + at.K_NKEYS])
    begin = pos
    while pos < end:
        if kind == 1:
            row = np.int64(A[bucket + pos])
        elif kind >= 2:
            row = pos
        else:
            row = L[s + 4]
        pos += 1
        offset = rows + row * stride
        if kind == 3 and _has_key(A, L, x, offset) == 0:
            begin += 1  # as if it had been looked up
            continue
        word = L[offset >> 1]
        if state_holds(word, state) == 0:
            continue
        rank = m
        if cls >= at.SAME_BEFORE:
            rank = word >> at.RANK_SHIFT
            if mode == at.MODE_QUERY and rank > L[at.BEST]:
                continue
            if cls == at.SAME_BEFORE and row == L[at.TRIGGER_ROW] and r == L[at.TRIGGER_REL]:
                continue
            if L[at.LANE] and mode == at.MODE_TAKE and rank > m:
                continue  # its own turn comes later
            rank = max(rank, m)
        if fits_row(A, L, P, match, nmatch, offset):
            L[s + 2] = pos
            L[at.C_PROBED] += pos - begin
            return rank
    L[at.C_PROBED] += pos - begin
    return np.int64(-2)


@kernel("i:ALPi")
def _of_head(A, L, P, p):
    """A head's column as folds take it: the pattern of what is computed with, else the code."""
    if P[p] >= at.O_RAW:
        return L[(L[at.VARS] >> 1) - 1 - P[p + 1]]
    return operand(A, L, P, p)


@kernel("v:ALPii")
def flush_heads(A, L, P, v, mode):
    """Have the emitted heads of variant `v` counted, or taken by the folds of what is not kept."""
    if L[at.EMITTED] == 0 or L[at.ASKING]:
        return
    rule = np.int64(P[v + at.V_RULE])
    if L[at.PIPE]:
        rb = L[at.RELS] + P[v + at.V_HEAD] * at.RSZ
        sign = np.int64(-1 if mode == at.MODE_DESTROY else 1)
        note_derivations(L, rb, rule, sign * L[at.EMITTED])
        pipe(A, L, P, np.int64(P[v + at.V_HEADOPS]), L[rb + at.R_ARITY], sign)
        return
    flush(A, L, np.int64(P[v + at.V_HEAD]), rule, mode)


@kernel("v:ALPiii")
def emit(A, L, P, v, m, mode):
    """A binding is complete: put its head into the block, or note its rank for a query."""
    if L[at.ASKING]:
        return
    if mode == at.MODE_QUERY:
        L[at.UNFOUND] -= 1
        if m < L[at.BEST]:
            L[at.BEST] = m
            L[at.BEST_COUNT] = 1
        elif m == L[at.BEST]:
            L[at.BEST_COUNT] += 1
        return
    head = np.int64(P[v + at.V_HEAD])
    rb = L[at.RELS] + head * at.RSZ
    ops = np.int64(P[v + at.V_HEADOPS])
    arity = L[rb + at.R_ARITY]
    e = L[at.EMITTED]
    if L[at.PIPE]:
        o = (at.EMIT >> 1) + e * arity
        for k in range(arity):
            L[o + k] = _of_head(A, L, P, ops + 2 * k)
        L[at.EMITTED] = e + 1
        if e + 1 == at.EMIT_BLOCK or (e + 2) * arity > at.EMIT_WORDS >> 1:
            flush_heads(A, L, P, v, mode)
        return
    o = at.EMIT + e * arity
    for k in range(arity):
        A[o + k] = operand(A, L, P, ops + 2 * k)
    h = hash_words(A, o, arity)
    if L[at.BATCH]:
        open_batch(L, rb)
        note_derivations(L, rb, np.int64(P[v + at.V_RULE]), 1)
        if wait(A, L, L[rb + at.R_BATCH], L[rb + at.R_BATCH_ROOM], arity, o, h, m):
            if L[at.LANE]:
                L[at.QUOTA] = -1
            else:
                count_batch(A, L, head)
        return
    # The slot is looked at when the block is full: by then its cache line has arrived.
    prefetch(L, L[rb + at.R_PK] + ((h * L[rb + at.R_PKCAP]) >> at.HASH_BITS))
    L[at.EMIT_CELLS + 2 * e] = h
    L[at.EMIT_CELLS + 2 * e + 1] = m
    L[at.EMITTED] = e + 1
    if e + 1 == at.EMIT_BLOCK:
        flush_heads(A, L, P, v, mode)


@kernel("i:ALPii")
def _lay_out(A, L, P, v, c):
    """What a head takes from each row of `c`, its last literal, and what stands for all of them.

    1: the literal binds variables and tests nothing, so that every row of its bucket fits.
    """
    match = np.int64(P[c + at.K_MATCH])
    n = np.int64(P[c + at.K_NMATCH])
    ops = np.int64(P[v + at.V_HEADOPS])
    binds = np.int64(1)
    for j in range(n):
        if P[match + 3 * j + 1] != at.M_BIND:
            binds = np.int64(0)
    for k in range(L[L[at.RELS] + P[v + at.V_HEAD] * at.RSZ + at.R_ARITY]):
        A[at.LAST_COLUMNS + k] = -1
        if P[ops + 2 * k] == at.O_VAR:
            for j in range(n):
                if P[match + 3 * j + 1] == at.M_BIND and P[match + 3 * j + 2] == P[ops + 2 * k + 1]:
                    A[at.LAST_COLUMNS + k] = P[match + 3 * j]
        if A[at.LAST_COLUMNS + k] < 0:
            A[at.LAST + k] = operand(A, L, P, ops + 2 * k)
    return binds


@kernel("i:ALPiii")
def _pour(A, L, P, v, level, m):
    """All heads of the open join level `level`, whose literal is the last, wait to be counted.

    What `_next`, no checks and `emit` do for one row after another, in one loop: a large
    evaluation spends most of its time here (docs/kernel.md, "The last literal"). 1: a lane must
    stop at P_POS, since a partition of its batches is full.
    """
    s = L[at.STACK] + level * at.LEVEL
    c = L[s]
    kind = L[s + 1]
    r = np.int64(P[c + at.K_REL])
    rb = L[at.RELS] + r * at.RSZ
    stride = L[rb + at.R_STRIDE]
    cls = P[c + at.K_CLASS]
    match = np.int64(P[c + at.K_MATCH])
    nmatch = np.int64(P[c + at.K_NMATCH])
    state = L[at.S_AFTER]
    if cls == at.LOWER_BEFORE:
        state = L[at.S_BEFORE]
    elif cls >= at.SAME_BEFORE:
        state = np.int64(at.NOW)
    head = np.int64(P[v + at.V_HEAD])
    hb = L[at.RELS] + head * at.RSZ
    arity = L[hb + at.R_ARITY]
    binds = _lay_out(A, L, P, v, c)
    same = np.int64(0)  # columns in front that all heads share
    while same < arity and A[at.LAST_COLUMNS + same] < 0:
        same += 1
    begun = hash_more(A, at.LAST, same, arity + 1)
    open_batch(L, hb)
    lengths = L[hb + at.R_BATCH]
    room = L[hb + at.R_BATCH_ROOM]
    rows = L[rb + at.R_ROWS]
    bucket = bucket_start(L, L[s + 4])
    derivations = np.int64(0)
    first = L[at.P_POS]
    end = L[s + 3]
    own = np.int64(-1)
    if cls == at.SAME_BEFORE and r == L[at.TRIGGER_REL]:
        own = L[at.TRIGGER_ROW]
    is_late = L[at.LANE] != 0 and L[at.T_MODE] == at.MODE_TAKE
    L[at.P_POS] = 0
    for pos in range(first, end):
        row = L[s + 4]
        if kind == 1:
            row = np.int64(A[bucket + pos])
            if pos + _ROWS_AHEAD < end:
                prefetch(L, (rows + np.int64(A[bucket + pos + _ROWS_AHEAD]) * stride) >> 1)
        elif kind == 2:
            row = np.int64(pos)
        offset = rows + row * stride
        word = L[offset >> 1]
        if state_holds(word, state) == 0:
            continue
        rank = m
        if cls >= at.SAME_BEFORE:
            if row == own:
                continue
            rank = word >> at.RANK_SHIFT
            if is_late and rank > m:
                continue
            rank = max(rank, m)
        if binds == 0 and fits_row(A, L, P, match, nmatch, offset) == 0:
            continue
        for k in range(same, arity):
            if A[at.LAST_COLUMNS + k] >= 0:
                A[at.LAST + k] = A[offset + at.COLS + A[at.LAST_COLUMNS + k]]
        derivations += 1
        h = hash_end(hash_more(A, at.LAST + same, arity - same, begun))
        if wait(A, L, lengths, room, arity, at.LAST, h, rank):
            if L[at.LANE]:
                L[at.QUOTA] = -1
                if pos + 1 < end:
                    L[at.P_POS] = pos + 1
                break
            count_batch(A, L, head)
            if L[at.ERROR] != 0:
                break
            rows = L[rb + at.R_ROWS]  # heads may be of this very relation, which may have grown
            bucket = bucket_start(L, L[s + 4])
            lengths = L[hb + at.R_BATCH]
            room = L[hb + at.R_BATCH_ROOM]
    L[at.C_PROBED] += (L[at.P_POS] if L[at.P_POS] else end) - first
    note_derivations(L, hb, np.int64(P[v + at.V_RULE]), derivations)
    return np.int64(L[at.P_POS] != 0)


@kernel("i:LPi")
def is_poured(L, P, c):
    """Whether all that an opened literal has are heads that wait, so that `_pour` takes them."""
    child = P[c + at.K_CHILD]
    last = P[child] == 0 and P[child + 2] == 0
    return np.int64(L[at.BATCH] != 0 and L[at.PIPE] == 0 and last)


@kernel("v:Liii")
def _pause(L, node, level, m):
    """Stop at a binding: the next `run_variant` goes on with the checks of `node`."""
    L[at.PAUSED] = 1
    L[at.P_NODE] = node
    L[at.P_LEVEL] = level
    L[at.P_RANK] = m


@kernel("v:ALPiii")
def run_variant(A, L, P, v, row, mode):
    """Evaluate variant `v` for its trigger row (ignored where the variant has none).

    Stops early when `ERROR` is set, when a functor's value must be asked for, when the quota is
    used up, and in a lane also when it must wait for its batches or an index (`PAUSED`: the next
    call goes on at that binding, with its checks once more, or within its last bucket).
    Cost: O(rows of the literals chosen); asserted through C_PROBED and C_DERIVATIONS.
    """
    m = np.int64(-1)
    if L[at.CHOSEN] == 0 and L[at.PAUSED] == 0 and L[at.BEGUN] == 0:
        L[at.C_TRIED] += 1
    r = np.int64(P[v + at.V_TRIGGER])
    L[at.TRIGGER_REL] = r
    L[at.TRIGGER_ROW] = row
    level = np.int64(-1)
    node = np.int64(P[v + at.V_NODE])
    passed = L[at.BEGUN] != 0
    if L[at.BEGUN]:
        node = L[at.BEGUN] - 1
        L[at.BEGUN] = 0
    elif L[at.PAUSED]:
        L[at.PAUSED] = 0
        m = L[at.P_RANK]
        level = L[at.P_LEVEL]
        node = L[at.P_NODE]
    elif r >= 0:
        rb = L[at.RELS] + r * at.RSZ
        offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
        if (
            fits_row(A, L, P, np.int64(P[v + at.V_MATCH]), np.int64(P[v + at.V_NMATCH]), offset)
            == 0
        ):
            return
        if P[v + at.V_SAME] and mode != at.MODE_QUERY:
            m = L[offset >> 1] >> at.RANK_SHIFT
    while True:
        fits = np.int64(1)
        opened = np.int64(L[at.P_POS] > 0)
        if not opened and not passed:
            for k in range(P[node]):
                fits = run_check(A, L, P, np.int64(P[P[node + 1] + k]))
                if fits != 1:
                    break
        passed = False
        if fits < 0:
            _pause(L, node, level, m)
            return
        if fits:
            if not opened and P[node + 2] > 0:
                if L[at.CHOSEN]:
                    s = L[at.STACK] + (level + 1) * at.LEVEL
                    L[s] = L[at.CHOSEN_LITERAL]
                    opened = _open(A, L, P, s, L[at.CHOSEN] - 1, True)
                    L[at.CHOSEN] = 0
                else:
                    opened = _choose(A, L, P, node, level + 1, np.int64(L[at.BATCH] == 0))
                if opened == 2:
                    L[at.ASKED] = -1
                    _pause(L, node, level, m)
                    return
            if P[node + 2] == 0:
                emit(A, L, P, v, m, mode)
            elif opened:
                c = L[L[at.STACK] + (level + 1) * at.LEVEL]
                if mode != at.MODE_QUERY and is_poured(L, P, c):
                    if _pour(A, L, P, v, level + 1, m):
                        L[at.ASKED] = -1
                        _pause(L, node, level, m)
                        return
                else:
                    level += 1
                    L[L[at.STACK] + level * at.LEVEL + 5] = m
                    if L[at.BATCH]:
                        ask_children(A, L, P, L[at.STACK] + level * at.LEVEL)
        while level >= 0:
            s = L[at.STACK] + level * at.LEVEL
            m = _next(A, L, P, level, L[s + 5], mode)
            if m != -2:
                node = np.int64(P[L[s] + at.K_CHILD])
                break
            level -= 1
        if level < 0:
            break
        if mode == at.MODE_QUERY:
            if 0 < L[at.LOOKS_END] < L[at.C_PROBED]:
                L[at.BEST] = at.GIVEN_UP
                L[at.UNFOUND] = 0
            if L[at.UNFOUND] == 0:
                return
        if L[at.CANCEL] != 0 or L[at.ERROR] != 0:
            if L[at.ERROR] == 0:
                L[at.ERROR] = at.ERR_CANCEL
            L[at.EMITTED] = 0
            return
        if L[at.C_PROBED] + L[at.C_DERIVATIONS] > L[at.QUOTA]:
            L[at.ASKED] = -1
            _pause(L, node, level, m)
            return
    if mode != at.MODE_QUERY:
        flush_heads(A, L, P, v, mode)
