"""A pipeline as a whole: sources polled, epochs committed, until there is nothing left or forever.

An epoch takes what the inputs have to say, in the order of the file, up to `rows_per_epoch` rows;
what is over stays for the next epoch. Invariant: nothing is dropped and nothing is taken twice,
because what is in is known from the state alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from time import perf_counter, sleep

from deltafix.closing import Closing
from deltafix.doing import tell
from deltafix.errors import ConfigError, PipelineError
from deltafix.facts.schema import Schema
from deltafix.pipeline.config import Config, InputConfig, schemas_of
from deltafix.pipeline.epoch import Epoch
from deltafix.pipeline.keeper import Driver, Keep
from deltafix.pipeline.maintainer import Maintainer, OnChange
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.portion import Portion, Source
from deltafix.pipeline.sources.registry import additions, make_source
from deltafix.pipeline.targets.registry import MakeTarget, make_target

__all__ = ["MakeSource", "Pipeline"]

MakeSource = Callable[[Config, InputConfig, Mapping[str, Schema]], Source]
"""From an input's section, and the schemas of relations, to its source."""


class Pipeline(Closing):
    """A pipeline that is open; use in a with-statement, or `close` it.

    Args:
        config: as read from its file.
        make_source: makes the sources of inputs; `deltafix.spark.sources.make_source` knows
            those that Spark reads as well.
        keep: opens who keeps the rows. Without it they are the driver's, and
            `executor = "shards"` is refused (ConfigError).
        make_target: makes the targets of outputs.
        close: gives back what these three share, after all else.
            `deltafix.spark.runner.spark_runner` gives the four as Spark has them.
        on_change: asked what to do when the rules are not those the outputs were made with; by
            default what the file says (`on_change`).

    Attributes:
        stopped: by name, inputs that the last look left out, and why.

    Raises what `Maintainer` raises.
    """

    def __init__(
        self,
        config: Config,
        *,
        make_source: MakeSource = make_source,
        keep: Keep | None = None,
        make_target: MakeTarget = make_target,
        close: Callable[[], object] = lambda: None,
        on_change: OnChange | None = None,
    ) -> None:
        self.config = config
        if keep is None and config.values["executor"] == "shards":
            message = (
                f'{config.path}: executor = "shards": pass what '
                "deltafix.spark.runner.spark_runner gives"
            )
            raise ConfigError(message, key="executor", value="shards")
        schemas = schemas_of(config.program)
        self.stopped: dict[str, PipelineError] = {}
        default = config.values["bad_rows"]
        self._lenient = {
            input_.name for input_ in config.inputs if Policy.of(input_.values, default).quarantine
        }
        with ExitStack() as stack:  # what cannot be opened gives back what it has
            stack.callback(close)
            self.sources: tuple[Source, ...] = tuple(
                stack.enter_context(closing(make_source(config, input_, schemas)))
                for input_ in config.inputs
            )
            self.maintainer = Maintainer(
                config.program,
                config.state,
                config.outputs,
                additions=additions(config),
                fsync=config.values["fsync"],
                keep=keep or Driver,
                make_target=make_target,
                on_change=on_change or (lambda change: config.values["on_change"]),
            )
            stack.callback(self.maintainer.close)
            self._stack = stack.pop_all()

    def step(self) -> Epoch | None:
        """One epoch of what the inputs have to say; None if they have nothing to say.

        An input that cannot be read is left out from then on, where its rows may be set aside
        (`stopped`); where they may not, what it raises fails the epoch.
        """
        began = perf_counter()
        left = int(self.config.values["rows_per_epoch"])
        portions: list[Portion] = []
        for source in self.sources:
            if source.name in self.stopped:
                continue
            portion = None
            tell(f"reading input {source.name}")
            with self._stopping(source.name):
                portion = source.poll(self.maintainer.db, left)
            if portion is None:
                continue
            portions.append(portion)
            left -= portion.rows
            if left <= 0:
                portion.more = True
                break
        for portion in portions:
            if portion.settle is not None:
                with self._stopping(portion.source):
                    portion.settle()
        portions = [
            portion for portion in portions if portion and portion.source not in self.stopped
        ]
        if not portions:
            return None
        seconds = {"read": perf_counter() - began}
        net = sum(portion.net_seconds for portion in portions)
        if net:
            seconds = {"read": seconds["read"] - net, "net": net}
        return self.maintainer.commit(portions, seconds=seconds)

    @contextmanager
    def _stopping(self, name: str) -> Iterator[None]:
        """Leave an input out that cannot be read, where its rows may be set aside."""
        try:
            yield
        except PipelineError as error:
            if name not in self._lenient:
                raise
            self.stopped[name] = error

    def drain(self) -> Iterator[Epoch]:
        """Epochs until the inputs have nothing to say; first the one that opening made, if any.

        Raises what stopped an input, when the others have nothing more to say.
        """
        yield from self._epochs()
        for error in self.stopped.values():
            raise error

    def follow(
        self,
        every: float,
        wait: Callable[[float], None] | None = None,
        on_stop: Callable[[PipelineError], None] | None = None,
    ) -> Iterator[Epoch]:
        """Epochs forever: drains the inputs, and looks again `every` so many seconds.

        An input that is `stopped` is tried again at each look; `on_stop` hears why, when that is
        not what it heard at the look before.
        """
        heard: list[str] = []
        while True:
            yield from self._epochs()
            errors = [str(error) for error in self.stopped.values()]
            for error in self.stopped.values():
                if on_stop is not None and str(error) not in heard:
                    on_stop(error)
            heard = errors
            (wait or sleep)(every)

    def _epochs(self) -> Iterator[Epoch]:
        """One look, until no input has more to say."""
        self.stopped.clear()
        opening, self.maintainer.opening = self.maintainer.opening, None
        if opening is not None:
            yield opening
        while (epoch := self.step()) is not None:
            yield epoch

    def compact(self, keep: int | None = None) -> None:
        """Write new snapshots, join the outputs' files; keep the deltas of `keep` epochs."""
        self.maintainer.compact(keep)

    def close(self) -> None:
        """Give everything back. Idempotent."""
        self._stack.close()
