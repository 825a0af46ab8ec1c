"""What a connection knows: tables with their keys, and views with their rules.

Invariant: a table's relation has a key: its primary key, a UNIQUE of columns that are NOT NULL, or
else a hidden number that each row is given. A view's rules read only tables and views made before
it, so the program is their rules side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from deltafix.engine.folds.users import UserReducer
from deltafix.errors import ProgramError, SqlError, SqlProgrammingError
from deltafix.facts.schema import Row
from deltafix.plan.build import lower
from deltafix.plan.depend import layers
from deltafix.rules import check
from deltafix.rules.ast import Program
from deltafix.rules.strata import dependencies, unstratified
from deltafix.sql.builder import Builder, Relation
from deltafix.sql.casts import assigned
from deltafix.sql.literals import typed
from deltafix.sql.query import check_clauses, relation
from deltafix.sql.scalar import Scalars, over
from deltafix.sql.scope import Scope
from deltafix.sql.text import Statement, exp, statements
from deltafix.sql.types import (
    BIGINT,
    NATIVE_FUNCTORS,
    NULLABLE_TYPES,
    Column,
    SqlType,
    SqlValue,
    encode,
    written_type,
)

__all__ = [
    "Catalog",
    "Definition",
    "Key",
    "Seen",
    "Table",
    "View",
    "bare_table",
    "check_rules",
    "created",
    "program",
    "require_made",
    "table_of",
    "view_of",
]


@dataclass(frozen=True, slots=True)
class Key:
    """A PRIMARY KEY or UNIQUE: positions of its columns. NULLs are never equal."""

    kind: str
    places: tuple[int, ...]

    def of(self, row: Row) -> tuple[Any, ...]:
        """A row's key."""
        return tuple([row[place] for place in self.places])  # half as long as of a generator


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A FOREIGN KEY: positions of its columns, and the key of the table that has to have them.

    `nullable` says of each pair of columns, its own and the key's, whether they may be NULL: the
    engine has values of such columns in a tuple. `on_delete` is what a row does when the one goes
    that it refers to, `on_update` when that changes its key: "CASCADE", "SET NULL", "SET DEFAULT",
    or nothing, and then that cannot be.
    """

    places: tuple[int, ...]
    table: str
    key: Key
    nullable: tuple[tuple[bool, bool], ...]
    on_delete: str = ""
    on_update: str = ""

    def of(self, row: Row) -> tuple[Any, ...]:
        """The key that a row refers to, as its table has it; with None in it, to none."""
        found = []
        for place, (mine, theirs) in zip(self.places, self.nullable, strict=True):
            value: Any = row[place]
            if value is not None and mine != theirs:
                value = value[0] if mine else (value,)
            found.append(value)
        return tuple(found)

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
    """A CHECK: as it was written, and a function of a row's values that is not to be False."""

    text: str
    compute: Callable[[Any], Any]


_SHAPES = 64
"""So many lists of columns are remembered for a table before all are forgotten."""


class Cell(NamedTuple):
    """A column of a table, for rows of values of some of its columns.

    `write` is its type's; `place` is where such a row has its value, and where that is None it is
    the `default`.
    """

    column: Column
    write: Callable[[Any], Any]
    place: int | None
    default: SqlValue


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
        found = self._cells.get(key := tuple(names))
        if found is None:
            if len(self._cells) >= _SHAPES:
                self._cells.clear()
            places = {name: place for place, name in enumerate(names)}
            found = self._cells[key] = [
                Cell(one, one.type.write, places.get(one.name), self.defaults.get(at))
                for at, one in enumerate(self.relation.columns)
            ]
        return found

    @property
    def numbered(self) -> bool:
        """Whether its rows have a hidden number."""
        return bool(self.relation.hidden)

    def numbers(self, count: int) -> range:
        """The next hidden numbers."""
        self.next_number += count
        return range(self.next_number - count, self.next_number)


@dataclass(frozen=True, slots=True)
class View:
    """A view: its relation, the builder that holds its rules, and what the check found of them.

    As long as that is held the engine does not check them again.
    """

    relation: Relation
    builder: Builder
    checked: check.CheckedProgram | None = None

    @property
    def reads(self) -> set[str]:
        """The tables and views it reads."""
        return self.builder.used

    @property
    def is_recursive(self) -> bool:
        """Whether a part of it reads itself."""
        return self.checked is not None and any(one.recursive for one in self.checked.strata)


def created(node: Any) -> Any:
    """What a CREATE names, as a node."""
    return node.this.this if isinstance(node.this, exp.Schema) else node.this


