"""The benchmark of deltafix: fixed-seed workloads, one adapter per peer, one report.

Three nouns: a `Workload` (rules, given rows, an edit script), a `Peer` (a system that can answer
it), an `Outcome` (what one peer did with one workload). Life of a run: a workload is generated
once into a cache folder outside the repository, each peer answers it in a process of its own,
answers are checked equal, and the report is written to `RESULTS.md`.
Nothing here is imported by deltafix, and no test measures time.
"""
