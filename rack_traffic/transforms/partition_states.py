"""The state of a partition at each snapshot: the leader's rack, the log, and bytes per offset.

A snapshot has the offsets at both ends of the log and its size on disk. How many bytes a group
read depends on where in the log it read, because the size of records changes over time. So the log
is divided into ranges of offsets, the newest first, and each range has its own density (bytes per
offset). A range ends where the log ended 1, 4, 16, 64 or 256 snapshots before: ranges are longer
the older they are, so that the density is most precise near the end of the log, where most
consumers read.

The density of new records is the growth of the size divided by the growth of the end offset, if
nothing but appends changed the log in between. Retention, log compaction and a change of the leader
make that growth meaningless; then the density before is used, or one soon after.

Log compaction removes records from the middle of a log. What was appended since the last compaction
is known, and so is the newest segment, which is never compacted. Below that only the mean density
of what is left is known, and bytes that are read there count as estimated.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from rack_traffic.transforms.broker_racks import with_in_sync_racks, with_rack

RANGE_AGES = (1, 4, 16, 64, 256)
"""Range n begins at the log's end of so many snapshots before."""

UNCOMPACTED_RANGES = 2
"""This many of the newest ranges are assumed in the active segment, which is not compacted."""

LOOKAHEAD = 8
"""The number of later snapshots in which a density is searched if there is none before."""

COMPACTED_BELOW = 0.5
"""Growth below this share of the density before and after shows that the log was compacted."""

PARTITION = ("cluster", "topic", "partition")

BOUNDARIES = tuple(f"boundary_{n}" for n in range(1, len(RANGE_AGES) + 1))
DENSITIES = tuple(f"density_{n}" for n in range(1, len(RANGE_AGES) + 1))


def partition_states(partitions: DataFrame, racks: DataFrame, selectors: DataFrame) -> DataFrame:
    """Return a row per snapshot of a partition:

    (cluster, topic, partition, at, topic_hash, leader, leader_rack, in_sync_racks, replicas,
    start_offset, end_offset, before_at, before_end, before_leader, before_rack, newest_density,
    oldest_density, boundary_1 ... boundary_5, density_1 ... density_5).

    ``racks`` is the result of `broker_racks`, ``selectors`` that of `replica_selectors`.
    ``in_sync_racks`` is null unless the leader selects replicas by rack. ``at`` and ``before_at``
    (of the snapshot before with the same topic id) are in microseconds; ``topic_hash`` is a hash of
    the topic id. Densities are bytes per offset on disk; like a fetch, they include the control
    records of transactions:

    * ``newest_density``: of the records appended since the snapshot before;
    * ``density_n``: of the offsets in [``boundary_n``, ``boundary_n-1``), where ``boundary_0`` is
      ``end_offset``. A range that was compacted in the meantime is empty;
    * ``oldest_density``: of the offsets below the last boundary, compacted or not.

    All are null if the size on disk was never known. A partition without a leader has the rack of
    its last leader: no member reads from it in the meantime.
    """
    by_time = Window.partitionBy(*PARTITION).orderBy("at", "end_offset")
    selected = partitions.select(
        *PARTITION,
        F.unix_micros("taken_at").alias("at"),
        F.xxhash64("topic_id").alias("topic_hash"),
        "leader",
        "replicas",
        "isr",
        "start_offset",
        "end_offset",
        "size_bytes",
    )
    last_leader = F.last("leader", True).over(_rows_before(by_time))
    with_leader = selected.withColumn("leader", F.coalesce("leader", last_leader))
    unique = _deduplicate(with_leader, by_time)
    located = with_in_sync_racks(
        with_rack(unique, racks, "leader", "at", "leader_rack"), racks, selectors
    )
    of_topic = Window.partitionBy(*PARTITION, "topic_hash").orderBy("at")
    with_growth = located.withColumns(
        {
            f"before_{name}": F.lag(column).over(of_topic)
            for column, name in (
                ("at", "at"),
                ("end_offset", "end"),
                ("start_offset", "start"),
                ("size_bytes", "size"),
                ("leader", "leader"),
                ("leader_rack", "rack"),
            )
        }
    ).withColumn("growth", _growth())
    compared = with_growth.withColumns(
        {
            "growth_before": F.last("growth", True).over(_rows_before(of_topic)),
            "growth_after": F.first("growth", True).over(of_topic.rowsBetween(1, LOOKAHEAD)),
        }
    ).withColumn("measured", _growth_unless_compacted())
    return _with_densities(compared, of_topic)


def _rows_before(window: WindowSpec) -> WindowSpec:
    return window.rowsBetween(Window.unboundedPreceding, -1)


def _deduplicate(rows: DataFrame, by_time: WindowSpec) -> DataFrame:
    """Return one row per partition and time: the one with the largest end offset."""
    with_next = rows.withColumn("_next", F.lead("at").over(by_time))
    return with_next.filter(F.col("_next").isNull() | (F.col("_next") != F.col("at"))).drop("_next")


