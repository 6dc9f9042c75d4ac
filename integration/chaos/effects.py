"""Checks that a fault took effect: a scenario whose fault did nothing proves nothing.

Each raises AssertionError with "the fault did not take effect" and what was expected.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

from kafka import TopicPartition

from rackward.testing import Cluster, jolokia
from rackward.testing.admin import is_serving
from tests.support.waiting import TEST_TIMEOUT, wait_until

STOPPED = "T"
"""State of a process after SIGSTOP."""

ENDED = "Z"
"""State of a process that has ended, until its parent has read its exit status."""


def require(condition: bool, expected: str) -> None:
    """Raise AssertionError unless the condition is true."""
    assert condition, f"the fault did not take effect: {expected}"


def process_state(pid: int) -> str | None:
    """Return the state of a process as /proc has it, such as "S"; None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name of the program, in parentheses, may contain spaces.
    return text.rpartition(")")[2].split()[0]


def check_signalled(pid: int, number: signal.Signals, name: str) -> None:
    """Check that a process is gone after SIGKILL, stopped after SIGSTOP, or runs after SIGCONT."""

    def as_signalled() -> bool:
        state = process_state(pid)
        match number:
            case signal.SIGKILL:
                return state in (None, ENDED)
            case signal.SIGSTOP:
                return state == STOPPED
            case _:
                return state not in (None, STOPPED)

    wait_until(as_signalled, TEST_TIMEOUT, f"the fault takes effect: {number.name} for {name}")


def check_silent(cluster: Cluster, broker: int) -> None:
    """Check that a broker does not answer; threads stop some time after SIGSTOP."""
    port = cluster._nodes[broker].ports[cluster._default_listener]
    wait_until(
        lambda: not is_serving(port, broker),
        TEST_TIMEOUT,
        f"the fault takes effect: broker {broker} does not answer",
    )


def broker_version(cluster: Cluster, broker: int) -> str:
    """Return the version of Kafka that a broker says it is of."""
    mbean = f"kafka.server:type=app-info,id={broker}"
    node = cluster._nodes[broker]
    return str(cluster._read_metric(node, lambda port: jolokia.read(port, mbean, "Version")))


def check_leaders(
    cluster: Cluster,
    topic: str,
    before: Mapping[TopicPartition, int],
    wanted: Mapping[TopicPartition, int],
) -> None:
    """Check that the leaders are those that were wanted, if any was to move."""
    leaders = cluster.view([topic]).known_leaders
    require(
        wanted == before or dict(leaders) != dict(before),
        f"leaders of {topic} move from {before} to {wanted}",
    )


def dropped_packets(rules: str) -> int | None:
    """Return the packets that rules to drop have counted in ``iptables -nvxL``; None: no rules."""
    lines = [line.split() for line in rules.splitlines()]
    counts = [int(words[0]) for words in lines if len(words) > 2 and words[2] == "DROP"]
    return sum(counts) if counts else None


def delayed_packets(queue: str) -> int | None:
    """Return how often ``tc -s qdisc`` has counted that a tbf was over its limit; None: no tbf."""
    lines = iter(queue.splitlines())
    for line in lines:
        if line.startswith("qdisc tbf "):
            words = next(lines).replace(",", "").replace("(", "").split()
            return int(words[words.index("overlimits") + 1])
    return None
