"""Which relation needs which, and in what order they can be computed.

Invariant: strata come out dependencies first, relations inside a stratum in declaration order, and
the order is the same on every run. A stratum is recursive when one of its relations needs itself;
it may negate itself where every cycle has an even number of negations.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from deltafix.diagnostics import Diagnostic
from deltafix.rules.ast import Atom, Program
from deltafix.rules.walk import uses


@dataclass(frozen=True, slots=True)
class Edge:
    """A rule for `head` uses `body`; `through` is a `!` per negation, an aggregate, or `<=`."""

    head: str
    body: str
    through: str
    atom: Atom

    @property
    def odd(self) -> bool:
        """Whether growth of `body` makes `head` shrink."""
        return len(self.through) % 2 == 1

    @property
    def closed(self) -> bool:
        """Whether `body` must be complete: it is aggregated, or orders the rows of `head`."""
        return bool(self.through.strip("!"))


@dataclass(frozen=True, slots=True)
class Stratum:
    """Relations that need each other, and whether any of them needs itself."""

    relations: tuple[str, ...]
    recursive: bool


def dependencies(program: Program) -> tuple[Edge, ...]:
    """One edge per head, body atom and rule, in text order. Heads of a rule are independent."""
    edges: list[Edge] = []
    for rule in program.rules:
        if rule.is_fact:
            continue
        for atom, through in rule.reads:
            edges.extend(Edge(head.relation, atom.relation, through, atom) for head in rule.heads)
    own: list[Edge] = []
    for order in program.orders:
        for atom, through in uses(order.body):
            edge = Edge(order.less.relation, atom.relation, through.strip("!") or "<=", atom)
            (own if edge.head == edge.body else edges).append(edge)
    if own:
        # Outside recursion an order may look at its relation's own rows, as they were derived.
        recursive = recursive_relations(strata(program, tuple(edges)))
        edges.extend(edge for edge in own if edge.head in recursive)
    return tuple(edges)


def strata(program: Program, edges: tuple[Edge, ...] | None = None) -> tuple[Stratum, ...]:
    """Strongly connected components, dependencies first (Tarjan 1972). Linear; no recursion."""
    needed: dict[str, dict[str, None]] = {r.name: {} for r in program.relations}
    for edge in dependencies(program) if edges is None else edges:
        needed[edge.head][edge.body] = None
    position = {name: i for i, name in enumerate(needed)}
    strata = []
    for members in components(needed):
        ordered = tuple(sorted(members, key=position.__getitem__))
        strata.append(Stratum(ordered, len(ordered) > 1 or ordered[0] in needed[ordered[0]]))
    return tuple(strata)


def recursive_relations(strata: Iterable[Stratum]) -> frozenset[str]:
    """The relations that need themselves."""
    return frozenset(name for stratum in strata if stratum.recursive for name in stratum.relations)


def components(needed: Mapping[str, Mapping[str, None]]) -> list[list[str]]:
    """Strongly connected components of `needed`, dependencies first (Tarjan 1972), iteratively."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    on_stack: set[str] = set()
    stack: list[str] = []
    groups: list[list[str]] = []
    for root in needed:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(needed[root]))]
        while work:
            name, children = work[-1]
            child = next(children, None)
            if child is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == number[name]:
                    cut = len(stack) - 1
                    while stack[cut] != name:
                        cut -= 1
                    groups.append(stack[cut:])
                    on_stack.difference_update(groups[-1])
                    del stack[cut:]
            elif child not in number:
                number[child] = low[child] = len(number)
                stack.append(child)
                on_stack.add(child)
                work.append((child, iter(needed[child])))
            elif child in on_stack:
                low[name] = min(low[name], number[child])
    return groups


def unstratified(
    program: Program,
    edges: tuple[Edge, ...],
    order: tuple[Stratum, ...] | None = None,
    *,
    aggregates: bool = False,
) -> tuple[Diagnostic, ...]:
    """One DF140 per stratum that has no meaning, with its shortest cycle; `order` are its strata.

    A stratum may not negate itself an odd number of times, nor order its rows by itself. One that
    aggregates over itself has a meaning only where its data are well founded (`plan.founded`), and
    there it may negate itself as it likes; with `aggregates` it is named, too. Where two of its
    relations are an odd number of negations apart, the one declared first is the least: a warning
    says so (DF164).
    """
    diagnostics: list[Diagnostic] = []
    for stratum, used in _inside(edges, strata(program, edges) if order is None else order):
        closed = [edge for edge in used if edge.closed]
        founded = not any(edge.through == "<=" for edge in closed)
        founded = founded and not any(map(program.keeps, stratum.relations))
        if closed and (aggregates or not founded):
            diagnostics.append(_closed(used, closed[0]))
        if closed:
            continue
        negated = [edge for edge in used if edge.through]
        if not negated:
            continue
        sides = _sides(stratum, used)
        if sides is None:
            odd = [edge for edge in negated if edge.odd][:_TRIED]
            walks = [[edge, *_path(used, edge, even=True)] for edge in odd]
            shortest = min((walk for walk in walks if _is_odd(walk)), key=len, default=walks[0])
            diagnostics.append(_cyclic(shortest[0], shortest))
        elif sides:
            first = stratum.relations[0]
            other = next(name for name in stratum.relations if name in sides)
            message = (
                f"`{first}` and `{other}` negate each other: `{first}`, declared first, is the "
                f"least, and `{other}` what follows from it"
            )
            hint = "declare first what must be well founded, or write one of them as a `!( .. )`"
            diagnostics.append(Diagnostic("DF164", message, negated[0].atom.span, hint, "warning"))
        merged = _merged(program, stratum)
        if merged:
            message = f"`{merged}` joins or drops rows, and its recursion negates"
            hint = f"let the negation look at a relation that does not need `{merged}`"
            diagnostics.append(Diagnostic("DF140", message, negated[0].atom.span, hint))
    return tuple(diagnostics)


