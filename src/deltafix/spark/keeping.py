"""Who keeps the rows of a pipeline on Spark: the driver's engine, or shards; `auto` decides.

    driver   an engine in the driver's memory; an epoch costs no job of Spark's
    shards   the same engine on parts of the rows, where the executors are
    auto     the driver, until a state and what comes need more than its share of memory; then the
             shards, for good; each epoch of theirs runs where it costs less (`shards.choose`)

Invariant: a state is moved between two epochs, by one rename (the manifest of its shards), and
marks, outputs and epochs go on as if it had not been.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from deltafix.pipeline.augment import Additions
from deltafix.pipeline.keeper import EXECUTOR, Driver, Keep, Keeper, shards_head
from deltafix.rules.ast import Program
from deltafix.rules.tables import TableProgram
from deltafix.spark.shards.choose import memory_needed, room_for_state
from deltafix.spark.shards.kept import Shards
from deltafix.store.folder import Folder, LocalFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Where = Literal["auto", "driver", "shards"]


def keeping(session: Callable[[], SparkSession | None], executor: Where, shards: int) -> Keep:
    """Opens keepers; `session` is asked for a session when shards need one.

    Without a session (None), `auto` runs shards in this process.
    """

    def sharded(program: Program, folder: Folder, additions: Additions, why: str) -> Keeper:
        return Shards(
            program, folder, additions, session(),
            shards=shards, executor="auto" if executor == "auto" else "shards", why=why,
        )  # fmt: skip

    def keep(program: Program, folder: Folder, fsync: str, additions: Additions) -> Keeper:
        if executor == "driver":
            return Driver(program, folder, fsync, additions, "asked for")
        if executor == "shards":
            return sharded(program, folder, additions, "asked for")
        head = shards_head(folder)
        if head is not None:
            before = str(head["marks"].get(EXECUTOR, ""))
            why = before.removeprefix("shards: ") if before.startswith("shards: ") else ""
            return sharded(program, folder, additions, why or "they have the rows")
        if not isinstance(folder, LocalFolder):
            return Driver(program, folder, fsync, additions, "the state is not on a disk")
        why = _outgrown(folder, 0)
        if why:
            return sharded(program, folder, additions, why)
        return _Growing(program, folder, fsync, additions, sharded)

    return keep


class _Growing(Driver):
    """The driver's engine, until its state has outgrown it."""

    def __init__(
        self,
        program: Program,
        folder: LocalFolder,
        fsync: str,
        additions: Additions,
        sharded: Callable[[Program, Folder, Additions, str], Keeper],
    ) -> None:
        self._where = folder
        self._sharded = sharded
        self._program = program
        super().__init__(program, folder, fsync, additions, "the state fits into its memory")

    def grown(self, rows: int) -> Keeper:
        """As `Keeper.grown`: the shards, when the driver's share of memory is not enough."""
        why = _outgrown(self._where, rows)
        if not why:
            return self
        # A database has the rules alone, and may have been given others.
        is_sql = isinstance(self._program, TableProgram)
        program = self._program if is_sql else self.db.program
        self.db.close()
        return self._sharded(program, self._where, self._additions, why)


def _outgrown(folder: LocalFolder, rows: int) -> str:
    """Why a state with so many more rows is too large for the driver; empty if it is not."""
    files = (folder.path / name for name in ("snapshot", "log"))
    size = sum(file.stat().st_size for file in files if file.exists())
    needed, room = memory_needed(size, rows), room_for_state()
    if needed <= room:
        return ""
    return f"the state needs about {needed:,} bytes, the driver has {room:,}"
