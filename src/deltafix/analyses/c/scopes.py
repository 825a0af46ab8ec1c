"""Which variable a name means: scopes of one file, and symbols for what is declared in them.

    external linkage   x                 the same in every file
    internal linkage   shop.c:x          (in a header: x, as every file that includes it has it)
    inside a function  shop.c:total/x    the second x of the function: shop.c:total/x#2

Invariant: a symbol depends on its file and function and on nothing before the function, so an edit
of one function renames nothing in another.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltafix.analyses.c.declare import Declared, declared
from deltafix.analyses.c.parse import parts, text, top_level

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a name stands for.

    Attributes:
        symbol: its name in facts.
        kind: "function", "global", "static" (inside a function), "local", "parameter",
            "constant" (an enumerator, an object-like macro), "macro" or "type".
        declared: its declaration, if there is one.
    """

    symbol: str
    kind: str
    declared: Declared | None = None

    @property
    def is_variable(self) -> bool:
        """Whether it can be assigned to."""
        return self.kind in {"global", "static", "local", "parameter"}

    @property
    def is_shared(self) -> bool:
        """Whether it outlives a call of the function."""
        return self.kind in {"global", "static"}


class Scopes:
    """The scopes open at one point of a file; starts with the file's own."""

    def __init__(self, path: str, root: Node) -> None:
        self.path = path
        self._open: list[dict[str, Meaning]] = [{}]
        self._seen: Counter[str] = Counter()
        self._function = ""
        self._defined: Counter[str] = Counter()
        for item in top_level(root):
            self._top(item)

    def enter_function(self, name: str) -> str:
        """Begin a function's own names; its id in this file, `path:name` (`#2` for a second)."""
        self._defined[name] += 1
        count = self._defined[name]
        self._function = f"{self.path}:{name}" + (f"#{count}" if count > 1 else "")
        self._seen.clear()
        self.enter()
        return self._function

    def enter(self) -> None:
        """Begin a block."""
        self._open.append({})

    def leave(self) -> None:
        """End a block or a function."""
        self._open.pop()

    def look(self, name: str) -> Meaning | None:
        """What the name means here, or None if the file does not declare it."""
        for scope in reversed(self._open):
            if name in scope:
                return scope[name]
        return None

    def declare(self, declaration: Declared, kind: str = "local") -> Meaning:
        """Declare a name in the innermost block of a function."""
        if "typedef" in declaration.words:
            meaning = Meaning(declaration.name, "type", declaration)
        elif declaration.is_function or "extern" in declaration.words:
            meaning = self._shared(declaration)
            self._open[0].setdefault(declaration.name, meaning)
        else:
            self._seen[declaration.name] += 1
            count = self._seen[declaration.name]
            symbol = f"{self._function}/{declaration.name}" + (f"#{count}" if count > 1 else "")
            meaning = Meaning(
                symbol, "static" if "static" in declaration.words else kind, declaration
            )
        self._open[-1][declaration.name] = meaning
        return meaning

    def assume(self, name: str) -> Meaning:
        """A variable of another file that this one never declares."""
        meaning = Meaning(name, "global")
        self._open[-1][name] = meaning
        return meaning

    def enumerators(self, node: Node) -> None:
        """Declare the constants of the enum types written in a declaration."""
        kind = node.child_by_field_name("type")
        listed = None if kind is None else kind.child_by_field_name("body")
        if kind is None or listed is None or kind.type != "enum_specifier":
            return
        for enumerator in parts(listed):
            name = enumerator.child_by_field_name("name")
            if name is not None:
                self._open[-1][text(name)] = Meaning(text(name), "constant")

    def _top(self, item: Node) -> None:
        if item.type in {"preproc_def", "preproc_function_def"}:
            name = item.child_by_field_name("name")
            if name is not None:
                kind = "constant" if item.type == "preproc_def" else "macro"
                self._open[0].setdefault(text(name), Meaning(text(name), kind))
        elif item.type in {"declaration", "function_definition", "type_definition"}:
            self.enumerators(item)
            for declaration in declared(item):
                old = self._open[0].get(declaration.name)
                if "typedef" in declaration.words:
                    self._open[0][declaration.name] = Meaning(declaration.name, "type", declaration)
                elif old is None or old.declared is None:
                    self._open[0][declaration.name] = self._shared(declaration)
                elif not declaration.is_function and len(declaration.shape) > len(
                    old.declared.shape
                ):
                    self._open[0][declaration.name] = Meaning(old.symbol, old.kind, declaration)

    def _shared(self, declaration: Declared) -> Meaning:
        internal = "static" in declaration.words and not self.path.endswith(".h")
        symbol = f"{self.path}:{declaration.name}" if internal else declaration.name
        return Meaning(symbol, "function" if declaration.is_function else "global", declaration)