def require_made(statement: Statement, node: exp.Create) -> Any:
    """What a CREATE names. Raises SqlRefusedError if it makes no table or view, or by a query."""
    kind = str(node.args.get("kind") or "").upper()
    if node.args.get("replace") and kind != "VIEW":
        way_out = f"leave OR REPLACE out; what is there is taken away by DROP {kind}"
        raise statement.refused("CREATE OR REPLACE", node, way_out)
    is_query = node.args.get("expression") is not None and kind == "TABLE"
    if kind not in ("TABLE", "VIEW") or is_query:
        way_out = "write CREATE TABLE t (a INTEGER, ...) or CREATE MATERIALIZED VIEW"
        raise statement.refused(f"CREATE {kind} like this", node, way_out)
    return created(node)


Seen: TypeAlias = tuple[str, tuple[str, ...]]
"""What a view's text calls a table: the table's name now, and the names it has for its first
columns; those behind them it does not see."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A CREATE statement as a state folder keeps it; `times` is what the catalog had before it.

    `seen` has the tables that a view reads and that ALTER TABLE changed since, by the names of its
    text.
    """

    sql: str
    dialect: str
    times: int
    seen: Mapping[str, Seen] = field(default_factory=dict)


@dataclass
class Catalog:
    """Tables and views by name, in the order they were made."""

    tables: dict[str, Table] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)
    """How often views of a name were made: each has functions of its own, by names of their own."""
    reducers: dict[str, UserReducer] = field(default_factory=dict)
    """The reducers of all views that there were. The engine is given this very dictionary, and
    looks in it for those of a view made later."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    """How each table and view was written, in the order they were made."""

    @property
    def relations(self) -> dict[str, Relation]:
        """Everything that FROM can name."""
        found = {name: table.relation for name, table in self.tables.items()}
        return {**found, **{name: view.relation for name, view in self.views.items()}}

    def relation(self, name: str) -> Relation | None:
        """What FROM names; None where it is unknown. O(1)."""
        found = self.tables.get(name) or self.views.get(name)
        return None if found is None else found.relation

    def program(self) -> Program:
        """The rules of all views over all tables."""
        tables = [table.relation for table in self.tables.values()]
        return program(tables, [view.builder for view in self.views.values()])

    def functions(self) -> dict[str, Any]:
        """The functions of the program."""
        return {
            name: one
            for view in self.views.values()
            for name, one in view.builder.functions.items()
        }

    def define(
        self,
        statement: Statement,
        dialect: str,
        *,
        mark: str = "",
        seen: Mapping[str, Seen] = MappingProxyType({}),
        later: Mapping[str, Table] = MappingProxyType({}),
    ) -> None:
        """Put the table or view of a CREATE into the catalog; the rest as `view_of` has it.

        A table may refer to one made `later`, where ALTER TABLE had it do so.

        Raises SqlProgrammingError, SqlRefusedError.
        """
        node: Any = statement.node
        named = created(node)
        name, times = named.name, self.times[named.name]
        if str(node.args["kind"]).upper() == "TABLE":
            self.tables[name] = table_of(statement, node, {**later, **self.tables})
        else:
            known = ("this", "kind", "expression", "properties", "exists", "replace")
            builder = Builder(statement, "", {})
            check_clauses(builder, node, known)
            _check_properties(builder, node)
            heads = node.this.expressions if named is not node.this else []
            for one in heads:
                if isinstance(one, exp.ColumnDef):
                    way_out = "name the columns only: their types are those of the query"
                    raise statement.refused("a column of a view with a type", one, way_out)
            names = [one.name for one in heads]
            query = node.args.get("expression")
            if query is None:
                way_out = f"write CREATE MATERIALIZED VIEW {name} AS SELECT ..."
                raise statement.wrong(f"view {name!r} has no query", named, way_out)
            view = view_of(statement, name, names, query, self, mark=mark, seen=seen)
            checked = check_rules(statement, view.builder, self)
            self.views[name] = replace(view, checked=checked)
        self.definitions[name] = Definition(statement.sql, dialect, times, {**seen})

    def replace(self, statement: Statement, dialect: str) -> list[str]:
        """Put the view of a CREATE in the place of the one of this name.

        Returns the views that are not what they were: it, and those that read it if its columns
        changed; they are made anew from their text. Raises SqlProgrammingError, SqlRefusedError;
        then the catalog is to be `restored`.
        """
        name = created(statement.node).name
        behind = {name}
        for one, view in self.views.items():
            if view.reads & behind:
                behind.add(one)
        later = [one for one in self.views if one in behind]
        before = {one: (self.views.pop(one), self.definitions.pop(one)) for one in later}
        try:
            self.define(statement, dialect)
        except SqlProgrammingError:
            for table in statement.node.args["expression"].find_all(exp.Table):
                if table.name == name:
                    message = f"{name} would read itself"
                    raise statement.wrong(message, table, "WITH RECURSIVE says so") from None
                if table.name in later:
                    message = f"{name} would read {table.name}, which reads {name}"
                    raise statement.wrong(message, table, "read what that reads") from None
            raise
        stays = self.views[name].relation == before[name][0].relation
        for one in later[1:]:
            view, definition = before[one]
            if stays:
                self.views[one], self.definitions[one] = view, definition
                continue
            try:
                (again,) = statements(definition.sql, definition.dialect)
                self.define(again, definition.dialect, seen=definition.seen)
            except SqlError as error:
                said = str(error).partition("\n")[0].partition("]: ")[2]
                message = f"{one} reads {name}, and could not be kept: {said}"
                raise statement.wrong(message, None, f"DROP VIEW {one} first") from error
        return later[:1] if stays else later

    def restored(self, before: Catalog) -> None:
        """Become what another one is. Names of functions that a view had are not used again."""
        self.tables, self.views = dict(before.tables), dict(before.views)
        self.times |= before.times
        self.definitions = dict(before.definitions)

    def copy(self) -> Catalog:
        """A catalog of the same tables and views."""
        return replace(
            self,
            tables=dict(self.tables),
            views=dict(self.views),
            times=self.times.copy(),
            definitions=dict(self.definitions),
        )

    def beside(self, other: Catalog) -> Catalog:
        """A catalog that has all of two; what has a name in both is that of the other."""
        found = self.copy()
        for there, more in (
            (found.tables, other.tables),
            (found.views, other.views),
            (found.definitions, other.definitions),
        ):
            there.update(more)  # type: ignore[arg-type]
        return found

    def without(self, names: Iterable[str]) -> Catalog:
        """A catalog of the other tables and views; foreign keys may refer to what is not there."""
        found = self.copy()
        for name in names:
            for there in (found.tables, found.views, found.definitions):
                there.pop(name, None)
        return found

    def readers(self, name: str) -> list[str]:
        """The views that read a table or view."""
        return [one for one, view in self.views.items() if name in view.reads]

    def referring(self, name: str) -> list[tuple[Table, ForeignKey]]:
        """The foreign keys that refer to a table, with their tables."""
        return [
            (table, one)
            for table in self.tables.values()
            for one in table.foreign
            if one.table == name
        ]


def program(given: Iterable[Relation], builders: Iterable[Builder]) -> Program:
    """The program of what builders made, over given relations."""
    parts = list(builders)
    made = [one for part in parts for one in part.relations]
    reducers = {name: one for part in parts for name, (one, _) in part.reducers.items()}
    types = {name: one for part in parts for name, one in part.types.items()}
    native = {name for part in parts for name in part.native}
    return Program(
        relations=tuple(one.declaration for one in (*given, *made)),
        rules=tuple(rule for part in parts for rule in part.rules),
        types=(*NULLABLE_TYPES, *types.values()),
        functors=(
            *(NATIVE_FUNCTORS[name] for name in sorted(native)),
            *reducers.values(),
            *(f for part in parts for f in part.functors),
        ),
    )


def view_of(
    statement: Statement,
    name: str,
    names: list[str],
    query: exp.Expr,
    catalog: Catalog,
    *,
    mark: str = "",
    seen: Mapping[str, Seen] = MappingProxyType({}),
) -> View:
    """Compile a view; with a `mark` in the names of its parts and functions, a text has them, too.

    `seen` is what it calls tables as they were once (`Definition`).

    Raises SqlProgrammingError, SqlRefusedError.
    """
    again = catalog.times[name]
    catalog.times[name] += 1
    relations = catalog.relations
    for of, (table, columns) in seen.items():
        now = catalog.tables[table].relation
        pairs = zip(now.columns, columns, strict=False)
        shown = tuple(replace(column, name=one) for column, one in pairs)
        unseen = (*now.columns[len(columns) :], *now.hidden)
        relations[of] = replace(now, columns=shown, hidden=unseen, renamed=table)
    builder = Builder(statement, f"{name}:{again}" if again else name, relations)
    builder.view = name
    if mark:
        builder.prefix, builder.between, builder.keeps_order = f"{name}{mark}", "_", False
    found = relation(builder, query, Scope(statement), name, names)
    catalog.reducers.update({one: reducer for one, (_, reducer) in builder.reducers.items()})
    return View(found, builder)


def check_rules(statement: Statement, builder: Builder, catalog: Catalog) -> check.CheckedProgram:
    """What the check finds of the rules of a query.

    Refuses recursion through negation or aggregation, which they show.
    """
    rules = program(used_by(catalog, builder).values(), [builder])
    with _refusing(statement):
        checked = check.typed(rules)
        # SQL's recursion sees the rows of the step before: no group there is ever complete.
        over = unstratified(rules, dependencies(rules), aggregates=True)
        if any(one.severity == "error" for one in over):
            raise ProgramError(diagnostics=over)
    return checked


def require_plan(statement: Statement, view: View) -> None:
    """Refuse a view whose rules pass the check and have no plan. As much work as a plan of it."""
    if view.checked is not None:
        with _refusing(statement):
            layers(lower(view.checked))


@contextmanager
def _refusing(statement: Statement) -> Iterator[None]:
    """What refuses the rules of a query, in words of SQL. Raises SqlRefusedError."""
    try:
        yield
    except ProgramError as error:
        codes = {found.code for found in error.diagnostics}
        if codes & {"DF140", "DF171", "DF172"}:
            what = "a recursion that negates or aggregates itself (NOT, outer join, GROUP BY)"
            way_out = "move it out of the recursive part, to the query that reads it"
            raise statement.refused(what, _of_itself(statement.node), way_out) from None
        if codes <= {"DF133"}:
            what = "a condition of this many alternatives"
            raise statement.refused(what, None, "split it over several views") from None
        raise


def _of_itself(node: exp.Expr) -> exp.Expr | None:
    """What aggregates or negates in a common table expression that reads itself: the first."""
    for cte in node.find_all(exp.CTE):
        if any(table.name == cte.alias for table in cte.this.find_all(exp.Table)):
            one: exp.Expr
            for one in cte.this.walk(bfs=False):
                outer = isinstance(one, exp.Join) and one.side
                if outer or isinstance(one, exp.AggFunc | exp.Not | exp.Except | exp.Distinct):
                    return one
            return cte
    return None


def _check_properties(builder: Builder, node: exp.Create) -> None:
    found = node.args.get("properties")
    for one in found.expressions if found is not None else ():
        if not isinstance(one, exp.MaterializedProperty) or node.args["kind"] != "VIEW":
            word = one.key.removesuffix("property").upper() or one.name
            way_out = "write CREATE TABLE or CREATE MATERIALIZED VIEW, without it"
            raise builder.refused(f"a table or view that is {word}", one, way_out)


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
    indexes = dict.fromkeys([*bare.relation.indexes, *(one.places for one in foreign)])
    return replace(bare, relation=replace(bare.relation, indexes=tuple(indexes)), foreign=foreign)


def _read_table(
    statement: Statement, create: exp.Create
) -> tuple[Table, list[tuple[list[str], exp.Expr]]]:
    """A CREATE TABLE but for its foreign keys, and these: columns, and what they refer to."""
    schema = create.this
    builder = Builder(statement, "", {})
    if not isinstance(schema, exp.Schema):
        raise builder.refused("a table without columns", create, "CREATE TABLE t (a INTEGER, ...)")
    _check_properties(builder, create)
    check_clauses(builder, create, ("this", "kind", "exists", "properties"))
    columns: list[Column] = []
    found: list[tuple[str, list[str], exp.Expr]] = []
    conditions: list[exp.Expr] = []
    references: list[tuple[list[str], exp.Expr]] = []
    defaults: dict[int, SqlValue] = {}
    for part in schema.expressions:
        inner = part.expressions[0] if isinstance(part, exp.Constraint) else part
        if isinstance(part, exp.ColumnDef):
            kept, default = _column(builder, part, found, conditions, references)
            defaults |= {} if default is None else {len(columns): default}
            columns.append(kept)
        elif isinstance(inner, exp.CheckColumnConstraint):
            conditions.append(inner.this)
        elif isinstance(inner, exp.ForeignKey):
            references.append(([one.name for one in inner.expressions], inner.args["reference"]))
        else:
            found.append(_key(builder, inner))
    names = [column.name for column in columns]
    for place, name in enumerate(names):
        if name in names[:place]:
            message = f"two columns are called {name!r}"
            raise statement.wrong(message, schema.expressions[place], "give each its own name")
    keys = [Key(kind, _places(statement, columns, wanted, node)) for kind, wanted, node in found]
    primary = [key for key in keys if key.kind == "PRIMARY KEY"]
    if len(primary) > 1:
        message = "two primary keys"
        raise statement.wrong(message, schema, "write PRIMARY KEY (a, b) for one of two columns")
    inside = {place for key in primary for place in key.places}
    columns = [
        Column(column.name, column.type, column.nullable and place not in inside)
        for place, column in enumerate(columns)
    ]
    sure = [k for k in keys if not any(columns[place].nullable for place in k.places)]
    identity = sorted(set(sure[0].places)) if sure else [len(columns)]
    hidden = () if sure else (Column("number", BIGINT, nullable=False),)
    name = schema.this.name
    indexes = dict.fromkeys(one.places for one in keys)
    made = Relation(name, tuple(columns), hidden, tuple(identity), tuple(indexes))
    scalars = over(statement, (name, columns))
    checks = tuple(
        Check(one.sql(statement.dialect), scalars.truth(one, one).compute) for one in conditions
    )
    return Table(made, tuple(keys), checks, (), defaults), references


def _foreign(
    builder: Builder,
    made: Table,
    tables: Mapping[str, Table],
    names: Sequence[str],
    node: Any,
) -> ForeignKey:
    """A foreign key of a table, whose columns, keys and defaults are known."""
    statement = builder.statement
    name, columns = made.relation.name, made.relation.columns
    named = isinstance(node.this, exp.Schema)
    target = node.this.this if named else node.this
    does = {"ON DELETE": "", "ON UPDATE": ""}
    for option in node.args.get("options") or ():
        said = " ".join(str(option).upper().split())
        event, action = said[:9], said[10:]
        if event not in does or action not in _ACTIONS:
            way_out = "without it, what a row refers to can neither go nor change its key"
            raise statement.refused(f"REFERENCES ... {option}", target, way_out)
        does[event] = _ACTIONS[action]
    if target.name != name and target.name not in tables:
        raise statement.unknown("table", target.name, list(tables), target)
    other = made if target.name == name else tables[target.name]
    columns_of, keys = other.relation.columns, other.keys
    mine = _places(statement, columns, names, node)
    for event, action in does.items():
        for place in mine if action.startswith("SET") else ():
            if not columns[place].nullable and (action == "SET NULL" or place not in made.defaults):
                without = "" if action == "SET NULL" else " and has no DEFAULT"
                message = f"{event} {action} of {columns[place].name}, which is NOT NULL{without}"
                raise statement.wrong(
                    message, target, f"say {event} CASCADE, or leave NOT NULL out"
                )
    primary = next((key.places for key in keys if key.kind == "PRIMARY KEY"), ())
    asked = [one.name for one in node.this.expressions] if named else None
    theirs = primary if asked is None else _places(statement, columns_of, asked, target)
    key = next((key for key in keys if key.places == theirs), None)
    if key is None or len(mine) != len(theirs):
        shown = "; ".join(", ".join(columns_of[p].name for p in key.places) for key in keys)
        message = f"FOREIGN KEY ({', '.join(names)}) refers to no key of {target.name}"
        raise statement.wrong(message, target, f"its keys are, in this order: {shown or 'none'}")
    for one, two in zip(mine, theirs, strict=True):
        if columns[one].type != columns_of[two].type:
            message = (
                f"{columns[one].name} is {columns[one].type.name} and {columns_of[two].name} of "
                f"{target.name} is {columns_of[two].type.name}"
            )
            raise statement.wrong(message, target, "give both columns one type")
    pairs = zip(mine, theirs, strict=True)
    nullable = tuple((columns[one].nullable, columns_of[two].nullable) for one, two in pairs)
    return ForeignKey(mine, target.name, key, nullable, *does.values())


_ACTIONS = {
    "CASCADE": "CASCADE", "SET NULL": "SET NULL", "SET DEFAULT": "SET DEFAULT",
    "NO ACTION": "", "RESTRICT": "",
}  # fmt: skip


def _places(
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
    """A column and its default; its keys, CHECKs and references go to the lists."""
    check_clauses(builder, node, ("this", "kind", "constraints"))
    written = node.args.get("kind")
    kind = written_type(builder.statement, written, node)
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
            raise builder.refused(rule.key.upper(), node, _CONSTRAINTS)
    return Column(node.name, kind, nullable), _default(builder.statement, default, kind)


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
        return "PRIMARY KEY", [one.name for one in node.expressions], node
    if isinstance(node, exp.UniqueColumnConstraint) and isinstance(node.this, exp.Schema):
        return "UNIQUE", [one.name for one in node.this.expressions], node
    raise builder.refused(node.key.upper(), node, _CONSTRAINTS)


def used_by(catalog: Catalog, builder: Builder) -> Mapping[str, Relation]:
    """The tables and views that a query reads."""
    return {name: one for name, one in catalog.relations.items() if name in builder.used}
