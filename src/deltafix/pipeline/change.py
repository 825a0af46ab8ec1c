"""What a changed program changes: relation by relation, by the rules that lead to it.

The cone of a relation is every rule and declaration that its rows can follow from. Invariant: two
programs with the same cone for a relation derive the same rows for it from the same given rows;
so an output whose cone is unchanged is kept as it is. The others follow in one epoch: by what the
edit of the rules changes (`maintain`), or by what they hold beside a view that was derived anew
(`rebuild`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from deltafix.errors import ProgramChangedError, StateError
from deltafix.pipeline.augment import PLAIN, homes_of
from deltafix.pipeline.config import schemas_of
from deltafix.rules.ast import Program
from deltafix.rules.show import show_kinds, show_order, show_relation, show_rule
from deltafix.rules.strata import dependencies
from deltafix.rules.tables import TableProgram
from deltafix.store.folder import Where

Way: TypeAlias = Literal["refuse", "maintain", "rebuild"]
"""What to do about a changed program."""


@dataclass(frozen=True, slots=True)
class ProgramChange:
    """Derived relations of the new program: as they were, with other rules, and those gone.

    `is_sql` says that it is of views in SQL, which a state does not follow by an edit.
    """

    kept: tuple[str, ...]
    changed: tuple[str, ...]
    gone: tuple[str, ...]
    is_sql: bool = False

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)

    @property
    def ways(self) -> str:
        """What there is to do about it, in words."""
        rebuild = "--on-change rebuild derives everything anew, and brings the outputs up to it"
        if self.is_sql:
            return rebuild
        return f"--on-change maintain brings the outputs up to them in one epoch; {rebuild}"

    def show(self) -> str:
        """In words, for people who are asked."""
        parts = []
        for what, names in (("changed", self.changed), ("gone", self.gone), ("kept", self.kept)):
            if names:
                parts.append(f"{what}: {', '.join(names)}")
        return "; ".join(parts)


def cones(program: Program) -> dict[str, str]:
    """Per derived relation, a digest of all that its rows can follow from."""
    below: dict[str, set[str]] = {}
    for edge in dependencies(program):
        below.setdefault(edge.head, set()).add(edge.body)
    own = {name: [schema.show()] for name, schema in schemas_of(program).items()}
    for declared in program.relations:  # what a relation does to the rows derived for it
        kept = tuple(word for word in declared.qualifiers if word == "eqrel")
        own[declared.name].append(
            show_relation(replace(declared, qualifiers=kept, indexes=(), of=""))
        )
    derived: dict[str, None] = {}
    for rule in program.rules:
        text = show_rule(rule)
        for head in rule.heads:
            derived[head.relation] = None
            own[head.relation].append(text)
    for order in program.orders:
        own[order.less.relation].append(show_order(order))
    kinds = show_kinds(program)
    for name, texts in own.items():
        own[name] = [*texts, *_mentioned(texts, kinds)]
    if isinstance(program, TableProgram):  # the parts of views have names of their own
        outside = {*program.views, *program.bags}
        derived = {name: None for name in derived if name in outside}
    digests = {}
    for name in derived:
        lines = {f"words of {program.word_size} bits"}
        lines.update(text for relation in _reached(name, below) for text in own[relation])
        digests[name] = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
    return digests


def _mentioned(texts: Sequence[str], kinds: Mapping[str, Sequence[str]]) -> list[str]:
    """The lines of what texts name, and of what these lines name."""
    mentioned: dict[str, None] = {}
    waiting = list(texts)
    while waiting:
        for name in _NAME.findall(waiting.pop()):
            if name in kinds and name not in mentioned:
                mentioned[name] = None
                waiting += kinds[name]
    return [line for name in mentioned for line in kinds[name]]


_NAME: Final = re.compile(r"\w[\w?]*(?:[.]\w[\w?]*)*")


def _reached(start: str, below: Mapping[str, set[str]]) -> set[str]:
    reached, waiting = {start}, [start]
    while waiting:
        for name in below.get(waiting.pop(), ()):
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return reached


def what_changed(
    before: Mapping[str, str], after: Mapping[str, str], *, is_sql: bool = False
) -> ProgramChange:
    """Compare the cones of two programs."""
    return ProgramChange(
        tuple(name for name in after if before.get(name) == after[name]),
        tuple(name for name in after if before.get(name) != after[name]),
        tuple(name for name in before if name not in after),
        is_sql,
    )


def tables_of(program: Program) -> dict[str, str]:
    """Of each table of SQL, its columns and keys as declared."""
    if not isinstance(program, TableProgram):
        return {}
    schemas = schemas_of(program)
    declarations = {name: schemas[name].show() for name in program.tables}
    for key in program.keys:
        declarations[key.table] += f" {key.kind} ({', '.join(key.columns)})"
    return declarations


def require_tables_same(
    before: Mapping[str, str], now: Mapping[str, str], state: Where, has_rows: Callable[[str], bool]
) -> None:
    """Raise StateError if a table that has rows is declared with other columns or keys."""
    for name, shown in before.items():
        if now.get(name, shown) != shown and any(map(has_rows, homes_of(name))):
            message = (
                f"{state}: its rows of {shown} came in as that, and the program says {now[name]} "
                "now; give the table another name, and its rows again, or name a new state"
            )
            raise StateError(message, path=str(state))


def require_kept_same(
    before: Mapping[str, str], now: Mapping[str, str], state: Where, has_rows: Callable[[str], bool]
) -> None:
    """Raise StateError if rows are kept in another way than those that are there."""
    for name in sorted({*before, *now}):
        was, becomes = before.get(name, PLAIN), now.get(name, PLAIN)
        if was != becomes and any(map(has_rows, homes_of(name))):
            message = (
                f"{state}: the rows of {name} came in {was}, and its input has them {becomes} now, "
                "so that none would replace or take away one that is there; let its section say "
                "what it said, or name a new state and new outputs, into which the inputs come anew"
            )
            raise StateError(message, path=str(state), relation=name)


def not_maintained(*, is_sql: bool = False) -> ProgramChangedError:
    """What is raised where rows are in shards, or the rules are of SQL."""
    if is_sql:
        message = (
            "rules of SQL cannot be edited in a state: their functions are those of the text they "
            "were made of; --on-change rebuild derives the views anew"
        )
        return ProgramChangedError(message)
    message = (
        "rows that are in shards cannot follow an edit of the rules; --on-change rebuild derives "
        "them anew"
    )
    return ProgramChangedError(message)


def require_same(change: ProgramChange, state: Where) -> None:
    """Raise ProgramChangedError if anything changed."""
    if change:
        message = (
            f"{state}: the rules are not those the outputs were made with ({change.show()}); "
            f"{change.ways}"
        )
        raise ProgramChangedError(message, changed=change.changed, gone=change.gone)
