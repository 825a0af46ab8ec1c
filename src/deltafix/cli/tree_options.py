"""Options of the commands that look at a source tree as `dead-code` does, each in one place."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

Roots: TypeAlias = Annotated[list[str] | None, typer.Option(help="As for `dead-code`. Repeatable.")]
Tests: TypeAlias = Annotated[
    bool, typer.Option("--tests/--no-tests", help="Whether tests keep code alive.")
]
Profile: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="A framework in use, as for `dead-code`. Repeatable.")
]
Spark: TypeAlias = Annotated[
    bool, typer.Option("--spark", help="Extract with Spark's workers: for large trees.")
]
Exclude: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="Leave out files matching this pattern. Repeatable.")
]
