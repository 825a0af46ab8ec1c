"""Sharded execution: the engine in many shards, Spark for placement, shuffle, retries.

Map. From program to shards: `core` (facts and bodiless clauses), `decompose` (no shuffle
needed?), `whole` and `cut` + `localize` (the two layouts), `layout` (the result, as data),
`syntax`, `planning` (which). Inside a shard: `shard` (a superstep), `step` (what goes in and
comes out), `wire` and `hashing` (signed rows, routing). Around it: `files` (journals and the
manifest), `resident` (a worker's shards in memory), `here` and `onspark` (who runs a superstep),
`schedule` (which comes next), `epoch` (an attempt and its commit), `choose`, `frames`, `database`
(the door).

Invariant: a shard runs the engine, as any database does; there is no second evaluator here.
"""

from __future__ import annotations

from deltafix.spark.shards.database import ShardedDatabase

__all__ = ["ShardedDatabase"]
