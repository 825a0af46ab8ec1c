"""Files that are the rows of tables, followed: what is taken, what is refused, and what waits."""

from __future__ import annotations

import pytest

import deltafix.sql
from deltafix.errors import SourceError
from deltafix.sql.follow import TableFolder

SCRIPT = """
CREATE TABLE city (name TEXT PRIMARY KEY, founded DATE, area DECIMAL(12, 2));
CREATE TABLE road (a TEXT NOT NULL REFERENCES city, b TEXT NOT NULL REFERENCES city, km BIGINT,
                   CHECK (km >= 0));
CREATE MATERIALIZED VIEW ends AS SELECT b, km FROM road;
"""


def roads(db):
    return db.execute("SELECT a, b, km FROM road").fetchall()


def test_a_folder_of_files_is_followed(warm_kernel, tmp_path):
    (tmp_path / "city.csv").write_text("name,founded,area\na,,\nb,,1.5\n")
    (tmp_path / "road.csv").write_text("a,b,km\na,b,1\n")
    told = []
    with deltafix.sql.connect() as db:
        db.execute(SCRIPT)
        folder = TableFolder(db, tmp_path, told.append)
        folder.load()

        def look():
            folder.poll()
            folder.poll()

        (tmp_path / "city.csv").write_text("name,founded,area\nb,,1.5\n")
        (tmp_path / "road.csv").write_text("a,b,km\nb,b,3\nb,b,3\n")
        look()  # the road goes before its city
        assert roads(db) == [("b", "b", 3)] * 2
        (tmp_path / "city.csv").write_text("name,founded,area\nc,,1.5\n")
        (tmp_path / "road.csv").write_text("a,b,km\nc,c,3\n")
        look()  # neither table first: of both a row comes, and one goes
        assert roads(db) == [("c", "c", 3)]
        (tmp_path / "city.csv").write_text("name,founded,area\nb,,1.5\n")
        (tmp_path / "road.csv").write_text("a,b,km\nb,b,3\nb,b,3\n")
        look()
        assert roads(db) == [("b", "b", 3)] * 2
        assert told == []
        for text, says in (
            ("b,b,x", "road.csv:2:5: error[DF300]: 'x'"),
            ("b,b,3\nb,zz,1", "road.csv:3:1"),
            ('b,b,3\n\n"b",b,-1', "road.csv:4:1"),
        ):
            told.clear()
            (tmp_path / "road.csv").write_text(f"a,b,km\n{text}\n")
            look()
            assert len(told) == 1
            assert says in told[0]
            assert "^" in told[0]
            assert roads(db) == [("b", "b", 3)] * 2
        with pytest.raises(SourceError, match="rows of the script"):
            TableFolder(db, tmp_path, told.append).load()


def test_a_table_with_neither_file_nor_rows_is_told_of_once(warm_kernel, tmp_path):
    (tmp_path / "city.csv").write_text("name,founded,area\na,,\n")
    told = []
    with deltafix.sql.connect() as db:
        db.execute(SCRIPT + "CREATE TABLE fixed (a INTEGER); INSERT INTO fixed VALUES (1)")
        folder = TableFolder(db, tmp_path, told.append)
        folder.load()
        lacks = f"note: no road.parquet and no road.csv in {tmp_path}; table road has no rows"
        assert told == [f"{lacks}, and none is followed"]
        folder.poll()
        assert len(told) == 1


def test_a_row_that_breaks_a_key_is_drawn_where_it_stands(warm_kernel, tmp_path):
    city, told = tmp_path / "city.csv", []
    city.write_text("name,founded,area\na,,\nb,,\nc,,\n")
    with deltafix.sql.connect() as db:
        db.execute(SCRIPT)
        folder = TableFolder(db, tmp_path, told.append)
        folder.load()
        for rows, line in ((["b", "d", "e", "d"], 5), (["a", "c", "x", "b", "c"], 6)):
            told.clear()
            city.write_text("name,founded,area\n" + "".join(f"{name},,\n" for name in rows))
            folder.poll()
            folder.poll()
            assert f"city.csv:{line}:1: error" in told[0]
            assert f"{line} | {rows[-1]},,\n" in told[0]
            assert told[0].count("^") == len(rows[-1]) + 2
        assert db.execute("SELECT name FROM city ORDER BY name").fetchall() == [*zip("abc")]


def test_a_file_that_was_refused_is_tried_again_with_the_next_one(warm_kernel, tmp_path):
    city, road, told = tmp_path / "city.csv", tmp_path / "road.csv", []
    city.write_text("name,founded,area\na,,\n")
    road.write_text("a,b,km\na,a,1\n")
    with deltafix.sql.connect() as db:
        db.execute(SCRIPT)
        folder = TableFolder(db, tmp_path, told.append)
        folder.load()

        def look():
            folder.poll()
            folder.poll()
            return [one.path.name for one in folder.problems]

        road.write_text("a,b,km\na,c,2\n")  # a road to a city that comes later
        assert look() == ["road.csv"]
        city.write_text("name,founded,area\na,,\nb,,\n")  # which is not this one, yet this is taken
        assert look() == ["road.csv"]
        assert db.execute("SELECT name FROM city ORDER BY name").fetchall() == [("a",), ("b",)]
        city.write_text("name,founded,area\na,,\nc,,\n")
        assert look() == []
        assert roads(db) == [("a", "c", 2)]
        assert len(told) == 1
        # A file that cannot be read keeps no other one out.
        city.write_text("name,founded,area\na,,\nc,,\nd,,\n")
        road.write_text("a,b\n")
        assert look() == ["road.csv"]
        assert db.execute("SELECT COUNT(*) FROM city").fetchall() == [(3,)]
        road.unlink()
        assert look() == ["road.csv"]
        assert "is gone" in folder.problems[0].text
        # Two that break a reference together are one transaction, told once.
        road.write_text("a,b,km\nx,x,1\n")
        city.write_text("name,founded,area\nd,,\n")
        assert sorted(look()) == ["city.csv", "road.csv"]
        assert len(told) == 4
        assert db.execute("SELECT COUNT(*) FROM city").fetchall() == [(3,)]
        road.write_text("a,b,km\nd,d,1\n")
        assert look() == []
        assert db.execute("SELECT name FROM city").fetchall() == [("d",)]
        assert db.execute("SELECT a FROM road").fetchall() == [("d",)]


def test_a_script_that_has_changed_stands_until_it_is_as_it_was_run(warm_kernel, tmp_path):
    script, told = tmp_path / "views.sql", []
    script.write_text(SCRIPT)
    with deltafix.sql.connect() as db:
        db.execute(SCRIPT)
        folder = TableFolder(db, tmp_path, told.append, (script, SCRIPT))

        def look():
            folder.poll()
            folder.poll()
            return [one.path for one in folder.problems]

        assert look() == []
        for change in ("-- a word", "", None, b"\xff"):
            if change is None:
                script.unlink()
            elif isinstance(change, bytes):
                script.write_bytes(change)
            else:
                script.write_text(change)
            assert look() == [script], change
            script.write_text(SCRIPT)
            assert look() == [], change
        assert len(told) == 4
        assert "start the server again to take it" in told[0]
        assert [*db.catalog.relations] == ["city", "road", "ends"]
        script.write_text("")  # while it was run
        assert TableFolder(db, tmp_path, told.append, (script, SCRIPT)).problems == ()
        folder = TableFolder(db, tmp_path, told.append, (script, SCRIPT))
        assert look() == [script]
