"""The view behind an editor: findings to show after a save, symbols under the cursor, quick fixes.

    saved paths -> extract -> DeadCode.update -> {path: findings}, for the files that are affected
    a place in a text -> symbols -> why they are alive or dead, where they stand, who uses them
    a finding -> edits that delete it with what depends on it, or keep it by a comment

Invariant: `shown` is what was last handed out per file, and equals the outermost findings of every
file; a file is handed out again only if its findings or their lines changed. The work of a save
follows the change and the sizes of the affected files, not the tree; the first question after it
costs O(links). Answers are of the facts of the last save, and of the texts as they are open,
which may be newer. Nothing here knows a protocol.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from deltafix.analyses.dead_code.edits import Edit, EditError, kept, without
from deltafix.analyses.dead_code.findings import UNUSED_KINDS, Finding, short_name
from deltafix.analyses.dead_code.job import DeadCode
from deltafix.analyses.dead_code.modules import module_of
from deltafix.analyses.dead_code.report import Change
from deltafix.analyses.dead_code.source import Named, Source, Span
from deltafix.analyses.dead_code.why import Explainer
from deltafix.analyses.facts import Place
from deltafix.analyses.files import Tree
from deltafix.analyses.reading import read_fragments

Findings = dict[str, list[Finding]]
"""Path to its outermost findings, by line; an empty list takes back what was shown."""

Location: TypeAlias = tuple[str, Span]
"""A path, and a part of its text."""

_DELETED = ("import", "local")  # kinds of what is unused that an edit can take out
_MOST = 5  # symbols that one name may mean, to be told of


@dataclass(frozen=True, slots=True)
class Fix:
    """What may be done about a finding: `delete` or `keep` it."""

    finding: Finding
    action: str

    @property
    def title(self) -> str:
        """For a menu."""
        if self.action == "keep":
            return f"Keep {self.finding.kind} {self.finding.symbol} (# deltafix: keep)"
        more = "" if self.finding.kind in UNUSED_KINDS else " with what refers to it"
        return f"Delete {self.finding.title}{more}"


@dataclass(slots=True)
class Edits:
    """What a fix does: edits of texts, by path, and files to delete."""

    texts: dict[str, list[Edit]] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)


class EditorView:
    """A tree, its job, and what was shown of it. `opened` gives the text of a path that is open."""

    def __init__(
        self, tree: Tree, job: DeadCode, opened: Callable[[str], str | None] = lambda _: None
    ) -> None:
        self.tree = tree
        self.job = job
        self.shown: Findings = {}
        self._opened = opened
        self._why: Explainer | None = None

    def on_disk(self, path: str) -> str:
        """The text of a file. Raises OSError, and ValueError for what is not UTF-8."""
        return self.tree.read(path).decode("utf-8-sig")

    def text(self, path: str) -> str:
        """The text of a file as it is open, or on the disk. Raises OSError, ValueError."""
        text = self._opened(path)
        return self.on_disk(path) if text is None else text

    # -- findings ------------------------------------------------------------------------------

    def load(self) -> Findings:
        """Read the whole tree; the findings of every file that has some."""
        extract = self.job.analysis.extract
        files = list(self.tree.scan().files)
        return self._news(self.job.update(read_fragments(self.tree, files, extract)))

    def saved(self, paths: Iterable[str]) -> tuple[Change, Findings]:
        """Read these files again (one that is no longer there is deleted) and say what to show.

        A folder stands for what is and was in it. Paths that are not source of the tree are
        ignored.
        """
        held = self.job.paths
        known = set(held)
        relevant = {path for path in paths if path in known or not self.tree.leaves_out(path)}
        for folder in [path for path in relevant if path not in known and not self.tree.has(path)]:
            start, end = (bisect_left(held, f"{folder}{mark}") for mark in "/0")  # 0 follows /
            relevant.update((*held[start:end], *self.tree.below(folder)))
        ours = sorted(path for path in relevant if path in known or self.tree.holds(path))
        present = [path for path in ours if self._is_there(path)]
        gone = [path for path in ours if path not in present and path in known]
        extract = self.job.analysis.extract
        change = self.job.update(read_fragments(self.tree, present, extract), gone)
        return change, self._news(change)

    def _is_there(self, path: str) -> bool:
        """Whether a file is there to be read: in the folder, or the project file above it."""
        return self.tree.has(path) or (path.startswith("../") and (self.tree.root / path).is_file())

    def _news(self, change: Change) -> Findings:
        """What is to be shown anew of the files that a change affects."""
        if change.work.facts_added or change.work.facts_removed:
            self._why = None
        news: Findings = {}
        for path in sorted(change.affected):
            findings = self.job.outermost(path)
            if findings != self.shown.get(path, []):
                news[path] = findings
                self.shown[path] = findings
        return news

    # -- questions -----------------------------------------------------------------------------

    def hover(self, path: str, offset: int) -> tuple[Span, str] | None:
        """Why the symbol at an offset is alive or dead, with the name it is said by."""
        meant = self._meant(path, offset)
        if meant is None:
            return None
        texts = [self._explained(symbol) for symbol in meant[1][:_MOST]]
        more = len(meant[1]) - _MOST
        return meant[0], "\n\n".join([*texts, *([f"and {more} more"] if more > 0 else [])])

    def definitions(self, path: str, offset: int) -> list[Location]:
        """Where the symbols stand that the name at an offset may mean."""
        meant = self._meant(path, offset)
        symbols = meant[1] if meant is not None else []
        return [location for symbol in symbols for location in self._defined(symbol)]

    def references(self, path: str, offset: int, *, declared: bool = False) -> list[Location]:
        """Where code and texts use what the name at an offset may mean; with what defines it?"""
        meant = self._meant(path, offset)
        locations: dict[Location, None] = {}
        for symbol in meant[1] if meant is not None else ():
            if declared:
                locations.update(dict.fromkeys(self._defined(symbol)))
            locations.update(dict.fromkeys(self._used(symbol)))
        return sorted(locations)

    @property
    def _explainer(self) -> Explainer:
        if self._why is None:
            self._why = self.job.explainer()
        return self._why

    def _explained(self, symbol: str) -> str:
        return self._explainer.explain(symbol, self.job.judged(symbol))

    def _meant(self, path: str, offset: int) -> tuple[Span, list[str]] | None:
        """The name at an offset, and the symbols it may mean in the state of the last save."""
        source = self._source(path)
        span = source.word_at(offset) if source is not None else None
        if source is None or span is None:
            return None
        symbols = self._symbols_of(path, source)
        line = source.line_of(span[0])
        here = [*symbols.get((line, span[0] - source.starts[line - 1] + 1), ())]
        if not here:
            occurrence = next(
                (occurrence for occurrence in source.occurrences() if occurrence.span == span), None
            )
            if occurrence is None:
                return None
            if isinstance(occurrence.node, ast.alias):
                here += self._taken(path, source.parents[occurrence.node], occurrence.node.name)
            for user in self._users(path, source, occurrence.node, symbols):
                here += self._explainer.targets(user, occurrence.name, member=occurrence.is_member)
        known = [symbol for symbol in dict.fromkeys(here) if symbol in self._explainer.kinds]
        return (span, known) if known else None

    def _taken(self, path: str, statement: ast.AST, name: str) -> list[str]:
        """The symbols that an import statement of a file means by a name that it takes."""
        start = ""
        if isinstance(statement, ast.ImportFrom):
            here = module_of(path, self.tree.prefix)
            start = here.resolve(statement.level, statement.module)
        importable = [(str(row[0]), str(row[1])) for row in self.job.rows("importable")]
        dotted = f"{start}.{name}" if start else name
        modules = {module for known, module in importable if known == start}
        symbols = {module for known, module in importable if known == dotted}
        if modules:
            members = self.job.rows("member")
            symbols |= {
                str(symbol) for module, of, symbol in members if of == name and module in modules
            }
        return sorted(symbols)

    def _users(
        self, path: str, source: Source, node: ast.AST, symbols: Mapping[tuple[int, int], list[str]]
    ) -> list[str]:
        """Who says what stands in `node`: the block it is in, and the names that it is given to."""
        holders: list[str] = []
        at: ast.AST | None = node
        while at is not None:
            if isinstance(at, ast.Assign | ast.AnnAssign):
                targets = at.targets if isinstance(at, ast.Assign) else [at.target]
                names = (inner for target in targets for inner in ast.walk(target))
                for name in names:
                    if isinstance(name, ast.Name):
                        holders += symbols.get(source.position(name), ())
            elif isinstance(at, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                return [*holders, *symbols.get(source.position(at), ())]
            at = source.parents.get(at)
        return [*holders, module_of(path, self.tree.prefix).canonical]

    def _defined(self, symbol: str) -> Iterator[Location]:
        for path, place in self.job.where(symbol).items():
            source = self._source(path)
            if source is None or place.kind == "module":
                yield path, (0, 0)
                continue
            now = self._now(path, source, symbol, place.kind)
            yield from ((path, source.name_at(current.line, current.column)) for current in now)

    def _used(self, symbol: str) -> Iterator[Location]:
        users = self._explainer.referrers(symbol)
        paths = {path for user in users for path in (*self.job.where(user), user)}
        for path in sorted(paths & {*self.job.paths}):
            source = self._source(path)
            if source is None:
                yield from ((path, span) for span in self._said(path, short_name(symbol)))
                continue
            symbols = self._symbols_of(path, source)
            for occurrence in source.occurrences(short_name(symbol)):
                if not users.isdisjoint(self._users(path, source, occurrence.node, symbols)):
                    yield path, occurrence.span
        for path, alias in self._imports_of({symbol}):
            taking = self._source(path)
            for occurrence in taking.occurrences(short_name(symbol)) if taking is not None else ():
                if occurrence.node is alias:
                    yield path, occurrence.span

    def _said(self, path: str, name: str) -> Iterator[Span]:
        """Where a text that is not Python says a name."""
        try:
            text = self.text(path)
        except (OSError, ValueError):
            return
        yield from (match.span() for match in re.finditer(rf"\b{re.escape(name)}\b", text))

    # -- fixes ---------------------------------------------------------------------------------

    def fixes(self, path: str, lines: range) -> list[Fix]:
        """What may be done about the findings of the file in these lines, from 1, of its text."""
        findings = self.shown.get(path)
        source = self._source(path) if findings else None
        if not findings or source is None:
            return []
        fixes: list[Fix] = []
        for finding in findings:
            places = self._now(path, source, finding.symbol, finding.kind)
            if finding.kind == "module":
                is_package = path.endswith("__init__.py")
                fixes += [Fix(finding, "delete")] if 1 in lines and not is_package else []
            elif any(place.line in lines for place in places):
                unused = finding.kind in UNUSED_KINDS
                if not unused or finding.kind in _DELETED:
                    fixes.append(Fix(finding, "delete"))
                fixes.append(Fix(finding, "keep"))
        return fixes

    def fix(self, path: str, symbol: str, kind: str, action: str) -> Fix | None:
        """A fix by what it is about; None if that is no longer shown."""
        for finding in self.shown.get(path, ()):
            if (finding.symbol, finding.kind) == (symbol, kind):
                return Fix(finding, action)
        return None

    def edits(self, fix: Fix) -> Edits:
        """What a fix does to the texts as they are. Raises EditError."""
        finding = fix.finding
        source = self._source(finding.path)
        if source is None:
            raise EditError(f"{finding.path} cannot be read as Python now")
        if fix.action == "keep":
            places = self._now(finding.path, source, finding.symbol, finding.kind)
            if not places:
                raise EditError(f"{finding.symbol} is no longer in {finding.path}")
            return Edits({finding.path: [kept(source, place.line) for place in places]})
        if finding.kind in UNUSED_KINDS:
            nodes = self._nodes(finding.path, source, finding.symbol, finding.kind)
            return Edits({finding.path: without(source, nodes)})
        return self._deleted(finding)

    def _deleted(self, finding: Finding) -> Edits:
        """A dead symbol taken out, with the dead ones that refer to it and every import of them."""
        going = self._with_dependents(finding.symbol)
        result = Edits()
        if finding.kind == "module":
            result.deleted.append(finding.path)
        chosen: dict[str, list[Named]] = {}
        for symbol in sorted(going):
            for path, place in self.job.where(symbol).items():
                source = self._source(path)
                if path in result.deleted or place.kind == "module":
                    continue
                if source is None:
                    raise EditError(f"{symbol} stands in {path}, which cannot be read as Python")
                chosen.setdefault(path, []).extend(self._nodes(path, source, symbol, place.kind))
        for path, alias in self._imports_of(going):
            if path not in result.deleted:
                chosen.setdefault(path, []).append(alias)
        for path, nodes in chosen.items():
            source = self._source(path)
            assert source is not None, "it was read above"  # noqa: S101
            result.texts[path] = without(source, nodes)
        return result

    def _with_dependents(self, symbol: str) -> set[str]:
        """A symbol, what is in it, and the dead symbols that refer to any of these, and so on."""
        going: set[str] = set()
        queue = [symbol]
        while queue:
            at = queue.pop()
            starts = (f"{at}.", f"{at}:")
            inside = [
                known for known in self._explainer.kinds if known == at or known.startswith(starts)
            ]
            for dependency in set(inside) - going:
                going.add(dependency)
                for user in self._explainer.dependents(dependency):
                    is_symbol = self._explainer.kinds.get(user, "module") != "module"
                    if is_symbol and self.job.judged(user) is not None:
                        queue.append(user)
        return going

    def _imports_of(self, symbols: set[str]) -> Iterator[tuple[str, ast.alias]]:
        """Where modules import the symbols by name, in whatever way."""
        members = (map(str, row) for row in self.job.rows("member"))
        offered = {(module, name) for module, name, symbol in members if symbol in symbols}
        modules = {module for module, _ in offered}
        paths: dict[str, set[str]] = {}
        for path, module in (map(str, row) for row in self.job.rows("importable")):
            if module in modules:
                paths.setdefault(module, set()).add(path)
        dotted = {f"{path}.{name}" for m, name in offered for path in paths.get(m, ())}
        users = {str(user) for user, path in self.job.rows("imports") if path in dotted}
        for path in sorted({path for user in users for path in self.job.where(user)}):
            source = self._source(path)
            if source is None:  # nor is it by whoever asks
                continue
            here = module_of(path, self.tree.prefix)
            for node in ast.walk(source.tree):
                if isinstance(node, ast.ImportFrom):
                    start = here.resolve(node.level, node.module)
                    for alias in node.names:
                        if f"{start}.{alias.name}" in dotted:
                            yield path, alias

    # -- texts ---------------------------------------------------------------------------------

    def _source(self, path: str) -> Source | None:
        """The text of a file with its tree; None if it is no Python."""
        try:
            text = self.text(path)
            if not (path.endswith(".py") or text.startswith("#!")):
                return None
            return Source.of(text)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    def _places(self, path: str, source: Source) -> Sequence[Place]:
        """Where names stand: of an open text anew, else as they were when it was last read."""
        if self._opened(path) is None:
            held = self.job.stated(path)
            return [place for place in held if place.line <= len(source.starts)]
        return self.job.analysis.extract(path, source.text.encode(), self.tree.prefix).places

    def _symbols_of(self, path: str, source: Source) -> dict[tuple[int, int], list[str]]:
        """The symbols whose name stands at a place, modules left out."""
        symbols: dict[tuple[int, int], list[str]] = {}
        for place in self._places(path, source):
            if place.kind != "module" and place.kind not in UNUSED_KINDS:
                symbols.setdefault((place.line, place.column), []).append(place.symbol)
        return symbols

    def _now(self, path: str, source: Source, symbol: str, kind: str) -> list[Place]:
        """Where a file's text has a symbol now."""
        places = self._places(path, source)
        return [place for place in places if place.symbol == symbol and place.kind == kind]

    def _nodes(self, path: str, source: Source, symbol: str, kind: str) -> list[Named]:
        candidates = (
            source.named.get((place.line, place.column))
            for place in self._now(path, source, symbol, kind)
        )
        nodes = [node for node in candidates if node is not None]
        if not nodes:
            raise EditError(f"{symbol} is no longer in {path}")
        return nodes
