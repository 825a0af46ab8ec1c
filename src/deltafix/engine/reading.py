"""Reading a database: relations, patterns, figures; the part of a Database that changes nothing.

Invariant: what is read is the last committed epoch, also while a writer works in another thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import EllipsisType, MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from deltafix.engine.coded import CodedRows
from deltafix.engine.codes import Codes
from deltafix.engine.link import Linked
from deltafix.engine.query import Probe, of_keys, select, semijoin
from deltafix.engine.questions import Questions
from deltafix.engine.relation import RelationView
from deltafix.engine.run import Run
from deltafix.engine.stages import Strata
from deltafix.engine.store import codes_where, relation_cell
from deltafix.errors import FactError, UnknownRelationError
from deltafix.events import EpochReport
from deltafix.facts.ordered import OrderedRows
from deltafix.facts.schema import Column, Row, Schema, unknown_relation
from deltafix.facts.typed import R
from deltafix.facts.values import Value, shown
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Words
from deltafix.plan.ir import Plan
from deltafix.rules.ast import Program

if TYPE_CHECKING:
    import pyarrow as pa

_KEY = (tuple, list)
_WAYS = 256
"""So many lists of columns are remembered by which rows are found before all are forgotten."""


class _ByKey(NamedTuple):
    """Columns of a relation by which rows are found.

    `checked` has each with its position in a key, in the order of their `positions` in the
    relation.
    """

    schema: Schema
    checked: list[tuple[Column, int]]
    positions: tuple[int, ...]


class Reading(Questions):
    """What can be asked of a database; `Database` sets the attributes."""

    program: Program
    plan: Plan
    schemas: Mapping[str, Schema]
    epoch: int
    _arena: Arena
    _linked: Linked
    _ruled: frozenset[str]
    _codes: Codes
    _strata: Strata
    _run: Run
    _seconds: float
    _ran: int
    _recomputed: tuple[str, ...]
    _probe: Probe | None = None
    _keys: dict[tuple[str, ...], _ByKey]
    _gate: threading.Lock
    _writer: threading.RLock

    def settle(self) -> None:
        """Run the first epoch, on the rows at hand, if it has not run yet.

        `connect` leaves it to the first commit where inputs can bound what is derived; whoever
        reads before that calls this. Raises what a commit raises, and TransactionError within the
        first transaction, before which nothing holds.
        """
        raise NotImplementedError

    def rows(self, relation: str) -> list[Row]:
        """The rows of a relation in the last committed epoch, sorted."""
        return self.coded(relation).in_order()

    def coded(self, relation: str) -> CodedRows:
        """The same as codes, in no order. O(rows), a copy of their codes."""
        values, codes = self._committed(relation)
        return CodedRows(self._schema(relation), codes, values)

    def recoded(self, rows: CodedRows) -> CodedRows:
        """Rows of another database, or from before a `compact`, in the codes of this one.

        O(cells), or O(1) where they are its own.
        """
        with self._writer:
            values = self._codes
            if rows.tables is values:
                return rows
            codes = values.taken(rows.schema, rows.codes, rows.tables)
        return CodedRows(rows.schema, codes.reshape(rows.codes.shape), values)

    def ordered(self, relation: str) -> OrderedRows[Value]:
        """The same by column: for what is to be written, or is much."""
        values, codes = self._committed(relation)
        return values.ordered(self._schema(relation), codes)

    def count(self, relation: str) -> int:
        """How many rows a relation has in the last committed epoch. O(1)."""
        self._schema(relation)
        self.settle()
        with self._gate:  # a commit that is under way has told some of its rows
            return relation_cell(self._arena, self._number(relation), at.R_WAS)

    @overload
    def relation(self, name: str) -> RelationView[Row]: ...

    @overload
    def relation(self, name: str, cls: type[R]) -> RelationView[R]: ...

    def relation(self, name: str, cls: Any = None) -> RelationView[Any]:
        """A relation to look at: rows by pages, in notebooks, or through Arrow's stream protocol.

        Args:
            name: its name.
            cls: what its rows are to be, a NamedTuple or a dataclass whose fields are the columns:
                the same names in the same order, of types that have the columns' values.

        Raises:
            UnknownRelationError: the program declares no such relation.
            TypeMismatchError: the class does not fit; names the first field that does not.
        """
        return RelationView(self, name, cls)

    def to_arrow(self, relation: str, columns: Sequence[str] | None = None) -> pa.Table:
        """A relation, or some of its columns, as an Arrow table, in no particular order.

        Raises UnknownRelationError, FactError for a column that it does not have.
        """
        schema, (values, codes) = self._schema(relation), self._committed(relation)
        if columns is not None:
            indices = schema.places(columns)
            schema = Schema(relation, tuple(schema.columns[index] for index in indices))
            codes = codes[:, indices]
        return values.table(schema, codes)

    def query(self, atom: str) -> list[Row]:
        """Rows that fit an atom with variables: `db.query('path("a", X)')`, sorted.

        `_` fits anything, equal variables equal values. Raises ProgramError for text that is not
        one atom of the program, UnknownRelationError, TypeMismatchError.
        """
        from deltafix.engine.literals import read_query  # noqa: PLC0415  the parser, only here

        query = read_query(atom, self.schemas)
        return query.keep_equal(self.select(query.relation, query.pattern))

    def select(self, relation: str, pattern: Sequence[Value | EllipsisType]) -> list[Row]:
        """Rows whose columns equal the given values, sorted.

        `...` is any value; so is None, but in a column that may hold `nil`. Raises
        UnknownRelationError, FactError for what is no row of values and `...`, TypeMismatchError.

        O(1) for a whole row; O(rows found) where the rules index the given columns; else, and
        while another thread writes, one vectorised pass over the relation.
        """
        return self.coded_like(relation, pattern).in_order()

    def coded_like(self, relation: str, pattern: Sequence[Value | EllipsisType]) -> CodedRows:
        """What `select` finds, as codes, in no order."""
        schema = self._schema(relation)
        self.settle()
        wanted = schema.as_row(pattern)
        alone = self._writer.acquire(blocking=False)
        try:
            with self._gate:
                self._number(relation)
                values = self._codes
                codes = select(self._arena, self._linked, values, schema, wanted, alone=alone)
        finally:
            if alone:
                self._writer.release()
        return CodedRows(schema, codes, values)

    def semijoin(
        self, relation: str, columns: Sequence[str], keys: Iterable[Sequence[Value]]
    ) -> list[Row]:
        """Rows of an input relation whose `columns` are one of the keys, in no order.

        Waits for a transaction of another thread. O(keys + rows found) for whole rows and through
        an index on exactly these columns (`index-on` asks for one); where there is none, or keys
        are many, one vectorised pass over the relation.

        Raises:
            UnknownRelationError: no such relation.
            FactError: a relation with rules, a column that it does not have, or what is no key.
            TypeMismatchError: a value that is none of its column's.
            TransactionError: this thread has a transaction open, whose edits would be seen.
        """
        if relation not in self.schemas:
            self._schema(relation)
        self.settle()
        with self._writer:
            by = self._keys.get((relation, *columns)) or self._by_key(relation, columns)
            self._require_no_edits()
            schema, codes = by.schema, self._codes
            coded: set[tuple[int, ...]] = set()
            for key in keys:
                if not isinstance(key, _KEY) or len(key) != len(by.checked):
                    message = f"{schema.show()}: a key is a tuple of ({', '.join(columns)}), not"
                    raise FactError(f"{message} {shown(key)}", relation=relation, value=key)
                coded_key = tuple([codes.asked(schema, c, key[n]) for c, n in by.checked])
                if None not in coded_key:
                    coded.add(coded_key)  # type: ignore[arg-type]  # none is None
            if not coded:
                return []
            groups = of_keys(self._arena, self._linked, relation, by.positions, coded)
            if groups is None:
                wanted = np.array(list(coded), np.int32)
                groups = [semijoin(self._arena, self._linked, relation, by.positions, wanted)]
        rows: list[Row] = []
        for group in groups:
            if isinstance(group, list):
                rows += codes.few_rows(schema, group)
            else:
                rows += codes.rows(schema, group)
        return rows

    def coded_with(self, relation: str, places: Sequence[int], keys: Words) -> CodedRows:
        """What `semijoin` finds by codes (n, places) of this database, as codes.

        The places ascend; no key stands there twice.
        """
        schema = self._schema(relation)
        self.settle()
        with self._writer:
            self._require_no_edits()
            codes = semijoin(self._arena, self._linked, relation, places, keys)
            return CodedRows(schema, codes, self._codes)

    def _by_key(self, relation: str, columns: Sequence[str]) -> _ByKey:
        """What a semijoin by some columns needs to know, remembered. Raises as `semijoin` does."""
        schema = self._schema(relation)
        positions = schema.places(columns)
        self._require_unruled(schema)
        order = sorted(range(len(positions)), key=positions.__getitem__)
        checked = [(schema.columns[positions[n]], n) for n in order]
        by_key = _ByKey(schema, checked, tuple(sorted(positions)))
        if len(self._keys) >= _WAYS:
            self._keys.clear()
        self._keys[relation, *columns] = by_key
        return by_key

    def _require_no_edits(self) -> None:
        """Raise TransactionError if this thread has a transaction open."""
        raise NotImplementedError

    def _require_unruled(self, schema: Schema) -> None:
        """Raise FactError for a relation that not only inputs feed."""
        name = schema.relation
        if name in self._ruled or self._linked.given(name) != self._linked.ids[name]:
            message = f"{schema.show()} has rules; this is of relations that only inputs feed"
            raise FactError(message, relation=name)

    def contains(self, relation: str, row: object) -> bool:
        """Whether a row is in a relation in the last committed epoch. O(1).

        Raises UnknownRelationError, FactError for what is no row, TypeMismatchError.
        """
        return bool(self.select(relation, self._schema(relation).as_row(row)))

    @contextmanager
    def probing(self) -> Iterator[Probe]:
        """Point reads of the last committed epoch, in codes, for as long as the block lasts.

        Waits for a transaction of another thread, and others wait for it.
        """
        self.settle()
        with self._writer:
            if self._probe is None:
                self._probe = Probe(self)
            yield self._probe

    @property
    def last_epoch(self) -> EpochReport:
        """The work of the last committed epoch. Waits for a transaction of another thread."""
        with self._writer:
            return self._reported()

    def _reported(self) -> EpochReport:
        cells = self._arena.cells
        start = int(cells[at.RULE_COUNTS])
        counts = cells[start : start + self._linked.rule_counts].tolist()
        strata = int(cells[at.C_STRATA])
        stages = self.plan.stages
        timed = self._run.strata.items()
        return EpochReport(
            epoch=self.epoch,
            derivations=int(cells[at.C_DERIVATIONS]),
            retracted=int(cells[at.C_RETRACTED]),
            revived=int(cells[at.C_REVIVED]),
            reranked=int(cells[at.C_RERANKED]),
            abandoned=int(cells[at.C_ABANDONED]),
            taken=int(cells[at.C_TAKEN]),
            changed=int(cells[at.DELTA + 1]),
            probed=int(cells[at.C_PROBED]),
            strata_run=strata,
            strata_skipped=self._ran - strata,
            recomputed=self._recomputed,
            seconds=self._seconds,
            rules=MappingProxyType({n: count for n, count in enumerate(counts) if count}),
            strata=MappingProxyType(
                {", ".join(stages[n].relations): t for n, t in timed if n < len(stages)}
            ),
        )

    def memory(self) -> dict[str, dict[str, int]]:
        """Bytes by relation: `rows`, `key` table, every index, their `total`; and the `arena`'s.

        The arena's `taken` bytes are blocks handed out, `reserved` the addresses it may use. Waits
        for a transaction of another thread.
        """
        from deltafix.engine.sizes import memory  # noqa: PLC0415

        with self._writer:
            return memory(self._arena, self._linked)

    def check_invariants(self) -> None:
        """Check the contract on the whole state (design: Maintenance). For tests; O(state).

        Waits for a transaction of another thread. Raises InternalError naming the first row that
        breaks it; what `settle` raises.
        """
        self.settle()
        from deltafix.engine.invariants import check_invariants  # noqa: PLC0415

        with self._writer:
            check_invariants(self._arena, self._linked)
            self._strata.check_invariants()

    def _schema(self, relation: str) -> Schema:
        schema = self.schemas.get(relation)
        if schema is None and any(declared.name == relation for declared in self.program.relations):
            raise UnknownRelationError(
                f"relation {relation!r} is not kept as a whole: it is inline, its rows go into "
                f"aggregates only, or they are computed only where outputs ask for them; "
                f"`.output {relation}` would keep it"
            )
        if schema is None:
            raise unknown_relation(relation, self.schemas)
        return schema

    def _committed(self, relation: str, *, given: bool = False) -> tuple[Codes, Words]:
        """The codes (n, arity) of its rows, or of those that are given, and what they stand for.

        Both of one moment: `compact` of another thread gives values other codes.
        """
        self.settle()
        with self._gate:
            number = self._number(relation)
            if given:
                codes = codes_where(self._arena, self._linked.given(relation), at.GIVEN)
            else:
                codes = codes_where(self._arena, number, at.WAS)
            return self._codes, codes

    def _number(self, relation: str) -> int:
        """Of a relation, within the gate: an edit of rules may just have taken it away."""
        self._schema(relation)
        return self._linked.ids[relation]
