"""Which files pytest collects as tests, by its own settings: `python_files` and `testpaths`.

    pytest.toml .pytest.toml pytest.ini .pytest.ini    win in their folder, even if empty
    pyproject.toml tox.ini setup.cfg                   count if they have pytest's table or section

Invariant: the settings are those of the first such file in the folder that is asked or above it, as
pytest looks for them; what they collect is added to what the default names collect, so a test that
is run by its path is never left out.
This module reads no Python; options of pytest's command line are not seen.
"""

from __future__ import annotations

import configparser
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from glob import iglob
from pathlib import Path, PurePath
from typing import Any

from deltafix.analyses.dead_code.policy import is_test_file
from deltafix.errors import SourceError

_OWN = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
_SHARED = ("pyproject.toml", "tox.ini", "setup.cfg")


@dataclass(frozen=True, slots=True)
class Collected:
    """What is a test, of the paths relative to one folder.

    Attributes:
        folder: the folder.
        patterns: globs of `python_files`: of names, or of paths if they have a slash.
        named: files of `testpaths`, which are collected whatever their names are.
        renamed: whether `python_functions` or `python_classes` say what is a test in a file.
    """

    folder: Path = Path()
    patterns: tuple[str, ...] = ()
    named: frozenset[Path] = frozenset()
    renamed: bool = False

    @classmethod
    def by_settings(cls, folder: Path) -> Collected:
        """As the settings have it that pytest finds from a folder. Raises SourceError."""
        folder = folder.resolve()
        for above in (folder, *folder.parents):
            for name in (*_OWN, *_SHARED):
                found = _settings(above / name)
                if found is None:
                    continue
                words = {one: _words(found, one, above / name) for one in (
                    "python_files", "testpaths", "python_functions", "python_classes",
                )}  # fmt: skip
                places = (
                    above / place
                    for pattern in words["testpaths"]
                    for place in iglob(pattern, root_dir=above, recursive=True)
                )
                return cls(
                    folder,
                    words["python_files"],
                    frozenset(place.resolve() for place in places if place.is_file()),
                    renamed=bool(words["python_functions"] or words["python_classes"]),
                )
        return cls(folder)

    def is_test(self, path: str) -> bool:
        """Whether pytest or unittest would collect this file; a conftest is as good as one."""
        return is_test_file(path) or self.is_declared(path)

    def is_declared(self, path: str) -> bool:
        """Whether it is a test by the settings."""
        file = self.folder / path
        if file.suffix != ".py":
            return False
        return file in self.named or any(_matches(file, one) for one in self.patterns)


def _matches(file: PurePath, pattern: str) -> bool:
    if "/" not in pattern:
        return fnmatch(file.name, pattern)
    return fnmatch(file.as_posix(), pattern if pattern.startswith("/") else f"*/{pattern}")


def _settings(path: Path) -> Mapping[str, Any] | None:
    """What a file says to pytest; None if it says nothing."""
    if not path.is_file():
        return None
    try:
        text = path.read_text(encoding="utf-8")
        found = _toml(path.name, text) if path.suffix == ".toml" else _ini(path.name, text)
    except (OSError, ValueError, configparser.Error) as error:
        said = str(error).replace("\n", " ")
        raise SourceError(f"{path} has no settings of pytest that can be read: {said}") from error
    return {} if found is None and path.name in _OWN else found


def _toml(name: str, text: str) -> Mapping[str, Any] | None:
    document = tomllib.loads(text)
    if name in _OWN:
        return _table(document, "pytest")
    own = _table(_table(document, "tool") or {}, "pytest")
    return own and (_table(own, "ini_options") or own)


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    found = document.get(name)
    return found if isinstance(found, Mapping) else None


def _ini(name: str, text: str) -> Mapping[str, Any] | None:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    parser.read_string(text)
    section = "tool:pytest" if name == "setup.cfg" else "pytest"
    return dict(parser[section]) if parser.has_section(section) else None


def _words(settings: Mapping[str, Any], name: str, path: Path) -> tuple[str, ...]:
    """A setting that is a list, or a text of words as a shell has them."""
    given = settings.get(name) or ()
    try:
        words = shlex.split(given, comments=True) if isinstance(given, str) else list(given)
        if all(isinstance(one, str) for one in words):
            return tuple(words)
    except (TypeError, ValueError):
        pass
    raise SourceError(f"{path}: {name} = {given!r}: write texts or a list of them")
