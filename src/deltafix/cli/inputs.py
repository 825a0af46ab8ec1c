"""The rows that a program's `.input` directives name, read for a command.

Values beyond a relation's columns, which Soufflé passes over, are warned of; `--strict` makes them
errors. A fact file that is not there is one, but where files are followed: it may come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from deltafix.cli.console import note
from deltafix.doing import tell
from deltafix.errors import SourceError
from deltafix.facts.schema import Schema
from deltafix.paths import local_path
from deltafix.rules.ast import Program


def _folder(where: Path | None) -> Path | None:
    """The folder that -F names. Raises SourceError for a URL, which is not a folder that lacks."""
    folder = None if where is None else local_path(where)
    if folder is not None and not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        raise typer.BadParameter(f"{folder} {what}")
    return folder


def fact_dir(says: str = "Folder of the .facts files.") -> Any:
    """The option -F, which names a folder that is there."""
    return typer.Option("-F", "--fact-dir", callback=_folder, metavar="FOLDER", help=says)


FACT_DIR: Final = fact_dir()

MaxRows: TypeAlias = Annotated[
    int | None, typer.Option(min=1, metavar="COUNT", help="Fail beyond this many derived rows.")
]
MaxRounds: TypeAlias = Annotated[
    int | None,
    typer.Option(min=1, metavar="COUNT", help="Fail beyond this many facts taken up in recursion."),
]
MaxRecursion: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="COUNT",
        help="Bound on a recursion that may have no end (in SQL 10,000,000).",
    ),
]
Timeout: TypeAlias = Annotated[
    float | None,
    typer.Option(min=0, metavar="SECONDS", help="Fail after this many seconds of evaluation."),
]


def given(**settings: Any) -> dict[str, Any]:
    """The settings that an option gives; the others are as `connect` has them."""
    return {name: value for name, value in settings.items() if value is not None}


Strict: TypeAlias = Annotated[
    bool,
    typer.Option("--strict", help="More values in a line than columns are errors."),
]
StrictlyFollowed: TypeAlias = Annotated[
    bool,
    typer.Option("--strict", help="A missing fact file, and more values than columns, are errors."),
]


def warner(*, strict: bool, quiet: bool) -> Callable[[str], None] | None:
    """What hears of inputs that are passed over; nothing does where they are errors."""
    return None if strict else lambda message: note(f"warning: {message}", quiet=quiet)


def read_inputs(
    program: Program,
    schemas: Mapping[str, Schema],
    folder: Path,
    warn: Callable[[str], None] | None,
    *,
    may_lack: bool = False,
) -> list[tuple[str, Any]]:
    """Relation and rows of every `.input` directive, in order. Raises what `read_input` raises."""
    from deltafix.facts.source import input_path, read_input  # noqa: PLC0415  quick --help

    inputs = [directive for directive in program.directives if directive.kind == "input"]
    taken = [input_path(one.relation, one.parameters, folder).name for one in inputs]
    read = partial(read_input, folder=folder, warn=warn, may_lack=may_lack, taken=taken)
    loaded: list[tuple[str, Any]] = []
    try:
        sizes = [
            _size(input_path(directive.relation, directive.parameters, folder))
            for directive in inputs
        ]
        for number, directive in enumerate(inputs):
            tell(f"reading {directive.relation}", sum(sizes[:number]), sum(sizes))
            loaded.append(
                (directive.relation, read(schemas[directive.relation], directive.parameters))
            )
    except SourceError as error:
        lacks = error.values.get("path")
        if not isinstance(lacks, str) or Path(lacks).exists():
            raise
        beside = _beside(program, Path(lacks).name, folder)
        if beside is None:
            raise
        message = str(error).rpartition("; ")[0]
        raise SourceError(f"{message}; `-F {beside}` has one", **error.values) from None
    tell("", sum(sizes), sum(sizes))
    return loaded


def _size(path: Path) -> int:
    """Of a file to read; 0 of what is none, which `read_input` says."""
    try:
        return path.stat().st_size
    except (OSError, ValueError):
        return 0


def facts_folder(program: Program, folder: Path, *, quiet: bool) -> Path:
    """The folder of a program's facts: the one given, or, without -F, one by the program.

    That is the program's own folder, or `facts` in that, where it has a fact file and the current
    one has none; a note says so, or that there is none anywhere.
    """
    if folder != Path():
        return folder
    names = _fact_files(program)
    if any(Path(name).is_file() for name in names):
        return folder
    beside = next(
        (candidate for name in names if (candidate := _beside(program, name, folder))), None
    )
    if beside is None:
        if names:
            message = "note: no facts are read, here or beside the program; -F names their folder"
            note(message, quiet=quiet)
        return folder
    note(f"note: facts are read from {beside}; -F names another folder", quiet=quiet)
    return beside


def facts_to_ask(program: Program, folder: Path | None, *, quiet: bool) -> Path | None:
    """As `facts_folder`, for a question, which a program may answer without facts: then None."""
    if folder is not None:
        return folder
    facts, names = facts_folder(program, Path(), quiet=quiet), _fact_files(program)
    return facts if any((facts / name).is_file() for name in names) else None


def _fact_files(program: Program) -> list[str]:
    """The names of the files that `.input` directives read."""
    from deltafix.facts.source import input_path  # noqa: PLC0415  quick --help

    return [
        input_path(directive.relation, directive.parameters, Path()).name
        for directive in program.directives
        if directive.kind == "input"
        and directive.parameters.get("IO", "file") in ("file", "jsonfile")
    ]


def _beside(program: Program, name: str, folder: Path) -> Path | None:
    """A folder beside the program with a file of a name that the folder of facts lacks."""
    if program.path is None:
        return None
    here = Path(program.path).parent
    candidates = (candidate for candidate in (here, here / "facts") if (candidate / name).is_file())
    return next(
        (candidate for candidate in candidates if candidate.resolve() != folder.resolve()), None
    )
