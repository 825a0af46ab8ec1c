"""What explanations of one row have in common: its text, and how they are shown.

Invariant: the text is a function of the explanation, and everywhere it is shown (print, prompt,
notebook) it is the same one. What an explanation says is its own: `cause`, `why_not`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from html import escape
from typing import Any

from deltafix.facts.schema import Row, show_row
from deltafix.provenance.state import Edit


class Explanation(ABC):
    """An explanation of `row` of `relation`, which its dataclass holds as fields."""

    __slots__ = ()

    relation: str
    row: Row

    @property
    def fact(self) -> str:
        """The row as program text."""
        return show_row(self.relation, self.row)

    def show(self, form: str = "text") -> str:
        """As text, or as JSON."""
        if form == "json":
            return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)
        return "\n".join(self.lines())

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """For JSON."""

    @abstractmethod
    def lines(self) -> list[str]:
        """The lines of its text."""

    def __str__(self) -> str:
        return self.show()

    def __repr__(self) -> str:
        return self.show()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.show())}</pre>"


def show_edit(edit: Edit) -> str:
    """An edit as signed program text: `+edge("a", "b")`."""
    sign, relation, row = edit
    return f"{'+' if sign > 0 else '-'}{show_row(relation, row)}"
