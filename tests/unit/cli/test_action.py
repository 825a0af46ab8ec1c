"""On the code host: the action's steps as they are written, run by a shell, with a local API.

A step's `env` is filled as the host fills it, from inputs and the event; what it runs is run. pip
is a stand-in that writes down what it is told to install; the rest is the real thing, on a real
repository with a pull request as the host lays it out. So is the hook of pre-commit.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

ROOT = Path(__file__).parents[3]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
MAIN = 'if __name__ == "__main__": '
BEARER = "secret"
BOT, USER = "github-actions[bot]", "someone"


class Api:
    """The API's comments of one pull request. `owner` is whose the token is."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.owner = BOT
        self.refuses = 0
        self.made = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else {}
                code, answer = outer.answer(self.command, self.path, body, self.headers)
                data = b"" if answer is None else json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815  as the server names them

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def add(self, login: str, body: str) -> int:
        self.made += 1
        self.comments.append({"id": self.made, "user": {"login": login}, "body": body})
        return self.made

    def answer(self, method: str, path: str, body: dict, headers: Any) -> tuple[int, Any]:
        self.asked.append(f"{method} {urlsplit(path).path}")
        if headers["Authorization"] != f"Bearer {BEARER}":
            return 401, {}
        if path == "/user":
            return (403, {}) if self.owner == BOT else (200, {"login": self.owner})
        if self.refuses and method != "GET":
            return self.refuses, {"message": "Resource not accessible by integration"}
        if path.startswith("/repos/a/b/issues/7/comments"):
            if method == "POST":
                return 201, {"id": self.add(self.owner, body["body"])}
            asked = parse_qs(urlsplit(path).query)
            size, page = int(asked["per_page"][0]), int(asked["page"][0])
            return 200, self.comments[size * (page - 1) : size * page]
        found = re.fullmatch(r"/repos/a/b/issues/comments/(\d+)", path)
        (one,) = [c for c in self.comments if found and c["id"] == int(found[1])]
        if method == "DELETE":
            self.comments.remove(one)
            return 204, None
        one["body"] = body["body"]
        return 200, one


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()
    thread = threading.Thread(target=api.server.serve_forever)
    thread.start()
    yield api
    api.server.shutdown()
    thread.join()
    api.server.server_close()


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", *who, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, message: str, **files: str) -> str:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD")


