"""References: what an expression mentions, as facts about the symbol it is written in.

A `References` visitor walks expressions and simple statements with a current `Scope` (where names
are looked up) and a current user (the symbol that would need what is mentioned). Invariant: each
mention of what the tree may define yields at least one fact, and when several meanings are possible
it yields all of them.
Definitions are not handled here: `definitions` cuts the tree at them.
"""

# ruff: noqa: N815  a visitor's method names are ast's
from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from deltafix.analyses.dead_code.computed import (
    FINDERS,
    IMPORTERS,
    JOINERS,
    Loaded,
    found_below,
    imported_by_name,
    in_folder,
    written,
)
from deltafix.analyses.dead_code.fixtures import FIXTURE_CALLS
from deltafix.analyses.dead_code.modules import ModuleName
from deltafix.analyses.dead_code.scopes import Binding, Imported, Scope, collect
from deltafix.analyses.dead_code.words import joined, said, said_in_prose, template, unmangled
from deltafix.analyses.facts import Fact

_CALLED = re.compile(r"\b([A-Za-z_]\w*)\(")
_WORD = re.compile(r"\b[A-Za-z_]\w*")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_ENTRY = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")
_BY_NAME = frozenset({"getattr", "hasattr", "setattr", "delattr", "methodcaller", "attrgetter"})
_NAMESPACE = frozenset({"globals", "eval", "exec"})
_LOCAL_NAMESPACE = frozenset({"locals", "vars", "dir"})  # of the block they are called in
_MEMBERS = frozenset({"getattr", "vars", "dir", "getmembers"})  # of their first argument
_RELATIVE = re.compile(r"(\.+)([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")
_COMPILERS = frozenset({"compile", "parse", "exec", "eval"})
MEMBER = re.compile(r"\.([A-Za-z_]\w*)")
_SETTINGS = frozenset({"from_object", "config_from_object", "from_pyfile"})
_FIELD = re.compile(r"\{\w*((?:\.\w+|\[\w*\])+)[!:}]")  # of `"{order.total}".format(…)`
_SELF = re.compile(r"\bself\.([A-Za-z_]\w*)|\b[A-Z]\w*\.([A-Za-z_]\w*)\(")  # Class.make(…)
_STEM = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\.")
_OWN_FOLDER = re.compile(
    r"(?:os\.)?(?:path\.)?dirname\((?:(?:os\.)?path\.(?:abspath|realpath)\()?__file__\)+"
    r"|(?:pathlib\.)?Path\(__file__\)(?:\.\w+\(\))?\.parent"
)
_PATH_WORDS = frozenset(
    {"abspath", "realpath", "dirname", "normpath", "insert", "append", "str", "Path"}
)
_LOGGING = frozenset(
    {"debug", "info", "warning", "error", "exception", "critical", "log", "format"}
)
_CONDITIONS = frozenset({"skipif", "xfail"})  # of pytest, which evaluates their text
_FILE_LOADERS = frozenset({"run_module", "run_path", "spec_from_file_location", "SourceFileLoader"})
_ENDS = frozenset({"startswith", "removeprefix", "endswith", "removesuffix"})
_RUNNERS = frozenset({"profile", "cProfile", "timeit"})  # modules that run the text they are given
_PLUGIN_FINDERS = frozenset(
    {"entry_points", "iter_entry_points", "load_setuptools_entrypoints", "ExtensionManager"}
)
_TYPE_TEXT = frozenset({"cast", "TypeVar", "NewType", "ForwardRef", "NamedTuple", "TypedDict"})
_NAMED_TYPES = _TYPE_TEXT - {"cast", "ForwardRef"}  # their first argument is their own name
_TYPE_MARK = re.compile(r"[\[|.]")


