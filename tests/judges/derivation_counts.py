"""How many derivations each row has, as the engine's tables say."""

from __future__ import annotations

import deltafix
from deltafix.engine.store import records_of, relation_cell
from deltafix.kernel import layout as at

Row = tuple[object, ...]


def derivation_counts(db: deltafix.Database) -> dict[str, dict[Row, int]]:
    """Of each relation that counts all derivations of its rows: the count of each."""
    arena, tables, found = db.instance.arena, db.instance.linked.tables, {}
    for name, number in db.instance.linked.ids.items():
        word = relation_cell(arena, number, at.R_ALL)
        if not word or name not in tables.types:
            continue
        records = records_of(arena, number)
        records = records[(records[:, 0] & at.WAS) != 0]
        columns = [
            db.instance.codes.decode(kind, records[:, at.COLS + place])
            for place, kind in enumerate(tables.types[name])
        ]
        rows = zip(*columns, strict=True) if columns else [()] * len(records)
        found[name] = dict(zip(rows, records[:, word].tolist(), strict=True))
    return found
