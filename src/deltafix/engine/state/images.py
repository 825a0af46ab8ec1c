"""When a database is opened from an image of its state, and when one is left behind.

One is left at the end of `compact` and of `close`, off the path of commits; after edits of rules
it has a catalog, by which the program is linked to it. Invariant: an image in
the folder is of an epoch that the state had; one that is not to be used is told of and removed,
so that no later epoch of the same number is taken for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from deltafix.engine.codes import Codes
from deltafix.engine.state.catalog import Catalog
from deltafix.engine.state.image import (
    Moment,
    RefusedError,
    is_half_way,
    open_image,
    origin_in_steps,
    write_image,
)
from deltafix.engine.state.state import State
from deltafix.errors import StateError
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena
from deltafix.plan.normalize import Core
from deltafix.store import disk

_BEHIND = 256
"""An image that lacks fewer than one row in so many is left as it is: replaying them is nothing."""


class Images:
    """The image of an open state.

    Args:
        state: the state; one without a place for an image never has one.
        arena: the database's, which has no rows yet.
        codes: the database's.
        origin: what an image has to agree on (`image.origin`), of the program as it was opened.
        users: functions of Python that it calls, or has called, and that may be others when it is
            opened again; with any, there is no image.
        catalog: gives that of the arena, or None if the program alone would not be planned alike.

    Attributes:
        catalog: of the image that the database was opened from, if its rules were edited: the
            program is then to be linked to the arena by it.
    """

    def __init__(
        self,
        state: State,
        arena: Arena,
        codes: Codes,
        *,
        origin: str,
        users: Callable[[], Sequence[str]],
        catalog: Callable[[], Catalog | None],
    ) -> None:
        self._state = state
        self._arena = arena
        self._codes = codes
        self._origin = origin
        self._users = users
        self._behind = 0
        self._epoch: int | None = None
        self.catalog: Catalog | None = None
        self._catalog = catalog
        self._in_steps = False

    def open(self, alone: Core) -> int | None:
        """Become what the image says; the epoch that it is of, or None: derive everything.

        `alone` is the program's own core.

        What speaks against an image is told in the state's `recovered`. Raises StateError if it
        cannot be removed.
        """
        state = self._state
        if state.image is None:
            return None
        try:
            if state.epoch and (users := self._users()):
                raise RefusedError(_foreign(users))
            if state.same_program and state.image.exists():
                wanted = Moment(state.name, state.epoch, self._origin)
                found = open_image(
                    state.image, wanted, state.base, self._arena, self._codes,
                    in_steps=lambda one: self._origin_of(one) if one.fits(alone) else "",
                )  # fmt: skip
                self._epoch, self.catalog = found.epoch, found.catalog
                self._in_steps = found.catalog is not None
        except RefusedError as refused:
            state.recovered.append(f"derived without an image: {refused}")
            try:
                disk.remove(state.image)
            except OSError as error:
                message = f"{state.image} is not to be used, and cannot be removed: {error}"
                raise StateError(message, path=str(state.image)) from error
        return self._epoch

    def edited(self) -> None:
        """Another plan was laid out in the arena: from now on images have a catalog."""
        self.drop()
        self._in_steps = True

    def note(self) -> None:
        """An epoch was committed."""
        self._behind += int(self._arena.cells[at.DELTA + 1])

    def leave(self) -> None:
        """At the end: write an image, unless the one that is there is good enough. O(state)."""
        if self._epoch is None or self._behind * _BEHIND > self._rows():
            self.write()

    def write(self) -> None:
        """Write an image of this epoch. O(state). What prevents it is told in `recovered`."""
        path, epoch = self._state.image, self._state.epoch
        if path is None or epoch == self._epoch or not self._state.is_ours or self._users():
            return
        if is_half_way(self._arena):
            self._state.recovered.append(
                f"no image after epoch {epoch}: an epoch was left half-way"
            )
            return
        moment = self._moment()
        if moment is None:
            message = f"no image after epoch {epoch}: planned alone, the program has another plan"
            self._state.recovered.append(message)
            return
        try:
            write_image(path, moment, self._arena, self._codes)
        except OSError as error:
            self._state.recovered.append(f"no image after epoch {epoch}: {error}")
            return
        self._epoch, self._behind = epoch, 0

    def drop(self) -> None:
        """Remove any: the snapshot is of a later epoch or of another program now."""
        self._epoch = None
        if self._state.image is not None:
            with suppress(OSError):  # its epoch says that it is too old
                disk.remove(self._state.image)

    def _moment(self) -> Moment | None:
        state = self._state
        if not self._in_steps:
            return Moment(state.name, state.epoch, self._origin)
        catalog = self._catalog()
        if catalog is None:
            return None
        return Moment(state.name, state.epoch, self._origin_of(catalog), catalog)

    def _origin_of(self, catalog: Catalog) -> str:
        return origin_in_steps(self._state.program.digest, catalog)

    def _rows(self) -> int:
        cells = self._arena.cells
        first, count = int(cells[at.RELS]), int(cells[at.N_RELS])
        return int(cells[first + at.R_WAS : first + count * at.RSZ : at.RSZ].sum())


def _foreign(functions: Iterable[str]) -> str:
    return f"functions of Python may have changed since, and it calls {', '.join(functions)}"
