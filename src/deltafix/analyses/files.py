"""The analysed folder: which files belong to it, and which changed since the last look.

A `Tree` is a folder and its package prefix; `scan` lists files with a `Stamp` each; `changes`
compares two scans. Invariant: paths are relative with forward slashes and sorted, no path leads
out of the folder (links that do are skipped, with a reason), except the project files above it.
Nothing here parses or watches by itself: a loop calls `scan` again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from deltafix.errors import SourceError

__all__ = ["Scan", "Stamp", "Tree", "changes"]

_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})
_LEVELS_ABOVE = 2  # src/pkg stands two folders below its pyproject.toml


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells one state of a file from another without reading it."""

    modified_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class Scan:
    """One look at the tree: path -> stamp, and what was left out although it looked like source."""

    files: Mapping[str, Stamp]
    skipped: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder (or one file of it) under analysis."""

    root: Path
    suffixes: tuple[str, ...]
    project: tuple[str, ...] = ()
    prefix: str = ""
    only: str | None = None
    exclude: tuple[str, ...] = ()
    bare: bool = False

    @classmethod
    def at(
        cls,
        path: Path,
        exclude: Sequence[str] = (),
        *,
        suffixes: tuple[str, ...],
        project: tuple[str, ...] = (),
        bare: bool = False,
    ) -> Tree:
        """The tree of a folder or a single file; raises SourceError if it is neither.

        Source are the files with one of `suffixes`, if `bare` those whose name has no ending, and
        those with a name in `project`, which are also looked for in the two folders above. A
        folder with an `__init__.py` is a package, and its parents' names come before its own.
        """
        if path.is_file():
            root, only = path.resolve().parent, path.name
        elif path.is_dir():
            root, only = path.resolve(), None
        else:
            raise SourceError(f"{path} is neither a folder nor a file")
        names: list[str] = []
        folder = root
        while (folder / "__init__.py").is_file() and folder.name.isidentifier():
            names.append(folder.name)
            folder = folder.parent
        prefix = ".".join(reversed(names))
        return cls(root, suffixes, project, prefix, only, tuple(exclude), bare)

    def scan(self) -> Scan:
        """Every source and project file, by one walk of the folder. O(files), one stat each.

        Raises SourceError where the folder, or its one file, is gone or cannot be read.
        """
        stamps: dict[str, Stamp] = {}
        skipped: dict[str, str] = {}
        if self.only is not None:
            try:
                stamps[self.only] = _stamp((self.root / self.only).stat())
            except OSError as error:
                raise _unread(self.root / self.only, error) from None
        else:
            for entry, path in self._walk(self.root, "", skipped):
                try:
                    if entry.is_symlink() and not self._inside(entry.path):
                        skipped[path] = "a link out of the folder"
                    elif entry.is_file():
                        stamps[path] = _stamp(entry.stat())
                except OSError as error:  # gone between the listing and the look
                    skipped[path] = error.strerror or str(error)
        for project in () if any(map(self._is_project, stamps)) else self._project_above():
            with suppress(OSError):  # gone since
                above = os.path.relpath(project, self.root).replace(os.sep, "/")
                stamps[above] = _stamp(project.stat())
        return Scan(dict(sorted(stamps.items())), dict(sorted(skipped.items())))

    def holds(self, path: str) -> bool:
        """Whether a file of this path would be analysed, if the folder had it; reads nothing."""
        if self.only is not None:
            return path == self.only
        return not self.leaves_out(path) and self._takes(path)

    def leaves_out(self, path: str) -> bool:
        """Whether a path, or a folder that it is in, is excluded."""
        parts = path.split("/")
        above = ("/".join(parts[: i + 1]) for i in range(len(parts)))
        return any(self._excluded(name, so_far) for name, so_far in zip(parts, above, strict=True))

    def has(self, path: str) -> bool:
        """Whether the folder has this file now, and not through a link that leads out of it."""
        return (self.root / path).is_file() and self._inside(str(self.root / path))

    def below(self, folder: str) -> list[str]:
        """The files to analyse in a folder of the tree; none if there is no such folder."""
        here = self.root / folder
        if self.only is not None or self.leaves_out(folder) or not here.is_dir():
            return []
        return sorted(path for _, path in self._walk(here, f"{folder}/", {}) if self.has(path))

    def size(self, paths: Iterable[str]) -> int:
        """Bytes of scanned files together, without those that are gone. One stat each."""
        total = 0
        for path in paths:
            with suppress(OSError):
                total += (self.root / path).stat().st_size
        return total

    def read(self, path: str) -> bytes:
        """The bytes of a scanned file. Raises OSError."""
        return (self.root / path).read_bytes()

    def _walk(
        self, folder: Path, below: str, skipped: dict[str, str]
    ) -> Iterator[tuple[os.DirEntry[str], str]]:
        """The files below a folder; a folder that cannot be read is `skipped`, and why."""
        stack = [(str(folder), below)]
        while stack:
            here, relative = stack.pop()
            try:
                listed = os.scandir(here)
            except OSError as error:  # gone between the listing and the look
                if not relative:
                    raise _unread(folder, error) from None
                skipped[relative.rstrip("/")] = error.strerror or str(error)
                continue
            with listed as entries:
                for entry in entries:
                    path = f"{relative}{entry.name}"
                    if self._excluded(entry.name, path):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        if not os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
                            stack.append((entry.path, f"{path}/"))
                    elif self._takes(path) and not entry.is_dir():  # nor a link to a folder
                        yield entry, path

    def _takes(self, path: str) -> bool:
        is_bare = self.bare and "." not in path.rsplit("/", 1)[-1]
        return is_bare or path.endswith(self.suffixes) or self._is_project(path)

    def _is_project(self, path: str) -> bool:
        return path.rsplit("/", 1)[-1] in self.project

    def _excluded(self, name: str, path: str) -> bool:
        return (
            name.startswith(".")
            or name in _SKIPPED
            or any(fnmatch(path, pattern) or fnmatch(name, pattern) for pattern in self.exclude)
        )

    def _inside(self, path: str) -> bool:
        return Path(path).resolve().is_relative_to(self.root)

    def _project_above(self) -> list[Path]:
        """The project files of the nearest folder above that has any."""
        folder = self.root
        for _ in range(_LEVELS_ABOVE):
            if (folder / ".git").exists() or folder.parent == folder:
                break
            folder = folder.parent
            present = [folder / name for name in self.project if (folder / name).is_file()]
            if present:
                return present
        return []


def changes(before: Scan, after: Scan) -> tuple[list[str], list[str]]:
    """(paths new or changed, paths gone), sorted."""
    changed = [path for path, stamp in after.files.items() if before.files.get(path) != stamp]
    gone = [path for path in before.files if path not in after.files]
    return changed, gone


def _unread(path: Path, error: OSError) -> SourceError:
    return SourceError(f"cannot read {path}: {error.strerror or error}", path=str(path))


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_mtime_ns, status.st_size, status.st_ino)
