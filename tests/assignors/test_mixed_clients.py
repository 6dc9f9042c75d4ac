"""Groups of cooperative and eager members: unique owners, at most two rounds, optimal plans."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assignors import LeaderRackAwareCooperativeSticky, Member
from assignors.group import Members
from tests.support.group_leader import (
    TOPIC,
    ModelGroup,
    ModelMember,
    NotSettledError,
    TwoOwnersError,
    sticky_rebalance,
)

racks = st.sampled_from(["a", "b", "c", None])
names = st.sampled_from([f"m{number}" for number in range(6)])
leaders = st.lists(racks, min_size=1, max_size=14)
members = st.dictionaries(
    names, st.builds(ModelMember, eager=st.booleans(), rack=racks), min_size=1, max_size=5
)


@st.composite
def histories(draw: st.DrawFn) -> ModelGroup:
    """Draw a group after joins, leaves, moved leaders and rebalances that some members miss."""
    group = ModelGroup(draw(leaders), members=draw(members))
    for _ in range(draw(st.integers(0, 6))):
        step = draw(st.sampled_from(["join", "leave", "move", "lead", "rebalance", "settle"]))
        if step == "join":
            group.members[draw(names)] = ModelMember(draw(st.booleans()), draw(racks))
        elif step == "leave" and len(group.members) > 1:
            del group.members[draw(st.sampled_from(sorted(group.members)))]
        elif step == "move":
            count = len(group.leaders)
            group.leaders = draw(st.lists(racks, min_size=count, max_size=count))
        elif step == "lead":
            # The next leader has not made the last assignment.
            group.last = None
        elif step == "settle":
            group.settle()
        else:
            receivers = draw(st.permutations(sorted(group.members)))
            group.rebalance(receivers[: draw(st.integers(0, len(receivers)))])
    return group


@given(histories())
@settings(max_examples=200, deadline=None)
def test_group_settles_in_two_rounds_after_any_failures(
    group: ModelGroup,
) -> None:
    claiming = [
        Member(
            id=name,
            topics=frozenset({TOPIC}),
            rack=member.rack,
            owned={TOPIC: sorted(member.last)},
            generation=member.generation,
        )
        for name, member in group.members.items()
    ]
    best = LeaderRackAwareCooperativeSticky().assign(claiming, {TOPIC: group.leaders})
    before = {name: member.last for name, member in group.members.items()}
    group.settle()
    owned = group.owned()
    assert sorted(p for ps in owned.values() for p in ps) == list(range(len(group.leaders)))
    off_rack = sum(
        group.leaders[p] is not None and group.leaders[p] != group.members[name].rack
        for name, ps in owned.items()
        for p in ps
    )
    assert off_rack == best.off_rack == best.optimum
    assert sorted(map(len, owned.values())) == sorted(best.loads.values())
    # If no partition is claimed twice, members revoke no more than the plan moves.
    if sum(map(len, before.values())) == len(frozenset().union(*before.values())):
        assert sum(len(before[name] - owned[name]) for name in before) == best.moved


def mixed(eager: str) -> ModelGroup:
    """Return three settled members of 12 partitions; those with a number in ``eager`` are eager."""
    group = ModelGroup(
        ["a", "b", "c"] * 4,
        members={
            f"m{number}": ModelMember(str(number) in eager, "abca"[number]) for number in range(3)
        },
    )
    group.settle()
    return group


def test_partitions_of_eager_members_are_assigned_at_once() -> None:
    group = mixed("012")
    group.members["m3"] = ModelMember(eager=True, rack="a")
    assert group.settle() == 1


def test_cooperative_partitions_are_withheld_from_eager_one() -> None:
    group = mixed("")
    group.members["m3"] = ModelMember(eager=True, rack="a")
    assert group.rebalance(["m0", "m1", "m2", "m3"]) == (True, 3)
    assert group.members["m3"].owned == frozenset()
    assert group.settle() == 1
    assert len(group.members["m3"].owned) == 3


def test_a_stale_claim_of_an_eager_member_does_not_count() -> None:
    group = mixed("0")
    stale_claims = group.members["m0"].last
    group.members["m3"] = ModelMember(eager=False, rack="a")
    # m0 misses the generation in which m3 is assigned some of its partitions.
    group.rebalance(["m1", "m2", "m3"])
    reassigned = group.members["m3"].owned
    assert reassigned & stale_claims
    group.settle()
    assert reassigned <= group.members["m3"].owned


def test_model_detects_owned_partitions_not_withheld() -> None:
    group = mixed("0")
    group.decide = dataclasses.replace(sticky_rebalance(), cooperative=False)
    group.members["m3"] = ModelMember(eager=True, rack="a")
    with pytest.raises(TwoOwnersError):
        # m3 receives its assignment first, while the cooperative members still read.
        group.rebalance(["m3", "m0", "m1", "m2"])


def test_model_detects_released_partitions_withheld(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Members, "claims_while_joining", property(lambda self: self.claims))
    group = mixed("012")
    group.members["m3"] = ModelMember(eager=True, rack="a")
    with pytest.raises(NotSettledError, match="no rebalance is requested"):
        group.settle()
