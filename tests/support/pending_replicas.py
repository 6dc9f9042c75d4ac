"""Intents and clusters for tests, written shortly."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from placement_core import Broker, ClusterView, TopicPartition
from rackward.admin import ClusterState, Ongoing
from rackward.controller.pending_replicas import Intent, layout_digest

RACKS = {0: "a", 1: "b", 2: "c", 3: "a", 4: "b", 5: "c"}
Lists = Mapping[str, Mapping[int, tuple[int, ...]]]


def intent(
    topic: str = "t",
    rows: Mapping[int, tuple[int, ...]] | None = None,
    *,
    id: str = "i",
    topic_id: str | None = "",
    factor: int = 3,
    stand_ins: Collection[int] = (),
    filling: Mapping[int, tuple[int, ...]] | None = None,
) -> Intent:
    """An intent about partitions that were made as ``rows``; its topic's id is ``t-id``."""
    made = {0: (0, 1)} if rows is None else rows
    return Intent(
        id=id,
        topic=topic,
        topic_id=f"{topic}-id" if topic_id == "" else topic_id,
        replication_factor=factor,
        open=tuple(sorted(made)),
        layout=layout_digest(made),
        stand_ins=frozenset(stand_ins),
        filling=dict(filling or {}),
    )


def state(
    live: Collection[int],
    lists: Lists,
    *,
    ongoing: Mapping[TopicPartition, Ongoing] | None = None,
    behind: Mapping[TopicPartition, Collection[int]] | None = None,
) -> ClusterState:
    """Brokers of RACKS, those in ``live`` up; every live replica in sync but those ``behind``."""
    replicas = {
        TopicPartition(topic, number): row
        for topic, rows in lists.items()
        for number, row in rows.items()
    }
    late = behind or {}
    return ClusterState(
        cluster_id="c",
        view=ClusterView(
            tuple(Broker(each, RACKS[each]) for each in sorted(live)),
            replicas,
            {place: row[0] for place, row in replicas.items()},
        ),
        in_sync={
            place: tuple(b for b in row if b in live and b not in late.get(place, ()))
            for place, row in replicas.items()
        },
        fenced=tuple(Broker(each, RACKS[each]) for each in sorted(RACKS.keys() - set(live))),
        topic_ids={topic: f"{topic}-id" for topic in lists},
        ongoing=dict(ongoing or {}),
    )


def without_topic(found: ClusterState, topic: str) -> ClusterState:
    """The state of a cluster that does not have the topic."""
    return found.only([each for each in found.topics if each != topic])


def with_id(found: ClusterState, topic: str, id: str) -> ClusterState:
    """The state where the topic is another of that name."""
    return replace(found, topic_ids={**found.topic_ids, topic: id})
