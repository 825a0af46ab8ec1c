"""A database that several threads use at once, and the judge of what each of them got.

A play: writers in threads commit random edits of rows and of rules, roll some back and compact;
readers in threads call every door that reads (`thread_doors`); watchers begin and end. Nothing is
compared while it runs: each commit leaves what is given then under its epoch's number, each read
what it got and which epochs were committed when it began and when it ended. Afterwards the naive
evaluator says what held in each epoch, and every read must be the answer of one epoch of its span.
What is read within a transaction must be of one epoch; the deltas that a watcher was told, added
up, must lead from the rows it began with to those of its end; a commit's own delta is the
difference that it made, whenever it is looked at.

Invariant: nothing waits for time. The interpreter switches threads as often as it can, and they
begin together at a barrier. A seed decides what is tried, not how the threads are woven.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.generators.strategies import FOLDS, REDUCERS, random_program, random_row
from tests.judges.oracle import evaluate
from tests.support.thread_doors import DOORS, Held, said

import deltafix
from deltafix.datalog.program import Program
from deltafix.errors import CancelledError, FactError, ProgramError, UnknownRelationError
from deltafix.rules.show import show, show_rule
from deltafix.web.table import Tables

__all__ = ["Failure", "Play", "elsewhere"]

Given = dict[str, frozenset[tuple]]
EDITS = 4
"""Rows that a transaction edits at most."""
MANY = 1500
"""Rows that a transaction of a large play edits at most."""
LARGE = """
.decl e(text: symbol, n: number, half: float)
.decl far(text: symbol, n: number)
.decl size(n: number)
.decl twice(n: number, wide: number)
.input e
.output far, size, twice
far(text, n) :- e(text, n, _), n > 40.
twice(n, n * 3000000000) :- e(_, n, _).
size(count : { e(_, _, _) }).
"""
"""Its tables and texts grow while they are read; a row's columns say the same number."""


class Moment(NamedTuple):
    """A committed epoch: its rules, the relations it shows, the rows that were given."""

    program: Program
    names: frozenset[str]
    given: Given


class Read(NamedTuple):
    """An answer: what was called, the epochs committed before and after, and what it may be."""

    door: str
    relation: str
    begun: int
    ended: int
    got: Any
    fits: Callable[[dict[str, set[tuple]]], bool] | None


class Heard(NamedTuple):
    """What a watcher was told, between the rows of two moments."""

    begun: int
    before: dict[str, set[tuple]]
    told: list[Any]
    ended: int
    after: dict[str, set[tuple]]


class Failure(NamedTuple):
    """An answer that no epoch of its span gives, or a thread that ended with an error."""

    door: str
    detail: str