def aggregating(program: Program, among: Container[str]) -> Iterator[Diagnostic]:
    """DF140 for the strata of some relations that aggregate over themselves."""
    edges = dependencies(program)
    for stratum, used in _inside(edges, strata(program, edges)):
        if any(name in among for name in stratum.relations):
            yield from (_closed(used, edge) for edge in used if edge.closed)


def _inside(
    edges: tuple[Edge, ...], order: tuple[Stratum, ...]
) -> Iterator[tuple[Stratum, list[Edge]]]:
    """The recursive strata, each with what its relations use of each other."""
    home = {name: stratum for stratum in order for name in stratum.relations}
    inside: dict[Stratum, list[Edge]] = {}
    for edge in edges:
        if home[edge.head] is home[edge.body]:
            inside.setdefault(home[edge.head], []).append(edge)
    yield from inside.items()


def _closed(used: list[Edge], edge: Edge) -> Diagnostic:
    return _cyclic(edge, [edge, *_path(used, edge, even=None)])


_TRIED: Final = 50
"""Negations from which an odd cycle is looked for; each costs one walk over the stratum."""


def _is_odd(walk: list[Edge]) -> bool:
    return sum(edge.odd for edge in walk) % 2 == 1


def _merged(program: Program, stratum: Stratum) -> str:
    """The first relation of a stratum that joins or drops rows."""
    return next((n for n in stratum.relations if program.keeps(n) not in ("", "eqrel")), "")


def _sides(stratum: Stratum, edges: list[Edge]) -> frozenset[str] | None:
    """Relations an odd number of negations from the first one; None if some are both."""
    near: dict[str, list[tuple[str, bool]]] = {name: [] for name in stratum.relations}
    for edge in edges:
        near[edge.head].append((edge.body, edge.odd))
        near[edge.body].append((edge.head, edge.odd))
    return odd_side(stratum.relations[0], near)


def odd_side(first: str, near: Mapping[str, Sequence[tuple[str, bool]]]) -> frozenset[str] | None:
    """What lies an odd number of odd steps from the first; None if something is both. Linear."""
    side = {first: False}
    todo = [first]
    while todo:
        name = todo.pop()
        for other, odd in near[name]:
            if other not in side:
                side[other] = side[name] != odd
                todo.append(other)
            elif side[other] != (side[name] != odd):
                return None
    return frozenset(name for name, odd in side.items() if odd)


def _cyclic(edge: Edge, cycle: list[Edge]) -> Diagnostic:
    shown = edge.head + "".join(f" {_arrow(step)} {step.body}" for step in cycle)
    lines = "; ".join(_tell(step) for step in cycle)
    if edge.through == "<=":
        what = "subsumption over itself"
    elif edge.closed:
        what = f"`{edge.through}` inside recursion"
    else:
        what = "negation inside recursion"
    way = f"let `{edge.head}` look at a relation that does not need `{edge.head}` itself"
    if not edge.closed:
        way += ", or negate an even number of times on the way round"
    elif edge.through != "<=":
        way += f", or let relations outside the recursion say which `{edge.body}` each group needs"
    if edge.through in ("min", "max"):
        way += f", or declare the column `<{edge.through}>`, which may be recursive"
    return Diagnostic(
        "DF140", f"{what}: {shown}", edge.atom.span, f"{lines}. Break the cycle: {way}"
    )


def _arrow(edge: Edge) -> str:
    return f"-{edge.through}->" if edge.through else "->"


def _tell(edge: Edge) -> str:
    verb = {"": "uses", "<=": "orders its rows by"}.get(edge.through, "negates")
    if edge.closed and edge.through != "<=":
        verb = f"takes {edge.through} over"
    times = f", {len(edge.through)} times" if edge.through.startswith("!!") else ""
    where = f" on line {edge.atom.span.line}" if edge.atom.span else ""
    return f"`{edge.head}` {verb} `{edge.body}`{where}{times}"


def _path(edges: list[Edge], start: Edge, even: bool | None) -> list[Edge]:
    """The shortest way from `start.body` back to `start.head` along uses; [] if there is none.

    With `even`, one on which an even number of negations stands. Places are visited once for each
    parity, so the way may pass a relation twice.
    """
    begin, goal = start.body, start.head
    outgoing: dict[str, list[Edge]] = {}
    for edge in edges:
        outgoing.setdefault(edge.head, []).append(edge)
    came: dict[tuple[str, bool], tuple[tuple[str, bool], Edge] | None] = {(begin, False): None}
    queue = deque([(begin, False)])
    while queue:
        node = queue.popleft()
        if node[0] == goal and not (even and node[1]):
            path: list[Edge] = []
            step = came[node]
            while step is not None:
                path.append(step[1])
                step = came[step[0]]
            return path[::-1]
        for edge in outgoing.get(node[0], ()):
            after = (edge.body, node[1] != edge.odd if even is not None else False)
            if after not in came:
                came[after] = (node, edge)
                queue.append(after)
    return []
