"""Relations that only totals read: their rows are added as they are derived, and not kept.

Sees: a row added twice or never taken away, by each schedule, after rollbacks and rule edits, in a
folder that is opened again; a relation that is not kept though its rows may have two derivations,
or something else reads them; proofs of totals whose rows are nowhere.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

import deltafix
import deltafix.sql
from deltafix.engine.run import STRATEGIES
from deltafix.engine.store import relation_cell
from deltafix.errors import BudgetError, UnknownRelationError
from deltafix.kernel import layout as at

SALES = """
.decl sale(shop: symbol, item: number, count: number) .input sale
.decl price(item: number, cents: number) .input price
.decl closed(shop: symbol) .input closed
.decl income(shop: symbol, cents: number) .output income
.decl lines(shop: symbol, n: number) .output lines
income(s, t) :- sale(s, _, _), t = sum n * c : { sale(s, i, n), price(i, c), !closed(s) }.
lines(s, k) :- sale(s, _, _), k = count : { sale(s, i, n), price(i, c), !closed(s) }.
"""

Rows = dict[str, set[tuple]]


def drawn(rng: Random) -> tuple[str, tuple]:
    relation = rng.choice(["sale", "sale", "price", "closed"])
    shop, item = f"s{rng.randrange(3)}", rng.randrange(4)
    values = {
        # Two prices of one item, one count of two items: what is added is equal, and counts twice.
        "sale": (shop, item, rng.randrange(3)),
        "price": (item, rng.choice([0, 7, 1 << 40])),
        "closed": (shop,),
    }
    return relation, values[relation]


def expected(rows: Rows) -> dict[str, list[tuple]]:
    sums, counts = Counter[str](), Counter[str]()
    shops = {shop for shop, _, _ in rows["sale"]}
    for shop, item, count in rows["sale"]:
        for other, cents in rows["price"]:
            if item == other and (shop,) not in rows["closed"]:
                sums[shop] += count * cents
                counts[shop] += 1
    return {
        "income": [(shop, sums[shop]) for shop in sorted(shops)],
        "lines": [(shop, counts[shop]) for shop in sorted(shops)],
    }


def shown(db: deltafix.Database) -> dict[str, list[tuple]]:
    return {name: db.rows(name) for name in ("income", "lines")}


def edit(rng: Random, db: deltafix.Database, rows: Rows, most: int = 4) -> deltafix.Transaction:
    """Rows that come and go in one transaction, the same in `rows`."""
    with db.transaction(missing="ignore") as tx:
        for _ in range(rng.randrange(1, most)):
            relation, row = drawn(rng)
            if rng.random() < 0.55:
                tx.insert(relation, [row])
                rows[relation].add(row)
            else:
                tx.delete(relation, [row])
                rows[relation].discard(row)
    return tx


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_oracle_totals_follow_what_is_not_kept(strategy: str) -> None:
    rng = Random(strategy)
    rows: Rows = {"sale": set(), "price": set(), "closed": set()}
    with deltafix.connect(SALES, strategy=strategy) as db:
        assert len(db.plan.pipelined) == 2  # one with the product, one without
        for epoch in range(150):
            before = shown(db)
            tx = edit(rng, db, rows, 4 if epoch % 10 else 40)
            assert shown(db) == expected(rows)
            for name, held in before.items():
                delta = tx.delta.get(name)
                came = set() if delta is None else {*delta.added}
                went = set() if delta is None else {*delta.removed}
                assert ({*held} - went) | came == {*shown(db)[name]}
            db.check_invariants()
        for hidden in db.plan.pipelined:
            number = db.instance.linked.ids[hidden]
            assert relation_cell(db.instance.arena, number, at.R_N) == 0
            derived = relation_cell(db.instance.arena, number, at.R_DERIVATIONS)
            assert derived == sum(count for _, count in expected(rows)["lines"]) > 0


def test_an_edit_that_is_taken_back_leaves_totals_as_they_were() -> None:
    rng = Random(5)
    rows: Rows = {"sale": set(), "price": set(), "closed": set()}
    with deltafix.connect(SALES, max_rows=60) as db:
        for _ in range(20):
            edit(rng, db, rows)
        held = shown(db)
        for _ in range(10):
            tx = db.transaction()
            tx.insert("sale", [(f"s{n}", item, 1) for n in range(3) for item in range(4, 9)])
            tx.insert("price", [(item, 3) for item in range(4, 9)])
            tx.rollback()
            assert shown(db) == held
            with pytest.raises(BudgetError), db.transaction() as tx:
                tx.insert("price", [(0, 11), (1, 11)])
                tx.insert("sale", [(f"t{n}", 0, 1) for n in range(100)])
            assert shown(db) == held
            db.check_invariants()
            edit(rng, db, rows)
            held = shown(db)
            assert held == expected(rows)


LOWEST = "low(s, t) :- sale(s, _, _), t = min n * c : { sale(s, i, n), price(i, c), !closed(s) }."
PARTS = """
.decl part(shop: symbol, item: number, count: number, cents: number)
part(s, i, n, c) :- sale(s, i, n), price(i, c), !closed(s).
income(s, t) :- sale(s, _, _), t = sum n * c : { part(s, i, n, c) }.
"""


def test_oracle_rules_come_and_go_beside_what_is_not_kept() -> None:
    """Other totals of the same rows, rules that need the rows themselves, and none at all."""
    rng = Random(17)
    first = SALES + ".decl low(shop: symbol, cents: number)\n"
    texts = [first, first + LOWEST, first.replace("lines(s, k) :-", "lines(s, k) :- k > 0,")]
    body = "{ sale(s, i, n), price(i, c), !closed(s) }"
    more = f"k = count : {body}, sum i : {body} >= 0"  # of the rows that are counted
    texts.append(first.replace(f"k = count : {body}", more))
    assert texts[-1] != first
    texts += ["\n".join(one for one in first.splitlines() if not one.startswith("income(")) + PARTS]
    rows: Rows = {"sale": set(), "price": set(), "closed": set()}
    with deltafix.connect(first) as db:
        for _ in range(60):
            edit(rng, db, rows)
            text = rng.choice(texts)
            with db.transaction() as tx:
                tx.change_program(text)
            db.check_invariants()
            edit(rng, db, rows)
            with deltafix.connect(text) as alone:
                with alone.transaction() as tx:
                    for name, held in rows.items():
                        tx.insert(name, sorted(held))
                assert shown(db) == shown(alone)


SHOWN = [
    "SELECT item, SUM(n * k) AS s FROM line GROUP BY item",
    "SELECT item, SUM(n * k) AS s, MIN(n * k) AS m FROM line GROUP BY item",
    "SELECT item, SUM(n * k) AS s, AVG(n * k) AS m, COUNT(*) AS c FROM line GROUP BY item",
    "SELECT k AS item, SUM(n * k) AS s FROM line GROUP BY k",
    "SELECT item, SUM(n * k) AS s FROM line JOIN other USING (item) GROUP BY item",
]


def test_oracle_a_view_begins_to_need_its_rows_and_ceases_to() -> None:
    rng = Random(29)
    kept: set[bool] = set()
    tables = """
        CREATE TABLE line (id INT PRIMARY KEY, item INT NOT NULL, n INT NOT NULL, k INT NOT NULL);
        CREATE TABLE other (item INT NOT NULL);
    """
    view = "CREATE OR REPLACE MATERIALIZED VIEW v AS "
    with deltafix.sql.connect() as db:
        db.execute(tables)
        held: dict[int, tuple[int, ...]] = {}
        others: list[int] = []
        for number in range(120):
            values = (number, rng.randrange(3), rng.randrange(4), rng.randrange(4))
            held[number] = values
            db.execute("INSERT INTO line VALUES (?, ?, ?, ?)", values)
            if number % 3 == 0:
                gone = rng.choice(sorted(held))
                del held[gone]
                db.execute("DELETE FROM line WHERE id = ?", (gone,))
            if number % 5 == 0:
                others.append(rng.randrange(3))
                db.execute("INSERT INTO other VALUES (?)", (others[-1],))
            if number % 2 == 0:
                query = rng.choice(SHOWN)
                db.execute(view + query)
                kept.add(not db.engine.plan.pipelined)
                db.engine.check_invariants()
            with deltafix.sql.connect() as alone:
                alone.execute(tables)
                alone.executemany("INSERT INTO line VALUES (?, ?, ?, ?)", [*held.values()])
                alone.executemany("INSERT INTO other VALUES (?)", [(one,) for one in others])
                wanted = alone.execute(query + " ORDER BY 1").fetchall()
            assert db.execute("SELECT * FROM v ORDER BY 1").fetchall() == wanted
    assert kept == {True, False}


def test_a_folder_that_is_opened_again_goes_on(tmp_path: Path) -> None:
    rng = Random(3)
    rows: Rows = {"sale": set(), "price": set(), "closed": set()}
    for _ in range(4):
        with deltafix.connect(SALES, tmp_path / "state") as db:
            assert shown(db) == expected(rows)
            for _ in range(5):
                edit(rng, db, rows)
            assert shown(db) == expected(rows)


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ("t(s) :- s = sum a * b : { p(a, b), q(b, c) }.", False),
        ("t(s) :- s = sum a * b : { p(a, b), q(b, _) }.", False),
        ("t(s) :- s = mean a * b : { p(a, b), q(b, c) }.", False),
        ("t(s) :- s = count : { p(a, b), q(b, c), a < c }.", False),
        # One row may be derived from either: it counts once.
        ("t(s) :- s = sum a * b : { p(a, b) ; q(a, b) }.", True),
        # Its rows are looked up by their values.
        ("t(s) :- s = max a * b : { p(a, b), q(b, c) }.", True),
        # The rows are not of the rule alone.
        ("r(a, b) :- p(a, b), q(b, _). t(s) :- s = sum a : { r(a, b) }.", True),
    ],
)
def test_what_is_kept(rule: str, kept: bool) -> None:
    text = """
    .decl p(a: number, b: number) .input p
    .decl q(a: number, b: number) .input q
    .decl r(a: number, b: number)
    .decl t(s: number)
    """
    if "mean" in rule:
        text = text.replace("t(s: number)", "t(s: float)")
    rng = Random(rule)
    with deltafix.connect(text + rule) as db:
        assert (not db.plan.pipelined) == kept
        for _ in range(30):
            with db.transaction(missing="ignore") as tx:
                for name in "pq":
                    row = rng.randrange(3), rng.randrange(3)
                    (tx.insert if rng.random() < 0.6 else tx.delete)(name, [row])
            held = db.rows("t")
            p, q = db.rows("p"), db.rows("q")
            joined = [(a, b, c) for a, b in p for d, c in q if b == d]
            if "<" in rule:
                wanted: list[float] = [len([one for one in joined if one[0] < one[2]])]
            elif ";" in rule:
                wanted = [sum(a * b for a, b in {*p, *q})]
            elif "r(a, b)" in rule:
                wanted = [sum(a for a, b in {one[:2] for one in joined})]
            elif "sum" in rule:
                wanted = [sum(a * b for a, b, _ in joined)]
            elif not joined:
                wanted = []
            elif "max" in rule:
                wanted = [max(a * b for a, b, _ in joined)]
            else:
                wanted = [sum(a * b for a, b, _ in joined) / len(joined)]
            assert held == [(one,) for one in wanted]


def test_rows_of_sql_count_as_often_as_they_are() -> None:
    """A key tells rows of a table apart; what is asked for their sake does not multiply them."""
    with deltafix.sql.connect() as db:
        db.execute(
            """
            CREATE TABLE line (id INT PRIMARY KEY, item INT NOT NULL, n INT NOT NULL);
            CREATE TABLE note (item INT NOT NULL, said TEXT NOT NULL);
            CREATE MATERIALIZED VIEW total AS
                SELECT item, SUM(n * 2) AS n, COUNT(*) AS k FROM line GROUP BY item;
            CREATE MATERIALIZED VIEW noted AS
                SELECT item, SUM(n * 2) AS n FROM line
                WHERE EXISTS (SELECT * FROM note WHERE note.item = line.item) GROUP BY item;
            CREATE MATERIALIZED VIEW every AS SELECT SUM(n * 2) AS n FROM line WHERE item > 0;
            INSERT INTO line VALUES (1, 1, 5), (2, 1, 5), (3, 2, 7), (4, 0, 9);
            INSERT INTO note VALUES (1, 'a'), (1, 'b'), (1, 'b');
            """
        )
        assert {name.partition(".")[0] for name in db.engine.plan.pipelined} >= {"total", "every"}
        assert db.execute("SELECT * FROM total").fetchall() == [(0, 18, 1), (1, 20, 2), (2, 14, 1)]
        assert db.execute("SELECT * FROM noted").fetchall() == [(1, 20)]
        assert db.execute("SELECT * FROM every").fetchall() == [(34,)]
        db.execute("DELETE FROM line WHERE id IN (1, 3)")
        assert db.execute("SELECT * FROM total").fetchall() == [(0, 18, 1), (1, 10, 1)]
        assert db.delta("every").added == [(10,)]
        db.execute("DELETE FROM line WHERE id = 2")
        assert db.execute("SELECT * FROM every").fetchall() == [(None,)]
        part = next(iter(db.engine.plan.pipelined))
        with pytest.raises(UnknownRelationError, match="go into aggregates"):
            db.engine.rows(part)


def test_a_total_is_proved_by_rows_that_are_not_kept() -> None:
    with deltafix.connect(SALES) as db:
        with db.transaction() as tx:
            tx.insert("sale", [("a", 1, 2), ("a", 2, 3), ("b", 1, 1)])
            tx.insert("price", [(1, 10), (2, 100), (3, 5)])
        said = str(db.why("income", ("a", 320)))
        for part in ('sale("a", 1, 2)', "price(1, 10)", 'sale("a", 2, 3)', "price(2, 100)"):
            assert part in said
        assert 'sale("b"' not in said
        assert "sum over 2 rows = 320" in said
        assert db.why_not("income", ("a", 321)) is not None
