"""What in an epoch made a row appear or vanish: the cause chain.

The state before the epoch is gone, but an epoch can be undone on trial: with all input changes
taken back it is the old state, with all but some taken back it is the old state and those. So a
cause is a set of input changes that alone, on the old state, does it, and no part of it does.
It is sought first among the leaves of proofs, then among all changes, halving (QuickXplain,
Junker 2004). In an epoch that edited rules, rules that came and went are changes like rows, and
the old state is another database. Invariant: a cause was tried; the database is as before.

An epoch of rows is undone on trial in the database itself. One of rules has made another plan
there, so its old state is evaluated once more, from the old rules and the rows given then, in a
database of its own: O(state) for a question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from deltafix import errors
from deltafix.engine.database import Database
from deltafix.engine.store import codes_where
from deltafix.facts.schema import Row, show_row
from deltafix.kernel import layout as at
from deltafix.plan.recognise import same_rule
from deltafix.plan.transition import RuleChange, rule_changes
from deltafix.provenance.proof import Explanation, Proof, Step, show_edit
from deltafix.provenance.state import Edit, State, committed, trial
from deltafix.provenance.text import tree
from deltafix.provenance.why import proof_of
from deltafix.rules.ast import Dominates, Program, Rule

if TYPE_CHECKING:
    from deltafix.engine.changes import Edited
    from deltafix.engine.database import Database
    from deltafix.engine.state.edits import Edit as Given
    from deltafix.engine.transaction import Transaction
    from deltafix.facts.delta import Delta


Change: TypeAlias = Edit | RuleChange


@dataclass(frozen=True, slots=True, repr=False)
class Cause(Explanation):
    """Why a row appeared or vanished in an epoch.

    Attributes:
        sign: 1 if it appeared, -1 if it vanished.
        relation, row: the row.
        changes: input changes (sign, relation, row) that alone have this effect, none to spare.
        rules: likewise rules that came and went (sign, text), where the epoch edited rules.
        proof: of an appeared row, its proof; of a vanished one, a proof that it had.
        marks: `+` or `-` by step of the proof, where the epoch changed its fact; else blank.
        is_smallest: False where `max_trials` ended the search; some changes may be to spare then.
    """

    sign: int
    relation: str
    row: Row
    changes: tuple[Edit, ...]
    proof: Proof
    marks: tuple[str, ...]
    is_smallest: bool = True
    rules: tuple[RuleChange, ...] = ()

    def lines(self) -> list[str]:
        """What happened, the changes, and a proof with what the epoch changed in it."""
        happened = "appeared" if self.sign > 0 else "vanished"
        lines = [f"{self.fact} {happened} because of"]
        lines += [f"  {change}" for change in self._shown()]
        if not self.is_smallest:
            lines.append("  (perhaps fewer: the search reached its bound)")
        lines.append("its proof:" if self.sign > 0 else "the proof it had:")
        return [*lines, *tree(self.proof, self.marks).split("\n")]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "fact": self.fact,
            "sign": self.sign,
            "changes": self._shown(),
            "is_smallest": self.is_smallest,
            "proof": self.proof.to_dict(),
            "marks": list(self.marks),
        }

    def _shown(self) -> list[str]:
        return [*map(str, self.rules), *map(show_edit, self.changes)]


def cause(
    db: Database,
    edited: Edited,
    delta: Delta,
    fact: tuple[str, Row],
    *,
    max_trials: int,
) -> Cause:
    """See `Delta.why`. `edited`: what the epoch edited.

    Where only relations without rules were, the delta says it: what holds there is what is given.
    """
    relation, row = fact
    part = delta[relation]
    sign = 1 if row in part.added else -1 if row in part.removed else 0
    if sign == 0:
        message = f"{show_row(relation, row)} did not change in epoch {delta.epoch}"
        raise errors.NoSuchFactError(message, relation=relation, row=row)
    with committed(db):
        if db.epoch != delta.epoch:
            message = (
                f"the delta is of epoch {delta.epoch}, the database is at epoch {db.epoch}; only "
                "the last epoch can be explained, since it alone can be undone on trial"
            )
            raise errors.ExplanationError(message, epoch=delta.epoch)
        change = sign, relation, row
        search = _Search if edited.before is None else _RuleSearch
        return search(db, edited, delta, change, max_trials).cause()


class _Search:
    def __init__(
        self,
        db: Database,
        edited: Edited,
        delta: Delta,
        change: Edit,
        max_trials: int,
    ) -> None:
        self.db = db
        self.delta = delta
        self.sign, self.relation, self.decoded = change
        schema = delta.schemas.get(self.relation) or db.instance.schema(self.relation)
        (self.row,) = schema.encoded([self.decoded])
        self.left = max_trials
        self.inputs = self._input_changes(edited.given)
        self.changes: list[Change] = [*self.inputs]

    def cause(self) -> Cause:
        """The changes, and the proof that shows how they work."""
        seed = self._seed()
        changes = self._fewest((), seed) if len(seed) > 1 else seed
        proof = self._proof(changes)
        return Cause(
            self.sign,
            self.relation,
            self.decoded,
            tuple(change for change in changes if not isinstance(change, RuleChange)),
            proof,
            tuple(self._mark(step) for step in proof.steps),
            self.left > 0,
            tuple(change for change in changes if isinstance(change, RuleChange)),
        )

    def _input_changes(self, given: Sequence[Given] | None) -> list[Edit]:
        if given is not None:
            return [
                (1 if part.added else -1, part.schema.relation, row)
                for part in given
                for row in self.db.instance.codes.rows(part.schema, part.codes)
            ]
        return [
            (sign, name, row)
            for name, part in self.delta.items()
            if name not in self.db.instance.ruled
            for sign, row in part.signed()
        ]

    def _state_after(self, changes: Iterable[Change]) -> Any:
        """A trial of the old state and these changes."""
        kept = set(changes)
        undone = _undone(edit for edit in self.inputs if edit not in kept)
        return trial(self.db, undone, self._before)

    def _before(self, relation: str) -> set[Row]:
        """The rows of a relation before the epoch: its choices fell on them."""
        if relation not in self.db.schemas:
            return set()
        part = self.delta[relation]
        rows = set(self.db.rows(relation)).difference(part.added).union(part.removed)
        return {*self.db.schemas[relation].encoded(rows)}

    def _does(self, changes: Sequence[Change]) -> bool:
        """Whether these changes alone, on the old state, have the effect."""
        self.left -= 1
        with self._state_after(changes) as state:
            if state is None:
                return False
            known = self.relation in state.db.instance.linked.ids
            holds = known and state.fact(self.relation, self.row) is not None
            return holds == (self.sign > 0)

    def _seed(self) -> list[Change]:
        """A set of changes that has the effect: leaves of proofs, or all changes."""
        inputs = set(self.inputs)
        blamed: list[Change] = []
        while self.left > 0:
            with self._proved_in(blamed) as state:
                proof = proof_of(state, self.relation, self.row)
            leaves = [(self.sign, leaf.relation, leaf.row) for leaf in proof.leaves]
            new = [edit for edit in leaves if edit in inputs and edit not in blamed]
            blamed += new
            if new and self._does(blamed):
                return blamed
            if not new or self.sign > 0:
                break
        return self.changes

    def _proved_in(self, blamed: Sequence[Change]) -> Any:
        """Where the row holds: now, or before, with what is blamed so far gone already."""
        return committed(self.db) if self.sign > 0 else self._state_after(blamed)

    def _fewest(self, kept: tuple[Change, ...], among: Sequence[Change]) -> list[Change]:
        """A least part of `among` that, with `kept`, has the effect; all of it has."""
        if self.left <= 0 or len(among) == 1:
            return list(among)
        half = len(among) // 2
        first, second = among[:half], among[half:]
        if self._does((*kept, *first)):
            return self._fewest(kept, first)
        if self._does((*kept, *second)):
            return self._fewest(kept, second)
        right = self._fewest((*kept, *first), second)
        left = self._fewest((*kept, *right), first) if not self._does((*kept, *right)) else []
        return left + right

    def _proof(self, changes: Sequence[Change]) -> Proof:
        """How the row came to hold by the changes alone, or why it held before."""
        with self._state_after(changes if self.sign > 0 else ()) as state:
            return proof_of(state, self.relation, self.row)

    def _mark(self, step: Step) -> str:
        if step.relation not in self.db.schemas:
            return " "  # on demand: no delta says what came or went
        part = self.delta[step.relation]
        rows = part.added if self.sign > 0 else part.removed
        return ("+" if self.sign > 0 else "-") if step.row in rows else " "


class _RuleSearch(_Search):
    """The search where rules are among the changes; trials are epochs of another database."""

    def __init__(self, db: Database, edited: Edited, *given: Any) -> None:
        super().__init__(db, edited, *given)
        assert edited.before is not None, "a program before"  # noqa: S101
        self.old = Before(db, edited.before, self.inputs, self._before)
        self.changes = [*self.old.rules, *self.inputs]

    def _state_after(self, changes: Iterable[Change]) -> Any:
        return self.old.after(changes)

    def _seed(self) -> list[Change]:
        """The rules that came and went, or those and all changes of rows."""
        if self._does(()) or not self._does(self.changes):
            fact = show_row(self.relation, self.decoded)
            message = f"no change of rules or of input rows explains {fact}: declarations changed"
            raise errors.ExplanationError(message, relation=self.relation, row=self.decoded)
        return [*self.old.rules] if self._does(self.old.rules) else self.changes


def _undone(edits: Iterable[Edit]) -> list[Edit]:
    return [(-sign, relation, row) for sign, relation, row in edits]


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
        instance = db.instance
        users = instance.users.declared_by(self._program)
        self._trial = Database(
            self._program, strategy=db.strategy, budget=db.budget, users=users,
            physical=instance.physical,
        )  # fmt: skip
        self._trial.instance.strata.prefer(rows)
        with self._trial.transaction(missing="ignore") as tx:
            for name, schema in db.schemas.items():
                if name in self._trial.schemas:
                    codes = codes_where(instance.arena, instance.linked.given(name), at.GIVEN)
                    tx.insert(name, instance.codes.rows(schema, codes))
            _edit(tx, _undone(inputs))

    @contextmanager
    def after(self, changes: Iterable[Edit | RuleChange]) -> Iterator[State | None]:
        """The state that these changes alone make of it; None if no program has such rules."""
        inputs: list[Edit] = []
        rules: list[RuleChange] = []
        for change in changes:
            (rules if isinstance(change, RuleChange) else inputs).append(change)  # type: ignore[arg-type]
        try:
            self._commit(self._program_after(rules), inputs)
        except (errors.FactError, errors.ProgramError, errors.UnknownRelationError):
            yield None
            return
        try:
            with committed(self._trial) as state:
                yield state
        finally:
            self._commit(self._program, _undone(inputs))

    def _commit(self, program: Program, inputs: Iterable[Edit]) -> None:
        with self._trial.transaction(missing="ignore") as tx:
            if program is not self._trial.program:
                tx.change_program(program)
            _edit(tx, inputs)

    def _program_after(self, changes: Sequence[RuleChange]) -> Program:
        if not changes:
            return self._program
        statements: dict[type, list[Any]] = {
            Rule: list(self._program.rules), Dominates: list(self._program.orders)
        }  # fmt: skip
        for change in changes:
            rule = self._said[change]
            held = statements[type(rule)]
            if change.sign > 0:
                held.append(rule)
            else:
                held[:] = [other for other in held if not same_rule(other, rule)]
        return replace(
            self._program, rules=tuple(statements[Rule]), orders=tuple(statements[Dominates])
        )


def _declaring(old: Program, new: Program) -> Program:
    """The old rules, under the declarations of both programs."""

    def named(field: str) -> tuple[Any, ...]:
        declared = {
            declaration.name: declaration
            for declaration in (*getattr(old, field), *getattr(new, field))
        }
        return tuple(declared.values())

    return replace(
        old,
        rules=tuple(replace(rule, name="") for rule in old.rules),
        orders=tuple(replace(order, name="") for order in old.orders),
        directives=(
            *old.directives,
            *(directive for directive in new.directives if directive not in old.directives),
        ),
        relations=named("relations"),
        types=named("types"),
        functors=named("functors"),
        lattices=tuple(
            {lattice.type: lattice for lattice in (*old.lattices, *new.lattices)}.values()
        ),
    )


def _edit(tx: Transaction, edits: Iterable[Edit]) -> None:
    for sign, relation, row in edits:
        (tx.insert if sign > 0 else tx.delete)(relation, [row])
