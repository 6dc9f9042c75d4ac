"""One row per group and interval with all that the scenarios need, made of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from assignors import Member
from placement_core import TopicPartition
from rack_traffic.pipeline import Snapshots
from rack_traffic.transforms.broker_racks import ALWAYS, broker_racks
from rack_traffic.transforms.ownership import SETTLED

# ---- What the scenarios are worked out for, one by one.


class Interval(StrEnum):
    """All hours together, or day by day (UTC), or hour by hour."""

    ALL = "all"
    DAY = "day"
    HOUR = "hour"


KEY = ("cluster", "group", "interval_start")


def group_inputs(snapshots: Snapshots, partition_hours: DataFrame, interval: Interval) -> DataFrame:
    """(cluster, group, interval_start, first_hour, interval_end, hours, shared_topics, members,
    protocol, topics, amounts, brokers): a row per group and interval in which the group has
    members and read anything.

    Members, leaders and replicas are those of the last snapshots of the interval in which the group
    was settled; ``hours`` is how many hours of the interval the cluster has traffic for.
    """
    read = partition_hours.filter(F.col("kind") == "consume").select(
        "cluster",
        "group",
        "topic",
        "partition",
        "hour",
        _start(F.col("hour"), interval).alias("interval_start"),
        "bytes",
    )
    spans = read.groupBy("cluster", "interval_start").agg(
        F.count_distinct("hour").cast("double").alias("hours"),
        F.min("hour").alias("first_hour"),
        F.expr("max(hour) + interval 1 hour").alias("interval_end"),
    )
    amounts = (
        read.groupBy(*KEY, "topic", "partition")
        .agg(F.sum("bytes").alias("bytes"))
        .groupBy(*KEY)
        .agg(F.collect_list(F.struct("topic", "partition", "bytes")).alias("amounts"))
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
        .join(amounts, on=list(KEY), how="inner")
        .join(spans, on=["cluster", "interval_start"], how="inner")
        .join(_brokers(snapshots.brokers), on="cluster", how="inner")
    )


def _start(time: Column, interval: Interval) -> Column:
    """When the interval of ``time`` begins; 1970 stands for the beginning of all there is."""
    if interval is Interval.ALL:
        return F.timestamp_seconds(F.lit(0))
    return F.date_trunc(interval.value, time)


def _within(rows: DataFrame, spans: DataFrame, interval: Interval) -> DataFrame:
    """``rows`` with the interval of ``taken_at``, as far as there is traffic for it."""
    timed = rows.select("*", _start(F.col("taken_at"), interval).alias("interval_start"))
    ends = spans.select("cluster", "interval_start", F.col("interval_end").alias("_end"))
    joined = timed.join(F.broadcast(ends), on=["cluster", "interval_start"], how="inner")
    return joined.filter(F.col("taken_at") <= F.col("_end")).drop("_end")


def _newest(rows: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """The rows of the last ``taken_at`` of each ``key``.

    Nearly all snapshots are left behind by their times alone, which is a small sum; to gather and
    sort their lists, only for the last to be taken, is what would take long.
    """
    newest = rows.groupBy(*key).agg(F.max("taken_at").alias("taken_at"))
    return rows.join(newest, on=[*key, "taken_at"], how="left_semi")


def _members(members: DataFrame, spans: DataFrame, interval: Interval) -> DataFrame:
    """The members of each group's last settled snapshot in which it has any."""
    present = _within(members, spans, interval).filter(
        F.col("member_id").isNotNull() & F.col("state").isin(*SETTLED)
    )
    last = (
        _newest(present, KEY)
        .dropDuplicates([*KEY, "member_id"])
        .groupBy(*KEY)
        .agg(
            F.collect_list(
                F.struct("member_id", "instance_id", "rack", "topics", "assignment")
            ).alias("members"),
            F.max("protocol").alias("protocol"),
        )
    )
    of_members = F.flatten(
        F.transform(
            "members", lambda each: F.coalesce(each["topics"], F.array().cast("array<string>"))
        )
    )
    return last.select(*KEY, "members", "protocol", F.array_distinct(of_members).alias("topics"))


def _topics(partitions: DataFrame, spans: DataFrame, interval: Interval) -> DataFrame:
    """(cluster, interval_start, topic, partitions): every partition as it was last seen."""
    key = ("cluster", "interval_start", "topic", "partition")
    last = _newest(_within(partitions, spans, interval), key).dropDuplicates(list(key))
    return last.groupBy("cluster", "interval_start", "topic").agg(
        F.collect_list(F.struct("partition", "leader", "replicas", "isr")).alias("partitions")
    )


def _brokers(brokers: DataFrame) -> DataFrame:
    """(cluster, brokers): every broker and its last rack, null where it never said one."""
    seen = brokers.select("cluster", "broker").distinct()
    racks = broker_racks(brokers).filter(F.col("until") == F.lit(ALWAYS))
    return (
        seen.join(racks, on=["cluster", "broker"], how="left")
        .groupBy("cluster")
        .agg(F.collect_list(F.struct("broker", "rack")).alias("brokers"))
    )


# ---- A group as the scenarios see it, and what comes out of one: frozen values.


@dataclass(frozen=True, slots=True)
class PartitionCase:
    """A partition: brokers that lead, hold and are in sync with it, and the bytes that the group
    read from it over the interval."""

    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class GroupCase:
    """A group at the end of an interval of ``hours`` hours.

    ``members`` own what they own now. ``partitions`` are those of every topic that a member
    subscribes to. ``racks`` holds the brokers' racks (None: not known), ``shared_topics`` counts
    the topics that other groups read too.
    """

    cluster: str
    group: str
    assignor: str
    hours: float
    members: tuple[Member, ...]
    partitions: Mapping[TopicPartition, PartitionCase]
    racks: Mapping[int, str | None]
    shared_topics: int = 0

    def rack_of(self, broker: int | None) -> str | None:
        """The rack of a broker; None where the broker, or its rack, is not known."""
        return None if broker is None else self.racks.get(broker)

    def leader_racks(self) -> dict[str, list[str | None]]:
        """The racks of the leaders in the form that assignors take."""
        return self.racks_by_topic({p: self.rack_of(c.leader) for p, c in self.partitions.items()})

    def racks_by_topic(
        self, racks: Mapping[TopicPartition, str | None]
    ) -> dict[str, list[str | None]]:
        """Racks of partitions as topic to list, index = partition."""
        found: dict[str, list[str | None]] = {}
        for topic, partition in sorted(self.partitions):
            row = found.setdefault(topic, [])
            row.extend([None] * (partition + 1 - len(row)))
            row[partition] = racks[TopicPartition(topic, partition)]
        return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """A scenario's answer: who reads each partition (a member's id; partitions that nobody reads
    are absent), from which rack, and how many preferred leaders change for it."""

    scenario: str
    assignor: str
    owner: Mapping[TopicPartition, str]
    source: Mapping[TopicPartition, str | None]
    leader_moves: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    """What an outcome is worth; the fields are columns of ``schemas.WHAT_IF``."""

    scenario: str
    assignor: str
    members: int
    partitions: int
    off_rack_partitions: int
    unknown_partitions: int
    bytes: int
    local_bytes: int
    crossing_bytes: int
    unknown_bytes: int
    cost: float
    cost_per_month: float
    most_partitions: int
    least_partitions: int
    most_bytes: int
    mean_bytes: float
    moves: int
    leader_moves: int
    shared_topics: int = field(default=0)
