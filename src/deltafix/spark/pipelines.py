"""A pipeline made in Python, with the words of a pipeline file: for notebooks and jobs.

    with pipeline("access.dl", state="state", inputs={...}, outputs={...}) as access:
        access.run()
        access["can_read"].show()

Invariant: sections are checked by what checks files (`pipeline.config.make_config`), so there is
one set of words, and a state goes from a file to Python and back. The session at hand is used; one
that is started here lives as long as the pipeline is open. DataFrames are lazy and read the delta
logs: they show what was published when they are run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from html import escape
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from deltafix.closing import Closing
from deltafix.errors import PipelineError, SourceError
from deltafix.facts.schema import unknown_relation
from deltafix.pipeline.config import Config, make_config
from deltafix.pipeline.epoch import Epoch
from deltafix.pipeline.journal import Journal
from deltafix.pipeline.manifest import read_manifest
from deltafix.pipeline.runner import Pipeline
from deltafix.pipeline.status import status
from deltafix.rules.ast import Program
from deltafix.spark.datasource import register
from deltafix.spark.runner import spark_runner
from deltafix.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EPOCHS: Final = (
    "epoch long, time double, read map<string,long>, given struct<added:long,removed:long>, "
    "bad map<string,long>, out map<string,struct<added:long,removed:long>>, touched long, "
    "seconds map<string,double>, lag double"
)


def pipeline(
    program: str | Path | Program,
    *,
    state: str | Path,
    inputs: Mapping[str, Mapping[str, Any]],
    outputs: Mapping[str, Mapping[str, Any]],
    spark: Mapping[str, Any] | None = None,
    **settings: Any,
) -> SparkPipeline:
    """A pipeline, checked and not yet open.

    Args:
        program: the rules, or the path of their file.
        state: the state folder, by path or URL.
        inputs: per input, the words of its `[input.NAME]`: `{"source": "files", "path": "in"}`.
        outputs: per view, those of its `[output.RELATION]`.
        spark: settings of a session that is started here, as below `[spark]`.
        settings: further words of `[pipeline]`: `runner`, `rows_per_epoch`, `bad_rows`, ...

    Paths are relative to the current folder. Raises ConfigError, SourceError, ProgramError as a
    file would, with `pipeline` in the place of its name.
    """
    head = {**settings, "state": state}
    rules = program if isinstance(program, Program) else None
    if rules is None:
        head["program"] = program
    given = {"pipeline": head, "input": inputs, "output": outputs, "spark": spark or {}}
    return SparkPipeline(make_config(Path("pipeline"), _as_in_toml(given), program=rules))


def _as_in_toml(value: Any) -> Any:
    """Python's values as a file has them."""
    if isinstance(value, Mapping):
        return {name: _as_in_toml(element) for name, element in value.items()}
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


class SparkPipeline(Closing, Mapping[str, "DataFrame"]):
    """Made by `pipeline`. A mapping from output to a DataFrame of the view; `close` it.

    Attributes:
        config: as a file would have it.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self._stack = ExitStack()
        self._session: SparkSession | None = None
        self._opened: Pipeline | None = None
        self._logs = {output.relation: output.path for output in config.outputs}

    @property
    def session(self) -> SparkSession:
        """The session at hand; else one with the settings of `spark`, started at the first use."""
        if self._session is None:
            self._session = self._stack.enter_context(spark_session(options=self.config.spark))
            register(self._session)
        return self._session

    @property
    def opened(self) -> Pipeline:
        """The pipeline itself, with its state; opened at the first use, by one process at a time.

        Raises what `Maintainer` raises.
        """
        if self._opened is None:
            if self.config.values["runner"] == "local":
                opened = Pipeline(self.config)
            else:
                self.session  # noqa: B018  the runner uses the one at hand
                opened = Pipeline(self.config, **spark_runner(self.config)._asdict())
            self._opened = self._stack.enter_context(opened)
        return self._opened

    def run(
        self, every: float | None = None, *, progress: Callable[[str], object] | None = None
    ) -> list[Epoch]:
        """Take what the inputs have to say, epoch by epoch; returns the epochs.

        Args:
            every: look again after so many seconds, until interrupted (a notebook's stop button).
            progress: called with a line per epoch; they are printed unless it is given.

        Raises what `Pipeline.drain` raises; epochs before that stand.
        """
        tell = progress or (lambda line: sys.stdout.write(line + "\n"))

        def stopped(error: PipelineError) -> None:
            tell(str(error))

        opened = self.opened
        done: list[Epoch] = []
        epochs = opened.drain() if every is None else opened.follow(every, on_stop=stopped)
        try:
            for epoch in epochs:
                tell(epoch.show())
                done.append(epoch)
        except KeyboardInterrupt:
            if every is None:
                raise
        return done

    def status(self) -> list[str]:
        """Where it stands, a line for each input and output, as `deltafix pipeline status` says."""
        return list(status(self.config))

    def epochs(self, last: int = 20) -> DataFrame:
        """The last epochs, the newest first: their numbers, rows, seconds by stage, lag."""
        rows = [
            {
                **line,
                "given": _sides(line["given"]),
                "out": {name: _sides(sides) for name, sides in line["out"].items()},
            }
            for line in islice(Journal(self.config.state).backwards(), last)
        ]
        return self.session.createDataFrame(rows, _EPOCHS)

    def changes(self, output: str, first: int = 0, last: int | None = None) -> DataFrame:
        """The signed rows of a view, with their epochs, from one epoch to another.

        Raises UnknownRelationError, SourceError before the first run.
        """
        reader = self.session.read.format("deltafix").option("from", str(first))
        if last is not None:
            reader = reader.option("to", str(last))
        return reader.load(self._log(output))

    def __getitem__(self, output: str) -> DataFrame:
        """The view as it was published last.

        Raises UnknownRelationError, SourceError before the first run.
        """
        reader = self.session.read.format("deltafix").option("view", "rows")
        return reader.load(self._log(output))

    def __iter__(self) -> Iterator[str]:
        return iter(self._logs)

    def __len__(self) -> int:
        return len(self._logs)

    def _log(self, output: str) -> str:
        path = self._logs.get(output)
        if path is None:
            raise unknown_relation(output, self._logs)
        # Asked here: what Spark's worker raises comes back as text.
        if read_manifest(path) is None:
            raise SourceError(f"{path} holds no delta log yet: run the pipeline", path=str(path))
        return str(path)

    def _repr_html_(self) -> str:
        lines = "<br>".join(escape(line) for line in self.status())
        return f"<code>{lines}</code>"

    def close(self) -> None:
        """Give the state back, and stop the session if it was started here. Idempotent."""
        self._opened = self._session = None
        self._stack.close()


def _sides(pair: list[int]) -> dict[str, int]:
    added, removed = pair
    return {"added": added, "removed": removed}
