"""CREATEs in a row are one epoch of rules; what they make is what they make one after another.

Sees: a view that stands though its rows cannot be had, one lost beside it, an error of another
statement than the one at fault, and what an interrupt leaves of a row of them.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.generators.random_sql import case_of

import deltafix.sql
from deltafix.errors import BudgetError

WRONG = (
    "CREATE VIEW x{n} AS SELECT count(*) * 9223372036854775807 + 9223372036854775807 AS v FROM {t}",
    "CREATE VIEW x{n} AS SELECT CAST('x' || count(*) AS INTEGER) AS v FROM {t}",
    "CREATE VIEW x{n} AS SELECT nowhere FROM {t}",
    "CREATE VIEW x{n} AS SELECT 1 FROM x{m}",
)


def _played(texts: list[str], path: Path | str, tables: list[str]) -> tuple[object, ...]:
    """The errors, the views, and their rows, of texts that are run one after another."""
    wrong: list[tuple[str, str]] = []
    with deltafix.sql.connect(path, max_rows=2_000) as db:
        for text in tables:
            db.execute(text)
        before = db.engine.epoch
        for text in texts:
            for _ in db.run(text, (), None, lambda error, sql: wrong.append((_said(error), sql))):
                pass
        epochs = db.engine.epoch - before
        rows = {n: sorted(map(repr, db.execute(f"SELECT * FROM {n}"))) for n in db.catalog.views}
        db.engine.check_invariants()
    return sorted(wrong), rows, epochs


def _said(error: Exception) -> str:
    """An error without its place, which is another one in a script."""
    return str(error).splitlines()[0].split(": ", 1)[1]


@pytest.mark.parametrize("seed", range(6))
def test_oracle_a_script_makes_what_its_statements_make(seed: int, tmp_path: Path) -> None:
    random = Random(f"script {seed}")
    case = case_of(seed, schemas=False)
    edits = [text for statements in case.transactions[:2] for text in statements]
    views = [f"CREATE VIEW {name} AS {query}" for name, query in case.views]
    for n in range(seed % 3 * 2):
        name = case.tables[0].split()[2].partition("(")[0]
        text = random.choice(WRONG).format(n=n, m=n - 1, t=name)
        views.insert(random.randrange(len(views) + 1), text)
    tables = [*case.tables]
    for text in edits:
        tables.append(text) if _takes(tables, text) else None
    path = str(tmp_path / "one") if seed % 2 else ":memory:"
    other = str(tmp_path / "whole") if seed % 2 else ":memory:"
    wrong, rows, epochs = _played(views, path, tables)
    assert (wrong, rows) == _played([";\n".join(views)], other, tables)[:2]
    assert rows
    if not seed % 3:
        assert not wrong
        assert _played([";\n".join(views)], ":memory:", tables)[2] == 1 < epochs
    else:
        assert wrong


@pytest.mark.parametrize("kind", [BudgetError, KeyboardInterrupt])
def test_a_script_of_which_a_view_does_not_end_or_is_interrupted(
    kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = "WITH RECURSIVE r(v) AS (SELECT n FROM t UNION SELECT v + 1 FROM r {}) SELECT v FROM r"
    with deltafix.sql.connect(max_rows=2_000) as db:
        db.execute("CREATE TABLE t (n INTEGER NOT NULL); INSERT INTO t VALUES (1)")
        made = ["CREATE VIEW a AS SELECT n FROM t", f"CREATE VIEW b AS {ends.format('')}",
                "CREATE VIEW c AS SELECT n FROM t"]  # fmt: skip
        if kind is KeyboardInterrupt:
            made[1] = f"CREATE VIEW b AS {ends.format('WHERE v < 9')}"
            monkeypatch.setattr(db, "_follow", _interrupted)
        with pytest.raises(kind, match="max_rows=2000" if kind is BudgetError else None):
            db.execute("; ".join(made))
        monkeypatch.undo()
        assert list(db.catalog.views) == (["a"] if kind is BudgetError else [])
        made[1] = f"CREATE VIEW b AS {ends.format('WHERE v < 9')}"
        db.execute("; ".join(made[len(db.catalog.views) :]))
        assert db.execute("SELECT count(*) FROM b").fetchall() == [(9,)]
        assert db.execute("SELECT n FROM c").fetchall() == [(1,)]


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def _takes(tables: list[str], text: str) -> bool:
    with deltafix.sql.connect() as db:
        for one in tables:
            db.execute(one)
        try:
            db.execute(text)
        except deltafix.sql.Error:
            return False
    return True
