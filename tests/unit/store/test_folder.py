"""Folders on a disk and in an object store: the same laws; then what only a store can do wrong."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from deltafix.errors import SourceError
from deltafix.store import objects
from deltafix.store.folder import Folder, Head, LocalFolder, ReplacedError, folder_at


@pytest.fixture(params=["disk", "s3"])
def folder(request, tmp_path, store) -> Folder:
    return folder_at(tmp_path / "f") if request.param == "disk" else folder_at(store.url())


def test_what_was_written_is_read(folder) -> None:
    assert folder.names() == []
    assert folder.look("a") is None
    assert folder.write("a", [b"1", memoryview(b"23")]) == 3
    (folder / "inside").write("b", [b""])
    assert (folder.read("a"), (folder / "inside").read("b")) == (b"123", b"")
    assert folder.names() == ["a"]
    assert (folder.exists("a"), folder.exists("b")) == (True, False)
    assert (folder / "inside").names() == ["b"]
    assert folder.folders() == ["inside"]
    for _ in range(2):
        folder.remove("a")
    with pytest.raises(FileNotFoundError):
        folder.read("a")


def test_a_file_is_read_in_parts_and_a_folder_goes_with_all_in_it(folder) -> None:
    inside = folder / "way" / "inside"
    data = bytes(range(256)) * 9_000
    inside.write("big", [data[:5], data[5:]], durable=False)
    inside.write("other", [b"1"])
    inside.sync()
    assert inside.size("big") == len(data)
    with inside.open("big") as stream:
        for place in (1_300_000, 3, len(data) - 2):
            assert stream.seek(place) == place
            assert stream.read(5) == data[place : place + 5]
        assert stream.seek(-4, 2) == len(data) - 4
        assert stream.read() == data[-4:]
    for missing in (inside.open, inside.size):
        with pytest.raises(FileNotFoundError):
            missing("none")
    (folder / "way2").write("kept", [b""])
    for _ in range(2):
        folder.remove_folder("way")
    assert folder.folders() == ["way2"]
    assert (folder / "way").folders() == (folder / "none").folders() == []


def test_a_head_is_replaced_whole_by_whoever_saw_it(folder) -> None:
    head = Head(folder, "head")
    assert head.data is None
    for number in range(3):
        head.replace(b"%d" % number)
        assert Head(folder, "head").data == b"%d" % number


def test_urls_and_paths(store, tmp_path) -> None:
    assert isinstance(folder_at(tmp_path), LocalFolder)
    assert isinstance(folder_at(f"file://{tmp_path}"), LocalFolder)
    assert str(folder_at("s3://bucket/a/") / "b") == "s3://bucket/a/b"
    assert str(folder_at(Path("x")) / "b") == "x/b"
    with pytest.raises(SourceError, match="file://, s3://"):
        folder_at("hdfs://name/a")
    with pytest.raises(OSError, match=r"NoSuchBucket|not found"):
        folder_at("s3://nowhere/a").write("b", [b""])


def test_of_writers_that_saw_the_same_one_wins(store) -> None:
    for seen in (None, b"before"):
        folder = folder_at(store.url())
        if seen is not None:
            Head(folder, "head").replace(seen)
        heads = [Head(folder, "head") for _ in range(8)]
        won: list[int] = []

        def write(number: int, heads: list[Head] = heads, won: list[int] = won) -> None:
            try:
                heads[number].replace(b"%d" % number)
            except ReplacedError:
                return
            won.append(number)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert Head(folder, "head").data == b"%d" % won[0]


@pytest.mark.parametrize("what", ["not", "done", "late"])
def test_a_put_that_failed_is_settled_by_the_next(what, store, monkeypatch) -> None:
    monkeypatch.setattr(objects, "RETRIES", 0)
    for settle in ("at once", "before", "behind"):
        folder = folder_at(store.url())
        head = Head(folder, "head")
        head.replace(b"one")
        store.fault = lambda method, path: what if method == "PUT" else ""
        with pytest.raises(OSError, match="500"):
            head.replace(b"two")
        store.fault = lambda method, path: ""
        if settle == "at once":
            store.settle()
        if settle == "before":  # between looking and putting
            store.fault = lambda method, path: store.settle() or ""
        head.replace(b"three")
        store.fault = lambda method, path: ""
        store.settle()
        assert Head(folder, "head").data == b"three"
        head.replace(b"four")
        assert Head(folder, "head").data == b"four"


def test_a_put_that_was_done_and_is_tried_again_succeeds(store) -> None:
    folder = folder_at(store.url())
    head = Head(folder, "head")
    answers = iter(["done"])
    store.fault = lambda method, path: next(answers, "") if method == "PUT" else ""
    head.replace(b"one")
    assert Head(folder, "head").data == b"one"
    assert list(answers) == []
