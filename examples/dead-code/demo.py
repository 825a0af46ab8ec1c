"""Dead code in a package of 500 modules, through Spark, and then kept up to date.

    python examples/dead-code/demo.py            # copies pyspark's own Python sources
    python examples/dead-code/demo.py --package pandas --local

Copies an installed package into a scratch folder, analyses it, removes one call and deletes one
file there, shows what became dead or alive, and checks that the result equals a recomputation from
scratch. Which call and which file is not written here: it is chosen from the analysis.
"""

from __future__ import annotations

import argparse
import ast
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

from deltafix.analyses.dead_code import DEAD_CODE
from deltafix.analyses.dead_code.findings import short_name
from deltafix.analyses.dead_code.job import DeadCode
from deltafix.analyses.dead_code.report import Change
from deltafix.analyses.files import Tree
from deltafix.analyses.reading import read_fragments
from deltafix.analyses.watch import Watcher
from deltafix.cli.console import prepare_kernel
from deltafix.cli.source_trees import extractor
from deltafix.diagnostics import plural

VIEWS = ("live", "dead", "sure")
ROOTS = ("public",)  # the package is a library: what its users may name is alive


def main() -> int:
    """Run the demo; 0 if every step did what it should."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--package", default="pyspark", help="an installed package to copy")
    parser.add_argument("--local", action="store_true", help="extract without Spark")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="deltafix-demo-") as scratch:
        root = copy_package(options.package, Path(scratch))
        tree = DEAD_CODE.tree(root)
        print(f"copied {plural(len(tree.scan().files), 'module')} of {options.package} to {root}")
        prepare_kernel()
        with DeadCode(roots=ROOTS, confidence="likely") as job:
            many = extractor(tree, DEAD_CODE.extract, spark=not options.local)
            how = "in this process" if options.local else "Spark"
            return run(Watcher(tree, job, DEAD_CODE.extract, many), how)


def copy_package(name: str, scratch: Path) -> Path:
    """Copy a package's .py files; the package is found, not imported."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"{name} is not an installed package")
    source = Path(next(iter(spec.submodule_search_locations)))
    target = scratch / name
    for path in source.rglob("*.py"):
        to = target / path.relative_to(source)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
    return target


def run(watcher: Watcher, how: str) -> int:
    """The full run, an edit, a deletion, and the comparison with a recomputation."""
    job = watcher.job
    title(f"1. Everything, extracted by {how}")
    start = time.perf_counter()
    if watcher.poll() is None:
        sys.exit("the copied package has no source files")
    total = time.perf_counter() - start
    dead = job.dead()
    for finding in [one for one in dead if one.inside is None][:8]:
        print(f"  {finding.path}:{finding.line}: dead {finding.kind} {finding.symbol}")
    print(f"  … {plural(len(dead), 'dead symbol')} among {job.symbol_count:,}")
    rules = job.last_work.seconds
    print(f"  {job.fact_count:,} facts; {total:.1f} s, of which rules {rules:.2f} s")

    title("2. One call removed")
    path, symbol, user = remove_a_call(watcher.tree, job)
    print(f"  {user} was the only one to call {symbol}; its call in {path} is now None")
    first, one = told(watcher)
    if symbol not in {finding.symbol for finding in first.became_dead}:
        return failed(f"{symbol} did not become dead")

    title("3. One file deleted")
    path = file_to_delete(job, {path})
    (watcher.tree.root / path).unlink()
    second, two = told(watcher)
    looked = one + two
    if not second.became_dead and not second.gone:
        return failed(f"nothing changed when {path} was deleted")

    title("4. Beside a recomputation from scratch")
    start = time.perf_counter()
    with DeadCode(roots=ROOTS, confidence="likely") as fresh:
        fresh.update(
            list(read_fragments(watcher.tree, list(watcher.tree.scan().files), DEAD_CODE.extract))
        )
        whole = time.perf_counter() - start
        rules = fresh.last_work.seconds
        different = [view for view in VIEWS if fresh.rows(view) != job.rows(view)]
        facts = fresh.fact_count
    if different:
        return failed(f"the views {', '.join(different)} differ from the recomputation")
    both = first.work.seconds + second.work.seconds
    touched = first.work.touched + second.work.touched
    print(f"  recomputed  {facts:,} facts: {whole:.2f} s, {rules:.2f} s without extraction")
    print(
        f"  updated     {touched:,} facts touched: {looked:.3f} s, {both:.3f} s without extraction"
    )
    print(f"  {whole / looked:.0f} times faster, {rules / both:.0f} times without extraction")
    print(f"  The updated views equal the recomputation, row for row: {', '.join(VIEWS)}.")
    return 0


