"""Rules added and removed in a transaction: the program changes, the facts stay.

Life: edits are collected by the transaction; at its commit the changed program is planned, its
tables are laid out beside those that are there, and one epoch leads from the old rules to the new
ones (`plan.transition`). Rules are a set: one that is there is not added again. Invariants: the
result is that of a rebuild; what else the program says (every field of it) survives; an edit that
is refused leaves everything as it was. It costs the derivations of the rules that changed and what
follows from them, and planning the program; a new index costs the rows of its relation, once.
Indexes that no rule needs any more stay until `compact`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from operator import eq
from typing import TYPE_CHECKING, Any

import numpy as np

from deltafix.datalog.parser import Parser
from deltafix.datalog.preprocess import preprocess
from deltafix.datalog.program import Program as Text
from deltafix.datalog.source import Source, decode
from deltafix.diagnostics import Diagnostic, Span, did_you_mean, render_all
from deltafix.engine.changes import ChangedRows
from deltafix.engine.instance import seen_schemas
from deltafix.engine.link import link
from deltafix.engine.outside import Users, outside_strata
from deltafix.engine.state.edits import Edit
from deltafix.engine.store import codes_where
from deltafix.errors import FactError, FunctorError, ProgramError, UnknownRelationError
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Words
from deltafix.kernel.entries import delete_rows, insert_rows
from deltafix.plan.build import lower, plan_core
from deltafix.plan.cache import Cache
from deltafix.plan.ir import Plan
from deltafix.plan.recognise import renamed, same_rule
from deltafix.plan.transition import SIGNALS, transition
from deltafix.rules.ast import Dominates, Program
from deltafix.rules.check import typed
from deltafix.rules.declarations import names_twice
from deltafix.rules.passes.hints import inline_names
from deltafix.rules.schemas import row_schemas
from deltafix.rules.show import show, show_order, show_rule

if TYPE_CHECKING:
    from deltafix.engine.database import Database

_BESIDE = ("source", "path", "fed", "made_by")
_SAID = tuple(part.name for part in fields(Program) if part.name not in _BESIDE)
"""The fields that hold what a program says: every one of them survives an edit of rules."""

_NAME = re.compile(r"[A-Za-z_?][\w?]*(\.[A-Za-z_?][\w?]*)*")

_REMOVABLE: dict[str, Callable[[Any], str]] = {"rules": show_rule, "orders": show_order}


@dataclass(frozen=True, slots=True)
class RuleEdit:
    """Rules to add (with declarations, if they need some) or to remove, or a whole program.

    What `add_rule` gives is a handle: `remove_rule` and `replace_rule` take it in place of text,
    or the name that `.rule` gives a rule.
    """

    adds: bool
    part: Program
    text: str
    whole: bool = False
    functors: Mapping[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<{'add' if self.adds else 'remove'} {self.text}>"


def edited_rules(
    program: Program, before: Iterable[RuleEdit], text: str | RuleEdit, *, adds: bool
) -> RuleEdit:
    """The edit that `text` says: read where the names hold that the program and `before` declare.

    To remove what an edit has added is to remove its rules. Raises ProgramError with positions in
    `text`, and FactError for declarations to be removed.
    """
    if isinstance(text, RuleEdit):
        part = text.part
        lines = (*map(show_rule, part.rules), *map(show_order, part.orders))
        return RuleEdit(adds, Program(rules=part.rules, orders=part.orders), "\n".join(lines))
    for edit in before:
        if edit.whole or edit.adds:
            program = edit.part if edit.whole else _added(program, edit.part)
    if not adds and _NAME.fullmatch(text.strip()):
        return RuleEdit(adds, _named(program, text), text)
    part = _read(program, text)
    if not adds and any(getattr(part, field) for field in _SAID if field not in _REMOVABLE):
        raise FactError("only rules and subsumptions can be removed; declarations stay")
    return RuleEdit(adds, part, text)


def _named(program: Program, text: str) -> Program:
    """The rule that has a name. Raises ProgramError if none has."""
    name = text.strip()
    named = program.named.get(name)
    if named is None:
        known = list(program.named)
        hint = did_you_mean(name, known, f"named: {', '.join(known) or 'none'}")
        start = text.index(name)
        span = Source(text, "<rule>").span(start, start + len(name))
        raise _refused(Diagnostic("DF110", f"there is no rule `{name}`", span, hint), text)
    return Program(orders=(named,)) if isinstance(named, Dominates) else Program(rules=(named,))


def _refused(diagnostic: Diagnostic, text: str) -> ProgramError:
    return ProgramError(render_all([diagnostic], {"<rule>": text}), [diagnostic])


def _read(program: Program, text: str) -> Program:
    """The rules, subsumptions and declarations of `text`.

    Raises ProgramError; positions are those of `text`, which is read first. O(declarations).
    """
    source, diagnostics = decode(text, "<rule>")
    parser = Parser(preprocess(source, None).tokens, source)
    parser.program()  # alone first: a missing end must not be looked for among declarations
    if diagnostics or parser.diagnostics:
        problems = [*diagnostics, *parser.diagnostics]
        raise ProgramError(render_all(problems, {"<rule>": source.text}), problems)
    inline = inline_names(program)
    bare = (replace(rule, name="") for rule in program.rules)
    needed = tuple(r for r in bare if any(h.relation in inline for h in r.heads))
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
    however often the text said it; names of variables and the order of a body do not tell rules
    apart. Raises FactError for a rule that is not there, ProgramError for a name that is taken.
    """
    for edit in edits:
        if edit.whole:
            _require_alike(program, edit.part)
            program = edit.part
        elif edit.adds:
            program = _added(program, edit.part)
            for diagnostic in names_twice(program):
                raise _refused(diagnostic, edit.text)
        else:
            program = _removed(program, edit.part)
    return program


