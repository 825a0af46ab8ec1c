r"""Functions of regular expressions, as each dialect has them: `~`, REGEXP_REPLACE and the like.

A form takes what stands behind the text, and gives a function of the text; where that is constants
it is made once, when the statement is, and what is wrong with a pattern has its place. Invariant:
no search takes more than time linear in what it searches, whatever the pattern says. How patterns
are read is `sql.patterns`'. Inside, all is UTF-8, as RE2 has it; values are texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from deltafix.sql.literals import Scalar, constant, strict
from deltafix.sql.patterns import Pattern, RegexError, Use, pattern_of
from deltafix.sql.text import exp
from deltafix.sql.types import BIGINT, BOOLEAN, NULL, TEXT, SqlType, array_type

if TYPE_CHECKING:
    from deltafix.sql.scalar import Scalars

__all__ = ["NODES", "compiled", "named"]

Compute: TypeAlias = Callable[[str], Any]
_Replacement: TypeAlias = Sequence["bytes | int"]


def _matches(regexp: Any, data: bytes, *, touching: bool = True) -> Iterator[Any]:
    """Where a pattern is found, from left to right; if `touching`, an empty one behind another."""
    at, last = 0, -1
    while at <= len(data):
        match = regexp.search(data, at)
        if match is None:
            return
        start, end = match.span()
        if touching or end > start or start != last:
            yield match
            last = end
        at = _after(data, end) if end == start else end


def _after(data: bytes, at: int) -> int:
    """Where the character at a place ends."""
    at += 1
    while at < len(data) and data[at] & 0xC0 == 0x80:
        at += 1
    return at


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def _group(number: int, pattern: Pattern) -> int:
    if not 0 <= number <= pattern.regexp.groups:
        raise RegexError(f"group {number} of a pattern with {pattern.regexp.groups} of them")
    return number


def _replaced(
    pattern: Pattern, put: _Replacement, *, once: bool = False, touching: bool = True
) -> Compute:
    for part in put:
        if isinstance(part, int):
            _group(part, pattern)

    def compute(text: str) -> str:
        data = text.encode()
        parts: list[bytes] = []
        end = 0
        for match in _matches(pattern.regexp, data, touching=touching):
            parts.append(data[end : match.start()])
            parts += [part if isinstance(part, bytes) else match[part] or b"" for part in put]
            end = match.end()
            if once:
                break
        parts.append(data[end:])
        return b"".join(parts).decode()

    return compute


def _test(pattern: Pattern, name: str = "search") -> Compute:
    test = getattr(pattern.regexp, name)
    if not pattern.breaks:
        return lambda text: test(text.encode()) is not None

    def compute(text: str) -> bool:
        if test(text.encode()) is not None:
            return True
        shorter = text[:-2] if text.endswith("\r\n") else text[:-1]
        return text[-1:] in _BREAKS and test(shorter.encode()) is not None

    return compute


_BREAKS: Final = ("\n", "\r", "\x85", "\u2028", "\u2029")
"""What ends a line in Java."""


# --- DuckDB --------------------------------------------------------------------------------------


def _duck_rewriting(text: str) -> _Replacement:
    r"""RE2's own: `\0` is the whole, `\1` to `\9` are groups."""
    parts = re.split(r"\\(.?)", text, flags=re.DOTALL)
    for mark in parts[1::2]:
        if mark != "\\" and not (mark.isascii() and mark.isdigit()):
            raise RegexError(f"`\\{mark}` in what is put in its place; write \\0 to \\9, or \\\\")
    return [
        int(part) if index % 2 and part != "\\" else part.encode()
        for index, part in enumerate(parts)
    ]


def _duck_replace(pattern: str, put: str, options: str = "") -> Compute:
    compiled = pattern_of("duckdb", pattern, options.replace("g", ""))
    return _replaced(compiled, _duck_rewriting(put), once="g" not in options, touching=False)


def _duck_extract(pattern: str, group: int, options: str = "") -> Compute:
    regexp = pattern_of("duckdb", pattern, options).regexp
    if not 0 <= group <= 9:
        raise RegexError(f"group {group}: they are 0 to 9")

    def compute(text: str) -> str:
        match = regexp.search(text.encode()) if group <= regexp.groups else None
        return "" if match is None else (match[group] or b"").decode()

    return compute


