"""Where the rows of a query end that could become a row with some values: by which condition.

A SELECT is followed in the order of its FROM: the rows of the first table with the values that are
asked for, those of them that the conditions on it leave, those that find a partner in the second
one, and so on. Invariant: what is said is of the first place that no row passes, with values of
rows that come there, evaluated from scratch. What a weaker query would have is `sql.relaxed`'s,
which also says which SELECTs a view unites.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from deltafix.sql.aggregates import aggregates_in, aggregates_of
from deltafix.sql.connectives import conditions
from deltafix.sql.parameters import equal, equated
from deltafix.sql.text import exp
from deltafix.sql.types import SqlValue

__all__ = ["Ask", "Stops"]

Ask = Callable[[exp.Expr], Sequence[tuple[SqlValue, ...]]]
"""The rows of a query."""

_SHOWN: Final = 3
"""Values that are told of those that come to a condition."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A table of FROM: its name in the query, its columns if they are known, how it is joined."""

    node: exp.Expr
    columns: frozenset[str]
    join: exp.Join | None

    @property
    def name(self) -> str:
        return self.node.alias_or_name

    @property
    def is_inner(self) -> bool:
        """Whether its rows only find partners, by ON or without a condition."""
        join = self.join
        return join is None or not (
            join.side or join.method or join.args.get("using") or join.kind not in _INNER
        )

    @property
    def using(self) -> list[str]:
        """The columns of USING, where it finds partners."""
        is_one = self.join is not None and not self.join.side and self.join.kind in _INNER
        using = self.join.args.get("using") or () if self.join is not None and is_one else ()
        return [column.name for column in using]

    def told(self, dialect: str) -> str:
        """It as FROM has it; a subquery by its name."""
        return self.node.sql(dialect) if isinstance(self.node, exp.Table) else self.name


_INNER: Final = ("", "INNER", "CROSS")


