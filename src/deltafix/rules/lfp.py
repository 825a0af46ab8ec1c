"""`lfp`: least fixpoints of functions over sets, one or several at once, written as rules.

A function is called to find its columns, again where an argument's columns follow from another's,
and then to write rules; what a finding call declares is forgotten. Invariant: the rules mean the
least fixpoint. For nested ones that is Bekić's lemma: the least solution of all equations at once;
what is not monotone in an argument is refused before its rules are written.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import overload

from deltafix.diagnostics import plural
from deltafix.errors import ProgramError
from deltafix.rules.ast import Atom, Attribute, Rule
from deltafix.rules.builder import Builder, current_builder
from deltafix.rules.comprehension import (
    FixpointRelation,
    Rows,
    Source,
    Use,
    rows_of,
    tidy,
    variable,
)
from deltafix.rules.walk import uses


@overload
def lfp(function: Callable[[Rows], Source], *, name: str | None = None) -> FixpointRelation: ...


@overload
def lfp(
    function: Callable[..., tuple[Source, ...]], *, name: Sequence[str] | None = None
) -> tuple[FixpointRelation, ...]: ...


def lfp(
    function: Callable[..., Source | tuple[Source, ...]], *, name: str | Sequence[str] | None = None
) -> FixpointRelation | tuple[FixpointRelation, ...]:
    """The least set `s` with `s = function(s)`, as a relation of the open program.

    A function of several arguments gives a tuple of as many sets, and `lfp` their relations:
    `lfp(lambda even, odd: (union(zero, up(odd)), up(even)), name=("even", "odd"))`. Inside a
    function another `lfp` may use its arguments. A function is called at least twice, and twice as
    often for each `lfp` around it.

    Raises:
        ProgramError: no program is open; columns cannot be found, because every part needs an
            argument; or the function is not monotone, with the way to the operator that is not.
            (The right side of a `difference` turns growth to shrinking, and that of one inside
            it turns it back.)
        TypeError: the function gives another number of sets, or `name` is of another number.
    """
    builder = current_builder()
    several = len(inspect.signature(function).parameters) > 1
    sets = [_Argument(set_name) for set_name in _names(builder, function, name)]
    _find_columns(builder, function, sets)
    known = None not in [argument.types for argument in sets]
    for argument in sets if known else ():
        builder.declare(argument.name, argument.columns)
    # Where columns are not known yet, an `lfp` around this one is finding its own.
    before = len(builder.relations)
    results = _results(function, sets)
    inner = [relation.name for relation in builder.relations[before:]]
    for argument, rows in zip(sets, results, strict=True) if known else ():
        if rows.types != argument.types:
            raise TypeError(
                f"lfp {argument.name!r} of different columns: {argument.types} and {rows.types}"
            )
        builder.rules.extend(tidy(Rule((Atom(argument.name, t),), b)) for t, b in rows.alternatives)
    relations = tuple(
        FixpointRelation(
            argument.name if known else "",
            tuple(Attribute(column, kind) for column, kind in argument.columns.items()),
            builder=builder,
            uses=around,
            inner=_reading(argument.name, inner, builder.rules),
        )
        for argument, around in zip(sets, _uses_around(sets, results), strict=True)
    )
    return relations if several else relations[0]


def free_name(builder: Builder, stem: str) -> str:
    """The first name `stem_1`, `stem_2`, … that no relation has."""
    taken = {relation.name for relation in builder.relations}
    return next(n for n in (f"{stem}_{i}" for i in itertools.count(1)) if n not in taken)


@dataclass(slots=True, eq=False)
class _Argument:
    """One of the sets of an `lfp`, as its function gets it."""

    name: str
    types: tuple[str, ...] | None = None

    @property
    def columns(self) -> dict[str, str]:
        return {f"c{i}": kind for i, kind in enumerate(self.types or ())}

    @property
    def rows(self) -> Rows:
        uses = (Use(self),)
        if self.types is None:
            return Rows(None, (), uses)
        terms = tuple(map(variable, self.columns))
        return Rows(self.types, ((terms, Atom(self.name, terms)),), uses)


def _reading(name: str, others: Sequence[str], rules: Sequence[Rule]) -> tuple[str, ...]:
    """Those of the other relations that read the named one, by way of each other too."""
    readers = {name}
    grew = True
    while grew:
        heads = (
            rule.heads[0].relation
            for rule in rules
            if any(atom.relation in readers for atom, _ in uses(rule.body))
        )
        new = {head for head in heads if head in others} - readers
        readers |= new
        grew = bool(new)
    return tuple(other for other in others if other in readers)


def _names(
    builder: Builder, function: Callable[..., object], name: str | Sequence[str] | None
) -> list[str]:
    """A name for each argument of a function."""
    wanted = len(inspect.signature(function).parameters)
    if name is None:
        first = free_name(builder, "lfp")
        number = int(first.rpartition("_")[2])
        return [first, *(f"lfp_{number + i}" for i in range(1, wanted))]
    names = [name] if isinstance(name, str) else list(name)
    if len(names) != wanted:
        raise TypeError(
            f"lfp of a function of {plural(wanted, 'argument')} has {plural(len(names), 'name')}"
        )
    return names


def _find_columns(
    builder: Builder, function: Callable[..., Source | tuple[Source, ...]], sets: list[_Argument]
) -> None:
    """Give each set its types; those stay unknown that need an argument of an `lfp` around."""
    while True:
        with builder.forgotten():
            results = _results(function, sets)
        row_types = [rows.types for rows in results]
        if row_types == [argument.types for argument in sets]:
            break
        for set_, types in zip(sets, row_types, strict=True):
            set_.types = types
    uses = [use for rows in results for use in rows.uses]
    if None in row_types and all(use.argument in sets for use in uses):
        needs = sets[row_types.index(None)].name
        message = f"lfp {needs!r} needs a part that does not use its argument: union(base, ...)"
        raise ProgramError(message)


def _results(
    function: Callable[..., Source | tuple[Source, ...]], sets: list[_Argument]
) -> list[Rows]:
    """What the function gives for the sets, which it may use where that is monotone."""
    given = function(*(argument.rows for argument in sets))
    results = [rows_of(source) for source in (given if isinstance(given, tuple) else (given,))]
    if len(results) != len(sets):
        raise TypeError(f"lfp of {plural(len(sets), 'set')}: its function gave {len(results)}")
    for argument, rows in zip(sets, results, strict=True):
        for use in rows.uses:
            if use.argument in sets and (use.odd or use.folded):
                raise ProgramError(_not_monotone(argument.name, use))
    return results


def _not_monotone(name: str, use: Use) -> str:
    assert isinstance(use.argument, _Argument)  # noqa: S101  only sets of an lfp are used
    steps = list(use.path)
    if use.folded:
        end = next(n for n, step in enumerate(steps) if step.startswith(("aggregate", "connected")))
        what, way = "goes over", "aggregate a set that does not need it"
    else:
        end = len(steps) - 1 - steps[::-1].index("difference.right")
        what, way = "takes away", "take away a set that does not need it, or take away twice"
    path = " > ".join((f"lfp {name!r}", *steps[: end + 1]))
    return f"{path} {what} {use.argument.name!r}, so the function is not monotone: {way}"


def _uses_around(sets: list[_Argument], results: list[Rows]) -> list[tuple[Use, ...]]:
    """How each set depends on the arguments of the `lfp`s around, by way of the others too."""
    uses_of: list[dict[tuple[object, bool, bool], Use]] = [{} for _ in sets]
    grew = True
    while grew:
        grew = False
        for mine, rows in zip(uses_of, results, strict=True):
            for use in rows.uses:
                through = [use]
                if isinstance(use.argument, _Argument) and use.argument in sets:
                    # Monotone in the sets themselves, so their own uses keep their parity.
                    theirs = uses_of[sets.index(use.argument)].values()
                    step = f"lfp {use.argument.name!r}"
                    through = [replace(u, path=(*use.path, step, *u.path)) for u in list(theirs)]
                for reach in through:
                    key = (reach.argument, reach.odd, reach.folded)
                    if key not in mine:
                        mine[key] = reach
                        grew = True
    return [tuple(by_key.values()) for by_key in uses_of]
