"""One Spark session for all tests of the pipeline: its start takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

# Imported by the fixtures: a missing extra must skip tests, not break the collection.
if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from rack_traffic.session import SparkOptions, spark_session

    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        # The data is small: replanning after each stage takes longer than it saves.
        "spark.sql.adaptive.enabled": "false",
        # So does optimised compilation.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    session = spark_session(SparkOptions(master="local[2]", driver_memory="2g", settings=settings))
    yield session
    session.stop()
