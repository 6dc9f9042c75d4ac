"""Cooperative rebalances round by round, without brokers."""

from __future__ import annotations

from typing import Any

import pytest

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from tests.assignors.kafka_python.test_assignors import (
    RACKS,
    Recorder,
    every,
    handed_out,
    replaced,
    shares,
)
from tests.support.kafka_python import cluster_metadata, joined, subscription_bytes

Owned = dict[str, dict[str, list[int]]]
CLUSTER = cluster_metadata(RACKS, {"t": [0, 0, 2, 2]})


def member(
    name: str, owned: list[int], generation: int = 1, topics: tuple[str, ...] = ("t",)
) -> Any:
    return joined(
        name,
        subscription_bytes(
            topics, rack="a", owned={"t": owned} if owned else {}, generation=generation
        ),
    )


def planned(plan: dict[str, list[int]]) -> Any:
    return replaced(Sticky(), Recorder({m: {"t": ps} for m, ps in plan.items()}))


def after(strategy: Any, *members: Any) -> dict[str, list[int]]:
    return {m: ts.get("t", []) for m, ts in shares(strategy.assign(CLUSTER, members)).items()}


def test_a_partition_that_another_reads_is_withheld() -> None:
    strategy = planned({"m1": [0, 1], "m2": [2, 3]})
    assert after(strategy, member("m1", [0, 1, 2, 3]), member("m2", [])) == {
        "m1": [0, 1],
        "m2": [],
    }


def test_a_partition_that_nobody_reads_is_not() -> None:
    strategy = planned({"m1": [0, 1], "m2": [2, 3]})
    assert after(strategy, member("m1", [0, 1]), member("m2", [])) == {"m1": [0, 1], "m2": [2, 3]}


@pytest.mark.parametrize("generations", [(1, 1), (1, 2), (2, 1), (-1, 5)])
def test_doubly_claimed_goes_to_no_third_whatever_the_generations(
    generations: tuple[int, int],
) -> None:
    strategy = planned({"m1": [0], "m2": [1], "m3": [2, 3]})
    claims = [member(f"m{i + 1}", [2], generations[i]) for i in range(2)]
    assert after(strategy, *claims, member("m3", [3])) == {"m1": [0], "m2": [1], "m3": [3]}


def test_doubly_claimed_may_stay_with_one_of_them() -> None:
    strategy = planned({"m1": [2], "m2": []})
    assert after(strategy, member("m1", [2]), member("m2", [2])) == {"m1": [2], "m2": []}


def test_also_where_the_claimant_no_longer_subscribes() -> None:
    strategy = planned({"m2": [0, 1, 2, 3]})
    assert after(strategy, member("m1", [3], topics=("u",)), member("m2", [])) == {
        "m1": [],
        "m2": [0, 1, 2],
    }


def test_claims_on_nothing_real_withhold_nothing() -> None:
    strategy = planned({"m1": [0, 1], "m2": [2, 3]})
    assert after(strategy, member("m1", [-4, 400]), member("m2", [])) == {
        "m1": [0, 1],
        "m2": [2, 3],
    }


def run_rounds(owned: Owned, racks: dict[str, str], cluster: Any) -> list[Owned]:
    """Rebalance as a group of kafka-python consumers would until nobody gives anything up."""
    strategy = Sticky()
    rounds: list[Owned] = []
    while True:
        members = [
            joined(
                m,
                subscription_bytes(
                    ["t", "u"], rack=rack, owned=owned.get(m, {}), generation=len(rounds)
                ),
            )
            for m, rack in racks.items()
        ]
        answer = strategy.assign(cluster, members)
        new = shares(answer)
        rounds.append(new)
        revoked = [
            (m, t, p)
            for m in racks
            for t, ps in owned.get(m, {}).items()
            for p in ps
            if p not in new[m].get(t, [])
        ]
        owned = new
        if not revoked:
            assert handed_out(answer) == every("t", 36) + every("u", 11)
            return rounds


def test_leave_join_and_leader_moves_take_two_rounds_at_most_and_hand_nothing_back() -> None:
    racks = {f"m{i}": "aabbcc"[i] for i in range(6)}
    leaders = {"t": [p * 5 % 6 for p in range(36)], "u": [p % 6 for p in range(11)]}
    owned = run_rounds({}, racks, cluster_metadata(RACKS, leaders))[-1]
    joiner = {**racks, "m7": "b"}
    leaver = {m: r for m, r in joiner.items() if m != "m0"}
    moved = {"t": [(p * 5 + (p % 4 == 0)) % 6 for p in range(36)], "u": leaders["u"]}
    for now, leading in ((joiner, leaders), (leaver, leaders), (leaver, moved)):
        rounds = run_rounds(owned, now, cluster_metadata(RACKS, leading))
        assert len(rounds) <= 2
        for name in owned.keys() & now.keys():
            for topic in ("t", "u"):
                had, first = set(owned[name].get(topic, [])), set(rounds[0][name].get(topic, []))
                final = set(rounds[-1][name].get(topic, []))
                assert not (had - first) & final
        owned = rounds[-1]
