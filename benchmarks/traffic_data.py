"""Generates millions of snapshot rows with Spark, as column expressions over a range."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from rack_traffic.schemas import SNAPSHOTS

BROKERS = 30
RACKS = 3
MEMBERS = 10
GROUPS_PER_TOPIC = 20
BEGIN = 1_772_445_600
"""2026-03-02T10:00Z; a snapshot a minute."""


@dataclass(frozen=True)
class Size:
    """Size of the data: ``groups`` x ``partitions`` x ``snapshots`` commits.

    Every topic has ``partitions`` partitions and 20 groups, every group ten members.
    """

    groups: int
    partitions: int
    snapshots: int

    @property
    def commits(self) -> int:
        return self.groups * self.partitions * self.snapshots

    @property
    def topics(self) -> int:
        return max(1, self.groups // GROUPS_PER_TOPIC)


def write_snapshots(spark: SparkSession, size: Size, root: str) -> None:
    """Write the snapshot tables below ``root``, as the collector does."""
    for table, rows in {
        "brokers": _brokers(spark, size),
        "partitions": _partitions(spark, size),
        "members": _members(spark, size),
        "commits": _commits(spark, size),
    }.items():
        present = set(rows.columns)
        complete = rows.select(
            *(
                (F.col(each.name) if each.name in present else F.lit(None))
                .cast(each.dataType)
                .alias(each.name)
                for each in SNAPSHOTS[table]
            ),
            F.to_date("taken_at").alias("date"),
        )
        complete.write.mode("overwrite").partitionBy("date").parquet(f"{root}/{table}")


def _time(number: Column) -> Column:
    return F.timestamp_seconds(F.lit(BEGIN) + number * 60)


def _topic(number: Column) -> Column:
    return F.format_string("topic-%04d", number)


def _leader(topic: Column, partition: Column, snapshot: Column) -> Column:
    """Return the leader; of every twentieth partition it moves to the next replica half-way."""
    moved = ((partition % 20 == 0) & (snapshot >= 25)).cast("long")
    return (topic * 7 + partition + moved) % BROKERS


def _end(partition: Column, snapshot: Column) -> Column:
    return 1_000_000 + snapshot * (600 + partition % 97)


def _bytes_per_offset(topic: Column, partition: Column) -> Column:
    return 200 + (topic * 31 + partition) % 700


def _brokers(spark: SparkSession, size: Size) -> DataFrame:
    broker = F.col("id") % BROKERS
    return spark.range(BROKERS * size.snapshots).select(
        F.lit("main").alias("cluster"),
        broker.alias("broker"),
        F.format_string("rack-%d", broker % RACKS).alias("rack"),
        _time(F.expr(f"id div {BROKERS}")).alias("taken_at"),
    )


def _partitions(spark: SparkSession, size: Size) -> DataFrame:
    numbers = spark.range(size.snapshots * size.topics * size.partitions).select(
        (F.col("id") % size.partitions).alias("p"),
        (F.expr(f"id div {size.partitions}") % size.topics).alias("t"),
        F.expr(f"id div {size.partitions * size.topics}").alias("s"),
    )
    topic, partition, snapshot = F.col("t"), F.col("p"), F.col("s")
    end = _end(partition, snapshot)
    start = F.lit(500_000)
    leader = _leader(topic, partition, snapshot)
    replicas = F.array(*((topic * 7 + partition + hop) % BROKERS for hop in range(3)))
    return numbers.select(
        F.lit("main").alias("cluster"),
        _topic(topic).alias("topic"),
        _topic(topic).alias("topic_id"),
        partition.alias("partition"),
        leader.alias("leader"),
        F.lit(0).alias("leader_epoch"),
        replicas.alias("replicas"),
        replicas.alias("isr"),
        start.alias("start_offset"),
        end.alias("end_offset"),
        ((end - start) * _bytes_per_offset(topic, partition)).alias("size_bytes"),
        _time(snapshot).alias("taken_at"),
    )


def _members(spark: SparkSession, size: Size) -> DataFrame:
    numbers = spark.range(size.snapshots * size.groups * MEMBERS).select(
        (F.col("id") % MEMBERS).alias("m"),
        (F.expr(f"id div {MEMBERS}") % size.groups).alias("g"),
        F.expr(f"id div {MEMBERS * size.groups}").alias("s"),
    )
    topic = _topic(F.col("g") % size.topics)
    assigned = F.sequence(F.col("m"), F.lit(size.partitions - 1), F.lit(MEMBERS))
    return numbers.select(
        F.lit("main").alias("cluster"),
        F.format_string("group-%05d", "g").alias("group"),
        F.lit("classic").alias("group_type"),
        F.lit("Stable").alias("state"),
        F.lit("consumer").alias("protocol_type"),
        F.lit("range").alias("protocol"),
        F.lit(1).alias("generation"),
        F.format_string("group-%05d-%d", "g", "m").alias("member_id"),
        F.format_string("rack-%d", (F.col("m") + F.col("g")) % RACKS).alias("rack"),
        F.lit("subscription").alias("rack_source"),
        F.array(topic).alias("topics"),
        F.array(
            F.struct(topic.alias("topic"), assigned.cast("array<int>").alias("partitions"))
        ).alias("assignment"),
        _time(F.col("s")).alias("taken_at"),
    )


def _commits(spark: SparkSession, size: Size) -> DataFrame:
    numbers = spark.range(size.commits).select(
        (F.col("id") % size.partitions).alias("p"),
        (F.expr(f"id div {size.partitions}") % size.groups).alias("g"),
        F.expr(f"id div {size.partitions * size.groups}").alias("s"),
    )
    return numbers.select(
        F.lit("main").alias("cluster"),
        F.format_string("group-%05d", "g").alias("group"),
        _topic(F.col("g") % size.topics).alias("topic"),
        F.col("p").alias("partition"),
        (_end(F.col("p"), F.col("s")) - F.col("g") % 50).alias("committed_offset"),
        _time(F.col("s")).alias("taken_at"),
    )


def true_bytes(size: Size) -> int:
    """Return the exact bytes that all groups read from the first to the last snapshot."""
    offsets = [
        (600 + partition % 97) * (size.snapshots - 1) for partition in range(size.partitions)
    ]
    of_topic = [
        sum(offsets[p] * (200 + (topic * 31 + p) % 700) for p in range(size.partitions))
        for topic in range(size.topics)
    ]
    return sum(of_topic[group % size.topics] for group in range(size.groups))
