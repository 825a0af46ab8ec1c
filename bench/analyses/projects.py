"""Real trees for the analyses: this repository's source, and C files that are at hand.

Invariant: nothing is downloaded. Python is deltafix's own source, C what numba ships beside its
compiled modules.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from deltafix.analyses.analysis import Analysis

__all__ = ["NoProjectError", "large_tree", "project_of"]

OWN = Path(__file__).resolve().parents[2] / "src" / "deltafix"
_LARGE = ("numba", "mypy", "pyarrow", "numpy", "pip", "hypothesis", "pygments", "rich")
"""Installed packages whose files make the large tree, in this order."""


class NoProjectError(LookupError):
    """There is no tree here for files of this language."""


def _installed(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise NoProjectError(f"{name} is not installed")
    return Path(spec.origin).parent


def project_of(analysis: Analysis) -> Path:
    """The folder that an analysis is measured on.

    Raises:
        NoProjectError: nothing here is in its language.
    """
    if ".py" in analysis.suffixes:
        return OWN
    if ".c" in analysis.suffixes:
        return _installed("numba")
    raise NoProjectError(f"no tree of {', '.join(analysis.suffixes)} files is at hand")


@contextmanager
def large_tree(files: int) -> Iterator[Path]:
    """A folder with so many Python files of installed packages, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="deltafix-bench-") as name:
        root, left = Path(name), files
        for package in _LARGE:
            if find_spec(package) is None:
                continue
            home = _installed(package)
            for path in sorted(home.rglob("*.py"))[:left]:
                target = root / package / path.relative_to(home)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
                left -= 1
        if left:
            raise NoProjectError(f"the installed packages have {files - left} files, not {files}")
        yield root
