"""The snapshot: all given rows of one epoch, in one file.

A header frame (the state's name, the program's identity, how many frames follow) and one frame
per relation that has given rows. Invariant: the file gets its name only when all of it is on the
disk, so a snapshot is whole, or it was damaged later, and then it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from deltafix.engine.codes import Codes
from deltafix.engine.state.edits import Edit
from deltafix.engine.state.identity import Identity
from deltafix.engine.state.marks import Marks
from deltafix.engine.state.rows import encode
from deltafix.errors import StateError
from deltafix.store import disk
from deltafix.store.disk import Piece
from deltafix.store.frame import DamagedError, Frame, check_preamble, pack, preamble, read


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot as read: `state` names the folder's life, `marks` as set, `size` is in bytes."""

    state: str
    epoch: int
    identity: Identity
    frames: Sequence[Frame]
    size: int
    marks: Marks


def snapshot_pieces(
    state: str,
    epoch: int,
    identity: Identity,
    *,
    edits: Sequence[Edit],
    marks: Marks,
    codes: Codes,
) -> Iterator[Piece]:
    """The bytes of a snapshot, those of one relation at a time."""
    yield preamble("snapshot")
    head = {"state": state, "identity": identity.to_json(), "frames": len(edits)}
    if marks:
        head["marks"] = marks
    yield from pack(epoch, head)
    for edit in edits:
        entries, body = encode([edit], codes)
        yield from pack(epoch, {"edits": entries}, body)


def write_snapshot(path: Path, pieces: Iterable[Piece]) -> int:
    """Write a snapshot beside the old one, then replace it in one step. Returns its bytes.

    Raises OSError; the old snapshot is as before.
    """
    beside = path.with_suffix(".new")
    size = disk.create(beside, pieces)
    disk.rename(beside, path)
    disk.sync_folder(path.parent)
    return size


def read_snapshot(path: Path) -> Snapshot:
    """Read and check the snapshot in a file; as `parse_snapshot`."""
    return parse_snapshot(path.read_bytes(), str(path))


def parse_snapshot(data: bytes, path: str) -> Snapshot:
    """Check a whole snapshot. O(bytes). Raises StateError if a byte of it is wrong."""
    epoch: int | None = None
    offset = 0
    try:
        offset = check_preamble(data, "snapshot", path)
        head = read(data, offset)
        epoch, offset = head.epoch, head.end
        frames = []
        for _ in range(head.meta["frames"]):
            frame = read(data, offset)
            frames.append(frame)
            offset = frame.end
        if offset != len(data):
            raise DamagedError(f"{len(data) - offset} bytes follow its last frame")
        identity = Identity.from_json(head.meta["identity"])
        marks = dict(head.meta.get("marks", {}))
        return Snapshot(str(head.meta["state"]), epoch, identity, frames, len(data), marks)
    except (DamagedError, LookupError, TypeError, ValueError) as damage:
        which = "of an unreadable epoch" if epoch is None else f"of epoch {epoch}"
        message = (
            f"{path}: the snapshot {which} is damaged at byte {offset}: {damage}. The log rests on "
            f"it, so no epoch can be opened; the last good epoch is "
            f"{'unknown' if epoch is None else epoch}: restore the folder from a copy of it"
        )
        raise StateError(message, path=path, byte=offset, epoch=epoch) from None
