"""Rows as an HTML table: of notebooks, and of the pages that commands write.

Invariant: whatever stands in a caption, a heading or a cell is text; none of it is markup.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

__all__ = ["html_table"]


def html_table(caption: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table with a caption and one line of headings. O(cells)."""
    headings = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{headings}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )
