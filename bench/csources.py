"""Real C sources for the points-to workload: fetched, unpacked and preprocessed into the cache.

Lives here: `preprocessed(cache)`, which downloads a few small Debian source packages with
`apt-get source` (its own list and state folders, nothing of the system is changed), takes
pycparser's fake libc headers from its sdist, and runs `gcc -E` on every C file.
Invariant: everything is written under `cache`; a second call reads what the first left.
Not here: what the C means (see `points_to`).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PACKAGES", "Package", "SetupError", "preprocessed"]


class SetupError(RuntimeError):
    """A workload cannot be made here; the message is the reason shown in the report."""


@dataclass(frozen=True, slots=True)
class Package:
    """A Debian source package: which C files to read, and what they need beside them.

    `empty` names headers that only the package's own build would make.
    """

    name: str
    folder: str = "."
    empty: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


_LESS = (
    *("HAVE_VOID", "HAVE_CONST", "HAVE_STRING_H", "STDC_HEADERS", "HAVE_MEMCPY", "HAVE_STRCHR"),
    *("HAVE_TIME", "HAVE_FCNTL_H", "HAVE_SYS_TYPES_H", "HAVE_UNISTD_H", "HAVE_STDLIB_H"),
    *("HAVE_CTYPE_H", "HAVE_STDIO_H", "HAVE_LIMITS_H", "HAVE_TERMIOS_H", "HAVE_ERRNO_H"),
    *("HAVE_WCTYPE_H", "HAVE_SIGSETJMP", "HAVE_SNPRINTF", "HAVE_UPPER_LOWER", "USERFILE=1"),
    *("CMDBUF_SIZE=2048", "UNGOT_SIZE=200", "LINEBUF_SIZE=1024", "OUTBUF_SIZE=1024"),
    *("PROMPT_SIZE=2048", "TERMBUF_SIZE=2048", "TERMSBUF_SIZE=1024", "TAGLINE_SIZE=1024"),
    *("TABSTOP_MAX=128", "EDIT_PGM=0", "HAVE_POSIX_REGCOMP", "TAGS", "GLOB", "PIPEC"),
    *(
        "SHELL_ESCAPE",
        "EDITOR",
        "LOGFILE",
        "CMD_HISTORY",
        "HILITE_SEARCH",
        "EXAMINE",
        "RETSIGTYPE=void",
    ),
)
PACKAGES = (
    Package("less", empty=("defines.h",), flags=tuple(f"-D{name}" for name in _LESS)),
    Package(
        "lua5.4",
        folder="src",
        empty=("src/lua5.4-deb-multiarch.h",),
        flags=("-DLUA_C89_NUMBERS", "-DLUA_USE_C89"),
    ),
    Package("bzip2"),
    Package("zlib", flags=("-DOF(args)=args",), without=("examples", "contrib", "test")),
)
_PLAIN = (
    "-D__attribute__(x)=",
    "-D__inline__=",
    "-D__extension__=",
    "-D__builtin_va_arg(a,t)=(t)0",
)
_RELEASE = "deb-src http://deb.debian.org/debian bookworm main\n"


def _run(command: list[str], cwd: Path, seconds: int = 300) -> str:
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        lines = (done.stderr.strip() or "no message").splitlines()
        raise SetupError(f"{command[0]} failed: {lines[-1]}")
    return done.stdout


def _fetch(cache: Path) -> None:
    """Download and unpack every package into `cache/<name>`."""
    apt = cache / "apt"
    (apt / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (apt / "cache").mkdir(exist_ok=True)
    (apt / "sources.list").write_text(_RELEASE)
    options = [
        *("-o", f"Dir::Etc::SourceList={apt / 'sources.list'}"),
        *("-o", "Dir::Etc::SourceParts=-"),
        *("-o", f"Dir::State::Lists={apt / 'lists'}"),
        *("-o", f"Dir::Cache={apt / 'cache'}"),
    ]
    missing = [p.name for p in PACKAGES if not (cache / p.name).is_dir()]
    if missing:
        _run(["apt-get", *options, "update"], cache)
        _run(["apt-get", *options, "source", "--download-only", *missing], cache)
    for name in missing:
        described = sorted(cache.glob(f"{name}_*.dsc"))
        if not described:
            raise SetupError(f"apt-get brought no {name}_*.dsc")
        _run(["dpkg-source", "-x", described[-1].name, name], cache)


def _fake_headers(cache: Path) -> Path:
    """pycparser's fake libc headers, from the sdist of the installed version."""
    import pycparser

    folder = cache / "fake_libc_include"
    if not folder.is_dir():
        wanted = f"pycparser=={pycparser.__version__}"
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
        _run([*pip, "--no-binary", "pycparser", "-d", "sdist", wanted], cache)
        unpacked = folder.with_suffix(".part")
        unpack_folder(
            sorted((cache / "sdist").glob("pycparser-*.tar.gz"))[-1], folder.name, unpacked
        )
        unpacked.rename(folder)
    return folder


def unpack_folder(archive: Path, name: str, target: Path) -> None:
    """Write the files of every folder called `name` in a tar archive to `target`, by their names.

    Only plain files, below `target` whatever the archive says; `extractall(filter=...)` would do,
    but Python has it from 3.11.4 on.

    Raises:
        SetupError: There is no such folder in the archive.
    """
    found = False
    with tarfile.open(archive) as opened:
        for member in opened:
            parts = Path(member.name).parts
            inside = parts[parts.index(name) + 1 :] if name in parts else ()
            data = opened.extractfile(member) if member.isfile() and inside else None
            if data is None or ".." in inside:
                continue
            path = target.joinpath(*inside)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.read())
            found = True
    if not found:
        raise SetupError(f"{archive.name} has no folder {name}")


def preprocessed(cache: Path) -> list[tuple[str, Path]]:
    """(package/file, preprocessed text) for every C file that gcc accepts, in sorted order.

    Raises:
        SetupError: apt-get, dpkg-source, gcc, pycparser or the network is missing.
    """
    cache.mkdir(parents=True, exist_ok=True)
    try:
        import pycparser  # noqa: F401  the bench's own optional dependency
    except ImportError as error:
        raise SetupError("pycparser is not installed (pip install pycparser)") from error
    for tool in ("apt-get", "dpkg-source", "gcc"):
        if shutil.which(tool) is None:
            raise SetupError(f"{tool} is not on PATH")
    _fetch(cache)
    headers = _fake_headers(cache)
    found = []
    for package in PACKAGES:
        home = cache / package.name
        for header in package.empty:
            (home / header).write_text("")
        for path in sorted((home / package.folder).rglob("*.c")):
            inside = path.relative_to(home)
            if set(inside.parts) & {*package.without, "debian", ".pc"}:
                continue
            target = cache / "preprocessed" / package.name / inside.with_suffix(".i")
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                command = ["gcc", "-E", "-P", "-nostdinc", f"-I{headers}", *_PLAIN]
                try:
                    text = _run([*command, f"-I{home}", *package.flags, str(path)], cache)
                except SetupError:
                    text = ""  # a file of another platform (DOS, OS/2) lacks its headers here
                target.write_text(text)
            if target.stat().st_size:
                found.append((f"{package.name}/{inside}", target))
    return found
