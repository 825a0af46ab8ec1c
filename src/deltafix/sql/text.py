"""A text of SQL: its statements as trees, and where a node of a tree stands in the text.

sqlglot reads it, in the dialect asked for. Invariant: every error that a statement causes is made
here (`Statement.error`), so it has the place of the node it is about, a caret, and a way out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from deltafix.datalog.load import analyse
from deltafix.diagnostics import Diagnostic, Span, render_all, suggest
from deltafix.errors import (
    MissingDependencyError,
    SqlDataError,
    SqlError,
    SqlIntegrityError,
    SqlOperationalError,
    SqlProgrammingError,
    SqlRefusedError,
)
from deltafix.rules.ast import conjunction
from deltafix.rules.walk import uses
from deltafix.sql.elsewhere import FROM_FILES, instead_of

try:
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import ParseError, SqlglotError
    from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
    from sqlglot.parser import Parser
    from sqlglot.tokenizer_core import Token, TokenType

    from deltafix.sql.arguments import Unread, Whole, other_than, unread, within
except ImportError as error:
    message = "SQL needs sqlglot: pip install 'deltafix[sql]'"
    raise MissingDependencyError(message, extra="sql") from error

__all__ = [
    "DIALECTS",
    "TOO_DEEP",
    "KurtosisPop",
    "Mad",
    "Product",
    "Rules",
    "Statement",
    "cells_of",
    "data_type",
    "exp",
    "normal_name",
    "shown_name",
    "span_of",
    "statements",
]

DIALECTS: Final = ("duckdb", "postgres", "spark")

OF_WINDOWS: Final = (
    exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile, exp.Lag,
    exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue,
)  # fmt: skip
"""Functions that stand before OVER alone."""

_HOW: Final = re.compile(
    r"\s*\(?\s*(ANALYZE|VERBOSE|EXTENDED|CODEGEN|COSTS?|FORMATTED|FORMAT|BUFFERS|QUERY\s+PLAN)\b",
    re.IGNORECASE,
)
"""What other engines take behind EXPLAIN."""

_SEEN: Final = (
    "EXPLAIN alone shows the rules that a query becomes, EXPLAIN WHY the proof of a row; what the "
    "last epoch cost is `engine.last_epoch` of a connection in Python"
)

_EXPLAIN: Final = re.compile(r"EXPLAIN(?:\s+WHY(?:\s+NOT)?)?\b", re.IGNORECASE)


def _of_doubles(kind: type[exp.Expr], args: list[exp.Expr]) -> exp.Expr:
    """FSUM(x), FAVG(x): an aggregate of DOUBLEs, which are exact here anyway."""
    first, *rest = args or [exp.Null()]
    inner = first.expressions[0] if isinstance(first, exp.Distinct) else first
    cast = exp.Cast(this=inner.copy(), to=data_type("DOUBLE"))
    of = exp.Distinct(expressions=[cast]) if isinstance(first, exp.Distinct) else cast
    return kind(this=of, expressions=rest or None)


class Product(exp.Expression, exp.AggFunc):
    """PRODUCT(x), which sqlglot takes for a function that it does not know."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Mad(exp.Expression, exp.AggFunc):
    """MAD, which sqlglot has no node for."""

    arg_types: ClassVar = {"this": True}


