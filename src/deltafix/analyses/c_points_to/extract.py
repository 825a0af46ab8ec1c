"""From one C file's bytes to inclusion constraints on its pointers.

Invariant: names made up for a function (temporaries, sites, strings) are counted inside it, so an
edit of one function leaves the facts of the others alone. Lines are `Place`s. What points where is
decided by `program.dl`, over all files.

Fields go by their names alone, over all types and files: the type behind a pointer is often only
known in a header, and a cast may change it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from deltafix.analyses.c.declare import Declared, declared, fields, parameters, strays
from deltafix.analyses.c.parse import broken, parts, read, text, top_level
from deltafix.analyses.c.scopes import Scopes
from deltafix.analyses.c_points_to.values import Address, Content, Value, Values, is_narrow
from deltafix.analyses.facts import Fact, Fragment, Place

if TYPE_CHECKING:
    from tree_sitter import Node

    from deltafix.analyses.c.scopes import Meaning


POINTER_INPUTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "addr": ("p", "pf", "o", "of"),
        "copy": ("p", "pf", "q", "qf"),
        "load": ("p", "pf", "q", "f"),
        "store": ("p", "f", "q", "qf"),
        "member": ("p", "q", "f"),
        "entry": ("p", "type", "position", "q", "qf"),
        "site": ("site", "function"),
        "call": ("site", "q"),
        "arg": ("site", "position", "a", "af"),
        "result": ("site", "p"),
        "function": ("f",),
        "param": ("f", "position", "p"),
        "ret": ("f", "q"),
        "variable": ("v",),
        "extern": ("e", "v"),
        "array": ("v",),
        "record": ("v",),
        "typed": ("v", "type"),
        "record_type": ("type",),
        "same_type": ("type", "other"),
        "field_at": ("type", "position", "f"),
        "embedded": ("f",),
        "field_typed": ("f", "type"),
        "array_field": ("f",),
        "grid_field": ("f",),
        "plain_field": ("f",),
        "overlaps": ("f", "g"),
        "broken": ("function",),
    }
)
"""Input relations that files fill, and their columns, all of type symbol."""


def extract_pointers(path: str, data: bytes, prefix: str = "") -> Fragment:
    """The facts of one file. Never raises for bad content: it comes as `Fragment.error`.

    O(size of the file). `prefix`, the package of a tree of Python files, says nothing about C.
    """
    return read(path, data, lambda root: _Constraints(path, root).run(root))


class _Constraints(Values):
    """Reads declarations and statements; order and control flow do not matter."""

    def __init__(self, path: str, root: Node) -> None:
        super().__init__(Scopes(path, root))
        self.path = path
        self._function = ""

    @property
    def caller(self) -> str:
        return self._function or self.path

    def run(self, root: Node) -> Fragment:
        """Read a whole file; call once."""
        self.facts += type_facts(root)
        self.facts += (("broken", (f"{self.path}:{name}",)) for name in strays(root))
        for item in top_level(root):
            if item.type == "function_definition":
                self._define(item)
            elif item.type == "declaration":
                for declaration in declared(item):
                    self.begin(f"{self.path}:{declaration.name}")
                    self._declared(self.scopes.look(declaration.name), declaration)
        return Fragment.of(self.path, self.facts, self.places)

    def _define(self, definition: Node) -> None:
        declaration = next(declared(definition), None)
        meaning = None if declaration is None else self.scopes.look(declaration.name)
        if declaration is None or meaning is None:
            return
        self.begin(self.scopes.enter_function(declaration.name))
        self._function = meaning.symbol
        self.places.append(Place(meaning.symbol, "function", int(definition.start_point[0]) + 1))
        self.emit("function", meaning.symbol)
        answer = f"{meaning.symbol}()"
        self.emit("ret", meaning.symbol, answer)
        returned = Declared(
            declaration.name,
            declaration.at,
            declaration.shape[1:],
            declaration.base,
            declaration.base_name,
        )
        self.facts += typed_facts(answer, returned)
        for position, parameter in enumerate(parameters(declaration.inner)):
            if parameter is not None:
                parameter_meaning = self.scopes.declare(parameter, "parameter")
                self.emit("param", meaning.symbol, str(position), parameter_meaning.symbol)
                self._name(parameter_meaning)
        if broken(definition):
            self.emit("broken", self.inside)
        self.statement(definition.child_by_field_name("body"))
        self.scopes.leave()
        self._function = ""

    def _name(self, meaning: Meaning) -> None:
        self.emit("variable", meaning.symbol)
        self.facts += typed_facts(meaning.symbol, meaning.declared)
        if meaning.declared is not None:
            line = int(meaning.declared.at.start_point[0]) + 1
            self.places.append(Place(meaning.symbol, meaning.kind, line))

    def _declared(self, meaning: Meaning | None, declaration: Declared) -> None:
        """A declaration of a variable, with its initialiser."""
        if meaning is None or not meaning.is_variable:
            return
        if "extern" not in declaration.words or declaration.value is not None:
            self._name(meaning)
            if meaning.is_shared and declaration.shape[:1] == ("array",):
                self.emit("array", meaning.symbol)
        if declaration.value is not None:
            self._begin_with(meaning.symbol, declaration, declaration.value)

    # -- initialisers ------------------------------------------------------------------------

    def _begin_with(self, base: str, declaration: Declared, node: Node) -> None:
        if node.type == "initializer_list":
            ranks = sum(part == "array" for part in declaration.shape)
            self._initialise(
                base, "?" if declaration.may_be_record else "", node, declaration.base_name, ranks
            )
        elif declaration.shape[:1] != ("array",):  # else a string, which is copied into it
            value = self.value(node)
            if not is_narrow(self.scopes.look(declaration.name)):
                self.put(Content(base), value)

    def _initialise(
        self, base: str, field: str, listed: Node, kind: str = "", ranks: int = 0
    ) -> None:
        """Items of a list; `kind` is the struct type `ranks` lists further in, if it is known."""
        by_position = field == "?" and kind != "" and ranks == 0
        for position, item in enumerate(parts(listed)):
            name, value = field, item
            if item.type == "initializer_pair":
                given = item.child_by_field_name("value")
                designators = [d for d in parts(item) if d.type == "field_designator"]
                if designators:
                    name = text(designators[-1]).lstrip(". ")
                    by_position = False
                if given is None:
                    continue
                value = given
            if value.type == "initializer_list":
                self._initialise(base, name, value, "" if ranks == 0 else kind, ranks - 1)
                if name not in {"", "?"}:
                    self._initialise(base, "?", value)  # the field may be a struct
            elif by_position:
                self._enter(base, kind, str(position), self.value(value))
            else:
                self.put(Content(base, name), self.value(value))

    def _enter(self, base: str, kind: str, position: str, value: Value | None) -> None:
        """The field at a position of a struct gets a value; which one that is, is a rule's."""
        if value is not None:
            held = value if isinstance(value, Content) else Content(self.node(value))
            self.emit("entry", base, kind, position, held.base, held.field)

    def _compound_literal_expression(self, node: Node) -> Value | None:
        literal = self.fresh("literal")
        kind = node.child_by_field_name("type")
        value = node.child_by_field_name("value")
        written = "" if kind is None else text(kind)
        if value is not None:
            self._initialise(literal, "" if "*" in written else "?", value)
        self.emit("record", literal)
        return Address(literal, "", 1) if "[" in written else Content(literal)

    # -- statements --------------------------------------------------------------------------

    def statement(self, node: Node | None) -> Value | None:
        if node is None:
            return None
        if node.type == "declaration":
            self.scopes.enumerators(node)
            for declaration in declared(node):
                self._declared(self.scopes.declare(declaration), declaration)
            return None
        if node.type == "return_statement":
            value = self.join([self.value(child) for child in parts(node)])
            self.put(Content(f"{self._function}()"), value)
            return None
        if node.type in {"goto_statement", "preproc_def", "preproc_call", "preproc_include"}:
            return None
        opens = node.type in {"compound_statement", "for_statement"}
        if opens:
            self.scopes.enter()
        last: Value | None = None
        for child in parts(node):
            if (
                child.type.endswith("_statement")
                or child.type.startswith("preproc_")
                or child.type in {"declaration", "else_clause"}
            ):
                last = self.statement(child)
            elif child.type not in {"statement_identifier", "type_definition"}:
                last = self.value(child)
        if opens:
            self.scopes.leave()
        return last


