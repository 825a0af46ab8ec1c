"""deltafix: rules and a stream of changes in, exactly what changed in every derived view out.

    import deltafix

    program = deltafix.Program.parse(TEXT)
    with deltafix.connect(program) as db:
        with db.transaction() as tx:
            tx.insert("edge", [("a", "b"), ("b", "c")])
        tx.delta["path"].added

Invariant: importing this package imports neither numba, numpy, pyarrow nor pyspark; a public
name loads its module when it is first used (tests/unit/cli/test_start_up.py).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from deltafix.datalog.program import Program
    from deltafix.engine.connect import connect
    from deltafix.engine.database import Database
    from deltafix.engine.transaction import Transaction
    from deltafix.errors import DeltafixError
    from deltafix.events import EpochReport
    from deltafix.facts.delta import Delta, RelationDelta
    from deltafix.facts.schema import Column, Schema
    from deltafix.facts.values import Branch
    from deltafix.reactive.collection import Collection
    from deltafix.reducers.check import check_reducer
    from deltafix.rules.dsl import vars  # noqa: A004  `deltafix.vars` is the public spelling
    from deltafix.rules.extended import Lattice, Max, Min, branch, reduce_of

__all__ = [
    "Branch",
    "Collection",
    "Column",
    "Database",
    "Delta",
    "DeltafixError",
    "EpochReport",
    "Lattice",
    "Max",
    "Min",
    "Program",
    "RelationDelta",
    "Schema",
    "Transaction",
    "branch",
    "check_reducer",
    "connect",
    "reduce_of",
    "vars",
]

_HOME: Final = {
    "reduce_of": "deltafix.rules.extended",
    "branch": "deltafix.rules.extended",
    "Min": "deltafix.rules.extended",
    "Max": "deltafix.rules.extended",
    "Lattice": "deltafix.rules.extended",
    "Branch": "deltafix.facts.values",
    "Collection": "deltafix.reactive.collection",
    "Column": "deltafix.facts.schema",
    "Database": "deltafix.engine.database",
    "Delta": "deltafix.facts.delta",
    "DeltafixError": "deltafix.errors",
    "EpochReport": "deltafix.events",
    "Program": "deltafix.datalog.program",
    "RelationDelta": "deltafix.facts.delta",
    "Schema": "deltafix.facts.schema",
    "Transaction": "deltafix.engine.transaction",
    "check_reducer": "deltafix.reducers.check",
    "connect": "deltafix.engine.connect",
    "vars": "deltafix.rules.dsl",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415  30 ms that few need

        return version("deltafix")
    if name not in _HOME:
        raise AttributeError(f"module 'deltafix' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
