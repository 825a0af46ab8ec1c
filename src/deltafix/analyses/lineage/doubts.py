"""What may be read where a file, or a statement, cannot be read: whatever it names.

Invariant: a table that the text reads is among its names, or those of a macro that it calls, or the
text may name any: bytes that are no text, and references that Jinja computes. Which of the names
are tables, which macros are there, and which files dbt has compiled, so that their own text does
not count, is decided by the rules.
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
_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_CALL = re.compile(r"(?<![\w.|])(?<!\|\s)([A-Za-z_][\w.]*)\s*\(")
_MACRO = re.compile(r"\{%-?\s*macro\s+(\w+)")
_READ_NOTHING = {
    "ref", "source", "config", "is_incremental", "return", "log", "range", "dict", "list",
    "namespace", "if", "elif", "in", "and", "or", "not",
}  # fmt: skip
"""What may stand before a parenthesis in Jinja, and is no macro."""
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
    names.update(name for groups in _QUOTED.findall(text) for name in groups if name)
    facts.update(("defines_macro", (name,)) for name in _MACRO.findall(text))
    if role != MACRO:
        called = {name for tag in _TAG.findall(text) for name in _CALL.findall(tag)}
        last = {name.rpartition(".")[2] for name in called - _READ_NOTHING}
        facts.update(("calls_macro", (path, name)) for name in last)
    for name in names:  # dialects fold names to either case
        facts.update(
            ("may_name", (path, spelling)) for spelling in (name, name.lower(), name.upper())
        )
    return facts
