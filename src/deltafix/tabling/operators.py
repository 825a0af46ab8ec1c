"""The operator table: which names may stand before, between or after terms, and how tightly.

Invariant: a name has at most one prefix and one infix or postfix definition. `op/3` in a
directive changes a copy, never the standard table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Operator(NamedTuple):
    """Priority 1..1200 and the highest priority allowed on each side (0: no such side)."""

    name: str
    priority: int
    kind: str
    left: int
    right: int


_STANDARD = (
    (1200, "xfx", ":- -->"),
    (1200, "fx", ":- ?-"),
    (1150, "fx", "table tabled dynamic volatile discontiguous initialization multifile"),
    (1105, "xfy", "|"),
    (1100, "xfy", ";"),
    (1050, "xfy", "->"),
    (1000, "xfy", ","),
    (990, "xfx", ":="),
    (900, "fy", "\\+"),
    (900, "fy", "tnot"),
    (700, "xfx", "= \\= == \\== @< @=< @> @>= is =:= =\\= < =< > >= =.. as"),
    (600, "xfy", ":"),
    (500, "yfx", "+ - /\\ \\/ xor"),
    (400, "yfx", "* / // rem mod div << >>"),
    (200, "xfx", "**"),
    (200, "xfy", "^"),
    (200, "fy", "- + \\"),
)

KINDS = ("xfx", "xfy", "yfx", "fy", "fx", "xf", "yf")


def _operator(name: str, priority: int, kind: str) -> Operator:
    left = right = 0
    if len(kind) == 3 or kind in ("xf", "yf"):
        left = priority if kind[0] == "y" else priority - 1
    if len(kind) == 3 or kind in ("fx", "fy"):
        right = priority if kind[-1] == "y" else priority - 1
    return Operator(name, priority, kind, left, right)


class OperatorTable:
    """Operators by name. Look up with `prefix` and `infix` (which holds postfix ones too)."""

    def __init__(self, definitions: Iterable[tuple[int, str, str]] = _STANDARD) -> None:
        self.prefix: dict[str, Operator] = {}
        self.infix: dict[str, Operator] = {}
        for priority, kind, names in definitions:
            for name in names.split():
                self.add(priority, kind, name)

    def add(self, priority: int, kind: str, name: str) -> None:
        """Define `name`; priority 0 removes it.

        Raises:
            ValueError: unknown kind, or priority outside 0..1200.
        """
        if kind not in KINDS or not 0 <= priority <= 1200:
            msg = f"op({priority}, {kind}, {name}): priority 0..1200 and one of {', '.join(KINDS)}"
            raise ValueError(msg)
        table = self.prefix if kind in ("fy", "fx") else self.infix
        if priority == 0:
            table.pop(name, None)
        else:
            table[name] = _operator(name, priority, kind)

    def copy(self) -> OperatorTable:
        """An independent table with the same operators."""
        other = OperatorTable(())
        other.prefix.update(self.prefix)
        other.infix.update(self.infix)
        return other


STANDARD = OperatorTable()
