"""`rackward top` on two live groups, one of which is led: a frame in a pipe, and at a terminal."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from integration.support.clients import partitions_of
from integration.support.collecting import with_stable_state
from integration.support.command_line import Terminal, rackward
from integration.support.groups import ConsumerGroup
from integration.support.leading import (
    UNMODIFIED_CLIENTS,
    LedGroup,
    leading,
    wait_for_status,
    wait_until_leading,
)
from integration.support.racks import off_rack
from integration.support.topics import create_topic, delete_topic, new_name, produce_steadily
from rackward.cli.lead import health_port
from rackward.testing import Cluster

LEADERS = [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
"""Broker of each leader. So with a member in each rack, two partitions are off-rack at best."""
PARTITIONS, AT_BEST = len(LEADERS), "83.3 %"
MEMBERS = {"a1": "a", "b1": "b", "c1": "c"}
LINES = 24
"""The height of the terminal."""


@dataclass(frozen=True)
class Groups:
    """A group of stock consumers, one that is led, and the health port of what leads it."""

    cluster: Cluster
    stock: ConsumerGroup
    led: ConsumerGroup
    topic: str
    url: str

    def locality(self) -> str:
        """Return the share of partitions that the stock group reads in its racks."""
        owned = self.stock.settle(partitions_of(self.topic, PARTITIONS), hold=0.0)
        share = 1 - off_rack(self.cluster, owned, MEMBERS) / PARTITIONS
        return f"{100 * share:.0f} %" if share in (0, 1) else f"{100 * share:.1f} %"


@pytest.fixture(scope="module")
def groups(shared_three_brokers: Cluster) -> Iterator[Groups]:
    cluster = shared_three_brokers
    with ExitStack() as stack:
        topic = create_topic(cluster, new_name("top"), [[n, (n + 1) % 3] for n in LEADERS])
        stack.callback(delete_topic, cluster, topic)
        stack.enter_context(produce_steadily(cluster, topic, PARTITIONS, every=0.02))
        stock, led = (
            stack.enter_context(
                ConsumerGroup(cluster, topics=[topic], client=UNMODIFIED_CLIENTS[client])
            )
            for client in ("confluent-range", "confluent-cooperative-sticky")
        )
        leader = stack.enter_context(leading(cluster, led.id))
        wait_until_leading(leader)
        for name, rack in MEMBERS.items():
            stock.start(name, rack)
        settled = LedGroup(cluster, led, topic, PARTITIONS)
        # A member that has left is missing until the next rebalance.
        settled.start(*MEMBERS, "c2")
        settled.settle()
        settled.stop("c2")
        settled.settle()
        status = wait_for_status(leader, lambda each: bool(each.missing), "a member is missing")
        assert [name.startswith("c2") for name in status.missing] == [True]
        with health_port("127.0.0.1", 0, leader) as url:
            yield Groups(cluster, stock, led, topic, url)


def test_one_frame_in_a_pipe(groups: Groups) -> None:
    names = (groups.stock.id, groups.led.id)
    command = ("top", "--once", *names, "--status", groups.url)
    local, done = with_stable_state(groups.locality, lambda: rackward(groups.cluster, *command))
    assert "\x1b" not in done.out
    rows = {
        name: re.split(r" {2,}|(?<=%) ", line)
        for name in names
        for line in done.out.splitlines()
        if line.startswith(name)
    }
    assert rows[groups.stock.id][1] == local
    assert rows[groups.led.id][1] == AT_BEST
    assert "client" in " ".join(rows[groups.stock.id])
    led = " ".join(rows[groups.led.id])
    assert re.search(r" lead +\d+ (s|min) ", led), led
    # Every partition gets as many bytes.
    assert re.search(r"~?[\d.]+ k?B", led), led


def last_frame(shown: str) -> str:
    """Return the last frame as text."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.rpartition("\x1b[H")[2])


class Top(Terminal):
    """A terminal with ``rackward top``, which prints whole frames."""

    def __init__(self, groups: Groups) -> None:
        names = (groups.stock.id, groups.led.id)
        super().__init__(groups.cluster, "top", *names, "--status", groups.url)

    def press(self, keys: str, until: str, absent: str = "\0") -> list[str]:
        """Type keys; return the lines of the first whole frame with ``until``, without ``absent``.

        A frame arrives in pieces; it always fills the screen.
        """
        self.type(keys)
        self.read_until(
            lambda shown: (
                until in (frame := last_frame(shown))
                and absent not in frame
                and frame.count("\r\n") == LINES - 1
            )
        )
        return last_frame(self.shown).split("\r\n")

    def end(self) -> int:
        """Return the exit status; the screen and the cursor are as before."""
        status = super().end()
        assert self.shown.endswith("\x1b[?1049l")
        assert "\x1b[?25h" in self.shown
        return status


def test_keys_at_a_terminal(groups: Groups) -> None:
    stock, led = groups.stock.id, groups.led.id
    with Top(groups) as shown:
        lines = shown.press("", until="across racks")
        assert len(lines) == LINES
        assert max(map(len, lines)) <= 80
        assert sum(line.startswith((stock, led)) for line in lines) == 2
        shown.press("<<", until="group▼")
        shown.press("r", until="group▲")
        shown.press(f"/{led[-5:]}", until=f"/{led[-5:]}_", absent=stock)
        lines = shown.press("\r\r", until="Locality now")
        assert any(line.startswith("rackward lead: state leading") for line in lines)
        assert any(f"{groups.topic} " in line for line in lines)
        lines = shown.press("\x1b", until="group▲")
        shown.press("\x1b", until=stock)
        shown.resize(140)
        assert "partitions" in " ".join(shown.press("", until="off-rack"))
        shown.press("m", until="off-rack", absent="B/s from")
        shown.type("q")
        assert shown.end() == 0


def test_ctrl_c_leaves_the_terminal_as_it_was(groups: Groups) -> None:
    with Top(groups) as shown:
        shown.press("", until="measuring rates")
        shown.process.send_signal(signal.SIGINT)
        assert shown.end() == 130
