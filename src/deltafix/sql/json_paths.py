"""JSON in texts: `j->>'a'`, `j->'$.a[0]'`, `j::jsonb #>> '{a,0}'`, GET_JSON_OBJECT(j, '$.a').

A path is written out, of keys and places. Invariant: what is found is written as the dialect writes
it: in DuckDB and Spark without spaces and with its own numbers, as PostgreSQL's jsonb or, for its
json, as it stands in the text. A text that is no JSON is an error, also where DuckDB lets a comma
or NaN pass, but in Spark, where it is NULL. JSON is no type here: `->` gives a text, into which
another path may look.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from deltafix.sql.casts import cast
from deltafix.sql.literals import Scalar, strict, whole
from deltafix.sql.text import exp
from deltafix.sql.types import DOUBLE, NULL, TEXT

if TYPE_CHECKING:
    from deltafix.sql.scalar import Scalars

__all__ = ["NODES", "extracted", "named"]


class _Object(tuple[tuple[str, Any], ...]):
    """The pairs of an object, in their order; a key may be there twice."""

    __slots__ = ()


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


class _Either(str):
    """A step of a path that is a key of an object, and a place in an array."""

    __slots__ = ()


_Key: TypeAlias = "str | int"

_DECODER: Final = json.JSONDecoder(object_pairs_hook=_Object, parse_constant=_no_number)

_NAMES: Final = ("JSONB_EXTRACT_PATH", "JSONB_EXTRACT_PATH_TEXT")

NODES: Final = (exp.JSONExtract, exp.JSONExtractScalar, exp.JSONBExtract, exp.JSONBExtractScalar)


def named(node: exp.Expr, dialect: str) -> bool:
    """Whether a function that sqlglot has no node for is one of these: PostgreSQL's."""
    is_named = isinstance(node, exp.Anonymous) and node.name.upper() in _NAMES
    return is_named and dialect == "postgres" and bool(node.expressions)


def extracted(scalars: Scalars, node: exp.Expr) -> Scalar:
    """`text->>'path'`, `text->'path'`, and their functions. Raises SqlRefusedError."""
    statement = scalars.statement
    value, *named = node.expressions if isinstance(node, exp.Anonymous) else (node.this,)
    keys = _keys(node, named, statement.dialect)
    if keys is None:
        way_out = "write a path of keys and places, '$.a.b[0]'"
        if statement.dialect == "postgres":
            way_out = "write a key or a place, or '{a,b,0}' behind #>>"
        raise statement.refused("this path", node, way_out)
    form, value = _form(value, statement.dialect)
    if form is None:
        way_out = "write text::jsonb ->> 'a', or text::json"
        raise statement.refused("JSON in what is neither of its types", node, way_out)
    inner = scalars.compile(value)
    if inner.type not in (TEXT, NULL):
        raise statement.wrong(f"JSON in {inner.type.name}", node, "it takes a text")
    is_text = isinstance(node, exp.JSONExtractScalar | exp.JSONBExtractScalar)
    is_text = is_text or (isinstance(node, exp.Anonymous) and node.name.upper().endswith("TEXT"))
    take = _FORMS[form]

    def compute(text: str) -> str | None:
        try:
            return take(text, keys, is_text)
        except RecursionError:
            raise ValueError("this JSON is nested too deep") from None
        except ValueError as error:
            raise ValueError(f"{text[:60]!r} is no JSON: {error}") from None

    return Scalar(strict(compute, inner.compute), TEXT, nullable=True)


