"""Rules added and removed in a transaction: the program changes, the facts stay.

Life: rules are collected by the transaction; at its commit a second database is built from the
changed program and the given rows at hand, under the same budget; if that succeeds, it takes the
first one's place, and the Delta is the difference of the two. Invariant: the result is that of a
rebuild, because it is one; a rule that is refused leaves everything as it was. It costs what a
rebuild costs: strata that the change does not reach are evaluated again too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deltafix.datalog.parser import Parser
from deltafix.datalog.preprocess import preprocess
from deltafix.datalog.program import Program as Text
from deltafix.datalog.source import decode
from deltafix.diagnostics import render_all
from deltafix.errors import FactError, ProgramError
from deltafix.facts.delta import Delta, RelationDelta
from deltafix.facts.schema import Row
from deltafix.facts.values import sorted_rows
from deltafix.kernel import layout as at
from deltafix.rules.ast import Program
from deltafix.rules.show import show, show_rule

if TYPE_CHECKING:
    from deltafix.engine.database import Database

__all__ = ["Replaced", "changed_program", "read_rules", "replace_program"]

_PARTS = (
    "program", "plan", "schemas", "_arena", "_codes", "_linked", "_width", "_types", "_by_number",
    "_given", "_ruled", "_functors", "_strata", "_run", "_limits",
)  # fmt: skip


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


def read_rules(program: Program, text: str) -> Program:
    """The rules (and declarations) of `text`, read where the program's declarations hold.

    Raises ProgramError; positions are those of `text`, which is read first.
    """
    source, found = decode(text, "<rule>")
    parser = Parser(preprocess(source, None).tokens, source)
    parser.program()  # alone first: a missing end must not be looked for among declarations
    if found or parser.found:
        problems = [*found, *parser.found]
        raise ProgramError(render_all(problems, {"<rule>": source.text}), problems)
    known = show(replace(_plain(program), rules=(), directives=()))
    return _plain(Text.parse(f"{text}\n{known}", "<rule>"))


def changed_program(
    program: Program, added: tuple[Program, ...], removed: tuple[Program, ...]
) -> Program:
    """The program with rules added and removed. Raises FactError for a rule that is not there."""
    relations = list(program.relations)
    rules = list(program.rules)
    for part in added:
        relations += [r for r in part.relations if r not in relations]
        rules += [rule for rule in part.rules if rule not in rules]
    for part in removed:
        for rule in part.rules:
            if rule not in rules:
                raise FactError(f"no such rule to remove: {show_rule(rule)}")
            rules.remove(rule)
    return replace(_plain(program), relations=tuple(relations), rules=tuple(rules))


def replace_program(db: Database, program: Program) -> Replaced:
    """Rebuild `db` for a changed program, keeping the given rows of the open transaction.

    Raises what `connect` and a commit raise; `db` is unchanged then. O(state).
    """
    from deltafix.engine.database import Database as Fresh  # noqa: PLC0415  it uses this module

    fresh = Fresh(
        program, strategy=db.strategy, budget=db.budget, users=db._users, profile=db._profile
    )
    fresh._strata.prefer(lambda name: db.rows(name) if name in db.schemas else ())
    with fresh.transaction() as tx:
        for name, rows in _given(db).items():
            tx.insert(name, rows)
    parts = []
    for name, schema in fresh.schemas.items():
        before: set[Row] = set(db.rows(name)) if name in db.schemas else set()
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


def _plain(program: Program) -> Program:
    """The program as data, without what a door adds to it."""
    return Program(
        program.relations, program.rules, program.directives, program.types, pragmas=program.pragmas
    )
