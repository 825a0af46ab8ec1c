"""Arrays: their texts, lists in and out, dialects, files."""

from __future__ import annotations

import math
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.judges.sql_judge import changes_followed

import deltafix.sql
from deltafix.errors import SqlRefusedError
from deltafix.sql.arrays import packed, unpacked

ELEMENTS: dict[Any, st.SearchStrategy[Any]] = {
    "number": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(allow_nan=False),
    "symbol": st.text(
        st.characters(exclude_categories=["Cs"]) | st.sampled_from("\x00\x01\x02\x03")
    ),
}


def sorted_by(array: list[Any]) -> list[Any]:
    return [(one is None, 0 if one is None else one) for one in array]


@pytest.mark.parametrize("base", ELEMENTS)
@given(data=st.data())
def test_law_an_array_is_read_back_and_sorts_as_its_text(base: Any, data: st.DataObject) -> None:
    arrays = st.lists(st.none() | ELEMENTS[base], max_size=4)
    one, two = data.draw(arrays), data.draw(arrays)
    texts = packed(base, one), packed(base, two)
    assert list(unpacked(base, texts[0])) == one
    assert (texts[0] < texts[1]) == (sorted_by(one) < sorted_by(two))
    assert (texts[0] == texts[1]) == (one == two)


def test_nan_in_an_array_is_one_value_above_infinity() -> None:
    assert unpacked("float", packed("float", [math.nan])) == (math.nan,)  # one object
    assert packed("float", [math.inf]) < packed("float", [math.nan]) < packed("float", [None])


KINDS = """
CREATE TABLE t (id INTEGER PRIMARY KEY, n SMALLINT[], f DOUBLE[], p DECIMAL(6, 2)[],
                s TEXT[] NOT NULL, b BOOLEAN[], d DATE[], m TIMESTAMPTZ[], l DECIMAL(4, 1)[][]);
CREATE VIEW v AS SELECT * FROM t;
INSERT INTO t VALUES
    (1, [1, NULL], [0.5, CAST('nan' AS DOUBLE)], [1.5], ['', 'a'], [TRUE], ['2026-01-31'],
     [TIMESTAMPTZ '2026-01-01 00:00:00+02'], [[1, NULL], [], NULL]),
    (2, NULL, [], [], [], [], [NULL], [], [[]]);
"""


@pytest.mark.parametrize("copies", [1, 300])
def test_arrays_of_every_type_come_out_as_they_went_in(copies: int, warm_kernel: None) -> None:
    with deltafix.sql.connect() as db:
        db.execute(KINDS)
        table = db.execute("SELECT * FROM v ORDER BY id").to_arrow()
        assert table.schema.field("n").type == pa.list_(pa.int16())
        assert table.schema.field("p").type == pa.list_(pa.decimal128(6, 2))
        rows = db.execute("SELECT * FROM v ORDER BY id").fetchall()
        assert rows[0][1] == [1, None]
        assert (rows[1][1], rows[1][6]) == (None, [None])
        with deltafix.sql.connect() as other:
            other.execute(KINDS.partition("INSERT")[0])
            many = pa.concat_tables([table] * copies)
            ids = pa.array(range(many.num_rows), pa.int32())
            other.insert("t", many.set_column(0, "id", ids))
            again = other.execute("SELECT * FROM v ORDER BY id").fetchall()
            assert list(map(repr, (row[1:] for row in again))) == [
                repr(row[1:]) for row in rows * copies
            ]
            other.execute("DELETE FROM t")
            other.insert("t", [(n, *row[1:]) for n, row in enumerate(rows * copies)])
            assert repr(other.execute("SELECT * FROM v ORDER BY id").fetchall()) == repr(again)


