"""A managed fixpoint runs the engine's mechanism: same rows, same deltas, same counted work."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from deltafix import Program, connect
from deltafix.fixpoint import ManagedFixpoint

RULES = """
.decl pair(x: number, y: number)
.decl reach(x: number)
.input pair
.input reach
.output reach
reach(y) :- reach(x), pair(x, y).
"""
node = st.integers(0, 9)
edits = st.lists(
    st.lists(st.tuples(st.sampled_from(["pair", "base"]), node, node), min_size=1, max_size=4),
    max_size=12,
)


@settings(max_examples=60)
@given(edits)
def test_agree_rows_deltas_and_counters_with_the_same_rule_in_the_engine(scripts) -> None:
    managed: ManagedFixpoint[int] = ManagedFixpoint()
    with connect(Program.parse(RULES)) as db:
        base: set[int] = set()
        pairs: set[tuple[int, int]] = set()
        for script in scripts:
            with managed.transaction() as ours, db.transaction() as theirs:
                for kind, x, y in script:
                    relation, row = ("reach", (x,)) if kind == "base" else ("pair", (x, y))
                    present = x in base if kind == "base" else row in pairs
                    if present:
                        theirs.delete(relation, [row])
                    else:
                        theirs.insert(relation, [row])
                    if kind == "base":
                        (managed.remove_base if present else managed.add_base)(x)
                        base ^= {x}
                    else:
                        (managed.remove_step if present else managed.add_step)(x, y)
                        pairs ^= {(x, y)}
            assert db.rows("reach") == sorted((x,) for x in managed)
            delta = theirs.delta.get("reach")
            added, removed = (delta.added, delta.removed) if delta else ([], [])
            assert ours.change.added == {x for (x,) in added}
            assert ours.change.removed == {x for (x,) in removed}
            report, epoch = managed.last_report, db.last_epoch
            assert (report.derivations, report.retracted, report.revived, report.reranked) == (
                epoch.derivations,
                epoch.retracted,
                epoch.revived,
                epoch.reranked,
            )
        managed.check_invariants()
