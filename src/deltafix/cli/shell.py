"""`deltafix shell`: edit facts, commit, see what changed, ask.

Invariant: an error never ends a session that a person types; in a script (input that is no
terminal) `--strict` makes the first error end it with exit code 2. What a line means is
`session`'s business.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from deltafix.cli.brought import FunctorsFile, Include, Macros, WordSize, reading
from deltafix.cli.console import note
from deltafix.cli.inputs import fact_dir
from deltafix.cli.loaded import loaded
from deltafix.cli.session import Session
from deltafix.errors import DeltafixError, ProgramError


def shell(
    program_file: Annotated[Path, typer.Argument(help="The program (.dl).", metavar="PROGRAM")],
    *,
    facts: Annotated[
        Path | None,
        fact_dir("Load the .input relations from this folder first."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="Keep the given rows in this folder, from one session to the next."),
    ] = None,
    functors: FunctorsFile = None,
    word_size: WordSize = None,
    include: Include = None,
    macros: Macros = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Missing fact files are errors; piped input ends at the first error, code 2.",
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No greeting, no notes.")] = False,
) -> None:
    """Work on a program's facts line by line; `.help` inside says how."""
    opened = loaded(
        program_file,
        facts,
        functors=functors,
        reading=reading(word_size, include, macros),
        state=state,
        strict=strict,
        quiet=quiet,
    )
    with opened as db:
        session = Session(db)
        interactive = sys.stdin.isatty()
        if interactive:
            note(f"{program_file}: {len(db.schemas)} relations; .help lists commands", quiet=quiet)
        _loop(session, interactive, strict)
        if session.pending:
            note(f"{session.pending} uncommitted edit(s) dropped", quiet=quiet)
            session.rollback()


def _loop(session: Session, interactive: bool, strict: bool) -> None:
    for line in _typed(session) if interactive else sys.stdin:
        epoch = session.db.epoch
        try:
            answer = session.execute(line)
        except DeltafixError as error:
            if strict and not interactive:
                raise
            shown = str(error) if isinstance(error, ProgramError) else f"error: {error}"
            sys.stderr.write(f"{shown}\n")
            continue
        except KeyboardInterrupt:
            if not interactive:
                raise
            what = "the line has changed nothing that is committed"
            if session.db.epoch != epoch:  # an interrupt may come right behind a commit
                what = f"what it changed was committed before, as epoch {session.db.epoch}"
            sys.stderr.write(f"interrupted: {what}\n")
            continue
        if answer:
            sys.stdout.write(f"{answer}\n")
            sys.stdout.flush()
        if session.done:
            return


def _typed(session: Session) -> Iterator[str]:
    import readline  # noqa: F401, PLC0415  importing it gives input() editing and history

    while True:
        try:
            yield input("deltafix*> " if session.pending else "deltafix> ")
        except EOFError:
            sys.stdout.write("\n")
            return
        except KeyboardInterrupt:
            sys.stdout.write("\n")