def _all_of(pattern: Pattern, group: int, missing: str | None) -> Compute:
    _group(group, pattern)

    def compute(text: str) -> tuple[str | None, ...]:
        matches = _matches(pattern.regexp, text.encode())
        return tuple(
            missing if match[group] is None else match[group].decode() for match in matches
        )

    return compute


def _duck_split(pattern: str, options: str = "") -> Compute:
    regexp = pattern_of("duckdb", pattern, options).regexp

    def compute(text: str) -> tuple[str, ...]:
        data, parts, at = text.encode(), [], 0
        while at < len(data):
            match = regexp.search(data, at)
            if match is None:
                break
            start, end = match.span()
            if start == end == at:  # one character, though it may be found within
                start = end = _after(data, at)
                if end == len(data):
                    break
            parts.append(data[at:start].decode())
            at = end
        return (*parts, data[at:].decode())

    return compute


# --- PostgreSQL ----------------------------------------------------------------------------------


def _postgres_rewriting(text: str) -> _Replacement:
    r"""`\&` is the whole, `\1` to `\9` are groups; another backslash is one."""
    parts: list[bytes | int] = []
    for token in re.findall(r"\\[1-9]|\\&|\\\\|[^\\]+|\\", text):
        if token[0] != "\\" or token in ("\\", "\\\\"):
            parts.append((token if len(token) < 2 or token[0] != "\\" else "\\").encode())
        else:
            parts.append(0 if token[1] == "&" else int(token[1]))
    return parts


def _postgres_replace(pattern: str, put: str, flags: str = "") -> Compute:
    rewriting = _postgres_rewriting(put)
    groups = any(isinstance(part, int) and part for part in rewriting)
    use = Use.GROUPS if groups else Use.WHOLE
    compiled = pattern_of("postgres", pattern, flags.replace("g", ""), use)
    return _replaced(compiled, rewriting, once="g" not in flags)


def _postgres_groups(pattern: str, flags: str = "") -> Compute:
    regexp = pattern_of("postgres", pattern, flags, Use.WHOLE).regexp
    if regexp.groups:
        regexp = pattern_of("postgres", pattern, flags, Use.GROUPS).regexp

    def compute(text: str) -> tuple[str | None, ...] | None:
        match = regexp.search(text.encode())
        if match is None:
            return None
        return tuple(map(_text, match.groups() if regexp.groups else (match[0],)))

    return compute


def _postgres_first(pattern: str) -> Compute:
    groups = _postgres_groups(pattern)

    def compute(text: str) -> str | None:
        captures: tuple[str | None, ...] | None = groups(text)
        return None if captures is None else captures[0]

    return compute


def _postgres_split(pattern: str, flags: str = "") -> Compute:
    regexp = pattern_of("postgres", pattern, flags, Use.WHOLE).regexp

    def compute(text: str) -> tuple[str, ...]:
        data, parts, end = text.encode(), [], 0
        for match in _matches(regexp, data, touching=False):
            start, after = match.span()
            if start == after and start in (0, len(data)):
                continue
            parts.append(data[end:start].decode())
            end = after
        return (*parts, data[end:].decode())

    return compute


def _whole(pattern: Pattern, *, empty: bool) -> Compute:
    """What is found; if not `empty`, what is empty is NULL, too."""

    def compute(text: str) -> str | None:
        match = pattern.regexp.search(text.encode())
        return None if match is None or not (empty or match[0]) else match[0].decode()

    return compute


def _count(pattern: Pattern) -> Compute:
    return lambda text: sum(1 for _ in _matches(pattern.regexp, text.encode()))