class KurtosisPop(exp.Expression, exp.AggFunc):
    """KURTOSIS_POP(x), likewise."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Rules(exp.Expression, exp.Func):
    """RULES $$...$$, what a view is of in place of a query (`sql.rules`): their text, as a literal.

    `expressions` are the tables and views that they read, as far as that can be told of a text
    with errors.
    """

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False}

    @classmethod
    def of(cls, token: Token) -> Rules:
        """Those of a text in quotes."""
        program = analyse(token.text, whole=False).program
        own = {head.relation for rule in program.rules for head in rule.heads}
        atoms = (
            atom
            for rule in program.rules
            for atom, _ in uses(conjunction((*rule.heads, rule.body)))
        )
        read = dict.fromkeys(atom.relation for atom in atoms if atom.relation not in own)
        tables = [exp.Table(this=exp.to_identifier(name, quoted=True)) for name in read]
        node = cls(this=exp.Literal.string(token.text), expressions=tables)
        node.update_positions(token)
        return node


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a text.

    Attributes:
        text: the whole text, for carets.
        start: where the statement begins in it; nodes count from there.
        node: the tree, its names in the dialect's normal case.
        explain: the words before it: "EXPLAIN", "EXPLAIN WHY", "EXPLAIN WHY NOT", or "".
        dialect: where what is written alike means another thing.
        forms: trees of it that nobody uses, to put parameters in (`sql.parameters`).
        literals: where those begin in the tree that another text of it has others of (`sql.again`),
            from `start` on.
        given: what this text has for them.
        moved: gives where the text of the tree has other places: behind its first, by its second.
        form: what the tree is of, if it comes again with other values.
    """

    text: str
    start: int
    end: int
    node: exp.Expr
    explain: str
    path: str | None = None
    dialect: str = "duckdb"
    forms: list[Any] = field(default_factory=list, compare=False, repr=False)
    literals: tuple[int, ...] = ()
    given: tuple[Any, ...] = ()
    moved: Callable[[], Sequence[tuple[int, int]]] = tuple
    form: Any = None

    def on(self, node: exp.Expr, form: Any) -> Statement:
        """The statement with another tree."""
        return Statement(
            self.text, self.start, self.end, node, self.explain, self.path, self.dialect,
            self.forms, self.literals, self.given, self.moved, form,
        )  # fmt: skip

    @property
    def sql(self) -> str:
        """The statement as it was written, without the words of EXPLAIN."""
        return self.text[self.start : self.end].strip()

    @property
    def verb(self) -> str:
        """Its first word, or two where the second says of what, as errors call a statement."""
        words = self.sql.upper().split()
        return " ".join(words[: 2 if words[0] in ("ALTER", "CREATE", "DROP") else 1])

    def span(self, node: exp.Expr | None) -> Span:
        """Where a node stands: from the first to the last of its names and literals.

        Of one without any, where that is which it is part of.
        """
        metas: list[dict[str, int]] = []
        whole = node
        while node is not None and not metas:
            metas = [part.meta for part in node.walk() if "start" in part.meta]
            metas += self._word_of(node, metas)
            node = node.parent
        if not metas:
            words = self.text[self.start : self.end]
            first = self.start + len(words) - len(words.lstrip())
            return span_of(self.text, first, max(first + 1, self.end), self.path)
        first = self._offset(min(meta["start"] for meta in metas))
        last = self._offset(max(meta["end"] for meta in metas) + 1)
        if isinstance(whole, exp.Returning):  # its word has no place in the tree
            word = re.search(r"RETURNING\s+$", self.text[self.start :][:first], re.IGNORECASE)
            first = first if word is None else word.start()
        return span_of(self.text, self.start + first, self.start + last, self.path)

    def word(self, name: str, node: exp.Expr) -> exp.Expr:
        """The last such word in a node behind its first, or the next behind it, or the node itself.

        For what sqlglot notes no place of: the name of a type.
        """
        words, span = self.text[self.start : self.end], self.span(node)
        word = re.compile(rf"\b{re.escape(name)}\b", re.IGNORECASE)
        found = word.search(words, span.end - self.start)
        for inner in word.finditer(words, span.start - self.start + 1, span.end - self.start):
            found = inner
        if found is None:
            return node
        placed = exp.to_identifier(name)
        placed.meta.update(start=found.start(), end=found.end() - 1)
        return placed

    def _offset(self, offset: int) -> int:
        """Where in this text is what is at a place of the tree's."""
        return offset + next((by for end, by in reversed(self.moved()) if end <= offset), 0)

    def _word_of(self, node: exp.Expr, parts: list[dict[str, int]]) -> list[dict[str, int]]:
        """The place of a function's name, where sqlglot notes none: of CURRENT_DATE, and of MAX."""
        if not isinstance(node, exp.Func) or "start" in node.meta:
            return []
        tokens = Dialect.get_or_raise(None).tokenize(self.text[self.start : self.end])
        names = [token for token in tokens if token.text.upper() == node.sql_name()]
        if parts:  # it stands before what it is given
            first = self._offset(min(meta["start"] for meta in parts))
            names = [token for token in names if token.end < first][-1:]
        return [{"start": token.start, "end": token.end} for token in names[:1]]

    def called(self, node: exp.Expr) -> str:
        """What a function is called in the text; another node by its class."""
        if isinstance(node, exp.Anonymous):
            return node.name
        if isinstance(node, exp.Func) and not isinstance(node, exp.Connector):
            words = self.text[self.start : self.end]
            first = node.meta.get("start")
            if first is None:  # it stands before what it is given
                parts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
                before = words[: self._offset(min(parts))] if parts else ""
                match = re.search(r"(\w+)\s*\(\s*(?:DISTINCT\s+)?$", before, re.IGNORECASE)
            else:
                match = re.compile(r"(\w+)\s*\(").match(words, self._offset(first))
            return match[1] if match else node.sql_name()
        return node.key.upper()

    def error(
        self,
        kind: type[SqlError],
        message: str,
        node: exp.Expr | None = None,
        way_out: str | None = None,
    ) -> SqlError:
        """An error about a node (or the whole statement), rendered with its place."""
        return _error(kind, message, self.span(node), way_out, self.text)

    def refused(self, what: str, node: exp.Expr | None, way_out: str) -> SqlRefusedError:
        """The error for a construct that is not maintained."""
        error = self.error(SqlRefusedError, f"{what} is not maintained", node, way_out)
        assert isinstance(error, SqlRefusedError)  # noqa: S101  it was asked for
        return error

    def misplaced(self, node: exp.Expr) -> SqlError:
        """The error for an aggregate, or what counts rows around one, where there are none."""
        if isinstance(node, OF_WINDOWS):
            name = self.called(node)
            way_out = f"write {name}(...) OVER (PARTITION BY ... ORDER BY ...)"
            return self.wrong(f"{name} stands without OVER", node, way_out)
        message = f"{node.sql()} stands where there are single rows"
        return self.wrong(message, node, "aggregates stand in SELECT and HAVING")

    def require_only(self, node: exp.Expr, read: Collection[str]) -> None:
        """Raise SqlRefusedError for what a node says beyond the arguments that are read here."""
        self._require_none(other_than(node, read))

    def require_read(self, beside: Collection[str]) -> None:
        """Raise SqlRefusedError for an argument of a node that nobody reads, but those `beside`."""
        self._require_none(unread(self.node, beside))

    def require_columns(self) -> None:
        """Raise SqlProgrammingError for a SELECT of nothing, which PostgreSQL alone has."""
        if self.dialect == "postgres" or not _BARE.search(self.sql):
            return  # a large INSERT is not looked through
        for select in self.node.find_all(exp.Select):
            if not select.expressions:
                way_out = "name columns, or write SELECT * FROM ..."
                raise self.wrong("SELECT without columns", select, way_out)

    def _require_none(self, unread: Unread | None) -> None:
        if unread is not None:
            of = unread.node
            if isinstance(of, exp.Table) and of.name.lower() in _ENDINGS and of.db:
                raise self.unknown("table", f"{of.db}.{of.name}", (), of)
            is_named = isinstance(of, exp.Func) and not isinstance(of, exp.Connector)
            what = f"{self.called(of)} with {unread.word}" if is_named else unread.word
            raise self.refused(what, unread.anchor, unread.way_out)

    def unknown(
        self, what: str, name: str, known: Sequence[str], node: exp.Expr | None
    ) -> SqlError:
        """The error for a name that nothing has."""
        if what == "table" and name.lower().rpartition(".")[2] in _ENDINGS:
            message = f"{name!r} is a file, and queries read tables"
            return self.error(SqlProgrammingError, message, node, FROM_FILES)
        close = suggest(name, known)
        listed = ", ".join(sorted(known)[:20])
        listed += f" and {len(known) - 20} others" if len(known) > 20 else ""
        way_out = f"did you mean {close!r}?" if close else f"there is: {listed}"
        if not known:
            way_out = f"there is no {what} yet" if what != "column" else "there is no FROM here"
        if isinstance(node, exp.Column) and node.this.args.get("quoted") and not node.table:
            way_out += f"; a text takes single quotes: '{name}'"
        return self.error(SqlProgrammingError, f"unknown {what} {name!r}", node, way_out)

    def wrong(self, message: str, node: exp.Expr | None, way_out: str) -> SqlError:
        """The error for types or names that do not fit."""
        return self.error(SqlProgrammingError, message, node, way_out)

    def position(self, node: exp.Expr, clause: str, count: int) -> int | None:
        """From 0, which of the selected columns a number in a clause is; None for other nodes.

        Raises SqlProgrammingError if there are fewer.
        """
        if not isinstance(node, exp.Literal) or node.is_string:
            return None
        if not node.is_int:
            message = f"{clause} {node.this}: it is no column, and a place is a whole number"
            raise self.wrong(message, node, "name a column, or count them from 1")
        ordinal = int(node.this)
        if not 1 <= ordinal <= count:
            message = f"{clause} {node.this}, but {count} columns are selected"
            raise self.wrong(message, node, "count them from 1")
        return ordinal - 1

    def _suspect(self, message: str) -> exp.Expr | None:
        """What of the statement alone can be what a message is about; None if there are several."""
        if ", in view " in message:
            return None
        if message.startswith("division by zero"):
            found: list[exp.Expr] = [*self.node.find_all(exp.Div, exp.IntDiv, exp.Mod)]
        else:
            of_text = re.match("'.*' is no ([a-z]+|[A-Z]+)", message, re.DOTALL)
            if of_text is None:
                return None
            casts = [cast for cast in self.node.find_all(exp.Cast) if type(cast) is exp.Cast]
            is_whole, kinds = of_text[1] == "whole", exp.DataType.INTEGER_TYPES
            found = [cast for cast in casts if (cast.to.this in kinds) is is_whole]
        return found[0] if len(found) == 1 else None

    def data(
        self, message: str, node: exp.Expr | None = None, way_out: str | None = None
    ) -> SqlError:
        """The error for a value that its type does not hold.

        Without a node, and about a text that stands once in the statement, it is about that; else
        about the one CAST or division that may have said so.
        """
        error = self.error(SqlDataError, message, node or self._suspect(message), way_out)
        about = re.match("'[^']*'(?= is no )", message) if node is None else None
        words = self.text[self.start : self.end]
        if about is None or words.count(about[0]) != 1:
            return error
        start = self.start + words.index(about[0])
        span = span_of(self.text, start, start + len(about[0]), self.path)
        return _error(SqlDataError, message, span, way_out, self.text)

    def integrity(
        self,
        message: str,
        way_out: str | None = None,
        rows: tuple[int, ...] = (),
        node: exp.Expr | None = None,
    ) -> SqlIntegrityError:
        """The error for a row that breaks a constraint; `rows` are places among those added."""
        error = self.error(SqlIntegrityError, message, node, way_out)
        assert isinstance(error, SqlIntegrityError)  # noqa: S101  it was asked for
        error.rows = rows
        return error

    def operational(self, message: str, way_out: str | None = None) -> SqlError:
        """The error for a statement out of turn."""
        return self.error(SqlOperationalError, message, None, way_out)


