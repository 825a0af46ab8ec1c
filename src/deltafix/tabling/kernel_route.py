"""The kernel route: function-free programs run by the rules engine, behind the same door.

`open_tables(..., engine="auto", connect=deltafix.connect)` takes the engine as an argument:
tabling and engine are siblings and do not import each other, so each can judge the other.
Invariant: `AutoTables` answers and reports as `Tables` does; it holds a `Tables` as its program,
asks the engine while the program can be translated, and the term route from then on.
An edit of facts is one engine transaction; an edit of rules builds the engine's program anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal, cast

from deltafix.datalog.program import Program as RulesProgram
from deltafix.errors import ProgramError, PrologError
from deltafix.tabling.changes import Change, TablesDelta
from deltafix.tabling.clauses import Clause, Key
from deltafix.tabling.given import ClauseLike
from deltafix.tabling.goals import Goal, Solution, read_goal
from deltafix.tabling.session import Tables
from deltafix.tabling.table import Counters
from deltafix.tabling.terms import Term
from deltafix.tabling.trace import goal_term
from deltafix.tabling.translate import Symbols, Translation, Untranslatable, pattern_of, translate
from deltafix.tabling.unify import instantiate, match
from deltafix.tabling.writer import show

__all__ = ["AutoTables", "Connect", "open_tables"]

Connect = Callable[..., Any]
"""`deltafix.connect`, or anything that takes a program and limits and gives a database."""

ENGINES: Final = ("term", "auto", "kernel")


class _Kernel:
    """One engine database for the rules, goals and facts of a moment."""

    def __init__(self, tables: Tables, goals: list[Goal], connect: Connect) -> None:
        self.symbols = Symbols()
        program = tables.program
        self.translation: Translation = translate(
            program.predicates, program.clauses.values(), goals, self.symbols
        )
        try:
            parsed = RulesProgram.parse(self.translation.text)
        except ProgramError as cause:
            raise Untranslatable(f"the rules engine refuses it: {cause}") from cause
        rows: dict[str, list[tuple[int, ...]]] = {}
        for clause in program.clauses.values():
            for name, row in self.rows(clause):
                rows.setdefault(name, []).append(row)
        for goal in goals:
            for name, row in self.demand(goal):
                rows.setdefault(name, []).append(row)
        budget = tables.budget
        self.db = connect(parsed, max_rows=budget.max_answers, timeout=budget.timeout)
        try:
            with self.db.transaction(missing="ignore") as tx:
                for name, given in rows.items():
                    tx.insert(name, list(dict.fromkeys(given)))
        except BaseException:
            self.db.close()
            raise

    def rows(self, clause: Clause) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The rows of a clause's facts."""
        for rule in clause.rules:
            if rule.is_fact:
                codes = [self.symbols.code(a) for a in rule.args]
                yield self.translation.facts[rule.key], (*codes, 0)

    def demand(self, goal: Goal) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The row that asks for a goal."""
        name = self.translation.demands.get((goal.key, pattern_of(goal)))
        if name is not None:
            yield name, (*(self.symbols.code(a) for a in goal.args if a.ground), 0)

    def relation(self, goal: Goal) -> str | None:
        """The relation that holds a goal's answers, if the translation knows its pattern.

        Under demand, one of a more general pattern holds only what other calls asked of it.
        """
        pattern = pattern_of(goal) if self.translation.demand else "f" * goal.key[1]
        return self.translation.answers.get((goal.key, pattern))

    def answers(self, goal: Goal) -> list[tuple[Term, ...]]:
        """The answers of a goal the translation knows."""
        name = cast("str", self.relation(goal))
        pattern = [self.symbols.code(a) if a.ground else None for a in goal.args]
        rows = self.db.select(name, [*pattern, None])
        return [args for row in rows if (args := self.fits(goal, row)) is not None]

    def fits(self, goal: Goal, row: tuple[int, ...]) -> tuple[Term, ...] | None:
        """A row as a goal's answer, or None if it is none."""
        args = tuple([self.symbols.terms[code] for code in row[:-1]])
        return args if match(goal.args, (None,) * len(goal.names), args) is not None else None


