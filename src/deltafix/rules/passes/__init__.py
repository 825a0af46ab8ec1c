"""Transformations of a checked program into another with the same meaning, rules to rules.

`inline` replaces atoms by what their relation's rules say, `magic` computes only what is asked for
and has `executable`, which applies both. Invariant: every relation that stays visible has the same
rows; what a pass makes has a name that no text can write.
"""
