"""Business and UI: what a page shows, kept up to date."""

from __future__ import annotations

from collections import namedtuple

from view import View

from deltafix.reactive import Count, Max, Mean, Sum, product

Line = namedtuple("Line", "item quantity price")

VIEWS = (
    View(
        "cart total",
        "map_values, reduce(Sum)",
        lambda lines: lines.map_values(lambda line: line.quantity * line.price).reduce(Sum()),
        [
            (
                [("+", "cart", Line("tea", 2, 3)), ("+", "cart", Line("jam", 1, 5))],
                [("+", "cart", 11)],
            ),
            (
                [("-", "cart", Line("tea", 2, 3)), ("+", "cart", Line("tea", 1, 3))],
                [("-", "cart", 11), ("+", "cart", 8)],
            ),
        ],
    ),
    View(
        "leaderboard",
        "top_k: only what enters or leaves is sent",
        lambda scores: scores.top_k(2, by=1),
        [
            (
                [("+", "game", ("ann", 5)), ("+", "game", ("bob", 7)), ("+", "game", ("cy", 3))],
                [("+", "game", ("ann", 5)), ("+", "game", ("bob", 7))],
            ),
            (
                [("-", "game", ("cy", 3)), ("+", "game", ("cy", 9))],
                [("-", "game", ("ann", 5)), ("+", "game", ("cy", 9))],
            ),
        ],
    ),
    View(
        "points per player, then the best players",
        "reduce(Sum), map, top_k",
        lambda rounds: (
            rounds.reduce(Sum())
            .map(lambda player, points: ("all", (player, points)))
            .top_k(1, by=1)
        ),
        [
            ([("+", "ann", 3), ("+", "bob", 4)], [("+", "all", ("bob", 4))]),
            ([("+", "ann", 2)], [("-", "all", ("bob", 4)), ("+", "all", ("ann", 5))]),
        ],
    ),
    View(
        "stock from movements",
        "reduce(Sum)",
        lambda movements: movements.reduce(Sum()),
        [
            ([("+", "tea", 10), ("+", "tea", -3)], [("+", "tea", 7)]),
            ([("-", "tea", -3), ("+", "tea", -4)], [("-", "tea", 7), ("+", "tea", 6)]),
        ],
    ),
    View(
        "reorder alerts",
        "reduce(Sum), join, filter",
        lambda movements, minimum: (
            movements.reduce(Sum())
            .join(minimum)
            .filter(lambda item, pair: pair[0] < pair[1])
            .map_values(lambda pair: pair[1] - pair[0])
        ),
        [
            ({"movements": [("+", "tea", 10)], "minimum": [("+", "tea", 5)]}, []),
            ({"movements": [("+", "tea", -7)]}, [("+", "tea", 2)]),
            ({"movements": [("+", "tea", 20)]}, [("-", "tea", 2)]),
        ],
    ),
    View(
        "list price unless there is a deal",
        "anti_join, merge",
        lambda prices, deals: prices.anti_join(deals) + deals,
        [
            (
                {"prices": [("+", "tea", 5), ("+", "jam", 4)], "deals": [("+", "tea", 3)]},
                [("+", "tea", 3), ("+", "jam", 4)],
            ),
            ({"deals": [("-", "tea", 3)]}, [("-", "tea", 3), ("+", "tea", 5)]),
        ],
    ),
    View(
        "unread messages",
        "difference, reduce(Count)",
        lambda messages, read: (messages - read).reduce(Count()),
        [
            ({"messages": [("+", "ann", 1), ("+", "ann", 2)]}, [("+", "ann", 2)]),
            ({"read": [("+", "ann", 1)]}, [("-", "ann", 2), ("+", "ann", 1)]),
            ({"read": [("+", "ann", 2)]}, [("-", "ann", 1)]),
        ],
    ),
    View(
        "dashboard tile: count, mean and peak",
        "reduce(product)",
        lambda requests: requests.reduce(product(Count(), Mean(), Max())),
        [
            ([("+", "api", 10), ("+", "api", 30)], [("+", "api", (2, 20.0, 30))]),
            ([("-", "api", 30)], [("-", "api", (2, 20.0, 30)), ("+", "api", (1, 10.0, 10))]),
        ],
    ),
)
