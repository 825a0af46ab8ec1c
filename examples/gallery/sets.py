"""Set and index views: who is where, who is missing."""

from __future__ import annotations

from view import View

from deltafix.reactive import Bag, Union

VIEWS = (
    View(
        "inverted index",
        "flat_map",
        lambda docs: docs.flat_map(lambda doc, text: ((word, doc) for word in text.split())),
        [
            (
                [("+", 1, "to be"), ("+", 2, "to do")],
                [("+", "to", 1), ("+", "be", 1), ("+", "to", 2), ("+", "do", 2)],
            ),
            ([("-", 1, "to be"), ("+", 1, "to see")], [("-", "be", 1), ("+", "see", 1)]),
        ],
    ),
    View(
        "followers from follows",
        "map, turning the pair round",
        lambda follows: follows.map(lambda who, whom: (whom, who)),
        [
            ([("+", "ann", "bob"), ("+", "cy", "bob")], [("+", "bob", "ann"), ("+", "bob", "cy")]),
            ([("-", "ann", "bob")], [("-", "bob", "ann")]),
        ],
    ),
    View(
        "orders of known customers",
        "semi_join",
        lambda orders, customers: orders.semi_join(customers),
        [
            (
                {
                    "orders": [("+", "ann", "o1"), ("+", "bob", "o2")],
                    "customers": [("+", "ann", "Ann")],
                },
                [("+", "ann", "o1")],
            ),
            (
                {"customers": [("+", "bob", "Bob"), ("-", "ann", "Ann")]},
                [("+", "bob", "o2"), ("-", "ann", "o1")],
            ),
        ],
    ),
    View(
        "orders of nobody we know",
        "anti_join",
        lambda orders, customers: orders.anti_join(customers),
        [
            (
                {
                    "orders": [("+", "ann", "o1"), ("+", "bob", "o2")],
                    "customers": [("+", "ann", "Ann")],
                },
                [("+", "bob", "o2")],
            ),
            ({"customers": [("-", "ann", "Ann")], "orders": [("-", "ann", "o1")]}, []),
        ],
    ),
    View(
        "each tag once, however often it is given",
        "distinct",
        lambda tags: tags.distinct(),
        [
            ([("+", "doc", "x"), ("+", "doc", "x")], [("+", "doc", "x")]),
            ([("-", "doc", "x")], []),
            ([("-", "doc", "x")], [("-", "doc", "x")]),
        ],
    ),
    View(
        "may do it by role or by grant",
        "union (a | b)",
        lambda roles, grants: roles | grants,
        [
            (
                {
                    "roles": [("+", "ann", "read")],
                    "grants": [("+", "ann", "read"), ("+", "ann", "write")],
                },
                [("+", "ann", "read"), ("+", "ann", "write")],
            ),
            ({"roles": [("-", "ann", "read")]}, []),
            ({"grants": [("-", "ann", "read")]}, [("-", "ann", "read")]),
        ],
    ),
    View(
        "skills both of them have",
        "intersection (a & b)",
        lambda hers, his: hers & his,
        [
            (
                {
                    "hers": [("+", "team", "sql"), ("+", "team", "go")],
                    "his": [("+", "team", "sql")],
                },
                [("+", "team", "sql")],
            ),
            (
                {"his": [("+", "team", "go"), ("-", "team", "sql")]},
                [("+", "team", "go"), ("-", "team", "sql")],
            ),
        ],
    ),
    View(
        "planned and not done",
        "difference (a - b)",
        lambda planned, done: planned - done,
        [
            (
                {"planned": [("+", "trip", "book"), ("+", "trip", "pack")]},
                [("+", "trip", "book"), ("+", "trip", "pack")],
            ),
            ({"done": [("+", "trip", "book")]}, [("-", "trip", "book")]),
        ],
    ),
    View(
        "everything in a room as one value",
        "reduce(Union)",
        lambda things: things.reduce(Union()),
        [
            (
                [("+", "hall", "lamp"), ("+", "hall", "lamp")],
                [("+", "hall", Bag(["lamp", "lamp"]))],
            ),
            (
                [("-", "hall", "lamp")],
                [("-", "hall", Bag(["lamp", "lamp"])), ("+", "hall", Bag(["lamp"]))],
            ),
        ],
    ),
)
