"""A transaction: edits in, one epoch, a Delta out.

Life: open (edits go into the arena at once, seen by nobody), then committed or rolled back, then
readable. Invariant: an error in any edit or in the epoch leaves the database as before the
transaction began.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from threading import get_ident
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from deltafix.engine.changes import Changes
from deltafix.engine.coded import CodedRows
from deltafix.engine.codes import FEW
from deltafix.engine.instance import Input
from deltafix.engine.query import semijoin
from deltafix.engine.relation import RelationView
from deltafix.engine.store import changed_since, codes_where, relation_cell
from deltafix.engine.threads import whole
from deltafix.errors import FactError, MissingRowError, TransactionError
from deltafix.facts.delta import Delta
from deltafix.facts.schema import Row, Schema, show_row
from deltafix.facts.typed import R
from deltafix.facts.values import WORD
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Words
from deltafix.kernel.entries import delete_rows, insert_rows, lookup

if TYPE_CHECKING:
    import pyarrow as pa

    from deltafix.engine.database import Database
    from deltafix.engine.rule_edits import RuleEdit
    from deltafix.rules.ast import Program


class Transaction:
    """Made by `Database.transaction`; begins at once. Holds the writer's lock until it ends.

    It is edited and ended by the thread that began it; its delta is read by any.

    Attributes:
        prepared: called with the Delta when the epoch has run and is not seen yet, nor durable;
            what it raises rolls the epoch back. For what must not be, and for sinks that write
            ahead of the commit.
        views: the relations of that Delta; None for all.
        edits_ruled: whether it edits given rows of relations with rules: then what holds says too
            little about what was given, and the epoch's given changes are kept for `Delta.why`.
    """

    # Here, since setting them took an eighth of an empty transaction.
    prepared: Callable[[Delta], None] | None = None
    views: Collection[str] | None = None
    edits_ruled = False
    _changes: Changes | None = None
    _delta: Delta | None = None
    _rule_edits: Sequence[RuleEdit] = ()
    _state = "not begun"
    _opened: Callable[[], Transaction | None] | None = None

    def __init__(self, db: Database, missing: str) -> None:
        if missing not in ("error", "ignore"):
            raise ValueError(f'missing={missing!r}; one of "error", "ignore"')
        self._db = db
        self._missing = missing
        self._thread = get_ident()
        db._begin(self)

    @overload
    def insert(self, relation: RelationView[R], rows: Iterable[R]) -> int: ...

    @overload
    def insert(self, relation: str, rows: Iterable[Row] | Any) -> int: ...

    def insert(self, relation: str | RelationView[Any], rows: Any) -> int:
        """Give rows to a relation; rows given before are no-ops. Returns how many were new.

        Args:
            relation: its name, or a view of it; derived relations take given rows too.
            rows: tuples, dataclass objects with the columns as fields, a pyarrow Table or
                RecordBatch (or anything with `__arrow_c_stream__`), an integer array of shape
                (n, arity), or `coded` rows.

        Raises:
            UnknownRelationError, FactError, TypeMismatchError: nothing was inserted.
        """
        (_, number, has_rules), codes, count = self._encode(relation, rows)
        if count == 0:
            return 0
        if has_rules:
            self.edits_ruled = True
        arena = self._db.instance.arena
        fresh: int = insert_rows(arena.words, arena.cells, codes, number, count)
        return fresh

    def copy(self, relation: str, source: Database, *, given: bool = False) -> int:
        """Insert the rows that a relation of the same declaration has in another database.

        Of its last committed epoch; with `given`, those that were given to it there. O(cells): no
        value is checked again, and each is entered once. Returns how many were new. Raises
        UnknownRelationError, and FactError where the declarations differ.
        """
        self._require_open()
        instance = self._db.instance
        schema, number, has_rules = instance.input(relation)
        theirs = source.instance.schema(relation)
        if schema.show() != theirs.show():
            message = f"{schema.show()} is {theirs.show()} in the other database"
            raise FactError(message, relation=relation)
        values, codes = source.committed(relation, given=given)
        taken = instance.codes.taken(schema, codes, values)
        self.edits_ruled |= has_rules
        arena = instance.arena
        return int(insert_rows(arena.words, arena.cells, taken, number, len(codes)))

    @overload
    def delete(self, relation: RelationView[R], rows: Iterable[R]) -> int: ...

    @overload
    def delete(self, relation: str, rows: Iterable[Row] | Any) -> int: ...

    def delete(self, relation: str | RelationView[Any], rows: Any) -> int:
        """Take given rows from a relation. Returns how many were there.

        A row that is only derived, or absent, is missing: an error, unless the transaction was
        begun with `missing="ignore"`. Arguments as for `insert`.

        Raises:
            MissingRowError: names the first missing row; nothing was deleted.
        """
        (schema, number, has_rules), codes, count = self._encode(relation, rows)
        if count == 0:
            return 0
        if has_rules:
            self.edits_ruled = True
        arena = self._db.instance.arena
        gone: int = delete_rows(arena.words, arena.cells, codes, number, count)
        if gone < count and self._missing == "error":
            before = relation_cell(arena, number, at.R_CHANGED + 1) - gone
            back = changed_since(arena, number, before).reshape(-1)
            insert_rows(arena.words, arena.cells, back, number, gone)
            table = codes.reshape(count, schema.arity)
            for position in range(count):
                row = lookup(arena.words, arena.cells, codes, number, position, at.GIVEN)
                if row < 0:
                    raise self._missing_row(schema, codes, position)
            unique, counts = np.unique(table, axis=0, return_counts=True)
            raise self._missing_row(schema, unique[counts > 1][:1].reshape(-1), 0)
        return gone

    def given(self, relation: str, rows: Iterable[Row] | Any) -> np.ndarray[Any, Any]:
        """Which of the rows are given, the transaction's edits included: bools, in their order.

        Arguments and errors as for `insert`. O(rows).
        """
        (_, number, _), codes, count = self._encode(relation, rows)
        arena = self._db.instance.arena
        given = (
            lookup(arena.words, arena.cells, codes, number, position, at.GIVEN) >= 0
            for position in range(count)
        )
        return np.fromiter(given, dtype=np.bool_, count=count)

    def coded(self, relation: str, rows: Any) -> CodedRows:
        """Check rows and turn them into codes once, for several calls. O(cells).

        Arguments as for `insert`.

        `where(mask)` chooses among the rows. Raises as `insert` does.
        """
        (schema, _, _), codes, count = self._encode(relation, rows)
        if count <= FEW:  # it may be the array of the next few rows, too
            codes = codes.copy()
        return CodedRows(schema, codes.reshape(count, schema.arity), self._db.instance.codes)

    def given_rows(self, relation: str, keys: Any | None = None) -> pa.Table:
        """The given rows of an input relation as an Arrow table, the transaction's edits included.

        With `keys`, a table with some of its columns and no row twice, only rows that are equal to
        one of its rows there (a semijoin). O(rows found) where the rules index these columns and
        keys are few; else one pass over the relation.

        Raises UnknownRelationError, FactError (a relation with rules, or keys that are none of it).
        """
        self._require_open()
        instance = self._db.instance
        schema = instance.schema(relation)
        instance.require_unruled(schema)
        if keys is None:
            codes = codes_where(instance.arena, instance.linked.ids[relation], at.GIVEN)
            return instance.codes.table(schema, codes)
        from deltafix.facts.arrow import check_table  # noqa: PLC0415

        columns = [c for c, name in enumerate(schema.names) if name in keys.column_names]
        part = Schema(relation, tuple(schema.columns[c] for c in columns))
        wanted = instance.codes.encode_table(part, check_table(part, keys, encoded=True))
        wanted = wanted.reshape(keys.num_rows, len(columns))
        codes = semijoin(instance.arena, instance.linked, relation, columns, wanted)
        return instance.codes.table(schema, codes)

    def add_rule(self, text: str) -> RuleEdit:
        """Add rules and subsumptions, as text; declarations of what is new may stand with them.

        They take effect at the commit, which costs what they derive and what follows from that
        (see `engine.rule_edits`); rules that are there already are no-ops. Returns what
        `remove_rule` and `replace_rule` take in place of the text. Raises ProgramError with
        positions in `text`.
        """
        return self._edit_rules(text, adds=True)

    def remove_rule(self, rule: str | RuleEdit) -> None:
        """Remove rules and subsumptions: as text, by the name of one, or what `add_rule` gave.

        Names of variables and the order of a body need not be those of the rule that is there.
        Raises ProgramError for text that is no rule and no name of one, FactError for declarations,
        which stay; the commit raises FactError for a rule that is not there.
        """
        self._edit_rules(rule, adds=False)

    def replace_rule(self, rule: str | RuleEdit, text: str) -> RuleEdit:
        """Remove some rules and add others. Takes, returns and raises what the two calls do."""
        added = self._read_rules(text, adds=True)
        self.remove_rule(rule)
        self._rule_edits = (*self._rule_edits, added)
        return added

    def change_program(
        self,
        program: str | Program,
        functors: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
    ) -> None:
        """Have another program from the commit on, for what the difference of the rules costs.

        Relations of both have the same columns; given rows of one that the new program does not
        have must be deleted. `functors` are the functions behind those `@name`s that the program
        before does not declare. Raises ProgramError; the commit raises FactError for columns and
        types that differ, UnknownRelationError for given rows without a relation, FunctorError.
        """
        from deltafix.engine.rule_edits import RuleEdit  # noqa: PLC0415  the parser

        self._require_open()
        if isinstance(program, str):
            from deltafix.datalog.program import Program as Text  # noqa: PLC0415

            program = Text.parse(program)
        edit = RuleEdit(True, program, "", whole=True, functors=functors)
        self._rule_edits = (*self._rule_edits, edit)

    def _edit_rules(self, rule: str | RuleEdit, *, adds: bool) -> RuleEdit:
        edit = self._read_rules(rule, adds=adds)
        self._rule_edits = (*self._rule_edits, edit)
        return edit

    def _read_rules(self, rule: str | RuleEdit, *, adds: bool) -> RuleEdit:
        from deltafix.engine.rule_edits import edited_rules  # noqa: PLC0415  the parser

        self._require_open()
        return edited_rules(self._db.program, self._rule_edits, rule, adds=adds)

    def commit(self) -> Delta:
        """Run the epoch and return what changed. On an error everything is rolled back first."""
        self._commit()
        return self.delta

    def rollback(self) -> None:
        """Forget the edits; the database is as before, whatever interrupts this."""
        self._require_open()
        self._settle()

    @property
    def delta(self) -> Delta:
        """What the committed transaction changed, in every relation, net."""
        if self._delta is None:
            self._delta = self._committed().delta()
        return self._delta

    def take_back(self, done: Transaction, relations: Collection[str]) -> None:
        """Edit back what a committed transaction of this database changed in given rows.

        Of input relations, whose rows nobody has edited since. O(rows changed).
        """
        for name, (removed, added) in done._committed().coded().items():
            if name in relations:
                self.delete(name, self._db.recoded(added))
                self.insert(name, self._db.recoded(removed))

    def _committed(self) -> Changes:
        if self._changes is None:
            raise TransactionError(f"the transaction is {self._state}; a delta comes with commit")
        return self._changes

    @property
    def is_own(self) -> bool:
        """Whether the thread that asks began it."""
        return self._thread == get_ident()

    @property
    def is_committed(self) -> bool:
        """Whether its epoch has become the database's."""
        return self._state == "committed"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._state == "open":
                self._commit()
        finally:
            if self._state == "open":
                self.rollback()

    def __del__(self) -> None:
        # A transaction that is dropped while open must not keep others out.
        if getattr(self, "_state", None) == "open":
            if self.is_own:
                self.rollback()
            else:  # a cycle, which was found elsewhere
                self._db._dropped = self

    def _commit(self) -> None:
        self._require_open()
        db = self._db
        try:
            if self._rule_edits:
                db._commit_rules(self, self._rule_edits)
            else:
                db._commit(self)
            self._state = "committed"
            self._end()
        except BaseException as error:
            if self._state == "open":
                self._settle()
            elif isinstance(error, KeyboardInterrupt):
                self._end()
            raise

    def _settle(self) -> None:
        """End the open transaction as the kernel has; an interrupt is raised behind that."""
        interrupted = None
        while True:
            try:
                if self._state == "open":
                    self._follow_whole()
                self._end()
                break
            except KeyboardInterrupt as error:  # what it broke off is done again
                interrupted = error
            except BaseException:
                if self._state != "open":
                    self._db._end(self)
                raise
        if interrupted is not None:
            raise interrupted

    def _follow_whole(self) -> None:
        try:
            whole(self._follow_kernel)
        except RuntimeError:
            if self._state != "open":
                raise
            self._follow_kernel()  # Python ends, and has no threads any more

    def _follow_kernel(self) -> None:
        """Behind its commit the epoch stands, and all else is to follow; else all is undone."""
        db = self._db
        if db._stands:
            with db.instance.gate:
                db._stand(self)
            self._state = "committed"
        else:
            self._state = "rolled back"
            db._rollback()

    def _end(self) -> None:
        db = self._db
        if not (db._watchers.all and db._is_noticed and self.is_committed):
            db._end(self)
            return
        # Other threads' epochs wait until this one is told of: watchers hear them in order.
        with db.writer:
            db._end(self)
            db._watchers.committed(self)

    def _require_open(self) -> None:
        if self._state != "open":
            raise TransactionError(f"the transaction is {self._state} already")
        if self._thread != get_ident():
            raise TransactionError("the transaction belongs to the thread that began it")

    def _encode(
        self, relation: str | RelationView[Any], rows: Iterable[Row] | Any
    ) -> tuple[Input, Words, int]:
        self._require_open()
        instance = self._db.instance
        to = instance.inputs.get(relation) if type(relation) is str else None
        if to is None:
            to = instance.input(relation.name if isinstance(relation, RelationView) else relation)
        schema = to[0]
        if type(rows) is list and len(rows) <= FEW:
            codes = instance.codes.encode_few(schema, rows)
            if codes is not None:
                return to, codes, len(rows)
        if isinstance(rows, CodedRows):
            return to, rows.flat(schema, instance.codes), len(rows)
        if isinstance(rows, np.ndarray):
            return to, self._encode_array(schema, rows), len(rows)
        if not isinstance(rows, list | tuple | set | frozenset):
            from deltafix.facts.arrow import check_table, is_tabular  # noqa: PLC0415

            if is_tabular(rows):
                table = check_table(schema, rows, encoded=True)
                return to, instance.codes.encode_table(schema, table), table.num_rows
        checked = schema.check_rows(rows)
        return to, instance.codes.encode_rows(schema, checked), len(checked)

    def _encode_array(self, schema: Schema, rows: Any) -> Words:
        instance = self._db.instance
        whole = all(kind in ("number", "unsigned") for kind in schema.types)
        signed = rows.dtype.kind == "i" and "unsigned" not in schema.types
        signed = signed and all(column.bits == WORD for column in schema.columns)
        if whole and signed and rows.ndim == 2 and rows.shape[1] == schema.arity:
            return instance.codes.encode_array(schema, rows)
        from deltafix.facts.arrow import check_array  # noqa: PLC0415

        table = check_array(schema, rows)
        return instance.codes.encode_table(schema, table)

    def _missing_row(self, schema: Schema, codes: Words, position: int) -> MissingRowError:
        width = schema.arity
        instance = self._db.instance
        row = instance.codes.rows(
            schema, codes[position * width : (position + 1) * width].reshape(1, width)
        )[0]
        message = f"cannot delete {show_row(schema.relation, row)}: it is not a given row"
        if schema.relation in instance.ruled:
            message += "; what follows from rules goes with what it follows from"
        error = MissingRowError(message)
        # A note, since what is said at a prompt or over HTTP has neither calls nor parameters.
        error.add_note(
            f"It is row {position} of this call, which deleted nothing; in a transaction with "
            'missing="ignore" such rows are left out.'
        )
        return error
