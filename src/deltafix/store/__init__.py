"""Where state, logs and outputs lie: a local disk, an object store or HDFS, behind one interface.

Map, from the bottom up: `disk` (every call that changes a local file), `frame` (checksummed pieces
of a file), `folder` (files by name, and the one that decides), `objects` (the same in an object
store), `lock` (who has a local folder).

Invariant: what readers believe is one file, replaced whole by whoever saw its last content; all
others are written before it names them. Nothing here knows what is in a file.
"""