def test_a_delta_has_lists_and_a_parameter_is_one(warm_kernel: None) -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER[]); CREATE VIEW v AS SELECT a, a[2] AS b FROM t")
        db.execute("INSERT INTO t VALUES (?), ([NULL, 1]), ([1, NULL])", [(1, 2)])
        assert db.delta("v").added == [([1, 2], 2), ([1, None], None), ([None, 1], 1)]
        assert db.execute("SELECT b FROM v WHERE a = ?", [[1, 2]]).fetchall() == [(2,)]
        with pytest.raises(deltafix.sql.Error, match="'x' is no whole number"):
            db.execute("INSERT INTO t VALUES (['x'])")
        with pytest.raises(deltafix.sql.Error, match="40000 is no SMALLINT"):
            db.execute("SELECT CAST(a AS SMALLINT[]) FROM (VALUES ([40000])) AS x (a)")


def test_spark_counts_from_0_and_lists_no_null(warm_kernel: None) -> None:
    with deltafix.sql.connect(dialect="spark") as db:
        db.execute("""
            CREATE TABLE t (g INT, x INT, a ARRAY<INT>);
            CREATE VIEW lists AS SELECT g, collect_list(x) AS l FROM t GROUP BY g;
            CREATE VIEW whole AS SELECT array_agg(x) AS l FROM t;
            CREATE VIEW first AS SELECT g, a[0] AS x, size(a) AS n FROM t;
            INSERT INTO t VALUES (1, NULL, array(7, 8)), (2, 3, NULL), (2, NULL, array())
        """)
        assert db.execute("SELECT * FROM lists").fetchall() == [(1, []), (2, [3])]
        assert db.execute("SELECT * FROM first").fetchall() == [
            (1, 7, 2),
            (2, None, 0),
            (2, None, None),
        ]
        db.execute("DELETE FROM t")
        assert db.execute("SELECT * FROM whole").fetchall() == [([],)]


def test_a_slice_has_the_places_that_its_dialect_counts(warm_kernel: None) -> None:
    with deltafix.sql.connect(dialect="spark") as db:
        db.execute("""
            CREATE TABLE t (a ARRAY<INT>, f INT, n INT);
            CREATE VIEW v AS SELECT f, n, slice(a, f, n) AS s FROM t;
            INSERT INTO t VALUES (array(1, 2, 3), 1, 2), (array(1, 2, 3), -2, 5), (NULL, 1, 1),
                (array(1, 2, 3), -4, 2), (array(1, 2, 3), 4, 2), (array(1, 2, 3), NULL, 2)
        """)
        assert db.delta("v").added == [
            (-4, 2, []),
            (-2, 5, [2, 3]),
            (1, 1, None),
            (1, 2, [1, 2]),
            (4, 2, []),
            (None, 2, None),
        ]
        with pytest.raises(deltafix.sql.Error, match="a place that is not 0"):
            db.execute("INSERT INTO t VALUES (array(1), 0, 1)")
        with pytest.raises(SqlRefusedError, match=r"write SLICE\(array, first, length\)"):
            db.execute("SELECT a[1:2] FROM t")
    with deltafix.sql.connect(dialect="postgres") as db:
        db.execute("CREATE TABLE t (a INT[]); INSERT INTO t VALUES (ARRAY[1, 2, 3])")
        (row,) = db.execute("SELECT a[-1:2], a[2:], a[:0], a[5:6], a[:NULL] FROM t").fetchall()
        assert row == ([1, 2], [2, 3], [], [], None)
        for text in ("CREATE TABLE x (a INT[][])", "SELECT ARRAY[a] FROM t"):
            with pytest.raises(SqlRefusedError, match="for one of two dimensions"):
                db.execute(text)


