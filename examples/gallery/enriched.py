"""Enriched state: the accumulator holds more than the result shows."""

from __future__ import annotations

from collections import namedtuple

from view import View

from deltafix.reactive import (
    ApproxDistinct,
    Count,
    Distinct,
    Histogram,
    Max,
    Mean,
    Median,
    Min,
    Quantile,
    Sum,
    TopK,
    Variance,
    contramap,
    enriched,
    group_of,
    product,
    scaled,
)

Lot = namedtuple("Lot", "shares price")
Hit = namedtuple("Hit", "page user")

VIEWS = (
    View(
        "average rating",
        "reduce(Mean)",
        lambda ratings: ratings.reduce(Mean()),
        [
            ([("+", "film", 3), ("+", "film", 5), ("+", "film", 7)], [("+", "film", 5.0)]),
            ([("-", "film", 5), ("+", "film", 2)], [("-", "film", 5.0), ("+", "film", 4.0)]),
        ],
    ),
    View(
        "average price weighted by shares",
        "reduce(scaled(Mean))",
        lambda lots: lots.reduce(scaled(Mean("price"), lambda lot: lot.shares)),
        [
            ([("+", "ABC", Lot(1, 10)), ("+", "ABC", Lot(3, 20))], [("+", "ABC", 17.5)]),
            ([("-", "ABC", Lot(1, 10))], [("-", "ABC", 17.5), ("+", "ABC", 20.0)]),
        ],
    ),
    View(
        "weighted mean from two sums",
        "reduce(enriched(product(Sum, Sum)))",
        lambda lots: lots.reduce(
            enriched(
                product(contramap(Sum(), lambda lot: lot.shares * lot.price), Sum("shares")),
                lambda sums: sums[0] / sums[1],
            )
        ),
        [
            ([("+", "ABC", Lot(1, 10)), ("+", "ABC", Lot(3, 20))], [("+", "ABC", 17.5)]),
            ([("+", "ABC", Lot(4, 5))], [("-", "ABC", 17.5), ("+", "ABC", 11.25)]),
        ],
    ),
    View(
        "response times in bins",
        "reduce(Histogram)",
        lambda times: times.reduce(Histogram([100, 500])),
        [
            ([("+", "/", 20), ("+", "/", 120), ("+", "/", 900)], [("+", "/", (1, 1, 1))]),
            ([("-", "/", 900), ("+", "/", 30)], [("-", "/", (1, 1, 1)), ("+", "/", (2, 1, 0))]),
        ],
    ),
    View(
        "three best as one value",
        "reduce(TopK)",
        lambda scores: scores.reduce(TopK(3)),
        [
            ([("+", "g", 5), ("+", "g", 9), ("+", "g", 1), ("+", "g", 7)], [("+", "g", (9, 7, 5))]),
            ([("-", "g", 9)], [("-", "g", (9, 7, 5)), ("+", "g", (7, 5, 1))]),
        ],
    ),
    View(
        "visitors per page",
        "reduce(Distinct)",
        lambda hits: hits.reduce(Distinct("user")),
        [
            (
                [
                    ("+", "/", Hit("/", "ann")),
                    ("+", "/", Hit("/", "ann")),
                    ("+", "/", Hit("/", "bob")),
                ],
                [("+", "/", 2)],
            ),
            ([("-", "/", Hit("/", "ann"))], []),
            ([("-", "/", Hit("/", "ann"))], [("-", "/", 2), ("+", "/", 1)]),
        ],
    ),
    View(
        "visitors per page in fixed memory",
        "reduce(ApproxDistinct), which can forget",
        lambda users: users.reduce(ApproxDistinct()),
        [
            ([("+", "/", "ann"), ("+", "/", "bob"), ("+", "/", "bob")], [("+", "/", 2)]),
            ([("-", "/", "ann")], [("-", "/", 2), ("+", "/", 1)]),
        ],
    ),
    View(
        "median pay",
        "reduce(Median)",
        lambda pay: pay.reduce(Median()),
        [
            ([("+", "it", 40), ("+", "it", 90), ("+", "it", 50)], [("+", "it", 50)]),
            ([("+", "it", 60)], [("-", "it", 50), ("+", "it", 55.0)]),
        ],
    ),
    View(
        "latency at the 90th percentile",
        "reduce(Quantile)",
        lambda latency: latency.reduce(Quantile(0.9, interpolate=False)),
        [
            ([("+", "api", ms) for ms in range(10, 120, 10)], [("+", "api", 100)]),
            ([("-", "api", 110)], [("-", "api", 100), ("+", "api", 90)]),
        ],
    ),
    View(
        "spread of a sensor",
        "reduce(Variance(root=True))",
        lambda readings: readings.reduce(Variance(root=True)),
        [
            ([("+", "s", 1.0), ("+", "s", 3.0)], [("+", "s", 1.0)]),
            ([("+", "s", 2.0), ("-", "s", 1.0)], [("-", "s", 1.0), ("+", "s", 0.5)]),
        ],
    ),
    View(
        "range, from the lowest and the highest",
        "reduce(enriched(product(Min, Max)))",
        lambda prices: prices.reduce(
            enriched(product(Min(), Max()), lambda ends: ends[1] - ends[0])
        ),
        [
            ([("+", "ABC", 10), ("+", "ABC", 13)], [("+", "ABC", 3)]),
            ([("-", "ABC", 10)], [("-", "ABC", 3), ("+", "ABC", 0)]),
        ],
    ),
    View(
        "counts per status within each project",
        "reduce(group_of(Count))",
        lambda tasks: tasks.reduce(group_of(Count(), lambda task: task[1])),
        [
            ([("+", "p", ("a", "open")), ("+", "p", ("b", "open"))], [("+", "p", (("open", 2),))]),
            (
                [("-", "p", ("a", "open")), ("+", "p", ("a", "done"))],
                [("-", "p", (("open", 2),)), ("+", "p", (("done", 1), ("open", 1)))],
            ),
        ],
    ),
)
