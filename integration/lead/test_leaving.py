"""What groups of every client do once the process that leads them is gone.

Another member leads, the group rebalances when members join and leave, and everything is read.
`RACKWARD_SLOW_TESTS=all` runs it for every client, and needs Go, and Node and npm.
"""

from __future__ import annotations

import json
import signal

import pytest

from integration.support.clients import partitions_of
from integration.support.command_line import running
from integration.support.groups import ConsumerGroup, everything_is_read
from integration.support.leading import (
    MAPPING_OPTION,
    UNMODIFIED_CLIENTS,
    WITH_GO_OR_NODE,
    LedGroup,
)
from integration.support.topics import SteadyProducer, create_topic, new_name
from rackward.testing import Cluster

PARTITIONS = 12
REPLICAS = [[(p * 7) % 3] for p in range(PARTITIONS)]
"""Leaders in all racks, four in each."""

IN_CI = {"confluent-cooperative-sticky"}
CLIENTS = UNMODIFIED_CLIENTS | WITH_GO_OR_NODE


@pytest.mark.parametrize(
    "ways",
    [
        pytest.param((signal.SIGTERM, signal.SIGKILL), id="terminated, then killed"),
        pytest.param(
            (signal.SIGKILL, signal.SIGTERM), id="killed, then terminated", marks=pytest.mark.slow
        ),
    ],
)
@pytest.mark.parametrize(
    "client",
    [
        pytest.param(name, marks=() if name in IN_CI else pytest.mark.slow)
        for name in sorted(CLIENTS)
    ],
)
def test_a_group_goes_on_without_the_process_that_led_it(
    shared_three_brokers: Cluster, client: str, ways: tuple[signal.Signals, signal.Signals]
) -> None:
    """The first process led from the first member on, the second one has removed the leader.

    Members send no rack: librdkafka's own `cooperative-sticky` assignor, which goes on alone, can
    swap two partitions for ever where they do.
    """
    topic = create_topic(shared_three_brokers, new_name("led"), REPLICAS)
    expected = set(partitions_of(topic, PARTITIONS))
    with ConsumerGroup(shared_three_brokers, topics=[topic], client=CLIENTS[client]) as group:
        led = LedGroup(shared_three_brokers, group, topic, PARTITIONS, sends_racks=False)
        lead = ("lead", group.id, "--yes", "--json", "--mapping", MAPPING_OPTION)
        with running(shared_three_brokers, *lead) as first:
            first.until(_is_leading)
            led.start("a1", "b1", "c1")
            led.settle()
            first.send(ways[0])
        with SteadyProducer(shared_three_brokers, topic, PARTITIONS) as sent:
            led.start("a2")
            group.settle(expected)
            led.stop("b1")
            group.settle(expected)
            with running(shared_three_brokers, *lead, "--take-over", "remove") as second:
                second.until(_is_leading)
                led.settle()
                second.send(ways[1])
            led.stop("a2")
            group.settle(expected)
            led.start("b2")
            group.settle(expected)
            sent.stop()
            everything_is_read(group.reads_of, topic, sent)


def _is_leading(line: str) -> bool:
    return bool(json.loads(line).get("state") == "leading")
