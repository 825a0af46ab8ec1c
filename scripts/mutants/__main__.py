"""What do the tests not see? Changes the code in small ways, and runs the tests that cover each.

    python scripts/mutants                      a sample of every part; goes on where it stopped
    python scripts/mutants --part plan --sample 80 --seed 2
    python scripts/mutants --part plan --path order.py        only files whose path contains this
    python scripts/mutants --again              run survivors once more, after tests were written
    python scripts/mutants --again --tests tests/unit/plan      by these alone: needs no map
    python scripts/mutants --mutant 1a2b3c4d5e  run one, and keep what its tests printed
    python scripts/mutants --report             only the table and the survivors

`mutate` says what a mutant is, `judge` runs the tests; here: the sample, which tests, the results.
All of it happens in a copy of the tree (`build/mutants/tree`). A mutant is judged by the tests of
its part that run its lines (a map made by coverage, again when the tree has changed), those that
killed in the same file before first, then the fastest, up to `--budget` seconds of them; limits are
in seconds of the processor, so a busy machine changes nothing. Results are lines of
`build/mutants/results.jsonl`. A survivor that changes nothing anyone can see gets a note in
`equivalent.toml` that says why. Leaves with 1 while a part is below `--least`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutate import Mutant, mutants_of, sample

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "mutants"
TREE = BUILD / "tree"
RESULTS = BUILD / "results.jsonl"
NOTES = Path(__file__).with_name("equivalent.toml")
AS_LOADED = ""
"""Where a test stands in the map, for lines that run when a module is loaded: before any test."""
LOW = ("errors", "diagnostics", "events", "facts", "kernel", "changes", "rules", "datalog")


@dataclass(frozen=True, slots=True)
class Part:
    """Where a part's code and its tests are, and what may be loaded before it is changed."""

    source: str
    tests: tuple[str, ...]
    below: tuple[str, ...]
    plain: bool = False
    but: tuple[str, ...] = ()
    """Files left as they are: checks for mistakes of our own, and what only a server can test."""
    without: str = ""
    """Tests with this in their name are left out: they need a server."""


_KERNEL = (
    *(f"tests/agree/test_engine_{name}.py" for name in ("best", "exhaustive", "mid_size")),
    *(f"tests/agree/test_{name}.py" for name in ("engine_oracle", "engine_programs", "numbers")),
    *("tests/test_stories.py", "tests/unit/fixpoint"),
)
_ENGINE = (
    *("tests/unit/engine", *_KERNEL, "tests/agree/test_beyond.py", "tests/agree/test_passes.py"),
    *("tests/agree/test_engine_rule_edits.py", "tests/agree/test_reducers_in_rules.py"),
)
PARTS = {
    "engine": Part(
        "src/deltafix/engine",
        (
            *(*_ENGINE, "tests/unit/rules", "tests/agree/test_proofs_oracle.py"),
            *("tests/faults/test_state_faults.py", "tests/faults/test_objects_faults.py"),
            *(f"tests/unit/cli/test_{name}.py" for name in ("run", "plan", "watch", "shell")),
        ),
        (*LOW, "plan"),
        but=("invariants.py",),
    ),
    "kernel": Part(
        "src/deltafix/kernel",
        (
            *(*_KERNEL, "tests/unit/kernel", "tests/unit/provenance"),
            *("tests/unit/rules/test_values.py", "tests/agree/test_teaching_twin.py"),
            *(
                f"tests/unit/engine/test_{name}.py"
                for name in ("contract", "rule_edits", "transactions", "work")
            ),
        ),
        (),
        plain=True,
        but=("checks.py",),
    ),
    "plan": Part(
        "src/deltafix/plan",
        (
            *(*_ENGINE, "tests/unit/rules", "tests/unit/cli/test_plan.py"),
            *("tests/unit/provenance", "tests/agree/test_proofs_oracle.py"),
        ),
        LOW,
    ),
    "tabling": Part(
        "src/deltafix/tabling",
        ("tests/unit/tabling", "tests/agree/test_tabling_agree.py"),
        (*LOW, "plan"),
        but=("invariants.py",),
    ),
    "changes": Part(
        "src/deltafix/changes",
        ("tests/unit/changes", "tests/laws", "tests/unit/fixpoint"),
        ("errors", "diagnostics", "events", "facts", "kernel", "rules", "datalog", "plan"),
    ),
    "fixpoint": Part(
        "src/deltafix/fixpoint",
        ("tests/unit/fixpoint", "tests/laws/test_laws_of_fixpoints.py"),
        LOW,
    ),
    "provenance": Part(
        "src/deltafix/provenance",
        (
            *("tests/unit/provenance", "tests/unit/cli/test_why.py"),
            *("tests/agree/test_proofs_oracle.py", "tests/unit/web/test_app.py"),
        ),
        (*LOW, "plan", "engine"),
    ),
    "pipeline": Part(
        "src/deltafix/pipeline",
        (
            *("tests/unit/pipeline", "tests/faults/test_pipeline_faults.py"),
            "tests/agree/test_pipeline_splits.py",
            "tests/agree/test_pipeline_topics.py",
            "tests/agree/test_pipeline_contents.py",
            "tests/agree/test_batch_splits.py",
            *("tests/unit/cli/test_pipeline.py", "tests/unit/examples", "tests/targets"),
        ),
        (*LOW, "plan", "engine"),
        but=("targets/kafka.py", "targets/postgres.py"),
        without="postgres",
    ),
}


