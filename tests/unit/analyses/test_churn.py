"""Replaying history: real commits of small repositories, and of this one."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from deltafix.analyses.dead_code import DEAD_CODE
from deltafix.analyses.dead_code.extract import extract
from deltafix.analyses.dead_code.job import DeadCode
from deltafix.analyses.history import HistoryError, Repository, UnknownRevisionError
from deltafix.analyses.replay import CommitReport, Replay, Summary
from deltafix.cli import main as command_line
from deltafix.errors import InternalError

MAIN = 'if __name__ == "__main__": '
HERE = Path(__file__).parents[3]
ALL = partial(DeadCode, confidence="likely")


class Repo:
    """A repository in a folder, to which tests commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        command = ["git", *who, "-C", str(self.folder), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, message: str, **files: str | bytes | None) -> str:
        for name, content in files.items():
            path = self.folder / (name.replace("__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.unlink()
            else:
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            command_line.main(["churn", *map(str, arguments)])
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return call


def replay(folder: Path, revisions: str, sample: int = 1) -> tuple[Replay, list[CommitReport]]:
    found = Repository.at(folder)
    first, commits = found.commits(revisions)
    with Replay(found, DEAD_CODE.tree(folder), extract, ALL, first, sample=sample) as one:
        reports = list(one.follow(commits))
        one.job.check_invariants()
    return one, reports


def symbols(findings: tuple[object, ...]) -> list[str]:
    return [finding.symbol for finding in findings]  # type: ignore[attr-defined]


def test_each_commit_is_one_epoch(repo: Repo) -> None:
    lib = "def f(): g()\ndef g(): ...\ndef h(): ...\n"
    repo.commit("one", lib=lib, main=f"import lib\n{MAIN}lib.f()\n")
    repo.commit("two", main=f"import lib\n{MAIN}lib.h()\n")
    repo.commit("a note and no code")
    repo.commit("four", lib="def h(): ...\n", main=f"import lib\n{MAIN}lib.h()\n")
    started, (two, three, four) = replay(repo.folder, "HEAD~3..")
    assert symbols(started.first.change.became_dead) == ["lib:h"]
    assert (two.commit.subject, symbols(two.change.became_dead)) == ("two", ["lib:f", "lib:g"])
    assert symbols(two.change.became_alive) == ["lib:h"]
    assert (three.files, three.facts_changed, three.work.touched) == (0, 0, 0)
    assert four.change.gone == ("lib:f", "lib:g")
    # Work follows the change: fewer rows than a full run, whose answers were compared.
    assert two.scratch is not None
    assert 0 < two.work.touched < two.scratch.touched


def test_what_is_no_source_is_skipped_with_a_reason(repo: Repo, run: Callable) -> None:
    repo.commit("one", m=f"def f(): ...\n{MAIN}f()\n", n="def old(): ...\n")
    os.symlink("m.py", repo.folder / "link.py")
    repo.commit("two", n=b"\x7fELF\x00\x01", broken="def (:")
    (repo.folder / "link.py").unlink()
    repo.commit("three", n="def new(): ...\n", broken=None)
    _, (two, three) = replay(repo.folder, "HEAD~2..HEAD")
    assert dict(two.skipped) == {
        "link.py": "a symbolic link",
        "n.py": "a binary file",
        "broken.py": "line 1: invalid syntax",
    }
    assert two.change.gone == ("n", "n:old")  # the facts that the file stated are out
    assert symbols(three.change.became_dead) == ["n", "n:new"]
    code, _, err = run(repo.folder, "HEAD~2..HEAD", "--quiet")
    assert (code, err) == (0, "")
    assert "n.py skipped: a binary file" in run(repo.folder, "HEAD~2..")[2]


def test_random_histories_end_where_their_files_say(repo: Repo) -> None:
    draw = random.Random(4)
    call = "import f{} as x\n    x()\n"
    names = ["a", "b", "c", "p__d"]
    first = repo.commit("start", main=f"import a\n{MAIN}a.f0()\n")
    held: dict[str, str] = {"main": f"import a\n{MAIN}a.f0()\n"}
    for step in range(8):
        name = draw.choice(names)
        body = "".join(
            f"def f{i}():\n    from {draw.choice('abc')} {call.format(draw.randrange(3))}"
            for i in range(3)
        )
        gone = name in held and draw.random() < 0.3
        repo.commit(f"step {step}", **{name: None if gone else body})
        held.pop(name, None) if gone else held.update({name: body})
    found = Repository.at(repo.folder)
    begun, commits = found.commits(f"{first}..HEAD")
    with (
        Replay(found, DEAD_CODE.tree(repo.folder), extract, ALL, begun, sample=1) as one,
        ALL() as judge,
    ):
        assert all(report.scratch is not None for report in one.follow(commits))
        judge.update(
            extract(f"{name.replace('__', '/')}.py", text.encode()) for name, text in held.items()
        )
        assert one.job.dead() == judge.dead()


def test_a_wrong_view_is_told_and_not_timed(repo: Repo) -> None:
    repo.commit("one", m="def f(): ...\n")
    repo.commit("two", m="def g(): ...\n")
    found = Repository.at(repo.folder)
    first, commits = found.commits("HEAD~1..")
    tree = DEAD_CODE.tree(repo.folder)
    made = iter([{"roots": ["none"]}, {"roots": ["m:g"]}])  # the second judges by other rules
    with (
        Replay(
            found,
            tree,
            extract,
            lambda: ALL(**next(made)),
            first,
            sample=1,
        ) as one,
        pytest.raises(InternalError, match="not that of its files"),
    ):
        list(one.follow(commits))


def test_only_the_folder_asked_for_is_replayed(repo: Repo) -> None:
    repo.commit("one", src__m="def _f(): ...\n", other="def o(): ...\n")
    repo.commit("two", src__m="def _g(): ...\n", other="def p(): ...\n", src__build__x="x = 1\n")
    started, (two,) = replay(repo.folder / "src", "HEAD~1..")
    assert symbols(started.first.change.became_dead) == ["m:_f"]
    assert (symbols(two.change.became_dead), two.files) == (["m:_g"], 1)


@pytest.mark.parametrize(
    ("revisions", "code", "message"),
    [
        ("nothing..HEAD", "DF671", "there is no commit 'nothing'"),
        ("--output=x..HEAD", "DF671", "cannot be a revision"),
        ("HEAD..--exec=x", "DF671", "cannot be a revision"),
        ("HEAD", "DF670", "is not a range; write REV..REV"),
        ("HEAD~1...HEAD", "DF670", "is not a range"),
        ("HEAD..HEAD~1", "DF670", "HEAD is not an ancestor of HEAD~1"),
    ],
)
def test_a_range_that_is_none_is_told(
    repo: Repo, run: Callable, revisions: str, code: str, message: str
) -> None:
    repo.commit("one", m="x = 1\n")
    repo.commit("two", m="x = 2\n")
    exit_code, out, err = run("--quiet", "--", repo.folder, revisions)
    assert (exit_code, out) == (2, "")
    assert err.startswith(f"error[{code}]: ")
    assert message in err
    with pytest.raises(UnknownRevisionError if code == "DF671" else HistoryError):
        Repository.at(repo.folder).commits(revisions)


def test_a_folder_without_a_repository_is_told(tmp_path: Path, run: Callable) -> None:
    code, _, err = run(tmp_path, "HEAD~1..")
    assert code == 2
    assert "is not in a git repository" in err
    assert "is not a folder" in run(tmp_path / "nothing", "HEAD~1..")[2]


def test_medians_are_over_the_commits_that_changed_a_fact(repo: Repo) -> None:
    repo.commit("one", m="def f(): ...\n")
    repo.commit("nothing")
    repo.commit("three", m="def g(): ...\n")
    started, reports = replay(repo.folder, "HEAD~2..", sample=0)
    assert all(one.scratch is None for one in reports)
    summary = Summary.of(reports, started.first.work)
    assert (summary.commits, summary.changing) == (2, 1)
    share = reports[1].work.touched / started.first.work.touched
    assert summary.touched == pytest.approx(share)
    assert Summary.of([], started.first.work).faster is None


@pytest.mark.skipif(not (HERE / ".git").exists(), reason="not a checkout: no history to replay")
def test_this_repositorys_own_history_gives_a_table(run: Callable) -> None:
    folder = HERE / "src" / "deltafix" / "analyses"
    code, out, err = run(folder, "HEAD~4..HEAD", "--sample", "2", "--names")
    assert (code, err) == (0, "")
    lines = [line for line in out.splitlines() if not line.startswith("  ")]
    assert lines[0].endswith("s")
    assert lines[1].split()[:4] == ["commit", "files", "died", "rose"]
    assert len(lines) == 2 + 4 + 1
    assert lines[-1].startswith("4 commits, ")

    data = json.loads(run(folder, "HEAD~4..HEAD", "--sample", "2", "--format", "json")[1])
    assert (data["event"], data["analysis"], len(data["commits"])) == ("churn", "dead-code", 4)
    assert [one["scratch"] is not None for one in data["commits"]] == [True, True, False, True]
    for row, one in zip(lines[2:-1], data["commits"], strict=True):
        assert row.split()[0] == one["commit"]["short"]
        assert int(row.split()[5]) == one["work"]["touched"]
        assert one["work"]["touched"] < data["start"]["work"]["touched"]


def test_any_analysis_goes_through_the_commits(repo: Repo, run: Callable) -> None:
    repo.commit("one", lib="def f(): g()\ndef g(): ...\n", main="import lib\nlib.f()\n")
    repo.commit("two", lib="def f(): ...\ndef g(): f()\n")
    repo.commit("three", main=None)
    asked = (repo.folder, "HEAD~2..", "--analysis", "call-graph", "--sample", "1", "-q")
    code, out, _ = run(*asked, "--names")
    lines = out.splitlines()
    assert (code, lines[1].split()[2:4]) == (0, ["came", "went"])
    assert "2 rows" in lines[0]
    assert [line for line in lines if line.startswith("  ")] == [
        '  + calls("lib:g", "lib:f").',
        '  - calls("lib:f", "lib:g").',
        '  - calls("main", "lib:f").',
    ]
    told = json.loads(run(*asked, "--format", "json")[1])
    assert told["commits"][1]["went"] == {"calls": [["main", "lib:f"]]}
    assert told["commits"][1]["scratch"]["touched"] > told["commits"][1]["work"]["touched"] > 0
    assert run(*asked, "--roots", "public")[0] == 2
    assert run(repo.folder, "HEAD~2..", "--analysis", "nothing")[0] == 2


def test_what_becomes_unused_is_told_too(repo: Repo, run: Callable) -> None:
    repo.commit("one", m=f"import os\ndef _f(): return os\n{MAIN}_f()\n")
    repo.commit("two", m=f"import os\ndef _f(): ...\n{MAIN}_f()\n")
    repo.commit("three", m=f"import os\ndef _f(): ...\n{MAIN}os._exit(1)\n")
    asked = (repo.folder, "HEAD~2..", "--also", "imports", "--sample", "1", "-q")
    code, out, _ = run(*asked, "--names")
    assert (code, out.splitlines()[1].split()[2:4]) == (0, ["found", "mended"])
    assert [line for line in out.splitlines() if line.startswith("  ")] == [
        "  + m.py:1: unused import m:os",
        "  + m.py:2: function m:_f",
        "  - no longer unused: m:os",
    ]
    told = json.loads(run(*asked, "--format", "json")[1])["commits"]
    assert [one["symbol"] for one in told[0]["became_unused"]] == ["m:os"]
    assert told[1]["no_longer_unused"] == ["m:os"]
    assert run(*asked, "--analysis", "call-graph")[0] == 2


def test_a_comment_says_what_is_left_of_all_commits(repo: Repo, run: Callable) -> None:
    repo.commit("one", m=f"class _C:\n    def f(self): ...\n{MAIN}_C().f()\n", n=f"{MAIN}_g()\n")
    repo.commit("two", m=f"\nclass _C:\n    def f(self): ...\n{MAIN}print()\n")
    repo.commit("three", n=f"def _a(): ...\ndef _b(): _a()\n{MAIN}print()\n")
    repo.commit("four", n=f"\n\ndef _b(): ...\n{MAIN}print()\n")
    asked = (repo.folder, "HEAD~3..", "--format", "markdown", "-q")
    code, out, _ = run(*asked)
    assert code == 0
    assert out.splitlines()[:9] == [
        "<!-- deltafix churn dead-code -->",
        "### deltafix: dead code",
        "2 more, 0 less",
        "",
        "|  | where | new |",
        "| --- | --- | --- |",
        "| `+` | `m.py:2` | `dead class m:_C` |",  # with what is in it
        "| `+` | `n.py:3` | `dead function n:_b` |",  # where it stands at the end
        "",
    ]
    commits = [line for line in out.splitlines() if line.count("|") > 6]
    assert [line.split("`")[-2] for line in commits[2:]] == ["two", "three", "four"]
    back = run(repo.folder, "HEAD~3..HEAD~2", "--format", "markdown", "-q")[1]
    assert "2 more" not in back
    calls = run(*asked, "--analysis", "call-graph")[1].splitlines()
    assert calls[:3] == [
        "<!-- deltafix churn call-graph -->",
        "### deltafix: rows of call-graph",
        "0 more, 1 less",
    ]
    assert '| `-` |  | `calls("m", "m:_C.f")` |' in calls


def test_a_comment_has_room_for_the_worst_of_names(repo: Repo, run: Callable) -> None:
    start = repo.commit("one", m=f"{MAIN}print()\n")
    for number in range(45):
        name = f"{'|' * 70}/{number}/{'a' * 90}"
        repo.commit("|" * 200, **{name: f"def _f{number}(): ...\ndef _g(): ...\n{MAIN}1\n"})
    out = run(repo.folder, f"{start}..", "--format", "markdown", "-q", "--sample", "0")[1]
    assert out.count("| `+` |") == 60
    assert "and 30 more" in out
    assert "the last 40 of 45" in out
    assert len(out) < 65_000
