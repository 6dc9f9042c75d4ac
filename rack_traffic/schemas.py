"""Spark schemas of the snapshot tables and of the output tables.

:mod:`rack_traffic.snapshot_tables` and :mod:`rack_traffic.output_tables` define the columns and
say what they mean.
"""

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

from rack_traffic import output_tables, snapshot_tables
from rack_traffic.snapshot_tables import SNAPSHOT_TABLES, Columns

_ASSIGNMENT = StructType(
    [
        StructField("topic", StringType()),
        StructField("partitions", ArrayType(IntegerType())),
    ]
)
_TYPES: dict[str, DataType] = {
    snapshot_tables.TEXT: StringType(),
    snapshot_tables.INT: IntegerType(),
    snapshot_tables.LONG: LongType(),
    snapshot_tables.DOUBLE: DoubleType(),
    snapshot_tables.TIME: TimestampType(),
    snapshot_tables.INTS: ArrayType(IntegerType()),
    snapshot_tables.TEXTS: ArrayType(StringType()),
    snapshot_tables.ASSIGNMENT: ArrayType(_ASSIGNMENT),
}


def spark_schema(columns: Columns) -> StructType:
    """Return the Spark schema of ``columns``; every column is nullable."""
    return StructType([StructField(name, _TYPES[kind]) for name, kind in columns.items()])


SNAPSHOTS: dict[str, StructType] = {
    table: spark_schema(columns) for table, columns in SNAPSHOT_TABLES.items()
}
"""Name of a snapshot table to its schema."""

OUTPUT: dict[str, StructType] = {
    table: spark_schema(columns) for table, columns in output_tables.OUTPUT_TABLES.items()
}
"""Name of an output table to its schema."""

PARTITION_HOURS = OUTPUT["partition_hours"]
HOURLY = OUTPUT["hourly"]
REPLACED_HOURLY = OUTPUT["replaced_hourly"]
FLOWS_HOURLY = OUTPUT["flows_hourly"]
WHAT_IF = OUTPUT["what_if"]
RANKING = OUTPUT["ranking"]
REJECTED_ROWS = OUTPUT["rejected_rows"]