class Stops:
    """Where the rows of a SELECT end that could become a row with some values.

    Args:
        ask: the rows of a query. What it raises comes out of `told`.
        query: one SELECT.
        values: those that a row is to have, by column.
        names: of the columns that the query shows.
        columns: those of the tables and queries that it may name.
        dialect: in which conditions are written.
    """

    def __init__(
        self,
        ask: Ask,
        query: exp.Select,
        values: Mapping[str, SqlValue],
        *,
        names: Sequence[str],
        columns: Mapping[str, Sequence[str]],
        dialect: str,
    ) -> None:
        self._ask, self._query, self._dialect = ask, query, dialect
        beside = query.args.get("with_")
        known = {**columns}
        for cte in () if beside is None else beside.expressions:
            known[cte.alias] = _names_of(cte)
        self._sources = [*_sources(query, known)]
        where = query.args.get("where")
        self._conditions = [*conditions(None if where is None else where.this)]
        self._names = names
        self._values = values
        self._plain: dict[str, exp.Expr] = {}  # the columns that are to have a value, by names
        self._computed: list[str] = []
        for name, item in self._shown(names).items():
            if name in values and isinstance(item, exp.Column):
                self._plain[name] = equal(item.copy(), values[name], dialect)
            elif name in values:
                self._computed.append(name)
        self._wanted = [*self._plain.values()]

    def _shown(self, names: Sequence[str]) -> dict[str, exp.Expr]:
        """What the query shows, by the names of columns."""
        items = self._query.expressions
        if any(item.is_star for item in items):
            return {name: exp.column(name) for name in names} if len(items) == 1 else {}
        return {name: item.unalias() for name, item in zip(names, items, strict=False)}

    def told(self) -> Iterator[str]:
        """What no row passes on its way; nothing where some come to the end."""
        joins = [source.join for source in self._sources if source.join is not None]
        if self._query.args.get("laterals") or any(one.side in ("RIGHT", "FULL") for one in joins):
            return
        passed: list[exp.Expr] = []
        for step, _ in enumerate(self._sources):
            own, rest = self._own(step, passed)
            if not self._rows(step, [*passed, *own, *rest]):
                yield from self._stop(step, passed, own, rest)
                return
            passed += own + rest
        if self._sources:
            yield from self._behind(passed)

    def _own(self, step: int, passed: Sequence[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
        """What a step adds: how rows are found, by keys and wanted values, and other conditions."""
        source = self._sources[step]
        on = source.join.args.get("on") if source.join is not None and source.is_inner else None
        added = [*conditions(on), *self._conditions]
        added = [one for one in added if self._step(one) <= step and one not in passed]
        wanted = [one for one in self._wanted if self._step(one) <= step and one not in passed]
        if not source.is_inner and not source.using:
            return [], [*added, *wanted]
        keys = [one for one in added if self._key(one, step) is not None]
        return [*wanted, *keys], [one for one in added if one not in keys]

    def _stop(
        self,
        step: int,
        passed: Sequence[exp.Expr],
        own: Sequence[exp.Expr],
        rest: Sequence[exp.Expr],
    ) -> Iterator[str]:
        """What the rows that come to a step do not pass there."""
        source = self._sources[step]
        told = source.told(self._dialect)
        if not self._rows(step, [*passed, *own]):
            wanted = [one for one in own if one in self._wanted and self._step(one) == step]
            alone = exp.select("*").from_(source.node.copy()).where(*_bare(wanted)).limit(1)
            is_table = isinstance(source.node, exp.Table)
            if step == 0 or (wanted and is_table and not self._ask(alone)):
                yield f"no row of {told} has {self._said(wanted)}" if wanted else f"{told} is empty"
                return
            keys = [key for one in own if (key := self._key(one, step)) is not None]
            by = self._said([one for one in own if self._key(one, step) is not None])
            if source.using:
                keys = [(exp.column(name), exp.column(name)) for name in source.using]
                by = f"USING ({', '.join(source.using)})"
            if not keys:
                yield f"{source.join.sql(self._dialect) if source.join else told} leaves none"
                return
            mine = [exp.column(key.this.copy()) for key, _ in keys]
            others = [other for _, other in keys]
            for row in self._found(step - 1, passed, others)[:_SHOWN]:
                if None in row:
                    yield f"{by} fails with {self._listed(others, [row])}"
                    continue
                asked = [equal(*pair, self._dialect) for pair in zip(mine, row, strict=True)]
                yield f"no row of {told} has {self._said([*asked, *_bare(wanted)])}, by {by}"
            return
        failing = [one for one in rest if not self._rows(step, [*passed, *own, one])]
        before = [*passed, *own]
        if not failing:  # together they leave none
            for one in rest:
                if not self._rows(step, [*before, one]):
                    failing = [one]
                    break
                before.append(one)
        for one in failing:
            yield self._fails(one, before, step)

    def _fails(self, condition: exp.Expr, before: Sequence[exp.Expr], step: int) -> str:
        """That a condition holds of none of the rows, with what these have in its columns."""
        said = f"{condition.sql(self._dialect)} fails"
        parts = [*self._columns(condition), *_values_of_queries(condition)]
        shown = [*dict.fromkeys(part.copy() for part in parts)]
        found = self._found(step, before, shown) if shown else []
        return f"{said} with {self._listed(shown, found)}" if found else said

    def _behind(self, passed: Sequence[exp.Expr]) -> Iterator[str]:
        """What rows that pass WHERE do not pass behind it."""
        last = len(self._sources) - 1
        having, group = (self._query.args.get(key) for key in ("having", "group"))
        if having is not None:
            for condition in conditions(having.this):
                shown = [*dict.fromkeys(aggregates_in(condition))]
                groups = self._from(last, passed, shown)
                groups.set("group", None if group is None else group.copy())
                if shown and not self._ask(groups.having(condition.copy()).limit(1)):
                    found = [*dict.fromkeys(self._ask(groups.limit(_SHOWN + 1)))]
                    listed = self._listed(shown, found)
                    yield f"{condition.sql(self._dialect)} fails with {listed}"
            return
        if self._computed and not aggregates_of(self._query):
            alias = exp.TableAlias(
                this=exp.to_identifier("q"),
                columns=[exp.to_identifier(name, quoted=True) for name in self._names],
            )
            rows = exp.Subquery(this=self._query.copy(), alias=alias)
            shown = [_column(name) for name in self._computed]
            tests = [
                equal(_column(name), self._values[name], self._dialect) for name in self._plain
            ]
            query = exp.Select(expressions=shown).from_(rows).where(*tests).distinct()
            found = sorted(self._ask(query.limit(_SHOWN + 1)), key=repr)
            if found:
                names = [exp.column(name) for name in self._computed]
                yield f"such a row has {self._listed(names, found)}"

    # --- queries -------------------------------------------------------------------------------

    def _from(self, step: int, tests: Sequence[exp.Expr], shown: Sequence[exp.Expr]) -> exp.Select:
        """What these show of the rows of FROM as far as a step, that pass tests."""
        joins = []
        for source in self._sources[1 : step + 1]:
            is_cross = source.is_inner  # its condition is one of the tests
            joins.append(exp.Join(this=source.node, kind="CROSS") if is_cross else source.join)
        query = exp.Select(
            expressions=[*shown], from_=self._query.args["from_"], joins=joins,
            with_=self._query.args.get("with_"),
        )  # fmt: skip
        return query.copy().where(*(test.copy() for test in tests))

    def _rows(self, step: int, tests: Sequence[exp.Expr]) -> bool:
        """Whether there are some."""
        return bool(self._ask(self._from(step, tests, [exp.Literal.number(1)]).limit(1)))

    def _found(
        self, step: int, tests: Sequence[exp.Expr], shown: Sequence[exp.Expr]
    ) -> list[tuple[SqlValue, ...]]:
        """Different ones of what these show of the rows, one more than is told."""
        query = self._from(step, tests, shown).distinct().limit(_SHOWN + 1)
        return sorted(self._ask(query), key=repr)

    # --- words ---------------------------------------------------------------------------------

    def _listed(self, shown: Sequence[exp.Expr], rows: Sequence[tuple[SqlValue, ...]]) -> str:
        names = [one.sql(self._dialect) for one in shown]
        told = [
            " AND ".join(equated(*pair, self._dialect) for pair in zip(names, row, strict=True))
            for row in rows[:_SHOWN]
        ]
        return ", or ".join([*told, *(["others"] if rows[_SHOWN:] else [])])

    def _said(self, tests: Sequence[exp.Expr]) -> str:
        return " AND ".join(test.sql(self._dialect) for test in tests)

    # --- which columns -------------------------------------------------------------------------

    def _columns(self, node: exp.Expr) -> list[exp.Column]:
        """The columns of FROM that a condition reads; in a subquery those with a table's name."""
        names = {source.name for source in self._sources}
        names -= {table.alias_or_name for table in node.find_all(exp.Table)}
        return [
            column
            for column in node.find_all(exp.Column)
            if not column.is_star and (column.table in names or not _is_inside(column, node))
        ]

    def _place_of(self, column: exp.Column) -> int | None:
        """Whose column it is, by place in FROM."""
        if column.table:
            found = [n for n, one in enumerate(self._sources) if one.name == column.table]
        else:
            found = [n for n, one in enumerate(self._sources) if column.name in one.columns]
            if len(found) > 1 and all(self._merges(n, column.name) for n in found[1:]):
                return found[0]
        return found[0] if len(found) == 1 else None

    def _merges(self, place: int, name: str) -> bool:
        """Whether USING makes a column one with that of an earlier table."""
        return name in self._sources[place].using

    def _step(self, condition: exp.Expr) -> int:
        """The step at which all is there that a condition reads."""
        last = len(self._sources) - 1
        if condition.find(exp.Query):
            return last
        places = [self._place_of(column) for column in self._columns(condition)]
        return max([last if place is None else place for place in places], default=last)

    def _key(self, condition: exp.Expr, step: int) -> tuple[exp.Column, exp.Column] | None:
        """The column of a step's table in an equality with one of an earlier table, and that."""
        if not isinstance(condition, exp.EQ):
            return None
        left, right = condition.this, condition.expression
        if not isinstance(left, exp.Column) or not isinstance(right, exp.Column):
            return None
        for mine, other in ((left, right), (right, left)):
            place = self._place_of(other)
            if self._place_of(mine) == step and place is not None and place < step:
                return mine, other
        return None


def _values_of_queries(condition: exp.Expr) -> list[exp.Expr]:
    """The queries that are values in a condition, but for those in its other queries."""
    return [
        node
        for node in condition.copy().find_all(exp.Subquery)
        if not isinstance(node.parent, exp.In | exp.Any | exp.All | exp.Exists)
        and node.find_ancestor(exp.Query) is None
    ]


def _sources(query: exp.Select, columns: Mapping[str, Sequence[str]]) -> Iterator[_Source]:
    """The tables of FROM; none where one is no table or subquery."""
    first = query.args.get("from_")
    joins = query.args.get("joins") or ()
    found = []
    for node, join in ((first.this if first else None, None), *((j.this, j) for j in joins)):
        if not isinstance(node, exp.Table | exp.Subquery) or node.args.get("pivots"):
            return
        known = columns.get(node.name, ()) if isinstance(node, exp.Table) else _names_of(node)
        if isinstance(node, exp.Table) and node.alias_column_names:
            known = node.alias_column_names
        found.append(_Source(node, frozenset(known), join))
    yield from found


def _names_of(node: exp.Expr) -> Sequence[str]:
    """The columns of a subquery or an expression of WITH."""
    names: Sequence[str] = node.alias_column_names or node.this.unnest().named_selects
    return names


def _is_inside(node: exp.Expr, of: exp.Expr) -> bool:
    """Whether it stands in a subquery of a condition."""
    while node is not of and node.parent is not None:
        node = node.parent
        if isinstance(node, exp.Query):
            return True
    return False


def _bare(tests: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Tests without the names of tables."""
    bare = [test.copy() for test in tests]
    for test in bare:
        for column in test.find_all(exp.Column):
            column.set("table", None)
    return bare


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))
