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

_Key = tuple[str, str]  # id, kind


class Unused:
    """Kept by the job, and told as `confidence` says."""

    def __init__(self, confidence: Confidence) -> None:
        self._confidence = confidence
        self._unused: set[_Key] = set()
        self._doubts: dict[_Key, set[str]] = {}
        self._places: dict[_Key, dict[str, Place]] = {}  # -> path -> where it stands first

    def replace(self, old: Iterable[Fragment], new: Iterable[Fragment]) -> None:
        """Take the places of some fragments out and enter those of others. O(their places)."""
        for fragment in old:
            for key in _first_places(fragment):
                here = self._places[key]
                del here[fragment.path]
                if not here:
                    del self._places[key]
        for fragment in new:
            for key, place in _first_places(fragment).items():
                self._places.setdefault(key, {})[fragment.path] = place

    def update(self, change: RowChange) -> tuple[list[Finding], list[str], set[str]]:
        """Take over what came and went.

        Returns the findings that are new, the ids of those that are none now, and the files in
        which any of them stands or says something else than before.
        """
        before = set(self._shown(map(_key, (*change.went["unused"], *_both(change)))))
        self._unused -= {_key(row) for row in change.went["unused"]}
        self._unused |= {_key(row) for row in change.came["unused"]}
        for row in change.went["unused_doubt"]:
            reasons = self._doubts[_key(row)]
            reasons.remove(str(row[2]))
            if not reasons:
                del self._doubts[_key(row)]
        for row in change.came["unused_doubt"]:
            self._doubts.setdefault(_key(row), set()).add(str(row[2]))
        after = set(self._shown(map(_key, (*change.came["unused"], *_both(change)))))
        touched = (*change.went["unused"], *change.came["unused"], *_both(change))
        paths = {path for row in touched for path in self._places.get(_key(row), ())}
        return (
            self._findings(after - before),
            sorted({identity for identity, _ in before - after}),
            paths,
        )

    def findings(self) -> list[Finding]:
        """All that is sure enough, ordered."""
        return self._findings(self._shown(self._unused))

    def of(self, fragment: Fragment) -> list[Finding]:
        """Those of one file, ordered. O(size of the file)."""
        here = self._findings(self._shown(_first_places(fragment)))
        return [finding for finding in here if finding.path == fragment.path]

    @property
    def left_out(self) -> int:
        """How many are not told, since they are only likely to be unused."""
        return len(self._unused) - len(self._shown(self._unused))

    def _shown(self, keys: Iterable[_Key]) -> list[_Key]:
        shows_likely = self._confidence == "likely"
        return [
            key for key in keys if key in self._unused and (shows_likely or key not in self._doubts)
        ]

    def _findings(self, keys: Iterable[_Key]) -> list[Finding]:
        findings = []
        for identity, kind in keys:
            doubt = min(self._doubts.get((identity, kind), ()), default=None)
            confidence: Confidence = "sure" if doubt is None else "likely"
            for path, at in self._places[identity, kind].items():
                findings.append(
                    Finding(path, at.line, identity, kind, confidence, None, doubt, at.column)
                )
        return sorted(findings)

    def check_invariants(
        self, fragments: Iterable[Fragment], rows: Callable[[str], Sequence[Row]]
    ) -> None:
        """Compare with the views and the fragments; for tests. O(facts)."""
        if self._unused != {_key(row) for row in rows("unused")}:
            raise AssertionError("what is unused is not what is held")
        doubts = {(*key, why) for key, reasons in self._doubts.items() for why in reasons}
        if doubts != set(rows("unused_doubt")):
            raise AssertionError("the doubts of what is unused are not those held")
        places: dict[_Key, dict[str, Place]] = {}
        for fragment in fragments:
            for key, place in _first_places(fragment).items():
                places.setdefault(key, {})[fragment.path] = place
        if places != self._places:
            raise AssertionError("the places of what is unused are not those of the fragments")


def _both(change: RowChange) -> tuple[Row, ...]:
    return (*change.went["unused_doubt"], *change.came["unused_doubt"])


def _key(row: Row) -> _Key:
    return str(row[0]), str(row[1])


def _first_places(fragment: Fragment) -> dict[_Key, Place]:
    """Where each binding of a file stands first."""
    first: dict[_Key, Place] = {}
    for place in reversed(fragment.places):  # they are sorted
        if place.kind in UNUSED_KINDS:
            first[place.symbol, place.kind] = place
    return first
