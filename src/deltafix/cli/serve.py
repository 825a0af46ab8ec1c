"""`deltafix serve`: one local page over a program and its fact files."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from deltafix.cli.brought import FunctorsFile, Include, Macros, WordSize, reading
from deltafix.cli.console import note, progress
from deltafix.cli.inputs import FACT_DIR, Strict, warner
from deltafix.cli.loaded import followed, loaded
from deltafix.errors import MissingDependencyError

__all__ = ["serve"]


def serve(
    program_file: Annotated[Path, typer.Argument(help="The program (.dl).", metavar="PROGRAM")],
    *,
    facts: Annotated[Path, FACT_DIR] = Path(),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8765,
    write: Annotated[
        bool, typer.Option("--write", help="Let the page insert and delete given rows.")
    ] = False,
    interval: Annotated[
        float, typer.Option(min=0.01, help="Seconds between two looks at the files.")
    ] = 0.3,
    functors: FunctorsFile = None,
    word_size: WordSize = None,
    include: Include = None,
    macros: Macros = None,
    strict: Strict = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes.")] = False,
) -> None:
    """Open a page on a program: relations, live changes, a graph, proofs, plan and profile.

    Prints the page's address, which holds its key: whoever has it may look. It is served on this
    machine only, follows the fact files and the program, and changes nothing unless --write is
    given.
    """
    for package in ("starlette", "uvicorn"):
        if find_spec(package) is None:
            message = f"serve needs {package}: pip install 'deltafix[web]'"
            raise MissingDependencyError(message, extra="web")
    from deltafix.engine.follow import FactFolder  # noqa: PLC0415  quick --help
    from deltafix.web.server import Server  # noqa: PLC0415  an extra

    options = reading(word_size, include, macros)
    program = followed(program_file, functors, options)
    opened = loaded(
        program_file,
        None,
        functors=functors,
        reading=options,
        strict=strict,
        quiet=quiet,
    )
    with opened as db:
        folder = FactFolder(db, facts, note, warner(strict=strict, quiet=quiet), program)
        with progress("reading facts and evaluating", quiet=quiet):
            folder.load()
        server = Server(db, port=port, writable=write, title=program_file.name)
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        note("Ctrl-C ends", quiet=quiet)
        server.run(folder, interval)
