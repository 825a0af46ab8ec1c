"""`deltafix check-reducer module:name`: a reducer's laws, with a counter-example as a sentence."""

from __future__ import annotations

import json
import sys
from collections import namedtuple
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deltafix.cli.program_options import as_reducer
from deltafix.errors import ReducerError

if TYPE_CHECKING:
    from deltafix.reducers.reducer import Reducer

SAMPLES: dict[str, tuple[Any, ...]] = {
    "int": (0, 1, 2, 3, 5, 3, -4, 10**6),
    "float": (0.1, 0.2, 1e16, -1e16, 3.0, 0.5, -7.25),
    "str": ("", "a", "b", "ab", "ba", "b"),
}


def check_reducer(
    reducers: Annotated[
        list[str], typer.Argument(help="Reducers to check.", metavar="MODULE:NAME…")
    ],
    values: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="Values to try, as a JSON list; objects become named tuples."
        ),
    ] = None,
    kind: Annotated[
        Literal["int", "float", "str"],
        typer.Option("--type", help="Which ready-made values to try where --values is not given."),
    ] = "int",
    cases: Annotated[
        int, typer.Option(min=1, metavar="COUNT", help="Random multisets to try.")
    ] = 200,
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="Of the random multisets.")] = 0,
) -> None:
    """Check that reducers keep their laws: updating equals recomputing.

    A name is a reducer, or a class or function that makes one without arguments. Modules are found
    from the current folder. A reducer's own `examples` attribute is tried where no values are
    given. Exit code 0 if every law holds, 1 if one is broken, 2 for bad input.
    """
    from deltafix.reducers.check import check_reducer as check  # noqa: PLC0415  quick --help

    given = None if values is None else sample_values(values)
    loaded = [find_reducer(name) for name in reducers]
    broken = False
    for reducer in loaded:
        tried = given or getattr(reducer, "examples", None) or SAMPLES[kind]
        report = check(reducer, tried, cases=cases, seed=seed)
        broken = broken or not report
        sys.stdout.write(f"{report}\n")
    if broken:
        raise typer.Exit(1)


def find_reducer(name: str) -> Reducer[Any, Any, Any]:
    """The reducer called `module:name`. ReducerError says what is there instead."""
    from deltafix.reducers.reducer import Reducer  # noqa: PLC0415  quick --help

    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise ReducerError(f"{name!r} is not module:name, as in my_app.reducers:total")
    if module_name.endswith(".py"):
        module = ".".join(Path(module_name).with_suffix("").parts)
        message = f"{module_name!r} is a file, and a module is named: write {module}:{attribute}"
        raise ReducerError(message)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        target: Any = import_module(module_name)
    except Exception as error:  # the user's module: whatever it raises is said in one line
        raise ReducerError(
            f"cannot import {module_name!r}: {type(error).__name__}: {error}"
        ) from error
    for part in attribute.split("."):
        if not hasattr(target, part):
            reducers = [
                candidate
                for candidate in vars(target)
                if isinstance(getattr(target, candidate), Reducer)
            ]
            known = ", ".join(reducers) or "none"
            raise ReducerError(f"{module_name!r} has no {attribute!r}; reducers in it: {known}")
        target = getattr(target, part)
    return as_reducer(name, target)


def sample_values(text: str) -> list[Any]:
    """Values from a JSON list; lists become tuples, objects named tuples of their keys."""
    try:
        values = json.loads(text)
    except ValueError as error:
        raise ReducerError(f"--values is not JSON: {error}{_as_list(text)}") from error
    if not isinstance(values, list) or not values:
        message = f"--values takes a JSON list of at least one value, not {text}{_as_list(text)}"
        raise ReducerError(message)
    return [_hashable(value) for value in values]


def _as_list(text: str) -> str:
    """How values are written that lack the brackets."""
    try:
        values = json.loads(f"[{text}]")
    except ValueError:
        return ""
    return f"; write '{json.dumps(values)}'" if text.strip() not in ("", "[]") else ""


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_hashable(item) for item in value)
    if isinstance(value, dict):
        try:
            row: Any = namedtuple("Value", value)  # type: ignore[misc]  # fields from the data
        except ValueError as error:
            raise ReducerError(f"--values: {error}") from error
        return row(*(_hashable(item) for item in value.values()))
    return value
