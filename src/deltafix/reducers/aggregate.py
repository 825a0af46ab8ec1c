"""What an aggregate asks of its reducer, and how one may say more of itself.

Any object with `initial`, `add`, `remove` and `finish` is a `UserReducer`; all of this package are.
One that takes many values at once, or whose result is a list with a row for each value in it, says
so by its base. Invariant: neither changes what the values of a group come to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias


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
