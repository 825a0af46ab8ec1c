"""The concept pages of the algebra and of level 1 show what happens: their Python runs here."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

CONCEPTS = Path(__file__).resolve().parents[3] / "docs" / "concepts"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["change-actions", "derivatives", "fixpoints", "level-1"])
def test_a_concept_page_shows_what_happens(name) -> None:
    page = CONCEPTS / f"{name}.md"
    text = page.read_text()
    names: dict[str, object] = {}
    shown: list[str] = []
    ran = 0
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start()) + 1
        test = doctest.DocTestParser().get_doctest(block[1], names, name, str(page), line)
        runner = doctest.DocTestRunner(verbose=False)
        result = runner.run(test, out=shown.append, clear_globs=False)
        names.update(test.globs)
        assert result.failed == 0, "".join(shown)
        ran += result.attempted
    assert ran > 10
