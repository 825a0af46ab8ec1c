"""Symbols in the arena, against a dict: every way in, every way out."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import deltafix
from deltafix.engine import codes
from deltafix.engine.symbols import Symbols
from deltafix.errors import TypeMismatchError
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.kernel.symbols import symbol_order

MANY = 2_000 if JIT_DISABLED else 300_000


def _text(rng: Random) -> str:
    """Texts that are alike: of few letters, of all lengths around a word, with zeros at the end."""
    letters = rng.choice(("ab", "a\0", "aä", "日本a", "\U0001f600b", "\ud800a"))
    return "".join(rng.choices(letters, k=rng.choice((0, 1, 2, 3, 4, 5, 7, 8, 9, 31))))


def _array(texts: list[str], rng: Random) -> pa.Array:
    """One of Arrow's layouts of them, often a part of a longer array."""
    kind = rng.choice((pa.string(), pa.large_string(), pa.string_view()))
    before = rng.randrange(3)
    longer = pa.array(["before"] * before + texts + ["behind"], kind)
    return longer.slice(before, len(texts))


WAYS_IN: dict[str, Callable[[Symbols, list[str], Random], list[int]]] = {
    "one": lambda symbols, texts, _: [symbols.code(text) for text in texts],
    "many": lambda symbols, texts, _: symbols.codes(texts).tolist(),
    "array": lambda symbols, texts, rng: symbols.codes_of_array(_array(texts, rng)).tolist(),
}


def test_ids_are_a_dicts_whichever_way_texts_come_and_go() -> None:
    for seed in range(5 if JIT_DISABLED else 60):
        rng = Random(seed)
        symbols, other = Symbols(Arena(1 << 28)), Symbols(Arena(1 << 28))
        ids: dict[str, int] = {}
        for _ in range(12):
            texts = [_text(rng) for _ in range(rng.choice((1, 3, 40)))]
            unknown = [text for text in texts if text not in ids]
            assert [symbols.known(text) for text in unknown] == [None] * len(unknown)
            way = rng.choice([*WAYS_IN])
            if way == "array":  # Arrow has no lone surrogates
                texts = [text for text in texts if "\ud800" not in text]
            wanted = [ids.setdefault(text, len(ids)) for text in texts]
            assert WAYS_IN[way](symbols, texts, rng) == wanted
            assert [symbols.known(text) for text in texts] == wanted
            codes = np.array(wanted, np.int32)
            assert symbols.texts(codes) == texts
            assert [symbols.text(code) for code in wanted] == texts
            if not any("\ud800" in text for text in texts):
                assert symbols.array(codes).to_pylist() == texts
                symbols.array(codes).validate(full=True)
            assert other.texts(other.taken(codes, symbols)) == texts
        assert list(symbols) == list(ids)
        for code in (-1, len(ids), len(ids) + 7, 1 << 40):
            with pytest.raises(IndexError, match="no text has the id"):
                symbols.text(code)
        assert set(other) <= set(ids)


def test_many_texts_of_which_some_have_one_hash() -> None:
    symbols = Symbols(Arena(1 << 30))
    texts = [f"the text {n * 7919 % MANY} of many" for n in range(MANY)]
    array = pa.array(texts)
    assert symbols.codes_of_array(array).tolist() == list(range(MANY))
    assert symbols.codes(texts[::-1]).tolist() == list(range(MANY))[::-1]
    cells = symbols._cells
    start = int(cells[at.SYM_SLOTS])
    slots = cells[start + 1 : start + 1 + int(cells[start])]
    taken = slots[slots != 0]
    assert sorted((taken & 0xFFFFFFFF) - 1) == list(range(MANY))
    if not JIT_DISABLED:  # of 300,000, some twenty
        assert len(np.unique(taken >> 32)) < MANY
    assert symbols.array(np.arange(MANY)).equals(array)


