"""`deltafix ask`: questions to the call graph and the imports of a Python tree.

Invariant: standard output has the answer alone, a line each as `path:line: symbol` or `path`, paths
as seen from the current folder, so that they can be handed on to other commands; in JSON they are
relative to `root`. Exit code 1 says that the answer is empty.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn, TypeAlias

import typer

from deltafix.cli.console import note, prepare_kernel
from deltafix.cli.source_trees import watched
from deltafix.cli.tree_options import Exclude, Spark
from deltafix.errors import SourceError

if TYPE_CHECKING:
    from deltafix.analyses.call_graph.questions import Affected, Chain, Questions

ask = typer.Typer(
    no_args_is_help=True,
    help="Ask a Python tree who calls a function, who reaches it and how, what a file affects.",
)

_EMPTY = 1  # exit code: nobody, no way, nothing

_Symbol: TypeAlias = Annotated[
    str, typer.Argument(help="Its id, or the end of exactly one.", metavar="SYMBOL")
]
_Tree: TypeAlias = Annotated[
    Path, typer.Option("--in", help="The folder that is asked.", metavar="FOLDER")
]
_Limit: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Show so many at most.", metavar="COUNT")
]
_Form: TypeAlias = Annotated[
    Literal["text", "json"], typer.Option("--format", help="How the answer is printed.")
]
_Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")]

_HERE = Path()


@ask.command()
def callers(
    symbol: _Symbol,
    *,
    tree: _Tree = _HERE,
    limit: _Limit = None,
    form: _Form = "text",
    exclude: Exclude = None,
    spark: Spark = False,
    quiet: _Quiet = False,
) -> None:
    """Who calls SYMBOL: functions, methods, and modules for calls outside of functions."""
    with _questions(tree, exclude, spark=spark, quiet=quiet) as questions:
        found = questions.callers(symbol)
    _answer("callers", [symbol], found, tree, limit=limit, form=form, quiet=quiet)


@ask.command()
def reaches(
    symbol: _Symbol,
    *,
    tree: _Tree = _HERE,
    limit: _Limit = None,
    form: _Form = "text",
    exclude: Exclude = None,
    spark: Spark = False,
    quiet: _Quiet = False,
) -> None:
    """Who reaches SYMBOL by calls, directly or not; the nearest first, each with a shortest way."""
    with _questions(tree, exclude, spark=spark, quiet=quiet) as questions:
        found = questions.reaches(symbol)
    _answer("reaches", [symbol], found, tree, limit=limit, form=form, quiet=quiet)


@ask.command()
def path(
    caller: Annotated[
        str, typer.Argument(help="Where the way starts; may be a module.", metavar="FROM")
    ],
    callee: Annotated[str, typer.Argument(help="Where it ends.", metavar="TO")],
    *,
    tree: _Tree = _HERE,
    form: _Form = "text",
    exclude: Exclude = None,
    spark: Spark = False,
    quiet: _Quiet = False,
) -> None:
    """A shortest way of calls from one symbol to another, a line each step."""
    with _questions(tree, exclude, spark=spark, quiet=quiet) as questions:
        found = questions.path(caller, callee)
    if found is not None and form == "text":
        _say(_stands(tree, *step) for step in zip(found.steps, found.places, strict=True))
        return
    _answer("path", [caller, callee], [found] if found else [], tree, form=form, quiet=quiet)


@ask.command()
def impact(
    files: Annotated[list[Path], typer.Argument(help="The files that change.", metavar="FILE...")],
    *,
    tree: _Tree = _HERE,
    tests: Annotated[
        bool, typer.Option("--tests", help="Only test files, one path a line.")
    ] = False,
    limit: _Limit = None,
    form: _Form = "text",
    exclude: Exclude = None,
    spark: Spark = False,
    quiet: _Quiet = False,
) -> None:
    """What must be tested again when FILE changes: all that imports it, tests first."""
    root = tree.resolve()
    named = [os.path.relpath(file.resolve(), root).replace(os.sep, "/") for file in files]
    with _questions(tree, exclude, spark=spark, quiet=quiet) as questions:
        found = [one for one in questions.impact(named) if one.test or not tests]
    if tests and form == "text":
        _say(_seen(tree, one.path) for one in found[:limit])
        _close(len(found), limit, quiet=quiet)
    _answer(
        "impact", [str(file) for file in files], found, tree, limit=limit, form=form, quiet=quiet
    )


@contextmanager
def _questions(
    folder: Path, exclude: Sequence[str] | None, *, spark: bool, quiet: bool
) -> Iterator[Questions]:
    """The questions to a folder, as it is now."""
    from deltafix.analyses.call_graph import CALL_GRAPH  # noqa: PLC0415  quick --help
    from deltafix.analyses.call_graph.questions import Questions  # noqa: PLC0415
    from deltafix.analyses.job import Job  # noqa: PLC0415

    if not folder.is_dir():
        raise SourceError(f"{folder} is not a folder: write --in FOLDER")
    tree = CALL_GRAPH.tree(folder, exclude or ())
    prepare_kernel(quiet=quiet)
    with Job(CALL_GRAPH) as job:
        watched(tree, job, CALL_GRAPH, spark=spark, quiet=quiet)
        yield Questions(job)


def _answer(
    question: str,
    asked: Sequence[str],
    found: Sequence[Chain] | Sequence[Affected],
    tree: Path,
    *,
    limit: int | None = None,
    form: str,
    quiet: bool,
) -> NoReturn:
    """Print the answer, and end with the exit code that says whether there is one."""
    if form == "json":
        data = {
            "version": 1, "event": "answer", "question": question, "asked": list(asked),
            "root": str(tree.resolve()), "total": len(found),
            "rows": [one.as_data() for one in found[:limit]],
        }  # fmt: skip
        _say([json.dumps(data, ensure_ascii=False)])
    else:
        _say(_line(tree, one) for one in found[:limit])
    _close(len(found), limit, quiet=quiet)


def _close(total: int, limit: int | None, *, quiet: bool) -> NoReturn:
    if limit is not None and total > limit:
        note(f"{limit:,} of {total:,} shown", quiet=quiet)
    elif not total:
        note("none", quiet=quiet)
    raise typer.Exit(0 if total else _EMPTY)


def _line(tree: Path, one: Chain | Affected) -> str:
    """What was found, and behind it the way if that has a middle."""
    from deltafix.analyses.call_graph.questions import Chain  # noqa: PLC0415  as above

    if isinstance(one, Chain):
        line, via = _stands(tree, one.symbol, one.places[0]), one.steps[1:-1]
    else:
        steps = [_seen(tree, step) for step in one.steps]
        line, via = steps[0], tuple(steps[1:-1])
    return f"{line}  // via {', '.join(via)}" if via else line


def _stands(tree: Path, symbol: str, place: tuple[str, int]) -> str:
    return f"{_seen(tree, place[0])}:{place[1]}: {symbol}"


def _seen(tree: Path, path: str) -> str:
    """A path of the tree as the current folder sees it."""
    return os.path.relpath(tree / path)


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
