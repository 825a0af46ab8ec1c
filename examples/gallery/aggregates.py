"""Simple per-key aggregates: one reducer each."""

from __future__ import annotations

from collections import namedtuple

from view import View

from deltafix.reactive import Count, Max, Min, Sum, enriched, where

Sale = namedtuple("Sale", "item amount")

VIEWS = (
    View(
        "orders per customer",
        "reduce(Count)",
        lambda orders: orders.reduce(Count()),
        [
            (
                [("+", "ann", "o1"), ("+", "ann", "o2"), ("+", "bob", "o3")],
                [("+", "ann", 2), ("+", "bob", 1)],
            ),
            (
                [("-", "bob", "o3"), ("+", "ann", "o4")],
                [("-", "bob", 1), ("-", "ann", 2), ("+", "ann", 3)],
            ),
        ],
    ),
    View(
        "revenue per shop",
        "reduce(Sum(field))",
        lambda sales: sales.reduce(Sum("amount")),
        [
            ([("+", "north", Sale("tea", 3)), ("+", "north", Sale("jam", 5))], [("+", "north", 8)]),
            (
                [("-", "north", Sale("tea", 3)), ("+", "north", Sale("tea", 4))],
                [("-", "north", 8), ("+", "north", 9)],
            ),
        ],
    ),
    View(
        "account balance to the cent",
        "reduce(Sum), exact for floats",
        lambda entries: entries.reduce(Sum()),
        [
            ([("+", "acc", 0.1), ("+", "acc", 1e16)], [("+", "acc", 1e16)]),
            ([("-", "acc", 1e16)], [("-", "acc", 1e16), ("+", "acc", 0.1)]),
        ],
    ),
    View(
        "cheapest offer",
        "reduce(Min), order kept: deletes cost O(log n)",
        lambda offers: offers.reduce(Min()),
        [
            ([("+", "tea", 5), ("+", "tea", 3), ("+", "tea", 4)], [("+", "tea", 3)]),
            ([("-", "tea", 3)], [("-", "tea", 3), ("+", "tea", 4)]),
            ([("-", "tea", 5)], []),
        ],
    ),
    View(
        "lowest price ever listed",
        "reduce(Min(partial=True)): one value kept, recomputed when it leaves",
        lambda prices: prices.reduce(Min(partial=True)),
        [
            ([("+", "tea", 5), ("+", "tea", 3)], [("+", "tea", 3)]),
            ([("-", "tea", 5)], []),
            ([("+", "tea", 5), ("-", "tea", 3)], [("-", "tea", 3), ("+", "tea", 5)]),
        ],
    ),
    View(
        "warmest reading",
        "reduce(Max)",
        lambda readings: readings.reduce(Max()),
        [
            ([("+", "roof", 21.5), ("+", "roof", 19.0)], [("+", "roof", 21.5)]),
            ([("+", "roof", 24.0)], [("-", "roof", 21.5), ("+", "roof", 24.0)]),
        ],
    ),
    View(
        "is any check failing",
        "reduce(enriched(where(Count)))",
        lambda checks: checks.reduce(
            enriched(where(Count(), lambda check: check[1] == "red"), lambda count: count > 0)
        ),
        [
            ([("+", "web", ("ping", "green"))], [("+", "web", False)]),
            ([("+", "web", ("disk", "red"))], [("-", "web", False), ("+", "web", True)]),
            ([("+", "web", ("load", "red"))], []),
        ],
    ),
)
