"""`rackward audit` and `groups list` on live groups of several clients side by side.

Which partitions members get is chance, so figures are compared with counts made here.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor
from integration.cli.conftest import MakeTopic, wait_until_stable
from integration.support.clients import KafkaPython, MakeClient, PartitionId, partitions_of
from integration.support.collecting import has_new_protocol, new_protocol, with_stable_state
from integration.support.command_line import one_line, rackward, running
from integration.support.confluent import StockConfluent
from integration.support.groups import ConsumerGroup
from integration.support.program_clients import RANGE, Java
from integration.support.racks import off_rack
from integration.support.topics import committed, create_topic, delete_topic, fill, new_name
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

LEADERS = [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
"""Broker of each leader: six in rack a, four in b, two in c. So with a member in each rack, which
read four partitions each, two are off-rack at best."""
PARTITIONS, OFF_RACK_AT_BEST = len(LEADERS), 2
RACKS = ("a", "b", "c")
RECORDS, RECORD_BYTES = 20, 1000
PRICE, SECONDS_PER_MONTH = 0.02, 730 * 3600


def rack_aware(rack: str | None) -> list[Any]:
    return [LeaderRackAwareCooperativeStickyAssignor(rack=rack, refresh=None)]


class Kind(NamedTuple):
    """The client of a group, the beginning of its members' client ids, and what an audit has."""

    client: MakeClient
    prefix: str
    type: str
    protocol: str
    library: str
    led_by: str


KINDS = {
    "java": Kind(Java(RANGE), "consumer-java", "classic", "range", "Java", "client"),
    "confluent": Kind(
        StockConfluent("cooperative-sticky"),
        *("rdkafka", "classic", "cooperative-sticky", "librdkafka", "client"),
    ),
    "new": Kind(new_protocol, "rdkafka", "consumer", "uniform", "librdkafka", "brokers"),
    "rackward": Kind(
        KafkaPython(rack_aware),
        *("kafka-python-3", "classic", "leader-rack-aware-cooperative-sticky"),
        *("kafka-python", "rackward's assignor"),
    ),
}
if not has_new_protocol():
    del KINDS["new"]


@dataclass(frozen=True)
class Groups:
    """Groups of several clients, each with a topic of its own and a member in each rack."""

    cluster: Cluster
    groups: dict[str, ConsumerGroup]
    topics: dict[str, str]
    members: dict[str, dict[str, str]]

    @property
    def ids(self) -> dict[str, str]:
        return {kind: group.id for kind, group in self.groups.items()}

    def off_rack(self) -> dict[str, int]:
        """Return the off-rack partitions of each group, counted without rackward."""
        counts = {}
        for kind, group in self.groups.items():
            owned = group.settle(partitions_of(self.topics[kind], PARTITIONS), hold=0.0)
            counts[kind] = off_rack(self.cluster, owned, self.members[kind])
        return counts

    def audited(self, *arguments: object) -> tuple[dict[str, int], Any]:
        """Return the counts, and the JSON of an audit during which they stayed the same."""
        names = sorted(self.ids.values())
        return with_stable_state(
            self.off_rack,
            lambda: rackward(self.cluster, "audit", *names, "--json", *arguments).json,
        )


@pytest.fixture(scope="module")
def side_by_side(shared_three_brokers: Cluster) -> Iterator[Groups]:
    cluster = shared_three_brokers
    rows = [[leader, (leader + 1) % 3, (leader + 2) % 3] for leader in LEADERS]
    with ExitStack() as stack:
        groups, topics, members = {}, {}, {}
        for kind, of_kind in KINDS.items():
            topics[kind] = create_topic(cluster, new_name(f"audit-{kind}"), rows)
            stack.callback(delete_topic, cluster, topics[kind])
            fill(cluster, topics[kind], PARTITIONS, RECORDS, size=1000)
            group = ConsumerGroup(cluster, topics=[topics[kind]], client=of_kind.client)
            groups[kind] = stack.enter_context(group)
            members[kind] = {
                f"{of_kind.prefix}-{number}": rack for number, rack in enumerate(RACKS, 1)
            }
            for name, rack in members[kind].items():
                group.start(name, rack)
        for kind, group in groups.items():
            group.settle(partitions_of(topics[kind], PARTITIONS), hold=2.0)
        together = Groups(cluster, groups, topics, members)
        wait_until_stable(cluster, together.ids.values(), len(RACKS))
        yield together


def rows_of(document: Any, groups: Groups) -> dict[str, Any]:
    by_id = {row["group"]: row for row in document["groups"]}
    return {kind: by_id[name] for kind, name in groups.ids.items()}


