"""The executor of strata beyond plain recursion: even negation, lattices, subsumption, choice.

`Stratum` is the door; it runs in Python on plain values, beside the kernel, which runs the rest.

    stratum.py      a run: take in, retract, derive, sweep
    wiring.py       clauses -> variants on the relations that start them
    join.py         a variant: a chain of closures; order.py, checks.py: its steps
    rows.py         a plain relation; falling, best, joined, undominated, chosen: the others
    facts.py        a row's record, tables and indexes; epoch.py: what a run shares
"""

from deltafix.engine.beyond.stratum import Stratum

__all__ = ["Stratum"]
