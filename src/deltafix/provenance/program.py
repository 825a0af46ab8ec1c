"""Every clause that the kernel runs as a program that starts from its head, for `kernel.cone`.

The planner orders the literals, as it does for re-derivation; the linker's writer lays them out.
Where no index of the plan serves a literal, the program asks for a chain over the relation's
rows instead, so that asking needs no index that maintenance does not. Invariant: writing the
same plan twice gives the same program.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deltafix.engine.codes import Codes
from deltafix.engine.link import Linked, Writer
from deltafix.facts.values import BaseType
from deltafix.kernel import cone_layout as shape
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Words
from deltafix.plan.clause import Argument, Clause, Match, Slot
from deltafix.plan.depend import Layer
from deltafix.plan.ir import HEAD, Candidate, Stage, Variant
from deltafix.plan.order import Indexes, variant


@dataclass(frozen=True, slots=True)
class Chain:
    """An index that the plan does not keep: rows of `relation` by `columns`."""

    relation: str
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HeadProgram:
    """The words; clauses, their variables and the chains they ask for, by clause number."""

    words: Words
    clauses: tuple[Clause, ...]
    slots: tuple[tuple[Slot, ...], ...]
    asks: tuple[frozenset[int], ...]
    chains: tuple[Chain, ...]

    @property
    def has_leaves(self) -> bool:
        """Whether rows may need no premise without being given: facts of the text."""
        return any(not clause.body for clause in self.clauses)

    def reach(self, relation: str) -> set[int]:
        """The chains that the clauses of a relation, and of what those read, ask for."""
        chains: set[int] = set()
        seen = {relation}
        pending = [relation]
        while pending:
            name = pending.pop()
            for clause, asks in zip(self.clauses, self.asks, strict=True):
                if clause.head == name:
                    chains |= asks
                    read = {part.relation for part in clause.body if isinstance(part, Match)}
                    pending += read - seen
                    seen |= read
        return chains


def clauses_of(stage: Stage) -> Iterator[Clause]:
    """The clauses of a stratum, each once, in the order of the text."""
    if stage.outside is not None:
        yield from stage.outside.layer.clauses
        return
    yield from sorted(stage.clauses, key=lambda clause: clause.rule)


def head_program(linked: Linked, codes: Codes) -> HeadProgram:
    """Write the program. Linear in the plan."""
    return _HeadWriter(linked, codes).write()


class _HeadWriter(Writer):
    def __init__(self, linked: Linked, codes: Codes) -> None:
        super().__init__(linked.plan, linked.tables, codes)
        self.last = linked.rule_counts - 1
        self.chains: list[Chain] = []
        self.clauses: list[Clause] = []
        self.known: list[tuple[Slot, ...]] = []
        self.asks: list[frozenset[int]] = []
        self.chained: set[int] = set()

    def write(self) -> HeadProgram:
        self.put([0])
        indexes = Indexes({name: list(columns) for name, columns in self.plan.indexes.items()})
        by_head: dict[str, list[int]] = {relation.name: [] for relation in self.plan.relations}
        for stage in self.plan.stages:
            clauses = tuple(clauses_of(stage)) if stage.outside is None else ()
            layer = Layer(stage.relations, clauses, stage.recursive)
            for clause in clauses:
                # The search asks Python for no value: those of the clause's functors are known.
                from_head = variant(layer, clause, HEAD, indexes, turns=False)
                by_head[clause.head].append(self.clause(stage, from_head))
        # By the numbers of relations: their places in the plan are others once rules were edited.
        lists = [self.put([0])] * len(self.tables.numbers)
        for name, starts in by_head.items():
            lists[self.tables.numbers[name]] = self.put([len(starts), *starts])
        self.out[0] = self.put(lists)
        return HeadProgram(
            self.whole(),
            tuple(self.clauses),
            tuple(self.known),
            tuple(self.asks),
            tuple(self.chains),
        )

    def whole(self) -> Words:
        """What was written."""
        words, first = np.array(self.out, dtype=np.int32), self.tables.first_indexes()
        words[[*self.indexed]] += np.array([first[n] for n in self.indexed.values()], np.int32)
        return words

    def clause(self, stage: Stage, variant: Variant) -> int:
        """A variant record and, behind it, what only the search wants to know."""
        self.chained.clear()
        start = self.variant(stage, variant)
        if variant.clause.rule < 0:
            self.out[start + at.V_RULE] = self.last
        moved = self.put(self.out[start : start + at.VSZ])
        self.put([len(self.clauses), len(variant.slots), int(bool(variant.clause.body))])
        self.clauses.append(variant.clause)
        self.known.append(variant.slots)
        self.asks.append(frozenset(self.chained))
        return moved

    def unread_of(self, clause: Clause) -> Collection[Argument]:
        """None: a derivation says what all of its variables are."""
        return ()

    def raw_of(self, variant: Variant) -> Mapping[Argument, BaseType]:
        """None: a derivation says all of them as codes."""
        return {}

    def needed(self, variant: Variant) -> tuple[int, int]:
        """None: the search looks at no filter, and has chains in place of some indexes."""
        return self.put([]), 0

    def candidate(self, option: Candidate, starts: Sequence[int]) -> int:
        """A candidate record with its literal; a chain where the plan has no such index."""
        way = option.way
        name, arity = way.match.relation, len(way.match.args)
        chained = 0 < len(way.by) < arity and way.by not in self.plan.indexes[name]
        chain = -1
        if chained:
            wanted = Chain(name, way.by)
            if wanted not in self.chains:
                self.chains.append(wanted)
            chain = self.chains.index(wanted)
            self.chained.add(chain)
            # Rows of one chain share a hash, not a key: the key's columns are tested too.
            tests = tuple(
                (column, key, False) for column, key in zip(way.by, way.keys, strict=True)
            )
            scan = way._replace(by=(), binds=(*tests, *way.binds))
            start = super().candidate(option._replace(way=scan), starts)
            self.out[start + at.K_METHOD] = shape.BY_CHAIN
        else:
            start = super().candidate(option, starts)
        moved = self.put(self.out[start : start + at.KSZ])
        if start + at.K_INDEX in self.indexed:
            self.indexed[moved + at.K_INDEX] = self.indexed[start + at.K_INDEX]
        self.put([way.literal, chain])
        return moved
