"""Debezium's change envelopes to signed rows.

    op c, r (create, read)   +after
    op u (update)            -before +after
    op d (delete)            -before

An envelope stands alone or under `payload`; a null value is a tombstone, and `m` a message without
a row: both say nothing. Invariant: an envelope gives all of its rows or becomes one bad row with a
reason. Where envelopes come from (a file, a topic) is the caller's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from deltafix.facts.schema import Schema
from deltafix.pipeline.columns import choose, fit
from deltafix.pipeline.signed import Bad, Signed

__all__ = ["decode_envelopes"]

_WANTED = {"c": ("after",), "r": ("after",), "u": ("before", "after"), "d": ("before",)}
_VERSION = "version of the envelope"


def decode_envelopes(
    schema: Schema,
    values: Iterable[tuple[int, Any]],
    origin: str,
    *,
    columns: Sequence[str] | None = None,
    version: str = "",
    merges: bool = True,
) -> Signed:
    """Envelopes, each with its place from 0, as signed rows of a relation.

    Args:
        schema: the relation.
        values: parsed JSON.
        origin: what errors call the source.
        columns: the images' names for the relation's columns.
        version: a field of the envelope or of its `source` (`ts_ms`, `lsn`): its version.
        merges: whether rows may become one that differ only in columns that are left out.

    Raises DriftError if the images' columns are not the relation's.
    """
    rows: list[dict[str, Any]] = []
    signs: list[int] = []
    places: list[int] = []
    bad: list[Bad] = []
    for place, value in values:
        images, reason = _images(value, version)
        if reason:
            bad.append(Bad(reason, f"{origin}, message {place + 1}", value))
        for sign, image in images:
            signs.append(sign)
            rows.append(image)
            places.append(place)
    found = list(dict.fromkeys(name for row in rows for name in row if name != _VERSION))
    beside = [_VERSION] if version else []
    if rows:
        names = choose(schema, [*found, *beside], columns, beside, origin, merges=merges)
    else:
        names = list(columns or schema.names)
    table = pa.table({name: _column([row.get(name) for row in rows]) for name in [*names, *beside]})
    table = table.append_column("", pa.array(signs, pa.int8()))
    given = _VERSION if version else ""
    done = fit(schema, table, names, origin, sign="", version=given, messages=places)
    done.bad.extend(bad)
    return done


def _images(value: Any, version: str) -> tuple[list[tuple[int, dict[str, Any]]], str]:
    """The signed images of an envelope, or why there are none."""
    if isinstance(value, dict) and isinstance(value.get("payload", ...), dict | None):
        value = value["payload"]
    if value is None:
        return [], ""
    if not isinstance(value, dict) or "op" not in value:
        return [], "it is no Debezium envelope: there is no op"
    op = value["op"]
    if op == "m":
        return [], ""
    if op not in _WANTED:
        return [], f"op = {op!r} is not one of c, u, d, r"
    images = []
    for name in _WANTED[op]:
        image = value.get(name)
        if not isinstance(image, dict):
            hint = "; the table must publish whole rows (REPLICA IDENTITY FULL)"
            return [], f"op {op} without {name!r}" + (hint if name == "before" else "")
        if version:
            image = {**image, _VERSION: _version(value, version)}
        images.append((1 if name == "after" else -1, image))
    return images, ""


def _version(value: dict[str, Any], name: str) -> Any:
    source = value.get("source")
    return source[name] if isinstance(source, dict) and name in source else value.get(name)


def _column(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if v is None else str(v) for v in values], pa.string())
