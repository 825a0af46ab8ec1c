"""The maintained answer of an analysis: fragments in, rows that came and went out.

    files: path -> fragment        a collection; saving a file replaces its fragment
      | flat_map                   relation -> row, once per file that says it
      | distinct                   the counted union: a row is there while some file says it
      | fixpoint over the program  the views

Invariant: after every `update` the views are those of the facts of the readable files; a file that
could not be read keeps the facts it had, and one that never could has those of its error. An update
is one epoch of the graph: if it fails, everything is as before.
This module reads no files, prints nothing and knows no analysis.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeAlias

from deltafix.analyses.analysis import Analysis
from deltafix.analyses.facts import Fact, Fragment
from deltafix.analyses.standing import Standing
from deltafix.closing import Closing
from deltafix.engine.database import Database
from deltafix.facts.schema import Row, show_row
from deltafix.reactive.collection import Collection
from deltafix.reactive.delta import CollectionDelta
from deltafix.reactive.fixpoint import fixpoint

__all__ = ["Facts", "Job", "RowChange", "Work"]

Facts: TypeAlias = Callable[[str, Fragment], Iterable[Fact]]
"""What a file states, of its path and its fragment."""

_FACTS = "<facts>"  # beside the views; no relation is called this
_TABLES = "<tables>"  # the key of the tables among the files; no path looks like this


@dataclass(frozen=True, slots=True)
class Work:
    """What it took: files read, facts in and out, facts touched in the engine, seconds."""

    files: int
    facts_added: int
    facts_removed: int
    touched: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RowChange:
    """What one update did: by view, the rows that came and those that went, each sorted."""

    changed: tuple[str, ...]
    deleted: tuple[str, ...]
    came: Mapping[str, tuple[Row, ...]]
    went: Mapping[str, tuple[Row, ...]]
    work: Work
    unreadable: Mapping[str, str]

    def as_data(self) -> dict[str, Any]:
        """The change as JSON data."""
        return asdict(self)

    def changes_as_data(self) -> dict[str, Any]:
        """What came and went, as JSON data."""
        return {"came": dict(self.came), "went": dict(self.went)}

    def sizes(self) -> tuple[int, int]:
        """How many rows came and how many went."""
        return sum(map(len, self.came.values())), sum(map(len, self.went.values()))

    def sides(self) -> tuple[list[str], list[str]]:
        """What came and what went, a line each."""
        return _lines(self.came), _lines(self.went)


class Job(Closing):
    """A live analysis. Use it in a with-statement, or `close` it.

    Args:
        analysis: what to keep.
        views: relations to tell changes of; the analysis's views if none is named.
        facts: what a file states, if that is more than its fragment's facts.
        tables: facts that hold besides the files' and the analysis's own.

    Raises UnknownRelationError for a view that is none.
    """

    def __init__(
        self,
        analysis: Analysis,
        *,
        views: Sequence[str] = (),
        facts: Facts | None = None,
        tables: Iterable[Fact] = (),
    ) -> None:
        self.analysis = analysis
        self.views = tuple(views) or analysis.views
        self._said = facts or _stated
        self._files = Collection.input(key=str, value=Fragment, name="files")
        said = self._files.flat_map(self._said, name="facts of a file")
        self._facts = said.distinct(name="counted union")
        self._views = fixpoint(
            analysis.load_program(), self._facts, views=self.views, name=analysis.name
        )
        self.errors: dict[str, str] = {}
        """Path to reason, of the files whose last content could not be read."""
        self.fragments: dict[str, Fragment] = {}
        """What each readable file last said."""
        self._unread: dict[str, Fragment] = {}  # of those that never were readable
        self.load_seconds: float | None = None
        """Seconds of the first update with files: what evaluating from scratch takes."""
        self._held = 0
        self.last_work = Work(0, 0, 0, 0, 0.0)
        self._tables = Fragment.of(_TABLES, [*analysis.tables, *tables], ())
        self._put({_TABLES: self._tables})
        self._table_count, self._held = self._held, 0

    def update(self, fragments: Iterable[Fragment], deleted: Iterable[str] = ()) -> RowChange:
        """Replace the fragments of some files, drop those of others; one transaction.

        Work is proportional to what changes in the facts and in what follows from them.
        """
        given = {fragment.path: fragment for fragment in fragments}
        start = time.perf_counter()
        after: dict[str, Fragment | None] = {
            **dict.fromkeys(path for path in deleted if path not in given),
            **{path: fragment for path, fragment in given.items() if fragment.error is None},
        }
        kept = self.fragments.keys()
        unread = {
            path: fragment
            for path, fragment in given.items()
            if fragment.error and path not in kept
        }
        changed, added, removed = self._put({**after, **unread})
        for path, fragment in after.items():
            self._unread.pop(path, None)
            if fragment is None:
                self.fragments.pop(path, None)
            else:
                self.fragments[path] = fragment
        self._unread |= unread
        unreadable = {
            path: fragment.error for path, fragment in sorted(given.items()) if fragment.error
        }
        self.errors = {p: why for p, why in self.errors.items() if p not in after} | unreadable
        touched = self.database.last_epoch.touched if added or removed else 0
        seconds = time.perf_counter() - start
        if self.load_seconds is None:
            self.load_seconds = seconds
        self.last_work = Work(len(given), added, removed, touched, seconds)
        return RowChange(
            changed=tuple(sorted(given)),
            deleted=tuple(sorted(path for path, fragment in after.items() if fragment is None)),
            came={name: _side(changed.get(name), 1) for name in self.views},
            went={name: _side(changed.get(name), -1) for name in self.views},
            work=self.last_work,
            unreadable=unreadable,
        )

    def _put(
        self, wanted: Mapping[str, Fragment | None]
    ) -> tuple[dict[str, CollectionDelta], int, int]:
        """Set the files in one epoch; (what changed in the views, facts added, facts removed)."""
        changed: dict[str, CollectionDelta] = {}
        watched = {_FACTS: self._facts, **self._views}
        with ExitStack() as stack:
            for name, collection in watched.items():
                stack.enter_context(collection.subscribe(partial(changed.__setitem__, name)))
            with self._files.transaction() as tx:
                for path, fragment in wanted.items():
                    tx.set(path, *([fragment] if fragment is not None else []))
        signs = [sign for _, _, sign in changed.get(_FACTS, ())]
        added = sum(sign > 0 for sign in signs)
        removed = len(signs) - added
        self._held += added - removed
        return changed, added, removed

    @property
    def database(self) -> Database:
        """The database behind the views: for `why`, plans and any relation of the program."""
        return self._views.database

    def rows(self, relation: str) -> list[Row]:
        """The rows of any relation of the program, sorted."""
        return self.database.rows(relation)

    def answer(self) -> dict[str, list[Row]]:
        """The rows of every view."""
        return {view: self.rows(view) for view in self.views}

    def standing(self) -> dict[Hashable, Standing]:
        """Every row of every view; rows stand nowhere."""
        return {
            (view, row): Standing("", show_row(view, row))
            for view in self.views
            for row in self.rows(view)
        }

    @property
    def fact_count(self) -> int:
        """How many facts the files state, each counted once."""
        return self._held

    def check_invariants(self) -> None:
        """Compare collections and database with the fragments; for tests. O(facts)."""
        self._facts.check_invariants()
        files = {**self.fragments, **self._unread}
        stated = {fact for path, fragment in files.items() for fact in self._said(path, fragment)}
        expected = stated | set(self._tables.facts)
        held = {(name, row) for name in self.analysis.inputs for row in self.rows(name)}
        if expected != held:
            raise AssertionError(f"facts said and not held, or the other way: {expected ^ held}")
        if len(held) != self._held + self._table_count:
            raise AssertionError("the counted facts are not those held")

    def close(self) -> None:
        """Close the database. Closing twice is fine."""
        self.database.close()


def _stated(_: str, fragment: Fragment) -> Iterable[Fact]:
    return fragment.facts


def _lines(side: Mapping[str, tuple[Row, ...]]) -> list[str]:
    return [f"{show_row(view, row)}." for view, rows in side.items() for row in rows]


def _side(delta: CollectionDelta | None, sign: int) -> tuple[Row, ...]:
    """The rows of a view's delta that have this sign, sorted."""
    values = (value for _, value, s in delta or () if s == sign)
    return tuple(sorted(value if isinstance(value, tuple) else (value,) for value in values))