_ENDINGS: Final = frozenset(("csv", "json", "parquet"))
"""Of files that others read as tables."""

_BARE: Final = re.compile(
    r"\bSELECT(?:\s+(?:DISTINCT|ALL))?\s*(?:(?:FROM|WHERE|GROUP|UNION|LIMIT|ORDER)\b|[;)]|$)",
    re.IGNORECASE,
)
"""A SELECT that may be without columns."""

Wrong: TypeAlias = Callable[[SqlError, str], None]
"""Is told of a statement that cannot be run, with its text."""


@cache
def _built(kind: str) -> exp.Expr:
    return exp.DataType.build(kind)


def data_type(kind: str) -> exp.Expr:
    """A type, by its name, as a part of a tree."""
    built = _built(kind)
    sizes = built.expressions
    if not all(isinstance(size, exp.DataTypeParam) for size in sizes):
        return built.copy()
    # Copied as a tree, the type of a parameter cost more than its value.
    fresh = [exp.DataTypeParam(this=exp.Literal.number(size.name)) for size in sizes]
    return exp.DataType(**{**built.args, "expressions": fresh or None})


def statements(
    text: str,
    dialect: str,
    path: str | None = None,
    wrong: Wrong | None = None,
    beside: Collection[str] = (),
) -> Iterator[Statement]:
    """The statements of a text, one after another, each parsed when its turn comes.

    Raises SqlProgrammingError for text that is no SQL, SqlRefusedError for what nobody reads of it,
    but arguments `beside`, which the caller does; of one statement `wrong` is told instead.
    """
    reader = Dialect.get_or_raise(dialect)
    try:
        tokens = reader.tokenize(text)
    except SqlglotError as error:
        mark, offset = _unclosed(text, reader)
        span = span_of(text, offset, offset + 1, path)
        message = f"syntax: {mark} is not closed" if mark else _first_line(error)
        raise _error(SqlProgrammingError, message, span, None, text) from None
    for part in _split(tokens):
        end = part[-1].end + 1
        words = _EXPLAIN.match(text, part[0].start)
        explain = " ".join(words[0].upper().split()) if words else ""
        start = words.end() if words else part[0].start
        if not text[start:end].strip():
            span = span_of(text, part[0].start, end, path)
            raise _error(SqlProgrammingError, f"{explain} of nothing", span, None, text)
        try:
            other = _elsewhere(text, start, part, explain)
            if other is not None:
                first, last, message, way_out = other
                message = f"{message} is not maintained"
                raise _error(
                    SqlRefusedError, message, span_of(text, first, last, path), way_out, text
                )
            tree = _parsed(text, start, end, reader, path)
            statement = Statement(text, start, end, tree, explain, path, dialect)
            statement.require_read(beside)
            statement.require_columns()
        except SqlError as error:
            if wrong is None:
                raise
            wrong(error, text[start:end])
        else:
            yield statement


