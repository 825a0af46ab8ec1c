"""Tab at the prompt of a session: the words that may come next.

Invariant: what is offered is there: a keyword, a function, or a table, view, relation or column of
the session; nothing is read from its rows. Tab in the shell that runs the command is
`cli.completion`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from deltafix.sql.catalog import Catalog

__all__ = ["offer", "sql_words"]


def offer(words: Callable[[str, str], Iterable[str]]) -> None:
    """Complete at the prompts of `input`, from now on.

    Args:
        words: given the line up to the word that is typed, and that word, what it may become.
    """
    import readline  # noqa: PLC0415  importing it gives input() editing and history

    def complete(typed: str, number: int) -> str | None:
        if number == 0:
            before = readline.get_line_buffer()[: readline.get_begidx()]
            matches[:] = sorted(
                {word for word in words(before, typed) if word.lower().startswith(typed.lower())}
            )
        return matches[number] if number < len(matches) else None

    matches: list[str] = []
    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n,;()<>=+-*/|")
    libedit = "libedit" in (readline.__doc__ or "")  # as Python on macOS has it
    readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")


def sql_words(catalog: Catalog, before: str, typed: str) -> list[str]:
    """What a word of a statement may become, after the text before it.

    After FROM and the like that is a table or a view, and after `x.` a column of what the statement
    calls x; else also a column, of the tables that the statement names so far if it names any.
    """
    from deltafix.sql.functions import NAMES  # noqa: PLC0415  quick --help

    shown = {**catalog.tables, **catalog.views}
    relations = [_written(name) for name in shown]
    if re.search(r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE|VIEW|USING)\s+\Z", before, re.IGNORECASE):
        return relations
    named = [name for name in shown if re.search(_word(_written(name)), before, re.IGNORECASE)]
    columns = {
        name: [_written(column.name) for column in catalog.relations[name].columns]
        for name in shown
    }
    alias, dot, _ = typed.rpartition(".")
    if dot:
        meant = [
            name
            for name in shown
            if alias.lower() == _written(name).lower()
            or re.search(
                rf"{_word(_written(name))}\s+(?:AS\s+)?{_word(alias)}", before, re.IGNORECASE
            )
        ]
        return [f"{alias}.{column}" for name in meant or named or shown for column in columns[name]]
    words = [*_KEYWORDS, *(f"{name}(" for name in sorted(NAMES))]
    if typed.islower():
        words = [word.lower() for word in words]
    return [*relations, *(column for name in named or shown for column in columns[name]), *words]


def _written(name: str) -> str:
    """A name as SQL has it: in quotes unless it is a plain one."""
    plain = re.fullmatch(r"[a-z_][a-z0-9_]*", name)
    return name if plain else '"' + name.replace('"', '""') + '"'


def _word(name: str) -> str:
    return rf"(?<!\w){re.escape(name)}(?!\w)"


_KEYWORDS: Final = (
    "ALTER TABLE", "AND", "AS", "ASC", "BEGIN", "BETWEEN", "BIGINT", "BLOB", "BOOLEAN", "CASCADE",
    "CASE", "CAST(", "CHECK", "COMMIT", "CREATE MATERIALIZED VIEW", "CREATE TABLE", "CROSS JOIN",
    "DATE", "DECIMAL(", "DEFAULT", "DELETE FROM", "DESC", "DISTINCT", "DOUBLE", "DROP TABLE",
    "DROP VIEW", "ELSE", "END", "EXCEPT", "EXISTS", "EXPLAIN", "EXPLAIN WHY", "EXPLAIN WHY NOT",
    "FALSE", "FILTER", "FROM", "FULL JOIN", "GROUP BY", "HAVING", "IN", "INSERT INTO", "INTEGER",
    "INTERSECT", "INTERVAL", "IS", "JOIN", "LATERAL", "LEFT JOIN", "LIKE", "LIMIT", "MERGE INTO",
    "NOT", "NULL", "OFFSET", "ON", "OR", "ORDER BY", "OVER", "PARTITION BY", "PRIMARY KEY",
    "QUALIFY", "REFERENCES", "RETURNING", "RIGHT JOIN", "ROLLBACK", "SELECT", "SET", "SMALLINT",
    "TEXT", "THEN", "TIMESTAMP", "TRUE", "TRUNCATE", "UNION", "UNION ALL", "UNIQUE", "UPDATE",
    "USING", "UUID", "VALUES", "WHEN", "WHERE", "WITH", "WITH RECURSIVE", "AVG(", "COUNT(", "MAX(",
    "MIN(", "SUM(",
)  # fmt: skip