def _position(pattern: Pattern, *, units: bool = False) -> Compute:
    """From 1, where it is found; of `units` of UTF-16, as Java counts."""

    def compute(text: str) -> int:
        data = text.encode()
        match = pattern.regexp.search(data)
        if match is None:
            return 0
        before = data[: match.start()].decode()
        return (len(before.encode("utf-16-le")) // 2 if units else len(before)) + 1

    return compute


# --- Spark ---------------------------------------------------------------------------------------


def _java_rewriting(text: str, groups: int) -> _Replacement:
    r"""`$1` is a group, of as many digits as there is one of; a backslash takes what follows."""
    parts: list[bytes | int] = []
    at = 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text):
            parts.append(text[at + 1].encode())
            at += 2
        elif text[at] in "\\$":
            digits = re.match(r"\$([0-9]+)", text[at:])
            if digits is None:
                raise RegexError(f"`{text[at : at + 2]}` in what is put in its place; write \\\\$")
            number = digits[1]
            while len(number) > 1 and int(number) > groups:
                number = number[:-1]
            parts.append(int(number))
            at += len(number) + 1
        else:
            parts.append(text[at].encode())
            at += 1
    return parts


def _java(pattern: str, use: Use) -> Pattern:
    """A pattern that is looked for again and again: Java steps into the middle of characters."""
    compiled = pattern_of("spark", pattern, "", use)
    if compiled.regexp.fullmatch("") is not None:
        raise RegexError("it finds the empty text, which Java does inside of characters, too")
    return compiled


def _java_replace(pattern: str, put: str) -> Compute:
    compiled = _java(pattern, Use.GROUPS)
    return _replaced(compiled, _java_rewriting(put, compiled.regexp.groups))


def _java_extract(pattern: str, group: int) -> Compute:
    compiled = pattern_of("spark", pattern, "", Use.GROUPS)
    _group(group, compiled)

    def compute(text: str) -> str:
        match = compiled.regexp.search(text.encode())
        return "" if match is None else (match[group] or b"").decode()

    return compute


def _java_split(pattern: str, limit: int = -1) -> Compute:
    if not pattern:
        return lambda text: _characters(text, limit)
    regexp = _java(pattern, Use.WHOLE).regexp

    def compute(text: str) -> tuple[str, ...]:
        data, end = text.encode(), 0
        parts: list[str] = []
        for match in _matches(regexp, data):
            if len(parts) + 1 == limit:
                break
            parts.append(data[end : match.start()].decode())
            end = match.end()
        return (*parts, data[end:].decode())

    return compute


def _characters(text: str, limit: int) -> tuple[str, ...]:
    if not text or limit == 1:
        return (text,)
    whole = limit <= 0 or limit > len(text)
    return tuple(text) if whole else (*text[: limit - 1], text[limit - 1 :])


# --- forms ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Form:
    """One function in one dialect.

    Attributes:
        usage: how it is written.
        arguments: of sqlglot's node, in order, the text first.
        result: the type of its value.
        of: from what stands behind the text to a function of the text; of what is equal it is
            the same one.
        is_total: whether it has a value for each text.
        without: its value where the pattern is NULL, from the text; if it is not NULL.
    """

    usage: str
    arguments: tuple[str, ...]
    result: SqlType
    of: Callable[..., Compute]
    is_total: bool = True
    without: Compute | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", lru_cache(maxsize=128)(self.of))


_TWO: Final = ("this", "expression")
_PATTERN: Final = "(text, pattern)"
_FLAGS: Final = ("single_replace", "null_if_pos_overflow")
"""Arguments of nodes that change nothing here."""


def _duck_test(pattern: str, options: str = "") -> Compute:
    return _test(pattern_of("duckdb", pattern, options))


def _duck_full(pattern: str, options: str = "") -> Compute:
    return _test(pattern_of("duckdb", pattern, options), "fullmatch")


_TEXTS: Final = array_type(TEXT)

