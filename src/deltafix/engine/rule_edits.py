"""Rules added and removed in a transaction: the program changes, the facts stay.

Life: edits are collected by the transaction; at its commit a second database is built from the
changed program and the given rows at hand, under the same budget; if that succeeds, it takes the
first one's place, and the Delta is the difference of the two. Rules are a set: one that is there
is not added again. Invariants: the result is that of a rebuild, because it is one; what else the
program says (every field of it) survives; an edit that is refused leaves everything as it was. It
costs what a rebuild costs: strata that the change does not reach are evaluated again too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from deltafix.datalog.parser import Parser
from deltafix.datalog.preprocess import preprocess
from deltafix.datalog.program import Program as Text
from deltafix.datalog.source import decode
from deltafix.diagnostics import Span, render_all
from deltafix.errors import FactError, ProgramError
from deltafix.facts.delta import Delta, RelationDelta
from deltafix.facts.schema import Row
from deltafix.facts.values import sorted_rows
from deltafix.kernel import layout as at
from deltafix.rules.ast import Program
from deltafix.rules.passes.hints import inline_names
from deltafix.rules.show import show, show_order, show_rule

if TYPE_CHECKING:
    from deltafix.engine.database import Database

__all__ = ["Replaced", "RuleEdit", "changed_program", "edited_rules", "replace_program"]

_PARTS = (
    "program", "plan", "schemas", "_arena", "_codes", "_linked", "_changed", "_by_number",
    "_given", "_ruled", "_unrun", "_functors", "_strata", "_run", "_limits",
)  # fmt: skip


_SAID = tuple(part.name for part in fields(Program) if part.name not in ("source", "path"))
"""The fields that hold what a program says: every one of them survives an edit of rules."""

_REMOVABLE = ("rules", "orders")


@dataclass(frozen=True, slots=True)
class RuleEdit:
    """Rules to add (with declarations, if they need some) or to remove."""

    adds: bool
    part: Program


@dataclass(frozen=True, slots=True)
class Replaced:
    """What a change of rules changed; has the interface of `changes.Changes`."""

    found: Delta
    given: None = None

    def freeze(self) -> None:
        """The Delta is a copy already."""

    def delta(self) -> Delta:
        """The Delta."""
        return self.found


def edited_rules(
    program: Program, before: Iterable[RuleEdit], text: str, *, adds: bool
) -> RuleEdit:
    """The edit that `text` says: read where the names hold that the program and `before` declare.

    Raises ProgramError with positions in `text`, and FactError for declarations to be removed.
    """
    for edit in before:
        program = _added(program, edit.part) if edit.adds else program
    part = _read(program, text)
    if not adds and any(getattr(part, field) for field in _SAID if field not in _REMOVABLE):
        raise FactError("only rules and subsumptions can be removed; declarations stay")
    return RuleEdit(adds, part)


def _read(program: Program, text: str) -> Program:
    """The rules, subsumptions and declarations of `text`.

    Raises ProgramError; positions are those of `text`, which is read first. O(declarations).
    """
    source, found = decode(text, "<rule>")
    parser = Parser(preprocess(source, None).tokens, source)
    parser.program()  # alone first: a missing end must not be looked for among declarations
    if found or parser.found:
        problems = [*found, *parser.found]
        raise ProgramError(render_all(problems, {"<rule>": source.text}), problems)
    inline = inline_names(program)
    needed = tuple(r for r in program.rules if any(h.relation in inline for h in r.heads))
    known = show(replace(program, rules=needed, directives=(), orders=()))
    whole = Text.parse(f"{text}\n{known}", "<rule>")

    def written(part: object) -> bool:
        span: Span | None = getattr(part, "span", None)
        return span is not None and span.start < len(source.text)

    return Program(
        relations=tuple(filter(written, whole.relations)),
        rules=tuple(filter(written, whole.rules)),
        directives=tuple(filter(written, whole.directives)),
        types=tuple(filter(written, whole.types)),
        pragmas=whole.pragmas[: len(whole.pragmas) - len(program.pragmas)],
        orders=tuple(filter(written, whole.orders)),
        functors=tuple(filter(written, whole.functors)),
        lattices=tuple(filter(written, whole.lattices)),
    )


def changed_program(program: Program, edits: Iterable[RuleEdit]) -> Program:
    """The program after rules were added and removed, in this order.

    Rules are a set: one that is there already is not added again, and one that is removed is gone
    however often the text said it. Raises FactError for a rule that is not there.
    """
    for edit in edits:
        program = _added(program, edit.part) if edit.adds else _removed(program, edit.part)
    return program


def _added(program: Program, part: Program) -> Program:
    """What `part` says and the program does not, field by field, said last."""
    united: dict[str, Any] = {}
    for field in _SAID:
        said = list(getattr(program, field))
        for item in getattr(part, field):
            if item not in said:
                said.append(item)
        united[field] = tuple(said)
    return replace(program, source=None, **united)


def _removed(program: Program, part: Program) -> Program:
    rules, orders = list(program.rules), list(program.orders)
    for rule in part.rules:
        if rule not in rules:
            raise FactError(f"no such rule to remove: {show_rule(rule)}")
        rules = [one for one in rules if one != rule]
    for order in part.orders:
        if order not in orders:
            raise FactError(f"no such rule to remove: {show_order(order)}")
        orders = [one for one in orders if one != order]
    return replace(program, source=None, rules=tuple(rules), orders=tuple(orders))


def replace_program(db: Database, program: Program) -> Replaced:
    """Rebuild `db` for a changed program, keeping the given rows of the open transaction.

    Raises what `connect` and a commit raise; `db` is unchanged then. O(state).
    """
    from deltafix.engine.database import Database as Fresh  # noqa: PLC0415  it uses this module

    fresh = Fresh(
        program, strategy=db.strategy, budget=db.budget, users=db._users, profile=db._profile
    )
    held = () if db._unrun else db.schemas
    fresh._strata.prefer(lambda name: db.rows(name) if name in held else ())
    with fresh.transaction() as tx:
        for name, rows in _given(db).items():
            tx.insert(name, rows)
    parts = []
    for name, schema in fresh.schemas.items():
        before: set[Row] = set(db.rows(name)) if name in held else set()
        after = set(fresh.rows(name))
        added, removed = (sorted_rows(schema.types, r) for r in (after - before, before - after))
        parts.append(RelationDelta(schema, added, removed))
    with db._gate:
        for part in _PARTS:
            setattr(db, part, getattr(fresh, part))
        db.epoch += 1
    return Replaced(Delta(parts, fresh.schemas.values(), epoch=db.epoch))


def _given(db: Database) -> dict[str, list[Row]]:
    """The given rows of the working state, the open transaction's edits included."""
    from deltafix.engine.store import codes_where  # noqa: PLC0415

    found = {}
    for name, schema in db.schemas.items():
        codes = codes_where(db._arena, db._linked.given(name), at.GIVEN)
        if len(codes):
            found[name] = db._codes.rows(schema, codes)
    return found
