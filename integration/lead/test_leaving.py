"""What groups of every client do once the process that leads them is gone.

Another member leads, the group rebalances when members join and leave, and everything is read.
`RACKWARD_SLOW_TESTS=all` runs it for every client, and needs Go, and Node and npm.
"""

from __future__ import annotations

import json
import signal

import pytest

from integration.support.command_line import running
from integration.support.groups import everything_is_read
from integration.support.leading import (
    CLIENTS,
    MAPPING_OPTION,
    led_group,
)
from integration.support.topics import SteadyProducer
from rackward.testing import Cluster

IN_CI = {"confluent-cooperative-sticky"}


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
    with led_group(shared_three_brokers, client, sends_racks=False) as led:
        lead = ("lead", led.group.id, "--yes", "--json", "--mapping", MAPPING_OPTION)
        with running(shared_three_brokers, *lead) as first:
            first.until(_is_leading)
            led.start("a1", "b1", "c1")
            led.settle()
            first.send(ways[0])
        with SteadyProducer(shared_three_brokers, led.topic, led.partitions) as sent:
            led.start("a2")
            led.await_owners()
            led.stop("b1")
            led.await_owners()
            with running(shared_three_brokers, *lead, "--take-over", "remove") as second:
                second.until(_is_leading)
                led.settle()
                second.send(ways[1])
            led.stop("a2")
            led.await_owners()
            led.start("b2")
            led.await_owners()
            sent.stop()
            everything_is_read(led.group.reads_of, led.topic, sent)


def _is_leading(line: str) -> bool:
    return bool(json.loads(line).get("state") == "leading")
