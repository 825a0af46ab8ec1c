"""The memory of an engine in memory, in an image that is only a cache of it.

Whoever keeps an engine's rows elsewhere (shards do, in journals) leaves an image beside its work,
and has an engine of the same program become what it says: mapped, not derived. Invariant: what is
taken up is what was left, byte for byte, under the name it was left under; all else is refused.
"""

from __future__ import annotations

from pathlib import Path

from deltafix.engine.database import Database
from deltafix.engine.state.image import (
    Moment,
    RefusedError,
    is_half_way,
    open_image,
    origin,
    write_image,
)


class CachedImage:
    """The images of one engine, which has no rows yet and calls no function of Python."""

    def __init__(self, db: Database, program: str) -> None:
        self._db = db
        self._origin = origin(program, db._linked, db._arena, db._codes)

    def leave(self, path: Path, name: str) -> bool:
        """Write an image between epochs; whether there is one. O(state). Raises OSError."""
        if is_half_way(self._db._arena):
            return False
        write_image(path, Moment(name, 0, self._origin), self._db._arena, self._db._codes)
        return True

    def take_up(self, path: Path, name: str) -> bool:
        """Become what an image says that was left under a name; whether it is one. O(bytes)."""
        db, wanted = self._db, Moment(name, 0, self._origin)
        try:
            open_image(path, wanted, 0, db._arena, db._codes, in_steps=lambda catalog: "")
        except RefusedError:
            return False
        db._unrun = False
        db._strata.cool()
        return True