def test_places_of_duckdbs_arrays_are_duckdbs(warm_kernel: None) -> None:
    places = ("NULL", -9, -5, -3, -1, 0, 1, 2, 5, 6)
    arrays = ("[1, 2, 3, 4, 5]", "[]", "NULL", "[1, NULL, 3]")
    rows = ", ".join(f"({a}, {b}, {c})" for a in arrays for b in places for c in places)
    query = """SELECT *, a[b:c] AS p, a[b:] AS q, a[:c] AS r, ARRAY_SLICE(a, b, c) AS s, a[:] AS t,
        LIST_SLICE(a, b, c) AS u, a[:abs(c)] AS v, a[:c][1] AS w, [a][1:c] AS x FROM t"""
    with deltafix.sql.connect() as db, duckdb.connect() as duck:
        for one in (db, duck):
            one.execute("CREATE TABLE t (a INTEGER[], b INTEGER, c INTEGER)")
            one.execute(f"INSERT INTO t VALUES {rows}")
        wanted = duck.execute(query).fetchall()
        found = db.execute(query).fetchall()
        assert sorted(map(repr, found)) == sorted(map(repr, wanted))
        assert db.execute("SELECT [5, 6][?], [?][1], [5, 6, 7][?:?]", [1, 8, 2, 3]).fetchall() == [
            (5, 8, [6, 7])
        ]
        assert db.execute("SELECT [:n, 2][1]", {"n": 1}).fetchall() == [(1,)]


def test_postgres_takes_a_lateral_unnest(warm_kernel: None) -> None:
    with deltafix.sql.connect(dialect="postgres") as db:
        db.execute("""
            CREATE TABLE t (id INT PRIMARY KEY, a TEXT[]);
            CREATE VIEW v AS SELECT id, x, n FROM t
                LEFT JOIN LATERAL UNNEST(a) WITH ORDINALITY AS u (x, n) ON n < 3;
            INSERT INTO t VALUES (1, ARRAY['q', 'q', 'r']), (2, NULL)
        """)
        assert db.execute("SELECT * FROM v").fetchall() == [
            (1, "q", 1),
            (1, "q", 2),
            (2, None, None),
        ]


def test_a_change_of_one_array_is_work_for_that_one(warm_kernel: None) -> None:
    with deltafix.sql.connect() as db:
        db.execute("""
            CREATE TABLE t (id INTEGER PRIMARY KEY, tags VARCHAR[]);
            CREATE VIEW v AS SELECT tag, COUNT(*) AS n FROM t, UNNEST(tags) AS u (tag) GROUP BY tag
        """)
        db.insert("t", [(n, [f"a{n % 100}", f"b{n % 7}"]) for n in range(1000)])
        first = db.engine.last_epoch.derivations
        db.execute("UPDATE t SET tags = ['a5', 'a5'] WHERE id = 7")
        assert db.engine.last_epoch.derivations < 40 < first / 50
        assert db.delta("v").added == [("a5", 12), ("a7", 9), ("b0", 142)]


ROWS = (
    "INSERT INTO r VALUES (1, 1, ['a', 'b', 'a'], [1, NULL]), (2, 1, NULL, [5]), (3, 2, [], NULL), "
    "(4, 2, ['z'], [7, 8])",
    "INSERT INTO r VALUES (1, 1, ['a', 'b', 'a'], [1, NULL]), (5, 2, ['q', NULL], [1, 1, 1])",
    "DELETE FROM r WHERE id = 2",
    "UPDATE r SET tags = ['a'], ns = [3, 4, 5] WHERE id IN (1, 3)",
    "UPDATE r SET ns = [] WHERE g = 2",
)
UNNESTED = (
    "SELECT id, UNNEST(tags) AS t, UNNEST(ns) AS n FROM r",
    "SELECT id, UNNEST(tags) AS a, UNNEST(tags) AS b FROM r WHERE ns[1] > 0",
    "SELECT UNNEST(tags) AS t, COUNT(*) AS n FROM r GROUP BY t",
    "SELECT UNNEST(tags) AS t, SUM(id) AS n FROM r WHERE g > 0 GROUP BY 1 HAVING COUNT(*) > 1",
    "SELECT UNNEST(tags) AS t, COUNT(*) AS n FROM r GROUP BY ROLLUP (t)",
    "SELECT UNNEST(ns) + 1 AS k, COUNT(DISTINCT id) AS c FROM r GROUP BY UNNEST(ns) + 1",
    "SELECT g, UNNEST(ARRAY_AGG(id ORDER BY id)) AS x, COUNT(*) AS n FROM r GROUP BY g",
    "SELECT g, UNNEST(ns) AS n, MAX(id) AS m FROM r GROUP BY g, ns",
    "SELECT UNNEST(ARRAY_AGG(id)) AS x FROM r",
    "SELECT id, ROW_NUMBER() OVER (ORDER BY id, g, ns) AS n, UNNEST(ns) AS x FROM r",
    "SELECT DISTINCT UNNEST(tags) AS t FROM r",
    "SELECT DISTINCT ON (id) id, UNNEST(ns) AS n FROM r ORDER BY id, n",
    "SELECT UNNEST(ns) AS x FROM r ORDER BY x LIMIT 2",
    "SELECT id, UNNEST(ns) + UNNEST(ns) AS x, COALESCE(UNNEST(tags), '') AS t FROM r",
    "SELECT UNNEST([[1, 2], [3]]) AS x",
    "SELECT id FROM r WHERE EXISTS (SELECT UNNEST(ns))",
    "SELECT id FROM r WHERE id NOT IN (SELECT UNNEST(q.ns) FROM r AS q WHERE q.id <> 1)",
    "SELECT UNNEST(tags) AS t FROM r UNION ALL SELECT UNNEST(tags) FROM r",
    "SELECT q.n, COUNT(*) AS c FROM (SELECT id, UNNEST(ns) AS n FROM r) AS q JOIN r ON r.id = q.n "
    "GROUP BY q.n",
    "SELECT UNNEST(tags) AS t, w FROM r LEFT JOIN (SELECT 2 AS w) AS o ON o.w = r.id",
    "WITH RECURSIVE p (x) AS (SELECT 1 UNION SELECT UNNEST(r.ns) FROM r JOIN p ON p.x = r.id) "
    "SELECT * FROM p",
)


