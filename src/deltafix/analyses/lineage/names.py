"""Names as a dialect folds them, and tables as a file mentions and defines them.

Invariant: two spellings that the dialect takes for one name give one text; a table's name is its
parts joined by dots, outermost first. A `SET search_path` or `USE` earlier in the file is what
unqualified names are looked for in first, and where unqualified definitions go.
Which definition a mention means is not decided here.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from deltafix.analyses.lineage.facts import Facts


class Names:
    """The names of one file. `schema` is the default schema at the present statement."""

    def __init__(self, dialect: Dialect, facts: Facts) -> None:
        self.dialect, self.facts = dialect, facts
        self.schema = ""

    def fold(self, identifier: exp.Expr | str | None) -> str:
        """The one text of an identifier, however it is spelled; "" for none."""
        if isinstance(identifier, str):
            identifier = exp.to_identifier(identifier)
        if not isinstance(identifier, exp.Identifier):
            return identifier.name if identifier is not None else ""
        folded = self.dialect.normalize_identifier(identifier.copy())
        return str(folded.this)

    def parts(self, node: exp.Table | exp.Column) -> tuple[str, ...]:
        """The folded parts of a table or column, outermost first."""
        return tuple(self.fold(part) for part in node.parts if part.name)

    def define(self, node: exp.Table, kind: str) -> str:
        """The name of a table that a statement creates, stated as a `table`."""
        parts = self.parts(node)
        if len(parts) == 1 and self.schema:
            parts = (*self.schema.split("."), *parts)
        table = ".".join(parts)
        self.facts.add("table", table, kind)
        for tail in tails(table):
            self.facts.add("table_tail", table, tail)
        return table

    def mention(self, node: exp.Table) -> str:
        """State that a table is mentioned; the mention's id."""
        parts = self.parts(node)
        name = ".".join(parts)
        near = self.schema if len(parts) == 1 else ""
        mention = f"{near}>{name}" if near else name
        self.facts.add("mention", mention, name)
        if near:
            self.facts.add("prefers", mention, f"{near}.{name}")
        for tail in tails(name):
            self.facts.add("mention_tail", mention, tail)
        return mention


def tails(name: str) -> list[str]:
    """What is left of a dotted name without its first part, its first two, and so on."""
    parts = name.split(".")
    return [".".join(parts[i:]) for i in range(1, len(parts))]
