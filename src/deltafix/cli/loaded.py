"""A program with its `.input` relations loaded: what the commands that ask questions work on.

Invariant: the facts are one transaction, so a file that cannot be read leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from deltafix.cli.brought import brought, sized
from deltafix.cli.console import announce_kernel, note, progress

if TYPE_CHECKING:
    from deltafix.engine.database import Database
    from deltafix.engine.transaction import Transaction

__all__ = ["load_inputs", "loaded"]


@contextmanager
def loaded(
    program_file: Path,
    facts: Path | None,
    *,
    functors: Path | None = None,
    word_size: str | None = None,
    state: Path | None = None,
    quiet: bool,
) -> Iterator[Database]:
    """A database over a program file, with the fact files of a folder where one is given.

    Args:
        program_file: the program's text.
        facts: the folder of its `.input` relations; None loads nothing.
        functors: a Python file with its functors and reducers (`cli.brought`).
        word_size: "32" or "64"; None leaves it to the program.
        state: a folder that keeps the given rows; None keeps them in memory.
        quiet: no notes and no progress.
    """
    import deltafix  # noqa: PLC0415  quick --help
    from deltafix.datalog.program import Program  # noqa: PLC0415

    program = sized(Program.from_file(program_file), word_size)
    users = brought(program, functors)
    announce_kernel(quiet=quiet)
    with deltafix.connect(program, ":memory:" if state is None else state, **users) as db:
        for message in db.recovered:
            note(f"note: {message}", quiet=quiet)
        if facts is not None:
            with progress("reading facts and evaluating", quiet=quiet), db.transaction() as tx:
                load_inputs(db, tx, facts)
        yield db


def load_inputs(db: Database, tx: Transaction, folder: Path) -> None:
    """Insert the rows of every `.input` relation. Raises SourceError, FactError."""
    from deltafix.facts.source import read_input  # noqa: PLC0415  quick --help

    for directive in db.program.directives:
        if directive.kind == "input":
            schema = db.schemas[directive.relation]
            tx.insert(directive.relation, read_input(schema, directive.parameters, folder))
