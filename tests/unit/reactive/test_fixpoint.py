"""Recursive views in the graph: the dead-code example of the paper, against recomputation."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltafix.errors import OperatorError, ReactiveError, UnknownRelationError
from deltafix.reactive import Collection, Count, fixpoint
from deltafix.reactive.fixpoint import Interner

REACH = """
.decl edge(a: symbol, b: symbol)
.decl root(a: symbol)
.decl node(a: symbol)
.decl live(a: symbol)
.decl dead(a: symbol)
.input edge
.input root
.input node
.output live
.output dead
live(x) :- root(x).
live(y) :- live(x), edge(x, y).
dead(x) :- node(x), !live(x).
"""


class Fragment(NamedTuple):
    nodes: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()


def _parts(files):
    return (
        files.map(lambda path, one: [((), node) for node in one.nodes], name="nodes"),
        files.map(lambda path, one: [((), root) for root in one.roots], name="roots"),
        files.map(lambda path, one: [((), edge) for edge in one.edges], name="edges"),
    )


def test_dead_code_with_two_files_contributing_the_same_edge():
    files = Collection.input(key=str)
    nodes, roots, edges = _parts(files)
    reach = edges.fixpoint(None, roots=roots)
    dead = nodes - reach
    told = []
    dead.subscribe(lambda delta: told.append((sorted(delta.removed), sorted(delta.added))))
    with files.transaction() as tx:
        tx.set("a.py", Fragment(("main", "f", "g"), ("main",), (("main", "f"), ("f", "g"))))
        tx.set("b.py", Fragment(("h",), (), (("main", "f"),)))
    assert sorted(reach.values(())) == ["f", "g", "main"]
    files.delete("b.py")
    assert sorted(reach.values(())) == ["f", "g", "main"]
    files.set("a.py", Fragment(("main", "f", "g"), ("main",), (("f", "g"),)))
    assert reach.values(()) == ["main"]
    assert told == [
        ([], [((), "h")]),
        ([((), "h")], []),
        ([], [((), "f"), ((), "g")]),
    ]
    files.check_invariants()


def test_an_unreachable_cycle_dies_in_one_epoch():
    files = Collection.input(key=str)
    _, roots, edges = _parts(files)
    reach = edges.fixpoint(lambda edge: edge, roots=roots)
    files.set("a", Fragment((), ("R",), (("R", "A"), ("A", "B"), ("B", "A"))))
    files.set("a", Fragment((), ("R",), (("A", "B"), ("B", "A"))))
    assert reach.values(()) == ["R"]


def test_a_program_over_several_collections_gives_all_its_views_in_one_epoch():
    files = Collection.input(key=str)
    nodes, roots, edges = _parts(files)
    views = fixpoint(REACH, {"node": nodes, "root": roots, "edge": edges}, name="dead code")
    counts = views["dead"].reduce(Count(), name="how many")
    files.set("a.py", Fragment(("main", "f", "g"), ("main",), (("main", "f"),)))
    assert sorted(views) == ["dead", "live"]
    assert (views["dead"].values(()), counts.get(())) == (["g"], 1)
    assert views.database.count("live") == 2
    files.insert("b.py", Fragment(("f",)))
    assert files.last_epoch.visited == ("nodes", "roots", "edges", "dead code")
    files.insert("c.py", Fragment((), ("x",)))
    assert files.last_epoch.visited == ("nodes", "roots", "edges", "dead code", "live")
    with pytest.raises(UnknownRelationError, match="did you mean 'dead'"):
        views["daed"]
    files.check_invariants()


def test_one_collection_keyed_by_relation_feeds_them_all():
    facts = Collection.input(key=str)
    views = fixpoint(REACH, facts, views=["dead"])
    with facts.transaction() as tx:
        tx.set("node", "a", "b")
        tx.set("root", ("a",))
    assert views["dead"].values(()) == ["b"]
    facts.insert("edge", ("a", "b"))
    assert views["dead"].values(()) == []
    with pytest.raises(OperatorError, match="did you mean 'edge'"):
        facts.insert("egde", ("a", "b"))
    facts.check_invariants()


def test_a_later_failure_takes_the_engines_epoch_back():
    facts = Collection.input(key=str)
    live = fixpoint(REACH, facts)["live"]
    seen = live.map_values(lambda name: 1 // len(name.strip("!")), name="fails on !")
    facts.set("root", "a")
    tx = facts.transaction()
    tx.delete("root", "a")
    tx.insert("root", "b")
    tx.insert("edge", ("b", "!"))
    with pytest.raises(OperatorError, match="fails on !"):
        tx.commit()
    assert (live.values(()), seen.values(())) == (["a"], [1])
    facts.check_invariants()
    facts.insert("edge", ("a", "c"))
    assert sorted(live.values(())) == ["a", "c"]


@pytest.mark.parametrize(
    ("relation", "value", "says"),
    [
        ("edge", "a", "1 value, but"),
        ("node", ("a", "b"), "2 values, but"),
        ("node", 3, "symbol"),
        ("root", ("a",), None),
    ],
)
def test_rows_that_do_not_fit_are_named(relation, value, says):
    facts = Collection.input(key=str)
    views = fixpoint(REACH, facts)
    if says is None:
        facts.insert(relation, value)
        assert views["live"].values(()) == ["a"]
        return
    with pytest.raises(OperatorError, match=says):
        facts.insert(relation, value)
    assert (len(facts), views.database.count(relation)) == (0, 0)


def test_bad_calls_are_named():
    edges, roots = Collection.input(), Collection.input()
    with pytest.raises(ReactiveError, match="roots"):
        edges.fixpoint(None)
    with pytest.raises(ReactiveError, match="which relation"):
        edges.fixpoint(REACH)
    with pytest.raises(ReactiveError, match="say which with view"):
        edges.fixpoint(REACH, relation="edge", root=roots)
    with pytest.raises(ReactiveError, match="fed twice"):
        edges.fixpoint(REACH, relation="edge", edge=roots)
    with pytest.raises(UnknownRelationError, match="'egde'"):
        fixpoint(REACH, {"egde": edges})
    with pytest.raises(ReactiveError, match="at least one"):
        fixpoint(REACH, {})
    reach = edges.fixpoint(REACH, relation="edge", view="live", root=roots)
    roots.insert((), "a")
    assert reach.values(()) == ["a"]
    edges.fixpoint(lambda value: 3, roots=roots, name="odd")
    with pytest.raises(OperatorError, match="odd step"):
        edges.insert((), ("a", "b"))


def test_values_of_any_type_are_reached_and_their_numbers_given_back():
    edges, roots = Collection.input(), Collection.input()
    reach = edges.fixpoint(lambda edge: [edge, edge[::-1]], roots=roots)
    roots.insert("any key", ("t", 1))
    edges.insert("any key", (("t", 1), frozenset("x")))
    assert set(reach.values(())) == {("t", 1), frozenset("x")}
    node = reach._node.sources[0]
    assert len(node._interner) == 2
    edges.delete("any key", (("t", 1), frozenset("x")))
    roots.delete("any key")
    assert (reach.values(()), len(node._interner)) == ([], 0)


def test_an_interner_gives_a_number_to_one_value_at_a_time():
    interner = Interner()
    row = (interner.take("a"), interner.take("b"))
    interner.hold([row])
    third = interner.take("c")
    interner.drop_unheld()
    assert (len(interner), interner.take("d")) == (2, third)
    interner.release([row])
    assert {interner.take("e"), interner.take("f")} == set(row)


_GRAPHS = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 5)), max_size=4),
    max_size=6,
)


@settings(max_examples=25)
@given(_GRAPHS)
def test_oracle_reach_equals_a_search_after_every_epoch(epochs):
    files = Collection.input(key=int)
    edges = files.map(lambda path, one: [((), edge) for edge in one])
    roots = Collection.input()
    reach = edges.fixpoint(None, roots=roots)
    roots.insert((), 0)
    held = {}
    for epoch in epochs:
        with files.transaction() as tx:
            for path, a, b in epoch:
                held[path] = ((a, b), (b, (a + 1) % 6))
                tx.set(path, held[path])
        known, frontier = {0}, [0]
        while frontier:
            source = frontier.pop()
            for a, b in [edge for one in held.values() for edge in one]:
                if a == source and b not in known:
                    known.add(b)
                    frontier.append(b)
        assert set(reach.values(())) == known
        assert len(reach) == len(known)
    files.check_invariants()
