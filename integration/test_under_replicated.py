"""Topics on fewer brokers than replicas, KIP-409, and the controller that fills them.

A cluster of three racks with a broker each; the tests leave it whole.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from integration.collecting import fill
from integration.command_line import rackward
from integration.controllers import RunningController, controller, fills
from integration.short_topics import (
    FILL_SECONDS,
    TAKE_OVER_SECONDS,
    await_full,
    await_holder,
    await_kept,
    create,
    intents_left,
    look,
    produce,
    stop,
)
from integration.throttle_settings import throttle_settings
from integration.topics import delete_topic
from integration.waiting import PATIENCE, wait_until
from placement_core import TopicPartition
from rackward.clusters import Cluster, LocalCluster
from rackward.clusters.errors import BrokerStateError
from rackward.clusters.pytest_plugin import UniqueName
from rackward.controller.keeper import Step
from rackward.intents import INTENTS_TOPIC
from rackward.placement_service import create_replica_placement

AWAY_SECONDS = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Brokers 0, 1 and 2 in racks a, b and c."""
    with LocalCluster(("a", "b", "c")) as made:
        yield made


@pytest.fixture(autouse=True)
def whole(cluster: Cluster) -> Iterator[None]:
    """A test that failed half-way leaves no broker down for the next."""
    yield
    for broker in cluster.racks.keys() - look(cluster).view.racks().keys():
        with suppress(BrokerStateError):
            cluster.resume_broker(broker)
        with suppress(BrokerStateError):
            cluster.start_broker(broker)


def test_a_topic_made_while_a_broker_is_down_is_filled_when_it_returns(
    cluster: Cluster, unique_name: UniqueName, tmp_path: Path
) -> None:
    """Also by a controller that was killed and started again meanwhile."""
    topic, whole = unique_name("short"), unique_name("whole")
    rackward(cluster, *("topics", "create", whole, "-p", 3, "-r", 3, "--seed", 1, "--yes"))
    with controller(cluster, tmp_path) as first:
        await_holder(first)
        stop(cluster, 2)
        shape = ("--partitions", 4, "--replication-factor", 3, "--yes")
        refused = rackward(cluster, "topics", "create", topic, *shape, status=2)
        assert "replication factor 3 on 2 brokers" in refused.err
        create(cluster, topic)
        assert produce(cluster, topic, 4) == 4
        # Kafka takes no shorter lists for an old topic: the broker that is down stands in.
        more = ("--allow-under-replicated", "--yes")
        rackward(cluster, "topics", "add-partitions", whole, "-p", 5, *more)
        rackward(cluster, "topics", "add-partitions", topic, "-p", 6, *more)

        told = rackward(cluster, "topics", "describe", topic, whole, "--json").json
        lists = {
            (each["name"], one["partition"]): one["replicas"]
            for each in told["topics"]
            for one in each["partitions"]
        }
        short = [row for (name, number), row in lists.items() if name == topic or number >= 3]
        assert len(short) == 8
        assert all(sorted(row) == [-1, 0, 1] and row[-1] == -1 for row in short)
        (finding,) = [
            each["message"]
            for each in told["findings"]
            if each["kind"] == "placeholders" and each["subject"] == topic
        ]
        assert "there are 2 live brokers in racks a, b, and 3 are needed: start 1 more" in finding
        checked = rackward(cluster, "placement", "check", "--topics", topic, status=1)
        assert "placeholders for 1 replica each" in checked.out

        # The service knows what is missing, too.
        placed = create_replica_placement(first.service, 2, 3, timeout=PATIENCE)
        assert [row[-1] for row in placed] == [-1, -1]
        first.kill()
    with controller(cluster, tmp_path) as second:
        # It has asked who there is before the broker is back.
        await_holder(second)
        cluster.start_broker(2)
        state = await_full(cluster, topic, whole, within=FILL_SECONDS)
        assert sum(place.topic == topic for place in state.view.replicas) == 6
        await_kept(cluster)
        assert "brokers copy at most 50 MB per second" in second.log
        assert "the throttle is lifted" in second.log
        assert second.stop() == 130
    described = rackward(cluster, "topics", "describe", topic)
    assert "-1" not in described.out.replace("--", "")
    assert "healthy" in described.out


def test_what_could_not_be_written_is_refused(cluster: Cluster, unique_name: UniqueName) -> None:
    topic = unique_name("refused")
    options = ("-p", 2, "-r", 3, "--seed", 1, "--allow-under-replicated")
    stop(cluster, 1, 2)
    try:
        two = ("--config", "min.insync.replicas=2")
        refused = rackward(cluster, "topics", "create", topic, *options, *two, "--yes", status=2)
        assert "2 replicas in sync are needed to write" in refused.err
        assert "the live brokers are 1 (broker 0)" in refused.err
        assert topic not in look(cluster).topic_ids
        one = ("--config", "min.insync.replicas=1", "--yes", "--json")
        told = rackward(cluster, "topics", "create", topic, *options, *one).json
        assert told["topics"][0]["replicas"] == {"0": [0, -1, -2], "1": [0, -1, -2]}
        described = rackward(cluster, "topics", "describe", topic)
        assert described.out.count("0:a -1 -2") == 2
        assert "3 are needed: start 2 more" in described.out
        assert produce(cluster, topic, 2) == 2
    finally:
        cluster.start_broker(1)
        cluster.start_broker(2)


def hit(cluster: Cluster, step: Step, name: str) -> list[str]:
    """The command line of a controller that a signal hits at that step."""
    module = "integration.controller_process"
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


@pytest.mark.slow
def test_a_fill_is_throttled(cluster: Cluster, unique_name: UniqueName, tmp_path: Path) -> None:
    topic = unique_name("throttled")
    with controller(cluster, tmp_path, throttle="300kB") as running:
        await_holder(running)
        stop(cluster, 2)
        create(cluster, topic)
        fill(cluster, topic, 4, 3000)
        cluster.start_broker(2)
        wait_until(lambda: look(cluster).ongoing != {}, FILL_SECONDS, "it is being filled")
        began = time.monotonic()
        await_full(cluster, topic, within=4 * FILL_SECONDS)
        # 12 MB at 300 kB a second, but for the 4 MB that Kafka sends at once.
        assert time.monotonic() - began > 15
        await_kept(cluster)
        assert running.stop() == 130
