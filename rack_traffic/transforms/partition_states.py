"""What each snapshot of a partition says of it: leader's rack, log, and bytes per offset."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from rack_traffic.transforms.broker_racks import with_rack
from rack_traffic.transforms.split_by_hour import micros

REACHES = (1, 4, 16, 64, 256)
"""The log is told in stretches that reach so many snapshots back; below the last one it is one."""

NEVER_CLEANED = 2
"""So many of the newest stretches are taken to be in the active segment, which is not cleaned."""

NEIGHBOURS = 8
"""How far ahead, in snapshots, a measure is looked for where there is none before."""

CLEANED_BELOW = 0.5
"""An interval that grows the log by less than this share of its neighbours has seen a cleaner."""

KEY = ("cluster", "topic", "partition")


def partition_states(partitions: DataFrame, racks: DataFrame) -> DataFrame:
    """A row per snapshot of a partition, in the words of the estimates that are made from it:

    (cluster, topic, partition, at, incarnation, leader, leader_rack, replicas, start_offset,
    end_offset, before_at, before_end, before_leader, before_rack, fresh, old, reach_1 ... reach_5,
    density_1 ... density_5).

    ``racks`` are those of :func:`~rack_traffic.transforms.broker_racks.broker_racks`. ``at`` and
    ``before_at`` (the snapshot before this one of the same incarnation) are in microseconds;
    ``incarnation`` stands for the topic id.

    Bytes per offset are those on disk, transactions' control records included, as a fetch includes
    them:

    * ``fresh``: of the newest records, from how the log grew since the snapshot before. Where
      retention, a cleaner or another leader changed its size too, the measure before holds, else
      one soon after;
    * ``density_n``: of the records in [``reach_n``, ``reach_n-1``), the first stretch ending at
      ``end_offset``. Stretches are the longer the older they are, so a reader is told as exactly as
      it is near the end. A stretch that was compacted meanwhile is empty;
    * ``old``: of what the log holds below the last stretch, compacted or not.

    All are null where the size on disk was never known. A partition without a leader keeps the
    rack of its last one: nobody reads from it meanwhile.
    """
    series = Window.partitionBy(*KEY).orderBy("at", "end_offset")
    told = partitions.select(
        *KEY,
        micros("taken_at").alias("at"),
        F.xxhash64("topic_id").alias("incarnation"),
        "leader",
        "replicas",
        "start_offset",
        "end_offset",
        "size_bytes",
    )
    last_leader = F.last("leader", True).over(_all_before(series))
    led = told.withColumn("leader", F.coalesce("leader", last_leader))
    placed = with_rack(_deduplicated(led, series), racks, "leader", "at", "leader_rack")
    series = Window.partitionBy(*KEY, "incarnation").orderBy("at")
    grown = placed.select(
        "*",
        *(
            F.lag(column).over(series).alias(f"before_{name}")
            for column, name in (
                ("at", "at"),
                ("end_offset", "end"),
                ("start_offset", "start"),
                ("size_bytes", "size"),
                ("leader", "leader"),
                ("leader_rack", "rack"),
            )
        ),
    ).withColumn("growth", _growth())
    compared = grown.select(
        "*",
        F.last("growth", True).over(_all_before(series)).alias("growth_before"),
        F.first("growth", True).over(series.rowsBetween(1, NEIGHBOURS)).alias("growth_after"),
    ).withColumn("measured", _unless_cleaned())
    return _graded(compared, series)


def _all_before(series: WindowSpec) -> WindowSpec:
    return series.rowsBetween(Window.unboundedPreceding, -1)


def _deduplicated(rows: DataFrame, series: WindowSpec) -> DataFrame:
    """One row per partition and time: of several, the one that has seen most."""
    later = rows.select("*", F.lead("at").over(series).alias("_next"))
    return later.filter(F.col("_next").isNull() | (F.col("_next") != F.col("at"))).drop("_next")


def _growth() -> Column:
    """Bytes per offset appended since the snapshot before, where nothing but appending shows."""
    untouched = (
        (F.col("end_offset") > F.col("before_end"))
        & (F.col("size_bytes") > F.col("before_size"))
        & (F.col("start_offset") == F.col("before_start"))
        & (F.col("leader") == F.col("before_leader"))
    )
    return F.when(
        untouched,
        (F.col("size_bytes") - F.col("before_size"))
        / F.nullif(F.col("end_offset") - F.col("before_end"), F.lit(0)),
    )


def _unless_cleaned() -> Column:
    usual = F.least("growth_before", "growth_after")
    return F.when(
        usual.isNull() | (F.col("growth") >= usual * F.lit(CLEANED_BELOW)), F.col("growth")
    )


def _cleaned() -> Column:
    """Whether a cleaner made the log smaller than what was appended accounts for."""
    same_log = (F.col("start_offset") == F.col("before_start")) & (
        F.col("leader") == F.col("before_leader")
    )
    shrunk = F.col("size_bytes") < F.col("before_size")
    too_little = F.col("growth").isNotNull() & F.col("measured").isNull()
    return F.coalesce(same_log & (shrunk | too_little), F.lit(False))


def _graded(rows: DataFrame, series: WindowSpec) -> DataFrame:
    mean = F.col("size_bytes") / F.nullif(F.col("end_offset") - F.col("start_offset"), F.lit(0))
    fresh = rows.select(
        "*",
        mean.alias("mean"),
        F.coalesce(
            "measured",
            F.last("measured", True).over(_all_before(series)),
            F.first("measured", True).over(series.rowsBetween(1, NEIGHBOURS)),
            mean,
            F.last(mean, True).over(_all_before(series)),
        ).alias("fresh"),
    )
    so_far = series.rowsBetween(Window.unboundedPreceding, 0)
    # In whole bytes: differences of sums are then the same wherever the sums began.
    offsets = F.greatest(F.col("end_offset") - F.col("before_end"), F.lit(0))
    appended = F.round(offsets * F.col("fresh")).cast("bigint")
    totalled = fresh.select(
        "*",
        F.coalesce(F.sum(appended).over(so_far), F.lit(0).cast("bigint")).alias("total_0"),
        F.sum(_cleaned().cast("int")).over(so_far).alias("cleanings"),
        F.col("end_offset").alias("reach_0"),
    )
    reached = totalled.select(
        "*",
        *(
            F.lag(F.struct("end_offset", "total_0", "cleanings"), back)
            .over(series)
            .alias(f"back_{n}")
            for n, back in enumerate(REACHES, 1)
        ),
    )
    for n in range(1, len(REACHES) + 1):
        reached = _stretched(reached, n)
    last = len(REACHES)
    below = F.col(f"reach_{last}") - F.col("start_offset")
    rest = F.col("size_bytes") - (F.col("total_0") - F.col(f"total_{last}"))
    return reached.select(
        *KEY,
        "at",
        "incarnation",
        "leader",
        "leader_rack",
        "replicas",
        "start_offset",
        "end_offset",
        "before_at",
        "before_end",
        "before_leader",
        "before_rack",
        "fresh",
        # A log that was cut below its stretches has no rest to measure.
        F.when((below > 0) & (rest > 0), rest / below)
        .otherwise(F.coalesce("mean", "fresh"))
        .alias("old"),
        *(f"reach_{n}" for n in range(1, last + 1)),
        *(f"density_{n}" for n in range(1, last + 1)),
    )


def _stretched(rows: DataFrame, n: int) -> DataFrame:
    """``rows`` with stretch ``n``; an empty one where the log is younger, or cleaned since."""
    as_written = (F.col(f"back_{n}.cleanings") == F.col("cleanings")) | F.lit(n <= NEVER_CLEANED)
    back = F.when(as_written, F.col(f"back_{n}"))
    nearer, total = F.col(f"reach_{n - 1}"), F.col(f"total_{n - 1}")
    reach = F.least(F.coalesce(back["end_offset"], nearer), nearer)
    start = F.coalesce(back["total_0"], total)
    return rows.select(
        "*",
        reach.alias(f"reach_{n}"),
        start.alias(f"total_{n}"),
        F.coalesce((total - start) / F.nullif(nearer - reach, F.lit(0)), "fresh").alias(
            f"density_{n}"
        ),
    )
