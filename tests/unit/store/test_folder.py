"""Folders on a disk, in an object store and in HDFS: the same laws; then what stores do wrong."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from deltafix.errors import SourceError
from deltafix.store import objects
from deltafix.store.folder import Folder, Head, LocalFolder, ReplacedError, folder_at


@pytest.fixture(params=["disk", "store", "hdfs"])
def folder(request, tmp_path) -> Folder:
    if request.param == "disk":
        return folder_at(tmp_path / "f")
    return folder_at(request.getfixturevalue(request.param).url())


@pytest.fixture(params=["store", "hdfs"])
def server(request) -> Any:
    """Where writers race, and what commits a file there."""
    found = request.getfixturevalue(request.param)
    found.commits = {"store": "PUT", "hdfs": "RENAME"}[request.param]
    return found


def test_what_was_written_is_read(folder) -> None:
    assert folder.names() == []
    assert folder.look("a") is None
    assert folder.write("a", [b"1", memoryview(b"23")]) == 3
    looked = folder.look("a")
    assert looked is not None
    assert looked[0] == b"123"
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
    assert str(folder_at("webhdfs://ada@name:1/a/") / "b") == "webhdfs://ada@name:1/a/b"
    with pytest.raises(SourceError, match="a folder is a path or a URL, not None"):
        folder_at(None)
    with pytest.raises(SourceError, match=r"file://, s3://.*webhdfs://namenode:9870/path"):
        folder_at("hdfs://name/a")
    for wrong in ("webhdfs:///a", "webhdfs://name:none/a"):
        with pytest.raises(SourceError, match="no folder of HDFS"):
            folder_at(wrong)
    with pytest.raises(OSError, match=r"NoSuchBucket|not found"):
        folder_at("s3://nowhere/a").write("b", [b""])


def test_of_writers_that_saw_the_same_one_wins(server) -> None:
    for seen in (None, b"before"):
        folder = folder_at(server.url())
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
def test_a_commit_that_failed_is_settled_by_the_next(what, server, monkeypatch) -> None:
    monkeypatch.setattr(objects, "RETRIES", 0)
    for settle in ("at once", "before", "behind"):
        folder = folder_at(server.url())
        head = Head(folder, "head")
        head.replace(b"one")
        server.fault = lambda method, path: what if method == server.commits else ""
        with pytest.raises(OSError, match="500"):
            head.replace(b"two")
        server.fault = lambda method, path: ""
        if settle == "at once":
            server.settle()
        if settle == "before":  # between looking and putting
            server.fault = lambda method, path: server.settle() or ""
        head.replace(b"three")
        server.fault = lambda method, path: ""
        server.settle()
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


def test_a_late_writer_of_hdfs_finds_its_number_free_and_is_told(hdfs) -> None:
    folder = folder_at(hdfs.url())
    first, late = Head(folder, "head"), Head(folder, "head")
    for number in range(3):  # the number that the late one will take is removed by then
        first.replace(b"%d" % number)
    with pytest.raises(ReplacedError):
        late.replace(b"late")
    assert Head(folder, "head").data == b"2"
    assert (folder / "head.versions").names() == ["000000000003"]
    assert folder.names() == ["head"]
    assert folder.folders() == []
    assert folder.read("head") == b"2"
    assert folder.exists("head")
    first.replace(b"more")
    folder.remove("head")
    assert (folder.look("head"), folder.names()) == (None, [])


def test_what_hdfs_refuses_is_an_error_of_the_system_that_names_the_path(hdfs, monkeypatch) -> None:
    monkeypatch.setattr("deltafix.store.hdfs.RETRIES", 0)
    folder = folder_at(hdfs.url())
    folder.write("file", [b"1"])
    with pytest.raises(OSError, match=r"/file/\.b.*ParentNotDirectory") as told:
        (folder / "file").write("b", [b""])
    assert "webhdfs://tests@127.0.0.1" in str(told.value)
    assert (folder / "none").names() == []
    hdfs.fault = lambda op, path: "not" if op == "RENAME" else ""
    with pytest.raises(OSError, match="500"):
        folder.write("new", [b"1"])
    assert folder.names() == ["file"], "what was written beside is gone again"
    with pytest.raises(OSError, match=r"nowhere\.invalid"):
        folder_at("webhdfs://nowhere.invalid/a").read("b")
