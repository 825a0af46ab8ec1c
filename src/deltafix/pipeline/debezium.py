"""Debezium's change envelopes to signed rows.

    op c, r (create, read)   +after
    op u (update)            -before +after
    op d (delete)            -before

With a key, what is before matters only where an update moves a row to another key, or for what a
delete takes away; of that the columns of the key are enough (`before` of a table without full
images), and so is the key of the message itself.

An envelope stands alone or under `payload`; a null value is a tombstone, and `m` a message without
a row: both say nothing. Invariant: an envelope gives all of its rows, each whole, or becomes one
bad row with a reason. Where envelopes come from (a file, a topic) is the caller's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from deltafix.facts.schema import Schema
from deltafix.pipeline.columns import choose, fit, judged, spelled
from deltafix.pipeline.decode import array_of
from deltafix.pipeline.keyed import NO_KEY, Keying
from deltafix.pipeline.signed import Bad, Signed

_PLACEHOLDER: Final = "__debezium_unavailable_value"
_UNTOLD: Final = (
    _PLACEHOLDER,
    [_PLACEHOLDER],
    ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],
    list(_PLACEHOLDER.encode()),
)
"""What stands for a value that a server does not tell again, unless Debezium is set otherwise: of
texts, and of arrays of texts, UUIDs and numbers."""

_WANTED = {"c": ("after",), "r": ("after",), "u": ("before", "after"), "d": ("before",)}


def decode_envelopes(
    schema: Schema,
    values: Iterable[tuple[int, Any]],
    origin: str,
    *,
    columns: Sequence[str] | None = None,
    keying: Keying = NO_KEY,
    merges: bool = True,
    keys: Sequence[Any] = (),
) -> Signed:
    """Envelopes, each with its position from 0, as signed rows of a relation.

    Args:
        schema: the relation.
        values: parsed JSON.
        origin: what errors call the source.
        columns: the images' names for the relation's columns.
        keying: its sequence are fields of `source`, of the envelope (`ts_ms`, `lsn`) or of the row.
        merges: whether rows may become one that differ only in columns that are left out.
        keys: the keys of the messages, by position, where these have any.

    Raises DriftError if the images' columns are not the relation's.
    """
    rows: list[Mapping[str, Any]] = []
    signs: list[int] = []
    positions: list[int] = []
    bad: list[Bad] = []
    reader = _Images.of(schema, columns, keying)
    for position, value in values:
        images, reason = reader.read(value, keys[position] if len(keys) else None)
        judgements = [(sign, *judged(schema, columns, image)) for sign, image in images]
        reason = reason or next(filter(None, (reader.untold(image) for _, image in images)), "")
        reason = next((why for *_, why in judgements if why), reason)
        if reason:
            bad.append(Bad(reason, f"{origin}, message {position + 1}", value))
        for sign, image, _ in [] if reason else judgements:
            signs.append(sign)
            rows.append(image)
            positions.append(position)
    # A delete by key need not say all columns. What one row lacks, the table may have lost.
    full = rows if not keying.key else [r for r, s in zip(rows, signs, strict=True) if s > 0]
    some = dict.fromkeys(name for row in full for name in row)
    lost = {name for name in columns or schema.names if any(name not in row for row in full)}
    source_columns = [name for name in some if name not in lost] if full else reader.all
    beside = reader.sequence
    if rows:
        names = choose(schema, source_columns, columns, beside, origin, merges=merges)
    else:
        names = list(columns or schema.names)
    table = pa.table(
        {name: array_of([row.get(name) for row in rows]) for name in [*names, *beside]}
    )
    table = table.append_column("", pa.array(signs, pa.int8()))
    # The sequence stands in columns that no row has.
    keying = Keying(keying.key, tuple(beside))
    done = fit(schema, table, names, origin, sign="", keying=keying, messages=positions)
    done.bad.extend(bad)
    return done


@dataclass(frozen=True, slots=True)
class _Images:
    """How the rows of an envelope are read.

    Attributes:
        schema, columns: the relation, and its columns' names in the images, if they are said.
        all: the names of the columns that rows have for the relation's.
        key: those of the key.
        fields: where sequences are.
        sequence: the columns in which images carry them.
    """

    schema: Schema
    columns: Sequence[str] | None
    all: list[str]
    key: list[str]
    fields: tuple[str, ...]
    sequence: list[str]

    @classmethod
    def of(cls, schema: Schema, columns: Sequence[str] | None, keying: Keying) -> _Images:
        """For a relation, and its columns' names in the images."""
        names = list(columns or schema.names)
        key = [name for name, own in zip(names, schema.names, strict=True) if own in keying.key]
        beside = [f"{name} of the envelope" for name in keying.sequence]
        return cls(schema, columns, [*names, *beside], key, keying.sequence, beside)

    def read(self, value: Any, key: Any) -> tuple[list[tuple[int, dict[str, Any]]], str]:
        """The signed images of an envelope, or why there are none."""
        value = _payload(value)
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
            image = self._spelled(value.get(name))
            if self.key and name == "before":
                image = self._before(op, value, image, _payload(key))
                if op == "u" and image is None:
                    continue
            if not isinstance(image, dict):
                hint = "; the table must publish whole rows (REPLICA IDENTITY FULL)"
                if self.key:
                    hint = f", and no key of the message has {', '.join(self.key)}"
                return [], f"op {op} without {name!r}" + (hint if name == "before" else "")
            beside = zip(self.sequence, self.fields, strict=True)
            image = {**image, **{name: _field(value, field) for name, field in beside}}
            images.append((1 if name == "after" else -1, image))
        return images, ""

    def untold(self, image: Mapping[str, Any]) -> str:
        """Why an image has not all of its row: a long value that an update left as it was."""
        for name in self.all:
            if image.get(name) in _UNTOLD:
                return (
                    f"{name} is long, was left as it was and is not told ({_PLACEHOLDER}): the "
                    "table must publish whole rows (REPLICA IDENTITY FULL)"
                )
        return ""

    def _spelled(self, image: Any) -> Any:
        return spelled(self.schema, self.columns, image)

    def _before(
        self, op: str, value: dict[str, Any], before: Any, key: Any
    ) -> dict[str, Any] | None:
        """The key that an envelope takes a row from, where it says so."""
        for image in (before, self._spelled(key)):
            if isinstance(image, dict) and all(image.get(name) is not None for name in self.key):
                moving = {name: image[name] for name in self.key}
                after = self._spelled(value.get("after")) if op == "u" else None
                moved = not isinstance(after, dict) or any(
                    after.get(name) != old for name, old in moving.items()
                )
                return moving if moved else None
            if op == "u":  # the message's key is that of the row after
                return None
        return None


def _payload(value: Any) -> Any:
    if isinstance(value, dict) and isinstance(value.get("payload", ...), dict | None):
        return value["payload"]
    return value


def _field(value: dict[str, Any], name: str) -> Any:
    """A field of the source, else of the envelope, else of the row after.

    What a deleted row said of itself is older than its delete.
    """
    for part in (value.get("source"), value, value.get("after")):
        if isinstance(part, dict) and name in part:
            return part[name]
    return None
