"""Pipelines over views in SQL: what is refused, keys, values that do not fit, changed programs."""

from __future__ import annotations

import json
import re
from copy import copy
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from tests.support.pipelines import open_pipeline

from deltafix.errors import (
    BadRowError,
    ConfigError,
    DriftError,
    KeyBreachError,
    ProgramChangedError,
    SqlError,
    SqlRefusedError,
    StateError,
)
from deltafix.pipeline.check import check
from deltafix.pipeline.config import read_config
from deltafix.pipeline.manifest import read_view
from deltafix.pipeline.replay import replay
from deltafix.pipeline.runner import Pipeline
from deltafix.reducers.aggregate import Several
from deltafix.sql import program
from deltafix.sql.program import program_of

VIEWS = """
CREATE TABLE booking (id BIGINT PRIMARY KEY, day DATE, amount DECIMAL(8, 2) NOT NULL, note TEXT);
CREATE VIEW total AS SELECT day, SUM(amount) AS s, COUNT(note) AS n FROM booking GROUP BY day;
CREATE VIEW notes AS SELECT note FROM booking;
"""
TOML = """
[pipeline]
program = "views.sql"
state = "state"
runner = "local"
[input.booking]
source = "files"
path = "in"
{booking}
[output.total]
path = "total"
{outputs}
"""


class Books:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "in").mkdir()
        self.write()

    def write(self, *, views: str = VIEWS, booking: str = "", outputs: str = "") -> None:
        (self.folder / "views.sql").write_text(views)
        text = TOML.format(booking=booking, outputs=outputs)
        (self.folder / "pipeline.toml").write_text(text)

    def say(self, name: str, *lines: str) -> None:
        (self.folder / "in" / name).write_text("\n".join(("sign,id,day,amount,note", *lines, "")))

    def open(self, **options: object) -> Pipeline:
        return open_pipeline(self.folder / "pipeline.toml", **options)

    def run(self, **options: object) -> None:
        with self.open(**options) as pipeline:
            list(pipeline.drain())

    def check(self) -> list[str]:
        return list(check(read_config(self.folder / "pipeline.toml")))

    def view(self, name: str) -> list[tuple[object, ...]]:
        table = read_view(self.folder / name)[1]
        assert table is not None
        return sorted(zip(*(one.to_pylist() for one in table.columns), strict=True), key=repr)


@pytest.fixture
def books(tmp_path: Path) -> Books:
    return Books(tmp_path)


def test_story_of_an_upsert(books: Books) -> None:
    books.write(
        booking='key = "id"', outputs='[output.notes]\npath = "notes"\nduplicates = "count"'
    )
    books.say("1.csv", "+,1,2026-01-31,12.50,", '+,2,2026-01-31,0.05,""', "+,3,,1,tea")
    books.run()
    assert books.view("total") == [
        (None, Decimal("1.00"), 1),
        (date(2026, 1, 31), Decimal("12.55"), 1),
    ]
    assert books.view("notes") == [("", 1), ("tea", 1), (None, 1)]
    books.say("2.csv", "+,1,2026-02-01,1.00,tea", "-,2,,,")
    books.run()
    assert books.view("total") == [
        (None, Decimal("1.00"), 1),
        (date(2026, 2, 1), Decimal("1.00"), 1),
    ]
    assert books.view("notes") == [("tea", 2)]
    config = read_config(books.folder / "pipeline.toml")
    *lines, last = replay(config, 2).show()
    assert last == "epoch 2: recomputed, the same"
    assert lines[:2] == ["+total\t2026-01-31\t12.55\t1", "+total\tNULL\t1.00\t1"]
    assert list(check(config))[-1].endswith("ok")


kept_here = pytest.mark.parametrize("runner", ["local", "local shards"], indirect=True)


