"""Real trees for the analyses: this repository's source, and C and SQL that packages bring.

Invariant: nothing is downloaded. Python is deltafix's own source, C what numba ships beside its
compiled modules, SQL the views that PostgreSQL defines over its catalog, a view or table a file, as
`pgserver` brings them.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from deltafix.analyses.analysis import Analysis

__all__ = ["NoProjectError", "installed", "large_tree", "project_of"]

OWN = Path(__file__).resolve().parents[2] / "src" / "deltafix"
_LARGE = ("numba", "mypy", "pyarrow", "numpy", "pip", "hypothesis", "pygments", "rich")
"""Installed packages whose files make the large tree, in this order."""
_VIEW_FILES = {"information_schema.sql": "information_schema", "system_views.sql": "pg_catalog"}
_VIEW = r"^(CREATE VIEW (\w+)[^;]*;)"
_TABLE = r"^create (\w+) .*\n \(\n((?: .*\n)*?) \)$"
_COLUMN = r"^ (\w+) = "


class NoProjectError(LookupError):
    """There is no tree here for files of this language."""


def installed(name: str) -> Path:
    """The folder of an installed package.

    Raises:
        NoProjectError: it is not installed.
    """
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise NoProjectError(f"{name} is not installed")
    return Path(spec.origin).parent


@contextmanager
def project_of(analysis: Analysis) -> Iterator[Path]:
    """The folder that an analysis is measured on.

    Raises:
        NoProjectError: nothing here is in its language.
    """
    if ".py" in analysis.suffixes:
        yield OWN
    elif ".c" in analysis.suffixes:
        yield installed("numba")
    elif ".sql" in analysis.suffixes:
        with tempfile.TemporaryDirectory(prefix="deltafix-bench-") as name:
            root = Path(name) / "postgres"
            root.mkdir()
            for path, text in _postgres_views():
                (root / path).write_text(text)
            yield root
    else:
        raise NoProjectError(f"no tree of {', '.join(analysis.suffixes)} files is at hand")


def _postgres_views() -> Iterator[tuple[str, str]]:
    """File name and text: the catalog's tables as the bootstrap script has them, then the views."""
    home = installed("pgserver") / "pginstall" / "share" / "postgresql"
    head = "-- deltafix: dialect=postgres\nSET search_path TO {};\n"
    bootstrap = (home / "postgres.bki").read_text()
    for table, body in re.findall(_TABLE, bootstrap, re.MULTILINE):
        columns = ",\n".join(f"    {one} INT" for one in re.findall(_COLUMN, body, re.MULTILINE))
        text = f"{head.format('pg_catalog')}CREATE TABLE {table} (\n{columns}\n);\n"
        yield f"{table}.table.sql", text
    for file, schema in _VIEW_FILES.items():
        for text, view in re.findall(_VIEW, (home / file).read_text(), re.MULTILINE):
            yield f"{schema}.{view}.sql", f"{head.format(schema)}{text}\n"


@contextmanager
def large_tree(files: int) -> Iterator[Path]:
    """A folder with so many Python files of installed packages, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="deltafix-bench-") as name:
        root, left = Path(name), files
        for package in _LARGE:
            if find_spec(package) is None:
                continue
            home = installed(package)
            for path in sorted(home.rglob("*.py"))[:left]:
                target = root / package / path.relative_to(home)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
                left -= 1
        if left:
            raise NoProjectError(f"the installed packages have {files - left} files, not {files}")
        yield root
