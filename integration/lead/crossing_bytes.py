"""Count the bytes that a stock group reads across racks, before and after it is led.

    python -m integration.lead.crossing_bytes --client java-cooperative-sticky --members 6

Three brokers in three racks lead 24 partitions, evenly and in random order, and each has a replica
of all of them. (With one replica, rack-aware assignors of Java's read them locally as well.) The
group reads a number of records, is taken over by removing its leader, and reads as many again. The
brokers count the bytes that they send to the consumers of each rack.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Collection, Mapping

from integration.lead.take_overs import CLIENTS, RACKS
from integration.support.clients import PartitionId, partitions_of
from integration.support.groups import ConsumerGroup
from integration.support.leading import LedGroup, leading, wait_until_leading
from integration.support.racks import evenly
from integration.support.topics import create_topic, fill, new_name
from rackward.lead import TakeOver, TakeOverPolicy
from rackward.testing import Cluster, LocalCluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

PARTITIONS = 24

MEGABYTE = 1_000_000


def main() -> None:
    """Run with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--client", choices=sorted(CLIENTS), default="java-cooperative-sticky")
    parser.add_argument("--members", type=int, default=6)
    parser.add_argument("--records", type=int, default=1000, help="of 1 kB, to each partition")
    options = parser.parse_args()
    with LocalCluster(RACKS, client_racks=RACKS) as cluster:
        leaders = [RACKS.index(rack) for rack in evenly(PARTITIONS)]
        rows = [[leader, (leader + 1) % 3, (leader + 2) % 3] for leader in leaders]
        topic = create_topic(cluster, new_name("led"), rows)
        client = CLIENTS[options.client]
        policy = TakeOverPolicy(TakeOver.REMOVE)
        with ConsumerGroup(cluster, topics=[topic], client=client) as group:
            led = LedGroup(cluster, group, topic, PARTITIONS)
            led.start(
                *(f"{rack}{n}" for n, rack in zip(range(options.members), itertools.cycle(RACKS)))
            )
            tps = partitions_of(topic, PARTITIONS)
            group.settle(tps)
            _print("its own leader", _read(cluster, group, tps, options.records))
            with leading(cluster, group.id, take_over=policy) as leader:
                wait_until_leading(leader)
                led.settle()
                _print("led", _read(cluster, group, tps, options.records))


def _read(
    cluster: Cluster, group: ConsumerGroup, tps: Collection[PartitionId], records: int
) -> Mapping[tuple[str, str], int]:
    """Write records and wait until they are read; return bytes by rack of consumer and broker."""
    before = cluster.bytes_out()
    expected = {tp: len(group.reads_of(tp).offsets()) + records for tp in tps}
    (topic,) = {topic for topic, _ in tps}
    fill(cluster, topic, len(tps), records, size=1000)
    wait_until(
        lambda: all(len(group.reads_of(tp).offsets()) >= n for tp, n in expected.items()),
        2 * TEST_TIMEOUT,
        "all records are read",
    )
    return {
        (rack, RACKS[broker]): sent - before[rack, broker]
        for (rack, broker), sent in cluster.bytes_out().items()
    }


def _print(what: str, sent: Mapping[tuple[str, str], int]) -> None:
    total = sum(sent.values())
    crossing = sum(size for (reader, broker), size in sent.items() if reader != broker)
    print(
        f"{what}: {crossing / MEGABYTE:.1f} of {total / MEGABYTE:.1f} MB across racks,"
        f" {100 * crossing / total:.1f} %",
        flush=True,
    )


if __name__ == "__main__":
    main()
