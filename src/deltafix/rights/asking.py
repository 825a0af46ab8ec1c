"""What one question is answered from, and whether what is open matters to the answer.

Where a condition is open, there are two answers: one without the tuples that carry it, one with
them. Invariant: an answer is given if both are the same, and an error if not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

from deltafix.engine.query import Probe
from deltafix.errors import RightsContextError, RightsTupleError
from deltafix.rights.conditions import Judge
from deltafix.rights.contexts import MisfitError, checked_context
from deltafix.rights.graph import Node
from deltafix.rights.layout import Layout
from deltafix.rights.program import View
from deltafix.rights.reader import Conditional, Contextual, Plain, Reader
from deltafix.rights.search import Search
from deltafix.rights.tuples import (
    Tuple,
    listed,
    object_of,
    placed,
    relation_node,
    subject_of,
    tuple_of,
)

Context: TypeAlias = Mapping[str, Any] | str | None
"""Values for parameters of conditions, by name; as JSON text, too."""

_T = TypeVar("_T")
_R = TypeVar("_R")


class Asked(NamedTuple):
    """What a question is answered from; where nothing has conditions, both readers are one."""

    laid: Layout
    sure: Reader
    possible: Reader
    views: Mapping[tuple[int, str], View]
    judge: Judge | None

    def goal(self, relation: str, object_: str) -> tuple[Node, int]:
        """What is asked for."""
        type_, name = object_of(self.laid.graph, object_)
        return relation_node(self.laid.graph, type_, relation), self.sure.code(name)

    def searches(self, user: str, *, smallest: bool = False) -> tuple[Search, Search]:
        """What a user has for sure, and possibly; a smallest proof is of the first."""
        graph = self.laid.graph
        subject = subject_of(graph, user)
        views = {} if smallest else self.views
        first = Search(graph, self.sure, subject, views, smallest=smallest)
        if self.judge is None:
            return first, first
        possible = Search(graph, self.possible, subject, views)
        sure = Search(graph, self.sure, subject, views) if smallest else first
        possible.excluding, sure.excluding, first.excluding = sure, possible, possible
        return first, possible

    def agreed(self, question: str, pair: tuple[_T, _T], answer: Callable[[_T], _R]) -> _R:
        """The answer that does not rest on what is open. Raises RightsContextError."""
        sure = answer(pair[0])
        if self.judge is None or not self.judge.undecided or sure is True:
            return sure
        possible = answer(pair[1])
        if possible != sure:
            raise self.judge.error(question)
        return sure


def asked_of(laid: Layout, probe: Probe, contextual: Any, context: Context) -> Asked:
    """One state: its model, what reads its tuples in a context, and the views that go for it.

    Raises RightsContextError for a context that is none, RightsTupleError for contextual tuples.
    """
    try:
        values = checked_context(context)
    except MisfitError as error:
        raise RightsContextError(str(error), value=context) from None
    contextual_rows = [placed(laid.graph, tuple_of(each)) for each in listed(contextual)]
    plain = Contextual(probe, contextual_rows, laid.wide) if contextual_rows else Plain(probe)
    views = {} if contextual_rows else laid.views  # they know nothing of contextual tuples
    if not laid.wide:
        return Asked(laid, plain, plain, views, None)
    judge = Judge(laid.conditions, values)
    sure = Conditional(plain, laid.wide, judge, hopeful=False)
    possible = Conditional(plain, laid.wide, judge, hopeful=True)
    return Asked(laid, sure, possible, views, judge)


def question_of(given: Any) -> Tuple:
    """A question as a tuple. Raises RightsTupleError."""
    question = tuple_of(given)
    if not isinstance(question, Tuple):
        raise RightsTupleError(
            f"{given!r} is no question; a question has no condition", value=given
        )
    return question
