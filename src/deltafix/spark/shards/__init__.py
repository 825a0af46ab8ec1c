"""Sharded execution: the engine in many shards, Spark for placement, shuffle, retries.

Map. From program to shards: `core` (facts and bodiless clauses), `whole` (which
layout, and the one without a shuffle), `cut` + `localize` (the other), `layout` (the result, as
data), `syntax`. Inside a shard: `shard` (a superstep), `step` (what goes in and
comes out), `wire` and `hashing` (signed rows, routing). Around it: `files` (journals and the
manifest), `resident` (a worker's shards in memory), `here` and `onspark` (who runs a superstep),
`schedule` (which comes next), `epoch` (an attempt and its commit), `choose`, `frames`, `database`
(the door). Many supersteps in one job: `rest` (of an epoch) and `rendezvous`. A shard whose epoch
derives everything: `load`.

Invariant: what a shard derives is the engine's, as in any database.
"""

from __future__ import annotations

from deltafix.spark.shards.database import ShardedDatabase

__all__ = ["ShardedDatabase"]
