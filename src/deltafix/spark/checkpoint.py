"""What Spark keeps of a streaming query in its checkpoint: who it is, and where its sources were.

    metadata        the query's id, made with the checkpoint
    offsets/<n>     where the sources of batch n end, written before the batch runs
    sources/<s>/<m> the files of look m of source s, where it reads files
    commits/<n>     batch n is finished

Invariant: nothing is written. Read through Spark's file systems, so a checkpoint is where Spark can
write one.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ABOUT = 2
"""Lines of an offsets file before the offsets: its format, and when and how the batch was made."""


class Checkpoint:
    """A checkpoint, which may not be there yet."""

    def __init__(self, session: SparkSession, path: str) -> None:
        context: Any = session.sparkContext
        self._jvm = context._jvm
        self._root = self._path(path)
        self._files = self._root.getFileSystem(context._jsc.hadoopConfiguration())

    def run(self) -> str | None:
        """The query's id; None before the first start."""
        text = self._read("metadata")
        return None if text is None else str(json.loads(text)["id"])

    def last(self) -> int:
        """The last finished batch; -1 before the first."""
        folder = self._path(self._root, "commits")
        if not self._files.exists(folder):
            return -1
        names = [status.getPath().getName() for status in self._files.listStatus(folder)]
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def offsets(self, batch: int) -> str:
        """A digest of where the sources of a batch end; empty if that is not there.

        It tells batches of one number apart, also where a checkpoint was put back from a copy.
        """
        text = self._read("offsets", str(batch))
        if text is None:
            return ""
        lines = text.splitlines()[_ABOUT:]
        for source, line in enumerate(tuple(lines)):
            lines.extend(self._files_of(source, line))
        return hashlib.blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()

    def _files_of(self, source: int, offset: str) -> list[str]:
        """The files that a source of files adds at an offset, which only counts its looks."""
        match = re.search(r'"logOffset":(\d+)', offset)
        if match is None:
            return []
        number = match[1]
        for name in (number, f"{number}.compact"):
            text = self._read("sources", str(source), name)
            if text is not None:
                return [line for line in text.splitlines() if f'"batchId":{number}}}' in line]
        return []

    def _path(self, *parts: Any) -> Any:
        path = parts[0]
        if isinstance(path, str):
            path = self._jvm.org.apache.hadoop.fs.Path(path)
        for part in parts[1:]:
            path = self._jvm.org.apache.hadoop.fs.Path(path, part)
        return path

    def _read(self, *parts: str) -> str | None:
        path = self._path(self._root, *parts)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()
