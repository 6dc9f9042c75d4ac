"""Replicas of a topic under measurement, and leaders that move: functions of racks and a seed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from random import Random


def spread_replicas(
    racks: Mapping[int, str | None], partitions: int, random: Random
) -> list[tuple[int, ...]]:
    """Return replica lists, index = partition, the leader first.

    Every partition has a replica in each of up to three racks. The numbers of leaders per broker
    differ by at most one, and followers are spread evenly within a rack. The leaders' order is
    shuffled: leaders in step with partition numbers would favour or penalise an assignor by
    coincidence.
    """
    by_rack: dict[str, list[int]] = defaultdict(list)
    for broker, rack in sorted(racks.items()):
        if rack is not None:
            by_rack[rack].append(broker)
    brokers = [broker for broker in sorted(racks) if racks[broker] is not None]
    leaders = [brokers[i % len(brokers)] for i in range(partitions)]
    random.shuffle(leaders)
    follower_count: Counter[int] = Counter()
    layout = []
    for leader in leaders:
        other_racks = sorted(rack for rack in by_rack if rack != racks[leader])
        followers = []
        for rack in random.sample(other_racks, min(2, len(other_racks))):
            follower = min(by_rack[rack], key=lambda broker: (follower_count[broker], broker))
            follower_count[follower] += 1
            followers.append(follower)
        layout.append((leader, *followers))
    return layout


def choose_leader_moves(
    replicas: Sequence[Sequence[int]],
    leaders: Sequence[int],
    racks: Mapping[int, str | None],
    share: float,
    random: Random,
) -> dict[int, int]:
    """Return new leaders by partition, for ``share`` of the partitions (at least one).

    Each new leader is a replica in another rack: a move within the rack would change nothing
    that the demo measures.
    """
    candidates = {
        partition: others
        for partition, brokers in enumerate(replicas)
        if (others := [each for each in brokers if racks[each] != racks[leaders[partition]]])
    }
    count = min(len(candidates), max(1, round(share * len(replicas))))
    return {
        partition: random.choice(candidates[partition])
        for partition in sorted(random.sample(list(candidates), count))
    }
