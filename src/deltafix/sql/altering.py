"""ALTER TABLE: a catalog in which one table is another, and what becomes of its rows.

    statement -> texts of tables -> what views go on seeing -> tables and views made anew

The texts are trees of CREATE TABLE, which the statement changes (`sql.constraints`).

A view goes on as it was made: its text keeps its names, and `Definition.seen` says what those are
now, so a column that is added is in no `SELECT *` of before, as in PostgreSQL. Invariant: the rows
of every view that stays are those of before. The engine's part is the connection's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from deltafix.errors import SqlError
from deltafix.facts.schema import Row
from deltafix.sql import constraints
from deltafix.sql.builder import Builder
from deltafix.sql.catalog import Catalog, Definition, Seen
from deltafix.sql.constraints import Named, own, references, renamed
from deltafix.sql.parsing import statements
from deltafix.sql.rows import encoded
from deltafix.sql.scalar import over
from deltafix.sql.tables import Table, bare_table, table_of
from deltafix.sql.text import Rules, Statement, data_type, exp
from deltafix.sql.types import Column, SqlValue, decode, decode_rows, length_of, shown_rows

__all__ = ["ALTERS", "Altered", "altered"]

ALTERS = (
    "write ADD, DROP or ALTER COLUMN, ADD or DROP CONSTRAINT, with commas between them, or RENAME, "
    "one a statement; or make another table, INSERT INTO it SELECT ..., and DROP this one"
)

Check: TypeAlias = Callable[[Table, list[Row]], None]
"""Raises where a table's rows break one of its constraints."""


class Altered(NamedTuple):
    """What an ALTER TABLE comes to.

    `before` and `after` are the catalogs; `rows` makes the rows of the table, which is called
    `old` before and `new` after, and has them checked, and `behind` has it and the views that read
    it, or nothing where only the catalog changes.
    """

    before: Catalog
    after: Catalog
    old: str
    new: str
    behind: set[str]
    rows: Callable[[list[Row], Check], list[Row]]


def altered(catalog: Catalog, statement: Statement, node: exp.Alter) -> Altered | None:
    """What becomes of a catalog, which stays as it is; None where IF EXISTS has nothing to do.

    Raises SqlProgrammingError, SqlRefusedError. O(the texts of what reads the table).
    """
    builder = Builder(statement, "", {})
    actions = node.args["actions"]
    if node.args["kind"] != "TABLE" or node.find(exp.Placeholder):
        raise statement.refused(f"{statement.verb} like this", node, ALTERS)
    name = node.this.name
    if name not in catalog.tables:
        if name in catalog.views:
            way_out = "CREATE OR REPLACE VIEW makes it another one"
            raise statement.wrong(f"{name} is a view", node.this, way_out)
        if node.args.get("exists"):
            return None
        raise statement.unknown("table", name, list(catalog.tables), node.this)
    several = len(actions) > 1
    so_far: Altered | None = None
    for action in sorted(actions, key=_turn):
        if several and isinstance(action, exp.RenameColumn | exp.AlterRename):
            raise statement.refused("RENAME beside other actions", action, "write it alone")
        now = catalog if so_far is None else so_far.after
        step = _Change(now, statement, name).of(builder, action)
        if step is not None:
            so_far = step if so_far is None else _both(so_far, step)
    return so_far


def _turn(action: exp.Expr) -> int:
    """When an action has its turn, as in PostgreSQL: what goes, what comes, what is said of it."""
    if isinstance(action, exp.Drop):
        return 0
    if isinstance(action, exp.AlterColumn):
        return 1 if action.args.get("dtype") is not None else 3
    return 2 if isinstance(action, exp.ColumnDef) else 4


def _both(first: Altered, then: Altered) -> Altered:
    """Two changes of one table as one."""
    return Altered(
        first.before,
        then.after,
        first.old,
        then.new,
        first.behind | then.behind,
        lambda rows, check: then.rows(first.rows(rows, check), check),
    )


