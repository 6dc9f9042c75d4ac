"""Where the demo's replicas and leaders stand, and where its leader moves take them.

All of it is a pure function of the brokers' racks and a seeded generator. Leaders are even
over brokers and their order is shuffled: in step with the partition numbers they would
flatter one assignor or hurt another by mere aliasing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from random import Random


def spread_replicas(
    racks: Mapping[int, str | None], partitions: int, random: Random
) -> list[tuple[int, ...]]:
    """Replica lists, index = partition, the first replica being the leader.

    Every partition has a replica in each of up to three racks. Leaders are even over the
    brokers (they differ by at most one), and so are followers within a rack as far as a
    shuffle allows.
    """
    by_rack: dict[str, list[int]] = defaultdict(list)
    for broker, rack in sorted(racks.items()):
        if rack is not None:
            by_rack[rack].append(broker)
    order = [broker for broker in sorted(racks) if racks[broker] is not None]
    leaders = [order[i % len(order)] for i in range(partitions)]
    random.shuffle(leaders)
    placed: Counter[int] = Counter()
    layout = []
    for leader in leaders:
        others = sorted(rack for rack in by_rack if rack != racks[leader])
        followers = []
        for rack in random.sample(others, min(2, len(others))):
            follower = min(by_rack[rack], key=lambda broker: (placed[broker], broker))
            placed[follower] += 1
            followers.append(follower)
        layout.append((leader, *followers))
    return layout


def move_some_leaders(
    replicas: Sequence[Sequence[int]],
    leaders: Sequence[int],
    racks: Mapping[int, str | None],
    share: float,
    random: Random,
) -> dict[int, int]:
    """Partition to new leader for ``share`` of the partitions (at least one).

    A leader moves to another of its partition's replicas, in another rack: a move within
    a rack would change nothing that the story tells.
    """
    candidates = [
        partition
        for partition, own in enumerate(replicas)
        if any(racks[broker] != racks[leaders[partition]] for broker in own)
    ]
    count = min(len(candidates), max(1, round(share * len(replicas))))
    return {
        partition: random.choice(
            [broker for broker in replicas[partition] if racks[broker] != racks[leaders[partition]]]
        )
        for partition in sorted(random.sample(candidates, count))
    }