def _elsewhere(
    text: str, start: int, tokens: Sequence[Token], explain: str
) -> tuple[int, int, str, str] | None:
    """Of what only other databases take: where it stands, what it is, and what to do instead."""
    if explain:
        how = _HOW.match(text, start) if explain == "EXPLAIN" else None
        return (
            None if how is None else (how.start(1), how.end(), f"EXPLAIN {how[1].upper()}", _SEEN)
        )
    advice = instead_of([token.text for token in tokens[:3]])
    if advice is None:
        return None
    verb, way_out = advice
    return start, tokens[verb.count(" ")].end + 1, f"the statement {verb}", way_out


def cells_of(node: exp.Values) -> Iterator[Sequence[exp.Expr]]:
    """The cells of each row of VALUES."""
    for row in node.expressions:
        yield row.expressions if isinstance(row, exp.Tuple) else [row]


@cache
def shown_name(name: str, dialect: str) -> str:
    """A table's or column's name as the dialect writes it: in quotes where it must be."""
    plain = re.fullmatch("[a-z_][a-z0-9_]*", name) is not None
    if plain:
        tokens = Dialect.get_or_raise(dialect).tokenize(name)
        plain = [token.token_type for token in tokens] == [TokenType.VAR]
    return exp.to_identifier(name, quoted=not plain).sql(dialect)