def test_a_late_delete_is_set_aside_with_the_key_that_it_says(books: Books) -> None:
    late = 'late = "bad"\nlateness = 2\nbad_rows = "quarantine"'
    books.write(booking=f'key = "id"\nsequence_by = "at"\n{late}')
    lines = ("sign,at,id,day,amount,note", "+,9,1,,1,a", "-,2,1,,,", "+,3,2,,1,", "-,8,3,,,", "")
    (books.folder / "in" / "1.csv").write_text("\n".join(lines))
    with books.open() as pipeline:
        list(pipeline.drain())
        aside = [one["row"] for one in pipeline.maintainer.quarantine.rows("booking")]
    assert books.view("total") == [(None, Decimal("1.00"), 1)]
    assert [{name: row.get(name) for name in ("id", "amount")} for row in aside] == [
        {"id": 1, "amount": None},
        {"id": 2, "amount": "1.00"},
    ]


@kept_here
def test_totals_without_keys_are_one_row_and_need_no_multiplicity(books: Books, runner) -> None:
    table, _, notes, _ = VIEWS.split(";")
    query = "SELECT COUNT(*) AS c, SUM(amount) AS s, MAX(day) AS d FROM booking"
    books.write(views=f"{table}; CREATE VIEW total AS {query}; {notes};")
    books.run()
    assert books.view("total") == [(0, None, None)]
    for number, (lines, wanted) in enumerate((
        (("+,1,2026-01-31,12.50,", "+,2,,0.05,"), (2, Decimal("12.55"), date(2026, 1, 31))),
        (("-,1,2026-01-31,12.50,",), (1, Decimal("0.05"), None)),
        (("-,2,,0.05,",), (0, None, None)),
        (("+,3,2026-01-31,7,",), (1, Decimal("7.00"), date(2026, 1, 31))),
    )):  # fmt: skip
        books.say(f"{number}.csv", *lines)
        books.run()
        assert books.view("total") == [wanted]
    kept = program_of((books.folder / "views.sql").read_text())
    assert kept.bags == {"notes"}


def test_a_key_twice_rolls_the_epoch_back(books: Books) -> None:
    books.say("1.csv", "+,1,2026-01-31,1,a")
    books.run()
    books.say("2.csv", "+,2,2026-01-31,1,a", "+,1,2026-02-01,1,a")
    with pytest.raises(KeyBreachError) as error:
        books.run()
    assert error.value.values == {"relation": "booking", "value": (1,)}
    assert books.view("total") == [(date(2026, 1, 31), Decimal("1.00"), 1)]
    (books.folder / "in" / "2.csv").unlink()
    books.say("2.csv", "+,1,2026-02-01,1,a", "-,1,2026-01-31,1,a")  # net, in any order
    books.run()
    assert books.view("total") == [(date(2026, 2, 1), Decimal("1.00"), 1)]


@pytest.mark.parametrize("mode", ["changes", "rows", "snapshot"])
def test_agree_check_finds_the_breaches_that_a_run_of_one_epoch_finds(tmp_path, mode) -> None:
    rng = Random(mode)
    source = 'source = "snapshot"' if mode == "snapshot" else f'source = "files"\nmode = "{mode}"'
    views = (
        "CREATE TABLE booking (id BIGINT, f DOUBLE, note TEXT UNIQUE, PRIMARY KEY (f, id));"
        "CREATE VIEW total AS SELECT id, COUNT(note) AS n FROM booking GROUP BY id"
    )
    found = []
    for turn in range(24):
        (tmp_path / f"{turn}").mkdir()
        books = Books(tmp_path / f"{turn}")
        books.write(views=views, booking='missing = "ignore"' * (mode == "changes"))
        toml = books.folder / "pipeline.toml"
        toml.write_text(toml.read_text().replace('source = "files"', source))
        for file in range(rng.randrange(1, 4)):
            lines = [
                f"{rng.choice('++-')},{rng.randrange(4)},{rng.choice(['nan', '-0.0', '0.0'])},"
                f"{rng.choice(['', '', '', 'a', 'b'])}"
                for _ in range(rng.randrange(1, 3))
            ]
            text = "\n".join(["sign,id,f,note", *lines, ""])
            if mode != "changes":
                text = re.sub("^[^,]*,", "", text, flags=re.MULTILINE)
            (books.folder / "in" / f"{file}.csv").write_text(text)
        said = list[str | None]()
        for ask in (books.check, books.run):
            try:
                ask()
                said.append(None)
            except KeyBreachError as error:
                said.append(str(error.values))
        assert (said[0] is None) == (said[1] is None), said
        found.append(said[0])
    assert len(set(found)) > 3
    assert found.count(None) > 3


