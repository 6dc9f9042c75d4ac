"""``rackward placement`` moves replicas on a real cluster.

On local clusters only: the requests are the same for brokers in containers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from integration.support.command_line import one_line, rackward
from integration.support.topics import (
    SINGLE,
    TRIPLE,
    Content,
    content,
    create_topic,
    fill,
    plan,
    rows,
    throttle_settings,
)
from placement_core import TopicPartition
from rackward.testing import Cluster

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)


def in_three_racks(row: tuple[int, ...]) -> bool:
    return len(row) == 3 and {broker // 2 for broker in row} == {0, 1, 2}


def test_the_replication_factor_is_raised_and_lowered(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    create_topic(cluster, topic, SINGLE)
    written = fill(cluster, topic, 6, 20)
    path = tmp_path / "up.json"
    planned = plan(cluster, topic, path, "-r", "3", "--throttle", "40MB", "--batch-count", "4")
    assert copies(planned) == 12
    assert size(planned) > written_bytes(written)
    dry = rackward(cluster, "placement", "apply", path, "--dry-run")
    assert "nothing was changed" in dry.out
    assert rows(cluster, topic) == [tuple(row) for row in SINGLE]
    done = rackward(cluster, "placement", "apply", path, "--yes", "--json")
    assert [event["event"] for event in done.events if event["event"] != "progressed"] == [
        "planned",
        "started",
        "throttle_set",
        "batch_started",
        "batch_started",
        "throttle_removed",
        "finished",
    ]
    last = [event for event in done.events if event["event"] == "progressed"][-1]
    assert (last["completed"], last["partitions"]) == (6, 6)
    assert last["bytes_copied"] == last["bytes"] == 2 * size(planned)
    raised = rows(cluster, topic)
    assert raised == [tuple(each["after"]) for each in planned["partitions"]]
    assert all(in_three_racks(row) for row in raised)
    assert [row[0] for row in raised] == [row[0] for row in SINGLE]
    assert_level(cluster, added_to(SINGLE, raised))
    assert throttle_settings(cluster) == {}
    assert content(cluster, topic, 6) == written

    # In Kafka's format, from a pipe; the second time there is nothing left to do.
    plan(cluster, topic, tmp_path / "down.json", "-r", "1", "--format", "kafka")
    for left in (6, 0):
        text = (tmp_path / "down.json").read_text()
        arguments = ("placement", "apply", "--reassignment-json-file", "-", "--yes", "--json")
        done = rackward(cluster, *arguments, stdin=text)
        assert done.events[1]["pending"] == left
        assert done.events[-1]["ok"]
    assert rows(cluster, topic) == [(row[0],) for row in raised]
    assert content(cluster, topic, 6) == written


def copies(planned: dict[str, Any]) -> int:
    return sum(len({*row["after"]} - {*row["before"]}) for row in planned["partitions"])


def size(planned: dict[str, Any]) -> int:
    return sum(each["bytes"] for each in planned["partitions"])


def added_to(before: Iterable[Iterable[int]], after: Iterable[Iterable[int]]) -> set[int]:
    """Return the brokers that got replicas."""
    return {broker for had, has in zip(before, after, strict=True) for broker in {*has} - {*had}}


def every_row(cluster: Cluster) -> list[tuple[int, ...]]:
    """Return the replica lists of all topics."""
    internal = ("__consumer_offsets", "__transaction_state", "__share_group_state")
    return [
        *cluster.view().replicas.values(),
        *cluster.view(internal).replicas.values(),
    ]


def assert_level(cluster: Cluster, chosen: Iterable[int]) -> None:
    """Check that no broker of ``chosen`` has over one replica more than the other of its rack.

    Replicas of all topics count.
    """
    carried = Counter(broker for row in every_row(cluster) for broker in row)
    for broker in chosen:
        assert carried[broker] <= carried[broker ^ 1] + 1, carried


def written_bytes(written: Content) -> int:
    return sum(written.counts) * 20_000


def test_a_broker_is_drained_and_filled_again(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    create_topic(cluster, topic, TRIPLE * 2)
    written = fill(cluster, topic, 12, 5)
    path = tmp_path / "plan.json"
    planned = plan(cluster, topic, path, "--drain", "5", "--batch-bytes", "200kB")
    rackward(cluster, "placement", "apply", path, "--yes")
    drained = rows(cluster, topic)
    assert not any(5 in row for row in drained)
    assert all(in_three_racks(row) for row in drained)
    # No more copies than broker 5 had replicas.
    assert copies(planned) == 6
    # As for a new broker: loads are even again, other topics included.
    planned = plan(cluster, topic, path, "--even")
    rackward(cluster, "placement", "apply", path, "--yes")
    evened = rows(cluster, topic)
    assert_level(cluster, {broker for row in evened for broker in row})
    leads = Counter(row[0] for row in every_row(cluster))
    for row in evened:
        assert leads[row[0]] <= min(leads[broker] for broker in row) + 1
    assert all(in_three_racks(row) for row in evened)
    view = cluster.view([topic])
    assert [view.known_leaders[TopicPartition(topic, p)] for p in range(12)] == [
        r[0] for r in evened
    ]
    assert copies(planned) == sum(
        len({*after} - {*before}) for before, after in zip(drained, evened, strict=True)
    )
    assert content(cluster, topic, 12) == written
    again = rackward(cluster, "placement", "plan", "--topics", topic, "--even")
    assert "Nothing to change." in again.out


def test_check_has_findings_and_exit_status_1(cluster: Cluster, topic: str) -> None:
    create_topic(cluster, topic, [[0, 1], [2, 3]])
    done = rackward(cluster, "placement", "check", "--topics", topic, "--json", status=1)
    assert done.json["figures"]["against_rack_rules"] == 2
    assert {finding["severity"] for finding in done.json["findings"]} >= {"warning"}
    lenient = ("placement", "check", "--topics", topic, "--fail-on", "critical")
    assert "not spread over racks" in rackward(cluster, *lenient).out
    assert "no such topic" in one_line(
        rackward(cluster, "placement", "check", "--topics", "absent", status=2)
    )
