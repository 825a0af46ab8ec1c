"""What must hold of a forest between two runs; every property test calls it after every epoch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, cast

from deltafix.errors import InternalError
from deltafix.tabling.clauses import Literal, Rule
from deltafix.tabling.drop import nodes
from deltafix.tabling.factbase import Bucket, Predicate
from deltafix.tabling.table import (
    FALSE,
    TRUE,
    UNDEFINED,
    Absence,
    Answer,
    Consumer,
    Forest,
    Generator,
    rank_of,
)
from deltafix.tabling.trace import answer_term, call_term, describe
from deltafix.tabling.truth import truth_of
from deltafix.tabling.unify import match, unify
from deltafix.tabling.writer import show


def _require(condition: bool, what: str, thing: object) -> None:
    """Text is made on failure alone: that of a term may be exponentially longer than the term."""
    if condition:
        return
    if isinstance(thing, Answer):
        thing = show(answer_term(thing))
    elif isinstance(thing, Generator):
        thing = show(call_term(thing))
    elif isinstance(thing, Consumer):
        thing = describe(thing)
    msg = f"tabling: {what}: {thing}"
    raise InternalError(msg)


def check_invariants(forest: Forest) -> None:
    """Check the invariants of `table` and `truth`, the component order, every cross reference.

    Complexity: O(size of the forest times arity), times the alternations needed.

    Raises:
        InternalError: names the first thing that does not hold.
    """
    agenda = forest.agenda
    _require(agenda.lowest() is None, "events wait", agenda.heap)
    _require(not (agenda.pending or any(agenda.due)), "events are due", agenda.due)
    _require(not forest.created, "incomplete calls", list(forest.created))
    labels = [component.label for component in forest.graph.order]
    _require(labels == sorted(set(labels)), "component labels out of order", labels)
    for component in forest.graph.order:
        left = (
            component.open
            or component.heap
            or component.fifo
            or component.marked
            or component.fresh
        )
        _require(not left, "work is left in a component", component.label)
    for generator in forest.generators:
        _require(generator in generator.component.members, "call outside its component", generator)
        _bucket(generator.bucket, generator.root)
        ground = all(argument.ground for argument in generator.args)
        _require(
            not ground or len(generator.answers) < 2, "two answers of a ground call", generator
        )
        _alive(generator.consumers, generator)
        _alive(generator.negations, generator)
        _alive(generator.absence.affects, generator)
        for answer in generator.answers.values():
            _alive(answer.affects, answer)
            _answer(answer)
        for node in nodes(generator):
            _node(node)
    for predicate in forest.program.predicates.values():
        _facts(predicate)
    _truth(forest)


def _alive(nodes: Iterable[Consumer], on: Generator | Answer | Rule) -> None:
    """Who waits or stands on something lives, and is of this forest: else it is never freed."""
    for node in nodes:
        known = node.generator.predicate.generators.get(node.generator.args) is node.generator
        stands = node.source is on or node.premise is on or isinstance(node.premise, Absence)
        _require(known and stands and not node.dead, "a node that is gone stands on", on)


def _facts(predicate: Predicate) -> None:
    for rule in predicate.clauses:
        _alive(rule.affects, rule)
    for mask, view in predicate.views.items():
        filed = {fact for bucket in view.values() for fact in bucket.facts}
        _require(filed == set(predicate.facts), "a view's facts", predicate.key)
        for key, bucket in view.items():
            _require(bool(bucket.facts or bucket.consumers), "idle bucket", (predicate.key, key))
            gone = any(node.dead for node in bucket.consumers)
            _require(not gone, "a node that is gone waits on a bucket", (predicate.key, key))
            fits = all(tuple(fact.args[i] for i in mask) == key for fact in bucket.facts)
            _require(fits, "fact in another's bucket", (predicate.key, key))


def _bucket(bucket: Bucket, consumer: Consumer) -> None:
    _require(consumer in bucket.consumers, "bucket link", consumer)
    _require(bucket.view.get(bucket.key) is bucket, "bucket out of its view", consumer)


def _answer(answer: Answer) -> None:
    _require(not answer.marked and not answer.dead, "marked or dead answer", answer)
    counted = 0
    for support in answer.supports:
        _require(support.answer is answer and not support.dead, "stray support", answer)
        acyclic = rank_of(support) < answer.rank
        _require(support.counted == acyclic, "support counted wrongly", answer)
        counted += acyclic
    _require(answer.acyclic == counted, "acyclic supports miscounted", answer)
    _require(counted > 0, "answer without an acyclic support", answer)


def _node(node: Consumer) -> None:
    _require(not node.dead and not node.marks, "dead or marked node", node)
    _require(node.premise is not None and node in node.premise.affects, "premise link", node)
    _require(node.previous is not None and node in (node.previous.children or ()), "tree", node)
    if isinstance(node.premise, Answer):
        _require(not node.premise.dead, "dead premise", node)
    if node.answer is not None:
        return
    source = node.source
    if not isinstance(source, Generator):
        _require(source is not None, "no source", node)
        _bucket(cast("Bucket", source), node)
        return
    below, above = source.component, node.generator.component
    _require(below is above or below.label < above.label, "call edge out of order", node)
    last = node.rule is not None and all(
        later.kind.value in ("call", "not") for later in node.rule.body[node.at + 1 :]
    )
    if node in source.negations:
        inside = below is above
        _require(above.negative or not inside, "delayed literal not known", node)
        _require(source in below.negated, "negated call not known", node)
        wanted = inside or source.settled != TRUE
        has = any(isinstance(c.premise, Absence) for c in node.children or ())
        _require(wanted or not has, "absence consumed though there is an answer", node)
        _require(has or not wanted or not last, "absence not consumed", node)
        return
    _require(node in source.consumers, "generator link", node)
    literal = cast("Literal", node.literal)
    consumed = {c.premise for c in node.children or ()}
    for answer in source.answers.values():
        bind = match if answer.ground else unify
        fits = bind(literal.args, node.row, answer.args) is not None
        if last and fits:
            _require(answer in consumed, "answer not consumed", node)
        _require(fits or answer not in consumed, "consumed what does not fit", node)
    call = source.predicate.generators.get(source.args)
    _require(call is source, "call not in its table", source)


_GroundRule: TypeAlias = tuple[Answer, set[Answer], set[Answer]]
"""A support as a ground rule: its answer, the answers it stands on, those it denies."""


def _truth(forest: Forest) -> None:
    """Truth values are the well-founded model of all supports, and what spares finding it holds."""
    rules: list[_GroundRule] = []
    for generator in forest.generators:
        seen = not generator.negations or generator.settled == truth_of(generator)
        _require(seen, "negations saw another truth", generator)
        for answer in generator.answers.values():
            rules += [_ground_rule(answer, support) for support in answer.supports]
    possible = {answer for answer, _, _ in rules}
    while True:
        certain = _least_model(rules, possible)
        again = _least_model(rules, certain)
        if again == possible:
            break
        possible = again
    for answer, _, _ in rules:
        truth = TRUE if answer in certain else UNDEFINED if answer in possible else FALSE
        _require(answer.truth == truth, f"truth {answer.truth} instead of {truth}", answer)
    for component in forest.graph.order:
        _require(not component.unsettled, "unsettled answers", list(component.unsettled))
        for support in component.doubtful:
            home = support.generator.component
            _require(home is component and not support.dead, "stray support", support)


def _ground_rule(answer: Answer, support: Consumer) -> _GroundRule:
    """The support as a rule; whether it is known to stand on doubt is checked on the way."""
    component = answer.generator.component
    positive: set[Answer] = set()
    negative: set[Answer] = set()
    node: Consumer | None = support
    while node is not None:
        if isinstance(node.premise, Answer):
            positive.add(node.premise)
        elif isinstance(node.premise, Absence):
            negative.update(node.premise.generator.answers.values())
        node = node.previous
    doubtful = any(a.truth != TRUE for a in positive if a.generator.component is not component)
    doubtful |= any(a.truth != FALSE for a in negative if a.generator.component is not component)
    known = support in component.doubtful
    _require(known == doubtful, f"doubtful {known} instead of {doubtful}", support)
    return answer, positive, negative


def _least_model(rules: list[_GroundRule], held: set[Answer]) -> set[Answer]:
    """The least model, a denied answer counting as absent iff it is not in `held`."""
    model: set[Answer] = set()
    pending = [rule for rule in rules if held.isdisjoint(rule[2])]
    while True:
        left = []
        for rule in pending:
            if model.issuperset(rule[1]):
                model.add(rule[0])
            else:
                left.append(rule)
        if len(left) == len(pending):
            return model
        pending = left
