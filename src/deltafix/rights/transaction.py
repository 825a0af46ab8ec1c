"""Transactions of rights: tuples written and deleted, models changed.

Invariant: readers and watchers see a model with its tuples or neither; what a model does not allow
is refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow.compute as pc

from deltafix.diagnostics import plural
from deltafix.errors import RightsTupleError
from deltafix.rights.bulk import rows_of_table
from deltafix.rights.changes import RightsDelta
from deltafix.rights.contexts import MisfitError, written
from deltafix.rights.graph import Source
from deltafix.rights.layout import MARK, Layout, layout_of, noted
from deltafix.rights.model import Model
from deltafix.rights.reading import read_model
from deltafix.rights.tuples import listed, placed, shown, tuple_of

if TYPE_CHECKING:
    from deltafix.rights.rights import Rights


class RightsTransaction:
    """Made by `Rights.transaction`; begins at once, and others wait until it ends."""

    def __init__(self, rights: Rights, missing: str) -> None:
        self._rights = rights
        self._tx = rights._db.transaction(missing=missing)
        self._was = self._laid = rights._laid
        self._delta = self._laid.delta
        self._changed = False

    def write(self, tuples: Any) -> int:
        """Write tuples; those that are there are no-ops. Returns how many were new.

        Args:
            tuples: (user, relation, object) triples, mappings with these keys, or a table with
                these columns (pyarrow, pandas, polars), which is read by columns. A tuple with a
                condition: see `deltafix.rights.tuples.tuple_of`.

        Raises RightsTupleError for a tuple that the model does not allow; nothing was written.
        """
        return sum(self._tx.insert(name, rows) for name, rows in self._rows(tuples))

    def delete(self, tuples: Any) -> int:
        """Delete tuples. Returns how many were there. Arguments as for `write`.

        Raises RightsTupleError for a tuple that the model does not allow or, unless `missing` is
        `"ignore"`, that is not there; nothing was deleted.
        """
        changes = list(self._rows(tuples))
        if self._tx._missing == "error":
            for name, rows in changes:
                present = self._tx.given(name, rows)
                if not present.all():
                    row = _row(rows, int(present.argmin()))
                    missing = shown(self._laid.sources[name], row)
                    message = (
                        f"cannot delete `{missing}`: no such tuple was written"
                        f'{self._instead(name, row)}; `missing="ignore"` would skip it'
                    )
                    raise RightsTupleError(message, value=missing)
        return sum(self._tx.delete(name, rows) for name, rows in changes)

    def change_model(
        self,
        model: Model | str | Path | Mapping[str, Any] | Sequence[Path],
        *,
        materialise: Iterable[str] | None = None,
    ) -> None:
        """Have another model from the commit on, for what the difference of the rules costs.

        The delta says who gains and who loses in relations that are kept; of one that was not kept
        before, all of it.

        Args:
            model: as `open` takes it.
            materialise: the relations to keep; None: those kept now.

        Raises as `open`; RightsTupleError for tuples, some of this transaction perhaps, that the
        model does not allow: delete them in the transaction first.
        """
        kept = self._laid.kept if materialise is None else materialise
        self._change(layout_of(read_model(model), kept))

    def _change(self, laid: Layout) -> None:
        for name, source in self._was.sources.items():
            if name not in laid.sources:
                remaining = self._tx.given_rows(name)
                if remaining.num_rows:
                    example = shown(source, _row(remaining, 0))
                    count = plural(remaining.num_rows, "tuple")
                    message = (
                        f"{count} such as `{example}` are not allowed by this model, which has no "
                        f"`{name}`; delete them in the same transaction, first"
                    )
                    raise RightsTupleError(message, value=example)
        for name, source in laid.wide.items():
            if name in self._was.sources:
                self._require_fit(laid, name, source)
        was = self._was
        remaining = {
            name: part
            for name, part in was.shown.items()
            if name not in laid.shown and "#".join(part[:2]) in laid.kept
        }
        sources, parts = was.sources | laid.sources, laid.shown | remaining
        self._delta = lambda delta: RightsDelta(delta, sources, parts)
        if laid.program != self._was.program:
            self._tx.change_program(laid.program)
        if hasattr(self._tx, "mark"):
            self._tx.mark(MARK, noted(laid))
        self._laid, self._changed = laid, True

    def _require_fit(self, laid: Layout, name: str, source: Source) -> None:
        """Refuse contexts that do not fit new parameters of a condition; then O(tuples)."""
        condition = laid.conditions.by_name[source.users.condition]
        was = self._was.conditions.by_name[condition.name]
        if was.parameters == condition.parameters:
            return
        rows = self._tx.given_rows(name)
        for index, context in enumerate(rows["context"].to_pylist()):
            try:
                written(condition, context)
            except MisfitError as error:
                example = shown(source, _row(rows, index))
                message = f"tuple `{example}`: {error}; delete it in the same transaction, first"
                raise RightsTupleError(message, value=example) from None

    def _rows(self, tuples: Any) -> Iterable[tuple[str, Any]]:
        if self._changed:
            message = (
                "the model changes in this transaction; write tuples before, or in another one"
            )
            raise RightsTupleError(message)
        return _by_source(self._laid, tuples)

    def _instead(self, name: str, row: tuple[str, ...]) -> str:
        """A tuple that differs from one that is not there in its condition alone. O(tuples)."""
        wanted_source = self._laid.sources[name]
        key = row[:-1] if wanted_source.users.condition else row
        for other, source in self._laid.sources.items():
            if (source.type, source.relation, source.users.kind) != (
                wanted_source.type, wanted_source.relation, wanted_source.users.kind,
            ):  # fmt: skip
                continue
            candidates = self._tx.given_rows(other)
            for column, value in enumerate(key):
                candidates = candidates.filter(pc.equal(candidates.column(column), value))
            if candidates.num_rows:
                example = shown(source, _row(candidates, 0))
                return f"; `{example}` was, and its condition and context are part of it"
        return ""

    def commit(self) -> RightsDelta:
        """Commit; returns what changed. On an error everything is rolled back first."""
        with self._committing():
            self._tx.commit()
        return self.delta

    def rollback(self) -> None:
        """Forget the edits; all is as before."""
        self._tx.rollback()

    @property
    def delta(self) -> RightsDelta:
        """What the committed transaction changed."""
        return self._delta(self._tx.delta)

    @contextmanager
    def _committing(self) -> Iterator[None]:
        """Show readers and watchers the model with its tuples: it is put there before they come."""
        rights = self._rights
        rights._laid, rights._changes = self._laid, self._delta
        try:
            yield
        finally:
            if not self._tx.is_committed:
                rights._laid = self._was
            rights._changes = rights._laid.delta

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        with self._committing():
            self._tx.__exit__(kind, error, at)


def _by_source(laid: Layout, tuples: Any) -> Iterable[tuple[str, Any]]:
    """Rows by input relation; a tuple that is named twice is there once."""
    if hasattr(tuples, "__arrow_c_stream__") or hasattr(tuples, "num_columns"):
        return rows_of_table(laid.graph, tuples)
    by_source: dict[str, dict[tuple[str, ...], None]] = {}
    for tuple_ in listed(tuples):
        source, row = placed(laid.graph, tuple_of(tuple_))
        by_source.setdefault(source, {})[row] = None
    return [(name, list(rows)) for name, rows in by_source.items()]


def _row(rows: Any, index: int) -> tuple[str, ...]:
    if isinstance(rows, Sequence):
        row: tuple[str, ...] = rows[index]
        return row
    return tuple(column[index].as_py() for column in rows.columns)
