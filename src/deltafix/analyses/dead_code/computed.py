"""Names that are computed, of modules above all: how much of the name is written in the source.

`import_module(f"{__name__}.plugin_{x}")` imports some module below this one whose name starts with
`plugin_`; `import_module("." + x, "shop.ways")` any below `shop.ways`; `iter_modules(__path__)`
finds all below this package. Invariant: a name of which nothing is written yields nothing, since it
would mean every module. Which modules there are is left to `program.dl`; nothing is imported.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from deltafix.analyses.dead_code.modules import ModuleName

IMPORTERS = frozenset({"import_module", "__import__"})
FINDERS = frozenset({"iter_modules", "walk_packages"})
JOINERS = frozenset({"join", "joinpath"})

Paths: TypeAlias = Callable[[ast.expr], list[str]]
"""The dotted paths that an expression may stand for by the imports of its file."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """`path` itself if `start` is None, else what is below it with a name that begins so."""

    path: str
    start: str | None = None


def imported_by_name(call: ast.Call, module: ModuleName, paths: Paths) -> Loaded | None:
    """What `import_module(name, package)` or `__import__(name)` may import, called in `module`."""
    if not call.args:
        return None
    text, whole = written(call.args[0], module, paths)
    packages = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "package")]
    is_relative = isinstance(call.func, ast.Name | ast.Attribute) and (
        text.startswith(".") or (not text and bool(packages) and not _is_builtin(call.func))
    )
    if is_relative:
        here, known = written(packages[0], module, paths) if packages else ("", False)
        package = here if known else module.resolve(1, None)
        rest = text.lstrip(".")
        above = package.split(".")
        kept = above[: max(len(above) - max(len(text) - len(rest) - 1, 0), 0)]
        text = ".".join([*kept, rest])
    if whole:
        return Loaded(text.rstrip("."))
    if not text:
        return None
    path, _, start = text.rpartition(".")
    return Loaded(path, start)


def found_below(call: ast.Call, module: ModuleName, paths: Paths) -> list[Loaded]:
    """What `pkgutil.iter_modules(where)` may find: below a package's `__path__`, or this folder."""
    where = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "path")]
    packages = []
    for node in (n for given in where for n in ast.walk(given)):
        if isinstance(node, ast.Attribute) and node.attr in {"__path__", "__file__"}:
            packages += paths(node.value)
        elif isinstance(node, ast.Name) and node.id in {"__path__", "__file__"}:
            packages.append(module.resolve(1, None))
    return [Loaded(package, "") for package in packages]


def in_folder(joined: Sequence[ast.expr], module: ModuleName) -> list[Loaded]:
    """What somebody may load from the folder that `Path(__file__).parent / "a" / "b"` is.

    `joined` are the parts after `__file__`. The folder is looked for in each package around the
    module: how far up `dirname` goes is not counted. Nothing for a file or a computed part.
    """
    names = [n.value for n in joined if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    below = [part for name in names for part in name.split("/") if part not in {"", ".", ".."}]
    if len(names) < len(joined) or not below or not all(map(str.isidentifier, below)):
        return []
    packages = module.canonical.split(".")
    deepest = len(packages) - (0 if module.is_package else 1)
    modules = []
    for depth in range(1, deepest + 1):
        for start in range(len(below)):
            modules.append(Loaded(".".join([*packages[:depth], *below[start:]]), ""))
    return modules


def _is_builtin(called: ast.expr) -> bool:
    return isinstance(called, ast.Name) and called.id == "__import__"


def written(node: ast.expr, module: ModuleName, paths: Paths) -> tuple[str, bool]:
    """The text that the value of `node` starts with, and whether that is all of it."""
    match node:
        case ast.Constant(value=str(text)):
            return text, True
        case ast.Name(id="__name__"):
            return module.canonical, True
        case ast.Name(id="__package__"):
            return module.resolve(1, None), True
        case ast.Attribute(value=ast.Name(id="__spec__"), attr="parent"):
            return module.resolve(1, None), True
        case ast.Attribute(attr="__name__" | "__package__"):
            dotted = paths(node.value)
            return (dotted[0], True) if len(dotted) == 1 else ("", False)
        case ast.FormattedValue(conversion=-1, format_spec=None):
            return written(node.value, module, paths)
        case ast.JoinedStr():
            return _joined(node.values, module, paths)
        case ast.BinOp(op=ast.Add()):
            return _joined([node.left, node.right], module, paths)
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str(text))):
            return text.partition("%")[0], False
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
            return text.partition("{")[0], False
    return "", False


def _joined(nodes: list[ast.expr], module: ModuleName, paths: Paths) -> tuple[str, bool]:
    text = ""
    for node in nodes:
        more, whole = written(node, module, paths)
        text += more
        if not whole:
            return text, False
    return text, True
