"""Where `make try-wheel` finds Pythons, and what it says where there is none."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

_FILE = Path(__file__).resolve().parents[3] / "scripts" / "pythons.py"
_SPEC = importlib.util.spec_from_file_location("pythons", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
pythons = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(pythons)


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_python_of_the_path_comes_before_pyenv_s_and_what_was_fetched(tmp_path, monkeypatch):
    path, pyenv, kept = tmp_path / "bin", tmp_path / "pyenv", tmp_path / "kept"
    first = script(path / "python3.11", "exit 0")
    script(path / "python3.13", "exit 1")  # a shim of a Python that is not there
    script(pyenv / "versions/3.11.9/bin/python3.11", "exit 0")
    second = script(pyenv / "versions/3.13.1/bin/python3.13", "exit 0")
    third = script(kept / "3.14/usr/bin/python3.14", "exit 0")
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setenv("PYENV_ROOT", str(pyenv))
    assert dict(pythons.find(kept)) == {
        "3.11": first,
        "3.12": "no release of Debian has it",
        "3.13": second,
        "3.14": third,
    }


def test_why_debian_s_cannot_be_had_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(pythons, "KEYS", script(tmp_path / "keys", ""))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(pythons.FetchError, match="on Debian alone"):
        pythons.fetch("3.14", tmp_path / "kept")
    script(tmp_path / "bin/dpkg-deb", "exit 0")
    script(tmp_path / "bin/apt-get", "echo one >&2; echo 'E: no network' >&2; exit 100")
    with pytest.raises(pythons.FetchError, match=r"^apt-get: E: no network$"):
        pythons.fetch("3.14", tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []


def test_one_with_its_own_c_library_is_started_by_its_loader_wherever_it_lies(tmp_path):
    tree = tmp_path / "a tree"
    script(tree / "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", 'printf "%s\\n" "$@"')
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin/python3.14").write_text("the program")
    pythons.start(tree, "3.14")
    moved = tree.rename(tmp_path / "elsewhere")
    link = tmp_path / "python"
    link.symlink_to(moved / "usr/bin/python3.14")
    said = subprocess.run([link, "-c", "a b"], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [
        "--library-path",
        f"{moved}/lib/x86_64-linux-gnu:{moved}/usr/lib/x86_64-linux-gnu",
        "--argv0",
        str(link),
        f"{moved}/usr/bin/python3.14.program",
        "-c",
        "a b",
    ]
