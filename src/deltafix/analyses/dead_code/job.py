"""The dead-code job: collections, rules and views, from fragments to what became dead.

    files: path -> fragment        a collection; saving a file replaces its fragment
      | flat_map                   relation -> row, once per file that says it
      | distinct                   the counted union: a row is there while some file says it
      | fixpoint over program.dl   views dead, live, foreign

Invariant: after every `update` the views are those of the facts of the readable files; a file that
could not be read keeps the facts it had. An update is one epoch of the graph: if it fails,
everything is as before.
This module reads no files and prints nothing.
"""

from __future__ import annotations

import time
from collections.abc import Collection as Members
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from functools import partial
from importlib.resources import files as resources
from types import TracebackType
from typing import Self

from deltafix.analyses.dead_code.facts import INPUTS, Fact, Fragment, Place
from deltafix.analyses.dead_code.findings import Finding, findings_of
from deltafix.analyses.dead_code.policy import NAMED_POLICIES, policy_facts
from deltafix.analyses.dead_code.profiles import profiles_named
from deltafix.analyses.dead_code.report import Change, Work
from deltafix.analyses.dead_code.why import Explainer
from deltafix.datalog.program import Program
from deltafix.facts.schema import Row
from deltafix.reactive.collection import Collection
from deltafix.reactive.delta import CollectionDelta
from deltafix.reactive.fixpoint import fixpoint

__all__ = ["DeadCode", "load_program"]

_VIEWS = ("dead", "live", "foreign")
_FACTS = "<facts>"  # beside the views; no relation is called this
_POLICY = "<policy>"  # the key of the tables among the files; no path looks like this


def load_program() -> Program:
    """The rules, checked."""
    text = (resources("deltafix.analyses.dead_code") / "program.dl").read_text(encoding="utf-8")
    return Program.parse(text, "program.dl")


