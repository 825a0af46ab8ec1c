"""The folder of a reduced stream: net rows, results and quarantine of its batches, as files.

One noun: a `BatchFolder` holds `manifest.json`, which names the last batch and the files whose net
rows add up to the state, and per batch `net-…`, `delta-…` and `quarantine-….parquet`. Net rows of
many batches are folded into one `snapshot-….parquet`.

Invariant: a batch is committed by the rename of the manifest, after every file it names is on disk.
A crash before leaves files that nothing names and that the replay writes again; a crash after
leaves files of older snapshots, which nothing reads. One process at a time.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltafix.errors import FactError, StateError
from deltafix.paths import local_path
from deltafix.pipeline.fold import net_sums
from deltafix.store.folder import Head, folder_at
from deltafix.store.tables import read_table, write_table

KEY, VALUE, SIGN = "key", "value", "sign"

_FORMAT = 1
# Net rows of this many batches are read on opening before they are folded into one snapshot.
_LOGS = 50


def net_rows(rows: pa.Table) -> pa.Table:
    """One row per (key, value) with the sum of its signs, zeros left out."""
    return net_sums(rows, (KEY, VALUE), SIGN).cast(rows.schema)


class BatchFolder:
    """The files of one stream of one reducer. Made with its first batch.

    Raises StateError if the manifest is damaged, of another format or of another reducer.
    """

    def __init__(self, path: str | Path, reducer: str) -> None:
        self.path = local_path(path)
        self._folder = folder_at(self.path)
        self._head = Head(self._folder, "manifest.json")
        self._manifest: dict[str, Any] = {
            "format": _FORMAT,
            "reducer": reducer,
            "batch": -1,
            "snapshot": None,
            "logs": [],
            "types": None,
        }
        manifest = self.path / "manifest.json"
        if self._head.data is None:
            return
        try:
            found = json.loads(self._head.data)
        except ValueError as error:
            raise StateError(f"{manifest} is damaged: {error}") from error
        if not isinstance(found, dict) or found.keys() != self._manifest.keys():
            raise StateError(f"{manifest} is damaged: it is no manifest of a reduced stream")
        for what in ("format", "reducer"):
            if found[what] != self._manifest[what]:
                raise StateError(
                    f"{self.path} holds the state of {what} {found[what]!r}, "
                    f"not {self._manifest[what]!r}; use another folder or delete it"
                )
        self._manifest = found

    @property
    def last_batch(self) -> int:
        """The id of the last committed batch; -1 before the first."""
        return int(self._manifest["batch"])

    def state(self) -> pa.Table | None:
        """The net rows of all committed batches; None before the first. O(rows)."""
        parts = [self._read(name) for name in self._named()]
        return net_rows(pa.concat_tables(parts)) if parts else None

    def check_types(self, rows: pa.Table) -> None:
        """Raise FactError if rows are of other types than those of the batches before."""
        types, known = _types(rows), self._manifest["types"]
        if known is not None and types != known:
            raise FactError(
                f"the batch has columns of types {types}; the state in {self.path} has {known}"
            )

    def commit(self, batch: int, net: pa.Table, delta: pa.Table, quarantine: pa.Table) -> None:
        """Write a batch's files, then the manifest that names them."""
        log = f"net-{batch:012d}.parquet"
        write_table(self._folder, f"delta-{batch:012d}.parquet", delta)
        write_table(self._folder, f"quarantine-{batch:012d}.parquet", quarantine)
        write_table(self._folder, log, net)
        manifest = {
            **self._manifest,
            "batch": batch,
            "logs": [*self._manifest["logs"], log],
            "types": _types(net),
        }
        old: list[str] = []
        if len(manifest["logs"]) > _LOGS:
            old = [*self._named(), log]
            snapshot = f"snapshot-{batch:012d}.parquet"
            write_table(
                self._folder,
                snapshot,
                net_rows(pa.concat_tables([self._read(name) for name in old])),
            )
            manifest |= {"snapshot": snapshot, "logs": []}
        self._head.replace(json.dumps(manifest).encode())
        self._manifest = manifest
        for name in old:
            self._folder.remove(name)

    def again(self, batch: int) -> tuple[pa.Table, pa.Table]:
        """The delta and the quarantine that a committed batch had."""
        return (
            self._read(f"delta-{batch:012d}.parquet"),
            self._read(f"quarantine-{batch:012d}.parquet"),
        )

    def _named(self) -> list[str]:
        """The files whose rows add up to the state."""
        snapshot = self._manifest["snapshot"]
        return [*([] if snapshot is None else [snapshot]), *self._manifest["logs"]]

    def _read(self, name: str) -> pa.Table:
        name = Path(str(name)).name  # a manifest names no file outside its folder
        try:
            return read_table(self._folder, name)
        except OSError as error:
            raise StateError(f"{self.path / name} cannot be read: {error}") from error


def _types(rows: pa.Table) -> list[str]:
    return [str(field.type) for field in rows.schema]
