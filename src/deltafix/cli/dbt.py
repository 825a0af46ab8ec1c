"""`deltafix dbt`: the models of a dbt project, kept exact as its sources change.

Invariant: standard output has a line for each relation (or one JSON object), then with --watch a
signed line for each row of a model that came or went; notes go to standard error.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from deltafix.cli.console import note, prepare_kernel, progress
from deltafix.cli.inputs import fact_dir
from deltafix.cli.sql import print_delta
from deltafix.diagnostics import plural
from deltafix.doing import tell
from deltafix.errors import DbtError, DeltafixError

if TYPE_CHECKING:
    from deltafix.sql.dbt import Project, Relation

_BELOW: Final = " " * 9 + "not taken: "

_REFUSED: Final = 1
"""The exit code under --strict where something could not be taken."""


def dbt(
    target: Annotated[
        Path, typer.Argument(help="dbt's target folder, or the project's.", metavar="TARGET")
    ] = Path("target"),
    *,
    facts: Annotated[
        Path,
        fact_dir("Folder of the sources' rows: NAME.parquet or NAME.csv."),
    ] = Path(),
    output: Annotated[
        Path | None,
        typer.Option(
            "-D", "--output-dir", help="Write each model there, as CSV.", metavar="FOLDER"
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Follow the files, and print what changes in models.")
    ] = False,
    interval: Annotated[
        float,
        typer.Option(min=0.01, metavar="SECONDS", help="Seconds between two looks at the files."),
    ] = 0.5,
    changes: Annotated[
        int | None,
        typer.Option(min=1, metavar="COUNT", help="End after so many changes; else Ctrl-C ends."),
    ] = None,
    form: Annotated[
        Literal["text", "json"], typer.Option("--format", help="How to say what became of each.")
    ] = "text",
    keys: Annotated[
        bool,
        typer.Option(
            "--keys",
            help="Take unique and not_null tests of sources and seeds for keys: refuse other rows.",
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if a relation is not maintained.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes.")] = False,
) -> None:
    """Keep the models of a compiled dbt project exact, and say which could not be taken, and why.

    `dbt compile --full-refresh` and `dbt docs generate` leave what is read here; dbt itself is not
    needed. A test is a view of its failures.
    """
    from deltafix.sql.dbt import open_project  # noqa: PLC0415  quick --help

    prepare_kernel(quiet=quiet)
    with ExitStack() as stack:
        with progress("making the models", quiet=quiet):
            project = stack.enter_context(open_project(target, keys=keys))
        for line in project.untaken:
            note(f"note: {line}", quiet=quiet)
        files = _Files(project, facts, quiet=quiet)
        with progress("reading files", quiet=quiet):
            files.load()
        _say(project, form)
        if output is not None:
            with progress("writing models", quiet=quiet):
                _write(project, output)
        if watch:
            _follow(project, files, interval, changes, quiet=quiet)
        refused = project.of("source", "seed", "model", "snapshot", "test", state="refused")
        if strict and refused:
            raise typer.Exit(_REFUSED)


class _Files:
    """The files that sources and seeds are read from, and what they were when they were read."""

    def __init__(self, project: Project, facts: Path, *, quiet: bool) -> None:
        self._project = project
        self._facts = facts
        self._quiet = quiet
        self._stamps: dict[str, tuple[int, int] | None] = {}

    def load(self) -> int:
        """Read what is new or has changed; how many rows of tables came and went."""
        from deltafix.sql.files import read_table  # noqa: PLC0415  pyarrow is slow

        db = self._project.connection
        total = 0
        tables = self._project.of("source", "seed", state="table")
        for number, one in enumerate(tables):
            path = self._path(one)
            stamp = _stamp(path) if path is not None else None
            if one.name in self._stamps and stamp == self._stamps[one.name]:
                continue
            is_first = one.name not in self._stamps
            self._stamps[one.name] = stamp
            if path is None or stamp is None:
                files = (
                    f"no {path}"
                    if path is not None
                    else f"no {one.name}.parquet and no {one.name}.csv in {self._facts}"
                )
                if is_first:
                    note(f"note: {one.shown} has no rows: {files}", quiet=self._quiet)
                else:
                    note(f"{one.shown} is gone ({files}); its rows before stay", quiet=False)
                continue
            columns = db.catalog.tables[one.name].relation.columns
            tell(f"taking in {one.shown}", number, len(tables))
            try:
                # Of a source only what models read is declared.
                nulls = one.nulls if self._is_own(one, path) else "bare"
                rows, _ = read_table(path, columns, one.delimiter, nulls)
                total += self._project.load(one.name, rows)
            except DeltafixError as error:
                if is_first:
                    raise
                note(f"{error}\nits rows before stay", quiet=False)
        return total

    def _is_own(self, one: Relation, path: Path) -> bool:
        """Whether dbt, too, reads this file."""
        return one.kind == "seed" or path == (self._project.folder.resolve() / one.file).resolve()

    def _path(self, one: Relation) -> Path | None:
        if one.kind == "seed":
            folder = self._project.folder.resolve()
            path = (folder / one.path).resolve()
            if not path.is_relative_to(folder):
                raise DbtError(f"seed {one.shown}: {one.path} is not in {folder}", value=one.path)
            return path
        said = one.shown.rpartition(".")[2]  # with capitals that the adapter's names have not
        names = dict.fromkeys([one.name, said if said.lower() == one.name else one.name])
        found = [self._facts / f"{n}.{kind}" for n in names for kind in ("parquet", "csv")]
        if one.file:  # where dbt reads it, if that is the project's own
            folder = self._project.folder.resolve()
            there = (folder / one.file).resolve()
            found += [there] if there.is_relative_to(folder) else []
        return next((path for path in found if path.is_file()), None)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size


def _count(project: Project, one: Relation) -> int:
    (row,) = project.connection.execute(f'SELECT COUNT(*) FROM "{one.name}"')  # noqa: S608
    return int(str(row[0]))


def _say(project: Project, form: str) -> None:
    lines = []
    for one in project.relations:
        rows = _count(project, one) if one.state in ("table", "maintained") else None
        lines.append({**asdict(one), "rows": rows})
    if form == "json":
        sys.stdout.write(json.dumps({"relations": lines}, indent=1) + "\n")
    else:
        width = max((len(one.shown) for one in project.relations), default=0)
        for one, line in zip(project.relations, lines, strict=True):
            sys.stdout.write(f"{one.kind:<8} {one.shown:<{width}}  {_status(one, line['rows'])}\n")
    sys.stdout.flush()


def _status(one: Relation, rows: int | None) -> str:
    if one.state == "refused":
        return f"refused: {one.why}"
    if one.state == "waits":
        return f"waits for {one.why}"
    if one.kind == "test":
        return "passes" if rows == 0 else f"fails: {plural(rows or 0, 'row')}"
    said = f"{one.state}, {plural(rows or 0, 'row')}"
    said += f", {', '.join(one.keys)}" if one.keys else ""
    return said + "".join(f"\n{_BELOW}{text}" for text in one.untaken)


def _write(project: Project, folder: Path) -> None:
    from deltafix.sql.files import write_view  # noqa: PLC0415  pyarrow is slow

    for one in project.of("model", state="maintained"):
        table = project.connection.execute(f'SELECT * FROM "{one.name}"').to_arrow()  # noqa: S608
        write_view(table, one.name, folder)


def _follow(
    project: Project, files: _Files, interval: float, changes: int | None, *, quiet: bool
) -> None:
    for one in project.of("model", "test", state="maintained"):
        project.connection.subscribe(one.name, print_delta)
    note("watching the sources' files, Ctrl-C ends", quiet=quiet)
    left = changes
    while left is None or left > 0:
        sleep(interval)
        with progress("reading files", quiet=quiet):
            changed = files.load()
        if changed and left is not None:
            left -= 1
