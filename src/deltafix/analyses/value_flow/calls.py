"""Calls: who is called, with what, and the few callees whose meaning is not that of a call.

`applies(site, variable)` calls what a variable holds, `sends(site, base, name)` calls `base.name`
without making a bound method of it, `sends_super` starts the lookup above a class. Invariant: a
call site is both the name of the call and the variable of its result.
"""

# ruff: noqa: N802  a visitor's method names are ast's
from __future__ import annotations

import ast

from deltafix.analyses.dead_code.scopes import Scope
from deltafix.analyses.value_flow.blocks import UNKNOWN, instance
from deltafix.analyses.value_flow.expressions import Expressions

_PAIRS = frozenset(
    {"items", "enumerate", "zip", "most_common", "zip_longest", "pairwise", "product"}
)
"""Callees that may make a container of tuples: their sites get a name for the tuple."""


class Calls(Expressions):
    """Adds calls."""

    def visit_Call(self, node: ast.Call) -> str:
        """`f(a, *b, c=d)`."""
        called = node.func
        name = self.dotted(called)
        if name in {"typing.cast", "cast"} and len(node.args) == 2:
            return self._cast(node)
        if self.is_super(node):
            return UNKNOWN
        if name in {"dataclasses.field", "field"}:
            return self._field(node)
        made = self.site()
        last = called.attr if isinstance(called, ast.Attribute) else name
        if last in _PAIRS:
            pair = f"{made}[]"
            self.emit("pairs", made, pair)
            self.emit("positional", pair)
            self.emit("site", pair, "tuple")
        if not isinstance(called, ast.Attribute):
            self.emit("applies", made, self.value(called))
        elif isinstance(called.value, ast.Call) and self.is_super(called.value):
            class_, receiver = self.methods or ("", "")
            self.emit("sends_super", made, class_, called.attr, receiver)
        else:
            base = self.value(called.value)
            if base == UNKNOWN:
                self.emit("applies", made, base)
            else:
                self.emit("sends", made, base, called.attr)
        self._arguments(made, node)
        return made

    def _arguments(self, made: str, node: ast.Call) -> None:
        position = 0
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                self.emit("spreads", made, self.value(argument.value))
            else:
                self.emit("argument", made, str(position), self.value(argument))
                position += 1
        for keyword in node.keywords:
            if keyword.arg is None:
                self.emit("spreads_named", made, self.value(keyword.value))
            else:
                self.emit("keyword", made, keyword.arg, self.value(keyword.value))

    def _cast(self, node: ast.Call) -> str:
        """`cast(T, x)` is what the annotation says."""
        made = self.temporary()
        self.annotate(made, node.args[0])
        self.value(node.args[1])
        return made

    def _field(self, node: ast.Call) -> str:
        """`field(default=…, default_factory=…)` of a data class is its default."""
        found = []
        for keyword in node.keywords:
            variable = self.value(keyword.value)
            if keyword.arg == "default":
                found.append(variable)
            elif keyword.arg == "default_factory":
                made = self.site()
                self.emit("applies", made, variable)
                found.append(made)
        return self.join(found) if found else self.temporary()

    # -- functions without a name --------------------------------------------------------------

    def visit_Lambda(self, node: ast.Lambda) -> str:
        """A lambda: a function called after its place among the lambdas around it."""
        ordinal = self.temporary().rpartition("$")[2]
        identity = f"{self.scope.child('<lambda>')}{ordinal}"
        made = self.temporary()
        self.emit("holds", made, identity)
        self.emit("function", identity, "plain")
        scope = self.parameters(node.args, identity, [node.body])
        with self.block(scope, identity):
            self.narrowed = {}
            self.move(self.value(node.body), f"{identity}$return")
        self.emit("result", identity, f"{identity}$return")
        return made

    def parameters(self, arguments: ast.arguments, identity: str, body: list[ast.AST]) -> Scope:
        """State a function's parameters; returns the scope of its body."""
        raise NotImplementedError

    def visit_Yield(self, node: ast.Yield) -> str:
        """`yield x`: what the function's generator holds; what is sent to it is not known."""
        given = self.value(node.value) if node.value is not None else instance("NoneType")
        self.move(given, f"{self.function}$yields")
        return UNKNOWN

    def visit_YieldFrom(self, node: ast.YieldFrom) -> str:
        """`yield from xs`."""
        self.move(self.element(self.value(node.value)), f"{self.function}$yields")
        return UNKNOWN
