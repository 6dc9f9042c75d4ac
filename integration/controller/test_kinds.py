"""Leaders that follow groups of other kinds than plain consumers'."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from integration.controller.kinds import (
    BOUND,
    FIVE,
    FOLLOWED_SECONDS,
    KINDS,
    MAX_EXCESS,
    measure,
    run_groups,
)
from integration.support.controllers import followed
from integration.support.java_programs import has_javac
from integration.support.topics import delete_topic
from rackward.testing import Cluster
from rackward.testing.kafka_jars import default_version
from rackward.topics.pending_replicas import PENDING_REPLICAS_TOPIC
from tests.support.waiting import TEST_TIMEOUT, wait_until

pytestmark = [
    pytest.mark.skipif(
        tuple(map(int, default_version().split(".")[:2])) < (4, 2),
        reason="share groups and streams groups are on by default from Kafka 4.2 on",
    ),
    pytest.mark.skipif(not has_javac(), reason="needs javac"),
]

CHURN_SECONDS = 600.0


def test_leaders_follow_a_share_group_and_kafka_streams(
    three_brokers: Cluster, tmp_path: Path
) -> None:
    kinds = ("share", "streams-kip-1071")
    with (
        run_groups(three_brokers, kinds, one_topic=False) as groups,
        followed(
            groups, tmp_path, settle="2s", rest="5s", bound=BOUND, within=FOLLOWED_SECONDS
        ) as running,
    ):
        groups.groups[0].replace_member(random.Random(1))
        wait_until(
            lambda: groups.is_followed() and running.metric('leaders_waiting{reason="local"}') == 1,
            TEST_TIMEOUT,
            "leaders follow the new member",
        )
        for topic, producer in groups.sent.items():
            producer.stop()
            (group,) = (each for each in groups.groups if each.topic == topic)
            assert group.lost(producer) == 0
    delete_topic(three_brokers, PENDING_REPLICAS_TOPIC)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("one_topic", [False, True])
def test_leaders_follow_every_kind_while_members_change(one_topic: bool) -> None:
    """Prints the figures with and without a controller."""
    kinds = FIVE if one_topic else KINDS
    report = measure(kinds, CHURN_SECONDS, one_topic=one_topic)
    print(report)
    without = measure(kinds, CHURN_SECONDS, one_topic=one_topic, follow=False)
    print(f"without a controller:\n{without}")
    assert report.best_local - report.counted_local <= MAX_EXCESS
    for group, before in zip(report.groups, without.groups, strict=True):
        if not one_topic:
            assert group.best_at_rest - group.local_at_rest <= MAX_EXCESS, group
        assert group.lost <= before.lost, group
    assert report.elections is not None
    assert report.elections <= report.bound
