"""Windows and sessions: a window is part of the key, and eviction is a delete.

Time is data here: events carry it, and a clock that moves on is one more change. Nothing waits.
"""

from __future__ import annotations

from view import View

from deltafix.reactive import Count, Mean, Sum, Union, enriched


def _sessions(bag, gap=30):
    """Sorted event times cut where more than `gap` passes: (start, end, events) each."""
    sessions = []
    for time in sorted(bag.elements()):
        if sessions and time - sessions[-1][1] <= gap:
            start, _, events = sessions[-1]
            sessions[-1] = (start, time, events + 1)
        else:
            sessions.append((time, time, 1))
    return tuple(sessions)


VIEWS = (
    View(
        "clicks per minute",
        "group by window start, reduce(Count): tumbling",
        lambda clicks: clicks.group(lambda page, at: (page, at // 60 * 60)).reduce(Count()),
        [
            (
                [("+", "/", 5), ("+", "/", 59), ("+", "/", 61)],
                [("+", ("/", 0), 2), ("+", ("/", 60), 1)],
            ),
            ([("+", "/", 58)], [("-", ("/", 0), 2), ("+", ("/", 0), 3)]),
        ],
    ),
    View(
        "sum over two minutes, every minute",
        "flat_map into each window, reduce(Sum): hopping",
        lambda sales: sales.flat_map(
            lambda shop, sale: (
                ((shop, start), sale[1]) for start in (sale[0] // 60 * 60 - 60, sale[0] // 60 * 60)
            )
        ).reduce(Sum()),
        [
            ([("+", "n", (70, 5))], [("+", ("n", 0), 5), ("+", ("n", 60), 5)]),
            (
                [("+", "n", (130, 2))],
                [("-", ("n", 60), 5), ("+", ("n", 60), 7), ("+", ("n", 120), 2)],
            ),
        ],
    ),
    View(
        "moving average with event-time eviction",
        "reduce(Mean); what leaves the window is deleted",
        lambda readings: readings.map_values(lambda reading: reading[1]).reduce(Mean()),
        [
            ([("+", "s", (0, 10)), ("+", "s", (60, 20))], [("+", "s", 15.0)]),
            ([("+", "s", (120, 40)), ("-", "s", (0, 10))], [("-", "s", 15.0), ("+", "s", 30.0)]),
        ],
    ),
    View(
        "eviction by a clock",
        "join with a one-row clock, filter, reduce(Count)",
        lambda events, clock: (
            events.join(clock, lambda key, at, now: (at, now))
            .filter(lambda key, pair: pair[1] - pair[0] < 60)
            .map_values(lambda pair: pair[0])
            .reduce(Count())
        ),
        [
            (
                {"events": [("+", "s", 0), ("+", "s", 50)], "clock": [("+", "s", 55)]},
                [("+", "s", 2)],
            ),
            ({"clock": [("-", "s", 55), ("+", "s", 100)]}, [("-", "s", 2), ("+", "s", 1)]),
            ({"clock": [("-", "s", 100), ("+", "s", 105)]}, []),
            ({"clock": [("-", "s", 105), ("+", "s", 200)]}, [("-", "s", 1)]),
        ],
    ),
    View(
        "sessions that merge when a late event closes the gap",
        "reduce(enriched(Union))",
        lambda events: events.reduce(enriched(Union(), _sessions)),
        [
            (
                [("+", "ann", 0), ("+", "ann", 20), ("+", "ann", 70)],
                [("+", "ann", ((0, 20, 2), (70, 70, 1)))],
            ),
            (
                [("+", "ann", 45)],
                [("-", "ann", ((0, 20, 2), (70, 70, 1))), ("+", "ann", ((0, 70, 4),))],
            ),
            (
                [("-", "ann", 45)],
                [("-", "ann", ((0, 70, 4),)), ("+", "ann", ((0, 20, 2), (70, 70, 1)))],
            ),
        ],
    ),
    View(
        "the last two events of each device",
        "top_k by time",
        lambda events: events.top_k(2, by=0),
        [
            (
                [("+", "d", (1, "on")), ("+", "d", (2, "off"))],
                [("+", "d", (1, "on")), ("+", "d", (2, "off"))],
            ),
            ([("+", "d", (3, "on"))], [("-", "d", (1, "on")), ("+", "d", (3, "on"))]),
        ],
    ),
    View(
        "who is in the building",
        "reduce(Sum) of +1 and -1, filter",
        lambda gate: gate.reduce(Sum()).filter(lambda who, inside: inside > 0),
        [
            ([("+", "ann", 1), ("+", "bob", 1)], [("+", "ann", 1), ("+", "bob", 1)]),
            ([("+", "ann", -1)], [("-", "ann", 1)]),
        ],
    ),
)
