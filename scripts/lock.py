"""Write constraints.txt: the exact version of everything deltafix uses, as installed here.

Walks from pyproject.toml (dependencies, extras, groups) through the installed metadata, so
packages that merely happen to be in the environment stay out. Run by `make lock`.
"""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
HEADER = (
    "# Versions the tests were last run with; written by `make lock`, read by scripts/venv.sh.\n"
)


def wanted(project: dict) -> list[Requirement]:
    """Every requirement that pyproject.toml states, our own extras left out."""
    own = project["project"]
    texts = list(own["dependencies"])
    for group in (own["optional-dependencies"], project["dependency-groups"]):
        texts.extend(text for texts_of_one in group.values() for text in texts_of_one)
    return [found for text in texts if (found := Requirement(text)).name != own["name"]]


def locked(requirements: list[Requirement]) -> dict[str, str]:
    """Name -> installed version, over everything reachable; what is not installed is skipped."""
    versions: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(one.name, extra) for one in requirements for extra in ("", *one.extras)]
    while waiting:
        name, extra = waiting.pop()
        if (canonicalize_name(name), extra) in seen:
            continue
        seen.add((canonicalize_name(name), extra))
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        versions[canonicalize_name(name)] = found.version
        for text in found.requires or ():
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                waiting.extend((need.name, inner) for inner in ("", *need.extras))
    return versions


def main() -> None:
    """Write the file and say how long it is."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    versions = locked(wanted(project))
    lines = [f"{name}=={version}\n" for name, version in sorted(versions.items())]
    (ROOT / "constraints.txt").write_text(HEADER + "".join(lines))
    print(f"constraints.txt: {len(lines)} packages")


if __name__ == "__main__":
    main()
