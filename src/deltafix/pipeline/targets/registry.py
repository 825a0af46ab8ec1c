"""From an `[output.RELATION]` section to its target."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

from deltafix.errors import ConfigError
from deltafix.facts.schema import Schema
from deltafix.pipeline.config import OutputConfig
from deltafix.pipeline.targets.target import Target, name_of
from deltafix.store.folder import folder_at

MakeTarget = Callable[[OutputConfig, Schema, str], Target | None]
"""From an output, its view and the name of the state to its target; as `make_target`."""


def place_of(output: OutputConfig) -> str:
    """The target of an output, in words."""
    return str(
        next(
            output.values[key]
            for key in ("path", "table", "topic", "function", "url")
            if output.values.get(key)
        )
    )


def make_target(output: OutputConfig, schema: Schema, state: str) -> Target | None:
    """The target of an output; None for one that is its delta log.

    Args:
        output: the output.
        schema: its view.
        state: the name of the engine's state.

    Connects to nothing yet. Raises MissingDependencyError for a package that is not installed,
    ConfigError for a function that cannot be loaded,
    or a table that is named in a catalog of Spark's.
    """
    values, name = output.values, name_of(state, output.relation)
    if output.sink == "parquet":
        return None
    if output.sink == "foreach_epoch":
        from deltafix.pipeline.targets.function import FunctionTarget  # noqa: PLC0415  as below

        return FunctionTarget(_function(output), folder_at(output.path), name)
    if output.sink == "webhook":
        from deltafix.pipeline.targets.function import FunctionTarget  # noqa: PLC0415  as below
        from deltafix.pipeline.targets.webhook import Webhook  # noqa: PLC0415  an extra

        try:
            post = Webhook(
                values["url"], name, timeout=values["timeout"], attempts=values["attempts"],
                rows=values["rows_per_request"], token_env=values["token_env"],
            )  # fmt: skip
        except ConfigError as error:
            message = f"[output.{output.relation}] {error}"
            raise ConfigError(message, **error.values) from None
        return FunctionTarget(post, folder_at(output.path), name)
    options = values.get("options", {})
    if output.sink == "kafka":
        from deltafix.pipeline.targets.kafka import KafkaTarget  # noqa: PLC0415  an extra

        return KafkaTarget(
            schema, values["servers"], values["topic"], name, envelope=values["envelope"],
            key=values["key"] or (), timeout=values["timeout"], options=options,
        )  # fmt: skip
    merge = values["mode"] == "merge"
    if output.sink == "delta":
        if values["table"]:
            message = (
                f'[output.{output.relation}] table = "{values["table"]}" is a name in a catalog of '
                'Spark\'s: say runner = "spark", or the path of the table'
            )
            raise ConfigError(message, key="table", value=values["table"])
        from deltafix.pipeline.targets.delta import DeltaTarget  # noqa: PLC0415  an extra

        return DeltaTarget(schema, values["path"], name, merge=merge, options=options)
    if output.sink == "iceberg":
        from deltafix.pipeline.targets.iceberg import IcebergTarget  # noqa: PLC0415  an extra

        return IcebergTarget(
            schema, values["table"], name, merge=merge, catalog=values["catalog"], options=options
        )
    key = values["key"] or ()
    if output.sink == "sql":
        from deltafix.pipeline.targets.sql import SqlTarget  # noqa: PLC0415  an extra

        return SqlTarget(schema, values["url"], values["table"], name, merge=merge, key=key)
    from deltafix.pipeline.targets.postgres import PostgresTarget  # noqa: PLC0415  an extra

    return PostgresTarget(schema, values["dsn"], values["table"], name, merge=merge, key=key)


def _function(output: OutputConfig) -> Callable[..., Any]:
    text = output.values["function"]
    if callable(text):
        return cast("Callable[..., Any]", text)
    module, _, attribute = str(text).partition(":")
    try:
        function: Callable[..., Any] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        message = (
            f'[output.{output.relation}] function = "{text}" cannot be loaded: {error}; it takes '
            '"package.module:function"'
        )
        raise ConfigError(message, key="function", value=text) from error
    return function
