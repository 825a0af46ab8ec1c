"""What mypy infers of a package: types of places and callees of functions, under deltafix's ids.

A place is a row of `types` without its class: (view, owner, name). Invariant: mypy is asked and
nothing is inferred here. Where it says `Any` or `object` it says nothing, and the place is empty.
Not here: what deltafix says, and how the two compare.
"""

# ruff: noqa: N815  a visitor's method names are ast's
from __future__ import annotations

import ast
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from inspect import isgetsetdescriptor
from pathlib import Path

from mypy.build import build
from mypy.erasetype import erase_type
from mypy.modulefinder import BuildSource
from mypy.nodes import (
    LDEF,
    CallExpr,
    Decorator,
    Expression,
    FuncDef,
    MemberExpr,
    MypyFile,
    NameExpr,
    Node,
    OverloadedFuncDef,
    RefExpr,
    SuperExpr,
    SymbolNode,
    SymbolTable,
    TypeInfo,
    Var,
)
from mypy.options import Options
from mypy.subtypes import is_subtype
from mypy.types import (
    AnyType,
    CallableType,
    Instance,
    LiteralType,
    NoneType,
    Overloaded,
    ProperType,
    TupleType,
    Type,
    TypedDictType,
    TypeOfAny,
    TypeType,
    TypeVarType,
    UnionType,
    get_proper_type,
)

__all__ = ["Checked", "Place", "check"]

Place = tuple[str, str, str]

_MODULES = ("builtins", "typing", "types", "collections", "contextlib")
"""Where a class stands that deltafix calls by its bare name."""
_OTHERS = {
    "function": "types.FunctionType",
    "method": "types.MethodType",
    "module": "types.ModuleType",
    "generator": "types.GeneratorType",
    "async_generator": "types.AsyncGeneratorType",
    "coroutine": "types.CoroutineType",
    "builtin_function_or_method": "types.BuiltinFunctionType",
    "dict_keys": "_collections_abc.dict_keys",
    "dict_values": "_collections_abc.dict_values",
    "dict_items": "_collections_abc.dict_items",
    "Set": "typing.AbstractSet",
}
_WRAPPERS = frozenset({"functools", "contextlib"})
"""Where classes stand whose instances call a function that they were given."""
_CALLED = frozenset({"function", "method", "builtin_function_or_method", "type", "Callable"})


@dataclass
class Checked:
    """mypy's answer."""

    types: dict[Place, list[ProperType]] = field(default_factory=dict)
    """The alternatives of each place; empty where mypy does not say a class."""
    calls: set[tuple[str, str]] = field(default_factory=set)
    """(caller, callee): the method of the receiver's type itself, unless that is abstract."""
    maybe: set[tuple[str, str]] = field(default_factory=set)
    """Those, and what heirs have in a method's place."""
    open: set[str] = field(default_factory=set)
    """Callers with a call of which mypy does not know the callee."""
    functions: set[str] = field(default_factory=set)
    trees: dict[str, MypyFile] = field(default_factory=dict)

    def instance(self, name: str) -> ProperType | None:
        """An instance of a class, as `types` calls it; None if mypy has no such class."""
        if name == "NoneType":
            return NoneType()
        module, colon, path = name.partition(":")
        if not colon:
            module, _, path = _OTHERS.get(name, name).rpartition(".")
        for home in [module] if module else _MODULES:
            found = self._class(home, path)
            if found is not None:
                any_ = AnyType(TypeOfAny.special_form)
                return Instance(found, [any_] * len(found.defn.type_vars))
        return None

    def _class(self, module: str, path: str) -> TypeInfo | None:
        names = self.trees[module].names if module in self.trees else {}
        node = None
        for part in path.split("."):
            symbol = names.get(part)
            node = None if symbol is None else symbol.node
            names = node.names if isinstance(node, TypeInfo) else {}
        return node if isinstance(node, TypeInfo) else None

    def within(self, name: str, said: ProperType) -> bool | None:
        """Whether instances of a class of deltafix's are of a type; None if it is not known."""
        if isinstance(said, CallableType | Overloaded) and name in _CALLED:
            return True
        if isinstance(said, TypeType) and name == "type":
            return True
        if name == "Callable":
            return False
        if isinstance(said, Instance) and said.type.typeddict_type and name == "dict":
            return True
        one = self.instance(name)
        return None if one is None else is_subtype(one, said)

    def covers(self, name: str, said: ProperType) -> bool:
        """Whether a class of deltafix's takes in a type, or is part of it."""
        one = self.instance(name)
        return bool(self.within(name, said)) or (one is not None and is_subtype(said, one))


