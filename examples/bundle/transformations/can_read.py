"""Flows of a declarative pipeline: what the deltafix pipeline changed, and what holds now."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from deltafix.spark.datasource import register

spark = SparkSession.active()
register(spark)
LOG = spark.conf.get("access.log")


@dp.table
def can_read_changes() -> DataFrame:
    """Each epoch's signed rows, once."""
    return spark.readStream.format("deltafix").load(LOG)


@dp.materialized_view
def can_read() -> DataFrame:
    """The rows of the last epoch."""
    return spark.read.format("deltafix").option("view", "rows").load(LOG)
