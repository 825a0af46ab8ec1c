"""Which files and functions pytest collects as tests, by its own settings.

    pytest.toml .pytest.toml pytest.ini .pytest.ini    win in their folder, even if empty
    pyproject.toml tox.ini setup.cfg                   count if they have pytest's table or section

Invariant: a file of settings speaks of what is below its folder; what it collects (`python_files`,
`testpaths`) is added to what the default names collect, and to what other such files do, so a test
that is run by its path, or from its own folder, is never left out.
This module reads no Python; options of pytest's command line are not seen.
"""

from __future__ import annotations

import configparser
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from glob import iglob
from pathlib import Path, PurePath
from typing import Any, Self

from deltafix.analyses.dead_code.policy import TEST_HOOKS, is_test_file
from deltafix.analyses.facts import Fact
from deltafix.errors import SourceError

__all__ = ["Collected", "collected_facts"]

_OWN = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
_SHARED = ("pyproject.toml", "tox.ini", "setup.cfg")
_FILES = ("test_*.py", "*_test.py")  # by default


@dataclass(frozen=True, slots=True)
class _Settings:
    """What one file of settings makes a test, below the folder where it stands."""

    folder: Path
    patterns: tuple[str, ...]  # globs of `python_files`: of names, or of paths with a slash
    named: frozenset[Path]  # files of `testpaths`, whatever their names are
    renamed: bool  # whether `python_functions` or `python_classes` say what is a test in a file

    @classmethod
    def of(cls, settings: Mapping[str, Any], path: Path) -> Self:
        here = path.parent
        words = {setting: _words(settings, setting, path) for setting in (
            "python_files", "testpaths", "python_functions", "python_classes",
        )}  # fmt: skip
        matches = (
            here / match
            for pattern in words["testpaths"]
            for match in iglob(pattern, root_dir=here, recursive=True)
        )
        return cls(
            here,
            words["python_files"],
            frozenset(match.resolve() for match in matches if match.is_file()),
            renamed=bool(words["python_functions"] or words["python_classes"]),
        )

    def declares(self, file: Path) -> bool:
        if not file.is_relative_to(self.folder):
            return False
        return file in self.named or any(_matches(file, pattern) for pattern in self.patterns)


@dataclass(frozen=True, slots=True)
class Collected:
    """What is a test, of the paths relative to one folder."""

    folder: Path = Path()
    settings: tuple[_Settings, ...] = ()

    @classmethod
    def by_settings(cls, folder: Path, paths: Iterable[str] = ()) -> Collected:
        """As the settings have it that pytest finds from a folder, and from those of its files.

        Args:
            folder: the folder.
            paths: files in it, relative to it: settings in folders around them count.

        Raises:
            SourceError: settings cannot be read.
        """
        folder = folder.resolve()
        inner = {above for path in paths for above in (folder / path).parents if above != folder}
        inner_settings = [
            settings
            for below in sorted(inner)
            if below.is_relative_to(folder) and (settings := _settings_in(below))
        ]
        for above in (folder, *folder.parents):
            outer = _settings_in(above)
            if outer is not None:
                return cls(folder, (outer, *inner_settings))
        return cls(folder, tuple(inner_settings))

    def is_test(self, path: str) -> bool:
        """Whether pytest or unittest would collect this file; a conftest is as good as one."""
        return is_test_file(path) or self.is_declared(path)

    def is_declared(self, path: str) -> bool:
        """Whether it is a test by the settings."""
        file = self.folder / path
        return file.suffix == ".py" and any(settings.declares(file) for settings in self.settings)

    def is_renamed(self, path: str) -> bool:
        """Whether settings say which functions or classes of this file are tests."""
        file = self.folder / path
        return any(
            settings.renamed and file.is_relative_to(settings.folder) for settings in self.settings
        )