def test_figures_of_groups_side_by_side(side_by_side: Groups) -> None:
    counted, document = side_by_side.audited()
    rows = rows_of(document, side_by_side)
    for kind, row in rows.items():
        described = row["type"], row["protocol"], row["led_by"]
        assert described == (KINDS[kind].type, KINDS[kind].protocol, KINDS[kind].led_by)
        assert [each["library"] for each in row["libraries"]] == [KINDS[kind].library]
        assert row["reason"] is None, kind
        assert row["partitions"] == PARTITIONS, kind
        assert row["now"]["off_rack"] == counted[kind], kind
        assert row["local"] == PARTITIONS - counted[kind], kind
        assert row["assignor"]["off_rack"] == OFF_RACK_AT_BEST, kind
        # Every partition has a replica in each rack.
        assert (row["layout"]["off_rack"], row["layout_proved"]) == (0, True), kind
        assert sum(each["count"] for each in row["findings"]) == counted[kind], kind
        # Each record is a kilobyte, and was written within the last hour.
        per_partition = row["bytes_per_second"] / PARTITIONS
        assert RECORDS * RECORD_BYTES <= per_partition * 3600 <= 1.2 * RECORDS * RECORD_BYTES
        crossing = row["now"]["crossing_bytes_per_second"]
        assert crossing == pytest.approx(per_partition * counted[kind], rel=0.01)
        cost = crossing / 1e9 * PRICE * SECONDS_PER_MONTH
        assert row["now"]["cost_per_month"] == pytest.approx(cost, abs=1e-4)
    assert counted["rackward"] == OFF_RACK_AT_BEST
    assert document["totals"]["now"]["off_rack"] == sum(counted.values())
    costs = [
        (-row["now"]["cost_per_month"], -row["now"]["crossing_bytes_per_second"], row["group"])
        for row in document["groups"]
    ]
    assert costs == sorted(costs)


def test_the_steps_are_commands_that_do_what_is_promised(side_by_side: Groups) -> None:
    counted, document = side_by_side.audited()
    for kind, row in rows_of(document, side_by_side).items():
        kinds = [step["kind"] for step in row["steps"]]
        name = side_by_side.ids[kind]
        helps = counted[kind] > OFF_RACK_AT_BEST and kind in ("java", "confluent")
        assert kinds == (["lead"] if helps else []) + (
            ["move-leaders"] if kind != "new" or counted[kind] else []
        ), kind
        for step in row["steps"]:
            command = step["lines"][0].split()
            if step["kind"] == "lead":
                assert command == ["rackward", "lead", name, "--take-over", "remove"]
            else:
                assert command[:4] == ["rackward", "leaders", "plan", name]
                if kind in ("new", "rackward"):
                    plan = rackward(side_by_side.cluster, *command[1:4], "--json").json
                    (locality,) = plan["localities"]
                    assert locality["after"] == PARTITIONS - row["layout"]["off_rack"]


def test_groups_are_listed_by_what_they_read_across_racks(side_by_side: Groups) -> None:
    names = sorted(side_by_side.ids.values())

    def listed() -> Any:
        return rackward(side_by_side.cluster, "groups", "list", *names, "--json").json

    counted, document = with_stable_state(side_by_side.off_rack, listed)
    rows = rows_of(document, side_by_side)
    assert {kind: row["now"]["off_rack"] for kind, row in rows.items()} == counted
    costs = [row["now"]["cost_per_month"] for row in document["groups"]]
    assert costs == sorted(costs, reverse=True)
    text = rackward(side_by_side.cluster, "groups", "list", *names).out
    assert all(name in text for name in names)
    for command in (("audit",), ("groups", "list")):
        absent = rackward(side_by_side.cluster, *command, names[0], "no-such-group", status=2)
        assert "no-such-group: the cluster has no such group" in one_line(absent)


def test_patterns_explain_several_groups(side_by_side: Groups) -> None:
    names = side_by_side.ids
    together = rackward(
        side_by_side.cluster,
        "groups",
        "explain",
        f"*{names['java'][6:]}*",
        names["rackward"],
        "--json",
    ).json
    assert {each["group"] for each in together["groups"]} == {names["java"], names["rackward"]}
    off = [each["off_rack"] for each in together["groups"]]
    assert off == sorted(off, reverse=True)
    shown = rackward(
        side_by_side.cluster, "groups", "explain", names["rackward"], names["java"]
    ).out
    assert shown.count("Locality now") == 2
    refused = rackward(side_by_side.cluster, "groups", "explain", "no-such-*", status=2)
    assert "no group matches it" in one_line(refused)


def test_ctrl_c_ends_the_measurement_with_what_there_is(side_by_side: Groups) -> None:
    name = side_by_side.ids["rackward"]
    with running(side_by_side.cluster, "audit", name, "--measure", "3600", "--json") as command:
        assert command.process.stderr is not None
        measuring = next(line for line in command.process.stderr if "Measuring" in line)
        assert "Ctrl-C ends it early" in measuring
        done = command.send(signal.SIGINT)
    assert done.status == 0, done
    document = json.loads(done.out)
    assert 0 < document["rates"]["measured_seconds"] < 3600
    (row,) = document["groups"]
    # Nothing is written or committed meanwhile.
    assert (row["bytes_per_second"], row["rate_source"]) == (0, "written")
    assert row["now"]["off_rack"] == OFF_RACK_AT_BEST


