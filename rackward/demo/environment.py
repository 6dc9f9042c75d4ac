"""Where the story is played: a cluster of our own, or one that is there already."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from placement_core import ClusterView
from rackward.admin import connect, read_state
from rackward.admin.topics import NewPartitions, await_layout, make_partitions
from rackward.clusters.base import Cluster
from rackward.demo.groups import DemoError
from rackward.demo.metrics import Matrix, Standing
from rackward.demo.producer import RECORD_BYTES

# ---- Where the demo's replicas and leaders stand, and where its leader moves take them.
#
# All of it is a pure function of the brokers' racks and a seeded generator. Leaders are even
# over brokers and their order is shuffled: in step with the partition numbers they would
# flatter one assignor or hurt another by mere aliasing.


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


# ---- Bytes per strategy, reader's rack and broker's rack: counted by brokers, or estimated.
#
# On a cluster of our own every (strategy, rack) has a listener on every broker, so the
# brokers' own counters tell the strategies apart while all of them read the same data at
# the same time. Somebody else's cluster has no such listeners: there the growth of each
# partition is set down to whoever reads it and to wherever its leader is.


def door(strategy: str, rack: str) -> str:
    """The name of the client rack that stands for ``strategy``'s members in ``rack``."""
    return f"{strategy}:{rack}"


class Meter(Protocol):
    """Bytes since the meter was made."""

    def read(self, standings: Mapping[str, Standing]) -> Mapping[str, Matrix]:
        """Strategy key to its matrix, as of now, given how its groups stand now."""

    def forget(self, broker_id: int) -> None:
        """A broker was killed: whatever it counts from now on, it counts from zero."""

    def close(self) -> None:
        """Let go of connections."""


class BrokerCounters:
    """What the brokers of our own cluster count per listener."""

    def __init__(self, cluster: Cluster, racks: Mapping[int, str]) -> None:
        self._cluster = cluster
        self._racks = racks
        self._total: dict[str, Counter[tuple[str, str]]] = {}
        self._last = cluster.bytes_out()

    def read(self, standings: Mapping[str, Standing]) -> Mapping[str, Matrix]:
        for place, size in self._cluster.bytes_out().items():
            label, broker = place
            strategy, reader = label.split(":", 1)
            cells = self._total.setdefault(strategy, Counter())
            cells[reader, self._racks[broker]] += size - self._last.get(place, 0)
            self._last[place] = size
        return {strategy: dict(self._total.get(strategy, {})) for strategy in standings}

    def forget(self, broker_id: int) -> None:
        for place in [place for place in self._last if place[1] == broker_id]:
            del self._last[place]

    def close(self) -> None:
        pass


