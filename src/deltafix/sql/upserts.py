"""INSERT ... ON CONFLICT, OR REPLACE and OR IGNORE: rows to insert, some of whose keys are there.

Invariant: many rows, as codes, come to what they come to row by row; where one of them is to be
named, or two have one key, they are looked at so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deltafix.engine.coded import CodedRows, distinct, places_among, without_nil
from deltafix.facts.schema import Row
from deltafix.sql.literals import Compute, typed
from deltafix.sql.rows import CodedEdit, Edit, checked, encoded
from deltafix.sql.scalar import EXCLUDED, Scalars, over
from deltafix.sql.scans import Columns, Test, assign
from deltafix.sql.setting import computed, set_positions, sound, where_of
from deltafix.sql.tables import Key, Table
from deltafix.sql.text import Statement, exp
from deltafix.sql.types import decode_rows, row_as_sql
from deltafix.sql.vectors import ByValueError

if TYPE_CHECKING:
    from deltafix.sql.connection import Connection

__all__ = ["Upsert", "conflict_of"]


@dataclass(frozen=True, slots=True)
class Upsert:
    """Rows to insert where those whose key is there are left out, or change the row that has it.

    `nodes` say what the columns at `positions` become, where the `test` holds, and `values` compute
    it: of a row that is there, and behind it the one that was to be inserted.
    """

    table: Table
    keys: Sequence[Key]
    scalars: Scalars
    test: Test | None
    positions: Sequence[int]
    nodes: Sequence[exp.Expr]
    values: Sequence[Compute]

    @classmethod
    def of(cls, statement: Statement, table: Table, conflict: exp.OnConflict) -> Upsert:
        """Read ON CONFLICT. Raises SqlProgrammingError, SqlRefusedError."""
        columns = table.relation.columns
        keys = _conflicting(statement, table, conflict)
        scalars = over(statement, (table.relation.name, columns), (EXCLUDED, columns))
        positions = list(set_positions(statement, conflict, table.relation.name, columns))
        nodes = [
            typed(assignment.expression, columns[position].type)
            for assignment, position in zip(conflict.expressions, positions, strict=True)
        ]
        values = [scalars.compile(node).compute for node in nodes]
        where = where_of(conflict)
        test = None
        if where is not None:
            scalars.truth(where, where)
            test = Test.of(scalars, where)
        return cls(table, keys, scalars, test, positions, nodes, values)

    def edit(
        self, connection: Connection, statement: Statement, given: Edit | CodedEdit
    ) -> Edit | CodedEdit:
        """What comes of rows to insert. Raises SqlIntegrityError, SqlDataError."""
        if isinstance(given, Edit) and isinstance(given.added, list):
            return self._by_row(connection, statement, given.added)
        coded = given if isinstance(given, CodedEdit) else connection.in_codes(given)

        def again() -> Edit:
            return self._by_row(connection, statement, [*coded.by_row_again().added])

        coded_edit = self.in_codes(connection, coded)
        return again() if coded_edit is None else coded_edit._replace(again=again)

    def _by_row(self, connection: Connection, statement: Statement, rows: Sequence[Row]) -> Edit:
        removed, added, replaced = list[Row](), list[Row](), list[Row]()
        seen: set[tuple[Key, tuple[Any, ...]]] = set()
        held = {key: connection.rows_with(self.table, key, map(key.of, rows)) for key in self.keys}
        columns, test = self.table.relation.columns, self.test
        for row in rows:
            mine = [(key, key.of(row)) for key in self.keys if None not in key.of(row)]
            stored = next((held[k][v] for k, v in mine if v in held[k]), None)
            if not seen.isdisjoint(mine):
                if self.positions:
                    shown = row_as_sql(*decode_rows([row], columns))
                    message = f"two rows of the statement have one key; the second is {shown}"
                    raise statement.integrity(message, "insert each key once")
                continue
            if stored is None or self.positions:  # a row that is left out holds no key
                seen.update(mine)
            if stored is None:
                added.append(row)
            elif self.positions:
                both = [*decode_rows([stored], columns)[0], *decode_rows([row], columns)[0]]
                if test is None or computed(statement, test.compute, both) is True:
                    changed = list(stored)
                    for position, compute in zip(self.positions, self.values, strict=True):
                        value = computed(statement, compute, both)
                        changed[position] = encoded(statement, columns[position], value)
                    removed.append(stored)
                    replaced.append(tuple(changed))
                    added.append(replaced[-1])
        return checked(statement, Edit(self.table, removed, added, replaced))

    def in_codes(self, connection: Connection, given: CodedEdit) -> CodedEdit | None:
        """The same of many rows; None if one is to be looked at by itself."""
        table, rows = given.table, given.added
        schema, columns = rows.schema, table.relation.columns
        at, known = np.full(len(rows), -1, np.int64), rows.nothing.codes
        for key in self.keys:
            mine = rows.codes[:, list(key.positions)]
            wanted = without_nil(mine)
            if len(distinct(wanted)) < len(wanted):
                return None
            stored = connection.rows_in_codes(table, key, wanted)
            indexes = places_among(mine, stored.codes[:, list(key.positions)])
            at = np.where((at < 0) & (indexes >= 0), indexes + len(known), at)
            known = np.concatenate([known, stored.codes])
        fresh, matched = rows.codes[at < 0], rows.codes[at >= 0]
        if not self.positions:
            added = CodedRows(schema, fresh, rows.tables)
            return CodedEdit(table, rows.nothing, added)
        old = known[at[at >= 0]]  # no row twice: no key is given twice
        both = [side[:, position] for side in (old, matched) for position in range(len(columns))]
        candidates = Columns((*columns, *columns), both, rows.tables)
        try:
            if self.test is not None and len(old):
                fits = self.test.fits(candidates)
                old, candidates = old[fits], candidates.where(fits)
            changed = old.copy()
            for position, node in zip(self.positions, self.nodes, strict=True) if len(old) else ():
                changed[:, position] = assign(self.scalars, node, columns[position], candidates)
        except (ByValueError, ValueError, ArithmeticError):
            return None
        added = CodedRows(schema, np.concatenate([changed, fresh]), rows.tables)
        return sound(CodedEdit(table, CodedRows(schema, old, rows.tables), added, len(old)))


def conflict_of(
    statement: Statement, node: exp.Insert, table: Table, wanted: Sequence[str]
) -> exp.OnConflict | None:
    """What an INSERT does about rows whose key is there."""
    if node.args.get("alternative"):
        return _alternative(statement, node, table, wanted)
    return node.args.get("conflict")


def _alternative(
    statement: Statement, node: exp.Insert, table: Table, wanted: Sequence[str]
) -> exp.OnConflict:
    """INSERT OR REPLACE and OR IGNORE, as DuckDB has them, as ON CONFLICT of all that is given."""
    word = str(node.args["alternative"]).upper()
    columns = table.relation.columns
    keys = [[columns[position].name for position in key.positions] for key in table.keys]
    action = "DO NOTHING" if word == "IGNORE" else "DO UPDATE SET ..."
    way_out = (
        f"write ON CONFLICT ({', '.join(keys[0]) if keys else 'key'}) {action} behind the rows"
    )
    known = statement.dialect == "duckdb" and word in ("REPLACE", "IGNORE")
    if not known or node.args.get("conflict"):
        raise statement.refused(f"INSERT OR {word}", node.this, way_out)
    if not keys:
        message = f"{table.relation.name} has no key, by which a row would be there already"
        raise statement.wrong(message, node.this, "make it a PRIMARY KEY, or write INSERT INTO")
    if word == "IGNORE":
        return exp.OnConflict(action=exp.var("DO NOTHING"))
    if len(keys) > 1:
        message = f"{table.relation.name} has {len(keys)} keys: which row is replaced?"
        raise statement.wrong(message, node.this, way_out)
    sets = [
        exp.EQ(
            this=exp.column(name, quoted=True), expression=exp.column(name, EXCLUDED, quoted=True)
        )
        for name in wanted
        if name not in keys[0]
    ]
    return exp.OnConflict(action=exp.var("DO UPDATE"), expressions=sets)


def _conflicting(statement: Statement, table: Table, conflict: exp.OnConflict) -> Sequence[Key]:
    """The keys that ON CONFLICT is about."""
    columns = table.relation.columns
    named = [
        key.this.name if isinstance(key, exp.Ordered) else key.name
        for key in conflict.args.get("conflict_keys") or ()
    ]
    fitting = [
        k for k in table.keys if sorted(columns[p].name for p in k.positions) == sorted(named)
    ]
    if not named and (len(table.keys) == 1 or not conflict.expressions):
        fitting = list(table.keys)
    if not fitting:
        keys = "; ".join(", ".join(columns[p].name for p in key.positions) for key in table.keys)
        message = f"ON CONFLICT ({', '.join(named)}) names no key of {table.relation.name}"
        raise statement.wrong(message, conflict, f"its keys are: {keys or 'none'}")
    return fitting
