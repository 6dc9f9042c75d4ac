"""Requests and seconds of ``traffic collect``, an audit and the controller on a big cluster.

    python -m benchmarks.requests_per_pass [--partitions 10000] [--groups 500] [--members 4]

Starts six brokers in three racks with topics of 100 partitions, one replica each, and groups that
have committed offsets of one topic each; one group has members. Then it takes three snapshots,
counted by the collector, audits the groups, and lets a controller run for 20 s; the requests of
these two are counted where kafka-python sends them, by their names.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import NewTopic
from kafka.net.manager import KafkaConnectionManager
from kafka.structs import OffsetAndMetadata

from placement_core.locators import MetadataLocator
from placement_core.placers import RackAlternatingPlacer
from rack_traffic.prices import PriceTable
from rackward.collector import ClusterSource, Snapshot
from rackward.collector.collector import Worker
from rackward.controller.app import Controller, Plugins
from rackward.controller.config import ControllerConfig
from rackward.groups.audit import audit_reading
from rackward.groups.host_racks import HostRacks
from rackward.groups.reading import read_cluster, read_rates, with_min_isr
from rackward.kafka import connect
from rackward.testing import LocalCluster

PARTITIONS_PER_TOPIC = 100
TOPICS_PER_REQUEST = 10
PASSES = 3
CONTROLLER_SECONDS = 20.0
TIMEOUT = 300.0


class Discard:
    """A sink that keeps nothing."""

    def last(self, _: str) -> float | None:
        return None

    def write(self, _: Snapshot) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count the requests that any client of this process sends, by name."""
    requests = Counter[str]()
    send = KafkaConnectionManager.send

    @wraps(send)
    def count(self: Any, request: Any, *arguments: Any, **options: Any) -> Any:
        requests[type(request).__name__.removesuffix("Request").partition("_")[0]] += 1
        return send(self, request, *arguments, **options)

    KafkaConnectionManager.send = count
    try:
        yield requests
    finally:
        KafkaConnectionManager.send = send


def create_topics(admin: KafkaAdminClient, partitions: int) -> list[str]:
    """Create topics with so many partitions in total; return their names."""
    topics = [f"t{number}" for number in range(partitions // PARTITIONS_PER_TOPIC)]
    for start in range(0, len(topics), TOPICS_PER_REQUEST):
        admin.create_topics(
            [
                NewTopic(name, PARTITIONS_PER_TOPIC, 1)
                for name in topics[start : start + TOPICS_PER_REQUEST]
            ]
        )
    return topics


@contextmanager
def reading(servers: list[str], topic: str, members: int) -> Iterator[None]:
    """Have a group with members that own the partitions of ``topic`` within the context."""
    with ExitStack() as stack:
        consumers = [
            KafkaConsumer(topic, bootstrap_servers=servers, group_id="with-members")
            for _ in range(members)
        ]
        for each in consumers:
            stack.callback(each.close)
        deadline = time.monotonic() + TIMEOUT
        while not all(each.assignment() for each in consumers):
            assert time.monotonic() < deadline, "the members are not assigned in time"
            for each in consumers:
                each.poll(100)
        yield


def commit(admin: KafkaAdminClient, topics: list[str], groups: int) -> None:
    """Commit offsets of a topic for each group."""
    for number in range(groups):
        topic = topics[number % len(topics)]
        admin.alter_group_offsets(
            f"g{number}",
            {
                TopicPartition(topic, partition): OffsetAndMetadata(0, "", -1)
                for partition in range(PARTITIONS_PER_TOPIC)
            },
        )


def collect(properties: dict[str, object]) -> None:
    """Take snapshots, and print what each took."""
    worker = Worker(
        ClusterSource("big", properties),
        Discard(),
        lambda source: connect(source.properties, timeout=TIMEOUT),
        time.time,
        time.sleep,
    )
    try:
        for _ in range(PASSES):
            before, started, cpu = worker.result.requests, time.perf_counter(), time.process_time()
            worker.result.rows.clear()
            assert worker.run_once(), worker.result.error
            rows = " ".join(f"{table}={count}" for table, count in worker.result.rows.items())
            print(
                f"traffic collect: requests={worker.result.requests - before} "
                f"seconds={time.perf_counter() - started:.1f} "
                f"cpu_seconds={time.process_time() - cpu:.1f} {rows}",
                flush=True,
            )
    finally:
        worker.close()


def audit(properties: dict[str, object]) -> None:
    """Audit all groups, and print the requests and the time that reading took, and the rest."""
    with counted() as requests, connect(properties, timeout=TIMEOUT) as admin:
        requests.clear()
        started, cpu = time.perf_counter(), time.process_time()
        reading = with_min_isr(admin, read_cluster(admin, ["*"], lambda _: None))
        rates, _ = read_rates(admin, reading, lambda _: None)
        seconds, read_cpu = time.perf_counter() - started, time.process_time() - cpu
    cpu = time.process_time()
    report = audit_reading(reading, rates, PriceTable(), HostRacks())
    by_name = " ".join(f"{name}={count}" for name, count in requests.most_common())
    print(
        f"audit: groups={len(report.groups)} partitions={report.partitions} "
        f"requests={requests.total()} ({by_name}) seconds={seconds:.1f} "
        f"cpu_seconds={read_cpu:.1f} cpu_seconds_of_computation={time.process_time() - cpu:.1f}",
        flush=True,
    )


def control(properties: dict[str, object]) -> None:
    """Run a controller without pending replicas, and print its requests per pass."""
    running = Controller(
        ControllerConfig(properties), Plugins(RackAlternatingPlacer, MetadataLocator()), TIMEOUT
    )
    thread = threading.Thread(target=running.run, daemon=True)
    with counted() as requests:
        thread.start()
        deadline = time.monotonic() + TIMEOUT
        while not running.metrics().status.active:
            assert time.monotonic() < deadline, "the controller is not active in time"
            time.sleep(0.1)
        requests.clear()
        passes, cpu = running.metrics().passes, time.process_time()
        time.sleep(CONTROLLER_SECONDS)
        passes = running.metrics().passes - passes
        cpu = time.process_time() - cpu
    by_name = " ".join(f"{name}={count / passes:.1f}" for name, count in requests.most_common())
    print(
        f"controller: passes={passes} seconds={CONTROLLER_SECONDS / passes:.1f} "
        f"cpu_seconds={cpu / passes:.3f} requests={requests.total() / passes:.1f} ({by_name})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--members", type=int, default=4)
    options = parser.parse_args()
    with LocalCluster() as cluster, ExitStack() as stack:
        servers = cluster.bootstrap_servers.split(",")
        admin = KafkaAdminClient(bootstrap_servers=servers, request_timeout_ms=int(TIMEOUT * 1000))
        stack.callback(admin.close)
        topics = create_topics(admin, options.partitions)
        properties: dict[str, object] = {"bootstrap.servers": cluster.bootstrap_servers}
        with reading(servers, topics[0], options.members):
            commit(admin, topics, options.groups)
            collect(properties)
            audit(properties)
        control(properties)


if __name__ == "__main__":
    main()
