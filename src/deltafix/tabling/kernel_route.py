"""The kernel route: function-free programs run by the rules engine, behind the same door.

`open_tables(..., engine="auto", connect=deltafix.connect)` takes the engine as an argument:
tabling and engine are siblings and do not import each other, so each can judge the other.
Invariant: `AutoTables` answers and reports as `Tables` does; it holds a `Tables` as its program,
asks the engine while the program can be translated, and the term route from then on.
An edit of facts or of rules is an epoch of the engine's database. That is built anew only where
negation comes into a program or goes, since then answers lie in other relations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, cast

from deltafix.errors import PrologError
from deltafix.facts.delta import Delta
from deltafix.tabling.changes import Change, TablesDelta
from deltafix.tabling.clauses import Clause, Key
from deltafix.tabling.given import ClauseLike
from deltafix.tabling.goals import Goal, Solution, read_goal
from deltafix.tabling.kernel_state import Connect, Kernel, text_of
from deltafix.tabling.session import Tables
from deltafix.tabling.table import Counters
from deltafix.tabling.terms import Term
from deltafix.tabling.trace import goal_term
from deltafix.tabling.translate import Untranslatable
from deltafix.tabling.unify import instantiate

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
        delta = self.tables.update(insert, delete, retractall=retractall, missing=missing)
        arrived, left = self.tables.changed
        if self.route == "term":
            return delta
        try:
            if all(r.is_fact for clause in (*arrived, *left) for r in clause.rules):
                return self._edit(arrived, left)
            return self._follow(arrived, left)
        except BaseException:
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
                found = {goal_term(goal.key[0], args): "true" for args in answers}
            else:
                found = {s.term: s.truth for s in self.tables.query(str(goal))}
            out[text_of(goal)] = found
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