@pytest.mark.parametrize("query", UNNESTED)
def test_oracle_unnest_in_select_is_that_of_duckdb(query: str, warm_kernel: None) -> None:
    table = "CREATE TABLE r (id INTEGER, g INTEGER, tags VARCHAR[], ns INTEGER[])"
    assert changes_followed([table], query, ROWS) > (0 if " FROM r" in query else -1)


def test_several_arrays_side_by_side_in_from_as_in_select() -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE r (id INTEGER, g INTEGER, tags VARCHAR[], ns INTEGER[])")
        db.execute(ROWS[0])
        for tail, shown in (("", ""), (" WITH ORDINALITY", ", k")):
            one = f"SELECT id, x, y FROM r, UNNEST(r.tags, r.ns){tail} AS u (x, y{shown})"
            two = "SELECT id, UNNEST(tags) AS x, UNNEST(ns) AS y FROM r"
            assert sorted(map(repr, db.execute(one))) == sorted(map(repr, db.execute(two)))
        left = "SELECT id, y FROM r LEFT JOIN UNNEST(tags, ns) AS u (x, y) ON TRUE WHERE id = 3"
        assert db.execute(left).fetchall() == [(3, None)]


def test_spark_calls_it_explode() -> None:
    with deltafix.sql.connect(dialect="spark") as db:
        db.execute("CREATE TABLE r (id INT, ns ARRAY<INT>)")
        db.execute("CREATE VIEW v AS SELECT id, EXPLODE(ns) AS n FROM r")
        db.execute("INSERT INTO r VALUES (1, ARRAY(3, 3)), (2, NULL)")
        assert db.execute("SELECT * FROM v").fetchall() == [(1, 3), (1, 3)]
        with pytest.raises(SqlRefusedError, match="UNNEST here"):
            db.execute("SELECT EXPLODE_OUTER(ns) FROM r")


def test_why_a_row_of_an_unnest_is_there() -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE r (id INTEGER PRIMARY KEY, ns INTEGER[])")
        db.execute("CREATE VIEW v AS SELECT id, UNNEST(ns) AS n FROM r WHERE id > 0")
        db.execute("INSERT INTO r VALUES (1, [4, 5]), (0, [6])")
        lines = [line for (line,) in db.execute("EXPLAIN WHY SELECT * FROM v WHERE n = 5")]
        assert lines == ["v: id = 1 AND n = 5", "  r: id = 1 AND ns = [4, 5]"]
        said = str(db.execute("EXPLAIN WHY NOT SELECT * FROM v WHERE id = 0 AND n = 6").fetchall())
        assert "id > 0" in said