@pytest.mark.parametrize("mode", ["changes", "rows", "snapshot"])
@pytest.mark.parametrize("wide", ["TEXT NOT NULL", "TEXT"])
def test_the_way_out_of_a_broken_key_is_one(books: Books, mode: str, wide: str) -> None:
    def write(keys: str, more: str = "") -> None:
        views = f"CREATE TABLE booking (id BIGINT NOT NULL, note {wide}{keys});"
        books.write(views=f"{views} CREATE VIEW total AS SELECT DISTINCT note FROM booking;")
        toml = books.folder / "pipeline.toml"
        source = "snapshot" if mode == "snapshot" else f'files"\nmode = "{mode}'
        toml.write_text(
            toml.read_text().replace('"files"', f'"{source}"').replace('"in"', f'"in"\n{more}')
        )

    sign = "sign," * (mode == "changes"), "+," * (mode == "changes")
    files = [["1,b", "1,c"]] if mode == "snapshot" else [["1,b"], ["1,c"]]
    for number, lines in enumerate(files):
        text = "\n".join([f"{sign[0]}id,note", *(f"{sign[1]}{one}" for one in lines), ""])
        (books.folder / "in" / f"{number}.csv").write_text(text)
    write(", UNIQUE (id)")
    for ask in (books.check, books.run):
        with pytest.raises(KeyBreachError) as error:
            ask()
    said = re.search(r"or let rows replace each other: (key = .*) in its section", str(error.value))
    assert (said is not None) == (mode == "changes")
    if said is None:
        (way_out,) = re.findall(r"declare (UNIQUE \(id, )\.\.\.\) with", str(error.value))
        write(f", {way_out}note)")
    else:
        write(", UNIQUE (id)", said[1])
    books.run()
    assert books.view("total") == ([("b",), ("c",)] if said is None else [("c",)])


@pytest.mark.parametrize("source", ['files"\nmode = "rows', "snapshot"])
def test_a_table_without_key_is_told_what_its_input_takes(books: Books, source: str) -> None:
    columns = "id BIGINT, note TEXT"
    view = "CREATE VIEW total AS SELECT COUNT(*) AS n FROM booking"
    toml = books.folder / "pipeline.toml"
    books.write(views=f"CREATE TABLE booking ({columns}); {view}")
    toml.write_text(toml.read_text().replace('"files', f'"{source}'))
    (books.folder / "in" / "1.csv").write_text("id,note\n1,b\n1,b\n,b\n")
    with pytest.raises(ConfigError) as error:
        books.run()
    (way_out,) = re.findall(r"declare its key; (UNIQUE \(.*\)) makes", str(error.value))
    (books.folder / "views.sql").write_text(f"CREATE TABLE booking ({columns}, {way_out}); {view}")
    books.run()
    assert books.view("total") == [(2,)]


def test_check_says_of_keys_what_it_does_not_look_at(books: Books, monkeypatch) -> None:
    def said() -> str:
        return books.check()[0].rpartition("; ")[2]

    books.say("1.csv", "+,1,2026-01-31,1,a", "+,2,,1,a", "+,1,,2,b")
    with pytest.raises(KeyBreachError) as error:
        said()
    assert "PRIMARY KEY (id) = (1); it would fail an epoch: (1, datetime.date(" in str(error.value)
    monkeypatch.setattr("deltafix.pipeline.check.LOOKED", 2)
    assert said() == "PRIMARY KEY (id) not looked at)"  # a row behind them may make room
    monkeypatch.undo()
    books.write(booking='version = "id"\nlate = "ignore"')
    assert said() == "PRIMARY KEY (id) not looked at)"
    books.write(booking='key = "id"')
    assert said() == "looked at 3 rows)"
    books.write()
    books.say("1.csv", "+,1,2026-01-31,1,a")
    assert said() == "looked at 1 row)"
    books.run()
    assert said().endswith("(nothing new)")
    books.say("2.csv", "+,2,2026-01-31,1,a")
    assert said() == "PRIMARY KEY (id) looked at among these rows only)"


