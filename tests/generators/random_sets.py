"""Random expressions of set operators: written as rules, and evaluated by their definitions.

One noun: an *expression*, a tuple of the operator's name and its parts. Inputs are `r(a)` and
`e(a, b)` over `range(VALUES)`. Sees: an operator whose rules mean another set, nested and mutual
fixpoints included, under the right side of a difference as well. Not made: projections that leave
`range(VALUES)`, so every fixpoint is finite.
"""

from __future__ import annotations

from random import Random

from deltafix.changes.connective import connective
from deltafix.changes.formula import And, Not, Or
from deltafix.reactive import Holds
from deltafix.rules import operators as ops

VALUES = 5
WIDTHS = {"r": 1, "e": 2}
_TO = {
    (1, 1): [lambda a: a, lambda a: (a + 1) % VALUES],
    (1, 2): [lambda a: (a, a), lambda a: (a, (a + 2) % VALUES)],
    (2, 1): [lambda a, b: b, lambda a, b: (a + b) % VALUES],
    (2, 2): [lambda a, b: (b, a), lambda a, b: (a, (b + 1) % VALUES), lambda a, b: (3, b)],
}
CONNECTIVES = {
    "exactly_one": (
        connective("exactly_one", lambda t, u: Or(And(t.now, Not(u.now)), And(u.now, Not(t.now)))),
        lambda t, u: t ^ u,
    ),
    "either": (  # with rules of its own: no pair of events where one part takes the other's place
        connective(
            "either",
            lambda t, u: Or(t.now, u.now),
            up=lambda t, u: Or(t.up, u.up),
            down=lambda t, u: Or(And(t.down, Not(u.next)), And(u.down, Not(t.next))),
        ),
        lambda t, u: t | u,
    ),
    "two_of": (
        connective(
            "two_of",
            lambda t, u, v: Or(And(t.now, u.now), Or(And(u.now, v.now), And(t.now, v.now))),
        ),
        lambda t, u, v: (t & u) | (u & v) | (t & v),
    ),
}
"""Connectives of one's own, and what they mean, of sets."""

REDUCERS = {name: Holds(one) for name, (one, _) in CONNECTIVES.items()}
"""For `deltafix.connect`."""

_TESTS = {
    1: [lambda a: a < 3, lambda a: a != 1],
    2: [lambda a, b: a < b, lambda a, b: a != b],
}


def random_set(rng: Random, width: int, depth: int, scope: tuple = ()) -> tuple:
    """An expression; `scope` has (name, width, odd, folded) of each argument of an `lfp` around."""

    def part(of: int, odd: bool = False, folded: bool = False, deeper: tuple = ()) -> tuple:
        inside = tuple((n, w, o != odd, f or folded) for n, w, o, f in scope)
        return random_set(rng, of, depth - 1, inside + deeper)

    usable = [n for n, w, odd, folded in scope if w == width and not odd and not folded]
    if usable and rng.random() < 0.35:
        return ("argument", rng.choice(usable))
    if depth == 0:
        if rng.random() < 0.15:
            rows = {tuple(rng.choices(range(VALUES), k=width)) for _ in range(2)}
            return ("const", tuple(sorted(rows)))
        return ("relation", "r" if width == 1 else "e")
    kinds = ["union", "union", "join", "product", "difference", "twice", "filter", "project"]
    kind = rng.choice([*kinds, "aggregate", "connected", "connected", "lfp", "lfp", "mutual"])
    if kind == "connected":
        name = rng.choice(sorted(CONNECTIVES))
        parts = CONNECTIVES[name][0].parameters
        return (kind, name, *(part(width, folded=True) for _ in parts))
    if kind == "union":
        return (kind, *(part(width) for _ in range(rng.randint(2, 3))))
    if kind == "twice" and depth > 1:
        return ("difference", part(width), ("difference", part(width, odd=True), part(width)))
    if kind in ("difference", "twice"):
        return ("difference", part(width), part(width, odd=True))
    if kind == "filter":
        return (kind, rng.randrange(2), width, part(width))
    if kind == "project":
        of = rng.choice((1, 2))
        return (kind, (of, width), rng.randrange(len(_TO[of, width])), part(of))
    if kind == "product":
        one = ("product", part(1), part(1))
        return one if width == 2 else ("project", (2, 1), 0, one)
    if kind == "join":
        left, right = rng.choice((1, 2)), rng.choice((1, 2))
        on = [(i, rng.randrange(right)) for i in range(left) if rng.random() < 0.6]
        keep = tuple(rng.choices(range(left + right), k=width))
        return (kind, tuple(on), keep, part(left), part(right))
    if kind == "aggregate":
        op = rng.choice(("count", "min", "max"))
        by = (rng.randrange(2),) if width == 2 else ()
        return (kind, op, by, part(2, folded=True))
    names = [f"s{rng.randrange(10**9)}" for _ in range(1 if kind == "lfp" else 2)]
    widths = [width, *(rng.choice((1, 2)) for _ in names[1:])]
    own = tuple((n, w, False, False) for n, w in zip(names, widths, strict=True))
    bodies = [("union", ("relation", "r" if w == 1 else "e"), part(w, deeper=own)) for w in widths]
    return ("lfp", tuple(names), *bodies)


