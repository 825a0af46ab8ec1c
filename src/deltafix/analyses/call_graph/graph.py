"""The maintained call graph: fragments in, calls that came and went out.

    files: path -> fragment | facts | counted union | fixpoint -> calls(caller, callee)

Invariant: after every `update` the calls are those of the readable files; a file that cannot be
read keeps what it stated. An update is one epoch: if it fails, everything is as before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files as resources
from typing import Self, TypeAlias

from deltafix.analyses.dead_code.facts import Fact, Fragment
from deltafix.datalog.program import Program
from deltafix.reactive.collection import Collection
from deltafix.reactive.delta import CollectionDelta
from deltafix.reactive.fixpoint import fixpoint

__all__ = ["Call", "CallChange", "CallGraph", "load_program"]

Call: TypeAlias = tuple[str, str]
"""(caller, callee), as symbol ids `module:qualified.name`; a module is a caller by its name."""


def load_program() -> Program:
    """The rules about names and those about calls, checked."""
    parts = (("dead_code", "program.dl"), ("call_graph", "program.dl"))
    texts = [
        (resources(f"deltafix.analyses.{package}") / name).read_text(encoding="utf-8")
        for package, name in parts
    ]
    return Program.parse("\n".join(texts), "call_graph.dl")


@dataclass(frozen=True, slots=True)
class CallChange:
    """What one update did: calls that came and went, sorted, and rows the engine touched."""

    came: tuple[Call, ...]
    went: tuple[Call, ...]
    touched: int
    unreadable: dict[str, str]


class CallGraph:
    """A live call graph over fragments of `facts.extract_calls`. Use in a with-statement."""

    def __init__(self) -> None:
        self._files = Collection.input(key=str, value=Fragment, name="files")
        self._facts = self._files.flat_map(_rows, name="facts of a file").distinct(name="union")
        self._views = fixpoint(load_program(), self._facts, views=("calls",), name="call graph")

    def update(self, fragments: Iterable[Fragment], deleted: Iterable[str] = ()) -> CallChange:
        """Replace the fragments of some files, drop those of others; one transaction.

        Work is proportional to what changes in the facts and in what follows from them.
        """
        told: list[CollectionDelta] = []
        epochs: list[CollectionDelta] = []
        given = {one.path: one for one in fragments}
        with (
            self._views["calls"].subscribe(told.append),
            self._facts.subscribe(epochs.append),
            self._files.transaction() as tx,
        ):
            for path in deleted:
                if path not in given:
                    tx.set(path)
            for path, one in given.items():
                if one.error is None:
                    tx.set(path, one)
        changes = [((row[0], row[1]), sign) for one in told for _, row, sign in one]
        return CallChange(
            tuple(sorted(call for call, sign in changes if sign > 0)),
            tuple(sorted(call for call, sign in changes if sign < 0)),
            self._views.database.last_epoch.touched if any(map(len, epochs)) else 0,
            {path: one.error for path, one in given.items() if one.error is not None},
        )

    def calls(self) -> set[Call]:
        """Every call. O(calls)."""
        return {(str(row[0]), str(row[1])) for row in self._views.database.rows("calls")}

    def callers(self, symbol: str) -> list[str]:
        """Who may call `symbol`, sorted; empty for one that nobody calls or that is not there."""
        return sorted(caller for caller, callee in self.calls() if callee == symbol)

    def close(self) -> None:
        """Close the database."""
        self._views.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _rows(_: str, fragment: Fragment) -> Iterable[Fact]:
    return fragment.facts
