"""LIKE of the kernel, which looks at bytes, says what Python's says of characters."""

from __future__ import annotations

from random import Random

import deltafix.sql
from deltafix.rules.like import is_like


def test_the_kernel_finds_the_texts_that_python_finds() -> None:
    """Few letters, of one to three bytes, so that what begins like a segment often is none."""
    random = Random(7)

    def some(letters: str, most: int) -> str:
        return "".join(random.choice(letters) for _ in range(random.randrange(most)))

    texts = sorted({some("abé€%_", 9) for _ in range(600)})
    patterns = sorted({some("aabé€%%_", 6) for _ in range(25)} | {r"%\%%", r"%a\_%", "%\\\\"})
    made = [
        f"CREATE VIEW v{n} AS SELECT x FROM t WHERE x LIKE '{pattern}' ESCAPE '\\';"
        for n, pattern in enumerate(patterns)
    ]
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (x VARCHAR NOT NULL)")
        db.insert("t", [(text,) for text in texts])
        db.execute("\n".join(made))
        found = 0
        for n, pattern in enumerate(patterns):
            holds = is_like(pattern)
            rows = sorted(x for (x,) in db.execute(f"SELECT x FROM v{n}"))
            assert rows == [text for text in texts if holds(text)], pattern
            found += len(rows)
    assert found > 1000
