"""The Pythons that a wheel is tried on: those of this machine, else Debian's, unpacked in a folder.

Invariant: what is fetched is what Debian signed (apt checks it, with a state of its own), and
nothing outside the folder changes, so nobody need be root. Such a Python is newer than the system:
it brings its own C library, and a script of its name starts it through that library's loader. Not
here: what is done with them (`try_wheel`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13", "3.14")

SUITES = {"3.11": "bookworm", "3.13": "trixie", "3.14": "forky"}
"""Which release of Debian has a version. None has 3.12."""

KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

START = """\
#!/bin/sh
here=$(readlink -f "$0")
here=${{here%/usr/bin/*}}
exec "$here/{loader}" --library-path "{libraries}" --argv0 "$0" "$here/{program}" "$@"
"""


class FetchError(Exception):
    """Why a Python cannot be had."""


def find(kept: Path) -> Iterator[tuple[str, Path | str]]:
    """Each version with an interpreter of it, or with why there is none.

    From PATH, else pyenv, else below `kept`, where Debian's is put if it can be had.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    folders = [Path(folder) for folder in os.get_exec_path()]
    for version in VERSIONS:
        own = [*sorted(pyenv.glob(f"{version}.*/bin")), kept / version / "usr" / "bin"]
        candidates = (folder / f"python{version}" for folder in [*folders, *own])
        found: Path | str | None = next((one for one in candidates if is_python(one)), None)
        if found is None:
            try:
                found = fetch(version, kept)
            except FetchError as error:
                found = str(error)
        yield version, found


def is_python(path: Path) -> bool:
    """Whether it starts, and makes environments: a shim of pyenv, or Debian's, may do neither."""
    if not path.is_file():
        return False
    return not subprocess.run(
        [path, "-c", "import venv"], capture_output=True, check=False
    ).returncode


def fetch(version: str, kept: Path) -> Path:
    """Debian's Python of a version, unpacked to `kept/VERSION`: some 20 MB. Raises FetchError."""
    if version not in SUITES:
        raise FetchError("no release of Debian has it")
    if not KEYS.is_file() or not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise FetchError("Debian's can be had on Debian alone")
    kept = kept.resolve()
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept) as folder:
        tree = Path(folder, "tree")
        for package in download(version, Path(folder)):
            run("dpkg-deb", "--extract", package, tree)
        if not is_python(start(tree, version)):
            raise FetchError("Debian's does not start here")
        target = kept / version
        shutil.rmtree(target, ignore_errors=True)  # one that no longer starts
        tree.rename(target)
    return target / "usr" / "bin" / f"python{version}"


def download(version: str, folder: Path) -> list[Path]:
    """The packages of a Python and all that they need, as if nothing were installed."""
    for name in ("lists/partial", "archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    sources = folder / "sources.list"
    suite = SUITES[version]
    sources.write_text(f"deb [signed-by={KEYS}] http://deb.debian.org/debian {suite} main\n")
    options = {
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "-",
        "Dir::State": folder,
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder,
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
    }
    apt = ["apt-get", "--quiet", *(f"-o{name}={value}" for name, value in options.items())]
    run(*apt, "update", "--error-on=any")
    run(*apt, "install", "--yes", "--download-only", f"python{version}", f"python{version}-venv")
    return sorted((folder / "archives").glob("*.deb"))


def start(tree: Path, version: str) -> Path:
    """Put a script in the place of the interpreter that starts it with the tree's own libraries."""
    loaders = (path for top in ("lib", "usr/lib") for path in tree.glob(f"{top}/*/ld-linux-*.so.*"))
    loader = next(loaders, None)
    if loader is None:
        raise FetchError("Debian's C library has no loader where one was expected")
    name = loader.parent.name  # x86_64-linux-gnu
    script = tree / "usr" / "bin" / f"python{version}"
    program = script.rename(script.with_name(f"{script.name}.program"))
    script.write_text(
        START.format(
            loader=loader.relative_to(tree),
            libraries=f"$here/lib/{name}:$here/usr/lib/{name}",
            program=program.relative_to(tree),
        )
    )
    script.chmod(0o755)
    return script


def run(*command: str | Path) -> None:
    """Run it. Raises FetchError, with the last that it said."""
    plain = os.environ | {"LC_ALL": "C.UTF-8"}
    ran = subprocess.run(command, capture_output=True, text=True, env=plain, check=False)
    if ran.returncode:
        said = (ran.stderr or ran.stdout).strip().splitlines() or [f"exit code {ran.returncode}"]
        raise FetchError(f"{command[0]}: {said[-1]}")