def _growth() -> Column:
    """Return bytes per offset appended since the snapshot before; null unless only appends show."""
    appended = (
        (F.col("end_offset") > F.col("before_end"))
        & (F.col("size_bytes") > F.col("before_size"))
        & (F.col("start_offset") == F.col("before_start"))
        & (F.col("leader") == F.col("before_leader"))
    )
    return F.when(
        appended,
        (F.col("size_bytes") - F.col("before_size"))
        / F.nullif(F.col("end_offset") - F.col("before_end"), F.lit(0)),
    )


def _growth_unless_compacted() -> Column:
    usual = F.least("growth_before", "growth_after")
    return F.when(
        usual.isNull() | (F.col("growth") >= usual * F.lit(COMPACTED_BELOW)), F.col("growth")
    )


def _was_compacted() -> Column:
    """Return whether compaction made the log smaller than the appended records explain."""
    same_log = (F.col("start_offset") == F.col("before_start")) & (
        F.col("leader") == F.col("before_leader")
    )
    shrunk = F.col("size_bytes") < F.col("before_size")
    grew_too_little = F.col("growth").isNotNull() & F.col("measured").isNull()
    return F.coalesce(same_log & (shrunk | grew_too_little), F.lit(False))


def _with_densities(rows: DataFrame, of_topic: WindowSpec) -> DataFrame:
    mean = F.col("size_bytes") / F.nullif(F.col("end_offset") - F.col("start_offset"), F.lit(0))
    with_newest = rows.withColumns(
        {
            "mean_density": mean,
            "newest_density": F.coalesce(
                "measured",
                F.last("measured", True).over(_rows_before(of_topic)),
                F.first("measured", True).over(of_topic.rowsBetween(1, LOOKAHEAD)),
                mean,
                F.last(mean, True).over(_rows_before(of_topic)),
            ),
        }
    )
    up_to_now = of_topic.rowsBetween(Window.unboundedPreceding, 0)
    # Whole bytes: then a difference of two sums does not depend on where the sums begin.
    offsets = F.greatest(F.col("end_offset") - F.col("before_end"), F.lit(0))
    appended = F.round(offsets * F.col("newest_density")).cast("bigint")
    # total_n: bytes appended up to boundary_n, counted from the first snapshot.
    with_totals = with_newest.withColumns(
        {
            "appended": F.coalesce(appended, F.lit(0).cast("bigint")),
            "total_0": F.coalesce(F.sum(appended).over(up_to_now), F.lit(0).cast("bigint")),
            "compactions": F.sum(_was_compacted().cast("int")).over(up_to_now),
            "boundary_0": F.col("end_offset"),
        }
    )
    cut = F.struct(F.col("before_end"), (F.col("total_0") - F.col("appended")).alias("total"))
    ranges = with_totals.withColumns(
        {
            "cut": F.last(F.when(_was_compacted(), cut), True).over(up_to_now),
            **{
                f"earlier_{n}": F.lag(F.struct("end_offset", "total_0", "compactions"), age).over(
                    of_topic
                )
                for n, age in enumerate(RANGE_AGES, 1)
            },
        }
    )
    for n in range(1, len(RANGE_AGES) + 1):
        ranges = _with_range(ranges, n)
    last = len(RANGE_AGES)
    offsets_below = F.col(f"boundary_{last}") - F.col("start_offset")
    bytes_below = F.col("size_bytes") - (F.col("total_0") - F.col(f"total_{last}"))
    return ranges.select(
        *PARTITION,
        "at",
        "topic_hash",
        "leader",
        "leader_rack",
        "in_sync_racks",
        "replicas",
        "start_offset",
        "end_offset",
        "before_at",
        "before_end",
        "before_leader",
        "before_rack",
        "newest_density",
        # Retention may have removed everything below the last boundary.
        F.when((offsets_below > 0) & (bytes_below > 0), bytes_below / offsets_below)
        .otherwise(F.coalesce("mean_density", "newest_density"))
        .alias("oldest_density"),
        *BOUNDARIES,
        *DENSITIES,
        F.when(F.col("compactions") > 0, F.col(f"boundary_{last}")).alias("compacted_below"),
    )


def _with_range(rows: DataFrame, n: int) -> DataFrame:
    """Return ``rows`` with range ``n``.

    If the log was compacted since, the range begins at the last compaction; if there is neither
    that nor an earlier snapshot, it is empty.
    """
    earlier_end, earlier_total = F.col(f"earlier_{n}.end_offset"), F.col(f"earlier_{n}.total_0")
    if n > UNCOMPACTED_RANGES:
        uncompacted = F.col(f"earlier_{n}.compactions") == F.col("compactions")
        earlier_end = F.when(uncompacted, earlier_end).otherwise(F.col("cut.before_end"))
        earlier_total = F.when(uncompacted, earlier_total).otherwise(F.col("cut.total"))
    upper, upper_total = F.col(f"boundary_{n - 1}"), F.col(f"total_{n - 1}")
    boundary = F.least(F.coalesce(earlier_end, upper), upper)
    total = F.least(F.coalesce(earlier_total, upper_total), upper_total)
    density = (upper_total - total) / F.nullif(upper - boundary, F.lit(0))
    return rows.withColumns(
        {
            f"boundary_{n}": boundary,
            f"total_{n}": total,
            f"density_{n}": F.coalesce(density, "newest_density"),
        }
    )
