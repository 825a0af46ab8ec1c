"""The prompt of `deltafix sql`: what a person types, statements and commands with a dot.

Invariant: neither an error nor Ctrl-C ends the session; a line with a dot is a command where no
statement has begun. What statements do is the session's (`cli.sql`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from deltafix.cli.console import note
from deltafix.cli.tab import offer, sql_words
from deltafix.diagnostics import did_you_mean, plural
from deltafix.errors import DeltafixError, FactError, SourceError
from deltafix.interrupt import answer_oneself
from deltafix.paths import local_path, read_text

if TYPE_CHECKING:
    from deltafix.cli.sql import Session

_PROMPT: Final = "sql> "


def typed(session: Session) -> None:
    """Do what a person types, up to the end."""
    answer_oneself()
    note(_GREETING)
    for text in _lines(session):
        was_open, commits = session.db.in_transaction, session.db.commits
        try:
            if text.startswith((".", "\\")) or text.lower() in _WORDS:
                _command(session, text)
            else:
                session.run(text, "<sql>")
        except EOFError:
            return
        except DeltafixError as error:
            shown = f"error: {error}" if isinstance(error, FactError | SourceError) else str(error)
            sys.stderr.write(f"{shown}\n")
        except KeyboardInterrupt:
            what = "the statement changed nothing"
            if session.db.commits > commits:
                what = "what it changed was committed before"
            elif session.db.aborted is not None:
                what = "the transaction was rolled back; ROLLBACK ends it"
            elif was_open and not session.db.in_transaction:
                what = "the transaction was rolled back"
            sys.stderr.write(f"interrupted: {what}\n")


_GREETING: Final = (
    "statements end with ; and Ctrl-C drops one, Tab completes words; .tables lists tables and "
    "views, .help other commands, .quit (or Ctrl-D) ends the session"
)
_WORDS: Final = frozenset({"exit", "help", "quit"})
"""What is no beginning of a statement, and typed at prompts of others."""


def _lines(session: Session) -> Iterator[str]:
    """What a person types: commands, and statements up to a line that ends with a semicolon."""
    lines: list[str] = []

    def words(line: str, typed: str) -> list[str]:
        if not lines and not line and typed.startswith("."):
            return [*_COMMANDS]
        return sql_words(session.db.catalog, "\n".join((*lines, line)), typed)

    offer(words)
    while True:
        try:
            line = input(_PROMPT if not lines else "...> ")
        except EOFError:
            return
        except KeyboardInterrupt:
            sys.stdout.write("\n")
            lines.clear()
            continue
        word = line.strip().rstrip(";").strip()
        if not lines and (word.startswith((".", "\\")) or word.lower() in _WORDS):
            yield word
            continue
        if not lines and not line.strip():
            continue
        lines.append(line)
        if line.rstrip().endswith(";"):
            yield "\n".join(lines)
            lines.clear()


# --- commands ----------------------------------------------------------------------------------


class _Command(NamedTuple):
    takes: str
    says: str
    do: Callable[[Session, str], None]


def _command(session: Session, line: str) -> None:
    """Do what a line with a dot says, or with a backslash, as psql has it."""
    word, _, rest = line.partition(" ")
    name = _CALLED.get(word.lower().rstrip("+"), word.lower())
    if word.startswith("\\d") and rest:
        name = ".schema"
    command = _COMMANDS.get(name)
    if command is None:
        hint = did_you_mean(word, _COMMANDS, ".help lists what there is")
        raise FactError(f"there is no {word}: statements end with ;, and {hint}", value=word)
    command.do(session, rest.strip())


def _help(session: Session, _: str) -> None:
    session.say(f"{f'{name} {one.takes}':<22} {one.says}" for name, one in _COMMANDS.items())


def _tables(session: Session, _: str) -> None:
    """Show what there is, with columns and their types."""
    catalog = session.db.catalog
    for word, names in (("table", catalog.tables), ("view", catalog.views)):
        for name in names:
            columns = catalog.relations[name].columns
            shown = ", ".join(f"{column.name} {column.type.name}" for column in columns)
            session.say([f"{word} {name} ({shown})"])


def _schema(session: Session, name: str) -> None:
    definitions = session.db.catalog.definitions
    if name and name not in definitions:
        hint = did_you_mean(name, definitions, ".tables lists what there is")
        raise FactError(f"there is no table or view {name!r}: {hint}", value=name)
    session.say(f"{one.sql};" for of, one in definitions.items() if name in ("", of))


def _read(session: Session, file: str) -> None:
    if not file:
        raise FactError("use: .read FILE")
    path = local_path(file.strip("'\""))
    session.run(read_text(path), str(path))


def _import(session: Session, rest: str) -> None:
    from deltafix.sql.files import take_in  # noqa: PLC0415  pyarrow is slow

    file, _, table = rest.rpartition(" ")
    file = file.strip().strip("'\"")
    if not file:
        raise FactError("use: .import FILE TABLE", value=rest)
    tables = session.db.catalog.tables
    if table not in tables:
        hint = did_you_mean(table, tables, "CREATE TABLE makes one")
        raise FactError(f"there is no table {table!r}: {hint}", value=table)
    before = session.db.engine.count(table)
    others = take_in(session.db, table, Path(local_path(file)))
    session.say([f"{plural(session.db.engine.count(table) - before, 'row')} more in {table}"])
    if others:
        note(f"note: table {table} has no column {', '.join(others)}")


def _mode(session: Session, form: str) -> None:
    if form == "csv":
        session.form = "csv"
    elif form == "json":
        session.form = "json"
    elif form == "text":
        session.form = "text"
    else:
        raise FactError(f"rows are written as text, csv or json, and not as {form!r}", value=form)


def _quit(session: Session, _: str) -> None:
    raise EOFError


_COMMANDS: Final[Mapping[str, _Command]] = MappingProxyType(
    {
        ".help": _Command("", "this text", _help),
        ".import": _Command("FILE TABLE", "insert the rows of a .csv or .parquet file", _import),
        ".mode": _Command("text|csv|json", "how rows of SELECT are written", _mode),
        ".quit": _Command("", "leave, as Ctrl-D does", _quit),
        ".read": _Command("FILE", "run the statements of a file", _read),
        ".schema": _Command("[NAME]", "the CREATE of a table or view, or of all", _schema),
        ".tables": _Command("", "tables and views, with their columns", _tables),
    }
)
_CALLED: Final = MappingProxyType(
    {
        "\\?": ".help", "help": ".help", "\\i": ".read", "\\d": ".tables", "\\dt": ".tables",
        "\\dv": ".tables", "\\q": ".quit", ".exit": ".quit", "exit": ".quit", "quit": ".quit",
    }
)  # fmt: skip
"""What is typed at other prompts."""
