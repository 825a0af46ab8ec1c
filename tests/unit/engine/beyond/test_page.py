"""What docs/concepts/beyond-horn.md shows is what happens."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[4] / "docs" / "concepts" / "beyond-horn.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_shows_what_happens() -> None:
    text = PAGE.read_text()
    names: dict[str, object] = {}
    shown: list[str] = []
    ran = 0
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start()) + 1
        test = doctest.DocTestParser().get_doctest(block[1], names, PAGE.name, str(PAGE), line)
        result = doctest.DocTestRunner(verbose=False).run(test, out=shown.append, clear_globs=False)
        names.update(test.globs)
        assert result.failed == 0, "".join(shown)
        ran += result.attempted
    assert ran == 20
