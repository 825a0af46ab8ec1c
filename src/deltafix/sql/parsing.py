"""A text of SQL read: its statements as trees.

sqlglot reads it, in the dialect asked for, with what that lacks (`_parser`). Invariant: a tree says
one thing in one way, whatever it was written as (`_plain` and its like); what cannot be read is an
error with its place and, where a word is missing or another one was meant, that word (`_meant`).
Not here: errors about what was read (`sql.text`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from deltafix.diagnostics import suggest
from deltafix.errors import SqlError, SqlProgrammingError, SqlRefusedError
from deltafix.sql.arguments import Whole, within
from deltafix.sql.elsewhere import instead_of
from deltafix.sql.text import (
    TOO_DEEP,
    KurtosisPop,
    Mad,
    Product,
    Rules,
    Statement,
    data_type,
    error_at,
    exp,
    span_of,
)

__all__ = ["Wrong", "statements"]

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


Wrong: TypeAlias = Callable[[SqlError, str], None]
"""Is told of a statement that cannot be run, with its text."""


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
        raise error_at(SqlProgrammingError, message, span, None, text) from None
    for part in _split(tokens):
        end = part[-1].end + 1
        words = _EXPLAIN.match(text, part[0].start)
        explain = " ".join(words[0].upper().split()) if words else ""
        start = words.end() if words else part[0].start
        if not text[start:end].strip():
            span = span_of(text, part[0].start, end, path)
            raise error_at(SqlProgrammingError, f"{explain} of nothing", span, None, text)
        try:
            other = _elsewhere(text, start, part, explain)
            if other is not None:
                first, last, message, way_out = other
                message = f"{message} is not maintained"
                raise error_at(
                    SqlRefusedError, message, span_of(text, first, last, path), way_out, text
                )
            # Of a statement that begins the text they stand where they do in it.
            tree = _parsed(text, start, end, reader, path, tokens=None if start else part)
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


def _parsed(
    text: str,
    start: int,
    end: int,
    reader: Dialect,
    path: str | None,
    *,
    tokens: list[Token] | None,
) -> exp.Expr:
    words = text[start:end]
    try:
        tree = _tree(words, reader, tokens)
    except RecursionError:
        where = span_of(text, start, end, path)
        raise error_at(SqlProgrammingError, TOO_DEEP[0], where, TOO_DEEP[1], text) from None
    if isinstance(tree, _Wrong):
        token, said, way_out = _meant(words, tree, reader) or (*tree, None)
        where = span_of(text, start + token.start, start + token.end + 1, path)
        raise error_at(SqlProgrammingError, f"syntax: {said}", where, way_out, text)
    if tree is None:
        where = span_of(text, start, end, path)
        raise error_at(SqlProgrammingError, "there is no statement here", where, None, text)
    tree = _queried(normalize_identifiers(tree, dialect=reader))
    # One walk for all: what a step puts into the tree is nothing that the next ones look for, but
    # for names of tables. Copies come last.
    nodes = [*tree.walk()]
    _join_laterals(nodes)
    nodes += _as_arrays(nodes, reader)
    _leave_schemas_out(nodes, reader)
    _take_fields(nodes)
    _write_plainly(nodes)
    return tree


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


def _join_laterals(nodes: Sequence[exp.Expr]) -> None:
    """LATERAL VIEW EXPLODE(array) x AS y becomes CROSS JOIN UNNEST(array) AS x (y)."""
    for select in nodes:
        views = (select.args.get("laterals") or []) if isinstance(select, exp.Select) else []
        if all(type(view.this) is exp.Explode and view.args.get("view") for view in views):
            for view in views:
                item = exp.Unnest(expressions=[view.this.this], alias=view.args.get("alias"))
                kind = {"kind": "CROSS"}
                outer: Any = {"side": "LEFT", "on": exp.true()}
                select.append(
                    "joins", exp.Join(this=item, **(outer if view.args.get("outer") else kind))
                )
            if views:
                select.set("laterals", None)


def _as_arrays(nodes: Sequence[exp.Expr], reader: Dialect) -> list[exp.Expr]:
    """GENERATE_SERIES, and DuckDB's RANGE, in FROM become UNNEST of the array of that name.

    The column has the function's name, in PostgreSQL the table's. There it is one in SELECT, too.
    Returns the names that tables got.
    """
    aliases: list[exp.Expr] = []
    is_postgres = isinstance(reader, Postgres)
    for node in nodes:
        series = node.this if isinstance(node, exp.Table | exp.Lateral) else node
        if not isinstance(series, exp.GenerateSeries):
            continue
        if isinstance(series, exp.ExplodingGenerateSeries):
            array = exp.GenerateSeries(**series.args)
        elif "is_end_exclusive" in series.args:
            array = series
        else:
            continue
        if node is series:
            if node is not array and not isinstance(node.parent, exp.Table | exp.Lateral):
                node.replace(exp.Explode(this=array))
            continue
        name = "range" if series.args.get("is_end_exclusive") else "generate_series"
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name))
        columns = alias.columns or [
            exp.to_identifier(alias.name if is_postgres else name, quoted=is_postgres)
        ]
        offset = node.args.get("ordinality")
        if offset and len(columns) > 1:
            offset = columns.pop()
        alias.set("columns", columns)
        left = {"this", "alias", "ordinality", "view", "outer"}
        rest = {key: value for key, value in node.args.items() if key not in left}
        node.replace(exp.Unnest(expressions=[array], alias=alias, offset=offset, **rest))
        aliases.append(alias)
    return aliases


_SCHEMAS: Final = {"duckdb": "main", "postgres": "public", "spark": "default"}
"""The schema of tables without one."""


def _leave_schemas_out(nodes: Sequence[exp.Expr], reader: Dialect) -> None:
    """`public.t` becomes `t`, and `public.t.a` then `t.a`: the one schema has that name."""
    own = _SCHEMAS[type(reader).__name__.lower()]
    found = set()
    for node in nodes:
        if isinstance(node, exp.Table) and node.db.lower() == own and not node.catalog:
            node.set("db", None)
            found.add(node.name)
    for node in nodes if found else ():
        if isinstance(node, exp.Column) and node.table in found and node.db.lower() == own:
            node.set("db", None)


class _Wrong(NamedTuple):
    """A token that cannot stand where it does, and what is wrong."""

    token: Token
    said: str


def _tree(
    words: str, reader: Dialect, tokens: list[Token] | None = None
) -> exp.Expr | _Wrong | None:
    """The tree of a statement, an ALTER TABLE of several actions action by action.

    Its `tokens` are read where they are not known.
    """
    tokens = reader.tokenize(words) if tokens is None else tokens
    if [token.text.upper() for token in tokens[:2]] == ["START", "TRANSACTION"]:
        at = tokens[0]
        begin = Token(TokenType.BEGIN, at.text, at.line, at.col, at.start, at.end)
        tokens = [begin, *tokens[1:]]
    _require_shallow(tokens, reader.parser_class.TYPE_TOKENS)
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


_NESTED: Final = 12
"""Functions in each other that are called as types are, DATE(x), and `x::INT[...]`, at the most:
sqlglot reads twice what is in one, so 20 of them took a minute."""


def _require_shallow(tokens: Sequence[Token], types: Collection[TokenType]) -> None:
    """Raise RecursionError for more of these functions in each other."""
    opened, depth = [], 0
    for before, token in pairwise(tokens):
        if token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET):
            is_list = token.text == "[" and before.token_type == TokenType.ARRAY
            opened.append(before.token_type in types and not is_list)
            depth += opened[-1]
            if depth > _NESTED:
                raise RecursionError
        elif token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET) and opened:
            depth -= opened.pop()


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


def _take_fields(nodes: Sequence[exp.Expr]) -> None:
    """`s.a`, where no table is called `s`, becomes a field of a column, as `(s).a` is."""
    dotted = [node for node in nodes if isinstance(node, exp.Column) and node.args.get("table")]
    if not dotted:
        return
    tables = {node.name for node in nodes if isinstance(node, (exp.Table, exp.TableAlias))}
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


def _write_plainly(nodes: Sequence[exp.Expr]) -> None:
    """`x NOT LIKE y` becomes NOT around LIKE, as sqlglot writes every other negation.

    And ANY_VALUE, which has no NULLs, loses the words that sqlglot says so with.
    """
    for ignored in nodes:
        if isinstance(ignored, exp.IgnoreNulls) and isinstance(ignored.this, exp.AnyValue):
            ignored.replace(ignored.this)
    negated = [node for node in nodes if node.args.get("negate")]
    for node in reversed(negated):  # inner ones first: the outer one is copied
        node.set("negate", None)
        whole = node.parent if isinstance(node.parent, exp.Escape) else node
        whole.replace(exp.Not(this=whole.copy()))


def _first_line(error: Exception) -> str:
    return str(error).split("\n", maxsplit=1)[0]
