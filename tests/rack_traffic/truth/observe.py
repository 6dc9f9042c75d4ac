"""The snapshots that a collector takes of a world, with the faults on the way."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from tests.rack_traffic.truth.faults import Fault
from tests.rack_traffic.truth.layout import STEP, STEPS_PER_HOUR, Cluster
from tests.rack_traffic.truth.logs import HISTORY, Log
from tests.rack_traffic.truth.readers import Reading
from tests.rack_traffic.truth.simulate import World

BEGIN = datetime(2026, 3, 2, 10, tzinfo=UTC)
"""When the first hour begins."""

Rows = dict[str, list[dict[str, Any]]]


def observe(world: World, every: int = 20) -> Rows:
    """Table to rows, from 20 minutes before the first hour to ten after the last one.

    Every pass begins ``every`` seconds after the one before, give or take a step.
    """
    rng = np.random.default_rng([world.seed, 2])
    faults = world.faults
    passes = range(HISTORY - STEPS_PER_HOUR // 3, world.steps, every // STEP)
    gap = range(HISTORY + int(0.92 * STEPS_PER_HOUR), HISTORY + int(1.12 * STEPS_PER_HOUR))
    rows: Rows = {"brokers": [], "partitions": [], "members": [], "commits": []}
    for number, planned in enumerate(passes):
        step = min(max(planned + int(rng.integers(-1, 2)), 0), world.steps - 1)
        if Fault.GAP in faults and step in gap:
            continue
        for cluster in world.clusters:
            # A pass over one cluster takes a while: what it reads is not of one instant.
            at = BEGIN + timedelta(seconds=(step + 1 - HISTORY) * STEP)
            rows["brokers"] += _brokers(cluster, at)
            flaky = Fault.FLAKY in faults
            if not (flaky and rng.random() < 0.1):
                for topic in cluster.topics:
                    rows["partitions"] += _partitions(
                        cluster, world.logs[cluster.name, topic.name], step, at
                    )
            for owner, reading in world.readings:
                if owner is not cluster:
                    continue
                unsettled = Fault.REBALANCING in faults and number % 7 == 3
                rows["members"] += _members(cluster, reading, step, at, unsettled)
                if not (flaky and rng.random() < 0.1):
                    rows["commits"] += _commits(cluster, reading, step, at)
    if Fault.DUPLICATES in faults:
        for table in rows.values():
            again = rng.choice(len(table), len(table) // 10, replace=False)
            table += [table[index] for index in again]
    if Fault.LATE in faults:
        for table in rows.values():
            order = rng.permutation(len(table))
            table[:] = [table[index] for index in order]
    return rows


def _brokers(cluster: Cluster, at: datetime) -> list[dict[str, Any]]:
    return [
        {"cluster": cluster.name, "broker": broker, "rack": rack, "host": "h", "taken_at": at}
        for broker, rack in enumerate(cluster.racks)
    ]


def _partitions(cluster: Cluster, log: Log, step: int, at: datetime) -> list[dict[str, Any]]:
    reborn = bool(log.born) and step >= log.born
    return [
        {
            "cluster": cluster.name,
            "topic": log.topic.name,
            "topic_id": f"{log.topic.name}-{int(reborn)}",
            "partition": p,
            "leader": int(log.leader[p, step]),
            "leader_epoch": 0,
            "replicas": list(replicas),
            "isr": list(replicas),
            "start_offset": int(log.start[p, step]),
            "end_offset": int(log.end[p, step]),
            "size_bytes": int(log.size[p, step]),
            "taken_at": at,
        }
        for p, replicas in enumerate(log.topic.replicas)
    ]


def _members(
    cluster: Cluster, reading: Reading, step: int, at: datetime, unsettled: bool
) -> list[dict[str, Any]]:
    group, owner = reading.group, reading.owner[:, step]
    common = {
        "cluster": cluster.name,
        "group": group.name,
        "group_type": "classic",
        "protocol_type": "consumer" if group.racks else "",
        "protocol": "range" if group.racks else "",
        "generation": 1,
        "taken_at": at,
    }
    present: Sequence[int] = sorted({int(index) for index in owner if index >= 0})
    if not present:
        return [common | {"state": "Empty", "member_id": None, "assignment": []}]
    return [
        common
        | {
            "state": "PreparingRebalance" if unsettled else "Stable",
            "member_id": f"{group.name}-{index}",
            "client_id": f"{group.name}-{index}",
            "host": "h",
            "rack": group.racks[index],
            "rack_source": None if group.racks[index] is None else "subscription",
            "topics": [group.topic],
            "assignment": []
            if unsettled
            else [{"topic": group.topic, "partitions": np.flatnonzero(owner == index).tolist()}],
        }
        for index in present
    ]


def _commits(cluster: Cluster, reading: Reading, step: int, at: datetime) -> list[dict[str, Any]]:
    return [
        {
            "cluster": cluster.name,
            "group": reading.group.name,
            "topic": reading.group.topic,
            "partition": p,
            "committed_offset": int(offset),
            "taken_at": at,
        }
        for p, offset in enumerate(reading.position[:, step])
    ]
