"""Controllers that are killed, stopped, doubled, and left without a cluster or their topic."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from integration.support.controllers import (
    TAKE_OVER_SECONDS,
    RunningController,
    await_full,
    await_holder,
    await_kept,
    controller,
    create,
    fills,
    intents_left,
    look,
    stop,
)
from integration.support.topics import delete_topic, throttle_settings
from placement_core import TopicPartition
from rackward.clusters import Cluster
from rackward.clusters.pytest_plugin import UniqueName
from rackward.controller.pending_replicas import INTENTS_TOPIC
from rackward.controller.reconciler import Step
from tests.support.waiting import PATIENCE, wait_until

AWAY_SECONDS = 60.0


@pytest.fixture
def cluster(three_brokers: Cluster) -> Cluster:
    """Brokers 0, 1 and 2 in racks a, b and c."""
    return three_brokers


def hit(cluster: Cluster, step: Step, name: str) -> list[str]:
    """The command line of a controller that a signal hits at that step."""
    module = "integration.support.controller_process"
    return [sys.executable, "-m", module, cluster.bootstrap_servers, step.value, name]


def test_a_controller_killed_at_each_step_of_a_fill(
    cluster: Cluster, unique_name: UniqueName, tmp_path: Path
) -> None:
    topic = unique_name("killed")
    stop(cluster, 2)
    create(cluster, topic)
    cluster.start_broker(2)
    for step in Step:
        died = subprocess.run(
            hit(cluster, step, "SIGKILL"),
            check=False,
            capture_output=True,
            text=True,
            timeout=TAKE_OVER_SECONDS,
        )
        assert died.returncode == -9, f"not killed at {step}: {died.stderr}"
    assert throttle_settings(cluster) != {}, "whoever was killed last had throttled"
    with controller(cluster, tmp_path) as last:
        await_full(cluster, topic, within=TAKE_OVER_SECONDS)
        await_kept(cluster)
        assert "forgotten" not in last.log
    decided = {place: rows for place, rows in fills(cluster).items() if place.topic == topic}
    assert decided.keys() == {TopicPartition(topic, number) for number in range(4)}
    assert all(len(rows) == 1 for rows in decided.values()), f"decided on twice: {decided}"


@pytest.mark.slow
def test_one_that_sleeps_while_another_takes_over_asks_for_nothing(
    cluster: Cluster, unique_name: UniqueName, tmp_path: Path
) -> None:
    topic = unique_name("asleep")
    stop(cluster, 2)
    create(cluster, topic)
    cluster.start_broker(2)
    log = tmp_path / "asleep.log"
    with log.open("w") as file:
        asleep = subprocess.Popen(hit(cluster, Step.RECORDED, "SIGSTOP"), stderr=file)
    try:
        wait_until(
            lambda: f"{topic}: 4 partitions get replicas" in log.read_text(),
            TAKE_OVER_SECONDS,
            "it has recorded what it will ask for",
        )
        with controller(cluster, tmp_path) as awake:
            await_full(cluster, topic, within=TAKE_OVER_SECONDS)
            await_kept(cluster)
            # Somebody moves a partition meanwhile, which it must not move back.
            place = TopicPartition(topic, 0)
            row = look(cluster).view.replicas[place]
            cluster.move_leaders({place: row[2]})
            moved = look(cluster).view.replicas[place]
            assert moved != row
            asleep.send_signal(signal.SIGCONT)
            wait_until(lambda: "standing by" in log.read_text(), PATIENCE, "it stands by")
            assert awake.holds()
            assert look(cluster).view.replicas[place] == moved
    finally:
        asleep.kill()
        asleep.wait()
    rows = [each for at, each in fills(cluster).items() if at.topic == topic]
    assert [len(each) for each in rows] == [1, 1, 1, 1]


def test_two_controllers_and_a_topic_of_intents_that_is_deleted(
    cluster: Cluster, unique_name: UniqueName, tmp_path: Path
) -> None:
    topic = unique_name("two")
    with controller(cluster, tmp_path, "one") as one, controller(cluster, tmp_path, "other") as two:
        await_holder(one, two)
        stop(cluster, 2)
        create(cluster, topic)
        assert len(intents_left(cluster, topic)) == 1
        before = look(cluster).topic_ids[INTENTS_TOPIC]

        def knows(one: RunningController) -> bool:
            return bool(one.health()[1]["intents"] > 0)

        # Whichever: on a busy machine the lease may have changed hands, and who had it may say
        # so until its next turn.
        wait_until(lambda: knows(one) != knows(two), TAKE_OVER_SECONDS, "one has read the intent")
        delete_topic(cluster, INTENTS_TOPIC)
        wait_until(
            lambda: look(cluster).topic_ids.get(INTENTS_TOPIC, before) != before,
            TAKE_OVER_SECONDS,
            "the topic of intents is there again",
        )
        wait_until(
            lambda: len(intents_left(cluster, topic)) == 1,
            TAKE_OVER_SECONDS,
            "the intent is there again",
        )
        assert f"topic {INTENTS_TOPIC} was deleted" in one.log + two.log

        holder = await_holder(one, two)
        holder.kill()
        cluster.start_broker(2)
        left = two if holder is one else one
        await_full(cluster, topic, INTENTS_TOPIC, within=TAKE_OVER_SECONDS)
        wait_until(left.holds, PATIENCE, "the one that is left keeps the intents")
        await_kept(cluster)
        assert left.stop() == 130
    rows = fills(cluster)[TopicPartition(topic, 0)]
    assert len(rows) == 1


@pytest.mark.slow
def test_a_cluster_that_is_away_for_a_minute(
    cluster: Cluster, unique_name: UniqueName, tmp_path: Path
) -> None:
    topic = unique_name("away")
    with controller(cluster, tmp_path) as running:
        await_holder(running)
        stop(cluster, 2)
        create(cluster, topic)
        for broker in (0, 1):
            cluster.pause_broker(broker)
        time.sleep(AWAY_SECONDS)
        for broker in (0, 1):
            cluster.resume_broker(broker)
        cluster.start_broker(2)
        await_full(cluster, topic, within=TAKE_OVER_SECONDS)
        assert running.process.poll() is None
        wait_until(lambda: running.health()[0] == 200, PATIENCE, "it is ready again")
        assert running.stop() == 130
