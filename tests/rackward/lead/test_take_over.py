"""Who leads a group next, and when a leader is removed."""

from __future__ import annotations

import uuid
from typing import ClassVar

import pytest

from rackward.kafka.groups import LEAD_CLIENT_ID, leads_for_rackward
from rackward.lead.take_over import (
    Decision,
    TakeOver,
    TakeOverPolicy,
    TakeOverState,
    bucket,
    decide,
    decide_outside,
    id_cost,
    members_ahead,
    removed_with_leader,
)

REMOVE = TakeOverPolicy(TakeOver.REMOVE)
ME = f"{LEAD_CLIENT_ID}-1"
OTHER = f"{LEAD_CLIENT_ID}-2"


@pytest.mark.parametrize(
    ("key", "in_16", "in_32"),
    # As Java 17 prints (h ^ (h >>> 16)) & 15 and & 31 of key.hashCode().
    [
        ("hello", 11, 27),
        ("Hello World", 2, 18),
        ("consumer-orders-1-7d0b6a0e-5f5c-4a6e-9f5b-0d3f2c1b4a59", 11, 27),
        ("\u00e4\u00f6", 2, 18),
        ("\U0001f600", 8, 24),
    ],
)
def test_buckets_are_those_of_a_java_hash_map(key: str, in_16: int, in_32: int) -> None:
    assert (bucket(key, 16), bucket(key, 32)) == (in_16, in_32)


def test_the_order_is_that_of_a_java_hash_map() -> None:
    # As Java 17 prints the keys of a HashMap that was filled with member-0 to member-13.
    order = [f"member-{n}" for n in (5, 6, 3, 13, 4, 12, 9, 11, 10, 7, 8, 1, 2, 0)]
    members = [f"member-{n}" for n in range(14)]
    assert sorted(members, key=lambda member: bucket(member, 32)) == order


@pytest.mark.parametrize(
    ("members", "buckets"), [(0, 16), (12, 16), (13, 32), (24, 32), (25, 64), (1000, 2048)]
)
def test_a_map_grows_when_it_is_three_quarters_full(members: int, buckets: int) -> None:
    others = [f"c-{uuid.UUID(int=n)}" for n in range(max(0, members - 1))]
    candidate = f"c-{uuid.UUID(int=5000)}"
    own = bucket(candidate, buckets)
    assert members_ahead(candidate, others) == [m for m in others if bucket(m, buckets) <= own]


def test_a_member_of_the_same_bucket_is_ahead_of_a_later_one() -> None:
    assert bucket("a", 16) == bucket("ab", 16) == 1
    assert members_ahead("a", ["ab"]) == ["ab"]
    assert members_ahead("ab", ["a"]) == ["a"]


class TestIdCost:
    FOREIGN: ClassVar[list[str]] = [f"c-{uuid.UUID(int=n)}" for n in range(1, 6)]

    def costs(self, others: list[str], mode: TakeOver) -> dict[str, int]:
        """Return the cost of many ids."""
        ids = [f"{LEAD_CLIENT_ID}-{uuid.UUID(int=n)}" for n in range(100, 400)]
        return {each: id_cost(each, others, mode) for each in ids}

    def test_to_wait_the_second_is_the_best(self) -> None:
        costs = self.costs(self.FOREIGN, TakeOver.WAIT)
        for each, cost in costs.items():
            ahead = len(members_ahead(each, self.FOREIGN))
            assert (cost == 0) == (ahead == 1)
            assert cost < 5 or ahead == 0

    def test_behind_another_rackward_process_the_first_is_the_best(self) -> None:
        costs = self.costs([*self.FOREIGN, OTHER], TakeOver.WAIT)
        ahead = {each: len(members_ahead(each, self.FOREIGN)) for each in costs}
        assert costs == {each: n - min(ahead.values()) for each, n in ahead.items()}

    @pytest.mark.parametrize("mode", TakeOver)
    @pytest.mark.parametrize("others", [[], FOREIGN, [*FOREIGN, OTHER], FOREIGN[:1], ["a", "ab"]])
    def test_the_best_id_costs_nothing(self, others: list[str], mode: TakeOver) -> None:
        assert min(self.costs(others, mode).values()) == 0


