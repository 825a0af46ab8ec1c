"""CREATE VIEW ... AS RULES: types of columns, errors with their place, definitions, commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

import deltafix.sql
from deltafix.cli.main import main
from deltafix.datalog.program import Program
from deltafix.rules.show import show
from deltafix.sql.program import program_of

TABLES = """
CREATE TABLE edge (x INTEGER NOT NULL, y INTEGER NOT NULL);
CREATE TABLE t (
    i INTEGER PRIMARY KEY, d DATE, m TIMESTAMP, p DECIMAL(8, 2), ok BOOLEAN NOT NULL, s TEXT,
    f DOUBLE NOT NULL, b BLOB
);
INSERT INTO edge VALUES (1, 2), (2, 3), (2, 3);
INSERT INTO t VALUES
    (1, '2020-01-02', '2020-01-02 03:04:05', 1.25, TRUE, 'a', 1.5, '\\x00'),
    (2, NULL, NULL, NULL, FALSE, NULL, 2.5, NULL);
"""
REACH = """
CREATE MATERIALIZED VIEW reach (a, b) AS RULES $$
    reach(x, y) :- edge(x, y).
    reach(x, z) :- reach(x, y), edge(y, z).
$$;
"""
FIRST = date(2020, 1, 2)
DAY = "t(_, [n], _, _, _, _, _, _)"
_NEW_YEAR = [(1, date(2020, 1, 1)), (2, date(2020, 1, 1))]
_LATER = [(1, None), (2, date(2020, 1, 1))]
_TOTAL = [(1, Decimal("1.25"))]


@pytest.fixture
def db() -> Iterator[deltafix.sql.Connection]:
    with closing(deltafix.sql.connect()) as found:
        found.execute(TABLES)
        yield found


def columns(db: deltafix.sql.Connection, name: str) -> list[tuple[str, str, bool]]:
    found = db.catalog.relations[name].columns
    return [(one.name, one.type.name, one.nullable) for one in found]


def test_a_column_has_the_type_of_what_its_values_come_from(db: deltafix.sql.Connection) -> None:
    db.execute(
        "CREATE VIEW v AS RULES $$ v(d, m, p, ok, s, f, b) :- t(_, d, m, p, ok, s, f, b). $$"
    )
    assert columns(db, "v") == [
        ("d", "DATE", True),
        ("m", "TIMESTAMP", True),
        ("p", "DECIMAL(8, 2)", True),
        ("ok", "BOOLEAN", False),
        ("s", "TEXT", True),
        ("f", "DOUBLE", False),
        ("b", "BLOB", True),
    ]
    assert db.execute("SELECT * FROM v ORDER BY f").fetchall() == [
        (date(2020, 1, 2), datetime(2020, 1, 2, 3, 4, 5), Decimal("1.25"), True, "a", 1.5, b"\0"),
        (None, None, None, False, None, 2.5, None),
    ]


@pytest.mark.parametrize(
    ("rules", "found", "rows"),
    [
        ("v(i, d) :- t(i, [d], _, _, _, _, _, _).", "DATE", [(1, FIRST)]),
        ("v(i, e) :- t(i, [d], _, _, _, _, _, _), e = d.", "DATE", [(1, FIRST)]),
        ("v(i, d + 7) :- t(i, [d], _, _, _, _, _, _).", "DATE", [(1, date(2020, 1, 9))]),
        ("v(i, as(d, number)) :- t(i, [d], _, _, _, _, _, _).", "BIGINT", [(1, 18263)]),
        ('v(i, as("2020-01-01", date)) :- t(i, _, _, _, _, _, _, _).', "DATE", _NEW_YEAR),
        (".decl v(i: number, d: date?) v(1, nil). v(2, [\"2020-01-01\"]).", "DATE", _LATER),
        ('v(i, d) :- t(i, [d], _, _, _, _, _, _), d > "2020-01-01".', "DATE", [(1, FIRST)]),
        ("v(i, p * 2 + 0.5) :- t(i, _, _, [p], _, _, _, _).", "DECIMAL(8, 2)", [(1, Decimal(3))]),
        ("v(1, x) :- x = sum p : { t(_, _, _, [p], _, _, _, _) }.", "DECIMAL(8, 2)", _TOTAL),
        ('v(i, o) :- t(i, _, _, _, o, _, _, _), o = "true".', "BOOLEAN", [(1, True)]),
        ("v(i, strlen(s)) :- t(i, _, _, _, _, [s], _, _).", "BIGINT", [(1, 1)]),
        ("v(i, 2 * f) :- t(i, _, _, _, _, _, f, _).", "DOUBLE", [(1, 3.0), (2, 5.0)]),
        ('v(i, cat(s, "!")) :- t(i, _, _, _, _, [s], _, _).', "TEXT", [(1, "a!")]),
        ("v(1, x) :- x = max d : { t(_, [d], _, _, _, _, _, _) }.", "DATE", [(1, FIRST)]),
        ("v(1, max d : { t(_, [d], _, _, _, _, _, _) }).", "DATE", [(1, FIRST)]),
        ("v(1, x) :- x = mean i : { t(i, _, _, _, _, _, _, _) }.", "DOUBLE", [(1, 1.5)]),
        ("v(1, x) :- x = count : { edge(2, _) }.", "BIGINT", [(1, 1)]),
        ("v(1, 2). v(1, n + 1) :- v(1, n), n < 4.", "BIGINT", [(1, 2), (1, 3), (1, 4)]),
        ("v(1, 0.5). v(1, 2).", "DOUBLE", [(1, 0.5), (1, 2.0)]),
        ("v(x, p) :- p(x). p(x) :- q(x, x). q(x, y) :- edge(x, y), v(x, _).", "", []),
        ("q(y) :- q(x), edge(x, y). q(1). v(x, x) :- q(x).", "BIGINT", [(1, 1), (2, 2), (3, 3)]),
        ("v(x, y) :- edge(x, y). v(y, x) :- v(x, y), x > 1.", "INTEGER", [(1, 2), (2, 3), (3, 2)]),
        (f"v(1, n) :- {DAY}, (n = \"2020-01-02\" ; n = as(5, date)).", "DATE", [(1, FIRST)]),
        (f"v(1, n) :- {DAY}, !(n = as(5, date)).", "DATE", [(1, FIRST)]),
        ("v(x, y) :- x = min i : { t(i, [y], _, _, _, _, _, _) }.", "DATE", [(1, FIRST)]),
        ("v(i, nil) :- edge(i, 2). v(3, [2.5]).", "DOUBLE", [(1, None), (3, 2.5)]),
    ],
)  # fmt: skip
def test_what_the_second_column_is(
    db: deltafix.sql.Connection, rules: str, found: str, rows: list[tuple[object, ...]]
) -> None:
    create = f"CREATE VIEW v (i, x) AS RULES $$ {rules} $$"
    if not found:
        with pytest.raises(deltafix.sql.ProgrammingError, match="ground"):
            db.execute(create)
        return
    db.execute(create)
    assert columns(db, "v")[1][1] == found
    assert db.execute("SELECT * FROM v").fetchall() == rows


def test_a_declared_type_holds_what_rules_compute(db: deltafix.sql.Connection) -> None:
    db.execute(
        "CREATE VIEW due (i, d DATE) AS RULES $$ due(i, d + 7) :- t(i, [d], _, _, _, _, _, _). $$;"
        "CREATE VIEW small (a SMALLINT) AS RULES $$ small(x) :- edge(x, _). $$;"
        "CREATE VIEW sure (a BOOLEAN) AS RULES $$ sure(1). sure(0). $$"
    )
    assert db.execute("SELECT * FROM due").fetchall() == [(1, date(2020, 1, 9))]
    assert db.execute("SELECT * FROM sure").fetchall() == [(False,), (True,)]
    with pytest.raises(deltafix.sql.DataError, match="40000 is no SMALLINT, in view 'small'"):
        db.execute("INSERT INTO edge VALUES (40000, 1); SELECT * FROM small")
    assert db.execute("SELECT * FROM small").fetchall() == [(1,), (2,)]
    assert db.execute("SELECT COUNT(*) FROM edge").fetchall() == [(3,)]


@pytest.mark.parametrize(
    ("rules", "code", "place", "says"),
    [
        ("v(x) :- egde(x, _).", "DF110", "egde", "did you mean `edge`?"),
        ("v(x) :- rech(x, _).", "DF110", "rech", "did you mean `reach`?"),
        ("v(x) :- edge(x _).", "DF103", "_)", "expected `,` or `)`"),
        ("v(x) :- edge(x).", "DF112", "edge", "`edge` has 2 columns, 1 given"),
        ("v(x, y) :- edge(x, _).", "DF130", "y", "variable `y` is not grounded"),
        ("v(x) :- edge(x, _), !v(x).", "DF140", "v(x).", "negation inside recursion: v -!-> v"),
        ("v(n) :- n = count : { v(_) }.", "DF140", "v(_)", "`count` inside recursion"),
        ("v(x) :- edge(x, _). edge(x, x) :- v(x).", "DF111", "edge(x, x)", "is a table or view"),
        ('v(x) :- edge(x, _), x = "a".', "DF120", 'x = "a"', "cannot be both"),
        (
            "v(x) :- edge(x, _), t(_, [x], _, _, _, _, _, _).",
            "DF120",
            "x], _",
            "both number (column",
        ),
        ("v(i) :- t(i, [d], _, [p], _, _, _, _), p < d.", "DF120", "p], _", "decimal(8, 2)"),
        (
            "v(x) :- edge(x, _). v(d) :- t(_, [d], _, _, _, _, _, _).",
            "DF120",
            "d], _",
            "both number (column",
        ),
        ("v(d) :- t(_, d, _, _, _, _, _, _), edge(d, _).", "DF120", "d, _).", "date?"),
        ("v(x) :- v(x).", "DF120", "v(x) :-", "no rule says what column `x` of `v` holds"),
        (".input edge\nv(x) :- edge(x, _).", "DF722", "edge\n", ".input"),
        (".type n <: number\nv(x) :- edge(x, _).", "DF722", ".type", ".type n"),
        (".decl edge(x: number, y: number)\nv(x) :- edge(x, _).", "DF111", "edge(x:", "its .decl"),
        (".decl v(x: foo)\nv(x) :- edge(x, _).", "DF113", "x: foo", "there is no type `foo`"),
        ('v(ord("a")) :- edge(_, _).', "DF166", 'ord("a")', "order in which symbols came"),
        ("v(x) :- edge(x, _), x > @f(x).", "DF157", "@f(x)", "is not declared"),
    ],
)
def test_an_error_has_its_place_in_the_text(
    db: deltafix.sql.Connection, rules: str, code: str, place: str, says: str
) -> None:
    db.execute(REACH)
    text = f"SELECT 1 AS a;\nCREATE VIEW v AS RULES $$\n  {rules}\n$$"
    kind = deltafix.sql.NotSupportedError if code == "DF722" else deltafix.sql.ProgrammingError
    with pytest.raises(kind) as caught:
        db.execute(text)
    first = caught.value.diagnostics[0]
    assert first.code == code
    assert first.span is not None
    assert text[first.span.start :].startswith(place)
    assert says in str(caught.value)
    line = text.count("\n", 0, first.span.start) + 1
    assert str(caught.value).startswith(f"<sql>:{line}:")
    assert list(db.catalog.views) == ["reach"]


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("CREATE VIEW v (a, b) AS RULES 'v(x) :- edge(x, _).'", "2 names for 1 columns"),
        ("CREATE VIEW v (a DATE) AS RULES 'v(x) :- edge(x, _).'", "'a' is INTEGER by its rules"),
        ("CREATE VIEW v (a DATE NOT NULL) AS RULES 'v(1).'", "a constraint of a view's column"),
        ("CREATE VIEW v (a, a) AS RULES 'v(x, y) :- edge(x, y).'", "two columns are called 'a'"),
        ("CREATE VIEW v AS RULES 'w(x) :- edge(x, _).'", "no rule says rows of 'v'"),
        ("CREATE VIEW v AS RULES 'v() :- edge(_, _).'", "v has no columns"),
        ("CREATE VIEW v AS RULES 'v(x) :- edge(x, _), x = ''a''.'", "quotes in them"),
        ("CREATE VIEW v AS RULES v(x)", "Expecting the rules, as a text"),
        ("CREATE TABLE v AS RULES 'v(1).'", "CREATE TABLE AS"),
        ("INSERT INTO edge RULES 'v(1, 2).'", "a query of RULES"),
    ],
)
def test_what_a_statement_cannot_say(db: deltafix.sql.Connection, sql: str, says: str) -> None:
    with pytest.raises((deltafix.sql.ProgrammingError, deltafix.sql.NotSupportedError)) as caught:
        db.execute(sql)
    assert says in str(caught.value)
    assert "v" not in db.catalog.relations


def test_views_that_would_read_each_other_are_refused(db: deltafix.sql.Connection) -> None:
    db.execute(REACH)
    db.execute("CREATE VIEW size AS SELECT a, COUNT(*) AS n FROM reach GROUP BY a")
    with pytest.raises(deltafix.sql.ProgrammingError, match="would read size, which reads reach"):
        db.execute("CREATE OR REPLACE VIEW reach (a, b) AS RULES 'reach(x, n) :- size(x, n).'")
    with pytest.raises(deltafix.sql.ProgrammingError, match="reach is read by size"):
        db.execute("DROP VIEW reach")
    with pytest.raises(deltafix.sql.ProgrammingError, match="edge is read by reach"):
        db.execute("DROP TABLE edge")
    db.execute("CREATE OR REPLACE VIEW reach (a, b) AS RULES 'reach(y, x) :- edge(x, y).'")
    assert db.execute("SELECT * FROM size").fetchall() == [(2, 1), (3, 1)]
    db.execute("DROP VIEW size; DROP VIEW reach; DROP TABLE edge")
    assert list(db.catalog.relations) == ["t"]


def test_a_table_that_is_altered_is_what_the_rules_said(tmp_path: Path) -> None:
    with closing(deltafix.sql.connect(tmp_path / "state")) as db:
        db.execute(TABLES + REACH)
        db.execute(
            "ALTER TABLE edge ADD COLUMN n INTEGER DEFAULT 7; ALTER TABLE edge RENAME TO arc"
        )
        db.execute("ALTER TABLE arc RENAME COLUMN y TO z; INSERT INTO arc VALUES (3, 4, 5)")
        with pytest.raises(deltafix.sql.ProgrammingError, match="z is read by reach"):
            db.execute("ALTER TABLE arc DROP COLUMN z")
        db.execute("ALTER TABLE arc DROP COLUMN n")
        expected = db.execute("SELECT * FROM reach").fetchall()
        assert expected == [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)]
    with closing(deltafix.sql.connect(tmp_path / "state")) as db:
        assert db.execute("SELECT * FROM reach").fetchall() == expected
        db.execute(
            "BEGIN; DELETE FROM arc WHERE x = 3; CREATE VIEW w AS RULES 'w(x) :- reach(x, 4).'"
        )
        assert db.execute("SELECT * FROM w").fetchall() == []
        db.execute("ROLLBACK")
        assert db.execute("SELECT * FROM reach").fetchall() == expected
        assert list(db.catalog.views) == ["reach"]


def test_a_proof_goes_through_rules_and_sql(db: deltafix.sql.Connection) -> None:
    db.execute(REACH)
    db.execute(
        "CREATE VIEW ends AS RULES $$ out(x) :- edge(x, _). ends(x) :- edge(_, x), !out(x). $$;"
        "CREATE VIEW last AS SELECT r.a, e.x AS e FROM reach AS r JOIN ends AS e ON r.b = e.x"
    )
    assert [line for (line,) in db.execute("EXPLAIN WHY SELECT * FROM last WHERE a = 1")] == [
        "last: a = 1 AND e = 3",
        "  reach: a = 1 AND b = 3",
        "    reach: a = 1 AND b = 2",
        "      edge: x = 1 AND y = 2",
        "    edge: x = 2 AND y = 3",
        "  ends: x = 3",
        "    edge: x = 2 AND y = 3",
        "    no row of a query over edge",
    ]
    asked = db.execute("EXPLAIN WHY NOT SELECT * FROM reach WHERE a = 3 AND b = 1").fetchall()
    assert asked[0] == ("reach has no row with a = 3 AND b = 1",)
    db.execute("CREATE VIEW far AS SELECT a, b FROM reach WHERE b > 2")
    for view, said, indent in (
        ("reach", [], "  "),
        ("far", ["  there is no row of reach with a = 3 AND b = 1"], "    "),
    ):
        text = f"EXPLAIN WHY NOT SELECT * FROM {view} WHERE a = 3 AND b = 1"
        assert [line for (line,) in db.execute(text)][1:] == [
            *said,
            *(
                f"{indent}{line}"
                for line in (
                    "reach(x, y) :- edge(x, y, _).",
                    "  fails  edge(3, 1, _)",
                    "reach(x, z) :- reach(x, y), edge(y, z, _).",
                    "  fails  reach(3, y)",
                )
            ),
        ]
    db.execute("CREATE VIEW up AS RULES $$ up(x) :- edge(x, y), x > y. $$")
    assert [line for (line,) in db.execute("EXPLAIN WHY NOT SELECT * FROM up WHERE x = 1")] == [
        "up has no row with x = 1",
        "  up(x) :- edge(x, y, _), x > y.",
        "    holds  edge(1, 2, _)",
        "    fails  1 > 2",
    ]
    rules = [line for (line,) in db.execute(f"EXPLAIN {REACH.strip().rstrip(';')}")]
    assert rules == ["reach(x, y) :- edge(x, y, _).", "reach(x, z) :- reach(x, y), edge(y, z, _)."]


def test_subscribers_hear_of_rules(db: deltafix.sql.Connection) -> None:
    db.execute(REACH)
    heard: list[deltafix.sql.ViewDelta] = []
    db.subscribe("reach", heard.append)
    db.execute("BEGIN; INSERT INTO edge VALUES (3, 4); DELETE FROM edge WHERE x = 1; COMMIT")
    db.execute("INSERT INTO edge VALUES (3, 4)")
    (one,) = heard
    assert (one.added, one.removed) == ([(2, 4), (3, 4)], [(1, 2), (1, 3)])


def test_the_texts_of_dialects(warm_kernel: None) -> None:
    for dialect in ("duckdb", "postgres", "spark"):
        with closing(deltafix.sql.connect(dialect=dialect)) as db:
            db.execute("CREATE TABLE e (x TEXT NOT NULL, y TEXT NOT NULL)")
            db.execute("""CREATE VIEW v AS RULES 'v(x, "a") :- e(x, "b"). // done'""")
            db.execute("INSERT INTO e VALUES ('q', 'b')")
            assert db.execute("SELECT * FROM v").fetchall() == [("q", "a")]


def run(code: int, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == code


def test_commands_take_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "views.sql"
    script.write_text("CREATE TABLE edge (x INTEGER NOT NULL, y INTEGER NOT NULL);" + REACH)
    (tmp_path / "edge.csv").write_text("x,y\n1,2\n2,3\n")
    asked = "SELECT * FROM reach WHERE b = 3"
    run(0, ["sql", str(script), "-F", str(tmp_path), "-c", asked])
    assert capsys.readouterr().out.endswith("1\t3\n2\t3\n")
    run(0, ["run", str(script), "-F", str(tmp_path), "-D", str(tmp_path / "out")])
    assert (tmp_path / "out" / "reach.csv").read_text().split() == ['"a","b"', "1,2", "1,3", "2,3"]
    script.write_text(script.read_text().replace("edge(y, z)", "egde(y, z)"))
    run(2, ["sql", str(script), "-F", str(tmp_path), "-c", asked])
    assert f"{script}:4:33: error[DF110]" in capsys.readouterr().err


def test_records_are_compared_beside_views_that_have_records_of_the_engine() -> None:
    text = """CREATE TABLE edge (x INTEGER, y INTEGER NOT NULL, s TEXT, PRIMARY KEY (x, y));
        CREATE VIEW v AS RULES $$
            v(x) :- edge(x, y, s), [x, s] != [y, nil], [y, s] = [4, ["b"]].
            v(x) :- edge(x, y, nil), [x, y] = [1, 2].
        $$;
        CREATE VIEW top AS SELECT x, y FROM edge ORDER BY x, y LIMIT 2;"""
    program = program_of(text)
    assert any(len(branch.fields) == 2 for one in program.types for branch in one.branches)
    again = Program.parse(show(program))  # shards keep the text
    mine = [[r for r in p.rules if r.heads[0].relation == "v"] for p in (again, program)]
    assert mine[0] == mine[1] != []
    with closing(deltafix.sql.connect()) as db:
        db.execute(text)
        db.execute("INSERT INTO edge VALUES (1, 2, NULL), (1, 3, NULL), (3, 4, 'b'), (4, 4, 'a')")
        assert db.execute("SELECT * FROM v").fetchall() == [(1,), (3,)]


def test_a_program_names_parts_by_all_that_they_follow_from() -> None:
    text = """CREATE TABLE edge (x INTEGER, y INTEGER);
        CREATE VIEW there AS SELECT x, y FROM edge WHERE x IS NOT NULL AND y > 0;
        CREATE VIEW v (a, d DATE) AS RULES $$ mid(x) :- there([x], _). v(x, x + 1) :- mid(x). $$"""
    names = [
        {one.name for one in program_of(t).relations} for t in (text, text.replace("> 0", "> 1"))
    ]
    parts = [found - {"edge", "there", "v"} for found in names]
    assert len(parts[0]) == len(parts[1]) == 2
    assert not parts[0] & parts[1]


@pytest.mark.parametrize(
    "rule",
    [
        "s(sum r : { t(_, [r]) }).",
        "s(x) :- x = sum r : { t(_, [r]) }.",
        "part(1, sum r : { t(_, [r]) }). s(x) :- part(_, x).",
        "s(x) :- x = max y : { y = sum r : { t(_, [r]) } }.",
        "s(r + r) :- t(1, [r]).",
    ],
)
@pytest.mark.parametrize("digits", [10, 18])
def test_what_rules_compute_beyond_a_decimal_is_an_error_of_sql(rule: str, digits: int) -> None:
    """A bound of a sum that no functor or constant stands beside was lost: rows were wrong."""
    most, kind = Decimal("9" * digits).scaleb(-2), f"DECIMAL({digits}, 2)"
    with closing(deltafix.sql.connect()) as db:
        db.execute(f"CREATE TABLE t (i INTEGER NOT NULL, r {kind})")
        db.execute(f"CREATE VIEW s (x) AS RULES $$ {rule} $$")
        db.insert("t", [(1, Decimal("0.25"))])
        before = db.execute("SELECT * FROM s").fetchall()
        with pytest.raises(deltafix.sql.DataError, match="is no decimal"):
            db.insert("t", [(1, most), (2, most)])
        assert db.execute("SELECT * FROM s").fetchall() == before
        db.insert("t", [(2, Decimal("0.50"))])
        first, total = Decimal("0.50"), Decimal("0.75")
        assert db.execute("SELECT * FROM s").fetchall() == [(first if "r + r" in rule else total,)]
