"""Why a row is there, why one is not, and what in an epoch made one come or go.

Questions are answered from what the engine keeps anyway: rows, ranks, indexes. Nothing is
recorded while an epoch runs, so a database that nobody asks pays nothing.
"""
