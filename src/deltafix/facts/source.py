"""Where input rows come from: the fact files a program's `.input` directives name.

Invariant: a program's text chooses files only below the fact folder its user names; the name is
checked as text, so links that the user put into the folder are followed. Reading is `codec`'s
work; nothing here keeps rows or knows the engine.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from deltafix.diagnostics import did_you_mean
from deltafix.errors import SourceError
from deltafix.facts.codec import FactFormat, Warn, read_facts
from deltafix.facts.schema import Row, Schema

if TYPE_CHECKING:
    import pyarrow as pa

_PACKED: Final = b"\x1f\x8b"
"""What a gzip file begins with (RFC 1952)."""


def read_input(
    schema: Schema,
    parameters: Mapping[str, str],
    folder: Path,
    warn: Warn = None,
    *,
    may_lack: bool = False,
    taken: Collection[str] = (),
) -> pa.Table | list[Row]:
    """The rows of one `.input` directive.

    Parameters, as in Soufflé: `IO` (`file`, the default, `stdin`, `sqlite`, `jsonfile`, or `json`
    from standard input), `filename` (below `folder`; `<relation>.facts` or `.json` unless given;
    what gzip packed is unpacked), `delimiter`, `columns`, `headers`, `rfc4180`; for sqlite
    `dbname` or `filename`, the database with a table or view called like the relation.

    `warn` hears of values beyond the relation's columns, which Soufflé passes over, and, if the
    folder `may_lack` the file, that it is not there and the relation has no rows. Without it both
    are errors. Files that are `taken`, by their names, are other relations', and none is proposed.

    Raises:
        SourceError: a file that is missing, unreadable, or outside `folder`; another `IO`.
        FactError: a parameter, line or value that does not fit; names file and line.
    """
    form = FactFormat.from_parameters(schema.relation, parameters)
    kind = parameters.get("IO", "file")
    if kind == "stdin":
        data = _unpacked(sys.stdin.buffer.read(), "<stdin>", schema)
        return read_facts(data, schema, form, "<stdin>", warn)
    if kind == "json":
        from deltafix.facts.json_rows import read_json  # noqa: PLC0415

        return read_json(_unpacked(sys.stdin.buffer.read(), "<stdin>", schema), schema, "<stdin>")
    if kind not in ("file", "jsonfile", "sqlite"):
        valid = "valid: file, stdin, sqlite, jsonfile, json"
        message = f"{schema.relation}: IO={kind} is not supported for input; {valid}"
        raise SourceError(message, relation=schema.relation, value=kind)
    if kind == "sqlite":
        from deltafix.facts.sqlite import database_name  # noqa: PLC0415

        path = inside(folder, database_name(schema.relation, parameters), schema.relation)
    else:
        path = input_path(schema.relation, parameters, folder)
    if may_lack and warn is not None and not path.exists():
        warn(f"{path}: no such fact file for {schema.show()}; it has no rows")
        return []
    if kind == "sqlite":
        from deltafix.facts.sqlite import read_table  # noqa: PLC0415

        return read_table(path, schema)
    if kind == "jsonfile":
        from deltafix.facts.json_rows import read_json  # noqa: PLC0415

        return read_json(_bytes(path, schema, taken), schema, str(path))
    return read_facts(_bytes(path, schema, taken), schema, form, str(path), warn)


def input_path(relation: str, parameters: Mapping[str, str], folder: Path) -> Path:
    """The file an `.input` directive names; without `filename`, a lone `.facts.gz` serves too."""
    if "filename" in parameters:
        return inside(folder, parameters["filename"], relation)
    ending = "json" if parameters.get("IO") == "jsonfile" else "facts"
    path = inside(folder, f"{relation}.{ending}", relation)
    packed = path.with_name(path.name + ".gz")
    return packed if packed.exists() and not path.exists() else path


def read_file(
    path: Path, schema: Schema, form: FactFormat, warn: Warn = None
) -> pa.Table | list[Row]:
    """Read one fact file whole, unpacking what gzip packed, whatever it is called.

    Raises:
        SourceError: a file that is missing or unreadable, or a damaged `.gz`.
        FactError: a line or value that does not fit; names file and line.
    """
    return read_facts(_bytes(path, schema), schema, form, str(path), warn)


def _bytes(path: Path, schema: Schema, taken: Collection[str] = ()) -> bytes:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        message = f"{path}: no such fact file for {schema.show()}; {_instead(path, taken)}"
        raise SourceError(message, path=str(path), relation=schema.relation) from None
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror or error}"
        raise SourceError(message, path=str(path), relation=schema.relation) from None
    return _unpacked(data, str(path), schema)


def _instead(path: Path, taken: Collection[str]) -> str:
    """What to do about a file that is not there."""
    files = path.parent.iterdir() if path.parent.is_dir() else ()
    beside = [file.name for file in files if file.name not in taken]
    other = f"{path.stem}.csv"
    if other in beside and other != path.name:
        return f'there is {other}, which `filename="{other}", rfc4180=true` reads'
    return did_you_mean(path.name, beside, "a relation without rows has an empty file")


def _unpacked(data: bytes, label: str, schema: Schema) -> bytes:
    """The text that gzip packed; text that it did not, as it is: UTF-8 begins no line so."""
    if data[:2] != _PACKED:
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        message = f"{label}: cannot be unpacked: {error}"
        raise SourceError(message, path=label, relation=schema.relation) from None


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