def normal_name(name: str, dialect: str) -> str:
    """A name that is written in quotes, in the dialect's normal case."""
    identifier = normalize_identifiers(exp.to_identifier(name, quoted=True), dialect=dialect)
    return identifier.name


def _unclosed(text: str, reader: Dialect) -> tuple[str, int]:
    """The mark that opens what has no end, and where it stands: the last one outside of others."""
    for mark in reversed([*re.finditer(r"'|\"|`|\$\$|/\*", text)]):
        try:
            reader.tokenize(text[: mark.start()])
        except SqlglotError:
            continue
        return mark[0], mark.start()
    return "", 0


def _split(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The tokens of each statement."""
    part: list[Token] = []
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            if part:
                yield part
            part = []
        else:
            part.append(token)
    if part:
        yield part


TOO_DEEP: Final = (
    "this statement is nested too deep",
    "make views of its parts",
)
"""Of what takes more of Python's stack than there is, what is said, and a way out."""


def _parsed(text: str, start: int, end: int, reader: Dialect, path: str | None) -> exp.Expr:
    words = text[start:end]
    try:
        tree = _tree(words, reader)
    except RecursionError:
        where = span_of(text, start, end, path)
        raise _error(SqlProgrammingError, TOO_DEEP[0], where, TOO_DEEP[1], text) from None
    if isinstance(tree, _Wrong):
        token, said, way_out = _meant(words, tree, reader) or (*tree, None)
        where = span_of(text, start + token.start, start + token.end + 1, path)
        raise _error(SqlProgrammingError, f"syntax: {said}", where, way_out, text)
    if tree is None:
        where = span_of(text, start, end, path)
        raise _error(SqlProgrammingError, "there is no statement here", where, None, text)
    tree = _joined(_queried(normalize_identifiers(tree, dialect=reader)))
    return _with_fields(_plain(_as_arrays(tree)))


def _queried(tree: exp.Expr) -> exp.Expr:
    """A PIVOT or UNPIVOT that is a statement, or what a view is of, as the query that it is."""
    inside = tree.args.get("expression") if isinstance(tree, exp.Create | exp.Insert) else None
    if inside is not None and isinstance(inside.unnest(), exp.Pivot):
        tree.set("expression", _queried(inside.unnest()))
    if not isinstance(tree, exp.Pivot):
        return tree
    with_ = tree.args.pop("with_", None)
    source = exp.From(this=exp.Subquery(this=tree))
    return exp.Select(expressions=[exp.Star()], from_=source, with_=with_)


def _joined(tree: exp.Expr) -> exp.Expr:
    """The tree with LATERAL VIEW EXPLODE(array) x AS y as CROSS JOIN UNNEST(array) AS x (y)."""
    for select in tree.find_all(exp.Select):
        views = select.args.get("laterals") or []
        if all(type(view.this) is exp.Explode and view.args.get("view") for view in views):
            select.set("laterals", None)
            for view in views:
                item = exp.Unnest(expressions=[view.this.this], alias=view.args.get("alias"))
                kind = {"kind": "CROSS"}
                outer: Any = {"side": "LEFT", "on": exp.true()}
                select.append(
                    "joins", exp.Join(this=item, **(outer if view.args.get("outer") else kind))
                )
    return tree


def _as_arrays(tree: exp.Expr) -> exp.Expr:
    """The tree with DuckDB's GENERATE_SERIES and RANGE in FROM as UNNEST of the array of that name.

    The column has the function's name.
    """
    for table in list(tree.find_all(exp.Table)):
        series = table.this
        if not isinstance(series, exp.GenerateSeries) or "is_end_exclusive" not in series.args:
            continue
        name = "range" if series.args["is_end_exclusive"] else "generate_series"
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name))
        if not alias.columns:
            alias.set("columns", [exp.to_identifier(name)])
        rest = {key: value for key, value in table.args.items() if key not in ("this", "alias")}
        table.replace(exp.Unnest(expressions=[series], alias=alias, **rest))
    return tree


