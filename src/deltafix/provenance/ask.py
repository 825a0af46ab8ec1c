"""The questions as a database asks them: text or row in, explanation out.

What `engine.questions` calls by name. Invariant: a question is read and checked in full before
any work is done for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltafix.engine.literals import read_ground
from deltafix.errors import FactError
from deltafix.facts.schema import Row
from deltafix.provenance import cause as causes
from deltafix.provenance import why as proofs
from deltafix.provenance.proof import Proof
from deltafix.provenance.why_not import WhyNot
from deltafix.provenance.why_not import why_not as absence

if TYPE_CHECKING:
    from deltafix.engine.changes import Edited
    from deltafix.engine.database import Database
    from deltafix.facts.delta import Delta


def fact_of(db: Database, fact: str, row: Row | None) -> tuple[str, Row]:
    """The relation and the checked row that a question names."""
    if row is None:
        return read_ground(fact, db.schemas)
    schema = db._schema(fact)
    (checked,) = schema.check_rows([row])
    return fact, checked


def why(
    db: Database,
    fact: str,
    row: Row | None,
    *,
    several: bool,
    limit: int,
    max_steps: int,
    max_work: int,
) -> Proof | list[Proof]:
    """See `Database.why`."""
    _require_positive(limit=limit, max_steps=max_steps, max_work=max_work)
    relation, checked = fact_of(db, fact, row)
    found = proofs.why(
        db,
        relation,
        checked,
        limit=limit if several else None,
        max_steps=max_steps,
        max_work=max_work,
    )
    return found if several else found[0]


def why_not(
    db: Database,
    fact: str,
    row: Row | None,
    *,
    limit: int,
    max_depth: int,
    max_edits: int,
    max_work: int,
) -> WhyNot:
    """See `Database.why_not`."""
    _require_positive(max_depth=max_depth, max_work=max_work)
    _require_positive(least=0, limit=limit, max_edits=max_edits)
    relation, checked = fact_of(db, fact, row)
    return absence(
        db,
        relation,
        checked,
        limit=limit,
        max_depth=max_depth,
        max_edits=max_edits,
        max_work=max_work,
    )


def cause(
    db: Database,
    edited: Edited,
    delta: Delta,
    fact: str,
    row: Row | None,
    *,
    max_trials: int,
) -> causes.Cause:
    """See `Delta.why`."""
    _require_positive(max_trials=max_trials)
    relation, checked = fact_of(db, fact, row)
    return causes.cause(db, edited, delta, (relation, checked), max_trials=max_trials)


def _require_positive(least: int = 1, **bounds: int) -> None:
    for name, bound in bounds.items():
        if bound < least:
            raise FactError(f"{name}={bound}; it must be at least {least}", value=bound)
