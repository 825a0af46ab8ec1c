"""`range` without a functor of many values: the numbers of each range asked for, as relations.

    r(x, y) :- p(x, n), y = range(0, n).

becomes a hidden relation of the ranges asked for, one of their numbers, and a join:

    ~1(0, n, 1) :- p(x, n), 0 <= n.
    ~1(0, n, -1) :- p(x, n), 0 > n.
    ~2(a, b, s, a) :- ~1(a, b, s), s > 0, a < b.
    ~2(a, b, s, y) :- ~2(a, b, s, x), s > 0, y = x + s, y < b, y > x.
    r(x, y) :- p(x, n), ~2(0, n, _, y).

(and the same downwards), so a range is maintained like everything else. Invariant: the numbers are
those of `rules.values.numbers`; a sum that leaves the type ends a range, because it does not go on;
a range of floats that has a NaN, which is above infinity, has no numbers.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from deltafix.facts.values import WORD, BaseType
from deltafix.plan.binding import evaluable, unbound
from deltafix.plan.clause import (
    Apply,
    Clause,
    Code,
    Compare,
    Literal,
    Match,
    Slot,
)
from deltafix.plan.flatten import Draft

_START, _END, _STEP, _AT, _NEXT, _SUM = map(Slot, ("start", "end", "step", "at", "next", "sum"))
_KEY = (_START, _END, _STEP)


def write_out_ranges(draft: Draft, bits: int) -> None:
    """Replace every `range` in the clauses of a program. Linear in what it adds."""
    clauses, draft.clauses = draft.clauses, []
    for clause in clauses:
        draft.clauses.append(_written_out(clause, draft, bits))


def _written_out(clause: Clause, draft: Draft, bits: int) -> Clause:
    waiting = [lit for lit in clause.body if isinstance(lit, Apply) and lit.functor == "range"]
    if not waiting:
        return clause
    body: list[Literal] = [literal for literal in clause.body if literal not in waiting]
    while waiting:
        known, _ = evaluable(body)
        ready = next(call for call in waiting if not unbound(call.args, known))
        waiting.remove(ready)
        body.append(_numbers(ready, known, clause, draft, bits))
    asks = sum(literal in body for literal in clause.body[: clause.asks])
    return replace(clause, body=tuple(body), asks=asks)


def _numbers(
    term: Apply, known: tuple[Literal, ...], clause: Clause, draft: Draft, bits: int
) -> Match:
    """The literal that joins the numbers of a range, and the clauses behind it."""
    kind = term.result
    demand, numbers = draft.hide((kind,) * 3), draft.hide((kind,) * 4, is_range=True)
    start, end, *given = term.args
    rule = clause.rule
    body = known
    if given:
        draft.clauses.append(Clause(demand, (start, end, given[0]), body, rule))
    else:
        for op, step in (("<=", 1), (">", -1)):
            code = Code(_constant(step, kind, bits), kind)
            test = Compare(op, kind, start, end)
            draft.clauses.append(Clause(demand, (start, end, code), (*body, test), rule))
    key = Match(demand, _KEY)
    zero = Code(_constant(0, kind, bits), kind)
    tests = (*_counted(kind), Compare("=", kind, _STEP, zero), Compare("!=", kind, _START, _END))
    draft.clauses.append(Clause(numbers, (*_KEY, _START), (key, *tests), rule))
    for ahead, behind, way in (("<", ">", _up(kind, bits)), (">", "<", _down(kind, bits))):
        tests = (*way, *_counted(kind), Compare(ahead, kind, _START, _END))
        draft.clauses.append(Clause(numbers, (*_KEY, _START), (key, *tests), rule))
        following: tuple[Literal, ...] = (
            Match(numbers, (*_KEY, _AT)),
            *way,
            *_sum(kind, bits),
            Compare(ahead, kind, _NEXT, _END),
            Compare(behind, kind, _NEXT, _AT),
        )
        draft.clauses.append(Clause(numbers, (*_KEY, _NEXT), following, rule))
    return Match(numbers, (start, end, given[0] if given else None, term.target))


def _sum(kind: BaseType, bits: int) -> tuple[Apply, ...]:
    """`next = at + step`; what counts down in unsigned words wraps around."""
    if kind != "unsigned" or bits == WORD:
        return (Apply(_NEXT, "+", (_AT, _STEP), (kind, kind), kind),)
    mask = Code((1 << bits) - 1, kind)
    return (
        Apply(_SUM, "+", (_AT, _STEP), (kind, kind), kind),
        Apply(_NEXT, "band", (_SUM, mask), (kind, kind), kind),
    )


def _constant(value: int, kind: BaseType, bits: int) -> int | float:
    if kind == "float":
        return float(value)
    return value % (1 << bits) if kind == "unsigned" else value


def _counted(kind: BaseType) -> tuple[Compare, ...]:
    if kind != "float":
        return ()
    return tuple(Compare("<=", kind, slot, Code(inf, kind)) for slot in _KEY)


def _up(kind: BaseType, bits: int) -> tuple[Compare, ...]:
    above = Compare(">", kind, _STEP, Code(_constant(0, kind, bits), kind))
    return (
        (above, Compare("<", kind, _STEP, Code(1 << bits - 1, kind)))
        if kind == "unsigned"
        else (above,)
    )


def _down(kind: BaseType, bits: int) -> tuple[Compare, ...]:
    if kind == "unsigned":
        return (Compare(">=", kind, _STEP, Code(1 << bits - 1, kind)),)
    return (Compare("<", kind, _STEP, Code(_constant(0, kind, bits), kind)),)