def _require_alike(program: Program, other: Program) -> None:
    """Raise FactError if rows of one program would mean something else in the other."""
    types = {declared.name: declared for declared in other.types}
    if program.types != other.types or program.word_size != other.word_size:
        named = {relation.name for relation in other.relations}
    else:  # then the declaration says it all
        ours = {relation.name: relation for relation in program.relations}
        named = {
            relation.name
            for relation in other.relations
            if ours.get(relation.name, relation) != relation
        }
    before, after = (
        row_schemas(replace(side, relations=tuple(r for r in side.relations if r.name in named)))
        for side in (program, other)
    )
    for name, schema in before.items():
        if name in after and after[name].show() != schema.show():
            message = f"{schema.show()} is {after[name].show()} in the new program"
            raise FactError(f"{message}; rows keep their columns", relation=name)
    for declared in program.types:
        if types.get(declared.name, declared) != declared:
            message = f"type {declared.name} is another one in the new program; rows keep theirs"
            raise FactError(message)
    if program.word_size != other.word_size:
        raise FactError(f"words of {program.word_size} bits do not become {other.word_size}")


def _added(program: Program, part: Program) -> Program:
    """What `part` says and the program does not, field by field, said last."""
    united: dict[str, Any] = {}
    for field in _SAID:
        listed = list(getattr(program, field))
        for item in getattr(part, field):
            same = same_rule if field in _REMOVABLE else eq
            indices = [index for index, present in enumerate(listed) if same(item, present)]
            if not indices:
                listed.append(item)
            elif field in _REMOVABLE and item.name:
                listed[indices[0]] = replace(listed[indices[0]], name=item.name)
        united[field] = tuple(listed)
    return replace(program, source=None, **united)


def _removed(program: Program, part: Program) -> Program:
    left: dict[str, Any] = {}
    for field, show_one in _REMOVABLE.items():
        listed = list(getattr(program, field))
        for rule in getattr(part, field):
            kept = [present for present in listed if not same_rule(rule, present)]
            if len(kept) == len(listed):
                raise FactError(f"no such rule to remove: {show_one(rule)}")
            listed = kept
        left[field] = tuple(listed)
    return replace(program, source=None, **left)