def test_unique_lets_nulls_be_equal(books: Books) -> None:
    views = VIEWS.replace("note TEXT", "note TEXT UNIQUE")
    books.write(views=views)
    books.say("1.csv", "+,1,,1,", "+,2,,1,", "+,3,,1,a")
    books.run()
    books.say("2.csv", "+,4,,2,a")
    with pytest.raises(KeyBreachError, match=r"UNIQUE \(note\) = \(a\)"):
        books.run()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("+,1,2026-02-30,1,a", "day = '2026-02-30' is no DATE"),
        ("+,1,2026-01-31,1.005,a", r"amount = '1.005' is no DECIMAL\(8, 2\) NOT NULL"),
        ("+,1,2026-01-31,1000000,a", "amount = '1000000' is no DECIMAL"),
        ("+,1,2026-01-31,,a", "amount is missing"),
        ("+,one,2026-01-31,1,a", "id = 'one' is no BIGINT NOT NULL"),
        ("+,9223372036854775808,2026-01-31,1,a", "id = '9223372036854775808' is no BIGINT"),
    ],
)
def test_values_that_are_not_of_their_column(books: Books, line: str, reason: str) -> None:
    books.say("1.csv", line)
    with pytest.raises(BadRowError, match=reason):
        books.run()


def test_rows_of_the_quarantine_are_as_users_have_them(books: Books) -> None:
    books.write(booking='bad_rows = "quarantine"')
    books.say("1.csv", "-,1,2026-01-31,1.5,a", "+,2,x,1,a")
    with books.open() as pipeline:
        list(pipeline.drain())
        rows = [one["row"] for one in pipeline.maintainer.quarantine.rows("booking")]
    assert {"id": 1, "day": "2026-01-31", "amount": "1.50", "note": "a"} in rows
    assert len(rows) == 2


def test_json_numbers_are_taken_as_they_are_written(books: Books) -> None:
    books.write(booking='format = "json"\nmode = "rows"')
    rows = [
        '{"id": 1, "day": "2026-01-31", "amount": 123456.10, "note": "2026-01-31"}',
        '{"id": 2, "day": null, "amount": "0.1", "note": null}',
    ]
    (books.folder / "in" / "1.json").write_text("\n".join(rows) + "\n")
    books.run()
    assert books.view("total") == [
        (None, Decimal("0.10"), 0),
        (date(2026, 1, 31), Decimal("123456.10"), 1),
    ]


@pytest.mark.parametrize(
    ("written", "kinds"),
    [
        ({"views": VIEWS + "INSERT INTO booking VALUES (1, NULL, 1, NULL);"}, "statement INSERT"),
        ({"views": VIEWS.replace("NOT NULL", "DEFAULT 1")}, "DEFAULT in a program"),
        ({"views": VIEWS.replace("NOT NULL", "CHECK (amount > 0)")}, "CHECK in a program"),
        ({"views": VIEWS.replace("SELECT note", 'SELECT note AS "a note"')}, "name 'a note'"),
        ({"views": VIEWS.replace("SELECT note", "SELECT note, note")}, "two columns"),
        ({"views": VIEWS.replace("SELECT note", "SELECT NULL AS x")}, "NULL of no type"),
        ({"views": VIEWS.replace("total", "notes")}, "already"),
        ({"views": VIEWS.replace("VIEW notes", "VIEW range")}, "rules have that word"),
        ({"outputs": '[output.notes]\npath = "notes"'}, 'duplicates = "count"'),
        ({"booking": 'duplicates = "count"'}, "told apart by their values"),
        ({"views": VIEWS.replace(" PRIMARY KEY", "")}, "has no PRIMARY KEY"),
        ({"booking": 'key = "amount"'}, r"others by the table's own keys: PRIMARY KEY \(id\)"),
        ({"outputs": '[input.total]\nsource = "snapshot"\npath = "x"'}, "is a view"),
        ({"outputs": '[output.total2]\npath = "x"'}, "'total'"),
    ],
)
def test_refusals(books: Books, written: dict[str, str], kinds: str) -> None:
    books.write(**written)
    with pytest.raises((ConfigError, SqlError), match=kinds):
        books.open()


