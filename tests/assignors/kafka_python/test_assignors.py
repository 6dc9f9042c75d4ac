from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from assignors.consumer_protocol import write_user_data
from assignors.group_leader import Remarks
from assignors.group_leader.rebalance import plain_plan
from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.kafka_python import LeaderRackAwareRangeAssignor as Range
from assignors.model import Member, Plan
from placement_core import InvalidOptionError
from tests.support.kafka_python import (
    NO_LEADER,
    cluster_metadata,
    decoded,
    joined,
    subscription_bytes,
)

RACKS = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
SIX = [joined(f"m{i}", subscription_bytes(["t"], rack="aabbcc"[i])) for i in range(6)]
THIRTY_SIX = cluster_metadata(RACKS, {"t": [p * 5 % 6 for p in range(36)]})


def shares(answer: dict[str, Any]) -> dict[str, dict[str, list[int]]]:
    return {m: {t: list(ps) for t, ps in a.assigned_partitions} for m, a in answer.items()}


def handed_out(answer: dict[str, Any]) -> Counter[tuple[str, int]]:
    return Counter(
        (topic, partition)
        for topics in shares(answer).values()
        for topic, partitions in topics.items()
        for partition in partitions
    )


def every(topic: str, count: int) -> Counter[tuple[str, int]]:
    return Counter((topic, partition) for partition in range(count))


class Recorder:
    """Stands for the pure assignor where a test asks what it is given."""

    def __init__(self, answer: dict[str, dict[str, list[int]]] | Exception) -> None:
        self.answer = answer
        self.members: list[Member] = []
        self.leader_racks: Any = None
        self.weights: Any = None

    def assign(self, members: Any, leader_racks: Any, weights: Any = None) -> Plan:
        self.members, self.leader_racks, self.weights = list(members), leader_racks, weights
        if isinstance(self.answer, Exception):
            raise self.answer
        empty: dict[str, dict[str, list[int]]] = {m.id: {} for m in self.members}
        return Plan({**empty, **self.answer}, 0, (0,), 0, 0, {})


def replaced(strategy: Any, recorder: Recorder) -> Any:
    object.__setattr__(strategy.rebalance, "assignor", recorder)
    return strategy


@pytest.mark.parametrize("strategy", [Range, Sticky])
@pytest.mark.parametrize("form", [lambda member: member, decoded], ids=["bytes", "decoded"])
def test_even_leaders_are_all_read_locally(strategy: Any, form: Any) -> None:
    answer = strategy(rack="a").assign(THIRTY_SIX, [form(member) for member in SIX])
    assert handed_out(answer) == every("t", 36)
    for member, topics in shares(answer).items():
        leaders = {THIRTY_SIX._partitions["t"][p].leader_id for p in topics["t"]}
        assert len(topics["t"]) == 6
        assert {RACKS[leader] for leader in leaders} == {"aabbcc"[int(member[1])]}


def test_protocols_and_names() -> None:
    assert Range().supported_protocols() == [RebalanceProtocol.EAGER]
    both = [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]
    assert Sticky().supported_protocols() == both
    assert (Range.name, Sticky.name) == (
        "leader-rack-aware-range",
        "leader-rack-aware-cooperative-sticky",
    )


def test_what_a_member_says() -> None:
    strategy = Sticky(rack="az1")
    said = ConsumerProtocolSubscription.decode(strategy.metadata({"b", "a"}).encode())
    assert (said.version, said.topics, said.rack_id) == (3, ["a", "b"], "az1")
    assert (said.owned_partitions, said.generation_id) == ([], -1)


def test_without_a_seat_it_claims_its_last_assignment() -> None:
    strategy = Sticky(rack="a")
    answer = strategy.assign(THIRTY_SIX, SIX)
    strategy.on_assignment(answer["m0"], 7)
    said = ConsumerProtocolSubscription.decode(strategy.metadata({"t"}).encode())
    assert said.generation_id == 7
    assert [(h.topic, h.partitions) for h in said.owned_partitions] == list(
        shares(answer)["m0"].items()
    )
    assert strategy.metadata({"other"}).owned_partitions == []


def test_an_eager_member_claims_nothing() -> None:
    strategy = Range(rack="a")
    strategy.on_assignment(strategy.assign(THIRTY_SIX, SIX)["m0"], 7)
    assert strategy.metadata({"t"}).owned_partitions == []


