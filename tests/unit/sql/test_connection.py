"""A connection: statements, transactions, keys, deltas, and what is refused."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.generators.random_sql import case_of

import deltafix.sql
from deltafix.errors import (
    BudgetError,
    FactError,
    SqlDataError,
    SqlError,
    SqlIntegrityError,
    SqlProgrammingError,
    SqlRefusedError,
    StateError,
    StateInUseError,
    SubscriberError,
)
from deltafix.sql import Connection, ViewDelta, parsing
from deltafix.sql.parameters import bound
from deltafix.sql.scalar import Scalars

pytestmark = pytest.mark.usefixtures("warm_kernel")

CLOSURE = """
    CREATE TABLE edge (x INTEGER NOT NULL, y INTEGER NOT NULL);
    CREATE MATERIALIZED VIEW path AS WITH RECURSIVE path (x, y) AS (
        SELECT x, y FROM edge
        UNION SELECT path.x, edge.y FROM path JOIN edge ON path.y = edge.x
    ) SELECT * FROM path;
"""


@pytest.fixture
def db():
    with deltafix.sql.connect() as found:
        yield found


def rows(db: Connection, query: str) -> list:
    return db.execute(query).fetchall()


# --- transactions --------------------------------------------------------------------------------


def test_a_view_is_read_in_the_order_of_its_query() -> None:
    db = deltafix.sql.connect()
    db.execute(
        """
        CREATE TABLE a (x INTEGER PRIMARY KEY, y TEXT);
        CREATE VIEW down (n, t) AS SELECT x, y FROM a ORDER BY y DESC NULLS FIRST, x DESC;
        CREATE VIEW both (t, c) AS SELECT y, COUNT(*) FROM a GROUP BY y ORDER BY COUNT(*) DESC, y;
        CREATE VIEW four AS SELECT x FROM a UNION ALL SELECT x + 10 FROM a ORDER BY 1 DESC LIMIT 4;
        INSERT INTO a VALUES (1, 'b'), (2, 'a'), (3, 'b'), (4, NULL)
        """
    )
    assert rows(db, "SELECT * FROM down") == [(4, None), (3, "b"), (1, "b"), (2, "a")]
    assert rows(db, "SELECT t AS n FROM down WHERE n < 4 LIMIT 2") == [("b",), ("b",)]
    assert rows(db, "SELECT d.n FROM down AS d ORDER BY d.n LIMIT 1") == [(1,)]
    assert rows(db, "SELECT COUNT(*) FROM down") == [(4,)]
    assert rows(db, "SELECT c FROM both") == [(2,), (1,), (1,)]
    assert rows(db, "SELECT t FROM both") == [("b",), ("a",), (None,)]
    assert rows(db, "SELECT x FROM four") == [(14,), (13,), (12,), (11,)]


def test_a_view_is_read_in_the_order_of_what_it_does_not_show() -> None:
    db = deltafix.sql.connect()
    db.execute(
        """
        CREATE TABLE a (x INTEGER PRIMARY KEY, y TEXT, z INTEGER);
        CREATE VIEW one AS SELECT y FROM a ORDER BY z DESC, x;
        CREATE VIEW two AS SELECT * FROM a ORDER BY z * 2, LENGTH(y) DESC, x;
        CREATE VIEW three AS SELECT y FROM a GROUP BY y ORDER BY MAX(z) DESC LIMIT 2;
        CREATE VIEW four AS SELECT y, 1 AS n FROM one;
        INSERT INTO a VALUES (1, 'b', 5), (2, 'a', 7), (3, 'b', 1), (4, 'c', 5)
        """
    )
    changes = db.subscribe("one")
    assert rows(db, "SELECT * FROM one") == [("a",), ("b",), ("c",), ("b",)]
    assert rows(db, "SELECT one.*, 1 AS n FROM one WHERE y <> 'c'") == [
        ("a", 1),
        ("b", 1),
        ("b", 1),
    ]
    assert rows(db, "SELECT * FROM one WHERE y IN (SELECT y FROM four)") == [
        ("a",), ("b",), ("c",), ("b",),
    ]  # fmt: skip
    assert rows(db, "SELECT x FROM two LIMIT 3") == [(3,), (1,), (4,)]
    assert rows(db, "SELECT * FROM three") == [("a",), ("b",)]
    assert rows(db, "SELECT * FROM four") == [("a", 1), ("b", 1), ("b", 1), ("c", 1)]
    db.execute("UPDATE a SET z = 10 - z")  # another order of the same rows is no change of them
    assert rows(db, "SELECT * FROM one") == [("b",), ("b",), ("c",), ("a",)]
    assert rows(db, "SELECT x FROM two") == [(2,), (1,), (4,), (3,)]
    assert rows(db, "SELECT * FROM three") == [("b",), ("c",)]
    assert [delta for delta in changes if delta] == []
    assert rows(db, "EXPLAIN WHY SELECT * FROM three WHERE y = 'c'")[0] == ("three: y = 'c'",)
    db.engine.check_invariants()


def test_not_like_stands_inside_not_like() -> None:
    db = deltafix.sql.connect()
    db.execute(
        """
        CREATE TABLE a (x INTEGER PRIMARY KEY, y TEXT);
        CREATE VIEW b AS SELECT x FROM a
          WHERE CASE WHEN y NOT LIKE 'a%' THEN 'no' ELSE 'yes' END NOT ILIKE 'N%';
        INSERT INTO a VALUES (1, 'abc'), (2, 'cba'), (3, NULL)
        """
    )
    assert rows(db, "SELECT x FROM b") == [(1,), (3,)]


def test_an_outer_join_makes_no_values_that_nothing_reads() -> None:
    db = deltafix.sql.connect()
    db.execute("CREATE TABLE a (x INTEGER PRIMARY KEY)")
    db.execute("CREATE TABLE b (x INTEGER PRIMARY KEY, y TEXT NOT NULL, z TEXT NOT NULL)")
    query = "SELECT a.x, b.y FROM a LEFT JOIN b ON a.x = b.x AND b.z > 'k'"
    rules = " ".join(rule for (rule,) in db.execute(f"EXPLAIN {query}").fetchall())
    assert "= [y" in rules
    assert "= [z" not in rules
    db.execute(f"CREATE VIEW v AS {query}")
    db.execute(
        "INSERT INTO a VALUES (1), (2), (3); INSERT INTO b VALUES (1, 'b', 'z'), (2, 'c', 'a')"
    )
    assert rows(db, "SELECT * FROM v ORDER BY x") == [(1, "b"), (2, None), (3, None)]


def test_a_transaction_sees_its_own_edits_and_is_told_of_once(db):
    db.execute(CLOSURE)
    told: list[ViewDelta] = []
    db.subscribe("path", told.append)
    db.execute("BEGIN; INSERT INTO edge VALUES (1, 2)")
    assert rows(db, "SELECT * FROM path") == [(1, 2)]
    db.execute("INSERT INTO edge VALUES (2, 3); DELETE FROM edge WHERE x = 1")
    assert rows(db, "SELECT * FROM path") == [(2, 3)]
    assert told == []
    db.execute("COMMIT")
    assert [(one.added, one.removed) for one in told] == [([(2, 3)], [])]


def test_a_rollback_takes_back_what_was_read_and_what_was_not(db):
    db.execute(f"{CLOSURE} CREATE TABLE k (a INTEGER PRIMARY KEY); INSERT INTO k VALUES (1)")
    db.execute("BEGIN; INSERT INTO edge VALUES (1, 2); DELETE FROM k WHERE a = 1")
    assert rows(db, "SELECT * FROM path") == [(1, 2)]
    db.execute("INSERT INTO edge VALUES (2, 3); INSERT INTO k VALUES (2)")
    db.execute("ROLLBACK")
    assert rows(db, "SELECT * FROM path") == []
    assert rows(db, "SELECT * FROM k") == [(1,)]
    with pytest.raises(deltafix.sql.IntegrityError):
        db.execute("INSERT INTO k VALUES (1)")  # the key is known again
    db.execute("INSERT INTO k VALUES (2)")


def test_a_statement_that_fails_inside_a_transaction_changes_nothing(db):
    db.execute("CREATE TABLE k (a INTEGER PRIMARY KEY, b INTEGER); INSERT INTO k VALUES (1, 1)")
    db.execute("BEGIN; INSERT INTO k VALUES (2, 2)")
    for wrong in ("INSERT INTO k VALUES (3, 3), (1, 9)", "UPDATE k SET a = 1 WHERE b = 2"):
        with pytest.raises(deltafix.sql.IntegrityError, match="PRIMARY KEY"):
            db.execute(wrong)
    db.execute("COMMIT")
    assert rows(db, "SELECT * FROM k") == [(1, 1), (2, 2)]


def test_keys_may_be_exchanged_by_one_update(db):
    db.execute("CREATE TABLE k (a INTEGER PRIMARY KEY); INSERT INTO k VALUES (1), (2)")
    db.execute("UPDATE k SET a = 3 - a")
    assert rows(db, "SELECT * FROM k") == [(1,), (2,)]


def test_unique_takes_nulls_and_refuses_values(db):
    db.execute("CREATE TABLE k (a INTEGER, b TEXT, UNIQUE (a, b))")
    assert db.insert("k", [(1, None), (1, None), (1, "x")]) == 3
    with pytest.raises(deltafix.sql.IntegrityError, match=r"UNIQUE \(a, b\) has a row"):
        db.insert("k", [(2, "x"), (1, "x")])
    assert len(rows(db, "SELECT * FROM k")) == 3


PEOPLE = "CREATE TABLE p (id INTEGER NOT NULL, name TEXT, age INTEGER DEFAULT 7)"


def test_rows_may_be_given_by_column_name(db):
    db.execute(PEOPLE)
    given = [{"name": "ann", "id": 1}, {"id": 2}, (3, "bob", 4), {"age": None, "id": 5}]
    assert db.insert("p", given) == 4
    there = [(1, "ann", 7), (2, None, 7), (3, "bob", 4), (5, None, None)]
    assert rows(db, "SELECT * FROM p") == there
    assert db.insert("p", [{"id": 6}, {"name": "cid", "id": 8}], ["name", "id"]) == 2
    many = [{"id": n, "name": str(n)} for n in range(10, 400)]
    assert db.insert("p", iter(many)) == 390
    assert rows(db, "SELECT COUNT(*), MIN(name), MAX(age) FROM p WHERE id >= 6") == [(392, "10", 7)]
    assert db.replace("p", [{"id": 1, "name": "ann"}]) == 395
    assert rows(db, "SELECT * FROM p") == there[:1]


@dataclass
class Person:
    id: int
    name: str
    age: int


def test_rows_may_be_objects_of_a_dataclass(db):
    db.execute(PEOPLE)
    assert db.insert("p", [Person(1, "ann", 2)]) == 1
    assert rows(db, "SELECT * FROM p") == [(1, "ann", 2)]


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        ([{"id": 1}, {"id": 2, "nme": "x"}], "Programming", r"row 1, 'nme'.*\n.*mean 'name'"),
        ([(1, "a", 2), {"name": "x"}], "Integrity", r"row 1 has no value .* 'id'.*NOT NULL"),
        ([{"id": 1, 2: 3}], "Programming", r"row 0, '2'.*\n.*there is: age, id, name"),
        ([(1, "a", 2), "abc"], "Programming", r"row 1 is 'abc' \(str\).*id, name, age"),
        (["abc"] * 300, "Programming", r"row 0 is 'abc' \(str\)"),
        ([b"abc"], "Programming", r"row 0 is b'abc' \(bytes\)"),
        ([(1, "a", 2), 5], "Programming", r"row 1 is 5 \(int\)"),
        ([{1, 2, 3}], "Programming", r"row 0 is \{1, 2, 3\} \(set\)"),
        ((1, "a", 2), "Programming", r"row 0 is 1 \(int\).*\n.*one row alone goes in a list"),
        ({"id": 1}, "Programming", r"rows are given as .* not as dict.*\n.*in a list"),
        ("abc", "Programming", r"rows are given as .* not as str"),
        (5, "Programming", r"rows are given as .* not as int"),
        ([(1, "a", 2), (1,)], "Programming", r"row 1 has 1 value for 3 columns"),
    ],
)  # fmt: skip
def test_what_is_no_row_is_named_with_its_place(db, given, kind, says):
    db.execute(PEOPLE)
    for change in (db.insert, db.replace):
        with pytest.raises(getattr(deltafix.sql, f"{kind}Error"), match=f"(?s){says}"):
            change("p", given)
    assert rows(db, "SELECT * FROM p") == []


@pytest.mark.parametrize("given", ["ab", 5, {"a"}])
def test_parameters_are_a_sequence_or_a_dict(db, given):
    db.execute("CREATE TABLE k (a TEXT, b TEXT)")
    kind = type(given).__name__
    with pytest.raises(deltafix.sql.ProgrammingError, match=f"parameters .*, not as {kind}"):
        db.execute("INSERT INTO k VALUES (?, ?)", given)
    with pytest.raises(deltafix.sql.ProgrammingError, match=f"parameters .*, not as {kind}"):
        db.executemany("INSERT INTO k VALUES (?, ?)", [given])


def test_an_error_of_a_value_rolls_the_transaction_back(db):
    db.execute("CREATE TABLE n (a INTEGER, b INTEGER)")
    db.execute("CREATE VIEW q AS SELECT a // b AS c, a + 2147483647 AS d FROM n")
    db.execute("INSERT INTO n VALUES (0, 1)")
    with pytest.raises(deltafix.sql.DataError, match="division by zero"):
        db.execute("INSERT INTO n VALUES (0, 0)")
    with pytest.raises(deltafix.sql.DataError, match="is no INTEGER"):
        db.execute("UPDATE n SET a = 1")
    assert rows(db, "SELECT * FROM n") == [(0, 1)]
    assert rows(db, "SELECT * FROM q") == [(0, 2147483647)]
    db.engine.check_invariants()


def test_a_sum_beyond_bigint_is_an_error_and_not_a_small_number(db):
    db.execute("CREATE TABLE n (a BIGINT); CREATE VIEW q AS SELECT SUM(a) AS s FROM n")
    db.insert("n", [(2**63 - 1,)])
    with pytest.raises(deltafix.sql.DataError, match="BIGINT"):
        db.insert("n", [(1,)])
    assert rows(db, "SELECT s FROM q") == [(2**63 - 1,)]
    db.insert("n", [(-1,)])
    assert rows(db, "SELECT s FROM q") == [(2**63 - 2,)]


def test_nan_is_one_value_in_keys_and_in_deltas(db):
    db.execute("CREATE TABLE n (a DOUBLE PRIMARY KEY, b INTEGER); CREATE VIEW v AS SELECT a FROM n")
    db.execute("INSERT INTO n VALUES (?, 1)", [float("nan")])
    with pytest.raises(deltafix.sql.IntegrityError):
        db.execute("INSERT INTO n VALUES (?, 2)", [float("-nan")])
    db.execute("BEGIN; DELETE FROM n WHERE a > 1")
    assert rows(db, "SELECT * FROM v") == []
    db.insert("n", [(float("nan"), 3)])
    db.execute("COMMIT")
    assert not db.delta("v")
    assert len(db.delta("n")) == 2


def test_begin_and_commit_out_of_turn_are_refused(db):
    for wrong in ("COMMIT", "ROLLBACK", "BEGIN; BEGIN"):
        with pytest.raises(deltafix.sql.OperationalError):
            db.execute(wrong)
    db.close()
    with pytest.raises(deltafix.sql.OperationalError, match="closed"):
        db.execute("SELECT 1")


# --- the work ------------------------------------------------------------------------------------


def test_an_edit_of_one_row_does_the_work_of_one_row(db):
    db.execute("""
        CREATE TABLE emp (id INTEGER PRIMARY KEY, team INTEGER, pay INTEGER NOT NULL);
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE VIEW total AS SELECT team, COUNT(*) AS n, SUM(pay) AS s FROM emp GROUP BY team;
        CREATE VIEW named AS SELECT emp.id, team.name FROM emp LEFT JOIN team ON emp.team = team.id;
        CREATE VIEW lone AS SELECT id FROM team WHERE NOT EXISTS (
            SELECT 1 FROM emp WHERE emp.team = team.id AND emp.pay > 5);
        CREATE VIEW spread AS SELECT team, STDDEV(pay) AS d, MEDIAN(pay) AS m, BIT_XOR(pay) AS x,
            STRING_AGG(CAST(id AS TEXT), ',' ORDER BY pay DESC) AS ids FROM emp GROUP BY team;
        CREATE VIEW cube AS SELECT team, pay, COUNT(*) AS n FROM emp GROUP BY CUBE (team, pay);
        CREATE VIEW ids AS
            SELECT team, ARRAY_AGG(id ORDER BY pay, id) AS ids FROM emp GROUP BY team;
        CREATE VIEW ten AS SELECT team, x FROM (SELECT team, ids[1] AS a, ids[2] AS b FROM ids) AS i
            CROSS JOIN UNNEST([a, b]) AS u (x);
    """)
    db.insert("team", [(n, f"t{n}") for n in range(100)])
    db.insert("emp", [(n, n % 100, n % 10) for n in range(2000)])
    first = db.engine.last_epoch.derivations
    db.execute("UPDATE emp SET pay = 9 WHERE id = 1234")
    assert db.engine.last_epoch.derivations < 80 < first / 100
    db.execute("UPDATE emp SET team = 7 WHERE id = 1234")
    assert db.engine.last_epoch.derivations < 80
    assert len(db.delta("named")) == 2


def test_a_top_k_follows_an_edit_without_reading_the_others(db):
    db.execute("""
        CREATE TABLE emp (id INTEGER PRIMARY KEY, team INTEGER, pay INTEGER NOT NULL);
        CREATE VIEW top AS SELECT id, pay FROM emp ORDER BY pay DESC LIMIT 3;
        CREATE VIEW best AS SELECT DISTINCT ON (team) team, id FROM emp ORDER BY team, pay DESC;
    """)
    db.insert("emp", [(n, n % 10, n) for n in range(1000)])
    first = db.engine.last_epoch.derivations
    db.execute("DELETE FROM emp WHERE id = 998")
    assert (db.delta("top").removed, db.delta("top").added) == ([(998, 998)], [(996, 996)])
    assert (db.delta("best").removed, db.delta("best").added) == ([(8, 998)], [(8, 988)])
    assert db.engine.last_epoch.derivations < 40 < first / 50
    db.execute("UPDATE emp SET pay = 1 WHERE id = 5")  # it is in neither
    assert not db.delta("top")
    assert not db.delta("best")
    db.execute("INSERT INTO emp VALUES (2000, 3, 999)")  # equal: by what is shown, the least first
    assert rows(db, "SELECT id FROM top") == [(999,), (2000,), (997,)]
    most = "SELECT id FROM top LIMIT 9223372036854775807 OFFSET 1"
    assert rows(db, f"SELECT COUNT(*) FROM ({most}) AS x") == [(2,)]
    ranked = "SELECT *, RANK() OVER (ORDER BY pay DESC) AS r FROM top ORDER BY r DESC, id LIMIT 1"
    assert rows(db, ranked) == [(997, 997, 3)]
    assert "emp(999, [9], 999)  [given]" in str(db.engine.why("best", ((9,), 999, 999)))


def test_an_edit_computes_the_window_of_its_own_partition(db):
    db.execute("""
        CREATE TABLE emp (id INTEGER PRIMARY KEY, team INTEGER, pay INTEGER NOT NULL);
        CREATE VIEW ranked AS SELECT id, RANK() OVER (PARTITION BY team ORDER BY pay DESC) AS place,
            SUM(pay) OVER w AS total FROM emp WINDOW w AS (PARTITION BY team ORDER BY id);
        CREATE VIEW best AS SELECT team, id FROM emp
            QUALIFY ROW_NUMBER() OVER (PARTITION BY team ORDER BY pay DESC, id) = 1;
    """)
    db.insert("emp", [(n, n % 100, n) for n in range(1000)])
    first = db.engine.last_epoch.derivations
    db.execute("UPDATE emp SET pay = 1000 WHERE id = 807")
    assert db.delta("ranked").added == [(807, 1, 3856), (907, 2, 4763)]
    assert (db.delta("best").removed, db.delta("best").added) == ([(7, 907)], [(7, 807)])
    assert db.engine.last_epoch.derivations < 60 < first / 100
    db.execute("DELETE FROM emp WHERE team = 7")
    assert len(db.delta("ranked").removed) == 10
    assert rows(db, "SELECT COUNT(*) FROM ranked") == [(990,)]
    assert rows(db, "SELECT SUM(COUNT(*)) OVER () AS n FROM emp GROUP BY team LIMIT 1") == [(990,)]


def test_an_edit_by_key_reads_one_row(db, monkeypatch):
    db.execute("CREATE TABLE k (a INTEGER PRIMARY KEY, b INTEGER)")
    db.insert("k", [(n, n) for n in range(100)])
    read = []
    seen = Connection.lookup
    monkeypatch.setattr(
        Connection, "lookup", lambda *args: read.append(list(seen(*args))) or read[-1]
    )
    db.execute("UPDATE k SET b = 0 WHERE a = 7 AND b > 1")
    db.execute("DELETE FROM k WHERE a = 8")
    assert [len(found) for found in read] == [1, 1]


def test_a_commit_tells_what_definitions_and_edits_came_to():
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1), (2)")
        db.execute("CREATE VIEW v AS SELECT a FROM t; CREATE VIEW w AS SELECT COUNT(*) AS n FROM t")
        told, heard = {name: db.subscribe(name) for name in "tvw"}, []
        db.watch(heard.extend)
        calls: list[object] = []
        db.watch(calls.append)
        db.execute("UPDATE t SET a = a")
        assert not calls
        db.execute("BEGIN; INSERT INTO t VALUES (3); CREATE TABLE new (a INTEGER, b TEXT)")
        db.execute("INSERT INTO new SELECT a, 'x' FROM t; CREATE VIEW more AS SELECT a FROM new")
        db.execute("DROP VIEW v; DROP VIEW w; DROP TABLE t; ALTER TABLE new RENAME TO t")
        db.execute("CREATE VIEW v AS SELECT a FROM t WHERE a > 1; INSERT INTO t VALUES (4, 'y')")
        assert not heard
        db.execute("COMMIT")
        (one,), (other,) = told["t"], told["v"]
        assert one.columns == ("a", "b")
        assert one.added == [(1, "x"), (2, "x"), (3, "x"), (4, "y")]
        assert one.removed == [(1,), (2,)]
        assert (other.added, other.removed) == ([(3,), (4,)], [(1,)])
        assert {delta.view: len(delta) for delta in heard} == {"t": 6, "v": 3, "more": 1}
        assert db.delta("t") == one
        assert not list(told["w"])
        db.execute("CREATE VIEW w AS SELECT a FROM t; DELETE FROM t WHERE a < 9")
        assert not list(told["w"])  # it ended with the view


def test_a_definition_that_fails_leaves_the_transaction_as_it_was():
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('1')")
        told = db.subscribe("t")
        db.execute("BEGIN; INSERT INTO t VALUES ('one')")
        for wrong in (
            "CREATE VIEW v AS SELECT CAST(a AS INTEGER) AS n FROM t",
            "ALTER TABLE t ALTER COLUMN a TYPE INTEGER",
            "ALTER TABLE t ADD COLUMN b INTEGER NOT NULL",
            "DROP TABLE u",
        ):
            with pytest.raises(deltafix.sql.DatabaseError):
                db.execute(wrong)
            assert db.in_transaction
            assert rows(db, "SELECT * FROM t") == [("1",), ("one",)]
        db.execute("DELETE FROM t WHERE a = 'one'; ALTER TABLE t ALTER COLUMN a TYPE INTEGER")
        db.execute("CREATE VIEW v AS SELECT a + 1 AS n FROM t; COMMIT")
        assert rows(db, "SELECT * FROM v") == [(2,)]
        assert [(one.added, one.removed) for one in told] == [([(1,)], [("1",)])]


# --- definitions ---------------------------------------------------------------------------------


def test_a_view_made_after_its_data_holds_the_same(db):
    case = next(one for one in map(case_of, range(50)) if "KEY" not in " ".join(one.tables))
    early, late = db, deltafix.sql.connect()
    for table in case.tables:
        early.execute(table)
        late.execute(table)
    for name, query in case.views:
        early.execute(f"CREATE VIEW {name} AS {query}")
    for one in case.transactions[0]:
        early.execute(one)
        late.execute(one)
    for name, query in case.views:
        late.execute(f"CREATE VIEW {name} AS {query}")
    for one in case.transactions[1]:
        early.execute(one)
        late.execute(one)
    for name, _ in case.views:
        assert rows(early, f"SELECT * FROM {name}") == rows(late, f"SELECT * FROM {name}")
    late.close()


def test_what_a_view_reads_cannot_be_dropped(db):
    db.execute("CREATE TABLE a (x INTEGER); CREATE VIEW v AS SELECT x FROM a")
    with pytest.raises(deltafix.sql.ProgrammingError, match="a is read by v"):
        db.execute("DROP TABLE a")
    db.execute("DROP VIEW v; DROP TABLE a; DROP TABLE IF EXISTS a")
    with pytest.raises(deltafix.sql.ProgrammingError, match=r"unknown table 'a'[^?]*no table yet"):
        db.execute("SELECT * FROM a")


def test_a_view_that_fails_on_the_data_is_not_made(db):
    db.execute("CREATE TABLE a (x TEXT); INSERT INTO a VALUES ('1'), ('one')")
    with pytest.raises(deltafix.sql.DataError, match="'one' is no whole number"):
        db.execute("CREATE VIEW v AS SELECT CAST(x AS INTEGER) AS n FROM a")
    with pytest.raises(deltafix.sql.ProgrammingError, match="unknown table 'v'"):
        db.execute("SELECT * FROM v")
    assert len(rows(db, "SELECT * FROM a")) == 2


def test_explain_shows_the_rules(db):
    db.execute("CREATE TABLE a (x INTEGER, y INTEGER)")
    (rule,) = rows(db, "EXPLAIN SELECT y FROM a WHERE x = 1")
    assert rule == ("view(y_2, number_3) :- a(x_1, y_2, number_3), x_1 = [1].",)


def why(db, query):
    return [line for (line,) in rows(db, f"EXPLAIN WHY {query}")]


def test_why_of_a_row_among_the_first_is_that_row(db):
    db.execute(
        """CREATE TABLE t (x INTEGER, y INTEGER);
        INSERT INTO t VALUES (1, 1), (2, 5), (3, 4), (4, 9), (5, 9), (5, 9), (6, NULL);
        CREATE VIEW top AS SELECT x FROM t ORDER BY y DESC NULLS LAST LIMIT 2;
        CREATE VIEW later AS SELECT x FROM t ORDER BY y LIMIT 2 OFFSET 1;
        CREATE VIEW each AS SELECT DISTINCT ON (y) y, x FROM t ORDER BY y, x;
        CREATE VIEW least AS SELECT y, x FROM each ORDER BY y NULLS FIRST LIMIT 1"""
    )
    assert why(db, "SELECT * FROM top WHERE x = 4") == [
        "top: x = 4", "  t: x = 4 AND y = 9", "  the first 2 in the order of 7 rows are taken",
    ]  # fmt: skip
    assert why(db, "SELECT * FROM top WHERE x = 5") == [
        "top: x = 5", "  t: x = 5 AND y = 9", "  the first 2 in the order of 7 rows are taken",
    ]  # fmt: skip
    assert len(why(db, "SELECT * FROM later WHERE x = 3")) == 8  # without the others it is gone
    assert "  t: x = 4 AND y = 9" in why(db, "SELECT * FROM each WHERE y = 9")
    assert why(db, "SELECT * FROM least")[:2] == [
        "least: y IS NULL AND x = 6", "  each: y IS NULL AND x = 6",
    ]  # fmt: skip


def test_why_says_what_a_negation_looked_for(db):
    db.execute(
        """CREATE TABLE may (who TEXT, doc INTEGER, day DATE);
        CREATE TABLE not_ (who TEXT, doc INTEGER);
        INSERT INTO may VALUES ('ann', 1, '2026-01-31'), ('ann', 1, '2026-01-31'), ('bob', 2, NULL);
        CREATE VIEW v AS SELECT * FROM may m
          WHERE NOT EXISTS (SELECT 1 FROM not_ n WHERE n.who = m.who AND n.doc = m.doc);
        CREATE VIEW n AS SELECT who, COUNT(*) AS c FROM v GROUP BY who"""
    )
    assert why(db, "SELECT * FROM v WHERE who = 'bob'") == [
        "v: who = 'bob' AND doc = 2 AND day IS NULL",
        "  may: who = 'bob' AND doc = 2 AND day IS NULL",
        "  no row of not_ with who = 'bob' AND doc = 2",
    ]
    assert (
        len(why(db, "SELECT * FROM v WHERE day = '2026-01-31'")) == 6
    )  # a row that is there twice
    assert why(db, "SELECT * FROM n WHERE c > 1")[-1] == "  count over 2 rows"
    db.execute("CREATE TABLE many (x INTEGER); CREATE VIEW total AS SELECT COUNT(*) AS n FROM many")
    db.insert("many", [(n,) for n in range(51)])
    assert why(db, "SELECT * FROM total")[-1] == "  count over more than 50 rows"
    gone = "there is no such row; EXPLAIN WHY NOT says what keeps a row out"
    assert why(db, "SELECT * FROM n WHERE c > 2") == [gone]
    assert db.why("SELECT * FROM n WHERE c > 2") == []
    db.execute("INSERT INTO not_ VALUES ('bob', 2)")
    assert why(db, "NOT SELECT * FROM v WHERE who = 'bob' AND doc = 2 AND day IS NULL") == [
        "v has no row with who = 'bob' AND doc = 2 AND day IS NULL",
        "  there is a row of may with who = 'bob' AND doc = 2 AND day IS NULL",
        "  there is a row that NOT, EXCEPT or an outer join leaves out",
        "  NOT EXISTS(SELECT 1 FROM not_ AS n WHERE n.who = m.who AND n.doc = m.doc) "
        "fails with m.who = 'bob' AND m.doc = 2",
        "  without NOT EXISTS(SELECT 1 FROM not_ AS n WHERE n.who = m.who AND n.doc = m.doc) "
        "there would be one",
        "it would have one after: DELETE FROM not_ WHERE who = 'bob' AND doc = 2",
    ]
    assert why(db, "NOT SELECT * FROM not_ WHERE who = 'x' AND doc = 2")[-1] == (
        "  it is a table: INSERT the row"
    )


def test_what_is_in_both_proofs_is_shown_once(db):
    db.execute(
        """CREATE TABLE a (x INTEGER PRIMARY KEY); INSERT INTO a VALUES (1);
        CREATE VIEW b AS SELECT x FROM a; CREATE VIEW c AS SELECT x FROM b;
        CREATE VIEW d AS SELECT b.x AS x, c.x AS y FROM b JOIN c ON b.x = c.x"""
    )
    (reason,) = db.why("SELECT * FROM d")
    first, second = reason.because
    assert second.because == (first,)
    assert str(reason).split("\n") == [
        "d: x = 1 AND y = 1", "  b: x = 1", "    a: x = 1", "  c: x = 1", "    b: x = 1 (as above)",
    ]  # fmt: skip


NEVER = """
CREATE TABLE s (a INTEGER NOT NULL, l INTEGER[], i INTERVAL, t TEXT);
CREATE VIEW v AS SELECT * FROM s WHERE a < 3;
CREATE VIEW none AS SELECT a, t FROM s WHERE t = NULL AND a BETWEEN 1 AND NULL;
CREATE VIEW two AS SELECT x FROM (VALUES (1), (2)) AS q (x);
CREATE VIEW alone AS SELECT 1 AS x EXCEPT SELECT 1;
CREATE TABLE r (k INTEGER, m INTEGER);
CREATE VIEW near AS SELECT s.a, r.m FROM s ASOF JOIN r ON s.a = r.k AND s.a >= r.m;
INSERT INTO r VALUES (5, 6);
INSERT INTO s VALUES (5, [1, NULL], INTERVAL '30 days', 'x\ny'), (1, [2], NULL, 'p\nq');
"""


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "v WHERE a = 5 AND l = [1, NULL] AND i = INTERVAL '30 days' AND t = 'x\ny'",
            ["without a < 3 there would be one"],
        ),
        ("v WHERE l IS NULL AND a IS NULL", ["a is never NULL there"]),
        ("none WHERE a = 1 AND t = 'a'", ["its query has no row, whatever rows its tables have"]),
        ("alone WHERE x = 1", ["there is a row that NOT, EXCEPT or an outer join leaves out"]),
        ("two WHERE x = 3", ["there is no row of a query that reads no table"]),
        ("near WHERE a = 5 AND m = 6", ["ASOF JOIN r ON s.a = r.k AND s.a >= r.m leaves none"]),
    ],
)
def test_why_not_takes_values_of_every_type_and_views_of_every_kind(db, query, said):
    db.execute(NEVER)
    first, *lines = [line for (line,) in rows(db, f"EXPLAIN WHY NOT SELECT * FROM {query}")]
    name, _, row = query.replace("INTERVAL '30 days'", "CAST('30 days' AS INTERVAL)").partition(
        " WHERE "
    )
    assert first.removeprefix(f"{name} has no row with ") in (
        row,
        row.removeprefix("l IS NULL AND "),
    )
    assert [line.strip() for line in lines][-1:] == said


def test_a_line_of_a_proof_has_a_whole_row_whatever_its_texts_have(db):
    db.execute(NEVER)
    for (line,) in rows(db, "EXPLAIN WHY SELECT * FROM v"):
        of, _, row = line.strip().partition(": ")
        assert rows(db, f"SELECT a FROM {of} WHERE {row}") == [(1,)]


def test_what_keeps_a_group_out_is_the_group_there_is(db):
    db.execute(
        """CREATE TABLE pay (who TEXT NOT NULL, team TEXT, amount INTEGER);
        INSERT INTO pay VALUES ('ada', 'core', 5), ('bo', 'core', 7), ('cy', NULL, 1);
        CREATE VIEW g AS SELECT SUM(amount) AS s, team, COUNT(*) AS n FROM pay GROUP BY team;
        CREATE VIEW whole AS SELECT COUNT(*) AS n FROM pay;
        CREATE VIEW alone AS SELECT COUNT(*) AS n FROM pay GROUP BY team"""
    )
    for asked, group in (
        (
            "g WHERE team = 'core' AND s = 5 AND n = 2",
            "s = 12 AND team = 'core' AND n = 2",
        ),
        (
            "g WHERE team IS NULL AND s = 5 AND n = 2",
            "s = 1 AND team IS NULL AND n = 1",
        ),
        ("g WHERE team = 'sales' AND s = 5 AND n = 2", None),
        ("whole WHERE n = 4", "n = 3"),
        ("alone WHERE n = 4", None),  # which group, it does not say
    ):
        said = [line for (line,) in rows(db, f"EXPLAIN WHY NOT SELECT * FROM {asked}")]
        near = [line for line in said if "its group has" in line and "no rows" not in line]
        assert near == ([] if group is None else [f"  its group has {group}"])


@pytest.mark.parametrize(
    "view",
    [
        "SELECT a.x AS p, b.y AS q FROM a JOIN b ON a.k = b.k",
        "SELECT DISTINCT a.x, b.y AS q FROM a, b WHERE a.k = b.k",
        "SELECT a.x AS p, b.y AS q FROM a JOIN b ON a.k = b.k GROUP BY a.x, b.y",
        "SELECT x, k FROM a WHERE x < 0 UNION SELECT a.x, b.y FROM a JOIN b ON a.k = b.k",
    ],
)
def test_why_not_asks_for_the_row_alone_not_for_all_rows_without_a_condition(view: str) -> None:
    db = deltafix.sql.connect(max_rows=2000)
    db.execute("CREATE TABLE a (x INTEGER, k INTEGER); CREATE TABLE b (y INTEGER, k INTEGER)")
    db.insert("a", [(n, n) for n in range(300)])
    db.insert("b", [(n, n) for n in range(300)])
    db.execute(f"CREATE VIEW v (p, q) AS {view}")
    said = [line for (line,) in rows(db, "EXPLAIN WHY NOT SELECT * FROM v WHERE p = 7 AND q = 8")]
    assert "  without a.k = b.k there would be one" in said


STAFF = """
    CREATE TABLE staff (id INTEGER PRIMARY KEY, who TEXT, team INTEGER, pay INTEGER NOT NULL);
    CREATE TABLE team (id INTEGER PRIMARY KEY, title TEXT NOT NULL);
    INSERT INTO staff VALUES (1, 'ada', 1, 50), (2, 'bo', 1, 60), (3, 'cy', 2, 0), (4, 'di', 9, 9);
    INSERT INTO team VALUES (1, 'core'), (2, 'web');
    CREATE VIEW works AS SELECT staff.who, team.title FROM staff JOIN team ON staff.team = team.id
      WHERE staff.pay > 5 AND (100 % staff.pay < 90 AND title <> 'x') ORDER BY who;
    CREATE VIEW large AS SELECT team AS t, SUM(pay) AS s FROM staff WHERE who <> 'bo' GROUP BY team
      HAVING SUM(pay) > 40;
    CREATE VIEW most AS SELECT who, pay FROM staff ORDER BY pay DESC LIMIT 1;
    CREATE VIEW outer_ AS SELECT who, title FROM staff LEFT JOIN team ON staff.team = team.id;
    CREATE VIEW either AS SELECT who FROM staff WHERE pay > 55
      UNION ALL SELECT title FROM team WHERE id > 1 AND title <> 'x';
    CREATE TABLE heads (who TEXT, of TEXT);
    INSERT INTO heads VALUES ('ada', 'bo'), ('bo', 'cy'), ('cy', 'di'), ('di', 'ed');
    CREATE VIEW above (a, b, n) AS WITH RECURSIVE
      paid AS (SELECT who FROM staff WHERE pay <> 9),
      up AS (SELECT who, of, 1 AS n FROM heads WHERE who <> 'cy'
        UNION ALL SELECT up.who, heads.of, up.n + 1 FROM up JOIN heads ON heads.who = up.of
          WHERE up.n < 2 AND EXISTS (SELECT 1 FROM paid WHERE paid.who = up.of))
      SELECT * FROM up;
