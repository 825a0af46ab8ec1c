"""What a file is called: its module, and every dotted name under which it may be imported.

A module has one *canonical* name (its path below the analysed folder, dots for slashes, a leading
`src` left out) and possibly several *importable* ones: any folder that is not itself a package may
be on `sys.path`. Which folders are packages is known only to the other files, so this module says
`suffix(name, module, above)` ("importable as `name` if the folder `above` is not a package") and
leaves the decision to the rules. Invariant: all names here depend on the path alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deltafix.analyses.dead_code.policy import (
    TEST_DATA,
    TEST_FOLDERS,
    TOOL_FILES,
    is_aside_folder,
    is_test_file,
)
from deltafix.analyses.facts import Fact


@dataclass(frozen=True, slots=True)
class ModuleName:
    """A module's canonical dotted name, its folders below the root, and whether it is a package."""

    canonical: str
    parts: tuple[str, ...]
    is_package: bool
    is_aside: bool = False
    """Whether it stands beside the code that users get: tests, documentation, examples."""

    def resolve(self, level: int, target: str | None) -> str:
        """The absolute name of `from <level dots><target> import …` written in this module."""
        if level == 0:
            return target or ""
        here = self.canonical.split(".")
        keep = len(here) - level + (1 if self.is_package else 0)
        return ".".join([*here[: max(keep, 0)], *([target] if target else [])])


def module_of(path: str, prefix: str = "") -> ModuleName:
    """The module in file `path` (relative, forward slashes) of a folder that is package `prefix`.

    >>> module_of("src/shop/cart.py").canonical
    'shop.cart'
    >>> module_of("sql/__init__.py", prefix="pyspark").canonical
    'pyspark.sql'
    """
    parts = path.removesuffix(".py").split("/")
    is_package = parts[-1] == "__init__"
    if is_package:
        parts.pop()
    named = parts[1:] if not prefix and parts[:1] == ["src"] and len(parts) > 1 else parts
    canonical = ".".join([*([prefix] if prefix else []), *named]) or "__init__"
    return ModuleName(canonical, tuple(parts), is_package, _is_aside(path, prefix))


def _is_aside(path: str, prefix: str) -> bool:
    *folders, name = path.split("/")
    return (
        is_test_file(path)
        or not TEST_FOLDERS.isdisjoint(folders)
        or (not prefix and bool(folders) and is_aside_folder(folders[0]))
        or not name.removesuffix(".py").isidentifier()  # nobody can import it
        or (name in TOOL_FILES and (name == "conf.py" or not folders))
    )


def is_private(part: str) -> bool:
    """Whether users of a library leave a module of this name alone: not so `__version__`."""
    is_told = part[:2] == part[-2:] == "__" and part not in {"__init__", "__main__"}
    return part.startswith("_") and not is_told


def module_facts(module: ModuleName) -> Iterator[Fact]:
    """Facts about a module's own names: canonical, importable, package, parent, public."""
    name, parts = module.canonical, module.parts
    yield "symbol", (name, "module")
    yield "canonical", (name, name)
    if module.is_package:
        yield "package", ("/".join(parts),)
        yield "package_module", (name,)
    parent, _, last = name.rpartition(".")
    if parent:
        yield "submodule", (name, parent, last)
    while parent:
        yield "around", (parent, "<none>")
        parent = parent.rpartition(".")[0]
    for start in range(len(parts)):
        above = "/".join(parts[:start])
        if start < len(parts) - 1 and not module.is_package:
            yield "lies_in", (name, ".".join(parts[start:-1]))
        yield "suffix", (".".join(parts[start:]), name, above)
        for stop in range(start + 1, len(parts)):
            yield "around", (".".join(parts[start:stop]), above)
    if module.is_aside:
        yield "aside", (name, "/".join(parts if module.is_package else parts[:-1]))
        if f"{parts[-1]}.py" in TOOL_FILES or not TEST_DATA.isdisjoint(parts[:-1]):
            yield "quotes", (name, name)  # whoever imports it, somebody looks for its file
    elif not any(is_private(part) for part in name.split(".")):
        yield "public_module", (name,)
