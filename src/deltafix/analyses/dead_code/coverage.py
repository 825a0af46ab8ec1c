"""Coverage data as roots: a function whose body ran in a measured run is alive.

    coverage.json, or .coverage (read by the package `coverage`) -> path -> lines -> symbols

A function counts as run when a line of its body was executed; its `def` line runs when the module
is imported and says nothing. Invariant: a file saved after the data was written is left out, with
a reason, for its lines may mean other functions by now.
"""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deltafix.analyses.dead_code.extract import extract
from deltafix.analyses.files import Tree
from deltafix.errors import MissingDependencyError, SourceError

_SQLITE = b"SQLite format 3\x00"


@dataclass(frozen=True, slots=True)
class Ran:
    """The symbols that ran, how many files said so, and which files could not be used and why."""

    symbols: frozenset[str] = frozenset()
    files: int = 0
    skipped: Mapping[str, str] = field(default_factory=dict)


def symbols_that_ran(tree: Tree, data: Path) -> Ran:
    """The functions and methods of `tree` that ran, by the coverage data in file `data`.

    Parses each measured file of the tree once. Raises SourceError for a file that is not coverage
    data or that measured nothing in this tree, MissingDependencyError for `.coverage` without the
    package that reads it.
    """
    lines = read_lines(data)
    written = data.stat().st_mtime_ns
    scan = tree.scan()
    symbols: set[str] = set()
    skipped: dict[str, str] = {}
    files = 0
    for name, executed in sorted(lines.items()):
        path = _path_in(tree, data, name)
        stamp = scan.files.get(path) if path is not None else None
        if path is None or stamp is None:
            continue
        if stamp.modified_ns > written:
            skipped[path] = f"saved after {data.name} was written: its lines are not used"
            continue
        files += 1
        symbols.update(_functions_run(path, tree.read(path), tree.prefix, set(executed)))
    if not files and not skipped:
        examples = ", ".join(sorted(lines)[:3]) or "no file at all"
        raise SourceError(f"{data} measured nothing under {tree.root}; it names {examples}")
    return Ran(frozenset(symbols), files, skipped)


def read_lines(data: Path) -> dict[str, list[int]]:
    """File name (as the data spells it) to executed lines, of a JSON report or a data file."""
    try:
        content = data.read_bytes()
    except OSError as error:
        raise SourceError(f"cannot read the coverage data {data}: {error.strerror}") from error
    if content.startswith(_SQLITE):
        return _read_data_file(data)
    try:
        files = json.loads(content)["files"]
        return {str(name): _lines(file["executed_lines"]) for name, file in files.items()}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise SourceError(
            f"{data} is not coverage data: {type(error).__name__}: {error}. "
            "Write it with `coverage json`, or give the file .coverage"
        ) from error


def _lines(values: Iterable[object]) -> list[int]:
    lines = [value for value in values if isinstance(value, int)]
    return sorted(lines)


def _read_data_file(data: Path) -> dict[str, list[int]]:
    try:
        import coverage  # noqa: PLC0415  optional: only this format needs it
    except ImportError as error:
        raise MissingDependencyError(
            f"{data} is coverage's own format: pip install 'deltafix[coverage]', or give the "
            "report that `coverage json` writes"
        ) from error
    held = coverage.CoverageData(basename=str(data))
    try:
        held.read()
        return {name: sorted(held.lines(name) or ()) for name in held.measured_files()}
    except coverage.CoverageException as error:
        raise SourceError(f"{data} is not coverage data: {error}") from error
    finally:
        held.close()


def _path_in(tree: Tree, data: Path, name: str) -> str | None:
    """The tree's own path for a file that the data names, or None if it is not in the tree."""
    for base in (data.resolve().parent, Path.cwd()):
        file = (base / name).resolve()
        if file.is_relative_to(tree.root) and file.is_file():
            return file.relative_to(tree.root).as_posix()
    return None


def _functions_run(path: str, source: bytes, prefix: str, executed: set[int]) -> Iterator[str]:
    """Ids of the functions in one file of which a body line was executed."""
    fragment = extract(path, source, prefix)
    if fragment.error is not None or not path.endswith(".py"):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the analysed code's SyntaxWarnings are not ours
        tree = ast.parse(source)
    begun = {  # line of the definition -> the lines of its body
        node.lineno: range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body[0].lineno > node.lineno
    }
    for place in fragment.places:
        if place.kind in {"function", "method"} and not executed.isdisjoint(
            begun.get(place.line, ())
        ):
            yield place.symbol
