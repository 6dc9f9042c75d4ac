"""What the metadata of a group's leader says at one moment, as the policy needs it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from assignors.model import LeaderRacks
from assignors.refresh.gain import Gain


class PartitionState(NamedTuple):
    """One partition in a client's metadata: broker ids, -1 for no leader.

    ``epoch`` counts the elections of its leaders, where the client knows it (else any constant).
    """

    topic: str
    partition: int
    leader: int
    epoch: int
    replicas: Sequence[int]
    in_sync: Collection[int]

    def is_whole(self, brokers: frozenset[int]) -> bool:
        """Whether nothing about it is likely to change by itself.

        Its leader and all its replicas are among ``brokers``, all are in sync, and the leader is
        the preferred one: another will be replaced by it, by default within five minutes.
        """
        if self.leader not in brokers:
            return False
        return not self.replicas or (
            self.leader == self.replicas[0]
            and len(self.in_sync) >= len(self.replicas)
            and brokers.issuperset(self.replicas)
        )


@dataclass(frozen=True, slots=True)
class Observation:
    """The leaders of a group's partitions at one moment.

    racks, epochs
        Topic to the rack of each partition's leader, and to how often leaders were elected.
    unwell
        Partitions that are not whole, see :meth:`PartitionState.is_whole`.
    gain
        What a rebalance would gain.
    """

    racks: LeaderRacks
    epochs: Mapping[str, Sequence[int]]
    unwell: int
    gain: Gain

    @property
    def partitions(self) -> int:
        """How many there are."""
        return sum(map(len, self.racks.values()))

    def elections_since(self, before: Observation) -> int:
        """How many partitions had an election since then, of the topics that are in both."""
        count = 0
        for topic, racks in self.racks.items():
            was, epochs = before.racks.get(topic), self.epochs[topic]
            if was is None or (racks == was and epochs == before.epochs[topic]):
                continue
            pairs = zip(racks, epochs, was, before.epochs[topic], strict=False)
            count += sum(rack != old or epoch != last for rack, epoch, old, last in pairs)
        return count


def observe(
    racks: LeaderRacks, states: Iterable[PartitionState], brokers: Collection[int], gain: Gain
) -> Observation:
    """Put together what a client's metadata says.

    ``racks``: topic to the rack of each partition's leader. A partition without a state is one
    that is not well.
    """
    epochs = {topic: [-1] * len(row) for topic, row in racks.items()}
    there, well = frozenset(brokers), 0
    for state in states:
        row = epochs.get(state.topic)
        if row is not None and 0 <= state.partition < len(row):
            row[state.partition] = state.epoch
            well += state.is_whole(there)
    return Observation(racks, epochs, sum(map(len, racks.values())) - well, gain)
