"""A statement of SQL as a tree, and where a node of it stands in the text.

Invariant: every error that a statement causes is made here (`Statement.error`), so it has the place
of the node it is about, a caret, and a way out. Not here: how a text is read (`sql.parsing`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Final

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
from deltafix.sql.elsewhere import FROM_FILES

try:
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
    from sqlglot.tokenizer_core import Token, TokenType

    from deltafix.sql.arguments import Unread, other_than, unread
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
    "error_at",
    "exp",
    "normal_name",
    "shown_name",
    "span_of",
]

DIALECTS: Final = ("duckdb", "postgres", "spark")

OF_WINDOWS: Final = (
    exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile, exp.Lag,
    exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue,
)  # fmt: skip
"""Functions that stand before OVER alone."""


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
        return error_at(kind, message, self.span(node), way_out, self.text)

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
        return error_at(SqlDataError, message, span, way_out, self.text)

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


TOO_DEEP: Final = (
    "this statement is nested too deep",
    "make views of its parts",
)
"""Of what takes more of Python's stack than there is, what is said, and a way out."""


def span_of(text: str, start: int, end: int, path: str | None) -> Span:
    """The range of a text between two offsets, with its line and column."""
    line = text.count("\n", 0, start) + 1
    column = start - (text.rfind("\n", 0, start) + 1) + 1
    return Span(start, end, line, column, path or "<sql>")


def error_at(
    kind: type[SqlError], message: str, span: Span, way_out: str | None, text: str
) -> SqlError:
    """The error for a range of a text."""
    diagnostic = Diagnostic(kind.code, message, span, way_out)
    return kind(render_all([diagnostic], {span.path: text}), [diagnostic])
