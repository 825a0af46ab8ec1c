"""One file of an input as signed rows: format, envelope, columns and sign put together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from deltafix.diagnostics import separator_in
from deltafix.errors import PipelineError
from deltafix.facts.schema import Schema
from deltafix.pipeline.columns import choose, fit, judged, with_deletes
from deltafix.pipeline.debezium import decode_envelopes
from deltafix.pipeline.decode import File, FileForm, decode_file, json_values, read_bytes
from deltafix.pipeline.keyed import NO_KEY, Keying
from deltafix.pipeline.signed import Signed


def _is_plain(kind: pa.DataType) -> bool:
    """Whether JSON has values of a type as such, and not as text."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )


@dataclass(frozen=True, slots=True)
class FileReader:
    """How files of an input are read.

    Attributes:
        schema: the relation.
        form: how files are spelled.
        columns: the files' names for the relation's columns, if they differ.
        sign: the column of signs; empty if every row is a row that holds.
        envelope: `sign` or `debezium`.
        keying: by which columns rows replace each other, and what tells versions.
        merges: whether rows may become one that differ only in columns that are left out.
    """

    schema: Schema
    form: FileForm
    columns: tuple[str, ...] | None = None
    sign: str = ""
    envelope: str = "sign"
    keying: Keying = NO_KEY
    merges: bool = True

    @classmethod
    def of(cls, schema: Schema, values: Mapping[str, Any], *, changes: bool) -> FileReader:
        """From the values of a section; `changes` tells whether rows have signs."""
        sign = values.get("sign", "") if changes else ""
        keying = Keying.of(values)
        columns = values.get("columns")
        names = tuple(
            dict.fromkeys([*([sign] * bool(sign)), *keying.sequence, *(columns or schema.names)])
        )
        logical = zip(columns or schema.names, schema.columns, strict=True)
        kinds = {
            name: column.logical.arrow for name, column in logical if column.logical is not None
        }
        texts = tuple(name for name, kind in kinds.items() if not _is_plain(kind))
        form = FileForm(
            values["format"], values["delimiter"], values["header"], names, bool(kinds),
            tuple(columns or schema.names), texts,
        )  # fmt: skip
        columns = None if columns is None else tuple(columns)
        envelope = values.get("envelope", "sign") if changes else "sign"
        merges = not changes or bool(values["duplicates"] or keying.key)
        return cls(schema, form, columns, sign, envelope, keying, merges)

    def read(self, path: File) -> Signed:
        """The rows of a file; bad ones set aside.

        Raises DriftError for other columns than the relation's, PipelineError for a file that
        cannot be read.
        """
        origin = str(path)
        if self.envelope == "debezium":
            try:
                lines = read_bytes(path).splitlines()
            except OSError as error:
                message = f"{path}: cannot be read: {error.strerror or error}"
                raise PipelineError(message, path=str(path)) from None
            values, bad = json_values(lines, origin, exact=self.form.nulls)
            signed = decode_envelopes(
                self.schema,
                values,
                origin,
                columns=self.columns,
                keying=self.keying,
                merges=self.merges,
            )
            signed.bad.extend(bad)
            return signed
        decoded = decode_file(path, self.form, partial(judged, self.schema, self.columns))
        beside = [name for name in (self.sign, *self.keying.sequence) if name]
        table = with_deletes(self.schema, decoded.table, self.columns, self.sign, self.keying)
        source_columns = table.column_names
        names = choose(
            self.schema, source_columns, self.columns, beside, origin,
            merges=self.merges, way_out=self._way_out(source_columns),
        )  # fmt: skip
        signed = fit(self.schema, table, names, origin, sign=self.sign or 1, keying=self.keying)
        signed.bad.extend(decoded.bad)
        return signed

    def _way_out(self, names: list[str]) -> str:
        """What there is to do about a file with these columns, if they are not those wanted."""
        separator = separator_in(names, self.form.delimiter)
        if self.form.format == "csv" and separator is not None:
            seen = json.dumps(separator)
            return f"its first line has {seen} between names: say delimiter = {seen}"
        if self.sign and self.sign not in names:
            rest = ", and no key" if self.keying.key else ""
            return (
                f"in a change file {self.sign!r} says of a row whether it comes (+) or goes (-): "
                'if files call it otherwise, say sign = "NAME"; if they have the rows that hold, '
                'without a sign, say mode = "rows" (a row holds while some file has it) or '
                f'source = "snapshot" (each file is all of them){rest}'
            )
        return ""
