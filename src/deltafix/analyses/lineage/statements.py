"""From a file's bytes to its statements: decoding, templates, dialect, and one parse for each.

Invariant: a statement that does not parse costs itself only; a file is given up (SqlFileError) when
its bytes are not text, its template computes, its dialect is unknown or it has no tokens' end.
Nothing here knows what a statement means.

dbt's Jinja becomes plain SQL as far as it does not compute: `{{ ref('x') }}` is the table x, `{{
source('a', 'b') }}` the table a.b, `{{ this }}` the model itself, the body of `{% if
is_incremental() %}` counts as written; anything else is refused. Lines stay, so places are true.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from deltafix.diagnostics import suggest

_DIALECT = re.compile(r"^\s*--\s*deltafix:\s*dialect\s*=\s*(\S+)\s*$", re.MULTILINE)
_WORDS = ("WITH", "SELECT", "INSERT", "UPDATE", "MERGE")
_CARRIES = re.compile(rf"\s*({'|'.join(_WORDS)}|create\b[^(]*?\b(view|table))\b", re.IGNORECASE)
_WITH_GO = frozenset({"tsql", "fabric"})
"""Dialects whose scripts are cut by lines that say GO."""
_NONE = (exp.Command, exp.Condition, exp.Alias)
"""What sqlglot takes for a statement that is none, or that it does not read."""
_MODEL_FOLDERS = frozenset({"models", "snapshots"})


class SqlFileError(ValueError):
    """A file that cannot be read as SQL at all; the message says why."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its text and tree, or why there is no tree. `line` counts from 1."""

    ordinal: int
    line: int
    written: str
    tree: exp.Expr | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SqlFile:
    """A file's statements; `model` is the table that its one query defines, for dbt models."""

    dialect: Dialect
    model: str
    statements: tuple[Statement, ...]


def read(path: str, data: bytes) -> SqlFile:
    """The statements of a file. Raises SqlFileError. O(bytes)."""
    if b"\0" in data:
        raise SqlFileError("a binary file")
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise SqlFileError(f"not UTF-8 at byte {error.start}") from None
    template = is_template(text)
    model = PurePosixPath(path).stem if template or is_model(path) else ""
    if template:
        try:
            text = render(text, model)
        except TemplateError as error:
            raise SqlFileError(str(error)) from None
    dialect = _dialect(text)
    return SqlFile(dialect, model, parsed(text, dialect))


def parsed(text: str, dialect: Dialect) -> tuple[Statement, ...]:
    """The statements of a text. Raises SqlFileError where it has no tokens' end."""
    try:
        tokens = dialect.tokenize(text)
    except (SqlglotError, RecursionError) as error:
        raise SqlFileError(_first_line(str(error))) from None
    with _quiet():
        return tuple(_statements(dialect, tokens, text))


def is_model(path: str) -> bool:
    """Whether a file is one of dbt's models, or snapshots, by the folder it is in."""
    return not _MODEL_FOLDERS.isdisjoint(PurePosixPath(path).parts[:-1])


def _dialect(text: str) -> Dialect:
    stated = _DIALECT.search(text)
    try:
        return Dialect.get_or_raise(stated[1].lower() if stated else None)
    except ValueError as error:
        raise SqlFileError(_first_line(str(error))) from None


def _statements(dialect: Dialect, tokens: list[Token], text: str) -> Iterator[Statement]:
    """Cut at semicolons. A body that holds semicolons (of a function) falls into several."""
    chunk: list[Token] = []
    with_go = type(dialect).__name__.lower() in _WITH_GO
    ordinal = 0
    for token in [*tokens, None]:
        if token is not None and token.token_type != TokenType.SEMICOLON:
            alone = not chunk or token.line > chunk[-1].line
            if not (with_go and alone and token.text.upper() == "GO"):
                chunk.append(token)
                continue
        if chunk:
            ordinal += 1
            yield _parse(dialect, ordinal, chunk, text)
        chunk = []


def _parse(dialect: Dialect, ordinal: int, chunk: list[Token], text: str) -> Statement:
    line = chunk[0].line
    written = text[chunk[0].start : chunk[-1].end + 1]
    reason = "syntax that sqlglot does not read"
    try:
        trees = dialect.parser().parse(chunk, text)
    except ParseError as error:
        description = str(error.errors[0].get("description", "")) if error.errors else ""
        reason = description.partition(" but got <")[0] or reason  # a token shows its line
    except RecursionError:
        reason = "nested too deeply"
    except (SqlglotError, ValueError, AttributeError, TypeError, IndexError, KeyError) as error:
        reason = _first_line(str(error)) or reason  # what sqlglot's parser trips over, as fuzzed
    else:
        if len(trees) == 1 and isinstance(trees[0], exp.Expr) and not isinstance(trees[0], _NONE):
            return Statement(ordinal, line, written, trees[0])
    # Other databases have statements of their own, which move no rows; a slip is none of them.
    is_name = chunk[0].token_type == TokenType.VAR
    meant = suggest(chunk[0].text.upper(), (*_WORDS, "CREATE")) if is_name else None
    if meant is not None:
        reason = f"no statement begins with {chunk[0].text}: did you mean {meant}?"
    elif not _CARRIES.match(written):
        reason = ""
    return Statement(ordinal, line, written, None, reason)


def _first_line(message: str) -> str:
    return message.strip().partition("\n")[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep sqlglot's warnings about what it falls back on off standard error: they are reported."""
    here = threading.get_ident()
    logger = logging.getLogger("sqlglot")

    def others(record: logging.LogRecord) -> bool:
        return record.thread != here

    logger.addFilter(others)
    try:
        yield
    finally:
        logger.removeFilter(others)


_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_TEXT = r"""(?:'([^'"]*)'|"([^'"]*)")"""
_VERSION = r"(?:\s*,\s*(?:v|version)\s*=\s*\S+?)?"
_REF = re.compile(rf"ref\(\s*(?:{_TEXT}\s*,\s*)?{_TEXT}{_VERSION}\s*\)")
_SOURCE = re.compile(rf"source\(\s*{_TEXT}\s*,\s*{_TEXT}\s*\)")
_INCREMENTAL = re.compile(r"if\s+is_incremental\(\s*\)")


class TemplateError(ValueError):
    """Jinja that this does not read; the message names it."""


def is_template(text: str) -> bool:
    """Whether the text has any Jinja in it."""
    return "{{" in text or "{%" in text or "{#" in text


def render(text: str, this: str) -> str:
    """The SQL of a template whose own table is `this`. Raises TemplateError."""
    pieces: list[str] = []
    end = 0
    for tag in _TAG.finditer(text):
        pieces += [text[end : tag.start()], _plain(tag[0], this), "\n" * tag[0].count("\n")]
        end = tag.end()
    rest = text[end:]
    if is_template(rest):
        raise TemplateError("a Jinja tag that does not end")
    return "".join([*pieces, rest])


def _plain(tag: str, this: str) -> str:
    body = tag[2:-2].strip("-+ \t\r\n")
    if tag.startswith("{#") or body in ("endif", ""):
        return ""
    if tag.startswith("{%"):
        if _INCREMENTAL.fullmatch(body):
            return ""
    elif body == "this":
        return this
    elif body.startswith("config(") and body.endswith(")"):
        return ""
    elif match := _REF.fullmatch(body):
        return match[3] or match[4]
    elif match := _SOURCE.fullmatch(body):
        return f"{match[1] or match[2]}.{match[3] or match[4]}"
    raise TemplateError(f"Jinja other than ref, source, this and config: {tag[:60]}")
