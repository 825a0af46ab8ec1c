"""Tabled programs as the user meets them: consult, query, update, and what each run cost.

Three nouns. `Tables` holds a program and its tables; a query yields `Solution`s and keeps its
table; an update returns a `TablesDelta`, what changed in every kept table, and leaves the run's
`Counters` in `last`. Invariant: after any exception the program and the tables are as before.
Not here: how answers are found (`solve`) and kept (`propagate`, `update`).

The strategy `scratch` drops every table, changes the program and asks the kept goals again; all of
it is undone like any other update if something raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from deltafix.collector import held_back
from deltafix.errors import TransactionError
from deltafix.tabling.agenda import Agenda, Budget
from deltafix.tabling.callgraph import CallGraph
from deltafix.tabling.changes import TablesDelta, compared, contents, net_changes
from deltafix.tabling.clauses import Clause, Kind
from deltafix.tabling.drop import dependents, discard, nodes, unreachable
from deltafix.tabling.factbase import unsubscribe
from deltafix.tabling.given import ClauseLike, Given, changes_of
from deltafix.tabling.goals import Goal, Solution, read_goal, visible
from deltafix.tabling.invariants import check_invariants
from deltafix.tabling.lexer import Source
from deltafix.tabling.program import Program, read_file
from deltafix.tabling.solve import call
from deltafix.tabling.table import TRUE, Answer, Counters, Forest, Generator
from deltafix.tabling.trace import Trace, call_term
from deltafix.tabling.unify import instantiate
from deltafix.tabling.update import (
    STRATEGIES,
    Strategy,
    apply,
    delete_clause,
    guarded,
    insert_clause,
    run,
    steps,
)
from deltafix.tabling.writer import show


class Tables:
    """A tabled logic program whose tables follow every change of facts and rules.

    Args:
        text: clauses and declarations to consult first.
        strategy: the schedule of updates, see `update`.
        max_answers: most answers one query or update may insert, None for no limit.
        timeout: most seconds one query or update may take, None for no limit.
        trace: collects events in the paper's notation.

    Raises:
        PrologError: `text` cannot be accepted.
    """

    def __init__(
        self,
        text: str = "",
        *,
        strategy: Strategy = "local",
        max_answers: int | None = None,
        timeout: float | None = None,
        trace: Trace | None = None,
    ) -> None:
        self._check_strategy(strategy)
        self.strategy: Strategy = strategy
        self.program = Program()
        self.last = Counters()
        self.total = Counters()
        self.changed: tuple[list[Clause], list[Clause]] = ([], [])
        """The clauses the last update really inserted and deleted."""
        self.visited: dict[str, int] = {}
        """Calls the last update visited, by predicate: `{"r/2": 3}`."""
        self._stopping = False  # an interrupt may have come as an evaluation ended
        agenda = Agenda()
        self._forest = Forest(
            self.program, CallGraph(agenda.reopen), agenda, Budget(max_answers, timeout)
        )
        self._forest.trace = self._forest.agenda.trace = trace
        if text:
            self.consult(text)

    @classmethod
    def from_file(cls, path: str | Path, **options: object) -> Tables:
        """Consult a file. Options as for the class. Raises SourceError, PrologError."""
        tables = cls(**options)  # type: ignore[arg-type]  # checked by __init__
        tables._consult(read_file(path))
        return tables

    # -- asking ---------------------------------------------------------------------------------

    def query(self, goal: str) -> Iterator[Solution]:
        """Yield the answers of a goal as they are found; its table is kept up to date from then on.

        A program with negation yields only complete tables. An iterator given up before the end
        drops what is incomplete.

        Raises:
            PrologError: at once, if the goal cannot be asked.
            BudgetError, PrologError: while running; all complete tables are as before.
            TransactionError: the program was changed while the iterator was open.
        """
        return self._solutions(read_goal(self.program, goal))

    def holds(self, goal: str) -> bool:
        """Whether a goal has a true answer."""
        return any(answer.truth == "true" for answer in list(self.query(goal)))

    def _solutions(self, goal: Goal) -> Iterator[Solution]:
        forest = self._forest
        lazily = not any(
            literal.kind is Kind.NOT
            for clause in self.program.clauses.values()
            for rule in clause.rules
            for literal in rule.body
        )
        sent = 0
        try:
            generator = self._start(goal)
            epoch = forest.epoch
            events = steps(forest)
            while _advance(events, generator, sent + sent // 8 if lazily else None):
                for answer in list(islice(generator.answers.values(), sent, None)):
                    sent += 1
                    yield _solution(goal, answer)
                    if forest.epoch != epoch:
                        msg = f"the program changed while the query {goal} was open"
                        raise TransactionError(msg, goal=str(goal))
        finally:
            self._stopping = True
            self._stop()
        generator.kept = 1
        for answer in list(islice(generator.answers.values(), sent, None)):
            if visible(answer):
                yield _solution(goal, answer)

    def _start(self, goal: Goal) -> Generator:
        self._finish()
        forest = self._forest
        forest.budget.start()
        forest.counters = self.last = Counters()
        args = instantiate(goal.args, (None,) * len(goal.names))
        return call(forest, self.program.predicate(goal.key), args, None)

    def _finish(self) -> None:
        """Complete what an open query left unfinished, and the end of one that was interrupted."""
        if self._stopping:
            self._stop()
        if self._forest.agenda.heap:
            try:
                with held_back():
                    run(self._forest)
            finally:
                self._stopping = True
                self._stop()

    def _stop(self) -> None:
        """End an evaluation: what is not complete goes, if need be at the next call (`_finish`)."""
        forest = self._forest
        if forest.created:
            discard(forest, {g: None for g in forest.created if g in g.component.fresh})
            forest.created.clear()
        forest.agenda.forget()
        forest.born.clear()
        forest.revalued.clear()
        self._stopping = False
        self.total.add(forest.counters)
        forest.counters = Counters()

    # -- changing -------------------------------------------------------------------------------

    def consult(self, text: str) -> TablesDelta:
        """Add a text of clauses and declarations, as one update. Raises as `update`."""
        return self._consult(Source(text))

    def _consult(self, source: Source) -> TablesDelta:
        return self._update(Given([source]), None)

    def update(
        self,
        insert: Iterable[ClauseLike] | str = (),
        delete: Iterable[ClauseLike] | str = (),
        *,
        retractall: Iterable[str] | str = (),
        strategy: Strategy | None = None,
        missing: str = "error",
    ) -> TablesDelta:
        """Delete and insert clauses, facts or rules, seen together; bring all tables up to date.

        Inserting a clause that is there does nothing. `delete` names clauses, `retractall` heads:
        every clause whose head unifies with one is deleted (none need be there), unless it is
        inserted as well. Strategies: `local` interleaves both
        halves by component and rank; `deletes_first`, `inserts_first` do not; `dred` marks
        whatever lost any support; `scratch` drops all tables and asks the kept goals again.
        After an error program and tables are as before.

        Raises:
            MissingRowError: a deleted clause is not there (unless `missing="ignore"`).
            UnknownPredicateError: a head of `retractall` is of no predicate.
            PrologError: a clause cannot be accepted or run.
            BudgetError: `max_answers` or `timeout` is spent.
        """
        items = [insert] if isinstance(insert, str) else list(insert)
        doomed = [delete] if isinstance(delete, str) else list(delete)
        heads = [retractall] if isinstance(retractall, str) else list(retractall)
        return self._update(Given(items, doomed, heads, missing), strategy)

    def insert(self, *clauses: ClauseLike) -> TablesDelta:
        """`update(insert=clauses)`."""
        return self.update(insert=clauses)

    def delete(self, *clauses: ClauseLike) -> TablesDelta:
        """`update(delete=clauses)`."""
        return self.update(delete=clauses)

    def retractall(self, *heads: str) -> TablesDelta:
        """`update(retractall=heads)`: `tables.retractall("edge(1, _)")`."""
        return self.update(retractall=heads)

    def replace(self, old: ClauseLike, new: ClauseLike) -> TablesDelta:
        """`update(insert=[new], delete=[old])`: an update of a fact, seen as one."""
        return self.update(insert=[new], delete=[old])

    def _update(self, given: Given, strategy: Strategy | None) -> TablesDelta:
        chosen = strategy or self.strategy
        self._check_strategy(chosen)
        self._finish()
        forest = self._forest
        forest.budget.start()
        forest.counters = counters = self.last = Counters()
        if forest.trace is not None:
            forest.graph.renumber()
        before = contents(forest) if chosen == "scratch" else {}
        try:
            with held_back(), guarded(forest):
                self.changed = inserts, leaving = changes_of(forest, given)
                if chosen == "scratch":
                    apply_from_scratch(forest, inserts, leaving)
                    changes = compared(forest, before)
                else:
                    apply(forest, inserts, leaving, chosen)
                    changes = net_changes(forest)
                self.visited = _by_predicate(forest.visited)
                return TablesDelta(changes, counters)
        finally:
            forest.born.clear()
            forest.died.clear()
            forest.revalued.clear()
            self.total.add(counters)
            forest.counters = Counters()

    # -- tables ---------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """How many updates the program has seen; one that was taken back is none."""
        return self._forest.epoch

    def goals(self) -> list[str]:
        """The goals whose tables are kept, in the order they were first asked."""
        return [show(call_term(g)) for g in self._forest.generators if g.kept]

    @property
    def budget(self) -> Budget:
        """The limits of every run: `max_answers` and `timeout` may be set."""
        return self._forest.budget

    @property
    def calls(self) -> int:
        """How many calls have a table."""
        return len(self._forest.generators)

    @property
    def answers(self) -> int:
        """How many answers the tables hold."""
        return sum(len(g.answers) for g in self._forest.generators)

    def check_invariants(self) -> None:
        """Check that the tables are what the program says; for tests, after any update.

        Ranks and supports, every cross reference, and truth values against a well-founded model
        computed anew from all supports. Complexity: O(size of the tables) per alternation.

        Raises:
            InternalError: names the first thing that does not hold.
        """
        self._finish()
        check_invariants(self._forest)

    def release(self, goal: str) -> None:
        """Keep a goal's table no longer; `collect` then drops what only it needed."""
        generator = self._find(goal)
        if generator is not None:
            generator.kept = 0

    def collect(self) -> int:
        """Drop the calls that no kept goal needs; returns how many. O(size of the tables)."""
        self._finish()
        doomed = unreachable(self._forest)
        discard(self._forest, doomed)
        return len(doomed)

    def abolish(self, goal: str | None = None) -> int:
        """Drop a goal's table and those that use it (all tables if None); returns how many."""
        self._finish()
        forest = self._forest
        generator = self._find(goal) if goal is not None else None
        if goal is None:
            doomed = dict(forest.generators)
        else:
            doomed = dependents([generator]) if generator is not None else {}
        discard(forest, doomed)
        return len(doomed)

    def _find(self, text: str) -> Generator | None:
        goal = read_goal(self.program, text)
        args = instantiate(goal.args, (None,) * len(goal.names))
        return self.program.predicates[goal.key].generators.get(args)

    @staticmethod
    def _check_strategy(strategy: str) -> None:
        if strategy not in STRATEGIES:
            msg = f"strategy {strategy!r} is none of {', '.join(STRATEGIES)}"
            raise ValueError(msg)


