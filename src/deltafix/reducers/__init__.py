"""Reducers: what a group's values come to, kept as values come and go.

    reducer.py      what one is: `initial`, `add`, `remove`, `finish`
    numeric.py, extremes.py, sets.py, sketches.py, connected.py     those there are
    algebra.py      reducers from reducers
    ordered.py, bag.py      persistent multisets: accumulators
    laws.py, check.py       what each has to keep to, and the search for where one does not

Rules (`engine.folds`), SQL, collections and streams fold with the same ones. Invariant: no
accumulator is ever changed, so whoever holds the old one has undone the change. Nothing here knows
groups or epochs. `deltafix.reactive` is their public door.
"""
