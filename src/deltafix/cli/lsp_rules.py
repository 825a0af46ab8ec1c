"""What the language server says of a program of rules: its errors, and what a save does to views.

Each view that a save changed is marked at its declaration with the rows that it gained and lost. Of
the name of a relation under the cursor it says how it is declared, with the comment there, where
that is, and where facts, rules and directives use it.
Invariant: all is of the files as they are on disk, and marks of the last save that changed any; a
program with errors changes nothing until it has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from deltafix.analyses.dead_code.source import line_starts
from deltafix.cli.lsp_documents import offset_of, range_of
from deltafix.cli.lsp_wire import Message, has, path_of
from deltafix.datalog.format import format_program
from deltafix.datalog.load import Analysis
from deltafix.errors import DeltafixError, ProgramError
from deltafix.facts.schema import show_row
from deltafix.rules.show import show_relation
from deltafix.rules.walk import uses

if TYPE_CHECKING:
    from deltafix.cli.lsp_documents import Documents
    from deltafix.diagnostics import Diagnostic, Span
    from deltafix.engine.follow import FactFolder, ProgramFile
    from deltafix.facts.delta import Delta

_SHOWN: Final = 20
"""Rows that a mark lists, of each view."""

_NAME: Final = re.compile(r"[\w?]+(?:\.[\w?]+)*")

_SEVERITIES: Final = {"error": 1, "warning": 2}
_INFORMATION: Final = 3
Marks = dict[Path, list[dict[str, Any]]]
"""LSP diagnostics by file; a file without any has an empty list."""


class RulesView:
    """A program of rules with its facts, brought up to date on every save.

    Args:
        program: the program's file.
        folder: its facts, followed with that file.
        messages: those that `folder` tells, which are taken out of it.
    """

    def __init__(self, program: ProgramFile, folder: FactFolder, messages: list[str]) -> None:
        self._program = program
        self._folder = folder
        self._messages = messages
        self._marked: set[Path] = set()

    def reads(self, path: Path) -> bool:
        """Whether a file is one of the program's or of its facts."""
        return path in {file.resolve() for file in self._folder.paths}

    def load(self) -> Marks:
        """Load the facts; what is to be marked at the beginning."""
        self._folder.load()
        return self._marks(None)

    def saved(self) -> tuple[Marks, list[str]]:
        """Follow the files as they are; the marks now, and what no mark says."""
        delta = self._folder.poll(at_rest=True)
        messages, self._messages[:] = list(self._messages), []
        marks = self._marks(delta)
        if any(
            diagnostic["severity"] == _SEVERITIES["error"]
            for diagnostics in marks.values()
            for diagnostic in diagnostics
        ):
            marked = {str(problem) for problem in self._folder.problems if problem.is_of_rules}
            messages = [message for message in messages if message not in marked]
        return marks, messages

    def read(self) -> Analysis | None:
        """The program as it is; None if it is gone, which was told."""
        try:
            return self._program.read()
        except DeltafixError:
            return None

    def _marks(self, delta: Delta | None) -> Marks:
        analysis = self.read()
        if analysis is None:
            return {}
        files = [path.resolve() for path in analysis.files]
        marks: Marks = {path: [] for path in (*self._marked, *files)}
        for item in analysis.diagnostics:
            severity = _SEVERITIES.get(item.severity, 2)
            _put(marks, analysis, item.span, _mark(severity, item.code, _words(item)))
        declared = {relation.name: relation.span for relation in analysis.program.relations}
        for name, part in (delta or {}).items():
            rows = [
                f"{'+' if sign > 0 else '-'}{show_row(name, row)}" for sign, row in part.signed()
            ]
            counts = f"{name}: {len(part.added)} came, {len(part.removed)} went"
            more = [f"and {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []
            text = "\n".join([counts, *rows[:_SHOWN], *more])
            _put(marks, analysis, declared.get(name), _mark(_INFORMATION, "rows", text))
        self._marked = {path for path, diagnostics in marks.items() if diagnostics}
        return marks


class RulesAnswers:
    """Answers to questions about the names of relations, in the protocol's shapes."""

    def __init__(self, view: RulesView, documents: Documents) -> None:
        self._analysis = view.read()
        self._documents = documents

    def hover(self, params: Message) -> Message | None:
        """`textDocument/hover`: the declaration of a relation, and the comment that is with it."""
        asked = self._asked(params)
        if asked is None or self._analysis is None:
            return None
        name, span = asked
        declared = [
            relation for relation in self._analysis.program.relations if relation.name == name
        ]
        if not declared:
            return None
        lines = [f"{show_relation(declared[0])}", *_comments(self._analysis, declared[0].span)]
        where = _range(self._analysis, span)
        return {"contents": {"kind": "plaintext", "value": "\n".join(lines)}, "range": where}

    def definition(self, params: Message) -> list[Message]:
        """`textDocument/definition`: the declaration."""
        return self._locations(self._asked(params), defined=True, used=False)

    def references(self, params: Message) -> list[Message]:
        """`textDocument/references`: atoms and directives."""
        declared = has(params, "context", "includeDeclaration") is True
        return self._locations(self._asked(params), defined=declared, used=True)

    def formatted(self, params: Message) -> list[Message]:
        """`textDocument/formatting`: the text in one layout, as `deltafix fmt` has it.

        None of a file of facts, or of a text with errors, which are marked.
        """
        file = path_of(has(params, "textDocument", "uri"))
        sources = {} if self._analysis is None else self._analysis.sources
        known = {Path(name).resolve(): text for name, text in sources.items() if name is not None}
        if file not in known:
            return []
        edited = self._documents.text(file)
        text = known[file] if edited is None else edited
        try:
            new = format_program(text, str(file))
        except ProgramError:
            return []
        whole = range_of(text, line_starts(text), (0, len(text)))
        return [] if new == text else [{"range": whole, "newText": new}]

    def _locations(
        self, asked: tuple[str, Span] | None, *, defined: bool, used: bool
    ) -> list[Message]:
        if asked is None or self._analysis is None:
            return []
        spans = [
            span
            for name, span, is_declaration in _names(self._analysis)
            if name == asked[0] and (defined if is_declaration else used)
        ]
        return [
            {
                "uri": self._documents.uri(Path(span.path).resolve()),
                "range": _range(self._analysis, span),
            }
            for span in spans
            if span.path is not None
        ]

    def _asked(self, params: Message) -> tuple[str, Span] | None:
        """The relation whose name is under the cursor, and where."""
        file = path_of(has(params, "textDocument", "uri"))
        for name, span, _ in _names(self._analysis) if self._analysis is not None else ():
            if span.path is None or Path(span.path).resolve() != file or self._analysis is None:
                continue
            text = self._analysis.sources[span.path]
            starts = line_starts(text)
            at = offset_of(text, starts, has(params, "position"))
            start, end = _name(text, starts, span)
            if start <= at <= end:
                return name, span
        return None


def _names(analysis: Analysis) -> Iterator[tuple[str, Span, bool]]:
    """Every relation's name in a program, where it stands, and whether that declares it."""
    program = analysis.program
    for declared in program.relations:
        if declared.span is not None:
            yield declared.name, declared.span, True
    for directive in program.directives:
        if directive.span is not None:
            yield directive.relation, directive.span, False
    for rule in program.rules:
        for atom in (*rule.heads, *(used for used, _ in uses(rule.body))):
            if atom.span is not None:
                yield atom.relation, atom.span, False


def _comments(analysis: Analysis, span: Span | None) -> Iterator[str]:
    """The comments right above a declaration, and the one behind it."""
    if span is None:
        return
    lines = analysis.sources.get(span.path, "").splitlines()
    top = span.line - 1
    while top > 0 and lines[top - 1].lstrip().startswith("//"):
        top -= 1
    yield from (line.strip() for line in lines[top : span.line - 1])
    _, mark, behind = lines[span.line - 1].partition("//")
    if mark:
        yield f"//{behind}"


def _mark(severity: int, code: str, message: str) -> Message:
    return {"severity": severity, "code": code, "source": "deltafix", "message": message}


def _put(marks: Marks, analysis: Analysis, span: Span | None, mark: Message) -> None:
    if span is not None and span.path is not None:
        here = marks.setdefault(Path(span.path).resolve(), [])
        here.append({"range": _range(analysis, span), **mark})


def _range(analysis: Analysis, span: Span) -> Message:
    """The name at the start of a span, or all of it, as the protocol has it."""
    text = analysis.sources.get(span.path, "")
    starts = line_starts(text)
    return range_of(text, starts, _name(text, starts, span))


def _name(text: str, starts: list[int], span: Span) -> tuple[int, int]:
    """Where the name stands at the start of a span; the whole span if it starts with none."""
    start = starts[min(span.line, len(starts)) - 1] + span.column - 1
    word = _NAME.match(text, start)
    return start, word.end() if word is not None else start + span.end - span.start


def _words(item: Diagnostic) -> str:
    return item.message if item.help is None else f"{item.message}\nhelp: {item.help}"
