"""Statements: what they move, and in which branches a name is narrowed.

Invariant: the analyses ignore flow, so a statement's order says nothing; only a test of a class
changes what is read in its branch, and in the rest of a block that the other branch leaves.

`applies(site, variable)` calls what a variable holds, `sends(site, base, name)` calls `base.name`
without making a bound method of it, `sends_super` starts the lookup above a class; a call site is
both the name of the call and the variable of its result.
"""

# ruff: noqa: N802, N815  a visitor's method names are ast's
from __future__ import annotations

import ast
from collections.abc import Sequence

from deltafix.analyses.dead_code.computed import written
from deltafix.analyses.dead_code.scopes import Scope, annotate_imports
from deltafix.analyses.value_flow.blocks import UNKNOWN, instance
from deltafix.analyses.value_flow.expressions import BINARY, Expressions

_PAIRS = frozenset(
    {"items", "enumerate", "zip", "most_common", "zip_longest", "pairwise", "product"}
)
"""Callees that may make a container of tuples: their sites get a name for the tuple."""
_SPECIAL = {
    "next": ("__next__",), "iter": ("__iter__",), "len": ("__len__",), "str": ("__str__",),
    "repr": ("__repr__",), "format": ("__format__",), "hash": ("__hash__",), "abs": ("__abs__",),
    "int": ("__int__", "__index__"), "float": ("__float__",),
}  # fmt: skip
"""Builtins and the methods of their first argument that they call."""
_WALKED = {
    **dict.fromkeys(("list", "tuple", "set", "frozenset", "sorted", "sum", "any", "all"), (0,)),
    **dict.fromkeys(("min", "max", "enumerate", "dict", "iter"), (0,)),
    "zip": (0, 1, 2, 3), "map": (1,), "filter": (1,),
}  # fmt: skip
"""Builtins and the arguments that they iterate over."""
_TESTED = {"any", "all"}
"""Those of them that ask for the truth of each element; `filter(None, xs)` does, too."""


