"""Reports as text and as JSON: one shape for a full run, one for a change.

Invariant: output is a function of the report alone, in a fixed order, without colours or times of
day; JSON carries `"version": 1` and only gains keys within it. The figures that differ from run to
run are under `work`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from deltafix.analyses.dead_code.findings import UNUSED_KINDS, Finding
from deltafix.analyses.job import Work
from deltafix.diagnostics import plural

__all__ = ["Assumption", "Change", "Report"]


@dataclass(frozen=True, slots=True)
class Assumption:
    """What a tree was taken for: `kind` is `library` or `application`, `why` a half sentence."""

    kind: str
    why: str

    def text(self) -> str:
        """One line, with the way to the other assumption."""
        if self.kind == "library":
            then, other = "its public names are alive", "--roots entry-points for an application"
        else:
            then, other = "a public name that nothing uses is dead", "--roots public for a library"
        article = "an" if self.kind == "application" else "a"
        return f"assumed {article} {self.kind}: {self.why}; {then} ({other})"


@dataclass(frozen=True, slots=True)
class Report:
    """The state of a tree. `dead` and `unused` leave out what the baseline knows.

    `likely` counts what is left out since it is only likely to be dead, or unused. `unused` is None
    where nobody asked for it.
    """

    root: str
    files: int
    facts: int
    symbols: int
    dead: tuple[Finding, ...]
    work: Work
    likely: int = 0
    known: int = 0
    stale: tuple[tuple[str, str], ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    assumed: Assumption | None = None
    unused: tuple[Finding, ...] | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, in the order of files and lines."""
        return tuple(sorted((*self.dead, *(self.unused or ()))))

    def remarks(self) -> list[str]:
        """What holds for the tree as a whole: what it was taken for, then the notes."""
        return [*([self.assumed.text()] if self.assumed is not None else []), *self.notes]

    def text(self, limit: int | None = None) -> str:
        """One line per outermost dead symbol, at most `limit` of them, then a summary."""
        every_line = list(_findings(self.findings))
        lines = every_line[:limit]
        if len(lines) < len(every_line):
            lines.append(f"{len(every_line) - len(lines):,} more (--limit {len(lines):,})")
        lines += [f"{path}: not read: {why}" for path, why in self.unreadable.items()]
        if self.assumed is not None:
            lines.append(self.assumed.text())
        lines += [f"note: {note}" for note in self.notes]
        if self.stale:
            lines.append(
                f"note: {plural(len(self.stale), 'baseline entry', 'baseline entries')} no longer "
                "dead; write the baseline anew"
            )
        verb = "is" if self.likely == 1 else "are"
        likely = f"; {self.likely:,} more {verb} likely (--confidence likely)"
        more = likely if self.likely else ""
        known = f" and {self.known} known from the baseline" if self.known else ""
        lines.append(
            f"{plural(len(self.dead), 'dead symbol')}{known} among {self.symbols:,} "
            f"in {plural(self.files, 'file')} ({self.facts:,} facts, {self.work.seconds:.2f} s)"
            f"{self._counted()}{more}"
        )
        return "\n".join(lines)

    def _counted(self) -> str:
        """`; unused: 2 imports, 1 local`."""
        if self.unused is None:
            return ""
        counts = Counter(finding.kind for finding in self.unused)
        counted = (plural(counts[kind], kind) for kind in UNUSED_KINDS if counts[kind])
        return f"; unused: {', '.join(counted) or 'nothing'}"

    def json(self) -> str:
        """The report as one JSON document, see docs/guides/dead-code.md."""
        return _document(
            "report",
            root=self.root,
            files=self.files,
            facts=self.facts,
            symbols=self.symbols,
            dead=[finding.as_data() for finding in self.dead],
            unused=None if self.unused is None else [finding.as_data() for finding in self.unused],
            likely=self.likely,
            known=self.known,
            stale=[{"path": path, "symbol": symbol} for path, symbol in self.stale],
            unreadable=dict(self.unreadable),
            notes=list(self.notes),
            assumed=asdict(self.assumed) if self.assumed is not None else None,
            work=asdict(self.work),
        )