class Checkout:
    """A repository with a pull request, and the folder of a runner beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.temp = folder / "work", folder / "temp"
        self.bin = folder / "bin"
        for one in (self.folder, self.temp, self.bin):
            one.mkdir()
        self.program("deltafix", f'exec {sys.executable} -m deltafix "$@"')
        pip = f'if [ "$1 $2" = "-m pip" ]; then echo "$@" >> {self.temp}/pip; else exec '
        self.program("python", f'{pip}{sys.executable} "$@"; fi')
        git(self.folder, "init", "--quiet", "--initial-branch=main")
        lib = "def f(): g()\ndef g(): ...\ndef h(): ...\n"
        self.base = commit(self.folder, "one", lib=lib, main=f"import lib\n{MAIN}lib.f()\n")
        git(self.folder, "checkout", "--quiet", "-b", "topic")
        commit(self.folder, "use h | @all <b>`x`", main=f"import lib\n{MAIN}lib.h()\n")
        git(self.folder, "checkout", "--quiet", "main")
        commit(self.folder, "meanwhile", other=f"def _lost(): ...\n{MAIN}print()\n")
        self.merge()

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.bin / name).chmod(0o755)

    def merge(self) -> None:
        git(self.folder, "checkout", "--quiet", "--detach", "main")
        git(self.folder, "merge", "--quiet", "--no-ff", "--message", "Merge", "topic")

    def run(
        self, api: Api, *, number: int | None = 7, step: str | None = None, **given: str
    ) -> str:
        """Every step of the action in its shell; what it prints, and exit codes that are not 0.

        `step` is the only one to run: of a job that was run until there, with the same inputs.
        """
        event = {"pull_request": {"number": number, "base": {"sha": self.base}}} if number else {}
        (self.temp / "event.json").write_text(json.dumps(event))
        (self.temp / "summary").write_text("")
        known = {f"inputs.{name}": one["default"] for name, one in ACTION["inputs"].items()}
        known |= {f"inputs.{name}": one for name, one in {"token": BEARER, **given}.items()}
        known |= {
            "github.event.pull_request.base.sha": self.base if number else "",
            "runner.temp": str(self.temp),
        }
        around = {
            **os.environ,
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_API_URL": api.url,
            "GITHUB_EVENT_PATH": str(self.temp / "event.json"),
            "GITHUB_REF": "refs/pull/7/merge" if number else "refs/heads/main",
            "GITHUB_REPOSITORY": "a/b",
            "GITHUB_STEP_SUMMARY": str(self.temp / "summary"),
            "RUNNER_TEMP": str(self.temp),
        }
        said = ""
        for each in ACTION["runs"]["steps"]:
            if not holds(each.get("if"), known) or "uses" in each:
                continue
            if step not in (None, each["name"]):
                continue
            assert each["shell"] == "bash"
            assert "${{" not in each["run"]  # what anybody writes is no part of a script
            env = {name: filled(one, known) for name, one in each.get("env", {}).items()}
            done = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", each["run"]],
                cwd=self.folder, env={**around, **env}, capture_output=True, text=True, check=False,
                timeout=300,
            )  # fmt: skip
            said += done.stdout + done.stderr
            if done.returncode:
                return f"{said}{each['name']} failed"
        return said

    @property
    def summary(self) -> str:
        return (self.temp / "summary").read_text()


def filled(text: str, known: dict[str, str]) -> str:
    return re.sub(r"\$\{\{\s*(.+?)\s*\}\}", lambda found: known[found[1]], text)


def holds(condition: str | None, known: dict[str, str]) -> bool:
    if condition is None:
        return True
    name, value = condition.split(" == ")
    return known[name] == value.strip("'")


@pytest.fixture
def checkout(tmp_path: Path, warm_kernel: None) -> Checkout:
    return Checkout(tmp_path)


def test_a_pull_request_gets_one_comment_that_follows_it(checkout: Checkout, api: Api) -> None:
    mark = "<!-- deltafix churn dead-code -->"
    kept = [api.add(USER, f"{mark}\nmine") for _ in range(150)]  # on the second page is ours
    assert "deltafix: commented" in checkout.run(api)
    (ours,) = [one for one in api.comments if one["user"]["login"] == BOT]
    lines = ours["body"].splitlines()
    assert lines[:3] == [mark, "### deltafix: dead code", "2 more, 1 less"]
    assert "| `+` | `lib.py:1` | `dead function lib:f` |" in lines
    assert "| `+` | `lib.py:2` | `dead function lib:g` |" in lines
    assert "| `-` | `lib.py:3` | `dead function lib:h` |" in lines
    assert "lost" not in ours["body"]  # of the branch that it goes to
    assert checkout.summary.strip() == ours["body"]

    assert "says so already" in checkout.run(api)
    git(checkout.folder, "checkout", "--quiet", "topic")
    commit(checkout.folder, "both", main=f"import lib\n{MAIN}lib.h(), lib.f()\n")
    checkout.merge()
    assert "updated the comment" in checkout.run(api)
    assert "0 more, 1 less" in ours["body"]
    twice = api.add(BOT, f"{mark}\nanother run at the same time")
    assert "updated" not in checkout.run(api, step="Comment")
    assert [one["id"] for one in api.comments] == [*kept, ours["id"]]
    assert twice not in {one["id"] for one in api.comments}
    assert all(one["body"] == f"{mark}\nmine" for one in api.comments[:150])
    assert (checkout.temp / "pip").read_text().split("\n")[
        0
    ] == "-m pip install --quiet -- deltafix"


def test_a_token_of_its_own_has_comments_of_its_own(checkout: Checkout, api: Api) -> None:
    api.owner = USER
    checkout.run(api)
    checkout.run(api, step="Comment")
    assert [one["user"]["login"] for one in api.comments] == [USER]


def test_a_fork_without_a_token_that_writes_gets_a_summary(checkout: Checkout, api: Api) -> None:
    for code, step in ((403, None), (404, "Comment"), (401, "Comment")):
        api.refuses = code
        said = checkout.run(api, step=step)
        assert f"the token may not comment ({code}): see the job's summary" in said
        assert api.comments == []
        assert "2 more, 1 less" in checkout.summary


def test_where_nobody_is_to_be_told_the_summary_is_all(checkout: Checkout, api: Api) -> None:
    assert "no comment is wanted" in checkout.run(api, comment="false")
    assert "there is no token" in checkout.run(api, step="Comment", token="")
    said = checkout.run(api, number=None, base="main~1", head="main")
    assert "this is no pull request" in said
    assert "dead function other:_lost" in checkout.summary
    assert api.asked == []


def test_what_goes_wrong_fails_the_job_and_says_why(checkout: Checkout, api: Api) -> None:
    api.refuses = 500
    assert checkout.run(api).endswith("Comment failed")
    said = checkout.run(api, number=None)
    assert "where the pull request begins is not in this checkout" in said
    assert said.endswith("Compare failed")
    said = checkout.run(api, base="nowhere")
    assert "error[DF671]" in said
    assert said.endswith("Compare failed")


def test_inputs_choose_what_is_compared_and_are_never_run(checkout: Checkout, api: Api) -> None:
    commit(checkout.folder, "unused", lib="import os\ndef h(): ...\n")
    options = "--also imports --exclude *.md"
    checkout.run(api, base="HEAD~1", options=options, version="==0.1.0")
    assert "| `+` | `lib.py:1` | `unused import lib:os` |" in checkout.summary
    checkout.run(api, options="; touch hurt", folder=".", install="$(touch hurt)")
    assert not (checkout.folder / "hurt").exists()
    installed = (checkout.temp / "pip").read_text().splitlines()
    assert [one.split(" -- ")[1] for one in installed] == ["deltafix==0.1.0", "$(touch hurt)"]


def test_code_scanning_gets_what_is_dead_now(checkout: Checkout, api: Api) -> None:
    assert "failed" not in checkout.run(api, sarif="true")
    results = json.loads((checkout.temp / "deltafix.sarif").read_text())["runs"][0]["results"]
    assert {one["message"]["text"] for one in results} >= {"dead function lib:f"}
    upload = ACTION["runs"]["steps"][-1]
    assert filled(upload["with"]["sarif_file"], {"runner.temp": "t"}) == "t/deltafix.sarif"


def test_what_people_write_stays_text_in_the_comment(checkout: Checkout, api: Api) -> None:
    checkout.run(api, base="main~1", head="topic")
    (line,) = [one for one in checkout.summary.splitlines() if "@all" in one]
    assert line.endswith("| `` use h \\| @all <b>`x` `` |")


# -- pre-commit --------------------------------------------------------------------------------


def test_the_hook_of_pre_commit_refuses_what_leaves_dead_code(checkout: Checkout) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    program, *arguments = shlex.split(hook["entry"])
    assert program in scripts
    assert (hook["language"], hook["pass_filenames"], hook["always_run"]) == ("python", False, True)
    git(checkout.folder, "checkout", "--quiet", "main")

    def committed() -> subprocess.CompletedProcess[str]:
        """As pre-commit runs it: in the folder of the repository, without names of files."""
        command = [str(checkout.bin / program), *arguments]
        return subprocess.run(
            command, cwd=checkout.folder, capture_output=True, text=True, check=False, timeout=300
        )

    done = committed()
    assert (done.returncode, done.stderr) == (1, "")
    assert "lib.py:3: dead function lib:h" in done.stdout
    (checkout.folder / "lib.py").write_text("def f(): ...\n")
    (checkout.folder / "other.py").unlink()
    done = committed()
    assert (done.returncode, done.stdout.count("dead function")) == (0, 0)


def test_what_the_page_shows_is_there() -> None:
    page = (ROOT / "docs" / "guides" / "editors.md").read_text()
    workflow, hooks = (
        yaml.safe_load(block) for block in re.findall(r"```yaml[^\n]*\n(.*?)```", page, re.DOTALL)
    )
    (job,) = workflow["jobs"].values()
    (step,) = [one for one in job["steps"] if "/deltafix@" in one["uses"]]
    assert set(step["with"]) <= set(ACTION["inputs"])
    assert workflow["permissions"]["pull-requests"] == "write"
    table = page.partition("| input |")[2].partition("\n\n")[0]
    named = {
        name for row in table.splitlines()[2:] for name in re.findall("`(.+?)`", row.split("|")[1])
    }
    assert named == set(ACTION["inputs"])
    (shown,) = hooks["repos"][0]["hooks"]
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert shown["id"] == hook["id"]
    assert shown["entry"].startswith(hook["entry"])
    assert {name: shown[name] for name in ("always_run", "pass_filenames")} == {
        name: hook[name] for name in ("always_run", "pass_filenames")
    }
