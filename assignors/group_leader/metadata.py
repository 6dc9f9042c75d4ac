"""Leaders and replicas of partitions, from a client's metadata."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from assignors.group_leader.logs import format_list
from placement_core import parse_rack


@dataclass(frozen=True, slots=True)
class Leaders:
    """The racks of the leaders of some topics.

    racks
        Topic to the rack of each partition's leader, as an assignor takes it. None if there is no
        leader, or its broker has no rack.
    topics_without_metadata
        The topics that the metadata does not have, or not from partition 0 to the last.
    broker_racks
        Broker id to its rack.
    """

    racks: Mapping[str, list[str | None]]
    topics_without_metadata: frozenset[str]
    broker_racks: Mapping[int, str | None]


class PartitionMetadata(NamedTuple):
    """One partition in a client's metadata: broker ids, -1 for no leader.

    ``epoch`` is the leader epoch if the client has it, else any constant.
    """

    topic: str
    partition: int
    leader: int
    epoch: int
    replicas: Sequence[int]
    in_sync: Collection[int]

    def is_stable(self, brokers: frozenset[int]) -> bool:
        """Return whether nothing about the partition is likely to change by itself.

        Its leader and all its replicas are among ``brokers``, all are in sync, and the leader is
        the preferred one. Brokers replace any other leader, by default within five minutes.
        """
        if self.leader not in brokers:
            return False
        return not self.replicas or (
            self.leader == self.replicas[0]
            and len(self.in_sync) >= len(self.replicas)
            and brokers.issuperset(self.replicas)
        )


Metadata = tuple[Leaders, Iterable[PartitionMetadata]]
"""What a client's metadata has of some topics."""


def read_metadata(
    partitions: Mapping[str, Mapping[int, Any]],
    broker_racks: Mapping[int, str | None],
    topics: Iterable[str],
    leader: str,
    others: Callable[[Any], tuple[int, Sequence[int], Collection[int]]],
) -> Metadata:
    """Return the leaders' racks and the replicas of ``topics`` from a client's metadata.

    ``partitions`` has the client's object for each partition by topic and number. ``leader`` is the
    name of its attribute with the broker that leads; ``others`` returns the leader epoch, the
    replicas and those in sync.
    """
    racks: dict[str, list[str | None]] = {}
    without_metadata = set()
    rack_of = {broker: rack or None for broker, rack in broker_racks.items()}.get
    leader_of = attrgetter(leader)
    for topic in topics:
        known = partitions.get(topic)
        numbers = list(range(len(known or ())))
        # Brokers send all partitions of a topic. Without some of them, it waits for a response.
        if not known or sorted(known) != numbers:
            without_metadata.add(topic)
            continue
        rows = known.values() if [*known] == numbers else map(known.__getitem__, numbers)
        racks[topic] = list(map(rack_of, map(leader_of, rows)))
    replicas = (
        PartitionMetadata(topic, number, leader_of(partition), *others(partition))
        for topic in racks
        for number, partition in partitions[topic].items()
    )
    return Leaders(racks, frozenset(without_metadata), dict(broker_racks)), replicas


_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Return whether a topic can have this name. Brokers reject requests for any other.

    Source: ``org.apache.kafka.common.internals.Topic``.
    """
    return _TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")


# ---- Racks of members and of brokers that have none in common.

_AWS_ZONE_NAME = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d+(-[a-z]+-\d+)?[a-z]")
"""``us-east-1a``, ``us-gov-west-1b``, or of a local zone ``us-west-2-lax-1a``."""

_AWS_ZONE_ID = re.compile(r"[a-z]+\d+(-[a-z]+\d+)?-az\d+")
"""``use1-az1``, or of a local zone ``usw2-lax1-az1``."""


def rack_mismatch(members: Iterable[str | None], brokers: Iterable[str | None]) -> str | None:
    """Return a warning if no member's rack has anything in common with a broker's, else None.

    Racks with levels have something in common if their widest level is the same. None too if
    no member or no broker has a rack.
    """
    member_racks = sorted(set(filter(None, members)))
    broker_racks = sorted(set(filter(None, brokers)))
    member_levels, broker_levels = _widest_levels(member_racks), _widest_levels(broker_racks)
    if not member_levels or not broker_levels or member_levels & broker_levels:
        return None
    return (
        "no member is in a rack of the brokers, so every partition is read across racks:"
        f" racks of members: {format_list(member_racks)};"
        f" racks of brokers: {format_list(broker_racks)}"
        f"{_aws_hint(member_racks, broker_racks)}"
    )


def _widest_levels(racks: Iterable[str]) -> set[str]:
    return {path[0] for path in map(parse_rack, racks) if path}


def _aws_hint(member_racks: list[str], broker_racks: list[str]) -> str:
    for names, ids, named, identified in (
        (member_racks, broker_racks, "members", "brokers"),
        (broker_racks, member_racks, "brokers", "members"),
    ):
        if any(map(_AWS_ZONE_NAME.fullmatch, names)) and any(map(_AWS_ZONE_ID.fullmatch, ids)):
            return (
                f". The racks of the {named} look like names of AWS zones, those of the"
                f" {identified} like zone ids. A name denotes different zones in different"
                " accounts, an id does not: use ids on both sides (broker.rack, and"
                " RACKWARD_RACK_FROM=aws-zone-id)"
            )
    return ""
