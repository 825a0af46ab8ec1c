"""Statements of other databases that there is no need for here, or another way: what to do instead.

Invariant: none of the words begins a statement that a connection takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["FROM_FILES", "instead_of"]

FROM_FILES: Final = (
    "`deltafix run SCRIPT.sql -F FOLDER` reads TABLE.csv or TABLE.parquet of a folder and writes "
    "the views, `deltafix sql SCRIPT.sql -F FOLDER -c '...'` asks, with --state it keeps them; in "
    "Python db.insert(table, frame) takes rows or a frame"
)
_INDEX: Final = "leave it out: what queries and keys look up is indexed by itself"
_NO_SETTINGS: Final = "leave it out: a connection is one database without settings in SQL"
_NOTHING_TO_DO: Final = "leave it out: there is nothing to be tidied"
_NO_RIGHTS: Final = "leave it out: whoever has the connection may do all"
_LIST: Final = "`.tables` at the prompt of `deltafix sql` lists tables and views with their columns"

_INSTEAD: Final = {
    ("ANALYZE",): _NOTHING_TO_DO,
    ("ATTACH",): _NO_SETTINGS,
    ("CHECKPOINT",): _NOTHING_TO_DO,
    ("COMMENT",): "leave it out, or write `-- ...` into the script",
    ("COPY",): FROM_FILES,
    ("CREATE", "EXTENSION"): _NO_SETTINGS,
    ("CREATE", "FUNCTION"): "deltafix.sql.create_function takes a function of Python",
    ("CREATE", "INDEX"): _INDEX,
    ("CREATE", "ROLE"): _NO_RIGHTS,
    ("CREATE", "SCHEMA"): "leave it out, and write the names of tables alone",
    ("CREATE", "SEQUENCE"): "give each row its number",
    ("CREATE", "TRIGGER"): "db.subscribe(view) is told what changes with every commit",
    (
        "CREATE",
        "TYPE",
    ): "an ENUM is a TEXT with CHECK (x IN ('a', 'b')); structs are written in columns",
    ("CREATE", "UNIQUE", "INDEX"): "write UNIQUE (column, ...) into CREATE TABLE",
    ("DESC",): _LIST,
    ("DESCRIBE",): _LIST,
    ("DROP", "INDEX"): _INDEX,
    ("GRANT",): _NO_RIGHTS,
    ("LOAD",): FROM_FILES,
    ("LOCK",): "leave it out: transactions come one after another",
    ("OPTIMIZE",): _NOTHING_TO_DO,
    ("PRAGMA",): _NO_SETTINGS,
    ("REFRESH",): "leave it out: views follow their tables with every commit",
    ("REVOKE",): _NO_RIGHTS,
    ("SHOW",): _LIST,
    ("USE",): _NO_SETTINGS,
    ("VACUUM",): _NOTHING_TO_DO,
}


def instead_of(words: Sequence[str]) -> tuple[str, str] | None:
    """By the words that a statement begins with: those that say what it is, and what to do."""
    upper = tuple(word.upper() for word in words)
    for size in range(1, 4):
        instead = _INSTEAD.get(upper[:size])
        if instead is not None:
            return " ".join(upper[:size]), instead
    return None