def test_a_refusal_has_its_place() -> None:
    with pytest.raises(SqlRefusedError, match=r"v\.sql:2:") as error:
        program_of("CREATE TABLE t (a INTEGER);\nDROP TABLE t", path="v.sql")
    assert error.value.diagnostics[0].code == "DF722"


def test_a_view_that_computes_another_thing_is_derived_anew(books: Books) -> None:
    books.say("1.csv", "+,1,2026-01-31,1,a")
    books.run()
    books.write(views=VIEWS.replace("SUM(amount)", "SUM(amount * 2)"))
    with pytest.raises(ProgramChangedError, match="total"):
        books.run()
    with pytest.raises(ProgramChangedError, match="functions"):
        books.run(on_change=lambda change: "maintain")
    books.run(on_change=lambda change: "rebuild")
    assert books.view("total")[0][1] == Decimal("2.00")
    books.write(views=VIEWS.replace("SUM(amount)", "sum( amount*2 ) -- twice\n"))
    books.run()


def test_a_table_keeps_the_columns_that_its_rows_have(books: Books) -> None:
    books.say("1.csv", "+,1,2026-01-31,1,a")
    books.run()
    for old, new in (("(8, 2)", "(8, 3)"), (" PRIMARY KEY", " UNIQUE NOT NULL")):
        books.write(views=VIEWS.replace(old, new))
        with pytest.raises(StateError, match="came in as that"):
            books.run(on_change=lambda change: "rebuild")


@kept_here
def test_before_rows_are_in_a_program_and_its_inputs_may_change(books: Books, runner) -> None:
    """A first run that failed refuses nothing: `key`, columns and views may be mended."""
    (books.folder / "in" / "1.csv").write_text("id,day,amount,note\n1,2026-01-31,1,a\n")
    books.write(booking='key = "id"')
    with pytest.raises(DriftError):
        books.run()
    wider = VIEWS.replace("note TEXT", "note TEXT, who TEXT").replace("COUNT(note)", "MIN(who)")
    for views, booking in (
        (wider, 'key = "id"'), (VIEWS, ""), (wider, ""), (VIEWS, 'key = ["id"]\nmode = "changes"'),
    ):  # fmt: skip
        books.write(views=views, booking=booking)
        with pytest.raises(DriftError):
            books.run()
    books.write(booking='mode = "rows"')
    books.run()
    assert books.view("total") == [(date(2026, 1, 31), Decimal("1.00"), 1)]


@kept_here
def test_rows_that_are_there_stay_as_their_input_had_them(books: Books, runner) -> None:
    """By key a row replaces another; one that came in row by row was there beside it for good."""
    books.say("1.csv", "+,1,2026-01-31,1,a")
    books.run()
    for way in ("refuse", "rebuild", "maintain"):
        for booking, said in (('key = "id"', r"by key \(id\)"), ('mode = "rows"', "file by file")):
            books.write(booking=booking)
            with pytest.raises(StateError, match=f"booking came in row by row, .* {said} now"):
                books.run(on_change=lambda _, way=way: way)
    books.write()
    books.say("2.csv", "-,1,2026-01-31,1,a", "+,1,2026-01-31,2,a")
    books.run()
    assert books.view("total") == [(date(2026, 1, 31), Decimal("2.00"), 1)]


def test_the_way_out_of_changed_views_is_one_that_views_can_go(books: Books) -> None:
    books.say("1.csv", "+,1,2026-01-31,1,a")
    books.run()
    books.write(views=VIEWS.replace("SUM(amount)", "SUM(amount * 2)"))
    with pytest.raises(ProgramChangedError, match="--on-change rebuild") as caught:
        books.run()
    assert "maintain" not in str(caught.value)
    said = list(check(read_config(books.folder / "pipeline.toml")))[-2]
    assert said.startswith("the rules have changed (changed: total; kept: notes); --on-change reb")
    assert "maintain" not in said


