"""Values of logical types at each door: text, Python, files, tables, errors and proofs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import deltafix
from deltafix.cli.main import main
from deltafix.datalog.format import format_program
from deltafix.errors import FactError, FunctorError, ProgramError, TypeMismatchError
from deltafix.facts.codec import FactFormat, read_facts, write_facts
from deltafix.facts.json_rows import read_json
from deltafix.facts.logical_types import logical_type
from deltafix.facts.schema import Row, show_row
from deltafix.rules.dsl import sum_of
from deltafix.rules.schemas import row_schemas

COLUMNS = (
    "name: symbol, day: date, at: timestamp, zoned: timestamptz, pay: decimal(10, 2), "
    "ok: boolean, raw: blob"
)
ROW = (
    "ann", date(1990, 1, 31), datetime(2026, 1, 2, 3, 4, 5, 6), datetime(2026, 1, 2, 3, tzinfo=UTC),
    Decimal("1.50"), True, b"\x00\xff",
)  # fmt: skip
OPEN = (
    "name: symbol?, n: number?, x: float?, day: date?, pay: decimal(10, 2)?, ok: boolean?, "
    "raw: blob?"
)
EVERY = f"""
.decl r({COLUMNS})
.input r
.decl copy({COLUMNS})
copy(a, b, c, d, e, f, g) :- r(a, b, c, d, e, f, g).
.output copy
.decl o({OPEN})
.input o
.decl same({OPEN})
same(a, b, c, d, e, f, g) :- o(a, b, c, d, e, f, g).
.output same
"""
NOTHING = (None,) * 7
THERE = ("nil", -3, 0.5, date(2026, 2, 28), Decimal("-12345678.90"), False, b"")
ODD = ('"nil', 0, float("inf"), date.min, Decimal(0), True, b"nil")


@pytest.fixture
def db(warm_kernel: None) -> Iterator[deltafix.Database]:
    with deltafix.connect(EVERY) as found:
        with found.transaction() as tx:
            tx.insert("r", [ROW])
            tx.insert("o", [NOTHING, THERE, ODD])
        yield found


def test_rows_come_back_as_they_were_given(db: deltafix.Database) -> None:
    assert db.rows("copy") == [ROW]
    assert {*db.rows("same")} == {NOTHING, THERE, ODD}
    assert [type(one) for one in db.rows("copy")[0]] == [*map(type, ROW)]
    assert db.select("same", (..., ..., ..., None, ..., ..., ...)) == [NOTHING]
    assert db.select("copy", (..., ..., ..., ..., Decimal("1.5"), ..., ...)) == [ROW]
    assert db.semijoin("r", ["day"], [(date(1990, 1, 31),)]) == [ROW]
    assert db.relation("copy").select(ok=True) == [ROW]
    assert db.schemas["same"].show().endswith("pay: decimal(10, 2)?, ok: boolean?, raw: blob?)")


@pytest.mark.parametrize("door", [pa.Table.to_pandas, pl.from_arrow, lambda table: table])
def test_tables_go_in_and_out(db: deltafix.Database, door: Any) -> None:
    table = db.to_arrow("copy")
    assert [str(one) for one in table.schema.types] == [
        "string", "date32[day]", "timestamp[us]", "timestamp[us, tz=UTC]", "decimal128(10, 2)",
        "bool", "binary",
    ]  # fmt: skip
    with deltafix.connect(EVERY) as other:
        with other.transaction() as tx:
            tx.insert("r", door(table))
            tx.insert("o", db.to_arrow("same"))
        assert other.rows("copy") == [ROW]
        assert {*other.rows("same")} == {NOTHING, THERE, ODD}
    many = pa.concat_tables([table] * 3)
    with db.transaction() as tx:
        tx.delete("r", many.slice(0, 1))
    assert tx.delta["copy"].to_arrow().column("day").to_pylist() == [ROW[1]]


def test_a_frame_of_times_in_other_units(warm_kernel: None) -> None:
    text = ".decl t(at: timestamp, d: date?) .decl u(at: timestamp) u(a) :- t(a, _)."
    frame = pd.DataFrame({"at": pd.to_datetime(["2026-01-02 03:04:05"]), "d": [None]})
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("t", frame)
        assert db.rows("u") == [(datetime(2026, 1, 2, 3, 4, 5),)]
        odd = pa.table({"at": pa.array([1], pa.timestamp("ns")), "d": pa.nulls(1)})
        said = "column 'at' of row 0 .* takes a datetime.datetime without a zone, of whole micros"
        with pytest.raises(TypeMismatchError, match=said), db.transaction() as tx:
            tx.insert("t", odd)
        late = pa.table(
            {"at": pa.array([0], pa.timestamp("us")), "d": pa.array([2**30], pa.date32())}
        )
        with pytest.raises((TypeMismatchError, ValueError)), db.transaction() as tx:
            tx.insert("t", late)
        null = pa.table({"at": pa.nulls(1, pa.timestamp("us")), "d": pa.nulls(1)})
        said = r"row 0 is null.*only timestamp\? has missing values"
        with pytest.raises(FactError, match=said), db.transaction() as tx:
            tx.insert("t", null)
        assert db.count("t") == 1


def test_what_a_value_lacks_is_said(warm_kernel: None) -> None:
    columns = "at: timestamptz, d: date, p: decimal(6, 2), n: number"
    row = (datetime(2026, 1, 2, tzinfo=UTC), date(2026, 1, 2), Decimal("1.5"), 1)
    east = timezone(timedelta(hours=1))
    with deltafix.connect(f".decl t({columns})") as db:
        for place, value, says in (
            (0, datetime.min.replace(tzinfo=east), "in UTC, of the years 1 to 9999"),
            (1, None, "date takes a datetime.date; only date? has missing values"),
            (2, Decimal("12345.00"), "a decimal.Decimal of at most 6 digits, 2 of them behind"),
            (3, None, "9223372036854775807; only number? has missing values"),
        ):
            with pytest.raises(TypeMismatchError) as caught, db.transaction() as tx:
                tx.insert("t", [(*row[:place], value, *row[place + 1 :])])
            assert says in str(caught.value)
        for data, says in (
            ('[["2026-01-02Z", "2026-01-02", 1, 1],', "this is not JSON: Expecting value"),
            ('["2026-01-02Z", "2026-01-02", 1, 1]\n["2026-01-02Z", null, 1, 1]', "JSON lines"),
            (
                '[["2026-01-02 00:00Z", null, 1, 1]]',
                "'d' is null, but date takes a datetime.date; only date? has missing values",
            ),
            ('[["2026-01-02 00:00Z", "2026-01-02", 1, null]]', "'n' is null, but number takes"),
            (
                '[["2026-01-02 00:00Z", "2026-01-02", "12345", 1]]',
                "decimal(6, 2) is written like 1.55, of at most 6 digits, 2 of them behind the",
            ),
        ):
            with pytest.raises(FactError) as refused:
                read_json(data.encode(), db.schemas["t"], "t.json")
            assert says in str(refused.value)


@pytest.mark.parametrize(
    "form", [FactFormat(), FactFormat(delimiter=",", rfc4180=True), FactFormat(headers=True)]
)
@pytest.mark.parametrize("many", [1, 20_000])
def test_fact_files_are_read_as_they_were_written(
    db: deltafix.Database, form: FactFormat, many: int, tmp_path: Path
) -> None:
    for name in ("copy", "same"):
        rows = db.ordered(name) if many == 1 else db.rows(name) * (many // 2)
        path = tmp_path / "rows"
        with path.open("w", newline="") as file:
            write_facts(rows, db.schemas[name], form, file, "rows")
        found = read_facts(path.read_bytes(), db.schemas[name], form, "rows")
        again = found.to_pylist() if hasattr(found, "to_pylist") else found
        values = [tuple(one.values()) if isinstance(one, dict) else one for one in again]
        assert {*values} == {*db.rows(name)}
        assert len(values) == len(rows)


def test_every_output_is_an_input(
    db: deltafix.Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for way in ('IO=jsonfile, filename="{0}.json"', 'IO=sqlite, dbname="f.db"', "rfc4180=true"):
        folder = tmp_path / way[3:7]
        folder.mkdir()
        outs = EVERY.replace(".input r", "").replace(".input o", "")
        for name in ("copy", "same"):
            outs = outs.replace(f".output {name}", f".output {name}({way.format(name)})")
        facts = ",\n".join(
            _fact(name, row) for name, row in (("r", ROW), ("o", THERE), ("o", NOTHING))
        )
        (folder / "out.dl").write_text(f"{outs}\n{facts}.\n")
        _run(["run", str(folder / "out.dl"), "-D", str(folder)], capsys)
        ins = "".join(
            f".decl {name}({_columns(name)})\n.input {name}({way.format(name)})\n"
            f".decl {name}2({_columns(name)})\n.output {name}2(IO=json)\n"
            f"{name}2(a, b, c, d, e, f, g) :- {name}(a, b, c, d, e, f, g).\n"
            for name in ("copy", "same")
        )
        if way == "rfc4180=true":
            for name in ("copy", "same"):
                (folder / f"{name}.csv").rename(folder / f"{name}.facts")
        (folder / "in.dl").write_text(ins)
        printed = _run(["run", str(folder / "in.dl"), "-F", str(folder)], capsys)
        assert json.dumps("2026-01-02 03:04:05.000006") in printed
        assert printed.count("null") == 7
        assert "-12345678.90" in printed


def _fact(name: str, row: Row) -> str:
    values = [
        value if kind is None or not kind.nullable or value is None else (value,)
        for value, kind in zip(row, _kinds(name), strict=True)
    ]
    return show_row(name, tuple(values))


def _columns(name: str) -> str:
    return next(
        line.removeprefix(f".decl {name}(").removesuffix(")")
        for line in EVERY.splitlines()
        if line.startswith(f".decl {name}(")
    )


def _kinds(name: str) -> list[Any]:
    found = deltafix.Program.parse(EVERY).relation(name).attributes
    return [logical_type(one.type) for one in found]


def _run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr()
    assert ended.value.code == 0, said.err
    return said.out


def test_a_program_in_python_is_the_one_in_text(warm_kernel: None) -> None:
    with deltafix.Program() as p:
        born = p.relation("born", n=str, d=date, ok=bool, p="decimal(10,2)", t=datetime, b=bytes)
        left = p.relation("left", n=str, d=date | None)
        found = p.relation("found", n=str, d=date)
        total = p.relation("total", p="decimal(10, 2)")
        n, d, x, t, b = deltafix.vars("n d x t b")
        late = (
            (d < date(2026, 1, 31))
            & (x > Decimal("1.5"))
            & (b != b"\xff")
            & (t != datetime(2026, 1, 2))
        )
        found(n, d + 1) <= born(n, d, True, x, t, b) & late  # noqa: B015  a rule
        total(sum_of(x, born(..., ..., ..., x, ..., ...))) <= True  # noqa: B015  a rule
        p.facts(left, [("ann", None), ("bob", date(2026, 1, 1))])
        p.facts(born, [("ann", date(2026, 1, 1), True, Decimal("2.25"), datetime(2026, 1, 1), b"")])
    assert deltafix.Program.parse(p.show()) == p
    with deltafix.connect(p) as db:
        assert db.rows("found") == [("ann", date(2026, 1, 2))]
        assert db.rows("total") == [(Decimal("2.25"),)]
        assert db.rows("left") == [("ann", None), ("bob", date(2026, 1, 1))]


class Copy(NamedTuple):
    name: str
    day: date
    at: datetime
    zoned: datetime
    pay: Decimal
    ok: bool
    raw: bytes


class Same(NamedTuple):
    name: str | None
    n: int | None
    x: float | None
    day: date
    pay: Decimal | None
    ok: bool | None
    raw: bytes | None


def test_rows_are_objects_of_a_class(db: deltafix.Database) -> None:
    assert list(db.relation("copy", Copy)) == [Copy(*ROW)]
    with pytest.raises(TypeMismatchError, match=r"'day' is date, but .* holds date \| None"):
        db.relation("same", Same).rows()


@pytest.mark.parametrize(
    ("relation", "row", "says"),
    [
        (
            "r",
            (*ROW[:1], "1990-01-31", *ROW[2:]),
            "column 'day' of row 0 is '1990-01-31' (str), but date",
        ),
        ("r", (*ROW[:1], ROW[2], *ROW[2:]), "takes a datetime.date"),
        ("r", (*ROW[:2], ROW[3], *ROW[3:]), "takes a datetime.datetime without a zone"),
        ("r", (*ROW[:3], ROW[2], *ROW[4:]), "takes a datetime.datetime with a zone"),
        ("r", (*ROW[:4], 1.5, *ROW[5:]), "takes a decimal.Decimal of at most 10 digits, 2 of them"),
        ("r", (*ROW[:4], Decimal("0.001"), *ROW[5:]), "column 'pay' of row 0 is Decimal('0.001')"),
        ("r", (*ROW[:4], 10**8, *ROW[5:]), "column 'pay' of row 0 is 100000000"),
        ("r", (*ROW[:5], 1, ROW[6]), "boolean takes a bool"),
        ("r", (*ROW[:6], "ff"), "blob takes bytes"),
        ("r", (None, *ROW[1:]), "symbol takes a str"),
        ("o", (1, *NOTHING[1:]), "symbol? takes a str without lone surrogates, or None"),
    ],
)
def test_a_value_of_another_type_is_named(
    db: deltafix.Database, relation: str, row: Row, says: str
) -> None:
    before = db.count(relation)
    with pytest.raises(TypeMismatchError) as caught, db.transaction() as tx:
        tx.insert(relation, [row])
    assert says in str(caught.value)
    assert db.count(relation) == before


@pytest.mark.parametrize(
    ("rules", "code", "says"),
    [
        ('.decl b(d: date) b("2026-02-30").', "DF120", 'date is written like "2026-01-31"'),
        ('.decl b(d: date?) b("2026-02-03").', "DF120", 'date? is written like ["2026-01-31"] or'),
        (".decl a(d: date) .decl b(d: date) b(d + e) :- a(d), a(e).", "DF120", "days are added"),
        (".decl a(d: date) .decl b(d: number) b(d) :- a(d).", "DF120", "`d` cannot be both number"),
        (
            ".decl a(p: decimal(4, 1)) .decl b(p: decimal(4, 2)) b(p) :- a(p).",
            "DF120",
            "decimal(4, 2)",
        ),
        (
            ".decl a(p: decimal(4, 1)) .decl b(p: decimal(4, 1)) b(p * p) :- a(p).",
            "DF120",
            "by a number",
        ),
        (
            ".decl a(o: boolean) .decl b(o: boolean) b(-o) :- a(o).",
            "DF120",
            "`neg` takes no boolean",
        ),
        (
            ".decl a(x: blob) .decl b(d: date) b(as(x, date)) :- a(x).",
            "DF120",
            "no blob is cast to date",
        ),
        (".decl a(d: date?) .decl b(d: date) b(d) :- a(d).", "DF120", "both date (column"),
        (
            ".decl a(p: decimal(4, 1)) .decl b(x: float) b(x) :- x = mean p : { a(p) }.",
            "DF120",
            "`mean`",
        ),
        (".decl a(p: decimal(4, 1)) a(1.25).", "DF120", "decimal(4, 1) is written like 1.5"),
        (".decl a(d: date) a(as(9999999, date)).", "DF121", "9999999 is no date"),
        (".decl a(d: dat) a(1).", "DF113", "did you mean `date`?"),
        (".decl a(d: decimal) a(1).", "DF113", "there is no type `decimal`"),
        (
            ".decl a(p: decimal(19, 1)) .decl b(p: decimal(19, 1)) b(sum p : { a(p) }).",
            "DF120",
            "`sum`",
        ),
        (".decl a(d: decimal(39, 6)) a(1).", "DF103", "1 to 38 digits"),
        (".decl a(d: decimal(5, 6)) a(1).", "DF103", "no more of them behind the point"),
        (".type P = [d: date] .decl a(p: P)", "DF120", "records and branches hold base types"),
        ('.pragma "word-size" "32" .decl a(d: date)', "DF120", "it takes 64 bits"),
        (".type U = date | decimal(4, 1)", "DF106", "date is date, decimal(4, 1) is decimal(4, 1)"),
        (".type U <: date?", "DF106", "there is no type `date?`"),
        (".decl a(d: date?<min>)", "DF156", "`min` wants a column of a base type"),
    ],
)
def test_an_error_says_what_would_be_valid(rules: str, code: str, says: str) -> None:
    with pytest.raises(ProgramError) as caught:
        deltafix.Program.parse(rules.replace(" .decl", "\n.decl"))
    assert [one.code for one in caught.value.diagnostics][:1] == [code]
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "row", "says"),
    [
        (
            "v(d + 1, 0) :- a(d, _).",
            (date.max, 0),
            '"9999-12-31" + 1 is no date, in `v`; rolled back',
        ),
        (
            "v(d, p * 10) :- a(d, p).",
            (date.min, 999),
            "999.0 * 10 is no decimal(4, 1), in `v`; rolled back: compute with "
            "`as(x, decimal(18, 1))`",
        ),
        ("w(1) :- a(_, p), as(p, decimal(4, 2)) > 1.", (date.min, 999), "decimal(18, 2) has room"),
        (
            "w(1) :- a(_, p), as(p * 1, decimal(38, 30)) * 99999999 > 1.",
            (date.min, 999),
            "in `w`; rolled back: it has more than 38 digits; to_float(x) is near",
        ),
        (
            "w(to_number(as(p, decimal(38, 18)) * 10000000000000000)) :- a(_, p).",
            (date.min, 999),
            "to_number(",
        ),
        ("v(d, p + p) :- a(d, p).", (date.min, 999), "999.0 + 999.0 is no decimal(4, 1)"),
        (
            "v(d, x) :- a(d, _), x = sum p * n : { a(_, p), n = range(1, 9) }.",
            (date.min, 900),
            "no decimal(4, 1)",
        ),
        (
            "v(d, sum p : { a(_, p), n = range(0, 2), n >= 0 }) :- a(d, _).",
            (date.min, 999),
            "a sum is 1998.0, which is no decimal(4, 1), in `v`; rolled back: "
            "`sum as(x, decimal(18, 1)) : ..` has room",
        ),
        (
            "w(1) :- a(_, p), (sum as(q * 1, decimal(18, 15)) : { a(_, q), n = range(1, 3) }) > 1.",
            (date.min, 999),
            "a sum is 1998.000000000000000, which is no decimal(18, 15), in `w`; rolled back: no "
            "sum of decimals has more than 18 digits; sum to_float(x) is near",
        ),
        (
            'v(as(cat("x", to_string(d)), date), p) :- a(d, p), d < "2000-01-01".',
            (date.min, 1),
            "is no date",
        ),
        (
            "v(as(to_number(p), date), p) :- a(d, p). w(as(p, number)) :- a(_, p).",
            (date.min, Decimal("0.5")),
            "is no number",
        ),
    ],
)
def test_what_has_no_value_of_its_type_rolls_back(
    rule: str, row: Row, says: str, warm_kernel: None
) -> None:
    columns = "d: date, p: decimal(4, 1)"
    text = f".decl a({columns})\n.decl v({columns})\n.decl w(n: number)\n{rule}"
    with deltafix.connect(text) as db:
        with pytest.raises(FunctorError) as caught, db.transaction() as tx:
            tx.insert("a", [row])
        assert says in str(caught.value)
        assert db.rows("a") == db.rows("v") == []
        with db.transaction() as tx:
            tx.insert("a", [(date(2026, 1, 1), 1)])
        assert db.count("a") == 1


def test_functions_of_python_have_values_of_python(warm_kernel: None) -> None:
    text = """
    .functor age(d: date, at: date): number
    .functor first(d: date?): date?
    .functor half(p: decimal(6, 2)): decimal(6, 2)
    .decl a(d: date, p: decimal(6, 2))
    .decl v(n: number, d: date?, p: decimal(6, 2))
    v(@age(d, "2026-01-01"), @first([d]), @half(p)) :- a(d, p).
    """
    functions = {
        "age": lambda d, at: at.year - d.year,
        "first": lambda d: None if d is None or d.year < 2000 else d.replace(day=1),
        "half": lambda p: p / 2 if p != 7 else None,
    }
    with deltafix.connect(text, functors=functions) as db:
        with db.transaction() as tx:
            tx.insert(
                "a", [(date(1990, 5, 5), 5), (date(2020, 5, 5), Decimal("1.5")), (date.min, 7)]
            )
        assert {*db.rows("v")} == {
            (36, None, Decimal("2.50")), (6, date(2020, 5, 1), Decimal("0.75")),
        }  # fmt: skip
        says = r"@half\(0.01\) gave Decimal\('0.005'\), but decimal\(6, 2\) takes"
        with pytest.raises(FunctorError, match=says), db.transaction() as tx:
            tx.insert("a", [(date(1990, 5, 5), Decimal("0.01"))])


def test_a_proof_shows_values_of_users(warm_kernel: None) -> None:
    text = """
    .decl born(n: symbol, d: date)
    .decl left(n: symbol, d: date?)
    .decl days(n: symbol, k: number)
    days(n, e - d) :- born(n, d), left(n, [e]), e > "2026-01-01", !born(n, e).
    .decl first(n: symbol, d: date <min>)
    first(n, d) :- born(n, d).
    .decl last(d: date)
    last(max d : { born(_, d) }).
    """
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("born", [("ann", date(2026, 1, 1)), ("ann", date(2026, 1, 3))])
            tx.insert("left", [("ann", date(2026, 1, 11)), ("bob", None)])
        said = str(db.why("days", ("ann", 10)))
        assert '"2026-01-11" - "2026-01-01" = 10' in said
        assert '"2026-01-11" > "2026-01-01"' in said
        assert 'born("ann", "2026-01-11") is absent' in said
        assert (
            '[days(n, e - d) :- born(n, d), left(n, [e]), e > "2026-01-01", !born(n, e).]' in said
        )
        assert db.why("days", ("ann", 10)).leaves[0].row in [*db.rows("born"), *db.rows("left")]
        assert 'with d below "2026-01-01"' in str(
            db.why("first", ("ann", date(2026, 1, 1)))
        ).replace("less than", "below").replace("<", "below")
        assert '= "2026-01-03"' in str(db.why("last", (date(2026, 1, 3),)))
        missing = db.why_not("days", ("ann", 4))
        assert 'fails  "2026-01-11" - "2026-01-01" = 4' in str(missing), str(missing)
        absent = db.why_not("last", (date(2026, 2, 1),))
        assert "2026-01-03" in str(absent)
        (edits,) = db.why_not("first", ("cid", date(2026, 2, 1))).suggestions
        assert edits == ((1, "born", ("cid", date(2026, 2, 1))),)
        with db.transaction() as tx:
            tx.delete("born", [("ann", date(2026, 1, 3))])
        cause = tx.delta.why("last", (date(2026, 1, 1),))
        assert cause.changes == ((-1, "born", ("ann", date(2026, 1, 3))),)
        assert db.derivation_count("days", ("ann", 10)) == 1


def test_proofs_of_what_is_kept_and_of_what_is_asked_for(warm_kernel: None) -> None:
    text = """
    .decl a(n: symbol, d: date)
    .decl best(n: symbol, d: date)
    best(n, d) :- a(n, d).
    best(n, d) <= best(n, e) :- e > d.
    .decl one(n: symbol, d: date) choice-domain n
    one(n, d) :- a(n, d).
    .decl old(n: symbol, d: date?) magic
    old(n, [d + 1]) :- a(n, d), d < "2026-01-01".
    .decl q(n: symbol)
    q(n) :- old(n, ["2025-01-02"]).
    .output q
    """
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("a", [("x", date(2026, 1, 1)), ("x", date(2025, 1, 1))])
        assert db.rows("q") == [("x",)]
        assert 'another best("x", e) with e > "2026-01-01"' in str(
            db.why('best("x", "2026-01-01")')
        )
        assert 'keeps one("x", "2025-01-01") instead' in str(db.why_not('one("x", "2026-01-01")'))
        said = str(db.why('q("x")'))
        assert '[q(n) :- old(n, ["2025-01-02"]).]' in said
        assert 'old("x", "2025-01-02")  [old(n, [d + 1]) :- a(n, d), d < "2026-01-01".]' in said
        assert '"2025-01-01" + 1 = "2025-01-02"' in said


def test_a_type_of_the_program_has_its_own_name(warm_kernel: None) -> None:
    text = '.type date <: symbol .decl a(d: date) .decl b(d: date) a("x"). b(d) :- a(d).'
    with deltafix.connect(text) as db:
        assert db.rows("b") == [("x",)]


def test_subtypes_of_logical_types_are_kept_apart(warm_kernel: None) -> None:
    text = """
    .type Birthday <: date
    .type Wedding <: date
    .decl a(d: Birthday)
    .decl b(d: Wedding)
    """
    with pytest.raises(ProgramError, match="Birthday"):
        deltafix.Program.parse(f"{text} b(d) :- a(d).")
    with deltafix.connect(f'{text} b(as(d, Wedding)) :- a(d), d > "2026-01-01".') as db:
        with db.transaction() as tx:
            tx.insert("a", [(date(2026, 1, 2),), (date(2025, 1, 1),)])
        assert db.rows("b") == [(date(2026, 1, 2),)]


def test_a_program_is_laid_out_and_printed() -> None:
    text = """.decl r(p: decimal(10,2), d: date?, t:timestamptz)   // a comment
