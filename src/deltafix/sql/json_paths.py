"""JSON in texts, as DuckDB has it: `payload->>'a'`, `payload->'$.a[0]'`, JSON_EXTRACT.

A path is written out, of keys and places. Invariant: what is found is written as DuckDB writes it,
without spaces and with its own numbers; a text that is no JSON is an error, also where DuckDB lets
a comma or NaN pass. JSON is no type here: `->` gives a text, into which another path may look.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from deltafix.sql.literals import Scalar, strict, whole
from deltafix.sql.text import exp
from deltafix.sql.types import NULL, TEXT

if TYPE_CHECKING:
    from deltafix.sql.scalar import Scalars

__all__ = ["extracted"]


class _Object(tuple[tuple[str, Any], ...]):
    """The pairs of an object, in their order; a key may be there twice."""

    __slots__ = ()


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


_READ: Final = json.JSONDecoder(object_pairs_hook=_Object, parse_constant=_no_number).decode


def extracted(scalars: Scalars, node: exp.Expr) -> Scalar:
    """`text->>'path'`, `text->'path'`, and their functions. Raises SqlRefusedError."""
    statement = scalars.statement
    if statement.dialect != "duckdb":
        way_out = "DuckDB's dialect has it; or take it apart before the rows come in"
        raise statement.refused("JSON in this dialect", node, way_out)
    path = node.expression
    place = whole(path)
    if place is not None:
        path = exp.JSONPath(expressions=[exp.JSONPathRoot(), exp.JSONPathSubscript(this=place)])
    parts = path.expressions if isinstance(path, exp.JSONPath) else ()
    root, *steps = parts or (None,)
    known = all(
        (isinstance(one, exp.JSONPathKey) and isinstance(one.this, str))
        or (isinstance(one, exp.JSONPathSubscript) and isinstance(one.this, int))
        for one in steps
    )
    if not isinstance(root, exp.JSONPathRoot) or not known or node.expressions:
        way_out = "write a path of keys and places, '$.a.b[0]'"
        raise statement.refused("this path", node, way_out)
    value = node.this
    while isinstance(value, exp.Cast) and value.args["to"].this == exp.DType.JSON:
        value = value.this
    inner = scalars.compile(value)
    if inner.type not in (TEXT, NULL):
        raise statement.wrong(f"JSON in {inner.type.name}", node, "it takes a text")
    keys = tuple(one.this for one in steps)
    is_text = isinstance(node, exp.JSONExtractScalar)

    def compute(text: str) -> str | None:
        try:
            read = _READ(text)
        except RecursionError:
            raise ValueError("this JSON is nested too deep") from None
        except ValueError as error:
            raise ValueError(f"{text[:60]!r} is no JSON: {error}") from None
        there, found = _at(read, keys)
        if not there or (is_text and found is None):
            return None
        return found if is_text and isinstance(found, str) else _written(found)

    return Scalar(strict(compute, inner.compute), TEXT, nullable=True)


def _at(value: Any, keys: Sequence[str | int]) -> tuple[bool, Any]:
    """Whether there is something at a path, and what."""
    for key in keys:
        if isinstance(key, str):
            if not isinstance(value, _Object):
                return False, None
            found = [one for name, one in value if name == key][:1]
        else:
            if not isinstance(value, list):
                return False, None
            place = key + len(value) if key < 0 else key
            found = value[place : place + 1] if place >= 0 else []
        if not found:
            return False, None
        (value,) = found
    return True, value


def _written(value: Any) -> str:
    if isinstance(value, _Object):
        pairs = (f"{_written(key)}:{_written(one)}" for key, one in value)
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    if isinstance(value, float):
        return _number(value)
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
        found = "0.0"
    elif 0 < point <= 21:
        found = f"{text[:point].ljust(point, '0')}.{text[point:] or '0'}"
    elif -6 < point <= 0:
        found = f"0.{'0' * -point}{text}"
    else:
        found = f"{text[0]}{'.' * (len(text) > 1)}{text[1:]}e{point - 1}"
    return f"{'-' * sign}{found}"
