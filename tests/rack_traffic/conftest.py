"""One Spark for all tests of the pipeline: it takes longer to start than most of them run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from rack_traffic.session import SparkOptions, spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        # Small data: deciding how to run a plan anew after each stage costs more than it saves.
        "spark.sql.adaptive.enabled": "false",
        # And so does compiling for a run that is over in a second.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    session = spark_session(SparkOptions(master="local[2]", driver_memory="2g", settings=settings))
    yield session
    session.stop()
