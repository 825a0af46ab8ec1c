"""A program with its `.input` relations loaded: what the commands that ask questions work on.

Invariant: the facts are one transaction, so a file that cannot be read leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltafix.cli.console import note, prepare_kernel, progress
from deltafix.cli.inputs import read_inputs, warner
from deltafix.cli.program_options import Reading, as_given, read_functors
from deltafix.diagnostics import plural
from deltafix.doing import tell

if TYPE_CHECKING:
    from deltafix.engine.database import Database
    from deltafix.engine.follow import ProgramFile
    from deltafix.engine.transaction import Transaction
    from deltafix.rules.ast import Program


@contextmanager
def loaded(
    program_file: Path,
    facts: Path | None,
    functors: Path | None,
    reading: Reading,
    *,
    state: Path | None = None,
    strict: bool,
    quiet: bool,
) -> Iterator[Database]:
    """A database over a program file, with the fact files of a folder where one is given.

    Args:
        program_file: the program's text.
        facts: the folder of its `.input` relations; None loads nothing.
        functors: a Python file with its functors and reducers (`cli.program_options`).
        reading: what the program is read with.
        state: a folder that keeps the given rows; None keeps them in memory.
        strict: more values in a line than columns are errors.
        quiet: no notes, no warnings and no progress.
    """
    import deltafix  # noqa: PLC0415  quick --help
    from deltafix.datalog.program import Program  # noqa: PLC0415

    program = Program.from_file(program_file, **reading)
    users = read_functors(program, functors)
    prepare_kernel(quiet=quiet)
    with ExitStack() as stack:
        with progress("opening the state", quiet=quiet):
            opened = deltafix.connect(program, ":memory:" if state is None else state, **users)
            db = stack.enter_context(opened)
        for message in db.recovered:
            note(f"note: {message}", quiet=quiet)
        if facts is not None:
            with progress("reading facts and evaluating", quiet=quiet), db.transaction() as tx:
                load_inputs(db, tx, facts, warner(strict=strict, quiet=quiet))
        yield db


def followed(program_file: Path, functors: Path | None, reading: Reading) -> ProgramFile:
    """The program file of `loaded`, to be read again when it has changed, with its functors."""
    from deltafix.engine.follow import ProgramFile  # noqa: PLC0415  quick --help

    def called(program: Program) -> Mapping[str, Callable[..., Any]]:
        return read_functors(program, functors)["functors"]

    return ProgramFile(program_file, as_given(reading), called)


def load_inputs(
    db: Database, tx: Transaction, folder: Path, warn: Callable[[str], None] | None
) -> None:
    """Insert the rows of every `.input` relation. Raises SourceError, FactError."""
    insert(tx, read_inputs(db.program, db.schemas, folder, warn))


def insert(tx: Transaction, inputs: list[tuple[str, Any]]) -> None:
    """Insert the rows of relations, which are let go one by one."""
    done, of = 0, sum(len(rows) for _, rows in inputs)
    while inputs:
        name, rows = inputs.pop(0)
        tell(f"taking in {name}: {plural(len(rows), 'row')}", done, of)
        done += tx.insert(name, rows)
    tell("", of, of)
