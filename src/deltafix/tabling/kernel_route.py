"""The kernel route: function-free programs run by the rules engine, behind the same door.

`open_tables(..., engine="auto", connect=deltafix.connect)` takes the engine as an argument:
tabling and engine are siblings and do not import each other, so each can judge the other.
Invariant: `AutoTables` answers and reports as `Tables` does; it holds a `Tables` as its program,
asks the engine while the program can be translated, and the term route from then on.
An edit of facts or of rules is an epoch of the engine's database. That is built anew only where
negation comes into a program or goes, since then answers lie in other relations.

One database of the rules engine stands in the place of tables: it holds the rules, facts and
demands of one moment of the program. An edit is an epoch and costs what it changes; a new `Kernel`
is for programs whose translation has the answers elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal, TypeAlias, cast

from deltafix.datalog.program import Program as RulesProgram
from deltafix.errors import ProgramError, PrologError
from deltafix.facts.delta import Delta
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

ENGINES: Final = ("term", "auto", "kernel")


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
        self._kernel: Kernel | None = None
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
        *, retractall: Iterable[str] | str = (), missing: str = "error",
    ) -> TablesDelta:  # fmt: skip
        """Change the program; see `Tables.update`. All is as before if it raises."""
        epoch = self.tables.epoch
        try:
            delta = self.tables.update(insert, delete, retractall=retractall, missing=missing)
            arrived, left = self.tables.changed
            if self.route == "term":
                return delta
            if all(r.is_fact for clause in (*arrived, *left) for r in clause.rules):
                return self._edit(arrived, left)
            return self._follow(arrived, left)
        except BaseException:
            if self.route != "term" and self.tables.epoch != epoch:  # else it took that back itself
                arrived, left = self.tables.changed
                self.tables.update([c.term for c in left], [c.term for c in arrived])
                self._rebuild()
            raise

    # -- inside ---------------------------------------------------------------------------------

    def _ask(self, goal: Goal) -> None:
        if self.route == "term":
            return
        kernel = self._kernel
        if kernel is None:
            self._rebuild()
            return
        if kernel.relation(goal) is None:
            if self._epoch() is None:
                self._rebuild()
            return
        with kernel.db.transaction(missing="ignore") as tx:
            for name, row in kernel.demand(goal):
                tx.insert(name, [row])
        kernel.keep(goal)

    def _rebuild(self) -> None:
        """Translate anew; on to the term route for good if that cannot be done."""
        self.close()
        try:
            self._kernel = Kernel(self.tables, list(self._goals.values()), self._connect)
        except Untranslatable as cause:
            if self._strict:
                msg = f"engine='kernel': {cause}; engine='term' runs it"
                raise PrologError(msg) from cause
            self.reason = str(cause)
            for goal in self._goals.values():
                for _ in self.tables.query(str(goal)):
                    pass

    def _edit(self, arrived: list[Clause], left: list[Clause]) -> TablesDelta:
        kernel = cast("Kernel", self._kernel)
        try:
            added = [pair for clause in arrived for pair in kernel.rows(clause)]
            removed = [pair for clause in left for pair in kernel.rows(clause)]
        except (Untranslatable, KeyError):  # facts of a predicate that is new
            return self._follow(arrived, left)
        with kernel.db.transaction(missing="ignore") as tx:
            for name, row in removed:
                tx.delete(name, [row])
            for name, row in added:
                tx.insert(name, [row])
        return TablesDelta(kernel.changes(tx.delta), Counters())

    def _follow(self, arrived: list[Clause], left: list[Clause]) -> TablesDelta:
        """Have the rules, facts and goals of now, for what their difference costs."""
        delta = self._epoch(arrived, left)
        if delta is not None:
            return TablesDelta(cast("Kernel", self._kernel).changes(delta), Counters())
        before = self._contents()
        self._rebuild()
        return TablesDelta(_compare(before, self._contents()), Counters())

    def _epoch(self, arrived: Sequence[Clause] = (), left: Sequence[Clause] = ()) -> Delta | None:
        """The epoch that follows an edit; None if the engine's program is to be built anew."""
        goals = list(self._goals.values())
        with suppress(Untranslatable):  # `_rebuild` finds that, too, and says so
            return cast("Kernel", self._kernel).edited(self.tables, goals, arrived, left)
        return None

    def _contents(self) -> dict[str, dict[Term, str]]:
        """The answers by goal, with their truth. A goal may be asked of either route."""
        out = {}
        for goal in self._goals.values():
            if self._kernel is not None:
                answers = self._kernel.answers(goal)
                truths = {goal_term(goal.key[0], args): "true" for args in answers}
            else:
                truths = {s.term: s.truth for s in self.tables.query(str(goal))}
            out[text_of(goal)] = truths
        return out


def _compare(
    before: dict[str, dict[Term, str]], after: dict[str, dict[Term, str]]
) -> dict[str, Change]:
    out = {}
    for goal, now in after.items():
        old = before[goal]
        if now != old:
            stayed = now.keys() & old.keys()
            out[goal] = Change(
                tuple(now.keys() - old.keys()),
                tuple(old.keys() - now.keys()),
                tuple(t for t in stayed if now[t] != old[t]),
            )
    return out


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


