"""Strata beyond Horn clauses whose rules call a function that raises, under edits of several rows.

An edit is refused exactly where its rows, all loaded at once, are: not for a row that goes in the
same epoch, and not for one that a choice has let go.
"""

from __future__ import annotations

from random import Random

import pytest

import deltafix
from deltafix.errors import FunctorError
from deltafix.kernel.jit import JIT_DISABLED

EPOCHS = 20 if JIT_DISABLED else 60
NODES = 5
WRONG = 3
"""The node that the function raises for."""

HEAD = """
    .functor allowed(of: number, x: number): number
    .decl root(x: number) .decl edge(x: number, y: number)
    .input root, edge
"""
PROGRAMS = {
    "a lattice": """
        .functor either(a: number, b: number): number
        .lattice number<> { Bottom -> 0, Lub -> @either(_, _) }
        .decl reach(x: number, s: number <>)
        reach(x, 1) :- root(x).
        reach(y, s) :- reach(x, s), edge(x, y), @allowed(s, y) = 1.
    """,
    "a best value": """
        .decl near(x: number, d: number <min>)
        near(x, 5) :- root(x).
        near(y, max(d - 1, 0)) :- near(x, d), edge(x, y), @allowed(d, y) = 1.
    """,
    "a best value that the kernel keeps": """
        .decl near(z: number, x: number, d: number <min>)
        near(x, x, 0) :- root(x).
        near(z, y, d + 1) :- near(z, x, d), edge(x, y), @allowed(z, y) = 1.
    """,
    "subsumption": """
        .decl far(x: number, d: number)
        far(x, 0) :- root(x).
        far(y, d + 1) :- far(x, d), d < 6, edge(x, y), @allowed(d, y) = 1.
        far(x, d) <= far(x, e) :- e <= d.
    """,
    "choice": """
        .decl tree(x: number, y: number) choice-domain y
        tree(x, x) :- root(x).
        tree(x, y) :- tree(z, x), edge(x, y), @allowed(z, y) = 1.
    """,
    "even negation": """
        .decl safe(x: number, d: number)
        safe(x, 0) :- root(x), !( edge(x, y), edge(y, x), !safe(y, 0) ).
        safe(y, d) :- safe(x, d), edge(x, y), @allowed(d, y) = 1.
    """,
    "an aggregate over its own recursion": """
        .decl depth(x: number, d: number) .decl after(x: number, y: number, d: number)
        after(x, y, d) :- edge(x, y), x > y, depth(y, d), @allowed(d, x) = 1.
        depth(x, 0) :- root(x), 0 = count : { edge(x, y), x > y }.
        depth(x, d + 1) :- edge(x, _), d = max e : { after(x, _, e) }.
    """,
}
Given = dict[str, set[tuple[int, ...]]]


class Asked:
    """The function, and what it was asked."""

    def __init__(self) -> None:
        self.calls: set[int] = set()

    def __call__(self, of: int, node: int) -> int:
        del of
        self.calls.add(node)
        if node == WRONG:
            raise ValueError("a wrong node")
        return 1


def connected(name: str, asked: Asked) -> deltafix.Database:
    functors = {"allowed": asked, "either": lambda a, b: a | b}
    if "either" not in PROGRAMS[name]:
        del functors["either"]
    return deltafix.connect(HEAD + PROGRAMS[name], functors=functors)


def loaded(name: str, given: Given) -> dict[str, list] | None:
    """The rows of all relations, of these given rows; None: they are refused."""
    with connected(name, Asked()) as db:
        try:
            with db.transaction() as tx:
                for relation, rows in given.items():
                    tx.insert(relation, sorted(rows))
        except FunctorError:
            return None
        return {relation: db.rows(relation) for relation in db.schemas}


def edited(rng: Random, given: Given) -> Given:
    """Some rows more and less; or a node is cut off, and has an edge to the wrong one now."""
    after = {relation: set(rows) for relation, rows in given.items()}
    node = rng.choice([n for n in range(NODES) if n != WRONG])
    if rng.random() < 0.5:
        after["root"].discard((node,))
        after["edge"] = {(x, y) for x, y in after["edge"] if y != node}
        after["edge"].add(rng.choice([(node, WRONG), (WRONG, node)]))
    else:
        after["root"].add((node,))
        after["edge"] ^= {(rng.randrange(NODES), rng.randrange(NODES)) for _ in range(2)}
    return after


def kept(tree: set[tuple[int, ...]], given: Given) -> set[tuple[int, ...]]:
    """The choices that still follow from such: an edit leaves them as they are."""
    held: set[tuple[int, ...]] = set()
    while True:
        reached = {node for _, node in held}
        more = {(x, y) for x, y in tree if x in reached and (x, y) in given["edge"]}
        more |= {(x, y) for x, y in tree if x == y and (x,) in given["root"]}
        if more <= held:
            return held
        held |= more


@pytest.mark.parametrize("name", PROGRAMS)
def test_agree_an_edit_is_refused_where_its_rows_are(name: str) -> None:
    rng = Random(f"errors {name}")
    asked = Asked()
    given: Given = {"root": set(), "edge": set()}
    refused = doubted = 0
    with connected(name, asked) as db:
        rows = loaded(name, given)
        for _ in range(EPOCHS):
            after = edited(rng, given)
            expected = loaded(name, after)
            tree = set(db.rows("tree")) if name == "choice" else set()
            asked.calls.clear()
            try:
                with db.transaction() as tx:
                    for relation, mine in given.items():
                        tx.delete(relation, sorted(mine - after[relation]))
                        tx.insert(relation, sorted(after[relation] - mine))
                assert expected is not None, (given, after)
                given, rows = after, expected
                doubted += WRONG in asked.calls
            except FunctorError:
                assert expected is None, (given, after)
                refused += 1
            if name == "choice":
                assert kept(tree, given) <= set(db.rows("tree"))
            else:
                assert {relation: db.rows(relation) for relation in db.schemas} == rows
            db.check_invariants()
    assert refused
    assert doubted


def test_a_choice_that_is_computed_anew_keeps_what_was_chosen() -> None:
    asked = Asked()
    with connected("choice", asked) as db:
        with db.transaction() as tx:
            tx.insert("root", [(2,), (4,)])
            tx.insert("edge", [(2, 1)])
        with db.transaction() as tx:  # 0 comes before 2, and too late
            tx.insert("root", [(0,)])
            tx.insert("edge", [(0, 1)])
        with db.transaction() as tx:
            tx.delete("root", [(4,)])
            tx.insert("edge", [(4, WRONG)])
        assert WRONG in asked.calls
        assert db.last_epoch.abandoned == 1
        assert tx.delta["tree"].removed == [(4, 4)]
        assert db.rows("tree") == [(0, 0), (2, 1), (2, 2)]
        db.check_invariants()
