"""`deltafix shell`: edit facts, commit, see what changed, ask.

Invariant: an error never ends a session that a person types; in a script (input that is no
terminal) `--strict` makes the first error end it with exit code 2.

A line that raises has changed nothing that `rollback` would not undo; queries see committed rows
only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from deltafix.cli.console import note, progress
from deltafix.cli.inputs import fact_dir
from deltafix.cli.loaded import loaded
from deltafix.cli.output import changed_rows
from deltafix.cli.program_options import FunctorsFile, Include, Macros, WordSize, reading
from deltafix.cli.tab import offer
from deltafix.diagnostics import did_you_mean, plural
from deltafix.engine.literals import followed, read_facts, read_ground, read_query, schema_named
from deltafix.errors import DeltafixError, FactError, ProgramError
from deltafix.facts.schema import Row, Schema, show_row
from deltafix.interrupt import answer_oneself
from deltafix.paths import local_path, read_text
from deltafix.rules.strata import strata

if TYPE_CHECKING:
    from deltafix.engine.database import Database
    from deltafix.engine.transaction import Transaction


def shell(
    program_file: Annotated[Path, typer.Argument(help="The program (.dl).", metavar="PROGRAM")],
    *,
    facts: Annotated[
        Path | None,
        fact_dir("Load the .input relations from this folder first."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Keep the given rows in this folder, from one session to the next.",
        ),
    ] = None,
    functors: FunctorsFile = None,
    word_size: WordSize = None,
    include: Include = None,
    macros: Macros = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="More values than columns are errors; piped input ends at the first error, code 2",
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No greeting, notes or progress.")
    ] = False,
) -> None:
    """Work on a program's facts line by line; `.help` inside says how."""
    options = reading(word_size, include, macros)
    opened = loaded(program_file, facts, functors, options, state=state, strict=strict, quiet=quiet)
    with opened as db:
        session = Session(db)
        interactive = sys.stdin.isatty()
        if interactive:
            answer_oneself()
            note(
                f"{program_file}: {plural(len(db.schemas), 'relation')}; .help lists commands",
                quiet=quiet,
            )
        _loop(session, interactive, strict, quiet)
        if session.pending:
            note(f"{plural(session.pending, 'uncommitted edit')} dropped", quiet=quiet)
            session.rollback()


def _loop(session: Session, interactive: bool, strict: bool, quiet: bool) -> None:
    for line in _typed(session) if interactive else sys.stdin:
        epoch = session.db.epoch
        try:
            with progress("evaluating", quiet=quiet):
                answer = session.execute(line)
        except DeltafixError as error:
            if strict and not interactive:
                raise
            shown = str(error) if isinstance(error, ProgramError) else f"error: {error}"
            sys.stderr.write(f"{shown}\n")
            continue
        except KeyboardInterrupt:
            if not interactive:
                raise
            what = "the line has changed nothing that is committed"
            if session.db.epoch != epoch:  # an interrupt may come right behind a commit
                what = f"what it changed was committed before, as epoch {session.db.epoch}"
            sys.stderr.write(f"interrupted: {what}\n")
            continue
        if answer:
            sys.stdout.write(f"{answer}\n")
            sys.stdout.flush()
        if session.done:
            return


def _typed(session: Session) -> Iterator[str]:
    offer(lambda before, _: [*session.db.schemas, *(() if before.strip() else _WORDS)])
    while True:
        try:
            yield input("deltafix*> " if session.pending else "deltafix> ")
        except EOFError:
            sys.stdout.write("\n")
            return
        except KeyboardInterrupt:
            sys.stdout.write("\n")


HELP: Final = """\
+edge("a", "b")        insert facts (several with commas)
-edge("a", "b")        delete facts
rule +path(x, y) :- edge(y, x).    add a rule (declarations of what is new before it)
rule -path(x, y) :- edge(y, x).    remove a rule; or rule -NAME, as .rule NAME has named it
commit                 end the transaction and show what changed
rollback               drop the transaction
? path("a", X)         rows that match; _ matches anything, equal variables equal values
why path("a", "c")     a smallest proof of a row
why-not path("a", "c") why a row is absent, and what would make it hold
count path("a", "c")   in how many ways the rules derive a row
step path("a", "b")    the rows that the relation's rules derive at once from rows of it
.load edge FILE        insert the rows of a tab-separated fact file
.read FILE             do the lines of a file, up to the first that is wrong
.rows path             every row of a relation
.relations             the relations, with their sizes
.strata                the order of evaluation
.help                  this text
.quit                  leave (an open transaction is dropped)"""


_WORDS: Final = tuple(
    dict.fromkeys(line.split()[0] for line in HELP.splitlines() if line[0] not in "+-?")
)


