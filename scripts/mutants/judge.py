"""Runs tests on a tree: once to see which test covers which line, then on one mutant after another.

    python judge.py measure REQUEST.json     writes the coverage map of a part
    python judge.py serve REQUEST.json       answers one line of JSON for each on standard input

Invariant: the process that serves has loaded no module of the part that is changed; every mutant
is a fork of it, in a process group of its own, bounded in processor time, memory and time.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import resource
import signal
import sys
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

_MEMORY = 4 << 30
_SLACK, _TIMES = 20, 6
_LOOK = 0.2


class _Measured:
    """Gives each test a context of coverage and a time in seconds of the processor."""

    def __init__(self, coverage: Any) -> None:
        self.coverage = coverage
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self.coverage.switch_context(item.nodeid)
        start = _processor()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = _processor() - start
            self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)


class _Chosen:
    """Runs the chosen tests in the order given, and notes the one that fails.

    A test may use `_SLACK` seconds of the processor and some times what it needs unchanged: one
    that no longer ends is found at once, not when the whole budget is spent.
    """

    def __init__(self, seconds: dict[str, float], said: Path) -> None:
        self.order = {nodeid: place for place, nodeid in enumerate(seconds)}  # none: all tests
        self.seconds = seconds
        self.said = said

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = used.ru_utime + used.ru_stime + _SLACK + _TIMES * self.seconds.get(item.nodeid, 0)
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (min(int(limit), most), most))
        return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.order:
            items[:] = [item for item in items if item.nodeid in self.order]
            items.sort(key=lambda item: self.order[item.nodeid])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.said.write_text(f"{report.nodeid} (as it is loaded)")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.said.write_text(report.nodeid)


def _processor() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _arguments(request: dict[str, Any]) -> list[str]:
    return [
        *("-q", "-p", "no:cacheprovider", "-m", "not spark", "--no-header", "--tb=line"),
        # What was loaded before the fork is not rewritten, which is an error otherwise.
        *("-W", "ignore::pytest.PytestAssertRewriteWarning", "-W", "ignore::DeprecationWarning"),
        f"--basetemp={request['scratch']}/pytest",
        *(("-k", f"not {request['without']}") if request["without"] else ()),
    ]


def measure(request: dict[str, Any]) -> None:
    """Run all tests of a part under coverage; write seconds, lines by test, failures."""
    from coverage import Coverage  # noqa: PLC0415  only for measuring

    coverage = Coverage(
        config_file=False,
        data_file=f"{request['scratch']}/coverage",
        source=[f"{Path.cwd()}/{folder}" for folder in request["sources"]],
    )
    measured = _Measured(coverage)
    coverage.start()
    pytest.main([*_arguments(request), *request["tests"]], plugins=[measured])
    coverage.stop()
    data = coverage.get_data()
    lines: dict[str, dict[int, list[str]]] = {}
    for name in data.measured_files():
        by_line: dict[int, list[str]] = defaultdict(list)
        for line, contexts in data.contexts_by_lineno(name).items():
            by_line[line] = sorted(c for c in contexts if c not in measured.failed)
        lines[str(Path(name).relative_to(Path.cwd()))] = by_line
    seconds = {k: round(v, 3) for k, v in measured.seconds.items() if k not in measured.failed}
    result = {"seconds": seconds, "lines": lines, "failed": sorted(measured.failed)}
    Path(request["map"]).write_text(json.dumps(result))


def _preload(packages: list[str], never: list[str]) -> None:
    for package in packages:
        module = importlib.import_module(package)
        if package.startswith("deltafix."):
            for found in pkgutil.walk_packages(getattr(module, "__path__", []), f"{package}."):
                importlib.import_module(found.name)
    early = [name for name in sys.modules if name.startswith(tuple(never))]
    if early:
        raise SystemExit(f"loaded before it is changed: {', '.join(early)}")


def _run(request: dict[str, Any]) -> None:
    """In the fork: run the chosen tests and leave with pytest's code."""
    os.setsid()
    limit = int(request["processor"])
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    of_order = dict.fromkeys(nodeid.partition("::")[0] for nodeid in request["seconds"])
    files = [*of_order] or request["tests"]
    chosen = _Chosen(request["seconds"], Path(request["said"]))
    code = int(pytest.main([*_arguments(request), "-x", *files], plugins=[chosen]))
    os._exit(code)


def _memory(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * resource.getpagesize()


def judge(request: dict[str, Any]) -> dict[str, Any]:
    """Fork, run, wait: `killed`, `survived`, `timed out` or `no run`, and by which test."""
    said = Path(request["said"])
    said.unlink(missing_ok=True)
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _run(request)
    stopped = ""
    while True:
        done, status, used = os.wait4(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() - start > request["wall"]:
            stopped = "time"
        elif _memory(pid) > _MEMORY:
            stopped = "memory"
        if stopped:
            os.killpg(pid, signal.SIGKILL)
            _, status, used = os.wait4(pid, 0)
            break
        time.sleep(_LOOK)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # what its tests started
    by = said.read_text() if said.exists() else ""
    if os.WIFSIGNALED(status):
        slow = stopped or os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
        outcome = "timed out" if slow else "killed"
        by = by or stopped or signal.Signals(os.WTERMSIG(status)).name
    else:
        code = os.WEXITSTATUS(status)
        # No test, no kill: pytest itself may fail, and every mutant would look seen.
        outcome = "survived" if code == 0 else "killed" if by else "no run"
    return {"outcome": outcome, "by": by, "seconds": round(used.ru_utime + used.ru_stime, 1)}


def main() -> None:
    """Measure, or serve until standard input ends."""
    verb, path = sys.argv[1:]
    request = json.loads(Path(path).read_text())
    if verb == "measure":
        measure(request)
        return
    _preload(request["preload"], request["never"])
    for line in sys.stdin:
        print(json.dumps(judge({**request, **json.loads(line)})), flush=True)


if __name__ == "__main__":
    main()
