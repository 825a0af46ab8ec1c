"""Expressions: each gives the variable that holds its value, and states how it got there.

Invariant: an expression that is not understood gives the unknown variable; its parts are read all
the same, for the calls in them.
Calls are in `statements`, bodies of functions in `functions`.

Inside `if isinstance(x, C)` the name x is read as another variable, which holds those objects of x
that may be a C; a name assigned in the branch is not narrowed there.
"""

# ruff: noqa: N802  a visitor's method names are ast's
from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from deltafix.analyses.value_flow.annotations import POSITIONS, Annotations
from deltafix.analyses.value_flow.blocks import CONSTANTS, UNKNOWN, instance


def _is_instance_test(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Call)
        and isinstance(test.func, ast.Name)
        and test.func.id == "isinstance"
        and len(test.args) == 2
    )


def _classes(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Tuple):
        return [part for element in node.elts for part in _classes(element)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_classes(node.left), *_classes(node.right)]
    return [node]


BINARY = {
    ast.Add: "__add__", ast.Sub: "__sub__", ast.Mult: "__mul__", ast.Div: "__truediv__",
    ast.FloorDiv: "__floordiv__", ast.Mod: "__mod__", ast.Pow: "__pow__",
    ast.MatMult: "__matmul__", ast.LShift: "__lshift__", ast.RShift: "__rshift__",
    ast.BitAnd: "__and__", ast.BitOr: "__or__", ast.BitXor: "__xor__",
}  # fmt: skip
"""The method behind each binary operator."""
_COMPARE = {
    ast.Eq: "__eq__", ast.NotEq: "__eq__", ast.Lt: "__lt__", ast.LtE: "__le__", ast.Gt: "__gt__",
    ast.GtE: "__ge__",
}  # fmt: skip
_UNARY = {ast.USub: "__neg__", ast.UAdd: "__pos__", ast.Invert: "__invert__"}


