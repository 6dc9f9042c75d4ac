"""Asking less often for topics that are not there.

While any topic that it was told to watch is missing, kafka-python asks for its metadata ten
times a second, and logs an error for every missing topic each time. The leader of a group
watches what all members subscribe to: one member that names thousands of topics in error keeps
the leader, and itself, from doing anything else.
"""

from __future__ import annotations

from typing import Any

FIRST_SECONDS = 1.0
"""After which a topic that is missing is asked for again."""

SECONDS_EACH = 0.01
"""By which this grows with every topic that is missing: a hundred are asked for in a second."""


def seconds_to_wait(missing: int) -> float:
    """How long to ask no more where so many topics are missing."""
    return max(FIRST_SECONDS, missing * SECONDS_EACH)


def stop_asking(cluster: Any) -> float | None:
    """Have ``cluster``, a ClusterMetadata, no longer ask of itself for what is missing.

    Returns the seconds after which to ask again; None where it was not about to ask, or
    somebody waits for the answer.
    """
    with cluster._lock:
        if not cluster._need_update or cluster._future is not None:
            return None
        cluster._need_update = False
        watched = list(cluster._topics)
    missing = sum(not cluster.partitions_for_topic(topic) for topic in watched)
    return seconds_to_wait(missing)
