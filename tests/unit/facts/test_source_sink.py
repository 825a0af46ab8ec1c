"""Where fact files lie: names stay inside their folder, files appear whole, .gz both ways."""

from __future__ import annotations

import gzip
import re
from io import StringIO

import pytest

from deltafix.errors import FactError, SinkError, SourceError
from deltafix.facts.schema import Schema
from deltafix.facts.sink import print_size, write_output
from deltafix.facts.source import read_input

FLAGGED = Schema.of("edge", ["x", "y"], ["number", "number"])
NAME = Schema.of("name", ["x"], ["symbol"])


def rows(found):
    return found if isinstance(found, list) else [tuple(row.values()) for row in found.to_pylist()]


def test_the_default_name_is_the_relation_with_facts(tmp_path):
    (tmp_path / "edge.facts").write_text("1\t2\n")
    assert rows(read_input(FLAGGED, {}, tmp_path)) == [(1, 2)]


def test_a_packed_file_serves_when_the_plain_one_is_missing(tmp_path):
    (tmp_path / "edge.facts.gz").write_bytes(gzip.compress(b"1\t2\n"))
    assert rows(read_input(FLAGGED, {}, tmp_path)) == [(1, 2)]
    (tmp_path / "edge.facts").write_text("3\t4\n")
    assert rows(read_input(FLAGGED, {}, tmp_path)) == [(3, 4)]


def test_a_file_name_and_format_of_the_directive(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "e.csv").write_text("x,y\n1,2\n")
    parameters = {"filename": "in/e.csv", "delimiter": ",", "headers": "true"}
    assert rows(read_input(FLAGGED, parameters, tmp_path)) == [(1, 2)]


def test_standard_input(tmp_path, monkeypatch):
    class Stdin:
        buffer = __import__("io").BytesIO(b"1\t2\n")

    monkeypatch.setattr("sys.stdin", Stdin)
    assert rows(read_input(FLAGGED, {"IO": "stdin"}, tmp_path)) == [(1, 2)]


@pytest.mark.parametrize("name", ["../e.facts", "/etc/passwd", "a/../../e", "", "a\0b"])
def test_a_name_that_leaves_the_folder_is_refused(tmp_path, name):
    for act in (
        lambda: read_input(FLAGGED, {"filename": name}, tmp_path),
        lambda: write_output(FLAGGED, {"filename": name}, [], tmp_path, StringIO()),
    ):
        with pytest.raises(SourceError, match="leaves the folder"):
            act()


def test_missing_unreadable_and_damaged_files_are_source_errors(tmp_path):
    with pytest.raises(SourceError, match=r"edge.facts: no such fact file for edge\(x: number"):
        read_input(FLAGGED, {}, tmp_path)
    (tmp_path / "d").mkdir()
    with pytest.raises(SourceError, match="cannot be read: Is a directory"):
        read_input(FLAGGED, {"filename": "d"}, tmp_path)
    (tmp_path / "e.gz").write_bytes(gzip.compress(b"1\t2\n" * 99)[:-9])
    with pytest.raises(SourceError, match="cannot be unpacked"):
        read_input(FLAGGED, {"filename": "e.gz"}, tmp_path)


def test_what_gzip_packed_is_known_by_its_first_bytes_not_by_its_name(tmp_path):
    (tmp_path / "e.gz").write_bytes(b"1\t2\n")
    (tmp_path / "e.csv").write_bytes(gzip.compress(b"3\t4\n"))
    assert rows(read_input(FLAGGED, {"filename": "e.gz"}, tmp_path)) == [(1, 2)]
    assert rows(read_input(FLAGGED, {"filename": "e.csv"}, tmp_path)) == [(3, 4)]


def test_a_missing_file_is_told_of_where_it_may_lack_and_someone_hears_it(tmp_path):
    for parameters in ({}, {"IO": "jsonfile"}, {"IO": "sqlite", "dbname": "e.db"}):
        told = []
        assert read_input(FLAGGED, parameters, tmp_path, told.append, may_lack=True) == []
        assert len(told) == 1
        assert "it has no rows" in told[0]
        for more in ({"may_lack": True}, {"warn": told.append}):
            with pytest.raises(SourceError, match="no such"):
                read_input(FLAGGED, parameters, tmp_path, **more)


