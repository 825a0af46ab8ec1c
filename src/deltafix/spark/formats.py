"""Delta and Iceberg as a session of Spark has them: what they need, how their tables are named.

`DELTA` and `ICEBERG` say which class a session must know; `require` refuses one that does not. Of
an Iceberg table `ancestry` gives the snapshots that led to its rows, which Spark's SQL does not
tell in order, and `marking` has a statement leave marks in the snapshot that it makes. Invariant:
nothing is read or written here but the metadata of tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from deltafix.errors import ConfigError, DeltafixError
from deltafix.pipeline.targets.ancestry import Ancestor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Format:
    """A format of tables: a class of its jar, and what to say where that is missing."""

    title: str
    provider: str
    hint: str


DELTA: Final = Format(
    "Delta",
    "io.delta.tables.DeltaTable",
    "name its package, extension and catalog in [spark]: jars.packages = "
    '"io.delta:delta-spark_4.1_2.13:4.1.0", sql.extensions = '
    '"io.delta.sql.DeltaSparkSessionExtension", sql.catalog.spark_catalog = '
    '"org.apache.spark.sql.delta.catalog.DeltaCatalog"',
)
ICEBERG: Final = Format(
    "Iceberg",
    "org.apache.iceberg.spark.SparkCatalog",
    "name its package and extension in [spark]: jars.packages = "
    '"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0", sql.extensions = '
    '"org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"',
)


def require(
    spark: SparkSession, needed: Format, called: str, kind: type[DeltafixError], **values: Any
) -> None:
    """Raise `kind`, which begins with `called`, if the session does not have the format's jar."""
    from py4j.java_gateway import JavaClass  # noqa: PLC0415  comes with Spark

    package = spark._jvm
    for part in needed.provider.split("."):
        package = getattr(package, part)
    if not isinstance(package, JavaClass):
        raise kind(f"{called}: this Spark has no {needed.title}; {needed.hint}", **values)


def catalog_settings(
    spark: SparkSession,
    catalog: str,
    options: Mapping[str, str],
    called: str,
    kind: type[DeltafixError],
    **values: Any,
) -> dict[str, str]:
    """The settings that make an Iceberg catalog of a section's `options`.

    Raises `kind` if there are none and the session has no catalog of that name.
    """
    prefix = f"spark.sql.catalog.{catalog}"
    known = spark.conf.get(prefix, None)
    if known is None and not options:
        message = (
            f"{called}: Spark has no catalog of that name; say its options here, or in "
            f'[spark] sql.catalog.{catalog} = "{ICEBERG.provider}" and the rest'
        )
        raise kind(message, **values)
    settings = {f"{prefix}.{key}": value for key, value in options.items()}
    return {prefix: known or ICEBERG.provider, **settings}


def iceberg_table(spark: SparkSession, name: str) -> Any:
    """The table of Iceberg's own library as it is now, whatever a catalog has in its cache."""
    util = spark._jvm.org.apache.iceberg.spark.Spark3Util
    # Iceberg looks for the catalog in the settings of the thread's active session. A thread that
    # has made no session has none: that of a streaming query, or of a second writer.
    sessions = spark._jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        table = util.loadIcebergTable(spark._jsparkSession, name)
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
    table.refresh()
    return table


def ancestry(table: Any) -> Iterator[Ancestor]:
    """The snapshots that led to the rows of a table of `iceberg_table`, the current one first.

    By parents, since a rollback leaves others beside them; up to one whose parent has expired.
    """
    snapshot = table.currentSnapshot()
    while snapshot is not None:
        parent = snapshot.parentId()
        yield Ancestor(
            snapshot.snapshotId(), snapshot.sequenceNumber(), parent,
            snapshot.operation() or "", dict(snapshot.summary()),
        )  # fmt: skip
        snapshot = None if parent is None else table.snapshot(parent)


@contextmanager
def marking(spark: SparkSession, marks: Mapping[str, str]) -> Iterator[None]:
    """Have what this thread commits to Iceberg tables say `marks` in the summary of its snapshot.

    Iceberg offers this around a call in Java (`CommitMetadata.withCommitProperties`), which no
    statement from Python is; so the marks are put where that call puts them. The setting
    `snapshot-property` says the same, but Iceberg reads it from 1.11 on only.
    """
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    metadata = loader.loadClass("org.apache.iceberg.spark.CommitMetadata")
    field = metadata.getDeclaredField("COMMIT_PROPERTIES")
    field.setAccessible(True)
    of_thread = field.get(None)
    of_thread.set(dict(marks))
    try:
        yield
    finally:
        of_thread.remove()


_NAME: Final = re.compile(r"`(?:[^`]|``)+`|[^`.\s]+")


def named(where: str, text: str) -> str:
    """A table's name as SQL has it, each part in quotes. Raises ConfigError, with the section."""
    parts = _NAME.findall(text)
    if ".".join(parts) != text:
        message = (
            f'{where} table = "{text}" is no name of a table: parts with points between them, '
            "those with other signs in backquotes"
        )
        raise ConfigError(message, key="table", value=text)
    return ".".join(part if part[0] == "`" else quoted(part) for part in parts)


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return f"`{name.replace('`', '``')}`"
