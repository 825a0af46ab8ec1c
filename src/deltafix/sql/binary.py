"""Binary values as text: as the engine holds them, as each dialect writes them, as functions do.

The engine holds a BLOB as its hexadecimal digits, a text that sorts as its bytes do, in UTF-8 and
without line ends. Invariant: of each form writing and reading are inverse, and what is not of the
form is a ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from deltafix.facts.values import plain_text

__all__ = ["FILES", "from_text", "hexadecimal", "to_text", "unhexed", "utf8_text"]

FILES: Final = "files"
"""The form of files and feeds that have no binary values: `\\x00ff`, as PostgreSQL prints them."""

_DIGITS: Final = re.compile("(?:[0-9a-fA-F]{2})*")
_DUCKDB: Final = re.compile(r"\\x([0-9a-fA-F]{2})|([^\\\x80-\U0010ffff])", re.DOTALL)
_POSTGRES: Final = re.compile(r"\\([0-3][0-7]{2})|\\(\\)|([^\\])", re.DOTALL)


def to_text(dialect: str) -> Callable[[bytes], str]:
    """How a dialect, or files, write a binary value as text."""
    return _WRITE[dialect]


def from_text(dialect: str) -> Callable[[str], bytes]:
    """How they read one."""
    return _READ[dialect]


def hexadecimal(value: bytes | str) -> str:
    """HEX(value); of a text in UTF-8."""
    return (value.encode() if isinstance(value, str) else value).hex().upper()


def unhexed(text: str) -> bytes:
    """UNHEX(text), which may lack a zero in front."""
    return _of_digits(text if len(text) % 2 == 0 else f"0{text}", text)


def utf8_text(value: bytes) -> str:
    """DECODE(value)."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{plain_text(value)} is no text in UTF-8") from None


def _of_digits(digits: str, text: str) -> bytes:
    if not _DIGITS.fullmatch(digits):
        raise ValueError(f"{text!r} is no BLOB: two hexadecimal digits for each byte")
    return bytes.fromhex(digits)


def _prefixed(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError(f"{text!r} is no BLOB; it is written \\x00ff")
    return _of_digits(text[2:], text)


def _duckdb(value: bytes) -> str:
    plain = (32 <= byte < 127 and byte not in b"\\'\"" for byte in value)
    return "".join(
        chr(byte) if is_plain else f"\\x{byte:02X}"
        for byte, is_plain in zip(value, plain, strict=True)
    )


def _of_duckdb(text: str) -> bytes:
    parts = _parts(_DUCKDB, text, "\\x and two digits is a byte, and other text is ASCII")
    return b"".join(bytes.fromhex(part[1]) if part[1] else part[2].encode() for part in parts)


def _of_postgres(text: str) -> bytes:
    if text.startswith("\\x"):
        return _prefixed(text)
    parts = _parts(_POSTGRES, text, "write \\x00ff, or \\000 for a byte and \\\\ for \\")
    return b"".join(
        bytes([int(part[1], 8)]) if part[1] else (part[2] or part[3]).encode() for part in parts
    )


def _parts(form: re.Pattern[str], text: str, valid: str) -> list[re.Match[str]]:
    parts = list(form.finditer(text))
    if sum(len(part[0]) for part in parts) != len(text):
        raise ValueError(f"{text!r} is no BLOB: {valid}")
    return parts


_WRITE: Final[dict[str, Callable[[bytes], str]]] = {
    FILES: plain_text,
    "duckdb": _duckdb,
    "postgres": plain_text,
    "spark": utf8_text,
}
_READ: Final[dict[str, Callable[[str], bytes]]] = {
    FILES: _prefixed,
    "duckdb": _of_duckdb,
    "postgres": _of_postgres,
    "spark": str.encode,
}
