"""The Jinja of dbt models, as far as it does not compute: turned into plain SQL.

`{{ ref('x') }}` is the table x, `{{ source('a', 'b') }}` the table a.b, `{{ this }}` the model
itself; comments and `{{ config(..) }}` say nothing about columns; the body of
`{% if is_incremental() %}` counts as written. Anything else decides at run time which SQL there is,
and is refused. Invariant: the text keeps its lines, so that places stay true.
"""

from __future__ import annotations

import re

_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_TEXT = r"""(?:'([^'"]*)'|"([^'"]*)")"""
_VERSION = r"(?:\s*,\s*(?:v|version)\s*=\s*\S+?)?"
_REF = re.compile(rf"ref\(\s*(?:{_TEXT}\s*,\s*)?{_TEXT}{_VERSION}\s*\)")
_SOURCE = re.compile(rf"source\(\s*{_TEXT}\s*,\s*{_TEXT}\s*\)")
_INCREMENTAL = re.compile(r"if\s+is_incremental\(\s*\)")


class TemplateError(ValueError):
    """Jinja that this does not read; the message names it."""


def is_template(text: str) -> bool:
    """Whether the text has any Jinja in it."""
    return "{{" in text or "{%" in text or "{#" in text


def render(text: str, this: str) -> str:
    """The SQL of a template whose own table is `this`. Raises TemplateError."""
    pieces: list[str] = []
    end = 0
    for tag in _TAG.finditer(text):
        pieces += [text[end : tag.start()], _plain(tag[0], this), "\n" * tag[0].count("\n")]
        end = tag.end()
    rest = text[end:]
    if is_template(rest):
        raise TemplateError("a Jinja tag that does not end")
    return "".join([*pieces, rest])


def _plain(tag: str, this: str) -> str:
    body = tag[2:-2].strip("-+ \t\r\n")
    if tag.startswith("{#") or body in ("endif", ""):
        return ""
    if tag.startswith("{%"):
        if _INCREMENTAL.fullmatch(body):
            return ""
    elif body == "this":
        return this
    elif body.startswith("config(") and body.endswith(")"):
        return ""
    elif found := _REF.fullmatch(body):
        return found[3] or found[4]
    elif found := _SOURCE.fullmatch(body):
        return f"{found[1] or found[2]}.{found[3] or found[4]}"
    raise TemplateError(f"Jinja other than ref, source, this and config: {tag[:60]}")