def _keys(node: exp.Expr, named: Sequence[exp.Expr], dialect: str) -> tuple[_Key, ...] | None:
    """The steps of a path; None where they are not known."""
    path = node.args.get("expression")
    if isinstance(node, exp.Anonymous):
        return tuple(_Either(key.name) for key in named) if all(map(_is_text, named)) else None
    if isinstance(node, exp.JSONBExtract | exp.JSONBExtractScalar):
        if dialect != "postgres" or not isinstance(path, exp.Literal):
            return None
        match = _STEPS.fullmatch(path.name)
        return None if match is None else tuple(map(_Either, filter(None, match[1].split(","))))
    index = None if path is None else whole(path)
    if index is not None:
        return (index,)
    parts = path.expressions if isinstance(path, exp.JSONPath) else ()
    root, *steps = parts or (None,)
    known = all(
        (isinstance(step, exp.JSONPathKey) and isinstance(step.this, str))
        or (isinstance(step, exp.JSONPathSubscript) and isinstance(step.this, int))
        for step in steps
    )
    if not isinstance(root, exp.JSONPathRoot) or not known or node.expressions:
        return None
    keys = tuple(step.this for step in steps)
    if dialect == "postgres" and not node.args.get("only_json_types"):  # JSON_EXTRACT_PATH
        return tuple(_Either(key) for key in keys)
    return keys


_STEPS: Final = re.compile(r"\{([^{}\"\\\s]*)\}")
"""PostgreSQL's path of an array of texts, of names without quotes."""


def _is_text(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


def _form(value: exp.Expr, dialect: str) -> tuple[str | None, exp.Expr]:
    """How JSON is written that is found in a value, and the text that this is."""
    form: str | None = None if dialect == "postgres" else dialect
    value = value.unnest()
    while isinstance(value, exp.Cast) and value.args["to"].this in _TYPES:
        form = form or _TYPES[value.args["to"].this]
        value = value.this.unnest()
    inside = value
    while form is None and isinstance(inside, (*NODES, exp.Anonymous)):  # `->` gives JSON again
        inside = inside.expressions[0] if isinstance(inside, exp.Anonymous) else inside.this
        form, _ = _form(inside, dialect)
    return form, value


_TYPES: Final = {exp.DType.JSON: "json", exp.DType.JSONB: "jsonb"}


def _of_duckdb(text: str, keys: Sequence[_Key], is_text: bool) -> str | None:
    is_there, member = _at(_DECODER.decode(text), keys)
    if not is_there or (is_text and member is None):
        return None
    return member if is_text and isinstance(member, str) else _written(member)


def _of_spark(text: str, keys: Sequence[_Key], is_text: bool) -> str | None:
    """A NULL of an object is none, one of an array is a text; what follows the JSON is not read."""
    del is_text
    try:
        value, _ = _DECODER.raw_decode(text.lstrip(_BLANKS))
    except ValueError:
        if "'" in text:
            raise ValueError("Spark reads single quotes, too; write double ones") from None
        return None
    is_there, member = _at(value, keys)
    if not is_there or (member is None and keys and isinstance(keys[-1], str)):
        return None
    return member if isinstance(member, str) else _written(member, float_text=_java)


_BLANKS: Final = " \t\n\r"


def _java(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError("a number that is too large for JSON")
    convert = cast(DOUBLE, TEXT, dialect="spark")
    assert convert is not None  # noqa: S101  numbers have a text
    is_negative_zero = value == 0 and math.copysign(1, value) < 0
    return f"{'-' * is_negative_zero}{convert(value)}"


def _numeric(text: str) -> Decimal:
    """A number of jsonb: all of its digits."""
    number = Decimal(text)
    if number.adjusted() > _MOST or -int(number.as_tuple().exponent) > _MOST:
        raise ValueError("a number that is too large for JSON")
    return number if number else abs(number)


_MOST: Final = 16_000


def _sorted(pairs: list[tuple[str, Any]]) -> _Object:
    """An object of jsonb: of equal keys the last, short ones first."""
    members = sorted(
        dict(pairs).items(), key=lambda pair: (len(pair[0].encode()), pair[0].encode())
    )
    return _Object(members)


_BINARY: Final = json.JSONDecoder(
    object_pairs_hook=_sorted, parse_constant=_no_number, parse_int=_numeric, parse_float=_numeric
)


def _of_jsonb(text: str, keys: Sequence[_Key], is_text: bool) -> str | None:
    value = _BINARY.decode(text)
    if not isinstance(value, list | _Object) and keys and isinstance(keys[0], int):
        value = [value]  # jsonb keeps a lone value so
    is_there, member = _at(value, keys)
    if not is_there or (is_text and member is None):
        return None
    return member if is_text and isinstance(member, str) else _written(member, ", ", ": ")


def _of_json(text: str, keys: Sequence[_Key], is_text: bool) -> str | None:
    """As it stands there; of equal keys the last."""
    _DECODER.decode(text)
    at, end = _blank(text, 0), len(text.rstrip(_BLANKS))
    for key in keys:
        members = list(_members(text, at))
        is_object = text[at] == "{"
        if is_object and isinstance(key, str):
            members = [member for member in members if member.name == key]
            index: int | None = -1
        else:
            index = None if is_object or text[at] != "[" else _index(key)
        if index is None or not -len(members) <= index < len(members):
            return None
        at, end = members[index].at, members[index].end
    part = text[at:end]
    if is_text and part[0] in '"n':  # a text, or NULL
        value = json.loads(part)
        return None if value is None else str(value)
    return part


@dataclass(frozen=True, slots=True)
class _Member:
    """What stands in an object or an array: where it is, and its name."""

    name: str | None
    at: int
    end: int


def _members(text: str, at: int) -> Iterator[_Member]:
    """The members of what stands in a text that is JSON; none of what has none."""
    is_object = text[at] == "{"
    if not is_object and text[at] != "[":
        return
    at = _blank(text, at + 1)
    while text[at] not in "]}":
        name = None
        if is_object:
            name, at = _DECODER.raw_decode(text, at)
            at = _blank(text, _blank(text, at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        yield _Member(name, at, end)
        at = _blank(text, end)
        at = _blank(text, at + 1) if text[at] == "," else at


def _blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def _index(key: _Key) -> int | None:
    """The place in an array that a step is, if it is one."""
    if isinstance(key, int):
        return key
    return int(key) if isinstance(key, _Either) and re.fullmatch(r"[+-]?[0-9]{1,9}", key) else None


_FORMS: Final[dict[str, Callable[[str, Sequence[_Key], bool], str | None]]] = {
    "duckdb": _of_duckdb,
    "spark": _of_spark,
    "json": _of_json,
    "jsonb": _of_jsonb,
}
"""What is at a path of a text, as a text or as JSON, by whose JSON it is."""


def _at(value: Any, keys: Sequence[str | int]) -> tuple[bool, Any]:
    """Whether there is something at a path, and what."""
    for key in keys:
        if isinstance(value, _Object) and isinstance(key, str):
            members = [member for name, member in value if name == key][:1]
        else:
            at = _index(key) if isinstance(value, list) else None
            if at is None:
                return False, None
            at = at + len(value) if at < 0 else at
            members = value[at : at + 1] if at >= 0 else []
        if not members:
            return False, None
        (value,) = members
    return True, value


def _written(
    value: Any, comma: str = ",", colon: str = ":", float_text: Callable[[float], str] | None = None
) -> str:
    if isinstance(value, _Object):
        pairs = (
            f"{_written(key)}{colon}{_written(member, comma, colon, float_text)}"
            for key, member in value
        )
        return f"{{{comma.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{comma.join(_written(element, comma, colon, float_text) for element in value)}]"
    if isinstance(value, float):
        return (float_text or _number)(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    return json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    """A number with the fewest digits, as JavaScript would write it, but for `.0`."""
    if not math.isfinite(value):
        raise ValueError("a number that is too large for JSON")
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)  # noqa: S101  it is finite
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + exponent  # before which digit the point stands, from the first
    if value == 0:
        unsigned = "0.0"
    elif 0 < point <= 21:
        unsigned = f"{text[:point].ljust(point, '0')}.{text[point:] or '0'}"
    elif -6 < point <= 0:
        unsigned = f"0.{'0' * -point}{text}"
    else:
        unsigned = f"{text[0]}{'.' * (len(text) > 1)}{text[1:]}e{point - 1}"
    return f"{'-' * sign}{unsigned}"
