"""The Spark of a command: begun, told of, and stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rack_traffic.session import SparkOptions, spark_session
from rackward.commands.logged import logged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def running(given: SparkOptions) -> Iterator[SparkSession]:
    """A session for the ``with`` block; what it is at goes to stderr.

    Raises MissingSparkError and UnfitJavaError.
    """
    with logged("rackward.traffic"):
        spark = spark_session(given)
        try:
            yield spark
        finally:
            spark.stop()
