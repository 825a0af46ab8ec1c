"""`deltafix serve`: one local page, and the live door, over rules or SQL and their files."""

from __future__ import annotations

import contextlib
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deltafix.cli.console import note, prepare_kernel, progress, require_packages
from deltafix.cli.inputs import StrictlyFollowed, fact_dir, facts_folder, warner
from deltafix.cli.loaded import followed, loaded
from deltafix.cli.program_options import FunctorsFile, Include, Macros, WordSize, reading
from deltafix.cli.scripts import require_made, run_script, told
from deltafix.paths import local_path, read_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from deltafix.engine.database import Database
    from deltafix.sql import Connection
    from deltafix.sql.follow import TableFolder


def serve(
    program_file: Annotated[
        Path, typer.Argument(help="The program (.dl, or .sql).", metavar="PROGRAM")
    ],
    *,
    facts: Annotated[
        Path | None, fact_dir("Folder of the files that rows are of; this one, without --state.")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Keep rows in this folder, edits too; no file is looked at then."
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="0 takes any that is free.")
    ] = 8765,
    write: Annotated[
        bool, typer.Option("--write", help="Let the page and applications edit given rows.")
    ] = False,
    interval: Annotated[
        float,
        typer.Option(min=0.01, metavar="SECONDS", help="Seconds between two looks at the files."),
    ] = 0.3,
    key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Take the key from a file that only its owner may read; else random.",
        ),
    ] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="Let the web application at this origin ask, with the key. Repeatable.",
        ),
    ] = None,
    functors: FunctorsFile = None,
    word_size: WordSize = None,
    include: Include = None,
    macros: Macros = None,
    strict: StrictlyFollowed = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes.")] = False,
) -> None:
    """Open a page on a program: relations, live changes, a graph, proofs, plan and profile.

    Prints the page's address, which holds its key: whoever has it may look. A key of a file is not
    printed. The page is served on this machine only, follows the fact files and the program, and
    changes nothing unless --write is given. Of a script of SQL it shows tables and views, and
    follows each table's file (<table>.parquet or .csv). Applications read rows, changes and edit at
    the same address; those of web pages elsewhere are named by --origin. Edits are there after the
    next start with --state: a script is then run once, when the folder is made.
    """
    if state is not None and facts is not None:
        message = "rows are those of files (-F) or of a folder that keeps them (--state): give one"
        raise typer.BadParameter(message)
    is_sql = program_file.suffix == ".sql"
    require_packages(
        "serve", {"starlette": "web", "uvicorn": "web"} | ({"sqlglot": "sql"} if is_sql else {})
    )
    from deltafix.engine.follow import FactFolder  # noqa: PLC0415  quick --help
    from deltafix.web.guard import origin_of, read_token  # noqa: PLC0415  an extra
    from deltafix.web.server import Server  # noqa: PLC0415

    open_server = partial(  # what it refuses is told before facts are read
        Server,
        port=port,
        writable=write,
        title=program_file.name,
        token=None if key_file is None else read_token(key_file),
        origins=[origin_of(url) for url in origin or ()],
    )

    def run(db: Database | Connection, folder: FactFolder | TableFolder | None) -> None:
        server = open_server(db)
        if key_file is None:
            sys.stdout.write(f"{server.url}\n")
        else:  # what is printed may be kept in a log
            sys.stdout.write(f"{server.address}\n")
            note(f"the page is at {server.address}KEY/, with the key in {key_file}", quiet=quiet)
        sys.stdout.flush()
        note("Ctrl-C ends", quiet=quiet)
        server.run(folder, interval)

    if is_sql:
        if functors is not None or word_size is not None or include or macros or strict:
            taken = "-F, --state, --port, --write, --interval, --key-file, --origin"
            raise typer.BadParameter(f"a script of SQL is served with {taken}")
        _serve_sql(program_file, facts or Path(), state, run, quiet=quiet)
        return
    options = reading(word_size, include, macros)
    if state is not None:
        opened = loaded(program_file, None, functors, options, state=local_path(state),
                        strict=strict, quiet=quiet)  # fmt: skip
        with opened as db:
            run(db, None)
        return
    program = followed(program_file, functors, options)
    with loaded(program_file, None, functors, options, strict=strict, quiet=quiet) as db:
        passed_over, doubt = warner(strict=strict, quiet=quiet), partial(note, quiet=quiet)
        facts = facts_folder(db.program, facts or Path(), quiet=quiet)
        folder = FactFolder(db, facts, note, passed_over, program, doubt=doubt)
        with progress("reading facts and evaluating", quiet=quiet):
            folder.load()
        run(db, folder)


def _serve_sql(
    script: Path,
    facts: Path,
    state: Path | None,
    run: Callable[[Connection, TableFolder | None], None],
    *,
    quiet: bool,
) -> None:
    import deltafix.sql as door  # noqa: PLC0415  quick --help
    from deltafix.sql.follow import TableFolder  # noqa: PLC0415  pyarrow is slow

    prepare_kernel(quiet=quiet)
    text = read_text(script)
    with contextlib.closing(door.connect(":memory:" if state is None else local_path(state))) as db:
        if state is not None and db.catalog.definitions:
            require_made(db, script, text, str(state))
            note(told(script, str(state)), quiet=quiet)
        else:
            with progress(f"running {script.name}", quiet=quiet):
                run_script(db, text, str(script), whole=state is not None)
        if state is not None:
            run(db, None)
            return
        with progress("reading files", quiet=quiet):
            folder = TableFolder(db, facts, partial(note, quiet=quiet), (script, text))
            folder.load()
        run(db, folder)
