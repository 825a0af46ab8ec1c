"""The join by blocks: a rule that is evaluated from a table, for 64 rows side by side.

Where each row of a block finds just one row in the next literal, as a foreign key does, the block
goes on with that one's columns and terms (`columns`). Where some find several, each row chooses the
literal in which it has the fewest, as in `join`: the rows that all of them find there, each with
what its row has bound, fill the next frame, 64 at a time. That one goes on as far as it can, and is
filled again with what is left, so memory is bounded by frames. Each step asks for what the next
will read. What is left when a block is through are heads. Rows with values that Python has yet to
compute, or whose index is not filled, are set aside and go on later (`aside`). Rows go on as tasks
of their own, from the node where they stand (`BEGUN`), where no frame is left, where a literal is
of the rule's own stratum, and where all matches are heads that wait in batches, which `join` pours;
in a lane also where an index is to be filled.

Life: `evaluate_block` goes on in the frame at hand, or takes the rows of the trigger from S_ROW on;
`next_passed` makes the next of those that go on the task. Invariant: blocks find what
`join.run_variant` would, row by row; between two calls the rows of the frame at hand are done with,
and frames before it have rows that are joined as far as OPEN says. A lane takes the blocks of its
part (`phases.next_in_part`).
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.aside import (
    end_scanned,
    is_free,
    let_go,
    next_pile,
    next_scanned,
    pile_for,
    set_aside,
    take_back,
    waiting,
)
from deltafix.kernel.columns import gather_at, match_columns, run_checks
from deltafix.kernel.enter import fill_index
from deltafix.kernel.frames import (
    BOUND,
    CHOSEN,
    CHOSEN_SLOTS,
    HASHES,
    KEPT,
    OPEN,
    ROWS,
    SELECTED,
    SLOTS,
    WORDS,
    frame_cells,
    list_cell,
    put_back,
    vector,
)
from deltafix.kernel.index import bucket_start, idx_find, idx_glance, slot_has
from deltafix.kernel.jit import kernel, prefetch
from deltafix.kernel.join import FEW, is_poured
from deltafix.kernel.keys import hash_words, key_find

_SEVERAL = -2
_FIRST_ROWS = 4
_ENOUGH = 16
"""Rows by which a literal is chosen for the blocks to come."""
_SCANNED = 1 << 12
"""Rows of which a block's are taken, at most."""
_LOW = 0xFFFFFFFF
# --- cells of OPEN --------------------------------------------------------------------------------
_NODE = 0  # where the rows stand
_SIZE = 1  # how many are selected
_BOUND = 2  # variables that they have bound
_LITERAL = 3  # the place of the literal whose matches come next, and of the row among the selected
_ROW = 4
_MATCH = 5  # the next of this row's matches


@kernel("v:ALPii")
def _ask_slots(A, L, P, c, n):
    """Hash the keys that the rows look literal `c` up by, and ask for their slots."""
    selected = list_cell(L, SELECTED, np.int64(0))
    rb = L[at.RELS] + P[c + at.K_REL] * at.RSZ
    xb = L[at.IDXS] + P[c + at.K_INDEX] * at.XSZ
    for j in range(n):
        i = L[selected + j]
        gather_at(A, L, P, np.int64(P[c + at.K_KEYS]), np.int64(P[c + at.K_NKEYS]), i)
        h = hash_words(A, at.KEY, np.int64(P[c + at.K_NKEYS]))
        L[list_cell(L, HASHES, i)] = h
        if P[c + at.K_METHOD] == at.BY_KEY:
            prefetch(L, L[rb + at.R_PK] + ((h * L[rb + at.R_PKCAP]) >> at.HASH_BITS))
        else:
            prefetch(L, L[xb + at.X_SLOTS] + 2 * ((h * L[xb + at.X_CAP]) >> at.HASH_BITS))


