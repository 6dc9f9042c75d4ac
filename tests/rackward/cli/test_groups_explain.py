"""Explained groups: what cannot be explained, the screen in 80 columns, and the JSON."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from rich.console import Console

from placement_core import ClusterView, InvalidOptionError
from rackward.admin.groups import Group, GroupMember
from rackward.cli.render.explanation import explanation_json, show_explanation
from rackward.group_explanation import (
    ExplainedGroup,
    RackShare,
    check_explainable,
    explained,
    topics_read,
)
from rackward.group_readers import racks_of_members
from tests.support.cluster_states import state

TOPIC = "orders.of-a-rather-long-name-as-they-come.in-production"
LED = {"a": (0, 2, 4), "b": (2, 4, 0), "c": (4, 0, 2)}


def member(name: str, rack: str | None, share: Mapping[str, Sequence[int]]) -> GroupMember:
    return GroupMember(
        id=f"{name}-3d8985c8-8135-4f9e-ac9d-98ba7dfe547c",
        instance_id=None,
        client_id=name,
        host="/10.0.0.7",
        rack=rack,
        topics=frozenset({TOPIC}),
        assignment=share,
    )


def group(*members: GroupMember, protocol: str = "leader-rack-aware-cooperative-sticky") -> Group:
    return Group("billing", "classic", "Stable", "consumer", protocol, None, members)


LOPSIDED = group(
    member("a1", "a", {TOPIC: (0, 1, 2, 3)}),
    member("b1", "b", {TOPIC: (4, 5, 6, 10)}),
    member("c1", "c", {TOPIC: (7, 8, 9, 11)}),
)
VIEW = state({TOPIC: [*([LED["a"]] * 10), LED["b"], LED["c"]]}).view


def of(found: Group, view: ClusterView = VIEW, mapping: str | None = None) -> ExplainedGroup:
    return explained(found, view, racks_of_members("--mapping", mapping))


def screen(found: ExplainedGroup, mapping: str | None = None, width: int = 80) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, markup=False, color_system=None)
    show_explanation(found, console, mapping)
    return out.getvalue()


def test_the_screen_says_why_and_what_would_mend_it_in_80_columns() -> None:
    text = screen(of(LOPSIDED))
    assert max(map(len, text.splitlines())) <= 80
    said = " ".join(text.split())
    assert "Group billing: 3 members in 3 racks, 12 partitions of 1 topic" in said
    assert "Locality now 50.0 % 6 of 12 partitions off-rack" in said
    assert "At best 50.0 % 6 off-rack, in balance" in said
    assert "rackward leaders plan --group billing -o leaders.json" in said
    plain = " ".join(screen(of(LOPSIDED), width=400).split())
    assert "Rack a leads 10 partitions, and its member carries 4 in balance" in plain
    assert "Move 3 leaders to b and 3 to c: 0 off-rack at best" in plain
    assert f"{TOPIC}: 4-9" in plain


def test_shares_of_racks() -> None:
    assert of(LOPSIDED).shares() == [
        RackShare("a", 10, 1, 4, 4),
        RackShare("b", 1, 1, 4, 1),
        RackShare("c", 1, 1, 4, 1),
    ]


def test_a_group_that_is_local_is_told_so() -> None:
    view = state({TOPIC: [LED["a"]] * 4 + [LED["b"]] * 3 + [LED["c"]] * 3 + [LED["b"], LED["c"]]})
    text = screen(of(LOPSIDED, view.view))
    assert "Every partition is read in its leader's rack." in text
    assert "leaders plan" not in text


def test_members_that_do_not_say_their_rack_can_be_mapped() -> None:
    silent = replace(
        LOPSIDED,
        protocol="range",
        members=tuple(replace(each, rack=None) for each in LOPSIDED.members),
    )
    text = " ".join(screen(of(silent), width=400).split())
    assert "3 members of this group do not say their rack: see --mapping" in text
    assert "The 3 members that read them do not say where they are" in text
    mapping = "10.0.0.0/8=b"
    found = of(silent, mapping=mapping)
    assert found.silent == 0
    text = screen(found, mapping, width=400)
    assert "rack a leads 10 partitions, and no member is there" in text.replace("Rack", "rack")
    assert f"leaders plan --group billing --mapping {mapping} -o leaders.json" in text


def test_another_assignor_is_named_and_who_should_read_instead() -> None:
    view = state({TOPIC: [LED["abc"[p % 3]] for p in range(12)]}).view
    found = of(replace(LOPSIDED, protocol="range"), view)
    text = " ".join(screen(found, width=400).split())
    assert "Locality now 50.0 % 6 of 12 partitions off-rack" in text
    assert "The group's assignor, range, does not look at the racks of leaders" in text
    assert "Assign by leader-rack-aware-range: 0 off-rack at best" in text
    (finding,) = explanation_json(found)["findings"]
    assert finding["reason"] == "not-optimal"
    assert len(finding["better"]) == finding["count"] == 6
    names = {each.id: each.rack for each in LOPSIDED.members}
    assert all(names[each["member"]] == "abc"[each["partition"] % 3] for each in finding["better"])
    ours = " ".join(screen(of(LOPSIDED, view), width=400).split())
    assert "A rebalance, such as when a member restarts: 0 off-rack at best" in ours


def test_leaders_without_rack_and_partitions_without_leader_are_no_ones_fault() -> None:
    racks = ("a", None, "b", "b", "c", "c")
    broken = state({TOPIC: [LED["a"], (1,), *([LED["a"]] * 8), LED["b"], (5,)]}, racks, down=[5])
    found = of(LOPSIDED, broken.view)
    told = {each["reason"]: each for each in explanation_json(found)["findings"]}
    assert told["rackless-broker"]["partitions"] == {TOPIC: [1]}
    assert told["rackless-broker"]["remedies"][0]["brokers"] == [1]
    assert told["no-leader"]["partitions"] == {TOPIC: [11]}
    assert not told["no-leader"]["off_rack"]
    assert found.found.unknown == 2


def test_leaders_that_cannot_move_for_want_of_a_replica_are_counted() -> None:
    view = state({TOPIC: [*([(0, 1)] * 10), LED["b"], LED["c"]]}).view
    text = " ".join(screen(of(LOPSIDED, view), width=400).split())
    assert "Move 3 leaders to b and 3 to c: 0 off-rack at best (6 have no replica there)" in text


def test_what_a_pattern_matched_counts_as_subscribed() -> None:
    members = tuple(replace(each, topics=frozenset()) for each in LOPSIDED.members)
    found = replace(LOPSIDED, members=members)
    assert topics_read(found) == {TOPIC}
    assert of(found).found == of(LOPSIDED).found


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "there is no such group"),
        (replace(LOPSIDED, state="Empty", members=()), "has no members now (state Empty)"),
        (replace(LOPSIDED, state="Dead", members=()), "has no members now (state Dead)"),
        (replace(LOPSIDED, state="PreparingRebalance"), "is rebalancing"),
        (replace(LOPSIDED, state="Reconciling", type="consumer"), "is rebalancing"),
        (replace(LOPSIDED, protocol_type="connect", members=()), "is one of connect"),
    ],
)
def test_what_cannot_be_explained_is_refused_in_one_line(found: Group | None, said: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"^group billing") as refused:
        check_explainable("billing", found)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
