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
    from deltafix.engine.follow import Mark
    from deltafix.sql.dbt import Project, Relation

_BELOW: Final = " " * 9 + "not taken: "

_REFUSED: Final = 1
"""The exit code under --strict where something could not be taken, or a table has no file."""


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
        bool,
        typer.Option(
            "--strict", help="Exit with 1 if a relation is not maintained, or has no file."
        ),
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
        if strict and (refused or files.lack):
            raise typer.Exit(_REFUSED)


class _Files:
    """The files that sources and seeds are read from, and what they were when they were read."""

    def __init__(self, project: Project, facts: Path, *, quiet: bool) -> None:
        self._project = project
        self._facts = facts
        self._quiet = quiet
        self._stamps: dict[str, Mark | None] = {}

    @property
    def lack(self) -> bool:
        """Whether a table has no file now."""
        return None in self._stamps.values()

    def load(self) -> int:
        """Read what is new or has changed; how many rows of tables came and went."""
        from deltafix.engine.follow import mark_of  # noqa: PLC0415  quick --help
        from deltafix.sql.files import lacks_file, read_table  # noqa: PLC0415  pyarrow is slow

        db = self._project.connection
        total = 0
        tables = self._project.of("source", "seed", state="table")
        for number, table in enumerate(tables):
            path = self._path(table)
            stamp = mark_of(path) if path is not None else None
            if table.name in self._stamps and stamp == self._stamps[table.name]:
                continue
            is_first = table.name not in self._stamps
            self._stamps[table.name] = stamp
            if path is None or stamp is None:
                files = lacks_file(self._facts, table.name) if path is None else f"no {path}"
                if is_first:
                    note(f"note: {table.shown} has no rows: {files}", quiet=self._quiet)
                else:
                    note(f"{table.shown} is gone ({files}); its rows before stay", quiet=False)
                continue
            columns = db.catalog.tables[table.name].relation.columns
            tell(f"taking in {table.shown}", number, len(tables))
            try:
                # Of a source only what models read is declared.
                nulls = table.nulls if self._is_own(table, path) else "bare"
                rows, _ = read_table(path, columns, table.delimiter, nulls)
                total += self._project.load(table.name, rows)
            except DeltafixError as error:
                if is_first:
                    raise
                note(f"{error}\nits rows before stay", quiet=False)
        return total

    def _is_own(self, relation: Relation, path: Path) -> bool:
        """Whether dbt, too, reads this file."""
        return (
            relation.kind == "seed"
            or path == (self._project.folder.resolve() / relation.file).resolve()
        )

    def _path(self, relation: Relation) -> Path | None:
        if relation.kind == "seed":
            folder = self._project.folder.resolve()
            path = (folder / relation.path).resolve()
            if not path.is_relative_to(folder):
                raise DbtError(
                    f"seed {relation.shown}: {relation.path} is not in {folder}",
                    value=relation.path,
                )
            return path
        spelled = relation.shown.rpartition(".")[
            2
        ]  # with capitals that the adapter's names have not
        names = dict.fromkeys(
            [relation.name, spelled if spelled.lower() == relation.name else relation.name]
        )
        candidates = [self._facts / f"{n}.{kind}" for n in names for kind in ("parquet", "csv")]
        if relation.file:  # where dbt reads it, if that is the project's own
            folder = self._project.folder.resolve()
            own = (folder / relation.file).resolve()
            candidates += [own] if own.is_relative_to(folder) else []
        return next((path for path in candidates if path.is_file()), None)


def _count(project: Project, relation: Relation) -> int:
    (row,) = project.connection.execute(f'SELECT COUNT(*) FROM "{relation.name}"')  # noqa: S608
    return int(str(row[0]))


def _say(project: Project, form: str) -> None:
    lines = []
    for relation in project.relations:
        rows = _count(project, relation) if relation.state in ("table", "maintained") else None
        lines.append({**asdict(relation), "rows": rows})
    if form == "json":
        sys.stdout.write(json.dumps({"relations": lines}, indent=1) + "\n")
    else:
        width = max((len(relation.shown) for relation in project.relations), default=0)
        for relation, line in zip(project.relations, lines, strict=True):
            sys.stdout.write(
                f"{relation.kind:<8} {relation.shown:<{width}}  {_status(relation, line['rows'])}\n"
            )
    sys.stdout.flush()


def _status(relation: Relation, rows: int | None) -> str:
    if relation.state == "refused":
        return f"refused: {relation.why}"
    if relation.state == "waits":
        return f"waits for {relation.why}"
    if relation.kind == "test":
        return "passes" if rows == 0 else f"fails: {plural(rows or 0, 'row')}"
    status = f"{relation.state}, {plural(rows or 0, 'row')}"
    status += f", {', '.join(relation.keys)}" if relation.keys else ""
    return status + "".join(f"\n{_BELOW}{text}" for text in relation.untaken)


def _write(project: Project, folder: Path) -> None:
    from deltafix.sql.files import write_view  # noqa: PLC0415  pyarrow is slow

    for relation in project.of("model", state="maintained"):
        table = project.connection.execute(f'SELECT * FROM "{relation.name}"').to_arrow()  # noqa: S608
        write_view(table, relation.name, folder)


def _follow(
    project: Project, files: _Files, interval: float, changes: int | None, *, quiet: bool
) -> None:
    for relation in project.of("model", "test", state="maintained"):
        project.connection.subscribe(relation.name, print_delta)
    note("watching the sources' files, Ctrl-C ends", quiet=quiet)
    left = changes
    while left is None or left > 0:
        sleep(interval)
        with progress("reading files", quiet=quiet):
            changed = files.load()
        if changed and left is not None:
            left -= 1
