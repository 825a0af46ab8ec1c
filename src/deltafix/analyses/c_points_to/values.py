"""What C expressions mean as inclusion constraints.

    Content(x, f)   what the location x.f holds
    Address(x, f)   its address
    Behind(p, f)    what p->f holds, p being all of a variable or temporary

Invariant: evaluating an expression states the constraints of everything in it, whether or not its
value can be a pointer; `None` is a value that cannot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from deltafix.analyses.c.parse import parts, text
from deltafix.analyses.facts import Fact, Place

if TYPE_CHECKING:
    from tree_sitter import Node

    from deltafix.analyses.c.scopes import Meaning, Scopes

_NO_POINTER = {
    "number_literal", "char_literal", "null", "true", "false", "sizeof_expression",
    "alignof_expression", "offsetof_expression", "type_descriptor", "field_identifier",
    "type_identifier", "primitive_type", "preproc_call", "preproc_def",
}  # fmt: skip
_AROUND_CALLEE = {"parenthesized_expression", "pointer_expression"}
_KEEPING = {"+", "-", "&", "|", "^", ","}  # a pointer goes in and one of its object comes out


@dataclass(frozen=True, slots=True)
class Content:
    """What a location holds."""

    base: str
    field: str = ""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a location; `ranks` arrays deep, for the name of an array."""

    base: str
    field: str = ""
    ranks: int = 0


@dataclass(frozen=True, slots=True)
class Behind:
    """What a field, or with "" all, of what a pointer points to holds."""

    pointer: str
    field: str = ""


Value: TypeAlias = Content | Address | Behind


