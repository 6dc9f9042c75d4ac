"""The leaders of partitions, from a client's metadata."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assignors.group_leader.logs import format_list
from placement_core import parse_rack


@dataclass(frozen=True, slots=True)
class Leaders:
    """The racks of the leaders of some topics.

    racks
        Topic to the rack of each partition's leader, as an assignor takes it. None if there is no
        leader, or its broker has no rack. The index is the partition's position.
    partition_ids
        Topic to the partition at each position, for topics whose partitions are not 0, 1, 2 and so
        on. Brokers do not respond so, but an assignor that relied on it would assign partitions
        that do not exist.
    topics_without_metadata
        The topics that the metadata does not have.
    broker_racks
        Broker id to its rack.
    """

    racks: Mapping[str, list[str | None]]
    partition_ids: Mapping[str, list[int]]
    topics_without_metadata: frozenset[str]
    broker_racks: Mapping[int, str | None]

    def to_positions(self, owned: Mapping[str, Sequence[int]]) -> Mapping[str, Sequence[int]]:
        """Return ``owned`` with positions instead of partitions, without unknown partitions."""
        if self.partition_ids.keys().isdisjoint(owned):
            return owned
        translated = dict(owned)
        for topic in self.partition_ids.keys() & owned.keys():
            position = {partition: at for at, partition in enumerate(self.partition_ids[topic])}
            translated[topic] = [position[p] for p in owned[topic] if p in position]
        return translated


def read_leaders(
    partitions: Mapping[str, Mapping[int, Any]],
    leader_of: Callable[[Any], int],
    broker_racks: Mapping[int, str | None],
    topics: Iterable[str],
) -> Leaders:
    """Return the leaders' racks of ``topics`` from a client's metadata.

    ``partitions`` has the metadata of each partition by topic and number, ``leader_of`` returns the
    broker that leads one.
    """
    racks: dict[str, list[str | None]] = {}
    partition_ids: dict[str, list[int]] = {}
    without_metadata = set()
    rack_of = {broker: rack or None for broker, rack in broker_racks.items()}.get
    for topic in topics:
        known = partitions.get(topic)
        if not known:
            without_metadata.add(topic)
            continue
        numbers, rows = list(known), list(known.values())
        consecutive = list(range(len(numbers)))
        if numbers != consecutive:
            numbers = sorted(numbers)
            rows = [known[number] for number in numbers]
            if numbers != consecutive:
                partition_ids[topic] = numbers
        racks[topic] = list(map(rack_of, map(leader_of, rows)))
    return Leaders(racks, partition_ids, frozenset(without_metadata), dict(broker_racks))


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