"""


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("works WHERE who = 'di'", ["without staff.team = team.id there would be one"]),
        ("works WHERE who = 'cy' AND title = 'web'", []),  # 100 % 0 has no value
        ("works WHERE who = 'cy'", ["no condition alone keeps it out; to hear more, WHERE "]),
        ("works WHERE who = 'ada' AND title = 'web'", [
            "without staff.team = team.id there would be one",
        ]),
        ("large WHERE t = 1 AND s = 110", [
            "without who <> 'bo' there would be one", "its group has t = 1 AND s = 50",
        ]),
        ("large WHERE t = 9", [
            "without SUM(pay) > 40 there would be one",
            "its group, which HAVING leaves out, has t = 9 AND s = 9",
        ]),
        ("large WHERE t = 9 AND s = 8", [
            "its group, which HAVING leaves out, has t = 9 AND s = 9",
        ]),
        ("large WHERE t = 8", ["its group has no rows"]),
        ("large WHERE s = 9", ["without SUM(pay) > 40 there would be one"]),
        ("most WHERE who = 'ada'", []),
        ("most WHERE who = 'ada' AND pay = 50", []),
        ("outer_ WHERE title = 'lab'", []),
        ("either WHERE who = 'ada'", ["without pay > 55 there would be one"]),
        ("either WHERE who = 'core'", ["without id > 1 there would be one"]),
        ("above WHERE a = 'cy' AND b = 'di' AND n = 1", ["without who <> 'cy' there would be one"]),
        ("above WHERE a = 'ada' AND b = 'di' AND n = 3", ["without up.n < 2 there would be one"]),
        ("above WHERE a = 'ada' AND b = 'ed' AND n = 4", []),  # by two steps
    ],
)  # fmt: skip
@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark"])
def test_what_one_condition_keeps_out_is_told_with_the_condition(asked, wanted, dialect):
    with deltafix.sql.connect(dialect=dialect) as one:
        one.execute(STAFF)
        first, *lines = [line for (line,) in one.execute(f"EXPLAIN WHY NOT SELECT * FROM {asked}")]
        assert first == asked.replace(" WHERE", " has no row with")
        told = [
            line.strip() for line in lines if re.match("  (without|its group|no condition)", line)
        ]
        assert len(told) == len(wanted)
        for line, start in zip(told, wanted, strict=True):
            assert line.startswith(start)


@pytest.mark.parametrize(
    ("query", "asked", "clauses"),
    [
        ("SELECT COUNT(*) AS n FROM staff", "n = 9", None),
        ("SELECT COUNT(*) AS n FROM staff WHERE pay > 5", "n = 9", "WHERE"),
        ("SELECT SUM(pay) AS n FROM staff s JOIN team t ON s.id = t.id", "n = 1", "ON"),
        ("SELECT SUM(s.pay) AS n FROM staff s JOIN team t USING (id) WHERE s.pay > 5", "n = 1",
         "USING, WHERE"),
    ],
)  # fmt: skip
def test_only_clauses_that_the_query_has_are_named(db, query, asked, clauses):
    db.execute(f"{STAFF}; CREATE VIEW v AS {query}")
    said = [line for (line,) in rows(db, f"EXPLAIN WHY NOT SELECT * FROM v WHERE {asked}")]
    fit = f"no such rows fit together ({clauses})" if clauses else "no rows give these values"
    assert f"  {fit}" in said
    assert not any(one in line for line in said for one in ("HAVING", "QUALIFY"))


SHOP = """
    CREATE TABLE product (
      id INTEGER PRIMARY KEY, name TEXT, price DOUBLE, stock INTEGER, cat INTEGER);
    CREATE TABLE cat (id INTEGER PRIMARY KEY, label TEXT);
    CREATE TABLE sale (product INTEGER, n INTEGER);
    INSERT INTO product VALUES (1, 'pen', 12.5, 0, 1), (2, 'book', 30, 0, 2), (3, 'lamp', 50, 5, 9),
      (4, 'cup', 25, 4, NULL);
    INSERT INTO cat VALUES (1, 'office'), (2, 'home');
    INSERT INTO sale VALUES (1, 5), (1, 2), (2, 1);
    CREATE VIEW dear AS SELECT id, name FROM product WHERE price > 20 AND stock > 0;
    CREATE VIEW named AS SELECT p.id, c.label FROM product p JOIN cat c ON c.id = p.cat;
    CREATE VIEW comma AS SELECT p.id, c.label FROM product p, cat c WHERE p.cat = c.id AND p.id > 1;
    CREATE VIEW by_using AS SELECT id, n FROM (SELECT id AS product, id FROM product) p
      JOIN sale USING (product);
    CREATE VIEW three AS SELECT p.id, c.label, s.n FROM product p JOIN cat c ON c.id = p.cat
      JOIN sale s ON s.product = p.id WHERE s.n > 1;
    CREATE VIEW sold AS SELECT product, SUM(n) AS total FROM sale GROUP BY product
      HAVING SUM(n) > 3;
    CREATE VIEW unsold AS SELECT p.id FROM product p LEFT JOIN sale s ON s.product = p.id
      WHERE s.product IS NULL;
    CREATE VIEW often AS SELECT id FROM product p WHERE EXISTS (
      SELECT 1 FROM sale s WHERE s.product = p.id AND s.n > 1);
    CREATE VIEW cats AS SELECT DISTINCT cat FROM product WHERE price > 40;
    CREATE VIEW either AS SELECT id FROM product WHERE price > 40
      UNION SELECT product FROM sale WHERE n > 4;
    CREATE VIEW twice AS SELECT id, price * 2 AS twice FROM product;
    CREATE VIEW total AS SELECT product, n, SUM(n) OVER (PARTITION BY product) AS total FROM sale;
    CREATE VIEW two AS SELECT id FROM product WHERE price > 20 AND price < 15;
    CREATE VIEW dearest AS SELECT id FROM product ORDER BY price DESC LIMIT 1;
    CREATE VIEW above AS SELECT id FROM product WHERE price > (SELECT AVG(price) FROM product);
    CREATE VIEW above_own AS SELECT id FROM product p
      WHERE stock > (SELECT MIN(n) FROM sale s WHERE s.product = p.id);
