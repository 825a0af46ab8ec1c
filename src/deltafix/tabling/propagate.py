"""Taking away: killing nodes, marking answers, deriving them again, sweeping a component.

The paper's Figure 3 (b) to (e). A node whose premise is gone for good (a deleted clause, an answer
of a swept component) is killed at once; a node whose premise may come back is marked.

Deviations from the printed algorithm, each with a test in test_deviations.py:
1. `rederive(a)` also schedules `may_rederive` for every marked answer that regains a support by
   it. As printed, an answer whose `may_rederive` came too early stays lost.
2. Ranks are a total order (`table.LEVEL`); ordinals, as printed, are its upper part.
3. A cancelled `mark(a)` is checked again when it is due, and so is a scheduled `rederive(a)`: a
   support that saved the answer may itself have been marked since.
4. `may_rederive(a)` is scheduled only if a support is left that may come back.
"""

from __future__ import annotations

from typing import cast

from deltafix.tabling.agenda import MARK, MAY_REDERIVE, REDERIVE
from deltafix.tabling.factbase import unsubscribe
from deltafix.tabling.table import Answer, Consumer, Forest, Generator, rank_of
from deltafix.tabling.truth import shed


def lost(forest: Forest, support: Consumer, *, raising: bool = False) -> None:
    """An unmarked support is lost to its answer: killed, marked, or (raising) no longer acyclic."""
    answer = cast("Answer", support.answer)
    counted = support.counted
    if counted:
        forest.set(support, "counted", False)
        forest.set(answer, "acyclic", answer.acyclic - 1)
    if raising or answer.marked or answer.dead:
        return
    if forest.eager or (counted and answer.acyclic == 0):
        forest.agenda.schedule(MARK, answer)
        if answer.supports:
            forest.agenda.schedule(MAY_REDERIVE, answer)


def kill(forest: Forest, top: Consumer) -> None:
    """Remove a node and everything below it for good. O(nodes removed)."""
    forest.take(cast("dict[Consumer, None]", cast("Consumer", top.previous).children), top)
    stack = [top]
    while stack:
        node = stack.pop()
        forest.set(node, "dead", True)
        forest.take(node.premise.affects, node)
        if node.answer is not None:
            forest.take(node.answer.supports, node)
            forest.counters.supports_deleted += 1
            if not node.marks:
                lost(forest, node)
            shed(forest, node)
            continue
        source = node.source
        if isinstance(source, Generator):
            forest.take(source.consumers, node)
            forest.take(source.negations, node)
        elif source is not None:
            unsubscribe(forest, source, node)
        if node.children:
            stack.extend(node.children)


def mark(forest: Forest, answer: Answer) -> None:
    """`mark(a)`: a may be gone; so may be everything in its component that stands on it."""
    if answer.dead or answer.marked or (answer.acyclic and not forest.eager):
        return
    forest.set(answer, "marked", True)
    component = answer.generator.component
    component.marked[answer] = None
    forest.counters.marked += 1
    if forest.trace is not None:
        forest.trace.marked(answer)
    forest.agenda.delay(answer)
    for node in answer.affects:
        if node.generator.component is component:
            mark_node(forest, node)


def mark_node(forest: Forest, top: Consumer) -> None:
    """One more premise of a node is marked; below it, its children's."""
    stack = [top]
    while stack:
        node = stack.pop()
        forest.set(node, "marks", node.marks + 1)
        if node.marks > 1:
            continue  # its children know
        if node.answer is not None:
            lost(forest, node)
            continue
        forest.agenda.delay(node)
        if node.children:
            stack.extend(reversed(node.children))


def may_rederive(forest: Forest, answer: Answer) -> None:
    """`may_rederive(a)`: if an unmarked support is left, rank a above it and bring it back."""
    if answer.dead or not answer.marked:
        return
    if not answer.acyclic:
        ranks = [rank_of(s) for s in answer.supports if not s.marks]
        if not ranks:
            return
        forest.set(answer, "rank", forest.fresh_rank(max(ranks)))
        recount(forest, answer)
    forest.agenda.schedule(REDERIVE, answer)


def rederive(forest: Forest, answer: Answer) -> None:
    """`rederive(a)`: a holds after all; so does what was marked because of it alone."""
    if answer.dead or not answer.marked:
        return
    if not answer.acyclic:  # the support that promised it was marked meanwhile
        forest.agenda.schedule(MAY_REDERIVE, answer)
        return
    forest.set(answer, "marked", False)
    component = answer.generator.component
    component.marked.pop(answer, None)
    forest.counters.rederived += 1
    if forest.trace is not None:
        forest.trace.rederived(answer)
    forest.agenda.wake(answer)
    for node in answer.affects:
        if node.generator.component is component:
            _unmark_node(forest, node)


def _unmark_node(forest: Forest, top: Consumer) -> None:
    stack = [top]
    while stack:
        node = stack.pop()
        forest.set(node, "marks", node.marks - 1)
        if node.marks:
            continue
        if node.answer is not None:
            _regained(forest, node)
            continue
        forest.agenda.wake(node)
        if node.children:
            stack.extend(reversed(node.children))


def _regained(forest: Forest, support: Consumer) -> None:
    answer = cast("Answer", support.answer)
    if rank_of(support) < answer.rank:
        forest.set(support, "counted", True)
        forest.set(answer, "acyclic", answer.acyclic + 1)
        if not forest.eager:
            forest.agenda.cancel(MARK, answer)
    if answer.marked or answer in forest.agenda.due[MARK]:
        forest.agenda.schedule(MAY_REDERIVE, answer)


def recount(forest: Forest, answer: Answer) -> None:
    """Set `counted` of every support and `acyclic` after the answer's rank changed."""
    acyclic = 0
    for support in answer.supports:
        counted = not support.marks and rank_of(support) < answer.rank
        acyclic += counted
        if counted != support.counted:
            forest.set(support, "counted", counted)
    forest.set(answer, "acyclic", acyclic)


def remove(forest: Forest, answer: Answer) -> None:
    """An answer is gone for good: kill what stood on it, wherever it is."""
    forest.set(answer, "dead", True)
    forest.take(answer.generator.answers, answer.args)
    forest.counters.answers_deleted += 1
    if answer in forest.born:
        del forest.born[answer]
    else:
        forest.died[answer] = None
    if forest.trace is not None:
        forest.trace.deleted(answer)
    for support in list(answer.supports):
        kill(forest, support)
    for node in list(answer.affects):
        kill(forest, node)
