"""`deltafix`: find the command, run it, turn what it raises into one message and an exit code.

Invariant: only the module of the command asked for is imported, and none of them imports pyarrow,
numba or pyspark at its top, so `deltafix --version` answers in the time Python takes to start.
Every DeltafixError ends as one message without a traceback; `--debug` shows the traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from deltafix.errors import DeltafixError, InternalError, SourceError, SubscriberError
from deltafix.interrupt import INTERRUPTED, outcome
from deltafix.paths import local_path

__all__ = ["COMMANDS", "main"]

BAD_INPUT: Final = 2
BUG: Final = 70  # EX_SOFTWARE of sysexits.h
BROKEN_PIPE: Final = 141  # 128 + SIGPIPE


class Command(NamedTuple):
    """A sub-command: where its function, or its own app of sub-commands, lives.

    Its help is the function's docstring, or the app's. `of_sql` says how the same is asked of SQL,
    where the command reads rules alone.
    """

    name: str
    module: str
    function: str
    of_sql: str = ""


_ASKED: Final = "`deltafix sql SCRIPT.sql -F FOLDER -c '{} SELECT * FROM view WHERE ...'`"

COMMANDS: Final = (
    Command("run", "deltafix.cli.run", "run"),
    Command("check", "deltafix.cli.check", "check"),
    Command("fmt", "deltafix.cli.fmt", "fmt", "a formatter of SQL, such as sqlfmt"),
    Command("plan", "deltafix.cli.plan", "plan"),
    Command("diff", "deltafix.cli.diff", "diff"),
    Command("shell", "deltafix.cli.shell", "shell", "`deltafix sql`, then statements"),
    Command("sql", "deltafix.cli.sql", "sql"),
    Command("dbt", "deltafix.cli.dbt", "dbt"),
    Command("rights", "deltafix.cli.rights", "rights"),
    Command("serve", "deltafix.cli.serve", "serve"),
    Command("watch", "deltafix.cli.watch", "watch"),
    Command("why", "deltafix.cli.why", "why", _ASKED.format("EXPLAIN WHY")),
    Command("why-not", "deltafix.cli.why", "why_not", _ASKED.format("EXPLAIN WHY NOT")),
    Command("step", "deltafix.cli.why", "step", "`deltafix sql`, whose views tell of changes"),
    Command("check-reducer", "deltafix.cli.check_reducer", "check_reducer"),
    Command("dead-code", "deltafix.cli.dead_code", "dead_code"),
    Command("analyse", "deltafix.cli.analyse", "analyse"),
    Command("ask", "deltafix.cli.ask", "ask"),
    Command("lsp", "deltafix.cli.lsp", "lsp"),
    Command("churn", "deltafix.cli.churn", "churn"),
    Command("pipeline", "deltafix.cli.pipeline", "pipeline"),
    Command("show-versions", "deltafix.cli.versions", "show_versions"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit the process with its code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = given[: given.index("--")] if "--" in given else given
    debug = "--debug" in options
    if debug:
        given.remove("--debug")
    raise SystemExit(_run(given, debug))


def _run(arguments: list[str], debug: bool) -> int:
    try:
        _dispatch(arguments)
    except SystemExit as exit_:
        if exit_.code == INTERRUPTED:  # while the command line was parsed
            return _interrupted()
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except (KeyboardInterrupt, _InterruptedError):
        return _interrupted()
    except BrokenPipeError:
        return _unread()
    except DeltafixError as error:
        if isinstance(error, SubscriberError) and isinstance(error.__cause__, BrokenPipeError):
            return _unread()  # of changes that a commit prints
        if debug:
            raise
        if _is_of_interrupt(error):
            return _interrupted()
        sys.stderr.write(f"{_message(error)}\n")
        return BUG if isinstance(error, InternalError) else BAD_INPUT
    except Exception as error:
        if debug:
            raise
        if _is_of_interrupt(error):
            return _interrupted()
        sys.stderr.write(
            f"error: deltafix failed: {type(error).__name__}: {error}\n"
            "This is a bug in deltafix. Run the same command with --debug to see where.\n"
        )
        return BUG
    return 0


def _unread() -> int:
    """The reader went away (`| head`). Python would complain again when it closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


def _interrupted() -> int:
    code, message = outcome()
    sys.stderr.write(message)
    return code


