"""Durable state: a folder with a snapshot, a log of epochs after it, an image, and a lock.

Map, from the disk up: `disk` (every call that changes a file), `frame` (checksummed pieces of a
file), `rows` (given rows as Arrow bytes), `snapshot` and `log` (the two files), `lock` (who has the
folder), `identity` (which program it belongs to), `folder` (the protocol that joins them), `edits`
(what an epoch changed among the given rows), `durable` (the database that uses it). Beside them:
`image` (all memory in a file, and whose files are believed), `catalog` (whose its tables are, after
edits of rules).

Invariant: snapshot and log hold given rows only. Derived rows follow from them, so a changed rule
set needs no conversion; an image saves deriving them, and nothing rests on it.
"""
