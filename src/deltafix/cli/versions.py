"""`deltafix show-versions`: what a bug report needs to know."""

from __future__ import annotations

import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Final

_NAME: Final = re.compile(r"[\w.-]+")


def show_versions() -> None:
    """Print the versions of deltafix, Python, the platform, and every package it can use."""
    facts = {
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        "java": _java(),
        **{name: _installed(name) for name in _packages()},
    }
    width = max(map(len, facts))
    sys.stdout.writelines(f"{name:<{width}}  {value}\n" for name, value in facts.items())


def _java() -> str:
    """The Java that Spark would be started with, and its version, or why there is none."""
    from deltafix.errors import JavaNotFoundError  # noqa: PLC0415  quick --help
    from deltafix.spark.java import find_java  # noqa: PLC0415

    try:
        java = find_java()
    except JavaNotFoundError as error:
        return str(error)
    return f"{java.version} ({java.executable})"


def _packages() -> list[str]:
    """What deltafix asks for, always or for an extra, and the compiler below numba."""
    matches = (_NAME.match(requirement) for requirement in requires("deltafix") or ())
    names = dict.fromkeys(match[0] for match in matches if match)
    return [*dict.fromkeys(["deltafix", "numba", "llvmlite", *names])]


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
