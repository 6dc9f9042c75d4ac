"""What flow records of a cluster say beside one snapshot of it, for ``rackward audit``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rack_traffic.errors import InputError
from rack_traffic.flow_formats import read_flows
from rack_traffic.options import FlowOptions
from rack_traffic.pipeline import FlowInput, flow_hours
from rack_traffic.schemas import SNAPSHOTS

_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class CountedFlows:
    """The table FLOWS_HOURLY, the time [since, until) of its records, and the rejected records by
    reason."""

    hours: pa.Table
    since: datetime
    until: datetime
    rejected: Mapping[str, int]


def count_flows(
    spark: SparkSession, snapshot: Mapping[str, pa.Table], flows: FlowOptions
) -> CountedFlows:
    """Return the flows of the cluster of ``snapshot`` (table name to rows).

    The cluster is assumed to have been as in the snapshot during all records. Raise InputError,
    also if no record is of a broker of the cluster.
    """
    records = read_flows(spark, flows.path, flows.format)
    frames = {
        name: spark.createDataFrame(table, SNAPSHOTS[name]) for name, table in snapshot.items()
    }
    listeners, brokers, members = (frames[name] for name in ("listeners", "brokers", "members"))
    given = FlowInput(records.valid, listeners, brokers, members, flows)
    row = given.of_brokers().agg(F.min("start").alias("since"), F.max("end").alias("until")).head()
    if row is None or row["since"] is None:
        known = sorted({f"{each['address']}:{each['port']}" for each in listeners.collect()})
        raise InputError(
            f"no flow record in {flows.path} is of this cluster's brokers ({', '.join(known)}): "
            "check the path, and give load balancers and NAT with --flow-addresses"
        )
    at = [F.timestamp_micros(F.lit(row[name])) for name in ("since", "until")]
    first, last = (members.withColumn("taken_at", each) for each in at)
    with flow_hours(replace(given, members=first.unionByName(last))) as hours:
        table = hours.toArrow()
    rejected = records.rejected.groupBy("reason").count().collect()
    since, until = (_EPOCH + timedelta(microseconds=row[name]) for name in ("since", "until"))
    return CountedFlows(
        table,
        since,
        # At least a microsecond, so that there are rates.
        max(until, since + timedelta(microseconds=1)),
        {each["reason"]: each["count"] for each in rejected},
    )
