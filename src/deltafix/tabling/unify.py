"""Matching, unification and instantiation over binding rows, without recursion.

A *row* is a clause's binding state: a tuple with one entry per clause variable, a term or None
for a variable not bound to anything (and not shared with any other). A non-ground entry speaks of
the row's own free variables. Invariant: rows are immutable; instantiated terms number their
variables from 0 in order of first occurrence, so variants are one object. Unification is sound:
it fails where a variable would have to contain itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from deltafix.tabling.terms import Struct, Term, Var, struct, var

Row: TypeAlias = tuple[Term | None, ...]


def substitute(term: Term, lookup: Callable[[int], Term]) -> Term:
    """`term` with every variable replaced by `lookup(its number)`, left to right.

    Complexity: O(distinct subterms): one that occurs twice is built once, as terms that double
    at every step have far more subterms than distinct ones.
    """
    if term.ground:
        return term
    if isinstance(term, Var):
        return lookup(term.index)
    known: dict[Term, Term] = {}
    frames: list[tuple[Struct, list[Term]]] = [(cast("Struct", term), [])]
    while True:
        top, built = frames[-1]
        args = top.args
        while len(built) < len(args):
            argument = args[len(built)]
            if argument.ground:
                built.append(argument)
            elif isinstance(argument, Var):
                built.append(lookup(argument.index))
            elif (done := known.get(argument)) is not None:
                built.append(done)
            else:
                frames.append((cast("Struct", argument), []))
                break
        else:
            frames.pop()
            done = known[top] = struct(top.name, built)
            if not frames:
                return done
            frames[-1][1].append(done)


def match(patterns: Sequence[Term], row: Row, values: Sequence[Term]) -> Row | None:
    """Match clause patterns against values, all ground: the row extended, or None.

    Falls back to `unify` where a row entry met on the way is not ground. O(size of patterns).
    """
    out: list[Term | None] | None = None
    for pattern, value in zip(patterns, values, strict=True):
        if pattern is value:
            continue
        if type(pattern) is Var:
            index = pattern.index
            current = row[index] if out is None else out[index]
            if current is value:
                continue
            if current is None:
                if out is None:
                    out = list(row)
                out[index] = value
            elif current.ground:
                return None
            else:
                return unify(patterns, row, values)
        elif pattern.ground or type(value) is not Struct:
            return None
        else:
            if out is None:
                out = list(row)
            fits = _match_struct(pattern, out, value)
            if fits is None:
                return unify(patterns, row, values)
            if not fits:
                return None
    return row if out is None else tuple(out)


def _match_struct(pattern: Term, out: list[Term | None], value: Term) -> bool | None:
    """Match one compound pattern, binding into `out`; None where unification is needed."""
    work = [(pattern, value)]
    while work:
        left, right = work.pop()
        if left is right:
            continue
        if type(left) is Var:
            current = out[left.index]
            if current is None:
                out[left.index] = right
            elif current is not right:
                return False if current.ground else None
        elif (
            left.ground
            or type(left) is not Struct
            or type(right) is not Struct
            or left.name != right.name
            or len(left.args) != len(right.args)
        ):
            return False
        else:
            work.extend(zip(left.args, right.args, strict=True))
    return True


def is_plain(values: Sequence[Term]) -> bool:
    """Whether every value is ground or a variable that occurs nowhere else among them."""
    seen = 0
    for value in values:
        if value.ground:
            continue
        if type(value) is not Var:
            return False
        bit = 1 << value.index
        if seen & bit:
            return False
        seen |= bit
    return True


def unify(patterns: Sequence[Term], row: Row, values: Sequence[Term]) -> Row | None:
    """Unify clause patterns under a row with values whose variables are their own.

    Three groups of variables meet: clause variables (offset 0), the row's free variables, and the
    values' variables. Terms stay as they are; a binding is a (term, offset) pair.

    Returns:
        The row after unification, or None if there is none. Variables are renumbered.
    """
    far = len(row) + max((t.nvars for t in row if t is not None), default=0)
    return _solve(row, [(p, 0, v, far) for p, v in zip(patterns, values, strict=True)])


def unify_pair(left: Term, right: Term, row: Row) -> Row | None:
    """Unify two patterns of one clause under one row (`=`)."""
    return _solve(row, [(left, 0, right, 0)])


def _solve(row: Row, work: list[tuple[Term, int, Term, int]]) -> Row | None:
    slots = len(row)
    bindings: dict[int, tuple[Term, int]] = {
        i: (t, slots) for i, t in enumerate(row) if t is not None
    }
    met: set[tuple[Term, int, Term, int]] = set()
    while work:
        left, left_at, right, right_at = work.pop()
        left, left_at = _deref(left, left_at, bindings)
        right, right_at = _deref(right, right_at, bindings)
        if left is right and (left_at == right_at or left.ground):
            continue
        if type(left) is Var:
            bindings[left.index + left_at] = (right, right_at)
        elif type(right) is Var:
            bindings[right.index + right_at] = (left, left_at)
        elif (
            type(left) is not Struct
            or type(right) is not Struct
            or left.name != right.name
            or len(left.args) != len(right.args)
        ):
            return None
        elif (pair := (left, left_at, right, right_at)) not in met:
            met.add(pair)  # shared subterms meet again and again
            work.extend(
                (a, left_at, b, right_at) for a, b in zip(left.args, right.args, strict=True)
            )
    return _resolve_row(slots, bindings)


def _deref(term: Term, at: int, bindings: dict[int, tuple[Term, int]]) -> tuple[Term, int]:
    while type(term) is Var:
        bound = bindings.get(term.index + at)
        if bound is None:
            return term, at
        term, at = bound
    return term, at


def _resolve_row(slots: int, bindings: dict[int, tuple[Term, int]]) -> Row | None:
    """The row the bindings stand for; None when a variable contains itself."""
    numbers: dict[int, int] = {}
    uses: dict[Term, int] = {}
    done: dict[tuple[int, int], Term] = {}
    out: list[Term] = []
    for slot in range(slots):
        resolved = _resolve(var(slot), 0, bindings, numbers, done)
        if resolved is None:
            return None
        out.append(resolved)
        _count(resolved, uses)
    return tuple(None if type(t) is Var and uses[t] == 1 else t for t in out)


def _count(term: Term, uses: dict[Term, int]) -> None:
    """Count what occurs in a term; a count of two stands for more, so nothing is walked thrice."""
    work = [term]
    while work:
        top = work.pop()
        if top.ground or uses.get(top, 0) == 2:
            continue
        uses[top] = uses.get(top, 0) + 1
        if type(top) is Struct:
            work.extend(top.args)


def _resolve(
    term: Term,
    at: int,
    bindings: dict[int, tuple[Term, int]],
    numbers: dict[int, int],
    done: dict[tuple[int, int], Term],
) -> Term | None:
    """Build one term under the bindings; frames on an explicit stack see cycles as None."""
    open_frames: set[tuple[int, int]] = set()
    frames: list[tuple[Struct, int, list[Term]]] = []
    result: Term | None = None
    term, at = _deref(term, at, bindings)
    while True:
        if term.ground:
            result = term
        elif type(term) is Var:
            result = var(numbers.setdefault(term.index + at, len(numbers)))
        else:
            result = done.get((id(term), at))
            if result is None:
                if (id(term), at) in open_frames:
                    return None
                open_frames.add((id(term), at))
                frames.append((cast("Struct", term), at, []))
        while frames:
            top, top_at, built = frames[-1]
            if result is not None:
                built.append(result)
                result = None
            if len(built) < len(top.args):
                term, at = _deref(top.args[len(built)], top_at, bindings)
                break
            frames.pop()
            open_frames.discard((id(top), top_at))
            result = done[(id(top), top_at)] = struct(top.name, built)
        else:
            return cast("Term", result)


def instantiate(patterns: Sequence[Term], row: Row) -> tuple[Term, ...]:
    """The patterns under a row, as terms with variables numbered by first occurrence.

    Complexity: O(size of the patterns and of the non-ground entries they use).
    """
    out: list[Term] = []
    numbers: dict[int, int] | None = None
    for pattern in patterns:
        if pattern.ground:
            out.append(pattern)
            continue
        if type(pattern) is Var:
            bound = row[pattern.index]
            if bound is not None and bound.ground:
                out.append(bound)
                continue
        if numbers is None:
            numbers = {}
        out.append(_fill(pattern, row, numbers))
    return tuple(out)


def _fill(pattern: Term, row: Row, numbers: dict[int, int]) -> Term:
    def free(index: int) -> Term:
        return var(numbers.setdefault(~index, len(numbers)))

    def slot(index: int) -> Term:
        bound = row[index]
        if bound is None:
            return var(numbers.setdefault(index, len(numbers)))
        return substitute(bound, free)

    return substitute(pattern, slot)
