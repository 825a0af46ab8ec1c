"""What the command line brings to a program: functions, reducers, macros, and the word size.

`--functors FILE` names a Python file, which is run: its functions stand behind the program's
`@name`, its reducers behind `@@name`. Invariant: no file is run but the one the user named, and
only names that the program declares are taken from it. `--word-size` goes before the program's own
pragma; `-I` and `-M` are the preprocessor's, as Soufflé has them. Whether a function takes its
arguments is `engine.bind`'s business.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypedDict

import typer

from deltafix.diagnostics import did_you_mean
from deltafix.errors import FunctorError, ReducerError, SourceError

if TYPE_CHECKING:
    from deltafix.datalog.preprocess import Given
    from deltafix.reducers.reducer import Reducer
    from deltafix.rules.ast import FunctorDecl, Program

FunctorsFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--functors",
        metavar="FILE.py",
        help="Python file of the functions behind @name and reducers behind @@name; it is run.",
    ),
]
WordSize: TypeAlias = Annotated[
    Literal["32", "64"] | None,
    typer.Option(help="Bits of a number; default: the program's, else 64."),
]

Include: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "-I", "--include-dir", metavar="FOLDER", help="Include files from this folder too."
    ),
]
Macros: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("-M", "--macro", metavar="NAME=TEXT", help="Define a macro for the program."),
]

_MODULE: Final = "deltafix_functors_of_the_command_line"


class Reading(TypedDict):
    """The keyword arguments of `Program.from_file` that the command line gives."""

    include: tuple[Path, ...]
    macros: dict[str, str]
    word_size: int | None


class UserFunctions(TypedDict):
    """The keyword arguments of `deltafix.connect` that a file of functors gives."""

    functors: dict[str, Callable[..., Any]]
    reducers: dict[str, Reducer[Any, Any, Any]]


def reading(word_size: str | None, include: list[Path] | None, macros: list[str] | None) -> Reading:
    """What a program is read with. `macros` are `NAME` or `NAME=TEXT`, several with blanks."""
    pairs = (macro.partition("=") for given in macros or () for macro in given.split())
    return Reading(
        include=tuple(include or ()),
        macros={name: text if equals else "1" for name, equals, text in pairs},
        word_size=None if word_size is None else int(word_size),
    )


def as_given(asked: Reading) -> Given:
    """The same for the text door."""
    from deltafix.datalog.preprocess import Given  # noqa: PLC0415  quick --help

    return Given(asked["include"], asked["macros"], asked["word_size"])


def read_functors(program: Program, file: Path | None) -> UserFunctions:
    """The functions and reducers that a program calls, taken from a file; none without a file.

    Raises:
        SourceError: there is no such file.
        FunctorError: the file fails when it is run, lacks a function, or has one of another arity.
        ReducerError: a name that the program aggregates with is no reducer there.
    """
    users = UserFunctions(functors={}, reducers={})
    if file is None:
        return users
    from deltafix.engine.bind import bound, called, folded  # noqa: PLC0415  quick --help

    module = _run(file)
    functions, reducers = called(program), folded(program)
    for declared in program.functors:
        name = declared.name
        if name in functions:
            users["functors"][name] = _named(module, file, declared, "@")
        if name in reducers:
            where = f"{file}: {name!r}"
            users["reducers"][name] = as_reducer(where, _named(module, file, declared, "@@"))
    bound(program, users["functors"])
    return users


def as_reducer(name: str, candidate: Any) -> Reducer[Any, Any, Any]:
    """A reducer, or what a class or function without arguments makes. Raises ReducerError."""
    from deltafix.reducers.reducer import Reducer  # noqa: PLC0415  quick --help

    if callable(candidate) and not isinstance(candidate, Reducer):
        try:
            candidate = candidate()
        except Exception as error:
            problem = f"cannot be made without arguments: {type(error).__name__}: {error}"
            if isinstance(candidate, FunctionType) and candidate.__code__.co_argcount > len(
                candidate.__defaults__ or ()
            ):
                problem = "is a function, not a reducer"
            raise ReducerError(f"{name} {problem}; {_MADE}") from error
    if not isinstance(candidate, Reducer):
        raise ReducerError(f"{name} is {type(candidate).__name__}, not a reducer; {_MADE}")
    return candidate


_MADE: Final = (
    "deltafix.reactive.reducer(initial, add, remove, finish) makes one of functions, and a class "
    "or a function without arguments may"
)


def _run(file: Path) -> ModuleType:
    if not file.is_file():
        what = "a folder" if file.is_dir() else "no such file"
        raise SourceError(f"--functors {file}: {what}; name a Python file", path=str(file))
    spec = spec_from_file_location(_MODULE, file)
    if spec is None or spec.loader is None:
        raise SourceError(f"--functors {file}: its name must end in .py", path=str(file))
    module = module_from_spec(spec)
    sys.modules[_MODULE] = module  # dataclasses look their module up by name
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the user's file: whatever it raises is one line
        message = f"--functors {file} failed when it was run: {type(error).__name__}: {error}"
        raise FunctorError(message, path=str(file)) from error
    return module


def _named(module: ModuleType, file: Path, declared: FunctorDecl, sign: str) -> Any:
    """The object of a functor's name. FunctorError says what the file has instead."""
    name = declared.name
    if hasattr(module, name):
        return getattr(module, name)
    own = [attribute for attribute in vars(module) if not attribute.startswith("_")]
    hint = did_you_mean(name, own, f"it defines: {', '.join(own) or 'nothing'}", "'")
    columns = ", ".join(f"{a.name}: {a.type}" for a in declared.arguments)
    message = f"{file} has no {name!r}, which the program calls as {sign}{name}({columns}); {hint}"
    raise FunctorError(message, functor=name, path=str(file))
