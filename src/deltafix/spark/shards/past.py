"""The given rows around an epoch, from the files of shards: for `replay`.

A manifest names the steps of each shard since it was last written whole, epoch by epoch; shards
are made here from those before an epoch, and again with its own. Invariant: nothing is written, and
no lock is taken; files that a running pipeline removes meanwhile raise StateError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from deltafix.facts.schema import Schema
from deltafix.pipeline.replay import Around
from deltafix.spark.shards.carry import spec_of
from deltafix.spark.shards.files import Manifest, epoch_of, read_journal
from deltafix.spark.shards.resident import Spec, forget, given_rows
from deltafix.store.folder import Folder


def around(folder: Folder, epoch: int, schemas: Mapping[str, Schema]) -> Around | None:
    """The given rows before and after an epoch of shards in a folder; None if it was folded.

    O(state). Raises StateError for damage, or shards of another program.
    """
    manifest = Manifest.load(folder)
    if manifest is None:
        return None
    before, after = ({n: _until(names, last) for n, names in manifest.files.items()}
                     for last in (epoch - 1, epoch))  # fmt: skip
    later = (name for n, names in manifest.files.items() for name in names[len(before[n]) :])
    if any(read_journal(folder, name).fresh for name in later):
        return None  # it holds the whole of a shard: what was before is gone
    spec = spec_of(str(folder), manifest, schemas)
    try:
        return Around(dict(_given(spec, before, schemas)), dict(_given(spec, after, schemas)))
    finally:
        forget(str(folder))


def _until(names: list[str], epoch: int) -> list[str]:
    return [name for name in names if epoch_of(name) <= epoch]


def _given(
    spec: Spec, files: Mapping[int, list[str]], schemas: Mapping[str, Schema]
) -> Iterator[tuple[str, pa.Table]]:
    for relation in spec.columns:
        parts = [given_rows(spec, files[n], n, relation) for n in range(spec.shards)]
        schema = schemas[relation]
        whole = pa.concat_tables(parts)
        if schema.arity:
            whole = whole.select(range(schema.arity)).rename_columns(list(schema.names))
        yield relation, whole
