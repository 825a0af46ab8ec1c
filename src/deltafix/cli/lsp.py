"""`deltafix lsp`: a language server that marks dead code, brought up to date on every save.

With `--program` it marks that program of rules, too: its errors, and what a save does to its views
(`lsp_rules`).

Invariant: standard output carries messages only. Diagnostics come from the files as they are on
disk; unsaved text is not looked at. A message that cannot be understood gets an error response (or,
being a notification, none) and the server goes on.
Python's cyclic collector runs between messages and leaves the loaded tree out: in the middle of a
save, a collection over the facts of 1,000 files took longer than the rest of the save.

Messages are a header (`Content-Length: 42`), then JSON: a body that is no JSON object is an error
that leaves the stream at the next message, a header that is none ends the conversation. Source:
Language Server Protocol 3.17, base protocol.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, TypeAlias
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import typer

from deltafix.cli.brought import FunctorsFile, Include, Macros, Reading, WordSize, reading
from deltafix.cli.console import prepare_kernel
from deltafix.cli.loaded import followed, loaded
from deltafix.cli.tree_options import Exclude, HowSure, Profile, Roots, Tests
from deltafix.collector import held_back
from deltafix.errors import DeltafixError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from deltafix.analyses.dead_code.editor import EditorView, Findings
    from deltafix.analyses.dead_code.findings import Finding
    from deltafix.analyses.dead_code.job import DeadCode
    from deltafix.cli.lsp_rules import Marks, RulesView


_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600
_NO_METHOD: Final = -32601
_BAD_PARAMS: Final = -32602
_NOT_INITIALIZED: Final = -32002
_FAILED: Final = -32803
_WARNING, _HINT, _UNNECESSARY, _LOG, _ERROR = 2, 4, 1, 4, 1
_WHOLE_LINE: Final = 10_000  # clients cut a column beyond the line's end to the end
_WATCHED = [
    {"globPattern": pattern}
    for pattern in ("**/*.py", "**/{pyproject.toml,setup.cfg}", "**/*.{dl,facts}")
]


def lsp(
    *,
    roots: Roots = None,
    tests: Tests = True,
    profile: Profile = None,
    exclude: Exclude = None,
    confidence: HowSure = "sure",
    program: Annotated[
        Path | None, typer.Option(help="A program of rules (.dl) to mark, too.", metavar="FILE.dl")
    ] = None,
    facts: Annotated[
        Path, typer.Option("-F", "--fact-dir", help="Folder of the program's .facts files.")
    ] = Path(),
    functors: FunctorsFile = None,
    word_size: WordSize = None,
    include: Include = None,
    macros: Macros = None,
) -> None:
    """Serve dead-code diagnostics to an editor, over standard input and output.

    The editor starts it and names the folder. With --program it shows what each save of the rules,
    or of the facts, adds to and takes from the rows of every relation. Exit code 0 after `shutdown`
    and `exit`, else 1.
    """
    from deltafix.analyses.dead_code.job import DeadCode  # noqa: PLC0415  quick --help

    prepare_kernel()
    make = partial(
        DeadCode,
        roots=roots or (),
        tests=tests,
        profiles=profile or (),
        confidence=confidence,
    )
    make().close()  # a wrong option ends here, before the conversation
    wire = Wire(sys.stdin.buffer, sys.stdout.buffer)
    options = reading(word_size, include, macros)
    opened = nullcontext() if program is None else _rules(program, facts, functors, options)
    with opened as rules, Server(wire, make, tuple(exclude or ()), rules) as server:
        raise typer.Exit(server.run())


@contextmanager
def _rules(
    program: Path, facts: Path, functors: Path | None, options: Reading
) -> Iterator[RulesView]:
    """The view of a program, which has no errors at the start."""
    from deltafix.cli.lsp_rules import RulesView  # noqa: PLC0415  quick --help
    from deltafix.engine.follow import FactFolder  # noqa: PLC0415  likewise

    told: list[str] = []
    with loaded(program, None, functors, options, strict=False, quiet=True) as db:
        file = followed(program, functors, options)
        folder = FactFolder(db, facts, told.append, lambda _: None, file)
        yield RulesView(file, folder, told)


class _BadParamsError(ValueError):
    """The parameters of a message are not those of its method."""


class Server:
    """One conversation: `run` reads messages until `exit` or the end of the input."""

    def __init__(
        self,
        wire: Wire,
        make: Callable[[], DeadCode],
        exclude: tuple[str, ...] = (),
        rules: RulesView | None = None,
    ) -> None:
        self._wire = wire
        self._make = make
        self._exclude = exclude
        self._rules = rules
        self._view: EditorView | None = None
        self._watches = False
        self._shut = False
        self._methods: dict[str, Callable[[dict[str, Any]], object]] = {
            "initialize": self._initialize,
            "initialized": self._initialized,
            "shutdown": self._shutdown,
            "textDocument/didSave": self._saved,
            "workspace/didChangeWatchedFiles": self._changed,
        }

    def run(self) -> int:
        """Serve; returns the exit code. Raises ProtocolError when the stream makes no sense."""
        while True:
            try:
                message = self._wire.read()
            except BadMessageError as error:
                self._answer(None, _PARSE_ERROR, str(error))
                continue
            if message is None or message.get("method") == "exit":
                return 0 if self._shut else 1
            with held_back():
                self._serve(message)
            gc.collect()  # now that the marks are out, and not during the next save

    def _serve(self, message: Message) -> None:
        identity, method = message.get("id"), message.get("method")
        if method is None and ("result" in message or "error" in message):
            return  # an answer to our registration
        handler = self._methods.get(method) if isinstance(method, str) else None
        params = message.get("params") or {}
        asks = "id" in message
        if not isinstance(method, str) or not isinstance(params, dict):
            self._answer(identity, _INVALID_REQUEST, "a method's name and named params are needed")
        elif handler is None:
            if asks:
                self._answer(identity, _NO_METHOD, f"there is no method {method!r} here")
        elif self._view is None and method != "initialize":
            if asks:
                self._answer(identity, _NOT_INITIALIZED, f"{method} came before initialize")
        else:
            try:
                result = handler(params)
            except _BadParamsError as error:
                self._failed(identity, _BAD_PARAMS, f"{method}: {error}", asks=asks)
            except DeltafixError as error:
                self._failed(identity, _FAILED, f"error[{error.code}]: {error}", asks=asks)
            else:
                if asks:
                    self._wire.write({"id": identity, "result": result})

    # -- methods -------------------------------------------------------------------------------

    def _initialize(self, params: dict[str, Any]) -> Message:
        from deltafix.analyses.dead_code import DEAD_CODE  # noqa: PLC0415  quick --help
        from deltafix.analyses.dead_code.editor import EditorView  # noqa: PLC0415

        if self._view is not None:
            raise _BadParamsError("this conversation has begun already")
        folders = params.get("workspaceFolders") or [{"uri": params.get("rootUri")}]
        if not isinstance(folders, list) or not isinstance(folders[0], dict):
            raise _BadParamsError("workspaceFolders is a list of folders with a uri")
        root = _path_of(folders[0].get("uri"))
        self._view = EditorView(DEAD_CODE.tree(root, self._exclude), self._make())
        asked: Any = params
        for key in ("capabilities", "workspace", "didChangeWatchedFiles", "dynamicRegistration"):
            asked = asked.get(key) if isinstance(asked, dict) else None
        self._watches = asked is True
        return {
            "capabilities": {
                "positionEncoding": "utf-16",
                "textDocumentSync": {"openClose": False, "change": 0, "save": True},
            },
            "serverInfo": {"name": "deltafix"},
        }

    def _initialized(self, _: dict[str, Any]) -> None:
        if self._watches:
            registration = {
                "id": "files",
                "method": "workspace/didChangeWatchedFiles",
                "registerOptions": {"watchers": _WATCHED},
            }
            params = {"registrations": [registration]}
            self._wire.write({"id": 1, "method": "client/registerCapability", "params": params})
        begun = time.perf_counter()
        view = self._here()
        self._publish(view.load())
        gc.freeze()  # the tree stays as long as the server
        work = view.job.last_work
        self._log(f"{work.files} files, {view.job.fact_count} facts", begun)
        if self._rules is not None:
            self._mark(self._rules.load())

    def _saved(self, params: dict[str, Any]) -> None:
        document = params.get("textDocument")
        if not isinstance(document, dict):
            raise _BadParamsError("textDocument is missing")
        self._update([document.get("uri")])

    def _changed(self, params: dict[str, Any]) -> None:
        events = params.get("changes")
        if not isinstance(events, list) or not all(isinstance(one, dict) for one in events):
            raise _BadParamsError("changes is a list of events")
        self._update([one.get("uri") for one in events])

    def _shutdown(self, _: dict[str, Any]) -> None:
        self._shut = True

    # -- what they do --------------------------------------------------------------------------

    def _here(self) -> EditorView:
        assert self._view is not None, "checked before a method runs"  # noqa: S101
        return self._view

    def _update(self, uris: list[object]) -> None:
        begun = time.perf_counter()
        view = self._here()
        files = [_path_of(uri) for uri in uris]
        if self._rules is not None and any(map(self._rules.reads, files)):
            marks, told = self._rules.saved()
            self._mark(marks)
            for message in told:
                self._show(message)
            files = [one for one in files if not self._rules.reads(one)]
            if not files:
                return
        inside = [one for one in files if one.is_relative_to(view.tree.root)]
        paths = [one.relative_to(view.tree.root).as_posix() for one in inside]
        change, news = view.saved(paths)
        self._publish(news)
        work = change.work
        moved = f"{work.facts_removed} facts out, {work.facts_added} in, {work.touched} touched"
        self._log(", ".join([*change.changed, *change.deleted, moved]), begun)

    def _publish(self, news: Findings) -> None:
        root = self._here().tree.root
        for path, findings in news.items():
            uri = Path(os.path.normpath(root / path)).as_uri()
            params = {"uri": uri, "diagnostics": [_diagnostic(one) for one in findings]}
            self._wire.write({"method": "textDocument/publishDiagnostics", "params": params})

    def _mark(self, marks: Marks) -> None:
        for path, found in marks.items():
            params = {"uri": path.as_uri(), "diagnostics": found}
            self._wire.write({"method": "textDocument/publishDiagnostics", "params": params})

    def _log(self, text: str, begun: float) -> None:
        took = (time.perf_counter() - begun) * 1000
        params = {"type": _LOG, "message": f"{text}: {took:.1f} ms"}
        self._wire.write({"method": "window/logMessage", "params": params})

    def _answer(self, identity: object, code: int, message: str) -> None:
        self._wire.write({"id": identity, "error": {"code": code, "message": message}})

    def _failed(self, identity: object, code: int, message: str, *, asks: bool) -> None:
        if asks:
            self._answer(identity, code, message)
        else:
            self._show(message)

    def _show(self, message: str) -> None:
        params = {"type": _ERROR, "message": message}
        self._wire.write({"method": "window/showMessage", "params": params})

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        if self._view is not None:
            self._view.job.close()
            gc.unfreeze()


def _diagnostic(finding: Finding) -> Message:
    line = finding.line - 1
    return {
        "range": {
            "start": {"line": line, "character": 0},
            "end": {"line": line, "character": _WHOLE_LINE},
        },
        "severity": _WARNING if finding.confidence == "sure" else _HINT,
        "code": f"dead-{finding.kind}",
        "source": "deltafix",
        "message": "; ".join(
            [f"dead {finding.kind} {finding.symbol}: nothing alive reaches it", *finding.doubts()]
        ),
        "tags": [_UNNECESSARY],
    }


def _path_of(uri: object) -> Path:
    """The file that a `file:` URI names."""
    parts = urlsplit(uri) if isinstance(uri, str) else None
    if parts is None or parts.scheme != "file" or "\0" in unquote(parts.path):
        raise _BadParamsError(f"{uri!r} is not the URI of a file, as file:///home/x/y.py is")
    return Path(url2pathname(parts.path)).resolve()


Message: TypeAlias = dict[str, Any]
"""A request, notification or response of JSON-RPC 2.0."""

_HEADER_LIMIT = 4096  # bytes of one header line
_BODY_LIMIT = 64 << 20  # bytes; a file in a message is far below


class ProtocolError(DeltafixError, ValueError):
    """The other side does not speak the protocol; there is no way to find the next message."""

    code = "DF672"


class BadMessageError(DeltafixError, ValueError):
    """A body that is not a JSON object. The next message can be read."""

    code = "DF673"


class Wire:
    """Reads and writes messages on a pair of binary streams."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink

    def read(self) -> Message | None:
        """The next message; None at the end. Raises ProtocolError and BadMessageError."""
        length = self._length()
        if length is None:
            return None
        body = self._source.read(length)
        if len(body) < length:
            raise ProtocolError(f"the input ended after {len(body)} of {length} bytes of a message")
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise BadMessageError(f"a message is not JSON: {error}") from error
        if not isinstance(message, dict):
            raise BadMessageError(f"a message is a {type(message).__name__}, not an object")
        return message

    def write(self, message: Message) -> None:
        """Send one message at once."""
        body = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode()
        self._sink.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._sink.flush()

    def _length(self) -> int | None:
        """The length that the header gives; None at the end of the input."""
        length: int | None = None
        first = True
        while line := self._source.readline(_HEADER_LIMIT):
            first = False
            if line in {b"\r\n", b"\n"}:
                break
            name, colon, value = line.partition(b":")
            if not colon or not line.endswith(b"\n"):
                raise ProtocolError(f"{line[:40]!r} is not a header; Content-Length: N is one")
            if name.strip().lower() == b"content-length":
                text = value.strip()
                length = int(text) if text.isdigit() and len(text) < 10 else -1
        if first:
            return None
        if length is None or not 0 <= length <= _BODY_LIMIT:
            raise ProtocolError(f"a message needs a Content-Length from 0 to {_BODY_LIMIT}")
        return length
