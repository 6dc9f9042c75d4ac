"""What it takes to follow 500 groups and 10,000 partitions with leaders.

    python -m benchmarks.following [--cluster] [--groups 500 --partitions 10000]

Prints the seconds of CPU of a decision at rest, and of one after a group has got new members. With
``--cluster``, a controller follows as many groups on six brokers, one member with 20 partitions
each: CPU at rest, memory, and the time between two decisions. The partitions have one replica each,
so no leader moves; a change is decided on after the settle time and the time between two decisions.
"""

from __future__ import annotations

import argparse
import random
import resource
import threading
import time
from contextlib import ExitStack
from dataclasses import replace

from kafka import KafkaAdminClient
from kafka.protocol.consumer.group import SyncGroupRequest

from benchmarks.requests_per_pass import TIMEOUT, create_topics
from placement_core import Broker, ClusterView, TopicPartition
from placement_core.locators import MetadataLocator
from placement_core.placers import RackAlternatingPlacer
from rackward.controller.app import Controller, Plugins
from rackward.controller.config import ControllerConfig, FollowConfig
from rackward.controller.leader_decision import History, Observation, decide
from rackward.groups.reading import ReadRates
from rackward.groups.rebalance import find_coordinator
from rackward.kafka import AdminConnection, ClusterState, connect
from rackward.kafka.groups import join_request
from rackward.testing import LocalCluster
from tests.support.kafka_python import assignment_bytes, subscription_bytes

PER_TOPIC = 100
BROKERS = 12
CONFIG = FollowConfig(("*",))
REST_SECONDS = 60.0


def decisions(groups: int, partitions: int) -> None:
    """Print the CPU of decisions on random groups, three of which read each partition."""
    read = partitions // groups * 3
    rng = random.Random(1)
    tps = [TopicPartition(f"t{n // PER_TOPIC}", n % PER_TOPIC) for n in range(partitions)]
    rows = {tp: tuple((n + k) % BROKERS for k in range(3)) for n, tp in enumerate(tps)}
    view = ClusterView(
        tuple(Broker(n, "abc"[n % 3]) for n in range(BROKERS)),
        rows,
        {tp: row[0] for tp, row in rows.items()},
    )
    state = ClusterState("cluster", view, in_sync=rows)
    owners = {
        f"g{group}": {
            tps[(group * read // 3 + n) % partitions]: (rng.choice("abc"),) for n in range(read)
        }
        for group in range(groups)
    }
    rates = ReadRates({tp: rng.uniform(1e3, 1e6) for tp in tps})
    now = Observation(0.0, state, owners, rates)
    history = History().observed(now, CONFIG)
    for what in ("all leaders", "at rest", "one group changes"):
        if what == "one group changes":
            owners = {**owners, "g7": dict.fromkeys(owners["g7"], ("c",))}
            now = replace(now, owners=owners)
            history = history.observed(now, CONFIG)
        now = replace(now, at=now.at + 3600.0)
        cpu = time.process_time()
        history = history.observed(now, CONFIG)
        decision = decide(now, history, replace(CONFIG, elections_per_hour=partitions))
        seconds = time.process_time() - cpu
        print(
            f"{what}: cpu_seconds={seconds:.3f} moves={len(decision.moves)} "
            f"local={decision.local / decision.total:.1%} best={decision.best / decision.total:.1%}"
        )
        moved = {move.partition: move.after for move in decision.moves}
        rows = {**rows, **moved}
        view = replace(view, replicas=rows, leaders={tp: row[0] for tp, row in rows.items()})
        now = replace(now, cluster=replace(state, view=view))
        history = history.after(decision, now.at)


def join(admin: AdminConnection, group: str, topic: str, owned: range, rack: str) -> None:
    """Add a member with a session of half an hour, which owns these partitions."""
    coordinator = find_coordinator(admin, group)
    member, joined = "", None
    while joined is None or joined.error_code:
        request = join_request(
            group,
            member,
            [("range", subscription_bytes([topic], rack=rack))],
            session_seconds=1800.0,
            rebalance_seconds=60.0,
            reason="",
        )
        joined = admin.send("joining", request, node=coordinator)
        member = joined.member_id
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=member,
        group_instance_id=None,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            SyncGroupRequest.SyncGroupRequestAssignment(
                member_id=member, assignment=assignment_bytes({topic: owned})
            )
        ],
    )
    response = admin.send("syncing", request, node=coordinator)
    assert not response.error_code, response


def follow(groups: int, partitions: int) -> None:
    """Print what a controller takes that follows all groups of a cluster."""
    with LocalCluster() as cluster, ExitStack() as stack:
        servers = cluster.bootstrap_servers.split(",")
        client = KafkaAdminClient(bootstrap_servers=servers, request_timeout_ms=int(TIMEOUT * 1000))
        stack.callback(client.close)
        topics = create_topics(client, partitions)
        properties: dict[str, object] = {"bootstrap.servers": cluster.bootstrap_servers}
        admin = stack.enter_context(connect(properties, timeout=TIMEOUT))
        per_topic, owned = groups // len(topics), partitions // groups
        for group in range(groups):
            topic, first = topics[group // per_topic], group % per_topic * owned
            join(admin, f"g{group}", topic, range(first, first + owned), "abc"[group % 3])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        plugins = Plugins(RackAlternatingPlacer, MetadataLocator())
        config = ControllerConfig(properties, leaders=CONFIG)
        running = Controller(config, plugins, TIMEOUT)
        threading.Thread(target=running.run, daemon=True).start()

        def decided() -> int:
            return ((status := running.metrics().leaders) and status.decisions) or 0

        deadline = time.monotonic() + TIMEOUT
        while decided() < 3:
            assert time.monotonic() < deadline, "the controller does not decide in time"
            time.sleep(0.5)
        count, cpu, began = decided(), time.process_time(), time.monotonic()
        time.sleep(REST_SECONDS)
        while decided() == count:
            time.sleep(0.1)
        seconds = time.monotonic() - began
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(
            f"controller: cpu={(time.process_time() - cpu) / seconds:.1%} of a core, "
            f"memory=+{memory // 1024} MB, seconds_between_decisions="
            f"{seconds / (decided() - count):.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--partitions", type=int, default=10_000)
    arguments = parser.parse_args()
    run = follow if arguments.cluster else decisions
    run(arguments.groups, arguments.partitions)


if __name__ == "__main__":
    main()