class DeadCode:
    """A live dead-code view over fragments. Use in a with-statement, or `close` it.

    Args:
        roots: names of policies (`public`) and patterns on symbol ids, as in fnmatch.
        tests: whether tests are roots.
        pure_decorators: dotted names of decorators that do not register anything.
        profiles: names of `profiles.PROFILES`, for frameworks in use.
        ran: ids of symbols that a measured run reached (see `coverage`); they are roots.

    Raises UnknownProfileError.
    """

    def __init__(
        self,
        *,
        roots: Sequence[str] = (),
        tests: bool = True,
        pure_decorators: Sequence[str] = (),
        profiles: Sequence[str] = (),
        ran: Members[str] = frozenset(),
    ) -> None:
        self._profiles = profiles_named(profiles)
        self._ran = frozenset(ran)
        policies = {root for root in roots if root in NAMED_POLICIES}
        if tests:
            policies.add("tests")
        self._patterns = tuple(root for root in roots if root not in NAMED_POLICIES)
        self._files = Collection.input(key=str, value=Fragment, name="files")
        said = self._files.flat_map(self._rows, name="facts of a file")
        self._facts = said.distinct(name="counted union")
        self._views = fixpoint(load_program(), self._facts, views=_VIEWS, name="dead code")
        self._fragments: dict[str, Fragment] = {}
        self._dead: set[str] = set()
        self._foreign: set[str] = set()
        self._places: dict[str, dict[str, Place]] = {}  # symbol -> path -> where
        self.errors: dict[str, str] = {}
        self._held = 0
        self._tables = 0
        self.load_seconds: float | None = None
        """Seconds of the first update with files: what evaluating from scratch takes."""
        self.last_work = Work(0, 0, 0, 0, 0.0)
        pure = {*pure_decorators, *(name for one in self._profiles for name in one.pure)}
        enlisters = {name for one in self._profiles for name in one.enlists}
        self.update([Fragment.of(_POLICY, policy_facts(policies, pure, enlisters), ())])
        self.load_seconds = None
        self._tables = self._held

    # -- changes in ----------------------------------------------------------------------------

    def update(self, fragments: Iterable[Fragment], deleted: Iterable[str] = ()) -> Change:
        """Replace the fragments of some files, drop those of others; one transaction.

        Work is proportional to what changes in the facts and in what follows from them.
        """
        given = {fragment.path: fragment for fragment in fragments}
        start = time.perf_counter()
        after: dict[str, Fragment | None] = {
            **dict.fromkeys(path for path in deleted if path not in given),
            **{path: one for path, one in given.items() if one.error is None},
        }
        changed = self._put(after)
        self._locate(after)
        died, buried = _sides(changed.get("dead"))
        risen = buried & _sides(changed.get("live"))[0]
        self._dead = (self._dead - buried) | died
        new, old = _sides(changed.get("foreign"))
        self._foreign = (self._foreign - old) | new
        unreadable = {path: one.error for path, one in sorted(given.items()) if one.error}
        self.errors = {p: why for p, why in self.errors.items() if p not in after} | unreadable
        facts = changed.get(_FACTS, ())
        added = sum(sign > 0 for _, _, sign in facts)
        removed = len(facts) - added
        self._held += added - removed
        touched = self._views.database.last_epoch.touched if facts else 0
        seconds = time.perf_counter() - start
        if self.load_seconds is None:
            self.load_seconds = seconds
        self.last_work = Work(len(given), added, removed, touched, seconds)
        return Change(
            changed=tuple(sorted(given)),
            deleted=tuple(sorted(path for path, one in after.items() if one is None)),
            became_dead=tuple(self._findings(died)),
            became_alive=tuple(self._findings(risen)),
            gone=tuple(sorted(buried - risen)),
            work=self.last_work,
            recomputed=self.load_seconds,
            unreadable=unreadable,
        )

    def _rows(self, path: str, fragment: Fragment) -> Iterator[Fact]:
        """What a file says, and which of its symbols the user's patterns make roots."""
        yield from fragment.facts
        for place in fragment.places:
            for pattern in self._patterns:
                if fnmatchcase(place.symbol, pattern):
                    yield "given_root", (place.symbol, f"--roots {pattern}")
            if place.symbol in self._ran:
                yield "given_root", (place.symbol, "ran under coverage")
        for profile in self._profiles:
            for symbol in profile.roots(path, fragment.places):
                yield "given_root", (symbol, f"looked up by {profile.name}")

    def _put(self, wanted: Mapping[str, Fragment | None]) -> dict[str, CollectionDelta]:
        """Set the files in one epoch; returns what changed in the facts and the views."""
        changed: dict[str, CollectionDelta] = {}
        watched = {_FACTS: self._facts, **self._views}
        with ExitStack() as stack:
            for name, collection in watched.items():
                stack.enter_context(collection.subscribe(partial(changed.__setitem__, name)))
            with self._files.transaction() as tx:
                for path, fragment in wanted.items():
                    tx.set(path, *([fragment] if fragment is not None else []))
        return changed

    def _locate(self, after: Mapping[str, Fragment | None]) -> None:
        """Bring the index of places and fragments up to date."""
        for path in after:
            old = self._fragments.pop(path, None)
            for symbol in {place.symbol for place in old.places} if old is not None else ():
                here = self._places[symbol]
                del here[path]
                if not here:
                    del self._places[symbol]
        for path, new in after.items():
            if new is None:
                continue
            self._fragments[path] = new
            for place in new.places:
                here = self._places.setdefault(place.symbol, {})
                if path not in here or place.line < here[path].line:
                    here[path] = place

    # -- views out -----------------------------------------------------------------------------

    def dead(self, minimum: int = 0) -> list[Finding]:
        """Every dead symbol with at least `minimum` percent confidence, ordered."""
        return [one for one in self._findings(self._dead) if one.confidence >= minimum]

    def outermost(self, path: str) -> list[Finding]:
        """The findings of one file that stand in no other finding. O(size of the file)."""
        here = {place.symbol for place in self.places(path)} & self._dead
        return [one for one in self._findings(here) if one.path == path and one.inside is None]

    def _findings(self, symbols: Iterable[str]) -> list[Finding]:
        return findings_of(symbols, self._places, dead=self._dead, foreign=self._foreign)

    def notes(self) -> tuple[str, ...]:
        """What a reader of the findings should know about the run as a whole."""
        notes = []
        if self.errors:
            notes.append("what only an unread file uses may be reported dead")
        if self._places and not any(self._roots()):
            notes.append(
                "nothing here is an entry point, a test or listed in __all__, so everything is "
                "dead; for a library try --roots public, or name what is alive: --roots 'pkg.mod:*'"
            )
        return tuple(notes)

    def _roots(self) -> Iterator[Row]:
        yield from self.rows("root")

    def rows(self, relation: str) -> list[Row]:
        """The rows of any relation of the program, sorted."""
        return self._views.database.rows(relation)

    def explainer(self) -> Explainer:
        """Chains from roots, for the present state."""
        return Explainer(self.rows)

    @property
    def paths(self) -> list[str]:
        """The files whose facts are in, sorted."""
        return sorted(path for path in self._fragments if path != _POLICY)

    def places(self, path: str) -> tuple[Place, ...]:
        """Where the symbols of one file stand; empty for a file without facts."""
        fragment = self._fragments.get(path)
        return fragment.places if fragment is not None else ()

    @property
    def fact_count(self) -> int:
        """How many facts the files state, each counted once."""
        return self._held - self._tables

    @property
    def symbol_count(self) -> int:
        """How many symbols the tree defines."""
        return len(self._places)

    def check_invariants(self) -> None:
        """Compare collections, database and index with the fragments; for tests. O(facts)."""
        self._facts.check_invariants()
        said = {fact for path, one in self._fragments.items() for fact in self._rows(path, one)}
        held = {(name, row) for name in INPUTS for row in self.rows(name)}
        if said != held:
            raise AssertionError(f"facts said and not held, or the other way: {said ^ held}")
        if len(held) != self._held or self._dead != {row[0] for row in self.rows("dead")}:
            raise AssertionError("the counted facts or the dead symbols are not those held")
        placed = {(one.symbol, path) for path, f in self._fragments.items() for one in f.places}
        if placed != {(symbol, path) for symbol, at in self._places.items() for path in at}:
            raise AssertionError("the index of places is not that of the fragments")

    def close(self) -> None:
        """Close the database. Closing twice is fine."""
        self._views.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _sides(delta: CollectionDelta | None) -> tuple[set[str], set[str]]:
    """(symbols that came into a view, symbols that left it)."""
    changes = [] if delta is None else list(delta)
    return {s for _, s, sign in changes if sign > 0}, {s for _, s, sign in changes if sign < 0}
