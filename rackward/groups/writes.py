"""What producers and replicas send across racks, and what a rack-aware partitioner would save.

Brokers do not know the racks of producers: these are declared, or assumed in equal parts in all
racks that hold replicas. Producers are assumed to write without keys, to all partitions alike.
"""

from __future__ import annotations

from functools import cache

import msgspec

from placement_core import ClusterView, RackPath, parse_rack
from placement_core.racks import DEFAULT_MAX_SHARE, nearest_groups
from rack_traffic.prices import GB, PriceTable
from rack_traffic.tables import HOURS_PER_MONTH
from rack_traffic.writers import ALL_TOPICS, Writers
from rackward.groups.reading import Rates

GB_A_MONTH = HOURS_PER_MONTH * 3600 / GB
"""The GB of a month, of a byte per second."""


class CrossRackWrites(msgspec.Struct, frozen=True):
    """What is written across racks of the topics that groups read; costs are per month.

    crossing_bytes_per_second, cost
        What producers write to leaders in other racks now.
    rack_aware_cost
        The same with a rack-aware partitioner in every producer: another rack gets what the leaders
        in the producer's do not get, because there are none, or few (``max_share``).
    replication_cost
        What followers copy.
    """

    crossing: float = msgspec.field(default=0.0, name="crossing_bytes_per_second")
    cost: float = msgspec.field(default=0.0, name="cost_per_month")
    rack_aware_cost: float = msgspec.field(default=0.0, name="rack_aware_cost_per_month")
    replication_cost: float = msgspec.field(default=0.0, name="replication_cost_per_month")


def cross_rack_writes(
    view: ClusterView, rates: Rates, prices: PriceTable, cluster: str, writers: Writers
) -> CrossRackWrites:
    """Return what is written at ``rates``, with the leaders of ``view``."""
    racks = {broker: parse_rack(rack) for broker, rack in view.racks().items()}
    assumed = {racks.get(broker) for row in view.replicas.values() for broker in row} - {None}
    shares: dict[str, dict[RackPath | None, float]] = {
        topic: {parse_rack(rack): share for rack, share in row.items()}
        for topic, row in writers.shares.items()
    }
    others = shares.get(ALL_TOPICS, {rack: 1 / len(assumed) for rack in assumed})

    @cache
    def price(source: RackPath | None, target: RackPath | None, kind: str) -> float:
        return prices.price(cluster, _name(source), _name(target), kind) or 0.0

    leaders: dict[str, dict[int, RackPath | None]] = {}
    written: dict[str, dict[RackPath | None, float]] = {}
    copied = 0.0
    for tp, leader in view.known_leaders.items():
        rate, rack = rates.get(tp, 0.0), racks.get(leader)
        leaders.setdefault(tp.topic, {})[tp.partition] = rack
        of_topic = written.setdefault(tp.topic, {})
        of_topic[rack] = of_topic.get(rack, 0.0) + rate
        for follower in view.replicas.get(tp, ()):
            if follower != leader:
                copied += rate * price(rack, racks.get(follower), "replicate")
    crossing = cost = rack_aware = 0.0
    for topic, by_rack in written.items():
        names = {partition: _name(rack) for partition, rack in leaders[topic].items()}
        for writer, part in shares.get(topic, others).items():
            for rack, rate in by_rack.items():
                crossing += part * rate if rack not in (None, writer) else 0.0
                cost += part * rate * price(writer, rack, "produce")
            assert writer is not None
            for group, share in nearest_groups(writer, names, DEFAULT_MAX_SHARE):
                each = sum(by_rack.values()) * part * share / len(group)
                for partition in group:
                    rack_aware += each * price(writer, leaders[topic][partition], "produce")
    costs = (round(each * GB_A_MONTH, 4) for each in (cost, rack_aware, copied))
    return CrossRackWrites(round(crossing, 3), *costs)


def _name(rack: RackPath | None) -> str | None:
    return None if rack is None else "/".join(("", *rack))