def check(package: Path) -> Checked:
    """Ask mypy about a package's files. They are copied: mypy refuses what is in site-packages."""
    with tempfile.TemporaryDirectory(prefix="deltafix-bench-") as name:
        home = Path(name)
        shutil.copytree(package, home / package.name)
        options = Options()
        options.python_version = sys.version_info[:2]
        options.python_executable = sys.executable
        options.mypy_path = [name]
        options.cache_dir = str(home / ".cache")
        options.incremental = False
        options.export_types = options.preserve_asts = True
        options.check_untyped_defs = options.ignore_errors = True
        sources = [
            BuildSource(str(path), ".".join(_module(path.relative_to(home))))
            for path in sorted((home / package.name).rglob("*.py"))
        ]
        result = build(sources, options)
        found = Checked(trees=result.files)
        modules = [
            _Module(found, one.module, Path(one.path or ""))
            for one in sources
            if one.module in result.files
        ]
    for one in modules:
        one.definitions(result.files[one.module].names, one.module, one.module)
    for one in modules:
        one.expressions(result.files[one.module], result.types, modules)
    return found


def _module(path: Path) -> tuple[str, ...]:
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def _alternatives(said: Type | None) -> list[ProperType]:
    """The alternatives of a type, arguments left out; [] if one of them says nothing."""
    found: list[ProperType] = []
    waiting = [said]
    while waiting:
        one = waiting.pop()
        kind = None if one is None else get_proper_type(one)
        if isinstance(kind, UnionType):
            waiting += kind.items
        elif isinstance(kind, LiteralType):
            found.append(kind.fallback)
        elif isinstance(kind, TypeVarType):
            waiting += kind.values or [kind.upper_bound]
        elif isinstance(kind, TupleType):
            found.append(erase_type(kind.partial_fallback))
        elif isinstance(kind, CallableType) and kind.is_type_obj():
            found.append(TypeType.make_normalized(AnyType(TypeOfAny.special_form)))
        elif isinstance(kind, Instance) and kind.type.fullname == "builtins.object":
            return []
        elif isinstance(kind, Instance | NoneType | CallableType | Overloaded | TypeType):
            found.append(kind if isinstance(kind, Overloaded) else erase_type(kind))
        elif isinstance(kind, TypedDictType):
            found.append(kind.fallback)
        else:
            return []
    return found


