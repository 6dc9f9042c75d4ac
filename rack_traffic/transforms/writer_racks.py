"""The racks of producers: where what was written to the leaders of a rack came from."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rack_traffic.output_tables import MEASURED

WRITTEN_TO = ("cluster", "hour", "to_rack")


def measured_racks(flows: DataFrame) -> DataFrame:
    """Return (WRITTEN_TO, measured): the parts of 1 that came from each rack, as an array of
    ``rack``, ``low`` and ``high``, sorted by name.

    ``flows`` is the table FLOWS_HOURLY. A client counts with what it sent beyond what it received:
    consumers, which also send requests, receive about as much when they wait. A null rack, which
    is last, is that of all clients of unknown racks.
    """
    sent = F.sum(F.col("bytes") - F.col("opposite_bytes"))
    sums = (
        flows.filter((F.col("kind") == "produce") & F.col("to_rack").isNotNull())
        .groupBy(*WRITTEN_TO, "from_rack")
        .agg(sent.alias("sent"))
        .filter("sent > 0")
    )
    written_to = Window.partitionBy(*WRITTEN_TO)
    until = F.sum("sent").over(written_to.orderBy(F.asc_nulls_last("from_rack")))
    total = F.sum("sent").over(written_to)
    parts = sums.select(
        *WRITTEN_TO,
        F.struct(
            ((until - F.col("sent")) / total).alias("low"),
            (until / total).alias("high"),
            F.col("from_rack").alias("rack"),
        ).alias("part"),
    )
    return parts.groupBy(*WRITTEN_TO).agg(F.sort_array(F.collect_list("part")).alias("measured"))


def with_measured(parts: Column) -> Column:
    """Return the parts of racks in the column ``measured`` of `measured_racks`, and ``parts`` in
    place of what came from unknown racks.

    ``parts`` is an array of ``rack``, ``low``, ``high`` and ``source``, as the result.
    """
    none = F.array().cast("array<struct<low:double,high:double,rack:string>>")
    measured = F.coalesce("measured", none)
    known = F.filter(measured, lambda part: part["rack"].isNotNull())
    begin = F.coalesce(F.array_max(F.transform(known, lambda part: part["high"])), F.lit(0.0))
    rest = F.transform(
        parts,
        lambda part: part_of(
            part["rack"],
            begin + (F.lit(1.0) - begin) * part["low"],
            begin + (F.lit(1.0) - begin) * part["high"],
            part["source"],
        ),
    )
    of_flows = F.transform(
        known, lambda part: part_of(part["rack"], part["low"], part["high"], F.lit(MEASURED))
    )
    return F.concat(of_flows, rest)


def part_of(rack: Column, low: Column, high: Column, source: Column) -> Column:
    """Return a rack and where its part begins and ends, in 0 to 1."""
    return F.struct(
        rack.alias("rack"), low.alias("low"), high.alias("high"), source.alias("source")
    )
