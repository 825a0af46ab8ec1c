"""From one file's bytes to its fragment: the function that Spark maps and this process calls.

    bytes -> ast -> `definitions` + `references` -> Fragment

Invariant: `extract` is a pure function of (path, bytes, prefix); it parses and never imports or
runs what it reads. A file that cannot be read yields a fragment with `error` set instead of an
exception: one broken file must not stop the other thousand. Its facts are its words, a text's.
What a name means in *other* files is left to `program.dl`.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Container
from dataclasses import replace

from deltafix.analyses.dead_code.collected import collected_facts
from deltafix.analyses.dead_code.definitions import Definitions
from deltafix.analyses.dead_code.entry_points import is_project_file, project_fragment
from deltafix.analyses.dead_code.modules import module_of
from deltafix.analyses.dead_code.texts import TEXTS, text_fragment
from deltafix.analyses.dead_code.words import said
from deltafix.analyses.facts import Fragment
from deltafix.errors import SourceError

_IN_LITERAL = re.compile(r" in position [\d-]+")
"""Where a text of the line has a byte or an escape that is none: nobody counts from its quote."""

TYPED = "py.typed"
"""The file beside a package's `__init__.py` that says its types are for importers (PEP 561)."""


def extract(
    path: str, data: bytes, prefix: str = "", *, reader: type[Definitions] | None = None
) -> Fragment:
    """The facts of one file. `path` is relative to the analysed folder, which is package `prefix`.

    `reader` is what reads the syntax tree: `Definitions`, or what another analysis makes of it.

    Never raises for bad content: syntax errors, undecodable bytes, null bytes and nesting beyond
    Python's own limit come back as `Fragment.error`. O(size of the file).
    """
    try:
        if is_project_file(path):
            words = said(path, data.decode("utf-8", "replace"))
            tests = collected_facts(path, data)
            return Fragment.of(path, [*project_fragment(path, data).facts, *tests, *words], ())
        if path.endswith(TYPED):
            package = module_of(path.removesuffix(TYPED) + "__init__.py", prefix)
            return Fragment.of(path, [("typed", (package.canonical,))], ())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the analysed code's SyntaxWarnings are not ours
            if path.endswith(TEXTS) or not (path.endswith(".py") or _is_script(data)):
                named = text_fragment(path, data)
                return Fragment.of(path, [*named.facts, *collected_facts(path, data)], ())
            tree = ast.parse(data, filename=path)
            return (reader or Definitions)(path, data, module_of(path, prefix)).run(tree)
    except SyntaxError as error:
        wrong = _IN_LITERAL.sub("", error.msg)
        reason = f"{f'line {error.lineno}: ' if error.lineno else ''}{wrong}"
    except RecursionError:
        reason = "nested too deeply for Python's own parser limits"
    except (ValueError, MemoryError, SourceError) as error:
        reason = str(error) or type(error).__name__
    words = said(path, data.decode("utf-8", "replace"))
    return replace(Fragment.of(path, words, ()), error=reason)


def extract_only(
    path: str, data: bytes, prefix: str, reader: type[Definitions], stated: Container[str]
) -> Fragment:
    """As `extract` by this reader, of which these relations alone are stated."""
    fragment = extract(path, data, prefix, reader=reader)
    return replace(fragment, facts=tuple(fact for fact in fragment.facts if fact[0] in stated))


def _is_script(data: bytes) -> bool:
    """Whether the first line says that Python runs the file."""
    return data.startswith(b"#!") and b"python" in data.partition(b"\n")[0]
