"""UUIDs: every form of text, keys, functions, the doors of Python and Arrow; judged by DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path
from random import Random
from uuid import UUID

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.judges.sql_judge import views_followed

import deltafix
import deltafix.sql
from deltafix.errors import (
    FactError,
    SourceError,
    SqlDataError,
    SqlIntegrityError,
    SqlProgrammingError,
    SqlRefusedError,
    TypeMismatchError,
)
from deltafix.facts.logical_types import logical_type
from deltafix.sql import scans
from deltafix.sql.files import take_in
from deltafix.sql.types import UUID as TYPE

LOW, HIGH = "7fffffff-ffff-ffff-ffff-ffffffffffff", "80000000-0000-0000-0000-000000000000"
ONE = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
TABLE = "CREATE TABLE t (id UUID PRIMARY KEY, o UUID, n INTEGER, s TEXT)"
EDITS = (
    f"INSERT INTO t VALUES ('{ONE.upper()}', '{HIGH}', 1, '{LOW}'), ('{{{LOW}}}', NULL, 2, 'x')",
    f"INSERT INTO t VALUES ('{HIGH.replace('-', '')}', '{ONE}', 3, NULL)",
    f"INSERT INTO t (id) VALUES ('00000000-0000-0000-0000-000000000000'), ('{'f' * 32}')",
    f"UPDATE t SET o = id WHERE id > '{LOW}' AND o IS NULL",
    f"UPDATE t SET o = COALESCE(o, '{ONE}'), n = 7 WHERE id IN ('{LOW}', '{{{HIGH.upper()}}}')",
    f"DELETE FROM t WHERE id = '{ONE.replace('-', '')}' OR o = UUID '{HIGH}'",
)
QUERIES = (
    "SELECT id, o, CAST(id AS VARCHAR) AS x, id || '/' || n AS y FROM t",
    f"SELECT n FROM t WHERE id = '{ONE.upper()}' OR o < '{HIGH}' OR o BETWEEN '{LOW}' AND '{ONE}'",
    "SELECT o, COUNT(*) AS n, MIN(id) AS l, MAX(id) AS h, COUNT(DISTINCT n) AS d FROM t GROUP BY o",
    "SELECT n, COUNT(DISTINCT o) AS d FROM t GROUP BY n",
    "SELECT a.n, b.id FROM t AS a JOIN t AS b ON a.o = b.id",
    "SELECT a.n, b.id FROM t AS a LEFT JOIN t AS b ON a.o = b.id AND a.id < b.id",
    "SELECT id FROM t UNION SELECT o FROM t",
    "SELECT DISTINCT o FROM t WHERE id IN (SELECT o FROM t)",
    f"SELECT n, COALESCE(o, id) AS c, COALESCE(o, '{ONE}') AS d, NULLIF(o, '{HIGH}') AS e FROM t",
    f"SELECT id, CASE WHEN n > 1 THEN o ELSE '{LOW}' END AS c, GREATEST(id, o) AS g FROM t",
    "SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS r, LAG(id) OVER (ORDER BY id DESC) AS l FROM t",
    "SELECT n, ARRAY_AGG(id ORDER BY id) AS l, ARG_MAX(id, id) AS m FROM t GROUP BY n",
    "SELECT [id, o] AS l, {'a': o, 'b': [id]} AS s FROM t",
    "SELECT q.id, e FROM (SELECT id, [o, id] AS l FROM t) AS q, UNNEST(q.l) AS u (e)",
    "SELECT n, TRY_CAST(s AS UUID) AS u, TRY_CAST(s AS UUID) = id AS same FROM t",
    f"SELECT n FROM t WHERE LIST_CONTAINS([id, o], '{ONE.upper()}')",
    f"SELECT id FROM t WHERE (id, o) = ('{HIGH}', '{ONE}') OR o IS NOT DISTINCT FROM '{HIGH}'",
    "SELECT id, o FROM t ORDER BY o DESC NULLS LAST, id LIMIT 2",
)


@pytest.fixture
def db(warm_kernel: None) -> Iterator[deltafix.sql.Connection]:
    with deltafix.sql.connect() as connection:
        connection.execute(TABLE)
        yield connection


def test_views_of_uuids_are_duckdbs(warm_kernel: None) -> None:
    views_followed(TABLE, QUERIES, EDITS)


def forms(random: Random) -> Iterator[str]:
    """Texts that are UUIDs, or nearly."""
    yield from ("", "x", ONE, ONE + "0", ONE[1:], f" {ONE}", f"{ONE}\n", f"{{{ONE}", f"{ONE}}}")
    yield from (f"urn:uuid:{ONE}", "g" + ONE[1:], ONE.replace("a", "ａ"), ONE.replace("-", " "))
    for _ in range(300):
        digits = "".join(
            random.choices("0123456789abcdefABCDEF", k=random.choice((32, 32, 32, 31)))
        )
        size = random.choice((4, 4, 8, 2, 1, 3, 5))
        parts = [digits[at : at + size] for at in range(0, len(digits), size)]
        text = "".join(part + "-" * (random.random() < 0.5) for part in parts)
        text = random.choice((text.strip("-"), text, digits))
        yield random.choice((text, f"{{{text}}}", f"{{{text}", text))


def as_postgres_reads(text: str) -> str | None:
    """After its `string_to_uuid`: two digits for each byte, a hyphen behind an even one or none."""
    if text[:1] == "{":
        if text[-1:] != "}":
            return None
        text = text[1:-1]
    digits = ""
    for byte in range(16):
        pair, text = text[:2], text[2:]
        if len(pair) < 2 or not all(one in "0123456789abcdefABCDEF" for one in pair):
            return None
        digits += pair
        if byte % 2 and byte < 15:
            text = text.removeprefix("-")
    return str(UUID(digits)) if not text else None


def test_agree_a_text_is_a_uuid_where_duckdb_and_postgres_read_one(warm_kernel: None) -> None:
    kind, read = logical_type("uuid"), 0
    assert kind is not None
    with (
        closing(deltafix.sql.connect()) as db,
        closing(deltafix.sql.connect(dialect="postgres")) as postgres,
        duckdb.connect() as duck,
    ):
        for text in forms(Random("uuid")):
            ((theirs,),) = duck.execute("SELECT TRY_CAST(? AS UUID)", [text]).fetchall()
            ((ours,),) = db.execute("SELECT TRY_CAST(? AS UUID)", [text]).fetchall()
            assert ours == theirs, text
            wanted = as_postgres_reads(text)
            ((told,),) = postgres.execute(
                "SELECT CASE WHEN ? THEN CAST(? AS UUID) END", [wanted is not None, text]
            ).fetchall()
            assert (told and str(told)) == wanted
            assert kind.write(text) == wanted, text
            if wanted is None:
                with pytest.raises(SqlDataError, match="is no UUID; write a0ee"):
                    postgres.execute("SELECT CAST(? AS UUID)", [text])
            read += wanted is not None
    assert read > 50


@pytest.mark.parametrize("many", [1, scans.MANY])
def test_law_uuids_are_ordered_as_duckdb_orders_them(
    db: deltafix.sql.Connection, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    """By unsigned number; the engine has texts, which are ordered so too; few go one by one."""
    monkeypatch.setattr(scans, "MANY", many)
    random = Random("order")
    values = [UUID(int=random.choice((0, 1 << 127)) ^ random.getrandbits(127)) for _ in range(200)]
    db.insert(
        "t", [(value, values[0] if n % 2 else None, n, None) for n, value in enumerate(values)]
    )
    some = db.execute("SELECT o, id FROM t ORDER BY o DESC NULLS LAST, id DESC").fetchall()
    assert some == [
        *((values[0], value) for value in sorted(values[1::2], reverse=True)),
        *((None, value) for value in sorted(values[::2], reverse=True)),
    ]
    found = [value for (value,) in db.execute("SELECT id FROM t ORDER BY id").fetchall()]
    assert found == sorted(values)
    with duckdb.connect() as duck:
        duck.execute("CREATE TABLE t (id UUID)")
        duck.executemany("INSERT INTO t VALUES (?)", [[value] for value in values])
        assert [v for (v,) in duck.execute("SELECT id FROM t ORDER BY id").fetchall()] == found
    assert sorted(map(TYPE.write, values)) == [str(value) for value in found]


def test_keys_and_references_are_of_values_and_not_of_their_texts(
    db: deltafix.sql.Connection,
) -> None:
    db.execute("CREATE TABLE r (id UUID REFERENCES t (id) ON DELETE CASCADE, k UUID UNIQUE)")
    db.execute("CREATE VIEW v AS SELECT r.k, t.n FROM r JOIN t ON r.id = t.id")
    db.execute(f"INSERT INTO t (id, n) VALUES ('{ONE}', 1)")
    db.execute(f"INSERT INTO r VALUES ('{{{ONE.upper()}}}', '{LOW}'), (NULL, NULL), (NULL, NULL)")
    with pytest.raises(SqlIntegrityError, match=rf"PRIMARY KEY \(id\) has a row with \({ONE}\)"):
        db.execute(f"INSERT INTO t (id) VALUES ('{ONE.replace('-', '')}')")
    with pytest.raises(SqlIntegrityError, match=HIGH):
        db.execute("INSERT INTO r (id) VALUES (?)", [UUID(HIGH)])
    sql = "INSERT INTO t (id, n) VALUES (?, 5) ON CONFLICT (id) DO UPDATE SET n = excluded.n"
    assert db.execute(sql, [ONE.upper()]).rowcount == 1
    assert db.execute("SELECT * FROM v").fetchall() == [(UUID(LOW), 5)]
    (line, *_) = db.execute("EXPLAIN WHY SELECT * FROM v").fetchall()
    assert db.execute(f"SELECT n FROM v WHERE {line[0].split(': ', 1)[1]}").fetchall() == [(5,)]
    db.execute("DELETE FROM t WHERE id = ?", [UUID(ONE)])
    assert db.execute("SELECT * FROM r").fetchall() == [(None, None), (None, None)]


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_a_dialect_writes_them_as_it_does(warm_kernel: None, dialect: str) -> None:
    with deltafix.sql.connect(dialect=dialect) as db:
        db.execute(f"CREATE TABLE t (id uuid PRIMARY KEY DEFAULT '{ONE.upper()}', n int)")
        db.execute(f"CREATE VIEW v AS SELECT n, uuid '{HIGH}' AS c, '{LOW}'::uuid AS d FROM t")
        db.execute("INSERT INTO t (n) VALUES (1)")
        assert db.execute("SELECT id FROM t").fetchall() == [(UUID(ONE),)]
        assert db.execute("SELECT * FROM v").fetchall() == [(1, UUID(HIGH), UUID(LOW))]
        for value in (UUID(ONE), ONE, ONE.upper()):
            assert db.execute("SELECT n FROM t WHERE id = ?", [value]).fetchall() == [(1,)]
            assert db.execute("SELECT n FROM t WHERE id IN (?)", [value]).fetchall() == [(1,)]
        assert db.execute("SELECT n FROM t WHERE id = :a", {"a": UUID(ONE)}).fetchall() == [(1,)]
        db.execute("ALTER TABLE t ADD COLUMN s TEXT")
        db.execute("UPDATE t SET s = ?", [LOW.upper()])
        assert db.execute("SELECT s FROM t").fetchall() == [(LOW.upper(),)]
        db.execute("ALTER TABLE t ALTER COLUMN s TYPE uuid USING CAST(s AS uuid)")
        assert db.execute("SELECT s FROM t WHERE s < id").fetchall() == [(UUID(LOW),)]


@pytest.mark.parametrize(
    ("sql", "error", "said"),
    [
        ("SELECT id FROM t WHERE id = 'x'", SqlDataError, "'x' is no UUID; write a0eebc99-.* 32"),
        ("INSERT INTO t (id) VALUES ('x')", SqlDataError, "column 'id': 'x' is no UUID; write"),
        ("INSERT INTO t (id) VALUES (5)", SqlDataError, "5 is no UUID; the column takes uuid.UUID"),
        ("SELECT n FROM t WHERE id = s", SqlProgrammingError, "= of UUID and TEXT"),
        ("SELECT id + 1 FROM t", SqlProgrammingError, r"\+ of UUID and INTEGER"),
        ("SELECT id LIKE 'a%' FROM t", SqlProgrammingError, r"LIKE\(UUID, TEXT\)"),
        ("SELECT SUM(id) FROM t", SqlProgrammingError, "of UUID"),
        ("SELECT id::BIGINT FROM t", SqlProgrammingError, "a UUID is cast to TEXT, and a TEXT to"),
        ("SELECT n::UUID FROM t", SqlProgrammingError, "no cast from INTEGER to UUID"),
        ("SELECT COALESCE(id, s) FROM t", SqlProgrammingError, r"\(UUID, TEXT\)"),
        ("CREATE VIEW v AS SELECT gen_random_uuid() AS x FROM t", SqlRefusedError, "each time"),
        ("INSERT INTO t (id) VALUES (uuid())", SqlRefusedError, r"parameter, uuid.uuid4\(\) in"),
        ("CREATE TABLE u (a UUID DEFAULT uuidv7())", SqlRefusedError, "where the row comes from"),
        ("SELECT uuid_generate_v4()", SqlRefusedError, "uuid_generate_v4 is not maintained"),
        ("CREATE TABLE u (a UUID(16))", SqlRefusedError, "type UUID"),
    ],
)
def test_what_no_uuid_is_for_is_told(
    db: deltafix.sql.Connection, sql: str, error: type[Exception], said: str
) -> None:
    db.execute(f"INSERT INTO t VALUES ('{ONE}', NULL, 1, 'a')")
    with pytest.raises(error, match=said):
        db.execute(sql).fetchall()


def test_spark_has_none(warm_kernel: None) -> None:
    with (
        deltafix.sql.connect(dialect="spark") as db,
        pytest.raises(SqlRefusedError, match=r"type UUID .*\n.*\n.*\n.*keep it as TEXT"),
    ):
        db.execute("CREATE TABLE t (id UUID)")


def test_a_literal_in_quotes_is_of_the_type_of_its_alternatives_but_in_spark(
    warm_kernel: None,
) -> None:
    query = "SELECT COALESCE(d, '2020-01-01'), CASE WHEN n > 1 THEN '2' ELSE n END AS c FROM t"
    for dialect in ("duckdb", "postgres", "spark"):
        with deltafix.sql.connect(dialect=dialect) as db:
            db.execute("CREATE TABLE t (d DATE, n INTEGER)")
            db.execute("INSERT INTO t VALUES (NULL, 7)")
            if dialect == "spark":
                with pytest.raises(SqlProgrammingError, match=r"COALESCE\(DATE, TEXT\)"):
                    db.execute(query)
            else:
                assert db.execute(query).fetchall() == [(date(2020, 1, 1), 2)]
                with pytest.raises(SqlDataError, match="'x' is no whole number"):
                    db.execute("SELECT COALESCE(d, NULL), GREATEST(n, 'x') FROM t").fetchall()


VALUES = [UUID(ONE), None, UUID(LOW), UUID(HIGH), UUID(int=0)] * 80


def bytes_of(values: list[UUID | None]) -> list[bytes | None]:
    return [value and value.bytes for value in values]


@pytest.mark.parametrize("form", ["uuid", "bytes", "16 bytes", "text", "capitals", "dictionary"])
def test_arrow_has_them_as_a_type_as_bytes_and_as_text(
    db: deltafix.sql.Connection, form: str
) -> None:
    texts = [value and str(value) for value in VALUES]
    column = {
        "uuid": lambda: pa.array(bytes_of(VALUES), pa.binary(16)).cast(pa.uuid()),
        "16 bytes": lambda: pa.array(bytes_of(VALUES), pa.binary(16)),
        "bytes": lambda: pa.array(bytes_of(VALUES)),
        "text": lambda: pa.array(texts, pa.large_string()),
        "capitals": lambda: pa.array([text and f"{{{text.upper()}}}" for text in texts]),
        "dictionary": lambda: pa.array(texts).dictionary_encode(),
    }[form]()
    db.execute("CREATE TABLE w (n INTEGER, o UUID)")
    for first, count in ((0, 0), (0, 3), (3, 397)):
        numbers = range(first, first + count)
        db.insert("w", pa.table({"n": numbers, "o": column.slice(first, count)}))
    found = db.execute("SELECT n, o FROM w ORDER BY n")
    assert [value for _, value in found.fetchall()] == VALUES
    table = db.execute("SELECT n, o FROM w ORDER BY n").to_arrow()
    assert table.schema.field("o").type == pa.string()
    assert table.column("o").to_pylist() == texts
    assert db.replace("w", table) == 0


def test_lists_of_arrows_type_and_frames_come_in(
    db: deltafix.sql.Connection, tmp_path: Path
) -> None:
    db.execute("CREATE TABLE w (n INTEGER, o UUID, l UUID[], s STRUCT(a UUID))")
    ids = pa.array(bytes_of(VALUES), pa.binary(16)).cast(pa.uuid())
    lists = pa.ListArray.from_arrays(pa.array(range(401), pa.int32()), ids)
    structs = pa.StructArray.from_arrays([ids], ["a"])
    table = pa.table({"n": range(400), "o": ids, "l": lists, "s": structs})
    wanted = [(n, v, [v], {"a": v}) for n, v in enumerate(VALUES)]
    pq.write_table(table, tmp_path / "w.parquet")
    for way in ("Arrow", "Parquet", "polars"):
        if way == "Parquet":
            take_in(db, "w", tmp_path / "w.parquet")
        else:
            db.insert("w", table if way == "Arrow" else pl.from_arrow(table))
        assert db.execute("SELECT * FROM w ORDER BY n").fetchall() == wanted, way
        db.execute("DELETE FROM w")
    db.insert("w", pd.DataFrame({"n": [1, 2], "o": VALUES[:2]}), ["n", "o"])
    assert db.execute("SELECT n, o FROM w").fetchall() == [(1, UUID(ONE)), (2, None)]


def test_a_file_with_another_text_is_told_by_its_line(
    db: deltafix.sql.Connection, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text(f"id,o,n,s\n{ONE.upper()},,1,x\n{{{LOW}}},{HIGH},2,y\n")
    take_in(db, "t", tmp_path / "t.csv")
    assert db.execute("SELECT id, o FROM t ORDER BY n").fetchall() == [
        (UUID(ONE), None),
        (UUID(LOW), UUID(HIGH)),
    ]
    (tmp_path / "t.csv").write_text(f"id,o,n,s\n{HIGH},,1,x\n{ONE}0,,2,y\n")
    with pytest.raises(SourceError, match=rf"t.csv:3: '{ONE}0' in column 'id' is no UUID; write a"):
        take_in(db, "t", tmp_path / "t.csv")
    pq.write_table(
        pa.table({"id": ["", "x"], "o": [None, ONE], "n": [1, 2], "s": ["", ""]}),
        tmp_path / "t.parquet",
    )
    (tmp_path / "t.csv").unlink()
    with pytest.raises(SourceError, match=r"t.parquet, row 2: 'x' in column 'id' is no UUID"):
        take_in(db, "t", tmp_path / "t.parquet")
    for odd in (pa.array(["x"]), pa.array([b"short"]), pa.array([""]), pa.array([5])):
        with pytest.raises(SqlDataError, match=r"is no UUID; the column takes uuid\.UUID"):
            db.insert("t", pa.table({"id": odd}), ["id"])


def test_rules_have_them_as_a_type(warm_kernel: None, tmp_path: Path) -> None:
    program = deltafix.Program.parse(
        ".decl user(id: uuid, boss: uuid?) .input user "
        ".decl over(id: uuid) .output over "
        f'over(b) :- user(_, [b]), b > "{LOW.upper()}". '
        ".decl said(id: uuid, t: symbol) .output said "
        "said(as(t, uuid), t) :- user(x, nil), t = to_string(x)."
    )
    with deltafix.connect(program) as db:
        with db.transaction() as tx:
            tx.insert("user", [(UUID(ONE), None), (LOW, UUID(HIGH)), (UUID(HIGH), HIGH.upper())])
        assert tx.delta["over"].added == [(UUID(HIGH),)]
        assert db.rows("said") == [(UUID(ONE), ONE)]
        ids = pa.array(bytes_of(VALUES[2:4]), pa.binary(16)).cast(pa.uuid())
        table = pa.table({"id": ids, "boss": [ONE.upper(), None]})
        with db.transaction() as tx:
            tx.insert("user", table)
        assert tx.delta["over"].added == [(UUID(ONE),)]
        for odd, row in ((pa.array([ONE, "x"]), 1), (pa.array([b"x" * 16, b"x"]), 1)):
            table = pa.table({"id": odd, "boss": pa.nulls(2)})
            with (
                pytest.raises(
                    (TypeMismatchError, FactError), match=f"of row {row} is .*takes a uu"
                ),
                db.transaction() as tx,
            ):
                tx.insert("user", table)


def test_rules_in_python_take_a_class_and_constants(warm_kernel: None) -> None:
    x, y = deltafix.vars("x y")
    with deltafix.Program() as program:
        user = program.relation("user", id=UUID, boss=UUID | None)
        lead = program.relation("lead", id=UUID)
        lead(x) <= user(x, y) & (x != UUID(ONE))  # noqa: B015  a rule
        program.output(lead)
    with deltafix.connect(program) as db:
        with db.transaction() as tx:
            tx.insert("user", [(UUID(ONE), None), (UUID(LOW), UUID(ONE))])
        assert db.rows("lead") == [(UUID(LOW),)]
