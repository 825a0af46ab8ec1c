"""`deltafix show-versions`: what a bug report needs to know."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Final

_NAME: Final = re.compile(r"[\w.-]+")


def show_versions() -> None:
    """Print the versions of deltafix, Python, the platform, and every package it can use."""
    facts = {
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        "java": os.environ.get("JAVA_HOME") or shutil.which("java") or "not found",
        **{name: _installed(name) for name in _packages()},
    }
    width = max(map(len, facts))
    sys.stdout.writelines(f"{name:<{width}}  {value}\n" for name, value in facts.items())


def _packages() -> list[str]:
    """What deltafix asks for, always or for an extra, and the compiler below numba."""
    asked = (_NAME.match(one) for one in requires("deltafix") or ())
    names = dict.fromkeys(found[0] for found in asked if found)
    return [*dict.fromkeys(["deltafix", "numba", "llvmlite", *names])]


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
