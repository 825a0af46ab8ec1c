"""The order of literals that strata in Python take from the planner."""

from __future__ import annotations

from tests.judges.beyond_oracle import body

from deltafix.plan.clause import Clause, Slot
from deltafix.plan.depend import Layer
from deltafix.plan.order import Indexes, variant


def test_with_no_literal_left_free_the_nodes_are_a_chain_of_whole_rows_before_others() -> None:
    literals = body("a(x, y), b(y, x, z, w), c(y), d(z, v), w < 3, !e(x)")
    clause = Clause("h", (Slot("x"), Slot("v")), tuple(literals), 0)
    planned = variant(Layer(("h",), (), recursive=True), clause, 0, Indexes(), free=0)
    *joins, end = planned.nodes
    (options,) = zip(*(node.candidates for node in joins), strict=True)  # one a node
    assert [option.way.match.relation for option in options] == ["c", "b", "d"]
    assert [option.child for option in options] == [1, 2, 3]
    assert not end.candidates
    checks = [[str(check.literal) for check in node.checks] for node in planned.nodes]
    assert checks == [["!e(x)"], [], ["w < 3"], []]
