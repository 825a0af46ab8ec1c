"""Why a row is there, why one is not, and what in an epoch made one come or go.

Questions are answered from what the engine keeps anyway: rows, ranks, indexes. Nothing is
recorded while an epoch runs, so a database that nobody asks pays nothing.

    ask.py          questions as a database asks them; rule instances, both ways
    why.py          the lowest proof, or several, in steps; least.py: the search for the lowest
    ways.py         the ways in which a fact holds, one rule instance or one merge each; nodes.py
    covers.py       which of many rows join to a value, and how low a proof by them is
    search.py       what the kernel finds: derivations, lowest proofs of plain rules; program.py
    proof.py        a proof; text.py: its forms
    why_not.py      how far rules get; repair.py: edits that would do, and what is in the way
    cause.py        the changes of an epoch behind one change
    state.py        the state asked about, or one on trial; rows.py: its rows, joined in Python
    words.py        rules, literals and rows in words, as they were written
"""
