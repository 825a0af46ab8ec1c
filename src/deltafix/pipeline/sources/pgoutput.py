"""Messages of PostgreSQL's logical decoding (plugin `pgoutput`, protocol version 1) as values.

    Begin (Relation | Insert | Update | Delete | Truncate)* Commit      a transaction, in this order

A Relation comes before the first change of its table, and again when the table has changed. Values
are text as PostgreSQL prints them; None is NULL, `UNCHANGED` a long value that an update left as it
was and the message does not repeat. Invariant: a message is read wholly or refused (ValueError);
kinds that say nothing of rows (types, origins) are None. Nothing here asks a server.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, TypeAlias


class _Unchanged:
    """The class of `UNCHANGED`."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = _Unchanged()

Values: TypeAlias = "list[bytes | _Unchanged | None]"
"""A row, or of a deleted one its key: as many values as its Relation has columns."""

_EPOCH: Final = 946_684_800
"""Seconds from 1970 to 2000, from which PostgreSQL counts."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction begins.

    Attributes:
        stamp: when it was committed, in seconds since 1970.
        xid: its number, modulo 2**32.
    """

    stamp: float
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction ends; `end` is the position in the log behind it."""

    end: int


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as it was when the changes behind this message were made.

    Attributes:
        oid: its number.
        columns: of each column its name, its type's number, and whether it is of the replica
            identity, in the order of values.
    """

    oid: int
    columns: tuple[tuple[str, int, bool], ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A row that came (`new`), went (`old`), or was replaced (`new`, and `old` if it is told).

    Attributes:
        oid: the table's number.
        old: what is told of the row before.
        is_key: whether that is the replica identity's columns only, with NULL in the others.
        new: the row from now on.
        was_there: whether there was a row before.
    """

    oid: int
    old: Values | None
    is_key: bool
    new: Values | None
    was_there: bool = True


@dataclass(frozen=True, slots=True)
class Truncate:
    """Tables that have no rows from here on."""

    oids: tuple[int, ...]


Message: TypeAlias = Begin | Commit | Relation | Change | Truncate

_BEGIN: Final = struct.Struct(">qqI")
_COMMIT: Final = struct.Struct(">Bqqq")
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">I")
_COLUMN: Final = struct.Struct(">Ii")


def parse(data: bytes) -> Message | None:
    """The message that these bytes are; None for one that says nothing of rows.

    Raises ValueError for bytes that are none.
    """
    try:
        return _parse(data)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"no message of pgoutput: {error}") from None


def _parse(data: bytes) -> Message | None:
    kind = data[:1]
    if kind == b"I":
        _expect(data[5:6], b"N")
        new, _ = _values(data, 6)
        return Change(_INT.unpack_from(data, 1)[0], None, False, new, was_there=False)
    if kind == b"U":
        oid, at, old, mark = _INT.unpack_from(data, 1)[0], 5, None, data[5:6]
        if mark in (b"K", b"O"):
            old, at = _values(data, 6)
        _expect(data[at : at + 1], b"N")
        new, _ = _values(data, at + 1)
        return Change(oid, old, mark == b"K", new)
    if kind == b"D":
        _expect(data[5:6], b"K", b"O")
        old, _ = _values(data, 6)
        return Change(_INT.unpack_from(data, 1)[0], old, data[5:6] == b"K", None)
    if kind == b"B":
        _, stamp, xid = _BEGIN.unpack_from(data, 1)
        return Begin(stamp / 1e6 + _EPOCH, xid)
    if kind == b"C":
        return Commit(_COMMIT.unpack_from(data, 1)[2])
    if kind == b"R":
        return _relation(data)
    if kind == b"T":
        many = _INT.unpack_from(data, 1)[0]
        return Truncate(struct.unpack_from(f">{many}I", data, 6))
    _expect(kind, b"Y", b"O")
    return None


def _relation(data: bytes) -> Relation:
    at = data.index(b"\0", data.index(b"\0", 5) + 1) + 2  # behind its names and replica identity
    columns = []
    many, at = _SHORT.unpack_from(data, at)[0], at + 2
    for _ in range(many):
        end = data.index(b"\0", at + 1)
        kind, _ = _COLUMN.unpack_from(data, end + 1)
        columns.append((data[at + 1 : end].decode(), kind, bool(data[at] & 1)))
        at = end + 9
    return Relation(_INT.unpack_from(data, 1)[0], tuple(columns))


def _values(data: bytes, at: int) -> tuple[Values, int]:
    """The values of a row that begins here, and where it ends."""
    values: Values = []
    many, at = _SHORT.unpack_from(data, at)[0], at + 2
    for _ in range(many):
        kind = data[at]
        at += 1
        if kind == 0x74:  # t: text
            size = _INT.unpack_from(data, at)[0]
            at += 4 + size
            values.append(data[at - size : at])
            if at > len(data):
                raise IndexError("it ends in a value")
        elif kind == 0x6E:  # n: NULL
            values.append(None)
        elif kind == 0x75:  # u: unchanged
            values.append(UNCHANGED)
        else:
            raise IndexError(f"a value of kind {chr(kind)!r}")
    return values, at


def _expect(tag: bytes, *expected: bytes) -> None:
    if tag not in expected:
        raise IndexError(f"{tag!r} where {b' or '.join(expected)!r} stands")
