"""Statements of many parts, and of parts inside parts: the work grows as they do.

Counted are the nodes that are compiled, the SELECTs that are made rules of, the rules and their
atoms. Sees: what compiles an operand to ask for its type, and then again, or a query for each way
in which it is asked; two times a level is a thousand times for ten, a million for twenty, and no
budget ends planning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise

import pytest

import deltafix.sql
from deltafix.sql import query as queries
from deltafix.sql.literals import Scalar
from deltafix.sql.scalar import Scalars
from deltafix.sql.text import exp

NESTED = (
    "s: {} || 'a'", "s: 'a' || {}", "s: CONCAT({}, 'a')", "s: CONCAT_WS('-', {}, s)",
    "s: UPPER({})", "s: LPAD({}, 3, 'x')", "s: REPEAT({}, 1)", "s: SPLIT_PART({}, 'a', 1)",
    "s: TRANSLATE({}, 'a', 'b')", "s: REGEXP_REPLACE({}, 'a', 'b')", "s: LEFT({}, 3)",
    "s: TRIM({})", "s: REVERSE({})", "s: NULLIF({}, 'a')", "s: COALESCE({}, s)", "s: ({})",
    "s: CAST({} LIKE 'a%' AS TEXT)", "s: CAST({} ~ 'a' AS TEXT)", "s: CAST({} AS TEXT)",
    "s: SUBSTRING({}, 1, 2)", "s: CAST(STARTS_WITH({}, 'a') AS TEXT)",
    "s: ARRAY_TO_STRING([{}], '-')", "s: CASE WHEN b THEN {} ELSE s END", "s: IF(b, {}, s)",
    "l: {} || l", "l: LIST_SORT({})", "l: LIST_CONCAT({}, l)", "l: LIST_APPEND({}, 1)",
    "l: LIST_FILTER({}, lambda q: q > 1)", "l: ({})[1:2]", "l: FLATTEN([{}])",
    "a: ([{}, 1])[1]", "a: ({{'x': {}}}).x", "a: LEN([{}])", "a: STRPOS(CAST({} AS TEXT), 'a')",
    "a: ABS({})", "a: {} - a", "a: {} * 2", "a: {} % 7", "a: {} // 7", "a: (- {})", "a: {} & 7",
    "a: NULLIF({}, 1)", "a: GREATEST({}, a, 1)", "a: COALESCE({}, a, 2)", "a: YEAR(d) + {}",
    "a: TRY_CAST(CAST({} AS TEXT) AS INTEGER)", "a: CASE {} WHEN 1 THEN 2 ELSE 3 END",
    "a: CASE WHEN {} = 1 THEN 2 ELSE 3 END", "a: CAST({} BETWEEN 1 AND a AS INTEGER)",
    "a: CAST({} IN (1, a, 2) AS INTEGER)", "a: GCD({}, 2)", "a: CAST(({}, 1) = (a, 1) AS INTEGER)",
    "a: CAST({} = ANY([1, a]) AS INTEGER)", "a: DATE_DIFF('day', d, d + CAST({} AS INTEGER))",
    "b: {} IN (TRUE, b)", "b: {} IN (TRUE, FALSE)", "b: ({} = b)", "b: {} IS DISTINCT FROM b",
    "b: {} IS NULL", "b: NOT {}", "b: {} OR b", "b: {} IS TRUE",
    "f: ROUND({}, 1)", "f: POWER({}, 2)", "f: {} / 2", "f: ATAN2({}, f)",
    "p: CAST({} + p AS DECIMAL(8, 2))", "d: {} + 1", "d: LAST_DAY({})",
    "d: CAST({} + INTERVAL '1' MONTH AS DATE)", "d: CAST(DATE_TRUNC('month', {}) AS DATE)",
    "m: {} + INTERVAL '1' HOUR",
)  # fmt: skip


KINDS = {
    "a": "INTEGER", "b": "BOOLEAN", "s": "TEXT", "l": "INTEGER[]", "d": "DATE", "m": "TIMESTAMP",
    "f": "DOUBLE", "p": "DECIMAL(8, 2)",
}  # fmt: skip
STATEMENTS = (
    "SELECT {} AS x FROM t",
    "SELECT COUNT(*) AS n FROM t WHERE {} IS NULL",
    "CREATE VIEW v AS SELECT {} AS x FROM t",
    "CREATE VIEW v AS SELECT COUNT(*) AS n FROM t GROUP BY {}",
    "UPDATE t SET {column} = CAST({} AS {kind})",
)


@pytest.mark.parametrize("form", NESTED)
def test_what_is_nested_is_compiled_once(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    column, _, one = form.partition(": ")
    calls, compile_ = Counter[int](), Scalars.compile

    def counting(self: Scalars, node: exp.Expr) -> Scalar:
        calls[depth] += 1
        return compile_(self, node)

    monkeypatch.setattr(Scalars, "compile", counting)
    for text in STATEMENTS:
        sql = text.replace("{column}", column).replace("{kind}", KINDS[column])
        calls.clear()
        for depth in (3, 6):
            nested = column
            for _ in range(depth):
                nested = one.format(nested)
            with closing(deltafix.sql.connect()) as db:
                db.execute(f"CREATE TABLE t ({', '.join(map(' '.join, KINDS.items()))})")
                db.execute(sql.format(nested))
        assert calls[6] <= 2 * calls[3] + 8, (sql, calls)


@pytest.mark.parametrize("way", ["SELECT {} AS x FROM t", "INSERT INTO t (s) VALUES ({})",
                                 "CREATE VIEW v AS SELECT {} AS x FROM t"])  # fmt: skip
def test_a_key_of_forty_parts_is_put_together(way: str) -> None:
    value = "'a'" if "VALUES" in way else "s"
    with closing(deltafix.sql.connect()) as db:
        db.execute("CREATE TABLE t (s TEXT); INSERT INTO t VALUES ('a')")
        db.execute(way.format(" || ".join([value] * 40)))
        shown = "v" if "VIEW" in way else "t"
        found = db.execute(f"SELECT {'x' if shown == 'v' else 's'} AS x FROM {shown}").fetchall()
        assert (("a" if "SELECT" in way and shown == "t" else "a" * 40),) in found


DEEP = {
    "OR": lambda n: "SELECT a FROM t WHERE " + " OR ".join(f"a = {i}" for i in range(n)),
    "AND": lambda n: "DELETE FROM t WHERE " + " AND ".join(f"a <> {i}" for i in range(3, n)),
    "+": lambda n: f"SELECT {'+'.join('a' * n)} AS x FROM t",
    "||": lambda n: f"UPDATE t SET s = {'||'.join('s' * n)}",
    "()": lambda n: f"SELECT {'(' * n}a{')' * n} AS x FROM t",
    "NOT": lambda n: f"SELECT a FROM t WHERE {'NOT ' * n} a = 1",
    "-": lambda n: f"SELECT {'- ' * n} a AS x FROM t",
    "[]": lambda n: f"SELECT {'[' * n}a{']' * n} AS x FROM t",
    "FROM": lambda n: (
        "SELECT a FROM (" * n + "SELECT a FROM t" + "".join(f") AS q{i}" for i in range(n))
    ),
    "UNION": lambda n: " UNION ALL ".join(["SELECT a FROM t"] * n),
    "VALUES": lambda n: f"INSERT INTO t (a) VALUES ({'+'.join('1' * n)})",
    "ABS": lambda n: f"SELECT {'ABS(' * n}a{')' * n} AS x FROM t",
}
CHAINS = ("OR", "AND", "+", "||", "UNION", "VALUES")


@pytest.mark.parametrize("word", DEEP)
def test_what_is_nested_too_deep_is_an_error_of_sql(word: str) -> None:
    """And what is not that deep is planned; whatever it is, tables and views are as before."""
    counts = Counter[bool]()
    for n in (10, 100, 300, 1000, *([] if word == "UNION" else [5000])):
        for way in ("{}", "CREATE VIEW v AS {}"):
            sql = way.format(DEEP[word](n))
            if way != "{}" and not sql.startswith("CREATE VIEW v AS SELECT"):
                continue
            with closing(deltafix.sql.connect()) as db:
                db.execute("CREATE TABLE t (a INTEGER, s TEXT)")
                db.execute("CREATE VIEW w AS SELECT COUNT(*) AS n FROM t")
                db.insert("t", [(1, "")])
                try:
                    db.execute(sql)
                except deltafix.sql.ProgrammingError as error:
                    assert "too deep" in str(error)
                    assert db.execute("SELECT a, s FROM t").fetchall() == [(1, "")]
                    assert [*db.catalog.views] == ["w"]
                    counts[False] += 1
                else:
                    counts[True] += 1
                db.execute("INSERT INTO t VALUES (7, '')")
                db.engine.check_invariants()
    assert counts[True]
    assert not counts[False] or word not in CHAINS


def test_what_needs_more_columns_than_there_are_is_an_error_of_sql() -> None:
    """Each query of WITH joins the one before with itself, so its rows are told apart by twice as
    many columns; and a table of the user's has its name in the error."""
    queries = ["c0 AS (SELECT a FROM t)"]
    for n in range(10):
        join = f"SELECT x.a FROM c{n} AS x JOIN c{n} AS y ON x.a = y.a"
        queries.append(f"c{n + 1} AS ({join})")
    with closing(deltafix.sql.connect()) as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        db.insert("t", [(1,)])
        with pytest.raises(deltafix.sql.OperationalError, match="a part of this statement has 10"):
            db.execute(f"WITH {', '.join(queries)} SELECT * FROM c10")
        found = db.execute(f"WITH {', '.join(queries[:6])} SELECT * FROM c5").fetchall()
        assert found == [(1,)]
        columns = ", ".join(f"c{n} INTEGER" for n in range(1001))
        with pytest.raises(deltafix.sql.OperationalError, match="relation wide has 100"):
            db.execute(f"CREATE TABLE wide ({columns}); INSERT INTO wide (c0) VALUES (1)")
        db.execute("INSERT INTO t VALUES (2)")
        assert db.execute("SELECT COUNT(*) AS n FROM t").fetchall() == [(2,)]