class Values:
    """Reads expressions of one function, or of one initialiser outside of functions."""

    def __init__(self, scopes: Scopes) -> None:
        self.scopes = scopes
        self.facts: list[Fact] = []
        self.places: list[Place] = []
        self.inside = ""
        self._counts: Counter[str] = Counter()

    def begin(self, inside: str) -> None:
        """Go on in another function: temporaries and sites are counted from 1 in each."""
        self.inside = inside
        self._counts.clear()

    def emit(self, relation: str, *row: str) -> None:
        """State a fact."""
        self.facts.append((relation, row))

    def statement(self, node: Node | None) -> Value | None:
        """A statement inside an expression, and the value of its last expression."""
        raise NotImplementedError

    @property
    def caller(self) -> str:
        """The function that calls here are told of."""
        raise NotImplementedError

    # -- constraints -------------------------------------------------------------------------

    def fresh(self, what: str) -> str:
        """The next name of its kind in this function."""
        self._counts[what] += 1
        return f"{self.inside}@{what}#{self._counts[what]}"

    def put(self, location: Value | None, value: Value | None) -> None:
        """A place gets a value."""
        if value is None:
            return
        if isinstance(location, Behind):
            if not isinstance(value, Content):
                value = Content(self.node(value))
            self.emit("store", location.pointer, location.field, value.base, value.field)
        elif isinstance(location, Content):
            match value:
                case Content(base, field):
                    self.emit("copy", location.base, location.field, base, field)
                case Address(base, field):
                    self.emit("addr", location.base, location.field, base, field)
                case Behind(pointer, field):
                    self.emit("load", location.base, location.field, pointer, field)

    def node(self, value: Value) -> str:
        """A base all of which holds the value."""
        if isinstance(value, Content) and not value.field:
            return value.base
        holder = self.fresh("t")
        self.put(Content(holder), value)
        return holder

    def join(self, values: Iterable[Value | None]) -> Value | None:
        """A value that may be any of them."""
        pointers = list(dict.fromkeys(value for value in values if value is not None))
        if len(pointers) < 2:
            return pointers[0] if pointers else None
        holder = Content(self.fresh("t"))
        for value in pointers:
            self.put(holder, value)
            if not isinstance(value, Address):
                self.emit("record", holder.base)  # it may be one: all fields go along
        return holder

    # -- places ------------------------------------------------------------------------------

    def variable(self, node: Node | None) -> Meaning | None:
        """What a name means, if it may be a variable or a function."""
        if node is None or node.type != "identifier":
            return None
        meaning = self.scopes.look(text(node))
        if meaning is None:
            meaning = self.scopes.assume(text(node))
        return meaning if meaning.is_variable or meaning.kind == "function" else None

    def location(self, node: Node | None) -> Value | None:
        """The location that an expression names; of a value that has none, a temporary."""
        if node is None:
            return None
        inner = node.child_by_field_name("argument")
        if node.type == "identifier":
            meaning = self.variable(node)
            return None if meaning is None else Content(meaning.symbol)
        if node.type == "parenthesized_expression":
            return self.location(next(parts(node), None))
        if node.type == "pointer_expression" and text(node.children[0]) == "*":
            return self.target(self.value(inner))
        if node.type == "subscript_expression":
            self.value(node.child_by_field_name("index"))
            return self.target(self.value(inner))
        if node.type == "field_expression":
            operator = node.child_by_field_name("operator")
            whole = (
                self.location(inner)
                if operator is None or text(operator) == "."
                else self.target(self.value(inner))
            )
            name = node.child_by_field_name("field")
            return self._field(whole, "" if name is None else text(name))
        if node.type == "cast_expression":
            return self.location(node.child_by_field_name("value"))
        value = self.value(node)
        return None if value is None else Content(self.node(value))

    def target(self, value: Value | None) -> Value | None:
        """The location that a pointer points to."""
        if value is None:
            return None
        if isinstance(value, Address):
            return Content(value.base, value.field)
        return Behind(self.node(value))

    def _field(self, whole: Value | None, name: str) -> Value | None:
        match whole:
            case Content(base) | Address(base):
                return Content(base, name)
            case Behind(pointer):
                return Behind(pointer, name)
        return None

    # -- values ------------------------------------------------------------------------------

    def value(self, node: Node | None) -> Value | None:
        """Evaluate an expression."""
        if node is None or node.type in _NO_POINTER:
            return None
        reader = getattr(self, f"_{node.type}", None)
        if reader is not None:
            read: Value | None = reader(node)
            return read
        if node.type == "compound_statement" or node.type.endswith("_statement"):
            return self.statement(node)
        return self.join([self.value(child) for child in parts(node)])

    def _identifier(self, node: Node) -> Value | None:
        meaning = self.variable(node)
        if meaning is None:
            return None
        declaration = meaning.declared
        if declaration is not None and declaration.shape[:1] == ("array",):
            ranks = next(
                (n for n, part in enumerate(declaration.shape) if part != "array"),
                len(declaration.shape),
            )
            return Address(meaning.symbol, "", ranks)
        if declaration is None:  # of another file: perhaps an array, whose name is an address
            holder = f"{meaning.symbol}@extern"
            self.emit("extern", holder, meaning.symbol)
            return Content(holder)
        return None if is_narrow(meaning) else Content(meaning.symbol)

    def _field_expression(self, node: Node) -> Value | None:
        return self.location(node)

    def _subscript_expression(self, node: Node) -> Value | None:
        self.value(node.child_by_field_name("index"))
        array = self.value(node.child_by_field_name("argument"))
        if isinstance(array, Address) and array.ranks > 1:
            return Address(array.base, array.field, array.ranks - 1)
        return self.target(array)

    def _pointer_expression(self, node: Node) -> Value | None:
        if text(node.children[0]) == "*":
            return self.location(node)
        match self.location(node.child_by_field_name("argument")):
            case Content(base, field):
                return Address(base, field)
            case Behind(pointer, ""):
                return Content(pointer)
            case Behind(pointer, field):
                holder = self.fresh("t")
                self.emit("member", holder, pointer, field)
                return Content(holder)
        return None

    def _assignment_expression(self, node: Node) -> Value | None:
        value = self.value(node.child_by_field_name("right"))
        left = node.child_by_field_name("left")
        location = self.location(left)
        operator = node.child_by_field_name("operator")
        if is_narrow(self.variable(left)):
            return None
        if operator is not None and text(operator) != "=":
            return location
        if isinstance(location, Behind) and isinstance(value, Behind):
            holder = self.fresh("t")
            self.put(Content(holder), value)
            if not (location.field or value.field):
                self.emit("record", holder)  # *p = *q may be a whole struct
            value = Content(holder)
        self.put(location, value)
        return value

    def _update_expression(self, node: Node) -> Value | None:
        return self.value(node.child_by_field_name("argument"))

    def _unary_expression(self, node: Node) -> Value | None:
        self.value(node.child_by_field_name("argument"))
        return None

    def _binary_expression(self, node: Node) -> Value | None:
        operator = node.child_by_field_name("operator")
        both = [
            self.value(node.child_by_field_name("left")),
            self.value(node.child_by_field_name("right")),
        ]
        return self.join(both) if operator is None or text(operator) in _KEEPING else None

    def _comma_expression(self, node: Node) -> Value | None:
        self.value(node.child_by_field_name("left"))
        return self.value(node.child_by_field_name("right"))

    def _conditional_expression(self, node: Node) -> Value | None:
        tested = self.value(node.child_by_field_name("condition"))
        consequence = node.child_by_field_name("consequence")
        consequent = tested if consequence is None else self.value(consequence)
        return self.join([consequent, self.value(node.child_by_field_name("alternative"))])

    def _cast_expression(self, node: Node) -> Value | None:
        return self.value(node.child_by_field_name("value"))

    def _string_literal(self, node: Node) -> Value | None:
        return Address(self.fresh("string"))

    def _concatenated_string(self, node: Node) -> Value | None:
        return Address(self.fresh("string"))

    def _call_expression(self, node: Node) -> Value | None:
        called = node.child_by_field_name("function")
        argument_list = node.child_by_field_name("arguments")
        while called is not None and called.type in _AROUND_CALLEE:
            called = next(parts(called), None)  # (*f)(x) and f(x) are the same call
        named = called is not None and called.type == "identifier"
        arguments = [
            self.value(argument)
            for argument in (() if argument_list is None else parts(argument_list))
        ]
        callee = self.location(called) if named else self.value(called)
        if callee is None:
            return None
        site = self.fresh(text(called) if called is not None and named else "*")
        self.places.append(Place(site, "call", int(node.start_point[0]) + 1))
        self.emit("site", site, self.caller)
        self.emit("call", site, self.node(callee))
        for position, value in enumerate(arguments):
            if value is not None:
                given_at = value if isinstance(value, Content) else Content(self.node(value))
                self.emit("arg", site, str(position), given_at.base, given_at.field)
        result = f"{site}()"
        self.emit("result", site, result)
        return Content(result)


def is_narrow(variable: Meaning | None) -> bool:
    """Whether a variable is of an arithmetic type that holds no pointer; wide integers may."""
    declaration = None if variable is None else variable.declared
    if declaration is None or declaration.shape or declaration.base != "scalar":
        return False
    return "long" not in declaration.base_name and "ptr" not in declaration.base_name