class _Wrong(NamedTuple):
    """A token that cannot stand where it does, and what is wrong."""

    token: Token
    said: str


def _tree(words: str, reader: Dialect) -> exp.Expr | _Wrong | None:
    """The tree of a statement, an ALTER TABLE of several actions action by action."""
    tokens = reader.tokenize(words)
    head, actions = _actions(tokens)
    if len(actions) < 2:
        return _read(words, tokens, reader)
    whole: Any = None
    for action in actions:
        tree: Any = _read(words, [*head, *action], reader)
        if not isinstance(tree, exp.Alter):
            return tree  # type: ignore[no-any-return]
        if whole is None:
            whole = tree
        else:
            whole.set("actions", [*whole.args["actions"], *tree.args["actions"]])
    return whole  # type: ignore[no-any-return]


_OPENING: Final = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING: Final = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)


def _actions(tokens: list[Token]) -> tuple[list[Token], list[list[Token]]]:
    """What an ALTER TABLE begins with, and its actions; none for any other statement.

    sqlglot reads several only where they are of one kind.
    """
    if [token.token_type for token in tokens[:2]] != [TokenType.ALTER, TokenType.TABLE]:
        return tokens, []
    depth, angles, actions, start = 0, 0, list[list[Token]](), 2
    while start < len(tokens) and tokens[start].text.upper() in ("IF", "EXISTS", "ONLY"):
        start += 1
    while start + 2 < len(tokens) and tokens[start + 1].token_type == TokenType.DOT:
        start += 2
    start += 1
    for token in tokens[start:]:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if not depth and not token.text.strip("<>"):  # of a type, ARRAY<STRUCT<a: INT, b: INT>>
            angles += token.text.count("<") - token.text.count(">")
        if token.token_type == TokenType.COMMA and not depth and not angles:
            actions.append([])
        elif not actions:
            actions.append([token])
        else:
            actions[-1].append(token)
    return tokens[:start], actions


def _read(words: str, tokens: list[Token], reader: Dialect) -> exp.Expr | _Wrong | None:
    reader.INDEX_OFFSET = 0  # of this object
    try:
        (tree,) = _parser(reader.parser_class)(dialect=reader).parse(tokens, words)
    except ParseError as error:
        details = error.errors[0] if error.errors else {}
        location = details.get("line"), details.get("col")
        token = next((token for token in tokens if (token.line, token.col) == location), tokens[-1])
        message = str(details.get("description") or _first_line(error)).partition(" but got <")[0]
        if "<class" in message:
            message = "something is missing here"
        elif "Unexpected" in message:
            message = f"{token.text!r} is not expected here"
        return _Wrong(token, message)
    return tree


def _all_of_it(parse: Callable[[Any], Any], parser: Any) -> Any:
    """The node of a function that has a grammar of its own, with all its arguments."""
    parser._given = []
    node = parse(parser)
    if isinstance(node, exp.Expr):
        within(node, parser._given)
    return node


