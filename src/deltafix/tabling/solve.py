"""SLG resolution: how the forest grows when a consumer consumes a clause, a fact or an answer.

`consume` is the paper's `consume_answer` (Figure 3a), `resolve_goal` its Figure 4. Invariant: a
consumer is created under unmarked premises only, so a new node is never marked. Nothing here
takes anything away: that is `propagate`.

A merge of components makes premises local that were not: supports that stood on a lower component
now count its ranks (the paper's example 4), a marked answer now marks consumers it did not concern.
After `connect` every answer not due to be marked again has an acyclic support.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from deltafix.diagnostics import Diagnostic
from deltafix.errors import EvaluationError, UnknownPredicateError, UnsafeNegationError
from deltafix.tabling.agenda import MARK, MAY_REDERIVE, gather
from deltafix.tabling.arithmetic import ArithmeticFaultError
from deltafix.tabling.builtins import BUILTINS
from deltafix.tabling.callgraph import Component
from deltafix.tabling.clauses import Kind, Literal, Rule
from deltafix.tabling.factbase import Predicate, subscribe
from deltafix.tabling.propagate import lost, mark_node, recount
from deltafix.tabling.table import (
    TRUE,
    Absence,
    Answer,
    Consumer,
    Forest,
    Generator,
    Premise,
    rank_of,
)
from deltafix.tabling.terms import Term
from deltafix.tabling.truth import delay, doubt, gained, truth_of, weigh
from deltafix.tabling.unify import Row, instantiate, match, unify, unify_pair


def call(
    forest: Forest, predicate: Predicate, args: tuple[Term, ...], caller: Generator | None
) -> Generator:
    """The generator of a call (`call_check_insert`): found by variant, or created and started."""
    known = predicate.generators.get(args)
    if known is not None:
        return known
    forest.budget.entry()
    generator = Generator(predicate, args, forest.epoch)
    graph = forest.graph
    component = graph.on_top() if caller is None else graph.below(caller.component)
    generator.component = component
    bucket = generator.bucket = generator.root.source = predicate.bucket(args)
    forest.created[generator] = None  # before anybody finds it: it goes with an interrupt
    graph.admit(generator, component)
    forest.put(predicate.generators, args, generator)
    forest.put(forest.generators, generator)
    forest.counters.calls_created += 1
    if forest.trace is not None:
        forest.trace.call(generator)
    subscribe(forest, bucket, generator.root)
    for rule in predicate.rules:
        if generator.fits(rule):
            forest.agenda.consume(rule, generator.root)
    for fact in predicate.matching(bucket):
        forest.agenda.consume(fact, generator.root)
    forest.agenda.open(generator.component)
    return generator


def consume(forest: Forest, premise: Premise, consumer: Consumer) -> None:
    """Extend the forest by what `consumer` makes of `premise`; nothing if they do not unify."""
    forest.budget.tick()
    rule = consumer.rule
    row: Row | None
    if rule is None:
        clause = cast("Rule", premise)
        row = _head_row(clause, consumer.generator)
        if row is not None:
            _advance(forest, clause, 0, row, premise, previous=consumer)
        return
    goal = cast("Literal", consumer.literal).args
    if isinstance(premise, Absence):
        if _denied(premise, consumer):
            return
        row = consumer.row
    elif premise.ground:
        row = match(goal, consumer.row, premise.args)
    else:
        row = unify(goal, consumer.row, premise.args)
    if row is not None:
        _advance(forest, rule, consumer.at + 1, row, premise, previous=consumer)


def _denied(absence: Absence, consumer: Consumer) -> bool:
    """Whether a negated goal fails for good, or has been consumed already.

    Inside one component nothing is denied: the literal is delayed, `truth` decides.
    """
    if consumer.children:
        return True
    generator = absence.generator
    inside = generator.component is consumer.generator.component
    return not inside and generator.settled == TRUE


def _head_row(rule: Rule, generator: Generator) -> Row | None:
    empty: Row = (None,) * rule.slots
    if not generator.plain:
        return unify(rule.args, empty, generator.args)
    return match([rule.args[i] for i in generator.bound], empty, generator.values)


def _advance(
    forest: Forest, rule: Rule, at: int, row: Row, premise: Premise, *, previous: Consumer
) -> None:
    """Run the built-ins from `at` on; every way through makes a consumer or a support."""
    body = rule.body
    length = len(body)
    if at == length:
        _support(forest, rule, row, premise, previous)
        return
    kind = body[at].kind
    if kind is Kind.CALL or kind is Kind.NOT:
        _node(forest, rule, at, row, premise, previous=previous)
        return
    frames: list[tuple[int, Iterator[Row]]] = [(at + 1, _built_in(rule, body[at], row))]
    while frames:
        at, rows = frames[-1]
        bound = next(rows, None)
        if bound is None:
            frames.pop()
            continue
        forest.budget.tick()
        if at == length:
            _support(forest, rule, bound, premise, previous)
        elif body[at].kind in (Kind.CALL, Kind.NOT):
            _node(forest, rule, at, bound, premise, previous=previous)
        else:
            frames.append((at + 1, _built_in(rule, body[at], bound)))


def _built_in(rule: Rule, literal: Literal, row: Row) -> Iterator[Row]:
    """The rows a built-in makes of one row."""
    if literal.kind is Kind.UNIFY:
        unified = unify_pair(literal.args[0], literal.args[1], row)
        if unified is not None:
            yield unified
        return
    if literal.kind is Kind.DIFFER:
        if unify_pair(literal.args[0], literal.args[1], row) is None:
            yield row
        return
    args = instantiate(literal.args, row)
    try:
        for out in BUILTINS[literal.key](args):
            changed = [i for i, value in enumerate(out) if value is not args[i]]
            if not changed:
                yield row
                continue
            patterns = [literal.args[i] for i in changed]
            bound = match(patterns, row, [out[i] for i in changed])
            if bound is not None:
                yield bound
    except ArithmeticFaultError as cause:
        diagnostic = rule.clause.problem("DF714", str(cause), literal, "bind it by an earlier goal")
        raise EvaluationError(rule.clause.render(diagnostic), [diagnostic]) from cause


def _node(
    forest: Forest, rule: Rule, at: int, row: Row, premise: Premise, *, previous: Consumer
) -> None:
    consumer = Consumer(previous.generator, rule, at, row, premise, previous=previous)
    consumer.literal = rule.body[at]
    _link(forest, consumer)
    if forest.trace is not None:
        forest.trace.node(consumer)
    resolve_goal(forest, consumer)


def _link(forest: Forest, consumer: Consumer) -> None:
    premise, previous = consumer.premise, cast("Consumer", consumer.previous)
    if previous.children is None:
        previous.children = {}
    forest.put(previous.children, consumer)  # first, since `discard` goes by children
    forest.put(premise.affects, consumer)


def resolve_goal(forest: Forest, consumer: Consumer) -> None:
    """Subscribe a consumer to the source of its goal and schedule what is there already."""
    literal, rule = cast("Literal", consumer.literal), cast("Rule", consumer.rule)
    predicate = forest.program.predicates.get(literal.key)
    if predicate is None:
        raise _unknown(forest, rule, literal)
    args = instantiate(literal.args, consumer.row)
    agenda = forest.agenda
    if literal.kind is Kind.NOT:
        _negate(forest, consumer, predicate, args)
    elif not predicate.derived:
        bucket = predicate.bucket(args)
        consumer.source = bucket
        subscribe(forest, bucket, consumer)
        for fact in predicate.matching(bucket):
            agenda.consume(fact, consumer)
    else:
        generator = call(forest, predicate, args, consumer.generator)
        consumer.source = generator
        forest.put(generator.consumers, consumer)
        connect(forest, consumer.generator, generator)
        for answer in list(generator.answers.values()):
            agenda.consume(answer, consumer, existed=answer.epoch < forest.epoch)


def _negate(
    forest: Forest, consumer: Consumer, predicate: Predicate, args: tuple[Term, ...]
) -> None:
    rule, literal = cast("Rule", consumer.rule), consumer.literal
    if not all(a.ground for a in args):
        diagnostic = rule.clause.problem(
            "DF713", "negation of a goal with an unbound variable", literal,
            "bind every variable of the negated goal by an earlier goal",
        )  # fmt: skip
        raise UnsafeNegationError(rule.clause.render(diagnostic), [diagnostic])
    generator = call(forest, predicate, args, consumer.generator)
    consumer.source = generator
    if not generator.negations:  # nobody asked before: its sweeps left this alone
        forest.set(generator, "settled", truth_of(generator))
    forest.put(generator.negations, consumer)
    forest.put(generator.component.negated, generator)
    connect(forest, consumer.generator, generator)
    if generator.component is consumer.generator.component:
        delay(forest, generator.component)
    forest.agenda.consume(generator.absence, consumer)


def _unknown(forest: Forest, rule: Rule, literal: Literal) -> UnknownPredicateError:
    name, arity = literal.key
    diagnostic: Diagnostic = rule.clause.problem(
        "DF712", f"unknown predicate {name}/{arity}", literal,
        forest.program.known_like(literal.key),
    )  # fmt: skip
    return UnknownPredicateError(rule.clause.render(diagnostic), [diagnostic])


def _support(forest: Forest, rule: Rule, row: Row, premise: Premise, previous: Consumer) -> None:
    """A derivation came to its end: a new answer, or a further support of an old one."""
    generator = previous.generator
    leaf = Consumer(generator, rule, len(rule.body), row, premise, previous=previous)
    _link(forest, leaf)
    args = instantiate(rule.args, row)
    answer = generator.answers.get(args)
    forest.counters.supports_inserted += 1
    rank = rank_of(leaf)
    if answer is None:
        forest.budget.entry()
        answer = leaf.answer = Answer(generator, args, forest.epoch)
        answer.rank = forest.fresh_rank(rank)
        answer.supports[leaf] = None
        answer.acyclic = 1
        leaf.counted = True
        forest.put(generator.answers, args, answer)
        forest.born[answer] = None
        forest.counters.answers_inserted += 1
        gained(forest, leaf)
        if forest.trace is not None:
            forest.trace.support(leaf, new=True)
        for consumer in list(generator.consumers):
            forest.agenda.consume(answer, consumer)
        return
    leaf.answer = answer
    forest.put(answer.supports, leaf)
    gained(forest, leaf)
    if forest.trace is not None:
        forest.trace.support(leaf, new=False)
    agenda = forest.agenda
    if rank < answer.rank:
        leaf.counted = True
        forest.set(answer, "acyclic", answer.acyclic + 1)
        if not forest.eager and answer in agenda.due[MARK]:  # the paper's requirement 2
            agenda.cancel(MARK, answer)
            agenda.cancel(MAY_REDERIVE, answer)
    if answer.marked or answer in agenda.due[MARK]:
        agenda.schedule(MAY_REDERIVE, answer)


def connect(forest: Forest, caller: Generator, callee: Generator) -> None:
    """Record that one call calls another, keeping components strongly connected and in order.

    Complexity: O(affected region of the component order); a merge adds the part of the forest
    that belongs to all merged components but the largest.
    """
    above, below = caller.component, callee.component
    if above is below or below in above.callees:
        return
    graph = forest.graph
    graph.link(above, below)
    if below.label < above.label:
        return
    reached, cyclic = graph.search(above, below)
    if cyclic:
        _merge(forest, *graph.cycle(above, below, reached))
        return
    graph.move_below(reached)
    if forest.trace is not None:
        forest.trace.moves(reached)


def _merge(forest: Forest, parts: list[Component], lifted: list[Component]) -> None:
    crossing = _crossing(parts)
    waking = any(part.open for part in parts)
    foreign: list[tuple[Answer, Consumer]] = [
        (answer, consumer)
        for part in parts
        for answer in part.marked
        for consumer in answer.affects
        if consumer.generator.component is not part
    ]
    keeper = forest.graph.merge(parts, lifted)
    gather(keeper, parts)
    keeper.open = False
    if waking:
        forest.agenda.open(keeper)
    if forest.trace is not None:
        forest.trace.merged(keeper, parts)
    for answer in keeper.marked:
        forest.agenda.delay(answer)
    for answer, consumer in foreign:
        if consumer.generator.component is keeper and answer.marked:
            mark_node(forest, consumer)
    work: list[Consumer] = []
    for consumer in crossing:
        if consumer.literal is not None and consumer in _negations(consumer):
            delay(forest, keeper)
            source = cast("Generator", consumer.source)
            forest.agenda.consume(source.absence, consumer)
            doubt(forest, consumer)
        work.extend(consumer.children or ())
    for support in list(keeper.doubtful):
        weigh(forest, support)
    _raise(forest, work)


def _negations(consumer: Consumer) -> dict[Consumer, None]:
    source = consumer.source
    return source.negations if isinstance(source, Generator) else {}


def _crossing(parts: list[Component]) -> list[Consumer]:
    """The consumers of one part whose source is a call of another part.

    Every such edge touches a part other than the largest; those parts are walked.
    """
    largest = max(parts, key=lambda c: len(c.members))
    chosen = set(parts)
    crossing: dict[Consumer, None] = {}
    for part in parts:
        if part is largest:
            continue
        for member in part.members:
            for consumer in (*member.consumers, *member.negations):
                home = consumer.generator.component
                if home is not part and home in chosen:
                    crossing[consumer] = None
            stack = list(member.root.children or ())
            while stack:
                node = stack.pop()
                source = node.source
                if type(source) is Generator:
                    home = source.component
                    if home is not part and home in chosen:
                        crossing[node] = None
                if node.children:
                    stack.extend(node.children)
    return list(crossing)


def _raise(forest: Forest, work: list[Consumer]) -> None:
    """Count again the supports below some nodes; raise answers that lost every acyclic one.

    An answer rises to just above its lowest unmarked support, one on the answer itself aside: that
    would rise too. Ranks are bounded along the order (old component, old rank), in which every
    answer has a support, so this ends.
    """
    while work:
        node = work.pop()
        if node.answer is None:
            work.extend(node.children or ())
            continue
        answer = node.answer
        if not node.counted or rank_of(node) < answer.rank:
            continue
        lost(forest, node, raising=True)
        if answer.acyclic or answer.marked or answer in forest.agenda.due[MARK]:
            continue
        others = (s for s in answer.supports if not s.marks and not _stands_on(s, answer))
        lowest = min(map(rank_of, others))
        forest.set(answer, "rank", forest.fresh_rank(lowest))
        recount(forest, answer)
        if forest.trace is not None:
            forest.trace.ranked(answer)
        component = answer.generator.component
        work.extend(c for c in answer.affects if c.generator.component is component)


def _stands_on(support: Consumer, answer: Answer) -> bool:
    """Whether an answer is a premise of a support. O(its body)."""
    node: Consumer | None = support
    while node is not None:
        if node.premise is answer:
            return True
        node = node.previous
    return False
