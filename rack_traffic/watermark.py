"""The progress of the stream: a watermark per cluster, and the hours that it closes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rack_traffic.schemas import spark_schema
from rack_traffic.tables import LONG, TEXT, TIME

HOUR = timedelta(hours=1)

LAG_LOOKBACK = timedelta(hours=24)
"""How much more of the partitions is read, for the bytes per offset of consumers that lag."""

FLOW_LATENESS = timedelta(hours=24)
"""How long after the end of an hour flow records may arrive: until the published hours are so far
ahead, theirs is computed again."""

MAX_SILENCE = timedelta(days=7)
"""The snapshots of a cluster that sends none for so long are deleted; its last hour, which no
snapshot closed, is not published."""

EPOCH = datetime.fromtimestamp(0, UTC)

PROGRESS = spark_schema(
    {
        **{"cluster": TEXT, "first": TIME, "newest": TIME, "published_until": TIME},
        **{"rows": LONG, "late": LONG},
    }
)
"""The columns of the table ``progress``, which are the fields of :class:`ClusterProgress`."""


@dataclass(frozen=True, slots=True)
class ClosedHours:
    """Hours of a cluster to publish: those that begin in [since, until)."""

    cluster: str
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class ClusterProgress:
    """The first and the newest time of a cluster's commits, and the end of its published hours
    (None: there are none). ``rows`` of its commits were read, of which ``late`` were too late.
    """

    cluster: str
    first: datetime
    newest: datetime
    published_until: datetime | None = None
    rows: int = 0
    late: int = 0

    @property
    def begin(self) -> datetime:
        """Return the beginning of the first hour that is not published."""
        return self.published_until or _hour(self.first)


Progress = dict[str, ClusterProgress]
"""Cluster to its progress."""


def closed_hours(progress: Progress, delay: timedelta, max_gap: timedelta) -> list[ClosedHours]:
    """Return the hours to publish.

    The watermark of a cluster is its newest time minus ``delay``; an hour that ends at or before it
    is closed. Snapshots of one cluster do not move the watermark of another. Each time, the hours
    before are published again as far as they may still have changed, because an interval of up to
    ``max_gap`` may end after them; never before the cluster's first time.
    """
    closed = []
    for cluster, each in sorted(progress.items()):
        until = _hour(each.newest - delay)
        if until > each.begin:
            since = max(_hour(each.first), _hour(each.begin - max_gap))
            closed.append(ClosedHours(cluster, since, until))
    return closed


def late_hours(
    progress: Progress, closed: list[ClosedHours], touched: Collection[datetime]
) -> list[ClosedHours]:
    """Return the published hours among ``touched`` that are computed again; not those of
    ``closed``, which are anyway, nor those that ended more than FLOW_LATENESS before the end of the
    published ones."""
    since = {each.cluster: each.since for each in closed}
    late = []
    for cluster, each in sorted(progress.items()):
        if each.published_until is None:
            continue
        first = max(each.first - HOUR, each.published_until - FLOW_LATENESS - HOUR)
        end = min(each.published_until, since.get(cluster, each.published_until))
        late += [
            ClosedHours(cluster, hour, hour + HOUR)
            for hour in sorted(touched)
            if first < hour < end
        ]
    return late


def _hour(time: datetime) -> datetime:
    return time.replace(minute=0, second=0, microsecond=0)


def read_progress(table: DataFrame) -> Progress:
    """Return the rows of the table ``PROGRESS``."""
    times = ("first", "newest", "published_until")
    # PySpark returns local times, which are ambiguous when clocks are set back.
    micros = table.withColumns({name: F.unix_micros(name) for name in times})
    progress = {}
    for row in micros.select(*PROGRESS.names).collect():
        of_time = {name: None if row[name] is None else _time(row[name]) for name in times}
        progress[row["cluster"]] = ClusterProgress(**{**row.asDict(), **of_time})
    return progress


def _time(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def with_batch(before: Progress, commits: DataFrame, max_gap: timedelta) -> Progress:
    """Return the progress after a batch with the valid rows ``commits``.

    A snapshot is late if its hours are not published again.
    """
    late = F.when(F.lit(False), 1)
    for cluster, each in before.items():
        is_late = F.col("taken_at") < F.lit(each.begin - max_gap)
        late = late.when((F.col("cluster") == cluster) & is_late, 1)
    of_batch = commits.groupBy("cluster").agg(
        F.unix_micros(F.min("taken_at")).alias("first"),
        F.unix_micros(F.max("taken_at")).alias("newest"),
        F.count(F.lit(1)).alias("rows"),
        F.sum(late.otherwise(0)).alias("late"),
    )
    after = dict(before)
    for row in of_batch.collect():
        times = _time(row["first"]), _time(row["newest"])
        new = ClusterProgress(row["cluster"], *times, None, row["rows"], row["late"])
        if (old := before.get(new.cluster)) is not None:
            new = replace(
                old,
                first=min(old.first, new.first),
                newest=max(old.newest, new.newest),
                rows=old.rows + new.rows,
                late=old.late + new.late,
            )
        after[new.cluster] = new
    return after


def with_published(progress: Progress, closed: list[ClosedHours]) -> Progress:
    """Return ``progress`` after the hours of ``closed`` are published."""
    ends = {each.cluster: each.until for each in closed}
    return {
        name: replace(each, published_until=ends.get(name, each.published_until))
        for name, each in progress.items()
    }


# Which snapshots are still needed.


def earliest_needed(since: datetime, max_gap: timedelta) -> datetime:
    """Return the time of the first commit on which the hours from ``since`` on depend."""
    return since - max_gap - HOUR


def needed_since(progress: Progress, max_gap: timedelta) -> datetime:
    """Return the time from which on hours that are not published yet may need snapshots."""
    newest = max(each.newest for each in progress.values())
    return min(
        earliest_needed(each.begin - max_gap, max_gap) - LAG_LOOKBACK
        for each in progress.values()
        if each.newest >= newest - MAX_SILENCE
    )
