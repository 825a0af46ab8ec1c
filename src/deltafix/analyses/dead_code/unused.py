"""What a file binds and never reads: imports, locals, arguments, attributes of `self`.

    Definitions (as for dead code) + who reads each binding -> facts for `unused.dl`

Invariant: a binding is stated to be unread only if no expression, annotation, comment of types or
example of its file reads it, by the scopes of `scopes`; one that is also bound in some way that
need not be read (an element of a tuple, a loop, a `with`, a pattern) is not stated at all.
Whether another file reads it, and whether what holds it is alive, is decided by the rules.
"""

# ruff: noqa: N802, N815  a visitor's method names are ast's
from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from deltafix.analyses.dead_code.comments import KEEP, KEEP_ARGUMENT, KEEP_IMPORT, KEEP_LOCAL
from deltafix.analyses.dead_code.definitions import Definitions
from deltafix.analyses.dead_code.extract import extract
from deltafix.analyses.dead_code.modules import ModuleName
from deltafix.analyses.dead_code.places import name_column
from deltafix.analyses.dead_code.policy import is_dunder
from deltafix.analyses.dead_code.references import dotted_name
from deltafix.analyses.dead_code.scopes import Binding, Imported, Scope, annotate_imports
from deltafix.analyses.facts import Fragment, Place

UNUSED_INPUTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "also": ("kind",),
        "unread_import": ("id", "owner", "name", "path", "dotted"),
        "for_effect": ("id",),
        "told": ("id",),
        "takes": ("path", "name"),
        "unread_local": ("id", "owner"),
        "unread_argument": ("id", "function", "name"),
        "passed": ("name",),
        "sets": ("id", "class", "name"),
        "reads_member": ("name",),
    }
)
"""Input relations of `unused.dl` beside those of the other rules."""

_EFFECTS = frozenset(
    {"antigravity", "readline", "rlcompleter", "this"}
)  # imported for what they do
_HARMLESS = sys.stdlib_module_names - _EFFECTS
_PLAIN_DECORATORS = frozenset({"staticmethod", "classmethod"})
_WORD = re.compile(r"[A-Za-z_]\w*")
_IN_PROSE = re.compile(r"(?<=[.{])[A-Za-z_]\w*")


def extract_unused(path: str, data: bytes, prefix: str = "") -> Fragment:
    """As `extract`, with what the file never reads. O(size of the file)."""
    return extract(path, data, prefix, reader=_Unread)


@dataclass(frozen=True, slots=True)
class _Import:
    scope: Scope
    name: str
    imported: Imported
    position: tuple[int, int]
    plain: bool  # `import a` or `import a.b`, without another name


