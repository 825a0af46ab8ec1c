"""The strategy `scratch`: every table is dropped, the program changed, the kept goals asked again.

Invariant: all of it is undone like any other update if something raises, so the dropped forest is
unhooked from clauses and fact buckets, not destroyed.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltafix.tabling.clauses import Clause
from deltafix.tabling.drop import nodes
from deltafix.tabling.factbase import unsubscribe
from deltafix.tabling.run import run
from deltafix.tabling.solve import call
from deltafix.tabling.table import Forest, Generator
from deltafix.tabling.update import delete_clause, insert_clause


def apply_from_scratch(
    forest: Forest, inserts: Sequence[Clause], deletes: Sequence[Clause]
) -> None:
    """Run an update under `guarded`, keeping nothing of the tables. O(an evaluation)."""
    kept = [(g.predicate, g.args) for g in forest.generators if g.kept]
    for generator in list(forest.generators):
        forest.take(generator.predicate.generators, generator.args)
        forest.take(forest.generators, generator)
        _unhook(forest, generator)
    forest.agenda.updating = False
    for clause in deletes:
        delete_clause(forest, clause)
    for clause in inserts:
        insert_clause(forest, clause)
    for predicate, args in kept:
        call(forest, predicate, args, None).kept = 1
    run(forest)
    forest.graph.rebuild(forest.generators)


def _unhook(forest: Forest, generator: Generator) -> None:
    """Take a call's nodes off fact buckets and clauses."""
    unsubscribe(forest, generator.bucket, generator.root)
    for node in nodes(generator):
        forest.take(node.premise.affects, node)
        if node.source is not None and not isinstance(node.source, Generator):
            unsubscribe(forest, node.source, node)