@pytest.fixture
def db() -> Iterator[deltafix.sql.Connection]:
    with closing(deltafix.sql.connect()) as found:
        found.execute("CREATE TABLE t (a INTEGER, f DOUBLE, s TEXT)")
        found.execute("INSERT INTO t VALUES (1, 0.5, 'x'), (NULL, NULL, NULL), (5, 2, 'yz')")
        yield found


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many nodes were compiled, and SELECTs made rules of."""
    done = {"nodes": 0, "selects": 0}

    def counted(of: object, name: str, key: str) -> None:
        real = getattr(of, name)

        def count(*args: object, **options: object) -> object:
            done[key] += 1
            return real(*args, **options)

        monkeypatch.setattr(of, name, count)

    counted(Scalars, "_compiled", "nodes")
    counted(queries, "plain", "selects")
    return done


def alone(depth: int) -> str:
    """NOT IN inside NOT IN, of queries that read nothing of those around."""
    query = "SELECT a FROM t"
    for _ in range(depth):
        query = f"SELECT a FROM t WHERE a NOT IN ({query})"
    return query


def correlated(depth: int, level: int = 0) -> str:
    """The same, of queries that each read the one around."""
    where = f" AND t{level}.s = t{level - 1}.s" if level else ""
    inner = f"t{level}.a NOT IN ({correlated(depth, level + 1)})" if level < depth else "TRUE"
    return f"SELECT t{level}.a FROM t AS t{level} WHERE {inner}{where}"


@pytest.mark.parametrize("nested", [alone, correlated])
def test_not_in_inside_of_not_in_adds_as_much_with_each_level(
    nested: Callable[[int], str], db: deltafix.sql.Connection, work: dict[str, int]
) -> None:
    rules, atoms, selects = [], [], []
    for depth in (3, 6, 9, 12):
        before = work["selects"]
        found = [rule for (rule,) in db.execute(f"EXPLAIN {nested(depth)}").fetchall()]
        rules.append(len(found))
        atoms.append(sum(rule.count("(") for rule in found))
        selects.append(work["selects"] - before)
    assert len({b - a for a, b in pairwise(rules)}) == 1
    assert len({b - a for a, b in pairwise(atoms)}) == 1
    assert selects[-1] <= 12 * 12
    assert len(db.execute(nested(12)).fetchall()) in {0, 1, 2, 3}


def test_a_side_of_union_all_adds_no_column(
    db: deltafix.sql.Connection, work: dict[str, int]
) -> None:
    db.execute("CREATE TABLE k (a INTEGER PRIMARY KEY, s TEXT); INSERT INTO k VALUES (1, 'x')")
    widths = {}
    for count in (2, 300):
        sides = ("SELECT a FROM t", "SELECT a FROM k", "SELECT k.a FROM k JOIN t ON k.a <= t.a")
        query = " UNION ALL ".join(sides[n % 3] for n in range(count))
        db.execute(f"CREATE VIEW v{count} AS {query}")
        widths[count] = len(db.catalog.relations[f"v{count}"].all_columns)
    assert widths[300] <= widths[2] + 2
    before = work["selects"]
    assert len(db.execute("SELECT * FROM v300").fetchall()) == 100 * 3 + 100 * 1 + 100 * 2
    assert work["selects"] - before <= 1


@pytest.mark.parametrize(
    ("part", "between", "wanted"),
    [
        ("s", " || ", lambda a, f, s, n: None if s is None else s * n),
        ("a", " + ", lambda a, f, s, n: None if a is None else a * n),
        ("f", " + ", lambda a, f, s, n: None if f is None else f * n),
        ("CAST(a AS DECIMAL(4, 1))", " - ", lambda a, f, s, n: None if a is None else a * (2 - n)),
        ("s = 'x'", " OR ", lambda a, f, s, n: None if s is None else s == "x"),
        ("a < 5", " AND ", lambda a, f, s, n: None if a is None else a < 5),
    ],
)
def test_a_chain_may_have_a_thousand_parts(
    part: str,
    between: str,
    wanted: Callable[..., object],
    db: deltafix.sql.Connection,
    work: dict[str, int],
) -> None:
    rows = db.execute("SELECT * FROM t").fetchall()
    for count in (4, 1000):
        before = work["nodes"]
        chain = between.join([part] * count)
        db.execute(f"CREATE VIEW v{count} AS SELECT {chain} AS x FROM t")
        assert work["nodes"] - before <= 6 * count
        found = [one for (one,) in db.execute(f"SELECT * FROM v{count}").fetchall()]
        assert sorted(found, key=repr) == sorted((wanted(*row, count) for row in rows), key=repr)


@pytest.mark.parametrize(("op", "joint", "wanted"), [("<>", "AND", 1), ("=", "OR", 5)])
def test_a_condition_may_have_as_many(
    op: str, joint: str, wanted: int, db: deltafix.sql.Connection
) -> None:
    test = f" {joint} ".join(f"a {op} {k}" for k in range(2, 700))
    db.execute(f"CREATE VIEW v AS SELECT a FROM t WHERE {test}")
    assert db.execute("SELECT * FROM v").fetchall() == [(wanted,)]


@pytest.mark.parametrize(
    "expression", ["1 + ({})", "f * ({})", "CASE WHEN a = 1 THEN 2 ELSE {} END", "COALESCE(a, {})"]
)
def test_the_type_of_a_part_is_found_once(
    expression: str, db: deltafix.sql.Connection, work: dict[str, int]
) -> None:
    nodes = []
    for depth in (4, 8, 16):
        text = "a + 1"
        for _ in range(depth):
            text = expression.format(text)
        before = work["nodes"]
        db.execute(f"EXPLAIN SELECT {text} AS x FROM t")
        nodes.append(work["nodes"] - before)
    assert nodes[2] - nodes[1] <= 2 * (nodes[1] - nodes[0]) + 4


@pytest.mark.parametrize(
    ("first", "inside", "last"),
    [("[", "a", "]"), ("[", "'1', 2", "]"), ("[{'k': ", "a", "}]")],
)
def test_what_is_in_arrays_in_arrays_is_compiled_once(
    first: str, inside: str, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each level compiled what is in it twice, once as it is and once as typed: 50 s for 20."""
    compiled, whole = Counter[int](), Scalars._compiled

    def counted(self: Scalars, node: exp.Expr) -> Scalar:
        compiled[depth] += 1
        return whole(self, node)

    monkeypatch.setattr(Scalars, "_compiled", counted)
    with closing(deltafix.sql.connect()) as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        for depth in (6, 12):
            db.execute(f"SELECT {first * depth}{inside}{last * depth} AS x FROM t")
    assert compiled[6] > 6
    assert compiled[12] < 5 * compiled[6]  # as the square of the depth at the most; it was 64


@pytest.mark.parametrize("word", ["DATE(", "ROW(", "TEXT(", "1::INT["])
@pytest.mark.parametrize("many", [13, 400])
def test_functions_with_names_of_types_are_not_read_over_and_over(word: str, many: int) -> None:
    """sqlglot reads what is in each twice: 2 to the power of so many."""
    with closing(deltafix.sql.connect()) as db:
        with pytest.raises(deltafix.sql.ProgrammingError, match="nested too deep"):
            db.execute(f"SELECT {word * many}1{(')' if '(' in word else ']') * many}")
        shallow = " + ".join([f"CAST({'(' * 9}1{')' * 9} AS INTEGER)"] * 40)
        assert db.execute(f"SELECT {shallow} AS n").fetchall() == [(40,)]