def test_what_is_there_in_place_of_a_missing_file_is_named(tmp_path):
    def said():
        with pytest.raises(SourceError) as error:
            read_input(FLAGGED, {}, tmp_path)
        return str(error.value).partition("; ")[2]

    assert said() == "a relation without rows has an empty file"
    (tmp_path / "edges.facts").touch()
    assert said() == "did you mean `edges.facts`?"
    (tmp_path / "edge.csv").write_text('1,2\n"3",4\n')
    parameters = re.search("`(.*)`", said())[1].split(", ")
    given = {name: value.strip('"') for name, value in (one.split("=") for one in parameters)}
    assert rows(read_input(FLAGGED, given, tmp_path)) == [(1, 2), (3, 4)]


def test_kinds_of_input_and_output_that_are_not_supported_say_which_are(tmp_path):
    with pytest.raises(SourceError, match=r"IO=xml is not supported .* file, stdin, sqlite"):
        read_input(FLAGGED, {"IO": "xml"}, tmp_path)
    with pytest.raises(SinkError, match=r"IO=xml is not supported .* file, stdout, sqlite"):
        write_output(FLAGGED, {"IO": "xml"}, [], tmp_path, StringIO())


def test_compress_packs_whatever_the_name(tmp_path):
    packed = {"compress": "true"}
    assert write_output(FLAGGED, packed, [(1, 2)], tmp_path, StringIO()).name == "edge.csv.gz"
    assert gzip.decompress((tmp_path / "edge.csv.gz").read_bytes()) == b"1\t2\n"
    write_output(FLAGGED, {"compress": "true", "filename": "e"}, [(3, 4)], tmp_path, StringIO())
    assert rows(read_input(FLAGGED, {"compress": "true", "filename": "e"}, tmp_path)) == [(3, 4)]
    (tmp_path / "edge.facts").write_text("5\t6\n")
    assert rows(read_input(FLAGGED, packed, tmp_path)) == [(5, 6)]


def test_output_makes_its_folder_and_leaves_nothing_else(tmp_path):
    out = tmp_path / "deep" / "out"
    assert write_output(FLAGGED, {}, [(1, 2)], out, StringIO()) == out / "edge.csv"
    assert [path.name for path in out.iterdir()] == ["edge.csv"]
    assert (out / "edge.csv").read_text() == "1\t2\n"


def test_output_by_extension_is_packed_and_reproducible(tmp_path):
    for folder in ("a", "b"):
        write_output(FLAGGED, {"filename": "e.gz"}, [(1, 2)], tmp_path / folder, StringIO())
    packed = (tmp_path / "a" / "e.gz").read_bytes()
    assert packed == (tmp_path / "b" / "e.gz").read_bytes()
    assert gzip.decompress(packed) == b"1\t2\n"


def test_a_file_that_fails_half_way_leaves_the_old_one(tmp_path):
    write_output(NAME, {}, [("old",)], tmp_path, StringIO())
    with pytest.raises(FactError, match="line break"):
        write_output(NAME, {}, [("new",)] * 20_000 + [("a\nb",)], tmp_path, StringIO())
    assert (tmp_path / "name.csv").read_text() == "old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["name.csv"]


def test_a_place_that_cannot_be_written_is_a_sink_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="cannot be written"):
        write_output(FLAGGED, {}, [], tmp_path / "file", StringIO())


def test_printing_follows_souffles_form(tmp_path):
    stdout = StringIO()
    write_output(FLAGGED, {}, [(1, 2)], None, stdout)
    write_output(FLAGGED, {"IO": "stdout", "headers": "true"}, [(3, 4)], tmp_path, stdout)
    print_size("edge", 2, stdout)
    assert stdout.getvalue() == (
        "---------------\nedge\n===============\n1\t2\n===============\n"
        "---------------\nedge\nx\ty\n===============\n3\t4\n===============\n"
        "edge\t2\n"
    )
    assert list(tmp_path.iterdir()) == []
