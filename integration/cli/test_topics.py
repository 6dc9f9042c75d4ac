"""``rackward topics`` on a real cluster: actual layouts are the planned ones."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from integration.cli.conftest import layout
from integration.support.command_line import Terminal, one_line, rackward, running
from integration.support.topics import create_topic, new_name
from placement_core import TopicPartition
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

# The command is independent of how brokers run.
pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

RACKS = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}


def planned(output: Mapping[str, Any], topic: str) -> dict[str, list[int]]:
    (planned_topic,) = [each for each in output["topics"] if each["name"] == topic]
    return dict(planned_topic["replicas"])


def create(cluster: Cluster, topic: str, *options: str) -> Any:
    return rackward(cluster, "topics", "create", topic, "--yes", "--json", *options).json


@pytest.mark.parametrize("name", ["simple", "rack-alternating"])
def test_created_topics_are_as_planned(cluster: Cluster, name: str) -> None:
    topic = new_name(name)
    options = ("--placement", name, "-p", "12", "-r", "3", "--seed", "11")
    dry = rackward(cluster, "topics", "create", topic, "--dry-run", "--json", *options).json
    assert (dry["changed"], dry["verified"], layout(cluster, topic)) == (False, None, {})
    output = create(cluster, topic, *options)
    assert (output["changed"], output["verified"], output["seed"]) == (True, True, 11)
    assert planned(output, topic) == planned(dry, topic) == layout(cluster, topic)
    shown = rackward(cluster, "topics", "describe", f"{topic[:-1]}*", "--json").json
    assert [each["name"] for each in shown["topics"]] == [topic]
    assert cluster.view([topic]).leaders == {
        TopicPartition(topic, int(number)): row[0] for number, row in layout(cluster, topic).items()
    }
    if name == "rack-alternating":
        rows = layout(cluster, topic).values()
        assert all({RACKS[broker] for broker in row} == {"a", "b", "c"} for row in rows)
        assert sorted(row[0] for row in rows) == sorted([*range(6)] * 2)


def test_added_partitions_continue_the_layout(cluster: Cluster) -> None:
    topic, whole = new_name("more"), new_name("whole")
    create(cluster, topic, "-p", "12", "-r", "3", "--placement-properties", "start_index=0,shift=0")
    before = layout(cluster, topic)
    output = rackward(
        cluster, "topics", "add-partitions", topic, "-p", "18", "--yes", "--json", "--seed", "4"
    ).json
    after = layout(cluster, topic)
    assert {number: after[number] for number in before} == before
    assert planned(output, topic) == {str(n): after[str(n)] for n in range(12, 18)}
    dry = rackward(
        cluster, "topics", "create", whole, "--dry-run", "--json", "-p", "18", "-r", "3",
        "--placement-properties", "start_index=0,shift=0",
    ).json  # fmt: skip
    assert after == planned(dry, whole)


def test_bad_requests_are_errors_of_one_line_and_change_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    old = create_topic(cluster, new_name("old"), [[0, 2], [1, 3]])
    bad = tmp_path / "client.properties"
    bad.write_text("security.protocol=TSL\n")
    absent = new_name("absent")
    cases = [
        ([old, "-p", "2", "-r", "2"], "already exists, with 2 partitions: choose another name"),
        ([absent, "-r", "7", "-p", "1"], "replication factor 7 on 6 brokers: request 6 replicas"),
        ([absent, "--config", "retention.ms=long"], "Invalid value long for configuration ret"),
        ([f"{absent}/x", "-p", "1", "-r", "1"], "Topic name is invalid"),
        ([absent, "--placement", "nope"], "there is no placer 'nope': choose one of simple"),
        (
            [absent, "--placement", "tests.support.placement:Raising"],
            "failed with LookupError: th",
        ),
        (
            [absent, "--placement", "tests.support.placement:Repeating"],
            "choose another placer",
        ),
        ([absent, "--like", f"{absent}-too"], "unknown topic absent-"),
        ([absent, "--rack-locator", "file", "--rack-locator-properties", "path=/none"], "/none"),
        (
            [absent, "--command-config", str(bad)],
            "security.protocol: 'TSL' is not one of PLAINTEXT",
        ),
        ([absent, "--bootstrap-server", "nowhere.invalid:9092"], "unknown host 'nowhere.invalid'"),
    ]
    for arguments, output in cases:
        answer = rackward(cluster, "topics", "create", "--yes", *arguments, status=2)
        assert output in one_line(answer), arguments
    fewer = rackward(cluster, "topics", "add-partitions", "--yes", old, "-p", "2", status=2)
    assert "already has 2 partitions: give a total of more than 2" in one_line(fewer)
    unconfirmed = rackward(cluster, "topics", "create", absent, "-p", "1", "-r", "1", status=2)
    assert "stdin is not a terminal: pass --yes" in one_line(unconfirmed)
    assert layout(cluster, old) == {"0": [0, 2], "1": [1, 3]}
    assert cluster.view(None).replicas.keys().isdisjoint({TopicPartition(absent, 0)})


def test_declining_and_interrupting_the_prompt(cluster: Cluster) -> None:
    topic = new_name("confirmed")
    arguments = ("topics", "create", topic, "-p", "3", "-r", "3")

    def at_prompt(answer: str | None) -> tuple[int, str]:
        """Answer the prompt, or press Ctrl-C; return the exit status, and what was shown."""
        with Terminal(cluster, *arguments) as terminal:
            terminal.read_until(lambda shown: "[y/N]" in shown)
            if answer is None:
                terminal.process.send_signal(signal.SIGINT)
            else:
                terminal.type(answer)
            return terminal.end(), " ".join(terminal.shown.split())

    status, shown = at_prompt("n\n")
    assert (status, "Nothing was changed." in shown) == (1, True)
    status, shown = at_prompt(None)
    assert (status, "Traceback" in shown) == (130, False)
    assert layout(cluster, topic) == {}
    status, shown = at_prompt("y\n")
    assert (status, "verified: the layout is as planned." in shown) == (0, True)
    assert len(layout(cluster, topic)) == 3


def test_interrupting_a_request_without_response(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(120)
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        options = ("--timeout", "600", "--bootstrap-server", where)
        with running(cluster, "topics", "describe", *options) as command:
            caller, _ = silent.accept()
            began = time.monotonic()
            ended = command.send(signal.SIGINT)
            caller.close()
    assert (ended.status, ended.out) == (130, "")
    assert "Traceback" not in ended.err
    assert time.monotonic() - began < TEST_TIMEOUT, "it waited for the server instead"


@pytest.mark.slow
def test_describe_shows_a_broker_that_is_down(cluster: Cluster) -> None:
    topic = create_topic(cluster, new_name("hurt"), [[5, 0, 2], [1, 3, 4]])
    cluster.kill_broker(5)
    try:
        tp = TopicPartition(topic, 0)
        wait_until(lambda: cluster.view([topic]).leader(tp) == 0, 60, "a new leader")
        shown = rackward(cluster, "topics", "describe", topic, "--json").json
        (down,) = [broker for broker in shown["brokers"] if not broker["live"]]
        assert (down["id"], down["rack"]) == (5, "c")
        partitions = shown["topics"][0]["partitions"]
        assert partitions[0]["notes"] == ["under-replicated", "leader not preferred"]
        assert (partitions[0]["in_sync"], partitions[1]["notes"]) == ([0, 2], [])
        screen = rackward(cluster, "topics", "describe", "--unhealthy", f"{topic}*").out
        assert "6 brokers (1 down) in 3 racks" in screen
        assert "0:a 2:b" in screen
        assert "start broker 5 again" in " ".join(screen.split())
        wide = ("topics", "create", new_name("wide"), "-y", "-p", "1", "-r", "6")
        assert "factor 6 on 5 brokers" in one_line(rackward(cluster, *wide, status=2))
    finally:
        cluster.start_broker(5)
    wait_until(
        lambda: (
            not rackward(cluster, "topics", "describe", topic, "--json").json["topics"][0][
                "unhealthy"
            ]
        ),
        60,
        "every replica is in sync again",
    )
    calm = rackward(cluster, "topics", "describe", topic, "--unhealthy").out
    assert "No unhealthy topics." in calm
