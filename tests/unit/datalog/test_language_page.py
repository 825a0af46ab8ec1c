"""docs/reference/language.md says what is accepted and what is refused: every row is tried.

What is accepted is run on a few rows, and again after an edit, and compared with the oracle.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.judges.oracle import evaluate

import deltafix
from deltafix.datalog.load import analyse
from deltafix.plan.build import analysed
from deltafix.reactive import reducer

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "language.md").read_text("utf-8")
FILES = dict(re.findall(r'^```prolog title="([^"]+)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL))
ROWS = [
    (example.replace(r"\|", "|"), status)
    for example, status in re.findall(
        r"^\| [^|]*? \| `((?:[^|]|\\\|)+)` \| (.*) \|$", PAGE, re.MULTILINE
    )
]


GIVEN = {
    "n": [(1,), (4,)],
    "m": [(1,), (2,), (3,)],
    "e": [(1, 2), (2, 3), (3, 3)],
    "u": [(2,)],
    "f": [(0.5,)],
    "s": [("a",), ("12",)],
    "p": [((1, 2),)],
    "d": [(deltafix.Branch("Circle", (3,)),)],
}
GONE = {"m": [(2,)], "e": [(2, 3)], "s": [("a",)]}
ACCEPTED = [row for row in ROWS if not row[1].startswith("refused")]


def test_the_page_has_its_rows() -> None:
    assert len(ROWS) >= 70
    assert {status.split()[0].rstrip(":") for _, status in ROWS} == {"works", "differs", "refused"}


@pytest.mark.parametrize(("example", "status"), ROWS, ids=[example for example, _ in ROWS])
def test_a_row_is_true(example: str, status: str) -> None:
    found = analysed(analyse(f"{FILES['preamble.dl']}{example}\n"))
    refused = re.match(r"refused \((DF\d+)\)", status)
    if refused:
        assert [item.code for item in found.errors] == [refused[1]]
        return
    assert found.errors == ()
    warned = re.search(r"warning (DF\d+)", status)
    codes = {item.code for item in found.warnings} - {"DF160"}
    assert codes == ({warned[1]} if warned else set())


@pytest.mark.parametrize(("example", "status"), ACCEPTED, ids=[row[0] for row in ACCEPTED])
def test_oracle_an_accepted_row_runs(example: str, status: str) -> None:
    program = deltafix.Program.parse(f"{FILES['preamble.dl']}{example}\n")
    functors = {one.name: lambda *values: max(values) for one in program.functors}
    biggest = reducer(0, lambda acc, v: acc + v, lambda acc, v: acc - v, name="g")
    reducers = {"g": biggest} if "@@g" in example else {}
    # Numbers that follow the order of insertion may be any; a test alone has rows only inlined.
    judged = "DF166" not in status and "ground the rule" not in status
    facts = {name: set(rows) for name, rows in GIVEN.items()}
    with deltafix.connect(program, functors=functors, reducers=reducers, max_rows=10_000) as db:
        for change in ({}, GONE):
            with db.transaction() as tx:
                for name, rows in facts.items() if not change else ():
                    tx.insert(name, list(rows))
                for name, rows in change.items():
                    tx.delete(name, rows)
                    facts[name] -= set(rows)
            db.check_invariants()
            expected = (
                evaluate(program, facts, functors=functors, reducers={"g": sum}) if judged else {}
            )
            for name, rows in expected.items():
                assert set(db.rows(name) if name in db.schemas else rows) == rows, name


def test_the_macro_example_is_a_program() -> None:
    assert len(analyse(FILES["macros.dl"]).program.rules) == 1
    assert analyse(FILES["macros.dl"]).errors == ()


def test_refused_preprocessor_lines() -> None:
    assert [item.code for item in analyse('#ident "a"\n#if (\n#endif\n').errors] == ["DF107"] * 2
