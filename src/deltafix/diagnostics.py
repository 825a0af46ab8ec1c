"""Where something stands in a text, and how an error about it is shown.

Beside it: the words of messages, near names and plural forms.

Invariant: a `Diagnostic` is data (code, message, span, help); `render` is the only place that
draws carets, so the command line, exceptions and editors show the same thing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_DRAWN = 20

_LONGEST_LINE = 160
"""Characters of a source line that are drawn; generated programs have lines of a megabyte."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Half-open range of a source text; lines and columns count from 1, offsets from 0."""

    start: int
    end: int
    line: int
    column: int
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: stable code, message with the values, its place, and what would be valid."""

    code: str
    message: str
    span: Span | None = None
    help: str | None = None
    severity: str = "error"


def suggest(name: str, known: Sequence[str], least: float = 0.6) -> str | None:
    """The known name closest to `name`, or None if none is close (`least`, difflib's ratio).

    Raises TypeError where callers gave something else for a name: a relation of `Program()`, say.
    """
    if not isinstance(name, str):
        meant = getattr(name, "name", None)
        shown = f": write {meant!r}" if isinstance(meant, str) else ""
        raise TypeError(f"a name is given as text, not as {type(name).__name__}{shown}")
    import difflib  # noqa: PLC0415  only on the error path

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=least)
    return close[0] if close else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "", mark: str = "`") -> str:
    """The question whether a close name was meant, between `mark`s; or what is said otherwise."""
    close = suggest(name, list(known))
    return f"did you mean {mark}{close}{mark}?" if close else otherwise


def plural(number: int, noun: str, many: str | None = None) -> str:
    """`1 file`, `2 files`, `1,000 entries`."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def separator_in(header: Sequence[str], delimiter: str) -> str | None:
    """What stands between the names of a header that was read as one name; None if nothing does."""
    if len(header) != 1:
        return None
    return next(
        (character for character in ";\t|," if character in header[0] and character != delimiter),
        None,
    )


def render(diagnostic: Diagnostic, source: str | None = None) -> str:
    """Draw a diagnostic as text: `path:line:column: error[CODE]: message`, line, caret, help."""
    return _draw(diagnostic, None if source is None else source.split("\n"))


def _draw(diagnostic: Diagnostic, text: Sequence[str] | None) -> str:
    span = diagnostic.span
    head = f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"
    if span is None:
        lines = [head]
    else:
        lines = [f"{span.path or '<text>'}:{span.line}:{span.column}: {head}"]
        if text is not None and 1 <= span.line <= len(text):
            whole = text[span.line - 1].expandtabs(1).rstrip("\r")
            line, column = _window(whole, span.column)
            width = max(1, min(span.end - span.start, len(line) - column + 1))
            number = str(span.line)
            lines.append(f"{number} | {line}")
            lines.append(f"{' ' * len(number)} | {' ' * (column - 1)}{'^' * width}")
    if diagnostic.help:
        lines.append(f"  help: {diagnostic.help}")
    return "\n".join(lines)


def _window(line: str, column: int) -> tuple[str, int]:
    """The part of an overlong line around a column, and where the column is in it."""
    if len(line) <= _LONGEST_LINE:
        return line, column
    start = max(0, min(column - _LONGEST_LINE // 2, len(line) - _LONGEST_LINE))
    shown = line[start : start + _LONGEST_LINE]
    if start > 0:
        shown = f"…{shown[1:]}"
    if start + _LONGEST_LINE < len(line):
        shown = f"{shown[:-1]}…"
    return shown, column - start


def render_all(diagnostics: Iterable[Diagnostic], sources: Mapping[str | None, str]) -> str:
    """Several diagnostics as text, a blank line between; `sources` are the texts by path.

    The first twenty, and how many more there are: a file that is no program has thousands.
    """
    split = {path: text.split("\n") for path, text in sources.items()}
    given = list(diagnostics)
    drawn = [
        _draw(diagnostic, split.get(diagnostic.span.path) if diagnostic.span else None)
        for diagnostic in given[:_DRAWN]
    ]
    more = len(given) - _DRAWN
    return "\n\n".join([*drawn, *([f"and {more:,} more"] if more > 0 else [])])
