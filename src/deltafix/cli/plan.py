"""`deltafix plan`: what is run for a program, and in what order joins may go."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from deltafix.cli.console import prepare_kernel, progress
from deltafix.cli.inputs import Strict, fact_dir
from deltafix.cli.loaded import loaded
from deltafix.cli.program_options import (
    FunctorsFile,
    Include,
    Macros,
    WordSize,
    read_functors,
    reading,
)
from deltafix.paths import read_text

if TYPE_CHECKING:
    from deltafix.rules.ast import Program


def plan(
    program_file: Annotated[
        Path, typer.Argument(help="The program (.dl, or .sql).", metavar="PROGRAM")
    ],
    *,
    facts: Annotated[
        Path | None,
        fact_dir("Folder of .facts files to take estimates from."),
    ] = None,
    functors: FunctorsFile = None,
    word_size: WordSize = None,
    include: Include = None,
    macros: Macros = None,
    strict: Strict = False,
    form: Annotated[
        Literal["text", "json"], typer.Option("--format", help="How the plan is printed.")
    ] = "text",
    stage: Annotated[
        Literal["typed", "executable", "core", "shared", "plan"],
        typer.Option("--stage", help="Print what this pass makes of the program."),
    ] = "plan",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes, no progress.")] = False,
) -> None:
    """Show the plan of a program: delta rules, join options, indexes and what they serve.

    Per stratum, rule and changed atom: the delta rule, and the atoms that may be joined next,
    which is decided while it runs, per binding. With a fact folder the program is evaluated
    first, and every option has an estimate: rows divided by keys. `--stage` prints an earlier
    form: `typed` (checked, types on constants), `executable` (inlined, on demand), `core` (flat
    clauses and aggregates).
    """
    from deltafix.datalog.program import Program as Checked  # noqa: PLC0415  quick --help
    from deltafix.plan.explain import explain  # noqa: PLC0415
    from deltafix.plan.tell import tell  # noqa: PLC0415

    options = reading(word_size, include, macros)
    program: Program
    if program_file.suffix == ".sql":
        if facts is not None or functors is not None:
            raise typer.BadParameter("a script of SQL is planned without --fact-dir and --functors")
        program = _of_views(program_file)
    else:
        program = Checked.from_file(program_file, **options)
        read_functors(program, functors)  # says what is wrong with it
    if stage != "plan":
        if facts is not None or form == "json":
            option = "--fact-dir" if facts is not None else "--format json"
            raise typer.BadParameter(f"{option} goes with --stage plan alone", param_hint="--stage")
        from deltafix.plan.build import forms  # noqa: PLC0415

        sys.stdout.write(dict(forms(program))[stage])
        return
    if facts is None:
        from deltafix.plan.build import plan as planned  # noqa: PLC0415  quick --help
        from deltafix.rules.check import typed  # noqa: PLC0415

        explained = explain(planned(typed(program)))
    else:
        from deltafix.engine.sizes import statistics  # noqa: PLC0415  numpy is slow

        opened = loaded(program_file, facts, functors, options, strict=strict, quiet=quiet)
        with opened as db, progress("counting keys", quiet=quiet):
            explained = explain(db.plan, statistics(db))
    if form == "json":
        sys.stdout.write(json.dumps(explained, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(tell(explained))


def _of_views(script: Path) -> Program:
    """The rules that a script's views are run by."""
    import deltafix.sql as door  # noqa: PLC0415  quick --help

    prepare_kernel()
    with door.connect() as db:
        db.execute(read_text(script), path=str(script))
        return db.catalog.program()
