"""The executor of strata beyond plain recursion.

These are even negation, lattices, subsumption, choice, and aggregates over their own recursion.
`BeyondStratum` is the database's door, `Stratum` the one on plain values. Both run in Python,
beside the kernel, which runs the rest.

    coded.py        the stratum as the database runs it
    stratum.py      a run: take in, retract, derive, sweep; which kind a relation is
    wiring.py       clauses -> variants on the relations that start them
    join.py         a variant: a chain of closures; checks.py: its steps
    rows.py         a plain relation; falling, blocked: others
    founded.py      a stratum that aggregates over itself; needs.py: the order of its keys
    keyed.py        relations that show one row a key; best and joined: the two kinds
    facts.py        a row's record, tables and indexes; epoch.py: what a run shares
"""

from deltafix.engine.beyond.coded import BeyondStratum
from deltafix.engine.beyond.stratum import Stratum

__all__ = ["BeyondStratum", "Stratum"]
