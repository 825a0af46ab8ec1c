"""Join order: for every set of literals already joined, what can come next and how.

The order itself is chosen at run time, per binding, by the number of candidate rows; this module
lists the options. A literal is an option when one of its columns is known (or nothing is
connected). Bodies of more than `FREE` literals left keep only the literals with the most known
columns, so that the number of nodes stays small. Re-derivation takes only options whose index is
there already, and adds one only where there is none (measured: tc needs no index for it on its
large relation). Invariant: the nodes of a variant form a DAG from node 0; each path joins every
literal once and runs every check as soon as its arguments are known.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from deltafix.plan.best import best_of
from deltafix.plan.clause import Absent, Apply, Argument, Clause, Code, Compare, Match, Slot
from deltafix.plan.depend import Layer
from deltafix.plan.derive import sees
from deltafix.plan.ir import HEAD, Candidate, Check, Node, Variant

__all__ = ["FREE", "Indexes", "variant"]

FREE = 6


@dataclass
class Indexes:
    """The key columns that each relation is indexed by, in the order they were asked for."""

    columns: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)

    def has(self, relation: str, columns: tuple[int, ...]) -> bool:
        """Whether there is an index on exactly these columns."""
        return columns in self.columns.get(relation, ())

    def add(self, relation: str, columns: tuple[int, ...]) -> None:
        """Ask for an index on these columns."""
        if not self.has(relation, columns):
            self.columns.setdefault(relation, []).append(columns)

    def within(self, relation: str, columns: tuple[int, ...]) -> tuple[int, ...] | None:
        """The index with the most columns among those that use only the given ones."""
        usable = [c for c in self.columns.get(relation, ()) if set(c) <= set(columns)]
        return max(usable, key=len, default=None)


def variant(layer: Layer, clause: Clause, trigger: int | None, indexes: Indexes) -> Variant:
    """The variant of `clause` started by the literal `trigger` (see `ir.Variant`)."""
    return _Builder(layer, clause, trigger, indexes).build()


class _Builder:
    def __init__(self, layer: Layer, clause: Clause, trigger: int | None, indexes: Indexes) -> None:
        self.layer = layer
        self.clause = clause
        self.trigger = trigger
        self.indexes = indexes
        self.nodes: list[Node | None] = []
        self.made: dict[frozenset[int], int] = {}

    def build(self) -> Variant:
        bound: set[Slot] = set()
        binds: tuple[tuple[int, Argument, bool], ...] = ()
        todo = frozenset(range(len(self.clause.body)))
        if self.trigger is not None:
            args: tuple[Argument | None, ...]
            if self.trigger < 0:
                args = self.head()
            else:
                literal = self.clause.body[self.trigger]
                assert isinstance(literal, Match | Absent)  # noqa: S101  only these trigger
                args = literal.args
                todo -= {self.trigger}
            binds = _binding(args, range(len(args)), bound)
        self.node(todo, frozenset(bound))
        slots = dict.fromkeys(
            slot for literal in (*self.clause.body, self.clause) for slot in _slots_of(literal)
        )
        nodes = tuple(node for node in self.nodes if node is not None)
        return Variant(self.clause, self.trigger, binds, tuple(slots), nodes)

    def head(self) -> tuple[Argument | None, ...]:
        """The head's arguments that are known: of a KEY variant all but the kept one."""
        if self.trigger == HEAD:
            return self.clause.args
        kept = dict(best_of(self.layer))[self.clause.head].column
        return tuple(None if c == kept else arg for c, arg in enumerate(self.clause.args))

    def node(self, todo: frozenset[int], bound: frozenset[Slot]) -> int:
        """The node for what is left to do; nodes are shared between orders."""
        if todo in self.made:
            return self.made[todo]
        number = len(self.nodes)
        self.made[todo] = number
        self.nodes.append(None)
        known = set(bound)
        checks, left = self.checks(todo, known)
        options = self.options(left, known)
        candidates = []
        for position, index in options:
            literal = self.clause.body[position]
            assert isinstance(literal, Match)  # noqa: S101  checks are done, matches are left
            keys = tuple(arg for arg in (literal.args[c] for c in index) if arg is not None)
            inner = set(known)
            rest = [c for c in range(len(literal.args)) if c not in index]
            binds = _binding(literal.args, rest, inner)
            child = self.node(left - {position}, frozenset(inner))
            state = sees(self.layer, self.clause, self.trigger, position)
            candidates.append(Candidate(position, literal, state, index, keys, binds, child))
        self.nodes[number] = Node(tuple(checks), tuple(candidates))
        return number

    def checks(self, todo: frozenset[int], known: set[Slot]) -> tuple[list[Check], frozenset[int]]:
        """The checks that are ready, in an order that lets one bind for the next."""
        found: list[Check] = []
        left = set(todo)
        progress = True
        while progress:
            progress = False
            for position in sorted(left):
                literal = self.clause.body[position]
                if isinstance(literal, Match):
                    continue
                binds = _ready(literal, known)
                if binds is False:
                    continue
                state = sees(self.layer, self.clause, self.trigger, position)
                slot = binds if isinstance(binds, Slot) else None
                found.append(Check(literal, state, slot))
                if slot is not None:
                    known.add(slot)
                left.remove(position)
                progress = True
        return found, frozenset(left)

    def options(self, left: frozenset[int], known: set[Slot]) -> list[tuple[int, tuple[int, ...]]]:
        """Literals that may come next, each with the index that finds it."""
        matches = []
        for position in sorted(left):
            literal = self.clause.body[position]
            if isinstance(literal, Match):
                columns = tuple(
                    c for c, arg in enumerate(literal.args) if isinstance(arg, Code) or arg in known
                )
                matches.append((position, literal, columns))
        if not matches:
            return []
        connected = [m for m in matches if m[2] or not m[1].args] or matches
        if len(matches) > FREE:
            most = max(len(m[2]) for m in connected)
            connected = [m for m in connected if len(m[2]) == most][:1]
        if self.trigger is not None and self.trigger < 0:
            return self.existing(connected)
        found = []
        for position, literal, columns in connected:
            if columns and len(columns) < len(literal.args):
                self.indexes.add(literal.relation, columns)
            found.append((position, columns))
        return found

    def existing(
        self, options: list[tuple[int, Match, tuple[int, ...]]]
    ) -> list[tuple[int, tuple[int, ...]]]:
        """Options of a re-derivation: those with an index, or one new index on the best."""
        found = []
        for position, literal, columns in options:
            if len(columns) == len(literal.args):
                found.append((position, columns))
                continue
            usable = self.indexes.within(literal.relation, columns)
            if usable is not None:
                found.append((position, usable))
        if found:
            return found
        lower = [o for o in options if o[1].relation not in self.layer.relations] or options
        position, literal, columns = max(lower, key=lambda o: len(o[2]))
        if columns:
            self.indexes.add(literal.relation, columns)
        return [(position, columns)]


