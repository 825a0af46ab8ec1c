"""`deltafix diff`: what an edit of a program would change, row by row, before it is made.

Invariant: the old program is evaluated, and the new one from there, as one epoch that changes the
rules, whole or one by one; the rows printed are those of relations with rules in the new
program. Of two scripts of SQL each is run by itself, and rows of views of both are compared. Exit
code 1 says that rows differ, 0 that none does.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deltafix.cli.console import note, prepare_kernel, printing, progress
from deltafix.cli.inputs import FACT_DIR, Strict, facts_folder, read_inputs, warner
from deltafix.cli.loaded import loaded
from deltafix.cli.program_options import FunctorsFile, Include, Macros, WordSize, reading
from deltafix.cli.sql import take_files
from deltafix.paths import read_text
from deltafix.plan.recognise import same_rule
from deltafix.rules import ast
from deltafix.rules.schemas import row_schemas

if TYPE_CHECKING:
    from deltafix.engine.database import Database
    from deltafix.facts.delta import Delta


def diff(
    old: Annotated[
        Path, typer.Argument(help="The program as it is (.dl, or .sql).", metavar="OLD")
    ],
    new: Annotated[
        Path | None, typer.Argument(help="The program as it would be.", metavar="NEW")
    ] = None,
    *,
    remove: Annotated[
        list[str] | None,
        typer.Option(
            "--remove", metavar="RULE", help="A rule, or its name, to take out; may be repeated."
        ),
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(
            "--add", metavar="RULE", help="A rule to put in, behind declarations of what is new."
        ),
    ] = None,
    facts: Annotated[Path, FACT_DIR] = Path(),
    functors: FunctorsFile = None,
    word_size: WordSize = None,
    include: Include = None,
    macros: Macros = None,
    strict: Strict = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes, no progress.")] = False,
) -> None:
    """Say which rows a change of the rules would add and remove; code 1 if any.

    Of two scripts of SQL, those of views, over each table's file (<table>.parquet or .csv).
    """
    if ".sql" in {path.suffix for path in (old, new) if path is not None}:
        if functors is not None or word_size is not None or any((remove, add, include, macros)):
            raise typer.BadParameter("scripts of SQL are compared with -F and -q")
        if strict or new is None or old.suffix != new.suffix:
            raise typer.BadParameter("a script of SQL is compared with another one, OLD NEW")
        _diff_views(old, new, facts, quiet=quiet)
        return
    from deltafix.datalog.program import Program  # noqa: PLC0415  quick --help

    if new is None and not (remove or add):
        raise typer.BadParameter("name the other program, or rules to --add and --remove")
    options = reading(word_size, include, macros)
    facts = facts_folder(Program.from_file(old, **options), facts, quiet=quiet)
    whole = None if new is None else Program.from_file(new, **options)
    with loaded(old, facts, functors, options, strict=strict, quiet=quiet) as db:
        before, known = db.program, set(db.schemas)
        with (
            progress("evaluating the new rules", quiet=quiet),
            db.transaction(missing="ignore") as tx,
        ):
            if whole is not None:
                for name in known - row_schemas(whole).keys():
                    tx.delete(name, db.rows(name))
                tx.change_program(whole)
            for rule in remove or ():
                tx.remove_rule(rule)
            for rule in add or ():
                tx.add_rule(rule)
        after = db.program
        for line in _named(before, after):
            note(line, quiet=quiet)
        with progress("evaluating the new rules", quiet=quiet):
            delta = tx.delta.compose(_more_inputs(db, known, facts, strict=strict, quiet=quiet))
        if gone := sorted(known - set(db.schemas)):
            note(f"{new} does not keep {', '.join(gone)}", quiet=quiet)
    with progress("sorting rows", quiet=quiet):
        shown = _views(delta, after).show()
    if shown:
        sys.stdout.write(f"{shown}\n")
        raise typer.Exit(1)
    note("no row changes", quiet=quiet)


def _diff_views(old: Path, new: Path, facts: Path, *, quiet: bool) -> None:
    """Print the rows by which views of two scripts differ, as `deltafix sql` does."""
    before, after = (_view_rows(script, facts, quiet=quiet) for script in (old, new))
    for script, gone in ((new, before.keys() - after.keys()), (old, after.keys() - before.keys())):
        if gone:
            note(f"{script} has no {', '.join(sorted(gone))}", quiet=quiet)
    lines = []
    for name, (names, rows) in after.items():
        were, counts = before.get(name, (names, Counter[str]()))
        if were != names:
            note(f"{name} has the columns {names}, not {were}", quiet=quiet)
        for sign, some in (("-", counts - rows), ("+", rows - counts)):
            lines += [f"{sign}{name}\t{line}\n" for line in sorted(some.elements())]
    with printing():
        sys.stdout.writelines(lines)
    if lines:
        raise typer.Exit(1)
    note("no row changes", quiet=quiet)


def _view_rows(script: Path, facts: Path, *, quiet: bool) -> dict[str, tuple[str, Counter[str]]]:
    """The views of a script: their columns, and their rows as lines."""
    import deltafix.sql as door  # noqa: PLC0415  quick --help
    from deltafix.facts.logical import line_of  # noqa: PLC0415

    prepare_kernel(quiet=quiet)
    with closing(door.connect()) as db, progress(f"running {script.name}", quiet=quiet):
        for _ in db.run(read_text(script), (), str(script)):
            pass
        take_files(db, facts, quiet=quiet)
        views = {}
        for name in db.catalog.views:
            cursor = db.execute(f'SELECT * FROM "{name}"')  # noqa: S608
            columns = ", ".join(f"{column} {kind}" for column, kind, *_ in cursor.description or ())
            views[name] = columns, Counter(map(line_of, cursor))
        return views


def _views(delta: Delta, program: ast.Program) -> Delta:
    """What changed in the relations that have rules."""
    from deltafix.facts.delta import Delta  # noqa: PLC0415  quick --help

    ruled = {head.relation for rule in program.rules for head in rule.heads}
    return Delta([part for name, part in delta.items() if name in ruled], delta.schemas.values())


def _named(old: ast.Program, new: ast.Program) -> Iterator[str]:
    """What becomes of the rules that have names."""
    before, after = old.named, new.named
    for name in before | after:
        if name not in after:
            yield f"rule {name} is gone"
        elif name not in before:
            yield f"rule {name} is new"
        elif not same_rule(before[name], after[name]):
            yield f"rule {name} is another one"


def _more_inputs(db: Database, known: set[str], facts: Path, *, strict: bool, quiet: bool) -> Delta:
    """Load the inputs that only the new program has."""
    warn = warner(strict=strict, quiet=quiet)
    with db.transaction() as tx:
        for name, rows in read_inputs(db.program, db.schemas, facts, warn):
            if name not in known:
                tx.insert(name, rows)
    return tx.delta
