"""Where the epochs of an output go behind its delta log: tables, topics, functions.

Map: `target` (the protocol, and the rows of one epoch), `registry` (from an `[output.X]` section to
a target); one kind a module: `delta`, `iceberg`, `postgres`, `sql`, `kafka`, `function`, `webhook`
(a function that posts).

Invariant: a target that cannot take an epoch does not lose it: the log holds it, the target itself
says how far it has come, and nothing new is committed before it has caught up.
"""
