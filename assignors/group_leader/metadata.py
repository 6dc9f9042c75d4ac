"""What a client's metadata says of leaders, in the terms of the assignors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from assignors.group_leader.logs import some
from placement_core import parse_rack


@dataclass(frozen=True, slots=True)
class Leaders:
    """The racks of the leaders of some topics.

    ``racks`` is what an assignor takes, index = position. ``numbers`` has, for a topic whose
    partitions are not 0, 1, 2 … without a gap, the partition at each position; brokers do not
    answer so, but an assignor that believed it would give away partitions that are not there.
    ``unseen`` are the topics without metadata; ``brokers`` has each broker's rack.
    """

    racks: Mapping[str, list[str | None]]
    numbers: Mapping[str, list[int]]
    unseen: frozenset[str]
    brokers: Mapping[int, str | None]

    def to_positions(self, owned: Mapping[str, Sequence[int]]) -> Mapping[str, Sequence[int]]:
        """``owned`` by position instead of by partition; what does not exist is left out."""
        if self.numbers.keys().isdisjoint(owned):
            return owned
        translated = dict(owned)
        for topic in self.numbers.keys() & owned.keys():
            position = {number: index for index, number in enumerate(self.numbers[topic])}
            translated[topic] = [position[p] for p in owned[topic] if p in position]
        return translated

    def to_partitions(self, plan: Mapping[str, list[int]]) -> dict[str, list[int]]:
        """One member's part of a plan by partition instead of by position."""
        if self.numbers.keys().isdisjoint(plan):
            return dict(plan)
        return {
            topic: [self.numbers[topic][at] for at in positions]
            if topic in self.numbers
            else positions
            for topic, positions in plan.items()
        }


class Metadata(Protocol):
    """What kafka-python's and aiokafka's ClusterMetadata have in common."""

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The topic's partitions, None where it has not been seen."""

    def partitions_for_broker(self, broker_id: int) -> Iterable[tuple[str, int]] | None:
        """The partitions that the broker leads."""


def read_leaders(
    metadata: Metadata, brokers: Mapping[int, str | None], topics: Iterable[str]
) -> Leaders:
    """The leaders' racks of ``topics`` as ``metadata`` knows them; ``brokers`` has theirs.

    A partition without a leader is there with the rack None. Leaders are taken broker by
    broker, which for many partitions is several times faster than asking for each.
    """
    racks: dict[str, list[str | None]] = {}
    numbers: dict[str, list[int]] = {}
    unseen = set()
    for topic in topics:
        partitions = metadata.partitions_for_topic(topic)
        if not partitions:
            unseen.add(topic)
            continue
        racks[topic] = [None] * len(partitions)
        if max(partitions) != len(partitions) - 1:
            numbers[topic] = sorted(partitions)
    position = {t: {p: at for at, p in enumerate(ps)} for t, ps in numbers.items()}
    for broker, rack in brokers.items():
        if not rack:
            continue
        for topic, partition in list(metadata.partitions_for_broker(broker) or ()):
            row = racks.get(topic)
            if row is None:
                continue
            at = position[topic].get(partition, -1) if topic in position else partition
            # Beyond the row only if the metadata changed under our hands.
            if 0 <= at < len(row):
                row[at] = rack
    return Leaders(racks, numbers, frozenset(unseen), dict(brokers))


# ---- Which names a topic can have.

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Whether a broker could have a topic of this name; of any other it need not be asked.

    Source: ``org.apache.kafka.common.internals.Topic``.
    """
    return _NAME.fullmatch(name) is not None and name not in (".", "..")


# ---- Racks of members and of brokers that have nothing in common: two vocabularies, likely.

_ZONE_NAME = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d+(-[a-z]+-\d+)?[a-z]")
"""Of AWS: ``us-east-1a``, ``us-gov-west-1b``; of a local zone: ``us-west-2-lax-1a``."""

_ZONE_ID = re.compile(r"[a-z]+\d+(-[a-z]+\d+)?-az\d+")
"""Of AWS: ``use1-az1``; of a local zone: ``usw2-lax1-az1``."""


def racks_apart(members: Iterable[str | None], brokers: Iterable[str | None]) -> str | None:
    """What to say where no member's rack has anything in common with a broker's; else None.

    None too where nobody on one of the sides has a rack. Racks with levels have something in
    common where their widest level is the same.
    """
    here, there = sorted(set(filter(None, members))), sorted(set(filter(None, brokers)))
    tops_here, tops_there = _tops(here), _tops(there)
    if not tops_here or not tops_there or tops_here & tops_there:
        return None
    return (
        f"no member is in a rack of the brokers: members say {some(here)}; brokers {some(there)};"
        f" everything is read across racks{_hint(here, there)}"
    )


def _tops(racks: Iterable[str]) -> set[str]:
    return {path[0] for path in map(parse_rack, racks) if path}


def _hint(here: list[str], there: list[str]) -> str:
    for names, ids, who in ((here, there, "the brokers'"), (there, here, "the members'")):
        if any(map(_ZONE_NAME.fullmatch, names)) and any(map(_ZONE_ID.fullmatch, ids)):
            return (
                f". Some are names of AWS zones, while {who} are ids of zones. A name stands for"
                " another zone in another account, an id does not: use ids on both sides"
                " (broker.rack, and RACKWARD_RACK_FROM=aws-zone-id)"
            )
    return ""
