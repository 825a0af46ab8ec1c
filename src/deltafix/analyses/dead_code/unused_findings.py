"""What the views `unused` and `unused_doubt` hold, with places: findings that came and went.

Invariant: as for dead symbols, findings are those of the facts of the readable files. A place is
found by id and kind, since a local of one function and the parameter of another of the same name,
one of them behind an `if`, may have one id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from deltafix.analyses.dead_code.findings import UNUSED_KINDS, Confidence, Finding
from deltafix.analyses.facts import Fragment, Place
from deltafix.analyses.job import RowChange
from deltafix.facts.schema import Row

_Thing = tuple[str, str]  # id, kind


class Unused:
    """Kept by the job, and told as `confidence` says."""

    def __init__(self, confidence: Confidence) -> None:
        self._told = confidence
        self._found: set[_Thing] = set()
        self._doubts: dict[_Thing, set[str]] = {}
        self._places: dict[_Thing, dict[str, Place]] = {}  # -> path -> where it stands first

    def place(self, old: Iterable[Fragment], new: Iterable[Fragment]) -> None:
        """Take the places of some fragments out and enter those of others. O(their places)."""
        for fragment in old:
            for thing in _first_places(fragment):
                here = self._places[thing]
                del here[fragment.path]
                if not here:
                    del self._places[thing]
        for fragment in new:
            for thing, place in _first_places(fragment).items():
                self._places.setdefault(thing, {})[fragment.path] = place

    def update(self, change: RowChange) -> tuple[list[Finding], list[str], set[str]]:
        """Take over what came and went.

        Returns the findings that are new, the ids of those that are none now, and the files in
        which any of them stands or says something else than before.
        """
        before = set(self._shown(map(_thing, (*change.went["unused"], *_both(change)))))
        self._found -= {_thing(row) for row in change.went["unused"]}
        self._found |= {_thing(row) for row in change.came["unused"]}
        for row in change.went["unused_doubt"]:
            reasons = self._doubts[_thing(row)]
            reasons.remove(str(row[2]))
            if not reasons:
                del self._doubts[_thing(row)]
        for row in change.came["unused_doubt"]:
            self._doubts.setdefault(_thing(row), set()).add(str(row[2]))
        after = set(self._shown(map(_thing, (*change.came["unused"], *_both(change)))))
        touched = (*change.went["unused"], *change.came["unused"], *_both(change))
        paths = {path for row in touched for path in self._places.get(_thing(row), ())}
        return self._findings(after - before), sorted({one for one, _ in before - after}), paths

    def findings(self) -> list[Finding]:
        """All that is sure enough, ordered."""
        return self._findings(self._shown(self._found))

    def of(self, fragment: Fragment) -> list[Finding]:
        """Those of one file, ordered. O(size of the file)."""
        here = self._findings(self._shown(_first_places(fragment)))
        return [one for one in here if one.path == fragment.path]

    @property
    def left_out(self) -> int:
        """How many are not told, since they are only likely to be unused."""
        return len(self._found) - len(self._shown(self._found))

    def _shown(self, things: Iterable[_Thing]) -> list[_Thing]:
        told = self._told == "likely"
        return [one for one in things if one in self._found and (told or one not in self._doubts)]

    def _findings(self, things: Iterable[_Thing]) -> list[Finding]:
        found = []
        for identity, kind in things:
            doubt = min(self._doubts.get((identity, kind), ()), default=None)
            confidence: Confidence = "sure" if doubt is None else "likely"
            for path, at in self._places[identity, kind].items():
                found.append(
                    Finding(path, at.line, identity, kind, confidence, None, doubt, at.column)
                )
        return sorted(found)

    def check_invariants(
        self, fragments: Iterable[Fragment], rows: Callable[[str], Sequence[Row]]
    ) -> None:
        """Compare with the views and the fragments; for tests. O(facts)."""
        if self._found != {_thing(row) for row in rows("unused")}:
            raise AssertionError("what is unused is not what is held")
        doubts = {(*thing, why) for thing, reasons in self._doubts.items() for why in reasons}
        if doubts != set(rows("unused_doubt")):
            raise AssertionError("the doubts of what is unused are not those held")
        places: dict[_Thing, dict[str, Place]] = {}
        for fragment in fragments:
            for thing, place in _first_places(fragment).items():
                places.setdefault(thing, {})[fragment.path] = place
        if places != self._places:
            raise AssertionError("the places of what is unused are not those of the fragments")


def _both(change: RowChange) -> tuple[Row, ...]:
    return (*change.went["unused_doubt"], *change.came["unused_doubt"])


def _thing(row: Row) -> _Thing:
    return str(row[0]), str(row[1])


def _first_places(fragment: Fragment) -> dict[_Thing, Place]:
    """Where each thing of a file stands first."""
    first: dict[_Thing, Place] = {}
    for place in reversed(fragment.places):  # they are sorted
        if place.kind in UNUSED_KINDS:
            first[place.symbol, place.kind] = place
    return first