.type  Price<:decimal(8,   2)
.type Day = date
.type Days = Day | Birthday
.type Birthday <: date
.functor f(decimal(4,1)):decimal(4,1)?
.comp C<T> { .decl a(x: T, d: date, p: decimal(3,1)?) .decl b(x: T) b(x):-a(x,"2026-01-01",_). }
.init c = C<date>
.decl q(x: Price, d: Days)
q(as(p, Price), d):-r(p, [d], _), d<"2026-01-01".
"""
    laid_out = format_program(text)
    assert ".decl r(p: decimal(10, 2), d: date?, t: timestamptz)  // a comment" in laid_out
    assert ".functor f(decimal(4, 1)): decimal(4, 1)?" in laid_out
    program = deltafix.Program.parse(text)
    assert deltafix.Program.parse(laid_out) == program
    assert deltafix.Program.parse(program.show()) == program


def test_rules_change_while_a_database_runs(warm_kernel: None) -> None:
    text = '.decl a(d: date)\n.decl b(d: date)\nb(d) :- a(d), d < "2026-01-01".'
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("a", [(date(2025, 1, 1),), (date(2026, 1, 1),)])
        with db.transaction() as tx:
            tx.add_rule(".decl c(d: date?)\nc([d + 1]) :- a(d).")
        assert {*tx.delta["c"].added} == {(date(2025, 1, 2),), (date(2026, 1, 2),)}
        other = ".decl a(d: number)\n.decl b(d: number)\nb(d) :- a(d)."
        says = r"a\(d: date\) is a\(d: number\) in the new program"
        with pytest.raises(FactError, match=says), db.transaction() as tx:
            tx.change_program(other)
        db.compact()
        assert {*db.rows("c")} == {(date(2025, 1, 2),), (date(2026, 1, 2),)}


def test_a_schema_that_users_see_and_one_of_the_engine() -> None:
    found = row_schemas(deltafix.Program.parse(EVERY))["r"]
    numbers = ", ".join(f"{name}: number" for name in ("day", "at", "zoned", "pay", "ok"))
    assert found.physical.show() == f"r(name: symbol, {numbers}, raw: symbol)"
    assert found.decoded(found.encoded([ROW])) == [ROW]


class Last:
    """The last of some days."""

    initial: frozenset[date] = frozenset()

    def add(self, acc: frozenset[date], value: date) -> frozenset[date]:
        return acc | {value}

    def remove(self, acc: frozenset[date], value: date) -> frozenset[date]:
        return acc - {value}

    def finish(self, acc: frozenset[date]) -> date:
        return max(acc)


def test_reducers_of_python_have_values_of_python(tmp_path: Path, warm_kernel: None) -> None:
    text = """
    .functor last(d: date): date
    .decl a(k: number, d: date)
    .decl v(k: number, d: date)
    v(k, x) :- a(k, _), x = @@last d : { a(k, d) }.
    """
    days = [date(2026, 1, 1), date(2026, 1, 5), date(2025, 1, 1)]
    for _ in range(2):  # the second time from the state of the first
        with deltafix.connect(text, tmp_path, reducers={"last": Last()}) as db:
            with db.transaction(missing="ignore") as tx:
                tx.insert("a", [(1, day) for day in days])
                tx.insert("a", [(2, days[0])])
            assert db.rows("v") == [(1, date(2026, 1, 5)), (2, days[0])]
            with db.transaction() as tx:
                tx.delete("a", [(1, date(2026, 1, 5))])
            assert db.rows("v") == [(1, days[0]), (2, days[0])]