@kernel("v:LPii")
def _ask_rows(L, P, c, n):
    """The slots have arrived: ask for what they name. Of an index they are noted, -1: none."""
    selected = list_cell(L, SELECTED, np.int64(0))
    rb = L[at.RELS] + P[c + at.K_REL] * at.RSZ
    for j in range(n):
        i = L[selected + j]
        h = L[list_cell(L, HASHES, i)]
        if P[c + at.K_METHOD] == at.BY_KEY:
            v = L[L[rb + at.R_PK] + ((h * L[rb + at.R_PKCAP]) >> at.HASH_BITS)]
            row = (v & 0xFFFFFFFF) - 1
            if v != 0:
                prefetch(L, (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1)
            continue
        slot = idx_glance(L, np.int64(P[c + at.K_INDEX]), h)
        L[list_cell(L, SLOTS, i)] = slot
        if slot >= 0:
            ref = (L[slot] & 0xFFFFFFFF) - 1
            if (L[slot + 1] >> 32) != 0:
                prefetch(L, bucket_start(L, ref) >> 1)
            else:
                prefetch(L, (L[rb + at.R_ROWS] + ref * L[rb + at.R_STRIDE]) >> 1)


@kernel("i:ALPii")
def _find_rows(A, L, P, c, n):
    """The rows of `n` that find one row in literal `c`, which is noted; _SEVERAL: some find more.

    Those that find none are no longer selected; what was, _SEVERAL leaves undone.
    """
    _ask_slots(A, L, P, c, n)
    _ask_rows(L, P, c, n)
    selected = list_cell(L, SELECTED, np.int64(0))
    r = np.int64(P[c + at.K_REL])
    rb = L[at.RELS] + r * at.RSZ
    x = np.int64(P[c + at.K_INDEX])
    state = L[at.S_BEFORE] if P[c + at.K_CLASS] == at.LOWER_BEFORE else L[at.S_AFTER]
    by_key = P[c + at.K_METHOD] == at.BY_KEY
    kept = np.int64(0)
    probed = np.int64(0)
    for j in range(n):
        i = L[selected + j]
        gather_at(A, L, P, np.int64(P[c + at.K_KEYS]), np.int64(P[c + at.K_NKEYS]), i)
        row = np.int64(-1)
        if by_key:
            row = key_find(A, L, A, r, at.KEY, L[list_cell(L, HASHES, i)])
        else:
            slot = L[list_cell(L, SLOTS, i)]
            if slot >= 0 and slot_has(A, L, x, slot, at.KEY) == 0:  # two keys of one hash
                slot = idx_find(A, L, x, at.KEY, L[list_cell(L, HASHES, i)])
            if slot >= 0:
                if (L[slot + 1] & 0xFFFFFFFF) != 1:
                    return np.int64(_SEVERAL)
                row = (L[slot] & 0xFFFFFFFF) - 1
                if (L[slot + 1] >> 32) != 0:
                    row = np.int64(A[bucket_start(L, row)])
        if row < 0:
            continue
        probed += 1
        offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
        if (L[offset >> 1] & state) == state:
            L[list_cell(L, WORDS, i)] = offset
            L[selected + kept] = i
            kept += 1
    L[at.C_PROBED] += probed
    return kept


@kernel("i:ALPii")
def _join(A, L, P, c, n):
    """Join the rows of `n` with literal `c`, and run what checks follow: how many pass.

    _SEVERAL: they cannot be joined side by side.
    """
    n = _find_rows(A, L, P, c, n)
    if n > 0:
        match, m = np.int64(P[c + at.K_MATCH]), np.int64(P[c + at.K_NMATCH])
        n = match_columns(A, L, P, match, m, list_cell(L, WORDS, np.int64(0)), n)
    child = np.int64(P[c + at.K_CHILD])
    return run_checks(A, L, P, child, np.int64(0), np.int64(P[child]), n) if n > 0 else n


@kernel("i:LPi")
def _is_looked_up(L, P, c):
    """Whether a literal is looked up by what is filled."""
    if P[c + at.K_METHOD] == at.BY_SCAN or P[c + at.K_CLASS] >= at.SAME_BEFORE:
        return np.int64(0)
    late = L[L[at.IDXS] + P[c + at.K_INDEX] * at.XSZ + at.X_LATE]
    return np.int64(P[c + at.K_METHOD] == at.BY_KEY or late == 0)


@kernel("i:ALPii")
def _try(A, L, P, c, n):
    """How many of `n` rows pass literal `c`, with the checks behind it; below 0: see `_join`.

    Those that miss a value do not.
    """
    selected = list_cell(L, SELECTED, np.int64(0))
    kept = list_cell(L, KEPT, np.int64(0))
    probed = L[at.C_PROBED]
    bound = L[at.N_BOUND]
    for j in range(n):
        L[kept + j] = L[selected + j]
    L[at.TRYING] = 1
    passed = _join(A, L, P, c, n)
    L[at.TRYING] = 0
    for j in range(n):
        L[selected + j] = L[kept + j]
    L[at.C_PROBED] = probed
    L[at.N_BOUND] = bound
    return passed


@kernel("v:Lii")
def _note_choice(L, node, choice):
    """What a block has chosen at a node is for the next ones, too."""
    L[at.LITERALS + node % at.MOST_LITERALS] = (node << 32) | (choice + 1)


@kernel("i:ALPii")
def _choose(A, L, P, node, n):
    """The place of the literal that a block is joined with next: the fewest of `n` rows pass it.

    -1: there is none that each row finds one row in. If several are looked up by what is filled,
    each of them is tried.
    """
    noted = L[at.LITERALS + node % at.MOST_LITERALS]
    if (noted >> 32) == node:
        return (noted & _LOW) - 1
    first = np.int64(-1)
    tried = np.int64(0)
    best = np.int64(-1)
    fewest = np.int64(0)
    for k in range(P[node + 2]):
        c = np.int64(P[P[node + 3] + k])
        if _is_looked_up(L, P, c) == 0:
            continue
        if first < 0:
            first = np.int64(k)
            continue
        if tried == 0:
            fewest = _try(A, L, P, np.int64(P[P[node + 3] + first]), n)
            best = first if fewest >= 0 else np.int64(-1)
            tried = np.int64(1)
        passed = _try(A, L, P, c, n)
        if passed >= 0 and (best < 0 or passed < fewest):
            best = np.int64(k)
            fewest = passed
    if tried == 0:
        return first
    if n >= _ENOUGH:
        _note_choice(L, node, best)
    return best


@kernel("v:ALPi")
def _ask_first_rows(A, L, P, n):
    """Ask for the first of the rows that each of `n` has chosen."""
    for j in range(n):
        i = L[list_cell(L, SELECTED, np.int64(j))]
        if L[list_cell(L, WORDS, i)] == 0:
            continue
        c = L[list_cell(L, CHOSEN, i)]
        slot = L[list_cell(L, CHOSEN_SLOTS, i)]
        if P[c + at.K_METHOD] == at.BY_INDEX and (L[slot + 1] >> 32) != 0:
            rb = L[at.RELS] + P[c + at.K_REL] * at.RSZ
            bucket = bucket_start(L, (L[slot] & _LOW) - 1)
            for pos in range(min(L[slot + 1] & _LOW, _FIRST_ROWS)):
                row = np.int64(A[bucket + pos])
                prefetch(L, (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1)


@kernel("i:ALPii")
def _choose_each(A, L, P, node, n):
    """Note for each of `n` rows the literal in which it has the fewest, and the slot: rows left.

    One that some literal has no row for goes no further. Left out is what is not filled, or of the
    rule's own stratum; where that is all, no row has a choice (WORDS: how many rows it has, 0).
    """
    selected = list_cell(L, SELECTED, np.int64(0))
    fewest = list_cell(L, WORDS, np.int64(0))
    chosen = list_cell(L, CHOSEN, np.int64(0))
    chosen_slots = list_cell(L, CHOSEN_SLOTS, np.int64(0))
    slots = list_cell(L, SLOTS, np.int64(0))
    for j in range(n):
        L[fewest + L[selected + j]] = 0
    for k in range(P[node + 2]):
        c = np.int64(P[P[node + 3] + k])
        is_scan = P[c + at.K_METHOD] == at.BY_SCAN and P[c + at.K_CLASS] < at.SAME_BEFORE
        rb = L[at.RELS] + P[c + at.K_REL] * at.RSZ
        if not is_scan:
            if _is_looked_up(L, P, c) == 0:
                continue
            _ask_slots(A, L, P, c, n)
            _ask_rows(L, P, c, n)
        kept = np.int64(0)
        for j in range(n):
            i = L[selected + j]
            # How many rows a key has is a guess where hashes collide: it only orders literals.
            count = L[rb + at.R_N]
            if not is_scan:
                count = np.int64(0) if L[slots + i] < 0 else L[L[slots + i] + 1] & _LOW
            if count == 0:
                continue
            if L[fewest + i] == 0 or count < L[fewest + i]:
                L[fewest + i] = count
                L[chosen + i] = c
                L[chosen_slots + i] = L[slots + i]
            L[selected + kept] = i
            kept += 1
        n = kept
    _ask_first_rows(A, L, P, n)
    return n


# --- a row that finds several rows ----------------------------------------------------------------


@kernel("i:LPi")
def _late_literal(L, P, node):
    """The literal with the fewest rows whose index is not filled.

    -1: there is none, -2: one is of the rule's stratum.
    """
    late = np.int64(-1)
    fewest = np.int64(0)
    for k in range(P[node + 2]):
        c = np.int64(P[P[node + 3] + k])
        if P[c + at.K_CLASS] >= at.SAME_BEFORE:
            return np.int64(-2)
        if P[c + at.K_METHOD] == at.BY_INDEX and _is_looked_up(L, P, c) == 0:
            rows = L[L[at.RELS] + P[c + at.K_REL] * at.RSZ + at.R_N]
            if late < 0 or rows < fewest:
                late = c
                fewest = rows
    return late


@kernel("i:ALPii")
def _leave_aside(A, L, P, late, n):
    """Of `n` rows, which have chosen, those that may find fewer in `late` wait for its table.

    How many are left: of so many wait, or will, that its index is filled instead, all. Those that
    wait already go on then.
    """
    node = L[at.BLOCK_NODE]
    rows = L[L[at.RELS] + P[late + at.K_REL] * at.RSZ + at.R_N]
    pile = np.int64(0)
    if rows >= L[at.SCAN_FROM]:
        pile = pile_for(L, late)
    if pile == 0 or waiting(L, pile) + n > rows >> L[at.SCAN_SHARE]:
        fill_index(A, L, np.int64(P[late + at.K_INDEX]))
        if pile:
            let_go(L, pile)
        return n
    selected = list_cell(L, SELECTED, np.int64(0))
    keys = np.int64(P[late + at.K_NKEYS])
    kept = np.int64(0)
    for j in range(n):
        i = L[selected + j]
        if 0 < L[list_cell(L, WORDS, i)] <= FEW:
            L[selected + kept] = i
            kept += 1
        else:
            gather_at(A, L, P, np.int64(P[late + at.K_KEYS]), keys, i)
            set_aside(A, L, pile, node, i, L[at.N_BOUND], hash_words(A, at.KEY, keys), keys)
    return kept


@kernel("i:LPi")
def _may_open(L, P, node):
    """Whether the matches of a block's rows at a node may fill the next frame."""
    frame = frame_cells(L[at.N_VARS])
    if L[at.FRAME] + frame == L[at.VECTORS] + at.FRAMES * frame:
        return np.int64(0)
    only = np.int64(P[P[node + 3]])
    return np.int64(P[node + 2] > 1 or is_poured(L, P, only) == 0)


@kernel("v:Lii")
def _open_frame(L, node, n):
    """The matches of `n` rows at a node are to fill the next frame, which is at hand now."""
    cells = list_cell(L, OPEN, np.int64(0))
    L[cells + _NODE] = node
    L[cells + _SIZE] = n
    L[cells + _BOUND] = L[at.N_BOUND]
    L[cells + _LITERAL] = 0
    L[cells + _ROW] = 0
    L[cells + _MATCH] = 0
    L[at.FRAME] += frame_cells(L[at.N_VARS])


@kernel("i:ALPiii")
def _list_matches(A, L, P, c, words, source):
    """List the next matches of the rows that chose literal `c`, up to MATCHES: how many.

    Where each begins, and the position of its row; then OPEN says what comes next.
    """
    selected = list_cell(L, SELECTED, np.int64(0))
    cells = list_cell(L, OPEN, np.int64(0))
    rb = L[at.RELS] + P[c + at.K_REL] * at.RSZ
    rows, stride = L[rb + at.R_ROWS], L[rb + at.R_STRIDE]
    x = np.int64(P[c + at.K_INDEX])
    is_scan = P[c + at.K_METHOD] == at.BY_SCAN
    j = L[cells + _ROW]
    first = L[cells + _MATCH]
    n = np.int64(0)
    while j < L[cells + _SIZE] and n < L[at.MATCHES]:
        i = L[selected + j]
        slot = L[list_cell(L, CHOSEN_SLOTS, i)]
        count = np.int64(0)
        if L[list_cell(L, CHOSEN, i)] == c:
            count = L[rb + at.R_N]
            if not is_scan:
                if first == 0:
                    gather_at(A, L, P, np.int64(P[c + at.K_KEYS]), np.int64(P[c + at.K_NKEYS]), i)
                    if slot_has(A, L, x, slot, at.KEY) == 0:  # two keys of one hash
                        slot = idx_find(A, L, x, at.KEY, L[slot] >> 32)
                        L[list_cell(L, CHOSEN_SLOTS, i)] = slot
                count = np.int64(0) if slot < 0 else L[slot + 1] & _LOW
        last = min(count, first + L[at.MATCHES] - n)
        bucket = np.int64(-1)
        row = np.int64(0)
        if count > 0 and not is_scan:
            row = (L[slot] & _LOW) - 1
            if (L[slot + 1] >> 32) != 0:
                bucket = bucket_start(L, row)
        for place in range(first, last):
            if is_scan:
                row = np.int64(place)
            elif bucket >= 0:
                row = np.int64(A[bucket + place])
            offset = rows + row * stride
            prefetch(L, offset >> 1)
            L[words + n] = offset
            L[source + n] = i
            n += 1
        first = last
        if first == count:
            first = np.int64(0)
            j += 1
    L[cells + _ROW] = j
    L[cells + _MATCH] = first
    return n


@kernel("i:ALPii")
def _match(A, L, P, c, n):
    """Bind what `n` matches of literal `c` have, and run the checks behind it: how many pass."""
    words = list_cell(L, WORDS, np.int64(0))
    n = match_columns(A, L, P, np.int64(P[c + at.K_MATCH]), np.int64(P[c + at.K_NMATCH]), words, n)
    L[at.BLOCK_NODE] = P[c + at.K_CHILD]
    return run_checks(A, L, P, L[at.BLOCK_NODE], np.int64(0), np.int64(P[L[at.BLOCK_NODE]]), n)


@kernel("i:ALP")
def _next_matches(A, L, P):
    """Fill the frame at hand with matches of the rows in the one before: how many pass.

    The checks behind their literal, too. If there are no more, that one is at hand.
    """
    size = frame_cells(L[at.N_VARS])
    L[at.FRAME] -= size
    cells = list_cell(L, OPEN, np.int64(0))
    words = list_cell(L, WORDS, np.int64(0)) + size
    source = list_cell(L, KEPT, np.int64(0)) + size
    node = L[cells + _NODE]
    c = np.int64(0)
    n = np.int64(0)
    while n == 0 and L[cells + _LITERAL] < P[node + 2]:
        c = np.int64(P[P[node + 3] + L[cells + _LITERAL]])
        n = _list_matches(A, L, P, c, words, source)
        if L[cells + _ROW] == L[cells + _SIZE]:
            L[cells + _LITERAL] += 1
            L[cells + _ROW] = 0
    if n == 0:
        return n
    L[at.C_PROBED] += n
    state = L[at.S_BEFORE] if P[c + at.K_CLASS] == at.LOWER_BEFORE else L[at.S_AFTER]
    kept = np.int64(0)
    for k in range(n):
        if (L[L[words + k] >> 1] & state) == state:
            L[words + kept] = L[words + k]
            L[source + kept] = L[source + k]
            kept += 1
    bound = list_cell(L, BOUND, np.int64(0))
    for b in range(L[cells + _BOUND]):
        L[bound + size + b] = L[bound + b]
        values = vector(L, L[bound + b] >> 1)
        for k in range(kept):
            L[values + size + k] = L[values + L[source + k]]
    rows = list_cell(L, ROWS, np.int64(0))
    selected = list_cell(L, SELECTED, np.int64(0)) + size
    for k in range(kept):
        L[rows + size + k] = L[rows + L[source + k]]
        L[selected + k] = k
    L[at.FRAME] += size
    L[at.N_BOUND] = L[cells + _BOUND]
    return _match(A, L, P, c, kept)


# --- rows that go on as tasks ---------------------------------------------------------------------


@kernel("v:ALPi")
def _pass_on(A, L, P, n):
    """The rows of `n` go on as tasks from their node; what they will look up is asked for.

    Where each literal is looked up by an index they have chosen, and those that find none go no
    further.
    """
    node = L[at.BLOCK_NODE]
    L[at.PASSED_NEXT] = 0
    L[at.PASSED_CHOSEN] = 1
    for k in range(P[node + 2]):
        c = np.int64(P[P[node + 3] + k])
        if P[c + at.K_METHOD] != at.BY_INDEX or _is_looked_up(L, P, c) == 0:
            L[at.PASSED_CHOSEN] = 0
    if L[at.PASSED_CHOSEN]:
        L[at.C_TRIED] += n * P[node + 2]
        L[at.PASSED] = _choose_each(A, L, P, node, n)
        return
    L[at.PASSED] = n
    for k in range(P[node + 2]):
        c = np.int64(P[P[node + 3] + k])
        late = L[L[at.IDXS] + P[c + at.K_INDEX] * at.XSZ + at.X_LATE]
        if P[c + at.K_METHOD] == at.BY_KEY or (P[c + at.K_METHOD] == at.BY_INDEX and not late):
            _ask_slots(A, L, P, c, n)
            _ask_rows(L, P, c, n)


@kernel("i:AL")
def next_passed(A, L):
    """Make the next of the rows that go on the task at hand: the trigger's row."""
    i = L[list_cell(L, SELECTED, L[at.PASSED_NEXT])]
    L[at.PASSED_NEXT] += 1
    put_back(A, L, i)
    L[at.BEGUN] = L[at.BLOCK_NODE] + 1
    if L[at.PASSED_CHOSEN]:
        L[at.CHOSEN_LITERAL] = L[list_cell(L, CHOSEN, i)]
        L[at.CHOSEN] = L[list_cell(L, CHOSEN_SLOTS, i)] + 1
    return L[list_cell(L, ROWS, i)]


# --- blocks ---------------------------------------------------------------------------------------


@kernel("i:ALPiii")
def _first_rows(A, L, P, v, r, tests):
    """Select rows that hold and pass the first `tests` checks, from S_ROW on, until there are many.

    Of a table of which few rows pass a block has one at a time otherwise. A lane passes over what
    lies between two blocks of its part.
    """
    rb = L[at.RELS] + r * at.RSZ
    end = L[at.S_END] if L[at.LANE] else L[rb + at.R_N]
    scanned = np.int64(0)
    match, m = np.int64(P[v + at.V_MATCH]), np.int64(P[v + at.V_NMATCH])
    selected = list_cell(L, SELECTED, np.int64(0))
    rows = list_cell(L, ROWS, np.int64(0))
    words = list_cell(L, WORDS, np.int64(0))
    passed = np.int64(0)
    while passed < at.BLOCK - _ENOUGH and L[at.S_ROW] < end and scanned < _SCANNED:
        n = np.int64(0)
        first = L[at.S_ROW]
        last = min(first + at.BLOCK - passed, end)
        if L[at.LANE]:
            last = min(last, first + at.BLOCK - (first - L[at.S_FIRST]) % at.BLOCK)
            next_block = (at.BLOCK + L[at.S_SKIP]) * L[rb + at.R_STRIDE]
            for row in range(first, last):
                prefetch(L, (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE] + next_block) >> 1)
        for row in range(first, last):
            offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
            if L[offset >> 1] & at.NOW:
                L[rows + passed + n] = row
                L[words + passed + n] = offset
                L[selected + n] = passed + n
                n += 1
        scanned += last - first
        L[at.S_ROW] = last
        if L[at.LANE] and (last - L[at.S_FIRST]) % at.BLOCK == 0:
            L[at.S_ROW] += L[at.S_SKIP]
        L[at.C_TRIED] += n
        L[at.N_BOUND] = 0
        n = match_columns(A, L, P, match, m, words, n)
        n = run_checks(A, L, P, np.int64(P[v + at.V_NODE]), np.int64(0), tests, n)
        for j in range(n):
            i = L[selected + j]
            if i != passed + j:
                L[rows + passed + j] = L[rows + i]
                for k in range(L[at.N_BOUND]):
                    values = vector(L, L[list_cell(L, BOUND, np.int64(k))] >> 1)
                    L[values + passed + j] = L[values + i]
        passed += n
    for j in range(passed):
        L[selected + j] = j
    return passed


@kernel("i:ALPii")
def _join_with(A, L, P, choice, n):
    """Join the rows of `n` with the literal that is chosen at their node: how many pass.

    _SEVERAL: as they were, and noted.
    """
    node = L[at.BLOCK_NODE]
    c = np.int64(P[P[node + 3] + choice])
    selected = list_cell(L, SELECTED, np.int64(0))
    kept = list_cell(L, KEPT, np.int64(0))
    for j in range(n):
        L[kept + j] = L[selected + j]
    passed = _join(A, L, P, c, n)
    if passed == _SEVERAL:
        for j in range(n):
            L[selected + j] = L[kept + j]
        _note_choice(L, node, np.int64(-1))
        return passed
    L[at.C_TRIED] += n * P[node + 2]
    L[at.BLOCK_NODE] = P[c + at.K_CHILD]
    return passed


@kernel("i:ALPi")
def _go_on(A, L, P, n):
    """Have the matches of `n` rows fill the next frame: how many pass.

    Rows that may find fewer in an index that is not filled are set aside; or it is filled, and the
    rows are as they were, up to those that find none. Or they go on as tasks, and 0 pass.
    """
    node = L[at.BLOCK_NODE]
    late = _late_literal(L, P, node)
    opens = _may_open(L, P, node)
    if late == -2 or (opens == 0 and (late < 0 or L[at.LANE])):
        _pass_on(A, L, P, n)
        return np.int64(0)
    L[at.C_TRIED] += n * P[node + 2]
    n = _choose_each(A, L, P, node, n)
    most = np.int64(0)
    for j in range(n):
        fewest = L[list_cell(L, WORDS, L[list_cell(L, SELECTED, np.int64(j))])]
        most = max(most, fewest if fewest else FEW + 1)
    if late >= 0 and most > FEW:
        if L[at.LANE]:  # tables are not its own
            _pass_on(A, L, P, n)
            return np.int64(0)
        n = _leave_aside(A, L, P, late, n)
        if _is_looked_up(L, P, late):
            return n
    if n > 0 and opens == 0:
        _pass_on(A, L, P, n)
        return np.int64(0)
    if n > 0:
        _open_frame(L, node, n)
        return _next_matches(A, L, P)
    return n


@kernel("i:ALPi")
def _from_aside(A, L, P, pile):
    """Fill the first frame from a pile: how many rows pass where they stand then."""
    if is_free(L, pile):
        n = take_back(L, pile)
        if n > 0:
            return n
        node = L[at.BLOCK_NODE]
        return run_checks(A, L, P, node, np.int64(0), np.int64(P[node]), -n)
    n = next_scanned(A, L, P, pile)
    return _match(A, L, P, end_scanned(L, P, pile), n)


@kernel("i:ALPii")
def evaluate_block(A, L, P, v, r):
    """Evaluate variant `v` for the next rows of relation `r`, its trigger: how many have a head.

    Or for the next matches of those of a frame before, or for rows that were set aside. `bind_head`
    binds the variables of each. Those in PASSED are to go on as tasks.
    O(rows and matches of a block), for each literal that it is joined with.
    """
    n = np.int64(0)
    pile = np.int64(0)
    if not L[at.LANE]:
        pile = next_pile(L, np.int64(L[at.S_ROW] < L[L[at.RELS] + r * at.RSZ + at.R_N]))
    if L[at.FRAME] > L[at.VECTORS]:
        n = _next_matches(A, L, P)
    elif pile > 0:
        n = _from_aside(A, L, P, pile)
    else:
        node = np.int64(P[v + at.V_NODE])
        L[at.BLOCK_NODE] = node
        tests = np.int64(0)
        while tests < P[node] and P[P[P[node + 1] + tests]] == at.CHECK_COMPARE:
            tests += 1
        n = _first_rows(A, L, P, v, r, tests)
        n = run_checks(A, L, P, node, tests, np.int64(P[node]), n)
    while n > 0 and P[L[at.BLOCK_NODE] + 2] > 0:
        choice = _choose(A, L, P, L[at.BLOCK_NODE], n)
        if choice < 0:
            n = _go_on(A, L, P, n)
            continue
        passed = _join_with(A, L, P, choice, n)
        if passed != _SEVERAL:
            n = passed
    return n
