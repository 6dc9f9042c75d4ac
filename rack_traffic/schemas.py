"""Spark schemas of the tables; :mod:`rack_traffic.tables` defines the columns."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rack_traffic import tables
from rack_traffic.tables import SNAPSHOT_TABLES, Columns

_ASSIGNMENT = StructType(
    [
        StructField("topic", StringType()),
        StructField("partitions", ArrayType(IntegerType())),
    ]
)
_TYPES: dict[str, DataType] = {
    tables.TEXT: StringType(),
    tables.INT: IntegerType(),
    tables.LONG: LongType(),
    tables.DOUBLE: DoubleType(),
    tables.TIME: TimestampType(),
    tables.INTS: ArrayType(IntegerType()),
    tables.TEXTS: ArrayType(StringType()),
    tables.ASSIGNMENT: ArrayType(_ASSIGNMENT),
}


def spark_schema(columns: Columns) -> StructType:
    """Return the Spark schema of ``columns``; every column is nullable."""
    return StructType([StructField(name, _TYPES[kind]) for name, kind in columns.items()])


SNAPSHOTS: dict[str, StructType] = {
    table: spark_schema(columns) for table, columns in SNAPSHOT_TABLES.items()
}
"""Name of a snapshot table to its schema."""

OUTPUT: dict[str, StructType] = {
    table: spark_schema(columns) for table, columns in tables.OUTPUT_TABLES.items()
}
"""Name of an output table to its schema."""

PARTITION_HOURS = OUTPUT["partition_hours"]
HOURLY = OUTPUT["hourly"]
REPLACED_HOURLY = OUTPUT["replaced_hourly"]
FLOWS_HOURLY = OUTPUT["flows_hourly"]
WHAT_IF = OUTPUT["what_if"]
RANKING = OUTPUT["ranking"]
REJECTED_ROWS = OUTPUT["rejected_rows"]
