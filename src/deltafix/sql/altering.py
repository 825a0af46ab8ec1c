"""ALTER TABLE: a catalog in which one table is another, and what becomes of its rows.

    statement -> texts of tables -> what views go on seeing -> tables and views made anew

A view goes on as it was made: its text keeps its names, and `Definition.seen` says what those are
now, so a column that is added is in no `SELECT *` of before, as in PostgreSQL. Invariant: the rows
of every view that stays are those of before. The engine's part is the connection's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from deltafix.errors import SqlError
from deltafix.facts.schema import Row
from deltafix.sql.builder import Builder
from deltafix.sql.catalog import Catalog, Definition, Seen, Table, table_of
from deltafix.sql.query import check_clauses
from deltafix.sql.text import Statement, exp, statements

__all__ = ["Altered", "altered"]

_WAY_OUT = (
    "write ADD COLUMN, DROP COLUMN, RENAME COLUMN ... TO or RENAME TO, one a statement; or make "
    "another table, INSERT INTO it SELECT ..., and DROP this one"
)


class Altered(NamedTuple):
    """What an ALTER TABLE comes to.

    `before` and `after` are the catalogs; `rows` makes the rows of the table, which is called
    `old` before and `new` after, and `behind` has it and the views that read it.
    """

    before: Catalog
    after: Catalog
    old: str
    new: str
    behind: set[str]
    rows: Callable[[list[Row]], list[Row]]


def altered(catalog: Catalog, statement: Statement, node: exp.Alter) -> Altered | None:
    """What becomes of a catalog, which stays as it is; None where IF EXISTS has nothing to do.

    Raises SqlProgrammingError, SqlRefusedError. O(the texts of what reads the table).
    """
    builder = Builder(statement, "", {})
    check_clauses(builder, node, ("this", "kind", "actions", "exists", "only"))
    actions = node.args["actions"]
    if node.args["kind"] != "TABLE" or len(actions) != 1 or node.find(exp.Placeholder):
        raise statement.refused(f"{statement.verb} like this", node, _WAY_OUT)
    name = node.this.name
    if name not in catalog.tables:
        if name in catalog.views:
            way_out = "CREATE OR REPLACE VIEW makes it another one"
            raise statement.wrong(f"{name} is a view", node.this, way_out)
        if node.args.get("exists"):
            return None
        raise statement.unknown("table", name, list(catalog.tables), node.this)
    return _Change(catalog, statement, name).of(builder, actions[0])


class _Change:
    """One ALTER TABLE on its way."""

    def __init__(self, catalog: Catalog, statement: Statement, name: str) -> None:
        self.catalog, self.statement = catalog, statement
        self.name = self.new = name
        self.table = catalog.tables[name]
        self.columns = [column.name for column in self.table.relation.columns]
        self.kept = list(range(len(self.columns)))  # places of the columns that stay
        self.dropped: set[str] = set()  # views
        refer = {one.relation.name for one, _ in catalog.referring(name)}
        self.trees = {one: self._tree(one) for one in catalog.tables if one in {name, *refer}}

    def _tree(self, name: str) -> exp.Create:
        definition = self.catalog.definitions[name]
        (again,) = statements(definition.sql, definition.dialect)
        if again.node.find(exp.Placeholder):
            message = f"{name} was made by a statement with parameters"
            raise self.statement.wrong(message, None, "make another table, with the values written")
        tree: Any = again.node
        tree.set("exists", None)
        return tree  # type: ignore[no-any-return]

    @property
    def schema(self) -> exp.Schema:
        """The columns and constraints of the table."""
        found: exp.Schema = self.trees[self.name].this
        return found

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
        elif isinstance(action, exp.RenameColumn):
            self._rename_column(action.this, action.args["to"])
        elif isinstance(action, exp.AlterRename):
            self._rename(action.this)
        else:
            raise builder.refused(f"{self.statement.verb} like this", action, _WAY_OUT)
        return self._whole()

    # --- the texts -----------------------------------------------------------------------------

    def _place(self, node: exp.Expr) -> int:
        if node.name not in self.columns:
            raise self.statement.unknown("column", node.name, self.columns, node)
        return self.columns.index(node.name)

    def _require_free(self, node: exp.Expr) -> None:
        if node.name in self.columns:
            message = f"{self.name} has a column {node.name!r} already"
            raise self.statement.wrong(message, node, "choose another name")

    def _add(self, builder: Builder, node: exp.ColumnDef) -> None:
        self._require_free(node)
        check_clauses(builder, node, ("this", "kind", "constraints", "exists"))
        for one in node.args.get("constraints") or ():
            kinds = exp.NotNullColumnConstraint | exp.DefaultColumnConstraint
            if not isinstance(one.args["kind"], kinds):
                way_out = "an added column has NOT NULL and DEFAULT; others are CREATE TABLE's"
                raise builder.refused(f"ADD COLUMN ... {one.sql()}", node, way_out)
        column = node.copy()
        column.set("exists", None)
        self.schema.append("expressions", column)

    def _drop(self, node: exp.Expr, *, cascade: bool) -> None:
        place, name = self._place(node), node.name
        if len(self.columns) == 1:
            message = f"{name} is the only column of {self.name}"
            raise self.statement.wrong(message, node, f"DROP TABLE {self.name}")
        for table, one in self.catalog.referring(self.name):
            if place in one.key.places and table is not self.table:
                message = f"{table.relation.name} refers to {self.name} ({name})"
                raise self.statement.wrong(message, node, f"DROP TABLE {table.relation.name} first")
        for view, seen in self._seeing():
            if any(
                place < len(names) and _uses(self._query(view), of, names[place])
                for of, (_, names) in seen.items()
            ):
                self.dropped.add(view)
        for view, made in self.catalog.views.items():
            if made.reads & self.dropped:
                self.dropped.add(view)
        if self.dropped and not cascade:
            first = min(self.dropped)
            message = f"{name} is read by {', '.join(sorted(self.dropped))}"
            way_out = f"DROP VIEW {first} first, or write DROP COLUMN {name} CASCADE"
            raise self.statement.wrong(message, node, way_out)
        self.kept.remove(place)
        primary = {at for key in self.table.keys if key.kind == "PRIMARY KEY" for at in key.places}
        stays = []
        for part in self.schema.expressions:
            if isinstance(part, exp.ColumnDef):
                if part.name == name:
                    continue
                rules = [
                    one
                    for one in part.args.get("constraints") or ()
                    if not self._about(one.args["kind"], name)
                ]
                if place in primary and self.columns.index(part.name) in primary:
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

    def _about(self, rule: Any, name: str) -> bool:
        """Whether a constraint is about a column, which takes it along."""
        own = [one.name for one in _own(rule)]
        for _, target, columns in _references(rule):
            if target.name == self.name:
                primary = next((k for k in self.table.keys if k.kind == "PRIMARY KEY"), None)
                implied = () if primary is None or columns else primary.places
                own += [*(one.name for one in columns), *(self.columns[at] for at in implied)]
        return name in own

    def _rename_column(self, node: exp.Expr, to: exp.Expr) -> None:
        self._place(node)
        self._require_free(to)
        for name, tree in self.trees.items():
            parts: list[Any] = [*_references(tree)]
            for _, target, columns in parts:
                if target.name == self.name:
                    _named(columns, node.name, to)
            if name != self.name:
                continue
            for part in tree.this.expressions:
                inner = part.expressions[0] if isinstance(part, exp.Constraint) else part
                rules = [inner]
                if isinstance(inner, exp.ColumnDef):
                    _named([inner.this], node.name, to)
                    rules = [one.args["kind"] for one in inner.args.get("constraints") or ()]
                for rule in rules:
                    _named(_own(rule), node.name, to)

    def _rename(self, to: exp.Expr) -> None:
        self.new = to.name
        if self.new in self.catalog.relations:
            message = f"there is a table or view {self.new!r} already"
            raise self.statement.wrong(message, to, "choose another name")
        for tree in self.trees.values():
            for table in tree.find_all(exp.Table):
                _named([table.this], self.name, to)
        for column in self.schema.find_all(exp.Column):
            if column.table:
                _named([column.args["table"]], self.name, to)

    # --- the catalog ---------------------------------------------------------------------------

    def _query(self, view: str) -> exp.Expr:
        definition = self.catalog.definitions[view]
        (again,) = statements(definition.sql, definition.dialect)
        return again.node

    def _seeing(self) -> Iterator[tuple[str, dict[str, Seen]]]:
        """The views that read the table, and what each of its names for it was to them."""
        for view in self.catalog.readers(self.name):
            seen = self.catalog.definitions[view].seen
            mine = {of: one for of, one in seen.items() if one[0] == self.name}
            yield view, mine or {self.name: (self.name, tuple(self.columns))}

    def _whole(self) -> Altered:
        before = self.catalog.copy()
        after = replace(before.copy(), tables={}, views={}, definitions={})
        behind = {self.name}
        for view, one in before.views.items():
            if one.reads & behind:
                behind.add(view)
        seeing = dict(self._seeing())
        other = set[str]()  # the views that are not as they were to those that read them
        for name, definition in before.definitions.items():
            if name in self.trees:
                called = self.new if name == self.name else name
                sql = self.trees[name].sql(definition.dialect)
                (again,) = statements(sql, definition.dialect)
                made: Any = again.node
                table = table_of(again, made, after.tables)
                table.next_number = before.tables[name].next_number
                after.tables[called] = table
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
                    places = [at for at in range(width) if at in self.kept and at < len(names)]
                    seen[of] = (self.new, tuple(names[at] for at in places))
                self._view_again(after, name, definition, seen)
                if after.views[name].relation != before.views[name].relation:
                    other.add(name)
            elif name not in self.dropped:
                after.views[name], after.definitions[name] = before.views[name], definition
        return Altered(before, after, self.name, self.new, behind, self._rows(after))

    def _view_again(
        self, after: Catalog, name: str, definition: Definition, seen: Mapping[str, Seen]
    ) -> None:
        try:
            (again,) = statements(definition.sql, definition.dialect)
            after.define(again, definition.dialect, seen=seen)
        except SqlError as error:
            said = str(error).partition("\n")[0].partition("]: ")[2]
            message = f"{name} reads {self.name}, and could not be kept: {said}"
            raise self.statement.wrong(message, None, f"DROP VIEW {name} first") from error

    def _rows(self, after: Catalog) -> Callable[[list[Row]], list[Row]]:
        old, new = self.table, after.tables[self.new]
        added = new.relation.columns[len(self.kept) :]
        missing = any(
            not one.nullable and new.defaults.get(at) is None
            for at, one in enumerate(added, len(self.kept))
        )

        def rows(there: list[Row]) -> list[Row]:
            if there and missing:
                message = f"{added[0].name} is NOT NULL, and rows of {self.name} have no value"
                raise self.statement.integrity(message, "give it a DEFAULT")
            tail = tuple(
                one.encode(new.defaults.get(at)) for at, one in enumerate(added, len(self.kept))
            )
            numbers = _numbers(old, new, there)
            return [
                (*(row[at] for at in self.kept), *tail, *number)
                for row, number in zip(there, numbers, strict=True)
            ]

        return rows


def _numbers(old: Table, new: Table, there: list[Row]) -> Iterable[tuple[Any, ...]]:
    """The hidden numbers of a table's rows, which has them from now on if its only key goes."""
    if old.numbered:
        return (row[-1:] for row in there)
    if not new.numbered:
        return (() for _ in there)
    return ((number,) for number in new.numbers(len(there)))


