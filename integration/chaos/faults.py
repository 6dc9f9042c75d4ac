"""Executes the steps of a scenario on a cluster and on all groups at once."""

from __future__ import annotations

import math
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

import confluent_kafka

from integration.chaos.checkers import Sent
from integration.chaos.effects import broker_version, check_leaders, check_silent, require
from integration.chaos.network import Network
from integration.chaos.scenarios import BUSIEST, COORDINATOR, LAST, Action, Step
from integration.chaos.workload import RACKS, FaultyGroup, NumberedProducer, sent_records
from integration.support.offsets_topic import TOPIC as OFFSETS_TOPIC
from integration.support.topics import coordinator_of, create_topic, delete_topic, with_admin
from rackward.testing import Cluster, DockerCluster, LocalCluster
from rackward.testing.kafka_jars import KAFKA_VERSION
from tests.support.waiting import TEST_TIMEOUT, wait_until

RECORD_SECONDS = 1.0
"""Seconds between two records of a partition."""

IN_SYNC_SECONDS = 300.0
"""Far more than replicas of a busy machine take to catch up."""

SLOW_RATE = "200kbit"

TOPIC_CONFIGS = {"min_insync_replicas": "2"}


@dataclass
class Stage:
    """A cluster, its topic, the producer and the groups; what was sent to topics now deleted."""

    cluster: Cluster
    topic: str
    replicas: list[list[int]]
    groups: Sequence[FaultyGroup]
    random: Random
    producer: NumberedProducer
    report: Callable[[str], None]
    earlier: list[Sent] = field(default_factory=list)
    _last: int = -1
    _controller: int = -1

    def close(self) -> None:
        """End the producer."""
        self.producer.discard()

    def execute(self, steps: Sequence[Step], seconds: float = math.inf) -> None:
        """Execute the steps at their times; if one is late, those after it are as late.

        After ``seconds``, stop when all replicas are in sync, that is, between two random faults.
        Raise AssertionError if one is not possible, or does not take effect.
        """
        began = time.monotonic()
        end = began + seconds
        for step in steps:
            early = began + step.at - time.monotonic()
            if early > 0:
                time.sleep(early)
            elif step.at:
                began -= early
            for group in self.groups:
                group.group.raise_errors()
            resolved = self._resolved(step)
            self.report(str(resolved))
            self._act(resolved)
            if step.action is Action.AWAIT_REPLICAS and time.monotonic() > end:
                return

    def _act(self, step: Step) -> None:
        target = -1 if step.target == "" else int(step.target)
        match step.action:
            case Action.KILL_BROKER:
                self.cluster.kill_broker(target)
            case Action.STOP_BROKER:
                self.cluster.stop_broker(target)
            case Action.PAUSE_BROKER:
                self.cluster.pause_broker(target)
            case Action.RESUME_BROKER:
                self.cluster.resume_broker(target)
            case Action.START_BROKER:
                self.cluster.start_broker(target)
            case Action.AWAIT_REPLICAS:
                self.await_replicas()
            case Action.RENAME_RACK:
                self._rename_rack(target)
            case Action.KILL_CONTROLLER:
                self._controller = self._local.active_controller()
                self._local.kill_controller(self._controller)
                wait_until(
                    lambda: self._local.active_controller() not in (-1, self._controller),
                    TEST_TIMEOUT,
                    f"the fault takes effect: a controller other than {self._controller} is active",
                )
            case Action.START_CONTROLLER:
                self._local.start_controller(self._controller)
            case Action.UPGRADE_BROKER:
                self._upgrade_broker(target)
            case Action.UPGRADE_CONTROLLER:
                (controller,) = self._local.controllers
                self._local.kill_controller(controller)
                self._local.start_controller(controller, KAFKA_VERSION)
            case Action.ISOLATE_BROKER:
                self._network.isolate(target)
            case Action.CUT_BROKERS:
                first, second = set(self.cluster.racks) - {step.target}
                self._network.cut(first, [second])
            case Action.CUT_CLIENTS:
                self._network.cut_clients(RACKS[0], target)
            case Action.LOSE_PACKETS:
                self._network.lose_packets(target, 0.1)
            case Action.SLOW_BROKER:
                self._network.slow_down(target, SLOW_RATE)
            case Action.HEAL_NETWORK:
                self.report(", ".join(self._network.heal()))
            case Action.FILL_DISK:
                self._network.fill_disk(target)
            case Action.MOVE_LEADERS:
                self._move_leaders()
            case Action.DELETE_TOPIC:
                self._delete_topic()
            case Action.CREATE_TOPIC:
                create_topic(self.cluster, self.topic, self.replicas, **TOPIC_CONFIGS)
                self.producer = NumberedProducer(
                    self.cluster, self.topic, len(self.replicas), RECORD_SECONDS
                )
            case Action.ADD_PARTITIONS:
                self._add_partitions(target)
            case _:
                for group in self.groups:
                    _act_on_group(step, group)
        if step.action in (Action.KILL_BROKER, Action.STOP_BROKER, Action.PAUSE_BROKER):
            check_silent(self.cluster, target)

    def _resolved(self, step: Step) -> Step:
        """Return the step with the id of the broker that it describes."""
        if step.target == BUSIEST:
            brokers = list(self.cluster.view([self.topic]).known_leaders.values())
        elif step.target == COORDINATOR:
            brokers = [coordinator_of(self.cluster, group.group.id) for group in self.groups]
        elif step.target == LAST:
            brokers = [self._last]
        else:
            return step
        self._last = Counter(brokers).most_common(1)[0][0]
        return replace(step, target=self._last)

    @property
    def _local(self) -> LocalCluster:
        assert isinstance(self.cluster, LocalCluster), (
            "only the nodes of a LocalCluster can do this"
        )
        return self.cluster

    @property
    def _network(self) -> Network:
        assert isinstance(self.cluster, DockerCluster), "only the network of containers can be cut"
        return Network(self.cluster)

    def _upgrade_broker(self, broker: int) -> None:
        self.cluster.stop_broker(broker)
        self._local.upgrade_broker(broker, KAFKA_VERSION)
        self.cluster.start_broker(broker)
        version = broker_version(self.cluster, broker)
        require(version == KAFKA_VERSION, f"broker {broker} of {version} is of {KAFKA_VERSION}")

    def _rename_rack(self, broker: int) -> None:
        rack = f"{self.cluster.racks[broker]}-renamed"
        self.cluster.stop_broker(broker)
        self._local.change_rack(broker, rack)
        self.cluster.start_broker(broker)
        wait_until(
            lambda: self.cluster.view([]).racks().get(broker) == rack,
            TEST_TIMEOUT,
            f"the fault takes effect: broker {broker} is in rack {rack}",
        )

    def await_replicas(self) -> None:
        """Wait until all replicas of the topic, and of committed offsets, are in sync."""

        client = confluent_kafka.Producer(
            {"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0}
        )

        def in_sync() -> bool:
            try:
                topics = client.list_topics(timeout=10).topics
            except confluent_kafka.KafkaException:
                return False
            return all(
                sorted(each.isrs) == sorted(each.replicas)
                for name in (self.topic, OFFSETS_TOPIC)
                for each in topics[name].partitions.values()
            )

        wait_until(in_sync, IN_SYNC_SECONDS, "all replicas are in sync")

    def _move_leaders(self) -> None:
        view = self.cluster.view([self.topic])
        leaders = {tp: self.random.choice(each) for tp, each in view.replicas.items()}
        self.cluster.move_leaders(leaders)
        check_leaders(self.cluster, self.topic, view.known_leaders, leaders)

    def _delete_topic(self) -> None:
        """Delete the topic when all records are read; wait until the groups own nothing of it.

        Otherwise records of the first topic would be lost with it, and consumers would continue in
        the second one at offsets of the first.
        """
        self.producer.stop()
        for group in self.groups:
            group.read_everything(self.topic, self.producer)
        sent = sent_records(self.cluster, self.topic, self.producer, time.monotonic())
        delete_topic(self.cluster, self.topic)
        for group in self.groups:
            wait_until(
                partial(_owns_nothing, group),
                2 * TEST_TIMEOUT,
                f"{group.client} owns nothing of the deleted topic",
            )
        self.earlier.append(replace(sent, ended=time.monotonic()))

    def _add_partitions(self, count: int) -> None:
        brokers = len(self.cluster.racks)
        for _ in range(count):
            first = len(self.replicas)
            self.replicas.append([(first + each) % brokers for each in range(brokers)])
        change = {"count": len(self.replicas), "assignments": self.replicas[-count:]}
        with_admin(self.cluster, lambda admin: admin.create_partitions({self.topic: change}))
        self.cluster.await_metadata()
        for _ in range(count):
            self.producer.add_partition()


def _owns_nothing(group: FaultyGroup) -> bool:
    group.group.raise_errors()
    return not any(group.owned().values())


def _act_on_group(step: Step, group: FaultyGroup) -> None:
    lead = group.lead
    match step.action:
        case Action.KILL_MEMBER:
            group.kill(int(step.target))
        case Action.START_MEMBER:
            group.start(int(step.target))
        case Action.SUSPEND_MEMBER:
            group.suspend(int(step.target))
        case Action.RESUME_MEMBER:
            group.resume(int(step.target))
        case Action.KILL_LEAD if lead:
            lead.send(signal.SIGKILL)
        case Action.SUSPEND_LEAD if lead:
            lead.send(signal.SIGSTOP)
        case Action.START_LEAD | Action.RESUME_LEAD if lead:
            before = lead.times_leading
            if step.action is Action.START_LEAD:
                lead.start()
            else:
                lead.send(signal.SIGCONT)
            # Until it leads, the group is rebalanced again: its leader is removed.
            lead.wait_until_leading(before)
        case _:
            raise AssertionError(f"{group.client} cannot {step}")
