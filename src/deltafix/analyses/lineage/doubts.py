"""What may be read where a file, or a statement, cannot be read: whatever it names.

Invariant: a table that the text reads is among its names, or the text may name any: bytes that are
no text, and references that Jinja computes. Which of the names are tables, and which files dbt has
compiled, so that their own text does not count, is decided by the rules.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

from deltafix.analyses.facts import Fact
from deltafix.analyses.lineage.statements import is_model

MACRO: Final = "(macro)"

_NAME = re.compile(r"[\w$]+")
_QUOTED = re.compile(r"""\"([^"]+)\"|'([^']+)'|`([^`]+)`|\[([^\]]+)\]""")
_COMPUTED = re.compile(r"\b(?:ref|source)\(\s*[^'\"\s)]")


def doubts(path: str, data: bytes) -> set[Fact]:
    """The facts of a text that cannot be read, in the file of this path. O(bytes)."""
    file = PurePosixPath(path)
    role = file.stem if is_model(path) else MACRO if "macros" in file.parts[:-1] else ""
    facts: set[Fact] = {("skipped", (path, role))}
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if not text or "\0" in text or _COMPUTED.search(text):
        return facts | {("may_name_any", (path,))}
    names = set(_NAME.findall(text))
    names.update(name for found in _QUOTED.findall(text) for name in found if name)
    for name in names:  # dialects fold names to either case
        facts.update(("may_name", (path, one)) for one in (name, name.lower(), name.upper()))
    return facts
