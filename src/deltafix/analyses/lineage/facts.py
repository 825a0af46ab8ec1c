"""The input relations of lineage, and where one statement's facts are gathered.

Words: a *block* is a query block (one SELECT, set operation, table function or list of new
values); a *source* is one entry of a block's FROM, or a branch of a set operation; a *mention* is
the name of a table as a statement wrote it. Invariant: a fact follows from its file alone. Which
table a mention means, which columns a star stands for and which source an unqualified name belongs
to is decided by the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from deltafix.analyses.facts import Fact

ROWS = "(rows)"
"""The column that stands for which rows a table or block has: what filters and joins decide."""

FUNCTION = "()"
"""The column that stands for whatever a table function gives."""

INPUTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "table": ("table", "kind"),
        "table_tail": ("table", "tail"),
        "column": ("table", "ordinal", "name"),
        "width_of": ("table", "count"),
        "formless": ("table",),
        "like": ("table", "mention"),
        "added": ("mention", "name"),
        "dropped": ("mention", "name"),
        "mention": ("mention", "name"),
        "prefers": ("mention", "name"),
        "mention_tail": ("mention", "tail"),
        "defines": ("table", "block"),
        "fills": ("mention", "block"),
        "fills_in_order": ("mention", "block"),
        "makes": ("table", "statement"),
        "changes": ("mention", "statement"),
        "mentions": ("statement", "mention"),
        "block": ("block", "statement"),
        "outer": ("block", "enclosing"),
        "source": ("block", "source"),
        "table_at": ("source", "mention"),
        "block_at": ("source", "block"),
        "aligned": ("block", "source"),
        "output": ("block", "key", "name"),
        "slot": ("block", "index", "key"),
        "star": ("block", "index", "source"),
        "length": ("block", "count"),
        "except": ("block", "index", "name"),
        "renamed": ("block", "index", "name", "new"),
        "using": ("block", "name", "source"),
        "natural": ("block", "left", "right"),
        "function": ("block",),
        "absorbs": ("block", "key", "source", "how"),
        "uses": ("block", "key", "source", "name", "how"),
        "asks": ("block", "key", "name", "how"),
        "alias": ("block", "key", "name"),
        "unknown_alias": ("block", "name"),
        "row_of": ("block", "name", "source"),
        "embeds": ("block", "key", "inner", "how"),
        "embeds_rows": ("block", "key", "inner", "how"),
        "failed": ("file", "statement", "reason"),
        "skipped": ("file", "role"),
        "may_name": ("file", "name"),
        "may_name_any": ("file",),
        "calls_macro": ("file", "macro"),
        "defines_macro": ("macro",),
    }
)
"""Input relations of `program.dl` and their columns, all of type symbol."""


class Facts:
    """A growing set of facts."""

    def __init__(self) -> None:
        self.rows: set[Fact] = set()

    def add(self, relation: str, *row: str) -> None:
        """State one fact of `INPUTS`."""
        self.rows.add((relation, row))
