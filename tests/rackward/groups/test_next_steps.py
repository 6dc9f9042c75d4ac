"""The client of a group, and the next steps, in the words of that client."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from rack_traffic.advice import (
    MAX_GROUPS_IN_COMMAND,
    Library,
    StepKind,
    can_be_reassigned,
    join_steps,
    libraries_of,
)
from rackward.groups.next_steps import LedBy, led_by, next_steps
from rackward.kafka.groups import Group
from tests.support.described_groups import group as described_group
from tests.support.described_groups import member


def group(*client_ids: str, can_send_rack: bool | None = True, **fields: Any) -> Group:
    members = (
        member(f"{name}-{n}", client_id=name, can_send_rack=can_send_rack)
        for n, name in enumerate(client_ids)
    )
    return described_group(*members, **fields)


steps = partial(next_steps, racks=("az1", "az2"))


@pytest.mark.parametrize(
    ("client_id", "library"),
    [
        ("consumer-billing-3", Library.JAVA),
        ("connector-consumer-billing-3", Library.CONNECT),
        ("billing-7f-StreamThread-1-consumer", Library.STREAMS),
        ("rdkafka", Library.LIBRDKAFKA),
        ("kafka-python-3.0.12", Library.KAFKA_PYTHON),
        ("aiokafka-0.13.0", Library.AIOKAFKA),
        ("kgo", Library.FRANZ_GO),
        ("sarama", Library.SARAMA),
        ("reader@host (github.com/segmentio/kafka-go)", Library.KAFKA_GO),
        ("kafkajs", Library.KAFKAJS),
        ("billing-service", None),
        ("", None),
    ],
)
def test_libraries_by_default_client_id(client_id: str, library: Library | None) -> None:
    assert libraries_of(group(client_id)) == {library: 1}


def test_libraries_by_assignor_and_mixed_groups() -> None:
    assert libraries_of(group("any", protocol="stream")) == {Library.STREAMS: 1}
    assert libraries_of(group("any", protocol="RoundRobinAssigner")) == {Library.KAFKAJS: 1}
    assert libraries_of(group("any", protocol="rack-affinity")) == {Library.KAFKA_GO: 1}
    mixed = libraries_of(group("x", "rdkafka", "rdkafka"))
    assert list(mixed.items()) == [(Library.LIBRDKAFKA, 2), (None, 1)]


@pytest.mark.parametrize(
    ("it", "by", "follows"),
    [
        (group("x"), LedBy.CLIENT, True),
        (group("x", leader="rackward-lead-1"), LedBy.LEAD, True),
        (group("x", protocol="leader-rack-aware-range"), LedBy.RACKWARD, True),
        (group("x", protocol="uniform", type="consumer"), LedBy.BROKERS, False),
        (group("x", protocol="stream"), LedBy.CLIENT, False),
        (group("x", protocol="of-our-own-making"), LedBy.CLIENT, False),
        (group("x", protocol="of-our-own-making", leader="rackward-lead-1"), LedBy.LEAD, True),
    ],
)
def test_who_assigns(it: Group, by: LedBy, follows: bool) -> None:
    assert (led_by(it), can_be_reassigned(it)) == (by, follows)


@pytest.mark.parametrize(
    ("it", "kind", "lines"),
    [
        (
            group("consumer-g-1"),
            StepKind.LEAD,
            ("rackward lead g --take-over remove",),
        ),
        (
            group("rdkafka", protocol="cooperative-sticky"),
            StepKind.LEAD,
            (
                "rackward lead g --take-over remove",
                "from assignors.confluent import Consumer",
                '"partition.assignment.strategy": "leader-rack-aware-cooperative-sticky"',
            ),
        ),
        (
            group("kafka-python-3.0.12"),
            StepKind.USE_ASSIGNOR,
            (
                "from assignors.kafka_python import LeaderRackAwareRangeAssignor",
                'partition_assignment_strategy=[LeaderRackAwareRangeAssignor(rack="az1")]',
            ),
        ),
        (
            group("aiokafka-0.13.0", protocol="roundrobin"),
            StepKind.USE_ASSIGNOR,
            (
                "from assignors.aiokafka import LeaderRackAwareCooperativeStickyAssignor",
                "partition_assignment_strategy="
                '[LeaderRackAwareCooperativeStickyAssignor(rack="az1")]',
            ),
        ),
        (
            group("x", protocol="leader-rack-aware-range"),
            StepKind.REBALANCE,
            ("rackward groups rebalance g",),
        ),
    ],
)
def test_the_step_to_another_assignment(it: Group, kind: StepKind, lines: tuple[str, ...]) -> None:
    (step,) = steps(it, assignor_helps=True)
    assert (step.kind, step.lines) == (kind, lines)


def test_groups_that_cannot_be_led_get_leaders_only() -> None:
    for it in (
        group("x", protocol="uniform", type="consumer"),
        group("x", protocol="stream"),
        group("x", protocol="faust"),
    ):
        assert steps(it, assignor_helps=True) == ()
        (step,) = steps(it, assignor_helps=True, layout_helps=True)
        assert step.kind is StepKind.MOVE_LEADERS
        assert step.lines == (
            "rackward leaders plan g -o leaders.json",
            "rackward leaders apply leaders.json",
        )


def test_assignor_comes_first_and_commands_are_quoted() -> None:
    found = steps(
        group("consumer-g-1"),
        assignor_helps=True,
        layout_helps=True,
        sharing=("a b",),
        mapping="10.0.0.0/8=az1",
    )
    assert [step.lines[0] for step in found] == [
        "rackward lead g --take-over remove --mapping 10.0.0.0/8=az1",
        "rackward leaders plan 'a b' g --mapping 10.0.0.0/8=az1 -o leaders.json",
    ]
    many = tuple(f"g{n}" for n in range(MAX_GROUPS_IN_COMMAND + 5))
    (step,) = steps(group("consumer-g-1"), layout_helps=True, sharing=many)
    assert step.lines[0] == "rackward leaders plan g -o leaders.json"
    assert f"the {MAX_GROUPS_IN_COMMAND + 5} other groups" in step.text


def test_one_command_for_all_groups_of_a_step() -> None:
    found = [
        (name, step)
        for name in ("lead", "a b")
        for step in steps(group("consumer-g-1", id=name), assignor_helps=True, layout_helps=True)
    ]
    joined = [(names, step.lines[0]) for names, step in join_steps(found)]
    assert joined == [
        (["lead", "a b"], "rackward lead lead 'a b' --take-over remove"),
        (["lead"], "rackward leaders plan lead -o leaders.json"),
        (["a b"], "rackward leaders plan 'a b' -o leaders.json"),
    ]


@pytest.mark.parametrize(
    ("it", "kind", "line"),
    [
        (group("consumer-g-1"), StepKind.SET_CLIENT_RACK, "client.rack=az1"),
        (group("rdkafka"), StepKind.SET_CLIENT_RACK, '"client.rack": "az1"'),
        (group("kgo"), StepKind.SET_CLIENT_RACK, 'kgo.Rack("az1")'),
        (group("any"), StepKind.SET_CLIENT_RACK, "client.rack=az1"),
        (
            group("connector-consumer-sink-0"),
            StepKind.SET_CLIENT_RACK,
            "consumer.client.rack=az1",
        ),
        (
            group("x", protocol="leader-rack-aware-range"),
            StepKind.SET_CLIENT_RACK,
            "RACKWARD_RACK=az1",
        ),
        (
            group("kafka-python-3.0.12", can_send_rack=False),
            StepKind.USE_ASSIGNOR,
            "from assignors.kafka_python import LeaderRackAwareRangeAssignor",
        ),
        (group("kafkajs", can_send_rack=False), StepKind.MAP_HOSTS, "--mapping 10.0.0.1=RACK"),
        (group("any", can_send_rack=False), StepKind.MAP_HOSTS, "--mapping 10.0.0.1=RACK"),
    ],
)
def test_members_without_racks_get_them_first(it: Group, kind: StepKind, line: str) -> None:
    step, *others = steps(it, rackless=it.members, assignor_helps=True)
    assert (step.kind, step.lines[0]) == (kind, line)
    # A mapping needs no change of clients.
    last = others[-1] if others else step
    assert last.lines == ("--mapping 10.0.0.1=RACK",)
    mapped = steps(it, rackless=it.members, mapping="h=az2")[-1]
    assert mapped.lines == ("--mapping h=az2,10.0.0.1=RACK",)


def test_brokers_without_racks_come_before_all() -> None:
    it = group("consumer-g-1")
    (step,) = steps(it, rackless=it.members, rackless_brokers=(0, 2), racks=())
    assert (step.kind, step.text) == (
        StepKind.SET_BROKER_RACK,
        "set broker.rack of brokers 0, 2",
    )


def test_nothing_to_do() -> None:
    assert steps(group("consumer-g-1")) == ()
