"""Options of the commands that look at a source tree as `dead-code` does, each in one place."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

import typer

Roots: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="PATTERN", help="As for `dead-code`. Repeatable.")
]
Tests: TypeAlias = Annotated[
    bool, typer.Option("--tests/--no-tests", help="Whether tests keep code alive.")
]
Framework: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A framework in use, as for `dead-code`. Repeatable."),
]
HowSure: TypeAlias = Annotated[
    Literal["sure", "likely"],
    typer.Option(
        "--confidence",
        help="`sure`: nothing anywhere might reach it; `likely`: also where that is in doubt.",
    ),
]


class Unread(StrEnum):
    """What `--also` takes."""

    IMPORTS = "imports"
    LOCALS = "locals"
    ARGUMENTS = "arguments"
    ATTRIBUTES = "attributes"


Also: TypeAlias = Annotated[
    list[Unread] | None,
    typer.Option(
        metavar="<imports|locals|arguments|attributes>",
        help="Report these as well, where living code never reads them. Repeatable.",
    ),
]
Spark: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--spark/--no-spark",
        help="Extract with Spark's workers, or in this process; by default with Spark from 40 MB "
        "of sources on, if it is installed and there are four processors.",
        show_default=False,
    ),
]
Exclude: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="PATTERN", help="Leave out files matching this pattern. Repeatable."),
]
