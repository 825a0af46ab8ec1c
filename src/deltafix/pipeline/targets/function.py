"""A Python function that is given each epoch: at least once, in order.

How far it has come is a file beside the log, written when it has returned. So an epoch whose
function ended, but whose note was not written, comes again: the function goes by `rows.epoch`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from deltafix.errors import SinkError
from deltafix.pipeline.targets.target import EpochRows
from deltafix.store.folder import Folder, Head

_NAME = "delivered.json"


class FunctionTarget:
    """Calls `function(rows)` with the `EpochRows` of each epoch; notes it in `folder`."""

    def __init__(self, function: Callable[[EpochRows], Any], folder: Folder, name: str) -> None:
        self._function = function
        self._name = name
        self._head = Head(folder, _NAME)

    def epoch(self) -> int | None:
        """As `Target.epoch`."""
        if self._head.data is None:
            return None
        return int(json.loads(self._head.data)["epoch"])

    def apply(self, rows: EpochRows) -> None:
        """As `Target.apply`, but the function may have seen the epoch already."""
        try:
            self._function(rows)
        except SinkError:
            raise
        except Exception as error:
            message = (
                f"function of {self._name}: epoch {rows.epoch}: {type(error).__name__}: {error}"
            )
            raise SinkError(message, epoch=rows.epoch) from error
        try:
            self._head.replace(json.dumps({"output": self._name, "epoch": rows.epoch}).encode())
        except OSError as error:
            message = f"function of {self._name}: epoch {rows.epoch} cannot be noted: {error}"
            raise SinkError(message, epoch=rows.epoch) from error

    def close(self) -> None:
        """Nothing is held."""