class _Unread(Definitions):
    """Marks bindings as they are read, and judges them at the end of the file."""

    def __init__(self, path: str, data: bytes, module: ModuleName) -> None:
        super().__init__(path, data, module)
        self.imports: list[_Import] = []
        self.functions: list[tuple[Scope, ast.FunctionDef | ast.AsyncFunctionDef]] = []
        self.called: set[ast.expr] = set()
        self.texts: set[str] = set()
        self.tried = False  # in the body of a `try`: to see whether it can be imported

    def run(self, tree: ast.Module) -> Fragment:
        """Read a whole module; call once."""
        fragment = super().run(tree)
        if self.comments.whole_file():
            return fragment
        for unread in self.imports:
            self._judge_import(unread)
        for scope, node in self.functions:
            self._judge_locals(scope)
            self._judge_arguments(scope, node)
        return Fragment.of(self.path, self.facts, self.places)

    def _state(self, relation: str, kind: str, position: tuple[int, int], *row: str) -> None:
        self.places.append(Place(row[0], kind, *position))
        self.emit(relation, *row)

    def _position(
        self, node: ast.expr | ast.arg | ast.alias | ast.ExceptHandler
    ) -> tuple[int, int]:
        return node.lineno, name_column(self.lines, node)

    # -- reads and writes ----------------------------------------------------------------------

    def _bound(self, name: str, scope: Scope, binding: Binding) -> None:
        binding.read = True
        super()._bound(name, scope, binding)

    def _binding(self, name: str) -> Binding:
        """The binding that a write means; one of its own for a name that no block binds."""
        bound = self.scope.lookup(name)
        return bound[1] if bound is not None else Binding()

    def _plainly(self, name: str, node: ast.expr | ast.ExceptHandler) -> None:
        binding = self._binding(name)
        binding.plain += 1
        position = self._position(node)
        if not binding.line or position < (binding.line, binding.column):
            binding.line, binding.column = position

    def visit_Name(self, node: ast.Name) -> None:
        """A read is noted by `_bound`; `del` takes a name for something."""
        super().visit_Name(node)
        if isinstance(node.ctx, ast.Store):
            self._binding(node.id).stores += 1
        elif isinstance(node.ctx, ast.Del):
            self._binding(node.id).read = True
        elif node not in self.called:
            self.emit("passed", node.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        """`name = value`, or `name = other = value`."""
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._plainly(target.id, target)
        super().visit_Assign(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """`name: T = value`; without a value it declares what something else may set."""
        if isinstance(node.target, ast.Name):
            if node.value is not None:
                self._plainly(node.target.id, node.target)
            else:
                self._binding(node.target.id).plain += 1
        super().visit_AnnAssign(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        """`except E as name`."""
        if node.name is not None:
            self._binding(node.name).stores += 1
            self._plainly(node.name, node)
        self.generic_visit(node)

    def _captured(self, node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name is not None:
            self._binding(name).stores += 1
        self.generic_visit(node)

    visit_MatchAs = _captured
    visit_MatchStar = _captured
    visit_MatchMapping = _captured

    # -- imports -------------------------------------------------------------------------------

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        """What is imported in a `try` with a handler is tried, whether or not it is read."""
        before = self.tried
        self.tried = before or bool(node.handlers)
        for statement in node.body:
            self.visit(statement)
        self.tried = before
        after: list[ast.AST] = [*node.handlers, *node.orelse, *node.finalbody]
        for other in after:
            self.visit(other)

    visit_TryStar = visit_Try

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Also says what this file takes of another, read or not."""
        super().visit_ImportFrom(node)
        path = self.module.resolve(node.level, node.module)
        for alias in node.names:
            self.emit("takes", path, alias.name)

    def _bound_imports(self, node: ast.Import | ast.ImportFrom) -> None:
        super()._bound_imports(node)
        of_module = self.scope.kind == "module"
        span = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if self.comments.marked(span, KEEP_IMPORT):
            for name, _ in annotate_imports(node, self.module):
                self._binding(name).read = True  # also where another branch binds it
        if (
            self.scope.kind == "class"
            or self.tried
            or (of_module and (self.module.is_package or self.hands_on))
            or self.path.endswith("conftest.py")
        ):
            return
        offered = {alias.asname for alias in node.names if alias.asname == alias.name}
        plain = {alias.name.partition(".")[0] for alias in node.names if not alias.asname}
        positions = {
            alias.asname or alias.name.partition(".")[0]: self._position(alias)
            for alias in node.names
        }
        for name, imported in annotate_imports(node, self.module):
            if name in {"_", *offered, *self.alternatives} or imported.path == "__future__":
                continue
            statement = isinstance(node, ast.Import) and name in plain
            self.imports.append(_Import(self.scope, name, imported, positions[name], statement))

    def _judge_import(self, unread: _Import) -> None:
        binding = unread.scope.names.get(unread.name)
        if unread.name in unread.scope.outer:
            return  # `global name`: the module's
        if binding is None or binding.read or binding.assigned or binding.defined:
            return
        identity, imported = unread.scope.child(unread.name), unread.imported
        row = (unread.scope.owner, unread.name, imported.path, imported.dotted)
        self._state("unread_import", "import", unread.position, identity, *row)
        if unread.name in self.texts:
            self.emit("told", identity)
        if unread.plain and imported.path not in _HARMLESS:
            self.emit("for_effect", identity)

    # -- locals and arguments ------------------------------------------------------------------

    def _body(
        self, identity: str, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    ) -> None:
        super()._body(identity, node)
        if not isinstance(node, ast.ClassDef):
            self.functions.append((self.scope, node))

    def _judge_locals(self, scope: Scope) -> None:
        for name, binding in scope.names.items():
            if (
                binding.read
                or binding.given
                or binding.defined
                or binding.imports
                or name.startswith("_")
            ):
                continue
            if binding.stores != binding.plain or not binding.line or name in scope.outer:
                continue
            if not self.comments.marked([binding.line], KEEP_LOCAL):
                position = (binding.line, binding.column)
                self._state("unread_local", "local", position, scope.child(name), scope.owner)

    def _judge_arguments(self, scope: Scope, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        decorators = {dotted_name(decorator) for decorator in node.decorator_list}
        if self.is_test or (is_dunder(node.name) and node.name != "__init__"):
            return
        if not decorators <= _PLAIN_DECORATORS or _is_stub(node.body):
            return
        around = scope.parent.parent if scope.parent is not None else None
        of_class = around is not None and around.kind == "class"
        arguments = [*node.args.posonlyargs, *node.args.args]
        if of_class and "staticmethod" not in decorators:
            del arguments[:1]
        for argument in (*arguments, *node.args.kwonlyargs):
            if scope.names[argument.arg].read or argument.arg.startswith("_"):
                continue
            if not self.comments.marked([node.lineno, argument.lineno], KEEP_ARGUMENT):
                row = (scope.child(argument.arg), scope.owner, node.name)
                self._state("unread_argument", "argument", self._position(argument), *row)

    def visit_Call(self, node: ast.Call) -> None:
        """What is called is not passed on."""
        self.called.add(node.func)
        super().visit_Call(node)

    # -- attributes ----------------------------------------------------------------------------

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """`self.name = value` sets an attribute; all else reads what it names."""
        super().visit_Attribute(node)
        base: ast.expr = node
        if isinstance(node.ctx, ast.Load) and node not in self.called:
            self.emit("passed", node.attr)
        if isinstance(node.ctx, ast.Store):
            for owner in self._class_around(node.value):
                identity = f"{owner}.{node.attr}"
                if not is_dunder(node.attr):
                    self._state(
                        "sets", "attribute", self._position(node), identity, owner, node.attr
                    )
                if self.comments.marked([node.lineno], KEEP):
                    self.emit("reads_member", node.attr)  # by whom the comment has in mind
            base = node.value
        while isinstance(base, ast.Attribute):
            self.emit("reads_member", base.attr)
            base = base.value

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        """`case Point(x=0)` reads the attribute `x`."""
        super().visit_MatchClass(node)
        for name in node.kwd_attrs:
            self.emit("reads_member", name)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Texts of one line may be code, or types, that somebody evaluates."""
        super().visit_Constant(node)
        if isinstance(node.value, str) and "\n" not in node.value:
            self.texts.update(_WORD.findall(node.value))

    def say(self, text: str) -> None:
        """A text may name attributes: each word of a short one, what follows a dot in prose."""
        super().say(text)
        for word in (_IN_PROSE if " " in text or "\n" in text else _WORD).findall(text):
            self.emit("reads_member", word)


def _is_stub(body: list[ast.stmt]) -> bool:
    """Whether a function does nothing: a text, `pass`, `...`, or an exception that says so."""
    match body:
        case [ast.Expr(value=ast.Constant()), *rest]:
            return _is_stub(rest)
        case [ast.Pass(), *rest]:
            return _is_stub(rest)
        case [ast.Raise()] | []:
            return True
        case [ast.Return(value=None | ast.Constant() | ast.Name(id="NotImplemented"))]:
            return True
    return False
