"""From one SQL file's bytes to its fragment: which tables it makes and fills, from which blocks.

Invariant: equal bytes give equal fragments; a statement that cannot be read states `failed`, a file
that cannot be read is a fragment with an error, and either which names it may say (`doubts`).
Statements are named by the
table they make or fill, so that one more statement does not rename those after it.

UPDATE and MERGE are blocks whose sources are the target and what it is changed from, and whose
outputs are the columns set or inserted, by name.

A table created without a column list, a query or a model to copy is `formless`: any column may be
asked of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

from sqlglot import exp
from sqlglot.errors import SqlglotError

from deltafix.analyses.facts import Fact, Fragment, Place
from deltafix.analyses.lineage.blocks import Block, Names, Seen
from deltafix.analyses.lineage.doubts import doubts
from deltafix.analyses.lineage.facts import ROWS, Facts
from deltafix.analyses.lineage.manifest import MANIFEST, compiled
from deltafix.analyses.lineage.queries import add_ctes, finish, query
from deltafix.analyses.lineage.sources import add_sources, put_list
from deltafix.analyses.lineage.statements import (
    SqlFile,
    SqlFileError,
    Statement,
    parsed,
    read,
)

UNKNOWN_FORM = "a form of statement that lineage does not know"
"""Why a statement that parses is not read; the tests know none."""


def extract(path: str, data: bytes, prefix: str = "") -> Fragment:
    """What a SQL file says about columns; never raises for bad content. `prefix` says nothing.

    Of dbt's manifest, what the project's compiled models say.
    """
    if PurePosixPath(path).name == MANIFEST:
        return _project(path, data)
    try:
        file = read(path, data)
    except SqlFileError as error:
        return Fragment(path, tuple(sorted(doubts(path, data))), error=str(error))
    reader = _Reader(path, file)
    for statement in file.statements:
        reader.read(statement)
    return Fragment.of(path, reader.facts.rows, reader.places)


def _project(path: str, data: bytes) -> Fragment:
    try:
        nodes = compiled(data)
    except SqlFileError as error:
        return Fragment(path, error=str(error))
    facts: set[Fact] = set()
    places: set[Place] = set()
    for node in nodes:
        reader = _Reader(node.path, SqlFile(node.dialect, "", ()))
        reader.names.schema = node.schema
        try:
            statements = parsed(node.text, node.dialect)
        except SqlFileError as error:
            facts.add(("failed", (node.path, "1", str(error))))
            facts |= doubts(node.path, node.text.encode())
        else:
            for statement in statements:
                reader.read(statement)
        facts |= reader.facts.rows | node.facts
        places |= reader.places
    return Fragment.of(path, facts, places)


class _Reader:
    """The statements of one file, in order."""

    def __init__(self, path: str, file: SqlFile) -> None:
        self.path, self.file = path, file
        self.facts = Facts()
        self.places: set[Place] = set()
        self.names = Names(file.dialect, self.facts)
        self.of_target: Counter[str] = Counter()
        self.queries = 0

    def read(self, statement: Statement) -> None:
        """Add what one statement says, or why it could not be read."""
        self.names.facts, self.line = Facts(), statement.line
        reason = statement.reason
        if statement.tree is not None:
            try:
                self._state(statement.tree)
            except RecursionError:
                reason = "nested too deeply"
            except (SqlglotError, AttributeError, LookupError, TypeError, ValueError):
                reason = UNKNOWN_FORM  # sqlglot's trees differ between its thirty dialects
            if reason:
                self.names.facts = Facts()
        self.facts.rows |= self.names.facts.rows
        if reason:
            self.facts.add("failed", self.path, str(statement.ordinal), reason)
            self.facts.rows |= doubts(self.path, statement.written.encode())
            self.places.add(Place(f"{self.path}#{statement.ordinal}", "unparsed", statement.line))

    def _state(self, node: exp.Expr) -> None:
        if isinstance(node, exp.Create):
            self._create(node)
        elif isinstance(node, exp.Alter):
            alter(self.names, node)
        elif isinstance(node, exp.Insert):
            self._insert(node)
        elif isinstance(node, exp.MultitableInserts):
            self._insert_all(node)
        elif isinstance(node, exp.Update) and isinstance(node.this, exp.Table):
            root, seen = self._fills(node.this)
            update(node, root, seen)
        elif isinstance(node, exp.Merge) and isinstance(node.this, exp.Table):
            root, seen = self._fills(node.this)
            merge(node, root, seen)
        elif isinstance(node, exp.Query):
            self._query(node)
        elif isinstance(node, (exp.Use, exp.Set)):
            self._default_schema(node)

    def _create(self, node: exp.Create) -> None:
        target = node.this.this if isinstance(node.this, exp.Schema) else node.this
        if node.args.get("kind") not in ("TABLE", "VIEW") or not isinstance(target, exp.Table):
            return
        kind = str(node.args["kind"]).lower()
        table = self._define(target, kind)
        clone = node.args.get("clone")
        body = clone.this if clone is not None else node.expression
        if not isinstance(body, (exp.Query, exp.Table, exp.Values)):
            declare(self.names, node, table)
            return
        listed = node.this.expressions if isinstance(node.this, exp.Schema) else []
        columns = [
            self.names.fold(item.this if isinstance(item, exp.ColumnDef) else item)
            for item in listed
            if isinstance(item, (exp.ColumnDef, exp.Identifier))
        ]
        root = self._defined_by(table)
        query(body, root, self._seen(root, node))
        self.names.facts.add("defines", table, self._listed(root, columns))
        into = node.find(exp.ToTableProperty)
        if into is not None and isinstance(into.this, exp.Table):  # ClickHouse: .. TO t AS SELECT
            mention = self.names.mention(into.this)
            self.names.facts.add("changes", mention, root)
            self.names.facts.add("fills", mention, root)

    def _insert(self, node: exp.Insert) -> None:
        schema = node.this
        target = schema.this if isinstance(schema, exp.Schema) else schema
        if not isinstance(target, exp.Table) or not isinstance(target.this, exp.Identifier):
            return
        mention, root = self._target(target)
        if not isinstance(node.expression, (exp.Query, exp.Table, exp.Values)):
            return
        query(node.expression, root, self._seen(root, node))
        columns = [self.names.fold(c) for c in schema.expressions] if schema is not target else []
        by_place = not columns and not node.args.get("by_name")
        listed = self._listed(root, columns)
        self.names.facts.add("fills_in_order" if by_place else "fills", mention, listed)

    def _insert_all(self, node: exp.MultitableInserts) -> None:
        """INSERT ALL INTO t VALUES (a) .. SELECT ..: every INTO selects from the one query."""
        for into in node.expressions:
            source = exp.Subquery(
                this=node.args["source"].copy(),
                alias=exp.TableAlias(this=exp.to_identifier("source")),
            )
            values = into.this.expression
            items = values.expressions[0].expressions if values is not None else [exp.Star()]
            rows = exp.Select(expressions=items, from_=exp.From(this=source))
            self._insert(exp.Insert(this=into.this.this, expression=rows))

    def _query(self, node: exp.Query) -> None:
        into = node.args.get("into")
        target = into.this if into is not None else None
        self.queries += target is None
        if isinstance(target, exp.Table):
            table = self._define(target, "table")
        elif self.file.model and self.queries == 1:
            table = self._define(exp.Table(this=exp.to_identifier(self.file.model)), "model")
        else:
            table = f"{self.path}#{self.queries}"
            self.names.facts.add("table", table, "query")
        root = self._defined_by(table)
        query(node, root, Seen(root, self.names, {}))
        self.names.facts.add("defines", table, root)

    def _define(self, node: exp.Table, kind: str) -> str:
        table = self.names.define(node, kind)
        self.places.add(Place(table, kind, self.line))
        return table

    def _fills(self, target: exp.Table) -> tuple[str, Seen]:
        """The block whose columns an UPDATE or MERGE gives its target, by name."""
        mention, root = self._target(target)
        self.names.facts.add("fills", mention, root)
        return root, Seen(root, self.names, {})

    def _target(self, node: exp.Table) -> tuple[str, str]:
        mention = self.names.mention(node)
        root = self._root(mention.rpartition(">")[2])
        self.names.facts.add("changes", mention, root)
        return mention, root

    def _defined_by(self, table: str) -> str:
        root = self._root(table)
        self.names.facts.add("makes", table, root)
        return root

    def _root(self, table: str) -> str:
        self.of_target[table] += 1
        again = self.of_target[table]
        return f"{self.path}:{table}" + (f"~{again}" if again > 1 else "")

    def _seen(self, root: str, node: exp.Expr) -> Seen:
        """What the statement's query is given: the CTEs written before INSERT or CREATE, if any."""
        seen = Seen(root, self.names, {})
        if node.args.get("with_") is None:
            return seen
        holder = Block(f"{root}/with", seen)
        add_ctes(holder, node)
        return holder.seen(lateral=False)

    def _listed(self, root: str, columns: list[str]) -> str:
        """The block itself, or one around it with the columns listed, matched by place."""
        if not columns:
            return root
        block = Block(f"{root}()", Seen(root, self.names, {}))
        source = f"{root}."
        self.names.facts.add("block_at", source, root)
        put_list(block, source, columns, block.id)
        return block.id

    def _default_schema(self, node: exp.Expr) -> None:
        if isinstance(node, exp.Use):
            kind = node.args.get("kind")
            if isinstance(node.this, exp.Table) and (kind is None or kind.name != "ROLE"):
                self.names.schema = ".".join(self.names.parts(node.this))
            return
        for item in node.expressions:
            pair = item.this
            if isinstance(pair, exp.EQ) and pair.this.name.lower() == "search_path":
                first = pair.expression
                self.names.schema = first.name.lower() if isinstance(first, exp.Expr) else ""


