"""What C expressions do in steps of control flow: read, write, hand out addresses, branch.

Invariant: every path that the text allows is a path of the graph. `&&`, `||` and `?:` branch, so
each operand has steps of its own. Operands are taken from left to right, the right side of an
assignment before its left side; C leaves most of that order open.

A step is a piece of one expression: first it reads its variables, then it writes; a variable read
after a write starts a new step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltafix.analyses.c.parse import parts, text

if TYPE_CHECKING:
    from tree_sitter import Node

    from deltafix.analyses.c.scopes import Meaning, Scopes


@dataclass(slots=True)
class Step:
    """One node of the graph. The sets hold symbols of variables.

    Attributes:
        line: where it stands, from 1.
        uses: variables it reads.
        sets: variables that get a new value.
        declares: variables that it brings into being without a value.
        may_set: variables of which it may write all or a part.
        hands: variables that a call here gets as they are and that it may write, if it is a macro
            or the variable an array behind a type's name.
        clobbers: whether it may write what others can reach: it calls, or stores through a pointer.
    """

    line: int
    uses: set[str] = field(default_factory=set)
    sets: set[str] = field(default_factory=set)
    declares: set[str] = field(default_factory=set)
    may_set: set[str] = field(default_factory=set)
    hands: set[str] = field(default_factory=set)
    clobbers: bool = False

    @property
    def writes(self) -> bool:
        """Whether reads that follow belong to another step."""
        return self.clobbers or bool(self.sets or self.declares or self.may_set or self.hands)


_UNREAD = {
    "sizeof_expression", "alignof_expression", "offsetof_expression", "type_descriptor",
    "macro_type_specifier", "field_identifier", "type_identifier", "primitive_type",
}  # fmt: skip
_LIST_MACROS = {"va_start", "va_copy", "va_end"}


@dataclass(frozen=True, slots=True)
class Branches:
    """The steps that a condition leaves from when it holds, and when it does not."""

    true: list[int]
    false: list[int]


class Expressions:
    """Adds to a graph what expressions do."""

    def __init__(self, scopes: Scopes) -> None:
        self.scopes = scopes
        self.steps: list[Step] = []
        self.edges: set[tuple[int, int]] = set()
        self.exposed: set[str] = set()
        self.met: dict[str, Meaning] = {}
        self.ends: list[int] = []
        self._open: Step | None = None

    def step(self, at: Node) -> Step:
        """A new step behind all ends; it becomes the only end."""
        step = Step(int(at.start_point[0]) + 1)
        number = len(self.steps)
        self.steps.append(step)
        self.edges.update((end, number) for end in self.ends)
        self.ends = [number]
        self._open = step
        return step

    def at(self, ends: list[int]) -> None:
        """Go on from other ends; what follows starts a new step."""
        self.ends = list(dict.fromkeys(ends))
        self._open = None

    # -- events ------------------------------------------------------------------------------

    def use(self, variable: Meaning, at: Node) -> None:
        """The variable is read."""
        step = self._open
        if step is None or step.writes:
            step = self.step(at)
        step.uses.add(self.name(variable))

    def write(self, at: Node) -> Step:
        """The step that takes a write."""
        return self._open or self.step(at)

    def set(self, variable: Meaning, at: Node) -> None:
        """The whole variable gets a value."""
        name = self.name(variable)
        step = self.write(at)
        if name in step.sets or name in step.declares:
            step = self.step(at)
        step.sets.add(name)

    def name(self, variable: Meaning) -> str:
        """The symbol of a variable, which counts as met."""
        self.met[variable.symbol] = variable
        return variable.symbol

    def variable(self, node: Node | None) -> Meaning | None:
        """The variable that an expression names, parentheses aside, or None."""
        while node is not None and node.type == "parenthesized_expression":
            node = next(parts(node), None)
        if node is None or node.type != "identifier":
            return None
        meaning = self.scopes.look(text(node))
        return meaning if meaning is not None and meaning.is_variable else None

    def expose(self, variable: Meaning) -> None:
        """Somebody may hold the address of the variable."""
        self.exposed.add(self.name(variable))

    def statement(self, node: Node) -> None:
        """A statement inside an expression; `flow` knows them."""
        raise NotImplementedError

    # -- values ------------------------------------------------------------------------------

    def value(self, node: Node | None) -> None:
        """Evaluate an expression."""
        if node is None or node.type in _UNREAD:
            return
        reader = getattr(self, f"_{node.type}", None)
        if reader is not None:
            reader(node)
        elif node.type in {"compound_statement", "declaration"} or node.type.endswith("_statement"):
            self.statement(node)
        else:
            for child in parts(node):
                self.value(child)

    def _identifier(self, node: Node) -> None:
        meaning = self.variable(node)
        if meaning is not None:
            self.use(meaning, node)
            if _is_array(meaning):
                self.expose(meaning)

    def _field_expression(self, node: Node) -> None:
        inner = node.child_by_field_name("argument")
        root, _ = self.part_of(node)
        if root is not None:
            self.expose(root)  # it has parts, so it is an aggregate
        self.value(inner)

    def _subscript_expression(self, node: Node) -> None:
        self.value(node.child_by_field_name("argument"))
        self.value(node.child_by_field_name("index"))

    def _pointer_expression(self, node: Node) -> None:
        inner = node.child_by_field_name("argument")
        operator = node.child_by_field_name("operator")
        if operator is None or text(operator) == "*":
            self.value(inner)
            return
        root, _ = self.part_of(inner)
        if root is not None:
            self.expose(root)
        self._place(inner)

    def _assignment_expression(self, node: Node) -> None:
        left = node.child_by_field_name("left")
        operator = node.child_by_field_name("operator")
        if operator is not None and text(operator) != "=":
            self.value(left)
        self.value(node.child_by_field_name("right"))
        self.store(left)

    def _update_expression(self, node: Node) -> None:
        inner = node.child_by_field_name("argument")
        self.value(inner)
        self.store(inner)

    def _binary_expression(self, node: Node) -> None:
        operator = node.child_by_field_name("operator")
        if operator is not None and text(operator) in {"&&", "||"}:
            branches = self.condition(node)
            self.at(branches.true + branches.false)
            return
        self.value(node.child_by_field_name("left"))
        self.value(node.child_by_field_name("right"))

    def _conditional_expression(self, node: Node) -> None:
        consequence = node.child_by_field_name("consequence")
        branches = self.condition(node.child_by_field_name("condition"))
        self.at(branches.true)
        if consequence is not None:  # a ?: b takes the value of a
            self.value(consequence)
        ends = self.ends
        self.at(branches.false)
        self.value(node.child_by_field_name("alternative"))
        self.at(ends + self.ends)

    def _call_expression(self, node: Node) -> None:
        called = node.child_by_field_name("function")
        argument_list = node.child_by_field_name("arguments")
        self.value(called)
        arguments = [] if argument_list is None else list(parts(argument_list))
        name = text(called) if called is not None and called.type == "identifier" else ""
        handed = []
        for argument in arguments:
            variable = self.variable(argument)
            if variable is not None and self._may_write(name, variable):
                handed.append(variable)
            if variable is None or name not in _LIST_MACROS:
                self.value(argument)
        step = self.write(node)
        step.clobbers = True
        step.hands.update(self.name(variable) for variable in handed)

    def _may_write(self, name: str, variable: Meaning) -> bool:
        """Whether a call by this name may write a variable that it gets by value.

        A macro may; one of a header is taken to be a name with a capital letter that the file does
        not declare. So may a function, if the type's name stands for an array.
        """
        meaning = self.scopes.look(name) if name else None
        if meaning is not None and meaning.kind == "macro":
            return True
        if name in _LIST_MACROS or (meaning is None and name != name.lower()):
            return True
        declared = variable.declared
        return declared is None or (not declared.shape and declared.base == "named")

    def _gnu_asm_expression(self, node: Node) -> None:
        outputs = node.child_by_field_name("output_operands")
        self.value(node.child_by_field_name("input_operands"))
        for operand in () if outputs is None else parts(outputs):
            self.store(operand.child_by_field_name("value"))
        self.write(node).clobbers = True

    # -- places ------------------------------------------------------------------------------

    def part_of(self, node: Node | None) -> tuple[Meaning | None, bool]:
        """(variable that a place is all or a part of, whether it may lie behind a pointer)."""
        if node is None:
            return None, True
        inner = node.child_by_field_name("argument")
        if node.type == "parenthesized_expression":
            return self.part_of(next(parts(node), None))
        if node.type == "identifier":
            return self.variable(node), False
        if node.type == "field_expression":
            operator = node.child_by_field_name("operator")
            dotted = operator is None or text(operator) == "."
            return self.part_of(inner) if dotted else (None, True)
        if node.type == "subscript_expression":
            variable = self.variable(inner)
            if variable is not None:
                return (variable, False) if _is_array(variable) else (None, True)
            return self.part_of(inner)[0], True  # of an array in an aggregate, or of a pointer
        return None, True

    def _place(self, node: Node | None) -> None:
        """Evaluate what finds a place, without reading the place itself."""
        if node is None or self.variable(node) is not None:
            return
        if node.type == "parenthesized_expression":
            self._place(next(parts(node), None))
        elif node.type == "field_expression" and self.part_of(node)[0] is not None:
            self._place(node.child_by_field_name("argument"))
        elif node.type == "subscript_expression":
            self._place_of_element(node)
        elif node.type == "compound_literal_expression":
            self.value(node)
        else:
            for child in parts(node):
                self.value(child)

    def _place_of_element(self, node: Node) -> None:
        inner = node.child_by_field_name("argument")
        variable = self.variable(inner)
        if variable is not None and _is_array(variable):
            self.expose(variable)
        elif inner is not None and inner.type == "subscript_expression":
            self._place(inner)
        else:
            self.value(inner)
        self.value(node.child_by_field_name("index"))

    def store(self, left: Node | None) -> None:
        """Write to a place: all of a variable, a part of one, or through a pointer."""
        if left is None:
            return
        variable = self.variable(left)
        if variable is not None:
            self.set(variable, left)
            return
        self._place(left)
        root, behind = self.part_of(left)
        if root is not None:
            self.expose(root)
        step = self.write(left)
        if root is not None:
            step.may_set.add(self.name(root))
        step.clobbers = step.clobbers or behind

    # -- conditions --------------------------------------------------------------------------

    def condition(self, node: Node | None) -> Branches:
        """Evaluate for truth; both sides of `&&`, `||` and `!` keep their own ends."""
        if node is None:
            return Branches(self.ends, self.ends)
        operator = node.child_by_field_name("operator")
        written = "" if operator is None else text(operator)
        if node.type == "parenthesized_expression":
            inner = next(parts(node), None)
            if inner is not None and inner.type != "compound_statement":
                return self.condition(inner)
        if node.type == "unary_expression" and written == "!":
            turned = self.condition(node.child_by_field_name("argument"))
            return Branches(turned.false, turned.true)
        if node.type == "binary_expression" and written in {"&&", "||"}:
            first = self.condition(node.child_by_field_name("left"))
            self.at(first.true if written == "&&" else first.false)
            second = self.condition(node.child_by_field_name("right"))
            if written == "&&":
                return Branches(second.true, first.false + second.false)
            return Branches(first.true + second.true, second.false)
        if node.type == "number_literal" or node.type in {"true", "false"}:
            holds = node.type == "true" or _number(text(node)) not in {0, None}
            unknown = node.type == "number_literal" and _number(text(node)) is None
            return Branches(
                self.ends if holds or unknown else [], [] if holds and not unknown else self.ends
            )
        self.value(node)
        ends = self.ends
        self.at(ends)
        return Branches(ends, ends)


def _is_array(variable: Meaning) -> bool:
    return variable.declared is not None and variable.declared.shape[:1] == ("array",)


def _number(written: str) -> int | None:
    try:
        return int(written.rstrip("uUlL"), 0)
    except ValueError:
        return None
