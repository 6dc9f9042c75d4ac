"""Descriptions of topics: notes, text of 80 columns, JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from placement_core import TopicPartition
from placement_core.audit import Kind, Severity
from rackward.cli.describe import TopicsDescription, description_of, show_description
from rackward.cli.output import format_json
from rackward.kafka import ClusterState, Reassignment
from rackward.reassignment.throttle import BrokerThrottle, Rates, ThrottleSettings
from rackward.topics.health import listed_topics, partition_health, throttle_findings
from tests.support.consoles import PIPE, rendered
from tests.support.simulated_cluster import cluster_state


def describe(state: ClusterState, *, unhealthy: bool = False) -> TopicsDescription:
    min_isr = dict.fromkeys(state.topics, 2)
    health = partition_health(state, min_isr)
    topics = listed_topics(state, health, unhealthy=unhealthy)
    return description_of(state, health, min_isr, topics, ["the configuration: not allowed"])


def render(description: TopicsDescription, width: int = 80, **options: Any) -> str:
    defaults = {"top": None, "all_partitions": False, "named": False, "only_unhealthy": False}
    settings: dict[str, Any] = {**defaults, **options}
    return rendered(lambda console: show_description(description, console, **settings), width)


UNHEALTHY = cluster_state(
    {
        "fine": [(0, 2, 4), (2, 4, 0)],
        "moving": [(0, 2, 4, 3)],
        "narrow": [(0, 1, 4)],
        "short": [(5, 1, 3), (3, 1, 5), (5, 0, 2)],
        "lost": [(5,), (4,)],
    },
    down=[5],
    reassignments={TopicPartition("moving", 0): Reassignment((0, 2, 4, 3), (3,), (2,))},
)


def test_notes_of_partitions() -> None:
    notes = partition_health(UNHEALTHY, dict.fromkeys(UNHEALTHY.topics, 2)).notes
    assert notes == {
        TopicPartition("lost", 0): (Kind.OFFLINE, Kind.UNDER_REPLICATED),
        TopicPartition("lost", 1): (Kind.BELOW_MIN_IN_SYNC,),
        TopicPartition("moving", 0): (Kind.MOVING,),
        TopicPartition("narrow", 0): (Kind.RACK_RULE,),
        TopicPartition("short", 0): (Kind.UNDER_REPLICATED, Kind.NOT_PREFERRED),
        TopicPartition("short", 1): (Kind.UNDER_REPLICATED,),
        TopicPartition("short", 2): (Kind.UNDER_REPLICATED, Kind.NOT_PREFERRED),
    }


def test_partitions_of_a_cluster_without_leaders_are_offline() -> None:
    silent = cluster_state({"t": [(0,), (0,)]}, ["a"], down=[0])
    assert set(partition_health(silent, {}).notes.values()) == {
        (Kind.OFFLINE, Kind.UNDER_REPLICATED)
    }


def test_unhealthy_topics_are_listed_first_or_only() -> None:
    health = partition_health(UNHEALTHY, dict.fromkeys(UNHEALTHY.topics, 2))
    assert listed_topics(UNHEALTHY, health, unhealthy=False) == [
        "lost", "short", "narrow", "fine", "moving",
    ]  # fmt: skip
    assert listed_topics(UNHEALTHY, health, unhealthy=True) == ["lost", "short", "narrow"]


def test_text_of_topics() -> None:
    shown = render(describe(UNHEALTHY))
    assert "6 brokers (1 down) in 3 racks; 5 topics, 9 partitions, 24 replicas" in shown
    lines = {words[0]: line for line in shown.splitlines() if (words := line.split())}
    assert lines["short"].split() == [
        "short", "3", "3", "2", "2", "/", "1", "/", "0", "under-replicated",
    ]  # fmt: skip
    (piped,) = [
        line for line in render(describe(UNHEALTHY), PIPE).splitlines() if line.startswith("short ")
    ]
    assert piped.endswith("  under-replicated; 2 leader not preferred")
    assert lines["moving"].split()[-1] == "moving"
    assert lines["fine"].split()[-1] == "healthy"
    assert "down" in lines["5"]
    assert "critical: lost: partition 0 without a leader" in " ".join(shown.split())
    assert "Not shown: the configuration: not allowed" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_text_of_named_topics() -> None:
    shown = render(describe(UNHEALTHY.only(["short", "moving"])), named=True)
    rows = [line.split() for line in shown.splitlines()]
    assert ["moving", "0", "0", "0:a", "2:b", "4:c", "3:b", "moving", "+3", "-2"] in rows
    assert ["short", "0", "1", "5:c", "1:a", "3:b", "5", "leader", "not", "preferred"] in rows
    assert ["1", "3", "3:b", "1:a", "5:c", "5"] in rows
    assert max(map(len, shown.splitlines())) <= 80


def test_many_topics_and_partitions_are_limited() -> None:
    many = cluster_state({f"t-{n:03}": [(n % 6, (n + 2) % 6, (n + 4) % 6)] * 2 for n in range(100)})
    shown = render(describe(many), top=10)
    assert "t-009" in shown
    assert "t-010" not in shown
    assert "... and 90 more topics: --top 100 lists all" in shown
    assert "... and 60 more topics" in render(describe(many))
    assert render(describe(many), PIPE).count("\nt-") == 100
    assert "200 partitions: --all-partitions lists them" in render(
        describe(many), named=True, top=100
    )


def test_long_names_fold_and_racks_of_many_levels_fit() -> None:
    name = "a-topic-" + "x" * 241
    racks = ["/dc1/room1", "/dc1/room2", "/dc2/room1", "/dc2/room2", None]
    shown = render(describe(cluster_state({name: [(0, 2)]}, racks)), named=False)
    assert max(map(len, shown.splitlines())) <= 80
    assert sum(line.count("x") for line in shown.splitlines() if "xxx" in line) == 241
    assert "(no rack)" in shown


def test_hundreds_of_brokers_are_shown_by_rack() -> None:
    racks = [f"r{n % 3}" for n in range(300)]
    rows = [(n % 300, (n + 1) % 300, (n + 2) % 300) for n in range(450)]
    shown = render(describe(cluster_state({"t": rows}, racks, down=[299])))
    line = next(line for line in shown.splitlines() if line.startswith("r2"))
    assert line.split() == ["r2", "100", "brokers", "1", "down", "0", "to", "2", "3", "to", "6"]
    assert len(shown.splitlines()) < 30


def test_nothing_to_list() -> None:
    healthy = cluster_state({"t": [(0, 2, 4)]})
    assert "No unhealthy topics." in render(describe(healthy, unhealthy=True), only_unhealthy=True)
    assert "No topics." in render(describe(cluster_state({})))


def test_json_has_everything() -> None:
    text = format_json("topics describe", describe(UNHEALTHY))
    document = json.loads(text)
    assert (document["schema_version"], document["command"]) == (1, "topics describe")
    assert '"replicas": [5, 1, 3],' in text
    assert [topic["name"] for topic in document["topics"]][:2] == ["lost", "short"]
    short = document["topics"][1]
    assert (short["id"], short["min_in_sync"], short["unhealthy"]) == ("id of short", 2, 3)
    assert short["partitions"][0] == {
        "partition": 0,
        "leader": 1,
        "replicas": [5, 1, 3],
        "in_sync": [1, 3],
        "notes": ["under-replicated", "leader not preferred"],
        "adding": [],
        "removing": [],
    }
    assert document["brokers"][5] == {
        "id": 5,
        "rack": "c",
        "address": "kafka-5.example:9092",
        "live": False,
        "leaders": 0,
        "replicas": 4,
    }
    assert [rack["rack"] for rack in document["racks"]] == ["a", "b", "c"]
    assert {finding["kind"] for finding in document["findings"]} >= {"offline", "under-replicated"}


def test_throttle_is_a_warning_unless_replicas_are_reassigned() -> None:
    rates = Rates(500_000, 500_000)
    lists = {"t": {"leader.replication.throttled.replicas": "*"}}
    settings = ThrottleSettings(BrokerThrottle(rates), {}, lists)
    (finding,) = throttle_findings(settings, reassigning=False)
    assert finding.severity is Severity.WARNING
    assert finding.message == (
        "replication is throttled: 500 kB/s in each direction, for all replicas of 1 topic (t), "
        "not set by rackward: to remove it: rackward placement throttle --remove"
    )
    (finding,) = throttle_findings(settings, reassigning=True)
    assert finding.severity is Severity.NOTICE
    assert throttle_findings(ThrottleSettings(BrokerThrottle(rates)), reassigning=False) == ()


def test_a_throttle_that_may_not_be_read_is_not_known() -> None:
    default = BrokerThrottle(Rates(500_000, 500_000))
    not_read = (
        "replicas of 4 topics (a, b, c, ...) may be throttled: to see them, grant this user "
        "DescribeConfigs on the topics"
    )
    settings = ThrottleSettings(default, hidden=("a", "b", "c", "d"))
    assert throttle_findings(settings, reassigning=False) == ()
    assert settings.summary == f"not known; {not_read}"
    lists = {"t": {"leader.replication.throttled.replicas": "*"}}
    assert replace(settings, lists=lists).summary == (
        "500 kB/s in each direction, for all replicas of 1 topic (t), not set by rackward; "
        + not_read
    )
    assert ThrottleSettings(default).summary is None
