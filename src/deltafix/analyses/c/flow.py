"""Control flow of a C function: statements on top of `expressions`.

Invariant: step 0 is the entry. The sides of an #if are alternatives: one of them is taken, or none
where there is no #else. Code that nothing jumps to has steps without a way in.
A call is taken to return, and no signal or longjmp interrupts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltafix.analyses.c.declare import declared, parameters
from deltafix.analyses.c.expressions import Expressions
from deltafix.analyses.c.parse import PREPROCESSED, parts, text

if TYPE_CHECKING:
    from tree_sitter import Node

    from deltafix.analyses.c.declare import Declared
    from deltafix.analyses.c.scopes import Scopes

_STEPPED = {"assignment_expression", "update_expression", "gnu_asm_expression"}


class Flow(Expressions):
    """The graph of one function.

    Attributes:
        function: its id in the file.
        steps: the nodes; edges: pairs of their numbers.
        leaves: numbers of the steps after which control leaves the function.
        met: symbol to meaning of every variable that a step mentions.
        exposed: symbols of the variables that others may reach.
    """

    def __init__(self, scopes: Scopes, definition: Node, declaration: Declared) -> None:
        super().__init__(scopes)
        self.function = scopes.enter_function(declaration.name)
        self.leaves: list[int] = []
        self._labels: dict[str, int] = {}
        self._gotos: list[tuple[int, str]] = []
        self._anywhere: list[int] = []
        self._breaks: list[list[int]] = []
        self._continues: list[list[int]] = []
        self._cases: list[tuple[int, bool]] = []
        entry = self.step(definition)
        parameter_meanings = [
            scopes.declare(parameter, "parameter")
            for parameter in parameters(declaration.inner)
            if parameter is not None
        ]
        body = definition.child_by_field_name("body")
        if body is not None:
            self._assume_globals(body)
            self.at([0])
            self.statement(body)
        self.leaves += self.ends
        self._jump()
        entry.sets.update(meaning.symbol for meaning in parameter_meanings)
        self.met.update({meaning.symbol: meaning for meaning in parameter_meanings})
        entry.sets.update(symbol for symbol, meaning in self.met.items() if meaning.is_shared)
        self.exposed.update(symbol for symbol, meaning in self.met.items() if meaning.is_shared)
        scopes.leave()

    def _assume_globals(self, body: Node) -> None:
        """Names that are assigned and declared nowhere in the file are variables of another."""
        local = {
            declaration.name
            for node in _all(body, {"declaration"})
            for declaration in declared(node)
        }
        for node in _all(body, _STEPPED):
            left = node.child_by_field_name("left") or node.child_by_field_name("argument")
            if left is not None and left.type == "identifier":
                name = text(left)
                if name not in local and self.scopes.look(name) is None:
                    self.scopes.assume(name)

    def _jump(self) -> None:
        """Draw the edges of goto; a computed one may go to every label."""
        for source, label in self._gotos:
            if label in self._labels:
                self.edges.add((source, self._labels[label]))
        self.edges.update((m, n) for m in self._anywhere for n in self._labels.values())

    def statement(self, node: Node) -> None:
        """Read a statement from the current ends."""
        self.at(self.ends)
        reader = getattr(self, f"_{node.type}", None)
        if node.type in PREPROCESSED:
            self._sides(node)
        elif reader is not None:
            reader(node)
        elif node.type == "declaration":
            self._declare(node)
        elif not node.type.startswith("preproc_"):
            for child in parts(node):
                self.statement(child) if _is_statement(child) else self.value(child)
        self.at(self.ends)

    def _within(self, node: Node | None) -> None:
        for child in () if node is None else parts(node):
            self.statement(child)

    def _compound_statement(self, node: Node) -> None:
        self.scopes.enter()
        self._within(node)
        self.scopes.leave()

    def _sides(self, node: Node) -> None:
        """The sides of an #if, as alternatives."""
        start, ends = self.ends, []
        side: Node | None = node
        while side is not None:
            self.at(start)
            tested = (side.child_by_field_name("condition"), side.child_by_field_name("name"))
            other = side.child_by_field_name("alternative")
            for child in parts(side):
                if child not in (*tested, other):
                    self.statement(child)
            ends += self.ends
            if other is None and side.type != "preproc_else":
                ends += start
            side = other
        self.at(ends)

    def _declare(self, node: Node) -> None:
        self.scopes.enumerators(node)
        for declaration in declared(node):
            meaning = self.scopes.declare(declaration)
            if not meaning.is_variable:
                continue
            if meaning.kind != "local":
                self.met[meaning.symbol] = meaning
                continue
            if declaration.shape[:1] == ("array",):
                self.value(
                    declaration.at.parent.child_by_field_name("size")
                    if declaration.at.parent
                    else None
                )
                self.expose(meaning)
            if declaration.value is None:
                step = self.write(declaration.at)
                step.declares.add(self.name(meaning))
            else:
                self.value(declaration.value)
                self.set(meaning, declaration.at)

    # -- branches and loops ------------------------------------------------------------------

    def _if_statement(self, node: Node) -> None:
        branches = self.condition(node.child_by_field_name("condition"))
        self.at(branches.true)
        self._one(node.child_by_field_name("consequence"))
        ends = self.ends
        self.at(branches.false)
        other = node.child_by_field_name("alternative")
        self._within(other)
        self.at(ends + self.ends)

    def _one(self, node: Node | None) -> None:
        if node is not None:
            self.statement(node)

    def _while_statement(self, node: Node) -> None:
        head = self._join(node)
        branches = self.condition(node.child_by_field_name("condition"))
        self._loop(node, head, branches.true, None)
        self.at(branches.false + self._breaks.pop())

    def _for_statement(self, node: Node) -> None:
        self.scopes.enter()
        start = node.child_by_field_name("initializer")
        if start is not None:
            self.statement(start)
        head = self._join(node)
        tested = node.child_by_field_name("condition")
        ends = self.ends
        self.at(ends)
        branches = self.condition(tested)
        self._loop(node, head, branches.true, node.child_by_field_name("update"))
        self.at((branches.false if tested is not None else []) + self._breaks.pop())
        self.scopes.leave()

    def _loop(self, node: Node, head: int, inside: list[int], update: Node | None) -> None:
        """Body and update of a loop, back to its head; leaves the breaks for the caller."""
        self._breaks.append([])
        self._continues.append([])
        self.at(inside)
        self._one(node.child_by_field_name("body"))
        self.at(self.ends + self._continues.pop())
        if self.ends:
            self.value(update)
        self.edges.update((end, head) for end in self.ends)

    def _do_statement(self, node: Node) -> None:
        head = self._join(node)
        self._breaks.append([])
        self._continues.append([])
        self._one(node.child_by_field_name("body"))
        self.at(self.ends + self._continues.pop())
        branches = self.condition(node.child_by_field_name("condition"))
        self.edges.update((end, head) for end in branches.true)
        self.at(branches.false + self._breaks.pop())

    def _switch_statement(self, node: Node) -> None:
        self.value(node.child_by_field_name("condition"))
        before = self.ends
        outer, self._cases = self._cases, []
        self._breaks.append([])
        self.at([])
        self._one(node.child_by_field_name("body"))
        self.edges.update((source, case) for source in before for case, _ in self._cases)
        covered = any(default for _, default in self._cases)
        self._cases = outer
        self.at(self.ends + self._breaks.pop() + ([] if covered else before))

    def _case_statement(self, node: Node) -> None:
        value = node.child_by_field_name("value")
        self._cases.append((self._join(node), value is None))
        for child in parts(node):
            if child != value and child.type != "ERROR":
                self.statement(child)

    # -- jumps -------------------------------------------------------------------------------

    def _join(self, node: Node) -> int:
        """A step that others jump to."""
        self.step(node)
        joined = self.ends[0]
        self.at([joined])
        return joined

    def _labeled_statement(self, node: Node) -> None:
        label = node.child_by_field_name("label")
        joined = self._join(node)
        if label is not None:
            self._labels[text(label)] = joined
        for child in parts(node):
            if child != label:
                self.statement(child)

    def _goto_statement(self, node: Node) -> None:
        label = node.child_by_field_name("label")
        joined = self._join(node)
        if any(child.type == "ERROR" for child in node.children):  # goto *label
            target = None if label is None else self.scopes.look(text(label))
            if target is not None and target.is_variable:
                self.use(target, node)
            self._anywhere += self.ends
        elif label is not None:
            self._gotos.append((joined, text(label)))
        self.at([])

    def _break_statement(self, node: Node) -> None:
        if self._breaks:
            self._breaks[-1] += self.ends
        self.at([])

    def _continue_statement(self, node: Node) -> None:
        if self._continues:
            self._continues[-1] += self.ends
        self.at([])

    def _return_statement(self, node: Node) -> None:
        for child in parts(node):
            self.value(child)
        self.leaves += self.ends
        self.at([])


def _is_statement(node: Node) -> bool:
    return node.type.endswith("_statement") or node.type in {"declaration", *PREPROCESSED}


def _all(node: Node, kinds: set[str]) -> list[Node]:
    """The nodes of these kinds inside one, in the order of the text."""
    nodes = [node] if node.type in kinds else []
    for child in node.named_children:
        nodes += _all(child, kinds)
    return nodes
