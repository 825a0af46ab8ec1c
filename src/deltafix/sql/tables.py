"""A table: its relation, its keys and CHECKs, and the CREATE TABLE that says so, read.

Invariant: a table's relation has a key: its primary key, a UNIQUE of columns that are NOT NULL, or
else a hidden number that each row is given. Rows are the engine's; who keeps the constraints is
`sql.integrity`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlglot import ErrorLevel

from deltafix.facts.schema import Row
from deltafix.sql.builder import Builder, Relation
from deltafix.sql.casts import assigned
from deltafix.sql.literals import typed
from deltafix.sql.scalar import Scalars, over
from deltafix.sql.scans import Test
from deltafix.sql.text import Statement, exp
from deltafix.sql.types import BIGINT, Column, SqlType, SqlValue, encode, length_of, written_type

__all__ = [
    "Cell",
    "Check",
    "ForeignKey",
    "Key",
    "Table",
    "bare_table",
    "check_properties",
    "table_of",
]


@dataclass(frozen=True, slots=True)
class Key:
    """A PRIMARY KEY or UNIQUE: positions of its columns. NULLs are never equal."""

    kind: str
    positions: tuple[int, ...]

    def of(self, row: Row) -> tuple[Any, ...]:
        """A row's key."""
        return tuple([row[at] for at in self.positions])  # half as long as of a generator


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A FOREIGN KEY: positions of its columns, and the key of the table that has to have them.

    `nullable` says of each pair of columns, its own and the key's, whether they may be NULL: the
    engine has values of such columns in a tuple. `on_delete` is what a row does when the one goes
    that it refers to, `on_update` when that changes its key: "CASCADE", "SET NULL", "SET DEFAULT",
    or nothing, and then that cannot be.
    """

    positions: tuple[int, ...]
    table: str
    key: Key
    nullable: tuple[tuple[bool, bool], ...]
    on_delete: str = ""
    on_update: str = ""

    def of(self, row: Row) -> tuple[Any, ...]:
        """The key that a row refers to, as its table has it; with None in it, to none."""
        key = []
        for position, (mine, theirs) in zip(self.positions, self.nullable, strict=True):
            value: Any = row[position]
            if value is not None and mine != theirs:
                value = value[0] if mine else (value,)
            key.append(value)
        return tuple(key)

    def referring(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values of its own columns in the rows that refer to a key.

        A NULL of the key is one of theirs, also where that is none of the column.
        """
        return tuple(
            value if mine == theirs or value is None else (value,) if mine else value[0]
            for value, (mine, theirs) in zip(key, self.nullable, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Check:
    """A CHECK: as it was written, a function of a row's values that is not to be False.

    `broken` is true of a row that breaks it.
    """

    text: str
    compute: Callable[[Any], Any]
    broken: Test


_SHAPES = 64
"""So many lists of columns are remembered for a table before all are forgotten."""


class Cell(NamedTuple):
    """A column of a table, for rows of values of some of its columns.

    `write` is its type's; `position` is where such a row has its value, which is the `default`
    where that is None. `nullable` is the column's.
    """

    column: Column
    write: Callable[[Any], Any]
    position: int | None
    default: SqlValue
    nullable: bool


@dataclass
class Table:
    """A table: its relation and its keys; its rows are the engine's.

    Attributes:
        defaults: values of columns that an INSERT does not name, by position.
    """

    relation: Relation
    keys: tuple[Key, ...]
    checks: tuple[Check, ...] = ()
    foreign: tuple[ForeignKey, ...] = ()
    defaults: Mapping[int, SqlValue] = field(default_factory=dict)
    next_number: int = 1
    _cells: dict[tuple[str, ...], list[Cell]] = field(default_factory=dict, init=False, repr=False)

    def cells(self, names: Sequence[str]) -> list[Cell]:
        """What a row of values for some columns is made of. O(1) for names that came before."""
        cells = self._cells.get(key := tuple(names))
        if cells is None:
            if len(self._cells) >= _SHAPES:
                self._cells.clear()
            positions = {name: position for position, name in enumerate(names)}
            cells = self._cells[key] = [
                Cell(
                    column,
                    column.type.write,
                    positions.get(column.name),
                    self.defaults.get(at),
                    column.nullable,
                )
                for at, column in enumerate(self.relation.columns)
            ]
        return cells

    @property
    def numbered(self) -> bool:
        """Whether its rows have a hidden number."""
        return bool(self.relation.hidden)

    def numbers(self, count: int) -> range:
        """The next hidden numbers."""
        self.next_number += count
        return range(self.next_number - count, self.next_number)


def check_properties(builder: Builder, node: exp.Create) -> None:
    """Refuse what a CREATE says of its table or view besides MATERIALIZED."""
    properties = node.args.get("properties")
    for clause in properties.expressions if properties is not None else ():
        if not isinstance(clause, exp.MaterializedProperty) or node.args["kind"] != "VIEW":
            word = clause.sql(builder.statement.dialect)
            way_out = "write CREATE TABLE or CREATE MATERIALIZED VIEW, without it"
            raise builder.refused(f"a table or view with {word}", clause, way_out)


def bare_table(statement: Statement, create: exp.Create) -> Table:
    """A CREATE TABLE but for its foreign keys: what those of others may refer to."""
    return _read_table(statement, create)[0]


def table_of(
    statement: Statement, create: exp.Create, tables: Mapping[str, Table] = MappingProxyType({})
) -> Table:
    """Read CREATE TABLE; it may refer to `tables`. Raises SqlProgrammingError, SqlRefusedError."""
    bare, references = _read_table(statement, create)
    builder = Builder(statement, "", {})
    foreign = tuple(_foreign(builder, bare, tables, names, node) for names, node in references)
    indexes = dict.fromkeys([*bare.relation.indexes, *(key.positions for key in foreign)])
    return replace(bare, relation=replace(bare.relation, indexes=tuple(indexes)), foreign=foreign)


def _read_table(
    statement: Statement, create: exp.Create
) -> tuple[Table, list[tuple[list[str], exp.Expr]]]:
    """A CREATE TABLE but for its foreign keys, and these: columns, and what they refer to."""
    schema = create.this
    builder = Builder(statement, "", {})
    if not isinstance(schema, exp.Schema):
        raise builder.refused("a table without columns", create, "CREATE TABLE t (a INTEGER, ...)")
    check_properties(builder, create)
    columns: list[Column] = []
    declared: list[tuple[str, list[str], exp.Expr]] = []
    conditions: list[exp.Expr] = []
    references: list[tuple[list[str], exp.Expr]] = []
    defaults: dict[int, SqlValue] = {}
    for part in schema.expressions:
        inner, *more = part.expressions if isinstance(part, exp.Constraint) else [part]
        if more:
            raise builder.refused(more[0].sql().upper(), part, "leave it out")
        if isinstance(part, exp.ColumnDef):
            kept, default = _column(builder, part, declared, conditions, references)
            defaults |= {} if default is None else {len(columns): default}
            columns.append(kept)
        elif isinstance(inner, exp.CheckColumnConstraint):
            conditions.append(inner.this)
        elif isinstance(inner, exp.ForeignKey):
            references.append(
                ([column.name for column in inner.expressions], inner.args["reference"])
            )
        else:
            declared.append(_key(builder, inner))
    names = [column.name for column in columns]
    for position, name in enumerate(names):
        if name in names[:position]:
            message = f"two columns are called {name!r}"
            raise statement.wrong(message, schema.expressions[position], "give each its own name")
    keys = [
        Key(kind, _positions(statement, columns, key_names, node))
        for kind, key_names, node in declared
    ]
    for key, (_, _, node) in zip(keys, declared, strict=True):
        if not all(columns[position].type.is_key for position in key.positions):
            what, way_out = f"{key.kind} of an INTERVAL", "keep its microseconds, or its text"
            raise statement.refused(f"{what}, which equals others of other parts,", node, way_out)
    primary = [key for key in keys if key.kind == "PRIMARY KEY"]
    if len(primary) > 1:
        message = "two primary keys"
        raise statement.wrong(message, schema, "write PRIMARY KEY (a, b) for one of two columns")
    inside = {position for key in primary for position in key.positions}
    columns = [
        Column(column.name, column.type, column.nullable and position not in inside)
        for position, column in enumerate(columns)
    ]
    sure = [k for k in keys if not any(columns[position].nullable for position in k.positions)]
    identity = sorted(set(sure[0].positions)) if sure else [len(columns)]
    hidden = () if sure else (Column("number", BIGINT, nullable=False),)
    name = schema.this.name
    indexes = dict.fromkeys(key.positions for key in keys)
    relation = Relation(name, tuple(columns), hidden, tuple(identity), tuple(indexes))
    scalars = over(statement, (name, columns))
    checks = tuple(_check(statement, scalars, condition) for condition in conditions)
    return Table(relation, tuple(keys), checks, (), defaults), references


def _check(statement: Statement, scalars: Scalars, node: exp.Expr) -> Check:
    compute = scalars.truth(node, node).compute
    broken = Test.of(scalars, exp.Not(this=node))
    return Check(node.sql(statement.dialect), compute, broken)


def _foreign(
    builder: Builder,
    table: Table,
    tables: Mapping[str, Table],
    names: Sequence[str],
    node: Any,
) -> ForeignKey:
    """A foreign key of a table, whose columns, keys and defaults are known."""
    statement = builder.statement
    name, columns = table.relation.name, table.relation.columns
    named = isinstance(node.this, exp.Schema)
    target = node.this.this if named else node.this
    does = {"ON DELETE": "", "ON UPDATE": ""}
    for option in node.args.get("options") or ():
        words = " ".join(str(option).upper().split())
        event, action = words[:9], words[10:]
        if event not in does or action not in _ACTIONS:
            way_out = "without it, what a row refers to can neither go nor change its key"
            raise statement.refused(f"REFERENCES ... {option}", target, way_out)
        does[event] = _ACTIONS[action]
    if target.name != name and target.name not in tables:
        raise statement.unknown("table", target.name, list(tables), target)
    other = table if target.name == name else tables[target.name]
    columns_of, keys = other.relation.columns, other.keys
    mine = _positions(statement, columns, names, node)
    for event, action in does.items():
        for position in mine if action.startswith("SET") else ():
            column, has_default = columns[position], position in table.defaults
            if not column.nullable and (action == "SET NULL" or not has_default):
                without = "" if action == "SET NULL" else " and has no DEFAULT"
                message = f"{event} {action} of {column.name}, which is NOT NULL{without}"
                raise statement.wrong(
                    message, target, f"say {event} CASCADE, or leave NOT NULL out"
                )
    primary = next((key.positions for key in keys if key.kind == "PRIMARY KEY"), ())
    referred = [column.name for column in node.this.expressions] if named else None
    theirs = primary if referred is None else _positions(statement, columns_of, referred, target)
    key = next((key for key in keys if key.positions == theirs), None)
    if key is None or len(mine) != len(theirs):
        shown = "; ".join(", ".join(columns_of[p].name for p in key.positions) for key in keys)
        message = f"FOREIGN KEY ({', '.join(names)}) refers to no key of {target.name}"
        raise statement.wrong(message, target, f"its keys are, in this order: {shown or 'none'}")
    for own, their in zip(mine, theirs, strict=True):
        if columns[own].type != columns_of[their].type:
            message = (
                f"{columns[own].name} is {columns[own].type.name} and {columns_of[their].name} of "
                f"{target.name} is {columns_of[their].type.name}"
            )
            raise statement.wrong(message, target, "give both columns one type")
    pairs = zip(mine, theirs, strict=True)
    nullable = tuple((columns[own].nullable, columns_of[their].nullable) for own, their in pairs)
    return ForeignKey(mine, target.name, key, nullable, *does.values())


_ACTIONS = {
    "CASCADE": "CASCADE", "SET NULL": "SET NULL", "SET DEFAULT": "SET DEFAULT",
    "NO ACTION": "", "RESTRICT": "",
}  # fmt: skip


def _positions(
    statement: Statement, columns: Sequence[Column], wanted: Sequence[str], node: exp.Expr
) -> tuple[int, ...]:
    names = [column.name for column in columns]
    for name in wanted:
        if name not in names:
            raise statement.unknown("column", name, names, node)
    return tuple(map(names.index, wanted))


def _column(
    builder: Builder,
    node: exp.ColumnDef,
    keys: list[tuple[str, list[str], exp.Expr]],
    conditions: list[exp.Expr],
    references: list[tuple[list[str], exp.Expr]],
) -> tuple[Column, SqlValue]:
    """A column and its default; its keys, CHECKs and references go to the lists.

    The length of a VARCHAR(n) is a CHECK.
    """
    written = node.args.get("kind")
    kind = written_type(builder.statement, written, node, bounded=True)
    most = length_of(written)
    if most is not None:
        length = exp.Length(this=exp.column(node.this.copy()))
        conditions.append(exp.LTE(this=length, expression=exp.Literal.number(most)))
    nullable = True
    default = None
    for constraint in node.args.get("constraints") or ():
        rule = constraint.args["kind"]
        if isinstance(rule, exp.NotNullColumnConstraint):
            nullable = bool(rule.args.get("allow_null"))
        elif isinstance(rule, exp.PrimaryKeyColumnConstraint):
            keys.append(("PRIMARY KEY", [node.name], node))
        elif isinstance(rule, exp.UniqueColumnConstraint):
            keys.append(("UNIQUE", [node.name], node))
        elif isinstance(rule, exp.CheckColumnConstraint):
            conditions.append(rule.this)
        elif isinstance(rule, exp.DefaultColumnConstraint):
            default = rule.this
        elif isinstance(rule, exp.Reference):
            references.append(([node.name], rule))
        else:
            shown = rule.sql(builder.statement.dialect, unsupported_level=ErrorLevel.IGNORE)
            words = shown or type(rule).__name__.removesuffix("ColumnConstraint")
            way_out = _CONSTRAINTS
            if isinstance(rule, _NUMBERED):
                way_out = "write BIGINT, and give each row its number"
            raise builder.refused(f"the constraint {words} of {node.name}", node, way_out)
    return Column(node.name, kind, nullable), _default(builder.statement, default, kind)


_NUMBERED = (exp.AutoIncrementColumnConstraint, exp.GeneratedAsIdentityColumnConstraint)
_CONSTRAINTS = "constraints are NOT NULL, DEFAULT, PRIMARY KEY, UNIQUE, REFERENCES, CHECK"


def _default(statement: Statement, node: exp.Expr | None, kind: SqlType) -> SqlValue:
    """The value of DEFAULT, as a column of a type has it."""
    if node is None:
        return None
    scalar = Scalars(statement, lambda _: None).compile(typed(node, kind))
    try:
        value = assigned(scalar.compute(()), kind)
        encode(value, kind, nullable=True)
    except (ValueError, ArithmeticError) as error:
        raise statement.data(f"DEFAULT: {error}", node) from None
    return value


def _key(builder: Builder, node: exp.Expr) -> tuple[str, list[str], exp.Expr]:
    if isinstance(node, exp.PrimaryKey):
        return "PRIMARY KEY", [column.name for column in node.expressions], node
    if isinstance(node, exp.UniqueColumnConstraint) and isinstance(node.this, exp.Schema):
        return "UNIQUE", [column.name for column in node.this.expressions], node
    raise builder.refused(node.key.upper(), node, _CONSTRAINTS)
