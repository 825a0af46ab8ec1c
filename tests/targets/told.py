"""Functions for `foreach_epoch`: any name is one, and keeps what it is told in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from deltafix.pipeline.targets.target import EpochRows


def tell(name: str, rows: EpochRows) -> None:
    line = json.dumps({"epoch": rows.epoch, "rows": rows.signed.to_pylist()})
    with (Path(os.environ["DELTAFIX_TOLD"]) / f"{name}.jsonl").open("a") as stream:
        stream.write(line + "\n")


def __getattr__(name: str) -> Callable[[EpochRows], None]:
    if name.startswith("_"):
        raise AttributeError(name)
    return lambda rows: tell(name, rows)
