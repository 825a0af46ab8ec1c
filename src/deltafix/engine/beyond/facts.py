"""Facts and tables: what the stratum knows of each row, and where joins look for rows.

A `Fact` is one row with its counts. A `Table` holds the rows of a lower relation; a relation of
the stratum is a `Facts`, whose *live* facts have a rank. Both keep hash indexes by columns, asked
for once, when rules are compiled. Invariant: an index holds exactly the rows of its table (the
live facts), each under the values of its columns; a one-column key is the value itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from deltafix.facts.schema import Row

if TYPE_CHECKING:
    from deltafix.engine.beyond.rows import Rows


class Fact:
    """One row of a relation of the stratum.

    Attributes:
        home: the relation.
        row: its values.
        total: derivations whose body is live, and one more if the row is given.
        support: those among them whose body facts all have lower ranks (a joined value keeps
            them by proposal).
        rank: its place in the order of becoming live; 0 while it is not.
        visible: whether readers of the relation see it.
        by: the live fact that keeps it out: its dominator, or the choice made before it.
        stamp: the epoch that recorded it last, for undo.
    """

    __slots__ = ("by", "home", "rank", "row", "stamp", "support", "total", "visible")

    def __init__(self, home: Rows, row: Row) -> None:
        self.home = home
        self.row = row
        self.total = 0
        self.support: Any = 0
        self.rank = 0
        self.visible = False
        self.by: Fact | None = None
        self.stamp = 0

    def __repr__(self) -> str:
        return f"{self.home.name}{self.row} #{self.rank} {self.support}/{self.total}"


class Index:
    """Members of a table by the values of some columns: `buckets[key]` is an ordered set."""

    __slots__ = ("buckets", "key")

    def __init__(self, columns: tuple[int, ...]) -> None:
        self.key: Callable[[Row], Any] = itemgetter(*columns)
        self.buckets: dict[Any, dict[Any, None]] = {}

    def add(self, row: Row, member: object) -> None:
        """Enter a member under its row's key."""
        key = self.key(row)
        bucket = self.buckets.get(key)
        if bucket is None:
            self.buckets[key] = {member: None}
        else:
            bucket[member] = None

    def discard(self, row: Row, member: object) -> None:
        """Take a member out, if it is there."""
        key = self.key(row)
        bucket = self.buckets.get(key)
        if bucket is not None:
            bucket.pop(member, None)
            if not bucket:
                del self.buckets[key]


class Table:
    """The rows of a relation of a lower stratum."""

    __slots__ = ("indexes", "members")

    def __init__(self) -> None:
        self.members: dict[Any, None] = {}
        self.indexes: dict[tuple[int, ...], Index] = {}

    @staticmethod
    def row(member: Any) -> Row:
        """The row that a member is found by."""
        return member  # type: ignore[no-any-return]

    def index(self, columns: tuple[int, ...]) -> Index:
        """The index by some columns, made now if there is none."""
        index = self.indexes.get(columns)
        if index is None:
            index = self.indexes[columns] = Index(columns)
            for member in self.members:
                index.add(self.row(member), member)
        return index

    def add(self, member: Any) -> None:
        """Enter a row, or a fact that has become live."""
        self.members[member] = None
        for index in self.indexes.values():
            index.add(self.row(member), member)

    def discard(self, member: Any) -> None:
        """Take one out, if it is there."""
        self.members.pop(member, None)
        for index in self.indexes.values():
            index.discard(self.row(member), member)


class Facts(Table):
    """The facts of a relation of the stratum; those that are live are the members."""

    __slots__ = ("by_row",)

    def __init__(self) -> None:
        super().__init__()
        self.by_row: dict[Row, Fact] = {}

    @staticmethod
    def row(member: Any) -> Row:
        """The row of a fact."""
        return member.row  # type: ignore[no-any-return]


class Change(NamedTuple):
    """Net change of one relation: rows that were absent and rows that were present."""

    added: list[Row]
    removed: list[Row]


@dataclass(slots=True)
class Work:
    """What a run cost.

    Attributes:
        derivations: rule instances found, made and broken.
        touched: facts whose record was changed, whether or not that ends in the delta.
        retracted: facts taken down, for good or not.
        revived: retracted facts that held by another derivation after all.
        taken: facts made live.
    """

    derivations: int = 0
    touched: int = 0
    retracted: int = 0
    revived: int = 0
    taken: int = 0
