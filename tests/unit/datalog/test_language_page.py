"""docs/reference/language.md says what is accepted and what is refused: every row is tried."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deltafix.datalog.load import analyse

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "language.md").read_text("utf-8")
FILES = dict(re.findall(r'^```prolog title="([^"]+)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL))
ROWS = [
    (example.replace(r"\|", "|"), status)
    for example, status in re.findall(
        r"^\| [^|]*? \| `((?:[^|]|\\\|)+)` \| (.*) \|$", PAGE, re.MULTILINE
    )
]


def test_the_page_has_its_rows() -> None:
    assert len(ROWS) >= 70
    assert {status.split()[0].rstrip(":") for _, status in ROWS} == {"works", "differs", "refused"}


@pytest.mark.parametrize(("example", "status"), ROWS, ids=[example for example, _ in ROWS])
def test_a_row_is_true(example: str, status: str) -> None:
    found = analyse(f"{FILES['preamble.dl']}{example}\n")
    refused = re.match(r"refused \((DF\d+)\)", status)
    if refused:
        assert [item.code for item in found.errors] == [refused[1]]
        return
    assert found.errors == ()
    warned = re.search(r"warning (DF\d+)", status)
    codes = {item.code for item in found.warnings} - {"DF160"}
    assert codes == ({warned[1]} if warned else set())


def test_the_macro_example_is_a_program() -> None:
    assert len(analyse(FILES["macros.dl"]).program.rules) == 1
    assert analyse(FILES["macros.dl"]).errors == ()


def test_refused_preprocessor_lines() -> None:
    assert [item.code for item in analyse('#ident "a"\n#if (\n#endif\n').errors] == ["DF107"] * 2