@cache
def _parser(base: type[Parser]) -> type[Parser]:
    """A dialect's parser, but for what it does with a statement that it does not understand.

    It logs a warning, and takes the statement for a command, whatever is in it: of a table or view,
    that is a syntax error here, at the token where it gave up. And `a[:n]` is a slice to a column,
    where sqlglot reads a parameter; `ADD CHECK (...)`, PRODUCT, EVERY and the like are understood.
    Parameters and NULL have their places, which it does not note, and places in arrays are as they
    are written, with the number of the first as `offset`: it counts from 0 those that it takes for
    numbers. The text of an INTERVAL stays: it takes the first number and word in it for the whole.
    RULES and a text may stand for the query of a view, and aggregates in USING KEY.
    """

    class Strict(base):  # type: ignore[misc,valid-type]  # a class that is known when it is asked for
        _is_part = False
        FUNCTIONS: ClassVar = {
            **{name: Whole(make) for name, make in base.FUNCTIONS.items()},
            "PRODUCT": Product.from_arg_list,
            "COUNT_STAR": lambda args: exp.Count(this=exp.Star(), expressions=args),
            **dict.fromkeys(
                ("FSUM", "KAHAN_SUM", "SUMKAHAN"), lambda args: _of_doubles(exp.Sum, args)
            ),
            "FAVG": lambda args: _of_doubles(exp.Avg, args),
            "KURTOSIS_POP": KurtosisPop.from_arg_list,
            "MAD": Mad.from_arg_list,
            "EVERY": exp.LogicalAnd.from_arg_list,
            "MEAN": exp.Avg.from_arg_list,
            "STD": exp.Stddev.from_arg_list,
        }
        PRIMARY_PARSERS: ClassVar = {
            **base.PRIMARY_PARSERS,
            TokenType.NULL: lambda _, token: exp.Null().update_positions(token),
        }

        FUNCTION_PARSERS: ClassVar = {
            name: partial(_all_of_it, parse) for name, parse in base.FUNCTION_PARSERS.items()
        }
        _given: list[Any] | None = None
        """The arguments of a function of those, so far; None within another one."""

        def _parse_function_call(self, *args: Any, **more: Any) -> Any:
            outer, self._given = self._given, None
            try:
                return super()._parse_function_call(*args, **more)
            finally:
                self._given = outer

        def _parse_function_args(self, alias: bool = False) -> Any:
            arguments = super()._parse_function_args(alias)
            if self._given is not None:
                self._given += arguments
            return arguments

        def _parse_bracket(self, this: Any = None) -> Any:
            if isinstance(this, exp.Bracket) and "offset" not in this.args:
                this.set("offset", type(self.dialect).INDEX_OFFSET)
            outer, self._is_part = self._is_part, this is not None
            try:
                return super()._parse_bracket(this)
            finally:
                self._is_part = outer

        def _parse_bracket_key_value(self, is_map: bool = False) -> Any:
            if self._is_part and self._curr and self._curr.token_type == TokenType.COLON:
                return self._parse_slice(None)
            return super()._parse_bracket_key_value(is_map)

        def _parse_placeholder(self) -> Any:
            first, placeholder = self._curr, super()._parse_placeholder()
            if isinstance(placeholder, exp.Placeholder):
                placeholder.update_positions(start=first.start, end=self._prev.end)
            return placeholder

        def _parse_expression(self) -> Any:
            # `a: 1` is `1 AS a` in DuckDB; in `SELECT :a`, `NOT :a`, `CASE :a` nothing has a name.
            if self._next and self._next.token_type == TokenType.COLON:
                first = self._curr.token_type
                named = first in self.ID_VAR_TOKENS or first == TokenType.STRING
                if first == TokenType.CASE or not named:
                    return Parser._parse_expression(self)
            return super()._parse_expression()

        def _parse_interval_span(self, this: Any, parse_function_unit: bool = True) -> Any:
            interval = super()._parse_interval_span(this, parse_function_unit)
            if this.is_string and interval.name != this.name:
                interval.set("this", this)
                interval.set("unit", None)
            return interval

        def _parse_wrapped_id_vars(self, optional: bool = False) -> Any:
            words = [
                token.text.upper() for token in self._tokens[max(self._index - 2, 0) : self._index]
            ]
            if words != ["USING", "KEY"]:
                return super()._parse_wrapped_id_vars(optional)
            return self._parse_wrapped_csv(
                lambda: self._parse_alias(self._parse_function() or self._parse_id_var())
            )

        def _parse_alter_table_add(self) -> Any:
            if self._match_text_seq("CHECK", advance=False):
                return [exp.AddConstraint(expressions=[self._parse_constraint()])]
            return super()._parse_alter_table_add()

        def _parse_ddl_select(self) -> Any:
            if self._match_text_seq("RULES"):
                if not self._match_set((TokenType.HEREDOC_STRING, TokenType.STRING)):
                    self.raise_error("Expecting the rules, as a text")
                return Rules.of(self._prev)
            if self._match_set((TokenType.PIVOT, TokenType.UNPIVOT)):
                is_unpivot = self._prev.token_type == TokenType.UNPIVOT
                return self._parse_simplified_pivot(is_unpivot=is_unpivot)
            return super()._parse_ddl_select()

        def _warn_unsupported(self) -> None:
            pass

        def _parse_as_command(self, start: Token) -> exp.Command:
            first = {token.token_type for token in self._tokens[:_WORDS_OF_CREATE]}
            if start.token_type == TokenType.CREATE and first & {TokenType.TABLE, TokenType.VIEW}:
                self.raise_error("Invalid expression / Unexpected token")
            command: exp.Command = super()._parse_as_command(start)
            return command

    return Strict


_WORDS_OF_CREATE: Final = 5
"""CREATE OR REPLACE TEMPORARY TABLE."""

_KEYWORDS: Final = (
    "BETWEEN", "CREATE", "DELETE", "DISTINCT", "EXCEPT", "EXISTS", "FROM", "GROUP", "HAVING",
    "INSERT", "INTERSECT", "INTO", "JOIN", "LEFT", "LIMIT", "MATERIALIZED", "MERGE", "ORDER",
    "PRIMARY", "RECURSIVE", "RIGHT", "SELECT", "TABLE", "UNION", "UPDATE", "USING", "VALUES",
    "VIEW", "WHERE", "WITH",
)  # fmt: skip