def written(node: tuple, env: dict):
    """The expression as the library's operators, over relations and arguments by name."""
    match node:
        case ("relation" | "argument", name):
            return env[name]
        case ("const", rows):
            return ops.const(rows)
        case ("union", *parts):
            return ops.union(*(written(part, env) for part in parts))
        case ("difference", left, right):
            return ops.difference(written(left, env), written(right, env))
        case ("filter", n, width, source):
            return ops.filter_(_TESTS[width][n], written(source, env))
        case ("project", widths, n, source):
            return ops.project(written(source, env), _TO[widths][n])
        case ("product", left, right):
            return ops.product(written(left, env), written(right, env))
        case ("join", on, keep, left, right):
            one, two = written(left, env), written(right, env)
            return ops.join(one, two, on=on, project=lambda *row: tuple(row[i] for i in keep))
        case ("aggregate", op, by, source):
            of = None if op == "count" else 1
            return ops.aggregate(written(source, env), op, of, by=by)
        case ("connected", name, *parts):
            return ops.connected(CONNECTIVES[name][0], *(written(part, env) for part in parts))
        case ("lfp", names, body):
            return ops.lfp(lambda s: written(body, {**env, names[0]: s}))
        case ("lfp", names, one, two):
            return ops.lfp(
                lambda s, t: tuple(
                    written(body, {**env, names[0]: s, names[1]: t}) for body in (one, two)
                )
            )[0]
    raise AssertionError(node)


def meant(node: tuple, env: dict[str, set]) -> set:
    """The rows of the expression, by the definition of each operator."""
    match node:
        case ("relation" | "argument", name):
            return env[name]
        case ("const", rows):
            return set(rows)
        case ("union", *parts):
            return set().union(*(meant(part, env) for part in parts))
        case ("difference", left, right):
            return meant(left, env) - meant(right, env)
        case ("filter", n, width, source):
            return {row for row in meant(source, env) if _TESTS[width][n](*row)}
        case ("project", widths, n, source):
            made = (_TO[widths][n](*row) for row in meant(source, env))
            return {row if isinstance(row, tuple) else (row,) for row in made}
        case ("product", left, right):
            return {a + b for a in meant(left, env) for b in meant(right, env)}
        case ("join", on, keep, left, right):
            right_rows = meant(right, env)
            pairs = ((a, b) for a in meant(left, env) for b in right_rows)
            fitting = (a + b for a, b in pairs if all(a[i] == b[j] for i, j in on))
            return {tuple(row[i] for i in keep) for row in fitting}
        case ("aggregate", op, by, source):
            groups: dict[tuple, list] = {} if by or op != "count" else {(): []}
            for row in meant(source, env):
                groups.setdefault(tuple(row[i] for i in by), []).append(row[1])
            fold = {"count": len, "min": min, "max": max}[op]
            return {(*key, fold(values)) for key, values in groups.items()}
        case ("connected", name, *parts):
            return CONNECTIVES[name][1](*(meant(part, env) for part in parts))
        case ("lfp", names, *bodies):
            now = {name: set() for name in names}
            while True:
                then = {n: meant(b, {**env, **now}) for n, b in zip(names, bodies, strict=True)}
                if then == now:
                    return now[names[0]]
                now = then
    raise AssertionError(node)
