"""Pipelines: changing inputs in, exact deltas of views out, state that survives.

Map: `settings` and `config` (pipeline.toml), `sources/` (inputs), `decode`, `debezium`, `columns`
and `signed` (from what they say to signed rows), `policy` and `quarantine` (rows that are not
right), `keyed` (rows that replace the row of their key), `condense` (a look in fewer words),
`augment` and `change` (the program), `maintainer` (one epoch, exactly once), `outputs`, `sink` and
`manifest` (delta logs), `runner` (the loop), `epoch` (what was done), `replay` and `status`
(looking back).
"""
