"""The jars that tests of connectors need: which versions, and how they are come by.

PySpark ships Ivy, the resolver behind `spark.jars.packages`; it is run here on pinned artifacts
without their dependencies, once per set, into `build/jars`. Invariant: a set is there wholly or a
test that asks for it is skipped, with Ivy's reason.
"""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pyspark
import pytest

from deltafix.spark.java import find_java

BUILD = Path(__file__).parents[2] / "build"
SPARK_JARS = Path(pyspark.__file__).parent / "jars"

_KAFKA = "4.1.0"
_MODULES = (
    "kafka_2.13", "kafka-clients", "kafka-coordinator-common", "kafka-group-coordinator",
    "kafka-group-coordinator-api", "kafka-metadata", "kafka-raft", "kafka-server",
    "kafka-server-common", "kafka-share-coordinator", "kafka-storage", "kafka-storage-api",
    "kafka-tools-api", "kafka-transaction-coordinator",
)  # fmt: skip

VERSION = ".".join(pyspark.__version__.split(".")[:2])
"""Of the Spark that runs, e.g. 4.1."""

# Of these, the newest that the registry has for that Spark; none is built for 4.3.
_CONNECTOR = {"4.0": "4.0.0", "4.1": "4.1.1"}.get(VERSION, "4.2.0")

HADOOP = next(SPARK_JARS.glob("hadoop-client-api-*.jar")).stem.rpartition("-")[2]

SETS: dict[str, list[tuple[str, ...]]] = {
    # A broker. What else it needs (Scala, Jackson, logging) it takes from Spark's own jars.
    "broker": [
        *(("org.apache.kafka", name, _KAFKA) for name in _MODULES),
        ("com.yammer.metrics", "metrics-core", "2.2.0"),
        ("com.fasterxml.jackson.dataformat", "jackson-dataformat-csv", "2.21.2"),
        ("com.fasterxml.jackson.datatype", "jackson-datatype-jdk8", "2.21.2"),
        ("com.github.ben-manes.caffeine", "caffeine", "3.2.0"),
        ("com.google.re2j", "re2j", "1.8"),
        ("com.typesafe.scala-logging", "scala-logging_2.13", "3.9.5"),
        ("commons-validator", "commons-validator", "1.9.0"),
        ("net.sf.jopt-simple", "jopt-simple", "5.0.4"),
        ("net.sourceforge.argparse4j", "argparse4j", "0.7.0"),
        ("org.bitbucket.b_c", "jose4j", "0.9.6"),
        ("org.hdrhistogram", "HdrHistogram", "2.2.2"),
        ("org.pcollections", "pcollections", "4.0.2"),
    ],
    # A namenode and a datanode, of the Hadoop whose client is among Spark's own jars.
    "hdfs": [
        ("org.apache.hadoop", "hadoop-client-minicluster", HADOOP),
        ("javax.xml.bind", "jaxb-api", "2.3.1"),  # which Java has no more
        ("javax.activation", "javax.activation-api", "1.2.0"),
    ],
    "postgres": [("org.postgresql", "postgresql", "42.7.4")],
    # Spark's Kafka connector.
    "kafka": [
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", _CONNECTOR),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
        ("org.apache.kafka", "kafka-clients", "3.9.2"),
        ("org.apache.commons", "commons-pool2", "2.12.1"),
    ],
}

_DELTA = {"4.0": ("_2.13", "4.0.0"), "4.1": ("_4.1_2.13", "4.1.0"), "4.2": ("_4.2_2.13", "4.4.0")}
if VERSION in _DELTA:
    _SUFFIX, _NUMBER = _DELTA[VERSION]
    SETS["delta"] = [
        ("io.delta", f"delta-spark{_SUFFIX}", _NUMBER), ("io.delta", "delta-storage", _NUMBER)
    ]  # fmt: skip
if VERSION in ("4.0", "4.1"):
    # A catalog that Spark and pyiceberg share.
    SETS["sqlite"] = [("org.xerial", "sqlite-jdbc", "3.50.3.0")]
    SETS["iceberg"] = {
        "4.0": [("org.apache.iceberg", "iceberg-spark-runtime-4.0_2.13", "1.11.0")],
        "4.1": [("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.11.0")],
    }[VERSION]
else:  # the catalog with a changelog that Spark tests its own change feed with
    SETS["changelog"] = [("org.apache.spark", "spark-catalyst_2.13", "4.2.0", "tests")]


def needs(name: str) -> pytest.MarkDecorator:
    """Skips a test where nothing of that name is built for the Spark that runs."""
    return pytest.mark.skipif(name not in SETS, reason=f"{name} has no jars for Spark {VERSION}")


_HEAD = (
    '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
    '<info organisation="deltafix" module="tests"/><configurations><conf name="default"/>'
    "</configurations><dependencies>"
)


@cache
def jars(name: str) -> list[Path]:
    """The jars of a set, resolved if they are not there yet; skips the test if they cannot be."""
    folder = BUILD / "jars"
    wanted = [folder / f"{'-'.join(one[1:])}.jar" for one in SETS[name]]
    if not all(path.is_file() for path in wanted):
        said = _resolve(name, folder)
        missing = [path.name for path in wanted if not path.is_file()]
        if missing:
            pytest.skip(f"jars cannot be resolved: {', '.join(missing)}: {said}")
    return wanted


def _resolve(name: str, folder: Path) -> str:
    """Run Ivy; why it did not find what it did not find."""
    folder.mkdir(parents=True, exist_ok=True)
    module = folder / f"{name}.xml"
    module.write_text(_HEAD + "".join(map(_entry, SETS[name])) + "</dependencies></ivy-module>")
    ivy = next(SPARK_JARS.glob("ivy-*.jar"))
    pattern = folder / "[artifact]-[revision](-[classifier]).[ext]"
    command = [str(find_java().executable), "-jar", str(ivy), "-ivy", str(module), "-warn"]
    command += ["-cache", str(BUILD / "ivy"), "-m2compatible", "-retrieve", str(pattern)]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        return "no answer within 300 s"
    lines = [line.strip() for line in (ran.stdout + ran.stderr).splitlines() if line.strip()]
    why = [line for line in lines if "not found" in line or "unresolved" in line]
    return (why or lines or ["nothing was said"])[0]


def _entry(pin: tuple[str, ...]) -> str:
    """A dependency for Ivy: the artifact itself, not what it depends on."""
    group, name, version, *classifier = pin
    attributes = f"org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(version)}"
    artifact = f'<artifact name={quoteattr(name)} type="jar" ext="jar"'
    artifact += f" m:classifier={quoteattr(classifier[0])}/>" if classifier else "/>"
    start = f'<dependency {attributes} transitive="false" conf="default-&gt;master">'
    return f"{start}{artifact}</dependency>"