class Expressions(Annotations):
    """Adds every expression but calls and lambdas; assignment, patterns, tests of classes."""

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
        picked = self.temporary()
        self.emit("within", picked, self.function)
        self.emit("within", f"{picked}~", self.function)
        self.emit("picks", picked, f"{picked}~", variable, POSITIONS[position])
        return picked

    def _rest(self, element: str) -> str:
        """A list of what a starred target takes."""
        list_ = self.temporary()
        self.emit("holds", list_, list_)
        self.emit("site", list_, "list")
        self.emit("fills", list_, "[]", element)
        return list_

    # -- tests ---------------------------------------------------------------------------------

    def narrow(self, test: ast.expr) -> dict[str, str]:
        """Variables to read in place of others where `test` holds."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            narrowed: dict[str, str] = {}
            for part in test.values:
                with self.narrowing(narrowed):
                    narrowed |= self.narrow(part)
            return narrowed
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
            narrowed: dict[str, str] = {}
            for part in test.values:
                with self.narrowing(narrowed):
                    narrowed |= self.narrow_not(part)
            return narrowed
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
        return {self.written(left.id): self.not_none(self.read(left.id))}

    def not_none(self, variable: str) -> str:
        """A variable with what another holds beside None."""
        if variable in CONSTANTS - {instance("NoneType")}:
            return variable
        narrowed = self.temporary()
        self.emit("narrows_none", narrowed, variable)
        return narrowed

    def _instance(self, node: ast.expr, classes: Iterable[ast.expr]) -> dict[str, str]:
        if isinstance(node, ast.NamedExpr):
            node = node.target
        if not isinstance(node, ast.Name):
            return {}
        narrowed = self.narrow_to(self.read(node.id), classes)
        return {self.written(node.id): narrowed}

    def narrow_to(self, variable: str, classes: Iterable[ast.expr]) -> str:
        """A variable with what of another may be an instance of one of the classes."""
        narrowed = self.temporary()
        for class_ in classes:
            self.emit("narrows", narrowed, variable, self.value(class_))
        return narrowed

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
        narrowed = self.narrow_to(subject, [pattern.cls])
        for name, part in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
            self.pattern(part, self.load(narrowed, name))
        for position, part in enumerate(pattern.patterns):
            taken = self.temporary()
            self.emit("matches", taken, narrowed, str(position))
            self.pattern(part, taken)
        return narrowed

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
        return {name: variable for name, variable in narrowed.items() if name not in stored}

    # -- atoms ---------------------------------------------------------------------------------

    def visit_Constant(self, node: ast.Constant) -> str:
        """A constant is told by its type only."""
        return instance(type(node.value).__name__)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> str:
        """An f-string is text, and formats what is in it."""
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                variable = self.value(part.value)
                if variable not in CONSTANTS:
                    self.send(variable, "__repr__" if part.conversion == ord("r") else "__format__")
        return instance("str")

    def visit_Name(self, node: ast.Name) -> str:
        """A variable."""
        return self.read(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> str:
        """`x.name`."""
        if isinstance(node.value, ast.Call) and self.is_super(node.value):
            return UNKNOWN
        return self.load(self.value(node.value), node.attr)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> str:
        """`x := value`."""
        variable = self.value(node.value)
        self.move(variable, self.written(node.target.id))
        return variable

    def visit_Starred(self, node: ast.Starred) -> str:
        """`*x`: its elements."""
        return self.element(self.value(node.value))

    def visit_Await(self, node: ast.Await) -> str:
        """`await x`."""
        awaited = self.temporary()
        self.emit("awaits", awaited, self.value(node.value))
        return awaited

    def generic_visit(self, node: ast.AST) -> str:
        """Anything else: read its parts."""
        for child in ast.iter_child_nodes(node):
            self.visit(child)
        return UNKNOWN

    # -- displays ------------------------------------------------------------------------------

    def display(self, kind: str, elements: Sequence[ast.expr]) -> str:
        """A list, set or tuple with these elements."""
        container = self.temporary()
        self.emit("holds", container, container)
        self.emit("site", container, kind)
        placed = kind == "tuple" and 0 < len(elements) <= len(POSITIONS)
        placed = placed and not any(isinstance(e, ast.Starred) for e in elements)
        if placed:
            self.emit("positional", container)
        for position, element in enumerate(elements):
            self.emit(
                "fills", container, POSITIONS[position] if placed else "[]", self.value(element)
            )
        return container

    def visit_List(self, node: ast.List) -> str:
        """`[a, b]`."""
        return self.display("list", node.elts)

    def visit_Set(self, node: ast.Set) -> str:
        """`{a, b}`."""
        return self.display("set", node.elts)

    def visit_Tuple(self, node: ast.Tuple) -> str:
        """`(a, b)`."""
        return self.display("tuple", node.elts)

    def visit_Dict(self, node: ast.Dict) -> str:
        """`{k: v, **others}`."""
        dict_ = self.temporary()
        self.emit("holds", dict_, dict_)
        self.emit("site", dict_, "dict")
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                self.send(dict_, "update", self.value(value))
            else:
                self.emit("fills", dict_, "[k]", self.value(key))
                self.emit("fills", dict_, "[]", self.value(value))
        return dict_

    # -- comprehensions ------------------------------------------------------------------------

    def comprehension(
        self, kind: str, node: ast.AST, generators: list[ast.comprehension], *parts: ast.expr
    ) -> str:
        """A comprehension: targets of its own, then an object filled with its parts."""
        container = self.temporary()
        self.emit("holds", container, container)
        self.emit("site", container, kind)
        first = self.value(generators[0].iter)
        with self.block(self.inner(container, [g.target for g in generators])):
            for number, generator in enumerate(generators):
                iterated = first if number == 0 else self.value(generator.iter)
                self.assign(
                    generator.target, self.element(iterated, later=bool(generator.is_async))
                )
                for test in generator.ifs:
                    self.test(self.value(test))
                    self.narrowed.update(self.narrow(test))
            for field, part in zip(
                ("[]",) if len(parts) == 1 else ("[k]", "[]"), parts, strict=True
            ):
                self.emit("fills", container, field, self.value(part))
        return container

    def visit_ListComp(self, node: ast.ListComp) -> str:
        """`[x for x in xs]`."""
        return self.comprehension("list", node, node.generators, node.elt)

    def visit_SetComp(self, node: ast.SetComp) -> str:
        """`{x for x in xs}`."""
        return self.comprehension("set", node, node.generators, node.elt)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> str:
        """`(x for x in xs)`."""
        return self.comprehension("generator", node, node.generators, node.elt)

    def visit_DictComp(self, node: ast.DictComp) -> str:
        """`{k: v for k, v in xs}`."""
        return self.comprehension("dict", node, node.generators, node.key, node.value)

    # -- operators -----------------------------------------------------------------------------

    def binary(self, name: str, left: str, right: str) -> str:
        """`left <operator> right`; nothing to say of two constants that are not added."""
        site = self.site()
        self.emit("binary", site, name, left, right)
        self.emit("argument", site, "0", right)
        return site

    def visit_BinOp(self, node: ast.BinOp) -> str:
        """`a + b`."""
        return self.binary(BINARY[type(node.op)], self.value(node.left), self.value(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> str:
        """`-a`, `not a`."""
        variable = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            self.test(variable)
            return instance("bool")
        return self.send(variable, _UNARY[type(node.op)])

    def visit_Compare(self, node: ast.Compare) -> str:
        """`a < b`: a bool, or what the method of a class says."""
        results = {instance("bool")}
        left = self.value(node.left)
        for operator, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.value(comparator)
            if isinstance(operator, ast.In | ast.NotIn):
                self.test(self.send(right, "__contains__", left))
            elif type(operator) in _COMPARE and not {left, right} <= CONSTANTS:
                compared = self.binary(_COMPARE[type(operator)], left, right)
                results.add(compared)
                if isinstance(operator, ast.NotEq) or comparator is not node.comparators[-1]:
                    self.test(compared)  # `!=` is the opposite of `==`; `a < b < c` stops early
            left = right
        return self.join(results)

    def visit_BoolOp(self, node: ast.BoolOp) -> str:
        """`a and b`: either; after `isinstance(x, C) and`, x is a C; `a or b` is no None of a's."""
        with self.block(self.scope):
            parts = []
            for part in node.values:
                parts.append(self.value(part))
                if part is not node.values[-1]:
                    self.test(parts[-1])
                if isinstance(node.op, ast.And):
                    self.narrowed.update(self.narrow(part))
        if isinstance(node.op, ast.Or):
            parts = [*map(self.not_none, parts[:-1]), parts[-1]]
        return self.join(parts)

    def visit_IfExp(self, node: ast.IfExp) -> str:
        """`a if test else b`."""
        self.test(self.value(node.test))
        with self.narrowing(self.narrow(node.test)):
            body = self.value(node.body)
        with self.narrowing(self.narrow_not(node.test)):
            return self.join([body, self.value(node.orelse)])

    # -- subscripts ----------------------------------------------------------------------------

    def visit_Subscript(self, node: ast.Subscript) -> str:
        """`x[k]`, `x[1]` of a tuple whose length is known, `x[a:b]`."""
        base = self.value(node.value)
        index = node.slice
        if isinstance(index, ast.Slice):
            self.generic_visit(index)
            return self.send(base, "[:]", instance("slice"))
        position = index.value if isinstance(index, ast.Constant) else None
        if isinstance(position, int) and position in range(len(POSITIONS)):
            site = self.site()
            self.emit("indexes", site, base, POSITIONS[position])
            self.emit("argument", site, "0", instance("int"))
            return site
        return self.send(base, "__getitem__", self.value(index))

    def element(self, variable: str, *, later: bool = False) -> str:
        """What iterating over a variable gives; `later` for `async for`."""
        site = self.site()
        if later:
            iterator = self.send(variable, "__aiter__")
            taken = self.send(iterator, "__anext__")
            self.emit("awaits", site, taken)
            return site
        self.emit("iterates", site, f"{site}~", variable)
        self.emit("within", f"{site}~", self.function)
        return site