def update(node: exp.Update, id_: str, seen: Seen) -> None:
    """UPDATE target SET column = expression FROM sources WHERE condition."""
    block = Block(id_, seen)
    add_ctes(block, node)
    add_sources(block, exp.Select(from_=exp.From(this=node.this.copy())), query)
    add_sources(block, node, query)
    _assign(block, node.expressions)
    block.read(node.args.get("where"), ROWS, "filter")
    finish(block)


def merge(node: exp.Merge, id_: str, seen: Seen) -> None:
    """MERGE INTO target USING source ON condition WHEN .. THEN UPDATE, INSERT."""
    block = Block(id_, seen)
    add_ctes(block, node)
    for table in (node.this, node.args["using"]):
        add_sources(block, exp.Select(from_=exp.From(this=table.copy())), query)
    given = list(block.sources.values())[-1:]
    block.read(node.args.get("on"), ROWS, "join")
    whens = node.args["whens"].expressions if node.args.get("whens") else ()
    for index, when in enumerate(whens):
        block.read(when.args.get("condition"), ROWS, "filter")
        then = when.args.get("then")
        if isinstance(then, exp.Update) and not isinstance(then.expressions, exp.Star):
            _assign(block, then.expressions)
        elif isinstance(then, exp.Insert) and isinstance(then.this, exp.Tuple):
            values = then.expression.expressions if then.expression is not None else ()
            for column, value in zip(then.this.expressions, values, strict=False):
                _set(block, column, value)
        if isinstance(then, (exp.Update, exp.Insert)) and then.find(exp.Star):
            for source in given:  # UPDATE SET *, INSERT *
                block.facts.add("star", block.id, str(index), source)
    finish(block)


