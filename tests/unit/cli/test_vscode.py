"""The extension for Visual Studio Code: its own code and client under node, with a real server.

The module `vscode` is a stand-in (`editors/vscode/test`), which has what the extension and its
client library ask for and fails by name for all else.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

EXTENSION = Path(__file__).parents[3] / "editors" / "vscode"
NODE, NPM = shutil.which("node"), shutil.which("npm")
MANIFEST = json.loads((EXTENSION / "package.json").read_text())

pytestmark = pytest.mark.skipif(NODE is None or NPM is None, reason="no node with npm here")


class Code:
    """An editor with the extension in it, asked by lines of JSON."""

    def __init__(self) -> None:
        command = [str(NODE), str(EXTENSION / "test" / "drive.js")]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, op: str, **given: object) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        asked = {name: str(one) if isinstance(one, Path) else one for name, one in given.items()}
        self.process.stdin.write(f"{json.dumps({'op': op, **asked})}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "node has ended"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["answer"]

    def until(self, op: str, holds: Callable[[Any], bool]) -> Any:
        """Ask until an answer is as wanted: what the server tells comes when it comes."""
        found = None
        for _ in range(1200):
            found = self(op)
            if holds(found):
                return found
            time.sleep(0.05)
        raise AssertionError(found)


@pytest.fixture(scope="module")
def _modules() -> None:
    if not (EXTENSION / "node_modules").is_dir():
        command = [str(NPM), "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=EXTENSION, check=True, capture_output=True, timeout=500)


@pytest.fixture
def code(_modules: None) -> Iterator[Code]:
    code = Code()
    with code.process:
        yield code
        assert code.process.stdin is not None
        code.process.stdin.close()
        try:
            assert code.process.wait(60) == 0  # and the server with it
        finally:
            code.process.kill()


@pytest.fixture
def tree(tmp_path: Path, warm_kernel: None) -> Path:
    folder = tmp_path / "shop"
    (folder / ".venv" / "bin").mkdir(parents=True)
    program = folder / ".venv" / "bin" / "deltafix"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m deltafix "$@"\n')
    program.chmod(0o755)
    (folder / "lib.py").write_text("import os\n\n\ndef f(): g()\ndef g(): ...\ndef h(): ...\n")
    (folder / "main.py").write_text('import lib\nif __name__ == "__main__": lib.f()\n')
    return folder


SETTINGS = {"path": ".venv/bin/deltafix"}


def messages(marks: list[dict[str, Any]]) -> list[str]:
    return sorted(one["message"].split(":")[0] + f":{one['range'][0]}" for one in marks)


def test_marks_hovers_uses_and_fixes_reach_the_editor(code: Code, tree: Path) -> None:
    lib, main = tree / "lib.py", tree / "main.py"
    assert code("activate", folder=tree, settings=SETTINGS) == [
        one["command"] for one in MANIFEST["contributes"]["commands"]
    ]
    (mark,) = code.until("marks", lambda found: len(found) == 1)
    assert mark == {
        "file": str(lib),
        "message": "dead function lib:h: nothing alive reaches it",
        "severity": 1,
        "tags": [1],
        "range": [5, 4, 5, 5],
    }
    code("open", file=lib)
    code("open", file=main)
    assert code("hover", file=lib, line=4, character=4).endswith("lib:f refers to lib:g")
    use = {"file": main, "line": 1, "character": len('if __name__ == "__main__": lib.')}
    assert code("definition", **use) == [{"file": str(lib), "line": 3, "character": 4}]
    assert code("references", file=lib, line=3, character=4) == [
        {"file": str(main), "line": 1, "character": use["character"]}
    ]
    delete, keep = code("actions", file=lib, line=5)
    assert delete["title"] == "Delete dead function lib:h with what refers to it"
    assert delete["of"] == 1  # it is the fix of this mark
    assert delete["changes"] == [{"file": str(lib), "deleted": False, "edits": [[5, 0, 6, 0, ""]]}]
    assert keep["changes"][0]["edits"] == [[5, 12, 5, 12, "  # deltafix: keep"]]

    code("type", file=lib, line=0, character=0, text="# as typed\n")
    (delete, _) = code("actions", file=lib, line=6)
    assert delete["changes"][0]["edits"] == [[6, 0, 7, 0, ""]]
    code("save", file=lib)
    code.until("marks", lambda found: [one["range"][0] for one in found] == [6])
    main.write_text('import lib\nif __name__ == "__main__": lib.h()\n')
    assert code("changed", file=main) == ["**/*"]
    code.until("marks", lambda found: {one["range"][0] for one in found} == {4, 5})
    assert code("messages") == []


def test_settings_go_to_the_running_server(code: Code, tree: Path) -> None:
    code("activate", folder=tree, settings={**SETTINGS, "also": ["imports"]})
    found = code.until("marks", bool)
    assert messages(found) == ["dead function lib:5", "unused import lib:0"]
    code("configure", settings={**SETTINGS, "roots": ["lib:*"]})
    code.until("marks", lambda found: found == [])
    code("configure", settings={**SETTINGS, "roots": ["lib:f"], "also": ["imports"]})
    found = code.until("marks", lambda found: len(found) == 2)
    assert messages(found) == ["dead function lib:5", "unused import lib:0"]
    loads = [line for line in code("output") if " facts" in line]
    assert len(loads) == 3  # what is the same is not loaded again


def test_the_commands_show_why_and_restart(code: Code, tree: Path) -> None:
    code("activate", folder=tree, settings=SETTINGS)
    code.until("marks", bool)
    here = {"file": tree / "lib.py", "line": 5, "character": 4}
    said = code("command", name="deltafix.showWhy", **here)
    assert said.startswith("lib:h is dead: nothing refers to it")
    assert said in code("output")
    assert code("command", name="deltafix.showWhy", **{**here, "line": 1, "character": 0}) is None
    assert len(code("messages")) == 1
    code("command", name="deltafix.restart")
    code.until("output", lambda lines: len([one for one in lines if " facts" in one]) == 2)
    assert len(code.until("marks", bool)) == 1


def test_a_program_that_is_not_there_is_told_and_can_be_mended(code: Code, tree: Path) -> None:
    code("activate", folder=tree, settings={"path": str(tree / "nothing")})
    told = code("messages")[-1]
    assert f"{tree / 'nothing'} failed" in told
    assert told.endswith("or say where it is in deltafix.path")
    assert code("command", name="deltafix.showWhy") is None
    code("configure", settings=SETTINGS)
    assert len(code.until("marks", bool)) == 1


def test_the_settings_are_those_of_the_server() -> None:
    """Names, types and choices of the manifest, as the server checks them."""
    from deltafix.cli.lsp import settings_of

    properties = MANIFEST["contributes"]["configuration"]["properties"]
    said = {name.removeprefix("deltafix."): one for name, one in properties.items()}
    analysis = {name: one for name, one in said.items() if name not in {"path", "arguments"}}
    defaults = settings_of({"deltafix": {name: one["default"] for name, one in analysis.items()}})
    assert len(defaults) == len(analysis)
    every = {name: one["items"].get("enum", []) for name, one in analysis.items() if "items" in one}
    assert settings_of(every)["also"] == ("imports", "locals", "arguments", "attributes")
    for choice in said["confidence"]["enum"]:
        assert settings_of({"confidence": choice}) == {"confidence": choice}
