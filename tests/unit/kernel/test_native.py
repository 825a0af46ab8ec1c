"""The kernel's object file: what is loaded, what never is, and what entry points refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import deltafix
from deltafix.kernel import entries, native
from deltafix.kernel import layout as at
from deltafix.kernel.jit import BOUNDS_CHECKED, JIT_DISABLED

CODE = b"no code at all: nothing here loads it"
compiled = pytest.mark.skipif(JIT_DISABLED, reason="plain Python checks no arguments")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no object shipped beside the sources."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert native.find() is None
    return tmp_path


def kept(folder: Path) -> Path:
    native.keep(CODE, folder, native.cpu())
    (path,) = folder.iterdir()
    return path


def test_an_object_that_was_kept_is_found(folder: Path) -> None:
    path = kept(folder)
    assert native.find() == CODE
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("bits", [0o020, 0o002])
def test_what_others_may_write_is_not_loaded(folder: Path, bits: int) -> None:
    if Path(native.__file__).stat().st_mode & bits:
        pytest.skip("they may write the sources, too")
    path = kept(folder)
    path.chmod(0o644 | bits)
    assert native.find() is None
    native.keep(CODE, folder, native.cpu())
    assert native.find() == CODE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_another_user_wrote_is_not_loaded(folder: Path) -> None:
    os.chown(kept(folder), 12345, 12345)
    assert native.find() is None


def test_what_is_not_whole_is_not_loaded(folder: Path) -> None:
    path = kept(folder)
    data = path.read_bytes()
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        assert native.find() is None, cut
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert native.find() is None, place
    path.write_bytes(data)
    assert native.find() == CODE


def test_an_object_by_another_compiler_is_not_loaded(folder: Path) -> None:
    path = kept(folder)
    data = path.read_bytes()
    (head,) = [line for line in data.splitlines() if line.endswith(b"kernel 1")]
    path.write_bytes(data.replace(head + b"\n", head + b"\n9", 1))
    assert native.find() is None


def test_an_object_that_a_wheel_brought_is_taken_whatever_compiled_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = folder / "package"
    monkeypatch.setattr(native, "_HERE", package)
    with monkeypatch.context() as patch:
        patch.setattr("llvmlite.__version__", "0.1")
        native.keep(CODE, package / "objects", native.cpu())
    assert native.find() == CODE
    (path,) = (package / "objects").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    assert native.find() is None


def test_objects_of_other_sources_are_cleared_away(folder: Path) -> None:
    other = folder / "kernel-0123456789abcdef-linux-16-x86-64-v3.o"
    other.touch()
    (folder / "notes.o").touch()
    native.keep(CODE, folder, "x86-64-v2")
    native.keep(CODE, folder, "x86-64-v3")
    names = sorted(path.name for path in folder.iterdir())
    assert [name.rpartition("-")[2] for name in names] == ["v2.o", "v3.o", "notes.o"]


def test_an_object_that_cannot_be_kept_is_used_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = folder / "file"
    blocked.touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(blocked))
    monkeypatch.setattr(native, "make", lambda *_: CODE)
    monkeypatch.setattr(native, "_compiled", [])
    with pytest.warns(RuntimeWarning, match="cannot be kept in .*file"):
        assert native.prepare() == CODE
    assert native.prepare() == CODE  # once compiled is enough, and once said
    (said,) = caplog.messages
    assert said.startswith("deltafix: compiling the kernel, once (about a minute)")
    monkeypatch.setattr(native, "_compiled", [])
    with pytest.warns(RuntimeWarning):
        native.prepare(quiet=True)  # a command has said so itself
    assert len(caplog.messages) == 1
    assert list(folder.iterdir()) == [blocked]


@compiled
def test_a_warm_start_runs_an_epoch_without_numba() -> None:
    names = ("numba", "asyncio", "deltafix.engine.beyond", "deltafix.engine.folds", "llvmlite")
    code = (
        "import deltafix, json, sys\n"
        "db = deltafix.connect('.decl a(x: number)  .input a  .decl b(x: number)  .output b"
        "  b(x) :- a(x).')\n"
        "with db.transaction() as tx: tx.insert('a', [(1,), (2,)])\n"
        f"print(json.dumps([db.rows('b'), [name for name in {names} if name in sys.modules]]))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == [[[1], [2]], ["llvmlite"]]


class Opened:
    """A database with one row, and the arguments that look it up."""

    def __init__(self) -> None:
        self.db = deltafix.connect(".decl r(a: number, b: number)  .input r")
        with self.db.transaction() as tx:
            tx.insert("r", [(1, 2)])
        arena = self.db.instance.arena
        self.words, self.cells = arena.words, arena.cells
        self.row = np.array([1, 2], dtype=np.int32)
        self.number = self.db.instance.linked.ids["r"]


def test_entry_points_take_what_python_calls_an_int() -> None:
    o = Opened()
    for one in (1, np.int64(1), np.int32(1), True):
        assert entries.lookup(o.words, o.cells, o.row, o.number, one - 1, at.WAS) == 0
    assert entries.lookup(o.words, o.cells, o.row[::-1].copy(), o.number, 0, at.WAS) == -1
    assert entries.rollback(o.words, o.cells) is None


@compiled
def test_entry_points_refuse_what_is_no_such_array_or_number() -> None:
    o = Opened()
    before = o.words[: int(o.cells[at.BUMP])].tobytes()
    frozen = o.row.copy()
    frozen.flags.writeable = False
    bad_rows = (
        [1, 2], None, o.row.tobytes(), o.row.astype(np.int64), o.row.astype(np.float32),
        o.row.astype(np.uint32), o.row.astype(">i4"), o.row.reshape(1, 2), np.int32(1), frozen,
        np.arange(8, dtype=np.int32)[::2], np.frombuffer(b"\0" * 9, np.int32, 2, offset=1),
        o.row.view(np.recarray),
    )  # fmt: skip
    for rows in bad_rows:
        with pytest.raises(TypeError, match=r"insert_rows: an argument is no"):
            entries.insert_rows(o.words, o.cells, rows, o.number, 1)
    for number in ("1", 1.0, None):
        with pytest.raises(TypeError):
            entries.insert_rows(o.words, o.cells, o.row, o.number, number)
    with pytest.raises(OverflowError):
        entries.insert_rows(o.words, o.cells, o.row, o.number, 1 << 64)
    with pytest.raises(TypeError, match="takes 5 arguments"):
        entries.insert_rows(o.words, o.cells, o.row, o.number)
    with pytest.raises(TypeError):
        entries.insert_rows(o.words, o.cells, o.row, o.number, n=1)
    assert o.words[: int(o.cells[at.BUMP])].tobytes() == before


def test_a_full_arena_is_a_memory_error_and_nothing_is_lost() -> None:
    o = Opened()
    limit = int(o.cells[at.LIMIT])
    o.cells[at.LIMIT] = o.cells[at.BUMP]
    error = IndexError if BOUNDS_CHECKED and not JIT_DISABLED else MemoryError
    with pytest.raises(error, match="reservation is used up"), o.db.transaction() as tx:
        tx.insert("r", [(k, k) for k in range(5000)])
    assert o.db.rows("r") == [(1, 2)]
    o.cells[at.LIMIT] = limit
    with o.db.transaction() as tx:
        tx.insert("r", [(k, k) for k in range(5000)])
    assert o.db.count("r") == 5001
    o.db.check_invariants()


_ENDING = """
import gc
from deltafix.kernel import native
functions = native.load(native.prepare())
vars(native).clear()
gc.collect()
filled = [bytearray(b"x" * size) for size in range(16, 200) for _ in range(300)]
gc.collect()
assert [function.__name__ for function in functions.values()] == list(functions)
"""


@compiled
def test_functions_outlive_the_names_of_their_module() -> None:
    subprocess.run([sys.executable, "-c", _ENDING], check=True)