def _slots_of(literal: object) -> tuple[Slot, ...]:
    """The variables of a literal or of a clause's head."""
    if isinstance(literal, Match | Absent | Clause):
        return tuple(arg for arg in literal.args if isinstance(arg, Slot))
    if isinstance(literal, Compare):
        return tuple(arg for arg in (literal.left, literal.right) if isinstance(arg, Slot))
    assert isinstance(literal, Apply)  # noqa: S101  the remaining kind
    return (literal.target, *(arg for arg in literal.args if isinstance(arg, Slot)))


def _binding(
    args: tuple[Argument | None, ...], columns: range | list[int], known: set[Slot]
) -> tuple[tuple[int, Argument, bool], ...]:
    """What matching a row's columns binds and tests; adds the bound variables to `known`."""
    found = []
    for column in columns:
        arg = args[column]
        if arg is None:
            continue
        binds = isinstance(arg, Slot) and arg not in known
        found.append((column, arg, binds))
        if isinstance(arg, Slot):
            known.add(arg)
    return tuple(found)


def _ready(literal: Compare | Apply | Absent, known: set[Slot]) -> Slot | bool:
    """False: not yet. True: it tests. A slot: it binds that variable."""

    def has(arg: Argument) -> bool:
        return isinstance(arg, Code) or arg in known

    if isinstance(literal, Absent):
        return all(map(has, literal.args))
    if isinstance(literal, Apply):
        if not all(map(has, literal.args)):
            return False
        return True if literal.target in known else literal.target
    left, right = has(literal.left), has(literal.right)
    if left and right:
        return True
    if literal.op == "=" and left and isinstance(literal.right, Slot):
        return literal.right
    if literal.op == "=" and right and isinstance(literal.left, Slot):
        return literal.left
    return False