def told(watcher: Watcher) -> tuple[Change, float]:
    """The change since the last look, printed, and the seconds it took to look and update."""
    start = time.perf_counter()
    change = watcher.poll()
    seconds = time.perf_counter() - start
    if change is None:
        sys.exit("the edit was not seen")
    print("  " + change.text().replace("\n", "\n  "))
    return change, seconds


# -- choosing what to edit ------------------------------------------------------------------------


Supports = dict[str, set[tuple[str, str]]]
"""symbol -> (user, how): every living user that keeps it alive, and in which way."""

FOREVER = ("*", "root or attribute name")  # a support that removing one symbol does not take away


def supports(job: DeadCode) -> Supports:
    """What keeps each living symbol alive, itself and what is inside it excluded."""
    alive = {row[0] for row in job.rows("alive")}
    wanted = {row[0] for row in job.rows("wanted")}
    found: Supports = defaultdict(set)
    for symbol, _ in job.rows("root"):
        found[symbol].add(FOREVER)
    for symbol, owner, name in job.rows("named"):
        if name in wanted and owner in alive:
            found[symbol].add(FOREVER)
    for user, symbol, how in job.rows("link"):
        if user in alive and not user.startswith((f"{symbol}.", f"{symbol}:")) and user != symbol:
            found[symbol].add((user, how))
    return found


def falls_with(lost: set[str], found: Supports) -> set[str]:
    """The symbols that lose every support when those in `lost` go, directly or in turn."""
    users: dict[str, set[str]] = defaultdict(set)
    for symbol, by in found.items():
        for user, _ in by:
            users[user].add(symbol)
    fallen, front = set(lost), set(lost)
    while front:
        near = {symbol for user in front for symbol in users[user]} - fallen
        front = {symbol for symbol in near if all(user in fallen for user, _ in found[symbol])}
        fallen |= front
    return fallen - lost


def remove_a_call(tree: Tree, job: DeadCode) -> tuple[str, str, str]:
    """Remove the call on which most depends, among functions that one function alone calls.

    Returns (path, function, caller).
    """
    found = supports(job)
    paths = {place.symbol: path for path in job.paths for place in job.places(path)}
    kinds = dict(job.rows("symbol"))
    lonely = []
    for symbol, by in found.items():
        if kinds.get(symbol) == "function" and "<locals>" not in symbol and len(by) == 1:
            user, how = next(iter(by))
            if how == "refers to" and ":" in user and paths.get(symbol) == paths.get(user):
                lonely.append((symbol, user))
    ranked = sorted(lonely, key=lambda pair: (-len(falls_with({pair[0]}, found)), pair))
    for symbol, user in ranked:
        path = tree.root / paths[symbol]
        edited = without_calls(path.read_text(encoding="utf-8"), user, short_name(symbol))
        if edited is not None:
            path.write_text(edited, encoding="utf-8")
            return paths[symbol], symbol, user
    sys.exit("no function of this package has a single caller")


def without_calls(source: str, user: str, name: str) -> str | None:
    """The source with `name(…)` replaced by None within `user`; None if it is not only called."""
    body: ast.AST = ast.parse(source)
    for part in user.partition(":")[2].replace(".<locals>", "").split("."):
        inner = [n for n in ast.walk(body) if getattr(n, "name", None) == part]
        if len(inner) != 1:
            return None
        body = inner[0]
    calls = [
        node
        for node in ast.walk(body)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]
    mentions = [n for n in ast.walk(body) if isinstance(n, ast.Name) and n.id == name]
    if len(calls) != 1 or len(mentions) != 1:
        return None
    lines = source.encode().splitlines(keepends=True)
    call = calls[0]
    before = b"".join(lines[: call.lineno - 1]) + lines[call.lineno - 1][: call.col_offset]
    end = call.end_lineno or call.lineno
    after = lines[end - 1][call.end_col_offset :] + b"".join(lines[end:])
    return (before + b"None" + after).decode()


def file_to_delete(job: DeadCode, spared: set[str]) -> str:
    """The file on which most symbols of *other* files depend alone."""
    found = supports(job)
    best: tuple[int, str] = (-1, "")
    for path in job.paths:
        if path in spared or path.endswith("__init__.py"):
            continue
        here = {place.symbol for place in job.places(path)}
        best = max(best, (len(falls_with(here, found)), path))
    return best[1]


def title(text: str) -> None:
    """A heading."""
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def failed(why: str) -> int:
    """Say what went wrong; the exit code."""
    print(f"  FAILED: {why}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