def _by_predicate(generators: Iterable[Generator]) -> dict[str, int]:
    out: dict[str, int] = {}
    for generator in generators:
        name = "{}/{}".format(*generator.predicate.key)
        out[name] = out.get(name, 0) + 1
    return out


def _advance(events: Iterator[None], generator: Generator, enough: int | None) -> bool:
    """Run until a call has more answers than `enough`; False when nothing is due any more."""
    with held_back():
        for _ in events:
            if enough is not None and len(generator.answers) > enough:
                return True
    return False


def _solution(goal: Goal, answer: Answer) -> Solution:
    return Solution.of(goal, answer.args, "true" if answer.truth == TRUE else "undefined")


def apply_from_scratch(
    forest: Forest, inserts: Sequence[Clause], deletes: Sequence[Clause]
) -> None:
    """Run an update under `guarded`, keeping nothing of the tables. O(an evaluation)."""
    kept = [(g.predicate, g.args) for g in forest.generators if g.kept]
    for generator in list(forest.generators):
        forest.take(generator.predicate.generators, generator.args)
        forest.take(forest.generators, generator)
        _unhook(forest, generator)
    forest.agenda.updating = False
    for clause in deletes:
        delete_clause(forest, clause)
    for clause in inserts:
        insert_clause(forest, clause)
    for predicate, args in kept:
        call(forest, predicate, args, None).kept = 1
    run(forest)
    forest.graph.rebuild(forest.generators)


def _unhook(forest: Forest, generator: Generator) -> None:
    """Take a call's nodes off fact buckets and clauses."""
    unsubscribe(forest, generator.bucket, generator.root)
    for node in nodes(generator):
        forest.take(node.premise.affects, node)
        if node.source is not None and not isinstance(node.source, Generator):
            unsubscribe(forest, node.source, node)
