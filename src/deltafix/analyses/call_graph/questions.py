"""Questions to the call graph: who calls a symbol, who reaches it and how, what a file affects.

    callers X, reaches X, path X Y    over the calls, one symbol to another
    impact FILE                       over the imports, one file to another

Invariant: an answer is a `Chain`, a shortest one, each step of which is a row of the graph; answers
are ordered by length, then by name, so equal sources give equal answers.
A call of a class is a call of the class as well as of its `__init__`, so that classes without one
have callers too. Impact goes by imports and not by calls, which are not all known: a file that
changed can matter only to what imports it, or is given its fixtures by pytest.
Nothing here reads files or prints.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain as joined
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

from deltafix.analyses.call_graph.facts import call_key
from deltafix.analyses.dead_code.collected import Collected
from deltafix.analyses.dead_code.symbols import UnknownSymbolError, find_symbol
from deltafix.analyses.job import Job
from deltafix.errors import SourceError

__all__ = ["Affected", "Chain", "Questions", "require_files"]

_CALLED = frozenset({"function", "method", "class"})
_IMPORTS = frozenset({"imports", "is in package", "may import by a computed name"})
_REFERS = frozenset({"refers to", "has it registered by a decorator"})
_FIXTURES = "conftest.py"
_SOME = 3  # names that a reason lists


@dataclass(frozen=True, slots=True)
class Chain:
    """A way through the calls: the symbols from who calls to what is called, and where they stand.

    Attributes:
        steps: symbols, the first calls the second and so on; at least one.
        places: (path, line from 1) of each step.
    """

    steps: tuple[str, ...]
    places: tuple[tuple[str, int], ...]

    @property
    def symbol(self) -> str:
        """Who reaches."""
        return self.steps[0]

    def as_data(self) -> dict[str, Any]:
        """The chain as JSON data."""
        path, line = self.places[0]
        steps = [
            {"symbol": symbol, "path": where, "line": at}
            for symbol, (where, at) in zip(self.steps, self.places, strict=True)
        ]
        return {"symbol": self.symbol, "path": path, "line": line, "steps": steps}


@dataclass(frozen=True, slots=True)
class Affected:
    """A file to which a change may matter.

    Attributes:
        path: relative to the tree.
        test: whether a test runner collects it, by its name or by pytest's settings.
        steps: paths, the first imports the second and so on to one that changed.
    """

    path: str
    test: bool
    steps: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """The file as JSON data."""
        return {"path": self.path, "test": self.test, "steps": list(self.steps)}


class Questions:
    """Questions to one state of a job of `CALL_GRAPH`. Ask a new one after an update.

    `tests` says which files are tests; without it they are told by their default names.

    Building reads the calls, the links and the places; O(calls + links). A question is a
    breadth-first search, O(calls) or O(imports), and its answer's chains.
    """

    def __init__(self, job: Job, tests: Collected | None = None) -> None:
        self._errors = job.errors
        self._tests = tests or Collected()
        self._places: dict[str, tuple[str, int]] = {}
        self._files: dict[str, set[str]] = defaultdict(set)  # module -> paths
        for path, fragment in sorted(job.fragments.items()):
            for place in fragment.places:
                here = (path, place.line)
                self._places[place.symbol] = min(self._places.get(place.symbol, here), here)
                if place.kind == "module":
                    self._files[place.symbol].add(path)
        self._kinds = {str(symbol): str(kind) for symbol, kind in job.rows("symbol")}
        self._kinds.update((str(symbol), "function") for (symbol,) in job.rows("named_lambda"))
        classes = (row for row in job.rows("means") if self._kinds.get(str(row[1])) == "class")
        self._callers: dict[str, set[str]] = defaultdict(set)
        for caller, callee in joined(job.rows("calls"), classes):
            self._callers[str(callee)].add(str(caller))
        self._users: dict[str, set[str]] = defaultdict(set)
        for user, symbol, how in job.rows("link"):
            if how in _REFERS:
                self._users[str(symbol)].add(str(user))
        self._paths = set(job.fragments)
        self._importers = self._imports(job)

    # -- calls ---------------------------------------------------------------------------------

    def callers(self, symbol: str) -> list[Chain]:
        """Who calls a symbol, itself included if it does: chains of two.

        Args:
            symbol: its id, or the end of exactly one.

        Raises:
            UnknownSymbolError: there is none such, it fits several, or nothing can call it.
        """
        called = self._called(symbol)
        return [self._chain((caller, called)) for caller in sorted(self._callers[called])]

    def reaches(self, symbol: str) -> list[Chain]:
        """Who reaches a symbol by one call or more, each with a shortest way to it.

        Raises UnknownSymbolError as `callers`.
        """
        called = self._called(symbol)
        towards = _search([called], self._callers)
        ways = [_way(user, towards) for user in towards if user != called]
        callees = [callee for callee, callers in self._callers.items() if called in callers]
        round_ = [(called, *_way(callee, towards)) for callee in callees if callee in towards]
        ways += sorted(round_, key=_order)[:1]
        return [self._chain(way) for way in sorted(ways, key=_order)]

    def path(self, caller: str, callee: str) -> Chain | None:
        """A shortest way of one call or more from a symbol, which may be a module, to another.

        Raises UnknownSymbolError as `callers`.
        """
        start = find_symbol(caller, self._kinds)
        return next((chain for chain in self.reaches(callee) if chain.symbol == start), None)

    def why_none(self, *symbols: str) -> str:
        """Why `callers`, `reaches` or `path` of these symbols is empty, as it is.

        Raises UnknownSymbolError as `callers`.
        """
        called = self._called(symbols[-1])
        start = find_symbol(symbols[0], self._kinds)
        if not self._callers[called]:
            return f"nothing in the tree calls {called}{self._referred(called)}"
        if len(symbols) == 1 or start == called:
            return f"no way of calls leads back to {called}"
        reached = _search([start], self._callees)
        if len(reached) == 1:
            more = " but itself" if start in self._callees else ""
            if self._kinds[start] == "module":
                more = " at import; ask for what it defines"
            return f"{start} calls nothing in the tree{more}"
        reaching = _search([called], self._callers)
        back = f"; there is a way from {called}" if self.path(called, start) else ""
        return (
            f"{start} reaches {len(reached) - 1:,} by calls, {called} is reached by "
            f"{len(reaching) - 1:,}, and none is among both{back}"
        )

    @cached_property
    def _callees(self) -> Mapping[str, set[str]]:
        callees: dict[str, set[str]] = defaultdict(set)
        for callee, callers in self._callers.items():
            for caller in callers:
                callees[caller].add(callee)
        return callees

    def _referred(self, symbol: str) -> str:
        """Who refers to a symbol that nothing calls: it may be called from outside of the tree."""
        users = sorted(self._users.get(symbol, set()) - {symbol})
        if not users:
            return ", or refers to it"
        more = f" and {len(users) - _SOME} more" if len(users) > _SOME else ""
        return f"; without a call refer to it {', '.join(users[:_SOME])}{more}"

    def _called(self, text: str) -> str:
        """The symbol that is meant, if calls can reach it."""
        called = {symbol for symbol, kind in self._kinds.items() if kind in _CALLED}
        try:
            return find_symbol(text, called)
        except UnknownSymbolError:
            kind = self._kinds.get(text)
            if kind is None or kind in _CALLED:
                raise
            way_out = "; ask for the impact of its file" if kind == "module" else ""
            raise UnknownSymbolError(
                f"{text} is a {kind}, and calls go to functions, methods and classes{way_out}"
            ) from None

    def _chain(self, way: tuple[str, ...]) -> Chain:
        """A way with its places: of a module that of its call, since it has no other."""
        places = [self._places[symbol] for symbol in way]
        for at, (caller, callee) in enumerate(pairwise(way)):
            if self._kinds[caller] == "module":
                called = callee.removesuffix(".__init__").rpartition(":")[2]
                places[at] = self._places.get(call_key(caller, called), places[at])
        return Chain(way, tuple(places))

    # -- imports -------------------------------------------------------------------------------

    def impact(self, paths: Iterable[str]) -> list[Affected]:
        """What must be tested again when these files change: tests first, then by length.

        All files that import one of them, directly or not, and those of them that are tests.

        Args:
            paths: relative to the tree, with forward slashes.

        Raises:
            SourceError: one is no file of the tree, or could not be read.
        """
        changed = sorted(set(paths))
        for path in changed:
            if reason := self._errors.get(path):
                raise SourceError(f"{path} could not be read: {reason}", path=path)
        require_files(changed, self._paths)
        towards = _search(changed, self._importers)
        affected = [
            Affected(path, self._is_test(path), _way(path, towards))
            for path in towards
            if path not in changed or self._is_test(path)
        ]
        return sorted(affected, key=lambda file: (not file.test, *_order(file.steps)))

    def _imports(self, job: Job) -> Mapping[str, set[str]]:
        """File to the files that import it, or that pytest gives its fixtures to."""
        importers: dict[str, set[str]] = defaultdict(set)
        for user, symbol, how in job.rows("link"):
            is_fixture = how == "asks for the fixture"
            for path in self._files[_module(str(symbol))]:
                # A test file's fixtures are its own, a conftest's its folder's.
                if how in _IMPORTS or (is_fixture and not self._tests.is_test(path)):
                    importers[path] |= self._files[_module(str(user))]
        makers = self._makers(job)
        for path in self._paths:
            if self._tests.is_test(path):
                above = {str(folder / _FIXTURES) for folder in PurePosixPath(path).parents}
                above &= self._paths
                if self._tests.is_renamed(path) or self._tests.is_declared(path):
                    above |= makers
                for conftest in above - {path}:
                    importers[conftest].add(path)
        return importers

    def _makers(self, job: Job) -> set[str]:
        """Files of fixtures for whoever asks: which tests do is known of those named so alone."""
        modules = {_module(str(symbol)) for symbol, _ in job.rows("fixture")}
        files = {path for module in modules for path in self._files[module]}
        return {path for path in files if not self._tests.is_test(path)}

    def _is_test(self, path: str) -> bool:
        return self._tests.is_test(path) and PurePosixPath(path).name != _FIXTURES


def require_files(paths: Iterable[str], known: Collection[str]) -> None:
    """Require of paths that they are Python files of a tree that has these. Raises SourceError."""
    for path in paths:
        if path not in known:
            fits = sorted(candidate for candidate in known if candidate.endswith(f"/{path}"))
            help_ = f"; did you mean {', '.join(fits[:3])}?" if fits else ""
            raise SourceError(f"{path} is no Python file of the tree{help_}", path=path)


def _search(goals: Iterable[str], before: Mapping[str, set[str]]) -> dict[str, str]:
    """Breadth first, backwards: each node that reaches a goal, to its next node; goals to ""."""
    towards = dict.fromkeys(goals, "")
    level = sorted(towards)
    while level:
        reached: dict[str, str] = {}
        for node in level:
            for predecessor in before.get(node, ()):
                if predecessor not in towards:
                    reached.setdefault(predecessor, node)
        towards |= reached
        level = sorted(reached)
    return towards


def _way(node: str, towards: Mapping[str, str]) -> tuple[str, ...]:
    way = [node]
    while towards[way[-1]]:
        way.append(towards[way[-1]])
    return tuple(way)


def _order(way: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    return len(way), way


def _module(symbol: str) -> str:
    return symbol.partition(":")[0]
