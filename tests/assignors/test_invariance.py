"""A plan depends neither on the order of the input nor on the hash seed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Plan
from tests.support.random_groups import MIDDLE, Group, random_group


def plans(group: Group) -> Iterator[Plan]:
    """Yield both assignors' plans of a group."""
    max_imbalance = group.max_imbalance
    for assignor in (
        LeaderRackAwareCooperativeSticky(max_imbalance=max_imbalance),
        LeaderRackAwareRange(co_partitioned=group.co_partitioned, max_imbalance=max_imbalance),
    ):
        yield assignor.assign(group.members, group.leader_racks, group.weights)


def shuffled(group: Group, rng: Random) -> Group:
    """Return the same group in another order of everything whose order has no meaning."""
    members = [
        replace(
            member,
            topics=frozenset(rng.sample(sorted(member.topics), len(member.topics))),
            owned={
                topic: rng.sample(member.owned[topic], len(member.owned[topic]))
                for topic in rng.sample(sorted(member.owned), len(member.owned))
            },
        )
        for member in rng.sample(group.members, len(group.members))
    ]
    topics = rng.sample(sorted(group.leader_racks), len(group.leader_racks))
    weights = group.weights
    return replace(
        group,
        members=tuple(members),
        leader_racks={topic: group.leader_racks[topic] for topic in topics},
        weights=None if weights is None else {t: weights[t] for t in topics if t in weights},
    )


@pytest.mark.parametrize("chunk", range(2))
def test_the_order_of_members_topics_and_claims_does_not_matter(chunk: int) -> None:
    for number in range(chunk * 75, chunk * 75 + 75):
        group = random_group(f"order-{number}", MIDDLE, imbalance=number % 4 == 0)
        expected = list(plans(group))
        for again in range(2):
            other = shuffled(group, Random(f"{number}-{again}"))
            assert list(plans(other)) == expected, f"seed order-{number}"


def test_the_hash_seed_does_not_matter() -> None:
    def printed(hash_seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "tests.assignors.test_invariance"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout

    first = printed("1")
    assert len(json.loads(first)) == 160
    assert printed("4242") == first


def test_the_input_is_not_modified() -> None:
    for number in range(50):
        group = random_group(f"untouched-{number}", MIDDLE)
        list(plans(group))
        # As text, since a NaN among the weights does not equal itself.
        assert repr(group) == repr(random_group(f"untouched-{number}", MIDDLE))


def print_plans() -> None:
    """Print the plans of some groups as JSON, for another process to compare."""
    all_partitions = [
        dict(plan.partitions)
        for number in range(80)
        for plan in plans(random_group(f"hash-{number}", MIDDLE, imbalance=number % 4 == 0))
    ]
    print(json.dumps(all_partitions))


if __name__ == "__main__":
    print_plans()
