"""Symbols: texts as ids, and where each lies.

A text is one word that says its length in bytes, then its UTF-8, with zeros up to a whole word;
`SYM` has the word it begins at, by id. `SYM_SLOTS` is a table from texts to ids: a cell that says
how many slots follow, and slots of `hash << 32 | id + 1`. Texts come as Arrow has them: bytes, and
where each ends.

Invariant: texts never move, and the table only grows. A slot is written after what it leads to,
and a table that has grown before the cell that leads to it, so another thread that looks a text up
meanwhile finds it or does not. Not here: Python's strings (`engine.symbols`).
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.jit import kernel, prefetch
from deltafix.kernel.memory import block, discard, publish, put_slot, slots_twice

_GROUP = 16
"""Texts whose slots are asked for before the first is looked at."""
_PIECE = 1 << 18
"""Words of the blocks that texts are put into, at most; longer ones have a block of their own."""
_PERCENT, _UNDERSCORE, _BACKSLASH = 0x25, 0x5F, 0x5C


@kernel("i:Pii")
def _word(P, b, left):
    """The four bytes from byte `b` on, of which `left` count; the others as zeros."""
    w = np.int64(P[b >> 2]) & 0xFFFFFFFF
    s = (b & 3) * 8
    if s != 0:
        w >>= s
        if left * 8 > 32 - s:
            w |= (np.int64(P[(b >> 2) + 1]) << (32 - s)) & 0xFFFFFFFF
    return w if left >= 4 else w & ((1 << (left * 8)) - 1)


@kernel("i:Pii")
def _hash(P, b, n):
    """The hash of `n` bytes from byte `b` on, of `HASH_BITS` bits."""
    h = np.int64(n) * 0x2545F4914F6CDD1D
    for k in range(0, n, 4):
        h = (h ^ _word(P, b + k, n - k)) * 0x1E3779B97F4A7C15
        h ^= (h >> 29) & 0x7FFFFFFFF
    return (h ^ (h >> 32)) & 0x7FFFFFFF


@kernel("b:APiii")
def _is_text(A, P, word, b, n):
    """Whether the text at a word is the `n` bytes from byte `b` on."""
    if A[word] != n:
        return False
    for k in range(0, n, 4):
        if (np.int64(A[word + 1 + (k >> 2)]) & 0xFFFFFFFF) != _word(P, b + k, n - k):
            return False
    return True


@kernel("i:ALPiii")
def _find(A, L, P, b, n, h):
    """The id of a text with hash `h`; -1 if there is none."""
    slots = L[at.SYM_SLOTS] + 1
    cap = L[slots - 1]
    s = (h * cap) >> at.HASH_BITS
    e = L[slots + s]
    while e != 0:
        code = (e & 0xFFFFFFFF) - 1
        if e >> 32 == h and _is_text(A, P, L[L[at.SYM] + code], b, n):
            return code
        s = s + 1 if s + 1 < cap else 0
        e = L[slots + s]
    return np.int64(-1)


@kernel("i:ALPiii")
def _enter(A, L, P, b, n, h):
    """Enter a text with hash `h` that is not there. Returns its id. Raises MemoryError."""
    code = L[at.SYM + 1]
    old = L[at.SYM_SLOTS]
    cap = L[old]
    if (code + 1) * 3 > cap * 2:
        new = slots_twice(L, old)
        for s in range(cap):
            e = L[old + 1 + s]
            if e != 0:
                put_slot(L, new, e >> 32, e)
        L[at.SYM_SLOTS] = new
        discard(L, old * 2, (cap + 1) * 2)
    words = 1 + (n + 3) // 4
    if words > _PIECE // 4:
        word = block(L, words)
    else:
        if L[at.SYM_TEXT] + words > L[at.SYM_TEXT_END]:
            piece = max(words, min(_PIECE, 64 + 8 * code))
            L[at.SYM_TEXT] = block(L, piece)
            L[at.SYM_TEXT_END] = L[at.SYM_TEXT] + piece
        word = L[at.SYM_TEXT]
        L[at.SYM_TEXT] += words
    A[word] = n
    for k in range(0, n, 4):  # as signed words
        A[word + 1 + (k >> 2)] = (_word(P, b + k, n - k) ^ 0x80000000) - 0x80000000
    publish(L, at.SYM, word)
    put_slot(L, L[at.SYM_SLOTS], h, (h << 32) | (code + 1))
    return code


@kernel("i:ALPi")
def find_symbol(A, L, text, n):
    """The id of the symbol whose UTF-8 is the first `n` bytes of `text`, or -1."""
    return _find(A, L, text, 0, n, _hash(text, 0, n))


@kernel("i:ALPi")
def enter_symbol(A, L, text, n):
    """The id of the symbol whose UTF-8 is the first `n` bytes of `text`, entered if new.

    Raises MemoryError.
    """
    h = _hash(text, 0, n)
    code = _find(A, L, text, 0, n, h)
    return code if code >= 0 else _enter(A, L, text, 0, n, h)


@kernel("i:ALiPi")
def read_symbol(A, L, code, text, space):
    """How many bytes a symbol has, or -1 for an id that none has, which a stranger may ask for.

    They are put into `text` if they fit into `space` words.
    """
    if code < 0 or code >= L[at.SYM + 1]:
        return np.int64(-1)
    word = L[L[at.SYM] + code]
    n = np.int64(A[word])
    words = (n + 3) // 4
    if words <= space:
        for k in range(words):
            text[k] = A[word + 1 + k]
    return n


@kernel("i:ALPLPi")
def enter_symbols(A, L, texts, ends, codes, n):
    """The ids of `n` texts, entered where new; returns how many were. Raises MemoryError.

    Text `k` is bytes `ends[k]` to `ends[k + 1]` of `texts`; its id comes to `codes[k]`.
    """
    before = L[at.SYM + 1]
    for first in range(0, n, _GROUP):
        last = min(first + _GROUP, n)
        slots = L[at.SYM_SLOTS] + 1
        for k in range(first, last):
            h = _hash(texts, ends[k], ends[k + 1] - ends[k])
            codes[k] = h
            prefetch(L, slots + ((h * L[slots - 1]) >> at.HASH_BITS))
        for k in range(first, last):
            h = np.int64(codes[k])
            size = ends[k + 1] - ends[k]
            code = _find(A, L, texts, ends[k], size, h)
            codes[k] = code if code >= 0 else _enter(A, L, texts, ends[k], size, h)
    return L[at.SYM + 1] - before


@kernel("v:ALPLPi")
def copy_symbols(A, L, codes, ends, texts, n):
    """The bytes of `n` symbols one after another, as `enter_symbols` takes them.

    `ends` says where each goes; `texts` has room for one word more, and is zero.
    """
    for k in range(n):
        word = L[L[at.SYM] + codes[k]]
        b = ends[k]
        s = (b & 3) * 8
        for j in range((ends[k + 1] - b + 3) // 4):
            w = (np.int64(A[word + 1 + j]) & 0xFFFFFFFF) << s
            o = (b >> 2) + j
            texts[o] = (((np.int64(texts[o]) | w) & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
            if s != 0:
                texts[o + 1] = ((w >> 32) ^ 0x80000000) - 0x80000000


@kernel("i:Aii")
def _byte(A, word, k):
    """Byte `k` of the text at a word."""
    return (np.int64(A[word + 1 + (k >> 2)]) >> ((k & 3) * 8)) & 255


@kernel("i:ALii")
def symbol_order(A, L, a, b):
    """-1, 0 or 1: the order of two symbols by UTF-8 bytes, which is that of code points."""
    if a == b:
        return np.int64(0)
    before = L[at.LANE] * at.LANE_CELLS * 2  # where words lie is said from the arena's own header
    oa = L[L[at.SYM] + a] - before
    ob = L[L[at.SYM] + b] - before
    na = np.int64(A[oa])
    nb = np.int64(A[ob])
    for k in range(min(na, nb)):
        ca = _byte(A, oa, k)
        cb = _byte(A, ob, k)
        if ca != cb:
            return np.int64(-1) if ca < cb else np.int64(1)
    return np.int64(-1) if na < nb else np.int64(1)


@kernel("i:Aii")
def _next_character(A, word, k):
    """The byte at which the character after the one at byte `k` begins."""
    k += 1
    while k < A[word] and _byte(A, word, k) & 0xC0 == 0x80:
        k += 1
    return k


@kernel("i:Aii")
def _literal(A, word, k):
    """Byte `k` of the pattern at a word, if it stands for itself, else -1."""
    if k >= A[word]:
        return np.int64(-1)
    c = _byte(A, word, k)
    return np.int64(-1) if c == _PERCENT or c == _UNDERSCORE or c == _BACKSLASH else c


@kernel("i:Aiiii")
def _seek(A, word, k, first, second):
    """The first byte from `k` on of the text at a word that is `first`, with `second` behind it.

    Any byte where that is -1; the text's length if there is none. Four bytes a step: byte by byte,
    3 million times LIKE '%special%requests%' were 350 ms of TPC-H's query 13, and are 180.
    """
    n = np.int64(A[word])
    firsts = first * 0x01010101
    seconds = (second & 255) * 0x01010101
    mask = np.int64(0) if second < 0 else np.int64(0xFFFFFFFF)
    w = k >> 2
    wanted = (0x80808080 << ((k & 3) * 8)) & 0x80808080
    here = np.int64(A[word + 1 + w]) & 0xFFFFFFFF
    while w * 4 < n:
        behind = np.int64(A[word + 2 + w]) & 0xFFFFFFFF
        pairs = ((here >> 8) | (behind << 24)) & 0xFFFFFFFF
        differs = (here ^ firsts) | ((pairs ^ seconds) & mask)
        # The upper bit of each byte that is zero, whatever the others are.
        hits = ~(((differs & 0x7F7F7F7F) + 0x7F7F7F7F) | differs) & wanted
        if hits != 0:
            at_byte = w * 4
            while hits & 0x80 == 0:
                hits >>= 8
                at_byte += 1
            return min(at_byte, n)
        wanted = np.int64(0x80808080)
        here = behind
        w += 1
    return n


@kernel("i:ALii")
def is_like(A, L, symbol, pattern):
    """Whether a symbol is LIKE a pattern of `rules.like`, whose escape is a backslash: 1 or 0.

    What a `%` stands for is tried from the shortest text on; of several only the last is tried
    again. O(bytes of the symbol times those of the pattern's longest segment).
    """
    before = L[at.LANE] * at.LANE_CELLS * 2
    text = L[L[at.SYM] + symbol] - before
    p = L[L[at.SYM] + pattern] - before
    n = np.int64(A[text])
    m = np.int64(A[p])
    b = np.int64(0)  # where the text is looked at, and where the pattern
    k = np.int64(0)
    tried = np.int64(0)  # what follows the last `%` is tried from here on
    after = np.int64(-1)
    first = np.int64(-1)  # the bytes that it begins with, if they stand for themselves
    second = np.int64(-1)
    while b < n:
        c = _byte(A, p, k) if k < m else np.int64(-1)
        if c == _PERCENT:
            k += 1
            if k == m:
                return np.int64(1)
            after = k
            first = _literal(A, p, k)
            second = _literal(A, p, k + 1)
            if first >= 0:
                b = _seek(A, text, b, first, second)
            tried = b
            continue
        if c == _UNDERSCORE:
            b = _next_character(A, text, b)
            k += 1
            continue
        step = np.int64(1)
        if c == _BACKSLASH:
            c = _byte(A, p, k + 1) if k + 1 < m else np.int64(-1)
            step = np.int64(2)
        if c == _byte(A, text, b):
            b += 1
            k += step
        elif after < 0:
            return np.int64(0)
        else:
            tried = _next_character(A, text, tried)
            if first >= 0 and tried < n:  # no character begins inside another one
                tried = _seek(A, text, tried, first, second)
            b = tried
            k = after
    while k < m and _byte(A, p, k) == _PERCENT:
        k += 1
    return np.int64(1) if k == m else np.int64(0)
