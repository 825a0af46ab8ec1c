"""Steps of control flow: the graph of one function while it grows.

A step is a piece of one expression. Invariant: first it reads its variables, then it writes; a
variable read after a write starts a new step. New steps stand behind all `ends`.
What expressions do in steps is in `expressions`, statements are in `flow`.
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


class Steps:
    """Steps and edges, the variables met in them, and the ends that the next step goes behind."""

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
        made = Step(int(at.start_point[0]) + 1)
        number = len(self.steps)
        self.steps.append(made)
        self.edges.update((end, number) for end in self.ends)
        self.ends = [number]
        self._open = made
        return made

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
        found = self.scopes.look(text(node))
        return found if found is not None and found.is_variable else None

    def expose(self, variable: Meaning) -> None:
        """Somebody may hold the address of the variable."""
        self.exposed.add(self.name(variable))
