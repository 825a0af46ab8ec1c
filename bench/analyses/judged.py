"""Types and call graphs of Python held against mypy's, and against what happens when code runs.

Real packages, each with a script that uses it. What counts as agreement, recall and precision is
said where it is counted, in `judge_types`, `judge_calls` and `judge_run`. Invariant: none of the
three is the truth; the tables say how far they say the same. Not here: what each of them says
(`checker`, `traced`, the analyses), and who is right where they differ.
"""

from __future__ import annotations

import ast
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.analyses.checker import Checked, Place
from bench.analyses.projects import NoProjectError, installed
from bench.analyses.scripts import SCRIPTS
from bench.analyses.traced import Observed, fits, observe
from bench.report import table
from deltafix.analyses.analysis import Analysis
from deltafix.analyses.call_graph import CALL_GRAPH
from deltafix.analyses.job import Job
from deltafix.analyses.points_to import POINTS_TO
from deltafix.analyses.reading import read_fragments
from deltafix.analyses.types import TYPES

__all__ = ["Judged", "judge", "judge_calls", "judge_run", "judge_types", "without_annotations"]

VERDICTS = ("agree", "narrower", "wider", "overlap", "disjoint", "unknown", "nothing")
_OWN_NAMES = frozenset({"__init__", "__new__", "__call__"})


@dataclass
class Judged:
    """How far one answer goes along with another."""

    verdicts: Counter[str] = field(default_factory=Counter)
    found: int = 0
    """Of what the other says, what is in ours,"""
    missed: int = 0
    """and what is not: recall is found / (found + missed)."""
    right: int = 0
    """Of what ours says, what is in the other's,"""
    wrong: int = 0
    """and what is not: precision is right / (right + wrong)."""
    differ: list[str] = field(default_factory=list)
    """The differences, for whoever wants to see who is right."""

    def shares(self) -> list[str]:
        """Recall and precision, as text."""
        pairs = ((self.found, self.missed), (self.right, self.wrong))
        return [f"{yes / (yes + no):.1%}" if yes + no else "–" for yes, no in pairs]


def judge_types(job: Job, checked: Checked) -> Judged:
    """Compare at every place where mypy says classes and the rules have a variable.

    Per place mypy says alternatives (of a union; type arguments are left out) and `types` says
    classes. A class is *right* if its instances are of mypy's type. An alternative is *found* if
    some class of ours is a subtype of it, or it of that class. The place then is: `agree`, all
    right and all found; `narrower`, all right, some not found; `wider`, some not right, all found;
    `disjoint`, none right and none found; `overlap`, anything else. Where ours says `unknown`, or
    has no class (nothing in the tree calls the function), the place counts as that alone.
    """
    ours = _types(job)
    local = {("variable", str(owner), str(name)) for owner, name, _ in job.rows("local_of")}
    result = Judged()
    for place, said in sorted(checked.types.items()):
        if not said or (place[0] == "variable" and place not in local):
            continue
        names = ours.get(place, set())
        known = {name: [checked.within(name, one) for one in said] for name in sorted(names)}
        known = {name: answers for name, answers in known.items() if None not in answers}
        if "unknown" in names or not known:
            result.verdicts["unknown" if names else "nothing"] += 1
            continue
        right = [name for name, answers in known.items() if any(answers)]
        found = [one for one in said if any(checked.covers(name, one) for name in known)]
        result.right += len(right)
        result.wrong += len(known) - len(right)
        result.found += len(found)
        result.missed += len(said) - len(found)
        verdict = _verdict(len(right) == len(known), len(found) == len(said), bool(right or found))
        result.verdicts[verdict] += 1
        if verdict != "agree":
            told = " | ".join(map(str, said))
            result.differ.append(f"{verdict}: {' '.join(place)}: {' | '.join(known)}; mypy: {told}")
    return result


def _verdict(all_right: bool, all_found: bool, any_common: bool) -> str:
    if not any_common:
        return "disjoint"
    names = {(True, True): "agree", (True, False): "narrower", (False, True): "wider"}
    return names.get((all_right, all_found), "overlap")


def _types(job: Job) -> dict[Place, set[str]]:
    found: dict[Place, set[str]] = {}
    for view in ("parameter", "variable", "attribute"):
        for owner, name, kind in job.rows(view):
            found.setdefault((view, str(owner), str(name)), set()).add(str(kind))
    for owner, kind in job.rows("returns"):
        found.setdefault(("returns", str(owner), "return"), set()).add(str(kind))
    return found


def judge_calls(calls: Iterable[tuple[str, str]], checked: Checked) -> Judged:
    """Compare pairs of caller and callee, both functions that stand in the package.

    mypy's callee is the method of the receiver's type, not if that is abstract: it is *found* if
    ours has the pair. A pair of ours is *right* if its callee is mypy's or, for a method, an heir's
    in its place. Left out are special methods that no call names (`__eq__`, `__iter__`), and pairs
    of ours whose caller calls something that mypy does not know. Calls of a function that was
    handed to a builtin (`sorted(key=f)`) are none to mypy, and so count as wrong.
    """
    ours, theirs = (
        {pair for pair in pairs if _named(pair[1]) and checked.functions.issuperset(pair)}
        for pairs in (calls, checked.calls)
    )
    result = Judged(found=len(theirs & ours), missed=len(theirs - ours))
    judged = {pair for pair in ours if pair[0] not in checked.open}
    result.right, result.wrong = len(judged & checked.maybe), len(judged - checked.maybe)
    result.differ = [f"missed: {a} -> {b}" for a, b in sorted(theirs - ours)]
    result.differ += [f"wrong: {a} -> {b}" for a, b in sorted(judged - checked.maybe)]
    return result


