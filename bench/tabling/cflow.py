"""Control flow of C functions as facts, read with pycparser.

A node is a statement or a condition. `assigns[n]` is the variable a node defines, if it defines
one whole local or global variable; pointers and members are left out, as in the textbook analysis.
Invariant: the graph is a function of the text alone; every node is reachable from its entry or
stands behind a jump, as in the source.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pycparser import c_ast, c_parser

__all__ = ["Flow", "flow_of"]


@dataclass(slots=True)
class Flow:
    """Nodes are numbered over all functions; `exits` holds one exit node per function."""

    nodes: int = 0
    edges: set[tuple[int, int]] = field(default_factory=set)
    assigns: dict[int, str] = field(default_factory=dict)
    exits: list[int] = field(default_factory=list)

    def facts(self) -> list[tuple[Any, ...]]:
        """`flow(m, n)`, `sets(n, v)` and `plain(n)` rows, functor first."""
        rows: list[tuple[Any, ...]] = [("flow", m, n) for m, n in sorted(self.edges)]
        for node in range(self.nodes):
            if node in self.assigns:
                rows.append(("sets", node, self.assigns[node]))
            else:
                rows.append(("plain", node))
        return rows


def flow_of(texts: Iterable[str], functions: int | None = None) -> Flow:
    """The flow graph of preprocessed C texts; texts pycparser refuses are skipped."""
    flow = Flow()
    for text in texts:
        try:
            unit = c_parser.CParser().parse(text)
        except Exception:  # noqa: S112  pycparser raises its own and built-in errors
            continue
        for item in unit.ext:
            if isinstance(item, c_ast.FuncDef):
                if functions is not None and len(flow.exits) >= functions:
                    return flow
                _Function(flow, item).build()
    return flow


class _Function:
    """One function under construction: loose ends are nodes whose successor is yet to come."""

    def __init__(self, flow: Flow, definition: Any) -> None:
        self.flow = flow
        self.definition = definition
        self.prefix = f"{len(flow.exits)}:"
        self.breaks: list[list[int]] = []
        self.continues: list[list[int]] = []
        self.returns: list[int] = []
        self.labels: dict[str, int] = {}
        self.gotos: list[tuple[int, str]] = []
        self.cases: list[tuple[int, bool]] = []

    def build(self) -> None:
        entry = self._node([])
        ends = self._statement(self.definition.body, [entry])
        leave = self._node(ends + self.returns)
        self.flow.exits.append(leave)
        for source, label in self.gotos:
            self.flow.edges.add((source, self.labels.get(label, leave)))

    def _node(self, before: list[int], assigns: str | None = None) -> int:
        node = self.flow.nodes
        self.flow.nodes += 1
        for previous in before:
            self.flow.edges.add((previous, node))
        if assigns is not None:
            self.flow.assigns[node] = self.prefix + assigns
        return node

    def _expression(self, item: Any, before: list[int]) -> list[int]:
        """Nodes for the assignments inside an expression, in order, or one plain node."""
        found: list[str] = []
        stack = [item]
        while stack:
            top = stack.pop()
            if top is None:
                continue
            if isinstance(top, c_ast.Assignment) and isinstance(top.lvalue, c_ast.ID):
                found.append(top.lvalue.name)
            steps = isinstance(top, c_ast.UnaryOp) and top.op in ("++", "--", "p++", "p--")
            if steps and isinstance(top.expr, c_ast.ID):
                found.append(top.expr.name)
            if isinstance(top, c_ast.Decl) and top.init is not None and top.name:
                found.append(top.name)
            stack.extend(child for _, child in top.children())
        if not found:
            return [self._node(before)]
        for name in reversed(found):
            before = [self._node(before, name)]
        return before

    def _statement(self, item: Any, before: list[int]) -> list[int]:
        if item is None:
            return before
        kind = type(item).__name__
        handler = getattr(self, f"_{kind.lower()}", None)
        if handler is not None:
            return handler(item, before)
        return self._expression(item, before)

    def _compound(self, item: Any, before: list[int]) -> list[int]:
        for child in item.block_items or ():
            before = self._statement(child, before)
        return before

    def _if(self, item: Any, before: list[int]) -> list[int]:
        test = self._expression(item.cond, before)
        ends = self._statement(item.iftrue, test)
        return ends + (self._statement(item.iffalse, test) if item.iffalse else test)

    def _while(self, item: Any, before: list[int]) -> list[int]:
        head = self._node(before)
        test = self._expression(item.cond, [head])
        return self._looping(head, test, item.stmt, None)

    def _for(self, item: Any, before: list[int]) -> list[int]:
        if item.init is not None:
            before = self._expression(item.init, before)
        head = self._node(before)
        test = self._expression(item.cond, [head]) if item.cond is not None else [head]
        return self._looping(head, test, item.stmt, item.next)

    def _dowhile(self, item: Any, before: list[int]) -> list[int]:
        head = self._node(before)
        self.breaks.append([])
        self.continues.append([])
        ends = self._statement(item.stmt, [head]) + self.continues.pop()
        test = self._expression(item.cond, ends)
        for end in test:
            self.flow.edges.add((end, head))
        return test + self.breaks.pop()

    def _looping(self, head: int, test: list[int], body: Any, step: Any) -> list[int]:
        self.breaks.append([])
        self.continues.append([])
        ends = self._statement(body, test) + self.continues.pop()
        if step is not None and ends:
            ends = self._expression(step, ends)
        for end in ends:
            self.flow.edges.add((end, head))
        return test + self.breaks.pop()

    def _switch(self, item: Any, before: list[int]) -> list[int]:
        test = self._expression(item.cond, before)
        outer, self.cases = self.cases, []
        self.breaks.append([])
        ends = self._statement(item.stmt, [])
        default = any(is_default for _, is_default in self.cases)
        for node, _ in self.cases:
            for source in test:
                self.flow.edges.add((source, node))
        self.cases = outer
        return ends + self.breaks.pop() + ([] if default else test)

    def _case(self, item: Any, before: list[int]) -> list[int]:
        return self._labelled(item, before, default=False)

    def _default(self, item: Any, before: list[int]) -> list[int]:
        return self._labelled(item, before, default=True)

    def _labelled(self, item: Any, before: list[int], *, default: bool) -> list[int]:
        node = self._node(before)
        self.cases.append((node, default))
        ends = [node]
        for child in item.stmts or ():
            ends = self._statement(child, ends)
        return ends

    def _label(self, item: Any, before: list[int]) -> list[int]:
        node = self._node(before)
        self.labels[item.name] = node
        return self._statement(item.stmt, [node])

    def _goto(self, item: Any, before: list[int]) -> list[int]:
        self.gotos.append((self._node(before), item.name))
        return []

    def _break(self, item: Any, before: list[int]) -> list[int]:
        self.breaks[-1].append(self._node(before))
        return []

    def _continue(self, item: Any, before: list[int]) -> list[int]:
        self.continues[-1].append(self._node(before))
        return []

    def _return(self, item: Any, before: list[int]) -> list[int]:
        ends = self._expression(item.expr, before) if item.expr is not None else before
        self.returns.append(self._node(ends))
        return []

    def _emptystatement(self, item: Any, before: list[int]) -> list[int]:
        return before
