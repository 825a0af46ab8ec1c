"""One shard: an engine on the local program, and what it does in a superstep.

A superstep applies the messages that came, works until nothing is left to do here, and gives back
messages for other shards. In a recursive stratum a row may stand only on votes of lower rank:

    retract   rows without such a vote are taken away, until no shard has one left;
    insert    rows with any vote come (back), ranked above everything this shard has heard of.

Both phases end globally before the next begins, so nothing is revived by a row that is about to
go. Ranks are Lamport clocks: the clock jumps past the highest rank in the inbox, and eight bits of
a row's hash order the rows of one round. Invariant: what a step does depends on the shard's rows
and the inbox alone, not on the order in which they lie, so a step done again gives the same
messages. Everything a step changes is in its `journal`; files are `files`' business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from types import MappingProxyType
from typing import Literal

import numpy as np
import pyarrow as pa

from deltafix.engine.database import Database
from deltafix.engine.outside import Users
from deltafix.engine.run import Budget
from deltafix.engine.state.image import CachedImage
from deltafix.engine.transaction import Transaction
from deltafix.facts.arrow import to_numpy
from deltafix.plan.normalize import Core
from deltafix.spark.hashing import Key, hash_rows
from deltafix.spark.shards.layout import Derived, Layout
from deltafix.spark.shards.seat import SAID, Seat
from deltafix.spark.shards.step import (
    RANK_BITS,
    Command,
    Entry,
    Journal,
    Judging,
    Outcome,
    Verdict,
    rank_rows,
    ranked_parts,
)
from deltafix.spark.wire import Batch, fold, route, signed, split

SMALL = 10_000
"""Net changes up to which a shard says in any step what the epoch changes, in case it ends there.
More are said once, in a step of their own."""

_NO_USERS = Users()
_NO_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class Shard:
    """Shard `number` of `shards`, empty. Not safe for threads; a failed step leaves it unusable."""

    def __init__(self, layout: Layout, number: int, shards: int, users: Users = _NO_USERS) -> None:
        core = self.core(layout)
        self.layout = layout
        self.number = number
        self.shards = shards
        self.users = users
        self.clock = 0
        self._attempt = ""
        self.db = Database(
            layout.program,
            core=core,
            strategy="wavefront" if layout.shuffles else "auto",
            budget=Budget(threads=1),  # Spark runs a task a processor
            users=users,
            physical=True,
        )
        # Functions may be others when an image is taken up; only Spark's workers have images.
        self.image: CachedImage | None = None
        if not users.functors and not users.reducers:
            self.image = CachedImage(self.db, str(core))
        self.journal: list[Entry] = []
        self._waiting: list[Entry] = []
        self._held: dict[str, list[pa.Table]] = {}
        self._net: dict[str, list[pa.Table]] = {}
        self._gone: dict[str, list[pa.Table]] = {}
        self._outs = {derived.part("out"): derived for derived in layout.derived.values()}
        self._counted = {n: derived for n, derived in layout.derived.items() if not derived.ranked}
        self._ranks = {
            name: derived for derived in layout.derived.values() for name in ranked_parts(derived)
        }
        self._strata: dict[int, list[Derived]] = {}
        for derived in layout.derived.values():
            self._strata.setdefault(derived.stratum, []).append(derived)
        self._outbox: dict[tuple[int, str], list[pa.Table]] = {}

    def core(self, layout: Layout) -> Core:
        """What the engine runs."""
        return layout.core

    def step(
        self,
        attempt: str,
        command: Command,
        inbox: Iterable[Batch],
        judging: Judging | None = None,
        names: Mapping[str, tuple[str, ...]] = _NO_NAMES,
    ) -> Outcome:
        """One superstep of an attempt at an epoch.

        With `judging`, what is said of rows is judged first; `names` are the columns that users
        see. A step that only judges changes nothing here: what it finds is sent.
        """
        self._begin(attempt)
        self.journal = []
        self._outbox = {}
        verdicts: dict[str, Verdict] = {}
        if judging is not None:
            rest, edits, verdicts = self._judged(judging, inbox, names)
            if command.action == "judge":
                return self._judged_outcome(rest, edits, verdicts)
            inbox = [*rest, *edits]
        waiting, self._waiting = self._waiting, []
        for entry in waiting:
            if entry.kind == "gone":
                self._note(entry.batch, "gone")
        self._edit([*(e.batch for e in waiting if e.kind == "edit"), *inbox])
        action, stratum = command
        if action == "send":
            for batch, derived in self._votes(stratum):
                self._send(batch, derived.home)
        elif action in ("retract", "insert"):
            self._settle(stratum, self._leaving if action == "retract" else self._coming)
        elif action == "finish":
            self._publish(stratum)
        outcome = Outcome(pending=self._pending(), verdicts=verdicts)
        for (shard, name), tables in self._outbox.items():
            net = fold(tables)
            if net.num_rows:
                outcome.messages.setdefault(shard, []).append(Batch(name, net))
                outcome.falling += int(np.count_nonzero(to_numpy(net.column("sign")) < 0))
        outcome.falling += sum(
            self.db.count(derived.part("lost"))
            for derived in self._strata.get(stratum, ())
            if derived.ranked
        )
        if action == "commit" or not (outcome.messages or outcome.pending):
            self._say_changes(outcome, whole=action == "commit")
        return outcome

    def _judged(
        self,
        judging: Judging,
        inbox: Iterable[Batch],
        names: Mapping[str, tuple[str, ...]],
    ) -> tuple[list[Batch], list[Batch], dict[str, Verdict]]:
        """What came beside what is to be judged; net changes of given rows; verdicts.

        Changes are those of the copies here where they judge in place, else of relations. What is
        here stays as it is.
        """
        rest: list[Batch] = []
        by_copy: dict[str, list[pa.Table]] = {}
        for batch in inbox:
            if batch.name.startswith(SAID):
                by_copy.setdefault(batch.name.removeprefix(SAID), []).append(batch.table)
            else:
                rest.append(batch)
        verdicts = {}
        with closing(Seat(self.layout, self.db, names)) as seat:
            for relation, policy in judging.policies.items():
                tells = self.layout.seat(relation).name
                for copy in self.layout.given[relation]:
                    if copy.name not in by_copy:
                        continue
                    verdict = seat.judge(relation, by_copy[copy.name], policy, copy.name)
                    alone = not judging.in_place or copy.key.columns is not None or self.number == 0
                    if copy.name == tells and alone:
                        verdicts[relation] = verdict
            for relation, sequence in judging.below.items():
                seat.drop_tombstones(relation, sequence)
            return rest, list(seat.edits(in_place=judging.in_place)), verdicts

    def _judged_outcome(
        self, rest: Iterable[Batch], edits: Iterable[Batch], verdicts: dict[str, Verdict]
    ) -> Outcome:
        """Changes of relations, sent to their copies; what came beside is for the next step."""
        for batch in rest:
            self._outbox.setdefault((self.number, batch.name), []).append(batch.table)
        for net in edits:
            for copy in self.layout.given[net.name]:
                self._send(Batch(copy.name, net.table), copy.key)
        outcome = Outcome(verdicts=verdicts)
        for (shard, name), parts in self._outbox.items():
            outcome.messages.setdefault(shard, []).append(Batch(name, fold(parts)))
        return outcome

    def anew(self) -> Shard:
        """An empty shard whose next step derives everything from this one's given rows.

        What is derived here counts as gone, so that the epoch's net changes come out as ever.
        """
        new = Shard(self.layout, self.number, self.shards, self.users)
        new.clock = self.clock
        new._waiting = self.restart()
        return new

    def restart(self) -> list[Entry]:
        """The given rows, to be given again, and the reported ones, which are gone before that."""
        entries = []
        for copies in self.layout.given.values():
            for copy in copies:
                if self.db.count(copy.name):
                    entries.append(Entry("edit", self._all(copy.name, copy.name, 1)))
        for name, report in self.layout.reports.items():
            mine = self.number == 0 or not report.everywhere
            if mine and self.db.count(name):
                entries.append(Entry("gone", self._all(name, report.relation, -1)))
        return entries

    def _all(self, name: str, relation: str, sign: int) -> Batch:
        """All rows of a local relation, signed, without their ranks."""
        types = self.layout.types[name]
        if name in self._ranks:
            types = types[:-1]
        return Batch(
            relation, signed(self.db.to_arrow(name).select(range(len(types))), types, sign)
        )

    # --- restoring from a journal ----------------------------------------------------------

    def replay(self, journals: Iterable[Journal]) -> None:
        """Do again what journals say, without sending anything, in one transaction."""
        with self.db.transaction(missing="ignore") as tx:
            for journal in journals:
                self._begin(journal.attempt)
                for kind, batch in journal.entries:
                    if kind == "edit":
                        gone, come = split(batch.table)
                        tx.delete(batch.name, gone)
                        tx.insert(batch.name, come)
                    elif kind == "held":
                        self._held.setdefault(batch.name, []).append(batch.table)
                    elif kind == "sent":
                        self._held.pop(batch.name, None)
                    else:
                        self._noted(kind).setdefault(batch.name, []).append(batch.table)
                self.clock = journal.clock

    def stand_at(self, clock: int, attempt: str) -> None:
        """Go on from where the engine was when an attempt had ended."""
        self.clock, self._attempt = clock, attempt

    def _begin(self, attempt: str) -> None:
        """Forget what belongs to an epoch before this attempt: it was committed."""
        if attempt != self._attempt:
            self._attempt = attempt
            self._held.clear()
            self._net.clear()
            self._gone.clear()

    def given(self) -> Iterator[Entry]:
        """All given rows of the engine, as a journal that makes this shard from nothing."""
        inputs = self._inputs()
        for name in self.layout.types:
            if name in inputs and self.db.count(name):
                table = signed(self.db.to_arrow(name), self.layout.types[name], 1)
                yield Entry("edit", Batch(name, table))

    def _inputs(self) -> set[str]:
        core = self.layout.core
        heads = {clause.head for clause in core.clauses}
        return set(self.layout.types) - heads - {n for fold in core.folds for n in fold.outputs}

    # --- the engine ------------------------------------------------------------------------

    def _edit(self, batches: Iterable[Batch]) -> None:
        """Apply batches in one transaction, and see to what it changed."""
        by_name: dict[str, list[pa.Table]] = {}
        for batch in batches:
            by_name.setdefault(batch.name, []).append(batch.table)
        if not by_name:
            return
        with self.db.transaction(missing="ignore") as tx:
            for name, tables in by_name.items():
                table = fold(tables)
                self.journal.append(Entry("edit", Batch(name, table)))
                gone, come = split(table)
                self._enter(tx, name, gone, come)
                derived = self._ranks.get(name)
                if derived is not None and come.num_rows:
                    highest = int(to_numpy(come.column(derived.arity)).max())
                    self.clock = max(self.clock, highest >> RANK_BITS)
        for name, part in tx.delta.items():
            self._changed(name, part.to_arrow)

    def _enter(self, tx: Transaction, name: str, gone: pa.Table, come: pa.Table) -> None:
        """Edit the engine's rows of a local relation."""
        if gone.num_rows:
            tx.delete(name, gone)
        tx.insert(name, come)

    def _changed(self, name: str, load: Callable[[], pa.Table]) -> None:
        """Keep what a local relation's change means to others."""
        if name in self._outs:
            self._hold(Batch(name, load()))
            return
        counted = self._counted.get(name)
        if counted is not None:
            for copy in counted.above:
                self._send(Batch(copy.name, load()), copy.key)
        report = self.layout.reports.get(name)
        mine = report is not None and (self.number == 0 or not report.everywhere)
        if report is not None and mine and name not in self._ranks:
            self._note(Batch(report.relation, load()))

    def _hold(self, batch: Batch) -> None:
        self._held.setdefault(batch.name, []).append(batch.table)
        self.journal.append(Entry("held", batch))

    def _note(self, batch: Batch, kind: Literal["net", "gone"] = "net") -> None:
        self._noted(kind).setdefault(batch.name, []).append(batch.table)
        self.journal.append(Entry(kind, batch))

    def _noted(self, kind: Literal["net", "gone"]) -> dict[str, list[pa.Table]]:
        return self._net if kind == "net" else self._gone

    def _send(self, batch: Batch, key: Key) -> None:
        for shard, part in route(batch.table, key, self.shards):
            self._outbox.setdefault((shard, batch.name), []).append(part)

    # --- votes and the phases of a recursive stratum -----------------------------------------

    def _votes(self, stratum: int) -> Iterator[tuple[Batch, Derived]]:
        """Take the changes of what this shard derives in a stratum, signed with its number."""
        for derived in self._strata[stratum]:
            tables = self._held.pop(derived.part("out"), None)
            if tables is None:
                continue
            self.journal.append(Entry("sent", Batch(derived.part("out"), tables[0].slice(0, 0))))
            net = fold(tables)
            sender = pa.array(np.full(net.num_rows, self.number, np.int64))
            sender_column = net.num_columns - 1
            net = net.add_column(
                sender_column, pa.field(f"c{sender_column}", pa.int64(), nullable=False), sender
            )
            yield Batch(derived.part("vote"), net), derived

    def _settle(self, stratum: int, moves: Callable[[Derived], pa.Table | None]) -> None:
        """Move rows, and hear this shard's own votes, until there is nothing left to do here."""
        while True:
            local: list[Batch] = []
            for batch, derived in self._votes(stratum):
                self._spread(batch, derived.home, local)
            if not local:
                self.clock += 1
                for derived in self._strata[stratum]:
                    moved = moves(derived)
                    if moved is None:
                        continue
                    local.append(Batch(derived.part("now"), moved))
                    for copy in derived.within:
                        self._spread(Batch(copy.name, moved), copy.key, local)
                    self._note(Batch(derived.relation, moved.drop_columns([f"c{derived.arity}"])))
            if not local:
                self.clock -= 1  # nothing moved in this round
                return
            self._edit(local)

    def _spread(self, batch: Batch, key: Key, local: list[Batch]) -> None:
        """Send the parts for others, keep this shard's own."""
        for shard, part in route(batch.table, key, self.shards):
            if shard == self.number:
                local.append(Batch(batch.name, part))
            else:
                self._outbox.setdefault((shard, batch.name), []).append(part)

    def _leaving(self, derived: Derived) -> pa.Table | None:
        """The rows that no lower vote holds up, to be taken away."""
        name = derived.part("lost")
        if not self.db.count(name):
            return None
        return signed(self.db.to_arrow(name), self.layout.types[name], -1)

    def _coming(self, derived: Derived) -> pa.Table | None:
        """The rows that some vote holds up and that are not there, with their new ranks."""
        rows = self._new(derived)
        if rows is None:
            return None
        ranks = rank_rows(hash_rows(rows, range(derived.arity)), self.clock)
        columns = [*rows.columns, pa.array(ranks)]
        types = self.layout.types[derived.part("now")]
        return signed(pa.table(columns, names=[f"c{n}" for n in range(len(types))]), types, 1)

    def _new(self, derived: Derived) -> pa.Table | None:
        """The rows that are to come, if there are any, without ranks."""
        name = derived.part("new")
        return self.db.to_arrow(name) if self.db.count(name) else None

    def _to_move(self, derived: Derived) -> int:
        """How many rows are to go and to come."""
        return self.db.count(derived.part("lost")) + self.db.count(derived.part("new"))

    # --- the ends ----------------------------------------------------------------------------

    def _publish(self, stratum: int) -> None:
        """Tell the rules of other strata what the epoch changed in a recursive one."""
        for derived in self._strata[stratum]:
            tables = self._net.get(derived.relation)
            if derived.ranked and tables:
                net = Batch("", fold(tables))
                for copy in derived.above:
                    self._send(Batch(copy.name, net.table), copy.key)

    def _pending(self) -> dict[int, int]:
        pending: dict[int, int] = {}
        for stratum, relations in self._strata.items():
            count = 0
            for derived in relations:
                count += sum(t.num_rows for t in self._held.get(derived.part("out"), ()))
                if derived.ranked:
                    count += self._to_move(derived)
            if count:
                pending[stratum] = count
        return pending

    def _say_changes(self, outcome: Outcome, *, whole: bool) -> None:
        """Say what the epoch changes, unless it is much and not asked for as a `whole`."""
        names = {report.relation for report in self.layout.reports.values()}
        changes = {n: [*self._gone.get(n, ()), *self._net.get(n, ())] for n in names}
        many = sum(table.num_rows for tables in changes.values() for table in tables)
        if whole or many <= SMALL:
            net = {name: fold(tables) for name, tables in changes.items() if tables}
            outcome.changes = {name: table for name, table in net.items() if table.num_rows}
            outcome.ended = True
