"""A folder of files: which there are, in which order, and what tells a changed one.

Invariant: files are named relative to the folder, sorted, and lie in it; links that lead out are
left out, and so are names that begin with a dot or end in `.part` or `.tmp`, which is how writers
hide what they have not finished. Files of other endings are left out beside files that belong;
alone, or named as part of a job's output, they are refused. A stamp is compared for equality only,
so clocks may go backwards.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from deltafix.errors import PipelineError
from deltafix.pipeline.decode import SUFFIXES

Stamp = list[int]
"""(nanoseconds since 1970 of the last change, size in bytes), as JSON keeps it."""

NO_BYTES: Final = (
    "holds no bytes, as a writer leaves it that was stopped; a file without rows is a header "
    "alone, or an empty line"
)
"""Why a file that is there is not read."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder, or one file, of an input; `pattern` or else `suffixes` say which files belong.

    `path` is one of the local disk (`remote.RemoteFolder` has those of object stores).
    """

    name: str
    path: Any
    pattern: str = ""
    suffixes: tuple[str, ...] = ()

    def files(self) -> dict[str, Stamp]:
        """Relative path to stamp, sorted by path. O(files). Raises PipelineError if it is gone."""
        if self.is_file:
            return {self.last: self._own_stamp()}
        if not self.is_folder:
            message = f"input {self.name}: {self.path} is no folder and no file; make it first"
            raise PipelineError(message, input=self.name, path=str(self.path))
        others: list[str] = []
        stamps = dict(sorted(self._walk(others)))
        odd = [name for name in others if not stamps or name.rpartition("/")[2].startswith("part-")]
        if odd:
            of = next((form for form, ends in SUFFIXES.items() if odd[0].endswith(ends)), "")
            other = f'say format = "{of}", ' if of else ""
            message = (
                f"input {self.name}: {self.path} holds {odd[0]}, but files of this format end in "
                f"{', '.join(self.suffixes)}; {other}rename it, or say with "
                'pattern = "..." which belong'
            )
            raise PipelineError(message, input=self.name, path=str(self.path))
        return stamps

    def markers(self, names: Collection[str]) -> set[tuple[str, str]]:
        """(folder, name) of the files and folders of such names, as writers leave them."""
        return {
            (Path(here).relative_to(self.path).as_posix(), name)
            for here, folders, files in os.walk(self.path)
            for name in (*folders, *files)
            if name in names
        }

    @property
    def last(self) -> str:
        """The last name of the path."""
        return str(self.path.name)

    @property
    def is_file(self) -> bool:
        """Whether it is one file."""
        return bool(self.path.is_file())

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return bool(self.path.is_dir())

    def at(self, file: str) -> Any:
        """Where a listed file lies: what `FileReader.read` takes."""
        return self.path if self.is_file else self.path / file

    def size(self, file: str) -> int:
        """The bytes of a listed file."""
        return int(self.at(file).stat().st_size)

    def _own_stamp(self) -> Stamp:
        """That of the one file."""
        return _stamp(self.path.stat())

    def _walk(self, others: list[str]) -> Iterator[tuple[str, Stamp]]:
        """The files; notes in `others` those that are left out for their endings alone."""
        root = self.path.resolve()
        for here, folders, names in os.walk(self.path):
            folders[:] = [folder for folder in folders if not folder.startswith((".", "_"))]
            for name in names:
                path = Path(here, name)
                relative = path.relative_to(self.path).as_posix()
                if is_hidden(name):
                    continue
                if not self._belongs(name, relative):
                    others += [] if self.pattern else [relative]
                    continue
                if path.is_symlink() and not path.resolve().is_relative_to(root):
                    continue
                try:
                    yield relative, _stamp(path.stat())
                except FileNotFoundError:  # gone between the listing and the look
                    continue

    def _belongs(self, name: str, relative: str) -> bool:
        if self.pattern:
            return fnmatch(relative, self.pattern) or fnmatch(name, self.pattern)
        return name.endswith(self.suffixes)


def is_hidden(name: str) -> bool:
    """Whether a file of this name is one that its writer has not finished, or no data."""
    return name.startswith((".", "_")) or name.endswith((".part", ".tmp", ".crc"))


def _stamp(status: os.stat_result) -> Stamp:
    return [status.st_mtime_ns, status.st_size]
