"""TPC-H: its tables, its 22 queries as views, and streams of edits; DuckDB judges and competes.

Lives here: `tables.sql` and `q01.sql` to `q22.sql`, the specification's text with its validation
values; `data`, tables from the generator and transactions over them; `python -m bench.tpch`, which
measures each query alone. Invariant: a scale factor and a seed decide rows and edits. Not here: how
a view is kept (`deltafix.sql`). `tests/agree/test_tpch_oracle.py` holds every view and delta
against DuckDB.
"""