class LogGrowth:
    """Growth of the topic's partitions, set down to their present readers and leaders.

    An estimate: what grew before a rebalance but since the last reading is set down to
    the new reader, and requests, headers and re-reads are not in it.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        from kafka import KafkaConsumer, TopicPartition

        self._consumer: Any = KafkaConsumer(bootstrap_servers=bootstrap, metrics_enabled=False)
        self._places = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._total: dict[str, Counter[tuple[str, str]]] = {}
        self._last = self._ends()

    def read(self, standings: Mapping[str, Standing]) -> Mapping[str, Matrix]:
        ends = self._ends()
        grown = [(end - last) * RECORD_BYTES for end, last in zip(ends, self._last, strict=True)]
        self._last = ends
        for strategy, standing in standings.items():
            self._total.setdefault(strategy, Counter()).update(attribute(grown, standing))
        return {strategy: dict(self._total[strategy]) for strategy in standings}

    def forget(self, broker_id: int) -> None:
        pass

    def close(self) -> None:
        self._consumer.close()

    def _ends(self) -> list[int]:
        from kafka.errors import KafkaError

        try:
            found = self._consumer.end_offsets(self._places)
        except KafkaError as error:
            raise DemoError(
                f"the cluster does not tell how its logs have grown: {error}"
            ) from error
        return [found[place] for place in self._places]


def attribute(grown: Sequence[int], standing: Standing) -> dict[tuple[str, str], int]:
    """``grown`` (bytes, index = partition) as a matrix of reader's and leader's racks.

    Partitions without a reader, or without a leader whose rack is known, are left out.
    """
    cells: Counter[tuple[str, str]] = Counter()
    for member, partitions in standing.assignment.items():
        for partition in partitions:
            leader = standing.leader_racks[partition]
            if leader is not None:
                cells[standing.member_racks[member], leader] += grown[partition]
    return dict(cells)


def doors(strategies: Iterable[str], racks: Iterable[str]) -> tuple[str, ...]:
    """Every client rack that a cluster of our own must have a listener for."""
    racks = tuple(racks)
    return tuple(door(strategy, rack) for strategy in strategies for rack in racks)


@dataclass(frozen=True, slots=True)
class Stage:
    """``cluster`` is None where the cluster is not ours to break. ``racks`` leaves out brokers
    that do not say theirs."""

    name: str
    bootstrap_servers: str
    racks: Mapping[int, str]
    cluster: Cluster | None = None

    @property
    def rack_names(self) -> tuple[str, ...]:
        """The racks, sorted."""
        return tuple(sorted(set(self.racks.values())))

    def bootstrap(self, strategy: str, rack: str) -> str:
        """The servers by which ``strategy``'s members in ``rack`` know the cluster."""
        if self.cluster is None:
            return self.bootstrap_servers
        return self.cluster.bootstrap(door(strategy, rack))

    def view(self, topic: str) -> ClusterView:
        """The brokers, and the replicas and leaders of ``topic``, as of now."""
        if self.cluster is not None:
            return self.cluster.view([topic])
        with connect({}, self.bootstrap_servers) as admin:
            return read_state(admin, [topic], ongoing=False).view

    def meter(self, topic: str, partitions: int) -> Meter:
        """What reads the bytes here, starting now."""
        if self.cluster is None:
            return LogGrowth(self.bootstrap_servers, topic, partitions)
        return BrokerCounters(self.cluster, self.racks)

    def create_topic(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """Create ``topic`` with these replicas (index = partition), leaders first."""
        wanted = [NewPartitions(topic, tuple(map(tuple, replicas)))]
        with connect({}, self.bootstrap_servers) as admin:
            for error in make_partitions(admin, wanted).values():
                raise error
            for fault in await_layout(admin, wanted).values():
                raise DemoError(f"the topic {topic} was created, but {fault}")

    def remove(self, topic: str, groups: Sequence[str]) -> None:
        """Delete what the demo left on a cluster that stays."""
        with connect({}, self.bootstrap_servers) as admin:
            admin.call(f"deleting {topic}", lambda client: client.delete_topics([topic]))
            admin.call("deleting groups", lambda client: client.delete_groups(list(groups)))


# ---- A stage on somebody else's cluster: what it must have, and what the demo refuses.

MOST_RACKS = 6
"""Two members per rack and strategy: beyond this it is no longer a demo."""


def existing_stage(bootstrap_servers: str) -> Stage:
    """The stage on a cluster that is there already.

    Raises DemoError where the brokers' racks leave nothing to compare.
    """
    with connect({}, bootstrap_servers) as admin:
        view = read_state(admin, [], ongoing=False).view
    racks = {broker.id: broker.rack for broker in view.brokers if broker.rack is not None}
    names = sorted(set(racks.values()))
    if len(names) < 2:
        said = f"only {names[0]!r}" if names else "none"
        raise DemoError(
            f"the brokers at {bootstrap_servers} must stand in two racks at least, and say "
            f"{said}: set broker.rack in their configuration"
        )
    if len(names) > MOST_RACKS:
        raise DemoError(
            f"the brokers at {bootstrap_servers} stand in {len(names)} racks; the demo runs two "
            f"members per rack and strategy, and does so for at most {MOST_RACKS} racks"
        )
    if any(name.startswith("/") for name in names):
        raise DemoError(
            f"the brokers at {bootstrap_servers} say racks with levels ({names[0]}): the demo "
            "counts racks as near or far, and would misjudge the levels between"
        )
    return Stage(f"cluster at {bootstrap_servers}", bootstrap_servers, racks)
