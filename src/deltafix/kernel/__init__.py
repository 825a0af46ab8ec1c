"""The maintenance kernel: one flat arena, functions over it that numba compiles, nothing else.

Reading order: `layout` (what lies where), `arena` (reserved memory), `memory` (blocks and vectors
inside it), `keys` and `index` (hash tables), `filters` (which of many indexes have a key), `values`
(column codes), `checks` and `join` (one delta rule for one row; `ahead`: what it will look up),
`batch` (heads that wait), `lanes` and `blocks` (many rows: threads, and rows side by side),
`enter` (rows into an index, sorted), `held` (which row holds for a key), `emit` (what a derivation
does to its head), `task` (what runs next), `start` (from where a rule is evaluated from scratch),
`ask` (values that Python computes, for many rows at a time), `best` (one row per key), `wave`
(retract and revive), `phases` (finding what a stratum needs), `settle` (a stratum's end), `fold`
(counts and sums), `maintain` (what it needs, and one epoch as a resumable machine), `bulk` (many
given rows at once), `edit` (given rows in), `end` (commit, rollback); `cone` (proofs, read only).
How all that becomes machine code: `jit` (what marks a function), `compiler` (one object file, and
how Python calls it), `native` (found or made, and loaded), `entries` (what Python calls).

Invariant: every function here takes plain integers and the arena's views; programs are data
(`layout`, "Program"), so nothing is compiled per program. It does not know symbols, names,
types of columns beyond a type code, or Python objects.
"""
