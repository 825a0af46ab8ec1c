"""`deltafix rights`: questions to an OpenFGA model and its tuples.

Invariant: an answer alone goes to standard output. Exit code 1 is a no: to `check`, to an assertion
of `test`; an error in the model, in a tuple or in the question is 2.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import typer

from deltafix.cli.console import note, prepare_kernel, progress
from deltafix.diagnostics import plural
from deltafix.doing import tell
from deltafix.errors import RightsTupleError

if TYPE_CHECKING:
    from deltafix.rights import Model, Rights

rights = typer.Typer(
    no_args_is_help=True,
    help="Access rights: questions to an OpenFGA model and its tuples.",
)

_Model: TypeAlias = Annotated[
    Path,
    typer.Argument(
        help="A model (.fga, .json), modules (fga.mod) or a store file (.fga.yaml).",
        metavar="MODEL",
    ),
]
_Tuples: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "-t",
        "--tuples",
        help="Tuples: .csv, .json, .jsonl or .yaml; several times.",
        metavar="FILE",
    ),
]


def _no_file(value: str) -> str:
    """A name of the model. Raises BadParameter where tuples are given in its place."""
    if value.endswith((".csv", ".json", ".jsonl", ".yaml")):
        raise typer.BadParameter(f"{value} is a file; tuples are given by --tuples {value}")
    return value


_User: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="user:anne, group:eng#member, or user:*.", metavar="USER", callback=_no_file
    ),
]
_Relation: TypeAlias = Annotated[
    str, typer.Argument(help="viewer", metavar="RELATION", callback=_no_file)
]
_Object: TypeAlias = Annotated[str, typer.Argument(help="document:roadmap", metavar="OBJECT")]
_Context: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--context", help="Values for parameters of conditions, as a JSON object.", metavar="JSON"
    ),
]
_Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="No notes, no progress.")]


def _opened(model: Path, tuples: list[Path] | None, *, quiet: bool) -> Rights:
    from deltafix.rights import open, read_model, read_tuples  # noqa: A004, PLC0415  quick --help

    read = read_model(model)
    files = tuples or ([model] if model.suffix in (".yaml", ".yml") else [])
    prepare_kernel(quiet=quiet)
    opened = open(read)
    try:
        with progress("reading tuples", quiet=quiet):
            for number, file in enumerate(files):
                tell(f"reading {file.name}", number, len(files))
                tuples = read_tuples(file)
                tell(f"taking in {file.name}: {plural(len(tuples), 'tuple')}")
                opened.write(tuples)
    except RightsTupleError as error:
        raise _all_of(error, read, files) from None
    return opened


_SHOWN: Final = 20
"""Wrong tuples that are told one by one."""


def _all_of(error: RightsTupleError, model: Model, files: Sequence[Path]) -> RightsTupleError:
    """What is wrong with every tuple of the files, of which one made an error."""
    from deltafix.rights.reading import misfits  # noqa: PLC0415  quick --help
    from deltafix.rights.validate import checked  # noqa: PLC0415

    graph = checked(model)
    wrong = [str(misfit) for file in files for misfit in misfits(file, graph)]
    if not wrong:
        return error
    shown = f"\nerror[{error.code}]: ".join(wrong[:_SHOWN])
    more = len(wrong) - _SHOWN
    return RightsTupleError(f"{shown}\nand {plural(more, 'more tuple')}" if more > 0 else shown)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


@rights.command()
def validate(model: _Model, *, tuples: _Tuples = None, quiet: _Quiet = False) -> None:
    """Say what is wrong with a model, and with tuples for it."""
    with _opened(model, tuples, quiet=quiet) as opened:
        types = len(opened.model.types)
        relations = sum(len(kind.relations) for kind in opened.model.types)
        counts = ((types, "type"), (relations, "relation"), (len(opened), "tuple"))
        note(", ".join(plural(*count) for count in counts), quiet=quiet)


@rights.command()
def check(
    model: _Model,
    user: _User,
    relation: _Relation,
    object: _Object,  # noqa: A002
    *,
    tuples: _Tuples = None,
    context: _Context = None,
    quiet: _Quiet = False,
) -> None:
    """Say whether a user has a relation to an object: yes, or no and exit code 1."""
    with _opened(model, tuples, quiet=quiet) as opened:
        answer = opened.check(user, relation, object, context=context)
    _print("yes" if answer else "no")
    raise typer.Exit(0 if answer else 1)


@rights.command("list-objects")
def list_objects(
    model: _Model,
    user: _User,
    relation: _Relation,
    type: Annotated[str, typer.Argument(help="document", metavar="TYPE")],  # noqa: A002
    *,
    tuples: _Tuples = None,
    context: _Context = None,
    quiet: _Quiet = False,
) -> None:
    """List the objects of a type to which a user has a relation, one a line."""
    with _opened(model, tuples, quiet=quiet) as opened:
        for name in opened.list_objects(user, relation, type, context=context):
            _print(name)


@rights.command("list-users")
def list_users(
    model: _Model,
    relation: _Relation,
    object: _Object,  # noqa: A002
    type: Annotated[  # noqa: A002
        str, typer.Argument(help="user, or group#member for usersets.", metavar="TYPE")
    ] = "user",
    *,
    tuples: _Tuples = None,
    context: _Context = None,
    quiet: _Quiet = False,
) -> None:
    """List the users that have a relation to an object, one a line; `except` beside `user:*`."""
    with _opened(model, tuples, quiet=quiet) as opened:
        listed = opened.list_users(relation, object, type, context=context)
    for user in listed.users:
        _print(user)
    for user in listed.excluded:
        _print(f"except {user}")


@rights.command()
def expand(
    model: _Model,
    relation: _Relation,
    object: _Object,  # noqa: A002
    *,
    tuples: _Tuples = None,
    context: _Context = None,
    form: Annotated[
        Literal["text", "json"], typer.Option("--format", help="Text or JSON.")
    ] = "text",
    quiet: _Quiet = False,
) -> None:
    """Show a relation's definition with the tuples of an object in it."""
    with _opened(model, tuples, quiet=quiet) as opened:
        expansion = opened.expand(relation, object, context=context)
    shown = (
        json.dumps(expansion.to_dict(), ensure_ascii=False, indent=2)
        if form == "json"
        else expansion
    )
    _print(str(shown))


