"""A pipeline's rows in shards: the keeper whose epochs run where the rows are.

    said -> judged in the seats -> supersteps -> outputs are prepared -> the manifest: rows, marks

The state's folder is that of a pipeline whose keeper is the driver: journal, quarantine, lock; the
shards are in the folder `shards` inside. Invariant: an epoch's marks are in the manifest that names
its files, so one step commits both; before it nothing has happened.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from deltafix.engine.state.marks import Marks, check_mark
from deltafix.errors import ConfigError, SparkJobError, StateError
from deltafix.facts.arrow import arrow_schema
from deltafix.facts.delta import Delta
from deltafix.facts.logical import to_logical
from deltafix.facts.schema import Schema
from deltafix.pipeline.augment import Additions
from deltafix.pipeline.change import not_maintained
from deltafix.pipeline.config import schemas_of
from deltafix.pipeline.keeper import EXECUTOR, SHARDS, Keeper, Open, Said, claim, due, shards_head
from deltafix.pipeline.keyed import GONE, KEYED
from deltafix.pipeline.policy import REASONS
from deltafix.pipeline.quarantine import require_few
from deltafix.pipeline.signed import Bad, Signed
from deltafix.pipeline.times import COUNTS
from deltafix.rules.ast import Program
from deltafix.rules.tables import users_of
from deltafix.spark.filed import Filed
from deltafix.spark.shards.database import ShardedDatabase
from deltafix.spark.shards.epoch import Attempt
from deltafix.spark.shards.layout import Layout
from deltafix.spark.shards.seat import judges_in_place
from deltafix.spark.shards.step import First, Judging, Verdict
from deltafix.store.folder import Folder, LocalFolder
from deltafix.store.lock import Lock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("deltafix.spark.shards")


class Shards:
    """Keeps a pipeline's rows in shards; see `pipeline.keeper.Keeper`.

    Args:
        program: the rules, with the relations that the pipeline adds.
        folder: the state's.
        additions: what inputs added to the program.
        spark: a session; None runs every epoch in this process.
        shards: how many; a state that has another number is laid out anew.
        executor: where epochs run, as for `ShardedDatabase`.
        why: why the rows are in shards.

    A state on a disk that the driver kept is taken over. Raises what `ShardedDatabase` raises.
    """

    def __init__(
        self,
        program: Program,
        folder: Folder,
        additions: Additions,
        spark: SparkSession | None,
        *,
        shards: int,
        executor: Literal["auto", "driver", "shards"],
        why: str = "asked for",
    ) -> None:
        self.why = f"shards: {why}"
        self._dropped: dict[str, int] = {}
        lock = None
        if isinstance(folder, LocalFolder):
            folder.path.mkdir(parents=True, exist_ok=True)
            lock = Lock(folder.path / "lock")
        try:
            claim(folder, "shards")
            self.db = _Database(
                program,
                spark,
                shards=shards,
                state=folder / SHARDS,
                executor=executor,
                seats=partial(_seats, additions, schemas_of(program)),
                around=folder,
                noted={EXECUTOR: self.why},
                physical=True,
                **users_of(program),
            )
            self.db.lock = lock
            if lock is not None and shards_head(folder) is not None:
                for name in ("log", "snapshot", "image"):  # what an engine kept has been taken over
                    folder.remove(name)
        except BaseException:
            if lock is not None:
                lock.release()
            raise

    @property
    def touched(self) -> int:
        """Rows that went to other shards, or to the copies of a relation."""
        return self.db.work.messages

    @contextmanager
    def begin(self, *, careful: bool = True) -> Iterator[Open]:
        """As `Keeper.begin`; a seat always looks at every row."""
        del careful
        with ExitStack() as stack:
            opened = _Opened(self.db, stack, self._dropped)
            yield opened
            opened.commit()
            self._dropped |= opened.below

    def tables(self, relation: str) -> Iterable[pa.Table]:
        """As `Keeper.tables`: a piece of a shard at a time."""
        return self.db.tables(relation)

    def grown(self, rows: int) -> Keeper:
        """As `Keeper.grown`."""
        del rows
        return self

    def history(self) -> Iterator[Marks]:
        """What the last epoch marked: a manifest has no more."""
        yield dict(self.db.marks)


def _seats(additions: Additions, schemas: Mapping[str, Schema], layout: Layout) -> Layout:
    """Where rows are judged: with how often they are there, or with all words of their key."""
    layout = layout.beside({name + COUNTS: name for name in additions.counted})
    for name, keying in additions.keyed.items():
        key = [
            position for position, column in enumerate(schemas[name].names) if column in keying.key
        ]
        by_key = layout.by_key(name, name + KEYED, name + GONE, key)
        if by_key is None:
            message = (
                f"input {name}: key: the rules read its rows in a way that does not keep a key in "
                'one shard; executor = "driver"'
            )
            raise ConfigError(message, key="executor", value="shards")
        layout = by_key
    return layout


class _Database(ShardedDatabase):
    """Shards that hold the lock of the state around them, if it has one."""

    lock: Lock | None = None

    def close(self) -> None:
        """Give both folders back. Idempotent."""
        super().close()
        if self.lock is not None:
            self.lock.release()


class _Opened:
    """An epoch of shards that is open; see `pipeline.keeper.Open`."""

    def __init__(self, db: ShardedDatabase, stack: ExitStack, dropped: Mapping[str, int]) -> None:
        self.below: dict[str, int] = {}
        self._dropped = dropped
        self.prepared: Callable[[Delta], None] | None = None
        self.views: Collection[str] | None = None
        self._db = db
        self._stack = stack
        self._marks: Marks = {}
        self._attempt: Attempt | None = None
        self._filed: list[Filed] = []
        self._changed = self._removed = self._grown = 0
        self._given: Collection[str] | None = None
        self._idle = False

    def mark(self, name: str, value: Any) -> None:
        """As `Open.mark`."""
        self._marks[name] = check_mark(value)

    def change_program(self, program: Program) -> None:
        """As `Open.change_program`: shards are laid out for their rules."""
        del program
        raise not_maintained()

    def judge(self, said: Sequence[Said]) -> list[tuple[int, int]]:
        """As `Open.judge`."""
        rows = [(changes.signed, changes.policy.keying) for changes in said if changes.signed.good]
        if not rows:
            return [(0, 0) for _ in said]
        self._filed = [signed for signed, _ in rows if isinstance(signed, Filed)]
        self._changed = sum(signed.good for signed, _ in rows)
        self._removed = sum(signed.removed for signed, _ in rows)
        goes_on = self._db.goes_on(self._changed, self._removed)
        in_place = goes_on and all(judges_in_place(changes.policy) for changes in said)
        first = self._db.first()
        attempt = self._begin(self._db.to_judges(first, rows, in_place=in_place))
        self.below = due(said, self._dropped)
        policies = {changes.signed.schema.relation: changes.policy for changes in said}
        if not first:
            beside = (name + end for name in policies for end in ("", KEYED, GONE, COUNTS))
            self._given = {name for name in beside if name in self._db.layout.given}
        judging = Judging(policies, self.below, in_place)
        verdicts = attempt.judge(judging, self._given, goes_on=goes_on)
        self._idle = attempt.is_idle
        counts = [
            _counts_of(changes.signed, verdicts.get(changes.signed.schema.relation, []))
            for changes in said
        ]
        self._grown = sum(new - old for new, old in counts)
        return counts

    def commit(self) -> None:
        """Run the epoch, say what it changes, commit it with its marks."""
        attempt = self._attempt
        if attempt is None:
            first = self._db.first()
            attempt, self._idle = self._begin(First(first)), not first
        if not self._idle:
            self._db.finish(attempt, self._changed, self._given)
        if self.prepared is not None:
            self.prepared(self._db.delta(attempt, self.views))
        self._db.commit(attempt, self._grown, self._marks)
        for filed in self._filed:
            filed.remove()
        try:
            self._db.balance()
        except (StateError, SparkJobError) as error:  # the epoch stands, and so do all rows
            _LOG.warning("keys that have outgrown a shard stay in it for now: %s", error)
        self._db.warm()

    def _begin(self, first: First) -> Attempt:
        opened = self._db.attempt(first, self._changed, self._removed)
        self._attempt = self._stack.enter_context(opened)
        return self._attempt


def _counts_of(signed: Signed, verdicts: Sequence[Verdict]) -> tuple[int, int]:
    """Add what shards set aside to the bad rows of a relation; how many came and went."""
    bad = [row for verdict in verdicts for row in verdict.bad]
    bad.sort(key=lambda row: (REASONS.index(row[0]), row[1]))
    schema = signed.schema
    rows = pa.Table.from_pylist([row for _, _, row in bad], arrow_schema(schema))
    for (reason, place, _), row in zip(bad, to_logical(schema, rows).to_pylist(), strict=True):
        signed.bad.append(Bad(reason, signed.place(place), row))
    beyond = sum(verdict.beyond for verdict in verdicts)
    if beyond:
        require_few(signed.bad, beyond)
    return sum(verdict.new for verdict in verdicts), sum(verdict.old for verdict in verdicts)
