"""Components: named, parametrised parts of a program, and their instances.

`reading` is what a text says, and reads it; `instantiate` says what a name means inside an
instance and writes every instance out. Invariant: nothing behind `instantiate` knows components:
a `Program` has relations, types and rules only, with dotted names.
"""
