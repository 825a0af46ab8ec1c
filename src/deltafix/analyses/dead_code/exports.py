"""`__all__`, in the forms people write it: a list, `+=`, `.extend`, `.append`, another's `__all__`.

Invariant: only module-level statements count, blocks included. A computed `__all__` yields what is
constant in it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from deltafix.analyses.dead_code.references import dotted_name
from deltafix.analyses.dead_code.scopes import Scope


def all_entries(tree: ast.Module, scope: Scope) -> Iterator[tuple[str, str]]:
    """("all_name", name) and ("all_from", module path) for everything `__all__` is made of.

    `scope` is the module's own, its bindings collected.
    """
    for value in _values(tree.body):
        for node in ast.walk(value):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from (("all_name", name) for name in node.value.split())  # "a b".split()
            elif isinstance(node, ast.Attribute) and node.attr == "__all__":
                first, _, rest = dotted_name(node.value).partition(".")
                bound = scope.lookup(first)
                for imported in bound[1].imports if bound else ():
                    yield "all_from", ".".join([imported.dotted, *([rest] if rest else [])])


def _values(body: list[ast.stmt]) -> Iterator[ast.expr]:
    for node in body:
        if isinstance(node, ast.Assign) and any(_is_all(t) for t in node.targets):
            yield node.value
        elif isinstance(node, ast.AnnAssign | ast.AugAssign) and _is_all(node.target):
            if node.value is not None:
                yield node.value
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function = node.value.func
            if isinstance(function, ast.Attribute) and _is_all(function.value):
                yield from node.value.args
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
            for name in ("body", "orelse", "finalbody"):
                yield from _values(getattr(node, name, []))
            for handler in getattr(node, "handlers", []):
                yield from _values(handler.body)


def _is_all(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "__all__"