@dataclass(frozen=True, slots=True)
class Change:
    """What one set of saved or deleted files did. `recomputed` is a full evaluation, for scale.

    `affected` are the files whose findings may be others now, or say something else.
    """

    changed: tuple[str, ...]
    deleted: tuple[str, ...]
    became_dead: tuple[Finding, ...]
    became_alive: tuple[Finding, ...]
    confidence_changed: tuple[Finding, ...]
    gone: tuple[str, ...]
    work: Work
    recomputed: float
    unreadable: Mapping[str, str] = field(default_factory=dict)
    became_unused: tuple[Finding, ...] = ()
    no_longer_unused: tuple[str, ...] = ()
    affected: frozenset[str] = frozenset()

    def text(self) -> str:
        """Became dead, became alive, left the tree while dead; the same of unused; the work."""
        files = [*self.changed, *(f"{path} (deleted)" for path in self.deleted)]
        lines = [f"changed: {', '.join(files)}"]
        lines += [f"  {path}: not read, its old facts are kept: {why}"
                  for path, why in self.unreadable.items()]  # fmt: skip
        lines += [f"  became dead   {line}" for line in _findings(self.became_dead)]
        lines += [f"  became alive  {line}" for line in _placed(self.became_alive)]
        lines += [
            f"  now {finding.confidence:<9} {line}"
            for finding, line in zip(
                self.confidence_changed, _placed(self.confidence_changed), strict=True
            )
        ]
        lines += [f"  gone          {symbol} (it was dead)" for symbol in self.gone]
        lines += [f"  now unused    {line}" for line in _findings(self.became_unused)]
        lines += [f"  not unused    {name} (it was, and is read or gone)"
                  for name in self.no_longer_unused]  # fmt: skip
        turned = (self.became_dead, self.became_alive, self.confidence_changed, self.gone)
        if not any((*turned, self.became_unused, self.no_longer_unused)):
            lines.append("  no symbol became dead or alive")
        work = self.work
        lines.append(
            f"  {work.facts_removed} facts out, {work.facts_added} in, {work.touched} touched, "
            f"{work.seconds:.3f} s (from scratch: {self.recomputed:.2f} s)"
        )
        return "\n".join(lines)

    def changes_as_data(self) -> dict[str, Any]:
        """What became dead or alive, as JSON data."""
        return {
            "became_dead": [finding.as_data() for finding in self.became_dead],
            "became_alive": [finding.as_data() for finding in self.became_alive],
            "confidence_changed": [finding.as_data() for finding in self.confidence_changed],
            "gone": list(self.gone),
            "became_unused": [finding.as_data() for finding in self.became_unused],
            "no_longer_unused": list(self.no_longer_unused),
        }

    def sizes(self) -> tuple[int, int]:
        """How many symbols became dead, or are unused now, and how many alive, or are read."""
        return (
            len(self.became_dead) + len(self.became_unused),
            len(self.became_alive) + len(self.no_longer_unused),
        )

    def sides(self) -> tuple[list[str], list[str]]:
        """What became dead or unused, and what became alive or is not unused, a line each."""
        unused = [
            f"{finding.path}:{finding.line}: {finding.title}" for finding in self.became_unused
        ]
        read = [f"no longer unused: {name}" for name in self.no_longer_unused]
        return [*_placed(self.became_dead), *unused], [*_placed(self.became_alive), *read]

    def json(self) -> str:
        """The change as one JSON document on one line (JSON Lines in watch mode)."""
        return _document(
            "change",
            changed=list(self.changed),
            deleted=list(self.deleted),
            **self.changes_as_data(),
            unreadable=dict(self.unreadable),
            work=asdict(self.work),
            recomputed=self.recomputed,
        )


def _findings(findings: tuple[Finding, ...]) -> Iterator[str]:
    """Outermost findings; what is inside a dead symbol is counted beside it."""
    symbols = {finding.symbol for finding in findings}
    total = _totals(findings)
    for finding in findings:
        if finding.inside in symbols:
            continue
        more = total.get(finding.symbol, 0)
        notes = [*([f"with {more} inside"] if more else []), *finding.doubts()]
        tail = f" ({', '.join(notes)})" if notes else ""
        yield f"{finding.path}:{finding.line}: {finding.title}{tail}"


def _placed(findings: tuple[Finding, ...]) -> list[str]:
    return [
        f"{finding.path}:{finding.line}: {finding.kind} {finding.symbol}" for finding in findings
    ]


def _totals(findings: tuple[Finding, ...]) -> dict[str, int]:
    """How many of the findings are inside each symbol, at any depth."""
    parent = {finding.symbol: finding.inside for finding in findings}
    total: dict[str, int] = {}
    for finding in findings:
        owner = finding.inside
        while owner is not None:
            total[owner] = total.get(owner, 0) + 1
            owner = parent.get(owner)
    return total


def _document(event: str, **content: Any) -> str:
    return json.dumps({"version": 1, "event": event, **content}, ensure_ascii=False)