@contextmanager
def often_switched() -> Iterator[None]:
    """Threads are switched every microsecond."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _program(rng: Random) -> Program:
    """A random program that the planner takes."""
    while True:
        program = random_program(rng, rng.choice((1, 2, 3)))
        try:
            with deltafix.connect(program, reducers=REDUCERS):
                return program
        except ProgramError:
            continue


@dataclass
class Play:
    """Writers and readers of one database, and what they got.

    Args:
        seed: decides the program, and what each thread tries.
        writers: how many threads commit.
        readers: how many read.
        reads: calls of each reader; the play ends with the last one.
        commits: transactions of a writer at most; each is an evaluation for the judge.
        large: of a program whose tables grow while they are read.
        path: a folder for its state; None for memory.
    """

    seed: object
    writers: int = 1
    readers: int = 3
    reads: int = 100
    commits: int = 60
    large: bool = False
    path: Path | None = None
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def run(self) -> list[Failure]:
        """Play and judge."""
        rng = Random(f"threads {self.seed}")
        program = Program.parse(LARGE) if self.large else _program(rng)
        inline = {one.name for one in program.relations if "inline" in one.qualifiers}
        rules = [one for one in program.rules if one.body and one.heads[0].relation not in inline]
        self._rules = [*dict.fromkeys(map(show_rule, rules))]
        self._outputs = [one for one in program.directives if one.kind == "output"]
        self._given: dict[int, Given] = {}
        self._moments: dict[int, Moment] = {}
        self._reads: list[Read] = []
        self._heard: list[Heard] = []
        self._deltas: list[tuple[int, Any]] = []
        self._first: int | None = None
        self._over = threading.Event()
        self._left = self.readers
        with self._connected(program) as self._db:
            self._given[self._db.epoch] = {}
            works = [partial(self._write, n) for n in range(self.writers)]
            works += [partial(self._read, n) for n in range(self.readers)]
            works += [self._watch, self._follow]
            self._barrier = threading.Barrier(len(works))
            threads = [threading.Thread(target=self._guarded, args=(one,)) for one in works]
            with often_switched():
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            with self._still() as last:
                rows = self._rows()
            self._db.check_invariants()
        if self.path is not None:
            with self._connected(self._moments[last].program) as self._db:
                if (self._db.epoch, self._rows()) != (last, rows):
                    self._fail("open again", f"{self._rows()}; right: {rows}")
        self._judge()
        return self.failures

    def _connected(self, program: Program) -> deltafix.Database:
        if self.path is None:
            return deltafix.connect(program, reducers=REDUCERS)
        return deltafix.connect(program, self.path, fsync="never", reducers=REDUCERS)

    def _fail(self, door: str, detail: str) -> None:
        self.failures.append(Failure(door, detail[:2000]))

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            self._barrier.wait()
            work()
        except BaseException as error:  # whatever ends a thread is a finding
            trace = reversed(traceback.extract_tb(error.__traceback__)[-6:])
            where = " < ".join(f"{one.name}:{one.lineno}" for one in trace)
            self._fail("a thread", f"{type(error).__name__}: {error} ({where})")
            self._over.set()

    @contextmanager
    def _still(self) -> Iterator[int]:
        """Nobody commits meanwhile. Notes what is committed, and gives its number."""
        self._db.settle()
        tx = self._db.transaction()
        try:
            self._note()
            yield self._db.epoch
        finally:
            tx.rollback()

    def _note(self) -> Given:
        """What is given; the caller has a transaction open."""
        db = self._db
        given = self._given[db.epoch]
        self._moments[db.epoch] = Moment(db.program, frozenset(db.schemas), given)
        return given

    def _rows(self) -> dict[str, set[tuple]]:
        return {name: set(self._db.rows(name)) for name in self._db.schemas}

    # -- threads ------------------------------------------------------------------------------

    def _write(self, number: int) -> None:
        rng = Random(f"writer {self.seed} {number}")
        kept: list[tuple[int, Any]] = []
        for _ in range(self.commits):
            if self._over.is_set():
                break
            if rng.random() < 0.1:
                self._db.compact()
                self.counts["compact"] += 1
            try:
                kept += self._commit(rng)
            except CancelledError:
                self.counts["cancelled"] += 1
            except (FactError, ProgramError):  # given rows of what is kept no more; bad negation
                self.counts["refused"] += 1
            if rng.random() < 0.8:
                self._deltas += [(epoch, _sides(tx.delta)) for epoch, tx in kept]
                kept.clear()
        self._deltas += [(epoch, _sides(tx.delta)) for epoch, tx in kept]

    def _commit(self, rng: Random) -> list[tuple[int, Any]]:
        """One transaction: its epoch, if it was committed."""
        db = self._db
        with db.transaction() as tx:
            given = {name: set(rows) for name, rows in self._note().items()}
            program, epoch = db.program, db.epoch + 1
            if db.instance.is_unrun:  # nothing holds yet: the commit runs the first epoch, too
                self._first = epoch
            elif self._first == epoch:  # another was rolled back, and the first epoch read since
                self._first = None
            if self.large:
                self._edit_many(rng, tx, given.setdefault("e", set()))
            else:
                self._edit(rng, tx, given, program)
            if self._rules and rng.random() < 0.25:
                rule = rng.choice(self._rules)
                held = {*map(show_rule, program.rules)}
                (tx.remove_rule if rule in held else tx.add_rule)(rule)
                self.counts["edits of rules"] += 1
            elif rng.random() < 0.1:
                tx.change_program(self._shown_less_or_more(rng, program))
                self.counts["edits of outputs"] += 1
            if rng.random() < 0.1:
                tx.rollback()
                self.counts["rolled back"] += 1
                return []
            self._given[epoch] = {name: frozenset(rows) for name, rows in given.items()}
        self.counts["committed"] += 1
        return [(epoch, tx)]

    def _shown_less_or_more(self, rng: Random, program: Program) -> Program:
        """The program with another relation shown, or one less, which need not be kept then."""
        shown = [one for one in program.directives if one.kind == "output"]
        hidden = [one for one in self._outputs if one not in shown]
        other = rng.choice(shown + hidden)
        if other in hidden:
            left = (*program.directives, other)
        else:
            left = tuple(one for one in program.directives if one != other)
        return Program.parse(show(replace(program, directives=left)))

    def _edit(self, rng: Random, tx: Any, given: dict[str, set[tuple]], program: Program) -> None:
        for _ in range(rng.randint(0, EDITS)):
            name = rng.choice(program.names("input"))
            there = given.setdefault(name, set())
            if there and rng.random() < 0.4:
                row = rng.choice(sorted(there, key=repr))
                there.discard(row)
                tx.delete(name, [row])
            else:
                row = random_row(rng, program, name, far=True)
                there.add(row)
                tx.insert(name, [row])

    def _edit_many(self, rng: Random, tx: Any, there: set[tuple]) -> None:
        if there and rng.random() < 0.3:
            gone = rng.sample(sorted(there), rng.randint(1, len(there)))
            tx.delete("e", gone)
            there -= set(gone)
        numbers = (rng.choice((rng.randrange(100), rng.getrandbits(40))) for _ in range(MANY))
        made = [(f"{n} ä" * (n % 5 + 1), n, n / 2) for n in numbers]
        made = made[: rng.randint(1, MANY)]
        tx.insert("e", made)
        there |= set(made)

    def _read(self, number: int) -> None:
        rng = Random(f"reader {self.seed} {number}")
        db, tables = self._db, Tables(self._db)
        try:
            for _ in range(self.reads):
                if self._over.is_set():
                    break
                name, door = rng.choice([*db.schemas]), rng.choice(DOORS)
                begun, fits = db.epoch, None
                got: Any
                try:
                    got, fits = door(rng, db, name, tables)
                except CancelledError:  # of a first epoch, or of one that was tried
                    self.counts["cancelled"] += 1
                    continue
                except UnknownRelationError as error:
                    got = error
                self._reads.append(Read(door.__name__, name, begun, db.epoch, got, fits))
                self.counts[f"read by {door.__name__}"] += 1
                if rng.random() < 0.01:
                    db.cancel()
                if rng.random() < 0.05:
                    self._read_all()
        finally:
            self._left -= 1
            if self._left <= 0:
                self._over.set()

    def _read_all(self) -> None:
        """All relations within a transaction: of one epoch."""
        with self._still() as epoch:
            rows = self._rows()
        for name, got in rows.items():

            def fits(held: Held, name: str = name, got: set[tuple] = got) -> bool:
                return said(held[name]) == said(got)

            self._reads.append(Read("a transaction", name, epoch, epoch, got, fits))

    def _watch(self) -> None:
        """Watchers begin and end while others commit."""
        db, rng = self._db, Random(f"watcher {self.seed}")
        while not self._over.is_set():
            told: list[Any] = []
            with self._still() as begun:
                before = self._rows()
                watch = db.watch(None, told.append)
            for _ in range(rng.randint(1, 30)):
                db.count(rng.choice([*db.schemas]))
            with self._still() as ended:
                watch.close()
                self._heard.append(Heard(begun, before, told, ended, self._rows()))
            self.counts["watches"] += 1

    def _follow(self) -> None:
        """A loop of asyncio follows until readers are done."""
        told: list[Any] = []
        with self._still() as begun:
            before = self._rows()
            watch = self._db.watch()

        async def follow() -> None:
            async for delta in watch:
                told.append(delta)

        def close() -> None:
            self._over.wait()
            with self._still() as ended:
                watch.close()
                self._heard.append(Heard(begun, before, told, ended, self._rows()))

        closer = threading.Thread(target=close)
        closer.start()
        asyncio.run(follow())
        closer.join()

    # -- the judge ----------------------------------------------------------------------------

    def _judge(self) -> None:
        held: dict[int, dict[str, set[tuple]]] = {}

        def at(epoch: int) -> dict[str, set[tuple]]:
            if epoch not in held:
                moment = self._moments[epoch]
                held[epoch] = evaluate(moment.program, moment.given, reducers=FOLDS)
            return held[epoch]

        for one in self._reads:
            self.counts["reads judged"] += 1
            span = range(one.begun, one.ended + 1)
            if one.fits is None:
                fits = any(one.relation not in self._moments[epoch].names for epoch in span)
            else:
                fits = any(one.fits(at(epoch)) for epoch in span)
            if not fits:
                right = [said(at(epoch)[one.relation]) for epoch in span]
                where = f"{one.relation}, epochs {one.begun} to {one.ended}"
                self._fail(one.door, f"{where}: {one.got!r}; right: {right}")
        for epoch, found in self._deltas:
            self.counts["deltas judged"] += 1
            names = self._moments[epoch - 1].names | self._moments[epoch].names
            before, after = (self._seen(e, at(e)) for e in (epoch - 1, epoch))
            if epoch == self._first:
                before = {name: set() for name in before}
            wanted = {n: [said(after[n] - before[n]), said(before[n] - after[n])] for n in names}
            wanted = {name: sides for name, sides in wanted.items() if sides != [[], []]}
            if found != wanted:
                self._fail("a delta", f"epoch {epoch}: {found}; right: {wanted}")
        for one in self._heard:
            self._judge_heard(one)

    def _seen(self, epoch: int, held: dict[str, set[tuple]]) -> dict[str, set[tuple]]:
        """What of an epoch's rows is seen: none of a relation that it does not show."""
        names = self._moments[epoch].names
        return {name: rows if name in names else set() for name, rows in held.items()}

    def _judge_heard(self, heard: Heard) -> None:
        state = {name: set(rows) for name, rows in heard.before.items()}
        last = heard.begun
        for delta in heard.told:
            self.counts["deltas told"] += 1
            if not last < delta.epoch <= heard.ended:
                self._fail("a watch", f"epoch {delta.epoch} after {last}")
            last = delta.epoch
            for name, part in delta.items():
                there = state.setdefault(name, set())
                if not set(part.removed) <= there or set(part.added) & there:
                    self._fail("a watch", f"epoch {last}, {name}: {part} is of other rows")
                there -= set(part.removed)
                there |= set(part.added)
        found = {name: rows for name, rows in state.items() if rows}
        if found != {name: rows for name, rows in heard.after.items() if rows}:
            self._fail("a watch", f"{heard.begun} to {heard.ended}: {found}, not {heard.after}")


def _sides(delta: Any) -> dict[str, list[list[str]]]:
    """What a delta says of each relation: rows that came, and that went."""
    return {name: [said(part.added), said(part.removed)] for name, part in delta.items()}


def elsewhere(work: Callable[[], Any]) -> Any:
    """What a call gives, or raises, in another thread, which has ended then."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]
