"""What `make release` refuses, on a small repository; and its upload, to a server of our own."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import re
import subprocess
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

_FILE = Path(__file__).resolve().parents[3] / "scripts" / "release.py"
_SPEC = importlib.util.spec_from_file_location("release", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
release = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(release)


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "deltafix"\nversion = "1.2.3"\n')
    extension = tmp_path / "editors" / "vscode"
    extension.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        (extension / name).write_text('{"version": "1.2.3"}')
    changes(tmp_path, "## [1.2.3] - 2026-02-03\n\n- one\n\n## [1.2.2] - 2026-01-01\n")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(folder, *arguments):
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", "-C", folder, *who, *arguments], check=True)


def commit(folder):
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "all")


def changes(folder, text):
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n{text}")


def test_a_clean_tree_of_one_version_has_no_problems(tree):
    assert release.problems(tree, "1.2.3") == []


def test_what_is_not_committed_is_named(tree):
    (tree / "new.py").write_text("")
    changes(tree, "## [1.2.3] - 2026-02-04\n")
    (problem,) = release.problems(tree, "1.2.3")
    assert "?? new.py" in problem
    assert "M CHANGELOG.md" in problem


def test_another_version_of_the_extension_is_named(tree):
    (tree / "editors" / "vscode" / "package-lock.json").write_text('{"version": "1.2.2"}')
    commit(tree)
    (problem,) = release.problems(tree, "1.2.3")
    assert problem == "editors/vscode/package-lock.json has version 1.2.2, and should have 1.2.3"


def test_another_version_installed_is_named(tree):
    (problem,) = release.problems(tree, "1.2.2")
    assert "1.2.3" in problem
    assert "1.2.2" in problem


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("## [Unreleased]\n\n## [1.2.3] - 2026-02-03\n", "[Unreleased]"),
        ("## [1.2.2] - 2026-02-03\n", "[1.2.2] - 2026-02-03"),
        ("## [1x2.3] - 2026-02-03\n", "[1x2.3] - 2026-02-03"),
        ("## [1.2.3]\n", "[1.2.3],"),
        ("", "no section"),
    ],
)
def test_the_changelog_begins_with_the_version_and_its_day(tree, text, said):
    changes(tree, text)
    commit(tree)
    (problem,) = release.problems(tree, "1.2.3")
    assert said in problem


def test_only_files_of_the_version_are_to_be_uploaded(tree):
    names = ["deltafix-1.2.3.tar.gz", "deltafix-1.2.3-py3-none-any.whl"]
    for name in [*names, "deltafix-1.2.2-py3-none-any.whl", "deltafix-1.2.30-py3-none-any.whl"]:
        (tree / name).write_text("")
    assert [file.name for file in release.built(tree, "1.2.3")] == names
    for name in names:
        (tree / name).rename(tree / "elsewhere")
        with pytest.raises(FileNotFoundError, match="1\\.2\\.3"):
            release.built(tree, "1.2.3")
        (tree / "elsewhere").rename(tree / name)


FIELD = rb'name="(\w+)"[^\r]*(?:\r\n[^\r]+)*\r\n\r\n(.*?)\r\n--'


class Index(BaseHTTPRequestHandler):
    """What a package index takes: who comes, and the fields of the form."""

    taken: list[tuple[str, dict[str, bytes]]]

    def do_POST(self):
        chunked = self.headers.get("Transfer-Encoding") == "chunked"
        size = int(self.headers.get("Content-Length", 0))
        form = b"".join(self.chunks()) if chunked else self.rfile.read(size)
        fields = dict(re.findall(FIELD, form, re.S))
        who = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        self.taken.append((who, {name.decode(): text for name, text in fields.items()}))
        self.send_response(200)
        self.end_headers()

    def chunks(self):
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()

    def log_message(self, *_):
        pass


@pytest.fixture
def index(monkeypatch):
    handler = type("Own", (Index,), {"taken": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("UV_PUBLISH_URL", f"http://127.0.0.1:{server.server_port}/legacy/")
        yield handler.taken
        server.shutdown()


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "deltafix-1.2.3-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        about = "Metadata-Version: 2.1\nName: deltafix\nVersion: 1.2.3\n"
        archive.writestr("deltafix-1.2.3.dist-info/METADATA", about)
    return path


def test_a_token_is_all_that_an_upload_needs(index, wheel, monkeypatch):
    pytest.importorskip("uv")
    monkeypatch.setenv("UV_PUBLISH_TOKEN", "pypi-secret")
    assert release.upload([wheel]) == 0
    ((who, fields),) = index
    assert who == "__token__:pypi-secret"
    assert (fields["name"], fields["version"]) == (b"deltafix", b"1.2.3")
    assert fields["sha256_digest"].decode() == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert fields["content"] == wheel.read_bytes()


def test_without_a_token_nothing_is_uploaded(index, wheel, monkeypatch, capsys):
    for token in (None, ""):
        if token is None:
            monkeypatch.delenv("UV_PUBLISH_TOKEN", raising=False)
        else:
            monkeypatch.setenv("UV_PUBLISH_TOKEN", token)
        assert release.upload([wheel]) == 0
        assert "nothing is uploaded" in capsys.readouterr().out
    assert index == []
