"""The scalar functions of texts.

Texts are sequences of code points: `REVERSE` and `LENGTH` count these, as PostgreSQL does.
Invariant: no function makes a text of more than `_LONGEST` code points out of short ones: that is
an error.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote as url_quote
from urllib.parse import unquote

from deltafix.rules.like import is_like, quoted, rewritten
from deltafix.sql.literals import constant, whole
from deltafix.sql.signatures import Function, of_types, texts, texts_or_bytes
from deltafix.sql.text import exp
from deltafix.sql.types import BIGINT, BLOB, BOOLEAN, INTEGER, NULL, TEXT, SqlType, array_type

__all__ = ["INITCAP", "LIKES", "NAMED", "OWN", "PADS", "TEXTS", "TRIMS", "like"]

_LONGEST: Final = 1 << 24


def _fitting(length: int) -> int:
    if length > _LONGEST:
        raise ValueError(f"a text of {length} characters: {_LONGEST} are the most")
    return length


def _between(text: str, first: int, last: int) -> str:
    """The characters at these places, counted from 1, the last one not; there is none before 1."""
    return text[max(0, first - 1) : max(0, last - 1)]


def _part_of_duckdb(text: str, start: int, length: int | None = None) -> str:
    """From the end where the start is negative, and before the start where the length is."""
    first = start if start >= 0 else len(text) + start + 1
    last = len(text) + 1 if length is None else first + length
    return _between(text, min(first, last), max(first, last))


def _part_of_spark(text: str, start: int, length: int | None = None) -> str:
    """From the end where the start is negative; nothing where the length is; 0 is 1."""
    first = len(text) + start + 1 if start < 0 else max(start, 1)
    return _between(text, first, len(text) + 1 if length is None else first + length)


def _part_of_postgres(text: str, start: int, length: int | None = None) -> str:
    """A start before the text counts places that are not there."""
    if length is not None and length < 0:
        raise ValueError(f"a substring of negative length: {length}")
    return _between(text, start, len(text) + 1 if length is None else start + length)


def _simple(letter: str, cased: str, sharp: str = "\u1e9e") -> str:
    """The one letter that is another's in the other case; itself where it would be several."""
    if len(cased) == 1:
        return cased
    if letter == "\u0130":  # I with a dot
        return "i"
    title = letter.title()
    return (
        title if len(title) == 1 and cased[0].isupper() else sharp if letter == "\u00df" else letter
    )


def _upper(text: str) -> str:
    """Letter by letter, as DuckDB has it; Python makes two of some."""
    if text.isascii():
        return text.upper()
    return "".join([_simple(letter, letter.upper()) for letter in text])


def _upper_of_postgres(text: str) -> str:
    """Letter by letter, where sharp s has no capital."""
    return "".join([_simple(letter, letter.upper(), "\u00df") for letter in text])


def _lower(text: str) -> str:
    """Letter by letter, but in Spark; to Python a sigma at the end of a word is another one."""
    if text.isascii():
        return text.lower()
    return "".join([_simple(letter, letter.lower()) for letter in text])


_UPPER: Final = {"duckdb": _upper, "postgres": _upper_of_postgres, "spark": str.upper}
_LOWER: Final = {"duckdb": _lower, "postgres": _lower, "spark": str.lower}


def _left(text: str, count: int) -> str:
    return text[:count] if count >= 0 else text[: max(0, len(text) + count)]


def _right(text: str, count: int) -> str:
    return (
        text[len(text) - count :]
        if 0 <= count < len(text)
        else text
        if count >= 0
        else text[-count:]
    )


def _counted(part: Callable[[str, int], str]) -> Callable[[str, int], str]:
    """Spark's, in which a count below 0 is none."""
    return lambda text, count: part(text, max(count, 0))


def like(escape: str, *, folds: bool, dialect: str) -> Function:
    """LIKE, and ILIKE, which `folds`; `escape` takes the next character as it is, if it is one."""
    lower = _LOWER[dialect]

    def known(pattern: str) -> Callable[[str], bool]:
        if not folds:
            return is_like(pattern, escape)
        test = is_like(lower(pattern), lower(escape))
        return lambda text: test(lower(text))

    return Function(
        f"text {'I' * folds}LIKE 'a%_'",
        ("this", "expression"),
        of_types([TEXT, TEXT], BOOLEAN),
        lambda text, pattern: known(pattern)(text),
        least=2,
        fixed=known,
    )


