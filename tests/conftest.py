"""Fixtures of several test files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

# Imported by the fixtures: a missing extra must skip tests, not break the collection.
if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka_python import Consumers
    from tests.support.placement_server import Gate


@pytest.fixture
def consumers() -> Iterator[Consumers]:
    """Construct KafkaConsumers that never reach a broker, and close them after the test."""
    from tests.support.kafka_python import offline_consumers

    with offline_consumers() as construct:
        yield construct


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Yield a gate for requests to a placement service; it is open at the end."""
    from tests.support.placement_server import Gate

    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests: its start takes longer than most of them."""
    from rack_traffic.session import SparkOptions, spark_session

    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        # The data is small: replanning after each stage takes longer than it saves.
        "spark.sql.adaptive.enabled": "false",
        # So does generating code, as test_ground_truth does.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # So does optimised compilation.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    options = SparkOptions(master="local[2]", driver_memory="2g", settings=settings)
    session = spark_session(options)
    yield session
    session.stop()
