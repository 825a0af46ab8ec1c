"""Which binding a name means: Python's scopes, as far as one file can tell.

Three stages: `collect` gathers what a block binds, a `Scope` holds it, `Scope.lookup` walks
outwards as Python does (a class body is seen from itself only, `global` jumps to the module).
Invariant: lookup is conservative, a name bound in several ways keeps every meaning.
What a binding *refers to in other files* is not decided here: an import keeps its dotted target.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from deltafix.analyses.dead_code.modules import ModuleName

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DISPLAYS = (
    *(ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Set, ast.Dict),
    *_COMPREHENSIONS,
)
_BUILTIN = frozenset(
    {"list", "tuple", "set", "frozenset", "dict", "str", "bytes", "bytearray", "int", "float"}
)


@dataclass(frozen=True, slots=True)
class Imported:
    """An imported name: `path` is the module it names, or `path` + `name` what it takes from it.

    `import a.b` binds `a`: Imported("a", None, "a.b"). `import a.b as m`: Imported("a.b", None,
    "a.b"). `from a import f`: Imported("a", "f", "a"). `top` is the module the statement names.
    """

    path: str
    name: str | None
    top: str

    @property
    def dotted(self) -> str:
        """The full dotted name, whether or not the last part is a module."""
        return f"{self.path}.{self.name}" if self.name else self.path


@dataclass(slots=True)
class Binding:
    """Everything one name may mean in one scope."""

    defined: bool = False  # by def or class
    assigned: bool = False  # or a parameter, a loop variable, …
    given: bool = False  # a parameter
    imports: list[Imported] = field(default_factory=list)
    values: list[ast.expr] = field(default_factory=list)  # of `name = value`
    writes: int = 0  # all of them, by whatever statement
    read: bool = False  # here or in an inner block; this and what follows: known to `unused` alone
    stores: int = 0  # how often it is written
    plain: int = 0  # ... by a statement that does nothing else: `name = value`
    line: int = 0  # of the first of these
    column: int = 1


@dataclass(slots=True)
class Scope:
    """A block of code. `owner` is the symbol that everything written in it belongs to."""

    kind: str  # "module", "class", "function" (also lambdas and comprehensions)
    owner: str  # a symbol id: `pkg.mod`, `pkg.mod:f`, `pkg.mod:C.m`, `pkg.mod:f.<locals>.g`
    parent: Scope | None = None
    names: dict[str, Binding] = field(default_factory=dict)
    outer: dict[str, str] = field(default_factory=dict)  # name -> "global" | "nonlocal"
    lent: set[str] = field(default_factory=set)  # names that functions inside write: `nonlocal`

    def bind(self, name: str) -> Binding:
        """The binding of `name` here, made if needed."""
        return self.names.setdefault(name, Binding())

    def child(self, name: str) -> str:
        """The id of the symbol `name` defined here (Python's own qualified names)."""
        joint = {"module": ":", "class": ".", "function": ".<locals>."}[self.kind]
        return f"{self.owner}{joint}{name}"

    def home(self, name: str) -> Scope:
        """Where a definition of `name` in this block goes: here, or the module if `global`."""
        return self.module() if self.outer.get(name) == "global" else self

    def module(self) -> Scope:
        """The module's own scope."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def is_builtin(self, node: ast.expr) -> bool:
        """Whether an expression gives an object of a builtin class itself, as far as is written.

        That is a constant, a display, a call of such a class, and a variable of a function that
        holds nothing else.
        """
        if isinstance(node, ast.Call):
            called = node.func
            return isinstance(called, ast.Name) and (
                called.id in _BUILTIN and self.lookup(called.id) is None
            )
        if not isinstance(node, ast.Name):
            return isinstance(node, _DISPLAYS)
        bound = self.lookup(node.id)
        if bound is None:
            return False
        scope, binding = bound
        other = binding.given or binding.defined or binding.imports or node.id in scope.lent
        return (
            scope.kind == "function"
            and not other
            and 0 < len(binding.values) == binding.writes
            and not any(isinstance(value, ast.Name) for value in binding.values)
            and all(map(scope.is_builtin, binding.values))
        )

    def lookup(self, name: str) -> tuple[Scope, Binding] | None:
        """The scope that binds `name` and the binding; None for a builtin or a star import.

        O(depth). A comprehension inside a class body sees the class (its first iterable does).
        """
        scope: Scope | None = self
        start = True
        while scope is not None:
            if scope.outer.get(name) == "global":
                scope, start = scope.module(), False
            visible = scope.kind != "class" or start
            if visible and name in scope.names and name not in scope.outer:
                return scope, scope.names[name]
            # A comprehension is transparent: what encloses it counts as "the scope itself".
            start = start and scope.kind == "function" and scope.owner == _owner(scope.parent)
            scope = scope.parent
        return None


def _owner(scope: Scope | None) -> str | None:
    return scope.owner if scope is not None else None


def annotate_imports(
    node: ast.Import | ast.ImportFrom, module: ModuleName
) -> Iterator[tuple[str, Imported]]:
    """(bound name, what it is) for each alias but the star."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname:
                yield alias.asname, Imported(alias.name, None, alias.name)
            else:
                top = alias.name.partition(".")[0]
                yield top, Imported(top, None, alias.name)
    else:
        path = module.resolve(node.level, node.module)
        for alias in node.names:
            if alias.name != "*":
                yield alias.asname or alias.name, Imported(path, alias.name, path)


def collect(
    scope: Scope, body: Iterable[ast.AST], module: ModuleName, *, walrus: bool = True
) -> None:
    """Put every name that `body` binds into `scope`, blocks included, inner scopes excluded.

    Definitions and assignments in a module or class become symbols when the extractor meets them;
    here they are only known to be bound. `walrus=False` promises that no `:=` occurs: expressions
    are then not looked into, which halves the time of a whole extraction.
    """
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        stored = isinstance(getattr(node, "ctx", None), ast.Store)
        if isinstance(node, ast.expr) and not (walrus or stored):
            continue
        if isinstance(node, _DEFINITIONS):
            scope.home(node.name).bind(node.name).defined = True
            if scope.kind == "function":
                for inner in ast.walk(node):
                    scope.lent.update(inner.names if isinstance(inner, ast.Nonlocal) else ())
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, _COMPREHENSIONS):
            stack.extend(n for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name, imported in annotate_imports(node, module):
                scope.bind(name).imports.append(imported)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            word = "global" if isinstance(node, ast.Global) else "nonlocal"
            scope.outer.update(dict.fromkeys(node.names, word))
        elif (bound := _bound_name(node)) is not None:
            scope.bind(bound).assigned = True
            scope.bind(bound).writes += 1
            if isinstance(node, ast.arg):
                scope.bind(bound).given = True
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            scope.bind(node.targets[0].id).values.append(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            scope.bind(node.target.id).values.append(node.value)
        stack.extend(ast.iter_child_nodes(node))


def _bound_name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Store) else None
    if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        return node.name
    if isinstance(node, ast.MatchMapping):
        return node.rest
    if isinstance(node, ast.arg):
        return node.arg
    return None
