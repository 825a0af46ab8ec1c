"""Access rights: load, checks and tuple changes, in processor time.

    python -m bench.rights [--tuples 10000000] [--keep group#member] [--checks 2000] [--edits 500]

Documents in folders in folders, users in groups in groups, grants to groups on folders and
documents, denials. Half of the checks ask about users who have the document, found by
`list_users`; half about random ones, who mostly have not. Edits write a tuple and delete it again,
of each kind. Every answer of a kept relation is held against a search, which exit code 1 says
differed. Times are processor time of this process: the machine may be busy. Prints Markdown.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import deltafix.rights
from bench.report import number, table

__all__ = ["MODEL", "main", "tuples"]

MODEL = """
model
  schema 1.1
type user
type group
  relations
    define member: [user, group#member]
type folder
  relations
    define parent: [folder]
    define viewer: [user, group#member] or viewer from parent
    define blocked: [user] or blocked from parent
type document
  relations
    define parent: [folder]
    define editor: [user]
    define viewer: [group#member] or editor or viewer from parent
    define blocked: [user] or blocked from parent
    define can_read: viewer but not blocked
"""


class Sizes:
    """How many of each type there are for a number of tuples."""

    def __init__(self, count: int) -> None:
        self.users = count // 4
        self.groups = max(count // 200, 2)
        self.folders = max(count // 100, 2)
        self.documents = count * 45 // 100


def _named(kind: str, numbers: Any, end: str = "") -> Any:
    texts = pc.cast(pa.array(numbers), pa.string())
    return pc.binary_join_element_wise(f"{kind}:", texts, end, "")


def tuples(count: int, seed: int = 0) -> Iterator[Any]:
    """About so many tuples, as Arrow tables with user, relation and object."""
    random, of = np.random.default_rng(seed), Sizes(count)

    def batch(user: Any, relation: str, object_: Any) -> Any:
        relations = pa.array([relation]).take(pa.array(np.zeros(len(user), dtype=np.int32)))
        return pa.table({"user": user, "relation": relations, "object": object_})

    def some(limit: int, share: float) -> Any:
        return random.integers(0, limit, int(count * share))

    # Everything lies in a folder of a lower number, so ways up are as long as a logarithm.
    folders = np.arange(1, of.folders)
    above = (random.random(len(folders)) * folders).astype(np.int64)
    yield batch(_named("folder", above), "parent", _named("folder", folders))
    documents = np.arange(of.documents)
    inside = random.integers(0, of.folders, of.documents)
    yield batch(_named("folder", inside), "parent", _named("document", documents))
    members = some(of.users, 0.2)
    groups = random.integers(0, of.groups, len(members))
    yield batch(_named("user", members), "member", _named("group", groups))
    inner = np.arange(of.groups)[random.random(of.groups) < 0.3]
    outer = random.integers(0, of.groups, len(inner))
    yield batch(_named("group", inner, "#member"), "member", _named("group", outer))
    for kind, limit, share in (("folder", of.folders, 0.03), ("document", of.documents, 0.1)):
        granted = some(of.groups, share)
        at = random.integers(0, limit, len(granted))
        yield batch(_named("group", granted, "#member"), "viewer", _named(kind, at))
    editors = some(of.users, 0.18)
    yield batch(
        _named("user", editors), "editor",
        _named("document", random.integers(0, of.documents, len(editors))),
    )  # fmt: skip
    blocked = some(of.users, 0.01)
    yield batch(
        _named("user", blocked), "blocked",
        _named("folder", random.integers(0, of.folders, len(blocked))),
    )  # fmt: skip


def _timed(ask: Callable[[Any], Any], questions: Iterable[Any]) -> tuple[list[float], list[Any]]:
    took, answers = [], []
    for question in questions:
        began = time.process_time()
        answers.append(ask(question))
        took.append(time.process_time() - began)
    return took, answers


def _line(what: str, took: list[float], note: str = "") -> list[str]:
    micro = np.array(took) * 1e6
    shown = [f"{value:,.0f} µs" for value in (*np.percentile(micro, [50, 99]), micro.max())]
    return [what, number(len(took)), *shown, note]


def _memory() -> str:
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    return f"{pages * resource.getpagesize() / 2**20:,.0f} MB now, {peak:,.0f} MB at most"


def _edits(rights: Any, of: Sizes, random: Any, count: int) -> Iterator[list[str]]:
    """Tuples written and deleted again, by kind."""
    drawn = {
        "a user into a group": lambda: (
            f"user:{random.integers(of.users)}", "member", f"group:{random.integers(of.groups)}"
        ),
        "a group into a group": lambda: (
            f"group:{random.integers(of.groups)}#member", "member",
            f"group:{random.integers(of.groups)}",
        ),
        "a group to a folder": lambda: (
            f"group:{random.integers(of.groups)}#member", "viewer",
            f"folder:{random.integers(of.folders)}",
        ),
        "a user to a document": lambda: (
            f"user:{random.integers(of.users)}", "editor",
            f"document:{random.integers(of.documents)}",
        ),
    }  # fmt: skip
    for what, draw in drawn.items():
        took: list[float] = []
        changes = 0
        for _ in range(count):
            one = draw()
            began = time.process_time()
            delta = rights.write([one])
            took.append(time.process_time() - began)
            changes += len(delta.changes())
            if not delta.added:
                continue
            began = time.process_time()
            delta = rights.delete([one])
            took.append(time.process_time() - began)
            changes += len(delta.changes())
        yield _line(f"tuple: {what}", took, f"{changes / len(took):,.1f} changes each")


def main() -> int:
    """Measure, print, and say by the exit code whether kept and searched answers agree."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tuples", type=int, default=10_000_000)
    parser.add_argument("--keep", action="append", default=[], help="a relation to keep")
    parser.add_argument("--checks", type=int, default=2000)
    parser.add_argument("--edits", type=int, default=500)
    given = parser.parse_args()
    of, random = Sizes(given.tuples), np.random.default_rng(1)
    began, clock = time.process_time(), time.perf_counter()
    rights = deltafix.rights.open(MODEL, materialise=given.keep)
    with rights.transaction() as tx:
        for batch in tuples(given.tuples):
            tx.write(batch)
    del tx  # its delta would be copied, all of it, when the next transaction begins
    loaded = time.process_time() - began
    kept = ", ".join(given.keep) or "nothing"
    print(f"{len(rights):,} tuples, {kept} kept: loaded in {loaded:.1f} s of processor", end=" ")
    print(f"({time.perf_counter() - clock:.1f} s on the clock); {_memory()}\n")

    documents = [f"document:{n}" for n in random.integers(0, of.documents, given.checks // 2)]
    listing, users = _timed(
        lambda at: rights.list_users("can_read", at, "user").users, documents[:100]
    )
    whose = [(user, at) for at, some in zip(documents, users, strict=False) for user in some]
    chosen = random.integers(0, len(whose), given.checks // 2)
    asked = [(whose[n][0], "can_read", whose[n][1]) for n in chosen]
    asked += [(f"user:{random.integers(of.users)}", "can_read", at) for at in documents]
    lines = []
    took, answers = _timed(lambda one: rights.check(*one), asked)
    lines.append(_line("check: yes", [t for t, yes in zip(took, answers, strict=True) if yes]))
    lines.append(_line("check: no", [t for t, yes in zip(took, answers, strict=True) if not yes]))
    with rights.database.probing():
        began = time.process_time()
        again = rights.batch_check(asked)
        each = (time.process_time() - began) / len(asked)
    lines.append(["check in a batch", number(len(asked)), f"{each * 1e6:,.0f} µs", "", "", "mean"])
    size = sum(map(len, users)) / max(len(users), 1)
    lines.append(_line("list_users", listing, f"{size:,.0f} users each"))
    listing, found = _timed(
        lambda user: rights.list_objects(user, "can_read", "document"),
        [one[0] for one in asked[-20:]],
    )
    size = sum(map(len, found)) / max(len(found), 1)
    lines.append(_line("list_objects", listing, f"{size:,.0f} documents each"))
    proofs, _ = _timed(lambda one: rights.why(*one), asked[: min(100, given.checks // 2)])
    lines.append(_line("why", proofs))
    lines += _edits(rights, of, random, given.edits)
    print(table(["what", "count", "p50", "p99", "worst", ""], lines))
    print(f"\n{_memory()}; load {os.getloadavg()[0]:.1f}.")
    wrong = sum(one != other for one, other in zip(answers, again, strict=True))
    wrong += sum(not one for one in answers[: given.checks // 2])
    if wrong:
        print(f"{wrong} answers differ", file=sys.stderr)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
