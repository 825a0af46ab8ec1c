"""The language server: framing, the conversation, and what is shown after each save."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltafix.analyses.dead_code import DEAD_CODE
from deltafix.analyses.dead_code.editor import EditorView
from deltafix.analyses.dead_code.findings import Finding
from deltafix.analyses.dead_code.job import DeadCode
from deltafix.analyses.dead_code.source import line_starts
from deltafix.cli.lsp import Server
from deltafix.cli.lsp_documents import Documents, offset_of, position_of
from deltafix.cli.lsp_wire import BadMessageError, ProtocolError, Wire

MAIN = 'if __name__ == "__main__": '
OWN = Path(__file__).parents[3] / "src" / "deltafix" / "analyses"
Message = dict[str, Any]


TEXTS = st.text(st.sampled_from("ab é😀\n\r\u2028\t"), max_size=30)


@st.composite
def typed(draw: st.DrawFn) -> tuple[str, list[tuple[str, int, int]]]:
    """A text, and edits of it one after another: what is written, and the offsets it replaces."""
    text = start = draw(TEXTS)
    edits = []
    for _ in range(draw(st.integers(0, 6))):
        ends = sorted(draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=2)))
        between = text[max(ends[0] - 1, 0) : ends[0] + 1], text[max(ends[1] - 1, 0) : ends[1] + 1]
        if "\r\n" not in between:  # no position is between the two
            edits.append((draw(TEXTS), *ends))
            text = text[: ends[0]] + edits[-1][0] + text[ends[1] :]
    return start, edits


def told(text: str, offset: int) -> Message:
    """The position of an offset, as the protocol's text says it: no code of the server."""
    lines = re.split(r"\r\n|\r|\n", text[:offset])
    return {"line": len(lines) - 1, "character": len(lines[-1].encode("utf-16-le")) // 2}


@given(typed())
def test_a_document_is_what_its_edits_make_of_it(given_edits: tuple[str, list]) -> None:
    text, edits = given_edits
    uri = "file:///x/m.py"
    documents = Documents()
    documents.open({"uri": uri, "version": 1, "text": text})
    for version, (new, start, end) in enumerate(edits, start=2):
        where = {"start": told(text, start), "end": told(text, end)}
        documents.change({"uri": uri, "version": version}, [{"range": where, "text": new}])
        text = text[:start] + new + text[end:]
        starts = line_starts(text)
        for at in range(len(text) + 1):
            if text[at - 1 : at + 1] != "\r\n":
                assert position_of(text, starts, at) == told(text, at)
                assert offset_of(text, starts, told(text, at)) == at
    path = Path("/x/m.py").resolve()
    assert documents.text(path) == text
    assert documents.version(path) == len(edits) + 1
    documents.change({"uri": uri, "version": 99}, [{"text": "all"}])
    assert documents.text(path) == "all"
    documents.change({"uri": "file:///x/other.py"}, [{"text": "nobody has it open"}])
    documents.close({"uri": uri})
    assert documents.text(path) is None
    assert documents.uri(path) == path.as_uri()


class Script:
    """A wire whose other side says what a test wrote down, with edits in between."""

    def __init__(self, *steps: Message | Callable[[], object]) -> None:
        self.steps: Iterator[Message | Callable[[], object]] = iter(steps)
        self.said: list[Message] = []

    def read(self) -> Message | None:
        for step in self.steps:
            if isinstance(step, dict):
                return json.loads(json.dumps(step))  # type: ignore[no-any-return]
            step()
        return None

    def write(self, message: Message) -> None:
        self.said.append(json.loads(json.dumps(message)))

    def shown(self) -> list[tuple[str, list[str]]]:
        """(file name, symbols marked in it) per publication, in order."""
        return [
            (
                one["params"]["uri"].rpartition("/")[2],
                [mark["message"].split()[2].rstrip(":") for mark in one["params"]["diagnostics"]],
            )
            for one in self.said
            if one.get("method") == "textDocument/publishDiagnostics"
        ]

    def log(self) -> list[str]:
        return [m["params"]["message"] for m in self.said if m.get("method") == "window/logMessage"]


def ask(method: str, identity: int | str | None = None, **params: object) -> Message:
    head: Message = {"method": method, "params": params}
    return head if identity is None else {"id": identity, **head}


def begin(tree: Path, **more: object) -> list[Message]:
    return [ask("initialize", 1, rootUri=tree.as_uri(), **more), ask("initialized")]


def save(path: Path) -> Message:
    return ask("textDocument/didSave", textDocument={"uri": path.as_uri()})


def span(line: int, start: int, end: int) -> Message:
    return {
        "start": {"line": line, "character": start},
        "end": {"line": line, "character": end},
    }


END = [ask("shutdown", 2), ask("exit")]


def serve(*steps: Message | Callable[[], object]) -> tuple[int, Script]:
    script = Script(*steps)
    with Server(script, partial(DeadCode, confidence="likely")) as server:  # type: ignore[arg-type]
        return server.run(), script


@pytest.fixture
def tree(tmp_path: Path, warm_kernel: None) -> Path:
    (tmp_path / "lib.py").write_text("def f(): g()\ndef g(): ...\ndef h(): ...\n")
    (tmp_path / "main.py").write_text(f"import lib\n{MAIN}lib.f()\n")
    return tmp_path


def test_a_save_marks_and_clears_in_every_file_it_affects(tree: Path) -> None:
    main, lib = tree / "main.py", tree / "lib.py"
    code, script = serve(
        *begin(tree),
        lambda: main.write_text(f"import lib\n{MAIN}lib.h()\n"),
        save(main),
        lambda: lib.write_text("\n\ndef f(): g()\ndef g(): ...\ndef h(): ...\n"),
        save(lib),
        lambda: lib.write_text("def h(): ...\n"),
        save(lib),
        *END,
    )
    assert code == 0
    assert script.shown() == [
        ("lib.py", ["lib:h"]),
        ("lib.py", ["lib:f", "lib:g"]),  # main.py was saved, lib.py is what changed
        ("lib.py", ["lib:f", "lib:g"]),  # the same symbols on other lines
        ("lib.py", []),
    ]
    # Moving lines changes no fact; the other saves touch a few rows each.
    assert "lib.py, 0 facts out, 0 in, 0 touched" in script.log()[2]
    assert "main.py, 2 facts out, 2 in" in script.log()[1]


def test_a_diagnostic_says_what_an_editor_needs(tree: Path) -> None:
    _, script = serve(*begin(tree), *END)
    (published,) = [m for m in script.said if m.get("method", "").endswith("publishDiagnostics")]
    assert published["params"]["uri"] == (tree / "lib.py").as_uri()
    (mark,) = published["params"]["diagnostics"]
    assert mark["range"] == span(2, 4, 5)  # the name alone
    assert (mark["severity"], mark["tags"], mark["code"]) == (2, [1], "dead-function")
    answer = script.said[0]
    assert (answer["id"], answer["result"]["capabilities"]["textDocumentSync"]["save"]) == (1, True)
    assert script.said[-1] == {"id": 2, "result": None}


def test_created_and_deleted_files_come_as_watched_changes(tree: Path) -> None:
    new = tree / "ñew.py"
    capability = {"workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}}}
    changed = ask("workspace/didChangeWatchedFiles", changes=[{"uri": new.as_uri(), "type": 1}])
    outside = {"uri": (tree.parent / "else.py").as_uri(), "type": 2}
    code, script = serve(
        *begin(tree, capabilities=capability),
        {"id": 1, "result": None},  # the editor has registered the watch
        lambda: new.write_text("def lost(): ...\n"),
        changed,
        new.unlink,
        changed,
        ask("workspace/didChangeWatchedFiles", changes=[outside]),
        *END,
    )
    assert code == 0
    (registered,) = [m for m in script.said if "id" in m and "method" in m]
    assert registered["method"] == "client/registerCapability"
    (registration,) = registered["params"]["registrations"]
    assert registration["registerOptions"] == {"watchers": [{"globPattern": "**/*"}]}
    assert script.shown()[1:] == [("%C3%B1ew.py", ["ñew"]), ("%C3%B1ew.py", [])]
    assert [line.partition(",")[0] for line in script.log()[1:]] == ["ñew.py", "ñew.py"]
    sure, likely = (
        mark
        for one in script.said
        if one.get("method") == "textDocument/publishDiagnostics"
        for mark in one["params"]["diagnostics"]
    )
    assert (sure["severity"], likely["severity"]) == (2, 4)
    assert likely["message"].endswith(
        "; likely: it stands in the top folder, from where files are run by hand"
    )
    assert sure["message"].endswith("nothing alive reaches it")


def test_a_file_that_breaks_keeps_its_marks(tree: Path) -> None:
    lib = tree / "lib.py"
    _, script = serve(*begin(tree), lambda: lib.write_text("def ("), save(lib), *END)
    assert script.shown() == [("lib.py", ["lib:h"])]


def errors(script: Script) -> list[tuple[object, int]]:
    return [(one.get("id"), one["error"]["code"]) for one in script.said if "error" in one]


def test_what_cannot_be_served_is_answered_and_the_server_goes_on(tree: Path) -> None:
    bad = {"uri": "https://example.org/x.py"}
    code, script = serve(
        ask("textDocument/rename", 1),  # no such method
        ask("shutdown", 2),  # before initialize
        ask("initialize", 3, rootUri="untitled:x"),
        ask("initialize", 4, rootUri=(tree / "nothing").as_uri()),
        ask("initialize", 5, workspaceFolders=[7]),
        ask("initialize", 6, workspaceFolders=[{"uri": tree.as_uri()}]),
        ask("initialize", 7, rootUri=tree.as_uri()),
        {"id": 8, "method": "shutdown", "params": [1]},
        {"id": 9, "method": 5},
        ask("$/unheard"),  # a notification: no answer
        ask("textDocument/didSave", textDocument=bad),
        ask("textDocument/didSave"),
        ask("workspace/didChangeWatchedFiles", changes=[3]),
        *END,
    )
    assert code == 0
    assert errors(script) == [
        (1, -32601),
        (2, -32002),
        (3, -32602),
        (4, -32803),
        (5, -32602),
        (7, -32602),
        (8, -32600),
        (9, -32600),
    ]
    told = [m["params"]["message"] for m in script.said if m.get("method") == "window/showMessage"]
    assert len(told) == 3
    assert "is not the URI of a file" in told[0]


def test_leaving_without_shutdown_is_exit_code_one(tree: Path) -> None:
    assert serve(*begin(tree))[0] == 1
    assert serve(ask("exit"))[0] == 1


def framed(*bodies: bytes) -> io.BytesIO:
    return io.BytesIO(b"".join(b"Content-Length: %d\r\n\r\n" % len(b) + b for b in bodies))


def test_messages_come_back_as_they_were_written() -> None:
    sink = io.BytesIO()
    wire = Wire(io.BytesIO(), sink)
    wire.write({"id": 1, "result": "ü"})
    wire.write({"method": "x"})
    again = Wire(io.BytesIO(sink.getvalue()), io.BytesIO())
    assert again.read() == {"jsonrpc": "2.0", "id": 1, "result": "ü"}
    assert again.read() == {"jsonrpc": "2.0", "method": "x"}
    assert again.read() is None


def test_a_body_that_is_no_object_leaves_the_stream_at_the_next() -> None:
    wire = Wire(framed(b"{", b"[1]", b"\xff", b"[" * 100_000, b'{"id": 1}'), io.BytesIO())
    for _ in range(4):
        with pytest.raises(BadMessageError):
            wire.read()
    assert wire.read() == {"id": 1}


@pytest.mark.parametrize(
    "stream",
    [
        b"GET / HTTP/1.1\r\n",
        b"Content-Type: x\r\n\r\n{}",
        b"Content-Length: many\r\n\r\n{}",
        b"Content-Length: 999999999\r\n\r\n{}",
        b"Content-Length: 10\r\n\r\n{}",
        b"Content-Length: 2",
        b"x" * 9000,
    ],
)
def test_a_header_that_is_none_ends_the_conversation(stream: bytes) -> None:
    with pytest.raises(ProtocolError):
        Wire(io.BytesIO(stream), io.BytesIO()).read()


def marked(view: EditorView) -> dict[str, list[Finding]]:
    return {path: findings for path, findings in view.shown.items() if findings}


def test_what_is_shown_is_what_a_fresh_run_finds_on_this_repositorys_source(tmp_path: Path) -> None:
    root = tmp_path / "analyses"
    shutil.copytree(OWN, root)
    with DeadCode(roots=["public"]) as job:
        view = EditorView(DEAD_CODE.tree(root), job)
        view.load()
        report = root / "dead_code" / "report.py"
        text = report.read_text()
        report.write_text(text.replace("def _findings(", "def _idle(): ...\n\ndef _findings("))
        change, news = view.saved(["dead_code/report.py", "dead_code/no.py", "notes.txt"])
        assert [one.symbol for one in news["dead_code/report.py"]][-1].endswith("report:_idle")
        assert 0 < change.work.touched < job.fact_count / 100
        with DeadCode(roots=["public"]) as fresh:
            again = EditorView(DEAD_CODE.tree(root), fresh)
            again.load()
        assert {p: f for p, f in view.shown.items() if f} == {
            p: f for p, f in again.shown.items() if f
        }


def test_the_command_talks_over_its_streams(tree: Path) -> None:
    (tree / "lib.py").write_text(f"import os\n{(tree / 'lib.py').read_text()}")
    said = [*begin(tree), save(tree / "lib.py"), *END]
    sent = framed(*(json.dumps(one).encode() for one in said)).getvalue()
    command = [sys.executable, "-m", "deltafix", "lsp", "--also", "imports"]
    done = subprocess.run(command, input=sent, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    wire = Wire(io.BytesIO(done.stdout), io.BytesIO())
    messages = list(iter(wire.read, None))
    methods = [one.get("method", one.get("id")) for one in messages]
    published, log = "textDocument/publishDiagnostics", "window/logMessage"
    assert methods == [1, published, log, log, 2]
    codes = [one["code"] for one in messages[1]["params"]["diagnostics"]]
    assert codes == ["unused-import", "dead-function"]

    command += ["--framework", "rails"]
    done = subprocess.run(command, input=b"", capture_output=True, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"error[DF653]" in done.stderr


def edited(text: str, edits: list[Message]) -> str:
    """The text with edits of lines and columns made, by no code of the server."""
    lines = text.split("\n")
    for one in sorted(edits, key=lambda one: one["range"]["start"]["line"], reverse=True):
        start, end = one["range"]["start"], one["range"]["end"]
        before = units(lines[start["line"]], start["character"])[0]
        after = units(lines[end["line"]], end["character"])[1]
        lines[start["line"] : end["line"] + 1] = f"{before}{one['newText']}{after}".split("\n")
    return "\n".join(lines)


def units(line: str, column: int) -> tuple[str, str]:
    """A line cut at a column of UTF-16 units."""
    data = line.encode("utf-16-le")
    return data[: 2 * column].decode("utf-16-le"), data[2 * column :].decode("utf-16-le")


def place(path: Path, line: int, character: int, **more: object) -> Message:
    position = {"line": line, "character": character}
    return {"textDocument": {"uri": path.as_uri()}, "position": position, **more}


def answers(script: Script) -> dict[int, Any]:
    return {
        one["id"]: one.get("result", one.get("error"))
        for one in script.said
        if "id" in one and "method" not in one
    }


RICH = {
    "workspace": {
        "workspaceEdit": {"documentChanges": True, "resourceOperations": ["delete"]},
        "didChangeWatchedFiles": {"dynamicRegistration": True, "relativePatternSupport": True},
    },
    "textDocument": {
        "codeAction": {
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix"]}},
            "resolveSupport": {"properties": ["edit"]},
        }
    },
}
PLAIN = {"textDocument": {"codeAction": {"codeActionLiteralSupport": {}}}}


def test_hover_definition_and_references_answer_for_unsaved_text(tree: Path) -> None:
    main, lib = tree / "main.py", tree / "lib.py"
    opened = {"uri": main.as_uri(), "version": 1, "text": main.read_text()}
    change = {"range": span(0, 0, 0), "text": "s = '😀'; "}
    last = {"line": 9, "character": 0}
    column = len(MAIN) + 4
    declared = {"includeDeclaration": True}
    _, script = serve(
        *begin(tree),
        ask("textDocument/hover", 10, **place(lib, 1, 4)),
        ask("textDocument/hover", 11, **place(lib, 2, 5)),
        ask("textDocument/hover", 12, **place(lib, 2, 0)),
        ask("textDocument/didOpen", textDocument=opened),
        ask(
            "textDocument/didChange",
            textDocument={"uri": main.as_uri(), "version": 2},
            contentChanges=[change, {"range": {"start": last, "end": last}, "text": "\n\n"}],
        ),
        ask("textDocument/hover", 13, **place(main, 0, 18)),  # behind a character of two units
        ask("textDocument/definition", 14, **place(main, 1, column)),
        ask("textDocument/references", 15, **place(lib, 0, 4, context={})),
        ask("textDocument/references", 16, **place(lib, 0, 4, context=declared)),
        ask("textDocument/didClose", textDocument={"uri": main.as_uri()}),
        ask("textDocument/hover", 17, **place(main, 0, 18)),
        ask("textDocument/hover", 18, **place(main, -1, 0)),
        ask("textDocument/hover", 19, **place(tree / "gone.py", 0, 0)),
        *END,
    )
    found = answers(script)
    assert found[1]["capabilities"]["hoverProvider"] is True
    assert found[10]["range"] == span(1, 4, 5)
    assert found[10]["contents"]["kind"] == "plaintext"
    assert found[10]["contents"]["value"].splitlines()[::3] == [
        "lib:g is alive:",
        "  lib:f refers to lib:g",
    ]
    assert found[11]["contents"]["value"].splitlines() == [
        "lib:h is dead: nothing refers to it",
        "sure: nothing speaks against it",
    ]
    assert found[12] is None
    assert found[13]["contents"]["value"].startswith("lib is alive:")
    assert found[13]["range"] == span(0, 17, 20)
    assert found[14] == [{"uri": lib.as_uri(), "range": span(0, 4, 5)}]
    assert found[15] == [{"uri": main.as_uri(), "range": span(1, column, column + 1)}]
    assert len(found[16]) == 2
    assert found[17]["range"] == span(0, 7, 10)
    assert found[18]["code"] == -32602
    assert found[19] is None


@pytest.mark.parametrize("capabilities", [RICH, PLAIN])
def test_quick_fixes_delete_what_is_dead_or_keep_it(tree: Path, capabilities: Message) -> None:
    lib, main, old = tree / "lib.py", tree / "main.py", tree / "_old.py"
    lib.write_text("import os, re\n\n\ndef f(): re\n\n\n# é\n@staticmethod  # 😀\ndef h(): '😀'\n")
    old.write_text("x = 1\n")
    main.write_text(f"import lib\nfrom lib import h, f\n{MAIN}f()\n")
    opened = {"uri": lib.as_uri(), "version": 7, "text": "\n" + lib.read_text()}
    here = {"textDocument": {"uri": lib.as_uri()}}
    mark = {"message": "dead function lib:h: nothing alive reaches it", "range": span(9, 4, 5)}
    marks = {"diagnostics": [mark, {"message": "another's"}]}
    first = {"textDocument": {"uri": old.as_uri()}, "range": span(0, 0, 0)}
    found = answers(
        serve(
            *begin(
                tree,
                capabilities=capabilities,
                initializationOptions={"also": ["imports"], "roots": ["main"]},
            ),
            ask("textDocument/didOpen", textDocument=opened),
            ask("textDocument/codeAction", 20, **here, range=span(9, 0, 3), context=marks),
            ask(
                "textDocument/codeAction",
                21,
                **here,
                range=span(1, 0, 0),
                context={"only": ["quickfix"]},
            ),
            ask("textDocument/codeAction", 22, **first, context={}),
            ask(
                "textDocument/codeAction",
                23,
                **here,
                range=span(9, 0, 3),
                context={"only": ["refactor"]},
            ),
            ask("codeAction/resolve", 24, title="x", data="nothing"),
            ask("codeAction/resolve", 25, data=["lib.py", "lib:gone", "function", "keep"]),
            *END,
        )[1]
    )
    assert [one["title"] for one in found[20]] == [
        "Delete dead function lib:h with what refers to it",
        "Keep function lib:h (# deltafix: keep)",
    ]
    assert [one["diagnostics"] for one in found[20]] == [[mark], [mark]]
    assert [one["title"] for one in found[21]] == [
        "Delete unused import lib:os",
        "Keep import lib:os (# deltafix: keep)",
    ]
    assert found[23] == []
    assert found[24]["code"] == -32602
    assert found[25] == {
        "code": -32803,
        "message": "error[DF676]: lib:gone is no longer found in lib.py",
    }
    if capabilities is RICH:
        assert len(found[22]) == 1
        assert all("edit" not in one for one in found[20])
        return
    assert found[22] == []  # a file cannot go by plain edits
    changes = found[20][0]["edit"]["changes"]
    assert edited(opened["text"], changes[lib.as_uri()]) == "\nimport os, re\n\n\ndef f(): re\n"
    after = edited(main.read_text(), changes[main.as_uri()])
    assert after == f"import lib\nfrom lib import f\n{MAIN}f()\n"
    (keep,) = found[20][1]["edit"]["changes"][lib.as_uri()]
    assert keep == {"range": span(9, 13, 13), "newText": "  # deltafix: keep"}
    imports = edited(opened["text"], found[21][0]["edit"]["changes"][lib.as_uri()])
    assert imports.startswith("\nimport re\n")


def test_a_folder_behind_a_link_is_named_as_the_editor_names_it(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    link = tmp_path_factory.mktemp("links") / "lïnk"
    link.symlink_to(tree)
    (tree / "ünder.py").write_text("def f(): ...\n")
    _, script = serve(
        ask("initialize", 1, rootUri=f"{link.as_uri()}/"),
        ask("initialized"),
        ask("textDocument/definition", 10, **place(link / "main.py", 1, len(MAIN) + 4)),
        *END,
    )
    published = [m["params"]["uri"] for m in script.said if "publish" in str(m)]
    assert published == [(link / "lib.py").as_uri(), (link / "ünder.py").as_uri()]
    assert answers(script)[10][0]["uri"] == (link / "lib.py").as_uri()


def test_an_edit_that_is_fetched_later_has_versions_and_deletes_files(tree: Path) -> None:
    lib, old = tree / "lib.py", tree / "_old.py"
    old.write_text("x = 1\n")
    script = Script()

    def steps() -> Iterator[Message]:
        yield from begin(tree, capabilities=RICH)
        opened = {"uri": lib.as_uri(), "version": 7, "text": lib.read_text()}
        yield ask("textDocument/didOpen", textDocument=opened)
        for number, (path, line) in enumerate([(lib, 2), (old, 0)], start=20):
            where = {"textDocument": {"uri": path.as_uri()}, "range": span(line, 0, 0)}
            yield ask("textDocument/codeAction", number, **where, context={})
            yield ask("codeAction/resolve", number + 10, **answers(script)[number][0])
        yield from END

    script.steps = steps()
    with Server(script, partial(DeadCode, confidence="likely")) as server:  # type: ignore[arg-type]
        server.run()
    (document,) = answers(script)[30]["edit"]["documentChanges"]
    assert document["textDocument"] == {"uri": lib.as_uri(), "version": 7}
    assert edited(lib.read_text(), document["edits"]) == "def f(): g()\ndef g(): ...\n"
    assert answers(script)[31]["edit"] == {
        "documentChanges": [{"kind": "delete", "uri": old.as_uri()}]
    }


def test_settings_of_the_client_go_before_the_options(tree: Path) -> None:
    (tree / "lib.py").write_text("import os\ndef f(): ...\n")
    also = {"also": ["imports"], "confidence": "sure", "exclude": ["main*"], "roots": ["lib:f"]}
    both = {**also, "exclude": []}
    start = partial(ask, "initialize", rootUri=tree.as_uri())
    configure = partial(ask, "workspace/didChangeConfiguration")
    _, script = serve(
        start(90, initializationOptions={"also": ["typos"]}),
        start(91, initializationOptions={"tests": 1}),
        start(92, initializationOptions={"framework": ["rails"]}),
        start(93, initializationOptions=[]),
        start(94, initializationOptions={"confidence": "no"}),
        *begin(tree, initializationOptions=also),
        configure(settings={"deltafix": also}),  # nothing new
        configure(settings={"deltafix": both}),
        configure(settings={"also": 5}),
        configure(settings={}),  # as some clients begin
        configure(settings=None),
        configure(settings={"deltafix": {"confidence": "likely"}}),
        *END,
    )
    assert errors(script) == [(90, -32602), (91, -32602), (92, -32803), (93, -32602), (94, -32602)]
    assert [one.split(",")[0] for one in script.log()] == ["1 file", "2 files", "2 files"]
    assert script.shown() == [
        ("lib.py", ["lib:os"]),
        ("lib.py", []),
        ("lib.py", ["lib:os"]),
        ("lib.py", []),
    ]
    mark = next(m["params"]["diagnostics"][0] for m in script.said if "publish" in str(m))
    assert (mark["code"], mark["message"], mark["range"]) == (
        "unused-import",
        "unused import lib:os: nothing reads it",
        span(0, 7, 9),
    )


def test_texts_and_the_project_file_above_are_followed(tmp_path: Path, warm_kernel: None) -> None:
    tree = tmp_path / "src" / "shop"
    tree.mkdir(parents=True)
    project, notes = tmp_path / "pyproject.toml", tree / "notes.md"
    project.write_text('[project]\nname = "shop"\n')
    (tree / "till.py").write_text("def main(): _work()\ndef _work(): ...\ndef _idle(): ...\n")
    changed = partial(ask, "workspace/didChangeWatchedFiles")
    _, script = serve(
        *begin(tree, capabilities=RICH, initializationOptions={"roots": ["entry-points"]}),
        lambda: project.write_text(f'{project.read_text()}[project.scripts]\nx = "till:main"\n'),
        changed(changes=[{"uri": project.as_uri()}]),
        lambda: notes.write_text("see `_idle`"),
        changed(changes=[{"uri": notes.as_uri()}]),
        changed(changes=[{"uri": (tree / ".git" / "index").as_uri()}]),
        *END,
    )
    (registered,) = [m for m in script.said if m.get("method") == "client/registerCapability"]
    patterns = registered["params"]["registrations"][0]["registerOptions"]["watchers"]
    above = {"baseUri": tmp_path.as_uri(), "pattern": "pyproject.toml"}
    assert patterns == [{"globPattern": "**/*"}, {"globPattern": above}]
    assert [symbols for _, symbols in script.shown()] == [["till"], ["till:_idle"], ["till:_idle"]]
    assert [line.split(",")[0] for line in script.log()[1:]] == ["../../pyproject.toml", "notes.md"]
    published = [one["params"] for one in script.said if "publish" in str(one)]
    assert [one["diagnostics"][0]["severity"] for one in published[1:]] == [2, 4]


def opened(path: Path, text: str) -> Message:
    document = {"uri": path.as_uri(), "languageId": "souffle", "version": 1, "text": text}
    return ask("textDocument/didOpen", textDocument=document)


RULES = """\
.decl edge(x: symbol, y: symbol)
.input edge
.decl path(x: symbol, y: symbol)
.output path
path(x, y) :- edge(x, y).
#include "more.dl"
"""


def test_the_name_of_a_relation_has_a_meaning_a_place_and_uses(tree: Path, tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    program, more = folder / "program.dl", folder / "more.dl"
    program.write_text(f"// who knows whom\n{RULES}")
    more.write_text("/* 😀 */ path(x, z) :- path(x, y), !edge(z, x), edge(y, z).\n")
    (folder / "edge.facts").write_text("a\tb\n")
    said = [
        *begin(tree),
        ask("textDocument/hover", 10, **place(program, 2, 8)),
        ask("textDocument/hover", 11, **place(more, 0, 10)),
        ask("textDocument/definition", 12, **place(more, 0, 38)),
        ask("textDocument/references", 13, **place(program, 1, 6, context={})),
        ask("textDocument/references", 14, **place(more, 0, 14, context={})),
        ask("textDocument/hover", 15, **place(tree / "lib.py", 0, 4)),
        ask("textDocument/formatting", 16, **place(program, 0, 0)),
        opened(program, "// 😀\n.decl  n(x:number)\n\n\n n(1) ."),
        ask("textDocument/formatting", 17, **place(program, 0, 0)),
        opened(program, ".decl n(x: number)\nn(x)."),
        ask("textDocument/formatting", 18, **place(program, 0, 0)),
        ask("textDocument/formatting", 19, **place(tree / "lib.py", 0, 0)),
        *END,
    ]
    sent = framed(*(json.dumps(one).encode() for one in said)).getvalue()
    command = [sys.executable, "-m", "deltafix", "lsp", "--program", program, "-F", folder]
    done = subprocess.run(command, input=sent, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    script = Script()
    script.said = list(iter(Wire(io.BytesIO(done.stdout), io.BytesIO()).read, None))  # type: ignore[arg-type]
    found = answers(script)
    assert found[10] == {
        "contents": {
            "kind": "plaintext",
            "value": ".decl edge(x: symbol, y: symbol)\n// who knows whom",
        },
        "range": span(2, 7, 11),
    }
    assert found[11]["contents"]["value"] == ".decl path(x: symbol, y: symbol)"
    assert found[12] == [{"uri": program.as_uri(), "range": span(1, 6, 10)}]
    assert [(one["uri"].rpartition("/")[2], one["range"]) for one in found[13]] == [
        ("program.dl", span(2, 7, 11)),
        ("program.dl", span(5, 14, 18)),
        ("more.dl", span(0, 36, 40)),
        ("more.dl", span(0, 48, 52)),
    ]
    assert found[14] == []  # a variable
    assert found[15]["contents"]["value"].startswith("lib:f is alive")
    assert found[16] == []  # it is laid out
    assert found[17] == [
        {
            "range": {"start": {"line": 0, "character": 0}, "end": {"line": 4, "character": 7}},
            "newText": "// 😀\n.decl n(x: number)\n\nn(1).\n",
        }
    ]
    assert (found[18], found[19]) == ([], None)  # one has an error, one is no program


def test_a_save_of_rules_marks_what_each_view_gained_and_lost(tree: Path, tmp_path: Path) -> None:
    """Over real streams, with a client that waits for each answer."""
    folder = tmp_path / "rules"
    folder.mkdir()
    program, more, facts = folder / "program.dl", folder / "more.dl", folder / "edge.facts"
    program.write_text(RULES)
    more.write_text("path(x, z) :- path(x, y), edge(y, z).\n")
    facts.write_text("a\tb\nb\tc\n")
    command = ["-m", "deltafix", "lsp", "--program", str(program), "-F", str(folder)]
    server = subprocess.Popen(
        [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    killer = threading.Timer(120, server.kill)
    killer.start()
    assert server.stdin is not None
    assert server.stdout is not None
    wire = Wire(server.stdout, server.stdin)

    def marks() -> dict[str, list[tuple[int, int, str]]]:
        """What is published of the program's two files; what a mark says is not said again."""
        found: dict[str, list[tuple[int, int, str]]] = {}
        while len(found) < 2:
            message = wire.read()
            assert message is not None
            assert message.get("method") != "window/showMessage"
            params = message.get("params", {})
            name = params.get("uri", "").rpartition("/")[2]
            if name.endswith(".dl"):
                found[name] = [
                    (one["range"]["start"]["line"], one["severity"], one["message"])
                    for one in params["diagnostics"]
                ]
        return found

    with server:
        for message in begin(tree):
            wire.write(message)
        assert marks() == {"program.dl": [], "more.dl": []}
        more.write_text("path(y, x) :- edge(x, y).\n")
        wire.write(save(more))
        assert marks() == {
            "program.dl": [
                (2, 3, 'path: 2 came, 1 went\n-path("a", "c")\n+path("b", "a")\n+path("c", "b")')
            ],
            "more.dl": [],
        }
        more.write_text("path(y, x) :- edg(x, y).\n")
        wire.write(save(more))
        ((line, severity, words),) = marks()["more.dl"]
        assert (line, severity) == (0, 1)
        assert "edg" in words
        facts.write_text("b\tc\n")  # the rules stay as they were until they can be read
        wire.write(ask("workspace/didChangeWatchedFiles", changes=[{"uri": facts.as_uri()}]))
        assert marks()["program.dl"] == [
            (0, 3, 'edge: 0 came, 1 went\n-edge("a", "b")'),
            (2, 3, 'path: 0 came, 2 went\n-path("a", "b")\n-path("b", "a")'),
        ]
        more.write_text("")
        wire.write(save(more))
        assert marks() == {
            "program.dl": [(2, 3, 'path: 0 came, 1 went\n-path("c", "b")')],
            "more.dl": [],
        }
        for message in END:
            wire.write(message)
        server.stdin.close()
        assert server.wait(60) == 0
    killer.cancel()
