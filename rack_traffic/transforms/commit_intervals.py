"""Between two commits: what was known of the partition and of its owner at either end.

The big join of the pipeline. Commits, partition states and owners' changes go through one shuffle,
by partition; a sort by time gives every commit the last state before it, a second one, by group,
the last owner and the commit before. No range is joined, no snapshot needs a partner of the same
time.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rack_traffic.transforms.partition_states import KEY, REACHES
from rack_traffic.transforms.split_by_hour import micros

_STRETCHES = range(1, len(REACHES) + 1)
_STATE_TYPES = {
    "incarnation": "bigint",
    "leader_rack": "string",
    "start_offset": "bigint",
    "end_offset": "bigint",
    "fresh": "double",
    "old": "double",
    **{f"reach_{n}": "bigint" for n in _STRETCHES},
    **{f"density_{n}": "double" for n in _STRETCHES},
}
STATE = tuple(_STATE_TYPES)
FIRST = ("incarnation", "leader_rack", "start_offset", "end_offset")
"""What is asked of the state at the beginning of an interval: the rows between carry no more."""

SERIES = ("series", *KEY, "group")
"""Whose commits follow each other. ``series`` is a hash of the others and goes in front: a sort
compares numbers long before it looks at names, which are nearly all alike."""

# What comes first where times are equal: a commit has seen what was told at its time, and a
# partition that changes hands is with its new owner.
_STATE, _GAVE, _GAINED, _COMMIT = 0, 1, 2, 3


def commit_intervals(commits: DataFrame, states: DataFrame, owners: DataFrame) -> DataFrame:
    """(series, cluster, group, topic, partition, from_at, to_at, from_offset, to_offset,
    from_state, to_state, from_owner, to_owner): a row per pair of neighbouring commits.

    Times are in microseconds. ``to_state`` is a struct of the columns ``STATE``, ``from_state`` of
    ``FIRST``, the owners of ``owned`` and ``rack``; null where nothing is known yet at that time.
    Where commits are missing, an interval is as long as the gap; a commit that comes twice makes
    one of no length, which is left out.
    """
    rows = (
        _padded(
            commits.select(
                "cluster",
                "group",
                "topic",
                "partition",
                "committed_offset",
                micros("taken_at").alias("at"),
                F.lit(_COMMIT).alias("turn"),
            )
        )
        .unionByName(
            _padded(
                states.select(
                    *KEY, "at", F.struct(*STATE).alias("state"), F.lit(_STATE).alias("turn")
                )
            ),
        )
        .unionByName(
            _padded(
                owners.select(
                    "cluster",
                    "group",
                    "topic",
                    "partition",
                    "at",
                    F.struct("owned", "rack").alias("owner"),
                    F.when(F.col("owned"), _GAINED).otherwise(_GAVE).alias("turn"),
                )
            )
        )
        .repartition(*KEY)
    )
    so_far = Window.unboundedPreceding
    numbered = rows.select("*", F.xxhash64(*KEY).alias("log"))
    of_partition = Window.partitionBy("log", *KEY).orderBy("at", "turn").rowsBetween(so_far, 0)
    known = numbered.select(
        F.xxhash64(*KEY, "group").alias("series"),
        *KEY,
        "group",
        "at",
        "turn",
        "committed_offset",
        "owner",
        F.last("state", True).over(of_partition).alias("state"),
    ).filter(F.col("turn") != _STATE)
    of_group = Window.partitionBy(*SERIES).orderBy("at", "turn", "committed_offset")
    owned = known.select(
        "series",
        *KEY,
        "group",
        "at",
        "turn",
        "committed_offset",
        "state",
        F.last("owner", True).over(of_group.rowsBetween(so_far, 0)).alias("owner"),
    ).filter(F.col("turn") == _COMMIT)
    first = F.when(
        F.col("state").isNotNull(), F.struct(*(F.col("state")[name].alias(name) for name in FIRST))
    )
    before = F.struct("at", "committed_offset", first.alias("state"), "owner")
    paired = owned.select("*", F.lag(before).over(of_group).alias("before")).filter(
        F.col("before.at") < F.col("at")
    )
    return paired.select(
        "series",
        "cluster",
        "group",
        "topic",
        "partition",
        F.col("before.at").alias("from_at"),
        F.col("at").alias("to_at"),
        F.col("before.committed_offset").alias("from_offset"),
        F.col("committed_offset").alias("to_offset"),
        F.col("before.state").alias("from_state"),
        F.col("state").alias("to_state"),
        F.col("before.owner").alias("from_owner"),
        F.col("owner").alias("to_owner"),
    )


def _padded(rows: DataFrame) -> DataFrame:
    """``rows`` with nulls for the columns that only others have."""
    state = ",".join(f"{name}:{kind}" for name, kind in _STATE_TYPES.items())
    kinds = {
        "cluster": "string",
        "group": "string",
        "topic": "string",
        "partition": "int",
        "at": "bigint",
        "turn": "int",
        "committed_offset": "bigint",
        "state": f"struct<{state}>",
        "owner": "struct<owned:boolean,rack:string>",
    }
    return rows.select(
        *(
            F.col(name) if name in rows.columns else F.lit(None).cast(kind).alias(name)
            for name, kind in kinds.items()
        )
    )
