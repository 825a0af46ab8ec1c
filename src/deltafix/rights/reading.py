"""Models and tuples from files: DSL and JSON, modules; tuples as CSV, JSON and YAML; store files.

Invariant: the ending of a file says what it is; a text that begins with `{` is JSON. YAML is read
by PyYAML's safe loader, which makes plain values and nothing else.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, TypeAlias

from deltafix.errors import MissingDependencyError, RightsTupleError, SourceError
from deltafix.paths import read_text
from deltafix.rights.dsl import parse_dsl
from deltafix.rights.graph import Graph
from deltafix.rights.model import Model
from deltafix.rights.model_json import model_of_json
from deltafix.rights.modules import composed
from deltafix.rights.tuples import AnyTuple, ConditionalTuple, Tuple, placed, tuple_of


def read_model(given: Model | str | Path | Mapping[str, Any] | Sequence[Path]) -> Model:
    """A model from DSL or JSON: as text, in a file, or as `json.loads` made it.

    A file that ends with `.yaml` or `.yml` is a store file, with the model under `model`, or in the
    file that `model_file` names; one that ends with `.mod` lists the files of modules, in its own
    folder or below, and so does a sequence of paths. Raises RightsModelError, SourceError.
    """
    if isinstance(given, Model):
        return given
    if isinstance(given, Path):
        text, path = read_text(given), str(given)
        if given.suffix == ".mod":
            return composed([(read_text(path), str(path)) for path in _listed_in(given, text)])
        if given.suffix not in (".yaml", ".yml"):
            return _of_text(text, path)
        store = read_store(given)
        if isinstance(store.get("model_file"), str):
            return read_model(given.parent / store["model_file"])
        if not isinstance(store.get("model"), str):
            raise SourceError(f"{path} has no text under `model`", value=path)
        return parse_dsl(store["model"], f"{path} (model)")
    if isinstance(given, str):
        return _of_text(given, None)
    if isinstance(given, Sequence):
        return composed([(read_text(Path(path)), str(path)) for path in given])
    return model_of_json(given)


def _listed_in(manifest: Path, text: str) -> list[Path]:
    """The files that a manifest lists. Raises SourceError."""

    def bad(message: str) -> SourceError:
        return SourceError(f"{manifest}: {message}", value=str(manifest))

    manifest_values = _yaml(text, manifest)
    if not isinstance(manifest_values, Mapping) or str(manifest_values.get("schema")) != "1.2":
        raise bad("a manifest has `schema: '1.2'`")
    names = manifest_values.get("contents")
    if not isinstance(names, list) or not names:
        raise bad("a manifest lists files under `contents`")
    for name in names:
        outside = not isinstance(name, str) or Path(name).is_absolute() or ".." in Path(name).parts
        if outside or Path(name).suffix != ".fga":
            raise bad(f"contents has {name!r}; it takes .fga files in the folder or below it")
    if len(set(names)) < len(names):
        raise bad("contents names a file twice")
    return [manifest.parent / name for name in names]


def _of_text(text: str, path: str | None) -> Model:
    return model_of_json(text, path) if text.lstrip().startswith("{") else parse_dsl(text, path)


def read_store(path: Path) -> Mapping[str, Any]:
    """A store file as plain values. Raises SourceError."""
    store = _yaml(read_text(path), path)
    if not isinstance(store, Mapping):
        raise SourceError(f"{path} is no store file: it has no keys", value=str(path))
    return store


def read_tuples(path: Path) -> Any:
    """The tuples of a file: `.csv`, `.json`, `.jsonl`, `.yaml`, or a store file's `tuples`.

    CSV has a header with `user`, `relation` and `object`, or OpenFGA's `user_type`, `user_id`,
    `user_relation`, `relation`, `object_type` and `object_id`; either may have `condition_name` and
    `condition_context`, which is JSON. Raises SourceError for a file that cannot be read,
    RightsTupleError for what is no tuple; both name the file.
    """
    return [_sure(where, read) for where, read in _tuples_of(path)]


def misfits(path: Path, graph: Graph) -> Iterator[RightsTupleError]:
    """What is wrong with each tuple of a file for a model, with its place. Raises SourceError."""
    for where, read in _tuples_of(path):
        wrong = read
        if not isinstance(wrong, RightsTupleError):
            try:
                placed(graph, wrong)
                continue
            except RightsTupleError as error:
                wrong = error
        yield RightsTupleError(f"{where}: {wrong}", value=str(path))


_TupleOrError: TypeAlias = AnyTuple | RightsTupleError


def _sure(where: str, read: _TupleOrError) -> AnyTuple:
    if isinstance(read, RightsTupleError):
        raise RightsTupleError(f"{where}: {read}", **read.values)
    return read


def _tuples_of(path: Path) -> Iterator[tuple[str, _TupleOrError]]:
    """The tuples of a file, or what is wrong with one, each with its place."""
    text = read_text(path)
    if path.suffix == ".csv":
        yield from _of_csv(text, path)
        return
    if path.suffix == ".jsonl":
        for n, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield f"{path}:{n}", _tuple(_json(line, path, n))
        return
    if path.suffix in (".yaml", ".yml"):
        document = _yaml(text, path)
    elif path.suffix == ".json":
        document = _json(text, path, 0)
    else:
        message = f"{path}: tuples are read from .csv, .json, .jsonl, .yaml and .yml"
        raise SourceError(message, value=str(path))
    if isinstance(document, Mapping):
        document = document.get("tuples", document.get("tuple_keys", []))
    if not isinstance(document, list):
        raise SourceError(f"{path} has no list of tuples", value=str(path))
    # OpenFGA's Read gives {"key": {...}, "timestamp": ...}.
    keys = [
        entry["key"] if isinstance(entry, Mapping) and "key" in entry else entry
        for entry in document
    ]
    for n, entry in enumerate(keys, 1):
        yield f"{path}: tuple {n}", _tuple(entry)


def _tuple(given: Any) -> _TupleOrError:
    try:
        return tuple_of(given)
    except RightsTupleError as error:
        return error


def _of_csv(text: str, path: Path) -> Iterator[tuple[str, _TupleOrError]]:
    lines = csv.DictReader(text.splitlines(), strict=True)
    header = lines.fieldnames or []
    whole = {"user", "relation", "object"} <= set(header)
    if not whole and not {"user_type", "user_id", "relation", "object_type", "object_id"} <= set(
        header
    ):
        message = f"{path}: the header is {', '.join(header)!r}; it takes user, relation, object"
        raise RightsTupleError(message, value=header)
    try:
        for line in lines:
            where = f"{path}:{lines.line_num}"
            if None in line or None in line.values():
                message = f"{len(header)} columns were expected"
                yield where, RightsTupleError(message, line=lines.line_num)
                continue
            if whole:
                plain = Tuple(line["user"], line["relation"], line["object"])
            else:
                within = f"#{line['user_relation']}" if line.get("user_relation") else ""
                user = f"{line['user_type']}:{line['user_id']}{within}"
                at = f"{line['object_type']}:{line['object_id']}"
                plain = Tuple(user, line["relation"], at)
            condition = line.get("condition_name") or ""
            context = line.get("condition_context") or "{}"
            yield where, ConditionalTuple(*plain, condition, context) if condition else plain
    except csv.Error as error:
        yield f"{path}:{lines.reader.line_num}", RightsTupleError(str(error))


def _json(text: str, path: Path, line: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f"{path}:{line}" if line else str(path)
        raise SourceError(f"{where}: this is no JSON: {error}", value=str(path)) from None


def _yaml(text: str, path: Path) -> Any:
    try:
        import yaml  # noqa: PLC0415  optional
    except ImportError as error:
        message = "YAML needs PyYAML: pip install 'deltafix[yaml]'"
        raise MissingDependencyError(message, extra="yaml") from error
    try:
        return _texts(yaml.safe_load(text))
    except (yaml.YAMLError, RecursionError) as error:
        raise SourceError(f"{path}: this is no YAML: {error}", value=str(path)) from None


def _texts(value: Any) -> Any:
    """What YAML says, with texts for what YAML takes for dates, as JSON has them."""
    if isinstance(value, Mapping):
        return {_texts(name): _texts(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_texts(inner) for inner in value]
    return value.isoformat() if isinstance(value, date) else value
