"""Errors on their way out of Spark: what a task raises, and what Spark says of its own.

A task tells an error of deltafix as data (`note_of`), and whoever ran it raises it (`error_of`);
what only Spark knows of becomes one line (`spark_errors`). Invariant: nothing that Spark raises, in
Python or in its JVM, leaves `spark_errors` as it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import dropwhile
from typing import Any

import deltafix.errors
from deltafix.errors import DeltafixError, InternalError, PipelineError


def note_of(error: DeltafixError) -> list[Any]:
    """An error as JSON says it."""
    return [type(error).__name__, str(error), json.loads(json.dumps(error.values, default=str))]


def error_of(note: Sequence[Any]) -> DeltafixError:
    """The error of which that is the note."""
    kind, message, values = note
    error: DeltafixError = getattr(deltafix.errors, kind, InternalError)(message, **values)
    return error


@contextmanager
def spark_errors(
    start: str, hint: str = "", *, kind: type[DeltafixError] = PipelineError, **values: Any
) -> Iterator[None]:
    """Raise PipelineError (or `kind`) for what Spark raises: `start`, its reason, a `hint`."""
    from py4j.protocol import Py4JError  # noqa: PLC0415  comes with Spark
    from pyspark.errors import PySparkException  # noqa: PLC0415  Spark is an extra

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise kind(f"{start}: {_reason(error)}{hint}", **values) from error


def _reason(error: Any) -> str:
    """What went wrong, in a line; of the innermost cause that says it, where the JVM wrapped it."""
    text, cause = str(error), getattr(error, "java_exception", None)
    while cause is not None:
        if cause.getMessage():
            text = str(cause.toString())
        cause = cause.getCause()
    lines = text.strip().split("\n")
    # Of Python on a worker: behind the lines of its traceback, which are indented.
    behind = dropwhile(lambda line: "Traceback (most recent call last)" not in line, lines)
    unindented = [line for line in behind if line[:1].strip()]
    if len(unindented) > 1:
        return unindented[1]
    # Of tasks that ran together: behind the line that says so.
    return lines[1] if "barrier task" in lines[0] and len(lines) > 1 else lines[0]