class TestDecide:
    MEMBERS: ClassVar[list[str]] = [f"c-{uuid.UUID(int=n)}" for n in range(1, 6)]

    def decide(
        self,
        leader: str = "c-1",
        *others: str,
        me: str = ME,
        static: tuple[str, ...] = (),
        policy: TakeOverPolicy = REMOVE,
        state: TakeOverState | None = None,
        now: float = 1000.0,
    ) -> Decision:
        members = {m: f"instance-{m}" if m in static else None for m in (leader, *others)}
        return decide(me, leader, members, policy, state or TakeOverState(), now)

    def test_waiting_removes_nobody(self) -> None:
        assert self.decide(policy=TakeOverPolicy(TakeOver.WAIT)).remove == ()

    def test_the_leader_is_removed_and_those_that_would_lead_next(self) -> None:
        leader, *others = self.MEMBERS
        for me in (f"{LEAD_CLIENT_ID}-{uuid.UUID(int=n)}" for n in range(100)):
            ahead = {*members_ahead(me, self.MEMBERS)} - {leader}
            removed = self.decide(leader, *others, me=me).remove
            assert removed == (leader, *sorted(ahead))

    def test_no_member_that_is_there_to_lead_is_removed(self) -> None:
        assert self.decide(OTHER).remove == ()
        ids = (f"{LEAD_CLIENT_ID}-{uuid.UUID(int=n)}" for n in range(100))
        assert all(self.decide("c-1", OTHER, me=me).remove in ((), ("c-1",)) for me in ids)

    def test_of_several_only_the_lowest_id_removes(self) -> None:
        assert self.decide("c-1", OTHER).remove == ("c-1",)
        assert self.decide("c-1", f"{LEAD_CLIENT_ID}-0").remove == ()

    def test_static_members_are_removed_only_if_permitted(self) -> None:
        assert self.decide(static=("c-1",)).remove == ()
        me = next(
            me
            for me in (f"{LEAD_CLIENT_ID}-{uuid.UUID(int=n)}" for n in range(100))
            if members_ahead(me, ["c-2"])
        )
        assert self.decide("c-1", "c-2", me=me, static=("c-2",)).remove == ("c-1",)
        permitted = TakeOverPolicy(TakeOver.REMOVE, remove_static=True)
        static = ("c-1", "c-2")
        assert self.decide(*static, me=me, static=static, policy=permitted).remove == static

    def test_the_cool_down_ends(self) -> None:
        state = TakeOverState().removed(1000.0)
        assert self.decide(state=state, now=1059.0).remove == ()
        assert self.decide(state=state, now=1020.0).retry_after == 40.0
        assert self.decide(state=state, now=1060.0).remove == ("c-1",)

    def test_it_stops_after_so_many_attempts_until_it_has_led(self) -> None:
        state = TakeOverState()
        for attempt in range(3):
            state = state.removed(100.0 * attempt)
        assert self.decide(state=state).remove == ()
        assert self.decide(state=state.leading()).remove == ("c-1",)

    def test_leading_does_not_end_the_cool_down(self) -> None:
        state = TakeOverState().removed(1000.0).leading()
        assert self.decide(state=state, now=1010.0).remove == ()


def test_members_that_lead_are_recognised_by_their_client_id() -> None:
    assert leads_for_rackward(f"rackward-lead-{uuid.uuid4()}")
    assert leads_for_rackward(f"rackward-lead-team-{uuid.uuid4()}")
    assert not leads_for_rackward(f"rackward-{uuid.uuid4()}")


@pytest.mark.parametrize(
    ("others", "policy", "removed_at", "removed"),
    [
        ({"c-2": None, "c-1": None}, REMOVE, None, ("c-1", "c-2")),
        ({"c-1": None}, TakeOverPolicy(TakeOver.WAIT), None, ()),
        ({"c-1": None, OTHER: None}, REMOVE, None, ()),
        ({"c-1": None, "c-2": "static"}, REMOVE, None, ()),
        ({"c-1": "s"}, TakeOverPolicy(TakeOver.REMOVE, remove_static=True), None, ("c-1",)),
        ({"c-1": None}, REMOVE, 990.0, ()),
    ],
    ids=["all", "waiting", "another process", "static", "static permitted", "cool-down"],
)
def test_from_outside_all_members_are_removed_or_none(
    others: dict[str, str | None],
    policy: TakeOverPolicy,
    removed_at: float | None,
    removed: tuple[str, ...],
) -> None:
    state = TakeOverState(removed_at, int(removed_at is not None))
    assert decide_outside(others, policy, state, 1000.0).remove == removed


@pytest.mark.parametrize("seed", range(20))
def test_a_dry_run_names_the_members_that_are_removed(seed: int) -> None:
    """With an id in the first bucket, which 64 tries find for small groups."""
    others = {f"c-{uuid.UUID(int=seed * 1000 + n)}": None for n in range(3)}
    me = next(
        candidate
        for n in range(10_000)
        if bucket(candidate := f"{LEAD_CLIENT_ID}-{uuid.UUID(int=n)}", 16) == 0
    )
    also = removed_with_leader(others, REMOVE, outside=False)
    for leader in others:
        decision = decide(me, leader, others, REMOVE, TakeOverState(), 0.0)
        assert set(decision.remove) == {leader, *also}


def test_static_members_are_not_removed_with_the_leader() -> None:
    first = next(f"c-{n}" for n in range(1000) if bucket(f"c-{n}", 16) == 0)
    others = {first: "static", "other": None}
    assert removed_with_leader(others, REMOVE, outside=False) == ()
    static = TakeOverPolicy(TakeOver.REMOVE, remove_static=True)
    assert removed_with_leader(others, static, outside=False) == (first,)
    assert removed_with_leader(others, REMOVE, outside=True) == ()
    assert removed_with_leader(others, static, outside=True) == (first, "other")


def test_no_member_with_an_assignor_of_rackward_is_removed() -> None:
    own = "leader-rack-aware-range"
    decision = decide(ME, "a", {"a": None}, REMOVE, TakeOverState(), 0.0, own)
    assert decision.remove == ()
    assert own in decision.reason
    assert decide(ME, "a", {"a": None}, REMOVE, TakeOverState(), 0.0, "range").remove