def test_types_of_a_log(books: Books) -> None:
    books.write(
        views="CREATE TABLE booking (a SMALLINT PRIMARY KEY, b INTEGER, c BIGINT, d DOUBLE, "
        "e BOOLEAN, f TIMESTAMP, g TIMESTAMPTZ, h DECIMAL(18, 0)); "
        "CREATE VIEW total AS SELECT * FROM booking",
        booking='format = "json"\nmode = "rows"',
    )
    row = {"a": -32768, "b": 2147483647, "c": -(1 << 63), "d": 0.1, "e": True, "h": 10**18 - 1}
    row |= {"f": "1969-12-31 23:59:59.999999", "g": "2026-01-31T12:00:00+02:00"}
    rows = [row, dict.fromkeys(row) | {"a": 1}]
    (books.folder / "in" / "1.json").write_text("".join(json.dumps(one) + "\n" for one in rows))
    books.run()
    table = read_view(books.folder / "total")[1]
    assert table is not None
    kinds = [pa.int16(), pa.int32(), pa.int64(), pa.float64(), pa.bool_(), pa.timestamp("us")]
    assert table.schema.types == [*kinds, pa.timestamp("us", "UTC"), pa.decimal128(18, 0)]
    row["f"] = datetime(1969, 12, 31, 23, 59, 59, 999999)
    row["g"] = datetime(2026, 1, 31, 10, tzinfo=UTC)
    row["h"] = Decimal(10**18 - 1)
    assert sorted(table.to_pylist(), key=lambda one: one["a"]) == [row, rows[1]]


def test_reducers_of_a_program_are_kept_as_those_of_a_connection_are() -> None:
    """What the engine adds up by itself it adds up so here, and in a worker, too."""
    program = program_of(
        "CREATE TABLE t (k INTEGER NOT NULL, n INTEGER, s TEXT); CREATE VIEW v AS SELECT k, SUM(n) "
        "AS n, STRING_AGG(s, ',') AS s FROM t GROUP BY k; CREATE VIEW w AS SELECT k, n FROM t "
        "ORDER BY n LIMIT 2"
    )
    marks = {}
    for name, reducer in program.reducers.items():
        again = copy(reducer)  # by `__reduce__`, as a worker gets it
        assert isinstance(reducer, Several) == isinstance(again, Several)
        (most,) = {one.most for one in program.functors if one.name == name}
        marks[name.split("_")[0]] = isinstance(reducer, Several), most
    assert marks == {"sum": (False, 2**63 - 1), "string": (False, None), "first": (True, None)}


def test_a_state_of_views_is_opened_from_its_image(books: Books, monkeypatch) -> None:
    """Functions of a text are the same in every process, so what they gave need not be derived."""
    views = VIEWS.replace("COUNT(note)", "STRING_AGG(upper(note), ',')") + (
        "CREATE VIEW late AS SELECT id, day + INTERVAL 1 DAY FROM booking WHERE amount * 2 > 5;"
    )
    books.write(views=views, outputs='[output.late]\npath = "late"')
    books.say("1.csv", "+,1,2026-01-31,3,a", "+,2,2026-01-31,2,b", "+,3,,4,")
    books.run()
    opened = []
    for name, line in (("2.csv", "-,2,2026-01-31,2,b"), ("3.csv", "+,4,2026-01-31,9,c")):
        books.say(name, line)
        with books.open() as pipeline:
            db = pipeline.maintainer.db
            opened.append((db.recovered, db.last_epoch.derivations))
            list(pipeline.drain())
            db.check_invariants()
    assert opened == [((), 0), ((), 0)]
    assert books.view("total") == [
        (None, Decimal("4.00"), None), (date(2026, 1, 31), Decimal("12.00"), "A,C"),
    ]  # fmt: skip
    assert [row[0] for row in books.view("late")] == [1, 3, 4]
    monkeypatch.setattr(program, "maker", lambda: "another version")
    with books.open() as pipeline:  # its functions may compute other values
        (said,) = pipeline.maintainer.db.recovered
        assert "another program" in said
        assert pipeline.maintainer.db.last_epoch.derivations