_DUCKDB: Final[dict[Any, _Form]] = {
    exp.RegexpLike: _Form(
        "REGEXP_MATCHES(text, pattern, options)", (*_TWO, "flag"), BOOLEAN, _duck_test
    ),
    exp.RegexpILike: _Form(
        "text ~* pattern", _TWO, BOOLEAN, lambda pattern: _duck_test(pattern, "i")
    ),
    exp.RegexpFullMatch: _Form(
        "REGEXP_FULL_MATCH(text, pattern, options)", (*_TWO, "options"), BOOLEAN, _duck_full
    ),
    exp.SimilarTo: _Form("text SIMILAR TO pattern", _TWO, BOOLEAN, _duck_full),
    exp.RegexpReplace: _Form(
        "REGEXP_REPLACE(text, pattern, replacement, options)",
        (*_TWO, "replacement", "modifiers"), TEXT, _duck_replace,
    ),
    exp.RegexpExtract: _Form(
        "REGEXP_EXTRACT(text, pattern, group, options)",
        (*_TWO, "group", "parameters"), TEXT, _duck_extract,
    ),
    exp.RegexpExtractAll: _Form(
        "REGEXP_EXTRACT_ALL(text, pattern, group, options)",
        (*_TWO, "group", "parameters"), _TEXTS,
        lambda pattern, group, options="": _all_of(
            pattern_of("duckdb", pattern, options), group, None
        ),
    ),
    exp.RegexpSplit: _Form(
        "STRING_SPLIT_REGEX(text, pattern, options)", (*_TWO, "limit"), _TEXTS, _duck_split,
        without=lambda text: (text,),
    ),
    "REGEXP_ESCAPE": _Form(
        "REGEXP_ESCAPE(text)", ("this",), TEXT,
        lambda: lambda text: re.sub("([^A-Za-z0-9_\x80-\U0010ffff])", r"\\\1", text),
    ),
}  # fmt: skip

_POSTGRES: Final[dict[Any, _Form]] = {
    exp.RegexpLike: _Form(
        "REGEXP_LIKE(text, pattern, flags)", (*_TWO, "flag"), BOOLEAN,
        lambda pattern, flags="": _test(pattern_of("postgres", pattern, flags)),
    ),
    exp.RegexpILike: _Form(
        "text ~* pattern", _TWO, BOOLEAN,
        lambda pattern: _test(pattern_of("postgres", pattern, "i")),
    ),
    exp.SimilarTo: _Form(
        "text SIMILAR TO pattern", _TWO, BOOLEAN,
        lambda pattern: _test(pattern_of("similar", pattern), "fullmatch"),
    ),
    exp.RegexpReplace: _Form(
        "REGEXP_REPLACE(text, pattern, replacement, flags)",
        (*_TWO, "replacement", "modifiers"), TEXT, _postgres_replace,
    ),
    exp.RegexpSubstr: _Form(
        f"REGEXP_SUBSTR{_PATTERN}", _TWO, TEXT,
        lambda pattern: _whole(pattern_of("postgres", pattern, "", Use.WHOLE), empty=True),
        is_total=False,
    ),
    exp.RegexpCount: _Form(
        f"REGEXP_COUNT{_PATTERN}", _TWO, BIGINT,
        lambda pattern: _count(pattern_of("postgres", pattern, "", Use.WHOLE)),
    ),
    exp.RegexpInstr: _Form(
        f"REGEXP_INSTR{_PATTERN}", _TWO, BIGINT,
        lambda pattern: _position(pattern_of("postgres", pattern, "", Use.WHOLE)),
    ),
    exp.RegexpSplit: _Form(
        "REGEXP_SPLIT_TO_ARRAY(text, pattern, flags)", (*_TWO, "limit"), _TEXTS, _postgres_split
    ),
    "REGEXP_MATCH": _Form(
        "REGEXP_MATCH(text, pattern, flags)", (*_TWO, "limit"), _TEXTS, _postgres_groups,
        is_total=False,
    ),
    "SUBSTRING": _Form(
        "SUBSTRING(text FROM pattern)", _TWO, TEXT, _postgres_first, is_total=False
    ),
}  # fmt: skip

_SPARK: Final[dict[Any, _Form]] = {
    exp.RegexpLike: _Form(
        f"RLIKE{_PATTERN}", _TWO, BOOLEAN, lambda pattern: _test(pattern_of("spark", pattern))
    ),
    exp.RegexpReplace: _Form(
        "REGEXP_REPLACE(text, pattern, replacement)", (*_TWO, "replacement"), TEXT, _java_replace
    ),
    exp.RegexpExtract: _Form(
        "REGEXP_EXTRACT(text, pattern, group)", (*_TWO, "group"), TEXT, _java_extract
    ),
    exp.RegexpExtractAll: _Form(
        "REGEXP_EXTRACT_ALL(text, pattern, group)", (*_TWO, "group"), _TEXTS,
        lambda pattern, group: _all_of(_java(pattern, Use.GROUPS), group, ""),
    ),
    exp.RegexpSubstr: _Form(
        f"REGEXP_SUBSTR{_PATTERN}", _TWO, TEXT,
        lambda pattern: _whole(pattern_of("spark", pattern, "", Use.WHOLE), empty=False),
        is_total=False,
    ),
    exp.RegexpCount: _Form(
        f"REGEXP_COUNT{_PATTERN}", _TWO, BIGINT,
        lambda pattern: _count(_java(pattern, Use.WHOLE)),
    ),
    exp.RegexpInstr: _Form(
        f"REGEXP_INSTR{_PATTERN}", _TWO, BIGINT,
        lambda pattern: _position(pattern_of("spark", pattern, "", Use.WHOLE), units=True),
    ),
    exp.RegexpSplit: _Form(
        "SPLIT(text, pattern, limit)", (*_TWO, "limit"), _TEXTS, _java_split
    ),
}  # fmt: skip