class _Change:
    """One ALTER TABLE on its way."""

    def __init__(self, catalog: Catalog, statement: Statement, name: str) -> None:
        self.catalog, self.statement = catalog, statement
        self.name = self.new = name
        self.table = catalog.tables[name]
        self.columns = [column.name for column in self.table.relation.columns]
        self.kept = list(range(len(self.columns)))  # positions of the columns that stay
        self.dropped: set[str] = set()  # views
        self.converted: tuple[int, exp.Expr] | None = None  # the column whose type changes
        refer = {table.relation.name for table, _ in catalog.referring(name)}
        self.trees = {
            table: self._tree(table) for table in catalog.tables if table in {name, *refer}
        }

    def _tree(self, name: str) -> exp.Create:
        definition = self.catalog.definitions[name]
        (again,) = statements(definition.sql, definition.dialect)
        if again.node.find(exp.Placeholder):
            message = f"{name} was made by a statement with parameters"
            raise self.statement.wrong(message, None, "make another table, with the values written")
        tree: Any = again.node
        tree.set("exists", None)
        for part in tree.walk():  # errors are about the statement, whose own nodes have spans in it
            part.meta.pop("start", None)
        return tree  # type: ignore[no-any-return]

    @property
    def schema(self) -> exp.Schema:
        """The columns and constraints of the table."""
        schema: exp.Schema = self.trees[self.name].this
        return schema

    def of(self, builder: Builder, action: Any) -> Altered | None:
        """All of it. Raises as `altered`."""
        if isinstance(action, exp.ColumnDef):
            if action.name in self.columns and action.args.get("exists"):
                return None
            self._add(builder, action)
        elif isinstance(action, exp.Drop) and action.args["kind"] == "COLUMN":
            (column,) = action.args["tables"]
            if column.name not in self.columns and action.args.get("exists"):
                return None
            self._drop(column, cascade=bool(action.args.get("cascade")))
        elif isinstance(action, exp.AddConstraint) and len(action.expressions) == 1:
            self._add_constraint(action.expressions[0])
        elif isinstance(action, exp.Drop) and action.args["kind"] == "CONSTRAINT":
            (name,) = action.args["tables"]
            known = constraints.named(self.schema)
            if action.args.get("exists") and all(
                constraint.name != name.name for constraint in known
            ):
                return None
            self._drop_constraint(name, known, cascade=bool(action.args.get("cascade")))
        elif isinstance(action, exp.AlterColumn):
            self._alter_column(builder, action)
        elif isinstance(action, exp.RenameColumn):
            self._rename_column(action.this, action.args["to"])
        elif isinstance(action, exp.AlterRename):
            self._rename(action.this)
        else:
            raise builder.refused(f"{self.statement.verb} like this", action, ALTERS)
        return self._whole()

    # --- the texts -----------------------------------------------------------------------------

    def _position(self, node: exp.Expr) -> int:
        if node.name not in self.columns:
            raise self.statement.unknown("column", node.name, self.columns, node)
        return self.columns.index(node.name)

    def _require_free(self, node: exp.Expr) -> None:
        if node.name in self.columns:
            message = f"{self.name} has a column {node.name!r} already"
            raise self.statement.wrong(message, node, "choose another name")

    def _add(self, builder: Builder, node: exp.ColumnDef) -> None:
        self._require_free(node)
        for constraint in node.args.get("constraints") or ():
            kinds = exp.NotNullColumnConstraint | exp.DefaultColumnConstraint
            if not isinstance(constraint.args["kind"], kinds):
                way_out = "an added column has NOT NULL and DEFAULT; ADD CONSTRAINT adds others"
                raise builder.refused(f"ADD COLUMN ... {constraint.sql()}", node, way_out)
        column = node.copy()
        column.set("exists", None)
        self.schema.append("expressions", column)

    def _drop(self, node: exp.Expr, *, cascade: bool) -> None:
        position, name = self._position(node), node.name
        if len(self.columns) == 1:
            message = f"{name} is the only column of {self.name}"
            raise self.statement.wrong(message, node, f"DROP TABLE {self.name}")
        for table, foreign in self.catalog.referring(self.name):
            if position in foreign.key.positions and table is not self.table:
                message = f"{table.relation.name} refers to {self.name} ({name})"
                raise self.statement.wrong(message, node, f"DROP TABLE {table.relation.name} first")
        self.dropped.update(self._reading(position))
        for reader, view in self.catalog.views.items():
            if view.reads & self.dropped:
                self.dropped.add(reader)
        if self.dropped and not cascade:
            first = min(self.dropped)
            message = f"{name} is read by {', '.join(sorted(self.dropped))}"
            way_out = f"DROP VIEW {first} first, or write DROP COLUMN {name} CASCADE"
            raise self.statement.wrong(message, node, way_out)
        self.kept.remove(position)
        primary = {
            at for key in self.table.keys if key.kind == "PRIMARY KEY" for at in key.positions
        }
        stays = []
        for part in self.schema.expressions:
            if isinstance(part, exp.ColumnDef):
                if part.name == name:
                    continue
                rules = [
                    constraint
                    for constraint in part.args.get("constraints") or ()
                    if not self._about(constraint.args["kind"], name)
                ]
                if position in primary and self.columns.index(part.name) in primary:
                    # the key that said so is gone
                    sure = exp.NotNullColumnConstraint()
                    rules.append(exp.ColumnConstraint(kind=sure))
                part.set("constraints", rules)
            elif self._about(
                part.expressions[0] if isinstance(part, exp.Constraint) else part, name
            ):
                continue
            stays.append(part)
        self.schema.set("expressions", stays)

    def _reading(self, position: int) -> list[str]:
        """The views that may read a column."""
        return [
            view
            for view, seen in self._seeing()
            if any(
                position < len(names) and _uses(self._query(view), of, names[position])
                for of, (_, names) in seen.items()
            )
        ]

    def _about(self, rule: Any, name: str) -> bool:
        """Whether a constraint is about a column, which takes it along."""
        names = [column.name for column in own(rule)]
        for _, target, columns in references(rule):
            if target.name == self.name:
                primary = next((k for k in self.table.keys if k.kind == "PRIMARY KEY"), None)
                implied = () if primary is None or columns else primary.positions
                names += [*(node.name for node in columns), *(self.columns[at] for at in implied)]
        return name in names

    def _rename_column(self, node: exp.Expr, to: exp.Expr) -> None:
        self._position(node)
        self._require_free(to)
        for name, tree in self.trees.items():
            parts: list[Any] = [*references(tree)]
            for _, target, columns in parts:
                if target.name == self.name:
                    renamed(columns, node.name, to)
            if name != self.name:
                continue
            for part in tree.this.expressions:
                inner = part.expressions[0] if isinstance(part, exp.Constraint) else part
                rules = [inner]
                if isinstance(inner, exp.ColumnDef):
                    renamed([inner.this], node.name, to)
                    rules = [rule.args["kind"] for rule in inner.args.get("constraints") or ()]
                for rule in rules:
                    renamed(own(rule), node.name, to)

    def _rename(self, to: exp.Expr) -> None:
        self.new = to.name
        if self.new in self.catalog.relations:
            message = f"there is a table or view {self.new!r} already"
            raise self.statement.wrong(message, to, "choose another name")
        for tree in self.trees.values():
            for table in tree.find_all(exp.Table):
                renamed([table.this], self.name, to)
        for column in self.schema.find_all(exp.Column):
            if column.table:
                renamed([column.args["table"]], self.name, to)

    # --- constraints and columns ---------------------------------------------------------------

    def _add_constraint(self, node: exp.Expr) -> None:
        known = [constraint.name for constraint in constraints.named(self.schema)]
        if isinstance(node, exp.Constraint) and node.name in known:
            message = f"{self.name} has a constraint {node.name!r} already"
            raise self.statement.wrong(message, node.this, "choose another name")
        self.schema.append("expressions", node.copy())

    def _drop_constraint(self, node: exp.Expr, known: list[Named], *, cascade: bool) -> None:
        gone = next((constraint for constraint in known if constraint.name == node.name), None)
        if gone is None:
            raise self.statement.unknown(
                "constraint", node.name, [constraint.name for constraint in known], node
            )
        constraints.without(self.schema, gone)
        keys = list(self._bare(self.name).keys)
        for table, foreign in self.catalog.referring(self.name):
            if foreign.key in keys:
                continue
            other = table.relation.name
            columns = [table.relation.columns[at].name for at in foreign.positions]
            constraint = next(
                constraint
                for constraint in constraints.named(self.trees[other].this)
                if isinstance(constraint.rule, exp.ForeignKey | exp.Reference)
                and constraints.about(self.trees[other].this, constraint) == columns
            )
            if not cascade:
                message = f"{other} refers to {node.name}, by {constraint.name}"
                way_out = (
                    f"ALTER TABLE {other} DROP CONSTRAINT {constraint.name} first, or write CASCADE"
                )
                raise self.statement.wrong(message, node, way_out)
            constraints.without(self.trees[other].this, constraint)

    def _alter_column(self, builder: Builder, node: exp.AlterColumn) -> None:
        position, name = self._position(node.this), node.name
        column = next(part for part in self.schema.expressions if part.name == name)
        if node.args.get("dtype") is not None:
            self._retype(node, position, column)
        elif node.args.get("allow_null") is not None:
            nullable = bool(node.args["allow_null"])
            keys = [key for key in self.table.keys if key.kind == "PRIMARY KEY"]
            if nullable and any(position in key.positions for key in keys):
                message = f"{name} is in the PRIMARY KEY of {self.name}"
                raise self.statement.wrong(message, node.this, "DROP CONSTRAINT first")
            constraints.require(column, nullable=nullable)
        else:
            constraints.default(column, node.args.get("default"))

    def _retype(self, node: exp.AlterColumn, position: int, column: exp.ColumnDef) -> None:
        name = node.name
        views = self._reading(position)
        if views:
            message = f"{name} is read by {', '.join(sorted(views))}"
            way_out = f"DROP VIEW {min(views)} first: a view keeps the types that it was made with"
            raise self.statement.wrong(message, node.this, way_out)
        refer = [(self.table, foreign.positions) for foreign in self.table.foreign]
        refer += [
            (table, foreign.key.positions) for table, foreign in self.catalog.referring(self.name)
        ]
        for table, positions in refer:
            if position in positions:
                other = table.relation.name
                message = (
                    f"a foreign key of {other} is about {name}, and both columns have one type"
                )
                raise self.statement.wrong(message, node.this, "DROP CONSTRAINT first")
        column.set("kind", node.args["dtype"].copy())
        value = node.args.get("using") or exp.column(node.this.copy())
        kind = node.args["dtype"]
        if length_of(kind) is not None:  # a CAST would cut what the column refuses
            kind = data_type("TEXT")
        self.converted = position, exp.Cast(this=value.copy(), to=kind.copy())

    # --- the catalog ---------------------------------------------------------------------------

    def _query(self, view: str) -> exp.Expr:
        definition = self.catalog.definitions[view]
        (again,) = statements(definition.sql, definition.dialect)
        return again.node

    def _seeing(self) -> Iterator[tuple[str, dict[str, Seen]]]:
        """The views that read the table, and what each of its names for it was to them."""
        for view in self.catalog.readers(self.name):
            seen = self.catalog.definitions[view].seen
            mine = {of: known for of, known in seen.items() if known[0] == self.name}
            yield view, mine or {self.name: (self.name, tuple(self.columns))}

    def _made(self, name: str) -> Statement:
        """A table's text as it is now, for errors that are about the statement."""
        return replace(self.statement, dialect=self.catalog.definitions[name].dialect)

    def _bare(self, name: str) -> Table:
        return bare_table(self._made(name), self.trees[name])

    def _whole(self) -> Altered:
        before = self.catalog.copy()
        after = replace(before.copy(), tables={}, views={}, definitions={})
        bare = {
            self.new if table == self.name else table: self._bare(table) for table in self.trees
        }
        beside = {
            **{table: before.tables[table] for table in before.tables if table != self.name},
            **bare,
        }
        tables = {
            table: table_of(self._made(table), tree, beside) for table, tree in self.trees.items()
        }
        same = self.converted is None and tables[self.name].relation == self.table.relation
        stays = same and self.new == self.name
        behind = set[str]() if stays else {self.name}
        for reader, view in before.views.items():
            if view.reads & behind:
                behind.add(reader)
        seeing = {} if stays else dict(self._seeing())
        other = set[str]()  # the views that are not as they were to those that read them
        for name, definition in before.definitions.items():
            if name in self.trees:
                called = self.new if name == self.name else name
                sql = self.trees[name].sql(definition.dialect)
                tables[name].next_number = before.tables[name].next_number
                after.tables[called] = tables[name]
                after.definitions[called] = Definition(sql, definition.dialect, definition.times)
            elif name in before.tables:
                after.tables[name] = before.tables[name]
                after.definitions[name] = definition
            elif name in seeing or before.views[name].reads & other:
                if name in self.dropped:
                    continue
                seen = {**definition.seen}
                for of, (_, names) in seeing.get(name, {}).items():
                    width = len(self.columns)
                    positions = [at for at in range(width) if at in self.kept and at < len(names)]
                    seen[of] = (self.new, tuple(names[at] for at in positions))
                self._view_again(after, name, definition, seen)
                if after.views[name].relation != before.views[name].relation:
                    other.add(name)
            elif name not in self.dropped:
                after.views[name], after.definitions[name] = before.views[name], definition
        new = after.tables[self.new]
        convert, required = self._rows(new), self._required(new)

        def rows(old_rows: list[Row], check: Check) -> list[Row]:
            new_rows = convert(old_rows)
            check(required, new_rows)
            return new_rows

        return Altered(before, after, self.name, self.new, behind, rows)

    def _required(self, new: Table) -> Table:
        """The table with the constraints that its rows may break, which kept all others."""
        old = self.table
        if self.converted is not None:
            return replace(new, foreign=())
        keys = new.keys if len(new.keys) > len(old.keys) else ()
        return replace(
            new,
            keys=tuple(key for key in keys if key not in old.keys),
            checks=new.checks[len(old.checks) :],
            foreign=new.foreign[len(old.foreign) :],
        )

    def _view_again(
        self, after: Catalog, name: str, definition: Definition, seen: Mapping[str, Seen]
    ) -> None:
        try:
            (again,) = statements(definition.sql, definition.dialect)
            after.define(again, definition.dialect, seen=seen)
        except SqlError as error:
            message = f"{name} reads {self.name}, and could not be kept: {_said(error)}"
            raise self.statement.wrong(message, None, f"DROP VIEW {name} first") from error

    def _rows(self, new: Table) -> Callable[[list[Row]], list[Row]]:
        old, width = self.table, len(self.kept)
        added = new.relation.columns[width:]
        missing = any(
            not column.nullable and new.defaults.get(at) is None
            for at, column in enumerate(added, width)
        )
        cells = [
            self._cell(at, old.relation.columns[at], column)
            for at, column in zip(self.kept, new.relation.columns, strict=False)
        ]

        def rows(old_rows: list[Row]) -> list[Row]:
            if old_rows and missing:
                message = f"{added[0].name} is NOT NULL, and rows of {self.name} have no value"
                raise self.statement.integrity(message, "give it a DEFAULT")
            tail = tuple(
                column.encode(new.defaults.get(at)) for at, column in enumerate(added, width)
            )
            numbers = _numbers(old, new, old_rows)
            return [
                (*(cell(row) for cell in cells), *tail, *number)
                for row, number in zip(old_rows, numbers, strict=True)
            ]

        return rows

    def _cell(self, at: int, old: Column, new: Column) -> Callable[[Row], Any]:
        """What a column of a row becomes. Raises SqlIntegrityError, SqlDataError."""
        columns, statement = self.table.relation.columns, self.statement
        if self.converted is not None and self.converted[0] == at:
            scalars = over(statement, (self.name, columns))
            compute = scalars.compile(self.converted[1]).compute
        elif old == new or (old.type, old.nullable) == (new.type, new.nullable):
            return lambda row: row[at]
        else:

            def compute(row: Any) -> SqlValue:
                value: SqlValue = row[at]
                return value

        def cell(row: Row) -> Any:
            values = tuple(map(decode, row, columns))
            try:
                value = compute(values)
                return encoded(statement, new, value)
            except (ValueError, ArithmeticError, SqlError) as error:
                (shown,) = shown_rows(decode_rows([row], columns), columns)
                reason = f"{self.name}: {shown}: {_said(error)}"
                if isinstance(error, SqlError) and value is None:
                    message = f"{self.name}: {shown} has no value for {new.name}, which is NOT NULL"
                    raise statement.integrity(message, "UPDATE it, or DELETE it first") from None
                raise statement.data(reason) from None

        return cell


