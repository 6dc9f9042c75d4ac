"""The input of the scenarios: one row per group and interval."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rack_traffic.options import Interval
from rack_traffic.pipeline import Snapshots
from rack_traffic.transforms.broker_racks import FOREVER, broker_racks, replica_selectors
from rack_traffic.transforms.hours import HOUR_US, hour_numbers
from rack_traffic.transforms.ownership import STABLE_STATES, sends_rack

KEY = ("cluster", "group", "interval_start")


def group_inputs(
    snapshots: Snapshots, partition_hours: DataFrame, interval: Interval, max_gap: timedelta
) -> DataFrame:
    """Return (cluster, group, interval_start, first_hour, interval_end, hours, shared_topics,
    members, protocol, group_type, topics, sizes, brokers): a row per group and interval in which
    the group has members and read anything.

    Members are those of the last snapshot of the interval in which the group was stable, leaders
    and replicas those of the last snapshot. ``hours`` is the time in the interval that snapshots of
    the cluster cover, in hours: the time between two snapshots counts unless it is longer than
    ``max_gap``. ``sizes`` are the bytes that the group read of each partition.
    """
    read = partition_hours.filter(F.col("kind") == "consume").select(
        "cluster",
        "group",
        "topic",
        "partition",
        "hour",
        interval_start(F.col("hour"), interval).alias("interval_start"),
        "bytes",
    )
    spans = covered_spans(read, snapshots.brokers, interval, max_gap)
    sizes = (
        read.groupBy(*KEY, "topic", "partition")
        .agg(F.sum("bytes").alias("bytes"))
        .groupBy(*KEY)
        .agg(F.collect_list(F.struct("topic", "partition", "bytes")).alias("sizes"))
    )
    members = _members(snapshots.members, spans, interval)
    topics = _topics(snapshots.partitions, spans, interval)
    subscribed = members.select(*KEY, F.explode("topics").alias("topic"))
    readers = subscribed.groupBy("cluster", "interval_start", "topic").agg(
        F.count(F.lit(1)).alias("readers")
    )
    shared = topics.join(readers, on=["cluster", "interval_start", "topic"], how="inner")
    partitions = (
        subscribed.join(shared, on=["cluster", "interval_start", "topic"], how="inner")
        .groupBy(*KEY)
        .agg(
            F.collect_list(F.struct("topic", "partitions")).alias("topics"),
            F.sum((F.col("readers") > 1).cast("int")).cast("int").alias("shared_topics"),
        )
    )
    return (
        members.drop("topics")
        .join(partitions, on=list(KEY), how="inner")
        .join(sizes, on=list(KEY), how="inner")
        .join(spans, on=["cluster", "interval_start"], how="inner")
        .join(_brokers(snapshots.brokers), on="cluster", how="inner")
    )


def covered_spans(
    rows: DataFrame, brokers: DataFrame, interval: Interval, max_gap: timedelta
) -> DataFrame:
    """Return (cluster, interval_start, first_hour, interval_end, hours): the time of the ``hour``
    of ``rows`` in each interval, and how long snapshots cover it.

    Every snapshot of a cluster has its brokers. The number of its hours is used if none is known.
    The time between two snapshots is divided into hours, which the spans consist of, so that both
    are joined by equality.
    """
    key = ["cluster", "interval_start"]
    spans = rows.groupBy(*key).agg(
        F.count_distinct("hour").alias("distinct_hours"),
        F.min("hour").alias("first_hour"),
        (F.max("hour") + F.lit(timedelta(hours=1))).alias("interval_end"),
    )
    of_cluster = Window.partitionBy("cluster").orderBy("at")
    at, before = F.col("at"), F.col("before")
    passes = (
        brokers.select("cluster", F.unix_micros("taken_at").alias("at"))
        .distinct()
        .withColumn("before", F.lag("at").over(of_cluster))
        .filter(at - before <= F.lit(max_gap // timedelta(microseconds=1)))
    )
    begin = F.col("number") * F.lit(HOUR_US)
    covered_hours = (
        passes.withColumn("number", F.explode(hour_numbers(before, at)))
        .groupBy("cluster", "number")
        .agg(
            F.sum(F.least(at, begin + F.lit(HOUR_US)) - F.greatest(before, begin)).alias("covered")
        )
        .withColumn("hour", F.timestamp_seconds(F.col("number") * F.lit(3600)))
        .withColumn("interval_start", interval_start(F.col("hour"), interval))
    )
    covered = (
        covered_hours.join(F.broadcast(spans), on=key, how="inner")
        .filter((F.col("hour") >= F.col("first_hour")) & (F.col("hour") < F.col("interval_end")))
        .groupBy(*key)
        .agg((F.sum("covered") / F.lit(float(HOUR_US))).alias("covered_hours"))
    )
    return spans.join(covered, on=key, how="left").select(
        *key,
        "first_hour",
        "interval_end",
        F.coalesce("covered_hours", "distinct_hours").alias("hours"),
    )


def interval_start(time: Column, interval: Interval) -> Column:
    """Return the start of the interval of ``time``; 1970 if there is only one interval."""
    if interval is Interval.ALL:
        return F.timestamp_seconds(F.lit(0))
    return F.date_trunc(interval.value, time)


def _within(rows: DataFrame, spans: DataFrame, interval: Interval) -> DataFrame:
    """Return ``rows`` with the interval of ``taken_at``, if that has traffic."""
    timed = rows.withColumn("interval_start", interval_start(F.col("taken_at"), interval))
    ends = spans.select("cluster", "interval_start", F.col("interval_end").alias("_end"))
    joined = timed.join(F.broadcast(ends), on=["cluster", "interval_start"], how="inner")
    return joined.filter(F.col("taken_at") <= F.col("_end")).drop("_end")


def _newest(rows: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Return the rows of the last ``taken_at`` of each ``key``.

    An aggregate of the times and a semi-join are much faster than a sort of the whole rows, with
    their lists, of which only the last are needed.
    """
    newest = rows.groupBy(*key).agg(F.max("taken_at").alias("taken_at"))
    return rows.join(newest, on=[*key, "taken_at"], how="left_semi")


