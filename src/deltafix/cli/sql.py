"""`deltafix sql`: scripts of SQL, and statements typed or piped in; changes of views are shown.

Invariant: results go to standard output, one row a line with tabs between, NULL as `NULL`; a
transaction's changes follow as `+view` and `-view` lines. Rows as CSV or JSON stand alone. Neither
an error nor Ctrl-C ends a session that a person types; in files and piped input an error ends the
run with exit code 2.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import typer

from deltafix.cli.console import hidden, note, prepare_kernel, printing, progress
from deltafix.cli.inputs import MaxRecursion, MaxRounds, MaxRows, Timeout, fact_dir, given
from deltafix.cli.output import changed
from deltafix.cli.scripts import is_made, is_whole, require_made, told
from deltafix.diagnostics import did_you_mean, plural
from deltafix.doing import tell
from deltafix.errors import SourceError, UnknownRelationError
from deltafix.facts.logical import line_of
from deltafix.paths import read_text

if TYPE_CHECKING:
    from deltafix.sql import Connection, Subscription, ViewDelta
    from deltafix.sql.reading import Result

Dialect: TypeAlias = Literal["duckdb", "postgres", "spark"]
"""What `deltafix.sql.connect` takes."""

Form: TypeAlias = Literal["text", "csv", "json"]


def sql(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Scripts, run in order.", metavar="[FILE]...")
    ] = None,
    *,
    commands: Annotated[
        list[str] | None,
        typer.Option(
            "-c",
            "--command",
            metavar="SQL",
            help="Statements to run after the files. Repeatable: what was run before one that "
            "fails stays, unless BEGIN opened a transaction.",
        ),
    ] = None,
    dialect: Annotated[Dialect, typer.Option(help="Whose SQL it is.")] = "duckdb",
    facts: Annotated[
        Path | None,
        fact_dir(
            "Take in each table's file of this folder after the scripts: TABLE.parquet, .csv, or a "
            "folder TABLE of such part files. "
            "Without one, and without rows, a table is an error. "
            "With --state its rows are those of the file from then on, by the difference."
        ),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(help="Keep tables and views in a folder: by path or URL.", metavar="FOLDER"),
    ] = None,
    form: Annotated[
        Form,
        typer.Option(
            "--format",
            help="How rows of SELECT are written; csv (with a header) and json (a line a row): "
            "these alone, no changes of views.",
        ),
    ] = "text",
    max_rows: MaxRows = None,
    max_rounds: MaxRounds = None,
    max_recursion: MaxRecursion = None,
    timeout: Timeout = None,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            help="No changes of views, no progress; no notes, but of tables of --state without "
            "their file.",
        ),
    ] = False,
) -> None:
    """Run SQL: tables in memory or a folder, views kept up to date, and what changed in each.

    Without files and without -c, statements come from the terminal or from standard input. With
    --state a script that makes tables or views is one transaction, and is run once: where they are
    there, it is compared with them.
    """
    rules = next((file for file in files or () if file.suffix == ".dl"), None)
    if rules is not None:
        raise typer.BadParameter(f"{rules} is a program of rules: `deltafix run {rules}`")
    data = next((file for file in files or () if file.suffix in (".csv", ".parquet")), None)
    if data is not None:
        message = f"{data} is no script: -F {data.parent} reads the files of tables in a folder"
        raise typer.BadParameter(message)
    import deltafix.sql as door  # noqa: PLC0415  quick --help

    prepare_kernel(quiet=quiet)
    with contextlib.ExitStack() as stack:
        with progress("opening the state", quiet=quiet):
            opened = door.connect(
                state or ":memory:",
                dialect=dialect,
                **given(
                    max_rows=max_rows,
                    max_rounds=max_rounds,
                    max_recursion=max_recursion,
                    timeout=timeout,
                ),
            )
            db = stack.enter_context(contextlib.closing(opened))
        session = Session(db, quiet=quiet, form=form)
        for file in files or ():
            _run_file(session, file, state, quiet=quiet)
        if facts is not None:
            with progress("reading files", quiet=quiet):
                take_files(db, facts, replace=state is not None, quiet=quiet)
        for command in commands or ():
            session.run(command, "-c")
        if files or commands:
            if _waits():
                note(f"note: {_UNREAD}", quiet=quiet)
        elif sys.stdin.isatty():
            from deltafix.cli.sql_prompt import typed  # noqa: PLC0415  readline

            typed(session)
        else:
            session.run(sys.stdin.read(), "<stdin>")
        if db.in_transaction:
            note("note: BEGIN opened a transaction that nothing committed; it is rolled back")


def _run_file(session: Session, file: Path, state: str | None, *, quiet: bool) -> None:
    """Run a script; what makes tables or views in a state, whole, or not where they are there."""
    db, text, path = session.db, read_text(file), str(file)
    if state is None or not is_whole(db, text, path):
        session.run(text, path)
    elif is_made(db, text, path):
        require_made(db, file, text, state)
        note(told(file, state), quiet=quiet)
    else:
        db.begin()
        with db:
            session.run(text, path)


_UNREAD: Final = (
    "standard input was not run, as there are files or -c; among files it is /dev/stdin"
)


def _waits() -> bool:
    """Whether standard input is a file or a pipe with something in it. Reads nothing."""
    try:
        import fcntl  # noqa: PLC0415  where there is none, nothing is noticed
        import termios  # noqa: PLC0415

        given = sys.stdin.fileno()
        about = os.fstat(given)
        if stat.S_ISREG(about.st_mode):
            return about.st_size > os.lseek(given, 0, os.SEEK_CUR)
        if stat.S_ISFIFO(about.st_mode):
            return any(fcntl.ioctl(given, termios.FIONREAD, bytes(4)))
    except (ImportError, OSError, ValueError, AttributeError):  # or standard input is no file
        pass
    return False


class Session:
    """A connection whose results and changes are printed."""

    def __init__(
        self, db: Connection, *, quiet: bool, form: Form = "text", views: Collection[str] = ()
    ) -> None:
        self.db = db
        self._quiet = quiet
        self.form = form
        self._views = views  # these alone, if there are any
        self._watched: dict[str, Subscription] = {}
        self._watch()

    def run(self, text: str, path: str) -> None:
        """Run the statements of a text one by one."""
        with progress(path, quiet=self._quiet):
            for result in self.db.run(text, (), path):
                self._watch()
                if not isinstance(result, int):
                    self.say(_lines(result, self.form))

    def say(self, lines: Iterable[str]) -> None:
        """Write lines to standard output."""
        _print(lines)

    def _changed(self, delta: ViewDelta) -> None:
        if self.form == "text":
            print_delta(delta)

    def _watch(self) -> None:
        """Show the changes of views made since, and of those that were dropped and made again."""
        if self._quiet or self.form != "text":
            return
        for name in self._views or self.db.catalog.views:
            watched = self._watched.get(name)
            is_heard = watched is not None and watched.is_open
            if name in self.db.catalog.views and not is_heard:
                self._watched[name] = self.db.subscribe(name, self._changed)


def _lines(result: Result, form: Form) -> Iterable[str]:
    """The rows of a SELECT as they are printed. Raises SourceError for JSON of two such columns."""
    from deltafix.sql.types import shown_rows  # noqa: PLC0415  quick --help

    rows = shown_rows(result.rows, result.columns)
    if form == "text":
        return map(line_of, rows)
    if form == "csv":
        from deltafix.sql.cursor import as_arrow  # noqa: PLC0415  pyarrow is slow
        from deltafix.sql.files import csv_of  # noqa: PLC0415

        return [csv_of(as_arrow(rows, result.columns)).removesuffix("\n")]
    from deltafix.web.json_values import write_sql  # noqa: PLC0415  quick --help

    names = [column.name for column in result.columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SourceError(f"two columns {twice!r} are one in JSON: name one AS ...", value=twice)
    objects = (dict(zip(names, map(write_sql, row), strict=True)) for row in rows)
    return (json.dumps(object_, ensure_ascii=False) for object_ in objects)


def print_delta(delta: ViewDelta) -> None:
    """Print what changed in a view, signed, one row a line."""
    view = delta.view
    rows = (f"{'+' if sign > 0 else '-'}{view}\t{line_of(row)}" for sign, row in delta.signed())
    _print(changed(view, rows, len(delta)))


def _print(lines: Iterable[str]) -> None:
    with printing():
        for line in lines:
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def take_files(db: Connection, facts: Path, *, replace: bool = False, quiet: bool) -> None:
    """Insert the rows of each table's file, as one transaction; or `replace` the table's by them.

    A table without a file keeps the rows that it has, which is told. It must have some, since a
    view says something else without them, and a name may be misspelt; but with `replace`, where
    they are kept from run to run, it is told whether `quiet` or not. Files that are of no table
    are told of. Raises SourceError.
    """
    from deltafix.sql.files import (  # noqa: PLC0415  pyarrow is slow
        lacks_file,
        read_table,
        replace_from,
        size_of,
        table_file,
        take_in,
    )

    db.begin()
    read = {}
    files = {name: table_file(facts, name) for name in db.catalog.tables}
    others = _of_no_table(db, facts)
    for name in (name for name, path in files.items() if path is None):
        lacks = lacks_file(facts, name)
        count = db.engine.count(name)
        if not count and not replace:
            db.rollback()
            instead = did_you_mean(
                f"{name}.csv", others, "one without rows has a file of its header alone"
            )
            raise SourceError(f"table {name} has no rows: {lacks}; {instead}", value=name)
        left = f"keeps its {plural(count, 'row')}" if count else "has no rows"
        note(f"note: {lacks}; table {name} {left}", quiet=quiet and not replace)
    if others:
        hints = {file: did_you_mean(Path(file).stem, db.catalog.tables) for file in others}
        named = ", ".join(f"{file} ({hint})" if hint else file for file, hint in hints.items())
        note(f"note: not read, of no table, in {facts}: {named}", quiet=quiet)
    paths = {name: path for name, path in files.items() if path is not None}
    done, of = 0, sum(map(size_of, paths.values()))
    for name, path in paths.items():
        tell(f"taking in {name}", done, of)
        done += size_of(path)
        if replace:
            rows, more = read_table(path, db.catalog.tables[name].relation.columns)
            read[name] = path, rows
        else:
            more = take_in(db, name, path)
        if more:
            note(f"note: {path}: table {name} has no column {', '.join(more)}", quiet=quiet)
    replace_from(db, read)
    tell("", of, of)
    db.commit()


def _of_no_table(db: Connection, facts: Path) -> list[str]:
    """Files of a folder that are of no table, by their names; `run` writes those of views."""
    return sorted(
        file.name
        for file in facts.iterdir()
        if file.suffix in (".csv", ".parquet") and file.stem not in db.catalog.relations
    )


# --- deltafix run views.sql --------------------------------------------------------------------


def run_views(
    file: Path, facts: Path, output: Path | None, settings: Mapping[str, Any], *, quiet: bool
) -> None:
    """Run a script, read each table's file, and write each view: `deltafix run views.sql`.

    A table is FACT_DIR/<table>.parquet or .csv (with a header), of which there may be one; a table
    without a file keeps the rows of the script, and must have some. Views go to
    OUTPUT_DIR/<view>.csv, or to standard output. `settings` are those of `connect`.
    """
    import deltafix.sql as door  # noqa: PLC0415  quick --help
    from deltafix.sql.files import write_view  # noqa: PLC0415  pyarrow is slow

    prepare_kernel(quiet=quiet)
    with door.connect(**settings) as db, progress(f"running {file.name}", quiet=quiet):
        for _ in db.run(read_text(file), (), str(file)):
            pass
        take_files(db, facts, quiet=quiet)
        if not db.catalog.views:
            note("note: no view, so there is nothing to write", quiet=quiet)
        for number, name in enumerate(db.catalog.views):
            tell(f"writing {name}", number, len(db.catalog.views))
            rows = db.execute(f'SELECT * FROM "{name}"').to_arrow()  # noqa: S608
            with hidden():
                write_view(rows, name, output)
        if db.catalog.views and output == Path():
            note("note: the views are here, as <view>.csv; -D - prints them", quiet=quiet)


# --- deltafix watch views.sql ------------------------------------------------------------------


def watch_views(
    file: Path,
    facts: Path,
    views: Collection[str],
    interval: float,
    epochs: int | None,
    *,
    quiet: bool,
) -> None:
    """Run a script, follow each table's file, and print what comes and goes in views."""
    import deltafix.sql as door  # noqa: PLC0415  quick --help
    from deltafix.sql.follow import TableFolder  # noqa: PLC0415  pyarrow is slow

    prepare_kernel(quiet=quiet)
    with contextlib.closing(door.connect()) as db:
        text = read_text(file)
        Session(db, quiet=False, views=views).run(text, str(file))
        unknown = [name for name in views if name not in db.catalog.views]
        if unknown:
            known = ", ".join(db.catalog.views) or "none"
            message = f"{file} has no view {unknown[0]!r}; there are: {known}"
            raise UnknownRelationError(message, relation=unknown[0])
        folder = TableFolder(db, facts, note, (file, text))
        folder.load()
        files = len(folder.paths)
        note(f"watching {plural(files, 'file')}, Ctrl-C ends", quiet=quiet)
        last = None if epochs is None else db.commits + epochs
        while last is None or db.commits < last:
            sleep(interval)
            folder.poll()
