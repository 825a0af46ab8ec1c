"""Components: named, parametrised parts of a program, and their instances.

`tree` is what a text says, `reading` reads it, `instantiate` says what a name means inside an
instance and writes every instance out. Invariant: nothing behind `instantiate` knows components:
a `Program` has relations, types and rules only, with dotted names.
"""
