"""Cooperative and eager members in one group: never two owners, two rounds, one exact plan."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assignors import LeaderRackAwareCooperativeSticky
from assignors import Member as PureMember
from assignors.consumer_protocol import Subscription
from tests.support.kafka_python import (
    TOPIC,
    EndlessError,
    Group,
    Member,
    TwoOwnersError,
    sticky_rebalance,
)

racks = st.sampled_from(["a", "b", "c", None])
names = st.sampled_from([f"m{number}" for number in range(6)])
leaders = st.lists(racks, min_size=1, max_size=14)
members = st.dictionaries(
    names, st.builds(Member, eager=st.booleans(), rack=racks), min_size=1, max_size=5
)


@st.composite
def histories(draw: st.DrawFn) -> Group:
    """A group after joins, leaves, moved leaders and rebalances that some never hear the end of."""
    group = Group(draw(leaders), members=draw(members))
    for _ in range(draw(st.integers(0, 6))):
        step = draw(st.sampled_from(["join", "leave", "move", "rebalance", "settle"]))
        if step == "join":
            group.members[draw(names)] = Member(draw(st.booleans()), draw(racks))
        elif step == "leave" and len(group.members) > 1:
            del group.members[draw(st.sampled_from(sorted(group.members)))]
        elif step == "move":
            count = len(group.leaders)
            group.leaders = draw(st.lists(racks, min_size=count, max_size=count))
        elif step == "settle":
            group.settle()
        else:
            everyone = draw(st.permutations(sorted(group.members)))
            group.rebalance(everyone[: draw(st.integers(0, len(everyone)))])
    return group


@given(histories())
@settings(max_examples=200, deadline=None)
def test_whatever_fails_nothing_has_two_owners_and_two_rounds_settle(group: Group) -> None:
    believed = [
        PureMember(
            id=name,
            topics=frozenset({TOPIC}),
            rack=member.rack,
            owned={TOPIC: sorted(member.had)},
            generation=member.since,
        )
        for name, member in group.members.items()
    ]
    best = LeaderRackAwareCooperativeSticky().assign(believed, {TOPIC: group.leaders})
    before = {name: member.had for name, member in group.members.items()}
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
    # Where every claim is of one owner, those who stay give up no more than the plan's.
    if sum(map(len, before.values())) == len(frozenset().union(*before.values())):
        assert sum(len(before[name] - owned[name]) for name in before) == best.moved


def mixed(eager: str) -> Group:
    """Four members of 12 partitions, those named in ``eager`` eager."""
    group = Group(
        ["a", "b", "c"] * 4,
        members={f"m{number}": Member(str(number) in eager, "abca"[number]) for number in range(3)},
    )
    group.settle()
    return group


def test_an_eager_members_partitions_are_handed_on_at_once() -> None:
    group = mixed("012")
    group.members["m3"] = Member(eager=True, rack="a")
    assert group.settle() == 1


def test_a_cooperative_members_partitions_take_a_second_round_also_to_an_eager_one() -> None:
    group = mixed("")
    group.members["m3"] = Member(eager=True, rack="a")
    assert group.rebalance(["m0", "m1", "m2", "m3"]) == (True, 3)
    assert group.members["m3"].owned == frozenset()
    assert group.settle() == 1
    assert len(group.members["m3"].owned) == 3


def test_what_an_eager_member_had_while_another_was_given_it_is_that_others() -> None:
    group = mixed("0")
    had = group.members["m0"].had
    group.members["m3"] = Member(eager=False, rack="a")
    # m0 never hears of the generation in which m3 is given some of what it had.
    group.rebalance(["m1", "m2", "m3"])
    given_away = group.members["m3"].owned
    assert given_away & had
    group.settle()
    assert given_away <= group.members["m3"].owned


def test_fault_planted_not_to_withhold_what_is_owned() -> None:
    group = mixed("0")
    group.decide = dataclasses.replace(sticky_rebalance(), cooperative=False)
    group.members["m3"] = Member(eager=True, rack="a")
    with pytest.raises(TwoOwnersError):
        # m3 hears of its share first, while the cooperative ones still read.
        group.rebalance(["m3", "m0", "m1", "m2"])


def test_fault_planted_to_withhold_what_was_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Subscription, "held", property(lambda said: said.owned))
    group = mixed("012")
    group.members["m3"] = Member(eager=True, rack="a")
    with pytest.raises(EndlessError, match="nobody hands them on"):
        group.settle()
