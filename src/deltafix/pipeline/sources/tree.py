"""File trees through an extractor: what the files of a tree say, as rows of several relations.

An extractor is found by name in `EXTRACTORS`, or as `package.module:attribute` of one's own. It has

    relations                  name -> columns, all symbols
    scan(root)                 path -> stamp
    extract(root, batch)       record batch of `path` -> record batch of `FACTS`

Invariant: `extract` is the same function in this process and in Spark's workers, which get it where
many files are to be read. A file that cannot be read is a bad row and keeps what it said before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, cast

import pyarrow as pa

from deltafix.errors import ConfigError
from deltafix.pipeline.sources.by_file import Content
from deltafix.pipeline.sources.folder import Stamp

FACTS = pa.schema(
    [("path", pa.string()), ("relation", pa.string()), ("row", pa.list_(pa.string()))]
)
"""One row per fact; a file that says nothing has none."""

ERROR = "<error>"
"""The relation under which a file says why it cannot be read, in a row of one value."""

EXTRACTORS: Final[Mapping[str, str]] = {
    "python": "deltafix.analyses.tree_extractor:PYTHON",
    "debian": "deltafix.analyses.debian.extractor:DEBIAN",
}
"""Extractors by name, besides those of the analyses."""

_ANALYSES: Final = "deltafix.analyses.tree_extractor"  # beside a pipeline, so found when asked for


class Extractor(Protocol):
    """What a tree's files say."""

    relations: Mapping[str, tuple[str, ...]]

    def scan(self, root: Path) -> Mapping[str, Stamp]:
        """Files of the tree and their stamps. Raises SourceError if there is no such tree."""

    def extract(self, root: Path, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The facts of the files in a batch of `path`."""


Mapper = Callable[[pa.Table, Callable[[pa.RecordBatch], pa.RecordBatch]], pa.Table]
"""Maps a function over a table of paths on many workers."""


def find_extractor(where: str, name: str) -> Extractor:
    """The extractor of that name. Raises ConfigError naming those there are."""
    target = EXTRACTORS.get(name, name)
    module, _, attribute = target.partition(":")
    analyses: Any = import_module(_ANALYSES)
    if name in analyses.NAMES:
        return cast("Extractor", analyses.extractor(name))
    valid = ", ".join(f'"{known}"' for known in (*EXTRACTORS, *analyses.NAMES))
    if not attribute:
        message = f'{where} extractor = "{name}" is not known; valid: {valid}, or "module:object"'
        raise ConfigError(message, key="extractor", value=name)
    try:
        extractor: Any = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        message = f'{where} extractor = "{name}" cannot be loaded: {error}; valid: {valid}'
        raise ConfigError(message, key="extractor", value=name) from error
    return cast("Extractor", extractor)


class TreeContents:
    """The files of a tree.

    Args:
        root: the tree.
        extractor: what reads them.
        relations: the ones that are wanted.
        mapper: extracts on many workers, where there are at least `many` files.
        many: from how many files on.
    """

    def __init__(
        self,
        root: Path,
        extractor: Extractor,
        relations: Sequence[str],
        mapper: Mapper | None = None,
        many: int = 0,
    ) -> None:
        self._root = root
        self._extractor = extractor
        self._wanted = frozenset(relations)
        self._mapper = mapper
        self._many = many

    def files(self) -> Mapping[str, Stamp]:
        """Path to stamp."""
        return self._extractor.scan(self._root)

    def read(self, files: Sequence[str]) -> Mapping[str, Content]:
        """What files say: here, or on Spark's workers if there are many."""
        paths = pa.table({"path": pa.array(files, pa.string())})
        function = partial(self._extractor.extract, self._root)
        if self._mapper is not None and len(files) >= self._many:
            facts = self._mapper(paths, function)
        else:
            batches = paths.to_batches()
            facts = pa.Table.from_batches([function(batch) for batch in batches], FACTS)
        rows: dict[str, dict[str, list[tuple[str, ...]]]] = {file: {} for file in files}
        errors: dict[str, str] = {}
        columns = (facts.column(name).to_pylist() for name in FACTS.names)
        for path, relation, row in zip(*columns, strict=True):
            if relation == ERROR:
                errors[path] = row[0]
            elif relation in self._wanted:
                rows[path].setdefault(relation, []).append(tuple(row))
        return {file: Content(some, (), errors.get(file)) for file, some in rows.items()}
