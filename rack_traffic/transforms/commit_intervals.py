"""Pairs of successive commits, with the state of the partition and its owner at both ends.

This is the large join of the pipeline. Commits, partition states and ownership events are put
into one table, which is shuffled once, by partition. A sort by time within the partition gives each
commit the last state before it; a second sort, by group too, gives it the last owner and the
commit before. No range join is needed, and the snapshots need no common times.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from placement_core import LEADER_READING_PROTOCOLS
from rack_traffic.transforms.hourly import micros
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
        micros("taken_at").alias("at"),
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
    with_state = hashed.select(
        F.xxhash64(*PARTITION, "group").alias("series_hash"),
        *PARTITION,
        "group",
        "at",
        "row_kind",
        "committed_offset",
        "owner",
        F.last("state", True).over(of_partition).alias("state"),
    ).filter(F.col("row_kind") != _STATE)
    of_series = Window.partitionBy(*SERIES).orderBy("at", "row_kind", "committed_offset")
    with_owner = with_state.select(
        "series_hash",
        *PARTITION,
        "group",
        "at",
        "row_kind",
        "committed_offset",
        "state",
        F.last("owner", True).over(of_series.rowsBetween(first_row, 0)).alias("owner"),
    ).filter(F.col("row_kind") == _COMMIT)
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


# ---- The member that owns each partition of a group, as events over time.

STABLE_STATES = ("Stable", "Empty", "Dead", "Reconciling", "Assigning")
"""The group states in which the assignments of the members are valid."""

_PAIRS = "array<struct<topic:string,partition:int>>"


def ownership_events(members: DataFrame) -> DataFrame:
    """Return (cluster, group, topic, partition, at, owned, rack, sends_rack): a row per change of
    an owner.

    From ``at`` (microseconds) on, the partition is read in ``rack`` (null: unknown) if ``owned`` is
    true, and by no member if it is false: its owner left the group or gave it up. ``sends_rack`` is
    whether the owner fetches with its rack, see `placement_core.source_rack`. A snapshot that
    equals the one before makes no event, so there are far fewer events than members times their
    partitions.

    Groups whose consumers assign partitions to themselves have no members, and no events.
    """
    of_group = Window.partitionBy("cluster", "group")
    stable = members.filter(F.col("state").isin(*STABLE_STATES)).select(
        "cluster",
        "group",
        micros("taken_at").alias("at"),
        "member_id",
        "rack",
        "assignment",
        sends_rack().alias("sends_rack"),
    )
    numbered = stable.withColumn("snapshot", F.dense_rank().over(of_group.orderBy("at")))
    next_snapshot = of_group.orderBy("snapshot").rangeBetween(1, 1)
    present = (
        numbered.withColumn("next_at", F.min("at").over(next_snapshot))
        .filter(F.col("member_id").isNotNull())
        .dropDuplicates(["cluster", "group", "member_id", "snapshot"])
    )
    return _events(_changed(present))


def sends_rack() -> Column:
    """Return false for LEADER_READING_PROTOCOLS, true for other members that join with a rack."""
    return F.when(F.col("protocol").isin(*LEADER_READING_PROTOCOLS), F.lit(False)).when(
        F.col("rack_source") == "subscription", F.lit(True)
    )


def _changed(present: DataFrame) -> DataFrame:
    """Return the rows of ``present`` that differ from the member's row before, with its values.

    Assignments are compared as a whole first, because nearly all of them are unchanged.
    """
    of_member = Window.partitionBy("cluster", "group", "member_id").orderBy("snapshot")
    stayed = F.col("before_snapshot").eqNullSafe(F.col("snapshot") - 1)
    leaves = F.col("next_at").isNotNull() & ~F.col("after_snapshot").eqNullSafe(
        F.col("snapshot") + 1
    )
    compared = present.withColumns(
        {
            **{
                f"before_{name}": F.lag(name).over(of_member)
                for name in ("snapshot", "rack", "sends_rack", "assignment")
            },
            "after_snapshot": F.lead("snapshot").over(of_member),
        }
    ).withColumns(
        {
            "stayed": stayed,
            "same_rack": stayed
            & F.col("rack").eqNullSafe(F.col("before_rack"))
            & F.col("sends_rack").eqNullSafe(F.col("before_sends_rack")),
            "leaves": leaves,
        }
    )
    unchanged = F.col("same_rack") & F.col("assignment").eqNullSafe(F.col("before_assignment"))
    return compared.filter(F.col("leaves") | ~unchanged)


def _events(changed: DataFrame) -> DataFrame:
    """Return the events of each row: partitions that its member gains, gives up, and leaves."""
    now, before = _pairs("assignment"), _pairs("before_assignment")
    none = F.array().cast(_PAIRS)
    gained = F.when(F.col("same_rack"), F.array_except(now, before)).otherwise(now)
    given_up = F.when(F.col("stayed"), F.array_except(before, now)).otherwise(none)
    left = F.when(F.col("leaves"), now).otherwise(none)
    at, owner = F.col("at"), (F.lit(True), F.col("rack"), F.col("sends_rack"))
    nobody = (F.lit(False), F.lit(None).cast("string"), F.lit(None).cast("boolean"))
    events = changed.select(
        "cluster",
        "group",
        F.inline(
            F.array(
                _event(gained, at, *owner),
                _event(given_up, at, *nobody),
                _event(left, F.col("next_at"), *nobody),
            )
        ),
    )
    return events.withColumn("pair", F.explode("pairs")).select(
        "cluster", "group", "pair.topic", "pair.partition", "at", "owned", "rack", "sends_rack"
    )


def _event(pairs: Column, at: Column, owned: Column, rack: Column, sends_rack: Column) -> Column:
    return F.struct(
        pairs.alias("pairs"),
        at.alias("at"),
        owned.alias("owned"),
        rack.alias("rack"),
        sends_rack.alias("sends_rack"),
    )


def _pairs(assignment: str) -> Column:
    """Return an assignment as an array of (topic, partition); empty if it is null."""
    pairs = F.flatten(F.transform(assignment, _pairs_of_topic))
    return F.coalesce(pairs, F.array().cast(_PAIRS))


def _pairs_of_topic(topic: Column) -> Column:
    name = topic["topic"]
    return F.transform(
        topic["partitions"], lambda number: F.struct(name.alias("topic"), number.alias("partition"))
    )