def test_texts_longer_than_the_blocks_of_others() -> None:
    symbols = Symbols(Arena(1 << 28))
    length = 5_000 if JIT_DISABLED else 3_000_000
    texts = ["a" * length, "a" * (length - 1), "b", "a" * (length - 1) + "b", "c"]
    assert symbols.codes(texts).tolist() == [0, 1, 2, 3, 4]
    assert [symbols.text(n) for n in range(5)] == texts
    assert [symbols.known(text) for text in texts] == [0, 1, 2, 3, 4]


def test_a_reader_of_another_thread_keeps_what_it_looks_at() -> None:
    """It read where the ids' vector lies; that grows, and the block is not taken again."""
    arena = Arena(1 << 28)
    symbols = Symbols(arena)
    symbols.codes([f"s{n}" for n in range(60)])
    arena.cells[at.LEAST_BLOCK] = 0
    held = arena.take(at.SYM)
    before = held.copy()
    symbols.codes([f"t{n}" for n in range(20_000 if not JIT_DISABLED else 500)])
    arena.release()
    symbols.codes([f"u{n}" for n in range(500)])
    assert arena.take(at.SYM).ctypes.data != held.ctypes.data
    assert held.tolist() == before.tolist()


def test_a_float_that_is_asked_for_is_not_entered() -> None:
    with deltafix.connect(".decl p(x: float)\n.input p") as db:
        with db.transaction() as tx:
            tx.insert("p", [(0.5,)])
        wide = len(db.instance.arena.take(at.WIDE))
        assert db.select("p", (0.25,)) == []
        assert db.select("p", (0.5,)) == [(0.5,)]
        assert len(db.instance.arena.take(at.WIDE)) == wide


def test_the_order_of_symbols_is_that_of_code_points() -> None:
    rng = Random(1)
    symbols = Symbols(Arena(1 << 28))
    texts = [*{_text(rng) for _ in range(200)}]
    codes = symbols.codes(texts).tolist()
    words, cells = symbols._words, symbols._cells
    for a, b in zip(codes, codes[::-1], strict=True):
        left, right = (
            texts[a].encode("utf-8", "surrogatepass"),
            texts[b].encode("utf-8", "surrogatepass"),
        )
        assert symbol_order(words, cells, a, b) == (left > right) - (left < right)


def test_bytes_that_are_no_text_are_refused() -> None:
    offsets = np.array([0, 1, 3], np.int32)
    wrong: Any = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"a\xff\xfe")]
    )
    with deltafix.connect(".decl p(x: symbol)\n.input p") as db:
        for array in (wrong, pa.DictionaryArray.from_arrays(pa.array([0, 1]), wrong)):
            with (
                pytest.raises(TypeMismatchError, match="no valid column of texts"),
                db.transaction() as tx,
            ):
                tx.insert("p", pa.table({"x": array}))
        assert db.select("p", (...,)) == []


def test_columns_without_chunks_or_of_several() -> None:
    with deltafix.connect(".decl p(x: symbol)\n.input p") as db:
        for chunks in ([], [["a", "b"], [], ["a", "c"]]):
            with db.transaction() as tx:
                tx.insert("p", pa.table({"x": pa.chunked_array(chunks, pa.string())}))
            assert db.select("p", (...,)) == sorted({(x,) for chunk in chunks for x in chunk})


def test_a_text_that_is_no_record_is_named_by_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are coded in slices, and it stands in the third."""
    monkeypatch.setattr(codes, "_SLICE", 4)
    with deltafix.connect(".type P = [x: number, y: number]\n.decl p(p: P)\n.input p") as db:
        texts = [f"[{n}, 0]" for n in range(11)]
        with db.transaction() as tx:
            tx.insert("p", pa.table({"p": texts}))
        assert len(db.select("p", (...,))) == 11
        texts[9] = "[1]"
        with pytest.raises(TypeMismatchError, match="row 9"), db.transaction() as tx:
            tx.insert("p", pa.table({"p": texts}))
