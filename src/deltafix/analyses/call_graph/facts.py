"""From one file's bytes to its fragment: the names of `dead_code`, and the calls.

Invariant: a call states what it does by how its callee is written; which function that is, is
decided by the rules. A call whose callee is computed (`table[k]()`, `f()()`) states none.
"""

# ruff: noqa: N802  a visitor's method names are ast's
from __future__ import annotations

import ast
from collections.abc import Mapping
from types import MappingProxyType

from deltafix.analyses.dead_code import shapes
from deltafix.analyses.dead_code.definitions import Definitions
from deltafix.analyses.dead_code.extract import extract_only
from deltafix.analyses.dead_code.inputs import INPUTS
from deltafix.analyses.facts import Fragment, Place

_CALLS: Mapping[str, tuple[str, ...]] = {
    "calls_symbol": ("caller", "id"),
    "calls_global": ("caller", "module", "name"),
    "calls_path": ("caller", "path", "name", "top"),
    "calls_method": ("caller", "name"),
    "calls_own": ("caller", "class", "name"),
    "calls_super": ("caller", "class", "name"),
    "calls_of": ("caller", "module", "global", "name"),
    "calls_in": ("caller", "path", "member", "name"),
    "named_lambda": ("id",),
    "dotted": ("path", "above", "name"),
}
CALL_INPUTS: Mapping[str, tuple[str, ...]] = MappingProxyType({**INPUTS, **_CALLS})
"""Input relations of the program and their columns, all of type symbol."""

_OF_REFERENCE = {
    "refers": "calls_symbol",
    "names": "calls_global",
    "uses": "calls_path",
    "attribute": "calls_method",
}


def call_key(module: str, name: str) -> str:
    """What the place of a module's call of a name is kept under."""
    return f"{module}>{name.rpartition('.')[2]}"


def extract_calls(path: str, data: bytes, prefix: str = "") -> Fragment:
    """As `dead_code.extract.extract`, with the calls. Never raises for bad content."""
    return extract_only(path, data, prefix, _Calls, CALL_INPUTS)


class _Calls(Definitions):
    """Adds to every call's references that they are called."""

    def visit_Call(self, node: ast.Call) -> None:
        """Say who is called, then read the call as any expression."""
        called = node.func
        if isinstance(called, ast.Name):
            own = self._own_class(called) if called.id == "cls" else None
            if own is not None:
                self.emit("calls_own", self.user, own, "__init__")
            self._called(called, None)
        elif isinstance(called, ast.Attribute):
            own = self._own_class(called.value)
            if own is not None:
                is_super = isinstance(called.value, ast.Call)
                relation = "calls_super" if is_super else "calls_own"
                self.emit(relation, self.user, own, called.attr)
            else:
                self._called(called, called.attr)
        super().visit_Call(node)

    def _assignment(
        self, node: ast.Assign | ast.AnnAssign, value: ast.expr | None, annotation: ast.expr | None
    ) -> None:
        """As it is; a name of a lambda is called as a function is."""
        super()._assignment(node, value, annotation)
        if isinstance(value, ast.Lambda) and self.scope.kind != "function":
            for name in shapes.targets(node):
                self.emit("named_lambda", self.scope.home(name.id).child(name.id))

    def _base(self, identity: str, node: ast.expr) -> str:
        """As it is, with the paths around it: one of them may be that of a class."""
        written = super()._base(identity, node)
        path = written.rpartition(".")[0]
        while "." in path:
            above, _, name = path.rpartition(".")
            self.emit("dotted", path, above, name)
            path = above
        return written

    def _called(self, node: ast.expr, name: str | None) -> None:
        """State the references of `node` as calls; of an attribute only those to its last name."""
        before = len(self.facts)
        self.visit(node)
        stated = self.facts[before:]
        on_name = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        of = [row for relation, row in stated if relation == "names"] if on_name else []
        for relation, row in stated:
            wanted = _OF_REFERENCE.get(relation)
            last = row[1] if relation == "attribute" else row[2] if relation == "uses" else None
            if wanted is None or name not in {None, last}:
                continue
            if self.user == self.module.canonical:  # whose own line is the first of its file
                name_called = last or row[-1].rpartition(":")[2]
                self.places.append(Place(call_key(self.user, name_called), "call", node.lineno))
            if relation == "attribute" and len(of) == 1:
                self.emit("calls_of", *of[0], row[1])
                continue
            self.emit(wanted, *row)
            if relation == "uses" and "." in row[1]:
                path, _, member = row[1].rpartition(".")
                self.emit("calls_in", row[0], path, member, row[2])

    def _own_class(self, node: ast.expr) -> str | None:
        """The class that `self`, `cls` or `super()` means here, or None."""
        if isinstance(node, ast.Call):
            node = node.func
            names = {"super"}
        else:
            names = {"self", "cls"}
        if not isinstance(node, ast.Name) or node.id not in names:
            return None
        scope = self.scope
        while scope.kind != "class":
            if scope.parent is None:
                return None
            scope = scope.parent
        return scope.owner
