"""Where the reader of values stands: its scope, its function, fresh variables, facts so far.

A variable is named after Python's qualified name of what it belongs to, `shop:total.<locals>.x`; a
global or a class's name is called as its symbol, `shop:rate`. A temporary is its function and an
ordinal, `shop:total$2`, and an attribute that is read is `shop:total.<locals>.x->name`: the
analyses ignore flow, so reading it twice reads one variable. Invariant: no name holds a line.
Which binding a name means is decided by `dead_code.scopes`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from deltafix.analyses.dead_code.modules import ModuleName
from deltafix.analyses.dead_code.references import name_chain
from deltafix.analyses.dead_code.scopes import Scope, collect
from deltafix.analyses.facts import Fact

UNKNOWN = "?"
"""The variable that holds the unknown object, which is called the same."""


def instance(type_: str) -> str:
    """The object that stands for the instances of a class which no site tells apart.

    For a builtin class there is a variable of that name too, which holds it.
    """
    return f"{type_}()"


CONSTANTS = frozenset(map(instance, ("int", "str", "float", "bool", "NoneType", "bytes")))
"""Variables that hold a constant of their type, and no more."""


class Blocks(ast.NodeVisitor):
    """The state of the walk. `function` is the symbol that what is written here runs in."""

    def __init__(self, module: ModuleName) -> None:
        self.module = module
        self.facts: list[Fact] = []
        self.scope = Scope("module", module.canonical)
        self.function = module.canonical
        self.methods: tuple[str, str] | None = None  # (class, variable of self) around here
        self.protocol = False  # whether the class around here is one
        self.narrowed: dict[str, str] = {}
        self._ordinals: dict[str, int] = {}
        self._loaded: set[tuple[str, str]] = set()

    def emit(self, relation: str, *row: str) -> None:
        """State one fact."""
        self.facts.append((relation, row))

    def value(self, node: ast.AST) -> str:
        """The variable that holds what an expression gives."""
        variable = self.visit(node)
        return variable if isinstance(variable, str) else UNKNOWN

    def temporary(self) -> str:
        """A fresh variable of the current function; also the name of what is made there."""
        ordinal = self._ordinals[self.function] = self._ordinals.get(self.function, 0) + 1
        return f"{self.function}${ordinal}"

    def site(self) -> str:
        """A fresh variable for the result of a call written here."""
        site = self.temporary()
        self.emit("within", site, self.function)
        return site

    def move(self, source: str, target: str) -> None:
        """`target = source`."""
        if source != target:
            self.emit("moves", source, target)

    def join(self, sources: Iterable[str]) -> str:
        """A variable that holds what any of the sources holds."""
        distinct = sorted(set(sources))
        if len(distinct) == 1:
            return distinct[0]
        joined = self.temporary()
        for source in distinct:
            self.move(source, joined)
        return joined

    # -- names ---------------------------------------------------------------------------------

    def read(self, name: str) -> str:
        """The variable that a name means where the walk stands."""
        bound = self.scope.lookup(name)
        if bound is None:  # a builtin, or something a star import brings
            variable = self.scope.module().child(name)
            self.emit("free", variable, self.module.canonical, name)
            return variable
        variable = bound[0].child(name)
        return self.narrowed.get(variable, variable)

    def written(self, name: str) -> str:
        """The variable that assigning to a name writes."""
        if self.scope.outer.get(name) == "global":
            return self.scope.module().child(name)
        bound = self.scope.lookup(name)
        scope = bound[0] if bound else self.scope
        if scope.kind != "class" and scope.owner in {self.function, self.module.canonical}:
            self.emit("local_of", scope.owner, name, scope.child(name))
        return scope.child(name)

    def dotted(self, node: ast.expr) -> str:
        """A chain of names with imports resolved, `functools.wraps`; "" for anything else."""
        chain = name_chain(node)
        bound = self.scope.lookup(chain[0]) if chain else None
        imports = bound[1].imports if bound else []
        return ".".join([imports[0].dotted, *chain[1:]] if imports else chain)

    def load(self, base: str, name: str) -> str:
        """The variable that holds `base.name`."""
        variable = f"{base}->{name}"
        if base == UNKNOWN:
            return UNKNOWN
        if (variable, self.function) not in self._loaded:
            self._loaded.add((variable, self.function))
            self.emit("loads", variable, base, name)
            self.emit("within", variable, self.function)
        return variable

    def load_begun(self, base: str, start: str) -> str:
        """A variable that holds every attribute of `base` whose name begins so."""
        site = self.site()
        self.emit("loads_begun", site, base, start)
        return site

    def send(self, base: str, name: str, *given: str) -> str:
        """The result of calling a method; `given` are positional arguments."""
        site = self.site()
        self.emit("sends", site, base, name)
        for position, argument in enumerate(given):
            self.emit("argument", site, str(position), argument)
        return site

    def test(self, variable: str) -> None:
        """State that the truth of what a variable holds decides here."""
        if variable not in CONSTANTS and variable != UNKNOWN:
            self.emit("tests", self.site(), variable)

    # -- blocks --------------------------------------------------------------------------------

    @contextmanager
    def block(self, scope: Scope, function: str | None = None) -> Iterator[None]:
        """Stand in another scope, and perhaps another function, for a while."""
        before = self.scope, self.function, self.narrowed
        self.scope, self.function = scope, function or self.function
        self.narrowed = dict(self.narrowed)
        try:
            yield
        finally:
            self.scope, self.function, self.narrowed = before

    @contextmanager
    def narrowing(self, narrowed: Mapping[str, str]) -> Iterator[None]:
        """Read other variables in place of some for a while."""
        before = self.narrowed
        self.narrowed = {**before, **narrowed}
        try:
            yield
        finally:
            self.narrowed = before

    def inner(self, owner: str, bound: Iterable[ast.AST]) -> Scope:
        """A scope of its own for a lambda or comprehension; in a class it still sees the class."""
        home = self.scope.owner if self.scope.kind == "class" else owner
        scope = Scope("function", home, self.scope)
        collect(scope, bound, self.module)
        return scope
