"""Facts: the shape of rows, deltas of rows, and the ways rows enter and leave.

Reading order: `schema` (what a row is), `delta` (what changed), `symbols` (strings as numbers),
`arrow` (the columnar doors), `codec` (fact files), `source` and `sink` (where rows come from and
go to). Nothing is imported here, so that `import deltafix` stays cheap.
"""
