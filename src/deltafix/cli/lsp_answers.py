"""What the language server says of dead code, as the protocol has it: marks, hovers, quick fixes.

Invariant: whatever is asked of a text is answered for the text as the editor has it; marks are of
the files on the disk, as the analysis is. What this client cannot do (files deleted by an edit,
edits fetched later) is not asked of it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from deltafix.analyses.dead_code.editor import EditorView, Fix
from deltafix.analyses.dead_code.edits import EditError
from deltafix.analyses.dead_code.findings import UNUSED_KINDS
from deltafix.analyses.dead_code.places import name_end
from deltafix.analyses.dead_code.source import line_starts
from deltafix.cli.lsp_documents import Documents, offset_of, range_of
from deltafix.cli.lsp_wire import BadParamsError, Message, has, path_of

if TYPE_CHECKING:
    from deltafix.analyses.dead_code.editor import Edits, Location
    from deltafix.analyses.dead_code.findings import Finding
    from deltafix.analyses.dead_code.job import DeadCode
    from deltafix.analyses.files import Tree

_DATA: Final = 4  # of an action: path, symbol, kind, what to do
_WARNING, _HINT, _UNNECESSARY = 2, 4, 1
_WHOLE_LINE: Final = 10_000  # clients cut a column beyond the line's end to the end


class Client:
    """What the editor said it can do, of what makes a difference."""

    def __init__(self, capabilities: object) -> None:
        watched = ("workspace", "didChangeWatchedFiles")
        edits = ("workspace", "workspaceEdit")
        actions = ("textDocument", "codeAction")
        self.watches = has(capabilities, *watched, "dynamicRegistration") is True
        self.watches_elsewhere = has(capabilities, *watched, "relativePatternSupport") is True
        self.versioned = has(capabilities, *edits, "documentChanges") is True
        deletes = has(capabilities, *edits, "resourceOperations")
        self.deletes = self.versioned and isinstance(deletes, list) and "delete" in deletes
        self.acts = has(capabilities, *actions, "codeActionLiteralSupport") is not None
        later = has(capabilities, *actions, "resolveSupport", "properties")
        self.resolves = isinstance(later, list) and "edit" in later


class Answers:
    """A view of dead code, and the documents of the editor that looks at it."""

    def __init__(self, tree: Tree, job: DeadCode, documents: Documents, client: Client) -> None:
        self._root = tree.root
        self._documents = documents
        self._client = client
        self.view = EditorView(tree, job, lambda path: documents.text(self._file(path)))

    def _file(self, path: str) -> Path:
        return Path(os.path.normpath(self._root / path))

    def path(self, file: Path) -> str:
        """The path of a file in the tree, with `..` for one above it."""
        return os.path.relpath(file, self._root).replace(os.sep, "/")

    # -- marks ---------------------------------------------------------------------------------

    def marks(self, path: str, findings: list[Finding]) -> Message:
        """The parameters of `publishDiagnostics`."""
        try:
            text = self.view.on_disk(path) if findings else ""
        except (OSError, ValueError):
            text = ""
        starts = line_starts(text)
        uri = self._documents.uri(self._file(path))
        return {
            "uri": uri,
            "diagnostics": [_diagnostic(finding, text, starts) for finding in findings],
        }

    # -- questions -----------------------------------------------------------------------------

    def hover(self, params: Message) -> Message | None:
        """`textDocument/hover`."""
        asked = self._asked(params)
        hovered = self.view.hover(asked[0], asked[2]) if asked is not None else None
        if asked is None or hovered is None:
            return None
        span, text = hovered
        where = range_of(asked[1], line_starts(asked[1]), span)
        return {"contents": {"kind": "plaintext", "value": text}, "range": where}

    def definition(self, params: Message) -> list[Message]:
        """`textDocument/definition`."""
        asked = self._asked(params)
        return self._locations(self.view.definitions(asked[0], asked[2])) if asked else []

    def references(self, params: Message) -> list[Message]:
        """`textDocument/references`."""
        asked = self._asked(params)
        if asked is None:
            return []
        declared = has(params, "context", "includeDeclaration") is True
        return self._locations(self.view.references(asked[0], asked[2], declared=declared))

    def _asked(self, params: Message) -> tuple[str, str, int] | None:
        """The path that a question is about, its text, and the offset in it."""
        path = self.path(path_of(has(params, "textDocument", "uri")))
        try:
            text = self.view.text(path)
        except (OSError, ValueError):
            return None
        return path, text, offset_of(text, line_starts(text), has(params, "position"))

    def _locations(self, locations: list[Location]) -> list[Message]:
        messages = []
        for path, span in locations:
            try:
                text = self.view.text(path)
            except (OSError, ValueError):
                continue
            where = range_of(text, line_starts(text), span)
            messages.append({"uri": self._documents.uri(self._file(path)), "range": where})
        return messages

    # -- fixes ---------------------------------------------------------------------------------

    def actions(self, params: Message) -> list[Message]:
        """`textDocument/codeAction`: quick fixes of the marks in a range."""
        path = self.path(path_of(has(params, "textDocument", "uri")))
        only = has(params, "context", "only")
        wanted = not isinstance(only, list) or bool({"", "quickfix"} & {*map(str, only)})
        if not self._client.acts or not wanted:
            return []
        first, last = (has(params, "range", side, "line") for side in ("start", "end"))
        if not isinstance(first, int) or not isinstance(last, int):
            raise BadParamsError("range has a start and an end, with a line each")
        fixes = self.view.fixes(path, range(first + 1, last + 2))
        given = has(params, "context", "diagnostics")
        marks = given if isinstance(given, list) else []
        answers = []
        for fix in fixes:
            if _deletes_file(fix) and not self._client.deletes:
                continue
            action: Message = {
                "title": fix.title,
                "kind": "quickfix",
                "diagnostics": [mark for mark in marks if _is_of(mark, fix.finding)],
                "isPreferred": fix.action == "delete" and fix.finding.confidence == "sure",
            }
            if self._client.resolves:
                about = fix.finding
                action["data"] = [about.path, about.symbol, about.kind, fix.action]
            else:
                try:
                    action["edit"] = self._edit(self.view.edits(fix))
                except EditError as error:
                    action["disabled"] = {"reason": str(error)}
            answers.append(action)
        return answers

    def resolved(self, action: Message) -> Message:
        """`codeAction/resolve`: the edit of an action that was given out. Raises EditError."""
        data = action.get("data")
        if not isinstance(data, list) or len(data) != _DATA:
            raise BadParamsError("the action has no data of this server")
        fix = self.view.fix(*map(str, data))
        if fix is None:
            raise EditError(f"{data[1]} is no longer found in {data[0]}")
        return {**action, "edit": self._edit(self.view.edits(fix))}

    def _edit(self, edits: Edits) -> Message:
        changes: dict[str, list[Message]] = {}
        documents: list[Message] = []
        for path, of_text in edits.texts.items():
            text = self.view.text(path)
            starts = line_starts(text)
            file = self._file(path)
            uri = self._documents.uri(file)
            text_edits = [
                {"range": range_of(text, starts, (edit.start, edit.end)), "newText": edit.text}
                for edit in of_text
            ]
            changes[uri] = text_edits
            version = self._documents.version(file)
            documents.append(
                {"textDocument": {"uri": uri, "version": version}, "edits": text_edits}
            )
        for path in edits.deleted:
            documents.append({"kind": "delete", "uri": self._documents.uri(self._file(path))})
        return {"documentChanges": documents} if self._client.versioned else {"changes": changes}


def _deletes_file(fix: Fix) -> bool:
    return fix.action == "delete" and fix.finding.kind == "module"


def _is_of(mark: object, finding: Finding) -> bool:
    """Whether a diagnostic that the client holds is that of a finding."""
    return str(has(mark, "message")).startswith(f"{finding.title}:")


def _diagnostic(finding: Finding, text: str, starts: list[int]) -> dict[str, Any]:
    unused = finding.kind in UNUSED_KINDS
    why = "nothing reads it" if unused else "nothing alive reaches it"
    return {
        "range": _range(finding, text, starts),
        "severity": _WARNING if finding.confidence == "sure" else _HINT,
        "code": f"{'unused' if unused else 'dead'}-{finding.kind}",
        "source": "deltafix",
        "message": "; ".join([f"{finding.title}: {why}", *finding.doubts()]),
        "tags": [_UNNECESSARY],
    }


def _range(finding: Finding, text: str, starts: list[int]) -> Message:
    """Of a module the first line, else the name."""
    line = finding.line - 1
    if finding.kind != "module" and line < len(starts):
        start = starts[line] + finding.column - 1
        until = starts[line + 1] if line + 1 < len(starts) else len(text)
        end = starts[line] + name_end(text[starts[line] : until], finding.column, finding.kind) - 1
        if start < end:
            return range_of(text, starts, (start, end))
    whole = {"line": line, "character": _WHOLE_LINE}  # it cannot be read any more, or is all of it
    return {"start": {"line": line, "character": 0}, "end": whole}
