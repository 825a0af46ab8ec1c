"""The examples in a docstring, as syntax trees: what `doctest` would run.

Invariant: text that is no Python, or that doctest itself would refuse, yields nothing; an example
is parsed and never run. What its names mean is left to the extractor.
"""

from __future__ import annotations

import ast
import doctest
import re
from collections.abc import Iterator

_PARSER = doctest.DocTestParser()
_PROMPT = re.compile(r"^\s*(?:>>>|In ?\[\d+\]:) ", re.MULTILINE)  # of Python, of IPython


def shows_examples(text: str | None) -> bool:
    """Whether a docstring has examples at a prompt."""
    return bool(text and _PROMPT.search(text))


def examples(text: str) -> Iterator[ast.Module]:
    """The `>>>` examples of a docstring, in order. O(length of the text)."""
    if ">>>" not in text:
        return
    try:
        parsed = _PARSER.get_examples(text)
    except ValueError:  # indented in a way that doctest does not take
        return
    for example in parsed:
        try:
            yield ast.parse(example.source)
        except (SyntaxError, ValueError):
            continue
