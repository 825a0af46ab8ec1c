"""Groups of relations in random programs that go beyond plain rules.

A group declares relations of its own stratum, derives them from lower ones, and shows plain columns
to the strata above. Every group terminates: least and greatest values move one way only, lists get
longer only as their heads rise. In `GROUPS` choices and subsumption stand outside recursion, where
what stays does not depend on the order of changes; `BEYOND` has the others, for tests that take the
rows from the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.generators.random_rules import Generator, Relation

__all__ = ["BEYOND", "GROUPS", "extended"]


def extended(generator: Generator, relations: list[Relation]) -> list[str]:
    """The lines of up to two groups; their relations are added to the list, with their strata."""
    rng = generator.rng
    table = {**GROUPS, **BEYOND}
    known = [name for name in sorted(table) if name in generator.features]
    lines: list[str] = []
    top = max(relation.stratum for relation in relations)
    if {"founded", *_ITS_PARTS} <= generator.features:
        own = Random(repr(relations))  # other draws are as they were, and nothing reads these
        if own.random() < 0.25:
            draw = Draw(generator, relations, list(relations), top, "h")
            draw.rng = own
            founded(draw, lines)
    if not known or rng.random() < 0.4:
        return lines
    for number in range(rng.choice((1, 1, 2))):
        stratum = rng.randrange(1, top + 2, 2) + 0.5 * number
        lower = [relation for relation in relations if relation.stratum < stratum]
        table[rng.choice(known)](Draw(generator, lower, relations, stratum, f"g{number}"), lines)
    return lines


class Draw:
    """What a group needs: atoms over lower relations, and a place for its own."""

    def __init__(
        self,
        generator: Generator,
        lower: list[Relation],
        relations: list[Relation],
        stratum: float,
        name: str,
    ) -> None:
        self.rng, self.lower, self.relations = generator.rng, lower, relations
        self.kind = type(relations[0])
        self.kinds = ["number", "number", "symbol" if "symbols" in generator.features else "number"]
        self.kinds += ["float"] if "floats" in generator.features else []
        self.constant = generator.constant
        self.reduces = "reducers" in generator.features
        self.stratum, self.name = stratum, name

    def own(self, suffix: str, *columns: str) -> str:
        """A relation of this group that higher strata may read."""
        name = f"{self.name}{suffix}"
        self.relations.append(self.kind(name, columns, self.stratum, False, True))
        return name

    def type(self) -> str:
        """A column type, that some lower relation has where possible."""
        return self.rng.choice(self.kinds)

    def atom(self, **wanted: str) -> str:
        """An atom over a lower relation, or several, that bind variables of the given types."""
        left = dict(wanted)
        atoms = []
        while left:
            usable = [r for r in self.lower if set(r.columns) & set(left.values())]
            if not usable:
                atoms += [f"{name} = {self.constant(kind)}" for name, kind in left.items()]
                break
            widest = max(usable, key=lambda r: (len(set(r.columns)), self.rng.random()))
            relation = self.rng.choice([*usable, widest])
            args = []
            for kind in relation.columns:
                name = next((n for n, k in left.items() if k == kind), None)
                args.append("_" if name is None else name)
                left.pop(name or "", None)
            atoms.append(f"{relation.name}({', '.join(args)})")
        return ", ".join(atoms)


def best(draw: Draw, lines: list[str]) -> None:
    """A column of least or greatest values, also in recursion along a lower relation."""
    key, (join, sign) = draw.type(), draw.rng.choice((("min", "+"), ("max", "-")))
    kind = draw.rng.choice([one for one in draw.kinds if one != "symbol"])
    name = draw.own("best", key, kind)
    lines += [f".decl {name}(k: {key}, v: {kind} <{join}>)", f".output {name}"]
    lines.append(f"{name}(k, v) :- {draw.atom(k=key, v=kind)}.")
    if draw.rng.random() < 0.7:
        point = ".0" if kind == "float" else ""
        step = draw.rng.choice((f"v {sign} 1{point}", f"v {sign} 2{point}", "v"))
        lines.append(f"{name}(l, {step}) :- {name}(k, v), {draw.atom(k=key, l=key)}.")
    if draw.rng.random() < 0.3:
        lines.append(f"{name}({draw.constant(key)}, {draw.constant(kind)}).")


def parity(draw: Draw, lines: list[str]) -> None:
    """Recursion under an even number of negations, in a group or between two relations."""
    kind = draw.type()
    edge = draw.atom(x=kind, y=kind)
    one, two = draw.own("even", kind), f"{draw.name}odd"
    lines += [f".decl {one}(x: {kind})", f".output {one}"]
    if draw.rng.random() < 0.6:
        lines.append(f"{one}(x) :- {draw.atom(x=kind)}, !( {edge}, !{one}(y) ).")
    else:
        draw.own("odd", kind)
        lines += [f".decl {two}(x: {kind})", f".output {two}"]
        lines.append(f"{one}(x) :- {draw.atom(x=kind)}, !{two}(x).")
        lines.append(f"{two}(x) :- {edge}, !{one}(y).")


def records(draw: Draw, lines: list[str]) -> None:
    """Records as values: pairs, and lists that grow as their heads rise."""
    kind, pair, many = draw.type(), f"{draw.name}pair", f"{draw.name}list"
    flat = draw.own("flat", "number", kind)
    lines.append(f".type {pair.upper()} = [a: number, b: {kind}]")
    lines.append(f".decl {pair}(p: {pair.upper()}) .decl {flat}(a: number, b: {kind})")
    lines.append(f"{pair}([x, y]) :- {draw.atom(x='number', y=kind)}.")
    lines.append(f"{flat}(x, y) :- {pair}([x, y]), {pair}(p), p = [x, _].")
    if draw.rng.random() < 0.6:
        # Equations that ground each other, either way round.
        equations = ["p = [x, y]", draw.rng.choice(("q = [x, y]", "[x, y] = q", "q = [x, _]"))]
        equations.append(draw.rng.choice((f"{pair}(q)", f"{pair}([x, _]), {pair}(q)", "q = p")))
        if kind == "number":
            extra = ("p = [y, x]", "[y, x] = q", f"!({pair}(r), r = [y, x])")
            equations.append(draw.rng.choice(extra))
        draw.rng.shuffle(equations)
        lines.append(f"{flat}(x, y) :- {pair}(p), {', '.join(equations)}.")
        both = draw.own("both", "number")
        lines.append(f".decl {pair}s(p: {pair.upper()}) .decl {both}(x: number)")
        lines.append(f"{pair}s(q) :- {pair}(p), p = [x, y], q = [z, y], z = (x + 1) % 4.")
        lines.append(f"{both}(x) :- {pair}s(p), {pair}(q), p = [x, y], q = [x, y].")
    if draw.rng.random() < 0.6:
        ends = draw.own("heads", "number")
        lines.append(f".type {many.upper()} = [head: number, tail: {many.upper()}]")
        lines.append(f".decl {many}(l: {many.upper()}) .decl {ends}(x: number)")
        lines.append(f"{many}([x, nil]) :- {draw.atom(x='number')}, x >= 0, x < 5.")
        lines.append(
            f"{many}([y, l]) :- {many}(l), l = [x, _], {draw.atom(y='number')}, y > x, y < 5."
        )
        lines.append(f"{ends}(x) :- {many}([x, [_, _]]).")
    if draw.rng.random() < 0.7:
        optional(draw, lines, kind)


def optional(draw: Draw, lines: list[str], kind: str) -> None:
    """Records of one field, which are coded as it is: opened, made, absent, and within another."""
    rng, name, made = draw.rng, f"{draw.name}maybe", f"{draw.name}maybe".upper()
    there, none = draw.own("there", "number", kind), draw.own("none", "number")
    lines.append(f".type {made} = [v: {kind}] .decl {name}(k: number, o: {made})")
    lines.append(f".decl {there}(k: number, v: {kind}) .decl {none}(k: number)")
    lines.append(f"{name}(k, [x]) :- {draw.atom(k='number', x=kind)}.")
    lines.append(f"{name}(k, nil) :- {draw.atom(k='number')}, k {rng.choice(('<', '>'))} 2.")
    opened = ("{0}(k, [x])", "{0}(k, o), o = [x]", "{0}(k, o), o != nil, [x] = o")
    lines.append(f"{there}(k, x) :- {rng.choice(opened).format(name)}.")
    absent = (f"{name}(k, nil)", f"{name}(k, _), !{name}(k, [_])", f"{name}(k, o), !(o = [_])")
    lines.append(f"{none}(k) :- {rng.choice(absent)}.")
    if rng.random() < 0.5:
        carried = (f"{name}(k, o)", f"{name}(k, [x]), o = [x]")
        edge = draw.atom(k="number", l="number")
        lines.append(f"{name}(l, o) :- {rng.choice(carried)}, {edge}.")
    if kind == "number" and rng.random() < 0.5:
        lines.append(f"{name}(k, [z]) :- {name}(k, [x]), z = (x + 3) % 5.")
    if rng.random() < 0.6:
        both = draw.own("same", "number", "number")
        joins = (f"{name}(k, o), {name}(l, o)", f"{name}(k, [x]), o = [x], {name}(l, o)")
        lines.append(f".decl {both}(k: number, l: number)")
        lines.append(f"{both}(k, l) :- {rng.choice(joins)}.")
    if rng.random() < 0.5:
        box, flat = f"{name}box", draw.own("boxed", kind)
        lines.append(f".type {box.upper()} = [o: {made}] .decl {box}(b: {box.upper()})")
        lines.append(f"{box}([o]) :- {name}(_, o). .decl {flat}(v: {kind})")
        lines.append(f"{flat}(x) :- {box}([[x]]), {box}([o]), o {rng.choice(('=', '!='))} nil.")


def branches(draw: Draw, lines: list[str]) -> None:
    """Values of an algebraic data type, taken apart again."""
    kind, name = draw.type(), f"{draw.name}term"
    flat = draw.own("size", "number", kind)
    up = name.capitalize()
    lines.append(f".type {up} = {up}Leaf {{ v: {kind} }} | {up}Node {{ n: number, t: {up} }}")
    lines.append(f".decl {name}(t: {up}) .decl {flat}(n: number, v: {kind})")
    lines.append(f"{name}(${up}Leaf(x)) :- {draw.atom(x=kind)}.")
    lines.append(
        f"{name}(${up}Node(n, t)) :- {name}(t), t = ${up}Leaf(x), {draw.atom(x=kind, n='number')}."
    )
    lines.append(f"{flat}(n, x) :- {name}(${up}Node(n, ${up}Leaf(x))).")
    if draw.rng.random() < 0.5:
        equations = [f"t = ${up}Node(n, l)", f"u = ${up}Node(n, l)", f"l = ${up}Leaf(x)"]
        equations.append(draw.rng.choice((f"{name}(u)", f"!(t != u), {name}(u)", "u = t")))
        draw.rng.shuffle(equations)
        lines.append(f"{flat}(n, x) :- {name}(t), {', '.join(equations)}.")


def choice(draw: Draw, lines: list[str]) -> None:
    """One row per value of a key, of one domain or two, with up to two columns beside it."""
    columns = {name: draw.type() for name in "xyz"[: draw.rng.choice((2, 2, 3))]}
    name = draw.own("choice", *columns.values())
    domains = []
    for _ in range(draw.rng.choice((1, 1, 2))):
        key = draw.rng.sample(list(columns), draw.rng.choice((1, 1, 2)))
        domains.append(key[0] if len(key) == 1 else f"({', '.join(key)})")
    declared = ", ".join(f"{column}: {kind}" for column, kind in columns.items())
    lines += [f".decl {name}({declared}) choice-domain {', '.join(domains)}", f".output {name}"]
    for _ in range(draw.rng.randint(1, 2)):
        lines.append(f"{name}({', '.join(columns)}) :- {draw.atom(**columns)}.")


def subsumption(draw: Draw, lines: list[str]) -> None:
    """Rows that give way to better ones of the same key."""
    key = draw.type()
    name = draw.own("kept", key, "number")
    lines += [f".decl {name}(x: {key}, v: number)", f".output {name}"]
    for _ in range(draw.rng.randint(1, 2)):
        lines.append(f"{name}(x, v) :- {draw.atom(x=key, v='number')}.")
    test = draw.rng.choice(("v < w", "w < v", "v < w, w < 4", "v + 1 < w"))
    if draw.rng.random() < 0.3:  # outside recursion an order may look at the rows themselves
        own = draw.rng.choice((f"{name}(x, u), u != v", f"!{name}(x, 3)", f"{name}(_, w)"))
        test = f"{test}, {own}"
    lines.append(f"{name}(x, v) <= {name}(x, w) :- {test}.")
    if draw.rng.random() < 0.4:
        pair = draw.own("first", key, "number")
        lines.append(f".type {name.upper()} = [x: {key}, v: number]")
        lines.append(f".decl {name}s(p: {name.upper()}) .decl {pair}(x: {key}, v: number)")
        lines.append(f"{name}s([x, v]) :- {draw.atom(x=key, v='number')}.")
        lines.append(f"{name}s([x, v]) <= {name}s([x, w]) :- {test.split(', ')[0]}.")
        lines.append(f"{pair}(x, v) :- {name}s([x, v]).")


def equivalence(draw: Draw, lines: list[str]) -> None:
    """The equivalence that lower pairs generate."""
    kind = draw.type()
    name = draw.own("same", kind, kind)
    lines += [f".decl {name}(x: {kind}, y: {kind}) eqrel", f".output {name}"]
    lines.append(f"{name}(x, y) :- {draw.atom(x=kind, y=kind)}.")
    if draw.rng.random() < 0.4:
        lines.append(f"{name}(x, z) :- {name}(x, y), {draw.atom(y=kind, z=kind)}.")


_ITS_PARTS = ("aggregates", "arithmetic", "comparisons", "disjunction", "groups", "negation")
"""Features that the rules of a founded recursion show."""


def founded(draw: Draw, lines: list[str]) -> None:
    """Aggregates over their own recursion: from greater numbers down, or the other way round."""
    rng, two = draw.rng, draw.rng.random() < 0.3
    kind = rng.choice(["number", *(one for one in draw.kinds if one == "float")])
    pair = draw.atom(x="number", y="number")
    order = rng.choice(("y < x", "x < y", "y < x, y != 3", "x < y, !( y = 2 ; x = 1 )"))
    guard: list[str] = []
    other = Random(pair)  # the draws below are as they were
    if other.random() < 0.4:  # what is not asked for may need itself
        guard = [other.choice((f"x > {other.randrange(3)}", f"{draw.name}in(x)"))]
        order = f"( {order} ; !( {guard[0]} ) )"
        if "in(" in guard[0]:
            lines.append(f".decl {draw.name}in(x: number)")
            lines.append(f"{draw.name}in(x) :- {pair}, x != {other.randrange(4)}.")
    edge = f"{pair}, {order}"
    name, over = f"{draw.name}up", f"{draw.name}{'up' if rng.random() < 0.5 else 'over'}"
    more = {"z": draw.type()} if two else {}
    at, below = (", ".join([one, *more]) for one in "xy")
    columns = ", ".join(f"{one}: {of}" for one, of in {"x": "number", **more}.items())
    lines += [f".decl {name}({columns}, v: {kind})", f".output {name}"]
    lines.append(f"{name}({at}, v) :- {draw.atom(x='number', v=kind, **more)}.")
    if over != name:
        lines += [f".decl {over}({columns}, v: {kind})", f".output {over}"]
        step = rng.choice(("v", "v + v", f"v + {draw.constant(kind)}"))
        lines.append(f"{over}({at}, {step}) :- {name}({at}, v){rng.choice(('', ', v < 9', ''))}.")
    floats = ["sum", "min", "max", "mean"]
    numbers = ["sum", "min", "max", "count", *(["@@xor"] if draw.reduces else [])]
    for _ in range(rng.choice((1, 1, 2))):
        op = rng.choice(floats if kind == "float" else numbers)
        inner = f"{edge}, {over}({below}, {'_' if op == 'count' else 'w'})"
        if rng.random() < 0.2:
            inner = f"({inner} ; {draw.atom(x='number', y='number')}, {inner})"
        value = f"{op}{'' if op == 'count' else ' w'} : {{ {inner} }}"
        body = [draw.atom(x="number", **more), *guard, f"v = {value}"]
        if rng.random() < 0.3:
            body.append(rng.choice((f"!{name}({below}, v)", f"!{over}({below}, _)")))
            body.insert(1, edge)
        lines.append(f"{name}({at}, v) :- {', '.join(body)}.")
    if rng.random() < 0.5:
        lost = f"{draw.name}lost"
        lines += [f".decl {lost}(x: number)", f".output {lost}"]
        body = [draw.atom(x="number"), *guard, f"0 = count : {{ {edge}, {lost}(y) }}"]
        lines.append(f"{lost}(x) :- {', '.join(body)}.")


GROUPS: dict[str, Callable[[Draw, list[str]], None]] = {
    "best": best,
    "branches": branches,
    "choice": choice,
    "equivalence": equivalence,
    "parity": parity,
    "records": records,
    "subsumption": subsumption,
}
"""By feature: what writes a group's lines."""


