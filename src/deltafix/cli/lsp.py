"""`deltafix lsp`: a language server that marks dead code, brought up to date on every save.

It says why a symbol is alive or dead, where it is defined and used, and offers to delete what is
dead or to keep it (`lsp_answers`). With `--program` it serves that program of rules, too: its
errors, what a save does to its views, relations under the cursor (`lsp_rules`).

Invariant: standard output carries messages only. Diagnostics come from the files as they are on
disk; unsaved text is kept (`lsp_documents`) and looked at when something is asked of it. A message
that cannot be understood gets an error response (or, being a notification, none) and the server
goes on.
Python's cyclic collector runs between messages and leaves the loaded tree out: in the middle of a
save, a collection over the facts of 1,000 files took longer than the rest of the save.
"""

from __future__ import annotations

import gc
import sys
import time
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer

from deltafix.cli.console import prepare_kernel
from deltafix.cli.loaded import followed, loaded
from deltafix.cli.lsp_wire import BadMessageError, BadParamsError, Message, Wire, has, path_of
from deltafix.cli.program_options import FunctorsFile, Include, Macros, Reading, WordSize, reading
from deltafix.cli.tree_options import Also, Exclude, Framework, HowSure, Roots, Tests
from deltafix.collector import held_back
from deltafix.diagnostics import plural
from deltafix.errors import DeltafixError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from deltafix.analyses.dead_code.editor import Findings
    from deltafix.analyses.dead_code.job import DeadCode
    from deltafix.cli.lsp_answers import Answers, Client
    from deltafix.cli.lsp_rules import Marks, RulesAnswers, RulesView


_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600
_NO_METHOD: Final = -32601
_BAD_PARAMS: Final = -32602
_NOT_INITIALIZED: Final = -32002
_FAILED: Final = -32803
_LOG, _ERROR = 4, 1
_EVERYTHING: Final = "**/*"
"""What is watched: the tree takes texts of a hundred endings, and scripts that have none."""

_INCREMENTAL: Final = 2


