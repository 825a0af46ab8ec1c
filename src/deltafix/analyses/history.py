"""A git repository's history as states and the changes between them, read through `git` itself.

    Repository.at(folder) -> commits(range) -> files(commit), changed(one, next) -> blobs(ids)

Invariant: every call is one `git` process with fixed arguments and no shell; what a user names as a
revision is resolved to a commit's full id first, and only such ids are handed on. Nothing is
written, no hook, filter or external diff of the repository is run, and the working tree is not
looked at. Paths are those below the folder given, with forward slashes.
This module knows no language: what a blob means is the analysis's business.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from deltafix.errors import DeltafixError

_HEAD = "HEAD"
_REGULAR = frozenset({"100644", "100755"})
_KINDS = {"120000": "a symbolic link", "160000": "a submodule"}
_FROM_OUTSIDE = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY")


class HistoryError(DeltafixError, ValueError):
    """The history cannot be read: not a repository, no git, a range that is none."""

    code = "DF670"


class UnknownRevisionError(HistoryError, LookupError):
    """A revision that does not exist in the repository, or cannot be one."""

    code = "DF671"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: its full id, its short id, and the first line of its message."""

    id: str
    short: str
    subject: str


@dataclass(frozen=True, slots=True)
class Blob:
    """A file in a commit. `id` is None for what is not a regular file, and `reason` says what."""

    path: str
    id: str | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository below one folder; `prefix` leads to it from the top, with a slash at its end."""

    top: Path
    prefix: str

    @classmethod
    def at(cls, folder: Path) -> Repository:
        """The repository that `folder` is in. Raises HistoryError if it is in none."""
        if not folder.is_dir():
            raise HistoryError(f"{folder} is not a folder", folder=str(folder))
        completed = _git(folder, "rev-parse", "--show-toplevel", "--show-prefix")
        if completed.returncode:
            raise HistoryError(
                f"{folder} is not in a git repository with a working tree: {_complaint(completed)}",
                folder=str(folder),
            )
        top, prefix, *_ = (os.fsdecode(completed.stdout) + "\n").split("\n")
        return cls(Path(top), prefix)

    def commit(self, revision: str) -> Commit:
        """The commit that a revision names. Raises UnknownRevisionError."""
        if not revision or revision.startswith("-") or not revision.isprintable():
            raise UnknownRevisionError(f"{revision!r} cannot be a revision", revision=revision)
        wanted = f"{revision}^{{commit}}"
        completed = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", wanted)
        if completed.returncode:
            raise UnknownRevisionError(
                f"there is no commit {revision!r} in {self.top}; a branch, a tag, HEAD~3 or the "
                "start of a commit's id would be one",
                revision=revision,
            )
        return next(self._log("--max-count=1", completed.stdout.decode("ascii").strip()))

    def commits(self, text: str) -> tuple[Commit, list[Commit]]:
        """For `REV..REV`: the first, and the commits after it, oldest first, by first parents.

        The second may be left out and is HEAD then. Raises HistoryError for what is no such range.
        """
        start, dots, end = text.partition("..")
        if not dots or not start or end.startswith("."):
            raise HistoryError(f"{text!r} is not a range; write REV..REV or REV..", range=text)
        first, last = self.commit(start), self.commit(end or _HEAD)
        if self._git("merge-base", "--is-ancestor", first.id, last.id).returncode:
            raise HistoryError(f"{start} is not an ancestor of {end or _HEAD}", range=text)
        return first, list(self._log("--reverse", f"{first.id}..{last.id}"))

    def files(self, commit: Commit) -> list[Blob]:
        """Everything below the folder in one commit, sorted by path."""
        listed = self._out(
            "ls-tree", "-r", "-z", "--full-tree", commit.id, "--", self.prefix or "."
        )
        blobs: list[Blob] = []
        for entry in listed.split(b"\0")[:-1]:
            head, _, path = entry.partition(b"\t")
            mode, _, identity = head.decode("ascii").split(" ")
            blobs.append(self._blob(path, mode, identity))
        return blobs

    def changed(self, before: Commit, after: Commit) -> tuple[list[Blob], list[str]]:
        """(files new or different in `after`, paths gone), below the folder, sorted."""
        options = ("-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")
        output = self._out("diff-tree", *options, before.id, after.id, "--", self.prefix or ".")
        fields = output.split(b"\0")[:-1]
        changed: list[Blob] = []
        gone: list[str] = []
        for head, path in zip(fields[::2], fields[1::2], strict=True):
            _, mode, _, identity, status = head.decode("ascii").split(" ")
            if status == "D":
                gone.append(self._below(path))
            else:
                changed.append(self._blob(path, mode, identity))
        return changed, gone

    def blobs(self, ids: Iterable[str]) -> dict[str, bytes]:
        """The content of blobs, by one process for all of them."""
        wanted = sorted(set(ids))
        output = self._out("cat-file", "--batch", given="".join(f"{i}\n" for i in wanted).encode())
        contents: dict[str, bytes] = {}
        at = 0
        while at < len(output):
            end = output.index(b"\n", at)
            head = output[at:end].decode("ascii").split(" ")
            if len(head) != 3:
                raise HistoryError(f"{self.top}: object {head[0]} is {head[-1]}: fetch it first")
            size = int(head[2])
            contents[head[0]] = output[end + 1 : end + 1 + size]
            at = end + size + 2
        return contents

    def _log(self, *what: str) -> Iterator[Commit]:
        output = self._out("log", "-z", "--first-parent", "--format=%H%x09%h%x09%s", *what)
        for entry in output.decode("utf-8", "replace").split("\0"):
            if entry:
                yield Commit(*entry.split("\t", 2))

    def _blob(self, path: bytes, mode: str, identity: str) -> Blob:
        below = self._below(path)
        if mode not in _REGULAR:
            return Blob(below, None, _KINDS.get(mode, f"of mode {mode}"))
        if not below.isprintable():
            return Blob(below, None, "its name is not printable text")
        return Blob(below, identity)

    def _below(self, path: bytes) -> str:
        return path.decode("utf-8", "replace").removeprefix(self.prefix)

    def _git(self, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return _git(self.top, *arguments, given=given)

    def _out(self, *arguments: str, given: bytes = b"") -> bytes:
        completed = self._git(*arguments, given=given)
        if completed.returncode:
            raise HistoryError(f"git {arguments[0]} failed in {self.top}: {_complaint(completed)}")
        return completed.stdout


def _git(folder: Path, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run git in `folder`; the repository's own programs (fsmonitor, hooks) stay off."""
    settings = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
    clean = {name: value for name, value in os.environ.items() if name not in _FROM_OUTSIDE}
    clean |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
    command = ["git", "--no-pager", *settings, "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, input=given, capture_output=True, env=clean, check=False)  # noqa: S603  fixed words and full ids
    except FileNotFoundError as error:
        raise HistoryError("git is not installed, or not on PATH") from error


def _complaint(completed: subprocess.CompletedProcess[bytes]) -> str:
    lines = completed.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[0] if lines else f"exit code {completed.returncode}"