class _Positions(ast.NodeVisitor):
    """By where an expression stands: the function, or the module, that it is evaluated in.

    Lambdas are left out, and names that a comprehension binds: they are no places of ours.
    """

    def __init__(self, module: str) -> None:
        self.owner = self.function = module
        self.functions: dict[int, str] = {}  # by the line of `def`
        self.names: dict[int, str] = {}
        self.expressions: dict[tuple[int, ...], str] = {}
        self._bound: list[set[str]] = []

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Call | ast.Attribute | ast.Name):
            bound = isinstance(node, ast.Name) and any(node.id in one for one in self._bound)
            stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            if not bound and not stored:
                self.expressions[_position(node)] = self.function
        super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for one in [*node.decorator_list, node.args]:
            self.visit(one)
        before = self.owner, self.function
        self.owner = self.function = self.functions[node.lineno] = self._child(node.name)
        self.names[node.lineno] = node.name
        for one in node.body:
            self.visit(one)
        self.owner, self.function = before

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        before, self.owner = self.owner, self._child(node.name)
        self.generic_visit(node)
        self.owner = before

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Nothing."""

    def _comprehension(self, node: ast.AST) -> None:
        targets = [one.target for one in ast.walk(node) if isinstance(one, ast.comprehension)]
        names = {n.id for one in targets for n in ast.walk(one) if isinstance(n, ast.Name)}
        self._bound.append(names)
        self.generic_visit(node)
        self._bound.pop()

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _child(self, name: str) -> str:
        if ":" not in self.owner:
            return f"{self.owner}:{name}"
        inside = ".<locals>" if self.owner == self.function else ""
        return f"{self.owner}{inside}.{name}"


def _position(node: ast.expr) -> tuple[int, ...]:
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


class _Module:
    """Reads one module's tree and the types of its expressions."""

    def __init__(self, found: Checked, module: str, source: Path) -> None:
        self.found, self.module = found, module
        self.positions = _Positions(module)
        self.positions.visit(ast.parse(source.read_bytes()))
        self.classes: list[tuple[TypeInfo, str]] = []
        self.ids: dict[SymbolNode, str] = {}

    def place(self, view: str, owner: str, name: str, said: Type | None) -> None:
        """Several variables may share a name: together they say what all of them say."""
        told = _alternatives(said)
        before = self.found.types.setdefault((view, owner, name), told)
        if before is not told:
            both = before and told and [*before, *(one for one in told if one not in before)]
            self.found.types[view, owner, name] = both

    def definitions(self, names: SymbolTable, owner: str, full: str) -> None:
        """The functions and classes that stand at the top, or in a class; and their attributes."""
        for name, symbol in names.items():
            node = symbol.node
            if node is None or node.fullname != f"{full}.{name}" or symbol.plugin_generated:
                continue
            inner = f"{owner}.{name}" if ":" in owner else f"{owner}:{name}"
            if isinstance(node, Var):
                self.place("attribute" if ":" in owner else "variable", owner, name, node.type)
            elif isinstance(node, TypeInfo):
                self.classes.append((node, inner))
                self.definitions(node.names, inner, node.fullname)
            else:
                self.function(node)

    def function(self, node: SymbolNode) -> str | None:
        """Note a function's parameters and result; returns its id."""
        if node in self.ids:
            return self.ids[node]
        written = node
        if isinstance(node, OverloadedFuncDef):
            written = node.items[0] if node.is_property else node.impl or node.items[0]
        function = written.func if isinstance(written, Decorator) else written
        if not isinstance(function, FuncDef):
            return None
        identity = self.positions.functions.get(function.line)
        if identity is None:
            return None
        items = node.items if isinstance(node, OverloadedFuncDef) else []
        inside = [one.func for one in items if isinstance(one, Decorator)]
        self.ids |= dict.fromkeys((node, written, function, *items, *inside), identity)
        self.found.functions.add(identity)
        kind = function.type
        if isinstance(kind, CallableType):
            bound = int(bool(function.info) and not function.is_static)
            for one, said in [*zip(function.arguments, kind.arg_types, strict=True)][bound:]:
                if not one.kind.is_star():
                    self.place("parameter", identity, one.variable.name, said)
            outer = get_proper_type(written.var.type) if isinstance(written, Decorator) else kind
            same = isinstance(outer, CallableType) and outer.ret_type == kind.ret_type
            if same or function.is_property:  # else what is called is not what is written
                self.place("returns", identity, "return", kind.ret_type)
        return identity

    def expressions(
        self, tree: MypyFile, types: dict[Expression, Type], every: Sequence[_Module]
    ) -> None:
        """Variables of functions, callees of calls, getters of properties that are read."""
        for node in _inside(tree):
            if isinstance(node, Decorator):
                for one in node.original_decorators:
                    self._call(self._owner(one), one, types.get(one), every)
            owner = self._owner(node)
            if owner is None:
                continue
            if isinstance(node, NameExpr) and node.kind == LDEF:
                if isinstance(node.node, Var):
                    self.place("variable", owner, node.name, node.node.type)
                elif node.node is not None:
                    self.function(node.node)
            elif isinstance(node, CallExpr):
                self._call(owner, node.callee, types.get(node.callee), every)
            elif isinstance(node, MemberExpr):
                for one in _items(types.get(node.expr)):
                    symbol = one.type.get(node.name) if isinstance(one, Instance) else None
                    getter = None if symbol is None else symbol.node
                    first = getter.items[0] if isinstance(getter, OverloadedFuncDef) else getter
                    if isinstance(first, Decorator) and first.func.is_property:
                        self._called(owner, first, every, heirs=True)

    def _owner(self, node: Node) -> str | None:
        at = (node.line, node.column, node.end_line or 0, node.end_column or 0)
        return self.positions.expressions.get(at)

    def _call(
        self, owner: str | None, callee: Expression, said: Type | None, every: Sequence[_Module]
    ) -> None:
        if owner is None:
            return
        exact = isinstance(callee, SuperExpr) or (
            isinstance(callee, RefExpr) and isinstance(callee.node, TypeInfo)
        )
        for one in _items(said):
            definition = _definition(one)
            if definition is None:
                self.found.open |= {owner} & self.found.functions
            else:
                self._called(owner, definition, every, heirs=not exact)

    def _called(
        self, owner: str, node: SymbolNode, every: Sequence[_Module], *, heirs: bool
    ) -> None:
        callee = next((one.ids[node] for one in every if node in one.ids), None)
        if callee is None and self.positions.names.get(node.line) == node.name:
            callee = self.function(node)  # a function inside of one of this module
        function = node.func if isinstance(node, Decorator) else node
        info = getattr(function, "info", None)
        abstract = isinstance(function, FuncDef) and bool(
            function.abstract_status or (info and info.is_protocol)
        )
        if info and info.is_protocol:  # who implements it, mypy does not say
            self.found.open |= {owner} & self.found.functions
        if callee is not None:
            self.found.maybe.add((owner, callee))
            if not abstract:
                self.found.calls.add((owner, callee))
        if heirs and info:
            for heir, identity in (pair for one in every for pair in one.classes):
                if info in heir.mro[1:] and node.name in heir.names:
                    self.found.maybe.add((owner, f"{identity}.{node.name}"))


