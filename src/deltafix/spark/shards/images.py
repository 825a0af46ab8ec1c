"""Images of shards on a worker's machine: what a new worker maps instead of making an engine.

Spark stops Python workers that nobody asked for a minute, and may give a shard to another one. An
engine of a million rows takes seconds to make from its shard's files; an image of it is mapped in
a fraction of one. Images lie in the folder that Spark gives its executor, and go with it. They are
a cache: the files are the state, and an image is named by those that it stands on. Invariant: a
shard that was taken up from an image and the files behind it is the one that all its files make.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID, uuid4

from deltafix.spark.shards.shard import Shard
from deltafix.store import disk


def leave(about: Sequence[object], files: Sequence[str], shard: Shard, attempt: str) -> bool:
    """Leave an image of a shard between epochs, instead of any other; whether there is one.

    `about` tells the shard from all others, `files` are what it stands on, `attempt` wrote the last
    of them. Outside of Spark's workers, and on a full disk, there is none. O(state).
    """
    folder = _folder(about)
    if folder is None or shard.image is None:
        return False
    # No name is written twice: an image that somebody has mapped must stay as it is.
    own = uuid4().hex
    told = {"files": list(files), "clock": shard.clock, "attempt": attempt, "image": own}
    text = json.dumps(told)
    try:
        disk.make_folder(folder, durable=False)
        # It is sealed under what is told of it, so that neither fits another.
        if not shard.image.leave(folder / own, _digest(text)):
            return False
        beside = folder / f"{own}.told"
        disk.create(beside, [text.encode()], durable=False)
        beside.replace(folder / _TOLD)
        for path in folder.iterdir():
            if path.name not in (_TOLD, own):
                disk.remove(path)
    except OSError:
        return False
    return True


def take_up(about: Sequence[object], wanted: Sequence[str], shard: Shard) -> list[str]:
    """Have an empty shard be what an image says; the files on which it stands now, or none."""
    folder = _folder(about)
    if folder is None or shard.image is None:
        return []
    try:
        text = (folder / _TOLD).read_text()
        told = json.loads(text)
        files, clock = [str(name) for name in told["files"]], int(told["clock"])
        attempt, own = str(told["attempt"]), UUID(told["image"]).hex
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return []
    if not files or files != list(wanted[: len(files)]):
        return []
    if not shard.image.take_up(folder / own, _digest(text)):
        return []
    shard.stand_at(clock, attempt)
    return files


_TOLD = "told"


def _folder(about: Sequence[object]) -> Path | None:
    given = os.environ.get("SPARK_LOCAL_DIRS")  # Spark sets it for its Python workers
    if not given:
        return None
    name = _digest(json.dumps([str(one) for one in about]))
    return Path(given.split(",")[0]) / f"deltafix-{name}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
