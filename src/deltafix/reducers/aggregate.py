"""What an aggregate asks of its reducer, and how one may say more of itself.

Any object with `initial`, `add`, `remove` and `finish` is a `UserReducer`; all of this package are.
One that takes many values at once, or all values of many groups, or whose result is a list with a
row for each value in it, says so by its base. Invariant: none changes what the values of a group
come to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from deltafix.reducers.ways import Way

    Ints: TypeAlias = npt.NDArray[np.int64]
    Codes: TypeAlias = npt.NDArray[np.int32]
    Flags: TypeAlias = npt.NDArray[np.bool_]


class UserReducer(Protocol):
    """What a fold needs of a reducer; `deltafix.reactive.Reducer` has it."""

    @property
    def initial(self) -> Any:
        """The accumulator of no values."""

    def add(self, acc: Any, value: Any, /) -> Any:
        """With one more value."""

    def remove(self, acc: Any, value: Any, /) -> Any:
        """With one value fewer, or None."""

    def finish(self, acc: Any, /) -> Any:
        """The result."""


class Gathers(ABC):
    """Base of a reducer that takes many values in or out in less time than one after another."""

    @abstractmethod
    def gather(self, acc: Any, values: list[Any], sign: int, /) -> Any:
        """With these values, too (`sign` 1), or without them (-1)."""


Changes: TypeAlias = tuple[list[Any], list[Any]]
"""What a list loses and gains."""


class Several:
    """Base of a reducer whose result is a list: the group has a row for each value in it.

    Its accumulators never change, and it takes each value away again. For callers inside the
    package: nobody checks that the values are of the aggregate's type.
    """

    finish: Callable[[Any], Iterable[Any]]

    def changes(self, before: Any, after: Any, values: list[Any], /) -> Changes:
        """What a result loses and gains where these values came or went.

        What stands in both lists stays; so does what is in neither.
        """
        return [*self.finish(before)], [*self.finish(after)]


class SortedRows(Protocol):
    """The values of many groups, those of each together and sorted, by column.

    Those of group `n` are the places from `starts[n]` to before `starts[n + 1]`. A column is
    counted among the fields of a value; a value that is no record has one.
    """

    @property
    def starts(self) -> Ints:
        """Where each group begins, and where the last one has ended: (groups + 1,)."""

    def codes(self, column: int) -> Codes:
        """A column as the engine has it: equal values have one code."""

    def present(self, column: int) -> Flags | None:
        """Where a column that may be NULL is not; None: it cannot be."""

    def numbers(self, column: int) -> npt.NDArray[Any] | None:
        """A column as int64 or float64, 0 where it is NULL; None: it is of none of these."""

    def ranks(self, column: int) -> tuple[Ints, Codes]:
        """Where values lie among those that occur, -1 for NULL; the codes of these, in order."""

    def values(self, places: Sequence[int]) -> list[Any]:
        """The values in places, as the reducer takes them."""

    def coded(self, result: int, values: Any, present: Flags | None = None) -> Codes:
        """Values of a column of the results, an array or a list; with NULL where not `present`."""


@dataclass(frozen=True)
class Loaded:
    """What a reducer made of the values of many groups.

    Attributes:
        acc: the accumulator of a group, by number; asked for when the group changes first.
        results: for each group, its result; of a reducer with `Several` None.
        shown: of one with `Several` the places whose group has a row, ascending, and the columns of
            these rows as codes.
    """

    acc: Callable[[int], Any]
    results: list[Any] | None = None
    shown: tuple[Ints, Sequence[Codes]] | None = None


def read_from(
    rows: SortedRows, places: Sequence[int], key: Callable[[Any], Any] | None
) -> Callable[[range], list[Any]]:
    """What is kept of the values in some of these places, for `Ordered.deferred`."""

    def read(chosen: range) -> list[Any]:
        values = rows.values(places[chosen.start : chosen.stop : chosen.step])
        return values if key is None else [*map(key, values)]

    return read


class Columnar(ABC):
    """Base of a reducer that takes all values of many new groups at once, sorted, as columns.

    200,000 rows of which each shows the one before: 0.2 s, and 3.0 where each is a tuple.

    Attributes:
        sorts: by which columns of a value values are sorted, and how. All other values that are
            equal in them are equal.
    """

    sorts: Sequence[tuple[int, Way]]

    @abstractmethod
    def load(self, rows: SortedRows, /) -> Loaded | None:
        """What `add` of each value would come to; None: it has no way by column for these.

        Also where a result is an error, of which then is said at which value.
        """