def _inside(tree: Node) -> Iterator[Node]:
    """All nodes of a tree. mypy's own visitors are compiled and take no heirs from here."""
    seen: set[Node] = set()
    waiting: list[object] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list | tuple):
            waiting += node
        elif isinstance(node, Node) and not isinstance(node, Var | TypeInfo) and node not in seen:
            seen.add(node)
            yield node
            waiting += [getattr(node, name, None) for name in _parts(type(node))]


@cache
def _parts(kind: type[Node]) -> list[str]:
    """The attributes of a kind of nodes, but what a name means, and what is there only at times."""
    own = [name for name in dir(kind) if isgetsetdescriptor(getattr(kind, name))]
    return [name for name in own if name not in {"node", "setter"}]


def _items(said: Type | None) -> list[ProperType]:
    kind = AnyType(TypeOfAny.special_form) if said is None else get_proper_type(said)
    if isinstance(kind, TypeVarType):
        kind = get_proper_type(kind.upper_bound)
    alternatives = kind.items if isinstance(kind, UnionType) else [kind]
    return [get_proper_type(one) for one in alternatives]


def _definition(said: ProperType) -> SymbolNode | None:
    """What a callee's type was defined by."""
    if isinstance(said, Overloaded):
        said = said.items[0]
    if isinstance(said, CallableType):
        if said.is_type_obj():
            return _constructor(said.type_object())
        return said.definition
    if isinstance(said, TypeType) and isinstance(item := get_proper_type(said.item), Instance):
        return _constructor(item.type)
    if isinstance(said, Instance):
        symbol = said.type.get("__call__")
        node = None if symbol is None else symbol.node
        wraps = isinstance(node, FuncDef) and node.info.module_name in _WRAPPERS
        return None if wraps else node
    return None


def _constructor(info: TypeInfo) -> SymbolNode:
    symbol = info.get("__init__")
    return info if symbol is None or symbol.node is None else symbol.node
