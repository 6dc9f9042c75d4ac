"""What a group has to change for a scenario, in the words of the audit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assignors import Member
from rack_traffic.advice import OWN_PROTOCOLS, MemberClient, assignor_step, steps_text
from rack_traffic.what_if.cases import GroupCase, ScenarioAssignment
from rack_traffic.what_if.scenarios import change_text
from rackward.groups.next_steps import next_steps
from rackward.kafka.groups import Group, GroupMember

CLIENTS = {
    "java": "consumer-g-1",
    "librdkafka": "rdkafka",
    "python": "kafka-python-3.0.12",
    "other": "billing",
}


def case(client_id: str, assignor: str = "range", rack: str | None = "a") -> GroupCase:
    return GroupCase(
        cluster="c",
        group="g",
        assignor=assignor,
        hours=1.0,
        members=(Member("m", frozenset("t"), rack),),
        partitions={},
        racks={0: "a", 1: "b"},
        clients={"m": MemberClient("m", client_id, "/10.0.0.5", can_send_rack=None)},
    )


def text(group: GroupCase, scenario: str, layout: tuple[str, ...] = ("g",)) -> str | None:
    assignment = ScenarioAssignment(scenario, "", np.array([], np.int64), (), leader_moves=3)
    return change_text(group, assignment, layout)


@pytest.mark.parametrize("client", CLIENTS)
def test_the_audit_says_the_same_of_a_live_group(client: str) -> None:
    member = GroupMember("m", None, CLIENTS[client], "/10.0.0.5")
    live = Group("g", "classic", "Stable", "consumer", "range", 1, (member,))
    audited = steps_text(next_steps(live, racks=("RACK",), assignor_helps=True))
    assert text(case(CLIENTS[client]), "rackward_range") == audited
    assert audited == steps_text([assignor_step(live)])


def test_the_first_change_of_a_java_group_is_to_lead_it() -> None:
    """Java does not have rackward's assignors."""
    java = case(CLIENTS["java"])
    lead = "run rackward lead: rackward lead g --take-over remove"
    assert text(java, "rackward_range") == lead
    sticky = text(java, "rackward_cooperative_sticky")
    assert sticky == (
        "change the assignor of all members to cooperative-sticky (docs/rolling-change.md); then "
        + lead
    )
    # Weights are given to an assignor in the members.
    assert text(java, "rackward_by_bytes") is None
    by_bytes = text(case(CLIENTS["python"]), "rackward_by_bytes")
    assert by_bytes is not None
    assert "weights" in by_bytes
    assert "LeaderRackAwareCooperativeStickyAssignor" in by_bytes
    assert not any(name in str(sticky) for name in OWN_PROTOCOLS)


def test_layouts_are_one_command_for_all_groups() -> None:
    java = case(CLIENTS["java"], "cooperative-sticky")
    first = text(java, "rackward_after_leader_layout", ("g", "h"))
    assert first == (
        "run rackward lead: rackward lead g --take-over remove; then move 3 partition leaders to "
        "the racks of the members: rackward leaders plan g h -o leaders.json; "
        "rackward leaders apply leaders.json"
    )
    assert text(java, "leader_layout", ("a", "g")) == "with the leader layout of group a"


def test_followers_apache_and_no_change() -> None:
    java = case(CLIENTS["java"])
    assert text(java, "as_is") == "no change"
    assert text(java, "apache_range") is None
    followers = text(java, "follower_fetching")
    assert followers is not None
    assert followers.startswith("set the replica selector of every broker: replica.selector.class=")
    assert followers.endswith("client.rack=a")
    selecting = replace(java, selecting=frozenset({0, 1}))
    assert str(text(selecting, "follower_fetching")).startswith("set client.rack")


@pytest.mark.parametrize("scenario", ["as_is", "rackward_range"])
def test_members_without_a_rack_get_one_first(scenario: str) -> None:
    shown = text(case(CLIENTS["java"], rack=None), scenario)
    assert shown is not None
    assert shown.startswith("set client.rack of each member to the broker.rack of its host (a, b)")
    assert "--mapping 10.0.0.5=RACK" in shown