class Session:
    """A database, its open transaction, and the lines that work on them."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.done = False
        self.pending = 0
        self._transaction: Transaction | None = None
        self._commands: dict[str, Callable[[str], str]] = {
            "commit": lambda _: self.commit(),
            "rollback": lambda _: self.rollback(),
            "rule": self._rule,
            "why": lambda text: str(self.db.why(text)),
            "why-not": lambda text: str(self.db.why_not(text)),
            "count": lambda text: str(self.db.derivation_count(*read_ground(text, self.schemas))),
            "step": self._step,
            ".load": self._load,
            ".read": self._read,
            ".rows": self._rows,
            ".relations": lambda _: self._relations(),
            ".strata": lambda _: self._strata(),
            ".help": lambda _: HELP,
            ".quit": lambda _: self._quit(),
        }
        for name in ("help", "quit", "exit", ".exit"):  # as other prompts have it
            self._commands[name] = self._commands[".help" if name == "help" else ".quit"]

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """The relations; rules may bring more."""
        return self.db.schemas

    def execute(self, line: str) -> str:
        """Do what a line says and return the answer, possibly empty.

        Raises:
            DeltafixError: the line could not be carried out.
        """
        text = line.strip()
        if not text or text.startswith(("//", "#")):
            return ""
        # A blank in place of the sign keeps the carets of errors under what was typed.
        if text[0] in "+-":
            return self._edit(read_facts(" " + text[1:], self.schemas), insert=text[0] == "+")
        if text[0] == "?":
            return self._ask(" " + text[1:])
        word, _, rest = text.partition(" ")
        command = self._commands.get(word.rstrip(".") or word)
        if command is None:
            hint = did_you_mean(word, _WORDS, ".help lists what there is", "'")
            raise FactError(f"unknown command {word!r}; {hint}", value=word)
        return command(rest.strip())

    def commit(self) -> str:
        """End the transaction; one line per changed row, then how many there are."""
        if not self.pending:  # at most a line that was refused has begun one
            self.rollback()
            return "nothing to commit"
        transaction, self._transaction, self.pending = self._begin(), None, 0
        delta = transaction.commit()
        shown = "\n".join(changed_rows(delta, delta))
        count = plural(sum(map(len, delta.values())), "row")
        return f"{shown}\n{count} changed" if shown else "no row changed"

    def rollback(self) -> str:
        """Drop the transaction."""
        transaction, self._transaction = self._transaction, None
        dropped, self.pending = self.pending, 0
        if transaction is None:
            return "nothing to roll back"
        transaction.rollback()
        return f"{plural(dropped, 'edit')} dropped"

    def _begin(self) -> Transaction:
        if self._transaction is None:
            self._transaction = self.db.transaction()
        return self._transaction

    def _edit(self, facts: list[tuple[str, Row]], *, insert: bool) -> str:
        transaction = self._begin()
        act = transaction.insert if insert else transaction.delete
        for relation, row in facts:
            act(relation, [row])
            self.pending += 1
        return ""

    def _rule(self, text: str) -> str:
        if text[:1] not in ("+", "-"):
            raise FactError("use: rule +RULE or rule -RULE", value=text)
        transaction = self._begin()
        rule = " " * len("rule +") + text[1:]  # carets of errors stay under what was typed
        (transaction.add_rule if text[0] == "+" else transaction.remove_rule)(rule)
        self.pending += 1
        return ""

    def _ask(self, text: str) -> str:
        query = read_query(text, self.schemas)
        rows = self.db.select(query.relation, query.pattern)
        return self._listed(query.relation, query.keep_equal(rows))

    def _step(self, text: str) -> str:
        rows = followed(self.db, text)
        return "\n".join([*(show_row(name, row) for name, row in rows), plural(len(rows), "row")])

    def _rows(self, name: str) -> str:
        schema_named(name, self.schemas)
        return self._listed(name, self.db.rows(name))

    def _listed(self, relation: str, rows: list[Row]) -> str:
        """Rows as of the last commit, and how many; and what they have not of the open edits."""
        count = plural(len(rows), "row")
        if self.pending:
            count += f" ({plural(self.pending, 'edit')} not committed)"
        return "\n".join([*(show_row(relation, row) for row in rows), count])

    def _relations(self) -> str:
        return "\n".join(
            f"{schema.show()}: {plural(self.db.count(name), 'row')}"
            for name, schema in self.schemas.items()
        )

    def _strata(self) -> str:
        return "\n".join(
            f"{number}: {', '.join(stratum.relations)}{' (recursive)' if stratum.recursive else ''}"
            for number, stratum in enumerate(strata(self.db.program))
        )

    def _load(self, text: str) -> str:
        name, _, file = text.partition(" ")
        if not file.strip():
            raise FactError("use: .load RELATION FILE", value=text)
        from deltafix.facts.codec import FactFormat  # noqa: PLC0415  quick start
        from deltafix.facts.source import read_file  # noqa: PLC0415

        rows = read_file(local_path(file.strip()), schema_named(name, self.schemas), FactFormat())
        self._begin().insert(name, rows)
        self.pending += len(rows)
        return f"{plural(len(rows), 'row')} read, not committed yet"

    def _read(self, text: str) -> str:
        if not text:
            raise FactError("use: .read FILE")
        path = local_path(text)
        answers = []
        for number, line in enumerate(read_text(path).splitlines(), 1):
            try:
                answers.append(self.execute(line))
            except FactError as error:
                raise FactError(f"{path}:{number}: {error}", **error.values) from None
            if self.done:
                break
        return "\n".join(answer for answer in answers if answer)

    def _quit(self) -> str:
        self.done = True
        return ""