@pytest.mark.slow  # a figure per second: 13 % off on a machine with a load of 80
@pytest.mark.parametrize("commits", [True, False])
def test_measured_rates_are_those_produced(
    three_brokers: Cluster, make_topic: MakeTopic, commits: bool
) -> None:
    """Records are written between the two samples of a measurement, and it ends with Ctrl-C: so
    what it has to find is known, however fast the machine is."""
    cluster = three_brokers
    topic = make_topic(cluster, "measured", [[0], [1], [1]])
    # The member is in rack a: what broker 1 leads crosses.
    counts = {0: 1500, 1: 500, 2: 0}
    written = {(topic, partition): count for partition, count in counts.items() if count}
    fill(cluster, topic, 3, 10, size=1000)
    before = {(topic, partition): 10 for partition in counts}
    group = ConsumerGroup(cluster, topics=[topic], client=KafkaPython(rack_aware))
    with group:
        group.start("m1", "a", enable_auto_commit=commits)
        group.settle(set(before))
        if commits:
            await_commits(cluster, group.id, before)
        with running(cluster, "audit", group.id, "--measure", "3600", "--json") as command:
            assert command.process.stderr is not None
            assert any("Measuring" in line for line in command.process.stderr)
            produce(cluster, written)
            if commits:
                after = {tp: 10 + written.get(tp, 0) for tp in before}
                await_commits(cluster, group.id, after)
            # A difference in the duration of the two samples must not count for much.
            time.sleep(4)
            done = command.send(signal.SIGINT)
    assert done.status == 0, done
    document = json.loads(done.out)
    seconds = document["rates"]["measured_seconds"]
    (row,) = document["groups"]
    assert row["rate_source"] == ("committed" if commits else "written")
    total = RECORD_BYTES * sum(counts.values())
    assert row["bytes_per_second"] * seconds == pytest.approx(total, rel=0.1)
    crossing = row["now"]["crossing_bytes_per_second"]
    assert crossing * seconds == pytest.approx(RECORD_BYTES * counts[1], rel=0.1)


def produce(cluster: Cluster, counts: Mapping[PartitionId, int]) -> None:
    """Write so many incompressible records of a kilobyte to each partition."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 50})
    for (topic, partition), count in counts.items():
        for _ in range(count):
            producer.produce(topic, os.urandom(RECORD_BYTES), partition=partition)
    assert producer.flush(TEST_TIMEOUT) == 0


def await_commits(cluster: Cluster, group: str, expected: Mapping[PartitionId, int]) -> None:
    seen: list[Mapping[PartitionId, int]] = []

    def all_committed() -> bool:
        seen[:] = [committed(cluster, group)]
        return seen[0] == expected

    try:
        wait_until(all_committed, TEST_TIMEOUT, "all records are committed")
    except AssertionError as error:
        raise AssertionError(f"{error}: {seen}, expected {expected}") from None


@pytest.mark.new_protocol
def test_what_cannot_be_audited_is_a_line_with_the_reason(
    three_brokers: Cluster, make_topic: MakeTopic
) -> None:
    cluster = three_brokers
    kept, deleted = (make_topic(cluster, stem, [[0], [1], [2]]) for stem in ("kept", "deleted"))
    group = ConsumerGroup(cluster, topics=[kept, deleted], client=new_protocol)
    with group:
        group.start("m1")
        group.settle(partitions_of(kept, 3) | partitions_of(deleted, 3))
        rackless = audit_of(cluster, group.id)
        assert (rackless["rackless_members"], rackless["members"]) == (1, 1)
        assert rackless["now"]["cost_per_month"] == 0
        assert [step["kind"] for step in rackless["steps"]] == ["set-client-rack", "map-hosts"]
        mapped = audit_of(cluster, group.id, "--mapping", "127.0.0.0/8=b")
        assert (mapped["rackless_members"], mapped["now"]["off_rack"]) == (0, 4)
        delete_topic(cluster, deleted)
        wait_until(
            lambda: audit_of(cluster, group.id)["partitions"] == 3,
            TEST_TIMEOUT,
            "the audit has the partitions of the other topic only",
        )
    empty = audit_of(cluster, group.id)
    assert empty["now"] is None
    assert "no members" in empty["reason"]
    text = rackward(cluster, "audit", group.id).out
    assert "has no members" in text
    none = rackward(cluster, "audit", "no-such-group", status=2)
    assert "no-such-group: the cluster has no such group" in one_line(none)


def audit_of(cluster: Cluster, name: str, *arguments: str) -> Any:
    (row,) = rackward(cluster, "audit", name, "--json", *arguments).json["groups"]
    return row
