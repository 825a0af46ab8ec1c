"""One Spark session for the tests of connectors, with their jars: it cannot be the one that other
Spark tests share, whose jars are PySpark's. They run before those (`tests/conftest.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.connectors.broker import Broker, Client
from tests.connectors.jars import SETS, jars

from deltafix.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGELOG = "org.apache.spark.sql.connector.catalog.InMemoryChangelogCatalog"


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    assert SparkSession.getActiveSession() is None, "run tests/connectors before tests/spark"
    chosen = [name for name in SETS if name not in ("broker", "hdfs")]
    options = {
        "spark.jars": ",".join(str(path) for name in chosen for path in jars(name)),
        "spark.sql.shuffle.partitions": "2",
        # Java of a query's own, compiled for a few rows, was a fifth of the processor.
        # The sessions of other tests have it.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    if "changelog" in SETS:
        options["spark.sql.catalog.lake"] = CHANGELOG
    warehouse = tmp_path_factory.mktemp("warehouse")
    options["spark.sql.warehouse.dir"] = str(warehouse)
    extensions = []
    if "iceberg" in SETS:
        extensions.append("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        options |= {
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": str(warehouse / "ice"),
            "spark.sql.catalog.both": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.both.type": "jdbc",
            "spark.sql.catalog.both.uri": f"jdbc:sqlite:{warehouse}/both.db?busy_timeout=60000",
            "spark.sql.catalog.both.warehouse": f"file://{warehouse}/both",
        }
    if "delta" in SETS:
        extensions.append("io.delta.sql.DeltaSparkSessionExtension")
        options |= {
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "2",
        }
    options["spark.sql.extensions"] = ",".join(extensions)
    with spark_session(master="local[2]", options=options) as session:
        yield session
    # The JVM keeps its jars; the next session is to start one of its own.
    SparkContext._gateway.shutdown()
    SparkContext._gateway.proc.stdin.close()
    SparkContext._gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture
def both(spark: SparkSession) -> dict[str, str]:
    """The options with which pyiceberg has the catalog `both` of the session."""
    setting = "spark.sql.catalog.both"
    uri = spark.conf.get(f"{setting}.uri").removeprefix("jdbc:sqlite:").partition("?")[0]
    return {
        "type": "sql", "uri": f"sqlite:///{uri}",
        "warehouse": spark.conf.get(f"{setting}.warehouse"),
    }  # fmt: skip


@pytest.fixture(autouse=True)
def _on_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.pipelines.RUNNER", "spark")


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="package")
def client(spark: SparkSession, broker: Broker) -> Iterator[Client]:
    client = Client(spark, broker.servers)
    yield client
    client.close()