def _said(error: Exception) -> str:
    """An error's text without its place."""
    return str(error).partition("\n")[0].partition("]: ")[2] or str(error)


def _numbers(old: Table, new: Table, old_rows: list[Row]) -> Iterable[tuple[Any, ...]]:
    """The hidden numbers of a table's rows, which has them as long as it has no key."""
    if not new.numbered:
        return (() for _ in old_rows)
    if old.numbered:
        return (row[-1:] for row in old_rows)
    return ((number,) for number in new.numbers(len(old_rows)))


def _uses(query: exp.Expr, table: str, column: str) -> bool:
    """Whether a view may read a column of a table, by its names: its `*` and NATURAL read all.

    So do rules, which have columns by their positions.
    """
    rules = query.find(Rules)
    if rules is not None:
        return any(reference.name == table for reference in rules.expressions)
    aliases = set()
    for reference in query.find_all(exp.Table):
        if reference.name == table:
            aliases.add(reference.alias_or_name)
            alias = reference.args.get("alias")
            if alias is not None and alias.columns:
                return True
    for star in query.find_all(exp.Star):
        of = star.parent.table if isinstance(star.parent, exp.Column) else ""
        select = star.find_ancestor(exp.Select)
        tables = [] if select is None else select.find_all(exp.Table)
        mine = [
            reference.name for reference in tables if reference.find_ancestor(exp.Select) is select
        ]
        if isinstance(star.parent, exp.Count) or (select is not None and table not in mine):
            continue
        if not of or of in aliases:
            return True
    if query.find(exp.Columns, exp.Pivot):
        return True
    for join in query.find_all(exp.Join):
        if join.args.get("method") == "NATURAL":
            return True
        if any(key.name == column for key in join.args.get("using") or ()):
            return True
    return any(
        (node.name == column and node.table in ("", *aliases)) or node.table == column
        for node in query.find_all(exp.Column)
    )