Connect = Callable[..., Any]
"""`deltafix.connect`, or anything that takes a program and limits and gives a database."""

Places: TypeAlias = tuple[int, ...]
"""Positions of arguments, ascending."""


class Kernel:
    """One engine database for the rules, goals and facts of a moment."""

    kept: dict[str, dict[Places, dict[tuple[int, ...], list[Goal]]]]
    """Goals by relation, by the places they bind, by the codes they bind them to."""

    def __init__(self, tables: Tables, goals: list[Goal], connect: Connect) -> None:
        self.symbols = Symbols()
        program = tables.program
        self.translation: Translation = translate(
            program.predicates, program.clauses.values(), goals, self.symbols
        )
        rows: dict[str, list[tuple[int, ...]]] = {}
        for clause in program.clauses.values():
            for name, row in self.rows(clause):
                rows.setdefault(name, []).append(row)
        for goal in goals:
            for name, row in self.demand(goal):
                rows.setdefault(name, []).append(row)
        self._keep_all(goals)
        budget = tables.budget
        with _translatable():
            parsed = RulesProgram.parse(self.translation.text)
            self.db = connect(parsed, max_rows=budget.max_answers, timeout=budget.timeout)
        try:
            with self.db.transaction(missing="ignore") as tx:
                for name, given in rows.items():
                    tx.insert(name, list(dict.fromkeys(given)))
        except BaseException:
            self.db.close()
            raise

    def edited(
        self,
        tables: Tables,
        goals: list[Goal],
        arrived: Iterable[Clause] = (),
        left: Iterable[Clause] = (),
    ) -> Delta | None:
        """Follow an edit of clauses or of the goals kept; what it changed.

        None if answers of goals that were kept lie elsewhere in the new translation: nothing is
        done then. Raises Untranslatable, and what a commit raises; if the last, this is of no use
        any more.
        """
        program, old = tables.program, self.translation
        new = translate(program.predicates, program.clauses.values(), goals, self.symbols)
        if new.demand != old.demand:
            return None
        removed = [pair for clause in left for pair in self.rows(clause)]
        self.translation = new
        try:
            added = [pair for clause in arrived for pair in self.rows(clause)]
            added += [pair for goal in goals for pair in self.demand(goal)]
            with _translatable(), self.db.transaction(missing="ignore") as tx:
                for name, row in removed:
                    tx.delete(name, [row])
                tx.change_program(RulesProgram.parse(new.text))
        except Untranslatable:
            self.translation = old
            raise
        with self.db.transaction() as then:
            for name, row in added:
                then.insert(name, [row])
        self._keep_all(goals)
        delta: Delta = tx.delta.compose(then.delta)
        return delta

    def _keep_all(self, goals: Iterable[Goal]) -> None:
        self.kept = {}
        for goal in goals:
            self.keep(goal)

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

    def keep(self, goal: Goal) -> None:
        """Report the changes of a goal from now on."""
        positions = tuple(i for i, a in enumerate(goal.args) if a.ground)
        codes = tuple(self.symbols.code(goal.args[i]) for i in positions)
        views = self.kept.setdefault(cast("str", self.relation(goal)), {})
        views.setdefault(positions, {}).setdefault(codes, []).append(goal)

    def changes(self, delta: Delta | None) -> dict[str, Change]:
        """What a transaction changed, by kept goal. O(rows changed times patterns kept)."""
        by_goal: dict[Goal, tuple[list[Term], list[Term]]] = {}
        for name, views in self.kept.items():
            rows = None if delta is None else delta.get(name)
            if rows is None:
                continue
            for side, changed in enumerate((rows.added, rows.removed)):
                for row in cast("Iterable[tuple[int, ...]]", changed):
                    for positions, goals in views.items():
                        for goal in goals.get(tuple([row[i] for i in positions]), ()):
                            args = self.fits(goal, row)
                            if args is not None:
                                sides = by_goal.setdefault(goal, ([], []))
                                sides[side].append(goal_term(goal.key[0], args))
        return {
            text_of(goal): Change(tuple(added), tuple(removed))
            for goal, (added, removed) in by_goal.items()
        }

    def fits(self, goal: Goal, row: tuple[int, ...]) -> tuple[Term, ...] | None:
        """A row as a goal's answer, or None if it is none."""
        args = tuple([self.symbols.terms[code] for code in row[:-1]])
        return args if match(goal.args, (None,) * len(goal.names), args) is not None else None


@contextmanager
def _translatable() -> Iterator[None]:
    """The engine refuses some programs when they are read, others when they are planned."""
    try:
        yield
    except ProgramError as cause:
        raise Untranslatable(f"the rules engine refuses it: {cause}") from cause


def text_of(goal: Goal) -> str:
    """A goal as deltas name it: its variables are A, B and so on."""
    return show(instantiate((goal.term,), (None,) * len(goal.names))[0])
