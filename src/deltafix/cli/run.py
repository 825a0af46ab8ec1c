"""`deltafix run`: fact files in, result files out, by Soufflé's command-line convention.

Invariant: nothing is written before every rule has been evaluated, and all of the input is one
transaction, so a run that fails leaves the output folder as it was.
"""

from __future__ import annotations

import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import typer

from deltafix.cli.console import note, prepare_kernel, progress
from deltafix.cli.inputs import (
    FACT_DIR,
    MaxRecursion,
    MaxRounds,
    MaxRows,
    Strict,
    Timeout,
    facts_folder,
    given,
    read_inputs,
    warner,
)
from deltafix.cli.loaded import insert
from deltafix.cli.program_options import (
    FunctorsFile,
    Include,
    Macros,
    WordSize,
    read_functors,
    reading,
)
from deltafix.diagnostics import render
from deltafix.paths import local_path
from deltafix.rules.schemas import row_schemas

if TYPE_CHECKING:
    from deltafix.engine.database import Database
    from deltafix.facts.schema import Schema
    from deltafix.rules.ast import Program

Strategy: TypeAlias = Literal[
    "wavefront", "local", "deletes_first", "inserts_first", "dred", "recompute", "auto"
]
"""What `deltafix.connect` takes: spelled here so that `--help` need not load the kernel."""

_TO_STDOUT: Final = "-"

_NAMED: Final = 3
"""Files that a note names."""


def run(
    program_file: Annotated[
        Path, typer.Argument(help="The program (.dl, or .sql).", metavar="PROGRAM")
    ],
    *,
    facts: Annotated[Path, FACT_DIR] = Path(),
    output: Annotated[
        str,
        typer.Option(
            "-D", "--output-dir", metavar="FOLDER", help="Folder for the .csv files; - prints them."
        ),
    ] = ".",
    strategy: Annotated[
        Strategy, typer.Option(help="Schedule of maintenance; see docs/semantics.md.")
    ] = "wavefront",
    max_rows: MaxRows = None,
    max_rounds: MaxRounds = None,
    max_recursion: MaxRecursion = None,
    timeout: Timeout = None,
    functors: FunctorsFile = None,
    word_size: WordSize = None,
    include: Include = None,
    macros: Macros = None,
    strict: Strict = False,
    jobs: Annotated[
        str | None,
        typer.Option(
            "-j",
            "--jobs",
            metavar="[N]",
            help="Threads that share a large evaluation; auto, as without: one a processor.",
        ),
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Print what was done, and its time, to stderr.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No notes, no warnings, no progress.")
    ] = False,
) -> None:
    """Evaluate a program on a folder of facts, as Soufflé does.

    `.input` relations are read from FACT_DIR/<relation>.facts (tab-separated), `.output`
    relations are written to OUTPUT_DIR/<relation>.csv, `.printsize` prints sizes. For a script of
    SQL, tables are read from FACT_DIR/<table>.parquet or .csv, and views are written likewise.
    """
    settings = given(
        strategy=strategy,
        max_rows=max_rows,
        max_rounds=max_rounds,
        max_recursion=max_recursion,
        timeout=timeout,
        threads=_threads(jobs),
    )
    if program_file.suffix == ".sql":
        from deltafix.cli.sql import run_views  # noqa: PLC0415  quick --help

        if functors is not None or word_size is not None or include or macros or strict or profile:
            taken = "-F, -D, -j, --strategy, --max-rows, --max-rounds, "
            taken += "--max-recursion, --timeout"
            raise typer.BadParameter(f"a script of SQL is run with {taken}")
        folder = None if output == _TO_STDOUT else local_path(output)
        run_views(program_file, facts, folder, settings, quiet=quiet)
        return
    import deltafix  # noqa: PLC0415  quick --help
    from deltafix.datalog.program import Program as Checked  # noqa: PLC0415

    if program_file.suffix == ".toml":
        message = f"{program_file} is a pipeline; deltafix pipeline run {program_file} runs it"
        raise typer.BadParameter(message)
    program = Checked.from_file(program_file, **reading(word_size, include, macros))
    for warning in program.warnings:
        note(render(warning, program.source), quiet=quiet)
    users = read_functors(program, functors)
    schemas = row_schemas(program)
    facts = facts_folder(program, facts, quiet=quiet)
    clock = _Clock()
    with progress("reading facts", quiet=quiet):
        inputs = read_inputs(program, schemas, facts, warner(strict=strict, quiet=quiet))
    clock.lap("reading")
    prepare_kernel(quiet=quiet)
    with deltafix.connect(
        program,
        **settings,
        profile=profile,
        **users,
    ) as db:
        clock.lap("opening")
        with progress("evaluating", quiet=quiet), db.transaction() as tx:
            insert(tx, inputs)
        clock.lap("evaluating")
        _write(program, schemas, db, None if output == _TO_STDOUT else local_path(output), quiet)
        clock.lap("writing")
        if profile:
            _report(db, clock)


