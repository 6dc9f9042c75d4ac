"""The rack and the replica selector of each broker over time."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from placement_core import RACK_AWARE_SELECTOR
from rack_traffic.transforms.hours import whole_part

FOREVER = 1 << 62
"""A time in microseconds after every other time; before every other time if negative."""


def broker_racks(brokers: DataFrame) -> DataFrame:
    """Return (cluster, broker, rack, since, until): a row per time span [since, until) in which a
    broker has one rack; times are in microseconds.

    Brokers rarely change their rack, so this is about one row per broker. The first known rack of
    a broker holds from the beginning of time, because a snapshot of the brokers may be later than
    other snapshots. A change is assumed half-way between the two snapshots that show it. A rack
    that is missing in some snapshots is assumed not to have changed there.
    """
    return spans(brokers, ("cluster", "broker"), "rack")


def replica_selectors(brokers: DataFrame) -> DataFrame:
    """Return (cluster, broker, replica_selector, since, until), as `broker_racks`."""
    return spans(brokers, ("cluster", "broker"), "replica_selector")


def spans(rows: DataFrame, keys: tuple[str, ...], name: str) -> DataFrame:
    """Return (keys, name, since, until), as `broker_racks`, of any column of snapshot rows."""
    by_time = Window.partitionBy(*keys).orderBy("at", name)
    known = rows.filter(F.col(name).isNotNull()).select(
        *keys, name, F.unix_micros("taken_at").alias("at")
    )
    changes = known.withColumns(
        {
            "before": F.lag(name).over(by_time),
            "before_at": F.lag("at").over(by_time),
        }
    ).filter(F.col("before").isNull() | (F.col("before") != F.col(name)))
    middle = F.col("before_at") + whole_part(F.col("at") - F.col("before_at"), 2)
    begun = changes.select(*keys, name, F.coalesce(middle, F.lit(-FOREVER)).alias("since"))
    by_since = Window.partitionBy(*keys).orderBy("since")
    return begun.withColumn("until", F.coalesce(F.lead("since").over(by_since), F.lit(FOREVER)))


def with_rack(
    rows: DataFrame, of_brokers: DataFrame, broker: str, at: str, name: str, value: str = "rack"
) -> DataFrame:
    """Return ``rows`` with a column ``name``: the rack of ``broker`` at the time ``at``, or another
    ``value``.

    ``of_brokers`` is the result of :func:`broker_racks`, or of :func:`replica_selectors`;
    ``broker`` and ``at`` (microseconds) are columns of ``rows``. What is unknown is null.
    """
    spans = F.broadcast(
        of_brokers.select(
            F.col("cluster").alias("_cluster"),
            F.col("broker").alias("_broker"),
            F.col(value).alias(name),
            "since",
            "until",
        )
    )
    matches = (
        (rows["cluster"] == F.col("_cluster"))
        & (F.col(broker) == F.col("_broker"))
        & (F.col(at) >= F.col("since"))
        & (F.col(at) < F.col("until"))
    )
    return rows.join(spans, matches, how="left").select(*rows.columns, name)


def with_in_sync_racks(rows: DataFrame, racks: DataFrame, selectors: DataFrame) -> DataFrame:
    """Return ``rows`` with a column ``in_sync_racks``: the racks of the in-sync replicas, if the
    leader selects replicas by rack, else null; see `placement_core.source_rack`."""
    name = "replica_selector"
    selected = with_rack(rows, selectors, "leader", "at", name, value=name)
    of_cluster = racks.groupBy(F.col("cluster").alias("_cluster")).agg(
        F.collect_list(F.struct("broker", "rack", "since", "until")).alias("_spans")
    )
    at = F.col("at")
    in_sync = F.filter(
        "_spans",
        lambda span: (
            F.array_contains("isr", span["broker"]) & (span["since"] <= at) & (at < span["until"])
        ),
    )
    in_sync_racks = F.when(
        F.col(name) == RACK_AWARE_SELECTOR,
        F.array_sort(F.transform(in_sync, lambda span: span["rack"])),
    )
    joined = selected.join(
        F.broadcast(of_cluster), selected["cluster"] == F.col("_cluster"), how="left"
    )
    return joined.select(*rows.columns, in_sync_racks.alias("in_sync_racks"))