_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class Statements(Expressions):
    """Adds calls, lambdas, and every statement but definitions."""

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
        if name == "getattr" and (loaded := self._getattr(node)) is not None:
            return loaded
        site = self.site()
        last = called.attr if isinstance(called, ast.Attribute) else name
        if last in _PAIRS:
            pair = f"{site}[]"
            self.emit("pairs", site, pair)
            self.emit("positional", pair)
            self.emit("site", pair, "tuple")
        if not isinstance(called, ast.Attribute):
            self.emit("applies", site, self.value(called))
        elif isinstance(called.value, ast.Call) and self.is_super(called.value):
            class_, receiver = self.methods or ("", "")
            self.emit("sends_super", site, class_, called.attr, receiver)
        else:
            base = self.value(called.value)
            if base == UNKNOWN:
                self.emit("applies", site, base)
            else:
                self.emit("sends", site, base, called.attr)
        self._arguments(site, node)
        if isinstance(called, ast.Name) and self.scope.lookup(name) is None:
            self._special(site, name, node.args)
        return site

    def _special(self, site: str, name: str, arguments: Sequence[ast.expr]) -> None:
        """The special methods of arguments that a builtin calls."""
        plain = not any(isinstance(argument, ast.Starred) for argument in arguments)
        for position in _WALKED.get(name, ()) if plain else ():
            if position < len(arguments):
                element = self.element(self.value(arguments[position]))
                self.emit("walks", site, str(position), element)
                if name in _TESTED or (name == "filter" and isinstance(arguments[0], ast.Constant)):
                    self.test(element)
        if name == "bool" and arguments and plain:
            self.test(self.value(arguments[0]))
        for method in _SPECIAL.get(name, ()) if arguments and plain else ():
            result = self.send(self.value(arguments[0]), method)
            if name == "next":
                self.emit("walks", site, "0", result)
            elif name in {"iter", "abs"}:
                self.move(result, site)

    def _arguments(self, site: str, node: ast.Call) -> None:
        position = 0
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                self.emit("spreads", site, self.value(argument.value))
            else:
                self.emit("argument", site, str(position), self.value(argument))
                position += 1
        for keyword in node.keywords:
            if keyword.arg is None:
                self.emit("spreads_named", site, self.value(keyword.value))
            else:
                self.emit("keyword", site, keyword.arg, self.value(keyword.value))

    def _cast(self, node: ast.Call) -> str:
        """`cast(T, x)` is what the annotation says."""
        cast = self.temporary()
        self.annotate(cast, node.args[0])
        self.value(node.args[1])
        return cast

    def _getattr(self, node: ast.Call) -> str | None:
        """`getattr(x, "name")`, `getattr(x, f"visit_{kind}", None)`; None if no name is written."""
        arguments = node.args
        plain = not node.keywords and not any(
            isinstance(argument, ast.Starred) for argument in arguments
        )
        if not plain or len(arguments) not in {2, 3} or self.scope.lookup("getattr") is not None:
            return None
        names = self._names(arguments[1])
        base = self.value(arguments[0])
        if not names or base == UNKNOWN:
            return None
        self.value(arguments[1])
        loaded = [self.load_begun(base, text) for text, whole in names if not whole]
        loaded += [self.load(base, text) for text, whole in names if whole]
        return self.join([*loaded, *map(self.value, arguments[2:])])

    def _names(self, node: ast.expr) -> set[tuple[str, bool]]:
        """The names that an expression may be, or what they begin with; none if one is unknown."""
        if isinstance(node, ast.Name):
            bound = self.scope.lookup(node.id)
            binding = bound[1] if bound else None
            if binding is None or binding.given or len(binding.values) != binding.writes:
                return set()
            names = [self._names(v) for v in binding.values if not isinstance(v, ast.Name)]
            known = len(names) == len(binding.values) and all(names)
            return set().union(*names) if known else set()
        text, whole = written(node, self.module, lambda _: [])
        return {(text, whole)} if text.strip("_") and text.isidentifier() else set()

    def _field(self, node: ast.Call) -> str:
        """`field(default=…, default_factory=…)` of a data class is its default."""
        defaults = []
        for keyword in node.keywords:
            variable = self.value(keyword.value)
            if keyword.arg == "default":
                defaults.append(variable)
            elif keyword.arg == "default_factory":
                site = self.site()
                self.emit("applies", site, variable)
                defaults.append(site)
        return self.join(defaults) if defaults else self.temporary()

    # -- functions without a name --------------------------------------------------------------

    def visit_Lambda(self, node: ast.Lambda) -> str:
        """A lambda: a function called after its place among the lambdas around it."""
        ordinal = self.temporary().rpartition("$")[2]
        identity = f"{self.scope.child('<lambda>')}{ordinal}"
        lambda_ = self.temporary()
        self.emit("holds", lambda_, identity)
        self.emit("function", identity, "plain")
        scope = self.parameters(node.args, identity, [node.body])
        with self.block(scope, identity):
            self.narrowed = {}
            self.move(self.value(node.body), f"{identity}$return")
        self.emit("result", identity, f"{identity}$return")
        return lambda_

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

    def run_block(self, body: Sequence[ast.stmt]) -> None:
        """Read a block's statements, narrowing what follows a branch that leaves."""
        before = self.narrowed
        self.narrowed = dict(before)
        for number, statement in enumerate(body):
            self.visit(statement)
            rest = body[number + 1 :]
            if isinstance(statement, ast.Assert):
                self.narrowed |= self.unassigned(self.narrow(statement.test), rest)
            elif isinstance(statement, ast.If) and isinstance(statement.body[-1], _LEAVES):
                self.narrowed |= self.unassigned(self.narrow_not(statement.test), rest)
        self.narrowed = before

    # -- assignments ---------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        """`a = b = value`."""
        variable = self._property(node) or self.value(node.value)
        for target in node.targets:
            self.assign(target, variable)

    def _property(self, node: ast.Assign) -> str | None:
        """`x = property(get, set)` in a class, as the decorator makes it; None for all else."""
        call, target = node.value, node.targets[0]
        if not (self.scope.kind == "class" and isinstance(target, ast.Name)):
            return None
        if not (isinstance(call, ast.Call) and self.dotted(call.func) == "property"):
            return None
        functions = dict(zip(("fget", "fset"), call.args, strict=False))
        functions |= {
            keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None
        }
        if "fset" in functions:
            setter = f"{self.scope.child(target.id)}<fset>"
            self._calling(setter, self.value(functions["fset"]), ["self", "value"])
            self.emit("function", setter, "plain")
            self.emit("setter", self.scope.owner, target.id, setter)
            self.emit("silent", setter)
        if "fget" not in functions:
            return None
        return self.getter(target.id, self.value(functions["fget"]))

    def getter(self, name: str, function: str) -> str:
        """What holds a property of the class around, which calls what a variable holds."""
        identity, holder = f"{self.scope.child(name)}<fget>", self.temporary()
        self._calling(identity, function, ["self"])
        self.emit("function", identity, "property")
        self.emit("method_of", identity, self.scope.owner, name)
        self.emit("holds", holder, identity)
        return holder

    def _calling(self, identity: str, function: str, names: list[str]) -> None:
        """A method without a text, that hands its parameters on to what a variable holds."""
        self.emit("stands_in", identity)
        taken = [f"{identity}.<locals>.{name}" for name in names]
        self.emit("receives", identity, taken[0])
        for position, variable in enumerate(taken[1:]):
            self.emit("takes", identity, "bound", str(position), variable)
        with self.block(self.scope, identity):
            site = self.site()
            self.emit("applies", site, function)
            for position, variable in enumerate(taken):
                self.emit("argument", site, str(position), variable)
            self.move(site, f"{identity}$return")
        self.emit("result", identity, f"{identity}$return")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """`x: T = value`: seeded by T; of the value, what T allows."""
        target = node.target
        last = self.dotted(node.annotation).rpartition(".")[2]
        if last == "TypeAlias" and node.value is not None:
            self.assign(target, self.value(node.value))
            return
        declared = self.temporary()
        if node.value is not None:
            self.guard(declared, self.value(node.value), node.annotation)
        else:
            self.annotate(declared, node.annotation)
        self.assign(target, declared)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """`x += y`: the method in place if there is one, and the operator."""
        if isinstance(node.target, ast.Name):
            left = self.read(node.target.id)
        else:
            left = self.value(node.target)
        right = self.value(node.value)
        name = BINARY[type(node.op)]
        done = self.binary(name, left, right)
        inplace = self.send(left, f"__i{name[2:]}", right)
        self.assign(node.target, self.join([done, inplace]))

    def visit_TypeAlias(self, node: ast.AST) -> None:
        """`type X = …` (Python 3.12)."""
        self.move(self.value(node.value), self.written(node.name.id))  # type: ignore[attr-defined]

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        """The names that an import binds; what they are is decided by the rules."""
        for name, imported in annotate_imports(node, self.module):
            if imported.name is None:
                self.emit("imports_module", self.written(name), imported.path)
            else:
                self.emit("imports_name", self.written(name), imported.path, imported.name)

    visit_ImportFrom = visit_Import

    def visit_Assert(self, node: ast.Assert) -> None:
        """`assert test, message`."""
        self.test(self.value(node.test))
        if node.msg is not None:
            self.value(node.msg)

    # -- control -------------------------------------------------------------------------------

    def visit_If(self, node: ast.If) -> None:
        """Both branches, each with what the test says."""
        self.test(self.value(node.test))
        with self.narrowing(self.unassigned(self.narrow(node.test), node.body)):
            self.run_block(node.body)
        with self.narrowing(self.unassigned(self.narrow_not(node.test), node.orelse)):
            self.run_block(node.orelse)

    def visit_While(self, node: ast.While) -> None:
        """As an if; the names that its body assigns are not narrowed."""
        self.test(self.value(node.test))
        with self.narrowing(self.unassigned(self.narrow(node.test), node.body)):
            self.run_block(node.body)
        self.run_block(node.orelse)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        """`for x in xs`."""
        later = isinstance(node, ast.AsyncFor)
        self.assign(node.target, self.element(self.value(node.iter), later=later))
        self.run_block(node.body)
        self.run_block(node.orelse)

    visit_AsyncFor = visit_For

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        """`with manager as x`."""
        later = isinstance(node, ast.AsyncWith)
        for item in node.items:
            manager = self.value(item.context_expr)
            entered = self.send(manager, "__aenter__" if later else "__enter__")
            self.send(manager, "__aexit__" if later else "__exit__", *_EXIT)
            if later:
                started, entered = entered, self.temporary()
                self.emit("awaits", entered, started)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, entered)
        self.run_block(node.body)

    visit_AsyncWith = visit_With

    def visit_Try(self, node: ast.Try) -> None:
        """A handler's name holds what is raised anywhere and fits its class."""
        self.run_block(node.body)
        for handler in node.handlers:
            if handler.name is not None and handler.type is not None:
                classes = (
                    handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
                )
                for class_node in classes:
                    class_ = self.value(class_node)
                    self.emit("catches", self.written(handler.name), class_)
            self.run_block(handler.body)
        self.run_block(node.orelse)
        self.run_block(node.finalbody)

    visit_TryStar = visit_Try  # type: ignore[assignment]

    def visit_Raise(self, node: ast.Raise) -> None:
        """`raise error from cause`."""
        if node.exc is not None:
            self.emit("raises", self.value(node.exc))
        if node.cause is not None:
            self.value(node.cause)

    def visit_Return(self, node: ast.Return) -> None:
        """What a function returns."""
        given = self.value(node.value) if node.value is not None else instance("NoneType")
        self.move(given, f"{self.function}$return")

    def visit_Match(self, node: ast.Match) -> None:
        """In a case, a subject that is a name is what its pattern matched."""
        subject = self.value(node.subject)
        for case in node.cases:
            matched = self.pattern(case.pattern, subject)
            narrowed: dict[str, str] = {}
            if isinstance(node.subject, ast.Name):
                narrowed = {self.written(node.subject.id): matched}
            with self.narrowing(self.unassigned(narrowed, case.body)):
                if case.guard is not None:
                    self.test(self.value(case.guard))
                self.run_block(case.body)


_EXIT = ("?", "?", "?")