def _named(callee: str) -> bool:
    last = callee.rpartition(".")[2]
    return not (last.startswith("__") and last.endswith("__")) or last in _OWN_NAMES


def judge_run(
    calls: Iterable[tuple[str, str]], seen: Observed, functions: frozenset[str]
) -> Judged:
    """Compare pairs of caller and callee with those of a run: nothing is left out.

    Recall is of the pairs that ran. Precision is of pairs whose two functions ran: one that did not
    happen may happen in another run, so it is a lower bound.
    """
    ran = {pair for pair in seen.calls if functions.issuperset(pair)}
    active = {one for pair in ran for one in pair}
    ours = {pair for pair in calls if active.issuperset(pair)}
    result = Judged(found=len(ran & ours), missed=len(ran - ours))
    result.right, result.wrong = len(ours & ran), len(ours - ran)
    result.differ = [f"missed: {a} -> {b}" for a, b in sorted(ran - ours)]
    return result


def judge_values(job: Job, seen: Observed) -> Judged:
    """Compare the classes of arguments and results with those of a run.

    A class that was seen is *found* if it is, or derives from, one of the inferred; where `unknown`
    is inferred it counts as that alone. A run says nothing of precision.
    """
    ours = _types(job)
    read = {str(row[0]) for row in job.rows("function")}
    result = Judged()
    for (function, name), kinds in sorted(seen.values.items()):
        place = ("returns" if name == "return" else "parameter", function, name)
        for kind in kinds if function in read else ():
            inferred = ours.get(place, set())
            if "unknown" in inferred:
                result.verdicts["unknown"] += 1
            elif fits(kind, inferred):
                result.found += 1
            else:
                result.missed += 1
                result.differ.append(f"missed: {function} {name}: {kind.__name__} of {inferred}")
    return result


def without_annotations(source: bytes) -> bytes:
    """A file whose functions and their variables are not annotated; fields of classes stay."""
    return ast.unparse(_Bare().visit(ast.parse(source))).encode()


class _Bare(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        for one in ast.walk(node.args):
            if isinstance(one, ast.arg):
                one.annotation = None
        self.generic_visit(node)
        node.body = [new for one in node.body for new in self._statement(one)] or [ast.Pass()]
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  ast's name

    def _statement(self, node: ast.stmt) -> Iterator[ast.stmt]:
        if not isinstance(node, ast.AnnAssign):
            yield node
        elif node.value is not None:
            yield ast.copy_location(ast.Assign([node.target], node.value), node)


@contextmanager
def _job(analysis: Analysis, folder: Path) -> Iterator[Job]:
    tree = analysis.tree(folder)
    with Job(analysis) as job:
        job.update(list(read_fragments(tree, list(tree.scan().files), analysis.extract)))
        yield job


@contextmanager
def _bare(folder: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="deltafix-bench-") as name:
        home = Path(name) / folder.name
        shutil.copytree(folder, home)
        for path in home.rglob("*.py"):
            path.write_bytes(without_annotations(path.read_bytes()))
        yield home


def judge(
    scripts: Mapping[str, Callable[[], object]] = SCRIPTS, *, differences: bool = False
) -> Iterator[str]:
    """The tables, as lines of Markdown; then, if asked for, each difference.

    Raises:
        NoProjectError: mypy or a package is not installed.
    """
    try:
        from bench.analyses.checker import check
    except ImportError as error:
        raise NoProjectError("mypy is not installed") from error
    types: list[list[str]] = []
    values: list[list[str]] = []
    calls: list[list[str]] = []
    differ: list[str] = []

    def told(what: str, one: Judged) -> Judged:
        differ.extend(f"{what}: {line}" for line in one.differ)
        return one

    for name, script in scripts.items():
        folder = installed(name)
        checked, seen = check(folder), observe(script, folder)
        with _job(TYPES, folder) as job, _bare(folder) as bare, _job(TYPES, bare) as inferring:
            for how, one in (("as written", job), ("without annotations", inferring)):
                found = told(f"{name}, {how}", judge_types(one, checked))
                counts = [f"{found.verdicts[verdict]:,}" for verdict in VERDICTS]
                types.append([name, how, *counts, *found.shares()])
                ran = told(f"{name}, {how}, run", judge_values(one, seen))
                counts = [f"{n:,}" for n in (ran.found, ran.missed, ran.verdicts["unknown"])]
                values.append([name, how, *counts, ran.shares()[0]])
            functions = frozenset(str(row[0]) for row in job.rows("function"))
        answers: dict[str, set[tuple[str, str]]] = {}
        for analysis in (CALL_GRAPH, POINTS_TO):
            with _job(analysis, folder) as job:
                answers[analysis.name] = {(str(a), str(b)) for a, b in job.rows("calls")}
        answers["mypy"] = checked.maybe
        for graph, pairs in answers.items():
            with_mypy = told(f"{name}, {graph}", judge_calls(pairs, checked))
            with_run = told(f"{name}, {graph}, run", judge_run(pairs, seen, functions))
            counts = [f"{with_run.found + with_run.missed:,}", *with_run.shares()]
            said = ["", "", ""]
            if graph != "mypy":
                said = [f"{with_mypy.found + with_mypy.missed:,}", *with_mypy.shares()]
            calls.append([name, graph, *said, *counts])
    yield "Types and mypy's, places:\n"
    yield table(["package", "source", *VERDICTS, "recall", "precision"], types)
    yield "Types and a run's, classes of arguments and results:\n"
    yield table(["package", "source", "found", "missed", "unknown", "recall"], values)
    yield "Calls and mypy's, and a run's, pairs of functions:\n"
    head = ["package", "graph", "mypy's", "recall", "precision", "ran", "recall", "precision"]
    yield table(head, calls)
    yield from differ if differences else ()
