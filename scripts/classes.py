"""Write an archive of Spark's classes for Java: `python scripts/classes.py FILE`.

The tests start a Java with Spark's jars again and again, and each takes seconds of processor to
read, check and link the same classes. With the archive it maps them. Java goes on without one that
it was not made for: another Java, or other jars.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext

from deltafix.spark import session

LOG = Path(session.__file__).with_name("log4j2.properties").as_uri()


def main(archive: str) -> None:
    """Do a bit of what tests do, and have Java write which classes that took."""
    options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:cds*=off"  # as the tests have it
    options += f" -XX:ArchiveClassesAtExit={archive}"
    options += f" -Dlog4j2.configurationFile={LOG}"
    with (
        tempfile.TemporaryDirectory() as folder,
        session.spark_session(options={"spark.driver.extraJavaOptions": options}) as spark,
    ):
        shape = "x string, n bigint"
        frame = spark.createDataFrame([("a", 1), ("b", 2)], shape)
        frame.createOrReplaceTempView("t")
        spark.sql("SELECT x, sum(n) FROM t JOIN t u USING (x, n) GROUP BY x ORDER BY x").collect()
        frame.mapInArrow(lambda batches: batches, shape).write.parquet(f"{folder}/rows")
        stream = spark.readStream.schema(shape).parquet(f"{folder}/rows").writeStream
        stream = stream.foreachBatch(lambda batch, _: batch.collect())
        stream.trigger(availableNow=True).start().awaitTermination()
    gateway = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    Path(archive).touch()  # empty, where Java has no archive of its own to add to


if __name__ == "__main__":
    main(sys.argv[1])
