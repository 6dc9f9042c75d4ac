"""Members that claim what they never had, or do not revoke: others get those partitions in time."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assignors import LeaderRackAwareCooperativeSticky, Member
from assignors.encoding import read_members
from assignors.group import AssignedPartitions, Claims
from assignors.group_leader import GroupContext
from assignors.group_leader.ownership import (
    MAX_REVOCATION_TIMEOUTS,
    Ownership,
    Withholding,
    withhold,
)
from assignors.group_leader.rebalance import Leadership
from tests.support.group_leader import (
    TOPIC,
    FalseMember,
    ModelGroup,
    ModelMember,
    TwoOwnersError,
    joined_member,
    leaders_in,
    sticky_protocol,
)

Claimed = Mapping[str, tuple[Sequence[int], int]]
"""Member id to claimed partitions of topic t, and the generation of these."""

racks = st.sampled_from(["a", "b", "c", None])
names = st.sampled_from([f"m{number}" for number in range(5)])
claims = st.dictionaries(
    st.sampled_from([TOPIC, "other"]), st.lists(st.integers(-1, 12), max_size=14), max_size=2
)
false_members = st.builds(
    FalseMember,
    eager=st.just(False),
    rack=racks,
    subscribes=st.booleans(),
    claims=claims,
    claimed=st.sampled_from([-1, 0, 1, 3, 7, 2**31 - 1]),
)


def member(rack: str | None = "a") -> ModelMember:
    return ModelMember(eager=False, rack=rack)


def claims_everything(count: int = 12, claimed: int = 2**31 - 1) -> FalseMember:
    return FalseMember(
        eager=False, rack="a", subscribes=False, claims={TOPIC: range(count)}, claimed=claimed
    )


def settled(*racks_of: str) -> ModelGroup:
    """Return a settled group of 12 partitions; racks by member, m0, m1 and so on."""
    group = ModelGroup(
        ["a", "b", "c"] * 4, members={f"m{n}": member(rack) for n, rack in enumerate(racks_of)}
    )
    group.settle()
    return group


def all_read(group: ModelGroup) -> bool:
    owned = [p for each in group.members.values() for p in each.owned]
    return sorted(owned) == list(range(len(group.leaders)))


# Whole groups.


def test_what_a_new_member_claims_is_not_withheld() -> None:
    group = settled("a", "b")
    group.members["x"] = claims_everything()
    group.members["m2"] = member("c")
    # Two rounds, as without that member: m2 gets what the others have revoked.
    group.settle(rounds=2)
    assert all_read(group)
    assert len(group.members["m2"].owned) == 4


def test_new_leader_waits_for_two_timeouts() -> None:
    group = settled("a", "b")
    group.members["x"] = claims_everything()
    group.leadership.follow()
    del group.members["m1"]
    withheld = []
    for _ in range(MAX_REVOCATION_TIMEOUTS + 1):
        _, count = group.rebalance(sorted(group.members))
        withheld.append(count)
        group.time_out()
    # What m1 had is withheld from m0, which keeps its own.
    assert withheld == [6, 6, 0]
    assert all_read(group)


def test_unrevoked_claim_expires_after_two_timeouts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    group = settled("a", "b")
    had = sorted(group.members["m1"].owned)
    group.members["m1"] = FalseMember(
        eager=False, rack="b", claims={TOPIC: had}, claimed=group.generation
    )
    group.members["m2"] = member("c")
    # The others revoke and rejoin; time passes only afterwards.
    group.rebalance(["m0", "m1", "m2"])
    _, before = group.rebalance(["m0", "m1", "m2"])
    for _ in range(MAX_REVOCATION_TIMEOUTS):
        assert before > 0
        assert not ignored_claims(caplog)
        group.time_out()
        _, before = group.rebalance(["m0", "m1", "m2"])
    assert before == 0
    assert len(group.members["m2"].owned) == 4
    # And so it stays: there is nothing to wait for.
    assert group.rebalance(["m0", "m1", "m2"]) == (False, 0)
    assert ignored_claims(caplog) == [
        "ignoring claims of partitions that members never had or do not revoke: m1"
    ]


def ignored_claims(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if message.startswith("ignoring claims")]


def test_claims_of_restarted_static_member_are_withheld() -> None:
    group = settled("a", "b")
    group.members["m1"].instance = "static"
    group.rebalance(["m0", "m1"])
    group.restart("m1", "m9")
    group.members["m2"] = member("c")
    assert group.rebalance(["m2", "m0", "m9"]) == (True, 4)
    group.settle()
    assert all_read(group)


def test_rebalances_without_timeout_do_not_expire_claims() -> None:
    """A member that misses assignments still reads."""
    group = settled("a", "b")
    group.members["m2"] = member("c")
    for _ in range(10):
        group.rebalance(["m0", "m2"])
    assert len(group.members["m1"].owned) == 6
    group.settle()
    assert all_read(group)


@st.composite
def histories(draw: st.DrawFn) -> ModelGroup:
    """Draw a group with false members, after assignments that some members missed.

    At a revocation timeout every member has received the assignment, except one whose request was
    lost, which happens to no member twice in succession.
    """
    count = draw(st.integers(1, 12))
    group = ModelGroup(
        draw(st.lists(racks, min_size=count, max_size=count)),
        members={"m0": member(), **draw(st.dictionaries(names, st.builds(member, racks)))},
    )
    missed: set[str] = set()
    for number in range(draw(st.integers(1, 10))):
        step = draw(
            st.sampled_from(["join", "leave", "restart", "false", "move", "lead", "rebalance"])
        )
        if step == "join":
            instance = draw(st.sampled_from([None, f"static-{number}"]))
            group.members[f"n{number}"] = replace(member(draw(racks)), instance=instance)
        elif step == "restart":
            static = [name for name, each in group.members.items() if each.instance]
            if static:
                group.restart(draw(st.sampled_from(static)), f"r{number}")
        elif step == "false":
            # It may have been a true member before.
            name = draw(st.sampled_from([f"x{number}", *sorted(group.members)[1:]]))
            group.members[name] = draw(false_members)
        elif step == "leave" and len(group.members) > 1:
            del group.members[draw(st.sampled_from(sorted(group.members)[1:]))]
        elif step == "move":
            group.leaders = draw(st.lists(racks, min_size=count, max_size=count))
        elif step == "lead":
            group.leadership.follow()
        else:
            order = draw(st.permutations(sorted(group.members)))
            times_out = draw(st.booleans())
            received = draw(st.integers(0, len(order)))
            late = [name for name in order[received:] if times_out and name in missed]
            group.rebalance([*order[:received], *late])
            missed = set(order[received:]) - set(late) if times_out else missed
            if times_out:
                group.time_out()
    return group


@given(histories())
@settings(max_examples=100, deadline=None)
def test_honest_members_never_share_or_lose_partitions(group: ModelGroup) -> None:
    timeouts = 0
    for _ in range(4 * (MAX_REVOCATION_TIMEOUTS + 1)):
        again, withheld = group.rebalance(sorted(group.members))
        if not again and not withheld:
            break
        if not again:
            group.time_out()
            timeouts += 1
    assert (again, withheld) == (False, 0)
    assert timeouts <= MAX_REVOCATION_TIMEOUTS
    # Everything is assigned; a false member that subscribes gets its share.
    assigned = {name: topics.get(TOPIC, []) for name, topics in group.assigned.items()}
    assert sorted(p for ps in assigned.values() for p in ps) == list(range(len(group.leaders)))
    for name, each in group.members.items():
        assert isinstance(each, FalseMember) or each.owned == frozenset(assigned[name])


# The state between the rebalances of one consumer.


def test_leader_remembers_assignment_until_it_follows() -> None:
    leadership, protocol = Leadership(), sticky_protocol()
    leaders = leaders_in(t=["a", "b"])
    false = joined_member("x", owned={"t": [0, 1]}, topics=["u"])

    def withheld(generation: int) -> int:
        members = read_members([joined_member("m", "a"), false])
        context = GroupContext("g", generation)
        return leadership.assign(protocol, members, leaders, frozenset(), context, 0.0).withheld

    assert withheld(1) == 2
    leadership.on_revocation_timeout(GroupContext("g", 0), 2)
    assert withheld(2) == 2
    leadership.on_revocation_timeout(GroupContext("g", 2), 2)
    assert withheld(3) == 2
    leadership.on_revocation_timeout(GroupContext("g", 3), 2)
    assert withheld(4) == 0
    assert withheld(5) == 0
    leadership.follow()
    assert withheld(7) == 2


# Single decisions.


def decide(
    planned: Mapping[str, Sequence[int]],
    claimed: Claimed,
    last: Ownership | None = None,
    generation: int = 8,
) -> Withholding:
    """Return what is withheld of a plan of the partitions of topic t."""
    ids = sorted({*planned, *claimed})
    owner = {p: ids.index(m) for m, partitions in planned.items() for p in partitions}
    assigned = np.array([owner.get(p, -1) for p in range(4)], np.int64)
    return withhold(
        AssignedPartitions(ids, [TOPIC], np.array([0, 4]), assigned),
        [None] * len(ids),
        Claims.of([{TOPIC: claimed[m][0]} if m in claimed else {} for m in ids]),
        np.array([claimed[m][1] if m in claimed else -1 for m in ids], np.int64),
        last,
        generation,
    )


@pytest.mark.parametrize(
    ("claimed", "expected"),
    [
        pytest.param({"m1": ([2], 7), "m2": ([2], 7)}, 0, id="as-late-as-any"),
        pytest.param({"m1": ([2], 7), "m2": ([2], 5)}, 0, id="the-latest"),
        # m2 reads on until it learns that it must not.
        pytest.param({"m1": ([2], 5), "m2": ([2], 7)}, 1, id="an-older-one"),
        pytest.param({"m1": ([2], -1), "m2": ([2], 7)}, 1, id="an-unknown-one"),
        pytest.param({"m1": ([2], 5), "m2": ([2], 8)}, 0, id="older-than-an-unissued-one"),
    ],
)
def test_latest_claim_keeps_the_partition(claimed: Claimed, expected: int) -> None:
    assert decide({"m1": [0, 1, 2, 3], "m2": []}, claimed).withheld == expected


@pytest.mark.parametrize(
    ("generation", "last_generation", "withheld"),
    [(8, 7, 0), (8, 6, 4), (8, None, 4), (8, 8, 4), (-1, -1, 4)],
)
def test_only_the_preceding_assignment_checks_claims(
    generation: int, last_generation: int | None, withheld: int
) -> None:
    plan = {"m1": [0, 1, 2, 3]}
    last = None
    if last_generation is not None:
        last = decide(plan, {}, generation=last_generation).ownership
    # m2 was not in that assignment.
    result = decide(plan, {"m2": ([0, 1, 2, 3], 6)}, last, generation)
    assert result.withheld == withheld
    assert list(result.ignored) == ([] if withheld else ["m2"])


def test_impossible_claim_does_not_keep_the_partition() -> None:
    """Not even if the new member says that its claim is as late as that of the owner."""
    last = decide({"m1": [0, 1, 2, 3]}, {}, generation=7).ownership
    result = decide(
        {"m1": [0, 1], "m2": [2, 3]}, {"m1": ([0, 1, 2, 3], 7), "m2": ([2, 3], 7)}, last
    )
    assert (result.withheld, list(result.ignored)) == (2, ["m2"])
    assert list(result.assigned["m1"][TOPIC]) == [0, 1]


def test_repeated_generation_makes_every_claim_count() -> None:
    """Members may have received either of them."""
    first = decide({"m1": [0, 1], "m2": [2, 3]}, {}).ownership
    assert decide({"m1": [0, 1, 2, 3]}, {}, first, 8).ownership is None


def test_claims_on_missing_partitions_must_be_revoked() -> None:
    """The topic may be there again in the next rebalance."""
    result = decide({"m1": [0]}, {"m1": ([0, 9], 7)})
    assert result.withheld == 0
    assert result.ownership is not None
    assert result.ownership.revocation_requested.keys(["m1"]) == [("m1", TOPIC, 9)]


def test_only_the_unrevoked_claim_expires() -> None:
    first = decide({"m1": [0], "m2": [1, 2, 3]}, {"m1": ([0, 1], 7)}).ownership
    assert first is not None
    late = replace(first, timeouts=first.timeouts + MAX_REVOCATION_TIMEOUTS)
    result = decide({"m1": [], "m2": [0, 1, 2, 3]}, {"m1": ([0, 1], 8)}, late, 9)
    # Partition 0 is new among those to revoke.
    assert result.withheld == 1
    assert list(result.assigned["m2"][TOPIC]) == [1, 2, 3]


# ---- Groups of cooperative and eager members: unique owners, at most two rounds, optimal plans.

mixed_names = st.sampled_from([f"m{number}" for number in range(6)])
leaders = st.lists(racks, min_size=1, max_size=14)
members = st.dictionaries(
    mixed_names, st.builds(ModelMember, eager=st.booleans(), rack=racks), min_size=1, max_size=5
)


@st.composite
def mixed_histories(draw: st.DrawFn) -> ModelGroup:
    """Draw a group after joins, leaves, moved leaders and rebalances that some members miss."""
    group = ModelGroup(draw(leaders), members=draw(members))
    for _ in range(draw(st.integers(0, 6))):
        step = draw(st.sampled_from(["join", "leave", "move", "lead", "rebalance", "settle"]))
        if step == "join":
            group.members[draw(mixed_names)] = ModelMember(draw(st.booleans()), draw(racks))
        elif step == "leave" and len(group.members) > 1:
            del group.members[draw(st.sampled_from(sorted(group.members)))]
        elif step == "move":
            count = len(group.leaders)
            group.leaders = draw(st.lists(racks, min_size=count, max_size=count))
        elif step == "lead":
            # The next leader has not made the last assignment.
            group.leadership.follow()
        elif step == "settle":
            group.settle()
        else:
            receivers = draw(st.permutations(sorted(group.members)))
            group.rebalance(receivers[: draw(st.integers(0, len(receivers)))])
    return group


@given(mixed_histories())
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
    group.protocol = sticky_protocol(cooperative=False)
    group.members["m3"] = ModelMember(eager=True, rack="a")
    with pytest.raises(TwoOwnersError):
        # m3 receives its assignment first, while the cooperative members still read.
        group.rebalance(["m3", "m0", "m1", "m2"])