def _threads(jobs: str | None) -> int | None:
    """What `-j` says: None is one thread a processor. Raises typer.BadParameter."""
    if jobs is None or jobs == "auto":
        return None
    if jobs.isdecimal() and int(jobs) > 0:
        return int(jobs)
    raise typer.BadParameter(f"{jobs!r} is neither a number of threads, 1 or more, nor `auto`")


def _write(
    program: Program, schemas: dict[str, Schema], db: Database, folder: Path | None, quiet: bool
) -> None:
    from deltafix.facts.sink import print_size, write_output  # noqa: PLC0415  quick --help

    outputs = [item for item in program.directives if item.kind in ("output", "printsize")]
    if not outputs:
        note("note: no .output and no .printsize, so there is nothing to write", quiet=quiet)
    written: dict[str, None] = {}
    for directive in outputs:
        name = directive.relation
        if directive.kind == "printsize":
            print_size(name, db.count(name), sys.stdout)
        else:
            printed = folder is None or directive.parameters.get("IO") in ("stdout", "json")
            with progress(f"writing {name}", quiet=quiet or printed):
                rows = db.ordered(name)
                path = write_output(schemas[name], directive.parameters, rows, folder, sys.stdout)
            written |= {} if path is None else {str(path): None}
    if written and folder == Path():
        more = ", ..." if len(written) > _NAMED else ""
        names = ", ".join([*written][:_NAMED])
        note(f"note: the outputs are here, as {names}{more}; -D - prints them", quiet=quiet)


class _Clock:
    """Seconds of wall clock per stage, in the order in which the stages ended."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] = now - self._last
        self._last = now


def _report(db: Database, clock: _Clock) -> None:
    from deltafix.plan.explain import explain  # noqa: PLC0415  quick start

    epoch = db.last_epoch
    planned = [rule for stratum in explain(db.plan)["strata"] for rule in stratum["rules"]]
    planned.sort(key=lambda rule: rule["clause"].startswith("~"))  # the planner's own come last
    written: dict[int, str] = {}  # by the numbers of `deltafix plan`, a name before a text
    for rule in planned:
        written.setdefault(rule["rule"], rule["name"] or rule["clause"])
    lines = [f"{stage:<16}{seconds:>14.3f} s" for stage, seconds in clock.seconds.items()]
    for field in fields(epoch):
        value = getattr(epoch, field.name)
        if field.name == "strata":
            lines.extend(f"stratum {name:<24}{taken:>14.6f} s" for name, taken in value.items())
        elif field.name == "rules":
            lines.extend(
                f"rule {number + 1:<11}{count:>14}  {written.get(number + 1, '')}".rstrip()
                for number, count in value.items()
            )
        elif isinstance(value, tuple):
            lines.append(f"{field.name:<16}{', '.join(value) or 'none':>14}")
        else:
            shown = f"{value:>14.6f} s" if isinstance(value, float) else f"{value:>14}"
            lines.append(f"{field.name:<16}{shown}")
    note("\n".join(lines))
