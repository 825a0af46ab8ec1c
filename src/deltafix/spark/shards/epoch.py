"""One attempt at an epoch: supersteps with files, and the commit at its end.

Invariant: nothing an attempt writes counts until its manifest is in place; an attempt that fails
is forgotten, and the next one begins from the committed files. What a shard says that it wrote is
looked for here at once, so that workers without the common folder are found out before a commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol
from uuid import uuid4

from deltafix.engine.state.marks import Marks, set_marks
from deltafix.errors import StateError
from deltafix.spark.common import require_here
from deltafix.spark.shards.choose import Choice
from deltafix.spark.shards.files import Ledger, Manifest
from deltafix.spark.shards.resident import Changed, Spec, Task
from deltafix.spark.shards.rest import Done, RefusedError, RestTask
from deltafix.spark.shards.schedule import Epoch, Report, Work, merged
from deltafix.spark.shards.step import Command, Judging, Verdict

_COMPACT = 1 << 20
"""Bytes of steps that are kept before shards are written whole, however small they are."""


class Executor(Protocol):
    """Who runs a task on all shards and carries their messages: `here.Here`, `onspark.OnSpark`."""

    def run(self, task: Task) -> list[dict[str, Any]]:
        """Run it; the shards' reports, in any order."""

    def rest(self, task: RestTask) -> Done:
        """Run the supersteps that are left, of all of them or behind one.

        Raises RefusedError; the messages are kept.
        """

    def close(self) -> None:
        """Let go of messages."""