def capped(draw: Draw, lines: list[str]) -> None:
    """A best value that a cycle lifts to its cap, through values that it replaces."""
    name = draw.own("high", "number", "number")
    lines += [f".decl {name}(k: number, v: number <max>)", f".output {name}"]
    lines.append(f"{name}(k, v) :- {draw.atom(k='number', v='number')}.")
    lines.append(f"{name}(l, min(v + 1, 6)) :- {name}(k, v), {draw.atom(k='number', l='number')}.")


def joined(draw: Draw, lines: list[str]) -> None:
    """Two columns that are joined: a row need not equal anything that a rule derives."""
    key = draw.type()
    name = draw.own("span", key, "number", "number")
    lines.append(f".decl {name}(k: {key}, lo: number <min>, hi: number <max>)")
    lines.append(f".output {name}")
    for _ in range(draw.rng.randint(1, 2)):
        lines.append(f"{name}(k, v, w) :- {draw.atom(k=key, v='number', w='number')}.")
    if draw.rng.random() < 0.5:
        step = draw.rng.choice(("v, w", "max(v - 1, 0), min(w + 1, 6)"))
        lines.append(f"{name}(l, {step}) :- {name}(k, v, w), {draw.atom(k=key, l=key)}.")


def lattice(draw: Draw, lines: list[str]) -> None:
    """A column of a user lattice: sets as bits, joined by `lub`."""
    key = draw.type()
    name = draw.own("bits", key, "number")
    kind = f"{draw.name}set"
    lines += [
        f".type {kind} <: number",
        f".functor {draw.name}lub(x: number, y: number): number",
        f".lattice {kind}<> {{ Bottom -> 0, Lub -> @{draw.name}lub(_, _) }}",
        f".decl {name}(k: {key}, v: {kind}<>)",
        f".output {name}",
        f"{name}(k, as(v, {kind})) :- {draw.atom(k=key, v='number')}.",
    ]
    if draw.rng.random() < 0.6:
        lines.append(f"{name}(l, v) :- {name}(k, v), {draw.atom(k=key, l=key)}.")


