"""Fixtures of pytest: asked for by the name of a parameter, or by name in a string.

Invariant: the facts say what is written; that a fixture is alive when living code asks for it is a
rule of `program.dl`. A fixture that is in use without being asked for (`autouse`), or asked for
under another `name`, is kept with its module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

FIXTURE_CALLS = frozenset({"usefixtures", "getfixturevalue"})
"""Functions whose constant arguments are names of fixtures."""


def fixture_facts(
    node: ast.FunctionDef | ast.AsyncFunctionDef, identity: str, owner: str, *, is_test: bool
) -> Iterator[tuple[str, ...]]:
    """("asks", user, fixture) and ("kept", …) rows of one function of a test file, or a fixture."""
    makers = [decorator for decorator in node.decorator_list if _is_maker(decorator)]
    for maker in makers:
        words = {k.arg for k in maker.keywords} if isinstance(maker, ast.Call) else set()
        if words & {"autouse", "name"}:
            yield "kept", identity, owner, "has the fixture"
    if is_test or makers:
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            yield "asks", identity, argument.arg


def _is_maker(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    last = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
    return last == "fixture"
