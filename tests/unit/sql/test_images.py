"""A state folder of SQL opens from its image, with the functions that its views call.

Sees: a folder that is derived at every open because a view calls a function, a function whose name
is another one's in another process, and values of a view's functions that a later view is given.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import deltafix.sql

TABLE = "CREATE TABLE t (x BIGINT PRIMARY KEY, g BIGINT, s TEXT NOT NULL, v DOUBLE)"
VIEWS = {
    "a": "SELECT g, SUM(v) AS a, MIN(x) AS b, AVG(x) AS c, STDDEV(v) AS d FROM t GROUP BY g",
    "b": "SELECT UPPER(s) AS a, COUNT(*) AS n FROM t GROUP BY 1",
    "c": "SELECT x, SUBSTRING(s, 2, 3) AS a, REPEAT(s, 2) AS b, s || v::TEXT AS c FROM t",
    "d": "SELECT x, LAG(v) OVER (PARTITION BY g ORDER BY x) AS a FROM t",
    "e": "SELECT x, s FROM t ORDER BY s DESC, x LIMIT 5",
}
ASKED = """
import json, sys
from contextlib import closing
import deltafix.sql
with closing(deltafix.sql.connect(sys.argv[1])) as db:
    before = {name: sorted(map(repr, db.execute(f"SELECT * FROM {name}").fetchall()))
              for name in db.catalog.views}
    derived = db.engine.last_epoch.derivations
    db.execute("UPDATE t SET s = 'zzz', v = 7 WHERE x = 4")
    db.execute("UPDATE t SET s = 'n4', v = NULL WHERE x = 4")
    db.engine.check_invariants()
    told = list(db.engine.recovered)
    print(json.dumps([derived, told, before]))
"""


def rows(db: Any, names: Sequence[str]) -> dict[str, list[str]]:
    return {one: sorted(map(repr, db.execute(f"SELECT * FROM {one}").fetchall())) for one in names}


def asked(folder: Path, seed: int) -> Any:
    """What a process of another order of sets derives when it opens the folder, and reads."""
    command = [sys.executable, "-c", ASKED, str(folder)]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def made(folder: Path) -> dict[str, list[str]]:
    """A folder with views and rows, closed; and its views' rows."""
    with closing(deltafix.sql.connect(folder)) as db:
        db.execute(TABLE)
        for name, query in VIEWS.items():
            db.execute(f"CREATE VIEW {name} AS {query}")
        given = [
            (n, n % 7 if n % 3 else None, f"n{n}", n / 4 if n % 5 != 4 else None)
            for n in range(300)
        ]
        db.insert("t", given)
        db.execute("DELETE FROM t WHERE x % 50 = 1")
        return rows(db, [*VIEWS])


def test_functions_of_views_are_no_reason_to_derive_anew(tmp_path: Path) -> None:
    wanted = made(tmp_path / "s")
    assert (tmp_path / "s" / "image").exists()
    for seed in (1, 2):
        derived, told, found = asked(tmp_path / "s", seed)
        assert (derived, told) == (0, [])
        assert found == wanted


def test_a_view_of_another_text_has_no_values_of_the_one_before(tmp_path: Path) -> None:
    made(tmp_path / "s")
    for step, function in enumerate(("LOWER", "UPPER", "REVERSE")):
        with closing(deltafix.sql.connect(tmp_path / "s")) as db:
            db.execute("DROP VIEW b")
        with closing(deltafix.sql.connect(tmp_path / "s")) as db:
            if step:  # there is one of the name already
                db.execute("CREATE VIEW b AS SELECT LEFT(s, 1) AS a, 0 AS n FROM t")
                db.execute("DROP VIEW b")
            db.execute(
                f"CREATE VIEW b AS SELECT {function}(s) AS a, COUNT(*) AS n FROM t GROUP BY 1"
            )
            wanted = rows(db, [*VIEWS])
            texts = [s for (s,) in db.execute("SELECT s FROM t").fetchall()]
            if step == 2:
                db.engine.compact()
        answers = ([s.lower() for s in texts], [s.upper() for s in texts], [s[::-1] for s in texts])
        assert wanted["b"] == sorted(repr((one, 1)) for one in answers[step])
        assert asked(tmp_path / "s", step)[2] == wanted


def test_another_deltafix_derives_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = made(tmp_path / "s")
    monkeypatch.setattr("deltafix.sql.program.maker", lambda: "another")
    with closing(deltafix.sql.connect(tmp_path / "s")) as db:
        assert rows(db, [*VIEWS]) == wanted
        assert any("derived without an image" in one for one in db.engine.recovered)


NAMED = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.generators.random_sql import case_of
from deltafix.rules.show import show_rule
import deltafix.sql
for seed in range(40):
    case = case_of(seed)
    made = [f"CREATE VIEW {name} AS {query}" for name, query in case.views]
    with deltafix.sql.connect() as db:
        for statement in (*case.tables, *made):
            try:
                db.execute(statement)
            except deltafix.sql.Error as error:
                print(type(error).__name__)
        for view in db.catalog.views.values():
            print(sorted((name, repr(said)) for said, name in view.builder.named_by.items()))
        made = db.catalog.program()
        print([one.name for one in made.functors], *map(show_rule, made.rules), sep=chr(10))
"""


def test_functions_have_the_same_names_in_every_process() -> None:
    tests = str(Path(__file__).parents[2])
    told = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", NAMED, tests]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        told.append(re.sub(r" at 0x[0-9a-f]+", "", done.stdout).splitlines())
    assert len(told[0]) > 400
    assert told[0] == told[1]