LIKES: Final = {
    (dialect, folds): like("" if dialect == "duckdb" else "\\", folds=folds, dialect=dialect)
    for dialect in ("duckdb", "postgres", "spark")
    for folds in (False, True)
}
"""LIKE and ILIKE without ESCAPE, by dialect."""


def pattern_of(node: exp.Expr, dialect: str) -> str | None:
    """What LIKE, STARTS_WITH and the like ask of a text, as the engine's LIKE has it.

    None for other nodes, and where what is looked for is no constant, or none that can be.
    """
    escape: str | None = "" if dialect == "duckdb" else "\\"
    if isinstance(node, exp.Escape):
        escape, node = _text(node.expression), node.this
    asked = node.args.get("expression")
    text = _text(asked) if isinstance(asked, exp.Expr) else None
    if text is None or escape is None or len(escape) > 1:
        return None
    if isinstance(node, exp.Like):
        try:
            return rewritten(text, escape)
        except ValueError:
            return None
    around = _AROUND.get(type(node))
    return None if around is None else around.format(quoted(text))


def beginning_of(node: exp.Expr) -> tuple[exp.Expr, str] | None:
    """The text, and what it is LIKE, where `SUBSTRING(text, 1, 2) = 'ab'`: as `pattern_of`.

    For `<>` the same. None for other comparisons, and where the constant has not as many characters
    as are asked for.
    """
    if not isinstance(node, exp.EQ | exp.NEQ):
        return None
    for part, other in ((node.this, node.expression), (node.expression, node.this)):
        place: exp.Expr | None = exp.Literal.number(1)
        count: exp.Expr | None = None
        if isinstance(part, exp.Left):
            count = part.expression
        elif isinstance(part, exp.Substring):
            place, count = (part.args.get(name) for name in ("start", "length"))
        if place is None or count is None or whole(place) != 1:
            continue
        text = _text(other)
        if text and len(text) == whole(count):
            return part.this, f"{quoted(text)}%"
    return None


def _text(node: exp.Expr) -> str | None:
    """The text that a constant is."""
    scalar = constant(node)
    return scalar.compute(()) if scalar is not None and scalar.type is TEXT else None


_AROUND: Final[dict[type, str]] = {exp.StartsWith: "{}%", exp.EndsWith: "%{}", exp.Contains: "%{}%"}


def _split_part(text: str, delimiter: str, index: int) -> str:
    return _part_at(text.split(delimiter) if delimiter else list(text), index)


def _part_of_whole(text: str, delimiter: str, index: int) -> str:
    """PostgreSQL's and Spark's: nothing parts a text, and no part is the one at 0."""
    if index == 0:
        raise ValueError("SPLIT_PART counts from 1, or from the end below 0")
    return _part_at(text.split(delimiter) if delimiter else [text], index)


def _part_at(parts: list[str], index: int) -> str:
    at = index - 1 if index > 0 else len(parts) + index
    return parts[at] if index and 0 <= at < len(parts) else ""


def _split(text: str | None, delimiter: str | None) -> tuple[str, ...] | None:
    if text is None or delimiter is None:
        return None if text is None else (text,)
    return tuple(text.split(delimiter) if delimiter else text or ("",))


