"""History and ordered patterns: order lives in keys and values, never in arrival.

An order-dependent fold is no reducer. Give every event its place (an epoch, a sequence number) and
let a kept order do the rest; then late, repeated and undone events need no code of their own.
"""

from __future__ import annotations

from itertools import pairwise

from view import View

from deltafix.reactive import Bag, First, Last, TopK, Union, enriched


def _document(bag):
    """Apply (place, text) edits in order; ("undo", place) values take places out."""
    undone = {place for mark, place in bag if mark == "undo"}
    return "".join(
        text for place, text in sorted(e for e in bag if e[0] != "undo") if place not in undone
    )


def _steps(bag):
    """Differences between neighbours in order of time."""
    levels = [level for _, level in sorted(bag.elements())]
    return tuple(after - before for before, after in pairwise(levels))


VIEWS = (
    View(
        "current address, whatever the order of arrival",
        "reduce(Last(by=sequence))",
        lambda events: events.reduce(Last(by=0)),
        [
            ([("+", "ann", (1, "Oslo")), ("+", "ann", (3, "Rome"))], [("+", "ann", (3, "Rome"))]),
            ([("+", "ann", (2, "Bonn"))], []),
            ([("-", "ann", (3, "Rome"))], [("-", "ann", (3, "Rome")), ("+", "ann", (2, "Bonn"))]),
        ],
    ),
    View(
        "first contact",
        "reduce(First(by=time))",
        lambda contacts: contacts.reduce(First(by=0)),
        [
            ([("+", "ann", (5, "mail"))], [("+", "ann", (5, "mail"))]),
            ([("+", "ann", (2, "call"))], [("-", "ann", (5, "mail")), ("+", "ann", (2, "call"))]),
        ],
    ),
    View(
        "as of a date",
        "slice on time keys, regroup, reduce(Last)",
        lambda log: (
            log.slice(stop=10).map(lambda at, fact: (fact[0], (at, fact[1]))).reduce(Last(by=0))
        ),
        [
            ([("+", 1, ("ann", "Oslo")), ("+", 12, ("ann", "Rome"))], [("+", "ann", (1, "Oslo"))]),
            ([("+", 9, ("ann", "Bonn"))], [("-", "ann", (1, "Oslo")), ("+", "ann", (9, "Bonn"))]),
        ],
    ),
    View(
        "undo and redo",
        "ordered keys: an undo is a row, a redo deletes it; reduce(enriched(Union))",
        lambda edits: edits.reduce(enriched(Union(), _document)),
        [
            ([("+", "doc", (1, "a")), ("+", "doc", (2, "b"))], [("+", "doc", "ab")]),
            ([("+", "doc", ("undo", 2))], [("-", "doc", "ab"), ("+", "doc", "a")]),
            ([("-", "doc", ("undo", 2))], [("-", "doc", "a"), ("+", "doc", "ab")]),
        ],
    ),
    View(
        "change since the reading before",
        "reduce(enriched(TopK(2)))",
        lambda readings: readings.reduce(
            enriched(
                TopK(2, by=0), lambda last: last[0][1] - last[1][1] if len(last) == 2 else None
            )
        ),
        [
            ([("+", "s", (1, 10))], [("+", "s", None)]),
            ([("+", "s", (2, 14))], [("-", "s", None), ("+", "s", 4)]),
            ([("-", "s", (1, 10)), ("+", "s", (0, 11))], [("-", "s", 4), ("+", "s", 3)]),
        ],
    ),
    View(
        "all steps of a level",
        "reduce(enriched(Union))",
        lambda levels: levels.reduce(enriched(Union(), _steps)),
        [
            ([("+", "tank", (1, 5)), ("+", "tank", (3, 9))], [("+", "tank", (4,))]),
            ([("+", "tank", (2, 6))], [("-", "tank", (4,)), ("+", "tank", (1, 3))]),
        ],
    ),
    View(
        "which versions are there",
        "reduce(Union)",
        lambda versions: versions.reduce(Union()),
        [
            ([("+", "lib", "1.0")], [("+", "lib", Bag(["1.0"]))]),
            (
                [("+", "lib", "1.1")],
                [("-", "lib", Bag(["1.0"])), ("+", "lib", Bag(["1.0", "1.1"]))],
            ),
        ],
    ),
)
