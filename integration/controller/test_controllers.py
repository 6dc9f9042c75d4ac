"""Controllers that are killed or suspended; a deleted topic; a cluster without responses."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from integration.support.controllers import (
    TAKE_OVER_SECONDS,
    RunningController,
    Step,
    assigned_replicas,
    cluster_state,
    create_under_replicated,
    pending_keys,
    signalled_controller,
    stop_brokers,
    wait_for_active,
    wait_for_replicas,
    wait_until_complete,
)
from integration.support.topics import delete_topic, throttle_settings
from placement_core import TopicPartition
from rackward.controller.lease import WRITING_RECORDS
from rackward.testing import Cluster
from rackward.testing.pytest_plugin import UniqueName
from rackward.topics.pending_replicas import PENDING_REPLICAS_TOPIC
from tests.support.waiting import TEST_TIMEOUT, wait_until

PAUSE_SECONDS = 60.0


REASSIGNING = "reassigning partitions"
STEPS = (
    (Step.PLANNED, WRITING_RECORDS),
    (Step.DONE, WRITING_RECORDS),
    (Step.CONFIRMED, REASSIGNING),
    (Step.DONE, REASSIGNING),
)


def test_a_controller_killed_at_each_step(
    cluster: Cluster, unique_name: UniqueName, tmp_path: Path
) -> None:
    topic = unique_name("killed")
    stop_brokers(cluster, 2)
    create_under_replicated(cluster, topic)
    cluster.start_broker(2)
    for step in STEPS:
        ended = subprocess.run(
            signalled_controller(cluster, "none", "SIGKILL", step),
            check=False,
            capture_output=True,
            text=True,
            timeout=TAKE_OVER_SECONDS,
        )
        assert ended.returncode == -9, f"not killed at {step}: {ended.stderr}"
    assert throttle_settings(cluster) != {}, (
        "the controller that was killed last had set a throttle"
    )
    with RunningController(cluster, tmp_path) as last:
        wait_for_replicas(cluster, topic, within=TAKE_OVER_SECONDS)
        wait_until_complete(cluster)
        assert "record deleted" not in last.log
    assigned = {tp: rows for tp, rows in assigned_replicas(cluster).items() if tp.topic == topic}
    assert assigned.keys() == {TopicPartition(topic, number) for number in range(4)}
    assert all(len(rows) == 1 for rows in assigned.values()), f"assigned twice: {assigned}"


@pytest.mark.slow
def test_two_controllers_restore_a_deleted_topic(
    cluster: Cluster, unique_name: UniqueName, tmp_path: Path
) -> None:
    topic = unique_name("two")
    with (
        RunningController(cluster, tmp_path, "one") as one,
        RunningController(cluster, tmp_path, "other") as two,
    ):
        wait_for_active(one, two)
        stop_brokers(cluster, 2)
        create_under_replicated(cluster, topic)
        assert len(pending_keys(cluster, topic)) == 1
        before = cluster_state(cluster).topic_ids[PENDING_REPLICAS_TOPIC]

        def has_records(controller: RunningController) -> bool:
            return bool(controller.health()[1]["pending_records"] > 0)

        # On a busy machine the lease may have moved, and the status is that of the last pass.
        wait_until(
            lambda: has_records(one) != has_records(two),
            TAKE_OVER_SECONDS,
            "one controller has read the record",
        )
        delete_topic(cluster, PENDING_REPLICAS_TOPIC)
        wait_until(
            lambda: cluster_state(cluster).topic_ids.get(PENDING_REPLICAS_TOPIC, before) != before,
            TAKE_OVER_SECONDS,
            "the topic of pending replicas exists again",
        )
        wait_until(
            lambda: len(pending_keys(cluster, topic)) == 1,
            TAKE_OVER_SECONDS,
            "the record exists again",
        )
        assert f"topic {PENDING_REPLICAS_TOPIC} was deleted" in one.log + two.log

        active = wait_for_active(one, two)
        active.kill()
        cluster.start_broker(2)
        other = two if active is one else one
        wait_for_replicas(cluster, topic, PENDING_REPLICAS_TOPIC, within=TAKE_OVER_SECONDS)
        wait_until(other.is_active, TEST_TIMEOUT, "the other controller is active")
        wait_until_complete(cluster)
        assert other.stop() == 130
    rows = assigned_replicas(cluster)[TopicPartition(topic, 0)]
    assert len(rows) == 1


@pytest.mark.slow
def test_a_cluster_that_does_not_respond_for_a_minute(
    cluster: Cluster, unique_name: UniqueName, tmp_path: Path
) -> None:
    topic = unique_name("away")
    with RunningController(cluster, tmp_path) as running:
        wait_for_active(running)
        stop_brokers(cluster, 2)
        create_under_replicated(cluster, topic)
        for broker in (0, 1):
            cluster.pause_broker(broker)
        time.sleep(PAUSE_SECONDS)
        for broker in (0, 1):
            cluster.resume_broker(broker)
        cluster.start_broker(2)
        wait_for_replicas(cluster, topic, within=TAKE_OVER_SECONDS)
        assert running.process.poll() is None
        wait_until(
            lambda: running.health()[0] == 200, TEST_TIMEOUT, "the controller is ready again"
        )
        assert running.stop() == 130
