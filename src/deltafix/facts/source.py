"""Where input rows come from: the fact files a program's `.input` directives name.

Invariant: a program's text chooses files only below the fact folder its user names; the name is
checked as text, so links that the user put into the folder are followed. Reading is `codec`'s
work; nothing here keeps rows or knows the engine.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from deltafix.errors import SourceError
from deltafix.facts.codec import FactFormat, read_facts
from deltafix.facts.schema import Row, Schema

if TYPE_CHECKING:
    import pyarrow as pa

_PACKED: Final = b"\x1f\x8b"
"""What a gzip file begins with (RFC 1952)."""

__all__ = ["input_path", "inside", "read_file", "read_input"]


def read_input(schema: Schema, parameters: Mapping[str, str], folder: Path) -> pa.Table | list[Row]:
    """The rows of one `.input` directive.

    Parameters, as in Soufflé: `IO` (`file`, the default, `stdin` or `sqlite`), `filename` (below
    `folder`; `<relation>.facts` unless given, `.gz` or `compress=true` for gzip), `delimiter`,
    `headers`, `rfc4180`; for sqlite `dbname` or `filename`, the database with a table or view
    called like the relation.

    Raises:
        SourceError: a file that is missing, unreadable, or outside `folder`; another `IO`.
        FactError: a parameter, line or value that does not fit; names file and line.
    """
    form = FactFormat.from_parameters(schema.relation, parameters)
    kind = parameters.get("IO", "file")
    if kind == "stdin":
        return read_facts(sys.stdin.buffer.read(), schema, form, "<stdin>")
    if kind == "sqlite":
        from deltafix.facts.sqlite import database_name, read_table  # noqa: PLC0415

        name = database_name(schema.relation, parameters)
        return read_table(inside(folder, name, schema.relation), schema)
    if kind != "file":
        valid = "valid: file, stdin, sqlite"
        message = f"{schema.relation}: IO={kind} is not supported for input; {valid}"
        raise SourceError(message, relation=schema.relation, value=kind)
    return read_file(input_path(schema.relation, parameters, folder), schema, form)


def input_path(relation: str, parameters: Mapping[str, str], folder: Path) -> Path:
    """The file an `.input` directive names; without `filename`, a lone `.facts.gz` serves too."""
    if "filename" in parameters:
        return inside(folder, parameters["filename"], relation)
    path = inside(folder, f"{relation}.facts", relation)
    packed = path.with_name(path.name + ".gz")
    return packed if packed.exists() and not path.exists() else path


def read_file(path: Path, schema: Schema, form: FactFormat) -> pa.Table | list[Row]:
    """Read one fact file whole, unpacking `.gz` and, under `compress`, whatever is packed.

    Raises:
        SourceError: a file that is missing or unreadable, or a damaged `.gz`.
        FactError: a line or value that does not fit; names file and line.
    """
    label = str(path)
    try:
        data = path.read_bytes()
        if path.suffix == ".gz" or (form.compress and data[:2] == _PACKED):
            data = gzip.decompress(data)
    except FileNotFoundError:
        message = f"{label}: no such fact file for {schema.show()}"
        raise SourceError(message, path=label, relation=schema.relation) from None
    except (OSError, EOFError, zlib.error) as error:
        message = f"{label}: cannot be read: {getattr(error, 'strerror', None) or error}"
        raise SourceError(message, path=label, relation=schema.relation) from None
    return read_facts(data, schema, form, label)


def inside(folder: Path, filename: str, relation: str) -> Path:
    """`folder / filename`, if that stays inside the folder.

    Raises:
        SourceError: an absolute name, an empty one, or one that climbs out with `..`.
    """
    name = PurePath(filename)
    if name.is_absolute() or not name.parts or ".." in name.parts or "\0" in filename:
        message = (
            f"{relation}: filename={filename!r} leaves the folder {folder}; give a relative path "
            "without '..'"
        )
        raise SourceError(message, relation=relation, value=filename)
    return folder / name
