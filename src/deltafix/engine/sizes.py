"""Statistics of a database for `plan.explain`: rows and distinct keys, counted.

Invariant: reads the last committed epoch and changes nothing. One sort per index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from deltafix.engine.store import codes_where
from deltafix.kernel import layout as at
from deltafix.plan.explain import Statistics

if TYPE_CHECKING:
    from deltafix.engine.database import Database


def statistics(db: Database) -> dict[str, Statistics]:
    """Rows and keys of every relation of the plan, hidden ones too. O(rows log rows) an index."""
    found = {}
    for relation in db.plan.relations:
        codes = codes_where(db._arena, db._linked.ids[relation.name], at.WAS)
        keys = {
            columns: len(np.unique(codes[:, list(columns)], axis=0))
            for columns in db.plan.indexes[relation.name]
        }
        found[relation.name] = Statistics(len(codes), keys)
    return found