_FORMS: Final = {"duckdb": _DUCKDB, "postgres": _POSTGRES, "spark": _SPARK}

NODES: Final = (*(kind for kind in {**_DUCKDB, **_POSTGRES, **_SPARK} if isinstance(kind, type)),)
"""What sqlglot makes of functions of regular expressions."""

_NAMED: Final[dict[str, Any]] = {
    "REGEXP_SPLIT_TO_ARRAY": exp.RegexpSplit, "REGEXP": exp.RegexpLike,
    "REGEXP_ESCAPE": "REGEXP_ESCAPE", "REGEXP_MATCH": "REGEXP_MATCH", "SUBSTRING": "SUBSTRING",
}  # fmt: skip


def named(node: exp.Expr) -> bool:
    """Whether a function that sqlglot has no node for is one of these."""
    return isinstance(node, exp.Anonymous) and node.name.upper() in _NAMED


def compiled(scalars: Scalars, node: exp.Expr) -> Scalar:
    """A function of regular expressions. Raises SqlProgrammingError, SqlRefusedError."""
    statement = scalars.statement
    kind: Any = _NAMED[node.name.upper()] if isinstance(node, exp.Anonymous) else type(node)
    form = _FORMS[statement.dialect].get(kind)
    if form is None:
        known = ", ".join(sorted(form.usage for form in _FORMS[statement.dialect].values()))
        name = statement.called(node)
        raise statement.refused(f"{name} in this dialect", node, f"there is {known}")
    if isinstance(node, exp.Anonymous):
        args, more = list(node.expressions), len(node.expressions) > len(form.arguments)
    else:
        given = {key: value for key, value in node.args.items() if value not in (None, False)}
        more = bool(given.keys() - {*form.arguments, *_FLAGS})
        args = [given[key] for key in form.arguments if key in given]
        more = more or any(isinstance(arg, exp.Array) for arg in args)
    if more or not args:
        raise statement.refused("this form of it", node, f"write {form.usage}")
    values = [scalars.compile(arg) for arg in args]
    for value, arg in zip(values, args, strict=True):
        number = value.type.is_integer and form.arguments[args.index(arg)] in ("group", "limit")
        if value.type not in (TEXT, NULL) and not number:
            message = f"{value.type.name} in a function of regular expressions"
            raise statement.wrong(message, arg, f"write {form.usage}")
    text, *rest = values
    nullable = any(value.nullable for value in values) or not form.is_total
    fixed = [constant(arg) for arg in args[1:] if not isinstance(arg, exp.Placeholder)]
    if len(fixed) == len(rest) and all(scalar and not scalar.nullable for scalar in fixed):
        try:
            compute = form.of(*(scalar.compute(()) for scalar in rest))
        except RegexError as error:
            culprit = args[1] if len(args) > 1 else node
            message = f"this pattern: {error}"
            raise statement.wrong(message, culprit, f"write {form.usage}") from None
        return Scalar(strict(compute, text.compute), form.result, nullable)
    computes = [value.compute for value in rest]

    def by_row(row: Any) -> Any:
        subject = text.compute(row)
        if subject is None:
            return None
        arguments = [compute(row) for compute in computes]
        if None in arguments:
            return form.without(subject) if form.without and arguments[0] is None else None
        return form.of(*arguments)(subject)

    return Scalar(by_row, form.result, nullable)