def _uses(query: exp.Expr, table: str, column: str) -> bool:
    """Whether a view may read a column of a table, by its names: `*` and NATURAL read them all."""
    aliases = set()
    for one in query.find_all(exp.Table):
        if one.name == table:
            aliases.add(one.alias_or_name)
            alias = one.args.get("alias")
            if alias is not None and alias.columns:
                return True
    for star in query.find_all(exp.Star):
        if not isinstance(star.parent, exp.Count):
            return True
    for join in query.find_all(exp.Join):
        if join.args.get("method") == "NATURAL":
            return True
        if any(one.name == column for one in join.args.get("using") or ()):
            return True
    return any(
        (one.name == column and one.table in ("", *aliases)) or one.table == column
        for one in query.find_all(exp.Column)
    )


def _own(rule: Any) -> list[Any]:
    """The names of the table's own columns in a constraint, as nodes."""
    if isinstance(rule, exp.CheckColumnConstraint):
        columns = [*rule.find_all(exp.Column)]
        fields = [one.args["table"] for one in columns if one.table]
        return [*(one.this for one in columns), *fields]
    if isinstance(rule, exp.UniqueColumnConstraint):
        return list(rule.this.expressions) if isinstance(rule.this, exp.Schema) else []
    return list(rule.expressions) if isinstance(rule, exp.PrimaryKey | exp.ForeignKey) else []


def _references(node: exp.Expr) -> Iterator[tuple[exp.Reference, exp.Expr, list[Any]]]:
    """What a statement refers to: tables, and the columns that are named."""
    for one in node.find_all(exp.Reference):
        named = isinstance(one.this, exp.Schema)
        yield one, one.this.this if named else one.this, one.this.expressions if named else []


def _named(nodes: Iterable[Any], name: str, to: exp.Expr) -> None:
    """Have the identifiers of a name, among some nodes, another one."""
    for node in nodes:
        found = node if isinstance(node, exp.Identifier) else node.find(exp.Identifier)
        if found is not None and found.name == name:
            found.set("this", to.name)
            found.set("quoted", bool(to.this.args.get("quoted")))
