"""What a transaction changed in a table or view: rows added and removed, as SQL counts them.

Invariant: net and disjoint: a row is on one side only, as often as its multiplicity changed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from deltafix.closing import Closing
from deltafix.errors import FactError
from deltafix.facts.delta import Delta
from deltafix.facts.logical import cell, logical_order
from deltafix.facts.relation_delta import SHOWN, Tabular, html_table, sign_column
from deltafix.sql.builder import Relation
from deltafix.sql.cursor import as_arrow
from deltafix.sql.types import Column, SqlValue, decode_rows, shown_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from deltafix.facts.schema import Row
    from deltafix.sql.transactions import Transactions

__all__ = ["Change", "Subscription", "Told", "ViewDelta", "view_delta"]


@dataclass(frozen=True, slots=True)
class ViewDelta(Tabular):
    """The rows of a view that came and went; one that came twice is listed twice.

    `kinds` are its columns with their types; None where a definition made them others, so that the
    rows removed may be of the ones before.
    """

    view: str
    columns: tuple[str, ...]
    added: list[tuple[SqlValue, ...]]
    removed: list[tuple[SqlValue, ...]]
    kinds: tuple[Column, ...] | None = field(default=None, repr=False, compare=False)

    def to_arrow(self) -> pa.Table:
        """The view's columns and, last, `sign` (int8): 1 for added, -1 for removed rows.

        Removed rows come first. Raises FactError where a definition made the columns others.
        """
        import pyarrow as pa  # noqa: PLC0415  only when a table is asked for

        if self.kinds is None:
            message = (
                f"{self.view} has other columns than before, so what came and went is no one table;"
                " read .removed and .added"
            )
            raise FactError(message, relation=self.view)
        signs = pa.array([sign for sign, _ in self.signed()], pa.int8())
        field_ = pa.field(sign_column(self.columns), pa.int8(), nullable=False)
        table = as_arrow([row for _, row in self.signed()], self.kinds)
        return table.append_column(field_, signs)

    def _repr_html_(self) -> str:
        signed = islice(self.signed(), SHOWN)
        lines = (["+" if sign > 0 else "-", *map(cell, row)] for sign, row in signed)
        caption = f"{self.view}: {len(self.added)} added, {len(self.removed)} removed"
        return html_table(caption, ("", *self.columns), lines, len(self) - SHOWN)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)

    def __len__(self) -> int:
        return len(self.added) + len(self.removed)

    def signed(self) -> Iterator[tuple[int, tuple[SqlValue, ...]]]:
        """Every change as (sign, row): removed rows (-1) first, then added rows (+1)."""
        yield from ((-1, row) for row in self.removed)
        yield from ((1, row) for row in self.added)


class Change(NamedTuple):
    """Rows of a relation that went and came, as the engine has them, and what their columns are.

    These are others where a definition has made the relation another one.
    """

    removed: Sequence[Row]
    were: tuple[Column, ...]
    added: Sequence[Row]
    are: tuple[Column, ...]


Told: TypeAlias = Delta | Mapping[str, Change]
"""What an epoch or a definition changed, by relation."""


def view_delta(relation: Relation, deltas: Iterable[Told]) -> ViewDelta:
    """What a sequence of epochs and definitions changed in a relation, net."""
    deltas = list(deltas)
    if len(deltas) == 1 and isinstance(deltas[0], Delta) and not relation.hidden:
        return _one_delta(relation, deltas[0])
    counts = Counter[tuple[SqlValue, ...]]()
    columns: tuple[Column, ...] = relation.columns
    alike: tuple[Column, ...] | None = columns
    kinds: tuple[Column, ...] | None = columns
    for delta in deltas:
        if relation.name not in delta:
            continue
        part = delta[relation.name]
        were = are = columns
        if isinstance(part, Change):
            alike, were, are = None, part.were, part.are
            if not were == are == columns:
                kinds = None
        counts.update(decode_rows(part.added, are))
        counts.subtract(decode_rows(part.removed, were))
    added = [row for row, n in counts.items() for _ in range(n)]
    removed = [row for row, n in counts.items() for _ in range(-n)]
    return _ordered(relation, added, removed, alike, kinds)


def _one_delta(relation: Relation, delta: Delta) -> ViewDelta:
    """What an epoch changed in a relation whose rows are a set: net as it is."""
    columns = relation.columns
    if relation.name not in delta:
        return _ordered(relation, [], [], columns, columns)
    part = delta[relation.name]
    added, removed = decode_rows(part.added, columns), decode_rows(part.removed, columns)
    return _ordered(relation, added, removed, columns, columns)


def _ordered(
    relation: Relation,
    added: list[Any],
    removed: list[Any],
    alike: tuple[Column, ...] | None,
    kinds: tuple[Column, ...] | None,
) -> ViewDelta:
    for rows in (added, removed):
        if len(rows) > 1:
            rows.sort(key=logical_order)
    return ViewDelta(
        relation.name,
        tuple([column.name for column in relation.columns]),
        shown_rows(added, alike),
        shown_rows(removed, alike),
        kinds,
    )


class Subscription(Closing):
    """The deltas of one view, a transaction each: told to a callback, or kept for the iterator.

    Iterating gives the deltas that are waiting and ends where there are none. A context manager.
    """

    def __init__(
        self, connection: Transactions, view: str, callback: Callable[[ViewDelta], object] | None
    ) -> None:
        self.view = view
        self._connection = connection
        self._callback = callback
        self._waiting: deque[ViewDelta] = deque()

    @property
    def is_open(self) -> bool:
        """Whether it hears: it ends when it is closed, or what it is about is gone for good."""
        return any(subscription is self for subscription in self._connection._subscriptions)

    @property
    def tell(self) -> Callable[[ViewDelta], object]:
        """What passes a delta on, with nothing of ours between where an interrupt loses it."""
        return self._waiting.append if self._callback is None else self._callback

    def close(self) -> None:
        """Hear no more. Idempotent."""
        self._connection.forget(self)

    def __iter__(self) -> Iterator[ViewDelta]:
        while self._waiting:
            yield self._waiting.popleft()