_RECORDS = {"struct_specifier", "union_specifier"}


def type_facts(root: Node) -> Iterator[Fact]:
    """The facts of every struct, union and type name declared in a file. O(nodes)."""
    stack = [root]
    while stack:
        node = stack.pop()
        stack.extend(node.named_children)
        if node.type == "type_definition":
            for declaration in declared(node):
                yield from _named(declaration)
                if not declaration.shape and declaration.base == "record":
                    yield from _layout(declaration.name, node.child_by_field_name("type"))
        elif node.type in _RECORDS:
            for field in fields(node):
                yield from _field(field)
            tag = node.child_by_field_name("name")
            if tag is not None:
                yield from _layout(f"struct {text(tag)}", node)
            if node.type == "union_specifier":
                names = sorted(set(_names(node)))
                for name in names[1:]:
                    yield "overlaps", (names[0], name)
                    yield "overlaps", (name, names[0])


def typed_facts(symbol: str, declaration: Declared | None) -> Iterator[Fact]:
    """Whether a variable, or the value that a function returns, is a struct as a whole."""
    if declaration is None or not declaration.may_be_record:
        return
    if declaration.base == "record":
        yield "record", (symbol,)
    else:
        yield "typed", (symbol, declaration.base_name)


def _named(declaration: Declared) -> Iterator[Fact]:
    if declaration.shape:
        return
    if declaration.base == "record":
        yield "record_type", (declaration.name,)
        if declaration.base_name:
            yield "same_type", (declaration.name, declaration.base_name)
    elif declaration.base == "named":
        yield "same_type", (declaration.name, declaration.base_name)


def _layout(name: str, record: Node | None) -> Iterator[Fact]:
    """Which field stands where in a struct, if all of its text is plain declarations of fields."""
    body = None if record is None else record.child_by_field_name("body")
    if record is None or body is None or record.type != "struct_specifier" or body.has_error:
        return
    items = list(parts(body))
    if any(item.type != "field_declaration" or not list(declared(item)) for item in items):
        return
    for position, field in enumerate(field for item in items for field in declared(item)):
        yield "field_at", (name, str(position), field.name)


def _field(field: Declared) -> Iterator[Fact]:
    yield "array_field" if field.shape[:1] == ("array",) else "plain_field", (field.name,)
    if field.shape[:2] == ("array", "array"):
        yield "grid_field", (field.name,)
    if field.may_be_record:
        if field.base == "record":
            yield "embedded", (field.name,)
        else:
            yield "field_typed", (field.name, field.base_name)


def _names(node: Node) -> Iterator[str]:
    """The names of all fields written inside, at any depth; those of structs without their own."""
    for child in parts(node):
        if child.type == "field_declaration":
            yield from (
                field.name for field in declared(child) if field.base != "record" or field.shape
            )
        yield from _names(child)
