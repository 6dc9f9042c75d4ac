"""The Spark session: one machine, any ``--master``, or Spark Connect, for the same pipeline."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rack_traffic.errors import MissingSparkError
from rack_traffic.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KAFKA_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"

_ALWAYS = {
    # Days of tables, and of intervals, are those of UTC, wherever this runs.
    "spark.sql.session.timeZone": "UTC",
}
_CONNECTED = {
    # A server is sent the pipeline whole, and not step by step: more to analyse at a time.
    "spark.sql.analyzer.maxIterations": "1000",
}
_STARTED = {
    # Every column would ask Spark several questions, to tell an error which line made it.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

log = logging.getLogger("rackward.traffic")
"""What a job is at, for whoever waits for it."""


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """How to reach or start Spark.

    ``master`` is ``local[N]``, a cluster's master URL, or ``sc://HOST:PORT`` for Spark Connect.
    ``driver_memory`` and ``kafka`` (fetch the Kafka connector of this Spark's version through
    Maven) only matter where this process starts Spark. ``bars``: whether it shows on stderr how
    far a stage is. ``settings`` are Spark's own and win over ours.
    """

    master: str = "local[*]"
    driver_memory: str = "4g"
    kafka: bool = False
    bars: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def connects(self) -> bool:
        """Whether the session is one of Spark Connect."""
        return self.master.startswith("sc://")


def spark_session(options: SparkOptions) -> SparkSession:
    """The session of ``options``; the one that runs in this process already, where there is one.

    A local Spark listens on the loopback interface only, without its web page. Its workers run this
    Python; those of a cluster run what ``PYSPARK_PYTHON`` says, and need rackward installed.
    Raises MissingSparkError and UnfitJavaError.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingSparkError("pyspark") from error
    builder = SparkSession.builder.appName("rackward traffic")
    if options.connects:
        try:
            settings = _ALWAYS | _CONNECTED | dict(options.settings)
            log.info("connecting to Spark at %s", options.master)
            return _configured(builder.remote(options.master), settings).getOrCreate()
        except ImportError as error:
            raise MissingSparkError(f"pyspark[connect] ({error})") from error
    home, told = find_java(os.environ)
    if told:
        log.warning(told)
    os.environ["JAVA_HOME"] = str(home)
    log.info("starting Spark with master %s", options.master)
    started: SparkSession = _configured(
        builder.master(options.master), _settings(options) | dict(options.settings)
    ).getOrCreate()
    return started


def kafka_package() -> str:
    """Maven coordinates of the Kafka connector for the Spark that is installed."""
    import pyspark

    return f"{KAFKA_CONNECTOR}:{pyspark.__version__}"


def _settings(options: SparkOptions) -> dict[str, str]:
    settings = (
        _ALWAYS
        | _STARTED
        | {
            "spark.driver.memory": options.driver_memory,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "true" if options.bars else "false",
            "spark.log.level": "ERROR",
            # Rows are small in a shuffle and wide in the sorts after it: parts that fit in memory.
            "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
        }
    )
    if options.master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    if options.kafka:
        settings["spark.jars.packages"] = kafka_package()
    return settings


def _configured(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession.Builder:
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder
