"""Annotations as seeds: what an annotation says that a variable holds.

`typed(variable, class variable)` seeds an instance of a class, a container's annotation makes a
container object of its own with seeds for what is in it. Invariant: an annotation that is not
understood (Any, a type variable, a class outside the tree) seeds the unknown object, so that a
seed never claims too little.
"""

from __future__ import annotations

import ast

from deltafix.analyses.value_flow.blocks import UNKNOWN, Blocks, instance

_ABSTRACT = {
    "Iterable": "Iterable", "Iterator": "Iterator", "Generator": "Iterator",
    "Reversible": "Reversible", "Container": "Container", "Collection": "Collection",
    "Sequence": "Sequence", "MutableSequence": "MutableSequence",
    "Set": "Set", "AbstractSet": "Set", "MutableSet": "MutableSet",
    "AsyncIterator": "AsyncIterator", "AsyncIterable": "AsyncIterator",
    "AsyncGenerator": "AsyncIterator",
}  # fmt: skip
_BUILTIN = {
    "list": "list", "List": "list", "set": "set", "frozenset": "frozenset",
    "FrozenSet": "frozenset", "deque": "deque", "Deque": "deque",
}  # fmt: skip
_MAPPINGS = {
    "dict": "dict", "Dict": "dict", "Mapping": "Mapping", "MutableMapping": "MutableMapping",
    "defaultdict": "dict", "DefaultDict": "dict", "OrderedDict": "dict", "Counter": "dict",
}  # fmt: skip
_WRAPPERS = frozenset(
    {"Final", "ClassVar", "Annotated", "Required", "NotRequired", "ReadOnly", "InitVar"}
)
POSITIONS = tuple(f"[{i}]" for i in range(8))
"""Fields of the first elements of a tuple whose length is known."""


class Annotations(Blocks):
    """Adds `annotate` to `Blocks`."""

    def annotate(self, variable: str, node: ast.expr) -> None:
        """Seed a variable with what its annotation says."""
        if isinstance(node, ast.Constant):
            self._constant(variable, node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            self.annotate(variable, node.left)
            self.annotate(variable, node.right)
        elif isinstance(node, ast.Subscript):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            self._generic(variable, node.value, self._kind(node.value), parts)
        elif isinstance(node, ast.Name | ast.Attribute):
            self._plain(variable, node)
        else:
            self.move(UNKNOWN, variable)

    def guard(self, variable: str, source: str, node: ast.expr) -> str:
        """Let flow in what an annotation says and, of `source`, what that allows; the variable."""
        annotated = f"{variable}$said"
        self.annotate(annotated, node)
        self.move(annotated, variable)
        self.emit("guards", variable, source, annotated)
        return variable

    def yielded(self, node: ast.expr) -> ast.expr | None:
        """What a generator's annotation says of its elements; None if it does not say it."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = _parsed(node.value) or node
        name = self.dotted(node.value).rpartition(".")[2] if isinstance(node, ast.Subscript) else ""
        if not isinstance(node, ast.Subscript) or name not in _ABSTRACT:
            return None
        return node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice

    def _constant(self, variable: str, node: ast.Constant) -> None:
        if node.value is None:
            self.move(instance("NoneType"), variable)
            return
        parsed = _parsed(node.value) if isinstance(node.value, str) else None
        if parsed is None:
            self.move(UNKNOWN, variable)
        elif not isinstance(parsed, ast.Constant):
            self.annotate(variable, parsed)

    def _kind(self, node: ast.expr) -> str:
        """The last name; `typing.Set` is a set, where that of `collections.abc` is any."""
        name = self.dotted(node)
        return "set" if name == "typing.Set" else name.rpartition(".")[2]

    def _plain(self, variable: str, node: ast.Name | ast.Attribute) -> None:
        last = self._kind(node)
        if last in _ABSTRACT or last in {"Mapping", "MutableMapping"}:
            self.move(instance(_ABSTRACT.get(last, last)), variable)
        elif last == "Callable":
            self.move(UNKNOWN, variable)
        elif last == "Self" and self.methods is not None:
            self.emit("typed", variable, self.methods[0])
        else:
            self.emit("typed", variable, self.value(node))

    def _generic(self, variable: str, base: ast.expr, name: str, parts: list[ast.expr]) -> None:
        if name in _WRAPPERS:
            self.annotate(variable, parts[0])
        elif name in {"Optional", "Union"}:
            for part in parts:
                self.annotate(variable, part)
            if name == "Optional":
                self.move(instance("NoneType"), variable)
        elif name == "Literal":
            for part in parts:
                self.move(self.value(part), variable)
        elif name in {"type", "Type"}:
            for part in _alternatives(parts[0]):
                self.move(self.value(part), variable)
        elif name in _ABSTRACT or name in _BUILTIN:
            self._container(variable, {**_ABSTRACT, **_BUILTIN}[name], {"[]": parts[0]})
        elif name in _MAPPINGS:
            value = parts[1] if len(parts) > 1 else ast.Name("int", ast.Load())
            self._container(variable, _MAPPINGS[name], {"[k]": parts[0], "[]": value})
        elif name in {"tuple", "Tuple"}:
            self._tuple(variable, parts)
        elif name == "Callable" and len(parts) == 2:
            callable_ = self.temporary()
            self.emit("holds", variable, callable_)
            self.emit("site", callable_, "Callable")
            self.emit("result", callable_, f"{callable_}()")
            self.annotate(f"{callable_}()", parts[1])
        elif name in {"Awaitable", "Coroutine"}:
            self._container(variable, "coroutine", {"await": parts[-1]})
        elif name in {"TypeGuard", "TypeIs"}:
            self.move(instance("bool"), variable)
        else:
            self._plain(variable, base) if isinstance(
                base, ast.Name | ast.Attribute
            ) else self.move(UNKNOWN, variable)

    def _tuple(self, variable: str, parts: list[ast.expr]) -> None:
        if len(parts) == 2 and isinstance(parts[1], ast.Constant) and parts[1].value is ...:
            self._container(variable, "tuple", {"[]": parts[0]})
        elif len(parts) <= len(POSITIONS) and not any(isinstance(p, ast.Starred) for p in parts):
            container = self._container(
                variable, "tuple", dict(zip(POSITIONS, parts, strict=False))
            )
            self.emit("positional", container)
        else:
            self.move(instance("tuple"), variable)

    def _container(self, variable: str, kind: str, fields: dict[str, ast.expr]) -> str:
        container = self.temporary()
        self.emit("holds", variable, container)
        self.emit("site", container, kind)
        for field, part in fields.items():
            inside = f"{container}{field}"
            self.emit("fills", container, field, inside)
            self.annotate(inside, part)
        return container


def _parsed(text: str) -> ast.expr | None:
    """An annotation that is written as text."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _alternatives(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        node = _parsed(node.value) or node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_alternatives(node.left), *_alternatives(node.right)]
    if isinstance(node, ast.Subscript):
        return _alternatives(node.value)
    return [node]
