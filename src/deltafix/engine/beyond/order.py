"""The order in which a body's literals are evaluated, once some variables are known.

A test goes as soon as its variables are known; then the atom with the most known columns, whole
keys first, the text's order among equals. Invariant: every literal that is not left out appears
once, and what a step says it binds was unknown before it. The order is fixed when rules are
compiled; no statistics.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from deltafix.errors import InternalError
from deltafix.plan.clause import Absent, Apply, Argument, Code, Compare, Literal, Match, Slot
from deltafix.plan.order import ready


@dataclass(frozen=True, slots=True)
class Probe:
    """An atom: look up rows by `keys`, bind `binds`, test `repeats` (column, argument each)."""

    position: int
    literal: Match
    keys: tuple[tuple[int, Argument], ...]
    binds: tuple[tuple[int, Slot], ...]
    repeats: tuple[tuple[int, Slot], ...]


@dataclass(frozen=True, slots=True)
class Check:
    """A literal whose inputs are known; `binds` is the variable it gives a value, or None."""

    position: int
    literal: Absent | Compare | Apply
    binds: Slot | None


Step: TypeAlias = Probe | Check


def ordered(
    body: Sequence[Literal], known: set[Slot], left_out: Container[int]
) -> tuple[Step, ...]:
    """Steps for the literals not left out. `known` grows to all variables that are bound."""
    remaining = [position for position in range(len(body)) if position not in left_out]
    steps: list[Step] = []
    while remaining:
        chosen = next((s for p in remaining if (s := _check(p, body[p], known))), None)
        step: Step = chosen or _best_probe(remaining, body, known)
        steps.append(step)
        remaining.remove(step.position)
        if isinstance(step, Probe):
            known.update(slot for _, slot in step.binds)
        elif step.binds is not None:
            known.add(step.binds)
    return tuple(steps)


def split(position: int, literal: Match, known: set[Slot], *, by_key: bool = True) -> Probe:
    """What an atom's columns look up, bind and test; without `by_key` nothing is looked up."""
    keys: list[tuple[int, Argument]] = []
    binds: list[tuple[int, Slot]] = []
    repeats: list[tuple[int, Slot]] = []
    new: set[Slot] = set()
    for column, arg in enumerate(literal.args):
        if arg is None:
            continue
        if by_key and (isinstance(arg, Code) or arg in known):
            keys.append((column, arg))
        elif isinstance(arg, Slot) and arg in new:
            repeats.append((column, arg))
        elif isinstance(arg, Slot):
            binds.append((column, arg))
            new.add(arg)
    return Probe(position, literal, tuple(keys), tuple(binds), tuple(repeats))


def _check(position: int, literal: Literal, known: set[Slot]) -> Check | None:
    binds = False if isinstance(literal, Match) else ready(literal, known)
    if binds is False:
        return None
    assert not isinstance(literal, Match)  # noqa: S101  those are never ready
    return Check(position, literal, None if binds is True else binds)


def _best_probe(remaining: list[int], body: Sequence[Literal], known: set[Slot]) -> Probe:
    probes = [
        split(position, literal, known)
        for position in remaining
        if isinstance(literal := body[position], Match)
    ]
    if not probes:
        shown = ", ".join(str(body[position]) for position in remaining)
        raise InternalError(f"beyond: nothing binds the variables of {shown}")
    return max(
        probes,
        key=lambda p: (len(p.keys) == len(p.literal.args), len(p.keys), -p.position),
    )
