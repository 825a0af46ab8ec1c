"""Which relation needs which, and in what order they can be computed.

Invariant: strata come out dependencies first, relations inside a stratum in declaration order, and
the order is the same on every run. A stratum is recursive when one of its relations needs itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from deltafix.diagnostics import Diagnostic
from deltafix.rules.ast import Atom, Program
from deltafix.rules.walk import uses

__all__ = ["Edge", "Stratum", "components", "dependencies", "strata", "unstratified"]


@dataclass(frozen=True, slots=True)
class Edge:
    """A rule for `head` uses `body`; `through` is `""`, `"!"` or an aggregate's name."""

    head: str
    body: str
    through: str
    atom: Atom


@dataclass(frozen=True, slots=True)
class Stratum:
    """Relations that need each other, and whether any of them needs itself."""

    relations: tuple[str, ...]
    recursive: bool


def dependencies(program: Program) -> tuple[Edge, ...]:
    """One edge per head, body atom and rule, in text order. Heads of a rule are independent."""
    found: list[Edge] = []
    for rule in program.rules:
        if rule.is_fact:
            continue
        for atom, through in (*uses(rule.body), *(u for head in rule.heads for u in uses(head))):
            if atom in rule.heads and any(atom is head for head in rule.heads):
                continue
            found.extend(Edge(head.relation, atom.relation, through, atom) for head in rule.heads)
    return tuple(found)


def strata(program: Program, edges: tuple[Edge, ...] | None = None) -> tuple[Stratum, ...]:
    """Strongly connected components, dependencies first (Tarjan 1972). Linear; no recursion."""
    needed: dict[str, dict[str, None]] = {r.name: {} for r in program.relations}
    for edge in dependencies(program) if edges is None else edges:
        needed[edge.head][edge.body] = None
    position = {name: i for i, name in enumerate(needed)}
    found = []
    for members in components(needed):
        ordered = tuple(sorted(members, key=position.__getitem__))
        found.append(Stratum(ordered, len(ordered) > 1 or ordered[0] in needed[ordered[0]]))
    return tuple(found)


def components(needed: Mapping[str, Mapping[str, None]]) -> list[list[str]]:
    """Strongly connected components of `needed`, dependencies first (Tarjan 1972), iteratively."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    on_stack: set[str] = set()
    stack: list[str] = []
    found: list[list[str]] = []
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
                    cut = stack.index(name)
                    found.append(stack[cut:])
                    on_stack.difference_update(stack[cut:])
                    del stack[cut:]
            elif child not in number:
                number[child] = low[child] = len(number)
                stack.append(child)
                on_stack.add(child)
                work.append((child, iter(needed[child])))
            elif child in on_stack:
                low[name] = min(low[name], number[child])
    return found


def unstratified(program: Program, edges: tuple[Edge, ...]) -> tuple[Diagnostic, ...]:
    """One DF140 per stratum that negates or aggregates over itself, with its shortest cycle."""
    found: list[Diagnostic] = []
    home = {name: s for s in strata(program, edges) for name in s.relations}
    done: set[Stratum] = set()
    for edge in edges:
        stratum = home[edge.head]
        if not edge.through or home[edge.body] is not stratum or stratum in done:
            continue
        done.add(stratum)
        cycle = [edge, *_path(edges, edge.body, edge.head, set(stratum.relations))]
        shown = edge.head + "".join(f" {_arrow(step)} {step.body}" for step in cycle)
        lines = "; ".join(_tell(step) for step in cycle)
        what = "negation" if edge.through == "!" else f"`{edge.through}`"
        found.append(
            Diagnostic(
                "DF140",
                f"{what} inside recursion: {shown}",
                edge.atom.span,
                f"{lines}. Break the cycle: let `{edge.head}` look at a relation "
                f"that does not need `{edge.head}` itself",
            )
        )
    return tuple(found)


def _arrow(edge: Edge) -> str:
    return f"-{edge.through}->" if edge.through else "->"


def _tell(edge: Edge) -> str:
    verb = {"": "uses", "!": "negates"}.get(edge.through, f"takes {edge.through} over")
    where = f" on line {edge.atom.span.line}" if edge.atom.span else ""
    return f"`{edge.head}` {verb} `{edge.body}`{where}"


def _path(edges: tuple[Edge, ...], start: str, goal: str, inside: set[str]) -> list[Edge]:
    """The shortest way from `start` to `goal` along uses, within one stratum."""
    came: dict[str, Edge] = {}
    queue = deque([start])
    outgoing: dict[str, list[Edge]] = {}
    for edge in edges:
        if edge.head in inside and edge.body in inside:
            outgoing.setdefault(edge.head, []).append(edge)
    while queue and goal not in came and start != goal:
        for edge in outgoing.get(queue.popleft(), ()):
            if edge.body not in came and edge.body != start:
                came[edge.body] = edge
                queue.append(edge.body)
    path: list[Edge] = []
    while goal != start:
        path.append(came[goal])
        goal = came[goal].head
    return path[::-1]