def _is_of_interrupt(error: BaseException | None) -> bool:
    """Whether an interrupt lies behind it: a module that it broke off says that it cannot load."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _message(error: DeltafixError) -> str:
    from deltafix.errors import ProgramError  # noqa: PLC0415  only on the error path

    # A ProgramError's text is its diagnostics, each with its own head.
    if isinstance(error, ProgramError) and error.diagnostics:
        return str(error)
    return f"error[{error.code}]: {error}"


def _dispatch(arguments: list[str]) -> None:
    if arguments[:1] == ["--version"]:  # before what parses the command line is loaded
        from importlib.metadata import version  # noqa: PLC0415  30 ms that only this needs

        sys.stdout.write(f"deltafix {version('deltafix')}\n")
        return
    wanted = [command for command in COMMANDS if command.name in arguments[:1]]
    scripts = [argument for argument in arguments[1:] if argument.endswith(".sql")]
    if scripts and wanted and wanted[0].of_sql:
        (command,) = wanted
        message = f"{scripts[0]} is SQL, and `deltafix {command.name}` reads rules"
        raise SourceError(f"{message}; use {command.of_sql}", value=scripts[0])
    given = _with_jobs(arguments) if arguments[:1] == ["run"] else list(arguments)
    whole = application(wanted or COMMANDS)
    if arguments and not wanted:
        inside = (
            f"deltafix {outer} {arguments[0]}"
            for outer, group in whole.commands.items()
            if arguments[0] in getattr(group, "commands", {})
        )
        if meant := next(inside, ""):
            message = f"there is no command {arguments[0]!r}; did you mean `{meant}`?"
            raise SourceError(message, value=arguments[0])
    whole(args=given, prog_name="deltafix")


def _with_jobs(arguments: Sequence[str]) -> list[str]:
    """The arguments with a value behind each bare `-j`, which Soufflé's users write."""
    expanded: list[str] = []
    for position, argument in enumerate(arguments):
        expanded.append(argument)
        following = arguments[position + 1] if position + 1 < len(arguments) else ""
        if argument == "-j" and not (following.isdigit() or following == "auto"):
            expanded.append("auto")
    return expanded


class _InterruptedError(BaseException):
    """Ctrl-C in a command. What parses the command line would give its own code for Python's."""


def _takes_paths(function: Callable[..., Any]) -> Callable[..., Any]:
    """The command, refusing a URL wherever it takes a path."""

    @wraps(function)
    def run(**given: Any) -> Any:
        for value in given.values():
            for element in value if isinstance(value, list) else [value]:
                if isinstance(element, Path):
                    local_path(element)
        try:
            return function(**given)
        except KeyboardInterrupt as error:
            raise _InterruptedError from error

    return run


def application(commands: Sequence[Command] = COMMANDS) -> Any:
    """The command line of these commands, to be called; only their modules are loaded."""
    import typer  # noqa: PLC0415  170 ms that --version does not need

    app = typer.Typer(name="deltafix", no_args_is_help=True, pretty_exceptions_enable=False)
    version = typer.Option(False, "--version", help="Print the version, and nothing else.")
    debug = typer.Option(False, "--debug", help="Show the traceback of an error; of any command.")

    def options(*, version: bool = version, debug: bool = debug) -> None:  # both are seen before
        """Rules in, changes in, exactly what changed in every derived view out."""

    app.callback()(options)
    for command in commands:
        entry: Any = getattr(import_module(command.module), command.function)
        if isinstance(entry, typer.Typer):
            for subcommand in entry.registered_commands:
                subcommand.callback = _takes_paths(cast("Callable[..., Any]", subcommand.callback))
            app.add_typer(entry, name=command.name)
        else:
            app.command(command.name)(_takes_paths(entry))
    whole: Any = typer.main.get_command(app)
    _say_what_is_meant(whole)
    whole.invoke = _says_what_is_refused(whole.invoke)
    return whole


def _say_what_is_meant(command: Any) -> None:
    """Have help name values by what they are: COUNT, FOLDER; typer would add types of Python."""
    for subcommand in command.get_params(command.context_class(command)):  # with --help
        if subcommand.param_type_name == "argument":
            subcommand.display_type_rich = lambda **_: None  # its name says it
        elif subcommand.is_flag:
            subcommand.metavar = ""
    for subcommand in getattr(command, "commands", {}).values():
        _say_what_is_meant(subcommand)


def _says_what_is_refused(invoke: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same, with the value in the message of an option's; typer has pydantic's words there."""
    from typer import BadParameter  # noqa: PLC0415  as above

    def run(context: Any) -> Any:
        try:
            return invoke(context)
        except BadParameter as error:
            for problem in getattr(error.__cause__, "errors", list)()[:1]:
                words = problem["msg"].partition(", unable")[0]
                if words.startswith("Input "):
                    error.message = f"{problem['input']!r}{words.removeprefix('Input')}"
                else:
                    error.message = words.removeprefix("Value error, ")
            raise

    return run
