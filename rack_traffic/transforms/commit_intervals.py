"""Pairs of successive commits, with the state of the partition and its owner at both ends.

This is the large join of the pipeline. Commits, partition states and ownership events are put
into one table, which is shuffled once, by partition. A sort by time within the partition gives each
commit the last state before it; a second sort, by group too, gives it the last owner and the
commit before. No range join is needed, and the snapshots need no common times.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rack_traffic.transforms.partition_states import BOUNDARIES, DENSITIES, PARTITION

TO_STATE = (
    "topic_hash",
    "leader_rack",
    "in_sync_racks",
    "start_offset",
    "end_offset",
    "newest_density",
    "oldest_density",
    *BOUNDARIES,
    *DENSITIES,
    "compacted_below",
)
"""The fields of the state at the end of an interval."""

FROM_STATE = ("topic_hash", "leader_rack", "in_sync_racks", "start_offset", "end_offset")
"""The fields of the state at its beginning: fewer, because every row of the sort carries them."""

SERIES = ("series_hash", *PARTITION, "group")
"""The columns that identify a series of commits. The hash of the others comes first because a sort
compares numbers faster than names, most of which begin alike."""

# The order of rows of equal time: a commit is compared with the state and the owner at its time,
# and a partition that moves between members has its new owner.
_STATE, _NOT_OWNED, _OWNED, _COMMIT = 0, 1, 2, 3


def commit_intervals(commits: DataFrame, states: DataFrame, owners: DataFrame) -> DataFrame:
    """Return (series_hash, cluster, group, topic, partition, from_at, to_at, from_offset,
    to_offset, from_state, to_state, from_owner, to_owner): a row per pair of successive commits.

    ``states`` is the result of ``partition_states`` and ``owners`` that of ``ownership_events``.
    Times are in microseconds. ``to_state`` is a struct of ``TO_STATE``, ``from_state`` of
    ``FROM_STATE``, the owners of ``owned``, ``rack`` and ``sends_rack``; each is null if nothing is
    known at that time. If snapshots are missing, the interval is as long as the gap. A duplicate
    commit makes no interval.
    """
    of_commits = commits.select(
        *PARTITION,
        "group",
        "committed_offset",
        F.unix_micros("taken_at").alias("at"),
        F.lit(_COMMIT).alias("row_kind"),
    )
    of_states = states.select(
        *PARTITION, "at", F.struct(*TO_STATE).alias("state"), F.lit(_STATE).alias("row_kind")
    )
    of_owners = owners.select(
        *PARTITION,
        "group",
        "at",
        F.struct("owned", "rack", "sends_rack").alias("owner"),
        F.when(F.col("owned"), _OWNED).otherwise(_NOT_OWNED).alias("row_kind"),
    )
    rows = (
        of_commits.unionByName(of_states, allowMissingColumns=True)
        .unionByName(of_owners, allowMissingColumns=True)
        .repartition(*PARTITION)
    )
    first_row = Window.unboundedPreceding
    hashed = rows.withColumn("partition_hash", F.xxhash64(*PARTITION))
    of_partition = (
        Window.partitionBy("partition_hash", *PARTITION)
        .orderBy("at", "row_kind")
        .rowsBetween(first_row, 0)
    )
    with_state = (
        hashed.withColumn("state", F.last("state", True).over(of_partition))
        .filter(F.col("row_kind") != _STATE)
        .withColumn("series_hash", F.xxhash64(*PARTITION, "group"))
    )
    of_series = Window.partitionBy(*SERIES).orderBy("at", "row_kind", "committed_offset")
    owner = F.last("owner", True).over(of_series.rowsBetween(first_row, 0))
    with_owner = with_state.withColumn("owner", owner).filter(F.col("row_kind") == _COMMIT)
    from_state = F.when(
        F.col("state").isNotNull(),
        F.struct(*(F.col("state")[name].alias(name) for name in FROM_STATE)),
    )
    previous = F.struct("at", "committed_offset", from_state.alias("state"), "owner")
    pairs = with_owner.withColumn("previous", F.lag(previous).over(of_series)).filter(
        F.col("previous.at") < F.col("at")
    )
    return pairs.select(
        "series_hash",
        "cluster",
        "group",
        "topic",
        "partition",
        F.col("previous.at").alias("from_at"),
        F.col("at").alias("to_at"),
        F.col("previous.committed_offset").alias("from_offset"),
        F.col("committed_offset").alias("to_offset"),
        F.col("previous.state").alias("from_state"),
        F.col("state").alias("to_state"),
        F.col("previous.owner").alias("from_owner"),
        F.col("owner").alias("to_owner"),
    )
