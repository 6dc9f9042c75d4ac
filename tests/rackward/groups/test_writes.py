"""What producers and followers send across racks, by hand."""

from __future__ import annotations

from dataclasses import replace

from placement_core import Broker, ClusterView, TopicPartition
from rack_traffic.prices import PRESETS
from rack_traffic.writers import Writers, parse_writers
from rackward.groups.writes import CrossRackWrites, cross_rack_writes


def test_writes_and_replication_by_hand() -> None:
    t0, t1, s0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("s", 0)
    view = ClusterView(
        brokers=(Broker(0, "a"), Broker(1, "b"), Broker(2, "c")),
        replicas={t0: (0, 1), t1: (1, 2), s0: (0, 1, 2)},
        leaders={t0: 0, t1: 1, s0: 0},
    )
    # 3 MB/s to each partition, 1 MB/s of them from each rack: two of three cross, 6 MB/s. With a
    # partitioner only c, which leads nothing of t, and b and c, which lead nothing of s, cross:
    # 1 + 1 + 1 + 1 MB/s. Followers copy 3 + 3 + 6 MB/s.
    rates = dict.fromkeys((t0, t1, s0), 3e6)
    month = 730 * 3600 / 1000 * 0.02
    for name, replicated in (("aws", 12.0), ("aws-msk", 0.0)):
        assert cross_rack_writes(view, rates, PRESETS[name], "x", Writers()) == CrossRackWrites(
            6e6, round(6 * month, 4), round(4 * month, 4), round(replicated * month, 4)
        )
    # Racks are compared as paths.
    slash = replace(view, brokers=(Broker(0, "/a"), Broker(1, "b"), Broker(2, "c"), Broker(3, "a")))
    moved = replace(slash, leaders={t0: 3, t1: 1, s0: 0})
    expected = cross_rack_writes(view, rates, PRESETS["aws-msk"], "x", Writers())
    for each in (slash, moved):
        assert cross_rack_writes(each, rates, PRESETS["aws-msk"], "x", Writers()) == expected
    # A broker without a rack: what it leads and copies has no price.
    unknown = ClusterView(
        brokers=(Broker(0, "a"), Broker(1, None)), replicas={t0: (1, 0)}, leaders={t0: 1}
    )
    assert cross_rack_writes(unknown, rates, PRESETS["aws"], "x", Writers()) == CrossRackWrites()


def test_declared_writers_and_the_largest_share_of_a_partition() -> None:
    """Eight partitions of 1 MB/s, one of them led in a, the others in b: as in the what-if.

    Of the 4.8 MB/s that are written in a, 7/8 cross now; with a partitioner, 3 * 2/8 of it stay.
    """
    tps = [TopicPartition("s", number) for number in range(8)]
    view = ClusterView(
        brokers=(Broker(0, "a"), Broker(1, "b")),
        replicas=dict.fromkeys(tps, (0, 1)),
        leaders={tp: int(tp.partition > 0) for tp in tps},
    )
    rates = dict.fromkeys(tps, 1e6)
    writers = parse_writers(["x:a=1", "/a=60,b=30,c=10"])
    found = cross_rack_writes(view, rates, PRESETS["aws-msk"], "x", writers)
    month = 730 * 3600 / 1000 * 0.02
    crossing = 4.8 * 7 / 8 + 2.4 / 8 + 0.8
    rack_aware = 4.8 / 4 + 0.8
    assert found == CrossRackWrites(
        crossing * 1e6, round(crossing * month, 4), round(rack_aware * month, 4), 0.0
    )
