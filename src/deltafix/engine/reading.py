"""Reading a database: relations, patterns, figures; the part of a Database that changes nothing.

Invariant: what is read is the last committed epoch, also while a writer works in another thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import EllipsisType, MappingProxyType
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from deltafix.engine.coded import CodedRows
from deltafix.engine.codes import Codes
from deltafix.engine.instance import Instance
from deltafix.engine.query import Probe, of_keys, select, semijoin
from deltafix.engine.questions import Questions
from deltafix.engine.relation import RelationView
from deltafix.engine.store import codes_where, relation_cell
from deltafix.errors import FactError, TransactionError
from deltafix.events import EpochReport
from deltafix.facts.ordered import OrderedRows
from deltafix.facts.schema import Row, Schema
from deltafix.facts.typed import R
from deltafix.facts.values import Value, shown
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Words
from deltafix.plan.ir import Plan
from deltafix.rules.ast import Program

if TYPE_CHECKING:
    import pyarrow as pa

_KEY = (tuple, list)


class Reading(Questions):
    """What can be asked of a database; `Database` sets the attributes."""

    instance: Instance
    epoch: int
    closed: bool
    writer: threading.RLock
    """Held by a transaction, and by who reads several things of one epoch."""
    _seconds: float

    @property
    def program(self) -> Program:
        """The program, with its edits of rules."""
        return self.instance.program

    @property
    def plan(self) -> Plan:
        """What the engine runs for it."""
        return self.instance.plan

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """The relations that can be read, by name."""
        return self.instance.schemas

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
        values, codes = self.committed(relation)
        return CodedRows(self.instance.schema(relation), codes, values)

    def recoded(self, rows: CodedRows) -> CodedRows:
        """Rows of another database, or from before a `compact`, in the codes of this one.

        O(cells), or O(1) where they are its own.
        """
        with self.writer:
            values = self.instance.codes
            if rows.tables is values:
                return rows
            codes = values.taken(rows.schema, rows.codes, rows.tables)
        return CodedRows(rows.schema, codes.reshape(rows.codes.shape), values)

    def ordered(self, relation: str) -> OrderedRows[Value]:
        """The same by column: for what is to be written, or is much."""
        values, codes = self.committed(relation)
        return values.ordered(self.instance.schema(relation), codes)

    def count(self, relation: str) -> int:
        """How many rows a relation has in the last committed epoch. O(1)."""
        self.instance.schema(relation)
        self.settle()
        with self.instance.gate:  # a commit that is under way has told some of its rows
            instance = self.instance
            return relation_cell(instance.arena, instance.number(relation), at.R_WAS)

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
        schema, (values, codes) = self.instance.schema(relation), self.committed(relation)
        if columns is not None:
            indices = schema.places(columns)
            schema = Schema(relation, tuple(schema.columns[index] for index in indices))
            codes = codes[:, indices]
        return values.table(schema, codes)

    def batches(self, relation: str, size: int) -> Iterator[pa.RecordBatch]:
        """What `RelationView.batches` gives."""
        if size < 1:
            raise FactError(
                f"a batch has at least 1 row, not {size}", relation=relation, value=size
            )
        self.settle()
        instance, epoch = self.instance, self.epoch
        schema = instance.schema(relation)
        start = 0
        while True:
            with instance.gate:
                if self.instance is not instance or self.epoch != epoch:
                    message = f"{schema.show()}: read in batches of epoch {epoch}, after which"
                    raise TransactionError(f"{message} epoch {self.epoch} was committed")
                number = instance.number(relation)
                codes = codes_where(instance.arena, number, at.WAS, start, size)
                is_last = start + size >= relation_cell(instance.arena, number, at.R_N)
            start += size
            if len(codes):
                yield from instance.codes.table(schema, codes).to_batches()
            if is_last:
                return

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
        schema = self.instance.schema(relation)
        self.settle()
        wanted = schema.as_row(pattern)
        taken: list[bool] = []
        try:
            # One call, behind which an interrupt finds it noted.
            taken.extend(map(self.writer.acquire, (False,)))
            with self.instance.gate:
                instance = self.instance
                instance.number(relation)
                values = instance.codes
                arena, linked = instance.arena, instance.linked
                codes = select(arena, linked, values, schema, wanted, alone=taken[0])
        finally:
            if taken == [True]:
                self.writer.release()
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
        self.instance.schema(relation)
        self.settle()
        with self.writer:
            instance = self.instance
            by = instance.by_key(relation, tuple(columns))
            self._require_no_edits()
            schema, codes = by.schema, instance.codes
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
            arena, linked = instance.arena, instance.linked
            groups = of_keys(arena, linked, relation, by.positions, coded)
            if groups is None:
                wanted = np.array(list(coded), np.int32)
                groups = [semijoin(arena, linked, relation, by.positions, wanted)]
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
        schema = self.instance.schema(relation)
        self.settle()
        with self.writer:
            self._require_no_edits()
            instance = self.instance
            codes = semijoin(instance.arena, instance.linked, relation, places, keys)
            return CodedRows(schema, codes, instance.codes)

    def _require_no_edits(self) -> None:
        """Raise TransactionError if this thread has a transaction open."""
        raise NotImplementedError

    def contains(self, relation: str, row: object) -> bool:
        """Whether a row is in a relation in the last committed epoch. O(1).

        Raises UnknownRelationError, FactError for what is no row, TypeMismatchError.
        """
        return bool(self.select(relation, self.instance.schema(relation).as_row(row)))

    @contextmanager
    def probing(self) -> Iterator[Probe]:
        """Point reads of the last committed epoch, in codes, for as long as the block lasts.

        Waits for a transaction of another thread, and others wait for it.
        """
        self.settle()
        with self.writer:
            yield self.instance.probe

    @property
    def last_epoch(self) -> EpochReport:
        """The work of the last committed epoch. Waits for a transaction of another thread."""
        with self.writer:
            return self._reported()

    def _reported(self) -> EpochReport:
        instance = self.instance
        cells = instance.arena.cells
        start = int(cells[at.RULE_COUNTS])
        counts = cells[start : start + instance.linked.rule_counts].tolist()
        strata = int(cells[at.C_STRATA])
        stages = self.plan.stages
        timed = instance.run.strata.items()
        return EpochReport(
            epoch=self.epoch,
            derivations=int(cells[at.C_DERIVATIONS]),
            retracted=int(cells[at.C_RETRACTED]),
            revived=int(cells[at.C_REVIVED]),
            reranked=int(cells[at.C_RERANKED]),
            abandoned=int(cells[at.C_ABANDONED]),
            taken=int(cells[at.C_TAKEN]),
            changed=int(cells[at.N_CHANGED]),
            probed=int(cells[at.C_PROBED]),
            strata_run=strata,
            strata_skipped=instance.ran - strata,
            recomputed=instance.recomputed,
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

        with self.writer:
            return memory(self.instance.arena, self.instance.linked)

    def check_invariants(self) -> None:
        """Check the contract on the whole state (design: Maintenance). For tests; O(state).

        Waits for a transaction of another thread. Raises InternalError naming the first row that
        breaks it; what `settle` raises.
        """
        self.settle()
        from deltafix.engine.invariants import check_invariants  # noqa: PLC0415

        with self.writer:
            check_invariants(self.instance.arena, self.instance.linked)
            self.instance.strata.check_invariants()

    def committed(self, relation: str, *, given: bool = False) -> tuple[Codes, Words]:
        """The codes (n, arity) of its rows, or of those that are given, and what they stand for.

        Both of one moment: `compact` of another thread gives values other codes. Raises
        UnknownRelationError.
        """
        self.settle()
        with self.instance.gate:
            instance = self.instance
            number = instance.number(relation)
            if given:
                codes = codes_where(instance.arena, instance.linked.given(relation), at.GIVEN)
            else:
                codes = codes_where(instance.arena, number, at.WAS)
            return instance.codes, codes