@rights.command()
def why(
    model: _Model,
    user: _User,
    relation: _Relation,
    object: _Object,  # noqa: A002
    *,
    tuples: _Tuples = None,
    context: _Context = None,
    form: Annotated[
        Literal["text", "json", "dot", "svg"],
        typer.Option("--format", help="A tree, JSON, Graphviz DOT, or a drawing."),
    ] = "text",
    quiet: _Quiet = False,
) -> None:
    """Say why a user has a relation to an object: tuples, and lines of the model."""
    with _opened(model, tuples, quiet=quiet) as opened:
        proof = opened.why(user, relation, object, context=context)
    _print(proof.show(form))


@rights.command("why-not")
def why_not(
    model: _Model,
    user: _User,
    relation: _Relation,
    object: _Object,  # noqa: A002
    *,
    tuples: _Tuples = None,
    form: Annotated[
        Literal["text", "json"], typer.Option("--format", help="Text or JSON.")
    ] = "text",
    limit: Annotated[
        int,
        typer.Option(min=1, metavar="COUNT", help="Explain so many relations at objects at most."),
    ] = 100,
    context: _Context = None,
    quiet: _Quiet = False,
) -> None:
    """Say why a user has no relation to an object: every way to it, and where each one ends."""
    with _opened(model, tuples, quiet=quiet) as opened:
        explanation = opened.why_not(user, relation, object, context=context, limit=limit)
    shown = (
        json.dumps(explanation.to_dict(), ensure_ascii=False, indent=2)
        if form == "json"
        else explanation
    )
    _print(str(shown))


@rights.command("test")
def run_tests(
    stores: Annotated[
        list[Path], typer.Argument(help="Store files (.fga.yaml).", metavar="STORE...")
    ],
    *,
    quiet: _Quiet = False,
) -> None:
    """Run the tests of store files; exit code 1 if an assertion does not hold."""
    from deltafix.rights import run_store  # noqa: PLC0415  quick --help

    prepare_kernel(quiet=quiet)
    failed = total = 0
    for store in stores:
        for outcome in run_store(store):
            total += 1
            if not outcome.holds:
                failed += 1
                _print(f"{store}: {outcome.test}: {outcome.question}")
                _print(f"  expected {json.dumps(outcome.expected)}")
                _print(f"  found    {json.dumps(outcome.found)}")
    _print(f"{total - failed} of {total} assertions hold")
    raise typer.Exit(1 if failed else 0)