class RuleEpoch:
    """One epoch in which the rules change; `Database._commit` runs it, `_rollback` undoes it.

    Made and checked first (nothing has changed if that raises), then `begin`; then, when the epoch
    has run, `prepare` and `finish`, or `undo` at any time before, behind which it may begin again.

    Attributes:
        edits: the edits of rules.
        program: the program from then on; once prepared, `linked` is its plan.
        seen: once prepared, the relations that users see before or after, and `numbers` theirs: the
            rows of one that goes with its rules have gone, too.
        recomputed: strata that are evaluated anew, by their relations.
        given: the changes of given rows in the epoch.
    """

    def __init__(self, db: Database, edits: Sequence[RuleEdit]) -> None:
        self._db = db
        self._instance = instance = db.instance
        self.edits = edits
        self.program = program = changed_program(instance.program, edits)
        cache = instance.cache
        self._cache = Cache(cache if cache is not None and cache.core is instance.core else None)
        self._core = renamed(lower(typed(program), self._cache), instance.core, self._cache)
        functions = dict(instance.users.functors)
        for name, function in (pair for edit in edits for pair in edit.functors.items()):
            if functions.setdefault(name, function) is not function:
                message = f"@{name} was another function, whose values are remembered"
                raise FunctorError(f"{message}; give this one a name of its own")
        self._known_users = Users(functions, instance.users.reducers)
        self._users = self._known_users.declared_by(program).bound_to(program, instance.called)
        self._tables = instance.linked.tables
        new = plan_core(self._core, self._tables.indexes(), instance.plan.stages, self._cache)
        for relation in new.relations:
            if self._tables.types.get(relation.name, relation.types) != relation.types:
                message = f"relation {relation.name} had other columns in an earlier program"
                raise FactError(f"{message}; `db.compact()` forgets them", relation=relation.name)
        self._moved = self._moved_given(program, new)
        self._step = step = transition(
            instance.plan, new, self._moved.keys(), first=instance.is_unrun
        )
        known = {relation.name for relation in instance.plan.relations}
        self.recomputed = tuple(
            ", ".join(stage.relations)
            for number, stage in enumerate(step.after.stages)
            if number in step.fresh and known & set(stage.relations)
        )
        self._known = len(self._tables.numbers)
        self._before = (
            instance.run, instance.strata, instance.called, instance.functors, instance.limits,
        )  # fmt: skip
        self._schedule = int(instance.arena.cells[at.SCHEDULE])
        self.given: list[Edit] = []
        self.linked = instance.linked

    def _moved_given(self, program: Program, new: Plan) -> dict[str, str]:
        """Relations whose given rows lie elsewhere in the new plan, and where.

        Raises UnknownRelationError for a relation with given rows that the new plan does not keep.
        """
        instance, kept = self._instance, {relation.name for relation in new.relations}
        arena, linked = instance.arena, instance.linked
        moved = {}
        for name in instance.schemas:
            home = new.given.get(name, name)
            if name in kept and home != instance.plan.given.get(name, name):
                moved[name] = home
            elif name not in kept and len(codes_where(arena, linked.given(name), at.GIVEN)):
                message = f"relation {name!r} has given rows, and the changed program keeps none"
                raise UnknownRelationError(f"{message}; delete them, or add `.output {name}`")
        return moved

    def begin(self) -> None:
        """Lay out what is new, and let the next epoch run what leads from rules to rules."""
        instance, step = self._instance, self._step
        cells, before = instance.arena.cells, instance.linked
        self.given = instance.given_changes()  # before any are moved
        self._db._rules = self
        taken = {home: self._take(before.given(name)) for name, home in self._moved.items()}
        with instance.gate:  # rows may move to make room for an index
            linked = link(step.during, self._tables, instance.codes, step.fresh)
        for signal, flag in zip(SIGNALS, (at.WAS, at.NOW), strict=True):
            self._signal(linked.ids[signal], flag)
        for number in step.fresh & (linked.outside.keys() | linked.folds.keys()):
            for name in step.during.stages[number].relations:
                self._list_once(linked.ids[name])
        for home, rows in taken.items():
            self._give(linked.ids[home], rows)
        asked = {**instance.called.functors, **self._users.functors}  # the rules that go ask, too
        users = replace(self._users, functors=asked)
        strata = outside_strata(linked, instance.codes, users, instance.strata, step.kept)
        instance.run_with(self.program, linked, strata, users)
        if cells[at.SCHEDULE] in (at.DELETES_FIRST, at.INSERTS_FIRST, at.DRED):
            cells[at.SCHEDULE] = at.WAVEFRONT

    def _signal(self, number: int, flag: int) -> None:
        """Let the row of a signal have just gone (it held), or come (it holds)."""
        cells, rb = self._instance.arena.cells, self._tables.cell(number)
        cells[rb + at.R_N] = 1
        cells[int(cells[rb + at.R_ROWS]) >> 1] = at.USED | flag
        cells[int(cells[rb + at.R_CHANGED])] = 0
        cells[rb + at.R_CHANGED + 1] = 1

    def _take(self, number: int) -> Words:
        """Take all given rows from a relation, by the rules it had. O(given rows)."""
        arena = self._instance.arena
        rows = np.ascontiguousarray(codes_where(arena, number, at.GIVEN))
        delete_rows(arena.words, arena.cells, rows.reshape(-1), number, len(rows))
        return rows

    def _list_once(self, number: int) -> None:
        """Have the list of a relation's changed rows name those that differ now, each once.

        Edits list a row as often as they are made, and the end of its stratum sorts that out; one
        that is no rules' from now on has no such end. O(rows listed).
        """
        cells, rb = self._instance.arena.cells, self._tables.cell(number)
        listed = self._instance.arena.take(rb + at.R_CHANGED)
        rows = np.unique(listed)
        flags = cells[(int(cells[rb + at.R_ROWS]) + rows * int(cells[rb + at.R_STRIDE])) >> 1]
        rows = rows[((flags & at.WAS) != 0) != ((flags & at.NOW) != 0)]
        listed[: len(rows)] = rows
        cells[rb + at.R_CHANGED + 1] = len(rows)

    def _give(self, number: int, rows: Words) -> None:
        """Give rows to a relation, by the rules it has from now on. O(rows)."""
        arena = self._instance.arena
        insert_rows(arena.words, arena.cells, rows.reshape(-1), number, len(rows))

    def prepare(self) -> None:
        """The epoch has run: link the plan from now on."""
        instance = self._instance
        self.linked = link(self._step.after, self._tables, instance.codes)
        self._after = seen_schemas(
            self.program, self.linked, physical=instance.physical, before=instance
        )
        self.seen = {**instance.schemas, **self._after}
        self._some_go = len(self.seen) > len(self._after)
        self.numbers = {**instance.linked.ids, **self.linked.ids}
        self._timed = instance.run.strata

    def finish(self) -> None:
        """The epoch is committed. Doing this twice is doing it once."""
        db, instance, linked = self._db, self._instance, self.linked
        if self._some_go:
            relations = {self.numbers[name]: schema for name, schema in self.seen.items()}
            db._changed_with_rules = ChangedRows(
                instance.arena, instance.codes, relations, self.seen, instance.gate
            )
        instance.users, instance.cache = self._known_users, self._cache
        instance.take_up(self.program, self._core, linked, self._after)
        instance.run_with(self.program, linked, instance.strata.taken_over(linked), self._users)
        instance.run.strata = self._timed
        instance.arena.cells[at.SCHEDULE] = self._schedule
        db._rules = None  # last: an interrupted one is finished again

    def undo(self) -> None:
        """The kernel has taken the epoch back: the rules and tables are as before, too."""
        instance = self._instance
        self._db._rules = None
        self._tables.forget(self._known, instance.plan)
        self._tables.describe(instance.plan)
        (
            instance.run, instance.strata, instance.called, instance.functors, instance.limits,
        ) = self._before  # fmt: skip
        instance.arena.cells[at.N_RULES] = instance.linked.rule_counts
        instance.arena.cells[at.SCHEDULE] = self._schedule
        # Rows may have become wider.
        instance.take_up(instance.program, instance.core, instance.linked)
