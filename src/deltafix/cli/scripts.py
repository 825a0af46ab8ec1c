"""Scripts of SQL over a folder that keeps what they make: run once, as a whole, and then compared.

Invariant: a script that makes tables or views is in such a folder from beginning to end, or not at
all, unless it has a BEGIN or COMMIT of its own; so one whose tables and views are there has been
run. What it makes is compared by `sql.described`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deltafix.errors import SourceError

if TYPE_CHECKING:
    from deltafix.sql import Connection
    from deltafix.sql.catalog import Catalog
    from deltafix.sql.text import Statement

__all__ = ["is_made", "is_whole", "require_made", "run_script", "told"]

_CONTROL: Final = re.compile(r"\b(?:BEGIN|START|COMMIT|END|ROLLBACK|ABORT)\b", re.IGNORECASE)
_CREATE: Final = re.compile(r"\bCREATE\b", re.IGNORECASE)


def told(script: Path, state: str) -> str:
    """That a script was compared, and not run."""
    reason = f"which has the tables and views of {script}; the script is not run again"
    return f"note: rows are those of {state}, {reason}"


def run_script(db: Connection, text: str, path: str, *, whole: bool) -> None:
    """Run a script: `whole` in one transaction, so that no start leaves a part of it in a folder.

    Raises SqlError: then nothing has been run, where it is whole.
    """
    if whole:
        for statement in _control(db, text, path):
            message = f"a script whose rows are kept is one transaction: {statement.verb} in it"
            raise statement.operational(message, "leave BEGIN, COMMIT and ROLLBACK out")
        db.begin()
    with db:
        for _ in db.run(text, (), path):
            pass


def is_whole(db: Connection, text: str, path: str) -> bool:
    """Whether a script makes something and has no transaction of its own. Raises SqlError."""
    return _CREATE.search(text) is not None and not any(_control(db, text, path))


def _control(db: Connection, text: str, path: str) -> Iterator[Statement]:
    """The statements of a script that begin or end a transaction."""
    from deltafix.sql.parsing import statements  # noqa: PLC0415  quick --help
    from deltafix.sql.text import exp  # noqa: PLC0415  quick --help

    # reading a script twice is half of its time: only where a word of one stands in it
    for statement in statements(text, db.dialect, path) if _CONTROL.search(text) else ():
        if isinstance(statement.node, exp.Transaction | exp.Commit | exp.Rollback):
            yield statement


def is_made(db: Connection, text: str, path: str) -> bool:
    """Whether a script makes a table or view that is there and that it does not drop before.

    What it makes by IF NOT EXISTS or OR REPLACE does not count: that can be run again. Raises
    SqlError.
    """
    from deltafix.sql.catalog import created  # noqa: PLC0415  quick --help
    from deltafix.sql.parsing import statements  # noqa: PLC0415
    from deltafix.sql.text import exp  # noqa: PLC0415

    left = {*db.catalog.relations}
    for statement in statements(text, db.dialect, path) if left else ():
        node = statement.node
        if isinstance(node, exp.Drop):
            left -= {table.name for table in node.args["tables"]}
        elif isinstance(node, exp.Create) and created(node).name in left:
            if node.args.get("exists") or node.args.get("replace"):
                continue
            return True
    return False


def require_made(db: Connection, script: Path, text: str, state: str) -> None:
    """Require of a folder that it has the tables and views that the script makes.

    Raises SourceError that names what differs, and SqlError for a script that is none.
    """
    import deltafix.sql as door  # noqa: PLC0415  quick --help
    from deltafix.sql.catalog import created  # noqa: PLC0415
    from deltafix.sql.described import described  # noqa: PLC0415
    from deltafix.sql.parsing import statements  # noqa: PLC0415
    from deltafix.sql.text import exp  # noqa: PLC0415

    nodes = (statement.node for statement in statements(text, db.dialect, str(script)))
    makes = {created(node).name for node in nodes if isinstance(node, exp.Create)}
    rest = _without(db.catalog, makes)
    with contextlib.closing(door.connect(dialect=db.dialect)) as other:
        other.catalog.restored(rest)
        other.catalog.reducers.update(rest.reducers)
        for _ in other.run(text, (), str(script), kinds=(exp.Create, exp.Alter, exp.Drop)):
            pass
        wanted = described(other.catalog)
    existing = described(db.catalog)
    for name, (kind, parts) in wanted.items():
        if name in rest.definitions:
            continue
        if name not in existing:
            difference = f"no {kind} {name}, which {script} makes"
            way_out = "have it made"
        else:
            is_kind, has = existing[name]
            ours, theirs = ([*parts], [*has]) if kind == is_kind else ([kind], [is_kind])
            if ours == theirs:
                continue
            sides = (
                (state, [part for part in theirs if part not in ours]),
                (script, [part for part in ours if part not in theirs]),
            )
            only = "; ".join(f"only {of} has {', '.join(some)}" for of, some in sides if some)
            difference = f"another {kind} {name} than {script} makes: {only or 'in another order'}"
            way_out = f"write what is there into {script}, or have it changed"
        way_out += f" there by `deltafix sql --state {state}`, or name another folder"
        raise SourceError(f"{state} has {difference}; {way_out}", value=name)


def _without(catalog: Catalog, names: Iterable[str]) -> Catalog:
    """What a catalog has that knows none of these tables and views: what a script may build on."""
    gone, more = set[str](), {*names}
    while more:
        gone |= more
        referring = {table.relation.name for name in more for table, _ in catalog.referring(name)}
        more = {*referring, *(reader for name in more for reader in catalog.readers(name))} - gone
    return catalog.without(gone)
