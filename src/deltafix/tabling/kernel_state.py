"""One database of the rules engine in the place of tables: what a translated program runs on.

Invariant: the database holds the rules, facts and demands of one moment of the program. An edit is
an epoch, of facts or of rules, and costs what it changes; a new `Kernel` is for programs whose
translation has the answers elsewhere. Which of these it is to be is `kernel_route`'s to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, cast

from deltafix.datalog.program import Program as RulesProgram
from deltafix.errors import ProgramError
from deltafix.facts.delta import Delta
from deltafix.tabling.changes import Change
from deltafix.tabling.clauses import Clause
from deltafix.tabling.goals import Goal
from deltafix.tabling.session import Tables
from deltafix.tabling.terms import Term
from deltafix.tabling.trace import goal_term
from deltafix.tabling.translate import Symbols, Translation, Untranslatable, pattern_of, translate
from deltafix.tabling.unify import instantiate, match
from deltafix.tabling.writer import show

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
        places = tuple(i for i, a in enumerate(goal.args) if a.ground)
        codes = tuple(self.symbols.code(goal.args[i]) for i in places)
        views = self.kept.setdefault(cast("str", self.relation(goal)), {})
        views.setdefault(places, {}).setdefault(codes, []).append(goal)

    def changes(self, delta: Delta | None) -> dict[str, Change]:
        """What a transaction changed, by kept goal. O(rows changed times patterns kept)."""
        found: dict[Goal, tuple[list[Term], list[Term]]] = {}
        for name, views in self.kept.items():
            rows = None if delta is None else delta.get(name)
            if rows is None:
                continue
            for side, changed in enumerate((rows.added, rows.removed)):
                for row in cast("Iterable[tuple[int, ...]]", changed):
                    for places, goals in views.items():
                        for goal in goals.get(tuple([row[i] for i in places]), ()):
                            args = self.fits(goal, row)
                            if args is not None:
                                sides = found.setdefault(goal, ([], []))
                                sides[side].append(goal_term(goal.key[0], args))
        return {
            text_of(goal): Change(tuple(added), tuple(removed))
            for goal, (added, removed) in found.items()
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