class Attempt:
    """An epoch after `manifest`, to be committed in a ledger.

    Attributes:
        choice: where it runs and why.
        work: what it has cost.
        loaded: whether it was a load, so that the shards have no engines yet.
        whole: the rows of each shard, if it wrote them whole.
    """

    def __init__(
        self, spec: Spec, manifest: Manifest, executor: Executor, choice: Choice, ledger: Ledger
    ) -> None:
        self.choice = choice
        self._spec = spec
        self._before = manifest
        self._ledger = ledger
        self._executor = executor
        self._files = {n: [*manifest.files.get(n, ())] for n in range(spec.shards)}
        self._name = f"epoch-{manifest.epoch + 1:06}-{manifest.generation}-{uuid4().hex[:8]}"
        self._number = 0
        self.whole: dict[int, int] = {}
        self._bytes = 0
        self._compacted = False
        self._whole = False
        self.loaded = False
        self._fresh = False
        self._judging: Judging | None = None
        self._verdicts: dict[str, list[Verdict]] = {}
        self._changes: dict[int, dict[str, Changed]] = {}
        self._epoch = Epoch(spec.layout, self)
        self._begun = self._is_run = False
        self.work = Work()

    @property
    def changes(self) -> dict[str, list[Changed]]:
        """Once it was run: the files of each relation's net changes."""
        files: dict[str, list[Changed]] = {}
        for _, pieces in sorted(self._changes.items()):
            for relation, piece in pieces.items():
                files.setdefault(relation, []).append(piece)
        return files

    def judge(
        self, judging: Judging, given: Collection[str] | None, *, goes_on: bool
    ) -> dict[str, list[Verdict]]:
        """Have the rows of the first messages judged, by shard; verdicts by relation.

        Where every copy judges, that is the beginning of the epoch's first superstep; `given` as
        for `run`. If it `goes_on` from the rows that are there, all of the epoch may be run.
        """
        self._judging = judging
        if judging.in_place:
            self._begin(given)
        elif not (goes_on and self._rest(given=given, judging=judging)):
            report = self.step(Command("judge"))
            sent = sum(report.sent.values())
            self.work += Work(1, sent, report.bytes, report.loads, ["judge"])
        return self._verdicts

    @property
    def is_idle(self) -> bool:
        """Whether what was judged changes nothing, and no superstep has begun."""
        return not (self._begun or self._is_run or self.work.messages)

    def load(self, given: Collection[str] | None) -> bool:
        """Derive everything in one go, not committed yet; whether that was possible.

        `given`: the only relations of which there are rows (None: any may have some).
        """
        work = self._at_once(given, loads=True)
        if work is None:
            return False
        self.work += work
        return True

    def run(self, *, recompute: bool, given: Collection[str] | None = None) -> None:
        """Run the supersteps of the epoch, not committed yet.

        `recompute`: derive all anew; `given`: the only relations of which rows are given or taken
        away (None: any may, as where all is derived anew).
        """
        self._fresh = recompute
        if not (self._begun or self._is_run):
            self._begin(given)
        epoch = self._epoch
        if not (self._is_run or epoch.is_over or self._rest(last=epoch.last, begun=epoch.begun)):
            epoch.finish()
        self.work += epoch.work

    def _begin(self, given: Collection[str] | None) -> None:
        """Take the whole epoch in one go, or its first superstep."""
        self._begun = True
        if not self._rest(given=given, judging=self._judging, fresh=self._fresh):
            self._epoch.begin(given)

    def _rest(self, given: Collection[str] | None = None, **what: Any) -> bool:
        """Take the supersteps that are left in one go; whether that was possible."""
        if self._is_large():
            return False
        work = self._at_once(given, **what)
        if work is None:
            return False
        self._epoch.work += work
        self._judging, self._fresh = None, False
        self._is_run = True
        if self._is_large():
            self._epoch.step("commit")
        return True

    def _at_once(self, given: Collection[str] | None, **what: Any) -> Work | None:
        """Have the executor take supersteps in one go; what that cost, if it was possible."""
        only = None if given is None else frozenset(given)
        task = RestTask(self._files, self._name, self._number, given=only, **what)
        try:
            done = self._executor.rest(task)
        except RefusedError:
            return None
        self._number += 1
        if task.loads:
            self.loaded = self._compacted = True
        self._note(done.notes)
        return done.work

    def compact(self) -> None:
        """Write every shard whole, as an epoch that changes nothing; not committed yet."""
        self._whole = True
        self.step(Command("commit"))

    def commit(self, grown: int, marks: Marks) -> Manifest:
        """Commit what was run and `marks`; returns its manifest. `grown`: more given rows by."""
        before = self._before
        noted = dict(before.marks)
        set_marks(noted, marks)
        after = replace(
            before,
            epoch=before.epoch + 1,
            files=self._files,
            given=max(before.given + grown, 0),
            base=self._bytes if self._compacted else before.base,
            log=0 if self._compacted else before.log + self._bytes,
            marks=noted,
        )
        self._ledger.commit(after)
        self._ledger.sweep(after, keep=self._name)
        return after

    def discard(self) -> None:
        """Give back the room of an attempt that failed, unless its manifest is in place already.

        Or may be in place later: then the next commit does it.
        """
        if not self._ledger.is_sure:
            return
        with suppress(StateError):
            manifest = Manifest.load(self._ledger.folder)
            if manifest is None or self._name not in manifest.attempts():
                self._ledger.folder.remove_folder(self._name)

    def step(self, command: Command) -> Report:
        """One superstep: run it, and take down what it wrote."""
        compact = frozenset[int]()
        if command.action == "commit" and (self._whole or self._is_large()):
            compact = frozenset(range(self._spec.shards))
            self._compacted = True
            self._bytes = 0
        task = Task(
            self._files, self._name, self._number, command, compact, self._fresh, self._judging
        )
        self._judging = None
        self._fresh = False
        self._number += 1
        notes = self._executor.run(task)
        self._note(notes)
        report = merged(_report(note["report"]) for note in notes)
        # An epoch that leaves too much behind it ends with a step of its own.
        report.ended &= self._compacted or not self._is_large()
        return report

    def _note(self, notes: Iterable[dict[str, Any]]) -> None:
        """Take down what was written. Tasks that were sent keep the files they stand on."""
        self._files = {n: [*names] for n, names in self._files.items()}
        for note in sorted(notes, key=lambda note: int(note["shard"])):
            shard = int(note["shard"])
            if "file" in note:
                name = str(note["file"])
                self._require_here(shard, name, int(note["size"]))
                self._files[shard] = [name] if self._compacted else [*self._files[shard], name]
                self._bytes += int(note["size"])
                if self._compacted:
                    self.whole[shard] = int(note["rows"])
            self._changes[shard] = {
                name: Changed(*fields) for name, fields in note["changes"].items()
            }
            for changed in self._changes[shard].values():
                self._require_here(shard, changed.path, None)
            for relation, verdict in note.get("verdicts", {}).items():
                self._verdicts.setdefault(relation, []).append(Verdict(**verdict))

    def _require_here(self, shard: int, name: str, size: int | None) -> None:
        require_here(self._ledger.folder, name, size, f"shard {shard}")

    def _is_large(self) -> bool:
        return self._before.log + self._bytes > max(self._before.base, _COMPACT)


def _report(saved: dict[str, Any]) -> Report:
    pending = {int(stratum): count for stratum, count in saved["pending"].items()}
    return Report(**{**saved, "pending": pending})