def _members(members: DataFrame, spans: DataFrame, interval: Interval) -> DataFrame:
    """Return the members of each group in its last stable snapshot that has members."""
    present = _within(members, spans, interval).filter(
        F.col("member_id").isNotNull() & F.col("state").isin(*STABLE_STATES)
    )
    last = (
        _newest(present, KEY)
        .dropDuplicates([*KEY, "member_id"])
        .groupBy(*KEY)
        .agg(
            F.collect_list(
                F.struct(
                    *("member_id", "instance_id", "client_id", "host", "rack", "rack_source"),
                    *("topics", "assignment"),
                    sends_rack().alias("sends_rack"),
                )
            ).alias("members"),
            F.max("protocol").alias("protocol"),
            F.max("group_type").alias("group_type"),
        )
    )
    of_members = F.flatten(
        F.transform(
            "members", lambda each: F.coalesce(each["topics"], F.array().cast("array<string>"))
        )
    )
    return last.select(
        *KEY, "members", "protocol", "group_type", F.array_distinct(of_members).alias("topics")
    )


def _topics(partitions: DataFrame, spans: DataFrame, interval: Interval) -> DataFrame:
    """Return (cluster, interval_start, topic, partitions): the last state of each partition."""
    key = ("cluster", "interval_start", "topic", "partition")
    last = _newest(_within(partitions, spans, interval), key).dropDuplicates(list(key))
    return last.groupBy("cluster", "interval_start", "topic").agg(
        F.collect_list(F.struct("partition", "leader", "replicas", "isr")).alias("partitions")
    )


def _brokers(brokers: DataFrame) -> DataFrame:
    """Return (cluster, brokers): each broker with its last rack and replica selector, null if it
    never had one."""
    last = brokers.select("cluster", "broker").distinct()
    for spans in (broker_racks(brokers), replica_selectors(brokers)):
        values = spans.filter(F.col("until") == F.lit(FOREVER)).drop("since", "until")
        last = last.join(values, on=["cluster", "broker"], how="left")
    return last.groupBy("cluster").agg(
        F.collect_list(F.struct("broker", "rack", "replica_selector")).alias("brokers")
    )
