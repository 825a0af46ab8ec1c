"""Where output rows go: the files a program's `.output` directives name, or standard output.

Invariant: a file appears whole or not at all (written beside its place, then renamed), and a
program's text chooses files only below the output folder its user names. Printing rows is
`codec`'s work; nothing here keeps rows or knows the engine.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO
from uuid import uuid4

from deltafix.errors import FactError, SinkError
from deltafix.facts.codec import FactFormat, write_facts
from deltafix.facts.schema import Row, Schema
from deltafix.facts.source import inside
from deltafix.paths import local_path


def write_output(
    schema: Schema,
    parameters: Mapping[str, str],
    rows: Iterable[Row],
    folder: Path | None,
    stdout: TextIO,
) -> Path | None:
    """Write one `.output` directive's relation.

    Parameters, as in Soufflé: `IO` (`file`, the default, `stdout`, `sqlite`, `jsonfile`, or `json`
    on standard output), `filename` (below `folder`; `<relation>.csv` or `.json` unless given, `.gz`
    or `compress=true` for gzip), `delimiter`, `headers`, `rfc4180`; for JSON `format=object` or
    `list`; for sqlite `dbname` or `filename`, the database whose table of the relation's name is
    made anew.

    Args:
        schema: the relation's schema.
        parameters: the directive's parameters.
        rows: what to write, in this order.
        folder: where files go, made if missing; None prints every relation (`-D -`).
        stdout: where printed relations go.

    Returns:
        The file written, or None if the relation was printed.

    Raises:
        SinkError: a file that cannot be written; another `IO`.
        SourceError: a file name outside `folder`.
        FactError: a parameter not understood, or a symbol that could not be read back.
    """
    form = FactFormat.from_parameters(schema.relation, parameters)
    kind = parameters.get("IO", "file")
    if kind not in ("file", "stdout", "sqlite", "json", "jsonfile"):
        valid = "valid: file, stdout, sqlite, jsonfile, json"
        message = f"{schema.relation}: IO={kind} is not supported for output; {valid}"
        raise SinkError(message, relation=schema.relation, value=kind)
    if kind in ("json", "jsonfile"):
        return _write_json(schema, parameters, rows, None if kind == "json" else folder, stdout)
    if kind == "stdout" or folder is None:
        print_relation(schema, rows, form, stdout)
        return None
    if kind == "sqlite":
        from deltafix.facts.sqlite import database_name, write_table  # noqa: PLC0415

        name = database_name(schema.relation, parameters)
        path = inside(folder, name, schema.relation)
        write_table(path, schema, rows)
        return path
    path = output_path(schema.relation, parameters, folder)
    if form.compress and "filename" not in parameters:
        path = path.with_name(f"{path.name}.gz")
    with whole_file(path, packed=form.compress) as stream:
        write_facts(rows, schema, form, stream, str(path))
    return path


def output_path(relation: str, parameters: Mapping[str, str], folder: Path) -> Path:
    """The file an `.output` directive names."""
    ending = "json" if parameters.get("IO") == "jsonfile" else "csv"
    return inside(folder, parameters.get("filename", f"{relation}.{ending}"), relation)


def _write_json(
    schema: Schema,
    parameters: Mapping[str, str],
    rows: Iterable[Row],
    folder: Path | None,
    stdout: TextIO,
) -> Path | None:
    from deltafix.facts.json_rows import write_json  # noqa: PLC0415

    form = parameters.get("format", "list")
    if form not in ("list", "object"):
        message = f"{schema.relation}: format={form!r}, but it takes list or object"
        raise FactError(message, relation=schema.relation, value=form)
    if folder is None:
        write_json(rows, schema, stdout, as_objects=form == "object")
        return None
    path = output_path(schema.relation, parameters, folder)
    packed = parameters.get("compress") == "true"
    if packed and "filename" not in parameters:
        path = path.with_name(f"{path.name}.gz")
    with whole_file(path, packed=packed) as stream:
        write_json(rows, schema, stream, as_objects=form == "object")
    return path


def print_relation(schema: Schema, rows: Iterable[Row], form: FactFormat, stdout: TextIO) -> None:
    """Print a relation the way Soufflé does under `-D -`: name and rows between rules."""
    text = io.StringIO()
    write_facts(rows, schema, FactFormat(form.delimiter, rfc4180=form.rfc4180), text, "<stdout>")
    stdout.write(f"---------------\n{schema.relation}\n")
    if form.headers:
        stdout.write(form.delimiter.join(schema.names) + "\n")
    stdout.write(f"===============\n{text.getvalue()}===============\n")


def print_size(relation: str, count: int, stdout: TextIO) -> None:
    """Print what `.printsize` asks for: name, tab, number of rows."""
    stdout.write(f"{relation}\t{count}\n")


@contextmanager
def whole_file(path: Path, *, packed: bool = False) -> Iterator[TextIO]:
    """Write a file that appears whole when the block ends, and not at all if it raises.

    Missing folders are made; a name ending in `.gz` is packed, another if asked to. Raises
    SinkError.
    """
    local_path(path)
    unfinished = path.parent / f".{path.name}.{uuid4().hex}"
    try:  # the file is made inside: an interrupt may come right behind that
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("xb") as raw:
            if packed or path.suffix == ".gz":
                # No name, no time: equal rows make equal files.
                with (
                    gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as zipped,
                    io.TextIOWrapper(zipped, encoding="utf-8", newline="") as stream,
                ):
                    yield stream
            else:
                with io.TextIOWrapper(raw, encoding="utf-8", newline="") as stream:
                    yield stream
        unfinished.replace(path)
    except OSError as error:
        raise _refused(path, error) from None
    finally:
        with suppress(OSError):  # of a folder that could not be made either
            unfinished.unlink(missing_ok=True)


def _refused(path: Path, error: OSError) -> SinkError:
    return SinkError(f"{path}: cannot be written: {error.strerror or error}", path=str(path))
