"""Assignment to targets, patterns, and what a test says about a name.

Inside `if isinstance(x, C)` the name x is read as another variable, which holds those objects of x
that may be a C. Invariant: a name that is assigned in the branch is not narrowed there, so that the
filter never drops what was written behind the test.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from deltafix.analyses.value_flow.annotations import POSITIONS, Annotations
from deltafix.analyses.value_flow.blocks import UNKNOWN


class Narrowing(Annotations):
    """Adds assignment, patterns and tests of classes."""

    def element(self, variable: str, *, later: bool = False) -> str:
        """What iterating over a variable gives."""
        raise NotImplementedError

    def is_super(self, node: ast.Call) -> bool:
        """Whether a call is `super()`, inside a method."""
        called = node.func
        return isinstance(called, ast.Name) and called.id == "super" and self.methods is not None

    # -- targets -------------------------------------------------------------------------------

    def assign(self, target: ast.expr, variable: str) -> None:
        """`target = variable`, for every kind of target."""
        if isinstance(target, ast.Name):
            self.move(variable, self.written(target.id))
        elif isinstance(target, ast.Attribute):
            self.emit("stores", self.value(target.value), target.attr, variable)
            own = self.methods
            named = isinstance(target.value, ast.Name)
            if own is not None and named and self.value(target.value) == own[1]:
                self.emit("own_field", own[0], target.attr)
        elif isinstance(target, ast.Subscript):
            key = UNKNOWN if isinstance(target.slice, ast.Slice) else self.value(target.slice)
            name = "[:]=" if isinstance(target.slice, ast.Slice) else "__setitem__"
            self.send(self.value(target.value), name, key, variable)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, self._rest(variable))
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target.elts, variable)

    def _unpack(self, targets: Sequence[ast.expr], variable: str) -> None:
        starred = [isinstance(t, ast.Starred) for t in targets]
        rest: str | None = None
        for position, target in enumerate(targets):
            if any(starred[: position + 1]) or position >= len(POSITIONS):
                rest = rest or self.element(variable)
                self.assign(target, rest)
            else:
                self.assign(target, self._picked(variable, position))

    def _picked(self, variable: str, position: int) -> str:
        made = self.temporary()
        self.emit("within", made, self.function)
        self.emit("within", f"{made}~", self.function)
        self.emit("picks", made, f"{made}~", variable, POSITIONS[position])
        return made

    def _rest(self, element: str) -> str:
        """A list of what a starred target takes."""
        made = self.temporary()
        self.emit("holds", made, made)
        self.emit("site", made, "list")
        self.emit("fills", made, "[]", element)
        return made

    # -- tests ---------------------------------------------------------------------------------

    def narrow(self, test: ast.expr) -> dict[str, str]:
        """Variables to read in place of others where `test` holds."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            found: dict[str, str] = {}
            for part in test.values:
                with self.narrowing(found):
                    found |= self.narrow(part)
            return found
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.narrow_not(test.operand)
        if _is_instance_test(test):
            return self._instance(test.args[0], _classes(test.args[1]))  # type: ignore[attr-defined]
        return self._not_none(test, ast.IsNot)

    def narrow_not(self, test: ast.expr) -> dict[str, str]:
        """As `narrow`, where the test does not hold."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.narrow(test.operand)
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
            found: dict[str, str] = {}
            for part in test.values:
                with self.narrowing(found):
                    found |= self.narrow_not(part)
            return found
        return self._not_none(test, ast.Is)

    def _not_none(self, test: ast.expr, operator: type[ast.cmpop]) -> dict[str, str]:
        if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], operator):
            return {}
        right = test.comparators[0]
        left = test.left.target if isinstance(test.left, ast.NamedExpr) else test.left
        if len(test.ops) > 1 or not isinstance(right, ast.Constant) or right.value is not None:
            return {}
        if not isinstance(left, ast.Name):
            return {}
        made = self.temporary()
        self.emit("narrows_none", made, self.read(left.id))
        return {self.written(left.id): made}

    def _instance(self, node: ast.expr, classes: Iterable[ast.expr]) -> dict[str, str]:
        if isinstance(node, ast.NamedExpr):
            node = node.target
        if not isinstance(node, ast.Name):
            return {}
        made = self.narrow_to(self.read(node.id), classes)
        return {self.written(node.id): made}

    def narrow_to(self, variable: str, classes: Iterable[ast.expr]) -> str:
        """A variable with what of another may be an instance of one of the classes."""
        made = self.temporary()
        for one in classes:
            self.emit("narrows", made, variable, self.value(one))
        return made

    # -- patterns ------------------------------------------------------------------------------

    def pattern(self, pattern: ast.pattern, subject: str) -> str:
        """Bind a pattern's names to what they take of `subject`; returns what matched."""
        if isinstance(pattern, ast.MatchValue):
            self.value(pattern.value)
        elif isinstance(pattern, ast.MatchAs):
            if pattern.pattern is not None:
                subject = self.pattern(pattern.pattern, subject)
            if pattern.name is not None:
                self.move(subject, self.written(pattern.name))
        elif isinstance(pattern, ast.MatchClass):
            return self._class_pattern(pattern, subject)
        elif isinstance(pattern, ast.MatchSequence):
            starred = [isinstance(p, ast.MatchStar) for p in pattern.patterns]
            for position, part in enumerate(pattern.patterns):
                exact = not any(starred[: position + 1]) and position < len(POSITIONS)
                taken = self._picked(subject, position) if exact else self.element(subject)
                self.pattern(part, taken)
        elif isinstance(pattern, ast.MatchStar):
            if pattern.name is not None:
                self.move(self._rest(subject), self.written(pattern.name))
        elif isinstance(pattern, ast.MatchMapping):
            for key, part in zip(pattern.keys, pattern.patterns, strict=True):
                self.pattern(part, self.send(subject, "__getitem__", self.value(key)))
            if pattern.rest is not None:
                self.move(subject, self.written(pattern.rest))
        elif isinstance(pattern, ast.MatchOr):
            return self.join([self.pattern(part, subject) for part in pattern.patterns])
        return subject

    def _class_pattern(self, pattern: ast.MatchClass, subject: str) -> str:
        made = self.narrow_to(subject, [pattern.cls])
        for name, part in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
            self.pattern(part, self.load(made, name))
        for position, part in enumerate(pattern.patterns):
            taken = self.temporary()
            self.emit("matches", taken, made, str(position))
            self.pattern(part, taken)
        return made

    def unassigned(self, narrowed: dict[str, str], body: Sequence[ast.AST]) -> dict[str, str]:
        """`narrowed` without the variables that a body assigns."""
        if not narrowed:
            return narrowed
        stored = {
            self.written(node.id)
            for statement in body
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        return {name: made for name, made in narrowed.items() if name not in stored}


def _is_instance_test(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Call)
        and isinstance(test.func, ast.Name)
        and test.func.id == "isinstance"
        and len(test.args) == 2
    )


def _classes(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Tuple):
        return [part for one in node.elts for part in _classes(one)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_classes(node.left), *_classes(node.right)]
    return [node]
