"""Plans as data: what the executors run, and how it prints.

Nouns: a `Variant` is a clause seen from one literal (the delta rule of that literal); its `Node`s
say, for each set of literals already joined, which checks are ready and which literals could be
next; a `Stage` is a stratum with its variants. Invariant: no kernel, no symbols, no addresses:
both executors read the same plan, and its text form is stable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from html import escape
from typing import NamedTuple

from deltafix.plan.clause import (
    Absent,
    Apply,
    Argument,
    Clause,
    Compare,
    Fold,
    LatticeColumn,
    Match,
    Relation,
    Slot,
)
from deltafix.plan.depend import Layer

HEAD = -1
KEY = -2
"""Triggers that are no literals."""


class Sees(Enum):
    """Which state a literal sees, relative to the trigger: see `plan.derive`."""

    LOWER_BEFORE = 0
    LOWER_AFTER = 1
    SAME_BEFORE = 2
    SAME_AFTER = 3


class Way(NamedTuple):
    """How an atom is joined: found by whole key, by an index, or by a scan.

    `literal` is its place in the body, `by` the tuple of key columns (all columns: the key table;
    empty: a scan), `keys` what they must equal, `binds` the remaining columns with what they bind
    or must equal. One object for all nodes from which a literal is joined so.
    """

    literal: int
    match: Match
    by: tuple[int, ...]
    keys: tuple[Argument, ...]
    binds: tuple[tuple[int, Argument, bool], ...]  # column, argument, does it bind


class Candidate(NamedTuple):
    """A literal that may be joined next, the state that it sees, and the node behind it."""

    way: Way
    sees: Sees
    child: int


class Check(NamedTuple):
    """A literal that only tests or computes; `binds`: its variable gets its value here."""

    literal: Compare | Apply | Absent
    sees: Sees
    binds: Slot | None


class Node(NamedTuple):
    """After these literals: run `checks`, then join one of `candidates` (none: emit the head)."""

    checks: tuple[Check, ...]
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Variant:
    """A clause evaluated from its literal `trigger`.

    HEAD: from its head; KEY: from the head's columns but the one that is kept best; None: from
    nothing. `negated`: a row of its relation that comes breaks derivations, one that goes makes
    them.
    """

    clause: Clause
    trigger: int | None
    binds: tuple[tuple[int, Argument, bool], ...]
    slots: tuple[Slot, ...]
    nodes: tuple[Node, ...]
    negated: bool = False

    @property
    def relation(self) -> str | None:
        """The relation whose row starts the variant."""
        if self.trigger is None:
            return None
        if self.trigger < 0:
            return self.clause.head
        literal = self.clause.body[self.trigger]
        assert isinstance(literal, (Match, Absent))  # noqa: S101  only these trigger
        return literal.relation

    def show(self) -> str:
        """The variant as text: the delta rule, then its nodes."""
        if self.trigger is None:
            head = f"full  {self.clause}"
        elif self.trigger < 0:
            head = f"{'why' if self.trigger == HEAD else 'key'}   {self.clause}"
        else:
            head = (
                f"on {'-' if self.negated else '+'}{self.clause.body[self.trigger]}  {self.clause}"
            )
        return "\n".join(
            [head, *(f"  {line}" for n, _ in enumerate(self.nodes) for line in self._node(n))]
        )

    def _node(self, number: int) -> list[str]:
        node = self.nodes[number]
        lines = [f"{number}: check {check.literal}" for check in node.checks]
        for option in node.candidates:
            match, by = option.way.match, option.way.by
            how = f"by {list(by)}" if by else "scan"
            state = option.sees.name.lower()
            lines.append(f"{number}: join {match} {how} [{state}] -> {option.child}")
        if not node.candidates:
            lines.append(
                f"{number}: emit {self.clause.head}({', '.join(map(str, self.clause.args))})"
            )
        return lines


@dataclass(frozen=True, slots=True)
class Outside:
    """What computes a stratum that is no plain rules': one fold, or clauses beyond Horn.

    A fold `in_kernel` (`kernel.fold`) is not Python's, which has the rest.

    `reads` are the relations below whose changes it gets.
    """

    reads: tuple[str, ...]
    layer: Layer
    in_kernel: bool = False

    def show(self) -> list[str]:
        """As lines of text."""
        fold = self.layer.fold
        if fold is not None:
            return [str(fold)]
        return [*map(str, self.layer.clauses), *map(str, self.layer.folds), *self._calls()]

    def _calls(self) -> Iterator[str]:
        """What each key of a recursion through aggregates needs."""
        calls = self.layer.calls
        if calls is None:
            return
        for need in calls.needs:
            width = len(calls.keys[need.caller])
            args = [str(arg) for arg in need.clause.args]
            key, needed = (", ".join(part) for part in (args[:width], args[width:]))
            where = ", ".join(map(str, need.clause.body))
            yield f"{need.caller}[{key}] needs {need.callee}[{needed}] :- {where}."


@dataclass(frozen=True, slots=True)
class Stage:
    """A stratum: variants on changes below, on its own facts, for re-derivation, from scratch.

    `is_pipelined`: its one relation is not kept, only folds read it (`plan.pipelined`).
    """

    relations: tuple[str, ...]
    recursive: bool
    lower: tuple[Variant, ...]
    same: tuple[Variant, ...]
    rederive: tuple[Variant, ...]
    full: tuple[tuple[Variant, ...], ...]
    const: tuple[Variant, ...]
    outside: Outside | None = None
    best: Mapping[str, LatticeColumn] = field(default_factory=dict)
    by_key: tuple[Variant, ...] = ()
    is_pipelined: bool = False

    @property
    def may_grow(self) -> bool:
        """Whether its recursion computes values that no row had, so that it may have no end.

        O(clauses). What only copies values has an end: there are so many rows of the values there
        are.
        """
        beyond = () if self.outside is None else self.outside.layer.clauses
        return self.recursive and any(
            clause.computes_head and any(atom.relation in self.relations for atom in clause.atoms)
            for clause in (*self.clauses, *beyond)
        )

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """The clauses that the kernel runs, each once."""
        run = (*self.const, *self.lower, *self.same)
        return tuple({id(variant.clause): variant.clause for variant in run}.values())

    def show(self) -> str:
        """The stage as text."""
        lines = [f"stratum {', '.join(self.relations)}{' (recursive)' if self.recursive else ''}"]
        if self.is_pipelined:
            lines.append("  goes into aggregates row by row, and is not kept")
        for name, kept in self.best.items():
            lines.append(f"  {name} keeps one row per key: column {kept}")
        for variant in (*self.const, *self.lower, *self.same, *self.rederive, *self.by_key):
            lines.extend(f"  {line}" for line in variant.show().split("\n"))
        if self.outside is not None:
            lines.extend(f"  {line}" for line in self.outside.show())
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Plan:
    """Relations, strata in order, and the indexes (key columns) each relation needs.

    `given` names the hidden relations where rows given to some relations lie (`plan.build`).
    `bounded`: inputs can make its relations smaller (`plan.build`), so there is no sense in
    running it before they are there.
    """

    relations: tuple[Relation, ...]
    stages: tuple[Stage, ...]
    indexes: dict[str, tuple[tuple[int, ...], ...]]
    given: dict[str, str] = field(default_factory=dict)
    bounded: bool = False

    @property
    def pipelined(self) -> frozenset[str]:
        """The relations that are not kept."""
        return frozenset(stage.relations[0] for stage in self.stages if stage.is_pipelined)

    @property
    def folds(self) -> dict[int, Fold]:
        """The folds that the kernel computes, by the numbers of their strata."""
        kept = {
            n: s.outside for n, s in enumerate(self.stages) if s.outside and s.outside.in_kernel
        }
        return {
            n: outside.layer.fold for n, outside in kept.items() if outside.layer.fold is not None
        }

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.show())}</pre>"

    def show(self) -> str:
        """The plan as text, the same on every run."""
        lines = []
        for relation in self.relations:
            shown = ", ".join(str(list(columns)) for columns in self.indexes[relation.name])
            lines.append(
                f"relation {relation.name}/{len(relation.types)} indexes {shown or 'none'}"
            )
        return "\n".join(
            [
                *lines,
                *(
                    stage.show()
                    for stage in self.stages
                    if stage.lower or stage.same or stage.const or stage.outside
                ),
            ]
        )