def test_oracle_a_place_may_be_computed(warm_kernel: None) -> None:
    table = "CREATE TABLE r (id INTEGER PRIMARY KEY, tags VARCHAR[], ns INTEGER[], i INTEGER)"
    query = (
        "SELECT id, ns[id] AS a, ns[i] AS b, ns[-1] AS c, ns[LEN(ns)] AS d, ns[i + 1] AS e, "
        "tags[CAST(i AS INT)] AS f, LIST_EXTRACT(ns, i) AS g, ARRAY_EXTRACT(tags, 2) AS h, "
        "ns[0] AS j, ns[ABS(i)] AS k, ns[CASE WHEN i > 1 THEN 1 ELSE 2 END] AS l, "
        "[[1, 2], [3]][2][i] AS m FROM r"
    )
    edits = (
        "INSERT INTO r VALUES (1, ['a', 'b'], [1, 2, 3], 1), (2, [], NULL, 2), "
        "(3, ['x', NULL], [4], -1), (-2, ['m', 'n'], [5, 6, 9], -5), (5, ['w'], [7, 8], NULL)",
        "UPDATE r SET i = i + 1",
        "UPDATE r SET ns = [9, NULL] WHERE id > 1",
        "DELETE FROM r WHERE id = 1",
    )
    assert changes_followed([table], query, edits) > 3


def test_a_place_is_as_its_dialect_counts_it() -> None:
    for dialect, array, wanted in (
        ("duckdb", "[5, 6, 7]", (None, 5, 7, 7)),
        ("postgres", "ARRAY[5, 6, 7]", (None, 5, None, 7)),
        ("spark", "ARRAY(5, 6, 7)", (5, 6, None, None)),
    ):
        kind = "ARRAY<INT>" if dialect == "spark" else "INTEGER[]"
        with deltafix.sql.connect(dialect=dialect) as db:
            db.execute(f"CREATE TABLE r (id INTEGER, ns {kind}, CHECK (ns[id] > 0))")
            db.execute("ALTER TABLE r ADD COLUMN z INTEGER")  # the CHECK is written and read again
            db.execute(f"INSERT INTO r VALUES (1, {array}, 0)")
            found = db.execute("SELECT ns[0], ns[id], ns[-1], ns[?] FROM r", (3,)).fetchall()
            assert found == [wanted], dialect
            with pytest.raises(deltafix.sql.IntegrityError, match=r"ns\[id\] > 0"):
                none = array.replace("5", "0").replace("6", "0")
                db.execute(f"INSERT INTO r VALUES (1, {none}, 0)")


def test_a_lateral_view_of_spark_is_an_unnest() -> None:
    rows = "(1, ARRAY(1, 2, 9), ARRAY('p')), (2, ARRAY(), ARRAY('q')), (3, ARRAY(4), NULL)"
    views = {
        "one": "SELECT a, k, j FROM t LATERAL VIEW EXPLODE(xs) x AS k LATERAL VIEW OUTER "
        "EXPLODE(ys) y AS j WHERE x.k < 9",
        "two": "SELECT a, k, j FROM t CROSS JOIN UNNEST(xs) AS x (k) LEFT JOIN UNNEST(ys) AS y (j) "
        "ON TRUE WHERE x.k < 9",
    }
    with deltafix.sql.connect(dialect="spark") as db:
        db.execute("CREATE TABLE t (a INT, xs ARRAY<INT>, ys ARRAY<STRING>)")
        for name, query in views.items():
            db.execute(f"CREATE VIEW {name} AS {query}")
        for edit in (f"INSERT INTO t VALUES {rows}", "UPDATE t SET ys = ARRAY('r') WHERE a = 3"):
            db.execute(edit)
            one, two = (sorted(db.execute(f"SELECT * FROM {name}"), key=repr) for name in views)
            assert one == two
            assert len(one) == 3
        with pytest.raises(deltafix.sql.NotSupportedError, match="not maintained"):
            db.execute("SELECT k FROM t LATERAL VIEW POSEXPLODE(xs) x AS p, k")


