"""`deltafix pipeline`: run a pipeline file, and look at what it did.

Invariant: nothing is written to standard output but what was asked for; progress and epochs of a
run go to standard error. Exit code 1 says that `replay` found a difference.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deltafix.cli.console import (
    hidden,
    note,
    prepare_kernel,
    printing,
    progress,
    require_packages,
)
from deltafix.cli.output import put
from deltafix.errors import ConfigError

if TYPE_CHECKING:
    from deltafix.errors import PipelineError
    from deltafix.pipeline.change import ProgramChange, Way
    from deltafix.pipeline.config import Config
    from deltafix.pipeline.epoch import Epoch
    from deltafix.pipeline.replay import FindAround

pipeline = typer.Typer(
    no_args_is_help=True,
    help="Keep views of changing inputs exact: run a pipeline file, look at what it did.",
)

_Json = Annotated[
    bool, typer.Option("--json", help="Print a line of JSON per epoch to standard output.")
]
_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
_File = Annotated[Path, typer.Argument(help="The pipeline file (.toml).", metavar="FILE")]
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


@pipeline.command()
def run(
    file: _File,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Take what is there and stop (the default).")
    ] = False,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Look again after this long, e.g. 10s, 500ms, 5m; forever."
        ),
    ] = None,
    on_change: Annotated[
        Literal["ask", "maintain", "rebuild", "refuse"] | None,
        typer.Option(help="When rules have changed; ask refuses where nobody can answer."),
    ] = None,
    executor: Annotated[
        Literal["auto", "driver", "shards"] | None,
        typer.Option(help="Who keeps the rows; comes before the file's."),
    ] = None,
    json: _Json = False,
    quiet: _Quiet = False,
) -> None:
    """Take what the inputs have to say, epoch by epoch."""
    if once and every is not None:
        raise typer.BadParameter("--once and --every exclude each other")
    seconds = None if every is None else _seconds(every)
    from deltafix.pipeline.config import read_config  # noqa: PLC0415  quick --help
    from deltafix.pipeline.runner import Pipeline  # noqa: PLC0415

    config = read_config(file, executor=executor)
    runner = _runner(config)
    for section, parts in (("input.NAME", config.inputs), ("output.RELATION", config.outputs)):
        if not parts:
            note(f"note: {file} has no [{section}], so no rows go that way", quiet=quiet)
    prepare_kernel(quiet=quiet)
    # A webhook that is asked again is told when that has failed, by the error.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    asked = _ask if on_change == "ask" else (lambda _: on_change) if on_change else None
    with contextlib.ExitStack() as stack:
        with progress("opening the state", quiet=quiet):
            opened = stack.enter_context(Pipeline(config, **runner, on_change=asked))
        where = opened.maintainer.keeper.why
        note(f"executor {where}", quiet=quiet)
        for line in opened.maintainer.db.recovered:
            note(f"note: {line}", quiet=quiet)
        count, last = 0, 0
        epochs = opened.follow(seconds, _rest, _stopped) if seconds else opened.drain()
        with progress("taking what is new", quiet=quiet):
            for epoch in epochs:
                count += 1
                if opened.maintainer.keeper.why != where:
                    where = opened.maintainer.keeper.why
                    note(f"executor {where}", quiet=quiet)
                _tell(epoch, json=json, quiet=quiet)
                last = epoch.epoch if any(map(any, epoch.out.values())) else last
        if last:
            rows = f"`deltafix pipeline replay {file} {last}` prints the rows of epoch {last}"
            folders = ", ".join(str(output.path) for output in config.outputs)
            note(f"{rows}; all are in {folders}, as Parquet with signs", quiet=quiet)
        if not count:
            note(f"nothing new; the state is epoch {opened.maintainer.epoch}", quiet=quiet)


@pipeline.command()
def serve(
    file: _File,
    *,
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="0 takes any that is free.")
    ] = 8766,
    key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Take the key from a file that only its owner may read; else random.",
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Look at the other inputs this often, e.g. 10s."),
    ] = None,
    json: _Json = False,
    quiet: _Quiet = False,
) -> None:
    """Take lines of JSON by POST into the inputs with `source = "http"`: a request is an epoch.

    Prints the address first, which holds its key; a key of a file is not printed. It is served on
    this machine only.
    """
    seconds = None if every is None else _seconds(every)
    require_packages("pipeline serve", {"starlette": "web", "uvicorn": "web"})
    from deltafix.pipeline.config import read_config  # noqa: PLC0415  quick --help
    from deltafix.pipeline.runner import Pipeline  # noqa: PLC0415
    from deltafix.web.guard import read_token  # noqa: PLC0415  an extra
    from deltafix.web.server import PipelineServer  # noqa: PLC0415

    config = read_config(file)
    _require_serving(config)
    token = None if key_file is None else read_token(key_file)
    prepare_kernel(quiet=quiet)
    logging.getLogger("urllib3").setLevel(logging.ERROR)

    with contextlib.ExitStack() as stack:
        with progress("opening the state", quiet=quiet):
            opened = stack.enter_context(Pipeline(config))
        for line in opened.maintainer.db.recovered:
            note(f"note: {line}", quiet=quiet)
        server = PipelineServer(
            opened,
            port=port,
            token=token,
            on_epoch=partial(_tell, json=json, quiet=quiet),
            on_stop=_stopped,
        )
        sys.stdout.write(f"{server.url if key_file is None else server.address}\n")
        sys.stdout.flush()
        note("Ctrl-C ends", quiet=quiet)
        server.run(seconds)


def _tell(epoch: Epoch, *, json: bool, quiet: bool) -> None:
    note(epoch.show(), quiet=quiet)
    if json:
        with printing():
            sys.stdout.write(epoch.json() + "\n")
            sys.stdout.flush()


@pipeline.command()
def check(file: _File) -> None:
    """Check a pipeline file, its program, and that its inputs are there; change nothing."""
    from deltafix.pipeline.check import check as look  # noqa: PLC0415  quick --help
    from deltafix.pipeline.config import read_config  # noqa: PLC0415

    _say(look(read_config(file)))


@pipeline.command()
def status(file: _File) -> None:
    """Say where a pipeline stands, running or not."""
    from deltafix.pipeline.config import read_config  # noqa: PLC0415  quick --help
    from deltafix.pipeline.status import status as lines  # noqa: PLC0415

    _say(lines(read_config(file)))


@pipeline.command()
def draw(
    file: _File,
    *,
    form: Annotated[
        Literal["mermaid", "dot"], typer.Option("--format", help="How the graph is written.")
    ] = "mermaid",
) -> None:
    """Draw a pipeline: from its inputs through its relations to its outputs."""
    from deltafix.analyses.formats import Table, write_tables  # noqa: PLC0415  quick --help
    from deltafix.facts.schema import Schema  # noqa: PLC0415
    from deltafix.pipeline.config import read_config  # noqa: PLC0415
    from deltafix.pipeline.drawing import arrows, relations  # noqa: PLC0415

    config = read_config(file)
    schema = Schema.of("pipeline", ("start", "end"), ["symbol"] * 2)
    graph = Table(
        schema, [*arrows(config)], edge=(("start",), ("end",)), nodes=relations(config.program)
    )
    put(write_tables([graph], form, title="deltafix pipeline draw"))


@pipeline.command()
def replay(
    file: _File, epoch: Annotated[int, typer.Argument(metavar="EPOCH", help="Its number.")]
) -> None:
    """Show what an epoch changed, and compute it again from the state to compare."""
    from deltafix.pipeline.config import read_config  # noqa: PLC0415  quick --help
    from deltafix.pipeline.replay import replay as again  # noqa: PLC0415

    config = read_config(file)
    with progress("evaluating the epoch again"):
        replayed = again(config, epoch, around=_around(config))
    _say(replayed.show())
    raise typer.Exit(0 if replayed.agrees else 1)


@pipeline.command()
def compact(
    file: _File,
    *,
    keep: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="COUNT", help="Drop the outputs' deltas older than this many epochs."
        ),
    ] = None,
) -> None:
    """Fold logs into snapshots and small files into large ones."""
    from deltafix.pipeline.config import read_config  # noqa: PLC0415  quick --help
    from deltafix.pipeline.runner import Pipeline  # noqa: PLC0415

    config = read_config(file)
    with contextlib.ExitStack() as stack:
        with progress("opening the state"):
            opened = stack.enter_context(Pipeline(config, **_runner(config)))
        with progress("compacting"):
            opened.compact(keep)
        _say([f"compacted at epoch {opened.maintainer.epoch}"])


def _runner(config: Config) -> dict[str, Any]:
    """What `Pipeline` takes besides, for the runner that the file names."""
    if config.values["runner"] == "local":
        return {}
    from deltafix.spark.runner import spark_runner  # noqa: PLC0415  imports pyspark

    return spark_runner(config)._asdict()


def _require_serving(config: Config) -> None:
    """Refuse a file that cannot be served."""
    if config.values["runner"] != "local":
        message = (
            f'{config.path}: [pipeline] serve needs runner = "local": this process takes requests'
        )
        raise ConfigError(message, key="runner", value=config.values["runner"])
    if not any(input_.source == "http" for input_ in config.inputs):
        message = f'{config.path}: no input has source = "http", so there is nothing to serve'
        raise ConfigError(message, key="source")


def _around(config: Config) -> FindAround | None:
    """What reads old epochs of shards, which only pipelines on Spark have."""
    if config.values["runner"] == "local":
        return None
    from deltafix.spark.shards.past import around  # noqa: PLC0415  imports pyspark

    return around


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|)", text)
    if match is None or not float(match[1]):
        raise typer.BadParameter(f"--every {text}: a time such as 10s, 500ms, 5m or 1h")
    return float(match[1]) * _SECONDS[match[2]]


def _rest(seconds: float) -> None:
    """Wait for the next look, with nothing on the screen."""
    with hidden():
        sleep(seconds)


def _stopped(error: PipelineError) -> None:
    note(f"error[{error.code}]: {error}", quiet=False)


def _ask(change: ProgramChange) -> Way:
    if not sys.stdin.isatty():
        return "refuse"
    with hidden():
        follows = typer.confirm(f"The rules have changed ({change.show()}). Follow them?", err=True)
    if not follows:
        return "refuse"
    return "rebuild" if change.is_sql else "maintain"


def _say(lines: list[str] | Iterator[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
