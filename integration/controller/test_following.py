"""Leaders that follow groups of the new protocol and classic ones, whose members come and go.

Locality is counted without the controller: from the partitions that members own in their clients,
and the leaders that brokers return.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from integration.support.collecting import librdkafka, new_protocol
from integration.support.controllers import (
    READY_SECONDS,
    TAKE_OVER_SECONDS,
    Step,
    followed,
    observed_changes,
)
from integration.support.groups import ConsumerGroup, everything_is_read
from integration.support.racks import wait_for_leaders
from integration.support.topics import (
    SteadyProducer,
    create_topic,
    create_topics,
    delete_topic,
    with_admin,
)
from placement_core import TopicPartition
from placement_core.leaders import CurrentAssignment, plan_leaders
from placement_core.locators import MetadataLocator
from placement_core.placers import RackAlternatingPlacer
from rackward.controller.app import Controller, Plugins
from rackward.controller.config import ControllerConfig, FollowConfig
from rackward.testing import Cluster, LocalCluster
from rackward.testing.pytest_plugin import UniqueName
from rackward.topics.pending_replicas import PENDING_REPLICAS_TOPIC
from tests.support.waiting import TEST_TIMEOUT, wait_until

pytestmark = pytest.mark.new_protocol

PARTITIONS = 12
SIZES = {"small": 100, "shared": 2000, "large": 1000}
"""Topic to the bytes of a record; each partition gets as many records."""
EVERY = 0.2
"""Seconds between two records of a partition."""
MAX_EXCESS = 0.05
"""Of all bytes, those that cross racks beyond the optimum."""
ELECTION_SECONDS = 8.0
CHURN_SECONDS, CHANGE_SECONDS = 120.0, 20.0
BOUND = 400
"""Elections per hour."""


@dataclass
class Followed:
    """A group of the new protocol, and a classic one; both read the topic ``shared``."""

    cluster: Cluster
    topics: Mapping[str, str]
    groups: list[ConsumerGroup] = field(default_factory=list)
    racks: dict[str, str] = field(default_factory=dict)
    sent: dict[str, SteadyProducer] = field(default_factory=dict)
    rng: random.Random = field(default_factory=lambda: random.Random(5))
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def start(self, group: ConsumerGroup, rack: str) -> None:
        name = f"m{next(self.numbers)}"
        self.racks[name] = rack
        group.start(name, rack)

    def replace_member(self, group: ConsumerGroup) -> None:
        """Stop a member; another one joins in another rack."""
        name = self.rng.choice(sorted(group.members))
        group.stop(name)
        self.start(group, self.rng.choice(sorted({"a", "b", "c"} - {self.racks[name]})))

    def settle(self) -> None:
        for group, read in zip(
            self.groups, (("small", "shared"), ("shared", "large")), strict=True
        ):
            topics = [self.topics[each] for each in read]
            group.settle({(topic, n) for topic in topics for n in range(PARTITIONS)}, hold=1.0)

    def locality(self) -> tuple[float, float]:
        """Return the share of bytes that is local, now and at best, which is proved."""
        view = self.cluster.view(self.topics.values())
        size = {self.topics[topic]: float(size) for topic, size in SIZES.items()}
        assignments = []
        for group in self.groups:
            racks = {
                TopicPartition(*tp): self.racks[name]
                for name, member in list(group.members.items())
                for tp in member.owned
            }
            weights = {tp: size[tp.topic] for tp in racks}
            assignments.append(CurrentAssignment(group.id, frozenset(size), racks, weights))
        layout = plan_leaders(view, assignments=assignments)
        assert layout.locality_proved
        total = sum(each.total for each in layout.consumed) or 1.0
        now, best = (
            1 - sum(getattr(each, when) for each in layout.consumed) / total
            for when in ("before", "after")
        )
        return now, best

    @property
    def ids(self) -> list[str]:
        return [group.id for group in self.groups]

    def is_followed(self) -> bool:
        now, best = self.locality()
        return best - now <= MAX_EXCESS

    def elect_preferred(self) -> None:
        """Elect all preferred leaders, as brokers do every few minutes."""
        with_admin(self.cluster, lambda admin: admin.elect_leaders(0, raise_errors=False))


@contextmanager
def two_groups(cluster: Cluster, unique_name: UniqueName) -> Iterator[Followed]:
    topics = {each: unique_name(each) for each in SIZES}
    rng = random.Random(3)
    rows = [rng.sample(range(3), 3) for _ in range(PARTITIONS)]
    create_topics(cluster, dict.fromkeys(topics.values(), rows))
    groups = Followed(cluster, topics)
    with ExitStack() as stack:
        for read, client in (
            (("small", "shared"), new_protocol),
            (("shared", "large"), librdkafka),
        ):
            names = [topics[each] for each in read]
            group = stack.enter_context(ConsumerGroup(cluster, topics=names, client=client))
            groups.groups.append(group)
            for rack in "abc":
                groups.start(group, rack)
        for name, topic in topics.items():
            value = rng.randbytes(SIZES[name])
            groups.sent[topic] = stack.enter_context(
                SteadyProducer(cluster, topic, PARTITIONS, EVERY, value)
            )
        groups.settle()
        yield groups
        for topic, sent in groups.sent.items():
            sent.stop()
            for group in groups.groups:
                if topic in group._topics:
                    everything_is_read(group.reads_of, topic, sent)
    for topic in topics.values():
        delete_topic(cluster, topic)


def test_leaders_follow_their_readers(
    three_brokers: Cluster, unique_name: UniqueName, tmp_path: Path
) -> None:
    """Also after members have changed, and whenever preferred leaders are elected."""
    with (
        two_groups(three_brokers, unique_name) as groups,
        followed(
            groups, tmp_path, settle="2s", rest="5s", bound=BOUND, within=READY_SECONDS
        ) as running,
    ):
        for group in groups.groups:
            groups.replace_member(group)
            groups.elect_preferred()
        groups.settle()
        wait_until(groups.is_followed, TEST_TIMEOUT, "leaders follow the new members")
        groups.elect_preferred()
        assert groups.is_followed()
        wait_until(
            lambda: running.metric('leaders_waiting{reason="local"}') == 1,
            TEST_TIMEOUT,
            "no move pays",
        )
        assert running.metric("leader_local_bytes_per_second") > 0
        elections = running.metric("leader_elections_last_hour")
        assert 0 < elections <= BOUND
        running.stop()
        with followed(
            groups, tmp_path, settle="30s", rest="5s", bound=BOUND, within=READY_SECONDS
        ) as successor:
            wait_until(
                lambda: f"leader_elections_last_hour {elections}\n" in successor.metrics(),
                TAKE_OVER_SECONDS,
                "the elections of the former controller count",
            )
    delete_topic(three_brokers, PENDING_REPLICAS_TOPIC)


class StopControllerError(Exception):
    """Raised by the clock to end the controller."""


@pytest.mark.slow
def test_long_moves_do_not_lose_the_lease(
    three_brokers: Cluster, unique_name: UniqueName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An election takes longer than a consumer may work between two polls."""
    monkeypatch.setattr("rackward.controller.lease.MAX_POLL_INTERVAL_MS", 5_000)
    elections: list[Step] = []

    def delay_election(step: Step, operation: str) -> None:
        if operation == "electing preferred leaders":
            elections.append(step)
            if len(elections) == 1:
                time.sleep(ELECTION_SECONDS)

    running: list[Controller] = []

    def clock() -> float:
        now = time.monotonic()
        assert now < deadline, "no leaders were moved"
        status = running[0].metrics().leaders if running else None
        if status and status.layouts and status.decision and not status.decision.moves:
            raise StopControllerError
        return now

    topic = create_topic(three_brokers, unique_name("due"), [[0, 1], [1, 0], [2, 1]])
    with (
        ConsumerGroup(three_brokers, topics=[topic]) as group,
        SteadyProducer(three_brokers, topic, 3),
    ):
        group.start("b1", "b")
        group.settle({(topic, number) for number in range(3)})
        config = ControllerConfig(
            {"bootstrap.servers": three_brokers.bootstrap_servers},
            leaders=FollowConfig((group.id,), min_rate=1.0, settle=1.0, max_imbalance=2.0),
        )
        plugins = Plugins(RackAlternatingPlacer, MetadataLocator())
        deadline = time.monotonic() + TEST_TIMEOUT
        running.append(Controller(config, plugins, 20.0, clock))
        with observed_changes(delay_election), pytest.raises(StopControllerError):
            running[0].run()
    assert elections[:3] == [Step.PLANNED, Step.CONFIRMED, Step.DONE], "the lease was lost"
    wait_for_leaders(three_brokers, topic, {"b": 3})
    delete_topic(three_brokers, topic)
    delete_topic(three_brokers, PENDING_REPLICAS_TOPIC)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_leaders_follow_while_members_change(unique_name: UniqueName, tmp_path: Path) -> None:
    """Prints the mean locality. Brokers elect preferred leaders every five seconds, also after one
    has been away."""
    properties = {
        "auto.leader.rebalance.enable": "true",
        "leader.imbalance.check.interval.seconds": "5",
        "leader.imbalance.per.broker.percentage": "0",
    }
    with (
        LocalCluster(("a", "b", "c"), server_properties=properties) as cluster,
        two_groups(cluster, unique_name) as groups,
        followed(
            groups, tmp_path, settle="4s", rest="15s", bound=BOUND, within=READY_SECONDS
        ) as running,
    ):
        shares: list[tuple[float, float]] = []
        began, changes = time.monotonic(), 0
        while (seconds := time.monotonic() - began) < CHURN_SECONDS:
            if seconds >= CHANGE_SECONDS * changes:
                groups.replace_member(groups.groups[changes % 2])
                changes += 1
            shares.append(groups.locality())
            time.sleep(0.5)
        mean, mean_best = (sum(each) / len(shares) for each in zip(*shares, strict=True))
        groups.settle()
        wait_until(groups.is_followed, TEST_TIMEOUT, "leaders are where they are read at rest")
        at_rest, best = groups.locality()
        cluster.stop_broker(2)
        wait_until(
            lambda: running.metric('leaders_waiting{reason="broker-away"}') == 1,
            TEST_TIMEOUT,
            "leaders wait for the broker",
        )
        elections = running.metric("leader_elections_last_hour")
        cluster.start_broker(2)
        wait_until(groups.is_followed, TEST_TIMEOUT, "leaders are where they were")
        print(
            f"mean local {mean:.1%}, best {mean_best:.1%}; at rest {at_rest:.1%}, best {best:.1%}; "
            f"{changes} changes of members, {elections:.0f} elections"
        )
        assert mean > 0.8 * mean_best
        assert elections <= BOUND
