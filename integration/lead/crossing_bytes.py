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
from collections.abc import Mapping

from integration.lead.take_overs import RACKS
from integration.support.leading import CLIENTS, LedGroup, led_group
from integration.support.racks import evenly
from integration.support.topics import fill
from rackward.lead import TakeOver, TakeOverPolicy
from rackward.testing import LocalCluster
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
        policy = TakeOverPolicy(TakeOver.REMOVE)
        with led_group(cluster, options.client, rows) as led:
            led.start(
                *(f"{rack}{n}" for n, rack in zip(range(options.members), itertools.cycle(RACKS)))
            )
            led.await_owners()
            _print("its own leader", _read(led, options.records))
            with led.leading(take_over=policy):
                led.settle()
                _print("led", _read(led, options.records))


def _read(led: LedGroup, records: int) -> Mapping[tuple[str, str], int]:
    """Write records and wait until they are read; return bytes by rack of consumer and broker."""
    cluster, group = led.cluster, led.group
    before = cluster.bytes_out()
    expected = {tp: len(group.reads_of(tp).offsets()) + records for tp in led.tps}
    fill(cluster, led.topic, led.partitions, records, size=1000)
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
