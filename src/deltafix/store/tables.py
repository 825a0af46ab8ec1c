"""Arrow tables as Parquet files of a folder.

Invariant: a table that was written reads back the same. Nothing here decides what is believed.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from deltafix.errors import SourceError
from deltafix.store.folder import Folder


def write_table(folder: Folder, name: str, table: pa.Table) -> None:
    """Write a table, whole or not at all. Raises OSError."""
    write_tables(folder, name, [table])


def write_tables(folder: Folder, name: str, tables: Iterable[pa.Table]) -> int:
    """Write tables of one schema, at least one, as one; only one of them is in memory at a time.

    Whole or not at all; returns the rows. Raises OSError.
    """
    rows = 0

    def pieces() -> Iterator[bytes]:
        nonlocal rows
        remaining = iter(tables)
        first = next(remaining)
        sink = io.BytesIO()
        with pq.ParquetWriter(sink, first.schema) as writer:
            for table in chain([first], remaining):
                rows += table.num_rows
                writer.write_table(table)
                yield sink.getvalue()
                sink.seek(0)
                sink.truncate()
        yield sink.getvalue()

    folder.write(name, pieces())
    return rows


def schema_of(path: Path) -> pa.Schema:
    """The schema of a table that is a file. Raises OSError, pyarrow.ArrowException."""
    return pq.read_schema(path)


def read_table(folder: Folder, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a table, or some of its columns.

    Raises FileNotFoundError, or SourceError for what cannot be read, a link or other bytes.
    """
    try:
        data = folder.read(name)
        # In memory of Arrow's own: its threads may be the last to let go of what they read, and one
        # that needs Python for that while the process ends aborts it (2 of 60 processes that read
        # Python's bytes and ended, none of 210 that read a copy).
        held = pa.allocate_buffer(len(data))
        with pa.FixedSizeBufferWriter(held) as stream:
            stream.write(data)
        return pq.read_table(pa.BufferReader(held), columns=columns)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        message = f"{folder}/{name}: cannot be read: {reason}"
        raise SourceError(message, path=f"{folder}/{name}") from None
