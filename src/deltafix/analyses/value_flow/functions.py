"""Functions and classes: parameters, results, decorators, members, fields of data classes.

A function is an object called as its symbol. Invariant: an annotated parameter or result holds what
its annotation says and, of what flows in (`guards`), what that allows; without annotation it holds
what flows in.
"""

# ruff: noqa: N802, N815  a visitor's method names are ast's
from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from deltafix.analyses.dead_code.definitions import Definitions
from deltafix.analyses.dead_code.extract import extract_only
from deltafix.analyses.dead_code.scopes import Scope, collect
from deltafix.analyses.facts import Fact, Fragment
from deltafix.analyses.value_flow.blocks import instance
from deltafix.analyses.value_flow.inputs import FLOW, NAMES
from deltafix.analyses.value_flow.statements import Statements

_SAME = frozenset(
    {"wraps", "lru_cache", "cache", "abstractmethod", "override", "final", "runtime_checkable",
     "total_ordering", "unique", "no_type_check", "dataclass_transform", "deprecated",
     "contextmanager", "asynccontextmanager", "dataclass", "njit", "jit"}
)  # fmt: skip
"""Decorators that hand on what they decorate, by their last name."""
_KINDS = {"staticmethod": "static", "classmethod": "class", "property": "property",
          "cached_property": "property", "abstractproperty": "property"}  # fmt: skip


