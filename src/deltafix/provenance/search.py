"""The search for derivations over one database: `kernel.cone` with names, rows and state.

A `Searcher` belongs to one database and one program; it grows its arrays as questions need, and
rebuilds chains when the state has moved on. Invariant: the caller holds the writer's lock, so no
epoch runs meanwhile; `mask` says which state is asked about: the committed one (WAS) or, inside
a trial epoch, the working one (NOW). What a derivation says to people is `proof`'s business.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from deltafix.engine.store import relation_cell
from deltafix.kernel import cone_layout as shape
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Cells, Words
from deltafix.kernel.entries import begin, chain_rows, expand_one, search
from deltafix.plan.clause import Clause, Slot
from deltafix.provenance.nodes import Fact
from deltafix.provenance.program import HeadProgram, head_program

if TYPE_CHECKING:
    from deltafix.engine.database import Database

_FIRST_NODES = 1 << 12
_SEARCHERS: WeakKeyDictionary[Database, Searcher] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Derivation:
    """One instance of a clause.

    Attributes:
        clause: the clause.
        body: the fact of each positive literal, by the literal's position in the clause.
        codes: the code of each variable.
    """

    clause: Clause
    body: dict[int, Fact]
    codes: dict[Slot, int]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to: the derivation chosen per fact (None: given).

    `smallest` is False where the search gave up before it could rule a smaller proof out.
    """

    chosen: dict[Fact, Derivation | None]
    height: int
    smallest: bool


def searcher_of(db: Database) -> Searcher:
    """The searcher of a database; made at the first question, and again when rules change."""
    searcher = _SEARCHERS.get(db)
    if searcher is None or searcher.linked is not db.instance.linked:
        searcher = _SEARCHERS[db] = Searcher(db)
    return searcher


