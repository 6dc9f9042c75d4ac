"""Snapshots of a cluster, without a cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rackward.collector import Snapshot

AT = datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=UTC)


def snapshot(
    cluster: str = "east",
    at: datetime = AT,
    partitions: int = 3,
    commits_at: datetime | None = None,
) -> Snapshot:
    """Return a snapshot with a broker, partitions, a group with a member, and an empty group."""
    assignment = [{"topic": "orders", "partitions": [0, 1]}]
    member = ("m-1", None, "c", "10.0.0.1", "a", "subscription", ["orders"], assignment)
    no_member: tuple[object, ...] = (None, None, None, None, None, None, [], [])
    group = (cluster, "billing", "classic", "Stable", "consumer", "range", None)
    return Snapshot(
        cluster,
        at,
        {
            "brokers": [(cluster, 0, "a", "h", at)],
            "partitions": [
                (cluster, "orders", "id", p, 0, 1, [0, 1], [0], 0, 10 * p, None, at)
                for p in range(partitions)
            ],
            "members": [(*group, *member, at), (cluster, "idle", *group[2:], *no_member, at)],
            "commits": [
                (cluster, "billing", "orders", p, 7, commits_at or at + timedelta(seconds=1))
                for p in range(partitions)
            ],
        },
    )
