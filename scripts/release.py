"""What must hold before a release, and the upload. `make release` runs it.

    scripts/release.py          checks: a clean tree, one version everywhere
    scripts/release.py FOLDER   the same, then names and sha256 of the files in it, and their upload

Invariant: without a token in UV_PUBLISH_TOKEN nothing leaves this machine. Exit code 1, with every
problem, where something does not hold.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import deltafix

ROOT = Path(__file__).resolve().parent.parent


def version(root: Path) -> str:
    """The version that pyproject.toml states."""
    stated: str = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    return stated


def problems(root: Path, installed: str) -> list[str]:
    """Why a tree cannot be released; `installed` is what `deltafix.__version__` says."""
    found = []
    status = ["git", "-C", str(root), "status", "--porcelain"]
    changed = subprocess.run(status, capture_output=True, text=True, check=True).stdout
    if changed:
        found.append(f"the tree is not clean; commit or remove:\n{changed.rstrip()}")
    stated = version(root)
    if installed != stated:
        found.append(f"pyproject.toml has version {stated}, deltafix.__version__ is {installed}")
    for name in ("package.json", "package-lock.json"):
        extension = json.loads((root / "editors" / "vscode" / name).read_text())["version"]
        if extension != stated:
            found.append(f"editors/vscode/{name} has version {extension}, and should have {stated}")
    top = re.search(r"^## +(.*)$", (root / "CHANGELOG.md").read_text(), re.M)
    heading = top[1] if top else "no section"
    if not re.fullmatch(rf"\[{re.escape(stated)}\] - \d{{4}}-\d\d-\d\d", heading):
        found.append(f"CHANGELOG.md begins with {heading}, not with [{stated}] - YYYY-MM-DD")
    return found


def built(folder: Path, stated: str) -> list[Path]:
    """The sdist and the wheels of a version. Raises FileNotFoundError where one is missing."""
    sdist = folder / f"deltafix-{stated}.tar.gz"
    wheels = sorted(folder.glob(f"deltafix-{stated}-*.whl"))
    if not sdist.is_file() or not wheels:
        raise FileNotFoundError(
            f"{folder} lacks the sdist or a wheel of {stated}; see `make wheel`"
        )
    return [sdist, *wheels]


def upload(files: Sequence[Path]) -> int:
    """Upload files to PyPI, or to UV_PUBLISH_URL, if there is a token; the exit code."""
    if not os.environ.get("UV_PUBLISH_TOKEN"):
        print("\nnothing is uploaded: UV_PUBLISH_TOKEN has no token (pypi.org, account settings)")
        return 0
    sys.stdout.flush()
    command = [sys.executable, "-m", "uv", "publish", *files]
    return subprocess.run(command, check=False).returncode


def main(arguments: list[str]) -> int:
    """Check, say what there is, and upload it if there is a token; the exit code."""
    found = problems(ROOT, deltafix.__version__)
    for problem in found:
        print(f"release: {problem}", file=sys.stderr)
    if found or not arguments:
        return int(bool(found))
    files = built(Path(arguments[0]), version(ROOT))
    for file in files:
        print(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file}")
    return upload(files)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
