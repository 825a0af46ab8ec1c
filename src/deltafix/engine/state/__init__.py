"""Durable state: a folder with a snapshot, a log of epochs after it, and a lock.

Map, from the disk up: `disk` (every call that changes a file), `frame` (checksummed pieces of a
file), `rows` (given rows as Arrow bytes), `snapshot` and `log` (the two files), `lock` (who has
the folder), `identity` (which program it belongs to), `folder` (the protocol that joins them),
`edits` (what an epoch changed among the given rows), `durable` (the database that uses it).

Invariant: the files hold given rows only. Derived rows follow from them, so they are rebuilt when
the state is opened, and a changed rule set needs no conversion.
"""