def collected_facts(path: str, data: bytes) -> Iterator[Fact]:
    """What a file of settings says, as regular expressions of paths and names; of others nothing.

    Raises SourceError if it says what pytest does not read. A shared file that does not parse is
    for other tools to tell.
    """
    folder, _, name = path.rpartition("/")
    if name not in {*_OWN, *_SHARED}:
        return
    try:
        settings = _settings(Path(path), data.decode("utf-8", "replace"))
    except SourceError:
        if name in _OWN:
            raise
        return
    words = {setting: _words(settings or {}, setting, Path(path)) for setting in (
        "python_files", "testpaths", "python_functions", "python_classes",
    )}  # fmt: skip
    if not any(words.values()):
        return
    above = "" if folder.startswith("..") or not folder else f"{_pattern(folder)}/"
    for pattern in (*words["python_files"], *_FILES):
        yield "collects", (path, "file", f"{above}(.*/)?{_pattern(pattern.lstrip('/'))}")
    for pattern in words["testpaths"]:
        if pattern.endswith(".py"):
            yield "collects", (path, "file", f"{above}{_pattern(pattern.removeprefix('./'))}")
    for pattern in ("test", *words["python_functions"]):
        yield (
            "collects",
            (path, "function", _pattern(pattern if _is_glob(pattern) else f"{pattern}*")),
        )
    for pattern in ("Test", *words["python_classes"]):
        yield "collects", (path, "class", _pattern(pattern if _is_glob(pattern) else f"{pattern}*"))
    yield "collects", (path, "function", "|".join(sorted(TEST_HOOKS)))


def _is_glob(name: str) -> bool:
    return any(mark in name for mark in "*?[")


def _pattern(glob: str) -> str:
    """A glob as a regular expression of the rules; `**` and `*` are any text."""
    parts = re.split(r"(\*+|\?|\[[^\]]+\])", glob)
    return "".join(
        ".*" if part[:1] == "*" else "." if part == "?" else _class(part) if part[:1] == "[" else
        re.sub(r"([.^$+(){}|\\\[\]])", r"\\\1", part)
        for part in parts
    )  # fmt: skip


def _class(text: str) -> str:
    return f"[^{text[2:]}" if text[1] == "!" else text


def _matches(file: PurePath, pattern: str) -> bool:
    if "/" not in pattern:
        return fnmatch(file.name, pattern)
    return fnmatch(file.as_posix(), pattern if pattern.startswith("/") else f"*/{pattern}")


def _settings_in(folder: Path) -> _Settings | None:
    """What the first file in a folder says that says something to pytest."""
    for name in (*_OWN, *_SHARED):
        path = folder / name
        if path.is_file():
            try:
                settings = _settings(path, path.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError) as error:
                raise _unreadable(path, error) from error
            if settings is not None:
                return _Settings.of(settings, path)
    return None


def _settings(path: Path, text: str) -> Mapping[str, Any] | None:
    """What a file's text says to pytest; None if it says nothing."""
    try:
        settings = _toml(path.name, text) if path.suffix == ".toml" else _ini(path.name, text)
    except (ValueError, configparser.Error) as error:
        raise _unreadable(path, error) from error
    return {} if settings is None and path.name in _OWN else settings


def _unreadable(path: Path, error: Exception) -> SourceError:
    reason = str(error).replace("\n", " ")
    return SourceError(f"{path} has no settings of pytest that can be read: {reason}")


def _toml(name: str, text: str) -> Mapping[str, Any] | None:
    document = tomllib.loads(text)
    if name in _OWN:
        return _table(document, "pytest")
    own = _table(_table(document, "tool") or {}, "pytest")
    return own and (_table(own, "ini_options") or own)


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    table = document.get(name)
    return table if isinstance(table, Mapping) else None


def _ini(name: str, text: str) -> Mapping[str, Any] | None:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    parser.read_string(text)
    section = "tool:pytest" if name == "setup.cfg" else "pytest"
    return dict(parser[section]) if parser.has_section(section) else None


def _words(settings: Mapping[str, Any], name: str, path: Path) -> tuple[str, ...]:
    """A setting that is a list, or a text of words as a shell has them."""
    value = settings.get(name) or ()
    try:
        words = shlex.split(value, comments=True) if isinstance(value, str) else list(value)
        if all(isinstance(word, str) for word in words):
            return tuple(words)
    except (TypeError, ValueError):
        pass
    raise SourceError(f"{path}: {name} = {value!r}: write texts or a list of them")