def copy_tree() -> None:
    """Bring the copy up to date: what git knows or would add; unchanged files are left alone."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    names = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    for name in names:
        content = (ROOT / name).read_bytes()
        target = TREE / name
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod((ROOT / name).stat().st_mode)
    for path in list(TREE.rglob("*.py")):
        if str(path.relative_to(TREE)) not in names:
            path.unlink()


def environment(name: str) -> dict[str, str]:
    """Where Python finds the copy, the same examples each time, and a kernel cache of its own."""
    plain = PARTS[name].plain
    return {
        **os.environ,
        "CI": "true",
        "PYTHONPATH": str(TREE / "src"),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_DISABLE_JIT": "1" if plain else "0",
        "NUMBA_CACHE_DIR": str(BUILD / ("numba-plain" if plain else "numba")),
    }


def request(name: str, tests: Iterable[str] = ()) -> dict[str, Any]:
    """What the judge is told about a part; `tests` if not by those of the part."""
    part = PARTS[name]
    package = part.source.removeprefix("src/").replace("/", ".")
    scratch = BUILD / name
    scratch.mkdir(parents=True, exist_ok=True)
    return {
        "sources": [part.source],
        "tests": [*tests] or [test for test in part.tests if (TREE / test).exists()],
        "without": part.without,
        "preload": ["numpy", "pyarrow", "rich", "typer"]
        + ([] if part.plain else ["llvmlite.binding"])
        + [f"deltafix.{below}" for below in part.below],
        "never": [package],
        "scratch": str(scratch),
        "map": str(scratch / "map.json"),
        "said": str(scratch / "said"),
        "log": str(scratch / "log"),
    }


def command(verb: str, name: str, tests: Iterable[str] = ()) -> list[str]:
    """The judge as a process."""
    told = BUILD / name / "request.json"
    told.parent.mkdir(parents=True, exist_ok=True)
    told.write_text(json.dumps(request(name, tests)))
    return [sys.executable, str(Path(__file__).with_name("judge.py")), verb, str(told)]


def coverage_map(name: str) -> dict[str, Any]:
    """Which tests run which lines of a part, and for how long."""
    path = Path(request(name)["map"])
    sources = sorted(p for f in ("src", "tests") for p in (TREE / f).rglob("*.py"))
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in sources)).hexdigest()
    if path.exists():
        held: dict[str, Any] = json.loads(path.read_text())
        if held.get("digest") == digest:
            return held
    print(f"{name}: running its tests once under coverage", flush=True)
    with (BUILD / name / "measure.log").open("w") as log:
        subprocess.run(
            command("measure", name), cwd=TREE, env=environment(name), stdout=log, check=True
        )
    made: dict[str, Any] = json.loads(path.read_text())
    made["digest"] = digest
    path.write_text(json.dumps(made))
    if made["failed"]:
        print(f"{name}: left out, failing unchanged: {', '.join(made['failed'])}", flush=True)
    return made


def results() -> dict[str, dict[str, Any]]:
    """The last result of each mutant."""
    if not RESULTS.exists():
        return {}
    lines = map(json.loads, RESULTS.read_text().splitlines())
    return {line["name"]: line for line in lines}


def covering(mutant: Mutant, known: dict[str, Any]) -> list[str]:
    """The tests that run the changed lines; of the module, if they run as it is loaded."""
    lines = known["lines"].get(mutant.path, {})
    if mutant.function.rpartition(".")[2][:1].isupper() or mutant.function == "<module>":
        return sorted({test for tests in lines.values() for test in tests} - {AS_LOADED})
    first, last = mutant.lines
    found = {test for line in range(first, last + 1) for test in lines.get(str(line), ())}
    if AS_LOADED in found:
        found = {test for tests in lines.values() for test in tests}
    return sorted(found - {AS_LOADED})


def chosen(
    tests: list[str], known: dict[str, Any], killers: Counter[str], budget: float
) -> dict[str, float]:
    """The tests to run, in order, with their seconds."""
    seconds = known["seconds"]
    order = sorted(tests, key=lambda t: (seconds[t] / (1 + 20 * killers[t]), t))
    taken: dict[str, float] = {}
    for test in order:
        if taken and sum(taken.values()) + seconds[test] > budget:
            continue
        taken[test] = seconds[test]
    return taken


@contextmanager
def judging(name: str, tests: Iterable[str] = ()) -> Iterator[subprocess.Popen[str]]:
    """The process that serves a part."""
    process = subprocess.Popen(
        command("serve", name, tests),
        cwd=TREE,
        env=environment(name),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def run_by(name: str, mutants: Iterable[Mutant], tests: list[str], budget: float) -> None:
    """Judge survivors by some tests alone; only that one is seen is a result.

    Leaves at once where the tests fail unchanged: no mutant would survive them.
    """
    with judging(name, tests) as process, RESULTS.open("a") as out:
        unchanged = judged(process, {}, budget)
        if unchanged["outcome"] != "survived":
            raise SystemExit(f"{unchanged['outcome']} without a mutant: {unchanged['by']}")
        for mutant in mutants:
            result = ask(name, process, mutant, {}, budget)
            print(f"{result['outcome']:<12}{mutant.name}  {mutant.path}", flush=True)
            if result["outcome"] != "survived":
                line = {**results()[mutant.name], **result}
                out.write(json.dumps(line) + "\n")
                out.flush()


def run(name: str, mutants: Iterable[Mutant], known: dict[str, Any], budget: float) -> None:
    """Judge mutants one after another; each result is on disk before the next begins."""
    killers: dict[str, Counter[str]] = {}
    for old in results().values():
        if old["outcome"] == "killed":
            killers.setdefault(old["path"], Counter())[old["by"]] += 1
    with judging(name) as process, RESULTS.open("a") as out:
        for mutant in mutants:
            tests = covering(mutant, known)
            seconds = chosen(tests, known, killers.get(mutant.path, Counter()), budget)
            result: dict[str, Any] = {"outcome": "not covered", "by": "", "seconds": 0}
            if seconds:
                result = ask(name, process, mutant, seconds, sum(seconds.values()))
            if result["outcome"] == "killed":
                killers.setdefault(mutant.path, Counter())[result["by"]] += 1
            line = {
                **{"part": name, "name": mutant.name, "path": mutant.path},
                **{"function": mutant.function, "kind": mutant.kind},
                **{"tests": len(seconds), "of": len(tests), **result},
            }
            out.write(json.dumps(line) + "\n")
            out.flush()
            where = f"{mutant.path}:{mutant.lines[0]}"
            print(f"{result['outcome']:<12}{mutant.name}  {where}  {mutant.kind}", flush=True)


def judged(
    process: subprocess.Popen[str], seconds: dict[str, float], total: float
) -> dict[str, Any]:
    """What the judge says of the tree as it is."""
    assert process.stdin is not None
    assert process.stdout is not None
    wanted = {"seconds": seconds, "processor": 20 + 4 * total, "wall": 120 + 20 * total}
    process.stdin.write(json.dumps(wanted) + "\n")
    process.stdin.flush()
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer


def ask(
    part: str,
    process: subprocess.Popen[str],
    mutant: Mutant,
    seconds: dict[str, float],
    total: float,
) -> dict[str, Any]:
    """Put the mutant into the tree, have it judged, and take it out again."""
    path = TREE / mutant.path
    source = path.read_bytes()
    status = path.stat()
    try:
        path.write_bytes(mutant.apply(source))
        answer = judged(process, seconds, total)
        if answer["outcome"] == "no run":
            log = Path(request(part)["log"]).read_text()
            raise SystemExit(
                f"the tests do not run; the mutant {mutant.name} tells nothing:\n{log}"
            )
    finally:
        path.write_bytes(source)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return answer


def notes() -> dict[tuple[str, str, str], str]:
    """Why a change is no change, by path and the lines before and after."""
    listed = tomllib.loads(NOTES.read_text())["mutant"] if NOTES.exists() else []
    return {(note["path"], note["before"], note["after"]): note["because"] for note in listed}


def report(mutants: dict[str, list[Mutant]], least: float) -> bool:
    """The table and the survivors; whether every part reaches `least` percent."""
    known, equivalent = results(), notes()
    table: list[tuple[str, Counter[str]]] = []
    for name, listed in mutants.items():
        counts: Counter[str] = Counter()
        for mutant in listed:
            held = known.get(mutant.name)
            if held is None:
                continue
            outcome = held["outcome"]
            if outcome in ("survived", "not covered"):
                source = (TREE / mutant.path).read_bytes()
                if (mutant.path, *mutant.changed_lines(source)) in equivalent:
                    outcome = "equivalent"
                else:
                    tests = f"{held['tests']} of {held['of']} tests"
                    print(f"\n{mutant.name} {outcome} ({mutant.kind}; {tests})")
                    print(mutant.diff(source))
            counts[outcome] += 1
        table.append((name, counts))
    columns = ("killed", "timed out", "survived", "not covered", "equivalent")
    print(f"\n{'part':<12}{'mutants':>9}" + "".join(f"{c:>13}" for c in columns) + f"{'seen':>8}")
    good = True
    for name, counts in table:
        seen = counts["killed"] + counts["timed out"]
        meaningful = counts.total() - counts["equivalent"]
        share = 100 * seen / meaningful if meaningful else 100.0
        good = good and share >= least
        cells = "".join(f"{counts[c]:>13}" for c in columns)
        print(f"{name:<12}{counts.total():>9}{cells}{share:>7.1f}%")
    return good


def main() -> int:
    """Sample, run what has no result yet, report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="default: all")
    parser.add_argument("--sample", type=int, default=60, help="mutants a part (default: 60)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--path", default="", help="only files whose path contains this")
    parser.add_argument("--budget", type=float, default=60, help="seconds of tests a mutant")
    parser.add_argument("--least", type=float, default=90, help="percent to be seen (default: 90)")
    parser.add_argument("--again", action="store_true", help="run survivors once more")
    parser.add_argument("--tests", nargs="+", help="with --again: judge survivors by these alone")
    parser.add_argument(
        "--mutant", help="run this one; its tests' output is build/mutants/PART/log"
    )
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    if not options.report:
        copy_tree()
    mutants: dict[str, list[Mutant]] = {}
    for name in options.part or PARTS:
        files = sorted((TREE / PARTS[name].source).rglob("*.py"))
        left = [TREE / PARTS[name].source / file for file in PARTS[name].but]
        files = [file for file in files if file not in left]
        paths = [path for file in files if options.path in (path := str(file.relative_to(TREE)))]
        listed = [mutant for path in paths for mutant in mutants_of(TREE, path)]
        if options.mutant:
            listed = [mutant for mutant in listed if mutant.name == options.mutant]
            if not listed:
                continue
        mutants[name] = sample(listed, options.sample, options.seed)
        print(f"{name}: {len(mutants[name])} of {len(listed)} mutants", flush=True)
    for name, listed in mutants.items() if not options.report else ():
        known = results()
        todo = [
            mutant
            for mutant in listed
            if options.mutant
            or mutant.name not in known
            or (options.again and known[mutant.name]["outcome"] in ("survived", "not covered"))
        ]
        if todo and options.tests:
            survivors = [mutant for mutant in todo if mutant.name in known]
            run_by(name, survivors, options.tests, options.budget)
        elif todo:
            run(name, todo, coverage_map(name), options.budget)
            shutil.rmtree(BUILD / name / "pytest", ignore_errors=True)
    return 0 if report(mutants, options.least) else 1


if __name__ == "__main__":
    sys.exit(main())
