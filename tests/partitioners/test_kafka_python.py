from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.cluster import ClusterMetadata
from kafka.partitioner import DefaultPartitioner

from partitioners.kafka_python import RackAwarePartitioner


def cluster_of(leaders: dict[int, int], racks: dict[int, str | None]) -> Any:
    """kafka-python's own metadata, without brokers that could send it."""
    cluster = ClusterMetadata()
    cluster._brokers = {node: SimpleNamespace(rack=rack) for node, rack in racks.items()}
    cluster._partitions = {
        "t": {p: SimpleNamespace(leader_id=leader) for p, leader in leaders.items()}
    }
    return cluster


RACKS: dict[int, str | None] = {1: "a", 2: "b", 3: "c"}
LEADERS = {p: p % 3 + 1 for p in range(12)}
VALUE = bytes(4096)


def unkeyed(partitioner: RackAwarePartitioner, cluster: Any, topic: str = "t") -> int:
    return partitioner.partition(topic, None, None, VALUE, VALUE, cluster)


def batches(partitioner: RackAwarePartitioner, cluster: Any, n: int = 24) -> set[int]:
    seen = set()
    for _ in range(n):
        chosen = unkeyed(partitioner, cluster)
        assert {unkeyed(partitioner, cluster) for _ in range(5)} == {chosen}
        seen.add(chosen)
        partitioner.on_new_batch("t", cluster, chosen)
    return seen


def test_records_stay_for_a_batch_and_in_the_rack() -> None:
    assert batches(RackAwarePartitioner(rack="a"), cluster_of(LEADERS, RACKS)) == {0, 3, 6, 9}


def test_a_leader_that_is_down_gets_no_more_than_its_part() -> None:
    # Its batch grows to 16 KB, while a leader that responds gets a batch for each record.
    partitioner, cluster = RackAwarePartitioner(rack="a"), cluster_of({0: 1, 1: 1, 2: 2}, RACKS)
    batch, counts = 0, Counter[int]()
    for _ in range(1000):
        chosen = unkeyed(partitioner, cluster)
        if chosen == 1 or batch + len(VALUE) > 16 * 1024:
            partitioner.on_new_batch("t", cluster, chosen)
            chosen, batch = unkeyed(partitioner, cluster), 0
        batch += len(VALUE) if chosen == 0 else 0
        counts[chosen] += 1
    assert counts.keys() == {0, 1}
    assert counts[0] <= 550


def test_a_moved_leader_is_left_at_once() -> None:
    partitioner, cluster = RackAwarePartitioner(rack="a"), cluster_of(LEADERS, RACKS)
    chosen = unkeyed(partitioner, cluster)
    cluster._partitions["t"][chosen].leader_id = 2
    assert unkeyed(partitioner, cluster) != chosen


@pytest.mark.parametrize("leader", [-1, 99])
def test_a_partition_without_a_leader_is_not_written(leader: int) -> None:
    cluster = cluster_of({0: leader, 1: 2, 2: 3}, RACKS)
    assert batches(RackAwarePartitioner(rack="a"), cluster) == {1, 2}


def test_without_leaders_records_go_where_the_default_sends_them() -> None:
    cluster = cluster_of({0: -1, 1: -1}, RACKS)
    assert unkeyed(RackAwarePartitioner(rack="a"), cluster) in {0, 1}


def test_an_unknown_topic_raises_what_the_default_raises() -> None:
    with pytest.raises(ValueError, match="not found"):
        unkeyed(RackAwarePartitioner(rack="a"), cluster_of(LEADERS, RACKS), "other")


def test_a_producer_without_rack_is_warned_once_and_is_stock(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("RACKWARD_RACK", "RACKWARD_RACK_FILE", "RACKWARD_RACK_FROM"):
        monkeypatch.delenv(name, raising=False)
    partitioner, cluster = RackAwarePartitioner(rack="/"), cluster_of(LEADERS, RACKS)
    assert {unkeyed(partitioner, cluster) for _ in range(500)} == set(range(12))
    partitioner.on_new_batch("t", cluster, 0)
    assert [record.name for record in caplog.records] == ["rackward.partitioners"]


def keyed_differences(count: int) -> int:
    rng = random.Random(5)
    rack_aware, stock = RackAwarePartitioner(rack="a"), DefaultPartitioner()
    cluster = cluster_of(LEADERS, RACKS)
    keys = (rng.randbytes(rng.randrange(24)) for _ in range(count))
    return sum(
        rack_aware.partition("t", key, key, None, None, cluster)
        != stock.partition("t", key, key, None, None, cluster)
        for key in keys
    )


def test_keyed_records_go_where_the_default_sends_them() -> None:
    assert keyed_differences(20_000) == 0


@pytest.mark.thorough
def test_a_million_keyed_records_go_where_the_default_sends_them() -> None:
    assert keyed_differences(1_000_000) == 0
