"""`deltafix why`, `why-not` and `step`: a program's rows explained, present and absent ones.

Invariant: the explanation alone goes to standard output; a fact that does not fit the question is
an error with exit code 2.
"""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from deltafix.cli.console import progress
from deltafix.cli.inputs import FACT_DIR, Strict, facts_to_ask
from deltafix.cli.loaded import loaded
from deltafix.cli.program_options import FunctorsFile, Include, Macros, Reading, WordSize, reading

if TYPE_CHECKING:
    from deltafix.engine.database import Database

_Program: TypeAlias = Annotated[Path, typer.Argument(help="The program (.dl).", metavar="PROGRAM")]
_Fact: TypeAlias = Annotated[
    str, typer.Argument(help='One row, such as \'path("a", "c")\'.', metavar="FACT")
]
_Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="No notes, no progress.")]


def _asked(
    program_file: Path,
    facts: Path | None,
    functors: Path | None,
    options: Reading,
    *,
    strict: bool,
    quiet: bool,
) -> AbstractContextManager[Database]:
    """The database to ask, over the facts that -F names, or that are found without it."""
    from deltafix.datalog.program import Program  # noqa: PLC0415  quick --help

    folder = facts_to_ask(Program.from_file(program_file, **options), facts, quiet=quiet)
    return loaded(program_file, folder, functors, options, strict=strict, quiet=quiet)


def why(
    program_file: _Program,
    fact: _Fact,
    *,
    facts: Annotated[Path | None, FACT_DIR] = None,
    several: Annotated[
        bool, typer.Option("--all", help="List different proofs, by height.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=1, metavar="COUNT", help="With --all: at most so many.")
    ] = 10,
    count: Annotated[
        bool, typer.Option("--count", help="Print in how many ways the rules derive the row.")
    ] = False,
    form: Annotated[
        Literal["text", "json", "dot", "svg"],
        typer.Option("--format", help="A tree, JSON, Graphviz DOT, or a drawing."),
    ] = "text",
    max_steps: Annotated[
        int, typer.Option(min=1, metavar="COUNT", help="Fail beyond this many facts.")
    ] = 10_000,
    functors: FunctorsFile = None,
    word_size: WordSize = None,
    include: Include = None,
    macros: Macros = None,
    strict: Strict = False,
    quiet: _Quiet = False,
) -> None:
    """Say why a row holds: a smallest proof, found on demand."""
    options = reading(word_size, include, macros)
    with _asked(program_file, facts, functors, options, strict=strict, quiet=quiet) as db:
        if count:
            from deltafix.engine.literals import read_ground  # noqa: PLC0415  quick --help

            sys.stdout.write(f"{db.derivation_count(*read_ground(fact, db.schemas))}\n")
            return
        with progress("looking for a proof", quiet=quiet):
            if several:
                proofs = db.why(fact, all=True, limit=limit, max_steps=max_steps)
            else:
                proofs = [db.why(fact, max_steps=max_steps)]
    if form == "json" and several:
        shown = json.dumps([proof.to_dict() for proof in proofs], ensure_ascii=False, indent=2)
    else:
        shown = "\n\n".join(proof.show(form) for proof in proofs)
    sys.stdout.write(f"{shown}\n")


def why_not(
    program_file: _Program,
    fact: _Fact,
    *,
    facts: Annotated[Path | None, FACT_DIR] = None,
    limit: Annotated[
        int, typer.Option(min=0, metavar="COUNT", help="At most so many suggestions.")
    ] = 5,
    max_depth: Annotated[
        int, typer.Option(min=1, metavar="COUNT", help="Explain failing rows so far down.")
    ] = 3,
    max_edits: Annotated[
        int, typer.Option(min=0, metavar="COUNT", help="Edits in a suggestion.")
    ] = 3,
    form: Annotated[
        Literal["text", "json"], typer.Option("--format", help="Text or JSON.")
    ] = "text",
    functors: FunctorsFile = None,
    word_size: WordSize = None,
    include: Include = None,
    macros: Macros = None,
    strict: Strict = False,
    quiet: _Quiet = False,
) -> None:
    """Say why a row does not hold, rule by rule, and what would make it hold."""
    options = reading(word_size, include, macros)
    opened = _asked(program_file, facts, functors, options, strict=strict, quiet=quiet)
    with opened as db, progress("looking for what fails", quiet=quiet):
        explanation = db.why_not(fact, limit=limit, max_depth=max_depth, max_edits=max_edits)
    sys.stdout.write(f"{explanation.show(form)}\n")


def step(
    program_file: _Program,
    fact: Annotated[
        str, typer.Argument(help="Rows that hold, with commas between them.", metavar="FACTS")
    ],
    *,
    facts: Annotated[Path | None, FACT_DIR] = None,
    functors: FunctorsFile = None,
    word_size: WordSize = None,
    include: Include = None,
    macros: Macros = None,
    strict: Strict = False,
    quiet: _Quiet = False,
) -> None:
    """Print what the rules of a recursive relation derive at once from rows of it."""
    from deltafix.engine.literals import followed  # noqa: PLC0415  quick --help
    from deltafix.facts.schema import show_row  # noqa: PLC0415  likewise

    options = reading(word_size, include, macros)
    with _asked(program_file, facts, functors, options, strict=strict, quiet=quiet) as db:
        rows = followed(db, fact)
    for name, row in rows:
        sys.stdout.write(f"{show_row(name, row)}\n")
