"""A module's definitions as facts: symbols, scopes, decorators, bases, exports, roots.

Invariant: one `Definitions` reads one syntax tree, once; what a name means in other files is left
to `program.dl`.
"""

# ruff: noqa: N802, N815  a visitor's method names are ast's
from __future__ import annotations

import ast
import builtins
import re
import sys

from deltafix.analyses.dead_code import policy, shapes
from deltafix.analyses.dead_code.comments import KEEP, KEEP_IMPORT, Comments
from deltafix.analyses.dead_code.entry_points import setup_facts
from deltafix.analyses.dead_code.examples import examples, shows_examples
from deltafix.analyses.dead_code.exports import all_entries
from deltafix.analyses.dead_code.fixtures import fixture_facts
from deltafix.analyses.dead_code.modules import ModuleName, module_facts
from deltafix.analyses.dead_code.places import lines_of, name_column
from deltafix.analyses.dead_code.references import References, dotted_name
from deltafix.analyses.dead_code.scopes import Scope, annotate_imports, collect
from deltafix.analyses.dead_code.words import Block, is_for_hands, said, said_in_comments, spelling
from deltafix.analyses.facts import Fragment, Place

_SHOWN = re.compile(r"\b([A-Za-z_]\w*)\(")  # in the text of a module
_BASE = re.compile(r"(?:Base|Abstract|Mixin|Interface|Protocol)(?![a-z])")  # in a class's name
_BOUNDARY = re.compile(r"_|[a-z](?=[A-Z0-9])|[A-Z](?=[0-9])")


