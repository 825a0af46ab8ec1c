"""`deltafix watch`: the rows that come and go as fact files change, signed, one a line."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated

import typer

from deltafix.cli.completion import relations as completed
from deltafix.cli.console import note, progress
from deltafix.cli.inputs import FACT_DIR, StrictlyFollowed, facts_folder, warner
from deltafix.cli.loaded import followed, loaded
from deltafix.cli.output import changed_rows
from deltafix.cli.program_options import FunctorsFile, Include, Macros, WordSize, reading
from deltafix.cli.sql import watch_views
from deltafix.diagnostics import plural

if TYPE_CHECKING:
    from deltafix.engine.database import Database
    from deltafix.facts.delta import Delta


def watch(
    program_file: Annotated[
        Path, typer.Argument(help="The program (.dl, or .sql).", metavar="PROGRAM")
    ],
    *,
    facts: Annotated[Path, FACT_DIR] = Path(),
    relations: Annotated[
        list[str] | None,
        typer.Option(
            "--relation",
            "-r",
            metavar="NAME",
            help="Print only this relation. Repeatable.",
            autocompletion=completed,
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Print every relation, not only .output ones.")
    ] = False,
    interval: Annotated[
        float,
        typer.Option(min=0.01, metavar="SECONDS", help="Seconds between two looks at the files."),
    ] = 0.3,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, metavar="COUNT", help="End after so many changes; else Ctrl-C ends."),
    ] = None,
    functors: FunctorsFile = None,
    word_size: WordSize = None,
    include: Include = None,
    macros: Macros = None,
    strict: StrictlyFollowed = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes.")] = False,
) -> None:
    """Keep a program's output up to date with its fact files and rules, and print what changes.

    `+path("a", "c")` came, `-path("a", "c")` went: because a fact file was saved, or the program.
    A file that cannot be read is told of on standard error; its old rows or rules stay until it can
    be. Warnings of the program are told at the start, and after a save those that are new. Of a
    script of SQL, `+view` and `-view` lines follow each table's file (<table>.parquet or .csv).
    """
    if program_file.suffix == ".sql":
        if functors is not None or word_size is not None or include or macros or strict or every:
            raise typer.BadParameter("a script of SQL is watched with -F, -r, --interval, --epochs")
        watch_views(program_file, facts, relations or (), interval, epochs, quiet=quiet)
        return
    from deltafix.engine.follow import FactFolder  # noqa: PLC0415  quick --help
    from deltafix.engine.literals import schema_named  # noqa: PLC0415

    options = reading(word_size, include, macros)
    program = followed(program_file, functors, options)
    with loaded(program_file, None, functors, options, strict=strict, quiet=quiet) as db:
        named = {schema_named(name, db.schemas).relation for name in relations or ()}
        passed_over, doubt = warner(strict=strict, quiet=quiet), partial(note, quiet=quiet)
        facts = facts_folder(db.program, facts, quiet=quiet)
        folder = FactFolder(db, facts, note, passed_over, program, doubt=doubt)
        with progress("reading facts and evaluating", quiet=quiet):
            first = folder.load()
        _print(first, named or _chosen(db, every))
        files = len(folder.paths)
        note(f"watching {plural(files, 'file')}, Ctrl-C ends", quiet=quiet)
        left = epochs
        while left is None or left > 0:
            sleep(interval)
            with progress("evaluating", quiet=quiet):
                delta = folder.poll()
            if delta is not None:
                _print(delta, named or _chosen(db, every))
                note(db.last_epoch.show(), quiet=quiet)
                left = None if left is None else left - 1


def _chosen(db: Database, every: bool) -> set[str]:
    outputs = {
        directive.relation for directive in db.program.directives if directive.kind == "output"
    }
    return set(db.schemas) if every or not outputs else outputs


def _print(delta: Delta, chosen: set[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in changed_rows(delta, chosen))
    sys.stdout.flush()
