"""Arrow tables as Parquet files of a folder.

Invariant: a table that was written reads back the same. Nothing here decides what is believed.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from deltafix.errors import SourceError
from deltafix.store.folder import Folder

__all__ = ["read_table", "write_table"]


def write_table(folder: Folder, name: str, table: pa.Table) -> int:
    """Write a table, whole or not at all; returns its bytes. Raises OSError."""
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer)
    return folder.write(name, [memoryview(buffer.getvalue())])


def read_table(folder: Folder, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a table, or some of its columns.

    Raises FileNotFoundError, or SourceError for what cannot be read, a link or other bytes.
    """
    try:
        return pq.read_table(pa.BufferReader(folder.read(name)), columns=columns)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        message = f"{folder}/{name}: cannot be read: {reason}"
        raise SourceError(message, path=f"{folder}/{name}") from None