class Definitions(References):
    """Adds definitions to `References`: symbols, scopes, decorators, bases, exports, roots."""

    def __init__(self, path: str, data: bytes, module: ModuleName) -> None:
        super().__init__(module, walrus=b":=" in data)
        self.path = path
        self.places: list[Place] = []
        self.is_test = False
        self.is_script = data.startswith(b"#!")
        self.has_star = b"import *" in data
        self.watched = False  # inside `with pytest.raises(...)`
        self.comments = Comments(data)
        self.alternatives: frozenset[str] = frozenset()  # imported in two branches, for others
        self.data = data
        self.lines = lines_of(data)
        self.blocks: list[Block] = []
        self.telling: frozenset[str] = frozenset()  # of the module: few have any

    def run(self, tree: ast.Module) -> Fragment:
        """Read a whole module; call once."""
        module = self.module.canonical
        self.facts.extend(module_facts(self.module))
        self.emit("stands", module, self.path)
        self.places.append(Place(module, "module", 1))
        name = self.path.rsplit("/", 1)[-1]
        self.is_test = policy.is_test_file(self.path) and (
            name == "conftest.py" or any(shapes.is_test(statement) for statement in tree.body)
        )
        if self.is_test:
            self.emit("test", module)
        if name in {"__main__.py", "setup.py"}:
            self._entry("entry", f"entry point {name}")
        if self.path == "setup.py":
            self.facts.extend(setup_facts(self.path, tree))
        if self.is_script:
            self.emit("given_root", module, "starts with #!")
        if any(
            self.module.parts[-1 - len(folder) : -1] == folder for folder in policy.FOUND_FOLDERS
        ):
            self.emit("given_root", module, "stands where Django looks for it")
            self.emit("names", module, module, "Command")
        for name in _SHOWN.findall(ast.get_docstring(tree) or ""):
            self.emit("names", module, module, name)
        if self.module.is_package and not tree.body:
            self.emit("blank", module)
        collect(self.scope, tree.body, self.module, walrus=self.walrus)
        for relation, value in all_entries(tree, self.scope):
            self.emit(relation, module, value)
        self.documented = frozenset(re.findall(r"\w+", ast.get_docstring(tree) or ""))
        self.hands_on = all(shapes.only_imports(statement) for statement in tree.body) and not (
            self.module.is_package and any(self._imports_own(statement) for statement in tree.body)
        )
        if self.hands_on and not self.module.is_aside and any(map(shapes.takes_names, tree.body)):
            self.emit("given_root", module, "has nothing but imports, for others")
        calls_own = shapes.calls_own(tree.body)
        if not self.module.is_package and (
            calls_own or any(shapes.acts(statement) for statement in tree.body)
        ):
            self.emit("acts", module)
            if calls_own and not self.module.is_aside:
                self.emit("script", module)
        self._examples(module, tree)
        self.telling = shapes.telling(tree)
        self.alternatives = frozenset(shapes.alternatives(tree.body))
        for statement in tree.body:
            self.visit(statement)
        self._typed_in_comments(1, sys.maxsize)
        self.named_by_text()
        self.facts.extend(spelling(module.rpartition(".")[2]))
        self.facts.extend(said_in_comments(self.data, module, self.blocks))
        return Fragment.of(self.path, self.facts, self.places)

    def _imports_own(self, node: ast.stmt) -> bool:
        """Whether a statement of a package imports what stands in the package."""
        own = f"{self.module.canonical}."
        return any(
            f"{self.module.resolve(inner.level, inner.module)}.".startswith(own)
            for inner in ast.walk(node)
            if isinstance(inner, ast.ImportFrom)
        )

    # -- symbols -------------------------------------------------------------------------------

    def symbol(
        self, kind: str, name: str, node: ast.stmt | ast.expr, text: str | None = None
    ) -> tuple[str, Scope]:
        """Declare a symbol of the current block; returns its id and the scope it goes to.

        `text` is its documentation.
        """
        lines = [part.lineno for part in (*getattr(node, "decorator_list", ()), node)]
        scope = self.scope.home(name)
        identity = scope.child(name)
        self.places.append(Place(identity, kind, node.lineno, name_column(self.lines, node)))
        self.emit("symbol", identity, kind)
        self.emit("scope", identity, scope.owner)
        if scope.kind != "function":
            self.facts.extend(spelling(name))
            self.emit("named", identity, scope.owner, name)
            if not name.startswith("_"):
                self.emit("open_name", scope.owner, name)
            for boundary in _BOUNDARY.finditer(name):
                start = name[: boundary.end()]
                if start.strip("_") and start != name:
                    self.emit("name_prefix", name, start)
            if name.startswith("__"):  # getattr(x, f"_Class__{name}")
                self.emit("name_prefix", name, "__")
        if is_for_hands(name, text):
            self.emit("for_hands", identity)
        if policy.is_dunder(name):
            self.emit("kept", identity, scope.owner, "called by Python itself")
        if scope.kind == "class" and not (name.startswith("__") and not policy.is_dunder(name)):
            self.emit("overridable", identity, scope.owner)
        if self.comments.marked(lines, KEEP):
            self.emit("given_root", identity, "marked in the source")
        blocks = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        body = node.body[0].lineno if isinstance(node, blocks) else lines[0]
        if self.comments.for_others(lines[0], body):
            self.emit("kept", identity, scope.owner, "has, as a comment says, for code elsewhere,")
        if self.watched:
            self.emit("kept", identity, scope.owner, "sees what is raised by defining")
        if self.is_test and scope.kind == "class" and ".<locals>." in scope.owner:
            self.emit("kept", identity, scope.owner, "is of a test, and shows what is tested")
        return identity, scope

    def _entry(self, relation: str, why: str) -> None:
        """The module is run; a test, an example or a build script says nothing of the rest."""
        self.emit("given_root", self.module.canonical, why)
        if not self.module.is_aside and self.module.canonical != "setup":
            self.emit(relation, self.module.canonical, why)

    def _test_root(
        self, identity: str, name: str, kind: str, scope: Scope, text: str | None
    ) -> None:
        if scope.kind == "module" and name.startswith("pytest_"):
            self.emit("kept", identity, scope.owner, "has the pytest hook")
        hook = name.startswith(("test", "pytest_")) or name in policy.TEST_HOOKS
        hook = hook or shows_examples(text)  # doctest runs them, of tests above all
        if not self.is_test:
            if scope.kind == "class" and hook:
                self.emit("tried", identity, scope.owner)
            return
        if scope.kind == "module" and (hook or (kind != "function" and name.startswith("Test"))):
            self.emit("test", identity)
        elif scope.kind == "class" and hook:
            self.emit("kept", identity, scope.owner, "called by the test runner")

    def _decorators(self, nodes: list[ast.expr], identity: str, owner: str) -> None:
        for node in nodes:
            name = self._full_name(node.func if isinstance(node, ast.Call) else node)
            self.emit("decorated", identity, owner, name)

    def _is_kept_by(self, node: ast.expr) -> bool:
        """Whether a decorator is a method of an object that a name holds: `@service.get()`."""
        first, dot, _ = dotted_name(node.func if isinstance(node, ast.Call) else node).partition(
            "."
        )
        bound = self.scope.lookup(first) if dot else None
        if bound is None or bound[0].kind == "class":
            return False
        taken = any(imported.name is not None for imported in bound[1].imports)
        return taken or (bound[1].assigned and not bound[1].imports)

    def _full_name(self, node: ast.expr) -> str:
        """A decorator's or base's dotted name with imports resolved; `*.setter` for methods."""
        if isinstance(node, ast.Subscript):
            node = node.value
        written = dotted_name(node)
        if not written:
            return "<computed>"
        first, _, rest = written.partition(".")
        bound = self.scope.lookup(first)
        if bound and bound[1].imports:
            written = ".".join([bound[1].imports[0].dotted, *([rest] if rest else [])])
        elif bound and rest in {"setter", "getter", "deleter"}:
            written = f"*.{rest}"
        elif (bound and bound[0].kind == "module") or (
            not bound and self.has_star and not hasattr(builtins, first)
        ):  # what no block binds, a star import may bring
            written = f"{self.module.canonical}.{written}"
        return written

    # -- functions and classes -----------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """A function or method: its body, defaults and annotations belong to it."""
        kind = "method" if self.scope.home(node.name).kind == "class" else "function"
        text = ast.get_docstring(node)
        identity, scope = self.symbol(kind, node.name, node, text)
        self._test_root(identity, node.name, kind, scope, text)
        self._decorators(node.decorator_list, identity, scope.owner)
        if kind == "method" and any(
            self._is_kept_by(decorator) for decorator in node.decorator_list
        ):
            outer = scope.parent.owner if scope.parent is not None else scope.owner
            self.emit("kept", scope.owner, outer, "has registered a method of")
        for relation, *row in fixture_facts(node, identity, scope.owner, is_test=self.is_test):
            self.emit(relation, *row)
            if relation == "asks":
                self._asks_for_fixture(*row)
        arguments = node.args
        self.under(identity, node.decorator_list)
        self.under(identity, [*arguments.defaults, *arguments.kw_defaults])
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
        # Annotations see the enclosing class; the body does not. Type parameters are seen by both.
        outside = self.scope
        self.scope = Scope("function", outside.owner, outside)
        parameters = self._type_parameters(node)
        self.under(identity, [*every, *parameters])
        self.under(identity, [node.returns], types=True)
        for argument in every[kind == "method" :]:
            self.facts.extend(said(identity, argument.arg))
        self.scope = Scope("function", identity, self.scope)
        collect(self.scope, [*every, *node.body], self.module, walrus=self.walrus)
        self._body(identity, node)
        self.scope = outside
        self._for_importers(node, scope)

    def _asks_for_fixture(self, identity: str, name: str) -> None:
        """A parameter is a name of this file with another value: a fixture, `s = shop_of(2)`."""
        binding = self.scope.module().names.get(name)
        if binding is not None and any(
            isinstance(value, ast.Call | ast.Name) for value in binding.values
        ):
            self.emit("names", identity, self.module.canonical, name)

    def _body(
        self, identity: str, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    ) -> None:
        lines = [decorator.lineno for decorator in node.decorator_list]
        self.blocks.append((min([*lines, node.lineno]), node.end_lineno or node.lineno, identity))
        self._examples(identity, node)
        before, self.watched = self.watched, False
        self.under(identity, node.body)
        self.watched = before
        user, self.user = self.user, identity
        self._typed_in_comments(node.lineno, node.end_lineno or node.lineno)
        self.user = user

    def _typed_in_comments(self, first: int, last: int) -> None:
        for name in self.comments.types(first, last):
            self.visit(name)

    def _examples(
        self, user: str, node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    ) -> None:
        """What a doctest names is used by the symbol whose text it stands in."""
        before, self.user = self.user, user
        for tree in examples(ast.get_docstring(node) or ""):
            self.example(tree)
        self.user = before

    def _for_importers(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: Scope
    ) -> None:
        """Whether it is deprecated, or the module's text names it: `__all__` may leave it out."""
        warns = shapes.warns(node, self._telling(node))
        is_offered = node.name in self.documented or warns
        if is_offered and scope.kind == "module" and not node.name.startswith("_"):
            self.emit("alias", scope.owner, node.name)
        if shapes.is_example(node):
            self.emit("kept", scope.child(node.name), scope.owner, "has for doctest alone")
        if warns or shapes.shows_call(node):
            self.emit("kept", scope.child(node.name), scope.owner, "documents, for code elsewhere,")

    def _telling(self, node: ast.AST) -> frozenset[str]:
        return shapes.telling(node) if self.telling else self.telling

    def _type_parameters(self, node: ast.AST) -> list[ast.AST]:
        """Bind the `[T]` of Python 3.12 in the current scope and return their nodes."""
        parameters: list[ast.AST] = list(getattr(node, "type_params", []))
        for parameter in parameters:
            self.scope.bind(parameter.name).assigned = True  # type: ignore[attr-defined]
        return parameters

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """A class: its body runs when it is defined, and goes when it goes."""
        text = ast.get_docstring(node)
        identity, scope = self.symbol("class", node.name, node, text)
        self._test_root(identity, node.name, "class", scope, text)
        self._decorators(node.decorator_list, identity, scope.owner)
        outside = self.scope
        self.under(identity, node.decorator_list)
        self.scope = Scope("function", outside.owner, outside)
        self.under(identity, self._type_parameters(node))
        bases = [self._base(identity, base) for base in node.bases]
        if self.is_test and scope.kind == "module" and bases and "Test" in f"{node.name} {bases}":
            self.emit("test", identity)  # unittest collects by the ancestors, whatever the name
        self.under(identity, [*node.bases, *(k.value for k in node.keywords)])
        telling = self._telling(node)
        if _BASE.search(node.name) or not telling.isdisjoint(shapes.ABSTRACT):
            self.emit("abstract", identity)
        if not telling.isdisjoint(shapes.UNFINISHED):
            self.emit("unfinished", identity)
        for keyword in node.keywords:
            if keyword.arg == "metaclass" and self._full_name(keyword.value) != "abc.ABCMeta":
                self.emit("enlists", identity)
        self.scope = Scope("class", identity, self.scope)
        collect(self.scope, node.body, self.module, walrus=self.walrus)
        if "__init_subclass__" in self.scope.names:
            self.emit("enlists", identity)
        for statement in (n for n in node.body if self._hands_over(n) or shapes.checks(n)):
            self.emit("kept", identity, scope.owner, "runs, when it is defined, the body of")
            for name in shapes.targets(statement):
                self.emit("kept", self.scope.child(name.id), identity, "was told of")
        self._body(identity, node)
        self.scope = outside
        self._for_importers(node, scope)

    def _hands_over(self, node: ast.stmt) -> bool:
        """Whether a statement of a class gives what is defined to a call: `f = register(g)`."""
        value = node.value if isinstance(node, ast.Assign | ast.Expr) else None
        if not isinstance(value, ast.Call) or self._full_name(value.func) in policy.PURE_DECORATORS:
            return False
        meanings = (
            self.scope.lookup(argument.id)
            for argument in value.args
            if isinstance(argument, ast.Name)
        )
        return any(bound and bound[0] is not self.scope and bound[1].defined for bound in meanings)

    def _base(self, identity: str, node: ast.expr) -> str:
        call = isinstance(node, ast.Call)
        written = self._full_name(node.func if isinstance(node, ast.Call) else node)
        if call and written not in policy.INERT_BASES:  # what a call returns is not known
            written = "<computed>"
        path, _, name = written.rpartition(".")
        self.emit("base", identity, path, name, written)
        bound = self.scope.lookup(written)
        if bound and bound[1].defined and bound[0].kind != "module":
            self.emit("extends", identity, bound[0].child(written), written)
        return written

    # -- assignments ---------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        """`NAME = value` in a module or class defines a symbol."""
        self._assignment(node, node.value, None)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """`NAME: type = value`, as `visit_Assign`."""
        self._assignment(node, node.value, node.annotation)

    def _assignment(
        self, node: ast.Assign | ast.AnnAssign, value: ast.expr | None, annotation: ast.expr | None
    ) -> None:
        names = list(shapes.targets(node)) if self.scope.kind in {"module", "class"} else []
        owners = []
        for name in names:
            if name.id != "_":
                identity, scope = self.symbol("name", name.id, name)
                self._test_root(identity, name.id, "name", scope, None)
                owners.append(identity)
                if scope.kind == "module":
                    self._module_name(identity, name.id, value)
                    if len(getattr(node, "targets", ())) > 1 and name.id[0] != "_":
                        self.emit("alias", self.module.canonical, name.id)
                if name.id.startswith("_") and shapes.is_unpacked(node):
                    self.emit("kept", identity, scope.owner, "leaves unused, beside others,")
        users = owners or [self.user]
        for user in users:
            self.under(user, [annotation], types=True)
        # A value that only mentions things goes with its name; one that may *do* something when
        # the module runs (a call, a comprehension) is needed as long as the module is.
        inert = value is None or shapes.is_inert(value)
        self.blocks += [(node.lineno, node.end_lineno or node.lineno, owner) for owner in owners]
        before, self.own = self.own, frozenset(name.id for name in names)
        types = annotation is not None and dotted_name(annotation).endswith("TypeAlias")
        for user in users if inert else [self.user]:
            self.under(user, [value], types=types)
        self.own = before
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(value, ast.Name) and dotted_name(target).rpartition(".")[2].isupper():
                self._settings([value] if value.id == "__name__" else [])
            if isinstance(target, ast.Attribute) and value is not None:
                for owner in self._class_around(target.value):
                    for class_ in self._classes(value):
                        self.emit("assigns", owner, target.attr, class_)
            self.visit(target)

    def _is_import(self, node: ast.expr | None) -> bool:
        held = self.scope.names.get(node.id) if isinstance(node, ast.Name) else None
        return held is not None and bool(held.imports)

    def _module_name(self, identity: str, name: str, value: ast.expr | None) -> None:
        """What the value of a module's name says of its users."""
        of_another = isinstance(value, ast.Name | ast.Attribute) or (
            isinstance(value, ast.Call) and self._full_name(value.func) == "functools.partial"
        )
        marks = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
        self._listed(identity, name, value)
        if name.startswith("_") and marks and all(self._is_import(mark) for mark in marks):
            self.emit("kept", identity, self.module.canonical, "marks as used, for a linter, with")
        held = self.scope.names.get(value.id) if isinstance(value, ast.Name) else None
        own = held is not None and held.defined
        if own or ((of_another or name in self.documented) and not name.startswith("_")):
            self.emit("alias", self.module.canonical, name)
        if isinstance(value, ast.Call) and self.scope.names[name].defined:
            self.emit("enlists", identity)  # a class made anew, by a metaclass as a rule
        if self.path.endswith("conftest.py") and held is not None and held.defined:
            self.emit("kept", identity, self.module.canonical, "has, by another name, the fixture")
        if self.module.is_aside and isinstance(value, ast.Call):
            called = self._full_name(value.func).partition(".")[0]
            bound = self.scope.lookup(dotted_name(value.func).partition(".")[0])
            if bound and bound[1].imports and called not in sys.stdlib_module_names:
                self.emit("kept", identity, self.module.canonical, "may have the fixture")

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """`x += y` reads x."""
        self.generic_visit(node)
        if isinstance(node.target, ast.Name):
            self.name(node.target.id)
            self._listed(self.user, node.target.id, node.value)

    def _listed(self, user: str, name: str, value: ast.expr | None) -> None:
        """Names in `__patched__ = ["lock"]`: a list with such a name is for whoever knows it."""
        if policy.is_dunder(name) and isinstance(value, ast.List | ast.Tuple):
            for element in value.elts:
                if isinstance(element, ast.Constant) and isinstance(element.value, str):
                    self.emit("attribute", user, element.value)

    def visit_TypeAlias(self, node: ast.AST) -> None:
        """`type X = …` (Python 3.12): a name whose value is an annotation."""
        name, value = node.name, node.value  # type: ignore[attr-defined]
        if self.scope.kind == "function":
            self.generic_visit(node)
        else:
            self.under(self.symbol("name", name.id, name)[0], [value], types=True)

    # -- statements ----------------------------------------------------------------------------

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        """A definition inside `with pytest.raises(...)` is there to see what it raises."""
        calls = (i.context_expr for i in node.items if isinstance(i.context_expr, ast.Call))
        names = {dotted_name(call.func).rpartition(".")[2] for call in calls}
        before, self.watched = self.watched, self.watched or not names.isdisjoint(policy.WATCHERS)
        self.generic_visit(node)
        self.watched = before

    visit_AsyncWith = visit_With

    def visit_If(self, node: ast.If) -> None:
        """`if __name__ == "__main__":` makes the module an entry point."""
        if self.scope.kind == "module" and shapes.is_main_guard(node.test):
            self._entry("guard", 'if __name__ == "__main__"')
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        """An import at module level also gives the module a name that others can reach."""
        super().visit_Import(node)
        self._bound_imports(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """As `visit_Import`; `from m import *` binds all that m has."""
        super().visit_ImportFrom(node)
        if any(alias.name == "*" for alias in node.names):
            path = self.module.resolve(node.level, node.module)
            self.emit("stars", self.module.canonical, path)
        self._bound_imports(node)

    def _bound_imports(self, node: ast.Import | ast.ImportFrom) -> None:
        span = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        wanted = self.comments.marked(span, KEEP_IMPORT)
        for name, imported in annotate_imports(node, self.module):
            given = wanted or self.hands_on or name in self.alternatives
            if given and imported.name is not None:
                self.emit("uses", self.user, imported.path, imported.name, imported.top)
            if self.scope.kind != "module":
                continue
            self.emit("binds", self.scope.owner, name, imported.dotted)
            if imported.name is not None:
                self.emit("reexports", self.scope.owner, name, imported.path, imported.name)
                if self.module.is_package and not name.startswith("_"):
                    self.emit("open_name", self.scope.owner, name)
