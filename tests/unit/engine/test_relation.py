"""A relation to look at: pages, notebooks, and whatever reads Arrow's stream protocol."""

from __future__ import annotations

import polars
import pyarrow
import pytest

import deltafix
from deltafix.errors import FactError, TransactionError, UnknownRelationError


@pytest.fixture
def db():
    with deltafix.connect(
        ".decl r(x: symbol, n: number)\n.decl s(n: number)\ns(n) :- r(_, n)."
    ) as db:
        with db.transaction() as tx:
            tx.insert("r", [(f"<{i}>", i) for i in range(30)])
        yield db


def test_a_view_reads_the_last_epoch(db):
    view = db.relation("r")
    assert len(view) == 30
    assert sorted(view.page(0, 10) + view.page(10, 100)) == list(view) == db.rows("r")
    assert ("<3>", 3) in view
    with db.transaction() as tx:
        tx.delete("r", [("<3>", 3)])
    assert ("<3>", 3) not in view
    assert len(view) == 29
    assert repr(view) == "<r(x: symbol, n: number): 29 rows>"
    with pytest.raises(UnknownRelationError, match="no relation"):
        db.relation("rr")


def test_a_view_and_a_delta_are_arrow_streams(db):
    table = pyarrow.table(db.relation("r"))
    assert sorted(zip(*table.to_pydict().values(), strict=True)) == db.rows("r")
    frame = polars.DataFrame(db.relation("r"))
    assert sorted(frame.rows()) == db.rows("r")
    with db.transaction() as tx:
        tx.insert("r", [("new", 1), ("more", 99)])
    changed = polars.DataFrame(tx.delta["r"])
    assert sorted(changed.rows()) == [("more", 99, 1), ("new", 1, 1)]
    assert pyarrow.table(tx.delta["s"]).to_pylist() == [{"n": 99, "sign": 1}]
    assert table.to_pandas()["n"].sum() == sum(range(30))


def test_notebooks_show_text_as_text(db):
    page = db.relation("r")._repr_html_()
    assert "&lt;0&gt;" in page
    assert "<0>" not in page
    assert "10 more" in page
    assert db.plan._repr_html_().startswith("<pre>relation r/2")


def test_a_view_is_read_in_batches(db):
    view = db.relation("r")
    with db.transaction() as tx:
        tx.delete("r", [(f"<{i}>", i) for i in range(7, 14)])
    for size in (1, 7, 29, 1000):
        batches = list(view.batches(size))
        assert all(0 < batch.num_rows <= size for batch in batches)
        table = pyarrow.Table.from_batches(batches)
        assert table.schema == view.to_arrow().schema
        assert sorted(zip(*table.to_pydict().values(), strict=True)) == db.rows("r")
    assert len(list(view.batches())) == 1
    with db.transaction() as tx:
        tx.delete("r", db.rows("r"))
    assert list(view.batches()) == []


def test_batches_are_of_one_epoch(db):
    batches = db.relation("r").batches(10)
    assert next(batches).num_rows == 10
    with db.transaction() as tx:
        tx.insert("r", [("new", 1)])
    with pytest.raises(TransactionError, match="batches of epoch 1, after which epoch 2"):
        next(batches)
    with pytest.raises(FactError, match="at least 1 row, not 0"):
        next(db.relation("r").batches(0))