class References(ast.NodeVisitor):
    """Collects into `facts`; `user`, `scope` and `in_type` say where the walk stands."""

    def __init__(self, module: ModuleName, *, walrus: bool = True) -> None:
        self.module = module
        self.walrus = walrus
        self.facts: list[Fact] = []
        self.scope = Scope("module", module.canonical)
        self.user = module.canonical
        self.in_type = False
        self.by_text = False
        self.words: list[tuple[str, str]] = []
        self.compiles = False
        self.code: list[tuple[str, str]] = []
        self.joined: set[ast.expr] = set()
        self.partly: ast.expr | None = None  # `x.__dict__` for names that begin in a known way
        self.own: frozenset[str] = frozenset()  # what is assigned: `T = TypeVar("T")` is no use

    def emit(self, relation: str, *row: str) -> None:
        """Add one fact."""
        self.facts.append((relation, row))

    def _attribute(self, user: str, name: str, relation: str = "attribute") -> None:
        """A mention of an attribute, or of its start; a mangled name is its private one, too."""
        for variant in (name, *unmangled(name)):
            self.emit(relation, user, variant)

    def say(self, text: str) -> None:
        """What a text says that no reference follows; one of several lines is written in words."""
        if text not in self.own:
            self.facts.extend((said_in_prose if "\n" in text else said)(self.user, text))
            self.facts.extend(joined(self.user, text))

    def named_by_text(self) -> None:
        """Where a module looks up attributes by computed names, its strings may be those names.

        Where it compiles strings, they may be code. Those of a test may be both, for what it tests.
        """
        if self.by_text or self.module.is_aside:
            for user, word in self.words:
                self._attribute(user, word, "prefix" if word.endswith("_") else "attribute")
        if self.compiles or self.module.is_aside:
            for user, text in self.code:
                for word in MEMBER.findall(text):
                    self.emit("attribute", user, word)

    def under(self, user: str, nodes: Iterable[ast.AST | None], *, types: bool = False) -> None:
        """Visit `nodes` with everything in them belonging to `user`; `types`: annotations."""
        before, self.user = self.user, user
        outside, self.in_type = self.in_type, types or self.in_type
        for node in nodes:
            if node is not None:
                self.visit(node)
        self.user, self.in_type = before, outside

    # -- names ---------------------------------------------------------------------------------

    def name(self, name: str) -> tuple[list[Imported], bool]:
        """Emit what the plain name `name` refers to; returns its imports, and if they are all."""
        bound = self.scope.lookup(name)
        if bound is None:  # a builtin, or something a star import brings
            self.emit("names", self.user, self.module.canonical, name)
            return [], True
        scope, binding = bound
        self._bound(name, scope, binding)
        module = self.scope.module()
        if scope.kind == "class" and name in module.names:
            # Until the class binds it, its body reads the global: `class C: f = f`.
            self._bound(name, module, module.names[name])
        return binding.imports, not (binding.defined or binding.assigned)

    def _bound(self, name: str, scope: Scope, binding: Binding) -> None:
        for imported in binding.imports:
            if imported.name is None:
                self.emit("imports", self.user, imported.path)
            else:
                self.emit("uses", self.user, imported.path, imported.name, imported.top)
                self.emit("imports", self.user, imported.dotted)
        if binding.defined or binding.assigned:
            if scope.kind == "module":
                self.emit("names", self.user, self.module.canonical, name)
            elif scope.kind == "class" or binding.defined:
                self.emit("refers", self.user, scope.child(name))

    def visit_Name(self, node: ast.Name) -> None:
        """A name read is a reference; a name written is not."""
        if isinstance(node.ctx, ast.Load):
            self.name(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """`a.b.c`: exact along imports, by name else; a builtin object has nothing of the tree."""
        names: list[str] = []
        base: ast.expr = node
        while isinstance(base, ast.Attribute):
            names.append(base.attr)
            if base.attr == "__dict__":
                self.by_text = True
                if base is not self.partly:
                    self._looked_into(base.value)
            elif base.attr == "__subclasses__":
                self._heirs_listed(base.value)
            base = base.value
        names.reverse()
        imports: list[Imported] = []
        exact = False
        if isinstance(base, ast.Name):
            imports, exact = self.name(base.id)
        else:
            self.visit(base)
        for imported in imports:
            path = imported.dotted
            for name in names:
                self.emit("uses", self.user, path, name, imported.top)
                path = f"{path}.{name}"
                self.emit("imports", self.user, path)
        if not (imports and exact) and not self.scope.is_builtin(base):
            for name in names:
                self._attribute(self.user, name)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """`Unpack["T"]` names T, if there is a T, and so does `Union[int, "list[T] | S"]`."""
        inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for element in inside:
            match element:
                case ast.Constant(value=str(text)) if text.isidentifier() or _TYPE_MARK.search(
                    text
                ):
                    for name in filter(self.scope.lookup, _WORD.findall(text)):
                        self.name(name)
        self.generic_visit(node)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        """`case Point(x=0)` reads the attribute `x`."""
        for name in node.kwd_attrs:
            self.emit("attribute", self.user, name)
        self.generic_visit(node)

    # -- strings -------------------------------------------------------------------------------

    def visit_Constant(self, node: ast.Constant) -> None:
        """A string that is a dotted path names it; inside an annotation it is an expression."""
        text = node.value
        if isinstance(text, bytes) and self.module.is_aside:
            text = text.decode("latin-1")  # a test may look for a name in bytes
        if not isinstance(text, str):
            return
        self.say(text)
        if self.in_type:
            self._type_text(text)
        else:
            self._dotted_text(text)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Pieces of a string are no names."""
        self._in_pieces(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """As `visit_JoinedStr` where a piece is written; the sum of two tables is a table."""
        if isinstance(node.op, ast.Div) and node not in self.joined:
            base, parts = node.left, [node.right]
            while isinstance(base, ast.BinOp) and isinstance(base.op, ast.Div):
                self.joined.add(base)  # the beginning of this path is no folder of its own
                parts = [base.right, *parts]
                base = base.left
            self._folder(base, parts)
        if _is_text(node.left) or _is_text(node.right):
            self._in_pieces(node)
        else:
            self.generic_visit(node)

    def _in_pieces(self, node: ast.expr) -> None:
        self.say(template(node))
        text, whole = written(node, self.module, self._paths)
        if whole:
            self._dotted_text(text)
        elif _STEM.fullmatch(text):  # f"shop.ways.{name}", whoever imports it
            self.emit("below", self.user, text.rstrip("."))
        known = len(self.words)
        self.generic_visit(node)
        del self.words[known:]

    def _type_text(self, text: str) -> None:
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError):
            return  # Literal["not code"]
        self.visit(tree.body)

    def _dotted_text(self, text: str) -> None:
        text = text.strip("\"'")  # code that a test puts together quotes a path once more
        if text.endswith(".py"):
            self._file(text)
        if self.module.is_aside:
            for word in filter(self.scope.lookup, _CALLED.findall(text)):
                self.name(word)
        for words in _SELF.findall(text):  # code that is put together
            self.emit("attribute", self.user, "".join(words))
        entry = _ENTRY.fullmatch(text)
        relative = _RELATIVE.fullmatch(text)
        if relative:
            level = len(relative[1])  # counted from this module, or from its package
            for path in sorted(
                {self.module.resolve(n, relative[2]) for n in {level, level - 1 or 1}}
            ):
                self.emit("imports", self.user, path)
                self.emit("uses", self.user, path, "__dict__", path)
        if text.isidentifier():
            self.words.append((self.user, text))
        elif text.startswith("__main__."):
            for word in MEMBER.findall(text):
                self.emit("attribute", self.user, word)
        elif "." in text and (self.module.is_aside or not _DOTTED.fullmatch(text)):
            self.code.append((self.user, text))
            for field in _FIELD.findall(text):
                for word in MEMBER.findall(field):
                    self.emit("attribute", self.user, word)
        if entry:
            self.mention_path(entry[1], entry[2].split("."))
        elif _DOTTED.fullmatch(text):
            first, *names = text.split(".")
            self.mention_path(first, names)
            self.emit("quotes", self.user, text)

    def mention_path(self, module: str, names: list[str]) -> None:
        """A reference to `names` below `module`, as an import of it would give."""
        self.emit("imports", self.user, module)
        path = module
        for name in names:
            self.emit("uses", self.user, path, name, module)
            path = f"{path}.{name}"
            self.emit("imports", self.user, path)

    # -- calls that reach symbols by their names -----------------------------------------------

    def visit_Call(self, node: ast.Call) -> None:
        """`getattr(x, "n")` mentions `n`; `globals()` reaches all of the module; and so on."""
        called = node.func
        last = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
        known = [False]
        if last in _BY_NAME or (last == "object" and _is_patch(called)):
            known = [self._attribute_text(argument) for argument in node.args][1:2]
            if last == "getattr" and not all(known):
                self._searched(node.args[0], node.args[1])
                if self._is_parameter(node.args[1]):
                    self.emit("takes_name", self.user)
            self.by_text = self.by_text or not any(_is_text(argument) for argument in node.args)
        elif last == "get" and node.args and isinstance(called, ast.Attribute):
            if isinstance(called.value, ast.Attribute) and called.value.attr == "__dict__":
                self._searched(called.value.value, node.args[0])
        elif last in _CONDITIONS:
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    self._type_text(argument.value)
        elif last in FIXTURE_CALLS:
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    self.emit("asks", self.user, argument.value)
        elif last in _NAMESPACE:
            self.emit("dynamic", self.user, self.module.canonical)
        elif last in _LOCAL_NAMESPACE and not node.args:
            self.emit("dynamic", self.user, self.scope.owner)
        elif last in IMPORTERS:
            loaded = imported_by_name(node, self.module, self._paths)
            self._loads([loaded])
            if loaded is None:
                self.emit("imports_any", self.user)
        elif last in _FILE_LOADERS:
            self.emit("imports_any", self.user)
        elif last in FINDERS:
            self._loads(found_below(node, self.module, self._paths))
        elif last in _SETTINGS:
            self._settings(node.args)
        elif last in JOINERS and isinstance(called, ast.Attribute) and not _is_text(called.value):
            base, *parts = (
                [called.value, *node.args] if last == "joinpath" else node.args or [called]
            )
            self._folder(base, parts)
        if (
            last in _MEMBERS
            and node.args
            and not any(_is_text(argument) for argument in node.args[1:2])
        ):
            self.by_text = True
            everything = ast.Attribute(node.args[0], "__dict__", ast.Load())
            self.partly = everything if all(known) else None
            self.visit(everything)
            self.emit("looks_up", self.user)
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if last is not None:
            self._named_in(last, arguments, method=isinstance(called, ast.Attribute))
            for class_ in (class_ for argument in arguments for class_ in self._classes(argument)):
                self.emit("hands_to", last, class_)
        if last in _ENDS:
            for text in (n.value for n in node.args if isinstance(n, ast.Constant)):
                if isinstance(text, str):
                    self.say(f"{text}*" if last in {"startswith", "removeprefix"} else f"*{text}")
        for keyword in node.keywords:
            self.say(keyword.arg or "")
            if (keyword.arg or "").isupper() and dotted_name(keyword.value) == "__name__":
                self._settings([keyword.value])
        if last not in JOINERS and last not in _PATH_WORDS and not self.module.is_aside:
            for argument in node.args:
                if self._is_own_folder(argument):
                    self.emit("below", self.user, self.module.resolve(1, None))
        if last in _PLUGIN_FINDERS and not self.module.is_aside:
            self.emit("hosts", self.module.canonical)
        for path in self._paths(called)[:1]:
            self._handed(path, arguments)
            if path.partition(".")[0] in _RUNNERS:
                self._code_text(arguments)
        if isinstance(called, ast.Attribute):
            for class_ in (class_ for argument in arguments for class_ in self._classes(argument)):
                self.emit("hands_by", called.attr, class_)
        if last in _COMPILERS and dotted_name(called) != "re.compile":
            self.compiles = True
        if last in _TYPE_TEXT:
            bounds = [k.value for k in node.keywords if k.arg == "bound"]
            types = node.args[last in _NAMED_TYPES :]
            self.under(self.user, [*types, *bounds], types=True)
        self.generic_visit(node)

    def _handed(self, path: str, arguments: Iterable[ast.expr]) -> None:
        """Classes that a call of something imported is given, or objects of theirs."""
        top = path.partition(".")[0]
        for node in arguments:
            for class_ in (*self._classes(node), *self._class_around(node)):
                self.emit("hands", top, class_)
            if isinstance(node, ast.Attribute):
                for owner in self._class_around(node.value):
                    self.emit("hands_field", top, owner, node.attr)

    def _classes(self, node: ast.expr) -> Iterator[str]:
        """The classes that `C`, `C()`, or a name with such a value, may stand for.

        An imported one is named as if the module it is imported from defined it.
        """
        class_node = node.func if isinstance(node, ast.Call) else node
        for dotted in self._paths(class_node):
            path, _, name = dotted.rpartition(".")
            yield f"{path}:{name}"
        bound = self.scope.lookup(class_node.id) if isinstance(class_node, ast.Name) else None
        if bound is None or not isinstance(class_node, ast.Name):
            return
        if bound[1].defined:
            yield bound[0].child(class_node.id)
        if class_node is node:
            for value in bound[1].values:
                if isinstance(value, ast.Call):
                    yield from self._classes(value)

    def _searched(self, what: ast.expr, name: ast.expr) -> None:
        """`getattr(self, name)` in a method may mean any member of the class.

        Those with a leading underscore if one is written before what is computed, else the others.
        """
        bound = self.scope.lookup(name.id) if isinstance(name, ast.Name) else None
        for owner in self._class_around(what):
            for value in (bound[1].values if bound else None) or [name]:
                text, _ = written(value, self.module, self._paths)
                self.emit("searches", self.user, owner, "_" if text.startswith("_") else "")

    def _named_in(self, called: str, given: Iterable[ast.expr], *, method: bool) -> None:
        """`called("run")`, and `called(name)` of a parameter: it may look up what it is given."""
        for node in given:
            if isinstance(node, ast.Constant):
                text = node.value if isinstance(node.value, str) else ""
                if text.isidentifier():
                    self.emit("given_name", self.user, called, text)
                elif _DOTTED.fullmatch(text) and called not in IMPORTERS | {"getLogger"}:
                    self.emit("hands_module", self.user, text)
            elif self._is_parameter(node):
                self.emit("hands_on", self.user, called)
                if method and called not in _LOGGING:
                    self.emit("hands_on_to", called)

    def _is_own_folder(self, node: ast.expr) -> bool:
        """Whether it is `os.path.dirname(__file__)` or `Path(__file__).parent`."""
        match node:
            case ast.Call(func=func) if dotted_name(func).endswith("dirname"):
                return bool(_OWN_FOLDER.fullmatch(ast.unparse(node)))
            case ast.Attribute(attr="parent"):
                return bool(_OWN_FOLDER.fullmatch(ast.unparse(node)))
        return False

    def _is_parameter(self, node: ast.expr) -> bool:
        """Whether it is a name that a function gets from its caller, and nothing else sets."""
        bound = self.scope.lookup(node.id) if isinstance(node, ast.Name) else None
        return bound is not None and bound[0].kind == "function" and bound[1].given

    def _code_text(self, given: Iterable[ast.expr]) -> None:
        """Statements as text: `profile.run("main()")`."""
        for node in given:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                with suppress(SyntaxError, ValueError):
                    self.example(ast.parse(node.value))

    def example(self, tree: ast.AST) -> None:
        """What a piece of code that stands in a text names, seen from the module."""
        outside, self.scope = self.scope, self.scope.module()
        for part in ast.walk(tree):
            if isinstance(part, ast.Name):
                self.name(part.id)
            elif isinstance(part, ast.Attribute):
                self.emit("attribute", self.user, part.attr)
            elif isinstance(part, ast.ImportFrom):
                path = self.module.resolve(part.level, part.module)
                self.mention_path(path, [])
                for alias in part.names:
                    self.emit("uses", self.user, path, alias.name, path)
            elif isinstance(part, ast.Import):
                References.visit_Import(self, part)
        self.scope = outside

    def _looked_into(self, what: ast.expr) -> None:
        """`C.__dict__` and `getattr(C, name)`, of a class: any of its members may be meant."""
        for class_ in self._classes(what):
            self.emit("searches", self.user, class_, "")
        for dotted in self._paths(what):
            path, _, name = dotted.rpartition(".")
            self.emit("looks_into", self.user, path, name)

    def _heirs_listed(self, what: ast.expr) -> None:
        """`C.__subclasses__()`: the heirs of a class of this file, or of any."""
        known = [*self._class_around(what), *self._classes(what)]
        for owner in known:
            self.emit("enlists", owner)
        if not known:
            self.emit("lists_heirs", self.user)

    def _class_around(self, what: ast.expr) -> Iterator[str]:
        """The class in whose block this is, if `what` is its `self` or `cls`."""
        scope: Scope | None = self.scope
        while scope is not None and scope.kind != "class":
            scope = scope.parent
        if scope is not None and isinstance(what, ast.Name) and what.id in {"self", "cls"}:
            yield scope.owner

    def _settings(self, given: list[ast.expr]) -> None:
        """A class, a module or this file, whose names somebody reads as settings."""
        for node in given:
            named = node.func if isinstance(node, ast.Call) else node
            if not isinstance(named, ast.Name):
                continue
            bound = self.scope.lookup(named.id)
            if named.id in {"__name__", "__file__"}:
                self.emit("dynamic", self.user, self.module.canonical)
            elif bound and bound[1].defined:
                self.emit("dynamic", self.user, bound[0].child(named.id))

    def _loads(self, modules: Iterable[Loaded | None]) -> None:
        for loaded in modules:
            if loaded is None:
                continue
            if loaded.start is None:
                self.emit("imports", self.user, loaded.path)
            else:
                self.emit("loads", self.user, loaded.path, loaded.start)

    def _folder(self, base: ast.expr, parts: list[ast.expr]) -> None:
        """A path below this file's own folder: the modules there may be loaded by their paths.

        Below a folder that is computed, two names say enough: `join(root(), "shop", "rules")`.
        """
        if self.module.is_aside:
            return
        names = [str(n.value) for n in parts if isinstance(n, ast.Constant)]
        self._file("/".join(names))
        if self._is_beside(base):
            self._loads(in_folder(parts, self.module))
        elif len(names) == len(parts) > 1 and all(map(str.isidentifier, names)):
            self.emit("below", self.user, ".".join(names))

    def _file(self, path: str) -> None:
        """`"tools/build.py"`: somebody may run that file, or load it."""
        *folders, name = path.split("/")
        parts = [
            part for part in (*folders, name.removesuffix(".py")) if part not in {"", ".", ".."}
        ]
        if not name.endswith(".py") or not all(map(str.isidentifier, parts)):
            return
        if len(parts) > 1:
            self.emit("names_file", self.user, ".".join(parts))
        elif parts and not self.module.is_aside:  # beside this one, and read for its names
            beside = self.module.resolve(1, parts[0])
            self.emit("imports", self.user, beside)
            self.emit("hands_module", self.user, beside)

    def _is_beside(self, node: ast.expr, depth: int = 3) -> bool:
        """Whether a path is made from `__file__`, by way of at most three names."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                bound = self.scope.lookup(part.id) if depth else None
                if part.id == "__file__" or (
                    bound and any(self._is_beside(value, depth - 1) for value in bound[1].values)
                ):
                    return True
        return False

    def _paths(self, node: ast.expr) -> list[str]:
        """The dotted paths that `a.b` may stand for, by the imports of `a`."""
        first, *names = name_chain(node) or [""]
        bound = self.scope.lookup(first)
        return [".".join([i.dotted, *names]) for i in bound[1].imports] if bound else []

    def _attribute_text(self, node: ast.expr) -> bool:
        """An attribute name given as text, whole or its start up to its `_`; whether there is one.

        A variable is what this block assigns to it.
        """
        if isinstance(node, ast.Name):
            bound = self.scope.lookup(node.id)
            values = bound[1].values if bound else []
            are_texts = [self._attribute_text(v) for v in values if not isinstance(v, ast.Name)]
            return bool(are_texts) and all(are_texts)
        text, whole = written(node, self.module, self._paths)
        names = [name for name in text.split(".") if name.isidentifier()] if whole else []
        for name in names:
            self._attribute(self.user, name)
        starts = [] if whole else sorted({text, text[: text.rfind("_") + 1]})
        starts = [start for start in starts if start.strip("_") and start.isidentifier()]
        for start in starts:
            self._attribute(self.user, start, "prefix")
        return bool(names or starts)

    # -- inner scopes of expressions -----------------------------------------------------------

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """A lambda belongs to the symbol it is written in, with its own parameters."""
        arguments = node.args
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.visit(default)
        self._inside([arguments], [node.body])

    def _comprehension(self, node: ast.expr) -> None:
        first, *others = generators = getattr(node, "generators", [])
        self.visit(first.iter)  # outside: `[x for x in x]` reads the x around it
        parts = [n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.comprehension)]
        self._inside([g.target for g in generators], [first.target, *first.ifs, *others, *parts])

    visit_ListComp = _comprehension
    visit_SetComp = _comprehension
    visit_DictComp = _comprehension
    visit_GeneratorExp = _comprehension

    def _inside(self, bound: Iterable[ast.AST], nodes: Iterable[ast.AST]) -> None:
        outside = self.scope
        self.scope = Scope("function", outside.owner, outside)
        collect(self.scope, bound, self.module, walrus=self.walrus)
        for node in nodes:
            self.visit(node)
        self.scope = outside

    # -- annotations ---------------------------------------------------------------------------

    def visit_arg(self, node: ast.arg) -> None:
        """A parameter's annotation."""
        self.under(self.user, [node.annotation], types=True)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """`x: "T" = value` inside a function."""
        self.under(self.user, [node.annotation], types=True)
        self.under(self.user, [node.target, node.value])

    def visit_Import(self, node: ast.Import) -> None:
        """Running an import runs the modules it names."""
        for alias in node.names:
            self.emit("imports", self.user, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """`from m import x` runs `m`, and `m.x` where that is a module; x itself is not used."""
        path = self.module.resolve(node.level, node.module)
        self.emit("imports", self.user, path)
        for alias in node.names:
            if alias.name == "*":
                continue
            self.say(alias.name)
            self.emit("imports", self.user, f"{path}.{alias.name}")
            if alias.asname == alias.name:  # PEP 484: "import x as x" is a re-export on purpose
                self.emit("uses", self.user, path, alias.name, path)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_patch(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and dotted_name(node.value).endswith("patch")


def name_chain(node: ast.expr) -> list[str]:
    """The names of `a.b.c`; none for anything that is not a chain of names."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else []


def dotted_name(node: ast.expr) -> str:
    """`a.b.c` as text; "" for anything that is not a chain of names."""
    return ".".join(name_chain(node))