class AutoTables:
    """Tables that run on the rules engine while the program is function-free.

    `route` says which is in use, `reason` why the term route is. Made by `open_tables`.
    """

    def __init__(self, tables: Tables, connect: Connect, *, strict: bool) -> None:
        self.tables = tables
        self.reason: str | None = None
        self._connect = connect
        self._strict = strict
        self._goals: dict[tuple[Key, tuple[Term, ...]], Goal] = {}
        self._kernel: _Kernel | None = None
        self._rebuild()

    @property
    def route(self) -> Literal["kernel", "term"]:
        """Which machinery answers."""
        return "kernel" if self.reason is None else "term"

    def close(self) -> None:
        """Close the engine's database."""
        if self._kernel is not None:
            self._kernel.db.close()
            self._kernel = None

    def query(self, goal: str) -> Iterator[Solution]:
        """The answers of a goal, kept up to date from then on. Raises as `Tables.query`."""
        read = read_goal(self.tables.program, goal)
        key = (read.key, instantiate(read.args, (None,) * len(read.names)))
        if key not in self._goals:
            self._goals[key] = read
            try:
                self._ask(read)
            except BaseException:
                del self._goals[key]
                raise
        if self._kernel is None:
            yield from self.tables.query(goal)
            return
        for args in self._kernel.answers(read):
            yield Solution.of(read, args)

    def update(
        self, insert: Iterable[ClauseLike] | str = (), delete: Iterable[ClauseLike] | str = (),
        *, missing: str = "error",
    ) -> TablesDelta:  # fmt: skip
        """Change the program; see `Tables.update`. All is as before if it raises."""
        delta = self.tables.update(insert, delete, missing=missing)
        arrived, left = self.tables.changed
        if self.route == "term":
            return delta
        try:
            if all(r.is_fact for clause in (*arrived, *left) for r in clause.rules):
                return self._edit(arrived, left)
            before = self._contents()
            self._rebuild()
            return TablesDelta(_compare(before, self._contents()), Counters())
        except BaseException:
            self.tables.update([c.term for c in left], [c.term for c in arrived])
            self._rebuild()
            raise

    # -- inside ---------------------------------------------------------------------------------

    def _ask(self, goal: Goal) -> None:
        if self.route == "term":
            return
        kernel = self._kernel
        if kernel is None or kernel.relation(goal) is None:
            self._rebuild()
            return
        with kernel.db.transaction(missing="ignore") as tx:
            for name, row in kernel.demand(goal):
                tx.insert(name, [row])

    def _rebuild(self) -> None:
        """Translate anew; on to the term route for good if that cannot be done."""
        self.close()
        try:
            self._kernel = _Kernel(self.tables, list(self._goals.values()), self._connect)
        except Untranslatable as cause:
            if self._strict:
                msg = f"engine='kernel': {cause}; engine='term' runs it"
                raise PrologError(msg) from cause
            self.reason = str(cause)
            for goal in self._goals.values():
                for _ in self.tables.query(str(goal)):
                    pass

    def _edit(self, arrived: list[Clause], left: list[Clause]) -> TablesDelta:
        kernel = cast("_Kernel", self._kernel)
        try:
            added = [pair for clause in arrived for pair in kernel.rows(clause)]
            removed = [pair for clause in left for pair in kernel.rows(clause)]
        except (Untranslatable, KeyError):
            before = self._contents()
            self._rebuild()
            return TablesDelta(_compare(before, self._contents()), Counters())
        with kernel.db.transaction(missing="ignore") as tx:
            for name, row in removed:
                tx.delete(name, [row])
            for name, row in added:
                tx.insert(name, [row])
        changes: dict[str, Change] = {}
        for goal in self._goals.values():
            rows = tx.delta.get(kernel.relation(goal)) if tx.delta is not None else None
            if rows is None:
                continue
            change = Change(
                tuple(_terms(kernel, goal, rows.added)), tuple(_terms(kernel, goal, rows.removed))
            )
            if change != Change():
                changes[_text(goal)] = change
        return TablesDelta(changes, Counters())

    def _contents(self) -> dict[str, set[Term]]:
        """The answers by goal. A goal may be asked of either route."""
        out = {}
        for goal in self._goals.values():
            if self._kernel is not None:
                found = {goal_term(goal.key[0], a) for a in self._kernel.answers(goal)}
            else:
                found = {s.term for s in self.tables.query(str(goal))}
            out[_text(goal)] = found
        return out


def _terms(kernel: _Kernel, goal: Goal, rows: Iterable[tuple[int, ...]]) -> Iterator[Term]:
    for row in rows:
        args = kernel.fits(goal, row)
        if args is not None:
            yield goal_term(goal.key[0], args)


def _text(goal: Goal) -> str:
    return show(instantiate((goal.term,), (None,) * len(goal.names))[0])


def _compare(before: dict[str, set[Term]], after: dict[str, set[Term]]) -> dict[str, Change]:
    return {
        goal: Change(tuple(after[goal] - before[goal]), tuple(before[goal] - after[goal]))
        for goal in after
        if after[goal] != before[goal]
    }


def open_tables(
    text: str = "", *, engine: str = "term", connect: Connect | None = None, **options: Any
) -> Tables | AutoTables:
    """Open tables over a program.

    Args:
        text: clauses to consult.
        engine: `term` (SLG), `auto` (the rules engine while the program is function-free, else
            SLG) or `kernel` (the rules engine or an error).
        connect: `deltafix.connect`; `auto` and `kernel` need it.
        options: as for `Tables`.

    Raises:
        ValueError: unknown engine, or no `connect` where one is needed.
        PrologError: the text, or with `kernel` that it cannot be translated.
    """
    if engine not in ENGINES:
        msg = f"engine {engine!r} is none of {', '.join(ENGINES)}"
        raise ValueError(msg)
    tables = Tables(text, **options)
    if engine == "term":
        return tables
    if connect is None:
        msg = f"engine={engine!r} needs connect=deltafix.connect"
        raise ValueError(msg)
    return AutoTables(tables, connect, strict=engine == "kernel")