@pytest.mark.parametrize(
    ("dialect", "call", "why"),
    [
        ("duckdb", "LIST_TRANSFORM(ns, lambda e: (SELECT MAX(id) FROM r))", "of one row"),
        ("duckdb", "LIST_TRANSFORM(ns, lambda e: SUM(e))", "is not maintained"),
        ("duckdb", "LIST_TRANSFORM(id, lambda e: e)", "it takes an array"),
        ("duckdb", "LIST_FILTER(ns, lambda e: e + 1)", "it takes BOOLEAN"),
        ("duckdb", "LIST_TRANSFORM(ns, lambda e: f)", "unknown column 'f'"),
        ("duckdb", "LIST_TRANSFORM(ns, id)", "lambda|x ->"),
        ("postgres", "LIST_TRANSFORM(ns, e -> e)", "no lambdas|is not maintained"),
    ],
)
def test_a_lambda_that_is_none_of_one_row_is_refused(dialect: str, call: str, why: str) -> None:
    with deltafix.sql.connect(dialect=dialect) as db:
        db.execute("CREATE TABLE r (id INTEGER PRIMARY KEY, ns INTEGER[])")
        with pytest.raises(deltafix.sql.DatabaseError, match=why):
            db.execute(f"CREATE VIEW v AS SELECT {call} AS x FROM r")


@pytest.mark.parametrize(
    "made",
    [
        "LIST_TRANSFORM(ns, lambda K, i: k * i + r.k)",
        "[k * i + r.k FOR K, i IN ns]",
        "LIST_REDUCE(ns, lambda K, e, i: LIST_APPEND(k, e * i + r.k), []::INTEGER[])",
    ],
)
def test_a_lambda_reads_the_row_around_it_and_follows_it(made: str) -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE r (id INTEGER PRIMARY KEY, ns INTEGER[], k INTEGER)")
        db.execute(f"CREATE VIEW v AS SELECT id, {made} AS x FROM r")
        db.execute("INSERT INTO r VALUES (1, [5, NULL, 7], 1), (2, [1], 2), (3, NULL, 3)")
        assert db.execute("SELECT * FROM v").fetchall() == [
            (1, [6, None, 22]), (2, [3]), (3, None)
        ]  # fmt: skip
        db.execute("UPDATE r SET k = 10 WHERE id = 1")
        assert db.delta("v").added == [(1, [15, None, 31])]


def _rows(db: deltafix.sql.Connection, query: str) -> list[tuple[Any, ...]]:
    return db.execute(query).fetchall()


def test_sparks_sets_of_values_and_merges_of_all_columns() -> None:
    with deltafix.sql.connect(dialect="spark") as db:
        db.execute(
            """CREATE TABLE t (id INT NOT NULL, a STRING, n INT);
            CREATE TABLE u (n INT, a STRING, id INT, other INT);
            CREATE VIEW v AS SELECT a, COLLECT_SET(n) AS ns FROM t GROUP BY a;
            INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 1), (3, 'a', NULL), (4, 'b', NULL);
            INSERT INTO u VALUES (9, 'a', 1, 0), (8, 'c', 5, 0)"""
        )
        assert _rows(db, "SELECT * FROM v ORDER BY a") == [("a", [1]), ("b", [])]
        assert _rows(db, "SELECT COLLECT_SET(n) FROM t WHERE id > 4") == [([],)]
        db.execute(
            "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET * "
            "WHEN NOT MATCHED THEN INSERT *"
        )
        assert _rows(db, "SELECT * FROM v ORDER BY a") == [("a", [1, 9]), ("b", []), ("c", [8])]
        before = _rows(db, "SELECT * FROM t")
        with pytest.raises(deltafix.sql.ProgrammingError, match="unknown column 'a'"):
            db.execute(
                "MERGE INTO t USING (SELECT 1 AS id) AS s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET *"
            )
        assert _rows(db, "SELECT * FROM t") == before
