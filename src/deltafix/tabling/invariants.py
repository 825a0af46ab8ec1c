"""What must hold of a forest between two runs; every property test calls it after every epoch."""

from __future__ import annotations

from typing import cast

from deltafix.errors import InternalError
from deltafix.tabling.clauses import Literal
from deltafix.tabling.drop import nodes
from deltafix.tabling.table import (
    TRUE,
    Absence,
    Answer,
    Consumer,
    Forest,
    Generator,
    rank_of,
)
from deltafix.tabling.trace import answer_term, call_term, describe
from deltafix.tabling.unify import match, unify
from deltafix.tabling.writer import show

__all__ = ["check_invariants"]


def _require(condition: bool, what: str, thing: object) -> None:
    if not condition:
        msg = f"tabling: {what}: {thing}"
        raise InternalError(msg)


def check_invariants(forest: Forest) -> None:
    """Check the three invariants of `table`, the component order, and every cross reference.

    Complexity: O(size of the forest times arity).

    Raises:
        InternalError: names the first thing that does not hold.
    """
    _require(forest.agenda.lowest() is None, "events wait", forest.agenda.heap)
    _require(not forest.created, "incomplete calls", list(forest.created))
    labels = [component.label for component in forest.graph.order]
    _require(labels == sorted(set(labels)), "component labels out of order", labels)
    for generator in forest.generators:
        _require(generator in generator.component.members, "call outside its component", generator)
        for answer in generator.answers.values():
            _answer(answer)
        for node in nodes(generator):
            _node(node)


def _answer(answer: Answer) -> None:
    text = show(answer_term(answer))
    _require(not answer.marked and not answer.dead, "marked or dead answer", text)
    counted = 0
    for support in answer.supports:
        _require(support.answer is answer and not support.dead, "stray support", text)
        acyclic = rank_of(support) < answer.rank
        _require(support.counted == acyclic, "support counted wrongly", text)
        counted += acyclic
    _require(answer.acyclic == counted, "acyclic supports miscounted", text)
    _require(counted > 0, "answer without an acyclic support", text)


def _node(node: Consumer) -> None:
    text = describe(node)
    _require(not node.dead and not node.marks, "dead or marked node", text)
    _require(node.premise is not None and node in node.premise.affects, "premise link", text)
    _require(node.previous is not None and node in (node.previous.children or ()), "tree", text)
    if isinstance(node.premise, Answer):
        _require(not node.premise.dead, "dead premise", text)
    if node.answer is not None:
        return
    source = node.source
    if not isinstance(source, Generator):
        _require(source is not None and node in source.consumers, "bucket link", text)
        return
    below, above = source.component, node.generator.component
    _require(below is above or below.label < above.label, "call edge out of order", text)
    if node in source.negations:
        inside = below is above
        wanted = inside or source.settled != TRUE
        has = any(isinstance(c.premise, Absence) for c in node.children or ())
        _require(wanted or not has, "absence consumed though there is an answer", text)
        return
    _require(node in source.consumers, "generator link", text)
    literal = cast("Literal", node.literal)
    consumed = {c.premise for c in node.children or ()}
    last = node.rule is not None and all(
        later.kind.value in ("call", "not") for later in node.rule.body[node.at + 1 :]
    )
    for answer in source.answers.values():
        bind = match if answer.ground else unify
        fits = bind(literal.args, node.row, answer.args) is not None
        if last and fits:
            _require(answer in consumed, f"answer {show(answer_term(answer))} not consumed", text)
        _require(fits or answer not in consumed, "consumed what does not fit", text)
    _require(
        source.predicate.generators.get(source.args) is source,
        "call not in its table", show(call_term(source)),
    )  # fmt: skip