def test_a_rack_that_is_no_string_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="3"):
        Sticky(rack=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", [lambda member: member, decoded], ids=["bytes", "decoded"])
def test_members_of_every_version_reach_the_assignor(form: Any) -> None:
    recorder = Recorder({})
    members = [
        joined(
            f"v{version}",
            subscription_bytes(
                ["t"], version=version, rack="a", owned={"t": [version]}, generation=4,
                user_data=write_user_data("u", {"t": [9]}, 2),
            ),
            instance_id=f"static-{version}",
        )
        for version in range(4)
    ]  # fmt: skip
    replaced(Sticky(), recorder).assign(THIRTY_SIX, [form(member) for member in members])
    found = [(m.rack, list(m.owned["t"]), m.generation, m.instance_id) for m in recorder.members]
    assert found == [
        ("u", [9], 2, "static-0"),
        ("u", [1], 2, "static-1"),
        ("u", [2], 4, "static-2"),
        ("a", [3], 4, "static-3"),
    ]


def test_leaderless_partitions_and_rackless_brokers_have_no_rack() -> None:
    cluster = cluster_metadata({0: "a", 1: None}, {"t": [0, 1, NO_LEADER, 7]})
    recorder = Recorder({})
    replaced(Sticky(), recorder).assign(cluster, SIX[:1])
    assert recorder.leader_racks == {"t": ["a", None, None, None]}
    assert handed_out(Sticky().assign(cluster, SIX)) == every("t", 4)


def test_gaps_in_partition_numbers() -> None:
    cluster = cluster_metadata(RACKS, {"t": {0: 0, 3: 2, 9: 4}, "u": [0, 2]})
    recorder = Recorder({"m0": {"t": [0, 2], "u": [1]}, "m1": {"t": [1], "u": [0]}})
    members = [
        joined("m0", subscription_bytes(["t", "u"], owned={"t": [9, 5], "u": [1]}, generation=1)),
        joined("m1", subscription_bytes(["t", "u"])),
    ]
    answer = replaced(Sticky(), recorder).assign(cluster, members)
    assert recorder.leader_racks == {"t": ["a", "b", "c"], "u": ["a", "b"]}
    assert {t: list(ps) for t, ps in recorder.members[0].owned.items()} == {"t": [2], "u": [1]}
    assert shares(answer) == {"m0": {"t": [0, 9], "u": [1]}, "m1": {"t": [3], "u": [0]}}


def test_weights_reach_the_assignor_and_their_faults_do_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def weights(topic: str) -> Any:
        if topic == "bad":
            raise RuntimeError("no")
        return {"t": [1, 2.5], "none": None, "odd": ["x"]}[topic]

    cluster = cluster_metadata(RACKS, {"t": [0, 1], "none": [0], "odd": [0], "bad": [0]})
    members = [joined("m", subscription_bytes(["t", "none", "odd", "bad"]))]
    for given_weights in (weights, {"t": [1, 2.5]}):
        recorder = Recorder({})
        strategy = replaced(Sticky(weights=given_weights), recorder)
        for _ in range(2):
            strategy.assign(cluster, members)
        assert recorder.weights == {"t": [1.0, 2.5]}
    assert len([r for r in caplog.records if r.getMessage().startswith("no weights")]) == 2


def test_one_line_per_assignment(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rackward.assignors")
    Sticky(rack="a").assign(THIRTY_SIX, SIX)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(
        "leader-rack-aware-cooperative-sticky: 6 members, 1 topics, 36 partitions,"
        " off-rack 0 of at best 0, moved 0, withheld 0, "
    )
    assert line.endswith(" ms")


def test_odd_things_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    cluster = cluster_metadata({0: "a", 1: None}, {"t": [0, 1]})
    members = [
        joined("m1-" + "0" * 36, subscription_bytes(["t", "absent"], rack="x")),
        joined("m2-" + "0" * 36, subscription_bytes(["t"], user_data=b"\xff\0garbage")),
        joined("m3-" + "0" * 36, b"\0\1\0"),
    ]
    strategy = Sticky(rack="a")
    for _ in range(3):
        strategy.assign(cluster, members)
    said = [record.getMessage() for record in caplog.records]
    assert sorted(line.split(":")[0] for line in said) == [
        "brokers without broker.rack; what they lead counts as near to everyone",
        "member m2-" + "0" * 36 + " sent what cannot be read, so that part counts for nothing",
        "member m3-" + "0" * 36 + " sent what cannot be read, so that part counts for nothing",
        "members without a rack read across racks",
        "no member is in a rack of the brokers",
        "topic absent is subscribed to but has no metadata yet",
    ]


def test_the_memory_of_what_was_said_is_bounded() -> None:
    remarks = Remarks()
    for cause in range(5000):
        remarks.once(cause, "odd", level=logging.DEBUG)
    assert len(remarks._said) == 1000


def test_a_member_that_names_a_thousand_topics_fills_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    member = joined("m", subscription_bytes(["t", *(f"x{i}" for i in range(1000))], rack="a"))
    strategy = Sticky(rack="a")
    for _ in range(2):
        assert handed_out(strategy.assign(THIRTY_SIX, [member])) == every("t", 36)
    assert len(caplog.records) == 51


def test_a_failing_assignor_still_gives_a_plan(caplog: pytest.LogCaptureFixture) -> None:
    strategy = replaced(Sticky(), Recorder(ZeroDivisionError("planted")))
    for _ in range(2):
        answer = strategy.assign(THIRTY_SIX, SIX)
    assert handed_out(answer) == every("t", 36)
    assert {len(topics["t"]) for topics in shares(answer).values()} == {6}
    (record,) = [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert record.exc_info is not None
    assert "planted" in caplog.text


def test_the_plain_plan_comes_to_rest() -> None:
    leaders: dict[str, list[str | None]] = {"t": [None] * 7, "u": [None] * 3}
    before: dict[str, dict[str, list[int]]] = {}
    members = [Member(f"m{i}", frozenset({"t"} if i == 0 else {"t", "u"})) for i in range(3)]
    for generation in range(3):
        plan = plain_plan(members, leaders)
        assert sum(len(ps) for topics in plan.values() for ps in topics.values()) == 10
        assert "u" not in plan["m0"]
        assert generation == 0 or plan == before
        before = plan
        members = [Member(m.id, m.topics, owned=plan[m.id], generation=generation) for m in members]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.binary(max_size=60), st.booleans()), min_size=1, max_size=5))
def test_whatever_peers_send_every_partition_goes_to_one_subscriber(peers: Any) -> None:
    cluster = cluster_metadata(RACKS, {"t": [0, 2, 4, NO_LEADER]})
    members = [joined("good", subscription_bytes(["t"], rack="a"))]
    members += [
        joined(f"p{i}", data if raw else subscription_bytes(["t"], user_data=data))
        for i, (data, raw) in enumerate(peers)
    ]
    for strategy in (Range(), Sticky()):
        answer = strategy.assign(cluster, members)
        assert answer.keys() == {member.member_id for member in members}
        assert handed_out(answer) == every("t", 4)