class Searcher:
    """Arrays and program of the search over one database."""

    def __init__(self, db: Database) -> None:
        instance = db.instance
        self.linked, self.arena = instance.linked, instance.arena
        self.program: HeadProgram = head_program(self.linked, instance.codes)
        self.names = {number: name for name, number in self.linked.ids.items()}
        self.types = {relation.name: relation.types for relation in db.plan.relations}
        self.work = 0
        self._header: Cells = np.zeros(shape.WSIZE, np.int64)
        self._state: object = None
        self._chains: Cells = np.zeros(0, np.int64)
        self._built: set[int] = set()
        self._reached: dict[int, frozenset[int]] = {}
        self._grow(_FIRST_NODES)

    def smallest(self, goal: Fact, state: object, mask: int, work: int, steps: int) -> Found | None:
        """A proof of least height, of few steps among those met; None if there is none.

        Args:
            goal: a row whose flags include `mask`.
            state: names the state asked about; chains are rebuilt when it changes.
            mask: `layout.WAS` or `layout.NOW`.
            work: rows and derivations to look at before any proof by rank is taken instead.
            steps: how many facts the proof may have (a KeyError tells that it has more).
        """
        self._prepare(goal, state, mask)
        outcome = self._run(goal, mask, work, ranked=False)
        self.work = int(self._header[shape.W_WORK])
        unproved = self._nodes[shape.N_HEIGHT] >= shape.UNPROVED
        if outcome == shape.TIRED and unproved:
            self._run(goal, mask, 1 << 60, ranked=True)
            self.work += int(self._header[shape.W_WORK])
        height = int(self._nodes[shape.N_HEIGHT])
        if height >= shape.UNPROVED:
            return None
        return Found(self._chosen(goal, steps), height, outcome != shape.TIRED)

    def derivations(
        self, goal: Fact, state: object, mask: int, *, ranked: bool = False
    ) -> list[Derivation]:
        """Every derivation of a fact over the facts of the state, but for those from itself.

        `ranked`: only the one whose body has the lowest ranks, all below the fact's.
        """
        self._prepare(goal, state, mask)
        self._run(goal, mask, 0, ranked=ranked, only=True)
        self.work = int(self._header[shape.W_WORK])
        end = int(self._header[shape.W_RECORDS])
        derivations, offset = [], 0
        while offset < end:
            derivations.append(self._derivation(offset))
            body, slots = self._records[offset + shape.R_BODY : offset + shape.R_SLOTS + 1].tolist()
            offset += shape.RECORD + body * shape.USE + slots
        return derivations

    def is_given(self, fact: Fact) -> bool:
        """Whether a row is given, as every row of a relation without rules is."""
        if not relation_cell(self.arena, fact >> 32, at.R_RULES):
            return True
        return bool(self._word(fact) & at.GIVEN)

    def codes(self, fact: Fact) -> Words:
        """The column codes of a fact (arity,)."""
        start = self._start(fact) + at.COLS
        arity = relation_cell(self.arena, fact >> 32, at.R_ARITY)
        return self.arena.words[start : start + arity]

    def support(self, fact: Fact) -> int:
        """The derivations that hold a fact up: in a recursive stratum those of lower rank. O(1)."""
        return int(self.arena.words[self._start(fact) + at.SUPPORT])

    # --- the arrays ---------------------------------------------------------------------------

    def _word(self, fact: Fact) -> int:
        return int(self.arena.cells[self._start(fact) // 2])

    def _start(self, fact: Fact) -> int:
        """The word where a fact's record begins."""
        relation, row = fact >> 32, fact & 0xFFFFFFFF
        stride = relation_cell(self.arena, relation, at.R_STRIDE)
        return relation_cell(self.arena, relation, at.R_ROWS) + row * stride

    def _grow(self, nodes: int) -> None:
        self._nodes: Cells = np.zeros(nodes * shape.NODE, np.int64)
        self._records: Cells = np.zeros(nodes * 32, np.int64)
        self._table: Cells = np.full(nodes * shape.HSIZE, -1, np.int64)
        self._header[:] = 0

    def _run(self, goal: Fact, mask: int, work: int, *, ranked: bool, only: bool = False) -> int:
        header, arena = self._header, self.arena
        while True:
            header[shape.W_MASK], header[shape.W_RANKED] = mask, int(ranked)
            header[shape.W_SLACK] = int(self.program.has_leaves)
            begin(arena.words, arena.cells, header, self._nodes, self._table, goal)
            run: Any = expand_one if only else search
            outcome = run(
                arena.words, arena.cells, self.program.words, self._chains,
                header, self._nodes, self._records, self._table, *(() if only else (work,)),
            )  # fmt: skip
            if outcome != shape.FULL:
                return int(outcome)
            self._grow(len(self._nodes) // shape.NODE * 4)

    def _prepare(self, goal: Fact, state: object, mask: int) -> None:
        """Build, over this state, the chains that the goal's rules need and that are not there.

        O(rows of the relations chained).
        """
        if state != self._state:
            self._state = state
            self._chains = self._room()
            self._built.clear()
        for number in sorted(self._reach(goal >> 32) - self._built):
            relation = self.linked.ids[self.program.chains[number].relation]
            words, cells = self.arena.words, self.arena.cells
            chain_rows(words, cells, self._chains, number, relation, mask)
            self._built.add(number)

    def _room(self) -> Cells:
        """Zeroed room for every chain; pages appear when a chain is built."""
        chains = self.program.chains
        layouts, top = [], len(chains) * shape.X_SIZE
        for chain in chains:
            rows = relation_cell(self.arena, self.linked.ids[chain.relation], at.R_N)
            heads = max(16, rows)
            layouts.append((top, heads, top + heads, top + heads + rows))
            top += heads + rows + 1 + len(chain.columns)
        room = np.zeros(top, np.int64)
        for number, (chain, layout) in enumerate(zip(chains, layouts, strict=True)):
            room[number * shape.X_SIZE : (number + 1) * shape.X_SIZE] = layout
            columns = (len(chain.columns), *chain.columns)
            room[layout[3] : layout[3] + len(columns)] = columns
        return room

    def _reach(self, relation: int) -> frozenset[int]:
        """The chains that explaining a row of this relation may follow."""
        chains = self._reached.get(relation)
        if chains is None:
            name = self.names[relation]
            chains = self._reached[relation] = frozenset(self.program.reach(name))
        return chains

    # --- reading what was found ---------------------------------------------------------------

    def _chosen(self, goal: Fact, steps: int) -> dict[Fact, Derivation | None]:
        chosen: dict[Fact, Derivation | None] = {}
        pending = [(goal, 0)]
        while pending:
            fact, node = pending.pop()
            if fact in chosen:
                continue
            if len(chosen) >= steps:
                raise KeyError(steps)
            record = int(self._nodes[node * shape.NODE + shape.N_BEST])
            if record < 0:
                chosen[fact] = None
                continue
            derivation = chosen[fact] = self._derivation(record)
            for (_, below), part in zip(self._uses(record), derivation.body.values(), strict=True):
                if below >= 0:
                    pending.append((part, below))
                else:
                    chosen[part] = None
        return chosen

    def _uses(self, record: int) -> Iterator[tuple[int, int]]:
        """The (literal, node) pairs of a record, in the order of the body."""
        start = record + shape.RECORD
        count = int(self._records[record + shape.R_BODY])
        uses = self._records[start : start + count * shape.USE].tolist()
        return iter(sorted(zip(uses[1 :: shape.USE], uses[:: shape.USE], strict=True)))

    def _derivation(self, record: int) -> Derivation:
        clause = int(self._records[record + shape.R_CLAUSE])
        slots = self.program.slots[clause]
        start = record + shape.RECORD + int(self._records[record + shape.R_BODY]) * shape.USE
        codes = self._records[start : start + len(slots)].tolist()
        body = {
            literal: int(self._nodes[node * shape.NODE + shape.N_KEY]) if node >= 0 else -1 - node
            for literal, node in self._uses(record)
        }
        return Derivation(self.program.clauses[clause], body, dict(zip(slots, codes, strict=True)))