def lsp(
    *,
    roots: Roots = None,
    tests: Tests = True,
    framework: Framework = None,
    exclude: Exclude = None,
    confidence: HowSure = "sure",
    also: Also = None,
    program: Annotated[
        Path | None, typer.Option(help="A program of rules (.dl) to mark, too.", metavar="FILE.dl")
    ] = None,
    facts: Annotated[
        Path,
        typer.Option(
            "-F", "--fact-dir", metavar="FOLDER", help="Folder of the program's .facts files."
        ),
    ] = Path(),
    functors: FunctorsFile = None,
    word_size: WordSize = None,
    include: Include = None,
    macros: Macros = None,
) -> None:
    """Serve dead code to an editor: marks, why, uses, quick fixes; over standard input and output.

    The editor starts it and names the folder; its settings go before these options. With --program
    it shows what each save of the rules, or of the facts, adds to and takes from the rows of every
    relation. Exit code 0 after `shutdown` and `exit`, else 1.
    """
    from deltafix.analyses.dead_code.job import DeadCode  # noqa: PLC0415  quick --help

    prepare_kernel()
    make = partial(
        DeadCode,
        roots=roots or (),
        tests=tests,
        frameworks=framework or (),
        confidence=confidence,
        also=[kind.value for kind in also or ()],
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

    messages: list[str] = []
    with loaded(program, None, functors, options, strict=False, quiet=True) as db:
        file = followed(program, functors, options)
        folder = FactFolder(db, facts, messages.append, lambda _: None, file)
        yield RulesView(file, folder, messages)


class Server:
    """One conversation: `run` reads messages until `exit` or the end of the input."""

    def __init__(
        self,
        wire: Wire,
        make: Callable[..., DeadCode],
        exclude: tuple[str, ...] = (),
        rules: RulesView | None = None,
    ) -> None:
        from deltafix.cli.lsp_documents import Documents  # noqa: PLC0415  quick --help

        self._wire = wire
        self._make = make
        self._exclude = exclude
        self._rules = rules
        self._documents = Documents()
        self._client: Client | None = None
        self._root = Path()
        self._settings: dict[str, Any] = {}
        self._answers: Answers | None = None
        self._shut = False
        self._grown = False  # since the last collection
        self._methods: dict[str, Callable[[dict[str, Any]], object]] = {
            "initialize": self._initialize,
            "initialized": self._initialized,
            "shutdown": self._shutdown,
            "textDocument/didOpen": self._opened,
            "textDocument/didChange": self._edited,
            "textDocument/didClose": self._closed,
            "textDocument/didSave": self._saved,
            "workspace/didChangeWatchedFiles": self._changed,
            "workspace/didChangeConfiguration": self._configured,
            "textDocument/hover": lambda params: self._asked(params).hover(params),
            "textDocument/definition": lambda params: self._asked(params).definition(params),
            "textDocument/references": lambda params: self._asked(params).references(params),
            "textDocument/formatting": self._formatted,
            "textDocument/codeAction": lambda params: self._here().actions(params),
            "codeAction/resolve": lambda params: self._here().resolved(params),
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
            if self._grown:
                gc.collect()  # now that the marks are out, and not during the next save
                self._grown = False

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
        elif self._answers is None and method != "initialize":
            if asks:
                self._answer(identity, _NOT_INITIALIZED, f"{method} came before initialize")
        else:
            try:
                result = handler(params)
            except BadParamsError as error:
                self._failed(identity, _BAD_PARAMS, f"{method}: {error}", asks=asks)
            except DeltafixError as error:
                self._failed(identity, _FAILED, f"error[{error.code}]: {error}", asks=asks)
            else:
                if asks:
                    self._wire.write({"id": identity, "result": result})

    # -- methods -------------------------------------------------------------------------------

    def _initialize(self, params: dict[str, Any]) -> Message:
        from deltafix.cli.lsp_answers import Client  # noqa: PLC0415  quick --help

        if self._answers is not None:
            raise BadParamsError("this conversation has begun already")
        folders = params.get("workspaceFolders") or [{"uri": params.get("rootUri")}]
        if not isinstance(folders, list) or not isinstance(folders[0], dict):
            raise BadParamsError("workspaceFolders is a list of folders with a uri")
        uri = folders[0].get("uri")
        self._root = path_of(uri)
        self._documents.folder = (self._root, str(uri))
        settings = settings_of(params.get("initializationOptions"))
        self._client = Client(params.get("capabilities"))
        self._answers = self._anew(settings)
        actions = {"codeActionKinds": ["quickfix"], "resolveProvider": self._client.resolves}
        sync = {"openClose": True, "change": _INCREMENTAL, "save": True}
        return {
            "capabilities": {
                "positionEncoding": "utf-16",
                "textDocumentSync": sync,
                "hoverProvider": True,
                "definitionProvider": True,
                "referencesProvider": True,
                "codeActionProvider": actions,
                "documentFormattingProvider": self._rules is not None,
            },
            "serverInfo": {"name": "deltafix"},
        }

    def _anew(self, settings: dict[str, Any]) -> Answers:
        """A view with these settings, which has read nothing yet."""
        from deltafix.cli.lsp_answers import Answers  # noqa: PLC0415  quick --help

        assert self._client is not None, "it has told what it can"  # noqa: S101
        self._settings = settings
        given = dict(settings)
        exclude = given.pop("exclude", self._exclude)
        job = self._make(**given)
        try:
            tree = job.analysis.tree(self._root, exclude)
        except DeltafixError:
            job.close()
            raise
        return Answers(tree, job, self._documents, self._client)

    def _initialized(self, _: dict[str, Any]) -> None:
        assert self._client is not None, "it has told what it can"  # noqa: S101
        if self._client.watches:
            watched: list[Message] = [{"globPattern": _EVERYTHING}]
            if self._client.watches_elsewhere:
                tree = self._here().view.tree
                above = [tree.root / path for path in tree.scan().files if path.startswith("../")]
                watched += [
                    {
                        "globPattern": {
                            "baseUri": file.resolve().parent.as_uri(),
                            "pattern": file.name,
                        }
                    }
                    for file in above
                ]
            registration = {
                "id": "files",
                "method": "workspace/didChangeWatchedFiles",
                "registerOptions": {"watchers": watched},
            }
            params = {"registrations": [registration]}
            self._wire.write({"id": 1, "method": "client/registerCapability", "params": params})
        self._load()
        if self._rules is not None:
            self._mark(self._rules.load())

    def _load(self) -> None:
        begun = time.perf_counter()
        view = self._here().view
        self._publish(view.load())
        self._grown = True
        gc.freeze()  # the tree stays as long as the server
        work = view.job.last_work
        self._log(f"{plural(work.files, 'file')}, {plural(view.job.fact_count, 'fact')}", begun)

    def _configured(self, params: dict[str, Any]) -> None:
        """Other settings are another analysis: it is made anew. None of ours say nothing.

        Some clients send an empty object at the start, after the options of `initialize`.
        """
        settings = settings_of(params.get("settings"))
        if not settings or settings == self._settings:
            return
        old, self._answers = self._here(), self._anew(settings)
        shown = [path for path, findings in old.view.shown.items() if findings]
        old.view.job.close()
        gc.unfreeze()
        self._publish({path: [] for path in shown})
        self._load()

    def _opened(self, params: dict[str, Any]) -> None:
        self._documents.open(_document(params))

    def _edited(self, params: dict[str, Any]) -> None:
        changes = params.get("contentChanges")
        if not isinstance(changes, list):
            raise BadParamsError("contentChanges is a list of changes")
        self._documents.change(_document(params), changes)

    def _closed(self, params: dict[str, Any]) -> None:
        self._documents.close(_document(params))

    def _saved(self, params: dict[str, Any]) -> None:
        self._update([_document(params).get("uri")])

    def _changed(self, params: dict[str, Any]) -> None:
        events = params.get("changes")
        if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
            raise BadParamsError("changes is a list of events")
        self._update([event.get("uri") for event in events])

    def _shutdown(self, _: dict[str, Any]) -> None:
        self._shut = True

    # -- what they do --------------------------------------------------------------------------

    def _here(self) -> Answers:
        assert self._answers is not None, "checked before a method runs"  # noqa: S101
        return self._answers

    def _asked(self, params: dict[str, Any]) -> Answers | RulesAnswers:
        """Who answers questions about a file: the rules that it is one of, or dead code."""
        if self._rules is not None:
            file = path_of(has(params, "textDocument", "uri"))
            if self._rules.reads(file):
                from deltafix.cli.lsp_rules import RulesAnswers  # noqa: PLC0415  quick --help

                return RulesAnswers(self._rules, self._documents)
        return self._here()

    def _formatted(self, params: dict[str, Any]) -> list[Message] | None:
        """A program of rules in one layout; of other files nothing is laid out."""
        from deltafix.cli.lsp_rules import RulesAnswers  # noqa: PLC0415  quick --help

        asked = self._asked(params)
        return asked.formatted(params) if isinstance(asked, RulesAnswers) else None

    def _update(self, uris: list[object]) -> None:
        begun = time.perf_counter()
        files = [path_of(uri) for uri in uris]
        if self._rules is not None and any(map(self._rules.reads, files)):
            marks, messages = self._rules.saved()
            self._mark(marks)
            for message in messages:
                self._show(message)
            files = [file for file in files if not self._rules.reads(file)]
        change, news = self._here().view.saved(map(self._here().path, files))
        self._publish(news)
        work = change.work
        if change.changed or change.deleted:
            self._grown = True
            moved = f"{work.facts_removed} facts out, {work.facts_added} in, {work.touched} touched"
            self._log(", ".join([*change.changed, *change.deleted, moved]), begun)

    def _publish(self, news: Findings) -> None:
        for path, findings in news.items():
            params = self._here().marks(path, findings)
            self._wire.write({"method": "textDocument/publishDiagnostics", "params": params})

    def _mark(self, marks: Marks) -> None:
        for path, diagnostics in marks.items():
            params = {"uri": path.as_uri(), "diagnostics": diagnostics}
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
        if self._answers is not None:
            self._answers.view.job.close()
            gc.unfreeze()


def _document(params: dict[str, Any]) -> dict[str, Any]:
    document = params.get("textDocument")
    if not isinstance(document, dict):
        raise BadParamsError("textDocument is missing")
    return document


def settings_of(given: object) -> dict[str, Any]:
    """What a client's settings say, by the names of the options, as `DeadCode` takes it.

    They stand under `deltafix` or by themselves. Raises BadParamsError.
    """
    from deltafix.analyses.dead_code.findings import Also, Confidence  # noqa: PLC0415  as above

    inner = has(given, "deltafix")
    settings = inner if isinstance(inner, dict) else given
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        raise BadParamsError('settings are an object, such as {"confidence": "likely"}')
    options: dict[str, Any] = {}
    lists = {"roots": (), "framework": (), "exclude": (), "also": get_args(Also)}
    for name, value in settings.items():
        if name in lists:
            valid = lists[name]
            is_list = isinstance(value, list) and all(isinstance(text, str) for text in value)
            if not is_list or (valid and not set(value) <= set(valid)):
                of = ", ".join(valid) or "texts"
                raise BadParamsError(f"{name} is {value!r}, and should be a list of {of}")
            options["frameworks" if name == "framework" else name] = tuple(value)
        elif name == "confidence":
            if value not in get_args(Confidence):
                raise BadParamsError(f"confidence is {value!r}, and should be sure or likely")
            options[name] = value
        elif name == "tests":
            if not isinstance(value, bool):
                raise BadParamsError(f"tests is {value!r}, and should be true or false")
            options[name] = value
    return options
