"""What one derivation says, in words: its rule, what is absent, what was compared and computed.

Values come from the codes that the search wrote down. Invariant: a hidden relation (a negated
group, see `plan.normalize`) is never named; its clauses are shown with the values put in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from deltafix.facts.schema import Row, show_value
from deltafix.plan.clause import (
    Absent,
    Apply,
    Argument,
    Clause,
    Code,
    Compare,
    Literal,
    Match,
    Slot,
)
from deltafix.plan.depend import made_by
from deltafix.provenance.program import clauses_of
from deltafix.rules.check import typed
from deltafix.rules.functors import INFIX
from deltafix.rules.passes.executable import executable
from deltafix.rules.show import show_rule
from deltafix.rules.terms import BaseType, Value

if TYPE_CHECKING:
    from deltafix.engine.codes import Codes
    from deltafix.engine.database import Database
    from deltafix.plan.ir import Plan
    from deltafix.provenance.search import Derivation
    from deltafix.rules.ast import Program

__all__ = ["Words"]

_WORDS: WeakKeyDictionary[Database, Words] = WeakKeyDictionary()


class Words:
    """The words for one program's derivations."""

    def __init__(self, program: Program, plan: Plan, codes: Codes) -> None:
        self.plan = plan
        self.types = {relation.name: relation.types for relation in plan.relations}
        self.hidden = {relation.name for relation in plan.relations if relation.hidden}
        # Rows given to a relation that keeps some of them only lie in a hidden one.
        self.given = {hidden: name for name, hidden in plan.given.items()}
        # Rules are numbered in the program that is run: inlining and demand rewrite it.
        self.rules = [show_rule(one.rule) for one in executable(typed(program)).rules]
        made = [s.outside.layer.fold for s in plan.stages if s.outside is not None]
        self.folds = {name: fold for fold in made if fold is not None for name in made_by(fold)}
        self._codes = codes
        self._slots: dict[int, dict[Slot, BaseType]] = {}
        self._behind: dict[str, list[Clause]] = {name: [] for name in self.hidden}
        for stage in plan.stages:
            for clause in clauses_of(stage):
                if clause.head in self._behind:
                    self._behind[clause.head].append(clause)

    @classmethod
    def of(cls, db: Database) -> Words:
        """The words of a database's program; made once a program."""
        found = _WORDS.get(db)
        if found is None or found.plan is not db.plan:
            found = _WORDS[db] = cls(db.program, db.plan, db._codes)
        return found

    def rule(self, clause: Clause) -> str:
        """The rule as program text."""
        return self.rules[clause.rule]

    def is_intake(self, clause: Clause) -> bool:
        """Whether a clause only takes in the rows given to its relation (see `given`)."""
        first = clause.body[0] if len(clause.body) == 1 else None
        return isinstance(first, Match) and self.given.get(first.relation) == clause.head

    def row(self, relation: str, codes: npt.NDArray[np.int32]) -> Row:
        """A row's values from its codes."""
        return tuple(
            self._value(kind, int(code))
            for kind, code in zip(self.types[relation], codes, strict=True)
        )

    def values(self, derivation: Derivation) -> dict[Slot, Value]:
        """The value of each variable of a derivation."""
        kinds = self.slot_types(derivation.clause)
        return {
            slot: self._value(kinds[slot], code)
            for slot, code in derivation.codes.items()
            if slot in kinds
        }

    def absent(self, clause: Clause, values: dict[Slot, Value]) -> tuple[str, ...]:
        """What does not hold, one phrase for each negative literal."""
        return tuple(
            self._not_there(literal, values)
            for literal in clause.body
            if isinstance(literal, Absent)
        )

    def tests(self, clause: Clause, values: dict[Slot, Value]) -> tuple[str, ...]:
        """Comparisons and computed values, one phrase each; moves of a value are left out."""
        return tuple(
            self.literal(literal, values)
            for literal in clause.body
            if isinstance(literal, Apply)
            or (isinstance(literal, Compare) and not _is_move(literal, values))
        )

    def literal(self, literal: Literal, values: dict[Slot, Value]) -> str:
        """A literal with the values put in; variables without a value stay."""
        if isinstance(literal, Match) and literal.relation in self.folds:
            last = literal.args[-1]
            value = "_" if last is None else _shown(last, values)
            return f"{self.folds[literal.relation].op} over its rows = {value}"
        if isinstance(literal, Match) and self._behind.get(literal.relation):
            inside = self._behind_it(literal, values)
            return f"({inside})" if " ; " in inside else inside
        if isinstance(literal, Match):
            inside = ", ".join("_" if a is None else _shown(a, values) for a in literal.args)
            return f"{self.given.get(literal.relation, literal.relation)}({inside})"
        if isinstance(literal, Absent):
            return self._not_there(literal, values)
        if isinstance(literal, Compare):
            left, right = _shown(literal.left, values), _shown(literal.right, values)
            return f"{left} {literal.op} {right}"
        args = [_shown(arg, values) for arg in literal.args]
        if literal.functor in INFIX:
            call = f" {literal.functor} ".join(args)
        elif literal.functor == "neg":
            call = f"-({args[0]})"
        else:
            call = f"{literal.functor}({', '.join(args)})"
        return f"{call} = {_shown(literal.target, values)}"

    def slot_types(self, clause: Clause) -> dict[Slot, BaseType]:
        """The base type of each variable of a clause. Linear in the clause, kept."""
        found = self._slots.get(id(clause))
        if found is None:
            found = self._slots[id(clause)] = self._infer(clause)
        return found

    def _infer(self, clause: Clause) -> dict[Slot, BaseType]:
        found: dict[Slot, BaseType] = {}

        def note(arg: Argument | None, kind: BaseType) -> None:
            if isinstance(arg, Slot):
                found.setdefault(arg, kind)

        for relation, args in (
            (clause.head, clause.args),
            *((b.relation, b.args) for b in clause.body if isinstance(b, Match | Absent)),
        ):
            for arg, kind in zip(args, self.types[relation], strict=True):
                note(arg, kind)
        for literal in clause.body:
            if isinstance(literal, Compare):
                note(literal.left, literal.type)
                note(literal.right, literal.type)
            elif isinstance(literal, Apply):
                for arg, kind in zip(literal.args, literal.types, strict=True):
                    note(arg, kind)
                note(literal.target, literal.result)
        return found

    def _value(self, kind: BaseType, code: int) -> Value:
        return self._codes.value(kind, code)

    def _not_there(self, literal: Absent, values: dict[Slot, Value]) -> str:
        if literal.relation not in self.hidden:
            inside = ", ".join(_shown(arg, values) for arg in literal.args)
            return f"{literal.relation}({inside}) is absent"
        if literal.relation in self.folds:
            return "no row goes into the aggregate"
        return f"nothing fits {self._behind_it(literal, values)}"

    def _behind_it(self, literal: Match | Absent, values: dict[Slot, Value]) -> str:
        """The bodies of a hidden relation's clauses, with the values of the literal put in."""
        groups = []
        for clause in self._behind[literal.relation]:
            inner = {
                slot: arg.value if isinstance(arg, Code) else values[arg]
                for slot, arg in zip(clause.args, literal.args, strict=True)
                if isinstance(slot, Slot) and arg is not None
                if isinstance(arg, Code) or arg in values
            }
            groups.append(", ".join(self.literal(part, inner) for part in clause.body))
        return " ; ".join(groups)


def _shown(arg: Argument, values: dict[Slot, Value]) -> str:
    if isinstance(arg, Code):
        return show_value(arg.value)
    if arg in values:
        return show_value(values[arg])
    return "_" if arg.name.startswith("$") else arg.name


def _is_move(literal: Compare, values: dict[Slot, Value]) -> bool:
    """Whether an equality only names a value: both sides are the same thing said twice."""
    return literal.op == "=" and _shown(literal.left, values) == _shown(literal.right, values)
