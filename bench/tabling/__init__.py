"""The experiments of the local algorithm's paper, on real C, and SWI-Prolog beside them.

`python -m bench.tabling` runs them and prints a table; `experiments.run_all` gives the records to a
harness. One file per experiment; `cflow` turns C into flow graphs, `swi` runs the peer.
"""
