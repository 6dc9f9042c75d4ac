"""CPU time of the computation of ``rackward audit``, without any cluster.

    python -m benchmarks.audit [--groups 1000] [--partitions 10000] [--topics-per-group 1]

A cluster of twelve brokers in three racks has topics of 100 partitions with three replicas. Each
group has six members in three racks and reads some of the topics with a stock assignor: a third of
the groups with range, a third with cooperative-sticky, and a third are of the new protocol. What
brokers need to answer is not in these figures; see ``benchmarks.requests_per_pass``.
"""

from __future__ import annotations

import argparse
import time
from random import Random

from placement_core import Broker, ClusterView, TopicPartition
from rack_traffic.advice import CLASSIC
from rack_traffic.prices import PriceTable
from rackward.groups.audit import audit_reading
from rackward.groups.host_racks import HostRacks
from rackward.groups.reading import ClusterReading, GroupReading, ReadRates
from rackward.kafka import ClusterState
from rackward.kafka.groups import CONSUMER, Group, GroupMember, ListedGroup

BROKERS, RACKS, MEMBERS, PARTITIONS_PER_TOPIC = 12, "abc", 6, 100
PROTOCOLS = ((CLASSIC, "range"), (CLASSIC, "cooperative-sticky"), (CONSUMER, "uniform"))


def cluster_state(partitions: int, rng: Random) -> ClusterState:
    """Return a cluster whose leaders are random."""
    replicas = {}
    for number in range(partitions):
        topic, partition = divmod(number, PARTITIONS_PER_TOPIC)
        first = rng.randrange(BROKERS)
        replicas[TopicPartition(f"t{topic:04}", partition)] = tuple(
            (first + step) % BROKERS for step in range(len(RACKS))
        )
    view = ClusterView(
        tuple(Broker(n, RACKS[n % len(RACKS)]) for n in range(BROKERS)),
        replicas,
        {tp: row[0] for tp, row in replicas.items()},
    )
    return ClusterState("synthetic", view, topic_ids={tp.topic: None for tp in replicas})


def consumer_group(number: int, topics: list[str], sizes: dict[str, int], rng: Random) -> Group:
    """Return a group whose members own equal random shares."""
    shares: list[dict[str, list[int]]] = [{} for _ in range(MEMBERS)]
    partitions = [(topic, partition) for topic in topics for partition in range(sizes[topic])]
    rng.shuffle(partitions)
    for index, (topic, partition) in enumerate(partitions):
        shares[index % MEMBERS].setdefault(topic, []).append(partition)
    kind, protocol = PROTOCOLS[number % len(PROTOCOLS)]
    return Group(
        id=f"g{number:04}",
        type=kind,
        state="Stable",
        protocol_type=CONSUMER,
        protocol=protocol,
        generation=None,
        members=tuple(
            GroupMember(
                id=f"consumer-g{number:04}-{n}-id",
                instance_id=None,
                client_id=f"consumer-g{number:04}-{n}",
                host="/10.0.0.1",
                rack=RACKS[n % len(RACKS)],
                topics=frozenset(topics),
                assignment=share,
                can_send_rack=True,
            )
            for n, share in enumerate(shares)
        ),
    )


def synthetic_reading(groups: int, partitions: int, topics_per_group: int) -> ClusterReading:
    """Return a cluster and its groups, as read."""
    rng = Random(1)
    state = cluster_state(partitions, rng)
    sizes = dict.fromkeys(state.topics, 0)
    for tp in state.view.replicas:
        sizes[tp.topic] += 1
    readings = []
    for number in range(groups):
        topics = [
            state.topics[(number + step) % len(state.topics)] for step in range(topics_per_group)
        ]
        group = consumer_group(number, topics, sizes, rng)
        listed = ListedGroup(group.id, CONSUMER, group.type, group.state)
        readings.append(GroupReading(listed, 0, group))
    return ClusterReading(state, tuple(readings))


def main() -> None:
    """Print the CPU time of an audit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--topics-per-group", type=int, default=1)
    options = parser.parse_args()
    reading = synthetic_reading(options.groups, options.partitions, options.topics_per_group)
    rates = ReadRates(written=dict.fromkeys(reading.state.view.replicas, 1e6))
    for name, best in (("groups list", False), ("audit", True)):
        started = time.process_time()
        report = audit_reading(reading, rates, PriceTable(), HostRacks(), best=best)
        seconds = time.process_time() - started
        reads, after = report.totals.now, report.totals.layout
        print(
            f"{name}: groups={len(report.groups)} partitions={report.partitions} "
            f"cpu_seconds={seconds:.1f} off_rack={reads.off_rack} "
            + (f"at_best={after.off_rack}" if after else "")
        )


if __name__ == "__main__":
    main()
