"""The extractor `debian`: dpkg's status, apt's marks and lists below a root, as facts by file.

    installed(package)                    dpkg has it, whole
    essential(package)                    it may not be taken away
    automatic(package)                    apt put it in because another package needed it
    available(package)                    it stands in a list
    needs(package, group, position, target)
                                          a Depends, Pre-Depends or Recommends; the alternatives of
                                          one need share a group, which says its kind
    provides(package, target)

Invariant: a file's facts follow from the file alone. Versions and architectures of needs are left
out: a need is met by a package of that name. Nothing here writes.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa

_STATUS: Final = "var/lib/dpkg/status"
_STATES: Final = "var/lib/apt/extended_states"
_LISTS: Final = "var/lib/apt/lists"
_NEEDS: Final = {"Pre-Depends": "depends", "Depends": "depends", "Recommends": "recommends"}
_KEPT: Final = ("Package", "Status", "Essential", "Auto-Installed", "Provides", *_NEEDS)
_NAME: Final = re.compile(r"\s*([a-z0-9][a-z0-9+.-]*)")
_FACTS: Final = pa.schema(
    [("path", pa.string()), ("relation", pa.string()), ("row", pa.list_(pa.string()))]
)


class DebianLists:
    """What the package lists below a root say; the root of the machine is `/`."""

    relations: Mapping[str, tuple[str, ...]] = {
        "installed": ("package",),
        "essential": ("package",),
        "automatic": ("package",),
        "available": ("package",),
        "needs": ("package", "group", "position", "target"),
        "provides": ("package", "target"),
    }

    def scan(self, root: Path) -> Mapping[str, list[int]]:
        """The lists that are there, with time and size."""
        paths = [root / _STATUS, root / _STATES, *sorted((root / _LISTS).glob("*_Packages*"))]
        stamps = {}
        for path in paths:
            if path.is_file():
                status = path.stat()
                stamps[path.relative_to(root).as_posix()] = [status.st_mtime_ns, status.st_size]
        return stamps

    def extract(self, root: Path, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The facts of a batch of paths; a file that cannot be read says why under `<error>`."""
        facts: list[tuple[str, str, tuple[str, ...]]] = []
        for file in batch.column("path").to_pylist():
            try:
                text = _text(root / file)
                facts.extend((file, name, row) for name, row in set(_facts(file, text)))
            except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
                facts.append((file, "<error>", (str(error),)))
        columns = list(zip(*facts, strict=True)) or [(), (), ()]
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, _FACTS, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=_FACTS)


def _text(path: Path) -> str:
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    elif path.suffix == ".lz4":
        data = pa.input_stream(pa.BufferReader(data), compression="lz4").read()
    return data.decode("utf-8")


def _facts(file: str, text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for entry in _entries(text):
        package = entry["Package"]
        if file == _STATES:
            if entry.get("Auto-Installed") == "1":
                yield "automatic", (package,)
            continue
        if file == _STATUS:
            if not entry.get("Status", "").endswith(" installed"):
                continue
            yield "installed", (package,)
            if entry.get("Essential") == "yes":
                yield "essential", (package,)
        else:
            yield "available", (package,)
        for field, kind in _NEEDS.items():
            for need in filter(str.strip, entry.get(field, "").split(",")):
                # Equal needs of several lists are one: the group is what the need says.
                names = [match[1] for part in need.split("|") if (match := _NAME.match(part))]
                group = f"{kind} {' | '.join(names)}"
                for position, name in enumerate(names):
                    yield "needs", (package, group, str(position), name)
        for part in entry.get("Provides", "").split(","):
            match = _NAME.match(part)
            if match:
                yield "provides", (package, match[1])


def _entries(text: str) -> Iterator[dict[str, str]]:
    """The paragraphs of a list: the fields that are looked at, continuation lines left out."""
    for paragraph in text.split("\n\n"):
        entry = {}
        for line in paragraph.split("\n"):
            name, colon, value = line.partition(":")
            if colon and name in _KEPT:
                entry[name] = value.strip()
        if "Package" in entry:
            yield entry


DEBIAN = DebianLists()