"""


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("dear WHERE id = 1", [
            "price > 20 fails with price = 12.5", "stock > 0 fails with stock = 0",
        ]),
        ("dear WHERE id = 7", ["no row of product has id = 7"]),
        ("named WHERE id = 3", ["no row of cat AS c has id = 9, by c.id = p.cat"]),
        ("named WHERE id = 1 AND label = 'home'", [
            "no row of cat AS c has id = 1 AND label = 'home', by c.id = p.cat",
        ]),
        ("named WHERE id = 4", ["c.id = p.cat fails with p.cat IS NULL"]),
        ("named WHERE label = 'work'", ["no row of cat AS c has c.label = 'work'"]),
        ("comma WHERE id = 3", ["no row of cat AS c has id = 9, by p.cat = c.id"]),
        ("comma WHERE id = 1", ["p.id > 1 fails with p.id = 1"]),
        ("by_using WHERE id = 3", ["no row of sale has product = 3, by USING (product)"]),
        ("three WHERE id = 2", ["s.n > 1 fails with s.n = 1"]),
        ("three WHERE id = 3", ["no row of cat AS c has id = 9, by c.id = p.cat"]),
        ("sold WHERE product = 2", ["SUM(n) > 3 fails with SUM(n) = 1"]),
        ("unsold WHERE id = 1", ["s.product IS NULL fails with s.product = 1"]),
        ("often WHERE id = 3", [
            "EXISTS(SELECT 1 FROM sale AS s WHERE s.product = p.id AND s.n > 1) "
            "fails with p.id = 3",
        ]),
        ("cats WHERE cat = 2", ["price > 40 fails with price = 30.0"]),
        ("either WHERE id = 2", [
            "SELECT 1 of 2: price > 40 fails with price = 30.0",
            "SELECT 2 of 2: n > 4 fails with n = 1",
        ]),
        ("twice WHERE id = 1 AND twice = 24", ["such a row has twice = 25.0"]),
        ("total WHERE product = 1 AND n = 5 AND total = 5", ["such a row has total = 7"]),
        ("two WHERE id = 1", ["price > 20 fails with price = 12.5"]),
        ("dearest WHERE id = 1", ["the row is there before LIMIT, which leaves it out"]),
        ("above WHERE id = 1", [
            "price > (SELECT AVG(price) FROM product) fails with price = 12.5 "
            "AND (SELECT AVG(price) FROM product) = 29.375",
        ]),
        ("above_own WHERE id = 1", [
            "stock > (SELECT MIN(n) FROM sale AS s WHERE s.product = p.id) fails with stock = 0 "
            "AND p.id = 1 AND (SELECT MIN(n) FROM sale AS s WHERE s.product = p.id) = 2",
        ]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark"])
def test_why_not_says_what_fails_with_the_values_that_fail(asked, said, dialect):
    with deltafix.sql.connect(dialect=dialect) as one:
        one.execute(SHOP)
        _, *found = [line for (line,) in one.execute(f"EXPLAIN WHY NOT SELECT * FROM {asked}")]
        others = "  (there is|without|its group)|it would"
        assert [line.strip() for line in found if not re.match(others, line)] == said


def test_distinct_on_takes_another_row(db):
    db.execute(f"{SHOP}; CREATE VIEW v AS SELECT DISTINCT ON (product) product, n FROM sale")
    asked = rows(db, "EXPLAIN WHY NOT SELECT * FROM v WHERE product = 1 AND n = 5")
    assert ("  the row is there before DISTINCT ON, which leaves it out",) in asked


def test_a_row_without_a_match_says_what_it_does_not_match(db):
    db.execute(
        f"""{SHOP}; CREATE VIEW v AS SELECT p.id, c.label FROM product p
        LEFT JOIN cat c ON c.id = p.cat; CREATE VIEW w AS SELECT p.id, s.n FROM product p
        LEFT JOIN sale s ON s.product = p.id AND s.n > 1;
        CREATE VIEW either_not AS SELECT p.id FROM product p WHERE
        NOT EXISTS (SELECT 1 FROM cat c WHERE c.id = p.cat) OR NOT EXISTS (
        SELECT 1 FROM sale s WHERE s.product = p.id)"""
    )
    assert rows(db, "EXPLAIN WHY SELECT * FROM v WHERE id = 3")[2:] == [
        ("  no row of cat with id = 9",)
    ]
    assert rows(db, "EXPLAIN WHY SELECT * FROM w WHERE id = 2")[2:] == [
        ("  no row of sale with product = 2 that fits",)
    ]
    assert len(rows(db, "EXPLAIN WHY SELECT * FROM v WHERE id = 1")) == 3  # a match, nothing absent
    assert len(rows(db, "EXPLAIN WHY SELECT * FROM either_not WHERE id = 3")) == 2


def test_advice_has_null_where_nothing_is_asked(db):
    db.execute(
        """CREATE TABLE team (name TEXT PRIMARY KEY, town TEXT NOT NULL);
        CREATE TABLE member (who TEXT, town TEXT, until DATE, note TEXT, PRIMARY KEY (who, town));
        CREATE TABLE paid (who TEXT PRIMARY KEY, amount INTEGER NOT NULL);
        INSERT INTO team VALUES ('core', 'zz');
        INSERT INTO member VALUES ('bo', 'aa', NULL, 'x');
        CREATE VIEW m AS SELECT who, town, until FROM member WHERE note IS NULL;
        CREATE VIEW can AS SELECT DISTINCT who, name FROM m JOIN team USING (town);
        CREATE VIEW pays AS SELECT who FROM paid"""
    )
    asked = "SELECT * FROM can WHERE who = 'bo' AND name = 'core'"
    *_, advice = (line for (line,) in rows(db, f"EXPLAIN WHY NOT {asked}"))
    assert advice == ("it would have one after: INSERT INTO member VALUES ('bo', 'zz', NULL, NULL)")
    db.execute(advice.partition(": ")[2])
    assert rows(db, asked) == [("bo", "core")]
    # NULL is no amount.
    said = str(rows(db, "EXPLAIN WHY NOT SELECT * FROM pays WHERE who = 'bo'"))
    assert "it would" not in said


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark"])
def test_advice_is_written_in_the_dialect(dialect):
    quote = "`" if dialect == "spark" else '"'
    table = f"{quote}Order{quote}"
    with deltafix.sql.connect(dialect=dialect) as one:
        one.execute(f"CREATE TABLE {table} (x TEXT PRIMARY KEY, d DATE)")
        one.execute(f"CREATE VIEW v AS SELECT DISTINCT x, d FROM {table} WHERE d IS NULL")
        asked = "EXPLAIN WHY NOT SELECT * FROM v WHERE x = ? AND d IS NULL"
        *_, line = one.execute(asked, ["it's \\n"]).fetchall()
        assert line[0].startswith("it would have one after: INSERT INTO ")
        one.execute(line[0].partition(": ")[2])
        assert rows(one, "SELECT x FROM v") == [("it's \\n",)]


def test_no_insert_is_advised_into_a_table_without_a_key() -> None:
    """It would be one more row, with a number of its own: QUALIFY leaves that out as well."""
    with deltafix.sql.connect() as db:
        db.execute(
            "CREATE TABLE m (u INTEGER, d INTEGER); INSERT INTO m VALUES (1, 1), (1, 2); "
            "CREATE VIEW f AS SELECT u, d FROM m "
            "QUALIFY ROW_NUMBER() OVER (PARTITION BY u ORDER BY d DESC) = 1"
        )
        lines = db.execute("EXPLAIN WHY NOT SELECT * FROM f WHERE u = 1 AND d = 1").fetchall()
        assert "leaves it out" in lines[1][0]
        assert not any("INSERT" in line for (line,) in lines)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT x FROM a", r":20: .*WHY of other columns than \* is not"),
        ("SELECT *, x FROM a", "WHY of other columns than .* is not"),
        ("SELECT * FROM a JOIN a AS b USING (x)", ":34: .*WHY of a query with JOIN is not"),
        ("SELECT * FROM a WHERE x = 1 LIMIT 1", ":47: .*WHY of a query with LIMIT is not"),
        ("SELECT * FROM a ORDER BY x", ":38: .*WHY of a query with ORDER BY is not"),
        ("SELECT * FROM a GROUP BY x", ":38: .*WHY of a query with GROUP BY is not"),
        ("SELECT DISTINCT * FROM a", "WHY of a query with DISTINCT is not"),
        ("SELECT * FROM (SELECT * FROM a)", "WHY of FROM what is no name of a view is not"),
        ("SELECT * FROM a UNION SELECT * FROM a", "WHY of UNION, which is no SELECT, is not"),
        ("INSERT INTO a VALUES (1)", "WHY of INSERT, which is no SELECT, is not"),
        ("", "EXPLAIN WHY of nothing"),
        ("SELECT * FROM b", "unknown table 'b'"),
        ("NOT SELECT * FROM v", "WHY NOT without a value for 'x'"),
        ("NOT SELECT * FROM v WHERE x = 7 AND x > 8", "WHY NOT of this is not maintained"),
        ("NOT SELECT * FROM v WHERE x = 1", "the row is there"),
    ],
)
def test_why_refuses(db, query, message):
    db.execute("CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (1)")
    db.execute("CREATE VIEW v AS SELECT DISTINCT x FROM a")
    with pytest.raises(deltafix.sql.Error, match=message):
        db.execute(f"EXPLAIN WHY {query}")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("ANALYZE", "ANALYZE"),
        ("(analyze, buffers)", "ANALYZE"),
        ("(FORMAT json)", "FORMAT"),
        ("QUERY PLAN", "QUERY PLAN"),
    ],
)
def test_explain_as_other_engines_have_it_is_refused_with_what_there_is(db, how, said):
    db.execute("CREATE TABLE a (x INTEGER)")
    with pytest.raises(SqlRefusedError, match=f"EXPLAIN {said} is not maintained") as error:
        db.execute(f"EXPLAIN {how} SELECT x FROM a")
    assert "EXPLAIN alone shows the rules" in str(error.value)
    assert rows(db, "EXPLAIN (SELECT x FROM a)")


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark"])
def test_division_is_that_of_the_dialect(dialect):
    with deltafix.sql.connect(dialect=dialect) as one:
        one.execute("CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (7)")
        wanted = 3 if dialect == "postgres" else 3.5
        assert rows(one, "SELECT x / 2 AS h FROM a") == [(wanted,)]


def test_an_unknown_dialect_is_refused():
    with pytest.raises(ValueError, match="one of duckdb, postgres, spark"):
        deltafix.sql.connect(dialect="mysql")


@pytest.mark.parametrize(
    ("settings", "kind", "says"),
    [
        ({"state": "x"}, TypeError, r"first argument: connect\('x'\)$"),
        ({"stat": Path("x")}, TypeError, r"first argument: connect\('x'\)$"),
        ({"folder": "x"}, TypeError, r"first argument: connect\('x'\)$"),
        ({"max_row": 3}, TypeError, "did you mean 'max_rows'"),
        ({"dialekt": "duckdb"}, TypeError, "did you mean 'dialect'"),
        (
            {"functors": {}},
            TypeError,
            "there are: dialect, max_rows, max_rounds, max_recursion, timeout",
        ),
        ({"strategy": "wave"}, ValueError, "unknown strategy 'wave'; one of wavefront"),
        ({"fsync": "sometimes"}, ValueError, "unknown fsync='sometimes'; one of always"),
        ({"threads": 0}, ValueError, "threads=0: at least 1"),
    ],
)
def test_a_setting_that_is_none_is_refused_when_connecting(settings, kind, says, tmp_path):
    for path in (":memory:", tmp_path / "state"):
        with pytest.raises(kind, match=says):
            deltafix.sql.connect(path, **settings)
    assert not (tmp_path / "state").exists()


def test_a_folder_that_is_in_use_or_of_rules_says_what_to_do(tmp_path):
    folder = tmp_path / "state"
    with deltafix.sql.connect(folder) as first:
        first.execute("CREATE TABLE t (a INTEGER)")
    with pytest.raises(StateInUseError, match=r"commits and does not close it: db.close\(\)$"):
        deltafix.sql.connect(folder)
    first.close()
    deltafix.sql.connect(folder).close()
    with deltafix.connect(".decl a(x: number) .input a", tmp_path / "rules") as ruled:
        with ruled.transaction() as tx:
            tx.insert("a", [(1,)])
        with pytest.raises(StateInUseError) as caught:
            deltafix.connect(".decl a(x: number) .input a", tmp_path / "rules")
        assert "with" not in str(caught.value)
    wanted = f"a state of rules, and not of SQL: deltafix.connect(PROGRAM, '{tmp_path / 'rules'}')"
    with pytest.raises(StateError, match=re.escape(wanted)):
        deltafix.sql.connect(tmp_path / "rules")


# --- reading -------------------------------------------------------------------------------------


def test_order_limit_and_offset(db):
    db.execute("CREATE TABLE a (x INTEGER, y TEXT)")
    db.insert("a", [(2, "b"), (None, "c"), (1, None), (3, "a")])
    assert rows(db, "SELECT x FROM a ORDER BY x DESC") == [(3,), (2,), (1,), (None,)]
    assert rows(db, "SELECT x FROM a ORDER BY y NULLS FIRST, 1") == [(1,), (3,), (2,), (None,)]
    assert rows(db, "SELECT * FROM a ORDER BY -x LIMIT 1") == [(3, "a")]
    assert rows(db, "SELECT x FROM a ORDER BY x LIMIT 2 OFFSET 1") == [(2,), (3,)]
    grouped = "SELECT x IS NULL AS n, COUNT(*) AS c FROM a GROUP BY 1 ORDER BY COUNT(*) DESC"
    assert rows(db, grouped) == [(False, 3), (True, 1)]


def test_parameters_by_order_and_by_name(db):
    db.execute("CREATE TABLE a (x INTEGER, y DOUBLE, z TEXT, w BOOLEAN)")
    values = [(-1, -2.5, "it's", True), (None, None, None, None)]
    assert db.executemany("INSERT INTO a VALUES (?, ?, ?, ?)", values).rowcount == 2
    assert rows(db, "SELECT * FROM a") == values
    found = db.execute("SELECT x FROM a WHERE z = :z AND y < :y", {"y": 0.0, "z": "it's"})
    assert found.fetchone() == (-1,)
    query = "SELECT CASE WHEN x = ? THEN ? ELSE ? END AS c FROM a WHERE y BETWEEN ? AND ? LIMIT ?"
    assert db.execute(query, (-1, "one", "two", -3.0, 0.0, 5)).fetchall() == [("one",)]
    with pytest.raises(deltafix.sql.ProgrammingError, match="1 parameter in the statement, 2"):
        db.execute("SELECT ? + 1", (1, 2))


def test_a_cursor_is_that_of_pep_249(db):
    assert (deltafix.sql.apilevel, deltafix.sql.paramstyle) == ("2.0", "qmark")
    cursor = db.cursor()
    cursor.execute("CREATE TABLE a (x INTEGER, y TEXT); INSERT INTO a VALUES (1, 'a'), (2, NULL)")
    assert (cursor.rowcount, cursor.description) == (2, None)
    with pytest.raises(deltafix.sql.OperationalError):
        cursor.fetchall()
    cursor.execute("SELECT * FROM a")
    assert [one[:2] for one in cursor.description] == [("x", "INTEGER"), ("y", "TEXT")]
    assert cursor.fetchone() == (1, "a")
    assert (cursor.fetchmany(5), cursor.fetchone()) == ([(2, None)], None)
    table = db.execute("SELECT * FROM a").to_arrow()
    assert table.to_pylist() == [{"x": 1, "y": "a"}, {"x": 2, "y": None}]
    assert str(table.schema.field("x").type) == "int32"


# --- errors --------------------------------------------------------------------------------------

WRONG = {
    "SELECT nam FROM emp": ("DF721", 8, "did you mean 'name'?"),
    "SELECT * FROM emps": ("DF721", 15, "did you mean 'emp'?"),
    "SELECT e.x FROM emp e": ("DF721", 8, "there is: id, name"),
    "SELECT id FROM emp, emp AS f": ("DF721", 8, "write emp.id or f.id"),
    "SELECT id, COUNT(*) FROM emp": ("DF721", 8, "add it to GROUP BY"),
    "SELECT id FROM emp WHERE name = 1": ("DF721", 26, "CAST(... AS ...)"),
    "SELECT SUM(name) FROM emp": ("DF721", 8, "it takes numbers"),
    "INSERT INTO emp VALUES (1)": ("DF721", 1, "give each column one value"),
    "INSERT INTO emp VALUES (1, NULL)": ("DF723", 28, "give it a value"),
    "INSERT INTO emp VALUES (2147483648, 'x')": ("DF724", 25, "whole numbers of 32 bits"),
    "SELECT id FROM emp ORDER BY id; SELEC 1": ("DF721", 33, "did you mean SELECT?"),
    "CREATE VIEW v AS SELEC id FROM emp": ("DF721", 18, "did you mean SELECT?"),
    "CREATE VIEW v AS SELECT id FORM emp": ("DF721", 28, "did you mean FROM?"),
    "CREATE VIEW v AS SELECT id FROM orders oops x": ("DF721", 45, "'x' is not expected here"),
    "CREATE VIEW v AS SELECT id FROM emp WHERE id IN (SELEC 1, 2)": ("DF721", 50, "SELECT?"),
    "CREATE VIEW v AS\nSELECT id, name +* 2\nFROM emp": ("DF721", 20, "'2' is not expected"),
    "CREATE VIEW v AS SELECT id FROM emp GROUP id": ("DF721", 43, "'id' is not expected here"),
    "CREATE VIEW v AS SELECT id FROM emp WITH NO DATA": ("DF721", 37, "'WITH' is not expected"),
    "CREATE MATERIALISED VIEW v AS SELECT 1": ("DF721", 8, "did you mean MATERIALIZED?"),
    "CREATE VIEW v AS": ("DF721", 13, "CREATE MATERIALIZED VIEW v AS SELECT ..."),
    "CREATE VIEW v (a INTEGER) AS SELECT id FROM emp": ("DF722", 16, "name the columns only"),
    "EXPLAIN CREATE VIEW v AS SELEC id FROM emp": ("DF721", 26, "did you mean SELECT?"),
    "EXPLAIN Analyze SELECT id FROM emp": ("DF722", 9, "EXPLAIN alone shows the rules"),
    "CREATE OR REPLACE TABLE v (a INTEGER)": ("DF722", 25, "DROP TABLE"),
    "CREATE TEMP TABLE v (id INTEGER)": ("DF722", 19, "with TEMPORARY is not maintained"),
    "CREATE TABLE v (id INTEGER) FOO": ("DF721", 29, "'FOO' is not expected here"),
    "CREATE TYPE mood AS ENUM ('ok')": ("DF722", 1, "statement CREATE TYPE is not maintained"),
    "TRUNCATE TABLE emp, amp": ("DF721", 21, "did you mean 'emp'?"),
    "TRUNCATE emp RESTART IDENTITY": ("DF722", 10, "IDENTITY is not maintained"),
    "TRUNCATE TABLE emp AS e": ("DF722", 1, "TRUNCATE is not maintained"),
    "LOAD x": ("DF722", 1, "statement LOAD is not maintained"),
    "COPY emp FROM 'emp.csv'": ("DF722", 1, "deltafix run SCRIPT.sql -F FOLDER"),
    "SELECT * FROM 'emp.csv'": ("DF721", 15, "deltafix run SCRIPT.sql -F FOLDER"),
    "SHOW TABLES": ("DF722", 1, "`.tables` at the prompt"),
    "create  index i ON emp (id)": ("DF722", 1, "CREATE INDEX is not maintained"),
    "CREATE UNIQUE INDEX i ON emp (id)": ("DF722", 1, "write UNIQUE (column, ...)"),
    "SELECT id FROM emp; REFRESH MATERIALIZED VIEW v": ("DF722", 21, "views follow their tables"),
    "DROP TABLE": ("DF721", 6, "syntax: Expected table name\n"),
    "UPDATE emp SET": ("DF721", 8, "SET column = value"),
    "SELECT id FROM emp TABLESAMPLE (5 ROWS)": ("DF722", 33, "leave it out"),
    "SELECT id FROM emp ORDER BY 2": ("DF721", 29, "count them from 1"),
    "SELECT * FROM emp ORDER BY 0": ("DF721", 28, "count them from 1"),
    "SELECT id FROM emp ORDER BY 1.5": ("DF721", 29, "count them from 1"),
    "SELECT id, COUNT(*) FROM emp GROUP BY 1.5": ("DF721", 39, "count them from 1"),
    "ALTER TABLE emp ADD COLUMN a INT, DROP COLUMN idd": ("DF721", 47, "did you mean"),
    "ALTER TABLE emp OWNER TO me": ("DF722", 1, "make another table"),
    "MERGE INTO emp USING emp AS f ON TRUE WHEN MATCHED THEN UPDATE": ("DF722", 12, "SET"),
    "CREATE VIEW v AS SELECT id FROM emp WHERE id > 1 AND DATE '2026-01-01' < CURRENT_DATE": (
        "DF722",
        74,
        "CURRENT_DATE is not maintained",
    ),
    "CREATE VIEW v AS SELECT id, now() AS n FROM emp": ("DF722", 29, "changes without an edit"),
    "CREATE VIEW v AS WITH RECURSIVE r (x) AS (SELECT id FROM emp UNION SELECT MAX(x) FROM r) "
    "SELECT * FROM r": ("DF722", 75, "aggregates itself"),
    "CREATE VIEW v AS WITH RECURSIVE r (x) AS (SELECT id FROM emp UNION SELECT id FROM emp WHERE "
    "NOT EXISTS (SELECT 1 FROM r WHERE x = id)) SELECT * FROM r": ("DF722", 112, "negates"),
    "CREATE VIEW v AS SELECT DISTINCT name FROM emp ORDER BY id": ("DF722", 57, "that is selected"),
    "SELECT id FROM (SELECT id FROM emp ORDER BY id) AS e": ("DF722", 45, "add LIMIT"),
    "CREATE VIEW v AS SELECT id FROM emp LIMIT id": ("DF721", 43, "write LIMIT 10"),
    "SELECT id FROM emp WHERE ROW_NUMBER() OVER (ORDER BY id) = 1": ("DF722", 26, "QUALIFY"),
    "SELECT LAG(id, name) OVER (ORDER BY id) FROM emp": ("DF721", 16, "as in LAG(x, 2)"),
    "SELECT LAG(id, 1, name) OVER (ORDER BY id) FROM emp": ("DF721", 8, "CAST(... AS ...)"),
    "SELECT SUM(id IGNORE NULLS) OVER (ORDER BY id) FROM emp": ("DF722", 8, "write it for LAG"),
    "SELECT RANK() OVER w FROM emp WINDOW v AS (ORDER BY id)": ("DF721", 8, "v"),
    "SELECT RANK() OVER (w ORDER BY id) FROM emp WINDOW w AS (ORDER BY id)": (
        "DF721",
        8,
        "write the whole window",
    ),
    "SELECT RANK() OVER (ORDER BY ide) FROM emp": ("DF721", 30, "did you mean 'id'?"),
    "SELECT RANK() OVER (ORDER BY RANK() OVER (ORDER BY id)) FROM emp": ("DF722", 30, "QUALIFY"),
    "SELECT GROUPING(id) FROM emp GROUP BY ROLLUP (name)": ("DF721", 8, "name a key"),
    f"SELECT 1 FROM emp GROUP BY CUBE ({'id, ' * 7}name)": ("DF722", 34, "at most 128"),
    "SELECT id FROM emp LIMIT 10 PERCENT": ("DF722", 26, "write LIMIT and a number"),
    "SELECT id FROM (SELECT id FROM emp ORDER BY 2 LIMIT 1) AS f": ("DF721", 45, "from 1"),
    "CREATE VIEW v AS SELECT DISTINCT id FROM emp ORDER BY name LIMIT 1": ("DF722", 55, "the name"),
    "SELECT 'a": ("DF721", 8, ""),
    "CREATE TABLE x (a INT[3])": ("DF722", 17, "arrays of these: INTEGER[]"),
    "SELECT [id][1:2:2] FROM emp": ("DF722", 17, "WITH ORDINALITY"),
    "SELECT [id][1:name] FROM emp": ("DF721", 9, "whole numbers, from 1"),
    "SELECT name[1:2] FROM emp": ("DF721", 8, "of text, SUBSTR"),
    "SELECT [id, [id]] FROM emp": ("DF721", 9, "to one type"),
    "SELECT [id, name] FROM emp": ("DF721", 9, "to one type"),
    "SELECT id FROM emp, UNNEST(id) AS u (x)": ("DF721", 21, "it takes an array"),
    "SELECT id FROM emp, UNNEST([1], [2]) AS u (x)": ("DF721", 21, "AS u (x, y)"),
    "SELECT id FROM emp, UNNEST([1]) AS u (x, y)": ("DF721", 21, "one name"),
    "SELECT x FROM emp RIGHT JOIN UNNEST([id]) AS u (x) ON TRUE": ("DF722", 30, "LEFT JOIN"),
    "SELECT id FROM emp WHERE UNNEST([id]) > 1": ("DF722", 26, "CROSS JOIN UNNEST(array)"),
    "SELECT SUM(UNNEST([id])) FROM emp": ("DF722", 12, "in SELECT, or in FROM"),
    "SELECT UNNEST(UNNEST([[id]])) FROM emp": ("DF722", 8, "one UNNEST for each array"),
    "SELECT UNNEST(name) FROM emp": ("DF721", 8, "it takes an array"),
    "SELECT id, (SELECT UNNEST([e.id])) FROM emp AS e": ("DF722", 20, "add LIMIT 1"),
    "SELECT UNNEST([id]) FROM emp GROUP BY name": ("DF721", 16, "add it to GROUP BY"),
    "SELECT [1, 2][name] FROM emp": ("DF721", 9, "places are whole numbers"),
    "SELECT name[1] FROM emp": ("DF721", 8, "it takes an array"),
    "SELECT 1 < ANY ([id]) FROM emp": ("DF722", 8, "EXISTS (SELECT 1 FROM UNNEST(array)"),
    "SELECT LIST_CONTAINS([id], name) FROM emp": ("DF721", 8, "an array of its type"),
    "SELECT CAST([id] AS TEXT) FROM emp": ("DF721", 8, "make it anew of its parts"),
    "SELECT FIRST(id) FROM emp": ("DF722", 8, "write FIRST(x ORDER BY y)"),
    "SELECT LAST(id) FROM emp GROUP BY name": ("DF722", 8, "or MIN, MAX or ANY_VALUE"),
    "SELECT PRODUCT(name) FROM emp": ("DF721", 8, "it takes numbers"),
    "SELECT GREATEST([id], 1) FROM emp": ("DF721", 8, "GREATEST(a, b, ...)"),
    "SELECT ARRAY_AGG(DISTINCT id ORDER BY name) FROM emp": ("DF722", 8, "or by nothing"),
    "INSERT INTO emp VALUES ([1], 'a')": ("DF724", 26, "is no INTEGER"),
}


@pytest.mark.parametrize("statement", WRONG)
def test_an_error_has_its_code_its_place_and_a_way_out(db, statement, caplog):
    code, column, way_out = WRONG[statement]
    db.execute("CREATE TABLE emp (id INTEGER, name TEXT NOT NULL)")
    with pytest.raises(deltafix.sql.DatabaseError) as caught:
        db.execute(statement)
    (found,) = caught.value.diagnostics
    assert (caught.value.code, found.code, found.span.column) == (code, code, column)
    assert way_out in str(caught.value)
    assert not caplog.records  # sqlglot says nothing beside it
    assert rows(db, "SELECT * FROM emp") == []


@pytest.mark.parametrize("start", ["SELECT a FROM t", "SELECT 1"])
def test_a_view_that_has_no_end_is_named_and_dropping_it_heals(start) -> None:
    with deltafix.sql.connect(max_rows=500) as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        db.execute("CREATE MATERIALIZED VIEW fine AS SELECT a FROM t")
        db.execute(
            f"CREATE MATERIALIZED VIEW forever AS WITH RECURSIVE n (x) AS ({start} "
            "UNION SELECT x + 1 FROM n) SELECT x FROM n"
        )
        for _ in range(2):
            with pytest.raises(
                BudgetError,
                match="max_rows=500 new rows, in view 'forever'; rolled back: bound its recursion, "
                "or DROP VIEW forever",
            ):
                db.execute("INSERT INTO t VALUES (1)")
        db.execute("DROP MATERIALIZED VIEW forever")
        db.execute("INSERT INTO t VALUES (2)")
        assert rows(db, "SELECT * FROM fine") == [(2,)]


COUNTER = "WITH RECURSIVE n (x) AS (SELECT a FROM t UNION SELECT x + 1 FROM n{}) SELECT x FROM n"


@pytest.mark.parametrize("state", [False, True])
def test_a_recursion_without_end_ends_by_default_and_nothing_has_changed(
    state, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("deltafix.sql.maintained.MAX_RECURSION", 2000)
    path = tmp_path / "state" if state else ":memory:"
    with closing(deltafix.sql.connect(path)) as db:
        db.execute("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1), (5000)")
        ways_out = (
            "rolled back: bound its recursion by a WHERE in its step, or SET max_recursion = 20000"
        )
        for asked, where in (
            (COUNTER.format(""), "this query"),
            (f"CREATE VIEW v AS {COUNTER.format('')}", "view 'v'"),
        ):
            with pytest.raises(
                BudgetError, match=f"no end after max_recursion=2000 facts, in {where}; {ways_out}$"
            ):
                db.execute(asked)
        assert not db.catalog.views
        db.execute("CREATE TABLE e (x BIGINT)")
        db.execute(
            "CREATE VIEW w AS WITH RECURSIVE n (x) AS (SELECT x FROM e UNION SELECT x + 1 "
            "FROM n) SELECT x FROM n WHERE x < 5"
        )
        db.execute("SET max_recursion = 100; SET timeout = 60.5, max_rows = NULL")
        assert db.bounds == {"max_recursion": 100, "timeout": 60.5, "max_rows": None}
        with pytest.raises(
            BudgetError, match=r"=100 facts, in view 'w'; .* = 1000, or DROP VIEW w$"
        ):
            db.execute("INSERT INTO e VALUES (1)")
        assert rows(db, "SELECT COUNT(*) FROM e") == [(0,)]


def test_recursion_within_the_bound_and_recursion_that_has_an_end_are_not_bounded() -> None:
    with deltafix.sql.connect(max_recursion=3000) as db:
        db.execute("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1)")
        assert rows(db, f"SELECT COUNT(*) FROM ({COUNTER.format(' WHERE x < 3000')})") == [(3000,)]
        db.execute("CREATE TABLE g (x BIGINT, y BIGINT)")
        db.execute(
            "CREATE VIEW p AS WITH RECURSIVE p (x, y) AS (SELECT x, y FROM g UNION "
            "SELECT p.x, g.y FROM p JOIN g ON p.y = g.x WHERE p.x + g.y > 0) SELECT * FROM p"
        )
        db.insert("g", [(n, n + 1) for n in range(200)])
        assert rows(db, "SELECT COUNT(*) FROM p") == [(200 * 201 // 2,)]


@pytest.mark.parametrize(
    ("setting", "place", "said"),
    [
        ("SET max_row = 5", 5, "did you mean max_rows"),
        ("SET timeout = 0", 15, "timeout takes seconds, or NULL for none"),
        ("SET max_rows = 'a'", 16, "max_rows takes a whole number above 0, or NULL for none"),
        ("SET max_rows = 1.5", 16, "max_rows takes a whole number above 0, or NULL for none"),
        ("SET search_path TO x", 5, "SET takes max_rows, max_rounds, max_recursion, timeout"),
    ],
)
def test_what_set_does_not_take_is_told_with_what_it_takes(setting, place, said) -> None:
    with deltafix.sql.connect() as db, pytest.raises(SqlError, match=said) as caught:
        db.execute(setting)
    assert caught.value.diagnostics[0].span.column == place


@pytest.mark.parametrize(
    ("query", "place", "said"),
    [
        ("SELECT * FROM t JOIN u", 22, "JOIN without a condition"),
        ("SELECT * FROM t INNER JOIN u", 28, "JOIN without a condition"),
        ("SELECT a FROM t WHERE b > a", 23, "> of TEXT and INTEGER"),
        ("SELECT a + b AS c FROM t", 8, "+ of INTEGER and TEXT"),
        ("SELECT 'it''s', 'open", 17, "syntax: ' is not closed"),
        ('SELECT a AS "x', 13, 'syntax: " is not closed'),
        ("SELECT a /* why", 10, "syntax: /* is not closed"),
    ],
)
def test_what_is_wrong_is_told_as_it_is_written_and_where(db, query, place, said) -> None:
    db.execute("CREATE TABLE t (a INTEGER, b TEXT); CREATE TABLE u (c INTEGER)")
    with pytest.raises(SqlProgrammingError) as refused:
        db.execute(query)
    (found,) = refused.value.diagnostics
    assert (found.message, found.span.column) == (said, place)


def test_a_join_without_a_condition_is_a_product_where_it_is_written_so() -> None:
    for dialect, query in (
        ("duckdb", "SELECT * FROM t, u"),
        ("postgres", "SELECT * FROM t CROSS JOIN u"),
        ("spark", "SELECT * FROM t JOIN u"),
    ):
        with deltafix.sql.connect(dialect=dialect) as db:
            db.execute("CREATE TABLE t (a INTEGER); CREATE TABLE u (c INTEGER)")
            db.execute("INSERT INTO t VALUES (1); INSERT INTO u VALUES (2), (3)")
            assert rows(db, query) == [(1, 2), (1, 3)]


def test_begin_and_commit_are_read_once(monkeypatch) -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        for again in range(3):
            if again:
                monkeypatch.setattr(parsing, "_parsed", None)
            db.execute("BEGIN")
            db.execute("COMMIT")


def test_a_statement_with_parameters_is_read_once_and_runs_with_any(monkeypatch) -> None:
    read: list[str] = []
    real = parsing._parsed

    def counted(words: str, *more: Any, **named: Any) -> Any:
        read.append(words)
        return real(words, *more, **named)

    monkeypatch.setattr(parsing, "_parsed", counted)
    insert = "INSERT INTO once VALUES (?, ?, ?)"
    change = "UPDATE once SET b = :b WHERE a = :a"
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE once (a INTEGER PRIMARY KEY, b DECIMAL(4, 1), c DATE)")
        rows = [
            (1, Decimal("1.5"), date(2026, 1, 1)),
            (2, None, date(2026, 1, 2)),
            (3, Decimal("2.5"), None),
        ]
        for row in rows:
            db.execute(insert, row)
        with pytest.raises(SqlDataError, match="column 'b'") as found:
            db.execute(insert, (4, Decimal("1000000.5"), None))
        assert insert in str(found.value)
        with pytest.raises(SqlProgrammingError, match="3 parameters in the statement, 1 given"):
            db.execute(insert, (4,))
        for key, value in ((1, "7.5"), (2, 8)):
            db.execute(change, {"a": key, "b": value})
        shown = db.execute("SELECT b, c FROM once ORDER BY a").fetchall()
    assert shown == [
        (Decimal("7.5"), date(2026, 1, 1)), (Decimal("8.0"), date(2026, 1, 2)),
        (Decimal("2.5"), None),
    ]  # fmt: skip
    assert read.count(insert) == read.count(change) == 1


def test_a_statement_that_runs_while_it_runs_has_a_tree_of_its_own() -> None:
    (asked,) = parsing.statements("SELECT a FROM t WHERE b = ? AND c = ?", "duckdb")
    with bound(asked, (1, "x")) as outer, bound(asked, (2, "y")) as inner:
        assert outer.node.sql().endswith("b = 1 AND c = 'x'")
        assert inner.node.sql().endswith("b = 2 AND c = 'y'")
    with pytest.raises(SqlProgrammingError, match="2 parameters"), bound(asked, (3,)):
        pass
    with bound(asked, (4, "z")) as again:
        assert again.node in (outer.node, inner.node)
        assert again.node.sql().endswith("b = 4 AND c = 'z'")
    (made,) = parsing.statements("CREATE TABLE t (a INTEGER DEFAULT ?)", "duckdb")
    with bound(made, (1,)) as kept, bound(made, (2,)) as other:
        assert kept.node is not other.node
    with bound(made, (3,)) as third:
        assert kept.node.sql() != third.node.sql()


def test_a_text_that_differs_in_literals_is_read_twice_and_planned_once(monkeypatch) -> None:
    read: list[str] = []
    planned: list[str] = []
    real, compile_ = parsing._parsed, Scalars.compile

    def counted(words: str, *more: Any, **named: Any) -> Any:
        read.append(words)
        return real(words, *more, **named)

    def compiled(self: Scalars, node: Any) -> Any:
        planned.append(self.statement.verb)
        return compile_(self, node)

    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE lit (a INTEGER PRIMARY KEY, b DECIMAL(4, 1), c TEXT)")
        monkeypatch.setattr(parsing, "_parsed", counted)
        monkeypatch.setattr(Scalars, "compile", compiled)
        for a in range(5):
            db.execute(f"INSERT INTO lit VALUES ({a}, {a}.5, 'x{a}')")
            db.execute(f"UPDATE lit SET b = b + {a}, c = '{a}' WHERE a = {a}")
        assert len(read) == 4
        once = len(planned)
        for a in range(3):
            db.execute(f"UPDATE lit SET b = b + {a}, c = 'u{a}' WHERE a = {a}")
        assert len(planned) == once > 0
        db.execute("UPDATE lit SET b = b + 0.5, c = 'y' WHERE a = 4")  # of other types
        assert len(read) == 5
        assert len(planned) > once
        shown = db.execute("SELECT b, c FROM lit ORDER BY a").fetchall()
    assert shown == [
        (Decimal(half), said)
        for half, said in (("0.5", "u0"), ("3.5", "u1"), ("6.5", "u2"), ("6.5", "3"), ("9.0", "y"))
    ]


def test_an_error_of_a_text_that_came_before_points_into_that_text() -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER)")
        for wanted in ("17", "4", "'seven'", "'8'", "'no number'"):
            sql = f"UPDATE t SET b = 1000000 WHERE  a = 1 AND b = {wanted} AND bb = 5"
            with pytest.raises(SqlProgrammingError, match="unknown column 'bb'") as found:
                db.execute(sql)
            (one,) = found.value.diagnostics
            assert sql[one.span.start : one.span.end] == "bb"
        for value in ("1", "'x1'", "2", "'y'", "'why'"):
            sql = f"INSERT INTO t (a, b) VALUES (3, 1), (222, {value})"
            if "'" in value:
                with pytest.raises(SqlDataError, match="is no whole number") as wrong:
                    db.execute(sql)
                (one,) = wrong.value.diagnostics
                assert sql[one.span.start : one.span.end] == value
            else:
                db.execute(sql)
                db.execute("DELETE FROM t")


def test_parameters_are_counted_in_the_order_of_the_text() -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER)")
        upsert = "INSERT INTO t VALUES (?, ?) ON CONFLICT (a) DO UPDATE SET b = b + ? WHERE t.b < ?"
        for _ in range(3):
            db.execute(upsert, (1, 2, 10, 20))
        assert rows(db, "SELECT * FROM t") == [(1, 22)]
        wrong = upsert.replace("b + ?", "CAST(? AS INTEGER)")
        with pytest.raises(SqlDataError, match="no whole number"):
            db.execute(wrong, (1, 2, "x", 30))
        with pytest.raises(SqlDataError, match="no whole number"):
            db.execute("UPDATE t SET b = 3 RETURNING CAST('x' AS INTEGER)")
        shown = db.execute("UPDATE t SET a = ? WHERE b = ? RETURNING b + ?", (7, 22, 1)).fetchall()
        assert shown == [(23,)]


def test_a_foreign_key_is_followed_among_edits_that_wait() -> None:
    with deltafix.sql.connect() as db:
        db.execute(
            "CREATE TABLE p (a INTEGER PRIMARY KEY);"
            "CREATE TABLE c (b INTEGER PRIMARY KEY, a INTEGER REFERENCES p (a) ON DELETE CASCADE);"
            "CREATE TABLE d (a INTEGER REFERENCES p (a))"
        )
        db.executemany("INSERT INTO p VALUES (?)", [(k,) for k in range(200)])
        db.executemany("INSERT INTO c VALUES (?, ?)", [(k, k % 50) for k in range(200)])
        before = db.engine.epoch
        db.execute("BEGIN")
        for k in range(20):
            db.execute("UPDATE c SET a = ? WHERE b = ?", (100 + k, k))
            db.execute("INSERT INTO c VALUES (?, ?)", (1000 + k, k))
            db.execute("DELETE FROM p WHERE a = ?", (k,))
        db.execute("INSERT INTO d VALUES (60)")
        with pytest.raises(SqlIntegrityError, match="d has a row with"):
            db.execute("DELETE FROM p WHERE a = 60")
        db.execute("UPDATE d SET a = NULL")
        db.execute("DELETE FROM p WHERE a = 60")
        db.execute("COMMIT")
        assert db.engine.epoch - before <= 3
        assert rows(db, "SELECT b FROM c WHERE a >= 100") == [(k,) for k in range(20)]
        assert rows(db, "SELECT COUNT(*) FROM c") == [(140,)]


def test_where_keeps_rows_out_of_an_outer_join_that_it_does_not_ask_for() -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER, b INTEGER); CREATE TABLE u (a INTEGER, c INTEGER)")
        db.execute(
            "CREATE VIEW v AS SELECT t.b, COUNT(*) AS n FROM t FULL JOIN u ON t.a = u.a "
            "LEFT JOIN u AS w ON w.c = t.b WHERE u.c IS NULL AND t.b >= 90 GROUP BY t.b"
        )
        db.insert("t", [(k % 4, k) for k in range(100)])
        db.insert("u", [(k % 4, k or None) for k in range(100)])
        assert db.engine.last_epoch.derivations < 1000  # of 2,500 pairs
        assert rows(db, "SELECT * FROM v") == [(92, 1), (96, 1)]


@pytest.mark.parametrize(
    ("right", "note"),
    [
        ("SELECT b, s FROM u", "no row of a query over u with k = 2 AND s IS NULL"),
        ("SELECT b + 1, UPPER(s) FROM u", "no row of a query over u with k = 2 AND s IS NULL"),
        ("SELECT a, s FROM t WHERE a > 2", "no row of a query over t with k = 2 AND s IS NULL"),
    ],
)
def test_why_of_except_says_which_values_are_not_there(right: str, note: str) -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER, s TEXT); CREATE TABLE u (b INTEGER, s TEXT)")
        db.execute("INSERT INTO t VALUES (2, NULL); INSERT INTO u VALUES (7, 'x')")
        db.execute(f"CREATE VIEW v AS SELECT a AS k, s FROM t EXCEPT {right}")
        (reason,) = db.why("SELECT * FROM v")
        assert reason.notes == (note,)


def test_a_select_has_the_bounds_of_its_connection() -> None:
    query = (
        "WITH RECURSIVE r (n) AS (SELECT 1 UNION SELECT n + 1 FROM r WHERE n < {}) "
        "SELECT COUNT(*) FROM r"
    )
    with deltafix.sql.connect(max_rows=100) as db:
        assert rows(db, query.format(50)) == [(50,)]
        for asked in (query.format(500), f"SELECT 1 WHERE 7 = ({query.format(500)})"):
            with pytest.raises(BudgetError, match=r"max_rows=100 .*, in this query"):
                db.execute(asked)
        db.execute("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)")
        with pytest.raises(BudgetError):
            db.execute(f"DELETE FROM t WHERE a < ({query.format(500)})")
        assert rows(db, "SELECT * FROM t") == [(1,)]


def test_compact_leaves_what_there_is_and_takes_no_part_of_a_transaction(tmp_path: Path) -> None:
    for path in (":memory:", tmp_path / "state"):
        with deltafix.sql.connect(path) as db:
            db.compact()
            db.execute(
                "CREATE TABLE t (a INTEGER, s TEXT); INSERT INTO t VALUES (1, 'x'), (2, NULL)"
            )
            db.execute("CREATE VIEW v AS SELECT s, COUNT(*) AS n FROM t GROUP BY s")
            db.insert("t", [(k, f"gone {k}") for k in range(3000)])
            db.execute("DELETE FROM t WHERE s LIKE 'gone%'")
            told = db.subscribe("v")
            before = sum(one["total"] for one in db.engine.memory().values() if "total" in one)
            db.compact()
            after = sum(one["total"] for one in db.engine.memory().values() if "total" in one)
            assert after < before / 4
            assert list(told) == []
            assert rows(db, "SELECT * FROM v") == [("x", 1), (None, 1)]
            db.execute("INSERT INTO t VALUES (3, 'x')")
            assert [(one.removed, one.added) for one in told] == [([("x", 1)], [("x", 2)])]
            db.engine.check_invariants()
            db.execute("BEGIN")
            with pytest.raises(deltafix.sql.OperationalError, match="COMMIT or ROLLBACK"):
                db.compact()
            db.execute("ROLLBACK")


@pytest.mark.parametrize(
    ("condition", "notes"),
    [
        (
            "id NOT IN (SELECT cid FROM o WHERE cid IS NOT NULL AND status = 'new')",
            ["no row of o with cid = 2 AND status = 'new'"],
        ),
        (
            "NOT EXISTS (SELECT 1 FROM o WHERE cid = c.id AND status = 'new')",
            ["no row of o with cid = 2 AND status = 'new'"],
        ),
        (
            "id NOT IN (SELECT cid FROM o WHERE status = 'new')",
            [
                "no row of o with cid = 2 AND status = 'new'",
                "no row of o with cid IS NULL AND status = 'new'",
            ],
        ),
        (
            "NOT EXISTS (SELECT 1 FROM o WHERE cid = c.id AND oid > 7)",
            ["no row of o with cid = 2 that fits"],
        ),
        (
            "NOT EXISTS (SELECT 1 FROM o JOIN c AS d ON d.id = o.oid WHERE o.cid = c.id + 1)",
            ["no rows of c and o fit together"],
        ),
    ],
)
def test_why_says_which_rows_are_not_there(condition: str, notes: list[str]) -> None:
    db = deltafix.sql.connect()
    db.execute(
        f"""CREATE TABLE c (id INTEGER PRIMARY KEY);
        CREATE TABLE o (oid INTEGER PRIMARY KEY, cid INTEGER, status TEXT);
        CREATE VIEW v AS SELECT id FROM c WHERE {condition};
        INSERT INTO c VALUES (1), (2);
        INSERT INTO o VALUES (1, 1, 'new'), (2, 2, 'old'), (3, NULL, 'old')"""
    )
    (reason,) = db.why("SELECT * FROM v WHERE id = 2")
    assert [*reason.notes] == notes


def test_why_not_says_which_condition_of_qualify_leaves_a_row_out() -> None:
    db = deltafix.sql.connect()
    first = "ROW_NUMBER() OVER (PARTITION BY s ORDER BY id) = 1"
    db.execute(
        f"""CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT, a INTEGER);
        CREATE VIEW v AS SELECT id, s FROM t WHERE a > 0 QUALIFY {first} AND COUNT(*) OVER () < 9;
        INSERT INTO t VALUES (1, 'x', 1), (2, 'x', 2), (3, 'y', 0)"""
    )
    for asked in ("id = 2 AND s = 'x'", "id = 2"):
        _, *told = why(db, f"NOT SELECT * FROM v WHERE {asked}")
        said = f"  the row is there before QUALIFY, and {first} leaves it out"
        assert told[0] == said
        assert not any("fit together" in line for line in told)
    told = why(db, "NOT SELECT * FROM v WHERE id = 3 AND s = 'y'")
    assert not any("QUALIFY, and" in line for line in told)


def test_what_a_transaction_changed_leaves_as_a_frame(db):
    db.execute("""CREATE TABLE pay (who TEXT PRIMARY KEY, sign DECIMAL(6, 2), at DATE);
        CREATE VIEW total AS SELECT at, SUM(sign) AS sign FROM pay GROUP BY at;
        INSERT INTO pay VALUES ('ann', 1.5, DATE '2026-01-31'), ('<b>', 2, NULL)""")
    db.execute("UPDATE pay SET sign = 9 WHERE at IS NOT NULL")
    delta = db.delta("total")
    found = delta.to_arrow()
    assert found.schema.names == ["at", "sign", "sign_"]
    assert found.schema.field("at").type == pa.date32()
    assert [(row["sign_"], row["at"], row["sign"]) for row in found.to_pylist()] == [
        (sign, *row) for sign, row in delta.signed()
    ]
    assert delta.to_pandas().to_dict("list")["sign_"] == [-1, 1]
    assert delta.to_polars().to_dicts() == pa.table(delta).to_pylist() == found.to_pylist()
    assert "<td>-</td><td>2026-01-31</td><td>1.50</td>" in delta._repr_html_()
    assert db.delta("total").to_arrow().num_rows == 2
    cursor = db.execute("SELECT * FROM pay ORDER BY who")
    assert repr(cursor) == "<Cursor, 2 rows of (who, sign, at)>"
    assert "<td>&lt;b&gt;</td><td>2.00</td><td>NULL</td>" in cursor._repr_html_()
    assert cursor.to_polars().to_dicts() == cursor.to_arrow().to_pylist()
    assert len(cursor.fetchall()) == 2
    assert repr(db.execute("DELETE FROM pay")) == "<Cursor, 2 rows changed>"
    assert db.delta("pay").to_arrow().column("sign_").to_pylist() == [-1, -1]


def test_rows_of_other_columns_are_no_one_frame(db):
    db.execute("""CREATE TABLE t (a INTEGER); CREATE VIEW v AS SELECT a FROM t;
        INSERT INTO t VALUES (1), (2)""")
    db.execute("CREATE OR REPLACE VIEW v AS SELECT a FROM t WHERE a > 1")
    assert db.delta("v").to_arrow().to_pylist() == [{"a": 1, "sign": -1}]
    db.execute("CREATE OR REPLACE VIEW v AS SELECT a, a AS b FROM t WHERE a > 1")
    with pytest.raises(FactError, match=r"\.removed and \.added"):
        db.delta("v").to_arrow()


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([("a", 1), ("b", "x")], "row 1, column 'n': 'x' is no INTEGER"),
        ([("a", 1), ("b", None)], "row 1, column 'n': NULL"),
        ([{"s": "a", "n": 1}, {"s": 2, "n": 1}], "row 1, column 's': 2 is no TEXT"),
        (pa.table({"s": [533, 2], "n": [1, 2]}), "row 0, column 's': 533 is no TEXT"),
        (pa.table({"s": ["a"] * 400, "n": [*range(399), None]}), "row 399, column 'n': NULL"),
    ],
)
def test_a_value_that_is_none_is_told_by_its_row(db, rows, says):
    db.execute("CREATE TABLE t (s TEXT, n INTEGER NOT NULL)")
    for give in (db.insert, db.replace):
        with pytest.raises((SqlDataError, SqlIntegrityError), match=re.escape(says)):
            give("t", rows)
    assert db.execute("SELECT COUNT(*) FROM t").fetchall() == [(0,)]


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark"])
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT :one", [(1,)]),
        ("SELECT :one AS x, :two + 1", [(1, 3)]),
        ("SELECT (SELECT :one) UNION ALL SELECT :two", [(1,), (2,)]),
        ("WITH w AS (SELECT :one AS q) SELECT q FROM w WHERE :one = q", [(1,)]),
        ("SELECT CASE :one WHEN :one THEN :two ELSE :one END", [(2,)]),
        ("SELECT NOT :one = :two, -:one, DATE '2026-01-01' IS NULL", [(True, -1, False)]),
        ("SELECT 1 WHERE 1 BETWEEN :one AND :two AND 1 IN (:two, :one) LIMIT :one", [(1,)]),
        ("SELECT x FROM (VALUES (:one), (:two)) AS v (x) WHERE x > :one", [(2,)]),
    ],
)
def test_a_parameter_by_name_stands_wherever_a_value_may(dialect, query, found, warm_kernel):
    with closing(deltafix.sql.connect(dialect=dialect)) as db:
        assert db.execute(query, {"one": 1, "two": 2}).fetchall() == found


@pytest.mark.parametrize("edit", ["INSERT INTO t VALUES (1)", "BEGIN; INSERT INTO t VALUES (1)"])
def test_who_is_told_behind_a_callback_that_raises_is_told_at_once(edit: str) -> None:
    def fails(changed: object) -> None:
        raise RuntimeError(f"no room for {changed.added}")  # type: ignore[attr-defined]

    heard: list[Any] = []
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (x INTEGER); CREATE VIEW v AS SELECT x + 1 AS y FROM t")
        db.subscribe("v", fails)
        db.subscribe("v", lambda changed: heard.append(changed.added))
        with pytest.raises(SubscriberError, match=r"of v raised RuntimeError: no room"):
            db.execute(edit)
            db.execute("COMMIT")
        assert heard == [[(2,)]]
        assert db.execute("SELECT * FROM v").fetchall() == [(2,)]
        db.execute("SELECT 1")
        assert heard == [[(2,)]]


def test_a_text_of_several_statements_or_none_is_an_error_of_sql_where_one_is_run() -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        for text, said in {
            "": "none",
            "-- nothing": "none",
            "INSERT INTO t VALUES (?); DELETE FROM t": "more",
        }.items():
            with pytest.raises(deltafix.sql.ProgrammingError, match=f"this text has {said}"):
                db.executemany(text, [(1,)])
            with pytest.raises(deltafix.sql.ProgrammingError, match=f"this text has {said}"):
                db.why(text, (1,))
        assert db.execute("SELECT * FROM t").fetchall() == []


@pytest.mark.parametrize("value", ["\ud800", ["\ud800"], {"a": "\ud800"}])
def test_half_a_character_is_an_error_of_data_wherever_it_stands(value: object) -> None:
    with deltafix.sql.connect() as db, pytest.raises(deltafix.sql.DataError, match="is no TEXT"):
        db.execute("SELECT ? AS x", [value])