class Functions(Statements):
    """Adds definitions; `run` reads a whole module."""

    def run(self, tree: ast.Module) -> list[Fact]:
        """The facts of a module; call once."""
        collect(self.scope, tree.body, self.module)
        self.emit("holds", self.module.canonical, self.module.canonical)
        self.run_block(tree.body)
        return self.facts

    # -- functions -----------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """A function, and the variable that holds what its decorators make of it."""
        names = [self.dotted(_called(d)) for d in node.decorator_list]
        if any(name.rpartition(".")[2] == "overload" for name in names):
            return
        kind = next((_KINDS[k] for n in names if (k := n.rpartition(".")[2]) in _KINDS), "plain")
        if node.name in {"__new__", "__init_subclass__", "__class_getitem__"}:
            kind = "class"
        scope = self.scope.home(node.name)
        identity = scope.child(node.name)
        setter = any(name.endswith((".setter", ".deleter")) for name in names)
        if setter:
            identity, kind = f"{identity}<setter>", "plain"
            self.emit("setter", scope.owner, node.name, identity)
        self.emit("function", identity, kind)
        if setter or node.name in {"__init__", "__post_init__"}:
            self.emit("silent", identity)
        if _hands_back(node, int(scope.kind == "class" and kind != "static")):
            self.emit("hands_back", identity)
        self._body(node, identity, kind, names)
        if not setter:
            getter = node.name if kind == "property" and scope.kind == "class" else ""
            self._decorate(node.decorator_list, identity, scope.child(node.name), getter)

    visit_AsyncFunctionDef = visit_FunctionDef

    def _body(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        identity: str,
        kind: str,
        decorators: Sequence[str],
    ) -> None:
        within = self.scope
        outside = self.methods
        arguments = node.args
        first = [*arguments.posonlyargs, *arguments.args][:1]
        if within.kind == "class" and first and kind != "static":
            self.methods = (within.owner, f"{identity}.<locals>.{first[0].arg}")
            self.emit("receives", identity, self.methods[1])
            self.emit("method_of", identity, within.owner, node.name)
        scope = self.parameters(arguments, identity, [*node.body], node)
        with self.block(scope, identity):
            self.narrowed = {}
            self.run_block(node.body)
        body = f"{identity}$return"
        yields = any(isinstance(n, ast.Yield | ast.YieldFrom) for n in _own_nodes(node.body))
        abstract = self.protocol or any(n.endswith("abstractmethod") for n in decorators)
        if not yields and _may_end(node.body) and not _is_stub(node.body, abstract=abstract):
            self.move(instance("NoneType"), body)
        later = isinstance(node, ast.AsyncFunctionDef)
        context = any(n.endswith("contextmanager") for n in decorators)
        self._result(node, identity, body, yields=yields, later=later, context=context)
        self.methods = outside

    def _result(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        identity: str,
        body: str,
        *,
        yields: bool,
        later: bool,
        context: bool,
    ) -> None:
        """What a call gives: the returned, or a generator, coroutine or manager around it."""
        wrapper = ("async_generator" if later else "generator") if yields else "coroutine"
        inside, promise = (f"{identity}$yields" if yields else body), node.returns
        if yields and promise is not None:
            promise = self.yielded(promise)
        wrapped = (yields or later) and (promise is not None or node.returns is None)
        if wrapped and promise is not None:
            inside = self.guard(f"{identity}$declared", inside, promise)
        result = body
        if yields or later:
            wrapped_object, result = f"{identity}${wrapper}", f"{identity}$made"
            self.emit("holds", result, wrapped_object)
            self.emit("site", wrapped_object, "_GeneratorContextManager" if context else wrapper)
            self.emit("fills", wrapped_object, "[]" if yields else "await", inside)
        if node.returns is not None and not wrapped:
            declared = self.guard(f"{identity}$declared", result, node.returns)
            self._says(identity, "return", f"{declared}$said", result, node.returns)
            result = declared
        self.emit("result", identity, result)

    def _says(
        self, identity: str, where: str, declared: str, inferred: str, annotation: ast.expr
    ) -> None:
        """An annotation that names classes and nothing else can be compared with what flows."""
        if all(isinstance(n, ast.Name | ast.Attribute) for n in _alternatives(annotation)):
            self.emit("comparable", identity, where, declared, inferred)

    # -- parameters ----------------------------------------------------------------------------

    def _around(self, node: ast.AST | None) -> Scope:
        """The block around a definition: it has the `[T]` of Python 3.12."""
        outer = Scope("function", self.scope.owner, self.scope)
        for parameter in getattr(node, "type_params", []):
            outer.bind(parameter.name).assigned = True
            self.move("?", outer.child(parameter.name))
        return outer

    def parameters(
        self,
        arguments: ast.arguments,
        identity: str,
        body: list[ast.AST],
        node: ast.FunctionDef | ast.AsyncFunctionDef | None = None,
    ) -> Scope:
        """State a function's parameters and defaults; returns the scope of its body."""
        every = [*arguments.posonlyargs, *arguments.args]
        outer = self._around(node)
        scope = Scope("function", identity, outer)
        stars = [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
        collect(scope, [*every, *arguments.kwonlyargs, *stars, *body], self.module)
        with self.block(outer):
            missing = len(every) - len(arguments.defaults)
            defaults = dict(zip(every[missing:], arguments.defaults, strict=True))
            defaults |= {
                argument: default
                for argument, default in zip(
                    arguments.kwonlyargs, arguments.kw_defaults, strict=True
                )
                if default is not None
            }
            for position, argument in enumerate(every):
                taken = self._parameter(identity, argument, defaults.get(argument))
                self.emit("takes", identity, "plain", str(position), taken)
                if position:
                    self.emit("takes", identity, "bound", str(position - 1), taken)
                if argument not in arguments.posonlyargs:
                    self.emit("takes_named", identity, argument.arg, taken)
            for argument in arguments.kwonlyargs:
                taken = self._parameter(identity, argument, defaults.get(argument))
                self.emit("takes_named", identity, argument.arg, taken)
            if arguments.vararg is not None:
                self._star(identity, arguments.vararg, "tuple", "takes_rest")
            if arguments.kwarg is not None:
                self._star(identity, arguments.kwarg, "dict", "takes_extra")
        return scope

    def _parameter(self, identity: str, argument: ast.arg, default: ast.expr | None) -> str:
        """A parameter's variable for what is passed, which its own variable holds or guards."""
        variable = taken = f"{identity}.<locals>.{argument.arg}"
        annotated = f"{variable}$said"
        self.emit("parameter_of", identity, argument.arg, variable)
        if argument.annotation is not None:
            taken = f"{variable}$given"
            self.guard(variable, taken, argument.annotation)
            self._says(identity, argument.arg, annotated, taken, argument.annotation)
        if default is not None:
            given = self.value(default)
            self.move(given, taken)
            if argument.annotation is not None and given == instance("NoneType"):
                self.move(given, annotated)  # `x: int = None` means that it may be None
        return taken

    def _star(self, identity: str, argument: ast.arg, kind: str, relation: str) -> None:
        variable = f"{identity}.<locals>.{argument.arg}"
        container = f"{variable}$star"
        self.emit("parameter_of", identity, argument.arg, variable)
        self.emit("holds", variable, container)
        self.emit("site", container, kind)
        self.emit(relation, identity, container)
        if argument.annotation is not None:
            self.emit("fills", container, "[]", f"{container}[]")
            self.annotate(f"{container}[]", argument.annotation)
        if kind == "dict":
            self.emit("fills", container, "[k]", instance("str"))

    # -- decorators ----------------------------------------------------------------------------

    def _decorate(
        self, decorators: Sequence[ast.expr], identity: str, variable: str, getter: str = ""
    ) -> None:
        """Hand what is defined through its decorators, the last one first.

        A property of the name `getter` is one of what the other decorators make.
        """
        current: str | None = None
        for node in reversed(decorators):
            name = self.dotted(_called(node)).rpartition(".")[2]
            decorator = self.value(node)
            if name in _SAME or name in _KINDS:
                continue
            if current is None:
                current = self.temporary()
                self.emit("holds", current, identity)
            site = self.site()
            self.emit("applies", site, decorator)
            self.emit("argument", site, "0", current)
            self.emit("decorates", site, decorator, current)
            current = site
        if current is None:
            self.emit("holds", variable, identity)
        else:
            self.move(self.getter(getter, current) if getter else current, variable)

    # -- classes -------------------------------------------------------------------------------

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """A class: its members are variables, its instances one object besides the sites."""
        names = [self.dotted(_called(d)) for d in node.decorator_list]
        identity = self.scope.home(node.name).child(node.name)
        self.emit("some", identity, instance(identity))
        for base in node.bases:
            self.value(base)
        for keyword in node.keywords:
            self.value(keyword.value)
        methods, protocol = self.methods, self.protocol
        written = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
        self.protocol = any(self.dotted(b).rpartition(".")[2] == "Protocol" for b in written)
        scope = Scope("class", identity, self._around(node))
        collect(scope, node.body, self.module)
        with self.block(scope, identity):
            self.narrowed = {}
            self.run_block(node.body)
        self.methods, self.protocol = methods, protocol
        decorator = next(
            (d for d in node.decorator_list if _is_data(self.dotted(_called(d)))), None
        )
        tuple_ = any(self.dotted(b).endswith("NamedTuple") for b in node.bases)
        if decorator is not None or tuple_:
            self._fields(node, identity, decorator)
        self._decorate(
            [d for d, n in zip(node.decorator_list, names, strict=True) if not _is_data(n)],
            identity,
            self.scope.home(node.name).child(node.name),
        )

    def _fields(self, node: ast.ClassDef, identity: str, decorator: ast.expr | None) -> None:
        """The fields of a data class, in the order its constructor takes them."""
        self.emit("data_class", identity)
        named = isinstance(decorator, ast.Call) and any(
            k.arg == "kw_only" for k in decorator.keywords
        )
        position = 0
        for statement in node.body:
            if not isinstance(statement, ast.AnnAssign) or not isinstance(
                statement.target, ast.Name
            ):
                continue
            text = ast.unparse(statement.annotation)
            if "ClassVar" in text:
                continue
            self.emit("data_field", identity, statement.target.id)
            if "KW_ONLY" in text:
                named = True
            elif not named:
                self.emit("data_position", identity, str(position), statement.target.id)
                position += 1


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _is_data(name: str) -> bool:
    return name in {"dataclasses.dataclass", "dataclass"}


def _alternatives(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [*_alternatives(node.left), *_alternatives(node.right)]
    return [node]


def _own_nodes(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a function without those of the functions and classes inside it."""
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            stack.extend(ast.iter_child_nodes(node))


def _hands_back(node: ast.FunctionDef | ast.AsyncFunctionDef, position: int) -> bool:
    """Whether all that a function returns is the argument there: a decorator that registers."""
    every = [*node.args.posonlyargs, *node.args.args]
    if len(every) <= position or _may_end(node.body) or isinstance(node, ast.AsyncFunctionDef):
        return False
    name = every[position].arg
    returned = False
    for inner in _own_nodes(node.body):
        stored = (
            isinstance(inner, ast.Name) and inner.id == name and isinstance(inner.ctx, ast.Store)
        )
        if stored or isinstance(inner, ast.Yield | ast.YieldFrom):
            return False
        if isinstance(inner, ast.Return):
            returned = True
            if not isinstance(inner.value, ast.Name) or inner.value.id != name:
                return False
    return returned


def _is_stub(body: Sequence[ast.stmt], *, abstract: bool) -> bool:
    """Whether a body is only a docstring or `...`, or `pass` where it is known to be abstract."""
    return all(
        (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        or (abstract and isinstance(statement, ast.Pass))
        for statement in body
    )


def _may_end(body: Sequence[ast.stmt]) -> bool:
    """Whether control may run off the end of a block, as far as its last statement tells."""
    last = body[-1]
    if isinstance(last, ast.Return | ast.Raise):
        return False
    if isinstance(last, ast.If):
        return not last.orelse or _may_end(last.body) or _may_end(last.orelse)
    if isinstance(last, ast.While):
        return not (isinstance(last.test, ast.Constant) and last.test.value is True)
    if isinstance(last, ast.With | ast.AsyncWith):
        return _may_end(last.body)
    if isinstance(last, ast.Try):
        ends = _may_end(last.orelse or last.body) or any(_may_end(h.body) for h in last.handlers)
        return ends and (not last.finalbody or _may_end(last.finalbody))
    if isinstance(last, ast.Match):
        total = any(_takes_all(case.pattern) and case.guard is None for case in last.cases)
        return not total or any(_may_end(case.body) for case in last.cases)
    return True


def _takes_all(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None


_STATED = frozenset({*NAMES, *FLOW})


def extract_flow(path: str, data: bytes, prefix: str = "") -> Fragment:
    """As `dead_code.extract.extract`: the facts of one file; never raises for bad content."""
    return extract_only(path, data, prefix, _Reader, _STATED)


class _Reader(Definitions):
    """Adds the flow of values to what names mean."""

    def run(self, tree: ast.Module) -> Fragment:
        """Read a whole module; call once."""
        names = super().run(tree)
        flow = Functions(self.module).run(tree)
        return Fragment.of(self.path, [*names.facts, *flow], names.places)