_FORGOTTEN: Final = {
    "SET": re.compile(r"\s*UPDATE\b", re.IGNORECASE),
    "VALUES": re.compile(r"\s*INSERT\b", re.IGNORECASE),
    "BY": re.compile(r".*\b(?:GROUP|ORDER|PARTITION)\s+\Z", re.IGNORECASE | re.DOTALL),
    "ON": re.compile(r".*\bJOIN\b[^()]*\Z", re.IGNORECASE | re.DOTALL),
}
"""Keywords that may have been left out, and what stands before them then."""

_OTHERWISE: Final = {
    "#": "a comment begins with --",
    "`": 'a name stands in double quotes: "name"',
    "TOP": "write LIMIT and the number at the end",
}
"""What other databases write."""

_NEAR: Final = 3
"""A mistyped word is looked for so many tokens before the one that cannot stand where it does."""


def _meant(words: str, wrong: _Wrong, reader: Dialect) -> tuple[Token, str, str] | None:
    """The mistyped keyword behind a syntax error: with it mended, the text is SQL beyond there."""
    tokens = reader.tokenize(words)
    index = next(n for n, token in enumerate(tokens) if token.start == wrong.token.start)
    for token in reversed(tokens[max(0, index - _NEAR) : index + 1]):
        keyword = suggest(token.text.upper(), _KEYWORDS)
        if token.token_type == TokenType.VAR and keyword:
            tree = _tree(f"{words[: token.start]}{keyword}{words[token.end + 1 :]}", reader)
            moved = token.start + len(keyword) - (token.end + 1)
            if not isinstance(tree, _Wrong) or tree.token.start > wrong.token.start + moved:
                return token, f"{token.text!r} is not understood here", f"did you mean {keyword}?"
    for token in reversed(tokens[max(0, index - _NEAR) : index + 1]):
        if token.text.upper() in _OTHERWISE:
            return *wrong, _OTHERWISE[token.text.upper()]
        before = words[: token.start]
        for keyword in (one for one, behind in _FORGOTTEN.items() if behind.match(before)):
            tree = _tree(f"{words[: token.start]}{keyword} {words[token.start :]}", reader)
            if not isinstance(tree, _Wrong | exp.Command) and tree is not None:
                way_out = f"is {keyword} missing before {token.text!r}?"
                return *wrong, way_out
    return None


def _plain(tree: exp.Expr) -> exp.Expr:
    """The tree with `x NOT LIKE y` as NOT around LIKE, as sqlglot writes every other negation.

    And ANY_VALUE, which has no NULLs, without the words that sqlglot says so with.
    """
    for ignored in [*tree.find_all(exp.IgnoreNulls)]:
        if isinstance(ignored.this, exp.AnyValue):
            ignored.replace(ignored.this)
    negated = [node for node in tree.walk() if node.args.get("negate")]
    for node in reversed(negated):  # inner ones first: the outer one is copied
        node.set("negate", None)
        whole = node.parent if isinstance(node.parent, exp.Escape) else node
        whole.replace(exp.Not(this=whole.copy()))
    return tree


def _with_fields(tree: exp.Expr) -> exp.Expr:
    """The tree with `s.a`, where no table is called `s`, as a field of a column, as `(s).a` is."""
    dotted = [column for column in tree.find_all(exp.Column) if column.args.get("table")]
    if not dotted:
        return tree
    tables = {table.name for table in tree.find_all(exp.Table, exp.TableAlias)}
    tables |= {"excluded", "unnest"}
    for node in dotted:
        first, *rest = node.parts
        if isinstance(node.this, exp.Star):
            continue
        table = first if first.name in tables else None
        path: exp.Expr = exp.Column(this=rest.pop(0) if table else first, table=table)
        if rest:
            for name in rest:
                path = exp.Dot(this=path, expression=name)
            path.meta["column"] = node.copy()
            node.replace(path)
    return tree


def _first_line(error: Exception) -> str:
    return str(error).split("\n", maxsplit=1)[0]


def span_of(text: str, start: int, end: int, path: str | None) -> Span:
    """The range of a text between two offsets, with its line and column."""
    line = text.count("\n", 0, start) + 1
    column = start - (text.rfind("\n", 0, start) + 1) + 1
    return Span(start, end, line, column, path or "<sql>")


def _error(
    kind: type[SqlError], message: str, span: Span, way_out: str | None, text: str
) -> SqlError:
    diagnostic = Diagnostic(kind.code, message, span, way_out)
    return kind(render_all([diagnostic], {span.path: text}), [diagnostic])
