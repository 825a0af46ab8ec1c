"""Graph and relational views: joins where nothing recurs, `fixpoint` where it does."""

from __future__ import annotations

from view import View

from deltafix.reactive import Count, Min, fixpoint

COMPONENTS = """
.decl edge(a: symbol, b: symbol)
.decl joined(a: symbol, b: symbol)
.input edge
.output joined
joined(a, a) :- edge(a, _).
joined(b, b) :- edge(_, b).
joined(a, c) :- joined(a, b), edge(b, c).
joined(a, c) :- joined(a, b), edge(c, b).
"""

SHORTEST = """
.decl road(a: symbol, b: symbol, length: number)
.decl start(a: symbol)
.decl path(a: symbol, length: number)
.input road
.input start
.output path
path(a, 0) :- start(a).
path(b, n + l) :- path(a, n), road(a, b, l), n + l <= 100.
"""


def _components(edges):
    joined = fixpoint(COMPONENTS, {"edge": edges})["joined"]
    return joined.map(lambda _, pair: pair).reduce(Min())


def _shortest(roads, starts):
    paths = fixpoint(SHORTEST, {"road": roads, "start": starts})["path"]
    return paths.map(lambda _, path: path).reduce(Min())


def _dead(files):
    nodes = files.map(lambda path, one: [((), node) for node in one[0]])
    roots = files.map(lambda path, one: [((), root) for root in one[1]])
    edges = files.map(lambda path, one: [((), edge) for edge in one[2]])
    return nodes - edges.fixpoint(None, roots=roots)


def _triangles(edges):
    """A < b < c with all three edges: keyed by middle, then by end points."""
    pairs = edges.map(lambda _, edge: (min(edge), max(edge))).distinct()
    wedges = pairs.map(lambda a, b: (b, a)).join(pairs, lambda b, a, c: (a, b, c))
    closing = pairs.map(lambda a, c: ((a, c), True))
    return wedges.group(lambda _, t: (t[0], t[2])).semi_join(closing).map(lambda _, t: ("all", t))


VIEWS = (
    View(
        "how many follow",
        "reduce(Count): out-degree",
        lambda follows: follows.reduce(Count()),
        [
            ([("+", "ann", "bob"), ("+", "ann", "cy")], [("+", "ann", 2)]),
            ([("-", "ann", "bob")], [("-", "ann", 2), ("+", "ann", 1)]),
        ],
    ),
    View(
        "how many are followed by",
        "map, reduce(Count): in-degree",
        lambda follows: follows.map(lambda who, whom: (whom, who)).reduce(Count()),
        [
            ([("+", "ann", "cy"), ("+", "bob", "cy")], [("+", "cy", 2)]),
            (
                [("-", "bob", "cy"), ("+", "bob", "ann")],
                [("-", "cy", 2), ("+", "cy", 1), ("+", "ann", 1)],
            ),
        ],
    ),
    View(
        "order, customer and region",
        "join, group, join: acyclic, three collections",
        lambda orders, customers, regions: (
            orders.join(customers, lambda who, order, region: (order, region))
            .map(lambda who, pair: (pair[1], (who, pair[0])))
            .join(regions, lambda region, order, manager: (*order, manager))
        ),
        [
            (
                {
                    "orders": [("+", "ann", "o1")],
                    "customers": [("+", "ann", "north")],
                    "regions": [("+", "north", "Mia")],
                },
                [("+", "north", ("ann", "o1", "Mia"))],
            ),
            (
                {
                    "regions": [("-", "north", "Mia"), ("+", "north", "Lou")],
                    "orders": [("+", "ann", "o2")],
                },
                [
                    ("-", "north", ("ann", "o1", "Mia")),
                    ("+", "north", ("ann", "o1", "Lou")),
                    ("+", "north", ("ann", "o2", "Lou")),
                ],
            ),
        ],
    ),
    View(
        "friends of friends",
        "map, join",
        lambda follows: (
            follows.map(lambda a, b: (b, a))
            .join(follows, lambda _, a, c: (a, c))
            .map(lambda _, pair: pair)
            .distinct()
        ),
        [
            (
                [("+", "a", "b"), ("+", "b", "c"), ("+", "a", "d"), ("+", "d", "c")],
                [("+", "a", "c")],
            ),
            ([("-", "a", "b")], []),
            ([("-", "d", "c")], [("-", "a", "c")]),
        ],
    ),
    View(
        "triangles",
        "join, semi_join",
        _triangles,
        [
            ([("+", "", (1, 2)), ("+", "", (3, 2)), ("+", "", (1, 3))], [("+", "all", (1, 2, 3))]),
            ([("-", "", (1, 3))], [("-", "all", (1, 2, 3))]),
        ],
    ),
    View(
        "what can be reached",
        "fixpoint with a step",
        lambda links, roots: links.fixpoint(None, roots=roots),
        [
            (
                {
                    "roots": [("+", "", "a")],
                    "links": [("+", "", ("a", "b")), ("+", "", ("b", "c")), ("+", "", ("c", "b"))],
                },
                [("+", (), "a"), ("+", (), "b"), ("+", (), "c")],
            ),
            ({"links": [("-", "", ("a", "b"))]}, [("-", (), "b"), ("-", (), "c")]),
        ],
    ),
    View(
        "connected components, named by their least node",
        "fixpoint with a program, reduce(Min)",
        _components,
        [
            (
                [("+", "", ("a", "b")), ("+", "", ("c", "d"))],
                [
                    ("+", "a", "a"),
                    ("+", "b", "a"),
                    ("+", "c", "c"),
                    ("+", "d", "c"),
                ],
            ),
            (
                [("+", "", ("b", "c"))],
                [
                    ("-", "c", "c"),
                    ("-", "d", "c"),
                    ("+", "c", "a"),
                    ("+", "d", "a"),
                ],
            ),
            (
                [("-", "", ("b", "c"))],
                [
                    ("+", "c", "c"),
                    ("+", "d", "c"),
                    ("-", "c", "a"),
                    ("-", "d", "a"),
                ],
            ),
        ],
    ),
    View(
        "shortest ways from the start",
        "fixpoint with a program (lengths bounded), reduce(Min)",
        _shortest,
        [
            (
                {
                    "starts": [("+", "", "a")],
                    "roads": [
                        ("+", "", ("a", "b", 7)),
                        ("+", "", ("a", "c", 2)),
                        ("+", "", ("c", "b", 3)),
                    ],
                },
                [("+", "a", 0), ("+", "b", 5), ("+", "c", 2)],
            ),
            ({"roads": [("-", "", ("c", "b", 3))]}, [("-", "b", 5), ("+", "b", 7)]),
        ],
    ),
    View(
        "dead code",
        "map, fixpoint, difference",
        _dead,
        [
            ([("+", "a.py", (("main", "f", "g"), ("main",), (("main", "f"),)))], [("+", (), "g")]),
            ([("+", "b.py", ((), (), (("f", "g"), ("main", "f"))))], [("-", (), "g")]),
            (
                [
                    ("-", "a.py", (("main", "f", "g"), ("main",), (("main", "f"),))),
                    ("+", "a.py", (("main", "f", "g"), ("main",), ())),
                ],
                [],
            ),
        ],
    ),
)
