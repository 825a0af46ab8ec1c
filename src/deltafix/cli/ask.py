"""`deltafix ask`: questions to the call graph and the imports of a Python tree.

Invariant: standard output has the answer alone, a line each as `path:line: symbol` or `path`, paths
as seen from the current folder, so that they can be handed on to other commands; in JSON they are
relative to `root`. As a graph, an answer is the steps of its ways, each once. Exit code 1 says that
the answer is empty.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NoReturn, TypeAlias

import typer
from typer.core import TyperCommand

from deltafix.cli.console import note, prepare_kernel
from deltafix.cli.output import Limit, Output, check_output, put
from deltafix.cli.source_trees import watched
from deltafix.cli.tree_options import Exclude, Spark
from deltafix.diagnostics import plural
from deltafix.errors import SourceError

if TYPE_CHECKING:
    from deltafix.analyses.call_graph.questions import Affected, Chain, Questions
    from deltafix.analyses.formats import Table
    from deltafix.facts.schema import Row
    from deltafix.facts.values import BaseType

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
_Form: TypeAlias = Annotated[
    Literal["text", "json", "csv", "parquet", "html", "dot", "mermaid", "sarif"],
    typer.Option("--format", help="How the answer is written."),
]
_Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")]


class _Asking(TyperCommand):
    """A question; a folder that is given as other commands take it is told how it is given here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As it is."""
        left = super().parse_args(ctx, args)
        if ctx.args:
            ctx.fail(f"extra argument {ctx.args[0]}; the folder that is asked is --in FOLDER")
        return left


_EXTRA: Final = {"allow_extra_args": True}

_HERE = Path()


@ask.command(cls=_Asking, context_settings=_EXTRA)
def callers(
    symbol: _Symbol,
    *,
    tree: _Tree = _HERE,
    limit: Limit = None,
    form: _Form = "text",
    output: Output = None,
    exclude: Exclude = None,
    spark: Spark = None,
    quiet: _Quiet = False,
) -> None:
    """Who calls SYMBOL: functions, methods, and modules for calls outside of functions."""
    check_output(form, output)
    with _questions(tree, exclude, spark=spark, quiet=quiet) as questions:
        chains = questions.callers(symbol)
        none = "" if chains else questions.why_none(symbol)
    _Asked("callers", [symbol], tree, form, output).answer(chains, limit, none=none, quiet=quiet)


@ask.command(cls=_Asking, context_settings=_EXTRA)
def reaches(
    symbol: _Symbol,
    *,
    tree: _Tree = _HERE,
    limit: Limit = None,
    form: _Form = "text",
    output: Output = None,
    exclude: Exclude = None,
    spark: Spark = None,
    quiet: _Quiet = False,
) -> None:
    """Who reaches SYMBOL by calls, directly or not; the nearest first, each with a shortest way."""
    check_output(form, output)
    with _questions(tree, exclude, spark=spark, quiet=quiet) as questions:
        chains = questions.reaches(symbol)
        none = "" if chains else questions.why_none(symbol)
    _Asked("reaches", [symbol], tree, form, output).answer(chains, limit, none=none, quiet=quiet)


@ask.command(cls=_Asking, context_settings=_EXTRA)
def path(
    caller: Annotated[
        str, typer.Argument(help="Where the way starts; may be a module.", metavar="FROM")
    ],
    callee: Annotated[str, typer.Argument(help="Where it ends.", metavar="TO")],
    *,
    tree: _Tree = _HERE,
    form: _Form = "text",
    output: Output = None,
    exclude: Exclude = None,
    spark: Spark = None,
    quiet: _Quiet = False,
) -> None:
    """A shortest way of calls from one symbol to another, a line each step."""
    check_output(form, output)
    with _questions(tree, exclude, spark=spark, quiet=quiet) as questions:
        chain = questions.path(caller, callee)
        none = "" if chain else questions.why_none(caller, callee)
    asked = _Asked("path", [caller, callee], tree, form, output)
    asked.answer([chain] if chain else [], none=none, quiet=quiet)


@ask.command()
def impact(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="The files that change, as seen from here or, if none is there, from --in.",
            metavar="FILE...",
        ),
    ],
    *,
    tree: _Tree = _HERE,
    tests: Annotated[
        bool, typer.Option("--tests", help="Only test files, one path a line.")
    ] = False,
    limit: Limit = None,
    form: _Form = "text",
    output: Output = None,
    exclude: Exclude = None,
    spark: Spark = None,
    quiet: _Quiet = False,
) -> None:
    """What must be tested again when FILE changes: all that imports it, tests first."""
    root = tree.resolve()
    seen = [file if file.exists() else root / file for file in files]
    named = [os.path.relpath(file.resolve(), root).replace(os.sep, "/") for file in seen]
    check_output(form, output)
    with _questions(tree, exclude, named, spark=spark, quiet=quiet) as questions:
        affected = questions.impact(named)
    answers = [answer for answer in affected if answer.test or not tests]
    given = ", ".join(named)
    none = (
        f"nothing in the tree imports {given}" if not affected else
        f"{given}: {plural(len(affected), 'file')} affected, none of which is a test"
    )  # fmt: skip
    asked = _Asked("impact", [str(file) for file in files], tree, form, output, bare=tests)
    asked.answer(answers, limit, none=none, quiet=quiet)


@contextmanager
def _questions(
    folder: Path,
    exclude: Sequence[str] | None,
    files: Sequence[str] = (),
    *,
    spark: bool | None,
    quiet: bool,
) -> Iterator[Questions]:
    """The questions to a folder, as it is now; `files` have to be there, before any is read."""
    from deltafix.analyses.call_graph import CALL_GRAPH  # noqa: PLC0415  quick --help
    from deltafix.analyses.call_graph.questions import Questions, require_files  # noqa: PLC0415
    from deltafix.analyses.dead_code.collected import Collected  # noqa: PLC0415
    from deltafix.analyses.job import Job  # noqa: PLC0415

    if not folder.is_dir():
        raise SourceError(f"{folder} is not a folder: write --in FOLDER")
    tree = CALL_GRAPH.tree(folder, exclude or ())
    if files:
        require_files(files, [file for file in tree.scan().files if file.endswith(".py")])
    prepare_kernel(quiet=quiet)
    with Job(CALL_GRAPH) as job:
        watched(tree, job, CALL_GRAPH, spark=spark, quiet=quiet)
        yield Questions(job, Collected.by_settings(folder, job.fragments))


@dataclass(frozen=True)
class _Asked:
    """A question, and how its answer is to be written; `bare` is text without the ways."""

    question: str
    asked: Sequence[str]
    tree: Path
    form: str
    output: Path | None
    bare: bool = False

    def answer(
        self,
        answers: Sequence[Chain] | Sequence[Affected],
        limit: int | None = None,
        *,
        none: str,
        quiet: bool,
    ) -> NoReturn:
        """Write the answer, and end with the exit code that says whether there is one.

        `none` says why there is none.
        """
        from deltafix.analyses.formats import write_tables  # noqa: PLC0415  as below

        shown, total = answers[:limit], len(answers)
        if self.form == "json":
            put(self._json(shown, total, none), self.output)
        elif self.form == "text":
            put("".join(f"{line}\n" for line in self._lines(shown)), self.output)
        else:
            title = f"deltafix ask {self.question} {' '.join(self.asked)}"
            is_graph = self.form in {"dot", "mermaid"}
            table = self._graph(shown) if is_graph else self._table(shown)
            put(write_tables([table], self.form, title=title), self.output)
        if len(shown) < total:
            note(f"{len(shown):,} of {total:,} shown", quiet=quiet)
        elif not total:
            note(f"none: {none}", quiet=quiet)
        raise typer.Exit(0 if total else _EMPTY)

    def _json(self, shown: Sequence[Chain] | Sequence[Affected], total: int, none: str) -> str:
        data = {
            "version": 1, "event": "answer", "question": self.question, "asked": list(self.asked),
            "root": str(self.tree.resolve()), "total": total,
            "rows": [answer.as_data() for answer in shown],
        } | ({} if total else {"none": none})  # fmt: skip
        return f"{json.dumps(data, ensure_ascii=False)}\n"

    def _lines(self, shown: Sequence[Chain] | Sequence[Affected]) -> Iterator[str]:
        """What was found, and behind it the way if that has a middle; of a path its steps."""
        for row, _ in self._rows(shown):
            what = (
                f"{row[1]!s}:{row[2]!s}: {row[0]!s}" if self.question != "impact" else str(row[0])
            )
            via = "" if self.bare or self.question == "path" else str(row[-1])
            yield f"{what}  // via {via}" if via else f"{what}"

    def _table(self, shown: Sequence[Chain] | Sequence[Affected]) -> Table:
        """The answers as rows, with the places where they stand."""
        from deltafix.analyses.formats import Table  # noqa: PLC0415  as below
        from deltafix.facts.schema import Schema  # noqa: PLC0415

        if self.question == "impact":
            schema = Schema.of(self.question, ["path", "test", "via"], ["symbol"] * 3)
        else:
            names = ["symbol", "path", "line", *(["via"] if self.question != "path" else [])]
            types: list[BaseType] = ["symbol", "symbol", "number", "symbol"]
            schema = Schema.of(self.question, names, types[: len(names)])
        rows = list(self._rows(shown))
        return Table(schema, [row for row, _ in rows], places=[[location] for _, location in rows])

    def _rows(
        self, shown: Sequence[Chain] | Sequence[Affected]
    ) -> Iterator[tuple[Row, tuple[str, int]]]:
        """A row for each answer, of a path for each step, and where it stands."""
        from deltafix.analyses.call_graph.questions import Chain  # noqa: PLC0415  as below

        for answer in shown:
            if not isinstance(answer, Chain):
                path, *via = (_seen(self.tree, step) for step in answer.steps)
                yield (path, "yes" if answer.test else "no", ", ".join(via[:-1])), (path, 1)
            elif self.question == "path":
                for symbol, location in zip(answer.steps, answer.places, strict=True):
                    path, line = _seen(self.tree, location[0]), location[1]
                    yield (symbol, path, line), (path, line)
            else:
                path, line = _seen(self.tree, answer.places[0][0]), answer.places[0][1]
                yield (answer.symbol, path, line, ", ".join(answer.steps[1:-1])), (path, line)

    def _graph(self, shown: Sequence[Chain] | Sequence[Affected]) -> Table:
        """The steps of all ways: who calls whom, or which file imports which."""
        from deltafix.analyses.formats import Table  # noqa: PLC0415  as below
        from deltafix.facts.schema import Schema  # noqa: PLC0415

        is_files = self.question == "impact"
        ways = [[_seen(self.tree, s) if is_files else s for s in answer.steps] for answer in shown]
        steps = dict.fromkeys(step for way in ways for step in pairwise(way))
        names = ("importer", "imported") if is_files else ("caller", "callee")
        schema = Schema.of(self.question, names, ["symbol"] * 2)
        nodes = [way[0] for way in ways]  # a test that changed has no way
        return Table(schema, list(steps), edge=(names[:1], names[1:]), nodes=nodes)


def _seen(tree: Path, path: str) -> str:
    """A path of the tree as the current folder sees it."""
    return os.path.relpath(tree / path)