def _padded(*, left: bool, fills: bool) -> Callable[..., str]:
    def padded(text: str, length: int, fill: str = " ") -> str:
        missing = _fitting(length) - len(text)
        if missing <= 0:
            return text[: max(length, 0)]
        if not fill and not fills:
            return text
        if not fill:
            raise ValueError("LPAD and RPAD need something to fill up with")
        more = (fill * (missing // len(fill) + 1))[:missing]
        return more + text if left else text + more

    return padded


def _repeated(text: Any, times: int) -> Any:
    return text * (times if _fitting(len(text) * times) > 0 else 0)


def _translated(text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for index, letter in enumerate(old):
        table.setdefault(ord(letter), new[index] if index < len(new) else None)
    return text.translate(table)


def _joined_by(delimiter: str | None, *values: str | None) -> str | None:
    return None if delimiter is None else delimiter.join(v for v in values if v is not None)


def _character_but_nul(code: int) -> str:
    if code == 0:
        raise ValueError("no text of PostgreSQL has the character 0")
    return _character(code)


def _latin(code: int) -> str:
    """Spark's, of the lowest eight bits."""
    return chr(code % 256) if code >= 0 else ""


def _character(code: int) -> str:
    if not 0 <= code <= 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError(f"{code} is no character of Unicode")
    return chr(code)


_WORDS: Final = {"postgres": re.compile(r"[^\W_]+"), "spark": re.compile(r"[^ ]+")}
"""Words are of letters and digits in PostgreSQL, and parted by spaces in Spark."""


def _capitals(dialect: str) -> Callable[[str], str]:
    """Each word as in lower case, but for its first letter."""
    lower, upper, words = _LOWER[dialect], _upper_of_postgres, _WORDS[dialect]
    return lambda text: words.sub(
        lambda word: upper(word[0][:1]) + lower(word[0])[len(lower(word[0][:1])) :], text
    )


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _sha2(value: str | bytes, bits: int) -> str:
    if bits not in (0, 224, 256, 384, 512):
        raise ValueError(f"SHA2 of {bits} bits: 224, 256, 384 and 512 are there")
    return hashlib.new(f"sha{bits or 256}", _bytes(value)).hexdigest()


def _of_base64(text: str) -> bytes:
    return b64decode(text, validate=True)


def _digest(types: Sequence[SqlType]) -> SqlType | None:
    return TEXT if texts_or_bytes(types[:1]) and all(t.is_integer for t in types[1:]) else None


def _parts(types: Sequence[SqlType]) -> SqlType | None:
    return array_type(TEXT) if texts(types) else None


def _padded_type(types: Sequence[SqlType]) -> SqlType | None:
    is_fit = len(types) > 1 and (types[1].is_integer or types[1] is NULL)
    return TEXT if is_fit and texts((types[0], *types[2:])) else None


_BLANKS: Final = "".join(map(chr, (32, 160, 5760, *range(8192, 8203), 8239, 8287, 12288)))
"""What TRIM takes for blanks in DuckDB: Unicode's separators of spaces, no tabs, no line ends."""


def _trim(cut: Callable[..., str], blanks: str) -> Function:
    return Function(
        "TRIM(text, characters)",
        ("this", "expression"),
        texts,
        lambda text, characters=blanks: cut(text, characters) if characters else text,
        flags=("position",),
    )


TRIMS: Final = {
    (side, dialect): _trim(cut, _BLANKS if dialect == "duckdb" else " ")
    for side, cut in {
        "LEADING": str.lstrip, "TRAILING": str.rstrip, "": str.strip, "BOTH": str.strip
    }.items()
    for dialect in ("duckdb", "postgres", "spark")
}  # fmt: skip
"""TRIM, LTRIM and RTRIM, by the side that is cut and the dialect."""


def _edits(first: str, second: str) -> int:
    """How many bytes are to be put in, taken out or changed to make one text of another."""
    one, two = first.encode(), second.encode()
    row: list[int] = [*range(len(two) + 1)]
    for place, byte in enumerate(one, 1):
        before, row[0] = row[0], place
        for index, other in enumerate(two, 1):
            least = min(row[index] + 1, row[index - 1] + 1, before + (byte != other))
            before, row[index] = row[index], least
    return row[len(two)]


def _differences(first: str, second: str) -> int:
    """In how many places bytes differ. Raises ValueError for texts that are not as long."""
    one, two = first.encode(), second.encode()
    if len(one) != len(two) or not one:
        raise ValueError(f"HAMMING takes texts of one length: {len(one)} and {len(two)} bytes")
    return sum(a != b for a, b in zip(one, two, strict=True))


def _unaccented(text: str) -> str:
    """Without what is set above and below letters."""
    parts = unicodedata.normalize("NFD", text)
    return "".join(one for one in parts if unicodedata.category(one)[0] != "M")


def _of_two(name: str, compute: Callable[[str, str], int]) -> Function:
    return Function(
        f"{name}(a, b)", ("expressions",), of_types([TEXT, TEXT], BIGINT), compute, least=2,
        only=("duckdb",),
    )  # fmt: skip


_PARTS: Final[dict[str, Callable[..., str]]] = {
    "duckdb": _part_of_duckdb,
    "postgres": _part_of_postgres,
    "spark": _part_of_spark,
}
_OF_TEXT: Final = of_types([TEXT, BIGINT, BIGINT], TEXT)
OWN: Final[dict[tuple[type, str], Function]] = {
    **{
        (exp.Substring, dialect): Function(
            "SUBSTRING(text, start, length)", ("this", "start", "length"), _OF_TEXT, part, least=2
        )
        for dialect, part in _PARTS.items()
    },
    **{
        (kind, dialect): Function(f"{name}(text)", ("this",), texts, compute)
        for kind, name, by_dialect in (
            (exp.Lower, "LOWER", _LOWER), (exp.Upper, "UPPER", _UPPER),
        )
        for dialect, compute in by_dialect.items()
    },
    **{
        (exp.SplitPart, dialect): Function(
            "SPLIT_PART(text, delimiter, place)", ("this", "delimiter", "part_index"),
            of_types([TEXT, TEXT, BIGINT], TEXT), part, least=3,
        )
        for dialect, part in (
            ("duckdb", _split_part), ("postgres", _part_of_whole), ("spark", _part_of_whole),
        )
    },
    **{
        (exp.Chr, dialect): Function("CHR(code)", ("expressions",), of_types([BIGINT], TEXT), part)
        for dialect, part in (
            ("duckdb", _character), ("postgres", _character_but_nul), ("spark", _latin),
        )
    },
    **{
        (kind, dialect): Function(
            f"{name}(text, count)", ("this", "expression"), of_types([TEXT, BIGINT], TEXT),
            _counted(part) if dialect == "spark" else part, least=2,
        )
        for kind, name, part in ((exp.Left, "LEFT", _left), (exp.Right, "RIGHT", _right))
        for dialect in ("duckdb", "postgres", "spark")
    },
    **{
        (exp.ByteLength, dialect): Function(
            "OCTET_LENGTH(text)", ("this",), lambda t: BIGINT if texts_or_bytes(t) else None,
            lambda value: len(_bytes(value)),
        )
        for dialect in ("postgres", "spark")
    },
}  # fmt: skip
"""What each dialect has in its own way, by node and dialect."""

PADS: Final = {
    (is_left, dialect): Function(
        f"{name}(text, length, fill)",
        ("this", "expression", "fill_pattern"),
        _padded_type,
        _padded(left=is_left, fills=dialect == "duckdb"),
        flags=("is_left",),
        least=2,
    )
    for is_left, name in ((True, "LPAD"), (False, "RPAD"))
    for dialect in ("duckdb", "postgres", "spark")
}

INITCAP: Final = {
    dialect: Function("INITCAP(text)", ("this",), texts, _capitals(dialect), flags=("expression",))
    for dialect in _WORDS
}

TEXTS: Final[dict[type, Function]] = {
    exp.Replace: Function(
        "REPLACE(text, old, new)",
        ("this", "expression", "replacement"),
        texts,
        lambda text, old, new: text.replace(old, new) if old else text,
        least=3,
    ),
    exp.StartsWith: Function(
        "STARTS_WITH(text, prefix)",
        ("this", "expression"),
        of_types([TEXT, TEXT], BOOLEAN),
        str.startswith,
        least=2,
    ),
    exp.StrPosition: Function(
        "STRPOS(text, part)",
        ("this", "substr"),
        of_types([TEXT, TEXT], BIGINT),
        lambda text, part: text.find(part) + 1,
        least=2,
    ),
    exp.Split: Function(
        "SPLIT(text, delimiter)",
        ("this", "expression"),
        _parts,
        _split,
        strict=False,
        least=2,
        only=("duckdb",),
    ),
    exp.ConcatWs: Function(
        "CONCAT_WS(delimiter, a, b, ...)",
        ("expressions",),
        texts,
        _joined_by,
        strict=False,
        nullable=lambda nullable: nullable[0],
        flags=("safe", "coalesce", "flatten"),
        least=2,
    ),
    exp.Translate: Function(
        "TRANSLATE(text, old, new)", ("this", "from_", "to"), texts, _translated, least=3
    ),
    exp.Reverse: Function("REVERSE(text)", ("this",), texts, lambda text: text[::-1]),
    exp.Repeat: Function(
        "REPEAT(text, times)", ("this", "times"), of_types([TEXT, BIGINT], TEXT), _repeated, least=2
    ),
    exp.Contains: Function(
        "CONTAINS(text, part)",
        ("this", "expression"),
        of_types([TEXT, TEXT], BOOLEAN),
        lambda text, part: part in text,
        least=2,
    ),
    exp.EndsWith: Function(
        "ENDS_WITH(text, suffix)",
        ("this", "expression"),
        of_types([TEXT, TEXT], BOOLEAN),
        str.endswith,
        least=2,
    ),
    exp.Ascii: Function(
        "ASCII(text)", ("this",), of_types([TEXT], INTEGER), lambda text: ord(text[:1] or "\0")
    ),
    exp.Unicode: Function(
        "UNICODE(text)",
        ("this",),
        of_types([TEXT], INTEGER),
        lambda text: ord(text[0]) if text else -1,
    ),
    exp.BitLength: Function(
        "BIT_LENGTH(text)", ("this",), of_types([TEXT], BIGINT), lambda text: 8 * len(text.encode())
    ),
    exp.MD5: Function(
        "MD5(text)",
        ("this",),
        _digest,
        lambda value: hashlib.md5(_bytes(value), usedforsecurity=False).hexdigest(),
    ),
    exp.SHA: Function(
        "SHA1(text)",
        ("this",),
        _digest,
        lambda value: hashlib.sha1(_bytes(value), usedforsecurity=False).hexdigest(),
    ),
    exp.SHA2: Function("SHA2(text, bits)", ("this", "length"), _digest, _sha2, least=2),
    exp.ToBase64: Function(
        "TO_BASE64(blob)",
        ("this",),
        of_types([BLOB], TEXT),
        lambda value: b64encode(value).decode(),
    ),
    exp.Levenshtein: Function(
        "LEVENSHTEIN(a, b)",
        ("this", "expression"),
        of_types([TEXT, TEXT], BIGINT),
        _edits,
        least=2,
        only=("duckdb",),
    ),
    exp.FromBase64: Function("FROM_BASE64(text)", ("this",), of_types([TEXT], BLOB), _of_base64),
}
"""By sqlglot's node."""

NAMED: Final[dict[str, Function]] = {
    "EDITDIST3": _of_two("EDITDIST3", _edits),
    "HAMMING": _of_two("HAMMING", _differences),
    "MISMATCHES": _of_two("MISMATCHES", _differences),
    "URL_ENCODE": Function(
        "URL_ENCODE(text)", ("expressions",), of_types([TEXT], TEXT),
        lambda text: url_quote(text, safe=""), only=("duckdb",),
    ),
    "URL_DECODE": Function(
        "URL_DECODE(text)", ("expressions",), of_types([TEXT], TEXT),
        lambda text: unquote(text, errors="strict"), only=("duckdb",),
    ),
    "STRIP_ACCENTS": Function(
        "STRIP_ACCENTS(text)", ("expressions",), of_types([TEXT], TEXT), _unaccented,
        only=("duckdb",),
    ),
    "PREFIX": Function(
        "PREFIX(text, start)", ("expressions",), of_types([TEXT, TEXT], BOOLEAN), str.startswith,
        least=2, only=("duckdb",),
    ),
    "SUFFIX": Function(
        "SUFFIX(text, end)", ("expressions",), of_types([TEXT, TEXT], BOOLEAN), str.endswith,
        least=2, only=("duckdb",),
    ),
    "ORD": Function(
        "ORD(text)", ("expressions",), of_types([TEXT], INTEGER),
        lambda text: ord(text[0]) if text else -1, only=("duckdb",),
    ),
    "STRLEN": Function(
        "STRLEN(text)", ("expressions",), of_types([TEXT], BIGINT),
        lambda text: len(text.encode()), only=("duckdb",),
    ),
}  # fmt: skip
"""What sqlglot has no node for, by name."""
