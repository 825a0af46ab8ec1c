"""What `*` stands for: which columns, in which order, and what is said of them.

    SELECT * EXCLUDE (a) REPLACE (b + 1 AS b) RENAME (c AS d), COLUMNS('x.*') FROM ...

A `*` with more to it, and COLUMNS, are written out as the columns they are before anything else is
made of a SELECT (`written_out`). Invariant: the order is the dialect's; a column that USING made of
two is there once, in DuckDB where the first of them is, in PostgreSQL and Spark in front.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deltafix.sql.builder import Operand
from deltafix.sql.patterns import RegexError, pattern_of
from deltafix.sql.scope import OUTER, Scope
from deltafix.sql.text import exp

__all__ = ["is_more", "is_star", "meant_in", "picked", "stars", "written_out"]

_SAID = ("except_", "replace", "rename")


def stars(scope: Scope, node: exp.Expr) -> list[tuple[exp.Column, Operand]]:
    """The columns that `*` or `table.*` stands for, as they are named, and their values."""
    table = node.table if isinstance(node, exp.Column) else ""
    aliases = [source.alias for source in scope.sources if source.alias != OUTER]
    if table and table not in aliases:
        of = [s.columns[table].type for s in scope.sources if table in s.columns]
        if any(kind.fields for kind in of):
            shown = ", ".join(f"{table}.{name}" for name, _ in of[0].fields)
            raise scope.statement.refused("the * of a column", node, f"name its fields: {shown}")
        raise scope.statement.unknown("table", table, aliases, node)
    if not aliases:
        raise scope.statement.wrong("* without FROM", node, "name the columns")
    columns: list[tuple[exp.Column, Operand]] = []
    merged = {} if table else scope.merged
    if scope.statement.dialect != "duckdb":
        columns += [(exp.column(name), operand) for name, operand in merged.items()]
    shown_once = {column.name for column, _ in columns}
    for source in scope.sources:
        if source.alias == OUTER or table not in ("", source.alias):
            continue
        for name, operand in source.columns.items():
            if name not in merged or source.alias not in scope.covers[name]:
                columns.append((exp.column(name, source.alias), operand))
            elif name not in shown_once:
                columns.append((exp.column(name), merged[name]))
                shown_once.add(name)
    return columns


def is_star(node: exp.Expr) -> bool:
    """Whether a node is `*` or `table.*`."""
    return isinstance(node, exp.Star) or (
        isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
    )


def shown_name(node: exp.Expr, position: int) -> str:
    """What a column of SELECT is called.

    Its alias; the column, the field or the literal that it is; an aggregate's function; or, of what
    else is computed, its place from 1.
    """
    if node.alias:
        return node.alias
    inner = node
    while isinstance(inner, exp.Filter | exp.WithinGroup | exp.Cast | exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.AggFunc):
        return inner.key
    if type(inner) in {exp.Explode, exp.Unnest}:
        return "unnest"
    if isinstance(inner, exp.Column | exp.Dot) or isinstance(node, exp.Literal):
        return inner.name
    return f"column_{position + 1}"


def written_out(scope: Scope, shown: Sequence[exp.Expr]) -> list[exp.Expr] | None:
    """What is selected, with a column for each that COLUMNS or a `*` with more to it stands for.

    So is a name that an expression before it was given, where it is none of a column; PostgreSQL
    has no such names. None where there is nothing to write out. Raises SqlProgrammingError,
    SqlRefusedError.
    """
    aliased, changed = _aliased(scope, shown)
    if not any(is_more(star) for node in aliased for star in node.find_all(exp.Star, exp.Columns)):
        return aliased if changed else None
    shown, written = aliased, []
    for node in shown:
        inner = node.unalias()
        if is_star(inner):
            written.extend(_star_columns(scope, inner))
        elif node.find(exp.Columns):
            written.extend(_each(scope, node))
        else:
            written.append(node)
    if not written:
        raise scope.statement.wrong("no column is left", shown[0], "leave one in")
    return written


_MOST = 5000
"""So many parts an expression may have when names before are replaced: each use doubles them."""


def _aliased(scope: Scope, shown: Sequence[exp.Expr]) -> tuple[list[exp.Expr], bool]:
    """What is selected, with what names before stand for in their place; whether some do.

    Not inside a subquery, where the columns of what a name stands for could be other ones.
    """
    given: dict[str, exp.Expr] = {}
    sizes: dict[str, int] = {}
    items: list[exp.Expr] = []
    changed = False

    def stands(part: exp.Expr) -> bool:
        if not isinstance(part, exp.Column) or part.table or part.name not in given:
            return False
        return not part.find_ancestor(exp.Query) and scope.here(part) is None

    def instead(part: exp.Expr) -> exp.Expr:
        return given[part.name].copy() if stands(part) else part

    for node in shown:
        alone = node.unalias().copy() if given else node.unalias()  # outside of this SELECT
        size = sum(sizes[part.name] if stands(part) else 1 for part in alone.walk())
        if size > _MOST and given:
            message = f"a SELECT whose names before stand for {size} parts, one in another,"
            way_out = "select the first of them in a subquery: FROM (SELECT ... AS x) AS t"
            raise scope.statement.refused(message, node, way_out)
        sizes[node.alias] = size
        value = node.unalias().transform(instead) if given else node.unalias()
        name = node.alias or (node.name if isinstance(node, exp.Column) else "")
        if value != node.unalias():
            changed = True
            items.append(exp.alias_(value, name, quoted=True) if name else value)
        else:
            items.append(node)
        if node.alias and scope.statement.dialect != "postgres":
            given[node.alias] = exp.Paren(this=value)
    return items, changed


def meant_in(
    scope: Scope,
    condition: exp.Expr,
    shown: Sequence[exp.Expr],
    keys: Sequence[exp.Expr] | None = None,
) -> exp.Expr:
    """A WHERE, or the HAVING of a query grouped by `keys`, with what names of SELECT stand for.

    A column has its name first, in HAVING if it is a key. DuckDB takes such names in both clauses,
    Spark in HAVING, PostgreSQL in neither; not in aggregates, nor in a subquery. The condition
    itself where there are none. Raises SqlProgrammingError for one that is not taken.
    """
    dialect = scope.statement.dialect
    is_taken = dialect == "duckdb" or (dialect == "spark" and keys is not None)
    given = {item.alias: item.unalias() for item in shown if item.alias}  # the last of a name
    scope.given = given

    def stands(part: exp.Column) -> bool:
        if part.table or part.name not in given or given[part.name] == part:
            return False
        if part.find_ancestor(exp.Query, exp.AggFunc, exp.Filter, exp.WithinGroup):
            return False
        if is_taken and keys is not None:
            return scope.qualified(part) not in keys
        return scope.here(part) is None if is_taken else not scope.sees(part)

    def instead(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Column) or not stands(part):
            return part
        meaning = given[part.name]
        if not is_taken:
            clause = "WHERE" if keys is None else "HAVING"
            message = f"unknown column {part.name!r}: {clause} does not see the names of SELECT"
            raise scope.statement.wrong(message, part, f"repeat it: {meaning.sql(dialect)}")
        return meaning.copy() if isinstance(meaning, exp.Column) else exp.Paren(this=meaning.copy())

    if any(column.name in given for column in condition.find_all(exp.Column)):
        transformed = condition.transform(instead)
        return condition if transformed == condition else transformed
    return condition


def is_more(node: exp.Expr) -> bool:
    """Whether a node says which columns there are: COLUMNS, and a `*` with more to it."""
    return isinstance(node, exp.Columns) or any(node.args.get(key) for key in _SAID)


def _star_columns(scope: Scope, node: exp.Expr) -> list[exp.Expr]:
    """A `*` as columns, those that it leaves out, replaces or renames being so."""
    star = node if isinstance(node, exp.Star) else node.this
    columns = [column for column, _ in stars(scope, node)]
    names = [column.name for column in columns]

    def known(named: exp.Expr) -> str:
        if named.name not in names:
            raise scope.statement.unknown("column", named.name, names, named)
        return named.name

    for key in star.args:
        if star.args[key] and key not in _SAID:
            raise scope.statement.refused(f"* {key.upper()}", node, "name the columns")
    replaced, renamed = star.args.get("replace") or (), star.args.get("rename") or ()
    gone = {(known(excluded), _table(excluded)) for excluded in star.args.get("except_") or ()}
    for named in (*(item.args["alias"] for item in replaced), *(item.this for item in renamed)):
        if (known(named), "") in gone:
            raise scope.statement.wrong(f"{named.name!r} is left out", named, "say one of the two")
    instead = {item.alias: item.this for item in replaced}
    called = {item.this.name: item.alias for item in renamed}
    for name in instead:
        if names.count(name) > 1:
            way_out = "write table.* REPLACE (...) for one of them"
            raise scope.statement.wrong(f"{names.count(name)} columns are {name!r}", node, way_out)
    items: list[exp.Expr] = []
    for column in columns:
        name = column.name
        if (name, "") in gone or (name, column.table) in gone:
            continue
        value = instead.get(name, column).copy()
        items.append(exp.alias_(value, called.get(name, name), quoted=True))
    return items


def _table(node: exp.Expr) -> str:
    return node.table if isinstance(node, exp.Column) else ""


def _each(scope: Scope, node: exp.Expr) -> Iterator[exp.Expr]:
    """An expression once for each column that its COLUMNS stands for."""
    first, *others = node.find_all(exp.Columns)
    if any(other != first for other in others):
        way_out = "write them one after another"
        raise scope.statement.refused("two different COLUMNS in one expression", node, way_out)
    for column, name in picked(scope, first):

        def instead(part: exp.Expr, column: exp.Expr = column) -> exp.Expr:
            return column.copy() if isinstance(part, exp.Columns) else part

        value = node.unalias().transform(instead)
        yield exp.alias_(value, node.alias or name, quoted=True)


def picked(scope: Scope, node: exp.Columns) -> list[tuple[exp.Expr, str]]:
    """The columns of COLUMNS(*), of a list, or of a pattern that some part of their name is of."""
    chosen = node.this
    if is_star(chosen):
        return [(item.unalias(), item.alias) for item in _star_columns(scope, chosen)]
    columns = [column for column, _ in stars(scope, exp.Star())]
    names = [column.name for column in columns]
    if isinstance(chosen, exp.Array) and all(literal.is_string for literal in chosen.expressions):
        for literal in chosen.expressions:
            if literal.name not in names:
                raise scope.statement.unknown("column", literal.name, names, literal)
        return [
            (columns[names.index(literal.name)], literal.name) for literal in chosen.expressions
        ]
    if not chosen.is_string:
        way_out = "write COLUMNS(*), COLUMNS('pattern') or COLUMNS(['a', 'b'])"
        raise scope.statement.refused("this COLUMNS", node, way_out)
    try:
        pattern = pattern_of("duckdb", chosen.name).regexp
    except RegexError as error:
        message, way_out = f"no pattern: {error}", "write COLUMNS('a|b')"
        raise scope.statement.wrong(message, chosen, way_out) from None
    matches: list[tuple[exp.Expr, str]] = [
        (column, column.name) for column in columns if pattern.search(column.name)
    ]
    if not matches:
        shown = ", ".join(dict.fromkeys(names))
        raise scope.statement.wrong("no column fits", chosen, f"columns are {shown}")
    return matches
