"""The state before an epoch that edited rules, built again: where its causes are sought.

An epoch of rows is undone on trial in the database itself. One of rules has made another plan
there, so its old state is evaluated once more, from the old rules and the rows given then, in a
database of its own: O(state) for a question. From there on a trial is an epoch, of rules and rows,
and the one that takes it back. Invariant: the database that is asked is only read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deltafix.engine.database import Database
from deltafix.engine.outside import Users
from deltafix.engine.store import codes_where
from deltafix.errors import FactError, ProgramError, UnknownRelationError
from deltafix.facts.schema import Row
from deltafix.kernel import layout as at
from deltafix.plan.recognise import same_rule
from deltafix.plan.rule_changes import RuleChange, rule_changes
from deltafix.provenance.state import Edit, State, committed
from deltafix.rules.ast import Dominates, Program, Rule

if TYPE_CHECKING:
    from deltafix.engine.transaction import Transaction


class Before:
    """The state before an epoch that edited the rules of a database.

    Args:
        db: the database, at that epoch.
        program: its program before.
        inputs: the changes of given rows in the epoch.
        rows: the rows of a relation before; choices fall on them again, where they may.

    Attributes:
        rules: the rules that came and went, in the order of the programs.
    """

    def __init__(
        self,
        db: Database,
        program: Program,
        inputs: Sequence[Edit],
        rows: Callable[[str], Iterable[Row]],
    ) -> None:
        self._program = _declaring(program, db.program)
        self._said = rule_changes(program, db.program)
        self.rules = list(self._said)
        declared = {functor.name for functor in self._program.functors}
        known = {name: one for name, one in db._users.functors.items() if name in declared}
        users = Users(known, db._users.reducers)
        self._made = Database(self._program, strategy=db.strategy, budget=db.budget, users=users)
        self._made._strata.prefer(rows)
        with self._made.transaction(missing="ignore") as tx:
            for name, schema in db.schemas.items():
                if name in self._made.schemas:
                    codes = codes_where(db._arena, db._linked.given(name), at.GIVEN)
                    tx.insert(name, db._codes.rows(schema, codes))
            _edit(tx, _undone(inputs))

    @contextmanager
    def after(self, changes: Iterable[Edit | RuleChange]) -> Iterator[State | None]:
        """The state that these changes alone make of it; None if no program has such rules."""
        inputs: list[Edit] = []
        rules: list[RuleChange] = []
        for one in changes:
            (rules if isinstance(one, RuleChange) else inputs).append(one)  # type: ignore[arg-type]
        try:
            self._commit(self._program_after(rules), inputs)
        except (FactError, ProgramError, UnknownRelationError):
            yield None
            return
        try:
            with committed(self._made) as state:
                yield state
        finally:
            self._commit(self._program, _undone(inputs))

    def _commit(self, program: Program, inputs: Iterable[Edit]) -> None:
        with self._made.transaction(missing="ignore") as tx:
            if program is not self._made.program:
                tx.change_program(program)
            _edit(tx, inputs)

    def _program_after(self, changes: Sequence[RuleChange]) -> Program:
        if not changes:
            return self._program
        said: dict[type, list[Any]] = {
            Rule: list(self._program.rules), Dominates: list(self._program.orders)
        }  # fmt: skip
        for change in changes:
            rule = self._said[change]
            held = said[type(rule)]
            if change.sign > 0:
                held.append(rule)
            else:
                held[:] = [one for one in held if not same_rule(one, rule)]
        return replace(self._program, rules=tuple(said[Rule]), orders=tuple(said[Dominates]))


def _declaring(old: Program, new: Program) -> Program:
    """The old rules, under the declarations of both programs."""

    def named(field: str) -> tuple[Any, ...]:
        declared = {one.name: one for one in (*getattr(old, field), *getattr(new, field))}
        return tuple(declared.values())

    return replace(
        old,
        rules=tuple(replace(rule, name="") for rule in old.rules),
        orders=tuple(replace(order, name="") for order in old.orders),
        directives=(*old.directives, *(one for one in new.directives if one not in old.directives)),
        relations=named("relations"),
        types=named("types"),
        functors=named("functors"),
        lattices=tuple({one.type: one for one in (*old.lattices, *new.lattices)}.values()),
    )


def _edit(tx: Transaction, edits: Iterable[Edit]) -> None:
    for sign, relation, row in edits:
        (tx.insert if sign > 0 else tx.delete)(relation, [row])


def _undone(edits: Iterable[Edit]) -> list[Edit]:
    return [(-sign, relation, row) for sign, relation, row in edits]