def _assign(block: Block, assignments: Iterable[exp.Expr]) -> None:
    for assignment in assignments:
        if isinstance(assignment, exp.EQ):
            left = (
                assignment.this.expressions
                if isinstance(assignment.this, exp.Tuple)
                else [assignment.this]
            )
            for column in left:
                _set(block, column, assignment.expression)


def _set(block: Block, column: exp.Expr, value: exp.Expr) -> None:
    name = block.names.fold(column.this if isinstance(column, exp.Column) else column)
    block.facts.add("output", block.id, name, name)
    block.read(value, name, "value")


def declare(names: Names, node: exp.Create, table: str) -> None:
    """State the columns of a table created without a query."""
    facts = names.facts
    schema = node.this
    listed = schema.expressions if isinstance(schema, exp.Schema) else []
    columns = [
        names.fold(definition.this)
        for definition in listed
        if isinstance(definition, exp.ColumnDef)
    ]
    for index, name in enumerate(columns):
        facts.add("column", table, str(index), name)
    above = list(node.find_all(exp.LikeProperty, exp.PartitionedOfProperty, exp.InheritsProperty))
    copied = [other for property_ in above for other in (property_.this, *property_.expressions)]
    for other in copied:
        if isinstance(other, exp.Table):
            facts.add("like", table, names.mention(other))
    if columns and not copied:
        facts.add("width_of", table, str(len(columns)))
    if not columns and not copied:
        facts.add("formless", table)


def alter(names: Names, node: exp.Alter) -> None:
    """State the columns that ALTER TABLE adds, drops or renames."""
    if not isinstance(node.this, exp.Table) or node.args.get("kind") != "TABLE":
        return
    mention = names.mention(node.this)
    for action in node.args.get("actions") or ():
        if isinstance(action, exp.ColumnDef):
            names.facts.add("added", mention, names.fold(action.this))
        elif isinstance(action, exp.Schema):  # ADD (a INT, b INT)
            for definition in action.expressions:
                if isinstance(definition, exp.ColumnDef):
                    names.facts.add("added", mention, names.fold(definition.this))
        elif isinstance(action, exp.RenameColumn):
            names.facts.add("dropped", mention, names.fold(action.this.this))
            names.facts.add("added", mention, names.fold(action.args["to"].this))
        elif isinstance(action, exp.Drop) and action.args.get("kind") == "COLUMN":
            for column in [action.this, *(action.args.get("tables") or ())]:
                if isinstance(column, exp.Column):
                    names.facts.add("dropped", mention, names.fold(column.this))
