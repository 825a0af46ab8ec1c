"""The dead-code job: what `analyses.job` keeps of the rules, as findings.

    Job (views dead, live, sure, doubt, waived) + where symbols stand -> findings that came and went

Invariant: after every `update` the findings are those of the facts of the readable files; a file
that could not be read keeps the facts it had, or else says its words. An update is one epoch of the
graph: if it fails, everything is as before.
This module reads no files and prints nothing.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection as Members
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from deltafix.analyses.dead_code import DEAD_CODE, UNUSED
from deltafix.analyses.dead_code.findings import (
    UNUSED_KINDS,
    Also,
    Confidence,
    Finding,
    findings_of,
)
from deltafix.analyses.dead_code.frameworks import frameworks_named
from deltafix.analyses.dead_code.policy import NAMED_POLICIES, policy_facts
from deltafix.analyses.dead_code.report import Assumption, Change
from deltafix.analyses.dead_code.unused_findings import Unused
from deltafix.analyses.dead_code.why import Explainer
from deltafix.analyses.facts import Fact, Fragment, Place
from deltafix.analyses.job import Job, Work
from deltafix.analyses.standing import Standing
from deltafix.closing import Closing
from deltafix.facts.schema import Row

__all__ = ["DeadCode"]

_ABSURD = 0.4  # share of dead symbols that is more often a wrong question than a true answer
_ENOUGH = 20  # symbols, from which a share says something
_RENAMED = 3  # modules whose imports fit but for the first name
_FEW = 5  # to one whose imports have the folder's name


class DeadCode(Closing):
    """A live dead-code view over fragments. Use in a with-statement, or `close` it.

    Args:
        roots: names of policies (`public`, `entry-points`) and patterns on symbol ids, as in
            fnmatch. Without any, a library is told from an application, see `assumption`.
        tests: whether tests are roots. If not, they are left out of account: none is told.
        pure_decorators: dotted names of decorators that do not register anything.
        frameworks: names of `frameworks.FRAMEWORKS`, for frameworks in use.
        ran: ids of symbols that a measured run reached (see `coverage`); they are roots.
        confidence: which findings to tell: `sure` ones alone, or `likely` ones too.
        also: what else to tell of living code if nothing reads it; the fragments are then those
            of `UNUSED.extract`.

    Raises UnknownFrameworkError.
    """

    def __init__(
        self,
        *,
        roots: Sequence[str] = (),
        tests: bool = True,
        pure_decorators: Sequence[str] = (),
        frameworks: Sequence[str] = (),
        ran: Members[str] = frozenset(),
        confidence: Confidence = "sure",
        also: Sequence[Also] = (),
    ) -> None:
        self.analysis = UNUSED if also else DEAD_CODE
        self._reported = "sure" if confidence == "sure" else "dead"
        self._frameworks = frameworks_named(frameworks)
        self._ran = frozenset(ran)
        policies = {root for root in roots if root in NAMED_POLICIES}
        if not roots:
            policies.add("recognise")
        self._recognise = not roots
        if tests:
            policies.add("tests")
        self._patterns = tuple(root for root in roots if root not in NAMED_POLICIES)
        pure = {
            *pure_decorators,
            *(name for framework in self._frameworks for name in framework.pure),
        }
        enlisters = {name for framework in self._frameworks for name in framework.enlists}
        tables = [*policy_facts(policies, pure, enlisters)]
        tables += [("also", (kind.removesuffix("s"),)) for kind in also]
        self._job = Job(self.analysis, facts=self._rows, tables=tables)
        self._dead = _symbols(self._job.rows("dead"))
        self._sure = _symbols(self._job.rows("sure"))
        self._waived = _symbols(self._job.rows("waived"))
        self._doubts: dict[str, set[str]] = {}  # symbol -> reasons why it is not sure
        self._places: dict[str, dict[str, Place]] = {}  # symbol -> path -> where
        self._unused = Unused(confidence) if also else None

    # -- changes in ----------------------------------------------------------------------------

    def update(self, fragments: Iterable[Fragment], deleted: Iterable[str] = ()) -> Change:
        """Replace the fragments of some files, drop those of others; one transaction.

        Work is proportional to what changes in the facts and in what follows from them.
        """
        given, gone = list(fragments), list(deleted)
        held = self._job.fragments
        touched = {*gone, *(fragment.path for fragment in given)}
        old = {path: held[path] for path in touched if path in held}
        change = self._job.update(given, gone)
        read = [path for path in change.changed if path not in change.unreadable]
        left = {path: old[path] for path in (*read, *change.deleted) if path in old}
        self._misplace(left)
        self._place(read)
        self._dead = (self._dead - _symbols(change.went["dead"])) | _symbols(change.came["dead"])
        firm, soft = _symbols(change.came["sure"]), _symbols(change.went["sure"])
        self._sure = (self._sure - soft) | firm
        self._doubt(change.went["doubt"], change.came["doubt"])
        came, went = _symbols(change.came[self._reported]), _symbols(change.went[self._reported])
        spared, asked = _symbols(change.came["waived"]), _symbols(change.went["waived"])
        self._waived = (self._waived - asked) | spared
        moving = came | went | spared | asked
        shown = moving & self._shown
        before = {
            symbol
            for symbol in moving
            if _was(symbol, self._judged, came, went)
            and not _was(symbol, self._waived, spared, asked)
        }
        died, buried = shown - before, before - shown
        risen = buried & _symbols(change.came["live"])
        turned = ((firm | soft) & self._dead) - died - self._waived
        doubted = _symbols((*change.went["doubt"], *change.came["doubt"]))
        moved = died | buried | turned | (doubted & self._shown)
        affected = {path for symbol in moved for path in self._places.get(symbol, ())}
        new: list[Finding] = []
        read_now: list[str] = []
        if self._unused is not None:
            self._unused.replace(left.values(), [held[path] for path in read])
            new, read_now, elsewhere = self._unused.update(change)
            affected |= elsewhere
        return Change(
            changed=change.changed,
            deleted=change.deleted,
            became_dead=tuple(self._findings(died)),
            became_alive=tuple(self._findings(risen)),
            confidence_changed=tuple(self._findings(turned)),
            gone=tuple(sorted(buried - risen - turned)),
            work=change.work,
            recomputed=self._job.load_seconds or change.work.seconds,
            unreadable=change.unreadable,
            became_unused=tuple(new),
            no_longer_unused=tuple(read_now),
            affected=frozenset({*change.changed, *change.deleted, *affected}),
        )

    def _doubt(self, went: Iterable[Row], came: Iterable[Row]) -> None:
        for symbol, why in went:
            reasons = self._doubts[str(symbol)]
            reasons.remove(str(why))
            if not reasons:
                del self._doubts[str(symbol)]
        for symbol, why in came:
            self._doubts.setdefault(str(symbol), set()).add(str(why))

    def _rows(self, path: str, fragment: Fragment) -> Iterator[Fact]:
        """What a file says, and which of its symbols the user's patterns make roots."""
        yield from fragment.facts
        for place in fragment.places:
            for pattern in self._patterns:
                if fnmatchcase(place.symbol, pattern):
                    yield "given_root", (place.symbol, f"--roots {pattern}")
            if place.symbol in self._ran:
                yield "given_root", (place.symbol, "ran under coverage")
        for framework in self._frameworks:
            for symbol in framework.roots(path, _symbol_places(fragment)):
                yield "given_root", (symbol, f"looked up by {framework.name}")

    def _misplace(self, old: Mapping[str, Fragment]) -> None:
        """Take out the symbols of files by what they said before."""
        for path, fragment in old.items():
            for symbol in {place.symbol for place in _symbol_places(fragment)}:
                here = self._places[symbol]
                del here[path]
                if not here:
                    del self._places[symbol]

    def _place(self, paths: Iterable[str]) -> None:
        """Enter the symbols of files whose fragments are new."""
        for path in paths:
            for place in self.places(path):
                here = self._places.setdefault(place.symbol, {})
                if path not in here or place.line < here[path].line:
                    here[path] = place

    # -- views out -----------------------------------------------------------------------------

    def dead(self) -> list[Finding]:
        """Every dead symbol that is sure enough, ordered."""
        return self._findings(self._shown)

    def answer(self) -> list[Finding]:
        """The whole answer: every dead symbol that is sure enough, and what nothing reads."""
        return [*self.dead(), *(self.unused() or ())]

    def standing(self) -> dict[Hashable, Standing]:
        """Every finding, by file and name: lines move."""
        return {
            (finding.path, finding.symbol, finding.kind in UNUSED_KINDS): Standing(
                f"{finding.path}:{finding.line}",
                "; ".join([finding.title, *finding.doubts()]),
                (finding.path, finding.inside, False) if finding.inside is not None else None,
            )
            for finding in self.answer()
        }

    def unused(self) -> list[Finding] | None:
        """What living code never reads, as far as asked for, ordered; None if it was not."""
        return None if self._unused is None else self._unused.findings()

    @property
    def left_out(self) -> int:
        """How many are not told, since they are only likely to be dead, or unused."""
        unused = 0 if self._unused is None else self._unused.left_out
        return len(self._dead - self._waived) - len(self._shown) + unused

    @property
    def _judged(self) -> set[str]:
        return self._sure if self._reported == "sure" else self._dead

    @property
    def _shown(self) -> set[str]:
        return self._judged - self._waived

    def outermost(self, path: str) -> list[Finding]:
        """The findings of one file that stand in no other finding. O(size of the file)."""
        here = {place.symbol for place in self.places(path)} & self._shown
        findings = [
            finding
            for finding in self._findings(here)
            if finding.path == path and finding.inside is None
        ]
        if self._unused is not None and path in self._job.fragments:
            findings = sorted((*findings, *self._unused.of(self._job.fragments[path])))
        return findings

    def where(self, symbol: str) -> Mapping[str, Place]:
        """The files that define a symbol, each with its first place there."""
        return self._places.get(symbol, {})

    def judged(self, symbol: str) -> Finding | None:
        """What is found of one symbol, also where it is not sure enough to be told."""
        return min(self._findings({symbol} & self._dead), default=None)

    def _findings(self, symbols: Iterable[str]) -> list[Finding]:
        return findings_of(
            symbols, self._places, dead=self._dead, sure=self._sure, doubts=self._doubts
        )

    def notes(self) -> tuple[str, ...]:
        """What a reader of the findings should know about the run as a whole."""
        notes = []
        if self.errors:
            notes.append("what only an unread file uses may be reported dead")
        for pattern in self._patterns:
            if self._places and not any(fnmatchcase(symbol, pattern) for symbol in self._places):
                known = max(self._places)
                notes.append(f"--roots {pattern} fits no symbol; one is called {known!r}")
        old = self._old_name()
        if old is not None:
            notes.append(
                f"{old[2]} imports name modules of {old[0]}, which is not here, and fit {old[1]}: "
                f"if this folder was renamed, give it the name {old[0]} and run again"
            )
        share = len(self._dead) / len(self._places) if self._places else 0.0
        if share > _ABSURD and len(self._places) >= _ENOUGH:
            notes.append(
                f"{share:.0%} of the symbols are dead, which is seldom true: their users may be "
                "outside this folder (try the folder above, with scripts and tests), they may be a "
                "library's (--roots public), or a framework's (--framework), or name what is "
                "alive: --roots 'pkg.mod:*'"
            )
        return tuple(notes)

    def assumption(self) -> Assumption | None:
        """What the tree was taken for; None if the caller named the roots, or it is empty."""
        if not (self._recognise and self._places):
            return None
        offering = self.rows("library")
        entries = self.rows("runs")
        if offering and not entries:
            return Assumption("library", "nothing in it is an entry point")
        if offering:
            return Assumption(
                "library", f"its package {offering[0][0]!s} offers names to importers"
            )
        return Assumption("application", f"{entries[0][0]!s} runs it ({entries[0][1]!s})")

    def _old_name(self) -> tuple[str, str, int] | None:
        """(name in imports, name of the folder, how many) if a package seems to be renamed.

        Modules that are imported below a package that is not here, and are here below another,
        below which at most a fifth as many are: relative imports keep a name. O(imports).
        """
        ours = {str(path) for path, _ in self.rows("importable")}
        below: dict[str, set[str]] = {}
        for name in ours:
            top, dot, rest = name.partition(".")
            if dot:
                below.setdefault(rest, set()).add(top)
        tops = {name.partition(".")[0] for name in ours}
        imported = {str(path) for _, path in self.rows("imports")}
        own = Counter(name.partition(".")[0] for name in imported & ours)
        fits: Counter[tuple[str, str]] = Counter()
        for path in imported:
            top, _, rest = path.partition(".")
            if top not in tops and top not in sys.stdlib_module_names:
                fits.update((top, here) for here in below.get(rest, ()))
        if not fits:
            return None
        (old, here), count = min(fits.items(), key=lambda fit: (-fit[1], fit[0]))
        return (old, here, count) if count >= max(_RENAMED, _FEW * own[here]) else None

    def rows(self, relation: str) -> list[Row]:
        """The rows of any relation of the program, sorted."""
        return self._job.rows(relation)

    def explainer(self) -> Explainer:
        """Chains from roots, for the present state."""
        return Explainer(self.rows)

    @property
    def paths(self) -> list[str]:
        """The files whose facts are in, sorted."""
        return sorted(self._job.fragments)

    def stated(self, path: str) -> tuple[Place, ...]:
        """All that one file states a place of: its symbols, and what it never reads."""
        fragment = self._job.fragments.get(path)
        return fragment.places if fragment is not None else ()

    def places(self, path: str) -> tuple[Place, ...]:
        """Where the symbols of one file stand; empty for a file without facts."""
        fragment = self._job.fragments.get(path)
        return _symbol_places(fragment) if fragment is not None else ()

    @property
    def fact_count(self) -> int:
        """How many facts the files state, each counted once."""
        return self._job.fact_count

    @property
    def errors(self) -> Mapping[str, str]:
        """Path to reason, of the files whose last content could not be read."""
        return self._job.errors

    @property
    def last_work(self) -> Work:
        """What the last update took."""
        return self._job.last_work

    @property
    def symbol_count(self) -> int:
        """How many symbols the tree defines."""
        return len(self._places)

    def check_invariants(self) -> None:
        """Compare collections, database and index with the fragments; for tests. O(facts)."""
        self._job.check_invariants()
        if self._dead != _symbols(self.rows("dead")) or self._sure != _symbols(self.rows("sure")):
            raise AssertionError("the dead symbols are not those held")
        if self._waived != _symbols(self.rows("waived")):
            raise AssertionError("what is left out of account is not what is held")
        if {(symbol, why) for symbol, reasons in self._doubts.items() for why in reasons} != set(
            self.rows("doubt")
        ):
            raise AssertionError("the doubts are not those held")
        fragments = self._job.fragments
        if self._unused is not None:
            self._unused.check_invariants(fragments.values(), self.rows)
        placed = {(place.symbol, path) for path in fragments for place in self.places(path)}
        if placed != {(symbol, path) for symbol, at in self._places.items() for path in at}:
            raise AssertionError("the index of places is not that of the fragments")

    def close(self) -> None:
        """Close the database. Closing twice is fine."""
        self._job.close()


def _symbol_places(fragment: Fragment) -> tuple[Place, ...]:
    return tuple(place for place in fragment.places if place.kind not in UNUSED_KINDS)


def _was(element: str, now: Members[str], came: Members[str], went: Members[str]) -> bool:
    """Whether a set that changed had an element before."""
    return element in went or (element in now and element not in came)


def _symbols(rows: Iterable[Row]) -> set[str]:
    """The symbols of rows of one."""
    return {str(row[0]) for row in rows}