def choosing(draw: Draw, lines: list[str]) -> None:
    """A choice inside recursion: a tree of what is reached."""
    kind = draw.type()
    name = draw.own("tree", kind, kind)
    lines += [f".decl {name}(x: {kind}, y: {kind}) choice-domain y", f".output {name}"]
    lines.append(f"{name}(x, x) :- {draw.atom(x=kind)}, x != {draw.constant(kind)}.")
    lines.append(f"{name}(x, y) :- {name}(_, x), {draw.atom(x=kind, y=kind)}.")


def giving_way(draw: Draw, lines: list[str]) -> None:
    """Subsumption inside recursion: least distances."""
    key = draw.type()
    name = draw.own("near", key, "number")
    lines += [f".decl {name}(k: {key}, v: number)", f".output {name}"]
    lines.append(f"{name}(k, v) :- {draw.atom(k=key, v='number')}.")
    lines.append(f"{name}(l, v + 1) :- {name}(k, v), v < 6, {draw.atom(k=key, l=key)}.")
    lines.append(f"{name}(k, v) <= {name}(k, w) :- w < v.")


BEYOND: dict[str, Callable[[Draw, list[str]], None]] = {
    "capped": capped,
    "choosing": choosing,
    "giving_way": giving_way,
    "joined": joined,
    "lattice": lattice,
}
"""By feature: groups whose rows depend on the order of edits, or rest on rows since replaced."""
