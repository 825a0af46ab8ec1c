"""The algebra of change: change actions, derivatives, fixpoints, formulae, and their laws.

Reading guide, in dependency order: `action` (values, changes, ⊕), `sets`, `instances` and
`combined` (the actions there are), `derivative` (how a result changes), `fixpoint` (how a least
fixpoint does), `formula`, `evaluate`, `simplify`, `formula_derivative`, `counted` (formulae and
their derivatives as data), `connective` (formulae of one's own), `recursive` (Datalog as one
instance), `laws` and `check` (what must hold, and asking it), `query` and `symbolic` (proofs). It
stands on the standard library alone; Hypothesis and z3 are loaded only where a check or a proof
asks for them.

Source: Fixing incremental computation (change actions; derivatives of formulae and fixpoints).
"""

from __future__ import annotations

from deltafix.changes.action import ChangeAction
from deltafix.changes.check import LawReport, check_change_action, check_derivative
from deltafix.changes.combined import Tagged, disjoint_union, maps, pointwise, product
from deltafix.changes.connective import connective
from deltafix.changes.counted import COUNTED, DeltaTerm, conjunction_terms
from deltafix.changes.derivative import (
    Derivative,
    between,
    compose,
    derivative,
    greatest_derivative,
    least_derivative,
    minus_derivative,
    pair,
    precise_derivative,
)
from deltafix.changes.evaluate import Interpretation, evaluate, holds
from deltafix.changes.fixpoint import adjust, iterate, lfp, lfp_change
from deltafix.changes.formula_derivative import PRECISE, STANDARD, differentiate, next_of
from deltafix.changes.instances import (
    booleans,
    empty_action,
    full_action,
    integers,
    multiset,
    multisets,
    naturals,
    words,
)
from deltafix.changes.recursive import Definition, System
from deltafix.changes.sets import SetChange, sets
from deltafix.changes.simplify import simplify

__all__ = [
    "COUNTED",
    "PRECISE",
    "STANDARD",
    "ChangeAction",
    "Definition",
    "DeltaTerm",
    "Derivative",
    "Interpretation",
    "LawReport",
    "SetChange",
    "System",
    "Tagged",
    "adjust",
    "between",
    "booleans",
    "check_change_action",
    "check_derivative",
    "compose",
    "conjunction_terms",
    "connective",
    "derivative",
    "differentiate",
    "disjoint_union",
    "empty_action",
    "evaluate",
    "full_action",
    "greatest_derivative",
    "holds",
    "integers",
    "iterate",
    "least_derivative",
    "lfp",
    "lfp_change",
    "maps",
    "minus_derivative",
    "multiset",
    "multisets",
    "naturals",
    "next_of",
    "pair",
    "pointwise",
    "precise_derivative",
    "product",
    "sets",
    "simplify",
    "words",
]
